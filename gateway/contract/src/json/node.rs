//! Reading one value of a document.

use std::{borrow::Cow, fmt};

use bytes::Bytes;

use super::{
    JsonOptions, JsonValue, JsonView,
    parse::{self, Node},
    text,
};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, kept as text.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

/// One value of a [`JsonView`], by reference; copies freely.
#[derive(Clone, Copy)]
pub struct JsonRef<'a> {
    view: &'a JsonView,
    node: u32,
}

impl<'a> JsonRef<'a> {
    pub(super) fn new(view: &'a JsonView, node: u32) -> Self {
        Self { view, node }
    }

    fn node(self) -> Node {
        self.view.tape.nodes[self.node as usize]
    }

    pub(super) fn id(self) -> u32 {
        self.node
    }

    pub(super) fn view(self) -> &'a JsonView {
        self.view
    }

    /// What the value is.
    pub fn kind(self) -> Kind {
        match self.node().kind() {
            parse::NULL => Kind::Null,
            parse::FALSE | parse::TRUE => Kind::Bool,
            parse::NUMBER => Kind::Number,
            parse::STRING => Kind::String,
            parse::ARRAY => Kind::Array,
            _ => Kind::Object,
        }
    }

    /// The value's own text.
    pub fn raw(self) -> &'a [u8] {
        let node = self.node();
        &self.view.bytes[node.start as usize..node.end as usize]
    }

    /// The value's own text as `str`.
    pub fn raw_str(self) -> &'a str {
        // Invariant: the document is UTF-8, and a value begins and ends with an ASCII byte.
        std::str::from_utf8(self.raw()).unwrap_or_default()
    }

    /// The value's own text, sharing the document's memory.
    pub fn raw_bytes(self) -> Bytes {
        let node = self.node();
        self.view.bytes.slice(node.start as usize..node.end as usize)
    }

    /// The byte of the document where the value begins.
    pub fn offset(self) -> usize {
        self.node().start as usize
    }

    /// True for `null`.
    pub fn is_null(self) -> bool {
        self.node().kind() == parse::NULL
    }

    /// The value of `true` or `false`.
    pub fn as_bool(self) -> Option<bool> {
        match self.node().kind() {
            parse::TRUE => Some(true),
            parse::FALSE => Some(false),
            _ => None,
        }
    }

    /// The text of a string; borrowed unless it holds escapes.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        let node = self.node();
        if node.kind() != parse::STRING {
            return None;
        }
        let inner = &self.view.bytes[node.start as usize + 1..node.end as usize - 1];
        match node.escaped() {
            false => std::str::from_utf8(inner).ok().map(Cow::Borrowed),
            true => Some(text::decode(inner)),
        }
    }

    /// The digits of a number, as they were written.
    pub fn as_number(self) -> Option<&'a str> {
        (self.node().kind() == parse::NUMBER).then(|| self.raw_str())
    }

    /// A number written as an integer that fits.
    pub fn as_i64(self) -> Option<i64> {
        self.as_number()?.parse().ok()
    }

    /// A number written as an integer that fits.
    pub fn as_u64(self) -> Option<u64> {
        self.as_number()?.parse().ok()
    }

    /// A number, rounded to the nearest double; beyond their range it is infinite.
    pub fn as_f64(self) -> Option<f64> {
        self.as_number()?.parse().ok()
    }

    /// Items of a list or distinct keys of an object; 0 for everything else.
    pub fn len(self) -> usize {
        self.node().count()
    }

    /// True for a container with nothing in it, and for everything that is no container.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The member of an object by its decoded key; of a repeated key, the last.
    pub fn get(self, key: &str) -> Option<JsonRef<'a>> {
        let (nodes, bytes) = (&self.view.tape.nodes, &self.view.bytes);
        let object = self.node();
        if object.kind() != parse::OBJECT {
            return None;
        }
        let mut at = self.node + 1;
        while at < object.next {
            let name = nodes[at as usize];
            let inner = &bytes[name.start as usize + 1..name.end as usize - 1];
            let found = match name.escaped() {
                false => inner == key.as_bytes(),
                true => text::decode(inner) == key,
            };
            if found && !name.shadowed() {
                return Some(Self::new(self.view, at + 1));
            }
            at = nodes[at as usize + 1].next;
        }
        None
    }

    /// The item of a list, from zero.
    pub fn index(self, index: usize) -> Option<JsonRef<'a>> {
        self.items().nth(index)
    }

    /// The items of a list; none for everything else.
    pub fn items(self) -> Items<'a> {
        let node = self.node();
        let end = if node.kind() == parse::ARRAY { node.next } else { 0 };
        Items { view: self.view, at: self.node + 1, end, left: if end == 0 { 0 } else { node.count() } }
    }

    /// The members of an object, key and value, in the order of the text; of a repeated key, the last only. None for everything else.
    pub fn members(self) -> Members<'a> {
        let node = self.node();
        Members { view: self.view, at: self.node + 1, end: if node.kind() == parse::OBJECT { node.next } else { 0 } }
    }

    /// Keeps the document alive beside the value.
    pub fn to_owned(self) -> JsonValue {
        JsonValue { view: self.view.clone(), node: self.node }
    }

    /// The value as a document of its own: the same bytes, indexed anew unless it is a whole document already.
    pub fn to_view(self) -> JsonView {
        if self.node == 0 {
            return self.view.clone();
        }
        // A part of a valid document is valid, and no deeper and no larger.
        let options = JsonOptions { max_depth: 512, ..JsonOptions::default() };
        JsonView::parse_with(self.raw_bytes(), &options).unwrap_or_else(|_| JsonView::null())
    }
}

impl fmt::Debug for JsonRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonRef({:?}, {} bytes)", self.kind(), self.raw().len())
    }
}

/// The items of a list.
#[derive(Clone)]
pub struct Items<'a> {
    view: &'a JsonView,
    at: u32,
    end: u32,
    left: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = JsonRef<'a>;

    fn next(&mut self) -> Option<JsonRef<'a>> {
        if self.at >= self.end {
            return None;
        }
        let item = JsonRef::new(self.view, self.at);
        self.at = item.node().next;
        self.left -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The members of an object.
#[derive(Clone)]
pub struct Members<'a> {
    view: &'a JsonView,
    at: u32,
    end: u32,
}

impl<'a> Iterator for Members<'a> {
    /// The key (a string) and the value.
    type Item = (JsonRef<'a>, JsonRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.end {
            let key = JsonRef::new(self.view, self.at);
            let value = JsonRef::new(self.view, self.at + 1);
            self.at = value.node().next;
            if !key.node().shadowed() {
                return Some((key, value));
            }
        }
        None
    }
}
