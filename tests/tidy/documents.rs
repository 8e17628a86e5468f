//! The documents: every link leads somewhere, and every dependency has its reason.
use std::collections::BTreeSet;

use crate::{
    none,
    tree::{self, File},
};

fn broken_links(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|it| it.is("md")) {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let whole = if path.is_empty() { file.path.clone() } else { joined(&file.path, path) };
            let found = files.iter().find(|it| it.path == whole);
            if found.is_none() && !exists(&whole) {
                faults.push(format!("{}:{line}: {target} leads nowhere", file.path));
            }
            if let (Some(anchor), Some(found)) = (anchor, found)
                && found.is("md")
                && !anchors(&found.text).contains(anchor)
            {
                faults.push(format!("{}:{line}: {whole} has no heading #{anchor}", file.path));
            }
        }
    }
    faults
}

/// The targets of `[text](target)` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("](") {
            // Inside a code span it is not a link.
            let code = before.matches('`').count() % 2 == 1;
            let Some((target, after)) = after.split_once(')') else { break };
            if !code {
                found.push((line, target.split(' ').next().unwrap_or_default()));
            }
            rest = after;
        }
    }
    found
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((at + 1, line))
    })
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, it)| it.strip_prefix('#').map(|it| it.trim_start_matches('#').trim()));
    let letters = |it: &str| -> String {
        it.to_lowercase()
            .chars()
            .filter(|it| it.is_alphanumeric() || " -_".contains(*it))
            .map(|it| if it == ' ' { '-' } else { it })
            .collect()
    };
    headings.map(letters).collect()
}

fn joined(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The schema that an example's first line names is there, so that editors find it.
fn lost_schemas(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let examples = files.iter().filter(|it| it.under("routes") && (it.is("yaml") || it.is("yml")));
    let named = examples.filter_map(|it| Some((it, it.text.lines().next()?.strip_prefix("# yaml-language-server: $schema=")?)));
    let lost = named.filter(|(file, path)| !path.contains("://") && !exists(&joined(&file.path, path)));
    lost.map(|(file, path)| format!("{}:1: the schema {path} is not there", file.path)).collect()
}

/// Every dependency of the workspace stands in the README's table.
fn without_reason(workspace: &str, readme: &str) -> Vec<String> {
    let mut section = "";
    let mut faults = Vec::new();
    for line in workspace.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[workspace.dependencies]" && line.contains('=') && !line.contains("path =") {
            let name = line.split([' ', '.', '=']).next().unwrap_or_default();
            if !readme.lines().any(|it| it.starts_with('|') && it.split('|').nth(1).is_some_and(|it| it.contains(&format!("`{name}`")))) {
                faults.push(format!("README.md: the dependency {name} has no reason"));
            }
        }
    }
    faults
}

/// The worked examples that a page does not show as they are: what it prints is what was compiled and tested.
fn not_shown(page: &File, files: &[File]) -> Vec<String> {
    let examples = files.iter().filter(|it| it.under("plugins/tests/worked") && !it.path.ends_with("/main.rs"));
    let lost = examples.filter(|it| !page.text.contains(&format!("```rust\n{}```\n", it.text)));
    lost.map(|it| format!("{}: does not show {} as it is", page.path, it.path)).collect()
}

#[test]
fn the_manual_of_plugins_shows_what_is_compiled() {
    let page = tree::files().iter().find(|it| it.path == "docs/PLUGIN.md").expect("docs/PLUGIN.md");
    none(not_shown(page, tree::files()));
}

/// What the demo prints to try stands in the README, with its answers.
fn not_answered(demo: &str, readme: &str) -> Vec<String> {
    let tries = demo.lines().map(str::trim).filter(|it| it.starts_with("curl "));
    tries.filter(|it| !readme.contains(&format!("\n$ {it}\n"))).map(|it| format!("README.md: does not say what answers `{it}`")).collect()
}

#[test]
fn the_readme_answers_what_the_demo_asks() {
    let text = |path: &str| &tree::files().iter().find(|it| it.path == path).unwrap_or_else(|| panic!("{path}")).text;
    none(not_answered(text("tests/demo.rs"), text("README.md")));
}

#[test]
fn every_link_leads_somewhere() {
    none(broken_links(tree::files(), &|path| tree::root().join(path).exists()));
}

#[test]
fn every_example_finds_its_schema() {
    none(lost_schemas(tree::files(), &|path| tree::root().join(path).exists()));
}

#[test]
fn every_dependency_has_its_reason() {
    let text = |path: &str| &tree::files().iter().find(|it| it.path == path).unwrap_or_else(|| panic!("{path}")).text;
    none(without_reason(text("Cargo.toml"), text("README.md")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn check(text: &str, expected: &[&str]) {
        let files = [file("docs/a.md", text), file("docs/b.md", "# The house\n\n## What `x` is\n"), file("README.md", "")];
        let found = broken_links(&files, &|_| false);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(it, part)| it.contains(part)), "{found:?}");
    }

    #[test]
    fn links_are_followed() {
        check("[b](b.md) [up](../README.md) [out](https://example.com/x) [h](b.md#the-house) [x](b.md#what-x-is)\n", &[]);
        check("[gone](c.md)\n", &["c.md leads nowhere"]);
        check("[gone](b.md#attic)\n", &["no heading #attic"]);
        check("```\n[code](c.md)\n```\n`[code](c.md)`\n", &[]);
        check("# Here\n[a](#here) [b](#there)\n", &["#there"]);
    }

    #[test]
    fn a_lost_schema_is_found() {
        let example = [file("routes/demo/a.yaml", "# yaml-language-server: $schema=../../schemas/x.json\nkind: Api\n")];
        assert_eq!(lost_schemas(&example, &|path| path == "schemas/x.json"), Vec::<String>::new());
        assert_eq!(lost_schemas(&example, &|_| false).len(), 1);
    }

    #[test]
    fn a_try_without_answer_is_found() {
        assert_eq!(not_answered("  curl http://a/b\n", "x\n$ curl http://a/b\nyes\n"), Vec::<String>::new());
        assert_eq!(not_answered("  curl http://a/b\n", "nothing").len(), 1);
    }

    #[test]
    fn an_example_that_a_page_shows_otherwise_is_found() {
        let examples = [file("plugins/tests/worked/main.rs", "mod a;\n"), file("plugins/tests/worked/a.rs", "fn a() {}\n")];
        assert_eq!(not_shown(&file("docs/PLUGIN.md", "```rust\nfn a() {}\n```\n"), &examples), Vec::<String>::new());
        assert_eq!(not_shown(&file("docs/PLUGIN.md", "```rust\nfn b() {}\n```\n"), &examples).len(), 1);
    }

    #[test]
    fn a_dependency_without_reason_is_found() {
        let workspace = "[workspace.dependencies]\nours = { path = \"x\" }\nbytes = \"1\"\nhttp = { version = \"1\" }\n";
        assert_eq!(without_reason(workspace, "| `bytes` | buffers |\n| x | `http` |\n"), ["README.md: the dependency http has no reason"]);
    }
}
