//! Declared parameters: coerced, defaulted, and every fault told at once.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api},
};

const PARAMS: &str = r#"
inbound:
  match: "GET /c/{id}"
  params:
    id:      {in: path, type: integer, minimum: 1}
    page:    {in: query, type: integer, minimum: 1, maximum: 50, default: 1}
    ratio:   {in: query, type: number}
    deep:    {in: query, type: boolean}
    name:    {in: query, type: string, minLength: 2}
    include: {in: query, type: array, items: {enum: [orders, tickets]}, default: [orders]}
    tags:    {in: query, type: array, explode: false, items: {type: integer}}
    X-Shop:  {in: header, type: integer}
    level:   {in: cookie, type: integer, required: true}
proxy:
  http: {upstream: echo, path: /seen}
  send:
    only: true
    body:
      id: "${params.id}"
      page: "${params.page}"
      ratio: "${params.ratio}"
      deep: "${params.deep}"
      name: "${params.name}"
      include: "${params.include}"
      tags: "${params.tags}"
      shop: "${params['X-Shop']}"
      level: "${params.level}"
"#;

async fn gateway() -> (Gateway, Backend) {
    let backend = Backend::echo().await;
    (Gateway::serving(&echo_api(backend.address, "", PARAMS)).await, backend)
}

async fn coerced(target: &str, headers: &[&str]) -> serde_json::Value {
    let (gateway, backend) = gateway().await;
    let mut all = vec!["cookie: level=3"];
    all.extend(headers);
    gateway.ask(&format!("GET {target}"), &all, "").await.is(200);
    serde_json::from_slice(&backend.last().content.bytes).expect("JSON")
}

#[tokio::test]
async fn values_are_coerced_to_the_declared_type_and_defaults_are_seen() {
    assert_eq!(
        coerced("/c/7", &[]).await,
        serde_json::json!({"id": 7, "page": 1, "ratio": null, "deep": null, "name": null, "include": ["orders"], "tags": null, "shop": null, "level": 3})
    );
    assert_eq!(
        coerced("/c/7?page=50&ratio=-1.5e3&deep=true&name=%E4%BD%A0%E5%A5%BD&include=tickets&include=orders&tags=1,2,3", &["x-shop: -4"])
            .await,
        serde_json::json!({"id": 7, "page": 50, "ratio": -1.5e3, "deep": true, "name": "你好", "include": ["tickets", "orders"], "tags": [1, 2, 3], "shop": -4, "level": 3})
    );
}

#[tokio::test]
async fn a_fault_is_keyed_by_the_keyword_that_fails() {
    let (gateway, backend) = gateway().await;
    for (target, key) in [
        ("/c/x", "/params/id/type"),
        ("/c/07", "/params/id/type"),
        ("/c/1.0", "/params/id/type"),
        ("/c/+1", "/params/id/type"),
        ("/c/0", "/params/id/minimum"),
        ("/c/7?page=51", "/params/page/maximum"),
        ("/c/7?page=", "/params/page/type"),
        ("/c/7?ratio=.5", "/params/ratio/type"),
        ("/c/7?ratio=1e", "/params/ratio/type"),
        ("/c/7?deep=1", "/params/deep/type"),
        ("/c/7?deep=TRUE", "/params/deep/type"),
        ("/c/7?name=x", "/params/name/minLength"),
        ("/c/7?include=parcels", "/params/include/items/enum"),
        ("/c/7?tags=1,x", "/params/tags/items/type"),
    ] {
        let answer = gateway.ask(&format!("GET {target}"), &["cookie: level=1"], "").await.is(400).json();
        let details = answer["details"].as_object().expect("details");
        assert_eq!(details.keys().collect::<Vec<_>>(), [key], "{target}");
        assert!(answer["message"].as_str().is_some_and(|it| it.starts_with("validation failed: ")), "{answer}");
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn every_fault_is_told_at_once() {
    let (gateway, _backend) = gateway().await;
    let answer = gateway.ask("GET /c/x?page=0&deep=maybe", &["x-shop: y"], "").await.is(400).json();
    let mut keys: Vec<&String> = answer["details"].as_object().expect("details").keys().collect();
    keys.sort();
    assert_eq!(keys, ["/params/X-Shop/type", "/params/deep/type", "/params/id/type", "/params/level/required", "/params/page/minimum"]);
}

#[tokio::test]
async fn a_scalar_given_twice_is_a_fault() {
    let (gateway, _backend) = gateway().await;
    let answer = gateway.ask("GET /c/7?page=1&page=2", &["cookie: level=1"], "").await.is(400).json();
    let details = answer["details"].as_object().expect("details");
    assert!(details.len() == 1 && details.keys().all(|it| it.starts_with("/params/page/")), "{answer}");
}

#[tokio::test]
async fn problem_json_lists_the_same_faults() {
    let (gateway, _backend) = gateway().await;
    let answer = gateway.ask("GET /c/7?page=51", &["cookie: level=1", "accept: application/problem+json"], "").await.is(400);
    assert!(answer.header("content-type").is_some_and(|it| it.starts_with("application/problem+json")));
    let it = answer.json();
    assert_eq!(
        (&it["status"], &it["errors"][0]["in"], &it["errors"][0]["schema"]),
        (&400.into(), &"query".into(), &"/params/page/maximum".into()),
        "{it}"
    );
    assert!(it["errors"][0]["detail"].is_string() && it["errors"][0]["pointer"].is_string(), "{it}");
}

#[tokio::test]
async fn a_declared_parameter_changes_no_byte_of_the_query() {
    let backend = Backend::echo().await;
    let more = "inbound:\n  match: GET /q\n  params: {page: {in: query, type: integer, default: 3}}";
    let gateway = Gateway::serving(&echo_api(backend.address, "", more)).await;
    for target in ["/q", "/q?x=%zz&&=&page=2&y", "/q?page=%32"] {
        gateway.get(target).await.is(200);
        assert_eq!(backend.last().head.target(), target);
    }
}
