//! Bound inference: the part of its tensor that each stage computes, and the memory for it.
//!
//! Stages are visited from consumers to producers. If a stage is computed inside a loop of another, it computes what
//! one iteration of that loop reads. Loops between that one and the read are relaxed: all of their iterations are
//! included. For memory that threads share, thread indices are relaxed too, wherever they are bound.

use std::collections::HashMap;
use std::sync::Arc;

use super::align::aligned_strides;
use super::readers::{Around, Counters, inside, over_axes, reads, starts_before};
use super::rolling::Rolling;
use crate::te::arith::interval::Interval;
use crate::te::arith::{Context, equal, simplify, simplify_in};
use crate::te::error::{LoweringError, ScheduleError, TeError};
use crate::te::expr::axis::{Axis, Domain};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Operation, OperationKind, Tensor};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::schedule::loops::LoopNest;
use crate::te::loops::schedule::properties::StageLayout;
use crate::te::loops::schedule::{Attach, Relation, Schedule, Stage, fix_points};

/// Loops, ranges and memory of each stage, indexed by its place in the schedule.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The loops of a computation or scan.
    pub(crate) nests: Vec<Option<LoopNest>>,
    /// One buffer for each tensor of a stage. The parts of a scan use the scan's buffers.
    pub(crate) buffers: Vec<Vec<Buffer>>,
    /// The index of a buffer's first element in the tensor, for each dimension.
    pub(crate) origins: Vec<Vec<Expr>>,
    /// Whether the program allocates a stage's buffers.
    pub(crate) internal: Vec<bool>,
    /// The buffers of values that no argument takes, where an argument takes another of their stage. The program allocates
    /// them.
    pub(crate) unasked: Vec<Buffer>,
    /// How the window moves of a stage with circular memory.
    pub(crate) rolling: Vec<Option<Rolling>>,
}

impl Plan {
    /// The circular buffers, each with its circular dimension.
    pub(crate) fn circular(&self) -> Vec<(Buffer, usize)> {
        let stages = self.buffers.iter().zip(&self.rolling);
        let of = |(buffers, rolling): (&Vec<Buffer>, &Option<Rolling>)| {
            let dimension = rolling.as_ref().map(|rolling| rolling.dimension);
            dimension
                .into_iter()
                .flat_map(|d| buffers.iter().map(move |buffer| (buffer.clone(), d)))
                .collect::<Vec<_>>()
        };
        stages.flat_map(of).collect()
    }
}

pub(crate) fn infer(schedule: &Schedule, arguments: &[&Tensor]) -> Result<Plan, TeError> {
    let count = schedule.stages.len();
    let mut nests: Vec<Option<LoopNest>> = (0..count).map(|_| None).collect();
    for index in (0..count).rev() {
        let stage = &schedule.stages[index];
        nests[index] = match stage.operation.kind() {
            OperationKind::Placeholder { .. } => None,
            OperationKind::Scan(_) => Some(LoopNest::of_whole(stage)?),
            OperationKind::Compute(_) => {
                let nest = LoopNest::new(stage, domains(schedule, arguments, &nests, index)?);
                check_whole(stage, &nest)?;
                Some(nest)
            }
        };
    }
    let mut plan = Plan {
        nests,
        buffers: vec![Vec::new(); count],
        origins: vec![Vec::new(); count],
        internal: vec![false; count],
        unasked: Vec::new(),
        rolling: vec![None; count],
    };
    for (index, stage) in schedule.stages.iter().enumerate().filter(|(_, stage)| stage.memory.rolling) {
        if let Some(nest) = &plan.nests[index] {
            plan.rolling[index] = Rolling::of(schedule, stage, &plan.nests, nest)?;
        }
    }
    // In the order of stages, scans come after their parts; the scan owns the memory.
    for index in (0..count).rev() {
        place(schedule, arguments, &mut plan, index)?;
    }
    Ok(plan)
}

/// Checks that the loops over a new layout cover all of it.
fn check_whole(stage: &Stage, nest: &LoopNest) -> Result<(), TeError> {
    let Some(compute) = stage.operation.as_compute().filter(|_| stage.layout.is_some()) else { return Ok(()) };
    let part = compute.axes.iter().find(|axis| {
        let domain = nest.domain(**axis);
        axis.domain().is_some_and(|whole| !equal(&whole.min, &domain.min) || !equal(&whole.extent, &domain.extent))
    });
    part.map_or(Ok(()), |axis| {
        let reason = format!(
            "it is computed inside another stage, where only a part of {} is needed; compute it by itself (`compute_root`)",
            axis.name()
        );
        Err(ScheduleError::Primitive { primitive: "transform_layout", stage: stage.name().to_owned(), reason }.into())
    })
}

/// The range of each root axis of a computation.
fn domains(
    schedule: &Schedule,
    arguments: &[&Tensor],
    nests: &[Option<LoopNest>],
    index: usize,
) -> Result<HashMap<Axis, Domain>, TeError> {
    let stage = &schedule.stages[index];
    let Some(compute) = stage.operation.as_compute() else { return Ok(HashMap::new()) };
    let mut domains = HashMap::new();
    for axis in compute.axes.iter().chain(&compute.reduce_axes) {
        let domain = axis.domain().unwrap_or_else(|| Domain::up_to(1));
        domains.insert(*axis, domain);
    }
    let time = compute.axes.first();
    match (&stage.attach, &stage.group) {
        (Attach::At(operation, axis), _) => {
            let needed = needed(schedule, nests, index, around(schedule, operation, *axis))?;
            domains.extend(compute.axes.iter().copied().zip(needed));
        }
        (Attach::ScanUpdate(scan), _) => {
            let scan_stage = schedule.index_of(scan);
            let axis = scan.as_scan().map(|scan| scan.axis);
            let nest = scan_stage.and_then(|i| nests[i].as_ref());
            if let (Some(nest), Some(axis), Some(time)) = (nest, axis, time) {
                domains.insert(*time, Domain::new(nest.value(axis), 1));
            }
            let slice = scan_slice(schedule, nests, scan)?.unwrap_or_default();
            domains.extend(compute.axes.iter().copied().zip(slice).skip(1));
        }
        (Attach::ScanInit(scan), _) => {
            let slice = scan_slice(schedule, nests, scan)?.unwrap_or_default();
            domains.extend(compute.axes.iter().copied().zip(slice).skip(1));
        }
        (Attach::Root, Some(scan)) => {
            let sliced = scan_slice(schedule, nests, scan)?.is_some();
            let needed = needed(schedule, nests, index, Around::Scan)?;
            // Only the required part of the time axis. It may be at any dimension, since `rfactor` can put a new one
            // before it. In a loop of one iteration the step is a number.
            let steps: &[Axis] = schedule.index_of(scan).map_or(&[], |scan| &schedule.stages[scan].leaves);
            for (axis, part) in compute.axes.iter().zip(needed) {
                let of_step = steps.iter().any(|leaf| part.min.uses(leaf.var()));
                let whole = axis.domain().and_then(|whole| whole.extent.as_int());
                let fewer = part.extent.as_int().zip(whole).is_some_and(|(part, whole)| part < whole);
                if sliced || of_step || fewer {
                    domains.insert(*axis, part);
                }
            }
        }
        (Attach::Root, None) if is_partly_computed(schedule, arguments, index) => {
            for (axis, read) in compute.axes.iter().zip(needed(schedule, nests, index, Around::Nothing)?) {
                domains.extend(axis.domain().and_then(|whole| Some((*axis, part_of(&whole, &read)?))));
            }
        }
        (Attach::Root | Attach::Inline, _) => {}
    }
    Ok(domains)
}

/// The loop of an operation inside which a stage is computed.
fn around(schedule: &Schedule, operation: &Arc<Operation>, axis: Axis) -> Around {
    schedule.index_of(operation).map_or(Around::Scan, |stage| Around::Loop(stage, axis))
}

/// Whether a stage that is computed by itself may be computed in part: nothing but other computations sees its elements,
/// and nothing in its loops asks for all of them.
fn is_partly_computed(schedule: &Schedule, arguments: &[&Tensor], index: usize) -> bool {
    let stage = &schedule.stages[index];
    let is_given = arguments.iter().any(|tensor| schedule.index_of(tensor.operation()) == Some(index));
    let is_exact = |relation: &Relation| match relation {
        Relation::Split { predicated, .. } => !predicated,
        Relation::Transform { .. } => true,
        Relation::Fuse { .. } | Relation::Singleton { .. } => false,
    };
    let readers = schedule.readers(index);
    let of_computations = readers.iter().all(|reader| schedule.stages[*reader].operation.as_compute().is_some());
    let loops_any_extent = stage.layout.is_none() && !stage.memory.rolling && !stage.relations.iter().any(is_exact);
    !schedule.is_output(stage) && !is_given && !readers.is_empty() && of_computations && loops_any_extent
}

/// The elements of a whole range that are read; `None` if these are all. Where a condition keeps reads inside, they may seem
/// to leave the range. A part of a constant range is constant, too: a schedule may need that, for example to unroll.
fn part_of(whole: &Domain, read: &Domain) -> Option<Domain> {
    let natural = |x: Expr| Context::default().proves_natural(&simplify(&x));
    let [whole_end, read_end] = [whole, read].map(|range| &range.min + &range.extent);
    let min = if natural(&read.min - &whole.min) { &read.min } else { &whole.min };
    let end = if natural(&whole_end - &read_end) { read_end } else { read_end.min(&whole_end) };
    let (min, end) = (simplify(min), simplify(&end));
    let extent = simplify(&(&end - &min));
    let is_all = equal(&min, &whole.min) && equal(&end, &whole_end);
    let is_number = min.as_int().is_some() && extent.as_int().is_some();
    if is_all || whole.extent.as_int().is_some() && !is_number {
        return None;
    }
    // Between two parts of no elements there are none.
    let extent = if natural(extent.clone()) { extent } else { simplify(&extent.max(0)) };
    Some(Domain { min, extent })
}

/// The part of a scan of one state that is computed inside a loop of a consumer: along dimensions that can be sliced,
/// what the consumer reads; along the others, everything. `None` for a scan that is computed whole.
pub(crate) fn scan_slice(
    schedule: &Schedule,
    nests: &[Option<LoopNest>],
    scan: &Arc<Operation>,
) -> Result<Option<Vec<Domain>>, TeError> {
    let (Some(index), Some(scan)) = (schedule.index_of(scan), scan.as_scan()) else { return Ok(None) };
    let Attach::At(operation, axis) = &schedule.stages[index].attach else { return Ok(None) };
    let sliceable = fix_points(scan);
    let mut slice = needed(schedule, nests, index, around(schedule, operation, *axis))?;
    let [sliceable] = sliceable.as_slice() else { return Ok(None) };
    if computes_more(schedule, index) {
        return Ok(None);
    }
    for (d, (range, extent)) in slice.iter_mut().zip(scan.state[0].shape()).enumerate() {
        if d == 0 || !sliceable[d - 1] {
            *range = Domain::up_to(extent);
        }
    }
    Ok(Some(slice))
}

/// Whether stages of a scan's body may compute more elements than a consumer needs, and so read more of the state than
/// exists: because of an uneven split, or because their memory is shared more widely than the scan's.
fn computes_more(schedule: &Schedule, scan: usize) -> bool {
    let same = |other: &Arc<Operation>| schedule.index_of(other) == Some(scan);
    let between = |stage: &&Stage| stage.group.as_ref().is_some_and(same);
    let updates = |stage: &&Stage| matches!(&stage.attach, Attach::ScanUpdate(other) if same(other));
    let splits = |stage: &Stage| stage.relations.iter().any(|relation| matches!(relation, Relation::Split { .. }));
    let nearest = default_scope(schedule, &schedule.stages[scan]);
    let is_wider = |stage: &Stage| stage.scope.is_some_and(|scope| scope < nearest);
    let mut body = schedule.stages.iter().filter(|stage| between(stage) || updates(stage));
    schedule.stages.iter().any(|stage| between(&stage)) && body.any(|stage| splits(stage) || is_wider(stage))
}

/// The range of each dimension that is read inside one iteration of a loop, or at all.
fn needed(
    schedule: &Schedule,
    nests: &[Option<LoopNest>],
    producer: usize,
    at: Around,
) -> Result<Vec<Domain>, TeError> {
    let stage = &schedule.stages[producer];
    let scope = stage.scope.unwrap_or_else(|| default_scope(schedule, stage));
    let refuse = |reason| {
        let parent = match at {
            Around::Loop(stage, _) => schedule.stages[stage].name().to_owned(),
            Around::Scan | Around::Nothing => "the scan's loop".to_owned(),
        };
        ScheduleError::ComputeAt { stage: stage.name().to_owned(), parent, reason }.into()
    };
    let whole: Vec<Domain> = stage
        .operation
        .as_compute()
        .map(|c| c.axes.iter().filter_map(|axis| axis.domain()).collect())
        .or_else(|| Some(stage.operation.as_scan()?.state[0].shape().into_iter().map(Domain::up_to).collect()))
        .unwrap_or_default();
    let mut ranges: Vec<Option<Interval>> = vec![None; whole.len()];
    let readers = schedule.readers(producer);
    if readers.is_empty() {
        return Err(refuse("nothing reads it"));
    }
    for reader in readers {
        let Counters { relaxed, fixed, unbound } = inside(schedule, nests, reader, at, scope)
            .ok_or_else(|| refuse("a stage outside that loop reads it too"))?;
        let Some(nest) = &nests[reader] else { continue };
        if matches!(at, Around::Loop(parent, axis) if parent == reader && starts_before(schedule, reader, axis, producer))
        {
            return Err(refuse("the reduction starts from it, before that loop; compute it at a loop further outside"));
        }
        let mut all = fixed.clone();
        // Outermost first: bounds then eliminate the innermost counter first.
        let running: Vec<(Var, Expr)> = relaxed.into_iter().rev().collect();
        running.iter().for_each(|(var, extent)| all.push(*var, extent));
        for indices in reads(schedule, reader, producer) {
            for (d, index) in indices.iter().enumerate() {
                let over_loops = index.substitute(&|var| {
                    let axis = schedule.stages[reader].root_axes.iter().find(|axis| axis.var() == var)?;
                    Some(nest.value(*axis))
                });
                let by_axes = || {
                    let whole_reader = !matches!(at, Around::Loop(stage, _) if stage == reader);
                    let axes = whole_reader.then(|| over_axes(&schedule.stages[reader], nest, index))??;
                    Interval::of(&axes.low, &running).zip(Interval::of(&axes.high, &running)).map(|(a, b)| a.to(b))
                };
                let by_loops = || Interval::of(&simplify_in(&over_loops, &all), &running);
                // Loops of an uneven split run over more than their axis, and skip it.
                let found = match at {
                    Around::Nothing => by_axes().or_else(by_loops),
                    Around::Loop(..) | Around::Scan => by_loops().or_else(by_axes),
                };
                // An index that data or the reader's own loops bound has no bound where it is computed.
                let varies = |x: &Expr| {
                    x.contains(|x| matches!(x.kind(), Kind::Read(..))) || running.iter().any(|(var, _)| x.uses(*var))
                };
                let range = match found.filter(|found| !varies(&found.low) && !varies(&found.high)) {
                    Some(interval) => interval.simplified(|x| simplify_in(x, &fixed)),
                    None if at == Around::Scan && stage.time_dimension() == Some(d) => {
                        return Err(refuse(
                            "which steps of it are read in one step can't be told; don't fuse a reader's time with other \
                             axes",
                        ));
                    }
                    None => Interval::new(whole[d].min.clone(), &whole[d].min + &whole[d].extent - 1),
                };
                if unbound.iter().any(|var| range.low.uses(*var) || range.high.uses(*var)) {
                    return Err(refuse(
                        "each thread would need memory of its own, but the thread index is bound further inside; compute \
                         it there, or put it in shared memory",
                    ));
                }
                ranges[d] = Some(match ranges[d].take() {
                    None => range,
                    Some(known) => known.or(range).simplified(|x| simplify_in(x, &fixed)),
                });
            }
        }
    }
    let domain = |range: Interval| Domain { extent: range.extent(), min: range.low };
    Ok(ranges.into_iter().zip(whole).map(|(range, whole)| range.map_or(whole, domain)).collect())
}

/// The scope of a stage's memory unless the schedule sets it: the narrowest that all its readers can access.
fn default_scope(schedule: &Schedule, stage: &Stage) -> Scope {
    let nearest = |thread: Thread| match thread {
        Thread::Thread(_) | Thread::Virtual => Scope::Local,
        Thread::Block(_) => Scope::Shared,
    };
    threads_around(schedule, stage).into_iter().map(nearest).max().unwrap_or(Scope::Global)
}

/// The thread indices that the loops around a stage are bound to.
pub(crate) fn threads_around(schedule: &Schedule, stage: &Stage) -> Vec<Thread> {
    let mut threads = Vec::new();
    let mut level = loop_around(schedule, stage);
    while let Some((index, axis)) = level {
        let parent = &schedule.stages[index];
        let end = parent.leaf(axis).map_or(0, |place| place + 1);
        let bound = |leaf| parent.threads.get(leaf).and_then(|thread| thread.thread());
        threads.extend(parent.leaves[..end].iter().filter_map(bound));
        level = loop_around(schedule, parent);
    }
    threads
}

/// The loop of another stage inside which a stage is computed, directly or with the scan that it belongs to.
fn loop_around(schedule: &Schedule, stage: &Stage) -> Option<(usize, Axis)> {
    let scan = match &stage.attach {
        Attach::At(operation, axis) => return Some((schedule.index_of(operation)?, *axis)),
        Attach::ScanInit(scan) | Attach::ScanUpdate(scan) => scan,
        Attach::Root => stage.group.as_ref()?,
        Attach::Inline => return None,
    };
    loop_around(schedule, &schedule.stages[schedule.index_of(scan)?])
}

/// Gives a stage its memory.
fn place(schedule: &Schedule, arguments: &[&Tensor], plan: &mut Plan, index: usize) -> Result<(), TeError> {
    let stage = &schedule.stages[index];
    if !plan.buffers[index].is_empty() {
        return Ok(());
    }
    let slice = scan_slice(schedule, &plan.nests, &stage.operation)?;
    let is_given =
        |value| arguments.iter().any(|a| schedule.index_of(a.operation()) == Some(index) && a.value() == value);
    let any_is_given = (0..stage.operation.values()).any(is_given);
    for value in 0..stage.operation.values() {
        let tensor = Tensor::new(stage.origin.clone(), value.min(stage.origin.values() - 1));
        let is_state = is_scan_state(schedule, stage);
        let required = if schedule.is_output(stage) {
            Some("an output")
        } else {
            matches!(stage.operation.kind(), OperationKind::Placeholder { .. }).then_some("an input")
        };
        if let Some(what) = required
            && !any_is_given
            && !is_state
        {
            return Err(LoweringError::MissingArgument { tensor: tensor.name(), what }.into());
        }
        if is_state {
            if stage.layout.is_some() {
                let reason = "it is a scan's state, whose memory is laid out by time".to_owned();
                let stage = stage.name().to_owned();
                return Err(ScheduleError::Primitive { primitive: "transform_layout", stage, reason }.into());
            }
            continue;
        }
        let current = Tensor::new(stage.operation.clone(), value);
        let buffer = if is_given(value) {
            argument_buffer(&current, stage.layout.as_ref())
        } else if any_is_given {
            let buffer = match &stage.layout {
                Some(layout) => {
                    Buffer::compact(&current.name(), current.dtype(), layout.map.extents.clone(), Scope::Global)
                }
                None => Buffer::compact(&current.name(), current.dtype(), current.shape(), Scope::Global),
            };
            plan.unasked.push(buffer.clone());
            buffer
        } else {
            let shape = match (&stage.operation.as_compute(), &plan.nests[index], &slice) {
                _ if stage.layout.is_some() => {
                    stage.layout.iter().flat_map(|layout| layout.map.extents.clone()).collect()
                }
                (Some(compute), Some(nest), _) => compute.axes.iter().map(|axis| nest.domain(*axis).extent).collect(),
                (_, _, Some(slice)) => slice.iter().map(|range| range.extent.clone()).collect(),
                _ => current.shape(),
            };
            plan.internal[index] = true;
            let scope = stage.scope.unwrap_or_else(|| default_scope(schedule, stage));
            let strides = aligned_strides(&shape, &stage.memory.alignments);
            Buffer::new(&current.name(), current.dtype(), shape, strides, scope)
        };
        let buffer = match &stage.layout {
            Some(layout) => buffer.with_separators(&layout.separators),
            None => buffer,
        };
        plan.buffers[index].push(buffer);
    }
    let internal = plan.internal[index];
    plan.origins[index] = match (stage.operation.as_compute(), &plan.nests[index]) {
        (Some(compute), Some(nest)) if internal => compute.axes.iter().map(|axis| nest.domain(*axis).min).collect(),
        _ => slice.iter().flatten().map(|range| range.min.clone()).collect(),
    };
    if let Some(scan) = stage.operation.as_scan() {
        for (value, buffer) in plan.buffers[index].clone().into_iter().enumerate() {
            for part in [&scan.init[value], &scan.update[value], &scan.state[value]] {
                if let Some(place) = schedule.index_of(part.operation()) {
                    plan.buffers[place].push(buffer.clone());
                    plan.origins[place] = plan.origins[index].clone();
                }
            }
        }
    }
    Ok(())
}

fn is_scan_state(schedule: &Schedule, stage: &Stage) -> bool {
    schedule
        .stages
        .iter()
        .filter_map(|s| s.operation.as_scan())
        .any(|scan| scan.state.iter().any(|state| Arc::ptr_eq(state.operation(), &stage.origin)))
}

/// The buffer of an argument. If an extent is a single size variable and all indices are flattened to one, the strides
/// are the caller's; otherwise the buffer is row-major.
pub(crate) fn argument_buffer(tensor: &Tensor, layout: Option<&StageLayout>) -> Buffer {
    let shape = layout.map_or_else(|| tensor.shape(), |layout| layout.map.extents.clone());
    let one_index = layout.is_none_or(|layout| layout.separators.is_empty());
    if one_index && shape.iter().any(|extent| extent.as_var().is_some()) {
        let strides = shape.iter().map(|_| Expr::from(crate::te::expr::var::var("stride"))).collect();
        Buffer::new(&tensor.name(), tensor.dtype(), shape, strides, Scope::Global)
    } else {
        Buffer::compact(&tensor.name(), tensor.dtype(), shape, Scope::Global)
    }
}
