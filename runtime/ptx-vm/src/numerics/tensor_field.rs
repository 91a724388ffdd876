//! The fields of a tensor map, as `tensormap.replace` names them (PTX ISA §9.7.9.28).

/// The largest number of dimensions.
pub const MAXIMUM_RANK: usize = 5;

/// A field of a tensor map. Dimensions count from 0, the contiguous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapField {
    /// `.global_address`: the tensor's address.
    GlobalAddress,
    /// `.rank`: the number of dimensions minus one.
    Rank,
    /// `.box_dim`: the number of the box's elements in a dimension.
    BoxDim(usize),
    /// `.global_dim`: the number of the tensor's elements in a dimension.
    GlobalDim(usize),
    /// `.global_stride`: bytes between successive indices of the dimension after this one.
    GlobalStride(usize),
    /// `.element_stride`: the step of the box in a dimension.
    ElementStride(usize),
    /// `.elemtype`: a number from the ISA's table of types.
    ElementType,
    /// `.interleave_layout`: only 0, none, is supported.
    Interleave,
    /// `.swizzle_mode`: 0 none, 1 of 32 bytes, 2 of 64 bytes, 3 of 128 bytes.
    SwizzleMode,
    /// `.swizzle_atomicity`: only 0, 16 bytes, is supported.
    SwizzleAtomicity,
    /// `.fill_mode`: 0 zeros, 1 NaN.
    FillMode,
}

impl MapField {
    /// The field of this name, without a dimension.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "global_address" => Self::GlobalAddress,
            "rank" => Self::Rank,
            "box_dim" => Self::BoxDim(0),
            "global_dim" => Self::GlobalDim(0),
            "global_stride" => Self::GlobalStride(0),
            "element_stride" => Self::ElementStride(0),
            "elemtype" => Self::ElementType,
            "interleave_layout" => Self::Interleave,
            "swizzle_mode" => Self::SwizzleMode,
            "swizzle_atomicity" => Self::SwizzleAtomicity,
            "fill_mode" => Self::FillMode,
            _ => return None,
        })
    }

    /// The field for a dimension, if it has dimensions; `None` if the dimension is out of range.
    pub fn of_dimension(self, dimension: usize) -> Option<Self> {
        let limit = if matches!(self, Self::GlobalStride(_)) { MAXIMUM_RANK - 1 } else { MAXIMUM_RANK };
        (dimension < limit).then_some(match self {
            Self::BoxDim(_) => Self::BoxDim(dimension),
            Self::GlobalDim(_) => Self::GlobalDim(dimension),
            Self::GlobalStride(_) => Self::GlobalStride(dimension),
            Self::ElementStride(_) => Self::ElementStride(dimension),
            other => other,
        })
    }

    /// Whether the instruction names a dimension of this field.
    pub const fn has_dimension(self) -> bool {
        matches!(self, Self::BoxDim(_) | Self::GlobalDim(_) | Self::GlobalStride(_) | Self::ElementStride(_))
    }

    /// Whether its values have 64 bits instead of 32.
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::GlobalAddress | Self::GlobalStride(_))
    }
}
