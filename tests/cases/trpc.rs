//! JSON outside, tRPC inside.
use std::time::{Duration, Instant};

use serde_json::json;
use tests::{
    harness::{Gateway, fill},
    trpc::TrpcBackend,
};

const TEXT: &str = "kind: Upstream\nname: crm\nnodes: [{address: $1}]\n---
kind: Api
info: {name: call}
inbound: {match: \"POST /call\", params: {n: {in: query, type: integer}}}
proxy:
  trpc: {upstream: crm, callee: trpc.crm.profile.Profile, func: /trpc.crm.profile.Profile/Get}
  send: {headers: {x-named: \"yes\"}}
  timeout: 1500ms
---
kind: Api
info: {name: user}
inbound: {match: \"GET /call/{user}\", params: {user: {in: path, type: string}, n: {in: query, type: integer}}}
proxy: {trpc: {upstream: crm, callee: trpc.crm.profile.Profile, func: /trpc.crm.profile.Profile/Get}}
---
kind: Api
info: {name: fixed}
inbound: {match: \"GET /fixed\"}
proxy:
  pipeline:
    stages:
      - one: {trpc: {upstream: crm, callee: trpc.crm.profile.Profile, func: /trpc.crm.profile.Profile/Get}, send: {body: {a: 1}}}
";

const JSON: &str = "content-type: application/json";

async fn gateway() -> (Gateway, TrpcBackend) {
    let backend = TrpcBackend::start().await;
    (Gateway::serving(&fill(TEXT, &[&backend.address])).await, backend)
}

fn holds(frame: &[u8], text: &str) -> bool {
    frame.windows(text.len()).any(|it| it == text.as_bytes())
}

#[tokio::test]
async fn a_request_becomes_a_call_and_its_answer_json() {
    let (gateway, backend) = gateway().await;
    let headers = [JSON, "app-tenant: t1", "x-named: forged", "cookie: secret", "trpc-env: forged"];
    let answer = gateway.ask("POST /call?n=7", &headers, r#"{"n":1,"text":"世界","big":9007199254740993}"#).await.is(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.text().contains(r#""big":9007199254740993"#), "{}", answer.text());
    assert_eq!((&answer.json()["got"]["n"], &answer.json()["got"]["text"]), (&json!(7), &json!("世界")));
    assert_eq!((answer.header("app-user"), answer.header("trpc-env")), (Some("u1"), None));
    let frame = backend.last();
    for there in
        ["trpc.crm.profile.Profile", "/trpc.crm.profile.Profile/Get", "trpc.allium.gateway.http", "app-tenant", "t1", "x-named", "yes"]
    {
        assert!(holds(&frame, there), "{there}");
    }
    for gone in ["secret", "forged", "cookie"] {
        assert!(!holds(&frame, gone), "{gone}");
    }
    assert_eq!(gateway.get("/call/ada?n=3").await.is(200).json()["got"], json!({"user": "ada", "n": 3}));
    assert_eq!(gateway.get("/fixed").await.is(200).json()["one"]["got"], json!({"a": 1}));
}

#[tokio::test]
async fn codes_become_http_as_real_servers_tell_them() {
    let (gateway, _backend) = gateway().await;
    for (case, status, ret, func_ret, code, message) in [
        ("biz_error", 200, None, Some("10001"), 10001, "business failure"),
        ("plain_error", 200, None, Some("999"), 999, "plain go error"),
        ("frame_error", 401, Some("41"), None, 41, "auth failed"),
        ("nofunc", 404, Some("12"), None, 12, "service handle: rpc name"),
        ("big_response", 500, Some("2"), None, 2, "frame len is larger than"),
    ] {
        let answer = gateway.ask("POST /call", &[JSON], &json!({"do": case}).to_string()).await.is(status);
        assert_eq!((answer.header("trpc-ret"), answer.header("trpc-func-ret")), (ret, func_ret), "{case}");
        assert_eq!(answer.json()["code"], code, "{case}");
        assert!(answer.json()["message"].as_str().is_some_and(|it| it.starts_with(message)), "{case}: {}", answer.text());
    }
    assert_eq!(gateway.ask("POST /call", &[JSON], r#"{"do":"json"}"#).await.is(200).json()["payload"]["type"], 2);
    assert_eq!(gateway.ask("POST /call", &[JSON], r#"{"do":"snappy"}"#).await.is(200).json()["got"]["do"], "snappy");
    // An answer in another form cannot be told as JSON.
    gateway.ask("POST /call", &[JSON], r#"{"do":"protobuf"}"#).await.is(502);
}

#[tokio::test]
async fn no_call_waits_for_another_and_one_connection_carries_them_all() {
    let (gateway, backend) = gateway().await;
    let slow = gateway.ask("POST /call", &[JSON], r#"{"sleep_ms":1000}"#);
    let started = Instant::now();
    let fast = async {
        for _ in 0..30 {
            gateway.ask("POST /call", &[JSON], "{}").await.is(200);
        }
        started.elapsed()
    };
    let (slow, fast) = tokio::join!(slow, fast);
    slow.is(200);
    assert!(fast < Duration::from_millis(900), "{fast:?}");
    gateway.ask("POST /call", &[JSON], r#"{"do":"late"}"#).await.is(200);
    assert_eq!((backend.connections(), backend.half_closed()), (1, 0));
}

#[tokio::test]
async fn a_server_that_never_answers_costs_its_time_alone() {
    let (gateway, backend) = gateway().await;
    let started = Instant::now();
    let silent = gateway.ask("POST /call", &[JSON], r#"{"do":"silence"}"#);
    let other = gateway.ask("POST /call", &[JSON], "{}");
    let (silent, other) = tokio::join!(silent, other);
    other.is(200);
    silent.is(504);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    gateway.ask("POST /call", &[JSON], "{}").await.is(200);
    assert_eq!(backend.connections(), 1, "the connection is as good as before");
}

#[tokio::test]
async fn a_broken_connection_fails_what_was_on_it_and_is_made_anew() {
    let (gateway, backend) = gateway().await;
    for (number, case) in ["garbage", "close"].into_iter().enumerate() {
        gateway.ask("POST /call", &[JSON], "{}").await.is(200);
        let answer = gateway.ask("POST /call", &[JSON], &json!({"do": case}).to_string()).await.is(502);
        assert!(!answer.text().contains("127.0.0.1"), "{}", answer.text());
        gateway.ask("POST /call", &[JSON], "{}").await.is(200);
        assert_eq!(backend.connections(), number + 2, "{case}");
    }
    drop(backend);
    let started = Instant::now();
    while gateway.ask("POST /call", &[JSON], "{}").await.status != 502 {
        assert!(started.elapsed() < Duration::from_secs(5), "it is gone");
    }
}

#[tokio::test]
async fn what_is_no_method_is_told_at_load() {
    for (from, to, word) in [
        ("callee: trpc.crm.profile.Profile", "callee: \"a b\"", "is no service"),
        ("func: /trpc", "func: trpc", "is no method of a service"),
        ("upstream: crm", "upstream: crn", "did you mean 'crm'"),
        ("name: crm\n", "name: crm\ntls: {server_name: crm.test}\n", "tRPC over TLS is known, but not built"),
    ] {
        let why = Gateway::with(&fill(TEXT, &[&"127.0.0.1:1"]).replacen(from, to, 1)).try_start().await.err().expect(to);
        assert!(why.contains(word), "{to}: {why}");
    }
}
