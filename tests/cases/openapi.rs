//! The OpenAPI document on the admin listener: it is true of what is served, and the gateway's answers are as it says.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api},
};

#[tokio::test]
async fn the_document_follows_what_is_served() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "GET /a/{id}", "")).await;
    let first = gateway.admin("/openapi.json").await.is(200);
    assert_eq!(first.header("content-type"), Some("application/json; charset=utf-8"));
    assert!(first.json()["paths"].get("/a/{id}").is_some(), "{}", first.text());
    assert_eq!(first.json()["info"]["version"], gateway.report().await["revision"]);
    gateway.redefine(&echo_api(backend.address, "GET /b/{id}", "")).await;
    let paths = gateway.admin("/openapi.json").await.json()["paths"].clone();
    assert!(paths.get("/a/{id}").is_none() && paths.get("/b/{id}").is_some(), "{paths}");
    let yaml = gateway.admin("/openapi.yaml?server=https://api.example.com").await.is(200);
    assert!(yaml.text().contains("url: https://api.example.com"), "{}", yaml.text());
    gateway.admin("/openapi.json?colour=red").await.is(400);
    gateway.get("/openapi.json").await.is(404);
}

#[tokio::test]
async fn errors_are_as_the_document_says() {
    let backend = Backend::echo().await;
    let params = "inbound: {match: \"GET /a/{id}\", params: {id: {in: path, type: integer}, b: {in: query, type: boolean}}}";
    let gateway = Gateway::serving(&echo_api(backend.address, "GET /a/{id}", params)).await;
    let document = gateway.admin("/openapi.json").await.json();
    let content = &document["paths"]["/a/{id}"]["get"]["responses"]["400"]["content"];
    for (accept, kind) in [("*/*", "application/json"), ("application/problem+json", "application/problem+json")] {
        let answer = gateway.ask("GET /a/x?b=y", &[&format!("accept: {accept}")], "").await.is(400);
        assert!(answer.header("content-type").is_some_and(|it| it.starts_with(kind)), "{:?}", answer.head);
        let name = content[kind]["schema"]["$ref"].as_str().and_then(|it| it.rsplit('/').next()).expect("a reference");
        let mut schema = document["components"]["schemas"][name].clone();
        // Nothing that an answer holds may be left unsaid.
        schema["additionalProperties"] = false.into();
        let faults: Vec<String> =
            jsonschema::validator_for(&schema).expect("a schema").iter_errors(&answer.json()).map(|it| it.to_string()).collect();
        assert!(faults.is_empty(), "{kind}: {faults:?} in {}", answer.text());
    }
}
