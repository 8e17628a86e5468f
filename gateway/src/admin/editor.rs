//! The definitions on the admin listener: read, checked, changed, and taken back. Writes go to the folder, and come down from there.
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use schemas::{Change, Document, Fault, Id, Kind, emit};
use serde_json::{Map, Value, json};

use super::plan::{self, Folder, Plan, Refusal, Wanted};
use crate::{
    compile::{self, Snapshot, Workshop},
    reload::{
        Status,
        history::{Entry, History, Note},
    },
    source::{
        change::{Changes, Files},
        dir,
    },
};

/// How long an answer waits until what was written is served.
const SERVED_WITHIN: Duration = Duration::from_secs(10);

/// What the editor needs of the gateway.
pub struct Editor {
    pub shop: Arc<Workshop>,
    /// The folder of definitions, as faults name it.
    pub dir: PathBuf,
    pub changes: Changes,
    pub history: History,
    pub status: Arc<Mutex<Status>>,
    pub current: Arc<ArcSwapOption<Snapshot>>,
}

/// One request, with what the listener knows of its sender.
pub struct Request {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// For the history and the log.
    pub who: String,
    /// Whether the sender may change anything.
    pub may_write: bool,
}

/// The query of a request.
#[derive(Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(text: &str) -> Self {
        let decoded = |it: &str| percent_encoding::percent_decode_str(&it.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.split('&').filter(|it| !it.is_empty()).map(|it| it.split_once('=').unwrap_or((it, "")));
        Self(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|it| it.0 == name).map(|it| it.1.as_str()).filter(|it| !it.is_empty())
    }

    fn is_set(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.0 == name && it.1 != "false")
    }
}

/// What one answer is made of.
type Answer = Result<Response<Bytes>, Refusal>;

/// The first part of the paths that the editor answers.
pub fn is_for(path: &str) -> bool {
    matches!(path.split('/').nth(1), Some("definitions" | "validate" | "diff" | "apply" | "history" | "rollback" | "plugins"))
}

/// Whether a request changes something.
pub fn is_write(method: &Method, path: &str) -> bool {
    !matches!(*method, Method::GET | Method::HEAD) && !matches!(path, "/validate" | "/diff")
}

impl Editor {
    /// Answers. Takes as long as compiling all definitions does, so it is called where that holds nobody up.
    pub fn answer(&self, request: &Request) -> Response<Bytes> {
        let answer = self.route(request).unwrap_or_else(|it| self.refuse(it));
        if is_write(&request.method, &request.path) {
            self.shop.log.info(
                "audit",
                format_args!("{} {}", request.method, request.path),
                &[("who", &request.who), ("status", &answer.status().as_u16()), ("why", &request.query.get("why").unwrap_or(""))],
            );
        }
        answer
    }

    fn route(&self, it: &Request) -> Answer {
        let parts: Vec<&str> = it.path.split('/').skip(1).collect();
        match (it.method.as_str(), &parts[..]) {
            ("GET" | "HEAD", ["definitions"]) => self.list(it),
            ("GET" | "HEAD", ["definitions", kind, name]) => self.get(it, &id(kind, name)?),
            ("PUT", ["definitions", kind, name]) => self.put(it, &id(kind, name)?),
            ("PATCH", ["definitions", kind, name]) => self.patch(it, &id(kind, name)?),
            ("DELETE", ["definitions", kind, name]) => self.delete(it, &id(kind, name)?),
            ("POST", ["validate"]) => self.validate(it),
            ("POST", ["diff"]) => self.diff(it),
            ("POST", ["apply"]) => self.apply(it),
            ("GET" | "HEAD", ["history"]) => self.states(),
            ("GET" | "HEAD", ["history", state]) => self.state(state),
            ("POST", ["rollback", state]) => self.rollback(it, state),
            ("GET" | "HEAD", ["plugins"]) => Ok(self.plugins()),
            _ => Ok(self.lost(&parts)),
        }
    }

    fn lost(&self, parts: &[&str]) -> Response<Bytes> {
        let allow = match parts {
            ["definitions"] | ["history"] | ["history", _] | ["plugins"] => "GET, HEAD",
            ["definitions", _, _] => "GET, HEAD, PUT, PATCH, DELETE",
            ["validate" | "diff" | "apply"] | ["rollback", _] => "POST",
            _ => {
                let help = "there is /definitions, /definitions/KIND/NAME[@VERSION], /validate, /diff, /apply, /history, /history/STATE, \
                            /rollback/STATE and /plugins";
                return told(StatusCode::NOT_FOUND, json!({"error": help}));
            }
        };
        let mut it = told(StatusCode::METHOD_NOT_ALLOWED, json!({"error": format!("only {allow} are answered here")}));
        it.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        it
    }

    // What is served.

    fn list(&self, it: &Request) -> Answer {
        let kind = it.query.get("kind").map(kind).transpose()?;
        let snapshot = self.current.load_full();
        let mut documents: Vec<&Arc<Document>> =
            snapshot.iter().flat_map(|it| &it.documents).filter(|it| kind.is_none_or(|kind| it.id.kind == kind)).collect();
        documents.sort_by(|a, b| a.id.cmp(&b.id));
        let all: Vec<Value> = documents.into_iter().map(|it| listed(it)).collect();
        let revision = snapshot.map_or_else(String::new, |it| it.revision.to_string());
        Ok(told(StatusCode::OK, json!({"revision": revision, "definitions": all})))
    }

    fn get(&self, it: &Request, id: &Id) -> Answer {
        let snapshot = self.current.load_full();
        let found = snapshot.iter().flat_map(|it| &it.documents).find(|it| it.id == *id);
        let found = found.ok_or_else(|| Refusal::Missing(format!("{id} is not served; GET /definitions lists what is")))?;
        let tree = found.message.shown();
        let yaml = wants_yaml(&it.headers, header::ACCEPT);
        let mut answer = Response::new(Bytes::from(if yaml { emit::yaml(&tree) } else { emit::json(&tree) }));
        dress(&mut answer, if yaml { "application/yaml" } else { "application/json; charset=utf-8" });
        tagged(&mut answer, found.digest);
        Ok(answer)
    }

    fn plugins(&self) -> Response<Bytes> {
        let one = |it: &contract::catalog::Entry| {
            json!({"name": it.name, "about": it.about, "reads": it.notes.reads, "answers": it.notes.answers,
                   "authenticates": it.notes.authenticates, "schema": Value::from((it.schema)())})
        };
        told(StatusCode::OK, Value::from(self.shop.plugins.iter().map(one).collect::<Vec<_>>()))
    }

    // What would be.

    fn validate(&self, it: &Request) -> Answer {
        let (plan, _) = match self.aside(it) {
            Ok(it) => it,
            Err(Refusal::Faults(faults)) => {
                return Ok(told(StatusCode::OK, json!({"valid": false, "faults": shown(&faults), "changes": []})));
            }
            Err(it) => return Err(it),
        };
        Ok(told(StatusCode::OK, json!({"valid": plan.faults.is_empty(), "faults": shown(&plan.faults), "changes": changes(&plan.changes)})))
    }

    fn diff(&self, it: &Request) -> Answer {
        let (plan, revision) = self.aside(it)?;
        Ok(told(StatusCode::OK, json!({"revision": revision, "changes": changes(&plan.changes)})))
    }

    /// What the definitions of a request would make of the folder; with `prune`, nothing else stays.
    fn aside(&self, it: &Request) -> Result<(Plan, Box<str>), Refusal> {
        let shop = self.shop.aside();
        let plugins = compile::plugin_schemas(shop.plugins);
        let wanted = plan::wanted(&it.body, is_yaml(&it.headers), &plugins, &shop.root)?;
        let folder = Folder::new(&shop, &plugins, &self.dir, dir::read_once(&self.dir, Some(self.changes.clone()))?);
        Ok((bundle(&folder, &wanted, it.query.is_set("prune"))?, folder.revision.clone()))
    }

    // What is changed.

    fn put(&self, it: &Request, id: &Id) -> Answer {
        self.write(it, |folder, plugins| {
            let wanted = plan::wanted(&it.body, is_yaml(&it.headers), plugins, &self.shop.root)?;
            let [one] = &wanted[..] else {
                return Err(Refusal::Bad(format!("one definition is put here, not {}; POST /apply takes many", wanted.len())));
            };
            if one.id != *id {
                return Err(Refusal::Bad(format!("the path names {id}, the definition {}", one.id)));
            }
            folder.allows(id, if_match(&it.headers))?;
            folder.plan(&wanted, &[])
        })
    }

    fn patch(&self, it: &Request, id: &Id) -> Answer {
        self.write(it, |folder, plugins| {
            folder.allows(id, if_match(&it.headers))?;
            let now = folder.find(id).ok_or_else(|| Refusal::Missing(format!("there is no {id} without faults to be patched")))?;
            let patch: Value =
                serde_json::from_slice(&it.body).map_err(|why| Refusal::Bad(format!("a JSON Merge Patch is wanted (RFC 7396): {why}")))?;
            let mut text: Value = serde_json::from_str(&now.message.tree().to_json()).map_err(|why| Refusal::Bad(why.to_string()))?;
            merge(&mut text, patch);
            let mut wanted = plan::wanted(&text.to_string().into(), false, plugins, &self.shop.root)?;
            let one = wanted.pop().filter(|one| one.id == *id && wanted.is_empty());
            let one = one.ok_or_else(|| Refusal::Bad("a patch changes neither kind, name nor version".into()))?;
            folder.plan(&[Wanted::made(one.definition, one.id)], &[])
        })
    }

    fn delete(&self, it: &Request, id: &Id) -> Answer {
        self.write(it, |folder, _| {
            folder.allows(id, if_match(&it.headers))?;
            folder.plan(&[], std::slice::from_ref(id))
        })
    }

    fn apply(&self, it: &Request) -> Answer {
        self.write(it, |folder, plugins| {
            // A bundle says what all of the folder is to be, so it is the folder that must not have changed.
            if let Some(wanted) = if_match(&it.headers).filter(|it| *it != "*")
                && wanted.trim_matches('"') != &*folder.revision
            {
                return Err(Refusal::Changed(format!("the folder is at revision {} by now", folder.revision)));
            }
            let wanted = plan::wanted(&it.body, is_yaml(&it.headers), plugins, &self.shop.root)?;
            if wanted.is_empty() {
                // With `prune` it would take everything away; nobody means that by sending nothing.
                return Err(Refusal::Bad("the bundle holds no definition".into()));
            }
            bundle(folder, &wanted, it.query.is_set("prune"))
        })
    }

    fn rollback(&self, it: &Request, state: &str) -> Answer {
        let entry = self.entry(state)?;
        let files = self.history.files(&entry)?;
        self.write(it, |folder, _| Ok(folder.judge(files.iter().map(|(name, text)| (name.as_str().into(), text.clone())).collect())))
    }

    /// Writes what is decided, once nobody else can, and waits until it is served.
    fn write(&self, it: &Request, decide: impl FnOnce(&Folder<'_>, &schemas::Plugins) -> Result<Plan, Refusal>) -> Answer {
        if !it.may_write {
            return Ok(told(StatusCode::FORBIDDEN, json!({"error": "a token with `role: write` is needed to change something"})));
        }
        let shop = self.shop.aside();
        let plugins = compile::plugin_schemas(shop.plugins);
        let mut changed = Vec::new();
        self.changes.apply(|| -> Result<Files, Refusal> {
            let folder = Folder::new(&shop, &plugins, &self.dir, dir::read_once(&self.dir, None)?);
            let plan = decide(&folder, &plugins)?;
            if !plan.faults.is_empty() {
                return Err(Refusal::Faults(plan.faults));
            }
            self.history.announce(&Note { who: it.who.clone(), why: it.query.get("why").map(str::to_owned) })?;
            changed = plan.changes;
            Ok(plan.files)
        })?;
        let written = Instant::now();
        let revision = dir::read_once(&self.dir, Some(self.changes.clone()))?.revision;
        let served = self.wait(&revision, written);
        let mut answer = told(StatusCode::OK, json!({"revision": revision, "served": served, "changes": changes(&changed)}));
        let snapshot = self.current.load_full();
        if let [Change::Added(id) | Change::Changed(id, _)] = &changed[..]
            && let Some(it) = snapshot.iter().flat_map(|it| &it.documents).find(|it| it.id == *id)
        {
            tagged(&mut answer, it.digest);
        }
        Ok(answer)
    }

    /// Whether what was written is served before long; it may be served together with what others wrote right after.
    fn wait(&self, revision: &str, written: Instant) -> bool {
        let end = Instant::now() + SERVED_WITHIN;
        while Instant::now() < end {
            let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if *status.revision == *revision || status.begun.is_some_and(|it| it >= written) {
                return status.how != Some("refused");
            }
            #[expect(clippy::disallowed_methods, reason = "on a thread for work that takes its time")]
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    // What was.

    fn states(&self) -> Answer {
        Ok(told(StatusCode::OK, Value::from(self.history.entries()?.iter().map(state).collect::<Vec<_>>())))
    }

    fn state(&self, name: &str) -> Answer {
        let entry = self.entry(name)?;
        let before = self.history.entries()?.into_iter().find(|it| it.number < entry.number);
        let load = |entry: &Entry| -> Result<Vec<Document>, Refusal> {
            Ok(schemas::load(self.history.inputs(entry, &self.dir)?, &schemas::Options::default()).documents)
        };
        let old = before.map_or(Ok(Vec::new()), |it| load(&it))?;
        let new = load(&entry)?;
        let mut told_state = state(&entry);
        told_state["changes"] = changes(&schemas::diff(old.iter().map(|it| &it.message), new.iter().map(|it| &it.message)));
        Ok(told(StatusCode::OK, told_state))
    }

    fn entry(&self, state: &str) -> Result<Entry, Refusal> {
        self.history
            .find(state)?
            .ok_or_else(|| Refusal::Missing(format!("there is no state {state:?}; GET /history lists those that are kept")))
    }

    fn refuse(&self, it: Refusal) -> Response<Bytes> {
        let error = |status, why: String| told(status, json!({"error": why}));
        match it {
            Refusal::Faults(faults) => told(
                StatusCode::UNPROCESSABLE_ENTITY,
                json!({"error": "nothing was changed: the definitions have faults", "faults": shown(&faults)}),
            ),
            Refusal::Changed(why) => error(StatusCode::PRECONDITION_FAILED, why),
            Refusal::Unconditional(why) => error(StatusCode::PRECONDITION_REQUIRED, why),
            Refusal::Missing(why) => error(StatusCode::NOT_FOUND, why),
            Refusal::Conflict(why) => error(StatusCode::CONFLICT, why),
            Refusal::Bad(why) => error(StatusCode::BAD_REQUEST, why),
            Refusal::Disk(why) => {
                self.shop.log.error("admin", format_args!("the definitions cannot be read or written: {why}"), &[]);
                let full = matches!(why.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
                let status = if full { StatusCode::INSUFFICIENT_STORAGE } else { StatusCode::INTERNAL_SERVER_ERROR };
                error(status, format!("the folder of definitions cannot be used: {why}"))
            }
        }
    }
}

/// The plan of many definitions at once; with `prune`, nothing else stays.
fn bundle(folder: &Folder<'_>, wanted: &[Wanted], prune: bool) -> Result<Plan, Refusal> {
    let gone: Vec<Id> = match prune {
        true => folder.ids().into_iter().filter(|id| !wanted.iter().any(|it| it.id == *id)).collect(),
        false => Vec::new(),
    };
    folder.plan(wanted, &gone)
}

fn kind(word: &str) -> Result<Kind, Refusal> {
    let known = Kind::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(word));
    known.ok_or_else(|| Refusal::Missing(format!("there is no kind {word:?}: Api, Upstream, App, Plan and Preset are")))
}

fn id(kind_word: &str, name: &str) -> Result<Id, Refusal> {
    let kind = kind(kind_word)?;
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned();
    Ok(match name.split_once('@') {
        Some((name, version)) => Id { kind, name: name.to_owned(), version: Some(version.to_owned()) },
        None => Id { kind, name, version: None },
    })
}

fn if_match(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::IF_MATCH).and_then(|it| it.to_str().ok()).map(str::trim)
}

/// RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(patch) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Value::Object(into) = target else { return };
            for (key, value) in patch {
                match value {
                    Value::Null => drop(into.shift_remove(&key)),
                    value => merge(into.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        other => *target = other,
    }
}

/// Whether a body is YAML, as a body without a type is taken to be: JSON is YAML too, but one list of definitions is JSON alone.
fn is_yaml(headers: &HeaderMap) -> bool {
    !headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).is_some_and(|it| it.to_ascii_lowercase().contains("json"))
}

fn wants_yaml(headers: &HeaderMap, name: header::HeaderName) -> bool {
    headers.get(name).and_then(|it| it.to_str().ok()).is_some_and(|it| it.to_ascii_lowercase().contains("yaml"))
}

fn listed(it: &Document) -> Value {
    let place = it.places.fault(it.id.kind.name_pointer(), "", "");
    json!({"kind": it.id.kind.name(), "name": it.id.name, "version": it.id.version, "file": &*it.file, "line": place.line, "etag": plan::etag(it.digest)})
}

fn state(it: &Entry) -> Value {
    json!({"state": it.number, "revision": it.revision, "time": it.time, "who": it.who, "why": it.why, "whole": it.whole,
           "files": {"added": it.added, "changed": it.changed, "removed": it.removed}})
}

/// Faults as `allium check --format json` writes them.
pub fn shown(faults: &[Fault]) -> Value {
    let one = |it: &Fault| json!({"file": &*it.file, "line": it.line, "column": it.column, "code": it.code, "severity": it.severity.name(), "message": it.message, "help": it.help});
    Value::from(faults.iter().take(1000).map(one).collect::<Vec<_>>())
}

fn changes(all: &[Change]) -> Value {
    let read = |it: &Option<String>| it.as_ref().map(|it| serde_json::from_str::<Value>(it).unwrap_or_else(|_| it.as_str().into()));
    let one = |it: &Change| {
        let (what, id, edits) = match it {
            Change::Added(id) => ("added", id, &[][..]),
            Change::Removed(id) => ("removed", id, &[][..]),
            Change::Changed(id, edits) => ("changed", id, &edits[..]),
        };
        let edits: Vec<Value> = edits.iter().map(|it| json!({"pointer": it.pointer, "old": read(&it.old), "new": read(&it.new)})).collect();
        json!({"change": what, "kind": id.kind.name(), "name": id.name, "version": id.version, "edits": edits})
    };
    Value::from(all.iter().map(one).collect::<Vec<_>>())
}

fn told(status: StatusCode, body: Value) -> Response<Bytes> {
    let mut it = Response::new(Bytes::from(format!("{body:#}\n")));
    *it.status_mut() = status;
    dress(&mut it, "application/json; charset=utf-8");
    it
}

fn dress(it: &mut Response<Bytes>, kind: &'static str) {
    it.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    it.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

fn tagged(it: &mut Response<Bytes>, digest: u128) {
    if let Ok(value) = HeaderValue::try_from(plan::etag(digest)) {
        it.headers_mut().insert(header::ETAG, value);
    }
}
