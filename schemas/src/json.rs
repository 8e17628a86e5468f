//! JSON into trees: YAML's reader would read most of it, but not `\u` pairs and `\/` as JSON means them.

use std::borrow::Cow;

use crate::{
    source::Span,
    tree::{Entry, Node, Value},
    yaml::{MAX_DEPTH, Read, ReadFault},
};

/// Reads one JSON value that stands in these bytes of a text.
pub fn read(text: &str, span: Span) -> Read<'_> {
    let mut reader = Reader { text: &text[..(span.end as usize).min(text.len())], at: span.start as usize, faults: Vec::new() };
    if reader.text[reader.at..].starts_with('\u{feff}') {
        reader.at += '\u{feff}'.len_utf8();
    }
    let root = reader.document();
    match root {
        Ok(root) => Read { root, faults: reader.faults },
        Err(fault) => {
            reader.faults.push(fault);
            Read { root: None, faults: reader.faults }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    faults: Vec<ReadFault>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Option<Node<'a>>, ReadFault> {
        self.space();
        if self.at == self.text.len() {
            return Ok(None);
        }
        let root = self.value(0)?;
        self.space();
        if self.at < self.text.len() {
            return Err(self.wrong("nothing more: one JSON value is one document, a list of values several"));
        }
        Ok(Some(root))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn wrong(&self, expected: &str) -> ReadFault {
        let found = self.text[self.at..].chars().next();
        let width = found.map_or(0, char::len_utf8);
        let found = found.map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        ReadFault::new(Span::new(self.at, self.at + width), "syntax", format!("not JSON: expected {expected}, found {found}"))
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, ReadFault> {
        if depth > MAX_DEPTH {
            let span = Span::new(self.at, self.at + 1);
            return Err(ReadFault::new(span, "too-deep", format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            _ => return Err(self.wrong("a value")),
        };
        Ok(Node { span: Span::new(start, self.at), value })
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, ReadFault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.wrong("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value<'a>, ReadFault> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.peek().is_some_and(|b| b.is_ascii_digit()) {
                reader.at += 1;
            }
            reader.at - from
        };
        let leading = self.peek() == Some(b'0');
        match digits(self) {
            0 => return Err(self.wrong("a digit")),
            1 => {}
            _ if leading => {
                return Err(ReadFault::new(Span::new(start, self.at), "syntax", "not JSON: a number may not begin with 0"));
            }
            _ => {}
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if digits(self) == 0 {
                return Err(self.wrong("a digit"));
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if digits(self) == 0 {
                return Err(self.wrong("a digit"));
            }
        }
        Ok(Value::Number(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn list(&mut self, depth: usize) -> Result<Value<'a>, ReadFault> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(items));
                }
                _ => return Err(self.wrong("`,` or `]`")),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value<'a>, ReadFault> {
        self.at += 1;
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in quotes"));
            }
            let start = self.at;
            let key = self.string()?;
            let span = Span::new(start, self.at);
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.wrong("`:`"));
            }
            self.at += 1;
            self.space();
            let node = self.value(depth + 1)?;
            if seen.insert(key.clone()) {
                entries.push(Entry { key, span, node });
            } else {
                let first = entries.iter().find(|first| first.key == key).map(|first| first.span);
                let message = format!("the key `{key}` stands twice in this map");
                self.faults.push(ReadFault { first, ..ReadFault::new(span, "repeated-key", message) });
            }
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Map(entries));
                }
                _ => return Err(self.wrong("`,` or `}`")),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, ReadFault> {
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut from = start;
        loop {
            match self.peek() {
                None => return Err(self.wrong("the end of the text, `\"`")),
                Some(b'"') => {
                    let rest = &self.text[from..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(rest),
                        Some(mut text) => {
                            text.push_str(rest);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&self.text[from..self.at]);
                    let c = self.escape()?;
                    owned.get_or_insert_default().push(c);
                    from = self.at;
                }
                Some(0..0x20) => return Err(self.wrong("no control character in a text")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, ReadFault> {
        self.at += 1;
        let escaped = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.wrong("an escape")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode(&mut self) -> Result<char, ReadFault> {
        let start = self.at - 1;
        let first = self.hex()?;
        let code = if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            self.at += 1;
            let second = self.hex()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(ReadFault::new(Span::new(start, self.at), "syntax", "not JSON: half of a pair of `\\u` escapes is missing"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code)
            .ok_or_else(|| ReadFault::new(Span::new(start, self.at), "syntax", "not JSON: half of a pair of `\\u` escapes is missing"))
    }

    /// Four hexadecimal digits after the `u` at which the reader stands.
    fn hex(&mut self) -> Result<u32, ReadFault> {
        self.at += 1;
        let digits = self.text.as_bytes().get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return Err(self.wrong("four hexadecimal digits")) };
        let value = digits.iter().fold(0, |value, digit| value * 16 + (*digit as char).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(value)
    }
}
