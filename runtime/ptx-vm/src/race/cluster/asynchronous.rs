//! Asynchronous copies and products.

use super::super::history::Piece;
use super::super::judge::Eyes;
use super::super::lanes::lanes_of;
use super::super::observer::{At, Bulk, CopyAsync, Footprint, MAP_BYTES, Scope, Space};
use super::super::stamp::Stamp;
use super::super::warp::{BULK_READS, BULK_WRITES, COPIES};
use super::super::{shared_address, shared_offset, shared_rank};
use super::ClusterDetector;
use super::access::by_address;
use std::ops::Range;

impl ClusterDetector {
    pub(super) fn copies(&mut self, at: At, copy: &CopyAsync<'_>) {
        let index = self.warp_index(at);
        let warp = &self.warps[index];
        let now = Stamp::new(self.first + warp.actor + COPIES, warp.copies.epoch, at.lanes, at.pc, true, None);
        let mut eyes = Eyes::new(&self.launch, warp, at.lanes, Space::Shared, &mut self.found);
        for lane in lanes_of(at.lanes) {
            let address = copy.destinations[lane as usize];
            let rank = shared_rank(address);
            eyes.lanes = 1 << lane;
            let now = now.by(1 << lane);
            if let Some(block) = self.blocks.get_mut(rank as usize) {
                let (origin, offset) = (shared_address(rank, 0), shared_offset(address));
                block.shadow.check(origin, offset, copy.size, &now, &mut eyes);
            }
        }
        eyes.space = Space::Global;
        let now = now.reading();
        let reads = lanes_of(at.lanes).filter(|&lane| copy.read[lane as usize] > 0).map(|lane| {
            let (first, length) = (copy.sources[lane as usize], copy.read[lane as usize]);
            Piece { first, length, each: 0, stamp: now.by(1 << lane), eyes: 1 << lane }
        });
        self.launch.history.check(reads, &mut eyes);
    }

    pub(super) fn copies_arrive(&mut self, at: At, addresses: &[u64; 32]) {
        let index = self.warp_index(at);
        for (address, lanes) in by_address(at.lanes, addresses) {
            if !self.uses_mbarrier(at, lanes, address, false) {
                continue;
            }
            if let Some(mbarrier) = self.mbarriers.get_mut(&address) {
                mbarrier.collect(true, |pending| self.warps[index].release_with_copies(lanes, pending));
            }
        }
    }

    pub(super) fn bulk_copies(&mut self, at: At, copy: &Bulk<'_>) {
        let index = self.warp_index(at);
        let mut read_stamp = None;
        for write in copy.writes {
            if let Some(address) = write.mbarrier {
                // The other destinations of a multicast have the mbarrier at the same offset in their own memory.
                if !self.uses_mbarrier(at, at.lanes, address, true) {
                    continue;
                }
                let Some(mbarrier) = self.mbarriers.get_mut(&address) else { continue };
                let Some(actor) = mbarrier.actor else { continue };
                mbarrier.load = Some((mbarrier.phase, at.pc));
                mbarrier.issued += write.bytes.ranges.iter().map(|r| (r.end - r.start).cast_signed()).sum::<i64>();
                let lacks = mbarrier.lacks_bytes();
                let strong = copy.reduces.then_some(Scope::Gpu);
                let now = Stamp::new(self.first + actor, mbarrier.phase, u32::MAX, at.pc, true, strong);
                let reading = Stamp::new(self.first + actor, mbarrier.phase, u32::MAX, at.pc, false, None);
                read_stamp = read_stamp.or(Some(reading));
                self.check_bulk(at, write.bytes, now, !copy.generic);
                if let Some((expected, issued)) = lacks {
                    let fault = super::Fault::TooFewBytes { mbarrier: shared_offset(address), expected, issued };
                    self.fault(at, at.lanes, fault);
                }
            } else {
                let warp = &self.warps[index];
                let strong = copy.reduces.then_some(Scope::Gpu);
                let actor = self.first + warp.actor + BULK_WRITES;
                let now = Stamp::new(actor, warp.bulk.epoch, at.lanes, at.pc, true, strong);
                self.check_bulk(at, write.bytes, now, true);
            }
        }
        let by_group = copy.writes.iter().all(|write| write.mbarrier.is_none());
        if by_group {
            let shared = copy.reads.space == Space::Shared && !copy.reads.ranges.is_empty();
            let warp = &mut self.warps[index];
            if shared {
                let epoch = warp.bulk.epoch;
                lanes_of(at.lanes).for_each(|lane| warp.bulk_reading[lane as usize] = epoch);
            }
            let actor = self.first + warp.actor + BULK_READS;
            read_stamp = Some(Stamp::new(actor, warp.bulk.epoch, at.lanes, at.pc, false, None));
        }
        if let Some(now) = read_stamp {
            self.check_bulk(at, copy.reads, now, !copy.generic);
            copy.map.iter().for_each(|&map| self.check_map(at, map, now));
        }
    }

    /// Checks that a copy sees its tensor map. It reads the map until it has completed.
    fn check_map(&mut self, at: At, map: u64, now: Stamp) {
        let index = self.warp_index(at);
        let mut eyes = Eyes::new(&self.launch, &self.warps[index], at.lanes, Space::Global, &mut self.found);
        eyes.asynchronous = true;
        eyes.map = Some(map);
        let piece = Piece { first: map, length: MAP_BYTES as u32, each: 0, stamp: now, eyes: at.lanes };
        self.launch.history.check(std::iter::once(piece), &mut eyes);
    }

    fn check_bulk(&mut self, at: At, bytes: Footprint<'_>, now: Stamp, asynchronous: bool) {
        self.check_ranges(at, bytes.space, bytes.ranges, now, asynchronous);
        let remote = bytes.ranges.first().map(|range| shared_rank(range.start));
        if let (Space::Shared, Some(rank)) = (bytes.space, remote)
            && rank != at.rank
        {
            let warp = &self.warps[self.warp_index(at)];
            let known = lanes_of(at.lanes).all(|lane| warp.knowledge(lane).started & 1 << rank.min(31) != 0);
            if !known {
                self.fault(at, at.lanes, super::Fault::RemoteBeforeStart { rank });
            }
        }
    }

    /// Checks accesses that are asynchronous to the lanes that issue them, through the asynchronous or the generic
    /// proxy.
    fn check_ranges(&mut self, at: At, space: Space, ranges: &[Range<u64>], now: Stamp, asynchronous: bool) {
        if now.writes() && space == Space::Shared {
            for range in ranges {
                self.overwrites_mbarrier(at, at.lanes, range.start, (range.end - range.start) as u32);
            }
        }
        let index = self.warp_index(at);
        let mut eyes = Eyes::new(&self.launch, &self.warps[index], at.lanes, space, &mut self.found);
        eyes.asynchronous = asynchronous;
        match space {
            Space::Shared => {
                for range in ranges {
                    let rank = shared_rank(range.start);
                    if let Some(block) = self.blocks.get_mut(rank as usize) {
                        let (origin, offset) = (shared_address(rank, 0), shared_offset(range.start));
                        let length = (range.end - range.start) as u32;
                        block.shadow.check(origin, offset, length, &now, &mut eyes);
                    }
                }
            }
            Space::Tensor => {}
            Space::Global => {
                // A range does not fit in a length only if it is longer than 4 GiB; boxes and bulk copies are not.
                let piece = |range: &Range<u64>| Piece {
                    first: range.start,
                    length: (range.end - range.start) as u32,
                    each: 0,
                    stamp: now,
                    eyes: at.lanes,
                };
                self.launch.history.check(ranges.iter().map(piece), &mut eyes);
            }
        }
    }

    pub(super) fn multiplies(&mut self, at: At, reads: &[Range<u64>]) {
        let actor = self.launch.layout.warpgroup(at.rank, at.warp);
        let warp = &self.warps[self.warp_index(at)];
        let now = Stamp::new(self.first + actor, warp.wgmma_commits + 1, u32::MAX, at.pc, false, None);
        self.check_ranges(at, Space::Shared, reads, now, true);
    }

    pub(super) fn wgmma_waits(&mut self, at: At, pending: u32) {
        let actor = self.launch.layout.warpgroup(at.rank, at.warp);
        let warp = self.warp(at);
        let done = warp.wgmma_commits.saturating_sub(pending);
        warp.know(at.lanes, actor, done);
    }
}
