//! What a body must be: its JSON Schema, compiled when the definition is loaded, and the faults of one body.
use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
};

use contract::{
    catalog::Fault,
    json::{JsonRef, Kind},
    problem::Detail,
};
use jsonschema::{Draft, Retrieve, Uri, Validator};
use serde_json::{Map, Value as Json};

use super::{
    endless,
    schema::{self, escaped},
    text::Kinds,
    wording::{self, MOST_FAULTS},
};

/// The largest schema that is read from a file, in bytes.
const MOST: u64 = 4 << 20;
/// The scheme of what stands for the folder of `allium.yaml` while references are resolved; nothing else is ever asked for it.
const BASE: &str = "allium:///";

/// A body's schema, ready.
pub struct BodySchema {
    check: Validator,
    /// Fields of a form, by the properties that the schema names.
    fields: Box<[(Box<str>, Field)]>,
}

/// What the texts of a form's field become.
#[derive(Clone, Copy)]
enum Field {
    One(Kinds),
    /// Repeats its name.
    List(Kinds),
}

/// A schema as it is written: with the path that its own references are relative to.
pub struct Written<'a> {
    pub schema: Json,
    /// The file that it stands in, relative to the folder of `allium.yaml`; none for one within a definition.
    pub file: Option<&'a str>,
}

impl<'a> Written<'a> {
    /// Reads the schema of a file. Errors: in words for an author.
    pub fn of_file(root: &Path, file: &'a str) -> Result<Self, String> {
        Ok(Self { schema: read(root, file)?, file: Some(file) })
    }
}

impl BodySchema {
    /// Compiles a schema; lists every fault, with pointers into it.
    pub fn compile(written: &Written<'_>, root: &Path) -> Result<Self, Vec<Fault>> {
        let schema = &written.schema;
        let draft = draft(schema)?;
        let faults = schema::body_faults(schema, draft);
        if !faults.is_empty() {
            return Err(faults);
        }
        if let Some(place) = endless::circle(schema) {
            let message = "the schema refers to itself without going into the value, so it would never end";
            return Err(vec![Fault::new(place, message)]);
        }
        let options =
            schema::asserting(draft).with_base_uri(format!("{BASE}{}", written.file.unwrap_or(""))).with_retriever(Files::new(root));
        let check = schema::build(options, schema).map_err(|it| vec![it])?;
        let mut fields = Vec::new();
        properties(schema, schema, &mut 10_000, &mut fields);
        Ok(Self { check, fields: fields.into() })
    }

    /// Every fault of a JSON body; at most [`MOST_FAULTS`].
    pub fn faults(&self, body: JsonRef<'_>) -> Vec<Detail> {
        self.told(&value(body))
    }

    /// Every fault of a form's fields, coerced to the types that the schema says.
    pub fn form_faults(&self, fields: &[(String, String)]) -> Vec<Detail> {
        let mut body = Map::new();
        let mut twice = Vec::new();
        for (name, text) in fields {
            let field = self.fields.iter().find(|(it, _)| **it == **name).map(|(_, it)| *it);
            let (kinds, list) = match field {
                Some(Field::One(it)) => (it, false),
                Some(Field::List(it)) => (it, true),
                None => (Kinds::STRING, false),
            };
            // What does not fit stays text, and the schema says why.
            let value = kinds.read(text).map_or_else(|| Json::String(text.clone()), |it| it.to_json());
            match body.get_mut(name) {
                None => drop(body.insert(name.clone(), if list { vec![value].into() } else { value })),
                Some(Json::Array(all)) if field.is_none() || list => all.push(value),
                Some(first) if field.is_none() => *first = vec![first.take(), value].into(),
                Some(_) => twice.push(name),
            }
        }
        let mut details = self.told(&Json::Object(body));
        twice.dedup();
        for name in twice {
            let count = fields.iter().filter(|(it, _)| it == name).count();
            details.push(Detail {
                place: "body",
                schema: format!("/properties/{}/type", escaped(name)),
                pointer: format!("/{}", escaped(name)),
                message: format!("must be given once but found {count} times"),
            });
        }
        details.truncate(MOST_FAULTS);
        details
    }

    fn told(&self, body: &Json) -> Vec<Detail> {
        if self.check.is_valid(body) {
            return Vec::new();
        }
        let told = wording::tell(self.check.iter_errors(body), MOST_FAULTS);
        told.into_iter().map(|it| Detail { place: "body", schema: it.schema, pointer: it.pointer, message: it.message }).collect()
    }
}

/// The files that a schema names by `$ref`, through other files too.
pub fn files(written: &Written<'_>, root: &Path) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut next = vec![(written.file.unwrap_or("").to_owned(), Cow::Borrowed(&written.schema))];
    while let Some((base, schema)) = next.pop() {
        let mut named = Vec::new();
        references(&schema, &mut named);
        for reference in named {
            let path = reference.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains(':') {
                continue;
            }
            let file = Path::new(&base).parent().unwrap_or(Path::new("")).join(path.trim_start_matches('/'));
            let Some(file) = plain(&file).filter(|it| !all.contains(it)) else { continue };
            all.push(file.clone());
            if let Ok(schema) = read(root, &file) {
                next.push((file, Cow::Owned(schema)));
            }
        }
    }
    all
}

fn references<'s>(schema: &'s Json, found: &mut Vec<&'s str>) {
    match schema {
        Json::Object(it) => it.iter().for_each(|(key, it)| match it {
            Json::String(text) if key == "$ref" => found.push(text),
            it => references(it, found),
        }),
        Json::Array(it) => it.iter().for_each(|it| references(it, found)),
        _ => (),
    }
}

/// A relative path without `.` and `..`; none for one that leads outside.
fn plain(path: &Path) -> Option<String> {
    let mut found = PathBuf::new();
    for it in path.components() {
        match it {
            Component::Normal(it) => found.push(it),
            Component::ParentDir if !found.pop() => return None,
            Component::ParentDir | Component::CurDir => (),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    found.into_os_string().into_string().ok()
}

/// Reads a file of the folder, links resolved. What went wrong names no more of the machine than the author wrote.
fn read(root: &Path, file: &str) -> Result<Json, String> {
    let told = |what: &str| format!("the schema {file} {what}");
    let found = root.canonicalize().and_then(|root| Ok((root.join(file).canonicalize()?, root)));
    let (path, root) = found.map_err(|it| told(&format!("cannot be read: {it}")))?;
    if !path.starts_with(&root) {
        return Err(told("lies outside the folder of allium.yaml"));
    }
    let meta = path.metadata().map_err(|it| told(&format!("cannot be read: {it}")))?;
    if !meta.is_file() || meta.len() > MOST {
        return Err(told("is no file of at most 4 MiB"));
    }
    let text = std::fs::read(&path).map_err(|it| told(&format!("cannot be read: {it}")))?;
    serde_json::from_slice(&text).map_err(|it| told(&format!("is not JSON: {it}")))
}

/// Gives referenced schemas: files of the folder, never the network.
struct Files {
    root: PathBuf,
}

impl Files {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }
}

impl Retrieve for Files {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let Some(path) = uri.as_str().strip_prefix(BASE) else {
            return Err(format!("{uri} is not looked up: a schema refers to itself and to files, never to the network").into());
        };
        let path = percent_encoding::percent_decode_str(path.split(['#', '?']).next().unwrap_or_default()).decode_utf8()?;
        let path = plain(Path::new(&*path)).ok_or("a schema's reference leads outside the folder of allium.yaml")?;
        Ok(read(&self.root, &path)?)
    }
}

fn draft(schema: &Json) -> Result<Draft, Vec<Fault>> {
    let Some(written) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let text = written.as_str().unwrap_or_default().trim_end_matches('#');
    let bare = text.trim_start_matches("https://").trim_start_matches("http://");
    Ok(match bare {
        "json-schema.org/draft-04/schema" => Draft::Draft4,
        "json-schema.org/draft-06/schema" => Draft::Draft6,
        "json-schema.org/draft-07/schema" => Draft::Draft7,
        "json-schema.org/draft/2019-09/schema" => Draft::Draft201909,
        "json-schema.org/draft/2020-12/schema" => Draft::Draft202012,
        _ => {
            return Err(vec![
                Fault::new("/$schema", "unknown draft of JSON Schema")
                    .help("https://json-schema.org/draft/2020-12/schema, http://json-schema.org/draft-07/schema# or draft-04"),
            ]);
        }
    })
}

/// What a body's value is, for the validator: a number beyond a double is the largest one.
pub fn value(json: JsonRef<'_>) -> Json {
    match json.kind() {
        Kind::Null => Json::Null,
        Kind::Bool => json.as_bool().into(),
        Kind::Number => number(json),
        Kind::String => Json::String(json.as_str().unwrap_or_default().into_owned()),
        // The parser bounds how deep this goes.
        Kind::Array => json.items().map(value).collect(),
        Kind::Object => Json::Object(json.members().map(|(key, it)| (key.as_str().unwrap_or_default().into_owned(), value(it))).collect()),
    }
}

fn number(json: JsonRef<'_>) -> Json {
    let text = json.as_number().unwrap_or("0");
    if let Ok(it) = text.parse::<i64>() {
        return it.into();
    }
    if let Ok(it) = text.parse::<u64>() {
        return it.into();
    }
    let number = text.parse::<f64>().unwrap_or(0.0);
    number.clamp(f64::MIN, f64::MAX).into()
}

/// The properties of a schema that a form's fields can be, through references within it and `allOf`.
fn properties(root: &Json, schema: &Json, left: &mut u32, found: &mut Vec<(Box<str>, Field)>) {
    // A schema may refer to itself, which `compile` has refused where it has no end; here it must only end.
    if *left == 0 {
        return;
    }
    *left -= 1;
    let schema = resolved(root, schema);
    for (name, it) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if !found.iter().any(|(known, _)| **known == **name) {
            found.push((name.as_str().into(), field(root, it)));
        }
    }
    for it in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
        properties(root, it, left, found);
    }
}

fn field(root: &Json, schema: &Json) -> Field {
    let schema = resolved(root, schema);
    let list = match schema.get("type") {
        Some(Json::Array(all)) => all.iter().any(|it| it == "array"),
        one => one.is_some_and(|it| it == "array"),
    };
    match list {
        true => Field::List(schema.get("items").map_or(Kinds::STRING, |it| Kinds::of(resolved(root, it)))),
        false => Field::One(Kinds::of(schema)),
    }
}

/// What a reference within the schema leads to.
fn resolved<'s>(root: &'s Json, mut schema: &'s Json) -> &'s Json {
    for _ in 0..8 {
        let Some(to) = schema.get("$ref").and_then(Json::as_str).and_then(|it| it.strip_prefix('#')) else { break };
        let Some(found) = root.pointer(to) else { break };
        schema = found;
    }
    schema
}

#[cfg(test)]
mod tests {
    use contract::json::JsonView;
    use serde_json::json;

    use super::*;

    fn compile(schema: Json) -> Result<BodySchema, Vec<Fault>> {
        BodySchema::compile(&Written { schema, file: None }, Path::new("."))
    }

    fn told(schema: Json, body: &str) -> Vec<(String, String)> {
        let schema = compile(schema).unwrap_or_else(|it| panic!("{it:?}"));
        let view = JsonView::parse(body.to_owned()).unwrap();
        schema.faults(view.root()).into_iter().map(|it| (it.schema, it.pointer)).collect()
    }

    #[test]
    fn faults_are_keyed_by_the_keyword_and_carry_the_value_s_place() {
        let person = json!({
            "type": "object",
            "required": ["name", "job_title"],
            "properties": {"age": {"type": "integer", "exclusiveMinimum": 1}, "tags": {"items": {"type": "string", "maxLength": 2}}},
        });
        let of = |it: &[(&str, &str)]| it.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>();
        assert_eq!(
            told(person.clone(), r#"{"age": -1, "tags": ["ok", "bad", 1]}"#),
            of(&[
                ("/required", ""),
                ("/properties/age/exclusiveMinimum", "/age"),
                ("/properties/tags/items/maxLength", "/tags/1"),
                ("/properties/tags/items/type", "/tags/2")
            ])
        );
        assert_eq!(told(person, r#"{"name": "王伟", "job_title": "x", "age": 40}"#), []);
    }

    #[test]
    fn the_draft_is_the_one_that_the_schema_names() {
        // In draft 4, a bound is made exclusive by a flag.
        let four = json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true});
        assert_eq!(told(four, "1").len(), 1);
        let seven = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false});
        assert_eq!(told(seven, r#"["a", 1]"#).len(), 1);
        let newest = json!({"prefixItems": [{"type": "string"}], "items": false});
        assert_eq!(told(newest, r#"["a", 1]"#).len(), 1);
        for (schema, at) in [
            (json!({"minimum": 1, "exclusiveMinimum": true}), "/exclusiveMinimum"),
            (json!({"$schema": "http://example.com/mine"}), "/$schema"),
        ] {
            assert_eq!(compile(schema).err().unwrap()[0].pointer, at);
        }
    }

    #[test]
    fn formats_are_asserted_and_patterns_are_bounded() {
        assert_eq!(told(json!({"format": "email"}), r#""x""#).len(), 1);
        assert_eq!(told(json!({"pattern": "^(?!admin)[a-z]+$"}), r#""administrator""#).len(), 1);
        assert_eq!(told(json!({"pattern": "^(?!admin)[a-z]+$"}), r#""user""#).len(), 0);
        let text = format!("\"{}!\"", "a".repeat(100_000));
        let before = std::time::Instant::now();
        // In linear time, and where it looks around, not for long.
        assert_eq!(told(json!({"pattern": "^(a|a)*$"}), &text).len(), 1);
        assert_eq!(told(json!({"pattern": "^(?=a)(a|a)*$"}), &text).len(), 1);
        assert!(before.elapsed().as_secs() < 5, "{:?}", before.elapsed());
    }

    #[test]
    fn numbers_of_any_length_are_held_to_their_bounds() {
        let long = "1".repeat(100_000);
        for (schema, body, count) in [
            (json!({"type": "integer"}), "1234567890123456789012345678901234567890", 0),
            (json!({"maximum": 9007199254740992u64}), "9007199254740993", 1),
            (json!({"maximum": 1}), "1e999999999", 1),
            (json!({"minimum": 0}), "-1e999999999", 1),
            (json!({"maximum": 1}), &*long, 1),
        ] {
            assert_eq!(told(schema, body).len(), count);
        }
    }

    #[test]
    fn what_has_no_end_or_leads_outside_is_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "https://example.com/other.json"}),
            json!({"$ref": "../../etc/passwd"}),
            json!({"$ref": "#/$defs/nobody"}),
            json!({"type": "objekt"}),
            json!({"requried": ["a"]}),
            json!({"pattern": "("}),
        ] {
            let faults = compile(schema.clone()).err().unwrap_or_else(|| panic!("{schema}"));
            assert!(!faults[0].message.is_empty() && !faults[0].message.contains("/work"), "{faults:?}");
        }
        // One that goes into the value has an end.
        let tree = json!({"properties": {"child": {"$ref": "#"}, "v": {"type": "integer"}}});
        assert_eq!(told(tree, r#"{"child": {"child": {"v": "x"}}}"#).len(), 1);
    }

    #[test]
    fn fields_of_a_form_are_coerced_as_a_query_is() {
        let schema = compile(json!({
            "required": ["name"],
            "properties": {"age": {"type": "integer"}, "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}}, "name": {"minLength": 2}},
            "$defs": {"id": {"type": "integer"}},
        }))
        .unwrap();
        let told = |fields: &[(&str, &str)]| {
            let fields: Vec<_> = fields.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
            schema.form_faults(&fields).into_iter().map(|it| it.schema).collect::<Vec<_>>()
        };
        assert_eq!(told(&[("name", "王伟"), ("age", "40"), ("ids", "1"), ("ids", "2"), ("more", "x"), ("more", "y")]), [""; 0]);
        assert_eq!(told(&[("age", "x"), ("ids", "y")]), ["/required", "/properties/age/type", "/properties/ids/items/$ref/type"]);
        assert_eq!(told(&[("name", "ab"), ("age", "1"), ("age", "2")]), ["/properties/age/type"]);
    }
}
