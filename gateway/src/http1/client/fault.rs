//! Why a call to a backend failed.
use std::io;

use contract::{BodyError, CallError};

use crate::dial;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, before it is known whether the call can be repeated.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: CallError,
    pub(super) reason: &'static str,
    pub(super) source: Option<Cause>,
    /// The client's body broke, which is no fault of the backend.
    pub(super) request_body: Option<BodyError>,
}

impl Fault {
    pub(super) fn new(error: CallError, reason: &'static str) -> Self {
        Self { error, reason, source: None, request_body: None }
    }

    pub(super) fn because(mut self, source: impl Into<Cause>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The connection broke while an answer was awaited.
    pub(super) fn of_read(error: io::Error) -> Self {
        match dial::refusal(&error) {
            Some(why) => Self::new(CallError::Tls, "upstream_tls").because(why),
            None => Self::new(CallError::Reset, "upstream_reset").because(error),
        }
    }

    pub(super) fn of_client(error: BodyError) -> Self {
        Self { request_body: Some(error), ..Self::new(CallError::Reset, "request_body") }
    }
}

impl From<dial::Failed> for Fault {
    fn from(it: dial::Failed) -> Self {
        Self { source: it.source, ..Self::new(it.error, it.reason) }
    }
}
