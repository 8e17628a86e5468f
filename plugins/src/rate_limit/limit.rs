//! How much is allowed, and the three ways of counting it. Pure: time is a number of nanoseconds that only rises.
use schemas::units::Rate;

/// What one key may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// How many in [`per`](Self::per).
    pub count: f64,
    /// Nanoseconds; never zero.
    pub per: f64,
    /// How many at once.
    pub burst: f64,
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub admitted: bool,
    /// How many more could come at once.
    pub remaining: u64,
    /// Nanoseconds: of an admitted request, until everything is there again; of a refused one, until it would be admitted. `u64::MAX` is never.
    pub wait: u64,
}

/// What is remembered of one key.
pub trait Slot: Copy + Send + 'static {
    /// Of a key that was never seen.
    fn new(now: u64, limit: &Limit) -> Self;
    /// Takes `cost`, or nothing.
    fn take(&mut self, now: u64, cost: u64, limit: &Limit) -> Verdict;
    /// As if a request that was admitted had not come.
    fn give_back(&mut self, now: u64, cost: u64, limit: &Limit);
    /// From when on it says no more than a new one.
    fn until(&self, limit: &Limit) -> u64;
}

impl Limit {
    /// `burst` is one second's worth, at least 1, where it is not said.
    pub fn new(rate: Rate, burst: Option<u64>) -> Self {
        let per = (rate.per.as_nanos() as f64).max(1.0);
        let burst = burst.map_or_else(|| (rate.count * 1e9 / per).ceil().max(1.0), |it| it as f64);
        Self { count: rate.count, per, burst }
    }

    /// Nanoseconds for `cost` to come back.
    fn time(&self, cost: f64) -> f64 {
        cost * self.per / self.count
    }
}

/// Rounds up, and never wraps: a rate of one in a year is a long time.
fn nanos(it: f64) -> u64 {
    it.ceil().max(0.0) as u64
}

// === token bucket ===

/// Holds `burst` tokens at most; `count` in `per` come back, evenly.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    tokens: f64,
    at: u64,
}

impl Bucket {
    fn refill(&mut self, now: u64, limit: &Limit) {
        // Invariant: time never goes back. A burst that was made smaller holds at once.
        let since = now.saturating_sub(self.at);
        self.tokens = (self.tokens + since as f64 * limit.count / limit.per).min(limit.burst);
        self.at = self.at.max(now);
    }
}

impl Slot for Bucket {
    fn new(now: u64, limit: &Limit) -> Self {
        Self { tokens: limit.burst, at: now }
    }

    fn take(&mut self, now: u64, cost: u64, limit: &Limit) -> Verdict {
        self.refill(now, limit);
        let cost = cost as f64;
        // What sums of fractions lose must not refuse a request that is on time.
        let admitted = cost <= self.tokens + 1e-6;
        let wait = match admitted {
            true => {
                self.tokens = (self.tokens - cost).max(0.0);
                nanos(limit.time(limit.burst - self.tokens))
            }
            false if cost > limit.burst => u64::MAX,
            false => nanos(limit.time(cost - self.tokens)),
        };
        Verdict { admitted, remaining: (self.tokens + 1e-6) as u64, wait }
    }

    fn give_back(&mut self, now: u64, cost: u64, limit: &Limit) {
        self.refill(now, limit);
        self.tokens = (self.tokens + cost as f64).min(limit.burst);
    }

    fn until(&self, limit: &Limit) -> u64 {
        self.at.saturating_add(nanos(limit.time(limit.burst - self.tokens)))
    }
}

// === GCRA ===

/// The generic cell rate algorithm: when the next request would be on time. Counts as the bucket does, in one number.
#[derive(Clone, Copy, Debug)]
pub struct Gcra {
    due: u64,
}

impl Slot for Gcra {
    fn new(now: u64, _: &Limit) -> Self {
        Self { due: now }
    }

    fn take(&mut self, now: u64, cost: u64, limit: &Limit) -> Verdict {
        let tolerance = nanos(limit.time(limit.burst));
        // A burst that was made smaller holds at once.
        let due = self.due.clamp(now, now.saturating_add(tolerance));
        let next = due.saturating_add(nanos(limit.time(cost as f64)));
        let left = |due: u64| (tolerance.saturating_sub(due - now) as f64 / limit.time(1.0) + 1e-6) as u64;
        if next - now <= tolerance.saturating_add(ROUNDING) {
            self.due = next;
            return Verdict { admitted: true, remaining: left(next), wait: next - now };
        }
        let wait = if cost as f64 > limit.burst { u64::MAX } else { next - now - tolerance };
        Verdict { admitted: false, remaining: left(due), wait }
    }

    fn give_back(&mut self, _: u64, cost: u64, limit: &Limit) {
        self.due = self.due.saturating_sub(nanos(limit.time(cost as f64)));
    }

    fn until(&self, _: &Limit) -> u64 {
        self.due
    }
}

/// Each time is rounded up to a nanosecond, which must not refuse the last of a burst.
const ROUNDING: u64 = 1_000;

// === sliding window ===

/// Parts of a window. More of them let through more of what is allowed: at least `1 - 1/PARTS` of it.
const PARTS: u64 = 10;

/// Counts of the part of the window that is now, and of those before it. All are counted whole, so that no window of any
/// beginning ever has more than is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    counts: [u32; PARTS as usize + 1],
    /// The number of the part that is now.
    part: u64,
    /// Nanoseconds of one part.
    size: u64,
}

impl Window {
    fn advance(&mut self, now: u64, limit: &Limit) {
        let size = size(limit);
        if self.size != size {
            *self = Self::new(now, limit);
        }
        let part = now / size;
        for gone in self.part + 1..=part.min(self.part.saturating_add(PARTS + 1)) {
            self.counts[(gone % (PARTS + 1)) as usize] = 0;
        }
        self.part = self.part.max(part);
    }

    fn sum(&self) -> u64 {
        self.counts.iter().map(|it| u64::from(*it)).sum()
    }
}

fn size(limit: &Limit) -> u64 {
    ((limit.per / PARTS as f64) as u64).max(1)
}

impl Slot for Window {
    fn new(now: u64, limit: &Limit) -> Self {
        Self { counts: [0; PARTS as usize + 1], part: now / size(limit), size: size(limit) }
    }

    fn take(&mut self, now: u64, cost: u64, limit: &Limit) -> Verdict {
        self.advance(now, limit);
        let most = limit.count as u64;
        let used = self.sum();
        let ends = |part: u64| (part + PARTS + 1).saturating_mul(self.size).saturating_sub(now);
        if used.saturating_add(cost) <= most {
            let here = &mut self.counts[(self.part % (PARTS + 1)) as usize];
            *here = here.saturating_add(cost.min(u64::from(u32::MAX)) as u32);
            return Verdict { admitted: true, remaining: most - used - cost, wait: ends(self.part) };
        }
        let mut over = used.saturating_add(cost) - most;
        let mut wait = u64::MAX;
        for part in self.part.saturating_sub(PARTS)..=self.part {
            over = over.saturating_sub(u64::from(self.counts[(part % (PARTS + 1)) as usize]));
            if over == 0 && cost <= most {
                wait = ends(part);
                break;
            }
        }
        Verdict { admitted: false, remaining: most.saturating_sub(used), wait }
    }

    fn give_back(&mut self, now: u64, cost: u64, limit: &Limit) {
        self.advance(now, limit);
        // Where it was counted is not known any more; the newest part that has it is where it most likely was.
        let mut left = cost;
        for back in 0..=PARTS.min(self.part) {
            let count = &mut self.counts[((self.part - back) % (PARTS + 1)) as usize];
            let taken = left.min(u64::from(*count));
            *count -= taken as u32;
            left -= taken;
        }
    }

    fn until(&self, _: &Limit) -> u64 {
        (self.part + PARTS + 1).saturating_mul(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limit(rate: &str, burst: Option<u64>) -> Limit {
        Limit::new(rate.parse().unwrap(), burst)
    }

    /// How many of `asked` requests a second, evenly, for so many seconds, pass.
    fn admitted<S: Slot>(limit: &Limit, asked: u64, seconds: u64) -> u64 {
        let mut slot = S::new(0, limit);
        (0..asked * seconds).filter(|it| slot.take(it * SECOND / asked, 1, limit).admitted).count() as u64
    }

    /// Times at which requests pass, of a pattern of arrivals that has bursts and pauses.
    fn passes<S: Slot>(limit: &Limit, seed: u64) -> Vec<u64> {
        let (mut slot, mut now, mut random) = (S::new(0, limit), 0, seed);
        let mut passed = Vec::new();
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += if random >> 60 == 0 { (random >> 20) % (2 * SECOND) } else { (random >> 30) % (SECOND / 200) };
            if slot.take(now, 1, limit).admitted {
                passed.push(now);
            }
        }
        passed
    }

    #[test]
    fn a_bucket_and_gcra_admit_what_is_ideal_within_one_percent() {
        for (rate, burst, asked, seconds, ideal) in [
            ("100/s", Some(20), 1000, 10, 1020),
            ("100/s", None, 5000, 10, 1100),
            ("600/m", Some(1), 50, 60, 600),
            ("3/s", Some(7), 100, 20, 67),
        ] {
            let limit = limit(rate, burst);
            for found in [admitted::<Bucket>(&limit, asked, seconds), admitted::<Gcra>(&limit, asked, seconds)] {
                assert!((found as f64 - ideal as f64).abs() <= (ideal as f64 / 100.0).max(1.0), "{rate} {burst:?}: {found}, not {ideal}");
            }
        }
    }

    #[test]
    fn a_bucket_and_gcra_are_the_same_limit() {
        for (rate, burst) in [("50/s", 10), ("7/s", 1), ("90/m", 30)] {
            let limit = limit(rate, Some(burst));
            let (one, two) = (passes::<Bucket>(&limit, 7), passes::<Gcra>(&limit, 7));
            assert!(one.len().abs_diff(two.len()) <= 1 + one.len() / 1000, "{rate}: {} {}", one.len(), two.len());
        }
    }

    #[test]
    fn no_window_of_any_beginning_has_more_than_is_allowed() {
        for seed in 0..5 {
            let limit = limit("50/s", None);
            let passed = passes::<Window>(&limit, seed);
            for (at, first) in passed.iter().enumerate() {
                let inside = passed[at..].iter().take_while(|it| **it < first + SECOND).count();
                assert!(inside <= 50, "{inside} within a second, seed {seed}");
            }
            assert!(passed.len() > 1000, "and much of it: {}", passed.len());
        }
        let even = admitted::<Window>(&limit("100/s", None), 1000, 20);
        assert!((1800..=2000).contains(&even), "at least nine tenths of what is allowed: {even}");
    }

    #[test]
    fn who_waits_as_told_passes() {
        fn check<S: Slot>(limit: &Limit, cost: u64) {
            let mut slot = S::new(SECOND, limit);
            let mut now = SECOND;
            for _ in 0..200 {
                let it = slot.take(now, cost, limit);
                if !it.admitted {
                    let mut early = slot;
                    assert!(
                        !early.take(now + it.wait.saturating_sub(SECOND / 1000), cost, limit).admitted || it.wait < SECOND / 500,
                        "{it:?}"
                    );
                    now += it.wait;
                    assert!(slot.take(now, cost, limit).admitted, "{it:?}");
                }
            }
        }
        for cost in [1, 3] {
            check::<Bucket>(&limit("10/s", Some(5)), cost);
            check::<Gcra>(&limit("10/s", Some(5)), cost);
            check::<Window>(&limit("10/s", None), cost);
        }
    }

    #[test]
    fn what_is_given_back_was_never_taken() {
        fn check<S: Slot>(limit: &Limit) {
            let mut slot = S::new(0, limit);
            assert!((0..5).all(|_| slot.take(10, 1, limit).admitted) && !slot.take(10, 1, limit).admitted);
            slot.give_back(10, 2, limit);
            assert!(slot.take(10, 1, limit).admitted && slot.take(10, 1, limit).admitted && !slot.take(10, 1, limit).admitted);
            slot.give_back(10, 100, limit);
            assert_eq!((0..9).filter(|_| slot.take(10, 1, limit).admitted).count(), 5, "never more than there ever was");
        }
        check::<Bucket>(&limit("1/m", Some(5)));
        check::<Gcra>(&limit("1/m", Some(5)));
        check::<Window>(&limit("5/m", None));
    }

    #[test]
    fn what_can_never_pass_says_so_and_takes_nothing() {
        fn check<S: Slot>(limit: &Limit) {
            let mut slot = S::new(0, limit);
            let it = slot.take(0, 6, limit);
            assert!(!it.admitted && it.wait == u64::MAX && it.remaining == 5, "{it:?}");
            assert!(slot.take(0, 5, limit).admitted);
        }
        check::<Bucket>(&limit("1/m", Some(5)));
        check::<Gcra>(&limit("1/m", Some(5)));
        check::<Window>(&limit("5/m", None));
    }

    #[test]
    fn a_clock_that_stands_or_jumps_gives_nobody_more_than_a_burst() {
        fn check<S: Slot>(limit: &Limit) {
            let mut slot = S::new(1000 * SECOND, limit);
            let mut count = |now: u64| (0..20).filter(|_| slot.take(now * SECOND, 1, limit).admitted).count();
            assert_eq!((count(1000), count(1000), count(4600), count(4600), count(1000)), (5, 0, 5, 0, 0));
        }
        check::<Bucket>(&limit("1/s", Some(5)));
        check::<Window>(&limit("5/m", None));
    }

    #[test]
    fn a_rate_and_a_burst_that_change_hold_at_once() {
        fn check<S: Slot>() {
            let (large, small) = (limit("10/s", Some(100)), limit("10/s", Some(2)));
            let mut slot = S::new(0, &large);
            assert_eq!((0..9).filter(|_| slot.take(0, 1, &small).admitted).count(), 2);
        }
        check::<Bucket>();
        check::<Gcra>();
    }

    #[test]
    fn a_slot_says_no_more_than_a_new_one_after_its_time() {
        fn check<S: Slot>(limit: &Limit) {
            let mut slot = S::new(0, limit);
            for it in 0..5 {
                slot.take(it * 1000, 1, limit);
            }
            let until = slot.until(limit);
            let (mut old, mut new) = (slot, S::new(until, limit));
            for _ in 0..7 {
                let (a, b) = (old.take(until, 1, limit), new.take(until, 1, limit));
                assert_eq!((a.admitted, a.remaining), (b.admitted, b.remaining));
            }
        }
        check::<Bucket>(&limit("3/s", Some(5)));
        check::<Gcra>(&limit("3/s", Some(5)));
        check::<Window>(&limit("5/s", None));
    }
}
