//! The floors of the gateway: a file imports only lower floors, a child never its parent, nobody in a circle.
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    none, source,
    tree::{self, File},
};

/// From the roof to the ground. The rooms of one floor do not import each other.
const FLOORS: &[&[&str]] = &[
    &["main"],
    &["command"],
    &["app"],
    &["admin"],
    &["reload"],
    &["listen"],
    &["compile"],
    &["serve"],
    &["route"],
    &["target"],
    &["pipeline"],
    &["upstream"],
    &[
        "proxy",
        "registry",
        "strategy",
        "source",
        "store",
        "telemetry",
        "render",
        "openapi",
        "settings",
        "runtime",
        "http1",
        "http2",
        "params",
    ],
    &["dial", "digest"],
];

/// Who may look at a room of its own floor.
const NEIGHBOURS: &[(&str, &str)] = &[("proxy", "http1"), ("http2", "http1")];

type Module = Vec<String>;

fn rules(files: &[File]) -> Vec<String> {
    let modules: BTreeMap<Module, &File> = files.iter().filter_map(|it| Some((module(&it.path)?, it))).collect();
    let mut faults = Vec::new();
    let mut edges: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (here, file) in &modules {
        let Some(room) = here.first() else { continue };
        if floor(room).is_none() {
            faults.push(format!("{}: the room {room} has no floor; give it one here and in docs/ARCHITECTURE.md", file.path));
            continue;
        }
        for path in source::named(&file.text, here) {
            // The longest known module of the path is what is imported.
            let Some((there, _)) = (1..=path.len()).rev().find_map(|it| modules.get_key_value(&path[..it])) else {
                if path.first().is_some_and(|it| it != room) {
                    faults.push(format!("{}: names crate::{}, which is no module", file.path, path.join("::")));
                }
                continue;
            };
            if there == here {
                continue;
            }
            if !is_test(here) {
                edges.entry(here).or_default().insert(there);
            }
            faults.extend(refused(here, there).map(|why| format!("{}: imports {}: {why}", file.path, there.join("::"))));
        }
    }
    faults.extend(circle(&edges).map(|it| format!("a circle of imports: {it}")));
    faults.sort();
    faults.dedup();
    faults
}

fn refused(here: &Module, there: &Module) -> Option<String> {
    let (from, to) = (&here[0], &there[0]);
    if from == to {
        let parent = there.len() < here.len() && here.starts_with(there) && !is_test(here);
        return parent.then(|| "a child never imports its parent".into());
    }
    let (Some(a), Some(b)) = (floor(from), floor(to)) else { return None };
    if b < a {
        return Some(format!("{to} stands above {from}"));
    }
    (a == b && !NEIGHBOURS.contains(&(from, to))).then(|| format!("{from} and {to} stand on one floor"))
}

/// Tests in files of their own look at the room that they test.
fn is_test(module: &Module) -> bool {
    module.iter().any(|it| it == "tests")
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|it| it.contains(&room))
}

/// `gateway/src/upstream/pool.rs` is `upstream::pool`; `lib.rs` has no name.
fn module(path: &str) -> Option<Module> {
    let inner = path.strip_prefix("gateway/src/")?.strip_suffix(".rs")?;
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    (inner != "lib").then(|| inner.split('/').map(String::from).collect())
}

/// One circle, if there is any.
fn circle(edges: &BTreeMap<&Module, BTreeSet<&Module>>) -> Option<String> {
    fn visit<'a>(
        at: &'a Module,
        edges: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
        way: &mut Vec<&'a Module>,
        done: &mut BTreeSet<&'a Module>,
    ) -> Option<String> {
        if let Some(start) = way.iter().position(|it| *it == at) {
            let names: Vec<String> = way[start..].iter().chain([&at]).map(|it| it.join("::")).collect();
            return Some(names.join(" → "));
        }
        if !done.insert(at) {
            return None;
        }
        way.push(at);
        let found = edges.get(at).into_iter().flatten().find_map(|it| visit(it, edges, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    edges.keys().find_map(|it| visit(it, edges, &mut Vec::new(), &mut done))
}

#[test]
fn the_gateway_keeps_its_floors() {
    none(rules(tree::files()));
}

#[test]
fn the_architecture_names_every_room() {
    let text = &tree::files().iter().find(|it| it.path == "docs/ARCHITECTURE.md").expect("docs/ARCHITECTURE.md").text;
    let rooms = tree::files().iter().filter_map(|it| module(&it.path)?.into_iter().next()).collect::<BTreeSet<_>>();
    none(rooms.into_iter().filter(|it| !text.contains(&format!("`{it}`"))).map(|it| format!("docs/ARCHITECTURE.md: no `{it}`")).collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<File> = files.iter().map(|(path, text)| file(&format!("gateway/src/{path}"), text)).collect();
        let found = rules(&files);
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (fault, part) in found.iter().zip(expected) {
            assert!(fault.contains(part), "{fault} does not say {part}");
        }
    }

    #[test]
    fn looking_down_is_allowed() {
        check(&[("serve.rs", "use crate::{render, route::Route};"), ("route.rs", ""), ("render.rs", "")], &[]);
        check(&[("proxy/http.rs", "use crate::http1::Client;"), ("http1.rs", "")], &[]);
        check(&[("route.rs", "mod find; use find::X;"), ("route/find.rs", "use super::key::K;"), ("route/key.rs", "")], &[]);
    }

    #[test]
    fn looking_up_is_refused() {
        check(&[("upstream/pick.rs", "use crate::serve::X;"), ("serve.rs", "")], &["serve stands above upstream"]);
        check(&[("route.rs", "fn f() { crate::compile::g() }"), ("compile.rs", "")], &["compile stands above route"]);
    }

    #[test]
    fn leaves_do_not_know_each_other() {
        check(&[("http1.rs", "use crate::proxy::X;"), ("proxy.rs", "")], &["http1 and proxy stand on one floor"]);
        check(&[("render.rs", "use crate::telemetry::X;"), ("telemetry.rs", "")], &["render and telemetry stand on one floor"]);
    }

    #[test]
    fn a_child_does_not_import_its_parent() {
        check(&[("route.rs", ""), ("route/find.rs", "use super::Route;")], &["a child never imports its parent"]);
        check(&[("route.rs", ""), ("route/a/b.rs", "use crate::route::Route;")], &["a child never imports its parent"]);
    }

    #[test]
    fn tests_may_look_at_what_they_test_but_not_up() {
        check(
            &[
                ("route.rs", "#[cfg(test)] mod tests;"),
                ("route/tests.rs", "use super::*; use crate::route::X;"),
                ("route/tests/deep.rs", "use super::*;"),
            ],
            &[],
        );
        check(&[("serve.rs", ""), ("route/tests.rs", "use crate::serve::X;")], &["serve stands above route"]);
    }

    #[test]
    fn a_circle_is_found() {
        check(
            &[("route/a.rs", "use super::b::X;"), ("route/b.rs", "use super::c::X;"), ("route/c.rs", "use crate::route::a::Y;")],
            &["a circle"],
        );
    }

    #[test]
    fn a_room_without_a_floor_is_refused() {
        check(&[("attic.rs", "")], &["has no floor"]);
    }
}
