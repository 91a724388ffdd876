//! What distinguishes the kernels of one reduction.

use super::emit::frame::Loops;
use crate::te::dtype::DType;
use crate::te::target::cuda::expr::register_type;

/// All that distinguishes the kernels of one reduction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct ReduceClass {
    pub(in crate::te::auto) loops: Loops,
    pub(in crate::te::auto) walk: Walk,
    pub(in crate::te::auto) threads: u32,
    /// Chunks in flight per thread.
    pub(in crate::te::auto) unroll: u32,
    /// Whether blocks share outputs.
    pub(in crate::te::auto) split: bool,
    /// Whether the order of the elements is kept.
    pub(in crate::te::auto) ordered: bool,
    /// Whether one thread takes the elements one by one, from the initial value on.
    pub(in crate::te::auto) exact: bool,
    /// Whether multiply-adds may be contracted.
    pub(in crate::te::auto) contract: bool,
    /// Which outputs of points are stored several at once.
    pub(in crate::te::auto) packed_outputs: Vec<bool>,
    /// Chunks of a thread that stay in its registers from the first pass to the last; 0 where they are read again.
    pub(in crate::te::auto) held: u32,
    /// Whether every thread has as many chunks as are held.
    pub(in crate::te::auto) even: bool,
}

/// How threads share the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum Walk {
    /// This many neighbouring threads per output, side by side in memory.
    Rows { group: u32 },
    /// Neighbouring threads have neighbouring outputs; this many are side by side.
    Columns { across: u32 },
    /// There is nothing to reduce: every point is for itself.
    Points,
}

/// Bytes of the tuple that is reduced, as C++ lays it out.
pub(in crate::te::auto) fn value_bytes(types: &[DType]) -> usize {
    let size = |dtype: &DType| match register_type(*dtype) {
        "double" | "long long" => 8,
        "bool" => 1,
        _ => 4,
    };
    let alignment = types.iter().map(size).max().unwrap_or(1);
    let mut bytes = 0usize;
    for dtype in types {
        bytes = bytes.next_multiple_of(size(dtype)) + size(dtype);
    }
    bytes.next_multiple_of(alignment)
}
