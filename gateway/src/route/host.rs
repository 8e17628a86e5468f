//! The host that a request names, made comparable: lower case, without port and trailing dot.
use std::{io::Write, net::Ipv6Addr};

/// The longest name that DNS knows (RFC 1035, 2.3.4); a longer host fits no pattern that names one.
const LONGEST: usize = 253;

/// Room for a host that must be written anew.
pub type Buffer = [u8; LONGEST + 1];

/// What must be done about a byte of a host: nothing, for nearly all of them.
const ODD: [bool; 256] = {
    let mut odd = [true; 256];
    let mut at = 0;
    while at < 256 {
        if matches!(at as u8, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_') {
            odd[at] = false;
        }
        at += 1;
    }
    odd
};

/// The host alone, as patterns spell it; `None` where the text is not a host. Allocates nothing.
pub fn normalise<'a>(text: &'a str, buffer: &'a mut Buffer) -> Option<&'a str> {
    // Up to the first byte that a host in its usual spelling does not have: that of its port, if any.
    let usual = text.bytes().position(|it| ODD[usize::from(it)]).unwrap_or(text.len());
    let (host, rest) = text.split_at_checked(usual)?;
    let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()));
    if port && !host.is_empty() && !host.ends_with('.') && host.len() <= LONGEST { Some(host) } else { rewritten(text, buffer) }
}

fn rewritten<'a>(text: &'a str, buffer: &'a mut Buffer) -> Option<&'a str> {
    let host = without_port(text)?;
    if let Some(inside) = host.strip_prefix('[') {
        return address(inside.strip_suffix(']')?, buffer);
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || host.len() > LONGEST || host.bytes().any(|it| matches!(it, b'@' | b'/' | b'[' | b']' | 0..=b' ')) {
        return None;
    }
    let lower = &mut buffer[..host.len()];
    lower.copy_from_slice(host.as_bytes());
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}

fn without_port(text: &str) -> Option<&str> {
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    match port.strip_prefix(':') {
        None => port.is_empty().then_some(host),
        Some(digits) => digits.bytes().all(|it| it.is_ascii_digit()).then_some(host),
    }
}

/// One spelling for the many that an IPv6 address has (RFC 5952).
fn address<'a>(text: &str, buffer: &'a mut Buffer) -> Option<&'a str> {
    let address: Ipv6Addr = text.parse().ok()?;
    let mut rest = &mut buffer[..];
    write!(rest, "[{address}]").ok()?;
    let left = rest.len();
    let used = buffer.len() - left;
    std::str::from_utf8(&buffer[..used]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_in_lower_case_without_port_and_trailing_dot() {
        for (text, expected) in [
            ("api.example.com", Some("api.example.com")),
            ("API.Example.COM", Some("api.example.com")),
            ("api.example.com:8443", Some("api.example.com")),
            ("Api.example.com.:80", Some("api.example.com")),
            ("api.example.com:", Some("api.example.com")),
            ("10.0.0.1:80", Some("10.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[0:0:0:0:0:0:0:1]:8080", Some("[::1]")),
            ("[2001:DB8::A]", Some("[2001:db8::a]")),
            ("", None),
            (".", None),
            ("[::1", None),
            ("[::1]x", None),
            ("[nonsense]", None),
            ("a:80x", None),
            ("user@a", None),
            ("a b", None),
        ] {
            assert_eq!(normalise(text, &mut [0; 254]), expected, "{text}");
        }
        assert_eq!(normalise(&"a".repeat(254), &mut [0; 254]), None);
    }
}
