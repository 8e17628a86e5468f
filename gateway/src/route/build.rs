//! Entries become a table, or a list of all that cannot be told apart.
use std::{cmp::Ordering, collections::BTreeSet};

use http::Method;

use super::{
    pattern::{Host, Pattern, STANDARD, Segment},
    trie::{ANY, Leaf, Map, NONE, Node, Rule, Tree, Trie, edge},
};

/// One pattern of one Api.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    pub pattern: Pattern,
    /// Whether the Api has a further condition, which a lookup must ask for.
    pub has_when: bool,
    /// `inbound.order`: lower is asked first; 0 where it is left out. Counts only with `has_when`.
    pub order: f64,
    pub value: T,
}

/// Two entries that one request could belong to alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// Indexes of the entries; `first` is the smaller one.
    pub first: usize,
    pub second: usize,
    pub reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Neither has a `when`.
    NoCondition,
    /// Both have one, and the same `order`.
    EqualOrder,
}

impl Reason {
    /// For the author, beside both places.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoCondition => "two Apis have the same pattern and neither has `when`",
            Self::EqualOrder => "two Apis have the same pattern and a `when` each, but no different `order`",
        }
    }
}

/// What one entry says for one method at one leaf; sorted, it is the table's own order.
struct Claim {
    leaf: u32,
    method: u16,
    entry: u32,
    has_when: bool,
    order: f64,
}

impl Claim {
    fn compare(&self, other: &Self) -> Ordering {
        (self.leaf, self.method, !self.has_when)
            .cmp(&(other.leaf, other.method, !other.has_when))
            .then(self.order.total_cmp(&other.order))
            .then(self.entry.cmp(&other.entry))
    }
}

/// Every pair of entries that cannot be told apart, each later one with the first of its kind.
pub fn conflicts_of<T>(entries: &[Entry<T>]) -> Vec<Conflict> {
    trie(entries).err().unwrap_or_default()
}

/// Lays all patterns out, or lists every conflict.
pub(super) fn trie<T>(entries: &[Entry<T>]) -> Result<Trie, Vec<Conflict>> {
    let mut builder = Builder { trie: empty(entries), leaves: 0 };
    let mut claims = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let leaf = builder.insert(&entry.pattern);
        let order = if entry.has_when { entry.order + 0.0 } else { 0.0 };
        let claim = |method| Claim { leaf, method, entry: at as u32, has_when: entry.has_when, order };
        match entry.pattern.methods() {
            [] => claims.push(claim(ANY)),
            methods => claims.extend(methods.iter().map(|it| claim(builder.trie.method(it)))),
        }
    }
    claims.sort_unstable_by(Claim::compare);
    let conflicts = conflicts(&claims);
    if conflicts.is_empty() { Ok(builder.settle(&claims)) } else { Err(conflicts) }
}

fn empty<T>(entries: &[Entry<T>]) -> Trie {
    let methods = || entries.iter().flat_map(|it| it.pattern.methods());
    let mut others: Vec<Method> = methods().filter(|it| !STANDARD.contains(it)).cloned().collect();
    others.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    others.dedup();
    Trie {
        rules: Vec::new(),
        nodes: Vec::new(),
        edges: Map::default(),
        names: Map::default(),
        trees: Vec::new(),
        exact: Map::default(),
        below: Map::default(),
        anywhere: NONE,
        longest_below: 0,
        depth: 0,
        others,
        names_head: methods().any(|it| it == Method::HEAD),
        names_options: methods().any(|it| it == Method::OPTIONS),
    }
}

/// A trie in the making: until [`Builder::settle`] a leaf's `from` is its number, and its `count` is 1.
struct Builder {
    trie: Trie,
    leaves: u32,
}

impl Builder {
    /// The number of a pattern's leaf, made where there is none yet.
    fn insert(&mut self, pattern: &Pattern) -> u32 {
        let tree = self.tree(pattern.host());
        let segments = pattern.segments();
        self.trie.depth = self.trie.depth.max(segments.len());
        let mut node = self.trie.trees[tree as usize].root as usize;
        for segment in segments {
            match segment {
                Segment::Literal(plain) => node = self.literal(node as u32, plain) as usize,
                Segment::Capture(_) => {
                    if self.trie.nodes[node].capture == NONE {
                        self.trie.nodes[node].capture = self.node();
                    }
                    node = self.trie.nodes[node].capture as usize;
                }
                Segment::Rest(_) => {
                    if self.trie.nodes[node].rest.count == 0 {
                        self.trie.nodes[node].rest = self.leaf();
                    }
                    return self.trie.nodes[node].rest.from;
                }
            }
        }
        if self.trie.nodes[node].end.count == 0 {
            let leaf = self.leaf();
            self.trie.nodes[node].end = leaf;
            if let Some(whole) = whole_path(segments) {
                self.trie.trees[tree as usize].fixed.insert(whole, leaf);
            }
        }
        self.trie.nodes[node].end.from
    }

    fn tree(&mut self, host: &Host) -> u32 {
        let known = match host {
            Host::Any => Some(self.trie.anywhere).filter(|it| *it != NONE),
            Host::Exact(name) => self.trie.exact.get(name).copied(),
            Host::Below(name) => self.trie.below.get(name).copied(),
        };
        if let Some(it) = known {
            return it;
        }
        let root = self.node();
        let tree = self.trie.trees.len() as u32;
        self.trie.trees.push(Tree { root, fixed: Map::default() });
        match host {
            Host::Any => self.trie.anywhere = tree,
            Host::Exact(name) => drop(self.trie.exact.insert(name.clone(), tree)),
            Host::Below(name) => {
                self.trie.longest_below = self.trie.longest_below.max(name.len());
                self.trie.below.insert(name.clone(), tree);
            }
        }
        tree
    }

    fn literal(&mut self, node: u32, plain: &[u8]) -> u32 {
        let name = match self.trie.names.get(plain) {
            Some(it) => *it,
            None => {
                let it = self.trie.names.len() as u32;
                self.trie.names.insert(plain.into(), it);
                it
            }
        };
        if let Some(child) = self.trie.edges.get(&edge(node, name)) {
            return *child;
        }
        let child = self.node();
        self.trie.nodes[node as usize].literals = true;
        self.trie.edges.insert(edge(node, name), child);
        child
    }

    fn node(&mut self) -> u32 {
        self.trie.nodes.push(Node { capture: NONE, end: Leaf::default(), rest: Leaf::default(), literals: false });
        (self.trie.nodes.len() - 1) as u32
    }

    fn leaf(&mut self) -> Leaf {
        self.leaves += 1;
        Leaf { from: self.leaves - 1, count: 1 }
    }

    /// Turns the sorted claims into rules, and the numbers of leaves into their ranges.
    fn settle(mut self, claims: &[Claim]) -> Trie {
        let mut ranges = Vec::with_capacity(self.leaves as usize);
        for leaf in claims.chunk_by(|a, b| a.leaf == b.leaf) {
            ranges.push(Leaf { from: self.trie.rules.len() as u32, count: leaf.len() as u32 });
            self.trie.rules.extend(leaf.iter().map(|it| Rule { value: it.entry, method: it.method, has_when: it.has_when }));
        }
        let nodes = self.trie.nodes.iter_mut().flat_map(|it| [&mut it.end, &mut it.rest]);
        let fixed = self.trie.trees.iter_mut().flat_map(|it| it.fixed.values_mut());
        for leaf in nodes.chain(fixed).filter(|it| it.count > 0) {
            // Invariant: each leaf was made for a claim, so the ranges stand in the order of the leaves' numbers.
            *leaf = ranges[leaf.from as usize];
        }
        self.trie
    }
}

fn conflicts(claims: &[Claim]) -> Vec<Conflict> {
    let mut found = BTreeSet::new();
    for same in claims.chunk_by(|a, b| (a.leaf, a.method, a.has_when, a.order) == (b.leaf, b.method, b.has_when, b.order)) {
        let reason = if same[0].has_when { Reason::EqualOrder } else { Reason::NoCondition };
        for later in &same[1..] {
            found.insert(Conflict { first: same[0].entry as usize, second: later.entry as usize, reason });
        }
    }
    found.into_iter().collect()
}

/// The path of a pattern that has no captures; `None` too where a literal holds a slash, which only an escape can say.
fn whole_path(segments: &[Segment]) -> Option<Box<[u8]>> {
    let mut whole = Vec::new();
    for segment in segments {
        match segment {
            Segment::Literal(plain) if !plain.contains(&b'/') => {
                whole.push(b'/');
                whole.extend_from_slice(plain);
            }
            _ => return None,
        }
    }
    Some(whole.into())
}
