//! Reads the head of a backend's answer, strictly: what could be read in two ways is refused.
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::http1::{
    decode::Framing,
    fields::{self, Malformed},
    spare,
};

/// The longest head of an answer.
pub(super) const MAX_HEAD: usize = 64 * 1024;
/// The most header lines in an answer.
pub(super) const MAX_HEADERS: usize = 200;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    /// Without those that belong to the connection alone.
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether the backend lets the connection serve again.
    pub(super) keep_alive: bool,
    /// Whether server-sent events follow.
    events: bool,
}

impl Head {
    /// Whether what follows is a stream without an end of its own: a tunnel, or server-sent events.
    pub(super) fn streams(&self) -> bool {
        self.status == StatusCode::SWITCHING_PROTOCOLS || self.events
    }
}

/// Finds the end of a head that arrives in pieces; looks at each byte once.
#[derive(Debug, Default)]
pub(super) struct Scan {
    seen: usize,
    /// Where each line's LF stands, the empty line's last.
    ends: Vec<u32>,
}

impl Scan {
    /// The length of the head at the start of `bytes`, once all of it is there.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        const START: &[u8] = b"HTTP/1.";
        let known = bytes.len().min(START.len());
        if bytes[..known] != START[..known] {
            return Err(Malformed("not_http"));
        }
        let window = &bytes[..bytes.len().min(MAX_HEAD)];
        for at in memchr::memchr_iter(b'\n', &window[self.seen..]) {
            let at = self.seen + at;
            if at == 0 || window[at - 1] != b'\r' {
                return Err(Malformed("bare_line_feed"));
            }
            // The status line and the empty line stand beside the headers.
            if self.ends.len() >= MAX_HEADERS + 2 {
                return Err(Malformed("too_many_headers"));
            }
            self.ends.push(at as u32);
            if at >= 3 && window[at - 2] == b'\n' {
                return Ok(Some(at + 1));
            }
        }
        self.seen = window.len();
        if bytes.len() >= MAX_HEAD { Err(Malformed("head_too_large")) } else { Ok(None) }
    }

    /// Begins anew.
    pub(super) fn reset(&mut self) {
        self.seen = 0;
        self.ends.clear();
    }
}

/// Takes a whole head of `length` bytes, as `scan` found it, from the front of `buffer`; `scan` begins anew.
pub(super) fn take(buffer: &mut BytesMut, length: usize, scan: &mut Scan, method: &Method) -> Result<Head, Malformed> {
    let read = read(buffer.split_to(length).freeze(), &scan.ends, method);
    scan.reset();
    read
}

fn read(head: Bytes, ends: &[u32], method: &Method) -> Result<Head, Malformed> {
    let [first, rest @ .., _] = ends else { return Err(Malformed("not_http")) };
    // Each LF was found behind a CR.
    let first = *first as usize;
    let (version, status) = status_line(&head[..first - 1])?;

    let mut headers = spare::take();
    let mut seen = Seen::default();
    let mut start = first + 1;
    for end in rest {
        let end = *end as usize;
        // A folded line begins with white space, which no name does.
        let (name, value) = fields::parse_at(&head, start, end - 1)?;
        seen.header(name, value, &mut headers)?;
        start = end + 1;
    }
    seen.head(version, status, method, headers)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

/// `HTTP/1.1 200 OK`; the blank before a missing reason may be missing too, as many servers have it.
fn status_line(line: &[u8]) -> Result<(Version, StatusCode), Malformed> {
    let version = match line.get(..9) {
        Some(b"HTTP/1.1 ") => Version::Http11,
        Some(b"HTTP/1.0 ") => Version::Http10,
        _ => return Err(Malformed("bad_version")),
    };
    let code = line.get(9..12).ok_or(Malformed("bad_status"))?;
    let status = StatusCode::from_bytes(code).map_err(|_| Malformed("bad_status"))?;
    match line.get(12) {
        None => {}
        Some(b' ') if line[13..].iter().all(|it| matches!(it, b'\t' | 0x20..=0x7e | 0x80..)) => {}
        Some(_) => return Err(Malformed("bad_status")),
    }
    Ok((version, status))
}

/// What the headers say about the connection.
#[derive(Default)]
struct Seen {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    events: bool,
    upgrade: Option<HeaderValue>,
    named: Vec<HeaderName>,
}

impl Seen {
    fn header(&mut self, name: HeaderName, value: HeaderValue, headers: &mut HeaderMap) -> Result<(), Malformed> {
        match name {
            header::CONTENT_LENGTH => {
                // A second one is refused even where both agree: a backend that repeats it is not to be trusted with framing.
                if self.length.is_some() {
                    return Err(Malformed("content_length_repeated"));
                }
                self.length = Some(length(value.as_bytes()).ok_or(Malformed("bad_content_length"))?);
                headers.append(header::CONTENT_LENGTH, value);
            }
            header::TRANSFER_ENCODING => {
                if self.chunked || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed("unknown_transfer_encoding"));
                }
                self.chunked = true;
            }
            header::CONTENT_TYPE => {
                self.events |= value.as_bytes().get(..17).is_some_and(|it| it.eq_ignore_ascii_case(b"text/event-stream"));
                headers.append(header::CONTENT_TYPE, value);
            }
            header::CONNECTION => self.connection(&value)?,
            header::UPGRADE => self.upgrade = Some(value),
            ref it if fields::hop_by_hop(it) => {}
            name => {
                headers.append(name, value);
            }
        }
        Ok(())
    }

    fn connection(&mut self, value: &HeaderValue) -> Result<(), Malformed> {
        for token in fields::tokens(value.as_bytes()) {
            if token.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if !token.eq_ignore_ascii_case(b"upgrade") {
                self.named.push(HeaderName::from_bytes(token).map_err(|_| Malformed("bad_connection_header"))?);
            }
        }
        Ok(())
    }

    fn head(self, version: Version, status: StatusCode, method: &Method, mut headers: HeaderMap) -> Result<Head, Malformed> {
        if self.chunked && self.length.is_some() {
            return Err(Malformed("length_and_chunked"));
        }
        if self.chunked && version == Version::Http10 {
            return Err(Malformed("chunked_in_http_1_0"));
        }
        // Framing is ours: nobody can have its header removed.
        let named = |name: &HeaderName| *name != header::CONTENT_LENGTH && self.named.contains(name);
        if self.named.iter().any(|it| headers.contains_key(it) && named(it)) {
            headers = without(headers, named);
        }
        if let (StatusCode::SWITCHING_PROTOCOLS, Some(protocol)) = (status, self.upgrade) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(header::UPGRADE, protocol);
        }
        let bodiless = status.is_informational() || status == StatusCode::NO_CONTENT;
        let framing = match self.length {
            _ if bodiless || method == Method::HEAD || status == StatusCode::NOT_MODIFIED => Framing::Empty,
            Some(length) => Framing::Length(length),
            None if self.chunked => Framing::Chunked,
            None => Framing::UntilClose,
        };
        if bodiless {
            headers.remove(header::CONTENT_LENGTH);
        }
        // A backend that announces a body where there can be none may well send it.
        let suspect = bodiless && (self.chunked || self.length.is_some_and(|it| it > 0));
        let keep_alive = match version {
            Version::Http11 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        };
        let keep_alive = keep_alive && !suspect && framing != Framing::UntilClose;
        Ok(Head { status, headers, framing, keep_alive, events: self.events })
    }
}

/// `HeaderMap::remove` would put the last header in the place of the removed one; here the order stays.
fn without(headers: HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(headers.keys_len());
    let mut name = None;
    for (next, value) in headers {
        name = next.or(name);
        if let Some(name) = name.as_ref().filter(|it| !unwanted(it)) {
            kept.append(name.clone(), value);
        }
    }
    kept
}

fn length(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}
