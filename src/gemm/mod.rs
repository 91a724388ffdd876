//! Matrix products with a fused epilogue: planned for a device once, run any number of times.
//!
//! | to … | use |
//! |---|---|
//! | plan a product for tensors, and run it | [`Gemm`] |
//! | multiply one A by several B, each with an accumulator | [`Right`] |
//! | pack weights once, for many runs | [`Gemm::pack`] |
//! | multiply groups of rows by a B each, as experts do | [`Rows`] |
//! | multiply rows that an index picks | [`Rows::picked`] |
//! | multiply FP8 with a scale for each block | [`Scaled`] |
//! | multiply weights of 4 or 8 bits with scales of groups | [`Quantized`] |
//! | write rows where an index says | [`Rows::scattered`] |
//! | multiply parts of K, as gradients of experts do | [`Depth`] |
//! | convolve images with filters, also in groups of channels | [`patches()`], [`Window`], [`Filter`] |
//! | compute gradients of convolutions, and transposed convolutions | [`gradient_patches`], [`transposed_patches`] |
//! | choose layouts, arithmetic, tile, split-K | [`Builder`] |
//! | know what a device supports | [`supports`] |
//! | compare results with the f64 reference | [`Gemm::reference`] |
//! | see which kernel was chosen, and why | [`Gemm::choice`], [`Choice`] |
//! | see why something is refused | [`Error`] |
//! | launch a kernel from another program | [`launch`] |
//!
//! The rest belongs to the cost model and the kernels, for tools: [`Offer`], [`rank`], [`estimate`], [`source()`], [`sm90`].

mod autotune;
mod builder;
pub(crate) mod cpu;
mod description;
mod devices;
mod emit;
mod families;
mod kernel;
pub mod launch;
mod model;
mod plan;
mod planned;
mod planner;
mod problem;
mod reference;
mod remembered;
mod run;
pub mod sm90;
mod support;

pub use builder::Builder;
pub use devices::Choice;
pub use emit::source;
pub use families::KernelKey;
pub use families::list::Constants;
pub use families::sm80::kernel::{Instruction, NativeFp8, Sm80Key, Tile};
pub use families::sm80::model::constants::Sm80Constants;
pub use families::sm80::model::{Workload, estimate, is_crowded, rank, rank_all};
pub use families::sm90::model::constants::Sm90Constants;
pub use kernel::{Finish, PatchKind, PatchShape, ReadingShape, SplitK, SplitKind};
pub use model::{Bound, Candidate, LaunchConstants, Machine, Misfit, Offer, Parameter, Repacking, Unreachable};
pub use planned::Gemm;
pub use problem::{
    Arithmetic, Byte, CodeType, Comparison, Depth, Divided, Error, Filter, Float16, Format, FormatError, Formats, Fp8,
    Grouping, GroupsError, Int8, Knob, Left, LoadedWeights, MAX_EXTENT, Major, MixedInput, NameMistake, OperandLayout,
    OperandView, Packed, Pair, PatchBoxes, PatchError, PatchReading, Placing, Problem, Property, Quantization,
    Quantized, Reading, ReadingOf, Right, Rows, RowsError, ScaleError, Scaled, ScatterError, Unboxed, Unpacked, Window,
    ZeroPoints, depth, filter, gradient_filter, gradient_filter_in_groups, gradient_patches, patches, quantized, rows,
    scaled, transposed_patches,
};
pub use reference::Reference;
pub use support::{Feature, supports};
