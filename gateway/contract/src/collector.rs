//! What the tasks of a pipeline have brought so far, as expressions, templates and scripts see it.
use std::rc::Rc;

use http::{HeaderMap, StatusCode};

use crate::{Exchange, expression::Value, json::JsonView};

/// One task that is over.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Its JSON answer, byte for byte; nothing for null.
    pub value: Option<JsonView>,
    /// The backend's status, where one answered; none of a task that calls once for each item.
    pub status: Option<StatusCode>,
    pub headers: HeaderMap,
    /// It failed, and was left out: it has no place in an answer that lists all tasks.
    pub omitted: bool,
}

/// Every task that is over, by its number in the order of the definition.
///
/// Shared by the exchanges of one pipeline; left in their notes as [`Collected`].
#[derive(Clone, Debug, Default)]
pub struct Tasks(pub Vec<Option<Finished>>);

/// What an exchange sees of its pipeline's tasks.
#[derive(Clone, Debug, Default)]
pub struct Collected(pub Rc<Tasks>);

/// The item that this call of a `for_each` is made for.
#[derive(Clone, Debug)]
pub struct Item(pub Value<'static>);

/// Left on an answer that is not whole: some tasks of its pipeline failed, and were done without. It must not be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial;

impl Exchange {
    /// A task that is over; nothing of one that has not run.
    pub fn task(&self, number: u16) -> Option<&Finished> {
        self.notes.get::<Collected>()?.0.0.get(usize::from(number))?.as_ref()
    }
}
