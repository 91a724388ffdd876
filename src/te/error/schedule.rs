//! Errors of schedules: of primitives, and of saved ones.

/// A mistake in a schedule: a primitive that what it is given can't take, or a text that is not a saved schedule.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A tensor that is not in the schedule.
    #[error(
        "{tensor} is not part of this schedule; give a tensor from which its outputs are computed, or make a schedule of {tensor}"
    )]
    NotScheduled {
        /// The tensor.
        tensor: String,
    },
    /// An axis that is not a loop of the stage.
    #[error("{axis} is not a loop of {stage}{}", if *.split { "; it has been split or fused already, so give a loop that came of that" } else { "; it is not part of its schedule, whose loops `loops()` gives" })]
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
    /// Axes to be fused that don't follow each other.
    #[error(
        "{first} and {second} can't be fused: only loops that directly follow each other can, so `reorder` them first"
    )]
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
        /// The things that are too many.
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
        /// The given and the allowed value.
        reason: String,
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
    /// A stage whose operation is not what it stands for, in a schedule that was not made by primitives.
    #[error("{stage} is not computed as what it stands for: {reason}")]
    Origin {
        /// The stage.
        stage: String,
        /// In what it differs.
        reason: &'static str,
    },
    /// An unknown name of a memory scope.
    #[error("`{name}` is not a memory scope; there are global, shared, warp and local")]
    Scope {
        /// The name.
        name: String,
    },
    /// A primitive on a stage that can't take it.
    #[error("`{primitive}` on {stage}: {reason}")]
    Primitive {
        /// The primitive.
        primitive: &'static str,
        /// The stage.
        stage: String,
        /// The given value, the allowed ones, and a way out.
        reason: String,
    },
    /// A tensor intrinsic that is not valid, or that computes something else than the loops it would replace.
    #[error("the intrinsic {intrinsic}: {reason}")]
    Intrinsic {
        /// The intrinsic: the name of what it computes.
        intrinsic: String,
        /// The given value, the allowed ones, and a way out.
        reason: String,
    },
}

epilogue_runtime::message::debug!(ScheduleError);
