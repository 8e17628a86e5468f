//! The exchange as a script sees it: `req`, `res` and `ctx`, made once and lent an exchange for the time of one run.
use std::{cell::RefCell, rc::Rc, sync::Arc};

use bytes::Bytes;
use contract::{Body, Exchange, RouteInfo, expression::has_dot_segment, onion::Response, scope::pairs};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request::Parts, uri::PathAndQuery};
use mlua::{AnyUserData, Error, Lua, LuaString, MetaMethod, Result, Table, UserData, UserDataFields, UserDataMethods, Value};
use percent_encoding::percent_decode;

use crate::{budget::Gauge, json};

/// The largest answer that a script reads.
const MOST_ANSWER: usize = 1 << 20;

/// Headers that are the connection's own affair.
const FORBIDDEN: &[&str] =
    &["connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// What is lent for one run.
struct Lent {
    head: Parts,
    body: Body,
    response: Option<Response>,
    vars: Vec<(Box<str>, contract::Value)>,
    params: Vec<contract::Value>,
    captures: contract::exchange::Captures,
    route: Arc<RouteInfo>,
    id: HeaderValue,
    client_ip: std::net::IpAddr,
}

type Slot = Rc<RefCell<Option<Lent>>>;

/// The three objects of a hook, and where their exchange is.
pub(crate) struct Handles {
    slot: Slot,
    pub req: AnyUserData,
    pub res: AnyUserData,
    pub ctx: AnyUserData,
}

/// Gives everything back when the run is over, however it is over.
pub(crate) struct Lending<'a> {
    slot: Slot,
    ex: &'a mut Exchange,
    response: Option<&'a mut Response>,
}

impl Handles {
    pub fn new(lua: &Lua, gauge: &Rc<Gauge>) -> Result<Self> {
        let slot = Slot::default();
        let named = |place: Place| lua.create_userdata(Named { slot: slot.clone(), place, gauge: gauge.clone() });
        let req = lua.create_userdata(Req { slot: slot.clone(), gauge: gauge.clone() })?;
        let inside = lua.create_table()?;
        for (name, place) in [("headers", Place::Headers), ("query", Place::Query), ("cookies", Place::Cookies), ("params", Place::Params)]
        {
            inside.raw_set(name, named(place)?)?;
        }
        req.set_user_value(inside)?;
        let res = lua.create_userdata(Res { slot: slot.clone(), gauge: gauge.clone() })?;
        res.set_user_value(named(Place::Answer)?)?;
        let ctx = lua.create_userdata(Ctx { slot: slot.clone() })?;
        let respond = gauge.clone();
        let respond = lua.create_function(move |lua, (status, body, headers): (f64, Value, Option<Table>)| {
            answer(lua, &respond, status, &body, headers)
        })?;
        let inside = lua.create_table()?;
        inside.raw_set("vars", named(Place::Vars)?)?;
        inside.raw_set("respond", respond)?;
        ctx.set_user_value(inside)?;
        Ok(Self { slot, req, res, ctx })
    }

    pub fn lend<'a>(&self, ex: &'a mut Exchange, mut response: Option<&'a mut Response>) -> Lending<'a> {
        let empty = http::Request::new(()).into_parts().0;
        *self.slot.borrow_mut() = Some(Lent {
            head: std::mem::replace(&mut ex.head, empty),
            body: ex.body.take(),
            response: response.as_mut().map(|it| std::mem::replace(&mut **it, Response::new(Body::Empty))),
            vars: std::mem::take(&mut ex.vars),
            params: std::mem::take(&mut ex.params),
            captures: std::mem::take(&mut ex.captures),
            route: ex.route.clone(),
            id: ex.id.clone(),
            client_ip: ex.peer.client_ip,
        });
        Lending { slot: self.slot.clone(), ex, response }
    }
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        let Some(it) = self.slot.borrow_mut().take() else { return };
        self.ex.head = it.head;
        self.ex.body = it.body;
        self.ex.vars = it.vars;
        self.ex.params = it.params;
        self.ex.captures = it.captures;
        if let (Some(place), Some(it)) = (self.response.as_mut(), it.response) {
            **place = it;
        }
    }
}

/// A script that kept `req` for later finds nothing there, unless the same object serves again.
fn gone() -> Error {
    Error::runtime("the request is over: req, res and ctx may not be kept for later")
}

fn with<T>(slot: &Slot, work: impl FnOnce(&mut Lent) -> Result<T>) -> Result<T> {
    work(slot.borrow_mut().as_mut().ok_or_else(gone)?)
}

struct Req {
    slot: Slot,
    gauge: Rc<Gauge>,
}

struct Res {
    slot: Slot,
    gauge: Rc<Gauge>,
}

struct Ctx {
    slot: Slot,
}

/// What `ctx.respond` makes.
pub(crate) struct Answer(Option<Response>);

impl UserData for Answer {}

impl Answer {
    pub fn take(&mut self) -> Response {
        self.0.take().unwrap_or_else(|| Response::new(Body::Empty))
    }
}

impl UserData for Req {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("method", |lua, it| with(&it.slot, |it| lua.create_string(it.head.method.as_str())));
        fields.add_field_method_set("method", |_, it, to: LuaString| {
            let method = Method::from_bytes(&to.as_bytes()).ok().filter(|it| !matches!(*it, Method::CONNECT | Method::TRACE));
            let method = method.ok_or_else(|| Error::runtime("req.method: this is no method that can be sent"))?;
            with(&it.slot, |it| {
                it.head.method = method;
                Ok(())
            })
        });
        fields.add_field_method_get("path", |lua, it| with(&it.slot, |it| lua.create_string(it.head.uri.path())));
        fields.add_field_method_set("path", |_, it, to: LuaString| {
            let path = to.as_bytes();
            let good = path.first() == Some(&b'/') && path.iter().all(|it| (0x21..0x7f).contains(it) && !b"?#\\\"<>^`{|}".contains(it));
            if !good || path.starts_with(b"//") || has_dot_segment(&path) || path.len() > 8192 {
                return Err(Error::runtime("req.path: begins with one slash, is percent-encoded, and has no `.`, no `..` and no query"));
            }
            with(&it.slot, |it| {
                // They are places in the path that was.
                it.captures.clear();
                retarget(&mut it.head, Some(&path), None)
            })
        });
        fields.add_field_method_get("client_ip", |lua, it| with(&it.slot, |it| lua.create_string(it.client_ip.to_string())));
        for name in ["headers", "query", "cookies", "params"] {
            fields.add_field_function_get(name, move |_, it| it.user_value::<Table>()?.raw_get::<Value>(name));
        }
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("body", async |lua, it, ()| lua.create_string(whole(&it.slot, &it.gauge, false).await?));
        methods.add_async_method("json", async |lua, it, ()| {
            let depth = with(&it.slot, |it| Ok(it.route.json_depth))?;
            json::decode(&lua, whole(&it.slot, &it.gauge, false).await?, depth)
        });
        methods.add_method("set_body", |_, it, text: LuaString| {
            with(&it.slot, |it| {
                replace(&mut it.head.headers, None);
                it.body = Bytes::copy_from_slice(&text.as_bytes()).into();
                Ok(())
            })
        });
        methods.add_method("set_json", |lua, it, value: Value| {
            let text = json::encode(lua, &it.gauge, &value)?;
            with(&it.slot, |it| {
                replace(&mut it.head.headers, Some(JSON));
                it.body = Bytes::from(text).into();
                Ok(())
            })
        });
    }
}

impl UserData for Res {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("status", |_, it| with(&it.slot, |it| Ok(it.response.as_ref().map(|it| it.status().as_u16()))));
        fields.add_field_method_set("status", |_, it, to: f64| {
            let to = status(to)?;
            with(&it.slot, |it| {
                *it.response.as_mut().ok_or_else(gone)?.status_mut() = to;
                Ok(())
            })
        });
        fields.add_field_function_get("headers", |_, it| it.user_value::<Value>());
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("body", async |lua, it, ()| lua.create_string(whole(&it.slot, &it.gauge, true).await?));
        methods.add_async_method("json", async |lua, it, ()| {
            let depth = with(&it.slot, |it| Ok(it.route.json_depth))?;
            json::decode(&lua, whole(&it.slot, &it.gauge, true).await?, depth)
        });
        methods.add_method("set_body", |_, it, text: LuaString| {
            with(&it.slot, |it| {
                let response = it.response.as_mut().ok_or_else(gone)?;
                replace(response.headers_mut(), None);
                *response.body_mut() = Bytes::copy_from_slice(&text.as_bytes()).into();
                Ok(())
            })
        });
        methods.add_method("set_json", |lua, it, value: Value| {
            let text = json::encode(lua, &it.gauge, &value)?;
            with(&it.slot, |it| {
                let response = it.response.as_mut().ok_or_else(gone)?;
                replace(response.headers_mut(), Some(JSON));
                *response.body_mut() = Bytes::from(text).into();
                Ok(())
            })
        });
    }
}

impl UserData for Ctx {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        for name in ["vars", "respond"] {
            fields.add_field_function_get(name, move |_, it| it.user_value::<Table>()?.raw_get::<Value>(name));
        }
        fields.add_field_method_get("id", |lua, it| with(&it.slot, |it| lua.create_string(it.id.as_bytes())));
        fields.add_field_method_get("api", |lua, it| with(&it.slot, |it| lua.create_string(it.route.id.as_bytes())));
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// A new body: what described the old one goes.
fn replace(headers: &mut HeaderMap, media: Option<HeaderValue>) {
    for name in [
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::ETAG,
        header::LAST_MODIFIED,
        header::ACCEPT_RANGES,
        header::CONTENT_RANGE,
        header::EXPECT,
    ] {
        headers.remove(name);
    }
    if let Some(it) = media {
        headers.insert(header::CONTENT_TYPE, it);
    }
}

fn status(it: f64) -> Result<StatusCode> {
    let good = it.fract() == 0.0 && (200.0..600.0).contains(&it);
    good.then(|| StatusCode::from_u16(it as u16).ok()).flatten().ok_or_else(|| Error::runtime("a status is a whole number from 200 to 599"))
}

/// The whole body, read where it is not yet there.
async fn whole(slot: &Slot, gauge: &Gauge, of_answer: bool) -> Result<Bytes> {
    if gauge.depth.get() > 0 {
        return Err(Error::runtime("a body is not read inside of a coroutine of the script's own"));
    }
    let (mut body, limit) = with(slot, |it| match of_answer {
        false => Ok((it.body.take(), it.route.body_limit)),
        true => Ok((it.response.as_mut().ok_or_else(gone)?.body_mut().take(), MOST_ANSWER)),
    })?;
    let outcome = body.bytes(limit).await.cloned();
    with(slot, |it| {
        match (of_answer, &mut it.response) {
            (true, Some(response)) => *response.body_mut() = body,
            _ => it.body = body,
        }
        Ok(())
    })?;
    outcome.map_err(|it| Error::runtime(format_args!("the body cannot be read: {it}")))
}

/// `ctx.respond(status, body, headers)`.
fn answer(lua: &Lua, gauge: &Gauge, code: f64, body: &Value, headers: Option<Table>) -> Result<Answer> {
    let mut it = Response::new(Body::Empty);
    *it.status_mut() = status(code)?;
    match body {
        Value::Nil => (),
        Value::String(text) => {
            it.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            *it.body_mut() = Bytes::copy_from_slice(&text.as_bytes()).into();
        }
        value => {
            it.headers_mut().insert(header::CONTENT_TYPE, JSON);
            *it.body_mut() = Bytes::from(json::encode(lua, gauge, value)?).into();
        }
    }
    if let Some(headers) = headers {
        headers.for_each(|name: LuaString, value: Value| {
            let (name, value) = (settable(&name)?, header_value(lua, &value)?);
            match value {
                Some(value) => drop(it.headers_mut().insert(name, value)),
                None => drop(it.headers_mut().remove(name)),
            }
            Ok(())
        })?;
    }
    Ok(Answer(Some(it)))
}

fn settable(name: &LuaString) -> Result<HeaderName> {
    let it = HeaderName::from_bytes(&name.as_bytes()).map_err(|_| Error::runtime("this is no name of a header"))?;
    match FORBIDDEN.contains(&it.as_str()) {
        true => Err(Error::runtime(format_args!("the header {it} is the gateway's own affair"))),
        false => Ok(it),
    }
}

fn header_value(lua: &Lua, it: &Value) -> Result<Option<HeaderValue>> {
    if it.is_nil() || it.is_null() {
        return Ok(None);
    }
    let text = match it {
        Value::String(it) => it.clone(),
        Value::Boolean(it) => lua.create_string(if *it { "true" } else { "false" })?,
        it => lua.coerce_string(it.clone())?.ok_or_else(|| Error::runtime("a header's value is a text, a number or a boolean"))?,
    };
    HeaderValue::from_bytes(&text.as_bytes()).map(Some).map_err(|_| Error::runtime("a header's value has no control characters"))
}

/// Puts another path or query into the request line.
fn retarget(head: &mut Parts, path: Option<&[u8]>, query: Option<&[u8]>) -> Result<()> {
    let mut target = path.unwrap_or_else(|| head.uri.path().as_bytes()).to_vec();
    let query = query.or_else(|| head.uri.query().map(str::as_bytes)).unwrap_or_default();
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let target =
        PathAndQuery::from_maybe_shared(Bytes::from(target)).map_err(|_| Error::runtime("this is no path and query of a request"))?;
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.path_and_query = Some(target);
    head.uri = Uri::from_parts(parts).map_err(|_| Error::runtime("this is no path and query of a request"))?;
    Ok(())
}

/// Where names have values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Headers,
    Query,
    Cookies,
    Params,
    Answer,
    Vars,
}

struct Named {
    slot: Slot,
    place: Place,
    gauge: Rc<Gauge>,
}

impl UserData for Named {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, it, name: LuaString| with(&it.slot, |lent| it.get(lua, lent, &name)));
        methods.add_meta_method(MetaMethod::NewIndex, |lua, it, (name, value): (LuaString, Value)| {
            let value = it.read(lua, &name, value)?;
            with(&it.slot, |lent| it.set(lent, &name, value))
        });
        // `for name, value in req.headers do`: a copy, so that a loop may change what it looks at.
        methods.add_meta_method(MetaMethod::Iter, |lua, it, ()| {
            let all = with(&it.slot, |lent| it.all(lua, lent))?;
            let next = lua.globals().get::<mlua::Function>("next")?;
            Ok((next, all))
        });
    }
}

/// What a script puts somewhere, read before the exchange is touched.
enum Put {
    Header(HeaderName, Option<HeaderValue>),
    Text(Option<Vec<u8>>),
    Var(contract::Value),
}

impl Named {
    fn get(&self, lua: &Lua, lent: &Lent, name: &LuaString) -> Result<Value> {
        let name = name.as_bytes();
        let found = match self.place {
            Place::Headers => field(&lent.head.headers, &name).map(|it| lua.create_string(it.as_bytes())),
            Place::Answer => lent.response.as_ref().and_then(|it| field(it.headers(), &name)).map(|it| lua.create_string(it.as_bytes())),
            Place::Query => {
                let query = lent.head.uri.query().unwrap_or_default();
                pairs(query.as_bytes()).find(|(key, _)| key.as_bytes() == &*name).map(|(_, it)| lua.create_string(it.as_bytes()))
            }
            Place::Cookies => cookies(&lent.head.headers).find(|(key, _)| *key == &*name).map(|(_, it)| lua.create_string(it)),
            Place::Params => {
                if let Some(at) = lent.route.params.iter().position(|it| it.as_bytes() == &*name)
                    && let Some(it) = lent.params.get(at)
                {
                    return json::from_gateway(lua, it);
                }
                let at = lent.route.captures.iter().position(|it| it.as_bytes() == &*name);
                let span = at.and_then(|at| lent.captures.get(at));
                let text = span.and_then(|(from, to)| lent.head.uri.path().as_bytes().get(*from as usize..*to as usize));
                text.map(|it| lua.create_string(percent_decode(it).collect::<Vec<u8>>()))
            }
            Place::Vars => {
                let it = lent.vars.iter().find(|(key, _)| key.as_bytes() == &*name);
                return it.map_or(Ok(Value::Nil), |(_, it)| json::from_gateway(lua, it));
            }
        };
        found.transpose().map(|it| it.map_or(Value::Nil, Value::String))
    }

    fn read(&self, lua: &Lua, name: &LuaString, value: Value) -> Result<Put> {
        Ok(match self.place {
            Place::Headers | Place::Answer => Put::Header(settable(name)?, header_value(lua, &value)?),
            Place::Vars => Put::Var(json::to_gateway(lua, &self.gauge, &value)?),
            Place::Params => return Err(Error::runtime("req.params cannot be changed; set ctx.vars, or what `send` reads")),
            Place::Query | Place::Cookies if value.is_nil() || value.is_null() => Put::Text(None),
            Place::Query | Place::Cookies => {
                let text = lua.coerce_string(value)?.ok_or_else(|| Error::runtime("a text or a number stands here"))?;
                Put::Text(Some(text.as_bytes().to_vec()))
            }
        })
    }

    fn set(&self, lent: &mut Lent, name: &LuaString, put: Put) -> Result<()> {
        match put {
            Put::Header(name, value) => {
                let headers = match self.place {
                    Place::Answer => lent.response.as_mut().ok_or_else(gone)?.headers_mut(),
                    _ => &mut lent.head.headers,
                };
                Exchange::forget_header(headers, &name);
                if let Some(it) = value {
                    headers.insert(name, it);
                }
                Ok(())
            }
            Put::Var(value) => {
                let name = name.to_str()?;
                match lent.vars.iter_mut().find(|(it, _)| **it == *name) {
                    Some((_, it)) => *it = value,
                    None => lent.vars.push((name.as_ref().into(), value)),
                }
                Ok(())
            }
            Put::Text(value) if self.place == Place::Query => {
                let name = name.as_bytes();
                let mut query = Vec::new();
                let kept = lent.head.uri.query().unwrap_or_default().split('&').filter(|it| !it.is_empty());
                for piece in kept.filter(|it| pairs(it.as_bytes()).next().is_none_or(|(key, _)| key.as_bytes() != &*name)) {
                    query.extend_from_slice(if query.is_empty() { b"" } else { b"&" });
                    query.extend_from_slice(piece.as_bytes());
                }
                if let Some(it) = value {
                    query.extend_from_slice(if query.is_empty() { b"" } else { b"&" });
                    query.extend(encoded(&name));
                    query.push(b'=');
                    query.extend(encoded(&it));
                }
                retarget(&mut lent.head, None, Some(&query))
            }
            Put::Text(value) => set_cookie(&mut lent.head.headers, &name.as_bytes(), value),
        }
    }

    fn all(&self, lua: &Lua, lent: &Lent) -> Result<Table> {
        let all = lua.create_table()?;
        let header = |headers: &HeaderMap| {
            headers.keys().try_for_each(|it| match headers.get(it) {
                Some(value) => all.raw_set(it.as_str(), lua.create_string(value.as_bytes())?),
                None => Ok(()),
            })
        };
        match self.place {
            Place::Headers => header(&lent.head.headers)?,
            Place::Answer => header(lent.response.as_ref().ok_or_else(gone)?.headers())?,
            Place::Query => {
                for (name, value) in pairs(lent.head.uri.query().unwrap_or_default().as_bytes()) {
                    if !all.contains_key(&*name)? {
                        all.raw_set(&*name, lua.create_string(value.as_bytes())?)?;
                    }
                }
            }
            Place::Cookies => {
                for (name, value) in cookies(&lent.head.headers) {
                    all.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
                }
            }
            Place::Params => {
                for name in lent.route.params.iter().chain(&lent.route.captures) {
                    all.raw_set(&**name, self.get(lua, lent, &lua.create_string(&**name)?)?)?;
                }
            }
            Place::Vars => {
                for (name, value) in &lent.vars {
                    all.raw_set(&**name, json::from_gateway(lua, value)?)?;
                }
            }
        }
        Ok(all)
    }
}

/// A header by its name in any case; what is no name is not there.
fn field<'a>(headers: &'a HeaderMap, name: &[u8]) -> Option<&'a HeaderValue> {
    std::str::from_utf8(name).ok().and_then(|it| headers.get(it))
}

fn encoded(it: &[u8]) -> Vec<u8> {
    const KEPT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    percent_encoding::percent_encode(it, KEPT).flat_map(str::bytes).collect()
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pieces = headers.get_all(header::COOKIE).into_iter().flat_map(|it| it.as_bytes().split(|it| *it == b';'));
    pieces.filter_map(|it| {
        let it = it.trim_ascii();
        let at = it.iter().position(|it| *it == b'=')?;
        Some((it[..at].trim_ascii(), it[at + 1..].trim_ascii()))
    })
}

fn set_cookie(headers: &mut HeaderMap, name: &[u8], value: Option<Vec<u8>>) -> Result<()> {
    let is_name = |it: &u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(it);
    let is_value = |it: &u8| (0x21..0x7f).contains(it) && !b"\",;\\".contains(it);
    if name.is_empty() || !name.iter().all(is_name) || !value.iter().flatten().all(is_value) {
        return Err(Error::runtime("this is no cookie: names and values are visible ASCII without quotes, commas and semicolons"));
    }
    let mut text = Vec::new();
    let kept: Vec<_> = cookies(headers).filter(|(it, _)| *it != name).collect();
    for (name, value) in kept.into_iter().chain(value.as_deref().map(|it| (name, it))) {
        text.extend_from_slice(if text.is_empty() { b"" } else { b"; " });
        text.extend_from_slice(name);
        text.push(b'=');
        text.extend_from_slice(value);
    }
    headers.remove(header::COOKIE);
    if !text.is_empty() {
        let text = HeaderValue::from_bytes(&text).map_err(|_| Error::runtime("this is no cookie"))?;
        headers.insert(header::COOKIE, text);
    }
    Ok(())
}
