//! Calls a backend over HTTP/1.1, polled by whoever awaits the answer and reads its body; no task of its own.
//!
//! Strict where a lenient reading could be read in two ways: heads with bare CR or LF, folded lines, blanks before a colon,
//! a repeated `Content-Length` (even an identical one), `Content-Length` beside `Transfer-Encoding`, any coding but one
//! `chunked`, chunks in HTTP/1.0, a switch of protocols nobody asked for. Each is a `protocol` error of the call.
mod body;
mod connection;
mod exchange;
mod fault;
mod head;
pub mod permits;
pub mod pool;
#[cfg(test)]
mod tests;
mod tunnel;
mod upload;

use std::{fmt, future::poll_fn, time::Duration};

use contract::{Body, BodyError, CallError, Problem, body::BoxBody};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use tokio::time::Instant;

use self::{
    body::Stay,
    connection::Connection,
    exchange::{Ask, Exchange, after},
    fault::Fault,
    head::Head,
    permits::Lease,
    pool::{Entry, Pool},
    tunnel::Tunnel,
    upload::{RequestHead, Upload},
};

/// One call of a backend.
pub struct Call<'a> {
    pub method: Method,
    /// Path and query, sent as they are, to the byte.
    pub target: &'a [u8],
    pub host: HeaderValue,
    /// Without those that belong to the client's connection. Host, framing and `Connection` are ignored here;
    /// `Upgrade` too, unless `upgrade` is given.
    pub headers: &'a HeaderMap,
    pub body: Body,
    /// What the client sends after its head, if it asks for another protocol; read after the backend's 101 only.
    pub upgrade: Option<BoxBody>,
    /// Told of interim answers, those aside that are the client's own affair (100) or change the protocol (101).
    pub on_early: &'a mut dyn FnMut(StatusCode, &HeaderMap),
    pub timeouts: Timeouts,
    /// When the answer's head must be there.
    pub deadline: std::time::Instant,
    /// When the answer's last byte must be there; none for what streams without end.
    pub body_deadline: Option<std::time::Instant>,
}

/// How long each phase of a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until there is a connection, waiting for a permit included.
    pub connect: Duration,
    /// From the last byte of the request to the last of the answer's head.
    pub first_byte: Duration,
    /// Without a byte moved while either side has something to say.
    pub idle: Duration,
    /// The same of tunnels and of server-sent events, where it is longer than `idle`.
    pub stream_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            stream_idle: Duration::from_secs(300),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub struct Failure {
    pub error: CallError,
    /// Whether any byte of the request may have reached the backend.
    pub sent: bool,
    /// A short word for logs and metrics.
    pub reason: &'static str,
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// The client's body broke and the call was given up: no fault of the backend, whatever `error` says.
    pub request_body: Option<BodyError>,
    /// The body, where nothing of it is lost, for another try.
    pub body: Option<Body>,
    /// The client's side of the upgrade, untouched.
    pub upgrade: Option<Upgrade>,
}

/// A client's bytes after its head.
pub struct Upgrade(pub BoxBody);

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}

impl Failure {
    fn new(fault: Fault, sent: bool, body: Option<Body>, upgrade: Option<BoxBody>) -> Box<Self> {
        let Fault { error, reason, source, request_body } = fault;
        Box::new(Self { error, sent, reason, source, request_body, body, upgrade: upgrade.map(Upgrade) })
    }

    /// As the client is to be told.
    pub fn into_problem(self) -> Box<Problem> {
        if let Some(error) = self.request_body {
            return error.of_request();
        }
        let problem = Problem::call(self.error, self.reason);
        match self.source {
            Some(source) => problem.because(source),
            None => problem,
        }
    }
}

/// Whether a method may be repeated though its first try may have reached the backend (RFC 9110, section 9.2.2).
fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE)
}

/// Sends a call over one of the pool's connections and waits for the head of its answer.
///
/// A connection that proves to be closed when it is used again is replaced once, unseen, if the call can be repeated. The answer's
/// headers come without those of the connection; a 101 has `Connection` and `Upgrade`, and its body is the tunnel. Dropping the
/// future, or the body before its end, closes the connection.
pub async fn send(pool: &Pool, call: Call<'_>) -> Result<Response<Body>, Box<Failure>> {
    let flight = pool.permits().fly();
    let Call { method, target, host, headers, body, upgrade, on_early, timeouts, deadline, body_deadline } = call;
    let mut ask = Ask {
        method,
        upgrade: upgrade.is_some(),
        headers,
        on_early,
        first_byte: timeouts.first_byte,
        idle: timeouts.idle,
        deadline: Instant::from_std(deadline),
    };
    let mut upload = Upload::new(&ask.method, body);
    let hold = !upload.is_empty() && headers.get(header::EXPECT).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let mut lease = None;
    loop {
        let surely = !(upload.is_repeatable() && is_idempotent(&ask.method));
        let head = RequestHead { method: &ask.method, target, host: &host, headers: ask.headers, upgrade: ask.upgrade };
        let found = match head.check() {
            Ok(()) => connect(pool, lease.take(), surely, timeouts.connect, ask.deadline).await,
            Err(fault) => Err(fault),
        };
        let mut connection = match found {
            Ok(connection) => connection,
            Err(fault) => return Err(Failure::new(fault, false, upload.restore(), upgrade)),
        };
        upload.begin(&mut connection, &head, hold);
        let mut exchange = Exchange::new(connection, upload);
        let fault = match poll_fn(|cx| exchange.poll_head(cx, &mut ask)).await {
            Ok(head) => {
                // A stream has no end to wait for, and may well be silent for a while.
                let streams = head.streams();
                let idle = if streams { timeouts.stream_idle.max(timeouts.idle) } else { timeouts.idle };
                let by = body_deadline.filter(|_| !streams).map(Instant::from_std);
                let stay = Stay { pool: pool.clone(), _flight: flight, idle, by };
                return answer(exchange, head, upgrade, stay).map_err(|fault| Failure::new(fault, true, None, None));
            }
            Err(fault) => fault,
        };
        let Exchange { connection, upload: tried, .. } = exchange;
        let stale = connection.reused && !connection.heard && fault.error == CallError::Reset && fault.request_body.is_none();
        if !(stale && tried.is_whole() && (!connection.wrote || is_idempotent(&ask.method))) {
            return Err(Failure::new(fault, connection.wrote, tried.restore(), upgrade));
        }
        lease = Some(connection.into_lease());
        upload = tried;
    }
}

/// A connection that is ready for a call: an idle one, or a new one under `lease` or a permit of its own.
async fn connect(pool: &Pool, lease: Option<Lease>, surely: bool, timeout: Duration, deadline: Instant) -> Result<Box<Connection>, Fault> {
    let now = Instant::now();
    if deadline <= now {
        return Err(Fault::new(CallError::Timeout, "upstream_timeout"));
    }
    if lease.is_none()
        && let Some(connection) = pool.pop(surely, now)
    {
        return Ok(connection);
    }
    // On the heap: seldom walked, and much larger than all that a call needs besides.
    Box::pin(connect_anew(pool, lease, surely, now, timeout, deadline)).await
}

async fn connect_anew(
    pool: &Pool,
    lease: Option<Lease>,
    surely: bool,
    now: Instant,
    timeout: Duration,
    deadline: Instant,
) -> Result<Box<Connection>, Fault> {
    let late = || Fault::new(CallError::Timeout, "upstream_timeout");
    let by = after(now, timeout).min(deadline);
    let found = match lease {
        Some(lease) => pool.connect(lease, by).await,
        None => match pool.enter(surely, now, by).await {
            Ok(Entry::Idle(connection)) => Ok(connection),
            Ok(Entry::Permit(lease)) => pool.connect(lease, by).await,
            Err(fault) => Err(fault),
        },
    };
    found.map_err(|fault| if by == deadline && fault.error == CallError::ConnectTimeout { late() } else { fault })
}

fn answer(exchange: Exchange, head: Head, upgrade: Option<BoxBody>, stay: Stay) -> Result<Response<Body>, Fault> {
    let body = match (head.status, upgrade) {
        (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => Body::stream(Tunnel::new(exchange.connection, client, stay)),
        _ => body::of(exchange, &head, stay)?,
    };
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    Ok(response)
}
