//! Breakers: calls are refused while a backend fails, and made again when it is well.
use std::time::{Duration, Instant};

use tests::{
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, fill},
    message::PATIENCE,
};
use tokio::time::sleep;

const API: &str = "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: \"/{rest...}\"}\n$4proxy: {http: {upstream: u}$5}\n";
const SOON: &str = "ratio: {min_calls: 5, open_for: 200ms, probes: 2}";

/// An Upstream of two nodes with this breaker; what the Api has of plugins, and beside its call.
async fn serving(one: &std::net::SocketAddr, two: &std::net::SocketAddr, breaker: &str, plugins: &str, beside: &str) -> Gateway {
    let text = format!("kind: Upstream\nname: u\nnodes: [{{address: $1}}, {{address: $2}}]\nbreaker: {{$3}}\n---\n{API}");
    let nodes = if one == two { text.replace(", {address: $2}", "") } else { text };
    Gateway::serving(&fill(&nodes, &[one, two, &breaker, &plugins, &beside])).await
}

fn ill() -> Behaviour {
    Behaviour::answers("500 Ill", &[], "ill")
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_open_circuit_asks_nobody_and_says_when_to_come_again() {
    let bad = Backend::start(ill()).await;
    let gateway = serving(&bad.address, &bad.address, "ratio: {min_calls: 5, open_for: 1h}", "", "").await;
    for _ in 0..5 {
        gateway.get("/a").await.is(500);
    }
    for _ in 0..5 {
        let answer = gateway.get("/a").await.is(503);
        let after: u64 = answer.header("retry-after").and_then(|it| it.parse().ok()).expect("Retry-After");
        assert!((3500..4000).contains(&after), "{after}");
        assert!(!answer.text().contains("127.0.0.1"), "{}", answer.text());
    }
    assert_eq!(bad.seen().len(), 5);
    let metrics = gateway.admin("/metrics").await.text();
    for line in [
        r#"allium_breaker_refused_total{upstream="u"} 5"#,
        r#"allium_breaker_opened_total{upstream="u"} 1"#,
        r#"allium_breaker_refusing{upstream="u"} 1"#,
        r#"allium_refused_total{reason="breaker_open"} 5"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let report = gateway.admin("/upstreams").await.is(200).json();
    let it = &report["upstreams"][0];
    assert_eq!((&it["name"], &it["nodes"][0]["state"]), (&"u".into(), &"healthy".into()));
    assert_eq!(it["breaker"], serde_json::json!([{"of": bad.address.to_string(), "state": "open"}]));
}

#[tokio::test]
async fn it_closes_by_itself_when_the_backend_is_well() {
    let bad = Backend::start(ill()).await;
    let address = bad.address;
    let gateway = serving(&address, &address, SOON, "", "").await;
    until("it opens", async || gateway.get("/a").await.status == 503).await;
    drop(bad);
    until("it is gone", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    let _good = Backend::start_at(address, Behaviour::Echo).await;
    until("it closes", async || {
        gateway.get("/a").await;
        gateway.admin("/upstreams").await.json()["upstreams"][0]["breaker"][0]["state"] == "closed"
    })
    .await;
    gateway.get("/a").await.is(200);
    assert!(gateway.admin("/metrics").await.text().contains(r#"allium_breaker_refusing{upstream="u"} 0"#));
}

#[tokio::test]
async fn calls_go_to_a_node_whose_circuit_is_closed() {
    let (bad, good) = (Backend::start(ill()).await, Backend::echo().await);
    let gateway = serving(&bad.address, &good.address, "ratio: {min_calls: 5, open_for: 1h}", "", "").await;
    until("it opens", async || {
        gateway.get("/a").await;
        bad.seen().len() == 5
    })
    .await;
    for _ in 0..20 {
        gateway.get("/a").await.is(200);
    }
    assert_eq!(bad.seen().len(), 5);
}

#[tokio::test]
async fn methods_are_counted_by_their_template() {
    let bad = Backend::start(Behaviour::answers("500 Ill", &[], "")).await;
    let gateway = serving(&bad.address, &bad.address, "ratio: {min_calls: 5, open_for: 1h}, per: [method]", "", "").await;
    for number in 0..5 {
        gateway.get(&format!("/{number}")).await.is(500);
    }
    gateway.get("/other").await.is(503);
    gateway.ask("POST /other", &[], "").await.is(500);
    let report = gateway.admin("/upstreams").await.json();
    let words = serde_json::json!([{"of": "GET /{rest...}", "state": "open"}, {"of": "POST /{rest...}", "state": "closed"}]);
    assert_eq!(report["upstreams"][0]["breaker"], words);
}

#[tokio::test]
async fn a_refused_call_is_not_made_again_and_a_fallback_answers_for_it() {
    let bad = Backend::start(ill()).await;
    let fallback = "plugins: [{fallback: {conditions: [503], respond: {status: 203, body: {items: []}}}}]\n";
    let retry = ", retry: {tries: 3, conditions: [\"503\"], backoff: 1ms}";
    let gateway = serving(&bad.address, &bad.address, "ratio: {min_calls: 5, open_for: 1h}", fallback, retry).await;
    for _ in 0..5 {
        gateway.get("/a").await.is(500);
    }
    assert_eq!(gateway.get("/a").await.is(203).text(), r#"{"items":[]}"#);
    let metrics = gateway.admin("/metrics").await.text();
    assert!(metrics.contains(r#"allium_breaker_refused_total{upstream="u"} 1"#), "{metrics}");
}

#[tokio::test]
async fn throttling_refuses_most_calls_of_a_backend_that_is_down_and_none_of_one_that_is_well() {
    let (bad, good) = (Backend::start(ill()).await, Backend::echo().await);
    let gateway = serving(&good.address, &good.address, "adaptive: {k: 2}", "", "").await;
    for _ in 0..100 {
        gateway.get("/a").await.is(200);
    }
    let gateway = serving(&bad.address, &bad.address, "adaptive: {k: 2}", "", "").await;
    let mut refused = 0;
    for _ in 0..300 {
        refused += u32::from(gateway.get("/a").await.status == 503);
    }
    assert!(refused > 150, "{refused} of 300");
    assert_eq!(bad.seen().len() as u32, 300 - refused);
    assert_eq!(gateway.admin("/upstreams").await.json()["upstreams"][0]["breaker"][0]["state"], "throttling");
}

#[tokio::test]
async fn slow_answers_are_failures_where_that_is_asked_for() {
    let slow = Backend::start(Behaviour::Slow(Duration::from_millis(60))).await;
    let gateway = serving(&slow.address, &slow.address, "ratio: {min_calls: 3, open_for: 1h, slow: 50ms}", "", "").await;
    for _ in 0..3 {
        gateway.get("/a").await.is(200);
    }
    gateway.get("/a").await.is(503);
}

#[tokio::test]
async fn a_circuit_outlives_a_reload() {
    let bad = Backend::start(ill()).await;
    let text = "kind: Upstream\nname: u\nnodes: [{address: $1}]\ntimeouts: {connect: $2}\nbreaker: {ratio: {min_calls: 5, open_for: 1h}}\n---\n\
                kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: u}}\n";
    let gateway = Gateway::serving(&fill(text, &[&bad.address, &"1s"])).await;
    until("it opens", async || gateway.get("/a").await.status == 503).await;
    gateway.redefine(&fill(text, &[&bad.address, &"2s"])).await;
    gateway.get("/a").await.is(503);
    assert_eq!(bad.seen().len(), 5);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    for (breaker, says) in [
        ("adaptive: {k: 0.5}", "between 1 and 1000"),
        ("adaptive: {window: 0s}", "no time at all"),
        ("adaptive: {criticality: urgent}", "no criticality"),
        ("adaptive: {criticality: \"${response.status}\"}", "response"),
        ("ratio: {failures: 0%}", "without any failure"),
        ("ratio: {failures: half}", "percent"),
        ("ratio: {open_for: 0s}", "no time at all"),
        ("ratio: {}, adaptive: {}", "exactly one"),
        ("per: [node]", "adaptive"),
    ] {
        let text = fill(
            "kind: Upstream\nname: u\nnodes: [{address: \"127.0.0.1:1\"}]\nbreaker: {$1}\n---\nkind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy: {http: {upstream: u}}\n",
            &[&breaker],
        );
        let Err(why) = Gateway::with(&text).try_start().await else { panic!("{breaker} is served") };
        assert!(why.contains(says), "{breaker}:\n{why}");
    }
}
