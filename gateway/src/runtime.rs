//! The threads: workers with a runtime each for requests, and one background runtime for everything else.
use std::{future::Future, pin::Pin, rc::Rc, sync::Arc, thread::JoinHandle};

use contract::local::Local;
use tokio::{
    runtime::{Builder, Handle, LocalOptions, Runtime},
    sync::{Semaphore, mpsc},
};

type Work = Box<dyn FnOnce(Rc<Local>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A handle on one worker thread; enters it from anywhere.
#[derive(Clone)]
pub struct Worker {
    at: usize,
    /// `None` ends the worker.
    work: mpsc::UnboundedSender<Option<Work>>,
}

/// All worker threads; [`Workers::stop`] ends them.
pub struct Workers {
    workers: Vec<Worker>,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    pub fn index(&self) -> usize {
        self.at
    }

    /// Runs `work` as a task of this worker. Nothing happens when the worker is gone.
    pub fn run_local<F: Future<Output = ()> + 'static>(&self, work: impl FnOnce(Rc<Local>) -> F + Send + 'static) {
        let work: Work = Box::new(move |local| Box::pin(work(local)));
        let _ = self.work.send(Some(work));
    }
}

impl Workers {
    /// Starts `count` threads. Errors: the system refuses a thread or an event queue.
    pub fn start(count: usize) -> std::io::Result<Self> {
        let mut it = Self { workers: Vec::new(), threads: Vec::new() };
        for at in 0..count {
            let (work, receiver) = mpsc::unbounded_channel::<Option<Work>>();
            // Built on its own thread, but a failure is told to the caller.
            let (told, hear) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("worker-{at}")).spawn(move || {
                match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
                    Ok(runtime) => {
                        let _ = told.send(Ok(()));
                        runtime.block_on(run(receiver));
                    }
                    Err(fault) => {
                        let _ = told.send(Err(fault));
                    }
                }
            })?;
            hear.recv().map_err(std::io::Error::other)??;
            it.workers.push(Worker { at, work });
            it.threads.push(thread);
        }
        Ok(it)
    }

    pub fn all(&self) -> &[Worker] {
        &self.workers
    }

    /// Lets the threads end, and waits for them. Tasks that are still running are dropped.
    pub fn stop(self) {
        for worker in self.workers {
            let _ = worker.work.send(None);
        }
        for thread in self.threads {
            // A worker that panicked has told so on its own.
            let _ = thread.join();
        }
    }
}

async fn run(mut work: mpsc::UnboundedReceiver<Option<Work>>) {
    let local = Rc::new(Local::default());
    while let Some(Some(it)) = work.recv().await {
        tokio::task::spawn_local(it(local.clone()));
    }
}

/// The runtime of everything that is not a request: reload, health, names, the admin listener.
pub fn background() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).thread_name("background").enable_all().build()
}

/// `contract`'s way to start work beside a request.
pub struct Spawner {
    background: Handle,
    /// As many heavy computations run at a time as leave requests half of the cores.
    heavy: Arc<Semaphore>,
}

impl Spawner {
    pub fn new(background: Handle) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |it| it.get());
        Self { background, heavy: Arc::new(Semaphore::new((cores / 2).max(1))) }
    }
}

impl contract::env::Spawn for Spawner {
    fn local(&self, work: Pin<Box<dyn Future<Output = ()>>>) {
        tokio::task::spawn_local(work);
    }

    fn background(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.background.spawn(work);
    }

    fn heavy(&self, work: Box<dyn FnOnce() + Send>) {
        let places = self.heavy.clone();
        self.background.spawn(async move {
            // Never closed, so there is always a place in the end.
            if let Ok(_place) = places.acquire().await {
                let _ = tokio::task::spawn_blocking(work).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn every_worker_keeps_its_own_things() {
        let workers = Workers::start(2).unwrap();
        let (tell, hear) = channel();
        for _ in 0..2 {
            for worker in workers.all() {
                let (tell, at) = (tell.clone(), worker.index());
                worker.run_local(move |local| async move {
                    let count = local.get::<std::cell::Cell<u32>>();
                    count.set(count.get() + 1);
                    tell.send((at, count.get())).unwrap();
                });
            }
        }
        let mut heard: Vec<_> = (0..4).map(|_| hear.recv().unwrap()).collect();
        heard.sort();
        assert_eq!(heard, [(0, 1), (0, 2), (1, 1), (1, 2)]);
        workers.stop();
    }
}
