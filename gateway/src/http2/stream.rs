//! One request and its answer.
use std::{
    cell::RefCell,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    task::Poll,
};

use bytes::Bytes;
use contract::{Body, Kind, Problem};
use h2::{RecvStream, server::SendResponse};
use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use super::{
    answer, head,
    inbound::{Early, Reader},
};
use crate::http1::{Handler, Incoming, Limits, Outcome, Refusal, Sent};

const TOO_LARGE: Refusal = Refusal::new(Kind::TooLarge, "body_too_large", "the body is larger than allowed here");

/// How an exchange ended, as the connection counts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    /// The status of a refusal.
    pub(super) refused: Option<StatusCode>,
    pub(super) left: bool,
    pub(super) panicked: bool,
}

/// Tells the handler that its exchange is over, also when this future is dropped in the middle.
struct Told<H: Handler> {
    handler: Rc<H>,
    note: Option<H::Note>,
    sent: Sent,
    started: Instant,
}

impl<H: Handler> Drop for Told<H> {
    fn drop(&mut self) {
        if let Some(note) = self.note.take() {
            self.sent.took = self.started.elapsed();
            self.handler.finished(note, self.sent);
        }
    }
}

pub(super) async fn exchange<H: Handler>(
    handler: Rc<H>,
    request: Request<RecvStream>,
    sender: SendResponse<Bytes>,
    limits: Rc<Limits>,
) -> Ended {
    let started = Instant::now();
    let (parts, stream) = request.into_parts();
    let head_only = parts.method == Method::HEAD;
    let sender = Rc::new(RefCell::new(Some(sender)));
    let sent = Sent { status: None, bytes: 0, outcome: Outcome::ClientLeft, took: Default::default() };
    let mut told = Told { handler: handler.clone(), note: Some(H::Note::default()), sent, started };
    let Some(note) = told.note.as_mut() else { return Ended::default() };
    let mut ended = Ended::default();

    let read = head::read(parts, &limits).and_then(|it| match it.length {
        Some(length) if length > limits.body => Err(TOO_LARGE),
        _ => Ok(it),
    });
    let response = match read {
        Err(it) => {
            ended.refused = Some(it.kind.status());
            refused(&*handler, it.problem(), note)
        }
        Ok(head) => {
            let body = if stream.is_end_stream() {
                Body::Empty
            } else {
                Body::stream(Reader::new(stream, sender.clone(), limits.clone(), head.length, head.expects))
            };
            let early = Box::new(Early(sender.clone()));
            let incoming = Incoming { head: head.parts, body, upgrade: None, early, started };
            // Called within the block, so that it panics where panics are caught.
            let mut call = Box::pin({
                let (handler, note) = (handler.clone(), &mut *note);
                async move { handler.call(incoming, note).await }
            });
            let attended = poll_fn(|cx| {
                match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
                    Err(_) => return Poll::Ready(Err(true)),
                    Ok(Poll::Ready(it)) => return Poll::Ready(Ok(it)),
                    Ok(Poll::Pending) => {}
                }
                match sender.borrow_mut().as_mut().map(|it| it.poll_reset(cx)) {
                    Some(Poll::Pending) => Poll::Pending,
                    _ => Poll::Ready(Err(false)),
                }
            })
            .await;
            drop(call);
            match attended {
                Ok(it) => it,
                Err(false) => {
                    ended.left = true;
                    return ended;
                }
                Err(true) => {
                    ended.panicked = true;
                    refused(&*handler, Problem::new(Kind::Internal, "something went wrong here").reason("panic"), note)
                }
            }
        }
    };
    // From here on nothing informational can be sent.
    let Some(to) = sender.borrow_mut().take() else { return ended };
    let status = response.status();
    told.sent.status = Some(status);
    let outcome = answer::send(to, response, head_only, &limits, &mut told.sent.bytes).await;
    ended.left = outcome == Outcome::ClientLeft;
    told.sent.outcome = if ended.panicked && outcome == Outcome::Complete { Outcome::Panicked } else { outcome };
    ended.panicked |= outcome == Outcome::Panicked;
    ended
}

/// The handler's rendering of a problem, or a bare answer if that panics too.
fn refused<H: Handler>(handler: &H, problem: Box<Problem>, note: &mut H::Note) -> Response<Body> {
    let status = problem.status();
    catch_unwind(AssertUnwindSafe(move || handler.refuse(problem, note))).unwrap_or_else(|_| {
        let mut bare = Response::new(Body::Empty);
        *bare.status_mut() = if status.is_success() { StatusCode::INTERNAL_SERVER_ERROR } else { status };
        bare
    })
}
