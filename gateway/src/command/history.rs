//! `allium history` and `allium rollback`: what was served before, and the way back to it.
use std::collections::BTreeMap;

use bytes::Bytes;
use schemas::render;
use serde_json::{Value, json};

use super::{
    diff,
    exit::Exit,
    line::{Format, History as Shown, Rollback},
    past::{Past, unusable},
    progress::Progress,
    table::table,
    terminal::Terminal,
    world::{Given, counted, exit_of},
};
use crate::{
    reload::history::{Entry, Note, State},
    source::{change::Files, dir},
};

pub fn history(it: &Shown, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = Past::of(given, terminal)?;
    if let Some(state) = &it.state {
        let entry = known.entry(state, terminal)?;
        let before = known.history.entries().map_err(|why| unusable(&why, terminal))?.into_iter().find(|it| it.number < entry.number);
        let old = before.map_or(Ok(Vec::new()), |it| known.documents_of(&it, terminal))?;
        let changes = diff::changes(&old, &known.documents_of(&entry, terminal)?);
        let head = match it.format {
            Format::Text => table(&HEAD, &[row(&entry)], terminal.out) + "\n",
            Format::Json => String::new(),
        };
        terminal.print(head + &diff::written(&changes, it.format, terminal))?;
        return Ok(Exit::Well);
    }
    let mut entries = known.history.entries().map_err(|why| unusable(&why, terminal))?;
    if entries.is_empty() {
        terminal.note("nothing is kept yet: a running gateway keeps every state that it serves");
    }
    entries.truncate(it.limit);
    terminal.print(match it.format {
        Format::Text if entries.is_empty() => String::new(),
        Format::Text => table(&HEAD, &entries.iter().map(row).collect::<Vec<_>>(), terminal.out),
        Format::Json => format!("{:#}\n", Value::from(entries.iter().map(value).collect::<Vec<_>>())),
    })?;
    Ok(Exit::Well)
}

const HEAD: [&str; 6] = ["STATE", "TIME", "REVISION", "WHO", "FILES", "WHY"];

fn row(it: &Entry) -> Vec<String> {
    let mut files: Vec<String> = [("+", &it.added), ("~", &it.changed), ("-", &it.removed)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(sign, names)| format!("{sign}{}", names.len()))
        .collect();
    if !it.whole {
        files.push("with faults".into());
    }
    let clean = |it: &str| it.chars().map(|it| if it.is_control() { ' ' } else { it }).collect::<String>();
    vec![
        it.number.to_string(),
        it.time.clone(),
        it.revision.chars().take(12).collect(),
        clean(&it.who),
        files.join(" "),
        clean(it.why.as_deref().unwrap_or_default()),
    ]
}

fn value(it: &Entry) -> Value {
    json!({
        "state": it.number, "time": it.time, "revision": it.revision, "who": it.who, "why": it.why, "whole": it.whole,
        "added": it.added, "changed": it.changed, "removed": it.removed,
    })
}

pub fn rollback(it: &Rollback, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = Past::of(given, terminal)?;
    let entry = known.entry(&it.state, terminal)?;
    let inputs = known.history.inputs(&entry, known.dir()).map_err(|why| unusable(&why, terminal))?;
    let progress = Progress::start(terminal.watched);
    let world = known.world.world_of(given.plugins, inputs, Vec::new(), true, &progress);
    drop(progress);
    if exit_of(&world.faults, false) != Exit::Well {
        let errors: Vec<_> = world.faults.iter().filter(|it| it.is_error()).cloned().collect();
        terminal.tell(&render::text(&errors, terminal.err.on));
        terminal.error(&format!("state {} has faults today, so the definitions stay as they are", entry.number));
        return Err(Exit::Found);
    }
    let failed = |why: &std::io::Error| {
        terminal.error(&format!("the definitions stay as they are: {why}"));
        Exit::Unusable
    };
    let now = dir::read_once(known.dir(), Some(known.changes.clone())).map_err(|why| failed(&why))?;
    let wanted = known.history.files(&entry).map_err(|why| unusable(&why, terminal))?;
    let change = change(&now.files.iter().map(|it| (it.name.to_string(), it.text.clone())).collect(), &wanted);
    for (name, text) in &change {
        let (sign, path) = (if text.is_some() { '~' } else { '-' }, known.dir().join(&**name));
        terminal.print(format!("{sign} {}\n", path.display()))?;
    }
    if change.is_empty() {
        terminal.note(&format!("the definitions are those of state {} already", entry.number));
        return Ok(Exit::Well);
    }
    if it.dry_run {
        return Ok(Exit::Well);
    }
    // What nobody served is kept too, so that nothing is lost by going back.
    let kept = known.history.entries().map_err(|why| unusable(&why, terminal))?;
    if !kept.iter().any(|it| *it.revision == *now.revision) {
        known.history.announce(&Note { who: user(), why: Some("as it was before a rollback".into()) }).map_err(|why| failed(&why))?;
        known.history.keep(State { revision: now.revision, files: now.files, whole: false }).map_err(|why| failed(&why))?;
    }
    let why = it.why.as_ref().map_or_else(|| format!("back to {}", entry.number), |why| format!("back to {}: {why}", entry.number));
    known.history.announce(&Note { who: user(), why: Some(why) }).map_err(|why| failed(&why))?;
    let count = change.len();
    known.changes.apply(|| Ok::<_, std::io::Error>(change)).map_err(|why| failed(&why))?;
    terminal.note(&format!("{} written; a running gateway takes them over now", counted(count, "file")));
    Ok(Exit::Well)
}

/// What makes one set of files another.
fn change(now: &BTreeMap<String, Bytes>, wanted: &BTreeMap<String, Bytes>) -> Files {
    let written =
        wanted.iter().filter(|(name, text)| now.get(*name) != Some(text)).map(|(name, text)| (name.as_str().into(), Some(text.clone())));
    written.chain(now.keys().filter(|it| !wanted.contains_key(*it)).map(|it| (it.as_str().into(), None))).collect()
}

/// Who types: for people, not a proof.
fn user() -> String {
    ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|it| std::env::var(it).ok().filter(|it| !it.is_empty()))
        .unwrap_or_else(|| "command".into())
}
