//! Reductions on the CPU, in parallel: strips have elements of one output, or of many outputs.

use std::ops::Range;

use smallvec::SmallVec;

use super::contraction::Contraction;
use super::elements::{Along, StripLanes};
use super::fold_lanes::fold_lanes;
use super::machine::At;
use super::memory::{LaneRun, Written, decode, origin, runs, write};
use super::reduce_argmax::Extreme;
use super::reduce_job::{Job, TASK, Worker};
use super::reduce_tree::part_of;
use super::registers::{LANES, Registers, by_class};
use crate::lane::{Class, LaneStep, Register};
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::bind::iteration_space::{LoopLevel, points};
use crate::te::error::TeError;

impl Job {
    /// The choice in words.
    pub(in crate::te::auto) fn describe(&self) -> String {
        if self.extreme.is_some() {
            let parts =
                if self.tree.parts > 1 { format!(", {} parts per output", self.tree.parts) } else { String::new() };
            return format!("on the CPU: the first of the best elements{parts}, straight from memory");
        }
        if let Some(contraction) = &self.contraction {
            return contraction.describe(self.tree.parts, self.tree.exact);
        }
        self.tree.describe(self.direct.is_some())
    }

    pub(in crate::te::auto) fn count_outputs(&self) -> i64 {
        points(&self.outer)
    }

    /// The number of elements of an output.
    pub(in crate::te::auto) fn count(&self) -> i64 {
        points(&self.inner)
    }

    /// The registers with which a thread computes outputs.
    pub(in crate::te::auto) fn worker(&self) -> Worker {
        let (registers, sums) = match &self.direct {
            Some(direct) => (Registers::new(&self.program), self.sums(direct)),
            None => (self.registers(), Registers::of([0; 4], 0)),
        };
        Worker { registers, sums, lanes: Vec::new(), _fence: Fence }
    }

    fn registers(&self) -> Registers {
        Registers::with_lanes(&self.program, LANES.max(self.tree.lanes as usize))
    }

    /// The number of outputs that are computed together.
    fn width(&self) -> i64 {
        match &self.direct {
            Some(direct) => self.chunk_width(direct),
            None if self.tree.across => LANES as i64,
            None if self.extreme.is_some() => (self.count_outputs() / self.pieces).clamp(1, LANES as i64),
            None => self.rows,
        }
    }

    /// Whether tiles compute it.
    pub(super) fn has_tiles(&self) -> bool {
        self.contraction.as_ref().is_some_and(Contraction::has_code)
    }

    /// Runs the reduction. Its bits don't depend on how outputs are divided into tasks.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call.
    pub(in crate::te::auto) unsafe fn run(&self) -> Result<(), TeError> {
        if let Some(contraction) = self.contraction.as_ref().filter(|_| self.has_tiles()) {
            // SAFETY: the caller's promise.
            return unsafe { self.run_tiles(contraction) };
        }
        if let Some(columns) = &self.machine.columns {
            // SAFETY: the caller's promise.
            return unsafe { self.run_columns(columns) };
        }
        if self.tree.parts > 1 {
            // SAFETY: the caller's promise.
            return unsafe {
                match &self.direct {
                    Some(direct) => self.run_parts_directly(direct),
                    None => self.run_parts(),
                }
            };
        }
        let (outputs, width) = (self.count_outputs(), self.width());
        let groups = (outputs + width - 1) / width;
        let least = match &self.direct {
            Some(_) => groups / (self.pieces * 2),
            None => TASK / self.count().saturating_mul(width).max(1),
        };
        parallel::try_for_each(
            parallel::pieces(groups as usize, least.max(1) as usize),
            || self.worker(),
            |worker, mut groups| {
                groups.try_for_each(|group| {
                    let first = group as i64 * width;
                    // SAFETY: the caller's promise; the outputs of this group belong to this task.
                    unsafe { self.run_outputs(worker, first..(first + width).min(outputs)) }
                })
            },
        )
    }

    /// Computes and stores some outputs, each from all of its elements.
    ///
    /// # Safety
    /// Nobody else may write what is read, or access these outputs, during the call.
    pub(in crate::te::auto) unsafe fn run_outputs(
        &self,
        worker: &mut Worker,
        outputs: Range<i64>,
    ) -> Result<(), TeError> {
        if let Some(columns) = &self.machine.columns {
            // SAFETY: the caller's promise.
            return columns.strips.of(outputs).try_for_each(|strip| unsafe { self.run_strip(columns, worker, strip) });
        }
        let Worker { registers, sums, .. } = worker;
        let (width, count) = (self.width(), self.count());
        let mut first = outputs.start;
        while first < outputs.end {
            let together = width.min(outputs.end - first) as usize;
            // SAFETY: the caller's promise.
            unsafe {
                if let Some(direct) = &self.direct {
                    self.run_chunk(direct, (registers, sums), first, together)?;
                } else {
                    if let Some(extreme) = self.extreme {
                        self.start(registers, &self.code.left, together)?;
                        for lane in 0..together {
                            self.find_extreme(extreme, registers, lane, first + lane as i64, 0..count);
                        }
                    } else if self.tree.across || width == 1 {
                        self.accumulate(registers, first, outputs.end, 0..count, true)?;
                    } else {
                        self.accumulate_rows(registers, first, together, count)?;
                    }
                    self.store(registers, first, together)?;
                }
            }
            first += together as i64;
        }
        Ok(())
    }

    /// Runs a reduction whose outputs are cut into parts.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call.
    unsafe fn run_parts(&self) -> Result<(), TeError> {
        let (outputs, count) = (self.count_outputs(), self.count());
        let (width, parts) = (if self.tree.across { LANES as i64 } else { 1 }, self.tree.parts);
        let _fence = Fence;
        (0..(outputs + width - 1) / width).try_for_each(|group| {
            let partials = parallel::try_map(0..parts as usize, |part| {
                let (mut registers, elements) = (self.registers(), part_of(0..count, part as i64, parts));
                // SAFETY: the caller's promise.
                unsafe { self.accumulate(&mut registers, group * width, outputs, elements, false) }?;
                Ok::<Registers, TeError>(registers)
            })?;
            let mut registers = self.registers();
            self.combine_parts(&mut registers, &partials)?;
            // SAFETY: the caller's promise; the outputs of this group belong to this task.
            unsafe { self.store(&mut registers, group * width, width.min(outputs - group * width) as usize) }
        })
    }

    pub(in crate::te::auto) fn start(
        &self,
        registers: &mut Registers,
        to: &[Register],
        count: usize,
    ) -> Result<(), TeError> {
        registers.run(&self.code.identity.0, count)?;
        for (to, from) in to.iter().zip(&self.code.identity.1) {
            registers.copy_lanes((*to, 0), (*from, 0), count);
        }
        Ok(())
    }

    /// Leaves the values of some elements of the outputs from `output` on in `left`.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
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
        // SAFETY: the caller's promise.
        unsafe { self.start_outputs(registers, output, lanes, whole) }?;
        if self.tree.across {
            let along = runs(&self.outer, output, lanes);
            let first = origin(&self.inner);
            if !elements.is_empty() {
                // SAFETY: the caller's promise.
                unsafe { self.begin_source(registers, Along::Outer(&along, &first), lanes) }?;
            }
            for element in elements {
                let inner = decode(&self.inner, element);
                // SAFETY: the caller's promise.
                unsafe { self.fill_source(registers, Along::Outer(&along, &inner), lanes) }?;
                self.add(registers, lanes, lanes)?;
                if let Some((reuse, place)) = self.kept_across() {
                    // SAFETY: these elements are written and read by nobody else before they get their final values.
                    unsafe { self.write_near(registers, place, reuse.from, Along::Outer(&along, &inner)) };
                }
            }
            return Ok(());
        }
        if let Some(extreme) = self.extreme {
            // SAFETY: the caller's promise.
            unsafe { self.find_extreme(extreme, registers, 0, output, elements) };
            return Ok(());
        }
        let outer = decode(&self.outer, output);
        if !elements.is_empty() {
            let all = [LaneRun { lane: 0, count: lanes, index: SmallVec::from_elem(0, self.inner.len()) }];
            // SAFETY: the caller's promise.
            unsafe { self.begin_source(registers, Along::Inner(&outer, &all), lanes) }?;
        }
        if let Some(code) = &self.machine.add {
            let at = At { outer: &outer, inner: &[elements.start], strip: 0, uniform: 0, cyclic: 0, kept: 0 };
            let count = (elements.end - elements.start) as usize;
            // SAFETY: the caller's promise; the registers have a lane for each of the output's.
            unsafe { code.run((&self.elements[0], &self.outputs), registers, at, count) };
        } else if self.tree.ordered {
            // SAFETY: the caller's promise.
            unsafe { self.accumulate_runs(registers, &outer, elements, lanes) }?;
        } else {
            let mut at = elements.start;
            while at < elements.end {
                let count = (elements.end - at).min(lanes as i64) as usize;
                let along = runs(&self.inner, at, count);
                // SAFETY: the caller's promise.
                unsafe { self.fill_source(registers, Along::Inner(&outer, &along), count) }?;
                self.add(registers, count, lanes)?;
                at += count as i64;
            }
        }
        self.fold(registers, lanes, lanes)
    }

    /// Starts with the identities. In exact order, it starts with the initial values if the elements are `whole`
    /// outputs'.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    pub(super) unsafe fn start_outputs(
        &self,
        registers: &mut Registers,
        output: i64,
        lanes: usize,
        whole: bool,
    ) -> Result<(), TeError> {
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
                registers.copy_lanes((*left, 0), (*init, 0), shared);
            }
        }
        Ok(())
    }

    /// Combines a lane with some elements of an output.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn find_extreme(
        &self,
        extreme: Extreme,
        registers: &mut Registers,
        lane: usize,
        output: i64,
        elements: Range<i64>,
    ) {
        let index = decode(&self.outer, output);
        let row: i64 = self.outer.iter().zip(&index).map(|(level, i)| level.reads[extreme.read()] * i).sum();
        let count = (elements.end - elements.start) as usize;
        // SAFETY: the space has checked that reads of points within the loops are inside their tensors; the caller's
        // promise.
        unsafe { extreme.add(registers, lane, row + elements.start, elements.start, count) };
    }

    /// Fills and computes what is the same for all elements of an output, for the outputs of these lanes.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    pub(super) unsafe fn begin_source(
        &self,
        registers: &mut Registers,
        along: Along<'_>,
        lanes: usize,
    ) -> Result<(), TeError> {
        let Some(source) = &self.source else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { self.elements[0].fill_invariant(registers, along) };
        registers.run(&source.once, lanes)
    }

    /// Reads elements.
    ///
    /// # Safety
    /// Nobody may write what is read during the call.
    unsafe fn fill_source(&self, registers: &mut Registers, along: Along<'_>, count: usize) -> Result<(), TeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.source {
                Some(_) => self.elements[0].fill_each(registers, along),
                None => self.elements[0].fill(registers, along, count)?,
            }
        }
        Ok(())
    }

    /// The steps that compute the values of elements from their reads.
    pub(in crate::te::auto) fn source_steps(&self) -> &[LaneStep] {
        self.source.as_ref().map_or(&self.code.source.0, |source| &source.each)
    }

    /// [`accumulate`](Self::accumulate), if every lane has a run of neighbouring elements.
    ///
    /// # Safety
    /// The conditions of [`Job::accumulate`].
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
            let along: Vec<LaneRun> = parts[..active]
                .iter()
                .enumerate()
                .map(|(lane, part)| LaneRun { lane, count: 1, index: decode(&self.inner, part.start + step) })
                .collect();
            // SAFETY: the caller's promise.
            unsafe { self.fill_source(registers, Along::Inner(outer, &along), active) }?;
            self.add(registers, active, lanes)?;
        }
        // All runs are full except the last elements, so only trailing runs are shorter.
        Ok(())
    }

    /// Combines the first `count` of the `lanes` of `left` with what was read.
    pub(in crate::te::auto) fn add(
        &self,
        registers: &mut Registers,
        count: usize,
        lanes: usize,
    ) -> Result<(), TeError> {
        let code = &self.code;
        registers.run(self.source_steps(), count)?;
        if let Some(combines) = &code.combines {
            for ((left, combine), point) in code.left.iter().zip(combines).zip(&code.source.1) {
                registers.combine(*combine, *left, *point, count);
            }
            return Ok(());
        }
        registers.run(&code.accumulate.0, count)?;
        for (left, result) in code.left.iter().zip(&code.accumulate.1) {
            match code.condition {
                Some(condition) => registers.keep_where(*left, condition, *result, count),
                None if code.replaces && count == lanes => registers.replace(*left, *result),
                None => registers.copy_lanes((*left, 0), (*result, 0), count),
            }
        }
        Ok(())
    }

    /// Combines every `width` neighbouring lanes, until the first lanes have everything.
    pub(in crate::te::auto) fn fold(
        &self,
        registers: &mut Registers,
        mut lanes: usize,
        mut width: usize,
    ) -> Result<(), TeError> {
        if let Some(combines) = &self.code.combines {
            for (left, combine) in self.code.left.iter().zip(combines) {
                by_class!(left.class, T => fold_lanes(*combine, &mut registers.get_mut::<T>(*left)[..lanes], width));
            }
            return Ok(());
        }
        while width > 1 {
            (lanes, width) = (lanes / 2, width / 2);
            for (left, right) in self.code.left.iter().zip(&self.code.right) {
                registers.unzip(*left, *right, lanes);
            }
            self.merge_lanes(registers, lanes)?;
        }
        Ok(())
    }

    pub(super) fn merge_lanes(&self, registers: &mut Registers, count: usize) -> Result<(), TeError> {
        registers.run(&self.code.merge.0, count)?;
        // All results are computed before any replaces an old value.
        for (left, result) in self.code.left.iter().zip(&self.code.merge.1) {
            registers.copy_lanes((*left, 0), (*result, 0), count);
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
                    registers.take_lanes((*right, 0), &partials[part as usize], (*left, 0), lanes);
                }
                self.merge_lanes(registers, lanes)?;
            }
            if self.tree.finish.is_none() {
                return Ok(());
            }
            for left in &self.code.left {
                totals.take_lanes((*left, lane as usize), registers, (*left, 0), 1);
            }
        }
        *registers = totals;
        self.fold(registers, finish as usize, finish as usize)
    }

    /// # Safety
    /// Nobody may write what is read during the call.
    pub(in crate::te::auto) unsafe fn fill_outputs(
        &self,
        registers: &mut Registers,
        output: i64,
        lanes: usize,
    ) -> Result<(), TeError> {
        let along = runs(&self.outer, output, lanes);
        let inner = origin(&self.inner);
        // SAFETY: the caller's promise.
        unsafe { self.elements[1].fill(registers, Along::Outer(&along, &inner), lanes) }
    }

    /// Stores `lanes` outputs from `output` on, whose totals are in `left`.
    ///
    /// # Safety
    /// Nobody else may access these outputs during the call.
    pub(in crate::te::auto) unsafe fn store(
        &self,
        registers: &mut Registers,
        output: i64,
        lanes: usize,
    ) -> Result<(), TeError> {
        // SAFETY: the caller's promise.
        unsafe { self.store_totals(registers, output, lanes) }?;
        let Some(results) = &self.code.apply else { return Ok(()) };
        let (count, parts) = (self.count(), self.tree.parts);
        if parts == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.apply(registers, results, (output, lanes), 0..count) };
        }
        // As elements are combined in parts, by several threads, so are points computed.
        let registers = &*registers;
        parallel::try_for_each(
            0..parts as usize,
            || (registers.clone(), Fence),
            |(registers, _), part| {
                let elements = part_of(0..count, part as i64, parts);
                // SAFETY: the caller's promise; no two parts share a point.
                unsafe { self.apply(registers, results, (output, lanes), elements) }
            },
        )
    }

    /// Stores what is computed from totals only, of `lanes` outputs, and leaves the totals in `left`.
    ///
    /// # Safety
    /// Nobody else may access these outputs during the call.
    pub(super) unsafe fn store_totals(
        &self,
        registers: &mut Registers,
        output: i64,
        lanes: usize,
    ) -> Result<(), TeError> {
        // SAFETY: the caller's promise.
        unsafe { self.fill_outputs(registers, output, lanes) }?;
        if let Some((steps, init)) = &self.code.init
            && !self.tree.exact
        {
            registers.run(steps, lanes)?;
            for ((left, right), init) in self.code.left.iter().zip(&self.code.right).zip(init) {
                registers.copy_lanes((*right, 0), (*left, 0), lanes);
                registers.copy_lanes((*left, 0), (*init, 0), lanes);
            }
            self.merge_lanes(registers, lanes)?;
        }
        let along = runs(&self.outer, output, lanes);
        let inner = origin(&self.inner);
        if !self.elements[3].is_empty() {
            // SAFETY: the caller's promise.
            unsafe { self.elements[3].fill(registers, Along::Outer(&along, &inner), lanes) }?;
        }
        registers.run(&self.code.finish.steps, lanes)?;
        for (place, register) in &self.code.finish.results {
            // SAFETY: the caller's promise.
            unsafe { self.write(registers, *place, *register, Along::Outer(&along, &inner)) };
        }
        Ok(())
    }

    /// # Safety
    /// The points must be within the loops, and these elements of the output must belong to this task.
    pub(in crate::te::auto) unsafe fn write(
        &self,
        registers: &Registers,
        place: usize,
        register: Register,
        along: Along<'_>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.write_to(registers, self.outputs[place], place, register, along) };
    }

    /// [`write`](Self::write) to elements that may be read again soon.
    ///
    /// # Safety
    /// The conditions of [`Job::write`].
    unsafe fn write_near(&self, registers: &Registers, place: usize, register: Register, along: Along<'_>) {
        // SAFETY: the caller's promise.
        unsafe { self.write_to(registers, self.outputs[place].near(), place, register, along) };
    }

    /// # Safety
    /// The conditions of [`Job::write`].
    unsafe fn write_to(
        &self,
        registers: &Registers,
        output: Written,
        place: usize,
        register: Register,
        along: Along<'_>,
    ) {
        let offset = |levels: &[LoopLevel], index: &[i64]| -> i64 {
            levels.iter().zip(index).map(|(level, i)| level.outputs[place] * i).sum()
        };
        let StripLanes { runs, moving, still: (others, index), scale } = along.lanes(&self.outer, &self.inner);
        let still = offset(others, index);
        let step = moving.last().map_or(0, |level| level.outputs[place]) * scale;
        for run in runs {
            let target = output.target(still + offset(moving, &run.index), step);
            // SAFETY: the points of the run are within the output's shape, and the caller's promise.
            unsafe { write(registers, register, run.lane, run.count, target) };
        }
    }
}
