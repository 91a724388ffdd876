//! CUDA C++ text of scalar expressions.
//!
//! The text is meant for the inside of `namespace epilogue`, after `src/device/convert.cuh` and `src/device/math.cuh`:
//! primitives are `math::tanh(x)`, elementwise functions `ops::gelu(x)`, casts `math::round_f16(x)`. Qualified names
//! can't be hidden by the user's variables, so `let exp = exp(x);` is `const float exp = math::exp(x);`.
//!
//! [`statements`] prints each value as one declaration, with the user's names and only the parentheses that C++ needs;
//! [`Functions`] collects the elementwise functions that are called and prints their definitions.

mod beside;
mod body;
mod formula;
mod literal;
mod statements;
mod term;

pub use formula::{Formula, Scalar, Values};
pub use literal::{integer, literal};
pub use statements::{Functions, Statement, reference, statements};

use super::Real;
use crate::ElementType;

/// The C++ name of the arithmetic type.
#[must_use]
pub const fn real_name(real: Real) -> &'static str {
    match real {
        Real::F32 => "float",
        Real::F64 => "double",
    }
}

/// The C++ type of an element in memory, from `src/device/convert.cuh`, within `namespace epilogue`.
#[must_use]
pub const fn element_name(element: ElementType) -> &'static str {
    match element {
        // Most bytes are not valid values of C++'s own `bool`.
        ElementType::Bool => "boolean",
        other => other.name(),
    }
}

/// How accurate an operation must be, by the significant bits of the outputs that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Accuracy {
    /// At most 8 bits.
    Bits8,
    /// At most 11 bits.
    Bits11,
    /// Everything else, and all arithmetic in f64.
    Full,
}

impl Accuracy {
    const fn of(significand: u32, real: Real) -> Self {
        match (real, significand) {
            (Real::F64, _) => Self::Full,
            (Real::F32, 0..=8) => Self::Bits8,
            (Real::F32, 9..=11) => Self::Bits11,
            (Real::F32, _) => Self::Full,
        }
    }

    /// The namespace inside `math` and `ops`.
    const fn namespace(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Bits11 => "approx11::",
            Self::Bits8 => "approx8::",
        }
    }
}
