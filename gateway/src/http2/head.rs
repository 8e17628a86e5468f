//! Makes of a request's head what HTTP/1's is. The library has refused what is malformed by RFC 9113 §8; what it lets pass and
//! somebody behind us may read in two ways is refused here.
use contract::Kind;
use http::{HeaderMap, HeaderValue, Method, Uri, header, request};

use crate::http1::{Limits, Refusal, is_host, plain_number};

const BAD_TARGET: Refusal = Refusal::new(Kind::Invalid, "target", "the request's target is not a path");
const BAD_BYTES: Refusal = Refusal::new(Kind::Invalid, "target_bytes", "the request's target holds a byte that has no place there");
const TOO_LARGE: Refusal = Refusal::new(Kind::HeadersTooLarge, "headers_too_large", "the headers are larger than allowed here");
const TOO_MANY: Refusal = Refusal::new(Kind::HeadersTooLarge, "too_many_headers", "there are more headers than allowed here");
const URI_TOO_LONG: Refusal = Refusal::new(Kind::UriTooLong, "uri_too_long", "the request line is longer than allowed here");

/// A head, with all that its stream has to know of it.
pub(super) struct Head {
    pub(super) parts: request::Parts,
    /// The body's length, where the client told it.
    pub(super) length: Option<u64>,
    /// Whether it waits for a `100 Continue` before it sends the body.
    pub(super) expects: bool,
}

pub(super) fn read(mut parts: request::Parts, limits: &Limits) -> Result<Head, Refusal> {
    bounds(&parts, limits)?;
    if parts.method == Method::CONNECT {
        return Err(Refusal::new(Kind::NotImplemented, "connect", "this is not a forward proxy"));
    }
    if !parts.uri.scheme_str().is_none_or(|it| it.eq_ignore_ascii_case("http") || it.eq_ignore_ascii_case("https")) {
        return Err(Refusal::new(Kind::Invalid, "scheme", "the scheme is http or https"));
    }
    host(&mut parts)?;
    let path = parts.uri.path_and_query().cloned().ok_or(BAD_TARGET)?;
    let text = path.as_str();
    if text.bytes().any(|it| it <= b' ' || it == 0x7f || it == b'#') {
        return Err(BAD_BYTES);
    }
    let whole_server = text == "*" && parts.method == Method::OPTIONS;
    if !text.starts_with('/') && !whole_server {
        return Err(BAD_TARGET);
    }
    parts.uri = Uri::from(path);
    cookies(&mut parts.headers);
    let length = length(&parts.headers)?;
    let expects = match parts.headers.get(header::EXPECT) {
        None => false,
        Some(it) if it.as_bytes().eq_ignore_ascii_case(b"100-continue") => true,
        Some(_) => return Err(Refusal::new(Kind::ExpectationFailed, "expect", "100-continue is the only expectation met here")),
    };
    Ok(Head { parts, length, expects })
}

/// Counted as HTTP/1 would write it; the crumbs of a cookie one by one.
fn bounds(parts: &request::Parts, limits: &Limits) -> Result<(), Refusal> {
    let path = parts.uri.path_and_query().map_or(0, |it| it.as_str().len());
    if parts.method.as_str().len() + path + " ".len() + " HTTP/1.1".len() > limits.request_line {
        return Err(URI_TOO_LONG);
    }
    if parts.headers.len() > limits.headers.count {
        return Err(TOO_MANY);
    }
    let mut total = 0;
    for (name, value) in &parts.headers {
        let line = name.as_str().len() + value.len() + ": \r\n".len();
        total += line;
        if line > limits.headers.line || total > limits.headers.total {
            return Err(TOO_LARGE);
        }
        // RFC 9113 §8.2.1: a value neither begins nor ends with a blank.
        let blank = |it: Option<&u8>| matches!(it, Some(b' ' | b'\t'));
        if blank(value.as_bytes().first()) || blank(value.as_bytes().last()) {
            return Err(Refusal::new(Kind::Invalid, "header_value", "a header value begins or ends with a blank"));
        }
    }
    Ok(())
}

/// `:authority` becomes Host; where both stand they are the same (RFC 9113 §8.3.1).
fn host(parts: &mut request::Parts) -> Result<(), Refusal> {
    const BAD: Refusal = Refusal::new(Kind::Invalid, "host", "Host is not a host name with or without a port");
    let mut given = parts.headers.get_all(header::HOST).iter();
    let said = given.next();
    if given.next().is_some() {
        return Err(Refusal::new(Kind::Invalid, "two_hosts", "a request names one host"));
    }
    let named = match (parts.uri.authority(), said) {
        (None, None) => return Err(Refusal::new(Kind::Invalid, "no_host", "a request names its host")),
        (None, Some(it)) => return if is_host(it.as_bytes()) { Ok(()) } else { Err(BAD) },
        (Some(named), Some(it)) if !it.as_bytes().eq_ignore_ascii_case(named.as_str().as_bytes()) => {
            return Err(Refusal::new(Kind::Invalid, "host_mismatch", "Host and :authority name two hosts"));
        }
        (Some(named), _) => named,
    };
    if !is_host(named.as_str().as_bytes()) {
        return Err(BAD);
    }
    let value = HeaderValue::from_str(named.as_str()).map_err(|_| BAD)?;
    parts.headers.insert(header::HOST, value);
    Ok(())
}

/// Crumbs become one cookie (RFC 9113 §8.2.3).
fn cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let mut joined = Vec::new();
    for it in headers.get_all(header::COOKIE) {
        if !joined.is_empty() {
            joined.extend_from_slice(b"; ");
        }
        joined.extend_from_slice(it.as_bytes());
    }
    // Values joined by a semicolon and a blank are a value.
    if let Ok(it) = HeaderValue::try_from(joined) {
        headers.insert(header::COOKIE, it);
    }
}

/// One plain number, once; the library holds the body to it.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    const BAD: Refusal = Refusal::new(Kind::Invalid, "content_length", "Content-Length is one plain number");
    let mut all = headers.get_all(header::CONTENT_LENGTH).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(it), None) => plain_number(it.as_bytes()).map(Some).ok_or(BAD),
        (Some(_), Some(_)) => Err(BAD),
    }
}
