//! The type of a scalar in a tensor expression.

use std::fmt;

use crate::ElementType;

/// The type of a scalar: of a tensor's elements, and of an expression.
///
/// | types | arithmetic | overflow |
/// |---|---|---|
/// | f64, f32 | in the type | to infinity |
/// | f16, bf16 | in f32, rounded to the type after every operation | to infinity |
/// | f8e4m3, f8e5m2 | in f32, rounded to the type after every operation | to the largest finite number |
/// | i64, i32, i16, i8 | exact | wraps |
/// | u64, u32, u16, u8 | exact | wraps, also below 0 |
/// | bool | `and`, `or`, `not`, comparisons, choices | |
///
/// All devices give the same integers:
///
/// - A quotient is rounded down ([`floor_div`](super::Expr::floor_div), the operator `/`) or cut toward zero
///   ([`trunc_div`](super::Expr::trunc_div)). The least integer divided by -1 wraps to itself.
/// - If a divisor is 0, the run fails with [`DataError::DivisionByZero`](crate::DataError::DivisionByZero).
/// - A shift by a negative number, or by no fewer places than the type has bits, gives 0. To the right, a negative
///   integer gives -1.
/// - A [cast](super::Expr::cast) among integers keeps the low bits. From a number with a fraction, it cuts toward zero, and
///   stops at the least and the greatest integer of the type; NaN becomes 0.
/// - Two types don't mix: convert one. A literal number takes the other operand's type, which must hold it.
///
/// Totals overflow as other sums do. [`ops::sum`](super::ops::sum) adds integers of 8 and 16 bits in i32, and
/// [`ops::sum_as`](super::ops::sum_as) adds in the type that you ask for. In a reduction of your own, convert the elements:
/// `te::sum(x.at([i, k]).cast(ElementType::I64), [k])`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// A truth value.
    Bool,
    /// A number of an element type. `ElementType::Bool` is not a number: it is taken for [`Bool`](Self::Bool).
    Number(ElementType),
}

/// The register of a value while it is computed with: a register of every device.
///
/// An integer narrower than that lies in it within its own range, and results [wrap](DType::wrap). A u64 is the i64 of
/// its bits: [expressions](super::expr) write what depends on the sign bit by operations of i64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Bool,
    I32,
    I64,
    F32,
    F64,
}

impl DType {
    /// 32-bit integers: the type of variables and axes.
    pub const I32: Self = Self::Number(ElementType::I32);
    /// 64-bit integers.
    pub const I64: Self = Self::Number(ElementType::I64);
    /// 64-bit integers without a sign.
    pub const U64: Self = Self::Number(ElementType::U64);
    /// Single precision.
    pub const F32: Self = Self::Number(ElementType::F32);

    /// Whether values are integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::Number(element) if !element.is_float())
    }

    /// Whether values are floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Number(element) if element.is_float())
    }

    /// The element type that stores it in memory. A number type is stored as itself. A truth value is stored as one
    /// byte: it is written as 0 or 1, and any byte other than 0 is read as true.
    ///
    /// ```
    /// use epilogue::ElementType;
    /// use epilogue::te::DType;
    ///
    /// assert_eq!(DType::Bool.in_memory(), ElementType::U8);
    /// assert_eq!(DType::F32.in_memory(), ElementType::F32);
    /// ```
    #[must_use]
    pub const fn in_memory(self) -> ElementType {
        match self {
            Self::Bool => ElementType::U8,
            Self::Number(element) => element,
        }
    }

    /// The type that was asked for, truth values in one form.
    pub(crate) fn of(dtype: impl Into<Self>) -> Self {
        match dtype.into() {
            Self::Number(element) => Self::from(element),
            Self::Bool => Self::Bool,
        }
    }

    /// Whether values are integers without a sign.
    #[must_use]
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::Number(element) if element.is_unsigned())
    }

    /// The least and the greatest value of an integer type or of `Bool`. `None` for floating-point types, and for u64,
    /// whose greatest value is no i64.
    #[must_use]
    pub const fn range(self) -> Option<(i64, i64)> {
        match self {
            Self::Bool => Some((0, 1)),
            Self::U64 => None,
            Self::I64 => Some((i64::MIN, i64::MAX)),
            Self::Number(element) if element.is_integer() => {
                let bits = 8 * element.size();
                Some(if element.is_unsigned() {
                    (0, (1 << bits) - 1)
                } else {
                    (-1 << (bits - 1), (1 << (bits - 1)) - 1)
                })
            }
            Self::Number(_) => None,
        }
    }

    /// The least and the greatest value of an integer type or of `Bool`.
    pub(crate) fn least_and_greatest(self) -> Option<(i128, i128)> {
        match self {
            Self::U64 => Some((0, u64::MAX.into())),
            _ => self.range().map(|(least, greatest)| (least.into(), greatest.into())),
        }
    }

    /// The register of its values while they are computed with.
    pub(crate) const fn held(self) -> Held {
        match self {
            Self::Bool => Held::Bool,
            Self::Number(element) => match element {
                ElementType::F64 => Held::F64,
                ElementType::I64 | ElementType::U64 | ElementType::U32 => Held::I64,
                _ if element.is_integer() => Held::I32,
                _ => Held::F32,
            },
        }
    }

    /// The range of an integer type that is narrower than [what holds it](Self::held): results wrap to it.
    pub(crate) const fn narrow_range(self) -> Option<(i64, i64)> {
        match self {
            Self::Bool | Self::I32 | Self::I64 => None,
            Self::Number(_) => self.range(),
        }
    }

    /// An integer wrapped to the range of an integer type or of `Bool`. A u64 is the i64 of its bits.
    pub(crate) const fn wrap(self, value: i64) -> i64 {
        match self {
            Self::Bool => (value != 0) as i64,
            Self::Number(element) if element.is_integer() => {
                let beyond = 64 - 8 * element.size();
                if element.is_unsigned() {
                    (((value << beyond) as u64) >> beyond) as i64
                } else {
                    (value << beyond) >> beyond
                }
            }
            Self::Number(_) => value,
        }
    }

    /// Whether the type is an integer type, or `Bool`, whose range includes `value`.
    #[must_use]
    pub const fn holds(self, value: i64) -> bool {
        match self.range() {
            Some((least, greatest)) => least <= value && value <= greatest,
            None => matches!(self, Self::U64) && value >= 0,
        }
    }

    /// TVM's name of the type: `float32`, `int32`, `bool`, …
    #[must_use]
    pub const fn script_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Number(element) => match element {
                ElementType::F64 => "float64",
                ElementType::F32 => "float32",
                ElementType::BF16 => "bfloat16",
                ElementType::F16 => "float16",
                ElementType::F8E4M3 => "e4m3_float8",
                ElementType::F8E5M2 => "e5m2_float8",
                ElementType::I64 => "int64",
                ElementType::I32 => "int32",
                ElementType::I16 => "int16",
                ElementType::I8 => "int8",
                ElementType::U64 => "uint64",
                ElementType::U32 => "uint32",
                ElementType::U16 => "uint16",
                ElementType::U8 => "uint8",
                _ => "handle",
            },
        }
    }

    /// The least value of the type (−∞ for floating-point types): the identity of a maximum.
    #[must_use]
    pub fn least(self) -> f64 {
        match self.range() {
            Some((least, _)) => least as f64,
            None if self == Self::U64 => 0.0,
            None => f64::NEG_INFINITY,
        }
    }

    /// The greatest value of the type (∞ for floating-point types): the identity of a minimum.
    #[must_use]
    pub fn greatest(self) -> f64 {
        match self.range() {
            Some((_, greatest)) => greatest as f64,
            None if self == Self::U64 => u64::MAX as f64,
            None => f64::INFINITY,
        }
    }
}

impl From<ElementType> for DType {
    fn from(element: ElementType) -> Self {
        match element {
            ElementType::Bool => Self::Bool,
            number => Self::Number(number),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Number(element) => element.fmt(f),
        }
    }
}
