//! The cases, run one after another.

use epilogue::Device;
use indicatif::{ProgressBar, ProgressStyle};

use crate::Result;
use crate::arguments::Arguments;
use crate::block::Block;
use crate::check::{self, Checked};
use crate::clock::Clock;
use crate::data::{Case, Data};

pub(crate) struct CaseResult {
    pub(crate) case: Case,
    /// Rows of each expert.
    pub(crate) counts: Vec<usize>,
    /// Milliseconds of each part.
    pub(crate) times: Vec<(&'static str, f64)>,
    pub(crate) checked: Vec<Checked>,
}

pub(crate) fn run(device: &Device, arguments: &Arguments) -> Result<Vec<CaseResult>> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?;
    let steps = Case::ALL.len() * (arguments.runs + 2);
    let bar = ProgressBar::new(steps as u64).with_style(style);
    let results = Case::ALL.into_iter().map(|case| one(device, arguments, case, &bar)).collect();
    bar.finish_and_clear();
    results
}

fn one(device: &Device, arguments: &Arguments, case: Case, bar: &ProgressBar) -> Result<CaseResult> {
    let name = case.name();
    let data = Data::new(arguments.sizes, case, arguments.seed);
    bar.set_message(format!("{name}: first run"));
    let mut block = Block::new(device, &data, arguments.element)?;
    let mut clock = Clock::new(device);
    let mut step = |clock: &mut Clock| -> Result<Vec<usize>> {
        let order = block.forward(clock)?;
        block.backward(clock)?;
        bar.inc(1);
        Ok(order.counts())
    };
    // Compiles what has not run before.
    let mut counts = step(&mut clock)?;
    clock.reset();
    for run in 0..arguments.runs {
        bar.set_message(format!("{name}: run {} of {}", run + 1, arguments.runs));
        counts = step(&mut clock)?;
    }
    bar.set_message(format!("{name}: plain loops"));
    let checked = check::results(&block, &data, arguments.element)?;
    bar.inc(1);
    Ok(CaseResult { case, counts, times: clock.medians(), checked })
}
