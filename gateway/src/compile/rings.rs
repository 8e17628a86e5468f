//! `plugins` becomes a chain: presets expanded, each ring configured with what the gateway lends it.
use std::{cell::Cell, collections::HashMap, sync::Arc};

use contract::{
    catalog::RingNotes,
    env::{Env, Journal, StateKey, SystemClock},
    expression::{Expression, Names, Place, Reads, Root},
    onion::{MOST_RINGS, Ring, RingKind},
};
use schemas::{Definition, Document, Kind, nearest, v1};

use super::{
    told::Told,
    validate::Validate,
    world::{Compiler, Former, Workshop},
};
use crate::telemetry::log::{Level, Log};

/// The Preset that is put outside every Api's own plugins.
pub const DEFAULT: &str = "default";
/// The Preset that wraps answers where no Api was found.
pub const UNMATCHED: &str = "unmatched";
/// The place of validation in the list.
pub const VALIDATE: &str = "validate";
/// Plugins of the format that this build does not have.
pub const NOT_BUILT: &[&str] = &[
    "any-auth",
    "app-signature",
    "cache",
    "canary",
    "compress",
    "csrf",
    "dead-letter",
    "forward-auth",
    "idempotency",
    "mirror",
    "pace",
    "token-inject",
    "upload-guard",
    "waf",
];

/// How deep Presets may stand in each other.
const MOST_NESTED: usize = 32;
/// How many Presets one chain may expand; without this, a few that name each other several times would have no end.
const MOST_EXPANDED: usize = 1000;

/// The Presets on the way from a chain to where it is expanded.
#[derive(Default)]
struct Way<'a> {
    inside: Vec<&'a str>,
    expanded: usize,
}

/// One ring as it was written, with presets expanded.
pub struct Written<'a> {
    pub ring: &'a v1::Ring,
    /// The document that it stands in: the Api's own, or a Preset's.
    pub document: &'a Document,
    /// Where in it.
    pub pointer: String,
    /// The name of the Preset that it came from.
    pub preset: Option<&'a str>,
}

/// Expands `plugins` of an Api, the Preset `default` first.
pub fn expand<'a>(world: &Compiler<'a>, told: &Told<'_>, document: &'a Document, list: &'a [v1::Ring], defaults: bool) -> Vec<Written<'a>> {
    let mut all = Vec::new();
    if defaults && let Some(preset) = world.preset(DEFAULT) {
        add(world, told, preset, &mut Way { inside: vec![DEFAULT], expanded: 1 }, &mut all);
    }
    let mut way = Way::default();
    for (at, ring) in list.iter().enumerate() {
        one(world, told, document, ring, format!("/plugins/{at}"), None, &mut way, &mut all);
    }
    all
}

/// The rings of one Preset alone.
pub fn expand_preset<'a>(world: &Compiler<'a>, told: &Told<'_>, name: &'a str) -> Vec<Written<'a>> {
    let mut all = Vec::new();
    if let Some(preset) = world.preset(name) {
        add(world, told, preset, &mut Way { inside: vec![name], expanded: 1 }, &mut all);
    }
    all
}

/// The rings of an Api or a Preset, presets expanded, without building any: for `explain`.
pub fn expanded<'a>(shop: &'a Workshop, documents: &'a [Arc<Document>], document: &'a Document) -> Vec<Written<'a>> {
    let world = Compiler::new(shop, documents, Former::default());
    let told = Told::new(document);
    match &document.message {
        Definition::Api(it) => expand(&world, &told, document, &it.plugins, it.defaults.unwrap_or(true)),
        Definition::Preset(it) => expand_preset(&world, &told, &it.name),
        _ => Vec::new(),
    }
}

fn add<'a>(world: &Compiler<'a>, told: &Told<'_>, preset: (&'a Document, &'a v1::Preset), way: &mut Way<'a>, all: &mut Vec<Written<'a>>) {
    let (document, preset) = preset;
    for (at, ring) in preset.plugins.iter().enumerate() {
        one(world, told, document, ring, format!("/plugins/{at}"), Some(&preset.name), way, all);
    }
}

#[allow(clippy::too_many_arguments)]
fn one<'a>(
    world: &Compiler<'a>,
    told: &Told<'_>,
    document: &'a Document,
    ring: &'a v1::Ring,
    pointer: String,
    preset: Option<&'a str>,
    way: &mut Way<'a>,
    all: &mut Vec<Written<'a>>,
) {
    if all.len() > 2 * MOST_RINGS {
        // More than enough to be told that they are too many.
        return;
    }
    let Some(name) = ring.r#use.as_deref() else {
        all.push(Written { ring, document, pointer, preset });
        return;
    };
    let at = format!("{pointer}/use");
    let fault = |message: String, help: String| {
        // A Preset's own fault is told in the Preset.
        let it = document.places.fault(&at, "unknown-reference", message);
        told.push(if help.is_empty() { it } else { it.help(help) });
    };
    if way.inside.contains(&name) {
        return fault(format!("the Preset '{name}' contains itself: {} → {name}", way.inside.join(" → ")), String::new());
    }
    if way.inside.len() >= MOST_NESTED || way.expanded == MOST_EXPANDED {
        way.expanded += 1;
        let message = format!("more than {MOST_NESTED} Presets within each other, or {MOST_EXPANDED} in one chain");
        return told.push(document.places.fault(&at, "too-many", message).help("put the plugins into fewer Presets"));
    }
    if way.expanded > MOST_EXPANDED {
        return;
    }
    told.used_preset(name);
    let Some(found) = world.preset(name) else {
        if world.is_broken(Kind::Preset, name) {
            return told.push(document.places.fault(&at, "broken-reference", format!("the Preset '{name}' has faults of its own")));
        }
        let near = nearest(name, world.presets())
            .map_or("write one: `kind: Preset`, with `plugins`".to_owned(), |it| format!("did you mean '{it}'?"));
        return fault(format!("there is no Preset named '{name}'"), near);
    };
    if ring.when.is_some() {
        return told.push(
            document
                .places
                .key_fault(&format!("{pointer}/when"), "no-meaning", "a Preset takes no `when`")
                .help("put `when` on the plugins inside it"),
        );
    }
    way.expanded += 1;
    way.inside.push(name);
    add(world, told, found, way, all);
    way.inside.pop();
}

/// What is known of a ring that was built, for `explain` and for the checks of order.
pub struct Built {
    pub ring: Ring,
    pub notes: RingNotes,
    pub reads: Reads,
}

/// Builds the rings of one route, outermost first. Faults are told where the ring was written.
pub fn build<'a>(
    world: &Compiler<'a>,
    told: &Told<'_>,
    owner: &str,
    written: &[Written<'a>],
    names: &Names<'_>,
    validate: &mut Option<Validate>,
) -> (Vec<Ring>, bool) {
    let mut rings: Vec<Built> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut outside: HashMap<&str, Vec<Box<str>>> = HashMap::new();
    for it in written {
        let name = it.ring.name.as_str();
        if name == VALIDATE {
            match validate.take() {
                Some(it) => rings.push(Built { ring: it.into_ring(), notes: RingNotes::default(), reads: Reads::default() }),
                None if numbers.contains_key(VALIDATE) => told.push(it.document.places.fault(
                    &it.pointer,
                    "repeated",
                    "validation has one place, and it stands further out already",
                )),
                // Nothing is declared, so there is nothing to validate.
                None => (),
            }
            numbers.insert(VALIDATE, 1);
            continue;
        }
        let number = numbers.entry(name).or_default();
        *number += 1;
        let authenticated = rings.iter().any(|it| it.notes.authenticates);
        let names = Names { place: Place::Plugin, authenticated, secrets: true, ..*names };
        let outside = outside.entry(name).or_default();
        rings.extend(configure(world, told, owner, it, *number, outside, &names));
    }
    // A ring outside of validation that looks at parameters has them read at once.
    let early = rings.iter().take_while(|it| &*it.ring.name != VALIDATE).any(|it| it.reads.reads(Root::Params));
    if let Some(it) = validate.take() {
        rings.push(Built { ring: it.into_ring(), notes: RingNotes::default(), reads: Reads::default() });
    }
    if rings.len() > MOST_RINGS {
        let count = if rings.len() > 2 * MOST_RINGS { format!("more than {}", 2 * MOST_RINGS) } else { rings.len().to_string() };
        told.error("/plugins", "too-many", format!("{count} rings; one Api has at most {MOST_RINGS}"));
        rings.truncate(MOST_RINGS);
    }
    (rings.into_iter().map(|it| it.ring).collect(), early)
}

/// `outside` are the names of the rings of the same plugin further out; this one's is added.
fn configure(
    world: &Compiler<'_>,
    told: &Told<'_>,
    owner: &str,
    it: &Written<'_>,
    number: usize,
    outside: &mut Vec<Box<str>>,
    names: &Names<'_>,
) -> Option<Built> {
    let name = it.ring.name.as_str();
    // A ring that stands in a Preset is told there.
    let place = Told::new(it.document);
    let entry = world.plugins.iter().find(|it| it.name == name)?;
    let config: serde_json::Value =
        it.ring.config.as_ref().and_then(|it| serde_json::from_str(&it.text).ok()).unwrap_or_else(|| serde_json::json!({}));
    let pointer = format!("{}/{name}", it.pointer);
    let digest = crate::digest::of([it.ring.config.as_ref().map_or("", |it| &it.text).as_bytes()].into_iter());
    let own: Box<str> = config.get("name").and_then(|it| it.as_str()).map_or_else(|| number.to_string(), str::to_owned).into();
    // What Apis count together belongs to the Preset that they all use.
    let together = it.preset.filter(|_| config.get("across").is_some());
    let owner: Box<str> = together.map_or_else(|| owner.into(), |it| format!("Preset/{it}").into());
    let journal = journal(world.log.clone(), &owner);
    let env = Env {
        scope: StateKey { owner, plugin: name.into(), name: own.clone(), config: digest },
        authenticated: names.authenticated,
        outside,
        apps: world.apps.clone(),
        meter: &world.metrics.registry,
        clock: Arc::new(SystemClock),
        spawn: world.spawn.clone(),
        states: world.states,
        journal,
        caller: None,
        store: None,
        caches: None,
        scripts: None,
        rings: None,
        files: &|it| world.file(it),
        knows_upstream: &|it| world.upstreams.contains_key(it),
        names: *names,
        reads: Cell::default(),
        warnings: Default::default(),
    };
    let kind = (entry.build)(config, &env);
    let read = env.reads.get();
    for warning in env.warnings.borrow().iter() {
        place.plugin(&pointer, warning, true);
    }
    drop(env);
    outside.push(own);
    let mut reads = read;
    let when = it.ring.when.as_deref().and_then(|text| place.condition(&format!("{}/when", it.pointer), text, names));
    if let Some(it) = &when {
        reads = reads.and(it.reads());
    }
    if let Err(faults) = &kind {
        faults.iter().for_each(|it| place.plugin(&pointer, it, false));
    }
    let failed = place.has_errors();
    place.into_faults().into_iter().for_each(|it| told.push(it));
    let kind = kind.ok().filter(|_| !failed)?;
    Some(Built { ring: ring(name, kind, when, reads.body()), notes: entry.notes, reads })
}

/// What a ring writes names its owner and the request.
fn journal(log: Log, owner: &str) -> Journal {
    let owner: Box<str> = owner.into();
    Arc::new(move |level, request, text| {
        let level = match level {
            "error" => Level::Error,
            "warn" => Level::Warn,
            "debug" => Level::Debug,
            _ => Level::Info,
        };
        if log.is_on(level) {
            log.event(level, "script", format_args!("{text}"), &[("api", &owner), ("id", &request)]);
        }
    })
}

fn ring(name: &str, kind: RingKind, when: Option<Expression>, reads_body: bool) -> Ring {
    // An error of evaluation does not pass: the ring is left out only on what is surely not true.
    let when = when.map(|it| -> contract::onion::Condition { Box::new(move |ex| it.passes(&ex.scope()).unwrap_or(false)) });
    Ring { name: name.into(), when, reads_body, kind }
}
