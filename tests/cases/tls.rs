//! TLS of listeners, the PROXY protocol, and the way from HTTP to HTTPS.
use std::time::Duration;

use tests::{
    harness::{Gateway, Setup},
    tls::{self, Authority, Pair},
    wire::{Wire, request},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::sleep};

const WHO: &str = "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: \"/who\"}\n\
    plugins: [{cert-auth: {optional: true}}]\n\
    proxy: {respond: {status: 200, body: {scheme: \"${request.scheme}\", ip: \"${request.client_ip}\", subject: \"${auth.subject}\", dns: \"${auth.claims.dns}\"}}}\n\
    ---\nkind: Api\ninfo: {name: b, version: v1}\ninbound: {match: \"/key\"}\nplugins: [{key-auth: {}}]\nproxy: {respond: {status: 200}}\n";

/// A gateway whose second listener is this one; its files lie in the folder.
fn with_listener(definitions: &str, listener: &str, more: &str) -> Setup {
    Gateway::with(definitions).listen(listener).settings(more)
}

fn put(setup: Setup, name: &str, pair: &Pair) -> Setup {
    setup.file(&format!("{name}.pem"), &pair.cert).file(&format!("{name}.key"), &pair.key)
}

const TLS: &str = "tls: {certificates: [{cert: a.pem, key: a.key}]}";

#[tokio::test]
async fn tls_is_served_in_both_versions_and_the_end_is_told_inside_of_it() {
    let ca = Authority::new("test");
    let gateway = put(with_listener(WHO, TLS, ""), "a", &ca.issue(&["a.test"])).start().await;
    for old in [false, true] {
        let answer = ca.client_with(None, old).get(gateway.second(), "a.test", "/who").await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"scheme\":\"https\""), "{answer}");
        assert!(answer.contains("\"subject\":null"), "{answer}");
    }
    assert!(Authority::new("other").client().open(gateway.second(), "a.test").await.is_err(), "the judge judges");
    let figures = gateway.admin("/metrics").await.text();
    assert!(figures.lines().any(|it| it.starts_with("allium_tls_handshakes_total") && it.ends_with("result=\"ok\"} 2")), "{figures}");
}

#[tokio::test]
async fn the_certificate_is_the_one_of_the_name_that_is_asked_for() {
    let (a, b) = (Authority::new("a"), Authority::new("b"));
    let tls = "tls: {certificates: [{cert: a.pem, key: a.key}, {cert: b.pem, key: b.key}]}";
    let setup = put(with_listener(WHO, tls, ""), "a", &a.issue(&["a.test", "fallback.test"]));
    let gateway = put(setup, "b", &b.issue(&["b.test", "*.b.test"])).start().await;
    for (authority, name, good) in [
        (&a, "a.test", true),
        (&b, "b.test", true),
        (&b, "x.b.test", true),
        (&b, "a.test", false),
        (&a, "b.test", false),
        (&a, "x.y.b.test", false),
    ] {
        let opened = authority.client().open(gateway.second(), name).await;
        assert_eq!(opened.is_ok(), good, "{name}");
    }
    // The first of the list answers those who name nothing that is known.
    let opened = a.client().open(gateway.second(), "unknown.test").await.unwrap_err().to_string();
    assert!(opened.contains("only valid for DnsName(\"a.test\")"), "{opened}");
}

#[tokio::test]
async fn changed_files_are_served_and_broken_ones_are_not() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let gateway = put(with_listener(WHO, TLS, ""), "a", &old.issue(&["a.test"])).start().await;
    let mut kept = old.client().open(gateway.second(), "a.test").await.expect("the first certificate");
    gateway.folder.replace("a.key", "no key");
    sleep(Duration::from_millis(2500)).await;
    assert!(old.client().open(gateway.second(), "a.test").await.is_ok(), "a broken file changes nothing");
    let pair = new.issue(&["a.test"]);
    gateway.folder.replace("a.pem", &pair.cert);
    gateway.folder.replace("a.key", &pair.key);
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    while new.client().open(gateway.second(), "a.test").await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the new certificate is never served");
        sleep(Duration::from_millis(50)).await;
    }
    let answer = tls::get(&mut kept, "a.test", "/who").await.expect("connections go on");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test]
async fn a_client_must_show_a_certificate_where_there_is_a_client_ca_and_is_known_by_it() {
    let (server, clients) = (Authority::new("server"), Authority::new("clients"));
    let listener = "tls: {certificates: [{cert: a.pem, key: a.key}], client_ca: ca.pem}";
    let setup = put(with_listener(WHO, listener, ""), "a", &server.issue(&["a.test"])).file("ca.pem", &clients.pem());
    let gateway = setup.start().await;
    let alice = clients.issue(&["alice.test"]);
    let stranger = Authority::new("clients").issue(&["alice.test"]);
    for old in [false, true] {
        let answer = server.client_with(Some(&alice), old).get(gateway.second(), "a.test", "/who").await.expect("an answer");
        assert!(answer.contains(r#""subject":"CN=alice.test,O=Acme\\, Inc.""#) && answer.contains(r#""dns":["alice.test"]"#), "{answer}");
        let answer = server.client_with(Some(&alice), old).get(gateway.second(), "a.test", "/key").await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 401 "), "a certificate is no key: {answer}");
        for (who, own) in [("nobody", None), ("a stranger", Some(&stranger))] {
            let refused = server.client_with(own, old).get(gateway.second(), "a.test", "/who").await;
            assert!(refused.is_err(), "{who}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn a_client_that_comes_back_resumes_its_session_and_is_still_known() {
    let ca = Authority::new("test");
    let listener = "tls: {certificates: [{cert: a.pem, key: a.key}], client_ca: ca.pem}";
    let setup = put(with_listener(WHO, listener, ""), "a", &ca.issue(&["a.test"])).file("ca.pem", &ca.pem());
    let gateway = setup.start().await;
    let alice = ca.issue(&["alice.test"]);
    for old in [false, true] {
        let client = ca.client_with(Some(&alice), old);
        for expect in [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed] {
            let mut stream = client.open(gateway.second(), "a.test").await.expect("a connection");
            let answer = tls::get(&mut stream, "a.test", "/who").await.expect("an answer");
            assert!(answer.contains("CN=alice.test"), "{answer}");
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(expect), "old: {old}");
        }
    }
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_and_what_is_no_tls_are_closed() {
    let ca = Authority::new("test");
    let limits = "limits: {connection: {tls_handshake: 100ms}, drain: {wait: 1ms}}";
    let gateway = put(with_listener(WHO, TLS, limits), "a", &ca.issue(&["a.test"])).start().await;
    let mut slow = Wire::open(gateway.second()).await;
    assert!(slow.ended().await);
    let mut plain = Wire::open(gateway.second()).await;
    plain.send(request("GET /who", &[], "")).await;
    let rest = plain.rest().await;
    assert!(!rest.starts_with(b"HTTP/"), "{rest:?}");
    for result in ["failed", "timeout"] {
        let ending = format!("result=\"{result}\"}} 1");
        let end = tokio::time::Instant::now() + Duration::from_secs(5);
        // Counted a moment after the client has seen the end.
        while !gateway
            .admin("/metrics")
            .await
            .text()
            .lines()
            .any(|it| it.starts_with("allium_tls_handshakes_total") && it.ends_with(&ending))
        {
            assert!(tokio::time::Instant::now() < end, "{result} is not counted");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn files_that_do_not_go_together_keep_the_gateway_from_starting() {
    let ca = Authority::new("test");
    let (one, other) = (ca.issue(&["a.test"]), ca.issue(&["a.test"]));
    for (cert, key, why) in [
        (one.cert.as_str(), other.key.as_str(), "a.key does not go with a.pem"),
        ("", one.key.as_str(), "a.pem holds no `BEGIN CERTIFICATE`"),
        (one.cert.as_str(), one.cert.as_str(), "a.key holds no private key in PEM"),
    ] {
        let setup = with_listener(WHO, TLS, "").file("a.pem", cert).file("a.key", key);
        let told = setup.try_start().await.err().expect("no start");
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn http_is_sent_to_https_with_method_and_target_kept() {
    let gateway = with_listener(WHO, "redirect_to_https: true", "trusted_proxies: [127.0.0.1]").start().await;
    for (start, header, location) in [
        ("GET /who?a=b&c", "host: a.test:8080", "https://a.test/who?a=b&c"),
        ("POST /", "host: [::1]:80", "https://[::1]/"),
        ("GET /who", "host: a.test", "https://a.test/who"),
    ] {
        let answer = tests::wire::ask(gateway.second(), start, &[header], "").await.is(308);
        assert_eq!(answer.header("location"), Some(location));
    }
    // What came to a trusted proxy by HTTPS is where it should be.
    tests::wire::ask(gateway.second(), "GET /who", &["x-forwarded-proto: https"], "").await.is(200);
    gateway.get("/who").await.is(200);
}

#[tokio::test]
async fn a_trusted_load_balancer_says_who_the_client_is_by_the_proxy_protocol() {
    let gateway = with_listener(WHO, "proxy_protocol: true", "trusted_proxies: [127.0.0.1]").start().await;
    let v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\x01\x02\x03\x04\x00\x50\x00\x50";
    for (header, ip) in [
        (&b"PROXY TCP4 192.0.2.9 198.51.100.1 40000 80\r\n"[..], "192.0.2.9"),
        (b"PROXY TCP6 2001:db8::9 2001:db8::1 40000 80\r\n", "2001:db8::9"),
        (v2, "192.0.2.7"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ] {
        let mut wire = Wire::open(gateway.second()).await;
        // In pieces, as a network may cut it, and the request right behind.
        let (one, other) = header.split_at(14);
        wire.send(one).await;
        sleep(Duration::from_millis(5)).await;
        wire.send([other, &request("GET /who", &["x-forwarded-for: 6.6.6.6"], "")[..]].concat()).await;
        let answer = wire.answer().await.is(200).json();
        // The balancer itself is trusted; a client that it names is not.
        let expect = if ip == "127.0.0.1" { "6.6.6.6" } else { ip };
        assert_eq!(answer["ip"], expect, "{answer}");
    }
    for bad in [&b"GET /who HTTP/1.1\r\nhost: a\r\n\r\n"[..], b"PROXY TCP4 192.0.2.9 198.51.100.1 40000 80 more\r\n", b"PROXY \x00"] {
        let mut wire = Wire::open(gateway.second()).await;
        wire.send([bad, &request("GET /who", &[], "")[..]].concat()).await;
        assert_eq!(wire.rest().await, b"", "{bad:?}");
    }
    let figures = gateway.admin("/metrics").await.text();
    assert!(figures.lines().any(|it| it.starts_with("allium_proxy_headers_refused_total") && it.ends_with("} 3")), "{figures}");
}

#[tokio::test]
async fn nobody_else_may_say_it_and_connections_are_counted_for_the_client_that_is_named() {
    let limits = "trusted_proxies: [127.0.0.1]\nlimits: {connection: {count_per_address: 1}, drain: {wait: 1ms}}";
    let gateway = with_listener(WHO, "proxy_protocol: true", limits).start().await;
    let open = async |ip: &str| {
        let mut wire = Wire::open(gateway.second()).await;
        wire.send(format!("PROXY TCP4 {ip} 198.51.100.1 1 80\r\n")).await;
        wire.send(request("GET /who", &[], "")).await;
        wire
    };
    let mut first = open("192.0.2.1").await;
    first.answer().await.is(200);
    assert_eq!(open("192.0.2.1").await.rest().await, b"", "one too many of this client");
    open("192.0.2.2").await.answer().await.is(200);

    let gateway = with_listener(WHO, "proxy_protocol: true", "trusted_proxies: [10.0.0.0/8]").start().await;
    let mut stranger = Wire::open(gateway.second()).await;
    stranger.send(b"PROXY TCP4 10.0.0.1 198.51.100.1 1 80\r\nGET /who HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(stranger.rest().await, b"");
}

#[tokio::test]
async fn tls_stands_behind_the_proxy_protocol() {
    let ca = Authority::new("test");
    let setup =
        put(with_listener(WHO, &format!("proxy_protocol: true, {TLS}"), "trusted_proxies: [127.0.0.1]"), "a", &ca.issue(&["a.test"]));
    let gateway = setup.start().await;
    let mut stream = TcpStream::connect(gateway.second()).await.expect("a connection");
    stream.write_all(b"PROXY TCP4 192.0.2.9 198.51.100.1 40000 443\r\n").await.expect("a header");
    let mut stream = ca.client().over(stream, "a.test").await.expect("a handshake");
    let answer = tls::get(&mut stream, "a.test", "/who").await.expect("an answer");
    assert!(answer.contains("\"ip\":\"192.0.2.9\"") && answer.contains("\"scheme\":\"https\""), "{answer}");
}
