//! The tiles of the sm_90a kernels, and how warpgroups divide them.

use std::fmt;

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

impl Tile {
    /// The tiles that kernels come in, whatever the instruction.
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

    #[test]
    fn tiles_suit_the_kernel() {
        let distinct: BTreeSet<_> = Tile::all().iter().collect();
        assert_eq!(distinct.len(), Tile::all().len());
        for tile in Tile::all() {
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
