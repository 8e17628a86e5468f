//! What an expression is evaluated against.

use std::borrow::Cow;

use super::{Root, Value};

/// The names of an exchange, each looked up when an expression asks for it. Everything is there already: nothing here waits.
///
/// What is absent is [`Value::Null`]. Header names arrive in lower case; a value that is not UTF-8 should be given with U+FFFD in place of what is not.
pub trait Scope {
    /// A whole root: the body, a task's value, `params` as a map, …
    ///
    /// For roots that [`Scope::field`] serves without one, the map may be built here; that is asked for only by expressions over all of it
    /// (`headers.exists(h, …)`, `size(query)`).
    fn root(&self, root: Root) -> Value<'_>;

    /// One field of a root. The default takes it from [`Scope::root`]; give `Headers`, `Query`, `Cookies`, `Params` and `Request` directly.
    /// Not asked for `Body`, `ResponseBody`, `Task`, `Item` and `Error`: those are always taken whole.
    fn field(&self, root: Root, name: &str) -> Value<'_> {
        self.root(root).get(name)
    }

    /// The octets of a field of `Query`, `Headers`, `Cookies` or `ResponseHeaders` that is no UTF-8; nothing of one that is.
    fn octets(&self, root: Root, name: &str) -> Option<Cow<'_, [u8]>> {
        let _ = (root, name);
        None
    }

    /// Whether something in a root was no text, and reads as U+FFFD.
    fn is_lossy(&self, root: Root) -> bool {
        let _ = root;
        false
    }

    /// A secret by its name; only where the place allows `secret('NAME')`.
    fn secret(&self, name: &str) -> Value<'_> {
        let _ = name;
        Value::Null
    }
}

/// A scope of values that are given one by one, for tests and constant evaluation.
#[derive(Debug, Default)]
pub struct MapScope<'a> {
    roots: Vec<(Root, Value<'a>)>,
    secrets: Vec<(&'a str, &'a str)>,
}

impl<'a> MapScope<'a> {
    /// A scope in which everything is null.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this value for a root.
    pub fn with(mut self, root: Root, value: impl Into<Value<'a>>) -> Self {
        self.roots.retain(|(known, _)| *known != root);
        self.roots.push((root, value.into()));
        self
    }

    /// With this secret.
    pub fn with_secret(mut self, name: &'a str, value: &'a str) -> Self {
        self.secrets.push((name, value));
        self
    }
}

impl Scope for MapScope<'_> {
    fn root(&self, root: Root) -> Value<'_> {
        self.roots.iter().find(|(known, _)| *known == root).map_or(Value::Null, |(_, value)| value.clone())
    }

    fn secret(&self, name: &str) -> Value<'_> {
        self.secrets.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).into()
    }
}
