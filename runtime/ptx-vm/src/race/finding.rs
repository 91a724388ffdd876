//! Findings: what the detector reports, and their text.

use super::{Scope, Space};
use std::fmt;

/// A place in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Index of the instruction.
    pub pc: u32,
    /// Line in the PTX text, counted from 1.
    pub ptx_line: u32,
    /// The place in the source from which the PTX was compiled, if there is a `.loc`.
    pub source: Option<(String, u32)>,
    /// The instruction, as written.
    pub instruction: String,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}", self.ptx_line)?;
        if let Some((file, line)) = &self.source {
            write!(f, " ({file}:{line})")?;
        }
        if !self.instruction.is_empty() {
            write!(f, " `{}`", self.instruction)?;
        }
        Ok(())
    }
}

/// Gives names and places for reports. It is called only if there is something to report.
pub trait Names {
    /// The place of an instruction.
    fn site(&self, pc: u32) -> Site;
    /// The variable or allocation at an address, by name, and the offset in it. Addresses of shared memory are
    /// [`shared_address`](super::shared_address)es.
    fn buffer(&self, space: Space, address: u64) -> Option<(String, u64)>;
}

/// The performer of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agent {
    /// The threads themselves.
    Threads,
    /// A `cp.async` of these threads.
    CopyAsync,
    /// A bulk copy that completes on an mbarrier, which is at this offset in the shared memory of the block of this
    /// rank.
    BulkLoad {
        /// The rank in the cluster of the block with the mbarrier.
        rank: u32,
        /// Its byte offset in shared memory.
        mbarrier: u32,
    },
    /// A bulk copy that completes by bulk group.
    BulkStore,
    /// A `wgmma` of a warpgroup, whose first warp is given.
    Wgmma,
    /// A `tcgen05.mma` that these threads have issued.
    TensorProduct,
    /// A `tcgen05.cp` that these threads have issued.
    TensorCopy,
    /// A `tcgen05.ld` of the warp.
    TensorLoad,
    /// A `tcgen05.st` of the warp.
    TensorStore,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// A strong read: `.relaxed`, `.acquire`, `.volatile`.
    StrongRead(Scope),
    /// A strong write, or an atomic.
    StrongWrite(Scope),
}

impl AccessKind {
    /// Whether memory is changed.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::StrongWrite(_))
    }
}

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// The agent; unknown for a launch that has ended.
    pub agent: Option<Agent>,
    /// `%ctaid` of the block that issued it, if it is still known.
    pub block: Option<[u32; 3]>,
    /// The warp in the block, if the agent belongs to one.
    pub warp: Option<u32>,
    /// Lanes of the warp.
    pub lanes: u32,
    /// The kind of access.
    pub access: AccessKind,
    /// The place; unknown for a launch that has ended.
    pub site: Option<Site>,
}

fn lanes_text(lanes: u32) -> String {
    match lanes {
        u32::MAX => "all lanes".into(),
        one if one.count_ones() == 1 => format!("lane {}", one.trailing_zeros()),
        many => format!("lanes 0x{many:08x}"),
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.access {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::StrongRead(_) => "strong read",
            AccessKind::StrongWrite(_) => "atomic or strong write",
        };
        let (Some(agent), Some(site)) = (self.agent, &self.site) else {
            return write!(f, "{verb} by an earlier kernel");
        };
        write!(f, "{verb} by ")?;
        match agent {
            Agent::Threads => {}
            Agent::CopyAsync => write!(f, "cp.async of ")?,
            Agent::BulkLoad { rank, mbarrier } => {
                write!(f, "a bulk copy completing on the mbarrier at shared+{mbarrier:#x}")?;
                if rank != 0 {
                    write!(f, " of cluster rank {rank}")?;
                }
            }
            Agent::BulkStore => write!(f, "a bulk copy issued by ")?,
            Agent::Wgmma => write!(f, "wgmma of the warpgroup of ")?,
            Agent::TensorProduct => write!(f, "a tcgen05.mma issued by ")?,
            Agent::TensorCopy => write!(f, "a tcgen05.cp issued by ")?,
            Agent::TensorLoad => write!(f, "tcgen05.ld of ")?,
            Agent::TensorStore => write!(f, "tcgen05.st of ")?,
        }
        if let Some(warp) = self.warp {
            write!(f, "warp {warp}")?;
            if agent != Agent::Wgmma {
                write!(f, " {}", lanes_text(self.lanes))?;
            }
        }
        if let Some([x, y, z]) = self.block {
            write!(f, " of block ({x}, {y}, {z})")?;
        }
        write!(f, " at {site}")
    }
}

/// The order in which the two accesses of a race happened in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// Read after write.
    ReadAfterWrite,
    /// Write after read.
    WriteAfterRead,
    /// Write after write.
    WriteAfterWrite,
}

/// The reason why two accesses are a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RaceCause {
    /// No synchronisation orders them.
    Unordered,
    /// They are by lanes of one warp, with no `bar.warp.sync` between.
    UnorderedLanes,
    /// Two lanes of one instruction write different values to the same place.
    SameInstruction,
    /// Nobody has waited for the asynchronous operation: neither these threads nor threads with which they have
    /// synchronised.
    NotWaited,
    /// They are ordered, but one is by the generic and one by the asynchronous proxy, with no `fence.proxy.async`
    /// between.
    ProxyFence,
    /// They are ordered, but a copy reads its tensor map, which a thread has written. Between them,
    /// `fence.proxy.tensormap::generic.release` and then `.acquire` of the map are missing.
    TensorMapFence,
    /// The `tcgen05` operation is complete, but between it and the synchronisation its threads have not executed
    /// `tcgen05.fence::before_thread_sync`.
    TensorFenceBefore,
    /// The `tcgen05` operation is complete, and these threads know it; but they have not executed
    /// `tcgen05.fence::after_thread_sync` since.
    TensorFenceAfter,
    /// Both are strong, but the scope of one does not include the other.
    NarrowScope,
    /// Both are strong, but they access words of different sizes that overlap, so each may see a part of the other (PTX
    /// ISA 8.7.1).
    MixedSizes,
    /// The previous kernel wrote, and `griddepcontrol.wait` has not been executed.
    PreviousKernel,
    /// The access is by a kernel before the previous one. This kernel's wait ensures only that the previous kernel has
    /// ended. That kernel has never executed `griddepcontrol.wait`, so the earlier kernel may still run.
    EarlierKernel,
    /// This kernel wrote it, and reads it through the non-coherent cache.
    NonCoherent,
    /// Both write the same value. Whether they always do depends on the data.
    SameValue,
}

/// Two conflicting accesses that are not ordered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Race {
    /// The order in which they happened.
    pub hazard: Hazard,
    /// The reason.
    pub cause: RaceCause,
    /// The access that came first in this run.
    pub first: Party,
    /// The access that came second.
    pub second: Party,
    /// The memory space.
    pub space: Space,
    /// The first conflicting byte; a [`shared_address`](super::shared_address) for shared memory.
    pub address: u64,
    /// The variable or allocation, and the offset in it.
    pub buffer: Option<(String, u64)>,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hazard = match self.hazard {
            Hazard::ReadAfterWrite => "read after write",
            Hazard::WriteAfterRead => "write over a read",
            Hazard::WriteAfterWrite => "write after write",
        };
        let cause = match self.cause {
            RaceCause::Unordered => "nothing orders the two",
            RaceCause::UnorderedLanes => "no bar.warp.sync orders these lanes",
            RaceCause::SameInstruction => "lanes of one instruction write different values",
            RaceCause::NotWaited => {
                "these threads have neither waited for the asynchronous operation nor synchronised with any that have"
            }
            RaceCause::ProxyFence => "no fence.proxy.async between the generic and the asynchronous access",
            RaceCause::TensorMapFence => {
                "the copy's tensor map needs fence.proxy.tensormap::generic.release after it is written and .acquire before"
            }
            RaceCause::TensorFenceBefore => {
                "no tcgen05.fence::before_thread_sync between the first operation and the synchronisation (PTX ISA 9.7.16.6)"
            }
            RaceCause::TensorFenceAfter => {
                "no tcgen05.fence::after_thread_sync between the synchronisation and the second operation (PTX ISA 9.7.16.6)"
            }
            RaceCause::NarrowScope => "the scope of one does not include the other",
            RaceCause::MixedSizes => "both are strong, but of different sizes: not one atomic access (PTX ISA 8.7.1)",
            RaceCause::PreviousKernel => "griddepcontrol.wait has not been executed",
            RaceCause::EarlierKernel => {
                "griddepcontrol.wait waits for the kernel before only, and that one never waited for this one (PTX ISA 9.7.13.14)"
            }
            RaceCause::NonCoherent => {
                "ld.global.nc may read only what no one writes while the kernel runs (PTX ISA 9.7.9.9)"
            }
            RaceCause::SameValue => "nothing orders the two; both write the same value here, which depends on the data",
        };
        write!(f, "race, {hazard}, at ")?;
        match self.space {
            Space::Shared => {
                write!(f, "shared+{:#x}", super::shared_offset(self.address))?;
                if super::shared_rank(self.address) != 0 {
                    write!(f, " of cluster rank {}", super::shared_rank(self.address))?;
                }
            }
            Space::Global => write!(f, "global {:#x}", self.address)?,
            Space::Tensor => {
                let cell = super::shared_offset(self.address) / 4;
                write!(f, "lane {}, column {} of tensor memory", cell / 512, cell % 512)?;
            }
        }
        if let Some((name, offset)) = &self.buffer {
            write!(f, " ({name}+{offset:#x})")?;
        }
        write!(f, ": {cause}\n    first:  {}\n    second: {}", self.first, self.second)
    }
}

/// A misuse of a barrier or an asynchronous operation, which is not a pair of accesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Only some lanes of a warp execute an aligned barrier.
    DivergentBarrier {
        /// The lanes that arrived.
        lanes: u32,
        /// The lanes that should have arrived.
        expected: u32,
    },
    /// There are more arrivals than are pending in the phase of the mbarrier.
    OverArrival {
        /// Byte offset of the mbarrier.
        mbarrier: u32,
        /// Number of pending arrivals.
        pending: u32,
        /// Number of arrivals made.
        arrivals: u32,
    },
    /// Threads wait for the parity of a phase without knowing that the phase before is over. If it is not, the wait
    /// passes one round too early.
    PhaseUnknown {
        /// Byte offset of the mbarrier.
        mbarrier: u32,
    },
    /// The next phase of an mbarrier may be over before these threads have seen the end of this one. They would then
    /// wait one phase too long.
    PhaseOverrun {
        /// Byte offset of the mbarrier.
        mbarrier: u32,
    },
    /// When the block ended, bytes had completed that the phase did not expect, or expected bytes were missing.
    Transactions {
        /// Byte offset of the mbarrier.
        mbarrier: u32,
        /// Expected minus completed bytes.
        missing: i64,
    },
    /// An operation on memory that holds no initialised mbarrier.
    NoMbarrier {
        /// Its byte offset.
        mbarrier: u32,
    },
    /// A second `mbarrier.init` of an mbarrier in use.
    ReInit {
        /// Its byte offset.
        mbarrier: u32,
    },
    /// The thread that issued a bulk copy exits while the copy still reads the block's shared memory.
    ExitBeforeBulkRead,
    /// Nobody had waited for a bulk copy to shared memory when the block ended.
    ExitBeforeBulkLoad {
        /// Byte offset of its mbarrier.
        mbarrier: u32,
    },
    /// Another block of the cluster may access this block's shared memory after this block has ended.
    ExitBeforeRemote,
    /// The shared memory of another block of the cluster is accessed before that block is known to have started.
    RemoteBeforeStart {
        /// Rank of the other block.
        rank: u32,
    },
    /// Threads arrive at a barrier whose last use, by other warps, is not ordered before. They may be counted in that
    /// use.
    BarrierReused {
        /// The barrier.
        id: u32,
        /// A warp of the earlier use.
        earlier: u32,
    },
    /// Threads have gone around an aligned barrier of all threads, and ended while others waited there.
    BarrierPassed {
        /// The barrier.
        id: u32,
    },
    /// Threads that a member mask names have gone around its instruction, and ended while others of the mask waited there.
    CollectivePassed,
    /// The four warps of a warpgroup have not executed the same `wgmma` instructions.
    WarpgroupSplit {
        /// The warpgroup.
        warpgroup: u32,
    },
    /// No `wgmma.fence` orders a `wgmma.mma_async` after the writes of its registers.
    WgmmaFence,
    /// A register of a `wgmma.mma_async` is accessed before the product was committed and waited for.
    WgmmaRegister {
        /// Whether it is written.
        writes: bool,
        /// Instruction index of the product.
        product: u32,
    },
    /// `setmaxnreg.inc` to fewer registers than before, or `.dec` to more.
    RegisterDirection {
        /// Number of registers of a thread before.
        before: u32,
        /// Number of registers requested.
        now: u32,
        /// Whether it is `.inc`.
        grows: bool,
    },
    /// Not all warps of a warpgroup have executed the same `setmaxnreg`s.
    RegistersOfOneWarp {
        /// The warpgroup.
        warpgroup: u32,
    },
    /// The warps of a block request more registers than the block was launched with, so one of them waits for ever.
    RegisterPool {
        /// Number of registers requested.
        asked: u32,
        /// Number of registers of the block.
        available: u32,
    },
    /// An access overwrites an mbarrier in use.
    MbarrierOverwritten {
        /// Its byte offset.
        mbarrier: u32,
    },
    /// All arrivals of a phase were made while more bytes are in flight than it expects. The phase may end before the
    /// copies do.
    TooFewBytes {
        /// Byte offset of the mbarrier.
        mbarrier: u32,
        /// Number of bytes that the phase expects.
        expected: i64,
        /// Number of bytes of the copies that were issued in it.
        issued: i64,
    },
    /// The arrivals at a barrier gave different thread counts.
    BarrierCount {
        /// The barrier.
        id: u32,
        /// The count of the earlier arrivals.
        earlier: u32,
        /// The count of this one.
        now: u32,
    },
    /// A limit of the detector was exceeded: what follows is not checked.
    Limit {
        /// The limit.
        what: &'static str,
    },
}

/// A mistake that was found in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// Two unordered accesses.
    Race(Box<Race>),
    /// A misuse.
    Fault {
        /// The misuse.
        fault: Fault,
        /// `%ctaid`.
        block: [u32; 3],
        /// The warp, if a single one caused it.
        warp: Option<u32>,
        /// Lanes of the warp.
        lanes: u32,
        /// The place.
        site: Site,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DivergentBarrier { lanes, expected } => write!(
                f,
                "aligned barrier in divergent code: lanes 0x{lanes:08x} arrived, 0x{expected:08x} must arrive together"
            ),
            Self::OverArrival { mbarrier, pending, arrivals } => write!(
                f,
                "too many arrivals at the mbarrier at shared+{mbarrier:#x}: {arrivals} made, {pending} pending in its phase"
            ),
            Self::PhaseUnknown { mbarrier } => write!(
                f,
                "these threads wait for a phase of the mbarrier at shared+{mbarrier:#x} by its parity and do not know that the phase before is over: the wait may pass a round too early"
            ),
            Self::PhaseOverrun { mbarrier } => write!(
                f,
                "the next phase of the mbarrier at shared+{mbarrier:#x} may be over before these threads have seen the end of this one: they would wait for one more"
            ),
            Self::Transactions { mbarrier, missing } if *missing > 0 => {
                write!(f, "the mbarrier at shared+{mbarrier:#x} expects {missing} bytes more than its copies bring")
            }
            Self::Transactions { mbarrier, missing } => write!(
                f,
                "{} bytes completed on the mbarrier at shared+{mbarrier:#x} that no expect_tx announced",
                -missing
            ),
            Self::NoMbarrier { mbarrier } => write!(f, "no initialised mbarrier at shared+{mbarrier:#x}"),
            Self::ReInit { mbarrier } => {
                write!(f, "the mbarrier at shared+{mbarrier:#x} is initialised again without mbarrier.inval")
            }
            Self::ExitBeforeBulkRead => write!(
                f,
                "the thread exits while its bulk copy may still read shared memory: wait with cp.async.bulk.wait_group[.read] 0"
            ),
            Self::ExitBeforeBulkLoad { mbarrier } => write!(
                f,
                "the block ends while a bulk copy into its shared memory has not been waited for (mbarrier at shared+{mbarrier:#x})"
            ),
            Self::ExitBeforeRemote => write!(
                f,
                "another block of the cluster may touch this block's shared memory after this block has ended: end with a cluster barrier"
            ),
            Self::RemoteBeforeStart { rank } => write!(
                f,
                "shared memory of cluster rank {rank} is touched before that block is known to run: begin with a cluster barrier"
            ),
            Self::BarrierReused { id, earlier } => write!(
                f,
                "these threads may arrive at barrier {id} while it is still used by others: nothing orders warp {earlier}'s arrival before"
            ),
            Self::BarrierPassed { id } => write!(
                f,
                "these threads have ended after they went around barrier {id}, at which others wait, and did what comes after it: an aligned barrier without a count is for all threads of the block, and if a condition lets some of them leave it out, the behavior is undefined (PTX ISA 9.7.13.1); only threads that end at once may leave it out"
            ),
            Self::CollectivePassed => write!(
                f,
                "these threads have ended after they went around an instruction whose member mask names them, at which others wait, and did what comes after it: all threads of the mask that have not ended must execute it (PTX ISA 9.7.9.6, 9.7.13.9); name only those that do"
            ),
            Self::WarpgroupSplit { warpgroup } => write!(
                f,
                "the warps of warpgroup {warpgroup} do not execute the same wgmma instructions: all four must execute this one, at this place (PTX ISA 9.7.15: .aligned)"
            ),
            Self::WgmmaFence => write!(
                f,
                "no wgmma.fence since the registers of this wgmma.mma_async were written by other instructions"
            ),
            Self::WgmmaRegister { writes, .. } => write!(
                f,
                "a register of a wgmma.mma_async is {} before the product was committed and waited for (PTX ISA 9.7.15.7: undefined; ptxas may mend it by waiting earlier and then says so: C7510, C7517)",
                if *writes { "written" } else { "read" }
            ),
            Self::RegisterDirection { before, now, grows: true } => {
                write!(f, "setmaxnreg.inc to {now} registers of a warp that has {before}")
            }
            Self::RegisterDirection { before, now, grows: false } => {
                write!(f, "setmaxnreg.dec to {now} registers of a warp that has {before} at most")
            }
            Self::RegistersOfOneWarp { warpgroup } => write!(
                f,
                "the warps of warpgroup {warpgroup} execute different setmaxnreg instructions: all four must execute the same ones"
            ),
            Self::RegisterPool { asked, available } => write!(
                f,
                "the warps ask for {asked} registers by setmaxnreg, the block has {available}: one waits for ever"
            ),
            Self::MbarrierOverwritten { mbarrier } => write!(
                f,
                "the live mbarrier at shared+{mbarrier:#x} is overwritten: end it with mbarrier.inval before its memory is used again"
            ),
            Self::TooFewBytes { mbarrier, expected, issued } => write!(
                f,
                "all arrivals at the mbarrier at shared+{mbarrier:#x} are made while its phase expects {expected} bytes of the {issued} under way: the phase may end before the copies; expect the bytes before the last arrival"
            ),
            Self::BarrierCount { id, earlier, now } => {
                write!(f, "barrier {id} is used with {now} threads where earlier arrivals said {earlier}")
            }
            Self::Limit { what } => {
                write!(f, "the race detector's limit on {what} is exceeded: its result is incomplete")
            }
        }
    }
}

impl Finding {
    /// All findings as text, each on one line or more.
    #[must_use]
    pub fn list(findings: &[Self]) -> String {
        findings.iter().map(|finding| format!("\n{finding}")).collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Race(race) => race.fmt(f),
            Self::Fault { fault, block: [x, y, z], warp, lanes, site } => {
                write!(f, "{fault}\n    in block ({x}, {y}, {z})")?;
                if let Some(warp) = warp {
                    write!(f, " warp {warp} {}", lanes_text(*lanes))?;
                }
                write!(f, " at {site}")
            }
        }
    }
}
