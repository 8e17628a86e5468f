//! One strict pass over a document's bytes that leaves a tape of its values.

use std::sync::OnceLock;

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use super::{JsonError, JsonErrorKind, JsonOptions, MAX_DOCUMENT, Repeats, text};

/// The index of a document: every value in the order of the text; in objects, keys and values alternate.
pub(super) struct Tape {
    pub(super) nodes: Vec<Node>,
    pub(super) repeats: bool,
}

/// A value's span, where the tape goes on after it, its kind, marks and number of children.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The node after this value and all within it. While a container is open: its parent.
    pub(super) next: u32,
    meta: u32,
}

pub(super) const NULL: u32 = 0;
pub(super) const FALSE: u32 = 1;
pub(super) const TRUE: u32 = 2;
pub(super) const NUMBER: u32 = 3;
pub(super) const STRING: u32 = 4;
pub(super) const ARRAY: u32 = 5;
pub(super) const OBJECT: u32 = 6;
const KIND: u32 = 0b111;
const ESCAPED: u32 = 1 << 3;
const SHADOWED: u32 = 1 << 4;
const COUNT: u32 = 1 << 5;
const NONE: u32 = u32::MAX;

impl Node {
    pub(super) fn kind(self) -> u32 {
        self.meta & KIND
    }

    /// A string with at least one escape.
    pub(super) fn escaped(self) -> bool {
        self.meta & ESCAPED != 0
    }

    /// A key that stands again later in the same object.
    pub(super) fn shadowed(self) -> bool {
        self.meta & SHADOWED != 0
    }

    /// Items of a list, distinct keys of an object.
    pub(super) fn count(self) -> usize {
        (self.meta / COUNT) as usize
    }
}

impl Tape {
    pub(super) fn null() -> Self {
        Self { nodes: vec![Node { start: 0, end: 4, next: 1, meta: NULL }], repeats: false }
    }
}

/// Seeded once a process, so that nobody can choose keys that collide.
fn hasher() -> &'static RandomState {
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::default)
}

pub(super) fn parse(bytes: &[u8], options: &JsonOptions) -> Result<Tape, JsonError> {
    let limit = options.max_size.min(MAX_DOCUMENT);
    if bytes.len() > limit {
        return Err(JsonError::new(JsonErrorKind::Size, limit, format!("the document is larger than {limit} bytes")));
    }
    if let Err(fault) = std::str::from_utf8(bytes) {
        return Err(JsonError::new(JsonErrorKind::Utf8, fault.valid_up_to(), "not valid UTF-8"));
    }
    let mut parser = Parser {
        bytes,
        at: 0,
        nodes: Vec::with_capacity(bytes.len() / 12 + 4),
        parent: NONE,
        depth: 0,
        max_depth: options.max_depth.min(512),
        refuse: options.repeats == Repeats::Refuse,
        hashes: Vec::new(),
        hasher: hasher(),
        repeats: false,
    };
    parser.document()?;
    Ok(Tape { nodes: parser.nodes, repeats: parser.repeats })
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    parent: u32,
    depth: usize,
    max_depth: usize,
    refuse: bool,
    /// The keys of the objects that are open, outermost first: hash and node.
    hashes: Vec<(u64, u32)>,
    hasher: &'static RandomState,
    repeats: bool,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<(), JsonError> {
        loop {
            self.space();
            let closed = match self.bytes.get(self.at) {
                Some(b'"') => self.string()?,
                Some(b'{') => {
                    self.open(OBJECT)?;
                    self.space();
                    if self.bytes.get(self.at) != Some(&b'}') {
                        self.key(false)?;
                        continue;
                    }
                    self.close()?
                }
                Some(b'[') => {
                    self.open(ARRAY)?;
                    self.space();
                    if self.bytes.get(self.at) != Some(&b']') {
                        continue;
                    }
                    self.close()?
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word(b"true", TRUE)?,
                Some(b'f') => self.word(b"false", FALSE)?,
                Some(b'n') => self.word(b"null", NULL)?,
                _ => return Err(self.expected_value()),
            };
            debug_assert!(closed);
            if self.after()? {
                return Ok(());
            }
        }
    }

    /// After a whole value: closes what ends here; true at the end of the document.
    fn after(&mut self) -> Result<bool, JsonError> {
        loop {
            self.space();
            let next = self.bytes.get(self.at);
            if self.parent == NONE {
                return match next {
                    None => Ok(true),
                    Some(_) => Err(self.fault("nothing may follow the document's value")),
                };
            }
            let container = &mut self.nodes[self.parent as usize];
            container.meta += COUNT;
            if container.meta & KIND == ARRAY {
                match next {
                    Some(b',') => {
                        self.at += 1;
                        return Ok(false);
                    }
                    Some(b']') => self.close()?,
                    _ => return Err(self.fault_or_end("expected ',' or ']'")),
                };
            } else {
                match next {
                    Some(b',') => {
                        self.at += 1;
                        self.space();
                        self.key(true)?;
                        return Ok(false);
                    }
                    Some(b'}') => self.close()?,
                    _ => return Err(self.fault_or_end("expected ',' or '}'")),
                };
            }
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn open(&mut self, kind: u32) -> Result<(), JsonError> {
        if self.depth == self.max_depth {
            return Err(JsonError::new(JsonErrorKind::Depth, self.at, format!("nested deeper than {} levels", self.max_depth)));
        }
        self.depth += 1;
        let node = Node { start: self.at as u32, end: self.hashes.len() as u32, next: self.parent, meta: kind };
        self.parent = self.nodes.len() as u32;
        self.nodes.push(node);
        self.at += 1;
        Ok(())
    }

    /// The container that is open ends at the byte where the parser stands.
    fn close(&mut self) -> Result<bool, JsonError> {
        self.at += 1;
        self.depth -= 1;
        let index = self.parent as usize;
        let base = self.nodes[index].end as usize;
        if self.hashes.len() > base {
            self.find_repeats(index, base)?;
            self.hashes.truncate(base);
        }
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[index];
        self.parent = node.next;
        node.next = next;
        node.end = self.at as u32;
        Ok(true)
    }

    fn key(&mut self, after_comma: bool) -> Result<(), JsonError> {
        match self.bytes.get(self.at) {
            Some(b'"') => {}
            Some(b'}') if after_comma => return Err(self.fault("expected a key after ','")),
            _ => return Err(self.fault_or_end("expected a key in double quotes")),
        }
        let index = self.nodes.len();
        self.string()?;
        let node = self.nodes[index];
        let inner = &self.bytes[node.start as usize + 1..node.end as usize - 1];
        let hash = match node.escaped() {
            false => self.hasher.hash_one(inner),
            true => self.hasher.hash_one(text::decode(inner).as_bytes()),
        };
        self.hashes.push((hash, index as u32));
        self.space();
        match self.bytes.get(self.at) {
            Some(b':') => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.fault_or_end("expected ':'")),
        }
    }

    fn string(&mut self) -> Result<bool, JsonError> {
        let start = self.at;
        let mut at = start + 1;
        let mut escaped = 0;
        loop {
            while let Some(chunk) = self.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
                let hit = text::special(u64::from_le_bytes(*chunk));
                if hit != 0 {
                    at += (hit.trailing_zeros() / 8) as usize;
                    break;
                }
                at += 8;
            }
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = ESCAPED;
                    at = self.escape(at)?;
                }
                Some(0..=0x1f) => return Err(JsonError::new(JsonErrorKind::Syntax, at, "a control character in a string must be escaped")),
                Some(_) => at += 1,
                None => return Err(JsonError::new(JsonErrorKind::Syntax, start, "the string does not end")),
            }
        }
        self.at = at + 1;
        self.leaf(start, STRING | escaped);
        Ok(true)
    }

    /// Where the escape that begins at `at` ends.
    fn escape(&self, at: usize) -> Result<usize, JsonError> {
        match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => match self.bytes.get(at + 2..at + 6) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
                _ => Err(JsonError::new(JsonErrorKind::Syntax, at, "\\u must be followed by four hexadecimal digits")),
            },
            _ => Err(JsonError::new(JsonErrorKind::Syntax, at, "an unknown escape in a string")),
        }
    }

    fn number(&mut self) -> Result<bool, JsonError> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => {
                self.at += 1;
                if let Some(b'0'..=b'9') = self.bytes.get(self.at) {
                    return Err(self.fault("a number may not begin with 0"));
                }
            }
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.leaf(start, NUMBER);
        Ok(true)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault_or_end("expected a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &[u8], kind: u32) -> Result<bool, JsonError> {
        let start = self.at;
        if !self.bytes[start..].starts_with(word) {
            return Err(self.expected_value());
        }
        self.at += word.len();
        self.leaf(start, kind);
        Ok(true)
    }

    fn leaf(&mut self, start: usize, meta: u32) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { start: start as u32, end: self.at as u32, next, meta });
    }

    /// Marks all but the last of equal keys in the object at `index`, whose keys' hashes stand from `base`.
    fn find_repeats(&mut self, index: usize, base: usize) -> Result<(), JsonError> {
        let keys = &mut self.hashes[base..];
        if keys.len() <= 16 {
            for (at, (hash, _)) in keys.iter().enumerate().skip(1) {
                if keys[..at].iter().any(|(earlier, _)| earlier == hash) {
                    return self.mark_repeats(index, base);
                }
            }
            return Ok(());
        }
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0].0 == pair[1].0) { self.mark_repeats(index, base) } else { Ok(()) }
    }

    #[cold]
    fn mark_repeats(&mut self, index: usize, base: usize) -> Result<(), JsonError> {
        let keys = &mut self.hashes[base..];
        keys.sort_unstable();
        let mut shadowed = 0;
        // Equal hashes stand together, in the order of the text; two different keys of one hash are as good as impossible, but not wrong.
        for group in keys.chunk_by(|left, right| left.0 == right.0).filter(|group| group.len() > 1) {
            let mut last = std::collections::HashMap::new();
            for (_, key) in group {
                let node = self.nodes[*key as usize];
                let decoded = text::decode(&self.bytes[node.start as usize + 1..node.end as usize - 1]);
                if self.refuse && last.contains_key(&decoded) {
                    let mut shown: String = decoded.chars().take(40).collect();
                    if shown.len() < decoded.len() {
                        shown.push('…');
                    }
                    return Err(JsonError::new(JsonErrorKind::Repeat, node.start as usize, format!("the key {shown:?} stands twice")));
                }
                if let Some(earlier) = last.insert(decoded, *key) {
                    self.nodes[earlier as usize].meta |= SHADOWED;
                    shadowed += 1;
                }
            }
        }
        self.repeats |= shadowed > 0;
        self.nodes[index].meta -= shadowed * COUNT;
        Ok(())
    }

    #[cold]
    fn expected_value(&self) -> JsonError {
        match self.bytes.get(self.at) {
            None if self.nodes.is_empty() => JsonError::new(JsonErrorKind::Syntax, self.at, "the document is empty"),
            Some(0xef) if self.bytes[self.at..].starts_with(b"\xef\xbb\xbf") => self.fault("a byte order mark is not JSON"),
            Some(b'\'') => self.fault("strings stand in double quotes"),
            _ => self.fault_or_end("expected a value"),
        }
    }

    #[cold]
    fn fault_or_end(&self, message: &'static str) -> JsonError {
        if self.at < self.bytes.len() { self.fault(message) } else { self.fault("the document ends too early") }
    }

    #[cold]
    fn fault(&self, message: &'static str) -> JsonError {
        JsonError::new(JsonErrorKind::Syntax, self.at, message)
    }
}
