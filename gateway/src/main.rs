//! The command `allium`; the only file that knows which plugins there are.
use std::process::ExitCode;

fn main() -> ExitCode {
    gateway::command::main(std::env::args_os(), plugins::ALL)
}
