//! The elements of tensor maps.

use super::reduction::Element;

/// The element type of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapElement {
    /// `CU_TENSOR_MAP_DATA_TYPE_UINT8`, also for FP8.
    U8,
    /// `UINT16`
    U16,
    /// `UINT32`
    U32,
    /// `INT32`
    S32,
    /// `UINT64`
    U64,
    /// `INT64`
    S64,
    /// `FLOAT16`
    F16,
    /// `FLOAT32`
    F32,
    /// `FLOAT64`
    F64,
    /// `BFLOAT16`
    Bf16,
}

impl MapElement {
    /// Every type, in the order of their codes.
    pub const ALL: [MapElement; 10] = [
        MapElement::U8,
        MapElement::U16,
        MapElement::U32,
        MapElement::S32,
        MapElement::U64,
        MapElement::S64,
        MapElement::F16,
        MapElement::F32,
        MapElement::F64,
        MapElement::Bf16,
    ];

    /// Number of bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            MapElement::U8 => 1,
            MapElement::U16 | MapElement::F16 | MapElement::Bf16 => 2,
            MapElement::U32 | MapElement::S32 | MapElement::F32 => 4,
            MapElement::U64 | MapElement::S64 | MapElement::F64 => 8,
        }
    }

    /// The element type of reducing tensor copies; `None` if there are none for this type.
    pub const fn reduced(self) -> Option<Element> {
        Some(match self {
            MapElement::U8 | MapElement::U16 => return None,
            MapElement::U32 => Element::U32,
            MapElement::S32 => Element::S32,
            MapElement::U64 => Element::U64,
            MapElement::S64 => Element::S64,
            MapElement::F16 => Element::F16,
            MapElement::F32 => Element::F32,
            MapElement::F64 => Element::F64,
            MapElement::Bf16 => Element::Bf16,
        })
    }

    /// Whether NaN fill is allowed.
    pub const fn is_float(self) -> bool {
        matches!(self, MapElement::F16 | MapElement::F32 | MapElement::F64 | MapElement::Bf16)
    }

    /// The bytes of an element outside the tensor, in the first [`bytes`](Self::bytes) of the array.
    pub const fn fill_bytes(self, fill: Fill) -> [u8; 8] {
        match (fill, self) {
            (Fill::Nan, MapElement::F16 | MapElement::Bf16) => [0xff, 0x7f, 0, 0, 0, 0, 0, 0],
            (Fill::Nan, MapElement::F32) => [0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0],
            (Fill::Nan, MapElement::F64) => [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            _ => [0; 8],
        }
    }
}

/// The value of elements outside the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fill {
    /// `CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE`: zeros.
    #[default]
    Zero,
    /// `CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA`: NaN, floating-point types only.
    Nan,
}
