//! Tests of the detector with hand-written sequences of events: by threads alone (`threads`), and by copies, mbarriers
//! and `wgmma` (`engines`).

#![allow(clippy::single_range_in_vec_init)]

mod engines;
mod observation;
mod rows;
mod threads;

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

/// A launch whose events are written by hand. Every event has the next pc.
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
        same_values: false,
        registers: 0,
        tensor_memory: false,
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

    /// A plain access by warp `warp` of block 0: `size` bytes for each lane, lane `l` at `base + l * step`.
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

    /// A cluster barrier of two blocks of one warp.
    fn cluster_barrier(&mut self) {
        for rank in 0..2 {
            let at = self.at(rank, 0, ALL);
            self.c().cluster_arrive(at, MbarrierOrder::Synchronises, true);
        }
        self.c().cluster_complete();
        for rank in 0..2 {
            let at = self.at(rank, 0, ALL);
            self.c().cluster_wait(at);
        }
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
        element: size,
        kind,
        order: Order::Weak,
        scope: Scope::System,
        rows: None,
        same_value: None,
        unchanged: None,
        non_coherent: false,
        stale: 0,
    }
}
