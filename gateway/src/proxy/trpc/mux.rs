//! One connection that carries many calls, told apart by their numbers; answers come in any order.
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io,
    rc::Rc,
};

use bytes::{Bytes, BytesMut};
use contract::CallError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, oneshot},
    time::{Duration, sleep},
};

use super::frame::{self, Malformed, Reply};

/// For how long a connection without a call is kept: servers close theirs after 60 s.
const IDLE: Duration = Duration::from_secs(50);
/// How many calls wait for answers on one connection.
const MOST: usize = 4096;

/// Why a connection ended.
pub type Ended = (CallError, &'static str, String);

/// Who waits for the answer of each number.
type ByNumber = HashMap<u32, oneshot::Sender<Result<Reply, Malformed>>, foldhash::fast::FixedState>;

/// A connection, as those who call see it.
#[derive(Default)]
pub struct Mux {
    waiting: RefCell<ByNumber>,
    out: RefCell<BytesMut>,
    written: Notify,
    next: Cell<u32>,
    begun: Cell<u64>,
    ended: RefCell<Option<Ended>>,
}

/// A call whose answer is awaited; dropping it forgets the call, and a late answer with it.
pub struct Waiting {
    mux: Rc<Mux>,
    id: u32,
    answer: oneshot::Receiver<Result<Reply, Malformed>>,
}

impl Mux {
    /// Takes a connection over, on this thread.
    pub fn start(stream: TcpStream) -> Rc<Self> {
        let mux: Rc<Self> = Rc::default();
        let (reader, writer) = stream.into_split();
        let own = mux.clone();
        tokio::task::spawn_local(async move {
            let why = tokio::select! {
                it = read(&own, reader) => it,
                it = write(&own, writer) => it,
                () = idle(&own) => (CallError::Reset, "upstream_idle", "nobody used it".to_owned()),
            };
            own.end(why);
        });
        mux
    }

    pub fn is_over(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// A number of its own for a call. Errors: too many are waiting.
    pub fn enter(self: &Rc<Self>) -> Option<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= MOST || self.is_over() {
            return None;
        }
        // Never 0, and none that is still awaited.
        let mut id = self.next.get();
        loop {
            id = id.wrapping_add(1).max(1);
            if !waiting.contains_key(&id) {
                break;
            }
        }
        self.next.set(id);
        self.begun.set(self.begun.get() + 1);
        let (sender, answer) = oneshot::channel();
        waiting.insert(id, sender);
        Some(Waiting { mux: self.clone(), id, answer })
    }

    fn end(&self, why: Ended) {
        self.ended.borrow_mut().get_or_insert(why);
        // Whoever waits hears of it by the loss of the sender.
        drop(std::mem::take(&mut *self.waiting.borrow_mut()));
    }
}

impl Waiting {
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends the call: `frame` appends it.
    pub fn send(&self, frame: impl FnOnce(&mut BytesMut) -> Result<(), Malformed>) -> Result<(), Malformed> {
        frame(&mut self.mux.out.borrow_mut())?;
        self.mux.written.notify_one();
        Ok(())
    }

    /// The answer. Errors: the connection ended, or the answer cannot be read.
    pub async fn answer(&mut self) -> Result<Reply, Ended> {
        match (&mut self.answer).await {
            Ok(Ok(it)) => Ok(it),
            Ok(Err(it)) => Err((CallError::Protocol, "upstream_trpc_frame", it.to_string())),
            Err(_) => Err(self.mux.ended.borrow().clone().unwrap_or((CallError::Reset, "upstream_reset", String::new()))),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.mux.waiting.borrow_mut().remove(&self.id);
    }
}

async fn read(mux: &Mux, mut reader: OwnedReadHalf) -> Ended {
    let mut buffer = BytesMut::with_capacity(16 << 10);
    loop {
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return (CallError::Reset, "upstream_reset", "the backend closed the connection".to_owned()),
            Ok(_) => (),
            Err(error) => return (CallError::Reset, "upstream_reset", error.to_string()),
        }
        loop {
            match frame::length(&buffer) {
                Ok(Some(length)) if buffer.len() >= length => {
                    let whole: Bytes = buffer.split_to(length).freeze();
                    // The number stands in the fixed head, so that one broken answer is nobody else's.
                    let number = whole.get(10..14).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes);
                    match frame::read(whole) {
                        // An answer that nobody waits for any more is dropped.
                        Ok(Some(reply)) => deliver(mux, reply.request_id, Ok(reply)),
                        Ok(None) => (),
                        Err(why) => deliver(mux, number, Err(why)),
                    }
                }
                Ok(Some(length)) => {
                    buffer.reserve(length - buffer.len());
                    break;
                }
                Ok(None) => break,
                Err(why) => return (CallError::Protocol, "upstream_trpc_frame", why.to_string()),
            }
        }
    }
}

fn deliver(mux: &Mux, id: u32, reply: Result<Reply, Malformed>) {
    let waiting = mux.waiting.borrow_mut().remove(&id);
    if let Some(it) = waiting {
        let _ = it.send(reply);
    }
}

/// Writes what calls have left, many in one piece. The writing side is never closed alone: servers take that for a goodbye.
async fn write(mux: &Mux, mut writer: OwnedWriteHalf) -> Ended {
    loop {
        let piece = mux.out.borrow_mut().split().freeze();
        let done: io::Result<()> = match piece.is_empty() {
            true => {
                mux.written.notified().await;
                Ok(())
            }
            false => writer.write_all(&piece).await,
        };
        if let Err(error) = done {
            return (CallError::Reset, "upstream_reset", error.to_string());
        }
    }
}

/// Ends when nobody has called for long.
async fn idle(mux: &Mux) {
    let mut before = mux.begun.get();
    loop {
        sleep(IDLE).await;
        let now = mux.begun.get();
        if now == before && mux.waiting.borrow().is_empty() {
            return;
        }
        before = now;
    }
}
