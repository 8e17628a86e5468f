//! Says who is calling by the client's certificate, which the listener has verified.
use std::collections::BTreeMap;

use contract::{
    Exchange,
    caller::{Authenticator, Proof, Terms, WrittenTerms},
    catalog::{Configure, Fault, RingNotes},
    env::Env,
};

/// The authenticator.
pub struct CertAuth {
    terms: Terms,
}

/// # Config
/// The listener's `tls.client_ca` decides which certificates are taken at all. `auth.subject` is the certificate's name, as in `CN=alice,O=Acme`;
/// `auth.claims` has its `issuer`, its `serial`, and the lists `dns` and `uri` of its further names.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A request on a connection without a client's certificate goes on, and `auth` is null, unless a ring further in finds who is calling.
    #[serde(default)]
    pub optional: bool,
    /// A condition on who was found, such as `'alice.test' in auth.claims.dns`; 403 where it is not true.
    #[serde(default)]
    pub allow: Option<String>,
    /// Headers that tell the backend who is calling; values may hold `${…}`, as in `x-client: "${auth.subject}"`. A client's own are removed.
    #[serde(default)]
    pub tell: BTreeMap<String, String>,
}

impl Configure for CertAuth {
    type Config = Config;
    const NAME: &'static str = "cert-auth";
    const ABOUT: &'static str = "Says who is calling by the client's certificate.";
    const NOTES: RingNotes = RingNotes {
        reads: "the certificate of the connection",
        answers: "401 without a certificate, 403 where `allow` is not true",
        authenticates: true,
        rewrites_body: false,
    };

    fn configure(config: Config, env: &Env<'_>) -> Result<Self, Vec<Fault>> {
        let tell = config.tell.into_iter().collect();
        let written = WrittenTerms { optional: config.optional, keep: true, allow: config.allow, tell };
        Ok(Self { terms: Terms::of(written, "Certificate", env)? })
    }
}

impl Authenticator for CertAuth {
    async fn prove(&self, ex: &Exchange) -> Proof {
        // What a proxy between here and the client says of a certificate is no proof: only the connection's own counts.
        ex.peer.certificate.clone().map_or(Proof::Absent, Proof::Of)
    }

    fn strip(&self, _: &mut Exchange) {}

    fn terms(&self) -> &Terms {
        &self.terms
    }
}

#[cfg(test)]
mod tests {
    use contract::{Body, Value, catalog::authenticator, exchange::Caller, testkit::Bench};
    use serde_json::json;

    use super::*;

    /// The status for a client with this subject, and what the backend was told.
    async fn told(config: serde_json::Value, subject: Option<&str>) -> (u16, Option<String>) {
        let mut bench = Bench::around(&authenticator::<CertAuth>(), config, |ex| {
            let mut it = http::Response::new(Body::Empty);
            it.headers_mut().extend(ex.head.headers.get("x-client").map(|it| (http::header::WARNING, it.clone())));
            Ok(it)
        });
        if let Some(it) = subject {
            let auth = Value::Map(vec![("subject".into(), Value::text(it))]);
            bench = bench.bearing(Caller { auth, ..Caller::default() });
        }
        let request = http::Request::get("/").header("x-client", "forged").body(Body::Empty).unwrap();
        let answer = bench.send(request).await;
        let header = answer.headers().get(http::header::WARNING).map(|it| it.to_str().unwrap().to_owned());
        (answer.status().as_u16(), header)
    }

    #[tokio::test]
    async fn a_certificate_is_needed_unless_it_is_optional_and_no_header_stands_for_it() {
        let tell = json!({"tell": {"x-client": "${auth.subject}"}});
        assert_eq!(told(tell.clone(), Some("CN=alice")).await, (200, Some("CN=alice".into())));
        assert_eq!(told(tell, None).await, (401, None));
        assert_eq!(told(json!({"optional": true, "tell": {"x-client": "${auth.subject}"}}), None).await, (200, None));
        let allow = json!({"allow": "auth.subject == 'CN=alice'"});
        assert_eq!(told(allow.clone(), Some("CN=alice")).await.0, 200);
        assert_eq!(told(allow, Some("CN=bob")).await.0, 403);
    }
}
