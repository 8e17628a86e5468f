//! Rings around a request: their order, presets, conditions, and the first plugins.
use tests::{
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, echo_api, fill},
};

/// The order in which rings touched a header shows the order of the rings.
#[tokio::test]
async fn the_first_ring_of_the_list_is_the_outermost() {
    let backend = Backend::echo().await;
    let more = "plugins:
  - headers: {request: {add: {x-in: one}}, response: {add: {x-out: one}}}
  - headers: {request: {add: {x-in: two}}, response: {add: {x-out: two}}}";
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", more)).await;
    let answer = gateway.get("/a").await.is(200);
    assert_eq!(backend.last().head.all("x-in"), ["one", "two"]);
    assert_eq!(answer.head.all("x-out"), ["two", "one"], "inside out");
}

const PRESETS: &str = "kind: Preset
name: default
plugins: [{headers: {response: {add: {x-ring: default}}}}]
---
kind: Preset
name: inner
plugins: [{headers: {response: {add: {x-ring: inner}}}}]
---
kind: Preset
name: outer
plugins:
  - headers: {response: {add: {x-ring: outer}}}
  - use: inner
---
kind: Api
info: {name: a, version: v1}
inbound: {match: /a}
plugins:
  - use: outer
  - headers: {response: {add: {x-ring: own}}}
proxy: {respond: {status: 204}}
---
kind: Api
info: {name: b, version: v1}
defaults: false
inbound: {match: /b}
plugins:
  - use: inner
proxy: {respond: {status: 204}}
";

#[tokio::test]
async fn a_preset_is_expanded_in_place_and_default_stands_outside() {
    let gateway = Gateway::serving(PRESETS).await;
    assert_eq!(gateway.get("/a").await.is(204).head.all("x-ring"), ["own", "inner", "outer", "default"]);
    assert_eq!(gateway.get("/b").await.is(204).head.all("x-ring"), ["inner"]);
}

#[tokio::test]
async fn unmatched_wraps_404_and_405() {
    let text = "kind: Preset
name: unmatched
plugins: [{cors: {origins: [\"https://app.example.com\"]}}, {headers: {response: {set: {x-unmatched: \"1\"}}}}]
---
kind: Api
info: {name: a, version: v1}
inbound: {match: GET /a}
proxy: {respond: {status: 204}}
";
    let gateway = Gateway::serving(text).await;
    for (start, status) in [("GET /nowhere", 404), ("POST /a", 405)] {
        let answer = gateway.ask(start, &["origin: https://app.example.com"], "").await.is(status);
        assert_eq!(
            (answer.header("access-control-allow-origin"), answer.header("x-unmatched")),
            (Some("https://app.example.com"), Some("1"))
        );
        assert_eq!(answer.json()["code"], status);
    }
    assert_eq!(gateway.get("/a").await.is(204).header("x-unmatched"), None);
}

#[tokio::test]
async fn a_condition_is_decided_once_on_the_way_in() {
    let more = "plugins:
  - headers: {response: {add: {x-ring: get}}}
    when: \"request.method == 'GET'\"
  - headers: {response: {add: {x-ring: flag}}}
    when: \"headers['x-flag'] == 'on'\"
  - headers: {request: {set: {x-flag: on}}}
  - headers: {response: {add: {x-ring: nothing}}}
    when: \"vars.none.deeper\"";
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", more)).await;
    assert_eq!(gateway.get("/a").await.is(200).head.all("x-ring"), ["get"], "the flag came after the decision; null is not true");
    assert_eq!(gateway.ask("POST /a", &["x-flag: on"], "").await.is(200).head.all("x-ring"), ["flag"]);
}

#[tokio::test]
async fn headers_sets_adds_and_removes_on_both_ways() {
    let backend = Backend::start(Behaviour::answers("200 OK", &["x-a: backend", "x-b: backend", "x-c: backend"], "")).await;
    let more = "plugins:
  - headers:
      request: {set: {x-a: \"is ${request.method}\"}, add: {x-b: more}, remove: [x-c]}
      response: {set: {x-a: gateway}, add: {x-b: more}, remove: [x-c]}";
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", more)).await;
    let answer = gateway.ask("GET /a", &["x-a: 1", "x-a: 2", "X_A: 3", "x-b: 1", "x-c: 1"], "").await.is(200);
    let head = backend.last().head;
    assert_eq!((head.all("x-a"), head.all("x_a"), head.all("x-c")), (vec!["is GET"], vec![], vec![]));
    assert_eq!(
        (answer.head.all("x-a"), answer.head.all("x-b"), answer.head.all("x-c")),
        (vec!["gateway"], vec!["backend", "more"], vec![])
    );
}

const CORS: &str = "plugins:
  - cors: {origins: [\"https://app.example.com\", \"https://*.shop.example.com\"], methods: [GET, PUT], headers: [content-type, x-token], expose: [x-total], credentials: true, max_age: 10m}
  - ip-acl: {deny: [127.0.0.0/8]}
    when: \"headers['x-stranger'] == 'yes'\"";

#[tokio::test]
async fn a_preflight_is_answered_before_anything_inside() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "GET,PUT /a", CORS)).await;
    let headers = [
        "origin: https://eu.shop.example.com",
        "access-control-request-method: PUT",
        "access-control-request-headers: x-token",
        "x-stranger: yes",
    ];
    let answer = gateway.ask("OPTIONS /a", &headers, "").await.is(204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://eu.shop.example.com"));
    assert_eq!(answer.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(answer.header("access-control-max-age"), Some("600"));
    assert!(answer.header("access-control-allow-methods").is_some_and(|it| it.contains("PUT")));
    assert!(answer.header("access-control-allow-headers").is_some_and(|it| it.to_lowercase().contains("x-token")));
    assert!(answer.head.all("vary").iter().any(|it| it.to_lowercase().contains("origin")));
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_preflight_of_a_strange_origin_gets_no_leave() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "GET,PUT /a", CORS)).await;
    for origin in
        ["https://evil.example.com", "http://app.example.com", "https://app.example.com.evil.test", "https://shop.example.com", "null"]
    {
        let answer = gateway.ask("OPTIONS /a", &[&format!("origin: {origin}"), "access-control-request-method: PUT"], "").await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_cross_origin_answer_is_marked_even_when_a_ring_refuses() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "GET,PUT /a", CORS)).await;
    for (headers, status) in
        [(&["origin: https://app.example.com"][..], 200), (&["origin: https://app.example.com", "x-stranger: yes"], 403)]
    {
        let answer = gateway.ask("GET /a", headers, "").await.is(status);
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
        assert_eq!(answer.header("access-control-expose-headers").map(str::to_lowercase).as_deref(), Some("x-total"));
    }
}

#[tokio::test]
async fn options_that_is_no_preflight_is_an_ordinary_request() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "GET /a", CORS)).await;
    gateway.ask("OPTIONS /a", &["origin: https://app.example.com"], "").await.is(405);
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    gateway.ask("OPTIONS /a", &["origin: https://app.example.com", "access-control-request-method: PUT"], "").await.is(200);
    assert_eq!(backend.last().head.method(), "OPTIONS", "without cors a preflight is the backend's matter");
}

#[tokio::test]
async fn ip_acl_lets_in_and_keeps_out() {
    for (config, client, status) in [
        ("{allow: [127.0.0.0/8]}", "", 200),
        ("{allow: [10.0.0.0/8]}", "", 403),
        ("{deny: [127.0.0.1]}", "", 403),
        ("{allow: [127.0.0.0/8], deny: [127.0.0.1]}", "", 403),
        ("{allow: [192.0.2.0/24]}", "192.0.2.9", 200),
        ("{deny: [\"2001:db8::/32\"]}", "2001:db8::1", 403),
    ] {
        let backend = Backend::echo().await;
        let definitions = echo_api(backend.address, "/a", &format!("plugins: [{{ip-acl: {config}}}]"));
        let gateway = Gateway::with(&definitions).settings("trusted_proxies: [127.0.0.0/8]").start().await;
        let forwarded = format!("x-forwarded-for: {client}");
        let headers: &[&str] = if client.is_empty() { &[] } else { &[&forwarded] };
        let answer = gateway.ask("GET /a", headers, "").await.is(status);
        assert_eq!(backend.seen().len(), usize::from(status == 200), "{config} {}", answer.text());
    }
}

#[tokio::test]
async fn fallback_answers_where_a_condition_holds() {
    let nobody = Backend::nobody().await;
    for (conditions, expected) in [("[connect]", 200), ("[\"502\"]", 200), ("[timeout]", 502), ("[\"503\"]", 502)] {
        let more = format!(
            "plugins: [{{fallback: {{conditions: {conditions}, respond: {{status: 200, headers: {{x-fallback: \"1\"}}, body: {{items: []}}}}}}}}]"
        );
        let answer = Gateway::serving(&echo_api(nobody, "/a", &more)).await.get("/a").await.is(expected);
        match expected {
            200 => assert_eq!((answer.text().as_str(), answer.header("x-fallback")), (r#"{"items":[]}"#, Some("1"))),
            _ => assert_eq!(answer.json()["code"], 502),
        }
    }
}

#[tokio::test]
async fn fallback_leaves_an_answer_that_is_well() {
    let backend = Backend::start(Behaviour::answers("404 Not Found", &[], "none")).await;
    let more = "plugins: [{fallback: {conditions: [connect, timeout, 5xx], respond: {body: {}}}}]";
    assert_eq!(Gateway::serving(&echo_api(backend.address, "/a", more)).await.get("/a").await.is(404).text(), "none");
}

#[tokio::test]
async fn validation_stands_where_the_list_says() {
    for (plugins, expected) in [
        ("plugins:\n  - fallback: {conditions: [\"400\"], respond: {status: 299}}", 299),
        ("plugins:\n  - validate: {}\n  - fallback: {conditions: [\"400\"], respond: {status: 299}}", 400),
    ] {
        let backend = Backend::echo().await;
        let more = fill("inbound: {match: /a, params: {n: {in: query, type: integer}}}\n$1", &[&plugins]);
        Gateway::serving(&echo_api(backend.address, "", &more)).await.get("/a?n=x").await.is(expected);
        assert_eq!(backend.seen().len(), 0);
    }
}

/// Presets of which each names the next so many times; the last one holds `ring`.
fn nested(depth: usize, times: usize, ring: &str) -> String {
    let uses = |it: usize| vec![format!("{{use: p{it}}}"); times].join(", ");
    let presets = (0..depth).map(|it| format!("kind: Preset\nname: p{it}\nplugins: [{}]\n---\n", uses(it + 1)));
    let last = format!("kind: Preset\nname: p{depth}\nplugins: [{ring}]\n---\n");
    let api = "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nplugins: [{use: p0}]\nproxy: {respond: {status: 200}}\n";
    presets.collect::<String>() + &last + api
}

#[tokio::test]
async fn presets_that_multiply_or_never_end_are_told_and_cost_nothing() {
    let ring = "{headers: {request: {set: {x: y}}}}";
    for (depth, times, ring, told) in [
        (5, 1, ring, None),
        (12, 10, ring, Some("rings; one Api has at most 64")),
        (12, 10, "", Some("Presets")),
        (5000, 1, ring, Some("more than 32 Presets")),
    ] {
        let started = Gateway::with(&nested(depth, times, ring)).try_start().await;
        match told {
            None => drop(started.unwrap_or_else(|why| panic!("{why}")).get("/a").await.is(200)),
            Some(told) => {
                let why = started.err().expect("these are refused");
                assert!(why.contains(told) && why.len() < 5000, "{depth} {times}: {}", &why[..why.len().min(500)]);
            }
        }
    }
}
