//! The element types of tensor-core products, and their inputs. The seed chooses between two kinds. Small integers have
//! exact products in any order, and show every layout error by their places; the others are numbers of any size.

use crate::case::Compare;
use crate::oracle::real::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, Mode, Pair, Table};
use crate::values::Random;

/// An operand type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Type {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    E3m2,
    E2m3,
    E2m1,
    S8,
    U8,
    F64,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::F16 => "f16",
            Type::Bf16 => "bf16",
            Type::Tf32 => "tf32",
            Type::E4m3 => "e4m3",
            Type::E5m2 => "e5m2",
            Type::E3m2 => "e3m2",
            Type::E2m3 => "e2m3",
            Type::E2m1 => "e2m1",
            Type::S8 => "s8",
            Type::U8 => "u8",
            Type::F64 => "f64",
        }
    }

    pub(super) fn bits(self) -> usize {
        match self {
            Type::F16 | Type::Bf16 => 16,
            Type::Tf32 => 32,
            Type::F64 => 64,
            _ => 8,
        }
    }

    pub(super) fn table(self) -> Option<&'static Table> {
        match self {
            Type::F16 => Some(&F16),
            Type::Bf16 => Some(&BF16),
            Type::E4m3 => Some(&E4M3),
            Type::E5m2 => Some(&E5M2),
            Type::E3m2 => Some(&E3M2),
            Type::E2m3 => Some(&E2M3),
            Type::E2m1 => Some(&E2M1),
            _ => None,
        }
    }

    pub(super) fn value(self, bits: u64) -> f64 {
        match self {
            Type::Tf32 => f32::from_bits(bits as u32 & !0x1fff).into(),
            Type::F64 => f64::from_bits(bits),
            Type::S8 => f64::from(bits as u8 as i8),
            Type::U8 => f64::from(bits as u8),
            Type::E3m2 | Type::E2m3 => self.table().map_or(f64::NAN, |table| table.value(bits & 0x3f)),
            Type::E2m1 => self.table().map_or(f64::NAN, |table| table.value(bits >> 2 & 0xf)),
            _ => self.table().map_or(f64::NAN, |table| table.value(bits)),
        }
    }

    /// An element: a small integer, or a number of moderate size.
    pub(super) fn element(self, random: &mut Random, small: bool) -> u64 {
        let integer = (random.bits() % 5) as i64 - if self == Type::U8 { 0 } else { 2 };
        match self {
            Type::S8 | Type::U8 if small => integer as u64 & 0xff,
            Type::S8 | Type::U8 => random.bits() & 0xff,
            Type::F64 if small => (integer as f64).to_bits(),
            Type::F64 => ((random.bits() % 2_000_001) as f64 / 1e6 - 1.0).to_bits(),
            Type::Tf32 => {
                let x = if small { integer as f32 } else { (random.bits() % 20_001) as f32 / 1e4 - 1.0 };
                // The low bits are ignored.
                u64::from(x.to_bits()) & !0x1fff | random.bits() & 0x1fff
            }
            _ => {
                let x = if small { integer as f64 } else { (random.bits() % 20_001) as f64 / 1e4 - 1.0 };
                let code = self.table().map_or(0, |table| table.round(Pair::of(x), Mode::Rn));
                // The rest of the byte is padding, which may be anything.
                match self {
                    Type::E3m2 | Type::E2m3 => code | random.bits() & 0xc0,
                    Type::E2m1 => code << 2 | random.bits() & 0xc3,
                    _ => code,
                }
            }
        }
    }
}

/// How sums of a type are compared with the oracle's.
pub(super) fn compare_sums(sum: &str) -> Compare {
    match sum {
        "f16" => Compare::HalfPair,
        "f32" => Compare::Float(32),
        _ => Compare::Exact,
    }
}

/// As many bytes of elements of each type, one operand after the other.
pub(super) fn elements(operands: [(Type, usize); 2], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::new();
    for (ty, length) in operands {
        for _ in 0..length / (ty.bits() / 8) {
            bytes.extend(&ty.element(&mut random, seed.is_multiple_of(2)).to_le_bytes()[..(ty.bits() / 8)]);
        }
    }
    bytes
}
