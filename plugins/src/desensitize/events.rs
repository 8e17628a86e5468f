//! Server-sent events, masked one by one as they pass (WHATWG HTML, section 9.2).
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use contract::{Body, BodyError, meter::Counter};
use http_body::Frame;

use super::document::{Case, Rules, mask};

/// The largest event that is held until it is whole.
const MOST: usize = 1 << 20;

/// A stream of events of which each is masked.
pub struct Events {
    pub body: Body,
    pub rules: Arc<Rules>,
    pub case: Case,
    /// An event that is no JSON passes as it is; otherwise it is left out.
    pub pass: bool,
    pub masked: Counter,
    pub unread: Counter,
    /// What has come of an event that is not whole.
    pub held: BytesMut,
    pub ended: bool,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let data = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Err(fault)) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(fault)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(it) => it,
                    Err(_) => continue,
                },
                // What is not whole at the end is no event, and nobody may see it.
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
            };
            self.held.extend_from_slice(&data);
            let mut out = Vec::new();
            while let Some(end) = event_end(&self.held) {
                let event = self.held.split_to(end).freeze();
                self.event(event, &mut out);
            }
            if self.held.len() > MOST {
                self.ended = true;
                return Poll::Ready(Some(Err(BodyError::TooLarge { limit: MOST })));
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
    }
}

impl Events {
    fn event(&self, event: Bytes, out: &mut Vec<u8>) {
        let mut data: Vec<u8> = Vec::new();
        let mut count = 0;
        for line in lines(&event) {
            if let Some(value) = field(line, b"data") {
                if count > 0 {
                    data.push(b'\n');
                }
                count += 1;
                data.extend_from_slice(value);
            }
        }
        // Comments, ids, times, and the word with which some streams end.
        if data.is_empty() || data == b"[DONE]" {
            return out.extend_from_slice(&event);
        }
        match mask(&self.rules, &self.case, data.into()) {
            Ok((_, 0)) => out.extend_from_slice(&event),
            Ok((masked, count)) => {
                self.masked.add(count);
                let mut written = false;
                for line in lines(&event) {
                    if field(line, b"data").is_none() {
                        out.extend_from_slice(line);
                        out.push(b'\n');
                    } else if !written {
                        written = true;
                        for part in masked.split(|it| *it == b'\n') {
                            out.extend_from_slice(b"data: ");
                            out.extend_from_slice(part.strip_suffix(b"\r").unwrap_or(part));
                            out.push(b'\n');
                        }
                    }
                }
            }
            Err(_) => {
                self.unread.add(1);
                if self.pass {
                    out.extend_from_slice(&event);
                }
            }
        }
    }
}

/// The value of a line of this field.
fn field<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let rest = line.strip_prefix(name)?;
    match rest.first() {
        None => Some(rest),
        Some(b':') => Some(rest[1..].strip_prefix(b" ").unwrap_or(&rest[1..])),
        Some(_) => None,
    }
}

/// The lines of a whole event, its empty one included, without their ends.
fn lines(event: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = event;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        let broken = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[(end + broken).min(rest.len())..];
        Some(line)
    })
}

/// Where the first whole event ends: after its empty line.
fn event_end(held: &[u8]) -> Option<usize> {
    let mut start = 0;
    while let Some(found) = memchr::memchr2(b'\r', b'\n', &held[start..]) {
        let end = start + found;
        let after = match (held[end], held.get(end + 1)) {
            (b'\r', Some(b'\n')) => end + 2,
            // Its second half may still come.
            (b'\r', None) => return None,
            _ => end + 1,
        };
        if end == start {
            return Some(after);
        }
        start = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use contract::json::pattern::{Pattern, Patterns};
    use http_body_util::BodyExt;

    use super::*;
    use crate::desensitize::mask::Mask;

    /// The chunks as they go out.
    async fn through(chunks: &'static [&'static str], pass: bool) -> String {
        let chunks = chunks.iter().map(|it| Ok::<_, BodyError>(Frame::data(Bytes::from_static(it.as_bytes()))));
        let body = Body::stream(Chunks(chunks.collect::<Vec<_>>().into_iter()));
        let pattern = Pattern::parse("**.phone").unwrap();
        let rules = Arc::new(Rules { patterns: Patterns::new([&pattern]).unwrap(), masks: [Mask::Phone].into() });
        let case = Case { active: [true].into(), salt: [].into(), depth: 64 };
        let counter = Counter::default();
        let events = Events { body, rules, case, pass, masked: counter.clone(), unread: counter, held: BytesMut::new(), ended: false };
        let whole = events.collect().await.unwrap().to_bytes();
        String::from_utf8(whole.to_vec()).unwrap()
    }

    struct Chunks(std::vec::IntoIter<Result<Frame<Bytes>, BodyError>>);

    impl http_body::Body for Chunks {
        type Data = Bytes;
        type Error = BodyError;
        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.next())
        }
    }

    #[tokio::test]
    async fn each_event_is_masked_however_it_is_cut() {
        assert_eq!(
            through(
                &[
                    ": hi\n\nid: 1\nevent: order\ndata: {\"pho",
                    "ne\":\"13812345678\"}\nretry: 5\n",
                    "\ndata: {\"a\":1 }\r",
                    "\n\r\ndata: [DONE]\n\n"
                ],
                false
            )
            .await,
            ": hi\n\nid: 1\nevent: order\ndata: {\"phone\":\"138****5678\"}\nretry: 5\n\ndata: {\"a\":1 }\r\n\r\ndata: [DONE]\n\n"
        );
        assert_eq!(
            through(&["data: {\"phone\":\ndata: \"13812345678\"}\n\n"], false).await,
            "data: {\"phone\":\ndata: \"138****5678\"}\n\n"
        );
    }

    #[tokio::test]
    async fn what_is_no_json_is_left_out_unless_the_author_says_otherwise() {
        assert_eq!(through(&["data: call 13812345678\n\ndata: 1\n\n"], false).await, "data: 1\n\n");
        assert_eq!(through(&["data: call 13812345678\n\n"], true).await, "data: call 13812345678\n\n");
        // Half an event at the end is none.
        assert_eq!(through(&["data: 1\n\ndata: {\"phone\":\"138"], true).await, "data: 1\n\n");
    }
}
