//! The structs that kernels of this family read behind their tensor maps, part by part.

use smallvec::SmallVec;

use super::Sm90Key;
use crate::gemm::kernel::ReadingShape;
use crate::gemm::kernel::device_struct::{DeviceStruct, Part, inner, int, pointer, stride, with, word};
use crate::gemm::kernel::formula::Operation::{Divide, DivideUp, Least, Most, Multiply, Remainder};
use crate::gemm::kernel::formula::{
    BATCH, CLUSTER_M, CLUSTER_N, COLUMN_TILES, DEPTH_TILES, DIVIDES_ROWS, Formula, LONGER, ONE, Quantity, ROW_TILES,
    SHARE, SPLITS, STREAMED,
};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::structs::{GROUP_COMMON, PROBLEM, ROW_BYTES, ROW_INDEX, SCALED_COMMON};
use crate::gemm::problem::Divided;

const fn given(quantity: Quantity) -> Formula {
    Formula::Given(quantity)
}

/// Clusters of tiles of one product along M and along N, and products: of groups of rows, every row of clusters is one.
const UNITS_M: Formula = Formula::If(&[DIVIDES_ROWS, ONE, Formula::Of(DivideUp, &[ROW_TILES, CLUSTER_M])]);
const UNITS_N: Formula = Formula::Of(DivideUp, &[COLUMN_TILES, CLUSTER_N]);
const PRODUCTS: Formula = Formula::If(&[DIVIDES_ROWS, Formula::Of(Divide, &[ROW_TILES, CLUSTER_M]), BATCH]);

/// Clusters of tiles of a product, of all products, and all units.
const OF_PRODUCT: Formula = Formula::Of(Multiply, &[UNITS_M, UNITS_N]);
const OF_SPLIT: Formula = Formula::Of(Multiply, &[OF_PRODUCT, PRODUCTS]);
pub(crate) const UNITS: Formula = Formula::Of(Multiply, &[OF_SPLIT, SPLITS]);

/// Clusters of tiles along the axis with groups, and along the other one.
const ALONG: Formula = Formula::If(&[given(Quantity::RasterAlongN), UNITS_N, UNITS_M]);
const ACROSS: Formula = Formula::If(&[given(Quantity::RasterAlongN), UNITS_M, UNITS_N]);
const GROUP: Formula = given(Quantity::RasterGroup);
const GROUP_UNITS: Formula = Formula::Of(Multiply, &[Formula::Of(Least, &[GROUP, ALONG]), ACROSS]);
const LAST_COLUMN: Formula = Formula::Of(Remainder, &[ALONG, GROUP]);

/// A number that is divided by: its argument, or 1.
const DIVISOR: DeviceStruct = DeviceStruct {
    name: "sm90/Divisor",
    fields: &[
        word("multiplier", &[Formula::Reciprocal(&Formula::Argument(0))]).about("ceil(2^(31 + shift) / divisor)"),
        word("shift", &[Formula::LogUp(&Formula::Argument(0))])
            .about("the exponent of the least power of two that is no less than the divisor"),
    ],
};

/// The units, and how they are dealt, so that kernels find theirs without a division.
pub(crate) const DEAL: DeviceStruct = DeviceStruct {
    name: "sm90/Deal",
    fields: &[
        word("units", &[UNITS]).about("in all; below 2^31"),
        word("streamed", &[STREAMED]).about("stream-K: units that are cut"),
        word("k_tiles", &[DEPTH_TILES]).about("k-tiles of a unit that isn't split; at least 1"),
        word("share", &[SHARE]).about("stream-K: k-tiles of a cluster at least,"),
        word("longer", &[LONGER]).about("and how many of the first clusters have one more"),
        word("group_units", &[GROUP_UNITS]).about("of a whole group"),
        with("Divisor", "of_split", &DIVISOR, &[&[OF_SPLIT]]).about("by the units of a split"),
        with("Divisor", "of_batch", &DIVISOR, &[&[OF_PRODUCT]]).about("by those of a product"),
        with("Divisor", "of_group", &DIVISOR, &[&[GROUP_UNITS]]).about("by those of a group"),
        with("Divisor", "of_column", &DIVISOR, &[&[GROUP]]).about("by the clusters of tiles across a whole group"),
        with("Divisor", "of_last_column", &DIVISOR, &[&[LAST_COLUMN]]).about("and across the last one"),
        with("Divisor", "of_unit", &DIVISOR, &[&[DEPTH_TILES]]).about("stream-K: by k_tiles"),
    ],
};

/// Arguments that every kernel takes behind its tensor maps.
const COMMON: DeviceStruct = DeviceStruct {
    name: "sm90/Common",
    fields: &[
        inner("Problem", "problem", &PROBLEM),
        int("a_batched", &[given(Quantity::BatchedA)])
            .described("a_is_batched")
            .about("of A, maps[0]: 0 where all batches share it"),
        int("b_batched", &[given(Quantity::BatchedB)])
            .described("b_are_batched")
            .about("bit by bit of every B, maps[1..]"),
        inner("Deal", "deal", &DEAL),
        pointer("void*", "split_k_sums").of(Memory::Scratch).described("workspace.split_k_sums"),
        pointer("u32*", "split_k_counters").of(Memory::Counters).described("workspace.split_k_counters"),
    ],
};

/// Boxes of channels of an element of the window, and elements of the window.
const BLOCKS: Formula = Formula::Of(DivideUp, &[given(Quantity::Channels), given(Quantity::BoxChannels)]);
const POSITIONS: Formula = {
    const PLANE: Formula = Formula::Of(Multiply, &[given(Quantity::Window(0)), given(Quantity::Window(1))]);
    Formula::Of(Multiply, &[PLANE, given(Quantity::Window(2))])
};

/// None of the kernels divides by 0 where there is nothing.
const OUTPUTS: [Formula; 3] = [
    Formula::Of(Most, &[given(Quantity::Output(0)), ONE]),
    Formula::Of(Most, &[given(Quantity::Output(1)), ONE]),
    Formula::Of(Most, &[given(Quantity::Output(2)), ONE]),
];

/// Images and a window. The last axis is the fastest.
const PATCHES: DeviceStruct = DeviceStruct {
    name: "sm90/Patches",
    fields: &[
        int("blocks", &[BLOCKS]).about("boxes of channels of an element of the window"),
        int("taps", &[POSITIONS]).about("elements of the window"),
        int("size", &[given(Quantity::Window(0)), given(Quantity::Window(1)), given(Quantity::Window(2))]),
        int("outputs", &OUTPUTS),
        int("stride", &[given(Quantity::Move(0)), given(Quantity::Move(1)), given(Quantity::Move(2))]),
        int("before", &[given(Quantity::Before(0)), given(Quantity::Before(1)), given(Quantity::Before(2))]),
        int("dilation", &[given(Quantity::Dilation(0)), given(Quantity::Dilation(1)), given(Quantity::Dilation(2))]),
        with("Divisor", "of_blocks", &DIVISOR, &[&[BLOCKS]]),
        with("Divisor", "of_size", &DIVISOR, &[&[given(Quantity::Window(2))], &[given(Quantity::Window(1))]])
            .about("the last axis first"),
        with("Divisor", "of_outputs", &DIVISOR, &[&[OUTPUTS[2]], &[OUTPUTS[1]], &[OUTPUTS[0]]]),
        int("group_channels", &[given(Quantity::Channels)]).about("from a group to the next"),
        int("group_columns", &[given(Quantity::FilterColumns)]),
        int("group_taps", &[given(Quantity::FilterPositions)]),
    ],
};

const PATCH_COMMON: DeviceStruct =
    DeviceStruct { name: "sm90/PatchCommon", fields: &[inner("Patches", "patches", &PATCHES)] };

/// The matrix that an index picks rows from, and the index.
const PICKED_ROWS: DeviceStruct = DeviceStruct {
    name: "sm90/PickedRows",
    fields: &[
        pointer("const char*", "matrix"),
        stride("row_bytes", &[ROW_BYTES]).about("from a row to the next"),
        inner("RowIndex", "index", &ROW_INDEX).of(Memory::Index).described(""),
    ],
};

const PICKED_COMMON: DeviceStruct =
    DeviceStruct { name: "sm90/PickedCommon", fields: &[inner("PickedRows", "picked", &PICKED_ROWS).of(Memory::A)] };

/// All of them; others contain some.
pub(crate) const STRUCTS: &[&DeviceStruct] = &[&COMMON, &PATCH_COMMON, &PICKED_COMMON];

const BASE: Part = Part { header: "sm90/gemm.cuh", ty: "sm90::Common", fields: &COMMON };
const GROUPS: Part = Part { header: "sm90/groups.cuh", ty: "sm90::GroupCommon", fields: &GROUP_COMMON };
const DEPTH: Part = Part { header: "sm90/depth.cuh", ty: "sm90::DepthCommon", fields: &GROUP_COMMON };
const PATCHES_OF_ROWS: Part = Part { header: "sm90/patches.cuh", ty: "sm90::PatchCommon", fields: &PATCH_COMMON };
const OF_TRANSPOSED: Part =
    Part { header: "sm90/transposed_patches.cuh", ty: "sm90::PatchCommon", fields: &PATCH_COMMON };
const PICKED: Part = Part { header: "sm90/picked.cuh", ty: "sm90::PickedCommon<BASE>", fields: &PICKED_COMMON };
const SCALED: Part = Part { header: "sm90/scaled.cuh", ty: "ScaledCommon<BASE, COUNT>", fields: &SCALED_COMMON };

impl Sm90Key {
    /// The parts of the kernel's parameter between its tensor maps and the epilogue's arguments.
    pub(crate) fn parts(&self) -> SmallVec<[&'static Part; 4]> {
        let mut parts = SmallVec::new();
        parts.push(&BASE);
        match self.reading {
            ReadingShape::Rows => {}
            ReadingShape::Picked => parts.push(&PICKED),
            ReadingShape::Groups(Divided::Rows) => parts.push(&GROUPS),
            ReadingShape::Groups(Divided::Depth) => parts.push(&DEPTH),
            ReadingShape::PickedGroups => parts.extend([&GROUPS, &PICKED]),
            ReadingShape::Patches(_) if self.reading.is_transposed() => parts.push(&OF_TRANSPOSED),
            ReadingShape::Patches(_) => parts.push(&PATCHES_OF_ROWS),
        }
        if self.formats.are_scaled() {
            parts.push(&SCALED);
        }
        parts
    }
}
