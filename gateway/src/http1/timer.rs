//! One sleep a connection, armed again only when it fires: deadlines move with every request, and a timer wheel need not know.
use std::{
    pin::Pin,
    task::{Context, Waker},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Wakes a connection at its deadline, or earlier and in vain.
#[derive(Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the sleep will fire, while it has not.
    armed: Option<Instant>,
    /// Who is woken.
    waker: Option<Waker>,
}

impl Timer {
    /// Whether `deadline` has passed; if not, the task is woken when it does.
    pub fn expired(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline else { return false };
        loop {
            let sleep = match (&mut self.sleep, self.armed) {
                (Some(sleep), Some(armed)) if armed <= deadline => {
                    // The wheel knows this task already; polling again would only register it again.
                    if !sleep.is_elapsed() && self.waker.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
                        return false;
                    }
                    sleep
                }
                (Some(sleep), _) => {
                    sleep.as_mut().reset(deadline);
                    self.armed = Some(deadline);
                    sleep
                }
                (none, _) => {
                    self.armed = Some(deadline);
                    none.insert(Box::pin(sleep_until(deadline)))
                }
            };
            if sleep.as_mut().poll(cx).is_pending() {
                if !self.waker.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
                    self.waker = Some(cx.waker().clone());
                }
                return false;
            }
            self.armed = None;
            if Instant::now() >= deadline {
                return true;
            }
        }
    }
}
