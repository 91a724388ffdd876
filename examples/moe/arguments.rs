//! The command line.

use std::str::FromStr;

use epilogue::{Arch, Device, ElementType};

use crate::Result;
use crate::data::Sizes;

pub(crate) const USAGE: &str =
    "moe [--device cpu|cuda|emulated-sm_80|emulated-sm_90a] [--type bf16|f32] [--seed N] [--runs N]
    [--tokens N] [--columns N] [--hidden N] [--experts N] [--top N]
    --type      of tokens and weights (bf16)
    --runs      of which a part's time is the median (5, or 1 on an emulated device)
    --columns   of a token
    --hidden    columns between an expert's two layers
    --top       experts that each token takes";

/// The sizes if there is time, and the sizes in ptx-vm.
const USUAL: Sizes = Sizes { tokens: 1024, columns: 256, hidden: 384, experts: 16, top: 2 };
const TINY: Sizes = Sizes { tokens: 24, columns: 32, hidden: 24, experts: 5, top: 2 };

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum On {
    Cpu,
    Cuda,
    Emulated(Arch),
}

pub(crate) struct Arguments {
    pub(crate) on: On,
    pub(crate) element: ElementType,
    pub(crate) seed: u32,
    pub(crate) runs: usize,
    pub(crate) sizes: Sizes,
}

impl Arguments {
    /// The arguments; `None` if only help is wanted.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut given = Self { on: On::Cpu, element: ElementType::BF16, seed: 2024, runs: 0, sizes: USUAL };
        let mut sizes: [Option<usize>; 5] = [None; 5];
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--device" => given.on = device(&value()?)?,
                "--type" => given.element = element(&value()?)?,
                "--seed" => given.seed = number(&word, &value()?)?,
                "--runs" => given.runs = positive(&word, &value()?)?,
                "--tokens" => sizes[0] = Some(positive(&word, &value()?)?),
                "--columns" => sizes[1] = Some(positive(&word, &value()?)?),
                "--hidden" => sizes[2] = Some(positive(&word, &value()?)?),
                "--experts" => sizes[3] = Some(positive(&word, &value()?)?),
                "--top" => sizes[4] = Some(positive(&word, &value()?)?),
                other => return Err(format!("unknown argument {other}\n{USAGE}").into()),
            }
        }
        let emulated = matches!(given.on, On::Emulated(_));
        if given.runs == 0 {
            given.runs = if emulated { 1 } else { 5 };
        }
        let usual = if emulated { TINY } else { USUAL };
        let [tokens, columns, hidden, experts, top] = sizes;
        given.sizes = Sizes {
            tokens: tokens.unwrap_or(usual.tokens),
            columns: columns.unwrap_or(usual.columns),
            hidden: hidden.unwrap_or(usual.hidden),
            experts: experts.unwrap_or(usual.experts),
            top: top.unwrap_or(usual.top),
        };
        let Sizes { experts, top, .. } = given.sizes;
        if top > experts {
            return Err(format!("--top {top}: there are {experts} experts, and a token takes one once").into());
        }
        Ok(Some(given))
    }

    pub(crate) fn device(&self) -> Result<Device> {
        Ok(match self.on {
            On::Cpu => Device::cpu(),
            On::Cuda => Device::cuda(0)?,
            On::Emulated(arch) => Device::emulated(arch)?,
        })
    }
}

fn device(word: &str) -> Result<On> {
    Ok(match word {
        "cpu" => On::Cpu,
        "cuda" => On::Cuda,
        "emulated-sm_80" => On::Emulated(Arch::SM_80),
        "emulated-sm_90a" => On::Emulated(Arch::SM_90A),
        other => {
            return Err(format!("--device {other}: it must be cpu, cuda, emulated-sm_80 or emulated-sm_90a").into());
        }
    })
}

fn element(word: &str) -> Result<ElementType> {
    match word {
        "bf16" => Ok(ElementType::BF16),
        "f32" => Ok(ElementType::F32),
        other => Err(format!("--type {other}: it must be bf16 or f32").into()),
    }
}

fn number(option: &str, word: &str) -> Result<u32> {
    Ok(u32::from_str(word).map_err(|_| format!("{option} {word}: it must be a whole number from 0 to {}", u32::MAX))?)
}

/// A size: small enough that the products of a few of them are no overflow.
fn positive(option: &str, word: &str) -> Result<usize> {
    match u16::from_str(word) {
        Ok(number) if number > 0 => Ok(number.into()),
        _ => Err(format!("{option} {word}: it must be a whole number from 1 to {}", u16::MAX).into()),
    }
}
