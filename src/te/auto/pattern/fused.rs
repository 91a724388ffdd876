//! Fused reductions: the combinations of each pass, and the outputs that are computed from the results.

use std::ops::Range;
use std::sync::Arc;

use super::passes::{Combination, Member, NamedTotals, axes_of, inlined, parts, passes, reductions, totals_of};
use super::reads::{Reads, refused};
use crate::te::arith::equal;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::ranges::Axes;
use crate::te::expr::tensor::{Compute, OperationKind, Tensor};
use crate::te::expr::var::Var;

/// Reductions over the same axes, in passes, and the outputs that are computed from their results.
#[derive(Debug)]
pub(in crate::te::auto) struct Reduction {
    /// The axes of the results, then the reduced ones.
    pub(in crate::te::auto) axes: Axes,
    /// The number of axes of the results.
    pub(in crate::te::auto) outer: usize,
    /// The reads of every pass in order, then of the outputs of totals, then of the outputs of points.
    pub(in crate::te::auto) reads: Reads,
    pub(in crate::te::auto) passes: Vec<Pass>,
    /// The number of the first read of the outputs of totals.
    pub(in crate::te::auto) total_reads: usize,
    /// The number of the first read of the outputs of points.
    pub(in crate::te::auto) point_reads: usize,
    /// Whether one block takes all elements of an output, even if no later pass rereads them.
    pub(in crate::te::auto) in_one_block: bool,
    pub(in crate::te::auto) outputs: Vec<ReductionOutput>,
    /// The tensors that are read, in order of first use, then the outputs.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
}

/// One reduction over all elements, or several side by side. It may use the totals of earlier passes.
#[derive(Debug)]
pub(in crate::te::auto) struct Pass {
    /// The reads of a point.
    pub(in crate::te::auto) reads: Range<usize>,
    /// The reads of the initial values.
    pub(in crate::te::auto) init_reads: Range<usize>,
    /// The values of a point.
    pub(in crate::te::auto) source: Vec<Expr>,
    /// A point counts only if this holds.
    pub(in crate::te::auto) condition: Expr,
    pub(in crate::te::auto) left: Vec<Var>,
    pub(in crate::te::auto) right: Vec<Var>,
    /// The combination of `left` and `right`.
    pub(in crate::te::auto) result: Vec<Expr>,
    pub(in crate::te::auto) identity: Vec<Expr>,
    /// The initial values, if they are not the identities.
    pub(in crate::te::auto) init: Vec<Expr>,
    pub(in crate::te::auto) commutative: bool,
    /// The variables that stand for the total in later passes and in outputs.
    pub(in crate::te::auto) total: Vec<Var>,
}

/// An output.
#[derive(Debug)]
pub(in crate::te::auto) struct ReductionOutput {
    pub(in crate::te::auto) tensor: Tensor,
    /// Its value, in terms of the totals and its reads.
    pub(in crate::te::auto) value: Expr,
    /// Whether it has an element for every point, not just for every total.
    pub(in crate::te::auto) of_point: bool,
    /// The axis of each of its dimensions.
    pub(in crate::te::auto) places: Vec<usize>,
}

impl Reduction {
    /// The fused reduction of `outputs`, which are reductions or are computed from them element by element.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for what automatic schedules can't do: reductions
    /// over different axes, other shapes.
    pub(in crate::te::auto) fn of(outputs: &[Tensor]) -> Result<Self, TeError> {
        let first =
            outputs.first().ok_or_else(|| refused("a kernel without outputs (give the tensors to be computed)"))?;
        let found = reductions(outputs);
        let Some(operation) = found.first().map(|found| &found.operation) else {
            return Err(refused(&format!(
                "{}, which is not a reduction and reads none (`te::auto::build` takes it),",
                first.name()
            )));
        };
        let (compute, _) = parts(operation).ok_or_else(|| refused("what is not a reduction"))?;
        let mut reduction = Self::empty(axes_of(operation)?, compute.axes.len());
        let mut known = NamedTotals::new();
        for members in passes(&found, &reduction.axes, reduction.outer)? {
            reduction.add_pass(&members, &mut known)?;
        }
        let is_known = |output: &Tensor| known.iter().any(|(operation, _)| Arc::ptr_eq(operation, output.operation()));
        let outer = reduction.outer;
        let of_point = |output: &Tensor| !is_known(output) && output.rank() != outer;
        reduction.begin_totals();
        for output in outputs.iter().filter(|output| !of_point(output)) {
            reduction.add_output(output, &known)?;
        }
        reduction.begin_points();
        for output in outputs.iter().filter(|output| of_point(output)) {
            reduction.add_point_output(output, &known)?;
        }
        reduction.outputs.sort_by_key(|output| outputs.iter().position(|t| *t == output.tensor));
        reduction.in_one_block = reduction.comes_back();
        reduction.finished()
    }

    /// Outputs without any reduction: they have one shape, and are computed element by element.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for outputs of different shapes, and for an output
    /// that is a reduction or reads one.
    pub(in crate::te::auto) fn map(outputs: &[Tensor]) -> Result<Self, TeError> {
        let first =
            outputs.first().ok_or_else(|| refused("a kernel without outputs (give the tensors to be computed)"))?;
        let pointwise = |output: &Tensor| {
            let operation = output.operation();
            let compute = operation.as_compute().filter(|_| parts(operation).is_none());
            compute.map(|compute| compute.axes.clone()).ok_or_else(|| {
                let what = match operation.kind() {
                    OperationKind::Placeholder { .. } => "an input (give what is computed from it)",
                    _ => "not computed element by element (`te::auto::build` takes it)",
                };
                refused(&format!("{}, which is {what},", output.name()))
            })
        };
        let mut reduction = Self::empty(pointwise(first)?, 0);
        let places: Vec<usize> = (0..reduction.axes.len()).collect();
        for output in outputs {
            pointwise(output)?;
            reduction.add_computed(output, &places, true, &NamedTotals::new())?;
        }
        reduction.finished()
    }

    /// A fused reduction without passes and outputs, with these axes; the first `outer` are those of results.
    pub(in crate::te::auto) fn empty(axes: impl Into<Axes>, outer: usize) -> Self {
        Self {
            axes: axes.into(),
            outer,
            reads: Reads::default(),
            passes: Vec::new(),
            total_reads: 0,
            point_reads: 0,
            in_one_block: false,
            outputs: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// Sets the parameters, after all outputs have been added.
    pub(in crate::te::auto) fn finished(mut self) -> Result<Self, TeError> {
        let outputs: Vec<Tensor> = self.outputs.iter().map(|output| output.tensor.clone()).collect();
        self.parameters = parameters(&self.reads, &outputs)?;
        Ok(self)
    }

    /// Call this after the last pass: outputs of totals come next.
    pub(in crate::te::auto) fn begin_totals(&mut self) {
        self.reads.next_part();
        self.total_reads = self.reads.list.len();
        self.point_reads = self.total_reads;
    }

    /// Call this after the last output of totals: outputs of points come next.
    pub(in crate::te::auto) fn begin_points(&mut self) {
        self.reads.next_part();
        self.point_reads = self.reads.list.len();
    }

    pub(in crate::te::auto) fn add_pass(
        &mut self,
        members: &[Member<'_>],
        known: &mut NamedTotals,
    ) -> Result<(), TeError> {
        let (axes, outer) = (self.axes.clone(), self.axes[..self.outer].to_vec());
        self.reads.next_part();
        let begin = self.reads.list.len();
        // The condition comes first: elements that are read only where it holds need not exist elsewhere.
        let condition = self.reads.expression(&members[0].condition, &axes, &mut totals(known, &outer))?;
        let mut source = Vec::new();
        for member in members {
            source.extend(self.reads.expressions_under(
                &member.source,
                &condition,
                &axes,
                &mut totals(known, &outer),
            )?);
        }
        let end = self.reads.list.len();
        self.reads.next_part();
        let Combination { left, right, result, identity, commutative } = Combination::of(members);
        let (result, identity) = (self.collect(&result, known)?, self.collect(&identity, known)?);
        let init: Vec<Expr> = members.iter().flat_map(|member| member.init.iter().cloned()).collect();
        let init = self.collect(&init, known)?;
        let total: Vec<Var> = source.iter().map(|x| Var::local("total", x.dtype())).collect();
        known.extend(totals_of(members, &total));
        let (reads, init_reads) = (begin..end, end..self.reads.list.len());
        self.passes.push(Pass {
            reads,
            init_reads,
            source,
            condition,
            left,
            right,
            result,
            identity,
            init,
            commutative,
            total,
        });
        Ok(())
    }

    /// The expressions of a total.
    fn collect(&mut self, all: &[Expr], known: &NamedTotals) -> Result<Vec<Expr>, TeError> {
        let outer = self.axes[..self.outer].to_vec();
        all.iter().map(|x| self.reads.expression(x, &outer, &mut totals(known, &outer))).collect()
    }

    pub(in crate::te::auto) fn add_output(&mut self, output: &Tensor, known: &NamedTotals) -> Result<(), TeError> {
        let places: Vec<usize> = (0..self.outer).collect();
        let own = known.iter().find(|(operation, _)| Arc::ptr_eq(operation, output.operation()));
        if let Some((_, total)) = own {
            let value = total[output.value()].into();
            self.outputs.push(ReductionOutput { tensor: output.clone(), value, of_point: false, places });
            return Ok(());
        }
        self.add_computed(output, &places, false, known)
    }

    /// Adds an output with an element for every point. Some of its axes are those of the totals; the others are the
    /// reduced ones, in order.
    fn add_point_output(&mut self, output: &Tensor, known: &NamedTotals) -> Result<(), TeError> {
        let compute = computation(output)?;
        let mut places: Vec<Option<usize>> = vec![None; compute.axes.len()];
        inlined(&compute.body[output.value()]).visit(&mut |x| {
            let Kind::Read(tensor, indices) = x.kind() else { return };
            if !known.iter().any(|(operation, _)| Arc::ptr_eq(operation, tensor.operation())) {
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
                "{}, whose axes are neither those of the reductions that it is computed from nor these and the reduced \
                 ones,",
                output.name()
            ))
        })?;
        self.add_computed(output, &places, true, known)
    }

    /// Adds an output that is computed from the totals; dimension `d` has the axis `places[d]`.
    pub(in crate::te::auto) fn add_computed(
        &mut self,
        output: &Tensor,
        places: &[usize],
        of_point: bool,
        known: &NamedTotals,
    ) -> Result<(), TeError> {
        let compute = computation(output)?;
        let outer = self.axes[..self.outer].to_vec();
        let axes: Vec<Axis> = places.iter().map(|place| self.axes[*place]).collect();
        let same = compute.axes.len() == axes.len()
            && compute.axes.iter().zip(&axes).all(|(a, b)| match (a.domain(), b.domain()) {
                (Some(a), Some(b)) => equal(&a.extent, &b.extent) && equal(&b.min, &Expr::int(0)),
                _ => false,
            });
        if !same {
            return Err(refused(&format!(
                "{}, whose shape is not that of what it is computed with in one kernel (`te::auto::build` makes several),",
                output.name()
            )));
        }
        // The output's own axes are replaced by the kernel's.
        let replace = |var: Var| {
            let place = compute.axes.iter().position(|axis| axis.var() == var);
            place.map(|d| Expr::from(axes[d]))
        };
        let body = compute.body[output.value()].substitute(&replace);
        let all = if of_point { self.axes.to_vec() } else { outer.clone() };
        let value = self.reads.expression(&body, &all, &mut totals(known, &outer))?;
        self.outputs.push(ReductionOutput { tensor: output.clone(), value, of_point, places: places.to_vec() });
        Ok(())
    }

    /// Whether something is computed from every point together with the totals.
    pub(in crate::te::auto) fn applies(&self) -> bool {
        self.outputs.iter().any(|output| output.of_point)
    }

    /// Whether elements are visited again after their total is known, so that one block must have all of them.
    pub(in crate::te::auto) fn comes_back(&self) -> bool {
        self.applies() || self.passes.len() > 1
    }

    /// Whether the order of elements may be changed.
    pub(in crate::te::auto) fn is_commutative(&self) -> bool {
        self.passes.iter().all(|pass| pass.commutative)
    }

    /// Whether a read is made for every point, by a pass or by outputs.
    pub(in crate::te::auto) fn is_of_points(&self, read: usize) -> bool {
        read >= self.point_reads || self.passes.iter().any(|pass| pass.reads.contains(&read))
    }

    /// For every read of a point that repeats one of another pass, the first read of the same element.
    pub(in crate::te::auto) fn repeated(&self) -> Vec<Option<usize>> {
        let list = &self.reads.list;
        let same = |a: usize, b: usize| list[a].tensor == list[b].tensor && list[a].indices == list[b].indices;
        let earlier = |read: usize| (0..read).find(|first| self.is_of_points(*first) && same(*first, read));
        (0..list.len()).map(|read| earlier(read).filter(|_| self.is_of_points(read))).collect()
    }

    /// All evaluated expressions; sizes and axes are found in them.
    pub(in crate::te::auto) fn expressions(&self) -> Vec<&Expr> {
        self.passes.iter().flat_map(Pass::expressions).chain(self.outputs.iter().map(|output| &output.value)).collect()
    }
}

impl Pass {
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let of_points = self.source.iter().chain([&self.condition]);
        of_points.chain(&self.result).chain(&self.identity).chain(&self.init)
    }

    /// The types of the reduced tuple.
    pub(in crate::te::auto) fn types(&self) -> Vec<DType> {
        self.source.iter().map(Expr::dtype).collect()
    }
}

/// Replaces reads of known reductions, at the kernel's own indices, by their totals.
fn totals<'a>(
    known: &'a NamedTotals,
    outer: &'a [Axis],
) -> impl FnMut(&Tensor, &[Expr]) -> Option<Result<Expr, TeError>> + 'a {
    move |tensor, indices| {
        let (_, total) = known.iter().find(|(operation, _)| Arc::ptr_eq(operation, tensor.operation()))?;
        let own = indices.iter().zip(outer).all(|(index, axis)| index.as_var() == Some(axis.var()));
        Some(if own {
            Ok(total[tensor.value()].into())
        } else {
            Err(refused(&format!(
                "reading {} at other indices than the reader's own in one kernel (`te::auto::build` makes several)",
                tensor.name()
            )))
        })
    }
}

fn computation(output: &Tensor) -> Result<&Compute, TeError> {
    let compute = output.operation().as_compute().filter(|compute| !compute.is_reduction());
    compute.ok_or_else(|| refused(&format!("{}, which is not computed element by element,", output.name())))
}

/// The tensors that are read, in order of first use, then the outputs.
pub(in crate::te::auto) fn parameters(reads: &Reads, outputs: &[Tensor]) -> Result<Vec<Tensor>, TeError> {
    let mut parameters: Vec<Tensor> = Vec::new();
    for read in &reads.list {
        if !parameters.contains(&read.tensor) {
            parameters.push(read.tensor.clone());
        }
    }
    for output in outputs {
        if parameters.contains(output) {
            return Err(refused(&format!("{}, given twice as an output (give it once),", output.name())));
        }
        parameters.push(output.clone());
    }
    Ok(parameters)
}
