//! The last good definitions, kept on disk for a start with broken ones.
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use schemas::{Definition, Document, Input, Options, Written};

/// One file, replaced as a whole.
pub struct LastGood {
    file: PathBuf,
    /// Of what was last written, so that nothing is written twice.
    written: Mutex<Option<u128>>,
}

impl LastGood {
    /// Below the folder of `allium.yaml`, by the name of the definitions' folder.
    pub fn new(folder: &Path, definitions: &Path) -> Self {
        let name: String = definitions.to_string_lossy().chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
        Self { file: folder.join(".allium").join(format!("last-good-{}.binpb", name.trim_matches('-'))), written: Mutex::default() }
    }

    /// Whether a document's file is this one.
    pub fn is(&self, file: &str) -> bool {
        self.file.as_os_str() == file
    }

    /// `None` where there is none, or none that this version of the gateway can read.
    pub fn load(&self) -> Option<Vec<Arc<Document>>> {
        let bytes = fs::read(&self.file).ok()?;
        let loaded = schemas::load(vec![Input::new(self.file.display().to_string(), bytes)], &Options::default());
        (!loaded.has_errors() && !loaded.documents.is_empty()).then(|| loaded.documents.into_iter().map(Arc::new).collect())
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

fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut it = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    it.write_all(bytes)?;
    it.sync_all()
}
