//! `proxy.pipeline` becomes stages of tasks; what a task may see of the others is decided here.
use contract::{
    expression::{Names, Place, Reads, Root, is_reserved},
    json::JsonView,
};
use http::{HeaderName, Method};
use schemas::{tree::escape, v1};

use super::{targets, told::Told, world::Compiler};
use crate::{
    pipeline::{
        Pipeline,
        answer::Says,
        task::{Counts, Each, OnError, Task},
    },
    target::{Action, step::Step},
};

/// Where the pipeline of an Api is written.
const AT: &str = "/proxy/pipeline";
/// The header that tells of a partial answer, unless its author names another.
const PARTIAL: HeaderName = HeaderName::from_static("x-partial");
/// The largest answer of a task, unless its author says otherwise.
const MAX_ANSWER: u64 = 1 << 20;
/// Items, and calls at once, of a `for_each` that does not say.
const MAX_ITEMS: u32 = 20;
const CONCURRENCY: u32 = 8;

/// The labels of all tasks, in the order of the definition: their numbers.
pub fn labels(it: &v1::Call) -> Vec<&str> {
    match &it.target {
        Some(v1::call::Target::Pipeline(it)) => it.stages.iter().flat_map(|it| &it.tasks).map(|it| it.name.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Compiles `proxy`, a pipeline or another; `None` after faults. `owner` is the Api's name and version.
pub fn action(world: &Compiler<'_>, told: &Told<'_>, owner: (&str, &str), it: &v1::Call, names: &Names<'_>) -> Option<Action> {
    match &it.target {
        Some(v1::call::Target::Pipeline(it)) => pipeline(world, told, owner, it, names).map(|it| Action::Pipeline(Box::new(it))),
        _ => targets::action(world, told, it, names),
    }
}

/// Compiles a pipeline; `None` after faults.
fn pipeline(world: &Compiler<'_>, told: &Told<'_>, owner: (&str, &str), it: &v1::Pipeline, names: &Names<'_>) -> Option<Pipeline<Step>> {
    let deadline = told.duration(&format!("{AT}/deadline"), it.deadline.as_deref());
    if deadline.is_some_and(|it| it.is_zero()) {
        told.error(&format!("{AT}/deadline"), "bad-unit", "no time at all is not enough for any pipeline");
    }
    if it.merge.is_some() {
        told.not_built(&format!("{AT}/merge"), "a script that merges");
    }
    let all: Vec<&v1::Task> = it.stages.iter().flat_map(|it| &it.tasks).collect();
    let labels: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    let items: Vec<&str> = all.iter().filter_map(|it| it.for_each.as_ref()).map(|it| it.item.as_str()).collect();
    let mut stages = Vec::with_capacity(it.stages.len());
    let mut number = 0;
    for (at, stage) in it.stages.iter().enumerate() {
        let (finished, later) = labels.split_at(number);
        let names = names.tasks(finished, later);
        let mut tasks = Vec::with_capacity(stage.tasks.len());
        for it in &stage.tasks {
            let place = format!("{AT}/stages/{at}/{}", escape(&it.name));
            label(told, &place, &it.name, &labels, &items, number);
            tasks.extend(task(world, told, owner, &place, it, number, &names, &labels));
            number += 1;
        }
        if !it.allow_partial_writes() {
            writes(told, &format!("{AT}/stages/{at}"), stage);
        }
        stages.push(tasks.into_boxed_slice());
    }
    if number > usize::from(u16::MAX) {
        told.error(&format!("{AT}/stages"), "too-many", format!("a pipeline has at most {} tasks", u16::MAX));
    }
    let partial = it.partial.clone().unwrap_or_default();
    let header = match partial.header.as_deref() {
        Some(it) => told.header(&format!("{AT}/partial/header"), it),
        None => Some(PARTIAL),
    };
    let says = Says { header: header?, list: partial.list() };
    (!told.has_errors()).then(|| Pipeline { stages: stages.into(), deadline, says })
}

/// A label leads expressions to one task alone.
fn label(told: &Told<'_>, place: &str, name: &str, labels: &[&str], items: &[&str], number: usize) {
    if is_reserved(name) {
        let message = format!("'{name}' already means something in expressions");
        told.error_help(place, "bad-label", message, "give the task another label");
    } else if items.contains(&name) {
        told.error_help(place, "bad-label", format!("'{name}' is the item of a `for_each`"), "give the task or the item another name");
    } else if labels[..number].contains(&name) {
        told.error_help(place, "bad-label", format!("an earlier stage has a task '{name}'"), "a label stands once in a pipeline");
    }
}

/// Whether a call may change something.
fn writes_something(it: &v1::Call) -> bool {
    match &it.target {
        Some(v1::call::Target::Http(it)) => {
            it.method.as_deref().is_some_and(|it| Method::from_bytes(it.as_bytes()).is_ok_and(|it| !it.is_safe()))
        }
        _ => false,
    }
}

/// When one of two writes fails, the other may have happened: that is the author's to allow.
fn writes(told: &Told<'_>, place: &str, stage: &v1::Stage) {
    let writing: Vec<&v1::Task> = stage.tasks.iter().filter(|it| it.call.as_ref().is_some_and(writes_something)).collect();
    let help = "put each write into a stage of its own, or write `allow_partial_writes: true` in the pipeline";
    if let [first, second, ..] = &writing[..] {
        let message =
            format!("'{}' and '{}' both write, side by side: when one fails, the other may have happened", first.name, second.name);
        told.error_help(&format!("{place}/{}", escape(&second.name)), "partial-writes", message, help);
        return;
    }
    if let [it] = &writing[..]
        && it.for_each.is_some()
    {
        let message = format!("'{}' writes once for each item: when one fails, others may have happened", it.name);
        told.error_help(&format!("{place}/{}", escape(&it.name)), "partial-writes", message, help);
    }
}

#[expect(clippy::too_many_arguments, reason = "one task, and all that it is seen among")]
fn task(
    world: &Compiler<'_>,
    told: &Told<'_>,
    owner: (&str, &str),
    place: &str,
    it: &v1::Task,
    number: usize,
    names: &Names<'_>,
    labels: &[&str],
) -> Option<Task<Step>> {
    // What this task alone reads; the whole definition reads it too.
    let before = told.reads.replace(Reads::default());
    let task = alone(world, told, owner, place, it, number, names, labels);
    told.reads.set(told.reads.get().and(before));
    task
}

#[expect(clippy::too_many_arguments, reason = "one task, and all that it is seen among")]
fn alone(
    world: &Compiler<'_>,
    told: &Told<'_>,
    owner: (&str, &str),
    place: &str,
    it: &v1::Task,
    number: usize,
    names: &Names<'_>,
    labels: &[&str],
) -> Option<Task<Step>> {
    let when = match it.when.as_deref() {
        Some(text) => Some(told.condition(&format!("{place}/when"), text, names)?),
        None => None,
    };
    if let Some(it) = &when {
        told.reads.set(told.reads.get().and(it.reads()));
    }
    let each = it.for_each.as_ref().and_then(|it| each(told, &format!("{place}/for_each"), it, names, labels));
    let names = match it.for_each.as_ref() {
        Some(it) => names.item(&it.item),
        None => *names,
    };
    let call = it.call.as_ref()?;
    let step = targets::step(world, told, place, call, &names);
    let timeout = told.duration(&format!("{place}/timeout"), call.timeout.as_deref());
    let on_error = on_error(told, &format!("{place}/on_error"), it.on_error.as_ref(), it.for_each.is_some());
    let max_answer = told.size(&format!("{place}/max_answer"), it.max_answer.as_deref()).unwrap_or(MAX_ANSWER);
    let reads = told.reads.get();
    let counts = counts(world, owner, &it.name);
    Some(Task {
        label: it.name.as_str().into(),
        number,
        step: step?,
        when,
        each,
        on_error: on_error?,
        max_answer: usize::try_from(max_answer).unwrap_or(usize::MAX),
        timeout,
        reads_tasks: reads.reads(Root::Task(0))
            || reads.reads(Root::TaskCall(0))
            || reads.reads(Root::TaskHeaders(0))
            || reads.reads(Root::Item),
        counts,
    })
}

fn each(told: &Told<'_>, place: &str, it: &v1::ForEach, names: &Names<'_>, labels: &[&str]) -> Option<Each> {
    if is_reserved(&it.item) {
        let message = format!("'{}' already means something in expressions", it.item);
        told.error_help(&format!("{place}/item"), "bad-label", message, "give the item another name");
    } else if labels.contains(&it.item.as_str()) {
        told.error_help(&format!("{place}/item"), "bad-label", format!("a task is named '{}' too", it.item), "give the item another name");
    }
    let list = told.template(&format!("{place}/in"), &it.r#in, names, contract::expression::Context::Plain)?;
    if list.whole().is_none() {
        let help = "write one expression, such as ${orders.items}";
        told.error_help(&format!("{place}/in"), "no-list", "a text is no list", help);
        return None;
    }
    Some(Each { list, max: it.max.unwrap_or(MAX_ITEMS) as usize, concurrency: it.concurrency.unwrap_or(CONCURRENCY) as usize })
}

fn on_error(told: &Told<'_>, place: &str, it: Option<&v1::OnError>, each: bool) -> Option<OnError> {
    use v1::on_error::Written;
    Some(match it.and_then(|it| it.written.as_ref()) {
        None => OnError::Fail,
        Some(Written::Word(it)) => match it.as_str() {
            "omit" => OnError::Omit,
            "skip_item" if each => OnError::SkipItem,
            "skip_item" => {
                told.error_help(place, "no-meaning", "`skip_item` needs `for_each`: this task has no items", "omit");
                return None;
            }
            _ => OnError::Fail,
        },
        Some(Written::Use(it)) => match JsonView::parse(it.text.clone()) {
            Ok(it) => OnError::Use(it),
            Err(it) => {
                told.error(place, "bad-json", it.to_string());
                return None;
            }
        },
    })
}

fn counts(world: &Compiler<'_>, (api, version): (&str, &str), task: &str) -> Counts {
    use contract::meter::Meter;
    let of = |outcome| {
        let labels = [("api", api), ("version", version), ("task", task), ("outcome", outcome)];
        world.metrics.registry.counter("allium_pipeline_tasks_total", "Tasks of pipelines, by how they ended.", &labels)
    };
    Counts { ok: of("ok"), failed: of("failed"), skipped: of("skipped") }
}

/// The names that `outbound` of this Api sees.
pub fn outside<'n>(names: &Names<'n>, labels: &'n [&'n str]) -> Names<'n> {
    Names { place: Place::Outbound, ..names.tasks(labels, &[]) }
}
