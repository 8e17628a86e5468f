//! What an author writes: the messages of all definitions, and the way between files and messages, with every fault in its place.
//!
//! ```text
//! files ─ folder::collect ─▶ Vec<Input> ─ load ─▶ Loaded { documents, broken, faults }
//!                                                     │
//!                       Document { id, message, digest, files, places }
//! ```
//!
//! - [`load`] reads files (`.yaml`, `.yml`, `.json`, `.binpb`) on several threads and tells every fault of every file at once.
//! - A [`Document`] holds the message ([`Definition`], of [`v1`] types) and [`Places`]: later stages find by a JSON pointer
//!   where a value was written, and tell their own faults there: `document.places.fault("/proxy/timeout", "code", "message")`.
//! - [`Options::judge`] is asked about every expression, condition, template and pattern; [`Options::plugins`] holds the
//!   schemas of the plugins' configs.
//! - [`render`] tells faults as text, JSON or SARIF; [`hide`] keeps secrets out of what is shown.
//! - [`convert`] writes definitions as YAML, JSON or protobuf, [`format`](mod@format) lays a file out, [`diff`] compares by meaning,
//!   [`json_schema`] describes the YAML to editors.
//! - [`units`] are durations, sizes, rates and percents as they are written.
//!
//! The messages in `allium/v1/*.proto` say in options how each is written; one walker over their descriptors checks, converts
//! and makes the JSON Schema. Nothing else in this crate knows the name of a key, but for rings and names of documents.
//! This package imports nothing of ours.

mod check;
mod convert;
mod diff;
mod document;
pub mod emit;
mod fault;
pub mod folder;
mod form;
pub mod format;
pub mod hide;
mod inside;
mod json;
mod json_schema;
mod load;
mod near;
mod parallel;
mod plugin;
pub mod render;
mod shape;
mod source;
pub mod tree;
mod unit_config;
pub mod units;
mod wire;
mod write;
pub mod yaml;

/// The messages: what was written, as it was written. Units, expressions and short forms are texts.
pub mod v1 {
    #![allow(clippy::all, missing_docs, rust_2018_idioms)]
    include!(concat!(env!("OUT_DIR"), "/allium.v1.rs"));
}

pub use check::{Finding, Judge, Severity, TextAt};
pub use convert::{Written, convert};
pub use diff::{Change, Edit, diff};
pub use document::{Broken, Definition, Document, Id, Kind, Partial, Place, Places};
pub use fault::Fault;
pub use form::{Form, TextFault};
pub use json_schema::json_schema;
pub use load::{Input, Loaded, MAX_FILE, Options, load};
pub use near::nearest;
pub use parallel::parallel;
pub use plugin::{Plugins, Schema};
pub use shape::descriptor_set;
pub use source::{Excerpt, Position, Source, Span};
