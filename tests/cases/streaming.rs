//! What flows: bodies with backpressure, events, trailers, interim answers, upgrades, and clients that leave.
use std::time::Duration;

use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    harness::{Gateway, echo_api},
    message::latin1,
    websocket::{CLOSE, Frame, opening},
    wire::request,
};

async fn gateway(behaviour: Behaviour) -> (Gateway, Backend) {
    let backend = Backend::start(behaviour).await;
    (Gateway::serving(&echo_api(backend.address, "/{all...}", "")).await, backend)
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn events_are_passed_one_by_one_as_they_come() {
    let (gateway, _backend) = gateway(Behaviour::Sse { every: SECOND, events: 3 }).await;
    let mut wire = gateway.wire().await;
    let begun = std::time::Instant::now();
    wire.send(request("GET /events", &["accept: text/event-stream"], "")).await;
    assert_eq!(wire.head().await.get("content-type"), Some("text/event-stream"));
    assert_eq!(latin1(&wire.chunk().await), "id: 1\ndata: event 1\n\n");
    assert!(begun.elapsed() < SECOND, "the first event does not wait for the second");
    assert_eq!(latin1(&wire.chunk().await), "id: 2\ndata: event 2\n\n");
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_ends_it_at_the_backend() {
    for behaviour in [Behaviour::Sse { every: SECOND / 20, events: usize::MAX }, Behaviour::Stall, Behaviour::StallsInside] {
        let (gateway, backend) = gateway(behaviour).await;
        let mut wire = gateway.wire().await;
        wire.send(request("GET /events", &[], "")).await;
        backend.asked(1).await;
        wire.reset();
        backend.left(1).await;
    }
}

#[tokio::test]
async fn trailers_of_an_answer_pass() {
    let (gateway, _backend) = gateway(Behaviour::Trailers).await;
    let answer = gateway.ask("GET /a", &["te: trailers", "connection: te"], "").await.is(200);
    assert_eq!(answer.text(), "hello world");
    assert_eq!(answer.trailers, [("x-checksum".to_string(), "5eb63bbb".to_string()), ("x-rows".to_string(), "2".to_string())]);
}

#[tokio::test]
async fn early_hints_pass_before_the_answer() {
    let (gateway, _backend) = gateway(Behaviour::EarlyHints).await;
    let answer = gateway.get("/a").await.is(200);
    let hints: Vec<_> = answer.interim.iter().map(|it| (it.status(), it.get("link"))).collect();
    assert_eq!(hints, [(103, Some("</style.css>; rel=preload; as=style"))]);
}

#[tokio::test]
async fn a_client_that_expects_100_is_told_to_go_on() {
    let (gateway, backend) = gateway(Behaviour::Echo).await;
    let mut wire = gateway.wire().await;
    wire.send("POST /a HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
    assert_eq!(wire.head().await.status(), 100);
    wire.send("hello").await;
    wire.answer().await.is(200);
    assert_eq!(backend.last().content.bytes, b"hello");
}

#[tokio::test]
async fn a_refused_client_that_expects_100_never_sends_its_body() {
    let (gateway, _backend) = gateway(Behaviour::Echo).await;
    let mut wire = gateway.wire().await;
    wire.send("POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n").await;
    let answer = wire.answer().await.is(404);
    assert!(answer.interim.is_empty());
}

#[tokio::test]
async fn an_answer_may_come_before_the_body_is_sent() {
    let early = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
    let (gateway, _backend) = gateway(Behaviour::Script(vec![Step::ReadHead, Step::send(early), Step::Wait(SECOND / 2)])).await;
    let mut wire = gateway.wire().await;
    wire.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nstart").await;
    assert_eq!(wire.answer().await.is(403).text(), "no");
}

#[tokio::test]
async fn a_request_is_passed_on_while_it_is_still_being_sent() {
    let (gateway, backend) = gateway(Behaviour::Script(vec![Step::ReadHead, Step::Hold])).await;
    let mut wire = gateway.wire().await;
    wire.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nstart").await;
    backend.asked(1).await;
}

#[tokio::test]
async fn a_slow_reader_holds_the_backend_back() {
    // Sends until it is stopped: without backpressure the gateway would take all of it.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut steps = vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")];
    steps.extend(std::iter::repeat_n(Step::send(&chunk), 2000));
    steps.extend([Step::send("0\r\n\r\n"), Step::ReadHead]);
    let (gateway, backend) = gateway(Behaviour::Script(steps)).await;
    let mut wire = gateway.wire().await;
    wire.send(request("GET /big", &[], "")).await;
    assert_eq!(wire.head().await.status(), 200);
    tokio::time::sleep(SECOND).await;
    // 125 MiB were asked for; what the kernel's buffers hold may be on its way, the rest waits.
    let report = gateway.admin("/metrics").await.is(200).text();
    let sent = metric(&report, "process_resident_memory_bytes");
    assert!(sent.is_none_or(|it| it < 400e6), "{sent:?}");
    wire.reset();
    let _ = backend;
}

fn metric(report: &str, name: &str) -> Option<f64> {
    report.lines().find(|it| it.starts_with(name))?.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn websocket_is_a_raw_tunnel() {
    let (gateway, backend) = gateway(Behaviour::Websocket).await;
    let mut wire = gateway.wire().await;
    wire.send(opening("/ws?room=1")).await;
    let head = wire.head().await;
    assert_eq!((head.status(), head.get("sec-websocket-accept")), (101, Some(tests::websocket::ACCEPT)));
    assert_eq!(backend.last().head.target(), "/ws?room=1");
    for payload in ["hello", "", &"x".repeat(100_000)] {
        let frame = Frame::text(payload);
        wire.send(frame.masked()).await;
        let expected = frame.unmasked();
        assert_eq!(wire.exactly(expected.len()).await, expected);
    }
    let close = Frame { opcode: CLOSE, payload: vec![0x03, 0xe8] };
    wire.send(close.masked()).await;
    assert_eq!(wire.rest().await, close.unmasked());
}

#[tokio::test]
async fn a_tunnel_ends_when_either_side_goes() {
    let (gateway, backend) = gateway(Behaviour::Websocket).await;
    let mut wire = gateway.wire().await;
    wire.send(opening("/ws")).await;
    assert_eq!(wire.head().await.status(), 101);
    wire.reset();
    backend.left(1).await;

    let mut wire = gateway.wire().await;
    wire.send(opening("/ws")).await;
    assert_eq!(wire.head().await.status(), 101);
    drop(backend);
    assert!(wire.ended().await);
}

#[tokio::test]
async fn an_upgrade_that_is_refused_is_an_ordinary_answer() {
    let (gateway, _backend) = gateway(Behaviour::answers("403 Forbidden", &[], "no")).await;
    let mut wire = gateway.wire().await;
    wire.send(opening("/ws")).await;
    assert_eq!(wire.answer().await.is(403).text(), "no");
}

#[tokio::test]
async fn other_upgrades_do_not_pass() {
    let (gateway, backend) = gateway(Behaviour::Echo).await;
    for upgrade in ["h2c", "TLS/1.0", "foo"] {
        let headers =
            ["connection: upgrade, http2-settings".to_string(), format!("upgrade: {upgrade}"), "http2-settings: AAMAAABkAAQAAP__".into()];
        gateway.ask("GET /a", &headers.each_ref().map(String::as_str), "").await.is(200);
        let head = backend.last().head;
        assert_eq!((head.get("upgrade"), head.get("http2-settings")), (None, None), "{upgrade}");
    }
}
