//! A checked body as calls of a builder, in the order of evaluation: what every user makes of the syntax, in one place.
//!
//! Two builders meet here with one walk: the macros' builder writes the calls of `TreeBuilder` and `FunctionBuilder` as
//! tokens; the command's makes these calls. So both make the same tree of the same body.

use std::collections::HashMap;

use proc_macro2::{Ident, Span};
use syn::spanned::Spanned;
use syn::{Lit, Path, Type};

use crate::ast::{AssignOperator, Block, ClassKind, Connective, Epilogue, Expr, Operator, Reduction, Statement};
use crate::check::Checked;

/// A maker of the nodes of a body.
pub trait Builder {
    /// A node.
    type Node: Clone;

    /// A primitive operation.
    fn apply(&mut self, place: Span, primitive: Primitive, operands: &[Self::Node]) -> Self::Node;
    /// Truth values, combined.
    fn logic(&mut self, place: Span, logic: Logic, operands: &[Self::Node]) -> Self::Node;
    /// A number.
    fn literal(&mut self, place: Span, value: f64) -> Self::Node;
    /// The body's constant of this place in the check's list.
    fn constant(&mut self, place: Span, constant: usize) -> Self::Node;
    /// An integer.
    fn integer_literal(&mut self, place: Span, value: i64) -> Self::Node;
    /// `row()` or another of the positions, by its word.
    fn position(&mut self, word: &Ident) -> Self::Node;
    /// A random number of a seed's stream.
    fn random(&mut self, place: Span, seed: Self::Node, stream: u32) -> Self::Node;
    /// A parameter's value as the integer that it is in memory.
    fn integer(&mut self, place: Span, parameter: Self::Node) -> Self::Node;
    /// An integer as a number.
    fn real(&mut self, place: Span, x: Self::Node) -> Self::Node;
    /// A call of the function of a path.
    fn call(&mut self, path: &Path, arguments: &[Self::Node]) -> Self::Node;
    /// A call of the library's operation of a name.
    fn operation(&mut self, name: &Ident, arguments: &[Self::Node]) -> Self::Node;
    /// Rounding to an element type and back.
    fn cast(&mut self, place: Span, element: &Type, x: Self::Node) -> Self::Node;
    /// A reduction that has its axis and operation.
    fn reduce(&mut self, reduction: &Reduction, x: Self::Node) -> Self::Node;
    /// The user's name of a node.
    fn name(&mut self, node: &Self::Node, name: &Ident);
}

/// A maker of a whole epilogue.
pub trait EpilogueBuilder: Builder {
    /// The next accumulator.
    fn accum(&mut self, name: &Ident) -> Self::Node;
    /// The next parameter.
    fn parameter(&mut self, name: &Ident, class: ClassKind, element: Option<&Type>) -> Self::Node;
    /// The next result, and how it extends.
    fn output(&mut self, name: &Ident, node: Self::Node, extent: Extent, element: Option<&Type>);
}

/// The primitive operations that operators and words of the language mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Primitive {
    /// A binary operator.
    Operator(Operator),
    /// The minus sign.
    Neg,
    /// `if`
    Select,
    /// `max` of two integers.
    Max,
    /// `min` of two integers.
    Min,
}

impl Primitive {
    /// The name of the operation in the tree.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator(operator) => operator.name(),
            Self::Neg => "Neg",
            Self::Select => "Select",
            Self::Max => "Max",
            Self::Min => "Min",
        }
    }
}

/// How truth values are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logic {
    /// `x && y`
    And,
    /// `x || y`
    Or,
    /// `!x`
    Not,
}

/// How a result extends over the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// M×N values.
    Tensor,
    /// M×N truth values, packed.
    Bits,
    /// N values.
    RowVector,
    /// M values.
    ColumnVector,
    /// One value.
    Scalar,
}

impl Extent {
    fn of(class: ClassKind) -> Self {
        match class {
            ClassKind::Accum | ClassKind::Tensor | ClassKind::TensorMut => Self::Tensor,
            ClassKind::Bits => Self::Bits,
            ClassKind::RowVector | ClassKind::ColumnPartials => Self::RowVector,
            ClassKind::ColumnVector | ClassKind::RowPartials => Self::ColumnVector,
            ClassKind::Scalar | ClassKind::DeviceScalar | ClassKind::Seed => Self::Scalar,
        }
    }
}

/// Makes an epilogue; `None` after a mistake, which was reported.
pub fn epilogue<B: EpilogueBuilder>(epilogue: &Epilogue, checked: &Checked, builder: &mut B) -> Option<()> {
    let mut walk = Walk { builder, scopes: vec![HashMap::new()], truths: true };
    epilogue.accums.first()?;
    for accum in &epilogue.accums {
        let node = walk.builder.accum(&accum.name);
        walk.bind(&accum.name, node);
    }
    for (parameter, element) in epilogue.parameters.iter().zip(&checked.elements) {
        let name = &parameter.binding.name;
        let node = walk.builder.parameter(name, parameter.class.as_ref()?.kind, element.as_ref());
        walk.bind(name, node);
    }
    walk.statements(&epilogue.body.statements)?;
    for output in &checked.outputs {
        let node = walk.lookup(&output.name)?;
        let element = output.element.as_ref().or_else(|| checked.elements.get(output.parameter?)?.as_ref());
        walk.builder.output(&output.name, node, Extent::of(output.class), element);
    }
    Some(())
}

/// Makes the body of an elementwise function, whose parameters have these nodes; `None` after a mistake, which was
/// reported.
pub fn elementwise<'p, B: Builder>(
    parameters: impl IntoIterator<Item = (&'p Ident, B::Node)>,
    body: &Block,
    builder: &mut B,
) -> Option<B::Node> {
    let mut walk = Walk { builder, scopes: vec![HashMap::new()], truths: false };
    for (name, node) in parameters {
        walk.bind(name, node);
    }
    walk.statements(&body.statements)?;
    walk.expression(body.value.as_deref()?).map(|value| value.node)
}

struct Walk<'b, B: Builder> {
    builder: &'b mut B,
    /// Which node each name stands for, innermost scope last.
    scopes: Vec<HashMap<String, B::Node>>,
    /// Whether truth values are combined as such: trees do, functions have comparisons and choices alone.
    truths: bool,
}

/// A node, and whether this expression made it (an alias keeps the name it has).
struct Made<N> {
    node: N,
    fresh: bool,
}

/// The condition of an `if`: comparisons, by their nodes, and how they are combined.
enum Condition<N> {
    Comparison(N),
    Not(Box<Condition<N>>),
    Connected(Box<Condition<N>>, Connective, Box<Condition<N>>),
}

impl<B: Builder> Walk<'_, B> {
    fn bind(&mut self, name: &Ident, node: B::Node) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), node);
        }
    }

    /// The node a name stands for; `None` after a mistake, which was reported.
    fn lookup(&self, name: &Ident) -> Option<B::Node> {
        let name = name.to_string();
        self.scopes.iter().rev().find_map(|scope| scope.get(&name)).cloned()
    }

    fn statements(&mut self, statements: &[Statement]) -> Option<()> {
        for statement in statements {
            match statement {
                Statement::Let(it) => {
                    let value = self.expression(&it.value)?;
                    self.name(&it.binding.name, &value);
                    self.bind(&it.binding.name, value.node);
                }
                Statement::Assign(it) => {
                    let mut value = self.expression(&it.value)?;
                    if let AssignOperator::Compound(operator, token) = &it.operator {
                        let operands = [self.lookup(&it.name)?, value.node];
                        let node = self.builder.apply(token.span(), Primitive::Operator(*operator), &operands);
                        value = Made { node, fresh: true };
                    }
                    self.name(&it.name, &value);
                    let name = it.name.to_string();
                    let variable = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(&name))?;
                    *variable = value.node;
                }
                Statement::Invalid(_) => return None,
            }
        }
        Some(())
    }

    fn name(&mut self, name: &Ident, value: &Made<B::Node>) {
        if value.fresh {
            self.builder.name(&value.node, name);
        }
    }

    /// A block's statements and value in a scope of their own.
    fn block(&mut self, block: &Block) -> Option<Made<B::Node>> {
        self.scopes.push(HashMap::new());
        let value = self.statements(&block.statements).and_then(|()| self.expression(block.value.as_deref()?));
        self.scopes.pop();
        value
    }

    fn expression(&mut self, expr: &Expr) -> Option<Made<B::Node>> {
        let node = match expr {
            Expr::Local(name) => return Some(Made { node: self.lookup(name)?, fresh: false }),
            Expr::Paren(_, inner) => return self.expression(inner),
            Expr::Block(inner) => return self.block(inner),
            Expr::Path(_) | Expr::Integer(..) | Expr::Remainder(..) | Expr::Refused(_) | Expr::Invalid => {
                return None;
            }
            Expr::Not(not, x) if self.truths => {
                let x = self.expression(x)?.node;
                self.builder.logic(not.span, Logic::Not, &[x])
            }
            Expr::Connected(left, connective, token, right) if self.truths => {
                let operands = [self.expression(left)?.node, self.expression(right)?.node];
                let logic = if *connective == Connective::And { Logic::And } else { Logic::Or };
                self.builder.logic(token.span(), logic, &operands)
            }
            Expr::Not(..) | Expr::Connected(..) => return self.truth(expr),
            Expr::IntegerLiteral(literal, value) => self.builder.integer_literal(literal.span(), *value),
            Expr::Position(word, _) => self.builder.position(word),
            Expr::Random(random) => {
                let seed = self.expression(&random.seed)?.node;
                self.builder.random(random.word.span(), seed, random.stream)
            }
            Expr::ToInteger(word, _, x) => {
                let x = self.expression(x)?.node;
                self.builder.integer(word.span(), x)
            }
            Expr::ToReal(word, _, x) => {
                let x = self.expression(x)?.node;
                self.builder.real(word.span(), x)
            }
            Expr::Extreme(word, operands) => {
                let operands = [self.expression(&operands.0)?.node, self.expression(&operands.1)?.node];
                let primitive = if word == "max" { Primitive::Max } else { Primitive::Min };
                self.builder.apply(word.span(), primitive, &operands)
            }
            Expr::Constant(constant, span) => self.builder.constant(*span, *constant),
            Expr::Literal(literal, value) => self.builder.literal(literal.span(), number(literal, *value)),
            Expr::Negate(minus, x) => {
                let x = self.expression(x)?.node;
                self.builder.apply(minus.span, Primitive::Neg, &[x])
            }
            Expr::Binary(left, operator, token, right) => {
                let operands = [self.expression(left)?.node, self.expression(right)?.node];
                self.builder.apply(token.span(), Primitive::Operator(*operator), &operands)
            }
            Expr::Call(path, _, arguments) => {
                let arguments = self.arguments(None, arguments)?;
                self.builder.call(path, &arguments)
            }
            Expr::Method(receiver, method, _, arguments) => {
                let receiver = self.expression(receiver)?.node;
                let arguments = self.arguments(Some(receiver), arguments)?;
                self.builder.operation(method, &arguments)
            }
            Expr::Cast(x, method, element) => {
                let x = self.expression(x)?.node;
                self.builder.cast(method.span(), element, x)
            }
            Expr::Reduction(reduction) => {
                let x = self.expression(&reduction.input)?.node;
                reduction.axis.as_ref()?;
                reduction.op.as_ref()?;
                self.builder.reduce(reduction, x)
            }
            Expr::If(branch) => {
                let condition = self.condition(&branch.condition)?;
                let then = self.block(&branch.then)?.node;
                let otherwise = self.expression(&branch.otherwise)?.node;
                self.choose(branch.if_token.span, &condition, then, otherwise)
            }
        };
        Some(Made { node, fresh: true })
    }

    /// The comparisons of a condition, in the order of evaluation.
    fn condition(&mut self, expr: &Expr) -> Option<Condition<B::Node>> {
        Some(match expr {
            // A tree takes a truth value as it is.
            truth if self.truths => Condition::Comparison(self.expression(truth)?.node),
            Expr::Paren(_, inner) => self.condition(inner)?,
            Expr::Not(_, x) => Condition::Not(Box::new(self.condition(x)?)),
            Expr::Connected(left, connective, _, right) => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                Condition::Connected(Box::new(left), *connective, Box::new(right))
            }
            comparison => Condition::Comparison(self.expression(comparison)?.node),
        })
    }

    /// A choice between two values. Functions have comparisons and no truth values, so `&&`, `||` and `!` are in which of
    /// the two values each comparison gives.
    fn choose(&mut self, span: Span, condition: &Condition<B::Node>, then: B::Node, otherwise: B::Node) -> B::Node {
        match condition {
            Condition::Comparison(comparison) => {
                self.builder.apply(span, Primitive::Select, &[comparison.clone(), then, otherwise])
            }
            Condition::Not(inner) => self.choose(span, inner, otherwise, then),
            Condition::Connected(left, Connective::And, right) => {
                let both = self.choose(span, right, then, otherwise.clone());
                self.choose(span, left, both, otherwise)
            }
            Condition::Connected(left, Connective::Or, right) => {
                let second = self.choose(span, right, then.clone(), otherwise);
                self.choose(span, left, then, second)
            }
        }
    }

    /// A condition that is no `if`'s, as one comparison: what it chooses of 1 and 0, compared with 0.
    fn truth(&mut self, expr: &Expr) -> Option<Made<B::Node>> {
        let span = match expr {
            Expr::Not(not, _) => not.span,
            Expr::Connected(_, _, token, _) => token.span(),
            _ => return None,
        };
        let condition = self.condition(expr)?;
        let (one, zero) = (self.builder.literal(span, 1.0), self.builder.literal(span, 0.0));
        let chosen = self.choose(span, &condition, one, zero.clone());
        let node = self.builder.apply(span, Primitive::Operator(Operator::Ne), &[chosen, zero]);
        Some(Made { node, fresh: true })
    }

    fn arguments<P>(
        &mut self,
        first: Option<B::Node>,
        arguments: &syn::punctuated::Punctuated<Expr, P>,
    ) -> Option<Vec<B::Node>> {
        let mut nodes: Vec<B::Node> = first.into_iter().collect();
        for argument in arguments {
            nodes.push(self.expression(argument)?.node);
        }
        Some(nodes)
    }
}

/// A literal in full precision; one with the suffix `f32` has the precision of an f32.
fn number(literal: &Lit, value: f64) -> f64 {
    let is_f32 = match literal {
        Lit::Float(float) => float.suffix() == "f32",
        Lit::Int(int) => int.suffix() == "f32",
        _ => false,
    };
    // Exact: every f32 is an f64.
    #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest, as rustc does")]
    if is_f32 { f64::from(value as f32) } else { value }
}
