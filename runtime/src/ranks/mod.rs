//! Ranks that work together: sums and parts of tensors go from each to all.
//!
//! Two kinds of communicators have the same functions:
//!
//! - [`in_process`](Communicator::in_process): the ranks are threads of this process, on any devices. Tensors go
//!   through this computer's memory ([`meeting`]). Sums are in the order of the ranks ([`sum`]), so that results are
//!   the same at every run. With it, what is divided among GPUs is tested without any.
//! - NCCL's (feature `nccl`): each rank has a GPU. It begins with an id that all ranks get from rank 0 ([`rendezvous`]);
//!   which rank a process is, its launcher says ([`launched`]).
//!
//! Nothing here knows of products: what is divided and how is the business of the crates above.

pub(crate) mod collective;

mod launched;
mod meeting;
mod rendezvous;
mod sum;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::meeting::Meeting;
use crate::device::Device;
use crate::error::ranks::CommunicatorError;
use crate::error::{Error, Result};
use crate::launch::stream::{Stream, StreamKind};
use crate::layout::element::ElementType;
use crate::ranks::collective::Collective;
use crate::tensor::DeviceTensor;

pub use launched::LaunchedRank;
pub use rendezvous::Rendezvous;

/// How long a rank waits for the others, unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest text of an [exchange](Communicator::exchange), in bytes.
const TEXT_BYTES: usize = 1024;

/// This rank's end of what a number of ranks do together.
///
/// All ranks make the same calls in the same order, each from a thread or process of its own: a call is complete when all
/// have made it.
///
/// ```
/// use epilogue_runtime::{Communicator, Device, Error};
///
/// let sums = std::thread::scope(|scope| {
///     let ranks = Communicator::in_process(3).into_iter().map(|ranks| {
///         scope.spawn(move || {
///             let (device, mine) = (Device::cpu(), ranks.rank() as f32);
///             let mut x = device.tensor(&[mine, 10.0 * mine], [2])?;
///             ranks.all_reduce_in_place(&mut x, &device.default_stream())?;
///             x.to_vec::<f32>()
///         })
///     });
///     let ranks: Vec<_> = ranks.collect();
///     ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
/// })?;
/// assert_eq!(sums, vec![vec![3.0, 30.0]; 3]); // 0 + 1 + 2
/// # Ok::<(), Error>(())
/// ```
///
/// Cloning gives another handle of the same rank. With NCCL, calls are put on a stream and are done later, in its order;
/// what uses the tensors on other streams is ordered with them. Between threads they are done when the call returns.
///
/// # Ranks that disagree
/// Between threads, every call compares what the ranks ask for: all ranks fail with a [`CommunicatorError`], and
/// nothing is written, if element types, lengths or the calls themselves differ. This also holds if one rank's call is
/// refused, or if one rank is gone. NCCL compares nothing: what differs there waits forever or is wrong.
/// [`exchange`](Self::exchange) is for agreeing first, and fails when the others don't come in time.
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    rank: usize,
    ranks: usize,
    kind: Kind,
}

enum Kind {
    /// Threads of this process.
    Threads(Arc<Meeting<Part>>),
    #[cfg(feature = "nccl")]
    Nccl { device: Device, communicator: crate::device::cuda::nccl::NcclCommunicator, stream: Stream },
}

/// A thread's contribution to a meeting.
enum Part {
    Text(String),
    Tensor {
        call: Call,
        bytes: Vec<u8>,
    },
    /// The rank's error.
    Refused(String),
}

/// The facts of a call that all ranks must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Call {
    collective: Collective,
    element: ElementType,
    /// The elements of a rank's part; of an all-reduce, all.
    count: usize,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.collective, self.count, self.element)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match &self.kind {
            Kind::Threads(meeting) => meeting.leave(self.rank),
            #[cfg(feature = "nccl")]
            Kind::Nccl { .. } => {}
        }
    }
}

impl Communicator {
    /// The ends of a communicator whose ranks are threads of this process, by rank: give each to a thread. They work on any
    /// device, through this computer's memory; one thread must not wait for two of them.
    #[must_use]
    pub fn in_process(ranks: usize) -> Vec<Self> {
        let meeting = Arc::new(Meeting::new(ranks));
        let end = |rank| Self::of(rank, ranks, Kind::Threads(Arc::clone(&meeting)));
        (0..ranks).map(end).collect()
    }

    fn of(rank: usize, ranks: usize, kind: Kind) -> Self {
        Self { inner: Arc::new(Inner { rank, ranks, kind }), timeout: PATIENCE }
    }

    /// Joins the other ranks by NCCL, each with a GPU of its own; they get NCCL's id at the rendezvous. It waits for all.
    ///
    /// ```no_run
    /// use epilogue_runtime::{Communicator, Device, LaunchedRank, Rendezvous};
    ///
    /// // Under `torchrun`, `mpirun` or `srun`.
    /// let me = LaunchedRank::from_environment()?.unwrap_or_default();
    /// let device = Device::cuda(me.local_rank)?;
    /// let ranks = Communicator::nccl(&device, &me, &Rendezvous::from_environment()?)?;
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a device that is not a GPU; [`CommunicatorError::Absent`] without NCCL;
    /// [`CommunicatorError::Rendezvous`]; NCCL's errors.
    #[cfg(feature = "nccl")]
    pub fn nccl(device: &Device, me: &LaunchedRank, meet: &Rendezvous) -> Result<Self> {
        use crate::device::cuda::nccl::{NcclCommunicator, new_id};
        let (context, LaunchedRank { rank, ranks, .. }) = (gpu(device)?, *me);
        me.check()?;
        let id = meet.share(rank, ranks, PATIENCE, new_id)?;
        let communicator = NcclCommunicator::join(context, id, rank, ranks)?;
        Ok(Self::of(rank, ranks, Kind::Nccl { device: device.clone(), communicator, stream: device.new_stream()? }))
    }

    /// Someone else's communicator of NCCL: the `ncclComm_t` of cudarc, candle or PyTorch.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a device that is not a GPU; [`CommunicatorError::Absent`] without NCCL; NCCL's errors.
    ///
    /// # Safety
    /// `communicator` is a live `ncclComm_t` of this GPU until the last handle of the result is dropped. It is of the
    /// library that `EPILOGUE_NCCL` or the loader gives. Nobody else calls NCCL with it on another thread meanwhile.
    #[cfg(feature = "nccl")]
    pub unsafe fn borrow_nccl(device: &Device, communicator: *mut std::ffi::c_void) -> Result<Self> {
        // SAFETY: the caller's promise.
        let communicator = unsafe { crate::device::cuda::nccl::NcclCommunicator::borrow(gpu(device)?, communicator) }?;
        let (rank, ranks) = communicator.place()?;
        Ok(Self::of(rank, ranks, Kind::Nccl { device: device.clone(), communicator, stream: device.new_stream()? }))
    }

    /// Sets how long this end waits for the other ranks; one minute by default.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// This end's rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.inner.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.inner.ranks
    }

    /// Whether every call compares what the ranks ask for, as calls between threads do.
    #[must_use]
    pub fn compares(&self) -> bool {
        matches!(self.inner.kind, Kind::Threads(_))
    }

    /// A stream for calls that are to overlap with work on other streams: with NCCL always the same one, so that calls are
    /// done in the order in which they are made.
    #[must_use]
    pub fn stream(&self, device: &Device) -> Stream {
        match &self.inner.kind {
            Kind::Threads(_) => device.default_stream(),
            #[cfg(feature = "nccl")]
            Kind::Nccl { stream, .. } => stream.clone(),
        }
    }

    /// Exchanges a short text: the texts of all ranks, by rank. A text longer than 1024 bytes is cut. With NCCL it
    /// waits for the GPU.
    ///
    /// # Errors
    /// [`CommunicatorError::Timeout`] if others don't come in time, [`CommunicatorError::Gone`]; with NCCL the driver's and
    /// NCCL's errors. Then the communicator can't be used any more.
    pub fn exchange(&self, text: &str) -> Result<Vec<String>> {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        match &self.inner.kind {
            Kind::Threads(meeting) => {
                let all = meeting.exchange(self.rank(), Part::Text(text.to_owned()), self.timeout)?;
                let texts = all.iter().map(|part| match part {
                    Part::Text(text) => Some(text.clone()),
                    Part::Tensor { .. } | Part::Refused(_) => None,
                });
                texts.collect::<Option<Vec<_>>>().ok_or_else(|| disagree(&all).into())
            }
            #[cfg(feature = "nccl")]
            Kind::Nccl { device, communicator, stream } => self.exchange_by_nccl(device, communicator, stream, text),
        }
    }

    /// The sum over all ranks, on every rank, in the place of what each has.
    ///
    /// # Errors
    /// The errors of [`all_reduce`](Self::all_reduce).
    pub fn all_reduce_in_place(&self, tensor: &mut DeviceTensor, stream: &Stream) -> Result<()> {
        let same = tensor.clone();
        self.call(Collective::AllReduce, &same, tensor, true, stream)
    }

    /// The sum over all ranks, on every rank: `into` has the shape of `from`.
    ///
    /// # Errors
    /// [`CommunicatorError`]: an element type that can't be summed, a tensor with gaps, another length, ranks that disagree;
    /// [`Error::Device`] for a tensor or stream of another device; [`Error::Unsupported`] on the stream of a
    /// [capture](Device::capture).
    pub fn all_reduce(&self, from: &DeviceTensor, into: &mut DeviceTensor, stream: &Stream) -> Result<()> {
        self.call(Collective::AllReduce, from, into, false, stream)
    }

    /// Each rank's part of the sum over all ranks: `from` has as many parts as there are ranks, one after another along its
    /// first axis, and `into` has the shape of one.
    ///
    /// # Errors
    /// The errors of [`all_reduce`](Self::all_reduce).
    pub fn reduce_scatter(&self, from: &DeviceTensor, into: &mut DeviceTensor, stream: &Stream) -> Result<()> {
        self.call(Collective::ReduceScatter, from, into, false, stream)
    }

    /// Gives every rank the values of all ranks: `into` has as many parts of the shape of `from` as there are ranks,
    /// one after another along its first axis.
    ///
    /// # Errors
    /// The errors of [`all_reduce`](Self::all_reduce).
    pub fn all_gather(&self, from: &DeviceTensor, into: &mut DeviceTensor, stream: &Stream) -> Result<()> {
        self.call(Collective::AllGather, from, into, false, stream)
    }

    fn call(
        &self,
        collective: Collective,
        from: &DeviceTensor,
        into: &mut DeviceTensor,
        in_place: bool,
        stream: &Stream,
    ) -> Result<()> {
        let checked = self.check(collective, (from, into, in_place), stream);
        match &self.inner.kind {
            // Nothing runs, so nobody has to be waited for.
            _ if stream.is_dry() => checked.map(drop),
            Kind::Threads(meeting) => self.meet(meeting, checked, from, into),
            #[cfg(feature = "nccl")]
            Kind::Nccl { communicator, .. } => put(communicator, checked?, from, into, stream),
        }
    }

    /// Checks everything that can be checked without the other ranks.
    fn check(
        &self,
        collective: Collective,
        (from, into, in_place): (&DeviceTensor, &DeviceTensor, bool),
        stream: &Stream,
    ) -> Result<Call> {
        let device = from.device();
        device.require_same(stream.device(), "the stream")?;
        device.require_same(into.device(), "a tensor")?;
        #[cfg(feature = "nccl")]
        if let Kind::Nccl { device, .. } = &self.inner.kind {
            device.require_same(from.device(), "a tensor")?;
        }
        if let StreamKind::Recording(_) = stream.kind() {
            return Err(device.unsupported("record what ranks do together", "run it between two graphs"));
        }
        let element = from.element_type();
        if into.element_type() != element {
            return Err(Error::ElementType { held: into.element_type(), asked: element });
        }
        if collective != Collective::AllGather {
            sum::check(element)?;
        }
        for tensor in [from, into] {
            if !tensor.is_contiguous() {
                let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
                return Err(CommunicatorError::Gaps { shape, strides }.into());
            }
        }
        let ranks = self.ranks();
        let (count, sent, received) = match collective {
            Collective::AllReduce => (from.len(), from.len(), from.len()),
            Collective::ReduceScatter => (into.len(), into.len().saturating_mul(ranks), into.len()),
            Collective::AllGather => (from.len(), from.len(), from.len().saturating_mul(ranks)),
        };
        for (what, tensor, needed) in [("what is sent", from, sent), ("what is received", into, received)] {
            if tensor.len() != needed {
                return Err(CommunicatorError::Length { what, given: tensor.len(), needed, ranks }.into());
            }
        }
        if !in_place && from.overlaps(into) {
            return Err(CommunicatorError::Overlap.into());
        }
        into.buffer().require_writable()?;
        Ok(Call { collective, element, count })
    }

    /// A call between threads.
    fn meet(
        &self,
        meeting: &Meeting<Part>,
        checked: Result<Call>,
        from: &DeviceTensor,
        into: &mut DeviceTensor,
    ) -> Result<()> {
        let ready = checked.and_then(|call| Ok((call, from.to_bytes()?)));
        // The others are told of an error, so that they don't wait.
        let (part, failed) = match ready {
            Ok((call, bytes)) => (Part::Tensor { call, bytes }, None),
            Err(error) => (Part::Refused(error.to_string()), Some(error)),
        };
        let all = meeting.exchange(self.rank(), part, self.timeout);
        if let Some(error) = failed {
            return Err(error);
        }
        let all = all?;
        if let Some((rank, reason)) = all.iter().enumerate().find_map(|(rank, part)| match part {
            Part::Refused(reason) => Some((rank, reason.clone())),
            Part::Text(_) | Part::Tensor { .. } => None,
        }) {
            return Err(CommunicatorError::Refused { rank, reason }.into());
        }
        let mut calls = Vec::with_capacity(all.len());
        let mut parts = Vec::with_capacity(all.len());
        for part in all.iter() {
            if let Part::Tensor { call, bytes } = part {
                calls.push(*call);
                parts.push(bytes.as_slice());
            }
        }
        let Some(call) = calls.first().copied().filter(|first| calls.iter().all(|call| call == first)) else {
            return Err(disagree(&all).into());
        };
        if parts.len() != self.ranks() {
            return Err(disagree(&all).into());
        }
        let bytes = match call.collective {
            Collective::AllReduce => sum::sum(call.element, &parts)?,
            Collective::ReduceScatter => {
                let length = call.count * call.element.size();
                let mine = self.rank() * length..(self.rank() + 1) * length;
                sum::sum(call.element, &parts.iter().map(|part| &part[mine.clone()]).collect::<Vec<_>>())?
            }
            Collective::AllGather => parts.concat(),
        };
        into.copy_from_bytes(&bytes)
    }
}

/// The ranks' calls, if they were not the same.
fn disagree(all: &[Part]) -> CommunicatorError {
    let values = all.iter().map(|part| match part {
        Part::Text(_) => "exchange".to_owned(),
        Part::Tensor { call, .. } => call.to_string(),
        Part::Refused(reason) => format!("an error ({reason})"),
    });
    CommunicatorError::Disagree { what: "call".to_owned(), values: values.collect() }
}

#[cfg(feature = "nccl")]
mod by_nccl {
    //! Calls on a GPU's stream.

    use std::time::Instant;

    use super::*;
    use crate::device::Backend;
    use crate::device::cuda::nccl::NcclCommunicator;
    use crate::device::cuda::{self, AllocationAccess, Context};
    use crate::memory::buffer::BufferMemory;

    pub(super) fn gpu(device: &Device) -> Result<&'static Context> {
        match device.backend() {
            Backend::Cuda { gpu, .. } => Ok(&gpu.context),
            Backend::Host(_) | Backend::Emulated(_) | Backend::Target(_) => {
                Err(device.unsupported("use NCCL", "use `Communicator::in_process`, or open a GPU with `Device::cuda`"))
            }
        }
    }

    pub(super) fn put(
        communicator: &NcclCommunicator,
        call: Call,
        from: &DeviceTensor,
        into: &DeviceTensor,
        stream: &Stream,
    ) -> Result<()> {
        let (BufferMemory::Cuda(sent), BufferMemory::Cuda(received)) = (from.buffer().memory(), into.buffer().memory())
        else {
            return Err(from
                .device()
                .unsupported("use a tensor without memory", "it is for `Device::dry_stream` only"));
        };
        let StreamKind::Cuda(on) = stream.kind() else {
            return Err(from.device().mismatch(stream.device(), "the stream"));
        };
        if call.count == 0 {
            return Ok(());
        }
        let addresses = (from.device_address(), into.device_address());
        cuda::order(on, &[(sent, AllocationAccess::Read), (received, AllocationAccess::Write)], || {
            // SAFETY: lengths and element types were checked against each other; `order` keeps the memory until the
            // stream has done it.
            unsafe { communicator.launch(call.collective, addresses, call.count, call.element, on) }
        })
    }

    impl Communicator {
        pub(super) fn exchange_by_nccl(
            &self,
            device: &Device,
            communicator: &NcclCommunicator,
            stream: &Stream,
            text: &str,
        ) -> Result<Vec<String>> {
            let mut bytes = [0; TEXT_BYTES];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            let mine = device.tensor_from_bytes(ElementType::U8, &bytes, [TEXT_BYTES])?;
            let mut all = device.zeros_of(ElementType::U8, [self.ranks(), TEXT_BYTES])?;
            self.all_gather(&mine, &mut all, stream)?;
            let done = stream.record()?;
            let deadline = Instant::now() + self.timeout;
            while !done.is_complete() {
                communicator.check()?;
                if Instant::now() >= deadline {
                    communicator.abort();
                    return Err(CommunicatorError::Timeout { seconds: self.timeout.as_secs(), late: Vec::new() }.into());
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
            Ok(all.to_bytes()?.chunks(TEXT_BYTES).map(text).collect())
        }
    }
}

#[cfg(feature = "nccl")]
use by_nccl::{gpu, put};

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.inner.kind {
            Kind::Threads(_) => "in this process",
            #[cfg(feature = "nccl")]
            Kind::Nccl { .. } => "by NCCL",
        };
        write!(f, "Communicator(rank {} of {}, {kind})", self.rank(), self.ranks())
    }
}

#[cfg(test)]
mod tests;
