//! Which node a call goes to: who is a candidate, who is preferred, and what picks among the rest.
use std::{
    collections::HashMap,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use contract::{
    Exchange,
    discovery::{Node, Nodes, Picker, Strategy, Tried},
    exchange::Scheme,
    expression::Template,
    scope::cookies,
};
use http::HeaderValue;

use crate::strategy::{self, hash};

/// What `balance` of an Upstream says.
pub struct Balance {
    make: fn() -> Arc<dyn Strategy>,
    /// What calls are sent to the same node by.
    pub hash: Option<Template>,
    /// Only nodes whose metadata has these values.
    pub wanted: Box<[(Box<str>, Template)]>,
    /// All nodes, where none has them.
    pub or_any: bool,
    /// The cookie that names a client's node.
    pub sticky: Option<Box<str>>,
    /// By the values of `wanted`: what a strategy remembers, such as whose turn it is, outlives a change of nodes.
    strategies: Mutex<HashMap<String, Arc<dyn Strategy>>>,
}

/// The candidates of one moment, grouped by the values that calls ask for.
pub struct Candidates {
    groups: HashMap<String, Group>,
    everyone: Option<Group>,
}

struct Group {
    picker: Box<dyn Picker>,
    /// By what a sticky cookie says.
    named: HashMap<Box<str>, Arc<Node>>,
}

impl Default for Balance {
    fn default() -> Self {
        Self::new(strategy::ALL[0].make)
    }
}

impl Balance {
    pub fn new(make: fn() -> Arc<dyn Strategy>) -> Self {
        Self { make, hash: None, wanted: Box::default(), or_any: false, sticky: None, strategies: Mutex::default() }
    }

    /// Some expression looks at the request's body.
    pub fn reads_body(&self) -> bool {
        let templates = self.hash.iter().chain(self.wanted.iter().map(|(_, it)| it));
        templates.into_iter().any(|it| it.reads().body())
    }

    /// Runs when nodes come, go, or change their health; never on a request.
    pub fn prepare(&self, nodes: &Nodes) -> Candidates {
        let mut groups: HashMap<String, Vec<Arc<Node>>> = HashMap::new();
        if !self.wanted.is_empty() {
            for node in nodes.iter() {
                let values: Option<Vec<_>> = self.wanted.iter().map(|(name, _)| node.metadata.get(name)).collect();
                if let Some(values) = values {
                    groups.entry(joined(values.iter().map(|it| &***it))).or_default().push(node.clone());
                }
            }
        }
        let everyone = (self.wanted.is_empty() || self.or_any).then(|| self.group("", nodes.clone()));
        let groups = groups.into_iter().map(|(values, nodes)| {
            let group = self.group(&values, nodes.into());
            (values, group)
        });
        Candidates { groups: groups.collect(), everyone }
    }

    fn group(&self, values: &str, nodes: Nodes) -> Group {
        let strategy = {
            let mut all = self.strategies.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(values.to_owned()).or_insert_with(self.make).clone()
        };
        let named = match self.sticky {
            // Those of weight 0 too: they get no new clients, and keep the old ones.
            Some(_) => nodes.iter().map(|it| (name_of(it).into(), it.clone())).collect(),
            None => HashMap::new(),
        };
        Group { picker: strategy.prepare(nodes), named }
    }

    /// One node for one attempt.
    pub fn pick(&self, candidates: &Candidates, ex: &Exchange, tried: &Tried) -> Option<Arc<Node>> {
        let group = match self.wanted.is_empty() {
            true => None,
            false => self.values(ex).and_then(|it| candidates.groups.get(&it)),
        };
        let group = group.or(candidates.everyone.as_ref())?;
        if let Some(cookie) = &self.sticky
            && let Some(node) =
                cookies(&ex.head.headers).filter(|(name, _)| **name == **cookie).last().and_then(|(_, it)| group.named.get(&*it))
            && !tried.contains(node)
        {
            return Some(node.clone());
        }
        let scope = ex.scope();
        let key = self.hash.as_ref().and_then(|it| it.text(&scope).ok().flatten()).map(|it| hash::of(it.as_bytes()));
        group.picker.pick(ex, tried, key)
    }

    /// What this call asks of the metadata; none where an expression has no value.
    fn values(&self, ex: &Exchange) -> Option<String> {
        let scope = ex.scope();
        let values: Option<Vec<_>> = self.wanted.iter().map(|(_, it)| it.text(&scope).ok().flatten()).collect();
        Some(joined(values?.iter().map(|it| &**it)))
    }

    /// The `Set-Cookie` that keeps a client on this node, where it does not name it already.
    pub fn remember(&self, ex: &Exchange, name: &str) -> Option<HeaderValue> {
        let cookie = self.sticky.as_ref()?;
        if cookies(&ex.head.headers).filter(|(it, _)| **it == **cookie).last().is_some_and(|(_, it)| it == name) {
            return None;
        }
        let secure = if ex.peer.scheme == Scheme::Https { "; Secure" } else { "" };
        HeaderValue::from_str(&format!("{cookie}={name}; Path=/; HttpOnly; SameSite=Lax{secure}")).ok()
    }
}

/// The same for the same node in every gateway, and not its address.
pub fn name_of(node: &Node) -> String {
    format!("{:016x}", hash::of(format!("node {}", node.address).as_bytes()))
}

/// Values in one text, which no other values make.
fn joined<'v>(values: impl Iterator<Item = &'v str>) -> String {
    let mut text = String::new();
    for it in values {
        let _ = write!(text, "{}:{it}", it.len());
    }
    text
}
