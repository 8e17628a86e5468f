//! The packages of the workspace: who may depend on whom, and where plugins may be named.
use crate::{
    none,
    source::code,
    tree::{self, File},
};

/// A package of ours, its folder, and the packages of ours that it may use.
const PACKAGES: &[(&str, &str, &[&str])] = &[
    ("schemas", "schemas", &[]),
    ("contract", "gateway/contract", &[]),
    ("lua", "lua", &["contract"]),
    // Of `schemas` a plugin uses the units alone (durations, sizes), so that `10m` means the same everywhere in a definition.
    ("plugins", "plugins", &["contract", "lua", "schemas"]),
    ("gateway", "gateway", &["contract", "lua", "plugins", "schemas"]),
    ("tests", "tests", &["contract", "gateway", "lua", "plugins", "schemas"]),
    ("bench", "bench", &[]),
];

fn dependencies(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, folder, allowed) in PACKAGES {
        let Some(manifest) = files.iter().find(|it| it.path == format!("{folder}/Cargo.toml")) else { continue };
        let mut section = "";
        for line in manifest.text.lines() {
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
            let ours = PACKAGES.iter().any(|it| it.0 == key);
            if section.contains("dependencies") && ours && !allowed.contains(&key) {
                faults.push(format!("{}: {name} does not depend on {key}", manifest.path));
            }
            if section.contains("dependencies") && !key.is_empty() && !key.starts_with('#') && !line.contains("workspace = true") {
                faults.push(format!("{}: {key} is not listed in the workspace", manifest.path));
            }
        }
    }
    faults
}

/// Only `main.rs` names plugins; the rest of the gateway is handed a list.
fn plugins_are_named(files: &[File]) -> Vec<String> {
    let gateway = files.iter().filter(|it| it.under("gateway/src") && it.is("rs") && it.path != "gateway/src/main.rs");
    gateway.filter(|it| names_plugins(&it.text)).map(|it| format!("{}: names the package plugins; only main.rs does", it.path)).collect()
}

fn names_plugins(text: &str) -> bool {
    let code = code(text);
    // A module or a variable of that name is another thing.
    let own = code.contains("mod plugins;") || code.contains("mod plugins {");
    let path = |(at, _): (usize, &str)| !code[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == ':');
    !own && code.match_indices("plugins::").any(path) || code.contains("extern crate plugins") || code.contains("use plugins;")
}

/// The tree of packages lists exactly the members.
fn members(workspace: &str) -> Vec<String> {
    let line = workspace.lines().find(|it| it.starts_with("members")).unwrap_or_default();
    let listed: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    let unknown = listed.iter().filter(|it| !PACKAGES.iter().any(|(_, folder, _)| folder == *it));
    unknown.map(|it| format!("Cargo.toml: the package {it} has no place in the graph; give it one here")).collect()
}

#[test]
fn packages_depend_only_downwards() {
    none(dependencies(tree::files()));
}

#[test]
fn only_main_names_plugins() {
    none(plugins_are_named(tree::files()));
}

#[test]
fn every_package_has_its_place() {
    none(members(&tree::files().iter().find(|it| it.path == "Cargo.toml").expect("Cargo.toml").text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    #[test]
    fn an_import_upwards_is_found() {
        let bad = [file("schemas/Cargo.toml", "[dependencies]\ncontract.workspace = true\n")];
        assert_eq!(dependencies(&bad), ["schemas/Cargo.toml: schemas does not depend on contract"]);
        let bad = [file("plugins/Cargo.toml", "[dev-dependencies]\ngateway = { workspace = true }\n")];
        assert_eq!(dependencies(&bad).len(), 1);
        let good = [file("plugins/Cargo.toml", "[package]\nname = \"plugins\"\n[dependencies]\ncontract.workspace = true\n")];
        assert_eq!(dependencies(&good), Vec::<String>::new());
    }

    #[test]
    fn a_version_outside_the_workspace_list_is_found() {
        let bad = [file("lua/Cargo.toml", "[dependencies]\nmlua = \"0.12\"\n")];
        assert_eq!(dependencies(&bad), ["lua/Cargo.toml: mlua is not listed in the workspace"]);
    }

    #[test]
    fn naming_plugins_is_found() {
        for bad in ["use plugins::ALL;", "fn f() { g(plugins::ALL) }", "use {plugins::cors, std::fmt};"] {
            assert!(names_plugins(bad), "{bad}");
        }
        for good in ["// plugins::ALL", "use crate::plugins::X;", "let plugins = 1;", "mod plugins;\nuse plugins::X;"] {
            assert!(!names_plugins(good), "{good}");
        }
    }

    #[test]
    fn a_new_package_is_found() {
        assert_eq!(members("members = [\"schemas\", \"attic\"]").len(), 1);
    }
}
