//! What a deadlock report says: who waits for what, where, and who could have come.

use super::Site;
use std::fmt;

/// What lanes wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A CTA barrier.
    Barrier {
        /// Barrier 0…15.
        id: u32,
        /// Threads it needs.
        expected: u32,
        /// Threads that have arrived.
        arrived: u32,
    },
    /// `bar.warp.sync` or another `.sync` collective.
    Warp {
        /// Lanes named by the mask.
        mask: u32,
        /// Lanes that have arrived.
        arrived: u32,
    },
    /// `barrier.cluster.wait`.
    Cluster {
        /// Threads it needs.
        expected: u32,
        /// Threads that have arrived.
        arrived: u32,
    },
    /// `mbarrier.try_wait` or a loop over `test_wait`.
    Mbarrier {
        /// Rank of the owning block in the cluster.
        rank: u32,
        /// Byte offset of the mbarrier in that block's shared memory.
        offset: u32,
        /// Parity asked for.
        parity: u32,
        /// Phases completed so far.
        phases: u64,
        /// Arrivals still pending.
        pending: u32,
        /// Bytes still expected; negative when more came than was announced.
        transactions: i64,
    },
    /// All four warps of a warpgroup for `wgmma` or `setmaxnreg`.
    Warpgroup {
        /// Warps of the group that have arrived, one bit each.
        arrived: u32,
    },
    /// A register that `setmaxnreg.inc` needs.
    Registers,
    /// A loop that reads memory which nobody is left to write.
    Memory {
        /// Global address, or shared offset.
        address: u64,
    },
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier { id, expected, arrived } => {
                write!(f, "barrier {id}: {arrived} of {expected} threads have arrived")
            }
            Self::Warp { mask, arrived } => {
                write!(f, "lanes 0x{:08x} of mask 0x{mask:08x} to reach the same instruction", mask & !arrived)
            }
            Self::Cluster { expected, arrived } => {
                write!(f, "the cluster barrier: {arrived} of {expected} threads have arrived")
            }
            Self::Mbarrier { rank, offset, parity, phases, pending, transactions } => {
                write!(f, "the mbarrier at shared+{offset:#x}")?;
                if *rank != 0 {
                    write!(f, " of cluster rank {rank}")?;
                }
                write!(f, " to complete parity {parity}: it is in phase {phases}")?;
                match (pending, transactions) {
                    (0, 0) => write!(f, ", of the other parity, and nothing is pending"),
                    (p, 0) => write!(f, " with {p} arrivals pending"),
                    (p, t) if *t > 0 => write!(f, " with {p} arrivals and {t} bytes pending"),
                    (p, t) => write!(f, " with {p} arrivals pending and {} bytes more than were expected", -t),
                }
            }
            Self::Warpgroup { arrived } => write!(f, "its warpgroup: warps 0b{arrived:04b} of 0b1111 have arrived"),
            Self::Registers => write!(f, "registers that no other warp gives back"),
            Self::Memory { address } => write!(f, "a value at {address:#x} that nobody is left to write"),
        }
    }
}

/// Lanes that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// `%ctaid`.
    pub block: [u32; 3],
    /// Warp in the block.
    pub warp: u32,
    /// Lanes.
    pub lanes: u32,
    /// Where they wait.
    pub site: Site,
    /// For what.
    pub waits_for: WaitsFor,
}

/// Nobody can go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlock {
    /// Everybody who waits.
    pub waiters: Vec<Waiter>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        write!(f, "deadlock: {} warp parts wait and nobody can go on", self.waiters.len())?;
        // Warps that wait for the same thing at the same place are one line.
        let mut groups: Vec<(&Waiter, Vec<u32>, u32)> = Vec::new();
        for waiter in &self.waiters {
            let same = |other: &Waiter| {
                other.block == waiter.block && other.site == waiter.site && other.waits_for == waiter.waits_for
            };
            match groups.iter_mut().find(|(first, _, _)| same(first)) {
                Some((_, warps, lanes)) => {
                    if !warps.contains(&waiter.warp) {
                        warps.push(waiter.warp);
                    }
                    *lanes |= waiter.lanes;
                }
                None => groups.push((waiter, vec![waiter.warp], waiter.lanes)),
            }
        }
        for (waiter, warps, lanes) in groups.iter().take(SHOWN) {
            let [x, y, z] = waiter.block;
            let warps: Vec<String> = warps.iter().map(u32::to_string).collect();
            write!(
                f,
                "\n    block ({x}, {y}, {z}) warp {} lanes 0x{lanes:08x} at {}\n        waits for {}",
                warps.join(", "),
                waiter.site,
                waiter.waits_for
            )?;
        }
        if groups.len() > SHOWN {
            write!(f, "\n    and {} places more", groups.len() - SHOWN)?;
        }
        Ok(())
    }
}
