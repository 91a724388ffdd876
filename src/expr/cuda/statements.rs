//! Values as declarations.

use std::fmt;

use smallvec::SmallVec;

use super::functions::Functions;
use super::literal::literal;
use super::term::Term;
use super::{Accuracy, real_name};
use crate::ElementType;
use crate::expr::{Function, Op, Real};

/// Values longer than this are declared, not written inside their user.
const LONGEST_INSIDE: usize = 90;

/// How one of some [`Values`] is computed; operands are the places of earlier values.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// Not computed here: a variable of the value's name exists.
    Given,
    /// A number.
    Literal(f64),
    /// A primitive operation.
    Apply(Op, SmallVec<[usize; 3]>),
    /// `scalar * x`, but 0 when `scalar` is 0.
    Scaled {
        /// The factor.
        scalar: usize,
        /// What it multiplies.
        x: usize,
    },
    /// A call.
    Call(&'static Function, SmallVec<[usize; 3]>),
    /// Rounding to an element type and back.
    Cast(ElementType, usize),
}

impl Formula {
    fn operands(&self) -> SmallVec<[usize; 3]> {
        match self {
            Self::Given | Self::Literal(_) => SmallVec::new(),
            Self::Apply(_, operands) | Self::Call(_, operands) => operands.clone(),
            Self::Scaled { scalar, x } => SmallVec::from_slice(&[*scalar, *x]),
            Self::Cast(_, x) => SmallVec::from_slice(&[*x]),
        }
    }
}

/// Values that can be printed: numbered, operands before users.
pub trait Values {
    /// How many there are.
    fn count(&self) -> usize;
    /// How one is computed.
    fn formula(&self, value: usize) -> Formula;
    /// The C++ identifier of one.
    fn name(&self, value: usize) -> &str;
    /// Whether the user named it, so that it gets a declaration of its own.
    fn is_named(&self, value: usize) -> bool;
    /// How often it is used, by values and otherwise.
    fn uses(&self, value: usize) -> usize;
    /// The most significant bits of an output that it reaches.
    fn significand(&self, value: usize) -> u32;
    /// The line of the user's source, 0 when unknown.
    fn line(&self, value: usize) -> u32;
}

/// A declaration: `const float d = alpha * accum + math::tanh(beta * c);`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The value declared.
    pub value: usize,
    /// Its C++ type.
    pub ty: &'static str,
    /// Its identifier.
    pub name: String,
    /// The expression.
    pub expression: String,
    /// The line of the user's source, 0 when unknown.
    pub line: u32,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "const {} {} = {};", self.ty, self.name, self.expression)
    }
}

/// The text of a value that is declared: its name, or the number that a literal is.
pub fn reference(values: &impl Values, value: usize, real: Real) -> String {
    match values.formula(value) {
        Formula::Literal(number) => literal(number, real),
        _ => values.name(value).to_owned(),
    }
}

/// Declares the values for which `here` holds, in order; the others, where used, are taken to be declared under their
/// names already.
///
/// A value is declared if the user named it, if it is used more than once or by a value that isn't printed here, or if
/// its text is long; literals never are, and other values are written where they are used.
pub fn statements(values: &impl Values, here: impl Fn(usize) -> bool, functions: &mut Functions) -> Vec<Statement> {
    let mut users_here = vec![0; values.count()];
    for value in (0..values.count()).filter(|&v| here(v)) {
        for operand in values.formula(value).operands() {
            users_here[operand] += 1;
        }
    }
    let mut terms: Vec<Term> = Vec::with_capacity(values.count());
    let mut statements = Vec::new();
    for (value, users_here) in users_here.into_iter().enumerate() {
        let formula = values.formula(value);
        if let Formula::Literal(number) = formula {
            // Also those of other places: a literal is never declared anywhere, unless something outside uses it.
            terms.push(Term::number(literal(number, functions.real())));
            continue;
        }
        if formula == Formula::Given || !here(value) {
            terms.push(Term::primary(values.name(value)));
            continue;
        }
        let accuracy = Accuracy::of(functions.allowed(values.significand(value)), functions.real());
        let term = term(&formula, &terms, accuracy, functions);
        let inside =
            !values.is_named(value) && values.uses(value) == 1 && users_here == 1 && term.text.len() <= LONGEST_INSIDE;
        if inside {
            terms.push(term);
            continue;
        }
        let truth = matches!(formula, Formula::Apply(op, _) if op.is_comparison());
        statements.push(Statement {
            value,
            ty: if truth { "bool" } else { real_name(functions.real()) },
            name: values.name(value).to_owned(),
            expression: term.text,
            line: values.line(value),
        });
        terms.push(Term::primary(values.name(value)));
    }
    statements
}

/// The text of a value from that of its operands.
fn term(formula: &Formula, terms: &[Term], accuracy: Accuracy, functions: &mut Functions) -> Term {
    let operands: SmallVec<[&Term; 3]> = formula.operands().iter().map(|&o| &terms[o]).collect();
    match formula {
        // The caller has dealt with these; their text has no operands.
        Formula::Given => Term::primary(""),
        Formula::Literal(number) => Term::number(literal(*number, functions.real())),
        Formula::Apply(op, _) => apply(*op, &operands, accuracy),
        Formula::Scaled { .. } => {
            let zero = Term::number(literal(0.0, functions.real()));
            let scalar = operands[0];
            match (Term::infix(Op::Ne, scalar, &zero), Term::infix(Op::Mul, scalar, operands[1])) {
                (Some(condition), Some(product)) => Term::conditional(&condition, &product, &zero),
                _ => zero,
            }
        }
        Formula::Call(function, _) => {
            let name = functions.require(function, accuracy);
            Term::call(&name, &operands)
        }
        Formula::Cast(to, _) => Term::call(&format!("math::round_{}", to.name()), &operands),
    }
}

fn apply(op: Op, operands: &[&Term], accuracy: Accuracy) -> Term {
    match (op, operands) {
        (Op::Neg, [x]) => return x.negated(),
        (Op::Select, [condition, yes, no]) => return Term::conditional(condition, yes, no),
        (Op::Div, _) if accuracy < Accuracy::Full => {}
        (_, [x, y]) => {
            if let Some(term) = Term::infix(op, x, y) {
                return term;
            }
        }
        _ => {}
    }
    let approximate = match accuracy {
        Accuracy::Full => false,
        Accuracy::Bits11 | Accuracy::Bits8 => {
            matches!(op, Op::Exp | Op::Exp2 | Op::Log | Op::Log2 | Op::Sqrt | Op::Recip | Op::Div | Op::Tanh | Op::Erf)
        }
    };
    let namespace = if approximate { accuracy.namespace() } else { "" };
    let name = if op == Op::Div { "div" } else { op.symbol() };
    Term::call(&format!("math::{namespace}{name}"), operands)
}
