//! What most commands look at: settings, and all definitions, read and compiled as the gateway would.
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use contract::{catalog::Entry, exchange::NodeInfo};
use schemas::{Document, Fault, Id, Input, yaml};

use super::{exit::Exit, progress::Progress, terminal::Terminal};
use crate::{
    compile::{self, Egress, StateKeeper, Workshop, world::Idle},
    registry::resolver::Resolver,
    settings::{self, Settings, secret::SecretsPolicy},
    telemetry::{log::Log, metrics::GatewayMetrics, redact::DEFAULT_NAMES},
};

/// What every command is given.
pub struct Given {
    /// The file that `-c` names.
    pub config: Option<PathBuf>,
    pub plugins: &'static [Entry],
}

/// Settings, as far as they could be read.
pub struct Known {
    pub loaded: Option<settings::Loaded>,
    /// Errors where there is no `loaded`, otherwise warnings.
    pub faults: Vec<Fault>,
    /// Where definitions are.
    pub dir: PathBuf,
    folder: PathBuf,
}

/// Definitions, as far as they fit together.
pub struct World {
    pub shop: Workshop,
    /// Those without a fault of their own, by file and place.
    pub documents: Vec<Arc<Document>>,
    /// All of them as they would be served, if they fit together.
    pub snapshot: Option<compile::Snapshot>,
    /// Those among them that do not fit to the others.
    pub bad: HashSet<Id>,
    /// Every fault, by file and place.
    pub faults: Vec<Fault>,
    /// The files that were read, each with the number of its documents, those with faults too.
    pub counts: Vec<(Arc<str>, usize)>,
}

impl Given {
    /// Reads the settings.
    pub fn settings(&self) -> Known {
        let environment: Vec<_> = std::env::vars_os().collect();
        let input = settings::Input { file: self.config.as_deref(), environment: &environment, hidden: &DEFAULT_NAMES };
        match settings::load(input) {
            Ok(it) => {
                let (dir, folder) = (plain(&it.path(&it.settings.definitions.dir)), it.folder.clone());
                Known { faults: it.warnings.clone(), dir, folder, loaded: Some(it) }
            }
            Err(faults) => {
                let named = self.config.clone().or_else(|| std::env::var_os(settings::FILE_VARIABLE).map(PathBuf::from));
                let file = named.unwrap_or_else(|| settings::DEFAULT_FILE.into());
                let folder = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
                let dir = dir_of(&file).unwrap_or_else(|| Settings::default().definitions.dir);
                Known { loaded: None, faults, dir: plain(&folder.join(dir)), folder }
            }
        }
    }
}

/// Where settings that have faults elsewhere say that definitions are.
fn dir_of(file: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(file).ok()?;
    let root = yaml::read(&text, *yaml::documents(&text).first()?).root?;
    root.get("definitions")?.get("dir")?.text().map(PathBuf::from)
}

/// Without a `./` that nobody wrote.
fn plain(path: &Path) -> PathBuf {
    match path.strip_prefix(".") {
        Ok(rest) if !rest.as_os_str().is_empty() => rest.to_owned(),
        _ => path.to_owned(),
    }
}

impl Known {
    /// The settings, or an end that tells why there are none.
    pub fn require(self, terminal: &Terminal) -> Result<Self, Exit> {
        match self.loaded {
            Some(_) => Ok(self),
            None => {
                terminal.tell(&schemas::render::text(&self.faults, terminal.err.on));
                Err(exit_of(&self.faults, false))
            }
        }
    }

    /// Reads and compiles all definitions of these paths.
    pub fn world(&self, plugins: &'static [Entry], paths: &[PathBuf], without_secrets: bool, terminal: &Terminal) -> World {
        let progress = Progress::start(terminal.watched);
        progress.now("reading definitions");
        let (mut inputs, mut faults) = (Vec::new(), Vec::new());
        for path in paths {
            let found = schemas::folder::collect(path);
            if found.inputs.is_empty() && found.faults.is_empty() {
                let message = "there are no definitions here: they end in .yaml, .yml, .json or .binpb";
                faults.push(Fault::of_file(path.to_string_lossy(), "no-definitions", message).warning());
            }
            inputs.extend(found.inputs);
            faults.extend(found.faults);
        }
        inputs.sort_by(|a, b| a.name.cmp(&b.name));
        inputs.dedup_by(|a, b| a.name == b.name);
        self.world_of(plugins, inputs, faults, without_secrets, &progress)
    }

    /// The same of texts that were read already, with the faults of reading them.
    pub fn world_of(
        &self,
        plugins: &'static [Entry],
        inputs: Vec<Input>,
        mut faults: Vec<Fault>,
        without_secrets: bool,
        progress: &Progress,
    ) -> World {
        let files: Vec<Arc<str>> = inputs.iter().map(|it| it.name.clone()).collect();
        progress.now(format!("checking {}", counted(files.len(), "file")));
        let shop = self.workshop(plugins, without_secrets);
        let loaded = compile::load(inputs, &compile::plugin_schemas(plugins), &self.folder);
        let mut counts: Vec<(Arc<str>, usize)> = files.iter().map(|it| (it.clone(), 0)).collect();
        let in_files = loaded.documents.iter().map(|it| &it.file).chain(loaded.broken.iter().map(|it| &it.file));
        for file in in_files {
            if let Ok(at) = counts.binary_search_by(|it| it.0.cmp(file)) {
                counts[at].1 += 1;
            }
        }
        faults.extend(loaded.faults);
        let documents: Vec<Arc<Document>> = loaded.documents.into_iter().map(Arc::new).collect();
        progress.now(format!("compiling {}", counted(documents.len(), "document")));
        let outcome = compile::compile(&shop, "check", documents.clone(), &loaded.broken, None);
        faults.extend(outcome.faults);
        settle(&mut faults);
        World { shop, snapshot: outcome.snapshot, documents, bad: outcome.broken, faults, counts }
    }

    /// A workshop that starts nothing: no names are resolved, no thread is made.
    fn workshop(&self, plugins: &'static [Entry], without_secrets: bool) -> Workshop {
        let standard = Settings::default();
        let settings = self.loaded.as_ref().map_or(&standard, |it| &it.settings);
        let egress = Egress::new(settings.egress.allow.iter().map(|it| it.0).collect());
        let own = settings.listen.iter().map(|it| it.address.0).chain([settings.admin.address.0]);
        egress.set_own(own.chain(settings.status.iter().map(|it| it.address.0)).filter(|it| it.port() != 0).collect());
        Workshop {
            plugins,
            metrics: Arc::new(GatewayMetrics::new(Default::default())),
            states: StateKeeper::default(),
            apps: Default::default(),
            spawn: Arc::new(Idle),
            log: Log::nowhere(),
            egress,
            resolver: Resolver::new(Vec::new()),
            limits: settings.limits.clone(),
            node: Arc::new(NodeInfo::default()),
            policy: self
                .loaded
                .as_ref()
                .map_or_else(|| SecretsPolicy::new(Default::default(), self.folder.clone()), settings::Loaded::secrets),
            threads: 1,
            background: None,
            // Without settings nobody knows which secrets definitions may read.
            without_secrets: without_secrets || self.loaded.is_none(),
            first_seen: 0,
            root: self.folder.clone(),
        }
    }
}

/// Sorts faults, and leaves out what only follows from others.
fn settle(faults: &mut Vec<Fault>) {
    if faults.iter().any(|it| it.is_error() && it.code != "broken-reference") {
        // Who names a definition with faults is not at fault; and what nobody uses is known only once everything is understood.
        faults.retain(|it| it.code != "broken-reference" && it.code != "unused");
    }
    compile::sort(faults);
    schemas::hide::in_excerpts(faults);
}

/// What these faults make of the exit code.
pub fn exit_of(faults: &[Fault], strict: bool) -> Exit {
    if faults.iter().any(|it| it.code == "unreadable") {
        return Exit::Unusable;
    }
    if faults.iter().any(|it| strict || it.is_error()) { Exit::Found } else { Exit::Well }
}

/// `1 file`, `2 files`.
pub fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
