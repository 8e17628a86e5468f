//! Many APIs: loading, reloading and matching stay fast. `make scale` holds an optimized build to strict numbers.
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use contract::exchange::Captures;
use gateway::route::{
    api::At,
    table::{Ask, Found, Table},
};
use http::Method;
use tests::{
    aside::{Aside, memory},
    backend::Backend,
    folder::Folder,
    generate::{Estate, Example},
    harness::{Gateway, SILENT, fill},
    wire::{Wire, request},
};

/// What must hold.
struct Bounds {
    /// Of all that `allium check` does, the best of so many rounds.
    check: Duration,
    rounds: usize,
    /// From the write of a file to the first new answer.
    served: Duration,
    /// How many times slower than with ten APIs a request may be, and how many microseconds beyond.
    request: (f64, f64),
    /// The same of a lookup in the table alone, in nanoseconds.
    lookup: (f64, f64),
}

/// A build that nobody optimized, on a machine that does other things besides: only what grows without measure fails.
const UNOPTIMIZED: Bounds =
    Bounds { check: Duration::from_secs(40), rounds: 1, served: Duration::from_secs(8), request: (2.0, 300.0), lookup: (2.0, 5000.0) };
const STRICT: Bounds =
    Bounds { check: Duration::from_secs(2), rounds: 3, served: Duration::from_secs(1), request: (1.2, 5.0), lookup: (1.3, 50.0) };

async fn estate(apis: usize, per_file: usize) -> (Gateway, Backend, Estate, Duration) {
    let backend = Backend::forgetful().await;
    let estate = Estate { apis, per_file, backend: Some(backend.address) };
    let setup = Gateway::with(&changing(0)).settings(SILENT);
    estate.write(&setup.folder().join("routes/estate")).expect("an estate");
    let begun = Instant::now();
    let gateway = setup.start().await;
    (gateway, backend, estate, begun.elapsed())
}

/// The file that changes.
fn changing(n: usize) -> String {
    fill("kind: Api\ninfo: {name: new, version: v1}\ninbound: {match: /new}\nproxy: {respond: {status: 200, body: {n: $1}}}\n", &[&n])
}

fn bytes(it: &Example) -> Vec<u8> {
    let host = format!("host: {}", it.host.as_deref().unwrap_or("any.test"));
    request(&format!("{} {}", it.method, it.target), &[&host], "")
}

/// Every so many-th Api answers its example.
async fn serves(gateway: &Gateway, estate: &Estate, step: usize) {
    let mut wire = gateway.wire().await;
    for n in (0..estate.apis).step_by(step) {
        let it = estate.example(n);
        wire.send(bytes(&it)).await;
        let answer = wire.answer_to(it.method).await;
        assert_eq!(answer.status, 200, "{it:?}: {}", answer.text());
    }
}

/// From the write of a file to the first answer that is new; and what the gateway itself says that it took.
async fn change(gateway: &Gateway, n: usize) -> (Duration, u64) {
    let ask = request("GET /new", &[], "");
    let mut wire = gateway.wire().await;
    let begun = Instant::now();
    gateway.folder.write("routes/api.yaml", &changing(n));
    loop {
        wire.send(&ask).await;
        if wire.answer().await.is(200).json()["n"] == n {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = begun.elapsed();
    // What is served is told a moment later.
    tokio::time::sleep(Duration::from_millis(200)).await;
    (took, gateway.report().await["reload_ms"].as_u64().expect("a number"))
}

/// From the write of a Preset that every Api uses, so that every route is built again, to the first answer that shows it.
async fn change_of_all(gateway: &Gateway, n: usize) -> Duration {
    let ask = request("GET /new", &[], "");
    let mut wire = gateway.wire().await;
    let begun = Instant::now();
    let text = "kind: Preset\nname: default\nplugins: [{headers: {response: {set: {x-all: \"$1\"}}}}]\n";
    gateway.folder.write("routes/default.yaml", &fill(text, &[&n]));
    loop {
        wire.send(&ask).await;
        if wire.answer().await.is(200).header("x-all") == Some(&n.to_string()) {
            return begun.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Microseconds a request, the best of many short rounds, taken in turns: the same Api that answers by itself.
async fn pace(few: &Gateway, many: &Gateway, estate: &Estate) -> (f64, f64) {
    let bytes = bytes(&estate.example(7));
    let mut wires = [Wire::open(few.address).await, Wire::open(many.address).await];
    let mut best = [f64::MAX; 2];
    // Fewer than a connection may ask.
    for _ in 0..30 {
        for (wire, best) in wires.iter_mut().zip(&mut best) {
            let begun = Instant::now();
            for _ in 0..30 {
                wire.send(&bytes).await;
                wire.answer_to("POST").await.is(200);
            }
            *best = best.min(begun.elapsed().as_secs_f64() * 1e6 / 30.0);
        }
    }
    (best[0], best[1])
}

/// Nanoseconds a lookup, the best of many rounds.
fn lookups(table: &Table<At>, examples: &[Example]) -> f64 {
    let asked: Vec<(Method, &str, &str)> =
        examples.iter().map(|it| (it.method.parse().expect("a method"), it.host.as_deref().unwrap_or("any.test"), &*it.target)).collect();
    let mut captures = Captures::default();
    let times = 2000_usize.div_ceil(asked.len());
    let mut best = f64::MAX;
    for _ in 0..50 {
        let begun = Instant::now();
        for _ in 0..times {
            for (method, host, path) in &asked {
                let ask = Ask { method, preflight: None, host, path };
                assert!(matches!(black_box(table.find(black_box(&ask), &mut captures, |_, _| true)), Found::Route { .. }), "{path}");
            }
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e9 / (times * asked.len()) as f64);
    }
    best
}

/// What `allium check` does, without a gateway; and the table that comes of it, asked alone.
fn aside(bounds: &Bounds) {
    let mut tables = Vec::new();
    for apis in [10, 10_000] {
        let folder = Folder::new();
        let estate = Estate { apis, per_file: 1, backend: None };
        estate.write(folder.path()).expect("an estate");
        let mut best = None;
        for _ in 0..bounds.rounds {
            let aside = Aside::new(folder.path());
            let (outcome, spent) = aside.check(folder.path(), None);
            let snapshot = outcome.snapshot.unwrap_or_else(|| panic!("{:?}", outcome.faults.first()));
            if best.as_ref().is_none_or(|(best, _): &(tests::aside::Spent, _)| spent.all() < best.all()) {
                best = Some((spent, snapshot.served));
            }
        }
        let (spent, served) = best.expect("a round");
        println!("{apis} APIs: checked in {:?} ({spent:?})", spent.all());
        assert!(spent.all() < bounds.check, "{apis} APIs: {spent:?}");
        tables.push((served, estate));
    }
    // The same ten APIs, among ten and among ten thousand.
    let ten: Vec<Example> = (0..10).map(|n| tables[0].1.example(n)).collect();
    let (few, many) = (lookups(&tables[0].0.table, &ten), lookups(&tables[1].0.table, &ten));
    let all: Vec<Example> = (0..10_000).map(|n| tables[1].1.example(n)).collect();
    let spread = lookups(&tables[1].0.table, &all);
    println!("a lookup: {few:.0} ns among 10 APIs, {many:.0} ns among 10 000; {spread:.0} ns where each asks for another of them");
    let (times, more) = bounds.lookup;
    assert!(many < few * times + more, "{many:.0} ns against {few:.0}");
}

async fn ten_thousand(bounds: &Bounds) {
    #[expect(clippy::disallowed_methods, reason = "a test on several threads, and no worker among them")]
    tokio::task::block_in_place(|| aside(bounds));
    let (small, _one, _, _) = estate(10, 1).await;
    let (gateway, _two, estate, start) = estate(10_000, 1).await;
    println!("10 000 APIs: started in {start:?}");
    serves(&gateway, &estate, 101).await;
    let mut changes = Vec::new();
    for n in 1..=5 {
        changes.push(change(&gateway, n).await);
    }
    let (few, many) = pace(&small, &gateway, &estate).await;
    println!("10 000 APIs: a changed file is served after {changes:?} (and by the gateway's own account, in ms)");
    println!("10 000 APIs: {many:.1} µs a request against {few:.1} with ten");
    println!("10 000 APIs: a Preset that all of them use is served after {:?}", change_of_all(&gateway, 1).await);
    serves(&gateway, &estate, 101).await;
    let worst = changes.iter().map(|it| it.0).max().expect("a change");
    assert!(worst < bounds.served, "{changes:?}");
    let (times, more) = bounds.request;
    assert!(many < few * times + more, "{many:.1} µs against {few:.1}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_apis_load_and_a_change_is_served_soon() {
    ten_thousand(&UNOPTIMIZED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "strict numbers, for an optimized build: make scale"]
async fn ten_thousand_apis_check_in_two_seconds_reload_in_one_and_match_as_fast_as_ten() {
    ten_thousand(&STRICT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and a gigabyte: make scale"]
async fn a_hundred_thousand_apis_load_and_serve() {
    let before = memory();
    let (gateway, _backend, estate, start) = estate(100_000, 100).await;
    let held = memory() - before;
    serves(&gateway, &estate, 997).await;
    let (served, own) = change(&gateway, 1).await;
    println!(
        "100 000 APIs: started in {start:?}, {} MiB of memory, {} after a change that was served in {served:?} ({own} ms)",
        held >> 20,
        (memory() - before) >> 20
    );
    assert!(start < Duration::from_secs(60), "{start:?}");
    assert!(held < 2 << 30, "{held} bytes");
}
