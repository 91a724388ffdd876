//! Compiles a kernel's source, and loads what it was compiled to on a device.

use std::sync::Arc;

use crate::compile::bundle::opened as bundle;
use crate::compile::cache::{CacheKey, KernelCache};
use crate::compile::failure::RECORD_BYTES;
use crate::compile::source::{Compiled, Source};
use crate::device::cuda::{Function, HostRecord};
use crate::device::emulated::EmulatedMemory;
use crate::device::loaded::{Loaded, LoadedCode};
use crate::device::status::{Record, STATUS_VARIABLE};
use crate::device::{Backend, Device};
use crate::error::{Error, Result};
use crate::launch::kernel::Kernel;
use crate::trace;

impl Device {
    /// Compiles a kernel for this device, or takes it from where it was compiled before, and loads it; see
    /// [`compiled`](Self::compiled).
    ///
    /// # Errors
    /// The errors of [`compiled`](Self::compiled) and of [`load`](Self::load).
    pub fn compile(&self, source: &Source) -> Result<Kernel> {
        self.load(self.compiled(source)?, &source.entry)
    }

    /// A source compiled for this device. If the device has [bundles](crate::compile::bundle), the kernel is from those, and
    /// nothing is compiled. Otherwise it is from the disk cache, even if there is no NVRTC any more, or compiled by
    /// NVRTC.
    ///
    /// # Errors
    /// [`Error::NotInBundle`]; [`Absent::Nvrtc`](crate::Absent::Nvrtc); [`Error::Compile`] with the log;
    /// [`Error::Unsupported`] on the CPU, which runs no CUDA.
    pub fn compiled(&self, source: &Source) -> Result<Compiled> {
        let Some((arch, output)) = self.kernel_form() else { return Err(self.runs_no_kernels()) };
        let _span = trace::span!(DEBUG, "compile", kernel = source.entry.as_str(), arch = trace::text(arch));
        let bundles = self.bundles();
        if !bundles.is_empty() {
            let taken = bundle::take(&bundles, source, arch, output);
            match &taken {
                Ok(_) => trace::event!(DEBUG, "bundle hit", kernel = source.entry.as_str()),
                Err(error) => {
                    let reason = trace::text(error);
                    trace::event!(DEBUG, "bundle miss", kernel = source.entry.as_str(), reason = reason);
                }
            }
            return taken;
        }
        if let Backend::Target(recorder) = self.backend() {
            recorder.begin(source);
        }
        let compiled = match self.compiler() {
            Ok(compiler) => compiler.compile(source, arch, output)?,
            Err(Error::Absent(absent)) => {
                let kept = KernelCache::of_user().and_then(|cache| cache.compiled(source, arch, output));
                if kept.is_some() {
                    trace::event!(DEBUG, "cache hit without NVRTC", kernel = source.entry.as_str());
                }
                return kept.ok_or(Error::Absent(absent));
            }
            Err(error) => return Err(error),
        };
        if let Backend::Target(recorder) = self.backend() {
            recorder.keep(source, arch, &compiled, self.compiler()?.version());
        }
        Ok(compiled)
    }

    /// Whether the device's bundles list a kernel of this [origin](Source::origin) that the device can run; `None` if it
    /// has no bundles. No text is compared: [`compiled`](Self::compiled) does that, and refuses a kernel of another text.
    #[must_use]
    pub fn is_listed(&self, origin: CacheKey) -> Option<bool> {
        let bundles = self.bundles();
        let (arch, output) = self.kernel_form().filter(|_| !bundles.is_empty())?;
        Some(bundle::lists(&bundles, origin, arch, output))
    }

    /// Loads the kernel `entry` from something compiled before: machine code for a GPU, PTX for an emulated device.
    ///
    /// # Errors
    /// The driver's errors, for example for machine code of another architecture; [`Error::Launch`] if there is no
    /// kernel of this name; [`Error::Unsupported`] on the CPU.
    pub fn load(&self, compiled: Compiled, entry: &str) -> Result<Kernel> {
        let mut reports = None;
        let mut register = |record: &dyn Fn() -> Result<Record>| -> Result<[u8; 16]> {
            let (number, variable) = self.status().register(&compiled.sites, record)?;
            reports = Some(number);
            Ok(variable)
        };
        let has_sites = !compiled.sites.is_empty();
        let code = match self.backend() {
            Backend::Cuda { gpu, .. } => {
                let function = Function::load(gpu, &compiled.cubin, entry)?;
                if has_sites {
                    let variable = register(&|| HostRecord::new(&gpu.context).map(Record::Cuda))?;
                    function.write_variable(STATUS_VARIABLE, &variable)?;
                }
                LoadedCode::Cuda(function)
            }
            Backend::Emulated(emulator) => {
                let module = emulator.load(&compiled.ptx, entry)?;
                if has_sites {
                    let record = || {
                        EmulatedMemory::zeroed(emulator, RECORD_BYTES, "the record of failures").map(Record::Emulated)
                    };
                    emulator.write_variable(&module, STATUS_VARIABLE, &register(&record)?)?;
                }
                LoadedCode::Emulated { emulator: Arc::clone(emulator), module }
            }
            Backend::Target(_) => LoadedCode::None,
            Backend::Host(_) => return Err(self.runs_no_kernels()),
        };
        Ok(Kernel::new(self.clone(), Arc::new(Loaded::new(entry, compiled, code)?), reports))
    }

    /// One of this crate's own kernels, which reports nothing: it is compiled at its first use, and kept with the
    /// device.
    pub(crate) fn own_kernel(&self, entry: &str, source: impl FnOnce() -> Source) -> Result<Kernel> {
        if let Some(loaded) = self.own_kernels().get(entry) {
            return Ok(Kernel::new(self.clone(), Arc::clone(loaded), None));
        }
        // Other threads may compile it at the same time; then all but one are dropped.
        let kernel = self.compile(&source())?;
        self.own_kernels().insert(entry.to_owned(), Arc::clone(kernel.loaded()));
        Ok(kernel)
    }

    fn runs_no_kernels(&self) -> Error {
        self.unsupported("run CUDA kernels", "use `Device::cuda` or `Device::emulated`")
    }
}
