//! The detector driven by hand-written sequences of events.

#![allow(clippy::single_range_in_vec_init)]

use super::*;
use std::sync::Arc;

struct Plain;

impl Names for Plain {
    fn site(&self, pc: u32) -> Site {
        Site { pc, ptx_line: pc + 100, source: None, instruction: String::new() }
    }
    fn buffer(&self, _: Space, _: u64) -> Option<(String, u64)> {
        None
    }
}

/// A launch whose events are written by hand; every event has the next pc.
struct Play {
    detector: Arc<Detector>,
    clusters: Vec<ClusterDetector>,
    pc: u32,
}

const ALL: u32 = u32::MAX;

fn shape(clusters: u32, blocks: u32, threads: u32) -> LaunchShape {
    LaunchShape {
        clusters,
        blocks_per_cluster: blocks,
        threads_per_block: threads,
        overlaps_previous: false,
        collectives_order: false,
    }
}

impl Play {
    fn of(shape: LaunchShape, history: &Arc<GlobalHistory>) -> Self {
        let detector = Detector::new(history, shape).unwrap();
        let mut clusters: Vec<_> = (0..shape.clusters).map(|c| detector.cluster(c)).collect();
        for (c, cluster) in clusters.iter_mut().enumerate() {
            for rank in 0..shape.blocks_per_cluster {
                let block = c as u32 * shape.blocks_per_cluster + rank;
                cluster.block_begin(rank, [block, 0, 0], shape.threads_per_block);
            }
        }
        Self { detector, clusters, pc: 0 }
    }

    fn new(clusters: u32, blocks: u32, threads: u32) -> Self {
        Self::of(shape(clusters, blocks, threads), &Arc::default())
    }

    fn at(&mut self, rank: u32, warp: u32, lanes: u32) -> At {
        self.pc += 1;
        At { rank, warp, lanes, pc: self.pc }
    }

    fn access_by(&mut self, cluster: usize, at: At, access: &Access<'_>) {
        self.clusters[cluster].access(at, access);
        if access.order.is_strong() && access.kind != Kind::Write {
            self.clusters[cluster].observed(at, access);
        }
    }

    /// A plain access of `size` bytes per lane by warp `warp` of block 0, lane `l` at `base + l * step`.
    fn shared(&mut self, kind: Kind, warp: u32, lanes: u32, base: u32, step: u32, size: u32) {
        let at = self.at(0, warp, lanes);
        let addresses = std::array::from_fn(|l| shared_address(0, base + l as u32 * step));
        let access = plain(Space::Shared, kind, &addresses, size);
        self.access_by(0, at, &access);
    }

    fn global(&mut self, cluster: usize, kind: Kind, order: Order, scope: Scope, lanes: u32, address: u64) {
        let at = self.at(0, 0, lanes);
        let addresses = [address; 32];
        let access = Access { order, scope, ..plain(Space::Global, kind, &addresses, 4) };
        self.access_by(cluster, at, &access);
    }

    fn barrier(&mut self, id: u32, warps: std::ops::Range<u32>) {
        let threads = (warps.end - warps.start) * 32;
        for warp in warps {
            let at = self.at(0, warp, ALL);
            let arrival = BarrierArrival { id, threads, waits: true, aligned: true };
            self.clusters[0].barrier_arrive(at, arrival);
        }
        self.clusters[0].barrier_complete(0, id);
    }

    fn c(&mut self) -> &mut ClusterDetector {
        &mut self.clusters[0]
    }

    fn end(mut self) -> Vec<Finding> {
        self.clusters.clear();
        self.detector.findings(&Plain)
    }

    fn causes(self) -> Vec<RaceCause> {
        let findings = self.end();
        findings
            .iter()
            .map(|finding| match finding {
                Finding::Race(race) => race.cause,
                Finding::Fault { .. } => panic!("unexpected: {finding}"),
            })
            .collect()
    }

    fn fault(self) -> Fault {
        let mut findings = self.end();
        assert_eq!(findings.len(), 1, "{findings:?}");
        match findings.remove(0) {
            Finding::Fault { fault, .. } => fault,
            race @ Finding::Race(_) => panic!("unexpected: {race}"),
        }
    }
}

fn plain<'a>(space: Space, kind: Kind, addresses: &'a [u64; 32], size: u32) -> Access<'a> {
    Access {
        space,
        addresses,
        size,
        kind,
        order: Order::Weak,
        scope: Scope::System,
        rows: None,
        same_value: None,
        unchanged: 0,
    }
}

#[test]
fn a_barrier_orders_warps_and_its_absence_is_a_race() {
    for with_barrier in [true, false] {
        let mut play = Play::new(1, 1, 64);
        play.shared(Kind::Write, 0, ALL, 0, 4, 4);
        if with_barrier {
            play.barrier(0, 0..2);
        }
        play.shared(Kind::Read, 1, ALL, 0, 4, 4);
        let expected: &[_] = if with_barrier { &[] } else { &[RaceCause::Unordered] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn a_write_over_reads_of_any_number_of_warps_is_found() {
    for late in 1..16 {
        let mut play = Play::new(1, 1, 512);
        play.shared(Kind::Write, 0, ALL, 0, 16, 16);
        play.barrier(0, 0..16);
        for warp in 0..16 {
            play.shared(Kind::Read, warp, ALL, 0, 16, 16);
        }
        // All but one come to the barrier before the refill.
        for warp in (0..16).filter(|&w| w != late) {
            let at = play.at(0, warp, ALL);
            let arrival = BarrierArrival { id: 1, threads: 480, waits: true, aligned: true };
            play.c().barrier_arrive(at, arrival);
        }
        play.c().barrier_complete(0, 1);
        play.shared(Kind::Write, 0, ALL, 0, 16, 16);
        let findings = play.end();
        assert_eq!(findings.len(), 1);
        let Finding::Race(race) = &findings[0] else { panic!("{}", findings[0]) };
        assert_eq!((race.hazard, race.first.warp), (Hazard::WriteAfterRead, Some(late)));
    }
}

#[test]
fn lanes_of_a_warp_need_a_warp_sync() {
    for synced in [0, 0xffff, ALL] {
        let mut play = Play::new(1, 1, 32);
        play.shared(Kind::Write, 0, ALL, 0, 4, 4);
        if synced != 0 {
            let at = play.at(0, 0, synced);
            play.c().warp_sync(at);
        }
        // The low half reads what its neighbours in the low half wrote.
        let at = play.at(0, 0, 0xffff);
        let addresses = std::array::from_fn(|l| shared_address(0, (l as u32 ^ 1) * 4));
        play.access_by(0, at, &plain(Space::Shared, Kind::Read, &addresses, 4));
        let expected: &[_] = if synced == 0 { &[RaceCause::UnorderedLanes] } else { &[] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn neighbouring_half_words_are_told_apart() {
    let mut play = Play::new(1, 1, 64);
    play.shared(Kind::Write, 0, ALL, 0, 4, 2);
    play.shared(Kind::Write, 1, ALL, 2, 4, 2);
    play.shared(Kind::Read, 0, ALL, 0, 4, 2);
    assert_eq!(play.causes(), []);
    let mut play = Play::new(1, 1, 64);
    play.shared(Kind::Write, 0, ALL, 0, 4, 2);
    play.shared(Kind::Write, 1, ALL, 0, 4, 4);
    assert_eq!(play.causes(), [RaceCause::Unordered]);
}

#[test]
fn lanes_of_one_instruction_may_write_the_same_value() {
    for same in [true, false] {
        let mut play = Play::new(1, 1, 32);
        let at = play.at(0, 0, ALL);
        let same_value = move |_: u32, _: u32| same;
        let addresses = [shared_address(0, 16); 32];
        let access = Access { same_value: Some(&same_value), ..plain(Space::Shared, Kind::Write, &addresses, 4) };
        play.access_by(0, at, &access);
        let expected: &[_] = if same { &[] } else { &[RaceCause::SameInstruction] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn a_write_of_what_another_warp_has_written_changes_nothing() {
    for (unchanged, expected) in [(ALL, &[][..]), (0, &[RaceCause::Unordered][..])] {
        let mut play = Play::new(1, 2, 32);
        let addresses = [shared_address(0, 16); 32];
        let same = |_: u32, _: u32| true;
        let access = Access { same_value: Some(&same), ..plain(Space::Shared, Kind::Write, &addresses, 4) };
        let (first, second) = (play.at(0, 0, ALL), play.at(0, 1, ALL));
        play.access_by(0, first, &access);
        play.access_by(0, second, &Access { unchanged, ..access });
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn writes_of_two_iterations_are_two_instructions() {
    let mut play = Play::new(1, 1, 32);
    let addresses = [shared_address(0, 16); 32];
    for lane in 0..2 {
        let at = At { rank: 0, warp: 0, lanes: 1 << lane, pc: 7 };
        play.access_by(0, at, &plain(Space::Shared, Kind::Write, &addresses, 4));
    }
    assert_eq!(play.causes(), [RaceCause::UnorderedLanes]);
}

fn copy(play: &mut Play, warp: u32, to: u32) {
    let at = play.at(0, warp, ALL);
    let destinations = std::array::from_fn(|l| shared_address(0, to + l as u32 * 16));
    let sources = std::array::from_fn(|l| 0x1000 + l as u64 * 16);
    let copy = CopyAsync { destinations: &destinations, sources: &sources, size: 16, read: &[16; 32] };
    play.c().copy_async(at, &copy);
    let at = play.at(0, warp, ALL);
    play.c().copy_commit(at);
}

#[test]
fn copies_are_seen_after_their_group_is_waited_for() {
    for (pending, expected) in [(0, &[][..]), (1, &[RaceCause::NotWaited][..])] {
        let mut play = Play::new(1, 1, 32);
        copy(&mut play, 0, 0);
        copy(&mut play, 0, 512);
        let at = play.at(0, 0, ALL);
        play.c().copy_wait(at, pending);
        play.shared(Kind::Read, 0, ALL, 0, 16, 16);
        play.shared(Kind::Read, 0, ALL, 512, 16, 16);
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn a_copy_waited_for_by_its_lane_is_not_yet_its_neighbours() {
    for sync in [true, false] {
        let mut play = Play::new(1, 1, 32);
        copy(&mut play, 0, 0);
        let at = play.at(0, 0, ALL);
        play.c().copy_wait(at, 0);
        if sync {
            let at = play.at(0, 0, ALL);
            play.c().warp_sync(at);
        }
        let at = play.at(0, 0, ALL);
        let addresses = std::array::from_fn(|l| shared_address(0, l as u32 * 16));
        let access = Access { rows: Some(0xff), ..plain(Space::Shared, Kind::Read, &addresses, 16) };
        play.access_by(0, at, &access);
        let expected: &[_] = if sync { &[] } else { &[RaceCause::NotWaited] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn release_and_acquire_work_between_blocks_at_a_wide_enough_scope() {
    use Order::{Acquire, Release};
    for (scope, expected) in [(Scope::Gpu, &[][..]), (Scope::Block, &[RaceCause::NarrowScope, RaceCause::Unordered])] {
        let mut play = Play::new(2, 1, 32);
        play.global(0, Kind::Write, Order::Weak, scope, 1, 0x1000);
        play.global(0, Kind::Write, Release, scope, 1, 0x2000);
        play.global(1, Kind::Read, Acquire, scope, 1, 0x2000);
        play.global(1, Kind::Read, Order::Weak, scope, 1, 0x1000);
        let mut causes = play.causes();
        causes.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(causes, expected);
    }
}

/// A worker may be interrupted between a strong read and telling so; what it read may be overwritten meanwhile.
#[test]
fn what_was_overwritten_during_a_read_is_still_acquired_but_not_what_was_overwritten_before() {
    for during in [true, false] {
        let mut play = Play::new(3, 1, 32);
        play.global(0, Kind::Write, Order::Weak, Scope::Gpu, 1, 0x1000);
        play.global(0, Kind::Write, Order::Release, Scope::Gpu, 1, 0x2000);
        let at = play.at(0, 0, 1);
        let addresses = [0x2000; 32];
        let read =
            Access { order: Order::Acquire, scope: Scope::Gpu, ..plain(Space::Global, Kind::Read, &addresses, 4) };
        if during {
            play.clusters[1].access(at, &read);
        }
        play.global(2, Kind::Write, Order::Relaxed, Scope::Gpu, 1, 0x2000);
        if !during {
            play.clusters[1].access(at, &read);
        }
        play.clusters[1].observed(at, &read);
        play.global(1, Kind::Read, Order::Weak, Scope::Gpu, 1, 0x1000);
        let expected: &[RaceCause] = if during { &[] } else { &[RaceCause::Unordered] };
        assert_eq!(play.causes(), expected, "{during}");
    }
}

#[test]
fn fences_make_relaxed_atomics_synchronise() {
    for (before, after) in [(true, true), (true, false), (false, true)] {
        let mut play = Play::new(2, 1, 64);
        // Block 0: both warps write, barrier, lane 0 of warp 0 fences and counts.
        play.shared(Kind::Write, 1, ALL, 0, 4, 4);
        let at = play.at(0, 1, ALL);
        let addresses = std::array::from_fn(|l| 0x1000 + l as u64 * 4);
        play.access_by(0, at, &plain(Space::Global, Kind::Write, &addresses, 4));
        play.barrier(0, 0..2);
        if before {
            let at = play.at(0, 0, 1);
            play.clusters[0].fence(at, Scope::Gpu);
        }
        play.global(0, Kind::Atomic, Order::Relaxed, Scope::Gpu, 1, 0x2000);
        play.global(1, Kind::Atomic, Order::Relaxed, Scope::Gpu, 1, 0x2000);
        if after {
            let at = play.at(0, 0, 1);
            play.clusters[1].fence(at, Scope::Gpu);
        }
        play.global(1, Kind::Read, Order::Weak, Scope::Gpu, 1, 0x1004);
        let expected: &[_] = if before && after { &[] } else { &[RaceCause::Unordered] };
        assert_eq!(play.causes(), expected, "{before} {after}");
    }
}

#[test]
fn launches_are_ordered_unless_they_overlap() {
    let history = Arc::default();
    for (overlaps, waits, expected) in
        [(false, false, &[][..]), (true, true, &[]), (true, false, &[RaceCause::PreviousKernel])]
    {
        let mut first = Play::of(shape(1, 1, 32), &history);
        first.global(0, Kind::Write, Order::Weak, Scope::Gpu, 1, 0x1000);
        assert_eq!(first.causes(), []);
        let mut second = Play::of(LaunchShape { overlaps_previous: overlaps, ..shape(1, 1, 32) }, &history);
        if waits {
            let at = second.at(0, 0, 1);
            second.c().dependency_wait(at);
        }
        second.global(0, Kind::Read, Order::Weak, Scope::Gpu, 1, 0x1000);
        assert_eq!(second.causes(), expected);
    }
}

const FULL: u64 = shared_address(0, 0x8000);

fn init(play: &mut Play, address: u64, count: u32) {
    let at = play.at(0, 0, 1);
    play.c().mbarrier_init(at, &[address; 32], &[count; 32]);
    let at = play.at(0, 0, 1);
    play.c().mbarrier_init_fence(at);
    play.barrier(0, 0..2);
}

fn arrive(play: &mut Play, warp: u32, lanes: u32, address: u64, expect: u32) {
    let at = play.at(0, warp, lanes);
    let arrival = MbarrierArrival {
        addresses: &[address; 32],
        count: &[1; 32],
        expect: &[expect; 32],
        order: MbarrierOrder::Synchronises,
        drop: false,
    };
    play.c().mbarrier_arrive(at, &arrival);
}

fn wait(play: &mut Play, warp: u32, lanes: u32, address: u64) {
    let at = play.at(0, warp, lanes);
    play.c().mbarrier_waited(at, &[address; 32], MbarrierOrder::Synchronises);
}

/// A bulk load of 1 KiB to offset 0 by warp 0's first lane.
fn load(play: &mut Play) {
    let at = play.at(0, 0, 1);
    let to = [shared_address(0, 0)..shared_address(0, 1024)];
    let from = [0x10_0000..0x10_0400];
    let writes = [BulkWrite { bytes: Footprint { space: Space::Shared, ranges: &to }, mbarrier: Some(FULL) }];
    let reads = Footprint { space: Space::Global, ranges: &from };
    play.c().bulk(at, &Bulk { reads, writes: &writes, reduces: false, generic: false });
    play.c().mbarrier_transaction(FULL, 1024, at.pc);
}

#[test]
fn a_bulk_load_is_seen_by_whoever_waits_for_its_phase() {
    for waits in [true, false] {
        let mut play = Play::new(1, 1, 64);
        init(&mut play, FULL, 1);
        arrive(&mut play, 0, 1, FULL, 1024);
        load(&mut play);
        play.c().mbarrier_phase(FULL);
        wait(&mut play, 0, 1, FULL);
        if waits {
            wait(&mut play, 1, ALL, FULL);
        }
        play.shared(Kind::Read, 1, ALL, 0, 32, 16);
        play.c().block_end(0);
        let expected: &[_] = if waits { &[] } else { &[RaceCause::NotWaited] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn one_lane_may_release_a_stage_only_after_a_warp_sync() {
    for sync in [true, false] {
        const EMPTY: u64 = shared_address(0, 0x8008);
        let mut play = Play::new(1, 1, 64);
        init(&mut play, FULL, 1);
        init(&mut play, EMPTY, 1);
        arrive(&mut play, 0, 1, FULL, 1024);
        load(&mut play);
        play.c().mbarrier_phase(FULL);
        wait(&mut play, 1, ALL, FULL);
        play.shared(Kind::Read, 1, ALL, 0, 32, 16);
        if sync {
            let at = play.at(0, 1, ALL);
            play.c().warp_sync(at);
        }
        arrive(&mut play, 1, 1, EMPTY, 0);
        play.c().mbarrier_phase(EMPTY);
        wait(&mut play, 0, 1, EMPTY);
        arrive(&mut play, 0, 1, FULL, 1024);
        load(&mut play);
        play.c().mbarrier_phase(FULL);
        wait(&mut play, 0, 1, FULL);
        play.c().block_end(0);
        let expected: &[_] = if sync { &[] } else { &[RaceCause::Unordered] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn the_asynchronous_proxy_needs_its_fence() {
    for (fenced, expected) in [(true, &[][..]), (false, &[RaceCause::ProxyFence])] {
        let mut play = Play::new(1, 1, 64);
        play.shared(Kind::Write, 1, ALL, 0, 16, 16);
        if fenced {
            let at = play.at(0, 1, ALL);
            play.c().proxy_fence(at, ProxyFence::Shared);
        }
        play.barrier(1, 0..2);
        let at = play.at(0, 0, 1);
        let from = [shared_address(0, 0)..shared_address(0, 512)];
        let to = [0x1000..0x1200];
        let writes = [BulkWrite { bytes: Footprint { space: Space::Global, ranges: &to }, mbarrier: None }];
        let reads = Footprint { space: Space::Shared, ranges: &from };
        play.c().bulk(at, &Bulk { reads, writes: &writes, reduces: false, generic: false });
        let at = play.at(0, 0, 1);
        play.c().bulk_commit(at);
        let at = play.at(0, 0, 1);
        play.c().bulk_wait(at, 0, true);
        play.barrier(1, 0..2);
        play.shared(Kind::Write, 1, ALL, 0, 16, 16);
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn a_bulk_store_is_waited_for_before_its_source_is_overwritten_or_the_thread_exits() {
    let store = |play: &mut Play| {
        let at = play.at(0, 0, 1);
        let from = [shared_address(0, 0)..shared_address(0, 512)];
        let reads = Footprint { space: Space::Shared, ranges: &from };
        let to = [0x1000..0x1200];
        let writes = [BulkWrite { bytes: Footprint { space: Space::Global, ranges: &to }, mbarrier: None }];
        play.c().bulk(at, &Bulk { reads, writes: &writes, reduces: false, generic: false });
        let at = play.at(0, 0, 1);
        play.c().bulk_commit(at);
    };
    let mut play = Play::new(1, 1, 32);
    store(&mut play);
    play.shared(Kind::Write, 0, 1, 0, 16, 16);
    assert_eq!(play.causes(), [RaceCause::NotWaited]);
    let mut play = Play::new(1, 1, 32);
    store(&mut play);
    let at = play.at(0, 0, ALL);
    play.c().exit(at);
    assert_eq!(play.fault(), Fault::ExitBeforeBulkRead);
}

#[test]
fn wgmma_reads_until_it_is_waited_for() {
    for (pending, expected) in [(0, &[][..]), (1, &[RaceCause::NotWaited])] {
        let mut play = Play::new(1, 1, 128);
        for warp in 0..4 {
            let at = play.at(0, warp, ALL);
            play.c().wgmma(at, std::slice::from_ref(&(shared_address(0, 0)..shared_address(0, 2048))));
            play.c().wgmma_commit(at);
            play.c().wgmma_wait(at, pending);
        }
        play.shared(Kind::Write, 2, ALL, 0, 16, 16);
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn a_divergent_aligned_barrier_is_a_fault() {
    let mut play = Play::new(1, 1, 32);
    let at = play.at(0, 0, 0xff);
    let arrival = BarrierArrival { id: 0, threads: 32, waits: true, aligned: true };
    play.c().barrier_arrive(at, arrival);
    assert_eq!(play.fault(), Fault::DivergentBarrier { lanes: 0xff, expected: ALL });
}

#[test]
fn exited_lanes_are_not_expected_at_a_barrier() {
    let mut play = Play::new(1, 1, 32);
    let at = play.at(0, 0, 0xffff_0000);
    play.c().exit(at);
    let at = play.at(0, 0, 0xffff);
    let arrival = BarrierArrival { id: 0, threads: 32, waits: true, aligned: true };
    play.c().barrier_arrive(at, arrival);
    play.c().barrier_complete(0, 0);
    assert_eq!(play.end(), []);
}

#[test]
fn arrivals_and_bytes_are_counted() {
    let mut play = Play::new(1, 1, 64);
    init(&mut play, FULL, 1);
    arrive(&mut play, 0, 3, FULL, 0);
    assert_eq!(play.fault(), Fault::OverArrival { mbarrier: 0x8000, pending: 1, arrivals: 2 });
    let mut play = Play::new(1, 1, 64);
    init(&mut play, FULL, 1);
    arrive(&mut play, 0, 1, FULL, 2048);
    load(&mut play);
    play.c().block_end(0);
    assert_eq!(play.fault(), Fault::Transactions { mbarrier: 0x8000, missing: 1024 });
}

#[test]
fn a_load_that_nobody_waited_for_is_found_at_the_end() {
    let mut play = Play::new(1, 1, 64);
    init(&mut play, FULL, 1);
    arrive(&mut play, 0, 1, FULL, 1024);
    load(&mut play);
    play.c().mbarrier_phase(FULL);
    play.c().block_end(0);
    assert_eq!(play.fault(), Fault::ExitBeforeBulkLoad { mbarrier: 0x8000 });
}

#[test]
fn an_mbarrier_is_used_only_after_its_initialisation_is_ordered() {
    let mut play = Play::new(1, 1, 64);
    let at = play.at(0, 0, 1);
    play.c().mbarrier_init(at, &[FULL; 32], &[2; 32]);
    arrive(&mut play, 1, 1, FULL, 0);
    assert_eq!(play.causes(), [RaceCause::Unordered]);
    let mut play = Play::new(1, 1, 64);
    arrive(&mut play, 1, 1, FULL, 0);
    assert_eq!(play.fault(), Fault::NoMbarrier { mbarrier: 0x8000 });
}

#[test]
fn distributed_shared_memory_needs_the_cluster_barrier_at_both_ends() {
    let cluster_barrier = |play: &mut Play| {
        for rank in 0..2 {
            let at = play.at(rank, 0, ALL);
            play.c().cluster_arrive(at, MbarrierOrder::Synchronises, true);
        }
        play.c().cluster_complete();
        for rank in 0..2 {
            let at = play.at(rank, 0, ALL);
            play.c().cluster_wait(at);
        }
    };
    for (first, last) in [(true, true), (false, true), (true, false)] {
        let mut play = Play::new(1, 2, 32);
        if first {
            cluster_barrier(&mut play);
        }
        let at = play.at(0, 0, 1);
        play.access_by(0, at, &plain(Space::Shared, Kind::Write, &[shared_address(1, 0); 32], 4));
        if last {
            cluster_barrier(&mut play);
        }
        play.c().block_end(1);
        match (first, last) {
            (true, true) => assert_eq!(play.end(), []),
            (false, _) => assert_eq!(play.fault(), Fault::RemoteBeforeStart { rank: 1 }),
            (true, false) => assert_eq!(play.fault(), Fault::ExitBeforeRemote),
        }
    }
}

#[test]
fn a_report_names_both_sides() {
    let mut play = Play::new(1, 1, 64);
    play.shared(Kind::Write, 0, ALL, 0, 4, 4);
    play.shared(Kind::Read, 1, 2, 0, 4, 4);
    let findings = play.end();
    assert_eq!(
        findings[0].to_string(),
        "race, read after write, at shared+0x4: nothing orders the two
    first:  write by warp 0 lane 1 of block (0, 0, 0) at PTX line 101
    second: read by warp 1 lane 1 of block (0, 0, 0) at PTX line 102"
    );
}
