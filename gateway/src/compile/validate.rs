//! The ring of validation: what the definition declares of parameters and body is what gets further in.
use std::sync::Arc;

use contract::{
    Exchange, Kind, Outcome, Problem,
    onion::{Next, Plugin, Ring},
    scope::media_type,
};
use http::{HeaderValue, header};

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
    pub fn into_ring(self) -> Ring {
        Ring::plugin("validate", self)
    }

    fn content(&self, ex: &Exchange) -> Result<(), Box<Problem>> {
        if self.content.is_empty() || matches!(ex.body, contract::Body::Empty) {
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

impl Plugin for Validate {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        self.content(ex)?;
        let declared = http_body::Body::size_hint(&ex.body).lower();
        if declared > self.max_size {
            return Err(Problem::new(Kind::TooLarge, format!("the body is larger than the {} bytes allowed here", self.max_size)));
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
            let given = Given { head: &ex.head, names: &ex.route.captures, captures: &ex.captures, form };
            let (values, details) = params.coerce(&given);
            if let Some(first) = details.first() {
                let mut problem = Problem::new(Kind::Invalid, format!("validation failed: {}", first.message)).reason("validation");
                problem.details = details;
                return Err(problem);
            }
            ex.params = values;
        }
        next.run(ex).await
    }
}
