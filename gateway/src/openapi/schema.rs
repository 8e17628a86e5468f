//! The JSON Schemas of bodies, put where an OpenAPI document keeps them.
use std::collections::BTreeMap;

use schemas::v1::{self, schema_ref::Written};
use serde_json::{Map, Value, json};

/// All schemas of a document, by their names.
pub struct Schemas<'a> {
    read: &'a dyn Fn(&str) -> Result<String, String>,
    named: BTreeMap<String, Value>,
    /// Files that are there already, by their names.
    files: BTreeMap<String, String>,
    unread: Vec<String>,
}

impl<'a> Schemas<'a> {
    pub fn new(read: &'a dyn Fn(&str) -> Result<String, String>) -> Self {
        Self { read, named: BTreeMap::new(), files: BTreeMap::new(), unread: Vec::new() }
    }

    /// A reference to a schema, which is named `name` unless its file has a name already.
    pub fn put(&mut self, name: &str, it: &v1::SchemaRef) -> Option<Value> {
        match it.written.as_ref()? {
            Written::Inline(it) => {
                let schema = serde_json::from_str(&it.text).ok()?;
                Some(self.add(name, schema))
            }
            Written::File(file) => {
                if let Some(known) = self.files.get(file) {
                    return Some(reference(known));
                }
                let schema = (self.read)(file).and_then(|text| serde_json::from_str(&text).map_err(|it| it.to_string()));
                match schema {
                    Ok(schema) => {
                        let found = self.add(name, schema);
                        self.files.insert(file.clone(), self.last(name));
                        Some(found)
                    }
                    Err(why) => {
                        self.unread.push(format!("{name}: the schema {file} cannot be read: {why}"));
                        None
                    }
                }
            }
        }
    }

    fn add(&mut self, name: &str, mut schema: Value) -> Value {
        let mut free = name.to_owned();
        let mut number = 2;
        while self.named.contains_key(&free) {
            free = format!("{name}.{number}");
            number += 1;
        }
        rebase(&mut schema, &format!("#/components/schemas/{free}"));
        self.named.insert(free.clone(), schema);
        reference(&free)
    }

    /// The name that was given last for `name`.
    fn last(&self, name: &str) -> String {
        (2..).map(|it| format!("{name}.{it}")).take_while(|it| self.named.contains_key(it)).last().unwrap_or_else(|| name.to_owned())
    }

    pub fn into_named(self, notes: &mut Vec<String>) -> Map<String, Value> {
        notes.extend(self.unread);
        self.named.into_iter().collect()
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A schema's references into itself begin at its own root, which inside of another document is elsewhere (RFC 6901, RFC 3986 §5.1).
fn rebase(schema: &mut Value, base: &str) {
    match schema {
        // One with an id of its own is its own root wherever it stands.
        Value::Object(it) if it.contains_key("$id") => (),
        Value::Object(it) => {
            for (key, value) in it {
                match value {
                    Value::String(text) if key == "$ref" && (text == "#" || text.starts_with("#/")) => {
                        *text = format!("{base}{}", &text[1..])
                    }
                    // What looks like a reference inside of a value is none.
                    _ if matches!(key.as_str(), "const" | "enum" | "default" | "example" | "examples") => (),
                    _ => rebase(value, base),
                }
            }
        }
        Value::Array(it) => it.iter_mut().for_each(|it| rebase(it, base)),
        _ => (),
    }
}
