//! Who is calling: keys, passwords and tokens of Apps, rotated while requests go on.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api, fill},
};

const SECRETS: &str = "secrets: {files: secrets/}";

/// An App with these credentials, and an Api behind these rings.
fn definitions(backend: &Backend, credentials: &str, rings: &str) -> String {
    let app = fill(
        "---\nkind: App\nname: acme\nplan: gold\nscopes: [read]\ncredentials: [$1]\n---\nkind: Plan\nname: gold\nrate: 7/s\n",
        &[&credentials],
    );
    echo_api(backend.address, "/a", &format!("plugins: [{rings}]")) + &app
}

const KEY: &str = "key-auth: {tell: {x-app: \"${app.name} ${plan.rate} ${auth.subject}\"}}";

#[tokio::test]
async fn a_key_is_added_and_withdrawn_without_a_gap_and_without_a_route_being_built_anew() {
    let backend = Backend::echo().await;
    let text = |it: &str| definitions(&backend, it, &format!("{{{KEY}}}"));
    let gateway = Gateway::with(&text("{api_key: {file: secrets/old}}"))
        .settings(SECRETS)
        .file("secrets/old", "k-old\n")
        .file("secrets/new", "k-new\n")
        .start()
        .await;
    let ask = async |key: &str, status: u16| {
        gateway.ask("GET /a", &[&format!("x-api-key: {key}")], "").await.is(status);
    };
    ask("k-old", 200).await;
    let head = backend.last().head;
    assert_eq!((head.all("x-app"), head.all("x-api-key")), (vec!["acme 7/s acme"], vec![]), "the backend is told who, and not how");
    ask("k-new", 401).await;
    gateway.redefine(&text("{api_key: {file: secrets/old}}, {api_key: {file: secrets/new}}")).await;
    ask("k-old", 200).await;
    ask("k-new", 200).await;
    gateway.redefine(&text("{api_key: {file: secrets/new}}")).await;
    ask("k-old", 401).await;
    ask("k-new", 200).await;
    let metrics = gateway.admin("/metrics").await.text();
    let passed = "allium_auth_requests_total{owner=\"Api/a@v1\",plugin=\"key-auth\",result=\"passed\",ring=\"1\"} 4";
    assert!(metrics.contains(passed), "{metrics}");
}

#[tokio::test]
async fn optional_rings_around_one_that_asks_are_any_of() {
    let backend = Backend::echo().await;
    let credentials = "{api_key: {file: secrets/key}}, {username: ada, password: {file: secrets/password}}";
    let rings = "{key-auth: {optional: true}}, {basic-auth: {}}, {headers: {request: {set: {x-app: \"${app.name}\"}}}}";
    let gateway = Gateway::with(&definitions(&backend, credentials, rings))
        .settings(SECRETS)
        .file("secrets/key", "k")
        .file("secrets/password", "p")
        .start()
        .await;
    for (headers, status) in [
        (&["x-api-key: k"][..], 200),
        (&["authorization: Basic YWRhOnA="], 200),
        (&["x-api-key: k", "authorization: Basic YWRhOnA="], 200),
        // What is there and wrong refuses, whatever else is right.
        (&["x-api-key: x", "authorization: Basic YWRhOnA="], 401),
        (&["authorization: Basic YWRhOng="], 401),
        (&[], 401),
    ] {
        let answer = gateway.ask("GET /a", headers, "").await.is(status);
        if status == 200 {
            let head = backend.last().head;
            assert_eq!(
                (head.all("x-app"), head.all("authorization"), head.all("x-api-key")),
                (vec!["acme"], vec![], vec![]),
                "{headers:?}"
            );
        }
        if headers.is_empty() {
            assert_eq!(answer.head.all("www-authenticate"), ["Basic realm=\"api\", charset=\"UTF-8\"", "ApiKey"]);
        }
    }
}

#[tokio::test]
async fn what_nobody_could_be_known_by_is_refused() {
    let backend = Backend::echo().await;
    let ring = "{key-auth: {}}";
    for (credentials, more, says) in [
        ("{api_key: {file: secrets/none}}", "", "`secrets/none` cannot be read"),
        ("{api_key: {file: secrets/empty}}", "", "`secrets/empty` is empty"),
        ("{api_key: {env: ALLIUM_NOT_LISTED}}", "", "does not list it"),
        ("{username: \"a:b\", password: {file: secrets/key}}", "", "has no colon"),
        ("{api_key: {file: secrets/key}}", "kind: App\nname: other\ncredentials: [{api_key: {file: secrets/key}}]\n", "has the same key"),
        (
            "{username: ada, password: {file: secrets/key}}",
            "kind: App\nname: other\ncredentials: [{username: ada, password: {file: secrets/key}}]\n",
            "has the same user",
        ),
    ] {
        let text = format!("{}---\n{more}", definitions(&backend, credentials, ring));
        let text = if more.is_empty() { definitions(&backend, credentials, ring) } else { text };
        let setup = Gateway::with(&text).settings(SECRETS).file("secrets/key", "k").file("secrets/empty", "\n");
        let Err(why) = setup.try_start().await else { panic!("{says}: it is served") };
        assert!(why.contains(says), "{says}:\n{why}");
    }
}

#[tokio::test]
async fn a_faulty_change_of_an_app_leaves_the_last_good_one() {
    let backend = Backend::echo().await;
    let text = |it: &str| definitions(&backend, it, "{key-auth: {}}");
    let gateway = Gateway::with(&text("{api_key: {file: secrets/key}}")).settings(SECRETS).file("secrets/key", "k").start().await;
    let report = gateway.redefine(&text("{api_key: {file: secrets/nowhere}}")).await;
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(1), "{report}");
    gateway.ask("GET /a", &["x-api-key: k"], "").await.is(200);
}

#[tokio::test]
async fn names_of_the_caller_are_seen_only_inside_of_who_finds_them() {
    let backend = Backend::echo().await;
    let outside = "{headers: {request: {set: {x-app: \"${app.name}\"}}}}, {key-auth: {}}";
    let Err(why) = Gateway::with(&definitions(&backend, "", outside)).try_start().await else { panic!("it is served") };
    assert!(why.contains("no plugin outside this place authenticates"), "{why}");
}
