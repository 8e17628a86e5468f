//! A request that goes out and the head of its answer that comes in, side by side on one connection.
use std::{
    task::{Context, Poll},
    time::Duration,
};

use contract::CallError;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use super::{
    connection::Connection,
    fault::Fault,
    head::{self, Head},
    upload::Upload,
};
use crate::http1::fields::Malformed;

/// How long a body is held back for a backend that does not say `100 Continue`.
const CONTINUE: Duration = Duration::from_secs(1);
/// How many interim answers one call takes.
const MAX_EARLY: u32 = 32;

/// What the call asks for.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) upgrade: bool,
    pub(super) headers: &'a HeaderMap,
    pub(super) on_early: &'a mut dyn FnMut(StatusCode, &HeaderMap),
    pub(super) first_byte: Duration,
    pub(super) idle: Duration,
    pub(super) deadline: Instant,
}

/// A call on a connection, until the head of its answer is there.
pub(super) struct Exchange {
    pub(super) connection: Box<Connection>,
    pub(super) upload: Upload,
    early: u32,
    /// Since when only the answer is missing.
    asked: Option<Instant>,
}

/// What a wait was for.
#[derive(Clone, Copy)]
enum Phase {
    Continue,
    Write,
    Client,
    FirstByte,
}

/// `now + wait`, or so late that it does not matter.
pub(super) fn after(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365);
    now + wait.min(FAR)
}

impl Exchange {
    pub(super) fn new(connection: Box<Connection>, upload: Upload) -> Self {
        Self { connection, upload, early: 0, asked: None }
    }

    /// The head of the final answer, or of the switch of protocols that was asked for.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>, ask: &mut Ask<'_>) -> Poll<Result<Head, Fault>> {
        loop {
            if !self.upload.is_over()
                && let Poll::Ready(Err(error)) = self.upload.poll(&mut self.connection, cx)
            {
                return Poll::Ready(Err(Fault::of_client(error)));
            }
            match self.poll_answer(cx, ask) {
                Poll::Ready(Ok(Some(head))) => return Poll::Ready(Ok(head)),
                // The body was asked for.
                Poll::Ready(Ok(None)) => continue,
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => {}
            }
            let (due, phase) = self.due(ask);
            if self.connection.poll_alarm(cx, due.min(ask.deadline)).is_pending() {
                return Poll::Pending;
            }
            if ask.deadline <= due {
                return Poll::Ready(Err(Fault::new(CallError::Timeout, "upstream_timeout")));
            }
            match phase {
                Phase::Continue => self.upload.release(),
                Phase::Write => return Poll::Ready(Err(Fault::new(CallError::ReadTimeout, "upstream_write_stalled"))),
                Phase::FirstByte => return Poll::Ready(Err(Fault::new(CallError::ReadTimeout, "upstream_first_byte"))),
                Phase::Client => return Poll::Ready(Err(Fault::new(CallError::Timeout, "upstream_timeout"))),
            }
        }
    }

    /// What comes next if nothing moves any more, and when.
    fn due(&mut self, ask: &Ask<'_>) -> (Instant, Phase) {
        if self.upload.is_over() {
            let asked = *self.asked.get_or_insert_with(Instant::now);
            (after(asked, ask.first_byte), Phase::FirstByte)
        } else if !self.connection.output.is_empty() {
            (after(self.connection.waits_since(), ask.idle), Phase::Write)
        } else if self.upload.is_held() {
            (after(self.connection.waits_since(), CONTINUE), Phase::Continue)
        } else {
            // How slow a client may be is not a backend's matter.
            (ask.deadline, Phase::Client)
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>, ask: &mut Ask<'_>) -> Poll<Result<Option<Head>, Fault>> {
        let malformed = |it: Malformed| Fault::new(CallError::Protocol, it.0).because(it);
        loop {
            let Connection { input, scan, .. } = &mut *self.connection;
            while let Some(length) = scan.end(input).map_err(malformed)? {
                let is_final = !is_early(input);
                let head = head::take(input, length, scan, &ask.method).map_err(malformed)?;
                if is_final {
                    return Poll::Ready(Ok(Some(head)));
                }
                if head.status == StatusCode::SWITCHING_PROTOCOLS {
                    if ask.upgrade && self.upload.is_done() {
                        return Poll::Ready(Ok(Some(head)));
                    }
                    return Poll::Ready(Err(Fault::new(CallError::Protocol, "unasked_upgrade")));
                }
                self.early += 1;
                if self.early > MAX_EARLY {
                    return Poll::Ready(Err(Fault::new(CallError::Protocol, "too_many_interim_answers")));
                }
                // A backend that says it is at work has time anew.
                self.asked = None;
                if head.status != StatusCode::CONTINUE {
                    (ask.on_early)(head.status, &head.headers);
                } else if self.upload.is_held() {
                    self.upload.release();
                    return Poll::Ready(Ok(None));
                }
            }
            match self.connection.poll_read(cx, 0) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) if self.connection.input.is_empty() => {
                    return Poll::Ready(Err(Fault::new(CallError::Reset, "upstream_closed")));
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(Fault::new(CallError::Reset, "upstream_head_truncated"))),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::of_read(error))),
            }
        }
    }
}

/// Whether a head that was scanned is an interim one; its status line may still prove to be malformed.
fn is_early(head: &[u8]) -> bool {
    head.get(9) == Some(&b'1')
}
