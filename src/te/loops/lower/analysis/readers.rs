//! The indices at which readers read a stage, and the loops around these reads.

use crate::te::arith::Context;
use crate::te::arith::interval::Interval;
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::Compute;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::schedule::loops::LoopNest;
use crate::te::loops::schedule::{Attach, Schedule, Stage};

/// Whether a reduction's initial values or ranges read another stage, and are therefore read before the loop `axis`.
pub(crate) fn starts_before(schedule: &Schedule, reader: usize, axis: Axis, producer: usize) -> bool {
    let stage = &schedule.stages[reader];
    let Some(Kind::Reduce(reduce, _)) = stage.operation.as_compute().map(|compute| compute.body[0].kind()) else {
        return false;
    };
    let read =
        |x: &Expr| matches!(x.kind(), Kind::Read(tensor, _) if schedule.index_of(tensor.operation()) == Some(producer));
    let first = stage.leaves.iter().position(|leaf| leaf.kind() == AxisKind::Reduce);
    let inside = stage.leaf(axis).ok().zip(first).is_some_and(|(place, first)| place >= first);
    let ranges = stage.operation.as_compute().map(Compute::ranges).unwrap_or_default();
    let mut before = reduce.init.iter().chain(ranges.iter().flat_map(|range| [&range.min, &range.extent]));
    inside && before.any(|x| x.contains(read))
}

/// All indices at which a stage reads another's tensors.
pub(crate) fn reads(schedule: &Schedule, reader: usize, producer: usize) -> Vec<Vec<Expr>> {
    let mut all = Vec::new();
    let Some(compute) = schedule.stages[reader].operation.as_compute() else { return all };
    let ranges = compute.ranges();
    for x in compute.body.iter().chain(ranges.iter().flat_map(|range| [&range.min, &range.extent])) {
        x.visit(&mut |x| {
            if let Kind::Read(tensor, indices) = x.kind()
                && schedule.index_of(tensor.operation()) == Some(producer)
            {
                all.push(indices.clone());
            }
        });
    }
    all
}

/// The counters around a reader's body, as seen from the place where the producer is computed.
pub(crate) struct Counters {
    /// The counters that the producer's memory spans.
    pub(crate) relaxed: Vec<(Var, Expr)>,
    /// The others.
    pub(crate) fixed: Context,
    /// The fixed counters that are thread indices bound inside that place: they have no value there.
    pub(crate) unbound: Vec<Var>,
}

/// Loops around the place where a producer is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Around {
    /// A loop of a stage.
    Loop(usize, Axis),
    /// The loop of the scan whose steps it is a part of.
    Scan,
    /// Nothing: it is computed before its readers, for all of their iterations.
    Nothing,
}

/// `None` if the reader is not inside the place where the producer is computed.
pub(crate) fn inside(
    schedule: &Schedule,
    nests: &[Option<LoopNest>],
    reader: usize,
    at: Around,
    scope: Scope,
) -> Option<Counters> {
    let mut unbound = Vec::new();
    let mut relaxed = Vec::new();
    let mut fixed = Vec::new();
    let mut level: Option<(usize, Option<Axis>)> = Some((reader, None));
    let mut outside = false;
    while let Some((index, from)) = level {
        let (stage, nest) = (&schedule.stages[index], nests[index].as_ref()?);
        let end = match from {
            Some(axis) => stage.leaf(axis).ok()? + 1,
            None => stage.leaves.len(),
        };
        for leaf in stage.leaves[..end].iter().rev() {
            outside |= at == Around::Loop(index, *leaf);
            let thread = stage.threads.get(leaf);
            let var = thread.map_or(leaf.var(), |thread| thread.var());
            let relax = match thread.and_then(|thread| thread.thread()) {
                _ if at == Around::Nothing => true,
                Some(Thread::Block(_)) => scope == Scope::Global,
                Some(Thread::Thread(_) | Thread::Virtual) => scope.is_shared_by_threads(),
                None => !outside,
            };
            let entry = (var, nest.extent(*leaf));
            if !relax && !outside {
                unbound.push(var);
            }
            if relax { relaxed.push(entry) } else { fixed.push(entry) }
        }
        let mut around = stage;
        level = loop {
            break match &around.attach {
                Attach::At(operation, axis) => Some((schedule.index_of(operation)?, Some(*axis))),
                Attach::ScanUpdate(scan) => {
                    outside |= at == Around::Scan;
                    Some((schedule.index_of(scan)?, None))
                }
                Attach::Root if around.group.is_some() => {
                    outside |= at == Around::Scan;
                    let scan = around.group.as_ref()?;
                    Some((schedule.index_of(scan)?, None))
                }
                // It runs before its scan's loop, inside the loops around that.
                Attach::ScanInit(scan) if outside => {
                    around = &schedule.stages[schedule.index_of(scan)?];
                    continue;
                }
                Attach::Root | Attach::Inline | Attach::ScanInit(_) => None,
            };
        };
    }
    if !outside && at != Around::Nothing {
        return None;
    }
    let mut context = Context::default();
    for (var, extent) in fixed.iter().rev() {
        context.push(*var, extent);
    }
    Some(Counters { relaxed, fixed: context, unbound })
}

/// The least and the greatest value of an index over the whole ranges of a reader's axes. This is for fused loops: an
/// axis is not affine in them. `None` if the index has no bounds.
pub(crate) fn over_axes(reader: &Stage, nest: &LoopNest, index: &Expr) -> Option<Interval> {
    let axes: Vec<(Var, Expr)> = reader.root_axes.iter().map(|axis| (axis.var(), nest.domain(*axis).extent)).collect();
    let shifted = index.substitute(&|var| {
        let axis = reader.root_axes.iter().find(|axis| axis.var() == var)?;
        Some(&nest.domain(*axis).min + *axis)
    });
    Interval::of(&shifted, &axes)
}
