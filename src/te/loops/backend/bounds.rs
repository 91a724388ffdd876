//! Proves, for the sizes of one run, that no access of a program leaves its buffer.
//!
//! Every index is bounded from below and above, over the loops and threads and under the conditions around it. An access that
//! isn't proved is tested by another version of the code when it runs. So a missed proof costs time, but is never wrong.
//!
//! Indices are sums and products in 64 bits, as the code computes them. A value inside a quotient, a remainder or a
//! comparison has its own type, and counts as unknown if it might wrap.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::sync::lock;
use crate::te::dtype::DType;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::stmt::{AllReduce, Stmt};

/// A number beyond any index. A bound that reaches it counts as unknown.
const FAR: i128 = 1 << 100;

/// The number of proofs that are remembered.
const PROOFS: usize = 64;

/// The proofs for one program: for values of its variables and spans of its arguments, whether all accesses stay inside.
#[derive(Debug, Default)]
pub(super) struct Proofs(Mutex<HashMap<Vec<i64>, bool>>);

impl Proofs {
    /// Whether no access of `body` can leave its buffer in a run. The accesses depend on the values of `variables`;
    /// `spans` are the elements of each argument.
    pub(super) fn stays_inside(
        &self,
        body: &Stmt,
        (sizes, variables): (&HashMap<Var, i64>, &[Var]),
        spans: &[(Buffer, usize)],
    ) -> bool {
        let mut key: Vec<i64> = variables.iter().map(|var| sizes.get(var).copied().unwrap_or(i64::MIN)).collect();
        key.extend(spans.iter().map(|(_, span)| i64::try_from(*span).unwrap_or(i64::MAX)));
        let mut proofs = lock(&self.0);
        if let Some(known) = proofs.get(&key) {
            return *known;
        }
        // Without a stack for the proof, code that tests every access is as right.
        let proof = descend(body.depth(), || accesses_stay_inside(body, sizes, spans));
        let Ok(proved) = proof else { return false };
        if proofs.len() >= PROOFS {
            proofs.clear();
        }
        proofs.insert(key, proved);
        proved
    }
}

/// Whether every access whose index doesn't depend on memory stays in its buffer. Others are always tested when they happen.
fn accesses_stay_inside(body: &Stmt, sizes: &HashMap<Var, i64>, spans: &[(Buffer, usize)]) -> bool {
    let lens = spans.iter().map(|(buffer, span)| (buffer.clone(), i128::try_from(*span).unwrap_or(FAR))).collect();
    let mut prover = Prover {
        sizes,
        ranges: HashMap::new(),
        facts: Vec::new(),
        lens,
        steps: 0,
        proven: HashSet::new(),
        order: Vec::new(),
    };
    prover.statement(body)
}

/// A sum of multiples of atoms, plus a constant.
#[derive(Clone, Debug, Default)]
struct Sum {
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
    fn constant(constant: i128) -> Self {
        Self { constant, ..Self::default() }
    }

    fn atom(x: &Expr, low: i128, high: i128) -> Self {
        if low == high {
            return Self::constant(low);
        }
        Self { terms: vec![(Atom { x: x.clone(), low, high }, 1)], ..Self::default() }
    }

    fn plus(self, other: &Self, scale: i128) -> Self {
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

    fn negated(&self) -> Self {
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

/// The largest index that a proof looks into, in nodes of its tree. Larger ones are tested at run time.
const MOST_NODES: u64 = 4096;

/// How many nodes of one expression a proof visits at most.
const MOST_STEPS: usize = 1 << 16;

/// How many facts a proof may use at a time.
const MOST_FACTS: usize = 256;

struct Prover<'a> {
    sizes: &'a HashMap<Var, i64>,
    ranges: HashMap<Var, (i128, i128)>,
    /// Sums that are known to be at least 0 here.
    facts: Vec<Sum>,
    lens: HashMap<Buffer, i128>,
    /// The number of nodes visited.
    steps: usize,
    /// Nodes of the current expression whose loads are known to stay inside, under the current facts.
    proven: HashSet<Id>,
    /// Proven nodes in the order of their proofs.
    order: Vec<Id>,
}

impl Prover<'_> {
    fn statement(&mut self, statement: &Stmt) -> bool {
        let expressions = match statement {
            // Values that threads reduce are evaluated only under a condition.
            Stmt::AllReduce(_) => Vec::new(),
            _ => statement.expressions(),
        };
        self.begin();
        for x in expressions {
            self.begin();
            if !self.loads(x) {
                return false;
            }
        }
        match statement {
            Stmt::Seq(statements) => statements.iter().all(|s| self.statement(s)),
            // Threads are like the iterations of a loop.
            Stmt::For { var, extent, body, .. } | Stmt::Launch { var, extent, body, .. } => {
                let end = self.unwrapped(extent).unwrap_or_else(|| Sum::atom(extent, -FAR, FAR));
                let last = self.upper(&end) - 1;
                if last < 0 {
                    return true;
                }
                self.ranges.insert(*var, (0, last));
                let facts = self.facts.len();
                self.facts.push(end.plus(&self.sum(&Expr::from(*var)), -1).plus(&Sum::constant(1), -1));
                let inside = self.statement(body);
                self.facts.truncate(facts);
                inside
            }
            Stmt::If { condition, then } => self.under(condition, true, |this| this.statement(then)),
            Stmt::Let { body, .. } | Stmt::Note { body, .. } => self.statement(body),
            Stmt::Prefetch { .. } => true,
            Stmt::Store { buffer, indices, .. } => self.access(buffer, indices),
            Stmt::Allocate { buffer, body } => {
                let len = buffer.allocation().iter().fold(1i128, |len, extent| {
                    let least = self.unwrapped(extent).map_or(0, |extent| -self.upper(&extent.negated()));
                    len.saturating_mul(least.max(0)).min(FAR)
                });
                self.lens.insert(buffer.clone(), len);
                self.statement(body)
            }
            Stmt::Barrier => true,
            Stmt::AllReduce(reduce) => {
                let AllReduce { condition, source, .. } = &**reduce;
                self.loads(condition) && self.under(condition, true, |this| source.iter().all(|x| this.loads(x)))
            }
        }
    }

    /// Begins another expression.
    fn begin(&mut self) {
        self.proven.clear();
        self.order.clear();
        self.steps = 0;
    }

    /// Whether every load of an expression stays inside, each under the conditions that guard it.
    fn loads(&mut self, x: &Expr) -> bool {
        if self.proven.contains(&x.id()) {
            return true;
        }
        // Values that conditions guard are proved once under each of them. If that takes too many steps, the proof
        // fails.
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return false;
        }
        let inside = self.own_loads(x);
        if inside && x.is_met_again() && self.proven.insert(x.id()) {
            self.order.push(x.id());
        }
        inside
    }

    fn own_loads(&mut self, x: &Expr) -> bool {
        match x.kind() {
            Kind::Select(condition, a, b) => {
                self.loads(condition)
                    && self.under(condition, true, |this| this.loads(a))
                    && self.under(condition, false, |this| this.loads(b))
            }
            Kind::Binary(op @ (Binary::And | Binary::Or), a, b) => {
                self.loads(a) && self.under(a, *op == Binary::And, |this| this.loads(b))
            }
            Kind::Load(buffer, indices) => {
                indices.iter().all(|index| self.loads(index)) && self.access(buffer, indices)
            }
            _ => x.operands().into_iter().all(|operand| self.loads(operand)),
        }
    }

    fn access(&mut self, buffer: &Buffer, indices: &[Expr]) -> bool {
        let [index] = indices else { return false };
        if index.loads() {
            return true;
        }
        let Some(len) = self.lens.get(buffer).copied() else { return false };
        let sum = self.sum(index);
        self.upper(&sum.negated()) <= 0 && self.upper(&sum) < len
    }

    /// Continues with the fact that a condition holds, or doesn't. Under a contradiction everything is true.
    fn under(&mut self, condition: &Expr, holds: bool, then: impl FnOnce(&mut Self) -> bool) -> bool {
        let (facts, proven) = (self.facts.len(), self.order.len());
        self.learn(condition, holds);
        let impossible = self.facts[facts..].iter().any(|fact| fact.reach() < 0);
        let result = impossible || then(self);
        self.facts.truncate(facts);
        for id in self.order.drain(proven.min(self.order.len())..) {
            self.proven.remove(&id);
        }
        result
    }

    fn learn(&mut self, condition: &Expr, holds: bool) {
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
            Kind::Binary(op, a, b) if a.dtype().is_integer() => {
                let (Some(a), Some(b)) = (self.unwrapped(a), self.unwrapped(b)) else { return };
                let less = |a: &Sum, b: &Sum, by: i128| b.clone().plus(a, -1).plus(&Sum::constant(by), -1);
                match (op, holds) {
                    (Binary::Lt, true) | (Binary::Ge, false) => self.facts.push(less(&a, &b, 1)),
                    (Binary::Le, true) | (Binary::Gt, false) => self.facts.push(less(&a, &b, 0)),
                    (Binary::Gt, true) | (Binary::Le, false) => self.facts.push(less(&b, &a, 1)),
                    (Binary::Ge, true) | (Binary::Lt, false) => self.facts.push(less(&b, &a, 0)),
                    (Binary::Eq, true) | (Binary::Ne, false) => {
                        self.facts.push(less(&a, &b, 0));
                        self.facts.push(less(&b, &a, 0));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// The greatest value of a sum, under the known facts.
    fn upper(&self, sum: &Sum) -> i128 {
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
    fn unwrapped(&self, x: &Expr) -> Option<Sum> {
        let sum = self.sum(x);
        let (low, high) = match x.dtype() {
            DType::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            DType::I64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
            _ => return None,
        };
        let fits = sum.reach() <= high && sum.negated().reach() <= -low;
        fits.then_some(sum)
    }

    fn range(&self, x: &Expr) -> Option<(i128, i128)> {
        let sum = self.unwrapped(x)?;
        Some((-self.upper(&sum.negated()), self.upper(&sum)))
    }

    /// A value as a sum. An unknown value is an atom without bounds.
    fn sum(&self, x: &Expr) -> Sum {
        if x.unfolded() > MOST_NODES {
            return Sum::atom(x, -FAR, FAR);
        }
        match x.kind() {
            Kind::Int(value) => Sum::constant(i128::from(*value)),
            Kind::Var(var) => match (self.sizes.get(var), self.ranges.get(var)) {
                (Some(value), _) => Sum::constant(i128::from(*value)),
                (None, Some((low, high))) => Sum::atom(x, *low, *high),
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
