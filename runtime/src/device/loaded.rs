//! A loaded kernel, as its device keeps it.

use std::sync::Arc;

use crate::compile::ptx_signature::{Parameter, parameters};
use crate::compile::source::Compiled;
use crate::device::cuda::Function;
use crate::device::emulated::{Emulator, Module};
use crate::error::{Error, Result};

/// A kernel that has been loaded, without the device, which may keep it.
pub(crate) struct Loaded {
    /// Its symbol.
    pub(crate) entry: String,
    pub(crate) compiled: Compiled,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) code: LoadedCode,
}

/// The code that runs.
pub(crate) enum LoadedCode {
    Cuda(Function),
    Emulated {
        emulator: Arc<Emulator>,
        module: Module,
    },
    /// Nothing: the device is a bundle's target.
    None,
}

impl Loaded {
    pub(crate) fn new(entry: &str, compiled: Compiled, code: LoadedCode) -> Result<Self> {
        let parameters = parameters(&compiled.ptx, entry).ok_or_else(|| Error::Launch {
            kernel: entry.to_owned(),
            reason: "the source has no kernel of this name (declare it `extern \"C\" __global__`)".to_owned(),
        })?;
        Ok(Self { entry: entry.to_owned(), compiled, parameters, code })
    }
}
