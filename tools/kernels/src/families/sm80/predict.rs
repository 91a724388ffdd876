//! The time of a kernel on an A100. A block is a tile, all of its warps load and multiply, and blocks share a
//! multiprocessor: the products of one run during the epilogue of another. Where there is room for one block only, each
//! tile begins with a block's start.

use epilogue::gemm::sm90::Stream;
use epilogue::gemm::{Sm80Key, SplitK};

use crate::predict::block::{self, Pace};
use crate::predict::{Code, DRAIN, LAUNCH, Prediction, RELEASE, Stage, Subject, limiter};

/// Multiply-adds of 16-bit types per clock of a multiprocessor (A100 whitepaper, table 3).
const RATE: f64 = 1024.0;

/// K-tiles of each tile of the busiest multiprocessor; and clocks for the exchange of sums, by the model's constants.
fn tiles(s: &Subject, key: &Sm80Key, together: usize, exchange: f64) -> (Vec<usize>, f64) {
    let constants = &s.machine.constants.sm80;
    let k_tiles = s.problem.k.div_ceil(key.tile.k);
    let blocks = usize::try_from(s.candidate.blocks).unwrap_or(usize::MAX);
    let of_multiprocessor = |blocks: usize| blocks.div_ceil(s.machine.multiprocessors);
    let whole = |splits: usize| vec![k_tiles.div_ceil(splits); of_multiprocessor(blocks)];
    match s.candidate.split_k {
        SplitK::None => (whole(1), 0.0),
        SplitK::Serial(n) => (whole(n), 2.0 * exchange + constants.serial_turn * (n - 1) as f64),
        SplitK::Parallel(n) => (whole(n), (1.0 + n as f64) * exchange + constants.handed_over),
        SplitK::Stream => {
            let stream = Stream::of(blocks, s.machine.multiprocessors * together, k_tiles);
            let share = (stream.streamed * stream.k_tiles).div_ceil(stream.clusters.max(1));
            let each = of_multiprocessor(stream.clusters);
            let mut tiles = vec![share; if share > 0 { each } else { 0 }];
            let more = (stream.units - stream.streamed).div_ceil(stream.clusters.max(1));
            tiles.extend(vec![k_tiles; more * each]);
            let parts = if share == 0 { 0.0 } else { 1.0 + (k_tiles as f64 / share as f64).ceil() };
            (tiles, parts * exchange + constants.handed_over)
        }
    }
}

pub(super) fn predict(s: &Subject, key: &Sm80Key, code: &Code) -> Prediction {
    let (machine, constants) = (&s.machine, &s.machine.constants.sm80);
    let clocks_per_us = machine.clock * 1e3;
    let share = machine.l2_gigabytes_per_second / (machine.multiprocessors as f64 * machine.clock);
    let l2_rate = share.min(machine.l2_port_bytes_per_clock);
    let memory_rate = machine.memory_bytes_per_clock;

    let (p, cost, tile) = (&s.problem, s.tree.cost(), &key.tile);
    let (m, n, k) = (p.m as f64, p.n as f64, p.k as f64);
    let (of_a, of_b) = key.instruction.sizes();
    let (of_a, of_b) = (of_a as f64, of_b as f64);
    let elements = (tile.m * tile.n) as f64;
    let all_warps = (tile.m / tile.warp_m * (tile.n / tile.warp_n)) as f64;
    let warps = all_warps / 4.0;
    let blocks = s.candidate.blocks as f64;
    let together = s.candidate.blocks_per_multiprocessor.min((blocks / machine.multiprocessors as f64).ceil() as usize);
    let (tiles, exchanged) = tiles(s, key, together.max(1), 4.0 * elements / l2_rate);

    let turns = code.turns;
    let stages_of_all = blocks * (k / tile.k as f64).ceil() / s.candidate.split_k.splits() as f64;
    let moved = m * k * of_a + k * n * of_b + m * n * cost.bytes_per_element() as f64;
    let (rows, columns) = (Subject::inside(p.m, tile.m), Subject::inside(p.n, tile.n));
    let l2_bytes = (rows * tile.m as f64 * of_a + columns * tile.n as f64 * of_b) * tile.k as f64;
    let memory_bytes = moved / stages_of_all.max(1.0);
    let macs = code.product.multiply_adds * turns * all_warps;
    let written = tile.stage_bytes(key.instruction) as f64;
    let stage = Stage {
        tensor: macs / RATE,
        shared: (code.product.shared_bytes * turns * all_warps + written) / 128.0,
        issue: code.product.issue(warps) * turns,
        l2: l2_bytes / l2_rate,
        memory: memory_bytes / memory_rate,
        l2_bytes,
        memory_bytes,
    };
    // A warp's own waits for fragments and barriers are hidden by other blocks only.
    let alone = code.product.alone * turns / together.max(1) as f64;
    let product = stage.tensor.max(stage.shared).max(stage.issue).max(alone);
    let (work, limit) = code.tile.clone().on_a100().clocks(warps);
    let through = elements * cost.bytes_per_element() as f64 / memory_rate;
    let epilogue = if through > work { (through, "memory") } else { (work, limit) };
    let timeline = block::run(&Pace {
        launch: LAUNCH,
        prologue: code.prologue.alone,
        latency: (constants.start - code.prologue.alone).max(0.0),
        load: stage.l2.max(stage.memory),
        product,
        release: RELEASE,
        epilogue: epilogue.0,
        drain: exchanged + code.end.alone + DRAIN,
        restart: if together > 1 { 0.0 } else { constants.start },
        stages: tile.stages * together.max(1),
        teams: together.max(1),
        tiles,
    });
    // The clock that the board's power allows on average.
    let multiplied = macs * stages_of_all;
    let least = multiplied / (RATE * machine.multiprocessors as f64 * machine.power_clock * 1e3);
    let power = (least - timeline.shares[3].1 / clocks_per_us).max(0.0);
    let limiter = limiter(&timeline, &stage, epilogue.1, power > 0.0);
    Prediction { timeline, warps, teams: together.max(1), stage, epilogue, clocks_per_us, power, limiter }
}
