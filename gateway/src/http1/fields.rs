//! Header and trailer fields as they stand on the wire.
use std::fmt;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};

/// Why bytes are not a message; the word is one that logs and metrics can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed HTTP/1 message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// How much of fields one side takes from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldBounds {
    /// The longest single line, in bytes.
    pub line: usize,
    /// All lines together, in bytes.
    pub total: usize,
    /// How many fields.
    pub count: usize,
}

impl Default for FieldBounds {
    fn default() -> Self {
        Self { line: 8 << 10, total: 32 << 10, count: 100 }
    }
}

/// Reads one field line, given without its CRLF.
///
/// `HeaderName` takes exactly the tokens of RFC 9110 §5.6.2, and `HeaderValue` refuses every control byte but HTAB, so a
/// bare CR, a NUL, a space before the colon and a folded line all end here. Bytes from 0x80 up are kept as they are.
pub fn parse(line: &Bytes) -> Result<(HeaderName, HeaderValue), Malformed> {
    parse_at(line, 0, line.len())
}

/// The same of the line that stands in `head` between two places.
pub(super) fn parse_at(head: &Bytes, start: usize, end: usize) -> Result<(HeaderName, HeaderValue), Malformed> {
    let line = &head[start..end];
    // Names are short: a loop is over before a call would have begun.
    let colon = line.iter().position(|it| *it == b':').ok_or(Malformed("no_colon"))?;
    let name = match usual(&line[..colon]) {
        Some(it) => it,
        None => HeaderName::from_bytes(&line[..colon]).map_err(|_| Malformed("header_name"))?,
    };
    let (mut from, mut to) = (colon + 1, line.len());
    while from < to && matches!(line[from], b' ' | b'\t') {
        from += 1;
    }
    while to > from && matches!(line[to - 1], b' ' | b'\t') {
        to -= 1;
    }
    let value = HeaderValue::from_maybe_shared(head.slice(start + from..start + to)).map_err(|_| Malformed("header_value"))?;
    Ok((name, value))
}

/// The names that most messages carry, in the two spellings that they come in; found without hashing or lowering a byte.
fn usual(name: &[u8]) -> Option<HeaderName> {
    Some(match name {
        b"Host" | b"host" => header::HOST,
        b"Accept" | b"accept" => header::ACCEPT,
        b"Cookie" | b"cookie" => header::COOKIE,
        b"User-Agent" | b"user-agent" => header::USER_AGENT,
        b"Connection" | b"connection" => header::CONNECTION,
        b"Authorization" | b"authorization" => header::AUTHORIZATION,
        b"Accept-Encoding" | b"accept-encoding" => header::ACCEPT_ENCODING,
        b"Accept-Language" | b"accept-language" => header::ACCEPT_LANGUAGE,
        b"Content-Type" | b"content-type" => header::CONTENT_TYPE,
        b"Content-Length" | b"content-length" => header::CONTENT_LENGTH,
        b"Transfer-Encoding" | b"transfer-encoding" => header::TRANSFER_ENCODING,
        b"Date" | b"date" => header::DATE,
        b"Server" | b"server" => header::SERVER,
        b"Cache-Control" | b"cache-control" => header::CACHE_CONTROL,
        b"Origin" | b"origin" => header::ORIGIN,
        b"Referer" | b"referer" => header::REFERER,
        _ => return None,
    })
}

/// The elements of a comma-separated list of tokens, blanks trimmed and empty ones left out.
pub fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|it| *it == b',').map(|it| it.trim_ascii()).filter(|it| !it.is_empty())
}

/// Whether a field speaks of one connection only and is never passed on (RFC 9110 §7.6.1), those aside that `Connection` names.
pub fn hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONNECTION
            | header::TRANSFER_ENCODING
            | header::TE
            | header::TRAILER
            | header::UPGRADE
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Whether a field may stand in a trailer section: not one that frames, routes, authenticates or describes the content
/// (RFC 9110 §6.5.1), which whoever merges trailers into headers would let a sender smuggle in.
pub fn allowed_in_trailers(name: &HeaderName) -> bool {
    !hop_by_hop(name)
        && !matches!(
            *name,
            header::CONTENT_LENGTH
                | header::CONTENT_ENCODING
                | header::CONTENT_TYPE
                | header::CONTENT_RANGE
                | header::HOST
                | header::AUTHORIZATION
                | header::COOKIE
                | header::SET_COOKIE
                | header::CACHE_CONTROL
                | header::EXPECT
                | header::MAX_FORWARDS
                | header::RANGE
                | header::LOCATION
                | header::FORWARDED
        )
        && !name.as_str().starts_with("x-forwarded-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_strictly_and_kept_to_the_byte() {
        let read =
            |line: &'static [u8]| parse(&Bytes::from_static(line)).map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        for (line, name, value) in
            [(&b"A: b"[..], "a", &b"b"[..]), (b"x_y:\t v\xff, w \t", "x_y", b"v\xff, w"), (b"x:", "x", b""), (b"x: a:b\tc", "x", b"a:b\tc")]
        {
            assert_eq!(read(line), Ok((name.to_string(), value.to_vec())), "{line:?}");
        }
        for line in [
            &b"no colon"[..],
            b"",
            b": v",
            b"a : v",
            b" a: v",
            b"\ta: v",
            b"a b: v",
            b"a\x00: v",
            b"\"a\": v",
            b"a(b): v",
            b"x: a\rb",
            b"x: a\0b",
            b"x: a\x7fb",
            b"x: a\nb",
            b"x\xc3\xa9: v",
        ] {
            assert!(read(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn framing_and_credentials_have_no_place_in_trailers() {
        for name in ["content-length", "transfer-encoding", "host", "connection", "keep-alive", "authorization", "x-forwarded-for"] {
            assert!(!allowed_in_trailers(&HeaderName::from_static(name)), "{name}");
        }
        assert!(allowed_in_trailers(&HeaderName::from_static("grpc-status")));
    }
}
