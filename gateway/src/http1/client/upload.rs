//! The request on its way to the backend: its head, and its body as fast as the backend takes it.
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use contract::{Body, BodyError, CallError, body::BoxBody};
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::Body as _;

use super::{connection::Connection, fault::Fault};
use crate::http1::encode::{self, Encoder, Misframed};

/// A request's body and how far it is sent.
pub(super) struct Upload {
    source: Source,
    state: State,
    encoder: Encoder,
}

enum Source {
    Empty,
    /// `Content-Length: 0` is told.
    Nothing,
    Full(Bytes),
    Stream {
        body: BoxBody,
        /// Whether a piece was taken out of it.
        touched: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not to be sent before the backend asks for it.
    Held,
    /// There is more to take out of the body.
    Taking,
    /// All is taken; not all is sent.
    Flushing,
    Done,
    /// The backend takes no more.
    Refused,
}

impl Upload {
    /// `method` decides whether an absent body is told as `Content-Length: 0`.
    pub(super) fn new(method: &Method, body: Body) -> Self {
        let source = match body {
            Body::Full(it) if !it.is_empty() => Source::Full(it),
            Body::Stream(body) if !body.is_end_stream() => Source::Stream { body, touched: false },
            _ if matches!(*method, Method::POST | Method::PUT | Method::PATCH) => Source::Nothing,
            _ => Source::Empty,
        };
        Self { source, state: State::Taking, encoder: Encoder::Raw }
    }

    /// Queues the head; `hold` keeps the body back.
    pub(super) fn begin(&mut self, connection: &mut Connection, head: &RequestHead<'_>, hold: bool) {
        let out = connection.output.head();
        head.write(out);
        self.encoder = match &self.source {
            Source::Empty => Encoder::Raw,
            Source::Nothing => Encoder::Length(0),
            Source::Full(it) => Encoder::Length(it.len() as u64),
            Source::Stream { body, .. } => body.size_hint().exact().map_or(Encoder::Chunked, Encoder::Length),
        };
        match self.encoder {
            Encoder::Raw => {}
            Encoder::Length(length) => encode::content_length(out, length),
            Encoder::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        }
        out.extend_from_slice(b"\r\n");
        self.state = match self.is_empty() {
            true => State::Flushing,
            false if hold => State::Held,
            false => State::Taking,
        };
    }

    /// Whether the same body could be sent again.
    pub(super) fn is_whole(&self) -> bool {
        !matches!(self.source, Source::Stream { touched: true, .. })
    }

    /// Whether it will still be whole after it was sent.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self.source, Source::Stream { .. })
    }

    /// Whether there is no body.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.source, Source::Empty | Source::Nothing)
    }

    /// The body as it was given, where nothing of it is lost.
    pub(super) fn restore(self) -> Option<Body> {
        match self.source {
            Source::Empty | Source::Nothing => Some(Body::Empty),
            Source::Full(it) => Some(Body::Full(it)),
            Source::Stream { body, touched: false } => Some(Body::Stream(body)),
            Source::Stream { touched: true, .. } => None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// Lets a held body go.
    pub(super) fn release(&mut self) {
        if self.state == State::Held {
            self.state = State::Taking;
        }
    }

    /// Whether every byte was sent.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether there is nothing more to be done about it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Refused)
    }

    /// Sends what can be sent now; ready when there is nothing more to send.
    ///
    /// A backend that takes no more is no fault yet, for it may have answered; only the client's part can fail here.
    pub(super) fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        loop {
            let waits = match self.state {
                State::Done | State::Refused => return Poll::Ready(Ok(())),
                State::Taking => self.take(connection, cx)?,
                State::Held | State::Flushing => false,
            };
            if ready!(connection.poll_flush(cx)).is_err() {
                connection.drop_output();
                self.state = State::Refused;
                continue;
            }
            match self.state {
                State::Flushing => self.state = State::Done,
                State::Held => return Poll::Pending,
                _ if waits => return Poll::Pending,
                _ => {}
            }
        }
    }

    /// Moves pieces of the body into the connection's outbox while there is room; true if the body has none ready.
    fn take(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, BodyError> {
        let misframed = |Misframed| BodyError::broken("the body is not as long as it told");
        while self.state == State::Taking && connection.output.has_room() {
            let out = &mut connection.output;
            match &mut self.source {
                Source::Empty | Source::Nothing => self.state = State::Flushing,
                Source::Full(it) => {
                    self.encoder.data(it.clone(), true, out).map_err(misframed)?;
                    self.state = State::Flushing;
                }
                Source::Stream { body, touched } => {
                    let Poll::Ready(frame) = body.as_mut().poll_frame(cx) else { return Ok(true) };
                    *touched = true;
                    match frame.transpose()?.map(|it| it.into_data().map_err(|it| it.into_trailers())) {
                        None => {
                            self.encoder.end(None, out).map_err(misframed)?;
                            self.state = State::Flushing;
                        }
                        Some(Ok(data)) => {
                            let last = body.is_end_stream();
                            self.encoder.data(data, last, out).map_err(misframed)?;
                            if last || self.encoder == Encoder::Length(0) {
                                self.state = State::Flushing;
                            }
                        }
                        Some(Err(Ok(trailers))) => {
                            self.encoder.end(Some(&trailers), out).map_err(misframed)?;
                            self.state = State::Flushing;
                        }
                        Some(Err(Err(_))) => {}
                    }
                }
            }
        }
        Ok(false)
    }
}

/// What stands in a request's head.
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a Method,
    pub(super) target: &'a [u8],
    pub(super) host: &'a HeaderValue,
    pub(super) headers: &'a HeaderMap,
    pub(super) upgrade: bool,
}

impl RequestHead<'_> {
    /// A target that could end the request line, or a method that means a tunnel, is never sent.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if *self.method == Method::CONNECT {
            return Err(Fault::new(CallError::Protocol, "request_connect"));
        }
        if self.target.is_empty() || self.target.iter().any(|it| *it <= b' ' || *it == 0x7f) {
            return Err(Fault::new(CallError::Protocol, "request_target"));
        }
        Ok(())
    }

    /// All but the framing and the empty line.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        encode::field(out, &header::HOST, self.host);
        let mut trailers = false;
        for (name, value) in self.headers {
            match *name {
                // Framing, the host and the connection are ours to tell.
                header::HOST | header::CONTENT_LENGTH | header::TRANSFER_ENCODING | header::CONNECTION => {}
                header::UPGRADE if !self.upgrade => {}
                // Bound to this connection, and named so below.
                header::TE => trailers = true,
                _ => encode::field(out, name, value),
            }
        }
        out.extend_from_slice(match (self.upgrade, trailers) {
            (false, false) => b"",
            (true, false) => b"connection: upgrade\r\n",
            (false, true) => b"te: trailers\r\nconnection: te\r\n",
            (true, true) => b"te: trailers\r\nconnection: upgrade, te\r\n",
        });
    }
}
