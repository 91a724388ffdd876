//! The combinations of knobs that have a kernel. The model asks this, so it is here and not in emission.

use super::instruction::Wgmma;
use super::key::{Hint, Sm90Key};
use crate::gemm::kernel::finish::Within;
use crate::gemm::kernel::split_k::{SplitKind, UNSPLIT_GROUPS};
use crate::gemm::problem::{Divided, Major};

/// The most accumulators per thread that leave room for a second set, in which a stage is summed.
const MOST_PROMOTED: usize = 80;

/// From this many accumulators per thread on, stream-K kernels whose tile's rows are N would spill.
const MOST_STREAMED: usize = 128;

/// Why a tile has no room for several accumulators.
pub(crate) const UNSHARED: &str = "its tile can't be shared among so many accumulators: each needs 8 of its columns or a \
                                   multiple (of B along N, 64), and where its rows are N, 64 rows of each warpgroup";

/// Why there is no kernel for groups of K.
pub(crate) const NO_GROUPS_OF_K: &str = "those that load by TMA have groups of K of 16-bit operands only, which their instructions take along M and N: leave the \
     request for one out for a kernel for sm_80";

/// Why the columns of a convolution are not the rows of its instructions.
const SWAPPED_PATCHES: &str =
    "patches of images are the rows of a tile: ask for `swap_ab: Some(false)`, or leave it open";

/// Why what is converted is the tile's rows.
const CONVERTED_COLUMNS: &str = "a B of 8 bits is converted to A's 16 in registers, from which only a tile's rows are multiplied: \
                                 ask for `swap_ab: Some(true)`, or leave it open";

/// Why filters of 8 bits have no kernel.
const CONVERTED_FILTERS: &str = "those that load by TMA have patches of images as a tile's rows, and convert nothing but those: leave the \
     request for one out for a kernel for sm_80";

/// Why patches have no hint.
const HINTED_PATCHES: &str =
    "patches of images are read again for each element of the window, and take no hint for A: ask for none";

/// Why blocks that pick rows share none.
const SHARED_PICKS: &str = "each block copies the rows that an index picks for its own tile, and blocks along N would share them: ask for \
     clusters of one block along N, or for `picked: Some(false)`, which copies all rows first";

/// Why picked rows have no hint.
const HINTED_PICKS: &str =
    "rows that an index picks are copied by threads, without a hint: ask for none for A, or for `picked: Some(false)`";

/// Why a tile leaves nothing to who picks rows.
const CROWDED_PICKS: &str = "rows that an index picks are copied by the producer's threads, for which a tile so large leaves too few registers: \
     ask for one with fewer than 176 accumulators a thread, or for `picked: Some(false)`, which copies the rows first";

/// Why no rows are picked, where none was asked for.
pub(crate) const NOTHING_PICKED: &str = "no index picks the rows of A: leave `picked` out";

/// Why rows that an index picks are copied before the product.
pub(crate) const UNALIGNED_PICKS: &str = "those that load by TMA pick rows only where they begin at multiples of 16 bytes: leave `picked` out, for a copy \
     of the rows first";

/// The least registers of a consumer beside the accumulators.
const BESIDE_ACCUMULATORS: usize = 40;

/// Why there is no kernel for rows that are contiguous.
pub(crate) const CONTIGUOUS_GROUPS: &str = "those that load by TMA take groups of rows only of an A that is contiguous along K: leave the request for one out for a kernel \
     for sm_80";

/// Why there is no kernel for very many groups.
pub(crate) const MANY_GROUPS: &str = "those that load by TMA have a table of all groups in shared memory, which has no room for so many: leave the request for one out \
     for a kernel for sm_80";

/// The most columns of a swapped kernel's tile with scales of blocks: a thread has a scale of A for every fourth.
const MOST_SCALED_COLUMNS: usize = 64;

/// Why K is not split in parallel where lines lie in a cluster's tiles.
const PARALLEL_CLUSTER: &str = "parallel split-K finishes each tile in a block of its own, and this epilogue needs whole rows, which lie in \
     several blocks' tiles: ask for serial, or for stream-K";

/// Why an operand that is converted has no kernel with tensor memory.
const CONVERTED_IN_REGISTERS: &str = "those for sm_100a multiply from shared memory, and a B of 8 bits is converted to A's 16 in registers: leave the request for \
     one out for a kernel for sm_80";

/// Why rows are copied first.
pub(crate) const PICKED_BY_THREADS: &str =
    "those for sm_100a load A by TMA only: ask for `picked: Some(false)`, which copies the rows first";

/// Why several accumulators share no rows.
pub(crate) const SHARED_ROWS: &str =
    "several accumulators share an instruction's columns on sm_100a: ask for `swap_ab: Some(false)`, or leave it open";

/// Why block scales have no kernel with tensor memory.
const SCALED_SUMS: &str = "those for sm_100a sum all of K in tensor memory, and block scales multiply the sums of each k-tile: leave the request for one out for a kernel for sm_80";

/// Whether there is a kernel for this key.
///
/// # Errors
/// Why there is none.
pub fn supports(key: &Sm90Key) -> Result<(), &'static str> {
    if !key.holds_accumulators() {
        return Err(UNSHARED);
    }
    let divided = key.reading.divided();
    if divided.is_some() && key.split_k != SplitKind::None {
        return Err(UNSPLIT_GROUPS);
    }
    if divided == Some(Divided::Depth) && (key.a, key.b) != (Major::Mn, Major::Mn) {
        return Err(NO_GROUPS_OF_K);
    }
    if key.instruction.converts_b() {
        if key.reading.patches().is_some() {
            return Err(CONVERTED_FILTERS);
        }
        if !key.swap_ab {
            return Err(CONVERTED_COLUMNS);
        }
    }
    if key.within() == Some(Within::Cluster) && key.split_k == SplitKind::Parallel {
        return Err(PARALLEL_CLUSTER);
    }
    if key.reading.patches().is_some() {
        if key.swap_ab {
            return Err(SWAPPED_PATCHES);
        }
        if key.hints.a != Hint::Normal {
            return Err(HINTED_PATCHES);
        }
    }
    if !key.cores.multiplies(key.instruction) {
        return Err(CONVERTED_IN_REGISTERS);
    }
    if key.reading.is_picked() && !key.cores.take_picked_rows() {
        return Err(PICKED_BY_THREADS);
    }
    if key.formats.are_scaled() && !key.cores.take_block_scales() {
        return Err(SCALED_SUMS);
    }
    if key.reading.is_picked() {
        let left = |(_, consumer): (usize, usize)| consumer.saturating_sub(key.tile.accumulator_registers());
        if key.registers().is_some_and(|registers| left(registers) < BESIDE_ACCUMULATORS) {
            return Err(CROWDED_PICKS);
        }
        if key.cluster.n > 1 {
            return Err(SHARED_PICKS);
        }
        if key.hints.a != Hint::Normal {
            return Err(HINTED_PICKS);
        }
    }
    if key.promoted && !key.cores.promotes(key.instruction) {
        return Err("sums of FP8 products are promoted to f32, and no others: ask for none");
    }
    if key.promoted && key.tile.accumulator_registers() > MOST_PROMOTED {
        return Err(
            "exact sums of FP8 products take twice a tile's registers: ask for a tile of at most 80 accumulators a \
             thread (128x128 by 2 warpgroups has 64), or for Arithmetic::FastFp8",
        );
    }
    if key.formats.are_scaled() && !(key.promoted && matches!(key.instruction, Wgmma::Fp8(_))) {
        return Err("block scales are multiplied by sums that are promoted to f32: ask for those, of FP8");
    }
    if key.formats.are_scaled() && !key.columns_are_in_a_block() {
        return Err(
            "with block scales a tile's columns are in one block of 128: ask for a tile that gives each accumulator 8, 16, 32, \
             64 or 128 columns",
        );
    }
    if key.formats.are_scaled() && key.swap_ab && key.tile.columns > MOST_SCALED_COLUMNS {
        return Err(
            "with block scales a tile whose rows are N has at most 64 columns: ask for fewer, or for rows that are M",
        );
    }
    if key.split_k == SplitKind::Stream && key.swap_ab && key.tile.accumulator_registers() >= MOST_STREAMED {
        return Err(
            "stream-K where the tile's rows are N needs registers that a tile so large has not: ask for a smaller tile, \
             or for another split of K",
        );
    }
    if key.pending > usize::from(!key.promoted) {
        return Err("exact sums of FP8 products are added when a stage is complete: ask for 0 pending stages, or for \
             Arithmetic::FastFp8");
    }
    Ok(())
}
