//! Which node a call goes to: policies, metadata, clients that stay; and nodes that are spared while they are sick.
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use tests::{
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, fill},
    message::PATIENCE,
    wire::Answer,
};
use tokio::time::sleep;

const API: &str = "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: u}}\n";

/// An Upstream `u` of these nodes, with further lines.
fn upstream(nodes: &[&Backend], metadata: &[&str], more: &str) -> String {
    let nodes = nodes.iter().enumerate().map(|(at, it)| {
        let metadata = metadata.get(at).map_or(String::new(), |it| format!(", metadata: {{{it}}}"));
        format!("  - {{address: \"{}\"{metadata}}}\n", it.address)
    });
    format!("kind: Upstream\nname: u\nnodes:\n{}{more}\n---\n{API}", nodes.collect::<String>())
}

fn seen(nodes: &[&Backend]) -> Vec<usize> {
    nodes.iter().map(|it| it.seen().len()).collect()
}

async fn asks(gateway: &Gateway, header: &str) -> Answer {
    gateway.ask("GET /a", &[header], "").await
}

/// Asks until the gateway does as it should.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn random_and_least_request_ask_every_node() {
    for policy in ["random", "least_request"] {
        let (one, two) = (Backend::echo().await, Backend::echo().await);
        let gateway = Gateway::serving(&upstream(&[&one, &two], &[], &format!("balance: {{policy: {policy}}}"))).await;
        for _ in 0..60 {
            gateway.get("/a").await.is(200);
        }
        let seen = seen(&[&one, &two]);
        assert!(seen.iter().all(|it| *it >= 10), "{policy}: {seen:?}");
    }
}

#[tokio::test]
async fn a_hash_keeps_each_value_on_its_node() {
    let nodes = [Backend::echo().await, Backend::echo().await, Backend::echo().await];
    let nodes: Vec<&Backend> = nodes.iter().collect();
    let text = upstream(&nodes, &[], "balance: {policy: hash, hash: \"${headers['x-user']}\"}");
    let gateway = Gateway::serving(&text).await;
    let mut used = BTreeSet::new();
    for user in 0..30 {
        let before = seen(&nodes);
        for _ in 0..3 {
            asks(&gateway, &format!("x-user: u{user}")).await.is(200);
        }
        let took: Vec<_> = seen(&nodes).iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(took.iter().filter(|it| **it == 3).count(), 1, "{user}: {took:?}");
        used.extend(took.iter().position(|it| *it == 3));
    }
    assert_eq!(used.len(), 3, "the values are spread");
}

#[tokio::test]
async fn only_nodes_with_the_metadata_are_asked() {
    let (near, far) = (Backend::echo().await, Backend::echo().await);
    let zones = ["zone: gz, ring: r1", "zone: sz"];
    let wanted = "balance: {where: {zone: \"${headers['x-zone']}\"}}";
    let gateway = Gateway::serving(&upstream(&[&near, &far], &zones, wanted)).await;
    for _ in 0..4 {
        asks(&gateway, "x-zone: gz").await.is(200);
    }
    assert_eq!(seen(&[&near, &far]), [4, 0]);
    assert_eq!(asks(&gateway, "x-zone: nowhere").await.is(503).json()["code"], 503);
    asks(&gateway, "x-other: gz").await.is(503);

    let any = wanted.replace("}}", "}, or_any: true}");
    let gateway = Gateway::serving(&upstream(&[&near, &far], &zones, &any)).await;
    for _ in 0..4 {
        asks(&gateway, "x-zone: nowhere").await.is(200);
        asks(&gateway, "x-zone: sz").await.is(200);
    }
    assert_eq!(seen(&[&near, &far]), [6, 6]);
}

#[tokio::test]
async fn the_zone_of_the_gateway_itself_can_be_asked_for() {
    let (near, far) = (Backend::echo().await, Backend::echo().await);
    let text = upstream(&[&far, &near], &["zone: sz", "zone: gz"], "balance: {where: {zone: \"${node.zone}\"}}");
    let gateway = Gateway::with(&text).settings("node: {id: gw-1, zone: gz}").start().await;
    for _ in 0..3 {
        gateway.get("/a").await.is(200);
    }
    assert_eq!(seen(&[&near, &far]), [3, 0]);
}

#[tokio::test]
async fn a_cookie_keeps_a_client_on_its_node() {
    let (one, two) = (Backend::echo().await, Backend::echo().await);
    let gateway = Gateway::serving(&upstream(&[&one, &two], &[], "balance: {sticky: {cookie: srv}}")).await;
    let answer = gateway.get("/a").await.is(200);
    let set = answer.header("set-cookie").expect("a cookie").to_owned();
    let (pair, attributes) = set.split_once("; ").expect("attributes");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
    assert!(pair.starts_with("srv=") && !set.contains(&one.address.port().to_string()), "{set}");
    for _ in 0..5 {
        assert_eq!(asks(&gateway, &format!("cookie: {pair}")).await.is(200).header("set-cookie"), None);
    }
    let mut all = seen(&[&one, &two]);
    all.sort();
    assert_eq!(all, [0, 6]);
    // A cookie of nobody's is replaced.
    assert!(asks(&gateway, "cookie: srv=0123456789abcdef").await.is(200).header("set-cookie").is_some());
}

#[tokio::test]
async fn a_node_whose_calls_fail_is_not_called_for_a_while() {
    let (good, bad) = (Backend::echo().await, Backend::start(Behaviour::answers("500 No", &[], "")).await);
    let health = "health: {passive: {failures: 3, eject_for: 400ms}}";
    let gateway = Gateway::serving(&upstream(&[&good, &bad], &[], health)).await;
    for _ in 0..6 {
        gateway.get("/a").await;
    }
    assert_eq!(bad.seen().len(), 3);
    until("it is ejected", async || {
        gateway.admin("/metrics").await.text().contains(r#"allium_upstream_nodes{upstream="u",state="ejected"} 1"#)
    })
    .await;
    let before = Instant::now();
    for _ in 0..4 {
        gateway.get("/a").await.is(200);
    }
    if before.elapsed() < Duration::from_millis(300) {
        assert_eq!(bad.seen().len(), 3);
    }
    until("it comes back", async || {
        gateway.get("/a").await;
        bad.seen().len() > 3
    })
    .await;
    assert!(gateway.admin("/metrics").await.text().contains(r#"allium_upstream_ejections_total{upstream="u"} "#));
}

#[tokio::test]
async fn a_node_that_fails_its_checks_is_not_called_and_only_without_any_left_is_it_503() {
    let bad = Behaviour::answers("503 Ill", &[], "");
    let (good, ill) = (Backend::echo().await, Backend::start(bad.clone()).await);
    let health = "health: {active: {path: /healthz, interval: 20ms, timeout: 500ms, healthy_after: 1, unhealthy_after: 2}}";
    let gateway = Gateway::serving(&upstream(&[&good, &ill], &[], health)).await;
    until("it is noticed", async || gateway.admin("/metrics").await.text().contains(r#"state="unhealthy"} 1"#)).await;
    for _ in 0..4 {
        gateway.get("/a").await.is(200);
    }
    let calls = |it: &Backend| it.seen().iter().filter(|it| it.head.target() == "/a").count();
    assert_eq!((calls(&good), calls(&ill)), (4, 0));
    let checked = good.seen().into_iter().find(|it| it.head.target() == "/healthz").expect("a check");
    assert!(checked.head.headers.iter().any(|(name, value)| name == "user-agent" && value == "allium-health"), "{:?}", checked.head);

    let address = good.address;
    drop(good);
    until("nobody is left", async || gateway.get("/a").await.status == 503).await;
    let _good = Backend::start_at(address, Behaviour::Echo).await;
    until("it is back", async || gateway.get("/a").await.status == 200).await;
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    for (more, says) in [
        ("balance: {policy: hash}", "needs `hash`"),
        ("balance: {hash: \"${request.client_ip}\"}", "does not hash"),
        ("balance: {policy: hash, hash: \"${response.status}\"}", "response"),
        ("balance: {policy: fastest}", "fastest"),
        ("balance: {sticky: {cookie: \"a b\"}}", "no cookie name"),
        ("health: {active: {path: healthz}}", "a path begins with a slash"),
        ("health: {active: {path: /h, interval: 0s}}", "no time at all"),
        ("health: {passive: {max_ejected: \"0.5\"}}", "percent"),
    ] {
        let text = fill("kind: Upstream\nname: u\nnodes: [{address: \"127.0.0.1:1\"}]\n$1\n---\n$2", &[&more, &API]);
        let Err(why) = Gateway::with(&text).try_start().await else { panic!("{more} is served") };
        assert!(why.contains(says), "{more}:\n{why}");
    }
}
