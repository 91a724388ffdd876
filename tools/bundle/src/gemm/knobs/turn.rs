//! A turned knob.

use epilogue::gemm::Builder;

/// A kernel that differs from another in one knob.
pub(super) struct Turn {
    pub(super) knob: &'static str,
    pub(super) value: String,
    /// Turns the knob of a plan, and fixes the others.
    pub(super) turned: Box<dyn Fn(Builder) -> Builder>,
}
