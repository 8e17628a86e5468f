//! `allium routes`: the table in the order of precedence.
use serde_json::Value;

use crate::bench::{Bench, UPSTREAM, api};

fn bench() -> Bench {
    let conditional = |name: &str, order: &str| {
        api(name, "GET /when").replace("  match: GET /when\n", &format!("  match: GET /when\n  when: \"query.a == '{name}'\"\n{order}"))
    };
    let all = [
        api("rest", "GET /a/{rest...}"),
        api("capture", "GET /a/{id}"),
        api("literal", "GET /a/b"),
        api("any", "/a/b"),
        api("deeper", "GET /a/{id}/c"),
        api("below", "GET \"*.example.com/z\"").replace("GET \"*.example.com/z\"", "\"GET *.example.com/z\""),
        api("further", "x").replace("match: x", "match: \"GET *.eu.example.com/z\""),
        api("exact", "GET,PUT www.example.com/z"),
        api("plain", "GET /when"),
        conditional("second", "  order: 2\n"),
        conditional("first", "  order: 1\n"),
        api("old", "GET /old").replace("  version: v1\n", "  version: v1\n  lifecycle: {state: retired}\n"),
    ];
    Bench::new(&[("routes/all.yaml", &all.join("---\n")), ("routes/u.yaml", UPSTREAM)])
}

#[test]
fn routes_stand_in_the_order_of_precedence() {
    let it = bench().check(&["routes"], 0);
    let names: Vec<&str> = it.out.lines().skip(1).map(|it| it.split_whitespace().nth(3).unwrap()).collect();
    assert_eq!(
        names,
        ["exact", "further", "below", "literal", "any", "capture", "deeper", "rest", "old", "first", "second", "plain"],
        "{}",
        it.out
    );
    let lines: Vec<&str> = it.out.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["METHODS", "HOST", "PATH", "API", "VERSION", "STATE", "TARGET", "WHEN"]);
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["GET,PUT", "www.example.com", "/z", "exact", "v1", "active", "http", "orders"]
    );
    assert!(lines[10].ends_with("[order 1] query.a == 'first'"), "{}", it.out);
    assert!(lines[5].starts_with("* ") && lines[9].contains("retired"), "{}", it.out);
}

#[test]
fn programs_get_a_list() {
    let it = bench().check(&["routes", "--format", "json"], 0);
    let all: Value = serde_json::from_str(&it.out).unwrap();
    assert_eq!(all.as_array().map(Vec::len), Some(12));
    assert_eq!(
        (&all[0]["api"], &all[0]["methods"][1], &all[0]["file"], &all[0]["line"]),
        (&"exact".into(), &"PUT".into(), &"routes/all.yaml".into(), &69.into())
    );
    assert_eq!((&all[9]["when"], &all[9]["order"]), (&"query.a == 'first'".into(), &1.into()));
}

#[test]
fn a_route_with_faults_is_marked_and_the_end_says_so() {
    let bench = bench();
    bench.write("routes/bad.yaml", &api("bad", "GET /bad").replace("orders", "other"));
    let it = bench.check(&["routes"], 1);
    assert!(it.out.lines().any(|it| it.contains(" bad ") && it.contains(" faulty ")), "{}", it.out);
    assert!(it.err.contains("1 error in these definitions"), "{}", it.err);
}
