//! The command `epilogue`: an epilogue's text in; its tree, the choice of a kernel, its CUDA C++, PTX, machine code and a C
//! header out; a run on random data with the reference's verdict.
//!
//! `cargo install epilogue-cli` installs it, and `epilogue --help` teaches it. As a library it has the reading of texts,
//! for its tests; nothing of it is a stable interface.
//!
//! It reads the language with the macros' own front end (`epilogue-syntax`), and does with the library what a program
//! would: a program would run what it prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod bench;
mod check;
mod choose;
mod data;
mod emit;
mod failure;
mod header;
mod options;
mod plan;
mod progress;
mod run;
mod sass;
pub mod source;
mod tree;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::failure::Failure;
use crate::options::{CommandLine, Task};

/// Deep enough for the longest statement that is read, in a debug build.
const STACK_BYTES: usize = 1 << 28;

/// Runs the command line of this process. The status is 0 if all is well, and 1 if a kernel does not compile or a
/// result is wrong. It is 2 for a refused request.
#[must_use]
pub fn main() -> ExitCode {
    let command = match CommandLine::try_parse() {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || done(&command.task));
    let result = match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::Wrong("this is a bug of the command: please report it with what you gave".into())),
        Err(error) => Err(Failure::refused(format!("no thread to work on: {error}"))),
    };
    match result {
        Ok(text) => {
            // Whoever reads may have read enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            if let Failure::Judged(text) = &failure {
                let _ = std::io::stdout().write_all(text.as_bytes());
            } else {
                let _ = writeln!(std::io::stderr(), "{failure}");
            }
            ExitCode::from(failure.status())
        }
    }
}

/// The text that a task prints.
fn done(task: &Task) -> Result<String, Failure> {
    match task {
        Task::Tree(options) => tree::tree(options),
        Task::Choose(options) => choose::choose(options),
        Task::Emit(options) => emit::emit(options),
        Task::Check(options) => check::check(options),
        Task::Run(options) => run::run(options),
        Task::Bench(options) => bench::bench(options),
    }
}
