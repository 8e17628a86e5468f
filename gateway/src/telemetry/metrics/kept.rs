//! Figures by key, kept while somebody holds them and a little longer.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::registry::GRACE;

/// Shared figures by key. Taking one locks; using it does not.
pub struct Kept<K, V> {
    all: Mutex<BTreeMap<K, Entry<V>>>,
    most: usize,
}

struct Entry<V> {
    value: Arc<V>,
    /// Since when nobody but us holds it.
    alone: Option<Instant>,
}

impl<K: Ord + Clone, V> Kept<K, V> {
    pub fn new(most: usize) -> Self {
        Self { all: Mutex::default(), most }
    }

    /// What is kept under `key`, made where it is new; `None` where there are too many already.
    pub fn take(&self, key: K, make: impl FnOnce() -> V) -> Option<Arc<V>> {
        let mut all = self.lock();
        if let Some(it) = all.get(&key) {
            return Some(it.value.clone());
        }
        if all.len() >= self.most {
            return None;
        }
        let value = Arc::new(make());
        all.insert(key, Entry { value: value.clone(), alone: None });
        Some(value)
    }

    /// Forgets what nobody has held for [`GRACE`].
    pub fn sweep(&self, now: Instant) {
        self.lock().retain(|_, it| {
            if Arc::strong_count(&it.value) > 1 {
                it.alone = None;
                return true;
            }
            now.saturating_duration_since(*it.alone.get_or_insert(now)) < GRACE
        });
    }

    /// All of them in order, taken out from under the lock: writing is long, and a reload must not wait for it.
    pub fn all(&self) -> Vec<(K, Arc<V>)> {
        self.lock().iter().map(|(key, it)| (key.clone(), it.value.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Entry<V>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
