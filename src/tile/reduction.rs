//! Reductions of tiles: sum, max and min over axes, in registers or shared memory.
//!
//! A [`TileReduction`] describes what is reduced, and which threads do it. A [`DispatchTable`] chooses a variant that
//! can do it and emits the CUDA C++. The variants of [`DispatchTable::standard`]:
//!
//! | variant | who | what |
//! |---|---|---|
//! | `local` | thread | registers, one after the other |
//! | `local.warp` | warp | registers of each lane, then a butterfly over the lanes that hold replicas of the result |
//! | `local.view` | warp, warpgroup | registers of each lane; with `thread_reduce`, then a butterfly over the lanes |
//! | `shared.block` | cta | shared memory, few outputs of many elements: all threads for one after the other |
//! | `shared` | all | shared memory: neighbouring lanes share an output and meet in a butterfly; one thread: a loop |
//!
//! Arithmetic: f64, f32, i64 and i32 accumulate in their own type (integers wrap). f16 and bf16 accumulate in f32, and
//! the result is rounded once, when it is stored. Max and min give NaN if any element is NaN. A reduction over one
//! element gives that element.
//!
//! With `accumulate` the destination's old value is combined, too. It comes first if one thread does everything, and
//! last if lanes combine, so that it is counted once.

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

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileOp {
    /// The sum; 0 over no elements.
    Sum,
    /// The largest value; -∞ or the least integer over no elements.
    Max,
    /// The smallest value; ∞ or the greatest integer over no elements.
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

/// A reduction of one tile into another.
///
/// The destination has the source's shape, with the reduced dimensions of extent 1 or left out. In registers, it may
/// also keep those parts of the reduced dimensions that run along lanes. Every lane then has its own result, over the
/// elements that it holds; or, with [`thread_reduce`](Self::thread_reduce), the result over all lanes.
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

/// The emitted code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileCode {
    /// The variant that was chosen.
    pub variant: String,
    /// The statements. They use the buffers' names as arrays or pointers. They need the text of `tile::headers()`, and
    /// must stand in namespace `epilogue`.
    pub body: String,
    destination: (String, ElementType),
    source: (String, ElementType),
}

impl TileCode {
    /// A `__device__` function with these statements, whose parameters are the destination and the source.
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
    /// A reduction of `source` over `axes` (negative ones count from the end) into `destination`, executed by `scope`.
    /// The block has 128 threads along x.
    ///
    /// For every scope except a single thread: all its threads must execute the reduction together, and shared memory
    /// that is read must have been written before a barrier. After the reduction, the scope's threads can read what it
    /// wrote to shared memory.
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

    /// Combines the destination's old value, too (TIRx: `accum=True`).
    #[must_use]
    pub fn accumulate(mut self) -> Self {
        self.accumulate = true;
        self
    }

    /// Combines over lanes that hold parts of a reduced dimension, although the destination has an element for each of
    /// them. All of them get the whole result.
    #[must_use]
    pub fn thread_reduce(mut self) -> Self {
        self.thread_reduce = true;
        self
    }

    /// Sets the number of threads of the block along x, y and z.
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

    /// Chooses a variant of the standard table, and emits it.
    ///
    /// # Errors
    /// [`TileError::NoVariant`], with the predicate that fails for each variant.
    pub fn emit(&self) -> Result<TileCode, TileError> {
        DispatchTable::standard().emit(self)
    }

    /// How elements are combined.
    #[must_use]
    pub const fn op(&self) -> TileOp {
        self.op
    }

    /// The threads that execute it.
    #[must_use]
    pub const fn scope(&self) -> ExecutionScope {
        self.scope
    }

    /// The tile that is written.
    #[must_use]
    pub const fn destination(&self) -> &TileBuffer {
        &self.destination
    }

    /// The tile that is read.
    #[must_use]
    pub const fn source(&self) -> &TileBuffer {
        &self.source
    }

    /// The reduced axes, counted from the front, in ascending order.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Whether the destination's old value is combined, too.
    #[must_use]
    pub const fn accumulates(&self) -> bool {
        self.accumulate
    }

    /// Whether all lanes with a part of the source get the whole result.
    #[must_use]
    pub const fn reduces_threads(&self) -> bool {
        self.thread_reduce
    }

    /// The number of threads of the block along x, y and z.
    #[must_use]
    pub const fn block_extents(&self) -> [u32; 3] {
        self.block
    }

    /// The number of threads of the block.
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
