//! Keeps secrets out of logs: finds parameters and headers by their names and hides their values.
use super::text::push_json;

/// What a hidden value is shown as.
pub const HIDDEN: &str = "***";

/// Names whose values are never shown, unless the settings name others.
///
/// Case, `-` and `_` do not count; a `*` in front stands for any beginning.
pub const DEFAULT_NAMES: [&str; 28] = [
    "*token",
    "*secret",
    "*password",
    "*passwd",
    "pwd",
    "pass",
    "pin",
    "*signature",
    "sig",
    "sign",
    "key",
    "*api_key",
    "*access_key",
    "*app_key",
    "*private_key",
    "*secret_key",
    "code",
    "auth",
    "*authorization",
    "*cookie",
    "*credential",
    "*credentials",
    "*session",
    "*session_id",
    "jwt",
    "assertion",
    "ticket",
    "otp",
];

/// The names of what is secret, ready to be compared.
#[derive(Clone, Debug)]
pub struct Redaction {
    exact: Vec<Box<[u8]>>,
    endings: Vec<Box<[u8]>>,
}

impl Default for Redaction {
    fn default() -> Self {
        Self::new(DEFAULT_NAMES)
    }
}

/// No listed name is this long; longer ones are compared by their ends.
const LONGEST: usize = 64;

impl Redaction {
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut it = Self { exact: Vec::new(), endings: Vec::new() };
        for name in names {
            let (list, name) = match name.strip_prefix('*') {
                Some(rest) => (&mut it.endings, rest),
                None => (&mut it.exact, name),
            };
            let plain: Box<[u8]> = name.bytes().filter_map(plain).collect();
            // An empty ending would hide everything; a name beyond the window could never be found.
            if !plain.is_empty() && plain.len() <= LONGEST {
                list.push(plain);
            }
        }
        it
    }

    /// Whether a header of this name is hidden; `x-` in front does not count.
    pub fn hides_header(&self, name: &str) -> bool {
        let mut window = Window::default();
        name.bytes().for_each(|it| window.push(it));
        let mut bare = Window::default();
        name.strip_prefix("x-").or_else(|| name.strip_prefix("X-")).unwrap_or(name).bytes().for_each(|it| bare.push(it));
        self.hides(&window) || self.hides(&bare)
    }

    /// Appends a raw query as the inside of a JSON string, with the values of secret parameters hidden.
    ///
    /// Names are compared decoded, twice, as backends behind backends do; brackets and dots part a name (`user[password]`).
    /// Some backends end a parameter at `;` as well: a secret one hides all up to the next `&`.
    pub fn push_query(&self, to: &mut Vec<u8>, query: &[u8]) {
        for (at, pair) in query.split(|it| *it == b'&').enumerate() {
            if at > 0 {
                to.push(b'&');
            }
            match self.secret_from(pair) {
                Some(from) => {
                    push_json(to, &pair[..from]);
                    to.extend_from_slice(HIDDEN.as_bytes());
                }
                None => push_json(to, pair),
            }
        }
    }

    /// Appends a URL, such as a Referer: its query and fragment as [`Redaction::push_query`], its user and password hidden.
    pub fn push_url(&self, to: &mut Vec<u8>, url: &[u8]) {
        let end = url.iter().position(|it| matches!(it, b'?' | b'#')).unwrap_or(url.len());
        let (place, rest) = url.split_at(end);
        let host = place.windows(3).position(|it| it == b"://").map_or(0, |it| it + 3);
        let host_end = place[host..].iter().position(|it| *it == b'/').map_or(place.len(), |it| host + it);
        match place[host..host_end].iter().rposition(|it| *it == b'@') {
            Some(at) => {
                push_json(to, &place[..host]);
                to.extend_from_slice(HIDDEN.as_bytes());
                push_json(to, &place[host + at..]);
            }
            None => push_json(to, place),
        }
        let mut rest = rest;
        while let Some((mark, after)) = rest.split_first() {
            let end = after.iter().position(|it| matches!(it, b'?' | b'#')).unwrap_or(after.len());
            to.push(*mark);
            self.push_query(to, &after[..end]);
            rest = &after[end..];
        }
    }

    /// Where the secret value of a pair begins.
    fn secret_from(&self, pair: &[u8]) -> Option<usize> {
        let named = self.secret_named(pair);
        if named.is_some() || !self.holds_secret(pair) {
            return named;
        }
        // A secret somewhere within a value, or in what some backends read as a pair: all of it goes.
        Some(pair.iter().position(|it| *it == b'=').map_or(0, |at| at + 1))
    }

    /// Whether a pair holds, encoded once or twice, a URL, a form or a JSON document with a secret parameter.
    fn holds_secret(&self, pair: &[u8]) -> bool {
        let mut marks = pair.iter().filter(|it| matches!(it, b'=' | b':' | b'%'));
        let first = marks.next();
        if first.is_none() || (first == Some(&b'=') && marks.next().is_none()) {
            return false;
        }
        // A name ends where one of these stands behind it, perhaps after a quote; the pair's own name was looked at already.
        let mut window = Window::default();
        let mut ended = false;
        for byte in Decoded(Decoded(pair.iter().copied())) {
            match byte {
                b'=' | b':' if self.hides(&window) => return true,
                b'"' | b'\'' | b']' => ended = window.length > 0,
                0..=b' ' | b'+' => (),
                b'=' | b':' | b'?' | b'&' | b'#' | b';' | b'/' | b',' | b'{' | b'}' | b'(' | b')' | b'[' | b'.' => {
                    (window, ended) = (Window::default(), false);
                }
                _ => {
                    if std::mem::take(&mut ended) {
                        window = Window::default();
                    }
                    window.push(byte);
                }
            }
        }
        false
    }

    /// The same, of a name that the pair itself has.
    fn secret_named(&self, pair: &[u8]) -> Option<usize> {
        let mut from = 0;
        for piece in pair.split(|it| *it == b';') {
            if let Some(equals) = piece.iter().position(|it| *it == b'=')
                && self.hides_parameter(&piece[..equals])
            {
                return Some(from + equals + 1);
            }
            from += piece.len() + 1;
        }
        None
    }

    fn hides_parameter(&self, name: &[u8]) -> bool {
        let mut window = Window::default();
        for byte in Decoded(Decoded(name.iter().copied())) {
            if matches!(byte, b'[' | b']' | b'.' | b':') {
                if self.hides(&window) {
                    return true;
                }
                window = Window::default();
            } else {
                window.push(byte);
            }
        }
        self.hides(&window)
    }

    fn hides(&self, name: &Window) -> bool {
        (!name.cut && self.exact.iter().any(|it| **it == *name.end())) || self.endings.iter().any(|it| name.end().ends_with(it))
    }
}

/// What counts of a byte of a name: letters in lower case; no `-`, `_`, blanks or control characters.
fn plain(byte: u8) -> Option<u8> {
    (byte > b' ' && !matches!(byte, b'-' | b'_' | b'+' | 0x7f)).then(|| byte.to_ascii_lowercase())
}

/// The end of a name, as far as names are compared.
struct Window {
    bytes: [u8; LONGEST * 2],
    length: usize,
    /// Something in front was let go.
    cut: bool,
}

impl Default for Window {
    fn default() -> Self {
        Self { bytes: [0; LONGEST * 2], length: 0, cut: false }
    }
}

impl Window {
    fn push(&mut self, byte: u8) {
        let Some(byte) = plain(byte) else { return };
        if self.length == self.bytes.len() {
            self.bytes.copy_within(LONGEST.., 0);
            self.length = LONGEST;
            self.cut = true;
        }
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn end(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Percent-decodes on the way; what is no escape stays.
struct Decoded<I>(I);

impl<I: Iterator<Item = u8> + Clone> Iterator for Decoded<I> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let first = self.0.next()?;
        if first != b'%' {
            return Some(first);
        }
        let mut ahead = self.0.clone();
        let digit = |it: Option<u8>| it.and_then(|it| char::from(it).to_digit(16));
        match (digit(ahead.next()), digit(ahead.next())) {
            (Some(high), Some(low)) => {
                self.0 = ahead;
                Some((high * 16 + low) as u8)
            }
            _ => Some(first),
        }
    }
}

impl<I: Clone> Clone for Decoded<I> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> String {
        let mut it = Vec::new();
        Redaction::default().push_query(&mut it, text.as_bytes());
        String::from_utf8(it).unwrap()
    }

    #[test]
    fn secrets_are_hidden_however_their_name_is_spelt() {
        for (given, want) in [
            ("a=1&token=abc&b=2", "a=1&token=***&b=2"),
            ("TOKEN=abc", "TOKEN=***"),
            ("%74oken=abc", "%74oken=***"),
            ("%54%4f%4B%45%4e=abc", "%54%4f%4B%45%4e=***"),
            ("%2574oken=abc", "%2574oken=***"),
            ("access-token=abc&accessToken=x&refresh_token=y", "access-token=***&accessToken=***&refresh_token=***"),
            ("api_key=1&apikey=2&x-api-key=3&API%5FKEY=4", "api_key=***&apikey=***&x-api-key=***&API%5FKEY=***"),
            ("X-Amz-Signature=abc", "X-Amz-Signature=***"),
            (
                "user[password]=1&user%5Bpassword%5D=2&token[]=3&o.secret=4",
                "user[password]=***&user%5Bpassword%5D=***&token[]=***&o.secret=***",
            ),
            ("a=1;token=abc;b=2&c=3", "a=1;token=***&c=3"),
            ("token=abc;def", "token=***"),
            ("token=a=b", "token=***"),
            ("next=https%3A%2F%2Fa%3Fx%3D1%26access_token%3Dabc", "next=***"),
            ("next=https%253A%252F%252Fa%253Ftoken%253Dabc&b=2", "next=***&b=2"),
            ("next=https://a?token=abc", "next=***"),
            ("data={%22a%22:1,%22token%22:%22abc%22}", "data=***"),
            ("data=%7B%22password%22%20%3A%20%22abc%22%7D", "data=***"),
            ("token%3Dabc&token:abc", "***&***"),
            ("x=%26token=abc", "x=***"),
            ("user[password]:abc", "***"),
            ("+token=abc&%00token=abc& token=x", "+token=***&%00token=***& token=***"),
            (&format!("{}token=abc", "x".repeat(500)), &format!("{}token=***", "x".repeat(500))),
        ] {
            assert_eq!(query(given), want);
        }
    }

    #[test]
    fn what_is_no_secret_stays_byte_for_byte() {
        for same in [
            "",
            "a",
            "&&",
            "=x",
            "a=b=c",
            "keyword=1&monkey=2&postcode=3&design=4&tokens=5",
            "a=%zz%2&b=%",
            "q=token",
            "token",
            "page=1&%E4%B8%AD=x",
            "next=https%3A%2F%2Fa%2Ftoken%2Fb%3Fpage%3D1",
            "time=10:20:30&q=say%20%22token%22&range=a:b",
        ] {
            assert_eq!(query(same), same);
        }
        let long = format!("{}key=abc", "x".repeat(500));
        assert_eq!(query(&long), long, "a name that is only an end of another does not count");
    }

    #[test]
    fn what_is_hidden_can_be_chosen() {
        let it = Redaction::new(["phone", "*Card-No", "*", ""]);
        let mut to = Vec::new();
        it.push_query(&mut to, b"phone=1&my_card_no=2&token=3&telephone=4");
        assert_eq!(to, b"phone=***&my_card_no=***&token=3&telephone=4");
    }

    #[test]
    fn a_url_shows_neither_its_secrets_nor_its_user() {
        for (given, want) in [
            ("https://example.com/a?token=1&b=2", "https://example.com/a?token=***&b=2"),
            ("https://example.com/a#access_token=1", "https://example.com/a#access_token=***"),
            ("https://example.com/a?b=1#code=2?token=3", "https://example.com/a?b=1#code=***?token=***"),
            ("https://me:pw@example.com/a@b", "https://***@example.com/a@b"),
            ("me:pw@example.com", "***@example.com"),
            ("/a", "/a"),
        ] {
            let mut it = Vec::new();
            Redaction::default().push_url(&mut it, given.as_bytes());
            assert_eq!(String::from_utf8(it).unwrap(), want);
        }
    }

    #[test]
    fn headers_are_known_by_their_names() {
        let it = Redaction::default();
        for name in ["authorization", "Proxy-Authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "x-key", "X-Sign"] {
            assert!(it.hides_header(name), "{name}");
        }
        for name in ["host", "x-request-id", "accept", "x-keyboard"] {
            assert!(!it.hides_header(name), "{name}");
        }
    }

    #[test]
    fn the_manual_names_everything_that_is_hidden() {
        let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/OPERATIONS.md")).unwrap();
        let list = DEFAULT_NAMES.map(|it| format!("`{it}`")).join(", ");
        assert!(manual.contains(&list), "{list}");
    }
}
