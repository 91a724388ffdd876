//! Values that are only added to something as large.
//!
//! In `1 + erf(x)` only the absolute error of `erf` counts, so a shorter formula will do there than for `erf(x)`
//! itself. The other way round: a formula may be accurate to 8 bits by itself and not in `1 + tanh(x)`, where all but
//! the last bits may cancel.

use smallvec::SmallVec;

use super::formula::{Formula, Values};
use crate::expr::Op;

/// How the users of a value use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Every one adds it to something at least about as large.
    One,
    /// One of them adds it to a number, or to its own factor, which may cancel most of it.
    Sometimes,
    /// As itself.
    Never,
}

/// The users of values; `None` for uses by what is no value, as an output.
pub(super) struct Users<'a, V> {
    values: &'a V,
    users: Vec<SmallVec<[Option<usize>; 2]>>,
}

impl<'a, V: Values> Users<'a, V> {
    pub(super) fn of(values: &'a V) -> Self {
        let mut users: Vec<SmallVec<[Option<usize>; 2]>> = vec![SmallVec::new(); values.count()];
        for value in 0..values.count() {
            for operand in values.formula(value).operands() {
                users[operand].push(Some(value));
            }
        }
        for (value, users) in users.iter_mut().enumerate() {
            if users.len() < values.uses(value) {
                users.push(None);
            }
        }
        Self { values, users }
    }

    pub(super) const fn values(&self) -> &'a V {
        self.values
    }

    /// How a value is used that is `op` of something.
    pub(super) fn beside(&self, value: usize, op: Op) -> Beside {
        // An exponential has a relative error; what is lost of it is below 2^-126.
        let enough = if matches!(op, Op::Exp | Op::Exp2) { 2f64.powi(-60) } else { 0.25 };
        let added = self.added_to(value);
        if !added.is_empty() && added.iter().all(|added| added.is_some_and(|added| added >= enough)) {
            Beside::One
        } else if added.iter().any(Option::is_some) {
            Beside::Sometimes
        } else {
            Beside::Never
        }
    }

    /// For each use of a value, the size of what is added to it; to a product with it, in units of the other factor. `None`
    /// for other uses.
    fn added_to(&self, value: usize) -> Vec<Option<f64>> {
        let mut added = Vec::new();
        for &user in &self.users[value] {
            let Some(user) = user else {
                added.push(None);
                continue;
            };
            match self.values.formula(user) {
                Formula::Apply(Op::Add | Op::Sub, of) => added.push(self.literal(other(&of, value))),
                Formula::Apply(Op::Fma, of) if of[2] != value => {
                    added.push(self.beside_product(other(&of, value), value, of[2]));
                }
                Formula::Apply(Op::Mul, of) => {
                    let factor = other(&of, value);
                    added.extend(self.sums_of(user, |term| self.beside_product(factor, value, term)));
                }
                Formula::Apply(Op::Neg, _) => added.extend(self.sums_of(user, |term| self.literal(term))),
                _ => added.push(None),
            }
        }
        added
    }

    /// For each use of a value: of a sum what `size` says of the other term; else `None`.
    fn sums_of(&self, value: usize, size: impl Fn(usize) -> Option<f64>) -> Vec<Option<f64>> {
        let of_user = |user: &Option<usize>| match self.values.formula((*user)?) {
            Formula::Apply(Op::Add | Op::Sub, of) => size(other(&of, value)),
            _ => None,
        };
        self.users[value].iter().map(of_user).collect()
    }

    /// The size of the number that is added to a value's product with a factor, in units of the factor.
    fn beside_product(&self, factor: usize, value: usize, added: usize) -> Option<f64> {
        if self.same(factor, added, 4) {
            return Some(1.0);
        }
        // The square of a function that is at most 1.
        let factor = if factor == value { 1.0 } else { self.literal(factor)? };
        Some(self.literal(added)? / factor)
    }

    /// The size of a number.
    fn literal(&self, value: usize) -> Option<f64> {
        match self.values.formula(value) {
            Formula::Literal(x) => Some(x.abs()),
            _ => None,
        }
    }

    /// Whether two values are the same, as far as this many steps of their formulas show.
    fn same(&self, x: usize, y: usize, steps: u32) -> bool {
        let all =
            |a: &[usize], b: &[usize]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same(*a, *b, steps - 1));
        x == y
            || steps > 0
                && match (self.values.formula(x), self.values.formula(y)) {
                    (Formula::Literal(a), Formula::Literal(b)) => a.to_bits() == b.to_bits(),
                    (Formula::Apply(a, x), Formula::Apply(b, y)) => a == b && all(&x, &y),
                    _ => false,
                }
    }
}

/// The other one of the first two operands.
fn other(operands: &[usize], value: usize) -> usize {
    if operands[0] == value { operands[1] } else { operands[0] }
}
