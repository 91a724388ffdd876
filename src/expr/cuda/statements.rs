//! Prints values as declarations, and the functions that these call, whose bodies are again declarations.

use std::collections::HashMap;
use std::fmt;

use smallvec::SmallVec;

use super::beside::{Beside, Users};
use super::body::{ExpressionValues, Parameters, PrimitiveValues};
use super::formula::{Formula, Scalar, Values};
use super::literal::{integer, literal};
use super::term::Term;
use super::{Accuracy, element_name, real_name};
use crate::cuda::Writer;
use crate::expr::identifier::{self, FreeNames};
use crate::expr::{Body, Function, Op, Real};

/// Values with a longer text are declared, not written inside their user.
const LONGEST_INSIDE: usize = 90;

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
    /// The line in the user's source; 0 if unknown.
    pub line: u32,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "const {} {} = {};", self.ty, self.name, self.expression)
    }
}

/// The text that refers to a value: its name, or the number if it is a literal.
pub fn reference(values: &impl Values, value: usize, real: Real) -> String {
    match values.formula(value) {
        Formula::Literal(number) => literal(number, real),
        Formula::Integer(number) => integer(number, values.scalar(value)),
        _ => values.name(value).to_owned(),
    }
}

/// Declares the values for which `here` holds, in order. The others are assumed to be declared already, under their
/// names.
///
/// A value is declared if the user named it, if it is used more than once, or if its text is long. It is also declared
/// for a user that isn't printed here. Other values are written where they are used, and so are all literals.
pub fn statements(values: &impl Values, here: impl Fn(usize) -> bool, functions: &mut Functions) -> Vec<Statement> {
    let mut users_here = vec![0; values.count()];
    for value in (0..values.count()).filter(|&v| here(v)) {
        for operand in values.formula(value).operands() {
            users_here[operand] += 1;
        }
    }
    let users = Users::of(values);
    let mut terms: Vec<Term> = Vec::with_capacity(values.count());
    let mut statements = Vec::new();
    for (value, users_here) in users_here.into_iter().enumerate() {
        let formula = values.formula(value);
        if let Formula::Literal(number) = formula {
            // Includes literals of other places: they are never declared, unless something outside uses them.
            terms.push(Term::number(literal(number, functions.real())));
            continue;
        }
        if let Formula::Integer(number) = formula {
            terms.push(Term::number(integer(number, values.scalar(value))));
            continue;
        }
        if formula == Formula::Given || !here(value) {
            terms.push(Term::primary(values.name(value)));
            continue;
        }
        let accuracy = Accuracy::of(functions.allowed(values.significand(value)), functions.real());
        let operand = formula.operands().first().map_or(Scalar::Real, |&operand| values.scalar(operand));
        let approximate =
            if accuracy < Accuracy::Full { approximated(&users, value, &formula, accuracy) } else { None };
        let term = match approximate {
            Some((name, operands)) => {
                let operands: SmallVec<[&Term; 2]> = operands.iter().map(|&operand| &terms[operand]).collect();
                Term::call(&format!("math::{name}"), &operands)
            }
            None => term(&formula, operand, &terms, accuracy, functions),
        };
        let inside =
            !values.is_named(value) && values.uses(value) == 1 && users_here == 1 && term.text.len() <= LONGEST_INSIDE;
        if inside {
            terms.push(term);
            continue;
        }
        statements.push(Statement {
            value,
            ty: values.scalar(value).cuda(functions.real()),
            name: values.name(value).to_owned(),
            expression: term.text,
            line: values.line(value),
        });
        terms.push(Term::primary(values.name(value)));
    }
    statements
}

/// The function to call for a value of limited accuracy, and its operands, where it follows from more than the operation.
fn approximated<V: Values>(
    users: &Users<'_, V>,
    value: usize,
    formula: &Formula,
    accuracy: Accuracy,
) -> Option<(String, SmallVec<[usize; 2]>)> {
    if let Some(operands) = reciprocal_of_sum(users.values(), formula) {
        return Some((format!("{}recip_of_sum", accuracy.namespace()), operands));
    }
    let Formula::Apply(op @ (Op::Exp | Op::Exp2 | Op::Erf | Op::Tanh), operands) = formula else { return None };
    let name = match (users.beside(value, *op), op) {
        (Beside::One, _) => format!("{}{}_beside_one", accuracy.namespace(), op.symbol()),
        // The instruction's error of 2^-11 would be most of what is left.
        (Beside::Sometimes, Op::Tanh) => format!("{}tanh", Accuracy::Bits11.namespace()),
        _ => return None,
    };
    Some((name, SmallVec::from_slice(operands)))
}

/// The two operands of a sum, if this value is the sum's reciprocal. One is a number from 1 on, and the other is not
/// negative, as in a logistic function: there is a short instruction for it. The sum itself has no other user.
fn reciprocal_of_sum(values: &impl Values, formula: &Formula) -> Option<SmallVec<[usize; 2]>> {
    let literal_from = |value: usize, least: f64| matches!(values.formula(value), Formula::Literal(x) if x >= least);
    let no_less_than_0 = |value: usize| match values.formula(value) {
        Formula::Apply(op, _) => matches!(op, Op::Exp | Op::Exp2 | Op::Abs),
        _ => literal_from(value, 0.0),
    };
    let operand = match formula {
        Formula::Apply(Op::Recip, operands) => operands[0],
        Formula::Apply(Op::Div, operands) if values.formula(operands[0]) == Formula::Literal(1.0) => operands[1],
        _ => return None,
    };
    let Formula::Apply(Op::Add, terms) = values.formula(operand) else { return None };
    let is_it = |one: usize, other: usize| literal_from(one, 1.0) && no_less_than_0(other);
    let ordered = [[terms[0], terms[1]], [terms[1], terms[0]]].into_iter().find(|[one, other]| is_it(*one, *other))?;
    (values.uses(operand) == 1 && !values.is_named(operand)).then(|| SmallVec::from_slice(&ordered))
}

/// The text of a value from that of its operands. The first of these has the type `operand`.
fn term(formula: &Formula, operand: Scalar, terms: &[Term], accuracy: Accuracy, functions: &mut Functions) -> Term {
    let operands: SmallVec<[&Term; 3]> = formula.operands().iter().map(|&o| &terms[o]).collect();
    match formula {
        // The caller handles these; their text has no operands.
        Formula::Given => Term::primary(""),
        Formula::Literal(number) => Term::number(literal(*number, functions.real())),
        Formula::Integer(number) => Term::number(integer(*number, operand)),
        Formula::Apply(op, _) if operand == Scalar::I64 => wrapping(*op, &operands),
        Formula::Apply(op, _) => apply(*op, &operands, accuracy),
        Formula::Logic(logic, _) => Term::logic(*logic, &operands),
        Formula::Real(_) => Term::call(real_name(functions.real()), &operands),
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
        Formula::Cast(to, _) => Term::call(&format!("math::round_{}", element_name(*to)), &operands),
    }
}

/// An operation on 64-bit integers. C++'s own sums and products are undefined if they overflow.
fn wrapping(op: Op, operands: &[&Term]) -> Term {
    match op {
        Op::Neg | Op::Add | Op::Sub | Op::Mul => {
            let name = match op {
                Op::Neg => "neg",
                Op::Add => "add",
                Op::Sub => "sub",
                _ => "mul",
            };
            Term::call(&format!("math::wrapping_{name}"), operands)
        }
        _ => apply(op, operands, Accuracy::Full),
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
            use Op::{Div, Erf, Exp, Exp2, Log, Log1p, Log2, Recip, Sqrt, Tanh};
            matches!(op, Exp | Exp2 | Log | Log2 | Log1p | Sqrt | Recip | Div | Tanh | Erf)
        }
    };
    let namespace = if approximate { accuracy.namespace() } else { "" };
    let name = if op == Op::Div { "div" } else { op.symbol() };
    Term::call(&format!("math::{namespace}{name}"), operands)
}

/// The elementwise functions that printed expressions call, with their required accuracy.
#[derive(Debug)]
pub struct Functions {
    real: Real,
    fast: bool,
    names: HashMap<(usize, Accuracy), String>,
    taken: FreeNames,
    text: String,
}

impl Functions {
    /// Without functions so far. `fast` allows approximate instructions for outputs of any type (except in f64).
    #[must_use]
    pub fn new(real: Real, fast: bool) -> Self {
        // The namespaces inside `ops`.
        let mut taken = FreeNames::numbered(2);
        taken.reserve(["approx11", "approx8"]);
        Self { real, fast, names: HashMap::new(), taken, text: String::new() }
    }

    /// The arithmetic type.
    #[must_use]
    pub const fn real(&self) -> Real {
        self.real
    }

    /// The bits of an operation's result that must be right, given those of its outputs.
    fn allowed(&self, significand: u32) -> u32 {
        if self.fast { significand.min(8) } else { significand }
    }

    /// The name with which to call a function; makes sure that it and the functions that it calls are defined.
    fn require(&mut self, function: &'static Function, accuracy: Accuracy) -> String {
        // A hand-written body is the same at every accuracy.
        let accuracy = if function.cuda().is_some() { Accuracy::Full } else { accuracy };
        let key = (std::ptr::from_ref(function).addr(), accuracy);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let scope = accuracy.namespace();
        let qualified = self.taken.unique(&format!("{scope}{}", identifier::sanitize(function.name())));
        let name = &qualified[scope.len()..];
        let called = format!("ops::{qualified}");
        self.names.insert(key, called.clone());
        let definition = self.definition(function, name, accuracy);
        self.text.push_str(&definition);
        called
    }

    /// The name with which to call a function if all bits of its result matter: `ops::f`, within `namespace epilogue`.
    pub fn accurate(&mut self, function: &'static Function) -> String {
        self.require(function, Accuracy::Full)
    }

    /// The name with which to call a function if 11 significant bits of its result matter; the same name in f64.
    pub fn of_11_bits(&mut self, function: &'static Function) -> String {
        let accuracy = Accuracy::of(11, self.real);
        self.require(function, accuracy)
    }

    fn definition(&mut self, function: &'static Function, name: &str, accuracy: Accuracy) -> String {
        let real = real_name(self.real);
        let parameters = Parameters::of(function);
        let list: Vec<String> = parameters.names.iter().map(|p| format!("{real} {p}")).collect();
        let scope = accuracy.namespace().trim_end_matches("::");
        let (open, close) = match scope {
            "" => ("namespace ops {".to_owned(), "}  // namespace ops"),
            inner => (format!("namespace ops::{inner} {{"), "}"),
        };
        let mut code = Writer::new();
        writeln!(code, "{open}\n__device__ __forceinline__ {real} {name}({}) {{", list.join(", "));
        match (function.cuda(), function.body()) {
            (Some(text), _) => {
                // `real` is the arithmetic type's name in hand-written bodies.
                writeln!(code, "using real = {real};");
                code.verbatim(&format!("    {}\n", text.trim()));
            }
            (None, Body::Primitive(op)) => {
                let values = PrimitiveValues { op: *op, parameters: &parameters.names, accuracy };
                self.print(&values, parameters.names.len(), &mut code);
            }
            (None, Body::Expression(expression)) => {
                let values = ExpressionValues::new(expression, &parameters, accuracy);
                self.print(&values, expression.root().index(), &mut code);
            }
        }
        writeln!(code, "}}\n{close}");
        code.text()
    }

    fn print(&mut self, values: &impl Values, root: usize, body: &mut Writer) {
        for statement in statements(values, |_| true, self) {
            if statement.value == root {
                writeln!(body, "return {};", statement.expression);
            } else {
                writeln!(body, "{statement}");
            }
        }
        match values.formula(root) {
            Formula::Given => writeln!(body, "return {};", values.name(root)),
            Formula::Literal(number) => writeln!(body, "return {};", literal(number, self.real)),
            _ => {}
        }
    }

    /// The definitions, callees first, each in `namespace ops`.
    #[must_use]
    pub fn definitions(&self) -> &str {
        &self.text
    }
}
