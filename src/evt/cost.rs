//! The cost of an epilogue, in terms that don't depend on threads or tiles.

/// Elements read and written, operations and registers of the epilogue, per element of the product unless noted
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// Accumulators that are read: products of A and one B each.
    pub accumulators: usize,
    /// M×N tensors read.
    pub loads: usize,
    /// M×N tensors written.
    pub stores: usize,
    /// M×N truth values read or written with eight columns in a byte. They are in none of the counts of tensors and bytes.
    pub packed: usize,
    /// Bytes read from M×N tensors.
    pub bytes_read: usize,
    /// Bytes written to M×N tensors.
    pub bytes_written: usize,
    /// Row vectors read (N values each).
    pub row_vectors: usize,
    /// Column vectors read (M values each).
    pub column_vectors: usize,
    /// Scalars in device memory that are read.
    pub device_scalars: usize,
    /// Reductions along rows: running values per row. (An index has one more, and the index of everything three.)
    pub row_reductions: usize,
    /// Reductions along columns: running values per column.
    pub column_reductions: usize,
    /// Reductions to one value: running values.
    pub all_reductions: usize,
    /// Cheap instructions: additions, products, comparisons, conversions.
    pub simple_operations: usize,
    /// Costly functions: exponentials, roots, divisions.
    pub costly_operations: usize,
    /// Sweeps over a tile's elements after the first; see [`InTile`](super::InTile).
    pub later_sweeps: usize,
    /// The most 32-bit registers that values of one element occupy at once, including the accumulators'.
    pub element_registers: usize,
    /// 32-bit registers for values that are the same for the whole product.
    pub scalar_registers: usize,
    /// 32-bit registers for values of one column (row vectors, and values computed only from them).
    pub row_vector_registers: usize,
    /// 32-bit registers for values of one row (column vectors, and values computed only from them).
    pub column_vector_registers: usize,
}

impl Cost {
    /// Accumulators that a kernel computes: at least one, even if the epilogue reads none.
    #[must_use]
    pub const fn products(&self) -> usize {
        if self.accumulators == 0 { 1 } else { self.accumulators }
    }

    /// The cost of sweeps over a tile, if `self` is the cost of the whole: each sweep has its own operations, and
    /// memory is read and written once for all of them.
    pub(super) fn of_sweeps(self, sweeps: &[&Self]) -> Self {
        let sum = |of: fn(&Self) -> usize| sweeps.iter().map(|sweep| of(sweep)).sum();
        Self {
            row_reductions: sum(|sweep| sweep.row_reductions),
            column_reductions: sum(|sweep| sweep.column_reductions),
            all_reductions: sum(|sweep| sweep.all_reductions),
            simple_operations: sum(|sweep| sweep.simple_operations),
            costly_operations: sum(|sweep| sweep.costly_operations),
            element_registers: sweeps.iter().map(|sweep| sweep.element_registers).max().unwrap_or(0),
            later_sweeps: sweeps.len().saturating_sub(1),
            ..self
        }
    }

    /// Bytes moved per element of the product.
    #[must_use]
    pub const fn bytes_per_element(&self) -> usize {
        self.bytes_read + self.bytes_written
    }
}
