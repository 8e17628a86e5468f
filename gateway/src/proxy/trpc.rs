//! tRPC to a backend, JSON to the client (trpc-group/trpc, docs/en/trpc_protocol_design.md).
pub mod frame;
pub mod method;
mod mux;

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use contract::{Body, CallError, Problem, discovery::Node, json::push_string, local::Local};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use tokio::{
    net::TcpStream,
    sync::Mutex,
    time::{Instant, timeout_at},
};

use self::{
    frame::{Call, Reply},
    method::Method,
    mux::{Mux, Waiting},
};
use super::message::{Failed, Request, Time};
use crate::http1::client::Timeouts;

const RET: HeaderName = HeaderName::from_static("trpc-ret");
const FUNC_RET: HeaderName = HeaderName::from_static("trpc-func-ret");

/// By an object's address in memory, which is its own while it lives.
type ByAddress<T> = HashMap<usize, T, foldhash::fast::FixedState>;

/// Headers that go beside every message.
const BESIDE: &[&str] = &["traceparent", "tracestate", "x-request-id", "accept-language"];

/// The tRPC side of one upstream.
pub struct Trpc {
    timeouts: Timeouts,
}

/// This thread's connections, by node.
#[derive(Default)]
struct Lines(RefCell<ByAddress<Rc<Line>>>);

/// The connection to one node.
struct Line {
    node: Weak<Node>,
    open: Mutex<Option<Rc<Mux>>>,
}

/// Counts a call where others see it.
struct Flight<'n>(&'n Node);

impl<'n> Flight<'n> {
    fn begin(node: &'n Node) -> Self {
        node.in_flight.begin();
        Self(node)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.end();
    }
}

impl Trpc {
    pub fn new(timeouts: Timeouts) -> Self {
        Self { timeouts }
    }

    /// Sends one call, and gives the answer as HTTP would: a status, and JSON.
    pub async fn send(
        &self,
        local: &Local,
        node: &Arc<Node>,
        request: Request,
        received: &HeaderMap,
        time: Time,
        method: &Method,
    ) -> Result<Response<Body>, Box<Failed>> {
        let _flight = Flight::begin(node);
        let failed = |problem: Box<Problem>, sent: bool, request: Option<Request>| {
            let error = problem.call;
            Box::new(Failed { problem, error, sent, request })
        };
        let by = Instant::from_std(time.head);
        let mut waiting = match self.line(local, node).enter(node, self.timeouts.connect, by).await {
            Ok(it) => it,
            Err(problem) => return Err(failed(problem, false, Some(request))),
        };
        let headers = request.headers.as_ref().unwrap_or(received);
        let goes = |name: &HeaderName| name.as_str().starts_with("app-") || BESIDE.contains(&name.as_str()) || method.beside.contains(name);
        let body = match &request.body {
            Body::Full(it) => it.clone(),
            _ => Bytes::new(),
        };
        let left = by.saturating_duration_since(Instant::now()).as_millis().clamp(1, u32::MAX.into()) as u32;
        let call = Call {
            request_id: waiting.id(),
            timeout_ms: left,
            caller: &method.caller,
            callee: &method.callee,
            func: &method.func,
            trans_info: headers.iter().filter(|it| goes(it.0)).map(|(name, value)| (name.as_str(), value.as_bytes())).collect(),
            content_type: frame::JSON,
            body: &body,
            ..Call::default()
        };
        if let Err(why) = waiting.send(|out| call.write(out)) {
            let problem = Problem::new(contract::Kind::TooLarge, "the message is too large for the backend").because(why);
            return Err(Box::new(Failed { problem, error: None, sent: false, request: None }));
        }
        drop(call);
        // The gateway's own clock decides: a server may never answer.
        let limit = by.min(Instant::now() + self.timeouts.first_byte);
        match timeout_at(limit, waiting.answer()).await {
            Ok(Ok(it)) => answer(it).map_err(|problem| failed(problem, true, None)),
            Ok(Err((error, reason, why))) => Err(failed(Problem::call(error, reason).because(why), true, None)),
            Err(_) if limit == by => Err(failed(Problem::call(CallError::Timeout, "upstream_timeout"), true, None)),
            Err(_) => Err(failed(Problem::call(CallError::ReadTimeout, "upstream_timeout"), true, None)),
        }
    }

    fn line(&self, local: &Local, node: &Arc<Node>) -> Rc<Line> {
        let lines: Rc<Lines> = local.get();
        let key = Arc::as_ptr(node) as usize;
        if let Some(it) = lines.0.borrow().get(&key)
            && std::ptr::eq(it.node.as_ptr(), Arc::as_ptr(node))
        {
            return it.clone();
        }
        let it = Rc::new(Line { node: Arc::downgrade(node), open: Mutex::default() });
        let former = lines.0.borrow_mut().insert(key, it.clone());
        drop(former);
        it
    }
}

impl Line {
    /// A place on the connection, which is made where there is none.
    async fn enter(&self, node: &Node, connect: Duration, by: Instant) -> Result<Waiting, Box<Problem>> {
        let late = || Problem::call(CallError::Timeout, "upstream_timeout");
        let mut open = timeout_at(by, self.open.lock()).await.map_err(|_| late())?;
        if let Some(mux) = open.as_ref().filter(|it| !it.is_over()) {
            return mux.enter().ok_or_else(busy);
        }
        let limit = by.min(Instant::now() + connect);
        let stream = match timeout_at(limit, TcpStream::connect(node.address)).await {
            Err(_) if limit == by => return Err(late()),
            Err(_) => return Err(Problem::call(CallError::ConnectTimeout, "upstream_connect_timeout")),
            Ok(it) => it.and_then(|it| it.set_nodelay(true).map(|()| it)),
        };
        let stream = stream.map_err(|error| Problem::call(CallError::Connect, "upstream_connect").because(error))?;
        let mux = Mux::start(stream);
        let waiting = mux.enter().ok_or_else(busy);
        *open = Some(mux);
        waiting
    }
}

fn busy() -> Box<Problem> {
    Problem::new(contract::Kind::Unavailable, "the backend has too many calls to answer").reason("upstream_busy")
}

/// What an answer is in HTTP: errors of the framework have a status of their own, those of the service are told beside a 200.
fn answer(reply: Reply) -> Result<Response<Body>, Box<Problem>> {
    let broken = |why: String| Problem::call(CallError::Protocol, "upstream_trpc_frame").because(why);
    let mut response = Response::new(Body::Empty);
    let headers = response.headers_mut();
    for (name, value) in &reply.trans_info {
        // What the framework says to itself is nobody else's.
        let framework = name.starts_with("trpc-") || framing(name);
        if let (false, Ok(name), Ok(value)) = (framework, HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    if reply.ret != 0 {
        headers.insert(RET, reply.ret.into());
    }
    if reply.func_ret != 0 {
        headers.insert(FUNC_RET, reply.func_ret.into());
    }
    let body = frame::decompress(reply.content_encoding, reply.body).map_err(|why| broken(why.to_string()))?;
    let code = if reply.ret != 0 { reply.ret } else { reply.func_ret };
    if reply.ret != 0 || (reply.func_ret != 0 && body.is_empty()) {
        let mut text = format!("{{\"code\":{code},\"message\":").into_bytes();
        push_string(&String::from_utf8_lossy(&reply.error_msg), &mut text);
        text.push(b'}');
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *response.status_mut() = status(reply.ret);
        *response.body_mut() = Body::Full(text.into());
        return Ok(response);
    }
    if reply.content_type != frame::JSON {
        return Err(broken(format!("the answer's content type is {}, and not JSON", reply.content_type)));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = Body::Full(body);
    Ok(response)
}

/// Headers that are the gateway's own to tell.
fn framing(name: &str) -> bool {
    [
        "connection",
        "content-length",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "upgrade",
        "te",
        "trailer",
        "keep-alive",
        "date",
    ]
    .iter()
    .any(|it| name.eq_ignore_ascii_case(it))
}

/// The status that says what a code of the framework says (trpc-go, http/codec.go; the codes that it leaves out by their meaning).
fn status(ret: i32) -> StatusCode {
    match ret {
        0 => StatusCode::OK,
        1 | 51 => StatusCode::BAD_REQUEST,
        41 => StatusCode::UNAUTHORIZED,
        11 | 12 => StatusCode::NOT_FOUND,
        22 | 23 => StatusCode::TOO_MANY_REQUESTS,
        21 | 24 | 101 | 102 => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Forgets this thread's connections to nodes that are gone.
pub fn sweep(local: &Local) {
    let lines: Rc<Lines> = local.get();
    let gone: Vec<_> = lines.0.borrow_mut().extract_if(|_, it| it.node.strong_count() == 0).collect();
    drop(gone);
}
