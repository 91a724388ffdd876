//! Linear forms: sums of integer multiples of atoms. They are the normal form of addition and of multiplication by
//! numbers.

use std::collections::HashMap;

use crate::te::dtype::DType;
use crate::te::expr::expression::{Binary, Expr, Kind};

/// A sum of integer multiples of atoms, in order of first occurrence, plus a constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linear {
    pub(crate) terms: Vec<(Expr, i64)>,
    pub(crate) constant: i64,
}

/// Up to this many terms are searched one by one and summed one after the other. More terms are found by their hashes,
/// and summed in pairs so that they don't nest too deeply.
const FEW: usize = 64;

/// A sum of up to this many nodes, as a tree, is walked in the order in which it is written; a larger one as a graph.
const WRITTEN: u64 = 4096;

/// The role of an expression in a sum.
enum Part<'a> {
    Constant(i64),
    Sum([(&'a Expr, i64); 2]),
    Multiple(&'a Expr, i64),
    Atom,
}

fn part(x: &Expr) -> Part<'_> {
    match x.kind() {
        Kind::Int(value) => Part::Constant(*value),
        Kind::Binary(Binary::Add, a, b) => Part::Sum([(a, 1), (b, 1)]),
        Kind::Binary(Binary::Sub, a, b) => Part::Sum([(a, 1), (b, -1)]),
        Kind::Binary(Binary::Mul, a, b) => match (a.as_int(), b.as_int()) {
            (_, Some(by)) => Part::Multiple(a, by),
            (Some(by), _) => Part::Multiple(b, by),
            _ => Part::Atom,
        },
        _ => Part::Atom,
    }
}

/// A sum that is being built.
struct Sum<'a> {
    linear: &'a mut Linear,
    /// The places of the terms, once there are many.
    places: HashMap<Expr, usize>,
}

impl<'a> Sum<'a> {
    fn of(linear: &'a mut Linear) -> Self {
        Self { linear, places: HashMap::new() }
    }

    /// Adds to the constant. Sums of 64-bit integers wrap, as at run time.
    fn constant(&mut self, value: i64) {
        self.linear.constant = self.linear.constant.wrapping_add(value);
    }

    fn atom(&mut self, atom: &Expr, coefficient: i64) {
        let terms = &mut self.linear.terms;
        if coefficient == 0 {
            return;
        }
        let place = if terms.len() <= FEW {
            terms.iter().position(|(known, times)| *times != 0 && known == atom)
        } else {
            if self.places.is_empty() {
                let left = terms.iter().enumerate().filter(|(_, (_, times))| *times != 0);
                self.places = left.map(|(place, (atom, _))| (atom.clone(), place)).collect();
            }
            self.places.get(atom).copied()
        };
        let Some(place) = place else {
            if !self.places.is_empty() {
                self.places.insert(atom.clone(), terms.len());
            }
            return terms.push((atom.clone(), coefficient));
        };
        terms[place].1 = terms[place].1.wrapping_add(coefficient);
        if terms[place].1 == 0 {
            self.places.remove(atom);
        }
    }

    /// Adds a multiple of an expression, part by part.
    fn as_tree(&mut self, x: &Expr, scale: i64) {
        match part(x) {
            Part::Constant(value) => self.constant(scale.wrapping_mul(value)),
            Part::Sum(parts) => parts.into_iter().for_each(|(x, by)| self.as_tree(x, scale.wrapping_mul(by))),
            Part::Multiple(x, by) => self.as_tree(x, scale.wrapping_mul(by)),
            Part::Atom => self.atom(x, scale),
        }
    }

    /// Adds a large expression: a shared part is met once, with the sum of all its factors.
    fn as_graph(&mut self, x: &Expr, scale: i64) {
        let mut scales = HashMap::from([(x.id(), scale)]);
        for x in x.bottom_up().into_iter().rev() {
            let Some(scale) = scales.remove(&x.id()) else { continue };
            let mut add = |x: &Expr, by: i64| {
                let times = scales.entry(x.id()).or_default();
                *times = times.wrapping_add(scale.wrapping_mul(by));
            };
            match part(x) {
                Part::Constant(value) => self.constant(scale.wrapping_mul(value)),
                Part::Sum(parts) => parts.into_iter().for_each(|(x, by)| add(x, by)),
                Part::Multiple(x, by) => add(x, by),
                Part::Atom => self.atom(x, scale),
            }
        }
    }

    fn end(self) {
        self.linear.terms.retain(|(_, coefficient)| *coefficient != 0);
    }
}

impl Linear {
    /// The linear form of an expression whose parts are simplified already.
    pub(crate) fn of(x: &Expr) -> Self {
        let mut linear = Self::default();
        let mut sum = Sum::of(&mut linear);
        if x.unfolded() <= WRITTEN {
            sum.as_tree(x, 1);
        } else {
            sum.as_graph(x, 1);
        }
        sum.end();
        linear
    }

    /// The form times a number, unless that overflows 64 bits.
    pub(super) fn times(&self, by: i64) -> Option<Self> {
        let times = |(atom, coefficient): &(Expr, i64)| Some((atom.clone(), coefficient.checked_mul(by)?));
        let terms = self.terms.iter().map(times).collect::<Option<_>>()?;
        Some(Self { terms, constant: self.constant.checked_mul(by)? })
    }

    pub(super) fn add_atom(&mut self, atom: &Expr, coefficient: i64) {
        let mut sum = Sum::of(self);
        sum.atom(atom, coefficient);
        sum.end();
    }

    pub(super) fn add(&mut self, other: &Self, scale: i64) {
        let mut sum = Sum::of(self);
        other.terms.iter().for_each(|(atom, coefficient)| sum.atom(atom, coefficient.wrapping_mul(scale)));
        sum.constant(other.constant.wrapping_mul(scale));
        sum.end();
    }

    /// Back to an expression: positive terms in their order, then negative ones, then the constant.
    pub(crate) fn into_expr(self, dtype: DType) -> Expr {
        let int = |value: i64| Expr::new(dtype, Kind::Int(value));
        let term = |(atom, coefficient): (Expr, i64)| if coefficient == 1 { atom } else { atom * int(coefficient) };
        let (positive, negative): (Vec<_>, Vec<_>) = self.terms.into_iter().partition(|(_, k)| *k > 0);
        let negative: Vec<Expr> = negative.into_iter().map(|(atom, k)| term((atom, k.wrapping_neg()))).collect();
        let mut sum = total(&positive.into_iter().map(term).collect::<Vec<_>>());
        let negative = if negative.len() <= FEW { negative } else { total(&negative).into_iter().collect() };
        for part in negative {
            sum = Some(sum.unwrap_or_else(|| int(0)) - part);
        }
        match sum {
            None => int(self.constant),
            Some(sum) if self.constant > 0 => sum + int(self.constant),
            Some(sum) if self.constant < 0 && self.constant != i64::MIN => sum - int(-self.constant),
            Some(sum) if self.constant < 0 => sum + int(self.constant),
            Some(sum) => sum,
        }
    }
}

/// The sum of terms: one after the other, or in pairs if there are many.
fn total(terms: &[Expr]) -> Option<Expr> {
    if terms.len() <= FEW {
        return terms.iter().cloned().reduce(|a, b| a + b);
    }
    let (first, second) = terms.split_at(terms.len() / 2);
    total(first).zip(total(second)).map(|(a, b)| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::expr::var::{Var, var};

    #[test]
    fn a_shared_sum_is_met_once() {
        let n = Expr::from(var("n"));
        let doubled = (0..60).fold(n.clone() + 1, |x, _| &x + &x);
        let linear = Linear::of(&doubled);
        assert_eq!((linear.terms, linear.constant), (vec![(n, 1 << 60)], 1 << 60));
    }

    #[test]
    fn many_terms_are_found_and_nest_little() {
        let vars: Vec<Expr> = (0..3000).map(|_| Var::counter("i").into()).collect();
        let mut linear = Linear::default();
        vars.iter().for_each(|x| linear.terms.push((x.clone(), 1)));
        linear.add(&linear.clone(), 2);
        assert_eq!(linear.terms, vars.iter().map(|x| (x.clone(), 3)).collect::<Vec<_>>());
        let sum = linear.clone().into_expr(DType::I32);
        assert!(sum.error().is_none());
        assert_eq!(Linear::of(&sum).terms.len(), vars.len());
        linear.add(&linear.clone(), -1);
        assert!(linear.terms.is_empty());
    }
}
