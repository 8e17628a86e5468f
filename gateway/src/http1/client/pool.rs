//! The idle connections that one thread holds to one node, last in first out.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    net::SocketAddr,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

use contract::CallError;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    connection::Connection,
    fault::Fault,
    permits::{Desk, Granted, Lease, Next, Permits, Ticket},
};
use crate::dial::Way;

/// How often a thread looks for connections that were idle for too long.
const SWEEP: Duration = Duration::from_secs(1);

/// One thread's pool of connections to one node; clones are the same pool.
#[derive(Clone)]
pub struct Pool {
    shared: Rc<Shared>,
}

/// Closes a thread's idle connections when their time is over or another thread needs their permits.
///
/// One for each thread. Its task ends with it.
pub struct Keeper {
    rooms: Rc<RefCell<Vec<Weak<Shared>>>>,
    bell: Arc<Notify>,
    task: JoinHandle<()>,
}

struct Shared {
    permits: Arc<Permits>,
    desk: Arc<Desk>,
    way: Way,
    addresses: RefCell<Rc<[SocketAddr]>>,
    /// Which address answered last; the next connection asks it first.
    preferred: Cell<usize>,
    /// The longest idle in front.
    idle: RefCell<VecDeque<Box<Connection>>>,
    /// Set aside for calls that waited.
    handed: RefCell<Vec<(Arc<Ticket>, Box<Connection>)>>,
}

/// What a call may work with.
pub(super) enum Entry {
    Idle(Box<Connection>),
    Permit(Lease),
}

/// Holds a place in the queue, and gives it up when dropped.
struct Wait<'a> {
    shared: &'a Rc<Shared>,
    ticket: Arc<Ticket>,
}

// === impl Keeper ===

impl Keeper {
    /// Starts the sweep of this thread; within a local runtime or task set.
    pub fn start() -> Self {
        let rooms: Rc<RefCell<Vec<Weak<Shared>>>> = Rc::default();
        let bell = Arc::new(Notify::new());
        let task = tokio::task::spawn_local({
            let (rooms, bell) = (rooms.clone(), bell.clone());
            async move {
                loop {
                    let _ = tokio::time::timeout(SWEEP, bell.notified()).await;
                    // Taken out, so that whatever a closing connection wakes finds no borrow.
                    let now = Instant::now();
                    let mut live = std::mem::take(&mut *rooms.borrow_mut());
                    live.retain(|room| room.upgrade().inspect(|it| it.sweep(now)).is_some());
                    rooms.borrow_mut().append(&mut live);
                }
            }
        });
        Self { rooms, bell, task }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Pool ===

impl Pool {
    /// This thread's pool for the node behind `permits`, reached by `way` at the addresses of its name.
    pub fn new(permits: Arc<Permits>, way: Way, addresses: Vec<SocketAddr>, keeper: &Keeper) -> Self {
        let desk = permits.desk(keeper.bell.clone());
        let shared = Rc::new(Shared {
            permits,
            desk,
            way,
            addresses: RefCell::new(addresses.into()),
            preferred: Cell::new(0),
            idle: RefCell::default(),
            handed: RefCell::default(),
        });
        keeper.rooms.borrow_mut().push(Rc::downgrade(&shared));
        Self { shared }
    }

    /// Replaces the addresses; idle connections to those that are gone are closed.
    pub fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        let gone: Vec<_> = {
            let mut idle = self.shared.idle.borrow_mut();
            let (keep, gone) = std::mem::take(&mut *idle).into_iter().partition(|it| addresses.contains(&it.peer));
            *idle = keep;
            Vec::from(gone as VecDeque<_>)
        };
        *self.shared.addresses.borrow_mut() = addresses.into();
        self.shared.publish();
        drop(gone);
    }

    /// The process-wide side of it.
    pub fn permits(&self) -> &Arc<Permits> {
        &self.shared.permits
    }

    /// How many connections this thread holds idle.
    pub fn idle(&self) -> usize {
        self.shared.idle.borrow().len()
    }

    /// An idle connection, if there is one; waits for nothing.
    pub(super) fn pop(&self, surely: bool, now: Instant) -> Option<Box<Connection>> {
        self.shared.pop(surely, now)
    }

    /// An idle connection, or the right to open one; waits in the queue for either until `by`.
    ///
    /// `surely` asks the kernel whether the connection still stands, for calls that cannot be repeated.
    pub(super) async fn enter(&self, surely: bool, now: Instant, by: Instant) -> Result<Entry, Fault> {
        if let Some(connection) = self.shared.pop(surely, now) {
            return Ok(Entry::Idle(connection));
        }
        if let Some(lease) = self.shared.permits.lease() {
            return Ok(Entry::Permit(lease));
        }
        let full = || Fault::new(CallError::ConnectTimeout, "upstream_connections_exhausted");
        let mut wait = Wait { shared: &self.shared, ticket: self.shared.permits.queue(&self.shared.desk) };
        timeout_at(by, wait.turn()).await.map_err(|_| full())
    }

    /// Opens a connection to the first address that takes it.
    pub(super) async fn connect(&self, lease: Lease, by: Instant) -> Result<Box<Connection>, Fault> {
        let addresses = self.shared.addresses.borrow().clone();
        let first = self.shared.preferred.get();
        let mut fault = Fault::new(CallError::Connect, "upstream_no_address");
        for turn in 0..addresses.len() {
            let at = (first + turn) % addresses.len();
            let peer = addresses[at];
            // An address that swallows packets leaves the others their part of the time.
            let now = Instant::now();
            let left = u32::try_from(addresses.len() - turn).unwrap_or(u32::MAX);
            let until = now + by.saturating_duration_since(now) / left;
            fault = match self.shared.way.open(peer, until).await {
                Ok(stream) => {
                    self.shared.preferred.set(at);
                    return Ok(Connection::new(stream, peer, lease));
                }
                Err(failed) => failed.into(),
            };
        }
        Err(fault)
    }

    /// Takes a connection back whose call is over.
    pub(super) fn give_back(&self, connection: Box<Connection>) {
        self.shared.give_back(connection);
    }
}

// === impl Shared ===

impl Shared {
    fn pop(&self, surely: bool, now: Instant) -> Option<Box<Connection>> {
        let timeout = self.permits.limits().idle_timeout;
        loop {
            let mut connection = self.idle.borrow_mut().pop_back()?;
            self.publish();
            // What is readable now is not an answer to a question that was not asked yet.
            let stands = connection.is_quiet() && (!surely || connection.is_surely_quiet());
            if stands && now.saturating_duration_since(connection.idle_since) < timeout {
                return Some(connection);
            }
        }
    }

    fn give_back(&self, mut connection: Box<Connection>) {
        if !connection.is_clean() || !self.addresses.borrow().contains(&connection.peer) {
            return;
        }
        connection.rest(Instant::now());
        let mut spare = Some(connection);
        loop {
            if self.permits.waiting() > 0 {
                match self.permits.next(&self.desk) {
                    Next::Keep => {}
                    Next::Close => return drop(spare),
                    Next::HandTo(ticket) => {
                        if let Some(connection) = spare {
                            self.handed.borrow_mut().push((ticket.clone(), connection));
                        }
                        return ticket.call();
                    }
                }
            }
            let Some(connection) = spare else { return };
            let surplus = {
                let mut idle = self.idle.borrow_mut();
                idle.push_back(connection);
                if idle.len() > self.permits.share() { idle.pop_front() } else { None }
            };
            self.publish();
            drop(surplus);
            // Somebody may have begun to wait before the connection could be seen.
            if self.permits.waiting() == 0 {
                return;
            }
            spare = self.idle.borrow_mut().pop_back();
            self.publish();
        }
    }

    fn fetch(&self, ticket: &Arc<Ticket>) -> Option<Box<Connection>> {
        let mut handed = self.handed.borrow_mut();
        let at = handed.iter().position(|(it, _)| Arc::ptr_eq(it, ticket))?;
        Some(handed.swap_remove(at).1)
    }

    fn publish(&self) {
        let idle = self.idle.borrow();
        self.permits.publish(&self.desk, idle.len(), idle.front().map(|it| it.idle_since));
    }

    /// Closes what was idle for too long, what its backend closed, and what other threads asked for.
    fn sweep(&self, now: Instant) {
        let asked = self.desk.asked();
        let timeout = self.permits.limits().idle_timeout;
        let gone = {
            let mut idle = self.idle.borrow_mut();
            if idle.is_empty() {
                return;
            }
            let mut gone = Vec::new();
            for (turn, mut it) in std::mem::take(&mut *idle).into_iter().enumerate() {
                if turn < asked || now.saturating_duration_since(it.idle_since) >= timeout || !it.is_quiet() {
                    gone.push(it);
                } else {
                    idle.push_back(it);
                }
            }
            gone
        };
        if !gone.is_empty() {
            self.publish();
        }
    }
}

// === impl Wait ===

impl Wait<'_> {
    async fn turn(&mut self) -> Entry {
        loop {
            match poll_fn(|cx| self.shared.permits.poll(&self.ticket, cx.waker())).await {
                Granted::Permit(lease) => return Entry::Permit(lease),
                Granted::Connection => {
                    if let Some(connection) = self.shared.fetch(&self.ticket) {
                        return Entry::Idle(connection);
                    }
                }
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        match self.shared.permits.leave(&self.ticket) {
            // The lease passes on as it is dropped.
            Some(Granted::Permit(_)) | None => {}
            Some(Granted::Connection) => {
                if let Some(connection) = self.shared.fetch(&self.ticket) {
                    self.shared.give_back(connection);
                }
            }
        }
    }
}
