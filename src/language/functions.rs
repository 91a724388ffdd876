//! Functions of a body that are no operations: positions, extents, random numbers, exact integers.

use crate::argument::Seed;

/// The element's row, from 0: an integer, the same along each row.
#[must_use]
pub const fn row() -> i64 {
    0
}

/// The element's column, from 0: an integer, the same down each column.
#[must_use]
pub const fn column() -> i64 {
    0
}

/// The element's index in the batch, from 0: an integer, the same for the whole matrix. If the product has groups
/// ([`gemm::rows`](crate::gemm::rows)), it is the group's.
#[must_use]
pub const fn batch() -> i64 {
    0
}

/// The number of rows, M: an integer.
#[must_use]
pub const fn rows() -> i64 {
    0
}

/// The number of columns, N: an integer.
#[must_use]
pub const fn columns() -> i64 {
    0
}

/// The element's random number of a seed: one of the 2^24 multiples of 2^-24 from 0 to below 1, each as likely as the
/// others. `random(seed, 1)`, `random(seed, 2)`, and so on are further, independent ones, by an integer literal;
/// `random(seed)` is `random(seed, 0)`, and is the same number wherever it is written.
///
/// It follows from the seed and from the element's row, column and batch alone, by Philox4x32-10: it is the same on every
/// device, with every kernel and layout, and in another epilogue, such as that of a backward pass. In groups, rows and
/// batches are those of [`row`] and [`batch`].
///
/// As an item it only lets rustc check an epilogue's body.
#[must_use]
pub const fn random(seed: Seed<'_>) -> f32 {
    let _ = seed;
    0.0
}

/// `integer(labels)` is the exact value in memory of a parameter of an integer type or of bool. The parameter's own
/// name is that integer as a number, which is exact in f32 up to 2^24.
///
/// As an item it only lets rustc check an epilogue's body.
#[must_use]
pub fn integer(parameter: impl InMemory) -> i64 {
    parameter.in_memory()
}

/// `real(i)` is the number nearest to an integer: exact in f32 up to 2^24.
///
/// As an item it only lets rustc check an epilogue's body.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it rounds, as is said")]
pub const fn real(integer: i64) -> f32 {
    integer as f32
}

/// The type that stands for a parameter's value when rustc checks an epilogue's body: a number or a truth value.
pub trait InMemory {
    /// The integer.
    #[doc(hidden)]
    fn in_memory(self) -> i64;
}

impl InMemory for f32 {
    #[expect(clippy::cast_possible_truncation, reason = "it holds an integer")]
    fn in_memory(self) -> i64 {
        self as i64
    }
}

impl InMemory for bool {
    fn in_memory(self) -> i64 {
        self.into()
    }
}
