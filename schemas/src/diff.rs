//! What changed between two sets of definitions, by meaning: order of keys, files and comments do not count.

use std::{collections::BTreeMap, fmt};

use crate::{
    document::{Definition, Id},
    tree::{Node, Value, escape},
};

/// What happened to one definition.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is new.
    Added(Id),
    /// It is gone.
    Removed(Id),
    /// It is another.
    Changed(Id, Vec<Edit>),
}

/// What happened to one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The way to it: in the old definition where it is gone, otherwise in the new one.
    pub pointer: String,
    /// What it was, as JSON; none where it is new.
    pub old: Option<String>,
    /// What it is, as JSON; none where it is gone.
    pub new: Option<String>,
}

/// How long the lists are that are compared by what they have in common, rather than place by place.
const ALIGNED: usize = 256;

/// The changes from `old` to `new`, by kind, name and version. Secrets in plain sight are not shown; that one changed is.
pub fn diff<'d>(old: impl IntoIterator<Item = &'d Definition>, new: impl IntoIterator<Item = &'d Definition>) -> Vec<Change> {
    let by_id = |definition: &'d Definition| {
        let id = Id { kind: definition.kind(), name: definition.name().to_owned(), version: definition.version().map(str::to_owned) };
        (id, definition)
    };
    let old: BTreeMap<Id, &Definition> = old.into_iter().map(by_id).collect();
    let new: BTreeMap<Id, &Definition> = new.into_iter().map(by_id).collect();
    let mut ids: Vec<&Id> = old.keys().chain(new.keys().filter(|id| !old.contains_key(id))).collect();
    ids.sort();
    let mut changes = Vec::new();
    for id in ids {
        match (old.get(id), new.get(id)) {
            (Some(_), None) => changes.push(Change::Removed(id.clone())),
            (None, Some(_)) => changes.push(Change::Added(id.clone())),
            (Some(a), Some(b)) if a != b => {
                let mut edits = Vec::new();
                values(&a.shown(), &b.shown(), "", &mut edits);
                if !edits.is_empty() {
                    changes.push(Change::Changed(id.clone(), edits));
                }
            }
            _ => {}
        }
    }
    changes
}

fn values(old: &Node<'_>, new: &Node<'_>, pointer: &str, edits: &mut Vec<Edit>) {
    if old.same(new) {
        // The order of keys has no meaning, but of parameters, tasks and free JSON it is kept; a change of it alone is none.
        return;
    }
    match (&old.value, &new.value) {
        (Value::Map(a), Value::Map(b)) => {
            for entry in a {
                let inner = format!("{pointer}/{}", escape(&entry.key));
                match new.get(&entry.key) {
                    Some(other) => values(&entry.node, other, &inner, edits),
                    None => edits.push(Edit { pointer: inner, old: Some(entry.node.to_json()), new: None }),
                }
            }
            for entry in b.iter().filter(|entry| old.entry(&entry.key).is_none()) {
                let pointer = format!("{pointer}/{}", escape(&entry.key));
                edits.push(Edit { pointer, old: None, new: Some(entry.node.to_json()) });
            }
        }
        (Value::List(a), Value::List(b)) => lists(a, b, pointer, edits),
        _ => edits.push(Edit { pointer: pointer.to_owned(), old: Some(old.to_json()), new: Some(new.to_json()) }),
    }
}

/// Items that stand on both sides stay; between them, items change in turn, and what is over was added or removed.
fn lists(old: &[Node<'_>], new: &[Node<'_>], pointer: &str, edits: &mut Vec<Edit>) {
    let mut kept = common(old, new);
    kept.push((old.len(), new.len()));
    let (mut a, mut b) = (0, 0);
    for (next_a, next_b) in kept {
        while a < next_a && b < next_b {
            // The next new item that could be the old one changed; those before it were added.
            let Some(kin) = (b..next_b).find(|at| kin(&old[a], &new[*at])) else {
                edits.push(Edit { pointer: format!("{pointer}/{a}"), old: Some(old[a].to_json()), new: None });
                a += 1;
                continue;
            };
            for (at, item) in new.iter().enumerate().take(kin).skip(b) {
                edits.push(Edit { pointer: format!("{pointer}/{at}"), old: None, new: Some(item.to_json()) });
            }
            values(&old[a], &new[kin], &format!("{pointer}/{kin}"), edits);
            (a, b) = (a + 1, kin + 1);
        }
        for (at, item) in old.iter().enumerate().take(next_a).skip(a) {
            edits.push(Edit { pointer: format!("{pointer}/{at}"), old: Some(item.to_json()), new: None });
        }
        for (at, item) in new.iter().enumerate().take(next_b).skip(b) {
            edits.push(Edit { pointer: format!("{pointer}/{at}"), old: None, new: Some(item.to_json()) });
        }
        (a, b) = (next_a + 1, next_b + 1);
    }
}

/// Whether one item could be the other, changed: maps that begin with one key, such as the rings of one plugin, or values of one kind.
fn kin(old: &Node<'_>, new: &Node<'_>) -> bool {
    match (&old.value, &new.value) {
        (Value::Map(a), Value::Map(b)) => a.first().map(|entry| &entry.key) == b.first().map(|entry| &entry.key),
        _ => old.kind() == new.kind(),
    }
}

/// The longest run of items, with gaps, that stand on both sides in one order.
fn common(old: &[Node<'_>], new: &[Node<'_>]) -> Vec<(usize, usize)> {
    if old.len() > ALIGNED || new.len() > ALIGNED {
        return (0..old.len().min(new.len())).filter(|at| old[*at].same(&new[*at])).map(|at| (at, at)).collect();
    }
    let width = new.len() + 1;
    let mut longest = vec![0u16; (old.len() + 1) * width];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            longest[a * width + b] = if old[a].same(&new[b]) {
                longest[(a + 1) * width + b + 1] + 1
            } else {
                longest[(a + 1) * width + b].max(longest[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b) = (0, 0);
    let mut pairs = Vec::new();
    while a < old.len() && b < new.len() {
        if old[a].same(&new[b]) {
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if longest[(a + 1) * width + b] >= longest[a * width + b + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    pairs
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(id) => writeln!(f, "+ {id}"),
            Self::Removed(id) => writeln!(f, "- {id}"),
            Self::Changed(id, edits) => {
                writeln!(f, "~ {id}")?;
                edits.iter().try_for_each(|edit| writeln!(f, "    {edit}"))
            }
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.old, &self.new) {
            (None, Some(new)) => write!(f, "+ {}: {new}", self.pointer),
            (Some(old), None) => write!(f, "- {}: {old}", self.pointer),
            (Some(old), Some(new)) => write!(f, "~ {}: {old} → {new}", self.pointer),
            (None, None) => write!(f, "  {}", self.pointer),
        }
    }
}
