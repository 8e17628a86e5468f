//! One Api's definition becomes a route.
use std::sync::Arc;

use contract::{
    RouteInfo,
    exchange::Secrets,
    expression::{Names, Place, Reads},
    onion::Chain,
    scope::is_json,
};
use http::{HeaderName, HeaderValue};
use schemas::{Document, Kind, v1};

use super::{pipelines, rings, told::Told, validate::Validate, world::Compiler};
use crate::{
    params::{
        Params,
        body::{BodySchema, Written},
    },
    route::{
        api::{Life, Notice, Piece, Route, Successor},
        pattern::{Host, Pattern, Segment},
    },
    target::{Action, Target, outbound::Outbound},
};

/// A route, and the patterns that lead to it.
pub struct Compiled {
    pub route: Arc<Route>,
    pub patterns: Vec<Pattern>,
    pub order: f64,
}

pub use super::world::NO_VERSION;

/// `name@version`, or the name alone.
pub fn id(name: &str, version: &str) -> String {
    if version.is_empty() { name.to_owned() } else { format!("{name}@{version}") }
}

/// Compiles one Api; `None` after faults.
pub fn api<'a>(world: &Compiler<'a>, told: &Told<'_>, document: &'a Document, it: &'a v1::Api, digest: u128) -> Option<Compiled> {
    let info = it.info.as_ref()?;
    let inbound = it.inbound.as_ref()?;
    let version = info.version.as_deref().unwrap_or(NO_VERSION);
    let id = id(&info.name, version);
    let patterns = patterns(told, inbound);
    if it.messages.is_some() {
        told.not_built("/messages", "limits of messages");
    }
    if it.on_change.is_some() {
        told.not_built("/on_change", "on_change");
    }

    let captures: Vec<Vec<Box<str>>> = patterns.iter().map(|it| it.captures().map(Into::into).collect()).collect();
    let params = params(told, inbound, &captures);
    let param_names: Vec<Box<str>> = params.iter().flat_map(|it| it.names()).map(Into::into).collect();
    let known_params: Vec<&str> = inbound.params.iter().map(|it| it.name.as_str()).collect();
    let known_captures: Vec<&str> = captures.iter().flatten().map(AsRef::as_ref).collect();
    let names = Names::new(Place::Proxy).params(&known_params).captures(&known_captures).authenticated(false);

    let when =
        inbound.when.as_deref().and_then(|text| told.condition("/inbound/when", text, &Names { place: Place::InboundWhen, ..names }));
    let body_limit = body_limit(world, told, inbound);
    let mut validate = validate(world, told, inbound, params.clone(), body_limit);
    let written = rings::expand(world, told, document, &it.plugins, it.defaults.unwrap_or(true));
    let (rings, early_params) = rings::build(world, told, &format!("Api/{id}"), &written, &names, &mut validate);

    let authenticated = written.iter().any(|it| world.plugins.iter().any(|entry| entry.name == it.ring.name && entry.notes.authenticates));
    let names = Names { authenticated, secrets: true, ..names };
    told.reads.set(Reads::default());
    let action = it.proxy.as_ref().and_then(|it| pipelines::action(world, told, (&info.name, version), it, &names));
    let labels = it.proxy.as_deref().map(pipelines::labels).unwrap_or_default();
    let outbound = it.outbound.as_ref().map(|it| outbound(told, it, &pipelines::outside(&names, &labels))).unwrap_or_default();
    // Expressions of `outbound` see the request's body too, which must be read before it is handed on.
    let reads_body = told.reads.get().body();
    let life = life(world, told, info, &captures);
    if told.has_errors() || patterns.is_empty() {
        return None;
    }
    let allow = allow(&patterns);
    let target = Arc::new(Target { action: action?, outbound, reads_body, allow });
    let chain = Chain::new(rings, target.clone());
    let secrets = secrets(world, told, &written)?;
    let infos = patterns.iter().zip(&captures).map(|(pattern, captures)| {
        Arc::new(RouteInfo {
            id: id.as_str().into(),
            name: info.name.as_str().into(),
            version: version.into(),
            pattern: pattern.to_string().into(),
            captures: captures.clone(),
            params: param_names.clone(),
            body_limit,
            json_depth: world.limits.body.json_depth as usize,
            field_count: world.limits.body.field_count as usize,
            node: world.node.clone(),
            secrets: Secrets(secrets.clone()),
        })
    });
    let route = Route {
        infos: infos.collect(),
        digest,
        when,
        chain,
        target,
        early_params: params.filter(|_| early_params),
        query_count: world.limits.request.query_count as usize,
        life,
        metrics: world.metrics.route_metrics(&info.name, version),
    };
    Some(Compiled { route: Arc::new(route), patterns, order: inbound.order.unwrap_or(0) as f64 })
}

/// The patterns that hold; a fault of another is told.
fn patterns(told: &Told<'_>, inbound: &v1::Inbound) -> Vec<Pattern> {
    let parse = |(at, text): (usize, &String)| {
        Pattern::parse(text)
            .map_err(|it| {
                // A single pattern need not be a list. Looking that up means reading the document again: only for a fault.
                let list = format!("/inbound/match/{at}");
                let pointer = if told.document.places.find(&list).is_some_and(|it| it.whole) { &*list } else { "/inbound/match" };
                told.push(told.document.places.text_fault(
                    pointer,
                    schemas::TextFault { offset: it.offset, len: it.len, code: "bad-pattern", message: it.message, help: it.help },
                ))
            })
            .ok()
    };
    inbound.r#match.iter().enumerate().filter_map(parse).collect()
}

fn params(told: &Told<'_>, inbound: &v1::Inbound, captures: &[Vec<Box<str>>]) -> Option<Arc<Params>> {
    if inbound.params.is_empty() {
        return None;
    }
    let mut written = serde_json::Map::new();
    for it in &inbound.params {
        let mut one = serde_json::Map::new();
        one.insert("in".into(), it.r#in.as_str().into());
        if let Some(required) = it.required {
            one.insert("required".into(), required.into());
        }
        if let Some(explode) = it.explode {
            one.insert("explode".into(), explode.into());
        }
        if let Some(Ok(serde_json::Value::Object(rest))) = it.schema.as_ref().map(|it| serde_json::from_str(&it.text)) {
            one.extend(rest);
        }
        written.insert(it.name.clone(), one.into());
    }
    let captures: Vec<&[Box<str>]> = captures.iter().map(Vec::as_slice).collect();
    match Params::compile(&written, &captures) {
        Ok(it) => Some(Arc::new(it)),
        Err(faults) => {
            for it in faults {
                let fault = told.document.places.fault(&format!("/inbound/params{}", it.pointer), "bad-param", it.message);
                told.push(match it.help {
                    Some(help) => fault.help(help),
                    None => fault,
                });
            }
            None
        }
    }
}

fn body_limit(world: &Compiler<'_>, told: &Told<'_>, inbound: &v1::Inbound) -> usize {
    let written = inbound.body.as_ref().and_then(|it| it.max_size.as_deref());
    told.size("/inbound/body/max_size", written).unwrap_or(world.limits.body.buffered.0) as usize
}

fn validate(
    world: &Compiler<'_>,
    told: &Told<'_>,
    inbound: &v1::Inbound,
    params: Option<Arc<Params>>,
    body_limit: usize,
) -> Option<Validate> {
    let body = inbound.body.as_ref();
    if params.is_none() && body.is_none() {
        return None;
    }
    let content: Box<[Box<str>]> = body.map_or(&[][..], |it| &it.content).iter().map(|it| it.to_ascii_lowercase().into()).collect();
    for (at, it) in content.iter().enumerate().filter(|(_, it)| it.split('/').count() != 2 || it.contains([';', ' ', '*'])) {
        told.error_help(
            &format!("/inbound/body/content/{at}"),
            "bad-media-type",
            format!("'{it}' is no media type"),
            "write it like application/json, without parameters",
        );
    }
    let accept = HeaderValue::from_str(&content.join(", ")).ok().filter(|it| !it.is_empty());
    let max_size = if body.is_some() { body_limit as u64 } else { u64::MAX };
    let schema = body.and_then(|it| it.schema.as_ref()).and_then(|it| schema(world, told, it));
    if schema.is_some() {
        for (at, it) in content.iter().enumerate().filter(|(_, it)| !is_json(it) && !FORMS.contains(&&***it)) {
            told.error_help(
                &format!("/inbound/body/content/{at}"),
                "bad-media-type",
                format!("a schema says nothing about '{it}'"),
                "JSON and forms can be held to a schema; take one or the other away",
            );
        }
    }
    Some(Validate { params, content, accept, schema, max_size, spawn: world.spawn.clone() })
}

/// The forms whose fields can be held to a schema.
const FORMS: [&str; 2] = ["application/x-www-form-urlencoded", "multipart/form-data"];

/// Compiles the schema of bodies; its faults are told where they stand, or where its file is named.
fn schema(world: &Compiler<'_>, told: &Told<'_>, it: &v1::SchemaRef) -> Option<Arc<BodySchema>> {
    use v1::schema_ref::Written as Where;
    const AT: &str = "/inbound/body/schema";
    let (written, base, file) = match it.written.as_ref()? {
        Where::Inline(it) => (serde_json::from_str(&it.text).ok().map(|schema| Written { schema, file: None }), AT.to_owned(), None),
        Where::File(file) => {
            let base = format!("{AT}/file");
            let written = Written::of_file(world.root, file).map_err(|why| told.error(&base, "bad-reference", why)).ok();
            (written, base, Some(file))
        }
    };
    match BodySchema::compile(&written?, world.root) {
        Ok(it) => Some(Arc::new(it)),
        Err(faults) => {
            for it in faults {
                let (pointer, message) = match file {
                    Some(file) => (base.clone(), format!("{file}#{}: {}", it.pointer, it.message)),
                    None => (format!("{base}{}", it.pointer), it.message),
                };
                let fault = told.document.places.fault(&pointer, "bad-schema", message);
                told.push(match it.help {
                    Some(help) => fault.help(help),
                    None => fault,
                });
            }
            None
        }
    }
}

fn outbound(told: &Told<'_>, it: &v1::Outbound, names: &Names<'_>) -> Outbound {
    let headers = it.headers.clone().unwrap_or_default();
    let set = told.headers("/outbound/headers/set", &headers.set, names);
    let add = told.headers("/outbound/headers/add", &headers.add, names);
    let remove =
        headers.remove.iter().enumerate().filter_map(|(at, it)| told.header(&format!("/outbound/headers/remove/{at}"), it)).collect();
    let body = it.body.as_ref().and_then(|it| told.json("/outbound/body", it, names));
    let mut reads = set.iter().chain(&add).map(|(_, it)| it.reads()).chain(body.iter().map(|it| it.reads()));
    let reads_body = reads.any(|it| it.response_body());
    Outbound { remove, set: set.into(), add: add.into(), body, reads_body }
}

/// The secrets that expressions of this Api and of its rings name, read now: one that cannot be read refuses the definition.
fn secrets(world: &Compiler<'_>, told: &Told<'_>, written: &[rings::Written<'_>]) -> Option<Vec<(Box<str>, Box<str>)>> {
    let own = super::secrets::of(told.document);
    let presets = written.iter().filter(|it| it.preset.is_some()).filter_map(|it| it.ring.config.as_ref()).map(|it| it.text.as_str());
    let mut found: Vec<(Box<str>, Box<str>)> = Vec::new();
    let presets = presets.filter(|it| it.contains("secret(")).flat_map(super::secrets::named);
    for name in own.iter().map(|it| &**it).chain(presets) {
        if found.iter().any(|(known, _)| **known == *name) {
            continue;
        }
        match world.secret(name) {
            Ok(it) => found.push((name.into(), it.into())),
            Err(why) => missing_secret(world, told, written, name, why),
        }
    }
    (!told.has_errors()).then_some(found)
}

/// Tells of a secret where it is named: in the Api, or in a Preset of it.
fn missing_secret(world: &Compiler<'_>, told: &Told<'_>, written: &[rings::Written<'_>], name: &str, why: String) {
    let help = if world.may_read(name) {
        "set it before the gateway starts: variables are read only then".to_owned()
    } else {
        format!("in allium.yaml, write `secrets: {{env: [{name}]}}`")
    };
    let documents = std::iter::once(told.document).chain(written.iter().map(|it| it.document));
    let found = documents.filter_map(|it| super::secrets::place(it, name).map(|place| (it, place))).next();
    let fault = match found {
        Some((document, (pointer, offset, len))) => {
            document.places.text_fault(&pointer, schemas::TextFault { offset, len, code: "bad-reference", message: why, help: None })
        }
        None => told.document.places.fault("/proxy", "bad-reference", why),
    };
    told.push(fault.help(help));
}

/// What `Allow` says where only a preflight was asked: the methods of the patterns.
fn allow(patterns: &[Pattern]) -> HeaderValue {
    let mut methods: Vec<&str> = patterns.iter().flat_map(|it| it.methods()).map(|it| it.as_str()).collect();
    if methods.contains(&"GET") && !methods.contains(&"HEAD") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    methods.dedup();
    HeaderValue::from_str(&methods.join(", ")).unwrap_or(HeaderValue::from_static(""))
}

fn life(world: &Compiler<'_>, told: &Told<'_>, info: &v1::Info, captures: &[Vec<Box<str>>]) -> Life {
    let Some(it) = &info.lifecycle else { return Life::Active };
    let state = it.state.as_deref().unwrap_or("active");
    let mut notice = Notice::default();
    if let Some(it) = &it.successor {
        let version = it.version.as_deref().unwrap_or(NO_VERSION);
        match world.apis.get(&(it.name.as_str(), version)) {
            Some(successor) => notice.successor = self::successor(told, successor, captures),
            None if world.is_broken(Kind::Api, &it.name) => {
                let message = format!("the Api {} has faults of its own", id(&it.name, version));
                told.error("/info/lifecycle/successor", "broken-reference", message);
            }
            None => {
                let known: Vec<String> = world.apis.keys().map(|(name, version)| id(name, version)).collect();
                let message = format!("there is no Api {}", id(&it.name, version));
                match schemas::nearest(&id(&it.name, version), known.iter().map(String::as_str)) {
                    Some(near) => {
                        told.error_help("/info/lifecycle/successor", "unknown-reference", message, format!("did you mean {near}?"))
                    }
                    None => told.error("/info/lifecycle/successor", "unknown-reference", message),
                }
            }
        }
    }
    match state {
        "draft" => Life::Draft,
        "deprecated" => {
            notice.headers.push((HeaderName::from_static("x-api-deprecated"), HeaderValue::from_static("true")));
            // RFC 9745 asks for a date; the definition does not say since when, so it is the day on which this gateway first saw it.
            let since = HeaderValue::from_str(&format!("@{}", world.first_seen)).unwrap_or(HeaderValue::from_static("@0"));
            notice.headers.push((HeaderName::from_static("deprecation"), since));
            notice.headers.extend(sunset(told, it));
            Life::Deprecated(Box::new(notice))
        }
        "retired" => {
            notice.headers.extend(sunset(told, it));
            Life::Retired(Box::new(notice))
        }
        _ => Life::Active,
    }
}

/// `Sunset` (RFC 8594): the beginning of that day, in UTC.
fn sunset(told: &Told<'_>, it: &v1::Lifecycle) -> Option<(HeaderName, HeaderValue)> {
    let text = it.sunset.as_deref()?;
    match http_date(text) {
        Some(it) => Some((HeaderName::from_static("sunset"), HeaderValue::from_str(&it).ok()?)),
        None => {
            told.error_help("/info/lifecycle/sunset", "bad-date", format!("'{text}' is no day"), "write it like 2027-04-01");
            None
        }
    }
}

/// `2027-04-01` as `Thu, 01 Apr 2027 00:00:00 GMT`.
fn http_date(text: &str) -> Option<String> {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.split('-');
    let (year, month, day): (i64, i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=length).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Days since 1970, by Howard Hinnant's `days_from_civil`.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(format!("{}, {day:02} {} {year} 00:00:00 GMT", DAYS[days.rem_euclid(7) as usize], MONTHS[(month - 1) as usize]))
}

/// The successor's first pattern as a link, its captures taken from ours by name.
fn successor(told: &Told<'_>, it: &v1::Api, captures: &[Vec<Box<str>>]) -> Option<Successor> {
    let theirs = Pattern::parse(it.inbound.as_ref()?.r#match.first()?).ok()?;
    let host = match theirs.host() {
        Host::Exact(it) => Some(it.clone()),
        _ => None,
    };
    let mut pieces = Vec::new();
    let mut text = String::new();
    for segment in theirs.segments() {
        text.push('/');
        match segment {
            Segment::Literal(it) => text.push_str(
                &percent_encoding::percent_encode(it, percent_encoding::NON_ALPHANUMERIC)
                    .to_string()
                    .replace("%2D", "-")
                    .replace("%2E", ".")
                    .replace("%5F", "_")
                    .replace("%7E", "~"),
            ),
            Segment::Capture(name) | Segment::Rest(name) => {
                // Every pattern of ours must capture it at the same place: a link is made without asking which matched.
                let places: Vec<_> = captures.iter().map(|it| it.iter().position(|it| it == name)).collect();
                match places.first().copied().flatten().filter(|first| places.iter().all(|it| *it == Some(*first))) {
                    Some(at) => {
                        pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                        pieces.push(Piece::Capture(at));
                    }
                    None => {
                        let message = format!("no link leads to the successor: its pattern captures '{name}', which this Api's does not");
                        told.warning("/info/lifecycle/successor", "no-link", message, "name captures alike");
                        return None;
                    }
                }
            }
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text.into()));
    }
    Some(Successor { host, pieces: pieces.into() })
}

/// A route for requests that no Api takes: only the rings of the Preset `unmatched`.
pub fn unmatched<'a>(world: &Compiler<'a>, told: &Told<'_>) -> Arc<Route> {
    let written = rings::expand_preset(world, told, rings::UNMATCHED);
    let names = Names::new(Place::Plugin).params(&[]).captures(&[]).authenticated(false);
    let (rings, _) = rings::build(world, told, "Preset/unmatched", &written, &names, &mut None);
    heart_of_nothing(world, rings)
}

fn heart_of_nothing(world: &Compiler<'_>, rings: Vec<contract::onion::Ring>) -> Arc<Route> {
    let target = Arc::new(Target {
        action: Action::Unmatched,
        outbound: Outbound::default(),
        reads_body: false,
        allow: HeaderValue::from_static(""),
    });
    let chain = Chain::new(rings, target.clone());
    let info = RouteInfo {
        body_limit: world.limits.body.buffered.0 as usize,
        json_depth: world.limits.body.json_depth as usize,
        field_count: world.limits.body.field_count as usize,
        node: world.node.clone(),
        ..RouteInfo::default()
    };
    Arc::new(Route {
        infos: [Arc::new(info)].into(),
        digest: 0,
        when: None,
        chain,
        target,
        early_params: None,
        query_count: usize::MAX,
        life: Life::Active,
        metrics: world.metrics.unmatched().clone(),
    })
}

/// The same, of definitions that hold nothing at all.
pub fn nothing(world: &Compiler<'_>) -> Arc<Route> {
    heart_of_nothing(world, Vec::new())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_day_becomes_a_date_of_http() {
        for (text, date) in [
            ("2027-04-01", Some("Thu, 01 Apr 2027 00:00:00 GMT")),
            ("1970-01-01", Some("Thu, 01 Jan 1970 00:00:00 GMT")),
            ("2024-02-29", Some("Thu, 29 Feb 2024 00:00:00 GMT")),
            ("2023-02-29", None),
            ("2027-13-01", None),
            ("soon", None),
        ] {
            assert_eq!(super::http_date(text).as_deref(), date, "{text}");
        }
    }
}
