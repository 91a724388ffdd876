//! Forms: the modifiers and operands of instructions that have more of them than an instruction has fields. They are
//! kept beside the code, and the instruction holds their number.

use crate::numerics::descriptor::Major;
use crate::numerics::reduction::{Element, Reduction};
use crate::numerics::tcgen05::Kind;
use crate::numerics::tensor_memory::MoveShape;
use crate::numerics::wgmma::Wgmma;

/// The form of a bulk copy. Its rows are in the program's list: [`SHARED_ROW`], [`GLOBAL_ROW`], [`MBARRIER_ROW`],
/// [`SIZE_ROW`], [`MULTICAST_ROW`], then the coordinates, then the offsets.
#[derive(Clone, Debug)]
pub(crate) struct BulkForm {
    /// The direction of the copy.
    pub(crate) direction: Direction,
    /// The number of coordinates; 0 for copies without a tensor map.
    pub(crate) coordinates: usize,
    /// The number of offsets; 0 but in im2col mode.
    pub(crate) offsets: usize,
    /// The shared address.
    pub(crate) shared: Operand,
    /// The other address: the source of a load, the destination of a store, or the tensor map's.
    pub(crate) global: Operand,
    /// The mbarrier of a load.
    pub(crate) mbarrier: Option<Operand>,
    pub(crate) multicast: bool,
    pub(crate) has_map: bool,
    /// `cp.reduce`: how the copy is combined with the bytes in memory.
    pub(crate) reduction: Option<BulkReduction>,
}

/// The operation of a `cp.reduce.async.bulk`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkReduction {
    pub(crate) operation: Reduction,
    /// The type of the elements; `None` means that of the tensor map.
    pub(crate) element: Option<Element>,
}

/// Positions in the list of rows.
pub(crate) const SHARED_ROW: usize = 0;
pub(crate) const GLOBAL_ROW: usize = 1;
pub(crate) const MBARRIER_ROW: usize = 2;
pub(crate) const SIZE_ROW: usize = 3;
pub(crate) const MULTICAST_ROW: usize = 4;
pub(crate) const COORDINATE_ROW: usize = 5;

/// An address operand; its row is in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) place: usize,
    pub(crate) wide: bool,
    pub(crate) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Global to shared memory.
    Load,
    /// Shared to global memory.
    Store,
    /// This block's shared memory to another's.
    Share,
    /// Registers, of this many bytes each, to shared memory of the cluster: `st.async`, `red.async`. Their rows are at
    /// the place of a tensor copy's coordinates.
    Put { bytes: u32 },
}

/// The modifiers of a `wgmma.mma_async`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaForm {
    pub(crate) product: Wgmma,
    /// A is in four registers of the list, not given by a descriptor.
    pub(crate) a_in_registers: bool,
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    pub(crate) a_major: Major,
    pub(crate) b_major: Major,
}

/// The modifiers of a `tcgen05.mma`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorProductForm {
    pub(crate) kind: Kind,
    /// The offset from the address of D.
    pub(crate) d_offset: i32,
    /// A is in tensor memory; this is added to its address.
    pub(crate) a_offset: Option<i32>,
}

/// The modifiers of a `tcgen05.ld` or `tcgen05.st`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveForm {
    pub(crate) shape: MoveShape,
    /// `.num`
    pub(crate) count: u32,
    /// The offset from the address.
    pub(crate) offset: i32,
}

/// The modifiers of a `tcgen05.cp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorCopyForm {
    /// Number of rows in shared memory.
    pub(crate) rows: u32,
    /// Bytes of each.
    pub(crate) bytes: u32,
    /// Where rows go: the first row of a part, the lane to which it goes, and the number of rows.
    pub(crate) parts: &'static [(u32, u32, u32)],
    /// The offset from the address.
    pub(crate) offset: i32,
}

/// A function on the bits of up to three operands, zero-extended.
pub(crate) type LaneFunction = Box<dyn Fn([u64; 3]) -> u64 + Send + Sync>;
