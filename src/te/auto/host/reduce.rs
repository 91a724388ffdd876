//! Reductions on the CPU: strips of one output's elements, or of many outputs, in parallel.

use std::ops::Range;

use epilogue_runtime::HostAccess;
use rayon::prelude::*;

use super::elements::{Along, Elements};
use super::memory::{Run, decode, runs, write};
use super::program::{Program, Register, Step};
use super::strip::{LANES, Registers};
use crate::te::auto::Order;
use crate::te::auto::binding::{Bound, Sizes};
use crate::te::auto::choose;
use crate::te::auto::element::refused;
use crate::te::auto::reduce_text::Walk;
use crate::te::auto::reduction::{Pass, Reduction};
use crate::te::auto::space::{Slot, Space, points};
use crate::te::error::TeError;
use crate::te::expr::Expr;

/// Elements below which an output is not cut into parts.
const PART: i64 = 1 << 16;
/// Parts that an output is cut into: the same on every machine.
const PARTS: i64 = 32;

/// How the elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) struct Tree {
    /// Whether lanes are outputs; else they share an output's elements.
    across: bool,
    /// Lanes that share an output: a power of two.
    lanes: i64,
    /// Whether a lane's elements are neighbours; else every `lanes`th is its own.
    ordered: bool,
    /// Parts of an output, each of neighbouring elements.
    parts: i64,
    /// Whether the whole is built from the parts as a kernel's last block does it: by so many lanes.
    finish: Option<i64>,
    exact: bool,
}

/// Steps that compute some outputs, and each one's number and register.
struct Results {
    steps: Vec<Step>,
    results: Vec<(usize, Register)>,
}

/// Steps, and the registers that they leave their results in.
type Part = (Vec<Step>, Vec<Register>);

/// The reduction's expressions as steps.
struct Code {
    /// The values of a point, and whether it counts.
    source: Vec<Step>,
    condition: Register,
    /// `left` combined with a point.
    accumulate: Part,
    /// `left` combined with `right`.
    merge: Part,
    left: Vec<Register>,
    right: Vec<Register>,
    identity: Part,
    init: Option<Part>,
    finish: Results,
    /// What is computed of every point and its total.
    apply: Option<Results>,
}

/// The reduction, compiled for one run.
struct Job<'a> {
    tree: Tree,
    outer: &'a [Slot],
    inner: &'a [Slot],
    program: &'a Program,
    /// What the reduction, the outputs of totals and the outputs of points read.
    elements: [&'a Elements<'a>; 3],
    code: Code,
    space: &'a Space,
    bound: &'a Bound<'a>,
    first_output: usize,
}

/// Runs a reduction; gives its choice in words.
pub(in crate::te::auto) fn run(
    reduction: &Reduction,
    bound: &Bound<'_>,
    space: &Space,
    used: &[bool],
    order: Order,
) -> Result<String, TeError> {
    let [pass] = reduction.passes.as_slice() else { return Err(refused("several passes in one on the CPU")) };
    let plan = choose::choose(reduction, space, used, order, 1)?;
    let (outer, inner) = (plan.outer.as_slice(), plan.inner.as_slice());
    let (outputs, count) = (points(outer), points(inner));
    let tree = tree(reduction, &plan, order, outputs, count);
    let mut program = Program::default();
    let all = &reduction.reads.list;
    let outer_used: Vec<bool> = used.iter().enumerate().map(|(axis, used)| *used && axis < reduction.outer).collect();
    let (axes, parameters) = (&reduction.axes, &reduction.parameters);
    let mut elements = |places: Range<usize>, used: &[bool]| {
        Elements::new(&mut program, axes, all, places, space, used, (outer, inner), parameters, bound)
    };
    let of_reduction = elements(pass.reads.clone(), used)?;
    let of_totals = elements(pass.init_reads.start..reduction.point_reads, &outer_used)?;
    let of_points = elements(reduction.point_reads..all.len(), used)?;
    let code = Code::new(&mut program, reduction, pass, &bound.sizes)?;
    let job = Job {
        tree,
        outer,
        inner,
        program: &program,
        elements: [&of_reduction, &of_totals, &of_points],
        code,
        space,
        bound,
        first_output: bound.tensors.len() - reduction.outputs.len(),
    };
    let (reads, writes) = bound.tensors.split_at(job.first_output);
    let access = HostAccess::lock(reads, writes)?;
    // SAFETY: the locks keep everyone else out, no two tasks have an output in common, and outputs don't overlap.
    unsafe { job.run(outputs, count) }?;
    drop(access);
    Ok(describe(&tree))
}

impl Code {
    fn new(program: &mut Program, reduction: &Reduction, pass: &Pass, sizes: &Sizes) -> Result<Self, TeError> {
        let values = |program: &mut Program, all: &[Expr]| -> Result<Vec<Register>, TeError> {
            all.iter().map(|x| program.value(x, sizes)).collect()
        };
        let condition = program.value(&pass.condition, sizes)?;
        let point = values(program, &pass.source)?;
        let source = program.take_steps();
        let left: Vec<Register> = pass.left.iter().map(|var| program.variable(*var)).collect();
        // Once with a point in the place of `right`, once with registers of its own.
        for (var, register) in pass.right.iter().zip(&point) {
            program.bind(*var, *register);
        }
        let accumulate = values(program, &pass.result)?;
        let accumulate = program.apart(&accumulate);
        let accumulate = (program.take_steps(), accumulate);
        let right: Vec<Register> =
            pass.right.iter().map(|var| program.register(super::program::Class::of(var.dtype()))).collect();
        for (var, register) in pass.right.iter().zip(&right) {
            program.bind(*var, *register);
        }
        let merge = values(program, &pass.result)?;
        let merge = program.apart(&merge);
        let merge = (program.take_steps(), merge);
        let identity = values(program, &pass.identity)?;
        let identity = (program.take_steps(), identity);
        let init = values(program, &pass.init)?;
        let init = (!init.is_empty()).then_some((program.take_steps(), init));
        for (var, register) in pass.total.iter().zip(&left) {
            program.bind(*var, *register);
        }
        let mut results = |of_point: bool| -> Result<Results, TeError> {
            let mut results = Vec::new();
            for (place, output) in reduction.outputs.iter().enumerate().filter(|(_, o)| o.of_point == of_point) {
                results.push((place, program.value(&output.value, sizes)?));
            }
            Ok(Results { steps: program.take_steps(), results })
        };
        let finish = results(false)?;
        let apply = if reduction.applies() { Some(results(true)?) } else { None };
        Ok(Self { source, condition, accumulate, merge, left, right, identity, init, finish, apply })
    }
}

fn tree(reduction: &Reduction, plan: &choose::Plan, order: Order, outputs: i64, count: i64) -> Tree {
    let ordered = order == Order::Exact || !reduction.is_commutative();
    let exact = order == Order::Exact;
    if let (Order::Shape, Walk::Rows { group }) = (order, plan.class.walk) {
        let finish = plan.class.split.then_some(i64::from(group));
        return Tree { across: false, lanes: i64::from(group), ordered, parts: plan.splits, finish, exact };
    }
    let neighbours = matches!(plan.class.walk, Walk::Columns { .. });
    let across = outputs > 1 && (exact || (outputs >= 64 && (neighbours || count < 64)));
    let parts = if exact || count < PART || outputs >= PARTS * LANES as i64 { 1 } else { PARTS };
    let lanes = if across || exact { 1 } else { choose::power_of_two(count).min(LANES as i64) };
    Tree { across, lanes, ordered, parts, finish: None, exact }
}

fn describe(tree: &Tree) -> String {
    let lanes = if tree.across {
        "neighbouring outputs side by side".to_owned()
    } else {
        format!("{} lanes per output", tree.lanes)
    };
    let parts = if tree.parts > 1 { format!(", {} parts per output", tree.parts) } else { String::new() };
    let order = if tree.exact {
        ", in exact order"
    } else if tree.ordered {
        ", in order"
    } else {
        ""
    };
    format!("on the CPU: {lanes}{parts}{order}")
}

/// Part `part` of `parts` of a range, as the device's `part_of`.
fn part_of(range: Range<i64>, part: i64, parts: i64) -> Range<i64> {
    let length = range.end - range.start;
    let each = length / parts + i64::from(length % parts != 0);
    let begin = (each * part).min(length);
    range.start + begin..range.start + (begin + each).min(length)
}

impl Job<'_> {
    /// # Safety
    /// Nobody else touches the tensors.
    unsafe fn run(&self, outputs: i64, count: i64) -> Result<(), TeError> {
        let width = if self.tree.across { LANES as i64 } else { 1 };
        let groups = (outputs + width - 1) / width;
        let parts = self.tree.parts.max(1);
        let new = || Registers::new(self.program);
        if parts == 1 {
            return (0..groups as usize).into_par_iter().with_min_len(4).try_for_each_init(new, |registers, group| {
                let group = group as i64;
                // SAFETY: the caller's promise; this group's outputs are this task's.
                unsafe {
                    self.accumulate(registers, group * width, outputs, 0..count, true)?;
                    self.store(registers, group * width, outputs)
                }
            });
        }
        (0..groups).try_for_each(|group| {
            let partials: Vec<Registers> = (0..parts)
                .into_par_iter()
                .map(|part| {
                    let mut registers = new();
                    // SAFETY: the caller's promise.
                    unsafe {
                        self.accumulate(&mut registers, group * width, outputs, part_of(0..count, part, parts), false)
                    }?;
                    Ok(registers)
                })
                .collect::<Result<_, TeError>>()?;
            let mut registers = new();
            self.combine_parts(&mut registers, &partials)?;
            // SAFETY: the caller's promise; this group's outputs are this task's.
            unsafe { self.store(&mut registers, group * width, outputs) }
        })
    }

    fn start(&self, registers: &mut Registers, to: &[Register], count: usize) -> Result<(), TeError> {
        registers.run(&self.code.identity.0, count)?;
        for (to, from) in to.iter().zip(&self.code.identity.1) {
            registers.copy_lanes(*to, 0, *from, 0, count);
        }
        Ok(())
    }

    /// Leaves the values of some elements of the outputs from `output` on in `left`.
    ///
    /// # Safety
    /// Nobody writes what is read.
    unsafe fn accumulate(
        &self,
        registers: &mut Registers,
        output: i64,
        outputs: i64,
        elements: Range<i64>,
        whole: bool,
    ) -> Result<(), TeError> {
        let lanes =
            if self.tree.across { (outputs - output).min(LANES as i64) as usize } else { self.tree.lanes as usize };
        self.start(registers, &self.code.left, lanes)?;
        if self.tree.exact
            && whole
            && let Some((steps, init)) = &self.code.init
        {
            let shared = if self.tree.across { lanes } else { 1 };
            // SAFETY: the caller's promise.
            unsafe { self.fill_outputs(registers, output, shared) }?;
            registers.run(steps, shared)?;
            for (left, init) in self.code.left.iter().zip(init) {
                registers.copy_lanes(*left, 0, *init, 0, shared);
            }
        }
        if self.tree.across {
            let along = runs(self.outer, output, lanes);
            for element in elements {
                let inner = decode(self.inner, element);
                // SAFETY: the caller's promise.
                unsafe { self.elements[0].fill(registers, Along::Outer(&along, &inner), lanes) }?;
                self.add(registers, lanes)?;
            }
            return Ok(());
        }
        let outer = decode(self.outer, output);
        if self.tree.ordered {
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_runs(registers, &outer, elements, lanes) }?;
        } else {
            let mut at = elements.start;
            while at < elements.end {
                let count = (elements.end - at).min(lanes as i64) as usize;
                let along = runs(self.inner, at, count);
                // SAFETY: the caller's promise.
                unsafe { self.elements[0].fill(registers, Along::Inner(&outer, &along), count) }?;
                self.add(registers, count)?;
                at += count as i64;
            }
        }
        self.fold(registers, lanes)
    }

    /// Every lane has a run of neighbouring elements.
    ///
    /// # Safety
    /// As [`Job::accumulate`].
    unsafe fn accumulate_runs(
        &self,
        registers: &mut Registers,
        outer: &[i64],
        elements: Range<i64>,
        lanes: usize,
    ) -> Result<(), TeError> {
        let parts: Vec<Range<i64>> =
            (0..lanes as i64).map(|lane| part_of(elements.clone(), lane, lanes as i64)).collect();
        let longest = parts.first().map_or(0, |part| part.end - part.start);
        for step in 0..longest {
            let active = parts.iter().take_while(|part| part.start + step < part.end).count();
            let along: Vec<Run> = parts[..active]
                .iter()
                .enumerate()
                .map(|(lane, part)| Run { lane, count: 1, index: decode(self.inner, part.start + step) })
                .collect();
            // SAFETY: the caller's promise.
            unsafe { self.elements[0].fill(registers, Along::Inner(outer, &along), active) }?;
            self.add(registers, active)?;
        }
        // Runs are in order but for their last elements: only trailing ones are shorter.
        Ok(())
    }

    /// Combines `left` with what was read.
    fn add(&self, registers: &mut Registers, count: usize) -> Result<(), TeError> {
        registers.run(&self.code.source, count)?;
        registers.run(&self.code.accumulate.0, count)?;
        for (left, result) in self.code.left.iter().zip(&self.code.accumulate.1) {
            registers.keep_where(*left, self.code.condition, *result, count);
        }
        Ok(())
    }

    /// Combines neighbouring lanes until the first has everything.
    fn fold(&self, registers: &mut Registers, mut lanes: usize) -> Result<(), TeError> {
        while lanes > 1 {
            lanes /= 2;
            for (left, right) in self.code.left.iter().zip(&self.code.right) {
                registers.unzip(*left, *right, lanes);
            }
            self.merge_lanes(registers, lanes)?;
        }
        Ok(())
    }

    fn merge_lanes(&self, registers: &mut Registers, count: usize) -> Result<(), TeError> {
        registers.run(&self.code.merge.0, count)?;
        // All results are made before any is kept.
        for (left, result) in self.code.left.iter().zip(&self.code.merge.1) {
            registers.copy_lanes(*left, 0, *result, 0, count);
        }
        Ok(())
    }

    fn combine_parts(&self, registers: &mut Registers, partials: &[Registers]) -> Result<(), TeError> {
        let lanes = if self.tree.across { LANES } else { 1 };
        let count = partials.len() as i64;
        let finish = self.tree.finish.unwrap_or(1);
        self.start(registers, &self.code.left, if self.tree.finish.is_some() { finish as usize } else { lanes })?;
        let mut totals = registers.clone();
        for lane in 0..finish {
            self.start(registers, &self.code.left, lanes)?;
            for part in part_of(0..count, lane, finish) {
                for (left, right) in self.code.left.iter().zip(&self.code.right) {
                    registers.take_lanes(*right, &partials[part as usize], *left, lanes);
                }
                self.merge_lanes(registers, lanes)?;
            }
            if self.tree.finish.is_none() {
                return Ok(());
            }
            for left in &self.code.left {
                totals.take_lane(*left, lane as usize, registers);
            }
        }
        *registers = totals;
        self.fold(registers, finish as usize)
    }

    /// # Safety
    /// Nobody writes what is read.
    unsafe fn fill_outputs(&self, registers: &mut Registers, output: i64, lanes: usize) -> Result<(), TeError> {
        let along = runs(self.outer, output, lanes);
        let inner: Vec<i64> = vec![0; self.inner.len()];
        // SAFETY: the caller's promise.
        unsafe { self.elements[1].fill(registers, Along::Outer(&along, &inner), lanes) }
    }

    /// Stores the outputs from `output` on, whose totals are in `left`.
    ///
    /// # Safety
    /// Nobody else touches these outputs.
    unsafe fn store(&self, registers: &mut Registers, output: i64, outputs: i64) -> Result<(), TeError> {
        let lanes = if self.tree.across { (outputs - output).min(LANES as i64) as usize } else { 1 };
        // SAFETY: the caller's promise.
        unsafe { self.fill_outputs(registers, output, lanes) }?;
        if let Some((steps, init)) = &self.code.init
            && !self.tree.exact
        {
            registers.run(steps, lanes)?;
            for ((left, right), init) in self.code.left.iter().zip(&self.code.right).zip(init) {
                registers.copy_lanes(*right, 0, *left, 0, lanes);
                registers.copy_lanes(*left, 0, *init, 0, lanes);
            }
            self.merge_lanes(registers, lanes)?;
        }
        registers.run(&self.code.finish.steps, lanes)?;
        let along = runs(self.outer, output, lanes);
        let inner: Vec<i64> = vec![0; self.inner.len()];
        for (place, register) in &self.code.finish.results {
            // SAFETY: the caller's promise.
            unsafe { self.write(registers, *place, *register, Along::Outer(&along, &inner)) };
        }
        match &self.code.apply {
            // SAFETY: the caller's promise.
            Some(results) => unsafe { self.apply(registers, results, output, lanes) },
            None => Ok(()),
        }
    }

    /// Computes and stores what is made of every point of some outputs and their totals.
    ///
    /// # Safety
    /// Nobody else touches these elements.
    unsafe fn apply(
        &self,
        registers: &mut Registers,
        results: &Results,
        output: i64,
        lanes: usize,
    ) -> Result<(), TeError> {
        let count = points(self.inner);
        if self.tree.across {
            let along = runs(self.outer, output, lanes);
            for element in 0..count {
                let inner = decode(self.inner, element);
                // SAFETY: the caller's promise.
                unsafe { self.apply_strip(registers, results, Along::Outer(&along, &inner), lanes) }?;
            }
            return Ok(());
        }
        for left in &self.code.left {
            registers.repeat_first(*left);
        }
        let outer = decode(self.outer, output);
        for first in (0..count).step_by(LANES) {
            let lanes = (count - first).min(LANES as i64) as usize;
            let along = runs(self.inner, first, lanes);
            // SAFETY: the caller's promise.
            unsafe { self.apply_strip(registers, results, Along::Inner(&outer, &along), lanes) }?;
        }
        Ok(())
    }

    /// # Safety
    /// As [`Job::apply`].
    unsafe fn apply_strip(
        &self,
        registers: &mut Registers,
        results: &Results,
        along: Along<'_>,
        lanes: usize,
    ) -> Result<(), TeError> {
        // SAFETY: the caller's promise.
        unsafe { self.elements[2].fill(registers, along, lanes) }?;
        registers.run(&results.steps, lanes)?;
        for (place, register) in &results.results {
            // SAFETY: the caller's promise.
            unsafe { self.write(registers, *place, *register, along) };
        }
        Ok(())
    }

    /// # Safety
    /// The points are within the loops, and these elements of the output are this task's.
    unsafe fn write(&self, registers: &Registers, place: usize, register: Register, along: Along<'_>) {
        let offset = |slots: &[Slot], index: &[i64]| -> i64 {
            slots.iter().zip(index).map(|(slot, i)| slot.outputs[place] * i).sum()
        };
        let (runs, moving, still, scale) = match along {
            Along::Inner(outer, runs) => (runs, self.inner, offset(self.outer, outer), 1),
            Along::Outer(runs, inner) => (runs, self.outer, offset(self.inner, inner), 1),
            Along::Every(outer, runs, stride) => (runs, self.inner, offset(self.outer, outer), stride),
        };
        let (tensor, steps) = (self.bound.tensors[self.first_output + place], &self.space.outputs[place]);
        let step = moving.last().map_or(0, |slot| slot.outputs[place]) * scale;
        for run in runs {
            let at = (still + offset(moving, &run.index)) * steps.size as i64;
            let address = steps.address.wrapping_add_signed(at);
            // SAFETY: the run's points are within the output's shape, and the caller's promise.
            unsafe { write(registers, register, run.lane, run.count, tensor.element_type(), address, step) };
        }
    }
}
