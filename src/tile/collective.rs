//! Reductions over the threads of a block, as data: the chosen algorithm is a list of steps.
//!
//! A [`Collective`] describes a reduction: the thread indices it reduces over, and what each thread holds.
//! [`Collective::plan`] chooses an [`Algorithm`] and writes it as [`Step`]s. A printer of kernels translates the steps
//! to its language ([`CollectivePlan::cuda`] to CUDA C++). This module's tests execute them.
//!
//! A plan assumes that *every* thread of the block executes every step, together: not below a test on a thread's own
//! index or data. A thread without a value holds the identity. Shuffle masks rely on this: they are computed from the
//! number of threads, not from the threads that happen to be active. A plan promises that every thread of a group ends
//! with the group's combination, and that each value enters it once. If the combination is only associative, values are
//! combined in the order of ranks. Every run uses the same association.
//! associative, in the order of ranks; the same association at every run.

mod choose;
mod cuda;
mod print;
#[cfg(test)]
mod tests;

pub use cuda::{CollectiveText, CombineText};

/// Lanes of a warp (CUDA C++ Programming Guide, "SIMT Architecture").
pub const WARP: u32 = 32;

/// The most threads of a block (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
pub const MAX_THREADS: u32 = 1024;

/// Describes a reduction over threads of a block.
///
/// ```
/// use epilogue::tile::Collective;
///
/// // Rows of 16 threads, as of a matrix's: 32 rows to a block, the sum of a float along each.
/// let plan = Collective::new(&[16, 32], &[0]).plan()?;
/// assert_eq!(plan.algorithm().to_string(), "sub-warp shuffles of 16 lanes");
/// println!("{plan}");
/// # Ok::<(), epilogue::tile::CollectiveError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    extents: Vec<u32>,
    reduced: Vec<usize>,
    state: Vec<usize>,
    commutative: bool,
    repeated: bool,
}

impl Collective {
    /// A reduction over the thread indices `reduced` (0 for x, 1 for y, 2 for z; the slowest in the order of ranks
    /// first), in a block with `extents` threads along x, y and z. By default each thread holds one 4-byte value, the
    /// combination is commutative, and the reduction may be executed again.
    #[must_use]
    pub fn new(extents: &[u32], reduced: &[usize]) -> Self {
        let (extents, reduced) = (extents.to_vec(), reduced.to_vec());
        Self { extents, reduced, state: vec![4], commutative: true, repeated: true }
    }

    /// Sets what a thread holds: the sizes, in bytes, of the values that are combined together.
    #[must_use]
    pub fn state(mut self, sizes: &[usize]) -> Self {
        self.state = sizes.to_vec();
        self
    }

    /// Declares that the combination may not be commutative: operands keep the order of ranks.
    #[must_use]
    pub fn associative_only(mut self) -> Self {
        self.commutative = false;
        self
    }

    /// Declares that a launch executes this only once, and that nothing else uses its shared memory. The barrier at the
    /// end is then left out.
    #[must_use]
    pub fn executed_once(mut self) -> Self {
        self.repeated = false;
        self
    }

    /// Chooses the algorithm.
    ///
    /// # Errors
    /// [`CollectiveError`] for a block or a state that is not possible.
    pub fn plan(&self) -> Result<CollectivePlan, CollectiveError> {
        self.check()?;
        Ok(choose::plan(self))
    }

    fn check(&self) -> Result<(), CollectiveError> {
        if self.extents.is_empty() || self.extents.len() > 3 {
            return Err(CollectiveError::Indices { given: self.extents.len() });
        }
        let threads = self.extents.iter().fold(1, |all: u64, &n| all.saturating_mul(n.into()));
        if threads == 0 || threads > u64::from(MAX_THREADS) {
            return Err(CollectiveError::Threads { extents: self.extents.clone(), threads });
        }
        for (i, &axis) in self.reduced.iter().enumerate() {
            if axis >= self.extents.len() {
                return Err(CollectiveError::NoSuchIndex { axis, indices: self.extents.len() });
            }
            if self.reduced[..i].contains(&axis) {
                return Err(CollectiveError::RepeatedIndex { axis });
            }
        }
        if self.state.is_empty() {
            return Err(CollectiveError::NoState);
        }
        match self.state.iter().find(|size| !matches!(size, 1 | 2 | 4 | 8)) {
            Some(&bytes) => Err(CollectiveError::StateSize { bytes }),
            None => Ok(()),
        }
    }
}

/// The reason why there is no plan.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// The number of extents is not one to three.
    #[error("a block has 1 to 3 thread indices, {given} extents were given")]
    Indices {
        /// The number of extents given.
        given: usize,
    },
    /// The block has no threads, or too many.
    #[error("a block of {extents:?} has {threads} threads; 1 to {MAX_THREADS} are allowed")]
    Threads {
        /// The extents given.
        extents: Vec<u32>,
        /// The product of the extents.
        threads: u64,
    },
    /// A reduction over a thread index that the block doesn't have.
    #[error("thread index {axis} is reduced over, but the block has only {indices} of them, counted from 0")]
    NoSuchIndex {
        /// The index.
        axis: usize,
        /// The number of indices.
        indices: usize,
    },
    /// An index that is given twice.
    #[error("thread index {axis} is reduced over twice; give it once")]
    RepeatedIndex {
        /// The index.
        axis: usize,
    },
    /// A thread holds no values.
    #[error("a reduction needs at least one value per thread")]
    NoState,
    /// A value with a size that a register doesn't have.
    #[error("a value of {bytes} bytes can't be reduced over threads; 1, 2, 4 and 8 bytes are possible")]
    StateSize {
        /// Its size.
        bytes: usize,
    },
}

epilogue_runtime::message::debug!(CollectiveError);

/// How threads combine their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A group is one thread: there is nothing to do.
    Single,
    /// A group is `width` neighbouring lanes, a power of two below a warp. Each segment does a tree of shuffles.
    SubWarp {
        /// Number of lanes of a group.
        width: u32,
    },
    /// The block is one group with fewer threads than a warp, any number of them. It does a tree of shuffles with
    /// guards.
    GuardedWarp {
        /// Number of threads of the group.
        threads: u32,
    },
    /// A group is a warp: a tree of shuffles.
    Warp,
    /// A group is several consecutive warps: shuffles in each warp, then one value for each warp through shared memory.
    TwoStage {
        /// Number of warps of a group.
        warps: u32,
    },
    /// Any other group: a tree in shared memory, with a barrier at each level.
    SharedTree,
}

/// A number that a thread computes from its indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// The thread's number in its group: [`CollectivePlan::rank`].
    Rank,
    /// The number of its group: [`CollectivePlan::group`].
    Group,
    /// Its lane: [`CollectivePlan::thread`] mod 32.
    Lane,
    /// The number of its warp in the group, rank / 32. Only if groups are whole warps, or the whole block.
    Part,
}

/// A linear function of the thread indices: `Σ factor · index`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// Thread index (0 for x) and factor. Indices of extent 1 don't occur.
    pub terms: Vec<(usize, u32)>,
}

impl Linear {
    /// Its value for the thread with these indices.
    #[must_use]
    pub fn at(&self, indices: &[u32]) -> u32 {
        self.terms.iter().map(|&(axis, factor)| indices[axis] * factor).sum()
    }
}

/// A test that some threads pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// The quantity is below a bound.
    Below(Quantity, u32),
    /// The quantity is a multiple of a number.
    MultipleOf(Quantity, u32),
}

/// A place in the shared arrays, the same in the array of each value: `Σ factor · quantity + constant`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Quantities and their factors.
    pub terms: Vec<(Quantity, u32)>,
    /// The constant.
    pub constant: u32,
}

/// The accesses that a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierReason {
    /// Values are written to shared memory before others read them.
    Written,
    /// Values are read before the same places are written again, by the next execution of this reduction.
    Read,
}

/// One step. Each thread has `x`, its tuple of values. A list of guards holds if all of them hold; an empty one always
/// holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// All threads do `y = shfl.down(x, offset)` in segments of `width` lanes. Then `x = combine(x, y)`, if the
    /// guards hold.
    Shuffle {
        /// The distance in lanes to the one that gives `y`.
        offset: u32,
        /// Number of lanes of a segment.
        width: u32,
        /// Which threads combine.
        guards: Vec<Guard>,
    },
    /// `x` becomes the `x` of the first lane in each segment of `width` lanes.
    Broadcast {
        /// Number of lanes of a segment.
        width: u32,
    },
    /// `slots[slot] = x` if the guards hold.
    Store {
        /// The place.
        slot: Slot,
        /// Which threads store.
        guards: Vec<Guard>,
    },
    /// `x = slots[slot]` if the guards hold.
    Load {
        /// The place.
        slot: Slot,
        /// Which threads load.
        guards: Vec<Guard>,
    },
    /// Where the guards hold: `x = combine(x, slots[slot])`, and then `slots[store] = x` if `store` is given.
    Combine {
        /// The place of the right operand.
        slot: Slot,
        /// The place of the result, if it is stored.
        store: Option<Slot>,
        /// Which threads combine.
        guards: Vec<Guard>,
    },
    /// A barrier (`__syncthreads`): all threads of the block wait for each other.
    Barrier(BarrierReason),
}

/// The lanes that take part in a shuffle: all lanes that the block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// One mask of lanes, for every warp.
    Uniform(u32),
    /// All lanes, except in the last warp, which is not full.
    PartialLast {
        /// The number of the last warp.
        warp: u32,
        /// The mask of its lanes.
        lanes: u32,
    },
}

impl Mask {
    /// The mask of a warp of the block.
    #[must_use]
    pub const fn of_warp(self, warp: u32) -> u32 {
        match self {
            Self::Uniform(mask) => mask,
            Self::PartialLast { warp: last, lanes } if warp == last => lanes,
            Self::PartialLast { .. } => u32::MAX,
        }
    }
}

/// The shared array of one value of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedArray {
    /// Offset from the start of the plan's shared memory, in bytes.
    pub offset: usize,
    /// Size of an element, in bytes.
    pub value_bytes: usize,
}

/// A chosen algorithm with its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectivePlan {
    algorithm: Algorithm,
    extents: Vec<u32>,
    thread: Linear,
    rank: Linear,
    group: Linear,
    group_size: u32,
    groups: u32,
    mask: Mask,
    steps: Vec<Step>,
    slots: u32,
    arrays: Vec<SharedArray>,
    shared_bytes: usize,
    state: Vec<usize>,
    commutative: bool,
}

impl CollectivePlan {
    /// The algorithm that was chosen.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The number of threads along x, y and z, as given.
    #[must_use]
    pub fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// A thread's number in the block, x fastest.
    #[must_use]
    pub const fn thread(&self) -> &Linear {
        &self.thread
    }

    /// A thread's number in its group.
    #[must_use]
    pub const fn rank(&self) -> &Linear {
        &self.rank
    }

    /// The number of a thread's group.
    #[must_use]
    pub const fn group(&self) -> &Linear {
        &self.group
    }

    /// The number of threads in a group.
    #[must_use]
    pub const fn group_size(&self) -> u32 {
        self.group_size
    }

    /// The number of groups in a block.
    #[must_use]
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// The lanes that take part in shuffles.
    #[must_use]
    pub const fn mask(&self) -> Mask {
        self.mask
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The number of elements in each shared array; 0 if none is used.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// The shared array of each value; empty if none is used.
    #[must_use]
    pub fn shared_arrays(&self) -> &[SharedArray] {
        &self.arrays
    }

    /// The bytes of shared memory that the plan needs, aligned for its widest value.
    #[must_use]
    pub const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Sizes of the values that a thread holds, in bytes.
    #[must_use]
    pub fn state(&self) -> &[usize] {
        &self.state
    }

    /// Whether operands may be exchanged.
    #[must_use]
    pub const fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// A quantity, for the thread with these indices.
    #[must_use]
    pub fn quantity(&self, quantity: Quantity, indices: &[u32]) -> u32 {
        match quantity {
            Quantity::Rank => self.rank.at(indices),
            Quantity::Group => self.group.at(indices),
            Quantity::Lane => self.thread.at(indices) % WARP,
            Quantity::Part => self.rank.at(indices) / WARP,
        }
    }

    /// Whether the steps need a quantity.
    #[must_use]
    pub fn uses(&self, quantity: Quantity) -> bool {
        let in_guards = |guards: &[Guard]| {
            guards.iter().any(|guard| match guard {
                Guard::Below(q, _) | Guard::MultipleOf(q, _) => *q == quantity,
            })
        };
        let in_slot = |slot: &Slot| slot.terms.iter().any(|(q, _)| *q == quantity);
        self.steps.iter().any(|step| match step {
            Step::Shuffle { guards, .. } => in_guards(guards),
            Step::Store { slot, guards } | Step::Load { slot, guards } => in_slot(slot) || in_guards(guards),
            Step::Combine { slot, store, guards } => {
                in_slot(slot) || store.as_ref().is_some_and(in_slot) || in_guards(guards)
            }
            Step::Broadcast { .. } | Step::Barrier(_) => false,
        })
    }
}
