//! Facts about integers: the ranges of counters, and the conditions that hold at a place in a program.
//!
//! Values are sums of multiples of atoms. A fact is a sum that is at least 0. A bound of a sum cancels its atoms by facts,
//! and takes the ranges of the others.
//!
//! [`Facts::of_run`] knows the sizes of one run. An integer counts as unknown there if it might wrap. [`Facts::for_all_sizes`]
//! knows that sizes are at least 0. Index arithmetic doesn't wrap there, as [`simplify`](super::simplify) assumes, too.

use std::collections::{HashMap, HashSet};

use crate::te::dtype::DType;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

/// A number beyond any index. A bound that reaches it counts as unknown.
pub(crate) const FAR: i128 = 1 << 100;

/// The largest index that a proof looks into, in nodes of its tree. Nothing is known of larger ones.
const MOST_NODES: u64 = 4096;

/// The largest product of divisors that a proof multiplies by.
const MOST_SCALE: i128 = 1 << 20;

/// How many operands of nested minima or maxima are looked at by themselves.
const MOST_OPERANDS: usize = 3;

/// The number of facts from which on minima are not looked into.
const FEW_FACTS: usize = 32;

/// How many facts a proof may use at a time.
const MOST_FACTS: usize = 256;

/// A sum of multiples of atoms, plus a constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    terms: Vec<(Atom, i128)>,
    constant: i128,
    /// Whether a coefficient overflowed.
    lost: bool,
}

/// A term's variable part, with the range of its values.
#[derive(Clone, Debug)]
struct Atom {
    x: Expr,
    low: i128,
    high: i128,
}

impl Sum {
    pub(crate) fn constant(constant: i128) -> Self {
        Self { constant, ..Self::default() }
    }

    fn atom(x: &Expr, low: i128, high: i128) -> Self {
        if low == high {
            return Self::constant(low);
        }
        Self { terms: vec![(Atom { x: x.clone(), low, high }, 1)], ..Self::default() }
    }

    pub(crate) fn plus(self, other: &Self, scale: i128) -> Self {
        let (terms, constant, lost) = (self.terms.clone(), self.constant, self.lost || other.lost);
        self.checked_plus(other, scale).map_or(Self { terms, constant, lost: true }, |sum| Self { lost, ..sum })
    }

    fn checked_plus(mut self, other: &Self, scale: i128) -> Option<Self> {
        for (atom, coefficient) in &other.terms {
            let added = coefficient.checked_mul(scale)?;
            match self.terms.iter_mut().find(|(known, _)| known.x == atom.x) {
                Some((_, known)) => *known = known.checked_add(added)?,
                None => self.terms.push((atom.clone(), added)),
            }
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self.constant = self.constant.checked_add(other.constant.checked_mul(scale)?)?;
        Some(self)
    }

    pub(crate) fn negated(&self) -> Self {
        Self::default().plus(self, -1)
    }

    /// The greatest value that the ranges of the atoms allow; `FAR` if there is none.
    fn reach(&self) -> i128 {
        let mut sum = Some(self.constant).filter(|_| !self.lost);
        for (atom, coefficient) in &self.terms {
            let most = if *coefficient > 0 { atom.high } else { atom.low };
            let term = coefficient.checked_mul(most).filter(|_| most.abs() < FAR);
            sum = sum.zip(term).and_then(|(sum, term)| sum.checked_add(term));
        }
        sum.filter(|sum| sum.abs() < FAR).unwrap_or(FAR)
    }
}

/// The facts at a place in a program.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// The sizes of the run; `None` for all sizes.
    sizes: Option<&'a HashMap<Var, i64>>,
    ranges: HashMap<Var, (i128, i128)>,
    /// Sums that are known to be at least 0 here.
    facts: Vec<Sum>,
}

impl<'a> Facts<'a> {
    /// Facts for the sizes of a run.
    pub(crate) fn of_run(sizes: &'a HashMap<Var, i64>) -> Self {
        Self { sizes: Some(sizes), ranges: HashMap::new(), facts: Vec::new() }
    }

    /// Facts that hold for all sizes.
    pub(crate) fn for_all_sizes() -> Self {
        Self { sizes: None, ranges: HashMap::new(), facts: Vec::new() }
    }

    /// The number of facts, to [forget](Self::forget) later ones.
    pub(crate) fn mark(&self) -> usize {
        self.facts.len()
    }

    /// Forgets the facts after a mark. Ranges of counters stay, because each counter has one loop at a time.
    pub(crate) fn forget(&mut self, mark: usize) {
        self.facts.truncate(mark);
    }

    /// Adds a counter from 0 to before `extent`. Gives its last value; less than 0 if there is none.
    pub(crate) fn count(&mut self, var: Var, extent: &Expr) -> i128 {
        let end = self.unwrapped(extent).unwrap_or_else(|| Sum::atom(extent, -FAR, FAR));
        let last = self.upper(&end) - 1;
        self.ranges.insert(var, (0, last.max(0)));
        // A number below a minimum is below each of its operands; many nested loops have too many of them.
        let ends = if self.facts.len() < FEW_FACTS { terms(extent, Binary::Min) } else { vec![extent] };
        for end in ends {
            let end = self.unwrapped(end).unwrap_or_else(|| Sum::atom(end, -FAR, FAR));
            self.facts.push(end.plus(&self.sum(&Expr::from(var)), -1).plus(&Sum::constant(1), -1));
        }
        last
    }

    /// Adds the value of a variable.
    pub(crate) fn name(&mut self, var: Var, value: &Expr) {
        let name = Expr::from(var);
        if var.dtype().is_integer() && value.dtype() == var.dtype() {
            self.learn_test(&name.equal(value), true);
        }
    }

    /// Adds that a condition holds, or doesn't. Gives whether that is a contradiction.
    pub(crate) fn learn(&mut self, condition: &Expr, holds: bool) -> bool {
        let mark = self.mark();
        self.learn_all(condition, holds);
        self.facts[mark..].iter().any(|fact| fact.reach() < 0)
    }

    /// Whether a condition is known to hold.
    pub(crate) fn proves(&self, condition: &Expr) -> bool {
        let less = |a: &Expr, b: &Expr, by: i128| {
            let (Some(a), Some(b)) = (self.unwrapped(a), self.unwrapped(b)) else { return false };
            let difference = a.plus(&b, -1).plus(&Sum::constant(by), 1);
            self.upper(&difference) <= 0
                || self.without_quotients(&difference).is_some_and(|difference| self.upper(&difference) <= 0)
        };
        match condition.kind() {
            Kind::Int(value) => *value != 0,
            Kind::Likely(inner) => self.proves(inner),
            Kind::Binary(Binary::And, a, b) => self.proves(a) && self.proves(b),
            Kind::Binary(op, a, b) if a.dtype().is_integer() => match op {
                Binary::Lt => less(a, b, 1),
                Binary::Le => less(a, b, 0),
                Binary::Gt => less(b, a, 1),
                Binary::Ge => less(b, a, 0),
                _ => false,
            },
            _ => false,
        }
    }

    /// A sum in terms of what quotients divide: if it is at most 0, this one is. `c·floor(x / c)` lies in
    /// `x - c + 1 ..= x`. `None` without quotients.
    fn without_quotients(&self, sum: &Sum) -> Option<Sum> {
        let quotient = |atom: &Atom| match atom.x.kind() {
            Kind::Binary(Binary::FloorDiv, x, by) => Some((self.unwrapped(x)?, self.divisor(by)?)),
            _ => None,
        };
        let quotients: Vec<(Atom, i128, Sum, i128)> = sum
            .terms
            .iter()
            .filter_map(|(atom, coefficient)| {
                let (numerator, by) = quotient(atom)?;
                Some((atom.clone(), *coefficient, numerator, by))
            })
            .collect();
        let scale =
            quotients.iter().try_fold(1i128, |scale, (.., by)| scale.checked_mul(*by).filter(|x| *x < MOST_SCALE));
        let scale = scale.filter(|_| !quotients.is_empty())?;
        // A whole number x is at most 0 if scale·(x - 1) + 1 is.
        let before = Sum::default().plus(sum, scale).plus(&Sum::constant(1 - scale), 1);
        Some(quotients.into_iter().fold(before, |whole, (atom, coefficient, numerator, by)| {
            let times = coefficient * (scale / by);
            let least = if times < 0 { 1 - by } else { 0 };
            let whole = whole.plus(&Sum { terms: vec![(atom, 1)], ..Sum::default() }, -coefficient * scale);
            whole.plus(&numerator, times).plus(&Sum::constant(least), times)
        }))
    }

    fn learn_all(&mut self, condition: &Expr, holds: bool) {
        let (mut pending, mut seen) = (vec![(condition, holds)], HashSet::new());
        while let Some((x, holds)) = pending.pop() {
            if self.facts.len() >= MOST_FACTS || x.is_met_again() && !seen.insert((x.id(), holds)) {
                continue;
            }
            match x.kind() {
                Kind::Likely(inner) => pending.push((inner, holds)),
                Kind::Not(inner) => pending.push((inner, !holds)),
                Kind::Binary(Binary::And, a, b) if holds => pending.extend([(b, true), (a, true)]),
                Kind::Binary(Binary::Or, a, b) if !holds => pending.extend([(b, false), (a, false)]),
                _ => self.learn_test(x, holds),
            }
        }
    }

    fn learn_test(&mut self, condition: &Expr, holds: bool) {
        match condition.kind() {
            Kind::Binary(op, a, b) if a.dtype().is_integer() => match (op, holds) {
                (Binary::Lt, true) | (Binary::Ge, false) => self.learn_less(a, b, 1),
                (Binary::Le, true) | (Binary::Gt, false) => self.learn_less(a, b, 0),
                (Binary::Gt, true) | (Binary::Le, false) => self.learn_less(b, a, 1),
                (Binary::Ge, true) | (Binary::Lt, false) => self.learn_less(b, a, 0),
                (Binary::Eq, true) | (Binary::Ne, false) => {
                    self.learn_less(a, b, 0);
                    self.learn_less(b, a, 0);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// The least number that an extent may be; 0 if nothing is known.
    pub(crate) fn least(&self, extent: &Expr) -> i128 {
        self.unwrapped(extent).map_or(0, |extent| -self.upper(&extent.negated()))
    }

    /// Adds that `a + by <= b`. A number below a minimum is below each of its operands.
    fn learn_less(&mut self, a: &Expr, b: &Expr, by: i128) {
        let few = self.facts.len() < FEW_FACTS;
        for a in if few { terms(a, Binary::Max) } else { vec![a] } {
            for b in if few { terms(b, Binary::Min) } else { vec![b] } {
                if let (Some(a), Some(b)) = (self.unwrapped(a), self.unwrapped(b))
                    && self.facts.len() < MOST_FACTS
                {
                    self.facts.push(b.plus(&a, -1).plus(&Sum::constant(by), -1));
                }
            }
        }
    }

    /// The greatest value of a sum, under the known facts.
    pub(crate) fn upper(&self, sum: &Sum) -> i128 {
        self.upper_within(sum, 2)
    }

    fn upper_within(&self, sum: &Sum, depth: usize) -> i128 {
        let mut best = sum.reach();
        if depth == 0 {
            return best;
        }
        for fact in &self.facts {
            // Adding a positive multiple of something that is at least 0 can only raise the sum; this is used to cancel
            // an atom.
            for (atom, coefficient) in &sum.terms {
                let Some((_, other)) = fact.terms.iter().find(|(known, _)| known.x == atom.x) else { continue };
                if (*coefficient > 0) == (*other > 0) || coefficient % other != 0 {
                    continue;
                }
                let raised = sum.clone().plus(fact, -(coefficient / other));
                best = best.min(self.upper_within(&raised, depth - 1));
            }
        }
        best
    }

    /// The sum that a value of some type equals, unless it might wrap.
    pub(crate) fn unwrapped(&self, x: &Expr) -> Option<Sum> {
        let sum = self.sum(x);
        let (low, high) = match x.dtype() {
            DType::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            DType::I64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
            _ => return None,
        };
        if self.sizes.is_none() && !x.loads() {
            return Some(sum);
        }
        let fits = sum.reach() <= high && sum.negated().reach() <= -low;
        fits.then_some(sum)
    }

    fn range(&self, x: &Expr) -> Option<(i128, i128)> {
        let sum = self.unwrapped(x)?;
        Some((-self.upper(&sum.negated()), self.upper(&sum)))
    }

    /// A value as a sum. An unknown value is an atom without bounds.
    pub(crate) fn sum(&self, x: &Expr) -> Sum {
        if x.unfolded() > MOST_NODES {
            return Sum::atom(x, -FAR, FAR);
        }
        match x.kind() {
            Kind::Int(value) => Sum::constant(i128::from(*value)),
            Kind::Var(var) => match (self.sizes.and_then(|sizes| sizes.get(var)), self.ranges.get(var)) {
                (Some(value), _) => Sum::constant(i128::from(*value)),
                (None, Some((low, high))) => Sum::atom(x, *low, *high),
                (None, None) if self.sizes.is_none() && !var.is_counter() => Sum::atom(x, 0, FAR),
                (None, None) => Sum::atom(x, -FAR, FAR),
            },
            Kind::Binary(Binary::Add, a, b) => self.sum(a).plus(&self.sum(b), 1),
            Kind::Binary(Binary::Sub, a, b) => self.sum(a).plus(&self.sum(b), -1),
            Kind::Binary(Binary::Mul, a, b) => {
                let (a, b) = (self.sum(a), self.sum(b));
                if b.terms.is_empty() {
                    Sum::default().plus(&a, b.constant)
                } else if a.terms.is_empty() {
                    Sum::default().plus(&b, a.constant)
                } else {
                    let (low, high) = self.product(&a, &b);
                    Sum::atom(x, low, high)
                }
            }
            _ => {
                let (low, high) = self.opaque(x).unwrap_or((-FAR, FAR));
                Sum::atom(x, low, high)
            }
        }
    }

    fn product(&self, a: &Sum, b: &Sum) -> (i128, i128) {
        let ends = |sum: &Sum| [-self.upper(&sum.negated()), self.upper(sum)];
        let corners = ends(a).into_iter().flat_map(|a| ends(b).map(|b| a.saturating_mul(b).clamp(-FAR, FAR)));
        corners.fold((FAR, -FAR), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// The range of a value that is not a sum.
    fn opaque(&self, x: &Expr) -> Option<(i128, i128)> {
        match x.kind() {
            Kind::Binary(Binary::FloorDiv, a, b) => {
                let ((low, high), by) = (self.range(a)?, self.divisor(b)?);
                Some((low.div_euclid(by), high.div_euclid(by)))
            }
            Kind::Binary(Binary::FloorMod, a, b) => {
                let by = self.divisor(b)?;
                match self.range(a) {
                    Some((low, high)) if low.div_euclid(by) == high.div_euclid(by) => {
                        Some((low.rem_euclid(by), high.rem_euclid(by)))
                    }
                    _ => Some((0, by - 1)),
                }
            }
            Kind::Binary(op @ (Binary::Min | Binary::Max), a, b) => {
                let ((low, high), (other_low, other_high)) = (self.range(a)?, self.range(b)?);
                Some(if *op == Binary::Min {
                    (low.min(other_low), high.min(other_high))
                } else {
                    (low.max(other_low), high.max(other_high))
                })
            }
            Kind::Select(_, a, b) => {
                let ((low, high), (other_low, other_high)) = (self.range(a)?, self.range(b)?);
                Some((low.min(other_low), high.max(other_high)))
            }
            Kind::Cast(a) if a.dtype().is_integer() && matches!(x.dtype(), DType::I32 | DType::I64) => {
                let (low, high) = self.range(a)?;
                let fits = x.dtype() == DType::I64 || low >= i128::from(i32::MIN) && high <= i128::from(i32::MAX);
                fits.then_some((low, high))
            }
            Kind::Likely(a) => self.opaque(a),
            _ => None,
        }
    }

    /// The divisor, if it is a positive constant in this run.
    fn divisor(&self, x: &Expr) -> Option<i128> {
        let sum = self.unwrapped(x)?;
        (sum.terms.is_empty() && sum.constant > 0).then_some(sum.constant)
    }
}

/// The operands of nested minima or maxima; the value itself if it is none.
fn terms(x: &Expr, op: Binary) -> Vec<&Expr> {
    let (mut found, mut pending) = (Vec::new(), vec![x]);
    while let Some(x) = pending.pop() {
        match x.kind() {
            Kind::Binary(own, a, b) if *own == op && found.len() + pending.len() < MOST_OPERANDS => {
                pending.extend([b, a]);
            }
            _ => found.push(x),
        }
    }
    found
}
