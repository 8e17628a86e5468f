//! Finding `${…}` in a text.

use std::borrow::Cow;

use crate::expression::CompileError;

/// A stretch of a template, with the byte where it (or the expression's source) begins.
#[derive(Debug)]
pub(super) enum Piece<'t> {
    Text { text: Cow<'t, str>, start: usize },
    Expression { source: &'t str, start: usize },
}

/// Cuts `text` into literal text and expressions. Neighbouring text is one piece; there is at least one piece.
pub(super) fn split(text: &str) -> Result<Vec<Piece<'_>>, CompileError> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut literal_start = 0;
    let mut at = 0;
    while let Some(dollar) = memchr::memmem::find(&text.as_bytes()[at..], b"${") {
        let dollar = at + dollar;
        if dollar > at && text.as_bytes()[dollar - 1] == b'$' {
            literal.push_str(&text[at..dollar - 1]);
            literal.push_str("${");
            at = dollar + 2;
            continue;
        }
        literal.push_str(&text[at..dollar]);
        if !literal.is_empty() {
            pieces.push(Piece::Text { text: std::mem::take(&mut literal).into(), start: literal_start });
        }
        let start = dollar + 2;
        let Some(end) = end(&text.as_bytes()[start..]) else {
            return Err(CompileError::new(dollar, 2, "'${' is not closed")
                .help("'}' closes it outside of quotes and braces; a literal '${' is written '$${'"));
        };
        let source = &text[start..start + end];
        if source.trim().is_empty() {
            return Err(CompileError::new(dollar, end + 3, "the expression is empty").help("a literal '${' is written '$${'"));
        }
        pieces.push(Piece::Expression { source, start });
        at = start + end + 1;
        literal_start = at;
    }
    literal.push_str(&text[at..]);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text { text: literal.into(), start: literal_start });
    }
    Ok(pieces)
}

/// Where the expression at the beginning of `bytes` ends: its closing brace.
fn end(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            b'"' | b'\'' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'`' => at += 1 + memchr::memchr(b'`', &bytes[at + 1..])?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Behind the CEL string whose first quote is at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let raw = matches!(&bytes[at - word..at], b"r" | b"R" | b"br" | b"bR" | b"Br" | b"BR" | b"rb" | b"rB" | b"Rb" | b"RB");
    let quote = bytes[at];
    let triple = [quote; 3];
    let close: &[u8] = if bytes[at..].starts_with(&triple) { &triple } else { &triple[..1] };
    let mut at = at + close.len();
    loop {
        match bytes.get(at)? {
            b'\\' if !raw => at += 2,
            _ if bytes[at..].starts_with(close) => return Some(at + close.len()),
            _ => at += 1,
        }
    }
}
