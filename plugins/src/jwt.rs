//! Says who is calling by a signed token (RFC 7519).
mod keys;

use std::{collections::BTreeMap, sync::Arc, time::UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use contract::{
    Exchange, Kind, Problem, Value,
    caller::{Apps, Authenticator, Proof, Terms, WrittenTerms},
    catalog::{Configure, Fault, RingNotes},
    env::{Clock, Env},
    exchange::Caller,
};
use http::{
    HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};
use schemas::units::Duration;

use self::keys::{Algorithm, Keys};

/// The authenticator.
pub struct Jwt {
    apps: Arc<dyn Apps>,
    clock: Arc<dyn Clock>,
    keys: Keys,
    algorithms: Box<[Algorithm]>,
    issuers: Box<[String]>,
    audiences: Box<[String]>,
    leeway: f64,
    scopes: Box<str>,
    app: Option<Box<str>>,
    terms: Terms,
}

/// # Config
/// The token comes in `authorization: Bearer …`. Expressions see its claims as `auth.claims`, its `sub` as `auth.subject`.
/// One without `exp` is refused.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whose signatures are taken.
    pub jwks: KeySet,
    /// How tokens may be signed, whatever they say themselves. Shared secrets (`HS…`) and public keys do not go together.
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<Algorithm>,
    /// Who may have issued the token: its `iss` is one of these.
    #[serde(default)]
    pub issuer: OneOrMore,
    /// For whom it must have been issued: its `aud` has one of these.
    #[serde(default)]
    pub audience: OneOrMore,
    /// How far the clocks of issuer and gateway may be apart.
    #[serde(default = "default_leeway")]
    pub leeway: Duration,
    /// The claim that becomes `auth.scopes`: a list, or words in one text.
    #[serde(default = "default_scopes")]
    pub scopes_claim: String,
    /// The claim that names the App, such as `azp`; it sets `app` and `plan`. A token that names no App of the definitions is refused.
    #[serde(default)]
    pub app_claim: Option<String>,
    /// A request without a token goes on, and `auth`, `app` and `plan` are null, unless a ring further in finds who is calling.
    #[serde(default)]
    pub optional: bool,
    /// The backend gets the token too; otherwise it is taken out of the request.
    #[serde(default)]
    pub keep: bool,
    /// A condition on who was found, such as `'orders.read' in auth.scopes`; 403 where it is not true.
    #[serde(default)]
    pub allow: Option<String>,
    /// Headers that tell the backend who is calling; values may hold `${…}`, as in `x-user: "${auth.subject}"`. A client's own are removed.
    #[serde(default)]
    pub tell: BTreeMap<String, String>,
}

/// A set of keys.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeySet {
    /// A file with a JSON Web Key Set (RFC 7517), relative to the folder of `allium.yaml`.
    pub file: String,
}

/// One text, or several.
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum OneOrMore {
    /// None, where the key is left out.
    #[default]
    None,
    /// One.
    One(String),
    /// Several.
    More(Vec<String>),
}

fn default_algorithms() -> Vec<Algorithm> {
    vec![Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA]
}

fn default_leeway() -> Duration {
    Duration(std::time::Duration::from_secs(30))
}

fn default_scopes() -> String {
    "scope".into()
}

impl OneOrMore {
    fn list(self) -> Box<[String]> {
        match self {
            Self::None => Box::default(),
            Self::One(it) => Box::new([it]),
            Self::More(it) => it.into(),
        }
    }
}

impl Configure for Jwt {
    type Config = Config;
    const NAME: &'static str = "jwt";
    const ABOUT: &'static str = "Says who is calling by a signed token.";
    const NOTES: RingNotes = RingNotes {
        reads: "the header `authorization`",
        answers: "401 without a token that is good, 403 where `allow` is not true",
        authenticates: true,
        rewrites_body: false,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let shared = config.algorithms.iter().filter(|it| it.is_shared()).count();
        if config.algorithms.is_empty() {
            faults.push(Fault::new("/algorithms", "an empty list takes no token").help("name one, such as RS256"));
        } else if shared != 0 && shared != config.algorithms.len() {
            let help = "write two rings, the outer one with `optional: true`";
            faults.push(Fault::new("/algorithms", "shared secrets and public keys do not go together").help(help));
        }
        let keys = (env.files)(&config.jwks.file)
            .map_err(|it| Fault::new("/jwks/file", it))
            .and_then(|it| Keys::parse(&it).map_err(|it| Fault::new("/jwks/file", format!("`{}`: {it}", config.jwks.file))));
        let keys = keys.unwrap_or_else(|it| {
            faults.push(it);
            Keys::default()
        });
        if faults.is_empty() && !keys.serve(&config.algorithms) {
            let names: Vec<_> = config.algorithms.iter().map(|it| it.name()).collect();
            faults.push(Fault::new("/algorithms", format!("no key of `{}` is for {}", config.jwks.file, names.join(", "))));
        }
        let (issuers, audiences) = (config.issuer.list(), config.audience.list());
        if audiences.is_empty() {
            let fault = Fault::new("", "every token that these keys sign is taken, whomever it was issued for");
            env.warn(fault.help("write `audience`, and it is taken only where it was issued for this API"));
        }
        let tell = config.tell.into_iter().collect();
        let written = WrittenTerms { optional: config.optional, keep: config.keep, allow: config.allow, tell };
        let terms = Terms::of(written, "Bearer", env).map_err(|it| faults.extend(it)).ok();
        let Some(terms) = terms.filter(|_| faults.is_empty()) else { return Err(faults) };
        Ok(Self {
            apps: env.apps.clone(),
            clock: env.clock.clone(),
            keys,
            algorithms: config.algorithms.into(),
            issuers,
            audiences,
            leeway: config.leeway.0.as_secs_f64(),
            scopes: config.scopes_claim.into(),
            app: config.app_claim.map(Into::into),
            terms,
        })
    }
}

/// The token of the header, where it is of this scheme.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (word, rest) = value.as_bytes().split_at_checked(7)?;
    word.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

impl Authenticator for Jwt {
    async fn prove(&self, ex: &Exchange) -> Proof {
        let mut all = ex.head.headers.get_all(AUTHORIZATION).iter();
        let (Some(first), second) = (all.next(), all.next()) else { return Proof::Absent };
        let Some(token) = bearer(first) else { return Proof::Absent };
        let judged = if second.is_some() { Err("there are two tokens") } else { self.judge(token) };
        match judged {
            Ok(it) => Proof::Of(it),
            Err(why) => {
                // RFC 6750 §3.1.
                let value = HeaderValue::from_static("Bearer error=\"invalid_token\"");
                Proof::Bad(Problem::new(Kind::Unauthenticated, why).reason("bad_token").header(WWW_AUTHENTICATE, value))
            }
        }
    }

    fn strip(&self, ex: &mut Exchange) {
        if ex.head.headers.get_all(AUTHORIZATION).iter().any(|it| bearer(it).is_some()) {
            ex.head.headers.remove(AUTHORIZATION);
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }
}

impl Jwt {
    /// Who a token says is calling. Its signature is looked at before anything that it claims.
    fn judge(&self, token: &[u8]) -> Result<Arc<Caller>, &'static str> {
        const MALFORMED: &str = "the token cannot be read";
        let mut dots = token.iter().enumerate().filter(|(_, it)| **it == b'.').map(|(at, _)| at);
        let (Some(first), Some(second), None) = (dots.next(), dots.next(), dots.next()) else { return Err(MALFORMED) };
        let decode = |it: &[u8]| URL_SAFE_NO_PAD.decode(it).map_err(|_| MALFORMED);
        let parse = |it: Vec<u8>| -> Result<serde_json::Map<String, serde_json::Value>, &'static str> {
            serde_json::from_slice(&it).map_err(|_| MALFORMED)
        };
        let head = parse(decode(&token[..first])?)?;
        // RFC 7515 §4.1.11: what must be understood and is not, refuses.
        if head.contains_key("crit") {
            return Err("the token has a critical extension that is not known here");
        }
        let name = head.get("alg").and_then(|it| it.as_str()).ok_or(MALFORMED)?;
        let algorithm =
            *self.algorithms.iter().find(|it| it.name() == name).ok_or("the token is signed in a way that is not allowed here")?;
        let id = match head.get("kid") {
            None => None,
            Some(it) => Some(it.as_str().ok_or(MALFORMED)?),
        };
        let signature = decode(&token[second + 1..])?;
        if !self.keys.signed(algorithm, id, &token[..second], &signature) {
            return Err("the token is not signed by a key that is known here");
        }
        let claims = parse(decode(&token[first + 1..second])?)?;
        self.hold(&claims)?;
        let subject = match claims.get("sub") {
            None => Value::Null,
            Some(serde_json::Value::String(it)) => Value::text(it.as_str()),
            Some(_) => return Err(MALFORMED),
        };
        let scopes = match claims.get(&*self.scopes) {
            Some(serde_json::Value::String(it)) => Value::List(it.split_ascii_whitespace().map(Value::text).collect()),
            Some(it @ serde_json::Value::Array(_)) => Value::from(it),
            _ => Value::List(Vec::new()),
        };
        let (app, plan) = match &self.app {
            None => (Value::Null, Value::Null),
            Some(claim) => {
                let apps = self.apps.now();
                let it = claims.get(&**claim).and_then(|it| it.as_str()).and_then(|it| apps.named(it));
                let it = it.ok_or("the token names no app that is known here")?;
                (it.app.clone(), it.plan.clone())
            }
        };
        let claims = Value::from(&serde_json::Value::Object(claims));
        let auth = Value::Map(vec![("subject".into(), subject), ("scopes".into(), scopes), ("claims".into(), claims)]);
        Ok(Arc::new(Caller { auth, app, plan }))
    }

    /// The registered claims (RFC 7519 §4.1). One of a wrong type is as bad as one that is past.
    fn hold(&self, claims: &serde_json::Map<String, serde_json::Value>) -> Result<(), &'static str> {
        const TYPE: &str = "a claim of the token is of a wrong type";
        let time = |name: &str| claims.get(name).map(|it| it.as_f64().filter(|it| it.is_finite()).ok_or(TYPE)).transpose();
        let now = self.clock.wall().duration_since(UNIX_EPOCH).map_or(0.0, |it| it.as_secs_f64());
        if time("exp")?.ok_or("the token has no end")? + self.leeway <= now {
            return Err("the token has expired");
        }
        if time("nbf")?.is_some_and(|it| it > now + self.leeway) {
            return Err("the token is not good yet");
        }
        if time("iat")?.is_some_and(|it| it > now + self.leeway) {
            return Err("the token is from the future");
        }
        let text = |it: &serde_json::Value| it.as_str().map(str::to_owned).ok_or(TYPE);
        let issuer = claims.get("iss").map(text).transpose()?;
        if !self.issuers.is_empty() && issuer.is_none_or(|it| !self.issuers.contains(&it)) {
            return Err("the token is of another issuer");
        }
        let audience = match claims.get("aud") {
            None => Vec::new(),
            Some(serde_json::Value::Array(it)) => it.iter().map(text).collect::<Result<_, _>>()?,
            Some(it) => vec![text(it)?],
        };
        if !self.audiences.is_empty() && !audience.iter().any(|it| self.audiences.contains(it)) {
            return Err("the token is for another audience");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
