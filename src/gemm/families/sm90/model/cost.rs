//! The analytic model of the sm_90a kernels.
//!
//! A stage takes the longest of three times: the tensor cores', the L2's and the latency of the ring. A block computes
//! its tiles one after another, with the epilogue after each product (cooperative) or during the next one's product
//! (ping-pong). The whole takes at least as long as the memory bandwidth and the board's power allow. Times are those of
//! launches that follow each other at once: the power limit holds.

use super::workload::Workload;
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm90::kernel::shared::{SharedMap, Traffic};
use crate::gemm::families::sm90::kernel::{Cluster, Schedule, Sm90Key, Stream, Units};
use crate::gemm::families::sm90::model::constants::Sm90Constants;
use crate::gemm::kernel::{SplitK, Within};
use crate::gemm::model::candidate::{Bound, Candidate};
use crate::gemm::model::machine::Machine;
use crate::gemm::model::repacking::Repacking;

/// Registers for addresses, counters and barriers of a consumer; and for the address and strides of an argument that is
/// accessed element by element. As counted in kernels that NVRTC 13.0 compiles.
const BASE_REGISTERS: usize = 38;
const DIRECT_REGISTERS: usize = 12;
/// Registers for each value of an element; the epilogue handles 8 elements at once.
const VALUE_REGISTERS: usize = 9;

/// Estimated registers per consumer thread: the accumulators, and the values of the 8 elements that the epilogue
/// handles at once.
fn registers(w: &Workload<'_>, key: &Sm90Key, traffic: &Traffic) -> usize {
    let e = w.tree.cost();
    let accumulators = key.tile.accumulator_registers() * if key.promoted { 2 } else { 1 };
    // A block's: of A's rows and of every B.
    let rows = if key.swap_ab { key.tile.columns / 4 } else { key.tile.warpgroup_rows() / 32 };
    let scales = if key.formats.are_scaled() { rows + key.accumulators } else { 0 };
    // Of converted operands: a k-tile's bytes, and two steps' 16 bits.
    let converted = if key.instruction.converts_b() { 16 * (key.tile.warpgroup_rows() / 64) } else { 0 };
    let direct = (e.loads + e.stores).saturating_sub(traffic.inputs.len() + traffic.outputs.len());
    let values = VALUE_REGISTERS * e.element_registers + DIRECT_REGISTERS * (direct + e.packed);
    accumulators + scales + converted + BASE_REGISTERS + values
}

/// The most multiprocessors of a group (GPC), in which all blocks of a cluster run (H100 whitepaper, "GH100": 9 TPCs of two).
const GROUP: usize = 18;

/// Clusters that run at once. Clusters of 4 blocks and more leave some multiprocessors of a group unused, and a group has room
/// for one of more than 8. 132 multiprocessors have room for 7 of these clusters, or 8 where all groups are large enough.
pub(crate) fn clusters_at_once(machine: &Machine, cluster: Cluster) -> usize {
    let at_once = match cluster.blocks() {
        blocks @ ..4 => machine.multiprocessors / blocks,
        blocks @ 4..=Cluster::MOST_PORTABLE => machine.multiprocessors * 10 / 11 / blocks,
        _ => machine.multiprocessors / GROUP,
    };
    at_once.max(1)
}

/// The way stream-K would cut the units.
pub(crate) fn stream(units: &Units, at_once: usize, k_tiles: usize) -> Option<Stream> {
    Some(Stream::of(usize::try_from(units.count()).ok()?, at_once, k_tiles))
}

/// Clocks in which a stage's weights are converted: what the schedulers issue for all warpgroups, or what one of them takes
/// with the latencies of its loads, conversions and products.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn conversion_clocks(constants: &Sm90Constants, key: &Sm90Key) -> f64 {
    // Of four schedulers, and of four elements in each of a warp's lanes.
    let issue = |rows: usize| key.instruction.conversion() * (rows * key.instruction.tile_k()) as f64 / (4.0 * 128.0);
    match key.instruction.converts_b() {
        true => issue(key.tile.rows).max(constants.conversion + issue(key.tile.warpgroup_rows())),
        false => 0.0,
    }
}

/// Clocks in which a stage's rows of A are copied by threads, if the kernel picks them.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn picking_clocks(constants: &Sm90Constants, key: &Sm90Key) -> f64 {
    let rows = if key.swap_ab { key.tile.columns } else { key.tile.rows };
    if key.reading.is_picked() { constants.pick * rows as f64 / 8.0 } else { 0.0 }
}

/// Clocks of one stage, what takes most of them, and the bytes per multiply-add, which cost power.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn stage_clocks(machine: &Machine, w: &Workload<'_>, key: &Sm90Key) -> (f64, Bound, f64) {
    let constants = &machine.constants.sm90;
    let (rows, columns) = (key.tile.rows as f64, key.tile.columns as f64);
    let (along_rows, along_columns) = key.mma_cluster();
    let work = rows * columns * key.instruction.tile_k() as f64;
    // An instruction of all the tensor cores' rows, or fewer, by n columns reads both operands from shared memory in n / 2
    // clocks. (What is converted, lanes read: half as many bytes, at half the rate.)
    let at_once = key.cores.rows(&key.tile) as f64;
    let shared_rate = 32.0 * (at_once + columns) / (columns / 2.0);
    // One addition for each accumulator, of which a multiprocessor does 128 per clock.
    let promotion = if key.promoted { constants.promotion_share * rows * columns / 128.0 } else { 0.0 };
    let tensor_share = constants.tensor_share * key.cores.share(&key.tile);
    let tensor = work / key.instruction.rate(&machine.rates) / tensor_share + promotion;
    let shared = tensor * shared_rate / 128.0;
    // Nothing is read outside of the operands.
    let (m, n) = (w.problem.m.max(1), w.problem.n.max(1));
    let (m, n) = if key.swap_ab { (n, m) } else { (m, n) };
    let inside =
        |extent: usize, tile: usize, all: usize| extent as f64 / extent.div_ceil(tile) as f64 * (all / tile) as f64;
    let (result_rows, result_columns) = key.result_tile();
    let read_rows = inside(m, result_rows, key.tile.rows);
    let read_columns = inside(n, result_columns, key.tile.columns);
    let (of_row, of_column) = key.line_bytes();
    let l2_bytes =
        of_row as f64 * read_rows / along_columns as f64 + of_column as f64 * read_columns / along_rows as f64;
    let l2 = l2_bytes * constants.busy_clock / machine.l2_bytes_per_clock();
    let latency = constants.latency / key.stages as f64;
    let (conversion, picking) = (conversion_clocks(constants, key), picking_clocks(constants, key));
    let fence = if key.reading.is_picked() { constants.pick_fence } else { 0.0 };
    let longest = tensor.max(shared).max(l2).max(latency).max(conversion).max(picking);
    let bound = if tensor >= longest || conversion >= longest {
        Bound::Arithmetic
    } else if shared >= longest {
        Bound::SharedMemory
    } else {
        Bound::L2
    };
    let shared_bytes = rows / at_once * (at_once + columns) * 128.0;
    (longest + fence, bound, (l2_bytes + constants.power_of_shared * shared_bytes) / work)
}

/// Clocks of a tile's epilogue.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn epilogue_clocks(constants: &Sm90Constants, w: &Workload<'_>, key: &Sm90Key, traffic: &Traffic) -> f64 {
    let e = w.tree.cost();
    let (rows, columns) = key.result_tile();
    let elements = (rows * columns) as f64;
    let narrow = w.tree.outputs().iter().all(|output| output.element.size() <= 2);
    let costly = if narrow || key.fast_math { constants.short_function } else { constants.function };
    let operations = constants.element * (1 + e.later_sweeps) as f64
        + e.simple_operations as f64
        + costly * e.costly_operations as f64;
    let reductions = constants.row_reduction * e.row_reductions as f64
        + constants.column_reduction * e.column_reductions as f64
        + constants.all_reduction * e.all_reductions as f64;
    let staged: usize = traffic.inputs.iter().chain(&traffic.outputs).map(|(_, element)| 2 * element.size()).sum();
    // What tensor copies can't reach is accessed in small pieces.
    let copied = traffic.inputs.len() + traffic.outputs.len();
    let direct = (e.loads + e.stores).saturating_sub(copied) as f64 * constants.direct;
    let steps = elements / (64.0 * key.staging.step as f64 * key.tile.consumers as f64);
    let exchanges = if key.within() == Some(Within::Cluster) {
        exchange_clocks(constants, e.later_sweeps, key, traffic)
    } else {
        0.0
    };
    let reduces = e.row_reductions + e.column_reductions + e.all_reductions > 0;
    let complete = if reduces { constants.complete } else { 0.0 };
    // A single warpgroup does not keep the arithmetic units busy.
    let share =
        if key.tile.schedule == Schedule::PingPong || key.tile.consumers == 1 { constants.lone_share } else { 1.0 };
    elements * (operations + reductions + direct) / (128.0 * share)
        + elements * staged as f64 / 128.0
        + steps * constants.step
        + complete
        + exchanges
}

/// Clocks in which a cluster's blocks exchange their parts of a tile's lines. They do so for every block of 64 MMA rows
/// and every sweep but the last. A multiprocessor sends 32 bytes a clock.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn exchange_clocks(constants: &Sm90Constants, sweeps: usize, key: &Sm90Key, traffic: &Traffic) -> f64 {
    let (rows, _) = key.result_tile();
    let blocks = key.tile.warpgroup_rows() / if key.swap_ab { 64 * key.accumulators } else { 64 };
    let sent = 4 * traffic.exchanged * rows * (key.mma_cluster().1 - 1);
    sweeps as f64 * (blocks as f64 * constants.exchange + sent as f64 / 32.0)
}

/// Clocks of the slowest multiprocessor.
struct Clocks {
    /// Clocks in which A and B are loaded, with the epilogues during or between the products.
    product: f64,
    /// Clocks in which no memory traffic is waited for but the exchange of parts: the start and, if K is shared, the
    /// exchange and the last epilogue.
    outside: f64,
    /// Whether the epilogues take more clocks than the products.
    mostly_epilogue: bool,
}

#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn run_clocks(
    machine: &Machine,
    w: &Workload<'_>,
    key: &Sm90Key,
    split_k: SplitK,
    stage: f64,
    traffic: &Traffic,
) -> Clocks {
    let constants = &machine.constants.sm90;
    let splits = split_k.splits();
    let units = w.units(key, splits);
    let at_once = clusters_at_once(machine, key.cluster);
    let k_tiles = w.problem.k.div_ceil(key.instruction.tile_k());
    let exchange = (key.tile.rows * key.tile.columns * 4) as f64 * constants.busy_clock / machine.l2_bytes_per_clock();
    let last_epilogue = epilogue_clocks(constants, w, key, traffic);
    let shared = match split_k {
        SplitK::None | SplitK::Stream => 0.0,
        SplitK::Serial(n) => 2.0 * exchange + constants.serial_turn * (n - 1) as f64,
        SplitK::Parallel(n) => (1.0 + n as f64) * exchange + constants.parallel_turn,
    };
    let epilogue = last_epilogue / splits as f64 + shared;
    let waves = units.count().div_ceil(at_once as u128) as f64;
    let (blocks, tiles, cut) = match stream(&units, at_once, k_tiles).filter(|_| split_k == SplitK::Stream) {
        Some(s) if s.streamed > 0 => {
            let share = (s.streamed * s.k_tiles) as f64 / s.clusters as f64;
            let whole = (s.units - s.streamed).div_ceil(s.clusters) as f64 * s.k_tiles as f64;
            // A part is stored, and the cluster that finishes the unit reads the parts before its own.
            let parts = 1.0 + (s.k_tiles as f64 / share).ceil();
            (share + whole, s.units.div_ceil(s.clusters) as f64, exchange * parts + constants.stream_turn)
        }
        _ => (waves * k_tiles.div_ceil(splits).max(1) as f64, waves, 0.0),
    };
    let (product, epilogues) = (blocks * stage * w.needed, tiles * epilogue);
    let all = match key.tile.schedule {
        Schedule::Cooperative if !key.cores.overlap_epilogues() => product + epilogues,
        // Two tiles are in work: the epilogue of one runs during the product of the other.
        _ if tiles > 1.0 => product.max(epilogues) + product.min(epilogues) / tiles,
        _ => product + epilogue,
    };
    // When the last tile's sum is complete and its epilogue begins, all operands have long arrived.
    let last = if split_k == SplitK::None { 0.0 } else { (shared + last_epilogue / splits as f64).min(all) };
    let clustered = if key.cluster == Cluster::NONE { 0.0 } else { constants.cluster_start };
    let numbers = if key.reading.is_picked() { constants.pick_start } else { 0.0 };
    Clocks {
        product: all - last,
        outside: constants.start + clustered + numbers + cut + last,
        mostly_epilogue: epilogues > product,
    }
}

/// The model's estimates for one kernel, whether or not it is emitted; `split_k` must be of the key's kind.
#[must_use]
pub fn estimate(machine: &Machine, w: &Workload<'_>, key: &Sm90Key, split_k: SplitK) -> Candidate {
    predict(machine, w, key, split_k, &Traffic::of(w.tree, key.direct))
}

/// The candidate for a kernel, with the model's estimates.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
pub(crate) fn predict(
    machine: &Machine,
    w: &Workload<'_>,
    key: &Sm90Key,
    split_k: SplitK,
    traffic: &Traffic,
) -> Candidate {
    let (p, e, constants) = (&w.problem, w.tree.cost(), &machine.constants.sm90);
    let splits = split_k.splits();
    let (count, per_cluster) = (w.units(key, splits).count(), key.cluster.blocks());
    let (stage, mut bound, bytes_per_work) = stage_clocks(machine, w, key);
    let clocks = run_clocks(machine, w, key, split_k, stage, traffic);
    if clocks.mostly_epilogue {
        bound = Bound::Epilogue;
    }
    let boost = machine.clock * 1e3; // clocks in a microsecond
    let (m, n, k, l) = (p.m as f64, p.n as f64, p.k as f64, p.batch as f64);
    let (a_size, b_size) = w.instruction.sizes();
    let sums = if splits > 1 { e.products() as f64 * m * n * 8.0 * splits as f64 } else { 0.0 };
    let all_b = e.products() as f64 * k * n;
    // Patches overlap: memory has each element of the images once.
    let of_a = p.images().map_or(m * k, |elements| elements as f64);
    let stored = l * m * n * e.bytes_written as f64;
    let read = l * (of_a * a_size as f64 + all_b * b_size as f64 + m * n * e.bytes_read as f64 + sums);
    let memory_rate = machine.memory_bytes_per_clock * machine.multiprocessors as f64 * boost;
    let (memory, stores) = ((read + stored) / memory_rate, stored / memory_rate);
    // Bytes moved on the chip cost power; this also breaks ties.
    let on_chip = clocks.product * (1.0 + constants.power_of_bytes * bytes_per_work);
    let rate = w.instruction.rate(&machine.rates);
    let (of_16_bit, headroom, short) = match a_size {
        1 => (constants.power_clock_8_bit, constants.headroom_8_bit, constants.short_clock_8_bit),
        _ => (1.0, constants.headroom, constants.headroom),
    };
    let allowed = machine.power_clock * of_16_bit * 1e3;
    let highest = boost * constants.busy_clock;
    // How many times longer the chip takes at a share of the allowed clock.
    let longer = |share: f64| (highest / (allowed * share)).max(1.0);
    let fastest = on_chip / highest;
    // No kernel is faster, so all kernels of a product are judged alike. A chip that waits for memory takes less power.
    let least = l * m * n * k * e.products() as f64 * w.needed
        / (rate * machine.multiprocessors as f64 * highest * constants.tensor_share);
    let loaded = (least / memory.max(f64::MIN_POSITIVE)).min(1.0);
    let longer_here = 1.0 + (longer(short) - 1.0) * loaded;
    let outside = clocks.outside / highest * longer_here;
    // The tensor cores multiply whole tiles.
    let multiplied =
        count as f64 * (per_cluster * key.tile.rows * key.tile.columns) as f64 * k * w.needed / splits as f64;
    let power = multiplied / (rate * machine.multiprocessors as f64 * allowed.min(boost));
    let waves = count as f64 / clusters_at_once(machine, key.cluster) as f64;
    let tail = if split_k == SplitK::Stream { 0.0 } else { waves.ceil() / waves.max(f64::MIN_POSITIVE) - 1.0 };
    let power = power * (1.0 + constants.power_of_bytes * bytes_per_work) * (1.0 + constants.idle_power * tail);
    let mut microseconds = fastest * longer_here;
    if least > constants.power_after {
        microseconds = (fastest * longer(headroom)).max(power);
    }
    if memory > microseconds {
        bound = Bound::Memory;
    }
    // The smaller of the two times is never completely hidden, stores least.
    let hidden = microseconds.min(memory);
    microseconds = microseconds.max(memory)
        + constants.overlap * (hidden - stores).max(0.0)
        + constants.store_overlap * hidden.min(stores)
        + outside;
    Candidate {
        key: KernelKey::Sm90(*key),
        split_k,
        registers: registers(w, key, traffic),
        shared_bytes: SharedMap::of(key, traffic).bytes(),
        blocks_per_multiprocessor: 1,
        blocks: count * per_cluster as u128,
        repacking: Repacking::default(),
        waves,
        microseconds,
        bound,
    }
}
