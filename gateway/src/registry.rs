//! Where an upstream's nodes come from; one file a registry.
pub mod dns;
pub mod file;
pub mod fixed;
pub mod resolver;
