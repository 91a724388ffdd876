//! Kernels on the CPU: compiled for the shapes of a run, and kept for the next run of the same shapes.

mod reduce;
mod scan;

use epilogue_runtime::Device;

use self::reduce::ReduceKernel;
use self::scan::ScanCode;
use super::backend::{Backend, StepsOfScan};
use super::by_data::ProgramKernel;
use super::cell::CellKernel;
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::by_data::RangeByData;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::split::cell::Cell;
use crate::te::error::TeError;
use crate::te::expr::var::Var;
use crate::te::loops::schedule::Stage;
use crate::tuning::Tuning;

/// The CPU.
pub(super) struct Cpu<'a> {
    pub(super) device: &'a Device,
    pub(super) tuning: Tuning,
}

impl Backend for Cpu<'_> {
    fn reduction(&self, whole: Reduction, order: Order, step: Option<Var>) -> Result<Box<dyn Runs>, TeError> {
        Ok(Box::new(ReduceKernel::new((self.device, self.tuning), whole, order, step)?))
    }

    fn by_data(&self, range: &RangeByData) -> Result<Box<dyn Runs>, TeError> {
        let program = range.program(Stage::parallel)?;
        Ok(Box::new(ProgramKernel::new(&program, self.device)?))
    }

    fn scan(&self, order: Order) -> Box<dyn StepsOfScan> {
        Box::new(ScanCode::new(order, self.tuning))
    }

    fn cell(&self, _: Cell, _: Order) -> Option<CellKernel> {
        // Threads share the columns of a step.
        None
    }
}
