//! The errors of tile primitives.

use std::fmt;

use super::layout::LayoutError;

/// An error in a tile or in a reduction of tiles.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// A name that is not usable in CUDA C++.
    #[error(
        "`{name}` is not a name for a buffer: an identifier of letters, digits and single \
             underscores is needed, not all in capitals, which is neither a word of CUDA C++ nor one of the emitted code's own (`total`, `spa`, \
             `red`, `thread`, `rank`, …)"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A layout that doesn't fit the buffer's shape.
    #[error("buffer {buffer}: {source}")]
    Layout {
        /// The buffer.
        buffer: String,
        /// The layout's mistake.
        source: LayoutError,
    },
    /// A layout of shared memory that runs along threads.
    #[error("buffer {buffer} is in shared memory, whose layout runs along `m` only; {layout} was given")]
    SharedThreads {
        /// The buffer.
        buffer: String,
        /// Its layout.
        layout: String,
    },
    /// An axis that the source doesn't have.
    #[error("axis {axis} is beyond {buffer}, which has {rank} dimensions: from {} to {} is possible", -(*rank as i64), *rank as i64 - 1)]
    Axis {
        /// The axis.
        axis: isize,
        /// The source.
        buffer: String,
        /// Its rank.
        rank: usize,
    },
    /// An axis that is given twice.
    #[error("axis {axis} of {buffer} is reduced twice; give it once")]
    RepeatedAxis {
        /// The axis, counted from the front.
        axis: usize,
        /// The source.
        buffer: String,
    },
    /// A block size that no launch can have.
    #[error("a block of {block:?} threads is impossible; 1 to 1024 threads, at most 64 along z, are allowed")]
    Block {
        /// Threads along x, y and z.
        block: [u32; 3],
    },
    /// No variant can do the reduction.
    #[error("no variant reduces {source_buffer} into {destination}: {}", list(refusals))]
    NoVariant {
        /// The source.
        source_buffer: String,
        /// The destination.
        destination: String,
        /// The reason of each variant.
        refusals: Vec<Refusal>,
    },
    /// A variant with predicates that hold, but which failed.
    #[error("variant {variant} accepted the reduction and then failed: {reason}")]
    Variant {
        /// The variant.
        variant: String,
        /// The error that it gave.
        reason: String,
    },
}

epilogue_runtime::message::debug!(TileError);

/// The reason why a variant can't do a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The variant.
    pub variant: String,
    /// The first predicate that doesn't hold.
    pub predicate: String,
    /// The reason why it doesn't hold.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: predicate {} fails ({})", self.variant, self.predicate, self.reason)
    }
}

fn list(refusals: &[Refusal]) -> String {
    let all: Vec<String> = refusals.iter().map(Refusal::to_string).collect();
    if all.is_empty() { "the table is empty".to_owned() } else { all.join("; ") }
}
