//! The ring of validation: what the definition declares of parameters and body is what gets further in.
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use contract::{
    Body, BodyError, Exchange, Kind, Outcome, Problem,
    onion::{Filter, Flow, Next, Plugin, Ring},
    scope::media_type,
};
use http::{HeaderValue, header};
use http_body::Frame;

use crate::params::{Form, Given, Params, media};

/// What an Api declares of its requests.
pub struct Validate {
    pub params: Option<Arc<Params>>,
    /// Media types that are taken, in lower case; empty for all.
    pub content: Box<[Box<str>]>,
    /// What `Accept` says to a client whose media type is not taken.
    pub accept: Option<HeaderValue>,
    /// Said of a body that is larger, whoever reads it.
    pub max_size: u64,
}

impl Validate {
    /// A ring that waits only if it has a body to look at.
    pub fn into_ring(self) -> Ring {
        match self.params.as_ref().filter(|it| self.content.is_empty() && self.max_size == u64::MAX && !it.need_form()) {
            Some(it) => Ring::filter("validate", ValidateHead(it.clone())),
            None => Ring::plugin("validate", self),
        }
    }

    fn content(&self, ex: &Exchange) -> Result<(), Box<Problem>> {
        if self.content.is_empty() || matches!(ex.body, Body::Empty) {
            return Ok(());
        }
        if ex.head.headers.get_all(header::CONTENT_TYPE).iter().count() > 1 {
            return Err(Problem::new(Kind::Invalid, "Content-Type is given more than once"));
        }
        let media = media_type(&ex.head.headers);
        if self.content.iter().any(|it| **it == *media) {
            return Ok(());
        }
        let mut problem = Problem::new(Kind::UnsupportedMedia, format!("this API takes {}", self.content.join(", ")));
        if let Some(it) = &self.accept {
            problem.headers.insert(header::ACCEPT, it.clone());
        }
        Err(problem)
    }
}

/// A body that ends with an error once it is larger than its Api takes.
struct Counted {
    body: Body,
    left: u64,
    limit: usize,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            match self.left.checked_sub(data.len() as u64) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Some(Err(BodyError::TooLarge { limit: self.limit }))),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// The same for parameters that the head alone holds.
struct ValidateHead(Arc<Params>);

impl Filter for ValidateHead {
    fn request(&self, ex: &mut Exchange) -> Flow {
        check(&self.0, ex, Form::Absent).map(|()| None)
    }
}

/// Reads the parameters as the rings outside have left them; every fault becomes part of one answer.
fn check(params: &Params, ex: &mut Exchange, form: Form<'_>) -> Result<(), Box<Problem>> {
    let given = Given { head: &ex.head, names: &ex.route.captures, captures: &ex.captures, form };
    let (values, details) = params.coerce(&given);
    if let Some(first) = details.first() {
        let mut problem = Problem::new(Kind::Invalid, format!("validation failed: {}", first.message)).reason("validation");
        problem.details = details;
        return Err(problem);
    }
    ex.params = values;
    Ok(())
}

impl Plugin for Validate {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        self.content(ex)?;
        let hint = http_body::Body::size_hint(&ex.body);
        if hint.lower() > self.max_size {
            return Err(BodyError::TooLarge { limit: self.max_size as usize }.of_request());
        }
        // A body of unknown length is counted while it streams.
        if hint.upper().is_none_or(|it| it > self.max_size) && self.max_size < u64::MAX {
            ex.body = Body::stream(Counted { body: ex.body.take(), left: self.max_size, limit: self.max_size as usize });
        }
        if let Some(params) = &self.params {
            let form = if params.need_form() { media::form(&ex.head.headers) } else { None };
            let bytes = match form {
                Some(_) => ex.read_body().await?.clone(),
                None => Default::default(),
            };
            let form = match form {
                Some(media::FormMedia::Urlencoded) => Form::Urlencoded(&bytes),
                _ => Form::Absent,
            };
            check(params, ex, form)?;
        }
        next.run(ex).await
    }
}
