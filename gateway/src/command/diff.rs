//! `allium diff`: what changed, by meaning.
use std::path::Path;

use schemas::{Change, Document, Id, Input};
use serde_json::{Value, json};

use super::{
    exit::Exit,
    files,
    line::{Diff, Format},
    past::Past,
    terminal::{Paint, Terminal},
    world::Given,
};

pub fn diff(it: &Diff, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    if files::is_dash(&it.old) && files::is_dash(&it.new) {
        terminal.error("only one side can be standard input");
        return Err(Exit::Usage);
    }
    let (old, new) = (side(&it.old, given, terminal)?, side(&it.new, given, terminal)?);
    let changes = changes(&old, &new);
    terminal.print(written(&changes, it.format, terminal))?;
    Ok(if changes.is_empty() { Exit::Well } else { Exit::Found })
}

/// What differs between two sets of definitions.
pub fn changes(old: &[Document], new: &[Document]) -> Vec<Change> {
    schemas::diff(old.iter().map(|it| &it.message), new.iter().map(|it| &it.message))
}

/// Differences as they are printed.
pub fn written(changes: &[Change], format: Format, terminal: &Terminal) -> String {
    match format {
        Format::Text => changes.iter().map(|it| text(it, terminal.out)).collect(),
        Format::Json => format!("{:#}\n", Value::from(changes.iter().map(value).collect::<Vec<_>>())),
    }
}

fn side(path: &Path, given: &Given, terminal: &Terminal) -> Result<Vec<Document>, Exit> {
    if let Some(state) = path.to_str().and_then(|it| it.strip_prefix('@')) {
        return Past::of(given, terminal)?.documents(state, terminal);
    }
    let inputs = match files::is_dash(path) {
        true => vec![Input::new("stdin.yaml", files::stdin(terminal)?)],
        false => files::inputs(path, terminal)?,
    };
    files::definitions(inputs, terminal, Exit::Unusable)
}

fn text(it: &Change, paint: Paint) -> String {
    let coloured = |line: &str| {
        let line: String = line.chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect();
        match line.trim_start().chars().next() {
            Some('+') => paint.green(&line),
            Some('-') => paint.red(&line),
            _ => paint.yellow(&line),
        }
    };
    it.to_string().lines().map(|it| coloured(it) + "\n").collect()
}

fn value(it: &Change) -> Value {
    let (what, id, edits) = match it {
        Change::Added(id) => ("added", id, &[][..]),
        Change::Removed(id) => ("removed", id, &[][..]),
        Change::Changed(id, edits) => ("changed", id, &edits[..]),
    };
    let Id { kind, name, version } = id;
    let read = |it: &Option<String>| it.as_ref().map(|it| serde_json::from_str::<Value>(it).unwrap_or_else(|_| it.as_str().into()));
    let edits: Vec<Value> = edits.iter().map(|it| json!({"pointer": it.pointer, "old": read(&it.old), "new": read(&it.new)})).collect();
    json!({"change": what, "kind": kind.name(), "name": name, "version": version, "edits": edits})
}
