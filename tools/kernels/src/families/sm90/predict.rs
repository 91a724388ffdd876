//! The time of a kernel on an H200.

use epilogue::gemm::sm90::{Cluster, Schedule, Sm90Key, Stream};
use epilogue::gemm::{Machine, SplitK};

use crate::predict::block::{self, Pace, Timeline};
use crate::predict::{Code, DRAIN, LAUNCH, Prediction, RELEASE, Stage, Subject, limiter};

/// Warpgroups that share a tile, and teams of them.
const fn teams(key: &Sm90Key) -> (usize, usize) {
    match key.tile.schedule {
        Schedule::Cooperative => (key.tile.consumers, 1),
        Schedule::PingPong => (1, key.tile.consumers),
    }
}

/// K-tiles of each tile of the slowest block; and clocks for the exchange of sums, by the model's constants.
fn tiles(machine: &Machine, s: &Subject, key: &Sm90Key, exchange: f64) -> (Vec<usize>, f64) {
    let constants = &machine.constants.sm90;
    let k_tiles = s.problem.k.div_ceil(key.instruction.tile_k());
    let units = usize::try_from(s.candidate.blocks).unwrap_or(usize::MAX) / key.cluster.blocks();
    let at_once = ((units as f64 / s.candidate.waves.max(f64::MIN_POSITIVE)).round() as usize).max(1);
    let whole = |count: usize, length: usize| vec![length; count];
    let waves = units.div_ceil(at_once);
    match s.candidate.split_k {
        SplitK::None => (whole(waves, k_tiles), 0.0),
        SplitK::Serial(n) => {
            (whole(waves, k_tiles.div_ceil(n)), 2.0 * exchange + constants.serial_turn * (n - 1) as f64)
        }
        SplitK::Parallel(n) => {
            (whole(waves, k_tiles.div_ceil(n)), (1.0 + n as f64) * exchange + constants.parallel_turn)
        }
        SplitK::Stream => {
            let stream = Stream::of(units, at_once, k_tiles);
            let share = (stream.streamed * stream.k_tiles).div_ceil(stream.clusters.max(1));
            let mut tiles = whole(usize::from(share > 0), share);
            tiles.extend(whole((stream.units - stream.streamed).div_ceil(stream.clusters.max(1)), k_tiles));
            let parts = if share == 0 { 0.0 } else { 1.0 + (k_tiles as f64 / share as f64).ceil() };
            (tiles, parts * exchange + constants.stream_turn)
        }
    }
}

/// Predicts a kernel's time on its GPU.
pub(super) fn predict(s: &Subject, key: &Sm90Key, code: &Code) -> Prediction {
    let machine = &s.machine;
    let constants = &machine.constants.sm90;
    let (warps, teams) = teams(key);
    let of_power = match key.instruction.sizes().0 {
        1 => constants.power_clock_8_bit * constants.short_clock_8_bit,
        _ => constants.headroom,
    };
    let clocks_per_us = (machine.clock * constants.busy_clock).min(machine.power_clock * of_power) * 1e3;
    // In clocks of a busy multiprocessor; the L2 and the memory have clocks of their own.
    let share = |gigabytes: f64| gigabytes / (machine.multiprocessors as f64 * machine.clock * constants.busy_clock);
    let l2_rate = share(machine.l2_gigabytes_per_second).min(machine.l2_port_bytes_per_clock);
    let memory_rate = machine.memory_bytes_per_clock / constants.busy_clock;

    let (p, cost) = (&s.problem, s.tree.cost());
    let (m, n, k) = (p.m as f64, p.n as f64, p.k as f64);
    let (of_a, of_b) = key.instruction.sizes();
    let elements = (key.result_tile().0 * key.result_tile().1) as f64;
    let (tiles, exchanged) = tiles(machine, s, key, 4.0 * elements / l2_rate);
    let stages_of_all =
        s.candidate.blocks as f64 * p.k.div_ceil(key.instruction.tile_k()) as f64 / s.candidate.split_k.splits() as f64;
    let moved = m * k * of_a as f64 + k * n * of_b as f64 + m * n * cost.bytes_per_element() as f64;
    let (along_rows, along_columns) = key.mma_cluster();
    let (rows, columns) = key.result_tile();
    let (rows, columns) = (Subject::inside(p.m, rows), Subject::inside(p.n, columns));
    let (rows, columns) = if key.swap_ab { (columns, rows) } else { (rows, columns) };
    let (rows, columns) = (rows * key.tile.rows as f64, columns * key.tile.columns as f64);
    let (of_row, of_column) = key.line_bytes();
    let l2_bytes = of_row as f64 * rows / along_columns as f64 + of_column as f64 * columns / along_rows as f64;
    let memory_bytes = moved / stages_of_all.max(1.0);
    let warpgroups = warps as f64;
    let macs = code.product.multiply_adds * code.turns * warpgroups;
    let stage = Stage {
        // A tensor core of each scheduler: 64 rows by 2 columns by the instruction's K in a clock.
        tensor: macs / rate(key) / constants.tensor_share,
        shared: code.product.product_bytes * code.turns * warpgroups / 128.0,
        issue: code.product.issue(warpgroups) * code.turns + code.producer.issue(1.0),
        l2: l2_bytes / l2_rate,
        memory: memory_bytes / memory_rate,
        l2_bytes,
        memory_bytes,
    };
    let mut product = stage.tensor.max(stage.shared).max(stage.issue);
    if key.pending == 0 {
        // A warpgroup's sums are complete before it goes on; only other warpgroups fill the tensor cores meanwhile.
        product = product.max(stage.tensor / warpgroups + code.product.alone);
    }
    let (work, limit) = code.tile.clocks(warpgroups);
    let read = elements * cost.bytes_read as f64 / l2_rate;
    let epilogue = if read > work { (read, "the L2") } else { (work, limit) };
    let clustered = if key.cluster == Cluster::NONE { 0.0 } else { constants.cluster_start };
    let timeline = block::run(&Pace {
        launch: LAUNCH,
        prologue: code.prologue.alone + clustered,
        latency: constants.latency,
        load: stage.l2.max(stage.memory),
        product,
        release: RELEASE,
        epilogue: epilogue.0,
        drain: exchanged + code.end.alone + DRAIN,
        restart: 0.0,
        stages: key.stages,
        teams,
        tiles,
    });
    let power = power(machine, s, key, &stage, macs, &timeline, clocks_per_us);
    let limiter = limiter(&timeline, &stage, epilogue.1, power > 0.0);
    Prediction { timeline, warps: warpgroups, teams, stage, epilogue, clocks_per_us, power, limiter }
}

/// Multiply-adds per clock of a multiprocessor (H100 whitepaper, table 3): as many rows of K as 32 bytes have, for each
/// of 128 elements.
fn rate(key: &Sm90Key) -> f64 {
    128.0 * 32.0 / key.instruction.sizes().0 as f64
}

/// By how many microseconds the power limit makes the products longer, as the model has it.
fn power(
    machine: &Machine,
    s: &Subject,
    key: &Sm90Key,
    stage: &Stage,
    macs: f64,
    timeline: &Timeline,
    clocks_per_us: f64,
) -> f64 {
    let constants = &machine.constants.sm90;
    let products = timeline.shares[3].1 / clocks_per_us;
    if timeline.clocks / clocks_per_us <= constants.power_after {
        return 0.0;
    }
    let of_tile = (key.tile.rows * key.tile.columns) as f64;
    let multiplied = s.candidate.blocks as f64 * of_tile * s.problem.k as f64 / s.candidate.split_k.splits() as f64;
    let clock = machine.power_clock * if key.instruction.sizes().0 == 1 { constants.power_clock_8_bit } else { 1.0 };
    let clock = clock.min(machine.clock);
    let shared_bytes = key.tile.rows as f64 / 64.0 * (64.0 + key.tile.columns as f64) * 128.0;
    let bytes = (stage.l2_bytes + constants.power_of_shared * shared_bytes) / macs.max(1.0);
    let least = multiplied / (rate(key) * machine.multiprocessors as f64 * clock * 1e3)
        * (1.0 + constants.power_of_bytes * bytes);
    (least - products).max(0.0)
}
