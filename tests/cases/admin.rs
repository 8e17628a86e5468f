//! What can be seen from outside: health, metrics, and who may look.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api},
    wire::ask,
};

async fn gateway() -> (Gateway, Backend) {
    let backend = Backend::echo().await;
    (Gateway::serving(&echo_api(backend.address, "GET /a/{id}", "")).await, backend)
}

#[tokio::test]
async fn it_says_that_it_lives_and_is_ready() {
    let (gateway, _backend) = gateway().await;
    for target in ["/live", "/ready"] {
        gateway.admin(target).await.is(200);
    }
    let report = gateway.report().await;
    assert!(report["revision"].is_string() && report["faults"].as_array().is_some_and(Vec::is_empty), "{report}");
}

#[tokio::test]
async fn health_is_not_served_to_the_public() {
    let (gateway, _backend) = gateway().await;
    for target in ["/live", "/ready", "/metrics"] {
        gateway.get(target).await.is(404);
    }
}

#[tokio::test]
async fn metrics_are_prometheus_text_and_name_the_route_never_the_path() {
    let (gateway, _backend) = gateway().await;
    for id in 0..3 {
        gateway.get(&format!("/a/secret-{id}")).await.is(200);
    }
    let answer = gateway.admin("/metrics").await.is(200);
    assert!(answer.header("content-type").is_some_and(|it| it.contains("text")), "{:?}", answer.head);
    let text = gateway.figures(&["\nallium_requests_total{api=\"a\",version=\"v1\",method=\"GET\",status=\"200\"} 3\n"]).await;
    assert!(text.contains("# TYPE ") && !text.contains("secret-"), "{text}");
}

#[tokio::test]
async fn without_tokens_only_local_readers_are_answered() {
    let (gateway, _backend) = gateway().await;
    for (headers, status) in [
        (&["host: localhost"][..], 200),
        (&["host: 127.0.0.1:9080"], 200),
        (&["host: [::1]:9080"], 200),
        (&["host: evil.example.com"], 403),
        (&["host: localhost.evil.example.com"], 403),
        (&["host: localhost", "origin: https://evil.example.com"], 403),
        (&["host: localhost", "sec-fetch-site: cross-site"], 403),
    ] {
        let answer = ask(gateway.admin, "GET /ready", headers, "").await;
        assert_eq!(answer.status, status, "{headers:?}");
    }
}

#[tokio::test]
async fn an_occupied_address_is_said_at_the_start() {
    let (gateway, _backend) = gateway().await;
    let second = Gateway::with("kind: Plan\nname: p\nrate: 1/s\n").settings(&format!("status: {{address: \"{}\"}}", gateway.admin));
    let why = second.try_start().await.err().expect("the port is taken");
    assert!(why.contains(&gateway.admin.port().to_string()), "{why}");
}

#[tokio::test]
async fn a_stop_lets_requests_end() {
    let backend = Backend::start(tests::behaviour::Behaviour::Slow(std::time::Duration::from_millis(500))).await;
    let gateway = Gateway::serving(&echo_api(backend.address, "/a", "")).await;
    let mut wire = gateway.wire().await;
    wire.send(tests::wire::request("GET /a", &[], "")).await;
    backend.asked(1).await;
    let (answer, ()) = tokio::join!(wire.answer(), gateway.stop());
    answer.is(200);
}

#[tokio::test]
async fn one_address_that_holds_connections_shuts_nobody_else_out() {
    let (gateway, _backend) = gateway().await;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(tokio::net::TcpStream::connect(gateway.admin).await.expect("a connection"));
    }
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 2], 0).into()).expect("another address of this machine");
    let mut other = socket.connect(gateway.admin).await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut other, b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("a request");
    let mut answer = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut other, &mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(held);
}
