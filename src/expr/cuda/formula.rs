//! The values that can be printed: numbered, each computed from earlier ones.

use smallvec::SmallVec;

use super::real_name;
use crate::ElementType;
use crate::expr::{Function, Logic, Op, Real};

/// The type of a value in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A number of the arithmetic type.
    Real,
    /// An integer of 32 bits, which are enough for every integer of its epilogue.
    I32,
    /// An integer of 64 bits, whose arithmetic wraps.
    I64,
    /// A truth value.
    Bool,
}

impl Scalar {
    /// Its C++ type, within `namespace epilogue`.
    #[must_use]
    pub const fn cuda(self, real: Real) -> &'static str {
        match self {
            Self::Real => real_name(real),
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Bool => "bool",
        }
    }
}

/// The formula of one of some [`Values`]. Operands are the numbers of earlier values.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// Not computed here: there is a variable with the value's name.
    Given,
    /// A number.
    Literal(f64),
    /// An integer.
    Integer(i64),
    /// An operation on truth values.
    Logic(Logic, SmallVec<[usize; 3]>),
    /// An integer converted to a number, rounded to nearest even.
    Real(usize),
    /// A primitive operation.
    Apply(Op, SmallVec<[usize; 3]>),
    /// `scalar * x`, but 0 if `scalar` is 0.
    Scaled {
        /// The factor.
        scalar: usize,
        /// The other factor.
        x: usize,
    },
    /// A call.
    Call(&'static Function, SmallVec<[usize; 3]>),
    /// Rounding to an element type and back.
    Cast(ElementType, usize),
}

impl Formula {
    pub(super) fn operands(&self) -> SmallVec<[usize; 3]> {
        match self {
            Self::Given | Self::Literal(_) | Self::Integer(_) => SmallVec::new(),
            Self::Apply(_, operands) | Self::Logic(_, operands) | Self::Call(_, operands) => operands.clone(),
            Self::Scaled { scalar, x } => SmallVec::from_slice(&[*scalar, *x]),
            Self::Cast(_, x) | Self::Real(x) => SmallVec::from_slice(&[*x]),
        }
    }
}

/// Values that can be printed: numbered, with operands before users.
pub trait Values {
    /// The number of values.
    fn count(&self) -> usize;
    /// The formula of a value.
    fn formula(&self, value: usize) -> Formula;
    /// The type of a value. By default, comparisons are truth values and all others are numbers.
    fn scalar(&self, value: usize) -> Scalar {
        match self.formula(value) {
            Formula::Apply(op, _) if op.is_comparison() => Scalar::Bool,
            _ => Scalar::Real,
        }
    }
    /// The C++ identifier of a value.
    fn name(&self, value: usize) -> &str;
    /// Whether the user named it, so that it gets its own declaration.
    fn is_named(&self, value: usize) -> bool;
    /// How often it is used, by values and otherwise.
    fn uses(&self, value: usize) -> usize;
    /// The largest number of significant bits of any output that it reaches.
    fn significand(&self, value: usize) -> u32;
    /// The line in the user's source; 0 if unknown.
    fn line(&self, value: usize) -> u32;
}
