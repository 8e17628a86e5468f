//! What one connection may cost, and what is counted of it.
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::StatusCode;

use super::fields::FieldBounds;

/// What one connection may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The request line, in bytes; 414 beyond.
    pub request_line: usize,
    /// The header lines; 431 beyond. Trailers are held to the same.
    pub headers: FieldBounds,
    /// From a head's first byte, or from the accept, to its last; 408 beyond, or silence where not a byte came.
    pub header_time: Duration,
    /// How long a connection is kept with nothing to do.
    pub idle: Duration,
    /// After so many requests a connection is closed.
    pub requests: u32,
    /// After so long a connection is closed.
    pub age: Duration,
    /// The largest request body, in bytes; 413 beyond.
    pub body: u64,
    /// How long no byte of a body may arrive. All times of bodies run only while somebody waits for the bytes.
    pub body_idle: Duration,
    /// How long a whole body may take.
    pub body_time: Duration,
    /// The slowest that a body may be on average, in bytes a second, ...
    pub body_rate: u32,
    /// ... once this much time was spent waiting for it.
    pub body_grace: Duration,
    /// How long the client may take nothing of what waits for it; the connection is reset then.
    pub write_stall: Duration,
    /// How long no byte may pass through a tunnel, either way.
    pub tunnel_idle: Duration,
    /// Whether a connection may begin with the preface of HTTP/2 (RFC 9113 §3.3); it is handed back then.
    pub prior_knowledge: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_line: 8 << 10,
            headers: FieldBounds::default(),
            header_time: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            requests: 1000,
            age: Duration::from_secs(3600),
            body: 10 << 20,
            body_idle: Duration::from_secs(30),
            body_time: Duration::from_secs(300),
            body_rate: 240,
            body_grace: Duration::from_secs(10),
            write_stall: Duration::from_secs(30),
            tunnel_idle: Duration::from_secs(300),
            prior_knowledge: false,
        }
    }
}

/// Statuses that a request which cannot be read is answered with; the order of [`Counters::refused`].
pub const REFUSALS: [StatusCode; 8] = [
    StatusCode::BAD_REQUEST,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::URI_TOO_LONG,
    StatusCode::EXPECTATION_FAILED,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::NOT_IMPLEMENTED,
    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
];

/// What is counted. One for each worker keeps the threads off each other's cache lines.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were begun and that ended; the difference is open.
    pub connections: AtomicU64,
    pub closed: AtomicU64,
    pub requests: AtomicU64,
    /// Exchanges that the client left before the last byte.
    pub aborted: AtomicU64,
    /// Requests that could not be read, by status in the order of [`REFUSALS`].
    pub refused: [AtomicU64; REFUSALS.len()],
    /// Handlers that panicked.
    pub panics: AtomicU64,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
}

impl Counters {
    pub fn add(to: &AtomicU64, by: u64) {
        if by > 0 {
            to.fetch_add(by, Ordering::Relaxed);
        }
    }

    pub fn refuse(&self, status: StatusCode) {
        if let Some(at) = REFUSALS.iter().position(|it| *it == status) {
            Self::add(&self.refused[at], 1);
        }
    }
}
