//! The command `allium`, run as people run it: what it prints, and how it ends.
mod bench;
mod check;
mod convert;
mod explain;
mod help;
mod history;
mod openapi;
mod routes;
mod schema;
mod streams;
mod test;
