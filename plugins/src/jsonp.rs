//! Answers as JSONP, for pages too old for CORS.
use contract::{
    Body, BodyError, Exchange, Kind, Outcome, Problem,
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    json::JsonView,
    meter::Counter,
    onion::{Next, Plugin},
    scope::{is_json, media_type, pairs},
};
use http::{HeaderValue, Method, header};
use schemas::units::Size;

/// The ring.
pub struct Jsonp {
    param: Box<str>,
    max_size: usize,
    wrapped: Counter,
    refused: Counter,
}

/// # Config
/// A GET that names a callback gets `/**/callback(…);` in place of the JSON. One that carries cookies is refused: any site could read its answer.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The parameter of the query that names the callback; it does not go further in.
    #[serde(default = "default_param")]
    pub param: String,
    /// The largest answer that is wrapped.
    #[serde(default = "default_size")]
    pub max_size: Size,
}

fn default_param() -> String {
    "callback".into()
}

fn default_size() -> Size {
    Size(1 << 20)
}

/// The longest name of a callback.
const LONGEST: usize = 64;

impl Configure for Jsonp {
    type Config = Config;
    const NAME: &'static str = "jsonp";
    const ABOUT: &'static str = "Answers as JSONP, for pages too old for CORS.";
    const NOTES: RingNotes = RingNotes {
        reads: "the callback's name in the query, the answer's body",
        answers: "400 for a name that is none, 403 for a request with cookies",
        authenticates: false,
        rewrites_body: true,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        if config.param.is_empty() {
            return Err(vec![Fault::new("/param", "a parameter has a name").help("callback")]);
        }
        let labels = [("owner", &*env.scope.owner), ("ring", &*env.scope.name)];
        Ok(Self {
            param: config.param.into(),
            max_size: config.max_size.0 as usize,
            wrapped: env.meter.counter("allium_jsonp_wrapped_total", "Answers given as JSONP.", &labels),
            refused: env.meter.counter("allium_jsonp_refused_total", "Requests for JSONP that were refused.", &labels),
        })
    }
}

impl Jsonp {
    /// The callback that is asked for; and the query without it, every other byte as it was.
    fn taken(&self, query: &str) -> Result<Option<(String, String)>, Box<Problem>> {
        let named = |piece: &&str| pairs(piece.as_bytes()).next().is_some_and(|(name, _)| *name == *self.param);
        let mut found = query.split('&').filter(named);
        let Some(first) = found.next() else { return Ok(None) };
        let name = pairs(first.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default();
        let fits = |it: u8| it.is_ascii_alphanumeric() || b"_.$[]".contains(&it);
        if found.next().is_some() || name.is_empty() || name.len() > LONGEST || !name.bytes().all(fits) {
            return Err(Problem::new(Kind::Invalid, format!("{} is no name of a callback", self.param)).reason("jsonp"));
        }
        let rest: Vec<&str> = query.split('&').filter(|it| !named(it)).collect();
        Ok(Some((name, rest.join("&"))))
    }

    async fn wrap(&self, callback: &str, outcome: Outcome) -> Outcome {
        let mut answer = outcome?;
        // A browser runs nothing that says it is something else.
        answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if !is_json(&media_type(answer.headers())) {
            return Ok(answer);
        }
        let broken =
            |why: &'static str| Problem::new(Kind::Upstream, "the backend's answer could not be made JSONP").because(why).reason("jsonp");
        let coded = |it: &HeaderValue| !it.as_bytes().eq_ignore_ascii_case(b"identity");
        if answer.headers().get_all(header::CONTENT_ENCODING).iter().any(coded) {
            return Err(broken("it is compressed, though it was asked not to be"));
        }
        let bytes = answer.body_mut().bytes(self.max_size).await.map_err(BodyError::of_response)?.clone();
        if bytes.is_empty() {
            return Ok(answer);
        }
        // What is not JSON might be a script.
        let view = JsonView::parse(bytes).map_err(|_| broken("it is no JSON"))?;
        let mut out = Vec::with_capacity(view.bytes().len() + callback.len() + 8);
        out.extend_from_slice(b"/**/");
        out.extend_from_slice(callback.as_bytes());
        out.push(b'(');
        push_script(view.bytes(), &mut out);
        out.extend_from_slice(b");");
        for name in [header::CONTENT_LENGTH, header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES] {
            answer.headers_mut().remove(name);
        }
        let script = HeaderValue::from_static("application/javascript; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, script);
        *answer.body_mut() = Body::Full(out.into());
        self.wrapped.add(1);
        Ok(answer)
    }
}

/// JSON as a script may hold it: U+2028 and U+2029 end a line in older ones.
fn push_script(json: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&json[at..], b"\xe2\x80") {
        let end = at + found;
        out.extend_from_slice(&json[at..end]);
        match json.get(end + 2) {
            Some(0xa8) => out.extend_from_slice(b"\\u2028"),
            Some(0xa9) => out.extend_from_slice(b"\\u2029"),
            _ => out.extend_from_slice(&json[end..(end + 3).min(json.len())]),
        }
        at = (end + 3).min(json.len());
    }
    out.extend_from_slice(&json[at..]);
}

impl Plugin for Jsonp {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        let asked = match ex.query() {
            Some(query) if ex.head.method == Method::GET => self.taken(query).inspect_err(|_| self.refused.add(1))?,
            _ => None,
        };
        let Some((callback, rest)) = asked else { return next.run(ex).await };
        if ex.head.headers.contains_key(header::COOKIE) {
            self.refused.add(1);
            return Err(Problem::new(Kind::Forbidden, "JSONP is not given to requests with cookies").reason("jsonp"));
        }
        let mut parts = ex.head.uri.clone().into_parts();
        let target = if rest.is_empty() { ex.path().to_owned() } else { format!("{}?{rest}", ex.path()) };
        parts.path_and_query = target.parse().ok();
        if let Ok(uri) = http::Uri::from_parts(parts) {
            ex.head.uri = uri;
        }
        let asked = ex.head.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let outcome = next.run(ex).await;
        match asked {
            Some(it) => drop(ex.head.headers.insert(header::ACCEPT_ENCODING, it)),
            None => drop(ex.head.headers.remove(header::ACCEPT_ENCODING)),
        }
        self.wrap(&callback, outcome).await
    }
}

#[cfg(test)]
mod tests {
    use contract::{catalog::plugin, testkit::Bench};
    use serde_json::json;

    use super::*;

    async fn asked(target: &str, headers: &[(&str, &str)], body: &'static str) -> (u16, String, String) {
        let upstream = move |ex: &mut Exchange| {
            let seen = HeaderValue::from_str(&ex.head.uri.to_string()).unwrap();
            Ok(http::Response::builder().header("content-type", "application/json").header("x-seen", seen).body(body.into()).unwrap())
        };
        let mut request = http::Request::builder().uri(target);
        for (name, value) in headers {
            request = if *name == ":method" { request.method(*value) } else { request.header(*name, *value) };
        }
        let bench = Bench::around(&plugin::<Jsonp>(), json!({}), upstream);
        let mut answer = bench.send(request.body(Body::Empty).unwrap()).await;
        let text = String::from_utf8(answer.body_mut().bytes(1000).await.unwrap().to_vec()).unwrap();
        let seen = answer.headers().get("x-seen").map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default();
        if text.starts_with("/**/") {
            assert_eq!(answer.headers()["content-type"], "application/javascript; charset=utf-8");
            assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        }
        (answer.status().as_u16(), seen, text)
    }

    #[tokio::test]
    async fn a_callback_gets_a_script_and_does_not_go_further_in() {
        let (status, seen, text) = asked("/a?x=%zz&callback=jQuery.cb%5B1%5D&&y", &[], "{\"a\":\"\u{2028}\u{2029}\u{2014}\"}").await;
        assert_eq!((status, &*seen), (200, "/a?x=%zz&&y"));
        assert_eq!(text, "/**/jQuery.cb[1]({\"a\":\"\\u2028\\u2029\u{2014}\"});");
        assert_eq!(asked("/a?callback=f", &[], "[1]").await, (200, "/a".into(), "/**/f([1]);".into()));
        assert_eq!(asked("/a?x=1", &[], "[1]").await, (200, "/a?x=1".into(), "[1]".into()));
        assert_eq!(asked("/a?callback=f", &[(":method", "POST")], "[1]").await.2, "[1]");
    }

    #[tokio::test]
    async fn what_could_run_something_else_is_refused() {
        let long = format!("/a?callback={}", "f".repeat(65));
        for target in
            ["/a?callback=", "/a?callback=alert(1)", "/a?callback=f;g", "/a?callback=%3Cscript%3E", "/a?callback=f&callback=g", &long]
        {
            assert_eq!(asked(target, &[], "[1]").await.0, 400, "{target}");
        }
        assert_eq!(asked("/a?callback=f", &[("cookie", "a=b")], "[1]").await.0, 403);
        assert_eq!(asked("/a?callback=f", &[], "alert(1)").await.0, 502);
    }
}
