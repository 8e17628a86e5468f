//! Secrets by reference: where they are written, how they are read, and which ones definitions may read.
use std::{
    fmt, fs, io,
    path::{Component, Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::Variables;

/// Where a secret is: an environment variable or a file.
///
/// The file is relative to the folder of `allium.yaml` and may not lie outside of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// The name of an environment variable.
    Env(String),
    /// A file; one newline at its end does not count.
    File(PathBuf),
}

/// A secret's content. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Box<[u8]>);

/// Which secrets definitions may read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// Environment variables that definitions may name, such as `ACME_KEY`, or `ACME_*` for all that begin alike.
    pub env: Vec<Variables>,
    /// The folder whose files definitions may name, relative to the folder of `allium.yaml` and inside of it. None where left out.
    pub files: Option<PathBuf>,
}

/// Reads secrets for settings, and for definitions those that [`Secrets`] allows.
#[derive(Clone)]
pub struct SecretsPolicy {
    secrets: Secrets,
    folder: PathBuf,
    variables: fn(&str) -> Option<std::ffi::OsString>,
}

/// No secret is larger.
const MOST: u64 = 64 * 1024;

// === impl Hidden ===

impl Hidden {
    /// A secret that was read elsewhere.
    pub fn new(it: &[u8]) -> Self {
        Self(it.into())
    }

    /// The secret itself.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Whether `other` is the same, compared in a time that does not tell where they differ.
    pub fn is(&self, other: &[u8]) -> bool {
        let differ = self.0.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
        self.0.len() == other.len() && differ == 0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

// === impl SecretsPolicy ===

impl SecretsPolicy {
    /// `folder` is the one of `allium.yaml`.
    pub fn new(secrets: Secrets, folder: PathBuf) -> Self {
        Self { secrets, folder, variables: |name| std::env::var_os(name) }
    }

    /// Whether definitions may read this environment variable.
    pub fn allows_env(&self, name: &str) -> bool {
        self.secrets.env.iter().any(|it| it.allows(name))
    }

    /// Reads a secret that a definition names. The error says what is wrong, and never what the secret is.
    pub fn resolve(&self, secret: &Secret) -> Result<Hidden, String> {
        match secret {
            Secret::Env(name) if self.allows_env(name) => self.variable(name),
            Secret::Env(name) => Err(format!("definitions may not read `{name}`: `secrets.env` of the settings does not list it")),
            Secret::File(file) => match &self.secrets.files {
                Some(allowed) => self.file(file, &self.folder.join(allowed)),
                None => Err("definitions may not read files: `secrets.files` of the settings names no folder".to_owned()),
            },
        }
    }

    /// Reads a secret of the settings themselves.
    pub fn resolve_own(&self, secret: &Secret) -> Result<Hidden, String> {
        match secret {
            Secret::Env(name) => self.variable(name),
            Secret::File(file) => self.file(file, &self.folder),
        }
    }

    fn variable(&self, name: &str) -> Result<Hidden, String> {
        use std::os::unix::ffi::OsStringExt;
        let value = (self.variables)(name).ok_or_else(|| format!("the environment variable `{name}` is not set"))?;
        Self::hide(value.into_vec(), &format!("the environment variable `{name}`"))
    }

    /// Reads `file`, which after all links must lie in `within`, and that in the settings' folder.
    fn file(&self, file: &Path, within: &Path) -> Result<Hidden, String> {
        let shown = file.display();
        if file.is_absolute() || file.components().any(|it| it == Component::ParentDir) {
            return Err(format!("`{shown}` must be relative to the folder of the settings and stay in it"));
        }
        let failed = |error: io::Error| format!("`{shown}` cannot be read: {error}");
        let path = self.folder.join(file).canonicalize().map_err(failed)?;
        let folder = self.folder.canonicalize().map_err(failed)?;
        let within = within.canonicalize().map_err(|error| format!("`{}` cannot be read: {error}", within.display()))?;
        if !path.starts_with(&within) || !within.starts_with(&folder) {
            return Err(format!("`{shown}` lies outside of the folder that it may be read from"));
        }
        let about = fs::metadata(&path).map_err(failed)?;
        if !about.is_file() || about.len() > MOST {
            return Err(format!("`{shown}` must be a file of at most 64KiB"));
        }
        Self::hide(fs::read(&path).map_err(failed)?, &format!("`{shown}`"))
    }

    fn hide(mut value: Vec<u8>, what: &str) -> Result<Hidden, String> {
        if value.last() == Some(&b'\n') {
            value.pop();
            if value.last() == Some(&b'\r') {
                value.pop();
            }
        }
        // An empty secret would let everybody in.
        if value.is_empty() { Err(format!("{what} is empty")) } else { Ok(Hidden(value.into())) }
    }
}

impl fmt::Debug for SecretsPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretsPolicy").field("secrets", &self.secrets).field("folder", &self.folder).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Bench {
        root: PathBuf,
        policy: SecretsPolicy,
    }

    impl Bench {
        fn new(name: &str, secrets: Secrets) -> Self {
            let root = std::env::temp_dir().join(format!("allium-secret-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("etc/secrets/inner")).unwrap();
            fs::create_dir_all(root.join("outside")).unwrap();
            for (file, text) in [
                ("etc/secrets/key", "s3cret\n"),
                ("etc/secrets/windows", "s3cret\r\n"),
                ("etc/secrets/two", "s3cret\n\n"),
                ("etc/secrets/empty", "\n"),
                ("etc/secrets/inner/key", "deep"),
                ("etc/other", "s3cret"),
                ("outside/key", "s3cret"),
            ] {
                fs::write(root.join(file), text).unwrap();
            }
            fs::write(root.join("etc/secrets/large"), vec![b'a'; MOST as usize + 1]).unwrap();
            symlink("../../outside/key", root.join("etc/secrets/out")).unwrap();
            symlink("inner/key", root.join("etc/secrets/link")).unwrap();
            let mut policy = SecretsPolicy::new(secrets, root.join("etc"));
            policy.variables = |name| (name.ends_with("KEY")).then(|| "from env\n".into());
            Self { root, policy }
        }

        fn check(&self, secret: &Secret, want: Result<&str, &str>) {
            match (self.policy.resolve(secret), want) {
                (Ok(got), Ok(want)) => assert_eq!(got.reveal(), want.as_bytes(), "{secret:?}"),
                (Err(got), Err(want)) => assert!(got.contains(want) && !got.contains("s3cret"), "{secret:?}: {got}"),
                (got, want) => panic!("{secret:?}: {got:?}, not {want:?}"),
            }
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn a_definition_reads_the_secrets_that_are_listed_and_no_others() {
        let bench = Bench::new("listed", Secrets { env: vec!["ACME_*".parse().unwrap()], files: Some("secrets/".into()) });
        let file = |it: &str| Secret::File(it.into());
        bench.check(&Secret::Env("ACME_KEY".into()), Ok("from env"));
        bench.check(&Secret::Env("ACME_NONE".into()), Err("not set"));
        bench.check(&Secret::Env("HOME_KEY".into()), Err("may not read `HOME_KEY`"));
        bench.check(&file("secrets/key"), Ok("s3cret"));
        bench.check(&file("secrets/windows"), Ok("s3cret"));
        bench.check(&file("secrets/two"), Ok("s3cret\n"));
        bench.check(&file("secrets/link"), Ok("deep"));
        bench.check(&file("secrets/empty"), Err("is empty"));
        bench.check(&file("secrets/large"), Err("64KiB"));
        bench.check(&file("secrets/inner"), Err("must be a file"));
        bench.check(&file("secrets/none"), Err("cannot be read"));
        bench.check(&file("secrets/out"), Err("outside"));
        bench.check(&file("other"), Err("outside"));
        bench.check(&file("secrets/../other"), Err("stay in it"));
        bench.check(&file("/etc/passwd"), Err("relative"));
    }

    #[test]
    fn without_a_list_a_definition_reads_none_and_settings_read_their_own() {
        let bench = Bench::new("none", Secrets::default());
        bench.check(&Secret::Env("ACME_KEY".into()), Err("does not list it"));
        bench.check(&Secret::File("secrets/key".into()), Err("names no folder"));
        let own = |it| bench.policy.resolve_own(&it).map(|it| it.reveal().to_vec());
        assert_eq!(own(Secret::Env("ADMIN_KEY".into())), Ok(b"from env".to_vec()));
        assert_eq!(own(Secret::File("other".into())), Ok(b"s3cret".to_vec()));
        assert!(own(Secret::File("secrets/out".into())).is_err());
    }

    #[test]
    fn a_secret_is_not_printed_and_compared_whole() {
        let it = Hidden(Box::from(&b"abc"[..]));
        assert_eq!(format!("{it:?} {:?}", Some(&it)), "*** Some(***)");
        assert!(it.is(b"abc") && !it.is(b"abd") && !it.is(b"ab") && !it.is(b"abcd"));
    }
}
