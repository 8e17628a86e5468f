//! Waits for definitions, compiles them aside, swaps them in, and tells how it went.
pub mod history;
pub mod last_good;

use std::{
    collections::{HashMap, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use contract::source::{self, File, Source};
use schemas::{Broken, Document, Fault, Id, Input, Kind};

pub use self::last_good::keep;
use self::{history::State, last_good::LastGood};
use crate::{
    compile::{self, Snapshot, Workshop},
    telemetry::metrics::{Reload, Served as Figures},
};

/// How often what is left is compiled again without the documents that do not fit.
const MOST_ROUNDS: usize = 8;

/// How long a swap waits until upstreams that are new have an address: without one, calls to them fail.
const RESOLVE_WAIT: Duration = Duration::from_secs(1);

/// What is served and why, for probes and people.
#[derive(Clone, Default)]
pub struct Status {
    /// Of the source; what is served may be older where there are faults.
    pub revision: Box<str>,
    pub faults: Arc<[Fault]>,
    pub how: Option<&'static str>,
    /// Kind, state and number of documents.
    pub documents: Vec<(&'static str, &'static str, u64)>,
    pub took: Duration,
    /// When it was taken over or refused.
    pub at: Option<SystemTime>,
    /// Documents that are not served as they are written: each with `last_good` or `refused`.
    pub held_back: Vec<(Id, &'static str)>,
    /// When reading it began: whatever was written before is in it.
    pub begun: Option<Instant>,
}

/// What one file held when it was last read.
struct Read {
    text: Bytes,
    documents: Vec<Arc<Document>>,
    broken: Vec<Broken>,
    faults: Vec<Fault>,
}

/// Makes a snapshot the one that is served.
type Swap = dyn Fn(&Arc<Snapshot>) + Send;

/// Takes definitions over, one state of the source after the other.
pub struct Reloader {
    shop: Arc<Workshop>,
    plugins: schemas::Plugins,
    /// Put before the names of files, so that faults name them as the operator does.
    folder: PathBuf,
    read: HashMap<Box<str>, Read>,
    current: Option<Arc<Snapshot>>,
    status: Arc<Mutex<Status>>,
    last_good: Option<LastGood>,
    history: Option<mpsc::Sender<State>>,
    swap: Box<Swap>,
}

/// What became of one state of the source.
struct Taken {
    snapshot: Option<Arc<Snapshot>>,
    faults: Vec<Fault>,
    how: Reload,
    kept: HashSet<Id>,
    out: HashSet<Id>,
    /// What the files held, for the history.
    files: Vec<File>,
    begun: Instant,
}

impl Reloader {
    /// `swap` makes a snapshot the one that is served.
    pub fn new(shop: Arc<Workshop>, folder: PathBuf, last_good: Option<LastGood>, swap: impl Fn(&Arc<Snapshot>) + Send + 'static) -> Self {
        let plugins = compile::plugin_schemas(shop.plugins);
        Self {
            shop,
            plugins,
            folder,
            read: HashMap::new(),
            current: None,
            status: Arc::default(),
            last_good,
            history: None,
            swap: Box::new(swap),
        }
    }

    /// Keeps every state that is served.
    pub fn with_history(mut self, keeper: mpsc::Sender<State>) -> Self {
        self.history = Some(keeper);
        self
    }

    pub fn status(&self) -> Arc<Mutex<Status>> {
        self.status.clone()
    }

    /// The first definitions. Errors: they have faults, and there is no last good version to serve instead.
    pub fn first(&mut self, definitions: source::Snapshot) -> Result<Vec<Fault>, Vec<Fault>> {
        match self.last_good.as_ref().map_or(Ok(None), LastGood::load) {
            Ok(None) => (),
            Ok(Some(documents)) => {
                let outcome = compile::compile(&self.shop, "last good", documents, &[], None);
                self.current = outcome.snapshot.map(Arc::new);
                if self.current.is_none() {
                    let faults = outcome.faults.iter().filter(|it| it.is_error()).map(|it| &*it.message).take(3).collect::<Vec<_>>();
                    self.lost(&format!("they no longer compile: {}", faults.join("; ")));
                }
            }
            Err(why) => self.lost(&why),
        }
        let had_last_good = self.current.is_some();
        let revision = definitions.revision.clone();
        let taken = self.take(definitions);
        if taken.how != Reload::Ok && !had_last_good {
            return Err(taken.faults);
        }
        let faults = taken.faults.clone();
        self.finish(&revision, taken, Duration::ZERO);
        Ok(faults)
    }

    /// The last good version is there, and yet of no use.
    fn lost(&self, why: &str) {
        self.shop.log.error("reload", format_args!("the last good definitions cannot be served: {why}"), &[]);
    }

    /// Follows the source for ever.
    pub async fn follow(mut self, mut source: impl Source) {
        loop {
            match source.next().await {
                Ok(snapshot) => {
                    if snapshot.unreadable.is_empty() && self.is_served(&snapshot.revision) {
                        self.adopt(snapshot.files);
                        continue;
                    }
                    let started = Instant::now();
                    // Compiling takes a while, and nobody here waits for it.
                    let work = tokio::task::spawn_blocking(move || {
                        let revision = snapshot.revision.clone();
                        // A mistake of our own must not end every later reload.
                        let taken = catch_unwind(AssertUnwindSafe(|| {
                            let taken = self.take(snapshot);
                            self.finish(&revision, taken, started.elapsed());
                        }));
                        if taken.is_err() {
                            self.failed(&revision);
                        }
                        self
                    });
                    match work.await {
                        Ok(it) => self = it,
                        Err(_) => return,
                    }
                }
                Err(fault) => {
                    self.shop.log.error(
                        "reload",
                        format_args!("the definitions cannot be read, so those that are served stay: {fault}"),
                        &[],
                    );
                    self.unreadable(&fault.to_string());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// Whether this state of the source is what is served, without a fault: so it is right after the start.
    fn is_served(&self, revision: &str) -> bool {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.how == Some("ok") && *status.revision == *revision
    }

    /// Takes the source's own copies of the same texts, so that each is there once.
    fn adopt(&mut self, files: Vec<File>) {
        for File { name, text } in files {
            let shown = self.folder.join(&*name).display().to_string();
            if let Some(it) = self.read.get_mut(shown.as_str()).filter(|it| it.text == text) {
                it.text = text;
            }
        }
    }

    /// Whether a document was read from disk after a restart: then nobody knows which file it stood in.
    fn is_last_good(&self, file: &str) -> bool {
        self.last_good.as_ref().is_some_and(|it| it.is(file))
    }

    fn failed(&self, revision: &str) {
        const WHY: &str = "taking these definitions over failed within the gateway, so those that were served stay";
        self.shop.log.error("reload", format_args!("{WHY}"), &[("revision", &revision)]);
        self.unreadable(WHY);
    }

    fn unreadable(&self, why: &str) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.faults = [Fault::of_file(self.folder.display().to_string(), "unreadable", why)].into();
        status.how = Some("refused");
    }

    /// Reads what changed; the rest is remembered.
    fn read(&mut self, files: Vec<File>) -> (Vec<Arc<Document>>, Vec<Broken>, Vec<Fault>) {
        let mut known = std::mem::take(&mut self.read);
        let mut inputs = Vec::new();
        let mut now: Vec<(Box<str>, Option<Read>)> = Vec::with_capacity(files.len());
        let mut texts = HashMap::new();
        for File { name, text } in files {
            let shown: Box<str> = self.folder.join(&*name).display().to_string().into();
            match known.remove(&shown) {
                // The source's own copy, so that there is one.
                Some(it) if it.text == text => now.push((shown, Some(Read { text, ..it }))),
                _ => {
                    inputs.push(Input::new(&*shown, text.to_vec()));
                    texts.insert(shown.clone(), text);
                    now.push((shown, None));
                }
            }
        }
        let loaded = compile::load(inputs, &self.plugins, &self.shop.root);
        let mut fresh: HashMap<Box<str>, Read> = texts
            .into_iter()
            .map(|(name, text)| (name, Read { text, documents: Vec::new(), broken: Vec::new(), faults: Vec::new() }))
            .collect();
        for it in loaded.documents {
            if let Some(read) = fresh.get_mut(&*it.file) {
                read.documents.push(Arc::new(it));
            }
        }
        for it in loaded.broken {
            if let Some(read) = fresh.get_mut(&*it.file) {
                read.broken.push(it);
            }
        }
        for it in loaded.faults {
            // A binary file's faults name a place behind the file's name.
            let file = it.file.split('#').next().unwrap_or(&it.file).to_owned();
            if let Some(read) = fresh.get_mut(file.as_str()) {
                read.faults.push(it);
            }
        }
        let all: Vec<(Box<str>, Read)> =
            now.into_iter().filter_map(|(name, it)| it.or_else(|| fresh.remove(&name)).map(|it| (name, it))).collect();
        // A file that a definition names is no definition itself, whichever of the two came first.
        let named: HashSet<PathBuf> =
            all.iter().flat_map(|(_, it)| &it.documents).flat_map(|it| &it.files).map(|it| plain(&self.shop.root.join(it))).collect();
        let (mut documents, mut broken, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for (name, it) in &all {
            if !named.is_empty() && named.contains(&plain(Path::new(&**name))) {
                continue;
            }
            documents.extend(it.documents.iter().cloned());
            broken.extend(it.broken.iter().cloned());
            faults.extend(it.faults.iter().cloned());
        }
        self.read = all.into_iter().collect();
        (documents, broken, faults)
    }

    fn take(&mut self, definitions: source::Snapshot) -> Taken {
        let source::Snapshot { revision, begun, files, unreadable } = definitions;
        let revision = &*revision;
        let copies: Vec<File> = match self.history.is_some() {
            true => files.iter().map(|it| File { name: it.name.clone(), text: it.text.clone() }).collect(),
            false => Vec::new(),
        };
        let (mut documents, broken, mut faults) = self.read(files);
        for (name, why) in &unreadable {
            faults.push(Fault::of_file(self.folder.join(&**name).display().to_string(), "unreadable", &**why));
        }
        let former = self.current.clone();
        let known: HashMap<&Id, &Arc<Document>> = former.iter().flat_map(|it| &it.documents).map(|it| (&it.id, it)).collect();
        let present: HashSet<Id> = documents.iter().map(|it| it.id.clone()).collect();
        let mut kept = HashSet::new();
        let mut out = HashSet::new();
        // A document that cannot be read keeps its last good version.
        let mut keep: Vec<Arc<Document>> = Vec::new();
        for it in &broken {
            match identity(it) {
                Some(id) if present.contains(&id) => (),
                Some(id) => match known.get(&id) {
                    Some(good) => keep.push((*good).clone()),
                    None => drop(out.insert(id)),
                },
                // It does not even say what it is: whatever its file held, and is nowhere else, stays.
                None => keep.extend(
                    known
                        .values()
                        .filter(|good| (good.file == it.file || self.is_last_good(&good.file)) && !present.contains(&good.id))
                        .map(|it| (*it).clone()),
                ),
            }
        }
        // The same of a file that cannot be read at all.
        let unreadable: HashSet<&str> = faults
            .iter()
            .filter(|it| it.is_error())
            .map(|it| &*it.file)
            .filter(|file| !broken.iter().any(|it| *it.file == **file))
            .collect();
        keep.extend(
            known
                .values()
                .filter(|good| {
                    (is_within(&good.file, &unreadable) || (!unreadable.is_empty() && self.is_last_good(&good.file)))
                        && !present.contains(&good.id)
                })
                .map(|it| (*it).clone()),
        );
        for it in keep {
            if kept.insert(it.id.clone()) {
                documents.push(it);
            }
        }
        let mut refused = faults.iter().any(Fault::is_error);
        for round in 0..MOST_ROUNDS {
            let outcome = compile::compile(&self.shop, revision, documents.clone(), &broken, former.as_deref());
            // Faults of later rounds follow from what the first took away; the first are what the author must mend.
            if round == 0 || outcome.snapshot.is_some() {
                let told = outcome.faults.into_iter().filter(|it| round == 0 || !(it.is_error() || it.code == "unused"));
                faults.extend(told);
            }
            if let Some(snapshot) = outcome.snapshot {
                compile::sort(&mut faults);
                let how = if refused { Reload::Partial } else { Reload::Ok };
                return Taken { snapshot: Some(Arc::new(snapshot)), faults, how, kept, out, files: copies, begun };
            }
            refused = true;
            if !self.step_back(&mut documents, &outcome.broken, &known, &mut kept, &mut out) {
                break;
            }
        }
        compile::sort(&mut faults);
        Taken { snapshot: None, faults, how: Reload::Refused, kept, out, files: copies, begun }
    }

    /// Puts the last good version in the place of each document that does not fit, or takes it out. False when that changes nothing.
    fn step_back(
        &self,
        documents: &mut Vec<Arc<Document>>,
        broken: &HashSet<Id>,
        known: &HashMap<&Id, &Arc<Document>>,
        kept: &mut HashSet<Id>,
        out: &mut HashSet<Id>,
    ) -> bool {
        let mut changed = false;
        let mut seen = HashSet::new();
        documents.retain_mut(|it| {
            if !broken.contains(&it.id) {
                return true;
            }
            changed = true;
            let first = seen.insert(it.id.clone());
            match known.get(&it.id) {
                Some(good) if first && !kept.contains(&it.id) => {
                    kept.insert(it.id.clone());
                    *it = (*good).clone();
                    true
                }
                // Even its last good version does not fit any more.
                _ => {
                    kept.remove(&it.id);
                    out.insert(it.id.clone());
                    false
                }
            }
        });
        changed
    }

    fn finish(&mut self, revision: &str, taken: Taken, took: Duration) {
        let Taken { snapshot, faults, how, kept, out, files, begun } = taken;
        let log = &self.shop.log;
        let errors = faults.iter().filter(|it| it.is_error()).count();
        for it in faults.iter().filter(|it| it.is_error()).take(20) {
            log.error(
                "reload",
                format_args!(
                    "{}:{}:{}: {}{}",
                    it.file,
                    it.line,
                    it.column,
                    it.message,
                    it.help.as_deref().map_or(String::new(), |it| format!(" ({it})"))
                ),
                &[("code", &it.code)],
            );
        }
        if let Some(it) = &snapshot {
            self.wait_for_nodes(it);
            (self.swap)(it);
            self.current = Some(it.clone());
        }
        let word = match how {
            Reload::Ok => "ok",
            Reload::Partial => "partial",
            Reload::Refused => "refused",
        };
        let documents = self.count(&kept, &out);
        let mut held_back: Vec<(Id, &'static str)> = kept.iter().map(|it| (it.clone(), "last_good")).collect();
        held_back.extend(out.iter().map(|it| (it.clone(), "refused")));
        held_back.sort();
        let total: u64 = documents.iter().filter(|it| it.1 != "refused").map(|it| it.2).sum();
        match how {
            Reload::Ok => log.info(
                "reload",
                format_args!("{total} definitions are served"),
                &[("revision", &revision), ("took_ms", &took.as_millis())],
            ),
            Reload::Partial => log.warn(
                "reload",
                format_args!(
                    "faults: {errors}; documents that keep their last good version: {}, that stay out: {}; everything else is served",
                    kept.len(),
                    out.len()
                ),
                &[("revision", &revision), ("took_ms", &took.as_millis())],
            ),
            Reload::Refused => log.error(
                "reload",
                format_args!("{errors} faults, and what is left does not fit together: everything stays as it was"),
                &[("revision", &revision)],
            ),
        }
        self.shop.metrics.reloaded(how, Figures { revision: revision.into(), documents: documents.clone(), succeeded: 0.0 });
        self.shop.metrics.sweep(Instant::now());
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Status {
            revision: revision.into(),
            faults: faults.into(),
            how: Some(word),
            documents,
            took,
            at: Some(SystemTime::now()),
            held_back,
            begun: Some(begun),
        };
        if let (Some(keeper), true) = (&self.history, snapshot.is_some()) {
            // Whoever keeps it ends with this gateway, never before.
            let _ = keeper.send(State { revision: revision.into(), files, whole: how == Reload::Ok });
        }
        if let (Some(store), Some(it), true) = (&self.last_good, &snapshot, how != Reload::Refused)
            && let Err(fault) = store.save(&it.documents)
        {
            log.warn("reload", format_args!("the last good definitions cannot be kept on disk: {fault}"), &[]);
        }
    }

    /// Names of upstreams that are new are resolved before anybody calls them; those that cannot be hold nothing up for long.
    fn wait_for_nodes(&self, snapshot: &Snapshot) {
        let Some(background) = &self.shop.background else { return };
        let known: HashSet<_> = self.current.iter().flat_map(|it| it.upstreams()).map(Arc::as_ptr).collect();
        let fresh: Vec<_> = snapshot.upstreams().filter(|it| !known.contains(&Arc::as_ptr(it)) && it.nodes().is_empty()).collect();
        if !fresh.is_empty() {
            let all = async {
                for it in fresh {
                    it.first_node().await;
                }
            };
            let _ = background.block_on(async { tokio::time::timeout(RESOLVE_WAIT, all).await });
        }
    }

    fn count(&self, kept: &HashSet<Id>, out: &HashSet<Id>) -> Vec<(&'static str, &'static str, u64)> {
        let mut counts: HashMap<(&'static str, &'static str), u64> = HashMap::new();
        for it in self.current.iter().flat_map(|it| &it.documents) {
            let state = if kept.contains(&it.id) { "last_good" } else { "served" };
            *counts.entry((it.id.kind.name(), state)).or_default() += 1;
        }
        for it in out {
            *counts.entry((it.kind.name(), "refused")).or_default() += 1;
        }
        let mut all: Vec<_> = counts.into_iter().map(|((kind, state), count)| (kind, state, count)).collect();
        all.sort();
        all
    }
}

/// Which definition a broken document says it is.
fn identity(it: &Broken) -> Option<Id> {
    let (kind, name) = (it.kind?, it.name.clone()?);
    Some(Id { kind, name, version: it.version.clone().filter(|_| kind == Kind::Api) })
}

/// Whether a file is one of these, or lies in a folder that is.
fn is_within(file: &str, of: &HashSet<&str>) -> bool {
    !of.is_empty() && Path::new(file).ancestors().filter_map(Path::to_str).any(|it| of.contains(it) || of.contains(&*format!("{it}/")))
}

/// A path without `.` and `..`, to compare names of files.
fn plain(path: &Path) -> PathBuf {
    let mut it = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => (),
            Component::ParentDir => drop(it.pop()),
            other => it.push(other),
        }
    }
    it
}
