//! What an answer lacks of what was expected.
use serde_json::Value;

/// One difference, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `status`, `header x-partial`, `body /items/0/id`.
    pub at: String,
    /// Nothing where there is no more to say than what came.
    pub expected: Option<String>,
    pub got: String,
}

impl Difference {
    pub fn new(at: impl Into<String>, expected: impl ToString, got: impl ToString) -> Self {
        Self { at: at.into(), expected: Some(expected.to_string()), got: got.to_string() }
    }
}

/// What `got` lacks of `expected`: an object may hold more, a list has the same length.
pub fn subset(expected: &Value, got: &Value, pointer: &str, found: &mut Vec<Difference>) {
    let at = || format!("body {pointer}").trim_end().to_owned();
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            for (key, value) in expected {
                let pointer = format!("{pointer}/{}", schemas::tree::escape(key));
                match got.get(key) {
                    Some(it) => subset(value, it, &pointer, found),
                    None => found.push(Difference::new(format!("body {pointer}"), value, "nothing")),
                }
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            if expected.len() != got.len() {
                found.push(Difference::new(at(), format!("{} items", expected.len()), format!("{} items", got.len())));
            }
            for (number, (expected, got)) in expected.iter().zip(got).enumerate() {
                subset(expected, got, &format!("{pointer}/{number}"), found);
            }
        }
        (Value::Number(a), Value::Number(b)) if a == b || a.as_f64() == b.as_f64() => (),
        (a, b) if a == b => (),
        (a, b) => found.push(Difference::new(at(), a, b)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_may_hold_more_and_a_list_may_not() {
        let differences = |expected: Value, got: Value| {
            let mut found = Vec::new();
            subset(&expected, &got, "", &mut found);
            found.into_iter().map(|it| format!("{}: {} / {}", it.at, it.expected.unwrap_or_default(), it.got)).collect::<Vec<_>>()
        };
        for (expected, got, says) in [
            (json!({"a": 1}), json!({"a": 1, "b": 2}), vec![]),
            (json!({"a": 1}), json!({"a": 1.0}), vec![]),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), vec!["body /a/b: 1 / 2"]),
            (json!({"a": null}), json!({}), vec!["body /a: null / nothing"]),
            (json!([{"a": 1}]), json!([{"a": 1, "b": 1}]), vec![]),
            (json!([1]), json!([1, 2]), vec!["body: 1 items / 2 items"]),
            (json!({"a": "1"}), json!({"a": 1}), vec!["body /a: \"1\" / 1"]),
            (json!({"a": []}), json!({"a": {}}), vec!["body /a: [] / {}"]),
        ] {
            assert_eq!(differences(expected.clone(), got), says, "{expected}");
        }
    }
}
