//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use epilogue::{Arch, Device};

use crate::Result;

pub(crate) const USAGE: &str = "train [--device cpu|cuda|emulated] [--steps N] [--seed N] [--compare FILE] [--svg FILE]
    --compare FILE   losses of `train.py` (without it, those of seed 2024 that are committed)
    --svg FILE       draws the losses";

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum On {
    Cpu,
    Cuda,
    Emulated,
}

pub(crate) struct Arguments {
    pub(crate) on: On,
    pub(crate) steps: Option<u32>,
    pub(crate) seed: u32,
    pub(crate) compare: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
}

impl Arguments {
    /// The arguments; `None` if only help is wanted.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut arguments = Self { on: On::Cpu, steps: None, seed: 2024, compare: None, svg: None };
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--device" => {
                    arguments.on = match value()?.as_str() {
                        "cpu" => On::Cpu,
                        "cuda" => On::Cuda,
                        "emulated" => On::Emulated,
                        other => return Err(format!("--device {other}: it must be cpu, cuda or emulated").into()),
                    }
                }
                "--steps" => arguments.steps = Some(number("--steps", &value()?)?),
                "--seed" => arguments.seed = number("--seed", &value()?)?,
                "--compare" => arguments.compare = Some(value()?.into()),
                "--svg" => arguments.svg = Some(value()?.into()),
                other => return Err(format!("unknown argument {other}\n{USAGE}").into()),
            }
        }
        if arguments.steps == Some(0) {
            return Err("--steps 0: it must be 1 or more".into());
        }
        Ok(Some(arguments))
    }

    pub(crate) fn device(&self) -> Result<Device> {
        Ok(match self.on {
            On::Cpu => Device::cpu(),
            On::Cuda => Device::cuda(0)?,
            On::Emulated => Device::emulated(Arch::SM_80)?,
        })
    }
}

fn number(option: &str, word: &str) -> Result<u32> {
    Ok(u32::from_str(word).map_err(|_| format!("{option} {word}: it must be a whole number from 0 to {}", u32::MAX))?)
}
