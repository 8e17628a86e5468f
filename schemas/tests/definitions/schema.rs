//! The JSON Schema of the YAML, for editors.

use schemas::json_schema;
use serde_json::{Value, json};

fn references(schema: &Value, out: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                out.push(reference.clone());
            }
            map.values().for_each(|value| references(value, out));
        }
        _ => {}
    }
}

fn with_plugin() -> Value {
    let cache = json!({"$schema": "x", "title": "Config", "type": "object", "properties": {"ttl": {"$ref": "#/$defs/Ttl", "description": "How long."}}, "$defs": {"Ttl": {"type": "string"}}});
    json_schema(&[("cache", "Keeps answers.", cache)])
}

#[test]
fn every_reference_leads_somewhere() {
    let schema = with_plugin();
    let mut all = Vec::new();
    references(&schema, &mut all);
    assert!(all.contains(&"#/definitions/plugin.cache/$defs/Ttl".to_owned()));
    for reference in all {
        assert!(schema.pointer(&reference[1..]).is_some(), "{reference}");
    }
}

#[test]
fn every_key_has_a_comment_for_the_editor() {
    let schema = with_plugin();
    let mut silent = Vec::new();
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        if name != "Json" && definition.get("description").is_none() {
            silent.push(name.clone());
        }
        for (key, property) in definition.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if property.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
                silent.push(format!("{name}.{key}"));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn it_knows_words_units_defaults_unions_and_plugins() {
    let schema = with_plugin();
    let definitions = &schema["definitions"];
    assert_eq!(definitions["Balance"]["properties"]["policy"]["enum"], json!(["round_robin", "random", "least_request", "hash"]));
    assert_eq!(definitions["Balance"]["properties"]["policy"]["default"], "round_robin");
    assert_eq!(definitions["Pool"]["properties"]["max_idle"]["default"], 128);
    assert!(definitions["Call"]["properties"]["timeout"]["pattern"].is_string());
    assert_eq!(definitions["Call"]["oneOf"].as_array().unwrap().len(), 8);
    assert_eq!(definitions["Call"]["additionalProperties"], false);
    assert!(definitions["Task"]["properties"].get("http").is_some() && definitions["Task"]["properties"].get("pipeline").is_none());
    assert!(definitions["Task"]["properties"].get("name").is_none(), "the label is the key");
    assert!(definitions["Ring"]["properties"].get("cache").is_some());
    assert_eq!(definitions["plugin.cache"]["description"], "Keeps answers.");
    assert_eq!(definitions["Api"]["required"], json!(["info", "inbound", "proxy"]));
}

#[test]
fn every_example_fits_the_schema_and_a_wrong_one_does_not() {
    let schema = schemas::Schema::new(json_schema(&[]));
    for document in crate::examples::all().documents {
        let tree = document.places.tree().unwrap();
        let found = schema.findings(document.places.source().unwrap().text(), &tree);
        assert!(found.is_empty(), "{} {}: {found:#?}", document.file, document.id);
    }
    let wrong = "kind: Api\ninfo: {name: a}\ninbound: {match: /}\nproxy: {http: {upstream: a}, timeot: 1s, grpc: {upstream: a}}\n";
    let tree = schemas::yaml::read(wrong, schemas::Span::new(0, wrong.len())).root.unwrap();
    assert!(!schema.findings(wrong, &tree).is_empty());
}
