//! What must hold about the source itself, as tests: floors, packages, files, examples, documents.
//!
//! Every rule is a function over text, tried on small bad examples beside it, so that each is known to be able to fail.
mod documents;
mod files;
mod floors;
mod packages;
mod plugins;
mod source;
mod tree;

/// Fails with every fault at once.
#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} to tidy:\n  {}", faults.len(), faults.join("\n  "));
}
