//! The ring of validation: what the definition declares of parameters and body is what gets further in.
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use contract::{
    Body, BodyError, Exchange, Kind, Outcome, Problem,
    env::{HEAVY, Spawn, heavy},
    json::{JsonOptions, JsonView, Repeats},
    multipart,
    onion::{Filter, Flow, Next, Plugin, Ring},
    problem::Detail,
    scope::{Form as Fields, media_type},
};
use http::{HeaderValue, Method, header};
use http_body::Frame;

use crate::params::{
    Form, Given, Params,
    body::BodySchema,
    media::{self, Media},
    wording::MOST_FAULTS,
};

/// What an Api declares of its requests.
pub struct Validate {
    pub params: Option<Arc<Params>>,
    /// Media types that are taken, in lower case; empty for all.
    pub content: Box<[Box<str>]>,
    /// What `Accept` says to a client whose media type is not taken.
    pub accept: Option<HeaderValue>,
    /// What a body of JSON or a form must be.
    pub schema: Option<Arc<BodySchema>>,
    /// Said of a body that is larger, whoever reads it.
    pub max_size: u64,
    /// Where large bodies are looked at.
    pub spawn: Arc<dyn Spawn>,
}

impl Validate {
    /// A ring that waits only if it has a body to look at.
    pub fn into_ring(self) -> Ring {
        match self
            .params
            .as_ref()
            .filter(|it| self.content.is_empty() && self.schema.is_none() && self.max_size == u64::MAX && !it.need_form())
        {
            Some(it) => Ring::filter("validate", ValidateHead(it.clone())),
            None => Ring::plugin("validate", self),
        }
    }

    fn content(&self, ex: &Exchange) -> Result<(), Box<Problem>> {
        if matches!(ex.body, Body::Empty) {
            return Ok(());
        }
        if ex.head.headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_some() {
            return Err(Problem::new(Kind::Invalid, "Content-Type is given more than once"));
        }
        if self.content.is_empty() {
            return Ok(());
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

    /// Reads a form, where something declared needs one; its fields stay in the notes.
    async fn form(&self, ex: &mut Exchange, media: &Media) -> Result<(), Box<Problem>> {
        let needed = self.schema.is_some() || self.params.as_ref().is_some_and(|it| it.need_form());
        if needed && matches!(media, Media::Urlencoded | Media::Multipart(_)) {
            let (most, bytes) = (ex.route.field_count, ex.read_body().await?.clone());
            let form = match media {
                Media::Multipart(boundary) => {
                    let parts = boundary.as_deref().map_err(|it| *it).and_then(|it| multipart::parts(&bytes, it, most));
                    Fields::of_parts(&parts.map_err(|why| Problem::new(Kind::Invalid, format!("the body is not a valid form: {why}")))?)?
                }
                _ => Fields::of_urlencoded(&bytes, most)?,
            };
            ex.notes.put(form);
        }
        Ok(())
    }

    /// The faults of the body.
    async fn body(&self, schema: &Arc<BodySchema>, ex: &mut Exchange, media: &Media) -> Result<Vec<Detail>, Box<Problem>> {
        if matches!(media, Media::Urlencoded | Media::Multipart(_)) {
            return Ok(ex.notes.get::<Fields>().map(|it| schema.form_faults(&it.0)).unwrap_or_default());
        }
        let limit = ex.route.body_limit;
        let bytes = ex.body.bytes(limit).await.map_err(BodyError::of_request)?.clone();
        if bytes.is_empty() {
            return Ok(match ex.head.method {
                Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS | Method::TRACE => Vec::new(),
                _ => vec![Detail { place: "body", schema: "/".into(), pointer: String::new(), message: "the body is missing".into() }],
            });
        }
        if *media != Media::Json {
            return Err(Problem::new(Kind::UnsupportedMedia, "this API takes JSON in UTF-8, or a form"));
        }
        let options = JsonOptions { max_depth: ex.route.json_depth, repeats: Repeats::Refuse, ..JsonOptions::default() };
        let (known, schema) = (ex.body.as_json().filter(|it| !it.has_repeats()).cloned(), schema.clone());
        let size = bytes.len();
        let work = move || {
            let view = match known {
                Some(it) => it,
                None => JsonView::parse_with(bytes, &options)?,
            };
            let details = schema.faults(view.root());
            Ok((view, details))
        };
        // Most bodies are small, and going elsewhere costs more than they do.
        let done = if size < HEAVY { Some(work()) } else { heavy(&*self.spawn, work).await };
        let done = done.ok_or_else(|| Problem::new(Kind::Internal, "the body could not be checked"))?;
        let (view, details) = done.map_err(|it: contract::json::JsonError| {
            Problem::new(Kind::Invalid, format!("the body is not valid JSON: {it}")).reason("validation")
        })?;
        ex.body = Body::Json(view);
        Ok(details)
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
        let details = check(&self.0, ex);
        refused(details).map(|()| None)
    }
}

/// Reads the parameters as the rings outside have left them; their faults.
fn check(params: &Params, ex: &mut Exchange) -> Vec<Detail> {
    let form = ex.notes.get::<Fields>().map_or(Form::Absent, |it| Form::Fields(&it.0));
    let given = Given { head: &ex.head, names: &ex.route.captures, captures: &ex.captures, form };
    let (values, details) = params.coerce(&given);
    ex.params = values;
    details
}

/// Every fault becomes part of one answer.
fn refused(mut details: Vec<Detail>) -> Result<(), Box<Problem>> {
    let Some(first) = details.first() else { return Ok(()) };
    let mut problem = Problem::new(Kind::Invalid, format!("validation failed: {}", first.message)).reason("validation");
    details.truncate(MOST_FAULTS);
    problem.details = details;
    Err(problem)
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
        let media = media::of(&ex.head.headers);
        let empty = matches!(ex.body, Body::Empty);
        if self.schema.is_some() && !empty && media::is_encoded(&ex.head.headers) {
            let identity = HeaderValue::from_static("identity");
            return Err(Problem::new(Kind::UnsupportedMedia, "this API takes bodies that are not compressed")
                .header(header::ACCEPT_ENCODING, identity));
        }
        self.form(ex, &media).await?;
        let mut details = self.params.as_ref().map(|it| check(it, ex)).unwrap_or_default();
        if let Some(schema) = &self.schema {
            details.extend(self.body(schema, ex, &media).await?);
        }
        refused(details)?;
        next.run(ex).await
    }
}
