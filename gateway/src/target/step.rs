//! What a task of a pipeline calls: a backend, or nobody.
use contract::{Exchange, Kind, Outcome, Problem};

use super::{call::Call, respond::Respond};
use crate::{pipeline::task, telemetry::metrics::upstream::CallOutcome, upstream::Asked};

/// The protocols of a task. A closed set.
pub enum Step {
    Call(Box<Call>),
    /// An answer of the gateway's own, made of what is there already.
    Respond(Box<Respond>),
}

impl task::Step for Step {
    async fn call(&self, ex: &mut Exchange) -> Outcome {
        match self {
            Self::Call(it) => {
                let answer = it.run(ex).await?;
                match ex.notes.get::<Asked>().and_then(|it| it.ended) {
                    Some(ended) if ended != CallOutcome::Ok && !it.rules.outcomes.is_empty() => {
                        Err(Problem::new(Kind::Upstream, "the backend's answer means that the call failed").reason("upstream_outcome"))
                    }
                    _ => Ok(answer),
                }
            }
            Self::Respond(it) => it.run(ex),
        }
    }
}
