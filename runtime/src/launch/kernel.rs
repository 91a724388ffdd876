//! Compiled kernels on a device, and launches.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::compile::compile_log::{CompileLog, Resources};
use crate::device::cuda::{self, AllocationAccess};
use crate::device::emulated::{EmulatedMemory, Use};
use crate::device::launch::Launch;
use crate::device::loaded::{Loaded, LoadedCode};
use crate::device::{Device, WeakDevice};
use crate::error::{Error, Result};
use crate::launch::recording::RecordedLaunch;
use crate::launch::stream::{Stream, StreamKind};
use crate::memory::buffer::{Buffer, BufferMemory};
use crate::tensor::DeviceTensor;
use crate::trace;

/// An argument of a launch: a parameter of the kernel, or a tensor that the kernel reaches through one.
///
/// A launch must name every tensor that the kernel uses: this orders launches on different streams, and keeps the
/// memory until the kernel is done.
#[derive(Clone, Copy, Debug)]
pub enum KernelArgument<'a> {
    /// A pointer to the tensor's first element, through which the kernel only reads.
    Input(&'a DeviceTensor),
    /// A pointer to the tensor's first element, through which the kernel writes (and may read).
    Output(&'a DeviceTensor),
    /// A parameter's bytes: a scalar, or a structure laid out as in CUDA C++.
    Value(&'a [u8]),
    /// Not a parameter: the kernel reads this tensor, whose address is in another argument.
    Reads(&'a DeviceTensor),
    /// Not a parameter: the kernel writes this tensor, whose address is in another argument.
    Writes(&'a DeviceTensor),
}

/// A kernel, loaded on a device. Cloning gives another handle.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

struct Inner {
    device: Device,
    loaded: Arc<Loaded>,
    /// Its number in the device's record of failures, if it reports any.
    reports: Option<u64>,
}

impl Kernel {
    pub(crate) fn new(device: Device, loaded: Arc<Loaded>, reports: Option<u64>) -> Self {
        Self(Arc::new(Inner { device, loaded, reports }))
    }

    pub(crate) fn loaded(&self) -> &Arc<Loaded> {
        &self.0.loaded
    }

    /// The device that it is loaded on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Its symbol.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.loaded.entry
    }

    /// The PTX that it was made from; for machine code from a [bundle](crate::compile::bundle), only the kernels' declarations.
    #[must_use]
    pub fn ptx(&self) -> &str {
        &self.0.loaded.compiled.ptx
    }

    /// The compiler's log.
    #[must_use]
    pub fn log(&self) -> &CompileLog {
        &self.0.loaded.compiled.log
    }

    /// The module that an emulated device runs, for launches with ptx-vm's own options; `None` on a GPU.
    #[cfg(feature = "emulated")]
    #[must_use]
    pub fn emulated_module(&self) -> Option<&ptx_vm::Module> {
        match &self.0.loaded.code {
            LoadedCode::Emulated { module, .. } => Some(module),
            LoadedCode::Cuda(_) | LoadedCode::None => None,
        }
    }

    /// Whether it came from the disk cache, or from a bundle.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.0.loaded.compiled.cached
    }

    /// The resources of a multiprocessor that it needs; `None` on an emulated device, which runs PTX: registers are not
    /// yet allocated there.
    #[must_use]
    pub fn resources(&self) -> Option<&Resources> {
        self.log().kernel(&self.0.loaded.entry)
    }

    /// Registers per thread; see [`resources`](Self::resources).
    #[must_use]
    pub fn registers(&self) -> Option<u32> {
        self.resources().map(|r| r.registers)
    }

    /// Bytes that each thread stores and loads because it runs out of registers; see [`resources`](Self::resources).
    #[must_use]
    pub fn spill_bytes(&self) -> Option<u32> {
        self.resources().map(|r| r.spill_store_bytes + r.spill_load_bytes)
    }

    /// Static shared memory of a block, in bytes; see [`resources`](Self::resources).
    #[must_use]
    pub fn static_shared_bytes(&self) -> Option<u32> {
        self.resources().map(|r| r.shared_bytes)
    }

    /// How many blocks can be on one multiprocessor at once; `None` on an emulated device.
    ///
    /// # Errors
    /// The driver's errors, such as for more shared memory than there is.
    pub fn blocks_per_multiprocessor(&self, launch: &Launch) -> Result<Option<u32>> {
        let threads = launch.block.iter().product();
        match &self.0.loaded.code {
            LoadedCode::Cuda(function) => function.blocks_per_multiprocessor(threads, launch.shared_bytes).map(Some),
            LoadedCode::Emulated { .. } | LoadedCode::None => Ok(None),
        }
    }

    /// How many clusters of the launch's shape can be on the whole device at once (without clusters, how many blocks).
    /// Persistent kernels use this for their grid. On an emulated device and a bundle's target, it is one block for
    /// every multiprocessor of the GPU that it stands for. 0 if it can't run one, as a GPU may not with more than 8 blocks.
    ///
    /// # Errors
    /// [`Error::Launch`] for a shape that is not allowed; the driver's errors.
    pub fn active_clusters(&self, launch: &Launch) -> Result<u32> {
        self.check_shape(launch)?;
        match &self.0.loaded.code {
            // Without clusters, the driver's function for clusters guarantees nothing.
            LoadedCode::Cuda(function) if launch.cluster == [1; 3] => {
                let blocks = function.blocks_per_multiprocessor(launch.block.iter().product(), launch.shared_bytes)?;
                Ok((blocks * self.0.device.properties().multiprocessors).max(1))
            }
            LoadedCode::Cuda(function) => function.active_clusters(launch),
            LoadedCode::Emulated { emulator, .. } if !emulator.has_room(launch.cluster.iter().product()) => Ok(0),
            LoadedCode::Emulated { .. } | LoadedCode::None => {
                let blocks = launch.cluster.iter().product::<u32>();
                Ok((self.0.device.properties().multiprocessors / blocks).max(1))
            }
        }
    }

    /// Puts the kernel on a stream. On a GPU it runs later; on an emulated device it is done when this returns; on the
    /// stream of a [capture](Device::capture) it runs when the graph is launched.
    ///
    /// A kernel is trusted code, like a foreign function: this checks the launch's shape and the number and sizes of
    /// the arguments, but not what the kernel does with them.
    ///
    /// # Errors
    /// [`Error::Launch`] for a shape or arguments that are not allowed; [`Error::Device`] for a tensor or stream of
    /// another device; [`ExchangeError::ReadOnly`](crate::ExchangeError::ReadOnly) for a read-only tensor to write; on
    /// an emulated device, [`Error::Emulation`] for a fault of the kernel, and [`Error::Races`] for findings of the
    /// race detector, if it is on.
    pub fn launch(&self, launch: &Launch, arguments: &[KernelArgument<'_>], stream: &Stream) -> Result<()> {
        let inner = &*self.0;
        inner.device.require_same(stream.device(), "the stream")?;
        self.check_shape(launch)?;
        let mut addresses: SmallVec<[u64; 16]> = SmallVec::new();
        for argument in arguments {
            if let Some(tensor) = argument.tensor() {
                inner.device.require_same(tensor.device(), "a tensor")?;
                if matches!(argument, KernelArgument::Output(_) | KernelArgument::Writes(_)) {
                    tensor.buffer().require_writable()?;
                }
                addresses.push(tensor.device_address());
            }
        }
        let mut address = addresses.iter();
        let mut values: SmallVec<[&[u8]; 16]> = SmallVec::new();
        for argument in arguments {
            match argument {
                KernelArgument::Input(_) | KernelArgument::Output(_) => {
                    values.extend(address.next().map(bytemuck::bytes_of));
                }
                KernelArgument::Value(bytes) => values.push(bytes),
                KernelArgument::Reads(_) | KernelArgument::Writes(_) => _ = address.next(),
            }
        }
        self.check_arguments(&values)?;
        if let StreamKind::Dry = stream.kind() {
            return Ok(());
        }
        if arguments.iter().filter_map(KernelArgument::tensor).any(|tensor| !tensor.has_memory()) {
            return Err(inner.device.unsupported("use a tensor without memory", "it is for `Device::dry_stream` only"));
        }
        trace::event!(
            TRACE,
            "launch",
            kernel = self.name(),
            device = trace::text(&inner.device),
            grid = trace::debug(launch.grid),
            block = trace::debug(launch.block),
            shared_bytes = launch.shared_bytes
        );
        match (&inner.loaded.code, stream.kind()) {
            (_, StreamKind::Recording(recording)) => recording.add([RecordedLaunch {
                loaded: Arc::clone(&inner.loaded),
                shape: *launch,
                values: values.iter().map(|value| SmallVec::from_slice(value)).collect(),
                uses: arguments.iter().filter_map(KernelArgument::use_of_buffer).collect(),
                _kernel: Arc::clone(&self.0) as Arc<dyn Send + Sync>,
            }]),
            (LoadedCode::Cuda(function), StreamKind::Cuda(on)) => {
                let used: SmallVec<[_; 16]> = arguments.iter().filter_map(KernelArgument::cuda_use).collect();
                let pointers: SmallVec<[*const u8; 16]> = values.iter().map(|v| v.as_ptr()).collect();
                // SAFETY: number and sizes were checked against the PTX's parameters; the tensors' memory is kept
                // until this use is over because it is noted by `order`.
                cuda::order(on, &used, || unsafe { function.launch(launch, &pointers, on) })
            }
            (LoadedCode::Emulated { emulator, module }, _) => {
                let _used = Use::of(arguments.iter().filter_map(KernelArgument::emulated_use));
                emulator.launch(module, &inner.loaded.entry, launch, &values)
            }
            (_, StreamKind::Dry) | (LoadedCode::None, _) => Ok(()),
            (LoadedCode::Cuda(_), StreamKind::Immediate) => Err(inner.device.mismatch(stream.device(), "the stream")),
        }
    }

    /// The limits of every GPU that this crate runs on (CUDA C++ Programming Guide, "Technical Specifications per
    /// Compute Capability").
    fn check_shape(&self, launch: &Launch) -> Result<()> {
        let refuse = |reason: String| Err(Error::Launch { kernel: self.0.loaded.entry.clone(), reason });
        let Launch { grid, block, cluster, shared_bytes, .. } = *launch;
        if [grid, block, cluster].iter().flatten().any(|&n| n == 0) {
            return refuse(format!(
                "grid {grid:?}, block {block:?} and cluster {cluster:?} must be at least 1 everywhere"
            ));
        }
        if grid[0] > i32::MAX as u32 || grid[1] > 65535 || grid[2] > 65535 {
            return refuse(format!("grid {grid:?} is larger than [2147483647, 65535, 65535]"));
        }
        let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
        if threads > 1024 || block[2] > 64 {
            return refuse(format!("block {block:?} has {threads} threads; at most 1024, and 64 along z, are allowed"));
        }
        let blocks = cluster.iter().map(|&n| u64::from(n)).product::<u64>();
        if blocks > 16 || grid.iter().zip(cluster).any(|(g, c)| g % c != 0) {
            return refuse(format!("cluster {cluster:?} must divide grid {grid:?} and have at most 16 blocks"));
        }
        let properties = self.0.device.properties();
        if blocks > 1 && properties.arch.is_some_and(|arch| arch.capability().0 < 9) {
            return refuse(format!("{} has no clusters: they need compute capability 9.0", self.0.device));
        }
        let (limit, fixed) = (properties.shared_bytes_per_block, self.static_shared_bytes().unwrap_or(0));
        if shared_bytes.checked_add(fixed).is_none_or(|sum| sum > limit) {
            return refuse(format!(
                "it asks for {shared_bytes} bytes of shared memory beside its own {fixed}; {} allows {limit}",
                self.0.device
            ));
        }
        Ok(())
    }

    fn check_arguments(&self, values: &[&[u8]]) -> Result<()> {
        let refuse = |reason: String| Err(Error::Launch { kernel: self.0.loaded.entry.clone(), reason });
        let parameters = &self.0.loaded.parameters;
        if values.len() != parameters.len() {
            return refuse(format!("it takes {} arguments, and {} were given", parameters.len(), values.len()));
        }
        for (i, (value, parameter)) in values.iter().zip(parameters).enumerate() {
            if value.len() != parameter.bytes {
                let (given, needed) = (value.len(), parameter.bytes);
                return refuse(format!("its parameter {i} has {needed} bytes, and the argument has {given}"));
            }
        }
        Ok(())
    }
}

/// A kernel that a library keeps with its device ([`Device::kept`]): it has no handle of the device.
#[derive(Clone)]
pub struct KeptKernel {
    device: WeakDevice,
    loaded: Arc<Loaded>,
}

impl Kernel {
    /// The kernel without a handle of its device; `None` for a kernel that reports failures, which are recorded for
    /// this kernel alone.
    #[must_use]
    pub fn kept(&self) -> Option<KeptKernel> {
        let Inner { device, loaded, reports } = &*self.0;
        reports.is_none().then(|| KeptKernel { device: device.downgraded(), loaded: Arc::clone(loaded) })
    }
}

impl KeptKernel {
    /// The kernel; `None` if the last handle of its device is gone.
    #[must_use]
    pub fn attached(&self) -> Option<Kernel> {
        Some(Kernel::new(self.device.upgraded()?, Arc::clone(&self.loaded), None))
    }
}

impl fmt::Debug for KeptKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptKernel({})", self.loaded.entry)
    }
}

impl Drop for Inner {
    /// Collects what its launches still have to report, before the kernel is forgotten.
    fn drop(&mut self) {
        let Some(number) = self.reports else { return };
        if let LoadedCode::Cuda(function) = &self.loaded.code {
            // An error here is one of earlier work, which every later synchronisation reports, too.
            let _ = function.finish();
        }
        self.device.status().forget(number);
    }
}

impl<'a> KernelArgument<'a> {
    fn tensor(&self) -> Option<&'a DeviceTensor> {
        match self {
            Self::Input(t) | Self::Output(t) | Self::Reads(t) | Self::Writes(t) => Some(t),
            Self::Value(_) => None,
        }
    }

    fn access(&self) -> AllocationAccess {
        match self {
            Self::Input(_) | Self::Reads(_) | Self::Value(_) => AllocationAccess::Read,
            Self::Output(_) | Self::Writes(_) => AllocationAccess::Write,
        }
    }

    fn use_of_buffer(&self) -> Option<(Arc<Buffer>, AllocationAccess)> {
        Some((Arc::clone(self.tensor()?.buffer()), self.access()))
    }

    fn emulated_use(&self) -> Option<(&'a EmulatedMemory, bool)> {
        self.tensor()?.buffer().emulated_use(self.access())
    }

    fn cuda_use(&self) -> Option<(&'a cuda::Allocation, AllocationAccess)> {
        match self.tensor()?.buffer().memory() {
            BufferMemory::Cuda(allocation) => Some((allocation, self.access())),
            BufferMemory::Host(_) | BufferMemory::Emulated(_) | BufferMemory::None { .. } => None,
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} on {})", self.0.loaded.entry, self.0.device)
    }
}
