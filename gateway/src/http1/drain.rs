//! Tells the connections of one worker that it is time to leave.
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// The signal, shared by the connections of one thread. Asking it costs a load.
#[derive(Clone, Default)]
pub struct Drain(Rc<Shared>);

#[derive(Default)]
struct Shared {
    begun: Cell<bool>,
    open: Cell<usize>,
    /// One place for each connection; a free one holds no waker.
    seats: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    empty: RefCell<Vec<Waker>>,
}

impl Drain {
    pub fn new() -> Self {
        Self::default()
    }

    /// Idle connections close at once, busy ones after the answer that they are making.
    pub fn begin(&self) {
        self.0.begun.set(true);
        let seats: Vec<Waker> = self.0.seats.borrow().iter().flatten().cloned().collect();
        seats.into_iter().for_each(Waker::wake);
    }

    pub fn has_begun(&self) -> bool {
        self.0.begun.get()
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.0.open.get()
    }

    /// Waits until none is.
    pub async fn emptied(&self) {
        poll_fn(|cx| {
            if self.open() == 0 {
                return Poll::Ready(());
            }
            self.0.empty.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// One more connection is open, until the seat is dropped.
    pub fn sit(&self) -> Seat {
        self.0.open.set(self.open() + 1);
        let at = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut seats = self.0.seats.borrow_mut();
            seats.push(None);
            seats.len() - 1
        });
        Seat { drain: self.clone(), at }
    }
}

/// A connection's place; it is free again when the connection ends.
pub struct Seat {
    drain: Drain,
    at: usize,
}

impl Seat {
    /// Whether it is time to leave.
    pub fn draining(&self) -> bool {
        self.drain.has_begun()
    }

    /// Has the task woken when the drain begins.
    pub fn listen(&self, cx: &Context<'_>) {
        let mut seats = self.drain.0.seats.borrow_mut();
        if let Some(seat) = seats.get_mut(self.at)
            && !seat.as_ref().is_some_and(|it| it.will_wake(cx.waker()))
        {
            *seat = Some(cx.waker().clone());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let shared = &self.drain.0;
        let waker = shared.seats.borrow_mut().get_mut(self.at).and_then(Option::take);
        drop(waker);
        shared.free.borrow_mut().push(self.at);
        shared.open.set(shared.open.get().saturating_sub(1));
        if shared.open.get() == 0 {
            let all = std::mem::take(&mut *shared.empty.borrow_mut());
            all.into_iter().for_each(Waker::wake);
        }
    }
}
