//! A tree against a JSON Schema as `schemars` makes it: all faults, each at its own key or value.

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value as Json};

use crate::{
    check::{Checker, Finding, place},
    form::Form,
    near,
    source::Span,
    tree::{Entry, Node, Path, Value},
};

/// How many references may be followed without going deeper into the value.
const MAX_REFERENCES: usize = 32;

/// A JSON Schema, ready for checking.
#[derive(Debug)]
pub struct Schema {
    root: Json,
    /// Every regular expression of the schema, compiled once.
    patterns: HashMap<String, Regex>,
}

impl Schema {
    /// A schema.
    pub fn new(root: Json) -> Self {
        let mut patterns = HashMap::new();
        compile(&root, &mut patterns);
        Self { root, patterns }
    }

    pub(crate) fn check(&self, node: &Node<'_>, owner: Span, path: &Path<'_>, checker: &mut Checker<'_>) {
        Walk { schema: self, checker, references: 0 }.value(&self.root, node, owner, path);
    }

    /// Checks a value by itself: every fault with its pointer and place. `text` is what the value was read from.
    pub fn findings(&self, text: &str, node: &Node<'_>) -> Vec<Finding> {
        let mut checker = Checker::new(text, None, None);
        self.check(node, node.span, &Path::ROOT, &mut checker);
        checker.findings
    }
}

struct Walk<'w, 'c> {
    schema: &'w Schema,
    checker: &'w mut Checker<'c>,
    references: usize,
}

impl<'w> Walk<'w, '_> {
    fn fault(&mut self, span: Span, path: &Path<'_>, code: &'static str, message: impl Into<String>, help: Option<String>) {
        self.checker.fault(span, path, code, message, help);
    }

    fn resolve(&self, reference: &str) -> Option<&'w Json> {
        self.schema.root.pointer(reference.strip_prefix('#')?)
    }

    fn value(&mut self, schema: &'w Json, node: &Node<'_>, owner: Span, path: &Path<'_>) {
        let schema = match schema {
            Json::Object(schema) => schema,
            Json::Bool(false) => return self.fault(place(node, owner), path, "unknown-key", "nothing may stand here", None),
            _ => return,
        };
        if !self.types(schema, node, owner, path) || !self.words(schema, node, owner, path) {
            return;
        }
        if let Some(target) = schema.get("$ref").and_then(Json::as_str).and_then(|reference| self.resolve(reference)) {
            if self.references >= MAX_REFERENCES {
                return;
            }
            self.references += 1;
            self.value(target, node, owner, path);
            self.references -= 1;
        }
        for part in list(schema, "allOf") {
            self.value(part, node, owner, path);
        }
        for keyword in ["oneOf", "anyOf"] {
            if let Some(branches) = schema.get(keyword).and_then(Json::as_array) {
                self.branches(branches, node, owner, path);
            }
        }
        self.conditional(schema, node, owner, path);
        match &node.value {
            Value::Text(text) => self.text(schema, node, text, path),
            Value::Number(text) => self.number(schema, node, text, path),
            Value::List(items) => self.items(schema, node, items, path),
            Value::Map(entries) => self.map(schema, node, entries, owner, path),
            _ => {}
        }
    }

    /// Whether the value has one of the schema's types; tells where not.
    fn types(&mut self, schema: &Map<String, Json>, node: &Node<'_>, owner: Span, path: &Path<'_>) -> bool {
        let types: Vec<&str> = match schema.get("type") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).collect(),
            _ => return true,
        };
        if types.iter().any(|kind| is(kind, node)) {
            return true;
        }
        if let (Value::Number(text), true, Some(form)) = (&node.value, types.contains(&"string"), form(schema))
            && form.unit().is_some()
            && let Err(fault) = form.check(text)
        {
            self.checker.text_fault(node, text, path, fault);
            return false;
        }
        let expected: Vec<&str> = types.iter().filter(|kind| **kind != "null" || types.len() == 1).map(|kind| called(kind)).collect();
        let help = match (&node.value, types.as_slice()) {
            (Value::Number(text), kinds) if kinds.contains(&"string") => Some(format!("write \"{text}\", in quotes")),
            (Value::Bool(value), kinds) if kinds.contains(&"string") => Some(format!("write \"{value}\", in quotes")),
            (Value::Text(text), kinds) if kinds.contains(&"boolean") && matches!(text.as_ref(), "yes" | "on") => {
                Some("write `true`".to_owned())
            }
            (Value::Text(text), kinds) if kinds.contains(&"boolean") && matches!(text.as_ref(), "no" | "off") => {
                Some("write `false`".to_owned())
            }
            (Value::Text(text), kinds) if kinds.contains(&"array") => Some(format!("write [{text}]")),
            (Value::Null, _) => Some("take the key away, or give it a value".to_owned()),
            _ => None,
        };
        let message = format!("expected {}, found {}", expected.join(" or "), node.kind());
        self.fault(place(node, owner), path, "wrong-type", message, help);
        false
    }

    /// Whether the value is one of `enum` and `const`; tells where not.
    fn words(&mut self, schema: &Map<String, Json>, node: &Node<'_>, owner: Span, path: &Path<'_>) -> bool {
        let constant = schema.get("const").map(std::slice::from_ref);
        let allowed = schema.get("enum").and_then(Json::as_array).map(Vec::as_slice).or(constant);
        match allowed {
            Some(allowed) if !allowed.iter().any(|value| equal(value, node)) => {
                self.bad_word(allowed, node, owner, path);
                false
            }
            _ => true,
        }
    }

    fn bad_word(&mut self, allowed: &[Json], node: &Node<'_>, owner: Span, path: &Path<'_>) {
        let words: Vec<String> = allowed.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        let found = node.text().map_or_else(|| node.to_json(), str::to_owned);
        let help = near::nearest(&found, words.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
        let list = near::list(&words);
        let message = if words.len() == 1 { format!("`{found}` is not {list}") } else { format!("`{found}` is not one of {list}") };
        self.fault(place(node, owner), path, "bad-word", message, help);
    }

    /// One of several schemas: where none fits, the faults of the one that was most likely meant.
    fn branches(&mut self, branches: &'w [Json], node: &Node<'_>, owner: Span, path: &Path<'_>) {
        let before = std::mem::take(&mut self.checker.findings);
        let mut best: Option<(usize, Vec<Finding>)> = None;
        let mut fits = false;
        for branch in branches {
            self.value(branch, node, owner, path);
            let found = std::mem::take(&mut self.checker.findings);
            if found.is_empty() {
                fits = true;
                break;
            }
            let far = self.distance(branch, node) + found.len();
            if best.as_ref().is_none_or(|(least, _)| far < *least) {
                best = Some((far, found));
            }
        }
        self.checker.findings = before;
        if fits {
            return;
        }
        let described: Vec<&Map<String, Json>> = branches.iter().map(|branch| self.described(branch)).collect();
        // Words of an enumeration, each with its own description.
        if matches!(node.value, Value::Text(_)) {
            let words: Vec<Json> = described.iter().flat_map(|branch| words_of(branch)).cloned().collect();
            let texts = described.iter().filter(|branch| words_of(branch).is_empty() && could_be(branch, node)).count();
            if !words.is_empty() && texts == 0 {
                return self.bad_word(&words, node, owner, path);
            }
        }
        if described.iter().all(|branch| !could_be(branch, node)) {
            let mut kinds: Vec<&str> =
                described.iter().flat_map(|branch| kinds_of(branch)).filter(|kind| *kind != "null").map(called).collect();
            kinds.dedup();
            let help = matches!(node.value, Value::Null).then(|| "take the key away, or give it a value".to_owned());
            let message = format!("expected {}, found {}", kinds.join(" or "), node.kind());
            return self.fault(place(node, owner), path, "wrong-type", message, help);
        }
        // A union that is told by its key: no key of it, or one that is none of it.
        if let (Value::Map(entries), Some(variants)) = (&node.value, variants(&described)) {
            let written: Vec<&Entry<'_>> = entries.iter().filter(|entry| variants.contains(&entry.key.as_ref())).collect();
            match written.as_slice() {
                [] if entries.is_empty() => {
                    let message = format!("exactly one of {} must be written", near::list(&variants));
                    return self.fault(place(node, owner), path, "missing-variant", message, None);
                }
                [] => {
                    for entry in entries {
                        let help = near::nearest(&entry.key, variants.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                        let message = format!("`{}` is not one of {}", entry.key, near::list(&variants));
                        self.fault(entry.span, &path.key(&entry.key), "unknown-key", message, help);
                    }
                    return;
                }
                [_] => {}
                [first, second, ..] => {
                    let message = format!(
                        "`{}` and `{}` exclude each other: exactly one of {} must be written",
                        second.key,
                        first.key,
                        near::list(&variants)
                    );
                    return self.fault(second.span, &path.key(&second.key), "too-many-variants", message, None);
                }
            }
        }
        self.checker.findings.extend(best.map(|(_, found)| found).unwrap_or_default());
    }

    /// The schema behind references.
    fn described(&self, schema: &'w Json) -> &'w Map<String, Json> {
        static NOTHING: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            match schema.get("$ref").and_then(Json::as_str).and_then(|reference| self.resolve(reference)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema.as_object().unwrap_or(&NOTHING)
    }

    /// How unlikely it is that this branch was meant.
    fn distance(&self, branch: &'w Json, node: &Node<'_>) -> usize {
        let schema = self.described(branch);
        if !could_be(schema, node) {
            return 10_000;
        }
        let Value::Map(entries) = &node.value else { return 0 };
        let properties = schema.get("properties").and_then(Json::as_object);
        let tag = properties.into_iter().flatten().any(|(key, property)| {
            let words = property.as_object().map(words_of).unwrap_or_default();
            !words.is_empty() && node.get(key).is_some_and(|value| !words.iter().any(|word| equal(word, value)))
        });
        let known = entries.iter().filter(|entry| properties.is_some_and(|properties| properties.contains_key(entry.key.as_ref()))).count();
        usize::from(tag) * 1000 + (entries.len() - known) * 100
    }

    fn conditional(&mut self, schema: &'w Map<String, Json>, node: &Node<'_>, owner: Span, path: &Path<'_>) {
        let holds = |walk: &mut Self, schema: &'w Json| {
            let before = std::mem::take(&mut walk.checker.findings);
            walk.value(schema, node, owner, path);
            std::mem::replace(&mut walk.checker.findings, before).is_empty()
        };
        if let Some(condition) = schema.get("if") {
            let branch = if holds(self, condition) { "then" } else { "else" };
            if let Some(branch) = schema.get(branch) {
                self.value(branch, node, owner, path);
            }
        }
        if let Some(not) = schema.get("not")
            && holds(self, not)
        {
            self.fault(place(node, owner), path, "bad-value", "this may not stand here", None);
        }
    }

    fn text(&mut self, schema: &Map<String, Json>, node: &Node<'_>, text: &str, path: &Path<'_>) {
        let count = text.chars().count() as u64;
        if let Some(least) = limit(schema, "minLength").filter(|least| count < *least) {
            let message =
                if least == 1 { "the text is empty".to_owned() } else { format!("the text has {count} characters, fewer than {least}") };
            self.fault(node.span, path, "out-of-range", message, None);
        }
        if let Some(most) = limit(schema, "maxLength").filter(|most| count > *most) {
            self.fault(node.span, path, "out-of-range", format!("the text has {count} characters, more than {most}"), None);
        }
        if let Some(pattern) = schema.get("pattern").and_then(Json::as_str)
            && self.schema.patterns.get(pattern).is_some_and(|pattern| !pattern.is_match(text))
        {
            self.fault(node.span, path, "bad-value", format!("`{text}` does not match `{pattern}`"), None);
        }
        match form(schema) {
            // A rate may come from an expression.
            Some(Form::Rate) if text.contains("${") => self.checker.formed(Form::Expression, node, text, path),
            Some(form) => self.checker.formed(form, node, text, path),
            None => {}
        }
    }

    fn number(&mut self, schema: &Map<String, Json>, node: &Node<'_>, text: &str, path: &Path<'_>) {
        let Ok(value) = text.parse::<f64>() else { return };
        let bound = |key: &str| schema.get(key).and_then(Json::as_f64);
        let broken = [
            bound("minimum").filter(|least| value < *least).map(|least| format!("at least {least}")),
            bound("maximum").filter(|most| value > *most).map(|most| format!("at most {most}")),
            bound("exclusiveMinimum").filter(|least| value <= *least).map(|least| format!("more than {least}")),
            bound("exclusiveMaximum").filter(|most| value >= *most).map(|most| format!("less than {most}")),
            bound("multipleOf").filter(|unit| (value / unit).fract() != 0.0).map(|unit| format!("a multiple of {unit}")),
            schema.get("format").and_then(Json::as_str).and_then(|format| width(format, text)),
        ];
        for expected in broken.into_iter().flatten() {
            self.fault(node.span, path, "out-of-range", format!("must be {expected}, not {text}"), None);
        }
    }

    fn items(&mut self, schema: &'w Map<String, Json>, node: &Node<'_>, items: &[Node<'_>], path: &Path<'_>) {
        let count = items.len() as u64;
        if let Some(least) = limit(schema, "minItems").filter(|least| count < *least) {
            let message =
                if least == 1 { "the list may not be empty".to_owned() } else { format!("the list has {count} items, fewer than {least}") };
            self.fault(node.span, path, "empty", message, None);
        }
        if let Some(most) = limit(schema, "maxItems").filter(|most| count > *most) {
            self.fault(node.span, path, "out-of-range", format!("the list has {count} items, more than {most}"), None);
        }
        let prefix = list(schema, "prefixItems");
        for (at, item) in items.iter().enumerate() {
            if let Some(schema) = prefix.get(at).or(schema.get("items")) {
                self.value(schema, item, item.span, &path.index(at));
            }
        }
        if schema.get("uniqueItems") == Some(&Json::Bool(true)) {
            for (at, item) in items.iter().enumerate().skip(1) {
                if items[..at].iter().any(|earlier| earlier.same(item)) {
                    self.fault(item.span, &path.index(at), "repeated-value", "this stands twice in the list", None);
                }
            }
        }
    }

    fn map(&mut self, schema: &'w Map<String, Json>, node: &Node<'_>, entries: &[Entry<'_>], owner: Span, path: &Path<'_>) {
        let properties = schema.get("properties").and_then(Json::as_object);
        for required in list(schema, "required").iter().filter_map(Json::as_str) {
            if node.entry(required).is_none() {
                let about = properties.and_then(|properties| properties.get(required)?.get("description")?.as_str());
                let help = about.map(|about| format!("`{required}`: {}", about.lines().next().unwrap_or_default()));
                self.fault(owner, path, "missing-key", format!("the key `{required}` is missing"), help);
            }
        }
        let patterns: Vec<(&Regex, &Json)> = schema
            .get("patternProperties")
            .and_then(Json::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(pattern, schema)| Some((self.schema.patterns.get(pattern)?, schema)))
            .collect();
        let closed = schema.get("unevaluatedProperties") == Some(&Json::Bool(false));
        let mut known = Vec::new();
        let additional = schema.get("additionalProperties");
        if closed || additional == Some(&Json::Bool(false)) {
            // Keys of other branches are evaluated there.
            self.known(schema, closed, 0, &mut known);
        }
        for entry in entries {
            let inner = path.key(&entry.key);
            if let Some(schema) = properties.and_then(|properties| properties.get(entry.key.as_ref())) {
                self.value(schema, &entry.node, entry.span, &inner);
                continue;
            }
            let mut matched = false;
            for (_, schema) in patterns.iter().filter(|(pattern, _)| pattern.is_match(&entry.key)) {
                matched = true;
                self.value(schema, &entry.node, entry.span, &inner);
            }
            match additional {
                _ if matched => {}
                Some(Json::Bool(false)) => self.unknown(entry, &known, &inner),
                Some(schema @ Json::Object(_)) => self.value(schema, &entry.node, entry.span, &inner),
                _ if closed && !known.contains(&entry.key.as_ref()) => self.unknown(entry, &known, &inner),
                _ => {}
            }
        }
        if let Some(names) = schema.get("propertyNames") {
            for entry in entries {
                let key = Node { span: entry.span, value: Value::Text(entry.key.clone()) };
                self.value(names, &key, entry.span, &path.key(&entry.key));
            }
        }
        let count = entries.len() as u64;
        if let Some(least) = limit(schema, "minProperties").filter(|least| count < *least) {
            self.fault(place(node, owner), path, "empty", format!("at least {least} keys must stand here"), None);
        }
        if let Some(most) = limit(schema, "maxProperties").filter(|most| count > *most) {
            self.fault(place(node, owner), path, "out-of-range", format!("at most {most} keys may stand here"), None);
        }
    }

    fn known(&self, schema: &'w Map<String, Json>, through: bool, depth: usize, out: &mut Vec<&'w str>) {
        out.extend(schema.get("properties").and_then(Json::as_object).into_iter().flatten().map(|(key, _)| key.as_str()));
        if !through || depth > MAX_REFERENCES {
            return;
        }
        if let Some(target) = schema.get("$ref").and_then(Json::as_str).and_then(|reference| self.resolve(reference)?.as_object()) {
            self.known(target, through, depth + 1, out);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for branch in list(schema, keyword).iter().filter_map(Json::as_object) {
                self.known(branch, through, depth + 1, out);
            }
        }
    }

    fn unknown(&mut self, entry: &Entry<'_>, known: &[&str], path: &Path<'_>) {
        let help = match near::nearest(&entry.key, known.iter().copied()) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if known.is_empty() => None,
            None => Some(format!("the keys here are {}", near::list(&known[..known.len().min(16)]))),
        };
        self.fault(entry.span, path, "unknown-key", format!("the key `{}` is not known here", entry.key), help);
    }
}

/// Compiles the patterns of a schema and of all schemas in it; one that is none of ours is left out.
fn compile(schema: &Json, patterns: &mut HashMap<String, Regex>) {
    let mut add = |pattern: &str| {
        if let Ok(regex) = Regex::new(pattern) {
            patterns.insert(pattern.to_owned(), regex);
        }
    };
    if let Some(pattern) = schema.get("pattern").and_then(Json::as_str) {
        add(pattern);
    }
    schema.get("patternProperties").and_then(Json::as_object).into_iter().flatten().for_each(|(pattern, _)| add(pattern));
    match schema {
        Json::Array(items) => items.iter().for_each(|item| compile(item, patterns)),
        Json::Object(entries) => entries.values().for_each(|value| compile(value, patterns)),
        _ => {}
    }
}

fn list<'s>(schema: &'s Map<String, Json>, key: &str) -> &'s [Json] {
    schema.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn limit(schema: &Map<String, Json>, key: &str) -> Option<u64> {
    schema.get(key)?.as_u64()
}

fn form(schema: &Map<String, Json>) -> Option<Form> {
    schema.get("format").and_then(Json::as_str).and_then(Form::named)
}

fn is(kind: &str, node: &Node<'_>) -> bool {
    match (kind, &node.value) {
        ("null", Value::Null) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => true,
        ("string", Value::Text(_)) | ("array", Value::List(_)) | ("object", Value::Map(_)) => true,
        ("integer", Value::Number(text)) => text.parse::<f64>().is_ok_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn called(kind: &str) -> &str {
    match kind {
        "null" => "nothing",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        "object" => "a map",
        other => other,
    }
}

/// Whether the value could be meant by the schema: it has one of its types.
fn could_be(schema: &Map<String, Json>, node: &Node<'_>) -> bool {
    let kinds = kinds_of(schema);
    kinds.is_empty() || kinds.iter().any(|kind| is(kind, node))
}

fn kinds_of(schema: &Map<String, Json>) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(kind)) => vec![kind],
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
        _ => words_of(schema)
            .iter()
            .map(|word| match word {
                Json::Null => "null",
                Json::Bool(_) => "boolean",
                Json::Number(_) => "number",
                Json::String(_) => "string",
                Json::Array(_) => "array",
                Json::Object(_) => "object",
            })
            .collect(),
    }
}

fn words_of(schema: &Map<String, Json>) -> Vec<&Json> {
    match (schema.get("const"), schema.get("enum").and_then(Json::as_array)) {
        (Some(word), _) => vec![word],
        (None, Some(words)) => words.iter().collect(),
        _ => Vec::new(),
    }
}

/// The keys of a union whose variants are each one required key, as serde writes enums.
fn variants<'s>(branches: &[&'s Map<String, Json>]) -> Option<Vec<&'s str>> {
    let mut keys = Vec::new();
    for branch in branches.iter().filter(|branch| kinds_of(branch).contains(&"object")) {
        let [key] = list(branch, "required") else { return None };
        let only = branch.get("properties").and_then(Json::as_object).is_some_and(|properties| properties.len() == 1);
        keys.push(key.as_str().filter(|_| only)?);
    }
    (!keys.is_empty()).then_some(keys)
}

fn equal(value: &Json, node: &Node<'_>) -> bool {
    match (value, &node.value) {
        (Json::Null, Value::Null) => true,
        (Json::Bool(a), Value::Bool(b)) => a == b,
        (Json::String(a), Value::Text(b)) => a == b,
        (Json::Number(a), Value::Number(b)) => a.to_string() == *b || b.parse::<f64>().ok() == a.as_f64(),
        (Json::Array(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Value::Map(b)) => {
            a.len() == b.len() && b.iter().all(|entry| a.get(entry.key.as_ref()).is_some_and(|value| equal(value, &entry.node)))
        }
        _ => false,
    }
}

/// What a whole number must be for Rust's type of that name to hold it.
fn width(format: &str, text: &str) -> Option<String> {
    let fits = match format {
        "uint8" => text.parse::<u8>().is_ok(),
        "uint16" => text.parse::<u16>().is_ok(),
        "uint32" => text.parse::<u32>().is_ok(),
        "uint64" | "uint" => text.parse::<u64>().is_ok(),
        "int8" => text.parse::<i8>().is_ok(),
        "int16" => text.parse::<i16>().is_ok(),
        "int32" => text.parse::<i32>().is_ok(),
        "int64" | "int" => text.parse::<i64>().is_ok(),
        _ => true,
    };
    let negative = text.starts_with('-') && format.starts_with('u');
    // A negative number breaks `minimum` already.
    (!fits && !negative).then(|| {
        format!("a whole number of {} bits", format.trim_start_matches(|c: char| c.is_alphabetic())).replace("of  bits", "of 64 bits")
    })
}
