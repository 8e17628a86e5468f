//! A request's body: read at the handler's pace, for a window is given back only when its bytes are taken.
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use contract::{BodyError, exchange};
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::http1::{Limits, Timer, fields};

/// The sending side of a stream, until its answer begins.
pub(super) type Sender = Rc<RefCell<Option<SendResponse<Bytes>>>>;

/// Sends informational heads before the answer.
pub(super) struct Early(pub(super) Sender);

impl exchange::Early for Early {
    fn send(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        let mut head = Response::new(());
        *head.status_mut() = status;
        for (name, value) in headers {
            if !fields::hop_by_hop(name) && *name != header::CONTENT_LENGTH {
                head.headers_mut().append(name.clone(), value.clone());
            }
        }
        self.0.borrow_mut().as_mut().is_some_and(|it| it.send_informational(head).is_ok())
    }
}

/// A request's body.
pub(super) struct Reader {
    stream: RecvStream,
    sender: Sender,
    limits: Rc<Limits>,
    /// How much is still to come, where the client told it.
    left: Option<u64>,
    received: u64,
    expects: bool,
    /// Whether all data were read, and trailers may come.
    data_ended: bool,
    ended: bool,
    since: Option<Instant>,
    waited: Duration,
    timer: Timer,
}

impl Reader {
    pub(super) fn new(stream: RecvStream, sender: Sender, limits: Rc<Limits>, length: Option<u64>, expects: bool) -> Self {
        Self {
            stream,
            sender,
            limits,
            left: length,
            received: 0,
            expects,
            data_ended: false,
            ended: false,
            since: None,
            waited: Duration::ZERO,
            timer: Timer::default(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.data_ended {
            match self.stream.poll_data(cx) {
                Poll::Pending => return self.wait(cx),
                Poll::Ready(None) => self.data_ended = true,
                Poll::Ready(Some(Err(it))) => return Poll::Ready(Some(Err(BodyError::broken(it)))),
                Poll::Ready(Some(Ok(data))) => {
                    self.arrived();
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    if data.is_empty() {
                        continue;
                    }
                    self.received += data.len() as u64;
                    self.left = self.left.map(|it| it.saturating_sub(data.len() as u64));
                    if self.received > self.limits.body {
                        let limit = usize::try_from(self.limits.body).unwrap_or(usize::MAX);
                        return Poll::Ready(Some(Err(BodyError::TooLarge { limit })));
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
            }
        }
        match self.stream.poll_trailers(cx) {
            Poll::Pending => self.wait(cx),
            Poll::Ready(Err(it)) => Poll::Ready(Some(Err(BodyError::broken(it)))),
            Poll::Ready(Ok(None)) => Poll::Ready(None),
            Poll::Ready(Ok(Some(trailers))) => {
                self.ended = true;
                Poll::Ready(trailer(trailers, &self.limits))
            }
        }
    }

    fn arrived(&mut self) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
    }

    /// Nothing is there: the client is asked, where it wants to be, and has its time.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if std::mem::take(&mut self.expects)
            && let Some(it) = self.sender.borrow_mut().as_mut()
        {
            let mut head = Response::new(());
            *head.status_mut() = StatusCode::CONTINUE;
            let _ = it.send_informational(head);
        }
        let limits = &self.limits;
        let since = *self.since.get_or_insert_with(Instant::now);
        // At the least rate the bytes so far would have taken this long.
        let earned = Duration::from_secs_f64(self.received as f64 / f64::from(limits.body_rate.max(1)));
        let left = earned.max(limits.body_grace).min(limits.body_time).saturating_sub(self.waited);
        if self.timer.expired(cx, Some(since + left.min(limits.body_idle))) {
            return Poll::Ready(Some(Err(BodyError::Stalled)));
        }
        Poll::Pending
    }
}

/// What may stand in trailers is handed on, within the bounds of heads; the rest is left out, as HTTP/1 leaves it out.
fn trailer(given: HeaderMap, limits: &Limits) -> Option<Result<Frame<Bytes>, BodyError>> {
    let size: usize = given.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if given.len() > limits.headers.count || size > limits.headers.total {
        return Some(Err(BodyError::broken("trailers are larger than allowed here")));
    }
    let mut kept = HeaderMap::with_capacity(given.len());
    for (name, value) in &given {
        if fields::allowed_in_trailers(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    (!kept.is_empty()).then(|| Ok(Frame::trailers(kept)))
}

impl Body for Reader {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let it = self.poll(cx);
        self.ended |= matches!(it, Poll::Ready(None | Some(Err(_))));
        it
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
