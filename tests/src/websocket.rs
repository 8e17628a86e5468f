//! Just enough WebSocket to see that a tunnel changes nothing.
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::message::Line;

/// The key of RFC 6455's example, so that no hash is needed here.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

pub const TEXT: u8 = 1;
pub const CLOSE: u8 = 8;

/// A client's opening request.
pub fn opening(target: &str) -> Vec<u8> {
    crate::wire::request(
        &format!("GET {target}"),
        &["connection: keep-alive, Upgrade", "upgrade: websocket", "sec-websocket-version: 13", &format!("sec-websocket-key: {KEY}")],
        "",
    )
}

/// A frame without extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub opcode: u8,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn text(payload: &str) -> Self {
        Self { opcode: TEXT, payload: payload.as_bytes().to_vec() }
    }

    /// As a client sends it.
    pub fn masked(&self) -> Vec<u8> {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let mut bytes = self.head(0x80);
        bytes.extend_from_slice(&mask);
        bytes.extend(self.payload.iter().zip(mask.iter().cycle()).map(|(it, key)| it ^ key));
        bytes
    }

    /// As a server sends it.
    pub fn unmasked(&self) -> Vec<u8> {
        let mut bytes = self.head(0);
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    fn head(&self, mask: u8) -> Vec<u8> {
        let mut bytes = vec![0x80 | self.opcode];
        match self.payload.len() {
            n @ 0..126 => bytes.push(mask | n as u8),
            n @ 126..65_536 => {
                bytes.push(mask | 126);
                bytes.extend_from_slice(&(n as u16).to_be_bytes());
            }
            n => {
                bytes.push(mask | 127);
                bytes.extend_from_slice(&(n as u64).to_be_bytes());
            }
        }
        bytes
    }

    /// The next frame, unmasked; `None` at the end of the connection.
    pub async fn read<S: AsyncRead + AsyncWrite + Unpin>(line: &mut Line<S>) -> io::Result<Option<Self>> {
        let head = line.exactly(2).await?;
        let [first, second] = head[..] else { return Ok(None) };
        let length = match second & 0x7f {
            126 => number(&line.exactly(2).await?),
            127 => number(&line.exactly(8).await?),
            n => usize::from(n),
        };
        let mask = if second & 0x80 == 0 { vec![0; 4] } else { line.exactly(4).await? };
        let payload = line.exactly(length).await?.iter().zip(mask.iter().cycle()).map(|(it, key)| it ^ key).collect();
        Ok(Some(Self { opcode: first & 0x0f, payload }))
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, it| sum << 8 | usize::from(*it))
}
