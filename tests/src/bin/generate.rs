//! Writes any number of made-up APIs into a folder: `generate FOLDER APIS [PER_FILE] [BACKEND]`.
use std::{path::Path, process::ExitCode};

use tests::generate::Estate;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let estate = match arguments.as_slice() {
        [_, apis] => apis.parse().ok().map(|apis| Estate { apis, per_file: 1, backend: None }),
        [_, apis, per_file] => both(apis, per_file).map(|(apis, per_file)| Estate { apis, per_file, backend: None }),
        [_, apis, per_file, backend] => {
            both(apis, per_file).zip(backend.parse().ok()).map(|((apis, per_file), it)| Estate { apis, per_file, backend: Some(it) })
        }
        _ => None,
    };
    let Some(estate) = estate else {
        eprintln!("usage: generate FOLDER APIS [PER_FILE] [BACKEND]\n  such as: generate estate 10000 1 127.0.0.1:9001");
        return ExitCode::from(2);
    };
    if let Err(why) = estate.write(Path::new(&arguments[0])) {
        eprintln!("{}: {why}", arguments[0]);
        return ExitCode::FAILURE;
    }
    println!("{} APIs in {}", estate.apis, arguments[0]);
    ExitCode::SUCCESS
}

fn both(apis: &str, per_file: &str) -> Option<(usize, usize)> {
    Some((apis.parse().ok()?, per_file.parse().ok()?))
}
