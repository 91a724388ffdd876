//! `cargo xtask soak`: random schedules for a number of minutes, always new ones.

use std::fs;

use crate::say::say;
use crate::suite::Seed;
use crate::tools;
use crate::workspace::{Failure, cargo, root};

/// The options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long.
    #[arg(long, value_name = "N", default_value = "10", value_parser = minutes)]
    minutes: f64,
    /// Draws from this number, or from another one each time (`new`).
    #[arg(long, value_name = "N", default_value = "new")]
    seed: Seed,
    /// Only computations whose name contains the text, such as `scan` or `convolution`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    of: String,
    /// Any primitives only, or only programs of the field under schedules that one writes.
    #[arg(long)]
    generator: Option<Generator>,
    /// How many in a thousand run on the emulated GPU, too.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=1000))]
    emulate: u32,
    /// Tries one seed that failed, with the same other options.
    #[arg(long = "try", value_name = "SEED")]
    only: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Generator {
    Primitives,
    Programs,
}

fn minutes(text: &str) -> Result<f64, String> {
    let positive = text.parse().ok().filter(|n: &f64| *n > 0.0 && *n < 1e6);
    positive.ok_or_else(|| "a positive number of minutes is wanted".to_owned())
}

/// Runs the test `soak` of `tests/te/schedule`, which gets its options from environment variables.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    say!("--seed {}", options.seed);
    let packages = tools::install_pinned()?;
    let generator = options.generator.map_or("", |generator| match generator {
        Generator::Primitives => "primitives",
        Generator::Programs => "programs",
    });
    let mut command = cargo(&["test", "--workspace", "--test", "te", "--"]);
    command.args(["schedule::soak::soak", "--exact", "--nocapture"]);
    command.env("EPILOGUE_NVRTC", tools::nvrtc_in(&packages)?).env("EPILOGUE_REQUIRE_NVRTC", "1");
    command.env("EPILOGUE_TOOLS", tools::folder()).env("EPILOGUE_CACHE", root().join("target/kernel-cache"));
    command.env("EPILOGUE_SOAK_MINUTES", options.minutes.to_string());
    command.env("EPILOGUE_SOAK_SEED", options.seed.to_string());
    command.env("EPILOGUE_SOAK_OF", &options.of).env("EPILOGUE_SOAK_GENERATOR", generator);
    command.env("EPILOGUE_SOAK_EMULATE", options.emulate.to_string());
    command.env("EPILOGUE_SOAK_ONLY", options.only.map(|seed| seed.to_string()).unwrap_or_default());
    if command.status()?.success() {
        return Ok(());
    }
    // A trial that ends the process can't report itself.
    match fs::read_to_string(root().join("target/tmp/soak.current")) {
        Ok(current) => Err(format!("it ended while it tried: {}", current.trim()).into()),
        Err(_) => Err("a schedule fails; its report is above".into()),
    }
}
