//! The errors of tensor expressions, schedules and runs.

use std::sync::Arc;

use epilogue_runtime::DataError;

use crate::te::dtype::DType;

/// A mistake in a tensor expression, a schedule, or a call of a built kernel. The message says what was given, what is
/// allowed and what to do.
///
/// ```
/// use epilogue::ElementType::F16;
/// use epilogue::te::{self, TeError};
///
/// let (x, half) = (te::placeholder([4], "x"), te::placeholder_of(F16, [4], "half"));
/// let error = te::compute([4], "y", |[i]| x.at([i]) + half.at([i])).unwrap_err();
/// assert!(matches!(error, TeError::MixedTypes { .. }));
/// assert_eq!(error.to_string(), "operands of types f32 and f16 don't mix; convert one with `.cast(…)`");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TeError {
    /// Operands of two different types.
    #[error("operands of types {left} and {right} don't mix; convert one with `.cast(…)`")]
    MixedTypes {
        /// The left operand's type.
        left: DType,
        /// The right operand's type.
        right: DType,
    },
    /// Operands of one function that have different types.
    #[error(
        "`{function}` takes operands of one type, and was given {first} and {other}; convert one of them, the latter with \
         `.cast({})`",
        written(*.first)
    )]
    MixedOperands {
        /// The function.
        function: String,
        /// The type of the first operand that is not a literal number.
        first: DType,
        /// The type of an operand that differs from it.
        other: DType,
    },
    /// An operation on a type it doesn't have.
    #[error("`{operation}` takes no operand of type {given}")]
    OperandType {
        /// The operation.
        operation: String,
        /// The operand's type.
        given: DType,
    },
    /// The wrong number of operands.
    #[error("`{function}` takes {needed} operands, {given} were given")]
    Arity {
        /// The function.
        function: String,
        /// How many it takes.
        needed: usize,
        /// How many were given.
        given: usize,
    },
    /// Operations that nest too deeply.
    #[error(
        "the operations of an expression nest deeper than {most}: combine long sums in pairs, or compute a part of it \
         as a tensor of its own"
    )]
    Nested {
        /// How deeply they may nest.
        most: u32,
    },
    /// Too long a chain of tensors, each computed from the one before.
    #[error(
        "{tensor} ends a chain of more than {most} tensors that are computed from each other: compute a part of it first, \
         and read the result through a placeholder"
    )]
    Chained {
        /// The tensor or scan at the chain's end.
        tensor: String,
        /// How long a chain may be.
        most: u32,
    },
    /// An expression that is too large once its shared parts are written out.
    #[error(
        "an expression has more than {most} operations where what it shares is written out, because conditions choose \
         what it reads: compute a part of it as a tensor of its own"
    )]
    Unfolded {
        /// How many operations it may have.
        most: usize,
    },
    /// A number that its type doesn't hold.
    #[error(
        "{value} is not a value of type {dtype}{}",
        .dtype.range().map(|(least, greatest)| format!(
            ", which holds whole numbers from {least} to {greatest}; use a wider type, for example \
             `.cast(ElementType::I64)` on the other operand"
        )).unwrap_or_default()
    )]
    Unrepresentable {
        /// The number, or the constant arithmetic that gives it.
        value: String,
        /// The type.
        dtype: DType,
    },
    /// An axis whose computed range has been dropped (see [`Axis`](crate::te::Axis)).
    #[error(
        "the range of the axis {axis} is no longer kept: of axes with computed ranges that no tensor has, the last {kept} \
         are; make the axis anew"
    )]
    AxisGivenUp {
        /// The axis.
        axis: String,
        /// How many such ranges are kept.
        kept: usize,
    },
    /// An integer that no index holds.
    #[error("a size or index is beyond the range of its integer type")]
    IntegerRange,
    /// The wrong number of indices or axes.
    #[error("{tensor} has {needed} dimensions, {given} indices were given")]
    Rank {
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        needed: usize,
        /// The indices.
        given: usize,
    },
    /// A tensor whose extents don't fit what an operation does with it.
    #[error("{operation}: {tensor} is {given}; it must be {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The tensor, and its role in the operation.
        tensor: String,
        /// Its extents.
        given: String,
        /// What they must be, and why.
        needed: String,
    },
    /// A stride of 0 or less.
    #[error("{operation}: the stride is {given}; it must be 1 or more")]
    Stride {
        /// The operation.
        operation: &'static str,
        /// The stride.
        given: i32,
    },
    /// An index that is not an integer.
    #[error("an index of {tensor} has type {given}; indices are integers")]
    IndexType {
        /// The tensor.
        tensor: String,
        /// The index's type.
        given: DType,
    },
    /// An axis requested by a number that the tensor doesn't have.
    #[error("{tensor} has {count} {kind} axes, number {dimension} was asked for")]
    NoSuchAxis {
        /// The tensor.
        tensor: String,
        /// `data`, `reduction` or `scan`.
        kind: &'static str,
        /// The number asked for.
        dimension: usize,
        /// How many there are.
        count: usize,
    },
    /// An axis of another computation, used in a body.
    #[error("{tensor} uses the axis {axis}, which is neither its own nor reduced over")]
    ForeignAxis {
        /// The tensor.
        tensor: String,
        /// The axis.
        axis: String,
    },
    /// A computation without values.
    #[error("{tensor} computes nothing; give at least one expression")]
    EmptyBody {
        /// The tensor.
        tensor: String,
    },
    /// A reduction inside an expression.
    #[error("{tensor} uses a reduction inside an expression; compute the reduction first, then use its tensor")]
    ReductionInside {
        /// The tensor.
        tensor: String,
    },
    /// A tuple reduction whose values are not all returned.
    #[error("{tensor} must return all values of one reduction, in order, and nothing else")]
    TupleReduction {
        /// The tensor.
        tensor: String,
    },
    /// A reduction over an axis that is not a reduction axis.
    #[error("{axis} is not a reduction axis; make one with `reduce_axis`")]
    NotAReduceAxis {
        /// The axis.
        axis: String,
    },
    /// An axis given twice.
    #[error("the axis {axis} is given twice")]
    RepeatedAxis {
        /// The axis.
        axis: String,
    },
    /// A reducer whose combination or identity has the wrong number of values.
    #[error(
        "the reducer `{reducer}` combines {needed} values, but its combination or identity has {given}; it must have as many"
    )]
    ReducerArity {
        /// The reducer.
        reducer: String,
        /// The number of values that are reduced.
        needed: usize,
        /// The number of values that the combination or identity has.
        given: usize,
    },
    /// A reducer whose result has another type than its operands.
    #[error(
        "the reducer `{reducer}` combines values of type {needed}, but gives one of type {given}; convert it with `.cast(…)`"
    )]
    ReducerType {
        /// The reducer.
        reducer: String,
        /// The values' type.
        needed: DType,
        /// The result's type.
        given: DType,
    },
    /// A reducer that uses more than its operands, numbers and sizes.
    #[error(
        "the {part} of the reducer `{reducer}` {what}; it is made of {}numbers and sizes only: put what depends on more \
         into the expression that is reduced",
        if *.part == "identity" { "" } else { "its two operands, " }
    )]
    ReducerUses {
        /// The reducer.
        reducer: String,
        /// `combination` or `identity`.
        part: &'static str,
        /// What it uses.
        what: String,
    },
    /// The wrong number of initial values.
    #[error("{needed} initial values are needed, {given} were given")]
    InitCount {
        /// The number of values that are reduced.
        needed: usize,
        /// The number of initial values.
        given: usize,
    },
    /// An initial value that is an expression.
    #[error("an initial value (of type {given}) must be a number or a tensor's element")]
    InitForm {
        /// Its type.
        given: DType,
    },
    /// Lists of different lengths in a scan.
    #[error("a scan takes as many inits and updates as states; given were {init}, {update} and {state}")]
    ScanCount {
        /// Number of inits.
        init: usize,
        /// Number of updates.
        update: usize,
        /// Number of states.
        state: usize,
    },
    /// A scan's state that is not a placeholder.
    #[error("the state {tensor} must be a placeholder")]
    ScanState {
        /// The tensor.
        tensor: String,
    },
    /// A scan's init or update that is not a computation.
    #[error("the {what} {tensor} must be a computation")]
    ScanBody {
        /// `init` or `update`.
        what: &'static str,
        /// The tensor.
        tensor: String,
    },
    /// Types that differ in a scan.
    #[error("the {what} is of type {given}, the state of {needed}")]
    ScanType {
        /// `init` or `update`.
        what: &'static str,
        /// The state's type.
        needed: DType,
        /// The type of the init or update.
        given: DType,
    },
    /// Ranks that differ in a scan.
    #[error("the {what} has {given} dimensions, the state {needed}")]
    ScanRank {
        /// `init` or `update`.
        what: &'static str,
        /// The state's rank.
        needed: usize,
        /// The rank of the init or update.
        given: usize,
    },
    /// Extents that differ in a scan.
    #[error("dimension {dimension} of the {what} {tensor} is {given}; it must be {needed}")]
    ScanShape {
        /// `init`, `update` or `state`.
        what: &'static str,
        /// The tensor.
        tensor: String,
        /// Which dimension.
        dimension: usize,
        /// The extent needed.
        needed: String,
        /// The extent given.
        given: String,
    },
    /// A read of a state at a step that is not computed yet.
    #[error(
        "{stage} reads {tensor} at step {index}{}; an update may read the state at earlier steps only, `t - 1` or before",
        .step.map(|d| format!(", which is t {} {}", if d < 0 { '-' } else { '+' }, d.abs())).unwrap_or_default()
    )]
    ScanRead {
        /// The stage that reads.
        stage: String,
        /// What it reads.
        tensor: String,
        /// The time index.
        index: String,
        /// The step relative to `t`; `None` where it is not a constant.
        step: Option<i64>,
    },
    /// A read of a state at a step before the first one.
    #[error(
        "{stage} reads {tensor} at step {index}, {back} steps back, of which the init gives {steps}; give {back} initial \
         steps, or read it inside a `select` that asks for the step"
    )]
    ScanBefore {
        /// The stage that reads.
        stage: String,
        /// What it reads.
        tensor: String,
        /// The time index.
        index: String,
        /// How far back that is at most.
        back: i64,
        /// How many steps the init gives.
        steps: i64,
    },
    /// A tensor that is part of two scans.
    #[error("{tensor} belongs to two scans; every scan needs an init, an update and a state of its own")]
    ScanShared {
        /// The init, update or state.
        tensor: String,
    },
    /// A read, from outside of a scan, of a tensor that exists only inside it.
    #[error(
        "{stage} reads a state or an update of {scan} and is no part of its update; read the scan's result instead"
    )]
    ScanOutside {
        /// The stage that reads.
        stage: String,
        /// The scan.
        scan: String,
    },
    /// An extent that is negative, too large or not an integer.
    #[error("{of} has the extent {given}; an extent is an integer from 0 to 2147483647")]
    Extent {
        /// The dimension or axis.
        of: String,
        /// The extent.
        given: String,
    },
    /// A tensor that is not in the schedule.
    #[error("{tensor} is not part of this schedule")]
    NotScheduled {
        /// The tensor.
        tensor: String,
    },
    /// An axis that is not a loop of the stage.
    #[error("{axis} is not a loop of {stage}{}", if *.split { "; it has been split or fused already" } else { "; it is not part of its schedule" })]
    NotALoop {
        /// The axis.
        axis: String,
        /// The stage.
        stage: String,
        /// Whether it was a loop before a split or fusion.
        split: bool,
    },
    /// A primitive on a kind of axis that refuses it.
    #[error("`{primitive}` can't take {axis}: {reason}")]
    AxisKind {
        /// The primitive.
        primitive: &'static str,
        /// The axis.
        axis: String,
        /// Why.
        reason: &'static str,
    },
    /// A split factor that is not positive.
    #[error("a split of {axis} by {factor}: a factor is a positive integer, or one made of sizes")]
    SplitFactor {
        /// The axis.
        axis: String,
        /// The factor.
        factor: String,
    },
    /// A split without predication, of an extent that the factor doesn't divide.
    #[error(
        "{axis} of {stage} is split without predication, which needs `{condition}` (its extent is {extent}); split it \
         with predication, or by what divides it"
    )]
    SplitRemainder {
        /// The stage.
        stage: String,
        /// The axis that is split.
        axis: String,
        /// Its extent.
        extent: String,
        /// The condition that must hold.
        condition: String,
    },
    /// Axes to be fused that don't follow each other.
    #[error("{first} and {second} can't be fused: only loops that directly follow each other can")]
    NotConsecutive {
        /// The outer axis.
        first: String,
        /// The inner axis.
        second: String,
    },
    /// A thread axis of an unknown name.
    #[error("`{name}` is not a thread axis; there are blockIdx.x, .y, .z, threadIdx.x, .y, .z, vthread and cthread")]
    NotAThread {
        /// The name.
        name: String,
    },
    /// A stage that can't be placed where it was asked for.
    #[error("{stage} can't be computed at {parent}: {reason}")]
    ComputeAt {
        /// The stage.
        stage: String,
        /// Where.
        parent: String,
        /// Why.
        reason: &'static str,
    },
    /// A stage that can't be inlined.
    #[error("{stage} can't be inlined: {reason}")]
    Inline {
        /// The stage.
        stage: String,
        /// Why.
        reason: &'static str,
    },
    /// A scan whose update reads its intermediate stages at too many different steps.
    #[error(
        "the update {tensor} reads the stages that it is computed from at more than {most} steps; read fewer, or at one step"
    )]
    ScanSteps {
        /// The update.
        tensor: String,
        /// At how many steps it may, all stages together.
        most: usize,
    },
    /// A stage that is too large after inlining.
    #[error("{stage} has more than {most} operations with what is inlined in it; compute a part of that by itself")]
    Inlined {
        /// The stage.
        stage: String,
        /// How many operations it may have.
        most: usize,
    },
    /// Text that is not a saved schedule.
    #[error("this text is not a saved schedule: {reason}")]
    Json {
        /// Why.
        reason: String,
    },
    /// A saved schedule that is larger than the limits of the reader.
    #[error("a schedule of {given} {what} is not read; there may be up to {most}")]
    JsonSize {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// Loops, or the memory of tensors, that nest too deep.
    #[error("{stage}: {given} {what}, which lie inside each other, are not lowered; there may be up to {most}")]
    NestedLoops {
        /// The stage.
        stage: String,
        /// What nests.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// An unknown pragma, or one on a loop where it has no effect.
    #[error("the pragma `{key}`: {reason}")]
    Pragma {
        /// The key.
        key: String,
        /// What was given, and what is allowed.
        reason: String,
    },
    /// A loop that can't be unrolled.
    #[error("the loop over {counter} (extent {extent}) can't be unrolled: {reason}")]
    Unroll {
        /// The loop's counter.
        counter: String,
        /// Its extent.
        extent: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A group that can't be made or placed.
    #[error("{stage}: {reason}")]
    Group {
        /// The stages.
        stage: String,
        /// Why.
        reason: &'static str,
    },
    /// A reduction that can't be factored.
    #[error("{stage} can't be factored over {axis}: {reason}")]
    Rfactor {
        /// The stage.
        stage: String,
        /// The axis.
        axis: String,
        /// Why.
        reason: &'static str,
    },
    /// A cache that can't be made.
    #[error("no cache of {tensor} can be made: {reason}")]
    Cache {
        /// The tensor.
        tensor: String,
        /// Why.
        reason: &'static str,
    },
    /// An unknown name of a memory scope.
    #[error("`{name}` is not a memory scope; there are global, shared, warp and local")]
    Scope {
        /// The name.
        name: String,
    },
    /// A reduction over threads that no device can do.
    #[error("{stage}: {reason}")]
    ThreadReduction {
        /// The stage.
        stage: String,
        /// Why.
        reason: &'static str,
    },
    /// Blocks of one launch that need each other's results.
    #[error(
        "blocks of one launch can't wait for each other, but one would use elements of {tensor} that another writes; \
         compute {tensor} in a launch of its own (`compute_root`), or let each block use what it computed itself"
    )]
    AcrossBlocks {
        /// The tensor.
        tensor: String,
    },
    /// A tensor in memory that each thread or block has a copy of, whose loop is bound to several of them.
    #[error(
        "{tensor} is in {scope} memory, of which every {owner} has its own, but its loop {axis} is bound to {thread}: no \
         {owner} would see what another computed; put it in {wider} memory (`set_scope`), or don't bind the loop"
    )]
    AcrossThreads {
        /// The tensor.
        tensor: String,
        /// The tensor's memory scope.
        scope: &'static str,
        /// Who has a copy: `thread` or `block`.
        owner: &'static str,
        /// The loop.
        axis: String,
        /// The index that it is bound to.
        thread: &'static str,
        /// The scope that would be wide enough.
        wider: &'static str,
    },
    /// A barrier that only some threads of a block would reach.
    #[error(
        "threads would have to wait for each other inside a condition or loop that is not the same for all of them \
         ({condition}); compute what they share with all of them, or in a launch of its own (`compute_root`)"
    )]
    DivergentBarrier {
        /// The condition, or the loop's extent.
        condition: String,
    },
    /// Virtual threads that can't be interleaved.
    #[error("{axis}: {reason}")]
    VirtualThread {
        /// The axis.
        axis: String,
        /// Why.
        reason: &'static str,
    },
    /// Two different extents for one thread index.
    #[error("{stage} runs {thread} over {given}, but it was launched over {needed}; the extents must agree")]
    ThreadExtent {
        /// The thread index.
        thread: &'static str,
        /// The stage.
        stage: String,
        /// The extent of the launch.
        needed: String,
        /// The extent that the stage needs.
        given: String,
    },
    /// A primitive on a stage that can't take it.
    #[error("`{primitive}` on {stage}: {reason}")]
    Primitive {
        /// The primitive.
        primitive: &'static str,
        /// The stage.
        stage: String,
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// A tensor intrinsic that is not valid, or that computes something else than the loops it would replace.
    #[error("the intrinsic {intrinsic}: {reason}")]
    Intrinsic {
        /// The intrinsic: the name of what it computes.
        intrinsic: String,
        /// What was given, what is allowed, and what to do.
        reason: String,
    },
    /// A bound that lowering needs but can't find.
    #[error("{stage}: the extent of {axis} can't be found; {reason}")]
    Bound {
        /// The stage.
        stage: String,
        /// The axis.
        axis: String,
        /// What would help.
        reason: &'static str,
    },
    /// A tensor that is missing in the arguments.
    #[error("{tensor} is {what} of the schedule but not among the arguments")]
    MissingArgument {
        /// The tensor.
        tensor: String,
        /// `an input` or `an output`.
        what: &'static str,
    },
    /// Too few or too many arguments of a run.
    #[error(
        "{given} argument{} given; needed are {}: {}",
        if *.given == 1 { " was" } else { "s were" },
        .needed.len(),
        .needed.join(", ")
    )]
    ArgumentCount {
        /// How many were given.
        given: usize,
        /// The tensors that are needed, in order.
        needed: Vec<String>,
    },
    /// An argument of a run that doesn't fit its tensor.
    #[error("argument {tensor}: {reason}")]
    Argument {
        /// The tensor.
        tensor: String,
        /// What was given and what is needed.
        reason: String,
    },
    /// A variable that has no value where it is used, in a program built by hand.
    #[error(
        "{variable} has no value where it is used: a variable is the counter of a loop around it, is given by a `let`, or is \
         an extent or stride of an argument"
    )]
    Unbound {
        /// The variable.
        variable: String,
    },
    /// A tensor or reduction inside a program built by hand, which must have only loads and stores.
    #[error(
        "{what} stands in a program: a program loads from buffers and stores to them (`Buffer::load`); tensors and \
         reductions are turned into loops by `lower`"
    )]
    NotLowered {
        /// The expression.
        what: String,
    },
    /// An internal error: only a mistake of this library can cause it.
    #[error(
        "{what}: this is a mistake of epilogue, not of yours; please report it with the expression and its schedule"
    )]
    Internal {
        /// What was found.
        what: String,
    },
    /// A mistake that is found while the program runs.
    #[error("{reason}")]
    Run {
        /// What happened.
        reason: String,
    },
    /// Something that the target does not support.
    #[error("{what} is not supported by {target}")]
    Target {
        /// What was asked for.
        what: String,
        /// The target.
        target: &'static str,
    },
    /// Data that a program can't use: an index outside of its tensor, or an integer division by zero. After a GPU
    /// kernel, the next wait for the stream, or the next read of a result, fails with this error.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An error of the device, or of the compiler of its kernels.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The name of a type in messages.
fn written(dtype: DType) -> String {
    match dtype {
        DType::Bool => "DType::Bool".to_owned(),
        DType::Number(element) => format!("ElementType::{element:?}"),
    }
}

/// A failure of the device, shared so that errors can be cloned. Two are equal when their messages are equal.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct DeviceError(Arc<epilogue_runtime::Error>);

impl DeviceError {
    /// The failure itself.
    #[must_use]
    pub fn get(&self) -> &epilogue_runtime::Error {
        &self.0
    }
}

impl PartialEq for DeviceError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.to_string() == other.0.to_string()
    }
}

impl From<epilogue_runtime::Error> for TeError {
    fn from(error: epilogue_runtime::Error) -> Self {
        match error {
            epilogue_runtime::Error::Data(failure) => Self::Data(failure),
            error => Self::Device(DeviceError(Arc::new(error))),
        }
    }
}
