//! A written value with the place of every key and value: what YAML and JSON have in common.

use std::borrow::Cow;

use crate::source::Span;

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    /// The value's bytes in the file.
    pub span: Span,
    /// The value.
    pub value: Value<'a>,
}

/// A written value. Numbers keep their text, so that no digit is lost.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as JSON would write it.
    Number(Cow<'a, str>),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Node<'a>>),
    /// A map, in the order written; no key twice.
    Map(Vec<Entry<'a>>),
}

/// One key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// The key's bytes in the file.
    pub span: Span,
    /// The value.
    pub node: Node<'a>,
}

/// One step of a pointer.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A key of a map.
    Key(&'a str),
    /// A place in a list.
    Index(usize),
}

/// The way from a document to a value, kept on the stack while walking; written out as a JSON pointer only for a fault.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    up: Option<&'a Path<'a>>,
    step: Option<Step<'a>>,
}

impl<'a> Path<'a> {
    /// The document itself.
    pub const ROOT: Path<'static> = Path { up: None, step: None };

    /// One key further in.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { up: Some(self), step: Some(Step::Key(key)) }
    }

    /// One element further in.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { up: Some(self), step: Some(Step::Index(index)) }
    }

    fn write(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(up) = self.up {
            up.write(f)?;
        }
        match self.step {
            None => Ok(()),
            Some(Step::Index(index)) => write!(f, "/{index}"),
            Some(Step::Key(key)) => write!(f, "/{}", escape(key)),
        }
    }
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write(f)
    }
}

/// A key as a step of a JSON pointer (RFC 6901).
pub fn escape(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) { Cow::Owned(key.replace('~', "~0").replace('/', "~1")) } else { Cow::Borrowed(key) }
}

/// The steps of a JSON pointer.
pub(crate) fn steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// What a pointer led to.
#[derive(Clone, Copy, Debug)]
pub struct Found<'t, 'a> {
    /// The key, where the last step was one.
    pub key: Option<Span>,
    /// The value.
    pub node: &'t Node<'a>,
    /// Whether every step was found; otherwise this is the nearest ancestor.
    pub whole: bool,
}

impl<'a> Node<'a> {
    /// A value that was not read from a text.
    pub fn unplaced(value: Value<'a>) -> Self {
        Self { span: Span::default(), value }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// A key with its value.
    pub fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// What a JSON pointer leads to; the nearest ancestor where it leads nowhere.
    pub fn find(&self, pointer: &str) -> Found<'_, 'a> {
        let mut found = Found { key: None, node: self, whole: true };
        for step in steps(pointer) {
            let next = match &found.node.value {
                Value::Map(entries) => entries.iter().find(|entry| entry.key == step).map(|entry| (Some(entry.span), &entry.node)),
                Value::List(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)).map(|node| (None, node)),
                _ => None,
            };
            match next {
                Some((key, node)) => found = Found { key, node, whole: true },
                None => return Found { whole: false, ..found },
            }
        }
        found
    }

    /// What kind of value it is, for a sentence.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Writes the value as compact JSON; numbers keep their digits.
    pub fn write_json(&self, out: &mut String) {
        match &self.value {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(text) => out.push_str(text),
            Value::Text(text) => write_text(out, text),
            Value::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write_json(out);
                }
                out.push(']');
            }
            Value::Map(entries) => {
                out.push('{');
                for (at, entry) in entries.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_text(out, &entry.key);
                    out.push(':');
                    entry.node.write_json(out);
                }
                out.push('}');
            }
        }
    }

    /// The value as compact JSON; numbers keep their digits.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    /// Whether two values are equal, wherever they were written; maps without regard to order.
    pub fn same(&self, other: &Node<'_>) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(x, y)| {
                        if x.key == y.key { x.node.same(&y.node) } else { other.get(&x.key).is_some_and(|node| x.node.same(node)) }
                    })
            }
            _ => false,
        }
    }

    /// The same value, owning its texts.
    pub fn into_owned(self) -> Node<'static> {
        let value = match self.value {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Number(text) => Value::Number(Cow::Owned(text.into_owned())),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::List(items) => Value::List(items.into_iter().map(Node::into_owned).collect()),
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|entry| Entry { key: Cow::Owned(entry.key.into_owned()), span: entry.span, node: entry.node.into_owned() })
                    .collect(),
            ),
        };
        Node { span: self.span, value }
    }
}

/// A text as JSON writes it.
pub(crate) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        if escaped.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escaped);
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}
