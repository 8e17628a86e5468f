//! The rings that come with the gateway, one file each.
//!
//! Invariant: no ring imports another, nor the gateway.
mod basic_auth;
mod cert_auth;
mod concurrency;
mod cors;
mod desensitize;
mod fallback;
mod headers;
mod ip_acl;
mod jsonp;
mod jwt;
mod key_auth;
mod lua;
mod rate_limit;

use contract::catalog::{Entry, authenticator, filter, plugin};

/// Every ring, by the order of its name. Adding one is its file, and its line here.
pub const ALL: &[Entry] = &[
    authenticator::<basic_auth::BasicAuth>(),
    authenticator::<cert_auth::CertAuth>(),
    plugin::<concurrency::Concurrency>(),
    filter::<cors::Cors>(),
    plugin::<desensitize::Desensitize>(),
    filter::<fallback::Fallback>(),
    filter::<headers::Headers>(),
    filter::<ip_acl::IpAcl>(),
    plugin::<jsonp::Jsonp>(),
    authenticator::<jwt::Jwt>(),
    authenticator::<key_auth::KeyAuth>(),
    plugin::<lua::Lua>(),
    filter::<rate_limit::RateLimit>(),
];
