//! An exchange, as expressions see it.
use std::borrow::Cow;

use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;

use crate::{
    Body, Exchange, Kind, Outcome, Problem,
    collector::Item,
    expression::{self, Root, Scope, Value},
    multipart,
};

/// The fields of a form, decoded, in the order of the body. Left in the notes by whoever read the body.
#[derive(Clone)]
pub struct Form(pub Vec<(String, String)>);

/// An exchange, and what came back where something has.
pub struct ExchangeScope<'a> {
    pub exchange: &'a Exchange,
    pub outcome: Option<&'a Outcome>,
}

impl Exchange {
    /// As expressions on the way in see it.
    pub fn scope(&self) -> ExchangeScope<'_> {
        ExchangeScope { exchange: self, outcome: None }
    }

    /// As expressions that run after the call see it.
    pub fn scope_after<'a>(&'a self, outcome: &'a Outcome) -> ExchangeScope<'a> {
        ExchangeScope { exchange: self, outcome: Some(outcome) }
    }

    /// Reads the body for expressions, up to the route's `max_size`: JSON by its media type, else a form, else nothing to see.
    ///
    /// A key that stands twice is a fault: the backend might read the other one.
    /// Errors: 413 over `max_size`, 400 for a body that is not what its media type says, or that has two.
    pub async fn open_body(&mut self) -> Result<(), Box<Problem>> {
        if self.head.headers.get_all(header::CONTENT_TYPE).iter().nth(1).is_some() {
            return Err(Problem::new(Kind::Invalid, "Content-Type is given more than once"));
        }
        let media = media_type(&self.head.headers);
        if is_json(&media) {
            let limit = self.route.body_limit;
            if matches!(self.body, Body::Empty) || self.body.bytes(limit).await.map_err(crate::BodyError::of_request)?.is_empty() {
                return Ok(());
            }
            return match self.body.json(limit, self.route.json_depth).await.map_err(crate::BodyError::of_request)? {
                Ok(it) if it.has_repeats() => {
                    Err(Problem::new(Kind::Invalid, "the body is not valid JSON: a key stands twice in one object"))
                }
                Ok(_) => Ok(()),
                Err(fault) => Err(Problem::new(Kind::Invalid, format!("the body is not valid JSON: {fault}"))),
            };
        }
        let boundary = multipart::boundary(&self.head.headers);
        if self.notes.get::<Form>().is_some() || (boundary.is_none() && media != "application/x-www-form-urlencoded") {
            self.read_body().await?;
            return Ok(());
        }
        let most = self.route.field_count;
        let bytes = self.read_body().await?.clone();
        let form = match boundary {
            Some(boundary) => Form::of_parts(&boundary.and_then(|it| multipart::parts(&bytes, &it, most)).map_err(not_a_form)?)?,
            None => Form::of_urlencoded(&bytes, most)?,
        };
        self.notes.put(form);
        Ok(())
    }
}

fn not_a_form(why: &'static str) -> Box<Problem> {
    Problem::new(Kind::Invalid, format!("the body is not a valid form: {why}"))
}

impl Form {
    /// Of `application/x-www-form-urlencoded`. Errors: 400 for more than `most` fields, or for one that is not UTF-8.
    pub fn of_urlencoded(bytes: &[u8], most: usize) -> Result<Self, Box<Problem>> {
        if memchr::memchr_iter(b'&', bytes).count() >= most {
            return Err(Problem::new(Kind::Invalid, format!("the form has more than the {most} fields allowed here")));
        }
        let one = |(name, value): (Octets<'_>, Octets<'_>)| Some((name.ok()?.into_owned(), value.ok()?.into_owned()));
        octet_pairs(bytes).map(one).collect::<Option<_>>().map(Self).ok_or_else(|| not_a_form("a field is not UTF-8"))
    }

    /// Of `multipart/form-data`; a file is known by its name alone. Errors: 400 for a field that is not UTF-8.
    pub fn of_parts(parts: &[multipart::Part<'_>]) -> Result<Self, Box<Problem>> {
        let one = |it: &multipart::Part<'_>| {
            let value = match &it.filename {
                Some(file) => file.clone(),
                None => std::str::from_utf8(it.content).ok()?.to_owned(),
            };
            Some((it.name.clone(), value))
        };
        parts.iter().map(one).collect::<Option<_>>().map(Self).ok_or_else(|| not_a_form("a field is not UTF-8"))
    }
}

/// Decoded text, or the octets of what is no UTF-8.
pub type Octets<'a> = Result<Cow<'a, str>, Cow<'a, [u8]>>;

/// The media type of a message, in lower case, without its parameters.
pub fn media_type(headers: &HeaderMap) -> String {
    let whole = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or("");
    whole.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// `application/json` and every `+json`.
pub fn is_json(media: &str) -> bool {
    media == "application/json" || media.ends_with("+json")
}

/// Names and values of a query or an urlencoded form, decoded as WHATWG does: `+` is a space.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    octet_pairs(text).map(|(name, value)| (lossy(name), lossy(value)))
}

/// The same, without loss.
pub fn octet_pairs(text: &[u8]) -> impl Iterator<Item = (Octets<'_>, Octets<'_>)> {
    text.split(|it| *it == b'&').filter(|it| !it.is_empty()).map(|it| {
        let at = it.iter().position(|it| *it == b'=').unwrap_or(it.len());
        (decoded(&it[..at]), decoded(it.get(at + 1..).unwrap_or_default()))
    })
}

fn lossy(octets: Octets<'_>) -> Cow<'_, str> {
    octets.unwrap_or_else(|it| Cow::Owned(String::from_utf8_lossy(&it).into_owned()))
}

fn octets(bytes: &[u8]) -> Octets<'_> {
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Cow::Borrowed(bytes))
}

fn decoded(text: &[u8]) -> Octets<'_> {
    if !text.iter().any(|it| matches!(it, b'%' | b'+')) {
        return octets(text);
    }
    let spaced: Vec<u8> = text.iter().map(|it| if *it == b'+' { b' ' } else { *it }).collect();
    let bytes: Vec<u8> = percent_encoding::percent_decode(&spaced).collect();
    String::from_utf8(bytes).map(Cow::Owned).map_err(|it| Cow::Owned(it.into_bytes()))
}

/// Names and values of the cookies, as they stand, without surrounding quotes.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    cookie_octets(headers).map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
}

fn cookie_octets(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    headers.get_all(header::COOKIE).iter().flat_map(|it| it.as_bytes().split(|it| *it == b';')).filter_map(|it| {
        let it = it.trim_ascii();
        let at = it.iter().position(|it| *it == b'=')?;
        let value = it[at + 1..].trim_ascii();
        let value = value.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(value);
        Some((it[..at].trim_ascii(), value))
    })
}

fn last<'a>(mut all: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>, name: &str) -> Value<'a> {
    let mut found = None;
    for (key, value) in all.by_ref() {
        if key == name {
            found = Some(value);
        }
    }
    found.map_or(Value::Null, Value::Str)
}

/// A map of the last value of each name.
fn map<'a>(all: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>) -> Value<'a> {
    let mut entries: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
    for (key, value) in all {
        match entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, it)) => *it = Value::Str(value),
            None => entries.push((key, Value::Str(value))),
        }
    }
    Value::map(entries)
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Value<'a> {
    headers.get_all(name).iter().next_back().map_or(Value::Null, |it| Value::Str(String::from_utf8_lossy(it.as_bytes())))
}

fn all_headers(headers: &HeaderMap) -> Value<'_> {
    map(headers.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), String::from_utf8_lossy(value.as_bytes()))))
}

impl ExchangeScope<'_> {
    fn response(&self) -> Option<&http::Response<Body>> {
        self.outcome.and_then(|it| it.as_ref().ok())
    }
}

impl Scope for ExchangeScope<'_> {
    fn root(&self, root: Root) -> Value<'_> {
        let ex = self.exchange;
        let fields = |names: &[&'static str]| Value::map(names.iter().map(|it| (*it, self.field(root, it))));
        match root {
            Root::Request => fields(&["id", "method", "path", "host", "scheme", "client_ip"]),
            Root::Path => Value::map(ex.route.captures.iter().map(|it| (it.as_ref(), ex.capture(it).into()))),
            Root::Query => map(pairs(ex.query().unwrap_or("").as_bytes())),
            Root::Headers => all_headers(&ex.head.headers),
            Root::Cookies => map(cookies(&ex.head.headers)),
            Root::Params => Value::map(ex.route.params.iter().zip(&ex.params).map(|(name, it)| (name.as_ref(), it.view()))),
            Root::Body => match (&ex.body, ex.notes.get::<Form>(), ex.notes.get::<crate::json::JsonView>()) {
                (Body::Json(it), ..) => it.into(),
                (_, Some(form), _) => map(form.0.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), Cow::Borrowed(value.as_str())))),
                // The body has been handed on; a view of it stayed here.
                (_, _, Some(kept)) => kept.into(),
                _ => Value::Null,
            },
            Root::Auth => ex.caller.as_ref().map_or(Value::Null, |it| it.auth.view()),
            Root::App => ex.caller.as_ref().map_or(Value::Null, |it| it.app.view()),
            Root::Plan => ex.caller.as_ref().map_or(Value::Null, |it| it.plan.view()),
            Root::Vars => Value::map(ex.vars.iter().map(|(name, it)| (name.as_ref(), it.view()))),
            Root::Node => fields(&["id", "zone"]),
            Root::Response => match self.response() {
                Some(_) => fields(&["status", "headers", "body"]),
                None => Value::Null,
            },
            Root::ResponseHeaders => self.response().map_or(Value::Null, |it| all_headers(it.headers())),
            Root::ResponseBody => self.response().and_then(|it| it.body().as_json()).map_or(Value::Null, Into::into),
            Root::Error => match self.outcome {
                Some(Err(it)) => it.call.map(|it| it.word()).into(),
                _ => Value::Null,
            },
            Root::Task(it) => ex.task(it).and_then(|it| it.value.as_ref()).map_or(Value::Null, Into::into),
            Root::TaskCall(it) if ex.task(it).is_some() => fields(&["status", "headers"]),
            Root::TaskCall(_) => Value::Null,
            Root::TaskHeaders(it) => ex.task(it).map_or(Value::Null, |it| all_headers(&it.headers)),
            Root::Item => ex.notes.get::<Item>().map_or(Value::Null, |it| it.0.clone()),
        }
    }

    fn field(&self, root: Root, name: &str) -> Value<'_> {
        let ex = self.exchange;
        match root {
            Root::Request => match name {
                "id" => ex.id.to_str().ok().into(),
                "method" => ex.head.method.as_str().into(),
                "path" => ex.path().into(),
                "host" => ex.host().into(),
                "scheme" => ex.peer.scheme.as_str().into(),
                "client_ip" => ex.peer.client_ip.to_string().into(),
                _ => Value::Null,
            },
            Root::Path => ex.capture(name).into(),
            Root::Query => last(pairs(ex.query().unwrap_or("").as_bytes()), name),
            Root::Headers => header(&ex.head.headers, name),
            Root::Cookies => last(cookies(&ex.head.headers), name),
            Root::Params => ex.param(name).map_or(Value::Null, crate::Value::view),
            Root::Vars => ex.var(name).map_or(Value::Null, crate::Value::view),
            Root::Node => match name {
                "id" => ex.route.node.id.as_ref().into(),
                "zone" => ex.route.node.zone.as_ref().into(),
                _ => Value::Null,
            },
            Root::Response => match (name, self.response()) {
                ("status", Some(it)) => i64::from(it.status().as_u16()).into(),
                ("headers", Some(_)) => self.root(Root::ResponseHeaders),
                ("body", Some(_)) => self.root(Root::ResponseBody),
                _ => Value::Null,
            },
            Root::ResponseHeaders => self.response().map_or(Value::Null, |it| header(it.headers(), name)),
            Root::TaskCall(it) => match name {
                "status" => ex.task(it).and_then(|it| it.status).map(|it| i64::from(it.as_u16())).into(),
                "headers" => self.root(Root::TaskHeaders(it)),
                _ => Value::Null,
            },
            Root::TaskHeaders(it) => ex.task(it).map_or(Value::Null, |it| header(&it.headers, name)),
            _ => self.root(root).get(name),
        }
    }

    fn octets(&self, root: Root, name: &str) -> Option<Cow<'_, [u8]>> {
        let line = |headers: &'_ HeaderMap| headers.get_all(name).iter().next_back().map(|it| it.as_bytes().to_vec());
        let found: Vec<u8> = match root {
            Root::Query => {
                let mut last = None;
                for (key, value) in octet_pairs(self.exchange.query().unwrap_or("").as_bytes()) {
                    if lossy(key) == name {
                        last = Some(value);
                    }
                }
                return last.and_then(Result::err);
            }
            Root::Headers => line(&self.exchange.head.headers)?,
            Root::ResponseHeaders => line(self.response()?.headers())?,
            Root::Cookies => cookie_octets(&self.exchange.head.headers).filter(|(key, _)| *key == name.as_bytes()).last()?.1.to_vec(),
            _ => return None,
        };
        std::str::from_utf8(&found).is_err().then_some(Cow::Owned(found))
    }

    fn is_lossy(&self, root: Root) -> bool {
        let lines = |headers: &HeaderMap| headers.values().any(|it| std::str::from_utf8(it.as_bytes()).is_err());
        match root {
            Root::Query => octet_pairs(self.exchange.query().unwrap_or("").as_bytes()).any(|(name, value)| name.is_err() || value.is_err()),
            Root::Headers | Root::Cookies => lines(&self.exchange.head.headers),
            Root::ResponseHeaders => self.response().is_some_and(|it| lines(it.headers())),
            Root::Body => match self.root(Root::Body) {
                Value::Json(json) => expression::lone_surrogate(json.as_ref().raw()),
                _ => false,
            },
            _ => false,
        }
    }

    fn secret(&self, name: &str) -> Value<'_> {
        self.exchange.route.secrets.0.iter().find(|(known, _)| **known == *name).map(|(_, it)| it.as_ref()).into()
    }
}

/// A captured piece of a path, decoded; what is not UTF-8 becomes U+FFFD.
pub fn decoded_segment(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}
