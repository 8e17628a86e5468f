//! Stages in turn, tasks side by side: one call in, many calls out.
pub mod answer;
pub mod given;
pub mod task;
pub mod together;

use std::{rc::Rc, time::Duration};

use contract::{
    Body, Exchange, Problem,
    collector::{Collected, Finished, Tasks},
};
use http::{HeaderValue, Response, header};
use tokio::time::Instant;

use self::{
    answer::Says,
    task::{End, OnError, Ran, Step, Task},
    together::Together,
};
use crate::upstream::Asked;

/// A pipeline, as a definition says it.
pub struct Pipeline<S> {
    /// In turn; the tasks of one run side by side.
    pub stages: Box<[Box<[Task<S>]>]>,
    /// Of the whole pipeline.
    pub deadline: Option<Duration>,
    pub says: Says,
}

/// What ran, in the order in which it ended. Left in the notes of the exchange, also where the pipeline failed.
#[derive(Default)]
pub struct Report {
    pub ran: Vec<Ran>,
    /// The numbers of tasks that failed and were done without, in the order of the definition.
    pub partial: Vec<usize>,
    pub took: Duration,
}

impl<S: Step> Pipeline<S> {
    /// Runs all stages. What the tasks brought is then in the notes, as [`Collected`], and how it went, as [`Report`].
    ///
    /// Dropping the future cancels every call that is still running.
    pub async fn run(&self, ex: &mut Exchange) -> Result<(), Box<Problem>> {
        let start = Instant::now();
        let mut report = Report::default();
        let mut asked = Asked::default();
        let result = self.stages(ex, start, &mut report, &mut asked).await;
        report.took = start.elapsed();
        report.partial.sort_unstable();
        asked.took = report.took;
        ex.notes.put(asked);
        ex.notes.put(report);
        result
    }

    async fn stages(&self, ex: &mut Exchange, start: Instant, report: &mut Report, asked: &mut Asked) -> Result<(), Box<Problem>> {
        let given = Instant::from_std(ex.deadline);
        let end = self.deadline.map_or(given, |it| given.min(start + it));
        let mut tasks = Rc::new(Tasks((0..self.tasks().count()).map(|_| None).collect()));
        for stage in &self.stages {
            ex.notes.put(Collected(tasks.clone()));
            let finished = side_by_side(stage, ex, start, end, report, asked).await;
            // Nobody looks at it now: what is written next is written in place.
            drop(ex.notes.take::<Collected>());
            let all = Rc::make_mut(&mut tasks);
            for (number, it) in finished? {
                all.0[number] = Some(it);
            }
        }
        ex.notes.put(Collected(tasks));
        Ok(())
    }

    /// In the order of the definition.
    pub fn tasks(&self) -> impl Iterator<Item = &Task<S>> {
        self.stages.iter().flatten()
    }

    pub fn label(&self, number: usize) -> &str {
        self.tasks().nth(number).map_or("", |it| &it.label)
    }

    /// The answer where nothing else makes one: all tasks by label.
    pub fn object(&self, ex: &Exchange) -> Response<Body> {
        let none = Tasks::default();
        let tasks = ex.notes.get::<Collected>().map_or(&none, |it| &it.0);
        let mut answer = Response::new(Body::Full(answer::object(self.tasks().map(|it| &*it.label), tasks).into()));
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        answer
    }

    /// Says on the answer which tasks are missing, if any are.
    pub fn mark(&self, ex: &Exchange, answer: &mut Response<Body>) {
        let Some(report) = ex.notes.get::<Report>().filter(|it| !it.partial.is_empty()) else { return };
        let labels: Vec<&str> = report.partial.iter().map(|it| self.label(*it)).collect();
        answer::mark(&self.says, answer, &labels);
    }
}

/// The tasks of one stage. The first failure that nothing makes good cancels those that still run.
async fn side_by_side<S: Step>(
    stage: &[Task<S>],
    ex: &Exchange,
    start: Instant,
    end: Instant,
    report: &mut Report,
    asked: &mut Asked,
) -> Result<Vec<(usize, Finished)>, Box<Problem>> {
    let mut running = Together::default();
    for (at, task) in stage.iter().enumerate() {
        running.push(at, task.run(ex, start, end));
    }
    let mut finished = Vec::with_capacity(stage.len());
    while let Some((at, (ran, result))) = running.next().await {
        let task = &stage[at];
        asked.calls += ran.calls;
        let failed = matches!(ran.end, End::Failed(_)) || ran.items_skipped > 0;
        report.ran.push(ran);
        let it = match (result, &task.on_error) {
            (Ok(it), _) => it,
            (Err(it), OnError::Omit) if !it.is_clients() => Finished { omitted: true, ..it.finished },
            (Err(it), OnError::Use(value)) if !it.is_clients() => Finished { value: Some(value.clone()), ..it.finished },
            (Err(it), _) => {
                // Whom the log names: the backend that spoilt it.
                asked.upstream = it.asked.upstream.clone();
                asked.node = it.asked.node.clone();
                return Err(it.into_problem(&task.label));
            }
        };
        if failed {
            report.partial.push(task.number);
        }
        finished.push((task.number, it));
    }
    Ok(finished)
}

#[cfg(test)]
mod tests;
