//! Nodes that come and go: names by their time to live, records of the DNS, files that others write.
use std::{net::SocketAddr, time::Duration};

use tests::{
    backend::Backend,
    behaviour::Behaviour,
    dns::{Dns, Mood},
    harness::{Gateway, Setup, fill},
};
use tokio::time::{Instant, sleep};

/// An Upstream `u` with these lines, and an Api that calls it.
fn definition(lines: &str) -> String {
    fill(
        "kind: Upstream\nname: u\n$1\n---\nkind: Api\ninfo: {name: a}\ninbound: {match: [/, \"/{rest...}\"]}\nproxy: {http: {upstream: u}}\n",
        &[&lines],
    )
}

fn setup(lines: &str, dns: &Dns) -> Setup {
    Gateway::with(&definition(lines)).settings(&dns.settings())
}

/// Two backends at one port, each with an address of its own that says which it is.
async fn pair() -> (Backend, Backend, u16) {
    let says = |it: &str| Behaviour::answers("200 OK", &[], it);
    let first = Backend::start(says("first")).await;
    let port = first.address.port();
    (first, Backend::start_at(SocketAddr::from(([127, 0, 0, 2], port)), says("second")).await, port)
}

/// Asks until the answer is this one.
async fn becomes(gateway: &Gateway, status: u16, text: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = gateway.get("/").await;
        if answer.status == status && (status != 200 || answer.text() == text) {
            return;
        }
        assert!(Instant::now() < end, "never {status} {text}: {} {}", answer.status, answer.text());
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_listed_name_is_resolved_by_its_time_to_live() {
    let (dns, (_first, _second, port)) = (Dns::start().await, pair().await);
    dns.set("orders.test", "A", 1, &["127.0.0.1"]);
    let gateway = setup(&format!("nodes: [{{address: \"orders.test:{port}\"}}]"), &dns).start().await;
    assert_eq!(gateway.get("/").await.is(200).text(), "first");
    // What holds for long is not asked again.
    dns.set("orders.test", "A", 3600, &["127.0.0.2"]);
    becomes(&gateway, 200, "second").await;
    let before = dns.asked();
    dns.set("orders.test", "A", 1, &["127.0.0.1"]);
    sleep(Duration::from_millis(1500)).await;
    assert_eq!((gateway.get("/").await.text().as_str(), dns.asked()), ("second", before));
}

#[tokio::test]
async fn the_last_addresses_stay_while_the_resolver_fails() {
    let (dns, (_first, _second, port)) = (Dns::start().await, pair().await);
    dns.set("orders.test", "A", 1, &["127.0.0.1"]);
    let lines = format!("discovery: {{dns: {{name: orders.test, port: {port}}}}}");
    let gateway = setup(&lines, &dns).start().await;
    assert_eq!(gateway.get("/").await.is(200).text(), "first");
    for mood in [Mood::Fails, Mood::Silent] {
        dns.mood(mood);
        let (asked, end) = (dns.asked().0, Instant::now() + Duration::from_secs(10));
        while dns.asked().0 < asked + 2 {
            assert_eq!(gateway.get("/").await.is(200).text(), "first");
            assert!(Instant::now() < end, "nobody asks any more");
            sleep(Duration::from_millis(50)).await;
        }
    }
    // No such name, all of a sudden: more often a mistake than meant.
    dns.mood(Mood::Well);
    dns.set("orders.test", "A", 1, &[]);
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(gateway.get("/").await.is(200).text(), "first");
    dns.set("orders.test", "A", 1, &["127.0.0.2"]);
    becomes(&gateway, 200, "second").await;
}

#[tokio::test]
async fn no_request_waits_for_a_resolver() {
    let dns = Dns::start().await;
    dns.mood(Mood::Silent);
    let gateway = setup("discovery: {dns: {name: orders.test, port: 80}}", &dns).start().await;
    let begun = Instant::now();
    gateway.get("/").await.is(503);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn every_address_is_a_node_and_a_long_answer_comes_over_tcp() {
    let dns = Dns::start().await;
    let all: Vec<String> = (1..=60).map(|it| format!("127.0.1.{it}")).collect();
    dns.set("many.test", "A", 60, &all.iter().map(String::as_str).collect::<Vec<_>>());
    let gateway = setup("discovery: {dns: {name: many.test, port: 9}}", &dns).start().await;
    gateway.figures(&["allium_upstream_nodes{upstream=\"u\",state=\"healthy\"} 60"]).await;
    assert!(dns.asked().1 > 0);
}

#[tokio::test]
async fn srv_records_bring_ports_weights_and_an_order() {
    let dns = Dns::start().await;
    let says = |it: &str| Behaviour::answers("200 OK", &[], it);
    let (a, b, c) = (Backend::start(says("a")).await, Backend::start(says("b")).await, Backend::start(says("c")).await);
    dns.set("a.test", "A", 60, &["127.0.0.1"]);
    let record = |priority: u16, weight: u16, of: &Backend| format!("{priority} {weight} {} a.test.", of.address.port());
    let set = |records: &[String]| dns.set("_http._tcp.test", "SRV", 1, &records.iter().map(String::as_str).collect::<Vec<_>>());
    set(&[record(10, 3, &a), record(10, 1, &b), record(20, 1, &c)]);
    let gateway = setup("discovery: {dns: {name: _http._tcp.test, type: srv}}", &dns).start().await;
    let mut said: Vec<String> = Vec::new();
    for _ in 0..8 {
        said.push(gateway.get("/").await.is(200).text());
    }
    said.sort();
    assert_eq!(said, ["a", "a", "a", "a", "a", "a", "b", "b"]);
    set(&[record(20, 1, &c)]);
    becomes(&gateway, 200, "c").await;
}

#[tokio::test]
async fn an_address_that_must_not_be_called_is_not_after_a_name_has_led_there() {
    let (dns, backend) = (Dns::start().await, Backend::start(Behaviour::answers("200 OK", &[], "well")).await);
    let port = backend.address.port();
    dns.set("evil.test", "A", 1, &["127.0.0.1"]);
    dns.set("evil.test", "AAAA", 1, &["fd00:ec2::254", "fe80::1"]);
    let gateway = setup(&format!("discovery: {{dns: {{name: evil.test, port: {port}}}}}"), &dns).start().await;
    gateway.figures(&["allium_upstream_nodes{upstream=\"u\",state=\"healthy\"} 1"]).await;
    becomes(&gateway, 200, "well").await;
    // The name turns round: metadata services, however they are spelt.
    dns.set("evil.test", "A", 1, &["169.254.169.254"]);
    dns.set("evil.test", "AAAA", 1, &["::ffff:169.254.169.254"]);
    becomes(&gateway, 503, "").await;
    // And the gateway itself.
    let own = Gateway::with(&definition(&format!("nodes: [{{address: \"evil.test:{port}\"}}]")));
    dns.set("evil.test", "A", 1, &["127.0.0.1"]);
    dns.set("evil.test", "AAAA", 1, &[]);
    becomes(&gateway, 200, "well").await;
    drop(own);
    let text = definition(&format!("nodes: [{{address: \"evil.test:{}\"}}]", gateway.address.port()));
    gateway.redefine(&text).await;
    becomes(&gateway, 503, "").await;
}

#[tokio::test]
async fn a_file_is_watched_and_nodes_that_stay_keep_their_connections() {
    let says = |it: &str| Behaviour::answers("200 OK", &[], it);
    let (a, b) = (Backend::start(says("a")).await, Backend::start(says("b")).await);
    let list = |all: &[&Backend]| all.iter().map(|it| format!("- {{address: \"{}\"}}\n", it.address)).collect::<String>();
    let setup = Gateway::with(&definition("discovery: {file: nodes.yaml}")).file("nodes.yaml", &list(&[&a]));
    let gateway = setup.start().await;
    for _ in 0..3 {
        assert_eq!(gateway.get("/").await.is(200).text(), "a");
    }
    gateway.folder.replace("nodes.yaml", &list(&[&b, &a]));
    becomes(&gateway, 200, "b").await;
    gateway.folder.replace("nodes.yaml", &list(&[&a]));
    let end = Instant::now() + Duration::from_secs(10);
    while gateway.figures(&[]).await.contains("allium_upstream_nodes{upstream=\"u\",state=\"healthy\"} 2") {
        assert!(Instant::now() < end, "the node never goes");
        sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..3 {
        assert_eq!(gateway.get("/").await.is(200).text(), "a");
    }
    assert_eq!(a.connections(), 1, "it was there all the time");
    // Half a file, or none, is not taken for a list without nodes; `[]` is.
    for broken in ["", "- {address: \"127.0.0.1", "- {address: orders.test:80}", "- {address: \"127.0.0.1:1\", wait: 3}"] {
        gateway.folder.replace("nodes.yaml", broken);
        sleep(Duration::from_millis(1200)).await;
        assert_eq!(gateway.get("/").await.is(200).text(), "a", "{broken}");
    }
    gateway.folder.replace("nodes.yaml", "[]");
    becomes(&gateway, 503, "").await;
    // JSON is YAML, too.
    gateway
        .folder
        .replace("nodes.yaml", &format!("[{{\"address\": \"{}\", \"weight\": 2, \"metadata\": {{\"zone\": \"a\"}}}}]", b.address));
    becomes(&gateway, 200, "b").await;
}

#[tokio::test]
async fn what_cannot_be_found_is_told_where_it_stands() {
    for (lines, says) in [
        ("discovery: {dns: {name: a.test}}", "addresses have no port of their own"),
        ("discovery: {dns: {name: a.test, type: srv, port: 80}}", "SRV records bring their own ports"),
        ("discovery: {dns: {name: \"http://a.test\", port: 80}}", "without http://"),
        ("discovery: {file: none.yaml}", "cannot be read"),
        ("discovery: {file: bad.yaml}", "is no list of nodes"),
    ] {
        let Err(why) = Gateway::with(&definition(lines)).file("bad.yaml", "{a: 1}").try_start().await else { panic!("{lines} is taken") };
        assert!(why.contains(says) && why.contains("api.yaml:3:") && why.contains('^'), "{lines}\n{why}");
    }
}
