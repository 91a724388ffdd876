//! Tensor maps, which describe a tensor to tensor copies (TMA, from compute capability 9.0 on).

#[cfg(feature = "emulated")]
mod emulated;
mod im2col;
mod tiled;

use std::fmt;

use crate::device::cuda;
use crate::device::{Backend, Device};
use crate::error::{Error, Result};
use crate::tensor::DeviceTensor;

pub use im2col::Im2colMap;
pub use tiled::{L2Promotion, Swizzle, TiledMap};

/// A tensor map, which is passed to a kernel by value: alone, or within a structure at a multiple of 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TensorMap([u8; 128]);

impl TensorMap {
    /// The size of a map in bytes.
    pub const BYTES: usize = 128;

    /// Encodes a map: by the driver for a GPU, in ptx-vm's format for an emulated device.
    ///
    /// # Errors
    /// [`Error::TensorMap`] for what no map can describe; [`Error::Unsupported`] for a device without tensor copies;
    /// the driver's errors.
    pub fn new(map: &TiledMap<'_>) -> Result<Self> {
        let device = supporting(map.tensor)?;
        // If no map can describe it, this says why; the driver doesn't.
        #[cfg(feature = "emulated")]
        let emulated = emulated::encode(map)?;
        let (rank, strides, boxes) = (map.extents.len(), map.strides.len(), map.box_extents.len());
        if !(1..=5).contains(&rank) || strides + 1 != rank || boxes != rank {
            let reason = format!(
                "{rank} extents, {strides} strides and {boxes} extents of a box were given; a map has 1 to 5 dimensions, a \
                 stride for all but the first, and a box of all"
            );
            return Err(Error::TensorMap { reason });
        }
        let by_driver = |context: &_| cuda::tensor_map::encode(context, map);
        #[cfg(feature = "emulated")]
        return Self::encoded(device, map.tensor, by_driver, emulated);
        #[cfg(not(feature = "emulated"))]
        Self::encoded(device, map.tensor, by_driver, [0; Self::BYTES])
    }

    /// Encodes a map in im2col mode, likewise. For tensors under 128 KiB, drivers up to CUDA 13.1 encode a map that
    /// their GPUs read wrongly; that is mended.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn im2col(map: &Im2colMap<'_>) -> Result<Self> {
        let device = supporting(map.tensor)?;
        #[cfg(feature = "emulated")]
        let emulated = emulated::encode_im2col(map)?;
        let (rank, strides, steps) = (map.extents.len(), map.strides.len(), map.steps.len());
        let corners = [map.lower_corner.len(), map.upper_corner.len()];
        if !(3..=5).contains(&rank) || strides + 1 != rank || steps + 2 != rank || corners != [steps; 2] {
            let reason = format!(
                "{rank} extents, {strides} strides, {steps} steps and corners of {} and {} axes were given; a map in im2col \
                 mode has 3 to 5 dimensions, a stride for all but the first, and steps and corners of all but the first and \
                 the last",
                corners[0], corners[1]
            );
            return Err(Error::TensorMap { reason });
        }
        let driver = device.properties().driver_version;
        let by_driver = |context: &_| cuda::tensor_map::encode_im2col(context, map, driver);
        #[cfg(feature = "emulated")]
        return Self::encoded(device, map.tensor, by_driver, emulated);
        #[cfg(not(feature = "emulated"))]
        Self::encoded(device, map.tensor, by_driver, [0; Self::BYTES])
    }

    /// A map of a tensor on a device: as its driver encodes it, or as ptx-vm does.
    fn encoded(
        device: &Device,
        tensor: &DeviceTensor,
        by_driver: impl FnOnce(&cuda::Context) -> Result<[u8; Self::BYTES]>,
        emulated: [u8; Self::BYTES],
    ) -> Result<Self> {
        // Nothing reads the map.
        if !tensor.has_memory() {
            return Ok(Self([0; Self::BYTES]));
        }
        match device.backend() {
            Backend::Cuda { gpu, .. } => Ok(Self(by_driver(&gpu.context)?)),
            #[cfg(feature = "emulated")]
            Backend::Emulated(_) => Ok(Self(emulated)),
            #[cfg(not(feature = "emulated"))]
            Backend::Emulated(none) => {
                let _ = emulated;
                match **none {}
            }
            Backend::Host(_) | Backend::Target(_) => {
                Err(device.unsupported("copy by tensor maps", "use a GPU or an emulated one"))
            }
        }
    }

    /// The bytes that a kernel takes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// The device of a tensor, if it has tensor copies.
fn supporting(tensor: &DeviceTensor) -> Result<&Device> {
    let device = tensor.device();
    if device.arch().is_none_or(|arch| arch.capability().0 < 9) {
        return Err(device.unsupported("copy by tensor maps", "they need compute capability 9.0"));
    }
    Ok(device)
}

impl fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TensorMap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;

    fn map(tensor: &DeviceTensor) -> TiledMap<'_> {
        TiledMap {
            tensor,
            extents: &[64, 32],
            strides: &[128],
            box_extents: &[64, 8],
            swizzle: Swizzle::Bytes128,
            l2_promotion: L2Promotion::default(),
        }
    }

    #[test]
    fn maps_of_emulated_tensors_say_what_they_were_given() {
        let device = Device::emulated(Arch::SM_90A).unwrap();
        let tensor = device.zeros::<half::f16>([32, 64]).unwrap();
        let bytes = TensorMap::new(&map(&tensor)).unwrap();
        let decoded = ptx_vm::numerics::tensor_map::TensorMap::decode(bytes.as_bytes()).unwrap();
        assert_eq!(decoded.address(), tensor.device_address());
    }

    #[test]
    fn what_no_map_can_describe_is_refused() {
        let device = Device::emulated(Arch::SM_90A).unwrap();
        let tensor = device.zeros::<half::f16>([32, 64]).unwrap();
        let refused = |change: &dyn Fn(&mut TiledMap<'_>)| {
            let mut changed = map(&tensor);
            change(&mut changed);
            TensorMap::new(&changed).unwrap_err().to_string()
        };
        let message = refused(&|m| m.strides = &[120]);
        assert_eq!(
            message,
            "no tensor map can describe this: stride 120 of dimension 1 must be a multiple of 16 bytes below 2^40"
        );
        assert!(refused(&|m| m.box_extents = &[64, 257]).contains("between 1 and 256"));
        assert!(refused(&|m| m.box_extents = &[128, 8]).contains("must not exceed 128"));
        assert!(refused(&|m| m.extents = &[64, 0]).contains("between 1 and 2^32"));
        assert!(refused(&|m| m.extents = &[64]).contains("takes 0 strides"));
        let shifted = tensor.slice(1, 1..64).unwrap();
        assert!(TensorMap::new(&TiledMap { tensor: &shifted, ..map(&tensor) }).unwrap_err().to_string().contains("16"));
        for other in [Device::cpu(), Device::emulated(Arch::SM_80).unwrap()] {
            let tensor = other.zeros::<half::f16>([32, 64]).unwrap();
            let refused = TensorMap::new(&map(&tensor)).unwrap_err();
            assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        }
    }

    fn images(tensor: &DeviceTensor) -> Im2colMap<'_> {
        Im2colMap {
            tensor,
            extents: &[64, 9, 14, 4],
            strides: &[128, 128 * 9, 128 * 9 * 14],
            lower_corner: &[-1, -1],
            upper_corner: &[-1, -1],
            steps: &[1, 2],
            channels: 64,
            pixels: 128,
            swizzle: Swizzle::Bytes128,
            l2_promotion: L2Promotion::default(),
        }
    }

    #[test]
    fn maps_of_images_say_what_they_were_given() {
        let device = Device::emulated(Arch::SM_90A).unwrap();
        let tensor = device.zeros::<half::f16>([4, 14, 9, 64]).unwrap();
        assert_eq!(images(&tensor).span(), 2 * 64 * 9 * 14 * 4);
        let bytes = TensorMap::im2col(&images(&tensor)).unwrap();
        let decoded = ptx_vm::numerics::tensor_map::TensorMap::decode(bytes.as_bytes()).unwrap();
        let pixels = decoded.pixel_box().unwrap();
        assert_eq!((decoded.address(), decoded.element_stride(2)), (tensor.device_address(), 2));
        assert_eq!((pixels.lower, pixels.upper, pixels.channels, pixels.pixels), ([-1, -1, 0], [-1, -1, 0], 64, 128));
    }

    #[test]
    fn images_that_no_map_can_describe_are_refused() {
        let device = Device::emulated(Arch::SM_90A).unwrap();
        let tensor = device.zeros::<half::f16>([4, 14, 9, 64]).unwrap();
        let refused = |change: &dyn Fn(&mut Im2colMap<'_>)| {
            let mut changed = images(&tensor);
            change(&mut changed);
            TensorMap::im2col(&changed).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&|m| m.lower_corner = &[-1, -129]),
            "no tensor map can describe this: corner -129 along dimension 2 must be between -128 and 127 in a map of 4 \
             dimensions"
        );
        assert!(refused(&|m| m.steps = &[1, 9]).contains("must be between 1 and 8"));
        assert!(refused(&|m| m.steps = &[1]).contains("element strides"));
        assert!(refused(&|m| m.upper_corner = &[1]).contains("takes 2 upper corners"));
        assert!(refused(&|m| m.pixels = 1025).contains("between 1 and 1024"));
        assert!(refused(&|m| m.channels = 257).contains("between 1 and 256"));
        assert!(refused(&|m| (m.extents, m.strides) = (&[64, 9], &[128])).contains("3 to 5 dimensions"));
        let other = Device::emulated(Arch::SM_80).unwrap();
        let tensor = other.zeros::<half::f16>([4, 14, 9, 64]).unwrap();
        let refused = TensorMap::im2col(&images(&tensor)).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    }
}
