//! What rings remember by name outlives the route they stand in.
use std::{
    any::Any,
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use contract::env::{StateKey, States};

/// The state of all rings: limiters, caches, counters.
#[derive(Default)]
pub struct StateKeeper(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    states: HashMap<StateKey, Arc<dyn Any + Send + Sync>>,
    /// Made or asked for since the last snapshot.
    fresh: HashSet<StateKey>,
}

impl States for StateKeeper {
    fn get(&self, key: &StateKey, make: &mut dyn FnMut() -> Arc<dyn Any + Send + Sync>) -> Arc<dyn Any + Send + Sync> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.fresh.insert(key.clone());
        kept.states.entry(key.clone()).or_insert_with(make).clone()
    }
}

impl StateKeeper {
    /// A snapshot was made: what nobody holds any more goes. What a ring still holds, of this or a former snapshot, stays.
    pub fn settle(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = std::mem::take(&mut kept.fresh);
        kept.states.retain(|key, it| fresh.contains(key) || Arc::strong_count(it) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_stays_while_somebody_holds_it() {
        let keeper = StateKeeper::default();
        let key = StateKey { owner: "Api/a".into(), plugin: "p".into(), name: "1".into(), config: 0 };
        let get = || keeper.get(&key, &mut || Arc::new(Mutex::new(0u32))).downcast::<Mutex<u32>>().unwrap();
        let held = get();
        *held.lock().unwrap() = 7;
        keeper.settle();
        keeper.settle();
        assert_eq!(*get().lock().unwrap(), 7);
        drop(held);
        keeper.settle();
        keeper.settle();
        assert_eq!(*get().lock().unwrap(), 0);
    }
}
