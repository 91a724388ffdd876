//! Checks and measures `epilogue` on this machine's GPU: correctness first, then speed against its peers.
//!
//! ```text
//! epilogue-gpu [--tier N] [--out FOLDER] [--device cuda|emulated|cpu] [--seconds S] [--only TEXT] [--list]
//! ```
//!
//! Every step appends its records to `FOLDER/results.jsonl`, one JSON object per line. A step is skipped if its records
//! for this commit and device are already there. An interrupted run therefore continues where it stopped. A peer or
//! tool that this machine lacks is recorded, and is not an error. `--device emulated` and `--device cpu` rehearse
//! everything on a machine without a GPU: with tiny problems, and no time is recorded as a speed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod agenda;
mod conformance;
mod copy;
mod correctness;
mod estimate;
mod fit;
mod fused;
mod gemm;
mod machine;
mod options;
mod peers;
mod process;
mod ranks;
mod record;
mod run;
mod sanitizer;
mod step;
mod table;
mod te;
mod timing;
mod watch;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;

use crate::options::Options;

/// Why a step, or the whole run, failed: for a person to read.
type Failure = Box<dyn std::error::Error>;
type Outcome<T> = Result<T, Failure>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        // The sanitizer step runs this under compute-sanitizer.
        Some("family") => correctness::one_of_family(&words[1..]).map(|()| true),
        Some("work") => worker::serve(&words[1..]).map(|()| true),
        // `cargo xtask gpu-bundle` runs this, so that the GPU machine need not compile.
        Some("precompile") => gemm::precompile(&words[1..]).map(|()| true),
        // `cargo xtask fit` runs this.
        Some("fit") => fit::print(&words[1..]).map(|()| true),
        _ => run::run(&Options::parse()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(2)
        }
    }
}
