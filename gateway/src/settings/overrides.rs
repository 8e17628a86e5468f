//! Settings from the environment: `ALLIUM__LISTEN__0__ADDRESS` is `listen[0].address`.
use std::{borrow::Cow, collections::BTreeMap, ffi::OsString};

use schemas::{
    Span,
    tree::{Entry, Node, Value},
    yaml,
};
use serde_json::Value as Json;

use super::shape;

/// What every such variable begins with.
pub const PREFIX: &str = "ALLIUM__";

/// What the environment changed, by JSON Pointer.
#[derive(Debug, Default)]
pub struct Overrides {
    /// The variable that made the value at a pointer, for values and for what had to be made around them.
    made: BTreeMap<String, String>,
    used: Vec<String>,
    /// Variables that lead nowhere, and why.
    pub wrong: Vec<(String, String)>,
}

impl Overrides {
    /// Puts the values of all variables that begin with [`PREFIX`] into the tree.
    pub fn apply(&mut self, root: &mut Node<'_>, schema: &Json, environment: &[(OsString, OsString)]) {
        let mut variables: Vec<(Vec<Step>, String, &OsString)> = Vec::new();
        for (name, value) in environment {
            let Some(name) = name.to_str() else { continue };
            if let Some(path) = name.strip_prefix(PREFIX) {
                variables.push((path.split("__").map(Step::new).collect(), name.to_owned(), value));
            }
        }
        // By number where it is one: `…__10` comes after `…__2`.
        variables.sort();
        for (steps, name, value) in variables {
            let done = match (value.to_str(), steps.iter().any(|it| it.0.1.is_empty())) {
                (None, _) => Err("its value is not UTF-8".to_owned()),
                (_, true) => Err(format!("its name has an empty part; parts are set off by `__`, as in {PREFIX}LISTEN__0__ADDRESS")),
                (Some(value), false) => self.set(root, schema, &steps, &name, value),
            };
            match done {
                Ok(()) => self.used.push(name),
                Err(message) => self.wrong.push((name, message)),
            }
        }
    }

    /// The variables that changed something.
    pub fn used(&self) -> Vec<String> {
        self.used.clone()
    }

    /// The variable that made the value at `pointer`, or what it stands in.
    pub fn maker(&self, pointer: &str) -> Option<&str> {
        let mut at = pointer;
        loop {
            if let Some(it) = self.made.get(at) {
                return Some(it);
            }
            at = &at[..at.rfind('/')?];
        }
    }

    fn set(&mut self, root: &mut Node<'_>, schema: &Json, steps: &[Step], name: &str, value: &str) -> Result<(), String> {
        let mut schemas = shape::branches(schema, schema);
        let (mut node, mut pointer) = (root, String::new());
        for step in steps {
            if node.value == Value::Null {
                let list = schemas.iter().any(|it| it.get("items").is_some());
                node.value = if list { Value::List(Vec::new()) } else { Value::Map(Vec::new()) };
            }
            let here = if pointer.is_empty() { "the settings".to_owned() } else { format!("`{}`", pointer[1..].replace('/', ".")) };
            schemas = shape::inner(schema, &schemas, step.key());
            pointer = format!("{pointer}/{}", step.key());
            node = match &mut node.value {
                Value::Map(entries) => {
                    let at = entries.iter().position(|it| it.key == step.key()).unwrap_or_else(|| {
                        self.made.insert(pointer.clone(), name.to_owned());
                        let key = Cow::Owned(step.key().to_owned());
                        entries.push(Entry { key, span: Span::default(), node: Node::unplaced(Value::Null) });
                        entries.len() - 1
                    });
                    &mut entries[at].node
                }
                Value::List(items) => {
                    let at = step
                        .number()
                        .ok_or_else(|| format!("{here} is a list: its entries are numbered from 0, `{}` is no number", step.key()))?;
                    if at > items.len() {
                        return Err(format!("{here} has {} entries: the next one is number {}, not {at}", items.len(), items.len()));
                    }
                    if at == items.len() {
                        self.made.insert(pointer.clone(), name.to_owned());
                        items.push(Node::unplaced(Value::Null));
                    }
                    &mut items[at]
                }
                _ => return Err(format!("{here} is a single value: there is no `{}` in it", step.key())),
            };
        }
        if matches!(&node.value, Value::List(it) if !it.is_empty()) || matches!(&node.value, Value::Map(it) if !it.is_empty()) {
            return Err(format!("`{}` is not a single value; name the one inside of it that you mean", pointer[1..].replace('/', ".")));
        }
        *node = Node::unplaced(scalar(&schemas, value));
        self.made.insert(pointer, name.to_owned());
        Ok(())
    }
}

/// A value as its place takes it: where only a text may stand it is one, otherwise it is read as YAML reads it.
fn scalar(schemas: &[&Json], text: &str) -> Value<'static> {
    let types = || {
        schemas.iter().flat_map(|it| match it.get("type") {
            Some(Json::Array(all)) => all.iter().filter_map(Json::as_str).collect(),
            Some(Json::String(one)) => vec![one.as_str()],
            _ => Vec::new(),
        })
    };
    let other = types().any(|it| !matches!(it, "string" | "null"));
    let owned = || Value::Text(Cow::Owned(text.to_owned()));
    if types().any(|it| it == "string") && !other {
        return owned();
    }
    match yaml::read(text, Span::new(0, text.len())).root.map(|it| it.into_owned().value) {
        Some(it @ (Value::Bool(_) | Value::Number(_) | Value::Null)) => it,
        _ => owned(),
    }
}

/// One part of a variable's name. Numbers sort as numbers.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Step((Option<usize>, String));

impl Step {
    fn new(text: &str) -> Self {
        Self((text.parse().ok(), text.to_ascii_lowercase()))
    }

    fn key(&self) -> &str {
        &self.0.1
    }

    fn number(&self) -> Option<usize> {
        self.0.0
    }
}
