//! What is inside the onion: a call, an answer of the gateway's own, a redirect; and the shape of what comes out.
pub mod call;
pub mod grpc;
pub mod outbound;
pub mod respond;
pub mod step;

use contract::{Body, Exchange, Kind, Outcome, Problem, onion};
use http::{HeaderValue, Response, header};

use self::{
    call::Call,
    outbound::Outbound,
    respond::{Redirect, Respond},
    step::Step,
};
use crate::pipeline::Pipeline;

/// The heart of one route.
pub struct Target {
    pub action: Action,
    /// Touches the proxy's answers only, never one that a ring made.
    pub outbound: Outbound,
    /// Some expression of the call or of `outbound` looks at the request's body.
    pub reads_body: bool,
    /// What `Allow` says to a preflight that nobody answered.
    pub allow: HeaderValue,
}

/// Where requests of a route go. A closed set.
pub enum Action {
    Call(Box<Call>),
    Respond(Box<Respond>),
    Redirect(Box<Redirect>),
    Pipeline(Box<Pipeline<Step>>),
    /// Nobody: the table found no route. What it has to say instead was left in the notes.
    Unmatched,
}

/// Why no route takes a request; left in the notes for [`Action::Unmatched`].
pub struct NoRoute(pub Box<Problem>);

impl onion::Target for Target {
    async fn call(&self, ex: &mut Exchange) -> Outcome {
        if ex.preflight {
            // A preflight goes no further in than `cors`; here, no `cors` has answered it.
            return Err(
                Problem::new(Kind::MethodNotAllowed, "this API answers no CORS preflight").header(header::ALLOW, self.allow.clone())
            );
        }
        if self.reads_body {
            Box::pin(ex.open_body()).await?;
        }
        let answer = match &self.action {
            Action::Call(it) => it.run(ex).await,
            Action::Respond(it) => it.run(ex),
            Action::Redirect(it) => it.run(ex),
            Action::Pipeline(it) => return self.pipeline(it, ex).await,
            Action::Unmatched => {
                return Err(ex.notes.take::<NoRoute>().map_or_else(|| Problem::new(Kind::NotFound, "there is no such API"), |it| it.0));
            }
        };
        match self.outbound.is_empty() {
            true => answer,
            false => Box::pin(self.outbound.shape(ex, answer)).await,
        }
    }
}

impl Target {
    /// The answer is what `outbound.body` makes of the tasks, or all of them by label.
    async fn pipeline(&self, pipeline: &Pipeline<Step>, ex: &mut Exchange) -> Outcome {
        pipeline.run(ex).await?;
        let answer = match &self.outbound.body {
            Some(_) => Response::new(Body::Empty),
            None => pipeline.object(ex),
        };
        let mut answer = match self.outbound.is_empty() {
            true => answer,
            false => self.outbound.shape(ex, Ok(answer)).await?,
        };
        pipeline.mark(ex, &mut answer);
        Ok(answer)
    }
}
