//! Graphs: launches that are recorded once, and then launched together any number of times.
//!
//! The library records a graph, not the driver. A stream that records is a value of its own. So no other thread's work
//! can end up in it, and emulated devices have graphs, too. The driver captures only while the recorded launches are
//! given to it, on a stream that nobody else has. The launch of a graph is ordered by the tensors that it uses, like
//! that of a kernel.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use crate::device::cuda::{self, ExecutableGraph};
use crate::device::emulated::Use;
use crate::device::loaded::LoadedCode;
use crate::device::{Backend, Device};
use crate::error::{Error, Result};
use crate::launch::recording::{RecordedLaunch, Recording};
use crate::launch::stream::{Stream, StreamKind};
use crate::trace;

/// Launches that were recorded once ([`Device::capture`]): one call launches them all, on a GPU as a CUDA graph.
///
/// It keeps the memory of the tensors that its launches use, and reads and writes these very tensors each time: to give it
/// other values, write them into the tensors. Dropping it frees what nothing else keeps, after its last launch.
///
/// ```
/// use epilogue_runtime::{Arch, Device, Error, KernelArgument, Launch, Source};
/// # if epilogue_runtime::testing::compiler("the page of graphs").is_none() { return Ok(()) }
///
/// let device = Device::emulated(Arch::SM_80)?; // or `Device::cuda(0)?`
/// let code = "extern \"C\" __global__ void double_all(float* x) { x[threadIdx.x] *= 2.0f; }";
/// let double = device.compile(&Source::new("double.cu", "double_all", code))?;
/// let mut x = device.tensor(&[1.0f32, 2.0], [2])?;
///
/// let launch = Launch { block: [2, 1, 1], ..Launch::default() };
/// let graph = device.capture(|stream| {
///     double.launch(&launch, &[KernelArgument::Output(&x)], stream)?;
///     double.launch(&launch, &[KernelArgument::Output(&x)], stream)
/// })?;
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]); // nothing has run yet
///
/// let stream = device.new_stream()?;
/// graph.launch(&stream)?;
/// assert_eq!(x.to_vec::<f32>()?, [4.0, 8.0]);
/// x.copy_from(&[3.0f32, 5.0])?;
/// graph.launch(&stream)?;
/// assert_eq!(x.to_vec::<f32>()?, [12.0, 20.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// A launch of a graph is ordered with other work as a launch of a kernel is: where both use a tensor and one of them
/// writes it.
pub struct Graph {
    device: Device,
    launches: Vec<RecordedLaunch>,
    /// On a GPU, if there is anything to launch.
    executable: Option<ExecutableGraph>,
    /// Held while an emulated device runs it: its kernels have memory that only one launch may use.
    running: Mutex<()>,
    /// Whether a launch has failed: then that memory may hold anything.
    has_failed: AtomicBool,
}

impl Device {
    /// Records what `work` launches on the stream that it is given, and runs none of it.
    ///
    /// Plans, kernels and tensor expressions are run on that stream as on any other (`gemm.run_on(stream, …)`). They
    /// compile what they need, and the graph gets the memory that they need beside their arguments. Work on other
    /// streams, reading back and writing tensors are done at once, as always. Launches of other libraries are done at
    /// once too: to record them, let the other library capture the graph, with this library's work on a [borrowed
    /// stream](Stream::borrow).
    ///
    /// The launches take the tensors' addresses and sizes as they are: a graph is for one shape.
    ///
    /// On a [target of a bundle](crate::compile::bundle), kernels are compiled and kept as always, and the graph is empty.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the CPU, where work is done when its call returns; what `work` fails with; what the driver
    /// fails with.
    pub fn capture<E: From<Error>>(&self, work: impl FnOnce(&Stream) -> Result<(), E>) -> Result<Graph, E> {
        let recording = match self.backend() {
            Backend::Host(_) => {
                let advice = "its work is done when the call returns, so there is nothing to save: run it each time";
                return Err(self.unsupported("capture launches", advice).into());
            }
            Backend::Target(_) => {
                work(&self.dry_stream())?;
                return Ok(Graph::new(self, Vec::new())?);
            }
            Backend::Cuda { .. } | Backend::Emulated(_) => Arc::new(Recording::default()),
        };
        // Over in any case, also if `work` panics: the stream may have been kept.
        let ended = Ended(recording);
        work(&Stream::recording(self, &ended.0))?;
        Ok(Graph::new(self, ended.0.end())?)
    }
}

/// A recording that is over when this is dropped.
struct Ended(Arc<Recording>);

impl Drop for Ended {
    fn drop(&mut self) {
        // Without the lock: what was recorded may be the last to have a tensor or a kernel.
        drop(self.0.end());
    }
}

impl Graph {
    fn new(device: &Device, launches: Vec<RecordedLaunch>) -> Result<Self> {
        let executable = match device.backend() {
            Backend::Cuda { gpu, .. } if !launches.is_empty() => Some(ExecutableGraph::of(&gpu.context, |stream| {
                launches.iter().try_for_each(|one| one.launch_on(stream))
            })?),
            Backend::Cuda { .. } | Backend::Emulated(_) | Backend::Host(_) | Backend::Target(_) => None,
        };
        trace::event!(DEBUG, "captured", device = trace::text(device), launches = launches.len());
        let (running, has_failed) = Default::default();
        Ok(Self { device: device.clone(), launches, executable, running, has_failed })
    }

    /// Launches everything that was recorded, in its order. On a GPU it runs later; on an emulated device it is done when
    /// this returns. On the stream of a [capture](Device::capture), all of it becomes part of that graph.
    ///
    /// # Errors
    /// [`Error::Device`] for a stream of another device; what the launches fail with. On an emulated device,
    /// [`Error::Capture`] for a graph if one of its launches has failed before: capture it again.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.require_same(stream.device(), "the stream")?;
        trace::event!(TRACE, "launch of a graph", device = trace::text(&self.device), launches = self.launches.len());
        match stream.kind() {
            StreamKind::Dry => Ok(()),
            StreamKind::Recording(recording) => recording.add(self.launches.iter().cloned()),
            StreamKind::Immediate => self.run_now(),
            StreamKind::Cuda(on) => {
                let Some(executable) = &self.executable else { return Ok(()) };
                let uses: SmallVec<[_; 16]> = self.launches.iter().flat_map(RecordedLaunch::cuda_uses).collect();
                cuda::order(on, &uses, || executable.launch(on))
            }
        }
    }

    fn run_now(&self) -> Result<()> {
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_failed.load(Ordering::Relaxed) {
            let reason = "a launch of this graph has failed, and has left its kernels' memory as it was then: capture it \
                          again";
            return Err(Error::Capture { reason: reason.to_owned() });
        }
        // As on a GPU, nothing comes between its launches.
        let _used = Use::of(self.launches.iter().flat_map(RecordedLaunch::emulated_uses));
        let ended = self.launches.iter().try_for_each(RecordedLaunch::run_now);
        self.has_failed.store(ended.is_err(), Ordering::Relaxed);
        ended
    }

    /// The device that it was captured for.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many launches of kernels it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    /// Whether nothing was launched while it was captured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }
}

impl RecordedLaunch {
    fn launch_on(&self, stream: &cuda::CudaStream) -> Result<()> {
        let LoadedCode::Cuda(function) = &self.loaded.code else { return Ok(()) };
        let pointers: SmallVec<[*const u8; 16]> = self.values.iter().map(SmallVec::as_ptr).collect();
        // SAFETY: number and sizes were checked when it was recorded; the graph keeps the memory, and is ordered with its
        // other uses when it is launched.
        unsafe { function.launch(&self.shape, &pointers, stream) }
    }

    fn run_now(&self) -> Result<()> {
        let LoadedCode::Emulated { emulator, module } = &self.loaded.code else { return Ok(()) };
        let values: SmallVec<[&[u8]; 16]> = self.values.iter().map(|value| &value[..]).collect();
        emulator.launch(module, &self.loaded.entry, &self.shape, &values)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} launches on {})", self.launches.len(), self.device)
    }
}
