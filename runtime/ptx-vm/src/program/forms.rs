//! The shapes of instructions that have more modifiers and operands than an instruction has fields: they are kept beside
//! the code, and the instruction holds their number.

use crate::numerics::descriptor::Major;
use crate::numerics::reduction::{Element, Reduction};
use crate::numerics::wgmma::Wgmma;

/// The shape of a bulk copy, kept beside the program because it has more operands than an instruction has fields. The
/// rows are in the program's list: [`SHARED_ROW`], [`GLOBAL_ROW`], [`MBARRIER_ROW`], [`SIZE_ROW`], [`MULTICAST_ROW`], then
/// the coordinates.
#[derive(Clone, Debug)]
pub(crate) struct BulkForm {
    /// What is copied from where to where.
    pub(crate) direction: Direction,
    /// How many coordinates there are; 0 for copies without a tensor map.
    pub(crate) coordinates: usize,
    /// The shared address.
    pub(crate) shared: Operand,
    /// The other address: the source of a load, the destination of a store, or the tensor map's.
    pub(crate) global: Operand,
    /// The mbarrier of a load.
    pub(crate) mbarrier: Option<Operand>,
    pub(crate) multicast: bool,
    pub(crate) has_map: bool,
    /// `cp.reduce`: what is done with the bytes that are there.
    pub(crate) reduction: Option<BulkReduction>,
}

/// The operation of a `cp.reduce.async.bulk`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkReduction {
    pub(crate) operation: Reduction,
    /// The type of the elements; without it the tensor map's counts.
    pub(crate) element: Option<Element>,
}

/// Places in the list of rows.
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
    /// Registers of this many bytes each to shared memory of the cluster: `st.async`, `red.async`. Their rows stand where
    /// a tensor copy has its coordinates.
    Put { bytes: u32 },
}

/// The modifiers of a `wgmma.mma_async`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaForm {
    pub(crate) product: Wgmma,
    /// A comes from four registers of the list instead of a descriptor.
    pub(crate) a_in_registers: bool,
    pub(crate) negate_a: bool,
    pub(crate) negate_b: bool,
    pub(crate) a_major: Major,
    pub(crate) b_major: Major,
}

/// A function of the bits of up to three operands, zero-extended.
pub(crate) type LaneFunction = Box<dyn Fn([u64; 3]) -> u64 + Send + Sync>;
