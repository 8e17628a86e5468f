//! Answers that a test gives in the place of backends: nobody is called.
use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use contract::{Body, CallError, Kind, Outcome, Problem};
use http::{HeaderMap, Response, StatusCode};

/// Left in the notes of an exchange: its calls are answered from here. Each call has the label of its task.
#[derive(Clone)]
pub struct Given {
    answers: Rc<Answers>,
    label: Rc<str>,
}

/// All that a test gives.
#[derive(Default)]
pub struct Answers {
    pub labels: Vec<Label>,
    /// Labels that were called, and for which nothing is given.
    pub missing: RefCell<Vec<Box<str>>>,
}

/// What one backend answers: to every call, or call by call.
pub struct Label {
    pub name: Box<str>,
    pub answers: Vec<Answer>,
    /// How many calls were made.
    pub calls: RefCell<usize>,
}

/// One answer.
pub enum Answer {
    Answers { status: StatusCode, headers: HeaderMap, body: Bytes },
    Fails(CallError),
}

/// The label of a call that stands alone.
pub const ALONE: &str = "proxy";

impl Given {
    pub fn new(answers: Rc<Answers>) -> Self {
        Self { answers, label: ALONE.into() }
    }

    /// For the task of this label.
    pub fn of(&self, label: &str) -> Self {
        Self { answers: self.answers.clone(), label: label.into() }
    }

    /// Answers one call.
    pub fn answer(&self) -> Outcome {
        let found = self.answers.labels.iter().find(|it| *it.name == *self.label);
        let answer = found.and_then(|it| {
            let call = self::next(&it.calls);
            // One answer is for all calls, several are one for each.
            it.answers.get(if it.answers.len() == 1 { 0 } else { call })
        });
        match answer {
            Some(Answer::Answers { status, headers, body }) => {
                let mut it = Response::new(Body::from(body.clone()));
                *it.status_mut() = *status;
                *it.headers_mut() = headers.clone();
                Ok(it)
            }
            Some(Answer::Fails(it)) => Err(Problem::call(*it, "given")),
            None => {
                let mut missing = self.answers.missing.borrow_mut();
                if !missing.iter().any(|it| **it == *self.label) {
                    missing.push(self.label.as_ref().into());
                }
                Err(Problem::new(Kind::Upstream, "the test gives no answer to this call").reason("given"))
            }
        }
    }
}

/// The number of this call, from zero.
fn next(calls: &RefCell<usize>) -> usize {
    let mut calls = calls.borrow_mut();
    *calls += 1;
    *calls - 1
}
