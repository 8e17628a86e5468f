//! What the state of an Api says to its callers.
use tests::harness::{Gateway, fill};

async fn gateway(lifecycle: &str) -> Gateway {
    let text = "kind: Api
info: {name: orders, version: v1, lifecycle: $1}
inbound: {match: GET /v1/orders}
proxy: {respond: {status: 200, body: {ok: true}}}
---
kind: Api
info: {name: orders, version: v2}
inbound: {match: GET /v2/orders}
proxy: {respond: {status: 200, body: {ok: true}}}
";
    Gateway::serving(&fill(text, &[&lifecycle])).await
}

#[tokio::test]
async fn a_draft_is_not_found_and_a_retired_api_is_gone() {
    for (state, status) in [("draft", 404), ("active", 200), ("retired", 410)] {
        let answer = gateway(&format!("{{state: {state}}}")).await.get("/v1/orders").await.is(status);
        assert_eq!(answer.header("deprecation"), None, "{state}");
        if status != 200 {
            assert_eq!(answer.json()["code"], status);
        }
    }
}

#[tokio::test]
async fn a_deprecated_api_says_so_on_every_answer() {
    let gateway = gateway("{state: deprecated, sunset: 2027-04-01, successor: {name: orders, version: v2}}").await;
    let answer = gateway.get("/v1/orders").await.is(200);
    assert!(answer.header("deprecation").is_some());
    assert_eq!(answer.header("sunset"), Some("Thu, 01 Apr 2027 00:00:00 GMT"));
    assert!(answer.header("x-api-deprecated").is_some());
    let link = answer.header("link").expect("Link");
    assert!(link.contains("/v2/orders") && link.contains("successor-version"), "{link}");
    assert_eq!(gateway.get("/v2/orders").await.is(200).header("deprecation"), None);
}

#[tokio::test]
async fn a_retired_api_names_its_successor() {
    let answer = gateway("{state: retired, successor: {name: orders, version: v2}}").await.get("/v1/orders").await.is(410);
    assert!(answer.header("link").is_some_and(|it| it.contains("/v2/orders")), "{:?}", answer.head);
}
