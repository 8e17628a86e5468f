//! A schema as an author wrote it: every fault in it, and the validator made of it.
use std::sync::LazyLock;

use contract::catalog::Fault;
use jsonschema::{Draft, PatternOptions, ValidationOptions, Validator};
use serde_json::{Map, Value};

use super::wording;

/// The keywords of JSON Schema 2020-12.
const KEYWORDS: [&str; 60] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "definitions",
    "dependencies",
    "example",
];

/// Keywords that no value can fail.
const NOTES: [&str; 12] = [
    "$comment",
    "$schema",
    "$id",
    "$anchor",
    "default",
    "deprecated",
    "description",
    "example",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Formats of OpenAPI that tell a program how to hold a value, and restrict none that fits its type.
const HINTS: [&str; 5] = ["binary", "byte", "double", "float", "password"];

/// `int32` and `int64` are checked where a text becomes an integer.
pub const SIZED: [(&str, u8); 2] = [("int32", 32), ("int64", 64)];

const FORMATS: [&str; 19] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// What other formats spell otherwise.
const ABROAD: [(&str, &str); 4] = [
    ("nullable", "write type: [string, 'null']"),
    ("schema", "JSON Schema keywords stand beside `in`, without `schema`"),
    ("name", "the key is the parameter's name"),
    ("style", "lists repeat the name, or are split at commas with explode: false"),
];

/// Keywords of older drafts.
const OLDER: [&str; 4] = ["additionalItems", "$recursiveAnchor", "$recursiveRef", "id"];

/// Lists every fault of a parameter's schema; `own` are keys that stand beside the keywords at its root and mean something else.
pub fn faults(schema: &Value, own: &[&str], pointer: &str) -> Vec<Fault> {
    let mut reader = Reader { found: Vec::new(), body: false };
    reader.keywords(schema, own, pointer);
    // What JSON Schema itself says of the shapes of keywords.
    let plain = without(schema, own);
    let meta = jsonschema::draft202012::meta::validator();
    shapes(wording::tell(meta.iter_errors(&plain), 100), pointer, reader.found)
}

/// Lists every fault of a body's schema, whose draft is `draft`. Keywords that nobody knows are notes, unless they look like a slip.
pub fn body_faults(schema: &Value, draft: Draft) -> Vec<Fault> {
    let mut reader = Reader { found: Vec::new(), body: true };
    reader.keywords(schema, &[], "");
    let told = match draft {
        Draft::Draft4 => wording::tell(jsonschema::draft4::meta::validator().iter_errors(schema), 100),
        Draft::Draft6 => wording::tell(jsonschema::draft6::meta::validator().iter_errors(schema), 100),
        Draft::Draft7 => wording::tell(jsonschema::draft7::meta::validator().iter_errors(schema), 100),
        Draft::Draft201909 => wording::tell(jsonschema::draft201909::meta::validator().iter_errors(schema), 100),
        _ => wording::tell(jsonschema::draft202012::meta::validator().iter_errors(schema), 100),
    };
    shapes(told, "", reader.found)
}

fn shapes(told: Vec<wording::Told>, pointer: &str, mut found: Vec<Fault>) -> Vec<Fault> {
    for it in told {
        let place = format!("{pointer}{}", it.pointer);
        if !found.iter().any(|it| it.pointer == place || it.pointer.starts_with(&format!("{place}/"))) {
            found.push(Fault::new(place, it.message));
        }
    }
    found
}

/// The schema without the keys of `own`.
pub fn without(schema: &Value, own: &[&str]) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    map.iter().filter(|(key, _)| !own.contains(&key.as_str())).map(|(key, it)| (key.clone(), it.clone())).collect::<Map<_, _>>().into()
}

/// Makes the validator; `None` where nothing is left to check once the type is known.
pub fn compile(schema: &Value, typed: bool) -> Result<Option<Validator>, Fault> {
    if typed && bare(schema) {
        return Ok(None);
    }
    build(asserting(Draft::Draft202012).offline(), schema).map(Some)
}

/// How often a pattern that looks around may take back a step, in one text; beyond, the text does not fit.
const MOST_BACKTRACKS: usize = 5_000;

/// The options of this gateway: formats are asserted.
pub fn asserting<'o>(draft: Draft) -> ValidationOptions<'o> {
    jsonschema::options().with_draft(draft).should_validate_formats(true)
}

/// Makes a validator of a schema. Patterns run in linear time, but for those that look around, which are bounded.
pub fn build(options: ValidationOptions<'_>, schema: &Value) -> Result<Validator, Fault> {
    let linear = options.clone().with_pattern_options(PatternOptions::regex()).build(schema);
    linear
        .or_else(|_| options.with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(MOST_BACKTRACKS)).build(schema))
        .map_err(|error| Fault::new(error.instance_path().as_str(), error.to_string()))
}

/// Whether only `type` says something, here and in the items.
fn bare(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    map.iter().all(|(key, it)| match key.as_str() {
        "type" => true,
        "items" => it.get("type").is_some_and(|it| it != "array" && it != "object") && bare(it),
        "format" => it.as_str().is_some_and(|it| HINTS.contains(&it) || SIZED.iter().any(|(name, _)| *name == it)),
        key => NOTES.contains(&key) || key.starts_with("x-"),
    })
}

/// Reads a schema for slips.
struct Reader {
    found: Vec<Fault>,
    /// Of a body: any draft, and keywords of others may stand in it.
    body: bool,
}

impl Reader {
    fn keywords(&mut self, schema: &Value, own: &[&str], pointer: &str) {
        let Value::Object(map) = schema else { return };
        for (key, it) in map {
            let place = format!("{pointer}/{}", escaped(key));
            if own.contains(&key.as_str()) {
                continue;
            }
            match key.as_str() {
                "type" => types(it, &place, &mut self.found),
                "pattern" => pattern(it, &place, &mut self.found),
                "format" => format_name(it, &place, &mut self.found),
                "items"
                | "additionalItems"
                | "contains"
                | "not"
                | "if"
                | "then"
                | "else"
                | "additionalProperties"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contentSchema"
                | "allOf"
                | "anyOf"
                | "oneOf"
                | "prefixItems" => {
                    self.keywords(it, &[], &place);
                    for (at, it) in it.as_array().into_iter().flatten().enumerate() {
                        self.keywords(it, &[], &format!("{place}/{at}"));
                    }
                }
                "$defs" | "definitions" | "properties" | "patternProperties" | "dependentSchemas" | "dependencies" => {
                    for (name, it) in it.as_object().into_iter().flatten() {
                        let place = format!("{place}/{}", escaped(name));
                        if key == "patternProperties" {
                            pattern(&Value::String(name.clone()), &place, &mut self.found);
                        }
                        self.keywords(it, &[], &place);
                    }
                }
                key if KEYWORDS.contains(&key) || key.starts_with("x-") || (self.body && OLDER.contains(&key)) => {}
                key => self.unknown(key, own, place),
            }
        }
    }

    fn unknown(&mut self, key: &str, own: &[&str], place: String) {
        let fault = Fault::new(place, format!("unknown keyword '{key}'"));
        self.found.push(match (ABROAD.iter().find(|(name, _)| *name == key), near(key, own.iter().chain(&KEYWORDS).copied())) {
            (Some((_, help)), _) if !own.is_empty() || key == "nullable" => fault.help(*help),
            (_, Some(near)) => fault.help(format!("did you mean '{near}'?")),
            _ if self.body => return,
            _ => fault,
        });
    }
}

fn types(value: &Value, place: &str, found: &mut Vec<Fault>) {
    let one = |it: &Value, place: String, found: &mut Vec<Fault>| {
        let Some(name) = it.as_str() else {
            let fault = Fault::new(place, "a type is a name");
            return found.push(if it.is_null() { fault.help("write 'null' in quotes") } else { fault });
        };
        if !TYPES.contains(&name) {
            let fault = Fault::new(place, format!("unknown type '{name}'"));
            found.push(match (name, near(name, TYPES.into_iter())) {
                ("int" | "long", _) => fault.help("did you mean 'integer'?"),
                ("float" | "double" | "decimal", _) => fault.help("did you mean 'number'?"),
                ("list", _) => fault.help("did you mean 'array'?"),
                (_, Some(near)) => fault.help(format!("did you mean '{near}'?")),
                _ => fault.help(format!("a type is one of {}", TYPES.join(", "))),
            });
        }
    };
    match value {
        Value::Array(all) => all.iter().enumerate().for_each(|(at, it)| one(it, format!("{place}/{at}"), found)),
        it => one(it, place.to_owned(), found),
    }
}

fn pattern(value: &Value, place: &str, found: &mut Vec<Fault>) {
    let Some(text) = value.as_str() else { return };
    if compile(&serde_json::json!({"pattern": text}), false).is_ok() {
        return;
    }
    found.push(match regex::Regex::new(text) {
        Err(error) => Fault::new(place, format!("not a regular expression: {}", last_line(&error.to_string()))),
        Ok(_) => Fault::new(place, "not a regular expression"),
    });
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

fn format_name(value: &Value, place: &str, found: &mut Vec<Fault>) {
    static OPTIONS: LazyLock<jsonschema::ValidationOptions<'static>> = LazyLock::new(jsonschema::options);
    let Some(name) = value.as_str() else { return };
    let hint = HINTS.contains(&name) || SIZED.iter().any(|(it, _)| *it == name);
    if !hint && !OPTIONS.is_known_format(Draft::Draft202012, name) {
        let known = || FORMATS.into_iter().chain(HINTS).chain(SIZED.map(|(it, _)| it));
        let fault = Fault::new(place, format!("unknown format '{name}'"));
        found.push(match near(name, known()) {
            Some(near) => fault.help(format!("did you mean '{near}'?")),
            None => fault.help(format!("a format is one of {}", known().collect::<Vec<_>>().join(", "))),
        });
    }
}

/// The known name that `name` is most likely a slip of; underscores and case do not count.
pub fn near<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |it: &str| it.replace(['_', '-'], "").to_ascii_lowercase();
    let wanted = plain(name);
    known
        .map(|it| (strsim::damerau_levenshtein(&wanted, &plain(it)), it))
        .filter(|(distance, it)| *distance <= (it.len().max(name.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, it)| it)
}

/// One key inside a JSON Pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
