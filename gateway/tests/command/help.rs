//! The help: what it says is what the manual says, and every exit code is in it.
use std::fs;

use crate::bench::{Bench, project};

/// Every word that is built, as the help lists them.
fn words() -> Vec<String> {
    let it = help(&[]);
    let list = it.split("Commands:\n").nth(1).and_then(|it| it.split("\n\n").next()).expect("a list of commands");
    let named = |it: &str| it.strip_prefix("  ").filter(|it| !it.starts_with(' ')).and_then(|it| it.split(' ').next()).map(str::to_owned);
    let built = list.lines().filter(|it| !it.contains("not built yet")).filter_map(named).filter(|it| it != "help").collect::<Vec<_>>();
    assert!(built.len() > 8, "{it}");
    built
}

fn help(words: &[&str]) -> String {
    let it = Bench::new(&[]).check(&[words, &["--help"]].concat(), 0).out;
    it.lines().map(|it| it.trim_end().to_owned() + "\n").collect()
}

/// Puts a text into the first block of code below a heading.
fn put(manual: &str, heading: &str, text: &str) -> String {
    let from = manual.find(heading).unwrap_or_else(|| panic!("docs/COMMAND.md has no heading {heading}"));
    let start = from + manual[from..].find("```text\n").expect("a block of code") + "```text\n".len();
    let end = start + manual[start..].find("```").expect("the end of a block of code");
    format!("{}{text}{}", &manual[..start], &manual[end..])
}

#[test]
fn the_manual_shows_the_help() {
    let path = project().join("docs/COMMAND.md");
    let manual = fs::read_to_string(&path).unwrap();
    let mut fresh = put(&manual, "## allium\n", &help(&[]));
    for word in words() {
        fresh = put(&fresh, &format!("## allium {word}\n"), &help(&[&word]));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    assert!(fresh == fs::read_to_string(&path).unwrap(), "docs/COMMAND.md is old: run the tests with UPDATE_DOCS=1");
}

#[test]
fn every_word_has_examples_and_exit_codes() {
    for word in words() {
        let it = help(&[&word]);
        assert!(it.contains("Examples:\n  allium ") && it.contains("Exit codes:\n  0  "), "{it}");
        assert!(it.lines().all(|it| it.chars().count() <= 120), "{it}");
    }
    let it = help(&[]);
    for code in ["  0  all is well", "  1  something was found", "  2  the command line", "  3  something cannot"] {
        assert!(it.contains(code), "{it}");
    }
    assert!(words().iter().all(|word| it.contains(&format!("\n  {word} "))), "{it}");
}

#[test]
fn without_a_word_the_help_is_shown_and_a_misspelt_one_is_told_with_the_near_one() {
    let bench = Bench::new(&[]);
    let none: [&str; 0] = [];
    let it = bench.run(&none);
    assert!(it.code == 2 && it.err.contains("Usage: allium"), "{it:?}");
    assert!(bench.check(&["chck"], 2).err.contains("'check'"));
    assert!(bench.check(&["--version"], 0).out.starts_with("allium "));
}
