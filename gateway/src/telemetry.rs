//! What the gateway tells about itself: figures, one line a request, and what went wrong.
pub mod metrics;
