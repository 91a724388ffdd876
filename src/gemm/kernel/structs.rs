//! The structs that kernels of several families read.

use super::device_struct::{DeviceStruct, inner, int, pointer, stride, wide, with, word};
use super::formula::Operation::{Add, Multiply};
use super::formula::{
    Axis, BATCH, COLUMN_TILES, DEPTH, DEPTH_TILES, Formula, K_PER_SPLIT, LONGER, M, N, Quantity, ROW_TILES, SHARE,
    SPLITS, STREAMED, ZERO,
};
use super::launch::Memory;

/// All of them; others contain some.
pub(crate) const STRUCTS: &[&DeviceStruct] = &[
    &OPERAND,
    &PROBLEM,
    &LINE,
    &LATER,
    &GROUP_COMMON,
    &SCALED_COMMON,
    &ROW_INDEX,
    &TENSOR,
    &VECTOR,
    &SCALAR,
    &DIGITS,
    &DIGITS_VECTOR,
    &BATCHES,
    &SCATTERED,
    &SEED,
    &ROW_COPY,
    &COPY,
];

const fn given(quantity: Quantity) -> Formula {
    Formula::Given(quantity)
}

const fn along(axis: Axis) -> Formula {
    Formula::Given(Quantity::Stride(axis))
}

/// An operand: where it is, and its strides.
pub(crate) const OPERAND: DeviceStruct = DeviceStruct {
    name: "Operand",
    fields: &[
        pointer("const void*", "pointer"),
        stride("outer", &[along(Axis::Outer)]).described("outer_stride").about("along M or N"),
        stride("k", &[along(Axis::K)]).described("k_stride"),
        stride("batch", &[along(Axis::Batch)]).described("batch_stride"),
    ],
};

/// The scales of an operand's blocks.
const OPERAND_SCALES: DeviceStruct = DeviceStruct {
    name: "OperandScales",
    fields: &[
        pointer("const float*", "pointer"),
        stride("outer", &[along(Axis::Outer)]).described("outer_stride"),
        stride("k", &[along(Axis::K)]).described("k_stride"),
        stride("batch", &[along(Axis::Batch)]).described("batch_stride"),
    ],
};

/// The scales of all operands.
const SCALES: DeviceStruct = DeviceStruct {
    name: "Scales",
    fields: &[
        inner("OperandScales", "a", &OPERAND_SCALES).of(Memory::ScalesOfA).described("a_scales"),
        inner("OperandScales", "b", &OPERAND_SCALES).of(Memory::ScalesOfB(0)).of_each_b("COUNT", "b#_scales"),
    ],
};

/// Fields that kernels with scales need.
pub(crate) const SCALED_COMMON: DeviceStruct =
    DeviceStruct { name: "ScaledCommon", fields: &[inner("Scales<COUNT>", "scales", &SCALES).described("")] };

/// Extents, as kernels of all families count them.
pub(crate) const PROBLEM: DeviceStruct = DeviceStruct {
    name: "Problem",
    fields: &[
        int("m", &[M]),
        int("n", &[N]),
        int("k", &[DEPTH]),
        int("batch", &[BATCH]),
        int("tiles_m", &[ROW_TILES]),
        int("tiles_n", &[COLUMN_TILES]),
        int("splits", &[SPLITS]),
        int("k_per_split", &[K_PER_SPLIT]).about("a multiple of TILE_K"),
    ],
};

/// How stream-K cuts tiles, where a block has one after the other.
pub(crate) const LINE: DeviceStruct = DeviceStruct {
    name: "Line",
    fields: &[
        word("streamed", &[STREAMED]).about("how many tiles"),
        word("k_tiles", &[DEPTH_TILES]).about("k-tiles of a tile; at least 1"),
        word("share", &[SHARE]).about("k-tiles of a thread block at least,"),
        word("longer", &[LONGER]).about("and how many of the first have one more"),
    ],
};

/// Fields that the kernel of a later phase needs.
pub(crate) const LATER: DeviceStruct =
    DeviceStruct { name: "LaterCommon", fields: &[inner("Problem", "problem", &PROBLEM).described("")] };

/// Bounds of groups.
const GROUPS: DeviceStruct = DeviceStruct {
    name: "Groups",
    fields: &[
        pointer("const int*", "bounds"),
        stride("stride", &[along(Axis::Entry)]),
        int("count", &[BATCH]),
        int("form", &[given(Quantity::Form)]),
    ],
};

/// Fields that kernels with groups need.
pub(crate) const GROUP_COMMON: DeviceStruct =
    DeviceStruct { name: "GroupCommon", fields: &[inner("Groups", "groups", &GROUPS).of(Memory::Bounds)] };

/// The index that picks the rows of A, or places those of a view.
pub(crate) const ROW_INDEX: DeviceStruct = DeviceStruct {
    name: "RowIndex",
    fields: &[
        pointer("const int*", "rows"),
        stride("stride", &[along(Axis::Entry)]),
        int("limit", &[given(Quantity::Limit)]).about("how many rows there are"),
        word("site", &[given(Quantity::Site)]).about("the number under which a wrong one is noted"),
    ],
};

/// `TensorView`.
pub(crate) const TENSOR: DeviceStruct = DeviceStruct {
    name: "TensorView",
    fields: &[
        pointer("T*", "pointer"),
        stride("batch", &[along(Axis::Batch)]).described("batch_stride"),
        stride("row", &[along(Axis::Row)]).described("row_stride"),
        stride("column", &[along(Axis::Column)]).described("column_stride"),
        wide("vectorised", &[given(Quantity::Vectorised)]),
    ],
};

/// `VectorView`.
pub(crate) const VECTOR: DeviceStruct = DeviceStruct {
    name: "VectorView",
    fields: &[
        pointer("T*", "pointer"),
        stride("batch", &[along(Axis::Batch)]).described("batch_stride"),
        stride("stride", &[along(Axis::Entry)]),
    ],
};

/// `ScalarView`.
pub(crate) const SCALAR: DeviceStruct = DeviceStruct {
    name: "ScalarView",
    fields: &[pointer("T*", "pointer"), stride("batch", &[along(Axis::Batch)]).described("batch_stride")],
};

/// An axis of two digits. Its arguments are the strides of the lower and of the upper digit, and the values of the lower one.
const DIGIT_AXIS: DeviceStruct = DeviceStruct {
    name: "DigitAxis",
    fields: &[
        stride("lower", &[Formula::Argument(0)]).described("stride").about("of the lower digit, in elements"),
        stride("upper", &[Formula::Argument(1)]).described("upper_stride"),
        wide("extent", &[Formula::Argument(2)]).about("how many values the lower digit has"),
        wide("magic", &[Formula::Reciprocal(&Formula::Argument(2))]).about("i / extent is i * magic >> shift"),
        wide("shift", &[SHIFT_OF_DIGITS]),
    ],
};

const SHIFT_OF_DIGITS: Formula = Formula::Of(Add, &[Formula::Number(31), Formula::LogUp(&Formula::Argument(2))]);

/// The arguments of a digit axis.
const fn digits(axis: Axis) -> [Formula; 3] {
    [given(Quantity::Lower(axis)), given(Quantity::Upper(axis)), given(Quantity::Extent(axis))]
}
const ROW_DIGITS: [Formula; 3] = digits(Axis::Row);
const COLUMN_DIGITS: [Formula; 3] = digits(Axis::Column);
const ENTRY_DIGITS: [Formula; 3] = digits(Axis::Entry);
const BATCH_DIGITS: [Formula; 3] = digits(Axis::Batch);

/// `DigitsView`.
pub(crate) const DIGITS: DeviceStruct = DeviceStruct {
    name: "DigitsView",
    fields: &[
        pointer("T*", "pointer"),
        stride("batch", &[along(Axis::Batch)]).described("batch_stride"),
        with("DigitAxis", "rows", &DIGIT_AXIS, &[&ROW_DIGITS]).described("row-"),
        with("DigitAxis", "columns", &DIGIT_AXIS, &[&COLUMN_DIGITS]).described("column-"),
        wide("vectorised", &[given(Quantity::Vectorised)]),
    ],
};

/// `DigitsVectorView`.
pub(crate) const DIGITS_VECTOR: DeviceStruct = DeviceStruct {
    name: "DigitsVectorView",
    fields: &[
        pointer("T*", "pointer"),
        stride("batch", &[along(Axis::Batch)]).described("batch_stride"),
        with("DigitAxis", "axis", &DIGIT_AXIS, &[&ENTRY_DIGITS]).described(""),
    ],
};

/// `OfBatches`, behind its view.
pub(crate) const BATCHES: DeviceStruct =
    DeviceStruct { name: "OfBatches", fields: &[with("DigitAxis", "batches", &DIGIT_AXIS, &[&BATCH_DIGITS])] };

/// `ScatteredView`.
pub(crate) const SCATTERED: DeviceStruct = DeviceStruct {
    name: "ScatteredView",
    fields: &[
        inner("TensorView<T>", "tensor", &TENSOR).described(""),
        inner("RowIndex", "places", &ROW_INDEX).of(Memory::Places),
    ],
};

/// `SeedView`.
pub(crate) const SEED: DeviceStruct = DeviceStruct {
    name: "SeedView",
    fields: &[
        pointer("const long long*", "pointer"),
        stride("stride", &[along(Axis::Entry)]),
        wide("seed", &[given(Quantity::Seed)]),
        wide("offset", &[given(Quantity::Offset)]),
    ],
};

/// A copy of a matrix: `repack::Parameters`.
pub(crate) const COPY: DeviceStruct = DeviceStruct {
    name: "Copy",
    fields: &[
        pointer("const char*", "source"),
        pointer("u32*", "destination").of(Memory::Scratch),
        stride("source_batch", &[given(Quantity::SourceBytes(Axis::Batch))]).about("bytes"),
        stride("source_row", &[given(Quantity::SourceBytes(Axis::Row))]),
        stride("source_column", &[given(Quantity::SourceBytes(Axis::Column))]),
        stride("batch_words", &[given(Quantity::Words(Axis::Batch))]).about("of the destination"),
        stride("row_words", &[given(Quantity::Words(Axis::Row))]),
        word("rows", &[given(Quantity::Rows)]),
        word("columns", &[given(Quantity::Columns)]),
        word("batches", &[BATCH]),
        word("unused", &[ZERO]),
    ],
};

/// A copy of rows that an index picks, behind that: `repack::RowParameters`.
pub(crate) const ROW_COPY: DeviceStruct = DeviceStruct {
    name: "RowCopy",
    fields: &[
        inner("RowIndex", "index", &ROW_INDEX).of(Memory::Index),
        inner("Groups", "groups", &GROUPS).of(Memory::Bounds),
    ],
};

/// Bytes from a row of A to the next.
pub(crate) const ROW_BYTES: Formula =
    Formula::Of(Multiply, &[given(Quantity::Stride(Axis::Outer)), given(Quantity::ElementBytes)]);
