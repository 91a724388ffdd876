//! Tensor maps, which describe a tensor to tensor copies (TMA, from compute capability 9.0 on).

#[cfg(feature = "emulated")]
mod emulated;
mod tiled;

use std::fmt;

use crate::cuda;
use crate::device::Backend;
use crate::error::{Error, Result};

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
        let device = map.tensor.device();
        if device.arch().is_none_or(|arch| arch.capability().0 < 9) {
            return Err(device.unsupported("copy by tensor maps", "they need compute capability 9.0"));
        }
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
        // Nothing reads the map.
        if !map.tensor.has_memory() {
            return Ok(Self([0; Self::BYTES]));
        }
        match device.backend() {
            Backend::Cuda { context, .. } => Ok(Self(cuda::tensor_map::encode(context, map)?)),
            #[cfg(feature = "emulated")]
            Backend::Emulated(_) => Ok(Self(emulated)),
            #[cfg(not(feature = "emulated"))]
            Backend::Emulated(none) => match **none {},
            Backend::Host | Backend::Target(_) => {
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

impl fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TensorMap")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DeviceTensor;
    use crate::{Arch, Device};

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
}
