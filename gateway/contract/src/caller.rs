//! Who is calling: how a ring learns it, what it lets pass, and what the backend is told.
use std::{collections::HashMap, future::Future, hash::BuildHasher, sync::Arc};

use http::{HeaderName, HeaderValue, header};

use crate::{
    Exchange, Kind, Outcome, Problem,
    catalog::Fault,
    env::Env,
    exchange::Caller,
    expression::{Context, Expression, Template},
    meter::Counter,
    onion::{Next, Plugin},
    value::Value,
};

/// What a look at a request came to.
pub enum Proof {
    /// It brings nothing of this kind: another ring may know another.
    Absent,
    /// It proves who is calling.
    Of(Arc<Caller>),
    /// It brings something of this kind that proves nothing: refused, whatever other rings would say.
    Bad(Box<Problem>),
}

/// One way to prove who is calling. All else that an authenticating ring does is [`Authenticated`]'s.
pub trait Authenticator: Send + Sync + 'static {
    /// Looks at the request; changes nothing of it.
    fn prove(&self, ex: &Exchange) -> impl Future<Output = Proof>;
    /// Takes out of the request what only the gateway was to see.
    fn strip(&self, ex: &mut Exchange);
    /// What the ring's author asked for.
    fn terms(&self) -> &Terms;
}

/// What every authenticating ring has: whom it lets pass, and what the backend is told.
pub struct Terms {
    optional: bool,
    keep: bool,
    allow: Option<Expression>,
    tell: Box<[(HeaderName, Template)]>,
    /// `WWW-Authenticate` of a refusal (RFC 9110 §11.6.1).
    challenge: HeaderValue,
    passed: Counter,
    anonymous: Counter,
    refused: Counter,
    forbidden: Counter,
}

/// The keys that every authenticating ring's `Config` has.
#[derive(Default)]
pub struct WrittenTerms {
    /// A request without a proof of this kind goes on.
    pub optional: bool,
    /// The backend gets the proof too.
    pub keep: bool,
    /// A condition on who was found.
    pub allow: Option<String>,
    /// Headers for the backend.
    pub tell: Vec<(String, String)>,
}

/// The ring around an [`Authenticator`].
///
/// A caller that a ring further out has found is kept, and this ring's proof is not asked for: rings with `optional`, one inside the
/// other, are "any of", and the innermost without it says that one is needed.
pub struct Authenticated<A>(pub A);

// === impl Terms ===

impl Terms {
    /// From what was written; `challenge` is the scheme and its parameters.
    pub fn of(written: WrittenTerms, challenge: &str, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        // This ring itself sets what its own expressions see.
        let names = env.names.authenticated(true);
        let inside = |text: &str, pointer: &str| env.template_with(pointer, text, Context::Header, &names);
        let allow = written.allow.as_deref().map(|it| env.condition_with("/allow", it, &names)).transpose();
        let allow = allow.unwrap_or_else(|it| {
            faults.extend(it);
            None
        });
        let mut tell = Vec::new();
        for (name, text) in &written.tell {
            let pointer = format!("/tell/{}", name.replace('~', "~0").replace('/', "~1"));
            match (settable(name), inside(text, &pointer)) {
                (Some(name), Ok(text)) => tell.push((name, text)),
                (header, text) => {
                    if header.is_none() {
                        faults.push(Fault::new(pointer, format!("'{name}' is no header that can be set here")));
                    }
                    faults.extend(text.err().into_iter().flatten());
                }
            }
        }
        let Ok(challenge) = HeaderValue::from_str(challenge) else {
            faults.push(Fault::new("/realm", "a realm is visible text"));
            return Err(faults);
        };
        if !faults.is_empty() {
            return Err(faults);
        }
        let count = |result: &str| {
            let labels = [("owner", &*env.scope.owner), ("plugin", &*env.scope.plugin), ("ring", &*env.scope.name), ("result", result)];
            env.meter.counter("allium_auth_requests_total", "What authenticating rings found.", &labels)
        };
        Ok(Self {
            optional: written.optional,
            keep: written.keep,
            allow,
            tell: tell.into(),
            challenge,
            passed: count("passed"),
            anonymous: count("anonymous"),
            refused: count("refused"),
            forbidden: count("forbidden"),
        })
    }

    fn challenged(&self, mut problem: Box<Problem>) -> Box<Problem> {
        if problem.kind == Kind::Unauthenticated {
            problem.headers.append(header::WWW_AUTHENTICATE, self.challenge.clone());
        }
        problem
    }

    /// Whether the caller may pass here, and what the backend is told of them.
    fn admit(&self, ex: &mut Exchange) -> Result<(), Box<Problem>> {
        if let Some(allow) = self.allow.as_ref().filter(|_| ex.caller.is_some())
            && !allow.passes(&ex.scope()).unwrap_or(false)
        {
            self.forbidden.add(1);
            return Err(Problem::new(Kind::Forbidden, "who is calling may not do this").reason("not_allowed"));
        }
        let told: Result<Vec<_>, _> = match ex.caller {
            Some(_) => {
                let scope = ex.scope();
                self.tell.iter().map(|(_, it)| it.render(&scope)).collect()
            }
            None => Ok(Vec::new()),
        };
        let told = told.map_err(|it| Problem::new(Kind::Invalid, "what is known of the caller does not fit into a header").because(it))?;
        let mut told = told.into_iter();
        for (name, _) in &self.tell {
            // Whoever is calling, nobody tells the backend this but the gateway.
            Exchange::forget_header(&mut ex.head.headers, name);
            if let Some(value) = told.next().flatten().and_then(|it| HeaderValue::from_maybe_shared(it).ok()) {
                ex.head.headers.insert(name, value);
            }
        }
        Ok(())
    }
}

fn settable(name: &str) -> Option<HeaderName> {
    const FRAMING: &[&str] =
        &["connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
    HeaderName::from_bytes(name.as_bytes()).ok().filter(|it| !FRAMING.contains(&it.as_str()))
}

// === impl Authenticated ===

impl<A: Authenticator> Plugin for Authenticated<A> {
    async fn call(&self, ex: &mut Exchange, next: Next) -> Outcome {
        let terms = self.0.terms();
        let mut lacking = false;
        if ex.caller.is_none() {
            match self.0.prove(ex).await {
                Proof::Of(caller) => ex.caller = Some(caller),
                Proof::Absent if terms.optional => lacking = true,
                Proof::Absent => {
                    terms.refused.add(1);
                    let problem = Problem::new(Kind::Unauthenticated, "who is calling must be proven here").reason("no_credentials");
                    return Err(terms.challenged(problem));
                }
                Proof::Bad(problem) => {
                    terms.refused.add(1);
                    return Err(terms.challenged(problem));
                }
            }
        }
        if !terms.keep {
            self.0.strip(ex);
        }
        terms.admit(ex)?;
        if lacking {
            terms.anonymous.add(1)
        } else {
            terms.passed.add(1)
        }
        let outcome = next.run(ex).await;
        // A ring further in asked in vain too: the client learns every way that there is.
        outcome.map_err(|problem| if lacking { terms.challenged(problem) } else { problem })
    }
}

// === Apps ===

/// The Apps that definitions name, by what they present.
pub trait Apps: Send + Sync {
    /// The directory as it is at this moment.
    fn now(&self) -> Arc<Directory>;
}

/// Who is known, and by what.
#[derive(Default)]
pub struct Directory {
    hasher: std::hash::RandomState,
    keys: HashMap<u64, Vec<Known>>,
    users: HashMap<Box<str>, Vec<Known>>,
    names: HashMap<Box<str>, Arc<Profile>>,
}

/// An App with its Plan, as expressions see them.
#[derive(Debug, Default)]
pub struct Profile {
    pub name: Box<str>,
    pub app: Value,
    pub plan: Value,
    /// What expressions see as `auth` where the App itself is who is calling.
    pub caller: Arc<Caller>,
}

struct Known {
    secret: Box<[u8]>,
    app: Arc<Profile>,
}

impl Profile {
    /// An App; `plan` is null where it has none.
    pub fn new(name: &str, app: Value, plan: Value) -> Arc<Self> {
        let scopes = app.get("scopes").cloned().unwrap_or_default();
        let auth = Value::Map(vec![("subject".into(), Value::text(name)), ("scopes".into(), scopes), ("claims".into(), Value::Null)]);
        let caller = Arc::new(Caller { auth, app: app.clone(), plan: plan.clone() });
        Arc::new(Self { name: name.into(), app, plan, caller })
    }
}

impl Directory {
    pub fn add(&mut self, app: &Arc<Profile>) {
        self.names.insert(app.name.clone(), app.clone());
    }

    /// An API key. Errors: another App has the same one.
    pub fn add_key(&mut self, app: &Arc<Profile>, key: &[u8]) -> Result<(), Arc<Profile>> {
        if let Some(it) = self.by_key(key) {
            return if Arc::ptr_eq(&it, app) { Ok(()) } else { Err(it) };
        }
        self.keys.entry(self.hasher.hash_one(key)).or_default().push(Known { secret: key.into(), app: app.clone() });
        Ok(())
    }

    /// A user and one password of theirs; several are allowed, so that they can be changed. Errors: another App has this user.
    pub fn add_user(&mut self, app: &Arc<Profile>, name: &str, password: &[u8]) -> Result<(), Arc<Profile>> {
        let known = self.users.entry(name.into()).or_default();
        if let Some(other) = known.iter().find(|it| !Arc::ptr_eq(&it.app, app)) {
            return Err(other.app.clone());
        }
        known.push(Known { secret: password.into(), app: app.clone() });
        Ok(())
    }

    /// Whose key this is. It is looked up by a hash whose seed nobody knows and compared whole, so that time tells nothing of known keys.
    pub fn by_key(&self, key: &[u8]) -> Option<Arc<Profile>> {
        among(self.keys.get(&self.hasher.hash_one(key)).map_or(&[], Vec::as_slice), key)
    }

    /// Who proves to be this user.
    pub fn by_user(&self, name: &str, password: &[u8]) -> Option<Arc<Profile>> {
        among(self.users.get(name).map_or(&[], Vec::as_slice), password)
    }

    /// The App of this name, whatever it presents: for proofs that name one.
    pub fn named(&self, name: &str) -> Option<&Arc<Profile>> {
        self.names.get(name)
    }
}

impl Apps for Arc<Directory> {
    fn now(&self) -> Arc<Directory> {
        self.clone()
    }
}

/// Compares with all of them, so that it takes as long whichever it is.
fn among(known: &[Known], secret: &[u8]) -> Option<Arc<Profile>> {
    known.iter().fold(None, |found, it| if same(&it.secret, secret) { Some(it.app.clone()) } else { found })
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
pub fn same(known: &[u8], given: &[u8]) -> bool {
    // The length of what was given is no secret, that of the known one would be: every byte given is looked at.
    let differ = given.iter().enumerate().fold(0, |sum, (at, it)| sum | (it ^ known.get(at).copied().unwrap_or(!it)));
    std::hint::black_box(differ) == 0 && known.len() == given.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str) -> Arc<Profile> {
        Profile::new(name, Value::Map(vec![("name".into(), Value::text(name))]), Value::Null)
    }

    #[test]
    fn an_app_is_known_by_each_of_its_keys_and_no_key_is_two_apps() {
        let (one, two) = (app("one"), app("two"));
        let mut it = Directory::default();
        for (app, key, ok) in [(&one, "a", true), (&one, "b", true), (&one, "a", true), (&two, "c", true), (&two, "b", false)] {
            assert_eq!(it.add_key(app, key.as_bytes()).is_ok(), ok, "{key}");
        }
        for (key, name) in [("a", Some("one")), ("b", Some("one")), ("c", Some("two")), ("", None), ("ab", None)] {
            assert_eq!(it.by_key(key.as_bytes()).map(|it| it.name.to_string()).as_deref(), name, "{key}");
        }
    }

    #[test]
    fn a_user_has_several_passwords_and_belongs_to_one_app() {
        let (one, two) = (app("one"), app("two"));
        let mut it = Directory::default();
        assert!(it.add_user(&one, "ada", b"old").is_ok() && it.add_user(&one, "ada", b"new").is_ok());
        assert!(it.add_user(&two, "ada", b"x").is_err());
        assert!(it.by_user("ada", b"old").is_some() && it.by_user("ada", b"new").is_some());
        assert!(it.by_user("ada", b"x").is_none() && it.by_user("bob", b"old").is_none());
    }

    #[test]
    fn secrets_are_the_same_only_as_a_whole() {
        for (a, b, want) in
            [("abc", "abc", true), ("abc", "abd", false), ("abc", "ab", false), ("ab", "abc", false), ("", "", true), ("a", "", false)]
        {
            assert_eq!(same(a.as_bytes(), b.as_bytes()), want, "{a} {b}");
        }
    }
}
