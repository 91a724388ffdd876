//! The tiles of the sm_90a kernels, and how warpgroups divide them.

use std::fmt;

use crate::gemm::problem::Major;

/// What the consumer warpgroups do beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Schedule {
    /// All compute one tile, each some of its rows.
    Cooperative,
    /// Two compute a tile each; while one multiplies, the other runs its epilogue.
    PingPong,
}

/// A block's tile, in MMA terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Rows: a multiple of 64 for every warpgroup that shares them.
    pub rows: usize,
    /// Columns: N of the instruction.
    pub columns: usize,
    /// What the consumer warpgroups do beside each other.
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

/// Every tile. Accumulators take at most 192 registers of a thread: above that the epilogue has none left.
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

/// Tiles of few rows' products, whose own rows are the columns of several accumulators: 64 of each.
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
    /// The tiles that kernels of so many accumulators come in, whatever the instruction.
    pub fn of(accumulators: usize) -> impl Iterator<Item = Self> {
        let further: &[Self] = if accumulators > 1 { &SHARED_ROWS } else { &[] };
        TILES.iter().chain(further).copied()
    }

    /// Whether it can be shared among so many accumulators: each has whole instructions' columns, and of a B along N whole
    /// boxes of 64; where the kernel is swapped, whole blocks of 64 rows of every warpgroup.
    #[must_use]
    pub(crate) const fn holds(&self, accumulators: usize, swapped: bool, b: Major) -> bool {
        if accumulators == 1 {
            return true;
        }
        if swapped {
            return self.warpgroup_rows().is_multiple_of(64 * accumulators);
        }
        self.columns.is_multiple_of(8 * accumulators)
            && (matches!(b, Major::K) || (self.columns / accumulators).is_multiple_of(64))
    }

    /// The tiles that kernels of one accumulator come in, whatever the instruction.
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

    /// 32-bit registers of a consumer thread that hold accumulators.
    #[must_use]
    pub const fn accumulator_registers(&self) -> usize {
        self.warpgroup_rows() * self.columns / 128
    }

    /// Threads of a block: the producer warpgroup and the consumers.
    #[must_use]
    pub const fn threads(&self) -> usize {
        128 * (self.consumers + 1)
    }

    /// Registers of a thread of the producer and of a consumer, as `setmaxnreg` sets them: together within what the
    /// block has at entry. With one consumer each thread can have all that a thread ever can: `None`.
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

    /// Whatever their number and however B lies, accumulators have tiles of many rows and of few.
    #[test]
    fn every_number_of_accumulators_has_tiles() {
        for accumulators in 1..=4 {
            for (swapped, b) in [(false, Major::K), (false, Major::Mn), (true, Major::K), (true, Major::Mn)] {
                let tiles = Tile::of(accumulators).filter(|tile| tile.holds(accumulators, swapped, b)).count();
                assert!(tiles >= 3, "{accumulators} {swapped} {b:?}: {tiles}");
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
            // Registers at entry: as many as a block of so many threads can have, in steps of 8.
            let at_entry = 65536 / tile.threads() / 8 * 8;
            assert!(producer + tile.consumers * consumer <= at_entry * (tile.consumers + 1), "{tile}");
            assert!(producer <= at_entry && consumer >= at_entry, "{tile}: dec and inc");
            assert!(tile.accumulator_registers() + 40 <= consumer, "{tile}: room for an epilogue");
        }
    }
}
