//! Runs a scan on the CPU: compiles it for the shapes of a run, or takes the code of the last run.

use epilogue_runtime::Stream;

use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::cpu::made::{Cached, CodeCache, MadeKernel, Scan};
use crate::te::auto::kernel::Ran;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::auto::run::analysis::Analysis;
use crate::te::auto::run::backend::StepsOfScan;
use crate::te::error::TeError;
use crate::tuning::Tuning;

/// The computed steps of a scan, on the CPU.
pub(super) struct ScanCode {
    order: Order,
    tuning: Tuning,
    /// The code of the last run.
    cache: CodeCache,
}

impl ScanCode {
    pub(super) fn new(order: Order, tuning: Tuning) -> Self {
        Self { order, tuning, cache: CodeCache::default() }
    }
}

impl StepsOfScan for ScanCode {
    fn again(&self, pattern: &Recurrence, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let run = |code| Ok(Ran::on_host(self.cache.run(code, bound, pattern.outputs.len())?));
        self.cache.take(bound, None).map(run).transpose()
    }

    fn run(
        &self,
        pattern: &Recurrence,
        _: &Stream,
        bound: &BoundTensors<'_>,
        analysis: &Analysis,
    ) -> Result<Ran, TeError> {
        let (Analysis { space, used, .. }, how) = (analysis, (self.order, self.tuning));
        let made = MadeKernel::scan(Scan::new(pattern, bound, space, used, how)?);
        Ok(Ran::on_host(self.cache.run(Cached::new(bound, None, made), bound, pattern.outputs.len())?))
    }
}
