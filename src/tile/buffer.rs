//! Buffers that a tile primitive reads and writes, and the threads that execute it.

use std::fmt;
use std::ops::Range;

use super::error::TileError;
use super::layout::{TileAxis, TileLayout};
use crate::ElementType;
use crate::expr::identifier;

/// The threads that execute a primitive together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionScope {
    /// One thread.
    Thread,
    /// All lanes of a warp.
    Warp,
    /// All lanes of four consecutive warps; the number of the first is a multiple of four.
    Warpgroup,
    /// All threads of a block.
    Cta,
}

impl ExecutionScope {
    /// The number of threads that execute together, in a block with `block` threads.
    #[must_use]
    pub const fn threads(self, block: usize) -> usize {
        match self {
            Self::Thread => 1,
            Self::Warp => 32,
            Self::Warpgroup => 128,
            Self::Cta => block,
        }
    }
}

impl fmt::Display for ExecutionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Warp => "warp",
            Self::Warpgroup => "warpgroup",
            Self::Cta => "cta",
        })
    }
}

/// The memory that a buffer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryScope {
    /// Registers, private to each thread.
    Local,
    /// A block's shared memory.
    Shared,
}

impl fmt::Display for MemoryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Shared => "shared",
        })
    }
}

/// A tile: elements of a shape, laid out over registers and threads, or in shared memory. In the kernel it is an array
/// (or a pointer to one) with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileBuffer {
    name: String,
    element: ElementType,
    scope: MemoryScope,
    shape: Vec<usize>,
    layout: TileLayout,
}

impl TileBuffer {
    /// A tile with this layout.
    ///
    /// # Errors
    /// [`TileError::Name`] for a name that is not an identifier, and [`TileError::Layout`] for a layout that doesn't
    /// fit the shape. [`TileError::SharedThreads`] for a layout of shared memory that runs along threads.
    pub fn new(
        name: &str,
        element: ElementType,
        scope: MemoryScope,
        shape: &[usize],
        layout: TileLayout,
    ) -> Result<Self, TileError> {
        if identifier::sanitize(name) != name || is_taken(name) {
            return Err(TileError::Name { name: name.to_owned() });
        }
        layout.check(shape).map_err(|source| TileError::Layout { buffer: name.to_owned(), source })?;
        let iters = layout.shard_iters().iter().chain(layout.replica_iters());
        let along_threads = iters.filter(|iter| iter.extent > 1).any(|iter| iter.axis != TileAxis::Memory);
        if scope == MemoryScope::Shared && (along_threads || !layout.is_thread_local()) {
            return Err(TileError::SharedThreads { buffer: name.to_owned(), layout: layout.to_string() });
        }
        Ok(Self { name: name.to_owned(), element, scope, shape: shape.to_vec(), layout })
    }

    /// A tile in the registers of one thread, row-major.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn local(name: &str, element: ElementType, shape: &[usize]) -> Result<Self, TileError> {
        Self::new(name, element, MemoryScope::Local, shape, TileLayout::row_major(shape))
    }

    /// A tile in shared memory, row-major.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn shared(name: &str, element: ElementType, shape: &[usize]) -> Result<Self, TileError> {
        Self::new(name, element, MemoryScope::Shared, shape, TileLayout::row_major(shape))
    }

    /// A part of the tile, in the same memory.
    ///
    /// # Errors
    /// [`TileError::Layout`] for a part that the layout can't be cut to.
    pub fn slice(&self, part: &[Range<usize>]) -> Result<Self, TileError> {
        let extents: Vec<usize> = part.iter().map(|range| range.end.saturating_sub(range.start)).collect();
        let cut: Vec<(usize, usize)> = part.iter().zip(&extents).map(|(range, &n)| (range.start, n)).collect();
        let layout = self.layout.slice(&self.shape, &cut);
        let layout = layout.map_err(|source| TileError::Layout { buffer: self.name.clone(), source })?;
        Self::new(&self.name, self.element, self.scope, &extents, layout)
    }

    /// Its name in the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its element type.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// The memory that it is in.
    #[must_use]
    pub const fn scope(&self) -> MemoryScope {
        self.scope
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its layout.
    #[must_use]
    pub const fn layout(&self) -> &TileLayout {
        &self.layout
    }
}

/// Whether the name is used in emitted code, or in the headers that it needs.
fn is_taken(name: &str) -> bool {
    const OWN: [&str; 38] = [
        "Ends",
        "ReduceAdd",
        "ReduceMax",
        "ReduceMin",
        "bf16",
        "convert",
        "epilogue",
        "f16",
        "f32",
        "f64",
        "f8e4m3",
        "f8e5m2",
        "first",
        "gather",
        "group",
        "i32",
        "i64",
        "i8",
        "larger",
        "mask",
        "math",
        "named_barrier",
        "narrow",
        "output",
        "publish_warp",
        "rank",
        "red",
        "reduce_lanes",
        "shuffle_down",
        "shuffle_lane",
        "smaller",
        "spa",
        "thread",
        "total",
        "u32",
        "u64",
        "u8",
        "widen",
    ];
    let counter = name.trim_end_matches(|c: char| c.is_ascii_digit());
    OWN.contains(&name) || matches!(counter, "spa" | "red") || name.starts_with("block_")
}

impl fmt::Display for TileBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {:?} in {}, {}", self.name, self.element, self.shape, self.scope, self.layout)
    }
}
