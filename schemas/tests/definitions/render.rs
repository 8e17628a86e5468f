//! Faults for people and programs.

use schemas::{Fault, Input, Options, Source, Span, load, render};
use serde_json::Value;

fn some() -> Vec<Fault> {
    load(vec![Input::new("routes/a b.yaml", "kind: Plan\nname: A\nrat: 1/s\n")], &Options::default()).faults
}

#[test]
fn json_is_a_list_of_the_seven_keys() {
    let list: Value = serde_json::from_str(&render::json(&some())).unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 2);
    let keys: Vec<&String> = list[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["file", "line", "column", "code", "severity", "message", "help"]);
    assert_eq!((list[1]["line"].as_u64(), list[1]["column"].as_u64(), list[1]["code"].as_str()), (Some(3), Some(1), Some("unknown-key")));
    assert_eq!(list[1]["help"], "did you mean `rate`?");
    assert_eq!(render::json(&[]), "[]\n");
}

#[test]
fn sarif_holds_what_version_2_1_0_requires() {
    let mut faults = some();
    faults.push(Fault::of_file("f.binpb#Api/a/proxy", "bad-unit", "m"));
    let log: Value = serde_json::from_str(&render::sarif(&faults, "1.2.3")).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().starts_with("https://"));
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "allium");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], result["ruleId"]);
        assert!(matches!(result["level"].as_str().unwrap(), "error" | "warning" | "note" | "none"));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let physical = &result["locations"][0]["physicalLocation"];
        assert!(physical["artifactLocation"]["uri"].is_string());
        if let Some(region) = physical.get("region") {
            for key in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(region[key].as_u64().unwrap() >= 1);
            }
        }
    }
    assert_eq!(results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "routes/a%20b.yaml");
    assert_eq!(results[2]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "f.binpb");
    assert_eq!(results[2]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], "Api/a/proxy");
    assert!(serde_json::from_str::<Value>(&render::sarif(&[], "1")).unwrap()["runs"][0]["results"].as_array().unwrap().is_empty());
}

fn drawn(text: &str, part: &str) -> String {
    let at = text.find(part).unwrap();
    let source = Source::new("f", text.to_owned());
    let told = render::text(&[Fault::at(&source, Span::new(at, at + part.len()), "c", "m")], false);
    told.lines().skip(2).take(2).map(|line| line.split_once("| ").unwrap().1.to_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_caret_stands_below_tabs_wide_and_combining_characters() {
    assert_eq!(drawn("a\tbad", "bad"), "a    bad\n     ^^^");
    assert_eq!(drawn("中文: bad", "bad"), "中文: bad\n      ^^^");
    assert_eq!(drawn("e\u{301}: bad", "bad"), "e\u{301}: bad\n   ^^^");
    assert_eq!(drawn("a: 中文", "中文"), "a: 中文\n   ^^^^");
    assert_eq!(drawn("a: b", "a: b\n".trim_end()), "a: b\n^^^^");
}

#[test]
fn a_long_line_is_cut_around_the_fault() {
    let line = format!("{}bad{}", "x".repeat(5000), "y".repeat(5000));
    let drawn = drawn(&line, "bad");
    let (shown, carets) = drawn.split_once('\n').unwrap();
    assert!(shown.starts_with('…') && shown.ends_with('…') && shown.chars().count() < 200);
    let at = carets.chars().count() - 3;
    assert_eq!(shown.chars().skip(at).take(3).collect::<String>(), "bad");
}

#[test]
fn no_text_of_a_file_steers_the_terminal() {
    let faults = load(vec![Input::new("a.yaml", "kind: Plan\nname: a\n\"\\e[31mx\": 1\n")], &Options::default()).faults;
    assert_eq!(faults.len(), 1);
    assert!(!render::text(&faults, false).contains('\u{1b}'));
    let coloured = render::text(&faults, true);
    assert!(coloured.contains("\u{1b}[1;31merror[unknown-key]\u{1b}[0m"), "{coloured}");
}
