//! The interface through which the executor tells the detector what happens, and when it must do so.
//!
//! One [`Observer`] serves one cluster (without clusters, one block). It is called by one thread at a time; observers
//! of different clusters are called concurrently. Every method has an empty default, so that a test can record just the
//! events that it needs.
//!
//! # The order of calls
//!
//! * [`block_begin`](Observer::block_begin) for every block of the cluster before any instruction of the cluster.
//! * [`access`](Observer::access) **before** the access is performed, once per executed memory instruction of a warp.
//! * [`observed`](Observer::observed) **after** a strong read or an atomic was performed (with the same arguments). So
//!   the reader of a flag sees the accesses that another worker released by it.
//! * Everything that releases (arrivals, fences) **before** its effect can be seen by others; everything that acquires
//!   (successful waits, completed barriers) **after** it has succeeded and before the next instruction of those lanes.
//! * Asynchronous operations are announced **when they are issued**, whatever the completion mode; only the counts of an
//!   mbarrier follow the real completion ([`mbarrier_transaction`](Observer::mbarrier_transaction),
//!   [`mbarrier_phase`](Observer::mbarrier_phase)).
//! * [`exit`](Observer::exit) when lanes end, [`block_end`](Observer::block_end) when a block has no lane left.
//!
//! # Addresses
//!
//! Global addresses are the machine's. Shared addresses, also of a block's own memory, are made by [`shared_address`].
//! It takes the rank of the owning block in its cluster and the offset in its shared memory.

use std::ops::Range;

/// The address of byte `offset` in the shared memory of the block with this rank in the cluster.
#[inline]
#[must_use]
pub const fn shared_address(rank: u32, offset: u32) -> u64 {
    ((rank as u64) << 32) | offset as u64
}

/// The rank of the block that owns a [`shared_address`].
#[inline]
#[must_use]
pub const fn shared_rank(address: u64) -> u32 {
    (address >> 32) as u32
}

/// The offset in bytes of a [`shared_address`] in its block's shared memory.
#[inline]
#[must_use]
pub const fn shared_offset(address: u64) -> u32 {
    address as u32
}

/// The place of an execution: the lanes and the instruction that they execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Rank of the block in its cluster; 0 without clusters.
    pub rank: u32,
    /// The number of the warp in the block.
    pub warp: u32,
    /// The lanes that execute the instruction.
    pub lanes: u32,
    /// Index of the instruction, as [`Names::site`](super::Names::site) understands it.
    pub pc: u32,
}

/// A memory space that is checked. Local and parameter memory belong to one thread and are not observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Shared memory of any block of the cluster.
    Shared,
    /// Global memory.
    Global,
    /// Tensor memory of a block of the cluster. Cell (lane, column) has the four bytes at
    /// [`shared_address`]`(rank, 2048 lane + 4 column)`.
    Tensor,
}

/// The effect of an access on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `ld`, `ldmatrix`, …
    Read,
    /// `st`, `stmatrix`, …
    Write,
    /// `atom`: reads and writes atomically.
    Atomic,
    /// `red`: the same, but the program does not learn what was read.
    Reduction,
}

/// The `.sem` of an access (PTX ISA 8.4 and 8.7). `.volatile` is `Relaxed` at system scope. An `atom` or `red` without
/// `.sem` is `Relaxed` at GPU scope, the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// An ordinary access.
    Weak,
    /// A weak load with a value that is only a guess: an `atom.cas` at its address checks it. Loops that build other
    /// atomics do this. It may meet atomics as a relaxed one does, but it observes nothing, and [`Observer::observed`]
    /// is not called.
    Guess,
    /// Strong, but without any order by itself.
    Relaxed,
    /// `ld.acquire`, `atom.acquire`.
    Acquire,
    /// `st.release`, `atom.release`, `red.release`.
    Release,
    /// `atom.acq_rel`.
    AcquireRelease,
}

impl Order {
    /// Whether reads acquire.
    #[must_use]
    pub const fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcquireRelease)
    }
    /// Whether writes release.
    #[must_use]
    pub const fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcquireRelease)
    }
    /// Whether the access is not weak, or counts as if it were not.
    #[must_use]
    pub const fn is_strong(self) -> bool {
        !matches!(self, Self::Weak)
    }
    /// Whether a read observes what is written (PTX ISA 8.8.3, observation order).
    #[must_use]
    pub const fn observes(self) -> bool {
        !matches!(self, Self::Weak | Self::Guess)
    }
}

/// The `.scope` of a strong access or a fence, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `.cta`
    Block,
    /// `.cluster`
    Cluster,
    /// `.gpu`
    Gpu,
    /// `.sys`
    System,
}

/// One memory instruction of a warp.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// The memory space.
    pub space: Space,
    /// The first byte for each lane; only lanes in [`At::lanes`] count.
    pub addresses: &'a [u64; 32],
    /// Number of bytes for each lane (all elements of a vector access).
    pub size: u32,
    /// Number of bytes of an element; 0 if this is not known. Strong accesses are atomic for each element (PTX ISA 8.2.2).
    pub element: u32,
    /// Read, write or both.
    pub kind: Kind,
    /// `.sem`
    pub order: Order,
    /// `.scope`; ignored for weak accesses.
    pub scope: Scope,
    /// For `ldmatrix` and `stmatrix`: all lanes access every row, whichever lane gave its address. Only lanes in `rows`
    /// give addresses.
    pub rows: Option<u32>,
    /// For plain writes: tells whether two lanes write the same bytes. Two lanes of one instruction that write
    /// different values to the same place are a race. Without this function, values are assumed to differ.
    pub same_value: Option<&'a dyn Fn(u32, u32) -> bool>,
    /// For plain writes: tells whether a lane writes the bytes that are there already. Over another plain write it is a
    /// harmless race, whichever comes first: compilers let every warp write a value that only one needs to write, and
    /// blocks set a flag that others have set. But it depends on the data, so
    /// [`LaunchShape::same_values`](super::LaunchShape::same_values) requests reports of it.
    pub unchanged: Option<&'a dyn Fn(u32) -> bool>,
    /// `ld.global.nc`: nobody may write the data while the kernel runs (PTX ISA 9.7.9.9).
    pub non_coherent: bool,
    /// For [`Observer::observed`]: the lanes that saw older values, which were written without a release.
    pub stale: u32,
}

/// One `cp.async` of a warp (not a bulk copy, PTX ISA 9.7.9.25.3).
#[derive(Clone, Copy)]
pub struct CopyAsync<'a> {
    /// The shared destination of each lane, as [`shared_address`].
    pub destinations: &'a [u64; 32],
    /// The global source of each lane.
    pub sources: &'a [u64; 32],
    /// Number of bytes written for each lane.
    pub size: u32,
    /// Number of bytes read for each lane (less than `size` if the rest is zero-filled; 0 reads nothing).
    pub read: &'a [u32; 32],
}

/// A warp's arrival at `bar`/`barrier` (CTA barriers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierArrival {
    /// Barrier 0…15.
    pub id: u32,
    /// Number of threads that complete the barrier.
    pub threads: u32,
    /// `bar.sync` and `bar.red` wait; `bar.arrive` doesn't.
    pub waits: bool,
    /// `.aligned` (every `bar.*`): all lanes of the warp that have not exited must arrive together.
    pub aligned: bool,
}

/// Whether an mbarrier or cluster-barrier operation orders memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MbarrierOrder {
    /// `.relaxed`
    Relaxed,
    /// `.release` of an arrival, `.acquire` of a wait. This is the default of both.
    Synchronises,
}

/// One `mbarrier.arrive` or `mbarrier.arrive_drop` of a warp, including `.expect_tx` and remote ones.
#[derive(Clone, Copy)]
pub struct MbarrierArrival<'a> {
    /// The mbarrier of each lane, as [`shared_address`].
    pub addresses: &'a [u64; 32],
    /// Number of arrivals of each lane.
    pub count: &'a [u32; 32],
    /// Number of bytes that each lane adds to the expected transactions (`.expect_tx`; otherwise 0).
    pub expect: &'a [u32; 32],
    /// `.release` or `.relaxed`.
    pub order: MbarrierOrder,
    /// `arrive_drop`: later phases expect `count` fewer arrivals.
    pub drop: bool,
}

/// One successful `mbarrier.test_wait` or `mbarrier.try_wait` of a warp.
#[derive(Clone, Copy)]
pub struct MbarrierWait<'a> {
    /// The mbarrier of each lane, as [`shared_address`].
    pub addresses: &'a [u64; 32],
    /// `.acquire` or `.relaxed`.
    pub order: MbarrierOrder,
    /// `.scope`. At block scope nothing is acquired from the arrivals of other blocks.
    pub scope: Scope,
    /// Whether it waits for a parity, not for the phase of an arrival's state.
    pub parity: bool,
}

/// Bytes of one memory space.
#[derive(Clone, Copy, Debug)]
pub struct Footprint<'a> {
    /// The memory space.
    pub space: Space,
    /// The bytes. Ranges must not overlap. Longer ranges are checked faster, so merge adjacent ones.
    pub ranges: &'a [Range<u64>],
}

/// One destination of a bulk copy.
#[derive(Clone, Copy, Debug)]
pub struct BulkWrite<'a> {
    /// The bytes that are written.
    pub bytes: Footprint<'a>,
    /// The mbarrier on which this destination's bytes complete; `None` for copies that complete by bulk group.
    pub mbarrier: Option<u64>,
}

/// One `cp.async.bulk*`, `cp.reduce.async.bulk*`, `st.async` or `red.async`, issued by one lane ([`At::lanes`] has one bit).
#[derive(Clone, Copy, Debug)]
pub struct Bulk<'a> {
    /// The bytes that are read.
    pub reads: Footprint<'a>,
    /// The bytes that are written: one entry, or one for each destination block of a multicast. A store whose rows are
    /// all out of bounds has a destination without ranges.
    pub writes: &'a [BulkWrite<'a>],
    /// `cp.reduce.async.bulk`: the writes are relaxed atomics at GPU scope.
    pub reduces: bool,
    /// `st.async`, `red.async`: asynchronous, but through the generic proxy.
    pub generic: bool,
    /// The address of the tensor map in global memory that it reads, if there is one.
    pub map: Option<u64>,
}

/// One `tcgen05.mma`, issued by one lane ([`At::lanes`] has one bit).
#[derive(Clone, Copy, Debug)]
pub struct TensorProduct<'a> {
    /// The shared memory that it reads.
    pub shared: &'a [Range<u64>],
    /// A's cells, if A is in tensor memory.
    pub operand: &'a [Range<u64>],
    /// The accumulator's cells.
    pub accumulator: &'a [Range<u64>],
    /// The accumulator's first column, and their number.
    pub columns: (u32, u32),
    /// Its first lane.
    pub lane: u32,
    /// Its rows: 128, or 64. Each quarter of the lanes then holds 16 of them.
    pub rows: u32,
}

/// The memory that a `fence.proxy.async` covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyFence {
    /// `fence.proxy.async`
    All,
    /// `fence.proxy.async.shared::{cta,cluster}`
    Shared,
    /// `fence.proxy.async.global`
    Global,
}

/// A `fence.proxy.tensormap::generic`.
#[derive(Clone, Copy, Debug)]
pub enum TensorMapFence<'a> {
    /// `.release`, also that of `tensormap.cp_fenceproxy`.
    Release,
    /// `.acquire` of the map at each lane's address.
    Acquire(&'a [u64; 32]),
}

/// Number of bytes of a tensor map.
pub(super) const MAP_BYTES: u64 = 128;

/// Receives what the executor reports. The module documentation tells when.
pub trait Observer: Send {
    /// A block starts. Given are its rank in the cluster, `%ctaid`, and its number of threads (a warp is 32 consecutive
    /// ones).
    fn block_begin(&mut self, rank: u32, block: [u32; 3], threads: u32) {
        let _ = (rank, block, threads);
    }
    /// Lanes end (`ret`, `exit`, end of the kernel).
    fn exit(&mut self, at: At) {
        let _ = at;
    }
    /// All lanes of a block have ended.
    fn block_end(&mut self, rank: u32) {
        let _ = rank;
    }

    /// Before an access is performed: `ld`, `st`, `atom`, `red`, `ldmatrix`, `stmatrix`.
    fn access(&mut self, at: At, access: &Access<'_>) {
        let _ = (at, access);
    }
    /// After a strong read or an atomic was performed, with the arguments of [`access`](Self::access).
    fn observed(&mut self, at: At, access: &Access<'_>) {
        let _ = (at, access);
    }
    /// `fence.acq_rel`, `fence.sc`, `membar`.
    fn fence(&mut self, at: At, scope: Scope) {
        let _ = (at, scope);
    }
    /// `fence.proxy.async`.
    fn proxy_fence(&mut self, at: At, fence: ProxyFence) {
        let _ = (at, fence);
    }
    /// `fence.proxy.tensormap::generic`, in addition to [`fence`](Self::fence).
    fn tensor_map_fence(&mut self, at: At, fence: TensorMapFence<'_>) {
        let _ = (at, fence);
    }
    /// `fence.mbarrier_init.release.cluster`.
    fn mbarrier_init_fence(&mut self, at: At) {
        let _ = at;
    }

    /// `bar.warp.sync` has brought the lanes of `at` together. It is called once, with all of them.
    fn warp_sync(&mut self, at: At) {
        let _ = at;
    }
    /// Another `*.sync` instruction (`shfl`, `vote`, `match`, `redux`, `elect`, `mma`) ran with these lanes. It does
    /// not order memory (PTX ISA 9.7.9.6), unless a lenient detector is requested, but all of the lanes have reached
    /// it.
    fn collective(&mut self, at: At) {
        let _ = at;
    }
    /// Threads have ended that a member mask names and that have executed code after the instruction without the instruction
    /// itself; `at` has these threads and the instruction. It is called before the other lanes of the mask execute it.
    fn collective_passed(&mut self, at: At) {
        let _ = at;
    }
    /// Lanes arrive at a CTA barrier, and wait or not.
    fn barrier_arrive(&mut self, at: At, arrival: BarrierArrival) {
        let _ = (at, arrival);
    }
    /// A CTA barrier has all its threads. It is called after the last `barrier_arrive`, before any of them continues.
    fn barrier_complete(&mut self, rank: u32, id: u32) {
        let _ = (rank, id);
    }
    /// Threads have ended that have executed code after an aligned barrier of all threads without the barrier itself; `at`
    /// has these threads and the barrier, at which others wait. It is called before
    /// [`barrier_complete`](Self::barrier_complete).
    fn barrier_passed(&mut self, at: At, id: u32) {
        let _ = (at, id);
    }
    /// `barrier.cluster.arrive`; `aligned` as in [`BarrierArrival::aligned`].
    fn cluster_arrive(&mut self, at: At, order: MbarrierOrder, aligned: bool) {
        let _ = (at, order, aligned);
    }
    /// The cluster barrier has the arrivals of all threads of the cluster that have not exited.
    fn cluster_complete(&mut self) {}
    /// `barrier.cluster.wait` has succeeded for these lanes.
    fn cluster_wait(&mut self, at: At) {
        let _ = at;
    }

    /// `cp.async`.
    fn copy_async(&mut self, at: At, copy: &CopyAsync<'_>) {
        let _ = (at, copy);
    }
    /// `cp.async.commit_group`.
    fn copy_commit(&mut self, at: At) {
        let _ = at;
    }
    /// `cp.async.wait_group pending` has completed. (`wait_all` is `copy_commit` and then `copy_wait(0)`.)
    fn copy_wait(&mut self, at: At, pending: u32) {
        let _ = (at, pending);
    }
    /// `cp.async.mbarrier.arrive` is executed. Its counts follow later, by [`mbarrier_count`](Self::mbarrier_count).
    fn copy_arrive(&mut self, at: At, addresses: &[u64; 32]) {
        let _ = (at, addresses);
    }

    /// `mbarrier.init`, one for each lane.
    fn mbarrier_init(&mut self, at: At, addresses: &[u64; 32], count: &[u32; 32]) {
        let _ = (at, addresses, count);
    }
    /// `mbarrier.inval`, one for each lane.
    fn mbarrier_inval(&mut self, at: At, addresses: &[u64; 32]) {
        let _ = (at, addresses);
    }
    /// `mbarrier.arrive*`, before its effect. If it completes the phase, [`mbarrier_phase`](Self::mbarrier_phase)
    /// follows. If several lanes arrive at one mbarrier and a phase completes between them, this is called twice: for
    /// the lanes before, and for the lanes after.
    fn mbarrier_arrive(&mut self, at: At, arrival: &MbarrierArrival<'_>) {
        let _ = (at, arrival);
    }
    /// `mbarrier.expect_tx` (without an arrival), with the bytes of each lane.
    fn mbarrier_expect(&mut self, at: At, addresses: &[u64; 32], bytes: &[u32; 32]) {
        let _ = (at, addresses, bytes);
    }
    /// Transactions complete on an mbarrier: a bulk copy has written bytes, or `mbarrier.complete_tx`. `pc` is the
    /// instruction that issued them.
    fn mbarrier_transaction(&mut self, address: u64, bytes: u32, pc: u32) {
        let _ = (address, bytes, pc);
    }
    /// A `cp.async.mbarrier.arrive` takes effect, because its copies have completed. It takes `arrivals` off the
    /// pending count (0 for the form without `.noinc`, which has added before what it takes off).
    fn mbarrier_count(&mut self, address: u64, arrivals: u32, pc: u32) {
        let _ = (address, arrivals, pc);
    }
    /// The current phase of an mbarrier completes and the next begins.
    fn mbarrier_phase(&mut self, address: u64) {
        let _ = address;
    }
    /// `mbarrier.test_wait`/`try_wait` returned true in these lanes. (Failed attempts are not reported.)
    fn mbarrier_waited(&mut self, at: At, wait: &MbarrierWait<'_>) {
        let _ = (at, wait);
    }

    /// A bulk or tensor copy is issued.
    fn bulk(&mut self, at: At, copy: &Bulk<'_>) {
        let _ = (at, copy);
    }
    /// `cp.async.bulk.commit_group`.
    fn bulk_commit(&mut self, at: At) {
        let _ = at;
    }
    /// `cp.async.bulk.wait_group[.read] pending` has completed.
    fn bulk_wait(&mut self, at: At, pending: u32, read: bool) {
        let _ = (at, pending, read);
    }

    /// One warp of a warpgroup issues `wgmma.mma_async`. `reads` is the shared memory that this warp's share of the
    /// product reads: its 16 rows of A, if A is in shared memory, and all of B.
    fn wgmma(&mut self, at: At, reads: &[Range<u64>]) {
        let _ = (at, reads);
    }
    /// Other instructions wrote the registers of the last product, and no `wgmma.fence` was executed since, or none at
    /// all.
    fn wgmma_unfenced(&mut self, at: At) {
        let _ = at;
    }
    /// A warp executes a `wgmma` instruction of any kind, which all four warps of its warpgroup must execute. It is called
    /// beside the others.
    fn wgmma_executed(&mut self, at: At) {
        let _ = at;
    }
    /// `wgmma.commit_group`.
    fn wgmma_commit(&mut self, at: At) {
        let _ = at;
    }
    /// `wgmma.wait_group pending` has completed.
    fn wgmma_wait(&mut self, at: At, pending: u32) {
        let _ = (at, pending);
    }

    /// An instruction reads or writes a register of a `wgmma` product that has not been waited for. `product` is the
    /// product's `pc`.
    fn wgmma_register(&mut self, at: At, product: u32, writes: bool) {
        let _ = (at, product, writes);
    }
    /// `setmaxnreg`: from now on the warp's threads have this many registers. `grows` is true for `.inc`.
    fn set_registers(&mut self, at: At, registers: u32, grows: bool) {
        let _ = (at, registers, grows);
    }

    /// `tcgen05.alloc` has allocated these cells of [`Space::Tensor`], or `tcgen05.dealloc` is about to free them.
    fn tensor_managed(&mut self, at: At, cells: &[Range<u64>]) {
        let _ = (at, cells);
    }
    /// `tcgen05.ld` or, if it stores, `tcgen05.st`.
    fn tensor_moved(&mut self, at: At, cells: &[Range<u64>], stores: bool) {
        let _ = (at, cells, stores);
    }
    /// `tcgen05.wait::ld` or `tcgen05.wait::st`.
    fn tensor_waited(&mut self, at: At, stores: bool) {
        let _ = (at, stores);
    }
    /// `tcgen05.mma`.
    fn tensor_product(&mut self, at: At, product: &TensorProduct<'_>) {
        let _ = (at, product);
    }
    /// `tcgen05.cp` from shared memory to these cells.
    fn tensor_copy(&mut self, at: At, shared: &[Range<u64>], cells: &[Range<u64>]) {
        let _ = (at, shared, cells);
    }
    /// `tcgen05.commit` by one lane. It arrives later at each of the mbarriers, by
    /// [`tensor_commit_arrived`](Self::tensor_commit_arrived) with the ticket.
    fn tensor_commit(&mut self, at: At, mbarriers: &[u64], ticket: u64) {
        let _ = (at, mbarriers, ticket);
    }
    /// A `tcgen05.commit` by a thread of block `rank` arrives at an mbarrier. `pc` is its instruction.
    fn tensor_commit_arrived(&mut self, rank: u32, mbarrier: u64, ticket: u64, pc: u32) {
        let _ = (rank, mbarrier, ticket, pc);
    }
    /// `tcgen05.fence::before_thread_sync` or `tcgen05.fence::after_thread_sync`.
    fn tensor_fence(&mut self, at: At, after: bool) {
        let _ = (at, after);
    }

    /// `griddepcontrol.wait` has completed.
    fn dependency_wait(&mut self, at: At) {
        let _ = at;
    }
}
