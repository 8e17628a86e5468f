//! What is handed to a backend, and what comes back when there is no answer.
use std::{sync::Arc, time::Instant};

use contract::{Body, CallError, Problem, exchange::Upgrade};
use http::{HeaderMap, HeaderValue, Method};

use super::{grpc::method::Ask, trpc::method as trpc};

/// How long one call may take.
#[derive(Clone, Copy)]
pub struct Time {
    /// When the answer's head must be there.
    pub head: Instant,
    /// When the answer's last byte must be there; none for what streams without end.
    pub body: Option<Instant>,
}

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
    /// What is spoken to the backend, where it is not what its upstream says.
    pub spoken: Option<Spoken>,
}

/// What a call speaks, whatever else its upstream speaks.
#[derive(Clone)]
pub enum Spoken {
    Http2,
    /// The body is one framed message.
    Grpc(Box<Ask>),
    /// The body is one JSON document.
    Trpc(Arc<trpc::Method>),
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
            spoken: self.spoken.clone(),
        })
    }
}
