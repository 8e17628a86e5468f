//! Every example of the manual loads without a fault.

use std::{fs, path::Path};

use schemas::{Input, Loaded, Options, load};

fn loaded(name: &str, text: &str) -> Loaded {
    load(vec![Input::new(name, text)], &Options::default())
}

#[test]
fn every_example_of_the_manual_loads_without_a_fault() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let mut seen = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let loaded = loaded(path.to_str().unwrap(), &fs::read_to_string(&path).unwrap());
        assert!(loaded.faults.is_empty(), "{:#?}", loaded.faults);
        assert!(!loaded.documents.is_empty());
        seen += loaded.documents.len();
    }
    assert!(seen >= 7, "{seen} documents");
}
