//! The families' answers to an offer.

use epilogue_runtime::Arch;

use super::candidate::Candidate;
use super::machine::Machine;
use super::offer::Offer;
use crate::gemm::families::family::Family;
use crate::gemm::families::{FAMILIES, KernelKey};
use crate::gemm::kernel::SplitK;

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
