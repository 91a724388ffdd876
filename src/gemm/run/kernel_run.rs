//! One run of a kernel: its checked arguments, and the values beside them that its parameter takes.

use std::sync::Arc;

use epilogue_runtime::DeviceTensor;

use super::patches::images;
use super::scales::Scales;
use super::variant::Variant;
use super::workspace::{Grid, Places, WorkspaceAddresses};
use crate::Argument;
use crate::evt::ValidTree;
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::placing::Scattered;
use crate::gemm::problem::reading::TensorReading;
use crate::gemm::problem::{OperandView, Problem};

/// Values for the parameter of a launch, beside those of the run.
pub(crate) struct Filling<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) places: &'a Places,
    pub(crate) workspace: WorkspaceAddresses,
    /// Makes room for this number of bytes.
    pub(crate) room: &'a dyn Fn(usize) -> ParameterBytes,
}

/// One run of a kernel, with checked arguments.
pub(crate) struct KernelRun<'a> {
    pub(crate) tree: &'a ValidTree,
    pub(crate) variant: &'a Arc<Variant>,
    pub(crate) problem: Problem,
    pub(crate) a: &'a DeviceTensor,
    /// B of each live accumulator.
    pub(crate) b: &'a [DeviceTensor],
    pub(crate) arguments: &'a [Argument<'a>],
    /// How A is read.
    pub(crate) reading: TensorReading<'a, Patches>,
    /// The scales of the operands' blocks.
    pub(crate) scales: Option<Scales<'a>>,
    /// The index that places the rows of outputs.
    pub(crate) scattered: Option<Scattered<'a>>,
    /// Arguments of the launch's tail.
    pub(crate) of_tail: &'a [Argument<'a>],
}

impl KernelRun<'_> {
    /// A and the kernel's B, as they lie.
    pub(crate) fn operands(&self) -> impl Iterator<Item = OperandView> {
        let patches = self.reading.patches();
        let of_a = patches.map_or_else(|| OperandView::of_a(self.a), |patches| images(self.a, &patches));
        std::iter::once(of_a).chain(self.b.iter().map(OperandView::of_b))
    }

    /// The accumulator of the kernel's B of this place.
    pub(crate) fn accumulator(&self, i: usize) -> usize {
        self.tree.live_accumulators().nth(i).unwrap_or(0)
    }
}
