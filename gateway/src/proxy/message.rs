//! What is handed to a backend, and what comes back when there is no answer.
use contract::{Body, CallError, Problem, exchange::Upgrade};
use http::{HeaderMap, HeaderValue, Method};

/// Why an attempt gave no answer, and what is left for another.
pub struct Failed {
    pub problem: Box<Problem>,
    /// How the call failed; none where the client's own body did.
    pub error: Option<CallError>,
    /// Whether any byte may have reached the backend.
    pub sent: bool,
    /// The request, where nothing of it is lost.
    pub request: Option<Request>,
}

/// What a backend is to get, whatever protocol it speaks.
pub struct Request {
    pub method: Method,
    /// Path and query, to the byte.
    pub target: Vec<u8>,
    pub host: HeaderValue,
    /// The exchange's own, as they were received and as rings left them, where this is none: nothing is copied then.
    pub headers: Option<HeaderMap>,
    pub body: Body,
    pub upgrade: Option<Upgrade>,
}

impl Request {
    /// A second one for a second try; none where the body is still on its way or the client asks for another protocol.
    pub fn copy(&self) -> Option<Self> {
        if self.upgrade.is_some() {
            return None;
        }
        Some(Self {
            method: self.method.clone(),
            target: self.target.clone(),
            host: self.host.clone(),
            headers: self.headers.clone(),
            body: self.body.copy()?,
            upgrade: None,
        })
    }
}
