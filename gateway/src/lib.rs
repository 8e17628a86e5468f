//! The gateway.
pub mod registry;
pub mod strategy;
