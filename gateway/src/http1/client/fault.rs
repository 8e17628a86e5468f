//! Why a call to a backend failed.
use contract::{BodyError, CallError};

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

    pub(super) fn of_client(error: BodyError) -> Self {
        Self { request_body: Some(error), ..Self::new(CallError::Reset, "request_body") }
    }
}
