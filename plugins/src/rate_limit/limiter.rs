//! The counts of one limit, shared by all threads and kept over reloads, and what a request was charged.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use contract::{
    env::{Clock, Env, StateKey},
    meter::{Counter, Gauge},
};

use super::{
    keys::{KeyHash, Keys, MOST_KEYS},
    limit::{Bucket, Gcra, Limit, Verdict, Window},
};

/// How often keys that say nothing any more are forgotten.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The counts of one limit.
pub struct Limiter {
    counts: Counts,
    clock: Arc<dyn Clock>,
    /// Time is counted from here.
    begin: Instant,
    swept: AtomicBool,
}

/// By the way in which they are counted.
pub enum Counts {
    Bucket(Keys<Bucket>),
    Gcra(Keys<Gcra>),
    Window(Keys<Window>),
}

/// What one request took of one limit.
pub struct Charge {
    limiter: Arc<Limiter>,
    key: KeyHash,
    cost: u64,
    limit: Limit,
}

impl Counts {
    pub fn bucket() -> Self {
        Self::Bucket(Keys::new(MOST_KEYS))
    }

    pub fn gcra() -> Self {
        Self::Gcra(Keys::new(MOST_KEYS))
    }

    pub fn window() -> Self {
        Self::Window(Keys::new(MOST_KEYS))
    }

    fn sweep(&self, now: u64) -> (u64, u64) {
        match self {
            Self::Bucket(it) => it.sweep(now),
            Self::Gcra(it) => it.sweep(now),
            Self::Window(it) => it.sweep(now),
        }
    }
}

impl Limiter {
    /// The one that is kept under `scope`, or a new one.
    pub fn of(env: &Env<'_>, scope: &StateKey, new: impl FnOnce() -> Counts) -> Arc<Self> {
        let clock = env.clock.clone();
        let begin = clock.now();
        let it = env.state_at(scope, || Self { counts: new(), clock, begin, swept: AtomicBool::new(false) });
        if !it.swept.swap(true, Relaxed) {
            let labels = [("owner", &*scope.owner), ("ring", &*scope.name)];
            let keys = env.meter.gauge("allium_rate_limit_keys", "Keys that limits remember.", &labels);
            let about = "Keys that were forgotten too early, because there were too many.";
            let evicted = env.meter.counter("allium_rate_limit_evicted_total", about, &labels);
            env.spawn.background(Box::pin(sweep(Arc::downgrade(&it), keys, evicted)));
        }
        it
    }

    /// Nanoseconds since the limit was made; whatever happens to the clock on the wall, they only rise.
    pub fn now(&self) -> u64 {
        // Not zero: a key that was never seen is then always in the past.
        self.clock.now().saturating_duration_since(self.begin).as_nanos() as u64 + 1
    }

    pub fn is_window(&self) -> bool {
        matches!(self.counts, Counts::Window(_))
    }

    pub fn hash(&self, kind: u8, key: &[u8]) -> KeyHash {
        match &self.counts {
            Counts::Bucket(it) => it.hash(kind, key),
            Counts::Gcra(it) => it.hash(kind, key),
            Counts::Window(it) => it.hash(kind, key),
        }
    }
}

/// Until nobody has the limit any more.
async fn sweep(limiter: std::sync::Weak<Limiter>, keys: Gauge, evicted: Counter) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(it) = limiter.upgrade() else { return keys.set(0) };
        let (left, gone) = it.counts.sweep(it.now());
        keys.set(left);
        evicted.add(gone);
    }
}

impl Charge {
    pub fn new(limiter: &Arc<Limiter>, key: KeyHash, cost: u64, limit: Limit) -> Self {
        Self { limiter: limiter.clone(), key, cost, limit }
    }

    pub fn is_of(&self, limiter: &Arc<Limiter>) -> bool {
        Arc::ptr_eq(&self.limiter, limiter)
    }

    pub fn take(&self, now: u64, limit: &Limit) -> Verdict {
        if limit.count <= 0.0 {
            return Verdict { admitted: false, remaining: 0, wait: u64::MAX };
        }
        match &self.limiter.counts {
            Counts::Bucket(it) => it.take(self.key, now, self.cost, limit),
            Counts::Gcra(it) => it.take(self.key, now, self.cost, limit),
            Counts::Window(it) => it.take(self.key, now, self.cost, limit),
        }
    }

    pub fn give_back(&self, now: u64) {
        match &self.limiter.counts {
            Counts::Bucket(it) => it.give_back(self.key, now, self.cost, &self.limit),
            Counts::Gcra(it) => it.give_back(self.key, now, self.cost, &self.limit),
            Counts::Window(it) => it.give_back(self.key, now, self.cost, &self.limit),
        }
    }
}
