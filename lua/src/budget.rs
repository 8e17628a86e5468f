//! What one run of a script may use: slices of time on its thread, time in all, and memory.
use std::{
    cell::{Cell, RefCell},
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use mlua::{Lua, VmState};

/// How long a script runs before others of its thread have their turn.
const SLICE: Duration = Duration::from_millis(2);
/// How long it may run where the engine cannot pause it: inside a sort's comparison, a metamethod, a coroutine of its own.
const UNPAUSED: Duration = Duration::from_millis(5);
/// The clock is read once in so many interrupts.
const EVERY: u32 = 32;

/// Which budget a script overdrew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    Time,
    Memory,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "the script used more time than it may",
            Self::Memory => "the script used more memory than it may",
        })
    }
}

/// The run that a machine is busy with; the machine's interrupt looks here.
pub(crate) struct Gauge {
    end: Cell<Option<Instant>>,
    slice_from: Cell<Instant>,
    sliced: Cell<bool>,
    asked: Cell<u32>,
    tripped: Cell<Option<Trip>>,
    pause_next: Cell<bool>,
    /// Coroutines of the script's own that run within each other.
    pub depth: Cell<u32>,
    /// Whose run it is, for what a script writes into the log.
    pub request: RefCell<String>,
}

impl Gauge {
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            end: Cell::new(None),
            slice_from: Cell::new(Instant::now()),
            sliced: Cell::new(false),
            asked: Cell::new(0),
            tripped: Cell::new(None),
            pause_next: Cell::new(false),
            depth: Cell::new(0),
            request: RefCell::default(),
        })
    }

    pub fn begin(&self, left: Duration, sliced: bool) {
        let now = Instant::now();
        self.end.set(Some(now + left));
        self.slice_from.set(now);
        self.sliced.set(sliced);
        self.tripped.set(None);
        self.depth.set(0);
    }

    /// Ends a stretch; says how it went.
    pub fn finish(&self) -> Option<Trip> {
        self.end.set(None);
        self.tripped.take()
    }

    /// An error where the time is up: for long work of the host in a script's name.
    pub fn check(&self) -> mlua::Result<()> {
        match self.end.get() {
            Some(end) if Instant::now() >= end => {
                self.tripped.set(Some(Trip::Time));
                Err(mlua::Error::runtime(Trip::Time))
            }
            _ => Ok(()),
        }
    }

    fn interrupt(&self) -> mlua::Result<VmState> {
        let Some(end) = self.end.get() else { return Ok(VmState::Continue) };
        if self.tripped.get().is_some() {
            return self.stop();
        }
        let asked = self.asked.get().wrapping_add(1);
        self.asked.set(asked);
        if !asked.is_multiple_of(EVERY) {
            return Ok(VmState::Continue);
        }
        let now = Instant::now();
        let stretch = now.saturating_duration_since(self.slice_from.get());
        if now >= end || (self.sliced.get() && stretch >= UNPAUSED) {
            self.tripped.set(Some(Trip::Time));
            return self.stop();
        }
        // Inside a coroutine of the script's own a pause would look like a yield of the script's.
        if self.sliced.get() && stretch >= SLICE && self.depth.get() == 0 {
            return Ok(VmState::Yield);
        }
        Ok(VmState::Continue)
    }

    /// A pause that never ends cannot be caught by `pcall`; where the engine cannot pause, an error takes its place, again and again.
    fn stop(&self) -> mlua::Result<VmState> {
        let pause = self.sliced.get() && self.pause_next.replace(!self.pause_next.get());
        if pause { Ok(VmState::Yield) } else { Err(mlua::Error::runtime(Trip::Time)) }
    }
}

/// Has the machine look at `gauge` whenever a script loops, calls, or matches.
pub(crate) fn watch(lua: &Lua, gauge: &Rc<Gauge>) {
    let gauge = gauge.clone();
    lua.set_interrupt(move |_| gauge.interrupt());
}

/// One run, polled in slices within its budgets.
pub(crate) struct Budgeted<F> {
    pub lua: Lua,
    pub gauge: Rc<Gauge>,
    pub inner: F,
    pub time: Duration,
    pub memory: usize,
    pub request: String,
}

/// How a run failed.
pub(crate) enum Broken {
    Trip(Trip),
    Error(mlua::Error),
}

/// Whether an error is that of memory.
pub(crate) fn is_memory(error: &mlua::Error) -> bool {
    error.chain().any(|it| matches!(it.downcast_ref(), Some(mlua::Error::MemoryError(_))))
        || error.to_string().contains("not enough memory")
}

/// Runs `work` where nothing can be paused: at load.
pub(crate) fn at_once<T>(
    lua: &Lua,
    gauge: &Gauge,
    time: Duration,
    memory: usize,
    work: impl FnOnce() -> mlua::Result<T>,
) -> Result<T, Broken> {
    gauge.begin(time, false);
    let _ = lua.set_memory_limit(lua.used_memory() + memory);
    let outcome = work();
    let _ = lua.set_memory_limit(0);
    match (gauge.finish(), outcome) {
        (Some(trip), _) => Err(Broken::Trip(trip)),
        (None, Err(it)) if is_memory(&it) => Err(Broken::Trip(Trip::Memory)),
        (None, outcome) => outcome.map_err(Broken::Error),
    }
}

impl<T, F: Future<Output = mlua::Result<T>> + Unpin> Future for Budgeted<F> {
    type Output = Result<T, Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let it = self.get_mut();
        let (started, used) = (Instant::now(), it.lua.used_memory());
        it.gauge.begin(it.time, true);
        std::mem::swap(&mut *it.gauge.request.borrow_mut(), &mut it.request);
        let _ = it.lua.set_memory_limit(used + it.memory);
        let outcome = Pin::new(&mut it.inner).poll(cx);
        let _ = it.lua.set_memory_limit(0);
        std::mem::swap(&mut *it.gauge.request.borrow_mut(), &mut it.request);
        it.time = it.time.saturating_sub(started.elapsed());
        it.memory = it.memory.saturating_sub(it.lua.used_memory().saturating_sub(used));
        match (it.gauge.finish(), outcome) {
            (Some(trip), _) => Poll::Ready(Err(Broken::Trip(trip))),
            (None, Poll::Pending) => Poll::Pending,
            (None, Poll::Ready(Err(error))) if is_memory(&error) => Poll::Ready(Err(Broken::Trip(Trip::Memory))),
            (None, Poll::Ready(outcome)) => Poll::Ready(outcome.map_err(Broken::Error)),
        }
    }
}
