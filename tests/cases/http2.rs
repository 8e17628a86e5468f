//! HTTP/2 with clients: by ALPN under TLS, and by prior knowledge in the clear.
use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::{
    Reason, RecvStream, SendStream,
    client::{self, SendRequest},
};
use http::{HeaderMap, Request, Response};
use tests::{
    backend::Backend,
    behaviour::Behaviour,
    frames::{self, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM, SETTINGS, frame},
    harness::{Gateway, echo_api, fill},
    http2::Http2Backend,
    message::PATIENCE,
    tls::Authority,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{sleep, timeout},
};

const HERE: &str = "kind: Api\ninfo: {name: here}\ninbound: {match: \"/here\"}\n\
    proxy: {respond: {status: 200, body: {scheme: \"${request.scheme}\", host: \"${request.host}\", method: \"${request.method}\"}}}\n";

/// A client on one connection; it ends when dropped.
struct Client {
    sender: SendRequest<Bytes>,
    task: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    async fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("a listener")).await
    }

    async fn over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        // One stream that nobody reads leaves room for the others.
        let builder = client::Builder::new().initial_connection_window_size(1 << 20).to_owned();
        let (sender, connection) = builder.handshake(io).await.expect("a handshake");
        Self { sender, task: tokio::spawn(connection) }
    }

    async fn begin(&self, request: Request<()>, end: bool) -> (client::ResponseFuture, SendStream<Bytes>) {
        self.sender.clone().ready().await.expect("a connection").send_request(request, end).expect("a stream")
    }

    async fn ask(&self, request: http::request::Builder, body: &[u8], trailers: Option<HeaderMap>) -> Whole {
        let (answer, mut stream) = self.begin(request.body(()).expect("a request"), body.is_empty() && trailers.is_none()).await;
        let sending = async {
            let mut rest = Bytes::copy_from_slice(body);
            while !rest.is_empty() {
                stream.reserve_capacity(rest.len());
                let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
                let piece = rest.split_to(room.min(rest.len()));
                if stream.send_data(piece, rest.is_empty() && trailers.is_none()).is_err() {
                    return;
                }
            }
            if let Some(it) = trailers {
                let _ = stream.send_trailers(it);
            }
        };
        let reading = async { whole(answer.await.expect("an answer")).await.expect("a whole answer") };
        timeout(PATIENCE, async { tokio::join!(sending, reading).1 }).await.expect("in time")
    }

    async fn get(&self, path: &str) -> Whole {
        self.ask(get(path), b"", None).await
    }
}

fn get(path: &str) -> http::request::Builder {
    Request::get(format!("http://gateway.test{path}"))
}

struct Whole {
    head: Response<()>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Whole {
    fn status(&self) -> u16 {
        self.head.status().as_u16()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.headers().get(name).map(|it| it.to_str().expect("text"))
    }
}

async fn whole(answer: Response<RecvStream>) -> Result<Whole, h2::Error> {
    let (parts, mut stream) = answer.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        body.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len())?;
    }
    Ok(Whole { head: Response::from_parts(parts, ()), body, trailers: stream.trailers().await? })
}

async fn to(behaviour: Behaviour) -> (Gateway, Backend) {
    let backend = Backend::start(behaviour).await;
    (Gateway::serving(&echo_api(backend.address, "/{rest...}", "")).await, backend)
}

/// To a backend that speaks HTTP/2 too.
async fn through() -> (Gateway, Http2Backend) {
    let backend = Http2Backend::start().await;
    let text = "kind: Upstream\nname: u\nprotocol: http2\nnodes: [{address: $1}]\n---
kind: Api\ninfo: {name: a}\ninbound: {match: [/, \"/{rest...}\"]}\nproxy: {http: {upstream: u}}\n";
    (Gateway::serving(&fill(text, &[&backend.address])).await, backend)
}

#[tokio::test]
async fn a_request_by_prior_knowledge_arrives_as_it_was_sent() {
    let (gateway, backend) = to(Behaviour::Echo).await;
    let client = Client::open(gateway.address).await;
    let request = Request::post("http://gateway.test/a%2Fb/c?x=1&y=%20&z");
    let request = request.header("x-a", "1").header("x-a", "2").header("cookie", "a=b").header("cookie", "c=d");
    let answer = client.ask(request, b"hello", None).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let seen = backend.last();
    assert_eq!(seen.head.line, "POST /a%2Fb/c?x=1&y=%20&z HTTP/1.1");
    let all = |name: &str| seen.head.headers.iter().filter(|it| it.0 == name).map(|it| it.1.as_str()).collect::<Vec<_>>();
    assert_eq!((all("x-a"), all("cookie"), all("host")), (vec!["1", "2"], vec!["a=b; c=d"], vec!["gateway.test"]));
    assert_eq!(seen.content.bytes, b"hello");
    assert!(answer.header("x-request-id").is_some() && answer.header("date").is_some() && answer.header("connection").is_none());
    // The next ones on the same connection, side by side.
    let (a, b) = tokio::join!(client.get("/a"), client.get("/b"));
    assert_eq!((a.json()["target"].as_str(), b.json()["target"].as_str()), (Some("/a"), Some("/b")));
    assert_eq!(backend.nonsense(), [""; 0]);
}

#[tokio::test]
async fn alpn_chooses_it_under_tls_and_http_1_stays() {
    let ca = Authority::new("test");
    let pair = ca.issue(&["a.test"]);
    let setup = Gateway::with(HERE).listen("tls: {certificates: [{cert: a.pem, key: a.key}]}");
    let gateway = setup.file("a.pem", &pair.cert).file("a.key", &pair.key).start().await;
    let stream = ca.client().offering(&["h2", "http/1.1"]).open(gateway.second(), "a.test").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let client = Client::over(stream).await;
    let answer = client.ask(Request::get("https://a.test/here"), b"", None).await;
    assert_eq!(answer.json(), serde_json::json!({"scheme": "https", "host": "a.test", "method": "GET"}));
    for offer in [&["http/1.1"][..], &[]] {
        let mut stream = ca.client().offering(offer).open(gateway.second(), "a.test").await.expect("a handshake");
        let answer = tests::tls::get(&mut stream, "a.test", "/here").await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let (gateway, backend) = through().await;
    let client = Client::open(gateway.address).await;
    let trailers = HeaderMap::from_iter([("x-sum".parse().expect("a name"), "1".parse().expect("a value"))]);
    let request = Request::post("http://gateway.test/trailers").header("te", "trailers");
    let answer = client.ask(request, b"hello", Some(trailers)).await;
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.trailers.expect("trailers")["x-checksum"], "5eb63bbb");
    assert_eq!(backend.last().trailers["x-sum"], "1");
}

#[tokio::test]
async fn large_bodies_stream_both_ways() {
    let (gateway, backend) = through().await;
    let client = Client::open(gateway.address).await;
    let body = vec![b'y'; 4 << 20];
    let answer = client.ask(Request::post("http://gateway.test/echo"), &body, None).await;
    assert!(answer.body == body && backend.last().body == body);
    assert_eq!(client.get("/large").await.body.len(), 16 << 20);
}

#[tokio::test]
async fn a_body_beyond_its_bound_is_refused_however_its_length_is_told() {
    let backend = Backend::echo().await;
    let gateway = Gateway::with(&echo_api(backend.address, "/{rest...}", ""));
    let gateway = gateway.settings("limits: {body: {size: 100KiB, buffered: 1KiB}, drain: {wait: 1ms, time: 2s}}").start().await;
    let client = Client::open(gateway.address).await;
    let body = vec![b'y'; 150 << 10];
    let told = Request::post("http://gateway.test/x").header("content-length", body.len());
    assert_eq!(client.ask(told, &body, None).await.status(), 413);
    assert_eq!(client.ask(Request::post("http://gateway.test/x"), &body, None).await.status(), 413);
    assert_eq!(client.get("/x").await.status(), 200, "the connection goes on");
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    let api = "kind: Api\ninfo: {name: n}\ninbound: {match: \"/none\"}\nproxy: {respond: {status: 204}}\n";
    let gateway = Gateway::with(&format!("{HERE}---\n{api}")).start().await;
    let client = Client::open(gateway.address).await;
    let length = client.get("/here").await.body.len() - 1 + "HEAD".len() - "GE".len();
    let head = client.ask(Request::head("http://gateway.test/here"), b"", None).await;
    assert_eq!((head.status(), head.body.len(), head.header("content-length")), (200, 0, Some(length.to_string().as_str())));
    let none = client.get("/none").await;
    assert_eq!((none.status(), none.body.len(), none.header("content-length")), (204, 0, None));
}

#[tokio::test]
async fn a_client_that_resets_its_stream_is_gone_for_the_backend_too() {
    let events = Behaviour::Sse { every: Duration::from_millis(30), events: usize::MAX };
    for (behaviour, status) in [(Behaviour::Stall, "499"), (events, "200")] {
        let (gateway, backend) = to(behaviour).await;
        let client = Client::open(gateway.address).await;
        let (answer, mut stream) = client.begin(get("/wait").body(()).expect("a request"), true).await;
        let answer = tokio::spawn(answer);
        backend.asked(1).await;
        stream.send_reset(Reason::CANCEL);
        backend.left(1).await;
        drop(answer);
        gateway.figures(&[&format!("status=\"{status}\"}} 1")]).await;
    }
}

#[tokio::test]
async fn a_slow_reader_slows_the_backend_down() {
    let (gateway, _backend) = through().await;
    let client = Client::open(gateway.address).await;
    let (answer, _stream) = client.begin(get("/large").body(()).expect("a request"), true).await;
    let mut body = answer.await.expect("an answer").into_body();
    let first = body.data().await.expect("data").expect("data").len();
    // Not a byte beyond the client's window comes; other streams are not held up.
    assert_eq!(client.ask(Request::post("http://gateway.test/x"), b"meanwhile", None).await.text(), "meanwhile");
    let mut size = first;
    body.flow_control().release_capacity(first).expect("a window");
    while let Some(data) = body.data().await {
        let data = data.expect("data");
        size += data.len();
        body.flow_control().release_capacity(data.len()).expect("a window");
    }
    assert_eq!(size, 16 << 20);
}

#[tokio::test]
async fn early_hints_and_continue_come_before_the_answer() {
    let (gateway, _backend) = to(Behaviour::EarlyHints).await;
    let mut raw = Frames::open(gateway.address).await;
    raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &frames::get("/x", &[]))).await;
    let first = raw.until(&[HEADERS]).await.expect("a head");
    assert!(!first.is_ok(), "{first:?}");
    assert!(raw.until(&[HEADERS]).await.expect("a head").is_ok());

    let (gateway, _backend) = to(Behaviour::Echo).await;
    let mut raw = Frames::open(gateway.address).await;
    let head = [(":method", &b"POST"[..]), (":scheme", b"http"), (":authority", b"a.test"), (":path", b"/x"), ("expect", b"100-continue")];
    raw.send(&frame(HEADERS, END_HEADERS, 1, &frames::block(&head))).await;
    assert!(!raw.until(&[HEADERS]).await.expect("a head").is_ok(), "100 comes first");
    raw.send(&frame(frames::DATA, END_STREAM, 1, b"late")).await;
    assert!(raw.until(&[HEADERS]).await.expect("a head").is_ok());
}

#[tokio::test]
async fn a_drain_says_goodbye_and_finishes_what_was_begun() {
    let (gateway, backend) = to(Behaviour::Slow(Duration::from_millis(300))).await;
    let mut raw = Frames::open(gateway.address).await;
    raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &frames::get("/x", &[]))).await;
    backend.asked(1).await;
    let stopped = tokio::spawn(gateway.stop());
    let goodbye = raw.until(&[GOAWAY]).await.expect("a goodbye");
    assert_eq!(goodbye.code(), 0);
    assert!(raw.until(&[HEADERS]).await.expect("the answer").is_ok());
    while raw.next().await.is_some() {}
    timeout(PATIENCE, stopped).await.expect("an end in time").expect("no panic");
}

#[tokio::test]
async fn a_stream_beyond_the_bound_is_refused_and_the_others_go_on() {
    let backend = Backend::start(Behaviour::Slow(Duration::from_millis(200))).await;
    let gateway = Gateway::with(&echo_api(backend.address, "/{rest...}", ""));
    let gateway = gateway.settings("limits: {http2: {streams: 2}, drain: {wait: 1ms, time: 2s}}").start().await;
    let mut raw = Frames::open(gateway.address).await;
    // Until the client has seen our SETTINGS it may think what it likes.
    raw.until(&[SETTINGS]).await.expect("settings");
    raw.send(&frame(SETTINGS, 1, 0, &[])).await;
    for stream in [1, 3, 5] {
        raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &frames::get("/x", &[]))).await;
    }
    let refused = raw.until(&[RST_STREAM]).await.expect("a refusal");
    assert_eq!((refused.stream, refused.code()), (5, REFUSED_STREAM));
    for _ in 0..2 {
        assert!(raw.until(&[HEADERS]).await.expect("an answer").is_ok());
    }
}

#[tokio::test]
async fn what_is_malformed_is_refused_and_never_translated() {
    let (gateway, backend) = to(Behaviour::Echo).await;
    let plain = |more: &[(&str, &[u8])]| frames::get("/x", more);
    let heads: Vec<(&str, Vec<u8>)> = vec![
        ("an upper-case name", plain(&[("X-Upper", b"1")])),
        ("a space in a name", plain(&[("x y", b"1")])),
        ("a colon in a name", plain(&[("x:y", b"1")])),
        ("an empty name", plain(&[("", b"1")])),
        ("CR in a value", plain(&[("x", b"a\rb")])),
        ("LF in a value", plain(&[("x", b"a\nb: c")])),
        ("NUL in a value", plain(&[("x", b"a\0b")])),
        ("a blank before a value", plain(&[("x", b" a")])),
        ("a blank behind a value", plain(&[("x", b"a\t")])),
        ("connection", plain(&[("connection", b"close")])),
        ("keep-alive", plain(&[("keep-alive", b"1")])),
        ("proxy-connection", plain(&[("proxy-connection", b"1")])),
        ("transfer-encoding", plain(&[("transfer-encoding", b"chunked")])),
        ("upgrade", plain(&[("upgrade", b"h2c")])),
        ("te", plain(&[("te", b"gzip")])),
        ("another host", plain(&[("host", b"other.test")])),
        ("two hosts", plain(&[("host", b"gateway.test"), ("host", b"gateway.test")])),
        ("two lengths", plain(&[("content-length", b"0"), ("content-length", b"0")])),
        ("a length that is none", plain(&[("content-length", b"+0")])),
        ("a length without a body", plain(&[("content-length", b"5")])),
        ("a pseudo-header behind others", plain(&[("x", b"1"), (":path", b"/y")])),
        ("a pseudo-header twice", plain(&[(":path", b"/y")])),
        ("an unknown pseudo-header", plain(&[(":unknown", b"/y")])),
        ("a pseudo-header of answers", plain(&[(":status", b"200")])),
        ("a space in the path", frames::get("/x y", &[])),
        ("CR and LF in the path", frames::get("/x HTTP/1.1\r\nhost: evil\r\n\r\n", &[])),
        ("NUL in the path", frames::get("/x\0", &[])),
        ("no slash", frames::get("x", &[])),
        ("an empty path", frames::get("", &[])),
        ("a star", frames::get("*", &[])),
        ("no method", frames::block(&[(":scheme", b"http"), (":authority", b"a"), (":path", b"/x")])),
        ("no scheme", frames::block(&[(":method", b"GET"), (":authority", b"a"), (":path", b"/x")])),
        ("no path", frames::block(&[(":method", b"GET"), (":scheme", b"http"), (":authority", b"a")])),
        ("no host", frames::block(&[(":method", b"GET"), (":scheme", b"http"), (":path", b"/x")])),
        ("a space in the method", frames::block(&[(":method", b"GET /y"), (":scheme", b"http"), (":authority", b"a"), (":path", b"/x")])),
        ("a name before the host", frames::block(&[(":method", b"GET"), (":scheme", b"http"), (":authority", b"u@a"), (":path", b"/x")])),
        ("a strange scheme", frames::block(&[(":method", b"GET"), (":scheme", b"ftp"), (":authority", b"a"), (":path", b"/x")])),
        ("CONNECT", frames::block(&[(":method", b"CONNECT"), (":authority", b"a:1")])),
    ];
    for (what, head) in heads {
        let mut raw = Frames::open(gateway.address).await;
        raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)).await;
        let answer = raw.until(&[HEADERS, RST_STREAM, GOAWAY]).await.expect(what);
        match answer.kind {
            HEADERS => assert!(!answer.is_ok(), "{what}: {answer:?}"),
            _ => assert_eq!(answer.code(), PROTOCOL_ERROR, "{what}"),
        }
    }
    // A body that is not as long as it was said.
    for (length, body) in [("3", &b"hello"[..]), ("9", b"hello")] {
        let mut raw = Frames::open(gateway.address).await;
        let head = [
            (":method", &b"POST"[..]),
            (":scheme", b"http"),
            (":authority", b"a"),
            (":path", b"/x"),
            ("content-length", length.as_bytes()),
        ];
        raw.send(&frame(HEADERS, END_HEADERS, 1, &frames::block(&head))).await;
        raw.send(&frame(frames::DATA, END_STREAM, 1, body)).await;
        let answer = raw.until(&[RST_STREAM, GOAWAY]).await.expect("a refusal");
        assert_eq!(answer.code(), PROTOCOL_ERROR, "{length}");
    }
    sleep(Duration::from_millis(50)).await;
    let seen: Vec<_> = backend.seen().into_iter().map(|it| it.head.line).collect();
    assert_eq!(seen, [""; 0]);
}

#[tokio::test]
async fn the_access_log_says_the_protocol() {
    let gateway = Gateway::with(HERE).settings("telemetry: {access_log: {file: access.log}}").start().await;
    let client = Client::open(gateway.address).await;
    assert_eq!(client.get("/here").await.status(), 200);
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(gateway.folder.join("access.log")).unwrap_or_default();
        if text.contains("\"protocol\":\"HTTP/2\"") {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{text}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn curl_speaks_it() {
    let gateway = Gateway::with(HERE).start().await;
    let url = format!("http://{}/here", gateway.address);
    let arguments = ["-s", "--max-time", "10", "--http2-prior-knowledge", "-w", " %{http_version} %{http_code}", &url];
    let arguments = arguments.map(str::to_owned);
    let run = tokio::task::spawn_blocking(|| std::process::Command::new("curl").args(arguments).output());
    let Ok(run) = run.await.expect("no panic") else {
        println!("skipped: no curl");
        return;
    };
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.code() == Some(2) || text.ends_with(" 2 200"), "{text} {}", String::from_utf8_lossy(&run.stderr));
}
