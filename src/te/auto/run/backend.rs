//! The differences between a GPU and the CPU: how a kernel is made for the shapes of a run, and run.

use epilogue_runtime::Stream;

use super::analysis::Analysis;
use super::cell::CellKernel;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::by_data::RangeByData;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::auto::split::cell::Cell;
use crate::te::error::TeError;
use crate::te::expr::var::Var;

/// Makes the kernels of one kind of device.
pub(in crate::te::auto) trait Backend {
    /// Maps or reductions over the same axes, in one kernel or several. `step` is a size for whose values the kernel is
    /// run one after another.
    fn reduction(&self, whole: Reduction, order: Order, step: Option<Var>) -> Result<Box<dyn Runs>, TeError>;

    /// A reduction over a range that data give.
    fn by_data(&self, range: &RangeByData) -> Result<Box<dyn Runs>, TeError>;

    /// The computed steps of a scan whose columns don't read each other.
    fn scan(&self, order: Order) -> Box<dyn StepsOfScan>;

    /// All steps of a recurrent cell in one launch; `None` if each step is run by itself.
    fn cell(&self, cell: Cell, order: Order) -> Option<CellKernel>;
}

/// The computed steps of a scan: those after the given ones.
pub(in crate::te::auto) trait StepsOfScan: Send + Sync {
    /// Runs as the last time if the tensors lie alike, without another analysis; `None` if they don't.
    fn again(&self, pattern: &Recurrence, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError>;

    /// Runs on tensors that have been analysed.
    fn run(
        &self,
        pattern: &Recurrence,
        stream: &Stream,
        bound: &BoundTensors<'_>,
        analysis: &Analysis,
    ) -> Result<Ran, TeError>;
}
