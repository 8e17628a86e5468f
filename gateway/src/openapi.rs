//! The OpenAPI 3.1 document of what is published: a view of the definitions, so it is always true.
mod operation;
mod path;
mod published;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use schemas::{emit, yaml};
use serde_json::{Map, Value, json};

use self::{operation::Described, schema::Schemas};
pub use self::{
    path::{Route, Segment},
    published::{Published, RingView},
};

/// What is asked for.
pub struct Ask<'a> {
    /// The document's title.
    pub title: &'a str,
    /// The revision of the definitions, or another version of the document.
    pub version: &'a str,
    /// Where clients reach the gateway, such as `https://api.example.com`.
    pub server: &'a str,
    /// Only Apis with this tag.
    pub audience: Option<&'a str>,
    /// Only Apis that this host reaches.
    pub host: Option<&'a str>,
    /// Reads a file that a definition names, relative to the folder of `allium.yaml`.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
}

/// A document, and what could not be put into it.
pub struct Made {
    pub document: Value,
    /// Sentences for the owner of the definitions, each with the name of an Api.
    pub notes: Vec<String>,
}

/// Makes the document of all Apis that are published: drafts are not there yet, retired ones not any more.
///
/// Source: the OpenAPI Specification 3.1.1. A path stands in it once, whatever its host, so of two Apis that differ in their host
/// or condition alone the first is described and the other named in `x-allium-also`; ask with a host for a document of that host.
pub fn make(apis: &[Published<'_>], ask: &Ask<'_>) -> Made {
    let mut notes = Vec::new();
    let mut schemas = Schemas::new(ask.read);
    let mut paths: BTreeMap<String, (String, Map<String, Value>)> = BTreeMap::new();
    let (mut tags, mut security) = (BTreeSet::new(), Map::new());
    let seen = |it: &&Published<'_>| {
        !matches!(it.state(), "draft" | "retired") && ask.audience.is_none_or(|tag| it.tags().iter().any(|it| it == tag))
    };
    for api in apis.iter().filter(seen) {
        let routes: Vec<&Route> = api.routes.iter().filter(|it| ask.host.is_none_or(|host| it.serves(host))).collect();
        let described = Described::of(api, &mut schemas, &mut security, &mut notes);
        let count: usize = routes.iter().map(|it| it.operations().count()).sum();
        let mut number = 0;
        for route in routes {
            let (key, captures) = route.key();
            for custom in route.methods.iter().filter(|it| !path::is_described(it)) {
                notes.push(format!("{}: OpenAPI 3.1 has no place for the method {custom}", api.shown()));
            }
            let (shown, item) = paths.entry(key).or_insert_with(|| (route.shown(), Map::new()));
            let names = path::captures(shown);
            for method in route.operations() {
                number += 1;
                let word = method.to_ascii_lowercase();
                if let Some(first) = item.get_mut(&word) {
                    notes.push(format!(
                        "{}: {method} {shown} is described by {}; the two differ in their host or condition alone",
                        api.shown(),
                        first["x-allium-api"].as_str().unwrap_or_default()
                    ));
                    if let Some(also) = first.as_object_mut().map(|it| it.entry("x-allium-also").or_insert_with(|| json!([])))
                        && let Some(also) = also.as_array_mut()
                        && !also.iter().any(|it| *it == *api.shown())
                    {
                        also.push(api.shown().into());
                    }
                    continue;
                }
                let id = match count {
                    1 => described.id.clone(),
                    _ => format!("{}_{word}_{number}", described.id),
                };
                tags.extend(api.tags().iter().cloned());
                item.insert(word, described.operation(id, method, route, &captures, &names, ask.server));
            }
        }
    }
    let paths: Map<String, Value> =
        paths.into_values().filter(|(_, item)| !item.is_empty()).map(|(shown, item)| (shown, Value::Object(item))).collect();
    let mut components = json!({"schemas": operation::error_schemas(), "headers": operation::headers()});
    if let Some(Value::Object(all)) = components.get_mut("schemas") {
        all.extend(schemas.into_named(&mut notes));
    }
    if !security.is_empty() {
        components["securitySchemes"] = Value::Object(security);
    }
    let mut document = json!({
        "openapi": "3.1.1",
        "info": {"title": ask.title, "version": ask.version},
        "servers": [{"url": ask.server}],
        "tags": tags.iter().map(|it| json!({"name": it})).collect::<Vec<_>>(),
        "paths": paths,
        "components": components,
    });
    if tags.is_empty()
        && let Some(it) = document.as_object_mut()
    {
        it.shift_remove("tags");
    }
    notes.sort();
    notes.dedup();
    Made { document, notes }
}

/// The document as text: JSON, or YAML.
pub fn written(document: &Value, as_yaml: bool) -> String {
    let json = format!("{document:#}\n");
    // Every JSON text is YAML too, so it can be read and written anew.
    let read = |json: &str| yaml::documents(json).first().and_then(|it| yaml::read(json, *it).root.map(|it| emit::yaml(&it)));
    match as_yaml.then(|| read(&json)).flatten() {
        Some(it) => it,
        None => json,
    }
}
