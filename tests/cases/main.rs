//! The gateway from outside: a case for each sentence of the manual.
mod harness;
