//! The messages of an answer, one by one; and several of them as lines or events.
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use contract::{Body, BodyError, CallError, Kind, Problem, body::BoxBody};
use http_body::{Body as HttpBody, Frame};

use super::{
    method::{Method, Several},
    status::Status,
};

/// The largest message of a backend: what gRPC's own clients take.
const MAX_MESSAGE: usize = 4 << 20;

/// The messages of a body, and the status behind them.
pub(super) struct Messages {
    body: BoxBody,
    buffer: BytesMut,
    pub(super) status: Option<Status>,
    ended: bool,
}

impl Messages {
    pub(super) fn new(body: Body) -> Self {
        Self { body: Box::pin(body), buffer: BytesMut::new(), status: None, ended: false }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Box<Problem>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next message; after the last, [`Messages::status`] is there if the backend sent one.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Box<Problem>>> {
        loop {
            if let Some(it) = self.take()? {
                return Poll::Ready(Ok(Some(it)));
            }
            if self.ended {
                return Poll::Ready(match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(Problem::call(CallError::Protocol, "upstream_grpc_frame").because("the last message is cut off")),
                });
            }
            match std::task::ready!(self.body.as_mut().poll_frame(cx)) {
                None => self.ended = true,
                Some(Err(error)) => return Poll::Ready(Err(error.of_response())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(frame) => {
                        self.status = frame.trailers_ref().and_then(Status::of);
                        self.ended = true;
                    }
                },
            }
        }
    }

    /// A whole message, where one is there.
    fn take(&mut self) -> Result<Option<Bytes>, Box<Problem>> {
        let broken = |why: String| Problem::call(CallError::Protocol, "upstream_grpc_frame").because(why);
        let Some(prefix) = self.buffer.get(..5) else { return Ok(None) };
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        match prefix[0] {
            0 => (),
            1 => return Err(broken("a message is compressed, which nobody asked for".to_owned())),
            other => return Err(broken(format!("a message begins with the flag {other}"))),
        }
        if length > MAX_MESSAGE {
            return Err(Problem::call(CallError::Protocol, "upstream_grpc_too_large")
                .because(format!("a message of {length} bytes; at most {MAX_MESSAGE} are taken")));
        }
        if self.buffer.len() < 5 + length {
            self.buffer.reserve(5 + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(5);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// Messages as lines or events.
pub(super) struct Written {
    messages: Messages,
    first: Option<Bytes>,
    several: Several,
    method: Arc<Method>,
    ended: bool,
}

impl Written {
    /// `first` is the message that was awaited before the head could be told.
    pub(super) fn new(messages: Messages, first: Option<Bytes>, several: Several, method: Arc<Method>) -> Self {
        Self { messages, first, several, method, ended: false }
    }

    fn one(&self, json: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(json.len() + 16);
        match self.several {
            Several::Lines => {
                // A document of several lines is one line here: between values, breaks are only blanks.
                out.extend(json.iter().map(|it| if matches!(it, b'\n' | b'\r') { b' ' } else { *it }));
                out.put_u8(b'\n');
            }
            Several::Events => {
                out.extend_from_slice(b"data: ");
                out.extend(json.iter().map(|it| if matches!(it, b'\n' | b'\r') { b' ' } else { *it }));
                out.extend_from_slice(b"\n\n");
            }
        }
        out.freeze()
    }

    /// An error behind messages that are sent already.
    fn fault(&mut self, status: &[u8]) -> Bytes {
        self.ended = true;
        match self.several {
            Several::Lines => [b"{\"error\":", status, b"}\n"].concat().into(),
            Several::Events => [b"event: error\ndata: ", status, b"\n\n"].concat().into(),
        }
    }

    fn broken(&mut self, problem: &Problem) -> Bytes {
        let status =
            Status { code: if problem.kind == Kind::Timeout { 4 } else { 14 }, message: problem.message.to_string(), details: None };
        self.fault(&status.json(None))
    }
}

impl HttpBody for Written {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let me = self.get_mut();
        if me.ended {
            return Poll::Ready(None);
        }
        let next = match me.first.take() {
            Some(it) => Ok(Some(it)),
            None => std::task::ready!(me.messages.poll_next(cx)),
        };
        let data = match next {
            Ok(Some(message)) => match me.method.decode(message) {
                Ok((json, _)) => me.one(&json),
                Err(why) => me.broken(&Problem::call(CallError::Protocol, "upstream_grpc_message").because(why)),
            },
            Ok(None) => match me.messages.status.take() {
                Some(status) if status.code == 0 => {
                    me.ended = true;
                    return Poll::Ready(None);
                }
                Some(status) => {
                    let json = status.json(me.method.pool());
                    me.fault(&json)
                }
                None => me.broken(&no_status()),
            },
            Err(problem) => me.broken(&problem),
        };
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

/// The answer ended, and nobody said how the call did.
pub(super) fn no_status() -> Box<Problem> {
    Problem::call(CallError::Protocol, "upstream_grpc_no_status").because("the answer ended without `grpc-status`")
}
