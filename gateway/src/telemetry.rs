//! What the gateway tells about itself: figures, one line a request, and what went wrong.
pub mod access_log;
pub mod log;
pub mod metrics;
pub mod redact;
pub mod sink;

pub mod text;
