//! The command line.

use std::str::FromStr;

use epilogue::{Arch, Device};

use crate::Result;

pub(crate) const USAGE: &str = "resnet [--device cpu|cuda|emulated] [--images N] [--runs N] [--seed N] [--tiny]
    --images N   images at a time (1)
    --runs N     runs that are timed (5)
    --tiny       few channels and one block a stage, as always with `--device emulated`";

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum On {
    Cpu,
    Cuda,
    Emulated,
}

pub(crate) struct Arguments {
    pub(crate) on: On,
    pub(crate) images: usize,
    pub(crate) runs: usize,
    pub(crate) seed: u64,
    pub(crate) tiny: bool,
}

impl Arguments {
    /// The arguments; `None` if only help is wanted.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut arguments = Self { on: On::Cpu, images: 1, runs: 5, seed: 2015, tiny: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "-h" | "--help" => return Ok(None),
                "--device" => {
                    arguments.on = match value()?.as_str() {
                        "cpu" => On::Cpu,
                        "cuda" => On::Cuda,
                        "emulated" => On::Emulated,
                        other => return Err(format!("--device {other}: it must be cpu, cuda or emulated").into()),
                    }
                }
                "--images" => arguments.images = positive("--images", &value()?)?,
                "--runs" => arguments.runs = positive("--runs", &value()?)?,
                "--seed" => arguments.seed = number("--seed", &value()?)?,
                "--tiny" => arguments.tiny = true,
                other => return Err(format!("unknown argument {other}\n{USAGE}").into()),
            }
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

fn number<T: FromStr>(option: &str, word: &str) -> Result<T> {
    Ok(T::from_str(word).map_err(|_| format!("{option} {word}: it must be a whole number, and not too large"))?)
}

fn positive(option: &str, word: &str) -> Result<usize> {
    match number(option, word)? {
        0 => Err(format!("{option} {word}: it must be 1 or more").into()),
        number => Ok(number),
    }
}
