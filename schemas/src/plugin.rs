//! The plugins' configs against the schemas that the plugins bring.

use std::collections::HashMap;

use crate::{
    check::Checker,
    form::TextFault,
    near,
    tree::{Node, Path, Value},
};

mod schema;

pub use schema::Schema;

/// The plugins that are built in, with the schemas of their configs, and those that are known by name alone.
#[derive(Debug, Default)]
pub struct Plugins {
    built: HashMap<String, Schema>,
    known: Vec<String>,
}

pub(crate) enum Check<'p> {
    Schema(&'p Schema),
    Any,
    NotBuilt,
    Unknown(Vec<&'p str>),
}

impl Plugins {
    /// Plugins by name, with the JSON Schema of each one's config as `schemars` makes it.
    pub fn new<N: Into<String>>(built: impl IntoIterator<Item = (N, serde_json::Value)>) -> Self {
        Self { built: built.into_iter().map(|(name, schema)| (name.into(), Schema::new(schema))).collect(), known: Vec::new() }
    }

    /// The same, with names that the format knows but this gateway was not built with.
    pub fn known<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.known = names.into_iter().map(Into::into).filter(|name| !self.built.contains_key(name)).collect();
        self
    }

    pub(crate) fn check(&self, name: &str) -> Check<'_> {
        // `validate` is a place in the list rather than a plugin.
        match self.built.get(name) {
            Some(schema) => Check::Schema(schema),
            None if name == "validate" => Check::Any,
            None if self.known.iter().any(|known| known == name) => Check::NotBuilt,
            None => {
                let mut names: Vec<&str> = self.built.keys().map(String::as_str).collect();
                names.sort_unstable();
                Check::Unknown(names)
            }
        }
    }
}

/// The files that a config names: texts under a key `file`.
pub(crate) fn files(node: &Node<'_>, out: &mut Vec<String>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| files(item, out)),
        Value::Map(entries) => {
            for entry in entries {
                match &entry.node.value {
                    Value::Text(path) if entry.key == "file" => out.push(path.to_string()),
                    _ => files(&entry.node, out),
                }
            }
        }
        _ => {}
    }
}

/// The keywords of JSON Schema that parameters and bodies are checked with, and what each holds.
pub(crate) const KEYWORDS: &[(&str, &str)] = &[
    ("$anchor", "a text"),
    ("$comment", "a text"),
    ("$defs", "a map"),
    ("$id", "a text"),
    ("$ref", "a text"),
    ("$schema", "a text"),
    ("additionalProperties", "a schema"),
    ("allOf", "schemas"),
    ("anyOf", "schemas"),
    ("const", ""),
    ("contains", "a schema"),
    ("contentEncoding", "a text"),
    ("contentMediaType", "a text"),
    ("default", ""),
    ("definitions", "a map"),
    ("dependentRequired", "a map"),
    ("dependentSchemas", "a map"),
    ("deprecated", "a boolean"),
    ("description", "a text"),
    ("else", "a schema"),
    ("enum", "a list"),
    ("example", ""),
    ("examples", "a list"),
    ("exclusiveMaximum", "a number"),
    ("exclusiveMinimum", "a number"),
    ("format", "a text"),
    ("if", "a schema"),
    ("items", "a schema"),
    ("maxContains", "a number"),
    ("maxItems", "a number"),
    ("maxLength", "a number"),
    ("maxProperties", "a number"),
    ("maximum", "a number"),
    ("minContains", "a number"),
    ("minItems", "a number"),
    ("minLength", "a number"),
    ("minProperties", "a number"),
    ("minimum", "a number"),
    ("multipleOf", "a number"),
    ("not", "a schema"),
    ("oneOf", "schemas"),
    ("pattern", "a text"),
    ("patternProperties", "a map"),
    ("prefixItems", "schemas"),
    ("properties", "a map"),
    ("propertyNames", "a schema"),
    ("readOnly", "a boolean"),
    ("required", "a list"),
    ("then", "a schema"),
    ("title", "a text"),
    ("type", ""),
    ("unevaluatedItems", "a schema"),
    ("unevaluatedProperties", "a schema"),
    ("uniqueItems", "a boolean"),
    ("writeOnly", "a boolean"),
];

const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// Checks the keywords of a JSON Schema that stands in a definition. Keys that begin with `x-` are left alone.
pub(crate) fn keywords(node: &Node<'_>, path: &Path<'_>, checker: &mut Checker<'_>) {
    let entries = match &node.value {
        Value::Map(entries) => entries,
        Value::Bool(_) => return,
        _ => return checker.fault(node.span, path, "wrong-type", format!("a JSON Schema is a map, not {}", node.kind()), None),
    };
    // An older draft has keywords of its own, and other shapes of these: who compiles the schema knows them all.
    let older = |it: &str| !it.contains("2020-12");
    if entries.iter().any(|it| it.key == "$schema" && matches!(&it.node.value, Value::Text(text) if older(text))) {
        return;
    }
    for entry in entries {
        let inner = path.key(&entry.key);
        let Some((_, expected)) = KEYWORDS.iter().find(|(keyword, _)| *keyword == entry.key) else {
            if entry.key.starts_with("x-") {
                continue;
            }
            let help =
                near::nearest(&entry.key, KEYWORDS.iter().map(|(keyword, _)| *keyword)).map(|near| format!("did you mean `{near}`?"));
            checker.fault(entry.span, &inner, "unknown-key", format!("`{}` is no keyword of JSON Schema", entry.key), help);
            continue;
        };
        let wrong = match (*expected, &entry.node.value) {
            ("schemas", Value::List(items)) => {
                items.iter().enumerate().for_each(|(at, item)| keywords(item, &inner.index(at), checker));
                continue;
            }
            ("schemas", _) => "a list",
            ("a schema", _) => {
                keywords(&entry.node, &inner, checker);
                continue;
            }
            ("a map", Value::Map(inners))
                if matches!(entry.key.as_ref(), "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas") =>
            {
                inners.iter().for_each(|one| keywords(&one.node, &inner.key(&one.key), checker));
                continue;
            }
            ("", _) => {
                if entry.key == "type" {
                    types(&entry.node, &inner, checker);
                }
                continue;
            }
            (expected, value) if expected == entry.node.kind() => {
                if let ("pattern", Value::Text(text)) = (entry.key.as_ref(), value)
                    && let Err(error) = regex::Regex::new(text)
                {
                    let fault = TextFault::whole(text, "bad-pattern", format!("not a regular expression: {}", last_line(&error)));
                    checker.text_fault(&entry.node, text, &inner, fault);
                }
                continue;
            }
            (expected, _) => expected,
        };
        checker.fault(
            crate::check::place(&entry.node, entry.span),
            &inner,
            "wrong-type",
            format!("expected {wrong}, found {}", entry.node.kind()),
            None,
        );
    }
}

/// What a regular expression's fault says, without its drawing.
pub(crate) fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}

fn types(node: &Node<'_>, path: &Path<'_>, checker: &mut Checker<'_>) {
    match &node.value {
        Value::Text(word) if TYPES.contains(&word.as_ref()) => {}
        Value::Text(word) => {
            let help = near::nearest(word, TYPES.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            checker.fault(node.span, path, "bad-word", format!("`{word}` is not one of {}", near::list(TYPES)), help);
        }
        Value::List(items) => items.iter().enumerate().for_each(|(at, item)| types(item, &path.index(at), checker)),
        _ => checker.fault(node.span, path, "wrong-type", format!("expected a text, found {}", node.kind()), None),
    }
}
