//! What is remembered of every key: bounded, and given back when keys are silent.
use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::limit::{Limit, Slot, Verdict};

/// A key as it is kept: a hash whose seed nobody knows. Nobody can make two that are the same.
pub type KeyHash = u128;

/// Keys are spread over so many locks.
const SHARDS: usize = 64;
/// At most so many keys; beyond, the one that would be forgotten soonest goes.
pub const MOST_KEYS: usize = 1_000_000;
/// A full shard looks for what can go at most once in this time.
const BETWEEN_SWEEPS: u64 = 1_000_000_000;

/// All keys of one limit.
pub struct Keys<S> {
    shards: Box<[Mutex<Shard<S>>]>,
    seed: (u64, u64),
    most: usize,
}

struct Shard<S> {
    slots: HashMap<KeyHash, Entry<S>, BuildHasherDefault<Same>>,
    swept: u64,
    evicted: u64,
}

struct Entry<S> {
    slot: S,
    until: u64,
}

/// The key is a hash already.
#[derive(Default)]
pub struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|it| self.0 = self.0.rotate_left(8) ^ u64::from(*it));
    }
    fn write_u128(&mut self, it: u128) {
        self.0 = it as u64;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

impl<S: Slot> Keys<S> {
    pub fn new(most: usize) -> Self {
        let random = || RandomState::new().hash_one(0u8);
        let shard = || Mutex::new(Shard { slots: HashMap::default(), swept: 0, evicted: 0 });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), seed: (random(), random()), most: most.div_ceil(SHARDS) }
    }

    /// `kind` keeps apart what is spelt alike and is not the same.
    pub fn hash(&self, kind: u8, key: &[u8]) -> KeyHash {
        let mut hasher = SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        hasher.write_u8(kind);
        hasher.write(key);
        hasher.finish128().as_u128()
    }

    /// No await is ever inside of it, and nothing in it panics; a poisoned lock holds sound numbers.
    fn shard(&self, key: KeyHash) -> MutexGuard<'_, Shard<S>> {
        self.shards[(key >> 64) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self, key: KeyHash, now: u64, cost: u64, limit: &Limit) -> Verdict {
        let mut shard = self.shard(key);
        if let Some(it) = shard.slots.get_mut(&key) {
            let verdict = it.slot.take(now, cost, limit);
            it.until = it.slot.until(limit);
            return verdict;
        }
        let mut slot = S::new(now, limit);
        let verdict = slot.take(now, cost, limit);
        let until = slot.until(limit);
        // Where nothing was taken, there is nothing to remember.
        if until > now {
            shard.make_room(now, self.most);
            shard.slots.insert(key, Entry { slot, until });
        }
        verdict
    }

    pub fn give_back(&self, key: KeyHash, now: u64, cost: u64, limit: &Limit) {
        if let Some(it) = self.shard(key).slots.get_mut(&key) {
            it.slot.give_back(now, cost, limit);
            it.until = it.slot.until(limit);
        }
    }

    /// Forgets keys of which nothing is to be remembered, and gives their memory back. Says how many are left, and how many had to go since.
    pub fn sweep(&self, now: u64) -> (u64, u64) {
        let (mut left, mut evicted) = (0, 0);
        for it in &self.shards {
            let mut shard = it.lock().unwrap_or_else(PoisonError::into_inner);
            shard.sweep(now);
            let len = shard.slots.len();
            if shard.slots.capacity() > 4 * len.max(16) {
                shard.slots.shrink_to(2 * len);
            }
            left += len as u64;
            evicted += std::mem::take(&mut shard.evicted);
        }
        (left, evicted)
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.shards.iter().map(|it| it.lock().unwrap().slots.capacity()).sum()
    }
}

impl<S> Shard<S> {
    fn sweep(&mut self, now: u64) {
        self.slots.retain(|_, it| it.until > now);
        self.swept = now;
    }

    fn make_room(&mut self, now: u64, most: usize) {
        if self.slots.len() < most {
            return;
        }
        if now.saturating_sub(self.swept) >= BETWEEN_SWEEPS {
            self.sweep(now);
        }
        while self.slots.len() >= most {
            // Of a few, the one of which least is lost.
            let Some(key) = self.slots.iter().take(8).min_by_key(|(_, it)| it.until).map(|(key, _)| *key) else { return };
            self.slots.remove(&key);
            self.evicted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::limit::Bucket, *};

    const SECOND: u64 = 1_000_000_000;

    fn limit() -> Limit {
        Limit::new("10/s".parse().unwrap(), Some(10))
    }

    #[test]
    fn half_a_million_keys_come_and_their_memory_goes() {
        let keys = Keys::<Bucket>::new(MOST_KEYS);
        for it in 0..500_000u32 {
            keys.take(keys.hash(0, &it.to_be_bytes()), SECOND, 1, &limit());
        }
        assert_eq!(keys.sweep(SECOND), (500_000, 0));
        assert!(keys.capacity() >= 500_000);
        assert_eq!(keys.sweep(3 * SECOND), (0, 0));
        assert!(keys.capacity() < 64 * 64, "{}", keys.capacity());
    }

    #[test]
    fn there_are_never_more_keys_than_allowed_and_the_ones_that_go_are_counted() {
        let keys = Keys::<Bucket>::new(640);
        for it in 0..5000u32 {
            keys.take(keys.hash(0, &it.to_be_bytes()), SECOND, 1, &limit());
        }
        let (left, evicted) = keys.sweep(SECOND);
        assert!(left <= 640 && evicted == 5000 - left, "{left} {evicted}");
    }

    #[test]
    fn keys_of_two_kinds_are_two_keys() {
        let keys = Keys::<Bucket>::new(640);
        assert_ne!(keys.hash(0, b"a"), keys.hash(1, b"a"));
        assert_eq!(keys.hash(0, b"a"), keys.hash(0, b"a"));
    }
}
