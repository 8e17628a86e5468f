//! `allium convert`: the same definitions, written in another way.
use std::path::Path;

use schemas::{Definition, Input, Written};

use super::{
    exit::Exit,
    files,
    line::{Convert, Ending},
    terminal::Terminal,
};

pub fn convert(it: &Convert, terminal: &Terminal) -> Result<Exit, Exit> {
    let target = match files::is_dash(&it.target) {
        true => written(it.to),
        false => by_name(&it.target, terminal)?,
    };
    let inputs = match files::is_dash(&it.source) {
        true => vec![Input::new(format!("stdin.{}", ending(it.from)), files::stdin(terminal)?)],
        false => {
            if !it.source.is_dir() {
                by_name(&it.source, terminal)?;
            }
            files::inputs(&it.source, terminal)?
        }
    };
    let documents = files::definitions(inputs, terminal, Exit::Found)?;
    let definitions: Vec<&Definition> = documents.iter().map(|it| &it.message).collect();
    let bytes = schemas::convert(definitions.iter().copied(), target);
    match files::is_dash(&it.target) {
        true => terminal.print(bytes)?,
        false => files::replace(&it.target, &bytes).map_err(|fault| {
            terminal.error(&format!("{}: cannot be written: {fault}", it.target.display()));
            Exit::Unusable
        })?,
    }
    Ok(Exit::Well)
}

fn by_name(path: &Path, terminal: &Terminal) -> Result<Written, Exit> {
    Written::by_name(&path.to_string_lossy()).ok_or_else(|| {
        terminal.error(&format!("{}: the name must end in .yaml, .yml, .json or .binpb", path.display()));
        Exit::Usage
    })
}

fn written(it: Ending) -> Written {
    match it {
        Ending::Yaml => Written::Yaml,
        Ending::Json => Written::Json,
        Ending::Binpb => Written::Binary,
    }
}

fn ending(it: Ending) -> &'static str {
    match it {
        Ending::Yaml => "yaml",
        Ending::Json => "json",
        Ending::Binpb => "binpb",
    }
}
