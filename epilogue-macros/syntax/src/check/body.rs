//! Checks statements and expressions: which names exist, and the extent of each value.

use std::collections::HashSet;
use std::rc::Rc;

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{ExprPath, Lit, LitFloat, Type};

use super::scope::{Holds, Origin, Reach, Scopes, ValueKind, ValueShape, Variable};
use super::words::{NO_NUMBER, as_real, described};
use crate::ast::{Assign, AssignOperator, Axis, Block, Class, ClassKind, Connective, Expr, Let, Reduction, Statement};
use crate::operations;
use crate::parse;
use crate::report::{Errors, similar};
use crate::sight::Files;

/// The kind of function that a body belongs to.
pub(crate) enum Mode {
    Epilogue,
    Closure,
    /// The function's own name.
    Elementwise(String),
}

/// The state of the check.
pub(crate) struct Body<'a> {
    pub(crate) errors: &'a mut Errors,
    pub(crate) constants: Vec<ExprPath>,
    /// The parameters that are assigned to.
    pub(crate) assigned: HashSet<usize>,
    pub(super) scopes: Scopes,
    files: Files,
    pub(super) mode: Mode,
}

impl<'a> Body<'a> {
    pub(crate) fn new(mode: Mode, files: Files, errors: &'a mut Errors) -> Self {
        Self { errors, constants: Vec::new(), assigned: HashSet::new(), scopes: Scopes::new(), files, mode }
    }

    pub(crate) fn declare(&mut self, name: &Ident, variable: Variable) {
        self.scopes.declare(name.to_string(), variable);
    }

    pub(crate) fn variable(&self, name: &Ident) -> Option<&Variable> {
        self.scopes.get(&name.to_string())
    }

    pub(crate) fn statements(&mut self, statements: &mut [Statement]) {
        for statement in statements {
            match statement {
                Statement::Let(statement) => self.binding(statement),
                Statement::Assign(statement) => self.assignment(statement),
                Statement::Invalid(names) => {
                    for name in names {
                        self.scopes.declare(
                            name.to_string(),
                            Variable {
                                kind: ValueKind::Unknown,
                                mutable: true,
                                origin: Origin::Let,
                                holds: Holds::Nothing,
                                annotation: None,
                            },
                        );
                    }
                }
            }
        }
    }

    /// Checks a block in the current scope.
    pub(crate) fn block_in_place(&mut self, block: &mut Block) -> ValueKind {
        self.statements(&mut block.statements);
        match &mut block.value {
            Some(value) => self.expression(value),
            None => ValueKind::Unknown,
        }
    }

    fn block(&mut self, block: &mut Block, branch: bool) -> ValueKind {
        self.scopes.enter(branch);
        let kind = self.block_in_place(block);
        self.scopes.leave();
        kind
    }

    fn binding(&mut self, statement: &mut Let) {
        let kind = match &mut statement.value {
            // Partials are bound, and returned.
            Expr::Reduction(reduction) => self.reduction(reduction),
            value => self.expression(value),
        };
        let holds = if self.has_integers(&statement.value) { Holds::Integers } else { Holds::Nothing };
        let annotation = statement.annotation.as_ref().and_then(|(_, ty)| self.annotation(ty)).map(Rc::new);
        self.declare(
            &statement.binding.name,
            Variable { kind, mutable: statement.binding.mutability.is_some(), origin: Origin::Let, holds, annotation },
        );
    }

    /// Checks the type after a `let`'s name.
    fn annotation(&mut self, ty: &Type) -> Option<Class> {
        match self.mode {
            Mode::Elementwise(_) => {
                let is_f32 = matches!(ty, Type::Path(path) if path.path.is_ident("f32"));
                if !is_f32 {
                    self.errors.on(ty, "every value is an `f32` here: remove the type");
                }
                None
            }
            Mode::Epilogue => {
                self.errors.on(
                    ty,
                    "a value has no type of its own here: element types stand in the signature, and `x.cast::<f16>()` rounds",
                );
                None
            }
            Mode::Closure => parse::class(ty, &ClassKind::RESULTS, "a result", self.errors),
        }
    }

    fn assignment(&mut self, statement: &mut Assign) {
        let name = statement.name.to_string();
        let before = self.variable(&statement.name).map(|variable| variable.kind);
        if let (AssignOperator::Compound(..), Some(ValueKind::Integer(_))) = (&statement.operator, before) {
            self.integer_literals(&mut statement.value);
        }
        let mut value = self.expression(&mut statement.value);
        if let (AssignOperator::Compound(operator, token), Some(before)) = (&statement.operator, before)
            && !matches!(before, ValueKind::Partials(_))
        {
            let (name, token) = (Expr::Local(statement.name.clone()), *token);
            value = self.arithmetic((&name, before), *operator, &token, (&statement.value, value));
        }
        let message = match self.scopes.assign(&name) {
            Reach::Variable(variable) if variable.mutable => {
                if let ValueKind::Partials(axis) = variable.kind {
                    partials_used(&format!("the partials `{name}`"), axis)
                } else if let Some(message) = another_type(&name, variable.kind, value) {
                    message
                } else {
                    variable.kind = value;
                    if let Origin::Parameter(i) = variable.origin {
                        self.assigned.insert(i);
                    }
                    return;
                }
            }
            Reach::Variable(variable) => match variable.origin {
                Origin::Let => format!("`{name}` is assigned to: declare it `let mut {name}`"),
                Origin::Accum | Origin::Parameter(_) => format!(
                    "only a `TensorMut` is assigned to: write `let mut {name} = {name};` first, or declare the parameter `TensorMut`"
                ),
            },
            Reach::OutsideBranch => {
                format!("a branch of an `if` only computes a value: write `{name} = if … {{ … }} else {{ {name} }};`")
            }
            Reach::Unknown => {
                self.unknown(&statement.name);
                return;
            }
        };
        self.errors.at(statement.name.span(), message);
    }

    pub(crate) fn unknown(&mut self, name: &Ident) {
        let written = name.to_string();
        if self.errors.is_excused(&written) {
            return;
        }
        let advice = match (similar(&written, self.scopes.names()), &self.mode) {
            (Some(similar), _) => format!("did you mean `{similar}`?"),
            (None, Mode::Closure) => {
                "an epilogue captures nothing: pass the value as a parameter of the class `Scalar`".to_owned()
            }
            (None, Mode::Epilogue | Mode::Elementwise(_)) => {
                format!(
                    "it is neither a parameter nor a `let` (a constant with a small name is written `self::{written}`)"
                )
            }
        };
        self.errors.at(name.span(), format_args!("there is no `{written}` here; {advice}"));
    }

    pub(super) fn expression(&mut self, expr: &mut Expr) -> ValueKind {
        match expr {
            Expr::Path(path) => {
                let (resolved, kind) = self.path(path);
                *expr = resolved;
                kind
            }
            Expr::Literal(..) | Expr::Local(_) | Expr::Constant(..) => ValueKind::Number(ValueShape::Scalar),
            Expr::IntegerLiteral(..) => ValueKind::Integer(ValueShape::Scalar),
            Expr::Position(word, _) => self.position(word),
            Expr::Random(random) => self.random(random),
            Expr::ToInteger(word, _, x) => self.integer_of(word, x),
            Expr::ToReal(word, _, x) => self.real_of(word, x),
            Expr::Extreme(_, operands) => {
                let (x, y) = (self.expression(&mut operands.0), self.expression(&mut operands.1));
                x.join(y).shape().map_or(ValueKind::Unknown, ValueKind::Integer)
            }
            Expr::Negate(minus, x) => {
                let (minus, kind) = (minus.span, self.expression(x));
                if let ValueKind::Integer(_) = kind { kind } else { self.number(kind, minus) }
            }
            Expr::Cast(x, method, element) => {
                let method = method.span();
                let kind = self.expression(x);
                if is_bool(element) {
                    self.errors.at(
                        method,
                        "`cast` rounds numbers, and bool is not a type of numbers: a truth value is a comparison, `x != 0.0`",
                    );
                    return ValueKind::Unknown;
                }
                if let ValueKind::Integer(_) = kind {
                    let message = format!("`cast` rounds numbers, and {} is an integer: {}", described(x), as_real(x));
                    self.errors.at(method, message);
                    return ValueKind::Unknown;
                }
                self.number(kind, method)
            }
            Expr::Integer(integer, _) => {
                let digits = integer.base10_digits();
                self.errors.at(
                    integer.span(),
                    format_args!("values are floating-point numbers: write `{digits}.0` (beside an integer such as `row()` it is one)"),
                );
                ValueKind::Number(ValueShape::Scalar)
            }
            Expr::Not(not, x) => {
                let (not, x) = (not.span, self.expression(x));
                self.condition(x, "!", not)
            }
            Expr::Connected(left, connective, token, right) => {
                let left = self.expression(left);
                // Rust skips the right operand if the left one decides, so nothing outside may change in it.
                self.scopes.enter(true);
                let right = self.expression(right);
                self.scopes.leave();
                let (word, span) = (if *connective == Connective::And { "&&" } else { "||" }, token.span());
                match (self.condition(left, word, span), right) {
                    (ValueKind::Unknown, _) => ValueKind::Unknown,
                    (left, right) => match self.condition(right, word, span) {
                        ValueKind::Unknown => ValueKind::Unknown,
                        right => left.join(right).shape().map_or(ValueKind::Unknown, ValueKind::Truth),
                    },
                }
            }
            Expr::Binary(left, operator, token, right) => {
                if operator.is_comparison() {
                    if self.has_integers(left) {
                        integer_as_number(right);
                    }
                    if self.has_integers(right) {
                        integer_as_number(left);
                    }
                }
                if self.is_integer(left) {
                    self.integer_literals(right);
                }
                if self.is_integer(right) {
                    self.integer_literals(left);
                }
                let kinds = (self.expression(left), self.expression(right));
                self.arithmetic((&**left, kinds.0), *operator, token, (&**right, kinds.1))
            }
            Expr::Remainder(token, sides) => {
                self.remainder(token, sides);
                ValueKind::Unknown
            }
            Expr::Call(path, _, arguments) => {
                if let (Mode::Elementwise(own), Some(name)) = (&self.mode, path.get_ident())
                    && name == own
                {
                    self.errors.at(
                        name.span(),
                        format_args!("`{own}` calls itself: an elementwise function has no recursion"),
                    );
                } else if let Some(name) = path.get_ident() {
                    self.callee(name);
                }
                let callee = path.segments.last().map(|last| last.ident.clone());
                if let Some(extreme) = self.extreme(path.get_ident(), None, arguments) {
                    *expr = extreme;
                    return self.expression(expr);
                }
                self.arguments(callee.as_ref(), arguments, None)
            }
            Expr::Method(receiver, method, _, arguments) => {
                if let Some(extreme) = self.extreme(Some(method), Some(receiver), arguments) {
                    *expr = extreme;
                    return self.expression(expr);
                }
                let kind = self.expression(receiver);
                operations::method(method, self.errors);
                let method = method.clone();
                let kind = self.no_integer(&method, receiver, kind);
                self.arguments(Some(&method), arguments, Some(kind))
            }
            Expr::Reduction(reduction) => {
                let kind = self.reduction(reduction);
                if let ValueKind::Partials(axis) = kind {
                    self.errors.at(reduction.word.span(), partials_used("these partials", axis));
                    return ValueKind::Unknown;
                }
                kind
            }
            Expr::If(branch) => {
                if self.is_integer_block(&branch.then) {
                    self.integer_literals(&mut branch.otherwise);
                } else if self.is_integer(&branch.otherwise) {
                    self.integer_literals_of_block(&mut branch.then);
                }
                let condition = self.expression(&mut branch.condition);
                let then = self.block(&mut branch.then, true);
                self.scopes.enter(true);
                let otherwise = self.expression(&mut branch.otherwise);
                self.scopes.leave();
                self.chosen(condition, then, otherwise, branch.else_token.span)
            }
            Expr::Block(block) => self.block(block, false),
            Expr::Paren(_, inner) => self.expression(inner),
            Expr::Refused(inner) => {
                for expr in inner {
                    self.expression(expr);
                }
                ValueKind::Unknown
            }
            Expr::Invalid => ValueKind::Unknown,
        }
    }

    /// Refuses to call something that is not a function.
    fn callee(&mut self, name: &Ident) {
        match self.variable(name).map(|variable| variable.kind) {
            Some(ValueKind::Unknown) => {}
            Some(_) => self.errors.at(name.span(), format_args!("`{name}` is a value here, and is not called")),
            None => operations::call(name, &mut self.files, self.errors),
        }
    }

    /// Refuses a number or an integer where a truth value is needed.
    fn condition(&mut self, kind: ValueKind, word: &str, place: Span) -> ValueKind {
        let (ValueKind::Number(_) | ValueKind::Integer(_), Some(what)) = (kind, kind.noun()) else { return kind };
        self.errors.at(place, format_args!("`{word}` is for truth values such as `x > 0.0`, and this is {what}"));
        ValueKind::Unknown
    }

    /// Whether an expression is a tensor of integers: a parameter, or a value cast to an integer type.
    fn has_integers(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(path) => path
                .path
                .get_ident()
                .and_then(|name| self.variable(name))
                .is_some_and(|variable| variable.holds == Holds::Integers),
            Expr::Local(name) => self.variable(name).is_some_and(|variable| variable.holds == Holds::Integers),
            Expr::Cast(_, _, element) => is_integer(element),
            Expr::Paren(_, inner) => self.has_integers(inner),
            _ => false,
        }
    }

    /// Refuses a truth value where a number is needed.
    fn number(&mut self, kind: ValueKind, place: Span) -> ValueKind {
        if let ValueKind::Truth(_) = kind {
            self.errors.at(place, NO_NUMBER);
            return ValueKind::Unknown;
        }
        kind
    }

    fn arguments<P>(
        &mut self,
        callee: Option<&Ident>,
        arguments: &mut syn::punctuated::Punctuated<Expr, P>,
        first: Option<ValueKind>,
    ) -> ValueKind {
        let mut kind = first;
        for expr in arguments {
            let mut argument = self.expression(expr);
            if let Some(callee) = callee {
                argument = self.no_integer(callee, expr, argument);
            }
            kind = Some(kind.map_or(argument, |kind| kind.join(argument)));
        }
        // A function without arguments is a constant; a function of a comparison is a number.
        let kind = kind.unwrap_or(ValueKind::Number(ValueShape::Scalar));
        kind.join(kind)
    }

    fn path(&mut self, path: &ExprPath) -> (Expr, ValueKind) {
        if let Some(name) = path.path.get_ident() {
            if let Some(variable) = self.scopes.get(&name.to_string()) {
                let kind = variable.kind;
                if let ValueKind::Partials(axis) = kind {
                    self.errors.at(name.span(), partials_used(&format!("the partials `{name}`"), axis));
                    return (Expr::Local(name.clone()), ValueKind::Unknown);
                }
                if kind == ValueKind::Seed {
                    self.errors.at(
                        name.span(),
                        format_args!(
                            "`{name}` is a seed and no value: `random({name})` is the element's number, from 0 to 1"
                        ),
                    );
                    return (Expr::Local(name.clone()), ValueKind::Unknown);
                }
                return (Expr::Local(name.clone()), kind);
            }
            if !name.to_string().chars().any(char::is_uppercase) {
                self.unknown(name);
                return (Expr::Invalid, ValueKind::Unknown);
            }
        }
        let text = path.to_token_stream().to_string();
        let known = |known: &ExprPath| known.to_token_stream().to_string() == text;
        let place = self.constants.iter().position(known).unwrap_or_else(|| {
            self.constants.push(path.clone());
            self.constants.len() - 1
        });
        let span = path.path.segments.last().map_or_else(Span::call_site, |last| last.ident.span());
        (Expr::Constant(place, span), ValueKind::Number(ValueShape::Scalar))
    }

    /// Refuses the name of a reducer that nothing in the file can give a meaning; otherwise rustc decides.
    fn own_reducer(&mut self, name: &Ident) {
        let written = name.to_string();
        let may_be = match self.files.of(name) {
            Some(file) => file.reducers.contains(&written) || file.sight(&written, false) == crate::sight::Sight::Open,
            None => parse::advice(&written).is_none(),
        };
        if !may_be {
            self.errors.at(name.span(), parse::unknown(&written));
        }
    }

    fn reduction(&mut self, reduction: &mut Reduction) -> ValueKind {
        let input = self.expression(&mut reduction.input);
        if let Mode::Elementwise(_) = self.mode {
            self.errors.at(
                reduction.word.span(),
                "an elementwise function knows one element only: a reduction stands in an `#[epilogue]`",
            );
            return ValueKind::Unknown;
        }
        if let Some(name) = reduction.own.as_ref().and_then(syn::Path::get_ident) {
            self.own_reducer(name);
        }
        if let (Some(composed), Some(op)) = (reduction.composed(), &reduction.op)
            && composed.of_truths
        {
            self.condition(input, &op.to_string(), op.span());
            return reduction
                .axis
                .as_ref()
                .map_or(ValueKind::Unknown, |(axis, ..)| ValueKind::Truth(ValueShape::left_by(*axis)));
        }
        if let ValueKind::Truth(_) = input {
            self.errors.at(
                reduction.word.span(),
                "a reduction takes numbers, not truth values: count with `if x > 0.0 { 1.0 } else { 0.0 }`, or ask for `Any` or \
                 `All`",
            );
        }
        self.no_integer(&reduction.word, &reduction.input, input);
        match (&reduction.axis, &reduction.op) {
            (Some((axis, ..)), Some(_)) if reduction.partial => ValueKind::Partials(*axis),
            (Some((axis, ..)), Some(_)) if reduction.gives_index() => ValueKind::Integer(ValueShape::left_by(*axis)),
            (Some((axis, ..)), Some(_)) => ValueKind::Number(ValueShape::left_by(*axis)),
            _ => ValueKind::Unknown,
        }
    }
}

/// The message about partials that something is computed from.
fn partials_used(partials: &str, axis: Axis) -> String {
    let side = if axis == Axis::Column { "m" } else { "n" };
    format!(
        "{partials} are one per tile and cannot be used in the body: leave out `threadblock_shape.{side}` for the complete \
         reduction"
    )
}

/// The message for a variable that is assigned a value of another type; Rust would refuse it, too.
fn another_type(name: &str, before: ValueKind, value: ValueKind) -> Option<String> {
    let (before, value) = (before.noun()?, value.noun()?);
    (before != value).then(|| {
        format!(
            "`{name}` is {before}, and this is {value}: bind it anew, `let {name} = …;`, which may be returned as well"
        )
    })
}

/// Whether an element type is that of truth values.
pub(crate) fn is_bool(element: &Type) -> bool {
    matches!(element, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "bool"))
}

/// Whether an element type is one of the integers.
pub(crate) fn is_integer(element: &Type) -> bool {
    let Type::Path(path) = element else { return false };
    path.path.segments.last().is_some_and(|last| ["i8", "u8", "i32", "i64"].iter().any(|name| last.ident == name))
}

/// Replaces an integer literal that is compared with integers by the same number.
fn integer_as_number(expr: &mut Expr) {
    match expr {
        // Every f64 holds integers with this many digits.
        Expr::Integer(integer, value) if integer.base10_digits().len() < 16 => {
            let number = LitFloat::new(&format!("{}.0", integer.base10_digits()), integer.span());
            *expr = Expr::Literal(Lit::Float(number), *value);
        }
        Expr::Negate(_, inner) | Expr::Paren(_, inner) => integer_as_number(inner),
        _ => {}
    }
}
