//! A message body that remembers the most decoded form it was last given.
use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::{
    json::{JsonError, JsonOptions, JsonView},
    problem::{CallError, Kind, Problem},
};

/// A body on its way. It stays on the thread of its request, so it need not be `Send`.
pub type BoxBody = Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError>>>;

/// A request's or a response's body.
///
/// A body nobody looks at streams through untouched.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Full(Bytes),
    /// Received bytes with an index over them; unedited, they go out as they came.
    Json(JsonView),
    Stream(BoxBody),
}

/// Why a body broke off.
#[derive(Debug)]
pub enum BodyError {
    /// More than the reader was willing to take.
    TooLarge { limit: usize },
    /// The sender stopped sending for too long.
    Stalled,
    /// The sender broke the framing or the connection.
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

impl BodyError {
    pub fn broken(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Broken(source.into())
    }

    /// As a fault of the client, whose body it was.
    pub fn of_request(self) -> Box<Problem> {
        match self {
            Self::TooLarge { limit } => Problem::new(Kind::TooLarge, format!("the body is larger than the {limit} bytes allowed here")),
            Self::Stalled => Problem::new(Kind::RequestTimeout, "the body did not arrive in time"),
            Self::Broken(source) => Problem::new(Kind::Invalid, "the body could not be read").because(source),
        }
    }

    /// As a fault of the backend, whose body it was.
    pub fn of_response(self) -> Box<Problem> {
        match self {
            Self::Stalled => Problem::call(CallError::ReadTimeout, "upstream_body_stalled"),
            Self::TooLarge { .. } => Problem::call(CallError::Protocol, "upstream_body_too_large").because(self),
            Self::Broken(_) => Problem::call(CallError::Reset, "upstream_body_broken").because(self),
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "larger than {limit} bytes"),
            Self::Stalled => f.write_str("no bytes arrived in time"),
            Self::Broken(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Broken(source) => Some(&**source),
            _ => None,
        }
    }
}

impl Body {
    pub fn stream(body: impl HttpBody<Data = Bytes, Error = BodyError> + 'static) -> Self {
        Self::Stream(Box::pin(body))
    }

    pub fn take(&mut self) -> Body {
        std::mem::take(self)
    }

    /// A second copy for a second try; none of a body that is still on its way.
    pub fn copy(&self) -> Option<Body> {
        match self {
            Body::Empty => Some(Body::Empty),
            Body::Full(it) => Some(Body::Full(it.clone())),
            Body::Json(it) => Some(Body::Json(it.clone())),
            Body::Stream(_) => None,
        }
    }

    /// Reads the whole body into memory, in place; a second reader finds it there.
    ///
    /// Trailers of a body that is read this way are dropped.
    pub async fn bytes(&mut self, limit: usize) -> Result<&Bytes, BodyError> {
        if let Body::Stream(it) = self {
            let hint = it.size_hint();
            if limit as u64 <= hint.lower().saturating_sub(1) {
                return Err(BodyError::TooLarge { limit });
            }
            let whole = read(it, limit).await?;
            *self = Body::Full(whole);
        }
        static NOTHING: Bytes = Bytes::new();
        match self {
            Body::Full(it) if it.len() > limit => Err(BodyError::TooLarge { limit }),
            Body::Full(it) => Ok(it),
            Body::Json(it) => Ok(it.bytes()),
            _ => Ok(&NOTHING),
        }
    }

    /// Reads a body of at most `limit` bytes into memory, as [`Body::bytes`] does; a longer one stays as it is, and streams on.
    ///
    /// False for one that is longer, and for one with trailers, which would be lost.
    pub async fn peek(&mut self, limit: usize) -> Result<bool, BodyError> {
        let Body::Stream(it) = self else {
            return Ok(self.size_hint().exact().is_none_or(|size| size <= limit as u64));
        };
        if it.size_hint().lower() > limit as u64 {
            return Ok(false);
        }
        let (mut frames, mut size) = (VecDeque::new(), 0usize);
        let whole = loop {
            match it.frame().await {
                None => break frames.iter().all(Frame::is_data),
                Some(frame) => {
                    let frame = frame?;
                    size += frame.data_ref().map_or(0, Bytes::len);
                    frames.push_back(frame);
                    if size > limit {
                        break false;
                    }
                }
            }
        };
        let rest = match self.take() {
            Body::Stream(it) => it,
            _ => return Ok(false),
        };
        *self = match whole {
            true => {
                let mut text = BytesMut::with_capacity(size);
                frames.into_iter().filter_map(|it| it.into_data().ok()).for_each(|it| text.extend_from_slice(&it));
                Body::Full(text.freeze())
            }
            false => Body::stream(Resumed { frames, rest }),
        };
        Ok(whole)
    }

    /// Reads the whole body and indexes it, in place; a second reader finds it indexed.
    ///
    /// The inner error is a document's; the body is then whole, as bytes.
    pub async fn json(&mut self, limit: usize, depth: usize) -> Result<Result<&JsonView, JsonError>, BodyError> {
        if !matches!(self, Body::Json(_)) {
            let bytes = self.bytes(limit).await?.clone();
            match JsonView::parse_with(bytes, &JsonOptions { max_depth: depth, ..JsonOptions::default() }) {
                Ok(it) => *self = Body::Json(it),
                Err(fault) => return Ok(Err(fault)),
            }
        }
        match self {
            Body::Json(it) => Ok(Ok(it)),
            _ => unreachable!("set to Json just above"),
        }
    }

    /// The document, where somebody has read the body as one.
    pub fn as_json(&self) -> Option<&JsonView> {
        match self {
            Body::Json(it) => Some(it),
            _ => None,
        }
    }
}

/// A body of which some frames were looked at.
struct Resumed {
    frames: VecDeque<Frame<Bytes>>,
    rest: BoxBody,
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.frames.pop_front() {
            Some(it) => Poll::Ready(Some(Ok(it))),
            None => self.rest.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let seen: u64 = self.frames.iter().filter_map(Frame::data_ref).map(|it| it.len() as u64).sum();
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + seen);
        if let Some(most) = rest.upper() {
            hint.set_upper(most + seen);
        }
        hint
    }
}

async fn read(body: &mut BoxBody, limit: usize) -> Result<Bytes, BodyError> {
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    let mut size = 0usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        size += data.len();
        if size > limit {
            return Err(BodyError::TooLarge { limit });
        }
        // The usual body is one frame, which need not be copied.
        match first.take() {
            None if whole.is_empty() => first = Some(data),
            None => whole.extend_from_slice(&data),
            Some(it) => {
                whole.extend_from_slice(&it);
                whole.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

impl From<Bytes> for Body {
    fn from(it: Bytes) -> Self {
        if it.is_empty() { Body::Empty } else { Body::Full(it) }
    }
}

impl From<&'static str> for Body {
    fn from(it: &'static str) -> Self {
        Bytes::from_static(it.as_bytes()).into()
    }
}

impl From<String> for Body {
    fn from(it: String) -> Self {
        Bytes::from(it).into()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Empty => f.write_str("Empty"),
            Body::Full(it) => write!(f, "Full({} bytes)", it.len()),
            Body::Json(it) => write!(f, "Json({} bytes)", it.bytes().len()),
            Body::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Body::Empty => Poll::Ready(None),
            Body::Full(it) => {
                let whole = std::mem::take(it);
                *self = Body::Empty;
                Poll::Ready(Some(Ok(Frame::data(whole))))
            }
            Body::Json(it) => {
                let whole = it.to_bytes();
                *self = Body::Empty;
                Poll::Ready(Some(Ok(Frame::data(whole))))
            }
            Body::Stream(it) => it.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Full(it) => it.is_empty(),
            Body::Json(_) => false,
            Body::Stream(it) => it.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Full(it) => SizeHint::with_exact(it.len() as u64),
            Body::Json(it) => SizeHint::with_exact(it.bytes().len() as u64),
            Body::Stream(it) => it.size_hint(),
        }
    }
}
