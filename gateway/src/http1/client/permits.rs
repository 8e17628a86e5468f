//! How many connections to one node the whole process may hold, and who waits for one.
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    time::Duration,
};

use contract::discovery::InFlight;
use tokio::{sync::Notify, time::Instant};

/// What an Upstream's `pool` says of each of its nodes, for the whole process.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many idle connections are kept; each thread keeps its share of them, at least one.
    pub max_idle: usize,
    /// How long a connection may be idle; keep it below the backend's own.
    pub idle_timeout: Duration,
    /// How many connections there may be, idle ones included; at least one.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_idle: 128, idle_timeout: Duration::from_secs(60), max_connections: 1024 }
    }
}

/// The permits of one node, shared by the pools of all threads.
///
/// Invariant: `open` is the number of leases alive plus that of tickets granted a permit which they have not yet taken.
pub struct Permits {
    limits: Limits,
    share: usize,
    epoch: Instant,
    open: AtomicUsize,
    in_flight: Arc<InFlight>,
    /// The length of `queue`, readable without its lock.
    waiting: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Ticket>>>,
    desks: Mutex<Vec<Weak<Desk>>>,
}

/// The right to hold one connection; dropping it passes the right on.
pub struct Lease(Arc<Permits>);

/// One call on its way to the node; dropping it ends the call.
pub(super) struct Flight(Arc<Permits>);

/// What a thread's pool tells the other threads of itself.
pub(super) struct Desk {
    idle: AtomicUsize,
    /// Since when its longest-idle connection is idle, in milliseconds of the permits' epoch.
    oldest: AtomicU64,
    /// How many idle connections others ask it to close.
    asked: AtomicUsize,
    bell: Arc<Notify>,
}

/// A place in the queue for a connection.
pub(super) struct Ticket {
    desk: Arc<Desk>,
    turn: Mutex<Turn>,
}

enum Turn {
    Waiting(Option<Waker>),
    /// A permit is set aside for it.
    Permit,
    /// Its own thread's pool has a connection set aside for it.
    Connection,
    Over,
}

/// What a ticket's turn brought.
pub(super) enum Granted {
    Permit(Lease),
    /// To be fetched from the pool of the ticket's own thread.
    Connection,
}

/// What becomes of a connection that a call gave back while others wait.
pub(super) enum Next {
    /// Nobody waits any more.
    Keep,
    /// The first in the queue is a call of the same thread.
    HandTo(Arc<Ticket>),
    /// The first in the queue is a call of another thread: to be closed, so that its permit passes on.
    Close,
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Permits ===

impl Permits {
    /// `threads` is how many pools share these limits.
    pub fn new(limits: Limits, threads: usize) -> Arc<Self> {
        Self::counting(limits, threads, Arc::default())
    }

    /// The same, with its calls counted where others see them.
    pub fn counting(limits: Limits, threads: usize, in_flight: Arc<InFlight>) -> Arc<Self> {
        let limits = Limits { max_connections: limits.max_connections.max(1), ..limits };
        let share = if limits.max_idle == 0 { 0 } else { limits.max_idle.div_ceil(threads.max(1)) };
        Arc::new(Self {
            limits,
            share,
            epoch: Instant::now(),
            open: AtomicUsize::new(0),
            in_flight,
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
            desks: Mutex::default(),
        })
    }

    /// The limits it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Connections open or about to be, over all threads.
    pub fn open(&self) -> usize {
        self.open.load(SeqCst)
    }

    /// Calls that wait for a connection, over all threads.
    pub fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Calls whose answer has not ended, waiting ones included, over all threads.
    pub fn in_flight(&self) -> usize {
        self.in_flight.count()
    }

    /// How many idle connections one thread keeps.
    pub(super) fn share(&self) -> usize {
        self.share
    }

    pub(super) fn fly(self: &Arc<Self>) -> Flight {
        self.in_flight.begin();
        Flight(self.clone())
    }

    /// A permit for a newcomer, who does not overtake those that wait.
    pub(super) fn lease(self: &Arc<Self>) -> Option<Lease> {
        (self.waiting() == 0 && self.take()).then(|| Lease(self.clone()))
    }

    fn take(&self) -> bool {
        let max = self.limits.max_connections;
        self.open.fetch_update(SeqCst, SeqCst, |open| (open < max).then_some(open + 1)).is_ok()
    }

    pub(super) fn desk(&self, bell: Arc<Notify>) -> Arc<Desk> {
        let desk = Arc::new(Desk { idle: AtomicUsize::new(0), oldest: AtomicU64::new(u64::MAX), asked: AtomicUsize::new(0), bell });
        let mut desks = lock(&self.desks);
        desks.retain(|it| it.strong_count() > 0);
        desks.push(Arc::downgrade(&desk));
        desk
    }

    /// Stands last in the queue, and asks the thread with the longest-idle connection to close it.
    pub(super) fn queue(&self, desk: &Arc<Desk>) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket { desk: desk.clone(), turn: Mutex::new(Turn::Waiting(None)) });
        {
            let mut queue = lock(&self.queue);
            queue.push_back(ticket.clone());
            self.waiting.store(queue.len(), SeqCst);
        }
        // A permit may have come back between the newcomer's look and its standing here.
        self.serve();
        self.ask();
        ticket
    }

    /// Invariant: whoever makes a connection idle looks at `waiting` afterwards, and whoever waits looks for idle ones afterwards,
    /// so that one of the two always sees the other.
    fn ask(&self) {
        if self.waiting() == 0 {
            return;
        }
        let desks = lock(&self.desks);
        let free = desks.iter().filter_map(Weak::upgrade).filter(|it| it.idle.load(SeqCst) > it.asked.load(SeqCst));
        if let Some(desk) = free.min_by_key(|it| it.oldest.load(SeqCst)) {
            desk.asked.fetch_add(1, SeqCst);
            desk.bell.notify_one();
        }
    }

    /// Grants what permits there are to those who wait, first come first served.
    fn serve(&self) {
        let mut wake = Vec::new();
        {
            let mut queue = lock(&self.queue);
            while !queue.is_empty() && self.take() {
                if let Some(ticket) = queue.pop_front() {
                    wake.extend(ticket.grant(Turn::Permit));
                }
            }
            self.waiting.store(queue.len(), SeqCst);
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// Whose turn it is when a pool has a connection to spare.
    pub(super) fn next(&self, desk: &Arc<Desk>) -> Next {
        let mut queue = lock(&self.queue);
        match queue.front() {
            None => Next::Keep,
            Some(first) if !Arc::ptr_eq(&first.desk, desk) => Next::Close,
            Some(_) => {
                let first = queue.pop_front();
                self.waiting.store(queue.len(), SeqCst);
                first.map_or(Next::Keep, Next::HandTo)
            }
        }
    }

    /// Leaves the queue; gives what was set aside for the ticket, which was not taken.
    pub(super) fn leave(self: &Arc<Self>, ticket: &Arc<Ticket>) -> Option<Granted> {
        let waits = matches!(*lock(&ticket.turn), Turn::Waiting(_));
        if waits {
            let mut queue = lock(&self.queue);
            queue.retain(|it| !Arc::ptr_eq(it, ticket));
            self.waiting.store(queue.len(), SeqCst);
        }
        // Out of the queue, nobody can grant it anything any more.
        self.granted(std::mem::replace(&mut *lock(&ticket.turn), Turn::Over))
    }

    /// Whether the ticket's turn has come.
    pub(super) fn poll(self: &Arc<Self>, ticket: &Ticket, waker: &Waker) -> Poll<Granted> {
        let mut turn = lock(&ticket.turn);
        match std::mem::replace(&mut *turn, Turn::Over) {
            Turn::Waiting(_) | Turn::Over => {
                *turn = Turn::Waiting(Some(waker.clone()));
                Poll::Pending
            }
            granted => {
                drop(turn);
                self.granted(granted).map_or(Poll::Pending, Poll::Ready)
            }
        }
    }

    fn granted(self: &Arc<Self>, turn: Turn) -> Option<Granted> {
        match turn {
            Turn::Permit => Some(Granted::Permit(Lease(self.clone()))),
            Turn::Connection => Some(Granted::Connection),
            Turn::Waiting(_) | Turn::Over => None,
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX - 1)
    }

    /// Publishes what a pool holds idle.
    pub(super) fn publish(&self, desk: &Desk, idle: usize, oldest: Option<Instant>) {
        desk.oldest.store(oldest.map_or(u64::MAX, |it| self.millis(it)), SeqCst);
        desk.idle.store(idle, SeqCst);
    }
}

// === impl Ticket ===

impl Ticket {
    fn grant(&self, what: Turn) -> Option<Waker> {
        match std::mem::replace(&mut *lock(&self.turn), what) {
            Turn::Waiting(waker) => waker,
            _ => None,
        }
    }

    /// Tells it that its pool has a connection for it.
    pub(super) fn call(&self) {
        if let Some(waker) = self.grant(Turn::Connection) {
            waker.wake();
        }
    }
}

// === impl Desk ===

impl Desk {
    /// How many idle connections others asked to be closed since it was last called.
    pub(super) fn asked(&self) -> usize {
        self.asked.swap(0, SeqCst)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, SeqCst);
        if self.0.waiting() > 0 {
            self.0.serve();
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.in_flight.end();
    }
}
