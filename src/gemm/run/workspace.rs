//! A launch's grid, and the memory that it needs beside its arguments.

use epilogue_runtime::DeviceTensor;

use super::variant::Variant;
use crate::ElementType;
use crate::evt::{Axis, ValidTree};
use crate::gemm::emit::arguments::{EpilogueArguments, ReductionGroup};
use crate::gemm::kernel::SplitK;
use crate::gemm::kernel::stream::Stream;
use crate::gemm::kernel::tiles::Tiled;
use crate::gemm::problem::{Error, Problem};

/// The most blocks along the x axis of a grid (CUDA C++ Programming Guide, "Technical Specifications").
const MAX_BLOCKS: u128 = i32::MAX as u128;

/// Memory that a launch needs beside its arguments.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// 32-bit counters, 0 between launches.
    pub(crate) counters: DeviceTensor,
    /// Sums and partials; the bytes have no meaning between launches.
    pub(crate) scratch: DeviceTensor,
}

/// Where the workspace lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkspaceAddresses {
    pub(crate) counters: u64,
    pub(crate) scratch: u64,
}

/// Extents as the kernel counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) tiles_m: usize,
    /// Places for the rows of a column of tiles: groups have whole tiles of them.
    pub(crate) rows: usize,
    pub(crate) tiles_n: usize,
    /// Stream-K: the number of units that are cut along K.
    pub(crate) streamed: usize,
    /// The number of blocks.
    pub(crate) blocks: u32,
}

impl Grid {
    /// # Errors
    /// [`Error::TooManyBlocks`].
    pub(crate) fn of(problem: &Problem, variant: &Variant) -> Result<Self, Error> {
        let tiled = variant.tiled(problem);
        let Tiled { tile: [tile_m, _, tile_k], cluster: (cluster_m, cluster_n), splits, .. } = tiled;
        let (tiles_m, tiles_n) = tiled.tiles();
        let batch = if problem.reading.divides_rows() { 1 } else { problem.batch };
        let (clusters_m, clusters_n) = (tiles_m.div_ceil(cluster_m), tiles_n.div_ceil(cluster_n));
        let cluster = cluster_m * cluster_n;
        let units = clusters_m as u128 * clusters_n as u128 * batch as u128 * splits as u128;
        let blocks = units * cluster as u128;
        // Stream-K numbers places, and uses one bit to say what they are.
        let limit = if variant.split_k == SplitK::Stream { MAX_BLOCKS / 2 } else { MAX_BLOCKS };
        if blocks > limit {
            return Err(Error::TooManyBlocks { blocks, limit });
        }
        // The blocks of a persistent kernel take one unit after another.
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let at_once = variant.persistent_blocks.unwrap_or(u32::MAX);
        let rows = if problem.reading.divides_rows() { tiles_m * tile_m } else { problem.m };
        let whole = Self { tiles_m, rows, tiles_n, streamed: 0, blocks: blocks.min(at_once) };
        if variant.split_k != SplitK::Stream {
            return Ok(whole);
        }
        let cluster = cluster as u32;
        let (units, at_once) = ((blocks / cluster) as usize, (at_once / cluster) as usize);
        let stream = Stream::of(units, at_once, problem.k.div_ceil(tile_k));
        Ok(Self { streamed: stream.streamed, blocks: stream.clusters as u32 * cluster, ..whole })
    }

    /// The workspace of a kernel that computes one tile a block, without a main loop.
    ///
    /// # Errors
    /// [`Error::TooManyBlocks`].
    pub(crate) fn of_tiles(problem: &Problem, (tiles_m, tiles_n): (usize, usize)) -> Result<Self, Error> {
        let blocks = tiles_m as u128 * tiles_n as u128 * problem.batch as u128;
        match u32::try_from(blocks) {
            Ok(fits) if blocks <= MAX_BLOCKS => {
                Ok(Self { tiles_m, rows: problem.m, tiles_n, streamed: 0, blocks: fits })
            }
            _ => Err(Error::TooManyBlocks { blocks, limit: MAX_BLOCKS }),
        }
    }

    pub(crate) fn tiles(&self, problem: &Problem) -> usize {
        self.tiles_m * self.tiles_n * if problem.reading.divides_rows() { 1 } else { problem.batch }
    }
}

/// The layout of the workspace: byte offsets from the start of the scratch memory or of the counters.
pub(crate) struct Places {
    pub(crate) partials: Vec<usize>,
    pub(crate) scratch_bytes: usize,
    pub(crate) counters: Vec<usize>,
    pub(crate) counter_count: usize,
}

impl Places {
    pub(crate) fn of_product(tree: &ValidTree, variant: &Variant, problem: &Problem, grid: &Grid) -> Self {
        let tiles = grid.tiles(problem);
        let sums = match variant.split_k {
            SplitK::None => 0,
            SplitK::Serial(_) => tiles,
            SplitK::Parallel(n) => tiles * n,
            // A block stores at most one part of a tile.
            SplitK::Stream => grid.blocks as usize,
        };
        let counters = match variant.split_k {
            SplitK::None => 0,
            SplitK::Serial(_) | SplitK::Parallel(_) => tiles,
            SplitK::Stream => sums,
        };
        Self::of(tree, &variant.emitted.arguments, problem, grid, (sums * variant.sum_bytes(), counters))
    }

    /// With the bytes of split-K's sums, and its counters, in front.
    pub(crate) fn of(
        tree: &ValidTree,
        arguments: &EpilogueArguments,
        problem: &Problem,
        grid: &Grid,
        (sum_bytes, counter_count): (usize, usize),
    ) -> Self {
        let (partials, counters) = (Vec::new(), Vec::new());
        let mut places = Self { partials, scratch_bytes: sum_bytes, counters, counter_count };
        let real = tree.real().element().size();
        for (output, _) in &arguments.partials {
            let reduction = tree.outputs()[*output].reduction();
            let axis = reduction.map_or(Axis::All, |r| r.axis);
            let bytes = real * reduction.map_or(1, |r| r.running_values());
            let grouped = problem.reading.divides_rows();
            let values = if grouped { 1 } else { problem.batch }
                * match axis {
                    Axis::Row => grid.tiles_n * grid.rows,
                    Axis::Column => grid.tiles_m * problem.n,
                    Axis::All => grid.tiles_m * grid.tiles_n,
                };
            let offset = places.scratch_bytes.next_multiple_of(256);
            places.partials.push(offset);
            places.scratch_bytes = offset + values * bytes;
        }
        for (group, _) in &arguments.counters {
            places.counters.push(places.counter_count * 4);
            let ReductionGroup { axis, batch } = *group;
            let along = match axis {
                Axis::Row => grid.tiles_m,
                Axis::Column => grid.tiles_n,
                Axis::All => 1,
            };
            // The row tiles of groups are counted together.
            let of_all = batch || (axis == Axis::Row && problem.reading.divides_rows());
            places.counter_count += if of_all { along } else { along * problem.batch };
        }
        places
    }
}

impl Workspace {
    pub(crate) fn new(stream: &epilogue_runtime::Stream, places: &Places) -> Result<Self, Error> {
        Ok(Self {
            counters: stream.zeros_of(ElementType::I32, [places.counter_count])?,
            scratch: stream.zeros_of(ElementType::U8, [places.scratch_bytes])?,
        })
    }

    pub(crate) fn addresses(&self) -> WorkspaceAddresses {
        WorkspaceAddresses { counters: self.counters.device_address(), scratch: self.scratch.device_address() }
    }

    pub(crate) fn suffices(&self, places: &Places) -> bool {
        self.counters.len() >= places.counter_count && self.scratch.len() >= places.scratch_bytes
    }
}
