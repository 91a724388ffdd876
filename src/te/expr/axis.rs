//! Axes: variables that run over a range.

use std::fmt;

use super::expression::{Expr, Kind};
use super::ranges;
use super::thread::Thread;
use super::var::Var;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};

/// A variable with its range and its kind, which says what a schedule may do with it.
///
/// A range that is computed from sizes (`n * 2`) is kept outside the axis. It lives as long as a tensor that has the
/// axis. Without a tensor it is dropped after a few thousand other axes of this kind were made or dropped; using the
/// axis in an expression is then an error.
#[derive(Clone, Copy)]
pub struct Axis {
    var: Var,
    range: Range,
    kind: AxisKind,
}

/// Where the range of an axis is kept. It is in the axis itself if both ends are numbers or variables.
#[derive(Clone, Copy)]
enum Range {
    None,
    Bounds(Bound, Bound),
    /// Kept beside the axis, under its variable.
    Computed,
}

#[derive(Clone, Copy)]
enum Bound {
    Int(i64, DType),
    Var(Var),
}

impl Bound {
    fn of(x: &Expr) -> Option<Self> {
        match x.kind() {
            Kind::Int(value) => Some(Self::Int(*value, x.dtype())),
            Kind::Var(var) => Some(Self::Var(*var)),
            _ => None,
        }
    }
}

impl From<Bound> for Expr {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Int(value, dtype) => Self::new(dtype, Kind::Int(value)),
            Bound::Var(var) => var.into(),
        }
    }
}

impl Range {
    fn of(var: Var, domain: Option<Domain>) -> Self {
        let Some(domain) = domain else { return Self::None };
        match (Bound::of(&domain.min), Bound::of(&domain.extent)) {
            (Some(min), Some(extent)) => Self::Bounds(min, extent),
            _ => {
                ranges::add(var, domain);
                Self::Computed
            }
        }
    }
}

/// A half-open range: `extent` values from `min` on.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The first value.
    pub min: Expr,
    /// How many there are.
    pub extent: Expr,
}

impl Domain {
    /// `extent` values from `min` on.
    pub fn new(min: impl Into<Expr>, extent: impl Into<Expr>) -> Self {
        Self { min: min.into(), extent: extent.into() }
    }

    /// `extent` values from 0 on.
    pub fn up_to(extent: impl Into<Expr>) -> Self {
        Self::new(0, extent)
    }
}

/// The kind of an axis, which decides what a schedule may do with it. A loop that fuses two axes has the later of their
/// kinds, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AxisKind {
    /// A tensor's own dimension: everything is allowed.
    Data,
    /// A thread or block index: loops are bound to it; it is never split, fused, vectorised or made parallel.
    Thread,
    /// An axis that is reduced over: never made parallel or vectorised.
    Reduce,
    /// A scan's time: never reordered, made parallel or vectorised.
    Ordered,
}

impl AxisKind {
    /// TVM's name of the kind.
    pub(crate) const fn iter_type(self) -> &'static str {
        match self {
            Self::Data => "DataPar",
            Self::Thread => "ThreadIndex",
            Self::Reduce => "CommReduce",
            Self::Ordered => "Ordered",
        }
    }
}

/// A range, given as an extent or as (min, end).
pub trait IntoDomain {
    /// The range.
    fn into_domain(self) -> Domain;
}

impl<A: Into<Expr>, B: Into<Expr>> IntoDomain for (A, B) {
    /// (min, end), as TVM's `reduce_axis` takes it.
    fn into_domain(self) -> Domain {
        let (min, end): (Expr, Expr) = (self.0.into(), self.1.into());
        let extent = if min.as_int() == Some(0) { end } else { end - &min };
        Domain { min, extent }
    }
}

/// An axis to reduce over, from `min` to before `end`.
#[must_use]
pub fn reduce_axis(domain: impl IntoDomain, name: &str) -> Axis {
    Axis::new(name, Some(domain.into_domain()), AxisKind::Reduce)
}

/// A thread or block index: `blockIdx.x`, …, `threadIdx.z`; or a virtual thread, `vthread`. There may be any number of
/// virtual threads, and each axis is a separate one. The names `vthread.x` and so on, and `cthread` (in TVM: a
/// coprocessor's), mean the same here. Any other name makes an axis that `bind` refuses.
///
/// A loop bound to a virtual thread must have a constant extent. One thread does all its iterations, interleaved
/// statement by statement. So data that several of them need is loaded once, while each keeps its own local memory.
#[must_use]
pub fn thread_axis(name: &str) -> Axis {
    Axis { var: Var::of_thread(name, Thread::parse(name)), range: Range::None, kind: AxisKind::Thread }
}

impl Axis {
    pub(crate) fn new(name: &str, domain: Option<Domain>, kind: AxisKind) -> Self {
        let var = Var::counter(name);
        Self { var, range: Range::of(var, domain), kind }
    }

    /// The axis itself, or an error if its range has been dropped.
    pub(crate) fn alive(self) -> Result<Self, TeError> {
        match self.range {
            Range::Computed if self.domain().is_none() => {
                Err(ExpressionError::AxisGivenUp { axis: self.name().to_owned(), kept: ranges::MOST_IDLE }.into())
            }
            _ => Ok(self),
        }
    }

    /// The variable.
    #[must_use]
    pub fn var(self) -> Var {
        self.var
    }

    /// The name it was made with.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.var.name()
    }

    /// The range that the axis was made with. It is `None` for split axes and thread axes, which get theirs when the
    /// schedule is lowered.
    #[must_use]
    pub fn domain(self) -> Option<Domain> {
        match self.range {
            Range::None => None,
            Range::Bounds(min, extent) => Some(Domain { min: min.into(), extent: extent.into() }),
            Range::Computed => ranges::of(self.var),
        }
    }

    /// The kind of the axis.
    #[must_use]
    pub fn kind(self) -> AxisKind {
        self.kind
    }

    /// Whether its range is kept outside the axis.
    pub(crate) fn has_computed_range(self) -> bool {
        matches!(self.range, Range::Computed)
    }

    /// The thread or block index of the device that it stands for.
    #[must_use]
    pub fn thread(self) -> Option<Thread> {
        self.var.thread()
    }
}

impl PartialEq for Axis {
    fn eq(&self, other: &Self) -> bool {
        self.var == other.var
    }
}

impl Eq for Axis {}

impl std::hash::Hash for Axis {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.var.hash(state);
    }
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.var)
    }
}
