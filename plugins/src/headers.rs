//! Sets, adds and removes headers, of the request and of the answer.
use std::collections::BTreeMap;

use contract::{
    Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    expression::{Context, RenderError, Template},
    meter::Counter,
    onion::{Filter, Flow},
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The ring.
pub struct Headers {
    request: Edits,
    response: Edits,
    failed: Counter,
}

#[derive(Default)]
struct Edits {
    remove: Box<[HeaderName]>,
    set: Box<[(HeaderName, Source)]>,
    add: Box<[(HeaderName, Source)]>,
    /// No value is a template.
    constant: bool,
}

/// A header's value; a constant one is made once.
enum Source {
    Constant(HeaderValue),
    Template(Template),
}

/// # Config
/// First `remove`, then `set`, then `add`. A value may hold `${…}`; one that is null sets nothing, and the client's own value is gone all the same.
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Headers of the request, on its way to the backend.
    #[serde(default)]
    pub request: EditsConfig,
    /// Headers of the answer, on its way to the client.
    #[serde(default)]
    pub response: EditsConfig,
}

/// Which headers are changed, and how.
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditsConfig {
    /// Headers that get this value, in place of any that are there.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TemplateText>")]
    pub set: BTreeMap<String, String>,
    /// Headers that get this value beside those that are there.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TemplateText>")]
    pub add: BTreeMap<String, String>,
    /// Headers that are taken away.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// Text that may hold `${…}`.
struct TemplateText;

impl schemars::JsonSchema for TemplateText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TemplateText".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "template"})
    }
}

/// Headers that are the connection's own affair, and what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("connection", "the gateway manages connections itself"),
    ("content-length", "the body's length is counted, not claimed"),
    ("host", "use `host` of `proxy.http`"),
    ("keep-alive", "the gateway manages connections itself"),
    ("proxy-connection", "the gateway manages connections itself"),
    ("te", "the gateway manages connections itself"),
    ("trailer", "the gateway frames bodies itself"),
    ("transfer-encoding", "the gateway frames bodies itself"),
    ("upgrade", "use `upgrades` of `proxy.http`"),
];

impl Configure for Headers {
    type Config = Config;
    const NAME: &'static str = "headers";
    const ABOUT: &'static str = "Sets, adds and removes headers, of the request and of the answer.";
    const NOTES: RingNotes =
        RingNotes { reads: "the headers, and what its expressions name", answers: "", authenticates: false, rewrites_body: false };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let request = edits("/request", config.request, env, &mut faults);
        let response = edits("/response", config.response, env, &mut faults);
        let idle = |it: &Edits| it.set.is_empty() && it.add.is_empty() && it.remove.is_empty();
        if faults.is_empty() && idle(&request) && idle(&response) {
            faults.push(
                Fault::new("", "nothing is set, added or removed").help("write `request` or `response` with `set`, `add` or `remove`"),
            );
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        let failed = env.meter.counter("allium_headers_failed_total", "Header values that could not be made.", &labels);
        Ok(Self { request, response, failed })
    }
}

fn edits(at: &str, config: EditsConfig, env: &Env<'_>, faults: &mut Vec<Fault>) -> Edits {
    let values = |key: &str, map: BTreeMap<String, String>, faults: &mut Vec<Fault>| -> Box<[(HeaderName, Source)]> {
        let mut made = Vec::new();
        for (text, value) in map {
            let pointer = format!("{at}/{key}/{}", text.replace('~', "~0").replace('/', "~1"));
            let name = name(&pointer, &text);
            let source = env.template(&pointer, &value, Context::Header).and_then(|it| source(&pointer, it));
            match (name, source) {
                (Ok(name), Ok(source)) => made.push((name, source)),
                (name, source) => {
                    faults.extend(name.err());
                    faults.extend(source.err().unwrap_or_default());
                }
            }
        }
        made.into()
    };
    let set = values("set", config.set, faults);
    let add = values("add", config.add, faults);
    let removed = config.remove.iter().enumerate().map(|(number, text)| name(&format!("{at}/remove/{number}"), text));
    let remove = removed.filter_map(|it| it.map_err(|it| faults.push(it)).ok()).collect();
    let constant = set.iter().chain(&add).all(|(_, it)| matches!(it, Source::Constant(_)));
    Edits { remove, set, add, constant }
}

fn name(pointer: &str, text: &str) -> Result<HeaderName, Fault> {
    let name = HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| Fault::new(pointer, format!("'{text}' is no header name")).help("letters, digits and hyphens"))?;
    match FORBIDDEN.iter().find(|(it, _)| *it == name.as_str()) {
        Some((it, help)) => Err(Fault::new(pointer, format!("'{it}' cannot be changed here")).help(*help)),
        None => Ok(name),
    }
}

fn source(pointer: &str, template: Template) -> Result<Source, Vec<Fault>> {
    match template.constant() {
        Some(it) => HeaderValue::from_maybe_shared(it.clone())
            .map(Source::Constant)
            .map_err(|_| vec![Fault::new(pointer, "a header's value has no control characters")]),
        None => Ok(Source::Template(template)),
    }
}

impl Source {
    fn value(&self, ex: &Exchange) -> Result<Option<HeaderValue>, RenderError> {
        match self {
            Self::Constant(it) => Ok(Some(it.clone())),
            Self::Template(it) => it.header(&ex.scope()),
        }
    }
}

impl Edits {
    /// What is to be written, before anything is changed: expressions see the headers as they were.
    fn values<'a>(&'a self, ex: &'a Exchange) -> impl Iterator<Item = (&'a HeaderName, bool, Result<Option<HeaderValue>, RenderError>)> {
        let set = self.set.iter().map(move |(name, it)| (name, true, it.value(ex)));
        set.chain(self.add.iter().map(move |(name, it)| (name, false, it.value(ex))))
    }

    fn write(headers: &mut HeaderMap, name: &HeaderName, set: bool, value: Option<HeaderValue>) {
        if set {
            Exchange::forget_header(headers, name);
        }
        if let Some(it) = value {
            headers.append(name.clone(), it);
        }
    }

    fn remove(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            Exchange::forget_header(headers, name);
        }
    }

    /// Changes headers without looking at anything: nothing to wait for, nothing that can fail.
    fn apply_constants(&self, headers: &mut HeaderMap) {
        self.remove(headers);
        for (set, list) in [(true, &self.set), (false, &self.add)] {
            for (name, it) in list {
                if let Source::Constant(it) = it {
                    Self::write(headers, name, set, Some(it.clone()));
                }
            }
        }
    }
}

impl Filter for Headers {
    fn request(&self, ex: &mut Exchange) -> Flow {
        if self.request.constant {
            self.request.apply_constants(&mut ex.head.headers);
            return Ok(None);
        }
        let mut made = Vec::new();
        for (name, set, value) in self.request.values(ex) {
            let value = value.map_err(|it| {
                self.failed.add(1);
                // A client's own bytes that no header can hold are the client's fault.
                let kind = if it == RenderError::ControlInHeader { Kind::Invalid } else { Kind::Internal };
                Problem::new(kind, "a header of the request cannot be made").because(it).reason("headers")
            })?;
            made.push((name.clone(), set, value));
        }
        self.request.remove(&mut ex.head.headers);
        for (name, set, value) in made {
            Edits::write(&mut ex.head.headers, &name, set, value);
        }
        Ok(None)
    }

    fn response(&self, ex: &mut Exchange, outcome: &mut Outcome) {
        let mut made = Vec::new();
        if !self.response.constant {
            for (name, set, value) in self.response.values(ex) {
                match value {
                    Ok(it) => made.push((name, set, it)),
                    // The answer is there already: it goes out without this header.
                    Err(_) => self.failed.add(1),
                }
            }
        }
        let headers = match outcome {
            Ok(it) => it.headers_mut(),
            Err(it) => &mut it.headers,
        };
        if self.response.constant {
            return self.response.apply_constants(headers);
        }
        self.response.remove(headers);
        for (name, set, value) in made {
            Edits::write(headers, name, set, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::{Body, catalog::filter, testkit::Bench};
    use serde_json::{Value, json};

    use super::*;

    /// Sends `request`, and shows the headers that the backend saw and those that the client sees.
    async fn check(config: Value, request: &[(&'static str, &'static str)], seen: &[&str], answered: &[&str]) {
        let shown = |headers: &HeaderMap| {
            let mut all: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
            all.sort();
            all.join("\n")
        };
        let backend = move |ex: &mut Exchange| {
            let mut it = http::Response::new(Body::Empty);
            it.headers_mut().insert("seen", HeaderValue::from_str(&shown(&ex.head.headers).replace('\n', "|")).unwrap());
            it.headers_mut().insert("server", HeaderValue::from_static("old"));
            Ok(it)
        };
        let mut it = http::Request::builder().uri("/a/b?user=ann&evil=%0d%0aX");
        for (name, value) in request {
            it = it.header(*name, *value);
        }
        let mut answer = Bench::around(&filter::<Headers>(), config, backend).send(it.body(Body::Empty).unwrap()).await;
        let told = answer.headers_mut().remove("seen").unwrap();
        assert_eq!(told.to_str().unwrap().split('|').collect::<Vec<_>>(), seen);
        assert_eq!(shown(answer.headers()).split('\n').collect::<Vec<_>>(), answered);
    }

    #[tokio::test]
    async fn constants_are_set_added_and_removed() {
        check(
            json!({"request": {"set": {"X-A": "1"}, "add": {"x-b": "2"}, "remove": ["cookie"]}, "response": {"set": {"x-frame-options": "DENY"}, "remove": ["server"]}}),
            &[("x-a", "forged"), ("x_a", "forged"), ("x-b", "0"), ("cookie", "a=b")],
            &["x-a: 1", "x-b: 0", "x-b: 2"],
            &["x-frame-options: DENY"],
        )
        .await;
    }

    #[tokio::test]
    async fn expressions_see_the_request_as_it_came() {
        check(
            json!({"request": {"set": {"x-user": "${query.user}", "x-old": "${headers['x-user']}", "x-none": "${query.nobody}"}}, "response": {"set": {"x-path": "at ${request.path}"}}}),
            &[("x-user", "forged"), ("x-none", "forged")],
            &["x-old: forged", "x-user: ann"],
            &["server: old", "x-path: at /a/b"],
        )
        .await;
    }

    #[tokio::test]
    async fn a_clients_line_break_refuses_the_request() {
        let bench = Bench::of(&filter::<Headers>(), json!({"request": {"set": {"x-evil": "${query.evil}"}}}));
        let answer = bench.send(http::Request::builder().uri("/?evil=%0d%0aX:1").body(Body::Empty).unwrap()).await;
        assert_eq!(answer.status(), 400);
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let faults = Bench::faults(
            &filter::<Headers>(),
            json!({"request": {"set": {"host": "a", "x a": "b", "x-b": "${nope}"}, "remove": ["Content-Length"]}}),
        );
        let told: Vec<_> = faults.iter().map(|it| (it.pointer.as_str(), it.within)).collect();
        assert_eq!(
            told,
            [("/request/set/host", None), ("/request/set/x a", None), ("/request/set/x-b", Some((2, 4))), ("/request/remove/0", None)]
        );
        assert_eq!(Bench::faults(&filter::<Headers>(), json!({})).len(), 1);
    }
}
