//! A connection that came to nothing.
use contract::CallError;

/// Why there is no connection; nothing of a request was sent.
#[derive(Debug)]
pub struct Failed {
    pub error: CallError,
    /// A short word for logs and metrics.
    pub reason: &'static str,
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Failed {
    pub(super) fn new(error: CallError, reason: &'static str) -> Self {
        Self { error, reason, source: None }
    }

    pub(super) fn because(error: CallError, reason: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { error, reason, source: Some(source.into()) }
    }
}
