//! Rewrites operations: reads of earlier results become reads of the tensors that hold them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::te::dtype::DType;
use crate::te::expr::axis::{Axis, Domain};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;

/// A tensor that holds a result of an earlier kernel.
#[derive(Clone)]
pub(crate) struct HeldResult {
    pub(crate) tensor: Tensor,
    /// The number of the output that it is, if it is one.
    pub(crate) output: Option<usize>,
}

/// Rewrites operations: reads of earlier kernels' results become reads of the tensors that hold them.
pub(crate) struct Rewriting<'a> {
    held: &'a HashMap<*const Operation, Vec<HeldResult>>,
    made: HashMap<*const Operation, Arc<Operation>>,
    /// Whether what can be is computed [by passes](Operation::or_by_passes).
    by_passes: bool,
}

impl<'a> Rewriting<'a> {
    pub(crate) fn new(held: &'a HashMap<*const Operation, Vec<HeldResult>>) -> Self {
        Self { held, made: HashMap::new(), by_passes: false }
    }

    /// This rewriting, which also computes tensors [by passes](Operation::or_by_passes) where it can.
    pub(super) fn by_passes(self) -> Self {
        Self { by_passes: true, ..self }
    }

    pub(crate) fn tensor(&mut self, tensor: &Tensor) -> Tensor {
        match tensor.operation().by_passes().get(tensor.value()) {
            Some(passes) if self.by_passes => self.tensor(passes),
            _ => Tensor::new(self.operation(tensor.operation()), tensor.value()),
        }
    }

    pub(super) fn operation(&mut self, operation: &Arc<Operation>) -> Arc<Operation> {
        if let Some(made) = self.made.get(&Arc::as_ptr(operation)) {
            return Arc::clone(made);
        }
        let made = match operation.as_compute() {
            Some(Compute { axes, reduce_axes, body }) => {
                let (reduce_axes, replaced) = self.ranges(reduce_axes);
                let changed: Vec<Expr> = self.all(body, (&reduce_axes, &replaced));
                if changed == *body && replaced.is_empty() {
                    Arc::clone(operation)
                } else {
                    let axes = axes.clone();
                    let kind = OperationKind::Compute(Compute { axes, reduce_axes, body: changed });
                    let passes: Vec<Tensor> = operation.by_passes().iter().map(|tensor| self.tensor(tensor)).collect();
                    let made = Operation::new(operation.name(), kind);
                    if passes.is_empty() { made } else { made.or_by_passes(passes) }
                }
            }
            None => Arc::clone(operation),
        };
        self.made.insert(Arc::as_ptr(operation), Arc::clone(&made));
        made
    }

    /// The reduced axes; and a map from the old variables to the axes that have another range now.
    fn ranges(&mut self, axes: &[Axis]) -> (Vec<Axis>, HashMap<Var, Axis>) {
        let (mut all, mut replaced) = (Vec::with_capacity(axes.len()), HashMap::<Var, Axis>::new());
        for axis in axes {
            let made = axis.domain().and_then(|range| {
                let renamed = |x: &Expr| x.substitute(&|var| Some((*replaced.get(&var)?).into()));
                let own = Domain::new(self.expression(&renamed(&range.min)), self.expression(&renamed(&range.extent)));
                (own != range).then(|| Axis::new(axis.name(), Some(own), axis.kind()))
            });
            all.push(made.unwrap_or(*axis));
            replaced.extend(made.map(|made| (axis.var(), made)));
        }
        (all, replaced)
    }

    /// The values of one operation, over other axes. Values of a tuple reduction stay parts of one reduction.
    fn all(&mut self, body: &[Expr], (axes, replaced): (&[Axis], &HashMap<Var, Axis>)) -> Vec<Expr> {
        let first = body.first().map(|x| self.expression(&x.substitute(&|var| Some((*replaced.get(&var)?).into()))));
        let reduce = match first.as_ref().map(Expr::kind) {
            Some(Kind::Reduce(reduce, _)) if replaced.is_empty() => Some(Arc::clone(reduce)),
            Some(Kind::Reduce(reduce, _)) => {
                Some(Arc::new(Reduce { axes: axes.to_vec().into(), ..Reduce::clone(reduce) }))
            }
            _ => None,
        };
        let Some(reduce) = reduce else { return body.iter().map(|x| self.expression(x)).collect() };
        let value = |(place, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(Arc::clone(&reduce), place));
        body.iter().enumerate().map(value).collect()
    }

    fn expression(&mut self, x: &Expr) -> Expr {
        x.rewrite(&mut |x| {
            let Kind::Read(tensor, indices) = x.kind() else { return x };
            match self.held.get(&Arc::as_ptr(tensor.operation())) {
                Some(values) => {
                    let held = values[tensor.value()].tensor.at(indices.as_slice());
                    if tensor.dtype() == DType::Bool { held.not_equal(0) } else { held }
                }
                None if tensor.operation().as_compute().is_some() => self.tensor(tensor).at(indices.as_slice()),
                None => x,
            }
        })
    }
}
