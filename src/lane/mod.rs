//! The lane program of the CPU: straight-line steps that compute the same in every lane.
//!
//! A [`LaneStep`] applies an [`Operation`] to registers. A [`Register`] has a [`Class`]: f32, f64, or integers of 32 or 64
//! bits, which hold narrower ones within their range. A truth value is 1 or 0 in a register of any class. `R` names the
//! registers of a program: a number in `te::auto`, a place in a tile in `gemm`.
//!
//! - **Builders:** `gemm::cpu` compiles epilogues to steps, `te::auto::cpu` tensor expressions.
//! - **Runners:** [`strip`] interprets a step on a strip, a batch of lanes in the first-level cache. [`machine`] lowers
//!   steps to a [`jit`](crate::jit) body, which keeps intermediates in vector registers. Both give the same bits, except
//!   for which NaN a result is. An operation without vector instructions runs on strips only.
//! - **[`element`]** converts rows of elements in memory from and to the arithmetic types.
//!
//! Each half keeps its own registers, and the steps that touch more than registers: loads and stores of its arguments,
//! positions and axes, random numbers, spreads over a tile, and reductions.

use crate::ElementType;
use crate::expr::Op;

pub(crate) mod element;
pub(crate) mod function;
pub(crate) mod machine;
pub(crate) mod scalar;
pub(crate) mod strip;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

/// A register's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    F32,
    F64,
    /// Also integers of 8 and 16 bits, within their range.
    I32,
    /// Also u32, within its range, and u64, by its bits.
    I64,
}

impl Class {
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Whether its lanes have 64 bits.
    pub(crate) const fn is_wide(self) -> bool {
        matches!(self, Self::F64 | Self::I64)
    }
}

/// A register: its class, and its name in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Register<R = usize> {
    pub(crate) class: Class,
    pub(crate) number: R,
}

/// A constant, equal in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    /// The bits of an f64.
    Number(u64),
    Integer(i64),
}

/// The computation of a step. Operands have the result's class unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    /// A scalar operation. A comparison's operands have a class of their own, and so has a selection's condition.
    /// Integers have those operations that [take integers](Op::takes_integers); they wrap.
    Apply(Op),
    /// The quotient of integers, rounded down. A divisor of 0 is an error.
    FloorDiv,
    /// The remainder of that quotient.
    FloorMod,
    /// Both truth values hold; of other integers, the bits that both have.
    And,
    /// A truth value holds; of other integers, the bits that either has.
    Or,
    /// The bits that one of two integers has, and not both.
    Xor,
    /// An integer times 2 to the power of another. By a negative number, or by as many places as there are bits, it is 0.
    ShiftLeft,
    /// An integer divided by 2 to the power of another, rounded down. By a negative number, or by as many places as there
    /// are bits, only the sign is left.
    ShiftRight,
    /// That of integers without a sign.
    ShiftUnsigned,
    /// The truth value does not hold.
    Not,
    /// The operand, of any class, is not 0.
    Truth,
    /// The operand, of any class, converted to an element type: rounded to a float, truncated to an integer.
    Cast(ElementType),
    /// A float rounded to the nearest of an element type and back, as if it were stored and loaded. Ties go to even.
    Round(ElementType),
    Copy,
}

impl Operation {
    /// The number of operands.
    pub(crate) const fn arity(self) -> usize {
        match self {
            Self::Apply(op) => op.arity(),
            Self::FloorDiv
            | Self::FloorMod
            | Self::And
            | Self::Or
            | Self::Xor
            | Self::ShiftLeft
            | Self::ShiftRight
            | Self::ShiftUnsigned => 2,
            Self::Not | Self::Truth | Self::Cast(_) | Self::Round(_) | Self::Copy => 1,
        }
    }
}

/// One operation on registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LaneStep<R = usize> {
    pub(crate) operation: Operation,
    /// The result. No operand is in this register.
    pub(crate) to: Register<R>,
    operands: [Register<R>; 3],
}

impl<R: Copy> LaneStep<R> {
    /// The operands must be as many as the operation has.
    pub(crate) fn new(operation: Operation, to: Register<R>, operands: &[Register<R>]) -> Self {
        debug_assert_eq!(operands.len(), operation.arity(), "{operation:?}");
        let operand = |i: usize| operands.get(i).copied().unwrap_or(to);
        Self { operation, to, operands: [operand(0), operand(1), operand(2)] }
    }

    /// The registers that it reads.
    pub(crate) fn operands(&self) -> &[Register<R>] {
        &self.operands[..self.operation.arity()]
    }

    /// The written register and the read ones, to rename them.
    pub(crate) fn registers_mut(&mut self) -> (&mut Register<R>, &mut [Register<R>]) {
        (&mut self.to, &mut self.operands[..self.operation.arity()])
    }

    /// Whether it fails for some operands.
    pub(crate) const fn may_fail(&self) -> bool {
        matches!(self.operation, Operation::FloorDiv | Operation::FloorMod)
    }
}
