//! The gateway from outside: a case for each sentence of the manual.
mod admin;
mod answers;
mod bytes;
mod examples;
mod failures;
mod forwarding;
mod framing;
mod harness;
mod lifecycle;
mod onion;
mod params;
mod reload;
mod respond;
mod routing;
mod scale;
mod soak;
mod streaming;
