//! Every example of the manual, in `tests/examples`.

use std::{fs, path::Path};

use schemas::{Input, Loaded, Options, load};

/// Loads every example; none has a fault.
pub fn all() -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let inputs = files.iter().map(|path| Input::new(path.to_str().unwrap(), fs::read(path).unwrap())).collect();
    load(inputs, &Options::default())
}

#[test]
fn every_example_of_the_manual_loads_without_a_fault() {
    let loaded = all();
    assert!(loaded.faults.is_empty(), "{:#?}", loaded.faults);
    assert!(loaded.broken.is_empty());
    assert!(loaded.documents.len() >= 10, "{} documents", loaded.documents.len());
}

#[test]
fn the_examples_hold_every_key_of_the_format() {
    let text: String = {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
        fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    };
    let schema = schemas::json_schema(&[]);
    let mut missing = Vec::new();
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        let objects = [Some(definition), definition.get("anyOf").and_then(|ways| ways.as_array()?.last())];
        for (key, _) in objects.into_iter().flatten().filter_map(|object| object.get("properties")?.as_object()).flatten() {
            let json_schema_keyword = name == "Param" && !matches!(key.as_str(), "in" | "required" | "explode");
            if !json_schema_keyword && key != "kind" && !text.contains(&format!("{key}:")) {
                missing.push(format!("{name}.{key}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
