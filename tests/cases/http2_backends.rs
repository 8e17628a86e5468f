//! `protocol: http2`: backends that speak HTTP/2, in the clear and by prior knowledge.
use std::time::{Duration, Instant};

use tests::{
    harness::{Gateway, fill},
    http2::Http2Backend,
    wire::request,
};

const TEXT: &str = "kind: Upstream\nname: u\nprotocol: http2\nnodes: [{address: $1}]\n---
kind: Api\ninfo: {name: a}\ninbound: {match: [/, \"/{rest...}\"]}\nproxy: {http: {upstream: u}}\n";

async fn gateway() -> (Gateway, Http2Backend) {
    let backend = Http2Backend::start().await;
    (Gateway::serving(&fill(TEXT, &[&backend.address])).await, backend)
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_request_arrives_as_it_was_sent() {
    let (gateway, backend) = gateway().await;
    let headers = ["x-a: 1", "x-a: 2", "connection: x-hop", "x-hop: 1", "te: trailers", "cookie: a=b", "cookie: c=d", "x-bytes: \u{e9}"];
    let answer = gateway.ask("POST /a%2Fb/c?x=1&y=%20&z", &headers, "hello").await.is(200);
    assert_eq!(answer.text(), "hello");
    let asked = backend.last();
    assert_eq!(asked.head.version, http::Version::HTTP_2);
    assert_eq!(asked.head.uri.path_and_query().map(|it| it.as_str()), Some("/a%2Fb/c?x=1&y=%20&z"));
    assert_eq!(asked.head.uri.authority().map(|it| it.as_str()), Some("gateway.test"));
    let all = |name: &str| asked.head.headers.get_all(name).iter().map(|it| it.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!((all("x-a"), all("te")), (vec![b"1".to_vec(), b"2".to_vec()], vec![b"trailers".to_vec()]));
    assert_eq!((all("x-hop").len(), all("connection").len(), all("host").len()), (0, 0, 0));
    assert_eq!((asked.body.as_ref(), all("x-bytes")), (&b"hello"[..], vec!["\u{e9}".as_bytes().to_vec()]));
    assert_eq!(gateway.get("/").await.is(200).text(), "");
    assert_eq!(backend.last().head.method, http::Method::GET);
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let (gateway, backend) = gateway().await;
    let mut wire = gateway.wire().await;
    let chunks = "5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n";
    wire.send(request("POST /trailers", &["transfer-encoding: chunked", "te: trailers"], chunks)).await;
    let answer = wire.answer().await.is(200);
    assert_eq!((answer.text().as_str(), &answer.trailers[..]), ("hello", &[("x-checksum".to_owned(), "5eb63bbb".to_owned())][..]));
    assert_eq!(backend.last().trailers["x-sum"], "1");
}

#[tokio::test]
async fn large_bodies_stream_both_ways() {
    let (gateway, backend) = gateway().await;
    let body = vec![b'y'; 4 << 20];
    assert_eq!(gateway.ask("POST /echo", &[], &body).await.is(200).text().len(), body.len());
    assert_eq!(backend.last().body.len(), body.len());
    assert_eq!(gateway.get("/large").await.is(200).text().len(), 256 * 65536);
}

#[tokio::test]
async fn one_connection_carries_many_calls_and_none_waits_for_another() {
    let (gateway, backend) = gateway().await;
    let slow = gateway.get("/slow");
    let started = Instant::now();
    let fast = async {
        for _ in 0..20 {
            gateway.get("/fast").await.is(200);
        }
        started.elapsed()
    };
    let (slow, fast) = tokio::join!(slow, fast);
    slow.is(200);
    assert!(fast < Duration::from_millis(1400), "{fast:?}");
    assert_eq!(backend.connections(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_call_alone() {
    let (gateway, backend) = gateway().await;
    let mut wire = gateway.wire().await;
    wire.send(request("GET /events", &[], "")).await;
    assert_eq!(wire.head().await.status(), 200);
    wire.chunk().await;
    wire.reset();
    until("the backend hears of it", || backend.left() == 1).await;
    gateway.get("/a").await.is(200);
    assert_eq!(backend.connections(), 1);
}

#[tokio::test]
async fn a_backend_that_leaves_costs_nothing() {
    let (gateway, backend) = gateway().await;
    gateway.get("/a").await.is(200);
    for round in 2..6 {
        backend.leave();
        gateway.get("/a").await.is(200);
        until("a new connection", || backend.connections() >= round - 1).await;
    }
    // What is on its way when it says so is finished.
    let (slow, ()) = tokio::join!(gateway.get("/slow"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        backend.leave();
        gateway.get("/b").await.is(200);
    });
    slow.is(200);
}

#[tokio::test]
async fn a_backend_that_starts_again_is_found_again() {
    let (gateway, backend) = gateway().await;
    gateway.get("/a").await.is(200);
    let address = backend.address;
    drop(backend);
    let started = Instant::now();
    while gateway.get("/a").await.status == 200 {
        assert!(started.elapsed() < Duration::from_secs(5), "it is gone");
    }
    assert_eq!(gateway.get("/a").await.status, 502);
    let backend = Http2Backend::start_at(address).await;
    gateway.get("/a").await.is(200);
    assert_eq!(backend.connections(), 1);
}

#[tokio::test]
async fn a_stream_that_is_reset_is_502_and_the_connection_lives() {
    let (gateway, backend) = gateway().await;
    let answer = gateway.get("/reset").await;
    assert_eq!((answer.status, answer.json()["message"].as_str()), (502, Some("the backend closed the connection before it answered")));
    gateway.get("/a").await.is(200);
    assert_eq!(backend.connections(), 1);
}
