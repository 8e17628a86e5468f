//! Plugins: one file each, never knowing each other, each with an example and a line in the changelog.
use crate::{
    none, source,
    tree::{self, File},
};

/// The plugins' modules as `lib.rs` lists them.
fn modules(lib: &str) -> Vec<String> {
    let line = |it: &str| it.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';').map(String::from);
    lib.lines().filter_map(line).collect()
}

/// The name that definitions use; a module without one is no plugin.
fn name(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("const NAME: &'static str = \"").or_else(|| text.split_once("const NAME: &str = \""))?;
    rest.split_once('"').map(|(name, _)| name)
}

fn strangers(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|it| it.under("plugins/src") && it.is("rs") && it.path != "plugins/src/lib.rs") {
        let inner = file.path.trim_start_matches("plugins/src/").trim_end_matches(".rs");
        let module: Vec<String> = inner.split('/').map(String::from).collect();
        let foreign = |it: &Vec<String>| it.first().is_some_and(|first| *first != module[0]);
        let named = source::named(&file.text, &module);
        faults.extend(
            named.iter().filter(|it| foreign(it)).map(|it| format!("{}: plugins do not import each other: {}", file.path, it.join("::"))),
        );
    }
    faults
}

fn shown(files: &[File]) -> Vec<String> {
    let find = |path: &str| files.iter().find(|it| it.path == path).map(|it| it.text.as_str()).unwrap_or_default();
    let changelog = find("CHANGELOG.md");
    let examples: Vec<&str> =
        files.iter().filter(|it| it.under("routes") && (it.is("yaml") || it.is("yml"))).map(|it| it.text.as_str()).collect();
    let mut faults = Vec::new();
    for module in modules(find("plugins/src/lib.rs")) {
        let Some(name) = name(find(&format!("plugins/src/{module}.rs"))) else { continue };
        let used = |text: &&str| text.lines().any(|it| names(it, name));
        if !examples.iter().any(used) {
            faults.push(format!("routes/: no example uses the plugin {name}"));
        }
        if !changelog.contains(&format!("`{name}`")) {
            faults.push(format!("CHANGELOG.md: no line says `{name}`"));
        }
    }
    faults
}

/// Whether a line of a list of plugins begins this one: `- cors: {…}`, `plugins: [{cors: …}]`.
fn names(line: &str, plugin: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default();
    line.trim_start().strip_prefix("- ").is_some_and(|it| it.starts_with(&format!("{plugin}:"))) || line.contains(&format!("{{{plugin}:"))
}

#[test]
fn plugins_do_not_know_each_other() {
    none(strangers(tree::files()));
}

#[test]
fn every_plugin_is_shown() {
    none(shown(tree::files()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    #[test]
    fn an_import_of_a_neighbour_is_found() {
        assert_eq!(strangers(&[file("plugins/src/cors.rs", "use crate::headers::Config;")]).len(), 1);
        assert_eq!(strangers(&[file("plugins/src/cors.rs", "use super::headers::Config;")]).len(), 1);
        let own =
            [file("plugins/src/cors.rs", "use crate::cors::x; mod t { use super::*; }"), file("plugins/src/cors/x.rs", "use super::y::Z;")];
        assert_eq!(strangers(&own), Vec::<String>::new());
    }

    #[test]
    fn a_plugin_without_example_or_line_is_found() {
        let project = |routes: &str, changelog: &str| {
            shown(&[
                file("plugins/src/lib.rs", "//! All.\npub mod ip_acl;\nmod shared;\n"),
                file("plugins/src/ip_acl.rs", "impl Configure for IpAcl { const NAME: &'static str = \"ip-acl\"; }"),
                file("plugins/src/shared.rs", "fn nothing() {}"),
                file("routes/a.yaml", routes),
                file("CHANGELOG.md", changelog),
            ])
        };
        assert_eq!(project("plugins:\n  - ip-acl: {allow: [10.0.0.0/8]}", "- `ip-acl`"), Vec::<String>::new());
        assert_eq!(project("plugins: [{ip-acl: {}}]", "- `ip-acl`"), Vec::<String>::new());
        assert_eq!(project("# - ip-acl: {}", "- `ip-acl`").len(), 1);
        assert_eq!(project("- ip-acl: {}", "nothing").len(), 1);
        assert_eq!(project("- ip-aclx: {}", "").len(), 2);
    }
}
