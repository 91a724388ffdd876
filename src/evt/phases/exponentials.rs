//! Sums of exponentials in the pass that finds the maximum.
//!
//! For `m = max x; s = sum exp(x - m)`, the sum is a phase after the maximum, and x is kept for it. With a running
//! result of two numbers, the maximum so far and the sum below it, one pass is enough: if the maximum grows, the sum so
//! far is multiplied by `exp(smaller - greater)` (M. Milakov and N. Gimelshein, "Online normalizer calculation for
//! softmax"). If nothing else needs x later, as in a loss over a vocabulary, no M×N values are kept; a softmax reads
//! them once, not twice.
//!
//! This is done if it saves a launch; on the CPU, if nothing need be kept then.
//!
//! The sum becomes a reduction by a [`Reducer`] whose functions say just that. A device may compute it from several
//! elements at a time: their maximum first, then one exponential of each (`device/exponentials.cuh`,
//! `gemm/cpu/exponentials.rs`).

use std::sync::LazyLock;

use super::super::{BroadcastClass, Form, ReduceOp, Reducer, Reduction, ValidTree, ValueId, ValueKind};
use crate::expr::{ExprId, Function, FunctionBuilder, Op};

/// The value that is subtracted if the greatest value is infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtInfinity {
    /// That value, which gives NaN.
    Itself,
    /// Nothing, as in `LogSumExp`.
    Nothing,
}

static REDUCERS: LazyLock<[Reducer; 2]> = LazyLock::new(|| [AtInfinity::Itself, AtInfinity::Nothing].map(reducer));

impl AtInfinity {
    /// The kind of sum that a reducer computes; `None` if it is a reducer of another kind.
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

/// A sum of exponentials below the greatest value of the same elements.
struct Sum {
    value: ValueId,
    /// The axes of the sum and of the greatest value.
    reduction: Reduction,
    x: ValueId,
    at: AtInfinity,
}

/// Moves sums of exponentials into the pass of their maxima, if `takes` is true for their reduction. The values of the
/// new tree keep their numbers. `None` if there are no sums to move.
pub(super) fn in_one_pass(tree: &ValidTree, takes: impl Fn(Reduction) -> bool) -> Option<ValidTree> {
    let sums = tree.enumerate().filter_map(|(id, _)| sum(tree, id));
    let sums: Vec<Sum> = sums.filter(|sum| takes(sum.reduction)).collect();
    if sums.is_empty() {
        return None;
    }
    let mut result = tree.clone();
    for Sum { value, reduction, x, at } in sums {
        let op = ReduceOp::User(at.reducer());
        result.values[value.index()].kind = ValueKind::Reduce(Reduction { op, ..reduction }, x);
    }
    for i in 0..result.values.len() {
        let kind = &result.values[i].kind;
        let of_operands = kind.operands().iter().map(|operand| result.values[operand.index()].phase).max();
        let phase = of_operands.unwrap_or(0) + usize::from(matches!(kind, ValueKind::Reduce(..)));
        result.values[i].phase = phase;
    }
    Some(result)
}

/// The sum that a value is, if it is one.
fn sum(tree: &ValidTree, value: ValueId) -> Option<Sum> {
    let applied = |id: ValueId, op: Op| match &tree.value(id).kind {
        ValueKind::Apply(of, operands) if *of == op => Some(operands.as_slice()),
        _ => None,
    };
    let ValueKind::Reduce(reduction, terms) = tree.value(value).kind else { return None };
    let &[x, subtracted] = applied(*applied(terms, Op::Exp)?.first()?, Op::Sub)? else { return None };
    if reduction.op != ReduceOp::Add
        || reduction.form != Form::Complete
        || tree.value(x).class != BroadcastClass::Tensor
    {
        return None;
    }
    let is_greatest = |id: ValueId| {
        let greatest = Reduction { op: ReduceOp::Max, ..reduction };
        matches!(tree.value(id).kind, ValueKind::Reduce(of, elements) if of == greatest && elements == x)
    };
    let sum = |at: AtInfinity| Sum { value, reduction, x, at };
    if is_greatest(subtracted) {
        return Some(sum(AtInfinity::Itself));
    }
    let literal = |id: ValueId| match tree.value(id).kind {
        ValueKind::Literal(x) => Some(x),
        _ => None,
    };
    let &[condition, greatest, otherwise] = applied(subtracted, Op::Select)? else { return None };
    let &[magnitude, limit] = applied(condition, Op::Lt)? else { return None };
    let of = *applied(magnitude, Op::Abs)?.first()?;
    let is_guard = of == greatest && literal(limit) == Some(f64::INFINITY) && literal(otherwise) == Some(0.0);
    (is_guard && is_greatest(greatest)).then(|| sum(AtInfinity::Nothing))
}
