//! Which Api a request reaches: hosts, paths, methods, conditions, order.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api, fill},
};

/// An Api for a pattern, which answers with that pattern.
fn mirror(n: usize, pattern: &str) -> String {
    let text =
        "kind: Api\ninfo: {name: a$1, version: v1}\ninbound: {match: \"$2\"}\nproxy: {respond: {status: 200, body: {pattern: \"$2\"}}}\n";
    fill(text, &[&n, &pattern])
}

/// Each request with the pattern that must serve it, or with the status where none does.
async fn check(patterns: &[&str], requests: &[(&str, &str, Result<&str, u16>)]) {
    let documents: Vec<String> = patterns.iter().enumerate().map(|(n, it)| mirror(n, it)).collect();
    let turned: Vec<String> = documents.iter().rev().cloned().collect();
    // The order in which definitions are written never matters.
    for documents in [documents, turned] {
        let gateway = Gateway::serving(&documents.join("---\n")).await;
        for (start, host, expected) in requests {
            let answer = gateway.ask(start, &[&format!("host: {host}")], "").await;
            let body = answer.text();
            match expected {
                Ok(pattern) => {
                    assert_eq!((answer.status, &answer.json()["pattern"]), (200, &(*pattern).into()), "{start} at {host}: {body}")
                }
                Err(status) => assert_eq!(answer.status, *status, "{start} at {host}: {body}"),
            }
        }
    }
}

#[tokio::test]
async fn a_host_is_compared_before_the_path() {
    let (exact, long, short, none) = ("api.example.com/{any...}", "*.example.com/{any...}", "*.com/{any...}", "/a/b");
    check(
        &[exact, long, short, none],
        &[
            ("GET /a/b", "api.example.com", Ok(exact)),
            ("GET /a/b", "API.Example.COM", Ok(exact)),
            ("GET /a/b", "api.example.com:8443", Ok(exact)),
            ("GET /a/b", "x.example.com", Ok(long)),
            ("GET /a/b", "y.x.example.com", Ok(long)),
            ("GET /a/b", "example.com", Ok(short)),
            ("GET /a/b", "com", Ok(none)),
            ("GET /a/b", "notexample.org", Ok(none)),
            ("GET /a/c", "notexample.org", Err(404)),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_host_that_lacks_the_path_leaves_it_to_the_next() {
    let (host, wild, none) = ("api.example.com/a", "*.example.com/b", "/c");
    check(
        &[host, wild, none],
        &[
            ("GET /a", "api.example.com", Ok(host)),
            ("GET /b", "api.example.com", Ok(wild)),
            ("GET /c", "api.example.com", Ok(none)),
            ("GET /a", "other.example.com", Err(404)),
        ],
    )
    .await;
}

#[tokio::test]
async fn segments_are_compared_from_the_left_literal_before_capture_before_rest() {
    let patterns = ["/a/b/c", "/a/{x}/c", "/a/{x}/{y}", "/a/{x...}", "/{x}/b/c", "/{x...}", "/"];
    check(
        &patterns,
        &[
            ("GET /a/b/c", "h", Ok("/a/b/c")),
            ("GET /a/z/c", "h", Ok("/a/{x}/c")),
            ("GET /a/b/z", "h", Ok("/a/{x}/{y}")),
            ("GET /a/b", "h", Ok("/a/{x...}")),
            ("GET /a/b/c/d", "h", Ok("/a/{x...}")),
            ("GET /z/b/c", "h", Ok("/{x}/b/c")),
            ("GET /z", "h", Ok("/{x...}")),
            ("GET /", "h", Ok("/")),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_literal_that_leads_nowhere_gives_way_to_a_capture() {
    check(&["/a/b/c", "/{x}/b/d"], &[("GET /a/b/d", "h", Ok("/{x}/b/d")), ("GET /a/b/e", "h", Err(404))]).await;
}

#[tokio::test]
async fn paths_are_strict() {
    check(
        &["/a", "/b/", "/c/{x}", "/d/{x...}"],
        &[
            ("GET /a/", "h", Err(404)),
            ("GET /A", "h", Err(404)),
            ("GET /b", "h", Err(404)),
            ("GET /b/", "h", Ok("/b/")),
            ("GET /c/", "h", Err(404)),
            ("GET /c/x/", "h", Err(404)),
            ("GET /d", "h", Err(404)),
            ("GET /d/", "h", Err(404)),
            ("GET /d/x", "h", Ok("/d/{x...}")),
            ("GET /", "h", Err(404)),
            ("GET //a", "h", Err(404)),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_method_given_stands_before_any() {
    let patterns = ["/a", "GET /a", "PUT,DELETE /b", "GET /c"];
    check(
        &patterns,
        &[
            ("GET /a", "h", Ok("GET /a")),
            ("POST /a", "h", Ok("/a")),
            ("DELETE /b", "h", Ok("PUT,DELETE /b")),
            ("GET /b", "h", Err(405)),
            ("PATCH /c", "h", Err(405)),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let gateway = Gateway::serving(&[mirror(1, "GET /a"), mirror(2, "PUT,DELETE /a")].join("---\n")).await;
    for method in ["POST", "OPTIONS", "PROPFIND"] {
        let answer = gateway.ask(&format!("{method} /a"), &[], "").await.is(405);
        let mut allowed: Vec<&str> = answer.header("allow").expect("Allow").split(',').map(str::trim).collect();
        allowed.sort_unstable();
        assert_eq!(allowed, ["DELETE", "GET", "HEAD", "PUT"], "{method}");
    }
}

#[tokio::test]
async fn trace_reaches_a_backend_only_where_a_pattern_names_it() {
    let gateway = Gateway::serving(&[mirror(1, "/any"), mirror(2, "TRACE /named")].join("---\n")).await;
    let answer = gateway.ask("TRACE /any", &[], "").await.is(405);
    assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    gateway.ask("TRACE /named", &[], "").await.is(200);
    gateway.ask("PROPFIND /any", &[], "").await.is(200);
}

#[tokio::test]
async fn head_is_served_by_a_get_pattern_where_none_names_it() {
    let both = Gateway::serving(&[mirror(1, "GET /a"), mirror(2, "HEAD /b"), mirror(3, "GET /b")].join("---\n")).await;
    let answer = both.ask("HEAD /a", &[], "").await.is(200);
    assert!(answer.body.is_empty());
    let expected = both.get("/a").await.body.len().to_string();
    assert_eq!(answer.header("content-length"), Some(expected.as_str()), "as GET would say");
    both.ask("HEAD /b", &[], "").await.is(200);
}

#[tokio::test]
async fn an_escaped_slash_never_splits_a_segment() {
    let backend = Backend::echo().await;
    let definitions = echo_api(backend.address, "GET /a/{x}/{rest...}", "");
    let gateway = Gateway::serving(&definitions).await;
    for target in ["/a/x%2Fy/z", "/a/x%2fy/z%2F", "/a/%2F/%2F", "/%61/x/z"] {
        gateway.get(target).await.is(200);
        assert_eq!(backend.last().head.target(), target, "to the byte");
    }
    gateway.get("/a/x%2Fz").await.is(404);
}

#[tokio::test]
async fn a_path_that_could_mean_another_is_refused() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/{all...}", "")).await;
    for target in [
        "/a/../b",
        "/a/..",
        "/..",
        "/.",
        "/a/./b",
        "/a/%2e%2e/b",
        "/a/%2E./b",
        "/a/.%2e",
        "/%2e",
        "/a/%",
        "/a/%4",
        "/a/%zz",
        "/a/%00/b",
        "/a%00",
    ] {
        gateway.get(target).await.is(400);
    }
    assert_eq!(backend.seen().len(), 0, "never passed on");
    for target in ["/a/...", "/a/..b", "/a/.b", "/a/%2e%2e%2e", "/a?x=../..&y=%00%zz"] {
        gateway.get(target).await.is(200);
        assert_eq!(backend.last().head.target(), target);
    }
}

#[tokio::test]
async fn an_api_may_have_several_patterns() {
    let backend = Backend::echo().await;
    let definitions = echo_api(backend.address, "", "inbound: {match: [GET /a, \"POST api.example.com/b/{id}\"]}");
    let gateway = Gateway::serving(&definitions).await;
    gateway.get("/a").await.is(200);
    gateway.ask("POST /b/1", &["host: api.example.com"], "").await.is(200);
    gateway.ask("POST /b/1", &["host: www.example.com"], "").await.is(404);
}

const SHARED: &str = "kind: Api
info: {name: last, version: v1}
inbound: {match: GET /a}
proxy: {respond: {status: 200, body: {at: last}}}
---
kind: Api
info: {name: second, version: v1}
inbound: {match: GET /a, when: \"headers['x-channel'] == 'app' || query.v == '2'\", order: 2}
proxy: {respond: {status: 200, body: {at: second}}}
---
kind: Api
info: {name: first, version: v1}
inbound: {match: GET /a, when: \"cookies.beta == 'yes' && request.host == 'beta.example.com'\", order: 1}
proxy: {respond: {status: 200, body: {at: first}}}
";

#[tokio::test]
async fn apis_that_share_a_pattern_are_asked_in_order_then_the_one_without_condition() {
    let gateway = Gateway::serving(SHARED).await;
    for (target, headers, expected) in [
        ("/a", &["cookie: beta=yes", "host: beta.example.com", "x-channel: app"][..], "first"),
        ("/a", &["cookie: beta=yes", "x-channel: app"], "second"),
        ("/a", &["cookie: beta=no", "host: beta.example.com"], "last"),
        ("/a?v=2", &[], "second"),
        ("/a", &["x-channel: web"], "last"),
        ("/a", &[], "last"),
    ] {
        assert_eq!(gateway.ask(&format!("GET {target}"), headers, "").await.is(200).json()["at"], expected, "{target} {headers:?}");
    }
}

#[tokio::test]
async fn where_no_condition_holds_the_next_pattern_is_asked() {
    let definitions = fill(
        "$1---\nkind: Api\ninfo: {name: app, version: v1}\ninbound: {match: GET /a/b, when: \"headers['x-channel'] == 'app'\"}\nproxy: {respond: {status: 204}}\n",
        &[&mirror(1, "GET /a/{x}")],
    );
    let gateway = Gateway::serving(&definitions).await;
    gateway.ask("GET /a/b", &["x-channel: app"], "").await.is(204);
    gateway.get("/a/b").await.is(200);
}

#[tokio::test]
async fn nothing_matches_is_404() {
    let gateway = Gateway::serving(&mirror(1, "GET /a")).await;
    let answer = gateway.get("/b").await.is(404);
    assert_eq!(answer.json()["code"], 404);
}
