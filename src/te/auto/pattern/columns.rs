//! Column reductions: reductions over some of the columns of a scan, at every step.

use std::slice::from_ref;
use std::sync::Arc;

use super::fused::Reduction;
use super::passes::{Combination, FoundReduction, Member, axes_of, inlined, parts, passes, totals_of};
use super::reads::refused;
use super::recurrence::{ColumnReduction, Recurrence, ScanOutput, StateComponents, of_step, reads_backwards};
use crate::te::arith::equal;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;

/// The axes of a reduction in terms of the scan: numbers of the column axes, and whether time runs backwards.
struct Places {
    columns: Vec<usize>,
    reversed: bool,
}

impl Recurrence {
    /// Adds the reductions that outputs need.
    ///
    /// # Errors
    /// [`LoweringError::Target`] for reductions that need each other, have an initial value, or reduce over axes other
    /// than the columns'.
    pub(in crate::te::auto) fn add_column_reduction(
        &mut self,
        found: &[FoundReduction],
        operation: &Arc<Operation>,
        states_components: &[StateComponents],
    ) -> Result<(), TeError> {
        let Some((compute, _)) = found.first().and_then(|found| parts(&found.operation)) else { return Ok(()) };
        let own = axes_of(&found[0].operation)?;
        let name = found[0].operation.name();
        let mut all = passes(found, &own, compute.axes.len())?;
        let members = match (all.pop(), all.is_empty()) {
            (Some(members), true) if members[0].init.is_empty() => members,
            _ => {
                return Err(refused(&format!(
                    "{name}, reductions of a scan's columns that need each other or begin with a value,"
                )));
            }
        };
        let Places { columns, reversed } = self.places(&members, &own, operation)?;
        let time = self.time();
        let steps = time_extent(compute)?;
        let now = if reversed { steps - 1 - time } else { Expr::from(time) };
        let images: Vec<Expr> =
            std::iter::once(now).chain(columns.iter().map(|column| Expr::from(self.axes[*column]))).collect();
        let replace = |var: Var| own.iter().position(|axis| axis.var() == var).map(|place| images[place].clone());
        let (axes, after) = (self.axes.clone(), self.after.clone());
        let mut special = of_step(operation, states_components, &after, &axes);
        let condition = self.reads.expression(&members[0].condition.substitute(&replace), &axes, &mut special)?;
        let mut source = Vec::new();
        for member in &members {
            let values: Vec<Expr> = member.source.iter().map(|x| x.substitute(&replace)).collect();
            source.extend(self.reads.expressions_under(&values, &condition, &axes, &mut special)?);
        }
        let mut none = |_: &Tensor, _: &[Expr]| None;
        let mut combination = Combination::of(&members);
        for x in combination.result.iter_mut().chain(&mut combination.identity) {
            *x = self.reads.expression(x, &[], &mut none)?;
        }
        let total: Vec<Var> = source.iter().map(|x| Var::local("total", x.dtype())).collect();
        let kept = compute.axes.len() - 1;
        self.column_reduction = Some(ColumnReduction {
            axes: columns[kept..].to_vec(),
            kept: columns[..kept].to_vec(),
            known: totals_of(&members, &total),
            indices: images[..=kept].to_vec(),
            source,
            condition,
            combination,
            total,
            given: Vec::new(),
            reversed,
        });
        Ok(())
    }

    /// Finds the reductions' axes in the scan, from the way they read it.
    fn places(&self, members: &[Member<'_>], own: &[Axis], operation: &Arc<Operation>) -> Result<Places, TeError> {
        let name = members[0].operation.name();
        let refuse = || refused(&format!("{name}, whose axes are not time and the columns of the scan that it reads,"));
        let mut read: Option<Vec<Expr>> = None;
        let bodies: Vec<Expr> = members.iter().flat_map(|member| member.source.iter().map(inlined)).collect();
        for body in &bodies {
            body.visit(&mut |x| {
                if let Kind::Read(tensor, indices) = x.kind()
                    && Arc::ptr_eq(tensor.operation(), operation)
                {
                    read.get_or_insert_with(|| indices.clone());
                }
            });
        }
        let read = read.ok_or_else(refuse)?;
        let (Some(time), Some(first)) = (own.first(), read.first()) else { return Err(refuse()) };
        let steps = &time.domain().ok_or_else(refuse)?.extent;
        let reversed = bodies.iter().any(|body| reads_backwards(Some(body), *time, operation, steps));
        let scanned = operation.as_scan().and_then(|scan| scan.state[0].shape().first().cloned()).ok_or_else(refuse)?;
        if !equal(steps, &scanned) || (!reversed && first.as_var() != Some(time.var())) {
            return Err(refuse());
        }
        let mut columns = Vec::with_capacity(own.len() - 1);
        for axis in &own[1..] {
            let column = read[1..].iter().position(|index| index.as_var() == Some(axis.var())).ok_or_else(refuse)?;
            let domains = axis.domain().zip(self.axes[column].domain());
            let same = domains.is_some_and(|(a, b)| equal(&a.extent, &b.extent) && equal(&a.min, &b.min));
            if !same || columns.contains(&column) {
                return Err(refuse());
            }
            columns.push(column);
        }
        if columns.len() == self.outer() { Ok(Places { columns, reversed }) } else { Err(refuse()) }
    }

    /// Adds an output that is a reduction of columns, or is computed element by element from reductions of columns.
    pub(in crate::te::auto) fn add_reduced(&mut self, output: &Tensor) -> Result<(), TeError> {
        let Some(reduction) = &self.column_reduction else {
            return Err(refused(&format!("{}, which folds nothing,", output.name())));
        };
        let reversed = reduction.reversed;
        let axes: Vec<usize> = std::iter::once(self.outer()).chain(reduction.kept.iter().copied()).collect();
        if let Some((_, total)) = reduction.known.iter().find(|(known, _)| Arc::ptr_eq(known, output.operation())) {
            let value = total[output.value()].into();
            self.outputs.push(ScanOutput { tensor: output.clone(), value, axes, reversed, reduced: true });
            return Ok(());
        }
        let compute = output.operation().as_compute().filter(|compute| !compute.is_reduction());
        let compute =
            compute.ok_or_else(|| refused(&format!("{}, which is not computed element by element,", output.name())))?;
        let shape = reduction.known[0].0.as_compute().map(|compute| compute.axes.clone()).unwrap_or_default();
        let extents = |axis: &Axis| axis.domain().map(|domain| domain.extent.clone());
        let same = compute.axes.len() == shape.len()
            && compute.axes.iter().zip(&shape).all(|(a, b)| match (extents(a), extents(b)) {
                (Some(a), Some(b)) => equal(&a, &b),
                _ => false,
            });
        if !same {
            return Err(refused(&format!("{}, whose shape is not {}'s,", output.name(), reduction.known[0].0.name())));
        }
        let (known, indices) = (reduction.known.clone(), reduction.indices.clone());
        let replace = |var: Var| {
            let place = compute.axes.iter().position(|axis| axis.var() == var);
            place.map(|place| indices[place].clone())
        };
        let body = compute.body[output.value()].substitute(&replace);
        let mut special = |tensor: &Tensor, at: &[Expr]| {
            let (_, total) = known.iter().find(|(operation, _)| Arc::ptr_eq(operation, tensor.operation()))?;
            let own = at.len() == indices.len() && at.iter().zip(&indices).all(|(a, b)| equal(a, b));
            Some(if own {
                Ok(total[tensor.value()].into())
            } else {
                Err(refused(&format!("reading {} at other indices than the reader's own", tensor.name())))
            })
        };
        let value = self.reads.expression(&body, &self.axes.clone(), &mut special)?;
        self.outputs.push(ScanOutput { tensor: output.clone(), value, axes, reversed, reduced: true });
        Ok(())
    }

    /// The outputs of reduced columns if there are no columns, and the parameters that they take.
    pub(in crate::te::auto) fn over_nothing(&self) -> Result<Option<(Reduction, Vec<usize>)>, TeError> {
        let Some(reduction) = &self.column_reduction else { return Ok(None) };
        let mut made = Vec::new();
        for output in self.outputs.iter().filter(|output| output.reduced) {
            let compute = output.tensor.operation().as_compute();
            let Some(compute) = compute else { continue };
            let at: Vec<Expr> = compute.axes.iter().map(|axis| Expr::from(*axis)).collect();
            let body = nothing(&inlined(&output.tensor.at(at)), reduction).cast(output.tensor.dtype());
            let kind = Compute { axes: compute.axes.clone(), reduce_axes: Vec::new(), body: vec![body] };
            let own = Tensor::new(Operation::new(output.tensor.name(), OperationKind::Compute(kind)), 0);
            made.push((own, output.tensor.clone()));
        }
        let own: Vec<Tensor> = made.iter().map(|(own, _)| own.clone()).collect();
        let map = Reduction::map(&own)?;
        let place = |tensor: &Tensor| {
            let tensor = made.iter().find(|(own, _)| own == tensor).map_or(tensor, |(_, output)| output);
            let place = self.parameters.iter().position(|parameter| parameter == tensor);
            place.ok_or_else(|| {
                TeError::from(LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" })
            })
        };
        let places = map.parameters.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Some((map, places)))
    }
}

/// An expression in which every column reduction is replaced by its result over no columns.
fn nothing(x: &Expr, reduction: &ColumnReduction) -> Expr {
    x.replaced(&mut |x| {
        let Kind::Read(tensor, _) = x.kind() else { return None };
        let (_, total) = reduction.known.iter().find(|(operation, _)| Arc::ptr_eq(operation, tensor.operation()))?;
        let place = reduction.total.iter().position(|var| *var == total[tensor.value()])?;
        Some(reduction.combination.identity[place].clone())
    })
}

fn time_extent(compute: &Compute) -> Result<Expr, TeError> {
    let extent = compute.axes.first().and_then(|axis| axis.domain()).map(|domain| domain.extent.clone());
    extent.ok_or_else(|| refused("a reduction of a scan's columns that has no time"))
}

/// Whether an output is computed from reductions.
pub(in crate::te::auto) fn is_reduced(output: &Tensor) -> bool {
    !super::passes::reductions(from_ref(output)).is_empty()
}
