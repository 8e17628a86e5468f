//! A problem becomes an answer here, and nowhere else: DEFINITION §6, RFC 9457.
use bytes::Bytes;
use contract::{Body, Exchange, Kind, Problem, problem::Detail};
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// At most this many faults are told.
pub const MOST_FAULTS: usize = 100;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The answer to a request that did not end well.
pub fn problem(problem: &Problem, ex: &Exchange) -> Response<Body> {
    if is_grpc(&ex.head.headers) {
        return of_grpc(problem);
    }
    answer(problem, &ex.id, wants_problem_json(&ex.head.headers))
}

/// Whether a client speaks gRPC itself: it reads a status in headers, and no other.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|it| {
        let it = it.as_bytes();
        it.starts_with(b"application/grpc") && matches!(it.get(16), None | Some(b'+' | b';'))
    })
}

/// An answer of headers alone (gRPC over HTTP2, "Trailers-Only").
fn of_grpc(problem: &Problem) -> Response<Body> {
    const PLAIN: &AsciiSet = &CONTROLS.add(b'%');
    let mut response = Response::new(Body::Empty);
    let headers = response.headers_mut();
    headers.extend(problem.headers.clone());
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(HeaderName::from_static("grpc-status"), code(problem.kind).into());
    let message = utf8_percent_encode(&problem.message, PLAIN).to_string();
    if let Ok(it) = HeaderValue::from_str(&message) {
        headers.insert(HeaderName::from_static("grpc-message"), it);
    }
    response
}

/// What a problem is in gRPC's words (google/rpc/code.proto).
fn code(kind: Kind) -> u32 {
    match kind {
        Kind::Invalid | Kind::Unprocessable | Kind::UnsupportedMedia | Kind::UriTooLong | Kind::ExpectationFailed => 3,
        Kind::RequestTimeout | Kind::Timeout => 4,
        Kind::Forbidden => 7,
        Kind::TooMany | Kind::TooLarge | Kind::HeadersTooLarge => 8,
        Kind::Conflict => 10,
        Kind::NotFound | Kind::Gone | Kind::MethodNotAllowed | Kind::NotImplemented | Kind::VersionNotSupported => 12,
        Kind::Internal => 13,
        Kind::Upstream | Kind::Unavailable => 14,
        Kind::Unauthenticated => 16,
    }
}

/// The answer to a request that could not even be read.
pub fn unread(problem: &Problem, id: &HeaderValue) -> Response<Body> {
    answer(problem, id, false)
}

fn answer(problem: &Problem, id: &HeaderValue, rfc9457: bool) -> Response<Body> {
    let (text, media) = match rfc9457 {
        true => (rfc9457_body(problem, id), "application/problem+json"),
        false => (own_body(problem, id), "application/json; charset=utf-8"),
    };
    let mut response = Response::new(Body::Full(Bytes::from(text)));
    *response.status_mut() = problem.status();
    let headers = response.headers_mut();
    headers.extend(problem.headers.clone());
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    if let Some(wait) = problem.retry_after {
        // Whole seconds, never 0: a client that comes back at once comes back too early.
        let seconds = (wait.as_millis().div_ceil(1000) as u64).max(1);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    } else if problem.status() == http::StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Whether the client prefers RFC 9457: it names the type, and does not refuse it.
fn wants_problem_json(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(',')).any(|it| {
        let mut parts = it.split(';').map(str::trim);
        let named = parts.next().is_some_and(|it| it.eq_ignore_ascii_case("application/problem+json"));
        named && !parts.any(|it| it.strip_prefix("q=").or(it.strip_prefix("Q=")).and_then(|it| it.parse::<f32>().ok()) == Some(0.0))
    })
}

fn own_body(problem: &Problem, id: &HeaderValue) -> Vec<u8> {
    let mut body = serde_json::Map::new();
    body.insert("code".into(), problem.status().as_u16().into());
    body.insert("message".into(), problem.message.as_ref().into());
    if !problem.details.is_empty() {
        body.insert("details".into(), by_keyword(&problem.details).into());
    }
    body.insert("request_id".into(), text(id).into());
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Faults by the place of the failing keyword; several at one keyword are joined, each with its instance's pointer.
fn by_keyword(details: &[Detail]) -> serde_json::Map<String, serde_json::Value> {
    let mut places: Vec<(&str, Vec<&Detail>)> = Vec::new();
    for it in details.iter().take(MOST_FAULTS) {
        match places.iter_mut().find(|(place, _)| *place == it.schema) {
            Some((_, list)) => list.push(it),
            None => places.push((&it.schema, vec![it])),
        }
    }
    let told = |list: &[&Detail]| match list {
        [one] => one.message.clone(),
        many => many.iter().map(|it| format!("{}: {}", it.pointer, it.message)).collect::<Vec<_>>().join("; "),
    };
    places.iter().map(|(place, list)| (place.to_string(), told(list).into())).collect()
}

fn rfc9457_body(problem: &Problem, id: &HeaderValue) -> Vec<u8> {
    let status = problem.status();
    let mut body = serde_json::Map::new();
    body.insert("type".into(), "about:blank".into());
    body.insert("title".into(), status.canonical_reason().unwrap_or("Error").into());
    body.insert("status".into(), status.as_u16().into());
    body.insert("detail".into(), problem.message.as_ref().into());
    if !problem.details.is_empty() {
        let error = |it: &Detail| serde_json::json!({"in": it.place, "pointer": it.pointer, "schema": it.schema, "detail": it.message});
        body.insert("errors".into(), problem.details.iter().take(MOST_FAULTS).map(error).collect());
    }
    body.insert("request_id".into(), text(id).into());
    serde_json::to_vec(&body).unwrap_or_default()
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use contract::{Kind, testkit::exchange};

    use super::*;

    fn check(problem: Box<Problem>, accept: Option<&'static str>, status: u16, expect: &str) -> Response<Body> {
        let mut request = http::Request::new(Body::Empty);
        if let Some(it) = accept {
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(it));
        }
        let mut response = super::problem(&problem, &exchange(request));
        let Body::Full(body) = response.body_mut().take() else { panic!("an answer of ours is whole") };
        assert_eq!((response.status().as_u16(), std::str::from_utf8(&body).unwrap()), (status, expect));
        response
    }
    fn detail(place: &'static str, schema: &str, pointer: &str, message: &str) -> Detail {
        Detail { place, schema: schema.into(), pointer: pointer.into(), message: message.into() }
    }

    #[test]
    fn a_problem_is_told_in_the_house_form() {
        let it = check(
            Problem::new(Kind::NotFound, "no such API"),
            None,
            404,
            r#"{"code":404,"message":"no such API","request_id":"test-request"}"#,
        );
        assert_eq!(it.headers()[header::CONTENT_TYPE], "application/json; charset=utf-8");
    }

    #[test]
    fn faults_of_one_keyword_share_its_key() {
        let mut it = Problem::new(Kind::Invalid, "validation failed: must be >= 1");
        it.details = vec![
            detail("query", "/params/page/minimum", "page", "must be >= 1 but found 0"),
            detail("query", "/params/ids/items/type", "/ids/0", "want integer"),
            detail("query", "/params/ids/items/type", "/ids/2", "want integer"),
        ];
        check(
            it,
            None,
            400,
            r#"{"code":400,"message":"validation failed: must be >= 1","details":{"/params/page/minimum":"must be >= 1 but found 0","/params/ids/items/type":"/ids/0: want integer; /ids/2: want integer"},"request_id":"test-request"}"#,
        );
    }

    #[test]
    fn a_client_that_asks_for_it_gets_rfc_9457() {
        let problem = || {
            let mut it = Problem::new(Kind::Invalid, "no");
            it.details = vec![detail("query", "/params/page/minimum", "page", "must be >= 1")];
            it
        };
        let expect = r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"no","errors":[{"in":"query","pointer":"page","schema":"/params/page/minimum","detail":"must be >= 1"}],"request_id":"test-request"}"#;
        check(problem(), Some("text/html, application/problem+json;q=0.5"), 400, expect);
        let own = r#"{"code":400,"message":"no","details":{"/params/page/minimum":"must be >= 1"},"request_id":"test-request"}"#;
        check(problem(), Some("application/problem+json;q=0, */*"), 400, own);
        check(problem(), Some("*/*"), 400, own);
    }

    #[test]
    fn who_is_told_to_come_back_is_told_when() {
        let mut it = Problem::new(Kind::TooMany, "slow down");
        it.retry_after = Some(std::time::Duration::from_millis(1200));
        assert_eq!(
            check(it, None, 429, r#"{"code":429,"message":"slow down","request_id":"test-request"}"#).headers()[header::RETRY_AFTER],
            "2"
        );
        assert!(
            check(Problem::new(Kind::Unavailable, "no"), None, 503, r#"{"code":503,"message":"no","request_id":"test-request"}"#)
                .headers()
                .contains_key(header::RETRY_AFTER)
        );
    }

    #[test]
    fn causes_stay_inside() {
        let it = Problem::new(Kind::Internal, "it broke").because("10.0.0.7:9001 refused");
        assert_eq!(it.explain(), "it broke: 10.0.0.7:9001 refused");
        check(it, None, 500, r#"{"code":500,"message":"it broke","request_id":"test-request"}"#);
    }
}
