//! A tree against a JSON Schema as `schemars` makes it.

use serde_json::Value as Json;

use crate::{
    check::Checker,
    source::Span,
    tree::{Node, Path},
};

/// A JSON Schema, ready for checking.
#[derive(Debug)]
pub struct Schema {
    root: Json,
}

impl Schema {
    /// A schema.
    pub fn new(root: Json) -> Self {
        Self { root }
    }

    pub(crate) fn check(&self, _node: &Node<'_>, _owner: Span, _path: &Path<'_>, _checker: &mut Checker<'_>) {
        let _ = &self.root;
    }
}
