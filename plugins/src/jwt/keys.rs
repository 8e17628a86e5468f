//! A set of keys (RFC 7517), and whether one of them signed a text (RFC 7518).
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
        RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
        RsaPublicKeyComponents, UnparsedPublicKey,
    },
};
use serde_json::Value;

/// How a token may be signed. `none` is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema)]
pub enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// The keys of one issuer.
#[derive(Debug, Default)]
pub struct Keys(Box<[Key]>);

#[derive(Debug)]
struct Key {
    id: Option<Box<str>>,
    /// The only algorithm it is for, where it says so.
    only: Option<Box<str>>,
    kind: Kind,
}

enum Kind {
    Rsa { n: Box<[u8]>, e: Box<[u8]> },
    P256(Box<[u8]>),
    P384(Box<[u8]>),
    Ed25519(Box<[u8]>),
    Shared(Box<[u8]>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// A token without `kid` is held against at most so many keys.
const MOST_TRIED: usize = 8;
/// Shorter moduli are not taken, by anybody.
const LEAST_RSA: usize = 256;

impl Algorithm {
    /// As tokens and key sets name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS384 => "HS384",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::EdDSA => "EdDSA",
        }
    }

    /// Signed with a secret that whoever checks could sign with, too.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::HS256 | Self::HS384 | Self::HS512)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::RS256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::RS384 => &RSA_PKCS1_2048_8192_SHA384,
            Self::RS512 => &RSA_PKCS1_2048_8192_SHA512,
            Self::PS256 => &RSA_PSS_2048_8192_SHA256,
            Self::PS384 => &RSA_PSS_2048_8192_SHA384,
            Self::PS512 => &RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }
}

impl Keys {
    /// A JSON Web Key Set. Keys of a kind that is not known here, or for encryption, are passed over (RFC 7517 §5); a broken one is told.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(text).map_err(|it| format!("it is no JSON: {it}"))?;
        let list = set.get("keys").and_then(Value::as_array).ok_or("it has no list `keys`")?;
        let mut keys = Vec::new();
        for (at, it) in list.iter().enumerate() {
            let text = |key: &str| it.get(key).and_then(Value::as_str);
            let bytes = |key: &str| {
                let it = text(key).ok_or_else(|| format!("key {at} has no `{key}`"))?;
                URL_SAFE_NO_PAD
                    .decode(it.trim_end_matches('='))
                    .map(Vec::into_boxed_slice)
                    .map_err(|_| format!("`{key}` of key {at} is no base64url"))
            };
            if text("use").is_some_and(|it| it != "sig") {
                continue;
            }
            let point = |size: usize| {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != size || y.len() != size {
                    return Err(format!("the point of key {at} is not on its curve"));
                }
                Ok([&[4u8][..], &x, &y].concat().into_boxed_slice())
            };
            let kind = match (text("kty"), text("crv")) {
                (Some("RSA"), _) => {
                    let (n, e) = (bytes("n")?, bytes("e")?);
                    // Leading zeros say nothing.
                    let n: Box<[u8]> = n.iter().copied().skip_while(|it| *it == 0).collect();
                    if n.len() < LEAST_RSA {
                        return Err(format!("key {at} is shorter than 2048 bits"));
                    }
                    Kind::Rsa { n, e }
                }
                (Some("EC"), Some("P-256")) => Kind::P256(point(32)?),
                (Some("EC"), Some("P-384")) => Kind::P384(point(48)?),
                (Some("OKP"), Some("Ed25519")) => Kind::Ed25519(bytes("x")?),
                (Some("oct"), _) => {
                    let it = bytes("k")?;
                    if it.len() < 32 {
                        return Err(format!("the secret of key {at} is shorter than 32 bytes, as RFC 7518 §3.2 asks for"));
                    }
                    Kind::Shared(it)
                }
                _ => continue,
            };
            keys.push(Key { id: text("kid").map(Into::into), only: text("alg").map(Into::into), kind });
        }
        if keys.is_empty() {
            return Err("it has no key that can check a signature".to_owned());
        }
        Ok(Self(keys.into()))
    }

    /// Whether a key is there that these algorithms can use.
    pub fn serve(&self, algorithms: &[Algorithm]) -> bool {
        algorithms.iter().any(|algorithm| self.0.iter().any(|it| it.is_for(*algorithm)))
    }

    /// Whether `signature` of `text` was made with the key `id`, or, where a token names none, with any of them.
    pub fn signed(&self, algorithm: Algorithm, id: Option<&str>, text: &[u8], signature: &[u8]) -> bool {
        let named = |it: &&Key| id.is_none_or(|id| it.id.as_deref() == Some(id));
        self.0.iter().filter(named).filter(|it| it.is_for(algorithm)).take(MOST_TRIED).any(|it| it.signed(algorithm, text, signature))
    }
}

impl Key {
    /// A key is used for what it is, never for what a token says: so no public key ever becomes a shared secret.
    fn is_for(&self, algorithm: Algorithm) -> bool {
        let fits = match self.kind {
            Kind::Rsa { .. } => algorithm.rsa().is_some(),
            Kind::P256(_) => algorithm == Algorithm::ES256,
            Kind::P384(_) => algorithm == Algorithm::ES384,
            Kind::Ed25519(_) => algorithm == Algorithm::EdDSA,
            Kind::Shared(_) => algorithm.is_shared(),
        };
        fits && self.only.as_deref().is_none_or(|it| it == algorithm.name())
    }

    fn signed(&self, algorithm: Algorithm, text: &[u8], signature: &[u8]) -> bool {
        match &self.kind {
            Kind::Rsa { n, e } => {
                algorithm.rsa().is_some_and(|it| RsaPublicKeyComponents { n: &**n, e: &**e }.verify(it, text, signature).is_ok())
            }
            Kind::P256(it) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, it).verify(text, signature).is_ok(),
            Kind::P384(it) => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, it).verify(text, signature).is_ok(),
            Kind::Ed25519(it) => UnparsedPublicKey::new(&ED25519, it).verify(text, signature).is_ok(),
            Kind::Shared(it) => {
                let digest = match algorithm {
                    Algorithm::HS256 => hmac::HMAC_SHA256,
                    Algorithm::HS384 => hmac::HMAC_SHA384,
                    _ => hmac::HMAC_SHA512,
                };
                hmac::verify(&hmac::Key::new(digest, it), text, signature).is_ok()
            }
        }
    }
}
