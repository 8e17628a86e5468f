//! Scripts that run inside Redis: each is atomic, and asks only for the keys that it is given.

/// A token bucket.
pub const TOKEN_BUCKET: &str = include_str!("../redis/token_bucket.lua");
/// Which gateways are there.
pub const NODES: &str = include_str!("../redis/nodes.lua");

/// All of them, by name.
pub const ALL: &[(&str, &str)] = &[("token_bucket", TOKEN_BUCKET), ("nodes", NODES)];
