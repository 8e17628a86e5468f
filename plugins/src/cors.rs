//! Lets pages of other origins call: answers preflights, and marks answers for the browser.
//!
//! Source: the Fetch standard, "HTTP-CORS protocol".
use contract::{
    Body, Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    meter::Counter,
    onion::{Filter, Flow, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use schemas::units::Duration;

/// The ring.
pub struct Cors {
    origins: Origins,
    /// `Access-Control-Allow-Methods`, written once.
    methods: HeaderValue,
    headers: Headers,
    expose: Option<HeaderValue>,
    credentials: bool,
    max_age: HeaderValue,
    refused: Counter,
}

const ORIGIN: HeaderValue = HeaderValue::from_static("origin");
/// What a backend has no say in.
const DECIDED: &[HeaderName] = &[
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

enum Origins {
    Any,
    Some(Box<[Origin]>),
}

enum Origin {
    Exact(Box<str>),
    /// `https://*.example.com`: what stands before and after the star.
    Below(Box<str>, Box<str>),
}

enum Headers {
    /// Whatever the browser asks for.
    Asked,
    Named(Option<HeaderValue>),
}

/// # Config
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Origins whose pages may call: `https://app.example.com`, `https://*.example.com` (any depth below), `http://localhost:3000`, or `*` for all.
    pub origins: Vec<String>,
    /// Methods that a page may use. `GET`, `HEAD` and `POST` need no preflight, so they work even when they are not listed here.
    #[serde(default = "default_methods")]
    pub methods: Vec<String>,
    /// Request headers that a page may set beyond the plain ones; `*` allows whatever the browser asks for.
    #[serde(default = "default_headers")]
    pub headers: Vec<String>,
    /// Response headers that a page may read beyond the plain ones.
    #[serde(default = "default_expose")]
    pub expose: Vec<String>,
    /// Whether cookies and HTTP authentication may go along. Not together with the origin `*`.
    #[serde(default)]
    pub credentials: bool,
    /// How long a browser may remember a preflight's answer.
    #[serde(default = "default_max_age")]
    pub max_age: Duration,
}

fn default_methods() -> Vec<String> {
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map(String::from).into()
}
fn default_headers() -> Vec<String> {
    ["content-type", "authorization", "x-requested-with"].map(String::from).into()
}
fn default_expose() -> Vec<String> {
    vec!["x-request-id".into()]
}
fn default_max_age() -> Duration {
    Duration(std::time::Duration::from_secs(600))
}

impl Configure for Cors {
    type Config = Config;
    const NAME: &'static str = "cors";
    const ABOUT: &'static str = "Lets pages of other origins call: answers preflights, and marks answers for the browser.";
    const NOTES: RingNotes = RingNotes {
        reads: "Origin and the preflight's headers",
        answers: "204 to a preflight",
        authenticates: false,
        rewrites_body: false,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let any = config.origins.iter().any(|it| it == "*");
        let mut origins = Vec::new();
        for (at, text) in config.origins.iter().enumerate().filter(|(_, it)| *it != "*") {
            match origin(text) {
                Ok(it) => origins.push(it),
                Err(it) => faults.push(Fault { pointer: format!("/origins/{at}"), ..it }),
            }
        }
        if config.origins.is_empty() {
            faults.push(Fault::new("/origins", "an empty list lets no page call").help("name an origin, or `*` for all"));
        }
        if any && config.credentials {
            let why = "`*` and `credentials` together would let every page act as its visitor";
            faults.push(Fault::new("/credentials", why).help("name the origins that may"));
        }
        if any && config.origins.len() > 1 {
            env.warn(Fault::new("/origins", "`*` allows all, so the other origins mean nothing"));
        }
        for (at, it) in config.methods.iter().enumerate() {
            if Method::from_bytes(it.as_bytes()).is_err() || it.bytes().any(|it| it.is_ascii_lowercase()) {
                faults.push(
                    Fault::new(format!("/methods/{at}"), format!("'{it}' is no method"))
                        .help(format!("methods are written in capitals: {}", it.to_uppercase())),
                );
            }
        }
        for (key, list) in [("headers", &config.headers), ("expose", &config.expose)] {
            for (at, it) in list.iter().enumerate() {
                if it != "*" && HeaderName::from_bytes(it.as_bytes()).is_err() {
                    faults.push(Fault::new(format!("/{key}/{at}"), format!("'{it}' is no header name")));
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let list = |it: &[String]| HeaderValue::from_str(&it.join(", ")).ok().filter(|it| !it.is_empty());
        Ok(Self {
            origins: if any { Origins::Any } else { Origins::Some(origins.into()) },
            methods: list(&config.methods).unwrap_or(HeaderValue::from_static("GET")),
            headers: if config.headers.iter().any(|it| it == "*") { Headers::Asked } else { Headers::Named(list(&config.headers)) },
            expose: list(&config.expose),
            credentials: config.credentials,
            max_age: HeaderValue::from(config.max_age.0.as_secs()),
            refused: env.meter.counter(
                "allium_cors_refused_total",
                "Preflights from origins that are not allowed.",
                &[("owner", &env.scope.owner), ("ring", &env.scope.name)],
            ),
        })
    }
}

fn origin(text: &str) -> Result<Origin, Fault> {
    let fault = |help: &str| Fault::new("", format!("'{text}' is no origin")).help(help);
    let Some((scheme, host)) = text.split_once("://") else {
        return Err(fault("an origin has a scheme: https://app.example.com"));
    };
    if host.is_empty() || scheme.is_empty() || host.contains(['/', '?', '#', ' ', '@']) {
        return Err(fault("an origin is scheme, host and port, and nothing behind them"));
    }
    let lower = text.to_ascii_lowercase();
    match lower.split_once('*') {
        None => Ok(Origin::Exact(lower.into())),
        Some((before, after)) if before.ends_with("://") && after.starts_with('.') && !after.contains('*') && after.len() > 1 => {
            Ok(Origin::Below(before.into(), after.into()))
        }
        Some(_) => Err(fault("a star stands for whole labels at the beginning: https://*.example.com")),
    }
}

impl Origin {
    fn matches(&self, origin: &[u8]) -> bool {
        // As browsers write it, in lower case, it is equal to the byte.
        let same = |a: &[u8], b: &str| a == b.as_bytes() || a.eq_ignore_ascii_case(b.as_bytes());
        match self {
            Self::Exact(it) => same(origin, it),
            Self::Below(before, after) => {
                let Some(middle) = origin.len().checked_sub(before.len() + after.len()).filter(|it| *it > 0) else { return false };
                let (head, rest) = origin.split_at(before.len());
                let (labels, tail) = rest.split_at(middle);
                same(head, before)
                    && same(tail, after)
                    && labels.iter().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_'))
            }
        }
    }
}

impl Cors {
    /// What `Access-Control-Allow-Origin` says to this request, if its origin may call.
    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        match &self.origins {
            Origins::Any => Some(HeaderValue::from_static("*")),
            Origins::Some(list) => list.iter().any(|it| it.matches(origin.as_bytes())).then(|| origin.clone()),
        }
    }

    /// Caches must keep the answers to different origins apart.
    fn vary(&self, headers: &mut HeaderMap) {
        if matches!(self.origins, Origins::Some(_)) {
            if !headers.keys().any(|it| *it == header::VARY) {
                headers.append(header::VARY, ORIGIN);
                return;
            }
            let known = headers
                .get_all(header::VARY)
                .iter()
                .filter_map(|it| it.to_str().ok())
                .flat_map(|it| it.split(','))
                .any(|it| it.trim() == "*" || it.trim().eq_ignore_ascii_case("origin"));
            if !known {
                headers.append(header::VARY, ORIGIN);
            }
        }
    }

    fn mark(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        // What the backend said about origins is replaced: this ring decides.
        if answer.keys().any(|it| it.as_str().starts_with("access-control-")) {
            for name in DECIDED {
                answer.remove(name);
            }
        }
        self.vary(answer);
        let Some(origin) = self.allowed(request) else { return };
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Some(it) = &self.expose {
            answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, it.clone());
        }
    }
}

impl Filter for Cors {
    fn request(&self, ex: &mut Exchange) -> Flow {
        if !ex.preflight {
            return Ok(None);
        }
        let Some(origin) = self.allowed(&ex.head.headers) else {
            self.refused.add(1);
            let mut problem = Problem::new(Kind::Forbidden, "this origin may not call this API").reason("cors");
            self.vary(&mut problem.headers);
            return Err(problem);
        };
        let mut answer = Response::new(Body::Empty);
        *answer.status_mut() = StatusCode::NO_CONTENT;
        let headers = answer.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone());
        let asked = ex.head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        let allowed = match &self.headers {
            Headers::Asked => asked.cloned(),
            Headers::Named(it) => it.clone(),
        };
        if let Some(it) = allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, it);
        }
        if matches!(self.headers, Headers::Asked) {
            headers.append(header::VARY, HeaderValue::from_static("access-control-request-headers"));
        }
        if self.credentials {
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        self.vary(headers);
        Ok(Some(answer))
    }

    fn response(&self, ex: &mut Exchange, outcome: &mut Outcome) {
        // A problem is dressed too: a page must be able to read why it was refused.
        let answer = match outcome {
            Ok(it) => it.headers_mut(),
            Err(it) => &mut it.headers,
        };
        self.mark(&ex.head.headers, answer);
    }

    fn preflight(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use contract::{catalog::filter, testkit::Bench};
    use serde_json::{Value, json};

    use super::*;

    fn request(origin: &str, preflight: bool) -> http::Request<Body> {
        let mut it = http::Request::builder().header("origin", origin);
        if preflight {
            it = it.method("OPTIONS").header("access-control-request-method", "PUT").header("access-control-request-headers", "x-a, x-b");
        }
        it.body(Body::Empty).unwrap()
    }
    async fn check(config: Value, request: http::Request<Body>, status: u16, expect: &[(&str, &str)]) {
        let answer = Bench::of(&filter::<Cors>(), config).send(request).await;
        let mut seen: Vec<_> = answer
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .filter(|(name, _)| name.starts_with("access-control") || *name == "vary")
            .collect();
        seen.sort();
        assert_eq!((answer.status().as_u16(), seen.as_slice()), (status, expect));
    }

    #[tokio::test]
    async fn a_preflight_is_answered_here() {
        let expect = [
            ("access-control-allow-headers", "content-type, authorization, x-requested-with"),
            ("access-control-allow-methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
            ("access-control-allow-origin", "https://app.example.com"),
            ("access-control-max-age", "600"),
            ("vary", "origin"),
        ];
        check(json!({"origins": ["https://*.example.com"]}), request("https://app.example.com", true), 204, &expect).await;
    }

    #[tokio::test]
    async fn whatever_is_asked_for_can_be_allowed() {
        let expect = [
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-headers", "x-a, x-b"),
            ("access-control-allow-methods", "PUT"),
            ("access-control-allow-origin", "https://a.b"),
            ("access-control-max-age", "60"),
            ("vary", "access-control-request-headers"),
            ("vary", "origin"),
        ];
        check(
            json!({"origins": ["https://a.b"], "methods": ["PUT"], "headers": ["*"], "credentials": true, "max_age": "1m"}),
            request("https://a.b", true),
            204,
            &expect,
        )
        .await;
    }

    #[tokio::test]
    async fn answers_are_marked_for_allowed_origins_only() {
        let marked =
            [("access-control-allow-origin", "https://a.b"), ("access-control-expose-headers", "x-request-id"), ("vary", "origin")];
        check(json!({"origins": ["https://a.b"]}), request("https://a.b", false), 200, &marked).await;
        check(json!({"origins": ["https://a.b"]}), request("https://evil.b", false), 200, &[("vary", "origin")]).await;
        check(json!({"origins": ["https://a.b"]}), request("https://evil.b", true), 403, &[("vary", "origin")]).await;
        check(
            json!({"origins": ["*"]}),
            request("https://x.y", false),
            200,
            &[("access-control-allow-origin", "*"), ("access-control-expose-headers", "x-request-id")],
        )
        .await;
    }

    #[test]
    fn a_star_stands_for_whole_labels() {
        let below = origin("https://*.example.com").unwrap();
        for (text, want) in [
            ("https://a.example.com", true),
            ("https://a.b.example.com", true),
            ("HTTPS://A.EXAMPLE.COM", true),
            ("https://example.com", false),
            ("https://.example.com", false),
            ("https://evil.com/.example.com", false),
            ("https://evilexample.com", false),
            ("http://a.example.com", false),
            ("https://a.example.com.evil", false),
            ("null", false),
        ] {
            assert_eq!(below.matches(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn every_mistake_is_told() {
        let faults = |config| Bench::faults(&filter::<Cors>(), config).into_iter().map(|it| it.pointer).collect::<Vec<_>>();
        assert_eq!(
            faults(json!({"origins": ["example.com", "https://a.*.b", "https://a/b"], "methods": ["get"], "headers": ["a b"]})),
            ["/origins/0", "/origins/1", "/origins/2", "/methods/0", "/headers/0"]
        );
        assert_eq!(faults(json!({"origins": ["*"], "credentials": true})), ["/credentials"]);
        assert_eq!(faults(json!({"origins": []})), ["/origins"]);
    }
}
