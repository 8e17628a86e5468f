//! What a task of a pipeline calls: a backend, or nobody.
use contract::{Exchange, Outcome};

use super::{call::Call, respond::Respond};
use crate::pipeline::task;

/// The protocols of a task. A closed set.
pub enum Step {
    Call(Box<Call>),
    /// An answer of the gateway's own, made of what is there already.
    Respond(Box<Respond>),
}

impl task::Step for Step {
    async fn call(&self, ex: &mut Exchange) -> Outcome {
        match self {
            Self::Call(it) => it.run(ex).await,
            Self::Respond(it) => it.run(ex),
        }
    }
}
