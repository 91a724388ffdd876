//! The constants of the model of this family.

use crate::gemm::model::constants::constants;

constants! {
    /// The constants of the model of the kernels for sm_90a.
    Sm90Constants, "sm90";
    /// The usable share of the tensor cores' peak rate, as others measured it on an H100.
    tensor_share: "of the peak rate" = 0.92;
    /// The clock while tensor cores are busy, as others measured it on an H100.
    busy_clock: "of the boost clock" = 0.956;
    /// The clock that power allows for 8-bit types (1460 to 1520 TFLOP/s beside 820 to 830 of bf16 on an H100).
    power_clock_8_bit: "of the clock for 16-bit types" = 0.89;
    /// A multiprocessor's own clock beside the one that power allows on average: others wait meanwhile.
    headroom: "of the power's clock" = 1.195;
    /// Its value for 8-bit types.
    headroom_8_bit: "of the power's clock" = 1.447;
    /// Its value for 8-bit types in short launches (1280 to 1430 TFLOP/s up to 170 us on an H100).
    short_clock_8_bit: "of the power's clock" = 1.10;
    /// The time after which the average power limits a launch, not only the clock.
    power_after: "us" = 200.0;
    /// The share of the power of idle multiprocessors, in the last wave, that the working ones can't use.
    idle_power: "of the power" = 0.1;
    /// The power of a byte from the L2, as a share of a multiply-add's.
    power_of_bytes: "multiply-adds per byte" = 0.5;
    /// The power of a byte from shared memory, as a share of a byte's from the L2.
    power_of_shared: "bytes per byte" = 0.25;
    /// From the request for a stage to its arrival.
    latency: "clocks" = 900.0;
    /// The start of a launch, for barriers and the first stage.
    start: "clocks" = 1800.0;
    /// Time that clusters add to the start.
    cluster_start: "clocks" = 300.0;
    /// The share of the additions that take FP8 sums out of the tensor cores that is not hidden by the other
    /// warpgroup's products.
    promotion_share: "of the additions" = 0.5;
    /// The latencies of a k-tile where one operand is converted: of the loads of its bytes, of four conversions, and of the
    /// products between which they are. An estimate.
    conversion: "clocks" = 180.0;
    /// For rows that the kernel picks: a warp's copy of four rows' part of a k-tile, with the address that it computes for each.
    /// Two warps copy at once. An estimate.
    pick: "clocks" = 10.0;
    /// Between the arrival of a k-tile of picked rows and its products: the fence behind the threads' copies. An estimate.
    pick_fence: "clocks" = 30.0;
    /// From the request for the first rows' numbers until they are there.
    pick_start: "clocks" = 700.0;
    /// Cost of an element without any operation.
    element: "instructions" = 4.0;
    /// A function such as erf, by the short formula for results of at most 16 bits.
    short_function: "instructions" = 8.0;
    /// A function such as erf, by the accurate formula.
    function: "instructions" = 24.0;
    /// An element of a reduction along rows.
    row_reduction: "instructions" = 4.0;
    /// An element of a reduction along columns.
    column_reduction: "instructions" = 10.0;
    /// An element of a reduction of all elements.
    all_reduction: "instructions" = 2.0;
    /// An element that tensor copies can't reach.
    direct: "instructions" = 16.0;
    /// The share of the arithmetic units that one warpgroup keeps busy.
    lone_share: "of the units" = 0.6;
    /// The barriers and waits of one step of the epilogue.
    step: "clocks" = 60.0;
    /// Completing the reductions of a tile.
    complete: "clocks" = 1500.0;
    /// Serial split-K: from one block's sum to the next block that adds to it.
    serial_turn: "clocks" = 600.0;
    /// Parallel split-K: from the last part's store until the block that adds all can see it.
    parallel_turn: "clocks" = 1500.0;
    /// A turn of stream-K.
    stream_turn: "clocks" = 1500.0;
    /// Where lines lie in a cluster's tiles: what a warp waits after a phase for what the other blocks have of its lines. An
    /// estimate.
    exchange: "clocks" = 1000.0;
    /// The part of the smaller of two times that the larger one does not hide.
    overlap: "of the smaller time" = 0.05;
    /// The part of the stores that products don't hide: results leave when a tile is done (4096x32768x512 takes 43 us more
    /// on an H100 than its products, and its stores 91).
    store_overlap: "of the smaller time" = 0.47;
}
