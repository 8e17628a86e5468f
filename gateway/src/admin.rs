//! The admin listener and the status listener: whether the gateway lives, whether it is ready, and its figures. and the definitions.
pub mod editor;
pub mod openapi;
pub mod pace;
mod plan;
mod upstreams;

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use arc_swap::ArcSwapOption;
use contract::{Body, Problem};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde_json::json;

use self::{editor::Editor, openapi::Publisher, pace::Pace};
use crate::{
    compile::Snapshot,
    http1::{Handler, Incoming, Sent},
    reload::Status,
    render,
    settings::secret::Hidden,
    telemetry::metrics::{GatewayMetrics, exposition::Format},
};

/// What these listeners know of the gateway.
pub struct Office {
    pub metrics: Arc<GatewayMetrics>,
    pub status: Arc<Mutex<Status>>,
    pub draining: AtomicBool,
    /// Any of these opens the admin listener; the second says whether it may change something.
    pub tokens: Vec<(Hidden, bool)>,
    pub node: Box<str>,
    pub version: &'static str,
    /// The OpenAPI document of what is served; none where nothing is.
    pub openapi: Option<Publisher>,
    /// What is served.
    pub current: Arc<ArcSwapOption<Snapshot>>,
    /// None where there are no definitions to change.
    pub editor: Option<Arc<Editor>>,
    /// How often a token may be wrong, and something be changed.
    pub pace: Pace,
}

/// Which of the two listeners a connection came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Admin,
    /// `/live`, `/ready` and `/metrics` alone, without a token.
    Status,
}

/// Who asks.
struct Caller {
    /// Which of the tokens was given.
    who: Option<usize>,
    may_write: bool,
}

/// The largest body that is read: a bundle of definitions may be as large as their largest file.
pub const LARGEST_BODY: usize = schemas::MAX_FILE;

/// Answers one connection.
pub struct Clerk {
    pub office: Arc<Office>,
    pub door: Door,
    pub peer: SocketAddr,
}

impl Office {
    /// Whether traffic should come here.
    pub fn is_ready(&self) -> bool {
        !self.draining.load(Relaxed) && self.status.lock().unwrap_or_else(PoisonError::into_inner).how.is_some()
    }
}

impl Clerk {
    fn answer(&self, head: &Parts) -> Response<Body> {
        if let Err(refusal) = self.guard(head) {
            return *refusal;
        }
        let path = head.uri.path();
        if head.method != Method::GET && head.method != Method::HEAD {
            let mut it = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n");
            it.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return it;
        }
        match path {
            "/live" => text(StatusCode::OK, "live\n"),
            "/ready" => {
                self.ready(head.uri.query().is_some_and(|it| it.split('&').any(|it| it == "verbose" || it.starts_with("verbose="))))
            }
            "/metrics" => {
                let format = Format::of_accept(head.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()));
                let mut it = Response::new(Body::from(self.office.metrics.text(format)));
                it.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
                it
            }
            "/upstreams" if self.door == Door::Admin => match self.office.current.load_full() {
                Some(it) => {
                    let mut it = Response::new(Body::from(upstreams::report(&it)));
                    it.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
                    it
                }
                None => text(StatusCode::NOT_FOUND, "nothing is served yet\n"),
            },
            "/openapi.json" | "/openapi.yaml" if self.door == Door::Admin => self.openapi(path.ends_with("yaml"), head.uri.query()),
            _ if self.door == Door::Status => text(StatusCode::NOT_FOUND, "there is /live, /ready, /ready?verbose and /metrics\n"),
            _ => text(
                StatusCode::NOT_FOUND,
                "there is /live, /ready, /ready?verbose, /metrics, /openapi.json, /openapi.yaml, /upstreams, /definitions, /validate, /diff, /apply, /history, /rollback/STATE and /plugins\n",
            ),
        }
    }

    fn openapi(&self, yaml: bool, query: Option<&str>) -> Response<Body> {
        let Some(publisher) = &self.office.openapi else { return text(StatusCode::NOT_FOUND, "nothing is served yet\n") };
        match publisher.text(query.unwrap_or(""), yaml) {
            Ok(document) => {
                let mut it = Response::new(Body::from(document));
                let kind = if yaml { "application/yaml" } else { "application/json; charset=utf-8" };
                it.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
                it
            }
            Err(why) => text(StatusCode::BAD_REQUEST, why),
        }
    }

    /// Without a token, only this machine may ask, and no page of a browser on it (DNS rebinding, cross-site requests).
    fn guard(&self, head: &Parts) -> Result<Caller, Box<Response<Body>>> {
        if self.door == Door::Status {
            return Ok(Caller { who: None, may_write: false });
        }
        let probe = matches!(head.uri.path(), "/live" | "/ready") && head.uri.query().is_none();
        if !self.office.tokens.is_empty() {
            let (address, now) = (self.peer.ip().to_canonical(), Instant::now());
            let may_try = self.office.pace.may_try(address, now);
            let given = bearer(&head.headers).filter(|_| may_try);
            // Every token is compared, so that time tells nothing.
            let good = self.office.tokens.iter().enumerate().fold(None, |found, (at, (token, may_write))| {
                let same = given.is_some_and(|given| token.is(given));
                if same { Some(Caller { who: Some(at), may_write: *may_write }) } else { found }
            });
            return match good {
                Some(it) => Ok(it),
                None if probe => Ok(Caller { who: None, may_write: false }),
                None if !may_try => {
                    let mut it = text(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens came from your address\n");
                    it.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                    Err(Box::new(it))
                }
                None => {
                    if given.is_some() {
                        self.office.pace.was_wrong(address, now);
                    }
                    let mut it = text(StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer …\n");
                    it.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                    Err(Box::new(it))
                }
            };
        }
        let host = head.uri.authority().map(|it| it.as_str()).or_else(|| head.headers.get(header::HOST)?.to_str().ok()).unwrap_or("");
        let foreign = head.headers.contains_key(header::ORIGIN)
            || head.headers.get("sec-fetch-site").is_some_and(|it| !matches!(it.as_bytes(), b"same-origin" | b"none"));
        match is_this_machine(host) && !foreign {
            true => Ok(Caller { who: None, may_write: false }),
            false => Err(Box::new(text(
                StatusCode::FORBIDDEN,
                "without admin tokens, only this machine is answered: ask for localhost, from no web page\n",
            ))),
        }
    }

    /// The definitions; `None` where something else is asked for.
    async fn definitions(&self, incoming: &mut Incoming) -> Option<Response<Body>> {
        let path = incoming.head.uri.path().to_owned();
        let editor = self.office.editor.as_ref().filter(|_| self.door == Door::Admin && editor::is_for(&path))?.clone();
        let caller = match self.guard(&incoming.head) {
            Ok(it) => it,
            Err(refusal) => return Some(*refusal),
        };
        let method = incoming.head.method.clone();
        if editor::is_write(&method, &path) {
            if !caller.may_write {
                let why = match caller.who {
                    Some(_) => "this token only reads: one with `role: write` is needed\n",
                    None => "without admin tokens nothing is changed here: name one under `admin.tokens` of the settings\n",
                };
                return Some(text(StatusCode::FORBIDDEN, why));
            }
            if !self.office.pace.write(Instant::now()) {
                let mut it = text(StatusCode::TOO_MANY_REQUESTS, "too many changes at once; POST /apply takes many definitions\n");
                it.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                return Some(it);
            }
        }
        let body = match incoming.body.bytes(LARGEST_BODY).await {
            Ok(it) => it.clone(),
            Err(_) => return Some(text(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 16 MiB, or ended too early\n")),
        };
        let request = editor::Request {
            method,
            path,
            query: editor::Query::of(incoming.head.uri.query().unwrap_or("")),
            headers: std::mem::take(&mut incoming.head.headers),
            body,
            who: caller.who.map_or_else(|| "nobody".to_owned(), |at| format!("admin token {}", at + 1)),
            may_write: caller.may_write,
        };
        // Compiling takes a while, and probes are answered on this thread too.
        let background = editor.shop.background.clone();
        let work = move || editor.answer(&request);
        let answer = match background {
            Some(it) => it.spawn_blocking(work).await,
            None => tokio::task::spawn_blocking(work).await,
        };
        Some(answer.map_or_else(
            |_| text(StatusCode::INTERNAL_SERVER_ERROR, "this failed within the gateway; its log says more\n"),
            |it| it.map(Body::from),
        ))
    }

    fn ready(&self, verbose: bool) -> Response<Body> {
        let ready = self.office.is_ready();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        if !verbose {
            return text(status, if ready { "ready\n" } else { "not ready\n" });
        }
        let it = self.office.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let faults: Vec<_> = it
            .faults
            .iter()
            .take(1000)
            .map(|it| json!({"file": &*it.file, "line": it.line, "column": it.column, "code": it.code, "severity": it.severity.name(), "message": it.message, "help": it.help}))
            .collect();
        let documents: Vec<_> =
            it.documents.iter().map(|(kind, state, count)| json!({"kind": kind, "state": state, "count": count})).collect();
        let body = json!({
            "ready": ready,
            "draining": self.office.draining.load(Relaxed),
            "node": &*self.office.node,
            "version": self.office.version,
            "revision": &*it.revision,
            "reload": it.how,
            "reload_ms": it.took.as_millis() as u64,
            "reloaded_at": it.at.map(crate::telemetry::text::time),
            "held_back": it.held_back.iter().take(1000).map(|(id, state)| json!({"kind": id.kind.name(), "name": id.name, "version": id.version, "state": state})).collect::<Vec<_>>(),
            "definitions": documents,
            "faults": faults,
        });
        let mut answer = Response::new(Body::from(format!("{body:#}\n")));
        *answer.status_mut() = status;
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        answer
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// `localhost`, `127.0.0.1` or `[::1]`, with any port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost")
        || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn text(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut it = Response::new(text.into());
    *it.status_mut() = status;
    it.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    it.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    it
}

impl Handler for Clerk {
    type Note = ();

    async fn call(&self, mut incoming: Incoming, (): &mut ()) -> Response<Body> {
        match self.definitions(&mut incoming).await {
            Some(it) => it,
            None => self.answer(&incoming.head),
        }
    }

    fn refuse(&self, problem: Box<Problem>, (): &mut ()) -> Response<Body> {
        render::unread(&problem, &HeaderValue::from_static("-"))
    }

    fn finished(&self, (): (), _: Sent) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clerk(door: Door, tokens: &[&str]) -> Clerk {
        let status = Status { revision: "r1".into(), how: Some("ok"), ..Status::default() };
        let office = Office {
            metrics: Arc::new(GatewayMetrics::new(Default::default())),
            status: Arc::new(Mutex::new(status)),
            draining: AtomicBool::new(false),
            tokens: tokens.iter().map(|it| (Hidden::new(it.as_bytes()), false)).collect(),
            node: "n1".into(),
            version: "0",
            openapi: None,
            current: Arc::default(),
            editor: None,
            pace: Pace::default(),
        };
        Clerk { office: Arc::new(office), door, peer: ([127, 0, 0, 1], 1).into() }
    }
    fn ask(clerk: &Clerk, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut it = http::Request::builder().uri(path);
        for (name, value) in headers {
            it = it.header(*name, *value);
        }
        clerk.answer(&it.body(()).unwrap().into_parts().0).status().as_u16()
    }

    #[test]
    fn without_tokens_only_this_machine_is_answered() {
        let it = clerk(Door::Admin, &[]);
        for host in ["localhost", "localhost:9080", "127.0.0.1:9080", "[::1]", "[::1]:9080", "LOCALHOST"] {
            assert_eq!(ask(&it, "/metrics", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example.com", "localhost.evil.example.com", "10.0.0.1", "", "127.0.0.1.evil"] {
            assert_eq!(ask(&it, "/metrics", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(ask(&it, "/metrics", &[("host", "localhost"), ("origin", "http://localhost")]), 403);
        assert_eq!(ask(&it, "/metrics", &[("host", "localhost"), ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(ask(&it, "/metrics", &[("host", "localhost"), ("sec-fetch-site", "none")]), 200);
    }

    #[test]
    fn with_tokens_only_who_has_one_is_answered() {
        let it = clerk(Door::Admin, &["s3cret", "other"]);
        assert_eq!(ask(&it, "/metrics", &[("host", "anything"), ("authorization", "Bearer s3cret")]), 200);
        assert_eq!(ask(&it, "/metrics", &[("host", "anything"), ("authorization", "bearer other")]), 200);
        assert_eq!(ask(&it, "/metrics", &[("host", "localhost"), ("authorization", "Bearer s3cre")]), 401);
        assert_eq!(ask(&it, "/ready?verbose", &[("host", "localhost")]), 401);
        assert_eq!(ask(&it, "/live", &[("host", "localhost")]), 200, "probes have no token");
    }

    #[test]
    fn the_status_listener_asks_for_nothing() {
        let it = clerk(Door::Status, &["s3cret"]);
        for path in ["/live", "/ready", "/ready?verbose", "/metrics"] {
            assert_eq!(ask(&it, path, &[("host", "anything")]), 200, "{path}");
        }
        assert_eq!(ask(&it, "/", &[]), 404);
        it.office.draining.store(true, Relaxed);
        assert_eq!(ask(&it, "/ready", &[]), 503);
        assert_eq!(ask(&it, "/live", &[]), 200);
    }
}
