//! Integer arithmetic on index expressions: a linear normal form, a simplifier, and a prover of bounds.
//!
//! Sizes (variables that are not counters) are assumed to be at least 0.

pub(crate) mod facts;
pub(crate) mod interval;
mod linear;
pub(crate) mod shape;

pub(crate) use linear::Linear;

use crate::te::dtype::DType;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

/// The largest expression that a proof looks into, in nodes of its tree. Nothing is known of larger ones.
const MOST_NODES: u64 = 4096;

/// By how much an index grows when a counter grows by 1; `None` if that is not a constant.
pub(crate) fn coefficient(index: &Expr, counter: Var) -> Option<i64> {
    if index.unfolded() > MOST_NODES {
        return (!index.uses(counter)).then_some(0);
    }
    match index.kind() {
        Kind::Var(var) if *var == counter => Some(1),
        Kind::Binary(Binary::Add, a, b) => coefficient(a, counter)?.checked_add(coefficient(b, counter)?),
        Kind::Binary(Binary::Sub, a, b) => coefficient(a, counter)?.checked_sub(coefficient(b, counter)?),
        Kind::Binary(Binary::Mul, a, b) => match (coefficient(a, counter)?, coefficient(b, counter)?) {
            (0, 0) => Some(0),
            (by, 0) => by.checked_mul(b.as_int()?),
            (0, by) => by.checked_mul(a.as_int()?),
            _ => None,
        },
        _ => (!index.uses(counter)).then_some(0),
    }
}

/// The ranges of the counters in scope, innermost last. `max` is inclusive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    ranges: Vec<(Var, Expr, Expr)>,
}

impl Context {
    /// Adds a counter that runs from 0 to before `extent`.
    pub(crate) fn push(&mut self, var: Var, extent: &Expr) {
        self.ranges.push((var, Expr::int(0), simplify(&(extent - 1))));
    }

    /// Removes the counter that was added last.
    pub(crate) fn pop(&mut self) {
        self.ranges.pop();
    }

    /// Whether a counter is in scope.
    pub(crate) fn knows(&self, counter: Var) -> bool {
        self.ranges.iter().any(|(known, ..)| *known == counter)
    }

    /// Whether `a < b` for all values of the counters and sizes.
    pub(crate) fn proves_less(&self, a: &Expr, b: &Expr) -> bool {
        self.is_less(&simplify(a), &simplify(b))
    }

    /// [`Context::proves_less`] of two expressions in normal form. Their parts are not simplified again: with nested
    /// minima this would double the time at each level.
    fn is_less(&self, a: &Expr, b: &Expr) -> bool {
        let bound = self.bound(difference(a, b), true);
        bound.constant < 0 && bound.terms.iter().all(|(atom, coefficient)| *coefficient <= 0 && is_natural(atom))
    }

    /// Whether `a >= 0` for all values of the counters and sizes.
    pub(crate) fn proves_natural(&self, a: &Expr) -> bool {
        self.proves_less(&Expr::int(-1), a)
    }

    fn is_natural(&self, a: &Expr) -> bool {
        self.is_less(&Expr::int(-1), a)
    }

    /// The least and the greatest value over the counters in scope. A counter in which the expression is not affine
    /// remains.
    pub(crate) fn extremes(&self, x: &Expr) -> (Expr, Expr) {
        let linear = Linear::of(&simplify(x));
        let extreme = |above| self.over_counters(linear.clone(), above).into_expr(x.dtype());
        (extreme(false), extreme(true))
    }

    fn over_counters(&self, mut linear: Linear, above: bool) -> Linear {
        for (var, min, max) in self.ranges.iter().rev() {
            let place = linear.terms.iter().position(|(atom, _)| atom.as_var() == Some(*var));
            if let Some(place) = place {
                let (_, coefficient) = linear.terms.remove(place);
                let extreme = if (coefficient > 0) == above { max } else { min };
                linear.add(&Linear::of(extreme), coefficient);
            }
        }
        linear
    }

    /// A linear bound, from above or below, without the counters whose ranges are known.
    fn bound(&self, linear: Linear, above: bool) -> Linear {
        let mut linear = self.over_counters(linear, above);
        // A common multiple makes every coefficient of a quotient divisible; a positive factor keeps the sign.
        let divisors = linear.terms.iter().filter_map(|(atom, _)| quotient(atom));
        let scale = divisors.into_iter().try_fold(1i64, |m, (_, by)| (m / gcd(m, by)).checked_mul(by));
        if let Some(scaled) = scale.filter(|scale| (2..1 << 20).contains(scale)).and_then(|scale| linear.times(scale)) {
            linear = scaled;
        }
        // c·floor(x / c) lies in [x - c + 1, x].
        while let Some(place) = linear.terms.iter().position(|(atom, k)| divides(atom, *k).is_some()) {
            let (atom, coefficient) = linear.terms.remove(place);
            let Some((numerator, by)) = divides(&atom, coefficient) else { break };
            linear.add(&Linear::of(&numerator), coefficient / by);
            if (coefficient > 0) != above {
                linear.constant = linear.constant.wrapping_sub(coefficient / by * (by - 1));
            }
        }
        linear
    }
}

/// `(x, c)` when `atom` is `floor(x / c)` and `c` divides the coefficient.
fn divides(atom: &Expr, coefficient: i64) -> Option<(Expr, i64)> {
    quotient(atom).filter(|(_, by)| coefficient % by == 0)
}

/// `(x, c)` when `atom` is `floor(x / c)`.
fn quotient(atom: &Expr) -> Option<(Expr, i64)> {
    match atom.kind() {
        Kind::Binary(Binary::FloorDiv, x, by) => Some((x.clone(), by.as_int().filter(|by| *by > 0)?)),
        _ => None,
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether an expression of sizes is never negative.
fn is_natural(x: &Expr) -> bool {
    if x.unfolded() > MOST_NODES {
        return false;
    }
    match x.kind() {
        Kind::Int(value) => *value >= 0,
        Kind::Var(var) => !var.is_counter(),
        Kind::Binary(Binary::Add | Binary::Mul | Binary::FloorDiv | Binary::Max | Binary::Min, a, b) => {
            is_natural(a) && is_natural(b)
        }
        Kind::Binary(Binary::FloorMod, _, by) => is_natural(by),
        _ => false,
    }
}

/// Gives the value its normal form. Floating-point arithmetic is left as it is.
#[must_use]
pub(crate) fn simplify(x: &Expr) -> Expr {
    simplify_in(x, &Context::default())
}

/// [`simplify`] with known ranges of counters.
#[must_use]
pub(crate) fn simplify_in(x: &Expr, context: &Context) -> Expr {
    x.rewrite(&mut |x| simplified(x, context))
}

/// The normal form of an operation whose operands are in normal form.
fn simplified(x: Expr, context: &Context) -> Expr {
    match x.kind() {
        // Narrow integers wrap, and u64 too, and then what holds of sums and products of whole numbers doesn't.
        Kind::Binary(op, a, b) if matches!(a.dtype(), DType::I32 | DType::I64) => integer(*op, a, b, context),
        Kind::Binary(op @ (Binary::And | Binary::Or), a, b) => match (a.as_int(), b.as_int()) {
            (Some(value), _) => {
                if (value != 0) == (*op == Binary::And) {
                    b.clone()
                } else {
                    a.clone()
                }
            }
            (_, Some(value)) => {
                if (value != 0) == (*op == Binary::And) {
                    a.clone()
                } else {
                    b.clone()
                }
            }
            _ => x,
        },
        Kind::Not(a) => a.as_int().map_or_else(|| x.clone(), |value| Expr::truth(value == 0)),
        Kind::Likely(a) if a.as_int().is_some() => a.clone(),
        Kind::Select(condition, a, b) => match condition.as_int() {
            Some(0) => b.clone(),
            Some(_) => a.clone(),
            None => x,
        },
        Kind::Cast(a) if a.as_int().is_some() && x.dtype().is_integer() => {
            Expr::wrapped(a.as_int().unwrap_or_default(), x.dtype())
        }
        _ => x,
    }
}

fn integer(op: Binary, a: &Expr, b: &Expr, context: &Context) -> Expr {
    let whole = || Expr::binary(op, a.clone(), b.clone());
    let dtype = a.dtype();
    match op {
        Binary::Add | Binary::Sub | Binary::Mul => Linear::of(&whole()).into_expr(dtype),
        Binary::FloorDiv => match b.as_int() {
            Some(1) => a.clone(),
            Some(by) if by > 0 => divide(a, by, context).0,
            Some(_) => whole(),
            None => divide_by_size(a, b, context).map_or_else(whole, |(quotient, _)| quotient),
        },
        Binary::FloorMod => match b.as_int() {
            Some(by) if by > 0 => divide(a, by, context).1,
            Some(_) => whole(),
            None => divide_by_size(a, b, context).map_or_else(whole, |(_, rest)| rest),
        },
        Binary::Min | Binary::Max => {
            let (low, high) = if op == Binary::Min { (a, b) } else { (b, a) };
            if a == b || context.is_less(low, &(high + 1)) {
                a.clone()
            } else if context.is_less(high, &(low + 1)) {
                b.clone()
            } else {
                whole()
            }
        }
        Binary::Lt => compare(context, a, b).map_or_else(whole, Expr::truth),
        Binary::Ge => compare(context, a, b).map_or_else(whole, |less| Expr::truth(!less)),
        Binary::Gt => compare(context, b, a).map_or_else(whole, Expr::truth),
        Binary::Le => compare(context, b, a).map_or_else(whole, |less| Expr::truth(!less)),
        Binary::Eq | Binary::Ne => {
            let difference = difference(a, b);
            if difference.terms.is_empty() {
                Expr::truth((difference.constant == 0) == (op == Binary::Eq))
            } else {
                whole()
            }
        }
        Binary::Div | Binary::And | Binary::Or => whole(),
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::Shl | Binary::Shr => whole(),
    }
}

/// The difference of two expressions in normal form.
fn difference(a: &Expr, b: &Expr) -> Linear {
    let mut difference = Linear::of(a);
    difference.add(&Linear::of(b), -1);
    difference
}

/// Whether `a < b`, if this or its opposite can be proved.
fn compare(context: &Context, a: &Expr, b: &Expr) -> Option<bool> {
    if context.is_less(a, b) { Some(true) } else { context.is_less(b, &(a + 1)).then_some(false) }
}

/// `floor(a / by)` and `a mod by`.
fn divide(a: &Expr, by: i64, context: &Context) -> (Expr, Expr) {
    let dtype = a.dtype();
    let linear = Linear::of(a);
    let (mut quotient, mut rest) = (Linear::default(), Linear::default());
    for (atom, coefficient) in &linear.terms {
        if coefficient % by == 0 {
            quotient.add_atom(atom, coefficient / by);
        } else {
            rest.add_atom(atom, *coefficient);
        }
    }
    quotient.constant = linear.constant.div_euclid(by);
    rest.constant = linear.constant.rem_euclid(by);
    let rest = rest.into_expr(dtype);
    let divisor = Expr::new(dtype, Kind::Int(by));
    if context.is_natural(&rest) && context.is_less(&rest, &divisor) {
        return (quotient.into_expr(dtype), rest);
    }
    quotient.add_atom(&Expr::binary(Binary::FloorDiv, rest.clone(), divisor.clone()), 1);
    (quotient.into_expr(dtype), Expr::binary(Binary::FloorMod, rest, divisor))
}

/// `floor(a / by)` and `a mod by`, if `a` is a multiple of `by` plus a rest below it. Loops of `fuse` have this form.
fn divide_by_size(a: &Expr, by: &Expr, context: &Context) -> Option<(Expr, Expr)> {
    let linear = Linear::of(a);
    let (mut quotient, mut rest) = (Linear::default(), Linear { constant: linear.constant, ..Linear::default() });
    for (atom, coefficient) in &linear.terms {
        match without_factor(atom, by) {
            Some(times) => quotient.add(&Linear::of(&times), *coefficient),
            None => rest.add_atom(atom, *coefficient),
        }
    }
    let rest = rest.into_expr(a.dtype());
    let is_rest = context.is_natural(&rest) && context.is_less(&rest, by);
    is_rest.then(|| (quotient.into_expr(a.dtype()), rest))
}

/// `x` if a product is `x · factor`.
fn without_factor(product: &Expr, factor: &Expr) -> Option<Expr> {
    if product == factor {
        return Some(Expr::new(product.dtype(), Kind::Int(1)));
    }
    let Kind::Binary(Binary::Mul, a, b) = product.kind() else { return None };
    without_factor(b, factor)
        .map(|rest| simplify(&(a * rest)))
        .or_else(|| Some(simplify(&(without_factor(a, factor)? * b))))
}

/// Whether two sizes are provably equal.
#[must_use]
pub(crate) fn equal(a: &Expr, b: &Expr) -> bool {
    simplify(&(a - b)).as_int() == Some(0)
}

/// `ceil(a / by)`.
#[must_use]
pub(crate) fn ceil_div(a: &Expr, by: &Expr) -> Expr {
    simplify(&(a + (by - 1)).floor_div(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::expr::var::var;
    use crate::te::text::expression;

    fn simplified(x: impl Into<Expr>) -> String {
        expression(&simplify(&x.into()))
    }

    #[test]
    fn linear_expressions_have_one_form() {
        let (n, m) = (var("n"), var("m"));
        assert_eq!(simplified(n + 1 - n), "1");
        assert_eq!(simplified(16 * n), "n * 16");
        assert_eq!(simplified((n + 3) * 2 - 6), "n * 2");
        assert_eq!(simplified((n - 2) * (m + 0)), "(n - 2) * m");
        assert_eq!(simplified((n + 31) / 32), "(n + 31) // 32");
        assert_eq!(simplified((n + 64) / 32), "n // 32 + 2");
        assert_eq!(simplified((n * 16 + 5) % 16), "5");
        assert_eq!(simplified((n - 1) / 32), "(n + 31) // 32 - 1");
    }

    #[test]
    fn quotients_of_sizes() {
        let [n, m] = ["n", "m"].map(|name| Expr::from(var(name)));
        let [i, j] = ["i", "j"].map(Var::counter);
        let mut context = Context::default();
        context.push(i, &n);
        context.push(j, &m);
        let of = |x: Expr| expression(&simplify_in(&x, &context));
        let fused = || (i + 1) * &m + j;
        assert_eq!((of(fused().floor_div(&m)), of(fused().floor_mod(&m))), ("i + 1".to_owned(), "j".to_owned()));
        let deeper = || (i * &n * &m) * 2 + j;
        assert_eq!((of(deeper().floor_div(&m)), of(deeper().floor_mod(&m))), ("i * n * 2".to_owned(), "j".to_owned()));
        assert_eq!(of((fused() + 1).floor_div(&m)), "((i + 1) * m + j + 1) // m");
        assert_eq!(of((i * &m - j).floor_mod(&m)), "(i * m - j) % m");
    }

    #[test]
    fn bounds_of_counters_are_used() {
        let (n, outer, inner) = (var("n"), Var::counter("outer"), Var::counter("inner"));
        let mut context = Context::default();
        context.push(outer, &ceil_div(&n.into(), &Expr::int(32)));
        context.push(inner, &Expr::int(32));
        let index = outer * 32 + inner;
        assert_eq!(expression(&simplify_in(&(index.clone() / 32), &context)), "outer");
        assert_eq!(expression(&simplify_in(&(index.clone() % 32), &context)), "inner");
        assert!(!context.proves_less(&index, &n.into()));
        assert!(context.proves_less(&index, &(n + 32)));
        assert!(context.proves_natural(&index));
    }
}
