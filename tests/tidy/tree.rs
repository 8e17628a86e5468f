//! The files of the project, as a fresh clone would have them.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// One text file.
pub struct File {
    /// From the project's root, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, it)| it == extension)
    }

    pub fn under(&self, folder: &str) -> bool {
        self.path.starts_with(folder) && self.path[folder.len()..].starts_with('/')
    }
}

/// A file made up for trying a rule.
#[cfg(test)]
pub fn file(path: &str, text: &str) -> File {
    File { path: path.into(), text: text.into() }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the project").to_path_buf()
}

/// Every text file that is, or would be, committed; sorted by path.
pub fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
        let root = root();
        let mut paths = listed_by_git(&root).unwrap_or_else(|| walked(&root));
        paths.sort();
        // A file that git lists may have been deleted; one that is not text has no lines to check.
        let read = |path: String| fs::read_to_string(root.join(&path)).ok().map(|text| File { path, text });
        paths.into_iter().filter_map(read).collect()
    });
    &FILES
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let out =
        Command::new("git").arg("-C").arg(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.is_empty()).then(|| text.split_terminator('\0').map(String::from).collect())
}

/// For a source archive, which has no `.git`.
fn walked(root: &Path) -> Vec<String> {
    let mut folders = vec![root.to_path_buf()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match path.is_dir() {
                true if !matches!(name.to_str(), Some(".git" | "target" | ".build" | "node_modules")) => folders.push(path),
                true => {}
                false => found.extend(path.strip_prefix(root).ok().and_then(Path::to_str).map(String::from)),
            }
        }
    }
    found
}

#[test]
fn the_project_is_found() {
    for needed in ["Cargo.toml", "gateway/src/lib.rs", "tests/tidy/tree.rs"] {
        assert!(files().iter().any(|it| it.path == needed), "{needed} is not among the files");
    }
    assert!(walked(&root()).contains(&"tests/tidy/tree.rs".to_string()));
}
