//! Where definitions come from, and how they are changed there; one file a kind of source.
pub mod change;
pub mod dir;
