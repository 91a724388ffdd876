//! Reductions over ranges whose ends are data: the rows of a sparse matrix, a batch of sequences of several lengths.
//!
//! No size bounds the range, so no kernel that is chosen by the shapes has a loop for it. The reduction is a program instead:
//! each result is made by one thread, in order, with a loop from the first value to the last. An element that the range
//! has and a tensor lacks is a [`DataError`](crate::DataError), as with any index that is data.

use std::collections::HashMap;
use std::sync::Arc;

use super::passes::{Combination, Member, parts};
use super::reads::{Reads, refused};
use crate::te::arith::Linear;
use crate::te::error::TeError;
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::{Combiner, Reduce};
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::{Var, var};
use crate::te::loops::ir::program::Program;
use crate::te::loops::lower::lower;
use crate::te::loops::schedule::{Stage, create_schedule};

/// A reduction over a range that data give.
#[derive(Debug)]
pub(in crate::te::auto) struct RangeByData {
    /// The tensors that it reads, then its values.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
    /// The values, in the types in which they are computed.
    pub(in crate::te::auto) results: Vec<Tensor>,
    /// The tensors that stand for those that it reads. Each extent is a variable, as are those of results: so a run may
    /// give any strides.
    inputs: Vec<Tensor>,
}

/// The reduction while its expressions are rewritten.
#[derive(Default)]
struct Rewritten {
    reads: Reads,
    /// How many of the reads have a value.
    known: usize,
    /// The values of reads and of the original's axes.
    values: HashMap<Var, Expr>,
    /// The tensors that are read, with those that stand for them.
    inputs: Vec<(Tensor, Tensor)>,
}

impl Rewritten {
    /// An expression in the types in which it is computed, over the new axes and inputs.
    fn expression(&mut self, x: &Expr) -> Result<Expr, TeError> {
        let made = self.reads.expression(x, &[], &mut |_, _| None)?;
        for read in &self.reads.list[self.known..] {
            let at: Vec<Expr> = read.indices.iter().map(|index| substituted(index, &self.values)).collect();
            let input = input_of(&mut self.inputs, &read.tensor);
            self.values.insert(read.var, input.at(at).cast(read.var.dtype()));
        }
        self.known = self.reads.list.len();
        Ok(substituted(&made, &self.values))
    }

    fn all(&mut self, all: &[Expr]) -> Result<Vec<Expr>, TeError> {
        all.iter().map(|x| self.expression(x)).collect()
    }

    /// A new axis in the place of one of the original.
    fn axis(&mut self, axis: Axis, domain: Domain, kind: AxisKind) -> Axis {
        let made = Axis::new(axis.name(), Some(domain), kind);
        self.values.insert(axis.var(), made.into());
        made
    }
}

/// The tensor that stands for one that is read.
fn input_of(inputs: &mut Vec<(Tensor, Tensor)>, read: &Tensor) -> Tensor {
    if let Some((_, input)) = inputs.iter().find(|(tensor, _)| tensor == read) {
        return input.clone();
    }
    let shape = read.shape().into_iter().map(as_variable).collect();
    let kind = OperationKind::Placeholder { shape, dtype: read.dtype().in_memory().into() };
    let input = Tensor::new(Operation::new(read.name(), kind), 0);
    inputs.push((read.clone(), input.clone()));
    input
}

/// A dimension of a tensor that each value of an axis reads at another index. A range with more values than the dimension
/// has elements leaves it.
fn read_along(axis: Axis, reduce: &Reduce) -> Result<Option<(Tensor, usize)>, TeError> {
    if reduce.condition.as_int() != Some(1) {
        return Ok(None);
    }
    let mut reads = Reads::default();
    for x in &reduce.source {
        reads.expression(x, &[], &mut |_, _| None)?;
    }
    let moving = reads.depending_on(&[axis.var()]);
    let moves = |x: &Expr| {
        let of_read = |var: Var| reads.list.iter().zip(&moving).any(|(read, moves)| *moves && read.var == var);
        x.contains(|part| part.as_var().is_some_and(|var| var == axis.var() || of_read(var)))
    };
    let is_along = |index: &Expr| {
        let (own, rest): (Vec<_>, Vec<_>) =
            Linear::of(index).terms.into_iter().partition(|(atom, _)| atom.as_var() == Some(axis.var()));
        own.iter().any(|(_, coefficient)| *coefficient != 0) && !rest.iter().any(|(atom, _)| moves(atom))
    };
    let always = reads.list.iter().filter(|read| read.guard.is_none());
    let mut found = always.filter_map(|read| Some((read.tensor.clone(), read.indices.iter().position(is_along)?)));
    Ok(found.next())
}

fn substituted(x: &Expr, values: &HashMap<Var, Expr>) -> Expr {
    x.substitute(&|var| values.get(&var).cloned())
}

/// The extent, or a variable for one that is none.
fn as_variable(extent: Expr) -> Expr {
    if extent.as_var().is_some() { extent } else { var("extent").into() }
}

impl RangeByData {
    /// The reduction of an operation.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for an operation that reads another reduction or a scan, and
    /// one that needs a size which none of its tensors has.
    pub(in crate::te::auto) fn of(operation: &Arc<Operation>) -> Result<Self, TeError> {
        let name = operation.name();
        let (compute, reduce) = parts(operation).ok_or_else(|| refused(&format!("{name}, which is no reduction,")))?;
        let mut rewritten = Rewritten::default();
        let data = |axis: &Axis| {
            let extent = axis.domain().map_or_else(|| Expr::int(1), |domain| domain.extent);
            rewritten.axis(*axis, Domain::up_to(as_variable(extent)), AxisKind::Data)
        };
        let axes: Vec<Axis> = compute.axes.iter().map(data).collect();
        let mut reduce_axes = Vec::with_capacity(reduce.axes.len());
        for (place, axis) in reduce.axes.iter().enumerate() {
            let none = || refused(&format!("{name}, whose axis {} has no range,", axis.name()));
            let Domain { min, extent } = axis.domain().ok_or_else(none)?;
            let (min, mut extent) = (rewritten.expression(&min)?, rewritten.expression(&extent)?);
            // Each value of the last axis reads; one of an axis before it may have no values of the last.
            let is_last = place + 1 == reduce.axes.len();
            let along = if is_last { read_along(*axis, reduce)? } else { None };
            if let Some((tensor, d)) = along {
                // One value too many fails the run as all of them would, without their time.
                let most = input_of(&mut rewritten.inputs, &tensor).shape().swap_remove(d);
                extent = extent.greater(0).select((&extent - 1).min(most) + 1, 0);
            }
            let range = Domain::new(min, extent);
            reduce_axes.push(rewritten.axis(*axis, range, AxisKind::Reduce));
        }
        let member = Member {
            operation,
            source: Vec::new(),
            condition: Expr::truth(true),
            init: Vec::new(),
            combiner: &reduce.combiner,
        };
        let Combination { left, right, result, identity, commutative } = Combination::of(&[member]);
        let (result, identity) = (rewritten.all(&result)?, rewritten.all(&identity)?);
        let (source, init) = (rewritten.all(&reduce.source)?, rewritten.all(&reduce.init)?);
        let reduce = Arc::new(Reduce {
            combiner: Combiner { left, right, result, identity, commutative },
            condition: rewritten.expression(&reduce.condition)?,
            axes: reduce_axes.clone().into(),
            source,
            init,
        });
        let value = |(place, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(Arc::clone(&reduce), place));
        let body = reduce.source.iter().enumerate().map(value).collect();
        let made = Operation::new(name, OperationKind::Compute(Compute { axes, reduce_axes, body }));
        let results: Vec<Tensor> = (0..made.values()).map(|value| Tensor::new(Arc::clone(&made), value)).collect();
        let (read, inputs): (Vec<Tensor>, Vec<Tensor>) = rewritten.inputs.into_iter().unzip();
        let range = Self { parameters: [read, results.clone()].concat(), results, inputs };
        range.require_sizes(name, &reduce)?;
        Ok(range)
    }

    /// Refuses a size that is an extent of none of its tensors.
    fn require_sizes(&self, name: &str, reduce: &Reduce) -> Result<(), TeError> {
        let shapes: Vec<Expr> = self.inputs.iter().chain(&self.results).flat_map(Tensor::shape).collect();
        let ranges: Vec<Domain> = reduce.axes.iter().filter_map(|axis| axis.domain()).collect();
        let of_ranges = ranges.iter().flat_map(|range| [&range.min, &range.extent]);
        let own = [&reduce.source, &reduce.init].into_iter().flatten().chain([&reduce.condition]).chain(of_ranges);
        let mut missing = None;
        for x in own.chain(&shapes) {
            x.visit(&mut |part| {
                let size = part.as_var().filter(|var| !var.is_counter());
                let size = size.filter(|size| !shapes.iter().any(|extent| extent.as_var() == Some(*size)));
                missing = missing.or(size);
            });
        }
        missing.map_or(Ok(()), |size| {
            let size = size.name();
            Err(refused(&format!(
                "{name}, a range by data that needs the size {size}, which no tensor that it reads has,"
            )))
        })
    }

    /// Its program. `arrange` gets the stage and its loop over all results.
    pub(in crate::te::auto) fn program(
        &self,
        arrange: impl FnOnce(&mut Stage, Axis) -> Result<(), TeError>,
    ) -> Result<Program, TeError> {
        let results: Vec<&Tensor> = self.results.iter().collect();
        let mut schedule = create_schedule(&results);
        let stage = schedule.stage(&self.results[0])?;
        let data: Vec<Axis> = stage.loops().iter().copied().filter(|axis| axis.kind() == AxisKind::Data).collect();
        let all = stage.fuse_all(&data)?;
        arrange(stage, all)?;
        let arguments: Vec<&Tensor> = self.inputs.iter().chain(&self.results).collect();
        lower(&schedule, &arguments, "range_by_data")
    }
}
