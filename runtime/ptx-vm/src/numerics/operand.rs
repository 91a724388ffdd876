//! The element types of tensor-core operands and accumulators.

use super::convert::{Bf16Type, Fp8, Half, f16_to_f32, fp8_to_f32, tf32_operand};
use super::format::{self, Format, Rounding, Value};
use super::fragment::Lanes;

/// The type of the elements of A or B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// `.f16`
    F16,
    /// `.bf16`
    Bf16,
    /// `.tf32`: the low 13 bits of a register are ignored.
    Tf32,
    /// `.e4m3`
    E4M3,
    /// `.e5m2`
    E5M2,
    /// `.e3m2`, in the lower 6 bits of a byte.
    E3M2,
    /// `.e2m3`, in the lower 6 bits of a byte.
    E2M3,
    /// `.e2m1`, in the 4 bits in the middle of a byte.
    E2M1,
    /// `.s8`
    S8,
    /// `.u8`
    U8,
    /// `.f64`
    F64,
}

/// The type of C and D.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// `.f16`: two elements in a register.
    F16,
    /// `.f32`
    F32,
    /// `.s32`
    S32,
    /// `.f64`
    F64,
}

impl Operand {
    /// Number of bits of an element in a register, with those that are padding.
    pub const fn bits(self) -> usize {
        match self {
            Operand::F16 | Operand::Bf16 => 16,
            Operand::Tf32 => 32,
            Operand::E4M3 | Operand::E5M2 | Operand::S8 | Operand::U8 => 8,
            Operand::E3M2 | Operand::E2M3 | Operand::E2M1 => 8,
            Operand::F64 => 64,
        }
    }

    /// Number of elements in a register.
    pub const fn per_register(self) -> usize {
        match self {
            Operand::F64 => 1,
            other => 32 / other.bits(),
        }
    }

    /// Whether it is an integer type.
    pub const fn is_integer(self) -> bool {
        matches!(self, Operand::S8 | Operand::U8)
    }

    /// Whether it is an 8-bit float.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Operand::E4M3 | Operand::E5M2)
    }

    /// Whether it is a float of 4 or 6 bits.
    pub const fn is_narrow(self) -> bool {
        matches!(self, Operand::E3M2 | Operand::E2M3 | Operand::E2M1)
    }

    /// The bits of an element in its format, without those that are padding (PTX ISA 9.7.14.5).
    #[inline(always)]
    pub const fn payload(self, bits: u32) -> u32 {
        match self {
            Operand::Tf32 => bits >> 13,
            Operand::E3M2 | Operand::E2M3 => bits & 0x3f,
            Operand::E2M1 => bits >> 2 & 0xf,
            _ => bits,
        }
    }

    /// The floating-point format; `None` for integers.
    pub const fn format(self) -> Option<Format> {
        match self {
            Operand::F16 => Some(format::F16),
            Operand::Bf16 => Some(format::BF16),
            Operand::Tf32 => Some(format::TF32),
            Operand::E4M3 => Some(format::E4M3),
            Operand::E5M2 => Some(format::E5M2),
            Operand::E3M2 => Some(format::E3M2),
            Operand::E2M3 => Some(format::E2M3),
            Operand::E2M1 => Some(format::E2M1),
            Operand::F64 => Some(format::F64),
            Operand::S8 | Operand::U8 => None,
        }
    }

    /// The value of an element of at most 32 bits, as an exact `f32`.
    #[inline(always)]
    pub fn to_f32(self, bits: u32) -> f32 {
        match self {
            Operand::F16 => f16_to_f32(bits as u16),
            Operand::Bf16 => Bf16Type::widen(bits as u16),
            Operand::Tf32 => tf32_operand(bits),
            Operand::E4M3 => fp8_to_f32(Fp8::E4M3, bits as u8),
            Operand::E5M2 => fp8_to_f32(Fp8::E5M2, bits as u8),
            Operand::E3M2 => narrow_to_f32(format::E3M2, self.payload(bits)),
            Operand::E2M3 => narrow_to_f32(format::E2M3, self.payload(bits)),
            Operand::E2M1 => narrow_to_f32(format::E2M1, self.payload(bits)),
            Operand::S8 => f32::from(bits as u8 as i8),
            Operand::U8 => f32::from(bits as u8),
            Operand::F64 => f32::NAN,
        }
    }

    /// Writes the values of elements to places.
    #[inline]
    pub(super) fn widen<'a>(self, elements: &[u32], places: impl Iterator<Item = &'a mut f32>) {
        let pairs = elements.iter().zip(places);
        match self {
            Operand::F16 => pairs.for_each(|(bits, place)| *place = f16_to_f32(*bits as u16)),
            Operand::Bf16 => pairs.for_each(|(bits, place)| *place = Bf16Type::widen(*bits as u16)),
            Operand::Tf32 => pairs.for_each(|(bits, place)| *place = tf32_operand(*bits)),
            other => pairs.for_each(|(bits, place)| *place = other.to_f32(*bits)),
        }
    }

    /// For every element in a register of all lanes, calls `put` with the lane, the part, the elements of a register,
    /// and the value.
    #[inline(always)]
    pub(super) fn spread(self, lanes: &Lanes, mut put: impl FnMut(usize, usize, usize, f32)) {
        macro_rules! each {
            ($width:literal, $value:expr) => {
                for (lane, register) in lanes.iter().enumerate() {
                    for part in 0..$width {
                        put(lane, part, $width, $value(*register >> (32 / $width * part % 32)));
                    }
                }
            };
        }
        match self {
            Operand::F16 => each!(2, |bits| f16_to_f32(bits as u16)),
            Operand::Bf16 => each!(2, |bits| Bf16Type::widen(bits as u16)),
            Operand::Tf32 => each!(1, tf32_operand),
            Operand::E4M3 => each!(4, |bits| fp8_to_f32(Fp8::E4M3, bits as u8)),
            Operand::E5M2 => each!(4, |bits| fp8_to_f32(Fp8::E5M2, bits as u8)),
            Operand::S8 | Operand::U8 | Operand::E3M2 | Operand::E2M3 | Operand::E2M1 => {
                each!(4, |bits| self.to_f32(bits & 0xff));
            }
            Operand::F64 => {}
        }
    }

    #[inline(always)]
    pub(super) fn to_i32(self, bits: u32) -> i32 {
        if self == Operand::S8 { i32::from(bits as u8 as i8) } else { i32::from(bits as u8) }
    }
}

/// The value of a number as f32, from a format without infinities and NaN.
fn narrow_to_f32(format: Format, bits: u32) -> f32 {
    match format.decode(bits.into()) {
        Value::Finite(number) => f32::from_bits(format::F32.encode(number, Rounding::TowardZero) as u32),
        Value::Infinite(_) | Value::Nan => f32::NAN,
    }
}
