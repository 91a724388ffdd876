//! Makes stages of the document's. It calls the primitives, so that their checks apply.

use std::collections::HashSet;
use std::mem::discriminant;
use std::sync::Arc;

use super::checks::check;
use super::document::{self, Document, JsonPlace, LoopPlace, Parent};
use super::names::Name;
use super::nodes::Nodes;
use super::{limits, mistake};
use crate::te::arith::equal;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{Operation, Tensor};
use crate::te::loops::ir::stmt::LoopKind;
use crate::te::loops::schedule::group::{Enclosing, Membership};
use crate::te::loops::schedule::properties::{AppliedPrimitive, Group};
use crate::te::loops::schedule::{Attach, Relation, Schedule, SplitBy, Stage};

pub(super) fn read_schedule(document: Document) -> Result<(Schedule, Vec<Tensor>), TeError> {
    let nodes = Nodes::read(&document.nodes)?;
    let given = document.schedule;
    limits::STAGES.check(given.stages.len())?;
    limits::GROUPS.check(given.groups.len())?;
    let stages = given.stages.iter().map(|stage| read_stage(&nodes, stage)).collect::<Result<_, _>>()?;
    let outputs = nodes.operations.all(&given.outputs)?;
    let group = |group: &document::Group| {
        let parent = group.parent.as_ref().map(|parent| {
            Ok::<_, TeError>(match *parent {
                Parent::Group(group) => Enclosing::Group(Group(group)),
                Parent::Scan(scan) => Enclosing::Scan(nodes.operations.get(scan)?),
            })
        });
        let at = group.at.map(|at| read_place(&nodes, at)).transpose()?;
        Ok::<_, TeError>(Membership { parent: parent.transpose()?, at })
    };
    let groups = given.groups.iter().map(group).collect::<Result<_, _>>()?;
    let scan_group = |(scan, group): &(usize, usize)| Ok::<_, TeError>((nodes.operations.get(*scan)?, Group(*group)));
    let scan_groups = given.scan_groups.iter().map(scan_group).collect::<Result<_, _>>()?;
    let record = document.record.into_iter().map(AppliedPrimitive::new).collect();
    let mut schedule = Schedule { stages, outputs, groups, scan_groups, record };
    check(&schedule)?;
    schedule.check_origins()?;
    for (index, stage) in given.stages.iter().enumerate() {
        lay_out(&nodes, &mut schedule, index, stage)?;
    }
    // Reading applies primitives, which are in the record already.
    schedule.stages.iter_mut().for_each(|stage| stage.record.clear());
    let tensors = document.tensors.iter().map(|tensor| nodes.tensor(*tensor)).collect::<Result<Vec<_>, _>>()?;
    tensors.iter().try_for_each(|tensor| schedule.index(tensor).map(drop))?;
    Ok((schedule, tensors))
}

fn read_place(nodes: &Nodes, (operation, axis): LoopPlace) -> Result<(Arc<Operation>, Axis), TeError> {
    Ok((nodes.operations.get(operation)?, nodes.axes.get(axis)?))
}

/// Whether two shapes are the same.
fn alike(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || equal(a, b))
}

fn read_stage(nodes: &Nodes, given: &document::Stage) -> Result<Stage, TeError> {
    let (origin, operation) = (nodes.operations.get(given.origin)?, nodes.operations.get(given.operation)?);
    let alike = origin.values() == operation.values()
        && (0..origin.values()).all(|v| {
            let (a, b) = (Tensor::new(origin.clone(), v), Tensor::new(operation.clone(), v));
            a.dtype() == b.dtype() && alike(&a.shape(), &b.shape())
        });
    let same_kind = discriminant(origin.kind()) == discriminant(operation.kind());
    if !alike || !same_kind || origin.as_compute().is_none() && !Arc::ptr_eq(&origin, &operation) {
        return Err(mistake(format!("{} is computed as something else", origin.name())));
    }
    let mut stage = Stage::new(operation);
    stage.origin = origin;
    for relation in &given.relations {
        relate(nodes, &mut stage, relation)?;
    }
    let loops = nodes.axes.all(&given.loops)?;
    let own: HashSet<Axis> = stage.leaves.iter().copied().collect();
    let whole = loops.len() == stage.leaves.len() && loops.iter().copied().collect::<HashSet<_>>() == own;
    if !whole || stage.operation.as_scan().is_some() && loops != stage.leaves {
        return Err(mistake(format!("the loops of {} are not those that its axes were made into", stage.name())));
    }
    stage.leaves = loops;
    for (axis, thread) in &given.threads {
        stage.bind(nodes.axes.get(*axis)?, nodes.axes.get(*thread)?)?;
    }
    for (axis, Name(kind)) in &given.kinds {
        let axis = nodes.axes.get(*axis)?;
        match kind {
            LoopKind::Vectorized => stage.vectorize(axis)?,
            LoopKind::Parallel => stage.parallel(axis)?,
            LoopKind::Unrolled => stage.unroll(axis)?,
            LoopKind::Serial => {}
        }
    }
    if let Some(predicate) = given.store_predicate {
        stage.set_store_predicate(nodes.expressions.get(predicate)?)?;
    }
    if !given.env_threads.is_empty() {
        stage.env_threads(&nodes.axes.all(&given.env_threads)?)?;
    }
    for (axis, key, value) in &given.pragmas {
        stage.pragma(nodes.axes.get(*axis)?, key, *value)?;
    }
    if let Some(name) = &given.scope {
        stage.scope = Some(Scope::parse(name).ok_or_else(|| ScheduleError::Scope { name: name.clone() })?);
    }
    stage.group = given.scan.map(|scan| nodes.operations.get(scan)).transpose()?;
    stage.member = given.group.map(Group);
    stage.attach = match given.place {
        JsonPlace::Root => Attach::Root,
        JsonPlace::Inline => Attach::Inline,
        JsonPlace::At(at) => {
            let (operation, axis) = read_place(nodes, at)?;
            Attach::At(operation, axis)
        }
        JsonPlace::InitOf(scan) => Attach::ScanInit(nodes.operations.get(scan)?),
        JsonPlace::UpdateOf(scan) => Attach::ScanUpdate(nodes.operations.get(scan)?),
    };
    if stage.group.is_some() || matches!(stage.attach, Attach::ScanUpdate(_)) {
        stage.time = stage.root_axes.get(given.time.unwrap_or(0)).copied();
    }
    Ok(stage)
}

/// Applies the memory options of a stage. Only intermediate tensors have any.
fn lay_out(nodes: &Nodes, schedule: &mut Schedule, index: usize, given: &document::Stage) -> Result<(), TeError> {
    let output = schedule.is_output(&schedule.stages[index]);
    let stage = &mut schedule.stages[index];
    stage.output = output;
    for (dimension, factor, offset) in &given.aligned {
        stage.storage_align(stage.operation.axis(*dimension)?, *factor, *offset)?;
    }
    if given.double_buffer {
        stage.double_buffer()?;
    }
    if given.rolling_buffer {
        stage.rolling_buffer()?;
    }
    for (tensor, axis, offset) in &given.prefetches {
        stage.prefetch(&nodes.tensor(*tensor)?, nodes.axes.get(*axis)?, nodes.expressions.get(*offset)?)?;
    }
    Ok(())
}

/// Adds a relation between loops that the stage has and new ones.
fn relate(nodes: &Nodes, stage: &mut Stage, given: &document::Relation) -> Result<(), TeError> {
    let wrong = |axis: Axis, why: &str| mistake(format!("{}: {} {why}", stage.name(), axis.name()));
    let leaf = |place: usize| {
        let axis = nodes.axes.get(place)?;
        let free = axis.kind() != AxisKind::Thread && (stage.operation.as_scan().is_some() || stage.leaf(axis).is_ok());
        let at = stage.leaf(axis).ok().filter(|_| free);
        Ok::<_, TeError>((axis, at.ok_or_else(|| wrong(axis, "is split or fused, but is no loop of the stage"))?))
    };
    let fresh = |place: usize, kind: AxisKind, single: bool| {
        let axis = nodes.axes.get(place)?;
        let known = stage.root_axes.contains(&axis) || stage.has_axis(axis);
        let range = if single { axis.domain() == Some(Domain::up_to(1)) } else { axis.domain().is_none() };
        let fits = !known && axis.kind() == kind && range;
        if fits {
            Ok(axis)
        } else {
            Err(wrong(axis, "is not a new axis of the kind and range of a loop that was made"))
        }
    };
    match *given {
        document::Relation::Factor { split: [parent, outer, inner], factor: by, predicated }
        | document::Relation::Parts { split: [parent, outer, inner], parts: by, predicated } => {
            let (parent, at) = leaf(parent)?;
            let size = nodes.size(by)?;
            if size.as_int().is_some_and(|x| x <= 0) || outer == inner {
                return Err(wrong(parent, "is split by less than 1, or into one loop twice"));
            }
            let (outer, inner) = (fresh(outer, parent.kind(), false)?, fresh(inner, parent.kind(), false)?);
            let by = match given {
                document::Relation::Parts { .. } => SplitBy::Parts(size),
                _ => SplitBy::Factor(size),
            };
            stage.relations.push(Relation::Split { parent, outer, inner, by, predicated });
            stage.leaves.splice(at..=at, [outer, inner]);
        }
        document::Relation::Fuse { fuse: [outer, inner, fused] } => {
            let ((outer, first), (inner, second)) = (leaf(outer)?, leaf(inner)?);
            if first == second {
                return Err(wrong(outer, "is fused with itself"));
            }
            let fused = fresh(fused, outer.kind().max(inner.kind()), false)?;
            stage.relations.push(Relation::Fuse { outer, inner, fused });
            stage.leaves[first] = fused;
            stage.leaves.remove(second);
        }
        document::Relation::Singleton { singleton } => {
            let axis = fresh(singleton, AxisKind::Data, true)?;
            stage.relations.push(Relation::Singleton { axis });
            stage.leaves.insert(0, axis);
        }
    }
    Ok(())
}
