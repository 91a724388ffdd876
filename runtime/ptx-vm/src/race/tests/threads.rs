//! Threads: their accesses, barriers, fences, clusters and launches.

use super::*;

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
    for (is_unchanged, expected) in [(true, &[][..]), (false, &[RaceCause::Unordered][..])] {
        let unchanged = |_: u32| is_unchanged;
        let mut play = Play::new(1, 2, 32);
        let addresses = [shared_address(0, 16); 32];
        let same = |_: u32, _: u32| true;
        let access = Access { same_value: Some(&same), ..plain(Space::Shared, Kind::Write, &addresses, 4) };
        let (first, second) = (play.at(0, 0, ALL), play.at(0, 1, ALL));
        play.access_by(0, first, &access);
        play.access_by(0, second, &Access { unchanged: Some(&unchanged), ..access });
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

/// A worker may be interrupted between a strong read and its report. Meanwhile the value that was read may be
/// overwritten.
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
fn distributed_shared_memory_needs_the_cluster_barrier_at_both_ends() {
    for (first, last) in [(true, true), (false, true), (true, false)] {
        let mut play = Play::new(1, 2, 32);
        if first {
            play.cluster_barrier();
        }
        let at = play.at(0, 0, 1);
        play.access_by(0, at, &plain(Space::Shared, Kind::Write, &[shared_address(1, 0); 32], 4));
        if last {
            play.cluster_barrier();
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
fn a_barrier_is_used_by_others_only_after_its_last_use_is_known_to_be_over() {
    for ordered in [true, false] {
        let mut play = Play::new(1, 1, 128);
        play.barrier(1, 0..2);
        if ordered {
            play.barrier(0, 0..4);
        }
        play.barrier(1, 2..4);
        if ordered {
            assert_eq!(play.end(), []);
        } else {
            let findings = play.end();
            let is_reuse = |f: &Finding| matches!(f, Finding::Fault { fault: Fault::BarrierReused { id: 1, .. }, .. });
            assert!(findings.len() == 2 && findings.iter().all(is_reuse), "{findings:?}");
        }
    }
}

/// Producers arrive at one barrier and consumers wait there; at another barrier it is the other way round.
#[test]
fn an_arrival_may_come_after_what_its_own_barrier_was_used_for() {
    for waits in [true, false] {
        let mut play = Play::new(1, 1, 64);
        for _ in 0..3 {
            for (id, waiting) in [(1, 1), (2, 0)] {
                for warp in 0..2 {
                    let at = play.at(0, warp, ALL);
                    let waits = warp == waiting && (id == 1 || waits);
                    let arrival = BarrierArrival { id, threads: 64, waits, aligned: true };
                    play.c().barrier_arrive(at, arrival);
                }
                play.c().barrier_complete(0, id);
            }
        }
        let findings = play.end();
        let is_reuse = |f: &Finding| {
            matches!(f, Finding::Fault { fault: Fault::BarrierReused { earlier: 1, .. }, warp: Some(0), .. })
        };
        assert_eq!(findings.is_empty(), waits, "{findings:?}");
        assert!(findings.iter().all(is_reuse), "{findings:?}");
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
