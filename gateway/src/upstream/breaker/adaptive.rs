//! Client-side throttling: refused by chance, the more the fewer calls are accepted ("Handling Overload", Site Reliability Engineering).
use std::time::Duration;

use tokio::time::Instant;

use crate::{strategy::chance, upstream::breaker::standing::Standing};

/// So many parts of the window are forgotten one by one.
const PARTS: usize = 40;
/// Refusals that a backend has free, so that a few failures refuse nothing.
const FREE: f64 = 8.0;
/// Nothing is refused before so many calls in the window.
const FEW: u32 = 20;
/// One call of ten goes through, whatever happens: without that, what a backend accepts again grows from one call in a window.
const MOST: f64 = 0.9;
/// One call is let through where none was for so long.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// Calls let through for each accepted one.
    pub k: f64,
    pub window: Duration,
    /// A call that takes as long is not accepted.
    pub slow: Option<Duration>,
}

/// Calls and what came of them, within the window.
///
/// A call is counted when it ends, as a call and as accepted at once: counted at its begin, the calls of a first burst that are
/// still on their way would be taken for refused ones, and so would all calls of a backend that answers later than the window.
pub struct Throttle {
    rule: Adaptive,
    epoch: Instant,
    /// The part that was counted last, since `epoch`.
    last: u64,
    /// Calls, those refused here included; and accepted ones.
    parts: [(u32, u32); PARTS],
    calls: u32,
    accepted: u32,
    passed: Instant,
}

impl Throttle {
    pub fn new(rule: Adaptive, now: Instant) -> Self {
        Self { rule, epoch: now, last: 0, parts: [(0, 0); PARTS], calls: 0, accepted: 0, passed: now }
    }

    /// Lets a call through, or says after how long to ask again. `share` of `k` is what the call's class gets.
    pub fn ask(&mut self, now: Instant, share: f64) -> Result<(), Duration> {
        let at = self.part(now);
        let chance_of = self.refusal(share);
        if chance_of <= 0.0 || now.duration_since(self.passed) >= LONGEST || chance() >= chance_of {
            self.passed = now;
            return Ok(());
        }
        self.count(at, false);
        Err(Duration::from_secs(1))
    }

    pub fn ended(&mut self, now: Instant, accepted: bool) {
        let at = self.part(now);
        self.count(at, accepted);
    }

    pub fn standing(&mut self, now: Instant) -> Standing {
        self.part(now);
        if self.refusal(1.0) > 0.0 { Standing::Throttling } else { Standing::Closed }
    }

    /// The share of calls that is refused now.
    fn refusal(&self, share: f64) -> f64 {
        if self.calls < FEW {
            return 0.0;
        }
        let k = (self.rule.k * share).max(1.0);
        let (calls, accepted) = (f64::from(self.calls), f64::from(self.accepted));
        ((calls - FREE - k * accepted) / (calls + 1.0)).clamp(0.0, MOST)
    }

    fn count(&mut self, at: usize, accepted: bool) {
        self.parts[at].0 += 1;
        self.calls += 1;
        if accepted {
            self.parts[at].1 += 1;
            self.accepted += 1;
        }
    }

    /// Where this moment is counted; what is older than the window is forgotten.
    fn part(&mut self, now: Instant) -> usize {
        let length = (self.rule.window.as_nanos() / PARTS as u128).max(1);
        let part = (now.saturating_duration_since(self.epoch).as_nanos() / length) as u64;
        // A moment that another thread took before the last one counts as the last one.
        let part = part.max(self.last);
        for it in (self.last + 1..=part).take(PARTS) {
            let (calls, accepted) = std::mem::take(&mut self.parts[it as usize % PARTS]);
            self.calls -= calls;
            self.accepted -= accepted;
        }
        self.last = part;
        part as usize % PARTS
    }
}

/// Any number from 0 up to 1.
fn chance() -> f64 {
    (chance::number() >> 11) as f64 / (1u64 << 53) as f64
}
