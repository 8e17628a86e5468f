//! The command `allium`; the only file that knows which plugins there are.
use std::process::ExitCode;

/// With many requests under way at once, the system's allocator falls out of its thread caches; this one costs a third then.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gateway::command::main(std::env::args_os(), plugins::ALL)
}
