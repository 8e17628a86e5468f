//! The table of all patterns: which one a request belongs to, however many there are.
use contract::exchange::Captures;
use http::{HeaderValue, Method};

use super::{
    build::{self, Conflict, Entry},
    host,
    path::{self, BadPath},
    pattern::STANDARD,
    trie::{ANY, CONNECT, GET, HEAD, Leaf, OPTIONS, Piece, Rule, TRACE, Trie, Walk},
};

/// All patterns of a snapshot, and what each of them leads to.
#[derive(Debug)]
pub struct Table<T> {
    values: Box<[T]>,
    trie: Trie,
}

/// What is asked of the table.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub method: &'a Method,
    /// What a CORS preflight asks for: `Access-Control-Request-Method` of an `OPTIONS` request with `Origin`.
    pub preflight: Option<&'a Method>,
    /// As received; a port may follow.
    pub host: &'a str,
    /// As received, without the query.
    pub path: &'a str,
}

/// What the table knows of a request.
#[derive(Debug)]
pub enum Found<'t, T> {
    /// The most specific pattern that fits.
    Route {
        value: &'t T,
        /// A `HEAD` that a `GET` pattern serves.
        head_as_get: bool,
        /// A preflight, routed as the method that it asks for.
        preflight: bool,
    },
    /// 405: the path is known, but not for this method.
    MethodNotAllowed {
        allow: HeaderValue,
    },
    NotFound,
    BadPath(BadPath),
}

/// Segments that a lookup keeps on its stack; a table with longer patterns costs it an allocation.
const INLINE: usize = 16;

impl<T> Table<T> {
    /// Builds the table; every pair of entries that cannot be told apart is listed, each later one with the first of its kind.
    ///
    /// Patterns that differ only in the names of captures are the same pattern, and so are those that share a method.
    pub fn build(entries: Vec<Entry<T>>) -> Result<Self, Vec<Conflict>> {
        let trie = build::trie(&entries)?;
        Ok(Self { values: entries.into_iter().map(|it| it.value).collect(), trie })
    }

    /// All values, by the index of their entry.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The most specific pattern that fits the request, and whose `when` passes.
    ///
    /// `captures` is cleared and, for a route, filled with spans of the path, in the order of the pattern.
    /// `accept` is asked only about entries that have a `when`, perhaps twice; the spans are those of the entry in question.
    pub fn find(&self, ask: &Ask<'_>, captures: &mut Captures, accept: impl FnMut(&T, &[(u32, u32)]) -> bool) -> Found<'_, T> {
        captures.clear();
        let escaped = match path::check(ask.path) {
            Ok(it) => it,
            Err(bad) => return Found::BadPath(bad),
        };
        if !ask.path.starts_with('/') || u32::try_from(ask.path.len()).is_err() {
            return Found::NotFound;
        }
        let mut buffer = [0; 254];
        let host = if self.trie.names_hosts() { host::normalise(ask.host, &mut buffer) } else { None };
        let inline = [const { Piece::new() }; INLINE];
        let heap;
        let pieces = match inline.get(..self.trie.depth) {
            Some(it) => it,
            None => {
                heap = vec![Piece::new(); self.trie.depth];
                &heap[..]
            }
        };
        Search { table: self, host, walk: Walk::new(ask.path, escaped, pieces), captures, accept }.find(ask)
    }
}

/// One lookup.
struct Search<'t, 's, T, F> {
    table: &'t Table<T>,
    host: Option<&'s str>,
    walk: Walk<'s>,
    captures: &'s mut Captures,
    accept: F,
}

impl<'t, T, F: FnMut(&T, &[(u32, u32)]) -> bool> Search<'t, '_, T, F> {
    fn find(mut self, ask: &Ask<'_>) -> Found<'t, T> {
        let trie = &self.table.trie;
        let mut wanted = trie.method(ask.method);
        let mut preflight = false;
        if wanted == OPTIONS
            && let Some(asked) = ask.preflight
            && !(trie.names_options && self.first(OPTIONS, OPTIONS).is_some())
        {
            wanted = trie.method(asked);
            preflight = true;
        }
        let mut head_as_get = false;
        if wanted == HEAD && !(trie.names_head && self.first(HEAD, HEAD).is_some()) {
            wanted = GET;
            head_as_get = true;
        }
        // TRACE shows a request as the backend got it, added secrets too (RFC 9110 §9.3.8), so only a pattern that names it gets it.
        let other = if wanted == TRACE { TRACE } else { ANY };
        match self.first(wanted, other) {
            Some(rule) => {
                let value = &self.table.values[rule.value as usize];
                Found::Route { value, head_as_get: head_as_get && rule.method == GET, preflight }
            }
            None => self.otherwise(),
        }
    }

    /// The most specific rule for `method` or `other`; the captures are its own.
    fn first(&mut self, method: u16, other: u16) -> Option<&'t Rule> {
        self.captures.clear();
        let Self { table, host, walk, captures, accept } = self;
        let trie = &table.trie;
        let mut found = None;
        // A fixed path's leaf is the first that the walk reaches too; it is asked once.
        let mut asked = Leaf::default();
        let mut visit = |leaf: Leaf, captures: &[(u32, u32)]| {
            if leaf != asked {
                let fits = |it: &&Rule| it.method == method || it.method == other;
                found = trie.rules(leaf).iter().filter(fits).find(|it| passes(table, it, captures, accept));
            }
            asked = leaf;
            found.is_some()
        };
        trie.trees(*host, |tree| {
            if !walk.escaped
                && !tree.fixed.is_empty()
                && let Some(leaf) = tree.fixed.get(walk.path.as_bytes())
                && visit(*leaf, &[])
            {
                return true;
            }
            trie.walk(tree, walk, captures, &mut visit)
        });
        found
    }

    /// Nothing fits: is the path known for other methods? A pattern whose `when` fails is not known to this request.
    fn otherwise(mut self) -> Found<'t, T> {
        self.captures.clear();
        let Self { table, host, walk, captures, accept } = &mut self;
        let trie = &table.trie;
        let mut allowed: Vec<u16> = Vec::new();
        let mut visit = |leaf: Leaf, captures: &[(u32, u32)]| {
            for rule in trie.rules(leaf) {
                if !allowed.contains(&rule.method) && passes(table, rule, captures, accept) {
                    allowed.push(rule.method);
                }
            }
            false
        };
        trie.trees(*host, |tree| trie.walk(tree, walk, captures, &mut visit));
        // Reached with a pattern of any method only by TRACE, which such a pattern does not mean.
        if allowed.contains(&ANY) {
            allowed.retain(|it| *it != ANY);
            let usual = (0..STANDARD.len() as u16).filter(|it| ![TRACE, CONNECT].contains(it));
            allowed.extend(usual.filter(|it| !allowed.contains(it)).collect::<Vec<_>>());
        }
        if allowed.contains(&GET) && !allowed.contains(&HEAD) {
            allowed.push(HEAD);
        }
        allowed.sort_unstable();
        let names: Vec<&str> = allowed.iter().filter_map(|it| trie.method_name(*it)).collect();
        match HeaderValue::try_from(names.join(", ")) {
            Ok(allow) if !names.is_empty() => Found::MethodNotAllowed { allow },
            _ => Found::NotFound,
        }
    }
}

fn passes<T>(table: &Table<T>, rule: &Rule, captures: &[(u32, u32)], accept: &mut impl FnMut(&T, &[(u32, u32)]) -> bool) -> bool {
    !rule.has_when || accept(&table.values[rule.value as usize], captures)
}
