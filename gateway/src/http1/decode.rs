//! Takes a message body out of received bytes: by length, by chunks, or until the sender closes.
use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use super::fields::{self, FieldBounds, Malformed};

/// The extensions of one chunk.
const EXTENSION: usize = 256;
/// The longest line of a chunk: sixteen digits, extensions, CRLF.
const CHUNK_LINE: usize = 16 + EXTENSION + 2;
/// All extensions of one body together, so that a body is never mostly made of them.
const EXTENSIONS: usize = 16 << 10;

/// Where a body ends (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Right after the head.
    Empty,
    /// After so many bytes.
    Length(u64),
    /// After the last chunk and its trailers.
    Chunked,
    /// Where the connection ends; of responses only.
    UntilClose,
}

/// What [`Decoder::decode`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Some bytes of the body, never none.
    Data(Bytes),
    /// The trailers, where there were any that are allowed; [`Decoded::End`] follows.
    Trailers(HeaderMap),
    /// The body is over; what is left in the buffer is the next message's.
    End,
    /// More bytes are needed.
    More,
}

/// The state of one body.
///
/// Invariant: what comes out, joined, does not depend on how the bytes were cut on their way in.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    bounds: FieldBounds,
    /// Bytes of extensions, later of trailer lines.
    spent: usize,
    fields: usize,
    /// Seldom there, so it takes no room.
    trailers: Option<Box<HeaderMap>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Length(u64),
    ChunkLine,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
    Failed(Malformed),
}

impl Decoder {
    pub fn new(framing: Framing, bounds: FieldBounds) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(it) => State::Length(it),
            Framing::Chunked => State::ChunkLine,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, bounds, spent: 0, fields: 0, trailers: None }
    }

    /// Whether the body came to its own end; one that lasts until the sender closes never does before [`finish`](Self::finish).
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many bytes are still to come, where that is known.
    pub fn left(&self) -> Option<u64> {
        match self.state {
            State::Length(it) => Some(it),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// How many bytes are certain to come next; a hint for the size of a read.
    pub fn expected(&self) -> u64 {
        match self.state {
            State::Length(it) | State::ChunkData(it) => it,
            _ => 0,
        }
    }

    /// Takes the next piece out of `buf`. After an error it gives the same error again.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, Malformed> {
        let it = self.step(buf);
        if let Err(it) = it {
            self.state = State::Failed(it);
        }
        it
    }

    /// The sender closed: an error unless the body may end here. Decode what is buffered first.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Failed(it) => Err(it),
            _ => {
                self.state = State::Failed(Malformed("truncated"));
                Err(Malformed("truncated"))
            }
        }
    }

    fn step(&mut self, buf: &mut BytesMut) -> Result<Decoded, Malformed> {
        loop {
            match self.state {
                State::Done => return Ok(Decoded::End),
                State::Failed(it) => return Err(it),
                _ if buf.is_empty() => return Ok(Decoded::More),
                State::UntilClose => return Ok(Decoded::Data(buf.split().freeze())),
                State::Length(left) => {
                    let data = take(buf, left);
                    let left = left - data.len() as u64;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    return Ok(Decoded::Data(data));
                }
                State::ChunkLine => {
                    let Some(line) = line(buf, CHUNK_LINE, "chunk_line_too_long")? else {
                        // Rubbish is told at once rather than when its line ends.
                        return if buf[0].is_ascii_hexdigit() { Ok(Decoded::More) } else { Err(Malformed("chunk_size")) };
                    };
                    let (size, digits) = chunk_size(&line)?;
                    let extension = line.len() - digits;
                    self.spent += extension;
                    if extension > EXTENSION || self.spent > EXTENSIONS {
                        return Err(Malformed("chunk_extensions_too_long"));
                    }
                    self.state = State::ChunkData(size);
                    if size == 0 {
                        self.spent = 0;
                        self.state = State::Trailers;
                    }
                }
                State::ChunkData(left) => {
                    let data = take(buf, left);
                    let left = left - data.len() as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::ChunkData(left) };
                    return Ok(Decoded::Data(data));
                }
                State::ChunkEnd => {
                    if buf[0] != b'\r' || buf.get(1).is_some_and(|it| *it != b'\n') {
                        return Err(Malformed("chunk_end"));
                    }
                    if buf.len() < 2 {
                        return Ok(Decoded::More);
                    }
                    let _ = buf.split_to(2);
                    self.state = State::ChunkLine;
                }
                State::Trailers => {
                    let bound = self.bounds.line.min(self.bounds.total - self.spent) + 2;
                    let Some(line) = line(buf, bound, "trailers_too_large")? else { return Ok(Decoded::More) };
                    if line.is_empty() {
                        self.state = State::Done;
                        return Ok(self.trailers.take().map_or(Decoded::End, |it| Decoded::Trailers(*it)));
                    }
                    self.spent += line.len();
                    self.fields += 1;
                    if self.fields > self.bounds.count {
                        return Err(Malformed("trailers_too_large"));
                    }
                    let (name, value) = fields::parse(&line)?;
                    if fields::allowed_in_trailers(&name) {
                        self.trailers.get_or_insert_default().append(name, value);
                    }
                }
            }
        }
    }
}

fn take(buf: &mut BytesMut, most: u64) -> Bytes {
    let size = usize::try_from(most).unwrap_or(usize::MAX).min(buf.len());
    buf.split_to(size).freeze()
}

/// Takes a line out of `buf` and gives it without its CRLF; no more than `bound` bytes with it.
fn line(buf: &mut BytesMut, bound: usize, too_long: &'static str) -> Result<Option<Bytes>, Malformed> {
    let seen = &buf[..buf.len().min(bound)];
    let Some(at) = memchr::memchr(b'\n', seen) else {
        return if seen.len() == bound { Err(Malformed(too_long)) } else { Ok(None) };
    };
    if at == 0 || buf[at - 1] != b'\r' {
        return Err(Malformed("bare_line_feed"));
    }
    let mut line = buf.split_to(at + 1).freeze();
    line.truncate(at - 1);
    Ok(Some(line))
}

/// The size that a chunk's line tells, and by how many digits. Nothing but an extension may follow them.
fn chunk_size(line: &[u8]) -> Result<(u64, usize), Malformed> {
    let digits = line.iter().take_while(|it| it.is_ascii_hexdigit()).count();
    if !(1..=16).contains(&digits) {
        return Err(Malformed("chunk_size"));
    }
    let size = line[..digits].iter().fold(0u64, |size, it| size << 4 | (*it as char).to_digit(16).map_or(0, u64::from));
    extensions(&line[digits..])?;
    Ok((size, digits))
}

/// `*( ";" token [ "=" ( token / quoted-string ) ] )`: the grammar of RFC 9112 §7.1.1 without its "bad" blanks.
fn extensions(mut rest: &[u8]) -> Result<(), Malformed> {
    const BAD: Malformed = Malformed("chunk_extension");
    while let Some((b';', after)) = rest.split_first() {
        rest = token(after).ok_or(BAD)?;
        if let Some((b'=', after)) = rest.split_first() {
            rest = match after.split_first() {
                Some((b'"', inside)) => quoted(inside).ok_or(BAD)?,
                _ => token(after).ok_or(BAD)?,
            };
        }
    }
    if rest.is_empty() {
        Ok(())
    } else if digit_or_blank(rest[0]) {
        Err(Malformed("chunk_size"))
    } else {
        Err(BAD)
    }
}

fn digit_or_blank(it: u8) -> bool {
    it.is_ascii_alphanumeric() || it == b' ' || it == b'\t'
}

/// What follows a token, which has at least one byte.
fn token(from: &[u8]) -> Option<&[u8]> {
    let size = from.iter().take_while(|it| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(it)).count();
    (size > 0).then(|| &from[size..])
}

/// What follows the closing quote.
fn quoted(from: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        match *from.get(at)? {
            b'"' => return Some(&from[at + 1..]),
            b'\\' => at += 1,
            _ => {}
        }
        let it = *from.get(at)?;
        if it != b'\t' && (it < 0x20 || it == 0x7f) {
            return None;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in the given pieces; gives the body, the trailers, and what was left over.
    fn feed(framing: Framing, wire: &[u8], cut: impl Fn(usize) -> usize) -> Result<(Vec<u8>, Vec<String>, usize), Malformed> {
        let mut decoder = Decoder::new(framing, FieldBounds { line: 64, total: 128, count: 4 });
        let (mut buf, mut fed) = (BytesMut::new(), 0);
        let (mut body, mut trailers) = (Vec::new(), Vec::new());
        loop {
            match decoder.decode(&mut buf)? {
                Decoded::Data(it) => body.extend_from_slice(&it),
                Decoded::Trailers(it) => trailers.extend(it.iter().map(|(n, v)| format!("{n}={}", String::from_utf8_lossy(v.as_bytes())))),
                Decoded::End => return Ok((body, trailers, buf.len() + wire.len() - fed)),
                Decoded::More if fed == wire.len() => {
                    decoder.finish()?;
                }
                Decoded::More => {
                    let size = cut(fed).clamp(1, wire.len() - fed);
                    buf.extend_from_slice(&wire[fed..fed + size]);
                    fed += size;
                }
            }
        }
    }

    const GOOD: &[(&str, &str, &str, usize)] = &[
        ("0\r\n\r\n", "", "", 0),
        ("5\r\nhello\r\n0\r\n\r\nGET /", "hello", "", 5),
        ("5\r\nhello\r\n00000A\r\n0123456789\r\n000\r\n\r\n", "hello0123456789", "", 0),
        ("0000000000000005\r\nhello\r\n0\r\n\r\n", "hello", "", 0),
        ("5;a\r\nhello\r\n0;b=c;d=\"e \\\" f\"\r\n\r\n", "hello", "", 0),
        ("1\r\na\r\n0\r\nx: 1\r\nContent-Length: 7\r\ny:2\r\n\r\n", "a", "x=1 y=2", 0),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", "", 0),
    ];

    const BAD: &[&str] = &[
        "",
        "\r\n",
        "g\r\n",
        "5\r\nhello",
        "5\r\nhello\r\n",
        "5\r\nhello\r\n0\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\r0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\rhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5_\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5 ;a\r\nhello\r\n0\r\n\r\n",
        "5; a\r\nhello\r\n0\r\n\r\n",
        "5;a=\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\\\r\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5;a\0\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\x01\"\r\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "0\r\n\n",
        "0\r\nx: 1\n\r\n",
        "0\r\nx : 1\r\n\r\n",
        "0\r\nx: 1\r\n y\r\n\r\n",
        "0\r\nx\r\n\r\n",
        "0\r\nx: \x00\r\n\r\n",
        "0\r\na:1\r\nb:1\r\nc:1\r\nd:1\r\ne:1\r\n\r\n",
    ];

    #[test]
    fn chunks_are_read_the_same_however_they_are_cut() {
        for (wire, body, trailers, rest) in GOOD {
            for size in [1, 2, 3, 7, 4096] {
                let (got, fields, left) = feed(Framing::Chunked, wire.as_bytes(), |_| size).unwrap_or_else(|e| panic!("{wire:?}: {e}"));
                assert_eq!((got.as_slice(), fields.join(" ").as_str(), left), (body.as_bytes(), *trailers, *rest), "{wire:?} by {size}");
            }
        }
    }

    #[test]
    fn what_is_not_exactly_a_chunk_is_refused_however_it_is_cut() {
        for wire in BAD {
            let whole = feed(Framing::Chunked, wire.as_bytes(), |_| 4096);
            assert!(whole.is_err(), "{wire:?} gave {whole:?}");
            for size in [1, 2, 3, 7] {
                assert!(feed(Framing::Chunked, wire.as_bytes(), |_| size).is_err(), "{wire:?} by {size}");
            }
        }
    }

    #[test]
    fn random_chunks_are_read_the_same_however_they_are_cut() {
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        for _ in 0..4000 {
            let mut wire = GOOD[random(GOOD.len())].0.as_bytes().to_vec();
            for _ in 0..random(4) {
                let at = random(wire.len());
                wire[at] = b"\r\n05a;:= \"\0x\xff"[random(13)];
            }
            let whole = feed(Framing::Chunked, &wire, |_| 4096);
            let (a, b) = (1 + random(6), 1 + random(9));
            let cut = feed(Framing::Chunked, &wire, |at| if at % 2 == 0 { a } else { b });
            assert_eq!(whole.is_ok(), cut.is_ok(), "{:?}: {whole:?} {cut:?}", String::from_utf8_lossy(&wire));
            if whole.is_ok() {
                assert_eq!(whole, cut);
            }
        }
    }

    #[test]
    fn extensions_and_trailers_have_bounds() {
        let one = format!("1;{}\r\na\r\n", "x".repeat(250));
        assert!(feed(Framing::Chunked, format!("{}0\r\n\r\n", one.repeat(60)).as_bytes(), |_| 999).is_ok());
        assert!(feed(Framing::Chunked, format!("{}0\r\n\r\n", one.repeat(70)).as_bytes(), |_| 999).is_err());
        assert!(feed(Framing::Chunked, format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(256)).as_bytes(), |_| 999).is_err());
        assert!(feed(Framing::Chunked, format!("0\r\nx: {}\r\n\r\n", "y".repeat(61)).as_bytes(), |_| 999).is_ok());
        assert!(feed(Framing::Chunked, format!("0\r\nx: {}\r\n\r\n", "y".repeat(62)).as_bytes(), |_| 999).is_err());
        let many = format!("0\r\n{}\r\n", format!("x: {}\r\n", "y".repeat(50)).repeat(3));
        assert!(feed(Framing::Chunked, many.as_bytes(), |_| 1).is_err());
    }

    #[test]
    fn lengths_and_closing_end_a_body() {
        assert_eq!(feed(Framing::Length(3), b"abcdef", |_| 1), Ok((b"abc".to_vec(), vec![], 3)));
        assert_eq!(feed(Framing::Length(9), b"abcdef", |_| 4), Err(Malformed("truncated")));
        assert_eq!(feed(Framing::UntilClose, b"abcdef", |_| 4), Ok((b"abcdef".to_vec(), vec![], 0)));
        assert_eq!(feed(Framing::Empty, b"abcdef", |_| 4), Ok((vec![], vec![], 6)));
    }
}
