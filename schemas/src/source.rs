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
    /// How many characters begin before each block, so that a column far into a line costs no more than one near its start.
    characters: OnceLock<Vec<u32>>,
}

/// The bytes of a block.
const BLOCK: usize = 1024;

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
        Self { name: name.into(), text, lines: OnceLock::new(), characters: OnceLock::new() }
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

    /// How many characters begin before a byte.
    fn characters(&self, offset: usize) -> usize {
        let begin = |bytes: &[u8]| bytes.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count();
        let blocks = self.characters.get_or_init(|| {
            let counts = self.text.as_bytes().chunks(BLOCK).scan(0, |sum, block| {
                *sum += begin(block) as u32;
                Some(*sum)
            });
            std::iter::once(0).chain(counts).collect()
        });
        let block = offset / BLOCK;
        blocks[block] as usize + begin(&self.text.as_bytes()[block * BLOCK..offset])
    }

    /// The start of a character, the number of its line, from 0, and where that begins; a mark before the first line is none of it.
    fn place(&self, offset: usize) -> (usize, usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines().partition_point(|start| *start as usize <= offset) - 1;
        let start = match line {
            0 => self.text.len() - self.text.trim_start_matches('\u{feff}').len(),
            _ => self.lines()[line] as usize,
        };
        (offset.max(start), line, start)
    }

    /// The line and column of a byte; inside a character, of that character.
    pub fn position(&self, offset: usize) -> Position {
        let (offset, line, start) = self.place(offset);
        Position { line: line as u32 + 1, column: (self.characters(offset) - self.characters(start)) as u32 + 1 }
    }

    /// The part of a line around a byte.
    pub fn excerpt(&self, offset: usize) -> Excerpt {
        let (offset, line, start) = self.place(offset);
        let next = self.lines().get(line + 1).map_or(self.text.len(), |next| *next as usize);
        let end = start + self.text[start..next].trim_end_matches(['\n', '\r']).len();
        let offset = offset.min(end);
        let back = self.text[start..offset].char_indices().rev().take(SHOWN / 2).last().map_or(0, |(at, _)| offset - start - at);
        let from = offset - back;
        let mut rest = self.text[from..end].chars();
        let text: String = rest.by_ref().take(SHOWN).collect();
        let skipped = self.characters(from) - self.characters(start);
        Excerpt { text: text.into(), column: skipped as u32 + 1, cut: (skipped > 0, rest.next().is_some()) }
    }
}
