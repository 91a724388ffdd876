//! Reductions in a tree as it was written: what each is computed from, and which can't be.
//!
//! The result of a complete reduction is a value of the next phase: it is known when all that it reduces is. Values of that
//! phase may be reduced in turn, so reductions form chains.

use super::check::{Checker, Fact, NodeKind};
use super::{Axis, BroadcastClass, Composed, Form, MAX_CHAIN, Mistake, Node, NodeId, Reducer, Reduction, TreeError};

impl Reduction {
    /// The side of the tile that partials of it are said to be of.
    const fn side(&self) -> &'static str {
        match self.axis {
            Axis::Row | Axis::All => "n",
            Axis::Column => "m",
        }
    }
}

impl Checker<'_> {
    /// The greatest phase of what a node reads.
    pub(super) fn phase_of_operands(&self, node: &Node, facts: &[Fact]) -> usize {
        node.operands().iter().map(|operand| facts[operand.index()].phase).max().unwrap_or(0)
    }

    /// Refuses partials where a value is needed.
    pub(super) fn no_partials(&self, reader: NodeId, operand: NodeId) -> Result<(), TreeError> {
        match &self.tree.nodes[operand.index()].node {
            Node::Reduce(reduction, _) if reduction.form == Form::Partial => {
                let (what, side) = (self.describe(operand), reduction.side());
                self.fail(self.tree.nodes[reader.index()].site, Mistake::PartialsUsed { what, side })
            }
            _ => Ok(()),
        }
    }

    /// Checks a reduction of `x`; what its result is.
    pub(super) fn reduction(
        &self,
        id: NodeId,
        reduction: &Reduction,
        x: NodeId,
        facts: &[Fact],
    ) -> Result<Fact, TreeError> {
        let site = self.tree.nodes[id.index()].site;
        let of = facts[x.index()];
        if of.phase > 0 && of.class != BroadcastClass::Tensor {
            return self.fail(site, Mistake::ReducedAgain { what: self.describe(x), class: of.class });
        }
        if let Some(reason) = reduction.op.user().and_then(Reducer::misfit) {
            return self.fail(site, Mistake::Reducer { name: reduction.op.name(), reason });
        }
        let index = reduction.op.gives_index();
        let result = Fact::new(reduction.axis.result_class(), if index { NodeKind::Integer } else { NodeKind::Number });
        if index && reduction.batch {
            return self.fail(site, Mistake::IndexOfBatch { what: self.describe(id) });
        }
        if reduction.form == Form::Complete {
            if of.phase >= MAX_CHAIN {
                let (what, before) = (self.describe(id), self.describe(self.last_reduction(x, facts)));
                return self.fail(site, Mistake::ReductionChain { what, before });
            }
            return Ok(Fact { phase: of.phase + 1, ..result });
        }
        let reason = match (reduction.axis.result_class(), reduction.batch) {
            (BroadcastClass::Scalar, _) => "runs along `All`; partials exist for `Row` and `Column` only",
            (_, true) => "runs along the batch too; partials have one entry per batch",
            (_, false) if index => "gives an index; partials exist of numbers only, such as `Max`",
            (_, false) if reduction.op.user().is_some() => {
                "is of a reducer of your own; partials exist of the language's own operations only"
            }
            (_, false) => "",
        };
        if !reason.is_empty() {
            return self.fail(site, Mistake::Partial { what: self.describe(id), reason });
        }
        if of.phase > 0 {
            let (what, side) = (self.describe(id), reduction.side());
            let of = self.describe(self.last_reduction(x, facts));
            return self.fail(site, Mistake::LatePartials { what, of, side });
        }
        Ok(result)
    }

    /// Checks a reduction of `x` that is made of others; what its result is.
    pub(super) fn composed(
        &self,
        id: NodeId,
        composed: &Composed,
        x: NodeId,
        facts: &[Fact],
    ) -> Result<Fact, TreeError> {
        let site = self.tree.nodes[id.index()].site;
        let (of, op) = (facts[x.index()], composed.op);
        if op.of_truths() && of.ty != NodeKind::Truth {
            return self.fail(site, Mistake::NoTruthValue { operator: op.name(), what: self.describe(x) });
        }
        if !op.of_truths() {
            self.numbers(site, op.name(), &[x], facts)?;
        }
        let class = composed.axis.result_class();
        // Its second reduction is of what `x` and the result of the first give together.
        let last = if op.length() > 1 { of.class.join(class) } else { of.class };
        if (of.phase > 0 || op.length() > 1) && last != BroadcastClass::Tensor {
            return self.fail(site, Mistake::ReducedAgain { what: self.describe(x), class: last });
        }
        let length = of.phase + op.length();
        if length > MAX_CHAIN {
            let (what, before) = (self.describe(id), self.describe(self.last_reduction(x, facts)));
            let mistake = match op.length() {
                1 => Mistake::ReductionChain { what, before },
                _ => Mistake::ComposedChain { what, op: op.name(), length, before },
            };
            return self.fail(site, mistake);
        }
        let ty = if op.of_truths() { NodeKind::Truth } else { NodeKind::Number };
        Ok(Fact { phase: length, ..Fact::new(class, ty) })
    }

    /// The reduction that a value's phase is of.
    fn last_reduction(&self, mut x: NodeId, facts: &[Fact]) -> NodeId {
        loop {
            let node = &self.tree.nodes[x.index()].node;
            let phase = facts[x.index()].phase;
            let before = node.operands().iter().find(|operand| facts[operand.index()].phase == phase);
            match (node, before) {
                (Node::Reduce(..) | Node::Composed(..), _) | (_, None) => return x,
                (_, Some(before)) => x = *before,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ElementType;
    use crate::evt::{
        Axis, BroadcastClass, Form, NodeId, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder, Types,
    };
    use crate::expr::Op;

    fn reduce(b: &mut TreeBuilder, x: NodeId, axis: Axis, form: Form) -> NodeId {
        b.reduce(Reduction { axis, batch: false, op: ReduceOp::Add, form }, x)
    }

    #[track_caller]
    fn refused(build: impl Fn(&mut TreeBuilder, NodeId) -> (NodeId, BroadcastClass), expected: &str) {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let (d, class) = build(&mut b, accum);
        b.output("d", d, class, None);
        let error = b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect_err("it is refused");
        assert_eq!(error.mistake.to_string(), expected);
    }

    #[test]
    fn wrong_reductions_are_refused() {
        use Form::{Complete, Partial};
        refused(
            |b, accum| {
                let sums = reduce(b, accum, Axis::Row, Partial);
                b.name(sums, "sums");
                (b.apply(Op::Div, &[accum, sums]), BroadcastClass::Tensor)
            },
            "the partials `sums` are one per tile and cannot be used in the body; leave out `threadblock_shape.n` for the \
             complete reduction",
        );
        refused(
            |b, accum| {
                let sum = reduce(b, accum, Axis::Row, Complete);
                let loss = b.apply(Op::Log, &[sum]);
                b.name(loss, "loss");
                (reduce(b, loss, Axis::All, Complete), BroadcastClass::Scalar)
            },
            "`loss` has one value a row: a reduction of it would count each N times; return it and reduce it with `te`",
        );
        refused(
            |b, accum| {
                let sums = reduce(b, accum, Axis::Column, Complete);
                b.name(sums, "sums");
                (reduce(b, sums, Axis::Row, Partial), BroadcastClass::ColumnVector)
            },
            "`sums` has one value a column: a reduction of it would count each M times; return it and reduce it with `te`",
        );
        refused(
            |b, accum| {
                let sum = reduce(b, accum, Axis::All, Complete);
                b.name(sum, "sum");
                (reduce(b, sum, Axis::All, Complete), BroadcastClass::Scalar)
            },
            "`sum` is one value: a reduction of it would count it M·N times; return it and reduce it with `te`",
        );
        refused(
            |b, accum| {
                let sum = reduce(b, accum, Axis::Column, Complete);
                b.name(sum, "sum");
                let d = b.apply(Op::Mul, &[accum, sum]);
                let partials = reduce(b, d, Axis::Column, Partial);
                b.name(partials, "partials");
                (partials, BroadcastClass::RowVector)
            },
            "the partials `partials` are of a value that is computed from the complete reduction `sum`, after the product's \
             tiles are done; leave out `threadblock_shape.m` for the complete reduction",
        );
    }

    /// Four reductions, each of values computed from the one before, and a reader of the last; or a fifth reduction.
    fn chain(length: usize) -> Tree {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let mut x = accum;
        for name in &["first", "second", "third", "fourth", "fifth"][..length] {
            let sum = reduce(&mut b, x, Axis::Row, Form::Complete);
            b.name(sum, name);
            x = b.apply(Op::Mul, &[c, sum]);
        }
        b.output("d", x, BroadcastClass::Tensor, None);
        b.finish()
    }

    #[test]
    fn a_chain_has_four_reductions() {
        let types = Types::new(ElementType::F16, ElementType::F16);
        assert_eq!(chain(4).validate(types).expect("a valid tree").phases(), 5);
        let error = chain(5).validate(types).expect_err("it is refused");
        assert_eq!(
            error.mistake.to_string(),
            "the reduction `fifth` is the fifth in a chain, after `fourth`, and a chain has at most 4; return `fourth`, and \
             go on in another epilogue"
        );
    }
}
