//! One task of a pipeline: whether it runs, its call or its calls, and what their answers are worth.
use std::{borrow::Cow, time::Duration};

use contract::{
    Body, BodyError, CallError, Exchange, Kind, Origin, Outcome, Problem,
    collector::{Collected, Finished, Item},
    expression::{Expression, Template, Value},
    json::{JsonOptions, JsonView, MAX_DOCUMENT},
    meter::Counter,
    scope::Form,
};
use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::{given::Given, together::Together};
use crate::upstream::Asked;

/// What one task calls. The protocols are known above.
pub trait Step: Send + Sync + 'static {
    /// One call. The exchange is the call's own; its deadline holds for the head and the body of the answer.
    fn call(&self, ex: &mut Exchange) -> impl Future<Output = Outcome>;
}

/// One task, as a definition says it.
pub struct Task<S> {
    pub label: Box<str>,
    /// Its place among all tasks of the pipeline.
    pub number: usize,
    pub step: S,
    pub when: Option<Expression>,
    pub each: Option<Each>,
    pub on_error: OnError,
    /// The largest answer that is read.
    pub max_answer: usize,
    pub timeout: Option<Duration>,
    /// What it sends depends on what other tasks brought: a value that cannot be sent is then no fault of the client.
    pub reads_tasks: bool,
    pub counts: Counts,
}

/// One call for each item of a list.
pub struct Each {
    pub list: Template,
    pub max: usize,
    pub concurrency: usize,
}

/// What a failure does.
pub enum OnError {
    /// Ends the pipeline.
    Fail,
    /// The task is null, and has no place in an answer that lists all tasks.
    Omit,
    /// Of a `for_each`: the list goes without this item. What fails the task as a whole ends the pipeline.
    SkipItem,
    /// This value stands in for the answer.
    Use(JsonView),
}

/// `allium_pipeline_tasks_total` of one task, by how it ended.
#[derive(Clone, Default)]
pub struct Counts {
    pub ok: Counter,
    pub failed: Counter,
    pub skipped: Counter,
}

/// How a task went.
pub struct Ran {
    pub number: usize,
    /// Since the pipeline began.
    pub began: Duration,
    pub took: Duration,
    pub end: End,
    /// Calls of backends, repetitions counted.
    pub calls: u32,
    /// Calls of items that failed and were left out.
    pub items_skipped: usize,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done(Option<StatusCode>),
    /// It did not run, and why not.
    Skipped(&'static str),
    /// In one word.
    Failed(&'static str),
}

/// Why a task, or the call for one item, brought nothing.
pub struct Failure {
    /// One word for traces.
    word: &'static str,
    /// For the client: nothing of an address.
    message: Cow<'static, str>,
    timed_out: bool,
    /// What the backend's head said, where there was one.
    pub finished: Finished,
    cause: Option<Box<Problem>>,
    pub asked: Asked,
}

/// What the calls of a task came to.
struct Brought {
    finished: Finished,
    asked: Asked,
    items_skipped: usize,
}

impl<S: Step> Task<S> {
    /// Runs the task, for a pipeline that began at `start` and has until `end`.
    pub async fn run(&self, ex: &Exchange, start: Instant, end: Instant) -> (Ran, Result<Finished, Box<Failure>>) {
        let began = start.elapsed();
        let ran = |end, asked: &Asked, items_skipped| Ran {
            number: self.number,
            began,
            took: start.elapsed() - began,
            end,
            calls: asked.calls,
            items_skipped,
        };
        // Passes only on true; a condition that cannot be decided does not pass.
        if let Some(it) = &self.when
            && !it.passes(&ex.scope()).unwrap_or(false)
        {
            self.counts.skipped.add(1);
            return (ran(End::Skipped("when"), &Asked::default(), 0), Ok(Finished::default()));
        }
        let brought = match &self.each {
            None => self.once(ex, None, end).await,
            Some(it) => self.each(it, ex, end).await,
        };
        match brought {
            Ok(it) => {
                self.counts.ok.add(1);
                (ran(End::Done(it.finished.status), &it.asked, it.items_skipped), Ok(it.finished))
            }
            Err(it) => {
                self.counts.failed.add(1);
                (ran(End::Failed(it.word), &it.asked, 0), Err(it))
            }
        }
    }

    /// One call, its answer read to the end.
    async fn once(&self, ex: &Exchange, item: Option<Value<'static>>, end: Instant) -> Result<Brought, Box<Failure>> {
        let now = Instant::now();
        let deadline = self.timeout.map_or(end, |it| end.min(now + it));
        if deadline <= now {
            return Err(Failure::time());
        }
        let mut child = child(ex, item);
        if let Some(it) = ex.notes.get::<Given>() {
            child.notes.put(it.of(&self.label));
        }
        child.deadline = deadline.into_std();
        let work = async {
            let answer = self.step.call(&mut child).await.map_err(|it| Failure::call(it, self.reads_tasks))?;
            self.read(answer, ex.route.json_depth).await
        };
        let result = timeout_at(deadline, work).await.unwrap_or_else(|_| Err(Failure::time()));
        let asked = child.notes.take::<Asked>().unwrap_or_default();
        match result {
            Ok(finished) => Ok(Brought { finished, asked, items_skipped: 0 }),
            Err(mut it) => {
                it.asked = asked;
                Err(it)
            }
        }
    }

    /// One call for each item, some at a time; the answers in the order of the items.
    async fn each(&self, each: &Each, ex: &Exchange, end: Instant) -> Result<Brought, Box<Failure>> {
        let items = {
            let scope = ex.scope();
            let list = each.list.value(&scope).map_err(|it| Failure::own("expression", format!("`for_each.in`: {it}")))?;
            match list.items() {
                _ if list.is_null() => Vec::new(),
                None => return Err(Failure::own("no_list", format!("`for_each.in` is {}, not a list", list.kind()))),
                Some(it) if it.len() > each.max => {
                    let message = format!("`for_each.in` has {} items, more than the {} of `max`", it.len(), each.max);
                    return Err(Failure::own("too_many_items", message));
                }
                Some(it) => it.into_iter().map(Value::into_owned).collect::<Vec<_>>(),
            }
        };
        let mut answers: Vec<Option<Option<JsonView>>> = items.iter().map(|_| None).collect();
        let mut waiting = items.into_iter().enumerate();
        let mut running = Together::default();
        let mut brought = Brought { finished: Finished::default(), asked: Asked::default(), items_skipped: 0 };
        loop {
            while running.running() < each.concurrency
                && let Some((at, item)) = waiting.next()
            {
                running.push(at, self.once(ex, Some(item), end));
            }
            let Some((at, result)) = running.next().await else { break };
            match result {
                Ok(it) => {
                    brought.asked.calls += it.asked.calls;
                    answers[at] = Some(it.finished.value);
                }
                Err(it) if matches!(self.on_error, OnError::SkipItem) && !it.is_clients() => {
                    brought.asked.calls += it.asked.calls;
                    brought.items_skipped += 1;
                }
                Err(it) => return Err(it),
            }
        }
        brought.finished.value = Some(list(&answers, ex.route.json_depth)?);
        Ok(brought)
    }

    async fn read(&self, answer: http::Response<Body>, depth: usize) -> Result<Finished, Box<Failure>> {
        let (head, mut body) = answer.into_parts();
        let status = head.status;
        let mut finished = Finished { value: None, status: Some(status), headers: head.headers, omitted: false };
        if !status.is_success() {
            let word = if status.is_redirection() { "redirect" } else { "status" };
            let message = match status.is_redirection() {
                true => format!("the backend answered {}; a redirect is never followed", status.as_u16()),
                false => format!("the backend answered {}", status.as_u16()),
            };
            return Err(Failure::own(word, message).of(finished));
        }
        if matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
            return Ok(finished);
        }
        let read = body.bytes(self.max_answer).await.cloned();
        let bytes = match read {
            Ok(it) => it,
            Err(BodyError::TooLarge { .. }) => {
                let message = format!("the backend's answer is larger than the {} bytes of `max_answer`", self.max_answer);
                return Err(Failure::own("too_large", message).of(finished));
            }
            Err(it) => return Err(Failure::call(it.of_response(), true).of(finished)),
        };
        if bytes.is_empty() {
            return Ok(finished);
        }
        match JsonView::parse_with(bytes, &JsonOptions { max_depth: depth, ..JsonOptions::default() }) {
            Ok(it) => {
                finished.value = Some(it);
                Ok(finished)
            }
            Err(it) => {
                let mut failure = Failure::own("not_json", "the backend's answer is not JSON").of(finished);
                failure.cause = Some(Problem::new(Kind::Upstream, "not JSON").because(it));
                Err(failure)
            }
        }
    }
}

/// The exchange of one call: the client's request as expressions see it, with what other tasks brought.
fn child(ex: &Exchange, item: Option<Value<'static>>) -> Exchange {
    let mut child = ex.child(ex.head.clone(), ex.body.copy().unwrap_or_default());
    child.captures = ex.captures.clone();
    if let Some(it) = ex.notes.get::<Collected>() {
        child.notes.put(it.clone());
    }
    if let Some(it) = ex.notes.get::<Form>() {
        child.notes.put(it.clone());
    }
    if let Some(it) = item {
        child.notes.put(Item(it));
    }
    child
}

/// The answers that there are, each byte for byte.
fn list(answers: &[Option<Option<JsonView>>], depth: usize) -> Result<JsonView, Box<Failure>> {
    let size = answers.iter().flatten().map(|it| it.as_ref().map_or(5, |it| it.bytes().len() + 1)).sum::<usize>();
    let mut text = Vec::with_capacity(size + 2);
    text.push(b'[');
    for (at, it) in answers.iter().flatten().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        match it {
            Some(it) => text.extend_from_slice(it.root().raw()),
            None => text.extend_from_slice(b"null"),
        }
    }
    text.push(b']');
    // Each was within the limits; together they may only be too many.
    let options = JsonOptions { max_depth: depth + 1, max_size: MAX_DOCUMENT, ..JsonOptions::default() };
    JsonView::parse_with(text, &options).map_err(|it| Failure::own("too_large", format!("the answers together: {it}")))
}

impl Failure {
    fn own(word: &'static str, message: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self {
            word,
            message: message.into(),
            timed_out: false,
            finished: Finished::default(),
            cause: None,
            asked: Asked::default(),
        })
    }

    /// Its time is over.
    fn time() -> Box<Self> {
        let mut it = Self::own("timeout", "it was not done in time");
        it.timed_out = true;
        it
    }

    /// With what the backend's head said.
    fn of(mut self: Box<Self>, finished: Finished) -> Box<Self> {
        self.finished = finished;
        self
    }

    fn call(problem: Box<Problem>, backends: bool) -> Box<Self> {
        let clients = problem.origin == Origin::Client;
        let (word, message) = match (problem.call, problem.reason) {
            (Some(it), _) => (it.word(), problem.message.clone()),
            (None, "expression") if clients && backends => ("expression", "what another task brought cannot be sent".into()),
            (None, "expression") => ("expression", "its call could not be made of what it is given".into()),
            (None, _) => ("refused", problem.message.clone()),
        };
        let mut it = Self::own(if clients && !backends { CLIENT } else { word }, message);
        it.timed_out = problem.kind == Kind::Timeout;
        it.cause = Some(problem);
        it
    }

    /// The request itself is at fault: no `on_error` makes it good.
    pub fn is_clients(&self) -> bool {
        self.word == CLIENT
    }

    /// As the answer of the pipeline.
    pub fn into_problem(self: Box<Self>, label: &str) -> Box<Problem> {
        let clients = self.is_clients();
        if clients && let Some(it) = self.cause {
            return it;
        }
        let kind = if self.timed_out { Kind::Timeout } else { Kind::Upstream };
        let reason = if self.timed_out { "task_timeout" } else { "task_failed" };
        let mut problem = Problem::new(kind, format!("the task '{label}' failed: {}", self.message)).reason(reason);
        problem.call = self.cause.as_ref().and_then(|it| it.call).or(self.timed_out.then_some(CallError::Timeout));
        let whole = self.cause.as_ref().map(|it| it.explain()).unwrap_or_default();
        // What the message says already is not said again.
        match whole.strip_prefix(&*self.message).map_or(whole.as_str(), |rest| rest.trim_start_matches(": ")) {
            "" => problem,
            cause => problem.because(cause.to_owned()),
        }
    }
}

/// The word of a failure that is the client's.
const CLIENT: &str = "request";
