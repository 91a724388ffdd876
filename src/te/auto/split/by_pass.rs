//! Splits reductions by passes: each pass is a kernel, and totals are kept in memory between them.
//!
//! The CPU does several passes in this way. So does a GPU for a few outputs of many elements each, because one block
//! for each output would leave most of it idle.

use std::collections::HashMap;
use std::sync::Arc;

use super::rewriting::Rewriting;
use crate::te::auto::pattern::fused::{Reduction, ReductionOutput};
use crate::te::auto::pattern::passes::{Member, NamedTotals, inlined, passes, reductions};
use crate::te::auto::pattern::reads::{read_type, refused};
use crate::te::dtype::DType;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::define::compute::placeholder_of;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Compute, Operation, OperationKind, Tensor};
use crate::te::expr::var::Var;

/// The origin of a step's tensor: a parameter of the whole, or an intermediate tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TensorOrigin {
    Argument(usize),
    Intermediate(usize),
}

/// One kernel, and the origin of each of its parameters.
#[derive(Debug)]
pub(in crate::te::auto) struct PassKernel {
    pub(in crate::te::auto) reduction: Reduction,
    pub(in crate::te::auto) origins: Vec<TensorOrigin>,
}

/// Kernels that run one after another.
#[derive(Debug, Default)]
pub(in crate::te::auto) struct PassSequence {
    pub(in crate::te::auto) steps: Vec<PassKernel>,
    /// The intermediate tensors: some steps write them, later ones read them.
    pub(in crate::te::auto) intermediates: Vec<Tensor>,
}

/// The tensors that hold the totals of reductions, by operation.
type HeldTotals = HashMap<*const Operation, Vec<Tensor>>;

impl PassSequence {
    /// The steps of a kernel that computes [by passes](Operation::or_by_passes) what it can; `None` if that is nothing.
    pub(in crate::te::auto) fn by_passes(whole: &Reduction) -> Option<Self> {
        let none = HashMap::new();
        let mut rewriting = Rewriting::new(&none).by_passes();
        let outputs: Vec<Tensor> = whole.outputs.iter().map(|output| rewriting.tensor(&output.tensor)).collect();
        if outputs.iter().zip(&whole.outputs).all(|(own, output)| *own == output.tensor) {
            return None;
        }
        let own = Reduction::of(&outputs).ok()?;
        let inputs = |reduction: &Reduction| reduction.parameters.len() - reduction.outputs.len();
        let argument = |place: usize| match place.checked_sub(inputs(&own)) {
            Some(output) => Some(inputs(whole) + output),
            None => whole.parameters.iter().position(|parameter| *parameter == own.parameters[place]),
        };
        let mut made = Self::of(&own, false).ok()?;
        for origin in made.steps.iter_mut().flat_map(|step| &mut step.origins) {
            if let TensorOrigin::Argument(place) = origin {
                *place = argument(*place)?;
            }
        }
        Some(made)
    }

    /// The steps of a kernel. With `apart`, what is computed from all elements is a separate step, not a part of the
    /// last pass.
    pub(in crate::te::auto) fn of(whole: &Reduction, apart: bool) -> Result<Self, TeError> {
        let outputs: Vec<Tensor> = whole.outputs.iter().map(|output| output.tensor.clone()).collect();
        let found = reductions(&outputs);
        let all = passes(&found, &whole.axes, whole.outer)?;
        let last = all.len().saturating_sub(1);
        let mut building =
            Building { whole, held: HeldTotals::new(), made: Self { steps: Vec::new(), intermediates: Vec::new() } };
        for (number, members) in all.into_iter().enumerate() {
            building.pass(members, number == last, apart)?;
        }
        if apart && whole.applies() {
            let mut step = Reduction::empty(whole.axes.clone(), 0);
            let outputs = building.outputs(true, &mut step, &NamedTotals::new())?;
            building.push(step, &outputs)?;
        }
        Ok(building.made)
    }
}

struct Building<'a> {
    whole: &'a Reduction,
    held: HeldTotals,
    made: PassSequence,
}

impl Building<'_> {
    fn pass(&mut self, members: Vec<Member<'_>>, is_last: bool, apart: bool) -> Result<(), TeError> {
        let mut step = Reduction::empty(self.whole.axes.clone(), self.whole.outer);
        let mut known = NamedTotals::new();
        let members: Vec<Member<'_>> =
            members.into_iter().map(|member| member.rewritten(&|x| fetched(x, &self.held))).collect();
        step.add_pass(&members, &mut known)?;
        step.begin_totals();
        let mut outputs = if is_last { self.outputs(false, &mut step, &known)? } else { Vec::new() };
        step.begin_points();
        if is_last && !apart {
            outputs.extend(self.outputs(true, &mut step, &known)?);
        }
        if !is_last || apart && self.whole.applies() {
            for (operation, total) in &known {
                self.hold(&mut step, operation, total);
            }
        }
        self.push(step, &outputs)
    }

    /// Adds to a step the outputs of the whole that are of one kind. Gives the step's own tensors, and those they stand
    /// for.
    fn outputs(
        &self,
        of_point: bool,
        step: &mut Reduction,
        known: &NamedTotals,
    ) -> Result<Vec<(Tensor, Tensor)>, TeError> {
        let mut made = Vec::new();
        for output in self.whole.outputs.iter().filter(|output| output.of_point == of_point) {
            let own = if known.iter().any(|(operation, _)| Arc::ptr_eq(operation, output.tensor.operation())) {
                output.tensor.clone()
            } else {
                self.rewritten(&output.tensor)?
            };
            if of_point {
                step.add_computed(&own, &output.places, true, known)?;
            } else {
                step.add_output(&own, known)?;
            }
            made.push((own, output.tensor.clone()));
        }
        Ok(made)
    }

    /// An output that reads the results of earlier steps from the tensors that hold them.
    fn rewritten(&self, output: &Tensor) -> Result<Tensor, TeError> {
        let compute = output.operation().as_compute();
        let compute = compute.ok_or_else(|| refused(&format!("{}, which is not computed,", output.name())))?;
        let at: Vec<Expr> = compute.axes.iter().map(|axis| Expr::from(*axis)).collect();
        let body = fetched(&output.at(at), &self.held).cast(output.dtype());
        let kind = Compute { axes: compute.axes.clone(), reduce_axes: Vec::new(), body: vec![body] };
        Ok(Tensor::new(Operation::new(output.name(), OperationKind::Compute(kind)), 0))
    }

    /// Makes a step write the totals of a reduction to intermediate tensors.
    fn hold(&mut self, step: &mut Reduction, operation: &Arc<Operation>, total: &[Var]) {
        let extents = self.whole.axes[..self.whole.outer].iter().filter_map(|axis| Some(axis.domain()?.extent.clone()));
        let extents: Vec<Expr> = extents.collect();
        let mut tensors = Vec::with_capacity(total.len());
        for var in total {
            let dtype = read_type(var.dtype());
            let tensor = placeholder_of(dtype, extents.clone(), operation.name());
            let places = (0..self.whole.outer).collect();
            let value = Expr::from(*var).cast(dtype);
            step.outputs.push(ReductionOutput { tensor: tensor.clone(), value, of_point: false, places });
            tensors.push(tensor);
        }
        self.made.intermediates.extend(tensors.iter().cloned());
        self.held.insert(Arc::as_ptr(operation), tensors);
    }

    fn push(&mut self, step: Reduction, outputs: &[(Tensor, Tensor)]) -> Result<(), TeError> {
        let reduction = step.finished()?;
        let origin = |tensor: &Tensor| {
            let tensor = outputs.iter().find(|(own, _)| own == tensor).map_or(tensor, |(_, stands_for)| stands_for);
            let argument =
                self.whole.parameters.iter().position(|parameter| parameter == tensor).map(TensorOrigin::Argument);
            let intermediate =
                || self.made.intermediates.iter().position(|held| held == tensor).map(TensorOrigin::Intermediate);
            argument.or_else(intermediate).ok_or_else(|| {
                TeError::from(LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" })
            })
        };
        let origins = reduction.parameters.iter().map(origin).collect::<Result<_, _>>()?;
        self.made.steps.push(PassKernel { reduction, origins });
        Ok(())
    }
}

/// An expression that reads totals of reductions from the tensors that hold them.
fn fetched(x: &Expr, held: &HeldTotals) -> Expr {
    replaced(&inlined(x), held)
}

fn replaced(x: &Expr, held: &HeldTotals) -> Expr {
    x.rewrite(&mut |x| {
        let Kind::Read(tensor, indices) = x.kind() else { return x };
        let Some(tensors) = held.get(&Arc::as_ptr(tensor.operation())) else { return x };
        let total = tensors[tensor.value()].at(indices.as_slice());
        if tensor.dtype() == DType::Bool { total.not_equal(0) } else { total }
    })
}
