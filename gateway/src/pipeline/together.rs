//! Futures side by side, on the thread of their request: whichever is done comes next. Dropping the set cancels the rest.
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Futures, each with a key. Only those that were woken are polled again.
pub struct Together<F> {
    running: Vec<Running<F>>,
    parent: Arc<Mutex<Waker>>,
}

struct Running<F> {
    key: usize,
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// Remembers which future was woken, and wakes who waits for all.
struct Bell {
    rung: AtomicBool,
    parent: Arc<Mutex<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, AcqRel) {
            self.parent.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

impl<F> Default for Together<F> {
    fn default() -> Self {
        Self { running: Vec::new(), parent: Arc::new(Mutex::new(Waker::noop().clone())) }
    }
}

impl<F: Future> Together<F> {
    pub fn push(&mut self, key: usize, future: F) {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), parent: self.parent.clone() });
        let waker = Waker::from(bell.clone());
        self.running.push(Running { key, future: Box::pin(future), bell, waker });
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The key and the outcome of the next that is done; nothing once all are.
    pub async fn next(&mut self) -> Option<(usize, F::Output)> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, F::Output)>> {
        if self.running.is_empty() {
            return Poll::Ready(None);
        }
        {
            let mut parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner);
            if !parent.will_wake(cx.waker()) {
                parent.clone_from(cx.waker());
            }
        }
        for at in 0..self.running.len() {
            let it = &mut self.running[at];
            if !it.bell.rung.swap(false, AcqRel) {
                continue;
            }
            if let Poll::Ready(output) = it.future.as_mut().poll(&mut Context::from_waker(&it.waker)) {
                // Others that were woken keep their bell rung until the next poll, which begins with a look at all.
                return Poll::Ready(Some((self.running.swap_remove(at).key, output)));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_done_first_comes_first_and_all_wait_at_once() {
        let start = Instant::now();
        let mut set = Together::default();
        for (key, time) in [30u64, 10, 20, 10].into_iter().enumerate() {
            set.push(key, async move {
                sleep(Duration::from_millis(time)).await;
                time
            });
        }
        assert_eq!(set.running(), 4);
        let mut order = Vec::new();
        while let Some(it) = set.next().await {
            order.push(it);
        }
        order[..2].sort_unstable();
        assert_eq!(order, [(1, 10), (3, 10), (2, 20), (0, 30)]);
        assert_eq!(start.elapsed(), Duration::from_millis(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_that_was_not_woken_is_not_polled() {
        let polls = std::cell::Cell::new(0);
        let mut set: Together<Pin<Box<dyn Future<Output = ()>>>> = Together::default();
        set.push(
            0,
            Box::pin(poll_fn(|_| {
                polls.set(polls.get() + 1);
                Poll::Pending
            })),
        );
        for key in 1..=20 {
            set.push(key, Box::pin(sleep(Duration::from_millis(key as u64))));
        }
        for _ in 0..20 {
            set.next().await;
        }
        assert_eq!((polls.get(), set.running()), (1, 1));
    }
}
