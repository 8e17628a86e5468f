//! One file's text, and where a byte of it is for a reader.

use std::sync::{Arc, OnceLock};

/// Bytes of a file: from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From `start` up to, not including, `end`.
    pub fn new(start: usize, end: usize) -> Self {
        // Invariant: files are at most 16 MiB, so that offsets fit.
        Self { start: start as u32, end: end.max(start) as u32 }
    }

    /// The bytes of a text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A line and a column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The line; 0 where there are no lines, as in a binary file.
    pub line: u32,
    /// The column; 0 where there are no lines.
    pub column: u32,
}

/// One file's text.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    text: String,
    lines: OnceLock<Vec<u32>>,
}

/// A part of one line, for showing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The part of the line.
    pub text: Box<str>,
    /// The column of its first character.
    pub column: u32,
    /// Whether the line goes on before or after the part.
    pub cut: (bool, bool),
}

/// How many characters of a line are shown.
const SHOWN: usize = 160;

impl Source {
    /// A text under a name.
    pub fn new(name: impl Into<Arc<str>>, text: String) -> Self {
        Self { name: name.into(), text, lines: OnceLock::new() }
    }

    /// The file's name, as it was given.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn lines(&self) -> &[u32] {
        self.lines.get_or_init(|| {
            let after = self.text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at as u32 + 1);
            std::iter::once(0).chain(after).collect()
        })
    }

    /// The line and column of a byte; inside a character, of that character.
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines().partition_point(|start| *start as usize <= offset) - 1;
        let start = self.lines()[line] as usize;
        let mut before = &self.text[start..offset];
        if line == 0 {
            before = before.trim_start_matches('\u{feff}');
        }
        Position { line: line as u32 + 1, column: before.chars().count() as u32 + 1 }
    }

    /// The part of a line around a byte.
    pub fn excerpt(&self, offset: usize) -> Excerpt {
        let place = self.position(offset);
        let start = self.lines()[place.line as usize - 1] as usize;
        let end = self.lines().get(place.line as usize).map_or(self.text.len(), |next| *next as usize);
        let line = self.text[start..end].trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
        let from = (place.column as usize - 1).saturating_sub(SHOWN / 2);
        let mut rest = line.chars();
        let skipped = rest.by_ref().take(from).count();
        let text: String = rest.by_ref().take(SHOWN).collect();
        Excerpt { text: text.into(), column: skipped as u32 + 1, cut: (skipped > 0, rest.next().is_some()) }
    }
}
