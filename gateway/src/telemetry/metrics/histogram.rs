//! Counts durations by fixed bounds, with atomics alone.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The upper bounds of a histogram's buckets, shared by all histograms of a gateway.
///
/// Invariant: at least one bound, at most [`Bounds::MOST`], each above the one before.
#[derive(Clone, Debug)]
pub struct Bounds(Arc<[u64]>);

impl Bounds {
    /// How many bounds one histogram may have; each is a line of `/metrics` for every route.
    pub const MOST: usize = 24;

    /// Sorted, without repetitions and zeros; `None` where nothing is left or too much is asked for.
    pub fn new(bounds: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut nanos: Vec<u64> = bounds.into_iter().map(nanos).filter(|it| *it > 0).collect();
        nanos.sort_unstable();
        nanos.dedup();
        (1..=Self::MOST).contains(&nanos.len()).then(|| Self(nanos.into()))
    }

    /// The bounds in seconds.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().map(|it| seconds(*it))
    }
}

impl Default for Bounds {
    /// Nine bounds: finer than these, a gateway with thousands of routes would answer `/metrics` with tens of megabytes.
    fn default() -> Self {
        const MILLIS: [u64; 9] = [1, 5, 25, 100, 250, 500, 1_000, 2_500, 10_000];
        Self(MILLIS.iter().map(|it| it * 1_000_000).collect())
    }
}

/// Durations that were observed. Observing is two relaxed additions.
#[derive(Debug)]
pub struct Histogram {
    bounds: Bounds,
    /// One more than there are bounds: the last counts what is beyond them all.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: Bounds) -> Self {
        let buckets = (0..=bounds.0.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, taken: Duration) {
        let nanos = nanos(taken);
        let at = self.bounds.0.iter().position(|it| nanos <= *it).unwrap_or(self.bounds.0.len());
        self.buckets[at].fetch_add(1, Relaxed);
        self.sum.fetch_add(nanos, Relaxed);
    }

    /// What was counted so far. Buckets are read one after the other: a scrape may miss what is observed meanwhile, never contradict itself.
    pub fn read(&self) -> Reading {
        let sum = seconds(self.sum.load(Relaxed));
        let mut total = 0;
        let cumulative = self
            .buckets
            .iter()
            .map(|it| {
                total += it.load(Relaxed);
                total
            })
            .collect();
        Reading { cumulative, sum, count: total }
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}

/// A histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// How many were at most each bound; the last is all of them.
    pub cumulative: Vec<u64>,
    /// In seconds.
    pub sum: f64,
    pub count: u64,
}

fn nanos(it: Duration) -> u64 {
    u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_counts_in_its_bucket_and_in_all_above() {
        let it = Histogram::new(Bounds::new([5, 1, 10].map(Duration::from_millis)).unwrap());
        for micros in [500, 1_000, 1_001, 7_000, 99_000] {
            it.observe(Duration::from_micros(micros));
        }
        let read = it.read();
        assert_eq!((read.cumulative, read.count), (vec![2, 3, 4, 5], 5), "a bound belongs to its own bucket");
        assert!((read.sum - 0.108501).abs() < 1e-9, "{}", read.sum);
    }

    #[test]
    fn bounds_are_put_in_order_and_have_a_limit() {
        let it = Bounds::new([10, 5, 5, 0].map(Duration::from_millis)).unwrap();
        assert_eq!(it.seconds().collect::<Vec<_>>(), [0.005, 0.01]);
        assert!(Bounds::new([Duration::ZERO]).is_none());
        assert!(Bounds::new((1..100).map(Duration::from_millis)).is_none());
    }
}
