//! Modifiers that handlers read at run time, as bits of [`super::Instruction::flags`]. Each group of instructions has
//! its own type.
//!
//! [`AccessFlags`] apply to every instruction with an address operand. They are in the low byte and bit 23. The flags
//! of a group are between these; this is checked when the crate is compiled.

use bitflags::bitflags;

bitflags! {
    /// Instructions with an address operand. Bits 4 and 5 are the scope: see [`scope_bits`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct AccessFlags: u32 {
        /// The address register is 64 bits wide.
        const WIDE_ADDRESS = 1;
        /// The access is strong: volatile, relaxed, acquire or release.
        const STRONG = 1 << 1;
        const ACQUIRE = 1 << 2;
        const RELEASE = 1 << 3;
        /// A weak load with a value that is only a guess: an `atom.cas` at its address checks it. It may meet atomics
        /// without a race, because loops that build other atomics from `atom.cas` do this.
        const GUESS = 1 << 6;
        /// The address is generic, and must be in shared memory.
        const GENERIC_SHARED = 1 << 7;
        /// `ld.global.nc`.
        const NON_COHERENT = 1 << 23;
    }

    /// `atom`, `red`. Bits 8 to 11 are the state space, 12 to 15 the size, 17 to 21 the alignment of a vector.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct AtomicFlags: u32 {
        /// In global memory the next function is used, which flushes subnormal numbers.
        const FLUSHED_IN_GLOBAL = 1 << 16;
        /// The old value goes to row `d`.
        const RETURNS = 1 << 22;
    }

    /// `fence`, `membar`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct FenceFlags: u32 {
        /// `.sc`
        const SEQUENTIAL = 1 << 8;
    }

    /// `ldmatrix`, `stmatrix`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct MatrixFlags: u32 {
        const TRANSPOSED = 1 << 8;
    }

    /// `cp.async`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct CopyFlags: u32 {
        /// The source address is 64 bits wide; [`AccessFlags::WIDE_ADDRESS`] is for the destination.
        const WIDE_SOURCE = 1 << 8;
        /// Row `c` holds the number of bytes to read.
        const SIZED = 1 << 9;
        /// Predicate `p` tells whether zeros are written instead.
        const IGNORE_SOURCE = 1 << 10;
        /// That predicate is negated.
        const NEGATED = 1 << 11;
    }

    /// `mbarrier.…`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct MbarrierFlags: u32 {
        /// Row `b` holds the number of arrivals. For `cp.async.mbarrier.arrive`: it is `.noinc`.
        const COUNTED = 1 << 10;
        /// Row `c` holds the number of expected bytes.
        const EXPECTS = 1 << 11;
        /// `arrive_drop`, `complete_tx`.
        const DROPS = 1 << 12;
        /// Row `b` holds a parity instead of a state.
        const PARITY = 1 << 13;
        const RELAXED = 1 << 14;
        /// `try_wait`: may suspend the warp.
        const SUSPENDS = 1 << 15;
        /// `.cta` is given: nothing is ordered with other blocks.
        const BLOCK_SCOPE = 1 << 16;
    }

    /// `tensormap.replace`, `tensormap.cp_fenceproxy`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct MapFlags: u32 {
        /// The value is 64 bits wide.
        const WIDE_VALUE = 1 << 8;
        /// The value is stored in sixteenths.
        const SIXTEENTHS = 1 << 9;
        /// The source address is 64 bits wide.
        const WIDE_SOURCE = 1 << 10;
    }

    /// Which operands are 64 bits wide, if one handler serves both widths.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Widths: u32 {
        const WIDE_A = 1;
        const WIDE_B = 1 << 1;
        const WIDE_C = 1 << 2;
        const WIDE_D = 1 << 3;
    }

    /// `addc`, `subc`, `madc` and similar, in addition to [`Widths`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct CarryFlags: u32 {
        const CARRY_IN = 1 << 8;
        const CARRY_OUT = 1 << 9;
        const SUBTRACT = 1 << 10;
        const PRODUCT_LOW = 1 << 11;
        const PRODUCT_HIGH = 1 << 12;
        const SIGNED = 1 << 13;
    }

    /// `setp`, `set`, `selp`, in addition to [`Widths`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct CompareFlags: u32 {
        /// How the result is combined with the predicate operand. Both bits together mean exclusive or.
        const AND = 1 << 8;
        const OR = 1 << 9;
        const XOR = 3 << 8;
        /// The predicate operand is negated.
        const NEGATED = 1 << 10;
        /// The result goes to row `d` as all ones (`set` to an integer) instead of a predicate.
        const TO_MASK = 1 << 11;
        /// The result goes to row `d` as 1.0f (`set` to f32).
        const TO_ONE = 1 << 12;
    }

    /// `bar`, `barrier`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct BarrierFlags: u32 {
        /// The instruction has a thread count (operand `b`).
        const COUNTED = 1;
        /// The instruction doesn't wait.
        const ARRIVE = 1 << 1;
        /// The instruction may be executed by part of a warp.
        const UNALIGNED = 1 << 2;
        /// The instruction reduces a predicate: `p`, negated with [`Self::NEGATED`], to row `d` or predicate `q`.
        const REDUCE_POPC = 1 << 3;
        const REDUCE_AND = 1 << 4;
        const REDUCE_OR = 1 << 5;
        const REDUCTION = 7 << 3;
        const NEGATED = 1 << 6;
    }

    /// `barrier.cluster`, `mapa`, `getctarank`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ClusterFlags: u32 {
        const RELAXED = 1;
        /// The address is 64 bits wide.
        const WIDE = 1 << 1;
        /// The address is generic.
        const GENERIC = 1 << 2;
    }

    /// `vote`, `match`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct CollectiveFlags: u32 {
        /// The predicate is negated.
        const NEGATED = 1;
        const MATCH_ALL = 1 << 1;
        const MATCH_WIDE = 1 << 2;
    }

    /// `wgmma`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct WgmmaFlags: u32 {
        /// The scale-d predicate is negated.
        const NEGATED = 1;
        /// `wgmma.fence`, or `wgmma.commit_group`; with neither flag it is `wgmma.wait_group`.
        const FENCE = 1 << 1;
        const COMMIT = 1 << 2;
    }

    /// `tcgen05`: `wait`, `fence`, `commit`. They are combined with [`AccessFlags`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct TensorFlags: u32 {
        /// `wait::st`
        const STORES = 1 << 8;
        /// `fence::after_thread_sync`
        const AFTER = 1 << 9;
        /// `.multicast::cluster`
        const MULTICAST = 1 << 10;
    }

    /// `setmaxnreg`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct RegisterFlags: u32 {
        /// `.inc`.
        const GROWS = 1;
    }

    /// `cp.async.bulk.wait_group`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct BulkGroupFlags: u32 {
        /// It waits for the reads only.
        const READ_ONLY = 1;
    }

    /// `fence.proxy.async`: the memory for which it holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct ProxyFlags: u32 {
        const SHARED = 1;
        const GLOBAL = 1 << 1;
    }
}

/// The bits of a modifier if it is given, otherwise 0.
pub(crate) fn when<F: bitflags::Flags<Bits = u32> + Copy>(modifier: F, given: bool) -> u32 {
    if given { modifier.bits() } else { 0 }
}

/// A scope (0 block, 1 cluster, 2 device, 3 system) as bits to combine with [`AccessFlags`].
pub(crate) const fn scope_bits(scope: u32) -> u32 {
    scope << SCOPE_SHIFT
}

/// The position of the scope in the flags.
pub(crate) const SCOPE_SHIFT: u32 = 4;
/// The positions of the state space and size of an atomic, and of the alignment of a vector of them.
pub(crate) const SPACE_SHIFT: u32 = 8;
pub(crate) const SIZE_SHIFT: u32 = 12;
pub(crate) const ALIGNMENT_SHIFT: u32 = 17;

const _: () = {
    let access = AccessFlags::all().bits() | scope_bits(3);
    let added = AtomicFlags::all().bits()
        | 15 << SPACE_SHIFT
        | 15 << SIZE_SHIFT
        | 31 << ALIGNMENT_SHIFT
        | MatrixFlags::all().bits()
        | CopyFlags::all().bits()
        | MbarrierFlags::all().bits()
        | MapFlags::all().bits()
        | TensorFlags::all().bits();
    assert!(access & added == 0);
    assert!(AtomicFlags::all().bits() & (15 << SPACE_SHIFT | 15 << SIZE_SHIFT | 31 << ALIGNMENT_SHIFT) == 0);
    assert!(Widths::all().bits() & (CarryFlags::all().bits() | CompareFlags::all().bits()) == 0);
};

/// State spaces, if they are known when an instruction is decoded.
pub(crate) const GENERIC: u8 = 0;
pub(crate) const GLOBAL: u8 = 1;
pub(crate) const SHARED: u8 = 2;
pub(crate) const LOCAL: u8 = 3;
pub(crate) const PARAMETER: u8 = 4;
