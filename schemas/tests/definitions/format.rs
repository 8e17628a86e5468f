//! Layout: each `tests/format/NAME.yaml` beside `NAME.out`.

use std::{fs, path::Path};

use schemas::{Input, format::format};

#[test]
fn layout_is_canonical_and_laid_out_again_stays() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format");
    let mut seen = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        seen += 1;
        let laid = format(&Input::new("a.yaml", fs::read(&path).unwrap())).unwrap_or_else(|faults| panic!("{path:?}: {faults:?}"));
        if std::env::var_os("ALLIUM_UPDATE").is_some() {
            fs::write(path.with_extension("out"), &laid).unwrap();
        }
        assert_eq!(laid, fs::read_to_string(path.with_extension("out")).unwrap_or_default(), "{path:?}");
        assert_eq!(format(&Input::new("a.yaml", laid.clone())).unwrap(), laid, "{path:?} laid out again");
    }
    assert!(seen >= 3);
}

#[test]
fn every_example_is_laid_out_already_or_keeps_its_meaning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let laid = format(&Input::new("a.yaml", fs::read(&path).unwrap())).unwrap();
        assert_eq!(laid, fs::read_to_string(&path).unwrap(), "{path:?}");
    }
}

#[test]
fn a_file_with_faults_is_told_and_not_touched() {
    assert_eq!(format(&Input::new("a.yaml", "a: [1\n")).unwrap_err()[0].code, "syntax");
    assert_eq!(format(&Input::new("a.yaml", "a: 1\na: 2\n")).unwrap_err()[0].code, "repeated-key");
    assert_eq!(format(&Input::new("a.json", "{")).unwrap_err()[0].code, "syntax");
    assert_eq!(format(&Input::new("a.json", "{\"b\":1.10,\"a\":[]}")).unwrap(), "{\n  \"b\": 1.10,\n  \"a\": []\n}\n");
}

#[test]
fn nothing_is_left_of_an_empty_file_and_windows_line_ends_go() {
    assert_eq!(format(&Input::new("a.yaml", "")).unwrap(), "");
    assert_eq!(format(&Input::new("a.yaml", "\n\n")).unwrap(), "");
    assert_eq!(format(&Input::new("a.yaml", "# only\n")).unwrap(), "# only\n");
    assert_eq!(format(&Input::new("a.yaml", "\u{feff}a: 1\r\nb:\r\n    c: |\r\n        x\r\n")).unwrap(), "a: 1\nb:\n  c: |\n    x\n");
}
