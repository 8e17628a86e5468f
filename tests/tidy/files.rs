//! Every file by itself: its size, its first line, its whitespace, and what must not stand in it.
use crate::{
    none,
    source::code,
    tree::{self, File},
};

const MOST_LINES: usize = 800;

fn faults_of(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let mut say = |line: usize, what: &str| faults.push(format!("{}:{line}: {what}", file.path));
    if !whitespace_is_the_case(file) {
        whitespace(file, &mut say);
    }
    machines(file, &mut say);
    if ["rs", "lua", "proto"].iter().any(|it| file.is(it)) && file.text.lines().count() > MOST_LINES {
        say(MOST_LINES, &format!("longer than {MOST_LINES} lines: it is two rooms"));
    }
    if file.is("rs") {
        rust(file, &mut say);
    }
    if file.under("routes") && (file.is("yaml") || file.is("yml")) && !file.text.starts_with("# yaml-language-server: $schema=") {
        say(1, "an example begins with its `# yaml-language-server: $schema=` line");
    }
    faults
}

/// Definitions made up so that a fault, or the layout, is in their whitespace.
fn whitespace_is_the_case(file: &File) -> bool {
    ["schemas/tests/faults", "schemas/tests/format"].iter().any(|it| file.under(it)) && file.is("yaml")
}

fn whitespace(file: &File, say: &mut dyn FnMut(usize, &str)) {
    let makefile = file.path.ends_with("Makefile") || file.is("mk");
    for (at, line) in file.text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            say(at + 1, "ends with whitespace");
        }
        if line.contains('\t') && !makefile {
            say(at + 1, "holds a tab");
        }
    }
    if file.text.contains('\r') {
        say(1, "has line ends of another system");
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        say(file.text.lines().count(), "does not end with exactly one line end");
    }
}

/// Paths of somebody's machine, and package registries that others cannot reach.
fn machines(file: &File, say: &mut dyn FnMut(usize, &str)) {
    // Put together here, so that this file does not name them.
    let paths = ["home", "root", "work", "Users", "tmp/target"].map(|it| format!("/{it}/"));
    for (at, line) in file.text.lines().enumerate() {
        for path in &paths {
            let starts = |(i, _): (usize, &str)| !line[..i].ends_with(|it: char| it.is_alphanumeric() || "._-~$}".contains(it));
            if line.match_indices(path.as_str()).any(starts) {
                say(at + 1, &format!("names a path of one machine: {path}"));
            }
        }
    }
    if file.path.ends_with("Cargo.lock") {
        for (at, line) in file.text.lines().enumerate() {
            if line.starts_with("source = ") && line != "source = \"registry+https://github.com/rust-lang/crates.io-index\"" {
                say(at + 1, "a package that does not come from crates.io");
            }
        }
    }
    if file.path.ends_with(".cargo/config.toml") || file.path.ends_with(".npmrc") || file.path.ends_with("pip.conf") {
        say(1, "where packages come from is a machine's own matter");
    }
}

fn rust(file: &File, say: &mut dyn FnMut(usize, &str)) {
    let first: Vec<&str> = file.text.lines().take_while(|it| it.len() > 3 && it.starts_with("//!")).collect();
    if !first.last().is_some_and(|it| it.ends_with('.')) {
        say(1, "does not begin with a `//!` sentence that says what the room is for");
    }
    let code = code(&file.text);
    let library =
        ["gateway/src", "gateway/contract/src", "plugins/src", "lua/src", "schemas/src"].iter().any(|it| file.under(it)) && !is_test(file);
    for (at, line) in code.lines().enumerate() {
        let flat: String = line.split_whitespace().collect();
        if flat.contains("#[ignore]") {
            say(at + 1, "a test is ignored without a reason: `#[ignore = \"…\"]`");
        }
        if flat.contains("usecrate::*") {
            say(at + 1, "imports everything");
        }
        let called = |name: &str| flat.match_indices(name).any(|(i, _)| !flat[..i].ends_with(|it: char| it.is_alphanumeric() || it == '_'));
        if library && file.path != "gateway/src/main.rs" && ["println!", "print!", "dbg!"].iter().any(|it| called(it)) {
            say(at + 1, "a library prints: return it, or log it");
        }
    }
}

/// Tests in files of their own may say how long something took.
fn is_test(file: &File) -> bool {
    file.path.ends_with("/tests.rs") || file.path.contains("/tests/")
}

#[test]
fn every_file_is_tidy() {
    none(tree::files().iter().flat_map(faults_of).collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn check(path: &str, text: &str, expected: &str) {
        let found = faults_of(&file(path, text));
        match expected {
            "" => assert_eq!(found, Vec::<String>::new(), "{path}: {text}"),
            _ => assert!(found.len() == 1 && found[0].contains(expected), "{path}: {text:?}: {found:?}"),
        }
    }

    #[test]
    fn a_first_line_is_a_sentence() {
        check("lua/src/a.rs", "//! What a is for.\nfn f() {}\n", "");
        check("lua/src/a.rs", "//! A sentence that goes on\n//! over two lines.\n\nfn f() {}\n", "");
        check("lua/src/a.rs", "fn f() {}\n", "does not begin");
        check("lua/src/a.rs", "//! lua\n", "does not begin");
    }

    #[test]
    fn a_long_file_is_two_rooms() {
        check("lua/src/a.rs", &format!("//! Long.\n{}", "fn f() {}\n".repeat(MOST_LINES)), "two rooms");
    }

    #[test]
    fn whitespace_is_exact() {
        check("a.md", "a \n", "ends with whitespace");
        check("a.toml", "a\tb\n", "holds a tab");
        check("Makefile", "a:\n\tb\n", "");
        check("a.md", "a", "exactly one line end");
        check("a.md", "a\n\n", "exactly one line end");
        check("a.md", "a\r\n", "line ends of another system");
        check("schemas/tests/faults/tab.yaml", "a:\n\tb: 1\n", "");
        check("routes/demo/a.yaml", "# yaml-language-server: $schema=x.json\na:\n\tb: 1\n", "holds a tab");
    }

    #[test]
    fn no_machine_is_named() {
        for bad in ["home/me", "root/.cargo", "work/x", "tmp/target/debug"] {
            check("a.md", &format!("see /{bad}/x\n"), "names a path of one machine");
        }
        check("a.md", "GET api.example.com/work/orders and a/root/b\n", "");
        check("Cargo.lock", "source = \"registry+https://mirror.example.com/index\"\n", "crates.io");
        check("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n", "");
        check(".cargo/config.toml", "a = 1\n", "own matter");
    }

    #[test]
    fn a_library_does_not_print() {
        for bad in ["println!(\"x\")", "dbg!(1)", "std::print!(\"x\")"] {
            check("gateway/src/a.rs", &format!("//! A.\nfn f() {{ {bad}; }}\n"), "a library prints");
        }
        check("gateway/src/a.rs", "//! A.\n// println!\nfn f() { eprintln!(\"println!\") }\n", "");
        check("gateway/src/a/tests.rs", "//! A.\nfn f() { println!(\"x\") }\n", "");
        check("gateway/src/main.rs", "//! A.\nfn main() { println!(\"x\") }\n", "");
    }

    #[test]
    fn an_ignored_test_says_why() {
        check("lua/src/a.rs", "//! A.\n#[ignore]\nfn f() {}\n", "without a reason");
        check("lua/src/a.rs", "//! A.\n#[ignore = \"takes minutes\"]\nfn f() {}\n", "");
    }

    #[test]
    fn an_example_names_its_schema() {
        check("routes/demo/a.yaml", "kind: Api\n", "$schema=");
        check("routes/demo/a.yaml", "# yaml-language-server: $schema=x.json\nkind: Api\n", "");
        check("deploy/a.yaml", "kind: Service\n", "");
    }
}
