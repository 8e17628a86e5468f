//! HTTP/1.1 as the gateway speaks it itself: strict about framing, and without a byte moved twice.
pub mod decode;
pub mod encode;
pub mod fields;
