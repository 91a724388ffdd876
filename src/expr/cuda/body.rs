//! The values of an elementwise function's body, ready to be printed.

use smallvec::SmallVec;

use super::Accuracy;
use super::formula::{Formula, Values};
use crate::expr::identifier::{self, FreeNames};
use crate::expr::{ExprId, ExprNode, Expression, Function, Op};

/// The identifiers of parameters, all different.
pub(super) struct Parameters {
    pub(super) names: Vec<String>,
    taken: FreeNames,
}

impl Parameters {
    pub(super) fn of(function: &Function) -> Self {
        let mut taken = FreeNames::numbered(2);
        let names = function.parameters().iter().map(|name| taken.unique(&identifier::sanitize(name))).collect();
        Self { names, taken }
    }
}

/// One operation on the parameters.
pub(super) struct PrimitiveValues<'a> {
    pub(super) op: Op,
    pub(super) parameters: &'a [String],
    pub(super) accuracy: Accuracy,
}

impl Values for PrimitiveValues<'_> {
    fn count(&self) -> usize {
        self.parameters.len() + 1
    }
    fn formula(&self, value: usize) -> Formula {
        if value < self.parameters.len() {
            Formula::Given
        } else {
            Formula::Apply(self.op, (0..self.parameters.len()).collect())
        }
    }
    fn name(&self, value: usize) -> &str {
        self.parameters.get(value).map_or("result", String::as_str)
    }
    fn is_named(&self, _: usize) -> bool {
        true
    }
    fn uses(&self, _: usize) -> usize {
        1
    }
    fn significand(&self, _: usize) -> u32 {
        significand(self.accuracy)
    }
    fn line(&self, _: usize) -> u32 {
        0
    }
}

/// A function's body, without values that the result doesn't need.
pub(super) struct ExpressionValues<'a> {
    expression: &'a Expression,
    names: Vec<String>,
    uses: Vec<usize>,
    accuracy: Accuracy,
}

impl<'a> ExpressionValues<'a> {
    pub(super) fn new(expression: &'a Expression, parameters: &Parameters, accuracy: Accuracy) -> Self {
        let mut scope = parameters.taken.clone();
        let mut names = Vec::with_capacity(expression.nodes().len());
        let mut ids = (0..).map(|i| format!("t{i}"));
        for (node, name) in expression.nodes().iter().zip(expression.names()) {
            names.push(match (node, name) {
                (ExprNode::Parameter(p), _) => parameters.names[*p].clone(),
                (_, Some(name)) => scope.unique(&identifier::sanitize(name)),
                (_, None) => scope.unique(&ids.next().unwrap_or_default()),
            });
        }
        let mut uses = vec![0; expression.nodes().len()];
        uses[expression.root().index()] = 1;
        for (i, node) in expression.nodes().iter().enumerate().rev() {
            if uses[i] > 0 {
                node.operands().iter().for_each(|o| uses[o.index()] += 1);
            }
        }
        Self { expression, names, uses, accuracy }
    }
}

impl Values for ExpressionValues<'_> {
    fn count(&self) -> usize {
        self.expression.nodes().len()
    }
    fn formula(&self, value: usize) -> Formula {
        let places = |operands: &[ExprId]| operands.iter().map(|o| o.index()).collect::<SmallVec<_>>();
        match &self.expression.nodes()[value] {
            _ if self.uses[value] == 0 => Formula::Given,
            ExprNode::Parameter(_) => Formula::Given,
            ExprNode::Literal(x) => Formula::Literal(*x),
            ExprNode::Apply(op, operands) => Formula::Apply(*op, places(operands)),
            ExprNode::Call(function, operands) => Formula::Call(function, places(operands)),
            ExprNode::Cast(to, x) => Formula::Cast(*to, x.index()),
        }
    }
    fn name(&self, value: usize) -> &str {
        &self.names[value]
    }
    fn is_named(&self, value: usize) -> bool {
        value == self.expression.root().index() || self.expression.names()[value].is_some()
    }
    fn uses(&self, value: usize) -> usize {
        self.uses[value]
    }
    fn significand(&self, _: usize) -> u32 {
        significand(self.accuracy)
    }
    fn line(&self, _: usize) -> u32 {
        0
    }
}

const fn significand(accuracy: Accuracy) -> u32 {
    match accuracy {
        Accuracy::Bits8 => 8,
        Accuracy::Bits11 => 11,
        Accuracy::Full => 53,
    }
}
