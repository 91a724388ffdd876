//! What is printed: numbered values, each computed from earlier ones.

use smallvec::SmallVec;

use super::real_name;
use crate::ElementType;
use crate::expr::{Function, Logic, Op, Real};

/// The type of a value in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A number of the arithmetic type.
    Real,
    /// An integer of 32 bits, which holds every integer of its epilogue.
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

/// How one of some [`Values`] is computed; operands are the places of earlier values.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// Not computed here: a variable of the value's name exists.
    Given,
    /// A number.
    Literal(f64),
    /// An integer.
    Integer(i64),
    /// Truth values, combined.
    Logic(Logic, SmallVec<[usize; 3]>),
    /// An integer as a number, rounded to nearest even.
    Real(usize),
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
    pub(super) fn operands(&self) -> SmallVec<[usize; 3]> {
        match self {
            Self::Given | Self::Literal(_) | Self::Integer(_) => SmallVec::new(),
            Self::Apply(_, operands) | Self::Logic(_, operands) | Self::Call(_, operands) => operands.clone(),
            Self::Scaled { scalar, x } => SmallVec::from_slice(&[*scalar, *x]),
            Self::Cast(_, x) | Self::Real(x) => SmallVec::from_slice(&[*x]),
        }
    }
}

/// Values that can be printed: numbered, operands before users.
pub trait Values {
    /// How many there are.
    fn count(&self) -> usize;
    /// How one is computed.
    fn formula(&self, value: usize) -> Formula;
    /// The type of one: a comparison's is a truth value, anything else's a number, unless the values have other types.
    fn scalar(&self, value: usize) -> Scalar {
        match self.formula(value) {
            Formula::Apply(op, _) if op.is_comparison() => Scalar::Bool,
            _ => Scalar::Real,
        }
    }
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
