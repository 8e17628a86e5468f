//! HTTP/1.1 as the gateway speaks it itself: strict about framing, and without a byte moved twice.
mod answer;
pub mod client;
mod connection;
pub mod date;
pub mod decode;
mod drain;
pub mod encode;
pub mod fields;
mod handler;
mod head;
mod inbound;
mod limits;
pub mod spare;
mod timer;

pub use connection::{Closed, serve};
pub use drain::{Drain, Seat};
pub use handler::{Handler, Incoming, Outcome, Sent};
pub use head::{Refusal, is_host, plain_number};
pub use limits::{Counters, Limits};
pub use timer::Timer;

#[cfg(test)]
mod tests;
