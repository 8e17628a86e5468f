//! Counts by a short word that the code chooses, without a lock.
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::exposition::Exposition;

/// More words than the code has; should it ever have more, the rest count as `other`.
const MOST: usize = 64;

/// Counters by reason. A word takes the first free slot and keeps it; finding it again is a short walk.
pub struct Reasons {
    slots: [OnceLock<(&'static str, AtomicU64)>; MOST],
    other: AtomicU64,
}

impl Default for Reasons {
    fn default() -> Self {
        Self { slots: [const { OnceLock::new() }; MOST], other: AtomicU64::new(0) }
    }
}

impl Reasons {
    pub fn count(&self, reason: &'static str) {
        for slot in &self.slots {
            let (word, count) = slot.get_or_init(|| (reason, AtomicU64::new(0)));
            if *word == reason {
                count.fetch_add(1, Relaxed);
                return;
            }
        }
        self.other.fetch_add(1, Relaxed);
    }

    pub fn write(&self, to: &mut Exposition) {
        for (word, count) in self.slots.iter().map_while(OnceLock::get) {
            to.integer(&[("reason", word)], count.load(Relaxed));
        }
        match self.other.load(Relaxed) {
            0 => {}
            it => to.integer(&[("reason", "other")], it),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::exposition::{Format, Kind},
        *,
    };

    #[test]
    fn each_reason_has_its_own_count_and_too_many_share_one() {
        let it = Reasons::default();
        it.count("timeout");
        it.count("not_found");
        it.count("timeout");
        for at in 0..MOST {
            it.count(Box::leak(format!("r{at}").into_boxed_str()));
        }
        let mut to = Exposition::new(Format::Prometheus);
        to.family("allium_refused_total", "Refused.", Kind::Counter);
        it.write(&mut to);
        let text = to.finish();
        for line in ["allium_refused_total{reason=\"timeout\"} 2", "allium_refused_total{reason=\"not_found\"} 1", "{reason=\"other\"} 2"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
