//! The map of shared memory, and what passes through it.

use std::ops::Range;

use super::key::{Sm90Key, Staging};
use super::tile::{Schedule, Tile};
use crate::ElementType;
use crate::evt::{Axis, BroadcastClass, ParameterClass, ValidTree};
use crate::gemm::kernel::finish::Within;
use crate::gemm::kernel::split_k::SplitKind;
use crate::gemm::problem::Divided;

/// The most dynamic shared memory of a block on sm_90: 227 KiB (CUDA C++ Programming Guide, "Compute Capability 9.0").
pub(crate) const MAX_SHARED_BYTES: usize = 227 * 1024;

/// Alignment of the memory that tensor copies with a 128-byte swizzle write.
const ATOM: usize = 1024;

/// Bytes for mbarriers, and for what else the warps of a block tell each other.
const CONTROL_BYTES: usize = 1024;

/// The tensor that a tensor map describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOf {
    /// A.
    A,
    /// The B of an accumulator.
    B(usize),
    /// An argument of a run that is read.
    Input(usize),
    /// An argument of a run that is written.
    Output(usize),
}

/// Values that an epilogue passes through shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of accumulators beyond the first.
    pub further_accumulators: usize,
    /// M×N tensors that are read by tensor copies: argument and element type.
    pub inputs: Vec<(usize, ElementType)>,
    /// M×N tensors that are written by tensor copies: argument and element type.
    pub outputs: Vec<(usize, ElementType)>,
    /// Row vectors that are read.
    pub row_vectors: usize,
    /// Column vectors that are read.
    pub column_vectors: usize,
    /// Reductions along rows.
    pub row_reductions: usize,
    /// Reductions along columns.
    pub column_reductions: usize,
    /// Reductions to one value.
    pub all_reductions: usize,
    /// The most words of a line's running results that a phase hands to the next: what blocks of a cluster exchange at a
    /// time, where lines lie in their tiles.
    pub exchanged: usize,
}

impl Traffic {
    /// The traffic of a tree, without the arguments whose bit is set in `direct`.
    #[must_use]
    pub fn of(tree: &ValidTree, direct: u64) -> Self {
        let copied =
            |argument: usize, element: ElementType| element.size() <= 4 && argument < 64 && direct >> argument & 1 == 0;
        let mut traffic = Self { further_accumulators: tree.cost().products() - 1, ..Self::default() };
        for (argument, parameter) in tree.parameters().iter().enumerate().filter(|(_, p)| p.value.is_some()) {
            match parameter.class {
                ParameterClass::Tensor | ParameterClass::TensorMut => {
                    if copied(argument, parameter.element) {
                        traffic.inputs.push((argument, parameter.element));
                    }
                }
                ParameterClass::RowVector => traffic.row_vectors += 1,
                ParameterClass::ColumnVector => traffic.column_vectors += 1,
                // Bits are read where they are used.
                ParameterClass::Scalar | ParameterClass::DeviceScalar | ParameterClass::Seed | ParameterClass::Bits => {
                }
            }
        }
        for (i, output) in tree.stores().filter(|(_, output)| output.class == BroadcastClass::Tensor && !output.packed)
        {
            let argument = tree.output_argument(i);
            if copied(argument, output.element) {
                traffic.outputs.push((argument, output.element));
            }
        }
        let along = |axis| {
            let reductions = tree.reductions().filter(move |(_, _, r)| r.axis == axis);
            reductions.map(|(_, _, r)| r.running_values()).sum::<usize>()
        };
        (traffic.row_reductions, traffic.column_reductions, traffic.all_reductions) =
            (along(Axis::Row), along(Axis::Column), along(Axis::All));
        let words = |phase| {
            let used = tree.used_reductions_by_phase().filter(move |(of, _)| *of == phase);
            used.map(|(_, reduction)| reduction.running_values()).sum()
        };
        traffic.exchanged = (0..tree.phases()).map(words).max().unwrap_or(0);
        traffic
    }

    /// A kernel's tensor maps, in order: no copies by boxes bring picked rows.
    #[must_use]
    pub fn maps(&self, key: &Sm90Key) -> Vec<MapOf> {
        let of_a = (!key.reading.is_picked()).then_some(MapOf::A);
        let inputs = self.inputs.iter().map(|(argument, _)| MapOf::Input(*argument));
        let outputs = self.outputs.iter().map(|(argument, _)| MapOf::Output(*argument));
        let operands = of_a.into_iter().chain((0..=self.further_accumulators).map(MapOf::B));
        operands.chain(inputs).chain(outputs).collect()
    }
}

/// The box that one tensor copy of the epilogue moves, as rows and columns of the product.
#[must_use]
pub(crate) const fn epilogue_box(key: &Sm90Key, element: ElementType) -> (usize, usize) {
    let (step, widest) = (key.staging.step, 128 / element.size());
    if key.swap_ab {
        let of_rows = if key.cores.rows_are_apart(&key.tile) { RUN } else { 64 };
        (step, if widest < of_rows { widest } else { of_rows })
    } else {
        (64, if widest < step { widest } else { step })
    }
}

/// Bytes of all boxes of some tensors in one step of a warpgroup. The tensors follow one another, each at a multiple of
/// its boxes' size or of a swizzle's period.
/// Rows of a warp in a block, which follow one another in any case.
const RUN: usize = 16;

/// Rows and columns of one copy of a box: the whole of it, or one of its runs of rows.
#[must_use]
pub(crate) const fn copied_box(key: &Sm90Key, element: ElementType) -> (usize, usize) {
    let (rows, columns) = epilogue_box(key, element);
    (if key.cores.rows_are_apart(&key.tile) && !key.swap_ab { RUN } else { rows }, columns)
}

fn step_bytes(key: &Sm90Key, tensors: &[(usize, ElementType)]) -> usize {
    let place = |end: usize, (_, element): &(usize, ElementType)| {
        let (rows, columns) = epilogue_box(key, *element);
        let bytes = rows * columns * element.size();
        end.next_multiple_of(bytes.clamp(1, ATOM)) + 64 * key.staging.step * element.size()
    };
    tensors.iter().fold(0, place).next_multiple_of(ATOM)
}

/// The parts of shared memory, as byte ranges from a base that is aligned to 1024.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMap {
    /// The ring of the instruction's first operand.
    pub a: Range<usize>,
    /// The ring of the instruction's second operand.
    pub b: Range<usize>,
    /// Outputs on their way to memory: the stages of every consumer warpgroup.
    pub outputs: Range<usize>,
    /// Inputs on their way from memory, likewise.
    pub inputs: Range<usize>,
    /// Vectors that vary along MMA columns, as f32; in ping-pong, a copy for each warpgroup.
    pub vectors: Range<usize>,
    /// Intermediate values of reductions.
    pub reductions: Range<usize>,
    /// Values that the blocks of a cluster exchange, and the mbarriers that count them.
    pub exchange: Range<usize>,
    /// Mbarriers and other control data.
    pub control: Range<usize>,
    /// Words of a line that each block of a cluster tells the others at a time; 0 where lines lie in no cluster's tiles.
    pub exchange_words: usize,
    /// Stages of outputs; 0 if no output is copied.
    pub output_stages: usize,
    /// Stages of inputs; 0 if no input is copied.
    pub input_stages: usize,
    /// Bytes of one stage of outputs of one warpgroup.
    pub output_stage_bytes: usize,
    /// Bytes of one stage of inputs of one warpgroup.
    pub input_stage_bytes: usize,
    /// Bytes that arrive for a stage of inputs.
    pub input_transfer_bytes: usize,
}

impl SharedMap {
    /// The map of a kernel.
    #[must_use]
    pub fn of(key: &Sm90Key, traffic: &Traffic) -> Self {
        let (a_stage, b_stage) = key.stage_bytes();
        let consumers = key.tile.consumers;
        let output_stage_bytes = step_bytes(key, &traffic.outputs);
        let input_stage_bytes = step_bytes(key, &traffic.inputs);
        let output_stages = if traffic.outputs.is_empty() { 0 } else { key.staging.output_stages };
        let input_stages = if traffic.inputs.is_empty() { 0 } else { key.staging.input_stages };
        let exchange_words = if key.within() == Some(Within::Cluster) { traffic.exchanged } else { 0 };
        let mut end = 0_usize;
        let mut next = |bytes: usize, alignment: usize| {
            let start = end.next_multiple_of(alignment);
            end = start + bytes;
            start..end
        };
        Self {
            a: next(key.stages * a_stage, ATOM),
            b: next(key.stages * b_stage, ATOM),
            outputs: next(consumers * output_stages * output_stage_bytes, ATOM),
            inputs: next(consumers * input_stages * input_stage_bytes, ATOM),
            vectors: next(vector_bytes(key, traffic), 128),
            reductions: next(reduction_bytes(key, traffic), 128),
            exchange: next(exchange_bytes(key, exchange_words), 128),
            control: next(CONTROL_BYTES, 128),
            exchange_words,
            output_stages,
            input_stages,
            output_stage_bytes,
            input_stage_bytes,
            input_transfer_bytes: traffic.inputs.iter().map(|(_, e)| 64 * key.staging.step * e.size()).sum(),
        }
    }

    /// The total size in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.control.end
    }
}

const fn copies(tile: &Tile) -> usize {
    match tile.schedule {
        Schedule::Cooperative => 1,
        Schedule::PingPong => tile.consumers,
    }
}

fn vector_bytes(key: &Sm90Key, traffic: &Traffic) -> usize {
    let (_, columns) = key.result_tile();
    let vectors = if key.swap_ab { traffic.column_vectors } else { traffic.row_vectors };
    4 * vectors * columns * copies(&key.tile)
}

/// Every consumer warp has its own copy of what varies along MMA columns; what varies along MMA rows is kept once.
fn reduction_bytes(key: &Sm90Key, traffic: &Traffic) -> usize {
    let (tile_rows, tile_columns) = key.result_tile();
    let (rows, columns) = if key.swap_ab {
        (traffic.column_reductions, traffic.row_reductions)
    } else {
        (traffic.row_reductions, traffic.column_reductions)
    };
    let warps = 4 * key.tile.consumers;
    4 * (rows * tile_rows * copies(&key.tile) + columns * tile_columns * warps + traffic.all_reductions * warps)
}

/// For every consumer warp two mbarriers, and the words of each of its 16 rows from every block along a line.
const fn exchange_bytes(key: &Sm90Key, words: usize) -> usize {
    let (_, blocks) = key.mma_cluster();
    if words == 0 { 0 } else { 4 * key.tile.consumers * (16 + blocks * words * 4 * 16) }
}

/// The stagings to choose from, best first. With four stages of outputs, three are on their way while the next is
/// written. Two stages of inputs hide the latency of a copy, and wide steps need few copies.
///
/// Outputs could be written where inputs were read, as in CUTLASS: beside four stages of 128x256, 32 KB of a residual of
/// bf16 would be there when its epilogue begins, in place of 16. By the machine code, no epilogue waits for the other
/// 48 KB. They take 1536 clocks through the L2, or 2560 from memory if all multiprocessors ask at once. The epilogue
/// `accum + residual` takes 4973 clocks (`cargo xtask predict 4096x4096x4096 --epilogue residual`), GELU and bias more. If
/// no warp ever waited, it would take 1678, so that 1.2 % is the most to be won. A stage could be filled again only after its store has been
/// read.
const STAGINGS: [(usize, usize, usize); 14] = [
    (32, 4, 4),
    (32, 4, 2),
    (64, 2, 2),
    (32, 2, 2),
    (64, 2, 1),
    (16, 2, 2),
    (32, 2, 1),
    (64, 1, 1),
    (32, 1, 1),
    (16, 2, 1),
    (16, 1, 1),
    (8, 2, 2),
    (8, 2, 1),
    (8, 1, 1),
];

/// The most pipeline stages; more have no use.
pub(crate) const MAX_STAGES: usize = 16;

/// Chooses the pipeline stages, and the staging of the epilogue in the memory that they leave; gives `key` with both.
/// Inputs and outputs get two stages and wide steps, of at least `least` columns. This must leave `wanted` pipeline
/// stages, or as many as fit at all. `None` if not even two pipeline stages fit.
#[must_use]
pub(crate) fn fit(key: &Sm90Key, traffic: &Traffic, wanted: usize, least: usize, available: usize) -> Option<Sm90Key> {
    let (a_stage, b_stage) = key.stage_bytes();
    let stages = |staging: Staging| {
        let bare = SharedMap::of(&Sm90Key { stages: 0, staging, ..*key }, traffic).bytes();
        Some(available.checked_sub(bare)? / (a_stage + b_stage)).filter(|n| *n >= 2)
    };
    let stagings = STAGINGS
        .into_iter()
        .filter(|(step, _, _)| *step >= least && key.result_tile().1.is_multiple_of(*step))
        .map(|(step, output_stages, input_stages)| Staging { step, output_stages, input_stages });
    let fitting: Vec<(Staging, usize)> = stagings.filter_map(|s| Some((s, stages(s)?))).collect();
    let most = fitting.iter().map(|(_, n)| *n).max()?;
    let enough = wanted.min(most);
    let (staging, n) = fitting.into_iter().find(|(_, n)| *n >= enough)?;
    Some(Sm90Key { stages: n.min(wanted.max(2)).min(MAX_STAGES), staging, ..*key })
}

/// Bytes of zeros that are copied over what a part of K does not have of its last k-tile.
const ZERO_BYTES: usize = 1024;

/// Bytes of shared memory, behind a kernel's own, of the table in which it finds groups, and of what else those need.
pub(crate) const fn table_bytes(divided: Option<Divided>, groups: usize) -> usize {
    match divided {
        None => 0,
        Some(Divided::Rows) => groups.saturating_mul(8),
        Some(Divided::Depth) => groups.saturating_mul(8).saturating_add(ZERO_BYTES),
    }
}

/// Bytes in the workspace of one place for a tile's partial sums.
pub(crate) const fn sum_bytes(key: &Sm90Key) -> usize {
    match key.split_k {
        SplitKind::None => 0,
        SplitKind::Serial | SplitKind::Parallel | SplitKind::Stream => key.tile.rows * key.tile.columns * 4,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gemm::families::sm90::kernel::TensorCores;
    use crate::gemm::families::sm90::kernel::instruction::Wgmma;
    use crate::gemm::sm90::{Cluster, Hints, Raster};
    use crate::gemm::{Formats, Major, ReadingShape};

    pub(crate) fn key(tile: Tile, instruction: Wgmma, swap_ab: bool, majors: (Major, Major)) -> Sm90Key {
        Sm90Key {
            cores: TensorCores::Wgmma,
            instruction,
            tile,
            swap_ab,
            accumulators: 1,
            stages: 2,
            cluster: Cluster::NONE,
            raster: Raster { group: 8, along_n: false },
            split_k: SplitKind::None,
            a: majors.0,
            b: majors.1,
            staging: Staging { step: 8, output_stages: 1, input_stages: 1 },
            direct: 0,
            hints: Hints::default(),
            promoted: false,
            pending: 1,
            dependent_launch: false,
            reading: ReadingShape::Rows,
            formats: Formats::PLAIN,
            in_tile: false,
            fast_math: false,
        }
    }

    fn tensors() -> impl Strategy<Value = Vec<(usize, ElementType)>> {
        let element = prop::sample::select(vec![
            ElementType::F32,
            ElementType::F16,
            ElementType::BF16,
            ElementType::F8E4M3,
            ElementType::I32,
            ElementType::U8,
        ]);
        prop::collection::vec((0usize..20, element), 0..4)
    }

    proptest! {
        /// No two parts overlap, all lie within the block's memory, and swizzled parts are aligned. The bytes that a stage
        /// announces are those of its boxes.
        #[test]
        fn parts_of_shared_memory_do_not_overlap(
            tile in prop::sample::select(Tile::all()),
            instruction in prop::sample::select(&Wgmma::ALL[..]),
            swap_ab: bool,
            along_mn in (any::<bool>(), any::<bool>()),
            inputs in tensors(),
            outputs in tensors(),
            vectors in (0usize..5, 0usize..5),
            reductions in (0usize..3, 0usize..3, 0usize..3),
            exchanged in (0usize..5, 1usize..=8),
            wanted in 2usize..=16,
        ) {
            let swap_ab = swap_ab || instruction.converts_b();
            let major = |mn: bool, takes_mn: bool| if mn && takes_mn { Major::Mn } else { Major::K };
            let (of_a, of_b) = instruction.takes_mn_major();
            let key = key(tile, instruction, swap_ab, (major(along_mn.0, of_a), major(along_mn.1, of_b)));
            let (words, along) = exchanged;
            let cluster = if swap_ab { Cluster { m: along, n: 1 } } else { Cluster { m: 1, n: along } };
            let key = Sm90Key { cluster, in_tile: words > 0, ..key };
            let traffic = Traffic {
                further_accumulators: 0,
                inputs,
                outputs,
                row_vectors: vectors.0,
                column_vectors: vectors.1,
                row_reductions: reductions.0,
                column_reductions: reductions.1,
                all_reductions: reductions.2,
                exchanged: words,
            };
            let Some(key) = fit(&key, &traffic, wanted, 8, MAX_SHARED_BYTES) else { return Ok(()) };
            let map = SharedMap::of(&key, &traffic);
            prop_assert!(map.bytes() <= MAX_SHARED_BYTES);
            prop_assert!((2..=MAX_STAGES).contains(&key.stages));
            let parts = [
                &map.a,
                &map.b,
                &map.outputs,
                &map.inputs,
                &map.vectors,
                &map.reductions,
                &map.exchange,
                &map.control,
            ];
            let exchanged = if along > 1 { tile.consumers * 4 * (2 * 8 + along * 16 * 4 * words) } else { 0 };
            prop_assert_eq!(map.exchange.len(), if words > 0 { exchanged } else { 0 });
            for pair in parts.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
            for part in &parts[..4] {
                prop_assert_eq!(part.start % ATOM, 0);
            }
            let (a, b) = key.stage_bytes();
            prop_assert_eq!((a % ATOM, b % ATOM), (0, 0));
            prop_assert_eq!(map.a.len(), key.stages * a);
            // The boxes of a stage: of TILE_K by the tile's extent, or as many of 64 by TILE_K as cover it.
            let (first, second) = key.mma_majors();
            let sizes = key.mma_sizes();
            for (extent, major, size, bytes) in [(tile.rows, first, sizes.0, a), (tile.columns, second, sizes.1, b)] {
                let brought = match major {
                    Major::K => extent * key.instruction.tile_k() * size,
                    Major::Mn => extent.div_ceil(64) * 64 * key.instruction.tile_k() * size,
                };
                prop_assert_eq!(brought, bytes);
            }
            let brought: usize = traffic.inputs.iter().map(|(_, element)| {
                let (rows, columns) = epilogue_box(&key, *element);
                let boxes = 64 * key.staging.step / (rows * columns);
                boxes * rows * columns * element.size()
            }).sum();
            prop_assert_eq!(brought, map.input_transfer_bytes);
            prop_assert!(map.input_transfer_bytes <= map.input_stage_bytes);
            for (_, element) in traffic.inputs.iter().chain(&traffic.outputs) {
                let (rows, columns) = epilogue_box(&key, *element);
                prop_assert!(columns * element.size() <= 128 && rows <= 256);
                prop_assert_eq!((64 * key.staging.step) % (rows * columns), 0);
            }
        }
    }

    /// The usual tiles: with one 16-bit output they keep the number of stages known from the literature.
    #[test]
    fn usual_tiles_keep_their_stages() {
        let plain = Traffic { outputs: vec![(0, ElementType::BF16)], row_vectors: 1, ..Traffic::default() };
        let residual = Traffic { inputs: vec![(1, ElementType::BF16)], ..plain.clone() };
        let three = Traffic { inputs: vec![(1, ElementType::BF16); 3], ..plain.clone() };
        for (rows, columns, schedule, stages) in [
            (128, 256, Schedule::Cooperative, 4),
            (256, 128, Schedule::Cooperative, 4),
            (128, 128, Schedule::PingPong, 6),
            (64, 256, Schedule::PingPong, 5),
        ] {
            let find = |t: &&Tile| (t.rows, t.columns, t.schedule) == (rows, columns, schedule);
            let tile = Tile::all().iter().find(find).expect("a tile");
            let key = key(*tile, Wgmma::Bf16, false, (Major::K, Major::K));
            let of = |traffic| fit(&key, traffic, stages, 8, MAX_SHARED_BYTES).expect("it fits");
            assert_eq!(of(&plain).stages, stages, "{tile}");
            assert_eq!(of(&residual).stages, stages, "{tile} with a residual");
            assert_eq!(of(&three).stages, stages, "{tile} with three tensors");
        }
    }
}
