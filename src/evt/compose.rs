//! Reductions that are composed of others.
//!
//! A mean needs no state of its own: it is a sum and a division. Composed reductions become the values that they are
//! made of. So everything behind validation (phases, emitters, the CPU's programs, the reference, drawings) knows only
//! the six [`ReduceOp`]s. Each of these is a reduction as if the user had written it:
//!
//! ```text
//! Any(t)        r = AbsMax(if t { 1 } else { 0 });       r != 0
//! All(t)        r = AbsMax(if t { 0 } else { 1 });       r == 0
//! Mean(x)       s = Add(x);                              s / n
//! Variance(x)   s = Add(x);  q = SumSquares(x - s / n);  q / n
//! LogSumExp(x)  m = Max(x);  c = if |m| < ∞ { m } else { 0 };  s = Add(exp(x - c));  c + log(s)
//! ```
//!
//! The simplifier writes them, so shared parts (the sum of a mean and a variance) are one value.
//!
//! *Two passes.* `Variance` and `LogSumExp` reduce values computed from a reduction, which takes two of a chain's four
//! links. That makes them accurate: differences to the mean don't cancel, as the difference of two sums of squares
//! does, and no exponential overflows. `LogSumExp`'s sum of exponentials, like those of users' losses and softmaxes, is
//! computed with the maximum if that saves a launch or memory (`phases/exponentials.rs`). A variance takes one more
//! launch on a GPU, over M×N values that the first has left in memory. A state of count, mean and squares would save
//! that, but would need a division for every few elements.
//!
//! *Ends.* Without elements `Max` is −∞, sums are 0 and counts are 0: `Any` is false, `All` true, `Mean` and `Variance`
//! are 0 / 0 = NaN, `LogSumExp` is 0 + log(0) = −∞. If the maximum is infinite, nothing is subtracted: −∞ alone gives
//! log(0) = −∞, +∞ gives log(∞) = ∞, and NaN stays.
//!
//! *Counts.* A row has `columns()` elements, a column `rows()`. So the results are right if all batches have all rows.
//! (Groups of rows do not, and take no epilogue with phases.) No value of a tree has the number of batches, so a
//! reduction over batches counts its elements: the sum of 1, which is exact up to 2^24 in f32.

use super::simplify::Simplifier;
use super::valid::Operands;
use super::{
    Axis, BroadcastClass, Composed, ComposedOp, Form, Position, ReduceOp, Reduction, Site, ValueId, ValueKind,
};
use crate::expr::Op;

impl Simplifier<'_> {
    /// Adds the values that a reduction of `x` is made of; gives its result.
    pub(super) fn composed(&mut self, composed: Composed, x: ValueId, site: Site) -> ValueId {
        Composition { simplifier: self, composed, site }.of(x)
    }
}

/// Writes the values of one reduction.
struct Composition<'s, 'a> {
    simplifier: &'s mut Simplifier<'a>,
    composed: Composed,
    site: Site,
}

impl Composition<'_, '_> {
    fn of(&mut self, x: ValueId) -> ValueId {
        match self.composed.op {
            ComposedOp::Any => {
                let chosen = self.chosen(x, 1.0, 0.0);
                self.compared_with_zero(Op::Ne, chosen)
            }
            ComposedOp::All => {
                let chosen = self.chosen(x, 0.0, 1.0);
                self.compared_with_zero(Op::Eq, chosen)
            }
            ComposedOp::Mean => self.mean(x),
            ComposedOp::Variance => {
                let mean = self.mean(x);
                let difference = self.apply(Op::Sub, &[x, mean]);
                let squares = self.reduce(ReduceOp::SumSquares, difference);
                let count = self.count();
                self.apply(Op::Div, &[squares, count])
            }
            ComposedOp::LogSumExp => {
                let largest = self.reduce(ReduceOp::Max, x);
                let subtracted = self.if_finite(largest);
                let difference = self.apply(Op::Sub, &[x, subtracted]);
                let terms = self.apply(Op::Exp, &[difference]);
                let sum = self.reduce(ReduceOp::Add, terms);
                let logarithm = self.apply(Op::Log, &[sum]);
                self.apply(Op::Add, &[subtracted, logarithm])
            }
        }
    }

    fn apply(&mut self, op: Op, operands: &[ValueId]) -> ValueId {
        self.simplifier.apply(op, Operands::from_slice(operands), self.site)
    }

    fn literal(&mut self, x: f64) -> ValueId {
        self.simplifier.literal(x, self.site)
    }

    fn reduce(&mut self, op: ReduceOp, x: ValueId) -> ValueId {
        let Composed { axis, batch, .. } = self.composed;
        let reduction = Reduction { axis, batch, op, form: Form::Complete };
        self.simplifier.add(ValueKind::Reduce(reduction, x), axis.result_class(), self.site)
    }

    /// A number for each truth value.
    fn chosen(&mut self, truth: ValueId, if_true: f64, if_false: f64) -> ValueId {
        let (yes, no) = (self.literal(if_true), self.literal(if_false));
        self.apply(Op::Select, &[truth, yes, no])
    }

    fn compared_with_zero(&mut self, op: Op, x: ValueId) -> ValueId {
        let largest = self.reduce(ReduceOp::AbsMax, x);
        let zero = self.literal(0.0);
        self.apply(op, &[largest, zero])
    }

    fn mean(&mut self, x: ValueId) -> ValueId {
        let sum = self.reduce(ReduceOp::Add, x);
        let count = self.count();
        self.apply(Op::Div, &[sum, count])
    }

    /// How many elements are reduced, as a number.
    fn count(&mut self) -> ValueId {
        match (self.composed.batch, self.composed.axis) {
            (true, _) => {
                let one = self.literal(1.0);
                self.reduce(ReduceOp::Add, one)
            }
            (false, Axis::Row) => self.extent(Position::Columns),
            (false, Axis::Column) => self.extent(Position::Rows),
            (false, Axis::All) => {
                let (rows, columns) = (self.extent(Position::Rows), self.extent(Position::Columns));
                self.apply(Op::Mul, &[rows, columns])
            }
        }
    }

    /// How many rows or columns there are, as a number.
    fn extent(&mut self, position: Position) -> ValueId {
        let extent = self.simplifier.add(ValueKind::Position(position), BroadcastClass::Scalar, self.site);
        self.simplifier.real(extent, self.site)
    }

    /// The value, or 0 if it is infinite or NaN.
    fn if_finite(&mut self, x: ValueId) -> ValueId {
        let magnitude = self.apply(Op::Abs, &[x]);
        let (infinity, zero) = (self.literal(f64::INFINITY), self.literal(0.0));
        let finite = self.apply(Op::Lt, &[magnitude, infinity]);
        self.apply(Op::Select, &[finite, x, zero])
    }
}

#[cfg(test)]
mod tests {
    use crate::ElementType;
    use crate::evt::reference::{Extent, Options, Product, evaluate};
    use crate::evt::{Axis, Composed, ComposedOp, NodeId, ParameterClass, TreeBuilder, Types};
    use crate::expr::Op;

    const F32: Types = Types::new(ElementType::F32, ElementType::F32);

    /// The results of a reduction of the accumulator (for `Any` and `All`, of what is above 0).
    fn reduced(op: ComposedOp, axis: Axis, batch: bool, extent: Extent, values: &[f64]) -> Vec<f64> {
        let mut b = TreeBuilder::new("e", "a.rs");
        let mut x = b.accum("accum");
        if op.of_truths() {
            let zero = b.literal(0.0);
            x = b.apply(Op::Gt, &[x, zero]);
        }
        let r = b.compose(Composed { axis, batch, op }, x);
        b.output("r", r, axis.result_class(), None);
        let tree = b.finish().validate(F32).expect("a valid tree");
        let products = [Product::exact(extent, values.to_vec())];
        let outputs = evaluate(&tree, &products, &[], Options::default()).expect("an evaluation");
        assert_eq!(outputs[0].first_wrong(&outputs[0].values), None);
        outputs[0].values.clone()
    }

    fn of_rows(op: ComposedOp, rows: &[[f64; 4]]) -> Vec<f64> {
        reduced(op, Axis::Row, false, Extent { m: rows.len(), n: 4, l: 1 }, rows.as_flattened())
    }

    #[track_caller]
    fn same(given: &[f64], expected: &[f64]) {
        let near = |x: f64, y: f64| x == y || (x - y).abs() <= 1e-6 * y.abs() || x.is_nan() && y.is_nan();
        assert!(
            given.len() == expected.len() && given.iter().zip(expected).all(|(x, y)| near(*x, *y)),
            "{given:?} is not {expected:?}"
        );
    }

    #[test]
    fn what_they_mean() {
        use ComposedOp::{All, Any, LogSumExp, Mean, Variance};
        let rows = [[1.0, 2.0, 3.0, 4.0], [-1.0, 5.0, -3.0, -1.0], [-1.0, -2.0, -2.0, -7.0]];
        same(&of_rows(Any, &rows), &[1.0, 1.0, 0.0]);
        same(&of_rows(All, &rows), &[1.0, 0.0, 0.0]);
        same(&of_rows(Mean, &rows), &[2.5, 0.0, -3.0]);
        same(&of_rows(Variance, &rows), &[1.25, 9.0, 5.5]);
        let log_sum = |row: &[f64; 4]| row.iter().map(|x| x.exp()).sum::<f64>().ln();
        same(&of_rows(LogSumExp, &rows), &rows.each_ref().map(log_sum));
        // The variance of 2^20 + x is that of x: the difference of two sums of squares would have no digit of it.
        same(&of_rows(Variance, &[[1.0, 2.0, 3.0, 4.0].map(|x| x + 1_048_576.0)]), &[1.25]);
    }

    #[test]
    fn infinities_and_nan() {
        use ComposedOp::{LogSumExp, Mean, Variance};
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let rows = [
            [1e30, -1e30, 3.0, 1e30],
            [-infinity, 2.0, -infinity, -infinity],
            [-infinity; 4],
            [infinity, 1.0, -infinity, 0.0],
            [1.0, nan, -infinity, 0.0],
            [infinity, nan, 1.0, 1.0],
        ];
        same(&of_rows(LogSumExp, &rows), &[1e30, 2.0, -infinity, infinity, nan, nan]);
        same(&of_rows(Mean, &rows)[1..], &[-infinity, -infinity, nan, nan, nan]);
        same(&of_rows(Variance, &rows)[1..], &[nan; 5]);
    }

    #[test]
    fn of_nothing() {
        let ends = [0.0, 1.0, f64::NAN, f64::NAN, f64::NEG_INFINITY];
        for (op, end) in ComposedOp::ALL.into_iter().zip(ends) {
            same(&reduced(op, Axis::Row, false, Extent { m: 2, n: 0, l: 1 }, &[]), &[end; 2]);
            same(&reduced(op, Axis::Column, false, Extent { m: 0, n: 2, l: 1 }, &[]), &[end; 2]);
            same(&reduced(op, Axis::All, false, Extent { m: 0, n: 2, l: 1 }, &[]), &[end]);
        }
    }

    #[test]
    fn along_every_axis() {
        let (extent, values) = (Extent { m: 2, n: 3, l: 2 }, (0..12).map(f64::from).collect::<Vec<_>>());
        let mean = |axis, batch| reduced(ComposedOp::Mean, axis, batch, extent, &values);
        same(&mean(Axis::Row, false), &[1.0, 4.0, 7.0, 10.0]);
        same(&mean(Axis::Column, false), &[1.5, 2.5, 3.5, 7.5, 8.5, 9.5]);
        same(&mean(Axis::All, false), &[2.5, 8.5]);
        // Over all batches, and the result is the same for each.
        same(&mean(Axis::Row, true), &[4.0, 7.0, 4.0, 7.0]);
        same(&mean(Axis::Column, true), &[4.5, 5.5, 6.5, 4.5, 5.5, 6.5]);
        same(&mean(Axis::All, true), &[5.5; 2]);
        same(&reduced(ComposedOp::Variance, Axis::All, true, extent, &values), &[143.0 / 12.0; 2]);
    }

    #[track_caller]
    fn refused(build: impl Fn(&mut TreeBuilder, NodeId) -> NodeId, expected: &str) {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let r = build(&mut b, accum);
        b.output("r", r, Axis::Row.result_class(), None);
        let error = b.finish().validate(F32).expect_err("it is refused");
        assert_eq!(error.mistake.to_string(), expected);
    }

    #[test]
    fn wrong_ones_are_refused() {
        let of_rows = |op| Composed { axis: Axis::Row, batch: false, op };
        refused(
            |b, accum| b.compose(of_rows(ComposedOp::Any), accum),
            "`Any` combines truth values, and `accum` is none; compare it with something, as in `x > 0.0`",
        );
        refused(
            |b, accum| {
                let positive = b.apply(Op::Gt, &[accum, accum]);
                b.name(positive, "positive");
                b.compose(of_rows(ComposedOp::Mean), positive)
            },
            "`positive` is a truth value where a number is needed; write `if … { 1.0 } else { 0.0 }` with it as the condition",
        );
        refused(
            |b, _| {
                let v = b.parameter("v", ParameterClass::ColumnVector, None);
                b.compose(of_rows(ComposedOp::Variance), v)
            },
            "`v` has one value a row: a reduction of it would count each N times; return it and reduce it with `te`",
        );
        refused(
            |b, accum| {
                let mut x = accum;
                for name in ["first", "second", "third"] {
                    let mean = b.compose(of_rows(ComposedOp::Mean), x);
                    b.name(mean, name);
                    x = b.apply(Op::Sub, &[accum, mean]);
                }
                let last = b.compose(of_rows(ComposedOp::LogSumExp), x);
                b.name(last, "last");
                last
            },
            "the reduction `last` is a `LogSumExp`, which is two reductions, one after the other: with it the chain has 5, \
             and a chain has at most 4; return `third`, and go on in another epilogue",
        );
    }
}
