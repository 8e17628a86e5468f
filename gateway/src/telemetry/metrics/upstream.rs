//! The figures of one Upstream and its nodes, resolved when nodes change.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{
    exposition::Exposition,
    histogram::{Bounds, Histogram},
    kept::Kept,
};
use crate::dial::Handshakes;

/// How one call ended, in the words of `outcomes.is`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Ok,
    Throttled,
    Transient,
    Unknown,
    Fatal,
    /// The client left, or somebody else answered first.
    Cancelled,
}

const OUTCOMES: [&str; 6] = ["ok", "throttled", "transient", "unknown", "fatal", "cancelled"];

/// How nodes stand: called, spared because calls failed, spared because their checks fail.
const STANDINGS: [&str; 3] = ["healthy", "ejected", "unhealthy"];

/// More nodes than one upstream has at a time; nodes beyond share the label `other`.
const MOST_NODES: usize = 1024;

/// The figures of one upstream.
#[derive(Clone)]
pub struct UpstreamMetrics(pub(super) Arc<UpstreamFigures>);

/// The figures of one node of an upstream. Recording a call is three relaxed additions.
#[derive(Clone)]
pub struct NodeMetrics {
    upstream: Arc<UpstreamFigures>,
    node: Arc<[AtomicU64; OUTCOMES.len()]>,
}

/// A connection to a node; dropping it takes it out of `allium_upstream_connections`.
#[must_use]
pub struct Connected(Arc<UpstreamFigures>);

pub(super) struct UpstreamFigures {
    duration: Histogram,
    nodes: Kept<Box<str>, [AtomicU64; OUTCOMES.len()]>,
    others: Arc<[AtomicU64; OUTCOMES.len()]>,
    retries: AtomicU64,
    retries_refused: AtomicU64,
    ejections: AtomicU64,
    breaker_refused: AtomicU64,
    breaker_opened: AtomicU64,
    /// Circuits that refuse some calls.
    breaker_circuits: AtomicU64,
    /// In the order of [`STANDINGS`].
    standings: [AtomicU64; STANDINGS.len()],
    connections: AtomicU64,
    connects: AtomicU64,
    failed_connects: AtomicU64,
    handshakes: Arc<Handshakes>,
}

impl UpstreamMetrics {
    /// The figures of the node at `address`; the same ones for the same address.
    pub fn node(&self, address: &str) -> NodeMetrics {
        let node = self.0.nodes.take(address.into(), no_calls).unwrap_or_else(|| self.0.others.clone());
        NodeMetrics { upstream: self.0.clone(), node }
    }

    /// A call is repeated.
    pub fn retried(&self) {
        self.0.retries.fetch_add(1, Relaxed);
    }

    /// A call would have been repeated, but for the budget.
    pub fn retry_refused(&self) {
        self.0.retries_refused.fetch_add(1, Relaxed);
    }

    /// A node is spared because its calls failed.
    pub fn ejected(&self) {
        self.0.ejections.fetch_add(1, Relaxed);
    }

    /// A call was not made, because a breaker refuses it.
    pub fn breaker_refused(&self) {
        self.0.breaker_refused.fetch_add(1, Relaxed);
    }

    /// A circuit refuses all calls from now on.
    pub fn breaker_opened(&self) {
        self.0.breaker_opened.fetch_add(1, Relaxed);
    }

    /// Whether a circuit refused some calls, and whether it does now.
    pub fn breaker_stands(&self, before: bool, now: bool) {
        match (before, now) {
            (false, true) => _ = self.0.breaker_circuits.fetch_add(1, Relaxed),
            (true, false) => _ = self.0.breaker_circuits.fetch_sub(1, Relaxed),
            _ => (),
        }
    }

    /// How many nodes are healthy, ejected, unhealthy.
    pub fn stand(&self, counts: [u64; 3]) {
        self.0.standings.iter().zip(counts).for_each(|(it, count)| it.store(count, Relaxed));
    }

    /// A connection stands.
    pub fn connected(&self) -> Connected {
        self.0.connects.fetch_add(1, Relaxed);
        self.0.connections.fetch_add(1, Relaxed);
        Connected(self.0.clone())
    }

    /// Where its TLS handshakes are counted.
    pub fn handshakes(&self) -> Arc<Handshakes> {
        self.0.handshakes.clone()
    }

    /// A connection could not be made.
    pub fn not_connected(&self) {
        self.0.failed_connects.fetch_add(1, Relaxed);
    }
}

impl NodeMetrics {
    pub fn record(&self, outcome: CallOutcome, taken: Duration) {
        self.node[outcome as usize].fetch_add(1, Relaxed);
        self.upstream.duration.observe(taken);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

fn no_calls() -> [AtomicU64; OUTCOMES.len()] {
    [const { AtomicU64::new(0) }; OUTCOMES.len()]
}

// === impl UpstreamFigures ===

impl UpstreamFigures {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            duration: Histogram::new(bounds),
            nodes: Kept::new(MOST_NODES),
            others: Arc::new(no_calls()),
            retries: AtomicU64::new(0),
            retries_refused: AtomicU64::new(0),
            ejections: AtomicU64::new(0),
            breaker_refused: AtomicU64::new(0),
            breaker_opened: AtomicU64::new(0),
            breaker_circuits: AtomicU64::new(0),
            standings: [const { AtomicU64::new(0) }; STANDINGS.len()],
            connections: AtomicU64::new(0),
            connects: AtomicU64::new(0),
            failed_connects: AtomicU64::new(0),
            handshakes: Arc::default(),
        }
    }

    pub(super) fn sweep(&self, now: Instant) {
        self.nodes.sweep(now);
    }

    pub(super) fn write_requests(&self, to: &mut Exposition, upstream: &str) {
        let others = (Box::<str>::from("other"), self.others.clone());
        for (node, counts) in self.nodes.all().into_iter().chain([others]) {
            for (outcome, count) in OUTCOMES.iter().zip(counts.iter()) {
                let count = count.load(Relaxed);
                if count > 0 {
                    to.integer(&[("upstream", upstream), ("node", &node), ("outcome", outcome)], count);
                }
            }
        }
    }

    pub(super) fn write_duration(&self, to: &mut Exposition, upstream: &str) {
        if self.duration.read().count > 0 {
            to.histogram(&[("upstream", upstream)], &self.duration);
        }
    }

    pub(super) fn write_retries(&self, to: &mut Exposition, upstream: &str) {
        match self.retries.load(Relaxed) {
            0 => {}
            it => to.integer(&[("upstream", upstream)], it),
        }
    }

    pub(super) fn write_retries_refused(&self, to: &mut Exposition, upstream: &str) {
        match self.retries_refused.load(Relaxed) {
            0 => {}
            it => to.integer(&[("upstream", upstream)], it),
        }
    }

    pub(super) fn write_ejections(&self, to: &mut Exposition, upstream: &str) {
        match self.ejections.load(Relaxed) {
            0 => {}
            it => to.integer(&[("upstream", upstream)], it),
        }
    }

    pub(super) fn write_breaker_refused(&self, to: &mut Exposition, upstream: &str) {
        match self.breaker_refused.load(Relaxed) {
            0 => {}
            it => to.integer(&[("upstream", upstream)], it),
        }
    }

    pub(super) fn write_breaker_opened(&self, to: &mut Exposition, upstream: &str) {
        match self.breaker_opened.load(Relaxed) {
            0 => {}
            it => to.integer(&[("upstream", upstream)], it),
        }
    }

    /// Said where a breaker once refused something: then 0 says that all is well again.
    pub(super) fn write_breaker_circuits(&self, to: &mut Exposition, upstream: &str) {
        let now = self.breaker_circuits.load(Relaxed);
        if now > 0 || self.breaker_refused.load(Relaxed) + self.breaker_opened.load(Relaxed) > 0 {
            to.integer(&[("upstream", upstream)], now);
        }
    }

    pub(super) fn write_standings(&self, to: &mut Exposition, upstream: &str) {
        for (standing, count) in STANDINGS.iter().zip(&self.standings) {
            to.integer(&[("upstream", upstream), ("state", standing)], count.load(Relaxed));
        }
    }

    pub(super) fn write_connects(&self, to: &mut Exposition, upstream: &str) {
        for (result, count) in [("ok", &self.connects), ("failed", &self.failed_connects)] {
            let count = count.load(Relaxed);
            if count > 0 {
                to.integer(&[("upstream", upstream), ("result", result)], count);
            }
        }
    }

    pub(super) fn write_handshakes(&self, to: &mut Exposition, upstream: &str) {
        for (result, count) in self.handshakes.counts() {
            to.integer(&[("upstream", upstream), ("result", result)], count);
        }
    }

    pub(super) fn write_connections(&self, to: &mut Exposition, upstream: &str) {
        if self.connects.load(Relaxed) > 0 {
            to.integer(&[("upstream", upstream)], self.connections.load(Relaxed));
        }
    }
}
