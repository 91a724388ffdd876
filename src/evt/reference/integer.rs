//! The integers that the reference computes with: exact, except for conditions that a device may decide differently.

use crate::expr::Op;

/// An integer: the exact value, and the values that a device may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    pub(super) exact: i64,
    pub(super) low: i64,
    pub(super) high: i64,
}

impl Integer {
    pub(super) const fn known(x: i64) -> Self {
        Self { exact: x, low: x, high: x }
    }

    /// One of two integers, chosen by a condition that may be true or false.
    pub(super) fn either(exact: i64, x: Self, y: Self) -> Self {
        Self { exact, low: x.low.min(y.low), high: x.high.max(y.high) }
    }

    /// An operation that gives an integer. Results wrap at 64 bits.
    pub(super) fn apply(op: Op, operands: &[Self]) -> Self {
        let wide = |x: i64, y: i64| -> i128 {
            let (x, y) = (i128::from(x), i128::from(y));
            match op {
                Op::Neg => -x,
                Op::Add => x + y,
                Op::Sub => x - y,
                Op::Mul => x * y,
                Op::Min => x.min(y),
                _ => x.max(y),
            }
        };
        let x = operands[0];
        let y = operands.get(1).copied().unwrap_or(x);
        // Every one of these operations is monotone in each operand, so the extremes are at corners.
        let corners = [wide(x.low, y.low), wide(x.low, y.high), wide(x.high, y.low), wide(x.high, y.high)];
        let (low, high) = corners.iter().fold((corners[0], corners[0]), |(l, h), &c| (l.min(c), h.max(c)));
        #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
        let exact = wide(x.exact, y.exact) as i64;
        match (i64::try_from(low), i64::try_from(high)) {
            (Ok(low), Ok(high)) => Self { exact, low, high },
            _ if low == high => Self::known(exact),
            _ => Self { exact, low: i64::MIN, high: i64::MAX },
        }
    }

    /// Whether a comparison is true, may be true, and may be false.
    pub(super) fn compare(op: Op, x: Self, y: Self) -> (bool, bool, bool) {
        let meet = x.low <= y.high && y.low <= x.high;
        let same = x.low == x.high && y.low == y.high && x.low == y.low;
        match op {
            Op::Lt => (x.exact < y.exact, x.low < y.high, x.high >= y.low),
            Op::Le => (x.exact <= y.exact, x.low <= y.high, x.high > y.low),
            Op::Gt => Self::compare(Op::Lt, y, x),
            Op::Ge => Self::compare(Op::Le, y, x),
            Op::Eq => (x.exact == y.exact, meet, !same),
            // `Ne`; other operations are not comparisons.
            _ => (x.exact != y.exact, !same, meet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_their_bounds_hold() {
        let known = Integer::known;
        assert_eq!(Integer::apply(Op::Add, &[known(i64::MAX), known(1)]), known(i64::MIN));
        assert_eq!(Integer::apply(Op::Neg, &[known(5)]), known(-5));
        let between = Integer { exact: 3, low: -2, high: 4 };
        assert_eq!(Integer::apply(Op::Mul, &[between, known(-3)]), Integer { exact: -9, low: -12, high: 6 });
        assert_eq!(Integer::compare(Op::Lt, between, known(0)), (false, true, true));
        assert_eq!(Integer::compare(Op::Ge, between, known(-2)), (true, true, false));
        assert_eq!(Integer::compare(Op::Eq, between, known(9)), (false, false, true));
        let far = Integer { exact: 1, low: 0, high: i64::MAX };
        assert_eq!(Integer::apply(Op::Add, &[far, known(1)]), Integer { exact: 2, low: i64::MIN, high: i64::MAX });
    }
}
