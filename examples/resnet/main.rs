//! ResNet-50 (He et al., 2015; its variant whose 3×3 convolutions have the strides) on generated weights and images: every
//! convolution with its batch normalisation, shortcut and activation is one launch.
//!
//! ```text
//! cargo run --release -p epilogue-resnet -- --images 4
//! ```
//!
//! It runs twice: first as in inference, where a batch normalisation is a factor and a summand for each channel. Then
//! as in training, where the convolution's own launch gives the batch's means and variances, and normalises by them.
//! Both are compared with plain loops in f64 (`loops.rs`), two channels of every convolution at all places.
//! `--device emulated` does the same with a tiny network in ptx-vm; `beside_torch.py` compares the time with torch's.
//! `network.rs` has the network, and `kernels.rs` what is computed.

#![allow(clippy::print_stdout, reason = "an example prints")]

mod arguments;
mod convolution;
mod kernels;
mod loops;
mod network;
#[cfg(test)]
mod tests;
mod times;

use std::process::ExitCode;

use epilogue::Device;
use indicatif::{ProgressBar, ProgressStyle};

use self::arguments::{Arguments, On, USAGE};
use self::network::{Mode, Network, Size};
use self::times::Times;

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
    let is_tiny = arguments.tiny || arguments.on == On::Emulated;
    let size = if is_tiny { Size::tiny(arguments.images) } else { Size::whole(arguments.images) };
    println!("device: {device}; {} images of {}×{}×3", size.images, size.extent, size.extent);
    let runs = if arguments.on == On::Emulated { 1 } else { arguments.runs };
    for (mode, name) in [(Mode::Inference, "inference"), (Mode::Training, "forward pass of a training")] {
        println!("\n{name}");
        both(&device, &size, mode, arguments.seed, runs)?;
    }
    Ok(())
}

/// Runs the network, prints its times, and compares its results with loops.
fn both(device: &Device, size: &Size, mode: Mode, seed: u64, runs: usize) -> Result<()> {
    let mut network = Network::new(device, size, mode, seed)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} launches")?;
    let bar = ProgressBar::new((network.steps.len() * (runs + 1)) as u64).with_style(style);
    let mut times = Times::new(network.steps.len());
    let stream = device.default_stream();
    // The first run compiles what the others run.
    for run in 0..=runs {
        times.begin();
        network.run(|step| {
            if run > 0 {
                stream.synchronize()?;
                times.end_of(step);
            }
            bar.inc(1);
            Ok(())
        })?;
    }
    bar.finish_and_clear();
    println!("{}", times.table(&network));
    let compared = loops::compare(&network)?;
    let (numbers, worst) = (compared.numbers, compared.worst * 100.0);
    println!(
        "{numbers} numbers compared with plain loops: all within rounding (at most {worst:.1} % of what is allowed)"
    );
    Ok(())
}
