//! What was served before: the last hundred states of the definitions, each with who changed what, when and why.
//!
//! A state is a small file that names contents; contents are files named by their digest, so what did not change is kept once.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use contract::source::File;
use schemas::Input;
use serde::{Deserialize, Serialize};

use crate::telemetry::{log::Log, text};

/// How many states are kept.
pub const KEPT: usize = 100;
/// A note of who changed what is for a state that comes soon after it.
const NOTE_LASTS: Duration = Duration::from_secs(30);
/// Up to this many contents are forced to disk one by one; beyond, as at the first start with many files, the system takes its time.
const MOST_SYNCED: usize = 64;

/// One state of the definitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Counted up from 1.
    pub number: u64,
    /// Of the source, as `/ready?verbose` reports it.
    pub revision: String,
    /// RFC 3339, UTC.
    pub time: String,
    /// Who changed it: `files` where somebody wrote in the folder.
    pub who: String,
    /// What was given as the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether it was served as a whole.
    pub whole: bool,
    /// Names of files that came, changed or went since the state before.
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
    /// The digest of every file's content, by its name.
    pub files: BTreeMap<String, String>,
}

/// Who is about to change definitions, and why.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Note {
    pub who: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The states of one folder of definitions.
#[derive(Clone, Debug)]
pub struct History {
    folder: PathBuf,
    note: PathBuf,
}

/// A state that is to be kept.
pub struct State {
    pub revision: Box<str>,
    pub files: Vec<File>,
    pub whole: bool,
}

impl History {
    /// `keep` is the folder of the gateway's own files.
    pub fn new(keep: &Path) -> Self {
        Self { folder: keep.join("history"), note: keep.join("note.json") }
    }

    /// Says who makes the next change.
    pub fn announce(&self, note: &Note) -> io::Result<()> {
        if let Some(it) = self.note.parent() {
            fs::create_dir_all(it)?;
        }
        write(&self.note, &serde_json::to_vec(note).unwrap_or_default(), false)
    }

    fn announced(&self) -> Option<Note> {
        let age = fs::metadata(&self.note).ok()?.modified().ok()?.elapsed().unwrap_or_default();
        let note = fs::read(&self.note).ok();
        let _ = fs::remove_file(&self.note);
        note.filter(|_| age < NOTE_LASTS).and_then(|it| serde_json::from_slice(&it).ok())
    }

    /// All states that are kept, the newest first. One that cannot be read is left out.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut all: Vec<Entry> =
            self.numbers()?.into_iter().filter_map(|it| serde_json::from_slice(&fs::read(self.place(it)).ok()?).ok()).collect();
        all.sort_by_key(|it| std::cmp::Reverse(it.number));
        Ok(all)
    }

    /// A state by its number, or by at least six characters that its revision begins with: the newest of those.
    pub fn find(&self, name: &str) -> io::Result<Option<Entry>> {
        let entries = self.entries()?;
        Ok(entries.into_iter().find(|it| it.number.to_string() == name || (name.len() >= 6 && it.revision.starts_with(name))))
    }

    /// The files of a state. Errors: a content is missing or damaged.
    pub fn files(&self, entry: &Entry) -> io::Result<BTreeMap<String, Bytes>> {
        let one = |(name, digest): (&String, &String)| {
            let text =
                fs::read(self.blob(digest)).map_err(|it| io::Error::new(it.kind(), format!("{name} of state {}: {it}", entry.number)))?;
            match *digest == digest_of(&text) {
                true => Ok((name.clone(), Bytes::from(text))),
                false => Err(io::Error::other(format!("{name} of state {} is damaged", entry.number))),
            }
        };
        entry.files.iter().map(one).collect()
    }

    /// The same as inputs to be checked, named as in `folder`.
    pub fn inputs(&self, entry: &Entry, folder: &Path) -> io::Result<Vec<Input>> {
        let files = self.files(entry)?;
        Ok(files.into_iter().map(|(name, text)| Input::new(folder.join(name).display().to_string(), text.to_vec())).collect())
    }

    /// Keeps what it is given, on a thread of its own: nobody waits for a disk. Ends with the last sender.
    pub fn keeper(self, log: Log) -> io::Result<mpsc::Sender<State>> {
        let (give, states) = mpsc::channel::<State>();
        thread::Builder::new().name("history".into()).spawn(move || {
            for it in states {
                if let Err(why) = self.keep(it) {
                    log.warn("history", format_args!("a state of the definitions cannot be kept: {why}"), &[]);
                }
            }
        })?;
        Ok(give)
    }

    /// Keeps a state, unless it is the last one already.
    pub fn keep(&self, state: State) -> io::Result<()> {
        fs::create_dir_all(self.folder.join("contents"))?;
        // A command and a gateway may keep states of one folder.
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.folder.join("lock"))?;
        lock.lock()?;
        let numbers = self.numbers()?;
        let last = numbers.last().copied();
        let before: Option<Entry> = last.and_then(|it| serde_json::from_slice(&fs::read(self.place(it)).ok()?).ok());
        let note = self.announced();
        if before.as_ref().is_some_and(|it| it.revision == *state.revision && it.whole == state.whole) {
            return Ok(());
        }
        // A definition may hold what was meant to be a secret.
        let _ = fs::set_permissions(&self.folder, std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let mut files = BTreeMap::new();
        let mut fresh = Vec::new();
        for File { name, text } in &state.files {
            let digest = digest_of(text);
            if !self.blob(&digest).exists() {
                fresh.push((self.blob(&digest), text));
            }
            files.insert(name.to_string(), digest);
        }
        let sync = fresh.len() <= MOST_SYNCED;
        for (path, text) in fresh {
            write(&path, text, sync)?;
        }
        let empty = BTreeMap::new();
        let old = before.as_ref().map_or(&empty, |it| &it.files);
        let names = |of: &BTreeMap<String, String>, keep: &dyn Fn(&str, &str) -> bool| -> Vec<String> {
            of.iter().filter(|(name, digest)| keep(name, digest)).map(|it| it.0.clone()).collect()
        };
        let note = note.unwrap_or_else(|| Note { who: if before.is_some() { "files".into() } else { "start".into() }, why: None });
        let entry = Entry {
            number: last.unwrap_or(0) + 1,
            revision: state.revision.to_string(),
            time: now(),
            who: note.who,
            why: note.why,
            whole: state.whole,
            added: names(&files, &|name, _| !old.contains_key(name)),
            changed: names(&files, &|name, digest| old.get(name).is_some_and(|it| it != digest)),
            removed: names(old, &|name, _| !files.contains_key(name)),
            files,
        };
        write(&self.place(entry.number), &serde_json::to_vec(&entry).unwrap_or_default(), true)?;
        if numbers.len() >= KEPT {
            self.forget(&numbers[..=numbers.len() - KEPT])?;
        }
        Ok(())
    }

    /// Drops states, and contents that no other state names.
    fn forget(&self, numbers: &[u64]) -> io::Result<()> {
        for it in numbers {
            fs::remove_file(self.place(*it))?;
        }
        let named: BTreeSet<String> = self.entries()?.into_iter().flat_map(|it| it.files.into_values()).collect();
        for it in fs::read_dir(self.folder.join("contents"))? {
            let it = it?;
            if !it.file_name().to_str().is_some_and(|it| named.contains(it)) {
                fs::remove_file(it.path())?;
            }
        }
        Ok(())
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut all = Vec::new();
        let listed = match fs::read_dir(&self.folder) {
            Err(it) if it.kind() == io::ErrorKind::NotFound => return Ok(all),
            it => it?,
        };
        for it in listed {
            all.extend(it?.file_name().to_str().and_then(|it| it.strip_suffix(".json")?.parse::<u64>().ok()));
        }
        all.sort_unstable();
        Ok(all)
    }

    fn place(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}.json"))
    }

    fn blob(&self, digest: &str) -> PathBuf {
        self.folder.join("contents").join(digest)
    }
}

fn digest_of(text: &[u8]) -> String {
    format!("{:032x}", crate::digest::of([text].into_iter()))
}

fn now() -> String {
    text::time(SystemTime::now())
}

/// Writes a file whole or not at all, for this user alone.
fn write(path: &Path, text: &[u8], sync: bool) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut it = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    it.write_all(text)?;
    if sync {
        it.sync_all()?;
    }
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);
    impl Place {
        fn new(name: &str) -> (Self, History) {
            let it = std::env::temp_dir().join(format!("allium-history-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&it);
            let history = History::new(&it);
            (Self(it), history)
        }
    }
    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
    fn state(revision: &str, files: &[(&str, &str)]) -> State {
        let files = files.iter().map(|(name, text)| File { name: (*name).into(), text: Bytes::copy_from_slice(text.as_bytes()) });
        State { revision: revision.into(), files: files.collect(), whole: true }
    }

    #[test]
    fn every_state_says_who_changed_what() {
        let (_place, it) = Place::new("who");
        it.keep(state("r1", &[("a.yaml", "1"), ("b.yaml", "1")])).unwrap();
        it.announce(&Note { who: "ops".into(), why: Some("smaller".into()) }).unwrap();
        it.keep(state("r2", &[("a.yaml", "2"), ("c.yaml", "1")])).unwrap();
        it.keep(state("r2", &[("a.yaml", "2"), ("c.yaml", "1")])).unwrap();
        it.keep(state("r3", &[("c.yaml", "1")])).unwrap();
        let all = it.entries().unwrap();
        let told: Vec<_> =
            all.iter().map(|it| (it.number, it.who.as_str(), it.why.as_deref(), &it.added, &it.changed, &it.removed)).collect();
        let (none, one) = (vec![], |it: &str| vec![it.to_owned()]);
        assert_eq!(
            told,
            [
                (3, "files", None, &none, &none, &one("a.yaml")),
                (2, "ops", Some("smaller"), &one("c.yaml"), &one("a.yaml"), &one("b.yaml")),
                (1, "start", None, &vec!["a.yaml".to_owned(), "b.yaml".to_owned()], &none, &none),
            ]
        );
        assert_eq!(it.files(&all[2]).unwrap()["b.yaml"], "1");
        assert_eq!(it.find("2").unwrap().unwrap().revision, "r2");
    }

    #[test]
    fn a_hundred_states_are_kept_and_nothing_else() {
        let (_place, it) = Place::new("many");
        for n in 0..KEPT + 5 {
            it.keep(state(&format!("revision-{n}"), &[("a.yaml", &n.to_string()), ("same.yaml", "same")])).unwrap();
        }
        let all = it.entries().unwrap();
        assert_eq!((all.len(), all[0].number, all[KEPT - 1].number), (KEPT, 105, 6));
        assert!(all.iter().all(|entry| it.files(entry).is_ok()));
        assert_eq!(fs::read_dir(it.folder.join("contents")).unwrap().count(), KEPT + 1);
    }

    #[test]
    fn a_damaged_content_is_told() {
        let (_place, it) = Place::new("damaged");
        it.keep(state("r1", &[("a.yaml", "1")])).unwrap();
        let entry = it.entries().unwrap().remove(0);
        fs::write(it.blob(&entry.files["a.yaml"]), "2").unwrap();
        assert!(it.files(&entry).err().unwrap().to_string().contains("a.yaml of state 1 is damaged"));
    }
}
