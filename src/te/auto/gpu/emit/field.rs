//! The parameters of generated kernels. All are passed in one struct, each with 8 bytes.

use super::loops::Side;
use crate::te::expr::var::Var;

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::te::auto) enum Field {
    /// Address of an affine read's first element; for another read, that of its tensor.
    Read(usize),
    /// Stride of an affine read along a loop, in elements.
    ReadStep(usize, Side, usize),
    /// Stride of a dimension of another read's tensor, in elements.
    Stride(usize, usize),
    /// Extent of a dimension of another read's tensor.
    Extent(usize, usize),
    /// Address of an output.
    Output(usize),
    /// Stride of an output along a loop, in elements.
    OutputStep(usize, Side, usize),
    /// Number of steps of a loop; in chunks if it takes several points at once.
    Count(Side, usize),
    /// The divider for this number.
    Divider(Side, usize),
    /// Number of points of the loop that takes several at once.
    Points,
    /// A size that expressions use.
    Size(Var),
    /// The least value of an axis.
    Minimum(usize),
    /// A parameter of reductions and maps only.
    Reduce(ReduceField),
    /// A parameter of scans only.
    Scan(ScanField),
    /// Number of elements that a stage of a cell computes: the last parameter of each stage.
    Elements,
}

/// A parameter of kernels of reductions and maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) enum ReduceField {
    /// Number of outputs.
    Outputs,
    /// Number of outputs in complete chunks of neighbouring ones.
    FullOutputs,
    /// Number of chunks of an output's elements.
    Chunks,
    /// Number of chunks that are complete.
    FullChunks,
    /// Number of blocks that share an output.
    Splits,
    /// Workspace: the results of those blocks.
    Partials,
    /// Workspace: how many of them are done.
    Counters,
}

impl ReduceField {
    /// Parameters of every kernel.
    pub(in crate::te::auto) const ALL: [Self; 4] = [Self::Outputs, Self::FullOutputs, Self::Chunks, Self::FullChunks];
    /// Further parameters of a kernel whose blocks share outputs.
    pub(in crate::te::auto) const SPLIT: [Self; 3] = [Self::Splits, Self::Partials, Self::Counters];

    /// Its type in the parameters' struct and its name.
    pub(super) const fn declaration(self) -> (&'static str, &'static str) {
        match self {
            Self::Outputs => (INDEX, "outputs"),
            Self::FullOutputs => (INDEX, "full_outputs"),
            Self::Chunks => (INDEX, "chunks"),
            Self::FullChunks => (INDEX, "full_chunks"),
            Self::Splits => (INDEX, "splits"),
            Self::Partials => ("Pass<0>::Value*", "partials"),
            Self::Counters => ("u32*", "counters"),
        }
    }

    /// The function that device code reads it by.
    pub(super) fn getter(self) -> String {
        getter(self.declaration(), "u32")
    }
}

/// A parameter of kernels of scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) enum ScanField {
    /// Number of columns.
    Columns,
    /// Number of columns that are reduced to one.
    Reduced,
    /// Number of steps.
    Steps,
    /// Number of tiles that a column's steps are cut into.
    Tiles,
    /// Workspace: what the tiles, and batches of them, do to a state.
    Maps,
    /// Workspace: which of that is known.
    Flags,
    /// Workspace: the tiles that blocks have taken.
    Claims,
    /// Workspace: counters of finished blocks and launches.
    Control,
}

impl ScanField {
    pub(in crate::te::auto) const ALL: [Self; 8] =
        [Self::Columns, Self::Reduced, Self::Steps, Self::Tiles, Self::Maps, Self::Flags, Self::Claims, Self::Control];

    /// Its type in the parameters' struct and its name.
    pub(super) const fn declaration(self) -> (&'static str, &'static str) {
        match self {
            Self::Columns => (INDEX, "columns"),
            Self::Reduced => (INDEX, "reduced"),
            Self::Steps => (INDEX, "steps"),
            Self::Tiles => (INDEX, "tiles"),
            Self::Maps => ("Map*", "maps"),
            Self::Flags => ("u32*", "flags"),
            Self::Claims => ("u32*", "claims"),
            Self::Control => ("u32*", "control"),
        }
    }

    /// The function that device code reads it by.
    pub(super) fn getter(self) -> String {
        let number = if matches!(self, Self::Columns | Self::Reduced) { "u32" } else { INDEX };
        getter(self.declaration(), number)
    }
}

/// The type of numbers in the parameters' struct.
const INDEX: &str = "index_t";

/// A function that gives a parameter: a number as the given type, a workspace as it is.
fn getter((ty, name): (&str, &str), number: &str) -> String {
    let (ty, value) =
        if ty == INDEX { (number, format!("static_cast<{number}>(p.{name})")) } else { (ty, format!("p.{name}")) };
    format!("__device__ __forceinline__ {ty} {name}() const {{ return {value}; }}\n")
}
