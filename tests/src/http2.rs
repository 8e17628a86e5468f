//! A backend that speaks HTTP/2 alone, by hyper: what it does stands in the path that it is asked for.
use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::sleep,
};

/// What it was asked.
pub struct Asked {
    pub head: http::request::Parts,
    pub body: Bytes,
    pub trailers: HeaderMap,
}

#[derive(Default)]
struct Seen {
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    /// Answers that were dropped before their end.
    left: AtomicUsize,
    leave: Notify,
}

/// Ends when dropped, with its connections.
pub struct Http2Backend {
    pub address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

/// Counts answers that nobody waited for.
struct Left {
    seen: Arc<Seen>,
    whole: bool,
}

impl Drop for Left {
    fn drop(&mut self) {
        if !self.whole {
            self.seen.left.fetch_add(1, SeqCst);
        }
    }
}

impl Http2Backend {
    pub async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Seen> = Arc::default();
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            // Connections end with the listener.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, SeqCst);
                let seen = shared.clone();
                connections.spawn(async move {
                    let own = seen.clone();
                    let service = service_fn(move |it| answer(own.clone(), it));
                    let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                    tokio::pin!(connection);
                    loop {
                        tokio::select! {
                            _ = connection.as_mut() => return,
                            // Takes no more, and finishes what it has.
                            () = seen.leave.notified() => connection.as_mut().graceful_shutdown(),
                        }
                    }
                });
            }
        });
        Self { address, seen, task }
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    pub fn left(&self) -> usize {
        self.seen.left.load(SeqCst)
    }

    pub fn last(&self) -> Asked {
        self.seen.asked.lock().expect("no panic").pop().expect("a request")
    }

    /// Says goodbye to its clients.
    pub fn leave(&self) {
        self.seen.leave.notify_waiters();
    }
}

impl Drop for Http2Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer's body, as it is made.
struct Made {
    frames: mpsc::Receiver<Frame<Bytes>>,
    left: Left,
}

impl Body for Made {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = std::task::ready!(self.frames.poll_recv(cx));
        self.left.whole |= frame.is_none();
        Poll::Ready(frame.map(Ok))
    }
}

async fn answer(seen: Arc<Seen>, request: Request<Incoming>) -> Result<Response<Made>, std::io::Error> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let (sender, frames) = mpsc::channel::<Frame<Bytes>>(1);
    let made = Response::new(Made { frames, left: Left { seen: seen.clone(), whole: false } });
    if path == "/early" {
        // Answers before the body is there.
        return Ok(made);
    }
    let whole = body.collect().await.map_err(std::io::Error::other)?;
    let trailers = whole.trailers().cloned().unwrap_or_default();
    let body = whole.to_bytes();
    seen.asked.lock().expect("no panic").push(Asked { head, body: body.clone(), trailers });
    if path == "/reset" {
        return Err(std::io::Error::other("a stream that is reset"));
    }
    if path == "/slow" {
        sleep(Duration::from_millis(1500)).await;
    }
    tokio::spawn(async move {
        match path.as_str() {
            "/events" => {
                for n in 0.. {
                    if sender.send(Frame::data(format!("data: {n}\n\n").into())).await.is_err() {
                        return;
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            }
            "/large" => {
                for _ in 0..256 {
                    let _ = sender.send(Frame::data(Bytes::from_static(&[b'x'; 65536]))).await;
                }
            }
            _ => drop(sender.send(Frame::data(body)).await),
        }
        if path == "/trailers" {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-checksum", "5eb63bbb".parse().expect("a value"));
            let _ = sender.send(Frame::trailers(trailers)).await;
        }
    });
    Ok(made)
}
