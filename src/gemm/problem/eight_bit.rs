//! The 8-bit types of operands. A and B may have different types of one kind: FP8 gradients (E5M2) times FP8 weights
//! (E4M3), or unsigned activations times signed weights. Or B alone has one: weights, whose activations have 16 bits.

use crate::ElementType;

/// An 8-bit floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fp8 {
    /// 4 bits of exponent, 3 of mantissa; NaN, but no infinities.
    E4M3,
    /// 5 bits of exponent, 2 of mantissa: the upper half of an f16.
    E5M2,
}

/// An 8-bit integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Int8 {
    /// Signed.
    S8,
    /// Unsigned.
    U8,
}

/// A 16-bit floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Float16 {
    /// 5 bits of exponent, 10 of mantissa.
    F16,
    /// 8 bits of exponent, 7 of mantissa: the upper half of an f32.
    Bf16,
}

/// An 8-bit type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Byte {
    /// An integer.
    Int(Int8),
    /// A floating-point number.
    Float(Fp8),
}

/// The types of an A of 16 bits and of a B of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MixedInput {
    /// The type of A.
    pub a: Float16,
    /// The type of B.
    pub b: Byte,
}

/// The types of A and of B, which are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair<T> {
    /// The type of A.
    pub a: T,
    /// The type of B.
    pub b: T,
}

impl Fp8 {
    const fn of(element: ElementType) -> Option<Self> {
        match element {
            ElementType::F8E4M3 => Some(Self::E4M3),
            ElementType::F8E5M2 => Some(Self::E5M2),
            _ => None,
        }
    }

    /// The type in memory.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::E4M3 => ElementType::F8E4M3,
            Self::E5M2 => ElementType::F8E5M2,
        }
    }

    /// Its name in PTX.
    #[must_use]
    pub const fn ptx(self) -> &'static str {
        match self {
            Self::E4M3 => "e4m3",
            Self::E5M2 => "e5m2",
        }
    }
}

impl Int8 {
    const fn of(element: ElementType) -> Option<Self> {
        match element {
            ElementType::I8 => Some(Self::S8),
            ElementType::U8 => Some(Self::U8),
            _ => None,
        }
    }

    /// The type in memory.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::S8 => ElementType::I8,
            Self::U8 => ElementType::U8,
        }
    }

    /// Its name in PTX.
    #[must_use]
    pub const fn ptx(self) -> &'static str {
        match self {
            Self::S8 => "s8",
            Self::U8 => "u8",
        }
    }
}

impl Float16 {
    const fn of(element: ElementType) -> Option<Self> {
        match element {
            ElementType::F16 => Some(Self::F16),
            ElementType::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// The type in memory.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::F16 => ElementType::F16,
            Self::Bf16 => ElementType::BF16,
        }
    }
}

impl Byte {
    const fn of(element: ElementType) -> Option<Self> {
        match (Int8::of(element), Fp8::of(element)) {
            (Some(integer), _) => Some(Self::Int(integer)),
            (_, Some(float)) => Some(Self::Float(float)),
            _ => None,
        }
    }

    /// The type in memory.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::Int(integer) => integer.element(),
            Self::Float(float) => float.element(),
        }
    }

    /// Its name in PTX.
    #[must_use]
    pub const fn ptx(self) -> &'static str {
        match self {
            Self::Int(integer) => integer.ptx(),
            Self::Float(float) => float.ptx(),
        }
    }
}

impl MixedInput {
    /// These operand types; `None` if A has not 16 bits, or B has not 8.
    pub(crate) const fn of(a: ElementType, b: ElementType) -> Option<Self> {
        match (Float16::of(a), Byte::of(b)) {
            (Some(a), Some(b)) => Some(Self { a, b }),
            _ => None,
        }
    }

    /// Every one.
    pub(crate) const ALL: [Self; 8] = {
        const fn all(a: Float16) -> [MixedInput; 4] {
            [
                MixedInput { a, b: Byte::Int(Int8::S8) },
                MixedInput { a, b: Byte::Int(Int8::U8) },
                MixedInput { a, b: Byte::Float(Fp8::E4M3) },
                MixedInput { a, b: Byte::Float(Fp8::E5M2) },
            ]
        }
        let ([a, b, c, d], [e, f, g, h]) = (all(Float16::F16), all(Float16::Bf16));
        [a, b, c, d, e, f, g, h]
    };
}

impl<T: Copy> Pair<T> {
    /// Every pair of two types, first those of equal types.
    const fn all(x: T, y: T) -> [Self; 4] {
        [Self { a: x, b: x }, Self { a: y, b: y }, Self { a: x, b: y }, Self { a: y, b: x }]
    }
}

impl Pair<Fp8> {
    /// The pair of these operand types; `None` if either is not FP8.
    pub(crate) const fn fp8(a: ElementType, b: ElementType) -> Option<Self> {
        match (Fp8::of(a), Fp8::of(b)) {
            (Some(a), Some(b)) => Some(Self { a, b }),
            _ => None,
        }
    }

    /// Every pair.
    pub(crate) const ALL_FP8: [Self; 4] = Self::all(Fp8::E4M3, Fp8::E5M2);
}

impl Pair<Int8> {
    /// The pair of these operand types; `None` if either is not an 8-bit integer.
    pub(crate) const fn int8(a: ElementType, b: ElementType) -> Option<Self> {
        match (Int8::of(a), Int8::of(b)) {
            (Some(a), Some(b)) => Some(Self { a, b }),
            _ => None,
        }
    }

    /// Every pair.
    pub(crate) const ALL_INT8: [Self; 4] = Self::all(Int8::S8, Int8::U8);
}

/// `x`, or `x by y` if they differ.
pub(crate) fn joined(x: &str, y: &str) -> String {
    if x == y { x.to_owned() } else { format!("{x} by {y}") }
}
