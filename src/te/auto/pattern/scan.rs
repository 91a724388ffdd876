//! Analyses a scan: the state of a column, the reads of a step, and the outputs of the state.

use std::sync::Arc;

use super::columns::is_reduced;
use super::fused::parameters;
use super::linearity::prove;
use super::passes::reductions;
use super::reads::{Reads, computed, read_type, refused};
use super::recurrence::{ColumnReduction, Recurrence, ScanOutput, StateComponents, When, of_step, reads_backwards};
use crate::te::arith::{equal, simplify};
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::graph::visit_operations;
use crate::te::expr::tensor::{Operation, Scan, Tensor};
use crate::te::expr::var::Var;

/// The most steps that may be given. An update can't look back further.
const MOST_GIVEN: i64 = 16;

impl Recurrence {
    /// The recurrence of `outputs`, which are states of a scan or are computed from them element by element.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for what automatic schedules can't do: columns that
    /// read each other's state, several scans.
    pub(in crate::te::auto) fn of(outputs: &[Tensor]) -> Result<Self, TeError> {
        let first =
            outputs.first().ok_or_else(|| refused("a kernel without outputs (give the tensors to be computed)"))?;
        let operation = scanned(first.operation())?
            .ok_or_else(|| refused(&format!("{}, which is not a scan and reads none directly,", first.name())))?;
        let scan = operation.as_scan().ok_or_else(|| refused("what is not a scan"))?;
        let given_steps = scan.axis.domain().and_then(|domain| simplify(&domain.min).as_int());
        let given_steps = given_steps.filter(|k| (1..=MOST_GIVEN).contains(k)).ok_or_else(|| {
            refused(&format!(
                "{}, which is not given a constant number of first steps up to {MOST_GIVEN},",
                first.name()
            ))
        })?;
        let mut axes = columns(scan)?;
        axes.push(scan.axis);
        let mut reads = Reads::default();
        let (components, states_components, updates) = update(scan, &axes, given_steps, &mut reads)?;
        let after: Vec<Var> = components.iter().map(|var| Var::local("after", var.dtype())).collect();
        let mut pattern = Self {
            map: prove(&components, &updates).filter(|_| !reads_by_state(&reads, &components)),
            axes: axes.into(),
            reads,
            element_reads: 0,
            when: Vec::new(),
            total_steps: scan.state[0].shape().swap_remove(0),
            given_steps,
            components,
            updates,
            begin: Vec::new(),
            given: Vec::new(),
            after,
            outputs: Vec::new(),
            column_reduction: None,
            parameters: Vec::new(),
        };
        pattern.add_column_reduction(&reductions(outputs), &operation, &states_components)?;
        for output in outputs {
            if is_reduced(output) {
                pattern.add_reduced(output)?;
            } else {
                pattern.add_output(output, &operation, scan, &states_components)?;
            }
        }
        pattern.element_reads = pattern.reads.list.len();
        pattern.when = pattern.times();
        pattern.reads.next_part();
        pattern.add_given(scan, &states_components)?;
        pattern.parameters = parameters(&pattern.reads, outputs)?;
        Ok(pattern)
    }

    /// The number of column axes.
    pub(in crate::te::auto) fn outer(&self) -> usize {
        self.axes.len() - 1
    }

    pub(in crate::te::auto) fn time(&self) -> Axis {
        self.axes[self.axes.len() - 1]
    }

    fn add_output(
        &mut self,
        output: &Tensor,
        operation: &Arc<Operation>,
        scan: &Scan,
        states_components: &[StateComponents],
    ) -> Result<(), TeError> {
        let time = self.outer();
        let in_order: Vec<usize> = std::iter::once(time).chain(0..time).collect();
        if Arc::ptr_eq(output.operation(), operation) {
            let value = Expr::from(self.after[states_components[output.value()].first]);
            self.outputs.push(ScanOutput {
                tensor: output.clone(),
                value,
                axes: in_order,
                reversed: false,
                reduced: false,
            });
            return Ok(());
        }
        let compute = output.operation().as_compute().filter(|c| !c.is_reduction()).ok_or_else(|| {
            refused(&format!("{}, which is not computed element by element from the scan,", output.name()))
        })?;
        let shape = scan.state[0].shape();
        let body = &compute.body[output.value()];
        let along = turned(body, &compute.axes, operation, &shape[0], &in_order).unwrap_or(in_order);
        let of_axis = |axis: usize| &shape[if axis == time { 0 } else { axis + 1 }];
        let same = output.rank() == shape.len()
            && output.shape().iter().zip(&along).all(|(extent, axis)| equal(extent, of_axis(*axis)));
        if !same {
            return Err(refused(&format!("{}, whose shape is not the scan's,", output.name())));
        }
        let steps = along.iter().position(|axis| *axis == time).unwrap_or(0);
        let reversed = reads_backwards(Some(body), compute.axes[steps], operation, &shape[0]);
        let own = if reversed { &shape[0] - 1 - self.time() } else { self.time().into() };
        let axes = self.axes.clone();
        let replace = |var: Var| {
            let place = compute.axes.iter().position(|axis| axis.var() == var)?;
            Some(if place == steps { own.clone() } else { axes[along[place]].into() })
        };
        let body = body.substitute(&replace);
        let after = self.after.clone();
        let mut special = of_step(operation, states_components, &after, &axes);
        let value = self.reads.expression(&body, &self.axes.clone(), &mut special)?;
        self.outputs.push(ScanOutput { tensor: output.clone(), value, axes: along, reversed, reduced: false });
        Ok(())
    }

    /// Adds the state before the first step, and the outputs of the given steps.
    fn add_given(&mut self, scan: &Scan, states_components: &[StateComponents]) -> Result<(), TeError> {
        let outer = self.axes[..self.outer()].to_vec();
        let mut values: Vec<Vec<Expr>> = Vec::new();
        for step in 0..self.given_steps {
            let mut states = Vec::new();
            for init in &scan.init {
                let body = body_at(init, &Expr::int(step), &outer)?;
                states.push(self.reads.expression(&body, &outer, &mut |_, _| None)?);
            }
            values.push(states);
        }
        for (state, own) in states_components.iter().enumerate() {
            for lag in 1..=own.lags {
                let step = usize::try_from(self.given_steps).unwrap_or(0).checked_sub(lag);
                let step = step.ok_or_else(|| too_far(&scan.state[state], lag))?;
                self.begin.push(values[step][state].clone());
            }
        }
        let of_columns = self.column_reduction.iter().flat_map(|x| x.source.iter().chain([&x.condition]));
        let of_columns: Vec<Expr> = of_columns.cloned().collect();
        for (step, states) in values.iter().enumerate() {
            let at_step: Vec<Expr> = self.outputs.iter().map(|output| output.value.clone()).collect();
            let at_step = self.at_given(&at_step, step, states, states_components)?;
            self.given.push(at_step);
            let mut source = self.at_given(&of_columns, step, states, states_components)?;
            if let (Some(reduction), Some(condition)) = (&mut self.column_reduction, source.pop()) {
                reduction.given.push((source, condition));
            }
        }
        Ok(())
    }

    /// The expressions of a step, evaluated at a given step.
    fn at_given(
        &mut self,
        all: &[Expr],
        step: usize,
        states: &[Expr],
        states_components: &[StateComponents],
    ) -> Result<Vec<Expr>, TeError> {
        let (time, outer, after) = (self.time(), self.axes[..self.outer()].to_vec(), self.after.clone());
        let mut made = Vec::with_capacity(all.len());
        for x in all {
            // The reads of a step are made again for this step.
            let x = self.unread(x).substitute(&|var| {
                if var == time.var() {
                    return Some(Expr::int(step as i64));
                }
                // This comes before reads are collected, because their indices and conditions may use the state.
                let state = states_components.iter().position(|own| after[own.first] == var)?;
                Some(states[state].clone())
            });
            made.push(self.reads.expression(&x, &outer, &mut |_, _| None)?);
        }
        Ok(made)
    }

    /// An expression in which variables for reads are replaced by the reads.
    fn unread(&self, x: &Expr) -> Expr {
        let replaced = x.substitute(&|var| {
            let read = self.reads.list.iter().find(|read| read.var == var)?;
            let element = read.tensor.at(read.indices.clone());
            Some(element.cast(read_type(read.tensor.dtype())))
        });
        // The indices may contain reads, too.
        let pending = self.reads.list.iter().any(|read| replaced.uses(read.var));
        if pending { self.unread(&replaced) } else { replaced }
    }

    /// When each read of a step can be made.
    fn times(&self) -> Vec<When> {
        let mut times: Vec<When> = Vec::with_capacity(self.element_reads);
        let totals = self.totals();
        for read in &self.reads.list[..self.element_reads] {
            let mut when = When::Ahead;
            for x in read.indices.iter().chain(&read.guard) {
                x.visit(&mut |part| {
                    let Some(var) = part.as_var() else { return };
                    let of_read = || self.reads.list[..times.len()].iter().position(|read| read.var == var);
                    when = when.max(if totals.contains(&var) {
                        When::Reduced
                    } else if self.after.contains(&var) {
                        When::After
                    } else if self.components.contains(&var) {
                        When::Before
                    } else {
                        of_read().map_or(When::Ahead, |place| times[place])
                    });
                });
            }
            times.push(when);
        }
        times
    }

    /// The variables that stand for what columns are reduced to.
    fn totals(&self) -> &[Var] {
        self.column_reduction.as_ref().map_or(&[], |reduction| &reduction.total)
    }

    /// For every given step, the reads of its outputs that depend on the total of its columns. `is_tested` says whether
    /// a read needs its indices or guard.
    pub(in crate::te::auto) fn given_by_total(&self, is_tested: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let by_total = self.reads.depending_on(self.totals());
        let of_step = |values: &Vec<Expr>| {
            let reduced = values.iter().zip(&self.outputs).filter(|(_, output)| output.reduced).map(|(value, _)| value);
            let mut needed = self.reads.needed_by(reduced);
            needed.retain(|place| *place >= self.element_reads && by_total[*place] && is_tested(*place));
            needed
        };
        self.given.iter().map(of_step).collect()
    }

    /// All evaluated expressions; sizes and axes are found in them.
    pub(in crate::te::auto) fn expressions(&self) -> Vec<&Expr> {
        let outputs = self.outputs.iter().map(|output| &output.value);
        let reductions = self.column_reduction.iter().flat_map(ColumnReduction::expressions);
        self.updates
            .iter()
            .chain(&self.begin)
            .chain(self.given.iter().flatten())
            .chain(outputs)
            .chain(reductions)
            .collect()
    }

    /// The types of the state's components.
    pub(in crate::te::auto) fn types(&self) -> Vec<DType> {
        self.components.iter().map(|var| var.dtype()).collect()
    }
}

/// The axes of the columns, which all states share.
fn columns(scan: &Scan) -> Result<Vec<Axis>, TeError> {
    let shape = scan.state[0].shape();
    if let Some(state) = scan.state.iter().find(|state| state.dtype() == DType::Bool) {
        return Err(refused(&format!("{}, a state of truth values (cast it to u8),", state.name())));
    }
    for state in &scan.state[1..] {
        let other = state.shape();
        if other.len() != shape.len() || other.iter().zip(&shape).skip(1).any(|(a, b)| !equal(a, b)) {
            return Err(refused(&format!("{}, a state of another shape than {},", state.name(), scan.state[0].name())));
        }
    }
    let update = scan.update[0].operation().as_compute();
    let update = update.ok_or_else(|| refused("a scan whose update is not computed"))?;
    Ok(update.axes[1..].to_vec())
}

/// The body of a stage at a step of a column.
fn body_at(stage: &Tensor, step: &Expr, columns: &[Axis]) -> Result<Expr, TeError> {
    let compute = stage.operation().as_compute();
    let compute = compute.ok_or_else(|| refused(&format!("{}, which is not computed,", stage.name())))?;
    let replace = |var: Var| match compute.axes.iter().position(|axis| axis.var() == var) {
        Some(0) => Some(step.clone()),
        Some(d) => columns.get(d - 1).map(|axis| Expr::from(*axis)),
        None => None,
    };
    Ok(compute.body[stage.value()].substitute(&replace))
}

/// The components of the state, the place of each state's components, and their new values.
type StateUpdate = (Vec<Var>, Vec<StateComponents>, Vec<Expr>);

fn update(scan: &Scan, axes: &[Axis], given_steps: i64, reads: &mut Reads) -> Result<StateUpdate, TeError> {
    let (time, columns) = (axes[axes.len() - 1], &axes[..axes.len() - 1]);
    // One variable for every state and lag that occurs.
    let mut met: Vec<Vec<Option<Var>>> = vec![Vec::new(); scan.state.len()];
    let mut bodies = Vec::new();
    for update in &scan.update {
        let body = body_at(update, &time.into(), columns)?;
        let mut special = |tensor: &Tensor, indices: &[Expr]| {
            let state = scan.state.iter().position(|s| s == tensor)?;
            Some(component(tensor, indices, time, columns, &mut met[state], given_steps))
        };
        bodies.push(reads.expression(&body, axes, &mut special)?);
    }
    let (mut components, mut states_components, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    for ((lags, state), body) in met.iter().zip(&scan.state).zip(bodies) {
        let first = components.len();
        let lags = lags.len().max(1);
        for lag in 0..lags {
            let known = met[states_components.len()].get(lag).copied().flatten();
            components.push(known.unwrap_or_else(|| Var::local(&state.name(), computed(state.dtype()))));
            // At the next step, what is `lag` steps back now is one more step back.
            updates.push(if lag == 0 { body.clone() } else { Expr::from(components[first + lag - 1]) });
        }
        states_components.push(StateComponents { first, lags });
    }
    Ok((components, states_components, updates))
}

/// Whether some element is read at indices that depend on the state. Then the update is not linear.
fn reads_by_state(reads: &Reads, components: &[Var]) -> bool {
    let mut by_state: Vec<Var> = components.to_vec();
    for read in &reads.list {
        if read.indices.iter().any(|index| by_state.iter().any(|var| index.uses(*var))) {
            by_state.push(read.var);
        }
    }
    by_state.len() > components.len()
}

/// The state some steps ago, in the same column.
fn component(
    state: &Tensor,
    indices: &[Expr],
    time: Axis,
    columns: &[Axis],
    met: &mut Vec<Option<Var>>,
    given_steps: i64,
) -> Result<Expr, TeError> {
    let own = indices.iter().skip(1).zip(columns).all(|(index, axis)| index.as_var() == Some(axis.var()));
    if !own {
        return Err(refused(&format!(
            "an update that reads the state {} of another column than its own (a schedule of your own can)",
            state.name()
        )));
    }
    let lag = indices.first().and_then(|t| simplify(&(time - t)).as_int()).filter(|lag| *lag >= 1);
    let lag = lag.ok_or_else(|| {
        refused(&format!(
            "an update that reads {} at a step that is no fixed number of steps back (choose among such by `select`)",
            state.name()
        ))
    })?;
    if lag > given_steps {
        return Err(too_far(state, usize::try_from(lag).unwrap_or(usize::MAX)));
    }
    let place = usize::try_from(lag - 1).unwrap_or(0);
    if met.len() <= place {
        met.resize(place + 1, None);
    }
    let var = met[place].get_or_insert_with(|| Var::local(&state.name(), computed(state.dtype())));
    Ok(Expr::from(*var))
}

fn too_far(state: &Tensor, lag: usize) -> TeError {
    refused(&format!("an update that reads {} {lag} steps back, more than are given,", state.name()))
}

/// For a tensor that reads the scan with its own axes in another order, the recurrence's axis of each dimension.
/// `in_order` are those of the scan's dimensions.
fn turned(body: &Expr, axes: &[Axis], scan: &Arc<Operation>, steps: &Expr, in_order: &[usize]) -> Option<Vec<usize>> {
    let mut found: Option<Vec<Expr>> = None;
    body.visit(&mut |x| {
        if let Kind::Read(tensor, indices) = x.kind()
            && Arc::ptr_eq(tensor.operation(), scan)
        {
            found.get_or_insert_with(|| indices.clone());
        }
    });
    let indices = found.filter(|indices| indices.len() == axes.len())?;
    let dimension = |axis: &Axis| {
        let is_own = |index: &Expr| equal(index, &(*axis).into()) || equal(index, &(steps - 1 - *axis));
        let place = indices.iter().enumerate().position(|(d, index)| match d {
            0 => is_own(index),
            _ => index.as_var() == Some(axis.var()),
        });
        in_order.get(place?).copied()
    };
    let along: Vec<usize> = axes.iter().map(dimension).collect::<Option<_>>()?;
    let all = in_order.iter().all(|axis| along.contains(axis));
    all.then_some(along)
}

/// The scan of an operation: the operation itself, or the one that it reads.
fn scanned(operation: &Arc<Operation>) -> Result<Option<Arc<Operation>>, TeError> {
    let mut found: Vec<Arc<Operation>> = Vec::new();
    visit_operations([operation], &mut |inner| {
        let is_scan = inner.as_scan().is_some();
        if is_scan {
            found.push(Arc::clone(inner));
        }
        !is_scan
    });
    if found.len() > 1 {
        return Err(refused(&format!("{}, which reads two scans,", operation.name())));
    }
    Ok(found.pop())
}
