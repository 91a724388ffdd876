//! Proves whether a recurrence can be cut in time: whether its update is a linear map of the state.
//!
//! Over (+, ·), (max, +) or (min, +), the composition of two maps `s ↦ A·s + b` is a map of this form again. So steps
//! can be composed before the state is known. This covers sums, products, maxima, linear recurrences of first and
//! higher
//! order, gates and resets (selects on anything but the state), and matrices. The proof is over the real numbers:
//! composition rounds differently from stepping. Integer sums and products wrap in the same way in both. Integer (max,
//! +) would overflow, so only plain maxima and minima are accepted there.

use super::linear_map::{LinearMap, MapEntry, MapRow, Semiring};
use crate::expr::Op;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

/// The most components of a state whose steps are composed. A map has the square of this number of entries, in
/// registers.
const MOST_COMPONENTS: usize = 4;

/// The largest update that is analysed, in nodes of its tree.
const MOST_NODES: u64 = 4096;

/// The map that an update computes, if this can be proved. `components` are those of the state, `updates` their new
/// values.
pub(in crate::te::auto) fn prove(components: &[Var], updates: &[Expr]) -> Option<LinearMap> {
    let dtype = updates.first()?.dtype();
    if components.len() > MOST_COMPONENTS
        || updates.iter().any(|x| x.unfolded() > MOST_NODES)
        || updates.iter().any(|x| x.dtype() != dtype)
        || components.len() != updates.len()
    {
        return None;
    }
    [Semiring::SumProduct, Semiring::MaxPlus, Semiring::MinPlus].into_iter().find_map(|ring| {
        let prover = Prover { ring, components };
        let rows = updates.iter().map(|x| prover.row(x)).collect::<Option<Vec<_>>>()?;
        let map = LinearMap { ring, dtype, rows };
        (dtype.is_float() || ring == Semiring::SumProduct || !map.scales()).then_some(map)
    })
}

struct Prover<'a> {
    ring: Semiring,
    components: &'a [Var],
}

impl Prover<'_> {
    fn is_free(&self, x: &Expr) -> bool {
        !self.components.iter().any(|var| x.uses(*var))
    }

    /// An expression that doesn't use the state, as an entry.
    fn entry(&self, x: &Expr) -> MapEntry {
        let number = match x.kind() {
            Kind::Int(value) => Some(*value as f64),
            Kind::Float(value) => Some(*value),
            _ => None,
        };
        match (number, self.ring) {
            // −0 does not count as zero, because −0 + 0 is 0.
            (Some(value), Semiring::SumProduct) if value == 0.0 && value.is_sign_positive() => MapEntry::Zero,
            (Some(1.0), Semiring::SumProduct) => MapEntry::One,
            _ => MapEntry::Value(x.clone()),
        }
    }

    fn constant(&self, constant: MapEntry) -> MapRow {
        MapRow { coefficients: vec![MapEntry::Zero; self.components.len()], constant }
    }

    /// `x` as a linear function of the components.
    fn row(&self, x: &Expr) -> Option<MapRow> {
        if self.is_free(x) {
            return Some(self.constant(self.entry(x)));
        }
        if let Some(place) = x.as_var().and_then(|var| self.components.iter().position(|c| *c == var)) {
            let mut row = self.constant(MapEntry::Zero);
            row.coefficients[place] = MapEntry::One;
            return Some(row);
        }
        if let Kind::Select(condition, a, b) = x.kind() {
            return self.select(condition, a, b);
        }
        if self.ring == Semiring::SumProduct { self.sum_product(x) } else { self.extreme_plus(x) }
    }

    fn sum_product(&self, x: &Expr) -> Option<MapRow> {
        match x.kind() {
            Kind::Binary(Binary::Add, a, b) => Some(self.add(self.row(a)?, self.row(b)?)),
            Kind::Binary(Binary::Sub, a, b) => Some(self.add(self.row(a)?, self.negated(self.row(b)?))),
            Kind::Binary(Binary::Mul, a, b) => self.product(a, b),
            Kind::Binary(Binary::Div, a, b) if self.is_free(b) => {
                let divided = |entry: MapEntry| match entry {
                    MapEntry::Zero => MapEntry::Zero,
                    MapEntry::Gated(x, gate) => self.ring.only_where(x / b, Some(gate)),
                    entry => MapEntry::Value(self.ring.value(entry, b.dtype()) / b),
                };
                Some(self.row(a)?.map(divided))
            }
            Kind::Apply(Op::Neg, operands) => Some(self.negated(self.row(operands.first()?)?)),
            Kind::Apply(Op::Add, operands) => Some(self.add(self.row(&operands[0])?, self.row(&operands[1])?)),
            Kind::Apply(Op::Sub, operands) => {
                Some(self.add(self.row(&operands[0])?, self.negated(self.row(&operands[1])?)))
            }
            Kind::Apply(Op::Mul, operands) => self.product(&operands[0], &operands[1]),
            Kind::Apply(Op::Fma, operands) => {
                Some(self.add(self.product(&operands[0], &operands[1])?, self.row(&operands[2])?))
            }
            _ => None,
        }
    }

    fn extreme_plus(&self, x: &Expr) -> Option<MapRow> {
        let extreme = if self.ring == Semiring::MaxPlus { Binary::Max } else { Binary::Min };
        match x.kind() {
            Kind::Binary(op, a, b) if *op == extreme => Some(self.add(self.row(a)?, self.row(b)?)),
            Kind::Binary(Binary::Add, a, b) => self.product(a, b),
            Kind::Binary(Binary::Sub, a, b) if self.is_free(b) => {
                let negative = if b.dtype().is_float() { -b.clone() } else { Expr::constant(0.0, b.dtype()) - b };
                self.product(a, &negative)
            }
            _ => None,
        }
    }

    fn add(&self, a: MapRow, b: MapRow) -> MapRow {
        let pairs = a.coefficients.into_iter().zip(b.coefficients);
        MapRow {
            coefficients: pairs.map(|(a, b)| self.ring.add(a, b)).collect(),
            constant: self.ring.add(a.constant, b.constant),
        }
    }

    fn negated(&self, row: MapRow) -> MapRow {
        row.map(|entry| match entry {
            MapEntry::Zero => MapEntry::Zero,
            MapEntry::Value(x) if x.dtype().is_float() => MapEntry::Value(-x),
            MapEntry::Value(x) => MapEntry::Value(Expr::constant(0.0, x.dtype()) - x),
            MapEntry::Gated(x, gate) => MapEntry::Gated(-x, gate),
            // Its type becomes known where it meets a value.
            MapEntry::One => {
                let dtype = self.components[0].dtype();
                MapEntry::Value(if dtype.is_float() { Expr::constant(-1.0, dtype) } else { Expr::wrapped(-1, dtype) })
            }
        })
    }

    /// The semiring's product of two expressions; at most one of them may use the state.
    fn product(&self, a: &Expr, b: &Expr) -> Option<MapRow> {
        let (factor, row) = if self.is_free(a) {
            (self.entry(a), self.row(b)?)
        } else if self.is_free(b) {
            (self.entry(b), self.row(a)?)
        } else {
            return None;
        };
        Some(row.map(|entry| self.ring.multiply(factor.clone(), entry)))
    }

    fn select(&self, condition: &Expr, a: &Expr, b: &Expr) -> Option<MapRow> {
        if !self.is_free(condition) {
            return None;
        }
        let (dtype, a, b) = (a.dtype(), self.row(a)?, self.row(b)?);
        let choose = |a: MapEntry, b: MapEntry| self.ring.select(condition, a, b, dtype);
        let pairs = a.coefficients.into_iter().zip(b.coefficients);
        Some(MapRow {
            coefficients: pairs.map(|(a, b)| choose(a, b)).collect(),
            constant: choose(a.constant, b.constant),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::linear_map::EntryShape;
    use super::*;
    use crate::ElementType;
    use crate::te::dtype::DType;

    fn value(name: &str) -> Expr {
        Var::local(name, DType::F32).into()
    }

    fn state(name: &str) -> Var {
        Var::local(name, DType::F32)
    }

    /// The semiring, and the shapes of compositions, if the update is proved linear.
    fn proven(components: &[Var], updates: &[Expr]) -> Option<(Semiring, Vec<Vec<EntryShape>>)> {
        let map = prove(components, updates)?;
        Some((map.ring, map.shapes()))
    }

    #[test]
    fn plain_associative_operations_keep_one_value() {
        let (s, x) = (state("s"), value("x"));
        let sum = proven(&[s], &[Expr::from(s) + &x]);
        assert_eq!(sum, Some((Semiring::SumProduct, vec![vec![EntryShape::One, EntryShape::Any]])));
        let product = proven(&[s], &[&x * Expr::from(s)]);
        assert_eq!(product, Some((Semiring::SumProduct, vec![vec![EntryShape::Any, EntryShape::Zero]])));
        let largest = proven(&[s], &[Expr::from(s).max(&x)]);
        assert_eq!(largest, Some((Semiring::MaxPlus, vec![vec![EntryShape::One, EntryShape::Any]])));
        let least = proven(&[s], &[x.min(s)]);
        assert_eq!(least, Some((Semiring::MinPlus, vec![vec![EntryShape::One, EntryShape::Any]])));
    }

    #[test]
    fn recurrences_gates_and_resets_are_linear() {
        let (s, a, x) = (state("s"), value("a"), value("x"));
        let both = Some((Semiring::SumProduct, vec![vec![EntryShape::Any, EntryShape::Any]]));
        assert_eq!(proven(&[s], &[&a * s + &x]), both);
        assert_eq!(proven(&[s], &[&a * s + (1.0 - a.clone()) * &x]), both);
        assert_eq!(proven(&[s], &[a.clone() * (Expr::from(s) - &x) / 3.0 + &x]), both);
        // The state before a reset is forgotten, not multiplied by 0.
        let reset = Some((Semiring::SumProduct, vec![vec![EntryShape::Gated, EntryShape::Any]]));
        assert_eq!(proven(&[s], &[a.clone().greater(0.0).select(&x, Expr::from(s) + &x)]), reset);
        let product = Some((Semiring::SumProduct, vec![vec![EntryShape::Gated, EntryShape::Gated]]));
        assert_eq!(proven(&[s], &[a.clone().greater(0.0).select(&x, &x * s)]), product);
        assert_eq!(proven(&[s], &[Expr::apply(Op::Fma, vec![a.clone(), s.into(), x.clone()])]), both);
        // A maximum with decay is linear over (max, +).
        let decayed = proven(&[s], &[(Expr::from(s) - &a).max(&x)]);
        assert_eq!(decayed, Some((Semiring::MaxPlus, vec![vec![EntryShape::Any, EntryShape::Any]])));
    }

    #[test]
    fn orders_and_matrices_keep_what_can_change() {
        // y[t] = a·y[t-1] + b·y[t-2] + x: the second component is the first of the step before.
        let (s, r, x) = (state("s"), state("r"), value("x"));
        let order2 = proven(&[s, r], &[0.5 * Expr::from(s) + 0.25 * Expr::from(r) + &x, s.into()]);
        assert_eq!(order2, Some((Semiring::SumProduct, vec![vec![EntryShape::Any; 3], vec![EntryShape::Any; 3]])));
        // The even steps don't depend on the odd ones.
        let comb = proven(&[s, r], &[0.5 * Expr::from(r) + &x, s.into()]);
        let row = || vec![EntryShape::Gated, EntryShape::Gated, EntryShape::Any];
        assert_eq!(comb, Some((Semiring::SumProduct, vec![row(), row()])));
        // A sum, and the sum of sums. The first doesn't depend on the second.
        let (_, shapes) = proven(&[s, r], &[Expr::from(s) + &x, Expr::from(r) + s]).expect("linear");
        assert_eq!(shapes[0], [EntryShape::One, EntryShape::Zero, EntryShape::Any]);
        assert_eq!(shapes[1], [EntryShape::Any, EntryShape::One, EntryShape::Any]);
    }

    #[test]
    fn what_is_not_linear_is_not_proven() {
        let (s, x) = (state("s"), value("x"));
        let y = || Expr::from(s);
        for update in [
            y() * s,
            y() * &x + y() * y(),
            Expr::apply(Op::Tanh, vec![y() + &x]),
            &x / y(),
            y().greater(0.0).select(y() + &x, y()),
            y().max(&x).min(1.0),
            y().max(0.0) + y(),
            (y() + &x).cast(ElementType::F16).cast(DType::F32),
        ] {
            assert!(prove(&[s], std::slice::from_ref(&update)).is_none(), "{update:?}");
        }
        // Integers: sums wrap in the same way, but a maximum of sums would overflow differently when composed.
        let (i, n) = (Var::local("i", DType::I32), Expr::from(Var::local("n", DType::I32)));
        assert!(prove(&[i], &[Expr::from(i) * 3 + &n]).is_some());
        assert!(prove(&[i], &[Expr::from(i).max(&n)]).is_some());
        assert!(prove(&[i], &[(Expr::from(i) - 1).max(&n)]).is_none());
    }
}
