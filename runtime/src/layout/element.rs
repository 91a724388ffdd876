//! The element types that a buffer can hold.
//!
//! An element's size is a number of bytes everywhere. A truth value is one byte that may hold anything; Rust gets no
//! `&[bool]` into a tensor ([`PlainElement`]).

use std::fmt;

use half::{bf16, f16};

use crate::layout::float8::{f8e4m3, f8e5m2};

/// The type of one element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ElementType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE 754 binary16.
    F16,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinity, largest finite value 448 (OCP OFP8 E4M3).
    F8E4M3,
    /// 8-bit float, 5 exponent and 2 mantissa bits, with infinities, largest finite value 57344 (OCP OFP8 E5M2).
    F8E5M2,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 16-bit signed integer.
    I16,
    /// 8-bit signed integer.
    I8,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit unsigned integer.
    U32,
    /// 16-bit unsigned integer.
    U16,
    /// 8-bit unsigned integer.
    U8,
    /// A truth value in a byte: written as 0 or 1; any value other than 0 is read as true.
    Bool,
}

impl ElementType {
    /// Every element type, widest float first.
    pub const ALL: [Self; 15] = [
        Self::F64,
        Self::F32,
        Self::BF16,
        Self::F16,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U64,
        Self::U32,
        Self::U16,
        Self::U8,
        Self::Bool,
    ];

    /// Size in bytes; also the alignment.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::BF16 | Self::F16 | Self::I16 | Self::U16 => 2,
            Self::F8E4M3 | Self::F8E5M2 | Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether values are floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::BF16 | Self::F16 | Self::F8E4M3 | Self::F8E5M2)
    }

    /// Whether values are integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Bool)
    }

    /// Whether values are integers without a sign.
    #[must_use]
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U64 | Self::U32 | Self::U16 | Self::U8)
    }

    /// The name that Rust users write: `f32`, `bf16`, `f8e4m3`, `i8`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    /// Memory is read and freed as [`super::Element`] says, so no other crate may implement it.
    pub trait Sealed {}
}

/// A Rust type for the values of an [`ElementType`]; each has one. Only this crate implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    label = "no element type",
    note = "element types are f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, u16, u8 and bool"
)]
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The element type that this Rust type holds.
    const TYPE: ElementType;

    /// The type as which elements are read from memory. It has the same size, and every bit pattern is a value of it.
    type Memory: bytemuck::Pod;

    /// The bytes of elements, in this machine's byte order.
    fn bytes(values: &[Self]) -> &[u8];

    /// The elements, from values that were read from memory.
    fn from_memory(read: Vec<Self::Memory>) -> Vec<Self>;
}

/// An element type for which every bit pattern is a value: all except `bool`. Only memory of these types is lent or
/// written in place as elements, since anything may be written there, also by others.
///
/// ```compile_fail,E0277
/// # use epilogue_runtime::Device;
/// let mut mask = [false];
/// Device::cpu().scope(|scope| scope.borrow_mut(&mut mask, [1]).map(drop)); // `borrow` takes them
/// ```
#[diagnostic::on_unimplemented(
    message = "memory that is written can't be used in place as `{Self}`",
    label = "not every bit pattern is a value of this type",
    note = "truth values lie in bytes that may be any: read a copy with `to_vec::<bool>()`, or lend bytes with \
            `borrow_bytes_mut(ElementType::Bool, ...)`"
)]
pub trait PlainElement: Element<Memory = Self> + bytemuck::Pod {}

macro_rules! elements {
    ($($rust:ty => $variant:ident),* $(,)?) => {
        $(
            impl Element for $rust {
                const TYPE: ElementType = ElementType::$variant;
                type Memory = Self;

                fn bytes(values: &[Self]) -> &[u8] {
                    bytemuck::cast_slice(values)
                }

                fn from_memory(read: Vec<Self>) -> Vec<Self> {
                    read
                }
            }
            impl PlainElement for $rust {}
            impl sealed::Sealed for $rust {}
        )*
    };
}

elements! {
    f64 => F64, f32 => F32, bf16 => BF16, f16 => F16, f8e4m3 => F8E4M3, f8e5m2 => F8E5M2,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8, u64 => U64, u32 => U32, u16 => U16, u8 => U8,
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const TYPE: ElementType = ElementType::Bool;
    // Others may have written any byte.
    type Memory = u8;

    fn bytes(values: &[Self]) -> &[u8] {
        bytemuck::cast_slice(values)
    }

    fn from_memory(read: Vec<u8>) -> Vec<Self> {
        read.into_iter().map(|byte| byte != 0).collect()
    }
}
