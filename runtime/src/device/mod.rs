//! Devices. Files are named after what a device makes: streams (`stream`), tensors (`create`), kernels (`load`).

pub(crate) mod cpu_level;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "no_cuda/mod.rs"]
pub(crate) mod cuda;
pub(crate) mod describe;
#[cfg(feature = "emulated")]
pub(crate) mod emulated;
#[cfg(not(feature = "emulated"))]
#[path = "no_emulator.rs"]
pub(crate) mod emulated;
pub(crate) mod gpu_model;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod loaded;
pub(crate) mod properties;
pub(crate) mod rates;
pub(crate) mod status;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use crate::compile::arch::Arch;
use crate::compile::bundle::opened::Bundle;
use crate::compile::bundle::recorder::Recorder;
use crate::compile::compiler::Compiler;
use crate::compile::source::Output;
use crate::device::cpu_level::CpuLevel;
use crate::device::cuda::{CudaStream, Gpu};
use crate::device::emulated::Emulator;
use crate::device::gpu_model::GpuModel;
use crate::device::loaded::Loaded;
use crate::device::properties::Properties;
use crate::device::status::{SeenFailures, Status};
use crate::error::{Absent, Error, Result};
use crate::trace;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU, through the CUDA driver.
    Cuda {
        /// The driver's number of the GPU.
        ordinal: usize,
    },
    /// This computer's CPU.
    Cpu,
    /// A GPU of the given architecture, executed by ptx-vm on the CPU.
    Emulated {
        /// The architecture.
        arch: Arch,
    },
    /// A target of a [bundle](crate::compile::bundle): it compiles, and runs nothing.
    Target {
        /// The architecture that it compiles for.
        arch: Arch,
    },
}

/// A device that has tensors and runs kernels: a GPU, this computer's CPU, or an emulated GPU.
///
/// ```
/// use epilogue_runtime::{Arch, Device, DeviceKind};
///
/// let device = Device::cpu(); // `Device::best()?` takes the first GPU, where there is one
/// assert_eq!((device.kind(), device.to_string().as_str()), (DeviceKind::Cpu, "the CPU"));
/// let x = device.tensor(&[1.0f32, 2.0], [2])?;
///
/// // A GPU that need not be there: its kernels run on the CPU, slowly, with every access checked.
/// let emulated = Device::emulated(Arch::SM_80)?;
/// let copy = x.copy_to(&emulated)?;
/// assert_eq!((copy.device(), copy.to_vec::<f32>()?), (&emulated, vec![1.0, 2.0]));
/// # Ok::<(), epilogue_runtime::Error>(())
/// ```
///
/// It is a cheap handle, which can be cloned and sent to other threads.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    kind: DeviceKind,
    properties: Properties,
    backend: Backend,
    compiler: OnceLock<Compiler>,
    /// This crate's own kernels, by their symbols.
    own_kernels: Mutex<BTreeMap<String, Arc<Loaded>>>,
    /// The bundles that kernels come from. Without any, they are compiled.
    bundles: RwLock<Arc<[Bundle]>>,
    /// Values that other libraries keep with the device, by their types.
    kept: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    status: Status,
    /// The failures that [`Device::check`] has reported.
    checked: SeenFailures,
    /// The failures that the default stream has reported.
    synchronized: Arc<SeenFailures>,
}

/// The part of a device that runs the work.
pub(crate) enum Backend {
    /// This computer's CPU, with the instructions of a level.
    Host(CpuLevel),
    Cuda {
        gpu: &'static Gpu,
        stream: Arc<CudaStream>,
    },
    #[cfg_attr(not(feature = "emulated"), allow(dead_code, reason = "there is none"))]
    Emulated(Arc<Emulator>),
    /// Nothing runs; compiled kernels are kept.
    Target(Recorder),
}

impl Device {
    /// This computer's CPU, with all its vector instructions. Work on it is done when the call returns.
    #[must_use]
    pub fn cpu() -> Self {
        static CPU: LazyLock<Device> = LazyLock::new(|| Device::at_level(CpuLevel::highest()));
        CPU.clone()
    }

    /// This computer's CPU with the vector instructions of a level and no others, to reproduce the results of another
    /// computer. Tensors of other levels are on other devices: [copy](crate::DeviceTensor::copy_to) them. All handles of one
    /// level are equal; those of the [highest](CpuLevel::highest) are equal to [`cpu`](Self::cpu).
    ///
    /// The sizes of the caches decide how K is divided in large products of f64s. At the levels
    /// [`Baseline`](CpuLevel::Baseline) and [`Neon`](CpuLevel::Neon), this holds for f32s, too.
    ///
    /// # Errors
    /// [`Error::CpuLevel`] for a level that this CPU doesn't have.
    pub fn cpu_with(level: CpuLevel) -> Result<Self> {
        static LEVELS: Mutex<BTreeMap<CpuLevel, Device>> = Mutex::new(BTreeMap::new());
        let available = CpuLevel::available();
        if !available.contains(&level) {
            return Err(Error::CpuLevel { given: level, available });
        }
        if level == CpuLevel::highest() {
            return Ok(Self::cpu());
        }
        let mut levels = LEVELS.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(levels.entry(level).or_insert_with(|| Self::at_level(level)).clone())
    }

    fn at_level(level: CpuLevel) -> Self {
        Self::with(DeviceKind::Cpu, host::properties(), Backend::Host(level))
    }

    /// The vector instructions that work on this device uses; `None` for other devices than the CPU.
    #[must_use]
    pub fn cpu_level(&self) -> Option<CpuLevel> {
        match self.backend() {
            Backend::Host(level) => Some(*level),
            Backend::Cuda { .. } | Backend::Emulated(_) | Backend::Target(_) => None,
        }
    }

    /// The GPU with the number `ordinal` in the CUDA driver. All handles of one GPU are equal.
    ///
    /// # Errors
    /// [`Absent::Driver`](crate::Absent::Driver), [`Absent::Device`](crate::Absent::Device);
    /// [`Absent::Feature`](crate::Absent::Feature) in a program without the feature `cuda`.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        static GPUS: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = gpus.get(&ordinal) {
            return Ok(device.clone());
        }
        let gpu = Gpu::get(ordinal)?;
        let stream = Arc::clone(gpu.default_stream()?);
        let kind = DeviceKind::Cuda { ordinal };
        let device = Self::with(kind, gpu.context.properties.clone(), Backend::Cuda { gpu, stream });
        gpus.insert(ordinal, device.clone());
        Ok(device)
    }

    /// The first GPU if there is one, else this computer's CPU; never an emulated device.
    ///
    /// A driver that is there and does not begin, as after an update without a restart, counts as no GPU: an event of the
    /// feature `tracing` says so, and [`best_with_reason`](Self::best_with_reason) gives the reason.
    ///
    /// # Errors
    /// A GPU that exists but fails. A missing driver or GPU is not an error: then it is the CPU.
    pub fn best() -> Result<Self> {
        Self::best_with_reason().map(|(device, _)| device)
    }

    /// [`best`](Self::best), and why it is not a GPU if it is not.
    ///
    /// ```
    /// use epilogue_runtime::{Device, DeviceKind};
    ///
    /// let (device, reason) = Device::best_with_reason()?;
    /// if let Some(reason) = &reason {
    ///     eprintln!("computing on {device}: {reason}");
    /// }
    /// assert_eq!(reason.is_some(), device.kind() == DeviceKind::Cpu);
    /// # Ok::<(), epilogue_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// A GPU that exists but fails.
    pub fn best_with_reason() -> Result<(Self, Option<Absent>)> {
        match Self::cuda(0) {
            Err(Error::Absent(absent)) => {
                trace::event!(INFO, "there is no GPU: the CPU is taken", reason = trace::text(&absent));
                Ok((Self::cpu(), Some(absent)))
            }
            found => found.map(|device| (device, None)),
        }
    }

    /// A GPU of the given architecture, executed by ptx-vm on the CPU. It is slow, and checks every access: those that
    /// are out of bounds, misaligned or of memory that was never written are errors. Every call makes a new device,
    /// with its own memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for architectures that [`Arch::EMULATED`] does not have.
    #[cfg(feature = "emulated")]
    pub fn emulated(arch: Arch) -> Result<Self> {
        Self::emulated_with(arch, ptx_vm::Options::default())
    }

    /// [`emulated`](Self::emulated) with ptx-vm's options (their architecture is ignored): the race detector, whose
    /// findings make the launch fail, the tensor cores' arithmetic, the order of asynchronous work.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for architectures that [`Arch::EMULATED`] does not have.
    #[cfg(feature = "emulated")]
    pub fn emulated_with(arch: Arch, options: ptx_vm::Options) -> Result<Self> {
        let emulator = Arc::new(Emulator::new(arch, options)?);
        let kind = DeviceKind::Emulated { arch };
        let properties = Properties { name: format!("emulated {arch}"), ..emulated_model(arch).properties() };
        Ok(Self::with(kind, properties, Backend::Emulated(emulator)))
    }

    /// The ptx-vm machine of an emulated device.
    #[cfg(feature = "emulated")]
    #[must_use]
    pub fn emulator(&self) -> Option<&ptx_vm::Machine> {
        match &self.0.backend {
            Backend::Emulated(emulator) => Some(&emulator.machine),
            Backend::Host(_) | Backend::Cuda { .. } | Backend::Target(_) => None,
        }
    }

    /// On an emulated device, makes `module` run instead of kernels with this name, so that a test can see what a wrong
    /// kernel does; `None` ends this.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on any other device.
    #[cfg(feature = "emulated")]
    pub fn substitute(&self, kernel: &str, module: Option<ptx_vm::Module>) -> Result<()> {
        match &self.0.backend {
            Backend::Emulated(emulator) => {
                emulator.substitute(kernel, module);
                Ok(())
            }
            Backend::Host(_) | Backend::Cuda { .. } | Backend::Target(_) => {
                Err(self.unsupported("substitute kernels", "use `Device::emulated`"))
            }
        }
    }

    fn with(kind: DeviceKind, properties: Properties, backend: Backend) -> Self {
        let status = Status::default();
        let (checked, synchronized) = (status.seen(), Arc::new(status.seen()));
        let (compiler, own_kernels, kept) = Default::default();
        let bundles = RwLock::new(Arc::from([]));
        let inner =
            Inner { kind, properties, backend, compiler, own_kernels, bundles, kept, status, checked, synchronized };
        Self(Arc::new(inner))
    }

    /// A target of a bundle.
    pub(crate) fn of_recorder(model: GpuModel, recorder: Recorder) -> Self {
        Self::with(DeviceKind::Target { arch: model.arch() }, model.properties(), Backend::Target(recorder))
    }

    /// A target of a bundle for emulated devices.
    pub(crate) fn of_emulated_recorder(arch: Arch, recorder: Recorder) -> Result<Self> {
        if !Arch::EMULATED.contains(&arch) {
            return Err(not_emulated(arch));
        }
        Ok(Self::of_recorder(emulated_model(arch), recorder))
    }

    /// The architecture and form to which kernels must be compiled to run here; `None` on the CPU, which runs none.
    pub(crate) fn kernel_form(&self) -> Option<(Arch, Output)> {
        let form = match self.backend() {
            Backend::Host(_) => return None,
            Backend::Cuda { .. } => Output::Cubin,
            Backend::Emulated(_) => Output::Ptx,
            Backend::Target(recorder) => recorder.form,
        };
        Some((self.arch()?, form))
    }

    pub(crate) fn add_bundle(&self, bundle: Bundle) {
        let mut bundles = self.0.bundles.write().unwrap_or_else(PoisonError::into_inner);
        *bundles = bundles.iter().cloned().chain([bundle]).collect();
    }

    /// The bundles that it takes its kernels from, in the order in which they were installed. If there are none,
    /// kernels are compiled.
    #[must_use]
    pub fn bundles(&self) -> Arc<[Bundle]> {
        Arc::clone(&self.0.bundles.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A value that a library keeps with this device, as long as there is a handle of the device: one value of every
    /// type, created at the first call. (Threads that call it at once may each create one; one of these is kept.) It
    /// must not have a handle of the device, or neither is ever freed.
    #[must_use]
    pub fn kept<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let kept = || self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept().get(&TypeId::of::<T>()).map(Arc::clone);
        // Made without the lock: its default may ask for what else is kept.
        let value = found.unwrap_or_else(|| {
            let made: Arc<dyn Any + Send + Sync> = Arc::new(T::default());
            let first = Arc::clone(kept().entry(TypeId::of::<T>()).or_insert_with(|| Arc::clone(&made)));
            // (One that is not kept is dropped without the lock, too.)
            drop(made);
            first
        });
        // It was stored under exactly this type.
        value.downcast().unwrap_or_default()
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// This crate's own kernels that have been loaded.
    pub(crate) fn own_kernels(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Loaded>>> {
        self.0.own_kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> &Status {
        &self.0.status
    }

    /// The failures that the default stream has reported.
    pub(crate) fn synchronized(&self) -> &Arc<SeenFailures> {
        &self.0.synchronized
    }

    /// Checks whether, since the last call, a kernel has met data that it can't use. It doesn't wait: a kernel that is
    /// still running has not failed yet. It costs one read of the host's memory.
    ///
    /// # Errors
    /// [`Error::Data`] with the newest failure. Every stream and tensor of the device reports it as well, at the next
    /// [`Stream::synchronize`](crate::Stream::synchronize) or reading back.
    pub fn check(&self) -> Result<()> {
        self.0.status.report(&self.0.checked)
    }

    /// The kind of the device.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.0.kind
    }

    /// The properties of the device.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// The architecture to compile kernels for; `None` on the CPU, which runs none.
    #[must_use]
    pub fn arch(&self) -> Option<Arch> {
        self.0.properties.arch
    }

    /// The compiler that [`compile`](Self::compile) uses, which is looked for at the first call.
    ///
    /// # Errors
    /// [`Absent::Nvrtc`](crate::Absent::Nvrtc) with the places searched.
    pub fn compiler(&self) -> Result<&Compiler> {
        if let Some(compiler) = self.0.compiler.get() {
            return Ok(compiler);
        }
        let found = Compiler::find()?;
        Ok(self.0.compiler.get_or_init(|| found))
    }

    pub(crate) fn unsupported(&self, operation: &'static str, advice: &'static str) -> Error {
        Error::Unsupported { device: self.to_string(), operation, advice }
    }

    /// [`Error::Device`] unless `given` is this device.
    pub(crate) fn require_same(&self, given: &Self, what: &'static str) -> Result<()> {
        if self == given { Ok(()) } else { Err(self.mismatch(given, what)) }
    }

    pub(crate) fn mismatch(&self, given: &Self, what: &'static str) -> Error {
        Error::Device { what, given: given.to_string(), needed: self.to_string() }
    }
}

/// The GPU that an emulated device of an architecture stands for.
fn emulated_model(arch: Arch) -> GpuModel {
    GpuModel::of_capability(arch.capability()).unwrap_or(GpuModel::A100)
}

/// The refusal of an emulated device.
fn not_emulated(arch: Arch) -> Error {
    Error::Unsupported {
        device: format!("an emulated {arch}"),
        operation: "run kernels",
        advice: "use one of `Arch::EMULATED`: sm_80, sm_86, sm_87, sm_89, sm_90a, sm_100a, sm_120a, sm_121a",
    }
}

/// A handle that doesn't keep the device alive.
#[derive(Clone)]
pub(crate) struct WeakDevice(Weak<Inner>);

impl WeakDevice {
    pub(crate) fn upgraded(&self) -> Option<Device> {
        self.0.upgrade().map(Device)
    }
}

impl Device {
    pub(crate) fn downgraded(&self) -> WeakDevice {
        WeakDevice(Arc::downgrade(&self.0))
    }
}

/// Handles are equal if they are of the same device: then tensors of one are valid on the other.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            DeviceKind::Cuda { ordinal } => write!(f, "CUDA device {ordinal} ({})", self.0.properties.name),
            DeviceKind::Cpu => match self.cpu_level() {
                Some(level) if level != CpuLevel::highest() => write!(f, "the CPU with {level}"),
                _ => f.write_str("the CPU"),
            },
            DeviceKind::Emulated { arch } => write!(f, "an emulated {arch}"),
            DeviceKind::Target { arch } => match self.0.backend {
                Backend::Target(Recorder { form: Output::Ptx, .. }) => {
                    write!(f, "a bundle's target, an emulated {arch}")
                }
                _ => write!(f, "a bundle's target {arch}"),
            },
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::source::Source;
    use crate::launch::stream::Stream;

    #[test]
    fn the_cpu_is_one_device_and_runs_no_kernels() {
        let cpu = Device::cpu();
        assert_eq!(cpu, Device::cpu());
        assert_eq!((cpu.kind(), cpu.arch()), (DeviceKind::Cpu, None));
        assert!(cpu.properties().multiprocessors > 0);
        let refused = cpu.compile(&Source::new("k.cu", "k", "")).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        // SAFETY: nothing is borrowed: the device is not a GPU.
        let refused = unsafe { Stream::borrow(&cpu, std::ptr::null_mut()) }.unwrap_err();
        assert_eq!(refused.to_string(), "the CPU can't borrow a CUDA stream: use `default_stream` or `new_stream`");
    }

    /// A value may ask for another one while it is made.
    #[test]
    fn what_is_kept_is_made_without_a_lock() {
        #[derive(Default)]
        struct Inner(usize);
        struct Outer(Arc<Inner>);
        impl Default for Outer {
            fn default() -> Self {
                Self(Device::cpu().kept::<Inner>())
            }
        }
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let cpu = Device::cpu();
            let outer = cpu.kept::<Outer>();
            let is_one = Arc::ptr_eq(&outer, &cpu.kept()) && Arc::ptr_eq(&outer.0, &cpu.kept());
            done.send((is_one, outer.0.0)).unwrap();
        });
        assert_eq!(is_done.recv_timeout(std::time::Duration::from_secs(60)), Ok((true, 0)));
    }

    /// On a machine without a GPU this shows that absence is a value; on one with a GPU, that it is found.
    #[test]
    fn an_absent_gpu_is_an_error_not_a_panic() {
        match Device::cuda(0) {
            Ok(gpu) => assert_eq!(Device::best().unwrap(), gpu),
            Err(Error::Absent(absent)) => {
                assert!(!absent.to_string().is_empty());
                assert_eq!(Device::best().unwrap(), Device::cpu());
            }
            Err(other) => panic!("{other}"),
        }
        assert!(matches!(Device::cuda(usize::MAX), Err(Error::Absent(_))));
    }

    #[test]
    fn events_measure_time() {
        let cpu = Device::cpu();
        let stream = cpu.new_stream().unwrap();
        let start = stream.record().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let end = stream.record().unwrap();
        stream.wait(&end).unwrap();
        stream.synchronize().unwrap();
        assert!(start.elapsed_ms(&end).unwrap() >= 2.0);
        assert!(stream.cuda_handle().is_none());
    }
}
