//! A recurrence: a scan in the form that kernels need.

use std::sync::Arc;

use super::linear_map::LinearMap;
use super::passes::{Combination, NamedTotals};
use super::reads::{Reads, refused};
use crate::te::arith::equal;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::ranges::Axes;
use crate::te::expr::tensor::{Operation, Tensor};
use crate::te::expr::var::Var;

/// A recurrence with independent columns, and the outputs that are computed from its states.
#[derive(Debug)]
pub(in crate::te::auto) struct Recurrence {
    /// The axes of the columns, then time. Time begins after the given steps.
    pub(in crate::te::auto) axes: Axes,
    /// The reads of a step, then those of the given steps.
    pub(in crate::te::auto) reads: Reads,
    /// The number of reads of a step.
    pub(in crate::te::auto) element_reads: usize,
    /// When each of these reads can be made.
    pub(in crate::te::auto) when: Vec<When>,
    /// The number of steps, given and computed.
    pub(in crate::te::auto) total_steps: Expr,
    /// The number of given steps.
    pub(in crate::te::auto) given_steps: i64,
    /// The state: for every state of the scan its value at the last step, at the one before, and so on.
    pub(in crate::te::auto) components: Vec<Var>,
    /// Their new values.
    pub(in crate::te::auto) updates: Vec<Expr>,
    /// Their values before the first step.
    pub(in crate::te::auto) begin: Vec<Expr>,
    /// The values of the outputs at the given steps.
    pub(in crate::te::auto) given: Vec<Vec<Expr>>,
    /// The variables that stand for the state after a step in outputs.
    pub(in crate::te::auto) after: Vec<Var>,
    pub(in crate::te::auto) outputs: Vec<ScanOutput>,
    /// The reduction over the columns of a step, if there is one.
    pub(in crate::te::auto) column_reduction: Option<ColumnReduction>,
    /// The linear map of a step, if the update is proved linear.
    pub(in crate::te::auto) map: Option<LinearMap>,
    /// The tensors that are read, in order of first use, then the outputs.
    pub(in crate::te::auto) parameters: Vec<Tensor>,
}

/// On which state the index or the condition of a read depends, and so when the read can be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::te::auto) enum When {
    /// On no state: it can be read ahead.
    #[default]
    Ahead,
    /// On the state before the step.
    Before,
    /// On the state after the step. Only outputs have reads of this kind.
    After,
    /// On the total of the step's columns. Only outputs of reduced columns have reads of this kind.
    Reduced,
}

/// An output.
#[derive(Debug)]
pub(in crate::te::auto) struct ScanOutput {
    pub(in crate::te::auto) tensor: Tensor,
    /// Its value at a step.
    pub(in crate::te::auto) value: Expr,
    /// For each of its dimensions, the number of the recurrence's axis.
    pub(in crate::te::auto) axes: Vec<usize>,
    /// Whether it has the last step first.
    pub(in crate::te::auto) reversed: bool,
    /// Whether it is computed from reduced columns. It then has no axes for those.
    pub(in crate::te::auto) reduced: bool,
}

/// The place of a state's components, while the pattern is built.
pub(in crate::te::auto) struct StateComponents {
    pub(in crate::te::auto) first: usize,
    pub(super) lags: usize,
}

/// Reductions over columns, done side by side.
#[derive(Debug)]
pub(in crate::te::auto) struct ColumnReduction {
    /// The column axes that are reduced over, in the reductions' order.
    pub(in crate::te::auto) axes: Vec<usize>,
    /// The column axes that remain, in the order of the results' dimensions.
    pub(in crate::te::auto) kept: Vec<usize>,
    /// A column's contribution at a step.
    pub(in crate::te::auto) source: Vec<Expr>,
    /// A column counts only if this holds.
    pub(in crate::te::auto) condition: Expr,
    pub(in crate::te::auto) combination: Combination,
    /// The variables that stand for the total in outputs.
    pub(in crate::te::auto) total: Vec<Var>,
    /// Each column's contribution at the given steps, and where it counts.
    pub(in crate::te::auto) given: Vec<(Vec<Expr>, Expr)>,
    pub(super) known: NamedTotals,
    /// The indices of the results, in the kernel's axes.
    pub(super) indices: Vec<Expr>,
    pub(super) reversed: bool,
}

impl ColumnReduction {
    /// All expressions that are evaluated.
    pub(in crate::te::auto) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let given = self.given.iter().flat_map(|(source, condition)| source.iter().chain([condition]));
        let combination = self.combination.result.iter().chain(&self.combination.identity);
        self.source.iter().chain([&self.condition]).chain(combination).chain(given)
    }

    /// The types of the reduced values.
    pub(in crate::te::auto) fn types(&self) -> Vec<DType> {
        self.source.iter().map(Expr::dtype).collect()
    }
}

/// Replaces reads of a scan, at a step's own indices, by the state after the step.
pub(in crate::te::auto) fn of_step<'a>(
    operation: &'a Arc<Operation>,
    states_components: &'a [StateComponents],
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
            Ok(after[states_components[tensor.value()].first].into())
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
