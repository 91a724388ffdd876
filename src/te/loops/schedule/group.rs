//! Groups of stages that are placed together.

use std::sync::Arc;

use super::Schedule;
use super::properties::Group;
use super::stage::Attach;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::tensor::{Operation, OperationKind, Tensor};

/// The place of a group.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// The group or scan that has the group.
    pub(crate) parent: Option<Enclosing>,
    /// The loop at which its stages are computed.
    pub(crate) at: Option<(Arc<Operation>, Axis)>,
}

/// The parent of a stage: a group made by a user, or the body of a scan.
#[derive(Clone, Debug)]
pub(crate) enum Enclosing {
    Group(Group),
    Scan(Arc<Operation>),
}

impl PartialEq for Enclosing {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Group(a), Self::Group(b)) => a == b,
            (Self::Scan(a), Self::Scan(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Schedule {
    /// Makes a group of all stages on the paths from `inputs` to `outputs`; with `include_inputs`, also of the stages
    /// of the inputs. [`Schedule::group_compute_at`] then places them together, and each stage can only be placed at
    /// stages of the group. A stage that was computed at one outside moves back to the group's root.
    ///
    /// # Errors
    /// [`ScheduleError::NotScheduled`]; [`ScheduleError::Group`] if no path leads from the inputs to the outputs. Also
    /// if the group would hold only a part of another group or of a scan's body.
    pub fn create_group(
        &mut self,
        outputs: &[&Tensor],
        inputs: &[&Tensor],
        include_inputs: bool,
    ) -> Result<Group, TeError> {
        let stages = self.between(outputs, inputs, include_inputs)?;
        let first = stages.first().ok_or_else(|| {
            let names: Vec<String> = outputs.iter().map(|tensor| tensor.name()).collect();
            ScheduleError::Group { stage: names.join(", "), reason: "none of it is computed from the given inputs" }
        })?;
        let mut parent = self.enclosing(*first);
        for stage in &stages {
            parent = self.common(parent, self.enclosing(*stage));
        }
        let mut touched: Vec<Touched> = Vec::new();
        for stage in &stages {
            if let Some(group) = self.enclosing(*stage) {
                count(&mut touched, group);
            }
        }
        // A group that is contained whole counts as one member of the new group.
        let shared = parent.as_ref();
        let is_whole = |t: &Touched| !t.whole && Some(&t.group) != shared && t.times == self.children(&t.group);
        while let Some(place) = touched.iter().position(is_whole) {
            touched[place].whole = true;
            if let Some(outer) = self.parent(&touched[place].group).filter(|outer| Some(outer) != shared) {
                count(&mut touched, outer);
            }
        }
        if let Some(part) = touched.iter().find(|t| !t.whole && Some(&t.group) != shared) {
            let reason = "the new group would hold a part of it only; take all of it, or none";
            return Err(ScheduleError::Group { stage: self.name_of(&part.group), reason }.into());
        }
        let group = Group(self.groups.len());
        self.groups.push(Membership { parent: parent.clone(), at: None });
        for Touched { group: inner, .. } in &touched {
            if Some(inner) != parent.as_ref() && self.parent(inner) == parent {
                self.put(inner, group);
            }
        }
        for stage in &stages {
            if self.enclosing(*stage) == parent {
                self.stages[*stage].member = Some(group);
            }
        }
        for stage in stages {
            let Attach::At(at, _) = &self.stages[stage].attach else { continue };
            let own = self.enclosing(stage);
            let there = self.index_of(at).and_then(|at| self.enclosing(at));
            if self.common(own.clone(), there) != own {
                self.stages[stage].attach = Attach::Root;
            }
        }
        let names = |tensors: &[&Tensor]| tensors.iter().map(|tensor| tensor.name()).collect::<Vec<_>>().join(", ");
        let sources = if include_inputs { ", include_inputs=True" } else { "" };
        self.note("create_group", &format!("[{}], [{}]{sources}", names(outputs), names(inputs)));
        Ok(group)
    }

    /// Computes the stages of a group at a loop of a stage outside of it, except those that are placed inside the
    /// group.
    ///
    /// # Errors
    /// [`ScheduleError::ComputeAt`] when the group holds an output or `parent` itself, or when `parent` is not in the
    /// group or scan that contains this one; [`ScheduleError::NotALoop`]; [`ScheduleError::Group`] for a group of
    /// another schedule.
    pub fn group_compute_at(&mut self, group: Group, parent: &Tensor, axis: Axis) -> Result<(), TeError> {
        let name = self.name_of(&Enclosing::Group(group));
        let foreign = || ScheduleError::Group { stage: name.clone(), reason: "it is a group of another schedule" };
        let around = self.groups.get(group.0).ok_or_else(foreign)?.parent.clone();
        let at = self.index(parent)?;
        let refuse =
            |reason| Err(ScheduleError::ComputeAt { stage: name.clone(), parent: parent.name(), reason }.into());
        let whole = Enclosing::Group(group);
        self.stages[at].leaf(axis)?;
        for (index, stage) in self.stages.iter().enumerate() {
            if !self.path(self.enclosing(index)).contains(&whole) {
                continue;
            }
            if self.is_output(stage) && matches!(stage.attach, Attach::Root) {
                return refuse("an output is computed whole; only intermediate tensors have a place inside others");
            }
            if self.is_inside(at, index) {
                return refuse("it would be computed inside itself");
            }
        }
        if matches!(self.stages[at].attach, Attach::Inline) {
            return refuse("that stage is inlined, so that it has no loops; take the stage that reads it");
        }
        if around.is_some_and(|around| !self.path(self.enclosing(at)).contains(&around)) {
            return refuse("it must stay inside the group or scan that it belongs to");
        }
        self.groups[group.0].at = Some((self.stages[at].origin.clone(), axis));
        self.note("group_compute_at", &format!("{}, s[{}], {}", group.0, parent.name(), axis.name()));
        Ok(())
    }

    /// Computes the stages of a group separately again, before their consumers.
    ///
    /// # Errors
    /// [`ScheduleError::Group`] for a group of another schedule.
    pub fn group_compute_root(&mut self, group: Group) -> Result<(), TeError> {
        let name = self.name_of(&Enclosing::Group(group));
        let foreign = || ScheduleError::Group { stage: name, reason: "it is a group of another schedule" };
        self.groups.get_mut(group.0).ok_or_else(foreign)?.at = None;
        self.note("group_compute_root", &group.0.to_string());
        Ok(())
    }

    /// The innermost group or scan that a stage is part of.
    pub(crate) fn enclosing(&self, index: usize) -> Option<Enclosing> {
        let stage = &self.stages[index];
        match (stage.member, &stage.attach) {
            (Some(group), _) => Some(Enclosing::Group(group)),
            (None, Attach::ScanUpdate(scan)) => Some(Enclosing::Scan(scan.clone())),
            (None, _) => stage.group.clone().map(Enclosing::Scan),
        }
    }

    /// All groups and scans that something is part of, innermost first.
    pub(crate) fn path(&self, mut of: Option<Enclosing>) -> Vec<Enclosing> {
        let mut path = Vec::new();
        while let Some(group) = of {
            of = self.parent(&group);
            path.push(group);
        }
        path
    }

    /// Where a stage is computed: its own place, or that of its group.
    pub(crate) fn place_of(&self, index: usize) -> Attach {
        let stage = &self.stages[index];
        if !matches!(stage.attach, Attach::Root) {
            return stage.attach.clone();
        }
        for group in self.path(self.enclosing(index)) {
            // A scan's body is computed where the scan is.
            let Enclosing::Group(group) = group else { break };
            if let Some((operation, axis)) = self.groups.get(group.0).and_then(|group| group.at.clone()) {
                return Attach::At(operation, axis);
            }
        }
        Attach::Root
    }

    /// Whether a stage is the other one, or computed inside it.
    pub(crate) fn is_inside(&self, index: usize, other: usize) -> bool {
        let mut place = Some(index);
        while let Some(stage) = place {
            if stage == other {
                return true;
            }
            place = match &self.stages[stage].attach {
                // This place is not in the scan's loop, but where the scan is.
                Attach::ScanInit(scan) => self.index_of(scan),
                _ => self.around(stage),
            };
        }
        false
    }

    /// The stage inside which a stage is computed.
    pub(crate) fn around(&self, index: usize) -> Option<usize> {
        match self.place_of(index) {
            Attach::At(operation, _) => self.index_of(&operation),
            Attach::ScanUpdate(scan) => self.index_of(&scan),
            Attach::Root => self.stages[index].group.as_ref().and_then(|scan| self.index_of(scan)),
            Attach::Inline | Attach::ScanInit(_) => None,
        }
    }

    pub(crate) fn parent(&self, group: &Enclosing) -> Option<Enclosing> {
        match group {
            Enclosing::Group(group) => self.groups.get(group.0)?.parent.clone(),
            Enclosing::Scan(scan) => {
                let (_, group) = self.scan_groups.iter().find(|(known, _)| Arc::ptr_eq(known, scan))?;
                Some(Enclosing::Group(*group))
            }
        }
    }

    fn put(&mut self, inner: &Enclosing, group: Group) {
        match inner {
            Enclosing::Group(inner) => {
                if let Some(inner) = self.groups.get_mut(inner.0) {
                    inner.parent = Some(Enclosing::Group(group));
                }
            }
            Enclosing::Scan(scan) => {
                self.scan_groups.retain(|(known, _)| !Arc::ptr_eq(known, scan));
                self.scan_groups.push((scan.clone(), group));
            }
        }
    }

    /// The number of stages and groups that are direct members.
    fn children(&self, of: &Enclosing) -> usize {
        let stages = (0..self.stages.len()).filter(|index| self.enclosing(*index).as_ref() == Some(of)).count();
        let groups = self.groups.iter().filter(|group| group.parent.as_ref() == Some(of)).count();
        let scans = self.scan_groups.iter().filter(|(_, group)| Enclosing::Group(*group) == *of).count();
        stages + groups + scans
    }

    fn common(&self, a: Option<Enclosing>, b: Option<Enclosing>) -> Option<Enclosing> {
        let others = self.path(b);
        self.path(a).into_iter().find(|group| others.contains(group))
    }

    fn name_of(&self, group: &Enclosing) -> String {
        match group {
            Enclosing::Scan(scan) => format!("the body of {}", scan.name()),
            Enclosing::Group(_) => {
                let inside = |index: &usize| self.path(self.enclosing(*index)).contains(group);
                let names: Vec<&str> =
                    (0..self.stages.len()).filter(inside).map(|index| self.stages[index].name()).collect();
                format!("the group of {}", names.join(", "))
            }
        }
    }

    /// The stages on the paths from inputs to outputs, producers first.
    fn between(&self, outputs: &[&Tensor], inputs: &[&Tensor], include: bool) -> Result<Vec<usize>, TeError> {
        let mut border = Vec::new();
        for input in inputs {
            border.push(self.index(input)?);
        }
        let mut search = Search { border, include, known: vec![None; self.stages.len()], found: Vec::new() };
        for output in outputs {
            search.reaches(self, self.index(output)?);
        }
        Ok(search.found)
    }
}

/// A group some of whose members a new group takes.
struct Touched {
    group: Enclosing,
    times: usize,
    /// Whether it takes all of them.
    whole: bool,
}

fn count(touched: &mut Vec<Touched>, group: Enclosing) {
    match touched.iter_mut().find(|known| known.group == group) {
        Some(known) => known.times += 1,
        None => touched.push(Touched { group, times: 1, whole: false }),
    }
}

struct Search {
    border: Vec<usize>,
    include: bool,
    known: Vec<Option<bool>>,
    found: Vec<usize>,
}

impl Search {
    /// Whether a stage is computed from the inputs. A stage that is computed from them is added to those found.
    fn reaches(&mut self, schedule: &Schedule, index: usize) -> bool {
        if let Some(known) = self.known[index] {
            return known;
        }
        if self.border.contains(&index) {
            self.known[index] = Some(true);
            if self.include {
                self.found.push(index);
            }
            return true;
        }
        let mut reaches = false;
        for input in schedule.stages[index].operation.inputs() {
            if let Some(producer) = schedule.index_of(input.operation()) {
                reaches |= self.reaches(schedule, producer);
            }
        }
        self.known[index] = Some(reaches);
        if reaches && !matches!(schedule.stages[index].operation.kind(), OperationKind::Placeholder { .. }) {
            self.found.push(index);
        }
        reaches
    }
}
