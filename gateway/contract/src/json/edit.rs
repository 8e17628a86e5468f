//! A batch of edits to a document, each in terms of the document as it was; what they do not touch keeps its bytes.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

use super::{JsonError, JsonOptions, JsonRef, JsonView, Kind, MAX_DOCUMENT, Step, push_string};

/// Edits that are applied together, in one pass over the document.
///
/// Where one edit lies within a value that another replaces or takes away, the outer one holds; of two edits of one value, the later.
/// A document with repeated keys loses the earlier ones as soon as anything is edited, so that what a mask takes away is gone in every reading.
pub struct JsonEdits<'a> {
    view: &'a JsonView,
    /// What becomes of a value, by its node.
    values: BTreeMap<u32, Edit>,
    /// What is added to a container, by its node.
    added: BTreeMap<u32, Vec<Added>>,
    drop_repeats: bool,
}

enum Edit {
    Replace(Bytes),
    Remove,
}

struct Added {
    /// Before the item of this number; members are always added at the end.
    before: usize,
    key: Option<String>,
    raw: Bytes,
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The path leads through a value that is not there or is no container.
    NoSuchPlace,
    /// The whole document cannot be taken away.
    Root,
    /// What should be put in is not JSON.
    Value(JsonError),
    /// The edited document is no longer within the limits.
    Result(JsonError),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPlace => f.write_str("the path leads to no container"),
            Self::Root => f.write_str("the whole document cannot be taken away"),
            Self::Value(cause) => write!(f, "the new value is not JSON: {cause}"),
            Self::Result(cause) => write!(f, "the edited document: {cause}"),
        }
    }
}

impl std::error::Error for EditError {}

impl<'a> JsonEdits<'a> {
    pub(super) fn new(view: &'a JsonView) -> Self {
        Self { view, values: BTreeMap::new(), added: BTreeMap::new(), drop_repeats: false }
    }

    /// Replaces the value at `path`; where only its last step is missing, adds the member, or the item at the end of the list.
    pub fn set(&mut self, path: &[Step<'_>], raw: impl Into<Bytes>) -> Result<(), EditError> {
        if let Some(value) = self.view.get(path) {
            return self.replace(value, raw);
        }
        let Some((last, parents)) = path.split_last() else { return Err(EditError::NoSuchPlace) };
        let parent = self.view.get(parents).ok_or(EditError::NoSuchPlace)?;
        match (parent.kind(), last) {
            (Kind::Object, Step::Key(key)) => self.add(parent, usize::MAX, Some(key), raw),
            (Kind::Array, Step::Index(index)) if *index == parent.len() => self.add(parent, *index, None, raw),
            _ => Err(EditError::NoSuchPlace),
        }
    }

    /// Takes the value at `path` away, with its key; nothing happens where there is none.
    pub fn remove(&mut self, path: &[Step<'_>]) -> Result<(), EditError> {
        self.view.get(path).map_or(Ok(()), |value| self.remove_value(value))
    }

    /// Puts a value into the list at `path`, before the item that is at `index` in the document as it was, or at the end.
    pub fn insert(&mut self, path: &[Step<'_>], index: usize, raw: impl Into<Bytes>) -> Result<(), EditError> {
        match self.view.get(path) {
            Some(list) if list.kind() == Kind::Array => self.add(list, index, None, raw),
            _ => Err(EditError::NoSuchPlace),
        }
    }

    /// Replaces a value of this document that the caller holds. `raw` must be JSON.
    pub fn replace(&mut self, value: JsonRef<'_>, raw: impl Into<Bytes>) -> Result<(), EditError> {
        let raw = checked(raw)?;
        self.values.insert(self.own(value)?, Edit::Replace(raw));
        Ok(())
    }

    /// Takes away a value of this document that the caller holds, with its key.
    pub fn remove_value(&mut self, value: JsonRef<'_>) -> Result<(), EditError> {
        match self.own(value)? {
            0 => Err(EditError::Root),
            node => {
                self.values.insert(node, Edit::Remove);
                Ok(())
            }
        }
    }

    /// Keeps only the last of repeated keys, even if nothing else is edited.
    pub fn drop_repeats(&mut self) {
        self.drop_repeats = self.view.has_repeats();
    }

    /// True if the document would stay as it is.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.added.is_empty() && !self.drop_repeats
    }

    /// The edited document's bytes; the very received ones if nothing is edited.
    pub fn to_bytes(&self) -> Bytes {
        if self.is_empty() {
            return self.view.to_bytes();
        }
        let bytes = self.view.bytes();
        let root = self.view.root();
        let mut out = Vec::with_capacity(bytes.len() + 64);
        out.extend_from_slice(&bytes[..root.offset()]);
        self.write(root, &mut out);
        out.extend_from_slice(&bytes[root.offset() + root.raw().len()..]);
        Bytes::from(out)
    }

    /// The edited document, indexed anew; the same one if nothing is edited.
    pub fn apply(&self) -> Result<JsonView, EditError> {
        if self.is_empty() {
            return Ok(self.view.clone());
        }
        let options = JsonOptions { max_depth: 512, max_size: MAX_DOCUMENT, ..JsonOptions::default() };
        JsonView::parse_with(self.to_bytes(), &options).map_err(EditError::Result)
    }

    fn add(&mut self, container: JsonRef<'_>, before: usize, key: Option<&str>, raw: impl Into<Bytes>) -> Result<(), EditError> {
        let raw = checked(raw)?;
        let added = self.added.entry(container.id()).or_default();
        if let Some(key) = key
            && let Some(earlier) = added.iter_mut().find(|added| added.key.as_deref() == Some(key))
        {
            earlier.raw = raw;
            return Ok(());
        }
        added.push(Added { before, key: key.map(str::to_owned), raw });
        Ok(())
    }

    fn own(&self, value: JsonRef<'_>) -> Result<u32, EditError> {
        if std::ptr::eq(value.view().tape.as_ref(), self.view.tape.as_ref()) { Ok(value.id()) } else { Err(EditError::NoSuchPlace) }
    }

    fn touched(&self, value: JsonRef<'_>) -> bool {
        let range = value.id()..self.view.tape.nodes[value.id() as usize].next;
        self.view.has_repeats() || self.values.range(range.clone()).next().is_some() || self.added.range(range).next().is_some()
    }

    /// Depth is bounded by the parser's limit.
    fn write(&self, value: JsonRef<'a>, out: &mut Vec<u8>) {
        if let Some(Edit::Replace(raw)) = self.values.get(&value.id()) {
            out.extend_from_slice(raw);
            return;
        }
        let kind = value.kind();
        if !matches!(kind, Kind::Array | Kind::Object) || !self.touched(value) {
            out.extend_from_slice(value.raw());
            return;
        }
        let mut container = Container { raw: value.raw(), base: value.offset(), at: 1, any: false };
        let added = self.added.get(&value.id()).map_or(&[][..], Vec::as_slice);
        out.push(container.raw[0]);
        let mut number = 0;
        let mut node = value.id() + 1;
        let end = self.view.tape.nodes[value.id() as usize].next;
        while node < end {
            let key = (kind == Kind::Object).then(|| JsonRef::new(self.view, node));
            let child = JsonRef::new(self.view, node + key.is_some() as u32);
            let shadowed = key.is_some() && self.view.tape.nodes[node as usize].shadowed();
            let first = key.unwrap_or(child);
            let (lead, trail) = container.around(first, child);
            for new in added.iter().filter(|new| new.key.is_none() && new.before == number) {
                container.separate(out);
                out.extend_from_slice(&new.raw);
            }
            if !shadowed && !matches!(self.values.get(&child.id()), Some(Edit::Remove)) {
                container.separate(out);
                out.extend_from_slice(lead);
                out.extend_from_slice(&container.raw[first.offset() - container.base..child.offset() - container.base]);
                self.write(child, out);
                out.extend_from_slice(trail);
            }
            number += 1;
            node = self.view.tape.nodes[child.id() as usize].next;
        }
        for new in added.iter().filter(|new| new.key.is_some() || new.before >= number) {
            container.separate(out);
            if let Some(key) = &new.key {
                push_string(key, out);
                out.push(b':');
            }
            out.extend_from_slice(&new.raw);
        }
        out.push(container.raw[container.raw.len() - 1]);
    }
}

/// A container being written again: each child takes the white space around it along.
struct Container<'a> {
    raw: &'a [u8],
    base: usize,
    /// Behind the last bracket or comma that was passed.
    at: usize,
    any: bool,
}

impl<'a> Container<'a> {
    /// The white space before and after a child, up to the commas or brackets around it.
    fn around(&mut self, first: JsonRef<'_>, child: JsonRef<'_>) -> (&'a [u8], &'a [u8]) {
        let lead = &self.raw[self.at..first.offset() - self.base];
        let end = child.offset() + child.raw().len() - self.base;
        // Only white space stands between a value and the comma or bracket after it.
        let stop = self.raw[end..].iter().position(|byte| matches!(byte, b',' | b']' | b'}')).map_or(self.raw.len(), |at| end + at);
        self.at = stop + 1;
        (lead, &self.raw[end..stop])
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if self.any {
            out.push(b',');
        }
        self.any = true;
    }
}

/// `raw` without white space around it, if it is one JSON value.
fn checked(raw: impl Into<Bytes>) -> Result<Bytes, EditError> {
    let raw = raw.into();
    let view = JsonView::parse(raw).map_err(EditError::Value)?;
    Ok(view.root().raw_bytes())
}
