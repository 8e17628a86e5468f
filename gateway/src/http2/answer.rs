//! Sends an answer: its head, and its body as fast as the client's window takes it.
use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use contract::Body;
use h2::{Reason, SendStream, server::SendResponse};
use http::{HeaderMap, Response, StatusCode, header};
use http_body::Body as _;
use tokio::time::Instant;

use crate::http1::{Limits, Outcome, Timer, date, plain_number};

/// The answer was not as it must be.
pub(super) struct Misframed;

/// Makes the head. Gives whether a body follows, and its length where that is known.
pub(super) fn head(answer: Response<Body>, head_only: bool) -> Result<(Response<()>, Body, Option<u64>), Misframed> {
    let (mut parts, body) = answer.into_parts();
    if parts.status.is_informational() {
        return Err(Misframed);
    }
    parts.version = http::Version::HTTP_2;
    let said = lengths(&parts.headers)?;
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::TE, header::UPGRADE, header::CONTENT_LENGTH] {
        parts.headers.remove(name);
    }
    parts.headers.remove("keep-alive");
    parts.headers.remove("proxy-connection");
    if !parts.headers.contains_key(header::DATE) {
        parts.headers.insert(header::DATE, date::value(Instant::now()));
    }
    let is = body.size_hint().exact();
    if parts.status == StatusCode::NO_CONTENT {
        return Ok((Response::from_parts(parts, ()), Body::Empty, None));
    }
    if head_only || parts.status == StatusCode::NOT_MODIFIED {
        // The length is of what a GET would get, which only the handler knows.
        if let Some(it) = said.or(is.filter(|it| *it > 0)) {
            parts.headers.insert(header::CONTENT_LENGTH, it.into());
        }
        return Ok((Response::from_parts(parts, ()), Body::Empty, None));
    }
    if matches!((said, is), (Some(said), Some(is)) if said != is) {
        return Err(Misframed);
    }
    let length = said.or(is);
    if let Some(it) = length {
        parts.headers.insert(header::CONTENT_LENGTH, it.into());
    }
    Ok((Response::from_parts(parts, ()), body, length))
}

fn lengths(headers: &HeaderMap) -> Result<Option<u64>, Misframed> {
    let mut length = None;
    for it in headers.get_all(header::CONTENT_LENGTH) {
        let it = plain_number(it.as_bytes()).ok_or(Misframed)?;
        if length.replace(it).is_some_and(|before| before != it) {
            return Err(Misframed);
        }
    }
    Ok(length)
}

/// Sends a whole answer; `sent` counts the bytes of its body that were handed to the connection.
pub(super) async fn send(mut to: SendResponse<Bytes>, answer: Response<Body>, head_only: bool, limits: &Limits, sent: &mut u64) -> Outcome {
    let Ok((head, body, length)) = head(answer, head_only) else {
        to.send_reset(Reason::INTERNAL_ERROR);
        return Outcome::Misframed;
    };
    let empty = body.is_end_stream();
    if empty && length.is_some_and(|it| it > 0) {
        to.send_reset(Reason::INTERNAL_ERROR);
        return Outcome::Misframed;
    }
    let Ok(stream) = to.send_response(head, empty) else { return Outcome::ClientLeft };
    if empty {
        return Outcome::Complete;
    }
    let mut it = Sending { stream, body, left: length, piece: Bytes::new(), last: false, since: None, timer: Timer::default() };
    let outcome = poll_fn(|cx| it.poll(cx, limits, sent)).await;
    match outcome {
        Outcome::Complete | Outcome::ClientLeft => {}
        Outcome::WriteStalled => it.stream.send_reset(Reason::CANCEL),
        _ => it.stream.send_reset(Reason::INTERNAL_ERROR),
    }
    outcome
}

struct Sending {
    stream: SendStream<Bytes>,
    body: Body,
    /// How much is still to come, where that is known.
    left: Option<u64>,
    /// What waits for the client's window.
    piece: Bytes,
    /// Whether that is the last of it.
    last: bool,
    /// Since when the window is shut.
    since: Option<Instant>,
    timer: Timer,
}

impl Sending {
    fn poll(&mut self, cx: &mut Context<'_>, limits: &Limits, sent: &mut u64) -> Poll<Outcome> {
        if self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Outcome::ClientLeft);
        }
        loop {
            while !self.piece.is_empty() {
                self.stream.reserve_capacity(self.piece.len());
                let room = match self.stream.capacity() {
                    0 => match self.stream.poll_capacity(cx) {
                        Poll::Ready(Some(Ok(it))) => it,
                        Poll::Ready(_) => return Poll::Ready(Outcome::ClientLeft),
                        Poll::Pending => {
                            let since = *self.since.get_or_insert_with(Instant::now);
                            return match self.timer.expired(cx, Some(since + limits.write_stall)) {
                                true => Poll::Ready(Outcome::WriteStalled),
                                false => Poll::Pending,
                            };
                        }
                    },
                    it => it,
                };
                self.since = None;
                let piece = self.piece.split_to(room.min(self.piece.len()));
                *sent += piece.len() as u64;
                let end = self.last && self.piece.is_empty();
                if self.stream.send_data(piece, end).is_err() {
                    return Poll::Ready(Outcome::ClientLeft);
                }
                if end {
                    return Poll::Ready(Outcome::Complete);
                }
            }
            let framed = match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.body).poll_frame(cx))) {
                Err(_) => return Poll::Ready(Outcome::Panicked),
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(it)) => it,
            };
            match framed {
                Some(Err(_)) => return Poll::Ready(Outcome::BodyBroke),
                None => return Poll::Ready(self.end(None)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        if let Some(left) = &mut self.left {
                            let Some(it) = left.checked_sub(data.len() as u64) else { return Poll::Ready(Outcome::Misframed) };
                            *left = it;
                        }
                        self.last = self.body.is_end_stream();
                        if self.last && self.left.is_some_and(|it| it > 0) {
                            return Poll::Ready(Outcome::Misframed);
                        }
                        if data.is_empty() && self.last {
                            return Poll::Ready(self.end(None));
                        }
                        self.piece = data;
                    }
                    Err(frame) => return Poll::Ready(self.end(frame.into_trailers().ok())),
                },
            }
        }
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Outcome {
        if self.left.is_some_and(|it| it > 0) {
            return Outcome::Misframed;
        }
        let ended = match trailers {
            Some(mut it) => {
                for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::TE, header::UPGRADE, header::CONTENT_LENGTH] {
                    it.remove(name);
                }
                self.stream.send_trailers(it)
            }
            None => self.stream.send_data(Bytes::new(), true),
        };
        if ended.is_ok() { Outcome::Complete } else { Outcome::ClientLeft }
    }
}
