//! The tiles of the sm_90a kernels, and how warpgroups divide them.

use std::fmt;

use crate::gemm::problem::Major;

/// How the consumer warpgroups divide the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Schedule {
    /// All compute one tile; each has some of its rows.
    Cooperative,
    /// Two compute a tile each. While one multiplies, the other runs its epilogue.
    PingPong,
}

/// A block's tile, in MMA terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Rows: a multiple of 64 for each warpgroup that shares them.
    pub rows: usize,
    /// Columns: the instruction's N.
    pub columns: usize,
    /// How the consumer warpgroups divide the work.
    pub schedule: Schedule,
    /// Consumer warpgroups.
    pub consumers: usize,
}

const fn cooperative(rows: usize, columns: usize, consumers: usize) -> Tile {
    Tile { rows, columns, schedule: Schedule::Cooperative, consumers }
}

const fn ping_pong(rows: usize, columns: usize) -> Tile {
    Tile { rows, columns, schedule: Schedule::PingPong, consumers: 2 }
}

/// The tiles of one accumulator. Accumulators take at most 192 registers per thread: with more, the epilogue would have
/// none left.
const TILES: [Tile; 36] = [
    cooperative(256, 192, 2),
    cooperative(256, 160, 2),
    cooperative(256, 128, 2),
    cooperative(256, 96, 2),
    cooperative(256, 64, 2),
    cooperative(192, 192, 3),
    cooperative(192, 128, 3),
    cooperative(128, 256, 2),
    cooperative(128, 224, 2),
    cooperative(128, 192, 2),
    cooperative(128, 160, 2),
    cooperative(128, 128, 2),
    cooperative(128, 96, 2),
    cooperative(128, 64, 2),
    cooperative(128, 32, 2),
    cooperative(128, 16, 2),
    cooperative(128, 8, 2),
    ping_pong(128, 192),
    ping_pong(128, 160),
    ping_pong(128, 128),
    ping_pong(128, 96),
    ping_pong(128, 64),
    ping_pong(64, 256),
    ping_pong(64, 192),
    ping_pong(64, 128),
    ping_pong(64, 96),
    ping_pong(64, 64),
    cooperative(64, 256, 1),
    cooperative(64, 192, 1),
    cooperative(64, 128, 1),
    cooperative(64, 96, 1),
    cooperative(64, 64, 1),
    cooperative(64, 32, 1),
    cooperative(64, 24, 1),
    cooperative(64, 16, 1),
    cooperative(64, 8, 1),
];

/// Tiles for swapped kernels of several accumulators: the accumulators share the tile's rows, 64 each.
const SHARED_ROWS: [Tile; 14] = [
    cooperative(256, 32, 2),
    cooperative(256, 16, 2),
    cooperative(256, 8, 2),
    cooperative(256, 32, 1),
    cooperative(256, 16, 1),
    cooperative(256, 8, 1),
    cooperative(192, 64, 1),
    cooperative(192, 32, 1),
    cooperative(192, 16, 1),
    cooperative(192, 8, 1),
    cooperative(128, 64, 1),
    cooperative(128, 32, 1),
    cooperative(128, 16, 1),
    cooperative(128, 8, 1),
];

impl Tile {
    /// The tiles of the kernels with this many accumulators, for any instruction.
    pub fn of(accumulators: usize) -> impl Iterator<Item = Self> {
        let further: &[Self] = if accumulators > 1 { &SHARED_ROWS } else { &[] };
        TILES.iter().chain(further).copied()
    }

    /// Whether the tile can be shared among this many accumulators: each needs columns of whole instructions, and whole
    /// boxes of 64 if B is contiguous along N; in a swapped kernel, whole blocks of 64 rows of every warpgroup.
    #[must_use]
    pub(crate) const fn holds(&self, accumulators: usize, swap_ab: bool, b: Major) -> bool {
        if accumulators == 1 {
            return true;
        }
        if swap_ab {
            return self.warpgroup_rows().is_multiple_of(64 * accumulators);
        }
        self.columns.is_multiple_of(8 * accumulators)
            && (matches!(b, Major::K) || (self.columns / accumulators).is_multiple_of(64))
    }

    /// The tiles of the kernels with one accumulator, for any instruction.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        &TILES
    }

    /// Rows that one consumer warpgroup computes.
    #[must_use]
    pub const fn warpgroup_rows(&self) -> usize {
        match self.schedule {
            Schedule::Cooperative => self.rows / self.consumers,
            Schedule::PingPong => self.rows,
        }
    }

    /// 32-bit registers per consumer thread that hold accumulators.
    #[must_use]
    pub const fn accumulator_registers(&self) -> usize {
        self.warpgroup_rows() * self.columns / 128
    }

    /// The threads of a block: those of the producer warpgroup and of the consumers.
    #[must_use]
    pub const fn threads(&self) -> usize {
        128 * (self.consumers + 1)
    }

    /// Registers per thread of the producer and of a consumer, as `setmaxnreg` sets them; their sum is within what the
    /// block has at the start. With one consumer every thread can have the maximum from the start: `None`.
    #[must_use]
    pub const fn registers(&self) -> Option<(usize, usize)> {
        match self.consumers {
            1 => None,
            2 if self.accumulator_registers() >= 176 => Some((24, 240)),
            2 => Some((40, 232)),
            _ => Some((32, 160)),
        }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} ", self.rows, self.columns)?;
        match self.schedule {
            Schedule::Cooperative if self.consumers == 1 => f.write_str("by one warpgroup"),
            Schedule::Cooperative => write!(f, "by {} warpgroups", self.consumers),
            Schedule::PingPong => f.write_str("ping-pong"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Any number of accumulators has tiles for many rows and for few, for any layout of B.
    #[test]
    fn every_number_of_accumulators_has_tiles() {
        for accumulators in 1..=4 {
            for (swap_ab, b) in [(false, Major::K), (false, Major::Mn), (true, Major::K), (true, Major::Mn)] {
                let tiles = Tile::of(accumulators).filter(|tile| tile.holds(accumulators, swap_ab, b)).count();
                assert!(tiles >= 3, "{accumulators} {swap_ab} {b:?}: {tiles}");
            }
        }
    }

    #[test]
    fn tiles_suit_the_kernel() {
        let distinct: BTreeSet<_> = Tile::of(2).collect();
        assert_eq!(distinct.len(), TILES.len() + SHARED_ROWS.len());
        for tile in Tile::of(2) {
            assert_eq!(tile.warpgroup_rows() % 64, 0, "{tile}");
            assert!(tile.warpgroup_rows() * tile.consumers >= tile.rows, "{tile}");
            // wgmma's N: multiples of 8, for integers of 16 above 32 (PTX ISA 9.7.15.2).
            assert!(tile.columns % if tile.columns > 32 { 16 } else { 8 } == 0 && tile.columns <= 256, "{tile}");
            assert!(tile.accumulator_registers() <= 192, "{tile}");
            let Some((producer, consumer)) = tile.registers() else { continue };
            // Registers at the start: as many as a block of this many threads can have, in steps of 8.
            let at_entry = 65536 / tile.threads() / 8 * 8;
            assert!(producer + tile.consumers * consumer <= at_entry * (tile.consumers + 1), "{tile}");
            assert!(producer <= at_entry && consumer >= at_entry, "{tile}: dec and inc");
            assert!(tile.accumulator_registers() + 40 <= consumer, "{tile}: room for an epilogue");
        }
    }
}
