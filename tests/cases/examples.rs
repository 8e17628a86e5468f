//! The definitions that are shipped: they load as they lie, and answer what the README says.
use std::path::Path;

use tests::{
    harness::Gateway,
    wire::{Wire, request},
};

/// The folders of `routes/`, each a set that loads by itself.
fn folders() -> Vec<std::path::PathBuf> {
    let routes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes");
    let entries = std::fs::read_dir(routes).expect("routes/").flatten().map(|it| it.path());
    entries.filter(|it| it.is_dir()).collect()
}

fn copy(from: &Path, setup: &tests::harness::Setup) {
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a text file");
        setup.folder().write(&format!("routes/{}", entry.file_name().to_string_lossy()), &text);
    }
}

#[tokio::test]
async fn every_shipped_definition_loads_without_a_fault() {
    let folders = folders();
    assert!(!folders.is_empty());
    for folder in folders {
        let setup = Gateway::with("kind: Plan\nname: test\nrate: 1/s\n");
        copy(&folder, &setup);
        let gateway = setup.start().await;
        let report = gateway.report().await;
        assert_eq!(report["faults"].as_array().map(Vec::len), Some(0), "{}: {report}", folder.display());
    }
}

#[tokio::test]
async fn the_demo_answers_what_the_readme_says() {
    let setup = Gateway::with("kind: Plan\nname: test\nrate: 1/s\n");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/demo"), &setup);
    let demo = tests::demo::Backends::anywhere().await;
    demo.rewrite(&setup.folder().join("routes")).await;
    let gateway = setup.start().await;
    assert_eq!(gateway.get("/hello/Ada").await.is(200).text(), r#"{"hello":"Ada"}"#);
    let answer = gateway.get("/v2/customers/7?page=2").await.is(200);
    assert_eq!(answer.text(), "{\"backend_got\":\"GET /internal/customers/7?page=2\"}\n");
    assert_eq!((answer.header("x-served-by"), answer.header("server")), (Some("allium"), None));
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
    let origin = "origin: http://localhost:3000";
    let preflight = gateway.ask("OPTIONS /v2/customers/7", &[origin, "access-control-request-method: GET"], "").await.is(204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let unknown = gateway.ask("GET /nowhere", &[origin], "").await.is(404);
    assert_eq!(unknown.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let mut wire = Wire::open(gateway.address).await;
    wire.send(request("GET /events", &[], "")).await;
    assert_eq!(wire.head().await.get("content-type"), Some("text/event-stream"));
}
