//! One connection: reads heads, has them answered in turn, and knows when to stop.
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use contract::{Body, Kind, Problem};
use http::{Method, Response, StatusCode, Version};
use http_body::Body as _;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    time::Instant,
};

use super::{
    answer::{self, Facts, Plan},
    decode::{Decoded, Framing},
    drain::{Drain, Seat},
    encode::{Encoder, Outbox},
    handler::{Handler, Incoming, Outcome, Sent},
    head::{Head, Refusal, Scanner},
    inbound::{Early, Failure, Inbound, Reader, Shared},
    limits::{Counters, Limits},
    spare,
    timer::Timer,
};

/// The size of an ordinary read, and what an idle connection holds.
const READ: usize = 4 << 10;
/// The largest read of a body.
const LARGE_READ: usize = 64 << 10;
/// Bytes that lie unread beyond this are not added to: a client's leaving is no longer noticed then, but memory is bounded.
const AHEAD: usize = 8 << 10;
/// An unread rest of a body is passed over up to this size, so that the connection may go on, ...
const REST: u64 = 64 << 10;
/// ... if it arrives within this time.
const REST_TIME: Duration = Duration::from_secs(1);
/// How long, and how many bytes, are read and thrown away after the last answer, so that no reset overtakes it (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 1 << 20;
/// How long a tunnel's backend may still talk after the client closed.
const TUNNEL_GRACE: Duration = Duration::from_secs(5);
/// How long a drain waits for the first request of a connection that was just accepted.
const FRESH: Duration = Duration::from_secs(1);

/// How the preface of HTTP/2 begins: as a head that is none of HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

const TOO_SLOW: Refusal = Refusal::new(Kind::RequestTimeout, "header_timeout", "the request's head did not arrive in time");
const TOO_LARGE: Refusal = Refusal::new(Kind::TooLarge, "body_too_large", "the body is larger than allowed here");

/// A connection that is over; dropping `io` closes it.
#[derive(Debug)]
pub struct Closed<IO> {
    pub io: IO,
    /// Whether the client must not take what it has for a whole answer: close with a reset (`SO_LINGER` of zero).
    pub reset: bool,
    /// What was received, where the client speaks HTTP/2 by prior knowledge: the connection is not over, but somebody else's.
    pub http2: Option<BytesMut>,
}

/// Serves one connection to its end. `received` is what was already read of it.
///
/// Everything happens in this future; it stays on its thread. Dropping it drops the handler's future with it.
pub async fn serve<IO, H>(io: IO, received: BytesMut, limits: &Limits, counters: &Counters, handler: &H, drain: &Drain) -> Closed<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    H: Handler,
{
    let now = Instant::now();
    let mut connection = Connection {
        io,
        shared: Rc::new(RefCell::new(Inbound::new(received, limits))),
        out: Outbox::default(),
        scanner: Scanner::default(),
        timer: Timer::default(),
        seat: drain.sit(),
        limits,
        counters,
        accepted: now,
        old_at: now.checked_add(limits.age),
        idle_since: now,
        begun: None,
        served: 0,
        read: 0,
        written: 0,
        unflushed: false,
        stalled: None,
        closed_by_client: false,
        preface: None,
    };
    Counters::add(&counters.connections, 1);
    let reset = connection.run(handler).await;
    connection.count();
    let http2 = connection.preface.take();
    Counters::add(&counters.closed, u64::from(http2.is_none()));
    Closed { io: connection.io, reset, http2 }
}

struct Connection<'a, IO> {
    io: IO,
    shared: Shared,
    out: Outbox,
    scanner: Scanner,
    timer: Timer,
    seat: Seat,
    limits: &'a Limits,
    counters: &'a Counters,
    accepted: Instant,
    /// When the connection has lived for long enough.
    old_at: Option<Instant>,
    idle_since: Instant,
    /// When the first byte of a head came that is not complete yet.
    begun: Option<Instant>,
    served: u32,
    /// Bytes that are not yet counted.
    read: u64,
    written: u64,
    unflushed: bool,
    /// Since when the client takes nothing.
    stalled: Option<Instant>,
    /// Whether the client closed its side; only a tunnel goes on then.
    closed_by_client: bool,
    preface: Option<BytesMut>,
}

/// What comes next on an idle connection.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation a request")]
enum Next {
    Request(Head),
    Refuse(Refusal),
    Close,
}

/// How a handler's work ended.
enum Attended {
    Answer(Response<Body>),
    Panicked,
    Left,
    Stalled,
}

/// What the client sent while it waits for an answer.
enum Input {
    /// Nothing that the polled task waits for.
    Quiet,
    /// Bytes for a reader in this very task.
    Again,
    /// It closed.
    Left,
}

/// What becomes of the connection.
enum Then {
    Next,
    Linger,
    Close,
    Reset,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Connection<'_, IO> {
    /// Gives whether the connection must be reset.
    async fn run<H: Handler>(&mut self, handler: &H) -> bool {
        loop {
            let then = match poll_fn(|cx| self.poll_head(cx)).await {
                Next::Request(head) => self.exchange(handler, head).await,
                Next::Refuse(refusal) => self.refuse(handler, refusal).await,
                Next::Close => Then::Close,
            };
            match then {
                Then::Next => {}
                Then::Close => return false,
                Then::Reset => return true,
                Then::Linger => {
                    self.linger().await;
                    return false;
                }
            }
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let inbound = &mut *self.shared.borrow_mut();
        loop {
            match self.scanner.next(&mut inbound.buf, self.limits.request_line, &self.limits.headers) {
                Err(it) => return Poll::Ready(Next::Refuse(it)),
                Ok(Some(head)) => {
                    self.begun = None;
                    return Poll::Ready(match self.scanner.parse(&head) {
                        Ok(it) => Next::Request(it),
                        Err(_) if self.limits.prior_knowledge && self.served == 0 && head == PREFACE => {
                            let mut received = BytesMut::from(PREFACE);
                            received.extend_from_slice(&inbound.buf);
                            self.preface = Some(received);
                            Next::Close
                        }
                        Err(it) => Next::Refuse(it),
                    });
                }
                Ok(None) => {}
            }
            if inbound.buf.is_empty() {
                self.begun = None;
            } else if self.begun.is_none() {
                self.begun = Some(Instant::now());
            }
            match poll_read(&mut self.io, &mut inbound.buf, READ, cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Next::Close),
                Poll::Ready(Ok(size)) => self.read += size as u64,
                Poll::Pending => break,
            }
        }
        let mut deadline = match self.begun {
            Some(it) => it + self.limits.header_time,
            None if self.served == 0 => self.accepted + self.limits.header_time,
            None => self.idle_since + self.limits.idle,
        };
        self.seat.listen(cx);
        if self.seat.draining() && self.begun.is_none() {
            if self.served > 0 || self.accepted.elapsed() >= FRESH {
                return Poll::Ready(Next::Close);
            }
            deadline = deadline.min(self.accepted + FRESH);
        }
        if self.timer.expired(cx, Some(deadline)) {
            return Poll::Ready(if self.begun.is_some() { Next::Refuse(TOO_SLOW) } else { Next::Close });
        }
        Poll::Pending
    }

    async fn refuse<H: Handler>(&mut self, handler: &H, refusal: Refusal) -> Then {
        let now = Instant::now();
        let mut note = H::Note::default();
        self.counters.refuse(refusal.kind.status());
        let response = refused(handler, refusal.problem(), &mut note);
        let status = response.status();
        let facts = Facts { http_11: true, head_only: false, trailers: false, upgrade: false, close: true, now };
        let (outcome, _) = self.answer(response, facts).await;
        handler.finished(note, Sent { status: Some(status), bytes: self.out.sent(), outcome, took: now.elapsed() });
        if outcome == Outcome::Complete { Then::Linger } else { Then::Reset }
    }

    async fn exchange<H: Handler>(&mut self, handler: &H, head: Head) -> Then {
        let started = Instant::now();
        self.served += 1;
        Counters::add(&self.counters.requests, 1);
        if let Framing::Length(it) = head.framing
            && it > self.limits.body
        {
            return self.refuse(handler, TOO_LARGE).await;
        }
        let mut facts = Facts {
            http_11: head.parts.version == Version::HTTP_11,
            head_only: head.parts.method == Method::HEAD,
            trailers: head.trailers,
            upgrade: head.upgrade,
            close: !head.keep_alive,
            now: started,
        };
        let mut note = H::Note::default();
        poll_fn(|cx| {
            self.read_rest(cx, &head);
            Poll::Ready(())
        })
        .await;
        let incoming = self.incoming(head, started);
        let attended = {
            let note = &mut note;
            // On the heap, for it is by far the largest part: an idle connection does not hold room for it. Called within the
            // block, so that it panics where panics are caught.
            self.attend(Box::pin(async move { handler.call(incoming, note).await }).as_mut()).await
        };
        let (response, panicked) = match attended {
            Attended::Answer(it) => (it, false),
            Attended::Panicked => {
                Counters::add(&self.counters.panics, 1);
                let problem = Problem::new(Kind::Internal, "something went wrong here").reason("panic");
                facts.close = true;
                (refused(handler, problem, &mut note), true)
            }
            Attended::Left | Attended::Stalled => {
                let left = matches!(attended, Attended::Left);
                let outcome = if left { Outcome::ClientLeft } else { Outcome::WriteStalled };
                Counters::add(&self.counters.aborted, 1);
                self.detach();
                handler.finished(note, Sent { status: None, bytes: 0, outcome, took: started.elapsed() });
                return if left { Then::Close } else { Then::Reset };
            }
        };
        facts.close |= self.must_close(started);
        let status = response.status();
        let (outcome, plan) = self.answer(response, facts).await;
        self.detach();
        self.idle_since = Instant::now();
        if outcome == Outcome::ClientLeft {
            Counters::add(&self.counters.aborted, 1);
        }
        let told = if panicked && outcome == Outcome::Complete { Outcome::Panicked } else { outcome };
        handler.finished(note, Sent { status: Some(status), bytes: self.out.sent(), outcome: told, took: self.idle_since - started });
        self.count();
        match outcome {
            Outcome::Complete if plan.close => Then::Linger,
            Outcome::Complete if self.pass_over_rest().await => Then::Next,
            Outcome::Complete => Then::Linger,
            Outcome::ClientLeft | Outcome::TunnelIdle => Then::Close,
            // A length or a missing last chunk tells that it was cut; a reset could take away what the client has not read yet.
            Outcome::BodyBroke if !matches!(plan.body, Some(Encoder::Raw)) => Then::Close,
            _ => Then::Reset,
        }
    }

    /// Reads once more where a small body came along in part: what is there whole goes on in one piece.
    fn read_rest(&mut self, cx: &mut Context<'_>, head: &Head) {
        let inbound = &mut *self.shared.borrow_mut();
        let Framing::Length(size) = head.framing else { return };
        let missing = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(inbound.buf.len());
        // The client waits for a 100, or its body is long: then it is a stream.
        if head.expects || inbound.buf.is_empty() || missing == 0 || missing > LARGE_READ {
            return;
        }
        // An end, or a fault, is told again to whoever reads on.
        if let Poll::Ready(Ok(size)) = poll_read(&mut self.io, &mut inbound.buf, missing.max(READ), cx) {
            self.read += size as u64;
        }
    }

    /// Makes of a head what the handler gets.
    fn incoming(&mut self, head: Head, started: Instant) -> Incoming {
        let mut inbound = self.shared.borrow_mut();
        inbound.begin(&head, self.limits);
        let body = if head.framing == Framing::Empty { Some(Body::Empty) } else { inbound.whole().map(Body::Full) };
        drop(inbound);
        let body = body.unwrap_or_else(|| Body::Stream(Box::pin(Reader::new(&self.shared))));
        let upgrade = head.upgrade.then(|| Box::pin(Reader::new(&self.shared)) as _);
        Incoming { head: head.parts, body, upgrade, early: Box::new(Early::new(&self.shared)), started }
    }

    /// Whether this answer is the last one, for reasons that stand before it is written.
    fn must_close(&self, now: Instant) -> bool {
        let inbound = self.shared.borrow();
        let unread = !inbound.decoder.is_done();
        let never = inbound.expects || (!inbound.held && inbound.decoder.left().is_some_and(|it| it > REST));
        self.seat.draining()
            || self.served >= self.limits.requests
            || self.old_at.is_some_and(|it| now >= it)
            || inbound.failed.is_some()
            || (unread && never)
    }

    fn detach(&mut self) {
        let mut inbound = self.shared.borrow_mut();
        inbound.detach();
        // A connection that is idle keeps no more than an ordinary read.
        if inbound.buf.is_empty() && inbound.buf.capacity() > 4 * READ {
            inbound.buf = BytesMut::new();
        }
    }

    /// Adds what was not yet counted.
    fn count(&mut self) {
        Counters::add(&self.counters.bytes_in, std::mem::take(&mut self.read));
        Counters::add(&self.counters.bytes_out, std::mem::take(&mut self.written));
    }

    /// Polls the handler, and meanwhile brings it its body, sends what goes before the answer, and watches for the client's leaving.
    async fn attend<F: Future<Output = Response<Body>>>(&mut self, mut future: Pin<&mut F>) -> Attended {
        poll_fn(|cx| {
            self.shared.borrow_mut().enter(cx);
            let it = self.poll_attend(cx, future.as_mut());
            self.shared.borrow_mut().leave();
            it
        })
        .await
    }

    fn poll_attend<F: Future<Output = Response<Body>>>(&mut self, cx: &mut Context<'_>, mut future: Pin<&mut F>) -> Poll<Attended> {
        loop {
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                Ok(Poll::Ready(it)) => return Poll::Ready(Attended::Answer(it)),
                Ok(Poll::Pending) => {}
                Err(_) => return Poll::Ready(Attended::Panicked),
            }
            self.gather_early();
            if let Poll::Ready(Err(_)) = self.poll_write(cx) {
                return Poll::Ready(Attended::Left);
            }
            match self.poll_input(cx, false) {
                Input::Again => continue,
                Input::Left => return Poll::Ready(Attended::Left),
                Input::Quiet => {}
            }
            let body = self.shared.borrow_mut().deadline(self.limits);
            let stall = self.stalled.map(|it| it + self.limits.write_stall);
            if !self.timer.expired(cx, earlier(body, stall)) {
                return Poll::Pending;
            }
            if stall.is_some_and(|it| it <= Instant::now()) {
                return Poll::Ready(Attended::Stalled);
            }
            self.shared.borrow_mut().fail(Failure::Stalled);
        }
    }

    /// Puts informational heads into the outbox.
    fn gather_early(&mut self) {
        let inbound = &mut *self.shared.borrow_mut();
        if self.out.has_room() {
            if std::mem::take(&mut inbound.continue_due) {
                self.out.head().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            self.out.head().append(&mut inbound.early);
        }
    }

    /// Writes an answer, head and body. Its body is dropped before the return.
    async fn answer(&mut self, response: Response<Body>, facts: Facts) -> (Outcome, Plan) {
        let (parts, mut body) = response.into_parts();
        self.gather_early();
        self.shared.borrow_mut().close_early();
        self.out.reset_count();
        let head = answer::head(parts.status, &parts.headers, &body, facts, self.out.head());
        spare::give(parts.headers);
        let Ok(mut plan) = head else {
            return (Outcome::Misframed, Plan { body: None, close: true, tunnel: false });
        };
        if plan.tunnel {
            self.shared.borrow_mut().open_tunnel();
        }
        if plan.body.is_none() {
            body = Body::Empty;
        }
        let mut quiet_until = plan.tunnel.then(|| Instant::now() + self.limits.tunnel_idle);
        let trailers = facts.trailers;
        let outcome = poll_fn(|cx| {
            self.shared.borrow_mut().enter(cx);
            let it = self.poll_answer(cx, &mut body, &mut plan.body, trailers, &mut quiet_until);
            self.shared.borrow_mut().leave();
            it
        })
        .await;
        (outcome, plan)
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut Body,
        encoder: &mut Option<Encoder>,
        trailers: bool,
        quiet_until: &mut Option<Instant>,
    ) -> Poll<Outcome> {
        let tunnel = quiet_until.is_some();
        loop {
            let before = self.read + self.written;
            let pending = loop {
                let Some(it) = encoder.as_mut().filter(|_| self.out.has_room()) else { break false };
                let framed = match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut *body).poll_frame(cx))) {
                    Err(_) => {
                        Counters::add(&self.counters.panics, 1);
                        return Poll::Ready(Outcome::Panicked);
                    }
                    Ok(Poll::Pending) => break true,
                    Ok(Poll::Ready(Some(Err(_)))) => {
                        // What came before the break is the client's, as far as its socket takes it.
                        let _ = self.poll_write(cx);
                        return Poll::Ready(Outcome::BodyBroke);
                    }
                    Ok(Poll::Ready(None)) => it.end(None, &mut self.out).map(|()| true),
                    Ok(Poll::Ready(Some(Ok(frame)))) => match frame.into_data() {
                        Ok(data) => {
                            let last = body.is_end_stream();
                            it.data(data, last, &mut self.out).map(|()| last)
                        }
                        Err(frame) => it.end(frame.into_trailers().ok().as_ref().filter(|_| trailers), &mut self.out).map(|()| true),
                    },
                };
                match framed {
                    Ok(false) => {}
                    Ok(true) => *encoder = None,
                    Err(_) => return Poll::Ready(Outcome::Misframed),
                }
            };
            match self.poll_write(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(Outcome::ClientLeft),
                Poll::Ready(Ok(())) if encoder.is_none() => return Poll::Ready(Outcome::Complete),
                // There is room again, and nobody who would wake us for it.
                Poll::Ready(Ok(())) if !pending => continue,
                _ => {}
            }
            match self.poll_input(cx, tunnel) {
                Input::Again => continue,
                Input::Left => return Poll::Ready(Outcome::ClientLeft),
                Input::Quiet => {}
            }
            if let Some(it) = quiet_until
                && self.read + self.written != before
            {
                *it = Instant::now() + if self.closed_by_client { TUNNEL_GRACE } else { self.limits.tunnel_idle };
            }
            let upload = self.shared.borrow_mut().deadline(self.limits);
            let stall = self.stalled.map(|it| it + self.limits.write_stall);
            if !self.timer.expired(cx, earlier(earlier(upload, stall), *quiet_until)) {
                return Poll::Pending;
            }
            let now = Instant::now();
            if stall.is_some_and(|it| it <= now) {
                return Poll::Ready(Outcome::WriteStalled);
            }
            if quiet_until.is_some_and(|it| it <= now) {
                return Poll::Ready(if self.closed_by_client { Outcome::Complete } else { Outcome::TunnelIdle });
            }
            self.shared.borrow_mut().fail(Failure::Stalled);
        }
    }

    /// Writes what waits, and notes since when the client takes none of it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_empty() && !self.unflushed {
            return Poll::Ready(Ok(()));
        }
        let mut moved = 0;
        let mut it = self.out.poll_write(&mut self.io, cx, &mut moved);
        self.written += moved;
        self.unflushed |= moved > 0;
        if let Poll::Ready(Ok(())) = it
            && self.unflushed
        {
            it = Pin::new(&mut self.io).poll_flush(cx);
            self.unflushed = it.is_pending();
        }
        if it.is_ready() {
            self.stalled = None;
        } else if moved > 0 || self.stalled.is_none() {
            self.stalled = Some(Instant::now());
        }
        it
    }

    /// Reads for whoever waits for bytes, and a little ahead, for that is how a client's leaving is noticed.
    fn poll_input(&mut self, cx: &mut Context<'_>, tunnel: bool) -> Input {
        let inbound = &mut *self.shared.borrow_mut();
        loop {
            if self.closed_by_client || (!inbound.wanted && inbound.buf.len() >= AHEAD) {
                return Input::Quiet;
            }
            let size = if inbound.wanted && tunnel {
                4 * READ
            } else if inbound.wanted {
                want(inbound)
            } else {
                READ
            };
            match poll_read(&mut self.io, &mut inbound.buf, size, cx) {
                Poll::Pending => return Input::Quiet,
                Poll::Ready(Ok(0)) if tunnel => {
                    self.closed_by_client = true;
                    inbound.end_tunnel();
                    return Input::Again;
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    inbound.fail(Failure::Broken("the client left"));
                    return Input::Left;
                }
                Poll::Ready(Ok(size)) => {
                    self.read += size as u64;
                    if inbound.wanted && inbound.arrived(cx) {
                        return Input::Again;
                    }
                }
            }
        }
    }

    /// Passes over what nobody read of a body. False if that is too much, too slow, or malformed.
    async fn pass_over_rest(&mut self) -> bool {
        let (mut left, mut deadline) = (REST, None);
        poll_fn(|cx| {
            let inbound = &mut *self.shared.borrow_mut();
            loop {
                match inbound.decoder.decode(&mut inbound.buf) {
                    Ok(Decoded::End) => return Poll::Ready(true),
                    Ok(Decoded::Trailers(_)) => {}
                    Ok(Decoded::Data(it)) if it.len() as u64 <= left => left -= it.len() as u64,
                    Ok(Decoded::Data(_)) | Err(_) => return Poll::Ready(false),
                    Ok(Decoded::More) => match poll_read(&mut self.io, &mut inbound.buf, READ, cx) {
                        Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(false),
                        Poll::Ready(Ok(size)) => self.read += size as u64,
                        Poll::Pending => {
                            let by = *deadline.get_or_insert_with(|| Instant::now() + REST_TIME);
                            return if self.timer.expired(cx, Some(by)) { Poll::Ready(false) } else { Poll::Pending };
                        }
                    },
                }
            }
        })
        .await
    }

    /// Closes our side and waits a little for the client's.
    async fn linger(&mut self) {
        let deadline = Instant::now() + LINGER;
        let (mut shut, mut left) = (false, LINGER_BYTES);
        poll_fn(|cx| {
            if !shut {
                match Pin::new(&mut self.io).poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => shut = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            let inbound = &mut *self.shared.borrow_mut();
            loop {
                if self.closed_by_client && shut {
                    return Poll::Ready(());
                }
                inbound.buf.clear();
                match poll_read(&mut self.io, &mut inbound.buf, 4 * READ, cx) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(size)) if size as u64 <= left => {
                        left -= size as u64;
                        self.read += size as u64;
                    }
                    Poll::Ready(Ok(_)) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            if self.timer.expired(cx, Some(deadline)) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }
}

/// The handler's rendering of a problem, or a bare answer if that panics too.
fn refused<H: Handler>(handler: &H, problem: Box<Problem>, note: &mut H::Note) -> Response<Body> {
    let status = problem.status();
    catch_unwind(AssertUnwindSafe(move || handler.refuse(problem, note))).unwrap_or_else(|_| {
        let mut bare = Response::new(Body::Empty);
        *bare.status_mut() = if status.is_success() { StatusCode::INTERNAL_SERVER_ERROR } else { status };
        bare
    })
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// How much to read for a body that is waited for.
fn want(inbound: &Inbound) -> usize {
    // A byte more than there is, so that the read falls short of its buffer and the socket is known to be empty.
    usize::try_from(inbound.decoder.expected()).unwrap_or(LARGE_READ).saturating_add(1).clamp(READ, LARGE_READ)
}

/// Reads once into `buf`, with room for about `size` bytes.
fn poll_read<IO: AsyncRead + Unpin>(io: &mut IO, buf: &mut BytesMut, size: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    // A buffer that still has a quarter is read into as it is; the rest is reclaimed when those who hold pieces of it are gone.
    if buf.capacity() - buf.len() < size / 4 {
        buf.reserve(size);
    }
    let read = pin!(io.read_buf(buf));
    Poll::Ready(ready!(read.poll(cx)))
}
