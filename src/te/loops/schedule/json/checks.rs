//! Checks what no primitive does: that the stages of a document belong together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::mistake;
use crate::te::error::TeError;
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::tensor::{Operation, OperationKind, Scan, Tensor};
use crate::te::loops::schedule::group::Enclosing;
use crate::te::loops::schedule::properties::Group;
use crate::te::loops::schedule::{Attach, Relation, Schedule};

/// # Errors
/// [`ScheduleError::Json`](crate::te::ScheduleError::Json).
pub(super) fn check(schedule: &Schedule) -> Result<(), TeError> {
    check_order(schedule)?;
    check_scans(schedule)?;
    check_groups(schedule)?;
    check_places(schedule)
}

/// Checks that producers come before consumers, and that everything that is read is there, once.
fn check_order(schedule: &Schedule) -> Result<(), TeError> {
    let mut earlier: HashSet<*const Operation> = HashSet::new();
    for stage in &schedule.stages {
        let name = stage.name();
        let own = HashSet::from([Arc::as_ptr(&stage.origin), Arc::as_ptr(&stage.operation)]);
        if !own.is_disjoint(&earlier) {
            return Err(mistake(format!("{name} is computed by two stages")));
        }
        if let Some(input) = stage.operation.inputs().iter().find(|x| !earlier.contains(&Arc::as_ptr(x.operation()))) {
            return Err(mistake(format!("{name} reads {}, which no earlier stage computes", input.name())));
        }
        earlier.extend(own);
    }
    let mut axes: HashSet<Axis> = HashSet::new();
    for stage in &schedule.stages {
        let data = stage.root_axes.iter().filter(|axis| axis.kind() == AxisKind::Data).copied();
        for axis in data.chain(stage.relations.iter().flat_map(made)) {
            if !axes.insert(axis) {
                return Err(mistake(format!("{} is an axis of two stages", axis.name())));
            }
        }
    }
    let is_origin = |output: &Arc<Operation>| schedule.stages.iter().any(|stage| Arc::ptr_eq(&stage.origin, output));
    if !schedule.outputs.iter().all(is_origin) || schedule.outputs.is_empty() {
        return Err(mistake("an output is computed by no stage".to_owned()));
    }
    Ok(())
}

/// The loops that a split or fusion makes.
fn made(relation: &Relation) -> Vec<Axis> {
    match relation {
        Relation::Split { outer, inner, .. } => vec![*outer, *inner],
        Relation::Transform { to, .. } => to.clone(),
        Relation::Fuse { fused: axis, .. } | Relation::Singleton { axis } => vec![*axis],
    }
}

/// Checks that the parts of a scan, and no others, are marked as its parts.
fn check_scans(schedule: &Schedule) -> Result<(), TeError> {
    let inputs: Vec<Vec<Tensor>> = schedule.stages.iter().map(|stage| stage.operation.inputs()).collect();
    for other in &schedule.stages {
        let Some(scan) = other.operation.as_scan() else { continue };
        let inside = reading(schedule, &inputs, scan);
        for (stage, inside) in schedule.stages.iter().zip(inside) {
            let wrong = || mistake(format!("{} is not where its scan has it", stage.name()));
            let own = |tensors: &[Tensor]| tensors.iter().any(|tensor| Arc::ptr_eq(tensor.operation(), &stage.origin));
            let here = |op: &Arc<Operation>| Arc::ptr_eq(op, &other.operation);
            let init = matches!(&stage.attach, Attach::ScanInit(op) if here(op));
            let update = matches!(&stage.attach, Attach::ScanUpdate(op) if here(op));
            let body = stage.group.as_ref().is_some_and(here);
            let reads =
                !matches!(stage.operation.kind(), OperationKind::Placeholder { .. } | OperationKind::Scan(_)) && inside;
            let at_loop = matches!(stage.attach, Attach::At(..) | Attach::Inline);
            if init != own(&scan.init) || update != own(&scan.update) {
                return Err(wrong());
            }
            if reads && !update && !body && !at_loop || body && !reads {
                return Err(wrong());
            }
        }
    }
    for stage in &schedule.stages {
        let scan = match &stage.attach {
            Attach::ScanInit(scan) | Attach::ScanUpdate(scan) => Some(scan),
            _ => stage.group.as_ref(),
        };
        if scan.is_some_and(|scan| scan.as_scan().is_none() || schedule.index_of(scan).is_none()) {
            return Err(mistake(format!("{} is not where its scan has it", stage.name())));
        }
        if stage.time.is_some_and(|time| !stage.leaves.contains(&time)) {
            return Err(mistake(format!("a scan's time is not a loop of {}", stage.name())));
        }
    }
    Ok(())
}

/// The stages that read the state of a scan, directly or through others. They are inside the scan; reading its result
/// doesn't count.
fn reading(schedule: &Schedule, inputs: &[Vec<Tensor>], scan: &Scan) -> Vec<bool> {
    let mut through: HashSet<*const Operation> = scan.state.iter().map(|x| Arc::as_ptr(x.operation())).collect();
    let mut all = Vec::with_capacity(schedule.stages.len());
    for (stage, inputs) in schedule.stages.iter().zip(inputs) {
        let reads = inputs.iter().any(|x| through.contains(&Arc::as_ptr(x.operation())));
        if reads && stage.operation.as_scan().is_none_or(|other| other.state != scan.state) {
            through.extend([Arc::as_ptr(&stage.origin), Arc::as_ptr(&stage.operation)]);
        }
        all.push(reads);
    }
    all
}

/// A place from which following `next` never ends.
fn in_circle(next: &[Option<usize>]) -> Option<usize> {
    let mut ends = vec![false; next.len()];
    for start in 0..next.len() {
        let mut way = Vec::new();
        let mut at = Some(start);
        while let Some(place) = at.filter(|place| !ends[*place]) {
            if way.len() > next.len() {
                return Some(start);
            }
            way.push(place);
            at = next[place];
        }
        way.into_iter().for_each(|place| ends[place] = true);
    }
    None
}

fn check_groups(schedule: &Schedule) -> Result<(), TeError> {
    let known = |group: &Group| group.0 < schedule.groups.len();
    let scan = |operation: &Arc<Operation>| operation.as_scan().is_some() && schedule.index_of(operation).is_some();
    let parents = schedule.groups.iter().filter_map(|group| group.parent.as_ref()).all(|parent| match parent {
        Enclosing::Group(group) => known(group),
        Enclosing::Scan(operation) => scan(operation),
    });
    let mut named = HashSet::new();
    let once = |operation: &Arc<Operation>| named.insert(Arc::as_ptr(operation));
    let scans = schedule.scan_groups.iter().all(|(operation, group)| known(group) && scan(operation))
        && schedule.scan_groups.iter().map(|(operation, _)| operation).all(once);
    let members = schedule.stages.iter().filter_map(|stage| stage.member.as_ref()).all(known);
    if !parents || !scans || !members {
        return Err(mistake("a group is named that doesn't exist".to_owned()));
    }
    // The scans that are in groups come after these.
    let places: HashMap<*const Operation, usize> = (schedule.groups.len()..)
        .zip(&schedule.scan_groups)
        .map(|(place, (scan, _))| (Arc::as_ptr(scan), place))
        .collect();
    let outward = schedule.groups.iter().map(|group| match group.parent.as_ref()? {
        Enclosing::Group(group) => Some(group.0),
        Enclosing::Scan(scan) => places.get(&Arc::as_ptr(scan)).copied(),
    });
    let outward: Vec<_> = outward.chain(schedule.scan_groups.iter().map(|(_, group)| Some(group.0))).collect();
    if in_circle(&outward).is_some() {
        return Err(mistake("a group is inside itself".to_owned()));
    }
    Ok(())
}

/// Checks that every stage is placed at an existing loop outside of itself. Outputs, and stages that can't be
/// inlined, must not be inside others.
fn check_places(schedule: &Schedule) -> Result<(), TeError> {
    let ats = schedule.stages.iter().filter_map(|stage| match &stage.attach {
        Attach::At(operation, axis) => Some((operation, *axis)),
        _ => None,
    });
    for (operation, axis) in
        ats.chain(schedule.groups.iter().filter_map(|group| group.at.as_ref().map(|(o, a)| (o, *a))))
    {
        let parent = schedule.index_of(operation).map(|index| &schedule.stages[index]);
        if !parent.is_some_and(|parent| parent.root_axes.contains(&axis) || parent.has_axis(axis)) {
            return Err(mistake(format!("{} is not a loop of {}", axis.name(), operation.name())));
        }
    }
    let around: Vec<_> = (0..schedule.stages.len()).map(|stage| schedule.around(stage)).collect();
    if let Some(index) = in_circle(&around) {
        return Err(mistake(format!("{} is computed inside itself", schedule.stages[index].name())));
    }
    for (index, stage) in schedule.stages.iter().enumerate() {
        let placed = schedule.place_of(index);
        let placeholder = matches!(stage.operation.kind(), OperationKind::Placeholder { .. });
        if matches!(placed, Attach::At(..)) && (schedule.is_output(stage) || placeholder && stage.member.is_none()) {
            return Err(mistake(format!("{} can't be computed inside another stage", stage.name())));
        }
        if matches!(placed, Attach::Inline) {
            let plain = stage.operation.as_compute().is_some_and(|c| c.body.len() == 1 && !c.is_reduction());
            if !plain || schedule.is_output(stage) {
                return Err(mistake(format!("{} can't be inlined", stage.name())));
            }
        }
    }
    Ok(())
}
