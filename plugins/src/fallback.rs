//! Answers in place of a backend that fails.
use std::collections::BTreeMap;

use contract::{
    Body, CallError, Exchange, Outcome,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    expression::{Context, JsonTemplate, Template},
    meter::Counter,
    onion::{Filter, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header};

/// The ring.
pub struct Fallback {
    errors: Box<[CallError]>,
    statuses: Box<[(u16, u16)]>,
    status: StatusCode,
    headers: Box<[(HeaderName, Template)]>,
    body: Option<JsonTemplate>,
    used: Counter,
    failed: Counter,
}

/// # Config
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// When it answers: words of `error` (`connect`, `tls`, `reset`, `connect_timeout`, `read_timeout`, `timeout`, `protocol`), statuses (`503`), or
    /// classes of them (`5xx`). `connect` includes `tls` and `connect_timeout`; `timeout` includes `read_timeout`.
    pub conditions: Vec<Condition>,
    /// What it answers.
    pub respond: Respond,
}

/// A word, a status, or a class of statuses.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Condition {
    /// A status, as a number.
    Status(u16),
    /// A word of `error`, a status, or a class such as `5xx`.
    Word(String),
}

/// An answer.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// The status.
    #[serde(default = "default_status")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Headers; values may hold `${…}`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// JSON; its strings may hold `${…}`.
    #[serde(default)]
    pub body: Option<serde_json::Value>,
}

fn default_status() -> u16 {
    200
}

const WORDS: &[(&str, &[CallError])] = &[
    ("connect", &[CallError::Connect, CallError::Tls, CallError::ConnectTimeout]),
    ("tls", &[CallError::Tls]),
    ("reset", &[CallError::Reset]),
    ("connect_timeout", &[CallError::ConnectTimeout]),
    ("read_timeout", &[CallError::ReadTimeout]),
    ("timeout", &[CallError::Timeout, CallError::ReadTimeout]),
    ("protocol", &[CallError::Protocol]),
];

impl Configure for Fallback {
    type Config = Config;
    const NAME: &'static str = "fallback";
    const ABOUT: &'static str = "Answers in place of a backend that fails.";
    const NOTES: RingNotes = RingNotes {
        reads: "the outcome of what is inside",
        answers: "its `respond`, when a condition holds",
        authenticates: false,
        rewrites_body: true,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let (mut errors, mut statuses) = (Vec::new(), Vec::new());
        for (at, it) in config.conditions.iter().enumerate() {
            match it {
                Condition::Status(it) if (100..600).contains(it) => statuses.push((*it, *it)),
                Condition::Status(it) => faults.push(Fault::new(format!("/conditions/{at}"), format!("{it} is no HTTP status"))),
                Condition::Word(it) => match (WORDS.iter().find(|(word, _)| word == it), status_class(it)) {
                    (Some((_, list)), _) => errors.extend_from_slice(list),
                    (None, Some(range)) => statuses.push(range),
                    (None, None) => {
                        let words: Vec<_> = WORDS.iter().map(|(it, _)| *it).collect();
                        let fault = Fault::new(format!("/conditions/{at}"), format!("'{it}' is no condition"));
                        faults.push(
                            fault.help(format!("conditions are {}, statuses such as 503, and classes such as 5xx", words.join(", "))),
                        );
                    }
                },
            }
        }
        if config.conditions.is_empty() {
            faults.push(Fault::new("/conditions", "without a condition it never answers").help("try [connect, timeout, 5xx]"));
        }
        let mut headers = Vec::new();
        for (text, value) in &config.respond.headers {
            let pointer = format!("/respond/headers/{}", text.replace('~', "~0").replace('/', "~1"));
            let name = HeaderName::from_bytes(text.as_bytes())
                .ok()
                .filter(|it| !matches!(it.as_str(), "content-length" | "transfer-encoding" | "connection"));
            match (name, env.template(&pointer, value, Context::Header)) {
                (Some(name), Ok(value)) => headers.push((name, value)),
                (None, _) => faults.push(Fault::new(pointer, format!("'{text}' is no header that can be set here"))),
                (_, Err(it)) => faults.extend(it),
            }
        }
        let status = StatusCode::from_u16(config.respond.status).ok().filter(|it| (200..600).contains(&it.as_u16()));
        let body = config.respond.body.map(|it| env.json("/respond/body", &it)).transpose().map_err(|it| faults.extend(it)).ok().flatten();
        if status.is_none() {
            faults.push(Fault::new("/respond/status", format!("{} is no final HTTP status", config.respond.status)));
        }
        let Some(status) = status.filter(|_| faults.is_empty()) else { return Err(faults) };
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        Ok(Self {
            errors: errors.into(),
            statuses: statuses.into(),
            status,
            headers: headers.into(),
            body,
            used: env.meter.counter("allium_fallback_used_total", "Answers given in place of a backend that failed.", &labels),
            failed: env.meter.counter("allium_fallback_failed_total", "Fallbacks whose own answer could not be made.", &labels),
        })
    }
}

/// `503` or `5xx`, as a range.
fn status_class(text: &str) -> Option<(u16, u16)> {
    if let Some(class) = text.strip_suffix("xx").or(text.strip_suffix("XX")) {
        let class: u16 = class.parse().ok().filter(|it| (1..6).contains(it))?;
        return Some((class * 100, class * 100 + 99));
    }
    text.parse().ok().filter(|it| text.len() == 3 && (100..600).contains(it)).map(|it| (it, it))
}

impl Fallback {
    fn holds(&self, outcome: &Outcome) -> bool {
        let (status, error) = match outcome {
            Ok(it) => (it.status(), None),
            Err(it) => (it.status(), it.call),
        };
        error.is_some_and(|it| self.errors.contains(&it)) || self.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status.as_u16()))
    }

    fn answer(&self, ex: &Exchange) -> Option<Response> {
        let scope = ex.scope();
        let mut answer = Response::new(Body::Empty);
        *answer.status_mut() = self.status;
        if let Some(it) = &self.body {
            *answer.body_mut() = Body::Full(it.render(&scope).ok()?);
            answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        }
        for (name, value) in &self.headers {
            if let Some(it) = value.header(&scope).ok()? {
                answer.headers_mut().insert(name, it);
            }
        }
        Some(answer)
    }
}

impl Filter for Fallback {
    fn response(&self, ex: &mut Exchange, outcome: &mut Outcome) {
        if !self.holds(outcome) {
            return;
        }
        match self.answer(ex) {
            Some(answer) => {
                self.used.add(1);
                *outcome = Ok(answer);
            }
            // What the backend said is better than nothing.
            None => self.failed.add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::{Kind, Problem, catalog::filter, testkit::Bench};
    use serde_json::json;

    use super::*;

    async fn check(conditions: serde_json::Value, outcome: fn() -> Outcome, status: u16) {
        let config = json!({"conditions": conditions, "respond": {"status": 203, "headers": {"x-why": "spare ${request.method}"}, "body": {"path": "${request.path}"}}});
        let answer = Bench::around(&filter::<Fallback>(), config, move |_| outcome()).send(http::Request::new(Body::Empty)).await;
        assert_eq!(answer.status(), status);
        if status == 203 {
            assert_eq!(answer.headers()["x-why"], "spare GET");
            let Body::Full(body) = answer.into_body() else { panic!("a body was given") };
            assert_eq!(&body[..], br#"{"path":"/"}"#);
        }
    }
    fn failed(error: CallError) -> Outcome {
        Err(Problem::call(error, "test"))
    }
    fn answered(status: u16) -> Outcome {
        Ok(http::Response::builder().status(status).body(Body::Empty).unwrap())
    }

    #[tokio::test]
    async fn it_answers_when_a_condition_holds_and_only_then() {
        check(json!(["connect"]), || failed(CallError::Tls), 203).await;
        check(json!(["connect"]), || failed(CallError::Reset), 502).await;
        check(json!(["timeout"]), || failed(CallError::ReadTimeout), 203).await;
        check(json!(["read_timeout"]), || failed(CallError::Timeout), 504).await;
        check(json!(["5xx"]), || answered(599), 203).await;
        check(json!(["5xx"]), || failed(CallError::Connect), 203).await;
        check(json!([503, "404"]), || answered(404), 203).await;
        check(json!([503, "404"]), || answered(500), 500).await;
        check(json!(["403"]), || Err(Problem::new(Kind::Forbidden, "no")), 203).await;
    }

    #[test]
    fn every_mistake_is_told() {
        let faults = Bench::faults(
            &filter::<Fallback>(),
            json!({"conditions": ["conect", 99, "6xx"], "respond": {"status": 100, "headers": {"content-length": "1"}, "body": "${nope}"}}),
        );
        let told: Vec<_> = faults.iter().map(|it| it.pointer.as_str()).collect();
        assert_eq!(
            told,
            ["/conditions/0", "/conditions/1", "/conditions/2", "/respond/headers/content-length", "/respond/body", "/respond/status"]
        );
    }
}
