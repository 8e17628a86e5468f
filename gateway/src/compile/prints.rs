//! What tells that a route or an upstream need not be built again: everything that it was made from, in one number.
use std::{collections::HashMap, os::unix::fs::MetadataExt, sync::Arc};

use schemas::{Definition, Document, v1};

use super::{api, calls, kept::Kept, rings, secrets, world::Compiler};
use crate::params::body::{Written, files};

/// Of every Preset by its name, with all Presets inside it.
pub fn presets<'a>(world: &Compiler<'a>) -> HashMap<&'a str, u128> {
    let mut all = HashMap::new();
    for name in world.presets() {
        preset(world, name, &mut all);
    }
    all
}

/// Without recursion: however deep authors put Presets into each other, it costs no stack.
fn preset<'a>(world: &Compiler<'a>, name: &'a str, all: &mut HashMap<&'a str, u128>) {
    let open = |name: &'a str, all: &mut HashMap<&'a str, u128>| {
        let (document, it) = world.preset(name)?;
        // One that contains itself is a fault, which is told elsewhere; here it only has to end.
        all.insert(name, document.digest);
        let mut parts = Parts::of(document);
        parts.elsewhere(world, document, &secrets::of(document));
        Some((name, parts, it.plugins.iter().filter_map(|it| it.r#use.as_deref())))
    };
    if all.contains_key(name) {
        return;
    }
    let mut unfinished: Vec<_> = open(name, all).into_iter().collect();
    while let Some((name, parts, inside)) = unfinished.last_mut() {
        match inside.next() {
            Some(it) => match all.get(it) {
                Some(digest) => parts.number(*digest),
                None => match open(it, all) {
                    Some(it) => unfinished.push(it),
                    None => parts.number(0),
                },
            },
            None => {
                let name = *name;
                let digest = unfinished.pop().map_or(0, |(_, parts, _)| parts.digest());
                all.insert(name, digest);
                if let Some((_, parts, _)) = unfinished.last_mut() {
                    parts.number(digest);
                }
            }
        }
    }
}

/// Of an Api, with the secrets that its document names.
pub fn api(
    world: &Compiler<'_>,
    document: &Document,
    it: &v1::Api,
    presets: &HashMap<&str, u128>,
    known: Option<&Kept>,
) -> (u128, Arc<[Box<str>]>) {
    let mut parts = Parts::of(document);
    let secrets = match known.filter(|it| it.document == document.digest) {
        Some(it) => it.secrets.clone(),
        None => secrets::of(document),
    };
    parts.elsewhere(world, document, &secrets);
    let default = it.defaults.unwrap_or(true).then_some(rings::DEFAULT);
    for name in default.into_iter().chain(it.plugins.iter().filter_map(|it| it.r#use.as_deref())) {
        parts.number(presets.get(name).copied().unwrap_or(0));
    }
    for call in it.proxy.as_deref().into_iter().flat_map(calls::every) {
        let upstream = match &call.target {
            Some(v1::call::Target::Http(it)) => it.upstream.as_str(),
            Some(v1::call::Target::Grpc(it)) => it.upstream.as_str(),
            Some(v1::call::Target::Trpc(it)) => it.upstream.as_str(),
            _ => continue,
        };
        if let Some(found) = world.upstreams.get(upstream) {
            // By identity: another object with the same definition is another upstream.
            parts.number(found.as_ref().map_or(0, |it| Arc::as_ptr(it) as usize as u128));
        }
    }
    if let Some(it) = it.info.as_ref().and_then(|it| it.lifecycle.as_ref()).and_then(|it| it.successor.as_ref())
        && let Some(other) = world.apis.get(&(it.name.as_str(), it.version.as_deref().unwrap_or(api::NO_VERSION)))
    {
        other.inbound.iter().flat_map(|it| &it.r#match).for_each(|it| parts.text(it));
    }
    (parts.digest(), secrets)
}

/// The files that the schema of an Api's bodies refers to.
pub fn schema_files(world: &Compiler<'_>, document: &Document) -> Vec<String> {
    use v1::schema_ref::Written as Where;
    let Definition::Api(it) = &document.message else { return Vec::new() };
    let schema = it.inbound.as_ref().and_then(|it| it.body.as_ref()).and_then(|it| it.schema.as_ref());
    let written = match schema.and_then(|it| it.written.as_ref()) {
        Some(Where::Inline(it)) if it.text.contains("$ref") => {
            serde_json::from_str(&it.text).ok().map(|schema| Written { schema, file: None })
        }
        Some(Where::File(file)) => Written::of_file(world.root, file).ok(),
        _ => None,
    };
    written.map(|it| files(&it, world.root)).unwrap_or_default()
}

/// Of an Upstream.
pub fn upstream(world: &Compiler<'_>, document: &Document, it: &v1::Upstream) -> u128 {
    let mut parts = Parts::of(document);
    for node in &it.nodes {
        if let Some(v1::address::Written::Env(name)) = node.address.as_ref().and_then(|it| it.written.as_ref()) {
            parts.text(&world.variable(name).unwrap_or_default());
        }
    }
    parts.digest()
}

/// What goes into a number.
struct Parts(Vec<u8>);

impl Parts {
    fn of(document: &Document) -> Self {
        let mut it = Self(Vec::with_capacity(128));
        it.number(document.digest);
        it
    }

    fn number(&mut self, it: u128) {
        self.0.extend_from_slice(&it.to_be_bytes());
    }

    fn text(&mut self, it: &str) {
        self.number(it.len() as u128);
        self.0.extend_from_slice(it.as_bytes());
    }

    /// What a document names and does not hold: secrets by their value, files by what changes when they are written.
    fn elsewhere(&mut self, world: &Compiler<'_>, document: &Document, secrets: &[Box<str>]) {
        for name in secrets {
            self.text(&world.secret(name).unwrap_or_default());
        }
        let referenced = schema_files(world, document);
        for file in document.files.iter().chain(&referenced) {
            let meta = std::fs::metadata(world.root.join(file)).ok();
            let print = meta
                .map(|it| [it.dev() as i64, it.ino() as i64, it.size() as i64, it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()]);
            print.into_iter().flatten().for_each(|it| self.number(it as u128));
        }
    }

    fn digest(self) -> u128 {
        crate::digest::of(std::iter::once(&*self.0))
    }
}
