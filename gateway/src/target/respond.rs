//! Answers that need no backend: `respond` and `redirect`.
use contract::{
    Body, Exchange, Kind, Outcome, Problem,
    expression::{JsonTemplate, RenderError, Template, redirect_host},
};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

/// An answer of the gateway's own.
pub struct Respond {
    pub status: StatusCode,
    pub headers: Box<[(HeaderName, Template)]>,
    pub body: Content,
}

/// A body that a definition writes.
pub enum Content {
    Empty,
    Json(JsonTemplate),
    /// With its media type.
    Raw(Template, HeaderValue),
}

/// Sends the client elsewhere.
pub struct Redirect {
    pub to: Template,
    pub status: StatusCode,
    /// Lower case; where an expression chooses the host, it must be one of these.
    pub hosts: Box<[Box<str>]>,
}

/// An expression failed: a client's own bytes in the wrong place are its fault, everything else is the definition's.
pub fn failed(fault: RenderError, what: &'static str) -> Box<Problem> {
    let kind = match fault {
        RenderError::ControlInHeader
        | RenderError::DotSegment
        | RenderError::NulInPath
        | RenderError::EmptyInPath
        | RenderError::NotText
        | RenderError::Redirect => Kind::Invalid,
        RenderError::NullInPath | RenderError::Eval(_) => Kind::Internal,
    };
    let message = match kind {
        Kind::Invalid => "the request holds a value that cannot be used here",
        _ => "the request could not be made into what its definition says",
    };
    Problem::new(kind, message).because(format!("{what}: {fault}")).reason("expression")
}

impl Content {
    /// The body and its media type; `None` for no body.
    pub fn render(&self, ex: &Exchange) -> Result<Option<(Body, HeaderValue)>, Box<Problem>> {
        Ok(match self {
            Self::Empty => None,
            Self::Json(it) => {
                let bytes = it.render(&ex.scope()).map_err(|it| failed(it, "body"))?;
                Some((Body::Full(bytes), HeaderValue::from_static("application/json; charset=utf-8")))
            }
            Self::Raw(it, media) => {
                let bytes = it.render(&ex.scope()).map_err(|it| failed(it, "body"))?.unwrap_or_default();
                Some((Body::Full(bytes), media.clone()))
            }
        })
    }
}

impl Respond {
    pub fn run(&self, ex: &Exchange) -> Outcome {
        let mut answer = Response::new(Body::Empty);
        *answer.status_mut() = self.status;
        if let Some((body, media)) = self.body.render(ex)? {
            *answer.body_mut() = body;
            answer.headers_mut().insert(header::CONTENT_TYPE, media);
        }
        for (name, value) in &self.headers {
            if let Some(it) = value.header(&ex.scope()).map_err(|it| failed(it, "a header"))? {
                answer.headers_mut().insert(name, it);
            }
        }
        Ok(answer)
    }
}

impl Redirect {
    pub fn run(&self, ex: &Exchange) -> Outcome {
        let to = self.to.render(&ex.scope()).map_err(|it| failed(it, "redirect.to"))?;
        let to = to.ok_or_else(|| failed(RenderError::NullInPath, "redirect.to"))?;
        if self.to.chooses_host() {
            // A path of this host leads nowhere else; what clients could read in two ways leads anywhere.
            let host = std::str::from_utf8(&to).ok().and_then(redirect_host);
            if !host.is_some_and(|host| host.is_none_or(|host| self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host)))) {
                return Err(failed(RenderError::Redirect, "redirect.to"));
            }
        }
        let value = HeaderValue::from_maybe_shared(to).map_err(|_| failed(RenderError::ControlInHeader, "redirect.to"))?;
        let mut answer = Response::new(Body::Empty);
        *answer.status_mut() = self.status;
        answer.headers_mut().insert(header::LOCATION, value);
        Ok(answer)
    }
}
