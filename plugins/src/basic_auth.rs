//! Says who is calling by a user's name and password (RFC 7617).
use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use contract::{
    Exchange, Kind, Problem,
    caller::{Apps, Authenticator, Proof, Terms, WrittenTerms},
    catalog::{Configure, Fault, RingNotes},
    env::Env,
};
use http::{HeaderValue, header::AUTHORIZATION};

/// The authenticator.
pub struct BasicAuth {
    apps: Arc<dyn Apps>,
    terms: Terms,
}

/// # Config
/// An App is known by any `username` with its `password` among its `credentials`. The password crosses the wire as it is: use it over TLS only.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What browsers show when they ask for the password.
    #[serde(default = "default_realm")]
    pub realm: String,
    /// A request without a name and a password goes on, and `auth`, `app` and `plan` are null, unless a ring further in finds who is calling.
    #[serde(default)]
    pub optional: bool,
    /// The backend gets name and password too; otherwise they are taken out of the request.
    #[serde(default)]
    pub keep: bool,
    /// A condition on who was found, such as `'orders.read' in app.scopes`; 403 where it is not true.
    #[serde(default)]
    pub allow: Option<String>,
    /// Headers that tell the backend who is calling; values may hold `${…}`, as in `x-app: "${app.name}"`. A client's own are removed.
    #[serde(default)]
    pub tell: BTreeMap<String, String>,
}

fn default_realm() -> String {
    "api".into()
}

impl Configure for BasicAuth {
    type Config = Config;
    const NAME: &'static str = "basic-auth";
    const ABOUT: &'static str = "Says who is calling by a user's name and password.";
    const NOTES: RingNotes = RingNotes {
        reads: "the header `authorization`",
        answers: "401 without a known user and password, 403 where `allow` is not true",
        authenticates: true,
        rewrites_body: false,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        if config.realm.contains(['"', '\\']) {
            return Err(vec![Fault::new("/realm", "a realm has no quotes and no backslashes")]);
        }
        let tell = config.tell.into_iter().collect();
        let written = WrittenTerms { optional: config.optional, keep: config.keep, allow: config.allow, tell };
        let terms = Terms::of(written, &format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm), env)?;
        Ok(Self { apps: env.apps.clone(), terms })
    }
}

/// The credentials of the header, where it is of this scheme.
fn credentials(value: &HeaderValue) -> Option<&[u8]> {
    let (word, rest) = value.as_bytes().split_at_checked(6)?;
    word.eq_ignore_ascii_case(b"basic ").then(|| rest.trim_ascii())
}

impl Authenticator for BasicAuth {
    async fn prove(&self, ex: &Exchange) -> Proof {
        let bad = || Proof::Bad(Problem::new(Kind::Unauthenticated, "name and password do not fit").reason("bad_password"));
        let mut all = ex.head.headers.get_all(AUTHORIZATION).iter();
        let (Some(first), second) = (all.next(), all.next()) else { return Proof::Absent };
        let Some(given) = credentials(first) else { return Proof::Absent };
        if second.is_some() {
            return bad();
        }
        let Ok(decoded) = STANDARD.decode(given) else { return bad() };
        let Some(colon) = decoded.iter().position(|it| *it == b':') else { return bad() };
        let Ok(name) = std::str::from_utf8(&decoded[..colon]) else { return bad() };
        match self.apps.now().by_user(name, &decoded[colon + 1..]) {
            Some(it) => Proof::Of(it.caller.clone()),
            None => bad(),
        }
    }

    fn strip(&self, ex: &mut Exchange) {
        if ex.head.headers.get_all(AUTHORIZATION).iter().any(|it| credentials(it).is_some()) {
            ex.head.headers.remove(AUTHORIZATION);
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }
}

#[cfg(test)]
mod tests {
    use contract::{
        Body, Value,
        caller::{Directory, Profile},
        catalog::authenticator,
        testkit::Bench,
    };
    use http::header::WWW_AUTHENTICATE;
    use serde_json::json;

    use super::*;

    fn bench(config: serde_json::Value) -> Bench {
        let mut apps = Directory::default();
        let app = Profile::new("acme", Value::Map(vec![("name".into(), Value::text("acme"))]), Value::Null);
        apps.add_user(&app, "ada", b"p:1").unwrap();
        apps.add_user(&app, "ada", "p\u{e4}".as_bytes()).unwrap();
        Bench::knowing(apps, &authenticator::<BasicAuth>(), config, |ex| {
            let mut it = http::Response::new(Body::Empty);
            it.headers_mut().extend(ex.head.headers.get(AUTHORIZATION).map(|it| (http::header::WARNING, it.clone())));
            Ok(it)
        })
    }

    #[tokio::test]
    async fn a_user_is_known_by_each_of_its_passwords() {
        let given = |text: &str| format!("Basic {}", STANDARD.encode(text));
        let bench = bench(json!({}));
        for (value, status) in [
            (given("ada:p:1"), 200),
            (given("ada:p\u{e4}"), 200),
            (given("ada:p:1").replace("Basic", "bASIC"), 200),
            (given("ada:p"), 401),
            (given("ada:"), 401),
            (given("bob:p:1"), 401),
            (given("ada"), 401),
            ("Basic %%%".into(), 401),
            ("Basic ".into(), 401),
            ("Bearer x".into(), 401),
        ] {
            let answer = bench.send(http::Request::builder().header(AUTHORIZATION, &value).body(Body::Empty).unwrap()).await;
            assert_eq!(answer.status().as_u16(), status, "{value}");
            let challenge = answer.headers().get(WWW_AUTHENTICATE).map(|it| it.to_str().unwrap());
            assert_eq!(challenge, (status == 401).then_some("Basic realm=\"api\", charset=\"UTF-8\""), "{value}");
            assert_eq!(answer.headers().get(http::header::WARNING), None, "the backend does not get the password");
        }
    }

    #[test]
    fn a_realm_that_ends_its_own_quotes_is_refused() {
        assert_eq!(Bench::faults(&authenticator::<BasicAuth>(), json!({"realm": "a\"b"}))[0].pointer, "/realm");
    }
}
