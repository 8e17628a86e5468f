//! `tls` of an Upstream: who is trusted, who is called, who we say that we are, and what is told where that fails.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use gateway::dial::{Spoken, Tls, Way};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    harness::{Gateway, Setup, fill},
    http2::Http2Backend,
    tls::{Authority, Pair},
    tls_front::{Manners, TlsFront},
    websocket::{Frame, opening},
    wire::request,
};
use tokio::time::{Instant, sleep};

/// Files lie in the folder of the settings.
const TLS: &str = "{ca: {file: ca.pem}}";

fn definition(node: impl std::fmt::Display, tls: &str, more: &str) -> String {
    let text = "kind: Upstream\nname: u\nnodes: [{address: \"$1\"}]\ntls: $2\n$3\n---\n\
        kind: Api\ninfo: {name: a}\ninbound: {match: [/, \"/{rest...}\"]}\nproxy: {http: {upstream: u}}\n";
    fill(text, &[&node, &tls, &more])
}

fn setup(node: impl std::fmt::Display, tls: &str, more: &str, authority: &Authority) -> Setup {
    Gateway::with(&definition(node, tls, more)).file("ca.pem", &authority.pem())
}

#[tokio::test]
async fn calls_go_over_tls_and_connections_are_kept() {
    let (ca, backend) = (Authority::new("ca"), Backend::echo().await);
    for old in [false, true] {
        let front = TlsFront::before(backend.address, &ca.issue(&["127.0.0.1"]), Manners { old, ..Manners::default() }).await;
        let gateway = setup(front.address, TLS, "", &ca).start().await;
        let body = vec![b'y'; 3 << 20];
        for _ in 0..3 {
            let answer = gateway.ask("POST /a?b", &["x-a: 1"], &body).await.is(200).json();
            assert_eq!((&answer["target"], answer["body"].as_str().map(str::len)), (&"/a?b".into(), Some(body.len())));
        }
        let seen = front.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        // An address is no name that could be sent.
        assert_eq!((seen[0].old, seen[0].server_name.as_deref(), seen[0].showed_certificate), (old, None, false));
        gateway.figures(&["allium_upstream_tls_handshakes_total{upstream=\"u\",result=\"full\"} 1"]).await;
    }
}

#[tokio::test]
async fn the_name_is_the_nodes_own_or_the_one_that_is_set() {
    let (ca, backend) = (Authority::new("ca"), Backend::echo().await);
    let front = TlsFront::of(backend.address, &ca, "localhost").await;
    let named = setup(format!("localhost:{}", front.address.port()), TLS, "", &ca).start().await;
    assert_eq!(named.get("/").await.status, 200);
    assert_eq!(front.seen()[0].server_name.as_deref(), Some("localhost"));
    let front = TlsFront::of(backend.address, &ca, "orders.internal").await;
    let set = "{ca: {file: ca.pem}, server_name: orders.internal}";
    let gateway = setup(front.address, set, "", &ca).start().await;
    assert_eq!(gateway.get("/").await.status, 200);
    assert_eq!(front.seen()[0].server_name.as_deref(), Some("orders.internal"));
}

#[tokio::test]
async fn whoever_cannot_be_verified_is_not_called_and_clients_learn_nothing() {
    let (ca, backend) = (Authority::new("ca"), Backend::echo().await);
    let other_name = TlsFront::of(backend.address, &ca, "orders.internal").await;
    let stranger = TlsFront::of(backend.address, &Authority::new("ca"), "127.0.0.1").await;
    for front in [other_name, stranger] {
        // Without `ca` it is the system that knows nobody of that name.
        for tls in [TLS, "{}"] {
            let gateway = setup(front.address, tls, "", &ca).start().await;
            let answer = gateway.get("/").await.is(502).text();
            for word in ["certificate", "tls", "orders", "127.0.0.1", "issuer"] {
                assert!(!answer.to_lowercase().contains(word), "{answer}");
            }
            gateway.figures(&["upstream=\"u\",result=\"failed\"} 1", "allium_refused_total{reason=\"upstream_tls\"} 1"]).await;
        }
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_failed_handshake_is_the_error_tls_and_may_go_to_another_node() {
    let (ca, backend) = (Authority::new("ca"), Backend::echo().await);
    let bad = TlsFront::of(backend.address, &Authority::new("other"), "127.0.0.1").await;
    let good = TlsFront::of(backend.address, &ca, "127.0.0.1").await;
    let text = fill(
        "kind: Upstream\nname: u\nnodes: [{address: $1}, {address: $2}]\ntls: {ca: ca.pem}\n---\nkind: Api\ninfo: {name: a}\n\
         inbound: {match: /again}\nproxy: {http: {upstream: u}, retry: {tries: 2, conditions: [tls], backoff: 1ms..2ms}}\n---\n\
         kind: Api\ninfo: {name: b}\ninbound: {match: /tell}\nproxy: {http: {upstream: u}, outcomes: [{is: ok, when: \"error == 'tls'\"}]}\n",
        &[&bad.address, &good.address],
    );
    let gateway = Gateway::with(&text).file("ca.pem", &ca.pem()).start().await;
    for _ in 0..4 {
        // A POST too: nothing of it was sent.
        assert_eq!(gateway.ask("POST /again", &[], "x").await.status, 200);
    }
    for _ in 0..2 {
        gateway.get("/tell").await;
    }
    let figures = gateway.figures(&["allium_upstream_retries_total{upstream=\"u\"} 2"]).await;
    let ok: u64 = figures
        .lines()
        .filter(|it| it.starts_with("allium_upstream_requests_total") && it.contains("outcome=\"ok\""))
        .filter_map(|it| it.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(ok, 6, "four that went on to the good node, and two of /tell, where a failure is none\n{figures}");
}

#[tokio::test]
async fn the_gateway_shows_its_own_certificate() {
    let (ca, clients, backend) = (Authority::new("ca"), Authority::new("clients"), Backend::echo().await);
    let pair = clients.issue(&["gateway.test"]);
    let own = "{ca: ca.pem, client: {cert: {file: own.pem}, key: {env: TEST_TLS_KEY}}}";
    // No other test reads it, and no value of a test is a secret.
    let key_file = own.replace("{env: TEST_TLS_KEY}", "{file: own.key}");
    for old in [false, true] {
        let manners = Manners { clients: Some(&clients), old, ..Manners::default() };
        let front = TlsFront::before(backend.address, &ca.issue(&["127.0.0.1"]), manners).await;
        let with = setup(front.address, &key_file, "", &ca).file("own.pem", &pair.cert).file("own.key", &pair.key).start().await;
        assert_eq!(with.get("/").await.status, 200);
        assert!(front.seen()[0].showed_certificate);
        let without = setup(front.address, TLS, "", &ca).start().await;
        assert_eq!(without.get("/").await.status, 502);
        // TLS 1.3 lets a client believe that all is well until it reads.
        without.figures(&["allium_refused_total{reason=\"upstream_tls\"} 1"]).await;
    }
    let text = definition("127.0.0.1:1", own, "");
    let Err(why) = Gateway::with(&text).file("ca.pem", &ca.pem()).file("own.pem", &pair.cert).try_start().await else {
        panic!("a variable that is not listed is read")
    };
    assert!(why.contains("TEST_TLS_KEY"), "{why}");
}

#[tokio::test]
async fn sessions_are_resumed() {
    let (ca, backend) = (Authority::new("ca"), Backend::echo().await);
    for old in [false, true] {
        let front = TlsFront::before(backend.address, &ca.issue(&["127.0.0.1"]), Manners { old, ..Manners::default() }).await;
        let gateway = setup(front.address, TLS, "pool: {max_idle: 0}", &ca).start().await;
        for _ in 0..3 {
            assert_eq!(gateway.get("/").await.status, 200);
        }
        let resumed: Vec<_> = front.seen().iter().map(|it| it.resumed).collect();
        assert_eq!(resumed, [false, true, true], "TLS 1.2: {old}");
        gateway.figures(&["upstream=\"u\",result=\"resumed\"} 2"]).await;
    }
}

#[tokio::test]
async fn changed_files_are_trusted_at_the_next_handshake_and_broken_ones_are_not() {
    let (old, new, backend) = (Authority::new("old"), Authority::new("new"), Backend::echo().await);
    let front = TlsFront::of(backend.address, &old, "127.0.0.1").await;
    let gateway = setup(front.address, TLS, "pool: {max_idle: 0}", &old).start().await;
    let becomes = async |status: u16| {
        let end = Instant::now() + Duration::from_secs(10);
        while gateway.get("/").await.status != status {
            assert!(Instant::now() < end, "never {status}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    becomes(200).await;
    gateway.folder.replace("ca.pem", &new.pem());
    becomes(502).await;
    gateway.folder.replace("ca.pem", &old.pem());
    becomes(200).await;
    gateway.folder.replace("ca.pem", "half a file");
    // Longer than the files are looked at.
    sleep(Duration::from_millis(2500)).await;
    becomes(200).await;
    // And whoever reads definitions meanwhile keeps the Upstream, which is served well.
    gateway
        .reload(|it| drop(it.write("routes/b.yaml", "kind: Api\ninfo: {name: b}\ninbound: {match: /b}\nproxy: {http: {upstream: u}}\n")))
        .await;
    assert_eq!(gateway.get("/b").await.status, 200);
}

#[tokio::test]
async fn http2_is_spoken_only_with_those_who_say_so() {
    let (ca, backend) = (Authority::new("ca"), Http2Backend::start().await);
    let pair = ca.issue(&["127.0.0.1"]);
    let speaks = |list| Manners { speaks: list, ..Manners::default() };
    let front = TlsFront::before(backend.address, &pair, speaks(&["h2"])).await;
    let gateway = setup(front.address, TLS, "protocol: http2", &ca).start().await;
    assert_eq!(gateway.ask("POST /a", &[], "hello").await.is(200).text(), "hello");
    assert_eq!(backend.last().head.uri.scheme_str(), Some("https"));
    assert_eq!(front.seen()[0].alpn.as_deref(), Some("h2"));
    for list in [&["http/1.1"][..], &[]] {
        let front = TlsFront::before(backend.address, &pair, speaks(list)).await;
        let gateway = setup(front.address, TLS, "protocol: http2", &ca).start().await;
        assert_eq!(gateway.get("/").await.status, 502);
        gateway.figures(&["allium_refused_total{reason=\"upstream_tls\"} 1"]).await;
    }
    // And HTTP/1.1 with those who speak nothing else.
    let plain = Backend::echo().await;
    let front = TlsFront::before(plain.address, &pair, speaks(&["http/1.1"])).await;
    let gateway = setup(front.address, TLS, "", &ca).start().await;
    assert_eq!((gateway.get("/").await.status, front.seen()[0].alpn.as_deref()), (200, Some("http/1.1")));
}

#[tokio::test]
async fn a_websocket_goes_through_tls_both_ways() {
    let (ca, backend) = (Authority::new("ca"), Backend::start(Behaviour::Websocket).await);
    let front = TlsFront::of(backend.address, &ca, "127.0.0.1").await;
    // Even where calls go over HTTP/2: the protocol is one of HTTP/1.1.
    let gateway = setup(front.address, TLS, "protocol: http2", &ca).start().await;
    let mut wire = gateway.wire().await;
    wire.send(opening("/ws")).await;
    assert_eq!(wire.head().await.status(), 101);
    for payload in ["hello", &"x".repeat(1_000_000)] {
        let frame = Frame::text(payload);
        wire.send(frame.masked()).await;
        let expected = frame.unmasked();
        assert!(wire.exactly(expected.len()).await == expected, "{} bytes", payload.len());
    }
    wire.reset();
    backend.left(1).await;
}

#[tokio::test]
async fn a_body_that_ends_with_its_connection_ends_inside_of_tls() {
    let ca = Authority::new("ca");
    let script = || Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\n\r\nall of it")]);
    for rude in [false, true] {
        let backend = Backend::start(script()).await;
        let front = TlsFront::before(backend.address, &ca.issue(&["127.0.0.1"]), Manners { rude, ..Manners::default() }).await;
        let gateway = setup(front.address, TLS, "", &ca).start().await;
        let mut wire = gateway.wire().await;
        wire.send(request("GET /", &["connection: close"], "")).await;
        assert_eq!(wire.head().await.status(), 200);
        let rest = String::from_utf8_lossy(&wire.rest().await).into_owned();
        // Whoever cuts the connection could be anybody: such a body is not passed off as whole.
        assert_eq!(rest.ends_with("0\r\n\r\n"), !rude, "{rest:?}");
    }
}

#[tokio::test]
async fn checks_of_health_go_over_tls() {
    let (ca, backend) = (Authority::new("ca"), Backend::echo().await);
    let check = "health: {active: {path: /healthz, interval: 20ms, healthy_after: 1, unhealthy_after: 1}}";
    let good = TlsFront::of(backend.address, &ca, "127.0.0.1").await;
    let gateway = setup(good.address, TLS, check, &ca).start().await;
    backend.asked(2).await;
    assert_eq!(gateway.get("/").await.status, 200);
    let bad = TlsFront::of(backend.address, &Authority::new("other"), "127.0.0.1").await;
    let gateway = setup(bad.address, TLS, check, &ca).start().await;
    gateway.figures(&["allium_upstream_nodes{upstream=\"u\",state=\"unhealthy\"} 1"]).await;
    assert_eq!(gateway.get("/").await.status, 503);
}

#[tokio::test]
async fn a_url_of_https_is_verified_against_the_system_and_shares_nothing_with_http() {
    let backend = Backend::echo().await;
    let front = TlsFront::of(backend.address, &Authority::new("nobody"), "127.0.0.1").await;
    let text = fill(
        "kind: Api\ninfo: {name: a}\ninbound: {match: /tls}\nproxy: {http: {upstream: \"https://$1/base\"}}\n---\n\
         kind: Api\ninfo: {name: b}\ninbound: {match: /plain}\nproxy: {http: {upstream: \"http://$2\"}}\n---\n\
         kind: Api\ninfo: {name: c}\ninbound: {match: /plain-tls}\nproxy: {http: {upstream: \"https://$2\"}}\n",
        &[&front.address, &backend.address],
    );
    let gateway = Gateway::serving(&text).await;
    assert_eq!(gateway.get("/tls").await.status, 502);
    for _ in 0..2 {
        assert_eq!(gateway.get("/plain").await.status, 200);
        // A port that speaks no TLS: it waits for the end of a line that never comes.
        assert_eq!(gateway.get("/plain-tls").await.status, 504);
    }
    assert!(backend.nonsense().iter().all(|it| !it.contains("/plain-tls")), "{:?}", backend.nonsense());
}

#[tokio::test]
async fn what_cannot_be_used_is_told_where_it_stands() {
    let ca = Authority::new("ca");
    let (pair, other) = (ca.issue(&["a.test"]), ca.issue(&["b.test"]));
    for (tls, place, says) in [
        ("{ca: {file: none.pem}}", "none.pem", "cannot be read"),
        ("{ca: {file: own.key}}", "own.key", "holds no `BEGIN CERTIFICATE`"),
        ("{ca: {file: ../ca.pem}}", "../ca.pem", "may not leave the folder"),
        ("{server_name: \"a b\"}", "a b", "no certificate can be for"),
        ("{client: {cert: own.pem, key: own.pem}}", "own.pem", "holds no private key"),
        ("{client: {cert: own.pem, key: other.key}}", "other.key", "is the key of another certificate"),
    ] {
        let setup = Gateway::with(&definition("127.0.0.1:1", tls, "")).file("own.pem", &pair.cert).file("own.key", &pair.key);
        let Err(why) = setup.file("other.key", &other.key).try_start().await else { panic!("{tls} is taken") };
        assert!(why.contains(says) && why.contains("api.yaml:4") && why.contains('^') && why.contains(place), "{tls}\n{why}");
        assert!(!why.contains("BEGIN PRIVATE") && !why.contains(pair.key.lines().nth(1).expect("a key")), "{why}");
    }
}

/// What the log says of a handshake.
async fn said(at: SocketAddr, trusts: &Authority, name: Option<&str>, own: Option<&Pair>, spoken: Spoken) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusts.pem().as_bytes()).expect("PEM")).expect("an authority");
    let name = name.map(|it| ServerName::try_from(it.to_owned()).expect("a name"));
    let own = own.map(|it| {
        let chain = CertificateDer::pem_slice_iter(it.cert.as_bytes()).map(|it| it.expect("PEM")).collect();
        (chain, PrivateKeyDer::from_pem_slice(it.key.as_bytes()).expect("a key"))
    });
    let config = Tls::config(Arc::new(roots), own).expect("a key that fits");
    let tls = Tls::new(config, "those of `ca.pem`", name, Arc::default());
    let way = Way::new(Some(&tls), "127.0.0.1", at, spoken);
    match way.open(at, Instant::now() + Duration::from_secs(2)).await {
        Ok(_) => "it went well".to_owned(),
        Err(it) => format!("{} {}: {}", it.error.word(), it.reason, it.source.map_or_else(String::new, |it| it.to_string())),
    }
}

#[tokio::test]
async fn the_log_says_what_to_do_about_a_handshake_that_failed() {
    let (ca, clients, backend) = (Authority::new("ca"), Authority::new("clients"), Backend::echo().await);
    let front = TlsFront::before(backend.address, &ca.issue(&["a.test", "b.test"]), Manners::default()).await;
    let h1 = Spoken::Http1;
    let it = said(front.address, &ca, Some("c.test"), None, h1).await;
    assert_eq!(it, "tls upstream_tls: its certificate is for a.test, b.test and not for c.test: set `tls.server_name` to what it is for");
    let it = said(front.address, &clients, Some("a.test"), None, h1).await;
    assert!(it.contains("nobody who is trusted") && it.contains("those of `ca.pem`") && it.contains("`tls.ca`"), "{it}");
    assert_eq!(said(front.address, &ca, Some("a.test"), None, h1).await, "it went well");
    // TLS 1.2 tells within the handshake whom the node wants.
    let manners = Manners { clients: Some(&clients), old: true, ..Manners::default() };
    let front = TlsFront::before(backend.address, &ca.issue(&["a.test"]), manners).await;
    for own in [None, Some(ca.issue(&["gateway.test"]))] {
        let it = said(front.address, &ca, Some("a.test"), own.as_ref(), h1).await;
        assert!(it.starts_with("tls upstream_tls: ") && it.contains("`tls.client`"), "{it}");
    }
    let front = TlsFront::before(backend.address, &ca.issue(&["a.test"]), Manners { speaks: &["http/1.1"], ..Manners::default() }).await;
    let it = said(front.address, &ca, Some("a.test"), None, Spoken::Http2).await;
    assert_eq!(it, "tls upstream_tls: it does not speak HTTP/2: set `protocol`");
    // Somebody who speaks in the clear, somebody who hangs up, somebody who says nothing at all.
    let clear = Backend::start(Behaviour::Script(vec![Step::send("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::Hold])).await;
    let it = said(clear.address, &ca, None, None, h1).await;
    assert!(it.starts_with("tls upstream_tls: ") && it.contains("no TLS"), "{it}");
    let gone = Backend::start(Behaviour::Script(vec![Step::Reset])).await;
    let it = said(gone.address, &ca, None, None, h1).await;
    assert!(it.contains("does it speak TLS here?"), "{it}");
    let silent = Backend::start(Behaviour::Script(vec![Step::Hold])).await;
    let it = said(silent.address, &ca, None, None, h1).await;
    assert!(it.starts_with("connect_timeout upstream_tls_timeout: "), "{it}");
    let it = said(Backend::nobody().await, &ca, None, None, h1).await;
    assert!(it.starts_with("connect upstream_connect: "), "{it}");
}
