//! How the patterns of a table lie in memory: one trie of segments for each host, and how it is walked.
use std::{cell::Cell, collections::HashMap};

use contract::exchange::Captures;
use foldhash::fast::RandomState;
use http::Method;

use super::{path, pattern::STANDARD};

pub(super) type Map<K, V> = HashMap<K, V, RandomState>;

/// All patterns, without what they lead to.
///
/// A segment's text is hashed once a lookup; from then on it is a number, and a step is one probe of one table.
/// Invariant: a walk visits a node at most once, so a hostile path costs at most the nodes whose patterns it begins
/// like, never more than the table holds.
#[derive(Debug)]
pub(super) struct Trie {
    /// Grouped by leaf, in the order in which they are asked.
    pub(super) rules: Vec<Rule>,
    pub(super) nodes: Vec<Node>,
    /// Child by node (high half) and segment (low half).
    pub(super) edges: Map<u64, u32>,
    /// Decoded literal segments of all patterns.
    pub(super) names: Map<Box<[u8]>, u32>,
    pub(super) trees: Vec<Tree>,
    pub(super) exact: Map<Box<str>, u32>,
    pub(super) below: Map<Box<str>, u32>,
    pub(super) anywhere: u32,
    /// Bytes of the longest `d` of all `*.d`.
    pub(super) longest_below: usize,
    /// Segments of the longest pattern.
    pub(super) depth: usize,
    /// Methods that patterns name beyond the standard ones, sorted.
    pub(super) others: Vec<Method>,
    pub(super) names_head: bool,
    pub(super) names_options: bool,
}

/// One host's patterns.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: u32,
    /// The leaves of patterns without captures, by their whole path: nothing is more specific.
    pub(super) fixed: Map<Box<[u8]>, Leaf>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) capture: u32,
    /// Patterns that end here.
    pub(super) end: Leaf,
    /// Patterns that take all that is left.
    pub(super) rest: Leaf,
    pub(super) literals: bool,
}

/// Rules of the patterns that are the same but for methods and conditions: a range of [`Trie::rules`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) from: u32,
    pub(super) count: u32,
}

/// One method of one entry; named methods stand before [`ANY`].
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) value: u32,
    pub(super) method: u16,
    pub(super) has_when: bool,
}

pub(super) const NONE: u32 = u32::MAX;
pub(super) const GET: u16 = 0;
pub(super) const HEAD: u16 = 1;
pub(super) const OPTIONS: u16 = 6;
pub(super) const TRACE: u16 = 7;
pub(super) const CONNECT: u16 = 8;
/// A pattern without methods.
pub(super) const ANY: u16 = u16::MAX;
/// A request's method that no pattern names.
pub(super) const UNNAMED: u16 = u16::MAX - 1;

/// A path that is walked. Its segments are cut when a walk first needs them.
pub(super) struct Walk<'a> {
    pub(super) path: &'a str,
    pub(super) escaped: bool,
    pieces: &'a [Piece],
    /// How many segments the path has, at most one more than `pieces`; 0 until they are cut.
    total: Cell<usize>,
}

/// One segment of the path; its name is looked up when a node first asks.
#[derive(Clone)]
pub(super) struct Piece {
    from: Cell<u32>,
    to: Cell<u32>,
    name: Cell<u32>,
}

/// Not looked up yet.
const UNREAD: u32 = u32::MAX - 1;

impl Piece {
    pub(super) const fn new() -> Self {
        Self { from: Cell::new(0), to: Cell::new(0), name: Cell::new(UNREAD) }
    }
}

impl<'a> Walk<'a> {
    /// `pieces` are as many as the longest pattern has segments.
    pub(super) fn new(path: &'a str, escaped: bool, pieces: &'a [Piece]) -> Self {
        Self { path, escaped, pieces, total: Cell::new(0) }
    }

    fn total(&self) -> usize {
        if self.total.get() == 0 {
            self.cut();
        }
        self.total.get()
    }

    /// A path longer than every pattern is cut only as far as a pattern can reach.
    fn cut(&self) {
        let mut total = 0;
        for (from, to) in path::segments(self.path) {
            total += 1;
            let Some(piece) = self.pieces.get(total - 1) else { break };
            piece.from.set(from);
            piece.to.set(to);
        }
        self.total.set(total);
    }
}

impl Trie {
    /// Whether any pattern names a host.
    pub(super) fn names_hosts(&self) -> bool {
        !self.exact.is_empty() || self.longest_below > 0
    }

    /// The trees for a host, most specific first, until one of them `stops`.
    pub(super) fn trees(&self, host: Option<&str>, mut stops: impl FnMut(&Tree) -> bool) {
        if let Some(host) = host {
            if !self.exact.is_empty()
                && let Some(tree) = self.exact.get(host)
                && stops(&self.trees[*tree as usize])
            {
                return;
            }
            let mut rest = if self.longest_below > 0 { host } else { "" };
            while let Some((_, parent)) = rest.split_once('.') {
                if parent.len() <= self.longest_below
                    && let Some(tree) = self.below.get(parent)
                    && stops(&self.trees[*tree as usize])
                {
                    return;
                }
                rest = parent;
            }
        }
        if self.anywhere != NONE {
            stops(&self.trees[self.anywhere as usize]);
        }
    }

    /// Visits the leaves of a tree that fit the path, most specific first; true when one of them stopped the walk.
    pub(super) fn walk(
        &self,
        tree: &Tree,
        walk: &Walk<'_>,
        captures: &mut Captures,
        visit: &mut impl FnMut(Leaf, &[(u32, u32)]) -> bool,
    ) -> bool {
        self.descend(tree.root, 0, walk, captures, visit)
    }

    /// Literal before capture before rest.
    fn descend(
        &self,
        at: u32,
        depth: usize,
        walk: &Walk<'_>,
        captures: &mut Captures,
        visit: &mut impl FnMut(Leaf, &[(u32, u32)]) -> bool,
    ) -> bool {
        let node = &self.nodes[at as usize];
        if depth == walk.total() {
            return node.end.count > 0 && visit(node.end, captures);
        }
        let Some(piece) = walk.pieces.get(depth) else { return false };
        if node.literals {
            let name = self.name(piece, walk);
            if name != NONE
                && let Some(child) = self.edges.get(&edge(at, name))
                && self.descend(*child, depth + 1, walk, captures, visit)
            {
                return true;
            }
        }
        let (from, to) = (piece.from.get(), piece.to.get());
        if from == to {
            return false;
        }
        if node.capture != NONE {
            captures.push((from, to));
            if self.descend(node.capture, depth + 1, walk, captures, visit) {
                return true;
            }
            captures.pop();
        }
        if node.rest.count > 0 {
            captures.push((from, walk.path.len() as u32));
            if visit(node.rest, captures) {
                return true;
            }
            captures.pop();
        }
        false
    }

    fn name(&self, piece: &Piece, walk: &Walk<'_>) -> u32 {
        let known = piece.name.get();
        if known != UNREAD {
            return known;
        }
        let text = &walk.path.as_bytes()[piece.from.get() as usize..piece.to.get() as usize];
        let name = if walk.escaped && memchr::memchr(b'%', text).is_some() {
            let mut plain = Vec::with_capacity(text.len());
            match path::decode(text, &mut plain) {
                Ok(()) => self.names.get(&plain[..]),
                Err(_) => None,
            }
        } else {
            self.names.get(text)
        };
        let name = name.copied().unwrap_or(NONE);
        piece.name.set(name);
        name
    }

    pub(super) fn rules(&self, leaf: Leaf) -> &[Rule] {
        let from = leaf.from as usize;
        &self.rules[from..from + leaf.count as usize]
    }

    /// A method's number: its place among the standard ones, then among the others.
    pub(super) fn method(&self, method: &Method) -> u16 {
        match *method {
            Method::GET => GET,
            Method::POST => 2,
            _ => match STANDARD.iter().position(|it| it == method) {
                Some(at) => at as u16,
                None => {
                    let at = self.others.binary_search_by(|it| it.as_str().cmp(method.as_str())).ok();
                    at.and_then(|at| u16::try_from(STANDARD.len() + at).ok()).map_or(UNNAMED, |it| it.min(UNNAMED))
                }
            },
        }
    }

    pub(super) fn method_name(&self, number: u16) -> Option<&str> {
        let number = usize::from(number);
        STANDARD.get(number).or_else(|| self.others.get(number.checked_sub(STANDARD.len())?)).map(Method::as_str)
    }
}

pub(super) fn edge(node: u32, name: u32) -> u64 {
    u64::from(node) << 32 | u64::from(name)
}
