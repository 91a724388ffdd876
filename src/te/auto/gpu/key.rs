//! The key of a reduction's kernel: everything that the kernel's text depends on.

use super::emit::loops::Loops;
use crate::te::cuda::register;
use crate::te::dtype::DType;

/// Everything that the text of a reduction's kernel depends on. Runs with the same key share a compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct ReduceKey {
    pub(in crate::te::auto) loops: Loops,
    pub(in crate::te::auto) mapping: ThreadMapping,
    pub(in crate::te::auto) threads: u32,
    /// The number of chunks that a thread has in flight.
    pub(in crate::te::auto) unroll: u32,
    /// Whether several blocks share an output.
    pub(in crate::te::auto) split: bool,
    /// Whether the order of the elements must be kept.
    pub(in crate::te::auto) ordered: bool,
    /// Whether one thread combines the elements one by one, starting with the initial value.
    pub(in crate::te::auto) exact: bool,
    /// Whether multiply-adds may be contracted.
    pub(in crate::te::auto) contract: bool,
    /// For each output of points, whether several of its elements are stored at once.
    pub(in crate::te::auto) packed_outputs: Vec<bool>,
    /// The number of chunks that a thread keeps in registers from the first pass to the last; 0 if they are read again.
    pub(in crate::te::auto) chunks_in_registers: u32,
    /// Whether every thread has exactly as many chunks as it keeps.
    pub(in crate::te::auto) even: bool,
}

/// The thread mapping: how threads share the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum ThreadMapping {
    /// `group` neighbouring threads share an output, whose elements are neighbours in memory.
    Rows { group: u32 },
    /// Neighbouring threads have neighbouring outputs; `across` of them are side by side.
    Columns { across: u32 },
    /// Nothing is reduced: every point is computed separately.
    Points,
}

/// Bytes of the reduced tuple, as C++ lays it out.
pub(in crate::te::auto) fn value_bytes(types: &[DType]) -> usize {
    let size = |dtype: &DType| register(*dtype).bytes();
    let alignment = types.iter().map(size).max().unwrap_or(1);
    let mut bytes = 0usize;
    for dtype in types {
        bytes = bytes.next_multiple_of(size(dtype)) + size(dtype);
    }
    bytes.next_multiple_of(alignment)
}
