//! One connection: takes requests, has each answered in a task of its own, and knows when to stop.
use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use h2::{Reason, server};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    limits::{Flood, Limits},
    stream::{self, Ended},
    watch::{Seen, Watched},
};
use crate::http1::{self, Counters, Drain, Handler, Seat, Timer};

/// What an answer may lie in wait with for the client's window, in bytes.
const SEND_BUFFER: usize = 64 << 10;
/// Streams that were reset and are remembered, so that late frames of theirs are no fault.
const RESET_STREAMS: usize = 50;
/// Requests that were reset before they were looked at.
const PENDING_RESETS: usize = 20;
/// What HPACK counts for each field beyond its bytes (RFC 7541 §4.1).
const FIELD: usize = 32;
/// How long the last words of a connection may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long a drain waits for the first request of a connection that was just accepted.
const FRESH: Duration = Duration::from_secs(1);

/// How a connection ended, where its client is to blame; none where not.
pub type Ending = Option<Flood>;

/// Serves one connection to its end. `received` is what was already read of it.
///
/// Everything happens on this thread. Dropping the future drops the handlers' futures with it.
pub async fn serve<IO, H>(
    io: IO,
    received: BytesMut,
    limits: (&http1::Limits, &Limits),
    counters: &Counters,
    handler: Rc<H>,
    drain: &Drain,
) -> Ending
where
    IO: AsyncRead + AsyncWrite + Unpin,
    H: Handler + 'static,
{
    let (limits, own) = (Rc::new(limits.0.clone()), limits.1);
    let seat = drain.sit();
    if received.is_empty() {
        Counters::add(&counters.connections, 1);
    }
    let (io, seen) = Watched::new(io, received, own);
    let ending = shake_and_run(io, &seen, limits, own, counters, handler, seat).await;
    Counters::add(&counters.bytes_in, seen.read.get());
    Counters::add(&counters.bytes_out, seen.written.get());
    Counters::add(&counters.closed, 1);
    ending
}

async fn shake_and_run<IO, H>(
    io: Watched<IO>,
    seen: &Seen,
    limits: Rc<http1::Limits>,
    own: &Limits,
    counters: &Counters,
    handler: Rc<H>,
    seat: Seat,
) -> Ending
where
    IO: AsyncRead + AsyncWrite + Unpin,
    H: Handler + 'static,
{
    let accepted = Instant::now();
    // Twice what is allowed is still decoded, so that whoever is a little beyond is told by an answer of ours.
    let most_head = 2 * (limits.headers.total + FIELD * limits.headers.count);
    let shaken = server::Builder::new()
        .initial_window_size(own.stream_window)
        .initial_connection_window_size(own.connection_window)
        .max_concurrent_streams(own.streams)
        .max_header_list_size(u32::try_from(most_head).unwrap_or(u32::MAX))
        .max_concurrent_reset_streams(RESET_STREAMS)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_send_buffer_size(SEND_BUFFER)
        .handshake::<_, Bytes>(io);
    let shaken = timeout(limits.header_time, shaken).await;
    let h2 = match shaken {
        Ok(Ok(it)) => it,
        Ok(Err(it)) => return blame(&it),
        Err(_) => return Some(Flood::SlowHead),
    };
    let mut connection = Connection {
        h2,
        seen,
        streams: JoinSet::new(),
        limits,
        counters,
        handler,
        seat,
        timer: Timer::default(),
        accepted,
        served: 0,
        idle_since: accepted,
        leaving: None,
        ending: None,
    };
    poll_fn(|cx| connection.poll(cx)).await;
    // Exchanges that are cut off tell the handler so while they are dropped.
    connection.streams.shutdown().await;
    connection.ending
}

/// Who is to blame for a fault: not one who only closed.
fn blame(error: &h2::Error) -> Ending {
    let calm = error.reason().is_some_and(|it| it != Reason::NO_ERROR && it != Reason::CANCEL);
    (error.is_library() && calm).then_some(Flood::Protocol)
}

struct Connection<'a, IO, H> {
    h2: server::Connection<Watched<IO>, Bytes>,
    seen: &'a Seen,
    streams: JoinSet<Ended>,
    limits: Rc<http1::Limits>,
    counters: &'a Counters,
    handler: Rc<H>,
    seat: Seat,
    timer: Timer,
    accepted: Instant,
    served: u32,
    idle_since: Instant,
    /// Since when the client was told that no more requests are taken; again when the last of them is done.
    leaving: Option<Instant>,
    ending: Ending,
}

impl<IO, H> Connection<'_, IO, H>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    H: Handler + 'static,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.seat.listen(cx);
        loop {
            self.join(cx);
            match self.h2.poll_accept(cx) {
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Ready(Some(Err(it))) => {
                    self.ending = self.ending.or_else(|| blame(&it));
                    return Poll::Ready(());
                }
                Poll::Ready(Some(Ok((request, sender)))) => {
                    self.served += 1;
                    Counters::add(&self.counters.requests, 1);
                    let (handler, limits) = (self.handler.clone(), self.limits.clone());
                    self.streams.spawn_local(stream::exchange(handler, request, sender, limits));
                    continue;
                }
                Poll::Pending => {}
            }
            match self.judge(cx) {
                Some(it) => return it,
                // There is something to say, which only another round says.
                None => continue,
            }
        }
    }

    /// Takes in what has ended.
    fn join(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(it)) = self.streams.poll_join_next(cx) {
            let it = it.unwrap_or_default();
            Counters::add(&self.counters.aborted, u64::from(it.left));
            Counters::add(&self.counters.panics, u64::from(it.panicked));
            if let Some(status) = it.refused {
                self.counters.refuse(status);
            }
            self.idle_since = Instant::now();
        }
    }

    /// Whether the connection goes on. None where it has been given something to say.
    fn judge(&mut self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        let now = Instant::now();
        if self.ending.is_none() {
            let late = |since: Option<Instant>, time: Duration| since.is_some_and(|it| it + time <= now);
            if late(self.seen.blocked_since.get(), self.limits.write_stall) {
                self.ending = Some(Flood::WriteStall);
                return Some(Poll::Ready(()));
            }
            self.ending = self.seen.flood.get();
            if late(self.seen.head_since.get(), self.limits.header_time) {
                self.ending = Some(Flood::SlowHead);
            }
            if self.ending.is_some() {
                self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                self.leaving = Some(now);
                return None;
            }
        }
        let idle = self.streams.is_empty();
        if let Some(since) = self.leaving {
            if self.ending.is_some() || idle {
                // The last words have their time from when there is nothing else to wait for.
                let by = since.max(self.idle_since) + GOODBYE;
                return Some(if self.timer.expired(cx, Some(by)) { Poll::Ready(()) } else { Poll::Pending });
            }
        } else if self.must_leave(now, idle) {
            self.h2.graceful_shutdown();
            self.leaving = Some(now);
            return None;
        }
        let next = [
            self.seen.blocked_since.get().map(|it| it + self.limits.write_stall),
            self.seen.head_since.get().map(|it| it + self.limits.header_time),
            (idle && self.leaving.is_none()).then(|| self.idle_until()),
        ];
        if self.timer.expired(cx, next.into_iter().flatten().min()) { None } else { Some(Poll::Pending) }
    }

    fn idle_until(&self) -> Instant {
        let idle = self.idle_since + if self.served == 0 { self.limits.header_time } else { self.limits.idle };
        if self.seat.draining() { idle.min(self.accepted + FRESH) } else { idle }
    }

    fn must_leave(&self, now: Instant, idle: bool) -> bool {
        let draining = self.seat.draining() && (self.served > 0 || now >= self.accepted + FRESH);
        draining || self.served >= self.limits.requests || now >= self.accepted + self.limits.age || (idle && now >= self.idle_until())
    }
}
