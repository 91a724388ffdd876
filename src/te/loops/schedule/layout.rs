//! `transform_layout`: changes the order of a tensor's elements in memory, and the order in which they are computed.

use super::index_map::IndexMap;
use super::properties::StageLayout;
use super::stage::{Attach, Relation, Stage};
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{OperationKind, Tensor};
use crate::te::expr::var::Var;

/// An index of a new layout, or a separator between indices.
#[derive(Clone, Debug)]
pub enum LayoutIndex {
    /// An index, in terms of the old indices.
    Index(Expr),
    /// An axis separator: see [`AXIS_SEPARATOR`].
    Separator,
}

/// Separates the indices of a new layout: those before it are flattened to one index of the memory, and those after it
/// to another. Targets with one-dimensional memory store it row-major over these.
pub const AXIS_SEPARATOR: LayoutIndex = LayoutIndex::Separator;

impl<T: Into<Expr>> From<T> for LayoutIndex {
    fn from(index: T) -> Self {
        Self::Index(index.into())
    }
}

impl Stage {
    /// Changes the layout of a tensor: element `(i, j, …)` is stored, row-major, at the indices that `map` gives for
    /// it. For an input or output the caller passes memory in the new layout, with the new shape. A computation runs in
    /// the order of the new layout; the result is its new loops, which replace the old data axes.
    ///
    /// `map` may permute indices and split them by divisors of their extents (`i / 4`, `i % 4`). It may fuse them:
    /// `i * 8 + j` for a `j` of extent 8. It must be one to one, without gaps. An [`AXIS_SEPARATOR`] flattens the
    /// indices before and after it to separate indices.
    ///
    /// # Errors
    /// [`ScheduleError::Primitive`] for a map that is not one to one, and for a scan or its parts. Also for a
    /// computation whose loops are already scheduled, and for a second layout (also after `storage_align`). Lowering
    /// refuses, with the same error, a stage inside another stage if only a part of it is computed there.
    pub fn transform_layout(&mut self, map: impl FnOnce(&[Var]) -> Vec<LayoutIndex>) -> Result<Vec<Axis>, TeError> {
        let refuse = |reason: &str| {
            let (stage, reason) = (self.name().to_owned(), reason.to_owned());
            Err(ScheduleError::Primitive { primitive: "transform_layout", stage, reason }.into())
        };
        let in_scan = matches!(self.attach, Attach::ScanInit(_) | Attach::ScanUpdate(_)) || self.group.is_some();
        if in_scan || matches!(self.operation.kind(), OperationKind::Scan(_)) {
            return refuse("a scan's memory is laid out by time; give what it reads or what reads it a layout");
        }
        if self.operation.values() != 1 {
            return refuse("it makes several tensors, which would each need a map");
        }
        if self.layout.is_some() {
            return refuse("it has a new layout already; give one map for both");
        }
        if !self.relations.is_empty() || self.leaves != self.root_axes || !self.threads.is_empty() {
            return refuse("its loops are split, reordered or bound already; give the layout first");
        }
        if self.memory.rolling {
            return refuse("its memory is used in a circle (`rolling_buffer`)");
        }
        if !self.memory.alignments.is_empty() {
            return refuse("its strides are aligned (`storage_align`), which is of the old dimensions");
        }
        let shape = Tensor::new(self.operation.clone(), 0).shape();
        let initial: Vec<Var> = (0..shape.len()).map(|d| Var::counter(&format!("i{d}"))).collect();
        let (mut indices, mut separators) = (Vec::new(), Vec::new());
        for index in map(&initial) {
            match index {
                LayoutIndex::Separator => separators.push(indices.len()),
                LayoutIndex::Index(index) => match index.kind() {
                    Kind::Invalid(error) => return Err(error.clone()),
                    _ => indices.push(index),
                },
            }
        }
        let apart = separators.windows(2).all(|pair| pair[0] < pair[1]);
        if !apart || separators.first() == Some(&0) || separators.last().is_some_and(|last| *last >= indices.len()) {
            return refuse("a separator has no index on one of its sides; put each between two indices");
        }
        let map = match IndexMap::new(&initial, &shape, indices) {
            Ok(map) => map,
            Err(reason) => return refuse(&reason),
        };
        let axes = self.iterate_in_order_of(&map);
        self.note("transform_layout", &written(&map, &separators));
        self.layout = Some(StageLayout { map, separators });
        Ok(axes)
    }

    /// Replaces the data axes of a computation by loops over the new indices.
    fn iterate_in_order_of(&mut self, map: &IndexMap) -> Vec<Axis> {
        let Some(compute) = self.operation.as_compute() else { return Vec::new() };
        let from = compute.axes.clone();
        let to: Vec<Axis> =
            (0..map.extents.len()).map(|d| Axis::new(&format!("axis{d}"), None, AxisKind::Data)).collect();
        let indices: Vec<Expr> = to.iter().map(|axis| Expr::from(*axis)).collect();
        let relation =
            Relation::Transform { from, to: to.clone(), extents: map.extents.clone(), values: map.invert(&indices) };
        self.leaves = to.iter().copied().chain(compute.reduce_axes.iter().copied()).collect();
        self.relations.push(relation);
        to
    }
}

/// The map as an argument in messages: `[i0 // 4, AXIS_SEPARATOR, i0 % 4]`.
fn written(map: &IndexMap, separators: &[usize]) -> String {
    let mut parts: Vec<String> = map.indices().iter().map(crate::te::text::expression).collect();
    separators.iter().rev().for_each(|place| parts.insert(*place, "AXIS_SEPARATOR".to_owned()));
    format!("[{}]", parts.join(", "))
}
