//! The losses that another program had with the same data: `train.py`'s are in `losses.txt`.

use std::path::Path;

use crate::Result;

/// The largest difference that counts as rounding. A loss is the mean of 256 numbers near 1 with errors of a few 2^-24,
/// and steps hand on earlier rounding: 300 steps with AVX-512 differ by 9e-7. Other masks of dropout make a difference
/// of 1.6e-3 in the first step.
pub(crate) const TOLERANCE: f64 = 1e-5;

pub(crate) struct Reference {
    seed: u32,
    losses: Vec<f64>,
}

impl Reference {
    /// The losses that are committed.
    pub(crate) fn committed() -> Result<Self> {
        Self::parse(include_str!("losses.txt"))
    }

    pub(crate) fn read(file: &Path) -> Result<Self> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
        Ok(Self::parse(&text).map_err(|error| named(&error))?)
    }

    /// A line `seed 2024`, then one for each step with its loss.
    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let seed = first.strip_prefix("seed ").and_then(|seed| seed.parse().ok());
        let seed = seed.ok_or_else(|| format!("the first line must be `seed` and a number, it is {first:?}"))?;
        let loss = |line: &str| match line.parse::<f64>() {
            Ok(loss) if loss.is_finite() => Ok(loss),
            _ => Err(format!("a line must be a step's loss, it is {line:?}")),
        };
        Ok(Self { seed, losses: lines.map(loss).collect::<Result<_, _>>()? })
    }

    /// The losses of a training with this seed; `None` if these are of another one.
    pub(crate) fn losses_of(&self, seed: u32) -> Option<&[f64]> {
        (self.seed == seed).then_some(&self.losses)
    }
}

/// The largest difference between the steps that both have, NaN if there is one.
pub(crate) fn largest_difference(losses: &[f64], expected: &[f64]) -> f64 {
    let differences = losses.iter().zip(expected).map(|(x, y)| (x - y).abs());
    differences.fold(0.0, |a, b| if b <= a || a.is_nan() { a } else { b })
}
