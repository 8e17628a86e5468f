//! Clients of HTTP/2 that mean no good: each kind of flood ends its connection, is counted, and leaves the others alone.
use std::time::Duration;

use tests::{
    backend::Backend,
    behaviour::Behaviour,
    frames::{
        self, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS,
        frame,
    },
    harness::{Gateway, echo_api},
};
use tokio::time::timeout;

const LIMITS: &str = "limits: {request: {head_time: 300ms}, connection: {idle: 400ms, write_stall: 300ms}, \
    http2: {resets: 20, resets_in_all: 30, control: 20, empty_data: 20, continuations: 4}, drain: {wait: 1ms, time: 2s}}";

async fn gateway(behaviour: Behaviour, limits: &str) -> (Gateway, Backend) {
    let backend = Backend::start(behaviour).await;
    (Gateway::with(&echo_api(backend.address, "/{rest...}", "")).settings(limits).start().await, backend)
}

/// What ended a connection, and that the figure of `reason` tells.
async fn ended(gateway: &Gateway, raw: &mut Frames, reason: &str) {
    let goodbye = raw.until(&[GOAWAY]).await.unwrap_or_else(|| panic!("{reason}: no goodbye"));
    assert_eq!(goodbye.code(), CALM, "{reason}");
    gateway.figures(&[&format!("reason=\"{reason}\"}} 1")]).await;
    assert!(gateway.get("/x").await.status == 200, "{reason}: others are served");
}

#[tokio::test]
async fn floods_of_frames_end_their_connection() {
    let post = frames::block(&[(":method", b"POST"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/x")]);
    let begin = frame(HEADERS, END_HEADERS, 1, &post);
    let repeated = |first: Vec<u8>, each: Vec<u8>| [first, each.repeat(40)].concat();
    let part = frame(CONTINUATION, 0, 1, &frames::block(&[("x", b"1")]));
    for (reason, bytes) in [
        ("pings", repeated(vec![], frame(PING, 0, 0, &[0; 8]))),
        ("settings", repeated(vec![], frame(SETTINGS, 0, 0, &[]))),
        ("priorities", repeated(vec![], frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 0]))),
        ("empty_data", repeated(begin, frame(DATA, 0, 1, &[]))),
        ("continuations", repeated(frame(HEADERS, 0, 1, &frames::get("/x", &[])), part)),
    ] {
        let (gateway, _backend) = gateway(Behaviour::Echo, LIMITS).await;
        let mut raw = Frames::open(gateway.address).await;
        raw.send(&bytes).await;
        ended(&gateway, &mut raw, reason).await;
    }
}

#[tokio::test]
async fn rapid_resets_end_their_connection_and_leave_no_work_behind() {
    let (gateway, backend) = gateway(Behaviour::Echo, LIMITS).await;
    let mut raw = Frames::open(gateway.address).await;
    let mut bytes = Vec::new();
    for stream in (1..80).step_by(2) {
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &frames::get("/x", &[])));
        bytes.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    raw.send(&bytes).await;
    ended(&gateway, &mut raw, "resets").await;
    assert!(backend.seen().len() <= 21, "{}", backend.seen().len());
}

#[tokio::test]
async fn resets_are_counted_for_the_whole_life_of_a_connection() {
    let (gateway, _backend) = gateway(Behaviour::Echo, &LIMITS.replace("resets: 20", "resets: 1000")).await;
    let mut raw = Frames::open(gateway.address).await;
    for stream in (1..80).step_by(2) {
        raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &frames::get("/x", &[]))).await;
        raw.send(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    ended(&gateway, &mut raw, "resets").await;
}

#[tokio::test]
async fn a_head_that_drips_in_has_its_time() {
    for bytes in [frame(HEADERS, 0, 1, &frames::get("/x", &[])), frame(HEADERS, END_HEADERS, 1, &frames::get("/x", &[]))[..20].to_vec()] {
        let (gateway, _backend) = gateway(Behaviour::Echo, LIMITS).await;
        let mut raw = Frames::open(gateway.address).await;
        raw.send(&bytes).await;
        ended(&gateway, &mut raw, "slow_head").await;
    }
    let (gateway, _backend) = gateway(Behaviour::Echo, LIMITS).await;
    let mut raw = Frames(tokio::net::TcpStream::connect(gateway.address).await.expect("a listener"));
    raw.send(&PREFACE[..20]).await;
    while raw.next().await.is_some() {}
    gateway.figures(&["reason=\"slow_head\"} 1"]).await;
}

#[tokio::test]
async fn an_idle_connection_is_told_goodbye() {
    let (gateway, _backend) = gateway(Behaviour::Echo, LIMITS).await;
    let mut raw = Frames::open(gateway.address).await;
    raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &frames::get("/x", &[]))).await;
    let goodbye = raw.until(&[GOAWAY]).await.expect("a goodbye");
    assert_eq!(goodbye.code(), 0);
    // It closes, though nobody acknowledges anything.
    timeout(Duration::from_secs(8), async { while raw.next().await.is_some() {} }).await.expect("an end");
}

#[tokio::test]
async fn a_window_that_never_opens_does_not_hold_an_answer_for_ever() {
    let (gateway, backend) = gateway(Behaviour::Sse { every: Duration::from_millis(30), events: usize::MAX }, LIMITS).await;
    let mut raw = Frames::open(gateway.address).await;
    raw.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10])).await;
    raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &frames::get("/x", &[]))).await;
    assert_eq!(raw.until(&[RST_STREAM]).await.expect("a reset").code(), 8);
    backend.left(1).await;
}

#[tokio::test]
async fn heads_beyond_their_bounds_are_answered_and_bombs_are_not_unpacked() {
    let (gateway, backend) = gateway(Behaviour::Echo, LIMITS).await;
    let long = vec![b'x'; 9 << 10];
    let many: Vec<(&str, &[u8])> = vec![("x", b"1"); 101];
    let crumbs: Vec<(&str, &[u8])> = vec![("cookie", b"a=1"); 101];
    for (what, head) in
        [("a long line", frames::get("/x", &[("x", &long)])), ("many", frames::get("/x", &many)), ("crumbs", frames::get("/x", &crumbs))]
    {
        let mut raw = Frames::open(gateway.address).await;
        raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)).await;
        let answer = raw.until(&[HEADERS, RST_STREAM, GOAWAY]).await.expect(what);
        assert!(answer.kind == HEADERS && !answer.is_ok(), "{what}: {answer:?}");
    }
    gateway.figures(&["allium_refused_total{reason=\"headers_too_large\"} 1", "allium_refused_total{reason=\"too_many_headers\"} 2"]).await;
    // One field of 4000 bytes into the table, and then a byte for each further copy of it: 60 MB out of 20 KB.
    let mut bomb = frames::get("/x", &[]);
    bomb.push(0x40);
    let field = frames::block(&[("x-bomb", &[b'b'; 4000])]);
    bomb.extend(&field[1..]);
    bomb.extend([0xbe; 12_000]);
    let mut raw = Frames::open(gateway.address).await;
    raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)).await;
    let answer = raw.until(&[HEADERS, RST_STREAM, GOAWAY]).await.expect("an answer");
    assert!(!answer.is_ok(), "{answer:?}");
    assert_eq!(backend.seen().len(), 0);
}
