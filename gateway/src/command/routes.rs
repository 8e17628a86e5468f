//! `allium routes`: which request goes where.
use std::{cmp::Ordering, path::PathBuf};

use schemas::{Definition, Document, render, v1};
use serde_json::{Value, json};

use super::{
    exit::Exit,
    line::{Format, Routes},
    table::table,
    terminal::Terminal,
    world::{Given, World, counted, exit_of},
};
use crate::route::pattern::{Host, Pattern, Segment};

/// One pattern of one Api.
struct Row<'a> {
    pattern: Pattern,
    document: &'a Document,
    api: &'a v1::Api,
    faulty: bool,
}

pub fn routes(it: &Routes, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = given.settings().require(terminal)?;
    let paths = [it.path.clone().unwrap_or_else(|| known.dir.clone())] as [PathBuf; 1];
    let world = known.world(given.plugins, &paths, true, terminal);
    let mut rows = rows(&world);
    rows.sort_by(compare);
    terminal.print(match it.format {
        Format::Text => text(&rows, terminal),
        Format::Json => format!("{:#}\n", Value::from(rows.iter().map(value).collect::<Vec<_>>())),
    })?;
    let exit = exit_of(&world.faults, false);
    if exit == Exit::Unusable {
        let unreadable: Vec<_> = world.faults.iter().filter(|it| it.code == "unreadable").cloned().collect();
        terminal.tell(&render::lines(&unreadable, terminal.err.on));
    }
    let errors = world.faults.iter().filter(|it| it.is_error()).count();
    if exit == Exit::Found {
        terminal.error(&format!("{} in these definitions, so this is not all of it; `allium check` tells them", counted(errors, "error")));
    }
    Ok(exit)
}

fn rows(world: &World) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for document in &world.documents {
        let Definition::Api(api) = &document.message else { continue };
        let faulty = world.bad.contains(&document.id);
        let patterns: Vec<Pattern> = api.inbound.iter().flat_map(|it| &it.r#match).filter_map(|it| Pattern::parse(it).ok()).collect();
        rows.extend(patterns.into_iter().map(|pattern| Row { pattern, document, api, faulty }));
    }
    rows
}

impl Row<'_> {
    fn when(&self) -> Option<&str> {
        self.api.inbound.as_ref()?.when.as_deref()
    }

    fn order(&self) -> i64 {
        self.api.inbound.as_ref().and_then(|it| it.order).unwrap_or(0)
    }

    fn state(&self) -> &str {
        let state = self.api.info.as_ref().and_then(|it| it.lifecycle.as_ref()).and_then(|it| it.state.as_deref());
        if self.faulty { "faulty" } else { state.unwrap_or("active") }
    }

    fn methods(&self) -> Vec<&str> {
        self.pattern.methods().iter().map(|it| it.as_str()).collect()
    }

    fn host(&self) -> String {
        match self.pattern.host() {
            Host::Any => "*".to_owned(),
            Host::Exact(it) => it.to_string(),
            Host::Below(it) => format!("*.{it}"),
        }
    }

    fn path(&self) -> String {
        let whole = self.pattern.to_string();
        whole[whole.find('/').unwrap_or(0)..].to_owned()
    }
}

/// The order in which a lookup prefers patterns; where it does not matter, the alphabet.
fn compare(a: &Row<'_>, b: &Row<'_>) -> Ordering {
    let host = |it: &Row<'_>| match it.pattern.host() {
        Host::Exact(it) => (0, 0, it.to_string()),
        Host::Below(it) => (1, usize::MAX - it.split('.').count(), it.to_string()),
        Host::Any => (2, 0, String::new()),
    };
    let segments = |a: &[Segment], b: &[Segment]| -> Ordering {
        for (a, b) in a.iter().zip(b) {
            let by_kind = rank(a).cmp(&rank(b));
            let by_text = match (a, b) {
                (Segment::Literal(a), Segment::Literal(b)) => a.cmp(b),
                _ => Ordering::Equal,
            };
            if by_kind.then(by_text).is_ne() {
                return by_kind.then(by_text);
            }
        }
        a.len().cmp(&b.len())
    };
    let methods =
        |it: &Row<'_>| (it.pattern.methods().is_empty(), it.pattern.methods().iter().map(ToString::to_string).collect::<Vec<_>>());
    host(a)
        .cmp(&host(b))
        .then_with(|| segments(a.pattern.segments(), b.pattern.segments()))
        .then_with(|| methods(a).cmp(&methods(b)))
        .then_with(|| a.when().is_none().cmp(&b.when().is_none()))
        .then_with(|| a.order().cmp(&b.order()))
        .then_with(|| a.document.id.cmp(&b.document.id))
}

fn rank(it: &Segment) -> u8 {
    match it {
        Segment::Literal(_) => 0,
        Segment::Capture(_) => 1,
        Segment::Rest(_) => 2,
    }
}

/// Where requests go, in a few words.
pub fn target(api: &v1::Api) -> String {
    use v1::call::Target;
    match api.proxy.as_ref().and_then(|it| it.target.as_ref()) {
        Some(Target::Http(it)) => format!("http {}", it.upstream),
        Some(Target::Grpc(it)) => format!("grpc {}", it.upstream),
        Some(Target::Trpc(it)) => format!("trpc {}", it.upstream),
        Some(Target::Custom(it)) => format!("custom {}", it.upstream),
        Some(Target::Pipeline(it)) => format!("pipeline of {} tasks", it.stages.iter().map(|it| it.tasks.len()).sum::<usize>()),
        Some(Target::Push(_)) => "push".to_owned(),
        Some(Target::Respond(it)) => format!("respond {}", it.status.unwrap_or(200)),
        Some(Target::Redirect(it)) => format!("redirect {} {}", it.status.unwrap_or(302), it.to),
        None => String::new(),
    }
}

fn text(rows: &[Row<'_>], terminal: &Terminal) -> String {
    let conditional = rows.iter().any(|it| it.when().is_some());
    let mut head = vec!["METHODS", "HOST", "PATH", "API", "VERSION", "STATE", "TARGET"];
    head.extend(conditional.then_some("WHEN"));
    let cells = |it: &Row<'_>| {
        let methods = it.methods().join(",");
        let mut cells = vec![
            if methods.is_empty() { "*".to_owned() } else { methods },
            it.host(),
            it.path(),
            it.document.id.name.clone(),
            it.document.id.version.clone().unwrap_or_else(|| "-".to_owned()),
            it.state().to_owned(),
            target(it.api),
        ];
        cells.extend(it.when().map(|when| format!("[order {}] {}", it.order(), when.split_whitespace().collect::<Vec<_>>().join(" "))));
        cells
    };
    table(&head, &rows.iter().map(cells).collect::<Vec<_>>(), terminal.out)
}

fn value(it: &Row<'_>) -> Value {
    json!({
        "methods": it.methods(), "host": it.host(), "path": it.path(), "api": it.document.id.name, "version": it.document.id.version,
        "state": it.state(), "target": target(it.api), "when": it.when(), "order": it.when().map(|_| it.order()),
        "file": &*it.document.file, "line": it.document.places.fault("/inbound/match", "", "").line,
    })
}
