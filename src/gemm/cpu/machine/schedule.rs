//! Chooses the steps that become loops.

use std::collections::{HashMap, HashSet};

use super::Neighbours;
use super::exponentials::gives_maxima_of_sums;
use crate::evt::{ValidTree, Value, ValueType, Width};
use crate::gemm::cpu::element::Arithmetic;
use crate::gemm::cpu::program::Program;
use crate::gemm::cpu::step::{Register, StripStep};
use crate::jit::Lane;
use crate::lane::machine;

/// A future loop, or a step that stays. Every step has a block register of its own.
pub(super) enum Draft {
    Loop(Vec<StripStep>),
    Step(StripStep),
}

/// The steps of a block in an order in which as many as possible are in one loop. Stores are still after all loads.
/// Maxima that come with sums of exponentials are left out.
pub(super) fn drafts<T: Arithmetic>(tree: &ValidTree, program: &Program<T>, neighbours: Neighbours) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let integers = integers_with_code(tree, program, neighbours);
    // The loop that grows, its results, and what is done after all loops.
    let (mut steps, mut results, mut last) = (Vec::new(), HashSet::new(), Vec::new());
    for (number, step) in program.values.iter().enumerate() {
        if gives_maxima_of_sums(program, step) {
            continue;
        }
        let ends = match step {
            StripStep::Reduce { reduction, .. } => !program.reductions[*reduction].is_number_of_row(),
            StripStep::StoreSums { .. } => true,
            StripStep::Store { output, x } => {
                !(x.class.is_float() && neighbours.has_output(*output) && is_float(tree.outputs()[*output].element))
            }
            _ => false,
        };
        if ends {
            last.push(Draft::Step(*step));
        } else if if is_of_integers(step) { integers[number] } else { has_code(tree, step, neighbours) } {
            results.extend(step.to());
            steps.push(*step);
        } else {
            if step.operands().iter().any(|operand| results.contains(operand)) {
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

/// For every step of the blocks, whether it is one with integers for which there is code: those of 32 bits, whose results
/// nobody reads but steps with code. (Others would read 64 bits.)
fn integers_with_code<T: Arithmetic>(tree: &ValidTree, program: &Program<T>, neighbours: Neighbours) -> Vec<bool> {
    let steps = &program.values;
    let is_wide = |value: &Value| value.ty == ValueType::Integer(Width::Bits64);
    if !program.has_integers || tree.values().iter().any(is_wide) {
        return vec![false; steps.len()];
    }
    let has_integer_code = |step: &StripStep| is_of_integers(step) && has_code(tree, step, neighbours);
    let mut has_code: Vec<bool> = steps.iter().map(has_integer_code).collect();
    let results: HashMap<Register, usize> =
        steps.iter().enumerate().filter_map(|(number, step)| Some((step.to()?, number))).collect();
    // If code can't do a step, it can't do the steps that this one reads, nor the steps that read it.
    loop {
        let mut lost = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            for operand in step.operands().iter().filter(|operand| !operand.class.is_float()) {
                let Some(&maker) = results.get(operand) else { continue };
                lost.extend((has_code[maker] && !has_code[number]).then_some(maker));
                lost.extend((has_code[number] && !has_code[maker]).then_some(number));
            }
        }
        if lost.is_empty() {
            return has_code;
        }
        lost.into_iter().for_each(|number| has_code[number] = false);
    }
}

/// Whether a step reads or computes integers.
fn is_of_integers(step: &StripStep) -> bool {
    let of_integers = |register: &Register| !register.class.is_float();
    step.to().as_ref().is_some_and(of_integers) || step.operands().iter().any(of_integers)
}

/// Whether the elements of a type are numbers in vectors.
fn is_float(element: crate::ElementType) -> bool {
    Lane::of(element).is_some_and(Lane::is_float)
}

/// Whether there is vector code for a step, if its integers have 32 bits.
fn has_code(tree: &ValidTree, step: &StripStep, neighbours: Neighbours) -> bool {
    match step {
        StripStep::Load { to, parameter } => {
            let lane = Lane::of(tree.parameter(*parameter).element);
            neighbours.has_parameter(parameter.index())
                && lane.is_some_and(|lane| lane.is_float() == to.class.is_float())
        }
        StripStep::Compute(step) => machine::has_code(step),
        StripStep::Store { x, .. } => x.class.is_float(),
        StripStep::Spread { .. } | StripStep::Reduce { .. } => true,
        StripStep::Integer { .. }
        | StripStep::Position { .. }
        | StripStep::Random { .. }
        | StripStep::StoreSums { .. } => false,
    }
}

/// The registers of a loop's results that others read.
pub(super) fn left_by(drafts: &[Draft], number: usize) -> Vec<Register> {
    let mut read = HashSet::new();
    for (_, draft) in drafts.iter().enumerate().filter(|(other, _)| *other != number) {
        let steps = match draft {
            Draft::Loop(steps) => steps.as_slice(),
            Draft::Step(step) => std::slice::from_ref(step),
        };
        read.extend(steps.iter().copied().flat_map(StripStep::operands));
    }
    let Draft::Loop(steps) = &drafts[number] else { return Vec::new() };
    steps.iter().copied().filter_map(StripStep::to).filter(|to| read.contains(to)).collect()
}
