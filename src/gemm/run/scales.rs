//! The block scales of a run.

use epilogue_runtime::DeviceTensor;

/// The scales of A, and of each B that the kernel multiplies by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales<'a> {
    pub(crate) a: &'a DeviceTensor,
    pub(crate) b: &'a [&'a DeviceTensor],
}

impl<'a> Scales<'a> {
    pub(crate) fn tensors(self) -> impl Iterator<Item = &'a DeviceTensor> {
        std::iter::once(self.a).chain(self.b.iter().copied())
    }
}
