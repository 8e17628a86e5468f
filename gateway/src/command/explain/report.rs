//! What there is to tell of a definition, as a tree: printed as JSON, or as text for people.
use contract::catalog::Entry;
use schemas::{
    Definition, Document, Kind,
    tree::{Value, escape},
    v1,
};
use serde_json::Value as Json;

use super::{
    defaults,
    nodes::{Tree, at, entry, list, map, number, of_json, text, texts},
    personal,
};
use crate::{
    command::world::World,
    compile::rings::{self, Written},
};

/// Makes reports.
pub struct Reporter<'a> {
    pub world: &'a World,
    pub plugins: &'static [Entry],
    /// The JSON Schema of definitions: what says which defaults there are.
    pub schema: &'a Json,
}

impl Reporter<'_> {
    pub fn report(&self, document: &Document) -> Tree {
        let tree = document.message.shown();
        match &document.message {
            Definition::Api(it) => self.api(document, it, &tree),
            Definition::Upstream(it) => self.named(document, &tree, Some(("upstream", self.upstream(tree.clone()))), &self.users(&it.name)),
            Definition::Preset(it) => {
                let users = self.preset_users(&it.name);
                self.named(document, &tree, Some(("rings", list(self.rings(document, None)))), &users)
            }
            Definition::App(_) | Definition::Plan(_) => self.named(document, &tree, Some(("definition", without_kind(tree.clone()))), &[]),
        }
    }

    fn named(&self, document: &Document, tree: &Tree, what: Option<(&'static str, Tree)>, users: &[String]) -> Tree {
        let mut report = self.head(document, tree, "");
        let used = matches!(document.id.kind, Kind::Upstream | Kind::Preset).then(|| texts(users));
        if let Value::Map(entries) = &mut report.value {
            entries.extend(what.map(|(key, it)| entry(key, it)));
            entries.extend(used.map(|it| entry("used_by", it)));
        }
        report
    }

    /// What every kind has.
    fn head(&self, document: &Document, tree: &Tree, info: &str) -> Tree {
        let place = document.places.fault(document.id.kind.name_pointer(), "", "");
        let of = |key: &str| at(tree, &format!("{info}/{key}")).cloned();
        map([
            ("kind", Some(text(document.id.kind.name()))),
            ("name", Some(text(&document.id.name))),
            ("version", document.id.version.as_ref().map(text)),
            ("summary", of("summary")),
            ("owner", of("owner")),
            ("tags", of("tags").filter(|_| document.id.kind == Kind::Api)),
            ("file", Some(text(&*document.file))),
            ("line", Some(number(place.line)).filter(|_| place.line > 0)),
        ])
    }

    fn api(&self, document: &Document, it: &v1::Api, tree: &Tree) -> Tree {
        let of = |pointer: &str| at(tree, pointer).cloned();
        let mut report = self.head(document, tree, "/info");
        let state = it.info.as_ref().and_then(|it| it.lifecycle.as_ref()).and_then(|it| it.state.clone());
        let inbound = it.inbound.clone().unwrap_or_default();
        let more = map([
            ("description", of("/info/description")),
            ("state", Some(text(state.unwrap_or_else(|| "active".to_owned())))),
            ("sunset", of("/info/lifecycle/sunset")),
            ("successor", of("/info/lifecycle/successor")),
            ("match", Some(texts(&inbound.r#match))),
            ("when", of("/inbound/when")),
            ("order", inbound.when.as_ref().map(|_| number(inbound.order.unwrap_or(0)))),
            ("rings", Some(list(self.rings(document, Some((it, tree)))))),
            ("target", it.proxy.as_ref().map(|it| self.target(it, tree))),
            ("outbound", of("/outbound")),
            ("unmasked", Some(self.unmasked(document, it)).filter(|it| !it.is_empty()).map(|it| texts(&it))),
            ("messages", of("/messages")),
            ("on_change", of("/on_change")),
        ]);
        if let (Value::Map(entries), Value::Map(more)) = (&mut report.value, more.value) {
            entries.extend(more);
        }
        report
    }

    /// Fields of the declared answer that are named like personal data and leave as they are.
    fn unmasked(&self, document: &Document, it: &v1::Api) -> Vec<String> {
        use v1::schema_ref::Written as Where;
        let written = it.outbound.as_ref().and_then(|it| it.schema.as_ref()).and_then(|it| it.written.as_ref());
        let schema: Option<Json> = match written {
            Some(Where::Inline(it)) => serde_json::from_str(&it.text).ok(),
            Some(Where::File(it)) => std::fs::read(self.world.shop.root.join(it)).ok().and_then(|it| serde_json::from_slice(&it).ok()),
            None => None,
        };
        let Some(schema) = schema else { return Vec::new() };
        personal::uncovered(&schema, &rings::expanded(&self.world.shop, &self.world.documents, document))
    }

    /// The chain, outermost ring first. Of an Api, validation stands in it too.
    fn rings(&self, document: &Document, api: Option<(&v1::Api, &Tree)>) -> Vec<Tree> {
        let written = rings::expanded(&self.world.shop, &self.world.documents, document);
        let validates = |it: &Written<'_>| it.ring.name == rings::VALIDATE;
        let mut all: Vec<Tree> = Vec::new();
        let placed = written.iter().position(validates);
        for (at, it) in written.iter().enumerate() {
            match validates(it) {
                true if placed == Some(at) => all.extend(api.and_then(|(api, tree)| self.validation(all.len() + 1, api, tree, Some(it)))),
                true => (),
                false => all.push(self.ring(all.len() + 1, it)),
            }
        }
        if placed.is_none()
            && let Some((api, tree)) = api
        {
            all.extend(self.validation(all.len() + 1, api, tree, None));
        }
        all
    }

    fn ring(&self, place_in_chain: usize, it: &Written<'_>) -> Tree {
        let name = it.ring.name.as_str();
        let known = self.plugins.iter().find(|it| it.name == name);
        let place = it.document.places.fault(&it.pointer, "", "");
        let shown = it.document.message.shown();
        let mut config = at(&shown, &format!("{}/{}", it.pointer, escape(name))).cloned().unwrap_or_else(|| map([]));
        if config.value == Value::Null {
            config = map([]);
        }
        let schema = known.map(|it| Json::from((it.schema)()));
        let filled = schema.map(|it| defaults::fill(&mut config, &it, &it)).unwrap_or_default();
        let notes = known.map(|it| it.notes).unwrap_or_default();
        let note = |it: &str| Some(text(it)).filter(|_| !it.is_empty());
        map([
            ("number", Some(number(place_in_chain))),
            ("ring", Some(text(name))),
            ("about", Some(text(known.map_or("known, but not built into this gateway", |it| it.about)))),
            ("preset", it.preset.map(text)),
            ("file", Some(text(&*it.document.file))),
            ("line", Some(number(place.line)).filter(|_| place.line > 0)),
            ("when", it.ring.when.as_ref().map(text)),
            ("reads", note(notes.reads)),
            ("answers", note(notes.answers)),
            ("authenticates", notes.authenticates.then(|| of_json(&Json::Bool(true)))),
            ("rewrites_body", notes.rewrites_body.then(|| of_json(&Json::Bool(true)))),
            ("config", Some(config)),
            ("defaults", Some(texts(&filled)).filter(|_| !filled.is_empty())),
        ])
    }

    /// The place of validation; none where nothing is declared.
    fn validation(&self, place_in_chain: usize, api: &v1::Api, tree: &Tree, written: Option<&Written<'_>>) -> Option<Tree> {
        let inbound = api.inbound.as_ref()?;
        if inbound.params.is_empty() && inbound.body.is_none() {
            return None;
        }
        let place = written.map(|it| it.document.places.fault(&it.pointer, "", ""));
        let mut params = at(tree, "/inbound/params").cloned();
        if let Some(Value::Map(entries)) = params.as_mut().map(|it| &mut it.value) {
            for it in entries {
                complete(&mut it.node);
            }
        }
        let mut body = at(tree, "/inbound/body").cloned();
        if let Some(body) = &mut body
            && body.get("max_size").is_none()
            && let Value::Map(entries) = &mut body.value
        {
            entries.push(entry("max_size", text(self.world.shop.limits.body.buffered.to_string())));
        }
        Some(map([
            ("number", Some(number(place_in_chain))),
            ("ring", Some(text(rings::VALIDATE))),
            ("about", Some(text("Checks what is declared of the request; further in, `params` are typed."))),
            ("preset", written.and_then(|it| it.preset).map(text)),
            ("file", written.map(|it| text(&*it.document.file))),
            ("line", place.map(|it| number(it.line))),
            (
                "reads",
                Some(text(if body.is_some() { "declared parameters; type, size and schema of the body" } else { "declared parameters" })),
            ),
            ("answers", Some(text(if body.is_some() { "400, 413, 415" } else { "400" }))),
            ("params", params),
            ("body", body),
        ]))
    }

    fn target(&self, it: &v1::Call, tree: &Tree) -> Tree {
        use v1::call::Target;
        let mut call = at(tree, "/proxy").cloned().unwrap_or_else(|| map([]));
        let filled = defaults::fill(&mut call, &self.schema["definitions"]["Call"], self.schema);
        let upstream = match &it.target {
            Some(Target::Http(it)) => Some(&it.upstream),
            Some(Target::Grpc(it)) => Some(&it.upstream),
            Some(Target::Trpc(it)) => Some(&it.upstream),
            Some(Target::Custom(it)) => Some(&it.upstream),
            _ => None,
        };
        let effective = match &it.target {
            Some(Target::Http(http)) => Some(self.effective(it, http)),
            _ => None,
        };
        map([
            ("call", Some(call)),
            ("defaults", Some(texts(&filled)).filter(|_| !filled.is_empty())),
            ("effective", effective),
            ("upstream", upstream.and_then(|it| self.upstream_of(it))),
        ])
    }

    /// What a call does where its definition says nothing.
    fn effective(&self, it: &v1::Call, http: &v1::Http) -> Tree {
        let received = || Some(text("as received"));
        let host = if http.upstream.contains("://") { "the URL's" } else { "received" };
        let time = format!("{} (limits.request.time of the settings; streams have none)", self.world.shop.limits.request.time);
        map([
            ("method", received().filter(|_| http.method.is_none())),
            ("path", received().filter(|_| http.path.is_none())),
            ("host", Some(text(host)).filter(|_| http.host.is_none())),
            ("send", Some(text("the request as received")).filter(|_| it.send.is_none())),
            ("timeout", Some(text(time)).filter(|_| it.timeout.is_none())),
        ])
    }

    /// An Upstream by its name, or the one that a URL stands for.
    fn upstream_of(&self, name: &str) -> Option<Tree> {
        if let Some((_, rest)) = name.split_once("://") {
            let host = rest.split(['/', '?']).next().unwrap_or_default();
            let port = if name.starts_with("https") { 443 } else { 80 };
            let address = if host.rsplit(']').next().unwrap_or(host).contains(':') { host.to_owned() } else { format!("{host}:{port}") };
            let nodes = list([map([("address", Some(text(address)))])]);
            return Some(self.upstream(map([("nodes", Some(nodes)), ("tls", (port == 443).then(|| map([])))])));
        }
        let document = self.world.documents.iter().find(|it| it.id.kind == Kind::Upstream && it.id.name == name)?;
        let place = document.places.fault("/name", "", "");
        let mut it = self.upstream(document.message.shown());
        if let Value::Map(entries) = &mut it.value {
            entries.push(entry("file", text(&*document.file)));
            entries.extend((place.line > 0).then(|| entry("line", number(place.line))));
        }
        Some(it)
    }

    /// With what holds where nothing is written.
    fn upstream(&self, tree: Tree) -> Tree {
        let mut it = without_kind(tree);
        if let Value::Map(entries) = &mut it.value {
            for key in ["balance", "pool", "timeouts"] {
                if !entries.iter().any(|it| it.key == key) {
                    entries.push(entry(key, map([])));
                }
            }
        }
        let mut filled = defaults::fill(&mut it, &self.schema["definitions"]["Upstream"], self.schema);
        if let Value::Map(entries) = &mut it.value
            && let Some(tls) = entries.iter_mut().find(|it| it.key == "tls")
            && let Value::Map(tls) = &mut tls.node.value
        {
            for (key, meaning) in [("server_name", "the host of each node"), ("ca", "the authorities of the system")] {
                if !tls.iter().any(|it| it.key == key) {
                    tls.push(entry(key, text(meaning)));
                    filled.push(format!("/tls/{key}"));
                }
            }
        }
        // Of no meaning without `where`.
        if at(&it, "/balance/where").is_none()
            && let Value::Map(entries) = &mut it.value
        {
            let balance = entries.iter_mut().find(|it| it.key == "balance");
            if let Some(Value::Map(entries)) = balance.map(|it| &mut it.node.value) {
                entries.retain(|it| it.key != "or_any" || !filled.iter().any(|it| it == "/balance/or_any"));
            }
            filled.retain(|it| it != "/balance/or_any");
        }
        map([("definition", Some(it)), ("defaults", Some(texts(&filled)).filter(|_| !filled.is_empty()))])
    }

    /// The Apis that call an Upstream.
    fn users(&self, name: &str) -> Vec<String> {
        let quoted = format!("\"upstream\":{}", text(name).to_json());
        self.apis(|it| it.message.tree().to_json().contains(&quoted))
    }

    /// The Apis in whose chain a Preset stands, through other Presets too.
    fn preset_users(&self, name: &str) -> Vec<String> {
        let names = |list: &[v1::Ring], among: &[&str]| list.iter().any(|it| it.r#use.as_deref().is_some_and(|it| among.contains(&it)));
        let mut reaching = vec![name];
        let presets =
            || self.world.documents.iter().filter_map(|it| if let Definition::Preset(it) = &it.message { Some(it) } else { None });
        while let Some(more) = presets().find(|it| !reaching.contains(&it.name.as_str()) && names(&it.plugins, &reaching)) {
            reaching.push(&more.name);
        }
        let default = reaching.contains(&rings::DEFAULT);
        self.apis(|it| match &it.message {
            Definition::Api(it) => (default && it.defaults.unwrap_or(true)) || names(&it.plugins, &reaching),
            _ => false,
        })
    }

    fn apis(&self, uses: impl Fn(&Document) -> bool) -> Vec<String> {
        let all = self.world.documents.iter().filter(|it| it.id.kind == Kind::Api && uses(it));
        let mut all: Vec<_> = all
            .map(|it| it.id.version.as_ref().map_or_else(|| it.id.name.clone(), |version| format!("{}@{version}", it.id.name)))
            .collect();
        all.sort();
        all
    }
}

/// What holds of a parameter where nothing is written.
fn complete(param: &mut Tree) {
    let is = |key: &str, word: &str| param.get(key).and_then(|it| it.text()) == Some(word);
    let path = is("in", "path");
    let (untyped, array) = (param.get("type").is_none() && param.get("enum").is_none(), is("type", "array"));
    let boolean = |it| of_json(&Json::Bool(it));
    let Value::Map(entries) = &mut param.value else { return };
    let mut add = |key: &'static str, it: Tree| {
        if !entries.iter().any(|it| it.key == key) {
            entries.push(entry(key, it));
        }
    };
    if untyped {
        add("type", text("string"));
    }
    add("required", boolean(path));
    if array {
        add("explode", boolean(true));
    }
}

fn without_kind(mut tree: Tree) -> Tree {
    if let Value::Map(entries) = &mut tree.value {
        entries.retain(|it| it.key != "kind" && it.key != "name");
    }
    tree
}
