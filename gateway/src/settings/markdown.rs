//! The manual of the settings, written from their schema.
use std::fmt::Write;

use serde_json::Value as Json;

use super::shape::branches;

/// All keys with their types, defaults and descriptions, a table for each section.
pub fn write(schema: &Json, unbuilt: &[(&str, &str)]) -> String {
    let mut out = String::from(
        "# Settings: every key of `allium.yaml`\n\n\
         This page is made from the descriptions in the code; a test keeps it so.\n\
         How settings are used is told in [OPERATIONS.md](OPERATIONS.md).\n\n\
         `ALLIUM__` and the way to a key, set off by `__`, overrides it: `ALLIUM__LIMITS__REQUEST__LINE=16KiB`.\n",
    );
    let properties = schema.get("properties").and_then(Json::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let _ = write!(out, "\n## `{name}`\n\n{}\n\n| key | value | default | |\n|---|---|---|---|\n", about(property));
        rows(schema, name, property, schema.pointer(&format!("/properties/{name}/default")), &mut out);
    }
    out.push_str("\n## Known, not built\n\nThese keys are refused with a message that says so.\n\n| key | |\n|---|---|\n");
    for (path, what) in unbuilt {
        let _ = writeln!(out, "| `{}` | {what} |", path.replace('/', ".").replace(".*.", "[]."));
    }
    out
}

/// The rows of a value: one, or one for each key in it.
fn rows(whole: &Json, path: &str, schema: &Json, default: Option<&Json>, out: &mut String) {
    let all = branches(whole, schema);
    let items = all.iter().find_map(|it| it.get("items")).filter(|it| !keys(whole, it).is_empty());
    let (keys, path) = match items {
        Some(items) => (keys(whole, items), format!("{path}[]")),
        None => (keys(whole, schema), path.to_owned()),
    };
    let union = all
        .iter()
        .any(|it| it.get("oneOf").is_some_and(|it| it.as_array().is_some_and(|it| it.iter().all(|it| it.get("properties").is_some()))));
    if keys.is_empty() || union {
        let shown = default.filter(|it| !it.is_null()).map_or(String::new(), |it| format!("`{}`", compact(it)));
        let _ = writeln!(out, "| `{path}` | {} | {shown} | {} |", kind(whole, schema), about(schema));
        return;
    }
    for (name, inner) in keys {
        // An entry of a list has no default of its own: only the whole list has.
        let inner_default = if items.is_some() { None } else { default.and_then(|it| it.get(name)).or_else(|| inner.get("default")) };
        rows(whole, &format!("{path}.{name}"), inner, inner_default, out);
    }
}

fn keys<'s>(whole: &'s Json, schema: &'s Json) -> Vec<(&'s str, &'s Json)> {
    let all = branches(whole, schema);
    all.iter().filter_map(|it| it.get("properties")?.as_object()).flatten().map(|(name, it)| (name.as_str(), it)).collect()
}

fn about(schema: &Json) -> String {
    let text = schema.get("description").and_then(Json::as_str).unwrap_or_default();
    text.replace('\n', " ").replace('|', "\\|")
}

fn compact(it: &Json) -> String {
    match it {
        Json::String(text) => text.clone(),
        Json::Array(items) => format!("[{}]", items.iter().map(compact).collect::<Vec<_>>().join(", ")),
        Json::Object(keys) => {
            let inner: Vec<_> = keys.iter().map(|(name, it)| format!("{name}: {}", compact(it))).collect();
            format!("{{{}}}", inner.join(", "))
        }
        other => other.to_string(),
    }
}

/// What may stand there, in a word or two.
fn kind(whole: &Json, schema: &Json) -> String {
    let all = branches(whole, schema);
    let words: Vec<String> = all
        .iter()
        .flat_map(|it| it.get("const").into_iter().chain(it.get("enum").and_then(Json::as_array).into_iter().flatten()))
        .map(|it| format!("`{}`", compact(it)))
        .collect();
    let variants: Vec<String> =
        all.iter().filter_map(|it| it.get("properties")?.as_object()).flat_map(|it| it.keys()).map(|it| format!("`{{{it}: …}}`")).collect();
    let mut kinds: Vec<String> = Vec::new();
    for it in &all {
        let format = it.get("format").and_then(Json::as_str);
        let types: Vec<&str> = match it.get("type") {
            Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).collect(),
            Some(Json::String(one)) => vec![one],
            _ => Vec::new(),
        };
        for kind in types {
            let word = match (kind, format) {
                ("boolean", _) => "`true` or `false`".to_owned(),
                ("integer", _) => "a number".to_owned(),
                ("array", _) => format!("list of {}", it.get("items").map_or("values".to_owned(), |it| self::kind(whole, it))),
                ("string", _) if it.get("enum").is_some() || it.get("const").is_some() => continue,
                ("string", Some("header-name")) => "a header".to_owned(),
                ("string", Some("variables")) => "a name or `NAME_*`".to_owned(),
                ("string", Some(format @ ("address" | "network" | "duration" | "size"))) => format.to_owned(),
                ("string", _) => "text".to_owned(),
                _ => continue,
            };
            kinds.push(word);
        }
    }
    let mut all: Vec<String> = words.into_iter().chain(variants).chain(kinds).collect();
    all.dedup();
    all.join(", ")
}
