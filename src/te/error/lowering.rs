//! Errors of lowering: from a schedule, or an automatic plan, to a program for a target.

/// Errors of lowering: a schedule that no program does, or a program that its target can't run.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoweringError {
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
    /// Loops, or the memory of tensors, that nest too deep.
    #[error("{stage}: {given} {what}, which lie inside each other, are not lowered; there may be up to {most}")]
    NestedLoops {
        /// The stage.
        stage: String,
        /// The things that nest.
        what: &'static str,
        /// How many there are.
        given: usize,
        /// How many there may be.
        most: usize,
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
        /// The owner of a copy: `thread` or `block`.
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
    /// A bound that lowering needs but can't find.
    #[error("{stage}: the extent of {axis} can't be found; {reason}")]
    Bound {
        /// The stage.
        stage: String,
        /// The axis.
        axis: String,
        /// Advice.
        reason: &'static str,
    },
    /// A tensor that is missing in the arguments.
    #[error("{tensor} is {what} of the schedule but not among the arguments; add it to them")]
    MissingArgument {
        /// The tensor.
        tensor: String,
        /// `an input` or `an output`.
        what: &'static str,
    },
    /// A variable that has no value where it is used, in a program built by hand.
    #[error(
        "{variable} has no value where it is used: a variable is the counter of a loop around it, is given by a `let`, or is \
         an extent or stride of an argument; an argument that nothing reads may give it"
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
    /// Something that the target does not support.
    #[error("{what} is not supported by {target}")]
    Target {
        /// The unsupported thing.
        what: String,
        /// The target.
        target: &'static str,
    },
}

epilogue_runtime::message::debug!(LoweringError);
