//! gRPC to a backend, JSON to the client (gRPC over HTTP2, PROTOCOL-HTTP2.md).
mod messages;
pub mod method;
pub mod rules;
mod status;
pub mod template;
mod text;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use contract::{Body, CallError, Problem, discovery::Node, local::Local};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use self::{
    messages::{Messages, Written, no_status},
    method::{Ask, Codec, Several},
    status::{DETAILS, MESSAGE, STATUS, Status},
};
use super::{
    http2::Http2,
    message::{Failed, Request, Spoken, Time},
};

const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Sends one framed message, and gives the answer as HTTP would: a status, and JSON.
pub async fn send(
    http2: &Http2,
    local: &Local,
    node: &Arc<Node>,
    mut request: Request,
    received: &HeaderMap,
    time: Time,
    ask: &Ask,
) -> Result<Response<Body>, Box<Failed>> {
    let headers = request.headers.get_or_insert_with(|| received.clone());
    for name in [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::RANGE] {
        headers.remove(name);
    }
    let media = match ask.method.codec {
        Codec::Json => "application/grpc+json",
        Codec::Proto(_) => "application/grpc",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(TIMEOUT, timeout(time.head.saturating_duration_since(Instant::now())));
    let answer = http2.send(local, node, request, received, time).await.map_err(|mut it| {
        if let Some(left) = &mut it.request {
            left.spoken = Some(Spoken::Grpc(Box::new(ask.clone())));
        }
        it
    })?;
    read(answer, ask, time).await.map_err(|problem| {
        let error = problem.call;
        Box::new(Failed { problem, error, sent: true, request: None })
    })
}

/// At most eight digits and a unit.
fn timeout(left: Duration) -> HeaderValue {
    let millis = left.as_millis().max(1);
    let text = if millis < 100_000_000 { format!("{millis}m") } else { format!("{}S", left.as_secs().min(99_999_999)) };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("1S"))
}

async fn read(answer: Response<Body>, ask: &Ask, time: Time) -> Result<Response<Body>, Box<Problem>> {
    let (mut parts, body) = answer.into_parts();
    let status = Status::of(&parts.headers);
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::TRAILER, ACCEPT_ENCODING, DETAILS, MESSAGE, STATUS] {
        parts.headers.remove(name);
    }
    parts.headers.remove("grpc-encoding");
    // Judged by what was asked for, and never by the media type of the answer.
    if parts.status != StatusCode::OK || status.as_ref().is_some_and(|it| it.code != 0) {
        let status = status.unwrap_or_else(|| Status::of_http(parts.status));
        return Ok(failed(parts, &status, ask));
    }
    let late = |_| Problem::call(CallError::ReadTimeout, "upstream_body_stalled");
    let mut messages = Messages::new(body);
    let several = ask.several.or(ask.method.streams().then_some(Several::Lines));
    let by = time.body.unwrap_or(time.head);
    let first = tokio::time::timeout_at(by.into(), messages.next()).await.map_err(late)??;
    let Some(first) = first else {
        let status = status.or_else(|| messages.status.take()).ok_or_else(no_status)?;
        return match (status.code, several) {
            (0, None) => {
                Err(Problem::call(CallError::Protocol, "upstream_grpc_empty").because("the status is OK, and there is no message"))
            }
            (0, Some(it)) => {
                messages.status = Some(status);
                Ok(stream(parts, messages, None, it, ask))
            }
            _ => Ok(failed(parts, &status, ask)),
        };
    };
    if let Some(it) = several {
        return Ok(stream(parts, messages, Some(first), it, ask));
    }
    let more = tokio::time::timeout_at(by.into(), messages.next()).await.map_err(late)??;
    let status = status.or_else(|| messages.status.take());
    match (more, status) {
        (Some(_), _) => Err(Problem::call(CallError::Protocol, "upstream_grpc_streams")
            .because("more than one message: ask with `accept: application/x-ndjson` or `text/event-stream`")),
        (None, None) => Err(no_status()),
        (None, Some(status)) if status.code != 0 => Ok(failed(parts, &status, ask)),
        (None, Some(_)) => {
            let (body, media) =
                ask.method.decode(first).map_err(|why| Problem::call(CallError::Protocol, "upstream_grpc_message").because(why))?;
            parts.headers.insert(header::CONTENT_TYPE, media.unwrap_or(HeaderValue::from_static("application/json")));
            Ok(Response::from_parts(parts, Body::Full(body)))
        }
    }
}

fn failed(mut parts: http::response::Parts, status: &Status, ask: &Ask) -> Response<Body> {
    parts.status = status.http();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.insert(STATUS, status.code.into());
    Response::from_parts(parts, Body::Full(status.json(ask.method.pool()).into()))
}

fn stream(mut parts: http::response::Parts, messages: Messages, first: Option<Bytes>, several: Several, ask: &Ask) -> Response<Body> {
    let media = match several {
        Several::Lines => "application/x-ndjson",
        Several::Events => "text/event-stream",
    };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let body = Body::stream(Written::new(messages, first, several, ask.method.clone()));
    Response::from_parts(parts, body)
}
