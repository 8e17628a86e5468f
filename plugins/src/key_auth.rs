//! Says who is calling by a key that an App was given.
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use contract::{
    Exchange, Kind, Problem,
    caller::{Apps, Authenticator, Proof, Terms, WrittenTerms},
    catalog::{Configure, Fault, RingNotes},
    env::Env,
    scope::{cookies, pairs},
};
use http::{HeaderName, HeaderValue, Uri, header, uri::PathAndQuery};

/// The authenticator.
pub struct KeyAuth {
    apps: Arc<dyn Apps>,
    header: Option<HeaderName>,
    scheme: Option<Box<str>>,
    query: Option<Box<str>>,
    cookie: Option<Box<str>>,
    terms: Terms,
}

/// # Config
/// An App is known by any of the `api_key`s among its `credentials`. The key is looked for in the places that are named, in the order
/// `header`, `query`, `cookie`; without any of them in the header `x-api-key`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The header that has the key; `x-api-key`, where no place is named.
    #[serde(default)]
    pub header: Option<String>,
    /// A word that stands before the key in the header, such as `Bearer`.
    #[serde(default)]
    pub scheme: Option<String>,
    /// The query parameter that has the key. Queries stand in the logs of whoever passes them on: a header is better.
    #[serde(default)]
    pub query: Option<String>,
    /// The cookie that has the key.
    #[serde(default)]
    pub cookie: Option<String>,
    /// A request without a key goes on, and `auth`, `app` and `plan` are null, unless a ring further in finds who is calling.
    #[serde(default)]
    pub optional: bool,
    /// The backend gets the key too; otherwise it is taken out of the request.
    #[serde(default)]
    pub keep: bool,
    /// A condition on who was found, such as `'orders.read' in app.scopes`; 403 where it is not true.
    #[serde(default)]
    pub allow: Option<String>,
    /// Headers that tell the backend who is calling; values may hold `${…}`, as in `x-app: "${app.name}"`. A client's own are removed.
    #[serde(default)]
    pub tell: BTreeMap<String, String>,
}

impl Configure for KeyAuth {
    type Config = Config;
    const NAME: &'static str = "key-auth";
    const ABOUT: &'static str = "Says who is calling by a key that an App was given.";
    const NOTES: RingNotes = RingNotes {
        reads: "a header, the query or a cookie",
        answers: "401 without a known key, 403 where `allow` is not true",
        authenticates: true,
        rewrites_body: false,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut header = config.header.as_deref().map(|it| {
            HeaderName::from_bytes(it.as_bytes()).map_err(|_| faults.push(Fault::new("/header", format!("'{it}' is no header name")))).ok()
        });
        if header.is_none() && config.query.is_none() && config.cookie.is_none() {
            header = Some(Some(HeaderName::from_static("x-api-key")));
        }
        for (key, name) in [("query", &config.query), ("cookie", &config.cookie)] {
            if name.as_deref().is_some_and(|it| it.is_empty() || it.bytes().any(|it| it <= b' ' || matches!(it, b'=' | b';' | b'&'))) {
                faults.push(Fault::new(format!("/{key}"), "this is no name"));
            }
        }
        if config.scheme.is_some() && header.is_none() {
            faults.push(Fault::new("/scheme", "a scheme stands in a header, and none is named").help("add `header: authorization`"));
        }
        let tell = config.tell.into_iter().collect();
        let written = WrittenTerms { optional: config.optional, keep: config.keep, allow: config.allow, tell };
        let challenge = config.scheme.as_deref().unwrap_or("ApiKey");
        let terms = Terms::of(written, challenge, env).map_err(|it| faults.extend(it)).ok();
        let Some(terms) = terms.filter(|_| faults.is_empty()) else { return Err(faults) };
        Ok(Self {
            apps: env.apps.clone(),
            header: header.flatten(),
            scheme: config.scheme.map(Into::into),
            query: config.query.map(Into::into),
            cookie: config.cookie.map(Into::into),
            terms,
        })
    }
}

/// A key of a request, or why there is none.
type Found<'a> = Result<Option<Cow<'a, [u8]>>, ()>;

impl KeyAuth {
    fn key<'a>(&self, ex: &'a Exchange) -> Found<'a> {
        if let Some(name) = &self.header {
            let mut all = ex.head.headers.get_all(name).iter();
            match (all.next(), all.next()) {
                (Some(_), Some(_)) => return Err(()),
                (Some(one), None) => match self.without_scheme(one.as_bytes()) {
                    Some(key) if !key.is_empty() => return Ok(Some(key.into())),
                    // Another scheme is another ring's.
                    _ => (),
                },
                (None, _) => (),
            }
        }
        let text = |it: Cow<'a, str>| match it {
            Cow::Borrowed(it) => Cow::Borrowed(it.as_bytes()),
            Cow::Owned(it) => Cow::Owned(it.into_bytes()),
        };
        if let Some(wanted) = &self.query
            && let Some(key) = one(pairs(ex.query().unwrap_or("").as_bytes()), wanted)?
        {
            return Ok(Some(text(key)));
        }
        if let Some(wanted) = &self.cookie
            && let Some(key) = one(cookies(&ex.head.headers), wanted)?
        {
            return Ok(Some(text(key)));
        }
        Ok(None)
    }

    fn without_scheme<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let Some(scheme) = &self.scheme else { return Some(value.trim_ascii()) };
        let (word, rest) = value.split_at_checked(scheme.len())?;
        (word.eq_ignore_ascii_case(scheme.as_bytes()) && rest.first() == Some(&b' ')).then(|| rest.trim_ascii())
    }
}

type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The only value of this name. A name that is there twice could be read in two ways, so it is no proof.
fn one<'a>(all: impl Iterator<Item = Pair<'a>>, wanted: &str) -> Result<Option<Cow<'a, str>>, ()> {
    let mut found = None;
    for (name, value) in all {
        if name == wanted && found.replace(value).is_some() {
            return Err(());
        }
    }
    Ok(found.filter(|it| !it.is_empty()))
}

impl Authenticator for KeyAuth {
    async fn prove(&self, ex: &Exchange) -> Proof {
        match self.key(ex) {
            Ok(None) => Proof::Absent,
            Ok(Some(key)) => match self.apps.now().by_key(&key) {
                Some(it) => Proof::Of(it.caller.clone()),
                None => Proof::Bad(Problem::new(Kind::Unauthenticated, "the key is not known here").reason("bad_key")),
            },
            Err(()) => Proof::Bad(Problem::new(Kind::Unauthenticated, "the key is there twice").reason("bad_key")),
        }
    }

    fn strip(&self, ex: &mut Exchange) {
        if let Some(name) = &self.header {
            let ours = |it: &HeaderValue| self.without_scheme(it.as_bytes()).is_some();
            if ex.head.headers.get_all(name).iter().any(ours) {
                Exchange::forget_header(&mut ex.head.headers, name);
            }
        }
        if let Some(name) = &self.query
            && let Some(uri) = without_parameter(&ex.head.uri, name)
        {
            ex.head.uri = uri;
        }
        if let Some(name) = &self.cookie {
            forget_cookie(ex, name);
        }
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// The URI without this parameter; `None` where it has none. All other bytes stay as they are.
fn without_parameter(uri: &Uri, name: &str) -> Option<Uri> {
    let query = uri.query()?;
    let is = |it: &&str| pairs(it.as_bytes()).next().is_some_and(|(key, _)| key == name);
    if !query.split('&').any(|it| is(&it)) {
        return None;
    }
    let rest = query.split('&').filter(|it| !is(it)).collect::<Vec<_>>().join("&");
    let text = if rest.is_empty() { uri.path().to_owned() } else { format!("{}?{rest}", uri.path()) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

fn forget_cookie(ex: &mut Exchange, name: &str) {
    let headers = &mut ex.head.headers;
    let is = |it: &&[u8]| it.split(|it| *it == b'=').next().is_some_and(|it| it.trim_ascii() == name.as_bytes());
    let all: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    if !all.iter().any(|it| it.as_bytes().split(|it| *it == b';').any(|it| is(&it))) {
        return;
    }
    headers.remove(header::COOKIE);
    for value in all {
        let rest: Vec<&[u8]> = value.as_bytes().split(|it| *it == b';').filter(|it| !is(it)).map(<[u8]>::trim_ascii).collect();
        if let Ok(it) = HeaderValue::from_bytes(&rest.join(&b"; "[..]))
            && !it.is_empty()
        {
            headers.append(header::COOKIE, it);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use contract::{
        Body, Value,
        caller::{Directory, Profile},
        catalog::authenticator,
        testkit::Bench,
    };
    use serde_json::json;

    use super::*;

    fn apps() -> Directory {
        let mut it = Directory::default();
        let app = Profile::new("acme", Value::Map(vec![("name".into(), Value::text("acme"))]), Value::Null);
        it.add_key(&app, b"k-1").unwrap();
        it.add_key(&app, b"k-2").unwrap();
        it
    }

    /// The status, and what the backend got: its URI and the headers that are asked for.
    async fn ask(config: serde_json::Value, uri: &str, headers: &[(&str, &str)], show: &[&str]) -> (u16, String) {
        let seen = Arc::new(Mutex::new(String::new()));
        let (note, show): (_, Vec<String>) = (seen.clone(), show.iter().map(|it| it.to_string()).collect());
        let bench = Bench::knowing(apps(), &authenticator::<KeyAuth>(), config, move |ex| {
            let mut text = ex.head.uri.to_string();
            for name in &show {
                ex.head.headers.get_all(name).iter().for_each(|it| text += &format!(" {name}={}", it.to_str().unwrap()));
            }
            *note.lock().unwrap() = text;
            Ok(http::Response::new(Body::Empty))
        });
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let status = bench.send(request.body(Body::Empty).unwrap()).await.status().as_u16();
        let seen = seen.lock().unwrap().clone();
        (status, seen)
    }

    #[tokio::test]
    async fn a_key_is_found_in_its_place_and_taken_out_there() {
        let everywhere = json!({"header": "x-key", "query": "key", "cookie": "k"});
        let bearer = json!({"header": "authorization", "scheme": "Bearer"});
        let shown = &["x-key", "x_key", "cookie", "x-api-key", "authorization"];
        for (config, uri, headers, status, seen) in [
            (json!({}), "/a", &[("x-api-key", "k-1")][..], 200, "/a"),
            (json!({}), "/a", &[("x-api-key", "k-2")], 200, "/a"),
            (json!({"keep": true}), "/a", &[("x-api-key", "k-1")], 200, "/a x-api-key=k-1"),
            (json!({}), "/a", &[("x-api-key", "k-3")], 401, ""),
            (json!({}), "/a", &[("x-api-key", "k-1"), ("x-api-key", "k-1")], 401, ""),
            (json!({}), "/a", &[], 401, ""),
            (everywhere.clone(), "/a?b=%20&key=k-1&c", &[], 200, "/a?b=%20&c"),
            (everywhere.clone(), "/a?%6bey=k%2D1", &[("x_key", "forged")], 200, "/a x_key=forged"),
            (everywhere.clone(), "/a?key=k-1&key=k-2", &[], 401, ""),
            (everywhere.clone(), "/a", &[("cookie", "a=1; k=k-1;b=2")], 200, "/a cookie=a=1; b=2"),
            (everywhere.clone(), "/a", &[("cookie", "k=k-1")], 200, "/a"),
            (everywhere, "/a?key=k-3", &[("x-key", "k-1")], 200, "/a"),
            (bearer.clone(), "/a", &[("authorization", "bearer k-1")], 200, "/a"),
            (bearer.clone(), "/a", &[("authorization", "Basic k-1")], 401, ""),
            (
                json!({"header": "authorization", "scheme": "Bearer", "optional": true}),
                "/a",
                &[("authorization", "Basic k-1")],
                200,
                "/a authorization=Basic k-1",
            ),
        ] {
            assert_eq!(ask(config.clone(), uri, headers, shown).await, (status, seen.to_owned()), "{config} {uri} {headers:?}");
        }
    }

    #[tokio::test]
    async fn the_backend_is_told_who_is_calling_and_never_by_the_client() {
        let config = json!({"optional": true, "tell": {"x-app": "${app.name}", "x-user": "${auth.claims.sub}"}});
        let shown = &["x-app", "x_app", "x-user"];
        for (headers, seen) in [
            (&[("x-api-key", "k-1"), ("x-app", "forged"), ("x_app", "forged"), ("x-user", "forged")][..], "/ x-app=acme"),
            (&[("x-app", "forged"), ("X_App", "forged")], "/"),
        ] {
            assert_eq!(ask(config.clone(), "/", headers, shown).await, (200, seen.to_owned()), "{headers:?}");
        }
    }

    #[tokio::test]
    async fn who_is_known_may_still_be_refused() {
        for (allow, status) in [("app.name == 'acme'", 200), ("app.name == 'other'", 403), ("'x' in app.scopes", 403)] {
            assert_eq!(ask(json!({"allow": allow}), "/", &[("x-api-key", "k-1")], &[]).await.0, status, "{allow}");
        }
    }

    #[test]
    fn every_fault_is_told_in_its_place() {
        for (config, pointers) in [
            (json!({"header": "a b", "query": "a=b", "cookie": ""}), &["/header", "/query", "/cookie"][..]),
            (json!({"query": "a", "scheme": "Bearer"}), &["/scheme"]),
            (json!({"allow": "apps.name", "tell": {"host": "a", "x-a": "${ap}"}}), &["/allow", "/tell/host", "/tell/x-a"]),
        ] {
            let faults = Bench::faults(&authenticator::<KeyAuth>(), config);
            assert_eq!(faults.iter().map(|it| it.pointer.as_str()).collect::<Vec<_>>(), pointers, "{faults:?}");
        }
    }
}
