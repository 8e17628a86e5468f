//! `allium test`: the tests inside definitions, with their own answers in the place of backends. No network.
mod case;
mod compare;
mod junit;

use std::{sync::Arc, time::Duration};

use schemas::{Definition, render};

use self::case::{Case, Ran, Stage};
use super::{
    exit::Exit,
    line::Test,
    terminal::Terminal,
    world::{Given, World, counted, exit_of},
};
use crate::runtime::Workers;

/// How many threads run tests, at most.
const MOST_THREADS: usize = 16;
/// How long one test may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn test(it: &Test, given: &Given, terminal: &Terminal) -> Result<Exit, Exit> {
    let known = given.settings().require(terminal)?;
    let paths = [it.path.clone().unwrap_or_else(|| known.dir.clone())];
    let world = known.world(given.plugins, &paths, true, terminal);
    let end = exit_of(&world.faults, false);
    if end != Exit::Well {
        terminal.tell(&render::text(&world.faults, terminal.err.on));
        return Err(end);
    }
    let cases: Vec<Arc<Case>> = cases(&world, it.only.as_deref()).into_iter().map(Arc::new).collect();
    if cases.is_empty() {
        terminal.note(match &it.only {
            Some(_) => "no test has such a name",
            None => "there is no test in these definitions; they stand under `tests` of an Api",
        });
        return Ok(if it.only.is_some() { Exit::Found } else { Exit::Well });
    }
    let ran = run(&world, &cases).map_err(|why| {
        terminal.error(&format!("threads could not be started: {why}"));
        Exit::Unusable
    })?;
    if let Some(file) = &it.junit {
        std::fs::write(file, junit::write(&cases, &ran)).map_err(|why| {
            terminal.error(&format!("{} cannot be written: {why}", file.display()));
            Exit::Unusable
        })?;
    }
    terminal.print(text(&cases, &ran, terminal))?;
    Ok(if ran.iter().all(|it| it.faults.is_empty()) { Exit::Well } else { Exit::Found })
}

/// All tests, in the order of the definitions.
fn cases(world: &World, only: Option<&str>) -> Vec<Case> {
    let mut all = Vec::new();
    for document in &world.documents {
        let Definition::Api(api) = &document.message else { continue };
        for (at, it) in api.tests.iter().enumerate().filter(|(_, it)| only.is_none_or(|only| it.name.contains(only))) {
            let place = document.places.fault(&format!("/tests/{at}/name"), "", "");
            all.push(Case::new(document, api, it, place.line));
        }
    }
    all
}

/// Runs them side by side; the results in the order of the cases.
fn run(world: &World, cases: &[Arc<Case>]) -> std::io::Result<Vec<Ran>> {
    let threads = std::thread::available_parallelism().map_or(1, |it| it.get()).min(MOST_THREADS).min(cases.len());
    let workers = Workers::start(threads)?;
    let stage = Arc::new(Stage::new(world));
    let (told, hear) = std::sync::mpsc::channel();
    for (at, case) in cases.iter().enumerate() {
        let (case, stage, told) = (case.clone(), stage.clone(), told.clone());
        workers.all()[at % threads].run_local(move |local| async move {
            let ran = tokio::time::timeout(PATIENCE, case.run(&stage, local)).await;
            let _ = told.send((at, ran.unwrap_or_else(|_| Ran::broken("it was not done within a minute"))));
        });
    }
    drop(told);
    let mut ran: Vec<Option<Ran>> = cases.iter().map(|_| None).collect();
    for (at, it) in hear.iter() {
        ran[at] = Some(it);
    }
    workers.stop();
    Ok(ran.into_iter().map(|it| it.unwrap_or_else(|| Ran::broken("it panicked"))).collect())
}

fn text(cases: &[Arc<Case>], ran: &[Ran], terminal: &Terminal) -> String {
    let paint = terminal.out;
    let mut out = String::new();
    for (case, ran) in cases.iter().zip(ran) {
        match ran.faults.is_empty() {
            true => out.push_str(&format!("{}    {}  {}\n", paint.green("ok"), case.api, case.name)),
            false => {
                let place = paint.dim(&format!("({}:{})", case.file, case.line));
                out.push_str(&format!("{}  {}  {}  {place}\n", paint.red("FAIL"), case.api, case.name));
                for fault in &ran.faults {
                    out.push_str(&format!("      {}\n", fault.at));
                    if let Some(it) = &fault.expected {
                        out.push_str(&format!("        {}\n", paint.green(&format!("- {it}"))));
                    }
                    out.push_str(&format!("        {}\n", paint.red(&format!("+ {}", fault.got))));
                }
                out.push_str(&format!("      the answer: {}\n", ran.answer));
            }
        }
    }
    let failed = ran.iter().filter(|it| !it.faults.is_empty()).count();
    let counts = match failed {
        0 => paint.green(&format!("{} passed", counted(ran.len(), "test"))),
        _ => paint.red(&format!("{failed} of {} failed; - is what was expected, + what came", counted(ran.len(), "test"))),
    };
    out.push_str(&format!("\n{counts}\n"));
    out
}
