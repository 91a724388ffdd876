//! The command `epilogue`; `epilogue --help` says what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    epilogue_command::main()
}
