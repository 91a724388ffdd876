//! Where the greatest or the least element is: Where the greatest or the least element is: all elements that it may be
//! on a device, given the bounds of their values.

use super::bounds::Bounds;
use super::integer::Integer;
use super::pair::Pair;
use super::wide::Wide;
use crate::evt::ReduceOp;
use crate::expr::Op;

/// A search for the extreme element, fed with elements in the order of their indices.
#[derive(Clone, Debug)]
pub(super) struct Extreme<W> {
    least: bool,
    /// The first of the greatest, exactly, and its index.
    exact: Option<(W, i64)>,
    /// Elements that may be the extreme one, with the bounds of their values (of the negated ones, for the least).
    candidates: Vec<(i64, Bounds)>,
    /// No device's greatest value is below; infinite if a value is certainly NaN.
    floor: f64,
}

impl<W: Wide> Extreme<W> {
    pub(super) fn new(op: ReduceOp) -> Self {
        Self { least: op == ReduceOp::ArgMin, exact: None, candidates: Vec::new(), floor: f64::NEG_INFINITY }
    }

    pub(super) fn add(&mut self, index: i64, value: Pair<W>) {
        let (exact, bounds) = if self.least {
            let negated = Bounds { low: -value.bounds.high, high: -value.bounds.low, nan: value.bounds.nan };
            (W::apply(Op::Neg, &[value.exact]), negated)
        } else {
            (value.exact, value.bounds)
        };
        let is_number = |x: W| !x.to_f64().is_nan();
        let replaces = |best: W| is_number(best) && (!is_number(exact) || W::compare(Op::Gt, exact, best));
        if self.exact.is_none_or(|(best, _)| replaces(best)) {
            self.exact = Some((exact, index));
        }
        // A value that is certainly NaN has no numbers: its `low` is infinite, and above all `high`s.
        let certain = |bounds: &Bounds| bounds.nan && bounds.low > bounds.high;
        let nan_before = self.candidates.iter().any(|(_, before)| certain(before));
        let comes_after =
            if bounds.nan { nan_before } else { !self.candidates.is_empty() && self.floor >= bounds.high };
        if comes_after {
            return;
        }
        let is_nan = certain(&bounds);
        self.candidates.retain(|(_, before)| before.nan || !is_nan && bounds.low <= before.high);
        self.candidates.push((index, bounds));
        self.floor = self.floor.max(bounds.low);
    }

    /// The index, or −1 without elements.
    pub(super) fn index(&self) -> Integer {
        let indices = || self.candidates.iter().map(|(index, _)| *index);
        Integer {
            exact: self.exact.map_or(-1, |(_, index)| index),
            low: indices().min().unwrap_or(-1),
            high: indices().max().unwrap_or(-1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;

    fn index(op: ReduceOp, values: &[(f64, f64)]) -> (i64, i64, i64) {
        let mut extreme = Extreme::<f64>::new(op);
        for (i, &(low, high)) in values.iter().enumerate() {
            let bounds = if low.is_nan() { Bounds::exact(low) } else { Bounds { low, high, nan: high.is_nan() } };
            let bounds = if high.is_nan() && !low.is_nan() { Bounds { high: low, ..bounds } } else { bounds };
            extreme.add(i as i64, Pair { exact: low, bounds });
        }
        let Integer { exact, low, high } = extreme.index();
        (exact, low, high)
    }

    fn known(values: &[f64]) -> (i64, i64) {
        let all: Vec<(f64, f64)> = values.iter().map(|x| (*x, *x)).collect();
        let [most, least] = [ReduceOp::ArgMax, ReduceOp::ArgMin].map(|op| index(op, &all));
        assert_eq!((most.0, most.0, least.0, least.0), (most.1, most.2, least.1, least.2), "{values:?}");
        (most.0, least.0)
    }

    #[test]
    fn known_values_have_one_place() {
        assert_eq!(known(&[]), (-1, -1));
        assert_eq!(known(&[3.0]), (0, 0));
        assert_eq!(known(&[1.0, 3.0, -2.0, 3.0, -2.0]), (1, 2));
        assert_eq!(known(&[-0.0, 0.0, -0.0]), (0, 0));
        assert_eq!(known(&[1.0, NAN, 7.0, NAN, f64::INFINITY]), (1, 1));
        assert_eq!(known(&[f64::NEG_INFINITY; 3]), (0, 0));
        assert_eq!(known(&[f64::INFINITY; 3]), (0, 0));
        assert_eq!(known(&[f64::INFINITY, NAN]), (1, 1));
    }

    #[test]
    fn values_that_may_change_places_are_all_candidates() {
        let most = |values: &[(f64, f64)]| index(ReduceOp::ArgMax, values);
        assert_eq!(most(&[(1.0, 2.0), (1.5, 2.5), (0.0, 0.9), (1.5, 1.5)]), (1, 0, 1));
        // An element that may be equal to an earlier one may not win; a later one may.
        assert_eq!(most(&[(2.0, 2.0), (1.0, 2.0), (2.0, 2.1)]), (0, 0, 2));
        assert_eq!(index(ReduceOp::ArgMin, &[(5.0, 6.0), (1.0, 2.0), (1.5, 9.0), (3.0, 3.0)]), (1, 1, 2));
        // One that may be NaN may win wherever it is.
        assert_eq!(most(&[(5.0, 5.0), (1.0, NAN), (7.0, 7.0)]), (2, 1, 2));
        assert_eq!(most(&[(5.0, 5.0), (NAN, NAN), (1.0, NAN)]), (1, 1, 1));
        assert_eq!(most(&[(1.0, NAN), (NAN, NAN)]), (1, 0, 1));
    }
}
