//! Input values: for every type those at which arithmetic changes its behaviour, and random ones between them.

/// SplitMix64, a small generator. The recorded results depend on its sequence.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }
}

/// The type of an operand or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A predicate.
    Predicate,
    /// 8 bits in a 16-bit register.
    B8,
    /// 16 bits.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
    /// A small unsigned number: shift amounts, bit positions, selectors.
    Amount,
    /// `.f16`
    F16,
    /// `.bf16`
    Bf16,
    /// `.f16x2`
    F16x2,
    /// `.bf16x2`
    Bf16x2,
    /// Two FP8 numbers in 16 bits.
    Fp8x2,
    /// `.f32`
    F32,
    /// `.f64`
    F64,
}

const INTEGERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
];

impl Kind {
    /// Number of bits of the register.
    pub const fn bits(self) -> u32 {
        match self {
            Kind::Predicate => 1,
            Kind::B8 => 8,
            Kind::B16 | Kind::F16 | Kind::Bf16 | Kind::Fp8x2 => 16,
            Kind::B32 | Kind::Amount | Kind::F16x2 | Kind::Bf16x2 | Kind::F32 => 32,
            Kind::B64 | Kind::F64 => 64,
        }
    }

    const fn exponent_and_mantissa(self) -> Option<(u32, u32)> {
        match self {
            Kind::F16 | Kind::F16x2 => Some((5, 10)),
            Kind::Bf16 | Kind::Bf16x2 => Some((8, 7)),
            Kind::F32 => Some((8, 23)),
            Kind::F64 => Some((11, 52)),
            _ => None,
        }
    }

    /// A value: an edge case, a number of ordinary size, or random bits.
    pub fn value(self, random: &mut Random) -> u64 {
        match self {
            Kind::F16x2 => Kind::F16.value(random) | Kind::F16.value(random) << 16,
            Kind::Bf16x2 => Kind::Bf16.value(random) | Kind::Bf16.value(random) << 16,
            Kind::Amount => match random.below(4) {
                0 => random.bits() & 0xffff_ffff,
                _ => random.bits() % 72,
            },
            _ => match self.exponent_and_mantissa() {
                Some((exponent, mantissa)) => float(random, exponent, mantissa),
                None => {
                    let mask = u64::MAX >> (64 - self.bits());
                    let edge = INTEGERS[random.below(INTEGERS.len())];
                    let edge = if random.below(2) == 0 { edge.wrapping_neg() } else { edge };
                    mask & match random.below(3) {
                        0 => edge,
                        1 => (random.bits() % 200).wrapping_sub(100),
                        _ => random.bits(),
                    }
                }
            },
        }
    }
}

/// Bits of a floating-point number: zeros, subnormals, ones, the largest, infinities, NaN, numbers near 1, or random
/// bits.
fn float(random: &mut Random, exponent_bits: u32, mantissa_bits: u32) -> u64 {
    let sign = (random.bits() & 1) << (exponent_bits + mantissa_bits);
    let top = (1u64 << exponent_bits) - 1;
    let bias = top / 2;
    let fraction = random.bits() & ((1 << mantissa_bits) - 1);
    let one = bias << mantissa_bits;
    let magnitude = match random.below(16) {
        0 => 0,
        1 => 1,
        2 => fraction,
        3 => 1 << mantissa_bits,
        4 => (1 << mantissa_bits) - 1,
        5 => one,
        6 => (top << mantissa_bits) - 1,
        7 => top << mantissa_bits,
        8 => top << mantissa_bits | 1 << (mantissa_bits - 1) | fraction,
        // Integers and halves of integers, which matter for rounding to integers.
        9 => one + ((random.bits() % 12) << mantissa_bits) + (fraction & !((1 << (mantissa_bits - 4)) - 1)),
        10..=12 => one - (3 << mantissa_bits) + ((random.bits() % 7) << mantissa_bits) + fraction,
        _ => random.bits() & ((1 << (exponent_bits + mantissa_bits)) - 1),
    };
    sign | magnitude
}

/// The active lanes of a warp: all, one, none, alternating, halves, or any.
pub fn lane_mask(random: &mut Random) -> u32 {
    let bits = random.bits() as u32;
    match random.below(8) {
        0..=2 => u32::MAX,
        3 => 1 << (bits % 32),
        4 => 0x5555_5555 << (bits % 2),
        5 => u32::MAX.wrapping_shl(bits % 32),
        6 => 0,
        _ => bits,
    }
}
