//! Finds a schema that refers to itself without going into the value: checking by it would never end, or say nothing.
use std::collections::HashMap;

use serde_json::Value;

use super::schema::escaped;

/// References in a row; more are taken for a circle.
const DEEPEST: usize = 200;

/// The place of a reference that leads back to where it stands.
pub fn circle(root: &Value) -> Option<String> {
    let mut search = Search { root, known: HashMap::new() };
    search.every(root, String::new())
}

struct Search<'s> {
    root: &'s Value,
    /// Places that were looked at: false while they are on the way.
    known: HashMap<String, bool>,
}

impl<'s> Search<'s> {
    /// Looks at every place of the document as the beginning of a way.
    fn every(&mut self, value: &'s Value, place: String) -> Option<String> {
        match value {
            Value::Object(map) => {
                if let Some(found) = self.follow(value, &place, 0) {
                    return Some(found);
                }
                map.iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "const" | "enum" | "default" | "examples"))
                    .find_map(|(key, it)| self.every(it, format!("{place}/{}", escaped(key))))
            }
            Value::Array(all) => all.iter().enumerate().find_map(|(at, it)| self.every(it, format!("{place}/{at}"))),
            _ => None,
        }
    }

    /// Follows what is asked of the same value.
    fn follow(&mut self, schema: &'s Value, place: &str, depth: usize) -> Option<String> {
        let Value::Object(map) = schema else { return None };
        match self.known.get(place) {
            Some(true) => return None,
            Some(false) => return Some(place.to_owned()),
            None if depth > DEEPEST => return Some(place.to_owned()),
            None => drop(self.known.insert(place.to_owned(), false)),
        }
        for (key, it) in map {
            let found = match (key.as_str(), it) {
                ("$ref", Value::String(to)) => match to.strip_prefix('#') {
                    Some(to) if to.is_empty() || to.starts_with('/') => {
                        let to = percent_encoding::percent_decode_str(to).decode_utf8_lossy().into_owned();
                        self.root.pointer(&to).and_then(|it| self.follow(it, &to, depth + 1))
                    }
                    _ => None,
                },
                ("not" | "if" | "then" | "else", it) => self.follow(it, &format!("{place}/{key}"), depth + 1),
                ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                    all.iter().enumerate().find_map(|(at, it)| self.follow(it, &format!("{place}/{key}/{at}"), depth + 1))
                }
                ("dependentSchemas" | "dependencies", Value::Object(all)) => {
                    all.iter().find_map(|(name, it)| self.follow(it, &format!("{place}/{key}/{}", escaped(name)), depth + 1))
                }
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        self.known.insert(place.to_owned(), true);
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_circle_that_stays_at_one_value_is_found() {
        for (schema, found) in [
            (json!({"$ref": "#"}), true),
            (json!({"allOf": [{"$ref": "#"}]}), true),
            (
                json!({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
                true,
            ),
            (json!({"properties": {"child": {"$ref": "#"}}, "items": {"$ref": "#"}}), false),
            (json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}}), false),
            (json!({"const": {"$ref": "#"}}), false),
        ] {
            assert_eq!(circle(&schema).is_some(), found, "{schema}");
        }
    }
}
