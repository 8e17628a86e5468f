//! Many small jobs on several threads.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Maps in order on several threads; a few jobs are not worth a thread.
pub fn parallel<J: Send, R: Send>(threads: usize, jobs: Vec<J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let count = jobs.len();
    let threads = threads.min(count.div_ceil(32));
    if threads <= 1 {
        return jobs.into_iter().map(work).collect();
    }
    let batch = (count / (threads * 8)).clamp(1, 256);
    let mut jobs = jobs.into_iter();
    let batches: Vec<Mutex<Vec<J>>> =
        std::iter::from_fn(|| Some(jobs.by_ref().take(batch).collect::<Vec<J>>()).filter(|batch| !batch.is_empty()))
            .map(Mutex::new)
            .collect();
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, Vec<R>)> = std::thread::scope(|scope| {
        let run = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(batch) = batches.get(at) else { return done };
                let batch = std::mem::take(&mut *batch.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
                done.push((at, batch.into_iter().map(&work).collect()));
            }
        };
        let handles: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut all = run();
        for handle in handles {
            match handle.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().flat_map(|(_, results)| results).collect()
}
