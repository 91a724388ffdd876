//! The errors of planning and running a GEMM. Nothing has been written when one of these is returned.

use epilogue_runtime::AxisList;

use super::arithmetic::Arithmetic;
use super::format_error::FormatError;
use super::groups_error::GroupsError;
use super::knob::Knob;
use super::name_mistake::NameMistake;
use super::rows_error::RowsError;
use super::scale_error::ScaleError;
use super::scatter_error::ScatterError;
use crate::ElementType;
use crate::evt::TreeError;

/// Why a GEMM can't be planned or run.
///
/// The message says what was given, what is allowed and what to do. The variants are for programs that handle an error.
/// Nothing has been written when a run returns one.
///
/// ```
/// use epilogue::gemm::Error;
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn plain(accum: Accum) -> Tensor {
///     let d = accum;
///     d
/// }
///
/// let device = Device::cpu();
/// let (a, b) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([4, 5])?);
/// let error = Gemm::plan::<Plain>(&device, &a, &b).unwrap_err();
/// assert!(matches!(error, Error::InnerExtents { .. }));
/// assert_eq!(error.to_string(), "A of shape [2, 3] and B of shape [4, 5] differ in K: A is [M, K], B is [K, N]");
/// let weights = device.zeros::<f32>([5, 3])?;
/// let error = Gemm::plan::<Plain>(&device, &a, &weights).unwrap_err();
/// assert!(error.to_string().ends_with("give B's transpose, `&b.transpose()?`"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The function is not a valid epilogue.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The runtime failed: something is missing, a kernel does not compile, or memory ran out.
    #[error(transparent)]
    Runtime(#[from] epilogue_runtime::Error),
    /// Images, a window and filters are no convolution.
    #[error(transparent)]
    Patches(#[from] super::patch_error::PatchError),
    /// The reference can't be evaluated.
    #[error(transparent)]
    Reference(#[from] crate::evt::reference::ReferenceError),
    /// Rows or K are not divided into groups.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// Rows are not picked by an index.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The product has no scales of blocks.
    #[error(transparent)]
    Scales(#[from] ScaleError),
    /// Quantised weights can't be multiplied.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Rows are not placed by an index.
    #[error(transparent)]
    Scatter(#[from] ScatterError),
    /// The epilogue doesn't return an output of this name.
    #[error("no output is named `{name}`; the epilogue returns {}", .outputs.join(", "))]
    NoOutput {
        /// The name that was asked for.
        name: String,
        /// The outputs of the epilogue.
        outputs: Vec<&'static str>,
    },
    /// A device's result lies outside the bounds of the reference.
    #[error("{0}")]
    OutsideBounds(super::comparison::Comparison),
    /// A or B is neither a matrix nor a batch of matrices.
    #[error("{operand} has shape {shape:?}: give a matrix, or a batch of matrices with the batch axis first")]
    OperandRank {
        /// `A` or `B`.
        operand: &'static str,
        /// The given shape.
        shape: Vec<usize>,
    },
    /// A's columns are not B's rows.
    #[error("A of shape {a:?} and B of shape {b:?} differ in K: A is [M, K], B is [K, N]{}", transposed(a, b))]
    InnerExtents {
        /// A's shape.
        a: Vec<usize>,
        /// B's shape.
        b: Vec<usize>,
    },
    /// A and B have different numbers of batches.
    #[error("A has {a} batches and B has {b}: give both the same number, or one of them no batch axis")]
    BatchExtents {
        /// The batches of A.
        a: usize,
        /// The batches of B.
        b: usize,
    },
    /// A seed in memory is not two `i64`.
    #[error(
        "`{name}` is a seed, and {element} of shape {shape:?} was given: give an i64 tensor of shape [2], or `Seed::new(7)`"
    )]
    SeedTensor {
        /// The parameter.
        name: &'static str,
        /// The tensor's element type.
        element: ElementType,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// More rows than there are random numbers for.
    #[error(
        "`random` tells 2^32 rows apart, and the {batches} batches of {rows} have more: run fewer batches at a time, each with an offset of its own"
    )]
    RandomRows {
        /// M.
        rows: usize,
        /// The batches.
        batches: usize,
    },
    /// A packed B on a device whose kernels read none.
    #[error("`pack` has no effect on {device}: its kernels read B as it lies; give a run the tensor itself")]
    NoPacking {
        /// The device.
        device: String,
    },
    /// A B to be packed that is not contiguous.
    #[error(
        "B of shape {shape:?} has strides {strides:?}, and `pack` takes a B that is contiguous along K or N: give a contiguous copy"
    )]
    PackedStrides {
        /// B's shape.
        shape: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<isize>,
    },
    /// A B that was packed by a plan for something else.
    #[error("B is packed for {given}, and this plan multiplies {needed}: pack it with this plan")]
    OtherPacking {
        /// The GEMM that it was packed for.
        given: String,
        /// The GEMM of the plan.
        needed: String,
    },
    /// No B at all.
    #[error("no B was given: give one for each accumulator of the epilogue, as in `[&gate, &up]`")]
    NoRight,
    /// The number of B is not the number of accumulators.
    #[error(
        "{given} B for the {} accumulator{} of `{epilogue}`: give one for each of {}, in this order, as in `[{}]`",
        .names.len(),
        if .names.len() == 1 { "" } else { "s" },
        .names.join(", "),
        .names.iter().map(|name| format!("&{name}")).collect::<Vec<_>>().join(", ")
    )]
    RightCount {
        /// The epilogue's name.
        epilogue: &'static str,
        /// How many were given.
        given: usize,
        /// The names of the accumulators.
        names: Vec<&'static str>,
    },
    /// Several B of different element types.
    #[error("B number {place} holds {given} and the first {needed}: all B of a product have one element type")]
    RightElements {
        /// Its position, from 1.
        place: usize,
        /// Its element type.
        given: ElementType,
        /// The element type of the first B.
        needed: ElementType,
    },
    /// Several B of different shapes.
    #[error(
        "B number {place} has shape {given:?} and the first {needed:?}: all B of a product have the same K and N; for \
         others use a product each, or one of a B that holds all columns"
    )]
    RightShapes {
        /// Its position, from 1.
        place: usize,
        /// Its shape.
        given: Vec<usize>,
        /// The shape of the first B.
        needed: Vec<usize>,
    },
    /// Several B of different numbers of batches.
    #[error(
        "B number {place} has {given} batches and those before it {needed}: give all the same number, or no batch axis"
    )]
    RightBatches {
        /// Its position, from 1.
        place: usize,
        /// Its batches.
        given: usize,
        /// The batches of the others.
        needed: usize,
    },
    /// Several B that are contiguous along different axes.
    #[error(
        "B number {place} is contiguous along {given} and B number {of} along {needed}: all B of a product lie in the same \
         order; copy one of them"
    )]
    RightMajors {
        /// Its position, from 1.
        place: usize,
        /// The axis along which it is contiguous: `K` or `N`.
        given: &'static str,
        /// The position of the one it differs from.
        of: usize,
        /// The axis of that one.
        needed: &'static str,
    },
    /// An epilogue's phases are not computed in a tile, as was asked for.
    #[error(
        "`{epilogue}` can't be computed in one tile: {reason}; leave `.finish(…)` out, or ask for `Finish::SecondLaunch`"
    )]
    NotInTile {
        /// The epilogue.
        epilogue: &'static str,
        /// Why not.
        reason: String,
    },
    /// An epilogue's phases are not computed in the tiles of a cluster, as was asked for.
    #[error(
        "`{epilogue}` can't be computed in the tiles of a cluster: {reason}; leave `.finish(…)` out, or ask for `Finish::SecondLaunch`"
    )]
    NotInCluster {
        /// The epilogue.
        epilogue: &'static str,
        /// Why not.
        reason: String,
    },
    /// A run's lines are not in one tile or a cluster's tiles, as the plan's are and as was asked for.
    #[error(
        "`{epilogue}` was planned to be computed in {within} of {tile_m}x{tile_n}, where a product of {m}x{n} has no whole {lines}: plan for these extents, or leave `.finish(…)` out"
    )]
    BeyondTile {
        /// The epilogue.
        epilogue: &'static str,
        /// `one tile` or `a cluster's tiles`.
        within: &'static str,
        /// The tile's rows, or those of the tiles together.
        tile_m: usize,
        /// The tile's columns, or those of the tiles together.
        tile_n: usize,
        /// M.
        m: usize,
        /// N.
        n: usize,
        /// `rows` or `columns`.
        lines: &'static str,
    },
    /// There are no phases to be computed anywhere.
    #[error(
        "`.finish(…)` says where later phases are computed, and `{epilogue}` has none that a launch of its own or a tile is for: leave it out"
    )]
    NothingToFinish {
        /// The epilogue.
        epilogue: &'static str,
    },
    /// An extent above what the kernels can count.
    #[error("{axis} is {extent}; the largest possible is {limit}: split the product along {axis}")]
    ExtentTooLarge {
        /// `M`, `N`, `K` or `L`.
        axis: &'static str,
        /// The given extent.
        extent: usize,
        /// The limit.
        limit: usize,
    },
    /// More blocks than a grid can have.
    #[error("the product needs {blocks} blocks; a grid has at most {limit}: split it along M, N or the batch")]
    TooManyBlocks {
        /// The blocks that the product needs.
        blocks: u128,
        /// The limit.
        limit: u128,
    },
    /// Operands that no kernel multiplies.
    #[error("A of {a} and B of {b} can't be multiplied on {device}: {advice}")]
    OperandTypes {
        /// A's element type.
        a: ElementType,
        /// B's element type.
        b: ElementType,
        /// The device.
        device: String,
        /// The alternative.
        advice: &'static str,
    },
    /// A or B has another element type than the plan.
    #[error("{operand} holds {given}; this GEMM was planned for {needed}")]
    OperandElement {
        /// `A` or `B`.
        operand: &'static str,
        /// The given element type.
        given: ElementType,
        /// The needed element type.
        needed: ElementType,
    },
    /// An arithmetic that doesn't apply to the operands.
    #[error("{arithmetic} is an arithmetic of {needed} operands, and {operand} holds {given}")]
    Arithmetic {
        /// The requested arithmetic.
        arithmetic: Arithmetic,
        /// The operands that it applies to.
        needed: &'static str,
        /// `A` or `B`.
        operand: &'static str,
        /// Its element type.
        given: ElementType,
    },
    /// A layout with copies of a size that no kernel has.
    #[error("{operand} is to be copied {given} bytes at a time; it must be 4, 8 or 16, or one element of {element}")]
    CopyBytes {
        /// `A` or `B`.
        operand: &'static str,
        /// The layout's `copy_bytes`.
        given: usize,
        /// The operand's element type.
        element: ElementType,
    },
    /// A tile that the kernels of this instruction don't have.
    #[error("{instruction} kernels don't come in tile {tile}: they come in {allowed}")]
    Tile {
        /// The instruction that multiplies.
        instruction: String,
        /// The requested tile.
        tile: String,
        /// The tiles that there are.
        allowed: String,
    },
    /// A split or stage count outside the allowed range.
    #[error("{what} is {given}; it must be from {least} to {most}")]
    Count {
        /// The counted quantity.
        what: &'static str,
        /// Its value.
        given: usize,
        /// The smallest allowed.
        least: usize,
        /// The largest allowed.
        most: usize,
    },
    /// A knob that has no effect on the device.
    #[error(
        "`{knob}` has no effect on {device}, {reason}: leave it out, or call `.ignore_unsupported_knobs()`, for plans that \
         are described once for several devices"
    )]
    NoKnob {
        /// The knob.
        knob: Knob,
        /// The device.
        device: String,
        /// Why it has no effect.
        reason: &'static str,
    },
    /// A value that a knob of the kernels for sm_90a can't have.
    #[error("{knob} is {given}; it must be {allowed}")]
    Knob {
        /// The knob.
        knob: &'static str,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// A kernel that its family doesn't have.
    #[error("no kernel with {kernel} can run this epilogue: {reason}")]
    NoKernel {
        /// The requested kernel.
        kernel: String,
        /// Why there is none.
        reason: &'static str,
    },
    /// There is no one launch that could be described.
    #[error("a plan for {device} has no launch to describe: {reason}")]
    NoLaunch {
        /// The device.
        device: String,
        /// Why there is none.
        reason: &'static str,
    },
    /// No tile has room for the epilogue.
    #[error("no tile fits: {reason}")]
    NoTile {
        /// Why the smallest tile has no room.
        reason: String,
    },
    /// The epilogue has more arguments than a kernel's parameters have room for.
    #[error("the epilogue's arguments take {bytes} bytes of kernel parameters; there are {limit}: use fewer tensors")]
    TooManyArguments {
        /// The bytes that the arguments need.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The wrong number of arguments; the macros make this impossible.
    #[error("{given} arguments were given, and `{epilogue}` has {}: {}", .names.len(), .names.join(", "))]
    ArgumentCount {
        /// The epilogue's name.
        epilogue: &'static str,
        /// How many were given.
        given: usize,
        /// The names of its arguments, in order.
        names: Vec<&'static str>,
    },
    /// Arguments by name that don't name each argument of the epilogue exactly once.
    #[error("{mistake}; the arguments of `{epilogue}` are {}", .names.join(", "))]
    ArgumentNames {
        /// The mistake.
        mistake: NameMistake,
        /// The epilogue's name.
        epilogue: &'static str,
        /// The names of its arguments.
        names: Vec<&'static str>,
    },
    /// An argument of the wrong kind, such as a scalar where a tensor is needed; the macros make this impossible.
    #[error("argument `{name}` is {given}, and {needed} is needed")]
    ArgumentKind {
        /// The argument's name.
        name: &'static str,
        /// The given kind of argument.
        given: &'static str,
        /// The needed kind of argument.
        needed: &'static str,
    },
    /// An argument of the wrong shape.
    #[error("argument `{name}` has shape {given:?}; needed is {needed}")]
    ArgumentShape {
        /// The argument's name.
        name: &'static str,
        /// The given shape.
        given: Vec<usize>,
        /// The needed shape.
        needed: String,
    },
    /// A view with other extents than the needed matrix.
    #[error("argument `{name}`: {axis} are {needed}, but {given}")]
    ArgumentAxes {
        /// The argument's name.
        name: &'static str,
        /// `rows`, `columns` or `batches`.
        axis: &'static str,
        /// The needed extent.
        needed: usize,
        /// The axes, and their extents.
        given: Box<AxisList>,
    },
    /// A matrix or vector of two axes that do not merge, in a place that cannot have them; or a matrix that is viewed
    /// as a vector, or a vector as a matrix.
    #[error(
        "argument `{name}` has rows, columns or batches of two axes that don't merge (shape {shape:?}, strides {strides:?}), which \
         {what} can't have: {advice}"
    )]
    ArgumentDigits {
        /// The argument's name.
        name: &'static str,
        /// The view's shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<isize>,
        /// The argument or operand that cannot have two axes.
        what: &'static str,
        /// The remedy.
        advice: &'static str,
    },
    /// Truth values with eight columns in a byte, of the wrong shape.
    #[error(
        "`{name}` holds 8 columns a byte: {needed} is needed for N = {columns}, {given:?} given; `Tensor<bool>` has one \
         byte each"
    )]
    BitsShape {
        /// The argument's name.
        name: &'static str,
        /// The given shape.
        given: Vec<usize>,
        /// The needed shape.
        needed: String,
        /// N.
        columns: usize,
    },
    /// An argument of the wrong element type.
    #[error("argument `{name}` holds {given}; `{epilogue}` has {needed} there ({advice})")]
    ArgumentElement {
        /// The argument's name.
        name: &'static str,
        /// The epilogue's name.
        epilogue: &'static str,
        /// The given element type.
        given: ElementType,
        /// The needed element type.
        needed: ElementType,
        /// How to allow the type that was given.
        advice: String,
    },
    /// A tensor of another device.
    #[error("{name} is on {given}; this GEMM was planned for {needed}: copy it there")]
    ForeignDevice {
        /// The argument's name, or `A` or `B`.
        name: &'static str,
        /// Its device.
        given: String,
        /// The plan's device.
        needed: String,
    },
    /// Two outputs share memory.
    #[error("outputs `{first}` and `{second}` overlap in memory: give each its own")]
    OutputsOverlap {
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// An output whose view contains an element more than once.
    #[error("output `{name}` reaches some element by two indices (a broadcast view): give one that does not")]
    OutputRepeats {
        /// The output's name.
        name: &'static str,
    },
    /// An output that shares memory with something that the run reads.
    #[error("output `{output}` overlaps `{input}`, which is read meanwhile: {advice}")]
    OutputAliasesInput {
        /// The output's name.
        output: &'static str,
        /// The input's name, or `A` or `B`.
        input: &'static str,
        /// The remedy.
        advice: &'static str,
    },
    /// A partials output over the batch.
    #[error("output `{name}` is a partial reduction over the batch too: partials are per tile; leave `Batch` out")]
    BatchPartials {
        /// The output's name.
        name: &'static str,
    },
    /// A reduction over the batch of a product without batches.
    #[error("output `{name}` reduces the batch, and there are 0 batches: run it with at least one")]
    NoBatches {
        /// The output's name.
        name: &'static str,
    },
    /// A device on which time can't be measured.
    #[error(
        "times measured on {device} say nothing about a GPU: leave `autotune` out, and the model chooses; tune on a GPU"
    )]
    NoClock {
        /// The device.
        device: String,
    },
    /// A plan's builder lacks something.
    #[error("the plan lacks {what}: call `.{method}(…)` before `.plan()`")]
    Incomplete {
        /// The missing thing.
        what: &'static str,
        /// The builder's method that gives it.
        method: &'static str,
    },
    /// `partials_shape` of an output that is not per-tile partials.
    #[error("`{name}` is not an output of `{epilogue}` with per-tile partials")]
    NoPartials {
        /// The requested name.
        name: String,
        /// The epilogue's name.
        epilogue: &'static str,
    },
    /// The stream belongs to another device.
    #[error("the stream is of {given}; this GEMM was planned for {needed}")]
    ForeignStream {
        /// The stream's device.
        given: String,
        /// The plan's device.
        needed: String,
    },
}

epilogue_runtime::message::debug!(Error);

/// Advice if an operand with its last axes swapped fits.
fn transposed(a: &[usize], b: &[usize]) -> &'static str {
    match (a, b) {
        ([.., _, k], [.., _, columns]) if k == columns => "; give B's transpose, `&b.transpose()?`",
        ([.., rows, _], [.., k, _]) if rows == k => "; give A's transpose, `&a.transpose()?`",
        _ => "",
    }
}
