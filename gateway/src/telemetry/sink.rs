//! A thread of its own that writes lines to a file or a standard stream, so that nobody else waits for a disk or a pipe.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use contract::meter::Counter;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Stdout,
    Stderr,
    /// Appended to; opened anew when it is renamed or taken away, as logrotate does.
    File(PathBuf),
}

/// Hands chunks of whole lines to the writing thread. Dropping the last one writes what is waiting and ends the thread.
pub struct Sink {
    send: SyncSender<Message>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Told when the thread has written everything. In a lock only so that a sink may be shared.
    done: Mutex<Receiver<()>>,
}

/// The hand of one worker: sends, never waits.
#[derive(Clone)]
pub struct SinkHandle {
    send: SyncSender<Message>,
    shared: Arc<Shared>,
}

struct Shared {
    reopen: AtomicBool,
    dropped: Counter,
    written: Counter,
}

enum Message {
    Lines(Vec<u8>, u64),
    /// Everything sent before is written when this is answered.
    Flush(SyncSender<()>),
    Stop,
}

/// How often the name of a file is looked up.
const LOOK: Duration = Duration::from_secs(1);
/// How long dropping a sink waits for a stream that takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

impl Sink {
    /// Starts the thread. `queue` is how many chunks may wait; lines beyond are dropped and counted.
    /// `failed` is told when writing begins to fail, once until it succeeds again.
    pub fn start(
        name: &str,
        to: Destination,
        queue: usize,
        written: Counter,
        dropped: Counter,
        failed: impl Fn(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let output = Output::open(to)?;
        let (send, receive) = sync_channel(queue.max(1));
        let (say_done, done) = sync_channel(1);
        let shared = Arc::new(Shared { reopen: AtomicBool::new(false), dropped, written });
        let writer = Writer { output, shared: shared.clone(), failed: Box::new(failed), failing: false, looked: Instant::now() };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            writer.run(&receive);
            let _ = say_done.send(());
        })?;
        Ok(Self { send, shared, thread: Some(thread), done: Mutex::new(done) })
    }

    pub fn handle(&self) -> SinkHandle {
        SinkHandle { send: self.send.clone(), shared: self.shared.clone() }
    }

    /// Opens the file anew before the next line: what SIGHUP asks for.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
    }
}

impl SinkHandle {
    /// Hands over `lines` whole lines; drops and counts them where too much is waiting.
    pub fn send(&self, text: Vec<u8>, lines: u64) {
        match self.send.try_send(Message::Lines(text, lines)) {
            Ok(()) => self.shared.written.add(lines),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.shared.dropped.add(lines),
        }
    }

    /// Waits until everything sent before is written, or until `patience` is over. Never on a worker.
    #[expect(clippy::disallowed_methods, reason = "waits when the process ends, never on a worker")]
    pub fn flush(&self, patience: Duration) -> bool {
        let (send, receive) = sync_channel(1);
        let until = Instant::now() + patience;
        let mut message = Message::Flush(send);
        loop {
            match self.send.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(it)) if Instant::now() < until => message = it,
                Err(_) => return false,
            }
            thread::sleep(Duration::from_millis(1));
        }
        receive.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

impl Drop for Sink {
    #[expect(clippy::disallowed_methods, reason = "waits when the process ends, never on a worker")]
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while let Err(TrySendError::Full(_)) = self.send.try_send(Message::Stop) {
            if Instant::now() >= until {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        if done.recv_timeout(until.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout)
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Writer {
    output: Output,
    shared: Arc<Shared>,
    failed: Box<dyn Fn(&io::Error) + Send>,
    failing: bool,
    looked: Instant,
}

impl Writer {
    fn run(mut self, receive: &Receiver<Message>) {
        while let Ok(message) = receive.recv() {
            match message {
                Message::Lines(text, lines) => self.write(&text, lines),
                Message::Flush(answer) => {
                    let _ = answer.try_send(());
                }
                Message::Stop => return,
            }
        }
    }

    fn write(&mut self, text: &[u8], lines: u64) {
        let asked = self.shared.reopen.swap(false, Relaxed);
        let now = Instant::now();
        let look = now.duration_since(self.looked) >= LOOK;
        if look {
            self.looked = now;
        }
        let reopened = if asked || (look && self.output.is_elsewhere()) { self.output.reopen() } else { Ok(()) };
        match reopened.and_then(|()| self.output.write(text)) {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.shared.dropped.add(lines);
                if !std::mem::replace(&mut self.failing, true) {
                    (self.failed)(&error);
                }
            }
        }
    }
}

enum Output {
    Stdout,
    Stderr,
    File { path: PathBuf, file: File },
}

impl Output {
    fn open(to: Destination) -> io::Result<Self> {
        Ok(match to {
            Destination::Stdout => Self::Stdout,
            Destination::Stderr => Self::Stderr,
            Destination::File(path) => Self::File { file: append(&path)?, path },
        })
    }

    /// Whether the name no longer leads to the file that is open.
    fn is_elsewhere(&self) -> bool {
        let Self::File { path, file } = self else { return false };
        match (fs::metadata(path), file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            _ => true,
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File { path, file } = self {
            *file = append(path)?;
        }
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(text).and_then(|()| out.flush())
            }
            Self::Stderr => io::stderr().lock().write_all(text),
            Self::File { file, .. } => file.write_all(text),
        }
    }
}

fn append(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, gone with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("allium-sink-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn sink(to: Destination) -> Sink {
        Sink::start("test", to, 8, Counter::default(), Counter::default(), |_| {}).unwrap()
    }

    #[test]
    fn what_waits_is_written_before_the_sink_is_gone() {
        let folder = Folder::new("drop");
        let it = sink(Destination::File(folder.0.join("a.log")));
        for _ in 0..5 {
            it.handle().send(b"line\n".to_vec(), 1);
        }
        drop(it);
        assert_eq!(folder.read("a.log"), "line\n".repeat(5));
    }

    #[test]
    fn a_renamed_file_is_left_and_a_new_one_begun() {
        let folder = Folder::new("rename");
        let it = sink(Destination::File(folder.0.join("a.log")));
        let handle = it.handle();
        handle.send(b"one\n".to_vec(), 1);
        assert!(handle.flush(PATIENCE));
        fs::rename(folder.0.join("a.log"), folder.0.join("a.log.1")).unwrap();
        it.reopen();
        handle.send(b"two\n".to_vec(), 1);
        drop(it);
        assert_eq!((folder.read("a.log.1").as_str(), folder.read("a.log").as_str()), ("one\n", "two\n"));
    }

    #[test]
    fn the_name_is_looked_up_without_being_asked() {
        let folder = Folder::new("look");
        let path = folder.0.join("a.log");
        let mut output = Output::open(Destination::File(path.clone())).unwrap();
        assert!(!output.is_elsewhere());
        fs::rename(&path, folder.0.join("b.log")).unwrap();
        assert!(output.is_elsewhere(), "gone");
        fs::write(&path, "other").unwrap();
        assert!(output.is_elsewhere(), "another file");
        output.reopen().unwrap();
        assert!(!output.is_elsewhere());
    }

    #[test]
    fn a_stream_that_takes_nothing_costs_lines_and_no_time() {
        let (send, receive) = sync_channel(2);
        let shared = Arc::new(Shared { reopen: AtomicBool::new(false), dropped: Counter::default(), written: Counter::default() });
        let handle = SinkHandle { send, shared: shared.clone() };
        for _ in 0..5 {
            handle.send(b"a\nb\n".to_vec(), 2);
        }
        assert_eq!((shared.written.get(), shared.dropped.get()), (4, 6));
        drop(receive);
        handle.send(b"a\n".to_vec(), 1);
        assert_eq!(shared.dropped.get(), 7);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_said_at_the_start() {
        let to = Destination::File(PathBuf::from("/nowhere/at/all.log"));
        assert!(Sink::start("test", to, 8, Counter::default(), Counter::default(), |_| {}).is_err());
    }

    #[test]
    fn a_full_disk_is_told_once_and_its_lines_are_counted() {
        let (dropped, told) = (Counter::default(), Counter::default());
        let tell = told.clone();
        let full = Destination::File(PathBuf::from("/dev/full"));
        let it = Sink::start("test", full, 8, Counter::default(), dropped.clone(), move |_| tell.add(1)).unwrap();
        it.handle().send(b"a\n".to_vec(), 1);
        it.handle().send(b"b\nc\n".to_vec(), 2);
        drop(it);
        assert_eq!((dropped.get(), told.get()), (3, 1));
    }
}
