//! Chooses the kernel of a reduction: which threads share an output, and how many.

use crate::te::auto::bind::iteration_space::{LoopLevel, Space, Steps, points};
use crate::te::auto::gpu::emit::element::reads_in_registers;
use crate::te::auto::gpu::emit::loops::{Loops, Side, VectorAccess};
use crate::te::auto::gpu::key::{ReduceKey, ThreadMapping, value_bytes};
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;
use crate::te::auto::pattern::reads::refused;
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;

/// The largest count of chunks, outputs or parts: a kernel counts in 31 bits.
pub(in crate::te::auto) const LIMIT: i64 = i32::MAX as i64;
/// The usual number of threads of a block.
const THREADS: u32 = 256;
/// Bytes of shared memory that a block gets without a request (CUDA C++ Programming Guide, "Technical Specifications").
const SHARED_BYTES: usize = 48 << 10;
/// The number of threads that an SM certainly runs at once, given the registers of these kernels. They keep enough
/// loads in flight. With more, some blocks would start only after others end, and would leave the device half empty
/// then.
const THREADS_PER_SM: i64 = 1024;

/// Bytes of a thread's registers that may hold elements from one pass to the next.
const HELD_BYTES: i64 = 128;

/// From this many elements of an output on, several launches cost less than one block that has all of them.
const LONG: i64 = 1 << 17;

/// A kernel and its launch.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct Plan {
    pub(in crate::te::auto) key: ReduceKey,
    pub(in crate::te::auto) outer: Vec<LoopLevel>,
    pub(in crate::te::auto) inner: Vec<LoopLevel>,
    /// Number of outputs, or of chunks of outputs.
    pub(in crate::te::auto) outputs: i64,
    pub(in crate::te::auto) full_outputs: i64,
    /// Number of chunks of elements, or of elements, of one output.
    pub(in crate::te::auto) chunks: i64,
    pub(in crate::te::auto) full_chunks: i64,
    /// Number of points of the loop that takes several at once.
    pub(in crate::te::auto) points: i64,
    pub(in crate::te::auto) splits: i64,
    pub(in crate::te::auto) blocks: i64,
}

impl Plan {
    /// Number of tuples in the workspace.
    pub(in crate::te::auto) fn partials(&self) -> i64 {
        if !self.key.split {
            0
        } else if self.key.loops.vector_side == Side::Outer {
            self.splits * self.outputs * self.key.loops.vector as i64
        } else {
            self.splits * self.outputs
        }
    }

    /// Whether most of the device would be idle for long, because one block has all elements of an output.
    pub(in crate::te::auto) fn is_starved(&self, multiprocessors: u32) -> bool {
        let room = i64::from(multiprocessors.max(1)) * THREADS_PER_SM;
        let elements =
            self.chunks * if self.key.loops.vector_side == Side::Inner { self.key.loops.vector as i64 } else { 1 };
        self.blocks * i64::from(self.key.threads) * 8 <= room && elements >= LONG
    }

    /// Number of counters in the workspace.
    pub(in crate::te::auto) fn counters(&self) -> i64 {
        if self.key.split { self.blocks } else { 0 }
    }
}

/// Chooses the kernel. `multiprocessors` is the device's number of SMs; it matters only if the order of the elements
/// may depend on the device.
pub(in crate::te::auto) fn choose(
    reduction: &Reduction,
    space: &Space,
    used: &[bool],
    order: Order,
    multiprocessors: u32,
) -> Result<Plan, TeError> {
    let outer: Vec<usize> = (0..reduction.outer).collect();
    let inner: Vec<usize> = (reduction.outer..reduction.axes.len()).collect();
    let any_order = reduction.passes.is_empty() || (order == Order::Device && reduction.is_commutative());
    let outer = space.levels(&outer, used, true);
    let inner = space.levels(&inner, used, any_order);
    let problem = Problem { reduction, space, outer, inner, order, multiprocessors: i64::from(multiprocessors) };
    if reduction.passes.is_empty() {
        return problem.points();
    }
    if problem.along_outputs() { problem.columns() } else { problem.rows() }
}

struct Problem<'a> {
    reduction: &'a Reduction,
    space: &'a Space,
    outer: Vec<LoopLevel>,
    inner: Vec<LoopLevel>,
    order: Order,
    multiprocessors: i64,
}

impl Problem<'_> {
    /// Whether neighbours in memory belong to neighbouring outputs, not to one output.
    fn along_outputs(&self) -> bool {
        if self.order == Order::Shape {
            return false;
        }
        let Some(main) = self.space.main_read() else { return false };
        let step = |levels: &[LoopLevel]| levels.last().map_or(0, |level| level.reads[main]);
        match (step(&self.outer), step(&self.inner)) {
            (0, _) => false,
            (_, 0) => !self.has_chosen_rows(),
            (outer, inner) => outer < inner,
        }
    }

    /// Whether an output's elements are neighbours in rows that indices choose, as in embeddings: the last index is the
    /// innermost axis.
    fn has_chosen_rows(&self) -> bool {
        let last = self.inner.last().and_then(|level| Some(self.reduction.axes[level.axis?].var()));
        let mut reads = self.reduction.reads.list.iter().zip(&self.space.reads);
        last.is_some()
            && reads.any(|(read, steps)| steps.is_none() && read.indices.last().and_then(Expr::as_var) == last)
    }

    fn levels(&self, side: Side) -> &[LoopLevel] {
        match side {
            Side::Outer => &self.outer,
            Side::Inner => &self.inner,
        }
    }

    /// The number of threads that the device runs at once.
    fn room(&self) -> i64 {
        let multiprocessors = if self.order == Order::Shape { 108 } else { self.multiprocessors.max(1) };
        multiprocessors * THREADS_PER_SM
    }

    fn is_exact(&self) -> bool {
        self.order == Order::Exact
    }

    fn is_ordered(&self) -> bool {
        self.is_exact() || !self.reduction.is_commutative()
    }

    /// How many points of the last loop of `side` are read at once: as many as fill 16 bytes of the narrowest
    /// contiguous read, and as the alignment of all contiguous reads allows.
    fn vector(&self, side: Side) -> i64 {
        let Some(last) = self.levels(side).last() else { return 1 };
        if self.order == Order::Shape && !self.reduction.passes.is_empty() {
            return 1;
        }
        let packed: Vec<usize> = (0..self.space.reads.len())
            .filter(|r| self.reduction.is_of_points(*r) && self.space.reads[*r].is_some() && last.reads[*r] == 1)
            .collect();
        let narrowest = packed.iter().filter_map(|r| self.space.reads[*r].as_ref().map(|s| s.size)).min();
        let mut vector = narrowest.map_or(1, |size| 16 / size as i64);
        if self.value_bytes() > 8 {
            vector = vector.min(4);
        }
        while vector > 1 && !self.fits(side, vector, &packed) {
            vector /= 2;
        }
        vector
    }

    fn fits(&self, side: Side, vector: i64, packed: &[usize]) -> bool {
        let (levels, other) = (self.levels(side), self.levels(opposite(side)));
        let Some((last, before)) = levels.split_last() else { return false };
        // A chunk never continues beyond its loop's end, except the last one.
        let whole = before.is_empty() || last.extent % vector == 0;
        whole && last.extent >= vector && packed.iter().all(|read| self.is_aligned(*read, vector, before, other))
    }

    fn is_aligned(&self, read: usize, vector: i64, before: &[LoopLevel], other: &[LoopLevel]) -> bool {
        let Some(steps) = &self.space.reads[read] else { return false };
        let bytes = (vector * steps.size as i64).min(16);
        steps.address.is_multiple_of(bytes.unsigned_abs())
            && before.iter().chain(other).all(|level| level.reads[read] * steps.size as i64 % bytes == 0)
    }

    fn loops(&self, side: Side, vector: i64) -> Loops {
        let step = |read: usize| self.levels(side).last().map_or(0, |level| level.reads[read]);
        let access = (0..self.space.reads.len()).map(|read| {
            self.space.reads[read].as_ref().map(|_| match step(read) {
                0 => VectorAccess::One,
                1 if self.packs(side, read, vector) => VectorAccess::Packed,
                _ => VectorAccess::Strided,
            })
        });
        Loops {
            outer: self.outer.iter().map(|level| level.axis).collect(),
            inner: self.inner.iter().map(|level| level.axis).collect(),
            vector_side: side,
            vector: vector as usize,
            access: access.collect(),
        }
    }

    fn packs(&self, side: Side, read: usize, vector: i64) -> bool {
        let Some((_, before)) = self.levels(side).split_last() else { return false };
        self.is_aligned(read, vector, before, self.levels(opposite(side)))
    }

    /// For each output of points, whether several elements are stored at once.
    fn packed_outputs(&self, side: Side, vector: i64) -> Vec<bool> {
        let levels = || self.outer.iter().chain(&self.inner);
        let packed = |(place, steps): (usize, &Steps)| {
            let bytes = (vector * steps.size as i64).min(16);
            let whole = levels()
                .all(|level| level.outputs[place] == 1 || level.outputs[place] * steps.size as i64 % bytes == 0);
            let neighbours = self.levels(side).last().is_some_and(|level| level.outputs[place] == 1);
            self.reduction.outputs[place].of_point
                && vector > 1
                && neighbours
                && whole
                && steps.address.is_multiple_of(bytes.unsigned_abs())
        };
        self.space.outputs.iter().enumerate().map(packed).collect()
    }

    /// The number of chunks of an output's elements, and how many of them are full.
    fn chunks(&self, vector: i64) -> Result<(i64, i64), TeError> {
        let (full, rest) = (points(&self.inner) / vector, points(&self.inner) % vector);
        let last = i64::from(self.inner.len() <= 1 && rest != 0);
        Ok((limited(full + last, "elements of an output")?, full))
    }

    /// The most bytes of a tuple that a pass reduces.
    fn value_bytes(&self) -> i64 {
        self.reduction.passes.iter().map(|pass| value_bytes(&pass.types())).max().unwrap_or(0) as i64
    }

    /// The number of chunks that a thread keeps in registers, if all chunks are full and a thread has at most `each`.
    fn chunks_in_registers(&self, loops: &Loops, each: i64) -> u32 {
        if !self.reduction.comes_back() || self.is_ordered() {
            return 0;
        }
        let reads = reads_in_registers(self.reduction, loops).into_iter().enumerate();
        let first = reads.filter(|(read, first)| *first == Some(*read));
        let bytes = first.map(|(read, _)| self.space.reads[read].as_ref().map_or(0, |steps| steps.size));
        let bytes = bytes.sum::<usize>() as i64 * loops.vector as i64;
        let each = power_of_two(each);
        if (1..=HELD_BYTES).contains(&bytes.saturating_mul(each)) { each as u32 } else { 0 }
    }

    /// The plan without a reduction: every point is computed separately.
    fn points(&self) -> Result<Plan, TeError> {
        let vector = self.vector(Side::Inner);
        let (chunks, full_chunks) = self.chunks(vector)?;
        let threads = i64::from(THREADS);
        let registers = self.space.reads.len().max(1) as i64 * vector;
        let crowded = (chunks / (threads * self.multiprocessors.max(1))).max(1);
        let unroll = previous_power_of_two((32 / registers).clamp(1, 4).min(crowded));
        let key = ReduceKey {
            loops: self.loops(Side::Inner, vector),
            mapping: ThreadMapping::Points,
            threads: THREADS,
            unroll: unroll as u32,
            packed_outputs: self.packed_outputs(Side::Inner, vector),
            chunks_in_registers: 0,
            even: false,
            split: false,
            ordered: false,
            exact: false,
            contract: self.order == Order::Device,
        };
        Ok(Plan {
            key,
            points: self.inner.last().map_or(1, |level| level.extent),
            outer: self.outer.clone(),
            inner: self.inner.clone(),
            outputs: 1,
            full_outputs: 1,
            chunks,
            full_chunks,
            splits: 1,
            blocks: (chunks + threads * unroll - 1) / (threads * unroll),
        })
    }

    fn rows(&self) -> Result<Plan, TeError> {
        let vector = self.vector(Side::Inner);
        let last = self.inner.last().map_or(1, |level| level.extent);
        let outputs = limited(points(&self.outer), "outputs")?;
        let (chunks, full_chunks) = self.chunks(vector)?;
        let (mut group, mut threads, mut splits) = (1, i64::from(THREADS), 1);
        if !self.is_exact() {
            let most = i64::from(THREADS);
            group = power_of_two((chunks + 3) / 4).max(power_of_two(chunks).min(8)).min(most);
            if outputs.saturating_mul(group) < self.room() {
                group = power_of_two(chunks).min(most);
            }
            if self.reduction.in_one_block {
                // One block has all elements of an output, because it visits them again.
                let widest = if self.order == Order::Shape { 512 } else { 1024 };
                group = power_of_two((chunks + 3) / 4).max(power_of_two(chunks).min(8)).min(widest);
                threads = group.max(most);
            } else if group == most {
                let room = self.room() / threads;
                // Larger blocks are preferred to more blocks.
                if outputs * 4 <= room && chunks >= 4 * 1024 && outputs < room / 8 && self.value_bytes() <= 16 {
                    threads = 512;
                    group = 512;
                }
                splits = (self.room() / threads / outputs.max(1)).min(chunks / (threads * 4)).clamp(1, 4096);
            }
        }
        let loops = self.loops(Side::Inner, vector);
        let chunks_in_registers =
            if full_chunks == chunks { self.chunks_in_registers(&loops, (chunks + group - 1) / group) } else { 0 };
        let key = ReduceKey {
            chunks_in_registers,
            even: chunks_in_registers > 0 && chunks == i64::from(chunks_in_registers) * group,
            loops,
            mapping: ThreadMapping::Rows { group: group as u32 },
            threads: threads as u32,
            unroll: self.unroll(vector, chunks / (group * splits)),
            packed_outputs: self.packed_outputs(Side::Inner, vector),
            split: splits > 1,
            ordered: self.is_ordered(),
            exact: self.is_exact(),
            contract: self.order == Order::Device,
        };
        let blocks = (outputs + threads / group - 1) / (threads / group);
        Ok(Plan {
            key,
            outer: self.outer.clone(),
            inner: self.inner.clone(),
            outputs,
            full_outputs: outputs,
            chunks,
            full_chunks,
            points: last,
            splits,
            blocks,
        })
    }

    fn columns(&self) -> Result<Plan, TeError> {
        let bytes = self.value_bytes().max(1);
        let vector = self.vector(Side::Outer).min(if bytes > 8 { 2 } else { 8 });
        let vector =
            if self.outer.last().is_some_and(|s| self.outer.len() > 1 && s.extent % vector != 0) { 1 } else { vector };
        let all = limited(points(&self.outer), "outputs")?;
        let elements = limited(points(&self.inner), "elements of an output")?;
        let outputs = (all + vector - 1) / vector;
        let across = power_of_two(outputs).min(32);
        let (mut along, mut splits) = (1, 1);
        if !self.is_exact() {
            let most = previous_power_of_two(SHARED_BYTES as i64 / (bytes * vector * across)).min(1024 / across);
            along = (i64::from(THREADS) / across).min(power_of_two(elements)).min(most);
            let blocks = (outputs + across - 1) / across;
            if blocks * across * along < self.room() {
                along = most.min(power_of_two((elements + 3) / 4)).max(along);
                if !self.reduction.in_one_block {
                    splits =
                        (self.room() / (across * along) / blocks.max(1)).min(elements / (along * 4)).clamp(1, 4096);
                }
            }
        }
        let threads = (across * along).max(32);
        let across = if across * along < 32 { 32 / along } else { across };
        let full_outputs = if all % vector == 0 { outputs } else { outputs - 1 };
        let loops = self.loops(Side::Outer, vector);
        let chunks_in_registers =
            if full_outputs == outputs { self.chunks_in_registers(&loops, (elements + along - 1) / along) } else { 0 };
        let key = ReduceKey {
            chunks_in_registers,
            even: chunks_in_registers > 0 && elements == i64::from(chunks_in_registers) * along,
            loops,
            mapping: ThreadMapping::Columns { across: across as u32 },
            threads: threads as u32,
            unroll: self.unroll(vector, elements / (along * splits)),
            packed_outputs: self.packed_outputs(Side::Outer, vector),
            split: splits > 1,
            ordered: self.is_ordered(),
            exact: self.is_exact(),
            contract: self.order == Order::Device,
        };
        Ok(Plan {
            key,
            points: self.outer.last().map_or(1, |level| level.extent),
            outer: self.outer.clone(),
            inner: self.inner.clone(),
            outputs,
            full_outputs,
            chunks: elements,
            full_chunks: elements,
            splits,
            blocks: (outputs + across - 1) / across,
        })
    }

    /// The number of chunks in flight per thread: enough to hide the memory's latency, and few enough for the
    /// registers.
    fn unroll(&self, vector: i64, chunks: i64) -> u32 {
        let registers = (self.value_bytes() * vector / 4).max(1);
        previous_power_of_two((32 / registers).clamp(2, 8).min(chunks)) as u32
    }
}

fn opposite(side: Side) -> Side {
    match side {
        Side::Outer => Side::Inner,
        Side::Inner => Side::Outer,
    }
}

pub(in crate::te::auto) fn limited(count: i64, what: &str) -> Result<i64, TeError> {
    if count <= LIMIT { Ok(count) } else { Err(refused(&format!("{count} {what} (the most is {LIMIT})"))) }
}

/// The smallest power of two that is at least `x`, and at least 1.
pub(in crate::te::auto) fn power_of_two(x: i64) -> i64 {
    x.max(1).unsigned_abs().next_power_of_two() as i64
}

/// The largest power of two that is at most `x`, but at least 1.
fn previous_power_of_two(x: i64) -> i64 {
    1 << x.max(1).ilog2()
}
