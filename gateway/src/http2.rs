//! HTTP/2 with clients (RFC 9113): the same handler as HTTP/1 has, on many streams at once, within bounds of its own.
mod answer;
mod connection;
mod head;
mod inbound;
mod limits;
mod stream;
mod watch;

pub use connection::{Ending, serve};
pub use limits::{Flood, Limits};
