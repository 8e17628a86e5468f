//! The places of one ring: who is inside, and who waits, by key. What nobody has or waits for takes no memory.
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::oneshot::{self, Receiver, Sender},
    time::Instant,
};

/// The places of all keys.
pub struct Places {
    max: usize,
    queue: usize,
    keys: Mutex<HashMap<Arc<str>, Key>>,
}

#[derive(Default)]
struct Key {
    inside: usize,
    waiting: VecDeque<Sender<Place>>,
    /// How long a place is held, lately; zero until one was given back.
    held: Duration,
}

/// What became of somebody who asked.
pub enum Asked {
    Place(Place),
    /// First come, first served.
    Wait(Receiver<Place>),
    /// Nobody else may wait, or it would take so long.
    Full(Duration),
}

/// Given back when it is dropped, to whoever has waited longest.
pub struct Place {
    /// `None` for one that was never handed over.
    of: Option<(Arc<Places>, Arc<str>)>,
    since: Instant,
}

impl Places {
    pub fn new(max: usize, queue: usize) -> Self {
        Self { max, queue, keys: Mutex::default() }
    }

    /// A place at once, or one within `most`, or none.
    pub fn ask(self: &Arc<Self>, key: &str, most: Duration) -> Asked {
        let mut keys = self.lock();
        let name = keys.get_key_value(key).map_or_else(|| Arc::from(key), |(name, _)| name.clone());
        let it = keys.entry(name.clone()).or_default();
        if it.inside < self.max {
            it.inside += 1;
            return Asked::Place(self.place(name));
        }
        if it.waiting.len() >= self.queue {
            // Who has given up waiting takes nobody's turn.
            it.waiting.retain(|it| !it.is_closed());
        }
        let expected = it.held.mul_f64((it.waiting.len() + 1) as f64 / self.max as f64);
        if it.waiting.len() >= self.queue || expected > most {
            return Asked::Full(expected);
        }
        let (give, take) = oneshot::channel();
        it.waiting.push_back(give);
        Asked::Wait(take)
    }

    fn place(self: &Arc<Self>, key: Arc<str>) -> Place {
        Place { of: Some((self.clone(), key)), since: Instant::now() }
    }

    fn give_back(self: &Arc<Self>, key: Arc<str>, held: Duration) {
        let mut keys = self.lock();
        let Some(it) = keys.get_mut(&key) else { return };
        it.held = if it.held.is_zero() { held } else { (it.held * 7 + held) / 8 };
        while let Some(next) = it.waiting.pop_front() {
            match next.send(self.place(key.clone())) {
                // The place goes from hand to hand: so many are inside as before.
                Ok(()) => return,
                // Dropping it as one that was had would wait for the lock that is held here.
                Err(mut refused) => refused.of = None,
            }
        }
        it.inside -= 1;
        if it.inside == 0 {
            keys.remove(&key);
            if keys.capacity() > 4 * keys.len().max(64) {
                let len = keys.len();
                keys.shrink_to(2 * len);
            }
        }
    }

    /// Nothing in it waits, and nothing panics with numbers half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((places, key)) = self.of.take() {
            places.give_back(key, self.since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn place(places: &Arc<Places>, key: &str) -> Option<Place> {
        match places.ask(key, LONG) {
            Asked::Place(it) => Some(it),
            _ => None,
        }
    }

    fn wait(places: &Arc<Places>) -> Receiver<Place> {
        match places.ask("", LONG) {
            Asked::Wait(it) => it,
            _ => panic!("it has a place, or may not wait"),
        }
    }

    #[tokio::test]
    async fn each_key_has_its_places_and_none_is_remembered_afterwards() {
        let places = Arc::new(Places::new(2, 0));
        let held = [place(&places, "a"), place(&places, "a"), place(&places, "b")];
        assert!(held.iter().all(Option::is_some) && place(&places, "a").is_none() && place(&places, "b").is_some());
        drop(held);
        assert!(place(&places, "a").is_some());
        assert!(places.lock().is_empty());
    }

    #[tokio::test]
    async fn a_place_goes_to_who_has_waited_longest_and_still_waits() {
        let places = Arc::new(Places::new(1, 3));
        let held = place(&places, "").unwrap();
        let (first, gone, mut second) = (wait(&places), wait(&places), wait(&places));
        assert!(matches!(places.ask("", LONG), Asked::Full(_)), "three wait already");
        drop(gone);
        let mut third = wait(&places);
        drop(held);
        let first = first.await.unwrap();
        assert!(second.try_recv().is_err());
        drop(first);
        drop(second.try_recv().unwrap());
        drop(third.try_recv().unwrap());
        assert!(places.lock().is_empty());
    }

    #[tokio::test]
    async fn a_place_that_nobody_takes_out_of_the_hand_is_given_on() {
        let places = Arc::new(Places::new(1, 2));
        let held = place(&places, "").unwrap();
        let (left, mut stays) = (wait(&places), wait(&places));
        drop(held);
        // It was given a place, and leaves without having looked.
        drop(left);
        assert!(stays.try_recv().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_too_long_is_refused_at_once() {
        let places = Arc::new(Places::new(1, 10));
        let held = place(&places, "").unwrap();
        let next = wait(&places);
        tokio::time::advance(Duration::from_secs(2)).await;
        drop(held);
        let _held = next.await.unwrap();
        assert!(matches!(places.ask("", Duration::from_secs(1)), Asked::Full(it) if it == Duration::from_secs(2)));
        let _waits = wait(&places);
        assert!(matches!(places.ask("", Duration::from_secs(3)), Asked::Full(it) if it == Duration::from_secs(4)));
    }

    #[test]
    fn many_threads_never_have_more_places_than_there_are() {
        use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
        let (places, inside, most) = (Arc::new(Places::new(3, 0)), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        let Some(held) = place(&places, "k") else { continue };
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                        drop(held);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 3 && places.lock().is_empty());
    }
}
