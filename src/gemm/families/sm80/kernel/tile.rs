//! Tile shapes: what one thread block computes, and what it needs of a multiprocessor.

use std::fmt;

use super::instruction::Instruction;
use crate::ElementType;
use crate::gemm::problem::Major;
use crate::gemm::problem::scaled::SCALE_BLOCK;

/// A block's tile and how its warps and its pipeline divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Rows of the accumulator that a block computes.
    pub m: usize,
    /// Columns of the accumulator that a block computes.
    pub n: usize,
    /// The depth of a pipeline stage along K.
    pub k: usize,
    /// Rows that a warp computes.
    pub warp_m: usize,
    /// Columns that a warp computes.
    pub warp_n: usize,
    /// Pipeline stages.
    pub stages: usize,
}

const fn tile(m: usize, n: usize, k: usize, warp_m: usize, warp_n: usize, stages: usize) -> Tile {
    Tile { m, n, k, warp_m, warp_n, stages }
}

/// A row of K is 64 or 128 bytes in a stage, so that swizzled reads use all banks. With 128 bytes there are half as
/// many waits for a k-tile. The larger tiles of this depth fit an A100's shared memory, but not that of every
/// sm_8x.
const TILES_16_BIT: [Tile; 14] = [
    tile(256, 128, 32, 64, 64, 3),
    tile(256, 128, 64, 64, 64, 3),
    tile(128, 256, 32, 64, 64, 3),
    tile(128, 256, 64, 64, 64, 3),
    tile(128, 128, 32, 64, 64, 4),
    tile(128, 128, 64, 64, 64, 3),
    tile(128, 64, 32, 64, 32, 4),
    tile(128, 64, 64, 64, 32, 3),
    tile(64, 128, 32, 32, 64, 4),
    tile(64, 128, 64, 32, 64, 3),
    tile(64, 64, 64, 32, 32, 3),
    tile(32, 128, 64, 16, 64, 3),
    tile(64, 32, 64, 32, 16, 4),
    tile(32, 32, 64, 16, 16, 4),
];
/// These rows in bytes. The largest tiles have only 64: with 128, their accumulators leave no registers for operands
/// of 8-bit types.
const TILES_8_BIT: [Tile; 11] = [
    tile(256, 128, 64, 64, 64, 3),
    tile(128, 256, 64, 64, 64, 3),
    tile(128, 128, 64, 64, 64, 4),
    tile(128, 64, 64, 64, 32, 4),
    tile(128, 64, 128, 64, 32, 3),
    tile(64, 128, 64, 32, 64, 4),
    tile(64, 128, 128, 32, 64, 3),
    tile(64, 64, 128, 32, 32, 3),
    tile(32, 128, 128, 16, 64, 3),
    tile(64, 32, 128, 32, 16, 4),
    tile(32, 32, 128, 16, 16, 4),
];
/// The tiles of FP8 whose sums are promoted after each k-tile. A second set of accumulators leaves registers for no larger
/// warps, and a promoted sum has 128 products.
const TILES_PROMOTED: [Tile; 7] = [
    tile(128, 128, 128, 64, 32, 3),
    tile(128, 64, 128, 64, 32, 3),
    tile(64, 128, 128, 32, 64, 3),
    tile(64, 64, 128, 32, 32, 3),
    tile(32, 128, 128, 16, 64, 3),
    tile(64, 32, 128, 32, 16, 4),
    tile(32, 32, 128, 16, 16, 4),
];
/// The tiles of f32 on tensor cores.
const TILES_TF32: [Tile; 13] = [
    tile(256, 128, 16, 64, 64, 3),
    tile(256, 128, 32, 64, 64, 3),
    tile(128, 256, 16, 64, 64, 3),
    tile(128, 256, 32, 64, 64, 3),
    tile(128, 128, 16, 64, 64, 4),
    tile(128, 128, 32, 64, 64, 3),
    tile(128, 64, 16, 64, 32, 4),
    tile(128, 64, 32, 64, 32, 3),
    tile(64, 128, 16, 32, 64, 4),
    tile(64, 128, 32, 32, 64, 3),
    tile(64, 64, 32, 32, 32, 3),
    tile(64, 32, 32, 32, 16, 4),
    tile(32, 32, 32, 16, 16, 4),
];
const TILES_F64: [Tile; 7] = [
    tile(128, 64, 16, 32, 32, 3),
    tile(64, 128, 16, 32, 32, 3),
    tile(64, 64, 16, 32, 32, 4),
    tile(64, 32, 16, 32, 16, 4),
    tile(32, 64, 16, 16, 32, 4),
    tile(32, 32, 16, 16, 16, 4),
    tile(16, 32, 16, 16, 16, 4),
];
const TILES_F32: [Tile; 7] = [
    tile(128, 128, 16, 32, 64, 3),
    tile(128, 64, 16, 32, 32, 3),
    tile(64, 128, 16, 32, 32, 3),
    tile(64, 64, 16, 32, 32, 3),
    tile(64, 32, 16, 32, 16, 4),
    tile(32, 64, 16, 16, 32, 4),
    tile(32, 32, 32, 16, 16, 4),
];

impl Tile {
    /// The tiles of the kernels with this instruction, largest first.
    #[must_use]
    pub const fn all(instruction: Instruction) -> &'static [Self] {
        match instruction {
            Instruction::MmaF16 | Instruction::MmaBf16 | Instruction::MmaMixed(_) => &TILES_16_BIT,
            Instruction::MmaTf32 | Instruction::MmaFastBf16 => &TILES_TF32,
            Instruction::MmaF64 => &TILES_F64,
            Instruction::FmaF32 => &TILES_F32,
            Instruction::MmaNativeFp8(_) if instruction.is_promoted() => &TILES_PROMOTED,
            Instruction::MmaInt8(_) | Instruction::MmaFp8(_) | Instruction::MmaNativeFp8(_) => &TILES_8_BIT,
        }
    }

    /// The number of parts into which a tile's columns are cut, so that each accumulator has one. It is a power of two,
    /// as a warp's columns are.
    #[must_use]
    pub const fn parts(accumulators: usize) -> usize {
        accumulators.next_power_of_two()
    }

    /// Rows of an A that is contiguous along K. A thread copies a part of each to every stage.
    pub(crate) fn rows_of_thread(&self, element_size: usize) -> usize {
        let chunks = (self.k * element_size).div_ceil(16).max(1);
        self.m.div_ceil((self.threads() / chunks).max(1))
    }

    /// Columns of the product in a tile; each accumulator has this many.
    #[must_use]
    pub const fn product_columns(&self, accumulators: usize) -> usize {
        self.n / Self::parts(accumulators)
    }

    /// Whether a warp's columns can be shared among this many accumulators: each needs the columns of whole
    /// instructions, and, if B is contiguous along N, whole 16-byte chunks.
    #[must_use]
    pub const fn has_room(&self, accumulators: usize, instruction: Instruction, b: Major) -> bool {
        let part = self.warp_n / Self::parts(accumulators);
        part >= 8 && (matches!(b, Major::K) || (part * instruction.sizes().1).is_multiple_of(16))
    }

    /// Whether kernels for operands with scales of blocks have the tile: its k-tiles are blocks, its columns are in one
    /// block, and there are registers for a second set of accumulators.
    #[must_use]
    pub const fn takes_scales(&self, accumulators: usize) -> bool {
        self.k == SCALE_BLOCK
            && SCALE_BLOCK.is_multiple_of(self.product_columns(accumulators))
            && self.warp_m * self.warp_n / 32 <= 64
    }

    /// The warps of a block, along M and along N.
    #[must_use]
    pub const fn warps(&self) -> (usize, usize) {
        (self.m / self.warp_m, self.n / self.warp_n)
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(&self) -> usize {
        let (m, n) = self.warps();
        32 * m * n
    }

    /// Bytes of one pipeline stage.
    #[must_use]
    pub const fn stage_bytes(&self, instruction: Instruction) -> usize {
        let (a, b) = instruction.sizes();
        (self.m * a + self.n * b) * self.k
    }

    /// Bytes of the accumulators of the whole tile.
    #[must_use]
    pub const fn accumulator_bytes(&self, accumulator: ElementType) -> usize {
        self.m * self.n * accumulator.size()
    }

    /// 32-bit registers per thread that hold accumulators.
    #[must_use]
    pub const fn accumulator_registers(&self, accumulator: ElementType) -> usize {
        self.warp_m * self.warp_n / 32 * accumulator.size() / 4
    }

    /// The number of parts in which the accumulators pass through shared memory to the epilogue: one, unless the tile
    /// is larger than the pipeline whose memory it reuses; then as few as fit into `pipeline_bytes`.
    #[must_use]
    pub fn epilogue_passes(&self, accumulator: ElementType, pipeline_bytes: usize) -> usize {
        let (whole, blocks) = (self.accumulator_bytes(accumulator), self.warp_m / 16);
        let mut passes = 1;
        while passes < blocks && whole / passes > pipeline_bytes {
            passes *= 2;
        }
        passes
    }

    /// Bytes of dynamic shared memory: that of the pipeline, or of the accumulators that pass to the epilogue.
    #[must_use]
    pub fn shared_bytes(&self, instruction: Instruction) -> usize {
        let pipeline = self.stages * self.stage_bytes(instruction);
        let accumulator = instruction.accumulator();
        let staging = self.accumulator_bytes(accumulator) / self.epilogue_passes(accumulator, pipeline);
        pipeline.max(staging)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, warp_m, warp_n, stages } = self;
        write!(f, "{m}x{n}x{k}, warps of {warp_m}x{warp_n}, {stages} stages")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's `static_assert`s hold, so no tile of the table fails to compile.
    #[test]
    fn tiles_suit_the_kernel() {
        for instruction in Instruction::ALL.into_iter().chain(Instruction::native()) {
            let tiles = Tile::all(instruction);
            assert!(tiles.len() >= 6, "{instruction}");
            for tile in tiles {
                assert!(tile.m % tile.warp_m == 0 && tile.n % tile.warp_n == 0, "{tile}");
                assert!((tile.warp_m / 16).is_power_of_two() && (tile.warp_n / 16).is_power_of_two(), "{tile}");
                let (a, b) = instruction.sizes();
                for bytes in [tile.m * a, tile.k * a, tile.n * b, tile.k * b] {
                    let chunks = bytes / 16;
                    assert!(chunks.is_power_of_two() && chunks >= 2 && tile.threads() % chunks == 0, "{tile}");
                }
                let shallower = tiles.iter().any(|t| (t.m, t.n) == (tile.m, tile.n) && t.k < tile.k);
                let limit = if shallower { 163 * 1024 } else { 99 * 1024 };
                assert!(
                    tile.shared_bytes(instruction) <= limit,
                    "{instruction} {tile}: one of its size fits every sm_8x"
                );
                let registers = tile.accumulator_registers(instruction.accumulator());
                assert!(registers <= 128 && tile.threads() * 255 <= 65536, "{tile}");
                // As the reference's bound takes it.
                assert!(!instruction.is_promoted() || tile.k == 128 && registers <= 64, "{tile}");
            }
        }
    }
}
