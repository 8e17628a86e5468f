//! Faults that lie deeper than the first ones of a document that could not be read whole: so that all are told at once.
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use schemas::{Broken, Definition, Document, Fault, Id, Kind, Partial};

use super::{
    api, apps,
    conflict::conflict,
    kept::Kept,
    rings,
    told::Told,
    world::{Compiler, Former, Workshop},
};
use crate::route::{build, pattern::Pattern};

/// Faults of what a key says beside other keys; they are certain only where those could be read.
const BESIDE: &[&str] =
    &["missing-key", "no-meaning", "no-node", "no-condition", "two-bodies", "bad-upgrade", "partial-writes", "too-many"];

/// Compiles what could be read of broken documents among the good ones, for the faults alone. What may only follow from a fault that is
/// told already is left out. Starts nothing, and keeps nothing.
pub fn faults(shop: &Workshop, documents: &[Arc<Document>], broken: &[Broken]) -> Vec<Fault> {
    let partials: Vec<&Arc<Partial>> = broken.iter().filter_map(|it| it.partial.as_ref()).collect();
    if partials.is_empty() {
        return Vec::new();
    }
    let shop = shop.aside();
    // A last good version may stand in for the broken one.
    let replaced: HashSet<&Id> = partials.iter().map(|it| &it.document.id).collect();
    let all: Vec<Arc<Document>> = partials
        .iter()
        .map(|it| Arc::new(it.document.clone()))
        .chain(documents.iter().filter(|it| !replaced.contains(&it.id)).cloned())
        .collect();
    let read = &all[..partials.len()];
    let unread: Vec<Broken> = broken.iter().filter(|it| it.partial.is_none()).cloned().collect();
    let mut world = Compiler::new(&shop, &all, Former::default());
    world.broken = &unread;
    let (mut faults, mut bad) = (Vec::new(), HashSet::new());
    world.compile_upstreams(&all, None, &mut faults, &mut bad);
    drop(apps::directory(&world, &all, &mut faults, &mut bad));
    let witnesses = read.iter().filter_map(|it| witness(it, &all[partials.len()..]));
    for document in read.iter().chain(witnesses) {
        if let Definition::Api(it) = &document.message {
            let told = Told::new(document);
            drop(api::api(&world, &told, document, it, 0));
            faults.extend(told.into_faults());
        }
    }
    let mut in_file: HashMap<&str, Vec<&Partial>> = HashMap::new();
    for it in partials {
        in_file.entry(&it.document.file).or_default().push(it);
    }
    faults.retain(|it| {
        // A binary file's faults name a place behind the file's name.
        let here = in_file.get(it.file.split('#').next().unwrap_or_default());
        let own = here.and_then(|all| all.iter().find(|partial| partial.document.places.holds(it)));
        it.is_error() && own.is_some_and(|own| !follows(it, &own.faults))
    });
    faults
}

/// Conflicts of routes that were not made, because their Apis have faults elsewhere.
pub fn conflicts(documents: &[Arc<Document>], routes: &HashMap<Id, Kept>, broken: &[Broken]) -> Vec<Fault> {
    let partials: Vec<&Arc<Partial>> = broken.iter().filter_map(|it| it.partial.as_ref()).collect();
    if partials.is_empty() && documents.iter().all(|it| it.id.kind != Kind::Api || routes.contains_key(&it.id)) {
        return Vec::new();
    }
    let replaced: HashSet<&Id> = partials.iter().map(|it| &it.document.id).collect();
    let certain = |it: &Partial| it.faults.iter().all(|it| !within(&it.pointer, "/inbound") || within(&it.pointer, "/inbound/params"));
    let read: Vec<Arc<Document>> = partials.iter().filter(|it| certain(it)).map(|it| Arc::new(it.document.clone())).collect();
    let (mut entries, mut owners) = (Vec::new(), Vec::new());
    // What could not be read whole comes last, so that a conflict is told there.
    for document in documents.iter().filter(|it| !replaced.contains(&it.id)).chain(&read) {
        let Definition::Api(it) = &document.message else { continue };
        let Some(inbound) = &it.inbound else { continue };
        for (at, text) in inbound.r#match.iter().enumerate() {
            let Ok(pattern) = Pattern::parse(text) else { continue };
            let order = inbound.order.unwrap_or(0) as f64;
            entries.push(build::Entry { pattern, has_when: inbound.when.is_some(), order, value: () });
            owners.push((document, at));
        }
    }
    let made = |(document, _): (&Arc<Document>, usize)| !replaced.contains(&document.id) && routes.contains_key(&document.id);
    let found = build::conflicts_of(&entries).into_iter();
    found
        .map(|it| (owners[it.first], owners[it.second], it.reason))
        .filter(|(first, second, _)| !made(*first) || !made(*second))
        .map(|(first, second, reason)| conflict(first, second, reason))
        .collect()
}

/// An Api that is good itself and has the rings of a broken Preset.
fn witness<'a>(document: &Document, all: &'a [Arc<Document>]) -> Option<&'a Arc<Document>> {
    let Definition::Preset(preset) = &document.message else { return None };
    let name = preset.name.as_str();
    all.iter().find(|it| match &it.message {
        Definition::Api(it) => {
            (name == rings::DEFAULT && it.defaults.unwrap_or(true)) || it.plugins.iter().any(|it| it.r#use.as_deref() == Some(name))
        }
        _ => false,
    })
}

/// Whether a fault may be there only because of one that is told already.
fn follows(it: &Fault, first: &[Fault]) -> bool {
    if matches!(it.code.as_ref(), "broken-reference" | "unused") {
        return true;
    }
    let parent = |pointer: &str| pointer.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    first.iter().filter(|it| it.is_error()).any(|known| {
        let expressions = it.code == "bad-expression" && known.code == "bad-expression";
        if it.pointer == known.pointer {
            // Each wrong name of one text is told.
            return !expressions || (it.line, it.column) == (known.line, known.column);
        }
        let missing = known.code.starts_with("missing-");
        if within(&known.pointer, &it.pointer) || (!missing && within(&it.pointer, &known.pointer)) {
            return true;
        }
        if BESIDE.contains(&it.code.as_ref()) && within(&known.pointer, &parent(&it.pointer)) {
            return true;
        }
        it.code == "bad-expression" && declares(known, &it.pointer)
    })
}

/// Whether names that an expression at `place` may use are declared where this fault lies.
fn declares(fault: &Fault, place: &str) -> bool {
    let at = &fault.pointer;
    let direct = |under: &str| at.strip_prefix(under).is_some_and(|it| it.matches('/').count() <= 1);
    within(at, "/inbound/params")
        || within(at, "/inbound/match")
        || ((fault.code == "unknown-key" || fault.code.starts_with("missing-")) && (direct("/inbound") || direct("")))
        || (within(at, "/plugins") && fault.code != "bad-expression")
        || (within(at, "/proxy/pipeline") && (within(place, "/proxy/pipeline") || within(place, "/outbound")))
}

/// Whether a pointer leads to a place or into it.
fn within(pointer: &str, place: &str) -> bool {
    pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
