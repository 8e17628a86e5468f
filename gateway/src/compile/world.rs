//! One compilation: what it may ask of the gateway, and what all documents of it know of each other.
use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use contract::{catalog::Entry, env::Spawn, exchange::NodeInfo};
use rustls::RootCertStore;
use schemas::{Broken, Definition, Document, Kind, v1};
use tokio::runtime::Handle;

use super::{
    app_book::AppBook,
    descriptors::{self, Pools},
    egress::Egress,
    origin::Origin,
    states::StateKeeper,
};
use crate::{
    registry::resolver::Resolver,
    settings::{
        limits::Limits,
        secret::{Secret, SecretsPolicy},
    },
    telemetry::{log::Log, metrics::GatewayMetrics},
    upstream::Upstream,
};

/// The version of an Api that names none.
pub const NO_VERSION: &str = "";

/// What compiling needs of the gateway; lives as long as it.
pub struct Workshop {
    pub plugins: &'static [Entry],
    pub metrics: Arc<GatewayMetrics>,
    pub states: StateKeeper,
    /// The Apps that may call, whichever snapshot is served.
    pub apps: Arc<AppBook>,
    pub spawn: Arc<dyn Spawn>,
    pub log: Log,
    pub egress: Egress,
    /// Resolves the names of nodes.
    pub resolver: Resolver,
    pub limits: Limits,
    pub node: Arc<NodeInfo>,
    pub policy: SecretsPolicy,
    /// How many workers share an upstream's limits.
    pub threads: usize,
    /// Names are resolved and nodes followed here; without it, nothing is started.
    pub background: Option<Handle>,
    /// Secrets are not looked up: only the shape is checked.
    pub without_secrets: bool,
    /// Seconds since 1970, of the day on which this gateway started.
    pub first_seen: u64,
    /// The folder of `allium.yaml`.
    pub root: std::path::PathBuf,
}

impl Workshop {
    /// One that checks as this one does, and starts nothing: for definitions that are not served, or not yet.
    pub fn aside(&self) -> Self {
        Self {
            plugins: self.plugins,
            metrics: Arc::new(GatewayMetrics::new(Default::default())),
            states: StateKeeper::default(),
            apps: Default::default(),
            spawn: Arc::new(Idle),
            log: Log::nowhere(),
            egress: self.egress.clone(),
            resolver: self.resolver.clone(),
            limits: self.limits.clone(),
            node: self.node.clone(),
            policy: self.policy.clone(),
            threads: 1,
            background: None,
            without_secrets: self.without_secrets,
            first_seen: self.first_seen,
            root: self.root.clone(),
        }
    }
}

/// Work beside requests, which there are none of.
pub struct Idle;

impl Spawn for Idle {
    fn local(&self, _: Pin<Box<dyn Future<Output = ()>>>) {}
    fn background(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}
}

/// The upstreams of the snapshot before, by name and by a URL's host.
#[derive(Clone, Copy, Default)]
pub struct Former<'a> {
    pub upstreams: Option<&'a BTreeMap<Box<str>, Arc<Upstream>>>,
    pub urls: Option<&'a HashMap<Origin, Arc<Upstream>>>,
}

/// One compilation.
pub struct Compiler<'a> {
    pub plugins: &'static [Entry],
    pub metrics: &'a GatewayMetrics,
    pub states: &'a StateKeeper,
    pub apps: &'a Arc<AppBook>,
    pub spawn: Arc<dyn Spawn>,
    pub log: &'a Log,
    pub egress: &'a Egress,
    pub resolver: &'a Resolver,
    pub limits: &'a Limits,
    pub node: Arc<NodeInfo>,
    pub threads: usize,
    pub background: Option<&'a Handle>,
    pub first_seen: u64,
    pub apis: HashMap<(&'a str, &'a str), &'a v1::Api>,
    /// `None` for one that has faults.
    pub upstreams: BTreeMap<Box<str>, Option<Arc<Upstream>>>,
    pub(super) presets: BTreeMap<&'a str, (&'a Document, &'a v1::Preset)>,
    /// Documents that could not even be read.
    pub(super) broken: &'a [Broken],
    pub(super) policy: &'a SecretsPolicy,
    pub(super) root: &'a std::path::Path,
    pub(super) without_secrets: bool,
    pub(super) pools: Mutex<Pools>,
    pub(super) urls: Mutex<HashMap<Origin, Arc<Upstream>>>,
    roots: OnceLock<Result<Arc<RootCertStore>, String>>,
    former: Former<'a>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(shop: &'a Workshop, documents: &'a [Arc<Document>], former: Former<'a>) -> Self {
        let mut apis = HashMap::new();
        let mut presets = BTreeMap::new();
        for document in documents {
            match &document.message {
                Definition::Api(it) => {
                    apis.insert((document.message.name(), document.message.version().unwrap_or(NO_VERSION)), &**it);
                }
                Definition::Preset(it) => {
                    presets.insert(document.message.name(), (&**document, &**it));
                }
                _ => (),
            }
        }
        Self {
            plugins: shop.plugins,
            metrics: &shop.metrics,
            states: &shop.states,
            apps: &shop.apps,
            spawn: shop.spawn.clone(),
            log: &shop.log,
            egress: &shop.egress,
            resolver: &shop.resolver,
            limits: &shop.limits,
            node: shop.node.clone(),
            threads: shop.threads,
            background: shop.background.as_ref(),
            first_seen: shop.first_seen,
            apis,
            upstreams: BTreeMap::new(),
            presets,
            broken: &[],
            policy: &shop.policy,
            root: &shop.root,
            without_secrets: shop.without_secrets,
            pools: Mutex::default(),
            urls: Mutex::default(),
            roots: OnceLock::new(),
            former,
        }
    }

    pub fn preset(&self, name: &str) -> Option<(&'a Document, &'a v1::Preset)> {
        self.presets.get(name).copied()
    }

    pub fn presets(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.presets.keys().copied()
    }

    /// Whether a document of this kind and name is there, but could not be read: its name is no unknown one.
    pub fn is_broken(&self, kind: Kind, name: &str) -> bool {
        self.broken.iter().any(|it| it.kind == Some(kind) && it.name.as_deref() == Some(name))
    }

    /// What had this name before; not necessarily the same upstream.
    pub fn former_upstream(&self, name: &str) -> Option<&'a Upstream> {
        self.former.upstreams.and_then(|it| it.get(name)).map(|it| &**it)
    }

    /// The upstream of a URL's origin; the same one for the same origin, and over reloads. `make` makes one, if that can be.
    pub fn url_upstream(&self, origin: &Origin, make: impl FnOnce() -> Option<Arc<Upstream>>) -> Option<Arc<Upstream>> {
        let mut urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(it) = urls.get(origin) {
            return Some(it.clone());
        }
        let former = self.former.urls.and_then(|it| it.get(origin)).cloned();
        let it = former.or_else(make)?;
        urls.insert(origin.clone(), it.clone());
        Some(it)
    }

    /// The upstream of a URL stays with the route that uses it.
    pub fn keep_url_upstream(&self, origin: &Origin) {
        let _ = self.url_upstream(origin, || None);
    }

    /// Whom the system trusts; read once in a compilation.
    pub fn system_roots(&self) -> Result<Arc<RootCertStore>, String> {
        let read = || {
            let found = rustls_native_certs::load_native_certs();
            let mut roots = RootCertStore::empty();
            // A bundle with one certificate that nobody can read is a good bundle.
            let (good, _) = roots.add_parsable_certificates(found.certs);
            match (good, found.errors.first()) {
                (0, Some(why)) => Err(format!("the system's authorities cannot be read: {why}")),
                (0, None) => Err("the system has no authorities that certificates could be checked against".to_owned()),
                _ => Ok(Arc::new(roots)),
            }
        };
        self.roots.get_or_init(read).clone()
    }

    /// An environment variable that definitions may read.
    pub fn variable(&self, name: &str) -> Result<String, String> {
        if self.without_secrets {
            return Ok("127.0.0.1:1".to_owned());
        }
        let it = self.policy.resolve(&Secret::Env(name.to_owned()))?;
        String::from_utf8(it.reveal().to_vec()).map_err(|_| format!("`{name}` is not UTF-8"))
    }

    /// The descriptors of a file, read once in a compilation; `text` where it is a `.proto`.
    pub fn descriptors(&self, file: &str, text: bool) -> Result<prost_reflect::DescriptorPool, String> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || self.file(file).and_then(|bytes| descriptors::read(self.root, file, &bytes, text));
        pools.entry(file.into()).or_insert_with(read).clone()
    }

    /// The content of a file that a definition names: relative to the folder of the settings, and inside of it after all links.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, String> {
        read(self.root, name)
    }

    /// Whether the settings let definitions read this variable.
    pub fn may_read(&self, name: &str) -> bool {
        self.policy.allows_env(name)
    }

    /// A secret by its name: an environment variable that definitions may read.
    pub fn secret(&self, name: &str) -> Result<String, String> {
        self.variable(name)
    }
}

/// The content of a file that lies in `root`.
pub fn read(root: &std::path::Path, name: &str) -> Result<Vec<u8>, String> {
    const MOST: u64 = 16 << 20;
    let failed = |it: std::io::Error| format!("`{name}` cannot be read: {it}");
    let path = std::path::Path::new(name);
    if path.is_absolute() || path.components().any(|it| it == std::path::Component::ParentDir) {
        return Err(format!("`{name}` must be relative to the folder of the settings and stay in it"));
    }
    let path = root.join(path).canonicalize().map_err(failed)?;
    if !path.starts_with(root.canonicalize().map_err(failed)?) {
        return Err(format!("`{name}` lies outside of the folder of the settings"));
    }
    let about = std::fs::metadata(&path).map_err(failed)?;
    if !about.is_file() || about.len() > MOST {
        return Err(format!("`{name}` must be a file of at most 16MiB"));
    }
    std::fs::read(&path).map_err(failed)
}
