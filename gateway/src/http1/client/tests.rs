//! The client against scripted backends on the loopback device.
mod early;
mod framing;
mod permits;
mod reuse;
mod time;
mod tunnel;

use std::{
    cell::{Cell, RefCell},
    future::Future,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use contract::{Body, BodyError};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, LocalOptions},
    time::Instant,
};

use super::{
    Call, Failure, Timeouts,
    permits::{Limits, Permits},
    pool::{Keeper, Pool},
    send,
};

/// Runs a test on a thread of its own kind, as a worker is.
fn run<F: Future>(test: impl FnOnce() -> F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test()).await.expect("the test hangs") })
}

/// As [`run`], in virtual time.
fn run_paused<F: Future>(test: impl FnOnce() -> F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build_local(LocalOptions::default()).unwrap();
    runtime.block_on(test())
}

/// A backend's side of one connection.
struct Wire {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Wire {
    /// Reads up to and with `end`; what was read before it ended otherwise.
    async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.seen.windows(end.len()).position(|it| it == end.as_bytes()) {
                let rest = self.seen.split_off(at + end.len());
                return String::from_utf8(std::mem::replace(&mut self.seen, rest)).unwrap();
            }
            if self.stream.read_buf(&mut self.seen).await.unwrap_or(0) == 0 {
                return String::from_utf8(std::mem::take(&mut self.seen)).unwrap();
            }
        }
    }

    /// The head of a request; none when the client closed.
    async fn head(&mut self) -> Option<String> {
        Some(self.until("\r\n\r\n").await).filter(|it| !it.is_empty())
    }

    async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.seen.len() < count {
            if self.stream.read_buf(&mut self.seen).await.unwrap_or(0) == 0 {
                return std::mem::take(&mut self.seen);
            }
        }
        let rest = self.seen.split_off(count);
        std::mem::replace(&mut self.seen, rest)
    }

    async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// One byte at a time, each of which the client has time to look at.
    async fn drip(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.write([*byte]).await;
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
    }

    async fn ok(&mut self, body: &str) {
        self.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    }

    /// Closes so that the other side sees a reset.
    fn reset(self) {
        #[allow(deprecated)]
        let _ = self.stream.set_linger(Some(Duration::ZERO));
    }

    async fn closed(&mut self) -> bool {
        self.bytes(1).await.is_empty()
    }
}

/// A backend that runs `script` on each connection, which it counts from 0.
struct Backend {
    address: SocketAddr,
    accepted: Rc<Cell<usize>>,
}

fn backend<F: Future<Output = ()> + 'static>(script: impl Fn(Wire, usize) -> F + 'static) -> Backend {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let accepted = Rc::new(Cell::new(0));
    let count = accepted.clone();
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let at = count.replace(count.get() + 1);
            tokio::task::spawn_local(script(Wire { stream, seen: Vec::new() }, at));
        }
    });
    Backend { address, accepted }
}

/// A pool on this thread and calls through it.
struct Bench {
    pool: Pool,
    permits: Arc<Permits>,
    _keeper: Keeper,
    timeouts: Timeouts,
    headers: HeaderMap,
    early: Rc<RefCell<Vec<(u16, usize)>>>,
}

impl Bench {
    fn of(address: SocketAddr, limits: Limits) -> Self {
        Self::sharing(Permits::new(limits, 1), address)
    }

    fn sharing(permits: Arc<Permits>, address: SocketAddr) -> Self {
        let keeper = Keeper::start();
        let pool = Pool::new(permits.clone(), crate::dial::Way::plain(), vec![address], &keeper);
        Self { pool, permits, _keeper: keeper, timeouts: Timeouts::default(), headers: HeaderMap::new(), early: Rc::default() }
    }

    fn new(backend: &Backend) -> Self {
        Self::of(backend.address, Limits::default())
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.append(name, HeaderValue::from_static(value));
        self
    }

    async fn call(&self, method: Method, body: impl Into<Body>) -> Result<Response<Body>, Box<Failure>> {
        let early = self.early.clone();
        send(
            &self.pool,
            Call {
                method,
                target: b"/a%2Fb?x=1&&y",
                host: HeaderValue::from_static("example.com"),
                headers: &self.headers,
                body: body.into(),
                upgrade: None,
                on_early: &mut |status, headers| early.borrow_mut().push((status.as_u16(), headers.len())),
                timeouts: self.timeouts,
                deadline: (Instant::now() + Duration::from_secs(50)).into_std(),
                body_deadline: None,
            },
        )
        .await
    }

    async fn get(&self) -> Result<Response<Body>, Box<Failure>> {
        self.call(Method::GET, Body::Empty).await
    }

    /// The whole answer to a GET as text.
    async fn text(&self) -> String {
        whole(self.get().await.unwrap()).await.unwrap().1
    }
}

/// Status, body and trailers.
async fn whole(response: Response<Body>) -> Result<(StatusCode, String, Vec<String>), BodyError> {
    let (head, mut body) = response.into_parts();
    let (mut data, mut trailers) = (Vec::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(it) => data.extend_from_slice(&it),
            Err(it) => trailers.extend(it.into_trailers().unwrap().iter().map(|(n, v)| format!("{n}={}", v.to_str().unwrap()))),
        }
    }
    Ok((head.status, String::from_utf8_lossy(&data).into_owned(), trailers))
}

/// A body that a test feeds piece by piece.
struct Feed(tokio::sync::mpsc::UnboundedReceiver<Result<Frame<Bytes>, BodyError>>, Option<u64>);

type Feeder = tokio::sync::mpsc::UnboundedSender<Result<Frame<Bytes>, BodyError>>;

fn feed(length: Option<u64>) -> (Feeder, Body) {
    let (feeder, receiver) = tokio::sync::mpsc::unbounded_channel();
    (feeder, Body::stream(Feed(receiver, length)))
}

fn data(bytes: impl Into<Bytes>) -> Result<Frame<Bytes>, BodyError> {
    Ok(Frame::data(bytes.into()))
}

impl http_body::Body for Feed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.1.map_or_else(http_body::SizeHint::default, http_body::SizeHint::with_exact)
    }
}
