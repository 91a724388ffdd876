//! Which steps become loops.

use std::collections::HashSet;

use super::Neighbours;
use crate::evt::ValidTree;
use crate::expr::Op;
use crate::gemm::cpu::element::Arithmetic;
use crate::gemm::cpu::program::Program;
use crate::gemm::cpu::step::{IntegerStep, Place, Step};
use crate::jit::{Body, Lane};

/// What becomes a loop, or stays a step. Every step has a block register of its own.
pub(super) enum Draft {
    Loop(Vec<Step>),
    Step(Step),
}

/// The steps of a block in an order in which as many as possible are in one loop. Stores are still after all loads.
pub(super) fn drafts<T: Arithmetic>(tree: &ValidTree, program: &Program<T>, neighbours: Neighbours) -> Vec<Draft> {
    let mut drafts = Vec::new();
    // The loop that grows, its results, and what is done after all loops.
    let (mut steps, mut results, mut last) = (Vec::new(), HashSet::new(), Vec::new());
    for step in &program.values {
        let ends = match step {
            Step::Reduce { reduction, .. } => !program.reductions[*reduction].is_number_of_row(),
            Step::StoreSums { .. } | Step::Integer(IntegerStep::Store { .. }) => true,
            Step::Store { output, .. } => {
                !(neighbours.has_output(*output) && is_float(tree.outputs()[*output].element))
            }
            _ => false,
        };
        if ends {
            last.push(Draft::Step(*step));
        } else if has_code(tree, step, neighbours) {
            results.extend(step.to());
            steps.push(*step);
        } else {
            let waits = |place: &Place| matches!(place, Place::Block(register) if results.contains(register));
            if step.operands().iter().any(waits) {
                drafts.push(Draft::Loop(std::mem::take(&mut steps)));
                results.clear();
            }
            // Before the loop that grows: it may read the result.
            drafts.push(Draft::Step(*step));
        }
    }
    if !steps.is_empty() {
        drafts.push(Draft::Loop(steps));
    }
    drafts.append(&mut last);
    drafts
}

/// Whether the elements of a type are numbers in vectors.
fn is_float(element: crate::ElementType) -> bool {
    Lane::of(element).is_some_and(Lane::is_float)
}

/// Whether there is vector code for a step.
fn has_code(tree: &ValidTree, step: &Step, neighbours: Neighbours) -> bool {
    let mut body = Body::of_this_cpu();
    let x = body.float(1.0);
    match step {
        Step::Load { parameter, .. } => {
            neighbours.has_parameter(parameter.index()) && is_float(tree.parameter(*parameter).element)
        }
        Step::Unary { op, .. } | Step::Binary { op, .. } => op.is_comparison() || body.apply(*op, [x; 3]).is_some(),
        Step::Ternary { op, .. } => matches!(op, Op::Select | Op::Fma),
        Step::Round { element, .. } => body.rounded(*element, x).is_some(),
        // Those stores and reductions that are no step's.
        Step::Spread { .. } | Step::Store { .. } | Step::Reduce { .. } => true,
        Step::Random { .. } | Step::StoreSums { .. } | Step::Integer(_) => false,
    }
}

/// The registers of a loop's results that others read.
pub(super) fn left_by(drafts: &[Draft], number: usize) -> Vec<usize> {
    let mut read = HashSet::new();
    for (_, draft) in drafts.iter().enumerate().filter(|(other, _)| *other != number) {
        let steps = match draft {
            Draft::Loop(steps) => steps.as_slice(),
            Draft::Step(step) => std::slice::from_ref(step),
        };
        read.extend(steps.iter().flat_map(Step::operands));
    }
    let Draft::Loop(steps) = &drafts[number] else { return Vec::new() };
    steps.iter().filter_map(Step::to).filter(|to| read.contains(&Place::Block(*to))).collect()
}
