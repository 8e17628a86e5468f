//! `allium openapi`: the document says what the definitions say.
use serde_json::{Value, json};

use crate::bench::{Bench, UPSTREAM, api};

const ORDERS: &str = r##"kind: Api
info:
  name: orders
  version: v2
  summary: Orders of a customer
  description: "All of *them*."
  owner: sales
  tags: [partner, sales]
  lifecycle: {state: deprecated, sunset: 2030-01-01, successor: {name: orders, version: v3}}
inbound:
  match: ["GET /orders/{id}", "POST api.example.com/orders/{id}/copy"]
  params:
    id: {in: path, type: integer, minimum: 1, description: The order's number}
    page: {in: query, type: array, items: {type: integer}, explode: false, default: [1]}
    x-tenant: {in: header, required: true, enum: [a, b]}
  body:
    content: application/json
    max_size: 10KiB
plugins: [{ip-acl: {allow: [10.0.0.0/8]}}]
proxy: {http: {upstream: orders}}
"##;

fn document(bench: &Bench, more: &[&str]) -> Value {
    let it = bench.check(&[&["openapi"], more].concat(), 0);
    serde_json::from_str(&it.out).unwrap_or_else(|why| panic!("{why}: {}", it.out))
}

fn bench() -> Bench {
    let next = api("orders", "GET /orders/{number}").replace("  version: v1\n", "  version: v3\n");
    let next = next.replace("GET /orders/{number}", "PUT /orders/{number}");
    let all = [
        ORDERS.to_owned(),
        next,
        api("files", "GET /files/{name}/raw/{rest...}"),
        api("draft", "GET /draft").replace("  version: v1\n", "  version: v1\n  lifecycle: {state: draft}\n"),
        api("old", "GET /old").replace("  version: v1\n", "  version: v1\n  lifecycle: {state: retired}\n"),
        api("below", "x").replace("match: x", "match: \"*.example.com/any\""),
    ];
    Bench::new(&[("routes/all.yaml", &all.join("---\n")), ("routes/u.yaml", UPSTREAM)])
}

#[test]
fn an_operation_says_what_its_definition_says() {
    let it = document(&bench(), &["--server", "https://gw.example.org/"]);
    assert_eq!((&it["openapi"], &it["servers"][0]["url"]), (&json!("3.1.1"), &json!("https://gw.example.org")));
    let get = &it["paths"]["/orders/{id}"]["get"];
    assert_eq!(get["summary"], "Orders of a customer");
    assert_eq!(get["description"], "All of *them*.");
    assert_eq!(get["tags"], json!(["partner", "sales"]));
    assert_eq!((&get["deprecated"], &get["x-sunset"], &get["x-successor"]), (&json!(true), &json!("2030-01-01"), &json!("orders@v3")));
    let params = &get["parameters"];
    assert_eq!(
        params[0],
        json!({"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}, "description": "The order's number"})
    );
    assert_eq!(
        params[1],
        json!({"name": "page", "in": "query", "required": false, "explode": false,
               "schema": {"type": "array", "items": {"type": "integer"}, "default": [1]}})
    );
    assert_eq!(params[2], json!({"name": "x-tenant", "in": "header", "required": true, "schema": {"enum": ["a", "b"]}}));
    let statuses: Vec<&String> = get["responses"].as_object().expect("responses").keys().collect();
    assert_eq!(statuses, ["200", "400", "403", "413", "415", "502", "503", "504"]);
    assert_eq!(get["requestBody"], Value::Null, "a GET has no declared body");
    let post = &it["paths"]["/orders/{id}/copy"]["post"];
    assert_eq!(post["requestBody"]["content"], json!({"application/json": {}}));
    assert_eq!(post["servers"][0]["url"], "https://api.example.com");
    assert_ne!(post["operationId"], get["operationId"]);
}

#[test]
fn paths_are_one_where_openapi_takes_them_for_one() {
    let it = document(&bench(), &[]);
    let item = &it["paths"]["/orders/{id}"];
    assert_eq!(item["put"]["parameters"][0]["name"], "id", "the name of the path as it is shown: {item:#}");
    assert!(it["paths"].get("/orders/{number}").is_none());
    let rest = &it["paths"]["/files/{name}/raw/{rest}"]["get"]["parameters"];
    assert_eq!((&rest[0]["name"], &rest[1]["name"], &rest[1]["x-allium-rest"]), (&json!("name"), &json!("rest"), &json!(true)));
    let any = it["paths"]["/any"].as_object().expect("a path");
    assert_eq!(any.keys().collect::<Vec<_>>(), ["get", "post", "put", "patch", "delete"]);
    assert_eq!(any["get"]["servers"][0]["url"], "http://{subdomain}.example.com");
}

#[test]
fn what_is_not_published_is_not_described() {
    let bench = bench();
    let paths = |more: &[&str]| document(&bench, more)["paths"].as_object().expect("paths").keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&[]), ["/any", "/files/{name}/raw/{rest}", "/orders/{id}", "/orders/{id}/copy"]);
    assert_eq!(paths(&["--audience", "partner"]), ["/orders/{id}", "/orders/{id}/copy"]);
    assert_eq!(paths(&["--audience", "nobody"]), [""; 0]);
    assert_eq!(paths(&["--host", "a.b.example.com"]), ["/any", "/files/{name}/raw/{rest}", "/orders/{id}"]);
    assert_eq!(paths(&["--host", "example.com"]), ["/files/{name}/raw/{rest}", "/orders/{id}"]);
}

#[test]
fn two_apis_under_one_path_are_told() {
    let hosts = ["a", "b"].map(|it| api(it, &format!("GET {it}.example.com/x")));
    let bench = Bench::new(&[("routes/all.yaml", &hosts.join("---\n")), ("routes/u.yaml", UPSTREAM)]);
    let it = bench.check(&["openapi"], 0);
    assert!(it.err.contains("b@v1: GET /x is described by a@v1"), "{}", it.err);
    let it: Value = serde_json::from_str(&it.out).expect("JSON");
    assert_eq!(it["paths"]["/x"]["get"]["x-allium-also"], json!(["b@v1"]));
    assert_eq!(document(&bench, &["--host", "b.example.com"])["paths"]["/x"]["get"]["operationId"], "b_v1");
}

#[test]
fn definitions_with_faults_have_no_document() {
    let bench = Bench::new(&[("routes/a.yaml", &api("a", "GET /a").replace("upstream: orders", "upstream: nobody"))]);
    let it = bench.check(&["openapi"], 1);
    assert_eq!(it.out, "");
    assert!(it.err.contains("routes/a.yaml:8:") && it.err.contains("nobody"), "{}", it.err);
}

#[test]
fn yaml_says_the_same_as_json() {
    let bench = bench();
    let it = bench.check(&["openapi", "--format", "yaml"], 0);
    let text: &str = &it.out;
    let root = schemas::yaml::read(text, schemas::yaml::documents(text)[0]).root.expect("YAML");
    let read: Value = serde_json::from_str(&root.to_json()).expect("JSON");
    assert_eq!(read, document(&bench, &[]));
}
