//! What the parts promise each other: the words that plugins and the gateway share.
//!
//! Invariant: imports nothing of ours.
//! Deliberately absent: anything that knows a wire protocol, a file or a thread.
pub mod body;
pub mod caller;
pub mod catalog;
pub mod collector;
pub mod discovery;
pub mod env;
pub mod exchange;
pub mod expression;
pub mod json;
pub mod local;
pub mod meter;
pub mod multipart;
pub mod onion;
pub mod problem;
pub mod scope;
pub mod source;
pub mod store;
pub mod testkit;
pub mod value;

pub use body::{Body, BodyError};
pub use exchange::{Exchange, Peer, RouteInfo, Scheme};
pub use problem::{CallError, Kind, Origin, Problem};
pub use value::Value;

/// How an exchange ends.
pub type Outcome = Result<http::Response<Body>, Box<Problem>>;
