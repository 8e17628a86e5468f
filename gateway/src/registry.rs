//! Where an upstream's nodes come from; one file a registry.
pub mod fixed;
