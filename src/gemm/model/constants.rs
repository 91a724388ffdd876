//! The constants of the model: numbers that were estimated or measured elsewhere, as data with names and units.
//!
//! So a program can vary one and see what the choices depend on, and fit all to measured times. What the hardware fixes
//! (tensor cores' rates, 128 bytes of shared memory and 128 lanes per clock) is not among them.

/// A constant of a family: its name, its unit, and where it is.
pub(crate) type Place<C> = (&'static str, &'static str, fn(&mut C) -> &mut f64);

/// Declares a struct of constants, their values, and where each is.
macro_rules! constants {
    ($(#[doc = $about:literal])* $name:ident, $family:literal;
     $($(#[doc = $doc:literal])+ $field:ident: $unit:literal = $value:literal;)*) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ #[doc = concat!("\n\nUnit: ", $unit, ".")] pub $field: f64,)*
        }

        impl $name {
            pub(crate) const ESTIMATED: Self = Self { $($field: $value,)* };

            pub(crate) const PLACES: &[Place<Self>] = &[
                $((concat!($family, ".", stringify!($field)), $unit, |constants| &mut constants.$field),)*
            ];
        }
    };
}

constants! {
    /// The constants of launches and copies before and after a product.
    LaunchConstants, "launches";
    /// The cost of a launch beside its work: its start, and the end of the work before it. An estimate.
    launch: "us" = 3.0;
    /// The share of the memory's bandwidth that copies of single words, and the launches after a product's, reach. An
    /// estimate.
    copy_share: "of the bandwidth" = 0.8;
}

constants! {
    /// The constants of the model of the kernels for sm_90a.
    Sm90Constants, "sm90";
    /// The usable share of the tensor cores' peak rate, as others measured it on an H100.
    tensor_share: "of the peak rate" = 0.92;
    /// The clock while tensor cores are busy, as others measured it on an H100.
    busy_clock: "of the boost clock" = 0.956;
    /// The clock that the power limit allows for long products of random numbers (788 TFLOP/s at 8192³ on an H200).
    power_clock: "of the boost clock" = 0.80;
    /// The same for products of 8-bit types, of which there are twice as many per clock (1250 to 1400 TFLOP/s are
    /// expected).
    power_clock_8_bit: "of the boost clock" = 0.66;
    /// The share of the power of idle multiprocessors, in the last wave, that the working ones can't use.
    idle_power: "of the power" = 0.1;
    /// The time after which the power limit takes effect.
    power_after: "us" = 200.0;
    /// The power of a byte from the L2, as a share of a multiply-add's.
    power_of_bytes: "multiply-adds per byte" = 0.5;
    /// The power of a byte from shared memory, as a share of a byte's from the L2.
    power_of_shared: "bytes per byte" = 0.25;
    /// From the request for a stage to its arrival.
    latency: "clocks" = 900.0;
    /// The start of a launch, for barriers and the first stage.
    start: "clocks" = 1800.0;
    /// What clusters add to the start.
    cluster_start: "clocks" = 300.0;
    /// The share of the additions that take FP8 sums out of the tensor cores that is not hidden by the other
    /// warpgroup's products.
    promotion_share: "of the additions" = 0.5;
    /// The latencies of a k-tile where one operand is converted: of the loads of its bytes, of four conversions, and of the
    /// products between which they are. An estimate.
    conversion: "clocks" = 180.0;
    /// Of rows that the kernel picks: a warp's copy of four rows' part of a k-tile, with the address that it computes for each.
    /// Two warps copy at once. An estimate.
    pick: "clocks" = 10.0;
    /// Between the arrival of a k-tile of such rows and its products: the fence behind what threads have copied. An estimate.
    pick_fence: "clocks" = 30.0;
    /// From the request for the first rows' numbers until they are there.
    pick_start: "clocks" = 700.0;
    /// What an element costs without any operation.
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
    /// The same for stream-K.
    stream_turn: "clocks" = 1500.0;
    /// Where lines lie in a cluster's tiles: what a warp waits after a phase for what the other blocks have of its lines. An
    /// estimate.
    exchange: "clocks" = 1000.0;
    /// The part of the smaller of two times that the larger one does not hide.
    overlap: "of the smaller time" = 0.05;
}

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
    /// What an element costs without any operation.
    element: "instructions" = 8.0;
    /// A function such as erf.
    function: "instructions" = 16.0;
    /// An element of a reduction along rows, of which a multiprocessor does 64 per clock.
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

/// The constants of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Launches and copies before and after a product.
    pub launches: LaunchConstants,
    /// The kernels for sm_80 and later.
    pub sm80: Sm80Constants,
    /// The kernels for sm_90a.
    pub sm90: Sm90Constants,
}

impl Constants {
    pub(crate) const ESTIMATED: Self =
        Self { launches: LaunchConstants::ESTIMATED, sm80: Sm80Constants::ESTIMATED, sm90: Sm90Constants::ESTIMATED };
}
