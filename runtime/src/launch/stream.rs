//! Streams order work on a device; events mark points in streams.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::device::cuda::{CudaEvent, CudaStream};
use crate::device::status::SeenFailures;
use crate::device::{Backend, Device};
use crate::error::{Error, Result};
use crate::launch::recording::Recording;

/// Orders work on a device: work on one stream runs in sequence, work on different streams may overlap.
///
/// ```
/// use epilogue_runtime::Device;
///
/// let device = Device::cpu();
/// let (first, second) = (device.new_stream()?, device.new_stream()?); // or `device.default_stream()`
/// let start = first.record()?;
/// // … launches on `first` …
/// let end = first.record()?;
/// second.wait(&end)?; // what follows on `second` begins after these launches
/// second.synchronize()?; // the host waits
/// assert!(start.elapsed_ms(&end)? >= 0.0);
/// # Ok::<(), epilogue_runtime::Error>(())
/// ```
///
/// Cloning gives another handle of the same stream.
///
/// On the CPU and on emulated devices, work is done when the call returns, so every stream is always idle.
///
/// Launches on different streams are ordered if they use the same tensor and at least one of them writes it; all others
/// can overlap.
///
/// # Graphs
/// [`Device::capture`] records launches to be launched together. A stream may also be captured by others, by the
/// driver's functions: this library's work goes into their graph, too, with nothing allocated and no stream waited for
/// there. If a run has to wait for work on other streams, the host waits for it as the run is captured; memory that a
/// plan needs beside its arguments stays the graph's until the plan is dropped. (A plan that has run on the stream
/// before gives the graph the memory that it used then.) The tensors, the plan, and the order of the graph's launches
/// with other work on the tensors are the caller's business. The device's default stream can't be captured.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    kind: StreamKind,
    /// The failures of kernels that it has reported.
    seen: Arc<SeenFailures>,
}

#[derive(Clone)]
pub(crate) enum StreamKind {
    Immediate,
    Cuda(Arc<CudaStream>),
    /// Nothing runs.
    Dry,
    /// Launches are kept for later.
    Recording(Arc<Recording>),
}

impl Device {
    /// The stream on which uploads, fills and readbacks are ordered.
    #[must_use]
    pub fn default_stream(&self) -> Stream {
        let kind = match self.backend() {
            Backend::Host(_) | Backend::Emulated(_) => StreamKind::Immediate,
            Backend::Cuda { stream, .. } => StreamKind::Cuda(Arc::clone(stream)),
            Backend::Target(_) => StreamKind::Dry,
        };
        Stream::new(self.clone(), kind, Arc::clone(self.synchronized()))
    }

    /// Another stream.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn new_stream(&self) -> Result<Stream> {
        let kind = match self.backend() {
            Backend::Host(_) | Backend::Emulated(_) => StreamKind::Immediate,
            Backend::Cuda { gpu, .. } => StreamKind::Cuda(Arc::new(CudaStream::new(&gpu.context)?)),
            Backend::Target(_) => StreamKind::Dry,
        };
        Ok(Stream::new(self.clone(), kind, Arc::new(self.status().seen())))
    }

    /// A stream on which nothing runs: launches are checked, and their kernels are compiled. Work on it may use
    /// [tensors without memory](Self::without_memory). With it, a program compiles in advance what it will run.
    #[must_use]
    pub fn dry_stream(&self) -> Stream {
        Stream::new(self.clone(), StreamKind::Dry, Arc::new(self.status().seen()))
    }
}

impl Stream {
    pub(crate) fn new(device: Device, kind: StreamKind, seen: Arc<SeenFailures>) -> Self {
        Self { device, kind, seen }
    }

    pub(crate) fn recording(device: &Device, recording: &Arc<Recording>) -> Self {
        Self::new(device.clone(), StreamKind::Recording(Arc::clone(recording)), Arc::new(device.status().seen()))
    }

    pub(crate) fn kind(&self) -> &StreamKind {
        &self.kind
    }

    /// The device whose work it orders.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The stream's identity, for memory that runs on one stream share.
    ///
    /// # Errors
    /// The driver's errors.
    pub fn key(&self) -> Result<StreamKey> {
        let (handle, capture) = match &self.kind {
            StreamKind::Immediate | StreamKind::Dry => (0, InCapture::No),
            StreamKind::Recording(recording) => (0, InCapture::Ours(Arc::downgrade(recording))),
            StreamKind::Cuda(stream) => {
                return Ok(StreamKey::of_cuda(stream.handle() as usize, stream.capture_id()?));
            }
        };
        Ok(StreamKey { handle, capture })
    }

    /// Whether nothing runs on it: [`Device::dry_stream`].
    #[must_use]
    pub fn is_dry(&self) -> bool {
        matches!(self.kind, StreamKind::Dry)
    }

    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    /// A fault of that work; [`Error::Data`] for data that a kernel of the device could not use since the last call;
    /// [`Error::Capture`] for the stream of a [capture](Device::capture), on which nothing runs.
    pub fn synchronize(&self) -> Result<()> {
        match &self.kind {
            StreamKind::Cuda(stream) => stream.synchronize()?,
            StreamKind::Recording(_) => return Err(nothing_runs()),
            StreamKind::Immediate | StreamKind::Dry => {}
        }
        self.device.status().report(&self.seen)
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// The driver's errors; [`Error::Capture`] for the stream of a [capture](Device::capture).
    pub fn record(&self) -> Result<Event> {
        let kind = match &self.kind {
            StreamKind::Cuda(stream) => EventKind::Cuda(Arc::new(stream.record(true)?)),
            StreamKind::Immediate | StreamKind::Dry => EventKind::Immediate(Instant::now()),
            StreamKind::Recording(_) => return Err(nothing_runs()),
        };
        Ok(Event { device: self.device.clone(), kind })
    }

    /// Makes later work of this stream start only after `event`.
    ///
    /// # Errors
    /// [`Error::Device`] for an event of another device; [`Error::Capture`] for the stream of a
    /// [capture](Device::capture): let the stream wait on which the graph is launched.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.require_same(&event.device, "the event")?;
        match (&self.kind, &event.kind) {
            (StreamKind::Cuda(stream), EventKind::Cuda(event)) => stream.wait(event),
            (StreamKind::Recording(_), _) => Err(nothing_runs()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(on {})", self.device)
    }
}

fn nothing_runs() -> Error {
    let reason = "nothing runs on this stream, launches are kept for a graph: wait for, and mark, the stream that the graph \
                  is launched on";
    Error::Capture { reason: reason.to_owned() }
}

/// A stream's identity, for memory that is kept from one run to the next ([`Stream::key`]).
#[derive(Clone)]
pub struct StreamKey {
    handle: usize,
    capture: InCapture,
}

/// Whether a stream is captured.
#[derive(Clone)]
enum InCapture {
    No,
    /// By this library.
    Ours(Weak<Recording>),
    /// By others; the driver's number of the capture.
    Others(u64),
}

impl StreamKey {
    /// The key of a GPU's stream: its handle, and the driver's number of the capture that it is in.
    #[must_use]
    pub fn of_cuda(handle: usize, capture: Option<u64>) -> Self {
        Self { handle, capture: capture.map_or(InCapture::No, InCapture::Others) }
    }

    /// The stream's key when it is not captured.
    #[must_use]
    pub fn outside(&self) -> Self {
        Self { handle: self.handle, capture: InCapture::No }
    }

    /// Whether the stream is of a [capture](Device::capture) that has ended: the graph keeps the memory itself.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.capture {
            InCapture::Ours(recording) => recording.upgrade().is_none_or(|recording| recording.is_over()),
            InCapture::No | InCapture::Others(_) => false,
        }
    }

    /// Whether others capture the stream: their graph will use the memory, and nothing is known of it.
    #[must_use]
    pub fn is_of_others(&self) -> bool {
        matches!(self.capture, InCapture::Others(_))
    }
}

impl PartialEq for StreamKey {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
            && match (&self.capture, &other.capture) {
                (InCapture::No, InCapture::No) => true,
                (InCapture::Ours(a), InCapture::Ours(b)) => a.ptr_eq(b),
                (InCapture::Others(a), InCapture::Others(b)) => a == b,
                _ => false,
            }
    }
}

impl Eq for StreamKey {}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capture = match &self.capture {
            InCapture::No => String::new(),
            InCapture::Ours(_) => ", recording".to_owned(),
            InCapture::Others(id) => format!(", in capture {id}"),
        };
        write!(f, "StreamKey({:#x}{capture})", self.handle)
    }
}

/// A point in a stream.
#[derive(Clone)]
pub struct Event {
    device: Device,
    kind: EventKind,
}

#[derive(Clone)]
enum EventKind {
    Immediate(Instant),
    Cuda(Arc<CudaEvent>),
}

impl Event {
    /// Waits until the work before the event is done.
    ///
    /// # Errors
    /// A fault of that work.
    pub fn synchronize(&self) -> Result<()> {
        match &self.kind {
            EventKind::Cuda(event) => event.synchronize(),
            EventKind::Immediate(_) => Ok(()),
        }
    }

    /// Whether all work before it is known to be done, without waiting.
    #[cfg(feature = "nccl")]
    pub(crate) fn is_complete(&self) -> bool {
        match &self.kind {
            EventKind::Cuda(event) => event.is_complete(),
            EventKind::Immediate(_) => true,
        }
    }

    /// Milliseconds from this event to `later`. Waits for both.
    ///
    /// # Errors
    /// [`Error::Event`] for events of different devices; a fault of the work before them.
    pub fn elapsed_ms(&self, later: &Self) -> Result<f32> {
        match (&self.kind, &later.kind) {
            (EventKind::Cuda(start), EventKind::Cuda(end)) if self.device == later.device => start.elapsed_ms(end),
            (EventKind::Immediate(start), EventKind::Immediate(end)) if self.device == later.device => {
                Ok(end.saturating_duration_since(*start).as_secs_f32() * 1e3)
            }
            _ => Err(Error::Event { reason: "they belong to different devices" }),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(on {})", self.device)
    }
}
