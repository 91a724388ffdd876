//! Sums of exponentials in the pass that finds the greatest value.
//!
//! Of `m = max x; s = sum exp(x - m)`, the sum is a phase after the maximum, and x is kept for it. A running result of two
//! numbers, the greatest value so far and the sum below it, needs one pass only: what was summed below a smaller value counts
//! `exp(smaller - greater)` times (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax"). Where nothing
//! else needs x later, as in a loss over a vocabulary, no M×N values are kept then.
//!
//! Here such a sum becomes a reduction by a [`Reducer`] whose functions say just that. A device may compute it from a whole
//! piece of a row at a time: its greatest value, and then one exponential of each element.

use std::sync::LazyLock;

use super::super::{Axis, BroadcastClass, Form, ReduceOp, Reducer, Reduction, ValidTree, ValueId, ValueKind};
use crate::expr::{ExprId, Function, FunctionBuilder, Op};

/// What is subtracted where the greatest value is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtInfinity {
    /// That value, which gives NaN.
    Itself,
    /// Nothing, as in `LogSumExp`.
    Nothing,
}

static REDUCERS: LazyLock<[Reducer; 2]> = LazyLock::new(|| [AtInfinity::Itself, AtInfinity::Nothing].map(reducer));

impl AtInfinity {
    /// Of which of these sums a reducer is, if it is of one.
    pub(crate) fn of(reducer: &Reducer) -> Option<Self> {
        let is = |at: &Self| std::ptr::eq(reducer, at.reducer());
        [Self::Itself, Self::Nothing].into_iter().find(is)
    }

    /// The sum below the greatest value.
    pub(crate) fn reducer(self) -> &'static Reducer {
        &REDUCERS[self as usize]
    }
}

/// A running result is the greatest value and the sum.
fn reducer(at: AtInfinity) -> Reducer {
    let lift = both(["x"], |b, [x]| {
        let subtracted = match at {
            AtInfinity::Itself => x,
            AtInfinity::Nothing => {
                let (magnitude, infinity, zero) = (b.apply(Op::Abs, &[x]), b.literal(f64::INFINITY), b.literal(0.0));
                let finite = b.apply(Op::Lt, &[magnitude, infinity]);
                b.apply(Op::Select, &[finite, x, zero])
            }
        };
        let difference = b.apply(Op::Sub, &[x, subtracted]);
        [x, b.apply(Op::Exp, &[difference])]
    });
    let combine = both(["m", "s", "n", "t"], |b, [m, s, n, t]| {
        let greatest = b.apply(Op::Max, &[m, n]);
        let [first, second] = [[m, s], [n, t]].map(|[m, s]| {
            // Exactly 1 times where it is the greatest, also an infinite one; 0 times if there is nothing.
            let (same, least) = (b.apply(Op::Eq, &[m, greatest]), b.literal(f64::NEG_INFINITY));
            let (nothing, zero) = (b.apply(Op::Eq, &[m, least]), b.literal(0.0));
            let difference = b.apply(Op::Sub, &[m, greatest]);
            let factor = b.apply(Op::Exp, &[difference]);
            let product = b.apply(Op::Mul, &[s, factor]);
            let smaller = b.apply(Op::Select, &[nothing, zero, product]);
            b.apply(Op::Select, &[same, s, smaller])
        });
        [greatest, b.apply(Op::Add, &[first, second])]
    });
    let [_, sum] = both(["m", "s"], |_, of| of);
    Reducer::new("sum of exponentials", &[f64::NEG_INFINITY, 0.0], lift.into(), combine.into(), sum)
}

/// The functions that give the greatest value and the sum.
fn both<const N: usize>(
    parameters: [&'static str; N],
    results: impl Fn(&mut FunctionBuilder, [ExprId; N]) -> [ExprId; 2],
) -> [Function; 2] {
    [("greatest", 0), ("sum", 1)].map(|(name, number)| {
        let mut b = FunctionBuilder::new(name);
        let parameters = parameters.map(|parameter| b.parameter(parameter));
        let result = results(&mut b, parameters)[number];
        b.finish(result)
    })
}

/// The tree with such sums of rows in the pass of their maxima, under the numbers that its values have; `None` if it has none.
pub(super) fn in_one_pass(tree: &ValidTree) -> Option<ValidTree> {
    let sums: Vec<(ValueId, ValueId, AtInfinity)> =
        tree.enumerate().filter_map(|(id, _)| sum(tree, id).map(|(x, at)| (id, x, at))).collect();
    if sums.is_empty() {
        return None;
    }
    let mut result = tree.clone();
    for (id, x, at) in sums {
        let op = ReduceOp::User(at.reducer());
        result.values[id.index()].kind = ValueKind::Reduce(Reduction { op, ..OF_ROWS }, x);
    }
    for i in 0..result.values.len() {
        let kind = &result.values[i].kind;
        let of_operands = kind.operands().iter().map(|operand| result.values[operand.index()].phase).max();
        let phase = of_operands.unwrap_or(0) + usize::from(matches!(kind, ValueKind::Reduce(..)));
        result.values[i].phase = phase;
    }
    Some(result)
}

const OF_ROWS: Reduction = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };

/// What the exponentials are of that a value is the sum of, if it is such a sum.
fn sum(tree: &ValidTree, id: ValueId) -> Option<(ValueId, AtInfinity)> {
    let applied = |id: ValueId, op: Op| match &tree.value(id).kind {
        ValueKind::Apply(of, operands) if *of == op => Some(operands.as_slice()),
        _ => None,
    };
    let ValueKind::Reduce(reduction, terms) = tree.value(id).kind else { return None };
    let &[x, subtracted] = applied(*applied(terms, Op::Exp)?.first()?, Op::Sub)? else { return None };
    let is_greatest = |id: ValueId| {
        let greatest = Reduction { op: ReduceOp::Max, ..OF_ROWS };
        matches!(tree.value(id).kind, ValueKind::Reduce(reduction, of) if reduction == greatest && of == x)
    };
    if reduction != OF_ROWS || tree.value(x).class != BroadcastClass::Tensor {
        return None;
    }
    if is_greatest(subtracted) {
        return Some((x, AtInfinity::Itself));
    }
    let literal = |id: ValueId| match tree.value(id).kind {
        ValueKind::Literal(x) => Some(x),
        _ => None,
    };
    let &[condition, greatest, otherwise] = applied(subtracted, Op::Select)? else { return None };
    let &[magnitude, limit] = applied(condition, Op::Lt)? else { return None };
    let of = *applied(magnitude, Op::Abs)?.first()?;
    let is_guard = of == greatest && literal(limit) == Some(f64::INFINITY) && literal(otherwise) == Some(0.0);
    (is_guard && is_greatest(greatest)).then_some((x, AtInfinity::Nothing))
}
