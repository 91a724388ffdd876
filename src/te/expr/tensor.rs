//! Tensors and the operations that make them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::axis::{Axis, Domain};
use super::dimension::Dimension;
use super::expression::{Expr, Kind};
use super::ranges::RangeGuard;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};

/// A tensor: one result of an operation. It is a cheap handle.
#[derive(Clone)]
pub struct Tensor {
    operation: Arc<Operation>,
    value: usize,
}

/// An operation: it makes one tensor or several.
#[derive(Debug)]
pub struct Operation {
    name: String,
    kind: OperationKind,
    /// The length of the longest chain of operations that ends in this one.
    depth: u32,
    /// If not empty, tensors with the same values, up to rounding, as those that it makes: see
    /// [`or_by_passes`](Self::or_by_passes).
    by_passes: Vec<Tensor>,
    /// The ranges of its axes.
    _ranges: RangeGuard,
}

/// How many operations may read each other in a chain. Up to this length, recursive walks fit a thread's stack of 2
/// MiB.
pub(crate) const MOST_CHAINED: u32 = 500;

/// The kinds of operations.
#[derive(Debug)]
pub enum OperationKind {
    /// Given by the caller.
    Placeholder {
        /// Extents.
        shape: Vec<Expr>,
        /// Type of an element.
        dtype: DType,
    },
    /// Computed element by element.
    Compute(Compute),
    /// Computed step by step along the first dimension.
    Scan(Scan),
}

/// A computation: `body[v]` for every point of `axes`.
#[derive(Debug)]
pub struct Compute {
    /// One axis for each dimension.
    pub axes: Vec<Axis>,
    /// The axes reduced over.
    pub reduce_axes: Vec<Axis>,
    /// One expression for each tensor made.
    pub body: Vec<Expr>,
}

impl Compute {
    /// Whether it is a reduction: over axes, or over none (what `rfactor` leaves when it takes the only axis).
    pub(crate) fn is_reduction(&self) -> bool {
        matches!(self.body.first().map(Expr::kind), Some(Kind::Reduce(..)))
    }

    /// The ranges of the axes that it reduces over. They may depend on the other axes, and read tensors.
    pub(crate) fn ranges(&self) -> Vec<Domain> {
        self.reduce_axes.iter().filter_map(|axis| axis.domain()).collect()
    }
}

/// A scan: `init` gives the first steps of `state`; `update` computes each later step from earlier ones.
#[derive(Debug)]
pub struct Scan {
    /// The time axis. It starts at the number of initial steps.
    pub axis: Axis,
    /// The initial steps, a tensor for each state.
    pub init: Vec<Tensor>,
    /// The later steps.
    pub update: Vec<Tensor>,
    /// The placeholders through which the update reads earlier steps.
    pub state: Vec<Tensor>,
    /// The other tensors that the update reads.
    pub inputs: Vec<Tensor>,
}

impl Operation {
    pub(crate) fn new(name: impl Into<String>, kind: OperationKind) -> Arc<Self> {
        let ranges = match &kind {
            OperationKind::Placeholder { .. } => RangeGuard::of([]),
            OperationKind::Compute(compute) => RangeGuard::of(compute.axes.iter().chain(&compute.reduce_axes)),
            OperationKind::Scan(scan) => RangeGuard::of([&scan.axis]),
        };
        let mut operation = Self { name: name.into(), kind, depth: 1, by_passes: Vec::new(), _ranges: ranges };
        let before = operation.inputs().iter().map(|input| input.operation().depth).max();
        operation.depth = before.unwrap_or(0).saturating_add(1);
        Arc::new(operation)
    }

    /// A computation with other tensors for those that it makes. Its own reductions read elements once; the others need
    /// each other's results and so read elements several times. A device takes the others if elements stay near from
    /// one reduction to the next and the order of combination is free. Anything but a computation stays.
    pub(crate) fn or_by_passes(self: &Arc<Self>, passes: Vec<Tensor>) -> Arc<Self> {
        let Some(Compute { axes, reduce_axes, body }) = self.as_compute() else { return Arc::clone(self) };
        debug_assert_eq!(passes.len(), body.len(), "one for each tensor that it makes");
        let kind = Compute { axes: axes.clone(), reduce_axes: reduce_axes.clone(), body: body.clone() };
        let mut operation = Self {
            name: self.name.clone(),
            kind: OperationKind::Compute(kind),
            depth: self.depth,
            by_passes: passes,
            _ranges: RangeGuard::of(axes.iter().chain(reduce_axes)),
        };
        let others = operation.by_passes.iter().map(|tensor| tensor.operation().depth).max();
        operation.depth = operation.depth.max(others.unwrap_or(0));
        Arc::new(operation)
    }

    /// The tensors that [`or_by_passes`](Self::or_by_passes) was given.
    pub(crate) fn by_passes(&self) -> &[Tensor] {
        &self.by_passes
    }

    /// An operation that a caller makes; callers may chain any number of operations.
    ///
    /// # Errors
    /// [`ExpressionError::Chained`] for more than [`MOST_CHAINED`] in a row.
    pub(crate) fn checked(name: impl Into<String>, kind: OperationKind) -> Result<Arc<Self>, TeError> {
        let operation = Self::new(name, kind);
        if operation.depth > MOST_CHAINED {
            return Err(ExpressionError::Chained { tensor: operation.name.clone(), most: MOST_CHAINED }.into());
        }
        Ok(operation)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &OperationKind {
        &self.kind
    }

    /// The computation, if it is one.
    #[must_use]
    pub fn as_compute(&self) -> Option<&Compute> {
        match &self.kind {
            OperationKind::Compute(compute) => Some(compute),
            OperationKind::Placeholder { .. } | OperationKind::Scan(_) => None,
        }
    }

    /// The axis of a dimension of a computation; a negative number counts from the end. After `rfactor` or `cache_write` a schedule computes the tensor by
    /// another operation, with other axes: see [`Schedule::operation`].
    ///
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`].
    ///
    /// [`Schedule::operation`]: crate::te::Schedule::operation
    pub fn axis(&self, dimension: impl Into<Dimension>) -> Result<Axis, TeError> {
        self.axis_of(dimension.into(), || self.name.clone())
    }

    /// An axis that a computation reduces over.
    ///
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`].
    pub fn reduce_axis(&self, place: impl Into<Dimension>) -> Result<Axis, TeError> {
        self.reduce_axis_of(place.into(), || self.name.clone())
    }

    fn axis_of(&self, dimension: Dimension, name: impl FnOnce() -> String) -> Result<Axis, TeError> {
        let axes: &[Axis] = self.as_compute().map_or(&[], |compute| &compute.axes);
        dimension.among(axes.len(), "data", name).map(|place| axes[place])
    }

    fn reduce_axis_of(&self, place: Dimension, name: impl FnOnce() -> String) -> Result<Axis, TeError> {
        let axes: &[Axis] = self.as_compute().map_or(&[], |compute| &compute.reduce_axes);
        place.among(axes.len(), "reduction", name).map(|place| axes[place])
    }

    /// The scan, if it is one.
    #[must_use]
    pub fn as_scan(&self) -> Option<&Scan> {
        match &self.kind {
            OperationKind::Scan(scan) => Some(scan),
            OperationKind::Placeholder { .. } | OperationKind::Compute(_) => None,
        }
    }

    /// Number of tensors it makes.
    #[must_use]
    pub fn values(&self) -> usize {
        match &self.kind {
            OperationKind::Placeholder { .. } => 1,
            OperationKind::Compute(compute) => compute.body.len(),
            OperationKind::Scan(scan) => scan.state.len(),
        }
    }

    /// More than that of any operation that it reads from.
    pub(crate) const fn depth(&self) -> u32 {
        self.depth
    }

    /// The tensors that it reads, in its values or in the ranges of its reductions. Each is there once, in order of
    /// first use.
    pub(crate) fn inputs(&self) -> Vec<Tensor> {
        let mut inputs: Vec<Tensor> = Vec::new();
        let mut add = |tensor: &Tensor| {
            if !inputs.contains(tensor) {
                inputs.push(tensor.clone());
            }
        };
        match &self.kind {
            OperationKind::Placeholder { .. } => {}
            OperationKind::Compute(compute) => {
                let ranges = compute.ranges();
                for x in compute.body.iter().chain(ranges.iter().flat_map(|range| [&range.min, &range.extent])) {
                    x.visit(&mut |x| {
                        if let Kind::Read(tensor, _) = x.kind() {
                            add(tensor);
                        }
                    });
                }
            }
            OperationKind::Scan(scan) => scan.init.iter().chain(&scan.update).for_each(add),
        }
        inputs
    }
}

impl Tensor {
    pub(crate) fn new(operation: Arc<Operation>, value: usize) -> Self {
        Self { operation, value }
    }

    /// The operation that makes it.
    #[must_use]
    pub fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// Its place among the operation's results.
    #[must_use]
    pub fn value(&self) -> usize {
        self.value
    }

    /// Its name: the operation's, followed by `.v1` and so on if an operation makes several tensors.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.operation.name();
        if self.operation.values() > 1 && self.operation.as_compute().is_some() {
            format!("{name}.v{}", self.value)
        } else {
            name.to_owned()
        }
    }

    /// Type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self.operation.kind() {
            OperationKind::Placeholder { dtype, .. } => *dtype,
            OperationKind::Compute(compute) => compute.body[self.value].dtype(),
            OperationKind::Scan(scan) => scan.state[self.value].dtype(),
        }
    }

    /// Extents.
    #[must_use]
    pub fn shape(&self) -> Vec<Expr> {
        match self.operation.kind() {
            OperationKind::Placeholder { shape, .. } => shape.clone(),
            OperationKind::Compute(compute) => {
                compute.axes.iter().filter_map(|axis| Some(axis.domain()?.extent.clone())).collect()
            }
            OperationKind::Scan(scan) => scan.state[self.value].shape(),
        }
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// The axis of a dimension of a computation; a negative number counts from the end.
    ///
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`].
    pub fn axis(&self, dimension: impl Into<Dimension>) -> Result<Axis, TeError> {
        self.operation.axis_of(dimension.into(), || self.name())
    }

    /// An axis that a computation reduces over.
    ///
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`].
    pub fn reduce_axis(&self, place: impl Into<Dimension>) -> Result<Axis, TeError> {
        self.operation.reduce_axis_of(place.into(), || self.name())
    }

    /// A scan's time axis.
    ///
    /// # Errors
    /// [`ExpressionError::NoSuchAxis`] when the tensor is not made by a scan.
    pub fn scan_axis(&self) -> Result<Axis, TeError> {
        self.operation.as_scan().map(|scan| scan.axis).ok_or_else(|| {
            ExpressionError::NoSuchAxis { tensor: self.name(), kind: "scan", dimension: 0, count: 0 }.into()
        })
    }
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.operation, &other.operation) && self.value == other.value
    }
}

impl Eq for Tensor {}

impl Hash for Tensor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.operation), self.value).hash(state);
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.name())
    }
}

/// Indices or extents: an array, a vector or a slice of one kind, or a tuple of several kinds. A kind is anything that
/// converts to an [`Expr`]: axes, variables, integers, expressions, and references to these.
pub trait Indices {
    /// The expressions, in order.
    fn expressions(self) -> Vec<Expr>;
}

impl<T: Into<Expr>, const N: usize> Indices for [T; N] {
    fn expressions(self) -> Vec<Expr> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<Expr>> Indices for Vec<T> {
    fn expressions(self) -> Vec<Expr> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<'a, T> Indices for &'a [T]
where
    &'a T: Into<Expr>,
{
    fn expressions(self) -> Vec<Expr> {
        self.iter().map(Into::into).collect()
    }
}

impl<'a, T> Indices for &'a Vec<T>
where
    &'a T: Into<Expr>,
{
    fn expressions(self) -> Vec<Expr> {
        self.as_slice().expressions()
    }
}

impl<'a, T, const N: usize> Indices for &'a [T; N]
where
    &'a T: Into<Expr>,
{
    fn expressions(self) -> Vec<Expr> {
        self.as_slice().expressions()
    }
}

impl Indices for () {
    fn expressions(self) -> Vec<Expr> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Into<Expr>),*> Indices for ($($name,)*) {
            fn expressions(self) -> Vec<Expr> {
                #[expect(non_snake_case, reason = "the type parameters' names serve the values")]
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
