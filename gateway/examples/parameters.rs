//! Measures declared parameters: what compiling them costs, and what reading them from a request does.
//!
//! `cargo run --release -p gateway --example parameters`
use std::{hint::black_box, time::Instant};

use gateway::params::{Form, Given, Params};
use serde_json::{Value, json};

fn main() {
    for (what, written, target) in [
        ("one path text", json!({"id": {"in": "path"}}), "/customers/8f14e45f"),
        ("one path integer", json!({"id": {"in": "path", "type": "integer"}}), "/customers/812345"),
        ("one path integer, minimum", json!({"id": {"in": "path", "type": "integer", "minimum": 1}}), "/customers/812345"),
        ("one path text, pattern", json!({"id": {"in": "path", "pattern": "^[a-z0-9-]+$"}}), "/customers/8f14e45f"),
        (
            "id, list of enum, page",
            json!({
                "id": {"in": "path", "type": "integer", "minimum": 1},
                "include": {"in": "query", "type": "array", "items": {"enum": ["orders", "tickets"]}, "default": ["orders"]},
                "page": {"in": "query", "type": "integer", "minimum": 1, "maximum": 50, "default": 1},
            }),
            "/customers/812345?include=orders&include=tickets&page=3",
        ),
        (
            "the same, all wrong",
            json!({
                "id": {"in": "path", "type": "integer", "minimum": 1},
                "include": {"in": "query", "type": "array", "items": {"enum": ["orders", "tickets"]}},
                "page": {"in": "query", "type": "integer", "minimum": 1, "maximum": 50},
            }),
            "/customers/x?include=a&include=b&page=0",
        ),
    ] {
        measure(what, &written, target);
    }
}

fn measure(what: &str, written: &Value, target: &str) {
    let Value::Object(map) = written else { return };
    let names: [Box<str>; 1] = ["id".into()];
    let compile = || Params::compile(map, &[&names]).unwrap_or_else(|it| panic!("{it:?}"));
    compile();
    let started = Instant::now();
    for _ in 0..200 {
        black_box(compile());
    }
    let compiled = started.elapsed() / 200;
    let params = compile();
    let (head, ()) = http::Request::builder().uri(target).body(()).expect("a request").into_parts();
    let captures = vec![(11, head.uri.path().len() as u32)];
    let given = Given { head: &head, names: &names, captures: &captures, form: Form::Absent };
    let mut best = f64::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        for _ in 0..100_000 {
            black_box(params.coerce(black_box(&given)));
        }
        best = best.min(started.elapsed().as_secs_f64() * 1e9 / 100_000.0);
    }
    println!("{what:<28} compile {compiled:>9.1?}   request {best:>7.0} ns");
}
