//! A folder of its own for each test, gone when the test is over.
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("allium-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file in place, as a program does that opens, truncates and writes.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        fs::write(&path, text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        path
    }

    /// Writes a file of bytes.
    #[track_caller]
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        fs::write(&path, bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        path
    }

    /// Writes beside and renames over, as careful programs do.
    #[track_caller]
    pub fn replace(&self, name: &str, text: &str) {
        let path = self.join(name);
        let beside = self.write(&format!("{name}.tmp~"), text);
        fs::rename(beside, path).expect("a rename");
    }

    #[track_caller]
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.join(name)).expect("a file to remove");
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
