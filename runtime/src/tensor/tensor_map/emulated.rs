//! Encodes tensor maps in ptx-vm's format.

use ptx_vm::numerics::im2col::Im2col;
use ptx_vm::numerics::swizzle::Swizzle as EmulatedSwizzle;
use ptx_vm::numerics::tensor_map::{Fill, MapElement, TensorMap as EmulatedMap, Tiled};

use super::im2col::Im2colMap;
use super::tiled::{Swizzle, TiledMap};
use crate::error::{Error, Result};
use crate::layout::element::ElementType;

/// # Errors
/// [`Error::TensorMap`] for what no map can describe.
pub(super) fn encode(map: &TiledMap<'_>) -> Result<[u8; super::TensorMap::BYTES]> {
    let encoded = EmulatedMap::new(&Tiled {
        element: map_element(map.tensor.element_type()),
        address: map.tensor.device_address(),
        sizes: map.extents,
        strides: map.strides,
        box_sizes: map.box_extents,
        element_strides: &vec![1; map.extents.len()],
        swizzle: emulated_swizzle(map.swizzle),
        fill: Fill::Zero,
    });
    encoded.map(|map| map.to_bytes()).map_err(|refusal| Error::TensorMap { reason: refusal.to_string() })
}

/// # Errors
/// [`Error::TensorMap`] for what no map in im2col mode can describe.
pub(super) fn encode_im2col(map: &Im2colMap<'_>) -> Result<[u8; super::TensorMap::BYTES]> {
    let encoded = EmulatedMap::encode_im2col(&Im2col {
        element: map_element(map.tensor.element_type()),
        address: map.tensor.device_address(),
        sizes: map.extents,
        strides: map.strides,
        lower_corner: map.lower_corner,
        upper_corner: map.upper_corner,
        channels_per_pixel: map.channels,
        pixels_per_column: map.pixels,
        element_strides: &map.element_strides(),
        swizzle: emulated_swizzle(map.swizzle),
        fill: Fill::Zero,
    });
    encoded.map_err(|refusal| Error::TensorMap { reason: refusal.to_string() })
}

/// Tensor copies move bits, so FP8 is moved as bytes.
const fn map_element(element: ElementType) -> MapElement {
    match element {
        ElementType::F64 => MapElement::F64,
        ElementType::F32 => MapElement::F32,
        ElementType::BF16 => MapElement::Bf16,
        ElementType::F16 => MapElement::F16,
        ElementType::I64 => MapElement::S64,
        ElementType::I32 => MapElement::S32,
        ElementType::U64 => MapElement::U64,
        ElementType::U32 => MapElement::U32,
        // There is no type of signed integers of 16 bits.
        ElementType::U16 | ElementType::I16 => MapElement::U16,
        ElementType::F8E4M3 | ElementType::F8E5M2 | ElementType::I8 | ElementType::U8 | ElementType::Bool => {
            MapElement::U8
        }
    }
}

const fn emulated_swizzle(swizzle: Swizzle) -> EmulatedSwizzle {
    match swizzle {
        Swizzle::None => EmulatedSwizzle::None,
        Swizzle::Bytes32 => EmulatedSwizzle::Bytes32,
        Swizzle::Bytes64 => EmulatedSwizzle::Bytes64,
        Swizzle::Bytes128 => EmulatedSwizzle::Bytes128,
    }
}
