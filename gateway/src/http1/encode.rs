//! Puts heads, chunks and bodies into as few writes as they need.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::AsyncWrite;

use super::fields;

/// Pieces of a body below this size are copied next to what precedes them; larger ones are written from where they lie.
const COPY_BELOW: usize = 4 << 10;
/// How much is gathered before it must be written.
const GATHER: usize = 16 << 10;
/// A buffer that grew beyond this is given back once it is empty.
const KEEP: usize = 32 << 10;

/// Writes one field line.
pub fn field(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    text_field(out, name.as_str(), value.as_bytes());
}

/// Writes one field line whose parts are known to be valid.
pub fn text_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    // One reservation, so that the four copies below do not each ask.
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes a number in decimal digits.
pub fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes the `Content-Length` line.
pub fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Writes the line before a chunk's data.
pub fn chunk_line(out: &mut Vec<u8>, size: usize) {
    let mut digits = [0u8; 16];
    let mut at = digits.len();
    let mut number = size;
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[number & 15];
        number >>= 4;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// The bytes that wait to be written: a gathered part, then at most one large piece that is not copied, then its end.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Heads, chunk lines, small pieces. Write to it only while [`has_room`](Self::has_room).
    flat: Vec<u8>,
    /// How much of `flat` is written.
    at: usize,
    large: Bytes,
    end: &'static [u8],
    /// How many bytes of body `flat` holds.
    flat_body: usize,
    /// Bytes of body that were put in since [`reset_count`](Self::reset_count).
    body: u64,
}

impl Outbox {
    /// Where heads are written. Only while [`has_room`](Self::has_room), lest they overtake a body.
    pub fn head(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.large.is_empty() && self.end.is_empty());
        &mut self.flat
    }

    /// Whether all is written.
    pub fn is_empty(&self) -> bool {
        self.at == self.flat.len() && self.large.is_empty() && self.end.is_empty()
    }

    /// Whether more may be put in; otherwise write first. Whoever asks before polling a body holds its memory bounded.
    pub fn has_room(&self) -> bool {
        self.large.is_empty() && self.end.is_empty() && self.flat.len() - self.at < GATHER
    }

    /// Starts to count the bytes of a new body.
    pub fn reset_count(&mut self) {
        self.body = 0;
    }

    /// How many bytes of the body left. Exact when all is written or nothing is mixed; otherwise off by a few bytes of framing.
    pub fn sent(&self) -> u64 {
        let waiting = self.large.len() + self.flat_body.min(self.flat.len() - self.at);
        self.body.saturating_sub(waiting as u64)
    }

    /// Puts a piece of body in, between what frames it. Only while [`has_room`](Self::has_room).
    fn put(&mut self, data: Bytes, end: &'static [u8]) {
        self.body += data.len() as u64;
        if data.len() < COPY_BELOW {
            self.flat.extend_from_slice(&data);
            self.flat.extend_from_slice(end);
            self.flat_body += data.len();
        } else {
            self.large = data;
            self.end = end;
        }
    }

    /// Writes until nothing is left. Tells how many bytes each call moved through `moved`.
    pub fn poll_write<W: AsyncWrite + Unpin>(&mut self, io: &mut W, cx: &mut Context<'_>, moved: &mut u64) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let flat = &self.flat[self.at..];
            let written = if self.large.is_empty() && self.end.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(cx, flat))?
            } else {
                let all = [IoSlice::new(flat), IoSlice::new(&self.large), IoSlice::new(self.end)];
                let from = usize::from(flat.is_empty());
                ready!(Pin::new(&mut *io).poll_write_vectored(cx, &all[from..]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *moved += written as u64;
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut by: usize) {
        let flat = by.min(self.flat.len() - self.at);
        self.at += flat;
        by -= flat;
        if self.at == self.flat.len() {
            self.at = 0;
            self.flat_body = 0;
            self.flat.clear();
            if self.flat.capacity() > KEEP {
                self.flat = Vec::new();
            }
        }
        let large = by.min(self.large.len());
        self.large.advance(large);
        if self.large.is_empty() {
            self.large = Bytes::new();
        }
        self.end = &self.end[by - large..];
    }
}

/// How a body is framed on its way out, and how much of it may still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// So many bytes are still owed.
    Length(u64),
    /// In chunks.
    Chunked,
    /// As it comes: until the connection closes, or through a tunnel.
    Raw,
}

/// The body is longer or shorter than its head promised; the connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misframed;

impl Encoder {
    /// Puts a piece of the body in; `last` where it is known that none follows, not even trailers.
    ///
    /// Call it only while the outbox has room. An empty piece is nothing, never a last chunk.
    pub fn data(&mut self, data: Bytes, last: bool, out: &mut Outbox) -> Result<(), Misframed> {
        let size = data.len();
        match self {
            Self::Length(left) => {
                *left = left.checked_sub(size as u64).ok_or(Misframed)?;
                out.put(data, b"");
                if last && *left > 0 { Err(Misframed) } else { Ok(()) }
            }
            Self::Raw => {
                out.put(data, b"");
                Ok(())
            }
            Self::Chunked if size == 0 => {
                if last {
                    out.flat.extend_from_slice(b"0\r\n\r\n");
                }
                Ok(())
            }
            Self::Chunked => {
                chunk_line(&mut out.flat, size);
                out.put(data, if last { b"\r\n0\r\n\r\n" } else { b"\r\n" });
                Ok(())
            }
        }
    }

    /// Ends a body that no `last` piece ended. Trailers go out in chunked bodies only, and of those only what is allowed there.
    pub fn end(&mut self, trailers: Option<&HeaderMap>, out: &mut Outbox) -> Result<(), Misframed> {
        match self {
            Self::Length(0) | Self::Raw => Ok(()),
            Self::Length(_) => Err(Misframed),
            Self::Chunked => {
                out.flat.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.into_iter().flatten().filter(|(name, _)| fields::allowed_in_trailers(name)) {
                    field(&mut out.flat, name, value);
                }
                out.flat.extend_from_slice(b"\r\n");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes at most `most` bytes a write.
    struct Narrow {
        most: usize,
        got: Vec<u8>,
        writes: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let size = buf.len().min(self.most);
            self.got.extend_from_slice(&buf[..size]);
            self.writes += 1;
            Poll::Ready(Ok(size))
        }

        fn poll_write_vectored(mut self: Pin<&mut Self>, _: &mut Context<'_>, all: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            let mut left = self.most;
            for it in all {
                let size = it.len().min(left);
                self.got.extend_from_slice(&it[..size]);
                left -= size;
            }
            self.writes += 1;
            Poll::Ready(Ok(self.most - left))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn drain(out: &mut Outbox, most: usize) -> (Vec<u8>, usize) {
        let mut to = Narrow { most, got: Vec::new(), writes: 0 };
        let mut moved = 0;
        assert!(matches!(out.poll_write(&mut to, &mut Context::from_waker(Waker::noop()), &mut moved), Poll::Ready(Ok(()))));
        assert_eq!(moved, to.got.len() as u64);
        assert!(out.is_empty() && out.has_room());
        (to.got, to.writes)
    }

    #[test]
    fn a_head_and_a_body_leave_in_one_write_large_or_small() {
        for size in [10, 100_000] {
            let mut out = Outbox::default();
            out.head().extend_from_slice(b"HEAD\r\n\r\n");
            let mut encoder = Encoder::Length(size as u64);
            encoder.data(Bytes::from(vec![b'x'; size]), true, &mut out).unwrap();
            let (got, writes) = drain(&mut out, usize::MAX);
            assert_eq!((got.len(), writes), (8 + size, 1));
            assert_eq!(out.sent(), size as u64);
        }
    }

    #[test]
    fn chunks_come_out_the_same_however_little_each_write_takes() {
        let large = Bytes::from(vec![b'y'; 5000]);
        for most in [1, 3, 4096, usize::MAX] {
            let (mut out, mut encoder, mut got) = (Outbox::default(), Encoder::Chunked, Vec::new());
            for piece in [Bytes::from_static(b"hello"), Bytes::new(), large.clone()] {
                encoder.data(piece, false, &mut out).unwrap();
                got.extend(drain(&mut out, most).0);
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("1"));
            trailers.insert("content-length", HeaderValue::from_static("1"));
            encoder.end(Some(&trailers), &mut out).unwrap();
            got.extend(drain(&mut out, most).0);
            let want = format!("5\r\nhello\r\n1388\r\n{}\r\n0\r\nx-sum: 1\r\n\r\n", "y".repeat(5000));
            assert_eq!(String::from_utf8(got).unwrap(), want);
        }
    }

    #[test]
    fn a_last_piece_brings_the_last_chunk_along() {
        for (piece, want) in [("hi", "2\r\nhi\r\n0\r\n\r\n"), ("", "0\r\n\r\n")] {
            let mut out = Outbox::default();
            Encoder::Chunked.data(Bytes::from_static(piece.as_bytes()), true, &mut out).unwrap();
            assert_eq!(drain(&mut out, usize::MAX), (want.as_bytes().to_vec(), 1));
        }
    }

    #[test]
    fn a_body_that_breaks_its_promise_is_an_error() {
        let mut out = Outbox::default();
        assert_eq!(Encoder::Length(3).data(Bytes::from_static(b"abcd"), false, &mut out), Err(Misframed));
        assert_eq!(Encoder::Length(3).data(Bytes::from_static(b"ab"), true, &mut out), Err(Misframed));
        assert_eq!(Encoder::Length(3).end(None, &mut out), Err(Misframed));
        assert_eq!(Encoder::Length(0).end(None, &mut out), Ok(()));
    }

    #[test]
    fn what_waits_is_not_yet_sent() {
        let mut out = Outbox::default();
        out.head().extend_from_slice(b"HEAD\r\n\r\n");
        Encoder::Length(5000).data(Bytes::from(vec![b'x'; 5000]), true, &mut out).unwrap();
        assert!(!out.has_room());
        out.advance(8 + 1000);
        assert_eq!(out.sent(), 1000);
    }

    #[test]
    fn numbers_are_written_plainly() {
        for (number, want) in [(0, "0"), (7, "7"), (10, "10"), (u64::MAX, "18446744073709551615")] {
            let mut out = Vec::new();
            decimal(&mut out, number);
            assert_eq!(out, want.as_bytes());
        }
    }
}
