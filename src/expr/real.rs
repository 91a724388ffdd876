//! The type of an epilogue's arithmetic.

use std::fmt;

use half::{bf16, f16};

use crate::{Element, ElementType, f8e4m3, f8e5m2};

/// A Rust type for the elements that epilogues read, compute and write. Tensor expressions have more
/// [element types](Element).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of epilogues",
    label = "no element type of epilogues",
    note = "element types are f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8 and bool"
)]
pub trait EpilogueElement: Element {
    /// The element type that this Rust type holds.
    const ELEMENT: ElementType;
}

macro_rules! elements {
    ($($rust:ty),*) => { $(impl EpilogueElement for $rust { const ELEMENT: ElementType = <$rust as Element>::TYPE; })* };
}

elements!(f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8, bool);

/// The type of an epilogue's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Real {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Real {
    /// The element types that epilogues read, compute and write. Tensor expressions have more integers.
    pub const ELEMENTS: [ElementType; 11] = [
        ElementType::F64,
        ElementType::F32,
        ElementType::BF16,
        ElementType::F16,
        ElementType::F8E4M3,
        ElementType::F8E5M2,
        ElementType::I64,
        ElementType::I32,
        ElementType::I8,
        ElementType::U8,
        ElementType::Bool,
    ];

    /// Whether epilogues read, compute and write values of an element type.
    pub(crate) fn takes(element: ElementType) -> bool {
        Self::ELEMENTS.contains(&element)
    }

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
