//! What a script keeps between requests, on whatever thread they run: texts with a time to live, bounded in number and size.
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;

/// The most entries.
const MOST: usize = 10_000;
/// The most bytes, keys and values together.
const MOST_BYTES: usize = 16 << 20;

/// One script's cache.
#[derive(Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    entries: HashMap<Box<[u8]>, (Bytes, Instant)>,
    bytes: usize,
}

impl Cache {
    /// The value of `key`, unless its time is over.
    pub fn get(&self, key: &[u8], now: Instant) -> Option<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.entries.get(key) {
            Some((value, until)) if *until > now => Some(value.clone()),
            Some(_) => {
                kept.remove(key);
                None
            }
            None => None,
        }
    }

    /// Keeps `value` for `ttl`; false where it alone is larger than the whole cache.
    pub fn set(&self, key: &[u8], value: Bytes, ttl: Duration, now: Instant) -> bool {
        let size = key.len() + value.len();
        if size > MOST_BYTES {
            return false;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(key);
        if kept.entries.len() >= MOST || kept.bytes + size > MOST_BYTES {
            kept.make_room(size, now);
        }
        kept.bytes += size;
        kept.entries.insert(key.into(), (value, now + ttl));
        true
    }

    /// Forgets `key`.
    pub fn delete(&self, key: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl Kept {
    fn remove(&mut self, key: &[u8]) {
        if let Some((value, _)) = self.entries.remove(key) {
            self.bytes -= key.len() + value.len();
        }
    }

    /// First what is over, then whatever comes first, until a tenth is free: so that a full cache does not look through itself on every write.
    fn make_room(&mut self, size: usize, now: Instant) {
        self.entries.retain(|_, (_, until)| *until > now);
        self.bytes = self.entries.iter().map(|(key, (value, _))| key.len() + value.len()).sum();
        while !self.entries.is_empty() && (self.entries.len() > MOST - MOST / 10 || self.bytes + size > MOST_BYTES - MOST_BYTES / 10) {
            let Some(key) = self.entries.keys().next().cloned() else { return };
            self.remove(&key);
            if self.bytes == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_as_long_as_it_was_told_to() {
        let (cache, now) = (Cache::default(), Instant::now());
        cache.set(b"a", Bytes::from_static(b"1"), Duration::from_secs(2), now);
        assert_eq!(cache.get(b"a", now + Duration::from_secs(1)).as_deref(), Some(&b"1"[..]));
        assert_eq!(cache.get(b"a", now + Duration::from_secs(2)), None);
        cache.set(b"b", Bytes::from_static(b"2"), Duration::from_secs(2), now);
        cache.delete(b"b");
        assert_eq!((cache.get(b"b", now), cache.0.lock().unwrap().bytes), (None, 0));
    }

    #[test]
    fn it_is_bounded_in_number_and_in_bytes() {
        let (cache, now) = (Cache::default(), Instant::now());
        for at in 0..3 * MOST {
            cache.set(at.to_string().as_bytes(), Bytes::new(), Duration::from_secs(9), now);
        }
        assert!(cache.0.lock().unwrap().entries.len() <= MOST);
        assert!(cache.get((3 * MOST - 1).to_string().as_bytes(), now).is_some(), "the newest is there");
        for at in 0..64 {
            cache.set(format!("big{at}").as_bytes(), Bytes::from(vec![0; 1 << 20]), Duration::from_secs(9), now);
        }
        assert!(cache.0.lock().unwrap().bytes <= MOST_BYTES);
        assert!(!cache.set(b"huge", Bytes::from(vec![0; MOST_BYTES]), Duration::from_secs(9), now));
    }
}
