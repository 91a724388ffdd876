//! The functions of two values that `atom`, `red`, `redux`, `red.async` and `cp.reduce.async.bulk` compute (PTX ISA
//! 9.7.13.5–9.7.13.8, 9.7.9.25.4.2).
//!
//! Values are bits, zero-extended. Sums of floats are rounded to nearest even. A sum of `.f32` in *global* memory
//! flushes subnormal operands and results to zeros of the same sign (PTX ISA 9.7.13.5; SASS `RED.ADD.F32.FTZ`); a sum
//! in shared memory does not. These are [`Element::F32Flushed`] and [`Element::F32`].

use super::convert::{Bf16Type, F16Type};
use super::float::{self, MinMax};
use super::half::{self, HalfMode};
use super::packed;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum, which wraps.
    Add,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// The old value plus one, or 0 if the old value has reached the operand.
    Inc,
    /// The old value minus one, or the operand if the old value is 0 or above the operand.
    Dec,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// The type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// `.b32`
    B32,
    /// `.u32`
    U32,
    /// `.s32`
    S32,
    /// `.b64`
    B64,
    /// `.u64`
    U64,
    /// `.s64`
    S64,
    /// `.f16`
    F16,
    /// `.f16x2`
    F16x2,
    /// `.bf16`
    Bf16,
    /// `.bf16x2`
    Bf16x2,
    /// `.f32`
    F32,
    /// `.f32` that flushes subnormals.
    F32Flushed,
    /// `.f64`
    F64,
}

/// Computes the new value from the old value and the operand.
pub type Function = fn(u64, u64) -> u64;

impl Reduction {
    /// The operation of this name, such as `add`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "add" => Reduction::Add,
            "min" => Reduction::Min,
            "max" => Reduction::Max,
            "inc" => Reduction::Inc,
            "dec" => Reduction::Dec,
            "and" => Reduction::And,
            "or" => Reduction::Or,
            "xor" => Reduction::Xor,
            _ => return None,
        })
    }

    /// The operation for a type; `None` if PTX has none.
    pub fn function(self, element: Element) -> Option<Function> {
        use Element::{B32, B64, Bf16, Bf16x2, F16, F16x2, F32, F32Flushed, F64, S32, S64, U32, U64};
        Some(match (self, element) {
            (Reduction::Add, B32 | U32 | S32) => |a, b| (a as u32).wrapping_add(b as u32).into(),
            (Reduction::Add, B64 | U64 | S64) => u64::wrapping_add,
            (Reduction::Add, F32) => |a, b| float::add_f32::<false, false>(single(a), single(b)).to_bits().into(),
            (Reduction::Add, F32Flushed) => |a, b| float::add_f32::<true, false>(single(a), single(b)).to_bits().into(),
            (Reduction::Add, F64) => |a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
            (Reduction::Min, B32 | U32 | B64 | U64) => u64::min,
            (Reduction::Max, B32 | U32 | B64 | U64) => u64::max,
            (Reduction::Min, S32) => |a, b| u64::from((a as i32).min(b as i32).cast_unsigned()),
            (Reduction::Max, S32) => |a, b| u64::from((a as i32).max(b as i32).cast_unsigned()),
            (Reduction::Min, S64) => |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned(),
            (Reduction::Max, S64) => |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned(),
            (Reduction::Inc, U32) => |a, b| if a >= b { 0 } else { a + 1 },
            (Reduction::Dec, U32) => |a, b| if a == 0 || a > b { b } else { a - 1 },
            (Reduction::And, B32 | U32 | S32 | B64 | U64 | S64) => |a, b| a & b,
            (Reduction::Or, B32 | U32 | S32 | B64 | U64 | S64) => |a, b| a | b,
            (Reduction::Xor, B32 | U32 | S32 | B64 | U64 | S64) => |a, b| a ^ b,
            (Reduction::Add, F16) => |a, b| add::<F16Type>(a as u16, b as u16).into(),
            (Reduction::Min, F16) => |a, b| min::<F16Type>(a as u16, b as u16).into(),
            (Reduction::Max, F16) => |a, b| max::<F16Type>(a as u16, b as u16).into(),
            (Reduction::Add, Bf16) => |a, b| add::<Bf16Type>(a as u16, b as u16).into(),
            (Reduction::Min, Bf16) => |a, b| min::<Bf16Type>(a as u16, b as u16).into(),
            (Reduction::Max, Bf16) => |a, b| max::<Bf16Type>(a as u16, b as u16).into(),
            (Reduction::Add, F16x2) => |a, b| packed::map2(a as u32, b as u32, add::<F16Type>).into(),
            (Reduction::Min, F16x2) => |a, b| packed::map2(a as u32, b as u32, min::<F16Type>).into(),
            (Reduction::Max, F16x2) => |a, b| packed::map2(a as u32, b as u32, max::<F16Type>).into(),
            (Reduction::Add, Bf16x2) => |a, b| packed::map2(a as u32, b as u32, add::<Bf16Type>).into(),
            (Reduction::Min, Bf16x2) => |a, b| packed::map2(a as u32, b as u32, min::<Bf16Type>).into(),
            (Reduction::Max, Bf16x2) => |a, b| packed::map2(a as u32, b as u32, max::<Bf16Type>).into(),
            _ => return None,
        })
    }
}

impl Element {
    /// Number of bytes of a value.
    pub const fn bytes(self) -> u32 {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::B64 | Element::U64 | Element::S64 | Element::F64 => 8,
            _ => 4,
        }
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn add<T: super::convert::Half>(a: u16, b: u16) -> u16 {
    half::add::<T>(a, b, HalfMode::default())
}

fn min<T: super::convert::Half>(a: u16, b: u16) -> u16 {
    half::min::<T>(a, b, MinMax::default())
}

fn max<T: super::convert::Half>(a: u16, b: u16) -> u16 {
    half::max::<T>(a, b, MinMax::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, element: Element, old: u64, operand: u64) -> Option<u64> {
        Some(Reduction::from_name(name)?.function(element)?(old, operand))
    }

    #[test]
    fn counters_wrap_where_the_document_says() {
        assert_eq!(of("inc", Element::U32, 4, 5), Some(5));
        assert_eq!(of("inc", Element::U32, 5, 5), Some(0));
        assert_eq!(of("inc", Element::U32, 9, 5), Some(0));
        assert_eq!(of("dec", Element::U32, 0, 5), Some(5));
        assert_eq!(of("dec", Element::U32, 6, 5), Some(5));
        assert_eq!(of("dec", Element::U32, 5, 5), Some(4));
        assert_eq!(of("inc", Element::U64, 0, 5), None);
    }

    #[test]
    fn signs_count() {
        let minus_one = 0xffff_ffff;
        assert_eq!(of("min", Element::S32, minus_one, 1), Some(minus_one));
        assert_eq!(of("min", Element::U32, minus_one, 1), Some(1));
        assert_eq!(of("max", Element::S64, u64::MAX, 1), Some(1));
        assert_eq!(of("max", Element::U64, u64::MAX, 1), Some(u64::MAX));
        assert_eq!(of("add", Element::S32, minus_one, 2), Some(1));
    }

    #[test]
    fn only_sums_in_global_memory_flush() {
        let tiny = 0x8000_0001;
        assert_eq!(of("add", Element::F32, tiny, 0x8000_0000), Some(tiny));
        assert_eq!(of("add", Element::F32Flushed, tiny, 0x8000_0000), Some(0x8000_0000));
        assert_eq!(of("add", Element::F32Flushed, 0x0080_0001, 0x8080_0000), Some(0));
        assert_eq!(of("add", Element::F16x2, 0x0001_3c00, 0x0001_3c00), Some(0x0002_4000));
        assert_eq!(of("and", Element::F32, 1, 1), None);
    }
}
