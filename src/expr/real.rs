//! The type of an epilogue's arithmetic.

use std::fmt;

use crate::ElementType;

/// The type of an epilogue's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Real {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Real {
    /// The element type that stores it exactly.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::F32 => ElementType::F32,
            Self::F64 => ElementType::F64,
        }
    }

    /// The nearest value of this type, ties to even.
    #[must_use]
    pub fn round(self, x: f64) -> f64 {
        match self {
            // `as` from f64 to f32 rounds to nearest even and overflows to infinity (Rust reference, "Numeric cast").
            #[expect(clippy::cast_possible_truncation)]
            Self::F32 => f64::from(x as f32),
            Self::F64 => x,
        }
    }

    /// The value of this type nearest to an integer, ties to even.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "it is what is asked for")]
    pub fn of_integer(self, x: i64) -> f64 {
        match self {
            // `as` from an integer rounds to nearest even (Rust reference, "Numeric cast").
            Self::F32 => f64::from(x as f32),
            Self::F64 => x as f64,
        }
    }

    /// The number of significant bits, including the hidden one.
    #[must_use]
    pub const fn significand(self) -> u32 {
        match self {
            Self::F32 => 24,
            Self::F64 => 53,
        }
    }
}

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.element().name())
    }
}
