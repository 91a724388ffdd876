//! The type of a scalar in a tensor expression.

use std::fmt;

use crate::ElementType;

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// A truth value.
    Bool,
    /// A number of an element type. `ElementType::Bool` is not a number: it is taken for [`Bool`](Self::Bool).
    Number(ElementType),
}

impl DType {
    /// 32-bit integers: the type of variables and axes.
    pub const I32: Self = Self::Number(ElementType::I32);
    /// 64-bit integers.
    pub const I64: Self = Self::Number(ElementType::I64);
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

    /// The least and the greatest value of an integer type or of `Bool`; `None` for floating-point types.
    #[must_use]
    pub const fn range(self) -> Option<(i64, i64)> {
        match self {
            Self::Bool => Some((0, 1)),
            Self::Number(ElementType::I64) => Some((i64::MIN, i64::MAX)),
            Self::Number(ElementType::I32) => Some((i32::MIN as i64, i32::MAX as i64)),
            Self::Number(ElementType::I8) => Some((i8::MIN as i64, i8::MAX as i64)),
            Self::Number(ElementType::U8) => Some((0, u8::MAX as i64)),
            Self::Number(_) => None,
        }
    }

    /// Whether the type is an integer type, or `Bool`, whose range includes `value`.
    #[must_use]
    pub const fn holds(self, value: i64) -> bool {
        match self.range() {
            Some((least, greatest)) => least <= value && value <= greatest,
            None => false,
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
                ElementType::I8 => "int8",
                ElementType::U8 => "uint8",
                _ => "handle",
            },
        }
    }

    /// The least value of the type (−∞ for floating-point types): the identity of a maximum.
    #[must_use]
    pub fn least(self) -> f64 {
        match self {
            Self::Number(ElementType::I64) => i64::MIN as f64,
            Self::Number(ElementType::I32) => f64::from(i32::MIN),
            Self::Number(ElementType::I8) => f64::from(i8::MIN),
            Self::Bool | Self::Number(ElementType::U8) => 0.0,
            Self::Number(_) => f64::NEG_INFINITY,
        }
    }

    /// The greatest value of the type (∞ for floating-point types): the identity of a minimum.
    #[must_use]
    pub fn greatest(self) -> f64 {
        match self {
            Self::Number(ElementType::I64) => i64::MAX as f64,
            Self::Number(ElementType::I32) => f64::from(i32::MAX),
            Self::Number(ElementType::I8) => f64::from(i8::MAX),
            Self::Number(ElementType::U8) => f64::from(u8::MAX),
            Self::Bool => 1.0,
            Self::Number(_) => f64::INFINITY,
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
