//! The command `allium`: what its words do, and how it ends.
mod check;
mod convert;
mod diff;
mod exit;
mod explain;
mod files;
mod fmt;
mod history;
mod line;
mod openapi;
mod past;
mod progress;
mod routes;
mod run;
mod schema;
mod table;
mod terminal;
mod test;
mod world;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;
use contract::catalog::Entry;

use self::{
    exit::Exit,
    line::{Line, Word},
    terminal::Terminal,
    world::Given,
};

/// Does what the arguments say, with the plugins of this build.
pub fn main(arguments: impl IntoIterator<Item = OsString>, plugins: &'static [Entry]) -> ExitCode {
    let line = match Line::try_parse_from(arguments) {
        Ok(it) => it,
        Err(it) => {
            // Help that was asked for is no fault; a reader that left is none either.
            let _ = it.print();
            return if it.use_stderr() { Exit::Usage.into() } else { Exit::Well.into() };
        }
    };
    let terminal = Terminal::of_process();
    let given = Given { config: line.config, plugins };
    let ended = match line.word {
        Word::Run(it) => return run::run(&it, &given, &terminal),
        Word::Check(it) => check::check(&it, &given, &terminal),
        Word::Explain(it) => explain::explain(&it, &given, &terminal),
        Word::Routes(it) => routes::routes(&it, &given, &terminal),
        Word::Fmt(it) => fmt::fmt(&it, &given, &terminal),
        Word::Diff(it) => diff::diff(&it, &given, &terminal),
        Word::History(it) => history::history(&it, &given, &terminal),
        Word::Rollback(it) => history::rollback(&it, &given, &terminal),
        Word::Convert(it) => convert::convert(&it, &terminal),
        Word::Schema(it) => schema::schema(&it, &given, &terminal),
        Word::Test(it) => test::test(&it, &given, &terminal),
        Word::Openapi(it) => openapi::openapi(&it, &given, &terminal),
    };
    ended.unwrap_or_else(|it| it).into()
}
