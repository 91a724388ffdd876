//! How weights are quantised: the type of their codes, and what a group of codes shares.
//!
//! A weight is `scale · (code - zero point)`. Codes lie along K, for each column of B (an output feature) by themselves.
//! This is a [`Format`](super::format::Format): codes are no elements of a tensor, and a product has A's element type on
//! both sides.

use std::fmt;

use crate::ElementType;

/// The type of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeType {
    /// -8 to 7, two in a byte.
    Int4,
    /// 0 to 15, two in a byte.
    Uint4,
    /// -128 to 127.
    Int8,
    /// 0 to 255.
    Uint8,
}

impl CodeType {
    /// Bits of a code.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::Int4 | Self::Uint4 => 4,
            Self::Int8 | Self::Uint8 => 8,
        }
    }

    /// Whether codes are negative, too. Their zero point is 0.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::Int4 | Self::Int8)
    }

    /// The element type of the tensor that holds them.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::Int4 | Self::Uint4 | Self::Uint8 => ElementType::U8,
            Self::Int8 => ElementType::I8,
        }
    }

    /// Elements of that tensor for this many codes.
    #[must_use]
    pub const fn elements(self, codes: usize) -> usize {
        codes.div_ceil(8 / self.bits())
    }

    /// The largest zero point.
    pub(crate) const fn most(self) -> u8 {
        (1u16 << self.bits()).wrapping_sub(1) as u8
    }

    /// The bit that makes a signed code unsigned: the zero point of signed codes, once they are.
    pub(crate) const fn sign(self) -> u8 {
        match self {
            Self::Int4 => 1 << 3,
            Self::Int8 => 1 << 7,
            Self::Uint4 | Self::Uint8 => 0,
        }
    }
}

impl fmt::Display for CodeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int4 => "int4",
            Self::Uint4 => "uint4",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
        })
    }
}

/// Zero points: numbers that are subtracted from codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ZeroPoints {
    /// None: codes are signed.
    #[default]
    None,
    /// One number for all codes.
    One(u8),
    /// A code for each group.
    Each,
}

/// How weights are quantised: a [format](super::format::Format) of B.
///
/// It says what [`quantized`](super::quantized::quantized) weights are, without their tensors: for a
/// [`Builder`](crate::gemm::Builder::weights), and to ask what a device [`supports`](crate::gemm::supports).
///
/// ```
/// use epilogue::gemm::{self, CodeType, Feature, FormatError, Quantization, ZeroPoints};
/// use epilogue::{Arch, Device, ElementType::{BF16, F16}};
///
/// let zero_points = ZeroPoints::One(8);
/// let format = Quantization { codes: CodeType::Uint4, scales: F16, zero_points, group: Some(128) };
/// assert_eq!(format.to_string(), "uint4 with scales of f16 per group of 128 and zero point 8");
/// let feature = Feature::Weights { a: BF16, format, arithmetic: gemm::Arithmetic::Exact };
/// assert!(gemm::supports(&Device::cpu(), feature).is_ok());
///
/// let refused = gemm::supports(&Device::emulated(Arch::SM_80)?, feature).unwrap_err();
/// assert!(matches!(refused, gemm::Error::Format(FormatError::Device { .. })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quantization {
    /// The type of codes.
    pub codes: CodeType,
    /// The element type of scales: f16, bf16 or f32.
    pub scales: ElementType,
    /// The zero points.
    pub zero_points: ZeroPoints,
    /// Codes along K that share a scale: a multiple of 16. `None`: all of K.
    pub group: Option<usize>,
}

impl Quantization {
    /// The length of groups along a K of this length, at least 1.
    pub(crate) fn group_of(self, k: usize) -> usize {
        self.group.unwrap_or(k).max(1)
    }

    /// The number of groups along K.
    pub(crate) fn groups_of(self, k: usize) -> usize {
        k.div_ceil(self.group_of(k))
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codes, scales, zero_points, group } = self;
        write!(f, "{codes} with scales of {scales} per ")?;
        match group {
            Some(group) => write!(f, "group of {group}")?,
            None => f.write_str("column")?,
        }
        match zero_points {
            ZeroPoints::None => Ok(()),
            ZeroPoints::One(zero) => write!(f, " and zero point {zero}"),
            ZeroPoints::Each => f.write_str(" and zero points"),
        }
    }
}

/// The length of groups is a multiple of this.
pub(crate) const STEP: usize = 16;

/// Elements of A along K that share a scale with
/// [`Arithmetic::Int8Activations`](super::arithmetic::Arithmetic::Int8Activations).
pub(crate) const ACTIVATION_BLOCK: usize = 32;
