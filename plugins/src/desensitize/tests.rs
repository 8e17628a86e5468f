//! The ring around answers of every kind.
use contract::{catalog::plugin, testkit::Bench};
use http_body_util::BodyExt;
use serde_json::json;

use super::*;

const DOCUMENT: &str = r#"{"user":{"name":"王伟","phone":"13812345678"},"items":[{"phone":13900001111,"n":1.50}]}"#;
const MASKED: &str = r#"{"user":{"name":"王*","phone":"138****5678"},"items":[{"phone":"139****1111","n":1.50}]}"#;

fn config() -> serde_json::Value {
    json!({"rules": [{"at": "**.phone", "as": "phone"}, {"at": "user.name", "as": "name"}]})
}

/// Status, headers and body that come out for an answer of this kind.
async fn out(
    config: serde_json::Value,
    headers: &'static [(&'static str, &'static str)],
    body: Vec<u8>,
) -> (u16, http::HeaderMap, Vec<u8>) {
    let upstream = move |_: &mut Exchange| {
        let mut answer = http::Response::builder();
        for (name, value) in headers {
            answer = if *name == ":status" { answer.status(*value) } else { answer.header(*name, *value) };
        }
        Ok(answer.body(Body::Full(body.clone().into())).unwrap())
    };
    let answer = Bench::around(&plugin::<Desensitize>(), config, upstream).send(http::Request::new(Body::Empty)).await;
    let (head, body) = answer.into_parts();
    (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test]
async fn an_answer_is_masked_and_what_described_it_goes() {
    let headers = &[("content-type", "application/json"), ("content-length", "99"), ("etag", "\"a\""), ("x-other", "1")];
    let (status, headers, body) = out(config(), headers, DOCUMENT.into()).await;
    assert_eq!((status, String::from_utf8(body).unwrap().as_str()), (200, MASKED));
    assert_eq!(headers.keys().map(|it| it.as_str()).collect::<Vec<_>>(), ["content-type", "x-other"]);
}

#[tokio::test]
async fn an_answer_in_which_nothing_is_named_stays_to_the_byte() {
    let (_, headers, body) = out(config(), &[("etag", "\"a\"")], b"{ \"a\" : 1e2 }".to_vec()).await;
    assert_eq!((headers.contains_key("etag"), &body[..]), (true, &b"{ \"a\" : 1e2 }"[..]));
}

#[tokio::test]
async fn a_compressed_answer_is_masked_and_compressed_again() {
    for (word, it) in [("gzip", coding::Coding::Gzip), ("deflate", coding::Coding::Deflate)] {
        let packed = coding::encode(it, DOCUMENT.as_bytes());
        let headers = if word == "gzip" { &[("content-encoding", "gzip")] } else { &[("content-encoding", "deflate")] };
        let (status, headers, body) = out(config(), headers, packed).await;
        assert_eq!((status, headers["content-encoding"].to_str().unwrap()), (200, word));
        assert_eq!(coding::decode(it, &body, 1000).unwrap(), MASKED.as_bytes());
    }
}

#[tokio::test]
async fn what_cannot_be_read_does_not_get_out_unless_the_author_spells_it() {
    for (headers, body) in [
        (&[("content-type", "text/html")][..], &b"<p>13812345678</p>"[..]),
        (&[("content-type", "application/json")], b"{\"phone\":\"13812345678\""),
        (&[("content-encoding", "br")], DOCUMENT.as_bytes()),
        (&[("content-encoding", "gzip")], DOCUMENT.as_bytes()),
        (&[(":status", "206")], DOCUMENT.as_bytes()),
        (&[("content-type", "text/event-stream"), ("content-encoding", "gzip")], DOCUMENT.as_bytes()),
    ] {
        let headers: &'static [_] = headers;
        assert_eq!(out(config(), headers, body.to_vec()).await.0, 502, "{headers:?}");
        let mut pass = config();
        pass["on_error"] = "pass".into();
        assert_eq!(out(pass, headers, body.to_vec()).await.2, body, "{headers:?}");
    }
    let mut small = config();
    small["max_size"] = "10B".into();
    small["on_error"] = "pass".into();
    assert_eq!(out(small, &[], DOCUMENT.into()).await.0, 502);
}

#[tokio::test]
async fn rules_hold_for_whom_their_conditions_say() {
    let config = |unless: &str| json!({"rules": [{"at": "**.phone", "as": "phone", "unless": unless}]});
    let body = async |it| String::from_utf8(out(it, &[], DOCUMENT.into()).await.2).unwrap();
    assert!(body(config("request.method == 'GET'")).await.contains("13812345678"));
    assert!(!body(config("request.method == 'POST'")).await.contains("13812345678"));
    // Nobody is known, so nobody is excepted.
    assert!(!body(config("'crm.pii' in auth.scopes")).await.contains("13812345678"));
    let when = json!({"rules": [{"at": "**.phone", "as": "phone", "when": "request.method == 'POST'"}]});
    assert!(body(when).await.contains("13812345678"));
}

#[tokio::test]
async fn the_backend_is_asked_for_what_can_be_read_and_rings_outside_see_what_the_client_said() {
    let upstream = |ex: &mut Exchange| {
        assert_eq!(ex.head.headers["accept-encoding"], "identity");
        assert!(!ex.head.headers.contains_key("range"));
        Ok(http::Response::new(Body::Empty))
    };
    let request = http::Request::builder().header("accept-encoding", "br, zstd").header("range", "bytes=0-1").body(Body::Empty).unwrap();
    assert_eq!(Bench::around(&plugin::<Desensitize>(), config(), upstream).send(request).await.status(), 200);
}

#[test]
fn every_mistake_is_told() {
    let faults = Bench::faults(
        &plugin::<Desensitize>(),
        json!({"rules": [{"at": "a..b", "as": "fone"}, {"at": "a", "as": "keep(3)", "unless": "nope.x"}], "jq": ".a", "salt": "${nope}"}),
    );
    let told: Vec<_> = faults.iter().map(|it| it.pointer.as_str()).collect();
    assert_eq!(told, ["/rules/0/at", "/rules/0/as", "/rules/1/as", "/rules/1/unless", "/jq", "/salt"]);
    assert_eq!(Bench::faults(&plugin::<Desensitize>(), json!({}))[0].pointer, "/rules");
}
