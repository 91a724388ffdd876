//! Finds loop-invariant values, which are the same for all elements of an output, and computes them once for each
//! output, in one lane.

use super::elements::Elements;
use super::program::Program;
use crate::lane::{LaneStep, Register};

/// The steps that compute something for every element of an output, separated by whether they are loop-invariant.
pub(in crate::te::auto) struct InvariantSteps {
    /// The steps whose operands are the same for all elements of an output.
    pub(in crate::te::auto) once: Vec<LaneStep>,
    pub(in crate::te::auto) each: Vec<LaneStep>,
    /// The registers whose value is copied to all lanes of an output before `each`, unless all lanes are filled before
    /// `once`.
    pub(in crate::te::auto) spread: Vec<Register>,
}

impl InvariantSteps {
    /// `None` if a read has computed indices, because its steps need all lanes. `totals` are the same for all elements.
    pub(in crate::te::auto) fn of(
        steps: &[LaneStep],
        results: &[Register],
        program: &Program,
        totals: &[Register],
        elements: &Elements,
    ) -> Option<Self> {
        elements.are_affine().then(|| Self::of_rows(steps, results, program, totals, elements))
    }

    /// [`of`](Self::of), but indices may choose the rows that are read.
    pub(in crate::te::auto) fn of_rows(
        steps: &[LaneStep],
        results: &[Register],
        program: &Program,
        totals: &[Register],
        elements: &Elements,
    ) -> Self {
        let is_constant = |register: Register| program.constants.iter().any(|(constant, _)| *constant == register);
        let mut invariant: Vec<Register> = totals.to_vec();
        let (mut once, mut each) = (Vec::new(), Vec::new());
        for step in steps {
            let is_invariant = |register: &Register| {
                invariant.contains(register) || is_constant(*register) || elements.is_invariant(*register)
            };
            if step.operands().iter().all(is_invariant) {
                invariant.push(step.to);
                once.push(*step);
            } else {
                each.push(*step);
            }
        }
        let mut spread = Vec::new();
        for register in each.iter().flat_map(LaneStep::operands).chain(results).copied() {
            if (invariant.contains(&register) || elements.is_invariant(register)) && !spread.contains(&register) {
                spread.push(register);
            }
        }
        Self { once, each, spread }
    }
}
