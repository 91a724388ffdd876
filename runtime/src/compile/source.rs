//! Sources of kernels, and what they are compiled to.

use crate::compile::cache::CacheKey;
use crate::compile::failure::Site;

/// One kernel's CUDA C++, complete: no include path is searched.
/// `#line` directives in `code` name the user's own files; messages about the kernel then do so too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its name in messages.
    pub name: String,
    /// CUDA C++17.
    pub code: String,
    /// The kernel's symbol, declared `extern "C" __global__`.
    pub entry: String,
    /// Further options for NVRTC, such as `--use_fast_math` or `--maxrregcount=128`. The architecture, the language and
    /// line information are already set.
    pub options: Vec<String>,
    /// The places where the kernel may fail because of data, if it reports failures through a variable
    /// [`STATUS_VARIABLE`].
    ///
    /// [`STATUS_VARIABLE`]: crate::STATUS_VARIABLE
    pub sites: Vec<Site>,
    /// The hash of what the text was generated from. A [bundle](crate::compile::bundle) lists it, so that a generator can
    /// ask for a kernel before it writes the text ([`Device::is_listed`](crate::Device::is_listed)).
    pub origin: Option<CacheKey>,
}

impl Source {
    /// A source without further options.
    #[must_use]
    pub fn new(name: impl Into<String>, entry: impl Into<String>, code: impl Into<String>) -> Self {
        let (name, code, entry) = (name.into(), code.into(), entry.into());
        Self { name, code, entry, options: Vec::new(), sites: Vec::new(), origin: None }
    }

    /// The same source with one more option.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }
}

/// The form that a compilation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Output {
    /// Machine code for one architecture, with the PTX that it was assembled from.
    Cubin,
    /// PTX only.
    Ptx,
}

/// The result of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code (an ELF file); empty when only PTX was asked for.
    pub cubin: Vec<u8>,
    /// PTX, as NVRTC wrote it. For machine code from a [`Bundle`](crate::compile::bundle::Bundle), only the kernels'
    /// declarations.
    pub ptx: String,
    /// The log; for machine code it has the kernels' resources.
    pub log: crate::CompileLog,
    /// The source's [`sites`](Source::sites).
    pub sites: Vec<Site>,
    /// Whether it came from the disk cache, or from a bundle.
    pub cached: bool,
}
