//! Weak, strong and atomic accesses of threads.

use super::super::history::{HistoryPlace, Piece};
use super::super::judge::Eyes;
use super::super::lanes::lanes_of;
use super::super::observer::{Access, At, Kind, Order, Scope, Space};
use super::super::pattern::Seen;
use super::super::rules::{Chain, Judge};
use super::super::spread::Spread;
use super::super::stamp::Stamp;
use super::super::warp::THREADS;
use super::super::{shared_address, shared_offset, shared_rank};
use super::{ClusterDetector, Knowledge};

/// Groups lanes by address: one entry for each address, with its lanes.
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

/// Whether the addresses are the same again after `distance` lanes, in each group of twice as many.
fn repeats(addresses: &[u64; 32], distance: usize) -> bool {
    let mut differs = addresses[0] ^ addresses[distance];
    if differs == 0 {
        for pair in addresses.chunks_exact(2 * distance) {
            let (low, high) = pair.split_at(distance);
            differs |= low.iter().zip(high).fold(0, |differs, (a, b)| differs | a ^ b);
        }
    }
    differs == 0
}

/// The bits of a lane's number on which its address does not depend, if the access is a plain read. It finds equal
/// addresses in all lanes, and addresses that repeat after a power of two.
fn free_bits(lanes: u32, access: &Access<'_>) -> u32 {
    let plain = access.kind == Kind::Read && access.order == Order::Weak;
    let first = access.addresses[lanes.trailing_zeros() as usize % 32];
    let is_first = |(lane, &address): (usize, &u64)| address == first || lanes >> lane & 1 == 0;
    if plain && lanes == u32::MAX {
        (0..5).filter(|&bit| repeats(access.addresses, 1 << bit)).fold(0, |free, bit| free | 1 << bit)
    } else if plain && access.addresses.iter().enumerate().all(is_first) {
        31
    } else {
        0
    }
}

/// The lanes whose numbers have no other bits.
fn lanes_with(bits: u32) -> u32 {
    (0..32).filter(|lane| lane & !bits == 0).fold(0, |lanes, lane| lanes | 1 << lane)
}

/// Groups of lanes that read the same bytes by a plain read, as one: the first lane of each, and its lanes.
fn groups(lanes: u32, free: u32) -> impl Iterator<Item = (u32, u32)> {
    let group = lanes_with(free);
    let mut left = lanes;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros();
            // If not all lanes are active, either all active ones form one group or each one does.
            let members = if free == 31 { lanes } else { group << lane };
            left &= !members;
            (lane, members)
        })
    })
}

/// The groups of a whole warp's plain read of shared memory, if there are several at equal small distances in one block's
/// memory.
fn spread(lanes: u32, free: u32, access: &Access<'_>) -> Option<Spread> {
    let plain = access.kind == Kind::Read && access.order == Order::Weak;
    let (each, start) = (access.size, access.addresses[0]);
    if !plain || lanes != u32::MAX || !matches!(each, 4 | 8 | 16) || !start.is_multiple_of(each.into()) {
        return None;
    }
    // The lanes of a group either follow each other, or are a power of two apart.
    let (step, count) = match free {
        0 | 1 | 3 | 7 | 15 => (free + 1, 32 / (free + 1)),
        16 | 24 | 28 | 30 => (1, 32 - free),
        _ => return None,
    };
    let place = |group: u32| access.addresses[(group * step) as usize % 32];
    let stride = place(1).wrapping_sub(start);
    let last = place(count - 1);
    if !(u64::from(each)..=Spread::FARTHEST).contains(&stride)
        || !stride.is_multiple_of(each.into())
        || shared_rank(start) != shared_rank(last)
        || (2..count).any(|group| place(group) != start + u64::from(group) * stride)
    {
        return None;
    }
    Some(Spread { first: shared_offset(start), count, each, stride: stride as u32, lanes: lanes_with(free), step })
}

/// The fewest neighbouring lanes whose accesses are worth being checked as a row.
const ROW: u32 = 4;

/// Whether all lanes are neighbours that access neighbouring elements.
fn is_row(lanes: u32, access: &Access<'_>) -> bool {
    let first = lanes.trailing_zeros();
    let run = u64::from(lanes) >> first;
    let size = u64::from(access.size);
    let start = access.addresses[first as usize % 32].wrapping_sub(u64::from(first) * size);
    // Without branches, so that the compiler can make it a few instructions.
    let mut wrong = 0;
    for (lane, &address) in access.addresses.iter().enumerate() {
        let differs = address ^ start.wrapping_add(lane as u64 * size);
        wrong |= if lanes >> lane & 1 != 0 { differs } else { 0 };
    }
    run & (run + 1) == 0 && wrong == 0
}

/// The rows of an access: runs of neighbouring lanes that access neighbouring elements; and the other lanes.
fn rows(lanes: u32, access: &Access<'_>) -> ([u32; (32 / ROW) as usize], u32) {
    let mut rows = [0; (32 / ROW) as usize];
    let plain = access.order == Order::Weak && matches!(access.kind, Kind::Read | Kind::Write);
    if !plain || !access.size.is_power_of_two() || access.size > 16 {
        return (rows, lanes);
    }
    let is_aligned = |lane: u32| access.addresses[lane as usize % 32].is_multiple_of(access.size.into());
    if lanes.count_ones() >= ROW && is_aligned(lanes.trailing_zeros()) && is_row(lanes, access) {
        rows[0] = lanes;
        return (rows, 0);
    }
    let (mut left, mut others, mut count) = (lanes, 0, 0);
    while left != 0 {
        let first = left.trailing_zeros();
        let is_next = |lane: &u32| {
            let address = access.addresses[*lane as usize - 1].wrapping_add(access.size.into());
            left >> lane & 1 != 0 && access.addresses[*lane as usize] == address
        };
        let end = (first + 1..32).find(|lane| !is_next(lane)).unwrap_or(32);
        let run = (u32::MAX >> (32 - (end - first))) << first;
        left &= !run;
        if end - first >= ROW && is_aligned(first) {
            rows[count] = run;
            count += 1;
        } else {
            others |= run;
        }
    }
    (rows, others)
}

/// The effect on the observation order.
fn chain(access: &Access<'_>) -> Chain {
    match access.kind {
        Kind::Write if access.order.is_strong() => Chain::Begins,
        Kind::Read | Kind::Write => Chain::None,
        Kind::Reduction => Chain::Continues,
        Kind::Atomic => Chain::Observes,
    }
}

impl ClusterDetector {
    pub(super) fn accesses(&mut self, at: At, access: &Access<'_>) {
        match access.space {
            Space::Shared => self.access_shared(at, access),
            Space::Global => self.access_global(at, access),
            // Threads access it by `tcgen05` only, which has calls of its own.
            Space::Tensor => return,
        }
        if access.order.is_strong() && access.kind != Kind::Read {
            self.releases(at, access);
        }
        if access.order.observes() && access.kind != Kind::Write && access.space == Space::Global {
            self.announce(at, access);
        }
    }

    /// Announces a strong read to the places that it will look up.
    fn announce(&mut self, at: At, access: &Access<'_>) {
        let history = &self.launch.history;
        self.announced = 0;
        for (address, lanes) in by_address(at.lanes, access.addresses) {
            // A relaxed read rarely sees anything at an address to which nothing was released, so no place is made for
            // it.
            let known = history.with_known_place(address, HistoryPlace::expect_reader).is_some();
            if !known && access.order.acquires() {
                history.with_place(address, HistoryPlace::expect_reader);
            }
            if known || access.order.acquires() {
                self.announced |= lanes;
            }
        }
    }

    fn stamp(&mut self, at: At, access: &Access<'_>) -> Stamp {
        let first = self.first;
        let warp = self.warp(at);
        if access.kind != Kind::Read {
            // The clock of a write belongs to its instruction alone.
            warp.clock += 1;
        }
        let is_atomic = matches!(access.kind, Kind::Atomic | Kind::Reduction);
        let strong = (access.order.is_strong() || is_atomic).then_some(access.scope);
        let writes = access.kind != Kind::Read;
        let stamp = Stamp::new(first + warp.actor + THREADS, warp.clock, at.lanes, at.pc, writes, strong)
            .in_elements(access.element);
        match chain(access) {
            Chain::None if !writes && access.order.observes() => stamp.informed(),
            Chain::None => stamp,
            Chain::Observes => stamp.current().informed(),
            Chain::Begins | Chain::Continues => stamp.current(),
        }
    }

    fn access_shared(&mut self, at: At, access: &Access<'_>) {
        let mut now = self.stamp(at, access);
        if access.rows.is_some() {
            now = now.joint();
        }
        let rows = access.rows.unwrap_or(at.lanes);
        let index = self.warp_index(at);
        let mut eyes = Eyes::new(&self.launch, &self.warps[index], at.lanes, Space::Shared, &mut self.found);
        eyes.chain = chain(access);
        eyes.same_value = access.same_value;
        eyes.unchanged = access.unchanged;
        eyes.non_coherent = access.non_coherent;
        let free = free_bits(rows, access);
        if access.rows.is_none()
            && let Some(spread) = spread(rows, free, access)
            && shared_rank(access.addresses[0]) == at.rank
            && let Some(block) = self.blocks.get_mut(at.rank as usize)
        {
            block.shadow.check_spread(shared_address(at.rank, 0), spread, at.warp, &now, &mut eyes);
            return;
        }
        let mut remote = 0u32;
        for (lane, members) in groups(rows, free) {
            let address = access.addresses[lane as usize];
            let rank = shared_rank(address);
            if access.rows.is_none() {
                now.lanes = members;
                eyes.lanes = members;
            }
            remote |= if rank == at.rank { 0 } else { members };
            if let Some(block) = self.blocks.get_mut(rank as usize) {
                let (origin, offset) = (shared_address(rank, 0), shared_offset(address));
                block.shadow.check(origin, offset, access.size, &now, &mut eyes);
            }
        }
        if access.rows.is_some() && access.kind == Kind::Write {
            Self::check_rows(&mut eyes, now, rows, access);
        }
        if access.kind != Kind::Read && !self.mbarriers.is_empty() {
            for lane in lanes_of(rows) {
                let of = if access.rows.is_some() { at.lanes } else { 1 << lane };
                self.overwrites_mbarrier(at, of, access.addresses[lane as usize], access.size);
            }
        }
        if remote != 0 {
            for lane in lanes_of(remote) {
                self.touch_remote(at, 1 << lane, shared_rank(access.addresses[lane as usize]));
            }
        }
    }

    /// Checks for overlapping rows of one `stmatrix`: which of them memory holds in the end is undefined.
    fn check_rows(eyes: &mut Eyes<'_>, now: Stamp, rows: u32, access: &Access<'_>) {
        let address = |lane: u32| access.addresses[lane as usize];
        for lane in lanes_of(rows) {
            let later = lanes_of(rows).find(|&other| other > lane && address(other).abs_diff(address(lane)) < 16);
            if let Some(later) = later {
                let (first, second) = (now.by(1 << lane), now.by(1 << later));
                eyes.race(&first, &second, address(lane).max(address(later)));
                return;
            }
        }
    }

    /// Records that something other than mbarrier instructions writes bytes of an mbarrier in use.
    pub(super) fn overwrites_mbarrier(&mut self, at: At, lanes: u32, address: u64, bytes: u32) {
        let range = (address & !7)..address + u64::from(bytes);
        if range.start >= self.mbarrier_span.1 || range.end <= self.mbarrier_span.0 {
            return;
        }
        let hit = if (range.end - range.start) / 8 <= self.mbarriers.len() as u64 {
            range.step_by(8).find(|start| self.mbarriers.get(start).is_some_and(|b| b.alive))
        } else {
            self.mbarriers.iter().find(|&(start, b)| range.contains(start) && b.alive).map(|(&start, _)| start)
        };
        if let Some(mbarrier) = hit {
            self.fault(at, lanes, super::Fault::MbarrierOverwritten { mbarrier: shared_offset(mbarrier) });
        }
    }

    fn access_global(&mut self, at: At, access: &Access<'_>) {
        let now = self.stamp(at, access);
        if access.kind != Kind::Write && access.order.observes() {
            self.launch.perform(self.index, Some(&now));
        }
        let index = self.warp_index(at);
        let mut eyes = Eyes::new(&self.launch, &self.warps[index], at.lanes, Space::Global, &mut self.found);
        eyes.chain = chain(access);
        eyes.same_value = access.same_value;
        eyes.unchanged = access.unchanged;
        eyes.non_coherent = access.non_coherent;
        let (rows, others) = rows(at.lanes, access);
        let first = |lanes: u32| access.addresses[lanes.trailing_zeros() as usize];
        let rows = rows.into_iter().take_while(|&row| row != 0).map(|lanes| {
            let length = lanes.count_ones() * access.size;
            Piece { first: first(lanes), length, each: access.size, stamp: now.by(lanes), eyes: lanes }
        });
        let others = groups(others, free_bits(others, access)).map(|(_, lanes)| Piece {
            first: first(lanes),
            length: access.size,
            each: 0,
            stamp: now.by(lanes),
            eyes: lanes,
        });
        self.launch.history.check(rows.chain(others), &mut eyes);
    }

    /// The release half of strong writes and atomics.
    fn releases(&mut self, at: At, access: &Access<'_>) {
        let index = self.warp_index(at);
        if access.order.releases() {
            for (address, lanes) in by_address(at.lanes, access.addresses) {
                let mut released = Knowledge::default();
                self.warps[index].release(lanes, &mut released);
                self.place(access, address, &[(released, access.scope)]);
            }
            return;
        }
        if !self.warps[index].has_fenced() {
            if access.kind == Kind::Write {
                for (address, _) in by_address(at.lanes, access.addresses) {
                    self.place(access, address, &[]);
                }
            }
            return;
        }
        for (address, lanes) in by_address(at.lanes, access.addresses) {
            for lane in lanes_of(lanes) {
                let warp = &self.warps[index];
                let wide = warp.published(lane).map(|knowledge| (knowledge, access.scope));
                let narrow = warp.fenced(lane).map(|(knowledge, scope)| (knowledge, scope.min(access.scope)));
                let released: Vec<_> = wide.into_iter().chain(narrow).collect();
                self.place(access, address, &released);
            }
        }
    }

    /// Adds what is released to the content of the address. A write begins a new release sequence; an atomic continues
    /// the old one.
    fn place(&mut self, access: &Access<'_>, address: u64, released: &[(Knowledge, Scope)]) {
        let overwrites = access.kind == Kind::Write;
        let is_wide = |(_, scope): &(_, Scope)| *scope >= Scope::Gpu;
        self.has_released |= access.space == Space::Global && released.iter().any(is_wide);
        match access.space {
            Space::Shared => {
                if overwrites {
                    self.places.remove(&address);
                }
                for (knowledge, _) in released {
                    self.places.entry(address).or_default().join(knowledge);
                }
            }
            Space::Tensor => {}
            Space::Global if released.is_empty() => {
                if overwrites {
                    self.launch.history.with_known_place(address, HistoryPlace::overwrite);
                }
            }
            Space::Global => {
                let cluster = self.index;
                self.launch.history.with_place(address, |place| {
                    if overwrites {
                        place.overwrite();
                    }
                    for (knowledge, scope) in released {
                        place.release(cluster, knowledge, *scope >= Scope::Gpu);
                    }
                });
            }
        }
    }

    /// The acquire half of strong reads and atomics.
    pub(super) fn sees(&mut self, at: At, access: &Access<'_>) {
        if access.kind == Kind::Write || !access.order.observes() {
            return;
        }
        if access.space == Space::Global {
            self.launch.perform(self.index, None);
            if access.stale != 0 {
                self.misses(at, access);
            }
        }
        let index = self.warp_index(at);
        for (address, lanes) in by_address(at.lanes, access.addresses) {
            match access.space {
                Space::Tensor => {}
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
                    let expected = self.announced & lanes != 0;
                    let wide = access.scope >= Scope::Gpu;
                    let cluster = self.index;
                    let history = &self.launch.history;
                    let Some(seen) = history.with_known_place(address, |place| place.seen_by(cluster, wide, expected))
                    else {
                        continue;
                    };
                    let lanes = lanes & !access.stale;
                    if lanes == 0 {
                        continue;
                    }
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

    /// Records that lanes have seen older values, and not observed what is written there now.
    fn misses(&mut self, at: At, access: &Access<'_>) {
        let now = self.stamp(at, access);
        let index = self.warp_index(at);
        let mut eyes = Eyes::new(&self.launch, &self.warps[index], at.lanes, access.space, &mut self.found);
        for (first, lanes) in by_address(at.lanes & access.stale, access.addresses) {
            eyes.aim(lanes);
            let piece = Piece { first, length: access.size, each: 0, stamp: now.by(lanes), eyes: lanes };
            self.launch.history.miss(piece, &eyes);
        }
    }
}
