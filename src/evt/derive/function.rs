//! The derivatives of elementwise functions.

use super::place::DerivedFrom;
use super::reverse::Reverse;
use crate::evt::NodeId;
use crate::expr::{Body, ExprNode, Expression, Function, Op};
use crate::ops;

/// The slope of a function of one operand that has a function for it: where its own parts would give another at a kink, or
/// one that is dearer.
fn slope(function: &Function) -> Option<&'static Function> {
    let known = [
        (ops::relu::function(), ops::relu_grad::function()),
        (ops::sigmoid::function(), ops::sigmoid_grad::function()),
        (ops::silu::function(), ops::silu_grad::function()),
        (ops::gelu::function(), ops::gelu_grad::function()),
        (ops::gelu_tanh::function(), ops::gelu_tanh_grad::function()),
        (ops::hardswish::function(), ops::hardswish_grad::function()),
        (ops::softplus::function(), ops::softplus_grad::function()),
    ];
    known.into_iter().find(|(of, _)| std::ptr::eq(*of, function)).map(|(_, slope)| slope)
}

impl Reverse<'_> {
    /// The gradient of each operand of a call from that of its result; `None` if there is none. Operands are nodes
    /// of the backward tree, and only the wanted ones have one. A function's body for a CUDA device is not looked at:
    /// its Rust body says what it means.
    pub(super) fn call(
        &mut self,
        function: &'static Function,
        operands: &[NodeId],
        wanted: &[bool],
        g: NodeId,
    ) -> Vec<Option<NodeId>> {
        if let Some(slope) = slope(function) {
            let slope = self.builder.call(slope, operands);
            return vec![Some(self.builder.apply(Op::Mul, &[g, slope]))];
        }
        if std::ptr::eq(function, ops::clamp::function()) {
            return self.clamp(operands, g);
        }
        match function.body() {
            Body::Primitive(op) => {
                let result = self.builder.apply(*op, operands);
                let place = DerivedFrom::Here(result, operands);
                (0..operands.len()).map(|i| wanted[i].then(|| self.primitive(*op, place, i, g)).flatten()).collect()
            }
            Body::Expression(expression) => self.expression(expression, operands, wanted, g),
        }
    }

    /// The bounds themselves are within.
    fn clamp(&mut self, operands: &[NodeId], g: NodeId) -> Vec<Option<NodeId>> {
        let &[x, low, high] = operands else { return vec![None; operands.len()] };
        let zero = self.builder.literal(0.0);
        let (below, above) = (self.builder.apply(Op::Lt, &[x, low]), self.builder.apply(Op::Gt, &[x, high]));
        let inside = self.builder.apply(Op::Select, &[above, zero, g]);
        let of_x = self.builder.apply(Op::Select, &[below, zero, inside]);
        // Bounds that are not in order are both passed: the upper one is the result.
        let in_order = self.builder.apply(Op::Lt, &[low, high]);
        let of_low = self.builder.apply(Op::Select, &[in_order, g, zero]);
        let of_low = self.builder.apply(Op::Select, &[below, of_low, zero]);
        let of_high = self.builder.apply(Op::Select, &[in_order, zero, g]);
        let of_high = self.builder.apply(Op::Select, &[below, of_high, zero]);
        let of_high = self.builder.apply(Op::Select, &[above, g, of_high]);
        vec![Some(of_x), Some(of_low), Some(of_high)]
    }

    fn expression(
        &mut self,
        expression: &Expression,
        operands: &[NodeId],
        wanted: &[bool],
        g: NodeId,
    ) -> Vec<Option<NodeId>> {
        let nodes = expression.nodes();
        let (mut values, mut moves): (Vec<NodeId>, Vec<bool>) = (Vec::new(), Vec::new());
        for node in nodes {
            let of: Vec<NodeId> = node.operands().iter().map(|id| values[id.index()]).collect();
            values.push(match node {
                ExprNode::Parameter(p) => operands[*p],
                ExprNode::Literal(x) => self.builder.literal(*x),
                ExprNode::Apply(op, _) => self.builder.apply(*op, &of),
                ExprNode::Call(function, _) => self.builder.call(function, &of),
                ExprNode::Cast(to, _) => self.builder.cast(*to, of[0]),
            });
            moves.push(match node {
                ExprNode::Parameter(p) => wanted[*p],
                _ => node.operands().iter().any(|id| moves[id.index()]),
            });
        }
        let mut gradients: Vec<Option<NodeId>> = vec![None; nodes.len()];
        let mut of_parameters = vec![None; operands.len()];
        gradients[expression.root().index()] = Some(g);
        for (at, node) in nodes.iter().enumerate().rev() {
            let Some(g) = gradients[at].filter(|_| moves[at]) else { continue };
            let of: Vec<NodeId> = node.operands().iter().map(|id| values[id.index()]).collect();
            let wanted: Vec<bool> = node.operands().iter().map(|id| moves[id.index()]).collect();
            let own: Vec<Option<NodeId>> = match node {
                ExprNode::Parameter(p) => {
                    of_parameters[*p] = self.sum(of_parameters[*p], g);
                    continue;
                }
                ExprNode::Literal(_) => continue,
                ExprNode::Apply(op, _) => {
                    let place = DerivedFrom::Here(values[at], &of);
                    (0..of.len()).map(|i| wanted[i].then(|| self.primitive(*op, place, i, g)).flatten()).collect()
                }
                ExprNode::Call(function, _) => self.call(function, &of, &wanted, g),
                ExprNode::Cast(..) => vec![Some(g)],
            };
            for ((id, own), wanted) in node.operands().iter().zip(own).zip(wanted) {
                if let Some(own) = own.filter(|_| wanted) {
                    gradients[id.index()] = self.sum(gradients[id.index()], own);
                }
            }
        }
        of_parameters
    }

    /// A gradient with another one added.
    pub(super) fn sum(&mut self, before: Option<NodeId>, more: NodeId) -> Option<NodeId> {
        Some(before.map_or(more, |before| self.builder.apply(Op::Add, &[before, more])))
    }
}
