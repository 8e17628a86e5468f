//! What one compilation leaves for the next.
use std::sync::Arc;

use schemas::Fault;

use super::api;

/// A route with what the next compilation needs to keep it.
#[derive(Clone)]
pub struct Kept {
    pub(super) compiled: Arc<api::Compiled>,
    /// Warnings and names in use, told again without compiling again.
    pub(super) faults: Arc<[Fault]>,
    pub(super) used: Arc<[Box<str>]>,
    /// The digest of its document, and the secrets that the document names: looked for once.
    pub(super) document: u128,
    pub(super) secrets: Arc<[Box<str>]>,
}
