//! Definitions become a route table; what did not change is kept.
pub mod api;
mod app_book;
mod apps;
mod breaker;
mod calls;
mod conflict;
mod deeper;
pub mod descriptors;
pub mod egress;
mod grpc;
mod judge;
mod kept;
mod origin;
mod pipelines;
mod prints;
pub mod published;
mod retry;
pub mod rings;
mod secrets;
mod states;
mod targets;
mod tls;
mod told;
mod trpc;
mod upstreams;
mod validate;
pub mod world;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, PoisonError},
};

use contract::{caller::Directory, catalog::Entry};
use schemas::{Broken, Definition, Document, Fault, Id, Input, Kind};

pub use self::{app_book::AppBook, egress::Egress, kept::Kept, states::StateKeeper, world::Workshop};
use self::{
    conflict::conflict,
    origin::Origin,
    told::Told,
    world::{Compiler, Former},
};
use crate::{
    route::{
        api::{At, Route, Served},
        build,
        table::Table,
    },
    upstream::Upstream,
};

/// Definitions that fit together, ready to serve. Never changed, only replaced.
pub struct Snapshot {
    pub revision: Box<str>,
    pub documents: Vec<Arc<Document>>,
    pub served: Arc<Served>,
    pub routes: HashMap<Id, Kept>,
    /// Who may call.
    pub apps: Arc<Directory>,
    upstreams: BTreeMap<Box<str>, Arc<Upstream>>,
    urls: HashMap<Origin, Arc<Upstream>>,
}

/// How a compilation ended.
pub struct Outcome {
    /// All documents that have no fault, if they fit together.
    pub snapshot: Option<Snapshot>,
    pub faults: Vec<Fault>,
    /// The documents that have faults.
    pub broken: HashSet<Id>,
}

/// The JSON Schemas of the plugins, for the check of their configs.
pub fn plugin_schemas(plugins: &[Entry]) -> schemas::Plugins {
    schemas::Plugins::new(plugins.iter().map(|it| (it.name, serde_json::Value::from((it.schema)()))))
        .known(rings::NOT_BUILT.iter().copied())
}

/// Reads files into documents; every fault of every file at once.
pub fn load(inputs: Vec<Input>, plugins: &schemas::Plugins, root: &std::path::Path) -> schemas::Loaded {
    schemas::load(inputs, &schemas::Options { judge: Some(&judge::judge), plugins: Some(plugins), root: Some(root), threads: 0 })
}

/// Compiles documents into a snapshot. `former` lends what did not change; `broken` are documents that could not even be read.
pub fn compile(shop: &Workshop, revision: &str, documents: Vec<Arc<Document>>, broken: &[Broken], former: Option<&Snapshot>) -> Outcome {
    let mut faults = Vec::new();
    let mut bad: HashSet<Id> = HashSet::new();
    let documents = unique(documents, &mut faults, &mut bad);
    let mut world = Compiler::new(shop, &documents, Former { upstreams: former.map(|it| &it.upstreams), urls: former.map(|it| &it.urls) });
    world.broken = broken;
    for it in broken {
        // A name that is there but unreadable is not an unknown name.
        if let (Some(Kind::Upstream), Some(name)) = (it.kind, &it.name) {
            world.upstreams.entry(name.as_str().into()).or_insert(None);
        }
    }
    world.compile_upstreams(&documents, former, &mut faults, &mut bad);

    let presets = prints::presets(&world);
    let mut used: HashSet<Box<str>> = HashSet::new();
    let mut routes: HashMap<Id, Kept> = HashMap::with_capacity(documents.len());
    let mut jobs = Vec::new();
    for document in &documents {
        let Definition::Api(it) = &document.message else { continue };
        let known = former.and_then(|it| it.routes.get(&document.id));
        let (digest, secrets) = prints::api(&world, document, it, &presets, known);
        let Some(kept) = known.filter(|it| it.compiled.route.digest == digest) else {
            jobs.push((document, &**it, digest, secrets));
            continue;
        };
        faults.extend(kept.faults.iter().cloned());
        for it in kept.used.iter() {
            // Upstreams of URLs are kept by whoever uses them.
            if let Some(origin) = it.strip_prefix("url:").and_then(|it| it.parse().ok()) {
                world.keep_url_upstream(&origin);
            }
            if !used.contains(it) {
                used.insert(it.clone());
            }
        }
        routes.insert(document.id.clone(), kept.clone());
    }
    // What is served meanwhile keeps half of the cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if former.is_some() { cores.div_ceil(2) } else { cores };
    let made = schemas::parallel(threads, jobs, |(document, it, digest, secrets)| {
        let told = Told::new(document);
        let compiled = api::api(&world, &told, document, it, digest);
        (document, secrets, compiled, told.into_all())
    });
    for (document, secrets, compiled, (own, names)) in made {
        match compiled {
            Some(it) if !own.iter().any(Fault::is_error) => {
                let (compiled, faults) = (Arc::new(it), own.iter().cloned().collect());
                let kept = Kept { compiled, faults, used: names.iter().cloned().collect(), document: document.digest, secrets };
                routes.insert(document.id.clone(), kept);
            }
            _ => drop(bad.insert(document.id.clone())),
        }
        used.extend(names);
        faults.extend(own);
    }
    let table = table(&documents, &routes, &mut faults, &mut bad);
    let unmatched = world.unmatched(&documents, &mut used, &mut faults, &mut bad);
    let apps = Arc::new(apps::directory(&world, &documents, &mut faults, &mut bad));
    faults.extend(deeper::faults(shop, &documents, broken));
    faults.extend(deeper::conflicts(&documents, &routes, broken));
    // What has faults does not say all that it uses.
    if broken.is_empty() && !faults.iter().any(Fault::is_error) {
        unused(&documents, &used, &mut faults);
    }
    sort(&mut faults);

    let Compiler { upstreams, urls, .. } = world;
    let snapshot = table.filter(|_| bad.is_empty()).map(|table| Snapshot {
        revision: revision.into(),
        served: Arc::new(Served { table, unmatched }),
        routes,
        upstreams: upstreams.into_iter().filter_map(|(name, it)| Some((name, it?))).collect(),
        urls: urls.into_inner().unwrap_or_else(PoisonError::into_inner),
        apps,
        documents,
    });
    if snapshot.is_some() {
        shop.states.settle();
    }
    Outcome { snapshot, faults, broken: bad }
}

/// By file and place, each only once: a fault of a Preset is found by every Api that uses it.
pub fn sort(faults: &mut Vec<Fault>) {
    faults.sort_by(|a, b| (&a.file, a.line, a.column, &a.message).cmp(&(&b.file, b.line, b.column, &b.message)));
    faults
        .dedup_by(|a, b| a.file == b.file && a.line == b.line && a.column == b.column && a.message == b.message && a.pointer == b.pointer);
}

/// Names are unique among documents of a kind.
fn unique(documents: Vec<Arc<Document>>, faults: &mut Vec<Fault>, bad: &mut HashSet<Id>) -> Vec<Arc<Document>> {
    let mut seen: HashMap<Id, Arc<Document>> = HashMap::with_capacity(documents.len());
    let mut kept = Vec::with_capacity(documents.len());
    for it in documents {
        match seen.get(&it.id) {
            None => {
                seen.insert(it.id.clone(), it.clone());
                kept.push(it);
            }
            Some(first) => {
                let pointer = it.id.kind.name_pointer();
                let place = first.places.fault(pointer, "", "");
                let message = format!("{} is defined twice", it.id);
                faults.push(it.places.fault(pointer, "repeated-name", message).help(format!(
                    "the first one stands in {}:{}; give this one another name or version, or take it away",
                    place.file, place.line
                )));
                bad.insert(it.id.clone());
            }
        }
    }
    kept
}

fn table(documents: &[Arc<Document>], routes: &HashMap<Id, Kept>, faults: &mut Vec<Fault>, bad: &mut HashSet<Id>) -> Option<Table<At>> {
    let mut entries = Vec::new();
    let mut owners = Vec::new();
    for document in documents {
        let Some(kept) = routes.get(&document.id) else { continue };
        let it = &kept.compiled;
        for (pattern, written) in it.patterns.iter().enumerate() {
            let any_method = written.methods().is_empty();
            let value = At { route: it.route.clone(), pattern, any_method };
            entries.push(build::Entry { pattern: written.clone(), has_when: it.route.when.is_some(), order: it.order, value });
            owners.push((document, pattern));
        }
    }
    match Table::build(entries) {
        Ok(it) => Some(it),
        Err(conflicts) => {
            for it in conflicts {
                let (first, second) = (owners[it.first], owners[it.second]);
                faults.push(conflict(first, second, it.reason));
                let (first, second) = (first.0, second.0);
                // Neither is the better one: the order of files never matters.
                bad.insert(first.id.clone());
                bad.insert(second.id.clone());
            }
            None
        }
    }
}

/// Warns of what nobody uses: most often a name that is spelt otherwise elsewhere.
fn unused(documents: &[Arc<Document>], used: &HashSet<Box<str>>, faults: &mut Vec<Fault>) {
    for document in documents {
        let name = document.message.name();
        let idle = match document.id.kind {
            Kind::Upstream => !used.contains(name),
            Kind::Preset => name != rings::DEFAULT && name != rings::UNMATCHED && !used.contains(format!("preset:{name}").as_str()),
            _ => false,
        };
        if idle {
            let message = format!("nothing uses the {} '{name}'", document.id.kind);
            faults.push(document.places.fault(document.id.kind.name_pointer(), "unused", message).warning());
        }
    }
}

impl<'a> Compiler<'a> {
    fn compile_upstreams(
        &mut self,
        documents: &[Arc<Document>],
        former: Option<&Snapshot>,
        faults: &mut Vec<Fault>,
        bad: &mut HashSet<Id>,
    ) {
        for document in documents {
            let Definition::Upstream(it) = &document.message else { continue };
            let digest = prints::upstream(self, document, it);
            let known = former.and_then(|former| former.upstreams.get(it.name.as_str())).filter(|it| it.digest == digest);
            let made = match known {
                Some(it) => Some(it.clone()),
                None => {
                    let told = Told::new(document);
                    let made = upstreams::upstream(self, &told, it, digest);
                    let own = told.into_faults();
                    if made.is_none() || own.iter().any(Fault::is_error) {
                        bad.insert(document.id.clone());
                    }
                    faults.extend(own);
                    made
                }
            };
            self.upstreams.insert(it.name.as_str().into(), made);
        }
    }

    fn unmatched(
        &self,
        documents: &[Arc<Document>],
        used: &mut HashSet<Box<str>>,
        faults: &mut Vec<Fault>,
        bad: &mut HashSet<Id>,
    ) -> Arc<Route> {
        // Without such a Preset there is no document to tell faults of, and none to tell.
        let document = self.presets.get(rings::UNMATCHED).map(|(it, _)| *it).or_else(|| documents.first().map(|it| &**it));
        let Some(document) = document else { return api::nothing(self) };
        let told = Told::new(document);
        let it = api::unmatched(self, &told);
        let (own, names) = told.into_all();
        used.extend(names);
        if own.iter().any(Fault::is_error) {
            bad.insert(document.id.clone());
        }
        faults.extend(own);
        it
    }
}

impl Snapshot {
    /// Every upstream that it can call, by name.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values().chain(self.urls.values())
    }

    /// Where a request of a route begins.
    pub fn route(&self, id: &Id) -> Option<&Arc<Route>> {
        self.routes.get(id).map(|it| &it.compiled.route)
    }
}
