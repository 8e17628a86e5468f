//! Calls that are made again: only what is named, only what does no harm, another node first, and never without end.
use std::time::{Duration, Instant};

use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    harness::{Gateway, fill},
};

/// Two nodes, and what stands beside the call.
async fn serving(first: &std::net::SocketAddr, second: &std::net::SocketAddr, beside: &str) -> Gateway {
    let text = "kind: Upstream\nname: u\nnodes: [{address: $1}, {address: $2}]\n---\nkind: Api\ninfo: {name: a, version: v1}\n\
                inbound: {match: \"/{rest...}\"}\nproxy: {http: {upstream: u}, $3}\n";
    Gateway::serving(&fill(text, &[first, second, &beside])).await
}

fn status(it: &str, headers: &[&str]) -> Behaviour {
    Behaviour::answers(it, headers, "{\"errcode\": 45009}")
}

#[tokio::test]
async fn a_node_that_is_gone_costs_nothing_that_can_be_sent_again() {
    let good = Backend::echo().await;
    let gateway = serving(&Backend::nobody().await, &good.address, "retry: {conditions: [connect], backoff: 1ms}").await;
    for (number, method) in ["GET", "POST", "PATCH", "DELETE"].iter().cycle().take(20).enumerate() {
        let body = format!("body {number}");
        let answer = gateway.ask(&format!("{method} /a"), &[], &body).await.is(200);
        assert_eq!(answer.json()["body"], body, "{method}");
    }
    assert_eq!(good.seen().len(), 20);
    let metrics = gateway.admin("/metrics").await.text();
    assert!(metrics.contains(r#"allium_upstream_retries_total{upstream="u"} 10"#), "{metrics}");
}

#[tokio::test]
async fn nothing_is_repeated_that_is_not_named() {
    for beside in ["", "retry: {tries: 3, conditions: [reset, \"503\"], backoff: 1ms}"] {
        let (bad, good) = (Backend::start(status("500 No", &[])).await, Backend::echo().await);
        let gateway = serving(&bad.address, &good.address, if beside.is_empty() { "timeout: 5s" } else { beside }).await;
        gateway.get("/a").await.is(500);
        assert_eq!((bad.seen().len(), good.seen().len()), (1, 0), "{beside}");
    }
}

#[tokio::test]
async fn what_may_have_reached_a_backend_is_repeated_only_where_that_does_no_harm() {
    for (behaviour, method, more, want) in [
        (Behaviour::Reset, "GET", "", 200),
        (Behaviour::Reset, "PUT", "", 200),
        (Behaviour::Reset, "POST", "", 502),
        (Behaviour::Reset, "POST", ", idempotent: true", 200),
        (status("502 No", &[]), "GET", "", 200),
        (status("502 No", &[]), "POST", "", 502),
        (status("503 No", &[]), "POST", "", 200),
        (status("429 No", &[]), "POST", "", 200),
    ] {
        let (bad, good) = (Backend::start(behaviour.clone()).await, Backend::echo().await);
        let retry = fill("retry: {conditions: [reset, \"502\", \"503\", throttled], backoff: 1ms$1}", &[&more]);
        let gateway = serving(&bad.address, &good.address, &retry).await;
        let answer = gateway.ask(&format!("{method} /a"), &[], "twice").await;
        assert_eq!(answer.status, want, "{behaviour:?} {method} {more}");
        assert_eq!(bad.last().content.bytes, b"twice");
        if want == 200 {
            assert_eq!(good.last().content.bytes, b"twice");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_to_keep_is_sent_once() {
    let retry = "retry: {conditions: [\"503\"], backoff: 1ms}";
    let (bad, good) = (Backend::start(status("503 No", &[])).await, Backend::echo().await);
    let gateway = serving(&bad.address, &good.address, retry).await;
    gateway.ask("PUT /a", &[], vec![b'x'; 65 * 1024]).await.is(503);
    assert_eq!(good.seen().len(), 0);
    gateway.ask("PUT /a", &[], vec![b'x'; 60 * 1024]).await.is(200);
}

#[tokio::test]
async fn the_last_answer_is_the_clients_when_the_tries_are_used_up() {
    let (one, two) = (Backend::start(status("503 One", &[])).await, Backend::start(status("503 Two", &["x-last: yes"])).await);
    let gateway = serving(&one.address, &two.address, "retry: {tries: 4, conditions: [\"503\"], backoff: 1ms}").await;
    let answer = gateway.get("/a").await.is(503);
    assert_eq!(answer.json()["errcode"], 45009, "the backend's own");
    assert_eq!(one.seen().len() + two.seen().len(), 4);
    assert!(!one.seen().is_empty() && !two.seen().is_empty());
}

#[tokio::test]
async fn retry_after_is_waited_for_where_there_is_time() {
    let (bad, good) = (Backend::start(status("503 No", &["retry-after: 1"])).await, Backend::echo().await);
    let gateway = serving(&bad.address, &good.address, "timeout: 5s, retry: {conditions: [\"503\"], backoff: 1ms}").await;
    let begun = Instant::now();
    gateway.get("/a").await.is(200);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let bad = Backend::start(status("503 No", &["retry-after: 60"])).await;
    let gateway = serving(&bad.address, &good.address, "timeout: 5s, retry: {conditions: [\"503\"], backoff: 1ms}").await;
    let begun = Instant::now();
    assert_eq!(gateway.get("/a").await.is(503).header("retry-after"), Some("60"));
    assert!(begun.elapsed() < Duration::from_secs(3), "it is given up at once");
}

#[tokio::test]
async fn each_try_has_its_share_of_the_time() {
    for more in ["", ", per_try: 200ms"] {
        let (slow, good) = (Backend::start(Behaviour::Stall).await, Backend::echo().await);
        let timeout = if more.is_empty() { "400ms" } else { "20s" };
        let beside = fill("timeout: $1, retry: {conditions: [timeout], backoff: 1ms$2}", &[&timeout, &more]);
        let gateway = serving(&slow.address, &good.address, &beside).await;
        let begun = Instant::now();
        gateway.get("/a").await.is(200);
        assert!((150..2000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_an_answer_means_is_what_the_definition_says() {
    let outcomes = "outcomes: [{is: throttled, when: response.body.errcode == 45009}, {is: ok, when: \"response.status == 404\"}, \
                    {is: fatal, when: error != null}]";
    let json = Behaviour::answers("200 OK", &["content-type: application/json"], "{\"errcode\": 45009}");
    let (bad, good) = (Backend::start(json).await, Backend::start(Behaviour::answers("404 Gone", &[], "")).await);
    let gateway = serving(&bad.address, &good.address, &format!("{outcomes}, retry: {{conditions: [throttled], backoff: 1ms}}")).await;
    gateway.ask("POST /a", &[], "again").await.is(404);
    let metrics = gateway.admin("/metrics").await.text();
    for (node, outcome) in [(&bad, "throttled"), (&good, "ok")] {
        let line = fill("allium_upstream_requests_total{upstream=\"u\",node=\"$1\",outcome=\"$2\"} 1", &[&node.address, &outcome]);
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[tokio::test]
async fn an_answer_that_was_looked_into_comes_whole() {
    let long = format!("{{\"errcode\": 0, \"text\": \"{}\"}}", "x".repeat(200_000));
    let short = "{\"errcode\": 0}".to_owned();
    for body in [long, short] {
        let headers = ["content-type: application/json"];
        let backend = Backend::start(Behaviour::answers("200 OK", &headers, &body)).await;
        let outcomes = "outcomes: [{is: fatal, when: response.body.errcode == 1}]";
        let gateway = serving(&backend.address, &backend.address, outcomes).await;
        let answer = gateway.get("/a").await.is(200);
        assert!(answer.text() == body, "{} of {} bytes", answer.text().len(), body.len());
    }
    let backend = Backend::start(Behaviour::Script(vec![
        Step::Read,
        Step::send(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
    ]))
    .await;
    let gateway = serving(&backend.address, &backend.address, "outcomes: [{is: fatal, when: response.body.errcode == 1}]").await;
    let answer = gateway.ask("GET /a", &["te: trailers"], "").await.is(200);
    assert_eq!(answer.text(), "{}");
}

#[tokio::test]
async fn a_task_fails_where_its_answer_means_so_and_is_made_again_with_what_time_is_left() {
    let json = ["content-type: application/json"];
    let busy = Backend::start(Behaviour::answers("200 OK", &json, "{\"errcode\": 45009}")).await;
    let text = "kind: Upstream\nname: u\nnodes: [{address: $1}]\n---\nkind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy:\n  pipeline:\n    \
                deadline: 5s\n    stages:\n      - one:\n          http: {upstream: u, path: /x}\n          outcomes: [{is: throttled, when: \
                response.body.errcode == 45009}]\n          retry: {tries: 2, conditions: [throttled], backoff: 30ms}\n          on_error: \
                {use: none}\n";
    let answer = Gateway::serving(&fill(text, &[&busy.address])).await.get("/a").await.is(200).json();
    assert_eq!(answer["one"], "none");
    let left: Vec<u64> = busy.seen().iter().filter_map(|it| it.head.get("x-request-timeout-ms")?.parse().ok()).collect();
    assert_eq!(left.len(), 2, "each attempt is told");
    assert!(left.iter().all(|it| *it <= 2500), "a share of the time: {left:?}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    for (beside, says) in [
        ("retry: {tries: 3}", "nothing is named"),
        ("retry: {conditions: [sometimes]}", "sometimes"),
        ("retry: {conditions: [connect], backoff: 2s..1s}", ""),
        ("retry: {conditions: [connect], per_try: 0s}", "no time at all"),
        ("retry: {conditions: [connect], budget: \"20\"}", "percent"),
        ("outcomes: [{is: fatal, when: \"respons.status == 1\"}]", "response"),
    ] {
        let text = "kind: Upstream\nname: u\nnodes: [{address: \"127.0.0.1:1\"}]\n---\nkind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy: {http: {upstream: u}, $1}\n";
        let Err(why) = Gateway::with(&fill(text, &[&beside])).try_start().await else { panic!("{beside} is served") };
        assert!(why.contains(says), "{beside}:\n{why}");
    }
    let text = "kind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy: {respond: {status: 200}, retry: {conditions: [connect]}}\n";
    let Err(why) = Gateway::with(text).try_start().await else { panic!("it is served") };
    assert!(why.contains("has a meaning only beside"), "{why}");
}
