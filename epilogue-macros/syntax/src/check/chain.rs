//! Reductions of what is computed from reductions: how many follow each other, and what can't be reduced again.
//!
//! A walk of its own over a body that was checked, so that it knows names' extents and says nothing of other mistakes.

use std::collections::HashMap;

use proc_macro2::Ident;

use super::scope::ValueShape;
use super::words::described;
use crate::ast::{Assign, AssignOperator, Axis, Block, Epilogue, Expr, Reduction, Statement};
use crate::report::Errors;

/// The most reductions in a chain; the library's tree has the same limit.
const MOST: usize = 4;

/// Knowledge about a value.
#[derive(Clone)]
struct Known {
    /// How it extends; a mistake's value like nothing else.
    shape: ValueShape,
    /// How many reductions it is computed from, one after another.
    phase: usize,
    /// The last of these, if it has a name.
    last: Option<String>,
}

impl Known {
    const fn of(shape: ValueShape) -> Self {
        Self { shape, phase: 0, last: None }
    }

    fn join(self, other: Self) -> Self {
        let shape = self.shape.join(other.shape);
        let later = if other.phase > self.phase { other } else { self };
        Self { shape, ..later }
    }
}

struct Walk<'a> {
    scopes: Vec<HashMap<String, Known>>,
    errors: &'a mut Errors,
}

/// Refuses reductions that can't be, at their word.
pub(super) fn check(epilogue: &Epilogue, errors: &mut Errors) {
    let mut names = HashMap::new();
    for accum in &epilogue.accums {
        names.insert(accum.name.to_string(), Known::of(ValueShape::Tensor));
    }
    for parameter in &epilogue.parameters {
        let shape = parameter.class.as_ref().and_then(|class| ValueShape::of(class.kind)).unwrap_or(ValueShape::Tensor);
        names.insert(parameter.binding.name.to_string(), Known::of(shape));
    }
    Walk { scopes: vec![names], errors }.statements(&epilogue.body.statements);
}

impl Walk<'_> {
    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Let(it) => {
                    let mut value = self.expression(&it.value);
                    if let Expr::Reduction(_) = &it.value {
                        value.last = Some(it.binding.name.to_string());
                    }
                    self.declare(&it.binding.name, value);
                }
                Statement::Assign(it) => self.assignment(it),
                Statement::Invalid(_) => {}
            }
        }
    }

    fn declare(&mut self, name: &Ident, value: Known) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), value);
        }
    }

    fn assignment(&mut self, statement: &Assign) {
        let value = self.expression(&statement.value);
        let name = statement.name.to_string();
        let Some(known) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name)) else { return };
        *known = match statement.operator {
            AssignOperator::Plain(_) => value,
            AssignOperator::Compound(..) => known.clone().join(value),
        };
    }

    fn block(&mut self, block: &Block) -> Known {
        self.scopes.push(HashMap::new());
        self.statements(&block.statements);
        let value = block.value.as_deref().map_or(Known::of(ValueShape::Scalar), |value| self.expression(value));
        self.scopes.pop();
        value
    }

    fn all<'e>(&mut self, operands: impl IntoIterator<Item = &'e Expr>) -> Known {
        operands.into_iter().fold(Known::of(ValueShape::Scalar), |known, operand| known.join(self.expression(operand)))
    }

    fn expression(&mut self, expr: &Expr) -> Known {
        match expr {
            Expr::Local(name) => {
                let name = name.to_string();
                let known = self.scopes.iter().rev().find_map(|scope| scope.get(&name));
                known.cloned().unwrap_or(Known::of(ValueShape::Tensor))
            }
            Expr::Path(_)
            | Expr::Constant(..)
            | Expr::Literal(..)
            | Expr::Integer(..)
            | Expr::IntegerLiteral(..)
            | Expr::Remainder(..)
            | Expr::Refused(_)
            | Expr::Invalid => Known::of(ValueShape::Scalar),
            Expr::Random(_) => Known::of(ValueShape::Tensor),
            Expr::Position(word, _) => Known::of(match word.to_string().as_str() {
                "row" => ValueShape::Column,
                "column" => ValueShape::Row,
                _ => ValueShape::Scalar,
            }),
            Expr::ToInteger(_, _, x)
            | Expr::ToReal(_, _, x)
            | Expr::Not(_, x)
            | Expr::Negate(_, x)
            | Expr::Cast(x, ..)
            | Expr::Paren(_, x) => self.expression(x),
            Expr::Extreme(_, operands) => self.all([&operands.0, &operands.1]),
            Expr::Connected(x, _, _, y) | Expr::Binary(x, _, _, y) => self.all([&**x, &**y]),
            Expr::Call(_, _, arguments) => self.all(arguments),
            Expr::Method(receiver, _, _, arguments) => self.all(std::iter::once(&**receiver).chain(arguments)),
            Expr::Reduction(reduction) => self.reduction(reduction),
            Expr::If(branch) => {
                let condition = self.expression(&branch.condition);
                let then = self.block(&branch.then);
                condition.join(then).join(self.expression(&branch.otherwise))
            }
            Expr::Block(block) => self.block(block),
        }
    }

    fn reduction(&mut self, reduction: &Reduction) -> Known {
        let of = self.expression(&reduction.input);
        let axis = reduction.axis.as_ref().map_or(Axis::All, |(axis, ..)| *axis);
        let (result, input) = (ValueShape::left_by(axis), described(&reduction.input));
        let last = of.last.as_ref().map(|name| format!("`{name}`"));
        let length = reduction.composed().map_or(1, |composed| composed.length);
        // The second of two reductions is of what the value and the result of the first give together.
        let shape = if length > 1 { of.shape.join(result) } else { of.shape };
        let counted = match shape {
            _ if of.phase == 0 && length == 1 => None,
            ValueShape::Tensor => None,
            ValueShape::Column => Some("has one value a row: a reduction of it would count each N times"),
            ValueShape::Row => Some("has one value a column: a reduction of it would count each M times"),
            ValueShape::Scalar => Some("is one value: a reduction of it would count it M·N times"),
        };
        let message = if let Some(counted) = counted {
            format!("{input} {counted}; return it and reduce it with `te`")
        } else if of.phase >= MOST && !reduction.partial {
            let before = last.unwrap_or_else(|| "the one before".to_owned());
            format!(
                "this is the fifth reduction in a chain, each of what is computed from the one before, and a chain has at most \
                 {MOST}: return {before}, and go on in another epilogue"
            )
        } else if of.phase + length > MOST && !reduction.partial {
            let before = last.unwrap_or_else(|| "the one before".to_owned());
            let op = reduction.op.as_ref().map(ToString::to_string).unwrap_or_default();
            format!(
                "a `{op}` is two reductions, one after the other: with it the chain has {}, and a chain has at most {MOST}: return \
                 {before}, and go on in another epilogue",
                of.phase + length
            )
        } else if of.phase > 0 && reduction.partial {
            let (side, last) = (
                if axis == Axis::Column { "m" } else { "n" },
                last.unwrap_or_else(|| "a complete reduction".to_owned()),
            );
            format!(
                "{input} is computed from {last}, which is complete after the product's tiles are done: leave out \
                 `threadblock_shape.{side}` for the complete reduction"
            )
        } else {
            return Known { shape: result, phase: of.phase + if reduction.partial { 0 } else { length }, last: None };
        };
        self.errors.at(reduction.word.span(), message);
        // It is said once.
        Known::of(result)
    }
}
