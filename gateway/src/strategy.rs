//! The ways to choose a node; one file each.
pub mod chance;
pub mod hash;
pub mod least_request;
pub mod random;
pub mod round_robin;
#[cfg(test)]
mod tests;
mod weighted;

use std::sync::Arc;

use contract::discovery::Strategy;

/// A strategy that definitions can name.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    pub make: fn() -> Arc<dyn Strategy>,
}

/// All of them, the default first.
pub const ALL: &[Entry] = &[
    Entry { name: "round_robin", about: "In turn, by weight, smoothly.", make: || Arc::new(round_robin::RoundRobin::default()) },
    Entry { name: "random", about: "By chance, by weight.", make: || Arc::new(random::Random) },
    Entry {
        name: "least_request",
        about: "Of two by chance, the one with fewer calls on their way for its weight.",
        make: || Arc::new(least_request::LeastRequest),
    },
    Entry {
        name: "hash",
        about: "Calls of equal value to the same node; a node that leaves moves only its own.",
        make: || Arc::new(hash::Hash),
    },
];
