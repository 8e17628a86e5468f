//! After a switch of protocols: bytes both ways, moved whenever the answer's body is polled.
use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use contract::{BodyError, body::BoxBody};
use http_body::{Body as HttpBody, Frame};

use super::{body::Stay, connection::Connection, exchange::after};
use crate::http1::encode::Encoder;

/// The backend's bytes; being polled, it also carries the client's.
///
/// The client's end is passed on while the backend goes on. The backend's end ends the tunnel, for a body cannot say that
/// it is over and yet be polled.
pub(super) struct Tunnel {
    /// None once it is over.
    connection: Option<Box<Connection>>,
    client: BoxBody,
    out: Out,
    stay: Stay,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Out {
    Open,
    /// The client has ended; the backend is not yet told.
    Ending,
    Ended,
}

impl Tunnel {
    pub(super) fn new(connection: Box<Connection>, client: BoxBody, stay: Stay) -> Self {
        Self { connection: Some(connection), client, out: Out::Open, stay }
    }
}

/// Carries what the client sent as far as the backend takes it.
fn poll_out(connection: &mut Connection, client: &mut BoxBody, out: &mut Out, cx: &mut Context<'_>) -> Result<(), BodyError> {
    while *out != Out::Ended {
        let mut waits = false;
        while *out == Out::Open && connection.output.has_room() {
            match client.as_mut().poll_frame(cx) {
                Poll::Pending => {
                    waits = true;
                    break;
                }
                Poll::Ready(None) => *out = Out::Ending,
                Poll::Ready(Some(frame)) => {
                    if let Ok(data) = frame?.into_data() {
                        // Raw bytes have no promise to break.
                        let _ = Encoder::Raw.data(data, false, &mut connection.output);
                    }
                }
            }
        }
        let sent = match connection.poll_flush(cx) {
            Poll::Pending => return Ok(()),
            Poll::Ready(sent) => sent.is_ok(),
        };
        if !sent {
            // It may still have something to say.
            connection.drop_output();
            *out = Out::Ended;
        } else if *out == Out::Ending {
            if connection.poll_shutdown(cx).is_pending() {
                return Ok(());
            }
            *out = Out::Ended;
        } else if waits {
            return Ok(());
        }
    }
    Ok(())
}

impl HttpBody for Tunnel {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let me = self.get_mut();
        let Some(connection) = &mut me.connection else { return Poll::Ready(None) };
        let ended = 'over: {
            if let Err(error) = poll_out(connection, &mut me.client, &mut me.out, cx) {
                break 'over Some(Err(error));
            }
            if connection.input.is_empty() {
                match connection.poll_read(cx, 0) {
                    Poll::Ready(Ok(0)) => break 'over None,
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => break 'over Some(Err(BodyError::broken(error))),
                    Poll::Pending => {
                        let due = after(connection.waits_since(), me.stay.idle);
                        let due = me.stay.by.map_or(due, |it| it.min(due));
                        match connection.poll_alarm(cx, due) {
                            Poll::Pending => return Poll::Pending,
                            Poll::Ready(()) => break 'over Some(Err(BodyError::Stalled)),
                        }
                    }
                }
            }
            return Poll::Ready(Some(Ok(Frame::data(connection.input.split().freeze()))));
        };
        me.connection = None;
        Poll::Ready(ended)
    }
}
