//! The interval of an index over loops that run: its least and greatest value, and a bound on their distance.

use super::{Context, ceil_div, simplify};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

/// Every value lies in `low..=high`. The bounds don't mention the running counters.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) low: Expr,
    pub(crate) high: Expr,
    /// An upper bound of `high - low`. It may be a constant where the difference of the bounds isn't one, as for
    /// `(i + 7) / 2` and `i / 2`.
    width: Expr,
}

impl Interval {
    pub(crate) fn new(low: Expr, high: Expr) -> Self {
        let width = simplify(&(&high - &low));
        Self { low, high, width }
    }

    /// Gives the interval this bound on the width, unless the ends themselves give a constant.
    fn at_most(mut self, width: &Expr) -> Self {
        if self.width.as_int().is_none() {
            self.width = simplify(width);
        }
        self
    }

    /// The interval of an index over `running` counters, outermost first; `None` when its bounds can't be found, for
    /// example of an index that is data.
    pub(crate) fn of(index: &Expr, running: &[(Var, Expr)]) -> Option<Self> {
        let mut context = Context::default();
        running.iter().for_each(|(var, extent)| context.push(*var, extent));
        Self::within(index, running, &context)
    }

    fn within(x: &Expr, running: &[(Var, Expr)], context: &Context) -> Option<Self> {
        // The values of elements are not known where memory is placed.
        let is_data = |x: &Expr| matches!(x.kind(), Kind::Read(..) | Kind::Load(..));
        let free = |x: &Expr| !x.contains(is_data) && running.iter().all(|(var, _)| !x.uses(*var));
        let (low, high) = context.extremes(x);
        if free(&low) && free(&high) {
            return Some(Self::new(low, high));
        }
        // A larger index is only known to be inside the tensor.
        if x.unfolded() > 4096 {
            return None;
        }
        let of = |x: &Expr| Self::within(x, running, context);
        match x.kind() {
            Kind::Binary(Binary::Add, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                Some(Self::new(simplify(&(a.low + b.low)), simplify(&(a.high + b.high))).at_most(&(a.width + b.width)))
            }
            Kind::Binary(Binary::Sub, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                Some(Self::new(simplify(&(a.low - b.high)), simplify(&(a.high - b.low))).at_most(&(a.width + b.width)))
            }
            Kind::Binary(Binary::Mul, a, b) => {
                let (inner, factor) = match (a.as_int(), b.as_int()) {
                    (_, Some(factor)) => (of(a)?, factor),
                    (Some(factor), _) => (of(b)?, factor),
                    _ => return None,
                };
                let (low, high) = (simplify(&(inner.low * factor)), simplify(&(inner.high * factor)));
                let (low, high) = if factor < 0 { (high, low) } else { (low, high) };
                Some(Self::new(low, high).at_most(&(inner.width * factor.abs())))
            }
            Kind::Binary(Binary::FloorDiv, a, b) => {
                let by = Expr::int(b.as_int().filter(|by| *by > 0)?);
                let a = of(a)?;
                let (low, high) = (simplify(&a.low.floor_div(&by)), simplify(&a.high.floor_div(&by)));
                Some(Self::new(low, high).at_most(&ceil_div(&a.width, &by)))
            }
            Kind::Binary(Binary::FloorMod, _, b) => {
                let by = b.as_int().filter(|by| *by > 0)?;
                Some(Self::new(Expr::int(0), Expr::int(by - 1)))
            }
            // Both functions never increase the distance of their operands.
            Kind::Binary(op @ (Binary::Min | Binary::Max), a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                let both = |a: Expr, b: Expr| simplify(&Expr::binary(*op, a, b));
                Some(Self::new(both(a.low, b.low), both(a.high, b.high)).at_most(&a.width.max(b.width)))
            }
            Kind::Select(_, a, b) => Some(of(a)?.or(of(b)?)),
            Kind::Likely(inner) => of(inner),
            _ => None,
        }
    }

    /// An interval that contains both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self::new(simplify(&self.low.min(other.low)), simplify(&self.high.max(other.high)))
    }

    /// From the least value of this one to the greatest of the other.
    pub(crate) fn to(self, other: Self) -> Self {
        Self::new(self.low, other.high)
    }

    /// Simplifies the bounds by facts from outside.
    pub(crate) fn simplified(self, simplify: impl Fn(&Expr) -> Expr) -> Self {
        let width = simplify(&self.width);
        Self::new(simplify(&self.low), simplify(&self.high)).at_most(&width)
    }

    /// The number of values at most.
    pub(crate) fn extent(&self) -> Expr {
        simplify(&(&self.width + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te;
    use crate::te::Axis;
    use proptest::prelude::*;

    /// An index of a running counter and a fixed one, as an expression and as a function.
    #[derive(Clone, Debug)]
    enum Index {
        Running,
        Fixed,
        Constant(i64),
        Add(Box<Index>, Box<Index>),
        Sub(Box<Index>, Box<Index>),
        Mul(Box<Index>, i64),
        Div(Box<Index>, i64),
        Mod(Box<Index>, i64),
        Min(Box<Index>, Box<Index>),
        Max(Box<Index>, Box<Index>),
        Select(Box<Index>, Box<Index>),
    }

    impl Index {
        fn expression(&self, running: Axis, fixed: Axis) -> Expr {
            let of = |x: &Index| x.expression(running, fixed);
            match self {
                Self::Running => running.into(),
                Self::Fixed => fixed.into(),
                Self::Constant(value) => Expr::int(*value),
                Self::Add(a, b) => of(a) + of(b),
                Self::Sub(a, b) => of(a) - of(b),
                Self::Mul(a, by) => of(a) * *by,
                Self::Div(a, by) => of(a).floor_div(*by),
                Self::Mod(a, by) => of(a).floor_mod(*by),
                Self::Min(a, b) => of(a).min(of(b)),
                Self::Max(a, b) => of(a).max(of(b)),
                Self::Select(a, b) => running.less(fixed).select(of(a), of(b)),
            }
        }

        fn value(&self, running: i64, fixed: i64) -> i64 {
            let of = |x: &Index| x.value(running, fixed);
            match self {
                Self::Running => running,
                Self::Fixed => fixed,
                Self::Constant(value) => *value,
                Self::Add(a, b) => of(a) + of(b),
                Self::Sub(a, b) => of(a) - of(b),
                Self::Mul(a, by) => of(a) * by,
                Self::Div(a, by) => of(a).div_euclid(*by),
                Self::Mod(a, by) => of(a).rem_euclid(*by),
                Self::Min(a, b) => of(a).min(of(b)),
                Self::Max(a, b) => of(a).max(of(b)),
                Self::Select(a, b) => {
                    if running < fixed {
                        of(a)
                    } else {
                        of(b)
                    }
                }
            }
        }
    }

    fn index() -> impl Strategy<Value = Index> {
        let leaf = prop_oneof![Just(Index::Running), Just(Index::Fixed), (-5_i64..6).prop_map(Index::Constant)];
        leaf.prop_recursive(4, 16, 2, |inner| {
            let pair = || (inner.clone(), inner.clone()).prop_map(|(a, b)| (Box::new(a), Box::new(b)));
            prop_oneof![
                pair().prop_map(|(a, b)| Index::Add(a, b)),
                pair().prop_map(|(a, b)| Index::Sub(a, b)),
                (inner.clone(), -3_i64..4).prop_map(|(a, by)| Index::Mul(Box::new(a), by)),
                (inner.clone(), 1_i64..6).prop_map(|(a, by)| Index::Div(Box::new(a), by)),
                (inner.clone(), 1_i64..6).prop_map(|(a, by)| Index::Mod(Box::new(a), by)),
                pair().prop_map(|(a, b)| Index::Min(a, b)),
                pair().prop_map(|(a, b)| Index::Max(a, b)),
                pair().prop_map(|(a, b)| Index::Select(a, b)),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_lies_inside(index in index(), extent in 1_i64..8, fixed in 0_i64..9) {
            let (i, f) = (te::reduce_axis((0, 100), "i"), te::reduce_axis((0, 100), "f"));
            let x = simplify(&index.expression(i, f));
            let interval = Interval::of(&x, &[(i.var(), Expr::int(extent))]);
            let interval = interval.expect("these indices have bounds");
            let given = |x: &Expr| {
                let x = x.substitute(&|var| (var == f.var()).then(|| Expr::int(fixed)));
                simplify(&x).as_int().expect("a number")
            };
            let (low, high, values) = (given(&interval.low), given(&interval.high), given(&interval.extent()));
            prop_assert!(high - low < values, "{low}..={high} are more than {values}");
            for i in 0..extent {
                let value = index.value(i, fixed);
                prop_assert!((low..=high).contains(&value), "{value} at {i} is not in {low}..={high}");
            }
        }
    }
}
