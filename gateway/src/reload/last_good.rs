//! The last good definitions, kept on disk for a start with broken ones.
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use schemas::{Definition, Document, Input, Options, Written};

/// The folder of the gateway's own files, beside `allium.yaml`.
const OWN: &str = ".allium";

/// One file, replaced as a whole.
pub struct LastGood {
    file: PathBuf,
    /// Of what was last written, so that nothing is written twice.
    written: Mutex<Option<u128>>,
}

impl LastGood {
    /// Below the folder of `allium.yaml`, by the name of the definitions' folder.
    pub fn new(folder: &Path, definitions: &Path) -> Self {
        Self { file: folder.join(OWN).join(format!("last-good-{}.binpb", name_of(definitions))), written: Mutex::default() }
    }

    /// Whether a document's file is this one.
    pub fn is(&self, file: &str) -> bool {
        self.file.as_os_str() == file
    }

    /// `None` where there is none yet. Errors: there is one, but it cannot be used, with its name and why.
    pub fn load(&self) -> Result<Option<Vec<Arc<Document>>>, String> {
        let shown = self.file.display().to_string();
        let bytes = match fs::read(&self.file) {
            Ok(it) => it,
            Err(it) if it.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(it) => return Err(format!("{shown} cannot be read: {it}")),
        };
        let loaded = schemas::load(vec![Input::new(shown.as_str(), bytes)], &Options::default());
        match loaded.faults.iter().find(|it| it.is_error()) {
            Some(it) => Err(format!("{shown} is damaged, or of another version: {}", it.message)),
            None => Ok(Some(loaded.documents.into_iter().map(Arc::new).collect::<Vec<_>>()).filter(|it| !it.is_empty())),
        }
    }

    /// Keeps these. Readable by this user alone: a definition may hold what was meant to be a secret.
    pub fn save(&self, documents: &[Arc<Document>]) -> io::Result<()> {
        let digests: Vec<[u8; 16]> = documents.iter().map(|it| it.digest.to_be_bytes()).collect();
        let digest = crate::digest::of(digests.iter().map(<[u8; 16]>::as_slice));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written == Some(digest) {
            return Ok(());
        }
        let definitions: Vec<&Definition> = documents.iter().map(|it| &it.message).collect();
        let bytes = schemas::convert(definitions, Written::Binary);
        let folder = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let fresh = self.file.with_extension("new");
        write_private(&fresh, &bytes)?;
        fs::rename(&fresh, &self.file)?;
        *written = Some(digest);
        Ok(())
    }
}

/// Where a gateway keeps what it knows of a folder of definitions: below the folder of `allium.yaml`, as last good is.
pub fn keep(folder: &Path, definitions: &Path) -> PathBuf {
    folder.join(OWN).join(name_of(definitions))
}

fn name_of(definitions: &Path) -> String {
    let name: String = definitions.to_string_lossy().chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
    name.trim_matches('-').to_owned()
}

fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut it = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    it.write_all(bytes)?;
    it.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_told_and_not_taken_for_missing() {
        let folder = std::env::temp_dir().join(format!("allium-last-good-{}", std::process::id()));
        let store = LastGood::new(&folder, Path::new("routes"));
        assert!(matches!(store.load(), Ok(None)), "there is none yet");
        let text = "kind: Upstream\nname: a\nnodes: [{address: 127.0.0.1:1}]\n";
        let loaded = schemas::load(vec![Input::new("a.yaml", text.as_bytes().to_vec())], &Options::default());
        let documents: Vec<_> = loaded.documents.into_iter().map(Arc::new).collect();
        store.save(&documents).unwrap();
        assert_eq!(store.load().unwrap().map(|it| it.len()), Some(1));
        let whole = fs::read(&store.file).unwrap();
        fs::write(&store.file, &whole[..whole.len() - 3]).unwrap();
        let why = store.load().err().unwrap();
        assert!(why.contains("last-good-routes.binpb is damaged"), "{why}");
        fs::remove_dir_all(folder).unwrap();
    }
}
