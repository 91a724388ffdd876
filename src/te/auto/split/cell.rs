//! Recurrent cells: scans whose steps are all done in one launch, each block having some rows of the batch.
//!
//! ```text
//! for step in k..T:                              in shared memory, of a block's rows
//!     level 0   gates[g] = Σ_k h[k] · W[k, g]    h of the step before  ──►  gates
//!     ──────────────────────────────────────────────── barrier ────────────────────
//!     level 1   c, h = f(gates, x[step], c)      gates, c of before    ──►  c, h  ──►  the states in memory
//!     ──────────────────────────────────────────────── barrier ────────────────────
//! ```
//!
//! *How a cell is recognised.* The update is cut into stages, each at the step at which it is needed. A reduction is a
//! stage. Values that are computed element by element from the states and read inside a reduction are a stage, too.
//! (The reset state of a GRU is one; otherwise it would be computed once for every element of the result.) The rest is
//! inlined. All stages share one time axis, so that their reads are affine in it. *Rows* are the first dimensions after
//! time along which every stage that depends on the states reads only its own index. Each block has some rows and needs
//! no others. Stages that don't depend on the states need not have rows; every block then computes them itself.
//!
//! *How stages are mapped to a block.* The threads share the columns of a stage; if it reduces along memory, a few
//! neighbouring threads share each column. Inputs of later stages are kept in shared memory: the values of a stage,
//! unrounded, and the last steps of a state in a ring. The ring has one step more than the furthest look-back, so that
//! a step never overwrites what it reads. Stages that don't need each other have the same level, and a barrier ends a
//! level. Some reads look back further than the given steps, or not by a constant number of steps. They read memory,
//! which the block itself has written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::rewriting::{HeldResult, Rewriting};
use super::slicing::Slicing;
use crate::te::arith::{equal, simplify};
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::passes::parts;
use crate::te::auto::pattern::reads::{Affine, Read, read_type, refused};
use crate::te::error::{RunError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::define::compute::placeholder_of;
use crate::te::expr::define::scan::reads_state;
use crate::te::expr::expression::Expr;
use crate::te::expr::ranges::Axes;
use crate::te::expr::tensor::{Operation, Scan, Tensor};

/// The most steps that may be given. States in shared memory can't look back further.
const MOST_GIVEN: i64 = 16;

/// A scan whose steps consist of stages that a block can do.
#[derive(Debug)]
pub(in crate::te::auto) struct Cell {
    /// The tensors that stages read from memory: the inputs, then the states.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
    /// The number of inputs.
    pub(in crate::te::auto) inputs: usize,
    /// The number of given steps.
    pub(in crate::te::auto) given: u32,
    /// The number of dimensions after time that are rows.
    pub(in crate::te::auto) rows: usize,
    /// The stages, in an order in which they can be computed.
    pub(in crate::te::auto) stages: Vec<CellStage>,
    /// The parts of shared memory.
    pub(in crate::te::auto) buffers: Vec<Buffer>,
    /// Keeps the range of the time axis alive, which the stages share.
    _time: Axes,
}

/// The computation for every column between two barriers.
#[derive(Debug)]
pub(in crate::te::auto) struct CellStage {
    /// The stage's computation. Its axes are time, rows if it has any, and columns, then the reduced axes.
    pub(in crate::te::auto) pattern: Reduction,
    /// The source of each of its reads.
    pub(in crate::te::auto) sources: Vec<CellSource>,
    /// The destinations of each of its outputs.
    pub(in crate::te::auto) stores: Vec<Store>,
    pub(in crate::te::auto) has_rows: bool,
    /// The number of barriers of a step that come before it.
    pub(in crate::te::auto) level: usize,
}

/// The source of a read.
#[derive(Clone, Debug)]
pub(in crate::te::auto) enum CellSource {
    /// Global memory: an input, or a state.
    Memory,
    /// Shared memory: the buffer, the number of steps back, and the indices as affine functions of axes.
    Buffer { buffer: usize, lag: u32, affine: Option<Affine> },
}

/// The destinations of an output.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::te::auto) struct Store {
    /// The buffer for its unrounded values.
    pub(in crate::te::auto) held: Option<usize>,
    /// The state that takes it as its new step.
    pub(in crate::te::auto) state: Option<usize>,
}

/// A part of shared memory.
#[derive(Debug)]
pub(in crate::te::auto) struct Buffer {
    /// The tensor whose steps it holds, one or several: a state, or a stand-in for a stage's values. Time is its first
    /// dimension.
    pub(in crate::te::auto) tensor: Tensor,
    pub(in crate::te::auto) state: Option<usize>,
    /// The number of steps.
    pub(in crate::te::auto) slots: u32,
    pub(in crate::te::auto) has_rows: bool,
}

impl CellStage {
    /// The number of axes that are not reduced.
    pub(in crate::te::auto) fn outer(&self) -> usize {
        if self.pattern.passes.is_empty() { self.pattern.axes.len() } else { self.pattern.outer }
    }
}

impl Buffer {
    /// The number of the first dimension within a row: after time and the dimensions of rows.
    pub(in crate::te::auto) fn first_column(&self, rows: usize) -> usize {
        1 + if self.has_rows { rows } else { 0 }
    }
}

impl Cell {
    /// A state in global memory.
    pub(in crate::te::auto) fn state(&self, number: usize) -> &Tensor {
        &self.parameters[self.inputs + number]
    }

    /// Analyses a scan. `inputs` are the tensors that it is known to read; more are added.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) if it must run step by step.
    pub(in crate::te::auto) fn of(scan: &Scan, inputs: &mut Vec<Tensor>) -> Result<Self, TeError> {
        let name = scan.state[0].name();
        let domain = scan.axis.domain().ok_or_else(|| refused(&format!("{name}, a scan without steps,")))?;
        let given = simplify(&domain.min).as_int().filter(|given| (1..=MOST_GIVEN).contains(given));
        let given = given.ok_or_else(|| refused(&format!("{name}, which is given no constant number of steps,")))?;
        let time = Axis::new("step", Some(Domain::up_to(domain.extent)), AxisKind::Data);
        let kept = Axes::from(vec![time]);
        let now = Expr::from(time) + given;
        let mut slicing = Slicing { state: &scan.state, now: now.clone(), axis: Some(time), made: Vec::new() };
        let updates = scan.update.iter().map(|update| slicing.at(update, 0)).collect::<Result<Vec<_>, _>>()?;
        if (1..updates.len()).any(|place| updates[..place].contains(&updates[place])) {
            return Err(refused(&format!("{name}, a state that has another's update,")));
        }
        let made: Vec<Arc<Operation>> = slicing.made.into_iter().map(|(_, _, made)| made).collect();
        let mut building = Building { scan, updates: &updates, stages: Vec::new(), held: HashMap::new() };
        let held = building.held(&made);
        for operation in &made {
            building.stage(operation, held.contains(&Arc::as_ptr(operation)))?;
        }
        building.last()?;
        building.finished(&now, given, inputs, kept)
    }
}

/// A stage that is being built.
struct Making {
    pattern: Reduction,
    /// For each output, the tensor that stands for it in later stages, and the state that it updates.
    outputs: Vec<(Option<Tensor>, Option<usize>)>,
    of_state: bool,
    has_rows: bool,
}

struct Building<'a> {
    scan: &'a Scan,
    updates: &'a [Tensor],
    stages: Vec<Making>,
    /// The tensors that hold values of stages in shared memory, by operation.
    held: HashMap<*const Operation, Vec<HeldResult>>,
}

impl Building<'_> {
    fn of_state(&self, operation: &Arc<Operation>) -> bool {
        reads_state(&Tensor::new(Arc::clone(operation), 0), &self.scan.state)
    }

    /// The operations with values that are kept: reductions, and their reads that depend on the states and have at most
    /// as many dimensions.
    fn held(&self, made: &[Arc<Operation>]) -> HashSet<*const Operation> {
        let most = self.scan.state.iter().map(Tensor::rank).max().unwrap_or(0);
        let mut held = HashSet::new();
        let mut seen = HashSet::new();
        for reduction in made.iter().filter(|operation| parts(operation).is_some()) {
            held.insert(Arc::as_ptr(reduction));
            let mut pending = vec![Arc::clone(reduction)];
            while let Some(reader) = pending.pop() {
                for input in reader.inputs() {
                    let operation = input.operation();
                    let own = made.iter().any(|own| Arc::ptr_eq(own, operation)) && parts(operation).is_none();
                    if !own || !seen.insert(Arc::as_ptr(operation)) {
                        continue;
                    }
                    if input.rank() <= most && self.of_state(operation) {
                        held.insert(Arc::as_ptr(operation));
                    } else {
                        pending.push(Arc::clone(operation));
                    }
                }
            }
        }
        held
    }

    /// Adds a stage for an operation that is kept; other operations are inlined where they are read.
    fn stage(&mut self, operation: &Arc<Operation>, is_held: bool) -> Result<(), TeError> {
        if !is_held {
            return Ok(());
        }
        let own = Rewriting::new(&self.held).operation(operation);
        let values: Vec<Tensor> = (0..own.values()).map(|value| Tensor::new(Arc::clone(&own), value)).collect();
        let is_reduction = parts(&own).is_some();
        let pattern = if is_reduction { Reduction::of(&values)? } else { Reduction::map(&values)? };
        if pattern.passes.len() > 1 {
            return Err(refused(&format!("{}, several reductions in one stage,", operation.name())));
        }
        let stand = |tensor: &Tensor| HeldResult {
            tensor: placeholder_of(read_type(tensor.dtype()), tensor.shape(), &tensor.name()),
            output: None,
        };
        let stands: Vec<HeldResult> = values.iter().map(stand).collect();
        let state = |value: usize| {
            self.updates.iter().position(|u| Arc::ptr_eq(u.operation(), operation) && u.value() == value)
        };
        let outputs = stands.iter().enumerate().map(|(value, held)| (Some(held.tensor.clone()), state(value)));
        let outputs = outputs.collect();
        self.stages.push(Making { pattern, outputs, of_state: self.of_state(operation), has_rows: true });
        self.held.insert(Arc::as_ptr(operation), stands);
        Ok(())
    }

    /// Adds the updates that are not kept, in one stage if they have one shape.
    fn last(&mut self) -> Result<(), TeError> {
        let mut rewriting = Rewriting::new(&self.held);
        let rest: Vec<(usize, Tensor)> = (self.updates.iter().enumerate())
            .filter(|(_, update)| !self.held.contains_key(&Arc::as_ptr(update.operation())))
            .map(|(state, update)| (state, rewriting.tensor(update)))
            .collect();
        let all: Vec<Tensor> = rest.iter().map(|(_, tensor)| tensor.clone()).collect();
        let making = |states: &[(usize, Tensor)], pattern: Reduction| Making {
            pattern,
            outputs: states.iter().map(|(state, _)| (None, Some(*state))).collect(),
            of_state: true,
            has_rows: true,
        };
        if all.is_empty() {
            return Ok(());
        }
        if let Ok(pattern) = Reduction::map(&all) {
            self.stages.push(making(&rest, pattern));
            return Ok(());
        }
        for one in &rest {
            self.stages.push(making(std::slice::from_ref(one), Reduction::map(std::slice::from_ref(&one.1))?));
        }
        Ok(())
    }

    /// The stage whose value a tensor stands for.
    fn stage_of(&self, tensor: &Tensor) -> Option<usize> {
        self.stages.iter().position(|stage| stage.outputs.iter().any(|(stands, _)| stands.as_ref() == Some(tensor)))
    }

    /// Finds the number of dimensions that are rows. Stages that don't depend on the states and don't have them lose
    /// their rows.
    fn rows(&mut self) -> usize {
        let ranks = self.scan.state.iter().map(|state| state.rank().saturating_sub(2));
        let mut rows = ranks.min().unwrap_or(0);
        let shape = self.scan.state[0].shape();
        loop {
            self.stages.iter_mut().for_each(|stage| stage.has_rows = true);
            let fits = |axes: &[Axis], outer: usize, rows: usize| {
                outer > rows
                    && axes[1..=rows]
                        .iter()
                        .zip(&shape[1..])
                        .all(|(axis, extent)| axis.domain().is_some_and(|domain| equal(&domain.extent, extent)))
            };
            let states_fit = self
                .scan
                .state
                .iter()
                .all(|state| state.shape()[1..=rows].iter().zip(&shape[1..]).all(|(a, b)| equal(a, b)));
            let mut apart = states_fit;
            // Later stages come first: what they need without rows has none either.
            for place in (0..self.stages.len()).rev() {
                let stage = &self.stages[place];
                let outer =
                    if stage.pattern.passes.is_empty() { stage.pattern.axes.len() } else { stage.pattern.outer };
                let has_rows = stage.has_rows && fits(&stage.pattern.axes, outer, rows);
                apart &= has_rows || !stage.of_state;
                let own = |read: &Read| {
                    let behind = read.indices.iter().skip(1).zip(&stage.pattern.axes[1..]);
                    has_rows
                        && read.indices.len() > rows
                        && behind.take(rows).all(|(index, axis)| index.as_var() == Some(axis.var()))
                };
                let mut without = Vec::new();
                for read in &stage.pattern.reads.list {
                    if self.scan.state.contains(&read.tensor) {
                        apart &= own(read);
                    } else if let Some(other) = self.stage_of(&read.tensor)
                        && !own(read)
                    {
                        apart &= !self.stages[other].of_state;
                        without.push(other);
                    }
                }
                self.stages[place].has_rows = has_rows;
                without.into_iter().for_each(|other| self.stages[other].has_rows = false);
            }
            if apart || rows == 0 {
                return rows;
            }
            rows -= 1;
        }
    }

    fn finished(mut self, now: &Expr, given: i64, inputs: &mut Vec<Tensor>, kept: Axes) -> Result<Cell, TeError> {
        let rows = self.rows();
        let mut buffers: Vec<Buffer> = Vec::new();
        let mut sources: Vec<Vec<CellSource>> = Vec::new();
        let mut levels: Vec<usize> = Vec::new();
        for stage in &self.stages {
            let (mut own, mut level) = (Vec::new(), 0);
            for read in &stage.pattern.reads.list {
                let state = self.scan.state.iter().position(|state| *state == read.tensor);
                let of_stage = self.stage_of(&read.tensor);
                if let Some(other) = of_stage {
                    level = level.max(levels.get(other).ok_or_else(|| refused("stages in a circle"))? + 1);
                }
                let lag = state.and_then(|_| simplify(&(now - &read.indices[0])).as_int());
                let lag = if of_stage.is_some() { Some(0) } else { lag.filter(|lag| (1..=given).contains(lag)) };
                own.push(match lag.and_then(|lag| u32::try_from(lag).ok()) {
                    Some(lag) => {
                        let place = buffers.iter().position(|buffer| buffer.tensor == read.tensor);
                        let buffer = place.unwrap_or_else(|| {
                            let has_rows = of_stage.is_none_or(|other| self.stages[other].has_rows);
                            buffers.push(Buffer { tensor: read.tensor.clone(), state, slots: 1, has_rows });
                            buffers.len() - 1
                        });
                        buffers[buffer].slots = buffers[buffer].slots.max(lag + 1);
                        CellSource::Buffer { buffer, lag, affine: read.affine.clone() }
                    }
                    None => CellSource::Memory,
                });
                let known = inputs.contains(&read.tensor) || state.is_some() || of_stage.is_some();
                if !known {
                    inputs.push(read.tensor.clone());
                }
            }
            sources.push(own);
            levels.push(level);
        }
        let mut stages = Vec::with_capacity(self.stages.len());
        for ((mut making, sources), level) in self.stages.into_iter().zip(sources).zip(levels) {
            // Values in shared memory have no address on the host.
            for (read, source) in making.pattern.reads.list.iter_mut().zip(&sources) {
                if matches!(source, CellSource::Buffer { .. }) {
                    read.affine = None;
                }
            }
            let buffer = |tensor: &Tensor| buffers.iter().position(|buffer| buffer.tensor == *tensor);
            let store = |(stands, state): &(Option<Tensor>, Option<usize>)| Store {
                held: stands.as_ref().and_then(buffer),
                state: *state,
            };
            let stores = making.outputs.iter().map(store).collect();
            stages.push(CellStage { pattern: making.pattern, sources, stores, has_rows: making.has_rows, level });
        }
        // By level; the order within a level stays.
        stages.sort_by_key(|stage| stage.level);
        let given = u32::try_from(given).map_err(|_| RunError::IntegerRange)?;
        let parameters = inputs.iter().chain(&self.scan.state).cloned().collect();
        Ok(Cell { parameters, inputs: inputs.len(), given, rows, stages, buffers, _time: kept })
    }
}
