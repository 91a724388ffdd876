//! Reads stages from JSON. It calls the primitives, so that their checks apply.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::nodes::{Nodes, elements, list, member, only, place, shortened, text, truth};
use super::{limits, mistake, names};
use crate::te::arith::equal;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{Operation, OperationKind, Scan, Tensor};
use crate::te::loops::ir::stmt::LoopKind;
use crate::te::loops::schedule::group::{Enclosing, Membership};
use crate::te::loops::schedule::properties::{Group, Step};
use crate::te::loops::schedule::{Attach, Relation, Schedule, SplitBy, Stage};

pub(super) fn read_schedule(value: &Value) -> Result<(Schedule, Vec<Tensor>), TeError> {
    only(value, &["format", "version", "nodes", "schedule", "record", "tensors"])?;
    let nodes = Nodes::read(list(value, "nodes")?)?;
    let given = member(value, "schedule")?;
    only(given, &["stages", "outputs", "groups", "scan_groups"])?;
    limits::STAGES.check(list(given, "stages")?.len())?;
    limits::GROUPS.check(list(given, "groups")?.len())?;
    let mut stages = Vec::new();
    for stage in list(given, "stages")? {
        stages.push(read_stage(&nodes, stage)?);
    }
    let mut outputs = Vec::new();
    for output in list(given, "outputs")? {
        outputs.push(nodes.operation(output)?);
    }
    let mut groups = Vec::new();
    for group in list(given, "groups")? {
        groups.push(read_group(&nodes, group)?);
    }
    let mut scan_groups = Vec::new();
    for pair in list(given, "scan_groups")? {
        let [scan, group] = elements(pair)? else { return Err(mistake(format!("{} is not a pair", shortened(pair)))) };
        scan_groups.push((nodes.operation(scan)?, Group(place(group)?)));
    }
    // Reading applies primitives, which are in the record already.
    let mut record = Vec::new();
    for step in list(value, "record")? {
        let step = step.as_str().ok_or_else(|| mistake(format!("{} is not a step of the record", shortened(step))))?;
        record.push(Step::new(step.to_owned()));
    }
    let schedule = Schedule { stages, outputs, groups, scan_groups, record };
    check_order(&schedule)?;
    check_scans(&schedule)?;
    check_groups(&schedule)?;
    check_places(&schedule)?;
    schedule.check_origins()?;
    let mut schedule = schedule;
    for (index, stage) in list(given, "stages")?.iter().enumerate() {
        lay_out(&nodes, &mut schedule, index, stage)?;
    }
    schedule.stages.iter_mut().for_each(|stage| stage.record.clear());
    let mut tensors = Vec::new();
    for tensor in list(value, "tensors")? {
        let tensor = nodes.tensor(tensor)?;
        schedule.index(&tensor)?;
        tensors.push(tensor);
    }
    Ok((schedule, tensors))
}

fn optional<'a>(object: &'a Value, name: &str) -> Result<Option<&'a Value>, TeError> {
    Ok(Some(member(object, name)?).filter(|value| !value.is_null()))
}

fn read_place(nodes: &Nodes, value: &Value) -> Result<(Arc<Operation>, Axis), TeError> {
    match elements(value)? {
        [operation, axis] => Ok((nodes.operation(operation)?, nodes.axis(axis)?)),
        _ => Err(mistake(format!("{} is not a loop of a stage", shortened(value)))),
    }
}

fn read_group(nodes: &Nodes, value: &Value) -> Result<Membership, TeError> {
    only(value, &["parent", "at"])?;
    let parent = match optional(value, "parent")? {
        None => None,
        Some(parent) if parent.get("scan").is_some() => {
            only(parent, &["scan"])?;
            Some(Enclosing::Scan(nodes.operation(&parent["scan"])?))
        }
        Some(parent) => {
            only(parent, &["group"])?;
            Some(Enclosing::Group(Group(place(member(parent, "group")?)?)))
        }
    };
    let at = optional(value, "at")?.map(|at| read_place(nodes, at)).transpose()?;
    Ok(Membership { parent, at })
}

/// Whether two shapes are the same.
fn alike(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || equal(a, b))
}

/// The members of a stage.
const STAGE: [&str; 18] = [
    "origin",
    "operation",
    "relations",
    "loops",
    "kinds",
    "threads",
    "place",
    "scan",
    "group",
    "time",
    "scope",
    "store_predicate",
    "env_threads",
    "pragmas",
    "aligned",
    "double_buffer",
    "rolling_buffer",
    "prefetches",
];

fn read_stage(nodes: &Nodes, value: &Value) -> Result<Stage, TeError> {
    only(value, &STAGE)?;
    let origin = nodes.operation(member(value, "origin")?)?;
    let operation = nodes.operation(member(value, "operation")?)?;
    let alike = origin.values() == operation.values()
        && (0..origin.values()).all(|v| {
            let (a, b) = (Tensor::new(origin.clone(), v), Tensor::new(operation.clone(), v));
            a.dtype() == b.dtype() && alike(&a.shape(), &b.shape())
        });
    let same_kind = std::mem::discriminant(origin.kind()) == std::mem::discriminant(operation.kind());
    if !alike || !same_kind || origin.as_compute().is_none() && !Arc::ptr_eq(&origin, &operation) {
        return Err(mistake(format!("{} is computed as something else", origin.name())));
    }
    let mut stage = Stage::new(operation);
    stage.origin = origin;
    for relation in list(value, "relations")? {
        relate(nodes, &mut stage, relation)?;
    }
    let loops = nodes.axes(list(value, "loops")?)?;
    let own: HashSet<Axis> = stage.leaves.iter().copied().collect();
    let whole = loops.len() == stage.leaves.len() && loops.iter().copied().collect::<HashSet<_>>() == own;
    if !whole || stage.operation.as_scan().is_some() && loops != stage.leaves {
        return Err(mistake(format!("the loops of {} are not those that its axes were made into", stage.name())));
    }
    stage.leaves = loops;
    for pair in list(value, "threads")? {
        match nodes.axes(elements(pair)?)?.as_slice() {
            [axis, thread] => stage.bind(*axis, *thread)?,
            _ => return Err(mistake(format!("{} is not a pair", shortened(pair)))),
        }
    }
    for pair in list(value, "kinds")? {
        let [axis, kind] = elements(pair)? else { return Err(mistake(format!("{} is not a pair", shortened(pair)))) };
        let axis = nodes.axis(axis)?;
        match kind.as_str().and_then(names::parse_loop_kind) {
            Some(LoopKind::Vectorized) => stage.vectorize(axis)?,
            Some(LoopKind::Parallel) => stage.parallel(axis)?,
            Some(LoopKind::Unrolled) => stage.unroll(axis)?,
            Some(LoopKind::Serial) => {}
            None => return Err(mistake(format!("{kind} is not a kind of loop"))),
        }
    }
    if let Some(predicate) = optional(value, "store_predicate")? {
        stage.set_store_predicate(nodes.expression(predicate)?)?;
    }
    let threads = nodes.axes(list(value, "env_threads")?)?;
    if !threads.is_empty() {
        stage.env_threads(&threads)?;
    }
    for said in list(value, "pragmas")? {
        let [axis, key, number] = elements(said)? else {
            return Err(mistake(format!("{} is not a pragma", shortened(said))));
        };
        let number = number.as_i64().ok_or_else(|| mistake(format!("{} is not a pragma", shortened(said))))?;
        let key = key.as_str().ok_or_else(|| mistake(format!("{} is not a pragma", shortened(said))))?;
        stage.pragma(nodes.axis(axis)?, key, number)?;
    }
    if optional(value, "scope")?.is_some() {
        let name = text(value, "scope")?;
        stage.scope = Some(Scope::parse(name).ok_or_else(|| ScheduleError::Scope { name: name.to_owned() })?);
    }
    stage.group = optional(value, "scan")?.map(|scan| nodes.operation(scan)).transpose()?;
    stage.member = optional(value, "group")?.map(place).transpose()?.map(Group);
    stage.attach = match member(value, "place")? {
        Value::String(name) if name == "root" => Attach::Root,
        Value::String(name) if name == "inline" => Attach::Inline,
        other if other.get("at").is_some() => {
            only(other, &["at"])?;
            let (operation, axis) = read_place(nodes, &other["at"])?;
            Attach::At(operation, axis)
        }
        other if other.get("init_of").is_some() => {
            only(other, &["init_of"])?;
            Attach::ScanInit(nodes.operation(&other["init_of"])?)
        }
        other => {
            only(other, &["update_of"])?;
            Attach::ScanUpdate(nodes.operation(member(other, "update_of")?)?)
        }
    };
    if stage.group.is_some() || matches!(stage.attach, Attach::ScanUpdate(_)) {
        let dimension = optional(value, "time")?.map(place).transpose()?.unwrap_or(0);
        stage.time = stage.root_axes.get(dimension).copied();
    }
    Ok(stage)
}

/// Reads the memory options of a stage. Only intermediate tensors have any.
fn lay_out(nodes: &Nodes, schedule: &mut Schedule, index: usize, value: &Value) -> Result<(), TeError> {
    let output = schedule.is_output(&schedule.stages[index]);
    let stage = &mut schedule.stages[index];
    stage.output = output;
    for aligned in list(value, "aligned")? {
        let wrong = || mistake(format!("{} is not an alignment", shortened(aligned)));
        let [dimension, factor, offset] = elements(aligned)? else { return Err(wrong()) };
        let axis = stage.operation.axis(place(dimension)?)?;
        stage.storage_align(axis, factor.as_i64().ok_or_else(wrong)?, offset.as_i64().ok_or_else(wrong)?)?;
    }
    if truth(value, "double_buffer")? {
        stage.double_buffer()?;
    }
    if truth(value, "rolling_buffer")? {
        stage.rolling_buffer()?;
    }
    for prefetch in list(value, "prefetches")? {
        let [tensor, axis, offset] = elements(prefetch)? else {
            return Err(mistake(format!("{} is not a prefetch", shortened(prefetch))));
        };
        stage.prefetch(&nodes.tensor(tensor)?, nodes.axis(axis)?, nodes.expression(offset)?)?;
    }
    Ok(())
}

/// Adds a split or fusion of loops that the stage has.
fn relate(nodes: &Nodes, stage: &mut Stage, value: &Value) -> Result<(), TeError> {
    let wrong = || mistake(format!("{} is not a split or fusion of the stage's loops", shortened(value)));
    let fresh = |stage: &Stage, axis: Axis, kind: AxisKind, single: bool| {
        let known = stage.root_axes.contains(&axis) || stage.has_axis(axis);
        let range = if single { axis.domain() == Some(Domain::up_to(1)) } else { axis.domain().is_none() };
        if known || axis.kind() != kind || !range { Err(wrong()) } else { Ok(()) }
    };
    let place_of = |stage: &Stage, axis: Axis| {
        let free = axis.kind() != AxisKind::Thread && (stage.operation.as_scan().is_some() || stage.leaf(axis).is_ok());
        stage.leaf(axis).ok().filter(|_| free).ok_or_else(wrong)
    };
    if value.get("split").is_some() {
        let axes = nodes.axes(list(value, "split")?)?;
        let [parent, outer, inner] = axes.as_slice() else { return Err(wrong()) };
        let at = place_of(stage, *parent)?;
        let by = if value.get("factor").is_some() { "factor" } else { "parts" };
        only(value, &["split", by, "predicated"])?;
        let by = if by == "factor" {
            SplitBy::Factor(nodes.size(&value["factor"])?)
        } else {
            SplitBy::Parts(nodes.size(member(value, "parts")?)?)
        };
        let (SplitBy::Factor(x) | SplitBy::Parts(x)) = &by;
        if !x.dtype().is_integer() || x.as_int().is_some_and(|x| x <= 0) || outer == inner {
            return Err(wrong());
        }
        fresh(stage, *outer, parent.kind(), false)?;
        fresh(stage, *inner, parent.kind(), false)?;
        let (outer, inner, predicated) = (*outer, *inner, truth(value, "predicated")?);
        stage.relations.push(Relation::Split { parent: *parent, outer, inner, by, predicated });
        stage.leaves.splice(at..=at, [outer, inner]);
    } else if value.get("fuse").is_some() {
        only(value, &["fuse"])?;
        let axes = nodes.axes(list(value, "fuse")?)?;
        let [outer, inner, fused] = axes.as_slice() else { return Err(wrong()) };
        let (first, second) = (place_of(stage, *outer)?, place_of(stage, *inner)?);
        if first == second {
            return Err(wrong());
        }
        fresh(stage, *fused, outer.kind().max(inner.kind()), false)?;
        stage.relations.push(Relation::Fuse { outer: *outer, inner: *inner, fused: *fused });
        stage.leaves[first] = *fused;
        stage.leaves.remove(second);
    } else {
        only(value, &["singleton"])?;
        let axis = nodes.axis(member(value, "singleton")?)?;
        fresh(stage, axis, AxisKind::Data, true)?;
        stage.relations.push(Relation::Singleton { axis });
        stage.leaves.insert(0, axis);
    }
    Ok(())
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

/// Checks that every stage is placed at an existing loop outside of itself, and that outputs and stages that can't be
/// inlined are not inside others.
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
