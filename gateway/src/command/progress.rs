//! A line that says what the command is busy with, once that takes long and somebody watches.
use std::{
    io::Write,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Sooner nobody wonders.
const QUIET: Duration = Duration::from_millis(500);
/// How often the line is written anew.
const BEAT: Duration = Duration::from_millis(200);

/// The line; gone when this is dropped.
pub struct Progress {
    what: Arc<Mutex<String>>,
    running: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows the line on standard error, if `watched`.
    pub fn start(watched: bool) -> Self {
        let what = Arc::new(Mutex::new(String::new()));
        let running = watched.then(|| {
            let (stop, stopped) = mpsc::channel::<()>();
            let (what, started) = (what.clone(), Instant::now());
            let work = move || {
                let mut wait = QUIET;
                let mut shown = false;
                while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    let text = what.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let _ = write!(std::io::stderr(), "\r\x1b[K{text} … {:.1} s", started.elapsed().as_secs_f32());
                    (wait, shown) = (BEAT, true);
                }
                if shown {
                    let _ = write!(std::io::stderr(), "\r\x1b[K");
                }
            };
            std::thread::Builder::new().name("progress".into()).spawn(work).ok().map(|thread| (stop, thread))
        });
        Self { what, running: running.flatten() }
    }

    /// What is done from now on.
    pub fn now(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}
