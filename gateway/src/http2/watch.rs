//! Looks at the frames that arrive, as they pass: nine bytes each tell what floods are made of.
use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use super::limits::{Flood, Limits};

const PREFACE: usize = 24;
const HEAD: usize = 9;
const SECOND: Duration = Duration::from_secs(1);

/// Types of frames (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// Flags: both mean an answer to what we sent, or the end of a stream, by the frame's type.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What the connection learns of its socket.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) flood: Cell<Option<Flood>>,
    /// Since when a head is on its way that is not whole yet.
    pub(super) head_since: Cell<Option<Instant>>,
    /// Since when the client takes nothing.
    pub(super) blocked_since: Cell<Option<Instant>>,
    pub(super) read: Cell<u64>,
    pub(super) written: Cell<u64>,
}

/// A socket whose frames are counted.
pub(super) struct Watched<IO> {
    io: IO,
    /// Bytes that were read before, and come first.
    received: BytesMut,
    seen: Rc<Seen>,
    frames: Frames,
}

impl<IO> Watched<IO> {
    pub(super) fn new(io: IO, received: BytesMut, limits: &Limits) -> (Self, Rc<Seen>) {
        let seen: Rc<Seen> = Rc::default();
        (Self { io, received, seen: seen.clone(), frames: Frames::new(limits.clone()) }, seen)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Watched<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.seen.flood.get().is_some() {
            // Nothing more is taken; the connection sees why as soon as it comes back from here.
            return Poll::Pending;
        }
        let before = buf.filled().len();
        if this.received.has_remaining() {
            let size = this.received.len().min(buf.remaining());
            buf.put_slice(&this.received.split_to(size));
        } else {
            std::task::ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        }
        let new = &buf.filled()[before..];
        this.seen.read.set(this.seen.read.get() + new.len() as u64);
        if let Some(it) = this.frames.pass(new) {
            this.seen.flood.set(Some(it));
            buf.set_filled(before);
            return Poll::Pending;
        }
        let since = this.frames.in_head().then(|| this.seen.head_since.get().unwrap_or_else(Instant::now));
        this.seen.head_since.set(since);
        Poll::Ready(Ok(()))
    }
}

impl<IO> Watched<IO> {
    fn wrote<T>(&self, it: &Poll<io::Result<T>>, size: impl FnOnce(&T) -> usize) {
        match it {
            Poll::Pending if self.seen.blocked_since.get().is_none() => self.seen.blocked_since.set(Some(Instant::now())),
            Poll::Ready(Ok(it)) => {
                self.seen.written.set(self.seen.written.get() + size(it) as u64);
                self.seen.blocked_since.set(None);
            }
            _ => {}
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Watched<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let it = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(&it, |size| *size);
        it
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let it = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(&it, |size| *size);
        it
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let it = Pin::new(&mut self.io).poll_flush(cx);
        self.wrote(&it, |()| 0);
        it
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Counts what comes within a second.
#[derive(Default)]
struct Rate(Option<Instant>, u32);

impl Rate {
    fn beyond(&mut self, most: u32) -> bool {
        let now = Instant::now();
        if self.0.is_none_or(|since| now - since >= SECOND) {
            *self = Self(Some(now), 0);
        }
        self.1 += 1;
        self.1 > most
    }
}

/// Where the stream of bytes stands, and what was counted.
struct Frames {
    limits: Limits,
    /// Bytes to pass over: of the preface, or of a frame's payload.
    skip: usize,
    head: [u8; HEAD],
    filled: usize,
    /// CONTINUATION frames of the head that is not whole.
    open_head: Option<u32>,
    /// Whether the payload that is passed over is a part of a head.
    in_fragment: bool,
    resets: Rate,
    resets_in_all: u32,
    pings: Rate,
    settings: Rate,
    priorities: Rate,
    empty_data: Rate,
}

impl Frames {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            skip: PREFACE,
            head: [0; HEAD],
            filled: 0,
            open_head: None,
            in_fragment: false,
            resets: Rate::default(),
            resets_in_all: 0,
            pings: Rate::default(),
            settings: Rate::default(),
            priorities: Rate::default(),
            empty_data: Rate::default(),
        }
    }

    /// Whether a head is on its way.
    fn in_head(&self) -> bool {
        self.open_head.is_some() || (self.in_fragment && self.skip > 0)
    }

    fn pass(&mut self, mut bytes: &[u8]) -> Option<Flood> {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let size = self.skip.min(bytes.len());
                self.skip -= size;
                bytes = &bytes[size..];
                continue;
            }
            let size = (HEAD - self.filled).min(bytes.len());
            self.head[self.filled..self.filled + size].copy_from_slice(&bytes[..size]);
            self.filled += size;
            bytes = &bytes[size..];
            if self.filled == HEAD {
                self.filled = 0;
                if let Some(it) = self.frame() {
                    return Some(it);
                }
            }
        }
        None
    }

    fn frame(&mut self) -> Option<Flood> {
        let [a, b, c, kind, flags, ..] = self.head;
        self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
        self.in_fragment = matches!(kind, HEADERS | CONTINUATION);
        let limits = &self.limits;
        match kind {
            DATA if self.skip == 0 && flags & END_STREAM == 0 => self.empty_data.beyond(limits.empty_data).then_some(Flood::EmptyData),
            HEADERS => {
                self.open_head = (flags & END_HEADERS == 0).then_some(0);
                None
            }
            CONTINUATION => {
                let count = self.open_head.unwrap_or(0) + 1;
                self.open_head = (flags & END_HEADERS == 0).then_some(count);
                (count > limits.continuations).then_some(Flood::Continuations)
            }
            RST_STREAM => {
                self.resets_in_all += 1;
                (self.resets.beyond(limits.resets) || self.resets_in_all > limits.resets_in_all).then_some(Flood::Resets)
            }
            PING if flags & ACK == 0 => self.pings.beyond(limits.control).then_some(Flood::Pings),
            SETTINGS if flags & ACK == 0 => self.settings.beyond(limits.control).then_some(Flood::Settings),
            PRIORITY => self.priorities.beyond(limits.control).then_some(Flood::Priorities),
            _ => None,
        }
    }
}
