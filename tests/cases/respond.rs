//! Answers that need no backend, and the shape that `outbound` gives to those of one.
use tests::{
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, echo_api, fill},
};

async fn gateway(proxy: &str) -> Gateway {
    let text =
        "kind: Api\ninfo: {name: a, version: v1}\ninbound: {match: \"/a/{x}\", params: {x: {in: path, type: string}}}\nproxy:\n  $1\n";
    Gateway::serving(&fill(text, &[&proxy])).await
}

#[tokio::test]
async fn respond_answers_what_is_written() {
    let it =
        gateway("respond: {status: 201, headers: {x-a: \"b ${params.x}\"}, body: {hello: \"${params.x}\", n: 1, none: \"${query.none}\"}}")
            .await;
    let answer = it.get("/a/w%22").await.is(201);
    assert_eq!(answer.header("x-a"), Some("b w\""));
    assert_eq!(answer.text(), r#"{"hello":"w\"","n":1,"none":null}"#);
    assert!(answer.header("content-type").is_some_and(|it| it.starts_with("application/json")));
    assert!(answer.header("x-request-id").is_some());
}

#[tokio::test]
async fn respond_without_a_body_has_none() {
    let answer = gateway("respond: {status: 204}").await.get("/a/x").await.is(204);
    assert_eq!((answer.body.len(), answer.header("content-length")), (0, None));
}

#[tokio::test]
async fn respond_reads_and_drops_the_requests_body() {
    let it = gateway("respond: {status: 200, body: {ok: true}}").await;
    let mut wire = it.wire().await;
    for _ in 0..2 {
        wire.send(tests::wire::request("POST /a/x", &[], "x".repeat(50_000))).await;
        wire.answer().await.is(200);
    }
}

#[tokio::test]
async fn redirect_leads_elsewhere() {
    for (proxy, status, target, location) in [
        ("redirect: {to: \"https://www.example.com${request.path}\"}", None, "/a/b%2Fc", "https://www.example.com/a/b%2Fc"),
        ("redirect: {to: \"https://www.example.com${request.path}\", status: 301}", Some(301), "/a/b", "https://www.example.com/a/b"),
        ("redirect: {to: \"/new/${params.x}?from=${params.x}\", status: 302}", Some(302), "/a/b%26c%20d", "/new/b%26c%20d?from=b%26c%20d"),
    ] {
        let answer = gateway(proxy).await.get(target).await;
        assert_eq!(answer.header("location"), Some(location));
        assert!(status.map_or(answer.status == 302, |it| it == answer.status), "{}", answer.status);
    }
}

#[tokio::test]
async fn outbound_dresses_the_answers_of_a_backend() {
    let backend = Backend::start(Behaviour::answers("200 OK", &["server: nginx", "x-powered-by: php", "x-a: 1"], "{}")).await;
    let more = "outbound: {headers: {set: {x-served-by: allium}, add: {x-a: \"2\"}, remove: [server, x-powered-by]}}";
    let answer = Gateway::serving(&echo_api(backend.address, "/a", more)).await.get("/a").await.is(200);
    assert_eq!((answer.header("server"), answer.header("x-powered-by"), answer.header("x-served-by")), (None, None, Some("allium")));
    assert_eq!(answer.head.all("x-a"), ["1", "2"]);
}

#[tokio::test]
async fn outbound_body_gives_the_answer_its_shape() {
    let backend = Backend::start(Behaviour::answers(
        "200 OK",
        &["content-type: application/json"],
        r#"{"user":{"id":12345678901234567890,"x":[]},"rest":1}"#,
    ))
    .await;
    let more = "outbound: {body: {customer: \"${response.body.user}\", status: \"${response.status}\"}}";
    let answer = Gateway::serving(&echo_api(backend.address, "/a", more)).await.get("/a").await.is(200);
    assert_eq!(answer.text(), r#"{"customer":{"id":12345678901234567890,"x":[]},"status":200}"#);
}
