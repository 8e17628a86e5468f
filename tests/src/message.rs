//! HTTP/1.1 messages read byte for byte, by the tests' own strict rules, so that the gateway is judged by another reader than its own.
use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// No step of a test takes longer, unless something hangs.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A start line with its headers, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Every byte up to and with the empty line.
    pub raw: Vec<u8>,
    /// Each byte as the character of the same number, so that nothing is lost.
    pub line: String,
    /// In order, names as spelt, values as above.
    pub headers: Vec<(String, String)>,
}

impl Head {
    fn parse(raw: Vec<u8>) -> io::Result<Self> {
        let text = latin1(&raw);
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let line = lines.next().unwrap_or_default().to_string();
        let header = |it: &str| {
            let (name, value) = it.split_once(':').ok_or_else(|| bad(format!("no colon in {it:?}")))?;
            Ok((name.to_string(), value.trim_matches([' ', '\t']).to_string()))
        };
        let headers = lines.map(header).collect::<io::Result<_>>()?;
        Ok(Self { raw, line, headers })
    }

    /// The only value of a header; a test that meets two asks [`Self::all`].
    #[track_caller]
    pub fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} stands more than once: {all:?}");
        all.first().copied()
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    }

    pub fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("no status in {:?}", self.line))
    }
}

/// A body with what its framing said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub framing: Framing,
    /// False where the connection ended before the framing said so.
    pub complete: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    #[default]
    None,
    Length(usize),
    Chunked,
    /// Up to the end of the connection.
    Close,
}

/// Reads messages from one side of a connection and writes bytes to it.
pub struct Line<S> {
    pub stream: S,
    ahead: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, ahead: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await?;
        self.stream.flush().await
    }

    /// More bytes; false at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let n = self.stream.read(&mut buffer).await?;
        self.ahead.extend_from_slice(&buffer[..n]);
        Ok(n > 0)
    }

    /// Up to and with the mark; what is there where the connection ends first.
    async fn until(&mut self, mark: &[u8]) -> io::Result<Vec<u8>> {
        let mut from = 0;
        loop {
            if let Some(at) = self.ahead[from..].windows(mark.len()).position(|it| it == mark) {
                return Ok(self.ahead.drain(..from + at + mark.len()).collect());
            }
            from = self.ahead.len().saturating_sub(mark.len() - 1);
            if !self.fill().await? {
                return Ok(std::mem::take(&mut self.ahead));
            }
        }
    }

    /// The next head; `None` where the connection ended cleanly before it.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        let raw = self.until(b"\r\n\r\n").await?;
        match raw.ends_with(b"\r\n\r\n") {
            true => Head::parse(raw).map(Some),
            false if raw.is_empty() => Ok(None),
            false => Err(bad(format!("the connection ended inside a head: {:?}", latin1(&raw)))),
        }
    }

    /// Exactly so many bytes, or fewer at the end of the connection.
    pub async fn exactly(&mut self, n: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < n && self.fill().await? {}
        let n = n.min(self.ahead.len());
        Ok(self.ahead.drain(..n).collect())
    }

    /// Whatever comes next; empty at the end.
    pub async fn some(&mut self) -> io::Result<Vec<u8>> {
        if self.ahead.is_empty() {
            self.fill().await?;
        }
        Ok(std::mem::take(&mut self.ahead))
    }

    /// All up to the end of the connection; a reset ends it too.
    pub async fn rest(&mut self) -> io::Result<Vec<u8>> {
        while self.fill().await? {}
        Ok(std::mem::take(&mut self.ahead))
    }

    /// The next chunk of a chunked body; empty for the last one, whose trailers are still to be read.
    pub async fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let line = self.until(b"\r\n").await?;
        let text = latin1(&line);
        let size = text.strip_suffix("\r\n").ok_or_else(|| bad("the connection ended inside a chunk's size"))?;
        let size = size.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16).map_err(|_| bad(format!("no chunk size: {text:?}")))?;
        if size == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = self.exactly(size + 2).await?;
        if bytes.len() < size + 2 {
            return Err(bad("the connection ended inside a chunk"));
        }
        match bytes.split_off(size).as_slice() {
            b"\r\n" => Ok(bytes),
            other => Err(bad(format!("a chunk ends with {other:?}"))),
        }
    }

    pub async fn trailers(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut raw = b"trailers\r\n".to_vec();
        loop {
            let line = self.until(b"\r\n").await?;
            match line.as_slice() {
                b"\r\n" => return Ok(Head::parse(raw)?.headers),
                it if it.ends_with(b"\r\n") => raw.extend_from_slice(it),
                _ => return Err(bad("the connection ended inside the trailers")),
            }
        }
    }

    /// The body that a framing announces.
    pub async fn content(&mut self, framing: Framing) -> Content {
        let mut it = Content { framing, ..Content::default() };
        it.complete = match framing {
            Framing::None => true,
            Framing::Length(n) => {
                it.bytes = self.exactly(n).await.unwrap_or_default();
                it.bytes.len() == n
            }
            Framing::Close => match self.rest().await {
                Ok(bytes) => {
                    it.bytes = bytes;
                    true
                }
                Err(_) => false,
            },
            Framing::Chunked => loop {
                match self.chunk().await {
                    Ok(bytes) if bytes.is_empty() => match self.trailers().await {
                        Ok(trailers) => {
                            it.trailers = trailers;
                            break true;
                        }
                        Err(_) => break false,
                    },
                    Ok(bytes) => it.bytes.extend_from_slice(&bytes),
                    Err(_) => break false,
                }
            },
        };
        it
    }

    /// Whether the other side ends the connection, cleanly or not, without another byte.
    pub async fn ended(&mut self) -> bool {
        self.ahead.is_empty() && matches!(timeout(PATIENCE, self.fill()).await, Ok(Ok(false) | Err(_)))
    }
}

/// How a request's body is framed.
pub fn framing_of_request(head: &Head) -> io::Result<Framing> {
    match (head.all("transfer-encoding").as_slice(), head.all("content-length").as_slice()) {
        ([], []) => Ok(Framing::None),
        ([it], []) if it.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        ([], [it]) => it.parse().map(Framing::Length).map_err(|_| bad(format!("no length: {it:?}"))),
        both => Err(bad(format!("a request framed twice or strangely: {both:?}"))),
    }
}

/// How an answer's body is framed; the method decides for HEAD, the status for 1xx, 204 and 304.
pub fn framing_of_answer(head: &Head, method: &str) -> io::Result<Framing> {
    if method == "HEAD" || matches!(head.status(), 100..200 | 204 | 304) {
        return Ok(Framing::None);
    }
    Ok(match framing_of_request(head)? {
        Framing::None => Framing::Close,
        it => it,
    })
}

/// Each byte as the character of the same number.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|it| char::from(*it)).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

pub fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
