//! Tests reads that may leave their tensor in one dimension.
//!
//! Memory is tested by one index, the sum over all dimensions. An index that leaves its dimension can still be a place
//! in the memory: of the next row, or of an element that a cache of a part of the tensor never got. So a read gets a
//! test of each dimension, and [another place](crate::te::loops::ir::outside) if the test fails.
//!
//! Two steps remove tests again. The ranges of loops prove most of them where the read is made. When all of the program
//! is there, [`proved`] removes those that the loops and conditions around the read prove. The rest stays in the program.
//!
//! Indices that data give are tested where memory is [flattened](crate::te::loops::lower::passes::flatten), if all of the
//! tensor is there.

use std::collections::{HashMap, HashSet};

use super::Emitter;
use crate::te::arith::facts::Facts;
use crate::te::arith::simplify_in;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::tensor::Tensor;
use crate::te::loops::ir::outside::{is_nowhere, nowhere};
use crate::te::loops::ir::stmt::Stmt;

/// The number of nodes of one expression that proofs meet. Tests in later ones stay.
const MOST_STEPS: usize = 1 << 16;

impl Emitter<'_> {
    /// A read of a tensor with tests of its dimensions. `load` is the access of the tensor's memory.
    pub(super) fn tested(&self, tensor: &Tensor, indices: &[Expr], buffer: &Buffer, load: Expr) -> Expr {
        let Ok(producer) = self.schedule.index(tensor) else { return load };
        let shape = tensor.shape();
        let several = shape.len() > 1 || self.stage(producer).layout.is_some();
        let tests = indices.iter().zip(&shape).enumerate().filter_map(|(d, (index, extent))| {
            // The first element is missing only in empty memory, where the sum over all dimensions is outside, too.
            let first = || simplify_in(index, &self.context).as_int() == Some(0);
            let found_later = || index.loads() && buffer.scope() == Scope::Global;
            let needed = self.is_part(producer, d) || several && !found_later() && !first();
            needed.then(|| index.greater_equal(0).and(index.less(extent)))
        });
        match tests.reduce(|a, b| a.and(b)) {
            Some(inside) => inside.select(load, nowhere(buffer)),
            None => load,
        }
    }

    /// Whether the memory of a tensor may have only a part of the elements along a dimension.
    fn is_part(&self, producer: usize, dimension: usize) -> bool {
        if self.plan.rolling[producer].is_some() {
            return true;
        }
        if self.plan.origins[producer].is_empty() {
            return false;
        }
        let stage = self.stage(producer);
        let axis = stage.operation.as_compute().and_then(|compute| compute.axes.get(dimension));
        match axis.zip(self.plan.nests[producer].as_ref()) {
            Some((axis, nest)) => axis.domain().is_none_or(|whole| whole != nest.domain(*axis)),
            None => true,
        }
    }
}

/// The statement without the tests that loops and conditions prove.
pub(super) fn proved(statement: Stmt) -> Stmt {
    if has_tests(&statement) { Prover { facts: Facts::for_all_sizes() }.statement(statement) } else { statement }
}

fn has_tests(statement: &Stmt) -> bool {
    statement.expressions().into_iter().any(|x| x.contains(is_test)) || statement.children().into_iter().any(has_tests)
}

fn is_test(x: &Expr) -> bool {
    matches!(x.kind(), Kind::Select(_, _, other) if matches!(other.kind(), Kind::Load(_, indices) if is_nowhere(indices)))
}

struct Prover {
    facts: Facts<'static>,
}

impl Prover {
    fn statement(&mut self, statement: Stmt) -> Stmt {
        let mark = self.facts.mark();
        let statement = match statement {
            Stmt::For { var, extent, kind, body } => {
                let extent = self.expression(&extent);
                self.facts.count(var, &extent);
                Stmt::For { var, extent, kind, body: self.inner(*body) }
            }
            Stmt::Launch { thread, var, extent, body } => {
                let extent = self.expression(&extent);
                self.facts.count(var, &extent);
                Stmt::Launch { thread, var, extent, body: self.inner(*body) }
            }
            Stmt::Let { var, value, body } => {
                let value = self.expression(&value);
                self.facts.name(var, &value);
                Stmt::Let { var, value, body: self.inner(*body) }
            }
            Stmt::If { condition, then } => {
                let condition = self.expression(&condition);
                self.facts.learn(&condition, true);
                Stmt::If { condition, then: self.inner(*then) }
            }
            Stmt::AllReduce(mut reduce) => {
                reduce.condition = self.expression(&reduce.condition);
                self.facts.learn(&reduce.condition, true);
                reduce.source.iter_mut().for_each(|x| *x = self.expression(x));
                Stmt::AllReduce(reduce)
            }
            Stmt::Note { note, body } => {
                let note = note.map_expressions(&mut |x| self.expression(x));
                Stmt::Note { note, body: self.inner(*body) }
            }
            leaf @ (Stmt::Store { .. } | Stmt::Prefetch { .. }) => leaf.map_expressions(&mut |x| self.expression(x)),
            other @ (Stmt::Seq(_) | Stmt::Allocate { .. } | Stmt::Barrier) => {
                other.map_children(&mut |child| self.statement(child))
            }
        };
        self.facts.forget(mark);
        statement
    }

    fn inner(&mut self, body: Stmt) -> Box<Stmt> {
        Box::new(self.statement(body))
    }

    fn expression(&mut self, x: &Expr) -> Expr {
        let mut tested = HashSet::new();
        for part in x.bottom_up() {
            if is_test(part) || part.operands().into_iter().any(|operand| tested.contains(&operand.id())) {
                tested.insert(part.id());
            }
        }
        Walk { facts: &mut self.facts, tested, made: vec![HashMap::new()], steps: 0 }.expression(x)
    }
}

/// Proofs in one expression.
struct Walk<'a> {
    facts: &'a mut Facts<'static>,
    /// The nodes with tests in them.
    tested: HashSet<Id>,
    /// The results for nodes that are used several times, for each condition around.
    made: Vec<HashMap<Id, Expr>>,
    steps: usize,
}

impl Walk<'_> {
    fn expression(&mut self, x: &Expr) -> Expr {
        self.steps += 1;
        if self.steps > MOST_STEPS || !self.tested.contains(&x.id()) {
            return x.clone();
        }
        if let Some(made) = self.made.last().and_then(|made| made.get(&x.id())) {
            return made.clone();
        }
        let made = self.own(x);
        if let Some(known) = self.made.last_mut() {
            known.insert(x.id(), made.clone());
        }
        made
    }

    fn own(&mut self, x: &Expr) -> Expr {
        match x.kind() {
            Kind::Select(inside, load, nowhere) if is_test(x) => {
                let inside = self.expression(inside);
                let load = self.under(&inside, true, load);
                let unproved = inside.conjuncts().into_iter().filter(|test| !self.facts.proves(test)).cloned();
                unproved.reduce(|a, b| a.and(b)).map_or(load.clone(), |test| test.select(load, nowhere.clone()))
            }
            Kind::Select(condition, a, b) => {
                let condition = self.expression(condition);
                let (a, b) = (self.under(&condition, true, a), self.under(&condition, false, b));
                condition.select(a, b)
            }
            Kind::Binary(op @ (Binary::And | Binary::Or), a, b) => {
                let a = self.expression(a);
                let b = self.under(&a, *op == Binary::And, b);
                Expr::binary(*op, a, b)
            }
            _ => {
                let operands: Vec<Expr> = x.operands().into_iter().map(|operand| self.expression(operand)).collect();
                x.with_operands(operands.into_iter())
            }
        }
    }

    /// A part that is evaluated only if a condition holds, or doesn't.
    fn under(&mut self, condition: &Expr, holds: bool, x: &Expr) -> Expr {
        let mark = self.facts.mark();
        self.facts.learn(condition, holds);
        self.made.push(HashMap::new());
        let made = self.expression(x);
        self.made.pop();
        self.facts.forget(mark);
        made
    }
}
