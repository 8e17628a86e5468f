//! Where definitions come from; one file a kind of source.
pub mod dir;
