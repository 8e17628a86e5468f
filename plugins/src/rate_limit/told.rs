//! What clients are told of a limit: the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers).
use std::io::Write;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::limit::{Limit, Verdict};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const SECOND: f64 = 1e9;

/// The headers of one limit.
pub struct Told {
    /// Also of answers that were let through.
    pub always: bool,
    /// `"name"`: it has no quotes of its own.
    name: Box<[u8]>,
}

impl Told {
    pub fn new(name: &str, always: bool) -> Self {
        Self { always, name: format!("\"{name}\"").into_bytes().into() }
    }

    /// Several limits stand side by side in the same headers.
    pub fn tell(&self, headers: &mut HeaderMap, limit: &Limit, verdict: Verdict, window: bool) {
        // A second is the shortest time that the header knows.
        let seconds = (limit.per / SECOND).ceil().max(1.0);
        let quota = (limit.count * seconds * SECOND / limit.per).floor();
        let at_once = if window { quota } else { limit.burst };
        let reset = match verdict.wait {
            u64::MAX => seconds as u64,
            it => it.div_ceil(SECOND as u64),
        };
        self.add(headers, RATE_LIMIT, &[(";r=", verdict.remaining), (";t=", reset)]);
        self.add(headers, POLICY, &[(";q=", quota as u64), (";w=", seconds as u64), (";burst=", at_once as u64)]);
    }

    fn add(&self, headers: &mut HeaderMap, name: HeaderName, parameters: &[(&str, u64)]) {
        let mut text = Vec::with_capacity(self.name.len() + 64);
        text.extend_from_slice(&self.name);
        for (key, value) in parameters {
            text.extend_from_slice(key.as_bytes());
            let _ = write!(text, "{value}");
        }
        if let Ok(it) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) {
            headers.append(name, it);
        }
    }
}
