//! Kernels that run one after another. A scan among them may run step by step, and each step is a sequence again.

use super::by_pass::TensorOrigin;
use super::cell::Cell;
use crate::te::auto::pattern::by_data::RangeByData;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;

/// The work of one kernel.
#[derive(Debug)]
pub(in crate::te::auto) enum KernelPart {
    Scan(Box<Recurrence>),
    /// A scan that no single kernel can do.
    Steps(Box<Stepwise>),
    Reduce(Reduction),
    /// A reduction over a range that data give.
    ByData(Box<RangeByData>),
}

impl KernelPart {
    pub(super) fn parameters(&self) -> &[Tensor] {
        match self {
            Self::Scan(recurrence) => &recurrence.parameters,
            Self::Steps(steps) => &steps.parameters,
            Self::Reduce(reduction) => &reduction.parameters,
            Self::ByData(range) => &range.parameters,
        }
    }
}

/// Kernels that run one after another, and the tensors that all of them together take.
#[derive(Debug)]
pub(in crate::te::auto) struct KernelSequence {
    /// The kernels, each with the origins of its parameters.
    pub(in crate::te::auto) parts: Vec<(KernelPart, Vec<TensorOrigin>)>,
    /// The intermediate tensors: some kernels write them, later ones read them.
    pub(in crate::te::auto) intermediates: Vec<Tensor>,
    /// The tensors that are read, in order of first use, then the outputs.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
    /// The number of tensors that are read.
    pub(in crate::te::auto) inputs: usize,
}

impl KernelSequence {
    /// Whether the update of some scan is proved linear in the state.
    pub(in crate::te::auto) fn is_linear(&self) -> bool {
        self.parts.iter().any(|(part, _)| matches!(part, KernelPart::Scan(recurrence) if recurrence.map.is_some()))
    }
}

/// A scan that runs step by step.
#[derive(Debug)]
pub(in crate::te::auto) struct Stepwise {
    /// The tensors that are read, then the states.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
    /// The number of tensors that are read.
    pub(in crate::te::auto) inputs: usize,
    pub(in crate::te::auto) total_steps: Expr,
    pub(in crate::te::auto) given_steps: Expr,
    /// The variable that stands for the number of the step in the kernels.
    pub(in crate::te::auto) time: Var,
    pub(in crate::te::auto) given: ScanStage,
    pub(in crate::te::auto) step: ScanStage,
    /// All steps as one launch, if a block can do the stages of a step.
    pub(in crate::te::auto) cell: Option<Cell>,
}

/// Kernels that compute rows of a scan's states, and the origins of their tensors.
#[derive(Debug)]
pub(in crate::te::auto) struct ScanStage {
    pub(in crate::te::auto) kernels: KernelSequence,
    pub(in crate::te::auto) tensors: Vec<StepTensor>,
}

/// The origin of a tensor of a step's kernels.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) enum StepTensor {
    /// A tensor that the scan reads, by its number.
    Input(usize),
    /// All steps of a state.
    History(usize),
    /// The rows of a state that are written: the given ones, or that of a step.
    Rows(usize),
}
