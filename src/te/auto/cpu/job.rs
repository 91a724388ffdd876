//! A reduction, compiled for one run on the CPU.

use std::ops::Range;

use epilogue_runtime::DeviceTensor;

use super::compile::Code;
use super::direct::plan::Direct;
use super::elements::Elements;
use super::invariant::Apart;
use super::program::{Program, Register};
use super::registers::Registers;
use super::tree::Tree;
use crate::simd::stream::Fence;
use crate::te::auto::bind::arguments::Bound;
use crate::te::auto::bind::iteration_space::{Slot, Space, points};
use crate::te::auto::gpu::choose::reduce::{Plan, choose};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::reads::refused;
use crate::te::error::TeError;

/// Points that a task has at least.
pub(super) const TASK: i64 = 1 << 13;

/// A reduction in one pass, and the tensors of a run of it.
pub(in crate::te::auto) struct Task<'a> {
    pub(in crate::te::auto) reduction: &'a Reduction,
    pub(in crate::te::auto) bound: &'a Bound<'a>,
    pub(in crate::te::auto) space: &'a Space,
    /// Which axes are used otherwise than to address elements.
    pub(in crate::te::auto) used: &'a [bool],
}

/// The reduction, compiled for one run.
pub(in crate::te::auto) struct Job<'a> {
    pub(in crate::te::auto) tree: Tree,
    pub(in crate::te::auto) outer: &'a [Slot],
    pub(in crate::te::auto) inner: &'a [Slot],
    pub(in crate::te::auto) program: Program,
    /// What the reduction, the outputs of totals and the outputs of points read.
    pub(in crate::te::auto) elements: [Elements<'a>; 3],
    pub(in crate::te::auto) code: Code,
    /// How rows of memory are combined, where they don't pass through registers.
    pub(in crate::te::auto) direct: Option<Direct<'a>>,
    /// What `code.source` computes once for each output: in all of its lanes, before the first elements.
    pub(in crate::te::auto) source: Option<Apart>,
    /// What `code.apply` computes once for each output.
    pub(super) apart: Option<Apart>,
    /// Whether outputs may share a strip.
    pub(in crate::te::auto) share: bool,
    pub(super) space: &'a Space,
    pub(super) bound: &'a Bound<'a>,
    pub(super) first_output: usize,
}

/// What a thread computes with.
pub(in crate::te::auto) struct Worker {
    pub(in crate::te::auto) registers: Registers,
    /// Where rows of memory are combined; nothing where none are.
    pub(in crate::te::auto) sums: Registers,
    pub(super) _fence: Fence,
}

/// The loops of a reduction on the CPU, which don't depend on how many cores it has.
pub(in crate::te::auto) fn plan(task: &Task<'_>, order: Order) -> Result<Plan, TeError> {
    choose(task.reduction, task.space, task.used, order, 1)
}

impl<'a> Job<'a> {
    pub(in crate::te::auto) fn new(task: &Task<'a>, plan: &'a Plan, order: Order) -> Result<Self, TeError> {
        let Task { reduction, bound, space, used } = *task;
        let [pass] = reduction.passes.as_slice() else { return Err(refused("several passes in one on the CPU")) };
        let (outer, inner) = (plan.outer.as_slice(), plan.inner.as_slice());
        let mut program = Program::default();
        let all = &reduction.reads.list;
        let outer_used: Vec<bool> =
            used.iter().enumerate().map(|(axis, used)| *used && axis < reduction.outer).collect();
        let (axes, parameters) = (&reduction.axes, &reduction.parameters);
        let mut elements = |places: Range<usize>, used: &[bool]| {
            Elements::new(&mut program, axes, all, places, space, used, (outer, inner), parameters, bound)
        };
        let of_reduction = elements(pass.reads.clone(), used)?;
        let of_totals = elements(pass.init_reads.start..reduction.point_reads, &outer_used)?;
        let of_points = elements(reduction.point_reads..all.len(), used)?;
        let code = Code::new(&mut program, reduction, pass, &bound.sizes)?;
        // A shape's tree counts an output's elements without regard to how many loops they are in.
        let counted = order != Order::Shape || inner.len() <= 1;
        let ordered_lanes = order != Order::Exact && !reduction.is_commutative();
        let direct = Direct::of(&code, &of_reduction).filter(|_| counted);
        let share = may_share(&code, &of_reduction);
        let follow = direct.as_ref().is_some_and(|direct| direct.follows(inner));
        let size = (points(outer), points(inner));
        let tree = Tree::new(reduction, plan, order, size, (direct.is_some(), follow, share));
        // Lanes that have runs of neighbours are no rows.
        let direct = direct.filter(|_| tree.across || !ordered_lanes);
        let source = Apart::of(&code.source.0, &code.source.1, &program, &[], &of_reduction);
        let apart = code.apply.as_ref().and_then(|apply| {
            let results: Vec<Register> = apply.results.iter().map(|(_, register)| *register).collect();
            Apart::of(&apply.steps, &results, &program, &code.left, &of_points)
        });
        Ok(Self {
            tree,
            outer,
            inner,
            program,
            elements: [of_reduction, of_totals, of_points],
            code,
            direct,
            source,
            apart,
            share,
            space,
            bound,
            first_output: bound.tensors.len() - reduction.outputs.len(),
        })
    }

    /// The tensors that are read, and those that are written.
    pub(in crate::te::auto) fn tensors(&self) -> (&'a [&'a DeviceTensor], &'a [&'a DeviceTensor]) {
        self.bound.tensors.split_at(self.first_output)
    }
}

/// Whether outputs may share a strip: then some lanes are computed that have no element, and their values left.
fn may_share(code: &Code, elements: &Elements<'_>) -> bool {
    code.condition.is_none() && code.never_fails && elements.are_affine()
}
