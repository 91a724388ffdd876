//! A mixture-of-experts feed-forward block, forward and backward, from the router to the combination of the experts' results:
//!
//! ```text
//! cargo run --release -p epilogue-moe
//! ```
//!
//! It runs three cases: tokens that are spread evenly over the experts, a few experts that take most tokens, and
//! experts that no token takes. Each is held against plain loops in f64 (`loops.rs`), and the time of every part is
//! printed. `--device cuda` runs on the first GPU; `--device emulated-sm_80` and `emulated-sm_90a` run a tiny block in
//! ptx-vm.
//!
//! `block.rs` draws the block, `forward.rs` and `backward.rs` run it; `products.rs` has the epilogues of its products,
//! `expressions.rs` what is between products, and `sort.rs` the order of the rows.

#![allow(clippy::print_stdout, reason = "an example prints")]

mod arguments;
mod backward;
mod block;
mod cases;
mod check;
mod clock;
mod data;
mod expressions;
mod forward;
mod loops;
mod products;
mod report;
mod sort;
#[cfg(test)]
mod tests;
mod values;

use std::process::ExitCode;

use self::arguments::{Arguments, USAGE};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let device = arguments.device()?;
    println!("{}", report::heading(&device, &arguments));
    let results = cases::run(&device, &arguments)?;
    println!("{}", report::all(&results, &arguments.sizes));
    check::all(&results)
}
