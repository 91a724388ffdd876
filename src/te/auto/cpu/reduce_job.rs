//! A reduction, compiled for the CPU and for the shapes of a run.

use std::ops::Range;

use super::compile::{ReductionCode, name_totals};
use super::contraction::{Contraction, Roles};
use super::elements::{Elements, Loops};
use super::invariant::InvariantSteps;
use super::machine::{Awaited, MachineLoops, Strips};
use super::memory::Written;
use super::program::Program;
use super::reduce_argmax::Extreme;
use super::reduce_in_memory::plan::Direct;
use super::reduce_tree::{Tree, Ways};
use super::registers::Registers;
use super::reused::{ReuseRegisters, ReusedValue};
use super::task::Task;
use crate::ElementType;
use crate::lane::{Class, Register};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::bind::iteration_space::points;
use crate::te::auto::gpu::choose::reduce::choose;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::reads::refused;
use crate::te::error::TeError;

/// The least number of points of a task.
pub(super) const TASK: i64 = 1 << 13;

/// With fewer points than this, one thread finishes before others would start.
pub(super) const ALONE: i64 = 1 << 14;

/// A reduction, compiled for the shapes of a run.
pub(in crate::te::auto) struct Job {
    pub(in crate::te::auto) tree: Tree,
    pub(in crate::te::auto) outer: Loops,
    pub(in crate::te::auto) inner: Loops,
    pub(in crate::te::auto) program: Program,
    /// The reads of the reduction; those of initial values and of the outputs of totals; those of the outputs of points; and
    /// those of the outputs of totals at indices, or under conditions, that depend on the totals.
    pub(in crate::te::auto) elements: [Elements; 4],
    pub(in crate::te::auto) code: ReductionCode,
    /// How rows of memory are combined directly, if they don't pass through registers.
    pub(in crate::te::auto) direct: Option<Direct>,
    /// The search for an extreme, if the reduction is one.
    pub(super) extreme: Option<Extreme>,
    /// The contraction that the reduction is, if it is one.
    pub(super) contraction: Option<Contraction>,
    /// The loop-invariant steps of `code.source`; they run in all lanes of an output, before its first elements.
    pub(in crate::te::auto) source: Option<InvariantSteps>,
    /// The loop-invariant steps of `code.apply`.
    pub(super) invariant: Option<InvariantSteps>,
    /// The value of every point that is kept for the outputs of points.
    pub(super) reuse: Option<ReuseRegisters>,
    /// The output in whose elements it is kept, if lanes are outputs.
    pub(super) kept_in: Option<usize>,
    /// The number of outputs that share a strip.
    pub(super) rows: i64,
    pub(super) outputs: Vec<Written>,
    pub(super) machine: MachineLoops,
    awaited: Awaited,
    /// The number of pieces that the outputs are divided into: some for every thread; 1 if there is little to do.
    pub(super) pieces: i64,
}

/// Compiled parts of a reduction: the program, its reads, those of a contraction's rows and columns, and the code.
type Compiled = (Program, [Elements; 4], Option<[Elements; 2]>, ReductionCode);

/// The registers of a thread.
pub(in crate::te::auto) struct Worker {
    pub(in crate::te::auto) registers: Registers,
    /// The lanes into which rows of memory are combined directly, if any.
    pub(in crate::te::auto) sums: Registers,
    /// The lanes of a strip's outputs that machine code walks down, if any.
    pub(super) lanes: Vec<u32>,
    pub(super) _fence: Fence,
}

impl Job {
    /// The loops don't depend on the number of CPU cores. It may be `one_of_some` of the same rows.
    pub(in crate::te::auto) fn new(task: &Task<'_>, order: Order, one_of_some: bool) -> Result<Self, TeError> {
        let Task { reduction, bound, space, used, tuning } = *task;
        let plan = choose(reduction, space, used, order, 1)?;
        let [pass] = reduction.passes.as_slice() else { return Err(refused("several passes in one on the CPU")) };
        let roles = if one_of_some { None } else { Roles::of(task, order) };
        let (outer, inner): (Loops, Loops) = (plan.outer.as_slice().into(), plan.inner.as_slice().into());
        let outer = roles.as_ref().map_or(outer, |roles| Loops::clone(&roles.outer));
        let all = &reduction.reads.list;
        let outer_used: Vec<bool> =
            used.iter().enumerate().map(|(axis, used)| *used && axis < reduction.outer).collect();
        let (axes, parameters) = (&reduction.axes, &reduction.parameters);
        let by_total = reduction.reads.depending_on(&pass.total);
        let is_by_total = |place: &usize| by_total[*place] && space.reads[*place].is_none();
        let (of_totals, later): (Vec<usize>, Vec<usize>) =
            (pass.init_reads.start..reduction.point_reads).partition(|place| !is_by_total(place));
        let compiled = |reused: Option<&ReusedValue>| -> Result<Compiled, TeError> {
            let mut program = Program::new(tuning);
            name_totals(&mut program, pass);
            let mut elements = |places: &[usize], used: &[bool]| {
                let places = places.iter().copied();
                Elements::new(&mut program, axes, all, places, space, used, (&outer, &inner), parameters, bound)
            };
            let range = |places: Range<usize>| places.collect::<Vec<usize>>();
            let all_elements = [
                elements(&range(pass.reads.clone()), used)?,
                elements(&of_totals, &outer_used)?,
                elements(
                    &reused.map_or_else(|| range(reduction.point_reads..all.len()), |reused| reused.reads.clone()),
                    used,
                )?,
                elements(&later, &outer_used)?,
            ];
            let sides = match &roles {
                Some(roles) => Some([elements(&roles.reads_of(0), used)?, elements(&roles.reads_of(1), used)?]),
                None => None,
            };
            let code = ReductionCode::new(&mut program, reduction, pass, &bound.sizes, reused)?;
            Ok((program, all_elements, sides, code))
        };
        let (mut program, mut elements, sides, mut code) = compiled(None)?;
        let contraction = roles
            .as_ref()
            .zip(sides)
            .and_then(|(roles, sides)| Contraction::of(roles.clone(), sides, &mut code, &program, order));
        // The tree of [`Order::Shape`] counts an output's elements, however many loops they are in.
        let counted = order != Order::Shape || inner.len() <= 1;
        let ordered_lanes = order != Order::Exact && !reduction.is_commutative();
        let direct = Direct::of(&code, &elements[0]).filter(|_| counted && contraction.is_none());
        let extreme = Extreme::of(pass, &code, &elements[0]).filter(|_| contraction.is_none());
        let share = may_share(&code, &elements[0]);
        let follow = extreme.is_some() || direct.as_ref().is_some_and(|direct| direct.follows(&inner));
        let size = (points(&outer), points(&inner));
        let in_rows = inner.len() <= 1 && may_be_rows(&code, &elements[0]);
        let in_chain = one_of_some || code.apply.is_some();
        let is_wide = code.source.1.iter().any(|register| register.class.is_wide());
        let ways = Ways { directly: direct.is_some(), follow, share, in_rows, in_chain, is_wide };
        let tree = match &contraction {
            Some(_) => Tree::of_contraction(order == Order::Exact, Contraction::parts(order, size.1)),
            None => Tree::new(reduction, &plan, order, size, ways),
        };
        // Lanes with runs of neighbouring elements can't share a strip as rows.
        let direct = direct.filter(|_| tree.across || !ordered_lanes);
        let extreme = extreme.filter(|_| !tree.across);
        let rows = if share && direct.is_none() && extreme.is_none() { tree.rows_together() } else { 1 };
        let outputs = Written::all(bound, &space.outputs, tuning.stores);
        let kept_in = if tree.across { kept_across(&code, &outputs, &outer) } else { None };
        let mut reuse = None;
        if (kept_in.is_some() || ReuseRegisters::is_near(rows, size.1))
            && let Some(reused) = ReusedValue::of(reduction, pass)
        {
            (program, elements, _, code) = compiled(Some(&reused))?;
            reuse = Some(ReuseRegisters { from: code.source.1[reused.source], to: program.variable(reused.var) });
        }
        let source = InvariantSteps::of(&code.source.0, &code.source.1, &program, &[], &elements[0]);
        let invariant = code
            .apply
            .as_ref()
            .and_then(|apply| InvariantSteps::of(&apply.steps, &apply.registers(), &program, &code.left, &elements[2]));
        Ok(Self {
            tree,
            program,
            elements,
            code,
            direct,
            extreme,
            contraction,
            source,
            invariant,
            reuse,
            kept_in,
            rows,
            outputs,
            machine: MachineLoops::default(),
            awaited: Awaited::new(size.0.saturating_mul(size.1), tuning.code),
            pieces: if size.0.saturating_mul(size.1.max(1)) <= ALONE { 1 } else { parallel::threads() as i64 * 4 },
            outer,
            inner,
        })
    }

    /// Compiles machine code as soon as it pays; called before every run. If lanes are outputs, these are divided into
    /// `strips`, or into its own. Whether it has tiles from now on.
    pub(super) fn prepare(&mut self, strips: Option<Strips>) -> bool {
        if !self.awaited.pays() {
            return false;
        }
        let vectors = self.program.tuning.vectors;
        let contraction = self.contraction.as_mut();
        let tiles = contraction.is_some_and(|contraction| contraction.compile(parallel::threads(), vectors));
        if !tiles {
            self.machine = self.machine_loops(strips);
        }
        tiles
    }

    /// The value of each point that is kept in an output, if lanes are outputs, and the output.
    pub(super) fn kept_across(&self) -> Option<(ReuseRegisters, usize)> {
        Some((self.reuse?, self.kept_in?))
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        self.elements.iter_mut().for_each(|elements| elements.moved(by));
        self.outputs.iter_mut().for_each(|output| output.moved(by));
        if let Some(direct) = &mut self.direct {
            direct.moved(by);
        }
        if let Some(extreme) = &mut self.extreme {
            extreme.moved(by);
        }
        if let Some(contraction) = &mut self.contraction {
            contraction.moved(by);
        }
    }
}

/// The output of points in whose elements a value of each point can be kept: it holds any, as neighbouring outputs do.
fn kept_across(code: &ReductionCode, outputs: &[Written], outer: &Loops) -> Option<usize> {
    let results = &code.apply.as_ref().filter(|_| code.condition.is_none())?.results;
    let is_alike = |place: &usize| {
        outputs[*place].element == ElementType::F32 && outer.last().is_some_and(|level| level.outputs[*place] == 1)
    };
    results.iter().map(|(place, _)| *place).find(is_alike)
}

/// Whether outputs may share a strip. Lanes without an element are then computed too, and their values are ignored.
fn may_share(code: &ReductionCode, elements: &Elements) -> bool {
    code.condition.is_none() && code.never_fails && elements.are_affine()
}

/// Whether machine code may take rows one after the other.
fn may_be_rows(code: &ReductionCode, elements: &Elements) -> bool {
    let has_lanes = |register: &Register| register.class != Class::I64;
    code.condition.is_none() && code.never_fails && elements.are_rows() && code.source.1.iter().all(has_lanes)
}
