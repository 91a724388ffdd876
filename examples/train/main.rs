//! A small network, trained from the first step to the last on this library's fused GEMMs: two layers with bias, GELU,
//! dropout, a residual, layer norm and cross-entropy, their backward passes, and the optimiser.
//!
//! ```text
//! cargo run --release -p epilogue-train -- --svg losses.svg
//! ```
//!
//! The losses are held against those of `train.py`, which computes the same in f64 with numpy and shares nothing with this
//! program; `losses.txt` is what it printed. `--device cuda` trains on the first GPU; `--device emulated` does one step in
//! ptx-vm and compares everything that was learned with the CPU's. `model.rs` has the network, `kernels.rs` what its products
//! compute.

#![allow(clippy::print_stdout, reason = "an example prints")]

mod arguments;
mod data;
mod kernels;
mod model;
mod parameters;
mod plot;
mod reference;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Instant;

use epilogue::Device;
use indicatif::{ProgressBar, ProgressStyle};

use self::arguments::{Arguments, On, USAGE};
use self::model::Model;
use self::reference::{Reference, TOLERANCE, largest_difference};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Steps of a training on the CPU or a GPU.
const STEPS: u32 = 300;

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
    println!("device: {device}");
    let emulated = arguments.on == On::Emulated;
    let (reference, seed) = (arguments.compare.as_deref(), arguments.seed);
    let given = reference.is_some();
    let reference = reference.map_or_else(Reference::committed, Reference::read)?;
    let expected = reference.losses_of(seed);
    if given && expected.is_none() {
        return Err(
            format!("the losses to compare with are of another seed than {seed}: give theirs with --seed").into()
        );
    }

    let steps = arguments.steps.unwrap_or(if emulated { 1 } else { STEPS });
    let (model, losses) = train(&device, seed, steps)?;
    println!("{}", plot::text(&losses));
    if let Some(file) = &arguments.svg {
        std::fs::write(file, plot::svg(&losses, expected)).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("drawn in {}", file.display());
    }
    if let Some(expected) = expected {
        compare(&losses, expected)?;
    } else {
        println!("not compared: the committed losses are of another seed (`train.py --seed {seed}` prints these)");
    }
    if emulated {
        let worst = from_the_cpu(&model, seed, steps)?;
        println!("what was learned: within {worst:.1e} of the CPU's");
    }
    Ok(())
}

/// Trains for a number of steps; gives their losses, too.
fn train(device: &Device, seed: u32, steps: u32) -> Result<(Model, Vec<f64>)> {
    let mut model = Model::new(device, seed)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, loss {msg}")?;
    let bar = ProgressBar::new(steps.into()).with_style(style);
    let (begin, mut losses) = (Instant::now(), Vec::new());
    for _ in 0..steps {
        let loss = model.step()?;
        bar.set_message(format!("{loss:.4}"));
        bar.inc(1);
        losses.push(loss);
    }
    bar.finish_and_clear();
    let time = begin.elapsed().as_secs_f64() * 1e3 / f64::from(steps);
    let (first, last) = (losses.first().copied().unwrap_or_default(), losses.last().copied().unwrap_or_default());
    println!("{steps} steps of {time:.2} ms each: the loss went from {first:.4} to {last:.4}");
    Ok((model, losses))
}

/// Fails where losses differ by more than rounding.
fn compare(losses: &[f64], expected: &[f64]) -> Result<()> {
    let both = losses.len().min(expected.len());
    let worst = largest_difference(losses, expected);
    println!("{both} losses: within {worst:.1e} of numpy's");
    if worst <= TOLERANCE {
        return Ok(());
    }
    Err(format!("losses differ by {worst:e} from numpy's, more than {TOLERANCE:e}").into())
}

/// The largest difference of what was learned to what the CPU learns, which must be rounding.
fn from_the_cpu(model: &Model, seed: u32, steps: u32) -> Result<f64> {
    let (expected, _) = train(&Device::cpu(), seed, steps)?;
    let wide = |model: &Model| -> Result<Vec<f64>> { Ok(model.parameters()?.into_iter().map(f64::from).collect()) };
    let worst = largest_difference(&wide(model)?, &wide(&expected)?);
    if worst <= TOLERANCE {
        return Ok(worst);
    }
    Err(format!("what was learned differs by {worst:e} from the CPU's, more than {TOLERANCE:e}").into())
}
