//! HTTP/2 to a backend (RFC 9113): one connection a node and thread carries many calls.
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use contract::{Body, BodyError, CallError, Problem, body::BoxBody, discovery::Node, local::Local};
use h2::{
    Reason, RecvStream, SendStream,
    client::{self, SendRequest},
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Uri, Version, header, uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    sync::Mutex,
    task::{AbortHandle, spawn_local},
    time::{Instant, Sleep, sleep, timeout_at},
};

use super::message::{Failed, Request, Time};
use crate::{
    dial::{self, Spoken, Stream, Tls, Way},
    http1::client::Timeouts,
};

/// What a backend may send of one stream before it is read.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same of all streams of a connection.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// What the headers of an answer may take, as HPACK counts them.
const MAX_HEADERS: u32 = 64 << 10;
/// How often a connection with calls on it is asked whether it lives, and for how long an answer is awaited.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// For how long a connection without a call is kept.
const IDLE: Duration = Duration::from_secs(50);

/// By an object's address in memory, which is its own while it lives.
type ByAddress<T> = HashMap<usize, T, foldhash::fast::FixedState>;

/// The HTTP/2 side of one upstream.
pub struct Http2 {
    timeouts: Timeouts,
    tls: Option<Arc<Tls>>,
}

/// This thread's connections, by node and upstream.
#[derive(Default)]
struct Lines(RefCell<ByAddress<Rc<Line>>>);

/// The connection to one node.
struct Line {
    node: Weak<Node>,
    way: Way,
    open: Mutex<Option<Open>>,
}

struct Open {
    sender: SendRequest<Bytes>,
    /// Ends with the connection.
    task: AbortHandle,
    load: Rc<Load>,
}

/// What a connection carries.
#[derive(Default)]
struct Load {
    /// Calls that ever began on it.
    begun: Cell<u64>,
    /// Calls that are on it now.
    now: Cell<usize>,
}

/// One call on a connection.
struct Ride(Rc<Load>);

impl Ride {
    fn begin(load: Rc<Load>) -> Self {
        load.begun.set(load.begun.get() + 1);
        load.now.set(load.now.get() + 1);
        Self(load)
    }
}

impl Drop for Ride {
    fn drop(&mut self) {
        self.0.now.set(self.0.now.get().saturating_sub(1));
    }
}

/// Counts a call where others see it.
struct Flight(Arc<Node>);

impl Flight {
    fn begin(node: &Arc<Node>) -> Self {
        node.in_flight.begin();
        Self(node.clone())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.in_flight.end();
    }
}

/// A call that came to nothing.
struct Fault {
    error: CallError,
    reason: &'static str,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    sent: bool,
}

impl Fault {
    fn new(error: CallError, reason: &'static str, sent: bool) -> Self {
        Self { error, reason, source: None, sent }
    }

    fn of(error: h2::Error, sent: bool) -> Self {
        if let Some(why) = error.get_io().and_then(dial::refusal) {
            return Self { source: Some(why.into()), ..Self::new(CallError::Tls, "upstream_tls", sent) };
        }
        // A stream that was refused, or opened after the last that a leaving peer takes, was not looked at (RFC 9113 §6.8, §8.7).
        let leaving = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
        let untouched = leaving || error.reason() == Some(Reason::REFUSED_STREAM);
        let kind = match error.reason() {
            Some(Reason::PROTOCOL_ERROR | Reason::FRAME_SIZE_ERROR | Reason::FLOW_CONTROL_ERROR | Reason::COMPRESSION_ERROR)
                if error.is_library() =>
            {
                CallError::Protocol
            }
            _ => CallError::Reset,
        };
        let reason = if kind == CallError::Protocol { "upstream_protocol" } else { "upstream_reset" };
        Self { error: kind, reason, source: Some(error.into()), sent: sent && !untouched }
    }
}

impl Http2 {
    pub fn new(timeouts: Timeouts) -> Self {
        Self { timeouts, tls: None }
    }

    /// The same over TLS, where there is some.
    pub fn secured(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// One call to one node. `received` are the headers of a request that brings none of its own.
    pub async fn send(
        &self,
        local: &Local,
        node: &Arc<Node>,
        request: Request,
        received: &HeaderMap,
        time: Time,
    ) -> Result<Response<Body>, Box<Failed>> {
        let flight = Flight::begin(node);
        let line = self.line(local, node);
        let Request { method, target, host, headers, body, upgrade: _, spoken } = request;
        let spare = body.copy();
        let mut body = Some(body);
        let mut again = true;
        let fault = loop {
            let mut head = match head(&method, self.tls.is_some(), &target, &host, headers.as_ref().unwrap_or(received)) {
                Ok(it) => it,
                Err(why) => break Fault { source: Some(why.into()), ..Fault::new(CallError::Protocol, "request_target", false) },
            };
            let given = match body.take().or_else(|| spare.as_ref().and_then(Body::copy)) {
                Some(it) => it,
                None => break Fault::new(CallError::Reset, "upstream_reset", true),
            };
            if let Some(length) = given.size_hint().exact().filter(|it| *it > 0 || !given.is_end_stream()) {
                head.headers_mut().insert(header::CONTENT_LENGTH, length.into());
            }
            match self.attempt(&line, node, head, given, time).await {
                Ok((response, upload, ride)) => return Ok(self.answer(response, upload, (ride, flight), time)),
                Err(Refused { problem: Some(problem), .. }) => {
                    return Err(Box::new(Failed { problem, error: None, sent: true, request: None }));
                }
                Err(it) => {
                    // A connection that was closed while nobody used it is replaced once, unseen.
                    if std::mem::take(&mut again) && it.reused && !it.fault.sent && (it.body.is_some() || spare.is_some()) {
                        body = it.body;
                        continue;
                    }
                    body = it.body;
                    break it.fault;
                }
            }
        };
        let mut problem = Problem::call(fault.error, fault.reason);
        if let Some(source) = fault.source {
            problem = problem.because(source);
        }
        let left = body.or(spare).map(|body| Request { method, target, host, headers, body, upgrade: None, spoken });
        Err(Box::new(Failed { problem, error: Some(fault.error), sent: fault.sent, request: left }))
    }

    fn line(&self, local: &Local, node: &Arc<Node>) -> Rc<Line> {
        let lines: Rc<Lines> = local.get();
        let key = Arc::as_ptr(node) as usize;
        if let Some(it) = lines.0.borrow().get(&key)
            && std::ptr::eq(it.node.as_ptr(), Arc::as_ptr(node))
        {
            return it.clone();
        }
        let way = Way::new(self.tls.as_ref(), node.authority.host(), node.address, Spoken::Http2);
        let it = Rc::new(Line { node: Arc::downgrade(node), way, open: Mutex::default() });
        let former = lines.0.borrow_mut().insert(key, it.clone());
        drop(former);
        it
    }

    /// Waits for the head of the answer.
    async fn attempt(
        &self,
        line: &Line,
        node: &Arc<Node>,
        head: http::Request<()>,
        body: Body,
        time: Time,
    ) -> Result<(Response<RecvStream>, Option<Upload>, Ride), Refused> {
        let head_by = Instant::from_std(time.head);
        let refused = |fault: Fault, reused: bool, body: Option<Body>| Refused { fault, reused, body, problem: None };
        let (sender, ride, reused) = match line.sender(node, self.timeouts.connect, head_by).await {
            Ok(it) => it,
            Err(fault) => return Err(refused(fault, false, Some(body))),
        };
        let mut sender = match timeout_at(head_by, sender.ready()).await {
            Ok(Ok(it)) => it,
            Ok(Err(error)) => {
                line.forget(&ride).await;
                return Err(refused(Fault::of(error, false), reused, Some(body)));
            }
            Err(_) => return Err(refused(Fault::new(CallError::Timeout, "upstream_timeout", false), false, Some(body))),
        };
        let empty = body.is_end_stream();
        let (answer, mut stream) = match sender.send_request(head, empty) {
            Ok(it) => it,
            Err(error) => {
                line.forget(&ride).await;
                return Err(refused(Fault::of(error, false), reused, Some(body)));
            }
        };
        let mut upload = None;
        match body {
            _ if empty => (),
            Body::Full(bytes) => drop(stream.send_data(bytes, true)),
            Body::Json(it) => drop(stream.send_data(it.to_bytes(), true)),
            Body::Stream(it) => upload = Some(Upload::start(it, stream)),
            Body::Empty => drop(stream.send_data(Bytes::new(), true)),
        }
        let by = head_by.min(Instant::now() + self.timeouts.first_byte.max(Duration::from_millis(1)));
        // The wait for the first byte begins when the request is whole; an upload has the call's own time.
        let by = if upload.is_some() { head_by } else { by };
        match timeout_at(by, answer).await {
            Ok(Ok(it)) => Ok((it, upload, ride)),
            Ok(Err(error)) => {
                let client = upload.and_then(|it| it.fault());
                let problem = client.map(BodyError::of_request);
                Err(Refused { problem, ..refused(Fault::of(error, true), reused, None) })
            }
            Err(_) => {
                let late = if by == head_by { CallError::Timeout } else { CallError::ReadTimeout };
                Err(refused(Fault::new(late, "upstream_timeout", true), false, None))
            }
        }
    }

    fn answer(&self, response: Response<RecvStream>, upload: Option<Upload>, counted: (Ride, Flight), time: Time) -> Response<Body> {
        let (mut parts, stream) = response.into_parts();
        let streams = parts.headers.get(header::CONTENT_TYPE).is_some_and(|it| {
            let it = it.as_bytes();
            it.starts_with(b"text/event-stream") || it.starts_with(b"application/grpc")
        });
        let idle = if streams { self.timeouts.stream_idle.max(self.timeouts.idle) } else { self.timeouts.idle };
        for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE] {
            parts.headers.remove(name);
        }
        parts.version = Version::HTTP_11;
        let body = if stream.is_end_stream() {
            Body::Empty
        } else {
            let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok()).and_then(|it| it.parse().ok());
            let by = time.body.filter(|_| !streams).map(Instant::from_std);
            Body::stream(Answer {
                stream,
                length,
                idle,
                by,
                quiet: Box::pin(sleep(idle)),
                ended: false,
                _upload: upload,
                _counted: counted,
            })
        };
        Response::from_parts(parts, body)
    }
}

/// An attempt without an answer.
struct Refused {
    fault: Fault,
    /// Whether the connection had carried other calls before.
    reused: bool,
    /// The body, untouched.
    body: Option<Body>,
    /// The client's own body broke.
    problem: Option<Box<Problem>>,
}

impl Line {
    /// A handle of the connection, a place on it, and whether it was there before.
    async fn sender(&self, node: &Arc<Node>, connect: Duration, by: Instant) -> Result<(SendRequest<Bytes>, Ride, bool), Fault> {
        let mut open = match timeout_at(by, self.open.lock()).await {
            Ok(it) => it,
            Err(_) => return Err(Fault::new(CallError::Timeout, "upstream_timeout", false)),
        };
        if let Some(it) = open.as_ref().filter(|it| !it.task.is_finished()) {
            return Ok((it.sender.clone(), Ride::begin(it.load.clone()), true));
        }
        *open = None;
        let limit = by.min(Instant::now() + connect);
        let late = || match limit == by {
            true => Fault::new(CallError::Timeout, "upstream_timeout", false),
            false => Fault::new(CallError::ConnectTimeout, "upstream_connect_timeout", false),
        };
        let stream = self.way.open(node.address, limit).await.map_err(|it| match it.error {
            CallError::ConnectTimeout if limit == by => late(),
            error => Fault { source: it.source, ..Fault::new(error, it.reason, false) },
        })?;
        let shaken = client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS)
            .enable_push(false)
            .handshake::<_, Bytes>(stream);
        let (sender, connection) = timeout_at(limit, shaken).await.map_err(|_| late())?.map_err(|it| {
            let it = Fault::of(it, false);
            Fault { error: if it.error == CallError::Tls { it.error } else { CallError::Connect }, ..it }
        })?;
        let load: Rc<Load> = Rc::default();
        let task = spawn_local(live(connection, load.clone())).abort_handle();
        *open = Some(Open { sender: sender.clone(), task, load: load.clone() });
        Ok((sender, Ride::begin(load), false))
    }

    /// The connection takes no more calls; those on it go on.
    async fn forget(&self, ride: &Ride) {
        let mut open = self.open.lock().await;
        // Another call may have replaced it already.
        open.take_if(|it| Rc::ptr_eq(&it.load, &ride.0));
    }
}

/// Drives a connection until it ends, or nobody has used it for long, or it does not answer any more.
async fn live(mut connection: client::Connection<Stream, Bytes>, load: Rc<Load>) {
    let mut pings = connection.ping_pong();
    let watch = async move {
        let (mut idle, mut before) = (Duration::ZERO, load.begun.get());
        loop {
            sleep(PING.0).await;
            if load.now.get() == 0 && load.begun.get() == before {
                idle += PING.0;
                if idle >= IDLE {
                    return;
                }
                continue;
            }
            (idle, before) = (Duration::ZERO, load.begun.get());
            let Some(pings) = &mut pings else { continue };
            if !matches!(timeout_at(Instant::now() + PING.1, pings.ping(h2::Ping::opaque())).await, Ok(Ok(_))) {
                return;
            }
        }
    };
    tokio::select! {
        // How it ended is told to whoever has a call on it.
        _ = &mut connection => (),
        () = watch => (),
    }
}

/// A request's head for HTTP/2: what belongs to one connection stays here (RFC 9113 §8.2.2).
fn head(
    method: &http::Method,
    secure: bool,
    target: &[u8],
    host: &HeaderValue,
    headers: &HeaderMap,
) -> Result<http::Request<()>, http::Error> {
    let path = if target.is_empty() { &b"/"[..] } else { target };
    let uri = Uri::builder()
        .scheme(if secure { uri::Scheme::HTTPS } else { uri::Scheme::HTTP })
        .authority(uri::Authority::try_from(host.as_bytes())?)
        .path_and_query(uri::PathAndQuery::try_from(path)?)
        .build()?;
    let mut request = http::Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    let kept = request.headers_mut();
    kept.reserve(headers.len());
    for (name, value) in headers {
        if !of_connection(name) {
            kept.append(name, value.clone());
        }
    }
    Ok(request)
}

fn of_connection(name: &HeaderName) -> bool {
    // The length is told anew, of the body that is sent.
    matches!(
        *name,
        header::HOST | header::CONNECTION | header::TRANSFER_ENCODING | header::UPGRADE | header::EXPECT | header::CONTENT_LENGTH
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "http2-settings")
}

/// A body on its way to the backend, at the pace of the backend's windows.
struct Upload {
    task: AbortHandle,
    fault: Rc<RefCell<Option<BodyError>>>,
}

impl Upload {
    fn start(body: BoxBody, stream: SendStream<Bytes>) -> Self {
        let fault: Rc<RefCell<Option<BodyError>>> = Rc::default();
        let told = fault.clone();
        let task = spawn_local(async move {
            if let Err(error) = pump(body, stream).await {
                *told.borrow_mut() = Some(error);
            }
        });
        Self { task: task.abort_handle(), fault }
    }

    fn fault(&self) -> Option<BodyError> {
        self.fault.borrow_mut().take()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Errors: the client's body broke. That the backend wants no more is none.
async fn pump(mut body: BoxBody, mut stream: SendStream<Bytes>) -> Result<(), BodyError> {
    loop {
        let frame = tokio::select! {
            it = poll_fn(|cx| body.as_mut().poll_frame(cx)) => it,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return Ok(()),
        };
        match frame {
            None => {
                let _ = stream.send_data(Bytes::new(), true);
                return Ok(());
            }
            Some(Err(error)) => {
                stream.send_reset(Reason::CANCEL);
                return Err(error);
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(mut data) => {
                    while data.has_remaining() {
                        stream.reserve_capacity(data.len());
                        match poll_fn(|cx| stream.poll_capacity(cx)).await {
                            Some(Ok(room)) => {
                                let piece = data.split_to(room.min(data.len()));
                                if stream.send_data(piece, false).is_err() {
                                    return Ok(());
                                }
                            }
                            _ => return Ok(()),
                        }
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        let _ = stream.send_trailers(trailers);
                    }
                    return Ok(());
                }
            },
        }
    }
}

/// An answer's body, as it comes.
struct Answer {
    stream: RecvStream,
    length: Option<u64>,
    idle: Duration,
    by: Option<Instant>,
    quiet: Pin<Box<Sleep>>,
    ended: bool,
    _upload: Option<Upload>,
    _counted: (Ride, Flight),
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let me = self.get_mut();
        if me.ended {
            return Poll::Ready(None);
        }
        let data = me.stream.poll_data(cx);
        let frame = match data {
            Poll::Ready(Some(Ok(data))) => {
                let _ = me.stream.flow_control().release_capacity(data.len());
                if let Some(left) = &mut me.length {
                    *left = left.saturating_sub(data.len() as u64);
                }
                Some(Ok(Frame::data(data)))
            }
            Poll::Ready(Some(Err(error))) => Some(Err(error)),
            Poll::Ready(None) => match me.stream.poll_trailers(cx) {
                Poll::Ready(Ok(Some(it))) => Some(Ok(Frame::trailers(it))),
                Poll::Ready(Ok(None)) => None,
                Poll::Ready(Err(error)) => Some(Err(error)),
                Poll::Pending => return me.pending(cx),
            },
            Poll::Pending => return me.pending(cx),
        };
        let until = Instant::now() + me.idle;
        me.quiet.as_mut().reset(me.by.map_or(until, |it| it.min(until)));
        match frame {
            Some(Ok(it)) => {
                me.ended = it.is_trailers();
                Poll::Ready(Some(Ok(it)))
            }
            Some(Err(error)) => {
                me.ended = true;
                Poll::Ready(Some(Err(BodyError::broken(error))))
            }
            None => {
                me.ended = true;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Answer {
    fn pending(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        ready!(self.quiet.as_mut().poll(cx));
        self.ended = true;
        Poll::Ready(Some(Err(BodyError::Stalled)))
    }
}

/// Forgets this thread's connections to nodes that are gone.
pub fn sweep(local: &Local) {
    let lines: Rc<Lines> = local.get();
    let gone: Vec<_> = lines.0.borrow_mut().extract_if(|_, it| it.node.strong_count() == 0).collect();
    drop(gone);
}
