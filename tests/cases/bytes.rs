//! What passes through unchanged, to the byte.
use tests::{
    backend::Backend,
    behaviour::Behaviour,
    harness::{Gateway, echo_api},
    message::{Framing, latin1},
    wire::request,
};

async fn gateway(behaviour: Behaviour) -> (Gateway, Backend) {
    let backend = Backend::start(behaviour).await;
    (Gateway::serving(&echo_api(backend.address, "/{all...}", "")).await, backend)
}

#[tokio::test]
async fn query_strings_and_paths_arrive_as_they_were_sent() {
    let (gateway, backend) = gateway(Behaviour::Echo).await;
    for target in [
        "/a?",
        "/a??",
        "/a?x",
        "/a?x=&=y&&",
        "/a?b=2&a=1&b=1",
        "/a?x=%zz%2",
        "/a?x=a+b%20c%2Bd",
        "/a?x={y}|[z]^`\\",
        "/a?next=https://example.com/?a=b",
        "/a;v=1/b,c/@x:y/!$&'()*+",
        "/a%20b/%E4%BD%A0/%2F%2f/~x",
        "/a//b",
    ] {
        gateway.get(target).await.is(200);
        assert_eq!(backend.last().head.target(), target);
    }
}

#[tokio::test]
async fn header_values_that_are_not_utf8_pass_both_ways() {
    let value: Vec<u8> = (0x80..=0xff).chain([b'x']).collect();
    let (gateway, backend) =
        gateway(Behaviour::Answers([b"HTTP/1.1 200 OK\r\nx-raw: ", value.as_slice(), b"\r\ncontent-length: 0\r\n\r\n"].concat())).await;
    let mut wire = gateway.wire().await;
    wire.send([b"GET /a HTTP/1.1\r\nhost: x\r\nx-raw: ", value.as_slice(), b"\r\n\r\n"].concat()).await;
    let answer = wire.answer().await.is(200);
    assert_eq!(backend.last().head.get("x-raw"), Some(latin1(&value).as_str()));
    assert_eq!(answer.header("x-raw"), Some(latin1(&value).as_str()));
}

#[tokio::test]
async fn repeated_headers_keep_their_number_and_order() {
    let headers = ["set-cookie: b=2", "set-cookie: a=1; Expires=Thu, 01 Apr 2027 00:00:00 GMT", "x-many: 2", "x-many: 1,3", "x-many: 2"];
    let (gateway, backend) = gateway(Behaviour::answers("200 OK", &headers, "")).await;
    let answer =
        gateway.ask("GET /a", &["x-many: 2", "x-other: y", "x-many: 1,3", "x-many: 2", "accept: a", "accept: b"], "").await.is(200);
    assert_eq!(backend.last().head.all("x-many"), ["2", "1,3", "2"]);
    assert_eq!(backend.last().head.all("accept"), ["a", "b"]);
    assert_eq!(answer.head.all("x-many"), ["2", "1,3", "2"]);
    assert_eq!(answer.head.all("set-cookie"), ["b=2", "a=1; Expires=Thu, 01 Apr 2027 00:00:00 GMT"]);
}

#[tokio::test]
async fn an_empty_header_value_stays() {
    let (gateway, backend) = gateway(Behaviour::Echo).await;
    gateway.ask("GET /a", &["x-empty:"], "").await.is(200);
    assert_eq!(backend.last().head.get("x-empty"), Some(""));
}

#[tokio::test]
async fn bodies_arrive_as_they_were_sent() {
    let (gateway, backend) = gateway(Behaviour::Echo).await;
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for body in [&b"x"[..], &b"\r\n\r\n0\r\n\r\n"[..], &b"{\"n\": 1.0e+2, \"n\": 12345678901234567890}"[..], &all] {
        gateway.ask("POST /a", &[], body).await.is(200);
        let received = backend.last().content;
        assert!(received.bytes == body && received.complete, "{} bytes of {}", received.bytes.len(), body.len());
        assert_eq!(received.framing, Framing::Length(body.len()));
    }
}

#[tokio::test]
async fn a_chunked_body_arrives_whole_with_its_trailers() {
    let (gateway, backend) = gateway(Behaviour::Echo).await;
    let chunks = "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nx-checksum: 5eb63bbb\r\n\r\n";
    let mut wire = gateway.wire().await;
    wire.send(request("POST /a", &["transfer-encoding: chunked", "te: trailers", "trailer: x-checksum"], chunks)).await;
    wire.answer().await.is(200);
    let received = backend.last();
    assert_eq!((latin1(&received.content.bytes).as_str(), received.content.framing), ("hello world", Framing::Chunked));
    assert_eq!(received.content.trailers, [("x-checksum".to_string(), "5eb63bbb".to_string())]);
    // The connection is good for another.
    wire.send(request("GET /b", &[], "")).await;
    wire.answer().await.is(200);
}

#[tokio::test]
async fn an_answers_body_status_and_reason_free_headers_pass() {
    for (status, code) in
        [("200 OK", 200), ("201 Created", 201), ("404 Not Found", 404), ("418 I'm a teapot", 418), ("500 Oops", 500), ("599 Far", 599)]
    {
        let (gateway, _backend) =
            gateway(Behaviour::answers(status, &["content-type: text/plain", "etag: \"x\"", "x-a: b"], "as it is")).await;
        let answer = gateway.get("/a").await.is(code);
        assert_eq!((answer.text().as_str(), answer.header("etag"), answer.header("x-a")), ("as it is", Some("\"x\""), Some("b")));
    }
}

#[tokio::test]
async fn answers_without_a_body_are_framed_as_their_status_says() {
    for (status, code, headers) in [("204 No Content", 204, &["x-a: b"][..]), ("304 Not Modified", 304, &["etag: \"x\""])] {
        let text = format!("HTTP/1.1 {status}\r\n{}\r\n\r\n", headers.join("\r\n"));
        let (gateway, _backend) = gateway(Behaviour::Answers(text.into_bytes())).await;
        let mut wire = gateway.wire().await;
        for _ in 0..2 {
            wire.send(request("GET /a", &[], "")).await;
            let answer = wire.answer().await.is(code);
            assert_eq!((answer.body.len(), answer.head.all("transfer-encoding").len()), (0, 0));
            assert!(code != 204 || answer.header("content-length").is_none(), "RFC 9110, 8.6");
        }
    }
}

#[tokio::test]
async fn head_keeps_the_length_and_has_no_body() {
    let (gateway, backend) = gateway(Behaviour::Answers(b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n".to_vec())).await;
    let mut wire = gateway.wire().await;
    for _ in 0..2 {
        wire.send(request("HEAD /a", &[], "")).await;
        let answer = wire.answer_to("HEAD").await.is(200);
        assert_eq!((answer.header("content-length"), answer.body.len()), (Some("1234"), 0));
    }
    assert_eq!(backend.last().head.method(), "HEAD");
}

#[tokio::test]
async fn an_answer_that_ends_with_the_connection_is_whole() {
    use tests::behaviour::Step;
    let (gateway, _backend) = gateway(Behaviour::Script(vec![Step::Read, Step::send("HTTP/1.1 200 OK\r\n\r\nto the end")])).await;
    let answer = gateway.get("/a").await.is(200);
    assert_eq!((answer.text().as_str(), answer.complete), ("to the end", true));
}

#[tokio::test]
async fn what_is_no_text_is_mapped_octet_by_octet_or_refused() {
    let backend = Backend::echo().await;
    let mapped = "inbound:\n  match: /m\nproxy:\n  http: {upstream: echo, path: /seen}\n  send:\n    only: true\n    query: {q: \"${query.name}\", both: \"<${query.name}>\"}\n    headers: {x-name: \"${headers['x-name']}\"}\n";
    let gateway = Gateway::serving(&echo_api(backend.address, "", mapped)).await;
    // A name in GBK, as old backends want it.
    gateway.ask("GET /m?name=%CD%F5%CE%B0", &["x-name: \u{e9}"], "").await.is(200);
    assert_eq!(backend.last().head.target(), "/seen?q=%CD%F5%CE%B0&both=%3C%CD%F5%CE%B0%3E");
    // U+FFFD itself is text like any other.
    gateway.ask("GET /m?name=%EF%BF%BD", &[], "").await.is(200);
    assert_eq!(backend.last().head.target(), "/seen?q=%EF%BF%BD&both=%3C%EF%BF%BD%3E");

    let asked = backend.seen().len();
    for send in [
        "body: {name: \"${query.name}\"}",
        "body: {name: \"to ${query.name}\"}",
        "body: {all: \"${query}\"}",
        "query: {q: \"${query.name + '!'}\"}",
        "headers: {x-surrogate: \"${body.name}\"}",
    ] {
        let more = format!("inbound:\n  match: /m\nproxy:\n  http: {{upstream: echo}}\n  send: {{{send}}}\n");
        let gateway = Gateway::serving(&echo_api(backend.address, "", &more)).await;
        let answer = gateway.ask("POST /m?name=%CD%F5", &["content-type: application/json"], r#"{"name": "\ud800"}"#).await.is(400);
        assert!(answer.text().contains("cannot be used here"), "{send}: {}", answer.text());
    }
    assert_eq!(backend.seen().len(), asked);
    // In JSON, half a pair passes as it was escaped.
    let more = "inbound:\n  match: /m\nproxy:\n  http: {upstream: echo}\n  send: {body: {n: \"${body.name}\", i: [\"${body.id}\", {deep: \"${body.list}\"}]}}\n";
    let gateway = Gateway::serving(&echo_api(backend.address, "", more)).await;
    let body = r#"{"name": "\ud800\/", "id": 1234567890123456789012345678901234567890.10, "list": [ ]}"#;
    gateway.ask("POST /m", &["content-type: application/json"], body).await.is(200);
    let expected = r#"{"n":"\ud800\/","i":[1234567890123456789012345678901234567890.10,{"deep":[ ]}]}"#;
    assert_eq!(String::from_utf8_lossy(&backend.last().content.bytes), expected);
}
