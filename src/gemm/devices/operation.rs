//! An operation, and what one run of it is given: they are alike on every kind of device.

use std::sync::Arc;

use epilogue_runtime::Device;

use crate::Argument;
use crate::evt::{Phases, ValidTree};
use crate::gemm::kernel::Settings;
use crate::gemm::problem::{Left, Problem, Purpose, Right};
use crate::tuning::Tuning;

/// A product with its epilogue, and the device that computes it.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) device: Device,
    /// The epilogue, whole and in the parts that run.
    pub(crate) phases: Arc<Phases>,
    /// The product that was planned; a run may have other extents.
    pub(crate) problem: Problem,
    /// Explicit settings from the builder.
    pub(crate) settings: Settings,
    /// How many multiprocessors a persistent kernel may fill; `None` for all.
    pub(crate) multiprocessors: Option<usize>,
    /// Choices of the CPU device.
    pub(crate) tuning: Tuning,
}

impl Operation {
    /// The epilogue.
    pub(crate) fn tree(&self) -> &ValidTree {
        &self.phases.tree
    }

    /// The purpose for which a B must be packed.
    pub(crate) fn purpose(&self) -> Purpose {
        let types = self.tree().types();
        let format = self.problem.formats.b;
        Purpose { a: types.a, b: types.b, format, arithmetic: self.settings.arithmetic }
    }
}

/// A run's operands and arguments, checked; images are matrices.
#[derive(Clone, Copy)]
pub(crate) struct GivenRun<'a, 'b> {
    /// The run's product.
    pub(crate) problem: Problem,
    pub(crate) a: Left<'a>,
    pub(crate) b: &'a Right<'b>,
    pub(crate) arguments: &'a [Argument<'a>],
}
