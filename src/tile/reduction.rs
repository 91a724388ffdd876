//! Reductions of tiles: sum, max and min over axes of registers or shared memory.
//!
//! A [`TileReduction`] says what is reduced, by whom; a [`DispatchTable`] chooses a variant that does it and writes the
//! CUDA C++. The variants of [`DispatchTable::standard`]:
//!
//! | variant | who | what |
//! |---|---|---|
//! | `local` | thread | registers, one after the other |
//! | `local.warp` | warp | registers of each lane, then a butterfly over the lanes that hold replicas of the result |
//! | `local.view` | warp, warpgroup | registers of each lane; with `thread_reduce`, then a butterfly over the lanes |
//! | `shared.block` | cta | shared memory, few outputs of many elements: all threads for one after the other |
//! | `shared` | all | shared memory: neighbouring lanes share an output and meet in a butterfly; one thread: a loop |
//!
//! Arithmetic: f64, f32, i64 and i32 accumulate in their own type (integers wrap), f16 and bf16 in f32, rounded once, when
//! the result is stored. NaN wins in max and min. A reduction over one element per output is that element.
//!
//! With `accumulate` the destination's old value takes part: first, where one thread does everything; last, where lanes
//! combine, so that it enters once.

mod dispatch;
mod emit;
mod local;
mod mapping;
mod shared;
#[cfg(test)]
mod tests;

use std::fmt;

pub use dispatch::{DispatchTable, Predicate, Variant};

use super::buffer::{ExecutionScope, TileBuffer};
use super::error::TileError;
use crate::ElementType;

/// How elements combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileOp {
    /// Sum; 0 over nothing.
    Sum,
    /// The largest; -∞, or the least integer, over nothing.
    Max,
    /// The smallest; ∞, or the greatest integer, over nothing.
    Min,
}

impl fmt::Display for TileOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
        })
    }
}

/// A reduction of a tile into another.
///
/// The destination has the source's shape with the reduced dimensions 1 or left out. Or, in registers, with those parts
/// of the reduced dimensions that run along lanes: then every lane has a result of its own, that of the elements that it
/// holds; or, with [`thread_reduce`](Self::thread_reduce), that of all lanes.
///
/// ```
/// use epilogue::ElementType::F32;
/// use epilogue::tile::{ExecutionScope::Thread, TileBuffer, TileOp::Sum, TileReduction};
///
/// let a = TileBuffer::local("A_local", F32, &[4])?;
/// let b = TileBuffer::local("B_local", F32, &[1])?;
/// let code = TileReduction::new(Sum, Thread, &b, &a, &[-1])?.emit()?;
/// assert_eq!(code.variant, "local");
/// assert!(code.body.ends_with("\
/// for (int red = 0; red < 4; ++red)
///     B_local[0] = B_local[0] + A_local[red];
/// "));
/// # Ok::<(), epilogue::tile::TileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileReduction {
    op: TileOp,
    scope: ExecutionScope,
    destination: TileBuffer,
    source: TileBuffer,
    axes: Vec<usize>,
    accumulate: bool,
    thread_reduce: bool,
    block: [u32; 3],
}

/// What was emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileCode {
    /// The variant that was chosen.
    pub variant: String,
    /// Statements, for where the buffers' names are arrays or pointers. They need `tile::headers()` and stand in
    /// namespace `epilogue`.
    pub body: String,
    destination: (String, ElementType),
    source: (String, ElementType),
}

impl TileCode {
    /// The statements as a `__device__` function of the destination and the source, in that order.
    #[must_use]
    pub fn function(&self, name: &str) -> String {
        let parameter = |(name, element): &(String, ElementType)| (emit::memory_type(*element), name.clone());
        let ((to, destination), (from, source)) = (parameter(&self.destination), parameter(&self.source));
        let body: String =
            self.body
                .lines()
                .map(|line| {
                    if line.is_empty() || line.starts_with('#') { format!("{line}\n") } else { format!("    {line}\n") }
                })
                .collect();
        format!("__device__ __forceinline__ void {name}({to}* {destination}, const {from}* {source}) {{\n{body}}}\n")
    }
}

impl TileReduction {
    /// A reduction of `source` over `axes` (negative ones count from the end) into `destination`, by `scope`, in a block
    /// of 128 threads along x.
    ///
    /// What every scope but a thread's asks for: all its threads execute the reduction together, and shared memory that
    /// is read was written before a barrier. What is written to shared memory can be read by the scope's threads
    /// afterwards.
    ///
    /// # Errors
    /// [`TileError::Axis`], [`TileError::RepeatedAxis`].
    pub fn new(
        op: TileOp,
        scope: ExecutionScope,
        destination: &TileBuffer,
        source: &TileBuffer,
        axes: &[isize],
    ) -> Result<Self, TileError> {
        let rank = source.shape().len();
        let mut counted = Vec::new();
        for &axis in axes {
            let from_front = if axis < 0 { rank.checked_add_signed(axis) } else { usize::try_from(axis).ok() };
            let Some(front) = from_front.filter(|&front| front < rank) else {
                return Err(TileError::Axis { axis, buffer: source.name().to_owned(), rank });
            };
            if counted.contains(&front) {
                return Err(TileError::RepeatedAxis { axis: front, buffer: source.name().to_owned() });
            }
            counted.push(front);
        }
        counted.sort_unstable();
        let (destination, source) = (destination.clone(), source.clone());
        let block = [128, 1, 1];
        Ok(Self { op, scope, destination, source, axes: counted, accumulate: false, thread_reduce: false, block })
    }

    /// The destination's old value takes part (TIRx: `accum=True`).
    #[must_use]
    pub fn accumulate(mut self) -> Self {
        self.accumulate = true;
        self
    }

    /// Where lanes hold parts of a reduced dimension, and the destination has one element for each of them: all of them
    /// get the whole result.
    #[must_use]
    pub fn thread_reduce(mut self) -> Self {
        self.thread_reduce = true;
        self
    }

    /// Threads of the block along x, y and z.
    ///
    /// # Errors
    /// [`TileError::Block`].
    pub fn block(mut self, block: [u32; 3]) -> Result<Self, TileError> {
        let threads = block.iter().fold(1, |all: u64, &n| all.saturating_mul(n.into()));
        if threads == 0 || threads > 1024 || block[2] > 64 {
            return Err(TileError::Block { block });
        }
        self.block = block;
        Ok(self)
    }

    /// Chooses a variant of the standard table, and writes it.
    ///
    /// # Errors
    /// [`TileError::NoVariant`], with the predicate that fails for each variant.
    pub fn emit(&self) -> Result<TileCode, TileError> {
        DispatchTable::standard().emit(self)
    }

    /// How elements combine.
    #[must_use]
    pub const fn op(&self) -> TileOp {
        self.op
    }

    /// Who executes it.
    #[must_use]
    pub const fn scope(&self) -> ExecutionScope {
        self.scope
    }

    /// What is written.
    #[must_use]
    pub const fn destination(&self) -> &TileBuffer {
        &self.destination
    }

    /// What is read.
    #[must_use]
    pub const fn source(&self) -> &TileBuffer {
        &self.source
    }

    /// The axes reduced, counted from the front, ascending.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Whether the destination's old value takes part.
    #[must_use]
    pub const fn accumulates(&self) -> bool {
        self.accumulate
    }

    /// Whether all lanes with a part of the source get the whole result.
    #[must_use]
    pub const fn reduces_threads(&self) -> bool {
        self.thread_reduce
    }

    /// Threads of the block along x, y and z.
    #[must_use]
    pub const fn block_extents(&self) -> [u32; 3] {
        self.block
    }

    /// Threads of the block.
    #[must_use]
    pub fn block_threads(&self) -> usize {
        self.block.iter().map(|&n| n as usize).product()
    }
}

/// `sum of A: f32 [4] in local, S[4 : 1@m] over [0] into B: …, by a thread`
impl fmt::Display for TileReduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, scope, destination, source, axes, .. } = self;
        write!(f, "{op} of {source} over {axes:?} into {destination}, by a {scope}")?;
        f.write_str(if self.accumulate { ", accumulating" } else { "" })?;
        f.write_str(if self.thread_reduce { ", over threads" } else { "" })
    }
}
