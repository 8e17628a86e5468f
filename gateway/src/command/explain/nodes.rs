//! Short ways to make and read the trees that reports are made of; trees keep every digit of a number.
use std::borrow::Cow;

use schemas::{
    Span,
    tree::{Entry, Node, Value},
    yaml,
};

pub type Tree = Node<'static>;

pub fn text(it: impl Into<String>) -> Tree {
    Node::unplaced(Value::Text(Cow::Owned(it.into())))
}

pub fn number(it: impl ToString) -> Tree {
    Node::unplaced(Value::Number(Cow::Owned(it.to_string())))
}

pub fn list(it: impl IntoIterator<Item = Tree>) -> Tree {
    Node::unplaced(Value::List(it.into_iter().collect()))
}

pub fn texts<'a>(it: impl IntoIterator<Item = &'a String>) -> Tree {
    list(it.into_iter().map(text))
}

/// A map without the keys that have nothing.
pub fn map<const N: usize>(it: [(&'static str, Option<Tree>); N]) -> Tree {
    let entries = it.into_iter().filter_map(|(key, node)| Some(entry(key, node?)));
    Node::unplaced(Value::Map(entries.collect()))
}

pub fn entry(key: impl Into<Cow<'static, str>>, node: Tree) -> Entry<'static> {
    Entry { key: key.into(), span: Span::default(), node }
}

/// A tree of JSON.
pub fn of_json(it: &serde_json::Value) -> Tree {
    let json = it.to_string();
    yaml::read(&json, Span::new(0, json.len())).root.map_or_else(|| text(json.clone()), Node::into_owned)
}

/// What a pointer leads to, where it does.
pub fn at<'t>(tree: &'t Node<'static>, pointer: &str) -> Option<&'t Node<'static>> {
    let found = tree.find(pointer);
    found.whole.then_some(found.node)
}

/// The texts of a list.
pub fn items<'t>(tree: &'t Node<'static>, pointer: &str) -> &'t [Node<'static>] {
    match at(tree, pointer).map(|it| &it.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

pub fn entries<'t>(tree: &'t Node<'static>, pointer: &str) -> &'t [Entry<'static>] {
    match at(tree, pointer).map(|it| &it.value) {
        Some(Value::Map(entries)) => entries,
        _ => &[],
    }
}

/// A text or number as it reads.
pub fn word<'t>(tree: &'t Node<'static>, pointer: &str) -> Option<&'t str> {
    match &at(tree, pointer)?.value {
        Value::Text(it) | Value::Number(it) => Some(it),
        Value::Bool(true) => Some("true"),
        Value::Bool(false) => Some("false"),
        _ => None,
    }
}
