//! Inlines all stages of one kind at once.

use super::Schedule;
use super::stage::{Attach, Stage};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::Compute;

impl Schedule {
    /// Inlines every elementwise stage: each of its elements is computed from the same element of its inputs. Some
    /// stages are not inlined: outputs, stages that make several tensors, stages of a scan's init or update, stages
    /// that give a reduction's range, and scheduled stages.
    pub fn auto_inline_elem_wise(&mut self) {
        self.inline_all(is_elem_wise);
    }

    /// [`Schedule::auto_inline_elem_wise`] for every broadcasting stage. It reads its inputs at some of its own
    /// indices, in order, as in `A[i, j] + b[j]`. Along a dimension of one element it may read at 0. Elementwise stages
    /// are included.
    pub fn auto_inline_broadcast(&mut self) {
        self.inline_all(is_broadcast);
    }

    /// [`Schedule::auto_inline_elem_wise`] for every stage that is not a reduction.
    pub fn auto_inline_injective(&mut self) {
        self.inline_all(|_| true);
    }

    /// Whether another stage reduces over a range that a stage gives.
    fn gives_a_range(&self, index: usize) -> bool {
        let reads = |x: &Expr| {
            x.contains(
                |x| matches!(x.kind(), Kind::Read(tensor, _) if self.index_of(tensor.operation()) == Some(index)),
            )
        };
        let mut ranges = self.stages.iter().filter_map(|stage| stage.operation.as_compute()).flat_map(Compute::ranges);
        ranges.any(|range| reads(&range.min) || reads(&range.extent))
    }

    fn inline_all(&mut self, kind: impl Fn(&Compute) -> bool) {
        for index in 0..self.stages.len() {
            let stage = &self.stages[index];
            let Some(compute) = stage.operation.as_compute() else { continue };
            let plain = !compute.is_reduction() && compute.body.len() == 1;
            let is_free = !self.is_output(stage) && !self.holds_others(index) && !self.gives_a_range(index);
            if plain && is_free && !is_scheduled(stage) && kind(compute) {
                self.stages[index].attach = Attach::Inline;
                self.stages[index].note("compute_inline", "");
            }
        }
    }
}

fn is_scheduled(stage: &Stage) -> bool {
    let loops = stage.relations.is_empty() && stage.leaves == stage.root_axes;
    !loops || !matches!(stage.attach, Attach::Root) || !stage.threads.is_empty()
}

/// Whether the indices of all reads of tensors are allowed.
fn all_reads(compute: &Compute, allowed: impl Fn(&[Expr]) -> bool) -> bool {
    let mut all = true;
    for body in &compute.body {
        body.visit(&mut |x| {
            if let Kind::Read(_, indices) = x.kind() {
                all &= allowed(indices);
            }
        });
    }
    all
}

fn is_elem_wise(compute: &Compute) -> bool {
    all_reads(compute, |indices| {
        let own = compute.axes.iter().map(|axis| Some(axis.var()));
        indices.iter().map(Expr::as_var).eq(own)
    })
}

fn is_broadcast(compute: &Compute) -> bool {
    all_reads(compute, |indices| {
        let mut own = compute.axes.iter();
        indices.iter().filter(|index| index.as_int() != Some(0)).all(|index| {
            let var = index.as_var();
            var.is_some() && own.any(|axis| Some(axis.var()) == var)
        })
    })
}
