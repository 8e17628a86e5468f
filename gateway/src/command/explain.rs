//! `allium explain`: one definition as the gateway understands it.
mod defaults;
mod nodes;
mod personal;
mod report;
mod text;

use schemas::{Document, Fault, Kind, nearest, render};

use self::report::Reporter;
use super::{
    exit::Exit,
    line::{Explain, Format},
    schema,
    terminal::Terminal,
    world::{Given, World, exit_of},
};

pub fn explain(it: &Explain, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = given.settings().require(terminal)?;
    let paths = [it.path.clone().unwrap_or_else(|| known.dir.clone())];
    let world = known.world(given.plugins, &paths, true, terminal);
    if exit_of(&world.faults, false) == Exit::Unusable {
        terminal
            .tell(&render::text(&world.faults.iter().filter(|it| it.code == "unreadable").cloned().collect::<Vec<_>>(), terminal.err.on));
        return Err(Exit::Unusable);
    }
    let found = find(&world, &it.name);
    if found.is_empty() {
        return Err(unknown(&world, &it.name, terminal));
    }
    let schema = schema::of_definitions(given);
    let reporter = Reporter { world: &world, plugins: given.plugins, schema: &schema };
    let reports: Vec<_> = found.iter().map(|it| reporter.report(it)).collect();
    terminal.print(match it.format {
        Format::Json => schemas::emit::json(&nodes::list(reports)),
        Format::Text => reports.iter().map(|it| text::write(it, terminal.out)).collect::<Vec<_>>().join("\n"),
    })?;
    // What is wrong with it is part of how it is understood.
    let own: Vec<Fault> =
        world.faults.iter().filter(|fault| fault.is_error() && found.iter().any(|it| stands_in(fault, it))).cloned().collect();
    match found.iter().any(|it| world.bad.contains(&it.id)) {
        true => {
            terminal.tell(&render::text(&own, terminal.err.on));
            Ok(Exit::Found)
        }
        false => Ok(Exit::Well),
    }
}

/// Apis first; of other kinds all that have the name.
fn find<'w>(world: &'w World, name: &str) -> Vec<&'w Document> {
    let all = || world.documents.iter().map(|it| &**it);
    let (plain, version) = name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)));
    let fits = |it: &&Document| {
        it.id.kind == Kind::Api && it.id.name == plain && version.is_none_or(|wanted| it.id.version.as_deref() == Some(wanted))
    };
    let mut apis: Vec<&Document> = all().filter(fits).collect();
    if apis.is_empty() {
        apis = all().filter(|it| it.id.kind != Kind::Api && it.id.name == name).collect();
    }
    apis.sort_by(|a, b| a.id.cmp(&b.id));
    apis
}

fn unknown(world: &World, name: &str, terminal: &Terminal) -> Exit {
    let of_name: Vec<Fault> = world.faults.iter().filter(|it| it.is_error()).cloned().collect();
    let names: Vec<String> = world
        .documents
        .iter()
        .flat_map(|it| [Some(it.id.name.clone()), it.id.version.as_ref().map(|version| format!("{}@{version}", it.id.name))])
        .flatten()
        .collect();
    terminal.error(&match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("nothing is named '{name}'; did you mean '{near}'?"),
        None if names.is_empty() => format!("nothing is named '{name}': there are no definitions here"),
        None if names.len() <= 8 => format!("nothing is named '{name}'; there are {}", names.join(", ")),
        None => format!("nothing is named '{name}'; `allium routes` lists the APIs"),
    });
    if !of_name.is_empty() {
        terminal.note("some definitions have faults and could not be looked at; `allium check` tells them");
    }
    Exit::Found
}

fn stands_in(fault: &Fault, document: &Document) -> bool {
    if document.places.source().is_none() {
        return fault.file.starts_with(&*document.places.fault("", "", "").file);
    }
    let lines = document.places.tree().map(|it| it.span).zip(document.places.source());
    fault.file == document.file
        && lines.is_some_and(|(span, source)| {
            let (from, to) = (source.position(span.start as usize).line, source.position(span.end as usize).line);
            (from..=to).contains(&fault.line)
        })
}
