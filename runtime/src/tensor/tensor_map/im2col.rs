//! The contents of a tensor map in im2col mode.

use super::tiled::{L2Promotion, Swizzle};
use crate::tensor::DeviceTensor;

/// The contents of a tensor map in im2col mode (PTX ISA 5.5.4): a copy reads one element of a window at many of its
/// places in images. These places are the rows of the box in shared memory. Dimensions are, in the order of a copy's
/// coordinates, channels, one to three axes (W, H, D), and images; axes have numbers in this order, too.
///
/// ```
/// use epilogue_runtime::{Arch, Device, Im2colMap, L2Promotion, Swizzle, TensorMap};
///
/// // A window of 3x3 with padding of 1 on all sides, over images [N, H, W, C] of 4 x 14 x 9 x 64.
/// let device = Device::emulated(Arch::SM_90A)?;
/// let x = device.zeros::<half::f16>([4, 14, 9, 64])?;
/// let map = TensorMap::im2col(&Im2colMap {
///     tensor: &x,
///     extents: &[64, 9, 14, 4],
///     strides: &[2 * 64, 2 * 64 * 9, 2 * 64 * 9 * 14],
///     lower_corner: &[-1, -1],
///     upper_corner: &[-1, -1],
///     steps: &[1, 1],
///     channels: 64,
///     pixels: 128,
///     swizzle: Swizzle::Bytes128,
///     l2_promotion: L2Promotion::default(),
/// })?;
/// # let _ = map;
/// # Ok::<_, epilogue_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Im2colMap<'a> {
    /// The images: their address, element type, device. Launches of kernels that use the map must name them
    /// ([`KernelArgument::Reads`](crate::KernelArgument::Reads)).
    pub tensor: &'a DeviceTensor,
    /// The extent of each of 3 to 5 dimensions, from 1 to 2^32. Elements outside are read as 0.
    pub extents: &'a [u64],
    /// The strides of dimensions 1 and up, in bytes: multiples of 16 below 2^40.
    pub strides: &'a [u64],
    /// Where the window begins first along each axis: 16 bits with one axis, 8 bits with two, 5 bits with three.
    pub lower_corner: &'a [i32],
    /// Where it begins last, counted from the axis' last index; likewise.
    pub upper_corner: &'a [i32],
    /// How far it moves from one place to the next along each axis, from 1 to 8.
    pub steps: &'a [u32],
    /// Channels that one copy reads at each place, from 1 to 256; a multiple of 16 bytes.
    pub channels: u32,
    /// The number of places that one copy reads, from 1 to 1024.
    pub pixels: u32,
    /// The layout of the box in shared memory: a row for each place.
    pub swizzle: Swizzle,
    /// How much the L2 reads at once.
    pub l2_promotion: L2Promotion,
}

impl Im2colMap<'_> {
    /// The step of every dimension.
    #[cfg(any(feature = "cuda", feature = "emulated"))]
    pub(crate) fn element_strides(&self) -> Vec<u32> {
        std::iter::once(1).chain(self.steps.iter().copied()).chain([1]).collect()
    }

    /// Bytes from the first to behind the last element.
    #[cfg(feature = "cuda")]
    pub(crate) fn span(&self) -> u64 {
        let last = |extent: u64| extent.saturating_sub(1);
        let channels = self.extents.first().map_or(0, |extent| last(*extent));
        let own = (channels + 1).saturating_mul(self.tensor.element_type().size() as u64);
        let further = self.extents.iter().skip(1).zip(self.strides);
        further.fold(own, |sum, (extent, stride)| sum.saturating_add(last(*extent).saturating_mul(*stride)))
    }
}
