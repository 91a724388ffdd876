//! Maps on the CPU: strips of points, computed in parallel.

use super::elements::{Along, Elements, Loops};
use super::machine::{At, Awaited, LoopBuilder, Moving, PointLoop};
use super::map_rows::ChosenRows;
use super::memory::{Written, runs, write};
use super::program::Program;
use super::reduce_job::ALONE;
use super::registers::{LANES, Registers};
use super::task::Task;
use crate::lane::{LaneStep, Register};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::bind::iteration_space::points;
use crate::te::auto::gpu::choose::reduce::choose;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::ReductionOutput;
use crate::te::error::TeError;

/// The least number of points of a task, and of a strip that doesn't pass through registers.
const LONG: usize = 8 * LANES;

/// A computation without reductions, compiled for the shapes of a run.
pub(in crate::te::auto) struct Map {
    inner: Loops,
    program: Program,
    elements: Elements,
    steps: Vec<LaneStep>,
    results: Vec<Register>,
    outputs: Vec<Written>,
    machine: Option<PointLoop>,
    /// The code if indices choose rows. It takes the place of `machine`.
    rows: Option<ChosenRows>,
    awaited: Awaited,
    /// The registers of the caller's thread, if there is too little to do for others.
    alone: Option<Registers>,
}

impl Map {
    pub(in crate::te::auto) fn new(task: &Task<'_>, order: Order) -> Result<Self, TeError> {
        let Task { reduction, bound, space, used, tuning } = *task;
        let plan = choose(reduction, space, used, order, 1)?;
        let inner: Loops = plan.inner.as_slice().into();
        let (reads, parameters, all) = (&reduction.reads.list, &reduction.parameters, 0..reduction.reads.list.len());
        let mut program = Program::new(tuning);
        let loops = (&[][..].into(), &inner);
        let elements = Elements::new(&mut program, &reduction.axes, reads, all, space, used, loops, parameters, bound)?;
        let value = |output: &ReductionOutput| program.value(&output.value, &bound.sizes);
        let results: Vec<Register> = reduction.outputs.iter().map(value).collect::<Result<_, _>>()?;
        let steps = program.take_steps();
        let outputs = Written::all(bound, &space.outputs, tuning.stores);
        let alone = (points(&inner) <= ALONE).then(|| Registers::new(&program));
        let awaited = Awaited::new(points(&inner), tuning.code);
        let (machine, rows) = (None, None);
        Ok(Self { inner, program, elements, steps, results, outputs, machine, rows, awaited, alone })
    }

    /// The steps of a strip as machine code.
    fn compiled(&self) -> Option<PointLoop> {
        let mut builder = LoopBuilder::new(&self.program, &self.elements, Moving::Inner).gathering();
        builder.steps(&self.steps)?;
        for (place, (output, result)) in self.outputs.iter().zip(&self.results).enumerate() {
            builder.write(*result, place, output, &self.steps)?;
        }
        builder.finish()
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        self.elements.moved(by);
        self.outputs.iter_mut().for_each(|output| output.moved(by));
    }

    /// Computes all points.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call, and no output may overlap another tensor.
    pub(in crate::te::auto) unsafe fn run(&mut self) -> Result<(), TeError> {
        if self.awaited.pays() {
            let known = (&self.program, &self.elements);
            self.rows = ChosenRows::compiled(known, &self.steps, &self.results, &self.outputs);
            self.machine = if self.rows.is_some() { None } else { self.compiled() };
        }
        if let Some(rows) = &self.rows {
            // SAFETY: the caller's promise.
            return unsafe { rows.run(&self.program, &self.elements, &self.outputs) };
        }
        let strips = (points(&self.inner) as usize).div_ceil(self.lanes());
        if let Some(mut registers) = self.alone.take() {
            // SAFETY: the caller's promise.
            (0..strips).try_for_each(|strip| unsafe { self.run_strip(&mut registers, strip) })?;
            self.alone = Some(registers);
            return Ok(());
        }
        let all = &*self;
        parallel::try_for_each(
            parallel::pieces(strips, LONG / self.lanes()),
            || (Registers::new(&all.program), Fence),
            // SAFETY: the caller's promise; no two strips share a point.
            |(registers, _), mut strips| strips.try_for_each(|strip| unsafe { all.run_strip(registers, strip) }),
        )
    }

    /// The number of points of a strip.
    fn lanes(&self) -> usize {
        if self.machine.as_ref().is_some_and(|code| !code.is_short) { LONG } else { LANES }
    }

    /// # Safety
    /// The conditions of [`Map::run`]; the strip's points must belong to this thread.
    unsafe fn run_strip(&self, registers: &mut Registers, strip: usize) -> Result<(), TeError> {
        let first = (strip * self.lanes()) as i64;
        let lanes = (points(&self.inner) - first).min(self.lanes() as i64) as usize;
        let along = runs(&self.inner, first, lanes);
        if let Some(code) = &self.machine {
            // SAFETY: the caller's promise.
            unsafe { self.elements.gather(registers, &code.gathered, Along::Inner(&[], &along)) };
            for run in &along {
                let at = At { outer: &[], inner: &run.index, strip: run.lane, uniform: 0, cyclic: 0, kept: 0 };
                // SAFETY: the caller's promise.
                unsafe { code.run((&self.elements, &self.outputs), registers, at, run.count) };
            }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.elements.fill(registers, Along::Inner(&[], &along), lanes) }?;
            registers.run(&self.steps, lanes)?;
        }
        let in_registers = |output: &Written| self.machine.is_none() || output.far;
        for (place, (output, result)) in self.outputs.iter().zip(&self.results).enumerate() {
            if !in_registers(output) {
                continue;
            }
            let step = self.inner.last().map_or(0, |level| level.outputs[place]);
            for run in &along {
                let offset: i64 = self.inner.iter().zip(&run.index).map(|(level, i)| level.outputs[place] * i).sum();
                // SAFETY: the points are within the output's shape; the caller's promise.
                unsafe { write(registers, *result, run.lane, run.count, output.target(offset, step)) };
            }
        }
        Ok(())
    }
}
