//! Figures that a ring reports. Handles are resolved when a route is compiled; a request hashes no label.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Hands out figures by name and labels; the same ones for the same words.
///
/// Names are Prometheus': `allium_…`, ending in their unit. Labels come from definitions, never from requests.
pub trait Meter {
    fn counter(&self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Counter;
    fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&'static str, &str)]) -> Gauge;
}

/// Only ever rises.
#[derive(Clone, Debug, Default)]
pub struct Counter(pub Arc<AtomicU64>);

impl Counter {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Rises and falls.
#[derive(Clone, Debug, Default)]
pub struct Gauge(pub Arc<AtomicU64>);

impl Gauge {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Relaxed);
    }
    pub fn sub(&self, by: u64) {
        self.0.fetch_sub(by, Relaxed);
    }
    pub fn set(&self, to: u64) {
        self.0.store(to, Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counts, and forgets: for tests and for checks that run no gateway.
pub struct Nowhere;

impl Meter for Nowhere {
    fn counter(&self, _: &'static str, _: &'static str, _: &[(&'static str, &str)]) -> Counter {
        Counter::default()
    }
    fn gauge(&self, _: &'static str, _: &'static str, _: &[(&'static str, &str)]) -> Gauge {
        Gauge::default()
    }
}
