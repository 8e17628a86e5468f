//! The answers that the gateway makes itself: JSON or problem+json, with an id, and nothing of the inside.
use tests::harness::Gateway;

const API: &str = "kind: Api
info: {name: a, version: v1}
inbound: {match: GET /a}
proxy: {respond: {status: 200, body: {ok: true}}}
";

#[tokio::test]
async fn an_error_is_json_with_its_code_message_and_id() {
    let gateway = Gateway::serving(API).await;
    for (start, status) in [("GET /none", 404), ("POST /a", 405), ("GET /a/../b", 400)] {
        let answer = gateway.ask(start, &[], "").await.is(status);
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
        let body = answer.json();
        assert_eq!(body["code"], status);
        assert!(body["message"].as_str().is_some_and(|it| !it.is_empty()));
        assert_eq!(body["request_id"].as_str(), answer.header("x-request-id"));
    }
}

#[tokio::test]
async fn problem_json_comes_to_those_who_accept_it() {
    let gateway = Gateway::serving(API).await;
    for (accept, problem) in [
        ("application/problem+json", true),
        ("text/html, application/problem+json;q=0.5", true),
        ("APPLICATION/PROBLEM+JSON", true),
        ("application/problem+json;q=0", false),
        ("application/json", false),
        ("*/*", false),
    ] {
        let answer = gateway.ask("GET /none", &[&format!("accept: {accept}")], "").await.is(404);
        let (kind, body) = (answer.header("content-type").expect("a type"), answer.json());
        assert_eq!(kind.starts_with("application/problem+json"), problem, "{accept}: {kind}");
        if problem {
            assert_eq!(body["status"], 404);
            assert!(body["title"].is_string() && body["type"].is_string(), "{body}");
        } else {
            assert_eq!(body["code"], 404);
        }
    }
}

#[tokio::test]
async fn every_answer_has_an_id_of_its_own() {
    let gateway = Gateway::serving(API).await;
    let mut ids = std::collections::HashSet::new();
    for target in ["/a", "/a", "/none", "/none"] {
        assert!(ids.insert(gateway.get(target).await.header("x-request-id").expect("an id").to_string()), "{target}");
    }
}

#[tokio::test]
async fn an_error_to_head_has_no_body() {
    let answer = Gateway::serving(API).await.ask("HEAD /none", &[], "").await.is(404);
    assert!(answer.body.is_empty());
}

#[tokio::test]
async fn an_error_leaves_the_connection_in_order() {
    let gateway = Gateway::serving(API).await;
    let mut wire = gateway.wire().await;
    for (start, status) in [("GET /none", 404), ("POST /a", 405), ("GET /a", 200)] {
        wire.send(tests::wire::request(start, &[], if start.starts_with("POST") { "body" } else { "" })).await;
        wire.answer().await.is(status);
    }
}
