//! The program: everything is in `app`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentling::app::cli::main()
}
