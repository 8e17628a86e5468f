//! A request's head on arrival: what ends at this hop goes, who forwarded it is told, whom to believe is decided.
use std::net::IpAddr;

use bytes::BytesMut;
use contract::{Peer, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ipnet::IpNet;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const CONTENT_LENGTH_UNDERSCORE: HeaderName = HeaderName::from_static("content_length");
const TRANSFER_ENCODING_UNDERSCORE: HeaderName = HeaderName::from_static("transfer_encoding");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// What the connection-bound headers said, before they were removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// `Upgrade`, where `Connection` names it too.
    pub upgrade: Option<HeaderValue>,
    /// The client takes trailers.
    pub trailers: bool,
    /// The client sent an id or a trace context of its own, in some spelling.
    pub ids: bool,
}

/// Headers that this hop deals with, found in one pass over the names.
#[derive(Default)]
struct Found {
    connection: bool,
    other: bool,
    forwarded: bool,
    ids: bool,
}

fn find(headers: &HeaderMap) -> Found {
    let mut found = Found::default();
    for name in headers.keys() {
        let name = name.as_str().as_bytes();
        match name.len() {
            2 => found.other |= name == b"te",
            7 => found.other |= name == b"upgrade",
            9 => found.forwarded |= name == b"forwarded",
            10 => {
                found.connection |= name == b"connection";
                found.other |= name == b"keep-alive";
                found.ids |= name == b"tracestate";
            }
            11 => found.ids |= name == b"traceparent",
            12 => found.ids |= spelt(name, b"x-request-id"),
            // Framing, spelt so that only some backends see it.
            14 => found.other |= name == b"http2-settings" || name == b"content_length",
            15 => found.forwarded |= spelt(name, b"x-forwarded-for"),
            16 => {
                found.other |= name == b"proxy-connection";
                found.forwarded |= spelt(name, b"x-forwarded-host") || spelt(name, b"x-forwarded-port");
            }
            17 => {
                found.forwarded |= spelt(name, b"x-forwarded-proto");
                // `Transfer-Encoding` is the connection's own affair; the body knows its length.
                found.other |= spelt(name, b"transfer-encoding");
            }
            19 => found.other |= name == b"proxy-authorization",
            _ => (),
        }
    }
    found
}

/// Equal but for underscores, which some backends read as hyphens.
fn spelt(name: &[u8], want: &[u8]) -> bool {
    name.iter().zip(want).all(|(a, b)| a == b || (*a == b'_' && *b == b'-'))
}

/// Removes the headers that end at this hop, those that `Connection` names among them (RFC 9110 §7.6.1).
///
/// It happens before any ring runs: a client's `Connection: x-user` must not take away what a ring sets.
pub fn strip(headers: &mut HeaderMap) -> Hop {
    let found = find(headers);
    strip_found(headers, &found)
}

fn strip_found(headers: &mut HeaderMap, found: &Found) -> Hop {
    let mut hop = Hop { ids: found.ids, ..Hop::default() };
    if !found.connection && !found.other {
        return hop;
    }
    let mut upgrades = false;
    if found.connection {
        let named: Vec<HeaderValue> = headers.get_all(header::CONNECTION).iter().cloned().collect();
        headers.remove(header::CONNECTION);
        for token in named.iter().flat_map(|it| it.as_bytes().split(|it| *it == b',')) {
            let token = token.trim_ascii();
            if token.eq_ignore_ascii_case(b"upgrade") {
                upgrades = true;
                continue;
            }
            // What the gateway itself relies on cannot be named away.
            if let Ok(name) = HeaderName::from_bytes(token)
                && name != header::HOST
                && name != header::CONTENT_LENGTH
                && name != header::TE
            {
                headers.remove(name);
            }
        }
    }
    if found.other {
        let upgrade = headers.remove(header::UPGRADE);
        hop.upgrade = upgrade.filter(|_| upgrades);
        hop.trailers = headers.remove(header::TE).is_some_and(|it| {
            it.as_bytes()
                .split(|it| *it == b',')
                .any(|it| it.trim_ascii().split(|it| *it == b';').next().is_some_and(|it| it.eq_ignore_ascii_case(b"trailers")))
        });
        if hop.trailers {
            // This hop hands trailers on, so it asks for them too (RFC 9110 §10.1.4).
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        for name in [
            KEEP_ALIVE,
            PROXY_CONNECTION,
            HTTP2_SETTINGS,
            header::TRANSFER_ENCODING,
            TRANSFER_ENCODING_UNDERSCORE,
            CONTENT_LENGTH_UNDERSCORE,
            header::PROXY_AUTHORIZATION,
        ] {
            headers.remove(name);
        }
    }
    hop
}

/// What one connection remembers about forwarding, so that a request formats nothing.
pub struct Forwarding {
    /// The peer's address as a header value.
    address: HeaderValue,
    /// `for=…`, as RFC 7239 spells it.
    element: Box<str>,
    /// `Forwarded` for the last host seen.
    last: Option<(HeaderValue, HeaderValue)>,
}

impl Forwarding {
    pub fn new(ip: IpAddr) -> Self {
        let text = ip.to_string();
        let element = if ip.is_ipv6() { format!("for=\"[{text}]\"") } else { format!("for={text}") };
        Self { address: HeaderValue::from_str(&text).expect("an address is visible ASCII"), element: element.into(), last: None }
    }

    /// Strips the hop's headers, decides who the client is, and writes `X-Forwarded-*` and `Forwarded`.
    ///
    /// A stranger's are replaced; a trusted proxy's are believed, and appended to.
    pub fn arrive(&mut self, headers: &mut HeaderMap, peer: &mut Peer, trusted: &[IpNet]) -> Hop {
        let found = find(headers);
        let hop = strip_found(headers, &found);
        let host = headers.get(header::HOST).cloned();
        if found.forwarded {
            // Underscore spellings are never ours, and never believed.
            for name in [&X_FORWARDED_FOR, &X_FORWARDED_PROTO, &X_FORWARDED_HOST, &X_FORWARDED_PORT] {
                let genuine: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
                contract::Exchange::forget_header(headers, name);
                genuine.into_iter().for_each(|it| {
                    headers.append(name.clone(), it);
                });
            }
            if peer.trusted {
                // A proxy may pass on what its client wrote: what is no host is nobody's word.
                if headers.get_all(X_FORWARDED_HOST).iter().any(|it| !it.as_bytes().split(|it| *it == b',').all(is_host)) {
                    headers.remove(X_FORWARDED_HOST);
                }
                believe(headers, peer, trusted);
                self.append(headers, peer, host);
                return hop;
            }
            headers.remove(header::FORWARDED);
            headers.remove(X_FORWARDED_PORT);
        }
        headers.insert(X_FORWARDED_FOR, self.address.clone());
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(peer.scheme.as_str()));
        headers.insert(header::FORWARDED, self.forwarded(peer.scheme, host.as_ref()));
        match host {
            Some(it) => headers.insert(X_FORWARDED_HOST, it),
            None => headers.remove(X_FORWARDED_HOST),
        };
        hop
    }

    fn append(&mut self, headers: &mut HeaderMap, peer: &Peer, host: Option<HeaderValue>) {
        let connection = if headers.contains_key(X_FORWARDED_PROTO) { peer.scheme } else { Scheme::Http };
        join(headers, X_FORWARDED_FOR, self.address.clone());
        let forwarded = self.forwarded(connection, host.as_ref());
        join(headers, header::FORWARDED, forwarded);
        if !headers.contains_key(X_FORWARDED_PROTO) {
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(peer.scheme.as_str()));
        }
        if let (false, Some(host)) = (headers.contains_key(X_FORWARDED_HOST), host) {
            headers.insert(X_FORWARDED_HOST, host);
        }
    }

    fn forwarded(&mut self, scheme: Scheme, host: Option<&HeaderValue>) -> HeaderValue {
        let none = HeaderValue::from_static("");
        let host = host.unwrap_or(&none);
        match &self.last {
            Some((known, value)) if known == host => value.clone(),
            _ => {
                let mut text = BytesMut::with_capacity(64);
                text.extend_from_slice(self.element.as_bytes());
                if !host.is_empty() {
                    text.extend_from_slice(b";host=\"");
                    // A host has neither quote nor backslash: what has one is left out rather than mis-quoted.
                    text.extend(host.as_bytes().iter().filter(|it| !matches!(it, b'"' | b'\\')));
                    text.extend_from_slice(b"\"");
                }
                text.extend_from_slice(b";proto=");
                text.extend_from_slice(scheme.as_str().as_bytes());
                let value = HeaderValue::from_maybe_shared(text.freeze()).unwrap_or_else(|_| none.clone());
                self.last = Some((host.clone(), value.clone()));
                value
            }
        }
    }
}

/// All values of a header, and one more, as one list.
fn join(headers: &mut HeaderMap, name: HeaderName, more: HeaderValue) {
    let mut text = BytesMut::new();
    for it in headers.get_all(&name) {
        text.extend_from_slice(it.as_bytes());
        text.extend_from_slice(b", ");
    }
    text.extend_from_slice(more.as_bytes());
    headers.insert(name, HeaderValue::from_maybe_shared(text.freeze()).unwrap_or(more));
}

/// Takes the client's address, scheme and host from what trusted proxies have written.
fn believe(headers: &HeaderMap, peer: &mut Peer, trusted: &[IpNet]) {
    // From the nearest hop outward: the first that nobody of ours vouches for is the client.
    let hops = headers.get_all(X_FORWARDED_FOR).iter().rev().flat_map(|it| it.to_str().unwrap_or("?").rsplit(','));
    for hop in hops {
        let Some(ip) = address(hop.trim()) else { break };
        peer.client_ip = ip;
        if !trusted.iter().any(|it| it.contains(&ip)) {
            break;
        }
    }
    let last = |name: &HeaderName| {
        headers.get_all(name).iter().next_back().and_then(|it| it.to_str().ok()).and_then(|it| it.rsplit(',').next()).map(str::trim)
    };
    match last(&X_FORWARDED_PROTO) {
        Some(it) if it.eq_ignore_ascii_case("https") => peer.scheme = Scheme::Https,
        Some(it) if it.eq_ignore_ascii_case("http") => peer.scheme = Scheme::Http,
        _ => (),
    }
    peer.forwarded_host = last(&X_FORWARDED_HOST).filter(|it| !it.is_empty()).and_then(|it| HeaderValue::from_str(it).ok());
}

fn is_host(text: &[u8]) -> bool {
    crate::http1::is_host(text.trim_ascii())
}

/// An address as proxies write it: with or without brackets, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let ip = text.parse().ok().or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|it| it.ip()));
    let ip = ip.or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    ip.map(|it: IpAddr| it.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())).collect()
    }
    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut all: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        all.sort();
        all
    }
    fn arrive(list: &[(&str, &str)], from: &str, trusted: bool) -> (Vec<String>, Peer, Hop) {
        let ip: IpAddr = from.parse().unwrap();
        let mut peer = Peer { trusted, ..contract::testkit::peer(ip) };
        let mut map = headers(list);
        let hop = Forwarding::new(ip).arrive(&mut map, &mut peer, &["10.0.0.0/8".parse().unwrap()]);
        (shown(&map), peer, hop)
    }

    #[test]
    fn a_stranger_cannot_say_who_it_is() {
        let forged = [
            ("host", "a.example.com"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x_forwarded_for", "2.2.2.2"),
            ("x-forwarded_host", "evil"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "1"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=3.3.3.3"),
        ];
        let (seen, peer, _) = arrive(&forged, "9.9.9.9", false);
        let expect = [
            "forwarded: for=9.9.9.9;host=\"a.example.com\";proto=http",
            "host: a.example.com",
            "x-forwarded-for: 9.9.9.9",
            "x-forwarded-host: a.example.com",
            "x-forwarded-proto: http",
        ];
        assert_eq!(seen, expect);
        assert_eq!((peer.client_ip.to_string(), peer.scheme, peer.forwarded_host), ("9.9.9.9".into(), Scheme::Http, None));
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_appended_to() {
        let told = [
            ("host", "inside"),
            ("x-forwarded-for", "1.1.1.1, 7.7.7.7"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "a.example.com"),
            ("forwarded", "for=7.7.7.7"),
        ];
        let (seen, peer, _) = arrive(&told, "10.0.0.1", true);
        assert!(seen.contains(&"x-forwarded-for: 1.1.1.1, 7.7.7.7, 10.0.0.2, 10.0.0.1".to_string()), "{seen:?}");
        assert!(seen.contains(&"x-forwarded-host: a.example.com".to_string()) && seen.contains(&"x-forwarded-proto: https".to_string()));
        assert!(seen.iter().any(|it| it.starts_with("forwarded: for=7.7.7.7, for=10.0.0.1")));
        // 7.7.7.7 is the last that no proxy of ours vouches for; 1.1.1.1 is only what 7.7.7.7 said.
        assert_eq!(
            (peer.client_ip.to_string(), peer.scheme, peer.forwarded_host.unwrap().to_str().unwrap()),
            ("7.7.7.7".into(), Scheme::Https, "a.example.com")
        );
    }

    #[test]
    fn a_forwarded_host_that_is_no_host_is_nobodys_word() {
        for it in ["evil/path?x", "a b", "a@b", "a, b/c", "", "a\\b", "[::1", "a:99999"] {
            let (seen, peer, _) = arrive(&[("host", "inside"), ("x-forwarded-host", it)], "10.0.0.1", true);
            assert_eq!(peer.forwarded_host, None, "{it}");
            assert!(seen.contains(&"x-forwarded-host: inside".to_string()), "{seen:?}");
        }
        let (_, peer, _) = arrive(&[("host", "inside"), ("x-forwarded-host", "a.example.com, [::1]:80")], "10.0.0.1", true);
        assert_eq!(peer.forwarded_host.unwrap(), "[::1]:80");
    }

    #[test]
    fn an_unreadable_hop_ends_the_search() {
        for (list, expect) in [
            ("unknown", "10.0.0.1"),
            ("1.1.1.1, garbage, 10.0.0.2", "10.0.0.2"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:4.4.4.4", "4.4.4.4"),
            ("5.5.5.5:80", "5.5.5.5"),
        ] {
            let (_, peer, _) = arrive(&[("x-forwarded-for", list)], "10.0.0.1", true);
            assert_eq!(peer.client_ip.to_string(), expect, "{list}");
        }
    }

    #[test]
    fn what_ends_at_this_hop_goes_and_what_it_names_too() {
        let list = [
            ("connection", "close, X-Once"),
            ("connection", "host"),
            ("x-once", "1"),
            ("host", "a"),
            ("keep-alive", "x"),
            ("te", "gzip, trailers;q=0.5"),
            ("proxy-authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("transfer_encoding", "chunked"),
            ("content_length", "7"),
            ("x-stays", "1"),
        ];
        let mut map = headers(&list);
        assert_eq!(strip(&mut map), Hop { trailers: true, ..Hop::default() });
        assert_eq!(shown(&map), ["host: a", "te: trailers", "x-stays: 1"]);
    }

    #[test]
    fn an_upgrade_needs_both_headers() {
        let mut both = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(strip(&mut both).upgrade.unwrap(), "websocket");
        let mut one = headers(&[("upgrade", "websocket")]);
        assert_eq!(strip(&mut one).upgrade, None);
        assert!(one.is_empty());
    }

    #[test]
    fn an_ipv6_client_is_quoted() {
        let (seen, ..) = arrive(&[], "2001:db8::7", false);
        assert!(seen.contains(&"forwarded: for=\"[2001:db8::7]\";proto=http".to_string()), "{seen:?}");
    }
}
