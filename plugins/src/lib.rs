//! The rings that come with the gateway, one file each.
//!
//! Invariant: no ring imports another, nor the gateway.
mod cors;
mod fallback;
mod headers;
mod ip_acl;

use contract::catalog::{Entry, filter};

/// Every ring, by the order of its name. Adding one is its file, and its line here.
pub const ALL: &[Entry] =
    &[filter::<cors::Cors>(), filter::<fallback::Fallback>(), filter::<headers::Headers>(), filter::<ip_acl::IpAcl>()];
