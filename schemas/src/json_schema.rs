//! The JSON Schema of the YAML, for editors: keys, words, defaults and comments of every message, and every plugin's config.
//!
//! Draft 7, which every editor's YAML support knows; what the plugins' schemas say in later drafts is rewritten where it matters.

use serde_json::{Map, Value as Json, json};

use crate::{
    document::Kind,
    form::Form,
    plugin::KEYWORDS,
    shape::{Field, SHAPES, Shape, Special, Type, Way},
};

/// The schema of a definition. `plugins` are name, one line about it, and the schema of the config as `schemars` makes it.
pub fn json_schema(plugins: &[(&str, &str, Json)]) -> Json {
    let mut definitions = Map::new();
    for shape in SHAPES.iter().filter(|shape| !matches!(shape.name.as_str(), "Definitions" | "Definition")) {
        let schema = match shape.special {
            Special::Json => json!({}),
            Special::Ring => ring(shape, plugins),
            Special::None => message(shape),
        };
        definitions.insert(shape.name.clone(), schema);
    }
    for (name, about, schema) in plugins {
        definitions.insert(format!("plugin.{name}"), plugin(name, about, schema));
    }
    let mut rules = Vec::new();
    for kind in Kind::ALL {
        let name = kind.name();
        if let Some(schema) = definitions.get_mut(name) {
            let about = schema["description"].clone();
            schema["properties"]["kind"] = json!({"const": name, "description": about});
        }
        rules.push(json!({
            "if": {"properties": {"kind": {"const": name}}, "required": ["kind"]},
            "then": {"$ref": format!("#/definitions/{name}")},
        }));
    }
    let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Allium definition",
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"enum": kinds, "description": "What this document defines."}},
        "allOf": rules,
        "definitions": definitions,
    })
}

fn message(shape: &Shape) -> Json {
    let mut ways: Vec<Json> = shape.bare.iter().map(|at| field(&shape.fields[*at])).collect();
    if !shape.keys.is_empty() {
        ways.push(object(shape));
    }
    match ways.len() {
        1 => described(ways.remove(0), &shape.about),
        _ => described(json!({"anyOf": ways}), &shape.about),
    }
}

fn object(shape: &Shape) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, way) in &shape.keys {
        let found = shape.field(*way);
        // The first field of a message that is written under its name is that name.
        if is_key(shape, *way) {
            continue;
        }
        properties.insert(name.clone(), field(found));
        if found.required {
            required.push(name.clone());
        }
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    if let Some(rest) = shape.rest {
        for (keyword, _) in KEYWORDS.iter().filter(|_| shape.fields[rest].form == Form::JsonSchema) {
            properties.entry(*keyword).or_insert_with(|| json!({"description": "A keyword of JSON Schema."}));
        }
    }
    schema.insert("properties".to_owned(), Json::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(shape.rest.is_some() && !strict_rest(shape)));
    if strict_rest(shape) {
        schema.insert("patternProperties".to_owned(), json!({"^x-": {}}));
    }
    if let Some(told_by) = &shape.told_by {
        required.push(told_by.clone());
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let mut unions: Vec<Json> = unions(shape).into_iter().map(|names| one_of(&names)).collect();
    if !shape.some_of.is_empty() {
        unions.push(one_of(&shape.some_of.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    match unions.len() {
        0 => {}
        1 => schema.extend(unions.remove(0).as_object().cloned().unwrap_or_default()),
        _ => drop(schema.insert("allOf".to_owned(), Json::Array(unions))),
    }
    Json::Object(schema)
}

/// Keys beside the named ones are keywords of JSON Schema and nothing else.
fn strict_rest(shape: &Shape) -> bool {
    shape.rest.is_some_and(|rest| shape.fields[rest].form == Form::JsonSchema)
}

fn one_of(names: &[&str]) -> Json {
    json!({"oneOf": names.iter().map(|name| json!({"required": [name]})).collect::<Vec<_>>()})
}

/// The keys of every union of which exactly one must be written.
fn unions(shape: &Shape) -> Vec<Vec<&str>> {
    let own = (0..shape.unions.len()).filter(|at| !shape.unions[*at].none_too).map(|number| {
        let member = |way: &Way| matches!(way, Way::Own(at) if shape.fields[*at].union == Some(number));
        shape.keys.iter().filter(|(_, way)| member(way)).map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    });
    let flat = shape.fields.iter().enumerate().filter(|(_, field)| field.flatten).map(|(outer, _)| {
        let member = |way: &Way| matches!(way, Way::Flat { outer: o, .. } if *o == outer) && shape.field(*way).union.is_some();
        shape.keys.iter().filter(|(_, way)| member(way)).map(|(name, _)| name.as_str()).collect()
    });
    own.chain(flat).filter(|names| !names.is_empty()).collect()
}

fn is_key(shape: &Shape, way: Way) -> bool {
    matches!(way, Way::Own(0))
        && SHAPES.iter().flat_map(|other| &other.fields).any(|field| field.keyed && field.kind == Type::Message(SHAPES.named(&shape.name)))
}

fn field(field: &Field) -> Json {
    let element = element(field);
    let schema = match (field.repeated, field.keyed) {
        (false, _) => element,
        (true, true) => json!({"type": "object", "additionalProperties": element}),
        (true, false) => {
            let mut list = json!({"type": "array", "items": element});
            if field.filled {
                list["minItems"] = json!(1);
            }
            if field.one { json!({"anyOf": [element, list]}) } else { list }
        }
    };
    let mut schema = described(schema, &field.about);
    if let Some(preset) = &field.preset {
        schema["default"] = default(preset, field);
    }
    if !field.examples.is_empty() {
        schema["examples"] = json!(field.examples);
    }
    schema
}

fn default(preset: &str, field: &Field) -> Json {
    let read = crate::yaml::read(preset, crate::source::Span::new(0, preset.len()));
    match (field.kind, read.root) {
        (Type::Text, Some(root)) if !matches!(root.value, crate::tree::Value::List(_)) => json!(preset),
        (_, Some(root)) => serde_json::from_str(&root.to_json()).unwrap_or_default(),
        (_, None) => Json::Null,
    }
}

fn element(field: &Field) -> Json {
    match field.kind {
        Type::Bool => json!({"type": "boolean"}),
        Type::Number => json!({"type": "number"}),
        Type::Whole { signed } => {
            let mut schema = json!({"type": "integer"});
            if let Some(least) = field.least.or((!signed).then_some(0)) {
                schema["minimum"] = json!(least);
            }
            if let Some(most) = field.most {
                schema["maximum"] = json!(most);
            }
            schema
        }
        Type::Message(id) if SHAPES.get(id).special == Special::Json && field.form == Form::JsonSchema => {
            json!({"type": ["object", "boolean"]})
        }
        Type::Message(id) => json!({"$ref": format!("#/definitions/{}", SHAPES.get(id).name)}),
        Type::Text if !field.words.is_empty() => json!({"enum": field.words}),
        Type::Text => {
            let mut schema = json!({"type": if field.number_too { json!(["string", "number"]) } else { json!("string") }});
            if let Some((pattern, examples)) = looks(field.form) {
                schema["pattern"] = json!(pattern);
                schema["examples"] = json!(examples);
            }
            schema
        }
    }
}

/// What the texts of a form look like.
fn looks(form: Form) -> Option<(&'static str, &'static [&'static str])> {
    Some(match form {
        Form::Duration => (r"^\d+(\.\d+)?(ms|s|m|h|d)$", &["500ms", "2s"]),
        Form::DurationRange => (r"^\d+(\.\d+)?(ms|s|m|h|d)(\.\.\d+(\.\d+)?(ms|s|m|h|d))?$", &["50ms..1s"]),
        Form::Size => (r"^\d+(\.\d+)?(B|KiB|MiB|GiB)$", &["64KiB", "1MiB"]),
        Form::Rate => (r"^\d+(\.\d+)?/(s|m|h|d|\d+(\.\d+)?(ms|s|m|h|d))$|\$\{", &["100/s"]),
        Form::Percent => (r"^\d+(\.\d+)?%$", &["20%"]),
        Form::Name => ("^[a-z0-9-]+$", &[]),
        Form::Version => ("^[A-Za-z0-9._-]+$", &["v1"]),
        Form::Identifier => ("^[A-Za-z_][A-Za-z0-9_]*$", &[]),
        Form::Date => (r"^\d{4}-\d{2}-\d{2}$", &["2027-04-01"]),
        Form::OnChange => (r"^(keep|close|drain \d+(\.\d+)?(ms|s|m|h|d))$", &["keep"]),
        _ => return None,
    })
}

/// Editors of draft 7 read nothing beside `$ref`: what is said of the place goes around it.
fn described(schema: Json, about: &str) -> Json {
    let mut schema = if schema.get("$ref").is_some() { json!({"allOf": [schema]}) } else { schema };
    if let (Json::Object(schema), false) = (&mut schema, about.is_empty()) {
        schema.insert("description".to_owned(), json!(about));
    }
    schema
}

fn ring(shape: &Shape, plugins: &[(&str, &str, Json)]) -> Json {
    let mut properties = Map::new();
    properties.insert("use".to_owned(), field(&shape.fields[3]));
    properties.insert("when".to_owned(), field(&shape.fields[2]));
    properties
        .insert("validate".to_owned(), json!({"type": ["object", "null"], "description": "Moves validation to this place in the list."}));
    for (name, about, _) in plugins {
        properties.insert((*name).to_owned(), described(json!({"$ref": format!("#/definitions/plugin.{name}")}), about));
    }
    let others: Vec<Json> = properties.keys().filter(|name| *name != "when").map(|name| json!({"required": [name]})).collect();
    let mut schema =
        json!({"type": "object", "description": shape.about, "properties": properties, "additionalProperties": plugins.is_empty()});
    if !plugins.is_empty() {
        schema["oneOf"] = Json::Array(others);
    }
    schema
}

/// A plugin's schema as a part of this one: references lead to its new place, and nothing may be written where every key has a default.
fn plugin(name: &str, about: &str, schema: &Json) -> Json {
    let mut schema = moved(schema, &format!("#/definitions/plugin.{name}"));
    if let Json::Object(map) = &mut schema {
        map.remove("$schema");
        map.remove("$id");
        map.remove("title");
        if !about.is_empty() {
            map.insert("description".to_owned(), json!(about));
        }
        let demands = map.get("required").and_then(Json::as_array).is_some_and(|required| !required.is_empty());
        if let (Some(kind), false) = (map.get_mut("type"), demands)
            && *kind == json!("object")
        {
            *kind = json!(["object", "null"]);
        }
    }
    schema
}

fn moved(schema: &Json, to: &str) -> Json {
    match schema {
        Json::Array(items) => Json::Array(items.iter().map(|item| moved(item, to)).collect()),
        Json::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref", Json::String(reference)) if reference.starts_with('#') => {
                        out.insert(key.clone(), json!(format!("{to}{}", &reference[1..])));
                    }
                    ("prefixItems", items @ Json::Array(_)) => drop(out.insert("items".to_owned(), moved(items, to))),
                    _ => drop(out.insert(key.clone(), moved(value, to))),
                }
            }
            match (out.contains_key("$ref"), out.len()) {
                (true, 2..) => {
                    let reference = json!({"$ref": out.remove("$ref")});
                    let all = out.entry("allOf").or_insert_with(|| json!([]));
                    if let Json::Array(all) = all {
                        all.push(reference);
                    }
                    Json::Object(out)
                }
                _ => Json::Object(out),
            }
        }
        other => other.clone(),
    }
}
