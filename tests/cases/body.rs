//! Bodies held to a schema: JSON and forms, every fault in one answer, and what cannot be read in two ways.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api},
};

const SCHEMA: &str = r#"
inbound:
  match: "POST /c/{id}"
  params: {id: {in: path, type: integer}}
  body:
    max_size: 2MiB
    schema:
      type: object
      required: [name, job_title]
      properties:
        name: {type: string}
        age: {type: integer, exclusiveMinimum: 1}
        email: {type: string, format: email}
        parts: {type: array, items: {type: integer, maximum: 9}}
"#;

async fn gateway() -> (Gateway, Backend) {
    let backend = Backend::echo().await;
    (Gateway::serving(&echo_api(backend.address, "", SCHEMA)).await, backend)
}

const JSON: &str = "content-type: application/json; charset=utf-8";

#[tokio::test]
async fn all_faults_are_told_in_one_answer() {
    let (gateway, backend) = gateway().await;
    let answer = gateway.ask("POST /c/x", &[JSON], r#"{"age": -1, "email": "x", "parts": [1, 10, 11]}"#).await.is(400).json();
    assert_eq!(
        answer["details"],
        serde_json::json!({
            "/params/id/type": "must be integer but found 'x'",
            "/required": "missing properties: 'name', 'job_title'",
            "/properties/age/exclusiveMinimum": "must be > 1 but found -1",
            "/properties/email/format": "must be a valid email but found 'x'",
            "/properties/parts/items/maximum": "/parts/1: must be <= 9 but found 10; /parts/2: must be <= 9 but found 11",
        })
    );
    let answer = gateway.ask("POST /c/7", &[JSON], r#"{"age": -1}"#).await.is(400).json();
    assert_eq!(answer["message"], "validation failed: missing properties: 'name', 'job_title'");
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_body_that_fits_passes_byte_for_byte() {
    let (gateway, backend) = gateway().await;
    let body = "{ \"name\" : \"\\u738b\\/伟\", \"job_title\":\"\",\"n\":1.50e+0, \"big\":1234567890123456789012345678901234567890 }\n";
    gateway.ask("POST /c/7", &[JSON], body).await.is(200);
    assert_eq!(backend.last().content.bytes, body.as_bytes());
}

#[tokio::test]
async fn a_large_body_is_checked_too() {
    let (gateway, backend) = gateway().await;
    let body = |last: &str| format!("{{\"name\":\"a\",\"job_title\":\"b\",\"parts\":[{}{last}]}}", "1,".repeat(400_000));
    let answer = gateway.ask("POST /c/7", &[JSON], body("10")).await.is(400).json();
    assert_eq!(answer["details"]["/properties/parts/items/maximum"], "must be <= 9 but found 10");
    gateway.ask("POST /c/7", &[JSON], body("9")).await.is(200);
    assert_eq!(backend.last().content.bytes, body("9").as_bytes());
}

#[tokio::test]
async fn what_is_not_sound_json_is_refused() {
    let (gateway, backend) = gateway().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for (body, words) in [
        (&b"{"[..], "ends too early"),
        (b"{\"name\":\"\xff\"}", "UTF-8"),
        (deep.as_bytes(), "nested deeper"),
        (b"{\"name\":\"a\",\"name\":\"b\",\"job_title\":\"\"}", "stands twice"),
        (b"", "missing"),
    ] {
        let answer = gateway.ask("POST /c/7", &[JSON], body).await.is(400).json();
        assert!(answer["message"].as_str().is_some_and(|it| it.contains(words)), "{answer}");
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn the_media_type_says_how_a_body_is_read() {
    let (gateway, _backend) = gateway().await;
    let good = r#"{"name":"a","job_title":"b"}"#;
    for (headers, status) in [
        (vec![JSON], 200),
        (vec!["content-type: application/vnd.crm+json"], 200),
        (vec!["content-type: application/json; charset=gbk"], 415),
        (vec!["content-type: text/plain"], 415),
        (vec![], 415),
        (vec![JSON, "content-encoding: gzip"], 415),
        (vec![JSON, "content-type: text/plain"], 400),
    ] {
        gateway.ask("POST /c/7", &headers, good).await.is(status);
    }
}

#[tokio::test]
async fn fields_of_forms_are_coerced_and_checked() {
    let (gateway, backend) = gateway().await;
    let urlencoded = "content-type: application/x-www-form-urlencoded";
    let good = "name=%E7%8E%8B%E4%BC%9F&job_title=x&age=40&parts=1&parts=2";
    gateway.ask("POST /c/7", &[urlencoded], good).await.is(200);
    assert_eq!(backend.last().content.bytes, good.as_bytes());
    let answer = gateway.ask("POST /c/7", &[urlencoded], "name=a&age=forty").await.is(400).json();
    let keys: Vec<_> = answer["details"].as_object().expect("details").keys().cloned().collect();
    assert_eq!(keys, ["/required", "/properties/age/type"]);

    let multipart = "content-type: multipart/form-data; boundary=b";
    let field = |name: &str, value: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    let body = format!("{}{}{}--b--\r\n", field("name", "a"), field("job_title", "b"), field("age", "1"));
    let answer = gateway.ask("POST /c/7", &[multipart], &body).await.is(400).json();
    assert_eq!(answer["details"]["/properties/age/exclusiveMinimum"], "must be > 1 but found 1");
    gateway.ask("POST /c/7", &[multipart], body.replace("\r\n1\r\n", "\r\n2\r\n")).await.is(200);
    gateway.ask("POST /c/7", &[multipart], body.replace("--b--", "")).await.is(400);
    gateway.ask("POST /c/7", &[urlencoded], "name=%FF&job_title=x").await.is(400);
}

#[tokio::test]
async fn a_schema_may_lie_in_a_file_and_refer_to_others() {
    let backend = Backend::echo().await;
    let api = echo_api(backend.address, "", "inbound:\n  match: POST /f\n  body: {schema: {file: schemas/order.json}}");
    let gateway = Gateway::with(&api)
        .file("schemas/order.json", r##"{"properties": {"customer": {"$ref": "parts/person.json#/$defs/person"}}}"##)
        .file("schemas/parts/person.json", r#"{"$defs": {"person": {"type": "object", "required": ["name"]}}}"#)
        .start()
        .await;
    let answer = gateway.ask("POST /f", &[JSON], r#"{"customer": {}}"#).await.is(400).json();
    assert_eq!(answer["details"]["/properties/customer/$ref/required"], "missing property: 'name'");
    gateway.ask("POST /f", &[JSON], r#"{"customer": {"name": "王伟"}}"#).await.is(200);
}

#[tokio::test]
async fn an_older_draft_may_stand_in_a_definition() {
    let backend = Backend::echo().await;
    let schema =
        "{$schema: 'http://json-schema.org/draft-04/schema#', items: [{minimum: 1, exclusiveMinimum: true}], additionalItems: false}";
    let api = echo_api(backend.address, "", &format!("inbound:\n  match: POST /f\n  body: {{schema: {schema}}}"));
    let gateway = Gateway::serving(&api).await;
    gateway.ask("POST /f", &[JSON], "[2]").await.is(200);
    gateway.ask("POST /f", &[JSON], "[1]").await.is(400);
    gateway.ask("POST /f", &[JSON], "[2, 2]").await.is(400);
}

#[tokio::test]
async fn a_schema_that_cannot_be_is_refused_at_load() {
    for (schema, words) in [
        ("{file: schemas/none.json}", "cannot be read"),
        ("{type: objekt}", "objekt"),
        ("{requried: [a]}", "did you mean `required`?"),
        ("{$ref: 'http://example.com/x.json'}", "never to the network"),
        ("{allOf: [{$ref: '#'}]}", "refers to itself"),
    ] {
        let api = format!(
            "kind: Api\ninfo: {{name: a}}\ninbound: {{match: POST /a, body: {{schema: {schema}}}}}\nproxy: {{respond: {{status: 204}}}}\n"
        );
        let Err(why) = Gateway::with(&api).try_start().await else { panic!("{schema} is served") };
        assert!(why.contains(words), "{schema}:\n{why}");
    }
}
