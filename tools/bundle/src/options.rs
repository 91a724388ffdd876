//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::Outcome;

/// Where the steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// The first GPU.
    Cuda,
    /// ptx-vm: a rehearsal on small problems, without a GPU.
    Emulated,
    /// The CPU device: a rehearsal where there is no NVRTC either.
    Cpu,
}

impl On {
    pub(crate) fn parse(word: &str) -> Outcome<Self> {
        let known = <Self as ValueEnum>::from_str(word, false);
        known.map_err(|_| format!("there is no device {word}: cuda, emulated or cpu").into())
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Emulated => "emulated",
            Self::Cpu => "cpu",
        }
    }
}

const STATUS: &str = "\
The status is 0 where nothing failed (steps may be left, which the last line says), 1 where a step failed or found a wrong
result, 2 where nothing could begin.";

/// Every check and every measurement of the project, for a machine with a GPU.
#[derive(Clone, Debug, Parser)]
#[command(name = "epilogue-gpu", max_term_width = 100, after_help = STATUS)]
pub(crate) struct Options {
    /// 1: correctness and the headline shapes; 2: tensor expressions, all shapes and types; 3: all epilogues on all shapes,
    /// knobs, autotuning, max-autotune and Triton.
    #[arg(long, value_name = "1|2|3", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(crate) tier: u8,
    /// Where results.jsonl and table.txt are written; what it holds already is not run again.
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    pub(crate) out: PathBuf,
    /// Where the steps run.
    #[arg(long = "device", value_name = "DEVICE", default_value = "cuda")]
    pub(crate) on: On,
    /// Begin no step that would end later than this.
    #[arg(long = "seconds", value_name = "S", default_value = "460", value_parser = seconds)]
    pub(crate) budget: Duration,
    /// Run only the steps whose name contains this text (and what compiles for them).
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Draw the random cases from this number; without it from another one for every step and run, and records say which.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Run nothing: print the steps of this and the lower tiers, and how long they take by estimate.
    #[arg(long)]
    pub(crate) list: bool,
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

#[cfg(test)]
impl Options {
    /// The options that these words ask for.
    pub(crate) fn of(line: &str) -> Result<Self, clap::Error> {
        Self::try_parse_from(std::iter::once("epilogue-gpu").chain(line.split_whitespace()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_done() {
        let options =
            Options::of("--tier 2 --device emulated --seconds 5 --only gemm --seed 7 --out x").expect("options");
        assert_eq!((options.tier, options.on, options.budget.as_secs()), (2, On::Emulated, 5));
        assert_eq!((options.only.as_deref(), options.seed), (Some("gemm"), Some(7)));
        let options = Options::of("").expect("options");
        assert_eq!((options.tier, options.on, options.budget.as_secs()), (1, On::Cuda, 460));
        for on in [On::Cuda, On::Emulated, On::Cpu] {
            assert_eq!(On::parse(on.name()).expect("a device"), on);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, said) in [
            ("--tier 9", "'9'"),
            ("--tier", "a value is required"),
            ("--gpu", "--gpu"),
            ("--device tpu", "tpu"),
            ("--seconds x", "x"),
            ("--seed=-1", "-1"),
        ] {
            let error = Options::of(line).expect_err(line).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
