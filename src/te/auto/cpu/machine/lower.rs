//! The steps of a loop as what one lane computes: a [`Body`](crate::jit::Body).

use std::collections::HashMap;

use crate::ElementType;
use crate::jit::{Binary as Two, Body, Lane, Unary, Value};
use crate::te::auto::cpu::program::{Class, Constant, Register, Step};
use crate::te::auto::cpu::registers::Lane as _;
use crate::te::dtype::DType;
use crate::te::expr::expression::Binary;

/// A value, and what its 32 bits are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Typed {
    F32(Value),
    I32(Value),
    /// All bits or none: 1 or 0 as an i32.
    Mask(Value),
}

/// The values of registers so far.
#[derive(Default)]
pub(super) struct Lowering {
    pub(super) body: Body,
    values: HashMap<Register, Typed>,
}

impl Lowering {
    /// The register's value so far.
    pub(super) fn get(&self, register: Register) -> Option<Typed> {
        self.values.get(&register).copied()
    }

    pub(super) fn set(&mut self, register: Register, value: Typed) {
        self.values.insert(register, value);
    }

    /// A value of a register's class; `None` for classes of 64 bits.
    pub(super) const fn typed(class: Class, value: Value) -> Option<Typed> {
        match class {
            Class::F32 => Some(Typed::F32(value)),
            Class::I32 => Some(Typed::I32(value)),
            Class::F64 | Class::I64 => None,
        }
    }

    pub(super) fn constant(&mut self, class: Class, constant: Constant) -> Option<Typed> {
        Some(match class {
            Class::F32 => Typed::F32(self.body.float(f32::of(constant))),
            Class::I32 => Typed::I32(self.body.integer(i32::of(constant))),
            Class::F64 | Class::I64 => return None,
        })
    }

    /// The 32 bits that a register of its class holds.
    pub(super) fn bits(&mut self, typed: Typed) -> Value {
        match typed {
            Typed::F32(value) | Typed::I32(value) => value,
            Typed::Mask(mask) => self.body.unary(Unary::ShiftRight(31), mask),
        }
    }

    fn ones(&mut self) -> Value {
        self.body.bits(u32::MAX)
    }

    fn not(&mut self, mask: Value) -> Value {
        let ones = self.ones();
        self.body.binary(Two::Xor, mask, ones)
    }

    /// Where a truth value holds.
    pub(super) fn mask(&mut self, typed: Typed) -> Value {
        match typed {
            Typed::Mask(mask) => mask,
            Typed::I32(value) => {
                let zero = self.is_zero(value);
                self.not(zero)
            }
            Typed::F32(value) => {
                let zero = self.body.float(0.0);
                self.body.binary(Two::NotEqual, value, zero)
            }
        }
    }

    fn is_zero(&mut self, value: Value) -> Value {
        let zero = self.body.integer(0);
        self.body.binary(Two::EqualI32, value, zero)
    }

    /// By a mask, one or the other of two values of one class.
    pub(super) fn select(&mut self, mask: Value, a: Typed, b: Typed) -> Option<Typed> {
        Some(match (a, b) {
            (Typed::F32(a), Typed::F32(b)) => Typed::F32(self.body.select(mask, a, b)),
            (Typed::Mask(a), Typed::Mask(b)) => Typed::Mask(self.body.select(mask, a, b)),
            (Typed::I32(_) | Typed::Mask(_), Typed::I32(_) | Typed::Mask(_)) => {
                let (a, b) = (self.bits(a), self.bits(b));
                Typed::I32(self.body.select(mask, a, b))
            }
            _ => return None,
        })
    }

    /// The lanes of a type in memory, as they are stored.
    pub(super) fn narrowed(&mut self, typed: Typed, lane: Lane) -> Option<Value> {
        let bits = self.bits(typed);
        let is_float = matches!(typed, Typed::F32(_));
        Some(match lane {
            _ if is_float => self.body.narrowed(lane, bits)?,
            Lane::I32 => bits,
            Lane::I8 | Lane::U8 => self.body.as_bytes(bits),
            _ => return None,
        })
    }

    /// A step, of operands whose values are known; `None` for what there are no instructions for.
    pub(super) fn step(&mut self, step: &Step) -> Option<()> {
        let mut operands = Vec::with_capacity(3);
        for operand in step.operands() {
            operands.push(self.get(operand)?);
        }
        let value = match (step, operands.as_slice()) {
            (Step::Copy(..), [a]) => *a,
            (Step::Not(..), [Typed::Mask(mask)]) => Typed::Mask(self.not(*mask)),
            (Step::Not(..), [Typed::I32(a)]) => Typed::Mask(self.is_zero(*a)),
            (Step::Select(..), [condition, a, b]) => {
                let mask = self.mask(*condition);
                self.select(mask, *a, *b)?
            }
            (Step::Binary(op, ..), [a, b]) => self.binary(*op, *a, *b)?,
            (Step::Apply(op, ..), [Typed::F32(a), Typed::F32(b), Typed::F32(c)]) => {
                Typed::F32(self.body.apply(*op, [*a, *b, *c])?)
            }
            (Step::Nearest(..), [Typed::F32(a)]) => Typed::F32(self.body.unary(Unary::Round(0), *a)),
            (Step::Cast(dtype, ..), [a]) => self.cast(*dtype, *a)?,
            _ => return None,
        };
        self.set(step.to(), value);
        Some(())
    }

    fn binary(&mut self, op: Binary, a: Typed, b: Typed) -> Option<Typed> {
        if op.is_truth() {
            return self.truth(op, a, b);
        }
        let body = &mut self.body;
        if let (Typed::F32(a), Typed::F32(b)) = (a, b) {
            return Some(Typed::F32(match op {
                Binary::Add => body.add(a, b),
                Binary::Sub => body.sub(a, b),
                Binary::Mul => body.mul(a, b),
                Binary::Div => body.div(a, b),
                Binary::Min => body.minimum(a, b),
                Binary::Max => body.maximum(a, b),
                _ => return None,
            }));
        }
        if matches!(a, Typed::F32(_)) || matches!(b, Typed::F32(_)) {
            return None;
        }
        let (a, b) = (self.bits(a), self.bits(b));
        let op = match op {
            Binary::Add => Two::AddI32,
            Binary::Sub => Two::SubI32,
            Binary::Mul => Two::MulI32,
            Binary::Min => Two::LeastI32,
            Binary::Max => Two::GreatestI32,
            // Vectors have no division of integers.
            _ => return None,
        };
        Some(Typed::I32(self.body.binary(op, a, b)))
    }

    fn truth(&mut self, op: Binary, a: Typed, b: Typed) -> Option<Typed> {
        let body = &mut self.body;
        let mask = match (op, a, b) {
            (Binary::And, Typed::Mask(a), Typed::Mask(b)) => body.binary(Two::And, a, b),
            (Binary::Or, Typed::Mask(a), Typed::Mask(b)) => body.binary(Two::Or, a, b),
            (_, Typed::F32(a), Typed::F32(b)) => match op {
                Binary::Lt => body.binary(Two::Less, a, b),
                Binary::Le => body.binary(Two::LessEqual, a, b),
                Binary::Gt => body.binary(Two::Less, b, a),
                Binary::Ge => body.binary(Two::LessEqual, b, a),
                Binary::Eq => body.binary(Two::Equal, a, b),
                Binary::Ne => body.binary(Two::NotEqual, a, b),
                _ => return None,
            },
            (_, Typed::I32(_) | Typed::Mask(_), Typed::I32(_) | Typed::Mask(_)) => {
                let (a, b) = (self.bits(a), self.bits(b));
                match op {
                    Binary::Lt => self.body.binary(Two::GreaterI32, b, a),
                    Binary::Gt => self.body.binary(Two::GreaterI32, a, b),
                    Binary::Eq => self.body.binary(Two::EqualI32, a, b),
                    Binary::Le => {
                        let other = self.body.binary(Two::GreaterI32, a, b);
                        self.not(other)
                    }
                    Binary::Ge => {
                        let other = self.body.binary(Two::GreaterI32, b, a);
                        self.not(other)
                    }
                    Binary::Ne => {
                        let other = self.body.binary(Two::EqualI32, a, b);
                        self.not(other)
                    }
                    Binary::And => return Some(Typed::I32(self.body.binary(Two::And, a, b))),
                    Binary::Or => return Some(Typed::I32(self.body.binary(Two::Or, a, b))),
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Typed::Mask(mask))
    }

    fn cast(&mut self, dtype: DType, a: Typed) -> Option<Typed> {
        let DType::Number(element) = dtype else { return Some(Typed::Mask(self.mask(a))) };
        if let Typed::F32(a) = a {
            let body = &mut self.body;
            return Some(match element {
                ElementType::I32 => Typed::I32(body.truncated(a)),
                ElementType::I8 | ElementType::U8 => {
                    let integer = body.truncated(a);
                    let (low, high) = if element == ElementType::I8 { (-128, 127) } else { (0, 255) };
                    Typed::I32(body.hold_i32(integer, low, high))
                }
                _ => Typed::F32(body.rounded(element, a)?),
            });
        }
        let bits = self.bits(a);
        let body = &mut self.body;
        Some(match element {
            ElementType::F32 => Typed::F32(body.unary(Unary::Float, bits)),
            ElementType::I32 => Typed::I32(bits),
            ElementType::I8 => {
                let high = body.unary(Unary::ShiftLeft(24), bits);
                Typed::I32(body.unary(Unary::ShiftSigned(24), high))
            }
            ElementType::U8 => {
                let byte = body.integer(0xff);
                Typed::I32(body.binary(Two::And, bits, byte))
            }
            // 16-bit floats would be rounded twice.
            _ => return None,
        })
    }
}
