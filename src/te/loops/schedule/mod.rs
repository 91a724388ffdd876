//! Schedules: the loops, the place and the threads that compute a tensor expression. Primitives never change the
//! result, with two exceptions: [`Schedule::rfactor`] reassociates a reduction, and [`Stage::tensorize`] leaves a part
//! of it to an implementation by the user.
//!
//! Each primitive has a file, and is a method of the stage or of the schedule. `properties` has the data that
//! primitives set in a stage, so `stage` imports no primitive.

mod agreement;
mod auto_inline;
mod cache_read;
mod cache_write;
mod fix_point;
mod fuse;
pub(crate) mod group;
mod index_map;
pub(crate) mod intrinsic;
mod json;
mod layout;
pub(crate) mod loops;
mod memory;
mod pragma;
mod prefetch;
mod primitives;
pub(crate) mod properties;
mod record;
mod rfactor;
mod stage;
mod tensorize;

use std::sync::Arc;

pub(crate) use fix_point::fix_points;
pub use fix_point::scan_fix_points;
pub use layout::{AXIS_SEPARATOR, LayoutIndex};
pub use properties::Group;
pub use stage::{Attach, Relation, SplitBy, Stage};
pub(crate) use tensorize::combine_alike;

use self::group::{Enclosing, Membership};
use self::properties::AppliedPrimitive;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::buffer::Scope;
use crate::te::expr::define::scan::reads_state;
use crate::te::expr::graph::operations_in_order;
use crate::te::expr::tensor::{Operation, OperationKind, Tensor};

/// The stages of a tensor expression, producers before consumers, and how each is computed.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) stages: Vec<Stage>,
    pub(crate) outputs: Vec<Arc<Operation>>,
    pub(crate) groups: Vec<Membership>,
    /// The scans whose bodies are part of a group.
    pub(crate) scan_groups: Vec<(Arc<Operation>, Group)>,
    /// The applied primitives that concern several stages.
    pub(crate) record: Vec<AppliedPrimitive>,
}

/// The default schedule: every stage is computed separately, in plain loops.
#[must_use]
pub fn create_schedule(outputs: &[&Tensor]) -> Schedule {
    let order = operations_in_order(outputs.iter().map(|output| output.operation()));
    let mut stages: Vec<Stage> = order.into_iter().map(Stage::new).collect();
    let scans: Vec<Arc<Operation>> =
        stages.iter().map(|s| s.operation.clone()).filter(|op| op.as_scan().is_some()).collect();
    for scan_operation in scans {
        let Some(scan) = scan_operation.as_scan() else { continue };
        for stage in &mut stages {
            let own = |tensor: &Tensor| Arc::ptr_eq(tensor.operation(), &stage.origin);
            if scan.init.iter().any(own) {
                stage.attach = Attach::ScanInit(scan_operation.clone());
            } else if scan.update.iter().any(own) {
                stage.attach = Attach::ScanUpdate(scan_operation.clone());
                stage.time = stage.root_axes.first().copied();
            } else if scan.state.iter().any(own) || Arc::ptr_eq(&stage.origin, &scan_operation) {
                continue;
            } else if stage.reads(&scan.state) {
                stage.group = Some(scan_operation.clone());
                stage.time = stage.root_axes.first().copied();
            }
        }
    }
    let mut kept: Vec<Arc<Operation>> = Vec::new();
    for output in outputs {
        if !kept.iter().any(|op| Arc::ptr_eq(op, output.operation())) {
            kept.push(output.operation().clone());
        }
    }
    for stage in &mut stages {
        stage.output = kept.iter().any(|output| Arc::ptr_eq(output, &stage.origin));
    }
    Schedule { stages, outputs: kept, groups: Vec::new(), scan_groups: Vec::new(), record: Vec::new() }
}

impl Stage {
    fn reads(&self, state: &[Tensor]) -> bool {
        self.operation.inputs().iter().any(|tensor| reads_state(tensor, state))
    }
}

impl Schedule {
    /// The stage that computes a tensor.
    ///
    /// # Errors
    /// [`ScheduleError::NotScheduled`].
    pub fn stage(&mut self, tensor: &Tensor) -> Result<&mut Stage, TeError> {
        let index = self.index(tensor)?;
        Ok(&mut self.stages[index])
    }

    /// The operation that computes a tensor now. A primitive may have replaced the original one.
    ///
    /// # Errors
    /// [`ScheduleError::NotScheduled`].
    pub fn operation(&self, tensor: &Tensor) -> Result<&Arc<Operation>, TeError> {
        Ok(&self.stages[self.index(tensor)?].operation)
    }

    pub(crate) fn index(&self, tensor: &Tensor) -> Result<usize, TeError> {
        self.index_of(tensor.operation()).ok_or_else(|| ScheduleError::NotScheduled { tensor: tensor.name() }.into())
    }

    pub(crate) fn index_of(&self, operation: &Arc<Operation>) -> Option<usize> {
        let same = |known: &Arc<Operation>| Arc::ptr_eq(known, operation);
        self.stages.iter().position(|stage| same(&stage.origin) || same(&stage.operation))
    }

    /// The outermost stage inside which a stage is computed; that one is computed separately.
    pub(crate) fn outermost(&self, index: usize) -> usize {
        let stage = &self.stages[index];
        let parent = match &stage.attach {
            Attach::Root => stage.group.as_ref(),
            Attach::Inline => None,
            Attach::At(operation, _) | Attach::ScanInit(operation) | Attach::ScanUpdate(operation) => Some(operation),
        };
        // `compute_at` refuses circles, so this ends.
        parent.and_then(|operation| self.index_of(operation)).map_or(index, |parent| self.outermost(parent))
    }

    pub(crate) fn is_output(&self, stage: &Stage) -> bool {
        self.outputs.iter().any(|op| Arc::ptr_eq(op, &stage.origin))
    }

    /// The stages that read the tensors of a stage.
    pub(crate) fn readers(&self, producer: usize) -> Vec<usize> {
        (0..self.stages.len())
            .filter(|&reader| {
                let reads = |tensor: &Tensor| self.index_of(tensor.operation()) == Some(producer);
                self.stages[reader].operation.as_compute().is_some()
                    && self.stages[reader].operation.inputs().iter().any(reads)
            })
            .collect()
    }

    /// Computes a stage inside a loop of one of its consumers. Each iteration computes only the elements that it needs.
    ///
    /// # Errors
    /// [`ScheduleError::ComputeAt`] for an output, a scan's update, a place outside the scan that the stage belongs to,
    /// a cycle, or an inlined `parent`; [`ScheduleError::NotALoop`] when `axis` is not a loop of `parent`.
    pub fn compute_at(&mut self, tensor: &Tensor, parent: &Tensor, axis: Axis) -> Result<(), TeError> {
        let (child, at) = (self.index(tensor)?, self.index(parent)?);
        let refuse =
            |reason| Err(ScheduleError::ComputeAt { stage: tensor.name(), parent: parent.name(), reason }.into());
        if self.is_output(&self.stages[child]) {
            return refuse("an output is computed whole; only intermediate tensors have a place inside others");
        }
        if matches!(self.stages[child].attach, Attach::ScanUpdate(_) | Attach::ScanInit(_)) {
            return refuse("a scan's own init and update stay in the scan");
        }
        self.stages[at].leaf(axis)?;
        if let Some(around) = self.enclosing(child)
            && !self.path(self.enclosing(at)).contains(&around)
        {
            return refuse(match around {
                Enclosing::Scan(_) => "it belongs to a scan's body and must stay inside the scan's loop",
                Enclosing::Group(_) => "it belongs to a group and can only be computed at another stage of it",
            });
        }
        if self.is_inside(at, child) {
            return refuse("it would be computed inside itself");
        }
        if matches!(self.stages[at].attach, Attach::Inline) {
            return refuse("that stage is inlined, so that it has no loops; take the stage that reads it");
        }
        self.stages[child].attach = Attach::At(self.stages[at].origin.clone(), axis);
        let place = format!("s[{}], {}", parent.name(), axis.name());
        self.stages[child].note("compute_at", &place);
        Ok(())
    }

    /// Computes a stage separately again, before its consumers.
    ///
    /// # Errors
    /// [`ScheduleError::ComputeAt`] for a scan's init and update.
    pub fn compute_root(&mut self, tensor: &Tensor) -> Result<(), TeError> {
        let stage = self.stage(tensor)?;
        if matches!(stage.attach, Attach::ScanUpdate(_) | Attach::ScanInit(_)) {
            let reason = "a scan's own init and update stay in the scan";
            return Err(ScheduleError::ComputeAt { stage: tensor.name(), parent: "the root".to_owned(), reason }.into());
        }
        stage.attach = Attach::Root;
        stage.note("compute_root", "");
        Ok(())
    }

    /// Whether other stages are computed inside a stage's loops.
    fn holds_others(&self, index: usize) -> bool {
        (0..self.stages.len()).any(|other| match self.place_of(other) {
            Attach::At(operation, _) => self.index_of(&operation) == Some(index),
            _ => false,
        })
    }

    /// Computes a stage's elements where they are read, without memory for them.
    ///
    /// # Errors
    /// [`ScheduleError::Inline`] for an output, a reduction, a tuple, a part of a scan or a placeholder. Also for a
    /// stage with other stages inside its loops.
    pub fn compute_inline(&mut self, tensor: &Tensor) -> Result<(), TeError> {
        let index = self.index(tensor)?;
        let stage = &self.stages[index];
        let refuse = |reason| Err(ScheduleError::Inline { stage: tensor.name(), reason }.into());
        let Some(compute) = stage.operation.as_compute() else {
            return refuse("only computations can be; an input is read where it lies");
        };
        if self.is_output(stage) {
            return refuse("it is an output, which needs memory; only tensors between inputs and outputs can be");
        }
        if compute.body.len() > 1 {
            return refuse("it makes several tensors at once; compute each by itself");
        }
        // A reduction without axes is one, too: `rfactor` leaves such, where it takes the only loop.
        if compute.is_reduction() {
            return refuse("it is a reduction, which would be repeated at every read; place it by `compute_at`");
        }
        if matches!(stage.attach, Attach::ScanUpdate(_) | Attach::ScanInit(_)) {
            return refuse("it is a scan's init or update; what these read can be");
        }
        if self.holds_others(index) {
            return refuse("other stages are computed inside its loops; compute them elsewhere first");
        }
        self.stages[index].attach = Attach::Inline;
        self.stages[index].note("compute_inline", "");
        Ok(())
    }

    /// Sets the memory scope of a stage: `global`, `shared`, `warp` or `local`. Memory of scope `warp` lies in the
    /// block's shared memory, and all threads of the block share it.
    ///
    /// # Errors
    /// [`ScheduleError::Scope`]; [`ScheduleError::NotScheduled`]; [`ScheduleError::Primitive`] for an input or output,
    /// whose memory is the caller's and always global.
    pub fn set_scope(&mut self, tensor: &Tensor, scope: &str) -> Result<(), TeError> {
        let scope = Scope::parse(scope).ok_or_else(|| ScheduleError::Scope { name: scope.to_owned() })?;
        let stage = self.stage(tensor)?;
        let given = stage.output || matches!(stage.operation.kind(), OperationKind::Placeholder { .. });
        if given && scope != Scope::Global {
            let reason =
                "its memory is the caller's, which is global; make a cache of it (`cache_read`, `cache_write`)";
            let (stage, reason) = (stage.name().to_owned(), reason.to_owned());
            return Err(ScheduleError::Primitive { primitive: "set_scope", stage, reason }.into());
        }
        stage.scope = Some(scope);
        stage.note("set_scope", &format!("\"{}\"", scope.name()));
        Ok(())
    }
}
