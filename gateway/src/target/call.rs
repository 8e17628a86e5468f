//! One call of a backend: what it gets of the request, and for how long.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use contract::{
    Body, Exchange, Outcome, Problem,
    expression::{RenderError, Scope, Template},
    scope::pairs,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::{
    grpc::{self, Shape},
    respond::{Content, failed},
};
use crate::{
    pipeline::given::Given,
    proxy::{
        message::{Request, Spoken, Time},
        trpc::method as trpc,
    },
    upstream::{Host, Upstream, retry::Rules},
};

/// RFC 3986's unreserved characters stand as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One call, as a definition says it.
pub struct Call {
    pub upstream: Arc<Upstream>,
    /// As received, when left out.
    pub method: Option<Method>,
    /// The path of an upstream that was given as a URL; without a slash at its end.
    pub prefix: Box<str>,
    /// As received, when left out.
    pub path: Option<Template>,
    pub host: Host,
    /// The whole call; `None` is the settings' own limit, which streams are free of.
    pub timeout: Option<Duration>,
    /// Protocols that a client may change to, in lower case.
    pub upgrades: Box<[Box<str>]>,
    pub send: Option<Box<Send>>,
    /// What its end means, and when it is made again.
    pub rules: Rules,
    pub protocol: Protocol,
}

/// What a call speaks. A closed set.
pub enum Protocol {
    /// HTTP, in the version that the upstream says.
    Http,
    /// HTTP/2 whatever the upstream says: gRPC that passes through.
    Http2,
    /// JSON to the client, gRPC to the backend.
    Grpc(Box<Shape>),
    /// JSON to the client, tRPC to the backend; declared parameters of path, query and form are fields of the message.
    Trpc(Arc<trpc::Method>, Box<[Box<str>]>),
}

/// What of the request is changed on its way.
#[derive(Default)]
pub struct Send {
    pub query: Named,
    pub headers: Box<[(HeaderName, Source)]>,
    pub cookies: Named,
    pub form: Option<Named>,
    pub body: Option<Content>,
    pub keeps: Keeps,
}

/// What goes on of the request that nothing names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeps {
    pub headers: Headers,
    pub query: bool,
    pub body: bool,
}

/// Which headers go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    All,
    /// What a call cannot do without.
    Needed,
    /// All of which the gateway can read the answer: it asks for no part, no coding, and sets no condition.
    Readable,
    /// What tells whose call it is, and in which language.
    Traced,
}

impl Default for Keeps {
    fn default() -> Self {
        Self::ALL
    }
}

impl Keeps {
    pub const ALL: Self = Self { headers: Headers::All, query: true, body: true };
    /// `only`.
    pub const NEEDED: Self = Self { headers: Headers::Needed, query: false, body: false };
}

/// Values by name, in the order of the definition.
pub type Named = Box<[(Box<str>, Source)]>;

/// One value: a template, or a list of them, each of which repeats the name.
pub struct Source(pub Box<[Template]>);

/// Headers that are sent even with `only`; `Host` and framing are the connection's.
const NEEDED: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "x-request-id",
    "traceparent",
    "tracestate",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
];

/// What a task sends of the client's headers.
const TRACED: &[&str] = &["accept-language", "x-request-id", "traceparent", "tracestate"];

/// An answer to these cannot be read as the value of a task.
const UNREADABLE: &[&str] =
    &["accept-encoding", "range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "expect"];

impl Headers {
    /// Whether a header of the client goes on, with its body or without.
    fn keeps(self, name: &HeaderName, body: bool) -> bool {
        let of_body = || name.as_str().starts_with("content-");
        match self {
            Self::All => true,
            Self::Needed => NEEDED.contains(&name.as_str()),
            Self::Readable => !UNREADABLE.contains(&name.as_str()) && (body || !of_body()),
            Self::Traced => {
                TRACED.contains(&name.as_str()) || (body && (*name == header::CONTENT_TYPE || *name == header::CONTENT_ENCODING))
            }
        }
    }
}

impl Call {
    pub async fn run(&self, ex: &mut Exchange) -> Outcome {
        let mut request = self.request(ex)?;
        if let Some(it) = ex.notes.get::<Given>() {
            return it.answer();
        }
        let mut deadline = match self.timeout {
            Some(it) => ex.deadline.min(Instant::now() + it),
            None => ex.deadline,
        };
        if let Protocol::Http2 = self.protocol {
            deadline = grpc::hurry(ex, &mut request, deadline);
        }
        // Without a limit of the author's own, a body may take as long as it moves.
        let time = Time { head: deadline, body: self.timeout.map(|_| deadline) };
        self.upstream.call(ex, request, &self.host, time, &self.rules).await
    }

    fn request(&self, ex: &mut Exchange) -> Result<Request, Box<Problem>> {
        let method = self.method.clone().unwrap_or_else(|| ex.head.method.clone());
        let host = host(ex);
        let (headers, content) = match &self.send {
            None => (None, None),
            Some(it) => it.apply(ex).map(|(headers, content)| (Some(headers), content))?,
        };
        if let Protocol::Grpc(it) = &self.protocol {
            let keeps = self.send.as_ref().is_none_or(|it| it.keeps.body);
            let content = content.or_else(|| (!keeps).then(|| Body::Full(Bytes::from_static(b"{}"))));
            let (ask, message) = it.call(ex, content)?;
            let target = ask.method.path.as_bytes().to_vec();
            let spoken = Some(Spoken::Grpc(Box::new(ask)));
            return Ok(Request { method: Method::POST, target, host, headers, body: Body::Full(message), upgrade: None, spoken });
        }
        if let Protocol::Trpc(it, fields) = &self.protocol {
            let message = match content {
                Some(Body::Full(json)) => json,
                Some(Body::Json(json)) => json.to_bytes(),
                _ if self.send.as_ref().is_some_and(|it| !it.keeps.body) => Bytes::from_static(b"{}"),
                _ => grpc::gather(ex, fields)?.into(),
            };
            let spoken = Some(Spoken::Trpc(it.clone()));
            return Ok(Request {
                method: Method::POST,
                target: Vec::new(),
                host,
                headers,
                body: Body::Full(message),
                upgrade: None,
                spoken,
            });
        }
        // Made before the body goes: an expression of the path may look into it.
        let target = self.target(ex)?;
        let body = match content {
            Some(it) => it,
            None if self.send.as_ref().is_some_and(|it| !it.keeps.body) => Body::Empty,
            None => hand_on(ex),
        };
        let upgrade = ex.upgrade.take_if(|it| self.allows(&it.protocol));
        let spoken = matches!(self.protocol, Protocol::Http2).then_some(Spoken::Http2);
        Ok(Request { method, target, host, headers, body, upgrade, spoken })
    }

    fn allows(&self, protocol: &HeaderValue) -> bool {
        let Ok(text) = protocol.to_str() else { return false };
        text.split(',').map(str::trim).all(|it| {
            let name = it.split('/').next().unwrap_or(it);
            !name.eq_ignore_ascii_case("h2c")
                && (name.eq_ignore_ascii_case("websocket") || self.upgrades.iter().any(|known| known.eq_ignore_ascii_case(name)))
        })
    }

    /// Path and query. Of what no rule names, every byte stays.
    fn target(&self, ex: &Exchange) -> Result<Vec<u8>, Box<Problem>> {
        let received = ex.head.uri.path_and_query().map_or(0, |it| it.as_str().len());
        let mut target = Vec::with_capacity(self.prefix.len() + received + 16);
        target.extend_from_slice(self.prefix.as_bytes());
        match &self.path {
            None => target.extend_from_slice(ex.path().as_bytes()),
            Some(it) => drop(it.render_into(&ex.scope(), &mut target).map_err(|it| failed(it, "http.path"))?),
        }
        let keeps = self.send.as_ref().is_none_or(|it| it.keeps.query);
        let named = self.send.as_ref().map_or(&[][..], |it| &it.query);
        if named.is_empty() && (!keeps || ex.query().is_none()) {
            return Ok(target);
        }
        let mut empty = !target.contains(&b'?');
        let mut add = |target: &mut Vec<u8>| {
            target.push(if empty { b'?' } else { b'&' });
            empty = false;
        };
        if let (Some(query), true) = (ex.query(), keeps) {
            if named.is_empty() {
                add(&mut target);
                target.extend_from_slice(query.as_bytes());
            } else {
                let pieces = query.split('&').filter(|piece| !replaced(piece.as_bytes(), named));
                for piece in pieces {
                    add(&mut target);
                    target.extend_from_slice(piece.as_bytes());
                }
            }
        }
        for (name, source) in named {
            source.each(&ex.scope(), "send.query", |value| {
                add(&mut target);
                target.extend(percent_encode(name.as_bytes(), ENCODED).flat_map(str::bytes));
                target.push(b'=');
                target.extend_from_slice(value);
            })?;
        }
        Ok(target)
    }
}

/// What [`Exchange::host`] tells, as a header's value; copied only where it stands in no header.
fn host(ex: &Exchange) -> HeaderValue {
    let known = match (&ex.peer.forwarded_host, ex.head.uri.authority()) {
        (Some(it), _) => Some(it.clone()),
        (None, Some(it)) => HeaderValue::from_str(it.as_str()).ok(),
        (None, None) => ex.head.headers.get(header::HOST).cloned(),
    };
    known.unwrap_or(HeaderValue::from_static(""))
}

/// The body on its way to the backend. One that expressions have read stays visible to those on the way out.
fn hand_on(ex: &mut Exchange) -> Body {
    match &ex.body {
        Body::Json(it) => {
            let view = it.clone();
            ex.notes.put(view);
            Body::Full(match ex.body.take() {
                Body::Json(it) => it.to_bytes(),
                _ => Default::default(),
            })
        }
        _ => ex.body.take(),
    }
}

/// Whether a piece of a query is one that the definition sends in its own way.
fn replaced(piece: &[u8], named: &[(Box<str>, Source)]) -> bool {
    let is = |name: &str| named.iter().any(|(own, source)| source.stands_for(own, name));
    // Some backends part a query at semicolons too.
    let identity = || named.iter().any(|(_, it)| it.is_identity()) && piece.contains(&b';');
    pairs(piece).any(|(name, _)| is(&name)) || (identity() && piece.split(|it| *it == b';').flat_map(pairs).any(|(name, _)| is(&name)))
}

impl Source {
    /// Whether it says who the caller is, which no client may say by itself.
    fn is_identity(&self) -> bool {
        self.0.iter().any(|it| it.reads().caller())
    }

    /// Whether a client's own value of the name `given` gives way to this one, which is sent as `own`.
    ///
    /// For an identity, so does every name that some backend takes for the same: other case, `_` for `-`, `name[]`.
    fn stands_for(&self, own: &str, given: &str) -> bool {
        if own == given {
            return true;
        }
        if !self.is_identity() {
            return false;
        }
        let plain = |it: u8| if matches!(it, b'-' | b'.' | b' ') { b'_' } else { it.to_ascii_lowercase() };
        let given = given.split('[').next().unwrap_or(given).trim().as_bytes();
        given.len() == own.len() && given.iter().zip(own.as_bytes()).all(|(a, b)| plain(*a) == plain(*b))
    }

    fn each(&self, scope: &dyn Scope, what: &'static str, mut each: impl FnMut(&[u8])) -> Result<(), Box<Problem>> {
        self.0.iter().try_for_each(|it| it.render_each(scope, &mut each)).map_err(|it| failed(it, what))
    }
}

impl Send {
    /// The headers, and the body where another one is to be sent.
    fn apply(&self, ex: &Exchange) -> Result<(HeaderMap, Option<Body>), Box<Problem>> {
        let scope = ex.scope();
        let mut headers = match self.keeps.headers {
            Headers::All => ex.head.headers.clone(),
            some => {
                let kept = ex.head.headers.iter().filter(|(name, _)| some.keeps(name, self.keeps.body));
                kept.map(|(name, value)| (name.clone(), value.clone())).collect()
            }
        };
        for (name, source) in &self.headers {
            let mut values = Vec::new();
            source.each(&scope, "send.headers", |it| values.push(HeaderValue::from_bytes(it)))?;
            // Only after it was made: an expression may read the client's own.
            Exchange::forget_header(&mut headers, name);
            for it in values {
                headers.append(name, it.map_err(|_| failed(RenderError::ControlInHeader, "send.headers"))?);
            }
        }
        if !self.cookies.is_empty() {
            self.apply_cookies(ex, &mut headers)?;
        }
        let content = match (&self.form, &self.body) {
            (Some(form), _) => {
                let mut text = Vec::new();
                for (name, source) in form {
                    source.each(&scope, "send.form", |value| {
                        if !text.is_empty() {
                            text.push(b'&');
                        }
                        text.extend(percent_encode(name.as_bytes(), ENCODED).flat_map(str::bytes));
                        text.push(b'=');
                        text.extend_from_slice(value);
                    })?;
                }
                Some((Body::Full(text.into()), HeaderValue::from_static("application/x-www-form-urlencoded")))
            }
            (None, Some(it)) => it.render(ex)?,
            (None, None) => None,
        };
        Ok((
            headers_for(headers, content.as_ref().map(|it| &it.1), self.headers.iter().any(|(name, _)| *name == header::CONTENT_TYPE)),
            content.map(|it| it.0),
        ))
    }

    fn apply_cookies(&self, ex: &Exchange, headers: &mut HeaderMap) -> Result<(), Box<Problem>> {
        let mut text = Vec::new();
        let mut add = |piece: &[u8], more: Option<&[u8]>| {
            if !text.is_empty() {
                text.extend_from_slice(b"; ");
            }
            text.extend_from_slice(piece);
            if let Some(it) = more {
                text.push(b'=');
                text.extend_from_slice(it);
            }
        };
        if matches!(self.keeps.headers, Headers::All | Headers::Readable) {
            for line in ex.head.headers.get_all(header::COOKIE) {
                for piece in line.as_bytes().split(|it| *it == b';').map(<[u8]>::trim_ascii).filter(|it| !it.is_empty()) {
                    let name = piece.split(|it| *it == b'=').next().unwrap_or(piece).trim_ascii();
                    let name = String::from_utf8_lossy(name);
                    if !self.cookies.iter().any(|(own, source)| source.stands_for(own, &name)) {
                        add(piece, None);
                    }
                }
            }
        }
        for (name, source) in &self.cookies {
            source.each(&ex.scope(), "send.cookies", |value| add(name.as_bytes(), Some(value)))?;
        }
        match text.is_empty() {
            true => drop(headers.remove(header::COOKIE)),
            false => drop(headers.insert(
                header::COOKIE,
                HeaderValue::from_maybe_shared(Bytes::from(text)).map_err(|_| failed(RenderError::ControlInHeader, "send.cookies"))?,
            )),
        }
        Ok(())
    }
}

/// A new body has its own media type, unless the author names one; what described the old body goes.
fn headers_for(mut headers: HeaderMap, media: Option<&HeaderValue>, named: bool) -> HeaderMap {
    if let Some(it) = media {
        for name in [header::CONTENT_ENCODING, header::EXPECT, header::CONTENT_LENGTH] {
            headers.remove(name);
        }
        if !named {
            headers.insert(header::CONTENT_TYPE, it.clone());
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use contract::expression::{Context, Names, Place};

    use super::*;

    fn source(text: &str) -> Source {
        let names = Names::new(Place::Proxy).authenticated(true);
        Source([Template::compile(text, &names, Context::Query).unwrap_or_else(|it| panic!("{it:?}"))].into())
    }

    #[test]
    fn no_spelling_of_an_identity_comes_from_the_client() {
        let named: Named = [("account-id".into(), source("${auth.subject}")), ("page".into(), source("1"))].into();
        for (piece, gives_way) in [
            ("account-id=x", true),
            ("Account_ID=x", true),
            ("ACCOUNT%2DID=x", true),
            ("account.id=x", true),
            ("account-id[]=x", true),
            ("account-id%5B0%5D=x", true),
            ("a=b;account_id=x", true),
            ("account-id", true),
            ("accountid=x", false),
            ("my-account-id=x", false),
            ("page=2", true),
            // No identity: only what has its very name.
            ("Page=2", false),
            ("page[]=2", false),
        ] {
            assert_eq!(replaced(piece.as_bytes(), &named), gives_way, "{piece}");
        }
        let plain: Named = [("page".into(), source("${query.p}"))].into();
        assert!(!replaced(b"a=b;page=x", &plain));
    }
}
