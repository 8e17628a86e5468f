//! Backends that are down, slow or broken: what the client is told, and what it is not.
use std::time::{Duration, Instant};

use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    harness::{Gateway, echo_api, fill},
    message::latin1,
    wire::Answer,
};

async fn asked(behaviour: Behaviour, more: &str) -> (Answer, Backend) {
    let backend = Backend::start(behaviour).await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", more)).await;
    let answer = gateway.get("/a").await;
    (answer, backend)
}

/// The answer is the gateway's own and says nothing of the inside.
#[track_caller]
fn plain(answer: &Answer, status: u16, inside: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body["code"], status);
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(body["request_id"].as_str(), answer.header("x-request-id"), "{body}");
    let all = latin1(&answer.head.raw) + &answer.text();
    assert!(!all.contains(inside) && !all.contains("127.0.0.1") && !all.contains("os error"), "{all}");
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_502() {
    let address = Backend::nobody().await;
    let gateway = Gateway::serving(&echo_api(address, "/a", "")).await;
    plain(&gateway.get("/a").await, 502, &address.port().to_string());
}

#[tokio::test]
async fn an_upstream_without_nodes_is_503() {
    let text = "kind: Upstream\nname: empty\nnodes: [{address: \"nobody.invalid:80\"}]\n---\nkind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: empty}}\n";
    let answer = Gateway::serving(text).await.get("/a").await;
    plain(&answer, 503, "empty");
    assert!(answer.header("retry-after").is_some());
}

#[tokio::test]
async fn a_backend_that_breaks_off_is_502() {
    let cases = [
        Behaviour::Reset,
        Behaviour::Script(vec![Step::Read]),
        Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\ncontent-le")]),
        Behaviour::Script(vec![Step::Read, Step::send("SSH-2.0-OpenSSH\r\n\r\n")]),
        Behaviour::Script(vec![
            Step::Read,
            Step::send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ]),
        Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab")]),
        Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\nbad header\r\n\r\n")]),
        Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\nx: a\r\n folded\r\ncontent-length: 0\r\n\r\n")]),
        Behaviour::Script(vec![Step::Read, Step::send(&format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "x".repeat(100_000)))]),
    ];
    for behaviour in cases {
        let (answer, _backend) = asked(behaviour.clone(), "").await;
        assert_eq!(answer.status, 502, "{behaviour:?}: {}", answer.text());
        plain(&answer, 502, "SSH");
    }
}

#[tokio::test]
async fn time_is_504() {
    for (behaviour, more) in [
        (Behaviour::Stall, "proxy: {http: {upstream: echo}, timeout: 200ms}"),
        (Behaviour::Slow(Duration::from_secs(30)), "proxy: {http: {upstream: echo}, timeout: 200ms}"),
    ] {
        let begun = Instant::now();
        let (answer, backend) = asked(behaviour, more).await;
        plain(&answer, 504, "stall");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        backend.left(1).await;
    }
}

#[tokio::test]
async fn the_first_byte_and_idle_times_of_an_upstream_hold() {
    let text = "kind: Upstream\nname: slow\nnodes: [{address: $1}]\ntimeouts: {first_byte: 200ms, idle: 200ms}\n---\nkind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: slow}}\n";
    let backend = Backend::start(Behaviour::Stall).await;
    plain(&Gateway::serving(&fill(text, &[&backend.address])).await.get("/a").await, 504, "slow");
    let backend = Backend::start(Behaviour::StallsInside).await;
    let answer = Gateway::serving(&fill(text, &[&backend.address])).await.get("/a").await;
    assert_eq!((answer.status, answer.complete), (200, false), "what has begun can only be broken off");
}

#[tokio::test]
async fn a_cut_answer_is_never_taken_for_a_whole_one() {
    for behaviour in [Behaviour::Truncates, Behaviour::TruncatesChunks] {
        let (answer, _backend) = asked(behaviour.clone(), "").await;
        assert_eq!((answer.status, answer.complete), (200, false), "{behaviour:?}");
    }
}

#[tokio::test]
async fn round_robin_goes_on_by_weight() {
    let (one, two) = (Backend::echo().await, Backend::echo().await);
    let text = "kind: Upstream\nname: both\nnodes: [{address: $1, weight: 2}, {address: $2}]\n---\nkind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: both}}\n";
    let gateway = Gateway::serving(&fill(text, &[&one.address, &two.address])).await;
    for _ in 0..30 {
        gateway.get("/a").await.is(200);
    }
    assert_eq!((one.seen().len(), two.seen().len()), (20, 10));
}

#[tokio::test]
async fn a_backend_that_comes_back_is_used_again() {
    let backend = Backend::echo().await;
    let address = backend.address;
    let gateway = Gateway::serving(&echo_api(address, "/a", "")).await;
    gateway.get("/a").await.is(200);
    drop(backend);
    tokio::time::sleep(Duration::from_millis(50)).await;
    gateway.get("/a").await.is(502);
    let _backend = Backend::start_at(address, Behaviour::Echo).await;
    gateway.get("/a").await.is(200);
}

#[tokio::test]
async fn metadata_addresses_are_refused() {
    for address in ["169.254.169.254:80", "[fe80::1]:80"] {
        let text = "kind: Upstream\nname: meta\nnodes: [{address: \"$1\"}]\n---\nkind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: meta}}\n";
        // Refused at load or at the call; never asked.
        if let Ok(gateway) = Gateway::with(&fill(text, &[&address])).try_start().await {
            let answer = gateway.get("/a").await;
            assert!(matches!(answer.status, 502 | 503), "{address}: {}", answer.status);
        }
    }
}
