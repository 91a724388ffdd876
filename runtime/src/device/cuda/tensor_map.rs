//! Encodes tensor maps in the hardware's format, which only the driver knows.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType_enum as DataType, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as CudaSwizzle,
};

use super::context::Context;
use super::driver::call;
use crate::error::Result;
use crate::layout::element::ElementType;
use crate::tensor::tensor_map::{Im2colMap, L2Promotion, Swizzle, TiledMap};

/// Below this many bytes of a tensor, drivers of up to [`LAST_WRONG`] set a bit that must be 0, in im2col mode
/// (CUTLASS, `copy_traits_sm90_im2col.hpp`: there, too, it is cleared in the encoded map).
const SMALL: u64 = 128 << 10;
const LAST_WRONG: u32 = 13_010;
/// The bit's word, of 64 bits, and its place there.
const WRONG: (usize, u32) = (1, 21);

/// Encodes a map whose lists have been checked.
pub(crate) fn encode(context: &Context, map: &TiledMap<'_>) -> Result<[u8; 128]> {
    let element_strides = vec![1; map.extents.len()];
    let _current = context.bind()?;
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    // SAFETY: a valid place to write to; every list has one entry for every dimension (strides for all but the first),
    // as was checked. The driver notes the address and does not follow it.
    unsafe {
        call!(cuTensorMapEncodeTiled(
            &raw mut encoded,
            data_type(map.tensor.element_type()),
            map.extents.len() as u32,
            map.tensor.device_address() as *mut c_void,
            map.extents.as_ptr(),
            map.strides.as_ptr(),
            map.box_extents.as_ptr(),
            element_strides.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            promotion(map.l2_promotion),
            Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
        ))
    }?;
    Ok(bytemuck::cast(encoded.opaque))
}

/// Encodes a map in im2col mode, by a driver of this version.
pub(crate) fn encode_im2col(context: &Context, map: &Im2colMap<'_>, driver_version: u32) -> Result<[u8; 128]> {
    let element_strides = map.element_strides();
    let _current = context.bind()?;
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    // SAFETY: a valid place to write to. As was checked, every list has one entry for every dimension. (Strides have
    // one for all but the first, corners for all but the first and the last.) The driver notes the address and does not
    // follow it.
    unsafe {
        call!(cuTensorMapEncodeIm2col(
            &raw mut encoded,
            data_type(map.tensor.element_type()),
            map.extents.len() as u32,
            map.tensor.device_address() as *mut c_void,
            map.extents.as_ptr(),
            map.strides.as_ptr(),
            map.lower_corner.as_ptr(),
            map.upper_corner.as_ptr(),
            map.channels,
            map.pixels,
            element_strides.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            promotion(map.l2_promotion),
            Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
        ))
    }?;
    let mut words: [u64; 16] = bytemuck::cast(encoded.opaque);
    if map.span() < SMALL && driver_version <= LAST_WRONG {
        words[WRONG.0] &= !(1 << WRONG.1);
    }
    Ok(bytemuck::cast(words))
}

const fn swizzle(swizzle: Swizzle) -> CudaSwizzle {
    match swizzle {
        Swizzle::None => CudaSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => CudaSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => CudaSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => CudaSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

const fn promotion(promotion: L2Promotion) -> Promotion {
    match promotion {
        L2Promotion::None => Promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        L2Promotion::Bytes128 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        L2Promotion::Bytes256 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}

const fn data_type(element: ElementType) -> DataType {
    match element {
        ElementType::F64 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        ElementType::F32 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        ElementType::BF16 => DataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        ElementType::F16 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        ElementType::I64 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
        ElementType::I32 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        ElementType::U64 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        ElementType::U32 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        // There is no type of signed integers of 16 bits.
        ElementType::U16 | ElementType::I16 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        ElementType::F8E4M3 | ElementType::F8E5M2 | ElementType::I8 | ElementType::U8 | ElementType::Bool => {
            DataType::CU_TENSOR_MAP_DATA_TYPE_UINT8
        }
    }
}
