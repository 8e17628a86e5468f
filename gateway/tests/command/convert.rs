//! `allium fmt`, `diff` and `convert`: the same meaning in another shape.
use std::{fs, os::unix::ffi::OsStringExt, os::unix::fs::symlink};

use serde_json::Value;

use crate::bench::{Bench, UPSTREAM, api, project};

const UGLY: &str = "kind: Upstream\nname:   orders   # here\nnodes:\n      - {address: \"127.0.0.1:9001\"}   \n\n\n";

#[test]
fn fmt_lays_out_once_and_then_finds_nothing_to_do() {
    let bench = Bench::new(&[("routes/u.yaml", UGLY), ("routes/a.yaml", &api("a", "GET /a"))]);
    let it = bench.check(&["fmt", "--check"], 1);
    assert_eq!((it.out.as_str(), bench.read("routes/u.yaml").as_str()), ("routes/u.yaml\n", UGLY));
    let it = bench.check(&["fmt"], 0);
    assert_eq!(it.out, "routes/u.yaml\n");
    let once = bench.read("routes/u.yaml");
    assert!(once.contains("# here") && once != UGLY && once.ends_with("}\n"), "{once}");
    assert_eq!(bench.check(&["fmt"], 0).out, "");
    bench.check(&["fmt", "--check"], 0);
    assert_eq!(bench.read("routes/u.yaml"), once);
    assert_eq!(bench.feed(&["fmt", "-"], UGLY.as_bytes()).out, once);
    assert_eq!(bench.feed(&["fmt", "-", "--check"], UGLY.as_bytes()).code, 1);
    assert!(fs::read_dir(bench.0.join("routes")).unwrap().count() == 2, "nothing is left behind");
}

#[test]
fn fmt_leaves_alone_what_it_cannot_understand_and_what_defines_nothing() {
    let bench =
        Bench::new(&[("routes/broken.yaml", "kind: [\n"), ("routes/schema.json", "{\"type\":\"object\"}"), ("routes/u.yaml", UGLY)]);
    let it = bench.check(&["fmt"], 1);
    assert!(it.err.contains("routes/broken.yaml:"), "{it:?}");
    assert_eq!(
        (bench.read("routes/broken.yaml").as_str(), bench.read("routes/schema.json").as_str()),
        ("kind: [\n", "{\"type\":\"object\"}")
    );
    assert_ne!(bench.read("routes/u.yaml"), UGLY);
}

#[test]
fn fmt_writes_what_a_link_leads_to_and_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(&[("real/u.yaml", UGLY)]);
    fs::create_dir(bench.0.join("routes")).unwrap();
    symlink("../real/u.yaml", bench.0.join("routes/u.yaml")).unwrap();
    fs::set_permissions(bench.0.join("real/u.yaml"), PermissionsExt::from_mode(0o640)).unwrap();
    bench.check(&["fmt"], 0);
    assert!(bench.0.join("routes/u.yaml").is_symlink());
    assert_ne!(bench.read("real/u.yaml"), UGLY);
    assert_eq!(fs::metadata(bench.0.join("real/u.yaml")).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn names_that_are_no_text_are_read_and_written_all_the_same() {
    let bench = Bench::new(&[]);
    let name = std::ffi::OsString::from_vec(b"\xff\xfe.yaml".to_vec());
    if fs::write(bench.0.join(&name), UGLY).is_err() {
        // This file system takes text only.
        return;
    }
    bench.write("a.yaml", &api("a", "GET /a"));
    bench.check(&["check", "."], 0);
    bench.check(&["fmt", "."], 0);
    assert_ne!(fs::read_to_string(bench.0.join(&name)).unwrap(), UGLY);
    let it = bench.run(&[std::ffi::OsStr::new("convert"), &name, std::ffi::OsStr::new("-")]);
    assert!(it.code == 0 && it.out.contains("name: orders"), "{it:?}");
}

#[test]
fn definitions_survive_every_way_of_writing() {
    let bench = Bench::new(&[]);
    let demo = project().join("routes/demo").display().to_string();
    for (from, to) in [(&*demo, "all.binpb"), ("all.binpb", "all.json"), ("all.json", "all.yaml"), ("all.yaml", "again.binpb")] {
        bench.check(&["convert", from, to], 0);
    }
    assert_eq!(fs::read(bench.0.join("all.binpb")).unwrap(), fs::read(bench.0.join("again.binpb")).unwrap());
    for it in ["all.binpb", "all.json", "all.yaml"] {
        assert_eq!(bench.check(&["diff", &demo, it], 0).out, "");
        bench.check(&["check", it], 0);
    }
    let json = bench.check(&["convert", "all.yaml", "-", "--to", "json"], 0).out;
    assert_eq!(json, bench.read("all.json"));
    assert_eq!(bench.feed(&["convert", "-", "-", "--from", "json"], json.as_bytes()).out, bench.read("all.yaml"));
}

#[test]
fn a_source_with_faults_is_not_converted() {
    let bench = Bench::new(&[("a.yaml", "kind: Upstream\nname: a\nnods: []\n"), ("b.json", "old")]);
    assert!(bench.check(&["convert", "a.yaml", "b.json"], 1).err.contains("a.yaml:3:1"));
    assert_eq!(bench.read("b.json"), "old");
}

#[test]
fn a_difference_is_one_of_meaning() {
    let bench = Bench::new(&[
        ("old.yaml", UPSTREAM),
        ("same.yaml", "# Another order, and a comment.\nnodes: [{address: \"127.0.0.1:9001\"}]\nname: orders\nkind: Upstream\n"),
        ("new/u.yaml", &UPSTREAM.replace("9001", "9002")),
        ("new/a.yaml", &api("a", "GET /a")),
        ("broken.yaml", "kind: Upstrem\n"),
    ]);
    assert_eq!(bench.check(&["diff", "old.yaml", "same.yaml"], 0).out, "");
    let it = bench.check(&["diff", "old.yaml", "new"], 1);
    assert_eq!(it.out, "+ Api a@v1\n~ Upstream orders\n    ~ /nodes/0/address: \"127.0.0.1:9001\" → \"127.0.0.1:9002\"\n");
    let it = bench.check(&["diff", "old.yaml", "new", "--format", "json"], 1);
    let changes: Value = serde_json::from_str(&it.out).unwrap();
    assert_eq!((&changes[0]["change"], &changes[0]["name"], &changes[0]["version"]), (&"added".into(), &"a".into(), &"v1".into()));
    assert_eq!(changes[1]["edits"][0]["new"], "127.0.0.1:9002");
    assert!(bench.check(&["diff", "old.yaml", "broken.yaml"], 3).err.contains("broken.yaml:1:"));
    assert_eq!(bench.feed(&["diff", "-", "old.yaml"], UPSTREAM.as_bytes()).code, 0);
}

#[test]
fn a_secret_in_plain_sight_is_shown_nowhere() {
    let app = |secret: &str| format!("kind: App\nname: acme\ncredentials: [{{api_key: {secret}}}]\n");
    let bench = Bench::new(&[("routes/a.yaml", &app("hunter2")), ("new.yaml", &app("hunter3"))]);
    for arguments in [
        &["check"][..],
        &["check", "--format", "json"],
        &["check", "--format", "sarif"],
        &["diff", "routes", "new.yaml"],
        &["diff", "routes", "new.yaml", "--format", "json"],
        &["explain", "acme"],
        &["explain", "acme", "--format", "json"],
    ] {
        let it = bench.run(arguments);
        assert!(!it.out.contains("hunter") && !it.err.contains("hunter"), "{arguments:?}: {it:#?}");
        assert!(!it.out.is_empty() || !it.err.is_empty(), "{arguments:?}");
    }
}
