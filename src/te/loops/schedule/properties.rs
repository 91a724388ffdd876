//! Properties of a stage that primitives set. Each primitive stays in its own file, as a method of the stage.

use std::sync::atomic::{AtomicU64, Ordering};

use super::index_map::IndexMap;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// A group of stages of a schedule: see [`Schedule::create_group`](super::Schedule::create_group).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) usize);

/// The layout of a stage's memory, which `transform_layout` sets.
#[derive(Clone, Debug)]
pub(crate) struct StageLayout {
    pub(crate) map: IndexMap,
    /// The places of the axis separators: the new dimensions before which they stand.
    pub(crate) separators: Vec<usize>,
}

/// The options of a stage's memory: `storage_align`, `double_buffer` and `rolling_buffer` set one each.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryLayout {
    /// The padded strides, by dimension.
    pub(crate) alignments: Vec<Alignment>,
    /// Whether one half is written while the other is read.
    pub(crate) double: bool,
    /// Whether elements of the previous iteration are kept.
    pub(crate) rolling: bool,
}

/// Pads a stride to `offset` more than a multiple of `factor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    pub(crate) dimension: usize,
    pub(crate) factor: i64,
    pub(crate) offset: i64,
}

/// One prefetch of a stage.
#[derive(Clone, Debug)]
pub(crate) struct Prefetch {
    /// The tensor whose elements are fetched.
    pub(crate) tensor: Tensor,
    /// The loop whose iterations request it.
    pub(crate) axis: Axis,
    /// The number of iterations ahead.
    pub(crate) offset: Expr,
}

/// An applied primitive, and its place among all others.
#[derive(Clone, Debug)]
pub(crate) struct AppliedPrimitive {
    pub(super) order: u64,
    pub(super) text: String,
}

impl AppliedPrimitive {
    pub(crate) fn new(text: String) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { order: NEXT.fetch_add(1, Ordering::Relaxed), text }
    }
}
