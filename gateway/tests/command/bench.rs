//! The built command, run over small folders.
use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A folder of its own for each test; gone when dropped.
pub struct Bench(pub PathBuf);

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Bench {
    pub fn new(files: &[(&str, &str)]) -> Self {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("allium-command-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let it = Self(root);
        files.iter().for_each(|(name, text)| it.write(name, text));
        it
    }

    pub fn write(&self, name: impl AsRef<Path>, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut it = Command::new(env!("CARGO_BIN_EXE_allium"));
        it.args(arguments).current_dir(&self.0).env("COLUMNS", "100");
        for name in ["ALLIUM_CONFIG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            it.env_remove(name);
        }
        it.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        it
    }

    pub fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Ended {
        ended(self.command(arguments))
    }

    /// Runs with standard input.
    pub fn feed(&self, arguments: &[&str], input: &[u8]) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        // A command that ends without reading it leaves a broken pipe, which is no fault.
        let _ = child.stdin.take().unwrap().write_all(input);
        told(child.wait_with_output().unwrap())
    }

    /// Runs, and wants an exit code.
    pub fn check(&self, arguments: &[&str], code: i32) -> Ended {
        let it = self.run(arguments);
        assert_eq!(it.code, code, "allium {}: {it:#?}", arguments.join(" "));
        it
    }
}

pub fn ended(mut command: Command) -> Ended {
    told(command.output().unwrap())
}

fn told(it: std::process::Output) -> Ended {
    let text = |it: Vec<u8>| String::from_utf8_lossy(&it).into_owned();
    let it = Ended { code: it.status.code().unwrap_or(-1), out: text(it.stdout), err: text(it.stderr) };
    assert!(!it.err.contains("panicked"), "{it:#?}");
    it
}

/// The folder of the whole project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub const UPSTREAM: &str = "kind: Upstream\nname: orders\nnodes:\n  - {address: \"127.0.0.1:9001\"}\n";

/// An Api that calls the Upstream above.
pub fn api(name: &str, pattern: &str) -> String {
    format!("kind: Api\ninfo:\n  name: {name}\n  version: v1\ninbound:\n  match: {pattern}\nproxy:\n  http: {{upstream: orders}}\n")
}
