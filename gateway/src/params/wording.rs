//! How a validator's faults are told: by the failing keyword's place, in the words of the house.
use std::fmt::Write;

use jsonschema::{ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

/// At most this many faults of one request are told.
pub const MOST_FAULTS: usize = 100;

/// A value longer than this is told in part.
const LONGEST: usize = 64;

/// Faults of the branches of `anyOf` and `oneOf` are told this deep.
const DEEPEST: usize = 4;

/// One fault, as `details` and RFC 9457 need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The failing keyword's place along the evaluation path, such as `/items/enum`.
    pub schema: String,
    /// A JSON Pointer to the value; empty for the root.
    pub pointer: String,
    /// What must hold, and what was found: never more of the value than a line.
    pub message: String,
}

/// Tells at most `most` faults, root first; missing properties of one object are one fault.
pub fn tell<'i>(errors: impl IntoIterator<Item = ValidationError<'i>>, most: usize) -> Vec<Told> {
    let mut found = Vec::new();
    let mut missing: Vec<(usize, Vec<String>)> = Vec::new();
    for error in errors {
        collect(&error, &mut found, &mut missing, 0);
        // Faults deeper in the value may come first, so a few more than asked for are looked at.
        if found.len() >= most.saturating_mul(4) {
            break;
        }
    }
    for (at, names) in missing {
        found[at].message = match &names[..] {
            [one] => format!("missing property: {one}"),
            many => format!("missing properties: {}", many.join(", ")),
        };
    }
    found.sort_by_key(|it| it.pointer.matches('/').count());
    found.truncate(most);
    found
}

fn collect(error: &ValidationError<'_>, found: &mut Vec<Told>, missing: &mut Vec<(usize, Vec<String>)>, depth: usize) {
    let (schema, pointer) = (error.evaluation_path().as_str(), error.instance_path().as_str());
    if let Kind::Required { property } = error.kind() {
        let same = |(at, _): &&mut (usize, Vec<String>)| found[*at].schema == schema && found[*at].pointer == pointer;
        match missing.iter_mut().find(same) {
            Some((_, names)) => return names.push(short(property)),
            None => missing.push((found.len(), vec![short(property)])),
        }
    }
    found.push(Told { schema: schema.to_owned(), pointer: pointer.to_owned(), message: message(error) });
    if depth < DEEPEST
        && let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind()
    {
        for inner in context.iter().flatten() {
            collect(inner, found, missing, depth + 1);
        }
    }
}

fn message(error: &ValidationError<'_>) -> String {
    let value = error.instance().as_ref();
    match error.kind() {
        Kind::Type { kind } => {
            let kinds: Vec<String> = match kind {
                jsonschema::error::TypeKind::Single(it) => vec![it.to_string()],
                jsonschema::error::TypeKind::Multiple(it) => it.iter().map(|it| it.to_string()).collect(),
            };
            must_be(&kinds, &short(value))
        }
        Kind::Minimum { limit } => format!("must be >= {} but found {}", short(limit), short(value)),
        Kind::Maximum { limit } => format!("must be <= {} but found {}", short(limit), short(value)),
        Kind::ExclusiveMinimum { limit } => format!("must be > {} but found {}", short(limit), short(value)),
        Kind::ExclusiveMaximum { limit } => format!("must be < {} but found {}", short(limit), short(value)),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of} but found {}", short(value)),
        Kind::MinLength { limit } => format!("length must be >= {limit} but found {}", length(value)),
        Kind::MaxLength { limit } => format!("length must be <= {limit} but found {}", length(value)),
        Kind::MinItems { limit } => count("at least", *limit, ["item", "items"], value),
        Kind::MaxItems { limit } => count("at most", *limit, ["item", "items"], value),
        Kind::MinProperties { limit } => count("at least", *limit, ["property", "properties"], value),
        Kind::MaxProperties { limit } => count("at most", *limit, ["property", "properties"], value),
        Kind::AdditionalItems { limit } => count("at most", *limit as u64, ["item", "items"], value),
        Kind::UniqueItems => match repeated(value) {
            Some((first, second)) => format!("items {first} and {second} are equal"),
            None => "items must not repeat".to_owned(),
        },
        Kind::Pattern { pattern } => format!("must match pattern '{}' but found {}", cut(pattern), short(value)),
        Kind::Format { format } => format!("must be a valid {format} but found {}", short(value)),
        Kind::Enum { options } => format!("must be one of {} but found {}", list(options), short(value)),
        Kind::Constant { expected_value } => format!("must be {} but found {}", short(expected_value), short(value)),
        // Told with all that are missing, once they are known.
        Kind::Required { .. } => String::new(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => unknown("properties", unexpected),
        Kind::UnevaluatedItems { unexpected } => unknown("items", unexpected),
        Kind::PropertyNames { error } => format!("a property's name is not allowed: {}", message(error)),
        Kind::AnyOf { .. } => "must fit at least one of the alternatives".to_owned(),
        Kind::OneOfNotValid { .. } => "must fit one of the alternatives but fits none".to_owned(),
        Kind::OneOfMultipleValid { .. } => "must fit only one of the alternatives".to_owned(),
        Kind::Not { .. } => "must not be what is excluded".to_owned(),
        Kind::FalseSchema => match error.evaluation_path().as_str().rsplit('/').next() {
            // Beside no `properties` at all; the engine does not say which one it met.
            Some("additionalProperties" | "unevaluatedProperties") => "no property is allowed".to_owned(),
            _ => "is not allowed".to_owned(),
        },
        Kind::Contains => "must have the items that are asked for".to_owned(),
        Kind::ContentEncoding { content_encoding } => format!("must be encoded as {content_encoding}"),
        Kind::ContentMediaType { content_media_type } => format!("must hold {content_media_type}"),
        // What else there is comes of the schema or the engine, and its words are not for clients.
        _ => "could not be checked".to_owned(),
    }
}

/// `must be integer or null but found 'x'`.
pub fn must_be(kinds: &[impl AsRef<str>], found: &str) -> String {
    let kinds: Vec<&str> = kinds.iter().map(AsRef::as_ref).collect();
    format!("must be {} but found {found}", kinds.join(" or "))
}

/// A value in one short line; text in single quotes.
pub fn short(value: &Value) -> String {
    match value {
        Value::String(it) => quoted(it),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        it => cut(&it.to_string()),
    }
}

/// Text in single quotes, cut to one short line.
pub fn quoted(text: &str) -> String {
    format!("'{}'", cut(text))
}

/// Text without quotes, cut to one short line.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn count(bound: &str, limit: u64, [one, many]: [&str; 2], value: &Value) -> String {
    format!("must have {bound} {limit} {} but found {}", if limit == 1 { one } else { many }, length(value))
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(it) => it.chars().count(),
        Value::Array(it) => it.len(),
        Value::Object(it) => it.len(),
        _ => 0,
    }
}

fn list(options: &Value) -> String {
    const MOST: usize = 20;
    let all = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = String::new();
    for (at, it) in all.iter().take(MOST).enumerate() {
        let _ = write!(text, "{}{}", if at > 0 { ", " } else { "" }, short(it));
    }
    if all.len() > MOST {
        text.push_str(", …");
    }
    text
}

fn unknown(what: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().take(20).map(|it| quoted(it)).collect();
    format!("unknown {what}: {}", names.join(", "))
}

fn repeated(value: &Value) -> Option<(usize, usize)> {
    // Only a hint: a long list is not searched.
    let items = value.as_array().filter(|it| it.len() <= 200)?;
    (0..items.len()).find_map(|second| items[..second].iter().position(|it| *it == items[second]).map(|first| (first, second)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: Value, value: Value) -> Vec<(String, String, String)> {
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        tell(validator.iter_errors(&value), 100).into_iter().map(|it| (it.schema, it.pointer, it.message)).collect()
    }

    #[test]
    fn each_keyword_has_its_words() {
        for (schema, value, place, words) in [
            (json!({"type": "integer"}), json!("x"), "/type", "must be integer but found 'x'"),
            (json!({"type": ["integer", "null"]}), json!([1]), "/type", "must be null or integer but found an array"),
            (json!({"exclusiveMinimum": 1}), json!(-1), "/exclusiveMinimum", "must be > 1 but found -1"),
            (json!({"exclusiveMaximum": 1}), json!(1.5), "/exclusiveMaximum", "must be < 1 but found 1.5"),
            (json!({"minimum": 1}), json!(0), "/minimum", "must be >= 1 but found 0"),
            (json!({"maximum": 1}), json!(2), "/maximum", "must be <= 1 but found 2"),
            (json!({"multipleOf": 5}), json!(7), "/multipleOf", "must be a multiple of 5 but found 7"),
            (json!({"minLength": 2}), json!("\u{e9}"), "/minLength", "length must be >= 2 but found 1"),
            (json!({"maxLength": 2}), json!("abc"), "/maxLength", "length must be <= 2 but found 3"),
            (json!({"pattern": "^a"}), json!("b"), "/pattern", "must match pattern '^a' but found 'b'"),
            (json!({"format": "email"}), json!("b"), "/format", "must be a valid email but found 'b'"),
            (json!({"enum": ["a", 1]}), json!("b"), "/enum", "must be one of 'a', 1 but found 'b'"),
            (json!({"const": "a"}), json!("b"), "/const", "must be 'a' but found 'b'"),
            (json!({"minItems": 1}), json!([]), "/minItems", "must have at least 1 item but found 0"),
            (json!({"maxItems": 1}), json!([1, 2]), "/maxItems", "must have at most 1 item but found 2"),
            (json!({"uniqueItems": true}), json!([1, 2, 1]), "/uniqueItems", "items 0 and 2 are equal"),
            (json!({"required": ["name", "job_title"]}), json!({}), "/required", "missing properties: 'name', 'job_title'"),
            (json!({"required": ["a"]}), json!({}), "/required", "missing property: 'a'"),
            (json!({"additionalProperties": false}), json!({"x": 1}), "/additionalProperties", "no property is allowed"),
            (
                json!({"properties": {"a": {}}, "additionalProperties": false}),
                json!({"x": 1}),
                "/additionalProperties",
                "unknown properties: 'x'",
            ),
            (
                json!({"properties": {"age": {"exclusiveMinimum": 1}}}),
                json!({"age": -1}),
                "/properties/age/exclusiveMinimum",
                "must be > 1 but found -1",
            ),
            (json!({"not": {"type": "string"}}), json!("x"), "/not", "must not be what is excluded"),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"minimum": 3}}}), json!(1), "/$ref/minimum", "must be >= 3 but found 1"),
        ] {
            let found = told(schema.clone(), value);
            assert_eq!(found.iter().map(|it| (&*it.0, &*it.2)).collect::<Vec<_>>(), [(place, words)], "{schema}");
        }
    }

    #[test]
    fn faults_come_root_first_and_alternatives_tell_why_each_fails() {
        let schema = json!({"properties": {"a": {"anyOf": [{"type": "integer"}, {"minLength": 3}]}}, "required": ["b"]});
        let found = told(schema, json!({"a": "x"}));
        let places: Vec<_> = found.iter().map(|it| (&*it.0, &*it.1)).collect();
        assert_eq!(
            places,
            [
                ("/required", ""),
                ("/properties/a/anyOf", "/a"),
                ("/properties/a/anyOf/0/type", "/a"),
                ("/properties/a/anyOf/1/minLength", "/a"),
            ]
        );
    }

    #[test]
    fn a_long_value_is_cut() {
        let found = told(json!({"type": "integer"}), json!("\u{e9}".repeat(1000)));
        assert!(found[0].2.chars().count() < 120, "{}", found[0].2);
    }

    #[test]
    fn no_more_faults_are_told_than_asked_for() {
        let validator = jsonschema::validator_for(&json!({"items": {"type": "string"}})).unwrap();
        let value: Value = (0..1000).collect();
        assert_eq!(tell(validator.iter_errors(&value), 100).len(), 100);
    }
}
