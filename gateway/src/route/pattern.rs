//! What an author writes under `match`: `[METHODS ][HOST]/PATH`, parsed once.
use std::{fmt, net::Ipv6Addr};

use http::Method;

use super::path;

/// The most segments a pattern may have: far beyond any real one, and a bound for the search.
const MOST_SEGMENTS: usize = 64;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    methods: Vec<Method>,
    host: Host,
    segments: Vec<Segment>,
}

/// Which hosts a pattern is for, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Any,
    Exact(Box<str>),
    /// `*.d`: any depth below `d`, but not `d`.
    Below(Box<str>),
}

/// One piece between slashes. A trailing slash is an empty last literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// What the segment must be, decoded.
    Literal(Box<[u8]>),
    /// `{name}`: one segment that is not empty.
    Capture(Box<str>),
    /// `{name...}`: all that is left, at least one segment; the first of them is not empty.
    Rest(Box<str>),
}

/// Why a text is no pattern, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternFault {
    /// In bytes of the text.
    pub offset: usize,
    /// 0 where something is missing.
    pub len: usize,
    pub message: String,
    pub help: Option<String>,
}

impl Pattern {
    /// Parses `[METHODS ][HOST]/PATH`.
    pub fn parse(text: &str) -> Result<Self, PatternFault> {
        let parser = Parser { text };
        if text.trim().is_empty() {
            return Err(parser.fault(0, text.len(), "a pattern is missing", "write it like GET api.example.com/orders/{id}"));
        }
        let end = text.len() - text.trim_start().len();
        if end > 0 {
            return Err(parser.fault(0, end, "a pattern does not begin with a space", ""));
        }
        let Some(slash) = text.find('/') else {
            return Err(parser.without_path());
        };
        let head = &text[..slash];
        let (methods, host_at) = match head.rfind(char::is_whitespace) {
            Some(at) => (parser.methods(&head[..at])?, at + head[at..].chars().next().map_or(1, char::len_utf8)),
            None => (Vec::new(), 0),
        };
        let host = parser.host(host_at, slash)?;
        let segments = parser.segments(slash)?;
        Ok(Self { methods, host, segments })
    }

    /// The methods that it names; empty means any.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The names of its captures, from the left.
    pub fn captures(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|it| match it {
            Segment::Literal(_) => None,
            Segment::Capture(name) | Segment::Rest(name) => Some(&**name),
        })
    }
}

/// The canonical spelling: it parses to the same pattern, whatever was written.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, method) in self.methods.iter().enumerate() {
            write!(f, "{}{method}", if at > 0 { "," } else { "" })?;
        }
        if !self.methods.is_empty() {
            f.write_str(" ")?;
        }
        match &self.host {
            Host::Any => {}
            Host::Exact(host) => f.write_str(host)?,
            Host::Below(host) => write!(f, "*.{host}")?,
        }
        for segment in &self.segments {
            f.write_str("/")?;
            match segment {
                Segment::Capture(name) => write!(f, "{{{name}}}")?,
                Segment::Rest(name) => write!(f, "{{{name}...}}")?,
                Segment::Literal(plain) => {
                    for byte in plain.iter() {
                        match byte {
                            it if stands_as_it_is(*it) => write!(f, "{}", char::from(*it))?,
                            it => write!(f, "%{it:02X}")?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// RFC 3986's `pchar` without the star, and without the colon, which other gateways begin a capture with.
fn stands_as_it_is(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()+,;=@".contains(&byte)
}

/// Where a method stands in canonical spellings and in `Allow`.
pub(super) const STANDARD: [Method; 9] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS, Method::TRACE, Method::CONNECT];

/// Registered methods and a common one that the standard ones' neighbours must not be mistaken for.
const OTHERS: [&str; 8] = ["COPY", "LINK", "LOCK", "MERGE", "MOVE", "PURGE", "QUERY", "SEARCH"];

struct Parser<'a> {
    text: &'a str,
}

impl Parser<'_> {
    fn fault(&self, offset: usize, len: usize, message: impl Into<String>, help: impl Into<String>) -> PatternFault {
        let help = help.into();
        PatternFault { offset, len, message: message.into(), help: (!help.is_empty()).then_some(help) }
    }

    fn without_path(&self) -> PatternFault {
        let last = self.text.trim_end().rsplit(char::is_whitespace).next().unwrap_or(self.text);
        let at = self.text.trim_end().len() - last.len();
        let help = match STANDARD.iter().any(|it| it.as_str() == last) {
            true => format!("a path that begins with / must follow, such as {last} /orders"),
            false => format!("write {}/ for its root, or {}/{{rest...}} for everything below it", self.text, self.text),
        };
        self.fault(at, last.len(), "a pattern needs a path that begins with /", help)
    }

    fn methods(&self, list: &str) -> Result<Vec<Method>, PatternFault> {
        let mut methods: Vec<Method> = Vec::new();
        let mut at = 0;
        for piece in list.split(',') {
            let offset = at + piece.len() - piece.trim_start().len();
            at += piece.len() + 1;
            let name = piece.trim();
            if name.is_empty() {
                return Err(self.fault(offset, 0, "a method is missing", "methods are parted by one comma: GET,POST /orders"));
            }
            if let Some((space, it)) = name.char_indices().find(|(_, it)| it.is_whitespace()) {
                let help = "methods are parted by commas: GET,POST /orders";
                return Err(self.fault(offset + space, it.len_utf8(), "a space stands inside the methods", help));
            }
            let method = self.method(offset, name)?;
            if methods.contains(&method) {
                return Err(self.fault(offset, name.len(), format!("{name} is named twice"), ""));
            }
            methods.push(method);
        }
        methods.sort_by_cached_key(|it| (STANDARD.iter().position(|one| one == it).unwrap_or(STANDARD.len()), it.to_string()));
        Ok(methods)
    }

    fn method(&self, offset: usize, name: &str) -> Result<Method, PatternFault> {
        let unknown = |help: String| Err(self.fault(offset, name.len(), format!("{name} is not a method"), help));
        if matches!(name.to_ascii_uppercase().as_str(), "ANY" | "ALL" | "*") {
            return unknown("leave the methods out: then any method fits".into());
        }
        let upper = name.to_ascii_uppercase();
        let near = STANDARD.iter().map(Method::as_str).find(|it| strsim::osa_distance(it, &upper) <= 1);
        if let Some(near) = near.filter(|it| *it != name && !OTHERS.contains(&name)) {
            return unknown(format!("did you mean {near}?"));
        }
        if name.bytes().any(|it| it.is_ascii_lowercase()) {
            return unknown(format!("methods are written in capitals: {upper}"));
        }
        match Method::from_bytes(name.as_bytes()) {
            Ok(it) if name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_') => Ok(it),
            _ => unknown("a method is capital letters, as in GET,POST /orders".into()),
        }
    }

    fn host(&self, from: usize, to: usize) -> Result<Host, PatternFault> {
        let text = &self.text[from..to];
        if text.is_empty() {
            return Ok(Host::Any);
        }
        let fault = |message: &str, help: String| Err(self.fault(from, text.len(), message, help));
        if STANDARD.iter().any(|it| it.as_str() == text) {
            return fault("a method and a path are parted by a space", format!("write {text} {}", &self.text[to..]));
        }
        if self.text[to..].starts_with("//") && text.ends_with(':') {
            return fault("a pattern has no scheme", format!("write {}", &self.text[to + 2..]));
        }
        if text.starts_with('[') && text.ends_with(']') {
            return match text[1..text.len() - 1].parse::<Ipv6Addr>() {
                Ok(it) => Ok(Host::Exact(format!("[{it}]").into())),
                Err(_) => fault("this is not an IPv6 address", String::new()),
            };
        }
        if let Some(colon) = text.find(':') {
            let help = format!("leave the port out: {} fits whatever port the request names", &text[..colon]);
            return Err(self.fault(from + colon, text.len() - colon, "a pattern's host has no port", help));
        }
        if text == "*" {
            return fault("a lone * is not a host", format!("leave it out: {} fits any host", &self.text[to..]));
        }
        if !text.is_ascii() {
            return fault("a host is written in ASCII", "write an international name in its xn-- form".into());
        }
        let (name, wildcard) = match text.strip_prefix("*.") {
            Some(it) => (it, true),
            None => (text, false),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        if let Some(star) = name.find('*') {
            let help = "a * stands only for all that is left of a host's first dot, as in *.example.com";
            return Err(self.fault(from + text.len() - name.len() + star, 1, "a * stands inside the host", help));
        }
        if name.contains('{') {
            return fault("a host has no captures", "write *.example.com, and read ${request.host}".into());
        }
        if name.len() > 253 {
            return fault("a host has at most 253 characters", String::new());
        }
        for label in name.split('.') {
            let message = match label {
                "" => "a label of the host is empty",
                it if it.len() > 63 => "a label of the host has more than 63 characters",
                it if it.starts_with('-') || it.ends_with('-') => "a label of the host begins or ends with a hyphen",
                it if !it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-' || it == b'_') => "this is not a host",
                _ => continue,
            };
            return fault(message, String::new());
        }
        let name = name.to_ascii_lowercase().into();
        Ok(if wildcard { Host::Below(name) } else { Host::Exact(name) })
    }

    fn segments(&self, slash: usize) -> Result<Vec<Segment>, PatternFault> {
        let path = &self.text[slash..];
        let spans: Vec<_> = path::segments(path).map(|(from, to)| (slash + from as usize, slash + to as usize)).collect();
        if spans.len() > MOST_SEGMENTS {
            return Err(self.fault(slash, path.len(), format!("a pattern has at most {MOST_SEGMENTS} segments"), ""));
        }
        let mut segments: Vec<Segment> = Vec::with_capacity(spans.len());
        let last = spans.len() - 1;
        for (at, (from, to)) in spans.into_iter().enumerate() {
            let segment = self.segment(from, to, at == last)?;
            if let Segment::Rest(name) = &segment
                && at != last
            {
                let help = format!("use {{{name}}} for one segment");
                return Err(self.fault(from, to - from, format!("{{{name}...}} must stand last"), help));
            }
            if let Segment::Capture(name) | Segment::Rest(name) = &segment {
                let same = |it: &Segment| matches!(it, Segment::Capture(other) | Segment::Rest(other) if other == name);
                if segments.iter().any(same) {
                    return Err(self.fault(from, to - from, format!("{name} is captured twice"), "give each capture its own name"));
                }
            }
            segments.push(segment);
        }
        Ok(segments)
    }

    fn segment(&self, from: usize, to: usize, last: bool) -> Result<Segment, PatternFault> {
        let text = &self.text[from..to];
        if text.is_empty() && !last {
            return Err(self.fault(from - 1, 2, "a segment of the path is empty", "write one slash"));
        }
        if text.contains(['{', '}']) {
            return self.capture(from, text);
        }
        if let Some(name) = text.strip_prefix(':') {
            let help = format!("write {{{name}}} to capture a segment, or %3A{name} for a colon");
            return Err(self.fault(from, text.len(), "a segment does not begin with a colon", help));
        }
        for (at, it) in text.char_indices() {
            let help = match it {
                '?' | '#' => "a pattern ends with the path; query parameters are declared under params",
                '*' => "write {rest...} for all that is left, {name} for one segment, %2A for a star",
                '\\' => "segments are parted by /",
                it if it.is_whitespace() => "METHODS, if any, stand before the host: GET example.com/orders; a space in a path is %20",
                '%' | ':' => continue,
                it if !it.is_ascii() && !it.is_control() => continue,
                it if it.is_ascii() && stands_as_it_is(it as u8) => continue,
                _ => "write it encoded, as % and two hexadecimal digits",
            };
            return Err(self.fault(from + at, it.len_utf8(), format!("{it:?} cannot stand in a path"), help));
        }
        let mut plain = Vec::with_capacity(text.len());
        if path::decode(text.as_bytes(), &mut plain).is_err() {
            let at = text.match_indices('%').map(|(at, _)| at).find(|at| {
                let digits = text.as_bytes().get(at + 1..at + 3);
                !digits.is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit))
            });
            return Err(self.fault(
                from + at.unwrap_or(0),
                1,
                "a % is not followed by two hexadecimal digits",
                "a percent sign is written %25",
            ));
        }
        if path::check(&self.text[from - 1..to]).is_err() {
            let message = "no request has such a segment: dot segments and NUL are refused before routing";
            return Err(self.fault(from, text.len(), message, ""));
        }
        Ok(Segment::Literal(plain.into()))
    }

    fn capture(&self, from: usize, text: &str) -> Result<Segment, PatternFault> {
        let whole = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')).filter(|it| !it.contains(['{', '}']));
        let Some(inside) = whole else {
            let help = "write /{name}/ and take the value apart in an expression; a literal brace is %7B or %7D";
            return Err(self.fault(from, text.len(), "a capture is a whole segment", help));
        };
        let (name, rest) = match inside.strip_suffix("...") {
            Some(it) => (it, true),
            None => (inside, false),
        };
        let well = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
            && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
        if !well {
            let letters: String = name.chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect();
            let help = match name {
                "" => "give it a name, such as {id}".to_owned(),
                it if it.starts_with('*') => format!("write {{{}...}} for all that is left", it.trim_start_matches('*')),
                it if it.starts_with("...") => format!("write {{{}...}} for all that is left", it.trim_start_matches('.')),
                it if it.contains([':', '=', '?']) && !letters.is_empty() => {
                    format!("write {{{letters}}}; its type and rules are declared under params")
                }
                _ => "a name is letters, digits, _ and -, and begins with a letter or _".to_owned(),
            };
            return Err(self.fault(from, text.len(), format!("{text} is not a capture"), help));
        }
        Ok(if rest { Segment::Rest(name.into()) } else { Segment::Capture(name.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_one_canonical_spelling_that_parses_to_itself() {
        for (text, canonical) in [
            ("/", "/"),
            ("GET /a", "GET /a"),
            ("POST,GET api.example.com/a/{id}", "GET,POST api.example.com/a/{id}"),
            ("GET, POST /a", "GET,POST /a"),
            ("*.example.com/", "*.example.com/"),
            ("*.Example.COM./", "*.example.com/"),
            ("/files/{rest...}", "/files/{rest...}"),
            ("/a/", "/a/"),
            ("/caf\u{e9}/%63", "/caf%C3%A9/c"),
            ("/a%2fb", "/a%2Fb"),
            ("/v1:go/%2A/%7Bx%7D", "/v1%3Ago/%2A/%7Bx%7D"),
            ("[0:0::1]/x", "[::1]/x"),
            ("10.0.0.1/x", "10.0.0.1/x"),
            ("PURGE,QUERY,MY-VERB /x", "MY-VERB,PURGE,QUERY /x"),
            ("/{customer-id}/{_x}", "/{customer-id}/{_x}"),
        ] {
            let parsed = Pattern::parse(text).unwrap_or_else(|it| panic!("{text}: {it:?}"));
            assert_eq!(parsed.to_string(), canonical);
            assert_eq!(Pattern::parse(canonical).as_ref(), Ok(&parsed), "{text}");
        }
    }

    #[test]
    fn captures_are_named_from_the_left() {
        let pattern = Pattern::parse("/{a}/b/{c}/{d...}").unwrap();
        assert_eq!(pattern.captures().collect::<Vec<_>>(), ["a", "c", "d"]);
    }

    #[test]
    fn a_fault_names_its_place_and_the_way_out() {
        for (text, place, words) in [
            ("", "", "GET api.example.com/orders/{id}"),
            (" /a", " ", "begin with a space"),
            ("GET", "GET", "GET /orders"),
            ("api.example.com", "api.example.com", "api.example.com/{rest...}"),
            ("Get /a", "Get", "did you mean GET?"),
            ("GTE /a", "GTE", "did you mean GET?"),
            ("GET,PSOT /a", "PSOT", "did you mean POST?"),
            ("purge /a", "purge", "PURGE"),
            ("ANY /a", "ANY", "leave the methods out"),
            ("* /a", "*", "leave the methods out"),
            ("GET,GET /a", "GET", "named twice"),
            ("GET, /a", "", "method is missing"),
            ("GET POST /a", " ", "parted by commas"),
            ("GET/a", "GET", "write GET /a"),
            ("https://api.example.com/a", "https:", "write api.example.com/a"),
            ("api.example.com:8080/a", ":8080", "leave the port out"),
            ("*/a", "*", "leave it out"),
            ("a.*.com/a", "*", "*.example.com"),
            ("{x}.example.com/a", "{x}.example.com", "no captures"),
            ("b\u{fc}cher.de/a", "b\u{fc}cher.de", "xn--"),
            ("a..b/", "a..b", "empty"),
            ("-a.b/", "-a.b", "hyphen"),
            ("[::g]/", "[::g]", "IPv6"),
            ("/a//b", "//", "empty"),
            ("/a/{id}/{id}", "{id}", "twice"),
            ("/a/{id...}/b", "{id...}", "stand last"),
            ("/a/{id}.json", "{id}.json", "whole segment"),
            ("/a/{id:int}", "{id:int}", "write {id}"),
            ("/a/{*rest}", "{*rest}", "{rest...}"),
            ("/a/{...rest}", "{...rest}", "{rest...}"),
            ("/a/{}", "{}", "name"),
            ("/a/{1x}", "{1x}", "letter"),
            ("/a/:id", ":id", "{id}"),
            ("/a/*", "*", "{rest...}"),
            ("/a?x=1", "?", "params"),
            ("/a b", " ", "%20"),
            ("/a\\b", "\\", "/"),
            ("/a/\"", "\"", "encoded"),
            ("/a/100%/b", "%", "%25"),
            ("/a/../b", "..", "refused"),
            ("/a/%2e/b", "%2e", "refused"),
            ("/a/%00", "%00", "NUL"),
        ] {
            let fault = Pattern::parse(text).expect_err(text);
            let said = format!("{} {}", fault.message, fault.help.clone().unwrap_or_default());
            assert!(said.contains(words), "{text}: {said}");
            if !place.is_empty() {
                assert_eq!(&text[fault.offset..fault.offset + fault.len], place, "{text}: {said}");
            }
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        let alphabet: Vec<char> = "GET,/ {}.*:%2f\\?[]\u{e9}\u{3000}a-".chars().collect();
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 12 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push(alphabet[(state % alphabet.len() as u64) as usize]);
            }
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            match Pattern::parse(&text) {
                Ok(it) => assert_eq!(Pattern::parse(&it.to_string()), Ok(it)),
                Err(fault) => assert!(text.get(fault.offset..fault.offset + fault.len).is_some(), "{text:?} {fault:?}"),
            }
        }
    }
}
