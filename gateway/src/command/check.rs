//! `allium check`: every fault of settings and definitions at once.
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use schemas::{Fault, render};

use super::{
    exit::Exit,
    line::{Check, FaultFormat},
    terminal::Terminal,
    world::{Given, Known, World, counted, exit_of},
};

pub fn check(it: &Check, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = given.settings();
    let (mut faults, files, documents) = checked(&known, it, given, terminal);
    // Settings come first: what they say decides about the rest.
    faults.splice(0..0, known.faults.iter().cloned());
    match it.format {
        FaultFormat::Json => terminal.print(render::json(&faults))?,
        FaultFormat::Sarif => terminal.print(render::sarif(&faults, env!("CARGO_PKG_VERSION")))?,
        FaultFormat::Text => {
            terminal.tell(&render::lines(&faults, terminal.err.on));
            let counts = render::counted(&faults);
            let counts = match exit_of(&faults, it.strict) {
                Exit::Well if faults.is_empty() => terminal.err.green(&counts),
                Exit::Well => terminal.err.yellow(&counts),
                _ => terminal.err.red(&counts),
            };
            terminal.tell(&format!("checked {}, {}: {counts}\n", counted(files, "file"), counted(documents, "document")));
        }
    }
    Ok(exit_of(&faults, it.strict))
}

/// The faults of definitions, and how many files and documents these paths hold.
fn checked(known: &Known, it: &Check, given: &Given, terminal: &Terminal) -> (Vec<Fault>, usize, usize) {
    let all = [known.dir.clone()];
    let inside = it.paths.iter().map(|path| inside(path, &known.dir)).collect::<Option<Vec<PathBuf>>>().filter(|it| !it.is_empty());
    let paths = if it.paths.is_empty() || inside.is_some() { &all[..] } else { &it.paths };
    let World { mut faults, mut counts, .. } = known.world(given.plugins, paths, it.without_secrets, terminal);
    if let Some(wanted) = inside {
        let mut asked: HashMap<Arc<str>, bool> = HashMap::new();
        let mut wants = |file: &Arc<str>| {
            *asked.entry(file.clone()).or_insert_with(|| {
                let path = file.split_once(".binpb#").map_or(file.to_string(), |(path, _)| format!("{path}.binpb"));
                Path::new(&path).canonicalize().is_ok_and(|it| wanted.iter().any(|wanted| it.starts_with(wanted)))
            })
        };
        faults.retain(|it| wants(&it.file));
        counts.retain(|it| wants(&it.0));
    }
    (faults, counts.len(), counts.iter().map(|it| it.1).sum())
}

/// The real path, where it lies inside of the settings' definitions and is not all of them.
fn inside(path: &Path, dir: &Path) -> Option<PathBuf> {
    let (path, dir) = (path.canonicalize().ok()?, dir.canonicalize().ok()?);
    (path != dir && path.starts_with(&dir)).then_some(path)
}
