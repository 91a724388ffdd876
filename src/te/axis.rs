//! Axes: variables that run over a range.

use std::fmt;

use super::expr::{Expr, Var};

/// A variable with the range it runs over and what may be done with it. Kept for the life of the process, as names are.
#[derive(Clone, Copy)]
pub struct Axis(&'static AxisData);

struct AxisData {
    var: Var,
    domain: Option<Domain>,
    kind: AxisKind,
    thread: Option<Thread>,
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

/// What an axis is, and so what a schedule may do with it. Of two axes that are fused, the later kind stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AxisKind {
    /// Of a tensor's own dimensions: everything is allowed.
    Data,
    /// A thread or block index: bound to, never split, fused, vectorised or made parallel.
    Thread,
    /// Reduced over: never made parallel or vectorised.
    Reduce,
    /// A scan's time: never reordered, made parallel or vectorised.
    Ordered,
}

impl AxisKind {
    /// TVM's name.
    pub(crate) const fn iter_type(self) -> &'static str {
        match self {
            Self::Data => "DataPar",
            Self::Thread => "ThreadIndex",
            Self::Reduce => "CommReduce",
            Self::Ordered => "Ordered",
        }
    }
}

/// A thread or block index of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Thread {
    /// `blockIdx.x`, `.y` or `.z`, by 0, 1, 2.
    Block(u8),
    /// `threadIdx.x`, `.y` or `.z`, by 0, 1, 2.
    Thread(u8),
    /// A virtual thread: a thread does the work of several, interleaved.
    Virtual,
}

impl Thread {
    /// CUDA's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block(0) => "blockIdx.x",
            Self::Block(1) => "blockIdx.y",
            Self::Block(_) => "blockIdx.z",
            Self::Thread(0) => "threadIdx.x",
            Self::Thread(1) => "threadIdx.y",
            Self::Thread(_) => "threadIdx.z",
            Self::Virtual => "vthread",
        }
    }

    /// The index that the variable of a thread axis stands for.
    pub(crate) fn of(var: Var) -> Option<Self> {
        if var.is_counter() { Self::parse(var.name()) } else { None }
    }

    fn parse(name: &str) -> Option<Self> {
        let is_virtual = name == "cthread" || name.starts_with("vthread");
        let mut device = (0..3).flat_map(|d| [Self::Block(d), Self::Thread(d)]);
        device.find(|thread| thread.name() == name).or(is_virtual.then_some(Self::Virtual))
    }
}

/// What names the shape of a reduction's or axis' range: an extent, or (min, end).
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

/// A thread or block index: `blockIdx.x`, …, `threadIdx.z`; or a virtual thread, `vthread`, of which there may be any
/// number: every axis is one of its own (`vthread.x` and so on are only names; `cthread`, a coprocessor's, is no other
/// here). Any other name makes an axis that `bind` refuses.
///
/// A loop bound to a virtual thread must have a constant extent. Its iterations are done by one thread, interleaved
/// statement by statement: so loads that several of them need are done once, and each keeps its own local memory.
#[must_use]
pub fn thread_axis(name: &str) -> Axis {
    let thread = Thread::parse(name);
    Axis::leak(AxisData { var: Var::counter(name), domain: None, kind: AxisKind::Thread, thread })
}

impl Axis {
    pub(crate) fn new(name: &str, domain: Option<Domain>, kind: AxisKind) -> Self {
        Self::leak(AxisData { var: Var::counter(name), domain, kind, thread: None })
    }

    fn leak(data: AxisData) -> Self {
        Self(Box::leak(Box::new(data)))
    }

    /// The variable.
    #[must_use]
    pub fn var(self) -> Var {
        self.0.var
    }

    /// The name it was made with.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.var.name()
    }

    /// The range, where the axis was made with one: split and thread axes get theirs when the schedule is lowered.
    #[must_use]
    pub fn domain(self) -> Option<&'static Domain> {
        self.0.domain.as_ref()
    }

    /// What it is.
    #[must_use]
    pub fn kind(self) -> AxisKind {
        self.0.kind
    }

    /// The device's index it stands for.
    #[must_use]
    pub fn thread(self) -> Option<Thread> {
        self.0.thread
    }
}

impl PartialEq for Axis {
    fn eq(&self, other: &Self) -> bool {
        self.0.var == other.0.var
    }
}

impl Eq for Axis {}

impl std::hash::Hash for Axis {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.var.hash(state);
    }
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.var)
    }
}
