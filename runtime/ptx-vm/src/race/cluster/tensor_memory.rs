//! `tcgen05`: allocation of tensor memory, products, copies, loads and stores, and what orders them.

use super::super::judge::Eyes;
use super::super::observer::{At, Space, TensorProduct};
use super::super::shadow::Shadow;
use super::super::stamp::Stamp;
use super::super::tensor_memory::{Accumulator, TensorAccess, TensorEyes};
use super::super::tensor_own::{COPIES, LOADS, OPERANDS, PRODUCTS, STORES};
use super::super::warp::THREADS;
use super::super::{shared_address, shared_offset, shared_rank};
use super::{ClusterDetector, Knowledge, READS};
use std::collections::HashMap;
use std::ops::Range;

/// The tensor memory of a block.
#[derive(Debug)]
pub(super) struct TensorMemory {
    shadow: Shadow<READS>,
    /// Accumulators of products that may be in flight.
    accumulators: Vec<Accumulator>,
}

impl Default for TensorMemory {
    fn default() -> Self {
        Self { shadow: Shadow::new(Space::Tensor), accumulators: Vec::new() }
    }
}

/// For each ticket of `tcgen05.commit`: its release, and the number of mbarriers that have not received it.
pub(super) type Commits = HashMap<u64, (Knowledge, usize)>;

impl ClusterDetector {
    fn tensor_actor(&self, at: At) -> u32 {
        self.launch.layout.tensor(at.rank, at.warp)
    }

    fn check_tensor(&mut self, at: At, cells: &[Range<u64>], now: Stamp, access: TensorAccess) {
        let index = self.warp_index(at);
        let mut eyes = TensorEyes::new(&self.launch.layout, &self.warps[index], at.lanes, access, &mut self.found);
        let Some(block) = self.blocks.get_mut(at.rank as usize) else { return };
        let memory = block.tensor.get_or_insert_default();
        for range in cells {
            let (first, length) = (shared_offset(range.start), (range.end - range.start) as u32);
            memory.shadow.check(shared_address(at.rank, 0), first, length, &now, &mut eyes);
        }
    }

    /// `tcgen05.alloc` and `tcgen05.dealloc` are synchronous writes of all cells.
    pub(super) fn manages_tensor_memory(&mut self, at: At, cells: &[Range<u64>]) {
        let first = self.first;
        let warp = self.warp(at);
        warp.clock += 1;
        let now = Stamp::new(first + warp.actor + THREADS, warp.clock, at.lanes, at.pc, true, None);
        self.check_tensor(at, cells, now, TensorAccess::Manages);
        // All lanes execute it as one.
        self.warp(at).sync(at.lanes);
    }

    pub(super) fn moves_tensor_memory(&mut self, at: At, cells: &[Range<u64>], stores: bool) {
        self.comes_together(at);
        let actor = self.tensor_actor(at);
        let own = self.warp(at).tensor(actor);
        let (kind, clock) = if stores { (STORES, own.store) } else { (LOADS, own.load) };
        let now = Stamp::new(self.first + actor + kind, clock, at.lanes, at.pc, stores, None);
        self.check_tensor(at, cells, now, TensorAccess::Moves);
    }

    pub(super) fn multiplies_in_tensor_memory(&mut self, at: At, product: &TensorProduct<'_>) {
        let actor = self.tensor_actor(at);
        let epoch = self.warp(at).tensor(actor).epoch;
        let stamp = |kind: u32, writes| Stamp::new(self.first + actor + kind, epoch, at.lanes, at.pc, writes, None);
        let (reads, written) = (stamp(OPERANDS, false), stamp(PRODUCTS, true));
        self.reads_operands(at, product.shared, reads);
        if !product.operand.is_empty() {
            self.check_tensor(at, product.operand, reads, TensorAccess::Operand);
        }
        let (columns, lane, rows) = (product.columns, product.lane, product.rows);
        let accumulator = Accumulator { columns, lane, rows, stamp: written };
        let index = self.warp_index(at);
        let eyes =
            TensorEyes::new(&self.launch.layout, &self.warps[index], at.lanes, TensorAccess::Moves, &mut self.found);
        let Some(block) = self.blocks.get_mut(at.rank as usize) else { return };
        let known = &mut block.tensor.get_or_insert_default().accumulators;
        let other = |a: &Accumulator| a.overlaps(&accumulator) && !a.is_same(&accumulator) && !eyes.is_over(&a.stamp);
        let continues = !known.iter().any(other);
        known.retain(|a| !a.overlaps(&accumulator));
        known.push(accumulator);
        self.check_tensor(at, product.accumulator, written, TensorAccess::Accumulates { continues });
    }

    pub(super) fn copies_to_tensor_memory(&mut self, at: At, shared: &[Range<u64>], cells: &[Range<u64>]) {
        let actor = self.tensor_actor(at);
        let epoch = self.warp(at).tensor(actor).epoch;
        let stamp = |kind: u32, writes| Stamp::new(self.first + actor + kind, epoch, at.lanes, at.pc, writes, None);
        let (reads, written) = (stamp(OPERANDS, false), stamp(COPIES, true));
        self.reads_operands(at, shared, reads);
        self.check_tensor(at, cells, written, TensorAccess::Moves);
    }

    /// Products and copies read shared memory through the asynchronous proxy (PTX ISA 9.7.16.6.5).
    fn reads_operands(&mut self, at: At, shared: &[Range<u64>], now: Stamp) {
        let index = self.warp_index(at);
        let mut eyes = Eyes::new(&self.launch, &self.warps[index], at.lanes, Space::Shared, &mut self.found);
        eyes.asynchronous = true;
        let Some(block) = self.blocks.get_mut(at.rank as usize) else { return };
        for range in shared {
            let length = (range.end - range.start) as u32;
            block.shadow.check(shared_address(at.rank, 0), shared_offset(range.start), length, &now, &mut eyes);
        }
    }

    pub(super) fn commits_products(&mut self, at: At, mbarriers: &[u64], ticket: u64) {
        let mut released = Knowledge::default();
        let actor = self.tensor_actor(at);
        let lane = at.lanes.trailing_zeros();
        for &mbarrier in mbarriers {
            self.uses_mbarrier(at, at.lanes, mbarrier, false);
        }
        self.warp(at).release_with_products(lane, actor, &mut released);
        self.commits.insert(ticket, (released, mbarriers.len()));
    }

    pub(super) fn commit_arrives(&mut self, rank: u32, address: u64, ticket: u64, pc: u32) {
        if let Some((released, left)) = self.commits.get_mut(&ticket) {
            if let Some(mbarrier) = self.mbarriers.get_mut(&address) {
                mbarrier.collect(shared_rank(address) == rank, |pending| pending.join(released));
            }
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.commits.remove(&ticket);
            }
        }
        self.counts(address, 1, pc);
    }

    pub(super) fn fences_tensor_memory(&mut self, at: At, after: bool) {
        let actor = self.tensor_actor(at);
        let warp = self.warp(at);
        if after {
            warp.tensor_after(at.lanes, actor);
        } else {
            warp.tensor_before(at.lanes, actor);
        }
    }

    pub(super) fn waits_for_tensor_memory(&mut self, at: At, stores: bool) {
        self.comes_together(at);
        let actor = self.tensor_actor(at);
        self.warp(at).tensor_wait(stores, actor);
    }
}
