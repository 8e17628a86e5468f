//! The gateway.
pub mod registry;
pub mod render;
pub mod route;
pub mod runtime;
pub mod serve;
pub mod source;
pub mod strategy;
