//! A product that is offered to the families: the question of tools that ask the model without a plan.

use super::candidate::Candidate;
use super::machine::Machine;
use crate::evt::ValidTree;
use crate::gemm::families::family::Family;
use crate::gemm::families::{FAMILIES, KernelKey};
use crate::gemm::kernel::SplitK;
use crate::gemm::problem::{Arithmetic, OperandLayout, Problem};
use epilogue_runtime::Arch;

/// A product with one epilogue, as every family prices it. Later phases, if there are any, are not computed in a tile.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Extents.
    pub problem: Problem,
    /// The layouts of A and B.
    pub layouts: (OperandLayout, OperandLayout),
    /// How exactly it multiplies.
    pub arithmetic: Arithmetic,
    /// The epilogue, with the types of the operands.
    pub tree: &'a ValidTree,
}

impl Offer<'_> {
    /// The kernels of every family that multiplies these operands on a machine, best first.
    #[must_use]
    pub fn candidates(&self, machine: &Machine) -> Vec<Candidate> {
        self.ranked(machine, FAMILIES.iter())
    }

    /// The kernels of the family whose [oldest architecture](KernelKey::family) is given, best first.
    #[must_use]
    pub fn candidates_of(&self, family: Arch, machine: &Machine) -> Vec<Candidate> {
        self.ranked(machine, FAMILIES.iter().filter(|of| of.arch() == family))
    }

    fn ranked(&self, machine: &Machine, families: impl Iterator<Item = &'static dyn Family>) -> Vec<Candidate> {
        let here = families.filter(|family| family.runs_on(machine.arch));
        let mut all: Vec<Candidate> = here.flat_map(|family| family.priced(self, machine)).collect();
        all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        all
    }

    /// A kernel with its predicted time; `None` if it has no room for the epilogue.
    #[must_use]
    pub fn estimate(&self, machine: &Machine, key: &KernelKey, split_k: SplitK) -> Option<Candidate> {
        key.of_family().estimate(self, machine, split_k)
    }
}
