//! Pipelines in virtual time, over backends that are only a sleep.
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use contract::{
    CallError, Outcome,
    expression::{Context, Expression, Names, Place, Template},
    json::JsonView,
    testkit::exchange,
};
use http::HeaderName;

use super::{
    task::{Each, Task},
    *,
};

/// How long a call takes, and what comes of it.
type Make = dyn Fn(&Exchange) -> (u64, Outcome) + Send + Sync;

struct Fake {
    make: Box<Make>,
    running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Step for Fake {
    async fn call(&self, ex: &mut Exchange) -> Outcome {
        let (time, outcome) = (self.make)(ex);
        self.running.fetch_add(1, Relaxed);
        let _running = Running(self.running.clone());
        tokio::time::sleep(Duration::from_millis(time)).await;
        outcome
    }
}

/// An answer of 200 with this body.
fn json(body: &str) -> Outcome {
    Ok(Response::new(Body::from(body.to_owned())))
}

fn task(label: &str, make: impl Fn(&Exchange) -> (u64, Outcome) + Send + Sync + 'static) -> Task<Fake> {
    Task {
        label: label.into(),
        number: 0,
        step: Fake { make: Box::new(make), running: Arc::default() },
        when: None,
        each: None,
        on_error: OnError::Fail,
        max_answer: 1 << 20,
        timeout: None,
        reads_tasks: false,
        counts: Default::default(),
    }
}

fn slow(label: &str, time: u64) -> Task<Fake> {
    let body = format!("\"{label}\"");
    task(label, move |_| (time, json(&body)))
}

fn broken(label: &str, time: u64) -> Task<Fake> {
    task(label, move |_| (time, Err(Problem::call(CallError::Reset, "upstream_reset"))))
}

/// `for_each` over a list of numbers; each call takes what `time` says, and answers with the item.
fn for_each(label: &str, list: &str, max: usize, concurrency: usize, time: fn(i64) -> u64) -> Task<Fake> {
    let names = Names::new(Place::Proxy).item("item");
    let item = Expression::compile("item", &names).unwrap();
    let mut it = task(label, move |ex| {
        let scope = ex.scope();
        let item = item.eval(&scope).unwrap();
        (time(item.as_i64().unwrap()), json(&format!("{{\"item\":{}}}", item.to_text().unwrap())))
    });
    let list = Template::compile(&format!("${{{list}}}"), &Names::new(Place::Proxy), Context::Plain).unwrap();
    it.each = Some(Each { list, max, concurrency });
    it
}

fn pipeline(stages: Vec<Vec<Task<Fake>>>) -> Pipeline<Fake> {
    let mut number = 0;
    let mut numbered = |mut it: Task<Fake>| {
        it.number = number;
        number += 1;
        it
    };
    let stages = stages.into_iter().map(|it| it.into_iter().map(&mut numbered).collect()).collect();
    Pipeline { stages, deadline: None, says: Says { header: HeaderName::from_static("x-partial"), list: false } }
}

struct Ended {
    took: u64,
    result: Result<String, Box<Problem>>,
    partial: Vec<usize>,
    ran: Vec<(usize, End)>,
}

async fn run(pipeline: &Pipeline<Fake>) -> Ended {
    let mut ex = exchange(http::Request::new(Body::Empty));
    ex.deadline = (Instant::now() + Duration::from_secs(60)).into_std();
    let start = Instant::now();
    let result = pipeline.run(&mut ex).await;
    let took = start.elapsed().as_millis() as u64;
    let result = result.map(|()| match pipeline.object(&ex).into_body() {
        Body::Full(it) => String::from_utf8(it.to_vec()).unwrap(),
        it => panic!("{it:?}"),
    });
    let report = ex.notes.take::<Report>().unwrap();
    Ended { took, result, partial: report.partial, ran: report.ran.iter().map(|it| (it.number, it.end)).collect() }
}

#[tokio::test(start_paused = true)]
async fn a_stage_takes_as_long_as_its_slowest_task_and_stages_add_up() {
    let one = pipeline(vec![vec![slow("a", 100), slow("b", 100), slow("c", 100)]]);
    assert_eq!(run(&one).await.took, 100);
    let two = pipeline(vec![vec![slow("a", 100), slow("b", 70)], vec![slow("c", 100)]]);
    let ended = run(&two).await;
    assert_eq!((ended.took, ended.result.unwrap().as_str()), (200, r#"{"a":"a","b":"b","c":"c"}"#));
}

#[tokio::test(start_paused = true)]
async fn for_each_runs_so_many_at_once_and_answers_in_the_order_of_the_items() {
    let twenty = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]";
    assert_eq!(run(&pipeline(vec![vec![for_each("a", twenty, 20, 8, |_| 50)]])).await.took, 150);
    assert_eq!(run(&pipeline(vec![vec![for_each("a", twenty, 20, 20, |_| 50)]])).await.took, 50);
    let ended = run(&pipeline(vec![vec![for_each("a", "[3,1,2]", 3, 3, |it| 100 - 10 * it as u64)]])).await;
    assert_eq!(ended.result.unwrap(), r#"{"a":[{"item":3},{"item":1},{"item":2}]}"#);
}

#[tokio::test(start_paused = true)]
async fn the_same_answers_make_the_same_bytes_however_the_tasks_finish() {
    let mut seen = Vec::new();
    for order in [[10, 20, 30], [30, 20, 10], [20, 10, 30], [10, 10, 10], [20, 30, 10]] {
        let tasks = ["a", "b", "c"].into_iter().zip(order).map(|(label, time)| match label {
            "b" => Task { on_error: OnError::Omit, ..broken(label, time) },
            _ => slow(label, time),
        });
        let ended = run(&pipeline(vec![tasks.collect(), vec![for_each("d", "[5,6]", 2, 2, |it| it as u64)]])).await;
        seen.push((ended.result.unwrap(), ended.partial));
    }
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
    assert_eq!(seen[0], (r#"{"a":"a","c":"c","d":[{"item":5},{"item":6}]}"#.to_owned(), vec![1]));
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_cancels_what_still_runs() {
    let hangs = slow("hangs", 10_000);
    let running = hangs.step.running.clone();
    let never = Arc::new(AtomicUsize::new(0));
    let asked = never.clone();
    let later = task("later", move |_| {
        asked.fetch_add(1, Relaxed);
        (0, json("1"))
    });
    let ended = run(&pipeline(vec![vec![hangs, broken("bad", 30)], vec![later]])).await;
    let problem = ended.result.unwrap_err();
    assert_eq!((ended.took, problem.status().as_u16(), problem.call), (30, 502, Some(CallError::Reset)));
    assert!(problem.message.contains("the task 'bad' failed"), "{}", problem.message);
    assert_eq!((running.load(Relaxed), never.load(Relaxed)), (0, 0));
    assert_eq!(ended.ran, [(1, End::Failed("reset"))]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_every_call() {
    let tasks = vec![slow("a", 10_000), slow("b", 10_000), for_each("c", "[1,2,3,4,5]", 5, 2, |_| 10_000)];
    let running: Vec<_> = tasks.iter().map(|it| it.step.running.clone()).collect();
    let it = pipeline(vec![tasks]);
    let left = tokio::time::timeout(Duration::from_millis(10), run(&it)).await;
    assert!(left.is_err());
    assert_eq!(running.iter().map(|it| it.load(Relaxed)).collect::<Vec<_>>(), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_what_is_unfinished_fails_and_on_error_applies() {
    let with = |on_error: fn() -> OnError| {
        let late = Task { on_error: on_error(), ..slow("late", 10_000) };
        let after = Task { on_error: OnError::Omit, ..slow("after", 1) };
        Pipeline { deadline: Some(Duration::from_millis(80)), ..pipeline(vec![vec![slow("a", 10), late], vec![after]]) }
    };
    let ended = run(&with(|| OnError::Fail)).await;
    let problem = ended.result.unwrap_err();
    assert_eq!((ended.took, problem.status().as_u16(), problem.call), (80, 504, Some(CallError::Timeout)));
    assert!(problem.message.contains("'late'"), "{}", problem.message);

    let ended = run(&with(|| OnError::Omit)).await;
    assert_eq!((ended.took, ended.result.unwrap().as_str(), ended.partial), (80, r#"{"a":"a"}"#, vec![1, 2]));

    let ended = run(&with(|| OnError::Use(JsonView::parse(r#"{"level": 1.0}"#).unwrap()))).await;
    assert_eq!((ended.result.unwrap().as_str(), ended.partial), (r#"{"a":"a","late":{"level": 1.0}}"#, vec![1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_task_has_a_time_of_its_own() {
    let late = Task { timeout: Some(Duration::from_millis(40)), on_error: OnError::Omit, ..slow("late", 10_000) };
    let ended = run(&pipeline(vec![vec![late, slow("a", 10)], vec![slow("b", 10)]])).await;
    assert_eq!((ended.took, ended.partial), (50, vec![0]));
    // Each call is told how long it has.
    let told = Arc::new(AtomicUsize::new(0));
    let tell = told.clone();
    let it = Pipeline {
        deadline: Some(Duration::from_millis(500)),
        ..pipeline(vec![
            vec![slow("a", 100)],
            vec![task("b", move |ex| {
                tell.store((Instant::from_std(ex.deadline) - Instant::now()).as_millis() as usize, Relaxed);
                (0, json("1"))
            })],
        ])
    };
    run(&it).await;
    assert_eq!(told.load(Relaxed), 400);
}

#[tokio::test(start_paused = true)]
async fn skip_item_leaves_out_what_failed() {
    let with = |on_error| {
        let mut it = for_each("a", "[1,2,3]", 3, 3, |it| if it == 2 { 10_000 } else { 5 });
        it.timeout = Some(Duration::from_millis(50));
        it.on_error = on_error;
        pipeline(vec![vec![it]])
    };
    let ended = run(&with(OnError::SkipItem)).await;
    assert_eq!((ended.result.unwrap().as_str(), ended.partial), (r#"{"a":[{"item":1},{"item":3}]}"#, vec![0]));
    let ended = run(&with(OnError::Fail)).await;
    assert_eq!(ended.result.unwrap_err().status(), 504);
    let ended = run(&with(OnError::Omit)).await;
    assert_eq!((ended.result.unwrap().as_str(), ended.partial), ("{}", vec![0]));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_or_too_long_a_list_fails_the_task() {
    for (list, says) in [
        ("'text'", "`for_each.in` is text, not a list"),
        ("1 + 1", "`for_each.in` is a number, not a list"),
        ("[1,2,3,4]", "`for_each.in` has 4 items, more than the 3 of `max`"),
    ] {
        let mut it = for_each("a", list, 3, 3, |_| 0);
        // What fails the task as a whole, no item can be skipped for.
        it.on_error = OnError::SkipItem;
        let problem = run(&pipeline(vec![vec![it]])).await.result.unwrap_err();
        assert_eq!((problem.status().as_u16(), &*problem.message), (502, format!("the task 'a' failed: {says}").as_str()));
    }
    for list in ["null", "[]"] {
        assert_eq!(run(&pipeline(vec![vec![for_each("a", list, 3, 3, |_| 0)]])).await.result.unwrap(), r#"{"a":[]}"#, "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_condition_does_not_hold_is_null_and_nobody_is_asked() {
    for when in ["false", "null", "headers['x-none'] == 'a'"] {
        let asked = slow("a", 10_000);
        let running = asked.step.running.clone();
        let when = Expression::condition(when, &Names::new(Place::Proxy)).unwrap();
        let ended = run(&pipeline(vec![vec![Task { when: Some(when), ..asked }, slow("b", 10)]])).await;
        assert_eq!((ended.took, ended.result.unwrap().as_str()), (10, r#"{"a":null,"b":"b"}"#));
        assert!(ended.partial.is_empty() && running.load(Relaxed) == 0);
        assert_eq!(ended.ran[0], (0, End::Skipped("when")));
    }
}

#[tokio::test(start_paused = true)]
async fn later_tasks_see_what_earlier_ones_brought_to_the_byte() {
    let names = Names::new(Place::Proxy).tasks(&["first"], &["second"]);
    let sees = |text: &str| Expression::compile(text, &names).unwrap();
    let (value, status, header) = (sees("first.n"), sees("tasks.first.status"), sees("tasks.first.headers['x-a']"));
    let second = task("second", move |ex| {
        let scope = ex.scope();
        let text = |it: &Expression| it.eval(&scope).unwrap().to_json();
        let all = [text(&value), text(&status), text(&header)];
        (0, json(&format!("[{}]", all.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>().join(","))))
    });
    let first = task("first", |_| {
        let mut it = Response::new(Body::Full(Bytes::from_static(b"{\"n\": 1.10e2 }")));
        *it.status_mut() = http::StatusCode::CREATED;
        it.headers_mut().insert("x-a", HeaderValue::from_static("b"));
        (0, Ok(it))
    });
    let ended = run(&pipeline(vec![vec![first], vec![second]])).await;
    assert_eq!(ended.result.unwrap(), r#"{"first":{"n": 1.10e2 },"second":[1.10e2,201,"b"]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_of_ten_thousand_items_stays_within_its_concurrency() {
    thread_local!(static MOST: Cell<usize> = const { Cell::new(0) });
    let list = format!("[{}]", vec!["1"; 2000].join(","));
    let mut it = for_each("a", &list, 10_000, 8, |_| 1);
    let running = it.step.running.clone();
    let make = std::mem::replace(&mut it.step.make, Box::new(|_| (0, json("1"))));
    it.step.make = Box::new(move |ex| {
        MOST.set(MOST.get().max(running.load(Relaxed) + 1));
        make(ex)
    });
    assert_eq!(run(&pipeline(vec![vec![it]])).await.took, 250);
    assert_eq!(MOST.get(), 8);
}
