//! Measures the route table: how long it takes to build, and what a lookup costs, for tables of many sizes.
//!
//! `cargo run --release -p gateway --example routing`
use std::{hint::black_box, time::Instant};

use gateway::route::{
    build::Entry,
    pattern::Pattern,
    table::{Ask, Found, Table},
};
use http::Method;

const LOOKUPS: usize = 2_000_000;

fn main() {
    println!(
        "{:>8} {:>10} {:>10}   {:>8} {:>8} {:>8} {:>8} {:>8}",
        "routes", "parse", "build", "fixed", "captures", "spread", "rest", "404"
    );
    for size in [10, 100, 1_000, 10_000, 100_000] {
        let texts: Vec<String> = (0..size).map(pattern).collect();
        let started = Instant::now();
        let patterns: Vec<Pattern> = texts.iter().map(|it| Pattern::parse(it).expect("a generated pattern parses")).collect();
        let parsed = started.elapsed();
        let entries =
            patterns.into_iter().enumerate().map(|(value, pattern)| Entry { pattern, has_when: false, order: 0.0, value }).collect();
        let started = Instant::now();
        let table = Table::build(entries).unwrap_or_else(|it| panic!("{it:?}"));
        let built = started.elapsed();

        let one = |index: usize, captured: &str| vec![request(index, captured)];
        let fixed = measure(&table, &one(size / 2 / 4 * 4, ""));
        let captures = measure(&table, &one(size / 2 / 4 * 4 + 1, "8f14e45f"));
        let rest = measure(&table, &one(size / 2 / 4 * 4 + 3, "x/y/z.png"));
        let missed = measure(&table, &[("api.example.com".into(), "/v1/team-3/none/such/path".into())]);
        // Requests to all routes in turn in no order: what the caches of the processor hold decides.
        let mut spread: Vec<_> = (0..size).map(|it| request(it * 7919 % size, "8f14e45f")).collect();
        spread.truncate(20_000);
        let spread = measure(&table, &spread);
        println!("{size:>8} {parsed:>10.1?} {built:>10.1?}   {fixed:>8.1} {captures:>8.1} {spread:>8.1} {rest:>8.1} {missed:>8.1}  ns");
    }
}

/// Four kinds of routes, as a company has them: fixed, one capture, two captures on an own host, and everything below.
fn pattern(index: usize) -> String {
    let (team, thing) = (index / 40, index / 4);
    match index % 4 {
        0 => format!("GET api.example.com/v1/team-{team}/things-{thing}/list"),
        1 => format!("GET,POST api.example.com/v1/team-{team}/things-{thing}/{{id}}/details"),
        2 => format!("team-{team}.example.com/things-{thing}/{{id}}/parts/{{part}}"),
        _ => format!("GET /files/team-{team}/things-{thing}/{{rest...}}"),
    }
}

fn request(index: usize, captured: &str) -> (String, String) {
    let (team, thing) = (index / 40, index / 4);
    match index % 4 {
        0 => ("api.example.com".into(), format!("/v1/team-{team}/things-{thing}/list")),
        1 => ("api.example.com".into(), format!("/v1/team-{team}/things-{thing}/{captured}/details")),
        2 => (format!("team-{team}.example.com"), format!("/things-{thing}/{captured}/parts/7")),
        _ => ("files.example.com:8080".into(), format!("/files/team-{team}/things-{thing}/{captured}")),
    }
}

/// Nanoseconds a lookup, the best of five rounds.
fn measure(table: &Table<usize>, requests: &[(String, String)]) -> f64 {
    let mut captures = Vec::with_capacity(8);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let mut at = 0;
        for _ in 0..LOOKUPS / 5 {
            let (host, path) = &requests[at];
            at = if at + 1 == requests.len() { 0 } else { at + 1 };
            let ask = Ask { method: &Method::GET, preflight: None, host, path };
            let found = table.find(black_box(&ask), &mut captures, |_, _| true);
            black_box(matches!(found, Found::Route { .. }));
        }
        best = best.min(started.elapsed().as_secs_f64() * 1e9 / (LOOKUPS / 5) as f64);
    }
    best
}
