//! What makes a path or a redirect's target unsafe.

use super::scan::Piece;
use crate::expression::{Expression, Root};

/// True if a segment of the path reads as `.` or `..`. Escapes are read, and so are separators within them, and what some
/// backends cut off a segment: `%2e%2E`, `..%2Fx`, `..\x` and `..;x` are dot segments to some backend. A query (from the first `?`) is not looked at.
pub fn has_dot_segment(path: &[u8]) -> bool {
    let path = &path[..memchr::memchr(b'?', path).unwrap_or(path.len())];
    let (mut dots, mut other, mut at) = (0, false, 0);
    let mut cut = false;
    while at < path.len() {
        let (byte, length) = match (path[at], path.get(at + 1..at + 3)) {
            (b'%', Some(digits)) => match (hex(digits[0]), hex(digits[1])) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (b'%', 1),
            },
            (byte, _) => (byte, 1),
        };
        match byte {
            b'/' | b'\\' => {
                if !other && (dots == 1 || dots == 2) {
                    return true;
                }
                (dots, other, cut) = (0, false, false);
            }
            // What follows does not belong to the segment's name.
            b';' => cut = true,
            _ if cut => {}
            b'.' => dots += 1,
            _ => other = true,
        }
        at += length;
    }
    !other && (dots == 1 || dots == 2)
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|digit| digit as u8)
}

/// The host that a redirect's target names, without its port: `Some(None)` for a path of this host, `None` for what is neither a path
/// nor an http or https URL, or is written so that clients disagree about its host.
pub fn redirect_host(target: &str) -> Option<Option<&str>> {
    if target.bytes().any(|byte| matches!(byte, 0..=0x20 | 0x7f | b'\\')) {
        return None;
    }
    if target.starts_with('/') && !target.starts_with("//") {
        return Some(None);
    }
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host = match authority.strip_prefix('[') {
        Some(inner) => &authority[..inner.find(']')? + 2],
        None => &authority[..authority.find(':').unwrap_or(authority.len())],
    };
    let port = &authority[host.len()..];
    let port_valid =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()));
    let host_valid = !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':'));
    (port_valid && host_valid).then_some(Some(host))
}

/// True if what follows the beginning of a redirect's target could still be read as a part of its host.
pub(super) fn ends_in_authority(before: &[u8]) -> bool {
    let authority = match memchr::memmem::find(before, b"//") {
        Some(at) if at == 0 || before[at - 1] == b':' => &before[at + 2..],
        _ => return !before.starts_with(b"/"),
    };
    !authority.iter().any(|byte| matches!(byte, b'/' | b'?' | b'#'))
}

/// True unless the author's own text settles where a redirect leads.
pub(super) fn chooses_host(pieces: &[Piece<'_>], expressions: &[Expression]) -> bool {
    // Only these are sure to begin with a slash, which ends the host.
    let is_path = |expression: Option<&Expression>| {
        expression.is_some_and(|expression| matches!(expression.root_field(), Some((Root::Request, "path"))))
    };
    match pieces {
        [] => false,
        [Piece::Expression { .. }, ..] => !is_path(expressions.first()),
        [Piece::Text { text, .. }, rest @ ..] => {
            if rest.is_empty() || (text.starts_with('/') && !text.starts_with("//") && text.len() > 1) {
                return false;
            }
            // "/" alone before a value: the value is one encoded segment, or a raw path, whose second slash is refused when it is rendered.
            if text == "/" {
                return false;
            }
            let authority = match text.split_once("://") {
                Some((_, authority)) => authority,
                None => match text.strip_prefix("//") {
                    Some(authority) => authority,
                    None => return true,
                },
            };
            match authority.find(['/', '?', '#']) {
                Some(0) => true,
                Some(_) => false,
                None => authority.is_empty() || !is_path(expressions.first()),
            }
        }
    }
}
