//! Definitions in a folder of the file system, watched.
use std::{
    collections::HashMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use contract::source::{File, Snapshot, Source, SourceError};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::change::Changes;

/// What is kept of a file; one that is larger than definitions may be is told as such by whoever reads them.
const LARGEST_FILE: u64 = schemas::MAX_FILE as u64 + 1;
/// How often a folder that changes while it is read is read again before that is told.
const MOST_LOOKS: u32 = 5;
/// How deep folders are searched.
const DEEPEST: usize = 32;
/// A change is read once nothing has changed for this long: editors and deployments write in several steps.
const QUIET: Duration = Duration::from_millis(40);
/// … but no later than this after the first change.
const PATIENCE: Duration = Duration::from_millis(500);
/// A file that is suddenly empty is most likely just being written: it is looked at once more after this long.
const EMPTIED: Duration = Duration::from_millis(250);
/// How often the folder is looked at even if nobody said anything: links to elsewhere, network file systems.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// … but a large folder less often, so that looking takes no more than this part of one core.
const LOOK_SHARE: u32 = 100;

/// Whether a file holds definitions, by its name.
pub fn is_definition(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| schemas::folder::ENDINGS.iter().any(|it| ending.eq_ignore_ascii_case(it)))
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, PartialEq, Eq)]
struct Print {
    size: u64,
    changed: Option<SystemTime>,
    inode: u64,
}

/// A folder of definitions, searched recursively.
pub struct Dir {
    root: PathBuf,
    /// Who else writes there; none where nobody of ours does.
    changes: Option<Changes>,
    known: HashMap<Box<str>, (Print, Bytes)>,
    last: Option<u128>,
    /// A file that held something holds nothing since the last time.
    emptied: bool,
    /// The folder itself could not be read the last time: whoever heard that is told when it is back, changed or not.
    failed: bool,
    events: mpsc::Receiver<()>,
    /// `None` where the system would not watch: then it is only looked at.
    watcher: Option<RecommendedWatcher>,
    watched: Option<u64>,
    /// How long the last look took.
    took: Duration,
}

impl Dir {
    pub fn new(root: PathBuf, changes: Option<Changes>) -> Self {
        let (tell, events) = mpsc::channel(1);
        // Events name what changed from the root of the file system, whatever the folder is called here.
        let own = std::path::absolute(&root).unwrap_or_else(|_| root.clone());
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is no change, nor is what happens beside the folder: a log may be written there all the time.
            // Everything else, errors included, is a reason to look.
            let nothing =
                event.is_ok_and(|it| it.kind.is_access() || (!it.paths.is_empty() && !it.paths.iter().any(|path| path.starts_with(&own))));
            if !nothing {
                let _ = tell.try_send(());
            }
        });
        Self {
            root,
            changes,
            known: HashMap::new(),
            last: None,
            emptied: false,
            failed: false,
            events,
            watcher: watcher.ok(),
            watched: None,
            took: Duration::ZERO,
        }
    }

    /// Watches the folder, and its parent in case the folder itself is replaced; again when it is another folder than before.
    fn watch(&mut self) {
        let now = fs::metadata(&self.root).ok().map(|it| inode(&it));
        if now == self.watched {
            return;
        }
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.unwatch(&self.root);
            let _ = watcher.watch(&self.root, RecursiveMode::Recursive);
            if let Some(parent) = self.root.parent().filter(|it| !it.as_os_str().is_empty()) {
                let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
            }
        }
        self.watched = now;
    }

    /// Reads what has changed since the last time; the rest is remembered.
    ///
    /// What goes away meanwhile makes it begin anew: half of a folder that is being moved is no state of it.
    fn read(&mut self) -> io::Result<Snapshot> {
        for _ in 0..MOST_LOOKS {
            if let Some(it) = self.look(&mut || ())? {
                return Ok(it);
            }
        }
        Err(io::Error::other(format!("{}: files come and go while they are read", self.root.display())))
    }

    /// One look at everything; `None` if something that was listed was gone when it was read. `listed` is called between the two.
    fn look(&mut self, listed: &mut dyn FnMut()) -> io::Result<Option<Snapshot>> {
        // What is being written is waited for: half of a change is no state either.
        let _held = self.changes.as_ref().map(Changes::settle).transpose()?;
        let begun = Instant::now();
        let Found { files: found, mut unreadable, whole } = scan(&self.root)?;
        if !whole {
            return Ok(None);
        }
        listed();
        self.emptied = false;
        self.took = begun.elapsed();
        let mut known = HashMap::with_capacity(found.len());
        let mut files = Vec::with_capacity(found.len());
        for (name, path, print) in found {
            let before = self.known.get(&name).cloned();
            let had = before.as_ref().is_some_and(|(_, text)| !text.is_empty());
            let text = match before {
                Some((old, text)) if old == print => text,
                _ => match read(&path) {
                    Ok(it) => {
                        self.emptied |= had && it.is_empty();
                        Bytes::from(it)
                    }
                    Err(it) if it.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(it) => {
                        unreadable.push((name, format!("the file cannot be read: {it}").into()));
                        continue;
                    }
                },
            };
            known.insert(name.clone(), (print, text.clone()));
            files.push(File { name, text });
        }
        self.known = known;
        let told = unreadable.iter().flat_map(|(name, why)| [name.as_bytes(), why.as_bytes()]);
        let digest = crate::digest::of(files.iter().flat_map(|it| [it.name.as_bytes(), &it.text]).chain(told));
        self.last = Some(digest);
        Ok(Some(Snapshot { revision: format!("{digest:032x}").into(), begun: begun.into_std(), files, unreadable }))
    }
}

impl Source for Dir {
    async fn next(&mut self) -> Result<Snapshot, SourceError> {
        loop {
            let before = self.last;
            if before.is_some() {
                // Whichever comes first: a change, or the time to look anyway.
                if timeout(LOOK_EVERY.max(self.took * LOOK_SHARE), self.events.recv()).await.is_ok() {
                    let latest = Instant::now() + PATIENCE;
                    loop {
                        tokio::select! {
                            biased;
                            Some(()) = self.events.recv() => if Instant::now() >= latest { break },
                            () = sleep_until((Instant::now() + QUIET).min(latest)) => break,
                        }
                    }
                }
            }
            // Watched before it is read, so that nothing changes unseen in between.
            self.watch();
            let snapshot = match self.read() {
                Ok(it) => it,
                Err(fault) => {
                    if before.is_none() {
                        return Err(fault.into());
                    }
                    tokio::time::sleep(QUIET).await;
                    match self.read() {
                        Ok(it) => it,
                        Err(fault) => {
                            self.failed = true;
                            return Err(fault.into());
                        }
                    }
                }
            };
            let snapshot = match self.emptied {
                false => snapshot,
                true => {
                    tokio::time::sleep(EMPTIED).await;
                    self.read()?
                }
            };
            if std::mem::take(&mut self.failed) || self.last != before {
                return Ok(snapshot);
            }
        }
    }
}

/// Reads a folder of definitions, or one file, once.
pub fn read_once(path: &Path, changes: Option<Changes>) -> io::Result<Snapshot> {
    let at = |fault: io::Error| io::Error::new(fault.kind(), format!("{}: {fault}", path.display()));
    let meta = fs::metadata(path).map_err(at)?;
    if meta.is_dir() {
        let events = mpsc::channel(1).1;
        return Dir {
            root: path.into(),
            changes,
            known: HashMap::new(),
            last: None,
            emptied: false,
            failed: false,
            events,
            watcher: None,
            watched: None,
            took: Duration::ZERO,
        }
        .read();
    }
    let begun = std::time::Instant::now();
    let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let text = Bytes::from(read(path).map_err(at)?);
    let digest = crate::digest::of([name.as_bytes(), &text[..]].into_iter());
    let files = vec![File { name: name.into(), text }];
    Ok(Snapshot { revision: format!("{digest:032x}").into(), begun, files, unreadable: Vec::new() })
}

/// A file's content, and no more of it than tells that it is too large: a file may grow while it is read.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let size = file.metadata().map_or(0, |it| it.len()).min(LARGEST_FILE);
    let mut text = Vec::with_capacity(size as usize + 1);
    file.take(LARGEST_FILE).read_to_end(&mut text)?;
    Ok(text)
}

/// What lies in a folder.
struct Found {
    files: Vec<(Box<str>, PathBuf, Print)>,
    /// Folders in it that cannot be searched, and why.
    unreadable: Vec<(Box<str>, Box<str>)>,
    /// Nothing that was listed was gone a moment later.
    whole: bool,
}

/// Every definition file below `root`, by its name relative to it, in order of names.
///
/// Hidden files and folders are passed over: editors' backups, and the folders that Kubernetes swaps behind its links.
/// So is what is no file, whatever its name: a pipe would never end, a device neither. Errors: `root` cannot be searched.
fn scan(root: &Path) -> io::Result<Found> {
    let mut found = Found { files: Vec::new(), unreadable: Vec::new(), whole: true };
    let mut folders = vec![(root.to_path_buf(), String::new(), 0)];
    let mut seen = std::collections::HashSet::new();
    while let Some((folder, prefix, depth)) = folders.pop() {
        // A link back up would go round for ever.
        let listed = fs::metadata(&folder).and_then(|meta| Ok((meta, fs::read_dir(&folder)?.collect::<io::Result<Vec<_>>>()?)));
        let (meta, entries) = match listed {
            Ok(it) => it,
            Err(it) if depth == 0 => return Err(io::Error::new(it.kind(), format!("{}: {it}", folder.display()))),
            Err(it) if it.kind() == io::ErrorKind::NotFound => {
                found.whole = false;
                continue;
            }
            Err(it) => {
                found.unreadable.push((prefix.into(), format!("the folder cannot be read: {it}").into()));
                continue;
            }
        };
        if depth > DEEPEST || !seen.insert((device(&meta), inode(&meta))) {
            continue;
        }
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || name.ends_with('~') {
                continue;
            }
            let path = entry.path();
            let Ok(meta) = fs::metadata(&path) else {
                // A link that leads nowhere is not there; but what is no link has just gone away.
                found.whole &= fs::symlink_metadata(&path).is_ok();
                continue;
            };
            if meta.is_dir() {
                folders.push((path, format!("{prefix}{name}/"), depth + 1));
            } else if meta.is_file() && is_definition(&name) {
                let print = Print { size: meta.len(), changed: meta.modified().ok(), inode: inode(&meta) };
                found.files.push((format!("{prefix}{name}").into(), path, print));
            }
        }
    }
    found.files.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    found.unreadable.sort();
    Ok(found)
}

fn inode(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(meta)
}

fn device(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::dev(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);
    impl Folder {
        fn new(name: &str) -> Self {
            let it = std::env::temp_dir().join(format!("allium-dir-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&it);
            fs::create_dir_all(&it).unwrap();
            Self(it)
        }
        fn write(&self, name: &str, text: &str) {
            fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
            fs::write(self.0.join(name), text).unwrap();
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
    fn told(snapshot: &Snapshot) -> String {
        snapshot.files.iter().map(|it| format!("{}={} ", it.name, String::from_utf8_lossy(&it.text))).collect::<String>().trim().into()
    }
    #[test]
    fn a_folder_that_goes_away_while_it_is_read_is_not_taken_for_an_empty_one() {
        let folder = Folder::new("going");
        folder.write("a.yaml", "1");
        let mut dir = Dir::new(folder.0.clone(), None);
        assert_eq!(told(&dir.read().unwrap()), "a.yaml=1");
        folder.write("a.yaml", "12");
        let away = folder.0.with_extension("away");
        let looked = dir.look(&mut || fs::rename(&folder.0, &away).unwrap());
        assert!(looked.unwrap().is_none(), "half of it is no state");
        assert!(dir.read().is_err(), "it is told as gone");
        fs::rename(&away, &folder.0).unwrap();
        assert_eq!(told(&dir.read().unwrap()), "a.yaml=12");
        // One file of several.
        folder.write("b.yaml", "2");
        let looked = dir.look(&mut || fs::remove_file(folder.0.join("b.yaml")).unwrap());
        assert!(looked.unwrap().is_none());
        assert_eq!(told(&dir.read().unwrap()), "a.yaml=12");
    }

    async fn next(dir: &mut Dir) -> String {
        told(&timeout(Duration::from_secs(10), dir.next()).await.expect("a change is seen").unwrap())
    }

    #[tokio::test]
    async fn a_change_is_seen_at_once_however_the_folder_is_named() {
        let folder = Folder::new("named");
        let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect::<String>();
        let bare = folder.0.strip_prefix("/").unwrap();
        for (n, root) in [folder.0.clone(), format!("{up}{}", bare.display()).into(), format!("./{up}./{}/.", bare.display()).into()]
            .into_iter()
            .enumerate()
        {
            folder.write("a.yaml", "before");
            let mut dir = Dir::new(root.clone(), None);
            next(&mut dir).await;
            let begun = Instant::now();
            folder.write("a.yaml", &n.to_string());
            assert_eq!(next(&mut dir).await, format!("a.yaml={n}"));
            // Well before it would be looked at without having been told.
            assert!(begun.elapsed() < LOOK_EVERY / 2, "{}: {:?}", root.display(), begun.elapsed());
        }
    }

    #[tokio::test]
    async fn every_way_to_change_a_folder_is_seen() {
        let folder = Folder::new("changes");
        folder.write("b.yaml", "1");
        folder.write("deep/a.json", "2");
        folder.write(".hidden.yaml", "x");
        folder.write("notes.txt", "x");
        let mut dir = Dir::new(folder.0.clone(), None);
        assert_eq!(next(&mut dir).await, "b.yaml=1 deep/a.json=2");
        // Written in place.
        folder.write("b.yaml", "3");
        assert_eq!(next(&mut dir).await, "b.yaml=3 deep/a.json=2");
        // Written beside it and renamed over it, as editors do.
        folder.write(".b.yaml.swp", "4");
        fs::rename(folder.0.join(".b.yaml.swp"), folder.0.join("b.yaml")).unwrap();
        assert_eq!(next(&mut dir).await, "b.yaml=4 deep/a.json=2");
        // Removed; and a new folder with a file in it.
        fs::remove_file(folder.0.join("deep/a.json")).unwrap();
        folder.write("new/c.yaml", "5");
        assert_eq!(next(&mut dir).await, "b.yaml=4 new/c.yaml=5");
        folder.write("new/c.yaml", "6");
        assert_eq!(next(&mut dir).await, "b.yaml=4 new/c.yaml=6");
    }

    #[tokio::test]
    async fn the_links_that_kubernetes_swaps_are_followed() {
        let folder = Folder::new("kubernetes");
        folder.write("..one/a.yaml", "1");
        folder.write("..two/a.yaml", "2");
        std::os::unix::fs::symlink("..one", folder.0.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/a.yaml", folder.0.join("a.yaml")).unwrap();
        let mut dir = Dir::new(folder.0.clone(), None);
        assert_eq!(next(&mut dir).await, "a.yaml=1");
        std::os::unix::fs::symlink("..two", folder.0.join("..data_tmp")).unwrap();
        fs::rename(folder.0.join("..data_tmp"), folder.0.join("..data")).unwrap();
        assert_eq!(next(&mut dir).await, "a.yaml=2");
    }

    #[tokio::test]
    async fn a_folder_that_is_replaced_whole_is_seen() {
        let folder = Folder::new("replaced");
        folder.write("routes/a.yaml", "1");
        let mut dir = Dir::new(folder.0.join("routes"), None);
        assert_eq!(next(&mut dir).await, "a.yaml=1");
        folder.write("routes.new/a.yaml", "2");
        fs::rename(folder.0.join("routes"), folder.0.join("routes.old")).unwrap();
        fs::rename(folder.0.join("routes.new"), folder.0.join("routes")).unwrap();
        assert_eq!(next(&mut dir).await, "a.yaml=2");
        folder.write("routes/a.yaml", "3");
        assert_eq!(next(&mut dir).await, "a.yaml=3");
    }

    #[test]
    fn a_link_in_a_circle_ends() {
        let folder = Folder::new("circle");
        folder.write("a.yaml", "1");
        std::os::unix::fs::symlink(".", folder.0.join("again")).unwrap();
        assert_eq!(read_once(&folder.0, None).unwrap().files.len(), 1);
    }

    #[tokio::test]
    async fn what_is_no_readable_file_hides_no_other() {
        let folder = Folder::new("odd");
        folder.write("a.yaml", "1");
        folder.write("upper.YAML", "2");
        fs::create_dir(folder.0.join("folder.yaml")).unwrap();
        for (name, to) in [("device.yaml", "/dev/zero"), ("gone.yaml", "nowhere"), ("itself.yaml", "itself.yaml")] {
            std::os::unix::fs::symlink(to, folder.0.join(name)).unwrap();
        }
        let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("socket.yaml")).unwrap();
        fs::File::create(folder.0.join("large.yaml")).unwrap().set_len(1 << 30).unwrap();
        let seen = read_once(&folder.0, None).unwrap();
        let sizes: Vec<_> = seen.files.iter().map(|it| (&*it.name, it.text.len())).collect();
        // Of the large one just what tells that it is too large.
        assert_eq!(sizes, [("a.yaml", 1), ("large.yaml", (16 << 20) + 1), ("upper.YAML", 1)]);
    }

    #[tokio::test]
    async fn a_file_that_is_written_slowly_is_not_taken_for_empty() {
        let folder = Folder::new("slowly");
        folder.write("a.yaml", "1");
        let mut dir = Dir::new(folder.0.clone(), None);
        assert_eq!(next(&mut dir).await, "a.yaml=1");
        let path = folder.0.join("a.yaml");
        let writer = tokio::spawn(async move {
            let mut file = fs::File::create(path).unwrap();
            tokio::time::sleep(3 * QUIET).await;
            io::Write::write_all(&mut file, b"2").unwrap();
        });
        assert_eq!(next(&mut dir).await, "a.yaml=2");
        writer.await.unwrap();
        folder.write("a.yaml", "");
        assert_eq!(next(&mut dir).await, "a.yaml=", "one that stays empty is empty");
    }

    #[tokio::test]
    async fn a_folder_that_comes_back_as_it_was_is_told() {
        let folder = Folder::new("back");
        folder.write("routes/a.yaml", "1");
        let mut dir = Dir::new(folder.0.join("routes"), None);
        assert_eq!(next(&mut dir).await, "a.yaml=1");
        fs::rename(folder.0.join("routes"), folder.0.join("away")).unwrap();
        assert!(timeout(Duration::from_secs(10), dir.next()).await.expect("its absence is seen").is_err());
        fs::rename(folder.0.join("away"), folder.0.join("routes")).unwrap();
        assert_eq!(next(&mut dir).await, "a.yaml=1");
    }
}
