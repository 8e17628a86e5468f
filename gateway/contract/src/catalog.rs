//! How a ring is made from what its author wrote.
use std::sync::Arc;

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;

use crate::{
    caller::{Authenticated, Authenticator},
    env::Env,
    onion::{Filter, Plugin, RingKind},
};

/// A fault in a plugin's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON Pointer into the plugin's configuration; empty for the whole.
    pub pointer: String,
    /// Where in the string at `pointer` the fault is, in bytes: an expression's.
    pub within: Option<(usize, usize)>,
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
}

impl Fault {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), within: None, message: message.into(), help: None }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A plugin, as the gateway knows it: the one thing a plugin file hands out.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    /// One sentence, for `explain`, the manual and the schema.
    pub about: &'static str,
    /// What the ring looks at, and what it may answer: `explain` prints both.
    pub notes: RingNotes,
    pub schema: fn() -> Schema,
    pub build: fn(serde_json::Value, &Env<'_>) -> Result<RingKind, Vec<Fault>>,
}

/// What `explain` and the checks of order say about a ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingNotes {
    /// Such as `the head`, `the head and the body`.
    pub reads: &'static str,
    /// Such as `403`, `204 to a preflight`; empty when it never answers by itself.
    pub answers: &'static str,
    /// Sets `auth`, `app` and `plan` for the rings inside it.
    pub authenticates: bool,
    /// Rewrites the body on the way out.
    pub rewrites_body: bool,
}

/// Makes a ring of one kind. Every plugin file has a `Config`, and this.
pub trait Configure: Sized {
    /// As written; unknown fields are errors, every field has a doc comment.
    type Config: DeserializeOwned + JsonSchema;
    const NAME: &'static str;
    const ABOUT: &'static str;
    const NOTES: RingNotes;
    /// Pure but for what it asks of `env`; lists every fault.
    fn configure(config: Self::Config, env: &Env<'_>) -> Result<Self, Vec<Fault>>;
}

pub const fn plugin<P: Plugin + Configure>() -> Entry {
    Entry {
        name: P::NAME,
        about: P::ABOUT,
        notes: P::NOTES,
        schema: || schemars::schema_for!(P::Config),
        build: |config, env| Ok(RingKind::Plugin(Arc::new(P::configure(read(config)?, env)?))),
    }
}

/// A plugin that says who is calling.
pub const fn authenticator<A: Authenticator + Configure>() -> Entry {
    Entry {
        name: A::NAME,
        about: A::ABOUT,
        notes: A::NOTES,
        schema: || schemars::schema_for!(A::Config),
        build: |config, env| Ok(RingKind::Plugin(Arc::new(Authenticated(A::configure(read(config)?, env)?)))),
    }
}

pub const fn filter<F: Filter + Configure>() -> Entry {
    Entry {
        name: F::NAME,
        about: F::ABOUT,
        notes: F::NOTES,
        schema: || schemars::schema_for!(F::Config),
        build: |config, env| Ok(RingKind::Filter(Box::new(F::configure(read(config)?, env)?))),
    }
}

/// The configuration has been checked against the schema, with places, before this: what fails here is the rest.
fn read<C: DeserializeOwned>(config: serde_json::Value) -> Result<C, Vec<Fault>> {
    serde_json::from_value(config).map_err(|it| vec![Fault::new("", it.to_string())])
}
