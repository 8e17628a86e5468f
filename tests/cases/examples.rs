//! The definitions that are shipped: they load as they lie, and answer what the README says.
use std::path::Path;

use tests::{
    backend::Backend,
    harness::Gateway,
    tls::Authority,
    tls_front::{Manners, TlsFront},
    wire::{Wire, request},
};

/// The secrets of examples lie beside them.
const SECRETS: &str = "secrets: {files: routes}";

/// What the example's identity provider has signed; it ends in 2100, and with the provider, whose key nobody has.
const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhZGEiLCJhdWQiOiJkZW1vIiwic2NvcGUiOiJyZWFkIiwiZXhwIjo0MTAyNDQ0ODAwfQ.wjLPS_uLrNrClacazpR8ve2hwWQt449esjZTllIoks2yI9g50MWKl5_LgCDa-Uj7yXjO-n7LX9NAKGCBoP-AfCtgNInEg3TQ7UpPDDoINoGukQllH2b0WpqB0q5aeQUPxBlHkmz7CNncohboLhx9AC7x6VcFIEQXrVqSahmZgsEhfJIk0IENhVbVP0X5wVPuH5uJ60WWPtjuutT_4fB3n1Qy2o3KrSqSfi3Fouy9WkGZnviISR4_eKi81dp39xmR3BISmOUjozIFQi9KMplKBO_ENfdumsg8J6ruQmE0SyfZnyb42laHiEPPeLl77MAD8SvISryL24UIEJwVr8CgGw";

/// The folders of `routes/`, each a set that loads by itself.
fn folders() -> Vec<std::path::PathBuf> {
    let routes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes");
    let entries = std::fs::read_dir(routes).expect("routes/").flatten().map(|it| it.path());
    entries.filter(|it| it.is_dir()).collect()
}

/// Under the name that it has here: definitions name files relative to the folder of the settings.
fn copy(from: &Path, setup: &tests::harness::Setup) {
    let folder = from.file_name().expect("a folder").to_string_lossy();
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a text file");
        setup.folder().write(&format!("routes/{folder}/{}", entry.file_name().to_string_lossy()), &text);
    }
}

#[tokio::test]
async fn every_shipped_definition_loads_without_a_fault() {
    let folders = folders();
    assert!(!folders.is_empty());
    for folder in folders {
        let setup = Gateway::with("kind: Plan\nname: test\nrate: 1/s\n").settings(SECRETS);
        copy(&folder, &setup);
        let gateway = setup.start().await;
        let report = gateway.report().await;
        assert_eq!(report["faults"].as_array().map(Vec::len), Some(0), "{}: {report}", folder.display());
    }
}

#[tokio::test]
async fn the_example_of_tls_calls_nodes_that_ask_who_is_calling() {
    let (nodes, clients, backend) = (Authority::new("nodes"), Authority::new("clients"), Backend::echo().await);
    let manners = Manners { clients: Some(&clients), ..Manners::default() };
    let front = TlsFront::before(backend.address, &nodes.issue(&["payments.internal"]), manners).await;
    let setup = Gateway::with("kind: Plan\nname: test\nrate: 1/s\n").settings(SECRETS);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/secure");
    copy(&from, &setup);
    let text = std::fs::read_to_string(from.join("payments.yaml")).expect("a text file");
    let text = text.replace("127.0.0.1:9443", &front.address.to_string()).replace("127.0.0.1:9444", &Backend::nobody().await.to_string());
    let own = clients.issue(&["gateway.example"]);
    let setup = setup.file("routes/secure/payments.yaml", &text).file("routes/secure/ca.pem", &nodes.pem());
    let setup = setup.file("routes/secure/gateway.pem", &own.cert).file("routes/secure/gateway.key", &own.key);
    let gateway = setup.start().await;
    for _ in 0..2 {
        assert_eq!(gateway.ask("POST /payments/7", &[], "x").await.is(200).json()["target"], "/payments/7");
    }
    assert!(front.seen().iter().all(|it| it.showed_certificate));
}

#[tokio::test]
async fn the_demo_answers_what_the_readme_says() {
    let setup = Gateway::with("kind: Plan\nname: test\nrate: 1/s\n").settings(SECRETS);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/demo"), &setup);
    let demo = tests::demo::Backends::anywhere().await;
    demo.rewrite(&setup.folder().join("routes/demo")).await;
    let gateway = setup.start().await;
    assert_eq!(gateway.get("/hello/Ada").await.is(200).text(), r#"{"hello":"Ada"}"#);
    let answer = gateway.get("/v2/customers/7?page=2").await.is(200);
    assert_eq!(answer.text(), "{\"backend_got\":\"GET /internal/customers/7?page=2\"}\n");
    assert_eq!((answer.header("x-served-by"), answer.header("server")), (Some("allium"), None));
    let overview = gateway.get("/v1/customers/7/overview").await.is(200);
    let page = r#"{"customer":"Ada","risk":"unknown","orders":[{"tracking_no":"T1","total":19.90},{"tracking_no":"T2","total":5.00}],"parcels":[{"tracking_no":"T1","status":"delivered"},{"tracking_no":"T2","status":"on its way"}],"partial":["risk"]}"#;
    assert_eq!((overview.text().as_str(), overview.header("x-partial")), (page, Some("risk")));
    let none = gateway.get("/v1/customers/8/overview").await.is(502);
    assert_eq!(none.json()["message"], "the task 'profile' failed: the backend answered 404");
    let refused = gateway.get("/v2/customers/x?page=99").await.is(400).json();
    let keys: Vec<&String> = refused["details"].as_object().expect("details").keys().collect();
    assert_eq!(keys, ["/params/id/type", "/params/page/maximum"]);
    assert!(gateway.get("/v1/customers/7").await.is(200).header("deprecation").is_some());
    assert_eq!(gateway.get("/docs/x").await.is(308).header("location"), Some("https://docs.example.com/docs/x"));
    assert_eq!(gateway.get("/reports/today").await.is(200).json()["stale"], true);
    gateway.get("/internal/status").await.is(200);
    // `validate` stands outside of `ip-acl`, so what is wrong with a parameter is told first.
    gateway.get("/internal/status?verbose=perhaps").await.is(400);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let people = gateway.get("/people").await.is(200).json();
    assert_eq!(people["people"][0], serde_json::json!({"name": "王*", "phone": "138****5678", "id_card": "110101********123X"}));
    assert_eq!(people["people"][1]["phone"], "+86 139-****-1111");
    assert!(gateway.get("/people?callback=show").await.is(200).text().starts_with("/**/show({\"people\":"));
    let form = "content-type: application/x-www-form-urlencoded";
    gateway.ask("POST /people", &[form], "name=%E7%8E%8B%E4%BC%9F&job_title=x&age=0").await.is(400);
    assert_eq!(gateway.ask("POST /people", &[form], "name=%E7%8E%8B%E4%BC%9F&job_title=x&age=40").await.is(201).json()["name"], "王伟");
    let origin = "origin: http://localhost:3000";
    let preflight = gateway.ask("OPTIONS /v2/customers/7", &[origin, "access-control-request-method: GET"], "").await.is(204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let unknown = gateway.ask("GET /nowhere", &[origin], "").await.is(404);
    assert_eq!(unknown.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let mut wire = Wire::open(gateway.address).await;
    wire.send(request("GET /events", &[], "")).await;
    assert_eq!(wire.head().await.get("content-type"), Some("text/event-stream"));
}

#[tokio::test]
async fn the_example_of_callers_knows_them() {
    let setup = Gateway::with("kind: Plan\nname: test\nrate: 1/s\n").settings(SECRETS);
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/callers"), &setup);
    let gateway = setup.start().await;
    gateway.get("/partner/orders").await.is(401);
    assert_eq!(gateway.ask("GET /partner/orders", &["x-api-key: demo-key"], "").await.is(200).text(), r#"{"app":"partner","plan":"5/s"}"#);
    gateway.ask("GET /partner/orders", &["authorization: Basic cGFydG5lcjpkZW1vLWtleQ=="], "").await.is(200);
    let limited = gateway.ask("GET /partner/orders", &["x-api-key: demo-key"], "").await.is(429);
    assert_eq!(limited.header("ratelimit-policy"), Some("\"orders\";q=30;w=60;burst=2"));
    let token = format!("authorization: Bearer {TOKEN}");
    assert_eq!(gateway.ask("GET /session", &[&token], "").await.is(200).text(), r#"{"subject":"ada","scopes":["read"]}"#);
    gateway.ask("GET /session", &[&token[..token.len() - 2]], "").await.is(401);
}
