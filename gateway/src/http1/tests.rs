//! The connection from outside: raw bytes in, raw bytes out, in virtual time.
use std::{
    cell::RefCell,
    future::pending,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use contract::{Body, BodyError, Problem};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Frame;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{JoinHandle, LocalSet, spawn_local, yield_now},
    time::{Instant, sleep, timeout},
};

use super::*;

mod corpus;
mod leaving;
mod life;
mod limits;
mod streams;
mod tunnel;

type Piece = Result<Frame<Bytes>, BodyError>;

/// A body that a test feeds.
struct Piped(UnboundedReceiver<Piece>);

impl http_body::Body for Piped {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        self.0.poll_recv(cx)
    }
}

fn data(text: &str) -> Piece {
    Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes())))
}

fn of(pieces: Vec<Piece>) -> Body {
    let (feed, body) = unbounded_channel();
    pieces.into_iter().for_each(|it| drop(feed.send(it)));
    Body::stream(Piped(body))
}

fn with(status: u16, headers: &[(&'static str, &'static str)], body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    response
}

/// Counts futures that are dropped before their end.
struct Guard<'a>(&'a RefCell<u32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.0.borrow_mut() += 1;
    }
}

/// Answers by path, and remembers.
#[derive(Default)]
struct Paths {
    seen: RefCell<Vec<String>>,
    ends: RefCell<Vec<(String, Sent)>>,
    refused: RefCell<Vec<&'static str>>,
    dropped: RefCell<u32>,
    early: RefCell<Option<Box<dyn contract::exchange::Early>>>,
    feed: RefCell<Option<UnboundedSender<Piece>>>,
    held: RefCell<Option<Body>>,
}

impl Paths {
    async fn answer(&self, mut incoming: Incoming) -> Response<Body> {
        match incoming.head.uri.path() {
            "/echo" => with(200, &[], incoming.body),
            "/ignore" => with(200, &[], "ignored"),
            "/hold" => {
                *self.held.borrow_mut() = Some(incoming.body);
                with(200, &[], "held")
            }
            "/read" => match incoming.body.bytes(usize::MAX).await {
                Ok(it) => with(200, &[], it.clone()),
                Err(it) => self.refuse(it.of_request(), &mut String::new()),
            },
            "/read-elsewhere" => {
                let mut body = incoming.body;
                let it = spawn_local(async move { body.bytes(usize::MAX).await.cloned() }).await.unwrap();
                with(200, &[], it.unwrap())
            }
            "/wait" => {
                let _guard = Guard(&self.dropped);
                pending().await
            }
            "/panic" => panic!("on purpose"),
            "/early" => {
                let hints = HeaderMap::from_iter([(http::header::LINK, HeaderValue::from_static("</a.css>; rel=preload"))]);
                let sent = incoming.early.send(StatusCode::EARLY_HINTS, &hints);
                *self.early.borrow_mut() = Some(incoming.early);
                sleep(Duration::from_secs(1)).await;
                with(200, &[], if sent { "hinted" } else { "plain" })
            }
            "/pipe" | "/pipe-raw" => {
                let (feed, body) = unbounded_channel();
                *self.feed.borrow_mut() = Some(feed);
                with(200, &[], Body::stream(Piped(body)))
            }
            "/trailers" => {
                let trailers = HeaderMap::from_iter([(http::HeaderName::from_static("x-sum"), HeaderValue::from_static("7"))]);
                with(200, &[("trailer", "x-sum")], of(vec![data("abc"), data("de"), Ok(Frame::trailers(trailers))]))
            }
            "/broken" => with(200, &[], of(vec![data("abc"), Err(BodyError::Stalled)])),
            "/short" => with(200, &[("content-length", "10")], of(vec![data("abc")])),
            "/long" => with(200, &[("content-length", "2")], of(vec![data("abc")])),
            "/lie" => with(200, &[("content-length", "10")], "abc"),
            "/sized" => with(200, &[("content-length", "5")], of(vec![data("ab"), data("cde")])),
            "/own-head" => with(
                200,
                &[
                    ("x-b", "1"),
                    ("date", "then"),
                    ("transfer-encoding", "chunked"),
                    ("keep-alive", "timeout=9"),
                    ("set-cookie", "a"),
                    ("set-cookie", "b"),
                ],
                "x",
            ),
            "/closing" => with(200, &[("connection", "close")], "bye"),
            "/204" => with(204, &[("content-length", "3")], "abc"),
            "/304" => with(304, &[("content-length", "77")], Body::Empty),
            "/far" => with(200, &[("content-length", "1234")], Body::Empty),
            "/100" => with(100, &[], Body::Empty),
            "/big" => with(200, &[], Bytes::from(vec![b'x'; 1 << 20])),
            "/endless" => with(200, &[], Body::stream(Endless(self.feed.borrow_mut().take()))),
            "/tunnel" => match incoming.upgrade {
                Some(it) => with(101, &[("upgrade", "echo")], Body::Stream(it)),
                None => with(200, &[], "no upgrade offered"),
            },
            _ => with(200, &[], "hello"),
        }
    }
}

/// A body without an end; tells of each frame that is asked for.
struct Endless(Option<UnboundedSender<Piece>>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Piece>> {
        if let Some(it) = &self.0 {
            let _ = it.send(data(""));
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'y'; 10_000])))))
    }
}

impl Handler for Paths {
    type Note = String;

    async fn call(&self, incoming: Incoming, note: &mut String) -> Response<Body> {
        *note = format!("{} {}", incoming.head.method, incoming.head.uri);
        self.seen.borrow_mut().push(note.clone());
        self.answer(incoming).await
    }

    fn refuse(&self, problem: Box<Problem>, note: &mut String) -> Response<Body> {
        note.push_str(problem.reason);
        self.refused.borrow_mut().push(problem.reason);
        with(problem.status().as_u16(), &[("content-type", "text/plain")], problem.message.to_string())
    }

    fn finished(&self, note: String, sent: Sent) {
        self.ends.borrow_mut().push((note, sent));
    }
}

/// The client's end, and the server that it talks to.
struct Talk {
    io: DuplexStream,
    got: Vec<u8>,
    paths: Rc<Paths>,
    drain: Drain,
    counters: Rc<Counters>,
    server: JoinHandle<bool>,
}

impl Talk {
    async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.io.write_all(text.as_ref()).await.unwrap();
    }

    /// Reads until what was read contains `text`; gives all of it and forgets it.
    async fn until(&mut self, text: &str) -> String {
        let mut buf = [0; 4096];
        while !String::from_utf8_lossy(&self.got).contains(text) {
            let size = timeout(Duration::from_secs(30), self.io.read(&mut buf)).await;
            let size = size.unwrap_or_else(|_| panic!("nothing came; so far {:?}", String::from_utf8_lossy(&self.got))).unwrap();
            assert!(size > 0, "closed; so far {:?}", String::from_utf8_lossy(&self.got));
            self.got.extend_from_slice(&buf[..size]);
        }
        String::from_utf8(std::mem::take(&mut self.got)).unwrap()
    }

    /// Reads to the end.
    async fn rest(&mut self) -> String {
        let _ = self.io.read_to_end(&mut self.got).await;
        String::from_utf8(std::mem::take(&mut self.got)).unwrap()
    }

    /// Lets the server do what it can.
    async fn settle(&self) {
        for _ in 0..50 {
            yield_now().await;
        }
    }

    fn ends(&self) -> Vec<(String, Outcome, u64)> {
        self.paths.ends.borrow().iter().map(|(note, it)| (note.clone(), it.outcome, it.bytes)).collect()
    }
}

/// Runs a script against a connection of its own; `room` is what the wire holds, each way.
async fn talk_with<T>(limits: Limits, room: usize, script: impl AsyncFnOnce(&mut Talk) -> T) -> T {
    let (client, server) = duplex(room);
    let (paths, drain, counters) = (Rc::new(Paths::default()), Drain::new(), Rc::new(Counters::default()));
    let served = (paths.clone(), drain.clone(), counters.clone());
    LocalSet::new()
        .run_until(async move {
            let server = spawn_local(async move {
                let (paths, drain, counters) = served;
                serve(server, BytesMut::new(), &limits, &counters, &*paths, &drain).await.reset
            });
            script(&mut Talk { io: client, got: Vec::new(), paths, drain, counters, server }).await
        })
        .await
}

async fn talk<T>(script: impl AsyncFnOnce(&mut Talk) -> T) -> T {
    talk_with(Limits::default(), 64 << 10, script).await
}

/// The answers in what a server sent: status, head in lower case, body.
fn answers(wire: &str, heads_only: bool) -> Vec<(u16, String, String)> {
    let (mut rest, mut all) = (wire, Vec::new());
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {rest:?}"));
        rest = after;
        let status: u16 = head[9..12].parse().unwrap();
        let head = head.to_lowercase();
        let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")).map(|it| it.parse::<u64>().unwrap());
        let framing = match length {
            _ if heads_only || status < 200 || status == 204 || status == 304 => decode::Framing::Empty,
            Some(it) => decode::Framing::Length(it),
            None if head.contains("transfer-encoding: chunked") => decode::Framing::Chunked,
            None => decode::Framing::UntilClose,
        };
        let (mut decoder, mut buf, mut body) = (decode::Decoder::new(framing, Default::default()), BytesMut::from(rest), Vec::new());
        loop {
            match decoder.decode(&mut buf).unwrap() {
                decode::Decoded::Data(it) => body.extend_from_slice(&it),
                decode::Decoded::Trailers(_) => {}
                decode::Decoded::End => break,
                decode::Decoded::More => decoder.finish().unwrap_or_else(|it| panic!("{it} after {wire:?}")),
            }
        }
        rest = &rest[rest.len() - buf.len()..];
        all.push((status, head, String::from_utf8(body).unwrap()));
    }
    all
}
