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
use crate::te::arith::facts::{FAR, Facts};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::stmt::{AllReduce, Stmt};

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
    let mut prover = Prover { facts: Facts::of_run(sizes), lens, steps: 0, proven: HashSet::new(), order: Vec::new() };
    prover.statement(body)
}

/// How many nodes of one expression a proof visits at most.
const MOST_STEPS: usize = 1 << 16;

struct Prover<'a> {
    facts: Facts<'a>,
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
                let facts = self.facts.mark();
                if self.facts.count(*var, extent) < 0 {
                    self.facts.forget(facts);
                    return true;
                }
                let inside = self.statement(body);
                self.facts.forget(facts);
                inside
            }
            Stmt::If { condition, then } => self.under(condition, true, |this| this.statement(then)),
            Stmt::Let { body, .. } | Stmt::Note { body, .. } => self.statement(body),
            Stmt::Prefetch { .. } => true,
            Stmt::Store { buffer, indices, .. } => self.access(buffer, indices),
            Stmt::Allocate { buffer, body } => {
                let len = buffer.allocation().iter().fold(1i128, |len, extent| {
                    let least = self.facts.least(extent);
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
        self.place(index, len)
    }

    /// Whether an index is a place in memory. [Tests](crate::te::loops::lower) of dimensions choose between two indices.
    fn place(&mut self, index: &Expr, len: i128) -> bool {
        self.steps += 1;
        if let Kind::Select(condition, place, other) = index.kind()
            && self.steps <= MOST_STEPS
        {
            return match self.facts.proves(condition) {
                true => self.place(place, len),
                false => {
                    self.under(condition, true, |this| this.place(place, len))
                        && self.under(condition, false, |this| this.place(other, len))
                }
            };
        }
        let sum = self.facts.sum(index);
        self.facts.upper(&sum.negated()) <= 0 && self.facts.upper(&sum) < len
    }

    /// Continues with the fact that a condition holds, or doesn't. Under a contradiction everything is true.
    fn under(&mut self, condition: &Expr, holds: bool, then: impl FnOnce(&mut Self) -> bool) -> bool {
        let (facts, proven) = (self.facts.mark(), self.order.len());
        let impossible = self.facts.learn(condition, holds);
        let result = impossible || then(self);
        self.facts.forget(facts);
        for id in self.order.drain(proven.min(self.order.len())..) {
            self.proven.remove(&id);
        }
        result
    }
}
