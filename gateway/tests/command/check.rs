//! `allium check` and `allium run`: every fault at once, and what each exit code says.
use serde_json::Value;

use crate::bench::{Bench, UPSTREAM, api, project};

const BROKEN: &str = "kind: Api\ninfo: {name: broken}\ninbound: {match: GET /b}\nproxy: {http: {upstream: orders}, timeot: 1s}\n";

fn good() -> Bench {
    Bench::new(&[("routes/upstreams.yaml", UPSTREAM), ("routes/a.yaml", &api("a", "GET /a"))])
}

#[test]
fn good_definitions_end_well_and_are_counted() {
    let it = good().check(&["check"], 0);
    assert_eq!((it.out.as_str(), it.err.as_str()), ("", "checked 2 files, 2 documents: no faults\n"));
}

#[test]
fn every_fault_of_every_file_is_told_at_once_with_its_place() {
    let bench = good();
    bench.write("routes/broken.yaml", BROKEN);
    bench.write("routes/late.yaml", &format!("{}---\n{}", api("c", "GET /a"), api("d", "GET /d").replace("orders", "ordrs")));
    let it = bench.check(&["check"], 1);
    let heads: Vec<&str> = it.err.lines().filter(|it| it.contains("error[")).collect();
    assert_eq!(heads.len(), 3, "{}", it.err);
    assert!(heads[0].starts_with("routes/broken.yaml:4:35: error[unknown-key]"), "{heads:?}");
    assert!(heads[1].starts_with("routes/late.yaml:6:10: error[route-conflict]"), "{heads:?}");
    assert!(heads[2].starts_with("routes/late.yaml:17:20: error[unknown-reference]"), "{heads:?}");
    assert!(it.err.contains("did you mean `timeout`?") && it.err.contains("did you mean 'orders'?"), "{}", it.err);
    assert!(it.err.contains("                                  ^^^^^^\n"), "{}", it.err);
    assert!(it.err.ends_with("checked 4 files, 5 documents: 3 errors\n"), "{}", it.err);
}

#[test]
fn faults_of_settings_and_of_definitions_are_told_together_settings_first() {
    let bench = Bench::new(&[("allium.yaml", "definitions: {dir: apis}\nworkrs: 2\n"), ("apis/b.yaml", BROKEN), ("apis/u.yaml", UPSTREAM)]);
    let it = bench.check(&["check"], 1);
    let heads: Vec<&str> = it.err.lines().filter(|it| it.contains("error[")).collect();
    assert_eq!(heads.len(), 2, "{}", it.err);
    assert!(heads[0].starts_with("allium.yaml:2:1: error[") && heads[1].starts_with("apis/b.yaml:4:35: error["), "{heads:?}");
}

/// One document with faults that only reading finds and faults that only compiling finds.
#[test]
fn faults_that_lie_deeper_are_told_with_the_first_ones() {
    let definition = r#"kind: Api
info: {name: a, timeout: 3}
inbound:
  match: GET /a/{id}
  params: {q: {in: query, type: integer}}
plugins:
  - ip-acl: {allow: [10.0.0.0/8, nowhere]}
  - use: public
proxy:
  http: {upstream: ordrs, path: "/x/${path.id}/${path.nope}/${query.w}"}
  timeout: 5
outbound:
  headers: {set: {x: "${pth.id}"}}
---
kind: Upstream
name: orders
nodes: [{address: 10.0.0.1}]
timeout: 5
---
kind: Api
info: {name: b, nam: c}
inbound: {match: GET /a/{id}}
proxy: {http: {upstream: orders}}
"#;
    let bench = Bench::new(&[("routes/a.yaml", &definition.replace("GET /a/{id}}", "\"GET /a/{other}\"}"))]);
    let it = bench.check(&["check"], 1);
    let heads: Vec<String> =
        it.err.lines().filter(|it| it.contains("error[")).map(|it| it.trim_start_matches("routes/a.yaml:").to_owned()).collect();
    for (place, code) in [
        ("2:17:", "unknown-key"),
        ("7:34:", "bad-config"),
        ("8:10:", "unknown-reference"),
        ("10:20:", "unknown-reference"),
        ("10:55:", "bad-expression"),
        ("11:12:", "bad-unit"),
        ("13:25:", "bad-expression"),
        ("17:19:", "bad-address"),
        ("18:1:", "unknown-key"),
        ("21:17:", "unknown-key"),
        ("22:18:", "route-conflict"),
    ] {
        assert!(heads.iter().any(|it| it.starts_with(place) && it.contains(code)), "{place} {code} is missing of {heads:#?}");
    }
    assert_eq!(heads.len(), 11, "{heads:#?}");
}

#[test]
fn names_that_a_fault_may_have_taken_away_are_not_told_as_missing() {
    for (declared, used) in [
        ("parms: {q: {in: query}}", "${query.q}"),
        ("params: {q: {in: query, typ: string}}", "${query.q}"),
        ("params: {q: {in: qury}}", "${query.q}"),
    ] {
        let definition = format!(
            "kind: Api\ninfo: {{name: a}}\ninbound: {{match: /a, {declared}}}\nproxy: {{respond: {{status: 200, headers: {{x: \"{used}\"}}}}}}\n"
        );
        let it = Bench::new(&[("routes/a.yaml", &definition)]).check(&["check"], 1);
        assert_eq!(it.err.matches("error[").count(), 1, "{}", it.err);
    }
}

#[test]
fn what_follows_from_a_fault_is_not_told() {
    let bench = Bench::new(&[
        (
            "routes/u.yaml",
            "kind: Upstream\nname: orders\nnodes: 7\n---\nkind: Preset\nname: p\nplugins: 7\n---\nkind: Plan\nname: gold\nrate: 7\n",
        ),
        ("routes/a.yaml", &api("a", "GET /a").replace("proxy:", "plugins: [{use: p}]\nproxy:")),
        ("routes/b.yaml", "kind: App\nname: b\nplan: gold\n"),
        ("routes/unused.yaml", "kind: Upstream\nname: unused\nnodes: [{address: \"127.0.0.1:1\"}]\n"),
    ]);
    let it = bench.check(&["check"], 1);
    assert_eq!(it.err.matches("error[").count(), 3, "{}", it.err);
    assert!(it.err.ends_with(": 3 errors\n"), "{}", it.err);
}

#[test]
fn a_warning_is_a_fault_only_with_strict() {
    let bench = good();
    bench.write("routes/unused.yaml", "kind: Upstream\nname: unused\nnodes: [{address: \"127.0.0.1:1\"}]\n");
    let it = bench.check(&["check"], 0);
    assert!(it.err.contains("warning[unused]") && it.err.ends_with("checked 3 files, 3 documents: 1 warning\n"), "{}", it.err);
    bench.check(&["check", "--strict"], 1);
    let it = bench.check(&["run", "--strict"], 1);
    assert!(it.err.contains("warning[unused]"), "{}", it.err);
}

#[test]
fn json_is_a_list_of_faults_on_standard_output() {
    let bench = good();
    bench.write("routes/broken.yaml", BROKEN);
    let it = bench.check(&["check", "--format", "json"], 1);
    assert_eq!(it.err, "");
    let faults: Value = serde_json::from_str(&it.out).unwrap();
    let first = faults[0].as_object().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["file", "line", "column", "code", "severity", "message", "help"]);
    assert_eq!((first["file"].as_str(), first["line"].as_u64(), first["column"].as_u64()), (Some("routes/broken.yaml"), Some(4), Some(35)));
    let none: Value = serde_json::from_str(&good().check(&["check", "--format", "json"], 0).out).unwrap();
    assert_eq!(none.as_array().map(Vec::len), Some(0));
}

#[test]
fn sarif_names_its_rules_and_places() {
    let bench = good();
    bench.write("routes/broken.yaml", BROKEN);
    let it = bench.check(&["check", "--format", "sarif"], 1);
    let log: Value = serde_json::from_str(&it.out).unwrap();
    let run = &log["runs"][0];
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(run["results"][0]["ruleId"], "unknown-key");
    assert_eq!(run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"], 4);
    assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "unknown-key");
}

#[test]
fn secrets_are_looked_up_only_where_they_are() {
    let bench = Bench::new(&[
        ("allium.yaml", "secrets: {env: [ACME_*]}\n"),
        (
            "routes/a.yaml",
            "kind: Api\ninfo: {name: a}\ninbound: {match: GET /a}\nproxy:\n  http: {upstream: \"http://127.0.0.1:9001\"}\n  send: {headers: {x-key: \"${secret('ACME_KEY')}\"}}\n",
        ),
    ]);
    let it = bench.check(&["check"], 1);
    assert!(it.err.contains("ACME_KEY") && it.err.contains("not set"), "{}", it.err);
    bench.check(&["check", "--without-secrets"], 0);
    let mut command = bench.command(&["check"]);
    command.env("ACME_KEY", "hunter2");
    let it = crate::bench::ended(command);
    assert!(it.code == 0 && !it.err.contains("hunter2"), "{it:?}");
}

#[test]
fn a_file_of_the_settings_definitions_is_checked_among_the_others() {
    let bench = good();
    bench.write("routes/broken.yaml", BROKEN);
    let it = bench.check(&["check", "routes/a.yaml"], 0);
    assert_eq!(it.err, "checked 1 file, 1 document: no faults\n");
    bench.check(&["check", "routes/a.yaml", "routes/broken.yaml"], 1);
    // Elsewhere it stands alone.
    bench.write("elsewhere/a.yaml", &api("a", "GET /a"));
    assert!(bench.check(&["check", "elsewhere/a.yaml"], 1).err.contains("there is no Upstream named 'orders'"));
}

#[test]
fn files_that_definitions_name_are_none_themselves_however_the_folder_is_named() {
    let bench = Bench::new(&[
        ("routes/a.yaml", &api("a", "GET /a")),
        ("routes/u.yaml", UPSTREAM),
        ("routes/schema.json", "{\"type\": \"object\"}"),
    ]);
    bench.write("routes/a.yaml", &api("a", "GET /a").replace("proxy:", "outbound:\n  schema: {file: routes/schema.json}\nproxy:"));
    let whole = bench.0.join("routes").display().to_string();
    for path in ["routes", "./routes", "routes/../routes", &whole] {
        bench.check(&["check", path], 0);
    }
}

#[test]
fn an_empty_folder_is_said_to_be_empty() {
    let bench = Bench::new(&[("routes/notes.txt", "x")]);
    let it = bench.check(&["check"], 0);
    assert!(it.err.contains("warning[no-definitions]") && it.err.contains("checked 0 files"), "{}", it.err);
    bench.check(&["check", "--strict"], 1);
    bench.check(&["routes"], 0);
}

#[test]
fn what_cannot_be_read_ends_with_3() {
    let bench = good();
    let long = "x".repeat(300);
    for arguments in [
        &["check", "nowhere"][..],
        &["check", &long],
        &["check", "-c", "nowhere.yaml"],
        &["run", "-c", "nowhere.yaml"],
        &["routes", "nowhere"],
        &["routes", "-c", "nowhere.yaml"],
        &["explain", "a", "nowhere"],
        &["fmt", "nowhere"],
        &["diff", "routes", "nowhere"],
        &["convert", "nowhere.yaml", "a.json"],
        &["convert", "routes", "nowhere/a.json"],
    ] {
        let it = bench.check(arguments, 3);
        assert!(it.err.contains("nowhere") || it.err.contains("xxx"), "{arguments:?}: {it:?}");
    }
}

#[test]
fn a_folder_without_permission_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let bench = good();
    bench.write("routes/closed/a.yaml", &api("b", "GET /b"));
    let closed = bench.0.join("routes/closed");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    // The superuser reads everything.
    let may = std::fs::read_dir(&closed).is_ok();
    let it = bench.run(&["check"]);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(it.code, if may { 0 } else { 3 }, "{it:?}");
    assert!(may || it.err.contains("routes/closed"), "{it:?}");
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    let bench = good();
    for arguments in
        [&["chek"][..], &["check", "--format", "xml"], &["explain"], &["diff", "a"], &["convert", "a.txt", "b.yaml"], &["diff", "-", "-"]]
    {
        bench.check(arguments, 2);
    }
}

#[test]
fn a_gateway_does_not_start_with_faults() {
    let bench = good();
    bench.write("allium.yaml", "listen: [{address: \"127.0.0.1:0\"}]\nadmin: {address: \"127.0.0.1:0\"}\n");
    bench.write("routes/broken.yaml", BROKEN);
    assert!(bench.check(&["run"], 1).err.contains("routes/broken.yaml:4:35"));
    bench.write("allium.yaml", "workrs: 1\n");
    assert!(bench.check(&["run"], 1).err.contains("allium.yaml:1:1"));
}

#[test]
fn the_demo_has_no_fault_and_no_warning() {
    let bench = Bench::new(&[]);
    let config = project().join("allium.yaml").display().to_string();
    bench.check(&["check", "--strict", "-c", &config], 0);
}
