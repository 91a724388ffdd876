//! Ordinary, strong and atomic accesses of threads.

use super::super::history::Place;
use super::super::judge::Eyes;
use super::super::observer::{Access, At, Kind, Order, Scope, Space};
use super::super::shadow::Stamp;
use super::super::warp::{Seen, THREADS, lanes_of};
use super::super::{shared_address, shared_offset, shared_rank};
use super::{ClusterDetector, Knowledge};

/// The lanes that share each address, one address after the other.
pub(super) fn by_address(lanes: u32, addresses: &[u64; 32]) -> impl Iterator<Item = (u64, u32)> {
    let mut left = lanes;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let address = addresses[left.trailing_zeros() as usize];
            let mut same = 0;
            for lane in lanes_of(left) {
                same |= u32::from(addresses[lane as usize] == address) << lane;
            }
            left &= !same;
            (address, same)
        })
    })
}

impl ClusterDetector {
    pub(super) fn accesses(&mut self, at: At, access: &Access<'_>) {
        match access.space {
            Space::Shared => self.access_shared(at, access),
            Space::Global => self.access_global(at, access),
        }
        if access.order.is_strong() && access.kind != Kind::Read {
            self.releases(at, access);
        }
    }

    fn stamp(&mut self, at: At, access: &Access<'_>) -> Stamp {
        let first = self.first;
        let warp = self.warp(at);
        if access.kind != Kind::Read {
            // A write's clock is its instruction's alone.
            warp.clock += 1;
        }
        let strong = (access.order.is_strong() || access.kind == Kind::Atomic).then_some(access.scope);
        Stamp::new(first + warp.actor + THREADS, warp.clock, at.lanes, at.pc, access.kind != Kind::Read, strong)
    }

    fn access_shared(&mut self, at: At, access: &Access<'_>) {
        let mut now = self.stamp(at, access);
        let rows = access.rows.unwrap_or(at.lanes);
        let index = self.warp_index(at);
        let mut eyes = Eyes {
            layout: &self.launch.layout,
            warp: &self.warps[index],
            lanes: at.lanes,
            first: self.first,
            blocks_end: self.launch.layout.mbarrier(0),
            space: Space::Shared,
            asynchronous: false,
            same_value: access.same_value,
            found: &mut self.found,
        };
        let mut remote = 0u32;
        for lane in lanes_of(rows) {
            let address = access.addresses[lane as usize];
            let rank = shared_rank(address);
            if access.rows.is_none() {
                now.lanes = 1 << lane;
                eyes.lanes = now.lanes;
            }
            remote |= u32::from(rank != at.rank) << lane;
            if let Some(block) = self.blocks.get_mut(rank as usize) {
                let (origin, offset) = (shared_address(rank, 0), shared_offset(address));
                block.shadow.check(origin, offset, access.size, &now, &mut eyes);
            }
        }
        if remote != 0 {
            for lane in lanes_of(remote) {
                self.touch_remote(at, 1 << lane, shared_rank(access.addresses[lane as usize]));
            }
        }
    }

    fn access_global(&mut self, at: At, access: &Access<'_>) {
        let now = self.stamp(at, access);
        let index = self.warp_index(at);
        let mut eyes = Eyes {
            layout: &self.launch.layout,
            warp: &self.warps[index],
            lanes: at.lanes,
            first: self.first,
            blocks_end: self.launch.layout.mbarrier(0),
            space: Space::Global,
            asynchronous: false,
            same_value: access.same_value,
            found: &mut self.found,
        };
        let accesses = lanes_of(at.lanes).map(|lane| (access.addresses[lane as usize], access.size, now.by(1 << lane)));
        let aim = |eyes: &mut Eyes<'_>, stamp: &Stamp| eyes.lanes = stamp.lanes;
        self.launch.history.check(accesses, &mut eyes, aim);
    }

    /// The releasing half of strong writes and atomics.
    fn releases(&mut self, at: At, access: &Access<'_>) {
        let index = self.warp_index(at);
        if access.order.releases() {
            for (address, lanes) in by_address(at.lanes, access.addresses) {
                let mut released = Knowledge::default();
                self.warps[index].release(lanes, &mut released);
                if access.kind == Kind::Write {
                    // A write is the head of a new release sequence; an atomic goes on with the old one.
                    self.place(access, address, None);
                }
                self.place(access, address, Some((&released, access.scope)));
            }
            return;
        }
        if !self.warps[index].has_fenced() {
            if access.kind == Kind::Write {
                for (address, _) in by_address(at.lanes, access.addresses) {
                    self.place(access, address, None);
                }
            }
            return;
        }
        for (address, lanes) in by_address(at.lanes, access.addresses) {
            for lane in lanes_of(lanes) {
                let warp = &self.warps[index];
                let wide = warp.published(lane).map(|knowledge| (knowledge, access.scope));
                let narrow = warp.fenced(lane).map(|(knowledge, scope)| (knowledge, scope.min(access.scope)));
                if access.kind == Kind::Write {
                    self.place(access, address, None);
                }
                for (released, scope) in wide.iter().chain(&narrow) {
                    self.place(access, address, Some((released, *scope)));
                }
            }
        }
    }

    /// Adds what is released to what the address holds, or takes that away.
    fn place(&mut self, access: &Access<'_>, address: u64, released: Option<(&Knowledge, Scope)>) {
        match (access.space, released) {
            (Space::Shared, Some((released, _))) => self.places.entry(address).or_default().join(released),
            (Space::Shared, None) => {
                self.places.remove(&address);
            }
            (Space::Global, Some((released, scope))) => {
                let cluster = self.index;
                let wide = scope >= Scope::Gpu;
                self.launch.history.with_place(address, |place| place.release(cluster, released, wide));
            }
            (Space::Global, None) => {
                self.launch.history.with_known_place(address, Place::clear);
            }
        }
    }

    /// The acquiring half of strong reads and atomics.
    pub(super) fn sees(&mut self, at: At, access: &Access<'_>) {
        if access.kind == Kind::Write || access.order == Order::Weak {
            return;
        }
        let index = self.warp_index(at);
        for (address, lanes) in by_address(at.lanes, access.addresses) {
            match access.space {
                Space::Shared => {
                    let Some(place) = self.places.get(&address) else { continue };
                    let warp = &mut self.warps[index];
                    if access.order.acquires() {
                        warp.acquire(lanes, place);
                    } else {
                        lanes_of(lanes).for_each(|l| warp.note_seen(l, Seen::Cluster(place.clone())));
                    }
                }
                Space::Global => {
                    let wide = access.scope >= Scope::Gpu;
                    let cluster = self.index;
                    let history = &self.launch.history;
                    let Some(seen) = history.with_known_place(address, |place| place.seen_by(cluster, wide)) else {
                        continue;
                    };
                    let warp = &mut self.warps[index];
                    if access.order.acquires() {
                        warp.acquire_global(lanes, &seen, true);
                    } else {
                        lanes_of(lanes).for_each(|l| warp.note_seen(l, Seen::Global(seen.clone())));
                    }
                }
            }
        }
    }
}
