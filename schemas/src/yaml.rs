//! YAML into trees: documents are found first, so that each is read by itself and a broken one hides no other.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::{
    source::Span,
    tree::{Entry, Node, Value},
};

/// How deep a document may nest.
pub const MAX_DEPTH: usize = 64;
/// How many bytes aliases may add to a file.
pub const MAX_ALIASED: usize = 1 << 20;
/// How much memory the values of a document's anchors may take until an alias names them: anchors may stand in each other.
const MAX_ANCHORED: usize = 16 << 20;

/// A fault of reading, before anything is known of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFault {
    /// Where.
    pub span: Span,
    /// A stable kebab-case code.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// Where what is repeated stands first.
    pub first: Option<Span>,
}

impl ReadFault {
    pub(crate) fn new(span: Span, code: &'static str, message: impl Into<String>) -> Self {
        Self { span, code, message: message.into(), help: None, first: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// One document as far as it could be read.
#[derive(Debug, Default)]
pub struct Read<'a> {
    /// The document; none where it is empty or too broken.
    pub root: Option<Node<'a>>,
    /// What is wrong with it.
    pub faults: Vec<ReadFault>,
}

/// The bytes of every document of a text. `---` at the start of a line parts documents wherever it stands, by YAML's own rule.
pub fn documents(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = 0;
    let mut at = 0;
    // Whether something but comments and directives was seen since `start`.
    let mut content = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let marker = |mark: &str| line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker("---") {
            if content {
                spans.push(Span::new(start, at));
                start = at;
            }
            content = true;
        } else if marker("...") {
            if content {
                spans.push(Span::new(start, at + line.len()));
            }
            start = at + line.len();
            content = false;
        } else if !content {
            let seen = bare.trim_start_matches('\u{feff}').trim_start();
            content = !(seen.is_empty() || seen.starts_with('#') || (line.starts_with('%') && seen.starts_with('%')));
        }
        at += line.len();
    }
    if content {
        spans.push(Span::new(start, text.len()));
    }
    spans
}

/// Reads the one document that stands in these bytes of a text.
pub fn read(text: &str, span: Span) -> Read<'_> {
    let chunk = span.of(text);
    let skipped = if chunk.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let chunk = &chunk[skipped..];
    let mut reader = Reader {
        chunk,
        offsets: Offsets::new(chunk, span.start as usize + skipped),
        anchors: HashMap::new(),
        aliased: 0,
        anchored: 0,
        faults: Vec::new(),
    };
    let root = reader.read();
    Read { root, faults: reader.faults }
}

/// Characters into bytes: the parser counts characters.
struct Offsets {
    base: usize,
    /// The byte of every character; none where every character is one byte.
    bytes: Option<Vec<u32>>,
    len: usize,
}

impl Offsets {
    fn new(chunk: &str, base: usize) -> Self {
        let bytes = (!chunk.is_ascii()).then(|| chunk.char_indices().map(|(at, _)| at as u32).collect());
        Self { base, bytes, len: chunk.len() }
    }

    fn local(&self, index: usize) -> usize {
        match &self.bytes {
            None => index.min(self.len),
            Some(bytes) => bytes.get(index).map_or(self.len, |at| *at as usize),
        }
    }

    fn span(&self, span: &saphyr_parser::Span) -> Span {
        Span::new(self.base + self.local(span.start.index()), self.base + self.local(span.end.index()))
    }
}

struct Reader<'a> {
    chunk: &'a str,
    offsets: Offsets,
    anchors: HashMap<usize, Anchor<'a>>,
    aliased: usize,
    /// What the values in `anchors` weigh.
    anchored: usize,
    faults: Vec<ReadFault>,
}

/// What an alias would stand for.
enum Anchor<'a> {
    /// A value that is not finished, which makes an alias to it a circle.
    Open,
    /// With its weight.
    Value(Node<'a>, usize),
    /// More than all aliases together may add; not kept.
    Heavy,
}

/// A list or map that is not finished.
struct Open<'a> {
    span: Span,
    anchor: usize,
    items: Vec<Node<'a>>,
    entries: Vec<Entry<'a>>,
    merges: Vec<Node<'a>>,
    is_map: bool,
    /// The key that waits for its value; none where the next value is a key.
    key: Option<Key<'a>>,
}

enum Key<'a> {
    Named(Cow<'a, str>, Span),
    Merge,
    /// A key that cannot be one; its value is read and dropped.
    Broken,
}

impl<'a> Reader<'a> {
    fn fault(&mut self, span: Span, code: &'static str, message: impl Into<String>) {
        self.faults.push(ReadFault::new(span, code, message));
    }

    fn read(&mut self) -> Option<Node<'a>> {
        let mut parser = Parser::new_from_str(self.chunk);
        let mut stack: Vec<Open<'a>> = Vec::new();
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, at) = match event {
                Ok((event, span)) => (event, self.offsets.span(&span)),
                Err(error) => {
                    self.syntax(&error);
                    return None;
                }
            };
            match event {
                Event::Scalar(text, style, anchor, tag) => {
                    let span = self.trimmed(at, style);
                    if let Some(open) = stack.last_mut().filter(|open| open.is_map && open.key.is_none()) {
                        open.key = Some(if style == ScalarStyle::Plain && text == "<<" && tag.is_none() {
                            Key::Merge
                        } else {
                            Key::Named(text.clone(), span)
                        });
                        if anchor > 0 {
                            self.anchor(anchor, &Node { span, value: Value::Text(text) });
                        }
                        continue;
                    }
                    let value = self.scalar(text, style, tag.as_deref(), span);
                    let node = Node { span, value };
                    if anchor > 0 {
                        self.anchor(anchor, &node);
                    }
                    self.place(node, &mut stack, &mut root);
                }
                Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) if stack.len() >= MAX_DEPTH => {
                    let _ = (anchor, tag);
                    self.fault(at, "too-deep", format!("nested deeper than {MAX_DEPTH} levels"));
                    return None;
                }
                Event::SequenceStart(anchor, tag) => self.open(false, anchor, tag.as_deref(), at, &mut stack),
                Event::MappingStart(anchor, tag) => self.open(true, anchor, tag.as_deref(), at, &mut stack),
                Event::SequenceEnd | Event::MappingEnd => {
                    let Some(open) = stack.pop() else { continue };
                    let anchor = open.anchor;
                    let node = self.close(open, at);
                    if anchor > 0 {
                        self.anchor(anchor, &node);
                    }
                    self.place(node, &mut stack, &mut root);
                }
                Event::Alias(anchor) => {
                    let node = match self.anchors.get(&anchor) {
                        Some(Anchor::Value(node, weight)) if self.aliased + weight <= MAX_ALIASED => {
                            self.aliased += weight;
                            node.clone()
                        }
                        Some(Anchor::Value(..) | Anchor::Heavy) => {
                            self.fault(at, "too-many-aliases", "aliases add more than 1 MiB to this document");
                            return None;
                        }
                        Some(Anchor::Open) => {
                            self.fault(at, "bad-alias", "this alias stands inside what it names");
                            Node { span: at, value: Value::Null }
                        }
                        None => {
                            self.fault(at, "bad-alias", "no anchor of this name stands before");
                            Node { span: at, value: Value::Null }
                        }
                    };
                    if let (Some(open), Value::Text(text)) =
                        (stack.last_mut().filter(|open| open.is_map && open.key.is_none()), &node.value)
                    {
                        open.key = Some(Key::Named(text.clone(), at));
                        continue;
                    }
                    self.place(node, &mut stack, &mut root);
                }
                Event::DocumentStart(_) if root.is_some() => {
                    self.fault(at, "syntax", "a second document begins without `---`");
                    return root;
                }
                _ => {}
            }
        }
        root
    }

    /// Where the parser stopped and why, in words an author knows.
    fn syntax(&mut self, error: &saphyr_parser::ScanError) {
        let local = self.offsets.local(error.marker().index());
        let at = self.offsets.base + local;
        let line = self.chunk[..local].rfind('\n').map_or(0, |before| before + 1);
        let until = self.chunk[local..].find('\n').map_or(self.chunk.len(), |next| local + next);
        let indent = &self.chunk[line..until];
        let indent = &indent[..indent.len() - indent.trim_start().len()];
        let fault = match indent.find('\t') {
            Some(tab) => {
                let tab = self.offsets.base + line + tab;
                ReadFault::new(Span::new(tab, tab + 1), "tab", "YAML is indented by spaces, not by tabs")
                    .help("write two spaces for each level")
            }
            // The parser has a limit of its own for collections that begin on one line.
            None if error.info().contains("recursion") => {
                ReadFault::new(Span::new(at, at), "too-deep", format!("nested deeper than {MAX_DEPTH} levels"))
            }
            None => {
                let width = self.chunk[local..].chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8);
                let fault = ReadFault::new(Span::new(at, at + width), "syntax", format!("not YAML: {}", error.info()));
                // The commonest slip: a pattern or an expression without quotes between braces or brackets.
                match error.info().contains("flow") {
                    true => {
                        fault.help("inside of {…} and […], a text with { } [ ] , or : in it stands in quotes: {match: \"GET /a/{id}\"}")
                    }
                    false => fault,
                }
            }
        };
        self.faults.push(fault);
    }

    /// The parser ends some plain scalars and blocks after the line break.
    fn trimmed(&self, span: Span, style: ScalarStyle) -> Span {
        if !matches!(style, ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded) {
            return span;
        }
        let from = span.start as usize - self.offsets.base;
        let to = span.end as usize - self.offsets.base;
        let text = self.chunk.get(from..to).unwrap_or_default();
        Span::new(span.start as usize, span.start as usize + text.trim_end().len())
    }

    fn anchor(&mut self, anchor: usize, node: &Node<'a>) {
        let weight = weigh(node);
        let fits = weight <= MAX_ALIASED && self.anchored + weight <= MAX_ANCHORED;
        let kept = if fits { Anchor::Value(node.clone(), weight) } else { Anchor::Heavy };
        self.anchored += if fits { weight } else { 0 };
        self.anchors.insert(anchor, kept);
    }

    fn open(&mut self, is_map: bool, anchor: usize, tag: Option<&Tag>, span: Span, stack: &mut Vec<Open<'a>>) {
        if let Some(tag) = tag {
            let known = tag.is_yaml_core_schema() && tag.suffix == if is_map { "map" } else { "seq" };
            if !known {
                self.fault(span, "bad-tag", format!("the tag `{tag}` has no meaning here"));
            }
        }
        if anchor > 0 {
            self.anchors.insert(anchor, Anchor::Open);
        }
        stack.push(Open { span, anchor, items: Vec::new(), entries: Vec::new(), merges: Vec::new(), is_map, key: None });
    }

    fn close(&mut self, open: Open<'a>, end: Span) -> Node<'a> {
        // A block ends where its last value ends; the parser tells where the next token begins.
        let chunk_end = end.end as usize - self.offsets.base;
        let from = open.span.start as usize - self.offsets.base;
        let flow = self.chunk.as_bytes().get(from).is_some_and(|b| matches!(b, b'{' | b'['));
        let last = if open.is_map {
            open.entries.last().map(|entry| entry.node.span.end.max(entry.span.end))
        } else {
            open.items.last().map(|node| node.span.end)
        };
        let until = match last {
            Some(last) if !flow => (last as usize).max(open.span.start as usize),
            _ => self.offsets.base + self.chunk.get(..chunk_end).map_or(chunk_end, |text| text.trim_end().len()),
        };
        let span = Span::new(open.span.start as usize, until);
        if !open.is_map {
            return Node { span, value: Value::List(open.items) };
        }
        let mut entries = open.entries;
        self.repeated(&mut entries);
        for merge in open.merges {
            self.merge(merge, &mut entries);
        }
        Node { span, value: Value::Map(entries) }
    }

    /// Reports keys written twice and keeps the first of each.
    fn repeated(&mut self, entries: &mut Vec<Entry<'a>>) {
        let twice: Vec<usize> = if entries.len() <= 16 {
            (1..entries.len()).filter(|at| entries[..*at].iter().any(|entry| entry.key == entries[*at].key)).collect()
        } else {
            let mut seen = std::collections::HashSet::with_capacity(entries.len());
            (0..entries.len()).filter(|at| !seen.insert(entries[*at].key.as_ref())).collect()
        };
        for at in &twice {
            let entry = &entries[*at];
            let first = entries.iter().find(|first| first.key == entry.key).map(|first| first.span);
            let message = format!("the key `{}` stands twice in this map", entry.key);
            self.faults.push(ReadFault { first, ..ReadFault::new(entry.span, "repeated-key", message) });
        }
        let (mut at, mut twice) = (0, twice.into_iter().peekable());
        entries.retain(|_| {
            at += 1;
            twice.next_if_eq(&(at - 1)).is_none()
        });
    }

    fn merge(&mut self, node: Node<'a>, into: &mut Vec<Entry<'a>>) {
        match node.value {
            Value::Map(entries) => {
                let mut had: std::collections::HashSet<String> = into.iter().map(|entry| entry.key.to_string()).collect();
                into.extend(entries.into_iter().filter(|entry| had.insert(entry.key.to_string())));
            }
            Value::List(items) => items.into_iter().for_each(|item| self.merge(item, into)),
            _ => self.fault(node.span, "bad-merge", "`<<` merges a map or a list of maps"),
        }
    }

    fn place(&mut self, node: Node<'a>, stack: &mut [Open<'a>], root: &mut Option<Node<'a>>) {
        let Some(open) = stack.last_mut() else {
            root.get_or_insert(node);
            return;
        };
        if !open.is_map {
            open.items.push(node);
            return;
        }
        match open.key.take() {
            Some(Key::Named(key, span)) => open.entries.push(Entry { key, span, node }),
            Some(Key::Merge) => open.merges.push(node),
            Some(Key::Broken) => {}
            None => {
                open.key = Some(Key::Broken);
                self.fault(node.span, "bad-key", format!("a key is a text, not {}", node.kind()));
            }
        }
    }

    fn scalar(&mut self, text: Cow<'a, str>, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Value<'a> {
        match tag {
            None if style == ScalarStyle::Plain => self.resolve(text, span),
            None => Value::Text(text),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Value::Text(text),
            Some(tag) if tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "int" | "float" | "bool" | "null") => {
                self.resolve(text, span)
            }
            // `!` alone means a text.
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Value::Text(text),
            Some(tag) => {
                self.fault(span, "bad-tag", format!("the tag `{tag}` has no meaning here"));
                Value::Text(text)
            }
        }
    }

    /// The core schema of YAML 1.2: `yes` and `on` are texts.
    fn resolve(&mut self, text: Cow<'a, str>, span: Span) -> Value<'a> {
        match text.as_ref() {
            "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
            "true" | "True" | "TRUE" => return Value::Bool(true),
            "false" | "False" | "FALSE" => return Value::Bool(false),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | "-.Inf" | "-.INF" | ".nan" | ".NaN" | ".NAN" => {
                self.fault(span, "bad-number", format!("`{text}` is no number that JSON could hold"));
                return Value::Null;
            }
            _ => {}
        }
        match number(&text) {
            Some(None) => Value::Number(text),
            Some(Some(json)) => Value::Number(Cow::Owned(json)),
            None => Value::Text(text),
        }
    }
}

/// How much memory a copy of a value takes, about.
fn weigh(node: &Node<'_>) -> usize {
    let own = std::mem::size_of::<Node<'_>>();
    own + match &node.value {
        Value::Number(text) | Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(weigh).sum(),
        Value::Map(entries) => entries.iter().map(|entry| entry.key.len() + own + weigh(&entry.node)).sum(),
        _ => 0,
    }
}

/// Whether a plain scalar is a number: `Some(None)` where JSON writes it the same, `Some(Some(json))` where it does not.
fn number(text: &str) -> Option<Option<String>> {
    let bytes = text.as_bytes();
    if !matches!(bytes.first()?, b'0'..=b'9' | b'-' | b'+' | b'.') {
        return None;
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u128::from_str_radix(octal, 8).ok().filter(|_| !octal.starts_with('+')).map(|n| Some(n.to_string()));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u128::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+')).map(|n| Some(n.to_string()));
    }
    let (sign, rest) = match bytes[0] {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(rest);
    let mut after = &rest[whole..];
    let mut decimals = "";
    if let Some(point) = after.strip_prefix('.') {
        let count = digits(point);
        if whole == 0 && count == 0 {
            return None;
        }
        decimals = &point[..count];
        after = &point[count..];
    } else if whole == 0 {
        return None;
    }
    if let Some(exponent) = after.strip_prefix(['e', 'E']) {
        let power = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if power.is_empty() || digits(power) != power.len() {
            return None;
        }
    } else if !after.is_empty() {
        return None;
    }
    let pointed = rest.as_bytes().get(whole) == Some(&b'.');
    let plain = bytes[0] != b'+' && whole > 0 && (whole == 1 || !rest.starts_with('0')) && (!pointed || !decimals.is_empty());
    if plain {
        return Some(None);
    }
    let whole = rest[..whole].trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if decimals.is_empty() { String::new() } else { format!(".{decimals}") };
    Some(Some(format!("{sign}{whole}{point}{after}")))
}

/// Whether a text would be read as a number without quotes, by YAML 1.2 or 1.1.
pub(crate) fn is_number(text: &str) -> bool {
    let bare = text.replace('_', "");
    number(&bare).is_some()
        || bare.starts_with("0b")
        || matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN")
}
