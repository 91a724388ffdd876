//! The detector of one cluster: it turns the executor's reports into clocks and shadow memory.

mod access;
mod asynchronous;
mod registers;
mod synchronise;
mod tensor_memory;
mod warpgroups;

use self::access::by_address;
use super::detector::Detector;
use super::finding::Fault;
use super::found::{Found, RawFault};
use super::knowledge::Knowledge;
use super::lanes::lanes_of;
use super::mbarrier::Mbarrier;
use super::observer::{
    Access, At, BarrierArrival, Bulk, CopyAsync, MbarrierArrival, MbarrierOrder, MbarrierWait, Observer, ProxyFence,
    Scope, Space, TensorMapFence, TensorProduct,
};
use super::shadow::Shadow;
use super::shared_offset;
use super::warp::Warp;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use synchronise::CtaBarrier;

/// The number of reads that a cell of shared memory holds before it needs a list.
const READS: usize = 3;

/// One block of the cluster.
#[derive(Debug)]
struct Block {
    shadow: Shadow<READS>,
    barriers: HashMap<u32, CtaBarrier>,
    /// Accesses of other blocks to this block's shared memory: actor, then lanes and clock, and the instruction.
    remote: HashMap<(u32, u32), (u32, u32)>,
    ended: bool,
    registers: registers::Pool,
    warpgroups: warpgroups::Warpgroups,
    tensor: Option<Box<tensor_memory::TensorMemory>>,
}

/// The [`Observer`] of one cluster.
#[derive(Debug)]
pub struct ClusterDetector {
    launch: Arc<Detector>,
    index: u32,
    /// The number of the cluster's first actor.
    first: u32,
    /// All warps, ordered by rank and then by number.
    warps: Vec<Warp>,
    blocks: Vec<Block>,
    mbarriers: HashMap<u64, Mbarrier>,
    mbarrier_actors: u32,
    /// A range of addresses that contains all mbarriers.
    mbarrier_span: (u64, u64),
    /// The knowledge that has been released to shared memory, by address.
    places: HashMap<u64, Knowledge>,
    /// Lanes with a strong read in progress that is [announced](super::history::Place::expect_reader).
    announced: u32,
    /// Whether other clusters may know something of this one.
    has_released: bool,
    cluster_gathered: Knowledge,
    cluster_completed: Knowledge,
    commits: tensor_memory::Commits,
    found: Found,
}

impl Detector {
    /// The observer of one cluster, by its index in the grid (any numbering without gaps). Its findings are collected
    /// when it is dropped.
    #[must_use]
    pub fn cluster(self: &Arc<Self>, index: u32) -> ClusterDetector {
        ClusterDetector::new(Arc::clone(self), index)
    }
}

impl ClusterDetector {
    fn new(launch: Arc<Detector>, index: u32) -> Self {
        let layout = launch.layout;
        let first = layout.first + index * layout.stride();
        let threads = launch.shape.threads_per_block;
        let dependency = !launch.shape.overlaps_previous;
        let warps = (0..layout.blocks).flat_map(|rank| {
            (0..layout.warps).map(move |warp| {
                let lanes = (threads - (warp * 32).min(threads)).min(32);
                let lanes = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
                Warp::new(index, layout.warp(rank, warp), lanes, rank, dependency)
            })
        });
        let block = || Block {
            shadow: Shadow::new(Space::Shared),
            barriers: HashMap::new(),
            remote: HashMap::new(),
            ended: false,
            registers: registers::Pool::default(),
            warpgroups: warpgroups::Warpgroups::default(),
            tensor: None,
        };
        Self {
            index,
            first,
            warps: warps.collect(),
            blocks: (0..layout.blocks).map(|_| block()).collect(),
            mbarriers: HashMap::new(),
            mbarrier_actors: 0,
            mbarrier_span: (u64::MAX, 0),
            places: HashMap::new(),
            announced: 0,
            has_released: false,
            cluster_gathered: Knowledge::default(),
            cluster_completed: Knowledge::default(),
            commits: HashMap::new(),
            found: Found::default(),
            launch,
        }
    }

    fn warp_index(&self, at: At) -> usize {
        (at.rank * self.launch.layout.warps + at.warp) as usize
    }

    fn warp(&mut self, at: At) -> &mut Warp {
        let index = self.warp_index(at);
        &mut self.warps[index]
    }

    fn fault(&mut self, at: At, lanes: u32, fault: Fault) {
        let (cluster, rank) = (self.index, at.rank);
        self.found.fault(RawFault { fault, cluster, rank, warp: Some(at.warp), lanes, pc: at.pc });
    }

    fn block_fault(&mut self, rank: u32, pc: u32, fault: Fault) {
        self.found.fault(RawFault { fault, cluster: self.index, rank, warp: None, lanes: 0, pc });
    }

    fn lanes_exit(&mut self, at: At) {
        let warp = self.warp(at);
        let reading = lanes_of(at.lanes)
            .filter(|&lane| warp.bulk_reading[lane as usize] > warp.own.bulk_read[lane as usize])
            .fold(0, |lanes, lane| lanes | 1 << lane);
        warp.live &= !at.lanes;
        if reading != 0 {
            self.fault(at, reading, Fault::ExitBeforeBulkRead);
        }
    }

    /// Checks what is incomplete when a block's shared memory ends.
    fn block_ends(&mut self, rank: u32) {
        let mine = |address: &u64| super::shared_rank(*address) == rank;
        let mut faults = Vec::new();
        for (address, mbarrier) in self.mbarriers.iter().filter(|(address, b)| mine(address) && b.alive) {
            let offset = shared_offset(*address);
            if mbarrier.bytes != 0 {
                faults.push((mbarrier.bytes_pc, Fault::Transactions { mbarrier: offset, missing: mbarrier.bytes }));
            } else if let Some((phase, pc)) = mbarrier.load
                && phase > mbarrier.waited
            {
                faults.push((pc, Fault::ExitBeforeBulkLoad { mbarrier: offset }));
            }
        }
        self.check_registers(rank, &mut faults);
        self.check_warpgroups(rank, &mut faults);
        let layout = self.launch.layout;
        let warps = (rank * layout.warps) as usize..((rank + 1) * layout.warps) as usize;
        let block = &mut self.blocks[rank as usize];
        block.ended = true;
        if !block.remote.is_empty() {
            let mut known = Knowledge::default();
            self.warps[warps].iter().for_each(|warp| warp.everything_known(&mut known));
            for (&(actor, lanes), &(clock, pc)) in &block.remote {
                if !known.happened.own.covers(actor, lanes, clock) {
                    faults.push((pc, Fault::ExitBeforeRemote));
                }
            }
        }
        for (pc, fault) in faults {
            self.block_fault(rank, pc, fault);
        }
    }

    /// Records that some lanes access the shared memory of another block.
    fn touch_remote(&mut self, at: At, lanes: u32, rank: u32) {
        let warp = &self.warps[self.warp_index(at)];
        let (actor, clock) = (warp.actor, warp.clock);
        let bit = 1 << rank.min(31);
        let unknown = lanes_of(lanes).any(|lane| warp.knowledge(lane).started & bit == 0);
        let Some(block) = self.blocks.get_mut(rank as usize) else { return };
        block.remote.insert((actor, lanes), (clock, at.pc));
        let ended = block.ended;
        if unknown {
            self.fault(at, lanes, Fault::RemoteBeforeStart { rank });
        }
        if ended {
            self.block_fault(rank, at.pc, Fault::ExitBeforeRemote);
        }
    }
}

impl Drop for ClusterDetector {
    fn drop(&mut self) {
        if !self.has_released {
            self.launch.lose(self.index);
        }
        self.launch.gather(std::mem::take(&mut self.found));
    }
}

impl Observer for ClusterDetector {
    fn block_begin(&mut self, rank: u32, block: [u32; 3], _threads: u32) {
        self.launch.block_begins(self.index, rank, block);
    }
    fn exit(&mut self, at: At) {
        self.lanes_exit(at);
    }
    fn block_end(&mut self, rank: u32) {
        self.block_ends(rank);
    }
    fn access(&mut self, at: At, access: &Access<'_>) {
        self.accesses(at, access);
    }
    fn observed(&mut self, at: At, access: &Access<'_>) {
        self.sees(at, access);
    }
    fn fence(&mut self, at: At, scope: Scope) {
        self.warp(at).fence(at.lanes, scope);
    }
    fn proxy_fence(&mut self, at: At, fence: ProxyFence) {
        self.warp(at).proxy_fence(at.lanes, fence);
    }
    fn tensor_map_fence(&mut self, at: At, fence: TensorMapFence<'_>) {
        match fence {
            TensorMapFence::Release => self.warp(at).tensor_map_fence(at.lanes, None),
            TensorMapFence::Acquire(maps) => {
                by_address(at.lanes, maps).for_each(|(map, lanes)| self.warp(at).tensor_map_fence(lanes, Some(map)));
            }
        }
    }
    fn mbarrier_init_fence(&mut self, at: At) {
        self.init_fence(at);
    }
    fn warp_sync(&mut self, at: At) {
        self.warp(at).sync(at.lanes);
    }
    fn collective(&mut self, at: At) {
        self.comes_together(at);
        if self.launch.shape.collectives_order {
            self.warp(at).sync(at.lanes);
        }
    }
    fn collective_passed(&mut self, at: At) {
        self.fault(at, at.lanes, Fault::CollectivePassed);
    }
    fn barrier_arrive(&mut self, at: At, arrival: BarrierArrival) {
        self.arrives(at, arrival);
    }
    fn barrier_complete(&mut self, rank: u32, id: u32) {
        self.barrier_completes(rank, id);
    }
    fn barrier_passed(&mut self, at: At, id: u32) {
        self.fault(at, at.lanes, Fault::BarrierPassed { id });
    }
    fn cluster_arrive(&mut self, at: At, order: MbarrierOrder, aligned: bool) {
        self.arrives_at_cluster(at, order, aligned);
    }
    fn cluster_complete(&mut self) {
        self.cluster_completes();
    }
    fn cluster_wait(&mut self, at: At) {
        self.waits_for_cluster(at);
    }
    fn copy_async(&mut self, at: At, copy: &CopyAsync<'_>) {
        self.copies(at, copy);
    }
    fn copy_commit(&mut self, at: At) {
        self.warp(at).copies.commit(at.lanes);
    }
    fn copy_wait(&mut self, at: At, pending: u32) {
        self.warp(at).wait_copies(at.lanes, pending);
    }
    fn copy_arrive(&mut self, at: At, addresses: &[u64; 32]) {
        self.copies_arrive(at, addresses);
    }
    fn mbarrier_init(&mut self, at: At, addresses: &[u64; 32], count: &[u32; 32]) {
        self.inits(at, addresses, count);
    }
    fn mbarrier_inval(&mut self, at: At, addresses: &[u64; 32]) {
        self.invals(at, addresses);
    }
    fn mbarrier_arrive(&mut self, at: At, arrival: &MbarrierArrival<'_>) {
        self.arrives_at_mbarrier(at, arrival);
    }
    fn mbarrier_expect(&mut self, at: At, addresses: &[u64; 32], bytes: &[u32; 32]) {
        self.expects(at, addresses, bytes);
    }
    fn mbarrier_transaction(&mut self, address: u64, bytes: u32, pc: u32) {
        if let Some(mbarrier) = self.mbarriers.get_mut(&address) {
            mbarrier.bytes -= i64::from(bytes);
            mbarrier.bytes_pc = pc;
        }
    }
    fn mbarrier_count(&mut self, address: u64, arrivals: u32, pc: u32) {
        self.counts(address, arrivals, pc);
    }
    fn mbarrier_phase(&mut self, address: u64) {
        self.completes_phase(address);
    }
    fn mbarrier_waited(&mut self, at: At, wait: &MbarrierWait<'_>) {
        self.waited(at, wait);
    }
    fn bulk(&mut self, at: At, copy: &Bulk<'_>) {
        self.bulk_copies(at, copy);
    }
    fn bulk_commit(&mut self, at: At) {
        self.warp(at).bulk.commit(at.lanes);
    }
    fn bulk_wait(&mut self, at: At, pending: u32, read: bool) {
        self.warp(at).wait_bulk(at.lanes, pending, read);
    }
    fn wgmma(&mut self, at: At, reads: &[Range<u64>]) {
        self.comes_together(at);
        self.multiplies(at, reads);
    }
    fn wgmma_unfenced(&mut self, at: At) {
        self.fault(at, at.lanes, Fault::WgmmaFence);
    }
    fn wgmma_executed(&mut self, at: At) {
        self.executes_wgmma(at);
    }
    fn wgmma_commit(&mut self, at: At) {
        self.warp(at).wgmma_commits += 1;
    }
    fn wgmma_wait(&mut self, at: At, pending: u32) {
        self.wgmma_waits(at, pending);
    }
    fn wgmma_register(&mut self, at: At, product: u32, writes: bool) {
        self.fault(at, at.lanes, Fault::WgmmaRegister { writes, product });
    }
    fn set_registers(&mut self, at: At, registers: u32, grows: bool) {
        self.sets_registers(at, registers, grows);
    }
    fn tensor_managed(&mut self, at: At, cells: &[Range<u64>]) {
        self.manages_tensor_memory(at, cells);
    }
    fn tensor_moved(&mut self, at: At, cells: &[Range<u64>], stores: bool) {
        self.moves_tensor_memory(at, cells, stores);
    }
    fn tensor_waited(&mut self, at: At, stores: bool) {
        self.waits_for_tensor_memory(at, stores);
    }
    fn tensor_product(&mut self, at: At, product: &TensorProduct<'_>) {
        self.multiplies_in_tensor_memory(at, product);
    }
    fn tensor_copy(&mut self, at: At, shared: &[Range<u64>], cells: &[Range<u64>]) {
        self.copies_to_tensor_memory(at, shared, cells);
    }
    fn tensor_commit(&mut self, at: At, mbarriers: &[u64], ticket: u64) {
        self.commits_products(at, mbarriers, ticket);
    }
    fn tensor_commit_arrived(&mut self, rank: u32, mbarrier: u64, ticket: u64, pc: u32) {
        self.commit_arrives(rank, mbarrier, ticket, pc);
    }
    fn tensor_fence(&mut self, at: At, after: bool) {
        self.fences_tensor_memory(at, after);
    }
    fn dependency_wait(&mut self, at: At) {
        self.launch.history.waits();
        self.warp(at).depend(at.lanes);
    }
}
