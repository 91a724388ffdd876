//! The constants of the model of this family.

use crate::gemm::model::constants::constants;

constants! {
    /// The constants of the model of the kernels for sm_80 and later.
    Sm80Constants, "sm80";
    /// Until a block's first products.
    start: "clocks" = 1400.0;
    /// The part of each k-tile's latency that the other stages don't hide.
    of_a_block: "clocks" = 60.0;
    /// From the last store of a sum until another block can see it.
    handed_over: "clocks" = 1500.0;
    /// A warp's copy of less than 16 bytes for each lane.
    narrow_copy: "clocks" = 2.0;
    /// Cost of an element without any operation.
    element: "instructions" = 8.0;
    /// A function such as erf.
    function: "instructions" = 16.0;
    /// An element of a reduction along rows: a multiprocessor does 64 per clock.
    row_reduction: "instructions" = 2.0;
    /// An element of a reduction along columns, likewise.
    column_reduction: "instructions" = 1.0;
    /// An element of a reduction of all elements, likewise.
    all_reduction: "instructions" = 1.0;
    /// Completing the reductions of a tile.
    complete: "clocks" = 2000.0;
    /// Serial split-K: one block's turn at a sum.
    serial_turn: "clocks" = 1200.0;
    /// The part of the smaller of two times that the larger one does not hide.
    overlap: "of the smaller time" = 0.05;
}
