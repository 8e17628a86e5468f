//! Where in a file a byte of a text is, whatever quotes, escapes and line breaks it was written with.

use crate::source::Span;

/// The bytes of the file that hold `len` bytes at `offset` of a text that was written at `span`.
pub fn span(source: &str, span: Span, decoded: &str, offset: usize, len: usize) -> Span {
    let written = span.of(source);
    if written.is_empty() || (offset == 0 && len >= decoded.len()) {
        return span;
    }
    let mut walk = Walk::new(written);
    let start = walk.to(decoded, 0, offset);
    let end = walk.to(decoded, offset, offset.saturating_add(len.max(1)).min(decoded.len()).max(offset));
    let base = span.start as usize;
    Span::new(base + start.min(written.len()), base + end.max(start).min(written.len()))
}

struct Walk<'a> {
    written: &'a str,
    at: usize,
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    Block,
}

impl<'a> Walk<'a> {
    fn new(written: &'a str) -> Self {
        let (style, at) = match written.as_bytes().first() {
            Some(b'\'') => (Style::Single, 1),
            Some(b'"') => (Style::Double, 1),
            Some(b'|' | b'>') => {
                let head = written.find('\n').map_or(written.len(), |line| line + 1);
                let indent = written[head..].len() - written[head..].trim_start_matches([' ', '\n', '\r']).len();
                (Style::Block, head + indent)
            }
            _ => (Style::Plain, 0),
        };
        Self { written, at, style }
    }

    fn rest(&self) -> &'a str {
        self.written.get(self.at..).unwrap_or_default()
    }

    /// Walks over the decoded characters from `from` to `to` and tells where the writing then stands.
    fn to(&mut self, decoded: &str, from: usize, to: usize) -> usize {
        let mut seen = from;
        for c in decoded.get(from..).unwrap_or_default().chars() {
            if seen >= to {
                break;
            }
            self.step(c);
            seen += c.len_utf8();
        }
        self.at
    }

    fn step(&mut self, c: char) {
        if self.style == Style::Double {
            self.continued();
        }
        let rest = self.rest();
        let Some(next) = rest.chars().next() else { return };
        if self.style == Style::Double && next == '\\' {
            self.at += escape_len(rest);
        } else if self.style == Style::Single && rest.starts_with("''") {
            self.at += 2;
        } else if matches!(c, ' ' | '\n') && (next == '\n' || rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n')) {
            self.line_break(c);
        } else {
            self.at += next.len_utf8();
        }
    }

    /// A line break in double quotes that a backslash takes away.
    fn continued(&mut self) {
        while self.rest().starts_with("\\\n") || self.rest().starts_with("\\\r\n") {
            let rest = &self.rest()[1..];
            self.at += 1 + rest.len() - rest.trim_start().len();
        }
    }

    /// A break of the writing that is one character of the text, with the next line's indentation.
    fn line_break(&mut self, c: char) {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        let after = &rest[blank + 1..];
        self.at += blank + 1;
        // Of a fold every blank line is one break of its own; of one space only the first line is.
        if c == ' ' || !after.trim_start_matches([' ', '\t', '\r']).starts_with('\n') {
            self.at += after.len() - after.trim_start_matches([' ', '\t', '\r']).len();
        }
    }
}

fn escape_len(rest: &str) -> usize {
    let digits = match rest.as_bytes().get(1) {
        Some(b'x') => 2,
        Some(b'u') => 4,
        Some(b'U') => 8,
        _ => {
            return 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
        }
    };
    // A pair of escapes is one character in JSON.
    let pair =
        digits == 4 && rest.get(2..4).is_some_and(|high| matches!(high.to_ascii_lowercase().as_bytes(), [b'd', b'8'..=b'9' | b'a'..=b'b']));
    (2 + digits) * if pair { 2 } else { 1 }
}
