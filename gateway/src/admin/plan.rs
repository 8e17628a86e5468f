//! What a write would make of the folder of definitions: which files change, what changes by meaning, and which faults come with it.
use std::{collections::BTreeMap, io, path::Path, sync::Arc};

use bytes::Bytes;
use contract::source::File;
use schemas::{Broken, Change, Definition, Document, Fault, Id, Input, Kind, Loaded, Written, emit, hide::HIDDEN, tree, yaml};

use crate::{
    compile::{self, Workshop},
    source::change::Files,
};

/// The folder as it is, read and checked.
pub struct Folder<'a> {
    shop: &'a Workshop,
    plugins: &'a schemas::Plugins,
    /// Put before the names of files, as faults show them.
    shown: &'a Path,
    pub revision: Box<str>,
    files: BTreeMap<Box<str>, Bytes>,
    loaded: Loaded,
}

/// One definition that is to be there.
pub struct Wanted {
    pub id: Id,
    pub definition: Definition,
    /// As it was sent, where that is YAML: comments stay.
    text: Option<String>,
}

/// What would become of the folder.
pub struct Plan {
    pub files: Files,
    pub changes: Vec<Change>,
    /// Those that are not there today.
    pub faults: Vec<Fault>,
}

/// Why nothing is written.
#[derive(Debug)]
pub enum Refusal {
    /// 422: what was sent has faults, or would bring some.
    Faults(Vec<Fault>),
    /// 412: somebody else was faster.
    Changed(String),
    /// 428: it is not said which version is to be replaced.
    Unconditional(String),
    /// 404
    Missing(String),
    /// 409: it cannot be done to the folder as it is.
    Conflict(String),
    /// 400
    Bad(String),
    /// 507 or 500: the disk.
    Disk(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(it: io::Error) -> Self {
        Self::Disk(it)
    }
}

/// Reads definitions that were sent. Errors: they have faults, or hold the mark that hides a secret.
pub fn wanted(body: &Bytes, is_yaml: bool, plugins: &schemas::Plugins, root: &Path) -> Result<Vec<Wanted>, Refusal> {
    if body.is_empty() {
        // How many are wanted is the caller's to say.
        return Ok(Vec::new());
    }
    let name = if is_yaml { "request.yaml" } else { "request.json" };
    let loaded = compile::load(vec![Input::new(name, body.to_vec())], plugins, root);
    if loaded.has_errors() {
        return Err(Refusal::Faults(loaded.faults));
    }
    let spans = std::str::from_utf8(body).ok().filter(|_| is_yaml).map(|text| (text, yaml::documents(text)));
    let mut all = Vec::with_capacity(loaded.documents.len());
    for it in loaded.documents {
        if hides(&it.message.tree(), &it.message.shown()) {
            let why = format!("{HIDDEN} stands in the place of a secret that was not shown; name it by `{{env: …}}` or `{{file: …}}`");
            return Err(Refusal::Faults(vec![it.places.fault("", "hidden-secret", why)]));
        }
        let text = spans.as_ref().and_then(|(text, spans)| Some(bare(spans.get(it.index)?.of(text)).to_owned()));
        all.push(Wanted { id: it.id, definition: it.message, text });
    }
    Ok(all)
}

/// Whether a secret is the mark that hides one.
fn hides(tree: &tree::Node<'_>, shown: &tree::Node<'_>) -> bool {
    use tree::Value::{List, Map, Text};
    match (&tree.value, &shown.value) {
        (Text(a), Text(b)) => a != b && a.starts_with(HIDDEN),
        (Map(a), Map(b)) => a.iter().zip(b).any(|(a, b)| hides(&a.node, &b.node)),
        (List(a), List(b)) => a.iter().zip(b).any(|(a, b)| hides(a, b)),
        _ => false,
    }
}

/// A document without the marks around it.
fn bare(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}');
    let text = text.strip_prefix("---").map_or(text, |it| it.trim_start_matches([' ', '\t']).trim_start_matches(['\r', '\n']));
    text.trim_end().trim_end_matches("...").trim_end()
}

impl Wanted {
    /// A definition that was changed here, not sent.
    pub fn made(definition: Definition, id: Id) -> Self {
        Self { id, definition, text: None }
    }

    fn yaml(&self) -> String {
        self.text.clone().unwrap_or_else(|| emit::yaml(&self.definition.tree()).trim_end().to_owned())
    }
}

impl<'a> Folder<'a> {
    pub fn new(shop: &'a Workshop, plugins: &'a schemas::Plugins, shown: &'a Path, now: contract::source::Snapshot) -> Self {
        let files: BTreeMap<Box<str>, Bytes> = now.files.into_iter().map(|File { name, text }| (name, text)).collect();
        let loaded = load(shop, plugins, shown, &files);
        Self { shop, plugins, shown, revision: now.revision, files, loaded }
    }

    /// A definition, where it has no fault of its own.
    pub fn find(&self, id: &Id) -> Option<&Document> {
        self.loaded.documents.iter().find(|it| it.id == *id)
    }

    /// Where a definition stands: the file's name and which document it is, faulty or not.
    fn place(&self, id: &Id) -> Option<(Box<str>, usize)> {
        let named = |it: &&Broken| {
            it.kind == Some(id.kind) && it.name.as_deref() == Some(&id.name) && (id.kind != Kind::Api || it.version == id.version)
        };
        let good = self.loaded.documents.iter().find(|it| it.id == *id).map(|it| (&it.file, it.index));
        let found = good.or_else(|| self.loaded.broken.iter().find(named).map(|it| (&it.file, it.index)));
        let (file, index) = found?;
        let name = self.files.keys().find(|it| self.shown.join(&***it).display().to_string() == **file)?;
        Some((name.clone(), index))
    }

    /// Whether a definition may be replaced, by what the client says it knows of it: `*`, or the entity tag of what it has read.
    pub fn allows(&self, id: &Id, if_match: Option<&str>) -> Result<(), Refusal> {
        let known = self.place(id).is_some();
        match if_match {
            None if known => Err(Refusal::Unconditional(format!(
                "{id} is there already: say which version you replace, `If-Match: \"…\"` with its ETag, or `If-Match: *`"
            ))),
            None | Some("*") => Ok(()),
            Some(tags) => {
                let tag = self.find(id).map(|it| etag(it.digest));
                match tag.is_some_and(|tag| tags.split(',').any(|it| it.trim() == tag)) {
                    true => Ok(()),
                    false if known => Err(Refusal::Changed(format!("{id} is another by now: read it again"))),
                    false => Err(Refusal::Changed(format!("{id} is gone"))),
                }
            }
        }
    }

    /// What putting and removing definitions makes of the folder.
    pub fn plan(&self, put: &[Wanted], remove: &[Id]) -> Result<Plan, Refusal> {
        let mut files = self.files.clone();
        let mut edits: BTreeMap<Box<str>, BTreeMap<usize, Option<&Wanted>>> = BTreeMap::new();
        for it in put {
            match self.place(&it.id) {
                Some((file, index)) => drop(edits.entry(file).or_default().insert(index, Some(it))),
                None => {
                    let name = free_name(&it.id, &files);
                    files.insert(name, format!("{}\n", it.yaml()).into());
                }
            }
        }
        for id in remove {
            let (file, index) = self.place(id).ok_or_else(|| Refusal::Missing(format!("there is no {id}")))?;
            edits.entry(file).or_default().insert(index, None);
        }
        for (name, edits) in edits {
            match self.edited(&name, &edits)? {
                Some(text) => drop(files.insert(name, text)),
                None => drop(files.remove(&name)),
            }
        }
        Ok(self.judge(files))
    }

    /// What another set of files makes of the folder.
    pub fn judge(&self, files: BTreeMap<Box<str>, Bytes>) -> Plan {
        let loaded = load(self.shop, self.plugins, self.shown, &files);
        let changes = schemas::diff(self.loaded.documents.iter().map(|it| &it.message), loaded.documents.iter().map(|it| &it.message));
        let before = faults(self.shop, &self.loaded);
        let known = |it: &Fault| before.iter().any(|old| (&old.file, &old.code, &old.message) == (&it.file, &it.code, &it.message));
        let mut fresh: Vec<Fault> = faults(self.shop, &loaded).into_iter().filter(|it| !known(it)).collect();
        schemas::hide::in_excerpts(&mut fresh);
        let mut changed: Files = files
            .iter()
            .filter(|(name, text)| self.files.get(*name) != Some(text))
            .map(|(name, text)| (name.clone(), Some(text.clone())))
            .collect();
        changed.extend(self.files.keys().filter(|it| !files.contains_key(*it)).map(|it| (it.clone(), None)));
        Plan { files: changed, changes, faults: fresh }
    }

    /// A file with some of its documents replaced or taken away; none where nothing is left of it.
    fn edited(&self, name: &str, edits: &BTreeMap<usize, Option<&Wanted>>) -> Result<Option<Bytes>, Refusal> {
        let shown = self.shown.join(name).display().to_string();
        let text = self.files.get(name).map(|it| String::from_utf8_lossy(it).into_owned()).unwrap_or_default();
        match Written::by_name(name) {
            Some(Written::Yaml) => {
                let spans = yaml::documents(&text);
                let (mut out, mut end, mut left) = (String::new(), 0, 0);
                for (at, span) in spans.iter().enumerate() {
                    out.push_str(text.get(end..span.start as usize).unwrap_or_default());
                    end = span.end as usize;
                    let whole = span.of(&text);
                    match edits.get(&at) {
                        Some(None) => continue,
                        Some(Some(it)) => {
                            if left > 0 || whole.starts_with("---") {
                                out.push_str("---\n");
                            }
                            out.push_str(&it.yaml());
                            out.push('\n');
                        }
                        None => {
                            if left > 0 && !whole.starts_with("---") {
                                out.push_str("---\n");
                            }
                            out.push_str(whole);
                        }
                    }
                    left += 1;
                }
                out.push_str(text.get(end..).unwrap_or_default());
                Ok((left > 0).then(|| out.into()))
            }
            Some(written) => {
                if self.loaded.broken.iter().any(|it| *it.file == *shown) {
                    return Err(Refusal::Conflict(format!("{shown} has faults, and is written anew as a whole: mend it first")));
                }
                let mut here: Vec<&Document> = self.loaded.documents.iter().filter(|it| *it.file == *shown).collect();
                here.sort_by_key(|it| it.index);
                let kept: Vec<&Definition> = here
                    .into_iter()
                    .filter_map(|it| match edits.get(&it.index) {
                        Some(edit) => edit.map(|it| &it.definition),
                        None => Some(&it.message),
                    })
                    .collect();
                Ok((!kept.is_empty()).then(|| schemas::convert(kept, written).into()))
            }
            None => Err(Refusal::Conflict(format!("{shown} is no file of definitions"))),
        }
    }

    /// Every definition that is there, faulty ones too, as far as they say who they are.
    pub fn ids(&self) -> Vec<Id> {
        let broken = self.loaded.broken.iter().filter_map(|it| {
            let (kind, name) = (it.kind?, it.name.clone()?);
            Some(Id { kind, name, version: it.version.clone().filter(|_| kind == Kind::Api) })
        });
        self.loaded.documents.iter().map(|it| it.id.clone()).chain(broken).collect()
    }
}

fn load(shop: &Workshop, plugins: &schemas::Plugins, shown: &Path, files: &BTreeMap<Box<str>, Bytes>) -> Loaded {
    let inputs = files.iter().map(|(name, text)| Input::new(shown.join(&**name).display().to_string(), text.to_vec())).collect();
    compile::load(inputs, plugins, &shop.root)
}

/// Every error that these definitions have alone and together.
fn faults(shop: &Workshop, loaded: &Loaded) -> Vec<Fault> {
    let documents = loaded.documents.iter().cloned().map(Arc::new).collect();
    let outcome = compile::compile(shop, "aside", documents, &loaded.broken, None);
    let mut all: Vec<Fault> = loaded.faults.iter().cloned().chain(outcome.faults).filter(Fault::is_error).collect();
    compile::sort(&mut all);
    all
}

/// The name of the file of a new definition.
fn free_name(id: &Id, taken: &BTreeMap<Box<str>, Bytes>) -> Box<str> {
    let kind = if id.kind == Kind::Api { String::new() } else { format!("{}-", id.kind.name().to_ascii_lowercase()) };
    let version = id.version.as_ref().map_or(String::new(), |it| format!("-{it}"));
    let plain = format!("{kind}{}{version}", id.name);
    let names = std::iter::once(format!("{plain}.yaml")).chain((2..).map(|it| format!("{plain}-{it}.yaml")));
    names.into_iter().find(|it| !taken.contains_key(it.as_str())).unwrap_or_default().into()
}

/// The entity tag of a definition.
pub fn etag(digest: u128) -> String {
    format!("\"{digest:032x}\"")
}
