//! Asynchronous work: copies, mbarriers, products.

use super::*;

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
    let order = MbarrierOrder::Synchronises;
    play.c()
        .mbarrier_waited(at, &MbarrierWait { addresses: &[address; 32], order, scope: Scope::Cluster, parity: true });
}

/// A bulk load of 1 KiB to offset 0 by warp 0's first lane.
fn load(play: &mut Play) {
    load_by(play, 0);
}

/// A bulk load of 1 KiB to offset 0 of block 0, issued by the block of this rank.
fn load_by(play: &mut Play, rank: u32) {
    let at = play.at(rank, 0, 1);
    let to = [shared_address(0, 0)..shared_address(0, 1024)];
    let from = [0x10_0000..0x10_0400];
    let writes = [BulkWrite { bytes: Footprint { space: Space::Shared, ranges: &to }, mbarrier: Some(FULL) }];
    let reads = Footprint { space: Space::Global, ranges: &from };
    play.c().bulk(at, &Bulk { reads, writes: &writes, reduces: false, generic: false, map: None });
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
        let findings = play.end();
        if sync {
            assert_eq!(findings, []);
            continue;
        }
        // The other lanes may read too late, and look for the phase too late.
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(matches!(&findings[0], Finding::Race(race) if race.cause == RaceCause::Unordered));
        assert!(matches!(&findings[1], Finding::Fault { fault: Fault::PhaseOverrun { mbarrier: 0x8000 }, .. }));
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
        play.c().bulk(at, &Bulk { reads, writes: &writes, reduces: false, generic: false, map: None });
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
        play.c().bulk(at, &Bulk { reads, writes: &writes, reduces: false, generic: false, map: None });
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

/// Strictly, `mbarrier.init` is a generic write. A fence that compilers leave out within the own block is not reported.
#[test]
fn an_mbarrier_is_fenced_before_copies_of_other_blocks() {
    for (issuer, fenced) in [(0, false), (1, true), (1, false)] {
        let mut play = Play::new(1, 2, 32);
        let at = play.at(0, 0, 1);
        play.c().mbarrier_init(at, &[FULL; 32], &[1; 32]);
        if fenced {
            let at = play.at(0, 0, 1);
            play.c().mbarrier_init_fence(at);
        }
        play.cluster_barrier();
        arrive(&mut play, 0, 1, FULL, 1024);
        load_by(&mut play, issuer);
        play.c().mbarrier_phase(FULL);
        wait(&mut play, 0, 1, FULL);
        let expected: &[_] = if issuer == 0 || fenced { &[] } else { &[RaceCause::ProxyFence] };
        assert_eq!(play.causes(), expected);
    }
}

#[test]
fn a_product_without_its_fence_is_a_fault() {
    let mut play = Play::new(1, 1, 128);
    let at = play.at(0, 0, ALL);
    play.c().wgmma_unfenced(at);
    assert_eq!(play.fault(), Fault::WgmmaFence);
}

/// One thread arrives, and all threads wait. If they then wait for the next phase, the arriving thread knows only about
/// those with which it has synchronised.
#[test]
fn nobody_misses_a_phase_of_an_mbarrier() {
    for (everybody_waits, meets) in [(true, true), (false, true), (true, false)] {
        let mut play = Play::new(1, 1, 64);
        init(&mut play, FULL, 1);
        for turn in 0..3 {
            arrive(&mut play, 0, 1, FULL, 0);
            play.c().mbarrier_phase(FULL);
            wait(&mut play, 0, 1, FULL);
            if everybody_waits || turn != 1 {
                wait(&mut play, 1, ALL, FULL);
            }
            if meets && (everybody_waits || turn != 1) {
                play.barrier(0, 0..2);
            }
        }
        let findings = play.end();
        let faults: Vec<_> = findings
            .iter()
            .map(|finding| match finding {
                Finding::Fault { fault, warp, .. } => (fault.clone(), *warp),
                Finding::Race(_) => panic!("unexpected: {finding}"),
            })
            .collect();
        let mbarrier = 0x8000;
        match (everybody_waits, meets) {
            (true, true) => assert_eq!(faults, []),
            (false, _) => assert_eq!(faults, [(Fault::PhaseUnknown { mbarrier }, Some(1))]),
            (_, false) => assert!(faults.contains(&(Fault::PhaseOverrun { mbarrier }, Some(1))), "{faults:?}"),
        }
    }
}
