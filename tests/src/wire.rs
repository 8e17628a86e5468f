//! A client that sends exactly the bytes it is given and shows exactly what came back.
use std::net::SocketAddr;

use tokio::{net::TcpStream, time::timeout};

use crate::message::{Content, Framing, Head, Line, PATIENCE, framing_of_answer, latin1};

/// A connection to the gateway. Every wait has an end; a test that waits in vain says what it waited for.
pub struct Wire {
    line: Line<TcpStream>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: Head,
    /// What was said before: 100, 103.
    pub interim: Vec<Head>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub framing: Framing,
    /// False where the connection ended before the body did.
    pub complete: bool,
}

impl Wire {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = timeout(PATIENCE, TcpStream::connect(address)).await.expect("a connection in time").expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { line: Line::new(stream) }
    }

    /// Sends; that the other side has closed is seen when reading.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = timeout(PATIENCE, self.line.send(bytes)).await.expect("the bytes are taken");
    }

    /// The next head, interim ones too.
    pub async fn head(&mut self) -> Head {
        let head = timeout(PATIENCE, self.line.head()).await.expect("a head in time").expect("a head");
        head.expect("a head, not the end of the connection")
    }

    /// The next final answer to a request of this method.
    pub async fn answer_to(&mut self, method: &str) -> Answer {
        let mut interim = Vec::new();
        let head = loop {
            let head = self.head().await;
            match head.status() {
                100 | 102..200 => interim.push(head),
                _ => break head,
            }
        };
        let framing = framing_of_answer(&head, method).expect("an answer that is framed once");
        let content = match head.status() {
            101 => Content { complete: true, ..Content::default() },
            _ => {
                timeout(PATIENCE, self.line.content(framing)).await.unwrap_or_else(|_| panic!("a whole body in time, after {}", head.line))
            }
        };
        let Content { bytes: body, trailers, framing, complete } = content;
        Answer { status: head.status(), head, interim, body, trailers, framing, complete }
    }

    pub async fn answer(&mut self) -> Answer {
        self.answer_to("GET").await
    }

    /// The next chunk of a chunked body, as the gateway cut it.
    pub async fn chunk(&mut self) -> Vec<u8> {
        timeout(PATIENCE, self.line.chunk()).await.expect("a chunk in time").expect("a chunk")
    }

    pub async fn exactly(&mut self, n: usize) -> Vec<u8> {
        let bytes = timeout(PATIENCE, self.line.exactly(n)).await.expect("bytes in time").expect("bytes");
        assert_eq!(bytes.len(), n, "the connection ended after {:?}", latin1(&bytes));
        bytes
    }

    /// Whatever is said until the connection ends.
    pub async fn rest(&mut self) -> Vec<u8> {
        timeout(PATIENCE, self.line.rest()).await.expect("an end in time").unwrap_or_default()
    }

    /// Whether the gateway ends the connection without another byte.
    pub async fn ended(&mut self) -> bool {
        self.line.ended().await
    }

    /// Whether nothing comes for a while.
    pub async fn silent(&mut self, millis: u64) -> bool {
        timeout(std::time::Duration::from_millis(millis), self.line.some()).await.is_err()
    }

    /// Ends the connection the rude way, with a reset.
    pub fn reset(self) {
        let socket = self.line.stream;
        // With no time to linger, closing sends a reset.
        let _ = socket.set_zero_linger();
    }
}

impl Answer {
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.get(name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {} {:?}", self.head.line, self.text()))
    }

    /// For chaining: the status is this.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", latin1(&self.head.raw), self.text());
        self
    }
}

/// A request's bytes: `"POST /x"`, header lines, a body. Host and length are added where they are not given.
pub fn request(start: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let given = |name: &str| headers.iter().any(|it| it.to_ascii_lowercase().starts_with(name));
    let mut text = format!("{start} HTTP/1.1\r\n");
    if !given("host:") {
        text.push_str("host: gateway.test\r\n");
    }
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    if !body.is_empty() && !given("content-length:") && !given("transfer-encoding:") {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// One request on a connection of its own.
pub async fn ask(address: SocketAddr, start: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Answer {
    let mut wire = Wire::open(address).await;
    wire.send(request(start, headers, body)).await;
    wire.answer_to(start.split(' ').next().unwrap_or_default()).await
}
