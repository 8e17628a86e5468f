//! How two routes that cannot be told apart are told to their authors.
use std::sync::Arc;

use schemas::{Document, Fault};

use crate::route::build;

/// Two patterns that one request could belong to alike, told at the second.
pub fn conflict(first: (&Arc<Document>, usize), second: (&Arc<Document>, usize), reason: build::Reason) -> Fault {
    let place = |(document, at): (&Arc<Document>, usize)| {
        document.places.fault(&format!("/inbound/match/{at}"), "route-conflict", reason.message())
    };
    let other = place(first);
    place(second).help(format!("the other is {} in {}:{}", first.0.id, other.file, other.line))
}
