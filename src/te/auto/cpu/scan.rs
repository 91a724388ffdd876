//! Scans on the CPU: many columns side by side or, if the update is linear, many stretches of one column's time.

use std::ops::Range;

use super::elements::{Along, Elements, Loops};
use super::memory::{LaneRun, Written, decode, runs, write};
use super::program::Program;
use super::reduce_job::ALONE;
use super::registers::{LANES, Registers, by_class};
use super::scan_columns::{CompiledReduction, Results, results};
use super::scan_plain::{GROUP, HELD, Plain};
use crate::lane::{Class, LaneStep, Register};
use crate::parallel;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{Space, points};
use crate::te::auto::gpu::choose::scan::choose;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::linear_map::LinearMap;
use crate::te::auto::pattern::recurrence::{Recurrence, When};
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;
use crate::tuning::Tuning;

/// The number of stretches that a column's time is cut into. It is the same on every machine.
const STRETCHES: i64 = 512;
const STRETCHES_PER_TASK: i64 = 64;
/// With fewer columns than this, time is cut if it is long enough.
const FEW_COLUMNS: i64 = 32;
/// The most columns of a task, if they are neighbours in memory.
const WIDE: i64 = 1 << 12;
/// Cutting doesn't pay for stretches of fewer steps than this.
const STRETCH: i64 = 16;

/// A scan, compiled for the shapes of a run.
pub(in crate::te::auto) struct Scan {
    outer: Loops,
    inner: Loops,
    program: Program,
    elements: Elements,
    /// Reads of outputs whose index or condition depends on the state after the step.
    after_elements: Elements,
    begin_elements: Elements,
    components: Vec<Register>,
    begin: (Vec<LaneStep>, Vec<Register>),
    /// For every given step, the outputs of its columns.
    given: Vec<Results>,
    update: (Vec<LaneStep>, Vec<Register>),
    /// The outputs of columns.
    outputs: Results,
    /// The reduction over columns, if there is one.
    column_reduction: Option<CompiledReduction>,
    /// How columns are computed without strips, if they can be.
    plain: Option<Plain>,
    maps: Option<Maps>,
    written: Vec<Written>,
    /// Whether there is too little to do for several threads.
    alone: bool,
    columns: i64,
    steps: i64,
    choice: String,
}

/// The composition of steps as maps, before the state is known.
struct Maps {
    /// The entries of the map so far that are kept.
    entries: Vec<Register>,
    identity: (Vec<LaneStep>, Vec<Register>),
    /// The map composed with one more step.
    compose: (Vec<LaneStep>, Vec<Register>),
    /// The state after the map.
    apply: (Vec<LaneStep>, Vec<Register>),
}

impl Scan {
    pub(in crate::te::auto) fn new(
        pattern: &Recurrence,
        bound: &BoundTensors<'_>,
        space: &Space,
        used: &[bool],
        (order, tuning): (Order, Tuning),
    ) -> Result<Self, TeError> {
        let plan = choose(pattern, space, used, order, 1)?;
        let (outer, inner): (Loops, Loops) = (plan.outer.as_slice().into(), plan.inner.as_slice().into());
        let (columns, steps) = (points(&outer), points(&inner));
        let cut = order == Order::Device
            && pattern.map.is_some()
            && pattern.column_reduction.is_none()
            && columns < FEW_COLUMNS
            && steps >= STRETCH * STRETCHES_PER_TASK;
        let mut program = Program::new(tuning);
        let all = &pattern.reads.list;
        let parameters = &pattern.parameters;
        let loops = (&outer, &inner);
        let (axes, sizes) = (&pattern.axes, &bound.sizes);
        let values = |program: &mut Program, all: &[Expr]| -> Result<Vec<Register>, TeError> {
            all.iter().map(|x| program.value(x, sizes)).collect()
        };
        // A read that needs no test is made before the step.
        let when = |place: usize| if space.reads[place].is_some() { When::Ahead } else { pattern.when[place] };
        let of_step = |is: fn(When) -> bool| (0..pattern.element_reads).filter(move |place| is(when(*place)));
        let before = of_step(|when| matches!(when, When::Ahead | When::Before));
        let later = of_step(|when| when == When::After);
        let by_total: Vec<usize> = of_step(|when| when == When::Reduced).collect();
        let elements = Elements::new(&mut program, axes, all, before, space, used, loops, parameters, bound)?;
        let components: Vec<Register> = pattern.components.iter().map(|var| program.variable(*var)).collect();
        let maps = match &pattern.map {
            Some(map) if cut => Some(Maps::new(&mut program, map, pattern, bound)?),
            _ => None,
        };
        let new = values(&mut program, &pattern.updates)?;
        let new = program.apart(&new);
        let update = (program.take_steps(), new);
        for (var, register) in pattern.after.iter().zip(&components) {
            program.bind(*var, *register);
        }
        let after_elements = Elements::new(&mut program, axes, all, later, space, used, loops, parameters, bound)?;
        let of_outputs: Vec<Expr> = pattern.outputs.iter().map(|output| output.value.clone()).collect();
        let outputs = results(&mut program, pattern, &of_outputs, false, sizes)?;
        let reading = |program: &mut Program, places: &[usize]| {
            Elements::new(program, axes, all, places.iter().copied(), space, used, loops, parameters, bound)
        };
        let compile = |reduction| {
            CompiledReduction::new(&mut program, pattern, reduction, (&plan, order), sizes, (&reading, &by_total))
        };
        let mut column_reduction = pattern.column_reduction.as_ref().map(compile).transpose()?;
        let column_used: Vec<bool> =
            used.iter().enumerate().map(|(axis, used)| *used && axis < pattern.outer()).collect();
        let given_by_total = pattern.given_by_total(|place| space.reads[place].is_none());
        let waits = |place: &usize| given_by_total.iter().flatten().any(|own| own == place);
        let begin_reads = (pattern.element_reads..all.len()).filter(|place| !waits(place));
        let begin_elements =
            Elements::new(&mut program, axes, all, begin_reads, space, &column_used, loops, parameters, bound)?;
        let begin = values(&mut program, &pattern.begin)?;
        let begin = (program.take_steps(), begin);
        let mut given = Vec::new();
        for step in &pattern.given {
            given.push(results(&mut program, pattern, step, false, sizes)?);
        }
        if let (Some(compiled), Some(reduction)) = (&mut column_reduction, &pattern.column_reduction) {
            let reading = |program: &mut Program, places: &[usize]| {
                Elements::new(program, axes, all, places.iter().copied(), space, &column_used, loops, parameters, bound)
            };
            compiled.add_given(&mut program, pattern, reduction, sizes, (&reading, &given_by_total))?;
        }
        let written = Written::all(bound, &space.outputs, tuning.stores);
        let simple = outputs.0.is_empty() && column_reduction.is_none() && after_elements.is_empty();
        let plain = Plain::of(&components, (&update.0, &update.1), &outputs.1, &elements, &written).filter(|_| simple);
        // Elements that are neighbours are summed in groups, whatever the number of columns.
        let reassociates = order == Order::Device && pattern.map.is_some() && steps >= STRETCH;
        let plain = plain.map(|plain| if reassociates { plain.grouped(&outer, &inner) } else { plain });
        let grouped = plain.is_some_and(|plain| plain.is_grouped());
        let reason = plan.reason.map_or(String::new(), |reason| format!(" ({reason})"));
        let choice = if grouped {
            format!("on the CPU: running sums in groups of {GROUP} neighbours, straight from memory")
        } else if cut {
            format!("on the CPU: {STRETCHES} stretches of time side by side")
        } else {
            format!("on the CPU: columns side by side, step by step{reason}")
        };
        Ok(Self {
            choice,
            columns,
            steps,
            plain,
            written,
            alone: columns.saturating_mul(steps) <= ALONE && (!cut || grouped),
            outer,
            inner,
            program,
            elements,
            after_elements,
            begin_elements,
            components,
            begin,
            given,
            update,
            outputs,
            column_reduction,
            maps,
        })
    }

    /// The choice in words.
    pub(in crate::te::auto) fn describe(&self) -> String {
        self.choice.clone()
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        for elements in [&mut self.elements, &mut self.after_elements, &mut self.begin_elements] {
            elements.moved(by);
        }
        if let Some(reduction) = &mut self.column_reduction {
            reduction.moved(by);
        }
        self.written.iter_mut().for_each(|output| output.moved(by));
        if let Some(plain) = &mut self.plain {
            plain.moved(by);
        }
    }

    /// Runs it.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call, and no output may overlap another tensor.
    pub(in crate::te::auto) unsafe fn run(&self) -> Result<(), TeError> {
        let (columns, steps) = (self.columns, self.steps);
        // SAFETY: the caller's promise.
        unsafe { self.run_columns(columns, steps) }
    }
}

impl Maps {
    fn new(
        program: &mut Program,
        map: &LinearMap,
        pattern: &Recurrence,
        bound: &BoundTensors<'_>,
    ) -> Result<Self, TeError> {
        let kept: Vec<Var> = map.map_numbers().iter().map(|_| Var::local("m", map.dtype)).collect();
        let registers: Vec<Register> = kept.iter().map(|var| program.variable(*var)).collect();
        let so_far = map.entries(&kept.into_iter().map(Expr::from).collect::<Vec<_>>());
        let values = |program: &mut Program, all: &[Expr]| -> Result<Vec<Register>, TeError> {
            all.iter().map(|x| program.value(x, &bound.sizes)).collect()
        };
        let identity = values(program, &map.numbers(&map.unit()))?;
        let identity = (program.take_steps(), identity);
        let composed = values(program, &map.numbers(&map.compose(&so_far, &map.step())))?;
        let composed = program.apart(&composed);
        let compose = (program.take_steps(), composed);
        let state: Vec<Expr> = pattern.components.iter().map(|var| Expr::from(*var)).collect();
        let applied = values(program, &map.apply(&so_far, &state))?;
        let applied = program.apart(&applied);
        let apply = (program.take_steps(), applied);
        Ok(Self { entries: registers, identity, compose, apply })
    }
}

impl Scan {
    /// # Safety
    /// Nobody else may access the tensors during the call.
    unsafe fn run_columns(&self, columns: i64, steps: i64) -> Result<(), TeError> {
        let grouped = self.plain.filter(Plain::is_grouped);
        if let Some(plain) = grouped
            && !self.alone
            && columns < parallel::threads() as i64
        {
            // SAFETY: the caller's promise.
            return unsafe { self.share_columns(&plain, columns, steps) };
        }
        if self.maps.is_some() && grouped.is_none() {
            // SAFETY: the caller's promise.
            return (0..columns).try_for_each(|column| unsafe { self.cut(column, steps) });
        }
        // Narrow groups give more tasks; a column's bits don't depend on its neighbours. Columns that are neighbours in
        // memory have wide groups, for longer reads.
        let is_across = self.plain.is_some_and(|plain| plain.is_across(&self.outer, &self.inner));
        let threads = if self.alone { 1 } else { parallel::threads() as i64 };
        let (tasks, most) = match threads {
            1 if is_across => (1, WIDE),
            _ if is_across => (threads, HELD as i64),
            _ => (threads * 4, LANES as i64),
        };
        let width = ((columns + tasks - 1) / tasks).clamp(1, most);
        // Columns that are reduced to one belong to one task.
        let reduced = self.column_reduction.as_ref().map_or(1, |reduction| reduction.reduced as i64);
        let width = (width / reduced).max(1) * reduced;
        let groups = (columns + width - 1) / width;
        let group = |registers: &mut Registers, group: i64| {
            let first = group * width;
            let count = width.min(columns - first) as usize;
            // SAFETY: the caller's promise; these columns belong to this task.
            unsafe {
                if let Some(plain) = &self.plain {
                    return self.walk_plain(plain, registers, first, count, steps);
                }
                self.start(registers, first, count)?;
                self.walk_columns(registers, first, count, steps)
            }
        };
        if self.alone {
            let mut registers = Registers::new(&self.program);
            return (0..groups).try_for_each(|number| group(&mut registers, number));
        }
        let registers = || Registers::new(&self.program);
        parallel::try_for_each(0..groups as usize, registers, |registers, number| group(registers, number as i64))
    }

    /// Computes columns without strips.
    ///
    /// # Safety
    /// The conditions of [`Scan::run`]; the columns must belong to this task.
    unsafe fn walk_plain(
        &self,
        plain: &Plain,
        registers: &mut Registers,
        column: i64,
        count: usize,
        steps: i64,
    ) -> Result<(), TeError> {
        let state = self.components[0];
        by_class!(state.class, T => {
            let mut states: Vec<T> = Vec::with_capacity(count);
            while states.len() < count {
                let some = (count - states.len()).min(LANES);
                // SAFETY: the caller's promise.
                unsafe { self.start(registers, column + states.len() as i64, some) }?;
                states.extend_from_slice(&registers.get::<T>(state)[..some]);
            }
            for run in runs(&self.outer, column, count) {
                let states = &states[run.lane..run.lane + run.count];
                // SAFETY: the caller's promise; the elements are of the register's type.
                unsafe { plain.walk::<T>(states, (&self.outer, &self.inner), &run.index, steps as usize) };
            }
        });
        Ok(())
    }

    /// Computes a few long columns of sums, one after the other, each by all threads.
    ///
    /// # Safety
    /// The conditions of [`Scan::run`].
    unsafe fn share_columns(&self, plain: &Plain, columns: i64, steps: i64) -> Result<(), TeError> {
        let (state, mut registers) = (self.components[0], Registers::new(&self.program));
        (0..columns).try_for_each(|column| {
            // SAFETY: the caller's promise.
            unsafe { self.start(&mut registers, column, 1) }?;
            let index = decode(&self.outer, column);
            by_class!(state.class, T => {
                let first = registers.get::<T>(state)[0];
                // SAFETY: the caller's promise; the elements are of the register's type.
                unsafe { plain.share::<T>(first, &self.outer, &index, steps as usize) };
            });
            Ok(())
        })
    }

    /// Leaves the state before the first step of some columns in the components, and stores the given steps.
    ///
    /// # Safety
    /// The conditions of [`Scan::run`]; the columns must belong to this task.
    unsafe fn start(&self, registers: &mut Registers, column: i64, count: usize) -> Result<(), TeError> {
        let along = runs(&self.outer, column, count);
        // SAFETY: the caller's promise.
        unsafe { self.begin_elements.fill(registers, Along::Outer(&along, &[0]), count) }?;
        for (step, (steps, results)) in self.given.iter().enumerate() {
            registers.run(steps, count)?;
            let back = self.given.len() as i64 - step as i64;
            // SAFETY: the caller's promise; given steps come before the first.
            unsafe { self.store_columns(registers, results, &along, -back) };
            if let Some(reduction) = &self.column_reduction {
                // SAFETY: as above.
                let results = unsafe { reduction.run(registers, Some(step), Along::Outer(&along, &[0]), count) }?;
                // SAFETY: as above.
                unsafe { self.store_reduced(registers, results, (column, count), -back) };
            }
        }
        registers.run(&self.begin.0, count)?;
        self.keep(registers, &self.begin.1, count);
        Ok(())
    }

    fn keep(&self, registers: &mut Registers, new: &[Register], count: usize) {
        for (component, new) in self.components.iter().zip(new) {
            registers.copy_lanes((*component, 0), (*new, 0), count);
        }
    }

    /// # Safety
    /// The conditions of [`Scan::run`]; the columns must belong to this task.
    unsafe fn walk_columns(
        &self,
        registers: &mut Registers,
        column: i64,
        count: usize,
        steps: i64,
    ) -> Result<(), TeError> {
        let along = runs(&self.outer, column, count);
        for step in 0..steps {
            // SAFETY: the caller's promise.
            unsafe { self.elements.fill(registers, Along::Outer(&along, &[step]), count) }?;
            registers.run(&self.update.0, count)?;
            self.keep(registers, &self.update.1, count);
            if !self.after_elements.is_empty() {
                // SAFETY: the caller's promise.
                unsafe { self.after_elements.fill(registers, Along::Outer(&along, &[step]), count) }?;
            }
            registers.run(&self.outputs.0, count)?;
            // SAFETY: the caller's promise.
            unsafe { self.store_columns(registers, &self.outputs.1, &along, step) };
            if let Some(reduction) = &self.column_reduction {
                // SAFETY: the caller's promise.
                let results = unsafe { reduction.run(registers, None, Along::Outer(&along, &[step]), count) }?;
                // SAFETY: the caller's promise.
                unsafe { self.store_reduced(registers, results, (column, count), step) };
            }
        }
        Ok(())
    }

    /// Stores the results of reducing `count` columns from `column` on.
    ///
    /// # Safety
    /// The conditions of [`Scan::store_columns`].
    unsafe fn store_reduced(
        &self,
        registers: &Registers,
        results: &[(usize, Register)],
        (column, count): (i64, usize),
        step: i64,
    ) {
        let reduced = self.column_reduction.as_ref().map_or(1, |reduction| reduction.reduced);
        for lane in (0..count).step_by(reduced) {
            let index = decode(&self.outer, column + lane as i64);
            // SAFETY: the caller's promise.
            unsafe { self.store_columns(registers, results, &[LaneRun { lane, count: 1, index }], step) };
        }
    }

    /// # Safety
    /// The columns' outputs at this step must belong to this task.
    unsafe fn store_columns(&self, registers: &Registers, results: &[(usize, Register)], along: &[LaneRun], step: i64) {
        for (place, register) in results {
            for run in along {
                let column: i64 = self.outer.iter().zip(&run.index).map(|(level, i)| level.outputs[*place] * i).sum();
                let at = column + step * self.inner[0].outputs[*place];
                let apart = self.outer.last().map_or(0, |level| level.outputs[*place]);
                let target = self.written[*place].target(at, apart).near();
                // SAFETY: the point is within the output's shape, and the caller's promise.
                unsafe { write(registers, *register, run.lane, run.count, target) };
            }
        }
    }

    /// Computes one column, with its time cut into stretches.
    ///
    /// # Safety
    /// The conditions of [`Scan::run`]; the column must belong to this task.
    unsafe fn cut(&self, column: i64, steps: i64) -> Result<(), TeError> {
        let Some(maps) = &self.maps else { return Ok(()) };
        let length = (steps + STRETCHES - 1) / STRETCHES;
        let outer = decode(&self.outer, column);
        let task = |index: i64| index * STRETCHES_PER_TASK..(index + 1) * STRETCHES_PER_TASK;
        let tasks = STRETCHES / STRETCHES_PER_TASK;
        let composed = parallel::try_map(0..tasks as usize, |index| {
            let mut registers = Registers::new(&self.program);
            // SAFETY: the caller's promise.
            unsafe { self.compose(maps, &mut registers, &outer, task(index as i64), length, steps) }?;
            Ok::<Registers, TeError>(registers)
        })?;
        let mut state = Registers::new(&self.program);
        // SAFETY: the caller's promise.
        unsafe { self.start(&mut state, column, 1) }?;
        // The states at the beginnings of the stretches, one after another.
        let mut starts: Vec<Registers> = composed.clone();
        for (maps_of, starts) in composed.iter().zip(&mut starts) {
            for lane in 0..STRETCHES_PER_TASK as usize {
                for component in &self.components {
                    starts.take_lanes((*component, lane), &state, (*component, 0), 1);
                }
                for entry in &maps.entries {
                    state.take_lanes((*entry, 0), maps_of, (*entry, lane), 1);
                }
                state.run(&maps.apply.0, 1)?;
                self.keep(&mut state, &maps.apply.1, 1);
            }
        }
        parallel::try_for_each(
            starts.iter_mut().enumerate(),
            || (),
            |(), (index, registers)| {
                // SAFETY: the caller's promise; the stretches belong to this task.
                unsafe { self.walk_stretches(registers, &outer, task(index as i64), length, steps) }
            },
        )
    }

    /// # Safety
    /// The conditions of [`Scan::run`].
    unsafe fn compose(
        &self,
        maps: &Maps,
        registers: &mut Registers,
        outer: &[i64],
        stretches: Range<i64>,
        length: i64,
        steps: i64,
    ) -> Result<(), TeError> {
        let lanes = STRETCHES_PER_TASK as usize;
        registers.run(&maps.identity.0, lanes)?;
        for (entry, unit) in maps.entries.iter().zip(&maps.identity.1) {
            registers.copy_lanes((*entry, 0), (*unit, 0), lanes);
        }
        for step in 0..length {
            let Some((run, count)) = stretch_steps(&stretches, step, length, steps) else { break };
            // SAFETY: the caller's promise.
            unsafe { self.elements.fill(registers, Along::Every(outer, &[run], length), count) }?;
            registers.run(&maps.compose.0, count)?;
            for (entry, new) in maps.entries.iter().zip(&maps.compose.1) {
                registers.copy_lanes((*entry, 0), (*new, 0), count);
            }
        }
        Ok(())
    }

    /// # Safety
    /// The conditions of [`Scan::run`]; the stretches must belong to this task.
    unsafe fn walk_stretches(
        &self,
        registers: &mut Registers,
        outer: &[i64],
        stretches: Range<i64>,
        length: i64,
        steps: i64,
    ) -> Result<(), TeError> {
        for step in 0..length {
            let Some((run, count)) = stretch_steps(&stretches, step, length, steps) else { break };
            let first = run.index[0];
            let every = [run];
            let along = Along::Every(outer, &every, length);
            // SAFETY: the caller's promise.
            unsafe { self.elements.fill(registers, along, count) }?;
            registers.run(&self.update.0, count)?;
            self.keep(registers, &self.update.1, count);
            if !self.after_elements.is_empty() {
                // SAFETY: the caller's promise.
                unsafe { self.after_elements.fill(registers, along, count) }?;
            }
            registers.run(&self.outputs.0, count)?;
            for (place, register) in &self.outputs.1 {
                let column: i64 = self.outer.iter().zip(outer).map(|(level, i)| level.outputs[*place] * i).sum();
                let apart = self.inner[0].outputs[*place];
                let target = self.written[*place].target(column + first * apart, apart * length).near();
                // SAFETY: these steps are within the output's shape, and the caller's promise.
                unsafe { write(registers, *register, 0, count, target) };
            }
        }
        Ok(())
    }
}

/// The lanes of the stretches that have this step: the first lane's step, and how many there are.
fn stretch_steps(stretches: &Range<i64>, step: i64, length: i64, steps: i64) -> Option<(LaneRun, usize)> {
    let first = stretches.start * length + step;
    if first >= steps {
        return None;
    }
    let count = ((steps - first + length - 1) / length).min(stretches.end - stretches.start) as usize;
    Some((LaneRun { lane: 0, count, index: smallvec::smallvec![first] }, count))
}
