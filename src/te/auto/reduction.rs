//! A reduction as automatic schedules see it: what is combined, and what becomes of the result.

use std::sync::Arc;

use crate::te::arith::equal;
use crate::te::axis::Axis;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::{Expr, Kind, Var};
use crate::te::reduce::Reduce;
use crate::te::tensor::{Compute, Operation, Tensor};

use super::element::{Reads, computed, refused};

/// A reduction, and the outputs that are made of its results.
#[derive(Debug)]
pub(super) struct Reduction {
    /// The outputs' axes, then the reduced ones.
    pub(super) axes: Vec<Axis>,
    /// How many of the axes are outputs'.
    pub(super) outer: usize,
    /// What one point reads; then what the outputs of a total read; then what the outputs of a point read.
    pub(super) reads: Reads,
    /// How many of the reads are for the reduction.
    pub(super) element_reads: usize,
    /// Where the outputs of a point begin to read.
    pub(super) point_reads: usize,
    /// The values of a point.
    pub(super) source: Vec<Expr>,
    /// Where it doesn't hold, a point does not count.
    pub(super) condition: Expr,
    pub(super) left: Vec<Var>,
    pub(super) right: Vec<Var>,
    /// The combination of `left` and `right`.
    pub(super) result: Vec<Expr>,
    pub(super) identity: Vec<Expr>,
    /// What the reduction starts from, if not from the identities.
    pub(super) init: Vec<Expr>,
    pub(super) commutative: bool,
    /// The total, as the outputs call it.
    pub(super) total: Vec<Var>,
    pub(super) outputs: Vec<Output>,
    /// The tensors that are read, in the order of first use, then the outputs.
    pub(super) parameters: Vec<Tensor>,
}

/// An output.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) tensor: Tensor,
    /// Its value, of the total and of what it reads.
    pub(super) value: Expr,
    /// Whether it has an element for every point, not only for every total.
    pub(super) of_point: bool,
    /// The axis of each of its dimensions.
    pub(super) places: Vec<usize>,
}

impl Reduction {
    /// The reduction that `outputs` are, or are computed from point by point.
    ///
    /// # Errors
    /// [`TeError::Target`] for what no automatic schedule does: several reductions, other shapes.
    pub(super) fn of(outputs: &[Tensor]) -> Result<Self, TeError> {
        let first = outputs.first().ok_or_else(|| refused("a kernel without outputs"))?;
        let operation = reduced(first.operation())?
            .ok_or_else(|| refused(&format!("{}, which is no reduction and reads none directly,", first.name())))?;
        let (compute, reduce) = parts(&operation)?;
        let mut axes = compute.axes.clone();
        let outer = axes.len();
        axes.extend(&reduce.axes);

        let mut reads = Reads::default();
        let mut none = |_: &Tensor, _: &[Expr]| None;
        let collect = |reads: &mut Reads, all: &[Expr], none: &mut dyn FnMut(&Tensor, &[Expr]) -> _| {
            all.iter().map(|x| reads.expression(x, &axes, none)).collect::<Result<Vec<_>, TeError>>()
        };
        // The condition comes first: what is read where it fails need not exist.
        let condition = reads.expression(&reduce.condition, &axes, &mut none)?;
        let source = reads.expressions_under(&reduce.source, &condition, &axes)?;
        let element_reads = reads.list.len();
        reads.next_part();

        let fresh = |vars: &[Var]| -> Vec<Var> {
            vars.iter().map(|var| Var::local(var.name(), computed(var.dtype()))).collect()
        };
        let (left, right) = (fresh(&reduce.combiner.left), fresh(&reduce.combiner.right));
        let sides: Vec<Expr> = left.iter().chain(&right).map(|var| Expr::from(*var)).collect();
        let combined = reduce.combiner.combine(&sides[..left.len()], &sides[left.len()..]);
        let result = collect(&mut reads, &combined, &mut none)?;
        let identity = collect(&mut reads, &reduce.combiner.identity, &mut none)?;
        let total: Vec<Var> = source.iter().map(|x| Var::local("total", x.dtype())).collect();
        let init = collect(&mut reads, &reduce.init, &mut none)?;
        let mut reduction = Self {
            axes: axes.clone(),
            outer,
            reads,
            element_reads,
            point_reads: 0,
            source,
            condition,
            left,
            right,
            result,
            identity,
            init,
            commutative: reduce.combiner.commutative,
            total,
            outputs: Vec::new(),
            parameters: Vec::new(),
        };
        let of_point = |output: &Tensor| !Arc::ptr_eq(output.operation(), &operation) && output.rank() != outer;
        for output in outputs.iter().filter(|output| !of_point(output)) {
            reduction.add_output(output, &operation)?;
        }
        reduction.point_reads = reduction.reads.list.len();
        reduction.reads.next_part();
        for output in outputs.iter().filter(|output| of_point(output)) {
            reduction.add_point_output(output, &operation)?;
        }
        reduction.outputs.sort_by_key(|output| outputs.iter().position(|t| *t == output.tensor));
        reduction.parameters = parameters(&reduction.reads, outputs)?;
        Ok(reduction)
    }

    fn add_output(&mut self, output: &Tensor, operation: &Arc<Operation>) -> Result<(), TeError> {
        if Arc::ptr_eq(output.operation(), operation) {
            let (value, places) = (self.total[output.value()].into(), (0..self.outer).collect());
            self.outputs.push(Output { tensor: output.clone(), value, of_point: false, places });
            return Ok(());
        }
        let compute = output.operation().as_compute().filter(|c| c.reduce_axes.is_empty()).ok_or_else(|| {
            refused(&format!("{}, which is another reduction than {},", output.name(), operation.name()))
        })?;
        let places: Vec<usize> = (0..self.outer).collect();
        self.add_computed(output, compute, operation, places, false)
    }

    /// An output with an element for every point: some of its axes are the totals', the others, in order, the reduced.
    fn add_point_output(&mut self, output: &Tensor, operation: &Arc<Operation>) -> Result<(), TeError> {
        let compute = output.operation().as_compute().filter(|c| c.reduce_axes.is_empty()).ok_or_else(|| {
            refused(&format!("{}, which is another reduction than {},", output.name(), operation.name()))
        })?;
        let mut places: Vec<Option<usize>> = vec![None; compute.axes.len()];
        compute.body[output.value()].visit(&mut |x| {
            let Kind::Read(tensor, indices) = x.kind() else { return };
            if !Arc::ptr_eq(tensor.operation(), operation) {
                return;
            }
            for (d, index) in indices.iter().enumerate() {
                if let Some(own) = compute.axes.iter().position(|axis| index.as_var() == Some(axis.var())) {
                    places[own] = Some(d);
                }
            }
        });
        let mut reduced = self.outer..self.axes.len();
        let places: Option<Vec<usize>> = places.into_iter().map(|place| place.or_else(|| reduced.next())).collect();
        let all = |places: &Vec<usize>| (0..self.axes.len()).all(|place| places.contains(&place));
        let places = places.filter(|places| places.len() == self.axes.len() && all(places)).ok_or_else(|| {
            refused(&format!(
                "{}, whose axes are neither those of {} nor these and the reduced ones,",
                output.name(),
                operation.name()
            ))
        })?;
        self.add_computed(output, compute, operation, places, true)
    }

    /// An output that is computed of the totals; dimension `d` is the axis `places[d]`.
    fn add_computed(
        &mut self,
        output: &Tensor,
        compute: &Compute,
        operation: &Arc<Operation>,
        places: Vec<usize>,
        of_point: bool,
    ) -> Result<(), TeError> {
        let outer = self.axes[..self.outer].to_vec();
        let axes: Vec<Axis> = places.iter().map(|place| self.axes[*place]).collect();
        let same = compute.axes.len() == axes.len()
            && compute.axes.iter().zip(&axes).all(|(a, b)| match (a.domain(), b.domain()) {
                (Some(a), Some(b)) => equal(&a.extent, &b.extent) && equal(&b.min, &Expr::int(0)),
                _ => false,
            });
        if !same {
            return Err(refused(&format!(
                "{}, whose shape is not that of the reduction {} it is computed from,",
                output.name(),
                operation.name()
            )));
        }
        // The output's own axes are the reduction's.
        let replace = |var: Var| {
            let place = compute.axes.iter().position(|axis| axis.var() == var);
            place.map(|d| Expr::from(axes[d]))
        };
        let body = compute.body[output.value()].substitute(&replace);
        let total = self.total.clone();
        let mut special = |tensor: &Tensor, indices: &[Expr]| {
            if !Arc::ptr_eq(tensor.operation(), operation) {
                return None;
            }
            let own = indices.iter().zip(&outer).all(|(index, axis)| index.as_var() == Some(axis.var()));
            Some(if own {
                Ok(total[tensor.value()].into())
            } else {
                Err(refused(&format!("an output that reads {} at other indices than its own", tensor.name())))
            })
        };
        let all = if of_point { self.axes.clone() } else { outer.clone() };
        let value = self.reads.expression(&body, &all, &mut special)?;
        self.outputs.push(Output { tensor: output.clone(), value, of_point, places });
        Ok(())
    }

    /// Whether something is computed of every point and its total.
    pub(super) fn applies(&self) -> bool {
        self.outputs.iter().any(|output| output.of_point)
    }

    /// All expressions that are evaluated, for the sizes and axes that they use.
    pub(super) fn expressions(&self) -> Vec<&Expr> {
        self.source
            .iter()
            .chain([&self.condition])
            .chain(&self.result)
            .chain(&self.identity)
            .chain(&self.init)
            .chain(self.outputs.iter().map(|output| &output.value))
            .collect()
    }

    /// The types of the tuple that is reduced.
    pub(super) fn types(&self) -> Vec<DType> {
        self.source.iter().map(Expr::dtype).collect()
    }
}

/// The reduction that an operation is, or reads.
fn reduced(operation: &Arc<Operation>) -> Result<Option<Arc<Operation>>, TeError> {
    let Some(compute) = operation.as_compute() else { return Ok(None) };
    if matches!(compute.body[0].kind(), Kind::Reduce(..)) {
        return Ok(Some(Arc::clone(operation)));
    }
    let mut found: Option<Arc<Operation>> = None;
    for input in operation.inputs() {
        if let Some(inner) = reduced(input.operation())? {
            match &found {
                Some(known) if !Arc::ptr_eq(known, &inner) => {
                    return Err(refused(&format!(
                        "{}, which reads the two reductions {} and {}: build a kernel for each",
                        operation.name(),
                        known.name(),
                        inner.name()
                    )));
                }
                _ => found = Some(inner),
            }
        }
    }
    Ok(found)
}

fn parts(operation: &Operation) -> Result<(&Compute, &Reduce), TeError> {
    let compute =
        operation.as_compute().ok_or_else(|| refused(&format!("{}, which is not computed,", operation.name())))?;
    match compute.body[0].kind() {
        Kind::Reduce(reduce, _) => Ok((compute, reduce)),
        _ => Err(refused(&format!("{}, which is no reduction,", operation.name()))),
    }
}

/// The tensors read, in the order of first use, then the outputs.
pub(super) fn parameters(reads: &Reads, outputs: &[Tensor]) -> Result<Vec<Tensor>, TeError> {
    let mut parameters: Vec<Tensor> = Vec::new();
    for read in &reads.list {
        if !parameters.contains(&read.tensor) {
            parameters.push(read.tensor.clone());
        }
    }
    for output in outputs {
        if parameters.contains(output) {
            return Err(refused(&format!("{}, given twice as an output,", output.name())));
        }
        parameters.push(output.clone());
    }
    for tensor in &parameters {
        if tensor.dtype() == DType::Bool {
            return Err(refused(&format!("{}, a tensor of truth values (cast it to u8),", tensor.name())));
        }
    }
    Ok(parameters)
}
