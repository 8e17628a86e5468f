//! `allium fmt`: one layout for all files.
use std::{fs, path::Path};

use schemas::{Input, Span, render, yaml};

use super::{
    exit::Exit,
    files,
    line::Fmt,
    terminal::Terminal,
    world::{Given, counted},
};

/// What became of a file.
#[derive(PartialEq)]
enum Laid {
    Already,
    Anew,
    Not(Exit),
}

pub fn fmt(it: &Fmt, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    if it.paths.iter().any(|it| files::is_dash(it)) {
        if it.paths.len() > 1 {
            terminal.error("standard input is laid out by itself");
            return Err(Exit::Usage);
        }
        return stdin(it.check, terminal);
    }
    let paths = match it.paths.is_empty() {
        true => vec![given.settings().require(terminal)?.dir],
        false => it.paths.clone(),
    };
    let (mut exit, mut anew, mut seen) = (Exit::Well, 0, 0);
    for path in &paths {
        let (found, faults) = schemas::folder::paths(path);
        if !faults.is_empty() {
            terminal.tell(&render::lines(&faults, terminal.err.on));
            exit = exit.and(Exit::Unusable);
        }
        for file in found.iter().filter(|it| !ends_with_binpb(it)) {
            let laid = one(file, path != file, it.check, terminal)?;
            seen += 1;
            match laid {
                Laid::Already => (),
                Laid::Anew => anew += 1,
                Laid::Not(it) => exit = exit.and(it),
            }
        }
    }
    match (it.check, anew) {
        (true, 0) => terminal.tell(&format!("{} laid out already\n", counted(seen, "file"))),
        (true, _) => {
            terminal.tell(&format!("{anew} of {} not laid out; `allium fmt` does it\n", counted(seen, "file")));
            exit = exit.and(Exit::Found);
        }
        (false, _) => terminal.tell(&format!("laid out {anew} of {}\n", counted(seen, "file"))),
    }
    Ok(exit)
}

fn ends_with_binpb(path: &Path) -> bool {
    path.extension().is_some_and(|it| it.eq_ignore_ascii_case("binpb"))
}

/// Lays one file out, and prints its name where that changes it, or would.
fn one(file: &Path, of_folder: bool, check: bool, terminal: &Terminal) -> Result<Laid, Exit> {
    let failed = |what: &str, fault: std::io::Error| {
        terminal.error(&format!("{}: cannot be {what}: {fault}", file.display()));
        Ok(Laid::Not(Exit::Unusable))
    };
    let bytes = match fs::read(file) {
        Ok(it) => it,
        Err(fault) => return failed("read", fault),
    };
    let input = Input::new(file.to_string_lossy(), bytes);
    if of_folder && !defines(&input) {
        return Ok(Laid::Already);
    }
    let text = match schemas::format::format(&input) {
        Ok(it) => it,
        Err(faults) => {
            terminal.tell(&render::lines(&faults, terminal.err.on));
            return Ok(Laid::Not(Exit::Found));
        }
    };
    if text.as_bytes() == input.bytes {
        return Ok(Laid::Already);
    }
    if !check && let Err(fault) = files::replace(file, text.as_bytes()) {
        return failed("written", fault);
    }
    terminal.print(format!("{}\n", file.display()))?;
    Ok(Laid::Anew)
}

/// Whether a file holds a definition: schemas and data that definitions name may lie beside them. What cannot be read is told.
fn defines(input: &Input) -> bool {
    let Ok(text) = std::str::from_utf8(&input.bytes) else { return true };
    let spans = match input.name.to_ascii_lowercase().ends_with(".json") {
        true => vec![Span::new(0, text.len())],
        false => yaml::documents(text),
    };
    let is_definition = |span: Span| {
        let read = yaml::read(text, span);
        // A list of definitions is one too.
        let has_kind = |node: &schemas::tree::Node<'_>| match &node.value {
            schemas::tree::Value::List(items) => items.iter().any(|it| it.get("kind").is_some()),
            _ => node.get("kind").is_some(),
        };
        !read.faults.is_empty() || read.root.as_ref().is_some_and(has_kind)
    };
    spans.is_empty() || spans.into_iter().any(is_definition)
}

fn stdin(check: bool, terminal: &Terminal) -> Result<Exit, Exit> {
    let input = Input::new("stdin.yaml", files::stdin(terminal)?);
    match schemas::format::format(&input) {
        Ok(text) if check => Ok(if text.as_bytes() == input.bytes { Exit::Well } else { Exit::Found }),
        Ok(text) => terminal.print(text).map(|()| Exit::Well),
        Err(faults) => {
            terminal.tell(&render::text(&faults, terminal.err.on));
            Ok(Exit::Found)
        }
    }
}
