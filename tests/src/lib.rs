//! The house from outside: a gateway in the same process, a client that sees every byte, backends named by what they do.
pub mod aside;
pub mod backend;
pub mod behaviour;
pub mod client;
pub mod demo;
pub mod folder;
pub mod generate;
pub mod harness;
pub mod http2;
pub mod message;
pub mod peer;
pub mod redis;
pub mod tls;
pub mod tls_front;
pub mod trpc;
pub mod websocket;
pub mod wire;
