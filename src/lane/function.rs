//! Inlines elementwise functions.

use crate::ElementType;
use crate::expr::{Body, ExprNode, Function, Op};

/// A builder of steps, or of what becomes steps.
pub(crate) trait Inline {
    /// A value that is computed.
    type Value: Copy;

    fn literal(&mut self, x: f64) -> Self::Value;
    fn apply(&mut self, op: Op, operands: &[Self::Value]) -> Self::Value;
    /// A number rounded to an element type and back.
    fn round(&mut self, element: ElementType, x: Self::Value) -> Self::Value;

    /// A function of these operands.
    fn call(&mut self, function: &Function, operands: &[Self::Value]) -> Self::Value {
        let expression = match function.body() {
            Body::Primitive(op) => return self.apply(*op, operands),
            Body::Expression(expression) => expression,
        };
        let mut values: Vec<Self::Value> = Vec::with_capacity(expression.nodes().len());
        for node in expression.nodes() {
            let inner: Vec<Self::Value> = node.operands().iter().map(|id| values[id.index()]).collect();
            values.push(match node {
                ExprNode::Parameter(place) => operands[*place],
                ExprNode::Literal(x) => self.literal(*x),
                ExprNode::Apply(op, _) => self.apply(*op, &inner),
                ExprNode::Call(function, _) => self.call(function, &inner),
                ExprNode::Cast(element, _) => self.round(*element, inner[0]),
            });
        }
        values[expression.root().index()]
    }
}
