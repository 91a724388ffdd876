//! The statements of a loop program.

use super::device_call::{CallArgument, DeviceCall};
use super::pragma::Pragma;
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::reduce::Combiner;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;

/// How a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// One iteration after another.
    Serial,
    /// Iterations on several CPU threads.
    Parallel,
    /// All iterations at once, in a vector.
    Vectorized,
    /// Iterations are written out.
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
        /// The repeated statement.
        body: Box<Self>,
    },
    /// `if condition { then }`
    If {
        /// The condition.
        condition: Expr,
        /// The statement that runs if it holds.
        then: Box<Self>,
    },
    /// `buffer[indices] = value`
    Store {
        /// The buffer.
        buffer: Buffer,
        /// The indices of the element.
        indices: Vec<Expr>,
        /// The value.
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
    /// Memory that the program allocates; it exists while `body` runs.
    Allocate {
        /// The memory.
        buffer: Buffer,
        /// The statement in which it exists.
        body: Box<Self>,
    },
    /// `body` runs for every thread or block of a device, in parallel.
    Launch {
        /// The index.
        thread: Thread,
        /// Its variable.
        var: Var,
        /// How many there are.
        extent: Expr,
        /// The work of each.
        body: Box<Self>,
    },
    /// Combines values of several threads; every thread gets the result in `results`.
    AllReduce(Box<AllReduce>),
    /// A barrier: all threads of a block wait for each other.
    Barrier,
    /// A prefetch of an element, on targets that have one. Nothing is computed.
    Prefetch {
        /// The buffer.
        buffer: Buffer,
        /// The indices of the element.
        indices: Vec<Expr>,
    },
    /// Additional knowledge about a statement. It changes how the statement runs or is printed, never what it computes.
    Note {
        /// The knowledge.
        note: Note,
        /// The statement.
        body: Box<Self>,
    },
}

/// Additional knowledge about a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// The statement writes one half of the memory, while the other half is read.
    DoubleBufferWrite(Buffer),
    /// A pragma that was given at a loop holds for the statement.
    Pragma(Axis, Pragma),
    /// On CUDA, this call of a device function replaces the statement.
    Call(DeviceCall),
}

impl Note {
    /// The expressions in it.
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

    /// Replaces every expression of the note.
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

/// A reduction over threads.
#[derive(Clone, Debug, PartialEq)]
pub struct AllReduce {
    /// How values combine.
    pub combiner: Combiner,
    /// Each thread's values.
    pub source: Vec<Expr>,
    /// Whether this thread takes part. If not, it contributes the identities.
    pub condition: Expr,
    /// The thread indices that are reduced over.
    pub threads: Vec<Axis>,
    /// One-element local buffers for the results.
    pub results: Vec<Buffer>,
}

impl Stmt {
    /// Statements in order, flattened; none give the empty statement.
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

    /// Replaces each direct inner statement.
    pub(crate) fn map_children(mut self, f: &mut dyn FnMut(Self) -> Self) -> Self {
        match &mut self {
            Self::For { body, .. }
            | Self::Let { body, .. }
            | Self::Allocate { body, .. }
            | Self::Launch { body, .. }
            | Self::Note { body, .. }
            | Self::If { then: body, .. } => body.replace(f),
            Self::Seq(statements) => self = Self::sequence(std::mem::take(statements).into_iter().map(f)),
            Self::Store { .. } | Self::AllReduce(_) | Self::Barrier | Self::Prefetch { .. } => {}
        }
        self
    }

    fn replace(&mut self, f: &mut dyn FnMut(Self) -> Self) {
        let before = std::mem::replace(self, Self::Seq(Vec::new()));
        *self = f(before);
    }

    /// Replaces every expression in the statement, also in inner statements.
    pub(crate) fn map_expressions(self, f: &mut dyn FnMut(&Expr) -> Expr) -> Self {
        let own = match self {
            Self::For { var, extent, kind, body } => Self::For { var, extent: f(&extent), kind, body },
            Self::If { condition, then } => Self::If { condition: f(&condition), then },
            Self::Store { buffer, indices, value } => {
                Self::Store { buffer, indices: indices.iter().map(&mut *f).collect(), value: f(&value) }
            }
            Self::Let { var, value, body } => Self::Let { var, value: f(&value), body },
            Self::Launch { thread, var, extent, body } => Self::Launch { thread, var, extent: f(&extent), body },
            Self::AllReduce(mut reduce) => {
                reduce.source.iter_mut().for_each(|x| *x = f(x));
                reduce.condition = f(&reduce.condition);
                Self::AllReduce(reduce)
            }
            Self::Prefetch { buffer, indices } => {
                Self::Prefetch { buffer, indices: indices.iter().map(&mut *f).collect() }
            }
            Self::Note { note, body } => Self::Note { note: note.map_expressions(f), body },
            other @ (Self::Seq(_) | Self::Allocate { .. } | Self::Barrier) => other,
        };
        own.map_children(&mut |child| child.map_expressions(f))
    }

    /// A mistake in an expression of the statement or inside it: for example, one that nests too deep.
    pub(crate) fn mistake(&self) -> Option<TeError> {
        let (mut found, mut pending) = (None, vec![self]);
        while let Some(statement) = pending.pop() {
            for x in statement.expressions() {
                x.visit(&mut |x| found = found.take().or_else(|| x.error()));
            }
            pending.extend(statement.children());
        }
        found
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

    /// The expressions of the statement itself, not of inner statements, in the order in which they are written.
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
