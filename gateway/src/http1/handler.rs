//! What answers requests, and what it is told of them.
use std::{future::Future, time::Duration};

use contract::{Body, Problem, body::BoxBody, exchange::Early};
use http::{Response, StatusCode, request};
use tokio::time::Instant;

/// A request, its head read.
pub struct Incoming {
    pub head: request::Parts,
    pub body: Body,
    /// The client's bytes after a 101, of a request that offers to leave HTTP. They come only once the 101 is sent.
    pub upgrade: Option<BoxBody>,
    /// Sends informational heads before the answer.
    pub early: Box<dyn Early>,
    /// When the head was complete.
    pub started: Instant,
}

/// Answers the requests of one connection, one after the other.
pub trait Handler {
    /// What the handler keeps of one exchange. It outlives the future of [`call`](Self::call), so that what was learned is
    /// there for [`finished`](Self::finished) even when the client left in the middle.
    type Note: Default;

    /// Answers one request. If the client leaves, the future is dropped.
    ///
    /// An answer of 101 to a request with an `upgrade` turns the connection into a tunnel: the answer's body goes out raw.
    fn call(&self, incoming: Incoming, note: &mut Self::Note) -> impl Future<Output = Response<Body>>;

    /// Renders the answer to a request that could not be read, or that a panic left without one.
    fn refuse(&self, problem: Box<Problem>, note: &mut Self::Note) -> Response<Body>;

    /// The exchange is over; told exactly once for each `call` and each `refuse`.
    fn finished(&self, note: Self::Note, sent: Sent);
}

/// How an exchange went, as the connection saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The answer's; none if the client left before there was one.
    pub status: Option<StatusCode>,
    /// Bytes of the answer's body that were handed to the connection.
    pub bytes: u64,
    pub outcome: Outcome,
    /// From the complete head to the last byte.
    pub took: Duration,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer's last byte was written.
    Complete,
    /// The client closed or reset the connection before that.
    ClientLeft,
    /// The client took nothing for too long.
    WriteStalled,
    /// The answer's body broke off.
    BodyBroke,
    /// The answer's body was not as long as its head said.
    Misframed,
    /// The handler panicked; `status` is of the answer in its place, if one could be sent.
    Panicked,
    /// Nothing passed through the tunnel for too long.
    TunnelIdle,
}
