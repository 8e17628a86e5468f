//! How many requests are inside at once, and who waits.
use std::time::Duration;

use tests::{
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, echo_api},
    wire::request,
};
use tokio::time::{Instant, sleep};

async fn inside(gateway: &Gateway, want: u64) {
    let line = format!("allium_concurrency_inside{{owner=\"Api/a@v1\",ring=\"1\"}} {want}\n");
    let end = Instant::now() + Duration::from_secs(10);
    while !gateway.admin("/metrics").await.text().contains(&line) {
        assert!(Instant::now() < end, "never {want} inside");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn who_finds_no_place_is_refused_and_a_client_that_leaves_gives_its_place_back() {
    let backend = Backend::start(Behaviour::Stall).await;
    let gateway =
        Gateway::serving(&echo_api(backend.address, "/a", "plugins: [{concurrency: {max: 2, key: \"${headers['x-user']}\"}}]")).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut wire = gateway.wire().await;
        wire.send(request("GET /a", &["x-user: a"], "")).await;
        held.push(wire);
    }
    inside(&gateway, 2).await;
    let refused = gateway.ask("GET /a", &["x-user: a"], "").await.is(503);
    assert_eq!((refused.json()["message"].as_str(), refused.header("retry-after")), (Some("too much is going on here at once"), Some("1")));
    let mut other = gateway.wire().await;
    other.send(request("GET /a", &["x-user: b"], "")).await;
    inside(&gateway, 3).await;
    drop((held, other));
    inside(&gateway, 0).await;
}

#[tokio::test]
async fn a_place_is_held_until_the_last_byte_of_a_stream() {
    let backend = Backend::start(Behaviour::Sse { every: Duration::from_millis(20), events: usize::MAX }).await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "plugins: [{concurrency: {max: 1}}]")).await;
    let mut wire = gateway.wire().await;
    wire.send(request("GET /a", &[], "")).await;
    assert_eq!(wire.head().await.status(), 200);
    wire.chunk().await;
    gateway.get("/a").await.is(503);
    drop(wire);
    inside(&gateway, 0).await;
}

#[tokio::test]
async fn some_wait_and_are_served_and_some_wait_in_vain() {
    let backend = Backend::start(Behaviour::Slow(Duration::from_millis(100))).await;
    let text = |wait: &str| echo_api(backend.address, "/a", &format!("plugins: [{{concurrency: {{max: 1, queue: 2, max_wait: {wait}}}}}]"));
    let gateway = Gateway::serving(&text("10s")).await;
    let statuses = |gateway: &Gateway| {
        let address = gateway.address;
        async move {
            let ask = || tests::wire::ask(address, "GET /a", &[], "");
            let (a, b, c) = tokio::join!(ask(), ask(), ask());
            let mut all = [a.status, b.status, c.status];
            all.sort_unstable();
            all
        }
    };
    assert_eq!(statuses(&gateway).await, [200, 200, 200]);
    gateway.redefine(&text("20ms")).await;
    assert_eq!(statuses(&gateway).await, [200, 503, 503]);
}
