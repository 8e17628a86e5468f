//! One connection to a backend: bytes in, bytes out, and the alarm that travels with it.
use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use socket2::TcpKeepalive;
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    time::{Instant, Sleep},
};

use super::{head::Scan, permits::Lease};
use crate::{dial::Stream, http1::encode::Outbox};

/// The least that is read at once.
const READ_LEAST: usize = 4 * 1024;
/// The most that is read at once.
const READ_MOST: usize = 64 * 1024;
/// The largest buffer that an idle connection keeps.
const KEEP_BUFFER: usize = 8 * 1024;

/// A connection and its buffers.
pub(super) struct Connection {
    io: Stream,
    pub(super) peer: SocketAddr,
    /// Bytes that came and were not yet understood.
    pub(super) input: BytesMut,
    /// Bytes to be sent.
    pub(super) output: Outbox,
    /// How far the head of the answer was looked through.
    pub(super) scan: Scan,
    read_size: usize,
    alarm: Alarm,
    /// Whether it has served a call before this one.
    pub(super) reused: bool,
    /// Whether a byte was sent since the call began.
    pub(super) wrote: bool,
    /// Whether a byte came since the call began.
    pub(super) heard: bool,
    /// Since when it waits for the other side; none while bytes move.
    pub(super) waits: Option<Instant>,
    pub(super) idle_since: Instant,
    // Last, so that the permit passes on after the socket is closed.
    lease: Lease,
}

/// A timer that is not set anew for each wait: it may ring early, and is then set to what is due by then.
#[derive(Default)]
struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

// === impl Connection ===

impl Connection {
    /// A new connection over `stream`.
    pub(super) fn new(stream: Stream, peer: SocketAddr, lease: Lease) -> Box<Self> {
        // A connection that cannot be tuned still works.
        let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
        let _ = stream.socket().set_tcp_keepalive(&keepalive);
        Box::new(Self {
            io: stream,
            peer,
            input: BytesMut::new(),
            output: Outbox::default(),
            scan: Scan::default(),
            read_size: READ_LEAST,
            alarm: Alarm::default(),
            reused: false,
            wrote: false,
            heard: false,
            waits: None,
            idle_since: Instant::now(),
            lease,
        })
    }

    /// Closes it and keeps its permit for another.
    pub(super) fn into_lease(self) -> Lease {
        self.lease
    }

    /// Whether nothing came and the other side did not close, as far as the last look at the sockets told; costs no system call.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.io.is_quiet()
    }

    /// As [`Self::is_quiet`], asked of the kernel.
    pub(super) fn is_surely_quiet(&self) -> bool {
        self.io.is_surely_quiet()
    }

    /// Whether its last call left nothing behind in either direction.
    pub(super) fn is_clean(&self) -> bool {
        self.input.is_empty() && self.output.is_empty()
    }

    /// Makes it ready to wait for its next call.
    pub(super) fn rest(&mut self, now: Instant) {
        self.idle_since = now;
        self.reused = true;
        self.wrote = false;
        self.heard = false;
        self.waits = None;
        self.scan.reset();
        self.read_size = READ_LEAST;
        if self.input.capacity() > KEEP_BUFFER {
            self.input = BytesMut::new();
        }
    }

    /// Reads more into `input`; `wish` is how much there is known to be. Zero is the end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, wish: usize) -> Poll<io::Result<usize>> {
        let size = wish.clamp(READ_LEAST, READ_MOST).max(self.read_size);
        // Short of room, a new buffer is cheaper than a read of a few bytes.
        if self.input.capacity() - self.input.len() < size / 2 {
            self.input.reserve(size);
        }
        let room = self.input.capacity() - self.input.len();
        let count = ready!(pin!(self.io.read_buf(&mut self.input)).poll(cx))?;
        if count > 0 {
            self.heard = true;
            self.waits = None;
        }
        if count == room {
            self.read_size = (self.read_size * 2).min(READ_MOST);
        }
        Poll::Ready(Ok(count))
    }

    /// Sends all of `output`.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut moved = 0;
        let flushed = self.output.poll_write(&mut self.io, cx, &mut moved);
        if moved > 0 {
            self.wrote = true;
            self.waits = None;
        }
        ready!(flushed)?;
        self.io.poll_push(cx)
    }

    /// Forgets what was to be sent: the other side takes nothing any more.
    pub(super) fn drop_output(&mut self) {
        self.output = Outbox::default();
    }

    /// Tells the other side that nothing more will be sent.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Since when nothing moves, to be asked whenever a poll found nothing to do.
    pub(super) fn waits_since(&mut self) -> Instant {
        *self.waits.get_or_insert_with(Instant::now)
    }

    /// Ready once `due` has passed.
    pub(super) fn poll_alarm(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        self.alarm.poll(cx, due)
    }
}

// === impl Alarm ===

impl Alarm {
    fn poll(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if sleep.deadline() > due {
            sleep.as_mut().reset(due);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
    }
}
