//! The shape of the proxy's answer on its way out: headers, and a body made of a template.
use contract::{
    Body, BodyError, Exchange, Outcome, Problem,
    expression::{JsonTemplate, Template},
    scope::{is_json, media_type},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::respond::failed;

/// The largest answer that is read to be reshaped.
pub const MAX_ANSWER: usize = 1 << 20;

/// What `outbound` says.
#[derive(Default)]
pub struct Outbound {
    pub remove: Box<[HeaderName]>,
    pub set: Box<[(HeaderName, Template)]>,
    pub add: Box<[(HeaderName, Template)]>,
    pub body: Option<JsonTemplate>,
    /// Some expression looks at the answer's body.
    pub reads_body: bool,
}

impl Outbound {
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty() && self.body.is_none()
    }

    /// Reshapes an answer. A failed call has no answer to shape.
    pub async fn shape(&self, ex: &Exchange, outcome: Outcome) -> Outcome {
        let mut answer = outcome?;
        if answer.status() == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer);
        }
        if self.reads_body && is_json(&media_type(answer.headers())) {
            // What is not JSON after all stays as it is, and expressions see null.
            let _ = answer.body_mut().json(MAX_ANSWER, ex.route.json_depth).await.map_err(BodyError::of_response)?;
        }
        let outcome = Ok(answer);
        let scope = ex.scope_after(&outcome);
        let render = |list: &[(HeaderName, Template)]| -> Result<Vec<(HeaderName, Option<HeaderValue>)>, Box<Problem>> {
            let one =
                |(name, it): &(HeaderName, Template)| Ok((name.clone(), it.header(&scope).map_err(|it| failed(it, "outbound.headers"))?));
            list.iter().map(one).collect()
        };
        let (set, add) = (render(&self.set)?, render(&self.add)?);
        let body = self.body.as_ref().map(|it| it.render(&scope)).transpose().map_err(|it| failed(it, "outbound.body"))?;
        let mut answer = outcome?;
        if let Some(it) = body {
            let headers = answer.headers_mut();
            // They described the body that was.
            for name in [
                header::CONTENT_LENGTH,
                header::CONTENT_ENCODING,
                header::ETAG,
                header::LAST_MODIFIED,
                header::ACCEPT_RANGES,
                header::CONTENT_RANGE,
            ] {
                headers.remove(name);
            }
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
            *answer.body_mut() = Body::Full(it);
        }
        self.edit(answer.headers_mut(), set, add);
        Ok(answer)
    }

    fn edit(&self, headers: &mut HeaderMap, set: Vec<(HeaderName, Option<HeaderValue>)>, add: Vec<(HeaderName, Option<HeaderValue>)>) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in set {
            match value {
                Some(it) => drop(headers.insert(name, it)),
                None => drop(headers.remove(name)),
            }
        }
        for (name, value) in add {
            if let Some(it) = value {
                headers.append(name, it);
            }
        }
    }
}
