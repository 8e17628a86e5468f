//! The definitions on the admin listener: read, checked, written, taken back; and what is refused.
use std::{fs, time::Duration};

use serde_json::{Value, json};
use tests::{
    harness::{Gateway, Setup},
    wire::{self, Answer},
};

const SETTINGS: &str =
    "admin: {address: \"127.0.0.1:0\", tokens: [{token: {file: write.token}, role: write}, {token: {file: read.token}, role: read}]}";

/// An Api that answers with its own number.
fn numbered(name: &str, number: u32) -> String {
    format!(
        "# kept\nkind: Api\ninfo: {{name: {name}, version: v1}}\ninbound: {{match: /{name}}}\nproxy: {{respond: {{status: 200, body: {{n: {number}}}}}}}\n"
    )
}

fn setup(definitions: &str) -> Setup {
    Gateway::with(definitions).file("write.token", "writer").file("read.token", "reader").settings(SETTINGS)
}

async fn gateway() -> Gateway {
    setup(&format!("{}---\n{}", numbered("a", 1), numbered("b", 1))).start().await
}

async fn ask(gateway: &Gateway, token: &str, start: &str, headers: &[&str], body: &str) -> Answer {
    let token = format!("authorization: Bearer {token}");
    let headers = [&["host: x", token.as_str()], headers].concat();
    wire::ask(gateway.admin, start, &headers, body).await
}

async fn write(gateway: &Gateway, start: &str, headers: &[&str], body: &str) -> Answer {
    ask(gateway, "writer", start, headers, body).await
}

async fn n(gateway: &Gateway, path: &str) -> Option<u64> {
    let it = gateway.get(path).await;
    if it.status == 200 { it.json()["n"].as_u64() } else { None }
}

#[tokio::test]
async fn definitions_are_listed_and_read_as_json_and_yaml() {
    let gateway = gateway().await;
    let list = ask(&gateway, "reader", "GET /definitions?kind=api", &[], "").await.is(200).json();
    let names: Vec<&str> = list["definitions"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!((names, &list["definitions"][0]["line"]), (vec!["a", "b"], &json!(3)));
    let one = ask(&gateway, "reader", "GET /definitions/api/a@v1", &[], "").await.is(200);
    assert_eq!((one.json()["info"]["name"].as_str(), one.header("etag")), (Some("a"), list["definitions"][0]["etag"].as_str()));
    let yaml = ask(&gateway, "reader", "GET /definitions/Api/a@v1", &["accept: application/yaml"], "").await.is(200);
    assert!(yaml.text().starts_with("kind: Api\n"), "{}", yaml.text());
    for (path, status) in
        [("/definitions/Api/a", 404), ("/definitions/Api/c@v1", 404), ("/definitions/Thing/a", 404), ("/definitions/Api/a/b", 404)]
    {
        let it = ask(&gateway, "reader", &format!("GET {path}"), &[], "").await.is(status);
        assert!(it.json()["error"].is_string(), "{path}");
    }
    ask(&gateway, "reader", "GET /definitions?kind=apy", &[], "").await.is(404);
    let plugins = ask(&gateway, "reader", "GET /plugins", &[], "").await.is(200).json();
    assert!(plugins.as_array().expect("a list").iter().any(|it| it["name"] == "cors" && it["schema"].is_object()));
}

#[tokio::test]
async fn one_is_replaced_where_it_stands_and_all_else_stays_to_the_byte() {
    let gateway = gateway().await;
    let tag = ask(&gateway, "reader", "GET /definitions/Api/b@v1", &[], "").await.header("etag").expect("a tag").to_owned();
    let sent = numbered("b", 2);
    let answer = write(&gateway, "PUT /definitions/Api/b@v1?why=more", &[&format!("if-match: {tag}")], &sent).await.is(200);
    assert_eq!((answer.json()["served"].as_bool(), n(&gateway, "/b").await, n(&gateway, "/a").await), (Some(true), Some(2), Some(1)));
    assert_eq!(fs::read_to_string(gateway.folder.join("routes/api.yaml")).expect("a file"), format!("{}---\n{sent}", numbered("a", 1)));
    // Who knows only the version before changes nothing.
    let late = write(&gateway, "PUT /definitions/Api/b@v1", &[&format!("if-match: {tag}")], &numbered("b", 3)).await.is(412);
    assert!(late.text().contains("another by now"), "{}", late.text());
    write(&gateway, "PUT /definitions/Api/b@v1", &[], &numbered("b", 3)).await.is(428);
    assert_eq!(n(&gateway, "/b").await, Some(2));
    let tag = answer.header("etag").expect("the new tag").to_owned();
    let patch = json!({"proxy": {"respond": {"body": {"n": 4}}}}).to_string();
    write(&gateway, "PATCH /definitions/Api/b@v1", &[&format!("if-match: {tag}")], &patch).await.is(200);
    assert_eq!(n(&gateway, "/b").await, Some(4));
    write(&gateway, "DELETE /definitions/Api/b@v1", &["if-match: *"], "").await.is(200);
    assert_eq!((n(&gateway, "/b").await, n(&gateway, "/a").await), (None, Some(1)));
    assert_eq!(fs::read_to_string(gateway.folder.join("routes/api.yaml")).expect("a file"), numbered("a", 1));
    write(&gateway, "PUT /definitions/Api/c@v1", &[], &numbered("c", 1)).await.is(200);
    assert_eq!(n(&gateway, "/c").await, Some(1));
    assert!(gateway.folder.join("routes/c-v1.yaml").exists());
    let states = ask(&gateway, "reader", "GET /history", &[], "").await.is(200).json();
    let first = states.as_array().expect("a list").iter().find(|it| it["why"] == "more").expect("a state with a reason");
    assert_eq!(first["who"], "admin token 1");
}

#[tokio::test]
async fn what_has_faults_changes_nothing_and_is_told_with_its_place() {
    let gateway = gateway().await;
    let before = fs::read(gateway.folder.join("routes/api.yaml")).expect("a file");
    let broken = numbered("a", 1).replace("status: 200", "statsu: 200");
    for (start, body, status, word) in [
        ("PUT /definitions/Api/a@v1", broken.as_str(), 422, "did you mean"),
        (
            "PUT /definitions/Api/a@v1",
            "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /b}\nproxy: {respond: {}}\n",
            422,
            "same pattern",
        ),
        (
            "PUT /definitions/Api/a@v1",
            "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: /a}\nproxy: {http: {upstream: u}}\n",
            422,
            "no Upstream",
        ),
        ("PUT /definitions/Api/a@v1", &numbered("c", 1), 400, "the path names"),
        ("PUT /definitions/Api/a@v1", &format!("{}---\n{}", numbered("a", 2), numbered("c", 2)), 400, "takes many"),
        ("PUT /definitions/Api/a@v1", "", 400, "not 0"),
        ("PATCH /definitions/Api/a@v1", "{", 400, "RFC 7396"),
        ("PATCH /definitions/Api/a@v1", r#"{"info": {"name": "z"}}"#, 400, "neither"),
        ("PATCH /definitions/Api/z@v1", "{}", 412, "gone"),
        ("DELETE /definitions/Api/z@v1", "", 412, "gone"),
        ("POST /rollback/99", "", 404, "no state"),
        ("POST /apply?prune", "# nothing\n", 400, "holds no definition"),
        ("POST /definitions", "", 405, "GET"),
    ] {
        let headers: &[&str] =
            if start.starts_with("DELETE /definitions/Api/z") || start.starts_with("P") { &["if-match: *"] } else { &[] };
        let headers = if start.contains("/z@") { &["if-match: \"0\""][..] } else { headers };
        let answer = write(&gateway, start, headers, body).await;
        assert!(answer.status == status && answer.text().contains(word), "{start}: {} {}", answer.status, answer.text());
        assert_eq!(fs::read(gateway.folder.join("routes/api.yaml")).expect("a file"), before, "{start}");
    }
    let told = write(&gateway, "PUT /definitions/Api/a@v1", &["if-match: *"], &broken).await.json();
    assert_eq!((&told["faults"][0]["file"], &told["faults"][0]["line"]), (&json!("request.yaml"), &json!(5)));
}

#[tokio::test]
async fn a_bundle_is_applied_whole_or_not_at_all() {
    let gateway = gateway().await;
    let bundle = format!("{}---\n{}", numbered("b", 5), numbered("c", 5));
    let told = ask(&gateway, "reader", "POST /validate", &[], &bundle).await.is(200).json();
    assert_eq!((&told["valid"], told["changes"].as_array().map(Vec::len)), (&json!(true), Some(2)));
    let told = ask(&gateway, "reader", "POST /diff?prune", &[], &bundle).await.is(200).json();
    assert!(told["changes"].as_array().expect("a list").iter().any(|it| it["change"] == "removed" && it["name"] == "a"), "{told}");
    let half = format!("{bundle}---\n{}", numbered("d", 5).replace("match: /d", "match: d"));
    write(&gateway, "POST /apply", &[], &half).await.is(422);
    let told = ask(&gateway, "reader", "POST /validate", &[], &half).await.is(200).json();
    assert_eq!(told["valid"], false);
    assert_eq!((n(&gateway, "/b").await, n(&gateway, "/c").await), (Some(1), None));
    write(&gateway, "POST /apply", &["if-match: \"old\""], &bundle).await.is(412);
    write(&gateway, "POST /apply?prune&why=all", &[], &bundle).await.is(200);
    assert_eq!((n(&gateway, "/a").await, n(&gateway, "/b").await, n(&gateway, "/c").await), (None, Some(5), Some(5)));
    // And back.
    let first =
        ask(&gateway, "reader", "GET /history", &[], "").await.json().as_array().and_then(|it| it.last().cloned()).expect("a state");
    write(&gateway, &format!("POST /rollback/{}", first["state"]), &[], "").await.is(200);
    assert_eq!((n(&gateway, "/a").await, n(&gateway, "/b").await, n(&gateway, "/c").await), (Some(1), Some(1), None));
    let last = ask(&gateway, "reader", "GET /history/1", &[], "").await.is(200).json();
    assert_eq!(last["changes"].as_array().map(Vec::len), Some(2), "{last}");
}

#[tokio::test]
async fn faults_of_others_stand_in_nobodys_way() {
    let gateway = gateway().await;
    gateway.folder.write("routes/broken.yaml", "kind: Apii\n");
    while ask(&gateway, "reader", "GET /ready?verbose", &[], "").await.json()["faults"] == json!([]) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    write(&gateway, "PUT /definitions/Api/a@v1", &["if-match: *"], &numbered("a", 9)).await.is(200);
    assert_eq!(n(&gateway, "/a").await, Some(9));
}

#[tokio::test]
async fn who_may_not_write_changes_nothing() {
    let gateway = gateway().await;
    let body = numbered("a", 7);
    for (token, status) in [("reader", 403), ("wrong", 401)] {
        ask(&gateway, token, "PUT /definitions/Api/a@v1", &["if-match: *"], &body).await.is(status);
        ask(&gateway, token, "POST /apply", &[], &body).await.is(status);
        ask(&gateway, token, "POST /rollback/1", &[], "").await.is(status);
    }
    let open = Gateway::serving(&numbered("a", 1)).await;
    let told = wire::ask(open.admin, "PUT /definitions/Api/a@v1", &["host: localhost", "if-match: *"], &body).await.is(403);
    assert!(told.text().contains("admin.tokens"), "{}", told.text());
    wire::ask(open.admin, "GET /definitions", &["host: localhost", "origin: https://evil.example"], "").await.is(403);
    wire::ask(open.admin, "GET /definitions", &["host: evil.example"], "").await.is(403);
    wire::ask(open.admin, "GET /definitions", &["host: localhost"], "").await.is(200);
    assert_eq!((n(&gateway, "/a").await, n(&open, "/a").await), (Some(1), Some(1)));
}

#[tokio::test]
async fn who_guesses_tokens_is_slowed_down() {
    let gateway = gateway().await;
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(ask(&gateway, "wrong", "GET /definitions", &[], "").await.status);
    }
    assert!(seen.starts_with(&[401; 10]) && seen.contains(&429), "{seen:?}");
    assert_eq!(ask(&gateway, "writer", "GET /definitions", &[], "").await.status, 429, "a right guess would tell");
    wire::ask(gateway.admin, "GET /live", &["host: x"], "").await.is(200);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    ask(&gateway, "writer", "GET /definitions", &[], "").await.is(200);
}

#[tokio::test]
async fn a_secret_in_plain_sight_is_not_shown_and_not_written_back() {
    let app = "kind: App\nname: shop\ncredentials: [{api_key: s3cr3t}]\n";
    let gateway = setup(&format!("{}---\n{app}", numbered("a", 1))).start().await;
    let shown = ask(&gateway, "reader", "GET /definitions/App/shop", &["accept: application/yaml"], "").await.is(200).text();
    assert!(shown.contains("***") && !shown.contains("s3cr3t"), "{shown}");
    let told = write(&gateway, "PUT /definitions/App/shop", &["if-match: *"], &shown).await.is(422).text();
    assert!(told.contains("hidden-secret"), "{told}");
    let diff = ask(&gateway, "reader", "POST /diff", &[], &app.replace("s3cr3t", "other")).await.is(200).text();
    assert!(!diff.contains("s3cr3t") && !diff.contains("other"), "{diff}");
}

#[tokio::test]
async fn many_writers_lose_nothing() {
    let gateway = gateway().await;
    let put = |name: String| {
        let gateway = &gateway;
        async move {
            loop {
                let it = write(gateway, &format!("PUT /definitions/Api/{name}@v1"), &[], &numbered(&name, 3)).await;
                match it.status {
                    429 => tokio::time::sleep(Duration::from_millis(300)).await,
                    status => return (name, status),
                }
            }
        }
    };
    let all = futures_of((0..12).map(|it| put(format!("w{it}")))).await;
    for (name, status) in all {
        assert_eq!((status, n(&gateway, &format!("/{name}")).await), (200, Some(3)), "{name}");
    }
    let listed: Value = ask(&gateway, "reader", "GET /definitions", &[], "").await.json();
    assert_eq!(listed["definitions"].as_array().map(Vec::len), Some(14));
}

/// All of them, side by side on this thread.
async fn futures_of<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|cx| {
        for (it, out) in &mut all {
            if out.is_none()
                && let std::task::Poll::Ready(done) = it.as_mut().poll(cx)
            {
                *out = Some(done);
            }
        }
        if all.iter().all(|it| it.1.is_some()) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|it| it.1).collect()
}
