//! Chooses the kernel of a recurrent cell: the rows of a block, and the threads that share a column. It also decides
//! between one launch, if the state fits a block, and a launch for every stage of every step.

use super::reduce::{LIMIT, power_of_two};
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{LoopLevel, Space, Steps, points, tensor_of};
use crate::te::auto::gpu::emit::cell::{CellKey, StageKey};
use crate::te::auto::gpu::emit::context::{check_ranges, used_axes};
use crate::te::auto::gpu::emit::loops::{Loops, Side, VectorAccess};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::reads::Affine;
use crate::te::auto::split::cell::{Cell, CellSource, CellStage};
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;

/// The most threads of a block.
const MOST_THREADS: i64 = 1024;
/// The most rows of a block. Each row needs registers for a total.
const MOST_ROWS: i64 = 8;
/// The number of threads that should share the columns, so that the schedulers of an SM have enough warps to choose
/// from.
const BUSY_THREADS: i64 = 512;

/// Cycles of a launch and its preparation by the host: 6 µs at 1.7 GHz. This and the following numbers are estimates.
const LAUNCH_CYCLES: i64 = 10_000;
/// Cycles of a stage besides its work: the latency of its first reads, and its barrier.
const STAGE_CYCLES: i64 = 1_000;
/// Bytes that the second-level cache gives an SM in a cycle.
const BYTES_A_CYCLE: i64 = 64;
/// Elements that an SM combines in a cycle, with some instructions for each.
const ELEMENTS_A_CYCLE: i64 = 32;

/// A kernel and its launch.
#[derive(Debug)]
pub(in crate::te::auto) struct CellPlan {
    pub(in crate::te::auto) key: CellKey,
    pub(in crate::te::auto) stages: Vec<StagePlan>,
    pub(in crate::te::auto) buffers: Vec<BufferPlan>,
    /// Rows of the batch; 1 if there is no batch.
    pub(in crate::te::auto) rows: i64,
    pub(in crate::te::auto) steps: i64,
    pub(in crate::te::auto) blocks: i64,
    pub(in crate::te::auto) shared_bytes: i64,
}

/// A stage in one run.
#[derive(Debug)]
pub(in crate::te::auto) struct StagePlan {
    pub(in crate::te::auto) space: Space,
    /// Loops over time, rows and columns, one axis each.
    pub(in crate::te::auto) outer: Vec<LoopLevel>,
    pub(in crate::te::auto) inner: Vec<LoopLevel>,
    /// Number of columns in a row.
    pub(in crate::te::auto) columns: i64,
    /// Number of elements that are reduced for a column.
    pub(in crate::te::auto) elements: i64,
}

/// A buffer in one run.
#[derive(Debug)]
pub(in crate::te::auto) struct BufferPlan {
    /// Extents of the tensor; the buffer holds some of its steps.
    pub(in crate::te::auto) extents: Vec<i64>,
    /// Number of elements in a row.
    pub(in crate::te::auto) columns: i64,
    /// Its offset in shared memory.
    pub(in crate::te::auto) offset: i64,
}

/// The properties of a device on which the choice depends.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto) struct Room {
    pub(in crate::te::auto) multiprocessors: i64,
    /// Bytes of shared memory that a block can have.
    pub(in crate::te::auto) shared_bytes: i64,
}

/// A plan, or the reason in words why the steps are launched one by one.
pub(in crate::te::auto) type Choice = Result<CellPlan, String>;

/// Chooses the kernel. `bound` are the tensors of the cell's parameters.
///
/// # Errors
/// The error of a read at indices outside of its tensor.
pub(in crate::te::auto) fn choose(
    cell: &Cell,
    bound: &BoundTensors<'_>,
    steps: i64,
    order: Order,
    room: Room,
) -> Result<Choice, TeError> {
    if order == Order::Shape && cell.stages.iter().any(|stage| !stage.pattern.passes.is_empty()) {
        return Ok(Err("sums are added up in every device's order".to_owned()));
    }
    let mut buffers = Vec::with_capacity(cell.buffers.len());
    for buffer in &cell.buffers {
        let extents = buffer.tensor.shape().iter().map(|x| bound.sizes.value(x)).collect::<Result<Vec<_>, _>>()?;
        let columns = product(&extents[buffer.first_column(cell.rows)..]);
        buffers.push(BufferPlan { extents, columns, offset: 0 });
    }
    let (mut stages, mut keys) = (Vec::new(), Vec::new());
    for stage in &cell.stages {
        let (plan, key) = of_stage(cell, stage, bound, &buffers, order)?;
        stages.push(plan);
        keys.push(key);
    }
    let rows = product(&state_extents(cell, bound)?[1..=cell.rows]);
    let most = stages.iter().map(|stage| stage.columns.max(stage.elements)).max().unwrap_or(0);
    if rows.max(most) > LIMIT || steps > LIMIT {
        return Ok(Err("there are more columns than a kernel counts".to_owned()));
    }
    let mut of_block = power_of_two((rows + room.multiprocessors - 1) / room.multiprocessors.max(1)).min(MOST_ROWS);
    let mut shared_bytes = lay_out(cell, &mut buffers, of_block);
    while shared_bytes > room.shared_bytes && of_block > 1 {
        of_block /= 2;
        shared_bytes = lay_out(cell, &mut buffers, of_block);
    }
    if shared_bytes > room.shared_bytes {
        let most = room.shared_bytes;
        return Ok(Err(format!("a row takes {shared_bytes} bytes of shared memory, of which a block has {most}")));
    }
    let blocks = (rows + of_block - 1) / of_block;
    let waves = (blocks + room.multiprocessors - 1) / room.multiprocessors.max(1);
    let (mut here, mut by_steps) = (0i64, 0i64);
    for (stage, plan) in cell.stages.iter().zip(&stages) {
        let of_row = plan.columns.saturating_mul(plan.elements.max(1));
        let bytes: usize =
            (plan.space.reads.iter().flatten()).filter(|steps| moves(steps)).map(|steps| steps.size).sum();
        let read = of_row.saturating_mul(bytes as i64) / BYTES_A_CYCLE;
        let combined = of_row.saturating_mul(if stage.has_rows { of_block } else { 1 }) / ELEMENTS_A_CYCLE;
        here = here.saturating_add(read.max(combined).saturating_add(STAGE_CYCLES));
        let all = of_row.saturating_mul(rows) / ELEMENTS_A_CYCLE;
        by_steps = by_steps.saturating_add(LAUNCH_CYCLES + all.max(read) / room.multiprocessors.max(1));
    }
    if here.saturating_mul(waves) > by_steps {
        return Ok(Err("the columns of a step are enough work for the whole device".to_owned()));
    }
    let share = |(plan, key): (&StagePlan, &StageKey)| plan.columns.saturating_mul(i64::from(key.group));
    let threads = stages.iter().zip(&keys).map(share).max().unwrap_or(1).clamp(1, MOST_THREADS);
    let key = CellKey {
        stages: keys,
        threads: (threads + 31) as u32 / 32 * 32,
        rows: of_block as u32,
        exact: order == Order::Exact,
        contract: order == Order::Device,
    };
    Ok(Ok(CellPlan { key, stages, buffers, rows, steps, blocks, shared_bytes }))
}

/// Extents of the first state.
fn state_extents(cell: &Cell, bound: &BoundTensors<'_>) -> Result<Vec<i64>, TeError> {
    let state = cell.state(0);
    state.shape().iter().map(|x| bound.sizes.value(x)).collect()
}

fn product(extents: &[i64]) -> i64 {
    extents.iter().fold(1i64, |all, extent| all.saturating_mul((*extent).max(0)))
}

fn moves(steps: &Steps) -> bool {
    steps.strides.iter().skip(1).any(|stride| *stride != 0)
}

/// Places the buffers one after another, for a number of rows. Gives the bytes of all.
fn lay_out(cell: &Cell, plans: &mut [BufferPlan], rows: i64) -> i64 {
    let mut end = 0i64;
    for (buffer, plan) in cell.buffers.iter().zip(plans) {
        plan.offset = end;
        let rows = if buffer.has_rows { rows } else { 1 };
        let elements = plan.columns.saturating_mul(rows).saturating_mul(i64::from(buffer.slots));
        let bytes = elements.saturating_mul(buffer.tensor.dtype().in_memory().size() as i64);
        end = end.saturating_add(bytes.saturating_add(15) / 16 * 16);
    }
    end
}

fn of_stage(
    cell: &Cell,
    stage: &CellStage,
    bound: &BoundTensors<'_>,
    buffers: &[BufferPlan],
    order: Order,
) -> Result<(StagePlan, StageKey), TeError> {
    let pattern = &stage.pattern;
    let (reads, outer) = (&pattern.reads.list, stage.outer());
    let mut space = Space::of(&pattern.axes, reads, &cell.parameters, bound)?;
    for (output, store) in pattern.outputs.iter().zip(&stage.stores) {
        let Some(state) = store.state else {
            space.push_nothing();
            continue;
        };
        let tensor = tensor_of(&cell.parameters, bound, cell.state(state))?;
        space.push_output(tensor, &output.places);
        if let Some(steps) = space.outputs.last_mut() {
            // From the first element to that of the first computed step.
            let skip = i64::from(cell.given) * steps.strides[0] * steps.size as i64;
            steps.address = steps.address.wrapping_add_signed(skip);
        }
    }
    let expressions = pattern.expressions();
    let used = used_axes(&pattern.axes, reads, |read| space.reads[read].is_none(), &expressions);
    check_ranges(&pattern.axes, &used, &space, &bound.sizes, &expressions)?;
    let level = |axis: usize| LoopLevel {
        axis: used[axis].then_some(axis),
        extent: space.extents[axis],
        reads: space.reads.iter().map(|r| r.as_ref().map_or(0, |r| r.strides[axis])).collect(),
        outputs: space.outputs.iter().map(|o| o.strides[axis]).collect(),
    };
    let levels: Vec<LoopLevel> = (0..pattern.axes.len()).map(level).collect();
    let (outer, inner) = levels.split_at(outer);
    let first = 1 + if stage.has_rows { cell.rows } else { 0 };
    let (columns, elements) = (points(&outer[first..]), if inner.is_empty() { 0 } else { points(inner) });
    let tested = |source: &CellSource| match source {
        CellSource::Memory => false,
        CellSource::Buffer { buffer, affine, .. } => {
            let from = cell.buffers[*buffer].first_column(cell.rows);
            !affine.as_ref().is_some_and(|affine| {
                stays_inside(&pattern.axes, affine, &space, bound, &buffers[*buffer].extents, from)
            })
        }
    };
    let key = StageKey {
        loops: Loops {
            outer: outer.iter().map(|level| level.axis).collect(),
            inner: inner.iter().map(|level| level.axis).collect(),
            vector_side: Side::Inner,
            vector: 1,
            access: space.reads.iter().map(|read| read.as_ref().map(|_| VectorAccess::Strided)).collect(),
        },
        group: group(stage, &space, columns, elements, order) as u32,
        tested: stage.sources.iter().map(tested).collect(),
    };
    let plan = StagePlan { outer: outer.to_vec(), inner: inner.to_vec(), columns, elements, space };
    Ok((plan, key))
}

/// The number of neighbouring threads that share a column: a warp if these then read neighbours; otherwise just enough
/// to keep an SM busy when there are few columns.
fn group(stage: &CellStage, space: &Space, columns: i64, elements: i64, order: Order) -> i64 {
    if order != Order::Device || !stage.pattern.is_commutative() || elements < 2 {
        return 1;
    }
    let last = stage.outer();
    let along = |axis: usize| {
        let main = space.main_read().and_then(|read| space.reads[read].as_ref());
        main.map_or(0, |steps| steps.strides[axis].abs())
    };
    let (across, inward) = (along(last - 1), along(stage.pattern.axes.len() - 1));
    let most = power_of_two(elements).min(32);
    if inward == 1 && across != 1 {
        return most;
    }
    let mut group = 1;
    while group < most && columns * group * 2 <= BUSY_THREADS && group * 8 <= elements {
        group *= 2;
    }
    group
}

/// Whether all indices of a read of a buffer stay within the existing columns.
fn stays_inside(
    axes: &[Axis],
    affine: &Affine,
    space: &Space,
    bound: &BoundTensors<'_>,
    extents: &[i64],
    from: usize,
) -> bool {
    affine.rests.iter().enumerate().skip(from).all(|(dimension, rest)| {
        let Ok(rest) = bound.sizes.value(rest) else { return false };
        let (mut low, mut high) = (rest, rest);
        for (_, axis, coefficient) in affine.terms.iter().filter(|(of, ..)| *of == dimension) {
            let Some(place) = axes.iter().position(|own| own == axis) else { return false };
            let start = coefficient.saturating_mul(space.minima[place]);
            let reach = coefficient.saturating_mul((space.extents[place] - 1).max(0));
            low = low.saturating_add(start).saturating_add(reach.min(0));
            high = high.saturating_add(start).saturating_add(reach.max(0));
        }
        low >= 0 && high < extents[dimension]
    })
}

impl CellPlan {
    /// The choice in words.
    pub(in crate::te::auto) fn describe(&self) -> String {
        let groups: Vec<String> = self.key.stages.iter().map(|stage| stage.group.to_string()).collect();
        format!(
            "{} steps in one launch: {} rows in a block, {} threads for a column of each stage, {} bytes of shared memory; \
             {} blocks of {} threads",
            self.steps,
            self.key.rows,
            groups.join(", "),
            self.shared_bytes,
            self.blocks,
            self.key.threads
        )
    }
}
