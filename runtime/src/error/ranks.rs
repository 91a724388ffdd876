//! The errors of work that several ranks do together.

/// Why ranks can't work together, or can't any more.
///
/// If one rank's call is refused, the others' calls fail too, and nothing has been written anywhere.
///
/// ```
/// use epilogue_runtime::{Communicator, CommunicatorError, Device, Error};
///
/// let mut ranks = Communicator::in_process(2);
/// drop(ranks.pop()); // one of the two never calls
/// let mut x = Device::cpu().zeros::<f32>([4])?;
/// let stream = Device::cpu().default_stream();
/// let error = ranks[0].all_reduce_in_place(&mut x, &stream).unwrap_err();
/// assert!(matches!(error, Error::Communicator(CommunicatorError::Gone { rank: 1 })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommunicatorError {
    /// NCCL's library was not found.
    #[error(
        "NCCL was not found; install it with `pip install nvidia-nccl-cu12` (or -cu13), or name its library in \
         EPILOGUE_NCCL. Tried: {}", .tried.join("; ")
    )]
    Absent {
        /// The libraries that were tried, each with the reason why it was not taken.
        tried: Vec<String>,
    },
    /// A function of NCCL failed.
    #[error("{call} failed with {code}: {message}")]
    Nccl {
        /// The function.
        call: &'static str,
        /// `ncclResult_t`.
        code: i32,
        /// NCCL's description.
        message: String,
    },
    /// The ranks called different things.
    #[error(
        "the ranks disagree on the {what}: {}; all ranks must make the same calls in the same order",
        Ranks(values)
    )]
    Disagree {
        /// The call's part that differs.
        what: String,
        /// Each rank's value, by rank.
        values: Vec<String>,
    },
    /// Another rank refused the call that this one made.
    #[error("rank {rank} refused its part, so nothing was done: {reason}")]
    Refused {
        /// The rank.
        rank: usize,
        /// Its error.
        reason: String,
    },
    /// Another rank has dropped its communicator.
    #[error("rank {rank} has left: its communicator was dropped")]
    Gone {
        /// The rank.
        rank: usize,
    },
    /// Others didn't come in time. The communicator can't be used any more.
    #[error(
        "after {seconds} s, {} had not made this call; the communicator can't be used any more: see why they are late, or \
         give more time with `with_timeout`",
        Late(late)
    )]
    Timeout {
        /// How long this rank has waited.
        seconds: u64,
        /// The ranks that are late, if they are known.
        late: Vec<usize>,
    },
    /// An earlier call has failed in a way that leaves the ranks out of step.
    #[error(
        "this communicator can't be used any more, since an earlier call failed: {reason}; make a new one on every rank"
    )]
    Broken {
        /// The earlier failure.
        reason: String,
    },
    /// An element type that can't be summed.
    #[error("{element} can't be summed over ranks: use f64, f32, bf16, f16, i64 or i32")]
    Element {
        /// The element type.
        element: crate::ElementType,
    },
    /// A tensor with gaps.
    #[error(
        "shape {shape:?} with strides {strides:?} has gaps, and ranks exchange packed tensors: call `contiguous()`"
    )]
    Gaps {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<isize>,
    },
    /// A tensor of the wrong number of elements.
    #[error("{what} has {given} elements, and {needed} are needed for {ranks} ranks")]
    Length {
        /// Which tensor.
        what: &'static str,
        /// Its elements.
        given: usize,
        /// The number of elements that is needed.
        needed: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The two tensors of a call share memory.
    #[error("what is sent and what is received share memory: give two tensors, or use `all_reduce_in_place`")]
    Overlap,
    /// A rank that the number of ranks doesn't have.
    #[error("rank {rank} of {ranks}: ranks are 0 to {ranks} - 1, and there is at least one")]
    Rank {
        /// The rank.
        rank: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// An environment variable that says something impossible.
    #[error("{variable} is `{value}`; it must be {needed}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        needed: &'static str,
    },
    /// The ranks could not hand over their common id.
    #[error("the ranks could not meet at {place}: {reason}")]
    Rendezvous {
        /// The file or address.
        place: String,
        /// The failure, and a way out.
        reason: String,
    },
}

crate::message::debug!(CommunicatorError);

/// Each rank's value.
struct Ranks<'a>(&'a [String]);

impl std::fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (rank, value) in self.0.iter().enumerate() {
            write!(f, "{}rank {rank} has {value}", if rank == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The ranks that others wait for.
struct Late<'a>(&'a [usize]);

impl std::fmt::Display for Late<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [] => f.write_str("some ranks"),
            [one] => write!(f, "rank {one}"),
            several => write!(f, "ranks {several:?}"),
        }
    }
}
