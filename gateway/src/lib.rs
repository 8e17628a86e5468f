//! The gateway: definitions become routes, requests go through them.
//!
//! Floors, top down; a file imports only lower ones: `app`, `admin`, `reload`, `listen`, `compile`, `serve`, `route`, `target`, `pipeline`, `upstream`, and
//! leaves that do not import each other.
pub mod admin;
pub mod app;
pub mod command;
pub mod compile;
pub mod dial;
pub mod digest;
pub mod http1;
pub mod http2;
pub mod listen;
pub mod openapi;
pub mod params;
pub mod pipeline;
pub mod proxy;
pub mod registry;
pub mod reload;
pub mod render;
pub mod route;
pub mod runtime;
pub mod serve;
pub mod settings;
pub mod source;
pub mod store;
pub mod strategy;
pub mod target;
pub mod telemetry;
pub mod upstream;
