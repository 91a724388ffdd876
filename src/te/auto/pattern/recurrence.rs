//! A scan as the kernels see it.

use std::sync::Arc;

use super::linear_map::LinearMap;
use super::passes::{Combination, Known};
use super::reads::{Reads, refused};
use crate::te::arith::equal;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::lang::axis::Axis;
use crate::te::lang::expr::{Expr, Kind};
use crate::te::lang::ranges::Axes;
use crate::te::lang::tensor::{Operation, Tensor};
use crate::te::lang::var::Var;

/// A recurrence of columns that don't know of each other, and the outputs that are made of its states.
#[derive(Debug)]
pub(in crate::te::auto) struct Recurrence {
    /// The columns' axes, then time, which begins after the steps that are given.
    pub(in crate::te::auto) axes: Axes,
    /// What a step reads; then what the given steps read.
    pub(in crate::te::auto) reads: Reads,
    /// How many of the reads are a step's.
    pub(in crate::te::auto) element_reads: usize,
    /// When each of these can be made.
    pub(in crate::te::auto) when: Vec<When>,
    /// Number of steps, given and computed.
    pub(in crate::te::auto) total_steps: Expr,
    /// Number of given steps.
    pub(in crate::te::auto) given_steps: i64,
    /// The state: for every `te` state its value at the last step, the one before, and so on.
    pub(in crate::te::auto) components: Vec<Var>,
    /// Their new values.
    pub(in crate::te::auto) updates: Vec<Expr>,
    /// Their values before the first step.
    pub(in crate::te::auto) begin: Vec<Expr>,
    /// The outputs' values at the given steps.
    pub(in crate::te::auto) given: Vec<Vec<Expr>>,
    /// The state after a step, as the outputs call it.
    pub(in crate::te::auto) after: Vec<Var>,
    pub(in crate::te::auto) outputs: Vec<Output>,
    /// What is made of a step's columns together.
    pub(in crate::te::auto) fold: Option<Fold>,
    /// What a step is, where that is proven to be linear.
    pub(in crate::te::auto) map: Option<LinearMap>,
    /// The tensors that are read, in the order of first use, then the outputs.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
}

/// What an element that a step reads depends on, by its indices or by the condition under which it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::te::auto) enum When {
    /// Nothing of the state: it can be read ahead.
    #[default]
    Ahead,
    /// The state before the step.
    Before,
    /// The state after the step; only outputs read so.
    After,
}

/// An output.
#[derive(Debug)]
pub(in crate::te::auto) struct Output {
    pub(in crate::te::auto) tensor: Tensor,
    /// Its value at a step.
    pub(in crate::te::auto) value: Expr,
    /// The recurrence's axis along each of its dimensions.
    pub(in crate::te::auto) axes: Vec<usize>,
    /// Whether it holds the last step first.
    pub(in crate::te::auto) reversed: bool,
    /// Whether it is made of what columns are folded to; then it has no axes for those that are.
    pub(in crate::te::auto) folded: bool,
}

/// A state while the pattern is made: where its components are.
pub(in crate::te::auto) struct Place {
    pub(in crate::te::auto) first: usize,
    pub(super) lags: usize,
}

/// Reductions over columns, side by side.
#[derive(Debug)]
pub(in crate::te::auto) struct Fold {
    /// The columns' axes that are reduced over, in the reductions' order.
    pub(in crate::te::auto) axes: Vec<usize>,
    /// The columns' axes that are kept, in the order of the results' dimensions.
    pub(in crate::te::auto) kept: Vec<usize>,
    /// What a column gives at a step.
    pub(in crate::te::auto) source: Vec<Expr>,
    /// Where it doesn't hold, a column does not count.
    pub(in crate::te::auto) condition: Expr,
    pub(in crate::te::auto) combination: Combination,
    /// The total, as outputs call it.
    pub(in crate::te::auto) total: Vec<Var>,
    /// What a column gives at the steps that are given, and where it counts.
    pub(in crate::te::auto) given: Vec<(Vec<Expr>, Expr)>,
    pub(super) known: Known,
    /// The indices of the results, in the kernel's axes.
    pub(super) indices: Vec<Expr>,
    pub(super) reversed: bool,
}

impl Fold {
    /// All expressions that are evaluated.
    pub(in crate::te::auto) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let given = self.given.iter().flat_map(|(source, condition)| source.iter().chain([condition]));
        let combination = self.combination.result.iter().chain(&self.combination.identity);
        self.source.iter().chain([&self.condition]).chain(combination).chain(given)
    }

    /// The types of what is reduced.
    pub(in crate::te::auto) fn types(&self) -> Vec<DType> {
        self.source.iter().map(Expr::dtype).collect()
    }
}

/// Turns reads of a scan, at a step's own indices, into the state after the step.
pub(in crate::te::auto) fn of_step<'a>(
    operation: &'a Arc<Operation>,
    places: &'a [Place],
    after: &'a [Var],
    axes: &'a [Axis],
) -> impl FnMut(&Tensor, &[Expr]) -> Option<Result<Expr, TeError>> + 'a {
    move |tensor, indices| {
        if !Arc::ptr_eq(tensor.operation(), operation) {
            return None;
        }
        let (columns, time) = axes.split_at(axes.len() - 1);
        let step = indices.first().is_some_and(|t| equal(t, &time[0].into()));
        let own = indices.iter().skip(1).zip(columns).all(|(index, axis)| index.as_var() == Some(axis.var()));
        Some(if step && own {
            Ok(after[places[tensor.value()].first].into())
        } else {
            Err(refused(&format!("an output that reads {} at another step or column than its own", tensor.name())))
        })
    }
}

/// Whether a body reads the scan from its end: at `steps - 1 - t`.
pub(in crate::te::auto) fn reads_backwards(
    body: Option<&Expr>,
    time: Axis,
    scan: &Arc<Operation>,
    steps: &Expr,
) -> bool {
    let mut backwards = false;
    if let Some(body) = body {
        body.visit(&mut |x| {
            if let Kind::Read(tensor, indices) = x.kind()
                && Arc::ptr_eq(tensor.operation(), scan)
            {
                backwards |= indices.first().is_some_and(|t| equal(t, &(steps - 1 - time)));
            }
        });
    }
    backwards
}
