//! Definitions compiled without a gateway around them, as `allium check` does it.
use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use contract::{catalog::Entry, env::Spawn, exchange::NodeInfo};
use gateway::{
    compile::{self, Egress, Outcome, Snapshot, StateKeeper, Workshop},
    registry::resolver::Resolver,
    settings::{limits::Limits, secret::SecretsPolicy},
    source::dir,
    telemetry::{log::Log, metrics::GatewayMetrics},
};
use schemas::{Document, Input};

/// A place to compile in.
pub struct Aside {
    pub shop: Workshop,
    plugins: schemas::Plugins,
}

/// How long each step took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Finding and reading the files.
    pub read: Duration,
    /// Text into documents, with all that is said of a document alone.
    pub load: Duration,
    /// Documents into routes and the table.
    pub compile: Duration,
}

impl Spent {
    pub fn all(&self) -> Duration {
        self.read + self.load + self.compile
    }
}

/// Work beside requests, which there are none of.
struct Idle;

impl Spawn for Idle {
    fn local(&self, _: Pin<Box<dyn Future<Output = ()>>>) {}
    fn background(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}
}

impl Aside {
    pub fn new(root: &Path) -> Self {
        Self::with(plugins::ALL, root)
    }

    /// With other plugins than those that there are.
    pub fn with(plugins: &'static [Entry], root: &Path) -> Self {
        let root = root.to_path_buf();
        let shop = Workshop {
            plugins,
            metrics: Arc::new(GatewayMetrics::new(Default::default())),
            states: StateKeeper::default(),
            apps: Default::default(),
            spawn: Arc::new(Idle),
            log: Log::nowhere(),
            egress: Egress::new(Default::default()),
            resolver: Resolver::new(Vec::new()),
            limits: Limits::default(),
            node: Arc::new(NodeInfo::default()),
            policy: SecretsPolicy::new(Default::default(), root.clone()),
            threads: 1,
            background: None,
            without_secrets: true,
            first_seen: 0,
            root,
        };
        Self { shop, plugins: compile::plugin_schemas(plugins) }
    }

    /// Reads and compiles everything below a folder.
    pub fn check(&self, folder: &Path, former: Option<&Snapshot>) -> (Outcome, Spent) {
        let begun = Instant::now();
        let files = dir::read_once(folder, None).unwrap_or_else(|why| panic!("{why}"));
        let inputs: Vec<Input> = files.files.into_iter().map(|it| Input::new(&*it.name, it.text.to_vec())).collect();
        let read = begun.elapsed();
        let (documents, load) = self.documents(inputs);
        let begun = Instant::now();
        let outcome = compile::compile(&self.shop, "check", documents, &[], former);
        (outcome, Spent { read, load, compile: begun.elapsed() })
    }

    /// Compiles one text.
    pub fn text(&self, text: &str, former: Option<&Snapshot>) -> Snapshot {
        let (documents, _) = self.documents(vec![Input::new("api.yaml", text)]);
        let outcome = compile::compile(&self.shop, "check", documents, &[], former);
        outcome.snapshot.unwrap_or_else(|| panic!("{:?}", outcome.faults))
    }

    /// Every fault of one text, whatever is wrong with it.
    pub fn faults(&self, text: &str) -> Vec<schemas::Fault> {
        let loaded = compile::load(vec![Input::new("api.yaml", text)], &self.plugins, &self.shop.root);
        let documents = loaded.documents.into_iter().map(Arc::new).collect();
        let outcome = compile::compile(&self.shop, "check", documents, &loaded.broken, None);
        loaded.faults.into_iter().chain(outcome.faults).collect()
    }

    fn documents(&self, inputs: Vec<Input>) -> (Vec<Arc<Document>>, Duration) {
        let begun = Instant::now();
        let loaded = compile::load(inputs, &self.plugins, &self.shop.root);
        assert!(!loaded.has_errors(), "{}", schemas::render::text(&loaded.faults, false));
        (loaded.documents.into_iter().map(Arc::new).collect(), begun.elapsed())
    }
}

/// The memory that this process holds, in bytes.
pub fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}
