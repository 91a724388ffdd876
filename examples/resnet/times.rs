//! How long each part of the network takes.

use std::fmt::Write as _;
use std::time::Instant;

use crate::network::{Network, Work};

/// The times of steps, run by run.
pub(crate) struct Times {
    last: Instant,
    /// The times of each step, in seconds.
    steps: Vec<Vec<f64>>,
}

impl Times {
    pub(crate) fn new(steps: usize) -> Self {
        Self { last: Instant::now(), steps: vec![Vec::new(); steps] }
    }

    /// A run begins.
    pub(crate) fn begin(&mut self) {
        self.last = Instant::now();
    }

    /// A step has ended, and the next one begins.
    pub(crate) fn end_of(&mut self, step: usize) {
        let now = Instant::now();
        self.steps[step].push((now - self.last).as_secs_f64());
        self.last = now;
    }

    /// The median of a step's times.
    fn of(&self, step: usize) -> f64 {
        let mut times = self.steps[step].clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    }

    /// A line for each part, and one for all.
    pub(crate) fn table(&self, network: &Network) -> String {
        let mut table = format!("{:8}  {:>8}  {:>8}  {:>8}  {:>9}", "part", "launches", "GFLOP", "ms", "GFLOP/s");
        let mut parts: Vec<(&str, usize, f64, f64)> = Vec::new();
        for (i, step) in network.steps.iter().enumerate() {
            let products = match &step.work {
                Work::Convolution(convolution) => convolution.products(),
                Work::Classes { weights, .. } => weights.len() * network.values[step.input].shape()[0],
                Work::Pool(_) => 0,
            };
            if parts.last().is_none_or(|(part, ..)| *part != step.part) {
                parts.push((&step.part, 0, 0.0, 0.0));
            }
            if let Some((_, launches, operations, time)) = parts.last_mut() {
                *launches += 1;
                *operations += 2e-9 * products as f64;
                *time += self.of(i);
            }
        }
        let all = parts
            .iter()
            .fold(("all", 0, 0.0, 0.0), |all, part| (all.0, all.1 + part.1, all.2 + part.2, all.3 + part.3));
        for (part, launches, operations, time) in parts.into_iter().chain([all]) {
            let (speed, time) = (operations / time, time * 1e3);
            // Writing to a String can't fail.
            let _ = write!(table, "\n{part:8}  {launches:8}  {operations:8.2}  {time:8.2}  {speed:9.1}");
        }
        table
    }
}
