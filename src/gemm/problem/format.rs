//! The formats of operands: what lies in memory, and what it stands for.
//!
//! The elements of a product are of A's and B's element types; a format says how they come of what lies in memory. It is
//! part of the [problem](super::extents::Problem), so plans, stored choices and packed operands of two formats are never
//! taken for each other. A device that doesn't have a format refuses it (`Backend::refuses_format`). Operands of one 8-bit
//! and one 16-bit type ([`MixedInput`](super::eight_bit::MixedInput)) are no format: each element is its value.

use std::fmt;

use super::quantization::Quantization;

/// How the elements of an operand stand for its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Each is its value.
    #[default]
    Plain,
    /// Each is multiplied by the [scale of its block](super::scaled::Scaled).
    Scaled,
    /// Each is the [scale of its group](super::quantized::Quantized) times a code.
    Quantized(Quantization),
}

impl Format {
    /// Whether it is of quantised weights.
    pub(crate) const fn is_quantized(self) -> bool {
        matches!(self, Self::Quantized(_))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("a plain tensor"),
            Self::Scaled => f.write_str("a tensor with block scales"),
            Self::Quantized(quantization) => write!(f, "weights of {quantization}"),
        }
    }
}

/// The formats of A and B. Kernels have scales of both or of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Formats {
    /// A's.
    pub a: Format,
    /// That of every B.
    pub b: Format,
}

impl Formats {
    /// Plain operands.
    pub const PLAIN: Self = Self { a: Format::Plain, b: Format::Plain };
    /// Operands with scales of blocks.
    pub const SCALED: Self = Self { a: Format::Scaled, b: Format::Scaled };

    /// A plain A, and a B of quantised weights.
    #[must_use]
    pub const fn of_weights(quantization: Quantization) -> Self {
        Self { a: Format::Plain, b: Format::Quantized(quantization) }
    }

    /// How B is quantised, if it is.
    #[must_use]
    pub const fn quantization(self) -> Option<Quantization> {
        match self.b {
            Format::Quantized(quantization) => Some(quantization),
            Format::Plain | Format::Scaled => None,
        }
    }

    /// Whether blocks have scales.
    #[must_use]
    pub const fn are_scaled(self) -> bool {
        matches!((self.a, self.b), (Format::Scaled, Format::Scaled))
    }
}
