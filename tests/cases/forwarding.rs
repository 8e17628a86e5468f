//! What the gateway changes on the way to a backend, and nothing else: hop-by-hop headers, who asked, `send`.
use tests::{
    backend::{Backend, Received},
    behaviour::Behaviour,
    harness::{Gateway, echo_api, fill},
    message::latin1,
    wire::request,
};

async fn gateway(more: &str) -> (Gateway, Backend) {
    let backend = Backend::echo().await;
    (Gateway::serving(&echo_api(backend.address, "/{all...}", more)).await, backend)
}

async fn sent(more: &str, start: &str, headers: &[&str], body: &str) -> Received {
    let (gateway, backend) = gateway(more).await;
    gateway.ask(start, headers, body).await.is(200);
    backend.last()
}

#[tokio::test]
async fn hop_by_hop_headers_stay_on_their_hop() {
    let headers = [
        "connection: keep-alive, X-Secret-Hop, close",
        "x-secret-hop: 1",
        "keep-alive: timeout=5",
        "proxy-connection: keep-alive",
        "te: gzip",
        "proxy-authorization: Basic eA==",
        "x-kept: 1",
    ];
    let head = sent("", "GET /a", &headers, "").await.head;
    for gone in ["x-secret-hop", "keep-alive", "proxy-connection", "te", "upgrade"] {
        assert_eq!(head.all(gone), Vec::<&str>::new(), "{gone}");
    }
    assert_eq!(head.get("x-kept"), Some("1"));
    assert!(head.all("connection").iter().all(|it| !it.to_lowercase().contains("x-secret-hop")));
}

#[tokio::test]
async fn hop_by_hop_headers_of_an_answer_stay_too() {
    let headers = ["connection: X-Hop", "x-hop: 1", "keep-alive: timeout=5", "proxy-authenticate: Basic", "x-kept: 1"];
    let backend = Backend::start(Behaviour::answers("200 OK", &headers, "x")).await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    let answer = gateway.get("/a").await.is(200);
    assert_eq!((answer.header("x-hop"), answer.header("keep-alive"), answer.header("x-kept")), (None, None, Some("1")));
}

#[tokio::test]
async fn a_connection_header_cannot_take_away_what_the_gateway_sets() {
    let headers = ["connection: x-forwarded-for, forwarded, x-request-id, host, content-length", "content-type: text/plain"];
    let received = sent("", "POST /a", &headers, "body").await;
    assert_eq!(received.head.get("x-forwarded-for"), Some("127.0.0.1"));
    assert!(received.head.get("x-request-id").is_some() && received.head.get("host").is_some());
    assert_eq!(received.content.bytes, b"body");
}

#[tokio::test]
async fn te_trailers_passes_as_the_hop_s_own() {
    let head = sent("", "GET /a", &["connection: te", "te: trailers"], "").await.head;
    assert_eq!((head.all("te"), head.all("connection")), (vec!["trailers"], vec!["te"]));
    let head = sent("", "GET /a", &["connection: te", "te: gzip"], "").await.head;
    assert_eq!(head.all("te"), Vec::<&str>::new());
}

#[tokio::test]
async fn what_a_stranger_says_of_itself_is_replaced() {
    let headers = [
        "host: shop.example.com",
        "x-forwarded-for: 1.2.3.4",
        "x-forwarded-proto: https",
        "x-forwarded-host: evil.example.com",
        "forwarded: for=1.2.3.4;host=evil",
    ];
    let head = sent("", "GET /a", &headers, "").await.head;
    assert_eq!(head.get("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(head.get("x-forwarded-proto"), Some("http"));
    assert_eq!(head.get("x-forwarded-host"), Some("shop.example.com"));
    let forwarded = head.get("forwarded").expect("Forwarded").to_lowercase();
    assert!(forwarded.contains("for=127.0.0.1") && forwarded.contains("proto=http") && !forwarded.contains("1.2.3.4"), "{forwarded}");
}

#[tokio::test]
async fn what_a_trusted_proxy_says_is_appended_to() {
    let backend = Backend::echo().await;
    let more = "proxy: {http: {upstream: echo}, send: {query: {ip: \"${request.client_ip}\", scheme: \"${request.scheme}\"}}}";
    let gateway =
        Gateway::with(&echo_api(backend.address, "/a", more)).settings("trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]").start().await;
    let headers = ["x-forwarded-for: 9.9.9.9, 1.2.3.4, 10.1.1.1", "x-forwarded-proto: https"];
    gateway.ask("GET /a", &headers, "").await.is(200);
    let head = backend.last().head;
    assert_eq!(head.all("x-forwarded-for").join(", "), "9.9.9.9, 1.2.3.4, 10.1.1.1, 127.0.0.1");
    assert_eq!(head.target(), "/a?ip=1.2.3.4&scheme=https", "the first that no trusted proxy vouches for");
}

#[tokio::test]
async fn ids_are_made_anew_unless_they_are_kept() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (keep, settings) in [(false, ""), (true, "keep_ids: true")] {
        let backend = Backend::echo().await;
        let gateway = Gateway::with(&echo_api(backend.address, "/a", "")).settings(settings).start().await;
        let answer = gateway.ask("GET /a", &["x-request-id: mine-1", &format!("traceparent: {parent}")], "").await.is(200);
        let head = backend.last().head;
        let (id, trace) = (head.get("x-request-id").expect("an id"), head.get("traceparent").expect("a trace"));
        assert_eq!(answer.header("x-request-id"), Some(id), "the same on the answer");
        assert_eq!(id == "mine-1", keep);
        assert_eq!(trace.contains("0af7651916cd43dd8448eb211c80319c"), keep, "{trace}");
        assert!(trace.len() == 55 && trace.starts_with("00-"), "{trace}");
    }
}

#[tokio::test]
async fn an_id_that_is_too_long_or_not_visible_is_never_kept() {
    let backend = Backend::echo().await;
    let gateway = Gateway::with(&echo_api(backend.address, "/a", "")).settings("keep_ids: true").start().await;
    for id in ["x".repeat(129), "a b".into(), "\u{e9}".into(), String::new()] {
        gateway.ask("GET /a", &[&format!("x-request-id: {id}")], "").await.is(200);
        assert_ne!(backend.last().head.get("x-request-id"), Some(id.as_str()));
    }
}

#[tokio::test]
async fn two_requests_have_two_ids() {
    let (gateway, backend) = gateway("").await;
    gateway.get("/a").await;
    gateway.get("/a").await;
    let seen = backend.seen();
    assert_ne!(seen[0].head.get("x-request-id"), seen[1].head.get("x-request-id"));
}

#[tokio::test]
async fn the_host_is_as_received_or_as_the_definition_says() {
    for (host, expected) in
        [("", "shop.example.com"), (", host: received", "shop.example.com"), (", host: orders.internal", "orders.internal")]
    {
        let received = sent(&format!("proxy: {{http: {{upstream: echo{host}}}}}"), "GET /a", &["host: shop.example.com"], "").await;
        assert_eq!(received.head.get("host"), Some(expected), "{host}");
    }
    let (backend, host) = (Backend::echo().await, "host: shop.example.com");
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "proxy: {http: {upstream: echo, host: node}}")).await;
    gateway.ask("GET /a", &[host], "").await.is(200);
    assert_eq!(backend.last().head.get("host"), Some(backend.address.to_string().as_str()));
}

#[tokio::test]
async fn a_url_is_an_upstream_of_one_host_whose_path_is_prefixed() {
    let backend = Backend::echo().await;
    let text = "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: \"/a/{x}\"}\nproxy: {http: {upstream: \"http://$1/base\"}}\n";
    let gateway = Gateway::serving(&fill(text, &[&backend.address])).await;
    gateway.ask("GET /a/1?q", &["host: shop.example.com"], "").await.is(200);
    let head = backend.last().head;
    assert_eq!((head.target(), head.get("host")), ("/base/a/1?q", Some(backend.address.to_string().as_str())));
}

#[tokio::test]
async fn method_and_path_are_as_received_or_as_the_definition_says() {
    let more = "inbound: {match: \"/c/{id}\", params: {id: {in: path, type: string}}}\nproxy: {http: {upstream: echo, method: PUT, path: \"/internal/${params.id}/x\"}}";
    for (target, expected) in [
        ("/c/7?q=%zz", "PUT /internal/7/x?q=%zz HTTP/1.1"),
        ("/c/a%2Fb", "PUT /internal/a%2Fb/x HTTP/1.1"),
        ("/c/a%20%3F%25", "PUT /internal/a%20%3F%25/x HTTP/1.1"),
    ] {
        assert_eq!(sent(more, &format!("GET {target}"), &[], "").await.head.line, expected);
    }
}

#[tokio::test]
async fn a_path_that_turns_into_dots_is_refused() {
    let (gateway, backend) = gateway("inbound: {match: /a}\nproxy: {http: {upstream: echo, path: \"/x/${query.p}/y\"}}").await;
    gateway.get("/a?p=..").await.is(400);
    gateway.get("/a?p=%2e%2e").await.is(400);
    // A backend that decodes %2F would see dot segments here too.
    gateway.get("/a?p=..%2f..").await.is(400);
    gateway.get("/a?p=a%2fb").await.is(200);
    assert_eq!(backend.last().head.target(), "/x/a%2Fb/y?p=a%2fb");
}

#[tokio::test]
async fn send_adds_or_replaces_what_it_names_and_keeps_the_others() {
    let more = r#"
proxy:
  http: {upstream: echo}
  send:
    query: {page: "${query.p}", tags: "${['a', 'b c']}", gone: "${query.absent}"}
    headers: {x-operator: "op ${query.p}", x-absent: "${query.absent}"}
    cookies: {srv: "a;b"}
"#;
    let headers = ["x-operator: client", "X_Operator: client", "x-absent: client", "x-kept: 1", "cookie: a=1; srv=client; b=2"];
    let head = sent(more, "GET /a?x=%zz&page=9&p=7&gone=1&tags=z&y", &headers, "").await.head;
    let query = head.target().split_once('?').expect("a query").1;
    let parts: Vec<&str> = query.split('&').collect();
    for kept in ["x=%zz", "p=7", "y", "page=7", "tags=a"] {
        assert!(parts.contains(&kept), "{kept} in {query}");
    }
    assert!(query.contains("tags=b%20c") || query.contains("tags=b+c"), "{query}");
    assert!(!query.contains("gone") && !query.contains("page=9") && !query.contains("tags=z"), "{query}");
    assert_eq!((head.get("x-operator"), head.get("x-absent"), head.get("x-kept")), (Some("op 7"), None, Some("1")));
    assert_eq!(head.all("x_operator"), Vec::<&str>::new(), "the client's, in another spelling");
    let cookie = head.get("cookie").expect("cookies");
    assert!(cookie.contains("a=1") && cookie.contains("b=2") && cookie.contains("srv=a%3Bb") && !cookie.contains("client"), "{cookie}");
}

#[tokio::test]
async fn send_only_sends_nothing_unnamed() {
    let more = "proxy: {http: {upstream: echo}, send: {only: true, query: {a: \"1\"}, headers: {x-a: \"1\"}}}";
    let head =
        sent(more, "GET /a?secret=1", &["authorization: Bearer x", "cookie: a=1", "accept: text/html", "user-agent: x"], "").await.head;
    assert_eq!(head.target(), "/a?a=1");
    for gone in ["authorization", "cookie", "user-agent"] {
        assert_eq!(head.get(gone), None, "{gone}");
    }
    for stays in ["host", "accept", "x-request-id", "traceparent", "x-forwarded-for", "x-a"] {
        assert!(head.get(stays).is_some(), "{stays}");
    }
}

#[tokio::test]
async fn send_body_replaces_the_body() {
    let cases = [
        (
            "body: {id: \"${query.id}\", n: 1, list: [a, \"${query.none}\"], text: \"<${query.id}>\"}",
            "application/json",
            r#"{"id":"7\"","n":1,"list":["a",null],"text":"<7\">"}"#,
        ),
        ("body: {raw: \"id=${query.id}\", type: text/plain}", "text/plain", "id=7\""),
        ("form: {id: \"${query.id}\", gone: \"${query.none}\", s: a b}", "application/x-www-form-urlencoded", "id=7%22&s=a+b"),
    ];
    for (send, kind, expected) in cases {
        let received =
            sent(&format!("proxy: {{http: {{upstream: echo}}, send: {{{send}}}}}"), "POST /a?id=7%22", &["content-type: text/csv"], "old")
                .await;
        assert_eq!(latin1(&received.content.bytes), expected);
        assert!(received.head.get("content-type").is_some_and(|it| it.starts_with(kind)), "{kind}");
    }
}

#[tokio::test]
async fn a_path_into_the_body_keeps_its_very_bytes() {
    let more = "proxy: {http: {upstream: echo}, send: {body: {order: \"${body.order}\", id: \"${body.order.id}\"}}}";
    let order = r#"{"id": 12345678901234567890.10e+2, "z": [], "a": null, "s": "\u00e9\/"}"#;
    let received = sent(more, "POST /a", &["content-type: application/json"], &format!("{{\"order\":{order},\"rest\":1}}")).await;
    assert_eq!(latin1(&received.content.bytes), format!(r#"{{"order":{order},"id":12345678901234567890.10e+2}}"#));
}

#[tokio::test]
async fn a_line_break_never_gets_into_a_header() {
    let (gateway, backend) = gateway("proxy: {http: {upstream: echo}, send: {headers: {x-a: \"${query.v}\"}}}").await;
    for value in ["a%0d%0ax-evil:%201", "a%0Ab", "%00"] {
        gateway.get(&format!("/a?v={value}")).await.is(400);
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_redirect_of_the_backend_is_passed_on() {
    let backend = Backend::start(Behaviour::answers("302 Found", &["location: http://other.example.com/x"], "")).await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    assert_eq!(gateway.get("/a").await.is(302).header("location"), Some("http://other.example.com/x"));
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn connections_to_a_backend_are_kept_and_an_idle_one_that_died_costs_no_request() {
    let backend = Backend::start(Behaviour::ClosesIdle).await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    let mut wire = gateway.wire().await;
    for _ in 0..4 {
        wire.send(request("GET /a", &[], "")).await;
        let answer = wire.answer().await;
        assert!(matches!(answer.status, 200 | 502), "{}", answer.status);
    }
    let (gateway, backend) = self::gateway("").await;
    for _ in 0..5 {
        gateway.get("/a").await.is(200);
    }
    assert_eq!(backend.connections(), 1);
}
