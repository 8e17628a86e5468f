//! Escaping a text for the place where it goes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::{Context, Style};
use crate::{expression::CompileError, json::push_string_content};

/// RFC 3986 section 2.3: what never needs an escape, in a segment as in a query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// application/x-www-form-urlencoded; the space is written apart.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_').remove(b' ');

/// Appends a value.
pub(super) fn push(style: Style, text: &str, out: &mut Vec<u8>) {
    match style {
        Style::Json => push_string_content(text, out),
        style => push_octets(style, text.as_bytes(), out),
    }
}

/// Appends octets; in JSON, nothing of what is no text.
pub(super) fn push_octets(style: Style, octets: &[u8], out: &mut Vec<u8>) {
    match style {
        Style::Raw => out.extend_from_slice(octets),
        Style::Segment | Style::Encoded => percent_encode(octets, UNRESERVED).for_each(|part| out.extend_from_slice(part.as_bytes())),
        Style::Form => {
            let from = out.len();
            percent_encode(octets, FORM).for_each(|part| out.extend_from_slice(part.as_bytes()));
            out[from..].iter_mut().filter(|byte| **byte == b' ').for_each(|byte| *byte = b'+');
        }
        Style::Cookie => octets.iter().for_each(|byte| {
            if is_cookie_octet(*byte) {
                out.push(*byte);
            } else {
                out.extend_from_slice(percent_encoding::percent_encode_byte(*byte).as_bytes());
            }
        }),
        Style::Json => push_string_content(std::str::from_utf8(octets).unwrap_or_default(), out),
    }
}

/// Appends the author's own text between values.
pub(super) fn push_literal(context: Context, text: &str, out: &mut Vec<u8>) {
    let style = match context {
        Context::Query => Style::Encoded,
        Context::Form => Style::Form,
        Context::Cookie => Style::Cookie,
        Context::JsonText => Style::Json,
        Context::Path | Context::RedirectTarget | Context::Header | Context::Plain => Style::Raw,
    };
    push(style, text, out);
}

/// What the author's own text may not hold at this place.
pub(super) fn check_literal(text: &str, context: Context) -> Option<CompileError> {
    let bytes = text.as_bytes();
    match context {
        Context::Header => {
            let at = bytes.iter().position(|byte| is_control(*byte))?;
            Some(CompileError::new(at, 1, "a header's value cannot hold a control character"))
        }
        Context::Path | Context::RedirectTarget => {
            let wrong = |byte: &u8| matches!(byte, 0..=0x20 | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}');
            if let Some(at) = bytes.iter().position(|byte| wrong(byte) || (*byte == b'#' && context == Context::Path)) {
                let character = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(' ');
                let fault = CompileError::new(at, character.len_utf8(), format!("{character:?} cannot stand in a path as it is"));
                let mut encoded = Vec::new();
                push(Style::Encoded, character.encode_utf8(&mut [0; 4]), &mut encoded);
                return Some(fault.help(format!("write {}", String::from_utf8_lossy(&encoded))));
            }
            let escaped = |at: &usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let at = memchr::memchr_iter(b'%', bytes).find(|at| !escaped(at))?;
            Some(CompileError::new(at, 1, "'%' must be followed by two hexadecimal digits").help("a percent sign itself is written %25"))
        }
        _ => None,
    }
}

/// What a header's value cannot hold: control characters but the tab.
pub(super) fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// RFC 6265 section 4.1.1.
fn is_cookie_octet(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e)
}
