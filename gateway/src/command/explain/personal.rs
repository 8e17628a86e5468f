//! Fields of a declared answer that are named like personal data and that no rule of `desensitize` covers.
use contract::json::pattern::{At, Pattern};
use schemas::v1;
use serde_json::Value;

use crate::compile::rings::Written;

/// Parts of names, without what joins words; a name that holds one is personal.
const PARTS: &[&str] = &[
    "phone",
    "mobile",
    "telephone",
    "email",
    "idcard",
    "idnumber",
    "identityno",
    "passport",
    "bankcard",
    "cardnumber",
    "cardno",
    "address",
    "realname",
    "fullname",
    "firstname",
    "lastname",
    "username",
    "customername",
    "contactname",
    "licenseplate",
    "platenumber",
    "birthday",
    "birthdate",
    "dateofbirth",
    "手机",
    "电话",
    "姓名",
    "身份证",
    "地址",
    "邮箱",
    "车牌",
    "银行卡",
    "生日",
];
/// Whole names.
const NAMES: &[&str] = &["tel", "plate", "ssn", "name"];
/// How many schemas are looked at; they may refer to themselves.
const MOST: usize = 10_000;

/// The places, as `at` of a rule would name them. `root` is the declared answer's schema.
pub fn uncovered(root: &Value, rings: &[Written<'_>]) -> Vec<String> {
    let patterns: Vec<Pattern> = rings.iter().filter(|it| it.ring.name == "desensitize").flat_map(|it| rules(it.ring)).collect();
    let mut search = Search { root, patterns: &patterns, place: Vec::new(), found: Vec::new(), left: MOST };
    search.schema(root, 0);
    search.found
}

fn rules(ring: &v1::Ring) -> Vec<Pattern> {
    let config: Value = ring.config.as_ref().and_then(|it| serde_json::from_str(&it.text).ok()).unwrap_or_default();
    let at = |it: &Value| Pattern::parse(it.get("at")?.as_str()?).ok();
    config.get("rules").and_then(Value::as_array).into_iter().flatten().filter_map(at).collect()
}

struct Search<'s> {
    root: &'s Value,
    patterns: &'s [Pattern],
    place: Vec<At>,
    found: Vec<String>,
    left: usize,
}

impl<'s> Search<'s> {
    fn schema(&mut self, schema: &'s Value, depth: usize) {
        if self.left == 0 || depth > 24 {
            return;
        }
        self.left -= 1;
        if let Some(to) = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'))
            && let Some(it) = self.root.pointer(to)
        {
            self.schema(it, depth + 1);
        }
        for (name, it) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.place.push(At::Key(name.clone()));
            self.named(name, it);
            self.schema(it, depth + 1);
            self.place.pop();
        }
        let many = ["allOf", "anyOf", "oneOf"].iter().filter_map(|it| schema.get(it)?.as_array()).flatten();
        for it in many {
            self.schema(it, depth + 1);
        }
        self.place.push(At::Item);
        for it in ["items", "additionalProperties"].iter().filter_map(|it| schema.get(it)).filter(|it| it.is_object()) {
            self.schema(it, depth + 1);
        }
        for it in schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten() {
            self.schema(it, depth + 1);
        }
        self.place.pop();
    }

    fn named(&mut self, name: &str, schema: &Value) {
        let plain: String = name.chars().filter(|it| !matches!(it, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect();
        let single = !matches!(schema.get("type").and_then(Value::as_str), Some("object" | "boolean"));
        if !single || !(NAMES.contains(&&*plain) || PARTS.iter().any(|it| plain.contains(it))) {
            return;
        }
        let text = self.text();
        if !self.patterns.iter().any(|it| it.covers(&self.place)) && !self.found.contains(&text) {
            self.found.push(text);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for it in &self.place {
            match it {
                At::Item => text.push_str("[*]"),
                At::Key(it) if it.contains(['.', '[', '*']) => text.push_str(&format!("['{it}']")),
                At::Key(it) if text.is_empty() => text.push_str(it),
                At::Key(it) => {
                    text.push('.');
                    text.push_str(it);
                }
            }
        }
        text
    }
}
