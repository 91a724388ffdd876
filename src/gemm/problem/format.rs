//! The formats of operands: what else than its elements a product reads of A and of B.

/// How the elements of an operand stand for its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Each is its value.
    #[default]
    Plain,
    /// Each is multiplied by the [scale of its block](super::scaled::Scaled).
    Scaled,
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

    /// Whether blocks have scales.
    #[must_use]
    pub const fn are_scaled(self) -> bool {
        matches!((self.a, self.b), (Format::Scaled, Format::Scaled))
    }
}
