//! A JSON document as it was received: its bytes, a compact index over them, and edits by span.
//!
//! The document is parsed once, strictly (RFC 8259), into a tape of sixteen bytes a value; no value is allocated or converted until asked for.
//! Numbers stay text, strings stay spans: what nothing edits goes out as the very bytes that came in.
//! A `\u` escape of half a surrogate pair is accepted (the grammar allows it and its bytes pass unchanged); decoded, it reads as U+FFFD.

mod edit;
mod node;
mod parse;
pub mod pattern;
mod text;
mod write;

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;

pub use edit::{EditError, JsonEdits};
pub use node::{Items, JsonRef, Kind, Members};
pub use write::{push_f64, push_string, push_string_content};

/// The largest document that can be indexed, whatever the caller's own limit: 256 MiB.
pub const MAX_DOCUMENT: usize = 1 << 28;

/// How a document is parsed. The defaults are those for a body from a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonOptions {
    /// Containers within containers; at most 512.
    pub max_depth: usize,
    /// Bytes of the whole document; at most [`MAX_DOCUMENT`].
    pub max_size: usize,
    /// What a key that stands twice in one object means.
    pub repeats: Repeats,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self { max_depth: 64, max_size: MAX_DOCUMENT, repeats: Repeats::LastWins }
    }
}

/// What a key that stands twice in one object means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// A fault of the document.
    Refuse,
    /// Look-ups and iteration see the last; [`JsonView::has_repeats`] remembers that there are others.
    LastWins,
}

/// A parsed JSON document over the bytes that were received. Cloning costs two reference counts.
#[derive(Clone)]
pub struct JsonView {
    bytes: Bytes,
    tape: Arc<parse::Tape>,
}

impl JsonView {
    /// Parses `bytes` with the default options.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, JsonError> {
        Self::parse_with(bytes, &JsonOptions::default())
    }

    /// Parses `bytes` within the limits of `options`.
    pub fn parse_with(bytes: impl Into<Bytes>, options: &JsonOptions) -> Result<Self, JsonError> {
        let bytes = bytes.into();
        let tape = Arc::new(parse::parse(&bytes, options)?);
        Ok(Self { bytes, tape })
    }

    /// The document `null`.
    pub fn null() -> Self {
        Self { bytes: Bytes::from_static(b"null"), tape: Arc::new(parse::Tape::null()) }
    }

    /// The outermost value.
    pub fn root(&self) -> JsonRef<'_> {
        JsonRef::new(self, 0)
    }

    /// The value at `path`, or nothing where a key is absent, an index is out of range or a step goes into a value that is not a container.
    pub fn get(&self, path: &[Step<'_>]) -> Option<JsonRef<'_>> {
        path.iter().try_fold(self.root(), |at, step| match step {
            Step::Key(key) => at.get(key),
            Step::Index(index) => at.index(*index),
        })
    }

    /// The document's bytes: those that were received, unless an edit made this view.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The document's bytes, shared, not copied.
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// True if some object has a key twice. Only [`Repeats::LastWins`] lets such a document in.
    pub fn has_repeats(&self) -> bool {
        self.tape.repeats
    }

    /// How many values the index holds, keys counted.
    pub fn nodes(&self) -> usize {
        self.tape.nodes.len()
    }

    /// Starts a batch of edits; each is told in terms of this document as it stands now.
    pub fn edits(&self) -> JsonEdits<'_> {
        JsonEdits::new(self)
    }

    /// Replaces the value at `path`, or adds it as a new member or at the end of a list. Re-indexes the document: for several edits use [`JsonView::edits`].
    pub fn set(&mut self, path: &[Step<'_>], raw: impl Into<Bytes>) -> Result<(), EditError> {
        self.edit(|edits| edits.set(path, raw))
    }

    /// Takes the value at `path` away, with its key; nothing happens where there is none.
    pub fn remove(&mut self, path: &[Step<'_>]) -> Result<(), EditError> {
        self.edit(|edits| edits.remove(path))
    }

    /// Puts a value into the list at `path`, before the item now at `index` (or at the end).
    pub fn insert(&mut self, path: &[Step<'_>], index: usize, raw: impl Into<Bytes>) -> Result<(), EditError> {
        self.edit(|edits| edits.insert(path, index, raw))
    }

    fn edit(&mut self, change: impl FnOnce(&mut JsonEdits<'_>) -> Result<(), EditError>) -> Result<(), EditError> {
        let mut edits = self.edits();
        change(&mut edits)?;
        let edited = edits.apply()?;
        *self = edited;
        Ok(())
    }
}

impl fmt::Debug for JsonView {
    /// Tells sizes only: a body may hold what no log should.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonView").field("bytes", &self.bytes.len()).field("nodes", &self.nodes()).finish()
    }
}

/// One step of a path into a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A member of an object, by its decoded key.
    Key(&'a str),
    /// An item of a list, from zero.
    Index(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// A value that keeps its document alive; made from a [`JsonRef`] with [`JsonRef::to_owned`].
#[derive(Debug, Clone)]
pub struct JsonValue {
    view: JsonView,
    node: u32,
}

impl JsonValue {
    /// The value, for reading.
    pub fn as_ref(&self) -> JsonRef<'_> {
        JsonRef::new(&self.view, self.node)
    }

    /// The value as a document of its own: the same bytes, indexed anew unless it is a whole document already.
    pub fn into_view(self) -> JsonView {
        if self.node == 0 {
            return self.view;
        }
        self.as_ref().to_view()
    }
}

impl From<JsonView> for JsonValue {
    fn from(view: JsonView) -> Self {
        Self { view, node: 0 }
    }
}

/// Why a document is not JSON, or is outside the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// The byte where it was noticed, from zero.
    pub offset: usize,
    message: Cow<'static, str>,
}

/// What is wrong with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// The text breaks the grammar.
    Syntax,
    /// The bytes are not UTF-8.
    Utf8,
    /// Containers nest deeper than allowed.
    Depth,
    /// The document is larger than allowed.
    Size,
    /// A key stands twice in one object.
    Repeat,
}

impl JsonError {
    pub(crate) fn new(kind: JsonErrorKind, offset: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, offset, message: message.into() }
    }

    /// What is wrong, without the place; holds nothing of the document but the repeated key.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The place as line and column (in characters), both from one.
    pub fn line_column(&self, document: &[u8]) -> (usize, usize) {
        let before = &document[..self.offset.min(document.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        (line, 1 + String::from_utf8_lossy(&before[start..]).chars().count())
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for JsonError {}

#[cfg(test)]
mod tests;
