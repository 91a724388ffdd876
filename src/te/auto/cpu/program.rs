//! Expressions as straight-line programs over strips: every step does one operation in all lanes.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use crate::ElementType;
use crate::expr::{Body, ExprNode, Function, Op};
use crate::te::auto::bind::arguments::Sizes;
use crate::te::auto::pattern::reads::refused;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

/// The most steps of a program. A division is computed once for every set of conditions that guard it, which can be
/// many.
const MOST_STEPS: usize = 1 << 18;

/// What one lane of a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum Class {
    F32,
    F64,
    /// Also 8-bit integers, within their range, and truth values as 0 or 1.
    I32,
    I64,
}

impl Class {
    /// The class in which values of a type are computed.
    pub(in crate::te::auto) fn of(dtype: DType) -> Self {
        match dtype {
            DType::Bool | DType::Number(ElementType::I32 | ElementType::I8 | ElementType::U8) => Self::I32,
            DType::Number(ElementType::I64) => Self::I64,
            DType::Number(ElementType::F64) => Self::F64,
            DType::Number(_) => Self::F32,
        }
    }
}

/// A register: its class and its number in that class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct Register {
    pub(in crate::te::auto) class: Class,
    pub(in crate::te::auto) number: usize,
}

/// A constant, the same in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) enum Constant {
    /// The bits of an f64.
    Number(u64),
    Integer(i64),
}

/// One operation on strips.
#[derive(Clone, Debug)]
pub(in crate::te::auto) enum Step {
    /// Result, operands.
    Binary(Binary, Register, Register, Register),
    Not(Register, Register),
    /// Result, condition, then, otherwise.
    Select(Register, Register, Register, Register),
    /// A primitive operation of one to three operands of the result's class.
    Apply(Op, Register, [Register; 3]),
    /// Conversion to a type by rounding or truncation; the result has the type's class.
    Cast(DType, Register, Register),
    /// The nearest integer of a floating-point number, ties to even, in the same class.
    Nearest(Register, Register),
    Copy(Register, Register),
}

impl Step {
    /// Whether it fails for some operands.
    pub(in crate::te::auto) const fn divides_integers(&self) -> bool {
        matches!(
            self,
            Self::Binary(
                Binary::FloorDiv | Binary::FloorMod | Binary::Div,
                Register { class: Class::I32 | Class::I64, .. },
                ..
            )
        )
    }

    /// The registers that it reads.
    pub(in crate::te::auto) fn operands(&self) -> SmallVec<[Register; 3]> {
        match self {
            Self::Binary(_, _, a, b) => smallvec![*a, *b],
            Self::Not(_, a) | Self::Cast(_, _, a) | Self::Nearest(_, a) | Self::Copy(_, a) => smallvec![*a],
            Self::Select(_, condition, a, b) => smallvec![*condition, *a, *b],
            Self::Apply(_, _, operands) => SmallVec::from_slice(operands),
        }
    }

    /// The register that it writes.
    pub(in crate::te::auto) const fn to(&self) -> Register {
        match self {
            Self::Binary(_, to, ..)
            | Self::Not(to, _)
            | Self::Select(to, ..)
            | Self::Apply(_, to, _)
            | Self::Cast(_, to, _)
            | Self::Nearest(to, _)
            | Self::Copy(to, _) => *to,
        }
    }
}

/// The steps that compute some values from variables.
#[derive(Clone, Debug, Default)]
pub(in crate::te::auto) struct Program {
    pub(in crate::te::auto) steps: Vec<Step>,
    /// The number of registers of every class.
    pub(in crate::te::auto) counts: [usize; 4],
    /// The initial values of some registers; no step writes these.
    pub(in crate::te::auto) constants: Vec<(Register, Constant)>,
    variables: HashMap<Var, Register>,
    /// The values that the steps so far have computed.
    known: HashMap<Expr, Register>,
    /// The same for divisions, which have a value only under the conditions that guard them.
    divided: HashMap<(Expr, Vec<Register>), Register>,
    /// The conditions that guard the current expression.
    guards: Vec<Register>,
}

/// The operands of one operation.
type Operands = SmallVec<[Register; 3]>;

impl Program {
    /// A new register.
    pub(in crate::te::auto) fn register(&mut self, class: Class) -> Register {
        let count = &mut self.counts[class as usize];
        *count += 1;
        Register { class, number: *count - 1 }
    }

    /// The register of a variable; it must be filled before the program runs.
    pub(in crate::te::auto) fn variable(&mut self, var: Var) -> Register {
        if let Some(register) = self.variables.get(&var) {
            return *register;
        }
        let register = self.register(Class::of(var.dtype()));
        self.variables.insert(var, register);
        register
    }

    /// Ends the current part and gives its steps. The next part computes its values itself.
    pub(in crate::te::auto) fn take_steps(&mut self) -> Vec<Step> {
        self.known.clear();
        self.divided.clear();
        std::mem::take(&mut self.steps)
    }

    /// Copies registers, for values that replace variables although some of them are variables themselves.
    pub(in crate::te::auto) fn apart(&mut self, values: &[Register]) -> Vec<Register> {
        if !values.iter().any(|value| self.variables.values().any(|var| var == value)) {
            return values.to_vec();
        }
        let copy = |value: &Register| {
            let to = self.register(value.class);
            self.steps.push(Step::Copy(to, *value));
            to
        };
        values.iter().map(copy).collect()
    }

    /// Lets a variable stand for a register.
    pub(in crate::te::auto) fn bind(&mut self, var: Var, register: Register) {
        self.variables.insert(var, register);
    }

    /// Computes an expression, each node once.
    pub(in crate::te::auto) fn value(&mut self, x: &Expr, sizes: &Sizes) -> Result<Register, TeError> {
        if let Some(register) = self.known.get(x) {
            return Ok(*register);
        }
        // A division under a guard has no value elsewhere.
        if self.guards.is_empty() || !divides(x) {
            let register = self.compute(x, sizes)?;
            self.known.insert(x.clone(), register);
            return Ok(register);
        }
        let key = (x.clone(), self.guards.clone());
        if let Some(register) = self.divided.get(&key) {
            return Ok(*register);
        }
        let register = self.compute(x, sizes)?;
        if self.steps.len() > MOST_STEPS {
            return Err(ExpressionError::Unfolded { most: MOST_STEPS }.into());
        }
        self.divided.insert(key, register);
        Ok(register)
    }

    /// Computes an expression that needs to have a value only where the condition holds.
    pub(in crate::te::auto) fn guarded(
        &mut self,
        condition: Register,
        x: &Expr,
        sizes: &Sizes,
    ) -> Result<Register, TeError> {
        self.guards.push(condition);
        let value = self.value(x, sizes);
        self.guards.pop();
        value
    }

    fn negated(&mut self, condition: Register) -> Register {
        let to = self.register(Class::I32);
        self.steps.push(Step::Not(to, condition));
        to
    }

    /// The divisor, or 1 where the quotient is not used.
    fn divisor(&mut self, mut by: Register) -> Register {
        for guard in self.guards.clone() {
            let (one, to) = (self.constant(Constant::Integer(1), by.class), self.register(by.class));
            self.steps.push(Step::Select(to, guard, by, one));
            by = to;
        }
        by
    }

    /// Computes an operation's operands, and then the operation. This function calls itself at every level of an
    /// expression, so it must use little of the stack; what needs more is in other functions.
    fn compute(&mut self, x: &Expr, sizes: &Sizes) -> Result<Register, TeError> {
        let mut operands = Operands::new();
        if !matches!(x.kind(), Kind::Read(..) | Kind::Load(..) | Kind::Reduce(..)) {
            for operand in x.operands() {
                let operand = match self.guard(x.kind(), &operands) {
                    Some(guard) => self.guarded(guard, operand, sizes)?,
                    None => self.value(operand, sizes)?,
                };
                operands.push(operand);
            }
        }
        self.applied(x, &operands, sizes)
    }

    /// The condition that guards the next operand, given the operands before it.
    fn guard(&mut self, kind: &Kind, before: &[Register]) -> Option<Register> {
        match (kind, before) {
            (Kind::Select(..), [chosen]) | (Kind::Binary(Binary::And, ..), [chosen]) => Some(*chosen),
            (Kind::Select(..), [other, _]) | (Kind::Binary(Binary::Or, ..), [other]) => Some(self.negated(*other)),
            _ => None,
        }
    }

    /// An operation whose operands have been computed.
    fn applied(&mut self, x: &Expr, operands: &[Register], sizes: &Sizes) -> Result<Register, TeError> {
        let class = Class::of(x.dtype());
        match (x.kind(), operands) {
            (Kind::Int(value), _) => Ok(self.constant(Constant::Integer(*value), class)),
            (Kind::Float(value), _) => Ok(self.number(*value, class)),
            (Kind::Var(var), _) if !var.is_counter() => Ok(self.constant(Constant::Integer(sizes.value(x)?), class)),
            (Kind::Var(var), _) => Ok(self.variable(*var)),
            (Kind::Binary(op, ..), &[a, b]) => {
                let b = if matches!(op, Binary::FloorDiv | Binary::FloorMod) { self.divisor(b) } else { b };
                let to = self.register(class);
                self.steps.push(Step::Binary(*op, to, a, b));
                Ok(self.wrapped(to, x.dtype()))
            }
            (Kind::Not(_), &[a]) => {
                let to = self.register(class);
                self.steps.push(Step::Not(to, a));
                Ok(to)
            }
            (Kind::Select(..), &[condition, a, b]) => {
                let to = self.register(class);
                self.steps.push(Step::Select(to, condition, a, b));
                Ok(to)
            }
            (Kind::Cast(inner), &[a]) => {
                let narrow = matches!(inner.dtype(), DType::Number(ElementType::I8 | ElementType::U8));
                if narrow && x.dtype() == DType::Number(ElementType::I32) {
                    // It is already held in this way.
                    return Ok(a);
                }
                let to = self.register(class);
                self.steps.push(Step::Cast(x.dtype(), to, a));
                Ok(to)
            }
            (Kind::Apply(op, _), _) => Ok(self.apply(*op, class, operands)),
            (Kind::Call(function, _), _) => self.call(function, class, operands),
            (Kind::Likely(_), &[a]) => Ok(a),
            (Kind::Invalid(error), _) => Err(error.clone()),
            _ => Err(refused("an expression that is not prepared")),
        }
    }

    fn number(&mut self, value: f64, class: Class) -> Register {
        self.constant(Constant::Number(value.to_bits()), class)
    }

    fn constant(&mut self, constant: Constant, class: Class) -> Register {
        let known = self.constants.iter().find(|(register, known)| register.class == class && *known == constant);
        if let Some((register, _)) = known {
            return *register;
        }
        let register = self.register(class);
        self.constants.push((register, constant));
        register
    }

    /// An 8-bit integer wrapped to its range.
    fn wrapped(&mut self, x: Register, dtype: DType) -> Register {
        if !matches!(dtype, DType::Number(ElementType::I8 | ElementType::U8)) {
            return x;
        }
        let to = self.register(Class::I32);
        self.steps.push(Step::Cast(dtype, to, x));
        to
    }

    fn apply(&mut self, op: Op, class: Class, operands: &[Register]) -> Register {
        let comparison = match op {
            Op::Lt => Some(Binary::Lt),
            Op::Le => Some(Binary::Le),
            Op::Gt => Some(Binary::Gt),
            Op::Ge => Some(Binary::Ge),
            Op::Eq => Some(Binary::Eq),
            Op::Ne => Some(Binary::Ne),
            _ => None,
        };
        if let Some(comparison) = comparison {
            let to = self.register(Class::I32);
            self.steps.push(Step::Binary(comparison, to, operands[0], operands[1]));
            return to;
        }
        let to = self.register(class);
        if op == Op::Select {
            self.steps.push(Step::Select(to, operands[0], operands[1], operands[2]));
            return to;
        }
        let operand = |i: usize| operands.get(i).copied().unwrap_or(operands[0]);
        self.steps.push(Step::Apply(op, to, [operand(0), operand(1), operand(2)]));
        to
    }

    /// An elementwise function, inlined.
    fn call(&mut self, function: &Function, class: Class, operands: &[Register]) -> Result<Register, TeError> {
        let expression = match function.body() {
            Body::Primitive(op) => return Ok(self.apply(*op, class, operands)),
            Body::Expression(expression) => expression,
        };
        let mut values: Vec<Register> = Vec::with_capacity(expression.nodes().len());
        for node in expression.nodes() {
            let inner: Vec<Register> = node.operands().iter().map(|id| values[id.index()]).collect();
            let value = match node {
                ExprNode::Parameter(place) => operands[*place],
                ExprNode::Literal(value) => self.number(*value, class),
                ExprNode::Apply(op, _) => self.apply(*op, class, &inner),
                ExprNode::Call(function, _) => self.call(function, class, &inner)?,
                ExprNode::Cast(element, _) => {
                    // Rounded to the type, and back. In the language of epilogues a cast to an integer rounds; in a
                    // tensor expression it truncates.
                    let mut from = inner[0];
                    if !element.is_float() {
                        from = self.register(class);
                        self.steps.push(Step::Nearest(from, inner[0]));
                    }
                    let rounded = self.register(Class::of(DType::from(*element)));
                    self.steps.push(Step::Cast(DType::from(*element), rounded, from));
                    let to = self.register(class);
                    let dtype = if class == Class::F64 { DType::from(ElementType::F64) } else { DType::F32 };
                    self.steps.push(Step::Cast(dtype, to, rounded));
                    to
                }
            };
            values.push(value);
        }
        Ok(values[expression.root().index()])
    }
}

fn divides(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |part| found |= matches!(part.kind(), Kind::Binary(Binary::FloorDiv | Binary::FloorMod, ..)));
    found
}
