//! Which Api a request belongs to.
pub mod api;
pub mod build;
pub mod host;
pub mod path;
pub mod pattern;
pub mod table;
mod trie;

#[cfg(test)]
mod table_tests;
