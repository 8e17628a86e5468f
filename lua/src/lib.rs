//! The room for authors' scripts in Lua; empty for now: no script is compiled or run yet, and the gateway does not depend on it.
//!
//! Absent, on purpose, until scripts come: compiled scripts and their virtual machines with budgets of time and memory, the exchange as a
//! script sees it, hooks, and the atomic scripts that run in Redis. A definition that names a script is refused as known, not built.
