//! The answer's body, which brings its connection home at its exact end.
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use contract::{Body, BodyError, CallError};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::{
    connection::Connection,
    exchange::{Exchange, after},
    fault::Fault,
    head::{self, Head},
    permits::Flight,
    pool::Pool,
    upload::Upload,
};
use crate::http1::{
    decode::{Decoded, Decoder},
    fields::{FieldBounds, Malformed},
};

/// What a call keeps until its answer has ended.
pub(super) struct Stay {
    pub(super) pool: Pool,
    pub(super) _flight: Flight,
    pub(super) idle: Duration,
    /// When the last byte must have come.
    pub(super) by: Option<Instant>,
}

/// An answer's body that did not come with its head.
struct Answer {
    /// None once the body has ended, well or not.
    live: Option<Live>,
    decoder: Decoder,
    /// Pieces that are known and not yet asked for.
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
    fault: Option<BodyError>,
}

struct Live {
    connection: Box<Connection>,
    upload: Upload,
    keep_alive: bool,
    stay: Stay,
}

/// Makes the body that follows `head`: in one piece if all of it is here already.
pub(super) fn of(exchange: Exchange, head: &Head, stay: Stay) -> Result<Body, Fault> {
    let bounds = FieldBounds { line: head::MAX_HEAD, total: head::MAX_HEAD, count: head::MAX_HEADERS };
    let mut decoder = Decoder::new(head.framing, bounds);
    let Exchange { mut connection, upload, .. } = exchange;
    let (mut data, mut trailers) = (None, None);
    loop {
        let decoded = decoder.decode(&mut connection.input);
        match decoded.map_err(|it: Malformed| Fault::new(CallError::Protocol, it.0).because(it))? {
            Decoded::Data(piece) => data = Some(join(data, piece)),
            Decoded::Trailers(it) => trailers = Some(it),
            Decoded::More | Decoded::End => break,
        }
    }
    let live = Live { connection, upload, keep_alive: head.keep_alive, stay };
    if !decoder.is_done() {
        return Ok(Body::stream(Answer { live: Some(live), decoder, data, trailers, fault: None }));
    }
    live.finish();
    Ok(match trailers {
        None => data.map_or(Body::Empty, Body::Full),
        trailers => Body::stream(Answer { live: None, decoder, data, trailers, fault: None }),
    })
}

fn join(first: Option<Bytes>, next: Bytes) -> Bytes {
    let Some(first) = first else { return next };
    let mut both = first.try_into_mut().unwrap_or_else(|it| BytesMut::from(&it[..]));
    both.extend_from_slice(&next);
    both.freeze()
}

// === impl Live ===

impl Live {
    /// The answer is over: the connection may serve again if both sides are.
    fn finish(self) {
        if self.keep_alive && self.upload.is_done() {
            self.stay.pool.give_back(self.connection);
        }
    }

    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let due = after(self.connection.waits_since(), self.stay.idle);
        let by = self.stay.by.map_or(due, |it| it.min(due));
        self.connection
            .poll_alarm(cx, by)
            .map(|()| if by < due { BodyError::broken("the time for the whole call was over") } else { BodyError::Stalled })
    }
}

// === impl Answer ===

impl Answer {
    fn finish(&mut self) {
        if let Some(live) = self.live.take() {
            live.finish();
        }
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.live = None;
        Poll::Ready(Some(Err(error)))
    }

    /// Looks behind a piece of data, so that a connection is free as soon as its last byte is here.
    fn look_ahead(&mut self) {
        while let Some(live) = &mut self.live {
            if self.decoder.is_done() {
                return self.finish();
            }
            match self.decoder.decode(&mut live.connection.input) {
                Ok(Decoded::More) => return,
                Ok(Decoded::Data(data)) => {
                    self.data = Some(data);
                    if !self.decoder.is_done() {
                        return;
                    }
                }
                Ok(Decoded::Trailers(it)) => self.trailers = Some(it),
                Ok(Decoded::End) => return self.finish(),
                Err(error) => {
                    self.fault = Some(BodyError::broken(error));
                    self.live = None;
                }
            }
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let me = self.get_mut();
        if let Some(data) = me.data.take() {
            me.look_ahead();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(trailers) = me.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        if let Some(fault) = me.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        let Some(live) = &mut me.live else { return Poll::Ready(None) };

        // The rest of the request goes on beside its answer.
        if !live.upload.is_held()
            && !live.upload.is_over()
            && let Poll::Ready(Err(error)) = live.upload.poll(&mut live.connection, cx)
        {
            return me.fail(error);
        }
        loop {
            match me.decoder.decode(&mut live.connection.input) {
                Ok(Decoded::Data(data)) => {
                    me.look_ahead();
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Decoded::Trailers(trailers)) => {
                    me.finish();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::End) => {
                    me.finish();
                    return Poll::Ready(None);
                }
                Ok(Decoded::More) => {}
                Err(error) => return me.fail(BodyError::broken(error)),
            }
            // A byte more than there is: a read that fills its buffer leaves the socket marked as readable, and the next look at
            // it costs a system call for nothing.
            let wish = usize::try_from(me.decoder.expected()).unwrap_or(usize::MAX).saturating_add(1);
            match live.connection.poll_read(cx, wish) {
                Poll::Ready(Ok(0)) => match me.decoder.finish() {
                    Ok(()) => {
                        me.live = None;
                        return Poll::Ready(None);
                    }
                    Err(error) => return me.fail(BodyError::broken(error)),
                },
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return me.fail(BodyError::broken(error)),
                Poll::Pending => break,
            }
        }
        match live.poll_alarm(cx) {
            Poll::Ready(error) => me.fail(error),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.live.is_none() && self.data.is_none() && self.trailers.is_none() && self.fault.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let known = self.data.as_ref().map_or(0, Bytes::len) as u64;
        match self.decoder.left() {
            // A length leaves no room for trailers.
            Some(left) if self.trailers.is_none() => SizeHint::with_exact(known + left),
            _ => {
                let mut hint = SizeHint::new();
                hint.set_lower(known);
                hint
            }
        }
    }
}

impl Drop for Answer {
    /// What is buffered already is skipped; nothing is waited for.
    fn drop(&mut self) {
        self.data = None;
        while let Some(live) = &mut self.live {
            match self.decoder.decode(&mut live.connection.input) {
                Ok(Decoded::Data(_) | Decoded::Trailers(_)) => {}
                Ok(Decoded::End) => self.finish(),
                Ok(Decoded::More) | Err(_) => return,
            }
        }
    }
}
