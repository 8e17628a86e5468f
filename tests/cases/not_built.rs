//! What the format knows and this version lacks is refused by name, never served in part: the table at the end of the manual.
use tests::harness::Gateway;

const SAYS: &str = "known, but not built into this gateway";

/// Further lines of an Upstream, or of an Api and its `proxy`; and what is said to be missing.
async fn check(upstream: &str, api: &str, proxy: &str, missing: &str) {
    let text = format!(
        "kind: Upstream\nname: u\nnodes: [{{address: \"127.0.0.1:1\"}}]\n{upstream}\n---\n\
         kind: Api\ninfo: {{name: a}}\ninbound: {{match: /a}}\n{api}\nproxy: {proxy}\n"
    );
    let text = if upstream.contains("discovery") { text.replace("nodes: [{address: \"127.0.0.1:1\"}]\n", "") } else { text };
    let text = if api.contains("inbound") { text.replace("inbound: {match: /a}\n", "") } else { text };
    let Err(why) = Gateway::with(&text).try_start().await else { panic!("{missing}: it is served\n{text}") };
    assert!(why.contains(missing) && why.contains(SAYS), "{missing}:\n{why}");
    // An Api whose Upstream is refused says so; nothing else is wrong.
    let wrong = |it: &&str| it.contains("error[") && !it.contains("error[not-built]") && !it.contains("error[broken-reference]");
    assert_eq!(why.lines().find(wrong), None, "{missing}:\n{why}");
}

#[tokio::test]
async fn targets() {
    for (proxy, missing) in [
        ("{grpc: {upstream: u, http_rules: true, descriptors: {reflection: true}}}", "server reflection"),
        ("{grpc: {upstream: u, method: a.B/C, codec: proto, descriptors: {reflection: true}}}", "server reflection"),
        ("{custom: {upstream: u, codec: b.lua}}", "`custom`"),
        ("{custom: {upstream: u, codec: a.lua}}", "`custom`"),
        ("{push: {transports: websocket}}", "`push`"),
        ("{pipeline: {stages: [{a: {http: {upstream: u}}}], merge: {lua: a.lua}}}", "a script that merges"),
        ("{pipeline: {stages: [{a: {custom: {upstream: u, codec: a.lua}}}]}}", "`custom`"),
    ] {
        check("", "", proxy, missing).await;
    }
}

#[tokio::test]
async fn what_stands_beside_a_call() {
    for (beside, missing) in [("before: {lua: a.lua}", "a script before a call"), ("after: {lua: a.lua}", "a script after a call")] {
        check("", "", &format!("{{http: {{upstream: u}}, {beside}}}"), missing).await;
    }
}

#[tokio::test]
async fn parts_of_an_api() {
    for (api, missing) in [("messages: {rate: 20/s}", "limits of messages"), ("on_change: close", "on_change")] {
        check("", api, "{http: {upstream: u}}", missing).await;
    }
}

#[tokio::test]
async fn parts_of_an_upstream() {
    for (upstream, missing) in [
        ("discovery: {etcd: {prefix: /a}}", "discovery by etcd"),
        ("discovery: {nacos: {service: a}}", "discovery by nacos"),
        ("discovery: {polaris: {service: a}}", "discovery by polaris"),
        ("discovery: {consul: {service: a}}", "discovery by consul"),
        ("discovery: {kubernetes: {service: a}}", "discovery by kubernetes"),
        ("protocol: auto", "the protocol auto"),
    ] {
        check(upstream, "", "{http: {upstream: u}}", missing).await;
    }
}

#[tokio::test]
async fn plugins() {
    for name in [
        "any-auth",
        "app-signature",
        "cache",
        "canary",
        "compress",
        "csrf",
        "dead-letter",
        "forward-auth",
        "idempotency",
        "mirror",
        "pace",
        "token-inject",
        "upload-guard",
        "waf",
    ] {
        check("", &format!("plugins: [{{{name}: {{}}}}]"), "{http: {upstream: u}}", &format!("the plugin `{name}`")).await;
    }
}
