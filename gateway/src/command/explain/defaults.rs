//! What was left out, filled in as a JSON Schema says.
use schemas::tree::{Node, Value, escape};
use serde_json::Value as Json;

use super::nodes::{self, Tree};

/// Fills defaults in. Returns the pointers of what was filled in.
pub fn fill(node: &mut Tree, schema: &Json, whole: &Json) -> Vec<String> {
    let mut filled = Vec::new();
    one(node, schema, whole, "", &mut filled, 0);
    filled
}

/// No schema of ours is nested deeper; one that refers to itself ends here.
const DEEPEST: usize = 64;

fn one(node: &mut Tree, schema: &Json, whole: &Json, pointer: &str, filled: &mut Vec<String>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    let mut parts = Vec::new();
    fitting(node, schema, whole, &mut parts, 0);
    for schema in parts {
        match &mut node.value {
            Value::List(items) => {
                if let Some(schema) = schema.get("items") {
                    for (at, item) in items.iter_mut().enumerate() {
                        one(item, schema, whole, &format!("{pointer}/{at}"), filled, depth + 1);
                    }
                }
            }
            Value::Map(entries) => {
                let properties = schema.get("properties").and_then(Json::as_object);
                for entry in entries.iter_mut() {
                    let found = properties.and_then(|it| it.get(&*entry.key)).or_else(|| schema.get("additionalProperties"));
                    if let Some(found) = found {
                        one(&mut entry.node, found, whole, &format!("{pointer}/{}", escape(&entry.key)), filled, depth + 1);
                    }
                }
                for (name, property) in properties.into_iter().flatten() {
                    let Some(default) = property.get("default") else { continue };
                    if !entries.iter().any(|it| *it.key == **name) {
                        entries.push(nodes::entry(name.clone(), nodes::of_json(default)));
                        filled.push(format!("{pointer}/{}", escape(name)));
                    }
                }
            }
            _ => (),
        }
    }
}

/// The parts of a schema that say something of this value: references followed, of alternatives only what fits.
fn fitting<'s>(node: &Node<'_>, schema: &'s Json, whole: &'s Json, parts: &mut Vec<&'s Json>, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    parts.push(schema);
    if let Some(found) = schema.get("$ref").and_then(Json::as_str).and_then(|it| whole.pointer(it.strip_prefix('#')?)) {
        fitting(node, found, whole, parts, depth + 1);
    }
    for all in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
        fitting(node, all, whole, parts, depth + 1);
    }
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|it| schema.get(it)?.as_array()).flatten();
    if let Some(found) = alternatives.into_iter().find(|it| takes(node, it, whole, depth)) {
        fitting(node, found, whole, parts, depth + 1);
    }
}

fn takes(node: &Node<'_>, schema: &Json, whole: &Json, depth: usize) -> bool {
    if depth > DEEPEST {
        return false;
    }
    if let Some(found) = schema.get("$ref").and_then(Json::as_str).and_then(|it| whole.pointer(it.strip_prefix('#')?)) {
        return takes(node, found, whole, depth + 1);
    }
    let kind = match &node.value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Text(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
    };
    let fits = match schema.get("type") {
        Some(Json::String(it)) => it == kind || (it == "integer" && kind == "number"),
        Some(Json::Array(all)) => all.iter().any(|it| it == kind || (it == "integer" && kind == "number")),
        _ => true,
    };
    let Value::Map(entries) = &node.value else { return fits };
    let required = schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
    let known = |key: &str| schema.get("properties").is_some_and(|it| it.get(key).is_some());
    let closed = schema.get("additionalProperties") == Some(&Json::Bool(false));
    fits && required.into_iter().all(|it| node.get(it).is_some()) && !(closed && entries.iter().any(|it| !known(&it.key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_left_out_is_filled_in_and_what_was_written_stays() {
        let schema = json!({
            "properties": {
                "a": {"default": 1}, "b": {"default": 2},
                "inner": {"allOf": [{"$ref": "#/definitions/Inner"}]},
                "list": {"type": "array", "items": {"$ref": "#/definitions/Inner"}},
                "body": {"anyOf": [{"type": "object", "required": ["raw"], "additionalProperties": false, "properties": {"raw": {}, "type": {"default": "x"}}}, {}]},
            },
            "definitions": {"Inner": {"properties": {"c": {"default": true}, "self": {"$ref": "#/definitions/Inner"}}}},
        });
        let check = |written: Json, expected: Json, filled: &[&str]| {
            let mut node = nodes::of_json(&written);
            assert_eq!(fill(&mut node, &schema, &schema), filled);
            assert_eq!(serde_json::from_str::<Json>(&node.to_json()).unwrap(), expected);
        };
        check(json!({"a": 7}), json!({"a": 7, "b": 2}), &["/b"]);
        check(
            json!({"a": 7, "b": 3, "inner": {"self": {}}, "list": [{"c": false}, {}]}),
            json!({"a": 7, "b": 3, "inner": {"self": {"c": true}, "c": true}, "list": [{"c": false}, {"c": true}]}),
            &["/inner/self/c", "/inner/c", "/list/1/c"],
        );
        check(json!({"a": 1, "b": 1, "body": {"raw": "y"}}), json!({"a": 1, "b": 1, "body": {"raw": "y", "type": "x"}}), &["/body/type"]);
        check(json!({"a": 1, "b": 1, "body": {"other": 1}}), json!({"a": 1, "b": 1, "body": {"other": 1}}), &[]);
    }
}
