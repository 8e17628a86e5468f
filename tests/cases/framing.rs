//! Requests whose framing cannot be trusted: refused, closed, never passed on.
use tests::{
    backend::Backend,
    harness::{Gateway, echo_api},
    message::latin1,
};

async fn gateway() -> (Gateway, Backend) {
    let backend = Backend::echo().await;
    (Gateway::serving(&echo_api(backend.address, "/{all...}", "")).await, backend)
}

/// Sends bytes, and expects one answer of such a status, then the end of the connection.
async fn refused(gateway: &Gateway, bytes: impl AsRef<[u8]>, statuses: &[u16]) {
    let bytes = bytes.as_ref();
    let shown = latin1(&bytes[..bytes.len().min(200)]);
    let mut wire = gateway.wire().await;
    wire.send(bytes).await;
    let said = wire.rest().await;
    let text = latin1(&said);
    // A connection closed without a word refuses too, where no request could be read.
    if text.is_empty() && statuses.contains(&0) {
        return;
    }
    let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!(statuses.contains(&status), "{shown:?} is answered {text:?}");
    let heads =
        text.match_indices("HTTP/1.1 ").filter(|(at, it)| text[at + it.len()..].starts_with(|it: char| it.is_ascii_digit())).count();
    assert_eq!(heads, 1, "one answer to {shown:?}: {text:?}");
}

#[tokio::test]
async fn ambiguous_framing_is_refused_and_the_connection_closed() {
    let (gateway, backend) = gateway().await;
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for headers in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "content-length: -5",
        "content-length: 5 5",
        "content-length: 0x5",
        "content-length: 99999999999999999999999",
        "content-length:",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity, chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: \x0bchunked",
        "transfer-encoding : chunked",
        "content-length : 5",
        " content-length: 5",
        "transfer-encoding:\r\n chunked",
        "x-folded: a\r\n b",
        "x-bare: a\rb",
        "x-nul: a\0b",
        "x bad: 1",
        "no colon",
        ": empty name",
        "x\u{e9}: latin",
    ] {
        let text = format!("POST /a HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n{smuggled}");
        let bytes: Vec<u8> = text.chars().map(|it| it as u8).collect();
        refused(&gateway, bytes, &[400, 501]).await;
    }
    let passed: Vec<String> = backend.seen().iter().map(|it| it.head.line.clone()).collect();
    assert_eq!(passed, Vec::<String>::new(), "nothing reaches the backend");
}

#[tokio::test]
async fn bad_chunks_are_refused() {
    let (gateway, backend) = gateway().await;
    for chunks in [
        "x\r\n\r\n",
        "-1\r\n\r\n",
        "+1\r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "1 \r\nab\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\na\n0\n\n",
        "fffffffffffffffff\r\n",
        "\r\n",
        ";x\r\n",
    ] {
        let mut wire = gateway.wire().await;
        wire.send(format!("POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")).await;
        let text = latin1(&wire.rest().await);
        assert!(text.starts_with("HTTP/1.1 400 "), "{chunks:?} is answered {text:?}");
        let heads =
            text.match_indices("HTTP/1.1 ").filter(|(at, it)| text[at + it.len()..].starts_with(|it: char| it.is_ascii_digit())).count();
        assert_eq!(heads, 1, "{chunks:?}: {text:?}");
    }
    assert!(backend.seen().iter().all(|it| !it.content.complete), "no backend took a broken body for a whole one");
}

#[tokio::test]
async fn a_start_line_that_is_none_is_refused() {
    let (gateway, backend) = gateway().await;
    for line in [
        "GET /a",
        "GET  /a HTTP/1.1",
        "GET /a HTTP/1.1 x",
        "GET /a b HTTP/1.1",
        "GET /a HTTP/1.2x",
        "GET /a HTTP/3.0",
        "GE\tT /a HTTP/1.1",
        "G(T /a HTTP/1.1",
        " GET /a HTTP/1.1",
        "GET a HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /a\x01b HTTP/1.1",
        "CONNECT example.com:443 HTTP/1.1",
    ] {
        refused(&gateway, format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n"), &[400, 404, 405, 501, 505, 0]).await;
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_request_names_exactly_one_host() {
    let (gateway, backend) = gateway().await;
    for headers in ["", "host: a\r\nhost: b\r\n", "host: a b\r\n", "host: a/b\r\n", "host: a@b\r\n", "host: a,b\r\n"] {
        refused(&gateway, format!("GET /a HTTP/1.1\r\n{headers}connection: close\r\n\r\n"), &[400]).await;
    }
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn an_absolute_target_names_the_host_itself() {
    let (gateway, backend) = gateway().await;
    let mut wire = gateway.wire().await;
    wire.send("GET http://shop.example.com/a?x HTTP/1.1\r\nhost: shop.example.com\r\n\r\n").await;
    wire.answer().await.is(200);
    let head = backend.last().head;
    assert_eq!((head.target(), head.get("host")), ("/a?x", Some("shop.example.com")), "RFC 9112, 3.2.2");
}

#[tokio::test]
async fn what_is_too_long_is_refused_by_name() {
    let (gateway, backend) = gateway().await;
    refused(&gateway, format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(9_000)), &[414]).await;
    refused(&gateway, format!("GET /a HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "a".repeat(40_000)), &[431]).await;
    refused(&gateway, format!("GET /a HTTP/1.1\r\nhost: x\r\n{}\r\n", "x-many: 1\r\n".repeat(150)), &[431]).await;
    refused(&gateway, "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999999\r\n\r\n", &[413]).await;
    assert_eq!(backend.seen().len(), 0);
}

#[tokio::test]
async fn a_body_over_the_limit_of_its_api_is_413() {
    let backend = Backend::echo().await;
    let gateway = Gateway::serving(&echo_api(backend.address, "", "inbound: {match: POST /a, body: {max_size: 1KiB}}")).await;
    gateway.ask("POST /a", &[], "x".repeat(1024)).await.is(200);
    gateway.ask("POST /a", &[], "x".repeat(1025)).await.is(413);
    let chunks = format!("{:x}\r\n{}\r\n0\r\n\r\n", 2000, "x".repeat(2000));
    gateway.ask("POST /a", &["transfer-encoding: chunked"], chunks).await.is(413);
    assert!(backend.seen().iter().all(|it| it.content.bytes.len() <= 1024 || !it.content.complete));
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_turn() {
    let (gateway, _backend) = gateway().await;
    let mut wire = gateway.wire().await;
    wire.send(
        "POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nhost: x\r\n\r\nGET /3 HTTP/1.1\r\nhost: x\r\n\r\n",
    )
    .await;
    for target in ["/1", "/2", "/3"] {
        assert_eq!(wire.answer().await.is(200).json()["target"], target);
    }
}

#[tokio::test]
async fn http_1_0_is_answered_in_its_way() {
    let (gateway, backend) = gateway().await;
    let mut wire = gateway.wire().await;
    wire.send("GET /a HTTP/1.0\r\nhost: x\r\n\r\n").await;
    let answer = wire.answer().await.is(200);
    assert_eq!(answer.head.all("transfer-encoding").len(), 0);
    assert!(wire.ended().await);
    assert!(backend.last().head.line.ends_with("HTTP/1.1"));
}

#[tokio::test]
async fn a_head_that_never_ends_is_408() {
    let backend = Backend::echo().await;
    let gateway = Gateway::with(&echo_api(backend.address, "/a", ""))
        .settings("limits: {request: {head_time: 200ms}, drain: {wait: 1ms, time: 2s}}")
        .start()
        .await;
    let mut wire = gateway.wire().await;
    wire.send("GET /a HTTP/1.1\r\nhost: x\r\n").await;
    let text = latin1(&wire.rest().await);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text:?}");
}

#[tokio::test]
async fn nothing_a_client_sends_kills_the_gateway() {
    let (gateway, _backend) = gateway().await;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let whole = b"POST /a?x=1 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for _ in 0..300 {
        let mut bytes = whole.to_vec();
        for _ in 0..1 + next() % 4 {
            let at = (next() % bytes.len() as u64) as usize;
            match next() % 3 {
                0 => bytes[at] = next() as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"\r\n\0 :%;0"[(next() % 8) as usize]),
            }
        }
        let mut wire = gateway.wire().await;
        wire.send(bytes).await;
        wire.reset();
    }
    gateway.get("/a").await.is(200);
}
