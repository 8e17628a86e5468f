//! HTTP/2 by the frame: what no well-meaning client would send, and what came back.
use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::message::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// PROTOCOL_ERROR, REFUSED_STREAM and ENHANCE_YOUR_CALM (RFC 9113 §7).
pub const PROTOCOL_ERROR: u32 = 1;
pub const REFUSED_STREAM: u32 = 7;
pub const CALM: u32 = 11;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether it is the head of a 200, which stands first, as one byte of the static table (RFC 7541 §A).
    pub fn is_ok(&self) -> bool {
        self.kind == HEADERS && self.payload.first() == Some(&0x88)
    }

    /// The code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

/// A connection of a client.
pub struct Frames(pub TcpStream);

/// A frame's bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A head as HPACK writes it in the plainest way: literals, never indexed (RFC 7541 §6.2.2).
pub fn block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        text(&mut bytes, name.as_bytes());
        text(&mut bytes, value);
    }
    bytes
}

/// A string with its length before it, seven bits at a time (RFC 7541 §5).
fn text(to: &mut Vec<u8>, it: &[u8]) {
    match it.len().checked_sub(127) {
        None => to.push(it.len() as u8),
        Some(mut rest) => {
            to.push(127);
            while rest >= 128 {
                to.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            to.push(rest as u8);
        }
    }
    to.extend(it);
}

/// The head of `GET target`, with more behind it.
pub fn get(target: &str, more: &[(&str, &[u8])]) -> Vec<u8> {
    let mut fields: Vec<(&str, &[u8])> =
        vec![(":method", b"GET"), (":scheme", b"http"), (":authority", b"gateway.test"), (":path", target.as_bytes())];
    fields.extend(more);
    block(&fields)
}

impl Frames {
    /// Connects, and says what a client says first.
    pub async fn open(address: SocketAddr) -> Self {
        let mut it = Self(TcpStream::connect(address).await.expect("a listener"));
        it.send(PREFACE).await;
        it.send(&frame(SETTINGS, 0, 0, &[])).await;
        it
    }

    /// Sends bytes; that the gateway takes no more is nothing here.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = timeout(PATIENCE, self.0.write_all(bytes)).await.expect("the gateway reads, or closes");
    }

    /// The next frame; none at the end of the connection.
    pub async fn next(&mut self) -> Option<Frame> {
        timeout(PATIENCE, async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes(head[5..].try_into().expect("four bytes"));
            Some(Frame { kind: head[3], flags: head[4], stream, payload })
        })
        .await
        .expect("a frame in time")
    }

    /// The next frame that is one of these; none at the end of the connection.
    pub async fn until(&mut self, kinds: &[u8]) -> Option<Frame> {
        loop {
            let it = self.next().await?;
            if kinds.contains(&it.kind) {
                return Some(it);
            }
        }
    }
}
