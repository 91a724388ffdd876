//! Lowers steps to machine code: to what one lane computes, a [`Body`].

use std::collections::HashMap;
use std::hash::Hash;

use super::scalar::Scalar as _;
use super::{Class, Constant, LaneStep, Operation, Register};
use crate::ElementType;
use crate::expr::Op;
use crate::jit::{Binary, Body, JitValue, Lane, Unary};

/// A value, and what its 32 or 64 bits are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Typed {
    Float(JitValue),
    Integer(JitValue),
    /// A truth value as all bits or none: 1 or 0 in a register.
    Mask(JitValue),
}

/// Which lanes the values of a body have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyLanes {
    /// 32 bits. Integers have 32 bits, whatever their class: a caller that lowers steps on 64-bit integers must know that
    /// they fit.
    #[default]
    Narrow,
    /// 64 bits: f64s, i64s, and f32s that are held as f64s until they are cast.
    Wide,
    /// All lanes of a value are equal, so values of 32 and of 64 bits fit together: in stages that are computed once.
    Equal,
}

/// The values of registers so far.
#[derive(Debug)]
pub(crate) struct Lowering<R = usize> {
    pub(crate) body: Body,
    lanes: BodyLanes,
    values: HashMap<Register<R>, Typed>,
}

impl<R> Default for Lowering<R> {
    fn default() -> Self {
        Self::with_lanes(BodyLanes::Narrow)
    }
}

impl<R> Lowering<R> {
    pub(crate) fn with_lanes(lanes: BodyLanes) -> Self {
        let body = if lanes == BodyLanes::Wide { Body::wide() } else { Body::default() };
        Self { body, lanes, values: HashMap::new() }
    }

    pub(crate) const fn lanes(&self) -> BodyLanes {
        self.lanes
    }
}

/// Whether there is vector code for a step of 32-bit lanes.
pub(crate) fn has_code<R: Copy + Eq + Hash>(step: &LaneStep<R>) -> bool {
    let mut lowering = Lowering::default();
    for operand in step.operands() {
        let value = lowering.body.bits(0);
        lowering.set(*operand, Typed::of(operand.class, value));
    }
    lowering.step(step).is_some()
}

impl Typed {
    /// The 32 bits of a register of this class.
    pub(crate) const fn of(class: Class, value: JitValue) -> Self {
        if class.is_float() { Self::Float(value) } else { Self::Integer(value) }
    }

    /// A value of a register's class, if these lanes hold it as it is.
    pub(crate) const fn held(class: Class, value: JitValue, lanes: BodyLanes) -> Option<Self> {
        match (class.is_wide(), lanes) {
            (true, BodyLanes::Narrow) | (false, BodyLanes::Wide) => None,
            _ => Some(Self::of(class, value)),
        }
    }

    /// A value of a register's class; `None` for classes of 64 bits.
    pub(crate) const fn narrow(class: Class, value: JitValue) -> Option<Self> {
        match class {
            Class::F32 | Class::I32 => Some(Self::of(class, value)),
            Class::F64 | Class::I64 => None,
        }
    }
}

/// Registers.
impl<R: Copy + Eq + Hash> Lowering<R> {
    /// The register's value so far.
    pub(crate) fn get(&self, register: Register<R>) -> Option<Typed> {
        self.values.get(&register).copied()
    }

    pub(crate) fn set(&mut self, register: Register<R>, value: Typed) {
        self.values.insert(register, value);
    }

    pub(crate) fn constant(&mut self, class: Class, constant: Constant) -> Option<Typed> {
        let value = match class {
            Class::F32 => self.body.float(f32::constant(constant)),
            Class::I32 => self.body.integer(i32::constant(constant)),
            Class::F64 => self.body.double(f64::constant(constant)),
            Class::I64 => self.body.wide_bits(i64::constant(constant).cast_unsigned()),
        };
        Typed::held(class, value, self.lanes)
    }

    /// The bits of a value in a register of a class, as long as [lanes](BodyLanes) are; `None` for a truth value as a
    /// number of 64 bits.
    pub(crate) fn wide_bits(&mut self, class: Class, typed: Typed) -> Option<JitValue> {
        let is_number = matches!(typed, Typed::Float(_) | Typed::Integer(_));
        (is_number || (!class.is_wide() && self.lanes != BodyLanes::Wide)).then(|| self.bits(class, typed))
    }

    /// The 32 bits of a value in a register of a class.
    pub(crate) fn bits(&mut self, class: Class, typed: Typed) -> JitValue {
        match typed {
            Typed::Float(value) | Typed::Integer(value) => value,
            Typed::Mask(mask) if class.is_float() => {
                let one = self.body.float(1.0);
                self.body.binary(Binary::And, mask, one)
            }
            Typed::Mask(mask) => self.body.unary(Unary::ShiftRight(31), mask),
        }
    }

    /// A register's value as lanes in memory, as they are stored.
    pub(crate) fn narrowed(&mut self, class: Class, typed: Typed, lane: Lane) -> Option<JitValue> {
        let bits = self.wide_bits(class, typed)?;
        match lane {
            Lane::F64 if class == Class::F64 => Some(bits),
            _ if class.is_wide() => None,
            _ if class.is_float() => self.body.narrowed(lane, bits),
            Lane::I32 => Some(bits),
            Lane::I8 | Lane::U8 => Some(self.body.as_bytes(bits)),
            _ => None,
        }
    }
}

/// Truth values.
impl<R: Copy + Eq + Hash> Lowering<R> {
    fn not(&mut self, mask: JitValue) -> JitValue {
        let ones = self.body.bits(u32::MAX);
        self.body.binary(Binary::Xor, mask, ones)
    }

    fn is_zero(&mut self, value: JitValue) -> JitValue {
        let zero = self.body.integer(0);
        self.body.binary(Binary::EqualI32, value, zero)
    }

    /// The lanes where a truth value holds.
    pub(crate) fn mask(&mut self, typed: Typed) -> JitValue {
        match typed {
            Typed::Mask(mask) => mask,
            Typed::Integer(value) => {
                let zero = self.is_zero(value);
                self.not(zero)
            }
            Typed::Float(value) => {
                let zero = self.body.float(0.0);
                self.body.binary(Binary::NotEqual, value, zero)
            }
        }
    }

    /// By a mask, one or the other of two values of a class.
    pub(crate) fn select(&mut self, class: Class, mask: JitValue, a: Typed, b: Typed) -> Typed {
        if let (Typed::Mask(a), Typed::Mask(b)) = (a, b) {
            return Typed::Mask(self.body.select(mask, a, b));
        }
        let (a, b) = (self.bits(class, a), self.bits(class, b));
        Typed::of(class, self.body.select(mask, a, b))
    }

    /// Where a comparison of integers holds.
    fn compare_integers(&mut self, op: Op, a: JitValue, b: JitValue) -> Option<JitValue> {
        // The other three hold where one of these does not.
        let (of, a, b, holds) = match op {
            Op::Lt => (Binary::GreaterI32, b, a, true),
            Op::Le => (Binary::GreaterI32, a, b, false),
            Op::Gt => (Binary::GreaterI32, a, b, true),
            Op::Ge => (Binary::GreaterI32, b, a, false),
            Op::Eq => (Binary::EqualI32, a, b, true),
            Op::Ne => (Binary::EqualI32, a, b, false),
            _ => return None,
        };
        let mask = self.body.binary(of, a, b);
        Some(if holds { mask } else { self.not(mask) })
    }
}

/// Steps.
impl<R: Copy + Eq + Hash> Lowering<R> {
    /// Lowers a step, if its operands have values; `None` if there are no instructions for it.
    pub(crate) fn step(&mut self, step: &LaneStep<R>) -> Option<()> {
        let mut operands = Vec::with_capacity(3);
        for operand in step.operands() {
            operands.push((operand.class, self.get(*operand)?));
        }
        let value = self.value(step.operation, step.to.class, &operands)?;
        self.set(step.to, value);
        Some(())
    }

    fn value(&mut self, operation: Operation, class: Class, operands: &[(Class, Typed)]) -> Option<Typed> {
        let is_wide = class.is_wide() || operands.iter().any(|(of, _)| of.is_wide());
        match self.lanes {
            BodyLanes::Narrow => self.narrow_value(operation, class, operands),
            BodyLanes::Equal if !is_wide => self.narrow_value(operation, class, operands),
            BodyLanes::Equal | BodyLanes::Wide => self.wide_value(operation, class, operands),
        }
    }

    fn narrow_value(&mut self, operation: Operation, class: Class, operands: &[(Class, Typed)]) -> Option<Typed> {
        Some(match (operation, operands) {
            (Operation::Copy, &[(_, a)]) => a,
            (Operation::Truth, &[(_, a)]) => Typed::Mask(self.mask(a)),
            (Operation::Not, &[(_, Typed::Mask(mask))]) => Typed::Mask(self.not(mask)),
            (Operation::Not, &[(_, Typed::Integer(a))]) => Typed::Mask(self.is_zero(a)),
            (Operation::And, &[a, b]) => self.bitwise(Binary::And, a, b),
            (Operation::Or, &[a, b]) => self.bitwise(Binary::Or, a, b),
            (Operation::Xor, &[a, b]) => self.bitwise(Binary::Xor, a, b),
            (Operation::Round(element), &[(of, a)]) => {
                let a = self.bits(of, a);
                if element.is_float() {
                    return Some(Typed::Float(self.body.rounded(element, a)?));
                }
                let nearest = self.body.unary(Unary::Round(0), a);
                let integer = self.cast(element, of, Typed::Float(nearest))?;
                self.cast(ElementType::F32, Class::I32, integer)?
            }
            (Operation::Cast(element), &[(of, a)]) => self.cast(element, of, a)?,
            (Operation::Apply(Op::Select), &[(_, condition), (_, a), (_, b)]) => {
                let mask = self.mask(condition);
                self.select(class, mask, a, b)
            }
            (Operation::Apply(op), operands) if op.is_comparison() => {
                let &[(of, a), (_, b)] = operands else { return None };
                let (a, b) = (self.bits(of, a), self.bits(of, b));
                let mask = if of.is_float() { self.body.compare(op, a, b) } else { self.compare_integers(op, a, b) };
                Typed::Mask(mask?)
            }
            (Operation::Apply(op), operands) if class.is_float() => self.floats(op, operands)?,
            (Operation::Apply(op), operands) => self.integers(op, operands)?,
            _ => return None,
        })
    }

    fn bitwise(&mut self, op: Binary, (of, a): (Class, Typed), (_, b): (Class, Typed)) -> Typed {
        if let (Typed::Mask(a), Typed::Mask(b)) = (a, b) {
            return Typed::Mask(self.body.binary(op, a, b));
        }
        let (a, b) = (self.bits(of, a), self.bits(of, b));
        Typed::Integer(self.body.binary(op, a, b))
    }

    fn floats(&mut self, op: Op, operands: &[(Class, Typed)]) -> Option<Typed> {
        // Numbers 0 and 1: their product is a conjunction, the larger one a disjunction.
        match (op, operands) {
            (Op::Mul, &[(_, Typed::Mask(a)), (_, Typed::Mask(b))]) => {
                return Some(Typed::Mask(self.body.binary(Binary::And, a, b)));
            }
            (Op::Max, &[(_, Typed::Mask(a)), (_, Typed::Mask(b))]) => {
                return Some(Typed::Mask(self.body.binary(Binary::Or, a, b)));
            }
            _ => {}
        }
        let last = operands.len().checked_sub(1)?;
        let operand = |i: usize| operands[i.min(last)];
        let operands = [operand(0), operand(1), operand(2)].map(|(class, typed)| self.bits(class, typed));
        Some(Typed::Float(self.body.apply(op, operands)?))
    }

    fn integers(&mut self, op: Op, operands: &[(Class, Typed)]) -> Option<Typed> {
        let value = match *operands {
            [(class, a)] if op == Op::Neg => {
                let (zero, a) = (self.body.integer(0), self.bits(class, a));
                self.body.binary(Binary::SubI32, zero, a)
            }
            [(class, a), (_, b)] => {
                let op = match op {
                    Op::Add => Binary::AddI32,
                    Op::Sub => Binary::SubI32,
                    Op::Mul => Binary::MulI32,
                    Op::Min => Binary::LeastI32,
                    Op::Max => Binary::GreatestI32,
                    _ => return None,
                };
                let (a, b) = (self.bits(class, a), self.bits(class, b));
                self.body.binary(op, a, b)
            }
            _ => return None,
        };
        Some(Typed::Integer(value))
    }

    fn cast(&mut self, element: ElementType, of: Class, a: Typed) -> Option<Typed> {
        let a = self.bits(of, a);
        let body = &mut self.body;
        if of.is_float() {
            return Some(match element {
                ElementType::I32 => Typed::Integer(body.truncated(a)),
                ElementType::I16 | ElementType::I8 | ElementType::U16 | ElementType::U8 => {
                    let integer = body.truncated(a);
                    let most = 1 << (8 * element.size());
                    let (low, high) = if element.is_unsigned() { (0, most - 1) } else { (-most / 2, most / 2 - 1) };
                    Typed::Integer(body.hold_i32(integer, low, high))
                }
                _ => Typed::Float(body.rounded(element, a)?),
            });
        }
        Some(match element {
            ElementType::F32 => Typed::Float(body.unary(Unary::Float, a)),
            ElementType::I32 => Typed::Integer(a),
            ElementType::I16 | ElementType::I8 => {
                let beyond = 32 - 8 * element.size() as u8;
                let high = body.unary(Unary::ShiftLeft(beyond), a);
                Typed::Integer(body.unary(Unary::ShiftSigned(beyond), high))
            }
            ElementType::U16 | ElementType::U8 => {
                let low = body.integer((1 << (8 * element.size())) - 1);
                Typed::Integer(body.binary(Binary::And, a, low))
            }
            // 16-bit floats would be rounded twice.
            _ => return None,
        })
    }
}

/// Steps on values of 64 bits.
impl<R: Copy + Eq + Hash> Lowering<R> {
    fn wide_value(&mut self, operation: Operation, class: Class, operands: &[(Class, Typed)]) -> Option<Typed> {
        Some(match (operation, operands) {
            (Operation::Copy, &[(_, a)]) => a,
            (Operation::Not, &[(_, Typed::Mask(mask))]) => Typed::Mask(self.not(mask)),
            (Operation::And, &[(_, Typed::Mask(a)), (_, Typed::Mask(b))]) => {
                Typed::Mask(self.body.binary(Binary::And, a, b))
            }
            (Operation::Or, &[(_, Typed::Mask(a)), (_, Typed::Mask(b))]) => {
                Typed::Mask(self.body.binary(Binary::Or, a, b))
            }
            (Operation::Cast(element), &[(of, a)]) => self.wide_cast(element, of, a)?,
            (Operation::Apply(Op::Select), &[(_, Typed::Mask(mask)), (_, a), (_, b)]) if class.is_wide() => {
                let (a, b) = (self.wide_bits(class, a)?, self.wide_bits(class, b)?);
                Typed::of(class, self.body.select(mask, a, b))
            }
            (Operation::Apply(op), &[(of, a), (_, b)]) if op.is_comparison() && of.is_wide() => {
                let (a, b) = (self.wide_bits(of, a)?, self.wide_bits(of, b)?);
                if of.is_float() {
                    return Some(Typed::Mask(self.body.compare_f64(op, a, b)?));
                }
                let (mask, is_not) = self.body.compare_i64(op, a, b)?;
                Typed::Mask(if is_not { self.not(mask) } else { mask })
            }
            (Operation::Apply(op), operands) if class.is_wide() => {
                let last = operands.len().checked_sub(1)?;
                let mut bits = [JitValue::default(); 3];
                for (i, bits) in bits.iter_mut().enumerate() {
                    let (of, typed) = operands[i.min(last)];
                    *bits = if of == class { self.wide_bits(of, typed)? } else { return None };
                }
                match class {
                    Class::F64 => Typed::Float(self.body.apply_f64(op, bits)?),
                    _ => Typed::Integer(self.body.apply_i64(op, bits[0], bits[1])?),
                }
            }
            _ => return None,
        })
    }

    fn wide_cast(&mut self, element: ElementType, of: Class, a: Typed) -> Option<Typed> {
        let bits = self.wide_bits(of, a)?;
        Some(match (element, of, self.lanes) {
            // Wide bodies have loaded f32s as f64s.
            (ElementType::F64, Class::F64, _) | (ElementType::F64, Class::F32, BodyLanes::Wide) => Typed::Float(bits),
            (ElementType::F64, Class::F32, _) => Typed::Float(self.body.unary(Unary::WidenLow, bits)),
            // Extents, which are constants of a run.
            (ElementType::F64, Class::I32 | Class::I64, BodyLanes::Equal) => {
                let bits = self.body.known_bits(bits)?;
                let number = if of == Class::I64 { bits.cast_signed() as f64 } else { f64::from(bits as i32) };
                Typed::Float(self.body.double(number))
            }
            (ElementType::F32, Class::F64, BodyLanes::Equal) => {
                let half = self.body.unary(Unary::Narrow, bits);
                Typed::Float(self.body.binary(Binary::Join, half, half))
            }
            (ElementType::I64, Class::I64, _) => Typed::Integer(bits),
            _ => return None,
        })
    }
}
