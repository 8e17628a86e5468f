//! Tokens that are good, and every way in which one is not.
use std::time::SystemTime;

use contract::{
    Body,
    caller::{Directory, Profile},
    catalog::authenticator,
    testkit::Bench,
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};

use super::*;

/// A modulus, and two tokens that its key has signed, RS256 and PS256; made once with OpenSSL, which no longer has the key.
const RSA: &str = include_str!("rsa.txt");
const SECRET: &[u8] = b"a secret of thirty-two bytes, at least";

struct Issuer {
    folder: std::path::PathBuf,
    ed: Ed25519KeyPair,
    ec: EcdsaKeyPair,
}

fn encode(it: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(it)
}

impl Issuer {
    /// `name` is the test's: each has a folder of its own.
    fn new(name: &str) -> Self {
        let random = SystemRandom::new();
        let ed = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()).unwrap();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::from_pkcs8(kind, EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap().as_ref(), &random).unwrap();
        let folder = std::env::temp_dir().join(format!("allium-jwt-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let it = Self { folder, ed, ec };
        let point = it.ec.public_key().as_ref();
        let modulus = RSA.lines().next().unwrap();
        it.write(
            "public.json",
            &json!({"keys": [
                {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "x": encode(it.ed.public_key())},
                {"kty": "EC", "crv": "P-256", "kid": "ec", "x": encode(&point[1..33]), "y": encode(&point[33..])},
                {"kty": "RSA", "kid": "rsa", "n": modulus, "e": "AQAB"},
                {"kty": "RSA", "use": "enc", "n": "AA", "e": "AQAB"},
                {"kty": "new", "kid": "x"},
            ]}),
        );
        it.write("shared.json", &json!({"keys": [{"kty": "oct", "kid": "s", "k": encode(SECRET)}]}));
        it
    }

    fn write(&self, name: &str, set: &Value) {
        std::fs::write(self.folder.join(name), set.to_string()).unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Signed as its head says.
    fn token(&self, head: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
        let signature = match head["alg"].as_str().unwrap() {
            "EdDSA" => self.ed.sign(text.as_bytes()).as_ref().to_vec(),
            "ES256" => self.ec.sign(&SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec(),
            "HS256" => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes()).as_ref().to_vec(),
            _ => Vec::new(),
        };
        format!("{text}.{}", encode(signature))
    }

    fn bench(&self, config: Value) -> Bench {
        let mut apps = Directory::default();
        apps.add(&Profile::new("acme", contract::Value::Map(vec![("name".into(), contract::Value::text("acme"))]), contract::Value::Null));
        Bench::knowing(apps, &authenticator::<Jwt>(), config, |ex| {
            let mut it = http::Response::new(Body::Empty);
            it.headers_mut().extend(
                ex.head
                    .headers
                    .iter()
                    .map(|(name, value)| (Some(name.clone()), value.clone()))
                    .filter_map(|(name, value)| Some((name?, value))),
            );
            Ok(it)
        })
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn send(bench: &Bench, token: &str) -> http::Response<Body> {
    bench.send(http::Request::builder().header(AUTHORIZATION, format!("Bearer {token}")).body(Body::Empty).unwrap()).await
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_token_is_good_only_as_its_key_set_and_its_claims_say() {
    let issuer = Issuer::new("claims");
    let bench = issuer.bench(json!({
        "jwks": {"file": issuer.file("public.json")}, "issuer": "https://id.example.com", "audience": ["orders", "crm"],
    }));
    let good = json!({"sub": "ada", "iss": "https://id.example.com", "aud": "orders", "exp": now() + 60, "nbf": now() - 1, "iat": now()});
    let with = |key: &str, value: Value| {
        let mut it = good.clone();
        it[key] = value;
        if it[key].is_null() {
            it.as_object_mut().unwrap().remove(key);
        }
        it
    };
    let (ed, ec) = (json!({"alg": "EdDSA", "kid": "ed"}), json!({"alg": "ES256", "kid": "ec"}));
    for (what, head, claims, status) in [
        ("Ed25519", ed.clone(), good.clone(), 200),
        ("P-256", ec.clone(), good.clone(), 200),
        ("no key named", json!({"alg": "EdDSA"}), good.clone(), 200),
        ("one of several audiences", ed.clone(), with("aud", json!(["x", "crm"])), 200),
        ("within the leeway", ed.clone(), with("exp", json!(now() - 20)), 200),
        ("no nbf", ed.clone(), with("nbf", Value::Null), 200),
        ("not signed", json!({"alg": "none", "kid": "ed"}), good.clone(), 401),
        ("another key", json!({"alg": "EdDSA", "kid": "ec"}), good.clone(), 401),
        ("an unknown key", json!({"alg": "EdDSA", "kid": "old"}), good.clone(), 401),
        ("a key that is no text", json!({"alg": "EdDSA", "kid": 1}), good.clone(), 401),
        ("a shared secret", json!({"alg": "HS256", "kid": "rsa"}), good.clone(), 401),
        ("a critical extension", json!({"alg": "EdDSA", "kid": "ed", "crit": ["b64"], "b64": false}), good.clone(), 401),
        ("expired", ed.clone(), with("exp", json!(now() - 31)), 401),
        ("no end", ed.clone(), with("exp", Value::Null), 401),
        ("an end that is a text", ed.clone(), with("exp", json!("9999999999")), 401),
        ("not yet", ed.clone(), with("nbf", json!(now() + 90)), 401),
        ("nbf of a wrong type", ed.clone(), with("nbf", json!("0")), 401),
        ("from the future", ed.clone(), with("iat", json!(now() + 3600)), 401),
        ("another issuer", ed.clone(), with("iss", json!("https://id.example.com.evil")), 401),
        ("no issuer", ed.clone(), with("iss", Value::Null), 401),
        ("another audience", ed.clone(), with("aud", json!("ordersx")), 401),
        ("no audience", ed.clone(), with("aud", Value::Null), 401),
        ("a subject of a wrong type", ed.clone(), with("sub", json!(7)), 401),
    ] {
        let answer = send(&bench, &issuer.token(&head, &claims)).await;
        assert_eq!(answer.status().as_u16(), status, "{what}");
        assert_eq!(answer.headers().contains_key(WWW_AUTHENTICATE), status == 401, "{what}");
        assert!(!answer.headers().contains_key(AUTHORIZATION), "{what}: the backend does not get the token");
    }
    let token = issuer.token(&ed, &good);
    let (rest, signature) = token.rsplit_once('.').unwrap();
    let other = encode(with("sub", json!("bob")).to_string());
    let head = token.split('.').next().unwrap();
    for bad in [
        format!("{head}.{other}.{signature}"),
        format!("{rest}."),
        rest.to_owned(),
        format!("{token}.x"),
        "..".into(),
        String::new(),
        format!("{token}!"),
    ] {
        assert_eq!(send(&bench, &bad).await.status().as_u16(), 401, "{bad}");
    }
}

#[tokio::test]
async fn an_rsa_key_checks_what_openssl_signed() {
    let issuer = Issuer::new("rsa");
    for (algorithm, line) in [("RS256", 1), ("PS256", 2)] {
        let token = RSA.lines().nth(line).unwrap();
        let bench = issuer.bench(json!({"jwks": {"file": issuer.file("public.json")}, "algorithms": [algorithm]}));
        assert_eq!(send(&bench, token).await.status().as_u16(), 200, "{algorithm}");
        assert_eq!(send(&bench, &token.replace("eyJzdWIi", "eyJzdWJi")).await.status().as_u16(), 401, "{algorithm}");
        let other = RSA.lines().nth(3 - line).unwrap();
        assert_eq!(send(&bench, other).await.status().as_u16(), 401, "an algorithm that is not listed");
    }
}

#[tokio::test]
async fn claims_become_scopes_app_and_what_the_backend_is_told() {
    let issuer = Issuer::new("told");
    let bench = issuer.bench(json!({
        "jwks": {"file": issuer.file("shared.json")}, "algorithms": ["HS256"], "app_claim": "azp", "allow": "'read' in auth.scopes",
        "tell": {"x-user": "${auth.subject}", "x-app": "${app.name}", "x-tenant": "${auth.claims.tenant.id}"},
    }));
    let head = json!({"alg": "HS256", "kid": "s"});
    let claims = json!({"sub": "ada", "azp": "acme", "scope": "write read", "exp": now() + 60, "tenant": {"id": 7}});
    let answer = send(&bench, &issuer.token(&head, &claims)).await;
    assert_eq!(answer.status().as_u16(), 200);
    let told = |name: &str| answer.headers().get(name).map(|it| it.to_str().unwrap());
    assert_eq!((told("x-user"), told("x-app"), told("x-tenant")), (Some("ada"), Some("acme"), Some("7")));
    for (key, value, status) in
        [("scope", json!("reader"), 403), ("scope", json!(["read"]), 200), ("azp", json!("nobody"), 401), ("azp", json!(1), 401)]
    {
        let mut claims = claims.clone();
        claims[key] = value.clone();
        assert_eq!(send(&bench, &issuer.token(&head, &claims)).await.status().as_u16(), status, "{key}: {value}");
    }
}

#[test]
fn every_fault_is_told_in_its_place() {
    let issuer = Issuer::new("faults");
    issuer.write("empty.json", &json!({"keys": []}));
    issuer.write("short.json", &json!({"keys": [{"kty": "oct", "k": "AAAA"}]}));
    let public = json!({"file": issuer.file("public.json")});
    for (config, pointer, says) in [
        (json!({"jwks": {"file": "nowhere.json"}}), "/jwks/file", "cannot be read"),
        (json!({"jwks": {"file": issuer.file("empty.json")}}), "/jwks/file", "no key"),
        (json!({"jwks": {"file": issuer.file("short.json")}, "algorithms": ["HS256"]}), "/jwks/file", "32 bytes"),
        (json!({"jwks": public, "algorithms": []}), "/algorithms", "empty"),
        (json!({"jwks": public, "algorithms": ["RS256", "HS256"]}), "/algorithms", "do not go together"),
        (json!({"jwks": public, "algorithms": ["ES384"]}), "/algorithms", "no key"),
    ] {
        let faults = Bench::faults(&authenticator::<Jwt>(), config.clone());
        assert!(faults.len() == 1 && faults[0].pointer == pointer && faults[0].message.contains(says), "{config}: {faults:?}");
    }
}
