//! Expressions as straight-line programs over strips: every step does one operation in all lanes.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::ElementType;
use crate::expr::{Function, Op};
use crate::lane::function::Inline;
use crate::lane::{Class, Constant, LaneStep, Operation, Register};
use crate::te::auto::bind::arguments::Sizes;
use crate::te::auto::pattern::reads::refused;
use crate::te::dtype::{DType, Held};
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;
use crate::tuning::Tuning;

/// The most steps of a program. A division is computed once for every set of conditions that guard it, which can be
/// many.
const MOST_STEPS: usize = 1 << 18;

/// The class in which values of a type are computed.
pub(in crate::te::auto) const fn class_of(dtype: DType) -> Class {
    match dtype.held() {
        Held::Bool | Held::I32 => Class::I32,
        Held::I64 => Class::I64,
        Held::F64 => Class::F64,
        Held::F32 => Class::F32,
    }
}

/// The conversion to a type.
const fn cast(dtype: DType) -> Operation {
    match dtype {
        DType::Bool => Operation::Truth,
        DType::Number(element) => Operation::Cast(element),
    }
}

const fn operation(op: Binary, dtype: DType) -> Operation {
    match op {
        Binary::Add => Operation::Apply(Op::Add),
        Binary::Sub => Operation::Apply(Op::Sub),
        Binary::Mul => Operation::Apply(Op::Mul),
        Binary::Div => Operation::Apply(Op::Div),
        Binary::Min => Operation::Apply(Op::Min),
        Binary::Max => Operation::Apply(Op::Max),
        Binary::Lt => Operation::Apply(Op::Lt),
        Binary::Le => Operation::Apply(Op::Le),
        Binary::Gt => Operation::Apply(Op::Gt),
        Binary::Ge => Operation::Apply(Op::Ge),
        Binary::Eq => Operation::Apply(Op::Eq),
        Binary::Ne => Operation::Apply(Op::Ne),
        Binary::FloorDiv => Operation::FloorDiv,
        Binary::FloorMod => Operation::FloorMod,
        Binary::And | Binary::BitAnd => Operation::And,
        Binary::Or | Binary::BitOr => Operation::Or,
        Binary::BitXor => Operation::Xor,
        Binary::Shl => Operation::ShiftLeft,
        Binary::Shr if matches!(dtype, DType::U64) => Operation::ShiftUnsigned,
        Binary::Shr => Operation::ShiftRight,
    }
}

/// The steps that compute some values from variables.
#[derive(Clone, Debug, Default)]
pub(in crate::te::auto) struct Program {
    pub(in crate::te::auto) tuning: Tuning,
    pub(in crate::te::auto) steps: Vec<LaneStep>,
    /// The number of registers of every class.
    pub(in crate::te::auto) counts: [usize; 4],
    /// The initial values of some registers; no step writes these.
    pub(in crate::te::auto) constants: Vec<(Register, Constant)>,
    variables: HashMap<Var, Register>,
    /// The values that the steps so far have computed.
    known: HashMap<Expr, Register>,
    /// The divisions so far, each under the conditions that guard it; it has no value elsewhere.
    divided: HashMap<(Expr, Vec<Register>), Register>,
    /// The conditions that guard the current expression.
    guards: Vec<Register>,
}

/// The operands of one operation.
type Operands = SmallVec<[Register; 3]>;

impl Program {
    /// No steps yet.
    pub(in crate::te::auto) fn new(tuning: Tuning) -> Self {
        Self { tuning, ..Self::default() }
    }

    /// A new register.
    pub(in crate::te::auto) fn register(&mut self, class: Class) -> Register {
        let count = &mut self.counts[class as usize];
        *count += 1;
        Register { class, number: *count - 1 }
    }

    /// Adds a step, and gives the register of its result.
    fn step(&mut self, operation: Operation, class: Class, operands: &[Register]) -> Register {
        let to = self.register(class);
        self.steps.push(LaneStep::new(operation, to, operands));
        to
    }

    /// The register of a variable; it must be filled before the program runs.
    pub(in crate::te::auto) fn variable(&mut self, var: Var) -> Register {
        if let Some(register) = self.variables.get(&var) {
            return *register;
        }
        let register = self.register(class_of(var.dtype()));
        self.variables.insert(var, register);
        register
    }

    /// Ends the current part and gives its steps. The next part computes its values itself.
    pub(in crate::te::auto) fn take_steps(&mut self) -> Vec<LaneStep> {
        self.known.clear();
        self.divided.clear();
        std::mem::take(&mut self.steps)
    }

    /// Copies registers, for values that replace variables although some of them are variables themselves.
    pub(in crate::te::auto) fn apart(&mut self, values: &[Register]) -> Vec<Register> {
        if !values.iter().any(|value| self.variables.values().any(|var| var == value)) {
            return values.to_vec();
        }
        values.iter().map(|value| self.step(Operation::Copy, value.class, &[*value])).collect()
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

    /// The divisor, or 1 where the quotient is not used.
    fn divisor(&mut self, mut by: Register) -> Register {
        for guard in self.guards.clone() {
            let one = self.constant(Constant::Integer(1), by.class);
            by = self.step(Operation::Apply(Op::Select), by.class, &[guard, by, one]);
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
            (Kind::Select(..), [other, _]) | (Kind::Binary(Binary::Or, ..), [other]) => {
                Some(self.step(Operation::Not, Class::I32, &[*other]))
            }
            _ => None,
        }
    }

    /// An operation whose operands have been computed.
    fn applied(&mut self, x: &Expr, operands: &[Register], sizes: &Sizes) -> Result<Register, TeError> {
        let class = class_of(x.dtype());
        match (x.kind(), operands) {
            (Kind::Int(value), _) => Ok(self.constant(Constant::Integer(*value), class)),
            (Kind::Float(value), _) => Ok(self.number(*value, class)),
            (Kind::Var(var), _) if !var.is_counter() => Ok(self.constant(Constant::Integer(sizes.value(x)?), class)),
            (Kind::Var(var), _) => Ok(self.variable(*var)),
            (Kind::Binary(op, ..), &[a, b]) => {
                let b = if matches!(op, Binary::FloorDiv | Binary::FloorMod) { self.divisor(b) } else { b };
                let value = self.step(operation(*op, x.dtype()), class, &[a, b]);
                Ok(self.wrapped(value, x.dtype()))
            }
            (Kind::Not(_), _) => Ok(self.step(Operation::Not, class, operands)),
            (Kind::Select(..), _) => Ok(self.step(Operation::Apply(Op::Select), class, operands)),
            (Kind::Cast(inner), &[a]) => {
                // A u64 and an i64 have the same bits.
                let (from, to) = (inner.dtype(), x.dtype());
                let is_wide = matches!(to, DType::I32 | DType::I64 | DType::U64);
                if is_wide && from.is_integer() && from.held() == to.held() {
                    // It is already held in this way.
                    return Ok(a);
                }
                Ok(self.step(cast(x.dtype()), class, &[a]))
            }
            (Kind::Apply(op, _), _) => Ok(self.apply(*op, class, operands)),
            (Kind::Call(function, _), _) => Ok(self.call(function, class, operands)),
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

    /// An integer wrapped to a range that is narrower than the register's.
    fn wrapped(&mut self, x: Register, dtype: DType) -> Register {
        if dtype.narrow_range().is_none() {
            return x;
        }
        self.step(cast(dtype), class_of(dtype), &[x])
    }

    fn apply(&mut self, op: Op, class: Class, operands: &[Register]) -> Register {
        let class = if op.is_comparison() { Class::I32 } else { class };
        self.step(Operation::Apply(op), class, operands)
    }

    /// An elementwise function, inlined.
    fn call(&mut self, function: &Function, class: Class, operands: &[Register]) -> Register {
        InClass { program: self, class }.call(function, operands)
    }
}

/// Builds what is computed in one class.
struct InClass<'a> {
    program: &'a mut Program,
    class: Class,
}

impl Inline for InClass<'_> {
    type Value = Register;

    fn literal(&mut self, x: f64) -> Register {
        self.program.number(x, self.class)
    }

    fn apply(&mut self, op: Op, operands: &[Register]) -> Register {
        self.program.apply(op, self.class, operands)
    }

    fn round(&mut self, element: ElementType, x: Register) -> Register {
        self.program.step(Operation::Round(element), self.class, &[x])
    }
}

fn divides(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |part| found |= matches!(part.kind(), Kind::Binary(Binary::FloorDiv | Binary::FloorMod, ..)));
    found
}
