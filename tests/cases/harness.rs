//! The harness judged by itself: what it lets pass unseen, no other case would see.
use std::time::Duration;

use tests::{
    backend::Backend,
    behaviour::{Behaviour, Step},
    client::Client,
    message::Framing,
    websocket::{Frame, opening},
    wire::{Wire, ask, request},
};

#[tokio::test]
async fn echo_shows_every_byte() {
    let backend = Backend::echo().await;
    let body: Vec<u8> = (0..=255).collect();
    let answer = ask(backend.address, "POST /a%2Fb?x=%zz&&y", &["X-One: 1", "x-one:  2 ", "x-\u{e9}: y"], &body).await.is(200);
    let seen = answer.json();
    assert_eq!(seen["line"], "POST /a%2Fb?x=%zz&&y HTTP/1.1");
    assert_eq!(seen["headers"][1], serde_json::json!(["X-One", "1"]));
    assert_eq!(seen["headers"][2], serde_json::json!(["x-one", "2"]));
    assert_eq!(seen["body_hex"].as_str().map(str::len), Some(512));
    assert_eq!(backend.last().content.bytes, body);
    assert!(backend.nonsense().is_empty());
}

#[tokio::test]
async fn a_request_framed_twice_is_nonsense() {
    let backend = Backend::echo().await;
    let mut wire = Wire::open(backend.address).await;
    wire.send(request("POST /", &["transfer-encoding: chunked", "content-length: 3"], "0\r\n\r\n")).await;
    assert!(wire.rest().await.is_empty());
    assert_eq!(backend.nonsense().len(), 1);
}

#[tokio::test]
async fn a_cut_answer_is_told_from_a_whole_one() {
    for (behaviour, complete) in [
        (Behaviour::Truncates, false),
        (Behaviour::TruncatesChunks, false),
        (Behaviour::Trailers, true),
        (Behaviour::answers("200 OK", &[], "x"), true),
        (Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\n\r\nto the end")]), true),
    ] {
        let backend = Backend::start(behaviour.clone()).await;
        assert_eq!(ask(backend.address, "GET /", &[], "").await.complete, complete, "{behaviour:?}");
    }
}

#[tokio::test]
async fn trailers_and_interim_answers_are_seen() {
    let backend = Backend::start(Behaviour::Trailers).await;
    let answer = ask(backend.address, "GET /", &[], "").await;
    assert_eq!((answer.text().as_str(), answer.framing), ("hello world", Framing::Chunked));
    assert_eq!(answer.trailers[1], ("x-rows".to_string(), "2".to_string()));

    let backend = Backend::start(Behaviour::EarlyHints).await;
    let answer = ask(backend.address, "GET /", &[], "").await;
    assert_eq!(answer.interim.iter().map(|it| it.status()).collect::<Vec<_>>(), [103]);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    for behaviour in [Behaviour::Stall, Behaviour::Slow(Duration::from_secs(60)), Behaviour::StallsInside] {
        let backend = Backend::start(behaviour).await;
        let mut wire = Wire::open(backend.address).await;
        wire.send(request("GET /", &[], "")).await;
        backend.asked(1).await;
        wire.reset();
        backend.left(1).await;
    }
}

#[tokio::test]
async fn websocket_echoes_frames_of_every_length() {
    let backend = Backend::start(Behaviour::Websocket).await;
    let mut wire = Wire::open(backend.address).await;
    wire.send(opening("/ws")).await;
    assert_eq!(wire.head().await.status(), 101);
    for n in [0, 125, 126, 65_535, 65_536] {
        let frame = Frame::text(&"x".repeat(n));
        wire.send(frame.masked()).await;
        let expected = frame.unmasked();
        assert_eq!(wire.exactly(expected.len()).await, expected, "{n}");
    }
}

#[tokio::test]
async fn hyper_understands_the_echo() {
    let backend = Backend::echo().await;
    let mut client = Client::open(backend.address).await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.expect("an answer").status(), 200);
    }
    assert_eq!(backend.seen().last().map(|it| it.connection), Some(0));
}
