//! The ways to choose a node; one file each.
pub mod round_robin;

use std::sync::Arc;

use contract::discovery::Strategy;

/// A strategy that definitions can name.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    pub make: fn() -> Arc<dyn Strategy>,
}

/// All of them, the default first.
pub const ALL: &[Entry] =
    &[Entry { name: "round_robin", about: "In turn, by weight, smoothly.", make: || Arc::new(round_robin::RoundRobin::default()) }];

/// Strategies of the format that this build does not have.
pub const NOT_BUILT: &[&str] = &["random", "least_request", "hash"];
