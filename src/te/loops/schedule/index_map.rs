//! Maps between the indices of two layouts of a tensor: permutations, splits into quotient and remainder, and fusions.
//! Every index of the new layout is a number whose digits are parts of the old indices. The map is one to one when
//! every part of every index occurs as a digit exactly once.

use crate::te::arith::{equal, simplify};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

/// A part of an index, `(index // low) % extent`, used as a digit with the place value `weight`.
#[derive(Clone, Debug)]
struct Digit {
    source: usize,
    low: Expr,
    extent: Expr,
    weight: Expr,
}

/// A one-to-one map and its inverse.
#[derive(Clone, Debug)]
pub(crate) struct IndexMap {
    initial: Vec<Var>,
    indices: Vec<Expr>,
    /// Extents of the new layout.
    pub(crate) extents: Vec<Expr>,
    /// The digits of each new index, lowest weight first.
    digits: Vec<Vec<Digit>>,
}

impl IndexMap {
    /// The map from the old indices `initial`, which run over `shape`, to the new ones.
    ///
    /// # Errors
    /// The reason why the map is not one to one.
    pub(crate) fn new(initial: &[Var], shape: &[Expr], indices: Vec<Expr>) -> Result<Self, String> {
        let parser = Parser { initial, shape };
        let mut digits = Vec::with_capacity(indices.len());
        let mut extents = Vec::with_capacity(indices.len());
        for index in &indices {
            let text = crate::te::text::expression(index);
            let number = parser.digits(index).and_then(|parts| ordered(&parts)).ok_or_else(|| {
                format!("{text} is not made of whole parts of the indices: quotients and remainders by what divides an extent, \
                         and sums of them that count without gaps")
            })?;
            extents.push(number.iter().fold(Expr::int(1), |n, digit| simplify(&(n * &digit.extent))));
            digits.push(number);
        }
        let map = Self { initial: initial.to_vec(), indices, extents, digits };
        for (source, (var, extent)) in initial.iter().zip(shape).enumerate() {
            map.check_complete(source, *var, extent)?;
        }
        Ok(map)
    }

    /// Checks that every part of an index occurs exactly once.
    fn check_complete(&self, source: usize, var: Var, extent: &Expr) -> Result<(), String> {
        let mut parts: Vec<&Digit> = self.digits.iter().flatten().filter(|digit| digit.source == source).collect();
        let mut low = Expr::int(1);
        while let Some(place) = parts.iter().position(|digit| equal(&digit.low, &low)) {
            let digit = parts.remove(place);
            low = simplify(&(low * &digit.extent));
        }
        if !parts.is_empty() || !equal(&low, extent) {
            return Err(format!(
                "it is not one to one: the parts of {} don't tell each of its {} values once",
                var.name(),
                crate::te::text::expression(extent)
            ));
        }
        Ok(())
    }

    /// The new indices in terms of the old ones.
    pub(crate) fn indices(&self) -> &[Expr] {
        &self.indices
    }

    /// The new indices of an element.
    pub(crate) fn apply(&self, indices: &[Expr]) -> Vec<Expr> {
        let replace = |var: Var| {
            let place = self.initial.iter().position(|known| *known == var)?;
            indices.get(place).cloned()
        };
        self.indices.iter().map(|x| x.substitute(&replace)).collect()
    }

    /// The old indices of an element, given the new ones.
    pub(crate) fn invert(&self, indices: &[Expr]) -> Vec<Expr> {
        let mut old = vec![Expr::int(0); self.initial.len()];
        for (index, digits) in indices.iter().zip(&self.digits) {
            for (place, digit) in digits.iter().enumerate() {
                let above = if digit.weight.as_int() == Some(1) {
                    index.clone()
                } else {
                    index.clone().floor_div(&digit.weight)
                };
                let value = if place + 1 == digits.len() { above } else { above.floor_mod(&digit.extent) };
                old[digit.source] = simplify(&(&old[digit.source] + value * &digit.low));
            }
        }
        old
    }
}

/// The largest index that is analysed, in nodes of its tree.
const MOST_NODES: u64 = 4096;

struct Parser<'a> {
    initial: &'a [Var],
    shape: &'a [Expr],
}

impl Parser<'_> {
    fn is_constant(&self, x: &Expr) -> bool {
        self.initial.iter().all(|var| !x.uses(*var))
    }

    /// The digits of an expression, in any order; `None` if it is not made of digits.
    fn digits(&self, x: &Expr) -> Option<Vec<Digit>> {
        // A map without gaps has every digit once, and is not much larger than the number of its digits.
        if x.unfolded() > MOST_NODES {
            return None;
        }
        match x.kind() {
            Kind::Int(0) => Some(Vec::new()),
            Kind::Var(var) => {
                let source = self.initial.iter().position(|known| known == var)?;
                let extent = simplify(&self.shape[source]);
                let one = Expr::int(1);
                let once = extent.as_int() == Some(1);
                Some(if once { Vec::new() } else { vec![Digit { source, low: one.clone(), extent, weight: one }] })
            }
            Kind::Binary(Binary::Add, a, b) => {
                let mut all = self.digits(a)?;
                all.extend(self.digits(b)?);
                Some(all)
            }
            Kind::Binary(Binary::Mul, a, b) => {
                let (inner, by) = if self.is_constant(b) { (a, b) } else { (b, a) };
                if !self.is_constant(by) {
                    return None;
                }
                let weighted = |digit: Digit| Digit { weight: simplify(&(digit.weight * by)), ..digit };
                Some(self.digits(inner)?.into_iter().map(weighted).collect())
            }
            Kind::Binary(op @ (Binary::FloorDiv | Binary::FloorMod), a, by) if self.is_constant(by) => {
                let (below, above) = cut(&ordered(&self.digits(a)?)?, &simplify(by))?;
                Some(if *op == Binary::FloorDiv { above } else { below })
            }
            _ => None,
        }
    }
}

/// Digits in order of weight. Each must weigh as much as there are values below it; otherwise `None`.
fn ordered(digits: &[Digit]) -> Option<Vec<Digit>> {
    let mut left = digits.to_vec();
    let mut sorted = Vec::with_capacity(left.len());
    let mut weight = Expr::int(1);
    while !left.is_empty() {
        let place = left.iter().position(|digit| equal(&digit.weight, &weight))?;
        let digit = left.remove(place);
        weight = simplify(&(weight * &digit.extent));
        sorted.push(digit);
    }
    Some(sorted)
}

/// Cuts the digits at a weight, into those below and those above, whose weights start again at 1. The digit at the cut
/// must have an extent that the weight divides.
fn cut(digits: &[Digit], at: &Expr) -> Option<(Vec<Digit>, Vec<Digit>)> {
    let (mut below, mut above): (Vec<Digit>, Vec<Digit>) = (Vec::new(), Vec::new());
    if at.as_int().is_some_and(|at| at < 1) {
        return None;
    }
    let mut reached = Expr::int(1);
    let mut is_above = equal(&reached, at);
    let mut weight = Expr::int(1);
    for digit in digits {
        let next = simplify(&(&reached * &digit.extent));
        if is_above {
            above.push(Digit { weight: weight.clone(), ..digit.clone() });
            weight = simplify(&(weight * &digit.extent));
        } else if equal(&next, at) {
            below.push(digit.clone());
            is_above = true;
        } else {
            let (part, whole) = (at.as_int()?, reached.as_int()?);
            let goes_on = next.as_int().is_some_and(|next| next > 0 && part >= next && part % next == 0);
            if goes_on {
                below.push(digit.clone());
            } else {
                // A digit without values gives digits above it the weight 0.
                if whole < 1 || part % whole != 0 {
                    return None;
                }
                let factor = Expr::int(part / whole);
                if simplify(&digit.extent.clone().floor_mod(&factor)).as_int() != Some(0) {
                    return None;
                }
                let rest = simplify(&digit.extent.clone().floor_div(&factor));
                let low = simplify(&(&digit.low * &factor));
                below.push(Digit { extent: factor, ..digit.clone() });
                above.push(Digit { low, extent: rest.clone(), weight: Expr::int(1), source: digit.source });
                weight = rest;
                is_above = true;
            }
        }
        reached = next;
    }
    // An index divided by more than its extent gives 0, and itself as the remainder.
    let far = !is_above && at.as_int().zip(reached.as_int()).is_some_and(|(at, reached)| at >= reached);
    (is_above || far).then_some((below, above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::bind::binding::evaluate;
    use crate::te::expr::var::var;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn map(shape: &[i64], f: impl Fn(&[Var]) -> Vec<Expr>) -> Result<IndexMap, String> {
        let initial: Vec<Var> = shape.iter().map(|_| Var::counter("i")).collect();
        let extents: Vec<Expr> = shape.iter().map(|n| Expr::int(*n)).collect();
        IndexMap::new(&initial, &extents, f(&initial))
    }

    #[test]
    fn maps_that_are_not_one_to_one_are_refused() {
        assert!(map(&[4, 6], |i| vec![i[0] + 0]).is_err());
        assert!(map(&[4, 6], |i| vec![i[0] + i[1]]).is_err());
        assert!(map(&[4, 6], |i| vec![i[0] * 7 + i[1]]).is_err());
        assert!(map(&[4, 6], |i| vec![i[0] + 0, i[1] / 4, i[1] % 4]).is_err());
        assert!(map(&[4], |i| vec![i[0] / 2]).is_err());
        assert!(map(&[4], |i| vec![i[0] / 2, i[0] % 2, i[0] + 0]).is_err());
        assert!(map(&[4], |i| vec![3 - i[0]]).is_err());
    }

    #[test]
    fn sizes_are_extents() {
        let (n, m) = (var("n"), var("m"));
        let initial = [Var::counter("i"), Var::counter("j")];
        let [i, j] = initial;
        let shape = [n * 4, m.into()];
        let map = IndexMap::new(&initial, &shape, vec![i / 4, j.into(), i % 4]).unwrap();
        assert_eq!(map.extents, [Expr::from(n), m.into(), Expr::int(4)]);
        let fused = IndexMap::new(&initial, &[n.into(), m.into()], vec![i * m + j]).unwrap();
        assert_eq!(fused.extents.len(), 1);
        assert!(IndexMap::new(&initial, &[n.into(), m.into()], vec![i / 4, j.into(), i % 4]).is_err());
    }

    proptest! {
        /// Any splits, any order, fused anyhow: each old index comes back, and all new indices are reached.
        #[test]
        fn inverses(
            factors in prop::collection::vec(prop::collection::vec(1i64..4, 1..4), 1..4),
            order in any::<[u8; 9]>(), groups in any::<[bool; 9]>(),
        ) {
            let shape: Vec<i64> = factors.iter().map(|f| f.iter().product()).collect();
            let initial: Vec<Var> = shape.iter().map(|_| Var::counter("i")).collect();
            // The parts of each index, then in any order, then put together in groups.
            let mut parts: Vec<(Expr, i64, u8)> = Vec::new();
            for (var, factors) in initial.iter().zip(&factors) {
                let mut low = 1;
                for factor in factors {
                    let part = Expr::from(*var).floor_div(low).floor_mod(*factor);
                    parts.push((part, *factor, order[parts.len()]));
                    low *= factor;
                }
            }
            parts.sort_by_key(|(.., key)| *key);
            let mut indices: Vec<(Expr, i64)> = Vec::new();
            for (place, (part, extent, _)) in parts.into_iter().enumerate() {
                match indices.last_mut() {
                    Some((index, known)) if groups[place] => {
                        *index = index.clone() * extent + part;
                        *known *= extent;
                    }
                    _ => indices.push((part, extent)),
                }
            }
            let extents: Vec<Expr> = shape.iter().map(|n| Expr::int(*n)).collect();
            let map = IndexMap::new(&initial, &extents, indices.iter().map(|(x, _)| x.clone()).collect()).unwrap();
            let made: Vec<Option<i64>> = map.extents.iter().map(Expr::as_int).collect();
            prop_assert_eq!(made, indices.iter().map(|(_, n)| Some(*n)).collect::<Vec<_>>());
            let total: i64 = shape.iter().product();
            for element in 0..total {
                let mut rest = element;
                let values: Vec<i64> = shape.iter().rev().map(|n| { let v = rest % n; rest /= n; v }).collect();
                let values: HashMap<Var, i64> = initial.iter().rev().copied().zip(values).collect();
                let new: Vec<Expr> = indices
                    .iter()
                    .map(|(x, _)| Expr::int(evaluate(x, &values).unwrap()))
                    .collect();
                for (old, var) in map.invert(&new).iter().zip(&initial) {
                    prop_assert_eq!(evaluate(old, &values).unwrap(), values[var]);
                }
            }
        }
    }
}
