//! Kernels on a GPU: chosen and compiled for the shapes of a run, and launched.

mod launch;
mod reduce;
mod scan;

use epilogue_runtime::Device;

use self::reduce::ReduceKernel;
use self::scan::ScanLaunch;
use super::backend::{Backend, StepsOfScan};
use super::cell::CellKernel;
use crate::te::auto::kernel::Runs;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::split::cell::Cell;
use crate::te::error::TeError;
use crate::te::expr::var::Var;

/// A GPU, which may be an emulated one.
pub(super) struct Gpu<'a> {
    pub(super) device: &'a Device,
}

impl Backend for Gpu<'_> {
    fn reduction(&self, whole: Reduction, order: Order, _: Option<Var>) -> Result<Box<dyn Runs>, TeError> {
        // One kernel serves all values of a size.
        Ok(Box::new(ReduceKernel::new(self.device, whole, order)?))
    }

    fn scan(&self, order: Order) -> Box<dyn StepsOfScan> {
        Box::new(ScanLaunch::new(self.device, order))
    }

    fn cell(&self, cell: Cell, order: Order) -> Option<CellKernel> {
        Some(CellKernel::new(self.device, cell, order))
    }
}
