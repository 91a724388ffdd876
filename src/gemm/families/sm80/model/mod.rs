//! The analytic model of the kernels for sm_80 and later.
//!
//! It predicts the time of the *fused* kernel. A block's registers and shared memory
//! decide how many blocks run at once; the work and the bytes of the product and the epilogue decide how long a wave
//! of them takes. The model only has to rank kernels correctly; its microseconds are estimates.

pub(crate) mod asked;
pub(crate) mod constants;
pub(crate) mod workload;

use self::constants::Sm80Constants;
pub use self::workload::Workload;
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm80::kernel::{Instruction, Sm80Key, Tile};
use crate::gemm::kernel::stream::Stream;
use crate::gemm::kernel::{ReadingShape, SplitK, SplitKind};
use crate::gemm::model::candidate::{Bound, Candidate, STREAMED_WAVES};
use crate::gemm::model::machine::{Machine, RESERVED_SHARED};
use crate::gemm::model::misfit::Misfit;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::problem::sliding::MOST_AXES;
use crate::gemm::problem::{Major, OperandLayout, Problem};

/// Registers for addresses, loop counters and so on, as counted in kernels that NVRTC 13.0 compiles.
const BASE_REGISTERS: usize = 44;
/// The most registers that a thread can have.
const MAX_REGISTERS: usize = 255;
/// Above this many registers, an epilogue handles fewer columns at once, so that more blocks run on a multiprocessor.
const COMFORTABLE_REGISTERS: usize = 168;
/// The most static shared memory of a kernel.
const MAX_STATIC_SHARED: usize = 48 * 1024;

/// All kernels that fit, best first by the model.
///
/// # Errors
/// Why the last (smallest) tile doesn't fit, if none fits.
pub fn rank(machine: &Machine, workload: &Workload<'_>) -> Result<Vec<Candidate>, Misfit> {
    let mut candidates = Vec::new();
    let mut misfit = None;
    for tile in Tile::all(workload.instruction) {
        match resources(machine, workload, *tile) {
            Ok(resources) => {
                for split_k in splits(machine, workload, *tile, &resources) {
                    candidates.push(predict(machine, workload, *tile, split_k, &resources));
                }
            }
            // Of tiles that are too narrow, the widest says it best.
            Err(why) if why.is_narrower(misfit.as_ref()) => {}
            Err(why) => misfit = Some(why),
        }
    }
    // A thread without enough registers spills values to memory: such kernels are used only if there are no others.
    let (roomy, crowded): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|c| !is_crowded(&c.key));
    let mut candidates = if roomy.is_empty() { crowded } else { roomy };
    candidates.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    match misfit {
        Some(why) if candidates.is_empty() => Err(why),
        _ => Ok(candidates),
    }
}

/// All kernels of several workloads that fit, best first by the model: of one product, with several instructions.
///
/// # Errors
/// Why the last tile of the last workload doesn't fit, if none fits.
pub fn rank_all<'a>(
    machine: &Machine,
    workloads: impl Iterator<Item = Workload<'a>>,
) -> Result<Vec<Candidate>, Misfit> {
    let (mut all, mut misfit) = (Vec::new(), None);
    for workload in workloads {
        match rank(machine, &workload) {
            Ok(candidates) => all.extend(candidates),
            Err(why) => misfit = Some(why),
        }
    }
    all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    match misfit {
        Some(why) if all.is_empty() => Err(why),
        _ => Ok(all),
    }
}

/// From this many elements of a stage on that a thread copies one by one, each through a register, a kernel spills.
const CROWDED_ELEMENTS: usize = 96;

/// Whether a kernel for sm_80 and later spills registers with any epilogue. It does if it copies too many elements one
/// by one. With the largest number of accumulators, it also does with any of these:
///
/// - serial split-K, or parallel split-K of integers;
/// - copies of single elements, or of less than 16 bytes if K is split;
/// - stream-K of 8-bit operands, or of operands that are contiguous along M and N;
/// - deep k-tiles if an operand is not contiguous along K, if operands are rounded, or if K is split;
/// - picked rows, whose numbers take registers, if K is split or a tile has more than 128 of them. Shallow k-tiles of
///   operands that are contiguous along K are an exception.
///
/// With half as many, stream-K of FP8 does
/// in deep k-tiles that lie along K and are copied by less than 16 bytes. As seen in the kernels that NVRTC 13.0 compiles.
#[must_use]
pub fn is_crowded(key: &KernelKey) -> bool {
    let KernelKey::Sm80(key) = key else { return false };
    let (of_a, of_b) = key.instruction.sizes();
    let copied = key.a.copy_bytes.min(key.b.copy_bytes);
    let single = key.a.copy_bytes <= of_a || key.b.copy_bytes <= of_b;
    let narrow = single || (copied < 16 && key.split_k != SplitKind::None);
    let (warps_m, warps_n) = key.tile.warps();
    let singles = |operand: OperandLayout, size: usize, extent: usize| {
        if operand.copy_bytes <= size && size < 4 { extent * key.tile.k / (warps_m * warps_n * 32) } else { 0 }
    };
    let many = singles(key.a, of_a, key.tile.m) + singles(key.b, of_b, key.tile.n) >= CROWDED_ELEMENTS;
    let full = key.tile.accumulator_registers(key.instruction.accumulator()) >= 128;
    let integers = matches!(key.instruction, Instruction::MmaInt8(_)) && key.split_k == SplitKind::Parallel;
    let across = (key.a.major, key.b.major) == (Major::Mn, Major::Mn);
    let streamed = key.split_k == SplitKind::Stream && (of_b == 1 || across);
    let along = (key.a.major, key.b.major) == (Major::K, Major::K);
    let rounded = key.instruction == Instruction::MmaFastBf16;
    let deep = key.tile.k * of_a >= 128 && (!along || rounded || key.split_k != SplitKind::None);
    let tall = key.tile.m > 128 && (!along || key.tile.k * of_a >= 128);
    let numbers = key.reading.is_picked() && (tall || key.split_k != SplitKind::None);
    let half = key.tile.accumulator_registers(key.instruction.accumulator()) >= 64;
    let fp8 = matches!(key.instruction, Instruction::MmaFp8(_)) && key.split_k == SplitKind::Stream;
    let converted = fp8 && half && along && copied < 16 && key.tile.k >= 128;
    let split = streamed || key.split_k == SplitKind::Serial;
    many || converted || (full && (narrow || integers || split || deep || numbers))
}

/// The model's estimates for one kernel.
///
/// # Errors
/// [`Misfit`] if the tile and the epilogue together don't fit.
pub fn estimate(machine: &Machine, workload: &Workload<'_>, tile: Tile, split_k: SplitK) -> Result<Candidate, Misfit> {
    Ok(predict(machine, workload, tile, split_k, &resources(machine, workload, tile)?))
}

struct Resources {
    vector: usize,
    epilogue_passes: usize,
    registers: usize,
    spilled: usize,
    shared_bytes: usize,
    blocks_per_multiprocessor: usize,
}

impl Resources {
    /// Blocks that the GPU can run at once.
    const fn at_once(&self, machine: &Machine) -> usize {
        machine.multiprocessors * self.blocks_per_multiprocessor
    }
}

/// A block's needs, and how many blocks fit on a multiprocessor.
fn resources(machine: &Machine, workload: &Workload<'_>, tile: Tile) -> Result<Resources, Misfit> {
    let (instruction, epilogue) = (workload.instruction, workload.epilogue);
    let accumulators = epilogue.products();
    if !tile.has_room(accumulators, instruction, workload.b.major) {
        return Err(Misfit::Accumulators { tile: tile.to_string(), accumulators });
    }
    if let Some(format) = workload.problem.formats.quantization() {
        return Err(Misfit::Weights { tile: tile.to_string(), format });
    }
    if workload.problem.formats.are_scaled() && !tile.takes_scales(accumulators) {
        return Err(Misfit::Scales { tile: tile.to_string(), accumulators });
    }
    let accumulator = instruction.accumulator();
    let size = accumulator.size();
    let (warps_m, warps_n) = tile.warps();
    let columns = tile.product_columns(accumulators);
    let epilogue_passes = tile.epilogue_passes(accumulator, tile.stages * tile.stage_bytes(instruction));
    if let Some(lines) = workload.lines {
        let Problem { m, n, .. } = workload.problem;
        if lines.rows && n > columns {
            return Err(Misfit::Rows { columns: n, most: columns });
        }
        if lines.columns && m > tile.m {
            return Err(Misfit::Columns { rows: m, most: tile.m });
        }
        if epilogue_passes > 1 {
            return Err(Misfit::Passes { tile: tile.to_string() });
        }
    }

    let dynamic = tile.shared_bytes(instruction);
    let reductions = size
        * (epilogue.row_reductions * warps_n * tile.m
            + epilogue.column_reductions * warps_m * columns
            + epilogue.all_reductions * warps_m * warps_n);
    let has_rows = workload.problem.reading.patches().is_some() && workload.a.major == Major::K;
    let rows = if has_rows { Sm80Key::patch_row_bytes(tile.m) } else { 0 };
    let shared_bytes = dynamic + reductions + rows + 32;
    let misfit = |needed, limit| Misfit::SharedMemory { tile: tile.to_string(), needed, limit };
    if shared_bytes > machine.shared_per_block {
        return Err(misfit(shared_bytes, machine.shared_per_block));
    }
    if reductions + rows + 32 > MAX_STATIC_SHARED {
        return Err(misfit(reductions + rows + 32, MAX_STATIC_SHARED));
    }

    // The accumulators are no longer needed when the epilogue's values are computed, so only the larger of the two
    // counts.
    let (of_a, of_b) = instruction.sizes();
    let fragments = (tile.warp_m * of_a + tile.warp_n * of_b) / 8;
    let row_numbers = if workload.problem.reading.is_picked() { tile.rows_of_thread(of_a) } else { 0 };
    let own = tile.accumulator_registers(accumulator);
    // A second set, and a block's scales.
    let scaled = match workload.problem.formats.are_scaled() {
        true => own + tile.warp_m / 8 + accumulators,
        false if instruction.is_promoted() => own,
        false => 0,
    };
    let product = BASE_REGISTERS + own + scaled + fragments + row_numbers;
    let epilogue_registers = |vector: usize| {
        let per_column = epilogue.element_registers
            + epilogue.row_vector_registers
            + epilogue.column_reductions * size / 4
            + epilogue.loads * 2;
        BASE_REGISTERS + vector * per_column + epilogue.scalar_registers + epilogue.column_vector_registers
    };
    let narrowest = (columns / warps_n / 32).max(1); // a row has at most 32 lanes
    let mut vector = 16 / size;
    while vector / 2 >= narrowest && epilogue_registers(vector) > COMFORTABLE_REGISTERS {
        vector /= 2;
    }
    let wanted = product.max(epilogue_registers(vector));
    let registers = wanted.next_multiple_of(8).min(MAX_REGISTERS);
    let spilled = wanted.saturating_sub(MAX_REGISTERS);

    let threads = tile.threads();
    let by_registers = machine.registers / (registers.next_multiple_of(8) * threads);
    let by_shared = machine.shared / (shared_bytes + RESERVED_SHARED);
    let by_threads = machine.threads / threads;
    let blocks_per_multiprocessor = by_registers.min(by_shared).min(by_threads).max(1);
    Ok(Resources { vector, epilogue_passes, registers, spilled, shared_bytes, blocks_per_multiprocessor })
}

/// The splits of K worth considering: none unless the tiles alone leave multiprocessors idle and K is long enough.
fn splits(machine: &Machine, workload: &Workload<'_>, tile: Tile, resources: &Resources) -> Vec<SplitK> {
    let tiles = workload.tiles(tile);
    let blocks_of_k = workload.problem.k.div_ceil(tile.k);
    let mut all = vec![SplitK::None];
    if workload.problem.reading.grouping().is_some() {
        return all;
    }
    for n in [2, 3, 4, 6, 8, 12, 16, 24, 32, 64] {
        let busy = tiles * (n as u128 - 1) < machine.multiprocessors as u128 * 2;
        if busy && blocks_of_k >= 4 * n {
            all.push(SplitK::Serial(n));
            all.push(SplitK::Parallel(n));
        }
    }
    let at_once = resources.at_once(machine);
    let few = tiles < STREAMED_WAVES * at_once as u128;
    let worthwhile = |s: &Stream| s.streamed > 0 && s.streamed * s.k_tiles / s.clusters >= 8;
    if few && stream(workload, tile, at_once).is_some_and(|s| worthwhile(&s)) {
        all.push(SplitK::Stream);
    }
    all
}

/// The way stream-K would cut the tiles.
fn stream(workload: &Workload<'_>, tile: Tile, at_once: usize) -> Option<Stream> {
    let tiles = usize::try_from(workload.tiles(tile)).ok()?;
    Some(Stream::of(tiles, at_once, workload.problem.k.div_ceil(tile.k)))
}

/// Clocks that the parts of one block's work take when it has a multiprocessor to itself.
struct BlockClocks {
    arithmetic: f64,
    shared: f64,
    l2: f64,
    epilogue: f64,
    latency: f64,
    /// Storing a tile's sums in the workspace, or reading them.
    exchange: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn block_clocks(machine: &Machine, w: &Workload<'_>, tile: Tile, split_k: SplitK) -> BlockClocks {
    let constants = &machine.constants.sm80;
    let (of_a, of_b) = w.instruction.sizes();
    let (of_a, of_b) = (of_a as f64, of_b as f64);
    let k = w.problem.k.div_ceil(split_k.splits()).next_multiple_of(tile.k) as f64 * w.needed;
    // Accumulators of the instruction. Those of the product are fewer if several accumulators share the tile, since
    // part of the tile may then have none.
    let accumulators = (tile.m * tile.n) as f64;
    let products = w.epilogue.products();
    let columns = tile.product_columns(products);
    let elements = (tile.m * columns) as f64;
    let (warps_m, warps_n) = tile.warps();
    let warps = (warps_m * warps_n) as f64;

    // Of a block of K, one multiply-add for each accumulator, of which a multiprocessor does 128 per clock. Promoted sums
    // are additions.
    let by_block = w.problem.formats.are_scaled() || w.instruction.is_promoted();
    let scales = if by_block { accumulators * (k / tile.k as f64) / 128.0 } else { 0.0 };
    let arithmetic = accumulators * k / w.instruction.rate(machine.arch, &machine.rates) + scales;
    let shared = warps * (tile.warp_m as f64 * of_a + tile.warp_n as f64 * of_b) * k / 128.0;
    // Copies narrower than 16 bytes cost one instruction each: about one warp instruction in 2 clocks.
    let copies = |extent: usize, size: f64, layout: OperandLayout| {
        extent as f64 * k * size / layout.copy_bytes as f64 / 32.0 * constants.narrow_copy
    };
    let bytes = (tile.m as f64 * of_a + (columns * products) as f64 * of_b) * k;
    let narrow = copies(tile.m, of_a, w.a) + copies(columns * products, of_b, w.b);
    let l2 = bytes / machine.l2_bytes_per_clock() + narrow / 4.0;

    let e = w.epilogue;
    let accumulator = w.instruction.accumulator().size() as f64;
    let staging = (2 + e.later_sweeps) as f64 * accumulators * accumulator / 128.0;
    let operations = elements
        * (constants.element * (1 + e.later_sweeps) as f64
            + e.simple_operations as f64
            + constants.function * e.costly_operations as f64)
        / 128.0;
    let reductions = constants.row_reduction * e.row_reductions as f64
        + constants.column_reduction * e.column_reductions as f64
        + constants.all_reduction * e.all_reductions as f64;
    let reductions = elements * reductions / 64.0;
    let memory = elements * e.bytes_per_element() as f64 / machine.memory_bytes_per_clock;
    let exchange = accumulators * accumulator / machine.l2_bytes_per_clock();
    let split = match split_k {
        SplitK::None | SplitK::Stream => 0.0,
        // A turn is to read, add, write and hand over. On average half of the wait for the blocks before is overlapped.
        SplitK::Serial(n) => 2.0 * exchange + constants.serial_turn * (n - 1) as f64 / 2.0,
        // Each block writes its part, and the last of a tile's n reads all n: one for each block, on average.
        SplitK::Parallel(_) => 2.0 * exchange + constants.handed_over,
    };
    let complete = if e.row_reductions + e.column_reductions + e.all_reductions > 0 { constants.complete } else { 0.0 };
    let once = (staging + operations + reductions).max(memory) + complete;
    BlockClocks {
        arithmetic,
        shared,
        l2,
        epilogue: once / split_k.splits() as f64 + split,
        latency: constants.start + constants.of_a_block * k / tile.k as f64,
        exchange,
    }
}

impl BlockClocks {
    fn product(&self) -> f64 {
        self.arithmetic.max(self.shared).max(self.l2)
    }
}

/// Clocks of a wave: blocks on one multiprocessor share its throughput, and hide each other's latency and epilogue.
fn wave(together: f64, product: f64, epilogue: f64, latency: f64) -> f64 {
    let work = together * (product + epilogue);
    work.max(latency + product + epilogue) + latency / together
}

/// Clocks of stream-K: one wave of blocks, each with its share of the line, followed by whole tiles. `clocks` are those
/// of one tile.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn streamed(constants: &Sm80Constants, clocks: &BlockClocks, s: &Stream, together: f64) -> f64 {
    let share = (s.streamed * s.k_tiles) as f64 / s.clusters as f64;
    let k_tiles = share + ((s.units - s.streamed).div_ceil(s.clusters) * s.k_tiles) as f64;
    let tiles = s.units.div_ceil(s.clusters) as f64;
    // A part is stored, and the block that finishes the unit reads the parts before its own, one after the other.
    let parts = 1.0 + (s.k_tiles as f64 / share).ceil();
    let product = clocks.product() * k_tiles / s.k_tiles as f64;
    let epilogue = tiles * clocks.epilogue + parts * clocks.exchange;
    wave(together, product, epilogue, constants.start + constants.of_a_block * k_tiles) + constants.handed_over
}

/// Clocks, of the highest, that the board's power allows for the multiply-adds of whole tiles on tensor cores.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn power_clocks(machine: &Machine, w: &Workload<'_>, tile: Tile) -> f64 {
    if matches!(w.instruction, Instruction::FmaF32 | Instruction::MmaF64) {
        return 0.0;
    }
    let rate = w.instruction.rate(machine.arch, &machine.rates);
    let multiplied = w.tiles(tile) as f64 * (tile.m * tile.n) as f64 * w.problem.k as f64 * w.needed;
    multiplied / (rate * machine.multiprocessors as f64) * (machine.clock / machine.power_clock).max(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn predict(machine: &Machine, w: &Workload<'_>, tile: Tile, split_k: SplitK, r: &Resources) -> Candidate {
    let blocks = w.tiles(tile) * split_k.splits() as u128;
    let clocks = block_clocks(machine, w, tile, split_k);
    let product = clocks.product();
    let capacity = r.at_once(machine) as u128;
    let of_multiprocessor = |blocks: u128| blocks.div_ceil(machine.multiprocessors as u128) as f64;
    let mut total = match stream(w, tile, r.at_once(machine)).filter(|s| split_k == SplitK::Stream && s.streamed > 0) {
        Some(s) => streamed(&machine.constants.sm80, &clocks, &s, of_multiprocessor(s.clusters as u128)),
        None => {
            let wave = |together| wave(together, product, clocks.epilogue, clocks.latency);
            let (full, rest) = ((blocks / capacity) as f64, of_multiprocessor(blocks % capacity));
            full * wave(r.blocks_per_multiprocessor as f64) + if rest > 0.0 { wave(rest) } else { 0.0 }
        }
    };

    let p = &w.problem;
    let (of_a, of_b) = w.instruction.sizes();
    let (of_a, of_b) = (of_a as f64, of_b as f64);
    let (m, n, k, l) = (p.m as f64, p.n as f64, p.k as f64, p.batch as f64);
    let products = w.epilogue.products() as f64;
    let elements_of_a = p.images().map_or(m * k, |elements| elements as f64);
    let bytes = l * (elements_of_a * of_a + products * k * n * of_b + m * n * w.epilogue.bytes_per_element() as f64);
    let memory = bytes / (machine.memory_bytes_per_clock * machine.multiprocessors as f64);
    // A multiprocessor that waits takes power, too, which also breaks ties.
    total = total.max(power_clocks(machine, w, tile) + machine.constants.sm80.overlap * total);
    let bound = if memory > total {
        Bound::Memory
    } else if clocks.epilogue > product {
        Bound::Epilogue
    } else if clocks.arithmetic >= product {
        Bound::Arithmetic
    } else if clocks.shared >= product {
        Bound::SharedMemory
    } else {
        Bound::L2
    };
    // A thread without enough registers spills values to memory: tiles that avoid it are always better. The smaller of
    // the two times is never completely hidden, which also breaks ties.
    total = (total.max(memory) + machine.constants.sm80.overlap * total.min(memory)) * (1 + r.spilled) as f64;
    let key = Sm80Key {
        instruction: w.instruction,
        tile,
        split_k: split_k.into(),
        a: w.a,
        b: w.b,
        vector: r.vector,
        epilogue_passes: r.epilogue_passes,
        accumulators: w.epilogue.products(),
        reading: ReadingShape::of(w.problem.reading, w.a.major, MOST_AXES),
        formats: w.problem.formats,
        in_tile: w.lines.is_some(),
        fast_math: false,
    };
    Candidate {
        key: KernelKey::Sm80(key),
        split_k,
        registers: r.registers,
        shared_bytes: r.shared_bytes,
        blocks_per_multiprocessor: r.blocks_per_multiprocessor,
        blocks,
        repacking: Repacking::default(),
        waves: blocks as f64 / capacity as f64,
        microseconds: total / (machine.clock * 1e3),
        bound,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::gemm::problem::Arithmetic;
    use crate::{ElementType, evt};

    const SHAPES: &str = include_str!("../../../../../benches/gemm_shapes.txt");

    fn best(machine: &Machine, problem: Problem, element: ElementType, epilogue: &evt::Cost) -> Candidate {
        let instruction = Instruction::of(element, element, Arithmetic::Exact).expect("an instruction");
        let (a, b) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
        let workload = Workload { problem, instruction, a, b, epilogue, lines: None, needed: 1.0 };
        rank(machine, &workload).expect("a tile that fits").remove(0)
    }

    fn area(candidate: &Candidate) -> usize {
        let (m, n) = candidate.key.tile();
        m * n
    }

    fn vector(candidate: &Candidate) -> usize {
        let KernelKey::Sm80(key) = &candidate.key else { panic!("of another family: {}", candidate.key) };
        key.vector
    }

    #[test]
    fn shapes_get_tiles_of_their_own() {
        let epilogue = evt::Cost { loads: 1, stores: 1, bytes_read: 2, bytes_written: 2, ..evt::Cost::default() };
        for machine in [Machine::a100(), Machine::h100()] {
            let mut of_f16 = BTreeSet::new();
            let mut split = 0;
            for line in SHAPES.lines().filter(|line| !line.starts_with('#')) {
                let words: Vec<&str> = line.split_whitespace().collect();
                let number = |i: usize| words[i].parse::<usize>().expect("a number");
                let element = ElementType::ALL.into_iter().find(|e| e.name() == words[4]).expect("a type");
                let problem = Problem::new(number(0), number(1), number(2)).batched(number(3));
                let chosen = best(&machine, problem, element, &epilogue);
                split += usize::from(chosen.split_k != SplitK::None);
                if element.size() == 2 {
                    of_f16.insert(chosen.key.tile());
                }
            }
            assert!(of_f16.len() >= 4, "{of_f16:?}");
            assert!(split >= 2, "some shapes need more blocks than they have tiles");
        }
    }

    #[test]
    fn a_large_square_takes_a_large_tile_and_a_small_one_a_small() {
        let epilogue = evt::Cost { stores: 1, bytes_written: 2, ..evt::Cost::default() };
        let large = best(&Machine::a100(), Problem::new(8192, 8192, 8192), ElementType::F16, &epilogue);
        assert!(area(&large) >= 128 * 128, "{large}");
        assert_eq!(large.split_k, SplitK::None);
        let small = best(&Machine::a100(), Problem::new(256, 256, 256), ElementType::F16, &epilogue);
        assert!(area(&small) <= 64 * 64, "{small}");
    }

    #[test]
    fn a_heavy_epilogue_gets_a_smaller_tile_or_fewer_columns_at_once() {
        let heavy = evt::Cost {
            row_reductions: 11,
            column_reductions: 11,
            element_registers: 40,
            loads: 8,
            bytes_read: 16,
            ..evt::Cost::default()
        };
        let problem = Problem::new(4096, 4096, 4096);
        let chosen = best(&Machine::a100(), problem, ElementType::F16, &heavy);
        let light = best(&Machine::a100(), problem, ElementType::F16, &evt::Cost::default());
        assert!(vector(&chosen) < vector(&light) || area(&chosen) < area(&light), "{chosen}");
        let huge = evt::Cost { row_reductions: 4000, ..evt::Cost::default() };
        let instruction = Instruction::MmaF16;
        let (a, b) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::K));
        let workload = Workload { problem, instruction, a, b, epilogue: &huge, lines: None, needed: 1.0 };
        assert!(matches!(rank(&Machine::a100(), &workload), Err(Misfit::SharedMemory { .. })));
    }

    /// Deep k-tiles are candidates if shared memory has room for them, and they are the better ones if as many
    /// blocks run at once.
    #[test]
    fn blocks_of_k_are_deep_where_shared_memory_allows() {
        let epilogue = evt::Cost { stores: 1, bytes_written: 2, ..evt::Cost::default() };
        // The time of the largest tiles with k-tiles of this depth.
        let time = |machine: &Machine, k: usize| {
            let along_k = OperandLayout::packed(Major::K);
            let (problem, instruction) = (Problem::new(8192, 8192, 8192), Instruction::MmaF16);
            let workload = Workload {
                problem,
                instruction,
                a: along_k,
                b: along_k,
                epilogue: &epilogue,
                lines: None,
                needed: 1.0,
            };
            let all = rank(machine, &workload).expect("a tile that fits");
            let is_it = |c: &&Candidate| area(c) == 128 * 256 && c.key.tile_k() == k && c.split_k == SplitK::None;
            all.iter().find(is_it).map(|c| c.microseconds)
        };
        // The limits of an RTX 3090 (CUDA C++ Programming Guide, "Technical Specifications").
        let small = Machine { shared_per_block: 99 * 1024, shared: 100 * 1024, ..Machine::a100() };
        assert!(time(&Machine::a100(), 64) < time(&Machine::a100(), 32));
        assert!(time(&Machine::a100(), 64).is_some() && time(&small, 32).is_some());
        assert_eq!(time(&small, 64), None);
    }
}
