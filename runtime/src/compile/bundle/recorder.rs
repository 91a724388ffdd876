//! Keeps what has been compiled on a bundle's targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::declarations::declarations;
use super::identity::{KernelId, text_of};
use crate::compile::arch::Arch;
use crate::compile::cache::CacheKey;
use crate::compile::nvrtc::CompiledKernel;
use crate::compile::source::{Compiled, Output, Source};
use crate::compile::stored;
use crate::progress::{Activity, Progress};

/// The kernels by their identities.
pub(super) type Kernels = BTreeMap<KernelId, Recorded>;

/// A kernel that was compiled.
pub(super) struct Recorded {
    pub(super) name: String,
    /// Everything that its text was generated from: sources that differ may have one text.
    pub(super) origins: BTreeSet<CacheKey>,
    pub(super) content: Vec<u8>,
}

/// This library's name and version in bundles.
pub(super) fn version() -> &'static str {
    concat!("epilogue ", env!("CARGO_PKG_VERSION"))
}

/// The kernels that have been compiled so far. Cloning gives another handle.
#[derive(Clone, Default)]
pub(super) struct Recording(Arc<Kept>);

#[derive(Default)]
struct Kept {
    kernels: Mutex<Kernels>,
    compiler: OnceLock<String>,
    watcher: Mutex<Option<Watcher>>,
}

/// A callback that hears of every kernel.
type Watcher = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

impl Recording {
    pub(super) fn kernels(&self) -> MutexGuard<'_, Kernels> {
        self.0.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn watch(&self, watcher: Watcher) {
        *self.0.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
    }

    fn tell(&self, activity: Activity, kernel: &str) {
        let watcher = self.0.watcher.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(watcher) = watcher {
            let done = self.kernels().len();
            watcher(Progress::new(activity, kernel, done));
        }
    }

    /// Its makers: this library, and the compiler.
    pub(super) fn made_by(&self) -> String {
        match self.0.compiler.get() {
            Some(compiler) => format!("{}, {compiler}", version()),
            None => version().to_owned(),
        }
    }
}

/// The destination of a target's compiled kernels.
pub(crate) struct Recorder {
    pub(crate) form: Output,
    pub(super) into: Recording,
}

impl Recorder {
    /// Says that a kernel is about to be compiled.
    pub(crate) fn begin(&self, source: &Source) {
        self.into.tell(Activity::Compiling, &source.entry);
    }

    /// Keeps a kernel. `compiler` is the version of NVRTC that compiled it.
    pub(crate) fn keep(&self, source: &Source, arch: Arch, compiled: &Compiled, compiler: (u32, u32)) {
        let ptx = match self.form {
            // With machine code, only the declarations of the PTX are needed, and the whole PTX is several times as
            // long.
            Output::Cubin => declarations(&compiled.ptx),
            Output::Ptx => compiled.ptx.clone(),
        };
        let made = CompiledKernel { cubin: compiled.cubin.clone(), ptx, log: compiled.log.text.clone() };
        let id = KernelId { text: text_of(source), form: self.form, arch };
        self.into.0.compiler.get_or_init(|| format!("NVRTC {}.{}", compiler.0, compiler.1));
        let mut kernels = self.into.kernels();
        let (name, content) = (source.entry.clone(), stored::encode(&made));
        let recorded = kernels.entry(id).or_insert(Recorded { name, origins: BTreeSet::new(), content });
        recorded.origins.extend(source.origin);
        drop(kernels);
        self.into.tell(Activity::Done, &source.entry);
    }
}
