//! Images whose patches A is, as kernels take them.

use epilogue_runtime::DeviceTensor;

use crate::gemm::problem::OperandView;
use crate::gemm::problem::patches::Patches;

/// The images as kernels take them: strides of images, of channels and of their groups.
pub(crate) fn images(x: &DeviceTensor, patches: &Patches) -> OperandView {
    let [m, k] = patches.extents();
    OperandView {
        address: x.device_address(),
        element: x.element_type(),
        outer_extent: m,
        k_extent: k,
        batch_extent: patches.groups,
        outer: patches.image,
        k: patches.channel,
        batch: if patches.groups > 1 { patches.group() } else { 0 },
    }
}
