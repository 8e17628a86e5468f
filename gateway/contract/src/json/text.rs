//! Decoding of what stands between a JSON string's quotes, checked already.

use std::borrow::Cow;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A mark at the lowest byte that is a quote, a backslash or a control character; marks above it mean nothing.
pub(super) fn special(word: u64) -> u64 {
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    zero(word ^ (ONES * b'"' as u64)) | zero(word ^ (ONES * b'\\' as u64)) | (word.wrapping_sub(ONES * 0x20) & !word & HIGHS)
}

/// The text of a string's inside. Half a surrogate pair reads as U+FFFD.
pub(super) fn decode(inner: &[u8]) -> Cow<'_, str> {
    // Invariant: the parser has checked the whole document's UTF-8, and spans begin and end at ASCII bytes.
    let text = std::str::from_utf8(inner).unwrap_or_default();
    let Some(first) = memchr::memchr(b'\\', inner) else { return Cow::Borrowed(text) };
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    let mut at = Some(first);
    while let Some(backslash) = at {
        decoded.push_str(&rest[..backslash]);
        let (character, length) = escape(&rest.as_bytes()[backslash..]);
        decoded.push(character);
        rest = &rest[backslash + length..];
        at = memchr::memchr(b'\\', rest.as_bytes());
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// The character of the escape at the beginning of `bytes`, and the escape's length.
fn escape(bytes: &[u8]) -> (char, usize) {
    let character = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(bytes),
        Some(other) => *other as char,
        None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

fn unicode(bytes: &[u8]) -> (char, usize) {
    let Some(unit) = hex(bytes.get(2..6)) else { return (char::REPLACEMENT_CHARACTER, 2) };
    if (0xd800..0xdc00).contains(&unit)
        && bytes.get(6..8) == Some(b"\\u")
        && let Some(low @ 0xdc00..0xe000) = hex(bytes.get(8..12))
    {
        let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        return (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

fn hex(digits: Option<&[u8]>) -> Option<u32> {
    digits?.iter().try_fold(0, |value, digit| Some(value * 16 + (*digit as char).to_digit(16)?))
}
