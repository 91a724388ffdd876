//! Integers and truth values among the numbers: which operands may be combined.

use proc_macro2::{Ident, Span};
use syn::BinOp;
use syn::punctuated::Punctuated;

use super::body::{Body, Mode};
use super::scope::{Holds, Origin, ValueKind, ValueShape};
use super::words::{NO_NUMBER, as_real, described, mixed, strip};
use crate::ast::{Block, Expr, Operator, Random};

/// An operand, and what is known about it.
type Side<'e> = (&'e Expr, ValueKind);

impl Body<'_> {
    /// The result of an operation or a comparison.
    pub(super) fn arithmetic(
        &mut self,
        left: Side<'_>,
        operator: Operator,
        token: &BinOp,
        right: Side<'_>,
    ) -> ValueKind {
        let shape = left.1.join(right.1).shape();
        let (Some(shape), false) = (shape, left.1 == ValueKind::Unknown || right.1 == ValueKind::Unknown) else {
            return ValueKind::Unknown;
        };
        if matches!(left.1, ValueKind::Truth(_)) || matches!(right.1, ValueKind::Truth(_)) {
            let message = if operator.is_comparison() {
                "a comparison compares numbers, not truth values: combine those with `&&`, `||` and `!`"
            } else {
                NO_NUMBER
            };
            self.errors.on(token, message);
            return ValueKind::Unknown;
        }
        let integers = match (left.1, right.1) {
            (ValueKind::Integer(_), ValueKind::Integer(_)) => true,
            (ValueKind::Integer(_), _) => {
                self.errors.on(token, mixed(left.0, "the left side", right.0, "the right side"));
                return ValueKind::Unknown;
            }
            (_, ValueKind::Integer(_)) => {
                self.errors.on(token, mixed(right.0, "the right side", left.0, "the left side"));
                return ValueKind::Unknown;
            }
            _ => false,
        };
        if operator.is_comparison() {
            return ValueKind::Truth(shape);
        }
        if integers && operator == Operator::Div {
            self.errors.on(token, "integers are not divided: write `real(x) / real(y)`, which rounds as numbers do");
            return ValueKind::Unknown;
        }
        if integers { ValueKind::Integer(shape) } else { ValueKind::Number(shape) }
    }

    /// Refuses `x % y`.
    pub(super) fn remainder(&mut self, token: &BinOp, sides: &mut (Expr, Expr)) {
        let (left, right) = sides;
        let message = if self.is_integer(left) || self.is_integer(right) {
            self.integer_literals(left);
            self.integer_literals(right);
            "integers have no `%`: write `real(x) - real(y) * floor(real(x) / real(y))`"
        } else {
            "`%` is not in the language: write `x - y * floor(x / y)`"
        };
        self.errors.on(token, message);
        self.expression(left);
        self.expression(right);
    }

    /// The result of an `if`.
    pub(super) fn chosen(
        &mut self,
        condition: ValueKind,
        then: ValueKind,
        otherwise: ValueKind,
        place: Span,
    ) -> ValueKind {
        let joined = condition.join(then).join(otherwise).shape();
        match (then.noun(), otherwise.noun(), joined) {
            (Some(first), Some(second), _) if first != second => {
                self.errors.at(
                    place,
                    format_args!("the branches of an `if` are of one type: the first is {first}, this one {second}"),
                );
                ValueKind::Unknown
            }
            (_, _, None) => ValueKind::Unknown,
            (_, _, Some(shape)) => match then {
                ValueKind::Integer(_) => ValueKind::Integer(shape),
                ValueKind::Truth(_) => ValueKind::Truth(shape),
                _ => ValueKind::Number(shape),
            },
        }
    }

    /// `row()` and the other positions.
    pub(super) fn position(&mut self, word: &Ident) -> ValueKind {
        if self.is_elementwise(word) {
            return ValueKind::Unknown;
        }
        ValueKind::Integer(match word.to_string().as_str() {
            "row" => ValueShape::Column,
            "column" => ValueShape::Row,
            _ => ValueShape::Scalar,
        })
    }

    /// `random(seed)`
    pub(super) fn random(&mut self, random: &mut Random) -> ValueKind {
        if self.is_elementwise(&random.word) {
            return ValueKind::Unknown;
        }
        let name = match strip(&random.seed) {
            Expr::Path(path) => path.path.get_ident().cloned(),
            _ => None,
        };
        if let Some(name) = name
            && let Some(kind) = self.variable(&name).map(|variable| variable.kind)
        {
            return match kind {
                ValueKind::Seed => {
                    random.seed = Expr::Local(name);
                    ValueKind::Number(ValueShape::Tensor)
                }
                ValueKind::Unknown => ValueKind::Unknown,
                _ => {
                    self.no_seed(&random.word, &format!("`{name}`"));
                    ValueKind::Unknown
                }
            };
        }
        let before = self.errors.len();
        self.expression(&mut random.seed);
        if self.errors.len() == before {
            self.no_seed(&random.word, "this");
        }
        ValueKind::Unknown
    }

    fn no_seed(&mut self, word: &Ident, what: &str) {
        self.errors.at(
            word.span(),
            format_args!("`random` takes a parameter of the class `Seed`, and {what} is a value: declare `seed: Seed`"),
        );
    }

    /// Refuses the words of an epilogue in an elementwise function.
    fn is_elementwise(&mut self, word: &Ident) -> bool {
        let refused = matches!(self.mode, Mode::Elementwise(_));
        if refused {
            self.errors.at(
                word.span(),
                format_args!(
                    "an elementwise function computes with numbers alone: use `{word}` in the `#[epilogue]`, and pass \
                     what it gives, as a number"
                ),
            );
        }
        refused
    }

    /// `integer(parameter)`
    pub(super) fn integer_of(&mut self, word: &Ident, x: &mut Expr) -> ValueKind {
        let kind = self.expression(x);
        if self.is_elementwise(word) {
            return ValueKind::Unknown;
        }
        let named = match strip(x) {
            Expr::Local(name) => self.variable(name).cloned().map(|variable| (name.clone(), variable)),
            Expr::Remainder(..) | Expr::Refused(_) | Expr::Invalid => return ValueKind::Unknown,
            _ => None,
        };
        let message = match named {
            Some((_, variable)) if variable.kind == ValueKind::Unknown => return ValueKind::Unknown,
            Some((name, variable)) => match (variable.origin, variable.holds) {
                (Origin::Parameter(i), _) if self.assigned.contains(&i) => {
                    format!("`{name}` was assigned to: bind `let before = integer({name});` first, and use `before`")
                }
                (Origin::Parameter(_), Holds::Integers | Holds::Truths | Holds::Unwritten) => {
                    return kind.shape().map_or(ValueKind::Unknown, ValueKind::Integer);
                }
                (Origin::Parameter(_), Holds::Others(element)) => {
                    format!("`integer` reads exact integers, but `{name}` is {element} here")
                }
                (Origin::Parameter(_), Holds::Nothing) => format!(
                    "`{name}` is a `Scalar`, a number that the host gives: declare it `DeviceScalar<i64>` to read an integer"
                ),
                (Origin::Accum | Origin::Let, _) => not_in_memory(),
            },
            None => not_in_memory(),
        };
        self.errors.at(word.span(), message);
        ValueKind::Unknown
    }

    /// `real(integer)`
    pub(super) fn real_of(&mut self, word: &Ident, x: &mut Expr) -> ValueKind {
        let kind = self.expression(x);
        if self.is_elementwise(word) {
            return ValueKind::Unknown;
        }
        match kind {
            ValueKind::Integer(shape) => return ValueKind::Number(shape),
            ValueKind::Number(_) if !matches!(strip(x), Expr::Integer(..)) => self.errors.at(
                word.span(),
                format_args!("`real` makes a number of an integer, and {} is a number: leave `real` out", described(x)),
            ),
            ValueKind::Truth(_) => self.errors.at(word.span(), NO_NUMBER),
            ValueKind::Number(_) | ValueKind::Seed | ValueKind::Partials(_) | ValueKind::Unknown => {}
        }
        ValueKind::Unknown
    }

    /// Refuses an integer as an argument of a function.
    pub(super) fn no_integer(&mut self, callee: &Ident, argument: &Expr, kind: ValueKind) -> ValueKind {
        if let ValueKind::Integer(_) = kind {
            let (argument, advice) = (described(argument), as_real(argument));
            self.errors
                .at(callee.span(), format_args!("`{callee}` takes numbers, and {argument} is an integer: {advice}"));
            return ValueKind::Unknown;
        }
        kind
    }

    /// `max(x, y)`, `x.max(y)` and `min` with an integer operand.
    pub(super) fn extreme<P: Default>(
        &mut self,
        word: Option<&Ident>,
        receiver: Option<&mut Expr>,
        arguments: &mut Punctuated<Expr, P>,
    ) -> Option<Expr> {
        let word = word.filter(|word| *word == "max" || *word == "min")?.clone();
        let operands = receiver.iter().map(|x| &**x).chain(arguments.iter());
        if operands.clone().count() != 2 || !operands.clone().any(|x| self.is_integer(x)) {
            return None;
        }
        let mut operands: Vec<&mut Expr> = receiver.into_iter().chain(arguments.iter_mut()).collect();
        operands.iter_mut().for_each(|operand| self.integer_literals(operand));
        // If only one operand is an integer, the call is refused like any other.
        if !operands.iter().all(|x| self.is_integer(x)) {
            return None;
        }
        let mut taken = operands.into_iter().map(|x| std::mem::replace(x, Expr::Invalid));
        Some(Expr::Extreme(word, Box::new((taken.next()?, taken.next()?))))
    }

    /// Whether an expression is an integer, as far as its text shows before it is checked.
    pub(super) fn is_integer(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Position(..) | Expr::ToInteger(..) | Expr::IntegerLiteral(..) | Expr::Extreme(..) => true,
            Expr::Reduction(reduction) => reduction.gives_index(),
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.is_integer_variable(name)),
            Expr::Local(name) => self.is_integer_variable(name),
            Expr::Negate(_, x) | Expr::Paren(_, x) => self.is_integer(x),
            Expr::Binary(left, operator, _, right) => {
                !operator.is_comparison() && (self.is_integer(left) || self.is_integer(right))
            }
            Expr::Method(x, method, _, arguments) if *method == "max" || *method == "min" => {
                self.is_integer(x) || arguments.iter().any(|x| self.is_integer(x))
            }
            Expr::Call(path, _, arguments) if path.is_ident("max") || path.is_ident("min") => {
                arguments.iter().any(|x| self.is_integer(x))
            }
            Expr::If(branch) => self.is_integer_block(&branch.then) || self.is_integer(&branch.otherwise),
            Expr::Block(block) => self.is_integer_block(block),
            _ => false,
        }
    }

    pub(super) fn is_integer_block(&self, block: &Block) -> bool {
        block.value.as_deref().is_some_and(|value| self.is_integer(value))
    }

    fn is_integer_variable(&self, name: &Ident) -> bool {
        self.variable(name).is_some_and(|variable| matches!(variable.kind, ValueKind::Integer(_)))
    }

    /// Turns the number literals of a value into integers, if it is combined with an integer.
    pub(super) fn integer_literals(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Integer(literal, _) => match literal.base10_parse::<i64>() {
                Ok(value) => *expr = Expr::IntegerLiteral(literal.clone(), value),
                Err(_) => self.errors.at(literal.span(), "this integer is too large for an i64"),
            },
            Expr::Negate(_, x) | Expr::Paren(_, x) => self.integer_literals(x),
            Expr::Binary(left, operator, _, right) if !operator.is_comparison() => {
                self.integer_literals(left);
                self.integer_literals(right);
            }
            Expr::If(branch) => {
                self.integer_literals_of_block(&mut branch.then);
                self.integer_literals(&mut branch.otherwise);
            }
            Expr::Block(block) => self.integer_literals_of_block(block),
            _ => {}
        }
    }

    pub(super) fn integer_literals_of_block(&mut self, block: &mut Block) {
        if let Some(value) = &mut block.value {
            self.integer_literals(value);
        }
    }
}

fn not_in_memory() -> String {
    "`integer` reads a parameter's integers from memory: name the parameter, as in `integer(labels)` (of a number, `floor`, \
     `ceil` and `round` give whole ones)"
        .to_owned()
}
