//! The results of a user reducer, in one order of combination and in others.
//!
//! The exact result is that of the order of indices. A device has an order of its own, and the functions are arbitrary.
//! So no rule bounds their roundings in all orders, as one does for sums. The bounds here are therefore evidence and no
//! proof. They contain the bounds of five orders: that of the indices and its reverse, the values rising and falling,
//! and halves of halves. Each of these holds for every device that combines in that order. On both sides, the distance
//! that the five span is added once more. Functions that only choose among values, as a maximum does, have one result
//! in all orders, and bounds without width.

use smallvec::SmallVec;

use super::bounds::{Bounds, Slack};
use super::cell::{Cell, call, known, number};
use super::element::round;
use super::pair::Pair;
use super::wide::Wide;
use crate::evt::Reducer;

type State<W> = SmallVec<[Cell<W>; 4]>;

/// The result of these elements, which come in the order of their indices.
pub(super) fn combined<W: Wide>(reducer: &Reducer, elements: &[Pair<W>], slack: Slack) -> Pair<W> {
    let all = Combination { reducer, slack };
    let lifted: Vec<State<W>> = elements.iter().map(|x| all.lifted(*x)).collect();
    let mut rising: Vec<usize> = (0..elements.len()).collect();
    rising.sort_by(|i, j| elements[*i].exact.to_f64().total_cmp(&elements[*j].exact.to_f64()));
    let chain = |order: &mut dyn Iterator<Item = usize>| {
        let state = order.fold(all.identity(), |state, i| all.combined(&state, &lifted[i]));
        all.finished(&state)
    };
    let first = chain(&mut (0..lifted.len()));
    let halves = all.finished(&all.combined(&all.identity(), &all.halves(&lifted)));
    let others = [
        chain(&mut (0..lifted.len()).rev()),
        chain(&mut rising.iter().copied()),
        chain(&mut rising.iter().rev().copied()),
        halves,
    ];
    let bounds = others.iter().fold(first.bounds, |bounds, other| bounds.union(other.bounds));
    Pair { exact: first.exact, bounds: twice(bounds, slack) }
}

/// As wide again on both sides. If an order overflows that another does not, a third may meet both infinities.
fn twice(bounds: Bounds, slack: Slack) -> Bounds {
    let width = bounds.high - bounds.low;
    match (width > 0.0, width.is_finite()) {
        (true, true) => bounds.widened(0.0, width, slack.real),
        (true, false) => Bounds::ANYTHING,
        // One value, or none but NaN.
        (false, _) => bounds,
    }
}

struct Combination<'a> {
    reducer: &'a Reducer,
    slack: Slack,
}

impl Combination<'_> {
    fn identity<W: Wide>(&self) -> State<W> {
        let element = self.slack.real.element();
        self.reducer.identity().iter().map(|x| known(round(element, *x))).collect()
    }

    fn lifted<W: Wide>(&self, x: Pair<W>) -> State<W> {
        self.reducer.lift().iter().map(|function| call(function, &[Cell::Number(x)], self.slack)).collect()
    }

    fn combined<W: Wide>(&self, a: &State<W>, b: &State<W>) -> State<W> {
        let operands: SmallVec<[Cell<W>; 8]> = a.iter().chain(b).copied().collect();
        self.reducer.combine().iter().map(|function| call(function, &operands, self.slack)).collect()
    }

    fn halves<W: Wide>(&self, elements: &[State<W>]) -> State<W> {
        match elements {
            [] => self.identity(),
            [one] => one.clone(),
            _ => {
                let (low, high) = elements.split_at(elements.len() / 2);
                self.combined(&self.halves(low), &self.halves(high))
            }
        }
    }

    /// The result, which a device rounds to the arithmetic's type.
    fn finished<W: Wide>(&self, state: &State<W>) -> Pair<W> {
        number(&call(self.reducer.finish(), state, self.slack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Function, FunctionBuilder, Op, Real};

    const F32: Slack = Slack { real: Real::F32, significand: 53 };

    fn binary(op: Op) -> Function {
        let mut b = FunctionBuilder::new("f");
        let operands = [b.parameter("a"), b.parameter("b")];
        let root = b.apply(op, &operands);
        b.finish(root)
    }

    fn same() -> Function {
        let mut b = FunctionBuilder::new("same");
        let x = b.parameter("x");
        b.finish(x)
    }

    fn reduced(op: Op, identity: f64, values: &[f64]) -> Pair<f64> {
        let reducer = Reducer::new("r", &[identity], vec![same()], vec![binary(op)], same());
        let elements: Vec<Pair<f64>> = values.iter().map(|x| Pair { exact: *x, bounds: Bounds::exact(*x) }).collect();
        combined(&reducer, &elements, F32)
    }

    #[test]
    fn what_only_chooses_has_no_width() {
        let Pair { exact, bounds } = reduced(Op::Max, f64::NEG_INFINITY, &[1.0, -3.0, 7.5, 0.1]);
        assert_eq!((exact, bounds), (7.5, Bounds::exact(7.5)));
        assert_eq!(reduced(Op::Min, f64::INFINITY, &[]).bounds, Bounds::exact(f64::INFINITY));
        assert!(reduced(Op::Max, f64::NEG_INFINITY, &[1.0, f64::NAN]).bounds.admit(f64::NAN));
    }

    /// A sum of f32s in a thousand shuffled orders lies in the bounds, which are narrow.
    #[test]
    fn sums_in_any_order_lie_in_the_bounds() {
        let mut values: Vec<f32> = (0..200).map(|i| ((i * 37 % 101) as f32 - 40.0) * 0.013).collect();
        let exact: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
        let result = reduced(Op::Add, 0.0, &exact);
        let magnitude: f64 = exact.iter().map(|x| x.abs()).sum();
        // A rounding at each of 200 steps, in both directions, and as much again on both sides.
        assert!(result.bounds.high - result.bounds.low < 3.0 * 2.0 * 200.0 * magnitude * f64::from(f32::EPSILON));
        for seed in 0..1000u64 {
            fastrand::Rng::with_seed(seed).shuffle(&mut values);
            let sum = f64::from(values.iter().sum::<f32>());
            assert!(result.bounds.admit(sum), "{sum} is not in {:?}", result.bounds);
        }
        assert!(!result.bounds.admit(result.exact * (1.0 + 1e-3)));
    }
}
