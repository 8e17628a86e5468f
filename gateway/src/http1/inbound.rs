//! The receiving side of a connection, shared by the connection and the body that a handler reads.
//!
//! Only the connection touches the socket. A reader says that it wants bytes and is woken when they are there, so it may live
//! in the handler's future or in any other task of the thread.
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use contract::BodyError;
use http::{HeaderMap, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;

use super::{
    decode::{Decoded, Decoder, Framing},
    encode, fields,
    head::Head,
    limits::Limits,
};

/// How many bytes of informational heads may wait to be written.
const EARLY: usize = 16 << 10;

/// Why a request's body cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    TooLarge(u64),
    Stalled,
    Broken(&'static str),
}

impl From<Failure> for BodyError {
    fn from(it: Failure) -> Self {
        match it {
            Failure::TooLarge(limit) => BodyError::TooLarge { limit: usize::try_from(limit).unwrap_or(usize::MAX) },
            Failure::Stalled => BodyError::Stalled,
            Failure::Broken(reason) => BodyError::broken(reason),
        }
    }
}

pub(super) type Shared = Rc<RefCell<Inbound>>;

/// What came from the client, and what the handler wants of it.
pub(super) struct Inbound {
    /// Which exchange this is; a handle of an older one gets nothing.
    turn: u64,
    pub(super) buf: BytesMut,
    pub(super) decoder: Decoder,
    /// Whether the bytes after the head are held back until the answer is a 101.
    pub(super) gate: bool,
    /// Whether somebody holds a handle and may still read.
    pub(super) held: bool,
    /// Whether somebody waits for bytes, and who.
    pub(super) wanted: bool,
    reader: Option<Waker>,
    pub(super) failed: Option<Failure>,
    received: u64,
    most: u64,
    /// Whether the bytes belong to no message: no limit of bodies holds.
    tunnel: bool,
    /// Whether the client waits for a 100, and whether it is due.
    pub(super) expects: bool,
    pub(super) continue_due: bool,
    /// Informational heads that wait, and whether there may still be any.
    pub(super) early: Vec<u8>,
    early_open: bool,
    /// Since when bytes are waited for, and how long that took before.
    since: Option<Instant>,
    waited: Duration,
    task: Option<Waker>,
    /// Whether the connection is being polled; it sees all changes then and need not be woken.
    polled: bool,
}

impl Inbound {
    pub(super) fn new(buf: BytesMut, limits: &Limits) -> Self {
        Self {
            turn: 0,
            buf,
            decoder: Decoder::new(Framing::Empty, limits.headers),
            gate: false,
            held: false,
            wanted: false,
            reader: None,
            failed: None,
            received: 0,
            most: limits.body,
            tunnel: false,
            expects: false,
            continue_due: false,
            early: Vec::new(),
            early_open: false,
            since: None,
            waited: Duration::ZERO,
            task: None,
            polled: false,
        }
    }

    /// Begins a new exchange.
    pub(super) fn begin(&mut self, head: &Head, limits: &Limits) {
        self.turn += 1;
        self.decoder = Decoder::new(head.framing, limits.headers);
        self.gate = head.upgrade;
        self.held = false;
        self.wanted = false;
        self.failed = None;
        self.received = 0;
        self.most = limits.body;
        self.expects = head.expects;
        self.continue_due = false;
        self.early_open = head.parts.version == http::Version::HTTP_11;
        self.since = None;
        self.waited = Duration::ZERO;
    }

    /// The whole body, where its length is known and it came along with the head.
    pub(super) fn whole(&mut self) -> Option<Bytes> {
        let size = usize::try_from(self.decoder.left()?).ok().filter(|it| *it <= self.buf.len())?;
        self.decoder = Decoder::new(Framing::Empty, Default::default());
        self.expects = false;
        Some(self.buf.split_to(size).freeze())
    }

    /// Ends the exchange for whoever still holds a handle.
    pub(super) fn detach(&mut self) {
        self.turn += 1;
        self.early_open = false;
        self.early.clear();
        (self.held, self.wanted, self.gate, self.continue_due) = (false, false, false, false);
        if let Some(it) = self.reader.take() {
            it.wake();
        }
    }

    /// The answer's head is being written: nothing informational may follow.
    pub(super) fn close_early(&mut self) {
        self.early_open = false;
        self.early.clear();
        self.continue_due = false;
    }

    /// The bytes from here on belong to no message.
    pub(super) fn open_tunnel(&mut self) {
        self.decoder = Decoder::new(Framing::UntilClose, Default::default());
        self.gate = false;
        self.most = u64::MAX;
        self.tunnel = true;
        self.wake_reader();
    }

    /// Bytes arrived for whoever waits. True if that is the task with this waker, which must go round again then.
    pub(super) fn arrived(&mut self, cx: &Context<'_>) -> bool {
        self.wanted = false;
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        match self.reader.take() {
            Some(it) if it.will_wake(cx.waker()) => true,
            Some(it) => {
                it.wake();
                false
            }
            None => false,
        }
    }

    /// No more bytes will come.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed.get_or_insert(failure);
        self.wanted = false;
        self.since = None;
        self.wake_reader();
    }

    /// The client closed its side of a tunnel.
    pub(super) fn end_tunnel(&mut self) {
        if self.buf.is_empty() {
            let _ = self.decoder.finish();
        } else {
            // What is buffered is read first; then nothing more.
            self.decoder = Decoder::new(Framing::Length(self.buf.len() as u64), Default::default());
        }
        self.wanted = false;
        self.wake_reader();
    }

    fn wake_reader(&mut self) {
        if let Some(it) = self.reader.take() {
            it.wake();
        }
    }

    /// By when more of the body must have arrived.
    pub(super) fn deadline(&mut self, limits: &Limits) -> Option<Instant> {
        if !self.wanted || self.tunnel {
            return None;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        // At the least rate the bytes so far would have taken this long.
        let earned = Duration::from_secs_f64(self.received as f64 / f64::from(limits.body_rate.max(1)));
        let left = earned.max(limits.body_grace).min(limits.body_time).saturating_sub(self.waited);
        Some(since + left.min(limits.body_idle))
    }

    /// The connection's poll begins: changes are seen without a wake.
    pub(super) fn enter(&mut self, cx: &Context<'_>) {
        self.polled = true;
        if !self.task.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
    }

    /// It ends.
    pub(super) fn leave(&mut self) {
        self.polled = false;
    }

    fn wake_task(&self) {
        if let Some(it) = &self.task
            && !self.polled
        {
            it.wake_by_ref();
        }
    }
}

/// A request's body, or the client's bytes after a 101.
pub(super) struct Reader {
    shared: Shared,
    turn: u64,
    ended: bool,
}

impl Reader {
    pub(super) fn new(shared: &Shared) -> Self {
        let mut inbound = shared.borrow_mut();
        inbound.held = true;
        Self { shared: shared.clone(), turn: inbound.turn, ended: false }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inbound = self.shared.borrow_mut();
        if inbound.turn == self.turn {
            inbound.held = false;
            inbound.wanted = false;
            inbound.since = None;
        }
    }
}

impl HttpBody for Reader {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let read = self.shared.borrow_mut().poll_read(self.turn, cx);
        if let Poll::Ready(None | Some(Err(_))) = read {
            self.ended = true;
        }
        read
    }

    fn is_end_stream(&self) -> bool {
        let inbound = self.shared.borrow();
        self.ended || (inbound.turn == self.turn && !inbound.gate && inbound.failed.is_none() && inbound.decoder.is_done())
    }

    fn size_hint(&self) -> SizeHint {
        let inbound = self.shared.borrow();
        match inbound.decoder.left() {
            Some(it) if inbound.turn == self.turn && !inbound.gate => SizeHint::with_exact(it),
            _ => SizeHint::default(),
        }
    }
}

impl Inbound {
    fn poll_read(&mut self, turn: u64, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.turn != turn {
            return Poll::Ready(Some(Err(BodyError::broken("the exchange is over"))));
        }
        if self.failed.is_none() && !self.gate {
            match self.decoder.decode(&mut self.buf) {
                Ok(Decoded::Data(data)) => {
                    self.received += data.len() as u64;
                    if self.received <= self.most {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    self.failed = Some(Failure::TooLarge(self.most));
                }
                Ok(Decoded::Trailers(it)) => return Poll::Ready(Some(Ok(Frame::trailers(it)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => {}
                Err(it) => self.failed = Some(Failure::Broken(it.0)),
            }
        }
        if let Some(it) = self.failed {
            return Poll::Ready(Some(Err(it.into())));
        }
        if !self.reader.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
            self.reader = Some(cx.waker().clone());
        }
        if !self.gate && !self.wanted {
            self.wanted = true;
            // RFC 9110 §10.1.1: the client is asked for its body only when somebody wants it.
            self.continue_due |= std::mem::take(&mut self.expects) && self.early_open;
            self.wake_task();
        }
        Poll::Pending
    }
}

/// Sends informational heads, such as 103, before the answer.
pub(super) struct Early {
    shared: Shared,
    turn: u64,
}

impl Early {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { shared: shared.clone(), turn: shared.borrow().turn }
    }
}

impl contract::exchange::Early for Early {
    /// Sends a head of 1xx, but for 101. False if it cannot be sent: the client speaks HTTP/1.0, the answer has begun, the
    /// exchange is over, or the client does not keep up.
    fn send(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let mut inbound = self.shared.borrow_mut();
        let good = status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS;
        if !good || inbound.turn != self.turn || !inbound.early_open || inbound.early.len() > EARLY {
            return false;
        }
        if status == StatusCode::CONTINUE {
            inbound.expects = false;
            inbound.continue_due = false;
        }
        let out = &mut inbound.early;
        status_line(out, status);
        for (name, value) in headers {
            if !fields::hop_by_hop(name) && *name != header::CONTENT_LENGTH {
                encode::field(out, name, value);
            }
        }
        out.extend_from_slice(b"\r\n");
        inbound.wake_task();
        true
    }
}

/// Writes a status line.
pub(super) fn status_line(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}
