//! A stage: how one operation is computed.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::intrinsic::TensorIntrin;
use super::properties::{AppliedPrimitive, Group, MemoryLayout, Prefetch, StageLayout};
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{Operation, OperationKind};
use crate::te::loops::ir::pragma::Pragma;
use crate::te::loops::ir::stmt::LoopKind;

/// Where a stage is computed.
#[derive(Clone, Debug)]
pub enum Attach {
    /// Separately, before its consumers; in a scan's body, inside the scan's loop.
    Root,
    /// Inlined, where it is read.
    Inline,
    /// Inside a loop of another stage.
    At(Arc<Operation>, Axis),
    /// Before a scan's loop, into the scan's memory.
    ScanInit(Arc<Operation>),
    /// Inside a scan's loop, into the scan's memory.
    ScanUpdate(Arc<Operation>),
}

/// How loops were made from others.
#[derive(Clone, Debug)]
pub enum Relation {
    /// `parent = outer * factor + inner`
    Split {
        /// The axis that was split.
        parent: Axis,
        /// The outer loop.
        outer: Axis,
        /// The inner loop.
        inner: Axis,
        /// The inner loop's extent, or the outer one's.
        by: SplitBy,
        /// Whether iterations beyond the parent's extent are skipped by a test. If not, the extent must be a multiple.
        predicated: bool,
    },
    /// The data axes are computed from the indices of a new layout.
    Transform {
        /// The computation's data axes.
        from: Vec<Axis>,
        /// The loops over the new indices.
        to: Vec<Axis>,
        /// The extent of each of these loops.
        extents: Vec<Expr>,
        /// The data axes in terms of these loops.
        values: Vec<Expr>,
    },
    /// `fused = outer * extent(inner) + inner`
    Fuse {
        /// The outer axis.
        outer: Axis,
        /// The inner axis.
        inner: Axis,
        /// The loop over both.
        fused: Axis,
    },
    /// A loop of one iteration that was made from no axis.
    Singleton {
        /// The loop.
        axis: Axis,
    },
}

/// Which loop of a split has the given extent.
#[derive(Clone, Debug)]
pub enum SplitBy {
    /// The inner loop.
    Factor(Expr),
    /// The outer loop.
    Parts(Expr),
}

/// How one operation is computed.
#[derive(Clone, Debug)]
pub struct Stage {
    pub(crate) origin: Arc<Operation>,
    pub(crate) operation: Arc<Operation>,
    pub(crate) root_axes: Vec<Axis>,
    pub(crate) leaves: Vec<Axis>,
    pub(crate) relations: Vec<Relation>,
    pub(crate) kinds: HashMap<Axis, LoopKind>,
    pub(crate) threads: HashMap<Axis, Axis>,
    pub(crate) attach: Attach,
    pub(crate) group: Option<Arc<Operation>>,
    /// The innermost user group that contains the stage.
    pub(crate) member: Option<Group>,
    pub(crate) time: Option<Axis>,
    pub(crate) scope: Option<Scope>,
    pub(crate) store_predicate: Option<Expr>,
    pub(crate) env_threads: Vec<Axis>,
    /// Whether the operation is an output of the schedule.
    pub(crate) output: bool,
    pub(crate) memory: MemoryLayout,
    pub(crate) layout: Option<StageLayout>,
    pub(crate) prefetches: Vec<Prefetch>,
    /// The intrinsic that replaces a loop and those inside it.
    pub(crate) tensorized: Option<(Axis, TensorIntrin)>,
    /// The pragmas of loops.
    pub(crate) pragmas: Vec<(Axis, Pragma)>,
    /// The primitives that were applied to the stage.
    pub(crate) record: Vec<AppliedPrimitive>,
}

impl Stage {
    pub(crate) fn new(operation: Arc<Operation>) -> Self {
        let root_axes: Vec<Axis> = match operation.kind() {
            OperationKind::Placeholder { .. } => Vec::new(),
            OperationKind::Compute(compute) => compute.axes.iter().chain(&compute.reduce_axes).copied().collect(),
            OperationKind::Scan(scan) => vec![scan.axis],
        };
        Self {
            origin: operation.clone(),
            operation,
            leaves: root_axes.clone(),
            root_axes,
            relations: Vec::new(),
            kinds: HashMap::new(),
            threads: HashMap::new(),
            attach: Attach::Root,
            group: None,
            member: None,
            time: None,
            scope: None,
            store_predicate: None,
            env_threads: Vec::new(),
            output: false,
            memory: MemoryLayout::default(),
            layout: None,
            prefetches: Vec::new(),
            tensorized: None,
            pragmas: Vec::new(),
            record: Vec::new(),
        }
    }

    /// The dimension that is a scan's time, if the stage is inside the scan's loop.
    pub(crate) fn time_dimension(&self) -> Option<usize> {
        self.root_axes.iter().position(|axis| self.time == Some(*axis))
    }

    /// Replaces the operation. The new one has fresh loops; its data axes are in the same order.
    pub(crate) fn replace(&mut self, operation: Arc<Operation>) {
        let origin = self.origin.clone();
        let attach = self.attach.clone();
        let (group, member, scope, output) = (self.group.clone(), self.member, self.scope, self.output);
        let (memory, record) = (self.memory.clone(), std::mem::take(&mut self.record));
        let time = self.time_dimension();
        *self = Self { origin, attach, group, member, scope, output, memory, record, ..Self::new(operation) };
        self.time = time.and_then(|dimension| self.root_axes.get(dimension).copied());
    }

    /// The operation that is computed.
    #[must_use]
    pub fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// The loops, outermost first.
    #[must_use]
    pub fn loops(&self) -> &[Axis] {
        &self.leaves
    }

    /// Where it is computed.
    #[must_use]
    pub fn place(&self) -> &Attach {
        &self.attach
    }

    pub(crate) fn name(&self) -> &str {
        self.operation.name()
    }

    /// Whether an axis was made by splitting or fusing others.
    pub(crate) fn has_axis(&self, axis: Axis) -> bool {
        self.relations.iter().any(|relation| match relation {
            Relation::Split { outer, inner, .. } => *outer == axis || *inner == axis,
            Relation::Transform { to, .. } => to.contains(&axis),
            Relation::Fuse { fused: made, .. } | Relation::Singleton { axis: made } => *made == axis,
        })
    }

    /// The position of a loop.
    pub(crate) fn leaf(&self, axis: Axis) -> Result<usize, TeError> {
        self.leaves.iter().position(|leaf| *leaf == axis).ok_or_else(|| {
            let used = self.relations.iter().any(|relation| match relation {
                Relation::Split { parent, .. } => *parent == axis,
                Relation::Transform { from, .. } => from.contains(&axis),
                Relation::Fuse { outer, inner, .. } => *outer == axis || *inner == axis,
                Relation::Singleton { .. } => false,
            });
            ScheduleError::NotALoop { axis: axis.name().to_owned(), stage: self.name().to_owned(), split: used }.into()
        })
    }

    /// Replaces some loops by others. Marks of the old loops (vectorised, pragmas, prefetches) are removed.
    pub(super) fn replace_leaves(&mut self, places: RangeInclusive<usize>, by: impl IntoIterator<Item = Axis>) {
        let gone: Vec<Axis> = self.leaves.splice(places, by).collect();
        self.kinds.retain(|axis, _| !gone.contains(axis));
        self.pragmas.retain(|(axis, _)| !gone.contains(axis));
        self.prefetches.retain(|prefetch| !gone.contains(&prefetch.axis));
    }

    /// Replaces what is computed by the same of other tensors. Prefetches of those that it doesn't read any more are removed.
    pub(super) fn replace_operation(&mut self, operation: Arc<Operation>) {
        self.prefetches.retain(|prefetch| operation.inputs().contains(&prefetch.tensor));
        self.operation = operation;
    }
}
