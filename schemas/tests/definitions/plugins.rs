//! Plugin configs by their schemas.

use schemas::{Schema, yaml};
use serde_json::{Value, json};

fn check(schema: Value, config: &str, expected: &[&str]) {
    let span = schemas::Span::new(0, config.len());
    let node = yaml::read(config, span).root.unwrap();
    let mut told: Vec<String> = Schema::new(schema)
        .findings(config, &node)
        .iter()
        .map(|finding| {
            let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
            format!("{} {}: {}{help}", finding.code, finding.pointer, finding.message)
        })
        .collect();
    told.sort();
    assert_eq!(told, expected, "{config}");
}

#[test]
fn every_fault_of_an_object_is_told() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["b", "d"],
        "properties": {"b": {"type": "integer", "minimum": 1, "format": "uint8"}, "ttl": {"type": "string", "format": "duration"}, "d": {"type": "string", "pattern": "^a+$"}},
    });
    check(
        schema.clone(),
        "{b: 0, tll: 1, ttl: 5}",
        &[
            "bad-unit /ttl: a duration needs its unit: `5` of what? (write `5ms`, `5s`, `5m`, `5h` or `5d`)",
            "missing-key : the key `d` is missing",
            "out-of-range /b: must be at least 1, not 0",
            "unknown-key /tll: the key `tll` is not known here (did you mean `ttl`?)",
        ],
    );
    check(
        schema.clone(),
        "{b: 256, d: b}",
        &["bad-value /d: `b` does not match `^a+$`", "out-of-range /b: must be a whole number of 8 bits, not 256"],
    );
    check(
        schema,
        "{b: 1.5, d: 3}",
        &[
            "wrong-type /b: expected a whole number, found a number",
            "wrong-type /d: expected a text, found a number (write \"3\", in quotes)",
        ],
    );
}

#[test]
fn of_a_union_the_branch_that_was_meant_is_told() {
    let schema = json!({"oneOf": [
        {"type": "string", "const": "exact"},
        {"type": "object", "required": ["every"], "additionalProperties": false, "properties": {"every": {"type": "object", "additionalProperties": false, "properties": {"batch": {"type": "integer"}}}}},
    ]});
    check(schema.clone(), "exact", &[]);
    check(schema.clone(), "exakt", &["bad-word : `exakt` is not `exact` (did you mean `exact`?)"]);
    check(schema.clone(), "{every: {batch: x}}", &["wrong-type /every/batch: expected a whole number, found a text"]);
    check(schema.clone(), "{evry: {}}", &["unknown-key /evry: `evry` is not one of `every` (did you mean `every`?)"]);
    check(schema, "[a]", &["wrong-type : expected a text or a map, found a list"]);
}

#[test]
fn a_tagged_branch_is_told_by_its_tag() {
    let branch = |tag: &str, key: &str| json!({"type": "object", "required": ["as", key], "properties": {"as": {"const": tag}, key: {"type": "integer"}}});
    let schema = json!({"anyOf": [branch("mask", "keep"), branch("hash", "salt")]});
    check(schema.clone(), "{as: hash, salt: x}", &["wrong-type /salt: expected a whole number, found a text"]);
    check(schema, "{as: mask}", &["missing-key : the key `keep` is missing"]);
}

#[test]
fn references_and_flattened_keys_are_followed() {
    let schema = json!({
        "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "allOf": [{"$ref": "#/$defs/B"}], "unevaluatedProperties": false,
        "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "additionalProperties": false}, "B": {"properties": {"b": {"type": "boolean"}}}},
    });
    check(schema.clone(), "{a: {a: {a: {}}}, b: true}", &[]);
    check(
        schema,
        "{a: {a: {x: 1}}, b: yes, c: 1}",
        &[
            "unknown-key /a/a/x: the key `x` is not known here (the keys here are `a`)",
            "unknown-key /c: the key `c` is not known here (the keys here are `a` or `b`)",
            "wrong-type /b: expected true or false, found a text (write `true`)",
        ],
    );
}

#[test]
fn lists_are_checked_item_by_item() {
    let schema =
        json!({"type": "array", "minItems": 1, "uniqueItems": true, "prefixItems": [{"type": "string"}], "items": {"enum": [1, 2]}});
    check(schema.clone(), "[]", &["empty : the list may not be empty"]);
    check(schema.clone(), "[a, 1, 2]", &[]);
    check(schema, "[a, 1, 3, 1]", &["bad-word /2: `3` is not one of `1` or `2`", "repeated-value /3: this stands twice in the list"]);
}
