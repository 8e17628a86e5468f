//! Faults as they are told: each `tests/faults/NAME.EXT` beside its `NAME.txt`. `ALLIUM_UPDATE=1` writes the texts anew, to be read before they are kept.

use std::{fs, path::Path};

use schemas::{Form, Input, Options, Plugins, TextAt, TextFault, load, render};
use serde_json::json;

/// Refuses texts that hold `!!`, at that place: a stand-in for a compiler of expressions.
fn judge(at: TextAt<'_>, text: &str) -> Result<(), TextFault> {
    match text.find("!!") {
        Some(offset) => {
            let message = format!("the {} stops making sense here", at.form.name());
            Err(TextFault { offset, len: 2, code: "bad-expression", message, help: None })
        }
        None => Ok(()),
    }
}

fn plugins() -> Plugins {
    let cors = json!({
        "type": "object", "additionalProperties": false, "required": ["origins"],
        "properties": {
            "origins": {"type": "array", "items": {"type": "string"}, "description": "Who may ask."},
            "max_age": {"type": "string", "format": "duration"},
            "credentials": {"type": "boolean"},
            "when_down": {"anyOf": [{"$ref": "#/$defs/Down"}, {"type": "null"}]},
            "mode": {"oneOf": [{"const": "strict", "description": "…"}, {"const": "lax", "description": "…"}]},
            "key": {"type": "string", "format": "expression"},
        },
        "$defs": {"Down": {"oneOf": [
            {"type": "object", "required": ["serve"], "additionalProperties": false, "properties": {"serve": {"type": "string", "format": "duration"}}},
            {"type": "object", "required": ["refuse"], "additionalProperties": false, "properties": {"refuse": {"type": "integer", "format": "uint16", "minimum": 400}}},
        ]}},
    });
    Plugins::new([("cors", cors), ("headers", json!({"type": "object"}))]).known(["waf"])
}

#[test]
fn faults_are_told_with_place_line_caret_and_help() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "txt") {
            continue;
        }
        seen += 1;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let plugins = plugins();
        let options = Options { judge: Some(&judge), plugins: Some(&plugins), ..Options::default() };
        let loaded = load(vec![Input::new(name.clone(), fs::read(&path).unwrap())], &options);
        let told = render::text(&loaded.faults, false);
        let expected_path = path.with_extension("txt");
        if std::env::var_os("ALLIUM_UPDATE").is_some() {
            fs::write(&expected_path, &told).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if told != expected {
            wrong.push(format!("--- {name}: told\n{told}\n--- expected\n{expected}"));
        }
        assert!(!loaded.faults.is_empty(), "{name} has no fault");
        assert!(loaded.faults.iter().all(|fault| fault.excerpt.is_some()), "{name}");
    }
    assert!(seen >= 12, "{seen} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_judge_is_asked_about_every_language_with_its_place() {
    let asked = std::sync::Mutex::new(Vec::new());
    let judge = |at: TextAt<'_>, text: &str| {
        asked.lock().unwrap().push((at.form, at.path.to_string(), text.to_owned()));
        Ok(())
    };
    let text = "kind: Api\ninfo: {name: a}\ninbound: {match: GET /a, when: w}\nplugins: [{cors: {origins: [], key: k}, when: r}]\n\
                proxy: {respond: {headers: {x: h}, body: {a: [b]}}}\n";
    let plugins = plugins();
    let loaded = load(vec![Input::new("a.yaml", text)], &Options { judge: Some(&judge), plugins: Some(&plugins), ..Options::default() });
    assert!(loaded.faults.is_empty(), "{:?}", loaded.faults);
    let mut asked = asked.into_inner().unwrap();
    asked.sort_by(|a, b| a.1.cmp(&b.1));
    let expected = [
        (Form::Pattern, "/inbound/match", "GET /a"),
        (Form::Condition, "/inbound/when", "w"),
        (Form::Expression, "/plugins/0/cors/key", "k"),
        (Form::Condition, "/plugins/0/when", "r"),
        (Form::Template, "/proxy/respond/body/a/0", "b"),
        (Form::Template, "/proxy/respond/headers/x", "h"),
    ];
    assert_eq!(asked, expected.map(|(form, path, text)| (form, path.to_owned(), text.to_owned())));
}
