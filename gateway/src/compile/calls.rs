//! `proxy` becomes the heart of a route: a call, an answer, a redirect.
use std::sync::Arc;

use contract::expression::{Context, Names, Template};
use http::{HeaderValue, Method, StatusCode, Uri, uri::Authority};
use schemas::{Definition, tree::escape, v1};

use super::{origin::Origin, retry, told::Told, upstreams, world::Compiler};
use crate::{
    target::{
        call::{Call, Keeps, Protocol, Send, Source},
        respond::{Content, Redirect, Respond},
    },
    upstream::{Host, Upstream},
};

/// Where the call of an Api is written.
pub const PROXY: &str = "/proxy";

/// A call, or every call of a pipeline.
pub fn every(it: &v1::Call) -> Box<dyn Iterator<Item = &v1::Call> + '_> {
    match &it.target {
        Some(v1::call::Target::Pipeline(it)) => Box::new(it.stages.iter().flat_map(|it| &it.tasks).filter_map(|it| it.call.as_ref())),
        _ => Box::new(std::iter::once(it)),
    }
}

/// The parameters that become fields: those of headers and cookies do not.
pub fn fields(told: &Told<'_>) -> Box<[Box<str>]> {
    let Definition::Api(api) = &told.document.message else { return Box::default() };
    let params = api.inbound.iter().flat_map(|it| &it.params);
    params.filter(|it| matches!(it.r#in.as_str(), "path" | "query" | "form")).map(|it| it.name.as_str().into()).collect()
}

/// One call over HTTP, written at `place` under the key `kind`: `/proxy`, or the place of a pipeline's task.
pub fn call(
    world: &Compiler<'_>,
    told: &Told<'_>,
    place: &str,
    kind: &str,
    it: &v1::Call,
    http: &v1::Http,
    names: &Names<'_>,
) -> Option<Call> {
    let at = |it: &str| format!("{place}{it}");
    // One that is unknown hides no fault of what stands beside it.
    let found = find(world, told, &at(&format!("/{kind}/upstream")), &http.upstream);
    let method = match http.method.as_deref().map(|it| Method::from_bytes(it.as_bytes())) {
        None => None,
        Some(Ok(it)) => Some(it),
        Some(Err(_)) => {
            told.error(&at("/http/method"), "bad-method", "this is no method");
            None
        }
    };
    let path = http.path.as_deref().and_then(|text| {
        if !text.starts_with('/') && !text.starts_with("${request.path}") {
            told.error_help(&at("/http/path"), "bad-path", "a path begins with a slash", format!("/{text}"));
        }
        told.template(&at("/http/path"), text, names, Context::Path)
    });
    let host = match http.host.as_deref() {
        None => Host::Received,
        Some("received") => Host::Received,
        Some("node") => Host::Node,
        Some(text) => match text.parse::<Authority>().ok().and(HeaderValue::from_str(text).ok()) {
            Some(it) => Host::Text(it),
            None => {
                told.error_help(
                    &at("/http/host"),
                    "bad-host",
                    format!("'{text}' is no host"),
                    "`received`, `node`, or a host such as api.example.com",
                );
                Host::Received
            }
        },
    };
    for (number, it) in http.upgrades.iter().enumerate() {
        if it.eq_ignore_ascii_case("h2c") {
            told.error(
                &format!("{place}/http/upgrades/{number}"),
                "bad-upgrade",
                "h2c would carry requests past every ring, so it is never passed on",
            );
        }
    }
    let timeout = told.duration(&at("/timeout"), it.timeout.as_deref());
    if timeout.is_some_and(|it| it.is_zero()) {
        told.error(&at("/timeout"), "bad-unit", "no time at all is not enough for any call");
    }
    let send = it.send.as_ref().and_then(|it| send(told, &at("/send"), it, names)).map(Box::new);
    let mut rules = retry::rules(told, place, it, names);
    rules.point = http.path.as_deref().map(Into::into);
    let (upstream, prefix, standard_host) = found?;
    let host = if http.host.is_some() { host } else { standard_host };
    if upstream.reads_body() {
        told.reads.set(told.reads.get().and_body());
    }
    let upgrades = http.upgrades.iter().map(|it| it.to_ascii_lowercase().into()).collect();
    (!told.has_errors()).then_some(Call { upstream, method, prefix, path, host, timeout, upgrades, send, rules, protocol: Protocol::Http })
}

/// The upstream of a name or a URL, the path that a URL puts in front, and whose `Host` is sent.
fn find(world: &Compiler<'_>, told: &Told<'_>, at: &str, text: &str) -> Option<(Arc<Upstream>, Box<str>, Host)> {
    if !text.contains("://") {
        told.used(text);
        return match world.upstreams.get(text) {
            Some(Some(it)) => Some((it.clone(), "".into(), Host::Received)),
            // It has faults of its own, which are told there.
            Some(None) => {
                told.error(at, "broken-reference", format!("the Upstream '{text}' has faults of its own"));
                None
            }
            None => {
                upstreams::unknown(told, at, text, world.upstreams.keys().map(AsRef::as_ref));
                None
            }
        };
    }
    let uri: Uri = match text.parse() {
        Ok(it) => it,
        Err(_) => {
            told.error_help(at, "bad-url", "this is no URL", "write it like http://orders.internal:8080/base");
            return None;
        }
    };
    let secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        other => {
            told.error(at, "bad-url", format!("'{}' is not spoken here; a URL begins with http:// or https://", other.unwrap_or("")));
            return None;
        }
    };
    if uri.query().is_some() {
        told.error_help(at, "bad-url", "the URL of an upstream has no query", "put it into `send.query`");
        return None;
    }
    let written = uri.authority()?;
    let with_port = if written.port().is_some() { written.to_string() } else { format!("{written}:{}", if secure { 443 } else { 80 }) };
    let authority = match upstreams::authority(&with_port) {
        Ok(it) => it,
        Err(why) => {
            told.error(at, "bad-url", why);
            return None;
        }
    };
    if let Ok(address) = with_port.parse()
        && let Err(why) = world.egress.allows(&address)
    {
        told.error_help(at, "refused-address", why, "if that is meant, name it under `egress.allow` in the settings");
        return None;
    }
    let host = HeaderValue::from_str(written.as_str()).map_or(Host::Node, Host::Text);
    let prefix = uri.path().trim_end_matches('/');
    if contract::expression::has_dot_segment(prefix.as_bytes()) {
        told.error(at, "bad-url", "the path has a dot segment");
        return None;
    }
    let origin = Origin { secure, authority };
    told.used_url(&origin);
    let make = || upstreams::of_url(world, told, at, &origin);
    Some((world.url_upstream(&origin, make)?, prefix.into(), host))
}

fn send(told: &Told<'_>, place: &str, it: &v1::Send, names: &Names<'_>) -> Option<Send> {
    if !it.inherit.is_empty() && place.starts_with("/proxy/send") {
        told.error(
            &format!("{place}/inherit"),
            "no-meaning",
            "`inherit` has a meaning only in a pipeline; a single call sends the request as received",
        );
    }
    if it.body.is_some() && !it.form.is_empty() {
        told.error(&format!("{place}/form"), "two-bodies", "`body` and `form` cannot both be the body");
    }
    let list = |key: &str, list: &[v1::NamedValue], context: Context| -> Vec<(String, Source)> {
        let one = |it: &v1::NamedValue| {
            let pointer = format!("{place}/{key}/{}", escape(&it.name));
            Some((it.name.clone(), source(told, &pointer, it.value.as_ref()?, names, context)?))
        };
        list.iter().filter_map(one).collect()
    };
    let headers = list("headers", &it.headers, Context::Header);
    let headers = headers
        .into_iter()
        .filter_map(|(name, it)| Some((told.header(&format!("{place}/headers/{}", escape(&name)), &name)?, it)))
        .collect();
    let cookies = list("cookies", &it.cookies, Context::Cookie);
    for (name, _) in &cookies {
        if name.is_empty() || !name.bytes().all(|it| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it)) {
            told.error(&format!("{place}/cookies/{}", escape(name)), "bad-cookie", format!("'{name}' is no cookie name"));
        }
    }
    let boxed = |it: Vec<(String, Source)>| it.into_iter().map(|(name, it)| (name.into_boxed_str(), it)).collect();
    let body = match &it.body {
        None => None,
        Some(it) => Some(content(told, &format!("{place}/body"), it, names)?),
    };
    let keeps = if it.only() { Keeps::NEEDED } else { Keeps::ALL };
    let form = if it.form.is_empty() { None } else { Some(boxed(list("form", &it.form, Context::Form))) };
    Some(Send { query: boxed(list("query", &it.query, Context::Query)), headers, cookies: boxed(cookies), form, body, keeps })
}

/// A value of `send`: text with `${…}`, a scalar as it is written, or a list of them.
fn source(told: &Told<'_>, pointer: &str, json: &v1::Json, names: &Names<'_>, context: Context) -> Option<Source> {
    let value: serde_json::Value = serde_json::from_str(&json.text).ok()?;
    let raw = |it: &serde_json::Value| -> Option<String> {
        match it {
            serde_json::Value::String(it) => Some(it.clone()),
            serde_json::Value::Bool(it) => Some(it.to_string()),
            _ => None,
        }
    };
    let one = |pointer: &str, it: &serde_json::Value, text: &str| -> Option<Template> {
        match (raw(it), it) {
            (Some(it), _) => told.template(pointer, &it, names, context),
            // Digits as they were written.
            (None, serde_json::Value::Number(_)) => told.template(pointer, text, names, context),
            (None, _) => {
                told.error(pointer, "bad-value", "a text, a number or a boolean stands here, or a list of them");
                None
            }
        }
    };
    match &value {
        // Null sends nothing, and takes the client's own away.
        serde_json::Value::Null => Some(Source(Box::default())),
        serde_json::Value::Array(items) => {
            let all: Vec<_> =
                items.iter().enumerate().filter_map(|(at, it)| one(&format!("{pointer}/{at}"), it, &it.to_string())).collect();
            (all.len() == items.len()).then(|| Source(all.into()))
        }
        it => one(pointer, it, json.text.trim()).map(|it| Source([it].into())),
    }
}

fn content(told: &Told<'_>, pointer: &str, it: &v1::Body, names: &Names<'_>) -> Option<Content> {
    use v1::body::Written;
    match it.written.as_ref() {
        None => Some(Content::Empty),
        Some(Written::Json(it)) => told.json(pointer, it, names).map(Content::Json),
        Some(Written::Raw(text)) => {
            let media = it.r#type.as_deref().unwrap_or("text/plain; charset=utf-8");
            let media = told.header_value(&format!("{pointer}/type"), media)?;
            told.template(&format!("{pointer}/raw"), text, names, Context::Plain).map(|it| Content::Raw(it, media))
        }
    }
}

pub fn respond(told: &Told<'_>, place: &str, it: &v1::Respond, names: &Names<'_>) -> Option<Respond> {
    let status = StatusCode::from_u16(it.status.unwrap_or(200) as u16).ok()?;
    let body = match &it.body {
        Some(it) => content(told, &format!("{place}/respond/body"), it, names)?,
        None => Content::Empty,
    };
    let headers = told.headers(&format!("{place}/respond/headers"), &it.headers, names).into();
    Some(Respond { status, headers, body })
}

pub fn redirect(told: &Told<'_>, it: &v1::Redirect, names: &Names<'_>) -> Option<Redirect> {
    let to = told.template("/proxy/redirect/to", &it.to, names, Context::RedirectTarget)?;
    if to.chooses_host() && it.allow_hosts.is_empty() {
        let message = "an expression chooses the host, so anybody could send clients anywhere";
        told.error_help("/proxy/redirect/to", "open-redirect", message, "name the hosts that it may lead to under `allow_hosts`");
    }
    let status = it.status.unwrap_or(302);
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        told.error_help("/proxy/redirect/status", "bad-status", format!("{status} does not redirect"), "301, 302, 303, 307 or 308");
    }
    let hosts = it.allow_hosts.iter().map(|it| it.to_ascii_lowercase().into()).collect();
    Some(Redirect { to, status: StatusCode::from_u16(status as u16).ok()?, hosts })
}
