//! What a gRPC call is made of: one message, of what the definition sends or of the request.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use contract::{
    Body, Exchange, Kind, Problem,
    json::{self, push_string},
    scope::{Form, is_json, media_type},
};
use http::{HeaderName, HeaderValue, header};

use crate::proxy::{
    grpc::{
        method::{Ask, Method, Several},
        rules::{Given, Rules},
    },
    message::Request,
};

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// How a request becomes a call.
pub enum Shape {
    /// Of one method. Declared parameters of path, query and form are fields of its message, and win over the body's.
    Method(Arc<Method>, Box<[Box<str>]>),
    /// Of whichever method a rule of `google.api.http` says.
    Rules(Arc<Rules>),
}

impl Shape {
    /// The call, and its message: `content` where the definition writes one, else the request's body and parameters.
    pub fn call(&self, ex: &Exchange, content: Option<Body>) -> Result<(Ask, Bytes), Box<Problem>> {
        let (method, message) = match self {
            Self::Method(it, fields) => {
                let message = match content {
                    Some(Body::Full(json)) => it.encode(&json)?,
                    Some(Body::Json(json)) => it.encode(&json.to_bytes())?,
                    _ => it.encode(&gather(ex, fields)?)?,
                };
                (it.clone(), message)
            }
            Self::Rules(it) => {
                let body = match &ex.body {
                    Body::Full(it) => it.clone(),
                    Body::Json(it) => it.to_bytes(),
                    _ => Bytes::new(),
                };
                it.message(&Given {
                    method: &ex.head.method,
                    path: ex.path(),
                    query: ex.query(),
                    body: &body,
                    media: ex.head.headers.get(header::CONTENT_TYPE),
                })?
            }
        };
        Ok((ask(ex, method), message))
    }
}

/// When a call that passes through must be over: the client's own `grpc-timeout` counts, and the backend is told what is left.
pub(super) fn hurry(ex: &Exchange, request: &mut Request, deadline: Instant) -> Instant {
    let now = Instant::now();
    let headers = request.headers.get_or_insert_with(|| ex.head.headers.clone());
    let asked = headers.get(TIMEOUT).and_then(|it| time_of(it.as_bytes()));
    let deadline = asked.map_or(deadline, |it| deadline.min(now + it));
    let left = deadline.saturating_duration_since(now).as_millis().clamp(1, 99_999_999);
    headers.insert(TIMEOUT, HeaderValue::from_str(&format!("{left}m")).unwrap_or(HeaderValue::from_static("1S")));
    deadline
}

/// At most eight digits and a unit.
fn time_of(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// What the client wants of the answer.
fn ask(ex: &Exchange, method: Arc<Method>) -> Ask {
    let accept = ex.head.headers.get_all(header::ACCEPT);
    let wants = |media: &str| {
        accept
            .iter()
            .filter_map(|it| it.to_str().ok())
            .flat_map(|it| it.split(','))
            .any(|it| it.split(';').next().unwrap_or(it).trim().eq_ignore_ascii_case(media))
    };
    let several = match () {
        () if wants("text/event-stream") => Some(Several::Events),
        () if wants("application/x-ndjson") => Some(Several::Lines),
        () => None,
    };
    Ask { method, several }
}

pub(super) fn gather(ex: &Exchange, fields: &[Box<str>]) -> Result<Vec<u8>, Box<Problem>> {
    let mut out = vec![b'{'];
    let mut add = |name: &str, write: &mut dyn FnMut(&mut Vec<u8>)| {
        if out.len() > 1 {
            out.push(b',');
        }
        push_string(name, &mut out);
        out.push(b':');
        write(&mut out);
    };
    let mut given: Vec<&str> = Vec::new();
    for name in fields {
        let Some(value) = ex.param(name).filter(|it| !it.is_null()) else { continue };
        add(name, &mut |out| value.view().push_json(out));
        given.push(name);
    }
    match &ex.body {
        Body::Json(view) => {
            let root = view.root();
            if root.kind() != json::Kind::Object {
                return Err(Problem::new(Kind::Invalid, "the body must be a JSON object"));
            }
            for (key, value) in root.members() {
                let name = key.as_str().unwrap_or_default();
                if !given.contains(&&*name) {
                    add(&name, &mut |out| out.extend_from_slice(value.raw()));
                }
            }
        }
        // Its fields are parameters, as far as they are declared.
        _ if ex.notes.get::<Form>().is_some() => (),
        Body::Full(it) if !it.is_empty() && !is_json(&media_type(&ex.head.headers)) => {
            return Err(Problem::new(Kind::UnsupportedMedia, "the body must be JSON"));
        }
        _ => (),
    }
    out.push(b'}');
    Ok(out)
}
