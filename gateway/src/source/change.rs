//! Files of a folder that change together: all of them or none, whenever the machine stops.
//!
//! What is to be written stands whole in a journal before the first file is touched. Whoever holds the lock and finds a journal
//! knows that its writer is gone, and writes the rest. The lock is the system's, so it ends with the process that held it.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use bytes::{Buf, Bytes};

/// What a journal begins with.
const MAGIC: &[u8] = b"allium change 1\n";

/// New contents by a file's name relative to the folder; `None` takes the file away.
pub type Files = BTreeMap<Box<str>, Option<Bytes>>;

/// Where changes of one folder of definitions are kept until they are done.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The folder of definitions.
    root: PathBuf,
    /// The folder of the gateway's own files.
    keep: PathBuf,
}

impl Changes {
    /// `keep` is made when it is first written to.
    pub fn new(root: PathBuf, keep: PathBuf) -> Self {
        Self { root, keep }
    }

    fn journal(&self) -> PathBuf {
        self.keep.join("change.journal")
    }

    /// Changes the files that `decide` gives; it is asked once nobody else can write any more, and may decide against it. Errors
    /// leave everything as it was, unless they come from the files themselves: then the rest is written when the folder is next read.
    pub fn apply<E: From<io::Error>>(&self, decide: impl FnOnce() -> Result<Files, E>) -> Result<(), E> {
        fs::create_dir_all(&self.keep)?;
        let _held = self.lock(true)?;
        self.finish()?;
        let files = decide()?;
        self.write(&files).map_err(E::from)
    }

    fn write(&self, files: &Files) -> io::Result<()> {
        for name in files.keys() {
            check(name)?;
        }
        if files.is_empty() {
            return Ok(());
        }
        let fresh = self.keep.join("change.new");
        let mut it = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        it.write_all(&written(files))?;
        it.sync_all()?;
        fs::rename(&fresh, self.journal())?;
        sync(&self.keep);
        self.finish()
    }

    /// Waits until nobody is writing, and finishes what somebody who is gone has begun. Called before the folder is read.
    ///
    /// Where nothing can be locked, nothing was ever written: the folder is as it is.
    pub fn settle(&self) -> io::Result<Option<File>> {
        let held = match self.lock(false) {
            Ok(it) => it,
            Err(it) if matches!(it.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => return Ok(None),
            Err(it) => return Err(it),
        };
        self.finish()?;
        Ok(Some(held))
    }

    fn lock(&self, create: bool) -> io::Result<File> {
        let it =
            OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(self.keep.join("change.lock"))?;
        it.lock()?;
        Ok(it)
    }

    /// Does what the journal says, if there is one. Doing it twice changes nothing.
    fn finish(&self) -> io::Result<()> {
        let bytes = match fs::read(self.journal()) {
            Ok(it) => it,
            Err(it) if it.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(it) => return Err(it),
        };
        // One that is not whole was never begun: it is renamed into its place only once it is on disk.
        if let Some(files) = read(bytes) {
            let mut folders = BTreeSet::new();
            for (name, text) in &files {
                check(name)?;
                let path = self.root.join(&**name);
                let folder = path.parent().unwrap_or(&self.root);
                match text {
                    Some(text) => {
                        fs::create_dir_all(folder)?;
                        replace(&path, text)?;
                    }
                    None => match fs::remove_file(&path) {
                        Err(it) if it.kind() != io::ErrorKind::NotFound => return Err(it),
                        _ => (),
                    },
                }
                folders.insert(folder.to_owned());
            }
            folders.iter().for_each(|it| sync(it));
        }
        fs::remove_file(self.journal())?;
        sync(&self.keep);
        Ok(())
    }
}

/// Only names below the folder, and none that reading it passes over.
fn check(name: &str) -> io::Result<()> {
    let good =
        !name.is_empty() && name.split('/').all(|it| !it.is_empty() && !it.starts_with('.') && !it.ends_with('~') && !it.contains('\0'));
    match good {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a file of definitions"))),
    }
}

/// Writes a file whole or not at all. A link keeps leading to the file that is written; permissions stay.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.join(format!(".{name}.change"));
    let mut it = File::create(&fresh)?;
    if let Ok(before) = fs::metadata(&path) {
        it.set_permissions(before.permissions())?;
    }
    it.write_all(text)?;
    it.sync_all()?;
    fs::rename(&fresh, &path)
}

/// That a folder's names are on disk; not every file system can say so.
fn sync(folder: &Path) {
    if let Ok(it) = File::open(folder) {
        let _ = it.sync_all();
    }
}

/// The journal: each name with its length, then 0, or 1 and the text with its length; at last a digest of all that.
fn written(files: &Files) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend((files.len() as u64).to_be_bytes());
    for (name, text) in files {
        out.extend((name.len() as u64).to_be_bytes());
        out.extend(name.as_bytes());
        match text {
            None => out.push(0),
            Some(text) => {
                out.push(1);
                out.extend((text.len() as u64).to_be_bytes());
                out.extend(&text[..]);
            }
        }
    }
    let digest = crate::digest::of([&out[..]].into_iter());
    out.extend(digest.to_be_bytes());
    out
}

fn read(bytes: Vec<u8>) -> Option<Files> {
    let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
    if crate::digest::of([body].into_iter()).to_be_bytes() != *digest {
        return None;
    }
    let mut left = Bytes::copy_from_slice(body.strip_prefix(MAGIC)?);
    let mut files = Files::new();
    for _ in 0..left.try_get_u64().ok()? {
        let name = piece(&mut left)?;
        let name = std::str::from_utf8(&name).ok()?.into();
        let text = match left.try_get_u8().ok()? {
            0 => None,
            _ => Some(piece(&mut left)?),
        };
        files.insert(name, text);
    }
    left.is_empty().then_some(files)
}

fn piece(left: &mut Bytes) -> Option<Bytes> {
    let len = usize::try_from(left.try_get_u64().ok()?).ok()?;
    (len <= left.len()).then(|| left.split_to(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);
    impl Place {
        fn new(name: &str) -> (Self, Changes) {
            let it = std::env::temp_dir().join(format!("allium-change-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&it);
            fs::create_dir_all(it.join("routes")).unwrap();
            let changes = Changes::new(it.join("routes"), it.join(".allium"));
            (Self(it), changes)
        }
        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.0.join("routes").join(name)).ok()
        }
    }
    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
    fn files(all: &[(&str, Option<&'static str>)]) -> Files {
        all.iter().map(|(name, text)| ((*name).into(), text.map(|it| Bytes::from_static(it.as_bytes())))).collect()
    }
    fn apply(changes: &Changes, all: &[(&str, Option<&'static str>)]) -> io::Result<()> {
        changes.apply(|| Ok::<_, io::Error>(files(all)))
    }

    #[test]
    fn files_are_written_replaced_and_taken_away() {
        let (place, changes) = Place::new("plain");
        apply(&changes, &[("a.yaml", Some("1")), ("deep/b.yaml", Some("2"))]).unwrap();
        assert_eq!((place.text("a.yaml").as_deref(), place.text("deep/b.yaml").as_deref()), (Some("1"), Some("2")));
        apply(&changes, &[("a.yaml", None), ("deep/b.yaml", Some("3")), ("gone.yaml", None)]).unwrap();
        assert_eq!((place.text("a.yaml"), place.text("deep/b.yaml").as_deref()), (None, Some("3")));
        assert!(changes.apply(|| Err::<Files, _>(io::Error::other("no"))).is_err());
        assert_eq!(place.text("a.yaml"), None);
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let (_place, changes) = Place::new("names");
        for name in ["", "../a.yaml", "/etc/a.yaml", "a/../../b.yaml", ".hidden.yaml", "a//b.yaml", "a/", "b.yaml~"] {
            assert!(apply(&changes, &[(name, Some("x"))]).is_err(), "{name}");
        }
    }

    #[test]
    fn what_a_writer_left_is_finished_by_whoever_reads_next() {
        let (place, changes) = Place::new("left");
        apply(&changes, &[("a.yaml", Some("1")), ("b.yaml", Some("1"))]).unwrap();
        // It ended after the journal was written and one file was replaced.
        fs::write(changes.journal(), written(&files(&[("a.yaml", Some("2")), ("b.yaml", Some("2")), ("c.yaml", None)]))).unwrap();
        fs::write(place.0.join("routes/a.yaml"), "2").unwrap();
        drop(changes.settle().unwrap());
        assert_eq!((place.text("a.yaml").as_deref(), place.text("b.yaml").as_deref()), (Some("2"), Some("2")));
        assert!(!changes.journal().exists());
        // It ended while the journal itself was written: then nothing was touched yet.
        let whole = written(&files(&[("a.yaml", Some("3"))]));
        for len in 0..whole.len() {
            fs::write(changes.journal(), &whole[..len]).unwrap();
            drop(changes.settle().unwrap());
            assert_eq!(place.text("a.yaml").as_deref(), Some("2"), "{len}");
        }
    }

    #[test]
    fn where_nobody_ever_wrote_there_is_nothing_to_wait_for() {
        let (_place, changes) = Place::new("never");
        assert!(changes.settle().unwrap().is_none());
    }
}
