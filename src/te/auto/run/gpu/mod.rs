//! Kernels on a GPU: chosen and compiled for the shapes of a run, and launched.

mod launch;
mod reduce;
mod scan;

use epilogue_runtime::Device;

use self::reduce::ReduceKernel;
use self::scan::ScanLaunch;
use super::backend::{Backend, StepsOfScan};
use super::by_data::ProgramKernel;
use super::cell::CellKernel;
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::by_data::RangeByData;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::split::cell::Cell;
use crate::te::error::TeError;
use crate::te::expr::axis::thread_axis;
use crate::te::expr::var::Var;

/// A GPU, which may be an emulated one.
pub(super) struct Gpu<'a> {
    pub(super) device: &'a Device,
}

/// The threads of a block; each reduces ranges that data give.
const THREADS_BY_DATA: i64 = 128;

impl Backend for Gpu<'_> {
    fn reduction(&self, whole: Reduction, order: Order, _: Option<Var>) -> Result<Box<dyn Runs>, TeError> {
        // One kernel serves all values of a size.
        Ok(Box::new(ReduceKernel::new(self.device, whole, order)?))
    }

    fn by_data(&self, range: &RangeByData) -> Result<Box<dyn Runs>, TeError> {
        let program = range.program(|stage, results| {
            let (blocks, threads) = stage.split(results, THREADS_BY_DATA)?;
            stage.bind(blocks, thread_axis("blockIdx.x"))?;
            stage.bind(threads, thread_axis("threadIdx.x"))
        })?;
        Ok(Box::new(ProgramKernel::new(&program, self.device)?))
    }

    fn scan(&self, order: Order) -> Box<dyn StepsOfScan> {
        Box::new(ScanLaunch::new(self.device, order))
    }

    fn cell(&self, cell: Cell, order: Order) -> Option<CellKernel> {
        Some(CellKernel::new(self.device, cell, order))
    }
}
