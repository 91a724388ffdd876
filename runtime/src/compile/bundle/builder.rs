//! Collects the kernels of a bundle, and makes the devices that compile them.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::error::BundleError;
use super::file;
use super::recorder::{Recorder, Recording};
use crate::compile::arch::Arch;
use crate::compile::source::Output;
use crate::compile::trust;
use crate::device::Device;
use crate::device::gpu_model::GpuModel;
use crate::error::Result;
use crate::progress::Progress;
use crate::trace;

/// Collects kernels for a bundle. Cloning gives another handle; targets may be used on several threads.
#[derive(Clone, Default)]
pub struct Builder(Recording);

impl Builder {
    /// A builder without kernels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A device that stands for a GPU. It compiles machine code, which this builder keeps, and does nothing else: its
    /// tensors have shapes but no memory, and launches are only checked.
    ///
    /// Kernels are chosen for exactly this GPU. Another GPU runs them if its architecture does. A device with a bundle
    /// chooses among the bundle's kernels, so give each GPU that you deploy on a target of its own.
    ///
    /// ```
    /// use epilogue_runtime::GpuModel;
    /// use epilogue_runtime::bundle::Builder;
    ///
    /// let builder = Builder::new();
    /// let (h200, rtx) = (builder.target(GpuModel::H200), builder.target("RTX 4090".parse()?));
    /// assert_eq!((h200.properties().multiprocessors, rtx.properties().multiprocessors), (132, 128));
    /// # Ok::<(), epilogue_runtime::ParseGpuModelError>(())
    /// ```
    #[must_use]
    pub fn target(&self, gpu: GpuModel) -> Device {
        Device::of_recorder(gpu, Recorder { form: Output::Cubin, into: self.0.clone() })
    }

    /// A target for [`Device::emulated`], which runs PTX.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an architecture that [`Arch::EMULATED`] does not have.
    pub fn emulated_target(&self, arch: Arch) -> Result<Device> {
        Device::of_emulated_recorder(arch, Recorder { form: Output::Ptx, into: self.0.clone() })
    }

    /// Calls `watcher` before and after every kernel that is compiled on a target, with the number of kernels that the
    /// bundle has by then; of how many, the builder doesn't know. It is called on the thread that compiles.
    ///
    /// ```
    /// use epilogue_runtime::bundle::Builder;
    ///
    /// let builder = Builder::new().on_progress(|progress| eprintln!("{progress}"));
    /// // … plan on targets: "0: compiling bias_gelu_f16_128x128", "1: done with bias_gelu_f16_128x128", …
    /// ```
    #[must_use]
    pub fn on_progress(self, watcher: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        self.0.watch(Arc::new(watcher));
        self
    }

    /// The number of kernels so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.kernels().len()
    }

    /// Whether there are no kernels so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the bundle. Equal kernels give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        file::write(&self.0.made_by(), &self.0.kernels())
    }

    /// Writes the bundle to a file, completely or not at all.
    ///
    /// # Errors
    /// [`BundleError::File`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), BundleError> {
        let path = path.as_ref();
        let _span = trace::span!(DEBUG, "write bundle", path = trace::text(path.display()), kernels = self.len());
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let written =
            trust::write_new(Path::new(&temporary), &self.to_bytes()).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            BundleError::File { path: path.to_owned(), reason: error.to_string() }
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Builder({} kernels)", self.len())
    }
}
