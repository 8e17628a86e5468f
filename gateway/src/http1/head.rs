//! Reads a request's head: what does not follow RFC 9112 to the letter is refused, for a reader behind us may read it otherwise.
use bytes::{Buf, Bytes, BytesMut};
use contract::{Kind, Problem};
use http::{Method, Uri, Version, header, request};

use super::{
    decode::Framing,
    fields::{self, FieldBounds, Malformed},
    spare,
};

/// Empty lines that are passed over before a request, of clients that end a body with one (RFC 9112 §2.2).
const BLANK_LINES: u8 = 2;

/// Why a request is not read any further, and what the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: Kind,
    /// For logs and metrics.
    pub reason: &'static str,
    pub message: &'static str,
}

impl Refusal {
    pub const fn new(kind: Kind, reason: &'static str, message: &'static str) -> Self {
        Self { kind, reason, message }
    }

    const fn bad(reason: &'static str, message: &'static str) -> Self {
        Self::new(Kind::Invalid, reason, message)
    }

    /// As a problem, to be rendered.
    pub fn problem(self) -> Box<Problem> {
        Problem::new(self.kind, self.message).reason(self.reason)
    }
}

impl From<Malformed> for Refusal {
    fn from(it: Malformed) -> Self {
        Self::bad(it.0, "a header line is malformed")
    }
}

/// A head, read, with all that the connection has to know of it.
#[derive(Debug)]
pub struct Head {
    pub parts: request::Parts,
    pub framing: Framing,
    /// Whether the client wants to go on after this exchange.
    pub keep_alive: bool,
    /// Whether it waits for a `100 Continue` before it sends the body.
    pub expects: bool,
    /// Whether it offers to leave HTTP.
    pub upgrade: bool,
    /// Whether it takes trailers.
    pub trailers: bool,
}

/// Looks for the end of a head, line by line; continues where it stopped, so that a head that comes byte by byte costs no more.
#[derive(Debug, Default)]
pub struct Scanner {
    /// How far was looked.
    seen: usize,
    /// Where each line's LF stands; the head is complete when the last line is empty.
    ends: Vec<u32>,
    blank: u8,
}

impl Scanner {
    /// Takes a whole head out of `buf`, once it is there.
    pub fn next(&mut self, buf: &mut BytesMut, line: usize, bounds: &FieldBounds) -> Result<Option<Bytes>, Refusal> {
        loop {
            if self.seen == buf.len() {
                return Ok(None);
            }
            let start = self.ends.last().map_or(0, |it| *it as usize + 1);
            let Some(found) = memchr::memchr(b'\n', &buf[self.seen..]) else {
                self.seen = buf.len();
                self.check(start, buf.len(), line, bounds)?;
                return Ok(None);
            };
            let end = self.seen + found;
            self.check(start, end, line, bounds)?;
            if end == start || buf[end - 1] != b'\r' {
                return Err(Refusal::bad("bare_line_feed", "lines end with CR and LF"));
            }
            if end == start + 1 {
                if self.ends.is_empty() {
                    self.blank += 1;
                    if self.blank > BLANK_LINES {
                        return Err(Refusal::bad("blank_lines", "a request begins with its request line"));
                    }
                    buf.advance(2);
                    self.seen = 0;
                    continue;
                }
                let head = buf.split_to(end + 1).freeze();
                (self.seen, self.blank) = (0, 0);
                return Ok(Some(head));
            }
            self.seen = end + 1;
            self.ends.push(end as u32);
        }
    }

    /// Holds the limits for a line that begins at `start` and was seen up to `end`.
    fn check(&self, start: usize, end: usize, line: usize, bounds: &FieldBounds) -> Result<(), Refusal> {
        const TOO_LARGE: Refusal = Refusal::new(Kind::HeadersTooLarge, "headers_too_large", "the headers are larger than allowed here");
        const TOO_MANY: Refusal = Refusal::new(Kind::HeadersTooLarge, "too_many_headers", "there are more headers than allowed here");
        let size = end - start;
        match self.ends.first() {
            None if size > line => Err(Refusal::new(Kind::UriTooLong, "uri_too_long", "the request line is longer than allowed here")),
            None => Ok(()),
            Some(first) if size > bounds.line || end - *first as usize > bounds.total => Err(TOO_LARGE),
            Some(_) if self.ends.len() > bounds.count && size > 1 => Err(TOO_MANY),
            Some(_) => Ok(()),
        }
    }

    /// Reads the head that [`next`](Self::next) just gave.
    #[inline]
    pub fn parse(&mut self, head: &Bytes) -> Result<Head, Refusal> {
        let read = parse(head, &self.ends);
        self.ends.clear();
        read
    }
}

#[inline]
fn parse(head: &Bytes, ends: &[u32]) -> Result<Head, Refusal> {
    let Some((first, rest)) = ends.split_first() else { return Err(Refusal::bad("request_line", "there is no request line")) };
    let mut parts = http::Request::new(()).into_parts().0;
    let target = request_line(head, *first as usize - 1, &mut parts)?;

    let mut known = Known::default();
    parts.headers = spare::take();
    let mut start = *first as usize + 1;
    for end in rest {
        let end = *end as usize;
        let (name, value) = fields::parse_at(head, start, end - 1)?;
        match name {
            header::HOST => known.host(value.as_bytes())?,
            header::CONTENT_LENGTH => known.length(value.as_bytes())?,
            header::TRANSFER_ENCODING => known.coding(value.as_bytes())?,
            header::CONNECTION => known.connection(value.as_bytes()),
            header::UPGRADE => known.upgrade |= !value.is_empty(),
            header::EXPECT => known.expect(value.as_bytes())?,
            header::TE => known.trailers |= fields::tokens(value.as_bytes()).any(|it| it.eq_ignore_ascii_case(b"trailers")),
            _ => {}
        }
        parts.headers.append(name, value);
        start = end + 1;
    }
    finish(parts, target, known)
}

#[inline]
fn finish(mut parts: request::Parts, target: Bytes, known: Known) -> Result<Head, Refusal> {
    let modern = parts.version == Version::HTTP_11;
    let framing = match (known.length, known.chunked) {
        (Some(_), true) => {
            return Err(Refusal::bad("length_and_chunked", "a request has Content-Length or Transfer-Encoding, never both"));
        }
        (None, true) if !modern => return Err(Refusal::bad("chunked_http_10", "HTTP/1.0 has no Transfer-Encoding")),
        (None, true) => Framing::Chunked,
        (Some(0) | None, false) => Framing::Empty,
        (Some(it), false) => Framing::Length(it),
    };
    if modern && !known.has_host {
        return Err(Refusal::bad("no_host", "an HTTP/1.1 request names its host"));
    }
    parts.uri = uri(target, &parts)?;
    Ok(Head {
        framing,
        keep_alive: !known.close && (modern || known.keep_alive),
        expects: known.expects && modern && framing != Framing::Empty,
        // A body and a tunnel would share the same bytes; RFC 9110 §7.8 lets us ignore the offer.
        upgrade: modern && known.upgrade && known.upgrade_named && framing == Framing::Empty,
        trailers: known.trailers && modern,
        parts,
    })
}

/// Reads the line's method and version; gives its target, which needs the headers to be understood.
fn request_line(head: &Bytes, end: usize, parts: &mut request::Parts) -> Result<Bytes, Refusal> {
    const BAD: Refusal = Refusal::bad("request_line", "a request line is a method, a target and a version, one space between them");
    let line = &head[..end];
    // A version is eight bytes; a method is short, and a loop over it cheaper than a call.
    let version = line.len().checked_sub(9).filter(|at| line[*at] == b' ').ok_or(BAD)?;
    let method = line[..version].iter().position(|it| *it == b' ').ok_or(BAD)?;
    if version == method + 1 {
        return Err(BAD);
    }
    parts.version = match &line[version + 1..] {
        b"HTTP/1.1" => Version::HTTP_11,
        b"HTTP/1.0" => Version::HTTP_10,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            return Err(Refusal::new(Kind::VersionNotSupported, "http_version", "this listener speaks HTTP/1.1 and HTTP/1.0"));
        }
        _ => return Err(BAD),
    };
    parts.method = Method::from_bytes(&line[..method]).map_err(|_| Refusal::bad("method", "the method is not a token"))?;
    Ok(head.slice(method + 1..version))
}

/// Reads the target in the forms of RFC 9112 §3.2, its bytes kept as they are.
#[inline]
fn uri(target: Bytes, parts: &request::Parts) -> Result<Uri, Refusal> {
    const BAD: Refusal = Refusal::bad("target", "the request's target is not a path or an http URL");
    if parts.method == Method::CONNECT {
        return Err(Refusal::new(Kind::NotImplemented, "connect", "this is not a forward proxy"));
    }
    // `Uri` would drop a fragment without a word; blanks and control bytes would mean a second request line to others.
    // Without an early end the loop runs on many bytes at once.
    if target.iter().fold(false, |bad, it| bad | (*it <= b' ') | (*it == 0x7f) | (*it == b'#')) {
        return Err(Refusal::bad("target_bytes", "the request's target holds a byte that has no place there"));
    }
    let origin = match target[0] {
        b'/' => true,
        b'*' if target.len() == 1 && parts.method == Method::OPTIONS => true,
        _ => false,
    };
    if !origin {
        let scheme = target.iter().position(|it| *it == b':').map(|at| &target[..at]);
        if !scheme.is_some_and(|it| it.eq_ignore_ascii_case(b"http") || it.eq_ignore_ascii_case(b"https")) {
            return Err(BAD);
        }
    }
    let uri = Uri::from_maybe_shared(target).map_err(|_| BAD)?;
    if !origin {
        let named = uri.authority().and_then(|it| host_and_port(it.as_str().as_bytes())).ok_or(BAD)?;
        if let Some(host) = parts.headers.get(header::HOST) {
            let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let same = host_and_port(host.as_bytes())
                .is_some_and(|host| host.0.eq_ignore_ascii_case(named.0) && host.1.unwrap_or(default) == named.1.unwrap_or(default));
            if !same {
                return Err(Refusal::bad("host_mismatch", "Host and the request's target name two hosts"));
            }
        }
    }
    Ok(uri)
}

/// What the headers that matter here said.
#[derive(Default)]
struct Known {
    has_host: bool,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    upgrade_named: bool,
    expects: bool,
    trailers: bool,
}

impl Known {
    fn host(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.has_host {
            return Err(Refusal::bad("two_hosts", "a request names one host"));
        }
        if host_and_port(value).is_none() {
            return Err(Refusal::bad("host", "Host is not a host name with or without a port"));
        }
        self.has_host = true;
        Ok(())
    }

    /// One number, once. A list of equal ones, a sign, and leading zeros, which some read as octal, are refused.
    fn length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        const BAD: Refusal = Refusal::bad("content_length", "Content-Length is one plain number");
        if self.length.is_some() {
            return Err(BAD);
        }
        self.length = plain_number(value);
        if self.length.is_none() { Err(BAD) } else { Ok(()) }
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.chunked {
            return Err(Refusal::bad("transfer_encoding", "Transfer-Encoding is chunked, once"));
        }
        if value.eq_ignore_ascii_case(b"chunked") {
            self.chunked = true;
            return Ok(());
        }
        // A coding that exists, and under chunked, as a well-meaning client would send it.
        let compressed =
            |it: &[u8]| ["gzip", "x-gzip", "deflate", "compress", "x-compress"].iter().any(|name| it.eq_ignore_ascii_case(name.as_bytes()));
        let mut codings = value.split(|it| *it == b',').map(|it| it.trim_ascii()).rev();
        if codings.next().is_some_and(|it| it.eq_ignore_ascii_case(b"chunked")) && codings.all(compressed) {
            return Err(Refusal::new(Kind::NotImplemented, "transfer_coding", "chunked is the only transfer coding here"));
        }
        Err(Refusal::bad("transfer_encoding", "Transfer-Encoding is chunked, once"))
    }

    fn connection(&mut self, value: &[u8]) {
        for it in fields::tokens(value) {
            self.close |= it.eq_ignore_ascii_case(b"close");
            self.keep_alive |= it.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade_named |= it.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::new(Kind::ExpectationFailed, "expect", "100-continue is the only expectation met here"));
        }
        self.expects = true;
        Ok(())
    }
}

/// A number as lengths are written: digits alone, no zero before them.
#[inline]
pub fn plain_number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) || (value[0] == b'0' && value.len() > 1) {
        return None;
    }
    value.iter().try_fold(0u64, |sum, it| sum.checked_mul(10)?.checked_add(u64::from(it - b'0')))
}

/// Whether a text is a host, with or without a port, as requests may name one.
pub fn is_host(value: &[u8]) -> bool {
    host_and_port(value).is_some()
}

/// The host, in brackets where it is an IPv6 address, and the port. Host names are what DNS and its users write; the marks
/// that RFC 3986 also grants, such as `,` and `;`, have no use but to be read two ways.
fn host_and_port(value: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let split = match value.first()? {
        b'[' => memchr::memchr(b']', value)? + 1,
        _ => memchr::memchr(b':', value).unwrap_or(value.len()),
    };
    let (host, rest) = value.split_at(split);
    let good = match host {
        [b'[', inside @ .., b']'] => std::str::from_utf8(inside).ok()?.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => !host.is_empty() && host.iter().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_' | b'~')),
    };
    let port = match rest {
        [] => None,
        [b':', digits @ ..] if (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit) => {
            Some(digits.iter().try_fold(0u16, |sum, it| sum.checked_mul(10)?.checked_add(u16::from(it - b'0')))?)
        }
        _ => return None,
    };
    good.then_some((host, port))
}
