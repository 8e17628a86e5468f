//! Authors' scripts in Lua: compiled when definitions load, run in one sandboxed machine a thread, each run within its own budgets.
//!
//! The engine is Luau. Deliberately absent: files, processes, sockets, loading of code at run time, and any way from one script to another's state.
mod budget;
mod cache;
mod json;
mod library;
mod machine;
pub mod redis;
mod sandbox;
mod script;
mod view;

pub use budget::Trip;
pub use cache::Cache;
pub use machine::{Failure, Hook, Machines, Ran};
pub use script::{Limits, LoadError, Reader, Script, Source};
