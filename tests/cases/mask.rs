//! Personal data does not leave: masked in answers of every kind, and never at the cost of others.
use std::time::{Duration, Instant};

use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    harness::{Gateway, echo_api},
};

const RING: &str = "plugins:\n  - desensitize: {rules: [{at: \"**.phone\", as: phone}]}\n";

async fn answering(head: &'static [&'static str], body: &'static str) -> (Gateway, Backend) {
    let backend = Backend::start(Behaviour::answers("200 OK", head, body)).await;
    (Gateway::serving(&echo_api(backend.address, "/a", RING)).await, backend)
}

#[tokio::test]
async fn a_backend_s_answer_is_masked_and_nothing_else_of_it_changes() {
    let body = "{ \"phone\":\"13812345678\", \"n\":12345678901234567890.0 }";
    let (gateway, _backend) = answering(&["content-type: application/json", "etag: \"x\""], body).await;
    let answer = gateway.ask("GET /a", &[], "").await.is(200);
    assert_eq!(answer.text(), body.replace("13812345678", "138****5678"));
    assert_eq!(answer.header("etag"), None);
}

#[tokio::test]
async fn what_cannot_be_read_is_kept_back_and_says_nothing_of_itself() {
    let (gateway, _backend) = answering(&["content-type: text/html"], "<p>13812345678</p>").await;
    let answer = gateway.ask("GET /a", &[], "").await.is(502);
    assert!(!answer.text().contains("1381"), "{}", answer.text());
}

#[tokio::test]
async fn events_are_masked_as_they_pass() {
    let backend = Backend::start(Behaviour::Script(vec![
        Step::Read,
        Step::send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"phone\":\"138123"),
        Step::send("45678\"}\n\ndata: {\"phone\":\"13900001111\"}\n\n"),
    ]))
    .await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", RING)).await;
    let text = gateway.ask("GET /a", &["accept: text/event-stream"], "").await.is(200).text();
    assert_eq!(text, "data: {\"phone\":\"138****5678\"}\n\ndata: {\"phone\":\"139****1111\"}\n\n");
}

#[tokio::test]
async fn a_large_answer_is_masked_while_other_requests_go_on() {
    let item = "{\"phone\":\"13812345678\",\"text\":\"some words that stay as they are\"}";
    let body: &'static str = Box::leak(format!("[{}{item}]", format!("{item},").repeat(60_000)).into_boxed_str());
    let backend = Backend::start(Behaviour::answers("200 OK", &["content-type: application/json"], body)).await;
    let definitions = echo_api(backend.address, "/a", RING)
        + "---\nkind: Api\ninfo: {name: other}\ninbound: {match: /other}\nproxy: {respond: {status: 204}}\n";
    let gateway = Gateway::serving(&definitions).await;
    let large = gateway.ask("GET /a", &[], "");
    let others = async {
        let mut longest = Duration::ZERO;
        for _ in 0..200 {
            let asked = Instant::now();
            gateway.get("/other").await.is(204);
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let (answer, longest) = tokio::join!(large, others);
    let text = answer.is(200).text();
    assert!(!text.contains("13812345678") && text.matches("138****5678").count() == 60_001);
    // One worker; in line, the masking alone would take far longer than this in a build for tests.
    assert!(longest < Duration::from_millis(400), "another request took {longest:?}");
}
