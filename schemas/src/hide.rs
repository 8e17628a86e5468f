//! Secrets that were written in plain sight are not shown: not in trees, not in the lines around faults.

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
};

use crate::{
    document::Definition,
    fault::Fault,
    shape::{Field, SHAPES, ShapeId, Special, Type},
    tree::{Node, Value},
};

/// What stands in the place of a secret.
pub const HIDDEN: &str = "***";

/// The code of the warning that a secret stands in plain sight.
pub(crate) const IN_SIGHT: &str = "secret-in-sight";

/// Keys of plugins' configs whose texts are taken for secrets.
const NAMES: [&str; 6] = ["secret", "password", "token", "api_key", "private_key", "client_secret"];

impl Definition {
    /// What an author would have written, for showing: a secret in plain sight is hidden behind `***` and a few digits. The digits are
    /// the same for the same secret while the process lives and tell nothing else, so that a change can be seen.
    pub fn shown(&self) -> Node<'static> {
        let mut node = self.tree();
        hide(&mut node, SHAPES.named(self.kind().name()));
        node
    }
}

fn hide(node: &mut Node<'static>, id: ShapeId) {
    let shape = SHAPES.get(id);
    match (shape.special, &mut node.value) {
        (Special::Json, _) => {}
        (Special::Ring, _) => by_name(node),
        (Special::None, Value::Text(text)) if shape.bare.iter().any(|at| shape.fields[*at].secret) => *text = Cow::Owned(mark(text)),
        (Special::None, Value::Map(entries)) => {
            for entry in entries {
                let way = shape.keys.iter().find(|(name, _)| *name == entry.key).map(|(_, way)| *way);
                if let Some(Field { kind: Type::Message(id), keyed, .. }) = way.map(|way| shape.field(way)) {
                    each(&mut entry.node, *id, *keyed);
                }
            }
        }
        _ => {}
    }
}

fn each(node: &mut Node<'static>, id: ShapeId, keyed: bool) {
    match &mut node.value {
        Value::Map(entries) if keyed => entries.iter_mut().for_each(|entry| hide(&mut entry.node, id)),
        Value::List(items) => items.iter_mut().for_each(|item| each(item, id, keyed)),
        _ => hide(node, id),
    }
}

/// Of a plugin's config nothing is known here but the names of its keys.
fn by_name(node: &mut Node<'static>) {
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(by_name),
        Value::Map(entries) => {
            for entry in entries {
                match &mut entry.node.value {
                    Value::Text(text) if NAMES.contains(&entry.key.as_ref()) && !text.contains("${") => *text = Cow::Owned(mark(text)),
                    _ => by_name(&mut entry.node),
                }
            }
        }
        _ => {}
    }
}

fn mark(text: &str) -> String {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    format!("{HIDDEN}{:08x}", KEY.hash_one(text) as u32)
}

/// Takes secrets out of the lines that faults show: those that other faults among them say stand in plain sight.
pub fn in_excerpts(faults: &mut [Fault]) {
    /// File and line.
    type Line = (Arc<str>, u32);
    /// Columns: from, and up to but not including.
    type Columns = (u32, u32);
    let mut seen: HashMap<Line, Vec<Columns>> = HashMap::new();
    for fault in faults.iter().filter(|fault| fault.code == IN_SIGHT && fault.line > 0) {
        for line in fault.line..=fault.end.line {
            let from = if line == fault.line { fault.column } else { 1 };
            let to = if line == fault.end.line { fault.end.column } else { u32::MAX };
            seen.entry((fault.file.clone(), line)).or_default().push((from, to));
        }
    }
    if seen.is_empty() {
        return;
    }
    for fault in faults {
        let Some(excerpt) = &mut fault.excerpt else { continue };
        let Some(spans) = seen.get(&(fault.file.clone(), fault.line)) else { continue };
        let hidden = |at: u32| spans.iter().any(|(from, to)| (*from..*to).contains(&at));
        let text: String = excerpt.text.chars().zip(excerpt.column..).map(|(c, at)| if hidden(at) { '*' } else { c }).collect();
        excerpt.text = text.into();
    }
}
