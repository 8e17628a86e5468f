//! Files into documents: all files, all documents, all faults at once, on several threads.

use std::{
    collections::{HashMap, HashSet},
    path::{Component, Path as FilePath, PathBuf},
    sync::Arc,
};

use prost::Message;

use crate::{
    check::{Checker, Judge},
    document::{Broken, Definition, Document, Id, Kind, Origin, Partial, Places},
    fault::Fault,
    near,
    parallel::parallel,
    plugin::Plugins,
    shape::SHAPES,
    source::{Source, Span},
    tree::{Node, Path, Value},
    v1, yaml,
};

/// How large a file may be.
pub const MAX_FILE: usize = 16 << 20;

/// A file to load. The ending of its name says how it is written.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name that faults are told under; a path, relative to where the command runs or absolute.
    pub name: Arc<str>,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Input {
    /// A file's content under a name.
    pub fn new(name: impl Into<Arc<str>>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }
}

/// What loading may ask.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Asked about every expression, condition, template and pattern.
    pub judge: Option<&'a Judge<'a>>,
    /// The plugins with the schemas of their configs; configs stay unchecked without.
    pub plugins: Option<&'a Plugins>,
    /// The folder of `allium.yaml`: files that definitions name are relative to it. The working directory when left out.
    pub root: Option<&'a FilePath>,
    /// How many threads; as many as there are cores when 0.
    pub threads: usize,
}

/// What was loaded.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The documents without a fault, by file and place.
    pub documents: Vec<Document>,
    /// The documents that cannot be used.
    pub broken: Vec<Broken>,
    /// Every fault of every file, by file and place.
    pub faults: Vec<Fault>,
}

impl Loaded {
    /// Whether anything cannot be used.
    pub fn has_errors(&self) -> bool {
        self.faults.iter().any(Fault::is_error)
    }
}

/// Loads definitions. Never stops at a fault; the result does not depend on the number of threads.
pub fn load(inputs: Vec<Input>, options: &Options<'_>) -> Loaded {
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let opened = parallel(threads, inputs, open);
    let mut jobs = Vec::new();
    for (file, opened) in opened.iter().enumerate() {
        if let Ok(opened) = opened {
            jobs.extend(opened.parts.iter().enumerate().map(|(index, part)| (file, index, opened, part)));
        }
    }
    let results = parallel(threads, jobs, |(file, index, opened, part)| (file, read(opened, index, part, options)));

    let mut per_file: Vec<Vec<Outcome>> = opened.iter().map(|_| Vec::new()).collect();
    for (file, outcome) in results {
        per_file[file].push(outcome);
    }
    // Wherever the command runs and however paths were given, the same file has the same name here.
    let here = std::env::current_dir().unwrap_or_default();
    let root = here.join(options.root.unwrap_or(FilePath::new("")));
    let named: HashSet<PathBuf> =
        per_file.iter().flatten().flat_map(|outcome| &outcome.files).map(|file| normal(&root.join(file))).collect();
    let mut loaded = Loaded::default();
    for (opened, outcomes) in opened.into_iter().zip(per_file) {
        let name = match &opened {
            Ok(opened) => opened.name.clone(),
            Err(fault) => fault.file.clone(),
        };
        // A file that a definition names is never read as a definition, wherever it lies.
        if !named.is_empty() && named.contains(&normal(&here.join(name.as_ref()))) {
            continue;
        }
        if let Err(fault) = opened {
            loaded.faults.push(*fault);
            continue;
        }
        let mut faults: Vec<Fault> = Vec::new();
        if outcomes.iter().all(|it| it.document.is_none() && it.broken.is_none() && it.faults.is_empty()) {
            let help = "take it away, or write a definition into it: `kind: Api`, `info`, `inbound`, `proxy`";
            faults.push(Fault::of_file(name.clone(), "empty", "the file holds no definition").help(help).warning());
        }
        for outcome in outcomes {
            faults.extend(outcome.faults);
            loaded.documents.extend(outcome.document);
            loaded.broken.extend(outcome.broken);
        }
        faults.sort_by_key(|fault| (fault.line, fault.column));
        crate::hide::in_excerpts(&mut faults);
        loaded.faults.append(&mut faults);
    }
    twice(&mut loaded);
    loaded
}

/// The same definition in two places: the later one is broken.
fn twice(loaded: &mut Loaded) {
    let mut first: HashMap<Id, (Arc<str>, Option<u32>)> = HashMap::with_capacity(loaded.documents.len());
    let mut kept = Vec::with_capacity(loaded.documents.len());
    for document in loaded.documents.drain(..) {
        match first.entry(document.id.clone()) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert((document.file.clone(), None));
                kept.push(document);
            }
            std::collections::hash_map::Entry::Occupied(mut place) => {
                let (file, line) = place.get_mut();
                let line = line.get_or_insert_with(|| {
                    let earlier = kept.iter().find(|earlier: &&Document| earlier.id == document.id);
                    earlier.map_or(0, |earlier| earlier.places.fault(document.id.kind.name_pointer(), "", "").line)
                });
                let at = if *line == 0 { file.to_string() } else { format!("{file}:{line}") };
                let message = format!("{} stands already in {at}", document.id);
                let help = match document.id.kind {
                    Kind::Api => "give this one another name or `version`, or take one of them away",
                    _ => "give this one another name, or take one of them away",
                };
                loaded.faults.push(document.places.fault(document.id.kind.name_pointer(), "repeated-definition", message).help(help));
                let Id { kind, name, version } = document.id;
                loaded.broken.push(Broken {
                    file: document.file,
                    index: document.index,
                    kind: Some(kind),
                    name: Some(name),
                    version,
                    partial: None,
                });
            }
        }
    }
    loaded.documents = kept;
}

/// A path without `.` and `..`, as far as its text tells.
fn normal(path: &FilePath) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

struct Opened {
    name: Arc<str>,
    source: Option<Arc<Source>>,
    json: bool,
    parts: Vec<Part>,
}

enum Part {
    Text(Span),
    Binary(Box<v1::Definition>),
}

#[derive(Default)]
struct Outcome {
    document: Option<Document>,
    broken: Option<Broken>,
    faults: Vec<Fault>,
    files: Vec<String>,
}

/// Finds the documents of a file.
fn open(input: Input) -> Result<Opened, Box<Fault>> {
    let Input { name, bytes } = input;
    if bytes.len() > MAX_FILE {
        return Err(Box::new(Fault::of_file(name, "too-large", "the file is larger than 16 MiB")));
    }
    if bytes.is_empty() {
        // Most often somebody is about to write it: what it held must not be gone meanwhile.
        let help = "write a definition into it, or take the file away";
        return Err(Box::new(Fault::of_file(name, "empty", "the file is empty").help(help)));
    }
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    if ending == "binpb" {
        let set = v1::Definitions::decode(bytes.as_slice()).map_err(|error| {
            Box::new(Fault::of_file(name.clone(), "syntax", format!("not a serialized allium.v1.Definitions: {error}")))
        })?;
        let parts = set.documents.into_iter().map(|definition| Part::Binary(Box::new(definition))).collect();
        return Ok(Opened { name, source: None, json: false, parts });
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let source = Source::new(name, String::from_utf8_lossy(error.as_bytes()).into_owned());
            let fault = Fault::at(&source, Span::new(valid, valid + 1), "bad-utf8", "the file is not UTF-8 from here on");
            return Err(Box::new(fault.help("save it as UTF-8")));
        }
    };
    let json = ending == "json";
    let parts = if json { json_parts(&text) } else { yaml::documents(&text) };
    Ok(Opened { source: Some(Arc::new(Source::new(name.clone(), text))), name, json, parts: parts.into_iter().map(Part::Text).collect() })
}

/// A JSON file is one document, or a list of them.
fn json_parts(text: &str) -> Vec<Span> {
    let whole = Span::new(0, text.len());
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('[')
        && let Some(Node { value: Value::List(items), .. }) = crate::json::read(text, whole).root
    {
        return items.iter().map(|item| item.span).collect();
    }
    vec![whole]
}

fn read(opened: &Opened, index: usize, part: &Part, options: &Options<'_>) -> Outcome {
    match (part, &opened.source) {
        (Part::Text(span), Some(source)) => {
            let read = if opened.json { crate::json::read(source.text(), *span) } else { yaml::read(source.text(), *span) };
            let mut faults: Vec<Fault> = read
                .faults
                .into_iter()
                .map(|fault| {
                    let first =
                        fault.first.map(|first| format!("the first one stands in line {}", source.position(first.start as usize).line));
                    Fault { help: fault.help.or(first), ..Fault::at(source, fault.span, fault.code, fault.message) }
                })
                .collect();
            let Some(root) = read.root else {
                let broken = (!faults.is_empty()).then(|| Broken {
                    file: opened.name.clone(),
                    index,
                    kind: None,
                    name: None,
                    version: None,
                    partial: None,
                });
                return Outcome { broken, faults, ..Outcome::default() };
            };
            if root.value == Value::Null && faults.is_empty() {
                return Outcome::default();
            }
            let origin = Origin::Text { source: source.clone(), span: *span, json: opened.json };
            let mut checker = Checker::new(source.text(), options.judge, options.plugins);
            let (kind, message) = document(&root, &mut checker);
            faults.extend(checker.findings.into_iter().map(|finding| Fault::found(source, finding)));
            finish(opened, index, kind, message, &root, faults, checker.files, origin)
        }
        (Part::Binary(definition), _) => binary(opened, index, definition, options),
        (Part::Text(_), None) => Outcome::default(),
    }
}

fn binary(opened: &Opened, index: usize, definition: &v1::Definition, options: &Options<'_>) -> Outcome {
    let bytes = definition.encode_to_vec();
    let Some((kind, root)) = crate::write::definition(&bytes) else {
        let fault = Fault::of_file(format!("{}#{index}", opened.name), "missing-kind", "the document is of no kind that is known here");
        let broken = Broken { file: opened.name.clone(), index, kind: None, name: None, version: None, partial: None };
        return Outcome { broken: Some(broken), faults: vec![fault], ..Outcome::default() };
    };
    let name = root.find(kind.name_pointer()).node.text().map_or_else(|| index.to_string(), str::to_owned);
    let prefix: Arc<str> = format!("{}#{kind}/{name}", opened.name).into();
    let mut checker = Checker::new("", options.judge, options.plugins);
    let (kind, message) = document(&root, &mut checker);
    let faults = checker.findings.into_iter().map(|finding| Fault::found_in_binary(&prefix, finding)).collect();
    finish(opened, index, kind, message, &root, faults, checker.files, Origin::Binary(prefix))
}

/// Checks one document: its kind, and the bytes of its message where that much is known.
fn document(root: &Node<'_>, checker: &mut Checker<'_>) -> (Option<Kind>, Vec<u8>) {
    let mut out = Vec::with_capacity(512);
    let path = Path::ROOT;
    let first = Span::new(root.span.start as usize, root.span.start as usize + 1);
    let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let Value::Map(entries) = &root.value else {
        let help = format!("write `kind:` and one of {}", near::list(&kinds));
        checker.fault(first, &path, "wrong-type", format!("a definition is a map, not {}", root.kind()), Some(help));
        return (None, out);
    };
    let Some(entry) = root.entry("kind") else {
        let at = entries.first().map_or(first, |entry| entry.span);
        let near = entries.iter().map(|entry| entry.key.as_ref()).find(|key| near::nearest(key, ["kind"]).is_some());
        let help = match near {
            Some(key) => format!("did you mean `kind` by `{key}`?"),
            None => format!("write `kind:` and one of {}", near::list(&kinds)),
        };
        checker.fault(at, &path, "missing-kind", "this document has no `kind`", Some(help));
        return (None, out);
    };
    let kind_path = path.key("kind");
    let Some(word) = entry.node.text() else {
        let message = format!("expected one of {}, found {}", near::list(&kinds), entry.node.kind());
        checker.fault(crate::check::place(&entry.node, entry.span), &kind_path, "unknown-kind", message, None);
        return (None, out);
    };
    let Some(kind) = Kind::named(word) else {
        let help = match near::nearest(word, kinds.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the kinds are {}", near::list(&kinds)),
        };
        checker.fault(entry.node.span, &kind_path, "unknown-kind", format!("there is no kind `{word}`"), Some(help));
        return (None, out);
    };
    let shape = SHAPES.get(SHAPES.named(kind.name()));
    checker.keys(entries, entry.span, shape, &path, Some("kind"), &mut out);
    (Some(kind), out)
}

#[expect(clippy::too_many_arguments, reason = "the one place where all that is known of a document comes together")]
fn finish(
    opened: &Opened,
    index: usize,
    kind: Option<Kind>,
    message: Vec<u8>,
    root: &Node<'_>,
    mut faults: Vec<Fault>,
    files: Vec<String>,
    origin: Origin,
) -> Outcome {
    let text = |pointer: &str| {
        let found = root.find(pointer);
        found.node.text().filter(|_| found.whole).map(str::to_owned)
    };
    let mut partial = None;
    if let Some(kind) = kind {
        match Definition::decode(kind, &message) {
            Ok(message) => {
                let id = Id { kind, name: message.name().to_owned(), version: message.version().map(str::to_owned) };
                let digest = message.digest();
                let document =
                    Document { file: opened.name.clone(), index, id, message, digest, files: files.clone(), places: Places(origin) };
                if !faults.iter().any(Fault::is_error) {
                    return Outcome { document: Some(document), broken: None, faults, files };
                }
                partial = Some(Arc::new(Partial { document, faults: faults.clone() }));
            }
            // Deeper than the messages' own reader goes.
            Err(error) if !faults.iter().any(Fault::is_error) => {
                faults.push(Places(origin).fault("", "too-deep", format!("the document cannot be held as a message: {error}")));
            }
            Err(_) => (),
        }
    }
    let broken = Broken {
        file: opened.name.clone(),
        index,
        kind,
        name: kind.and_then(|kind| text(kind.name_pointer())),
        version: kind.filter(|kind| *kind == Kind::Api).and_then(|_| text("/info/version")),
        partial,
    };
    Outcome { document: None, broken: Some(broken), faults, files }
}
