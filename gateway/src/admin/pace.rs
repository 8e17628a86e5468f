//! How often the admin listener takes what costs or tries something: wrong tokens by address, and writes altogether.
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Wrong tokens of one address: this many at once, then one a second.
const WRONG: Bucket = Bucket { burst: 10.0, a_second: 1.0 };
/// Writes: this many at once, then five a second. Each compiles all definitions.
const WRITES: Bucket = Bucket { burst: 20.0, a_second: 5.0 };
/// Addresses that are remembered; the fullest are forgotten first.
const MOST: usize = 1024;

/// A bucket of tokens that fills as time goes by.
struct Bucket {
    burst: f64,
    a_second: f64,
}

/// How full a bucket was, and when.
#[derive(Clone, Copy)]
struct Level {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn now(&self, it: Level, now: Instant) -> f64 {
        (it.left + now.saturating_duration_since(it.at).as_secs_f64() * self.a_second).min(self.burst)
    }

    fn full(&self, now: Instant) -> Level {
        Level { left: self.burst, at: now }
    }
}

/// What was taken so far.
#[derive(Default)]
pub struct Pace {
    wrong: Mutex<HashMap<IpAddr, Level>>,
    writes: Mutex<Option<Level>>,
}

impl Pace {
    /// Whether a token of this address is looked at: not after too many wrong ones, the right one neither, or guessing would go on.
    pub fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let all = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&address).is_none_or(|it| WRONG.now(*it, now) >= 1.0)
    }

    /// A token of this address was wrong.
    pub fn was_wrong(&self, address: IpAddr, now: Instant) {
        let mut all = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&address) {
            all.retain(|_, it| WRONG.now(*it, now) < WRONG.burst);
            let fullest = all.iter().max_by(|a, b| WRONG.now(*a.1, now).total_cmp(&WRONG.now(*b.1, now))).map(|it| *it.0);
            if let Some(it) = fullest.filter(|_| all.len() >= MOST) {
                all.remove(&it);
            }
        }
        let it = all.entry(address).or_insert(WRONG.full(now));
        *it = Level { left: (WRONG.now(*it, now) - 1.0).max(0.0), at: now };
    }

    /// Whether one more write is taken, which then counts.
    pub fn write(&self, now: Instant) -> bool {
        let mut it = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let left = WRITES.now(it.unwrap_or(WRITES.full(now)), now);
        *it = Some(Level { left: if left >= 1.0 { left - 1.0 } else { left }, at: now });
        left >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;

    #[test]
    fn who_guesses_is_slowed_down_and_nobody_else() {
        let (it, now) = (Pace::default(), Instant::now());
        let (guesser, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..10 {
            assert!(it.may_try(guesser, now));
            it.was_wrong(guesser, now);
        }
        assert!(!it.may_try(guesser, now) && it.may_try(other, now));
        assert!(it.may_try(guesser, now + Duration::from_secs(1)));
    }

    #[test]
    fn memory_is_bounded_however_many_addresses_guess() {
        let (it, now) = (Pace::default(), Instant::now());
        for n in 0..5 * MOST as u32 {
            it.was_wrong(IpAddr::from(Ipv4Addr::from_bits(n)), now);
        }
        assert_eq!(it.wrong.lock().unwrap().len(), MOST);
    }

    #[test]
    fn writes_are_paced() {
        let (it, now) = (Pace::default(), Instant::now());
        assert_eq!((0..30).filter(|_| it.write(now)).count(), 20);
        assert_eq!((0..30).filter(|_| it.write(now + Duration::from_secs(1))).count(), 5);
    }
}
