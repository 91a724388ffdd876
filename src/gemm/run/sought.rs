//! The kernel that a run seeks: what is asked of a family's candidate, and the answer.

use crate::Argument;
use crate::evt::Phases;
use crate::gemm::families::list::KernelKey;
use crate::gemm::kernel::SplitK;
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::machine::Machine;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::{OperandLayout, Problem};

/// A run that seeks its kernel.
pub(crate) struct Sought<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) phases: &'a Phases,
    /// The product that was planned.
    pub(crate) planned: &'a Problem,
    /// The run's.
    pub(crate) problem: &'a Problem,
    /// The layouts of the run's operands.
    pub(crate) layouts: (OperandLayout, OperandLayout),
    pub(crate) arguments: &'a [Argument<'a>],
    /// The part of the product that elements need.
    pub(crate) needed: f64,
    /// Predicted time of the launches after the product's, if phases are computed so.
    pub(crate) later: f64,
}

/// A kernel that is wanted, compiled or not.
#[derive(Clone, Copy)]
pub(crate) struct WantedKernel {
    pub(crate) key: KernelKey,
    pub(crate) split_k: SplitK,
    /// The operands that are copied before.
    pub(crate) repacking: Repacking,
    /// Predicted time of everything.
    pub(crate) microseconds: f64,
}

impl WantedKernel {
    /// A kernel of a candidate's splits.
    pub(crate) const fn of(key: KernelKey, candidate: &Candidate, repacking: Repacking, microseconds: f64) -> Self {
        Self { key, split_k: candidate.split_k, repacking, microseconds }
    }
}
