//! Readers of what comes from outside: PTX, saved schedules, files of compiled kernels or of weights, the macros' input.
//! Whatever stands in
//! it, it is accepted or refused; it never makes the process panic, overflow its stack, or hang.
//!
//! Each [`Target`] is one reader, with texts that it accepts to begin with. Two programs feed the readers: `edited.rs`,
//! in every test run, with random edits of those texts; and the coverage-guided fuzzer in `coverage/`, for hours.

mod readers;
mod seeds;

/// A reader of input that users may take from anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Kernels that ptx-vm parses and decodes.
    Ptx,
    /// Schedules saved as JSON by `te::Schedule::to_json`: what is read is written, read again and lowered.
    Schedule,
    /// Files of compiled kernels. The hash of the index is corrected, so that what lies behind it is reached.
    Bundle,
    /// GGUF files, with their metadata and the values of their tensors.
    Gguf,
    /// Safetensors files with quantised layers of every layout.
    Checkpoint,
    /// The tokens of functions under `#[epilogue]` and `#[elementwise]`, and of closures in `closure!`.
    Macros,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 6] = [Self::Ptx, Self::Schedule, Self::Bundle, Self::Gguf, Self::Checkpoint, Self::Macros];

    /// Its name in lower case, as the fuzzer's folders have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ptx => "ptx",
            Self::Schedule => "schedule",
            Self::Bundle => "bundle",
            Self::Gguf => "gguf",
            Self::Checkpoint => "checkpoint",
            Self::Macros => "macros",
        }
    }

    /// Whether the reader accepts the input. Otherwise it was refused with one of the library's errors.
    ///
    /// # Panics
    /// If the reader panics or breaks a promise: that is the finding.
    #[must_use]
    pub fn accepts(self, input: &[u8]) -> bool {
        match self {
            Self::Ptx => readers::ptx(input),
            Self::Schedule => readers::schedule(input),
            Self::Bundle => readers::bundle(input),
            Self::Gguf => readers::gguf(input),
            Self::Checkpoint => readers::checkpoint(input),
            Self::Macros => readers::macros(input),
        }
    }

    /// Inputs that the reader accepts. Without an NVRTC there are no kernels to make a bundle of, only an empty one.
    ///
    /// # Panics
    /// If one of them can't be made.
    #[must_use]
    pub fn seeds(self) -> Vec<Vec<u8>> {
        match self {
            Self::Ptx => seeds::ptx(),
            Self::Schedule => seeds::schedules(),
            Self::Bundle => seeds::bundles(),
            Self::Gguf => seeds::gguf(),
            Self::Checkpoint => seeds::checkpoints(),
            Self::Macros => seeds::macros(),
        }
    }
}
