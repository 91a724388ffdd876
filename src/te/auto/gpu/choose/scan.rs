//! Chooses the kernel of a scan: whether time is cut, and how the threads of a block are mapped to columns and steps.

use super::reduce::{limited, power_of_two};
use crate::te::auto::bind::iteration_space::{LoopLevel, Space, Steps, points};
use crate::te::auto::gpu::emit::linear_map::map_bytes;
use crate::te::auto::gpu::emit::loops::{Loops, Side, VectorAccess};
use crate::te::auto::gpu::emit::scan::{ScanKey, ScanMapping};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::reads::{Read, refused};
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::cuda::register;
use crate::te::error::TeError;

/// The number of threads that an SM runs at once, given the registers of these kernels (80 each).
const THREADS_PER_SM: i64 = 768;

/// The registers of a thread for a tile's elements and maps. The limit lets enough threads run on an SM.
const TILE_REGISTERS: i64 = 36;
/// The registers for elements of 8 bytes: fewer, because their sums take more registers.
const TILE_REGISTERS_WIDE: i64 = 28;

/// The most columns of a lane: their states must fit into its registers.
const MOST_PER_LANE: i64 = 8;

/// The most columns that one kernel reduces to one.
pub(in crate::te::auto) const MOST_REDUCED: i64 = MOST_PER_LANE * 32;

/// A kernel and its launch.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct ScanPlan {
    pub(in crate::te::auto) key: ScanKey,
    pub(in crate::te::auto) outer: Vec<LoopLevel>,
    pub(in crate::te::auto) inner: Vec<LoopLevel>,
    /// Number of columns, or of groups of columns that are reduced to one.
    pub(in crate::te::auto) columns: i64,
    /// Number of columns that are reduced to one; 1 if none are.
    pub(in crate::te::auto) reduced: i64,
    pub(in crate::te::auto) steps: i64,
    /// Number of tiles of a column.
    pub(in crate::te::auto) tiles: i64,
    /// Number of column groups that a block scans together.
    pub(in crate::te::auto) groups: i64,
    pub(in crate::te::auto) blocks: i64,
    /// The reason why time is not cut, if it isn't.
    pub(in crate::te::auto) reason: Option<&'static str>,
}

impl ScanPlan {
    /// Number of maps in the workspace, of each column, and of flags: of tiles, and of batches of them. A batch has a tile
    /// for each of a warp's lanes along time.
    pub(in crate::te::auto) fn shared_maps(&self) -> i64 {
        let batch = i64::from(32 / self.key.across.max(1));
        let of_group = self.tiles + (self.tiles + batch - 1) / batch;
        if self.key.mapping == ScanMapping::Shared { self.groups * of_group } else { 0 }
    }
}

/// Chooses.
pub(in crate::te::auto) fn choose(
    pattern: &Recurrence,
    space: &Space,
    used: &[bool],
    order: Order,
    multiprocessors: u32,
) -> Result<ScanPlan, TeError> {
    let time = pattern.outer();
    let reduced_axes: &[usize] = pattern.column_reduction.as_ref().map_or(&[], |reduction| &reduction.axes);
    let columns: Vec<usize> = (0..time).filter(|axis| !reduced_axes.contains(axis)).collect();
    let mut outer = space.levels(&columns, used, true);
    let columns = limited(points(&outer), "columns")?;
    let any_order = order == Order::Device
        && pattern.column_reduction.as_ref().is_some_and(|reduction| reduction.combination.commutative);
    let reduced_levels = space.levels(reduced_axes, used, any_order);
    let reduced = limited(points(&reduced_levels), "columns that become one")?;
    outer.extend(reduced_levels);
    limited(points(&outer), "columns")?;
    let inner = vec![LoopLevel {
        axis: used[time].then_some(time),
        extent: space.extents[time],
        reads: space.reads.iter().map(|r| r.as_ref().map_or(0, |r| r.strides[time])).collect(),
        outputs: space.outputs.iter().map(|o| o.strides[time]).collect(),
    }];
    let room = i64::from(multiprocessors.max(1)) * THREADS_PER_SM;
    let problem = Problem { pattern, space, outer, inner, order, room, reduced };
    if reduced > MOST_REDUCED {
        return Err(refused(&format!("a reduction of {reduced} columns of a scan (the most is {MOST_REDUCED})")));
    }
    match (&pattern.map, order) {
        _ if problem.per_lane() > 1 => Ok(problem.in_order(columns, "more than 32 columns become one")),
        (_, Order::Exact) => Ok(problem.in_order(columns, "the order is exact")),
        (_, Order::Shape) => Ok(problem.in_order(columns, "the order is every device's")),
        (None, _) => Ok(problem.in_order(columns, "the update is not proven linear in a state of at most 4 values")),
        // Steps are then computed once, not first as maps.
        (Some(_), _) if columns * problem.group() >= problem.room && !problem.steps_are_neighbours() => {
            Ok(problem.in_order(columns, "the columns alone fill the device"))
        }
        (Some(map), _) => problem.tiled(columns, map_bytes(map) as i64),
    }
}

struct Problem<'a> {
    pattern: &'a Recurrence,
    space: &'a Space,
    outer: Vec<LoopLevel>,
    inner: Vec<LoopLevel>,
    order: Order,
    /// The number of threads that the device runs at once.
    room: i64,
    /// Number of columns that are reduced to one.
    reduced: i64,
}

impl Problem<'_> {
    /// The number of lanes that share the columns of one group; the group is reduced to one.
    fn group(&self) -> i64 {
        power_of_two(self.reduced).min(32)
    }

    fn per_lane(&self) -> i64 {
        (self.reduced + self.group() - 1) / self.group()
    }

    fn in_order(&self, columns: i64, reason: &'static str) -> ScanPlan {
        // A few columns are spread over the SMs.
        let lanes = columns * self.group();
        let threads = if lanes < self.room / 4 { 32 } else { 128 };
        let key = ScanKey {
            loops: self.loops(1, 0),
            mapping: ScanMapping::InOrder,
            threads,
            across: 32,
            subtiles: 1,
            blocks_at_once: 1,
            shift: 0,
            group: self.group() as u32,
            per_lane: self.per_lane() as u32,
            exact: self.order == Order::Exact,
            packed_outputs: vec![false; self.pattern.outputs.len()],
            contract: self.order == Order::Device,
        };
        let blocks = lanes.div_euclid(i64::from(threads)) + 1;
        self.plan(key, columns, 0, columns, blocks, Some(reason))
    }

    fn plan(
        &self,
        key: ScanKey,
        columns: i64,
        tiles: i64,
        groups: i64,
        blocks: i64,
        reason: Option<&'static str>,
    ) -> ScanPlan {
        let (outer, inner, steps) = (self.outer.clone(), self.inner.clone(), self.inner[0].extent);
        ScanPlan { key, outer, inner, columns, reduced: self.reduced, steps, tiles, groups, blocks, reason }
    }

    fn tiled(&self, columns: i64, map_bytes: i64) -> Result<ScanPlan, TeError> {
        let steps = self.inner[0].extent;
        let along_time = self.steps_are_neighbours();
        let (vector, shift) = if along_time { self.vector() } else { (1, 0) };
        // A tile's elements stay in registers, with a map for every subtile.
        let elements = self.element_registers();
        let room = if elements > self.pattern.element_reads as i64 { TILE_REGISTERS_WIDE } else { TILE_REGISTERS };
        let mut subtiles = (room / (elements * vector + map_bytes / 4)).clamp(1, 16);
        // Every SM should get a tile before tiles become large.
        while subtiles > 4 && columns * steps < self.room / THREADS_PER_SM * 256 * vector * subtiles {
            subtiles /= 2;
        }
        let lanes = (shift + steps + vector - 1) / vector;
        let (across, warps) = if along_time {
            let along = power_of_two((lanes + subtiles - 1) / subtiles).min(32 / self.group());
            (32 / along, power_of_two((lanes + along * subtiles - 1) / (along * subtiles)).min(8))
        } else {
            let across = (power_of_two(columns) * self.group()).min(32);
            let along = 32 / across * subtiles;
            (across, power_of_two((lanes + along - 1) / along).min(8))
        };
        let tile = warps * subtiles * (32 / across) * vector;
        let tiles = limited((shift + steps + tile - 1) / tile, "tiles of a column")?;
        let side_by_side = across / self.group();
        let groups = (columns + side_by_side - 1) / side_by_side;
        let room = (self.room / (warps * 32)).max(1);
        let owned = tiles <= 1 || groups * 2 >= room;
        let key = ScanKey {
            loops: self.loops(vector, shift),
            mapping: if owned { ScanMapping::Owned } else { ScanMapping::Shared },
            threads: (warps * 32) as u32,
            across: across as u32,
            subtiles: subtiles as u32,
            // Larger maps take as many registers as they need.
            blocks_at_once: if map_bytes <= 8 { (THREADS_PER_SM / (warps * 32)) as u32 } else { 1 },
            shift: shift as u32,
            group: self.group() as u32,
            per_lane: 1,
            exact: false,
            packed_outputs: (0..self.pattern.outputs.len())
                .map(|o| vector > 1 && !self.pattern.outputs[o].reduced && self.packs_output(o, vector, shift))
                .collect(),
            contract: self.order == Order::Device,
        };
        if !owned && groups.saturating_mul(tiles) > super::reduce::LIMIT {
            return Err(refused(&format!("{} tiles", groups.saturating_mul(tiles))));
        }
        let blocks = if owned { groups.min(room * 4) } else { room.min(groups * tiles) };
        Ok(self.plan(key, columns, tiles, groups, blocks.max(1), None))
    }

    /// The number of registers for the elements that a step reads.
    fn element_registers(&self) -> i64 {
        let reads = &self.pattern.reads.list[..self.pattern.element_reads];
        let wide = |read: &&Read| register(read.tensor.dtype()).bytes() == 8;
        (reads.len() + reads.iter().filter(wide).count()).max(1) as i64
    }

    /// Whether the steps of a column, not the columns, are neighbours in memory.
    fn steps_are_neighbours(&self) -> bool {
        let main = self.space.main_read();
        let step = |level: &LoopLevel| main.map_or(level.outputs[0], |main| level.reads[main]).abs();
        let time = step(&self.inner[0]);
        // If an array has the same element for two columns, these are not neighbours in it.
        let columns = self.outer.iter().map(step).filter(|step| *step != 0).min();
        columns.is_none_or(|columns| time != 0 && time < columns)
    }

    /// The number of steps that are read at once: 16 bytes of the narrowest contiguous read. Then the number of places
    /// that the aligned address of the first read includes before the first step.
    fn vector(&self) -> (i64, i64) {
        let packed: Vec<usize> = (0..self.pattern.element_reads)
            .filter(|r| self.space.reads[*r].is_some() && self.inner[0].reads[*r] == 1)
            .collect();
        let narrowest = packed.iter().filter_map(|r| self.space.reads[*r].as_ref().map(|s| s.size)).min();
        let mut vector = narrowest.map_or(1, |size| (16 / size as i64).min(8));
        while vector > 1 {
            let mut shifts = 0..vector;
            let suits = |shift: &i64| packed.iter().all(|r| self.packs(*r, vector, *shift));
            if let Some(shift) = shifts.find(suits).filter(|_| self.inner[0].extent >= vector) {
                return (vector, shift);
            }
            vector /= 2;
        }
        (1, 0)
    }

    fn packs(&self, read: usize, vector: i64, shift: i64) -> bool {
        let Some(steps) = &self.space.reads[read] else { return false };
        let strides = self.outer.iter().map(|level| level.reads[read]);
        self.inner[0].reads[read] == 1 && is_aligned(steps, strides, vector, shift)
    }

    fn packs_output(&self, output: usize, vector: i64, shift: i64) -> bool {
        let strides = self.outer.iter().map(|level| level.outputs[output]);
        self.inner[0].outputs[output] == 1 && is_aligned(&self.space.outputs[output], strides, vector, shift)
    }

    fn loops(&self, vector: i64, shift: i64) -> Loops {
        let access = (0..self.space.reads.len()).map(|read| {
            self.space.reads[read].as_ref().map(|_| match self.inner[0].reads[read] {
                0 => VectorAccess::One,
                1 if vector > 1 && self.packs(read, vector, shift) => VectorAccess::Packed,
                _ => VectorAccess::Strided,
            })
        });
        Loops {
            outer: self.outer.iter().map(|level| level.axis).collect(),
            inner: vec![self.inner[0].axis],
            vector_side: Side::Inner,
            vector: vector as usize,
            access: access.collect(),
        }
    }
}

/// Whether `vector` steps of every column are aligned, if the first `shift` of them come before the column's first
/// step.
fn is_aligned(steps: &Steps, mut columns: impl Iterator<Item = i64>, vector: i64, shift: i64) -> bool {
    let size = steps.size as i64;
    let bytes = (vector * size).min(16);
    let first = steps.address.wrapping_sub((shift * size).unsigned_abs());
    first.is_multiple_of(bytes.unsigned_abs()) && columns.all(|stride| stride * size % bytes == 0)
}
