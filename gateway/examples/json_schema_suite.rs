//! Runs the JSON-Schema-Test-Suite against the validator of bodies, and prints the table of docs/JSON_SCHEMA.md.
//!
//! `cargo run --example json_schema_suite -- SUITE`, the folder with `tests` and `remotes`; `make suites` fetches it.
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use contract::json::{JsonRef, JsonView};
use gateway::params::{body, schema};
use jsonschema::{Draft, Retrieve, Uri};
use serde_json::Value;

const DRAFTS: [(&str, Draft); 3] = [("draft4", Draft::Draft4), ("draft7", Draft::Draft7), ("draft2020-12", Draft::Draft202012)];

/// Schemas that the suite expects at this address; they lie beside it.
struct Remotes(PathBuf);

impl Retrieve for Remotes {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let path = uri.as_str().strip_prefix("http://localhost:1234/").ok_or("not of the suite")?;
        Ok(serde_json::from_slice(&fs::read(self.0.join(path.split('#').next().unwrap_or(path)))?)?)
    }
}

/// How a part of the suite went.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
}

fn file(path: &Path, draft: Draft, formats: bool, remotes: &Path, tally: &mut Tally) {
    // Read by our own parser, as a body is.
    let view = JsonView::parse(fs::read(path).expect("a file of the suite")).expect("JSON");
    let text = |it: JsonRef<'_>, key: &str| it.get(key).and_then(|it| it.as_str()).unwrap_or_default().into_owned();
    for group in view.root().items() {
        let schema: Value = group.get("schema").and_then(|it| serde_json::from_str(it.raw_str()).ok()).expect("a schema");
        let options = jsonschema::options().with_draft(draft).with_retriever(Remotes(remotes.to_owned())).should_validate_formats(formats);
        let validator = schema::build(options, &schema);
        for case in group.get("tests").expect("tests").items() {
            let name = || {
                let file = path.file_stem().unwrap_or_default().to_string_lossy();
                format!("{file}: {}: {}", text(group, "description"), text(case, "description"))
            };
            let (data, valid) = (case.get("data").expect("data"), case.get("valid").and_then(JsonRef::as_bool));
            match &validator {
                Ok(it) if Some(it.is_valid(&body::value(data))) == valid => tally.passed += 1,
                Ok(_) => tally.failed.push(name()),
                Err(fault) => tally.failed.push(format!("{} ({})", name(), fault.message)),
            }
        }
    }
}

fn main() -> ExitCode {
    let Some(suite) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: json_schema_suite FOLDER");
        return ExitCode::from(2);
    };
    let remotes = suite.join("remotes");
    let mut table: BTreeMap<(usize, &str), Tally> = BTreeMap::new();
    for (at, (name, draft)) in DRAFTS.iter().enumerate() {
        for (part, below, formats) in [("required, `format` off", "", false), ("optional formats, asserted", "optional/format", true)] {
            let tally = table.entry((at, part)).or_default();
            let folder = suite.join("tests").join(name).join(below);
            let mut files: Vec<_> = fs::read_dir(folder).expect("a folder of the suite").flatten().map(|it| it.path()).collect();
            files.sort();
            for it in files.iter().filter(|it| it.extension().is_some_and(|it| it == "json")) {
                file(it, *draft, formats, &remotes, tally);
            }
        }
    }
    println!("# JSON Schema\n");
    println!("How the validator of bodies does in the JSON-Schema-Test-Suite that ships with the Python package `jsonschema` 4.26.0.");
    println!("`make suites` fetches it and writes this file anew.\n");
    println!("| draft | part | cases | passed |\n|---|---|---|---|");
    let mut all = true;
    for ((at, part), it) in &table {
        println!("| {} | {part} | {} | {} |", DRAFTS[*at].0.trim_start_matches("draft"), it.passed + it.failed.len(), it.passed);
        all &= it.failed.is_empty() || part.starts_with("optional");
    }
    println!("\n## Cases that fail\n");
    for ((at, _), it) in &table {
        it.failed.iter().for_each(|name| println!("- {}: {name}", DRAFTS[*at].0.trim_start_matches("draft")));
    }
    if table.values().all(|it| it.failed.is_empty()) {
        println!("None.");
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
