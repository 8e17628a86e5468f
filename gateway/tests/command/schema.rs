//! `allium schema`: what editors know is what the gateway takes.
use std::fs;

use schemas::yaml;
use serde_json::Value;

use crate::bench::{Bench, project};

fn committed(arguments: &[&str], file: &str) -> Value {
    let printed = Bench::new(&[]).check(arguments, 0).out;
    let path = project().join("schemas").join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &printed).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == printed, "schemas/{file} is old: run the tests with UPDATE_DOCS=1");
    serde_json::from_str(&printed).unwrap()
}

/// The documents of a YAML text, as JSON.
fn documents(text: &str) -> Vec<Value> {
    let read = |span| yaml::read(text, span).root.unwrap().to_json();
    yaml::documents(text).into_iter().map(|it| serde_json::from_str(&read(it)).unwrap()).collect()
}

#[test]
fn the_committed_schema_of_definitions_is_the_printed_one_and_takes_every_example() {
    let schema = jsonschema::validator_for(&committed(&["schema"], "allium.schema.json")).unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(project().join("routes/demo")).unwrap() {
        let path = entry.unwrap().path();
        for document in documents(&fs::read_to_string(&path).unwrap()) {
            let faults: Vec<String> = schema.iter_errors(&document).map(|it| format!("{}: {it}", it.instance_path())).collect();
            assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
    for wrong in [
        "kind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy: {respond: {}, timeot: 1s}\n",
        "kind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy: {respond: {}}\nplugins: [{cros: {}}]\n",
        "kind: Api\ninfo: {name: a}\ninbound: {match: /a}\nproxy: {respond: {}}\nplugins: [{cors: {origins: 7}}]\n",
        "kind: Upstream\nname: a\nnodes: [{address: \"a:1\"}]\ntimeouts: {connect: 5}\n",
        "kind: Nothing\n",
        "name: a\n",
    ] {
        assert!(!schema.is_valid(&documents(wrong)[0]), "{wrong}");
    }
}

#[test]
fn the_committed_schema_of_settings_is_the_printed_one_and_takes_the_demos() {
    let schema = jsonschema::validator_for(&committed(&["schema", "--settings"], "settings.schema.json")).unwrap();
    let text = fs::read_to_string(project().join("allium.yaml")).unwrap();
    assert!(schema.is_valid(&documents(&text)[0]));
    assert!(!schema.is_valid(&documents("workrs: 1\n")[0]));
}
