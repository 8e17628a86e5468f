//! `allium openapi`: the document of what is published.
use schemas::render;

use super::{
    exit::Exit,
    line::{Notation, Openapi},
    terminal::Terminal,
    world::{Given, counted, exit_of},
};
use crate::{compile::published, openapi};

pub fn openapi(it: &Openapi, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = given.settings().require(terminal)?;
    let paths = [it.path.clone().unwrap_or_else(|| known.dir.clone())];
    let world = known.world(given.plugins, &paths, true, terminal);
    let exit = exit_of(&world.faults, false);
    if exit != Exit::Well {
        // A document of half of the definitions would look whole to who reads it.
        let errors: Vec<_> = world.faults.iter().filter(|it| it.is_error()).cloned().collect();
        terminal.tell(&render::text(&errors, terminal.err.on));
        terminal.error(&format!("{} in these definitions, so there is no document of them", counted(errors.len(), "error")));
        return Err(exit);
    }
    let first = known.loaded.as_ref().and_then(|it| it.settings.listen.first());
    let server = it.server.clone().unwrap_or_else(|| first.map_or_else(|| "/".to_owned(), |it| format!("http://{}", it.address)));
    let root = world.shop.root.clone();
    let made = openapi::make(
        &published::published(&world.shop, &world.documents),
        &openapi::Ask {
            title: &it.title,
            version: &it.document_version,
            server: server.trim_end_matches('/'),
            audience: it.audience.as_deref(),
            host: it.host.as_deref(),
            read: &|file| std::fs::read_to_string(root.join(file)).map_err(|it| it.to_string()),
        },
    );
    for note in &made.notes {
        terminal.note(note);
    }
    terminal.print(openapi::written(&made.document, it.format == Notation::Yaml))?;
    Ok(Exit::Well)
}
