//! The loop program that a schedule is lowered to.

use std::fmt;
use std::sync::Arc;

use super::axis::{Axis, Thread};
use super::dtype::DType;
use super::error::TeError;
use super::expr::{Expr, Var};
use super::intrinsic::DeviceFunction;
use super::reduce::Combiner;
use super::schedule::Pragma;
use super::tensor::Tensor;

/// Memory that a program reads and writes: an argument's, or its own.
#[derive(Clone)]
pub struct Buffer(Arc<BufferData>);

struct BufferData {
    name: String,
    dtype: DType,
    shape: Vec<Expr>,
    strides: Vec<Expr>,
    scope: Scope,
    /// Before which dimensions the indices are flattened apart.
    separators: Vec<usize>,
}

/// Where memory is, widest first: a thread's own is `Local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All threads'.
    Global,
    /// A block's.
    Shared,
    /// A warp's: kept where `Shared` is, for all warps of the block, so that what they share they compute once.
    Warp,
    /// A thread's.
    Local,
}

impl Scope {
    /// TVM's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Warp => "warp",
            Self::Local => "local",
        }
    }

    /// Whether one thread reads what another wrote.
    pub(crate) const fn is_shared_by_threads(self) -> bool {
        !matches!(self, Self::Local)
    }

    /// The scope of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Global, Self::Shared, Self::Warp, Self::Local].into_iter().find(|scope| scope.name() == name)
    }
}

impl Buffer {
    /// Memory of `shape`, element `(i, j, …)` at `i * strides[0] + j * strides[1] + …`.
    pub(crate) fn new(name: &str, dtype: DType, shape: Vec<Expr>, strides: Vec<Expr>, scope: Scope) -> Self {
        Self(Arc::new(BufferData { name: name.to_owned(), dtype, shape, strides, scope, separators: Vec::new() }))
    }

    /// The same memory, row-major, with indices that are flattened apart before the given dimensions.
    pub(crate) fn with_separators(&self, separators: &[usize]) -> Self {
        if separators.is_empty() {
            return self.clone();
        }
        let BufferData { name, dtype, shape, scope, .. } = &*self.0;
        Self(Arc::new(BufferData {
            name: name.clone(),
            dtype: *dtype,
            shape: shape.clone(),
            strides: compact_strides(shape),
            scope: *scope,
            separators: separators.to_vec(),
        }))
    }

    /// Before which dimensions the indices are flattened apart.
    #[must_use]
    pub fn separators(&self) -> &[usize] {
        &self.0.separators
    }

    /// The dimensions that are flattened to one index each.
    pub(crate) fn groups(&self) -> Vec<std::ops::Range<usize>> {
        let mut begin = 0;
        let ends = self.0.separators.iter().copied().chain([self.0.shape.len()]);
        ends.map(|end| std::mem::replace(&mut begin, end)..end).collect()
    }

    /// The extents of the flattened indices.
    pub(crate) fn flat_extents(&self) -> Vec<Expr> {
        if self.0.separators.is_empty() {
            return vec![self.length()];
        }
        self.groups().into_iter().map(|group| product(&self.0.shape[group])).collect()
    }

    /// Row-major memory.
    pub(crate) fn compact(name: &str, dtype: DType, shape: Vec<Expr>, scope: Scope) -> Self {
        let strides = compact_strides(&shape);
        Self::new(name, dtype, shape, strides, scope)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Extents.
    #[must_use]
    pub fn shape(&self) -> &[Expr] {
        &self.0.shape
    }

    /// Strides, in elements.
    #[must_use]
    pub fn strides(&self) -> &[Expr] {
        &self.0.strides
    }

    /// Where it is.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.0.scope
    }

    /// Factors whose product is the number of elements that its memory holds: the extents, or the largest stride and
    /// its extent where rows are padded.
    pub(crate) fn allocation(&self) -> Vec<Expr> {
        match (self.0.strides.first(), self.0.shape.first()) {
            (Some(stride), Some(extent)) if !self.is_compact() => vec![stride.clone(), extent.clone()],
            _ => self.0.shape.clone(),
        }
    }

    /// The number of elements that its memory holds.
    pub(crate) fn length(&self) -> Expr {
        product(&self.allocation())
    }

    /// One more than the last element's place: the length, or with strides of the caller's, what they reach.
    pub(crate) fn reach(&self) -> Expr {
        if self.0.strides.iter().all(|stride| stride.as_var().is_none()) {
            return self.length();
        }
        let last = self.0.shape.iter().zip(&self.0.strides).map(|(extent, stride)| (extent - 1) * stride);
        let reach = last.reduce(|a, b| a + b).unwrap_or_else(|| Expr::int(0)) + 1;
        let empty = self.0.shape.iter().map(|extent| extent.equal(0)).reduce(|a, b| a.or(b));
        let reach = empty.map_or(reach.clone(), |empty| empty.select(0, reach));
        super::arith::simplify(&reach)
    }

    /// Whether its strides are row-major ones.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        self.0.strides == compact_strides(&self.0.shape)
    }
}

fn product(extents: &[Expr]) -> Expr {
    let product = |a: Expr, b: Expr| match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => Expr::int(a * b),
        (Some(1), None) => b,
        _ => a * b,
    };
    extents.iter().cloned().reduce(product).unwrap_or_else(|| Expr::int(1))
}

pub(crate) fn compact_strides(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::int(1); shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = super::arith::simplify(&(&shape[d] * &strides[d]));
    }
    strides
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Buffer {}

impl std::hash::Hash for Buffer {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({})", self.0.name)
    }
}

/// How a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// One iteration after the other.
    Serial,
    /// Iterations on several CPU threads.
    Parallel,
    /// All iterations at once, in a vector.
    Vectorized,
    /// Written out.
    Unrolled,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `for var in 0..extent { body }`
    For {
        /// The counter.
        var: Var,
        /// The number of iterations.
        extent: Expr,
        /// How it runs.
        kind: LoopKind,
        /// What is repeated.
        body: Box<Self>,
    },
    /// `if condition { then }`
    If {
        /// The condition.
        condition: Expr,
        /// What is done if it holds.
        then: Box<Self>,
    },
    /// `buffer[indices] = value`
    Store {
        /// Where.
        buffer: Buffer,
        /// Which element.
        indices: Vec<Expr>,
        /// What.
        value: Expr,
    },
    /// One statement after the other.
    Seq(Vec<Self>),
    /// `let var = value; body`
    Let {
        /// The variable.
        var: Var,
        /// Its value.
        value: Expr,
        /// Where it holds.
        body: Box<Self>,
    },
    /// Memory of the program's own, for as long as `body` runs.
    Allocate {
        /// The memory.
        buffer: Buffer,
        /// Where it exists.
        body: Box<Self>,
    },
    /// `body` runs for every index of a device's threads or blocks, at once.
    Launch {
        /// The index.
        thread: Thread,
        /// Its variable.
        var: Var,
        /// How many there are.
        extent: Expr,
        /// What each does.
        body: Box<Self>,
    },
    /// Values of several threads are combined; every thread gets the result in `results`.
    AllReduce(AllReduce),
    /// All threads of a block wait for each other.
    Barrier,
    /// An element is brought nearer to the processor, where it can be. Nothing is computed.
    Prefetch {
        /// Of which memory.
        buffer: Buffer,
        /// Which element.
        indices: Vec<Expr>,
    },
    /// What is known about a statement. It changes how the statement is run or printed, never what it computes.
    Note {
        /// What is known.
        note: Note,
        /// About which statement.
        body: Box<Self>,
    },
}

/// What is known about a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// It writes one half of memory whose other half is read meanwhile.
    DoubleBufferWrite(Buffer),
    /// A pragma holds for it, given at a loop.
    Pragma(Axis, Pragma),
    /// On CUDA, a call of a device function does the same.
    Call(DeviceCall),
}

impl Note {
    /// The expressions that it holds.
    fn expressions(&self) -> Vec<&Expr> {
        fn of(argument: &CallArgument) -> &[Expr] {
            match argument {
                CallArgument::Pointer(_, indices) => indices,
                CallArgument::Value(value) => std::slice::from_ref(value),
            }
        }
        match self {
            Self::DoubleBufferWrite(_) | Self::Pragma(..) => Vec::new(),
            Self::Call(call) => call.arguments.iter().flat_map(of).collect(),
        }
    }

    /// The same note with every expression replaced.
    pub(crate) fn map_expressions(self, f: &mut dyn FnMut(&Expr) -> Expr) -> Self {
        let Self::Call(DeviceCall { function, arguments }) = self else { return self };
        let replaced = |argument| match argument {
            CallArgument::Pointer(buffer, indices) => {
                CallArgument::Pointer(buffer, indices.iter().map(&mut *f).collect())
            }
            CallArgument::Value(value) => CallArgument::Value(f(&value)),
        };
        Self::Call(DeviceCall { function, arguments: arguments.into_iter().map(replaced).collect() })
    }
}

/// A call of a device function.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCall {
    /// What is called.
    pub function: Arc<DeviceFunction>,
    /// With what.
    pub arguments: Vec<CallArgument>,
}

/// An argument of a device function.
#[derive(Clone, Debug, PartialEq)]
pub enum CallArgument {
    /// A pointer to an element.
    Pointer(Buffer, Vec<Expr>),
    /// A number.
    Value(Expr),
}

/// A reduction over threads.
#[derive(Clone, Debug, PartialEq)]
pub struct AllReduce {
    /// How values combine.
    pub combiner: Combiner,
    /// Each thread's values.
    pub source: Vec<Expr>,
    /// Whether this thread takes part; if not, it gives the identities.
    pub condition: Expr,
    /// The thread indices that are reduced over.
    pub threads: Vec<Axis>,
    /// One-element local buffers for the results.
    pub results: Vec<Buffer>,
}

impl Stmt {
    /// Statements in order, flattened; nothing for none.
    pub(crate) fn sequence(statements: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for statement in statements {
            match statement {
                Self::Seq(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 { flat.swap_remove(0) } else { Self::Seq(flat) }
    }

    /// Whether it does nothing.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Seq(statements) if statements.is_empty())
    }

    /// The same statement with each direct inner statement replaced.
    pub(crate) fn map_children(self, f: &mut dyn FnMut(Self) -> Self) -> Self {
        match self {
            Self::For { var, extent, kind, body } => Self::For { var, extent, kind, body: Box::new(f(*body)) },
            Self::If { condition, then } => Self::If { condition, then: Box::new(f(*then)) },
            Self::Seq(statements) => Self::sequence(statements.into_iter().map(f)),
            Self::Let { var, value, body } => Self::Let { var, value, body: Box::new(f(*body)) },
            Self::Allocate { buffer, body } => Self::Allocate { buffer, body: Box::new(f(*body)) },
            Self::Launch { thread, var, extent, body } => {
                Self::Launch { thread, var, extent, body: Box::new(f(*body)) }
            }
            Self::Note { note, body } => Self::Note { note, body: Box::new(f(*body)) },
            leaf @ (Self::Store { .. } | Self::AllReduce(_) | Self::Barrier | Self::Prefetch { .. }) => leaf,
        }
    }

    /// The same statement with every expression of its own and below replaced.
    pub(crate) fn map_expressions(self, f: &mut dyn FnMut(&Expr) -> Expr) -> Self {
        let own = match self {
            Self::For { var, extent, kind, body } => Self::For { var, extent: f(&extent), kind, body },
            Self::If { condition, then } => Self::If { condition: f(&condition), then },
            Self::Store { buffer, indices, value } => {
                Self::Store { buffer, indices: indices.iter().map(&mut *f).collect(), value: f(&value) }
            }
            Self::Let { var, value, body } => Self::Let { var, value: f(&value), body },
            Self::Launch { thread, var, extent, body } => Self::Launch { thread, var, extent: f(&extent), body },
            Self::AllReduce(reduce) => Self::AllReduce(AllReduce {
                source: reduce.source.iter().map(&mut *f).collect(),
                condition: f(&reduce.condition),
                ..reduce
            }),
            Self::Prefetch { buffer, indices } => {
                Self::Prefetch { buffer, indices: indices.iter().map(&mut *f).collect() }
            }
            Self::Note { note, body } => Self::Note { note: note.map_expressions(f), body },
            other @ (Self::Seq(_) | Self::Allocate { .. } | Self::Barrier) => other,
        };
        own.map_children(&mut |child| child.map_expressions(f))
    }

    /// The direct inner statements.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match self {
            Self::For { body, .. }
            | Self::Let { body, .. }
            | Self::Allocate { body, .. }
            | Self::Launch { body, .. }
            | Self::Note { body, .. }
            | Self::If { then: body, .. } => vec![body],
            Self::Seq(statements) => statements.iter().collect(),
            Self::Store { .. } | Self::AllReduce(_) | Self::Barrier | Self::Prefetch { .. } => Vec::new(),
        }
    }

    /// The expressions of its own, not of inner statements, in the order in which they are written.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        match self {
            Self::For { extent: x, .. }
            | Self::Launch { extent: x, .. }
            | Self::Let { value: x, .. }
            | Self::If { condition: x, .. } => vec![x],
            Self::Store { indices, value, .. } => indices.iter().chain([value]).collect(),
            Self::AllReduce(reduce) => reduce.source.iter().chain([&reduce.condition]).collect(),
            Self::Prefetch { indices, .. } => indices.iter().collect(),
            Self::Note { note, .. } => note.expressions(),
            Self::Seq(_) | Self::Allocate { .. } | Self::Barrier => Vec::new(),
        }
    }
}

/// A condition on the sizes of a run, without which the program must not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// The condition, on sizes only.
    pub condition: Expr,
    /// What a run is refused with where it doesn't hold.
    pub broken: TeError,
}

/// A lowered program: what it takes, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The arguments: each tensor's buffer, in the order given.
    pub arguments: Vec<(Tensor, Buffer)>,
    /// What the sizes of every run must fulfil.
    pub requirements: Vec<Requirement>,
    /// What it does.
    pub body: Stmt,
}
