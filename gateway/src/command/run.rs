//! `allium run`: the gateway serves.
use std::process::ExitCode;

use super::{
    exit::Exit,
    line::Run,
    terminal::Terminal,
    world::{Given, exit_of},
};

pub fn run(it: &Run, given: &Given, terminal: &Terminal) -> ExitCode {
    let known = match given.settings().require(terminal) {
        Ok(it) => it,
        Err(exit) => return exit.into(),
    };
    if it.strict {
        let mut faults = known.faults.clone();
        faults.extend(known.world(given.plugins, std::slice::from_ref(&known.dir), false, terminal).faults);
        let exit = exit_of(&faults, true);
        if exit != Exit::Well {
            terminal.tell(&schemas::render::text(&faults, terminal.err.on));
            terminal.error("with --strict the gateway does not start before these are mended");
            return exit.into();
        }
    }
    match known.loaded {
        Some(loaded) => crate::app::run(loaded, given.plugins),
        None => Exit::Found.into(),
    }
}
