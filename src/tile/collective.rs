//! Reductions over the threads of a block: the algorithm as data.
//!
//! A [`Collective`] says which thread indices are reduced over and what each thread holds; [`Collective::plan`] chooses
//! an [`Algorithm`] and writes it down as [`Step`]s. Whoever prints kernels turns the steps into its own language
//! ([`CollectivePlan::cuda`] into CUDA C++), or runs them, as this module's tests do.
//!
//! What a plan assumes: *every* thread of the block executes every step, together (not below a test on a thread's own
//! index or data; a thread with nothing to give holds the identity). The masks of shuffles follow from that: they are
//! computed from the number of threads, and nobody asks which threads happen to be active. What a plan promises: every
//! thread of a group ends with the group's combination; each value enters it once; where the combination is only
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

/// A reduction over threads of a block: what is known of it.
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
    /// first) of a block with `extents` threads along x, y and z; each thread holds one 4-byte value, combination is
    /// commutative, and the reduction may be executed again.
    #[must_use]
    pub fn new(extents: &[u32], reduced: &[usize]) -> Self {
        let (extents, reduced) = (extents.to_vec(), reduced.to_vec());
        Self { extents, reduced, state: vec![4], commutative: true, repeated: true }
    }

    /// What a thread holds: the sizes, in bytes, of the values that are combined together.
    #[must_use]
    pub fn state(mut self, sizes: &[usize]) -> Self {
        self.state = sizes.to_vec();
        self
    }

    /// The combination is not known to commute: operands keep the order of ranks.
    #[must_use]
    pub fn associative_only(mut self) -> Self {
        self.commutative = false;
        self
    }

    /// A launch executes this once, and its shared memory is nobody else's: there is no barrier at the end.
    #[must_use]
    pub fn executed_once(mut self) -> Self {
        self.repeated = false;
        self
    }

    /// Chooses the algorithm.
    ///
    /// # Errors
    /// A block or a state that can't be: [`CollectiveError`].
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

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Not one to three thread indices.
    #[error("a block has 1 to 3 thread indices, {given} extents were given")]
    Indices {
        /// How many extents.
        given: usize,
    },
    /// No thread, or more than a block holds.
    #[error("a block of {extents:?} has {threads} threads; 1 to {MAX_THREADS} are allowed")]
    Threads {
        /// The extents given.
        extents: Vec<u32>,
        /// Their product.
        threads: u64,
    },
    /// A reduction over an index that the block hasn't.
    #[error("thread index {axis} is reduced over, but the block has only {indices} of them, counted from 0")]
    NoSuchIndex {
        /// The index.
        axis: usize,
        /// How many there are.
        indices: usize,
    },
    /// An index that is given twice.
    #[error("thread index {axis} is reduced over twice; give it once")]
    RepeatedIndex {
        /// The index.
        axis: usize,
    },
    /// Nothing is reduced.
    #[error("a reduction needs at least one value per thread")]
    NoState,
    /// A value that is no register.
    #[error("a value of {bytes} bytes can't be reduced over threads; 1, 2, 4 and 8 bytes are possible")]
    StateSize {
        /// Its size.
        bytes: usize,
    },
}

/// How threads combine their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A group is one thread: nothing to do.
    Single,
    /// A group is `width` neighbouring lanes, a power of two below a warp: a tree of shuffles in each segment.
    SubWarp {
        /// Lanes of a group.
        width: u32,
    },
    /// The block is one group of fewer threads than a warp has, any number of them: a tree of shuffles with guards.
    GuardedWarp {
        /// Threads of the group.
        threads: u32,
    },
    /// A group is a warp: a tree of shuffles.
    Warp,
    /// A group is several warps in a row: shuffles in each warp, then one value per warp through shared memory.
    TwoStage {
        /// Warps of a group.
        warps: u32,
    },
    /// Any other group: a tree in shared memory, with a barrier at each level.
    SharedTree,
}

/// What a thread knows of its place, from its indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Its place in its group: [`CollectivePlan::rank`].
    Rank,
    /// Its group: [`CollectivePlan::group`].
    Group,
    /// Its lane: [`CollectivePlan::thread`] mod 32.
    Lane,
    /// The warp's place in the group: rank / 32. Only where groups are whole warps, or the whole block.
    Part,
}

/// A sum of thread indices with factors: `Σ factor · index`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// Thread index (0 for x) and factor; indices of extent 1 don't occur.
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

/// A place in the shared arrays: `Σ factor · quantity + constant`, the same in the array of each component.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Quantities with factors.
    pub terms: Vec<(Quantity, u32)>,
    /// What is added.
    pub constant: u32,
}

/// What a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierReason {
    /// Values are in shared memory before others read them.
    Written,
    /// Values have been read before the same places are written again, by the next execution of this reduction.
    Read,
}

/// One step. Each thread has `x`, its tuple of values; guards are conjunctions, and an empty one is no test.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// `y = shfl.down(x, offset)` in segments of `width` lanes, by all threads; then, where the guards hold,
    /// `x = combine(x, y)`.
    Shuffle {
        /// How many lanes up `y` comes from.
        offset: u32,
        /// Lanes of a segment.
        width: u32,
        /// Who combines.
        guards: Vec<Guard>,
    },
    /// `x` becomes that of the first lane of its segment of `width` lanes.
    Broadcast {
        /// Lanes of a segment.
        width: u32,
    },
    /// `slots[slot] = x` where the guards hold.
    Store {
        /// Where.
        slot: Slot,
        /// Who.
        guards: Vec<Guard>,
    },
    /// `x = slots[slot]` where the guards hold.
    Load {
        /// Where.
        slot: Slot,
        /// Who.
        guards: Vec<Guard>,
    },
    /// `x = combine(x, slots[slot])`, and then, if `store` says where, `slots[store] = x`; where the guards hold.
    Combine {
        /// Where the right operand is.
        slot: Slot,
        /// Where the result goes besides.
        store: Option<Slot>,
        /// Who.
        guards: Vec<Guard>,
    },
    /// All threads of the block wait for each other (`__syncthreads`).
    Barrier(BarrierReason),
}

/// The lanes that take part in a shuffle: all that the block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// The same in every warp.
    Uniform(u32),
    /// All lanes, but in the last warp, which is not full.
    PartialLast {
        /// Which warp is the last.
        warp: u32,
        /// Its lanes.
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

/// The values of one component in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedArray {
    /// Bytes from the start of the plan's shared memory.
    pub offset: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
}

/// A chosen algorithm, written down.
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
    /// What was chosen.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Threads along x, y and z, as given.
    #[must_use]
    pub fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// A thread's number in the block, x fastest.
    #[must_use]
    pub const fn thread(&self) -> &Linear {
        &self.thread
    }

    /// A thread's place in its group.
    #[must_use]
    pub const fn rank(&self) -> &Linear {
        &self.rank
    }

    /// A thread's group.
    #[must_use]
    pub const fn group(&self) -> &Linear {
        &self.group
    }

    /// Threads of a group.
    #[must_use]
    pub const fn group_size(&self) -> u32 {
        self.group_size
    }

    /// How many groups a block has.
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

    /// Places in each shared array; 0 if none is used.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Where each component's array is in shared memory; none if none is used.
    #[must_use]
    pub fn shared_arrays(&self) -> &[SharedArray] {
        &self.arrays
    }

    /// Shared memory that the plan needs, in bytes, aligned as its widest value.
    #[must_use]
    pub const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Sizes of the values that a thread holds, in bytes.
    #[must_use]
    pub fn state(&self) -> &[usize] {
        &self.state
    }

    /// Whether operands may change places.
    #[must_use]
    pub const fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// A quantity of the thread with these indices.
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
