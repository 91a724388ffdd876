//! `mma.sync` (PTX ISA 9.7.14.5): the supported shapes and types, and the product of a warp.
//!
//! There are two kinds of arithmetic. [`Arithmetic::Fast`]: each result is the chain `fma(a[k], b[k], …)` over
//! increasing `k`, beginning with the accumulator, in `f32` (then rounded once for `.f16` results).
//! [`Arithmetic::Exact`]: the bit-exact model of a generation's tensor cores ([`dot`]). In both, `.f64` is a chain of
//! fused multiply-adds, and integers are exact. The executor takes care of active lanes and of registers.

use super::convert::{F16Type, Fp8, f16_to_f32, f32_to_f16, fp8_to_f16};
use super::dot::{self, Fp8Products, Generation, Unit, Vector};
use super::float;
use super::fragment::{LANES, Lanes, a_element, b_element, c_element};
use super::half::{self, HalfMode};
use super::matrix;
pub use super::operand::{Accumulator, Operand};

/// How results of tensor cores are rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// A chain of `f32` fused multiply-adds: fast, and as accurate as the hardware.
    #[default]
    Fast,
    /// The bits that the tensor cores of a generation give, as far as they are known.
    Exact(Generation),
}

/// The rows of A, the columns of B, and the length of the products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// A combination that `mma.sync` does not have, or that this crate does not support.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "mma.sync m{}n{}k{} with {a:?} times {b:?} into {accumulator:?}{} is not supported; supported are f16/bf16 m16n8k8 \
     and m16n8k16, tf32 m16n8k4 and m16n8k8, f64 m8n8k4 and m16n8k4/k8/k16, s8/u8 m8n8k16 and m16n8k16/k32, fp8 \
     m16n8k16/k32 (no bit model before Ada), fp8, fp6 and fp4 mixed m16n8k32 (bit model: sm_120)",
    shape.m, shape.n, shape.k, if *exact { " with the exact model" } else { "" }
)]
pub struct UnsupportedMma {
    /// The requested shape.
    pub shape: Shape,
    /// The type of A.
    pub a: Operand,
    /// The type of B.
    pub b: Operand,
    /// The type of C and D.
    pub accumulator: Accumulator,
    /// Whether a bit-exact model was requested.
    pub exact: bool,
}

crate::message::debug!(UnsupportedMma);

/// One valid `mma.sync` instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mma {
    shape: Shape,
    a: Operand,
    b: Operand,
    accumulator: Accumulator,
    saturate: bool,
}

impl Mma {
    /// Checks a combination. `saturate` is `.satfinite`, which exists only for integers.
    ///
    /// # Errors
    /// If PTX lacks the instruction, or if this crate does not implement it (sub-byte integers, sparse A, `.f16`
    /// m8n8k4).
    pub fn new(
        shape: Shape,
        a: Operand,
        b: Operand,
        accumulator: Accumulator,
        saturate: bool,
    ) -> Result<Self, UnsupportedMma> {
        use Operand::{Bf16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F64, S8, Tf32, U8};
        let dimensions = (shape.m, shape.n, shape.k);
        let valid = match (a, b, accumulator) {
            (F16, F16, Accumulator::F16 | Accumulator::F32) | (Bf16, Bf16, Accumulator::F32) => {
                matches!(dimensions, (16, 8, 8 | 16))
            }
            (Tf32, Tf32, Accumulator::F32) => matches!(dimensions, (16, 8, 4 | 8)),
            (E4M3 | E5M2, E4M3 | E5M2, Accumulator::F16 | Accumulator::F32) => matches!(dimensions, (16, 8, 16 | 32)),
            (
                E4M3 | E5M2 | E3M2 | E2M3 | E2M1,
                E4M3 | E5M2 | E3M2 | E2M3 | E2M1,
                Accumulator::F16 | Accumulator::F32,
            ) => dimensions == (16, 8, 32),
            (S8 | U8, S8 | U8, Accumulator::S32) => matches!(dimensions, (16, 8, 16 | 32) | (8, 8, 16)),
            (F64, F64, Accumulator::F64) => matches!(dimensions, (8, 8, 4) | (16, 8, 4 | 8 | 16)),
            _ => false,
        };
        if valid && (!saturate || a.is_integer()) {
            Ok(Mma { shape, a, b, accumulator, saturate })
        } else {
            Err(UnsupportedMma { shape, a, b, accumulator, exact: false })
        }
    }

    /// The shape.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The type of A.
    pub const fn a(&self) -> Operand {
        self.a
    }

    /// The type of B.
    pub const fn b(&self) -> Operand {
        self.b
    }

    /// The type of C and D.
    pub const fn accumulator(&self) -> Accumulator {
        self.accumulator
    }

    /// Number of registers of A in each lane (64-bit ones for `.f64`).
    pub const fn a_registers(&self) -> usize {
        self.shape.m * self.shape.k / LANES / self.a.per_register()
    }

    /// Number of registers of B in each lane.
    pub const fn b_registers(&self) -> usize {
        self.shape.n * self.shape.k / LANES / self.b.per_register()
    }

    /// Number of registers of C, and of D, in each lane.
    pub const fn c_registers(&self) -> usize {
        let elements = self.shape.m * self.shape.n / LANES;
        if matches!(self.accumulator, Accumulator::F16) { elements / 2 } else { elements }
    }

    /// Checks that [`execute`](Self::execute) supports an arithmetic for this instruction. There is no bit-exact model
    /// of FP8 before Ada, which was the first with these products.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self, arithmetic: Arithmetic) -> Result<(), UnsupportedMma> {
        let Arithmetic::Exact(generation) = arithmetic else { return Ok(()) };
        let narrow = self.a.is_narrow() || self.b.is_narrow();
        if self.a.is_fp8() && generation.fp8_products() == Fp8Products::None
            || narrow && generation != Generation::BlackwellRtx
        {
            let Mma { shape, a, b, accumulator, .. } = *self;
            return Err(UnsupportedMma { shape, a, b, accumulator, exact: true });
        }
        Ok(())
    }

    /// The warp's product `D = A·B + C`, for types other than `.f64`. The slices have
    /// [`a_registers`](Self::a_registers), [`b_registers`](Self::b_registers) and [`c_registers`](Self::c_registers)
    /// entries. Further entries are ignored, and missing ones read as zero. If D has fewer entries than C, the missing
    /// ones are not written.
    #[inline]
    pub fn execute(&self, arithmetic: Arithmetic, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let fast_halves = arithmetic == Arithmetic::Fast
            && self.accumulator == Accumulator::F32
            && self.shape.k == 16
            && self.a.bits() == 16;
        if let (true, [a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3]) = (fast_halves, a, b, c) {
            let bf16 = self.a == Operand::Bf16;
            let result = matrix::m16n8k16_half(bf16, [a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3]);
            for (target, source) in d.iter_mut().zip(result) {
                *target = source;
            }
            return;
        }
        self.execute_general(arithmetic, a, b, c, d);
    }

    fn execute_general(&self, arithmetic: Arithmetic, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let Shape { m, n, k } = self.shape;
        let (a_bits, b_bits) = (self.a_matrix(a), self.b_matrix(b));
        let get = |row: usize, column: usize| self.c_bits(c, row, column);
        let mut result = [[0u32; 8]; 16];
        match (self.accumulator, arithmetic) {
            (Accumulator::S32, _) => {
                for (row, values) in result.iter_mut().enumerate().take(m) {
                    for (column, value) in values.iter_mut().enumerate() {
                        let sum = (0..k).fold(i64::from(get(row, column) as i32), |sum, i| {
                            let product = self.a.to_i32(a_bits[row][i]) * self.b.to_i32(b_bits[i][column]);
                            sum + i64::from(product)
                        });
                        let kept = if self.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
                        *value = kept as u32;
                    }
                }
            }
            (_, Arithmetic::Fast) => {
                self.execute_chains(a, b, c, d);
                return;
            }
            (_, Arithmetic::Exact(generation))
                if self.a.is_fp8() && generation.fp8_products() == Fp8Products::ThroughHalves =>
            {
                result = self.fp8_through_f16(&a_bits, &b_bits, get);
            }
            (_, Arithmetic::Exact(generation)) => {
                let unit = Unit::mma_sync(generation, self.a, self.accumulator, k);
                let columns: [Vector; 8] = std::array::from_fn(|column| {
                    let bits: [u32; 32] = std::array::from_fn(|i| b_bits[i][column]);
                    Vector::new(self.b, &bits[..k])
                });
                let rows: [Vector; 16] = std::array::from_fn(|row| Vector::new(self.a, &a_bits[row][..k]));
                result = std::array::from_fn(|row| std::array::from_fn(|column| get(row, column)));
                dot::multiply_matrices(&unit, &rows, &columns, &mut result);
            }
        }
        self.store(&result, n, d);
    }

    /// FP8 on Hopper and sm_100, which have no `mma.sync` of FP8. Their compiler widens to `.f16`, multiplies the elements for which
    /// `k mod 4` is 0 or 1, and accumulates the others onto that. Finally it adds C, rounded to nearest (SASS of ptxas
    /// 13.5 for sm_90a: `F2FP.F16.E4M3.UNPACK_B`, two `HMMA` that start from zero, `FADD` or `HADD2`).
    fn fp8_through_f16(
        &self,
        a: &[[u32; 32]; 16],
        b: &[[u32; 8]; 32],
        c: impl Fn(usize, usize) -> u32,
    ) -> [[u32; 8]; 16] {
        let k = self.shape.k;
        let order = || (0..k).filter(|i| i % 4 < 2).chain((0..k).filter(|i| i % 4 >= 2));
        let widen = |operand: Operand, bits: u32| {
            let kind = if operand == Operand::E4M3 { Fp8::E4M3 } else { Fp8::E5M2 };
            u32::from(fp8_to_f16(kind, bits as u8))
        };
        let unit = Unit::mma_sync(Generation::Hopper, Operand::F16, self.accumulator, k / 2);
        let vector = |elements: &mut dyn Iterator<Item = u32>| {
            let mut bits = [0; 32];
            bits.iter_mut().zip(elements).for_each(|(place, element)| *place = element);
            Vector::new(Operand::F16, &bits[..k])
        };
        let rows: [Vector; 16] = std::array::from_fn(|row| vector(&mut order().map(|i| widen(self.a, a[row][i]))));
        let columns: [Vector; 8] =
            std::array::from_fn(|column| vector(&mut order().map(|i| widen(self.b, b[i][column]))));
        let mut sums = [[0; 8]; 16];
        dot::multiply_matrices(&unit, &rows, &columns, &mut sums);
        std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                let (sum, addend) = (sums[row][column], c(row, column));
                if self.accumulator == Accumulator::F16 {
                    half::add::<F16Type>(sum as u16, addend as u16, HalfMode::default()).into()
                } else {
                    float::add_f32::<false, false>(f32::from_bits(addend), f32::from_bits(sum)).to_bits()
                }
            })
        })
    }

    /// The chains of `f32` fused multiply-adds, for floating-point shapes of 16 rows.
    fn execute_chains(&self, a: &[Lanes], b: &[Lanes], c: &[Lanes], d: &mut [Lanes]) {
        let mut left: matrix::Left = [[0.0; 32]; 16];
        let mut right = [[0f32; 8]; 32];
        for (register, lanes) in a.iter().enumerate().take(self.a_registers()) {
            self.a.spread(lanes, |lane, part, width, value| {
                let at = a_element(16, width, lane, register, part);
                left[at.row][at.column] = value;
            });
        }
        for (register, lanes) in b.iter().enumerate().take(self.b_registers()) {
            self.b.spread(lanes, |lane, part, width, value| {
                let at = b_element(width, lane, register, part);
                right[at.row][at.column] = value;
            });
        }
        let half = self.accumulator == Accumulator::F16;
        let mut sums = [[0; LANES]; 4];
        for (register, lanes) in sums.iter_mut().enumerate() {
            if half {
                if let Some(pairs) = c.get(register / 2) {
                    *lanes = pairs.map(|pair| f16_to_f32((pair >> (16 * (register % 2))) as u16).to_bits());
                }
            } else if let Some(given) = c.get(register) {
                *lanes = *given;
            }
        }
        matrix::multiply_blocks(&left, &right[..self.shape.k], self.shape.k, &mut sums);
        for (register, target) in d.iter_mut().enumerate().take(self.c_registers()) {
            *target = if half {
                let narrow = |bits: u32| u32::from(f32_to_f16(f32::from_bits(bits)));
                std::array::from_fn(|lane| {
                    narrow(sums[2 * register][lane]) | narrow(sums[2 * register + 1][lane]) << 16
                })
            } else {
                sums[register]
            };
        }
    }

    /// `execute` for `.f64`: each result is the chain of fused multiply-adds over increasing `k`.
    pub fn execute_f64(&self, a: &[[u64; LANES]], b: &[[u64; LANES]], c: &[[u64; LANES]], d: &mut [[u64; LANES]]) {
        let Shape { m, k, .. } = self.shape;
        let number = |registers: &[[u64; LANES]], register: usize, lane: usize| {
            registers.get(register).map_or(0.0, |lanes| f64::from_bits(lanes[lane]))
        };
        let mut left = [[0f64; 16]; 16];
        let mut right = [[0f64; 8]; 16];
        for lane in 0..LANES {
            for register in 0..self.a_registers() {
                let at = a_element(m, 1, lane, register, 0);
                left[at.row][at.column] = number(a, register, lane);
            }
            for register in 0..self.b_registers() {
                let at = b_element(1, lane, register, 0);
                right[at.row][at.column] = number(b, register, lane);
            }
        }
        let results = d.iter_mut().enumerate().take(self.c_registers());
        for (register, target) in results {
            for (lane, value) in target.iter_mut().enumerate() {
                let at = c_element(lane, register);
                let sum =
                    (0..k).fold(number(c, register, lane), |sum, i| left[at.row][i].mul_add(right[i][at.column], sum));
                *value = sum.to_bits();
            }
        }
    }

    fn a_matrix(&self, a: &[Lanes]) -> [[u32; 32]; 16] {
        let (width, bits) = (self.a.per_register(), self.a.bits());
        let mut matrix = [[0; 32]; 16];
        for (register, lanes) in a.iter().enumerate().take(self.a_registers()) {
            for (lane, value) in lanes.iter().enumerate() {
                for part in 0..width {
                    let at = a_element(self.shape.m, width, lane, register, part);
                    matrix[at.row][at.column] = part_of(*value, bits, part);
                }
            }
        }
        matrix
    }

    fn b_matrix(&self, b: &[Lanes]) -> [[u32; 8]; 32] {
        let (width, bits) = (self.b.per_register(), self.b.bits());
        let mut matrix = [[0; 8]; 32];
        for (register, lanes) in b.iter().enumerate().take(self.b_registers()) {
            for (lane, value) in lanes.iter().enumerate() {
                for part in 0..width {
                    let at = b_element(width, lane, register, part);
                    matrix[at.row][at.column] = part_of(*value, bits, part);
                }
            }
        }
        matrix
    }

    /// The accumulator's bits for an element: the inverse of [`c_element`].
    fn c_bits(&self, c: &[Lanes], row: usize, column: usize) -> u32 {
        let lane = 4 * (row % 8) + column / 2;
        let register = 2 * (row / 8) + column % 2;
        if self.accumulator == Accumulator::F16 {
            c.get(register / 2).map_or(0, |lanes| lanes[lane] >> (16 * (register % 2)) & 0xffff)
        } else {
            c.get(register).map_or(0, |lanes| lanes[lane])
        }
    }

    fn store(&self, result: &[[u32; 8]; 16], columns: usize, d: &mut [Lanes]) {
        debug_assert_eq!(columns, 8);
        for (register, lanes) in d.iter_mut().enumerate().take(self.c_registers()) {
            for (lane, value) in lanes.iter_mut().enumerate() {
                let bits = |register| {
                    let at = c_element(lane, register);
                    result[at.row][at.column]
                };
                *value = if self.accumulator == Accumulator::F16 {
                    bits(2 * register) | bits(2 * register + 1) << 16
                } else {
                    bits(register)
                };
            }
        }
    }
}

#[inline(always)]
fn part_of(register: u32, bits: usize, part: usize) -> u32 {
    if bits == 32 { register } else { register >> (bits * part) & ((1 << bits) - 1) }
}

#[cfg(test)]
mod tests {
    use super::super::convert::{Bf16Type, Half};
    use super::*;

    /// Small integers, exact in every type and every order of addition.
    fn small(operand: Operand, seed: usize) -> (u32, f64) {
        let value = (seed * 7 % 5) as f32 - if operand == Operand::U8 { 0.0 } else { 2.0 };
        let bits = match operand {
            Operand::F16 => f32_to_f16(value).into(),
            Operand::Bf16 => Bf16Type::narrow(value).into(),
            Operand::Tf32 => value.to_bits() | 0x1fff,
            Operand::E4M3 => super::super::convert::f32_to_fp8(Fp8::E4M3, value, false).into(),
            Operand::E5M2 => super::super::convert::f32_to_fp8(Fp8::E5M2, value, false).into(),
            Operand::S8 | Operand::U8 => (value as i32 as u32) & 0xff,
            // In a byte, as the formats have 0, 1 and 2.
            Operand::E3M2 | Operand::E2M3 | Operand::E2M1 => {
                let (place, format) = (if operand == Operand::E2M1 { 2 } else { 0 }, operand.format().unwrap());
                let bits = super::super::format::F32.decode(value.to_bits().into());
                (format.encode_value(bits, super::super::format::Rounding::NearestEven) as u32) << place
            }
            Operand::F64 => 0,
        };
        (bits, value.into())
    }

    fn all() -> Vec<Mma> {
        use Operand::*;
        let mut found = Vec::new();
        for (m, n) in [(16, 8), (8, 8)] {
            for k in [4, 8, 16, 32] {
                for a in [F16, Bf16, Tf32, E4M3, E5M2, E3M2, E2M3, E2M1, S8, U8] {
                    for b in [F16, Bf16, Tf32, E4M3, E5M2, E3M2, E2M3, E2M1, S8, U8] {
                        for c in [Accumulator::F16, Accumulator::F32, Accumulator::S32] {
                            found.extend(Mma::new(Shape { m, n, k }, a, b, c, false));
                        }
                    }
                }
            }
        }
        found
    }

    /// With a large C, the rounding tells in which order the two halves of `k` and C were added.
    #[test]
    fn fp8_on_hopper_is_two_products_of_halves_and_a_sum() {
        let shape = Shape { m: 16, n: 8, k: 32 };
        let mma = Mma::new(shape, Operand::E4M3, Operand::E4M3, Accumulator::F32, false).unwrap();
        let one = super::super::convert::f32_to_fp8(Fp8::E4M3, 1.0, false);
        let tiny = super::super::convert::f32_to_fp8(Fp8::E4M3, 2f32.powi(-9), false);
        // The first products are 2^-18 each, of elements 0 and 1 of every four; those of elements 2 and 3 are 1.
        let pattern = u32::from_le_bytes([tiny, tiny, one, one]);
        let (a, b) = ([[pattern; LANES]; 4], [[pattern; LANES]; 2]);
        for (c, expected) in [
            (0.0, 16.0 + 16.0 * 2f32.powi(-18)),
            // Rounded to nearest in the end, not cut: 2^24 + 16 + 2^-14 is a number of f32 but for the last term.
            (16_777_216.0, 16_777_232.0),
            (33_554_432.0 + 4.0, 33_554_452.0),
            // A tie between two numbers of f32, but for the last term.
            (33_554_432.0 - 14.0, 33_554_436.0),
        ] {
            let c = [[f32::to_bits(c); LANES]; 4];
            let mut d = [[0; LANES]; 4];
            mma.execute(Arithmetic::Exact(Generation::Hopper), &a, &b, &c, &mut d);
            assert_eq!(f32::from_bits(d[0][0]), expected, "{:?}", f32::from_bits(c[0][0]));
            assert_eq!(d, [[expected.to_bits(); LANES]; 4]);
        }
    }

    #[test]
    fn every_instruction_multiplies_matrices() {
        let instructions = all();
        // Of the 25 pairs of floats of up to 8 bits, 21 have one of 6 or 4.
        assert_eq!(instructions.len(), 2 * 2 + 2 + 2 + 4 * 2 * 2 + 21 * 2 + 4 * 3);
        for mma in instructions {
            let Shape { m, n, k } = mma.shape();
            let a_at = |row: usize, i: usize| small(mma.a(), 3 * row + 5 * i + row * i);
            let b_at = |i: usize, column: usize| small(mma.b(), 2 * column + 11 * i + column * i);
            let pack = |registers: usize, operand: Operand, f: &dyn Fn(usize, usize, usize) -> u32| -> Vec<Lanes> {
                let bits = operand.bits();
                (0..registers)
                    .map(|r| {
                        std::array::from_fn(|lane| {
                            (0..operand.per_register()).fold(0, |word, p| word | f(lane, r, p) << (bits * p % 32))
                        })
                    })
                    .collect()
            };
            let a = pack(mma.a_registers(), mma.a(), &|lane, r, p| {
                let at = a_element(m, mma.a().per_register(), lane, r, p);
                a_at(at.row, at.column).0
            });
            let b = pack(mma.b_registers(), mma.b(), &|lane, r, p| {
                let at = b_element(mma.b().per_register(), lane, r, p);
                b_at(at.row, at.column).0
            });
            let c_value = |row: usize, column: usize| (row as f64) - 2.0 * column as f64;
            let encode = |x: f64| match mma.accumulator() {
                Accumulator::F16 => u32::from(f32_to_f16(x as f32)),
                Accumulator::S32 => x as i32 as u32,
                Accumulator::F32 | Accumulator::F64 => (x as f32).to_bits(),
            };
            let place = |f: &dyn Fn(usize, usize) -> f64| -> Vec<Lanes> {
                (0..mma.c_registers())
                    .map(|r| {
                        std::array::from_fn(|lane| {
                            let bits = |register| {
                                let at = c_element(lane, register);
                                encode(f(at.row, at.column))
                            };
                            if mma.accumulator() == Accumulator::F16 {
                                bits(2 * r) | bits(2 * r + 1) << 16
                            } else {
                                bits(r)
                            }
                        })
                    })
                    .collect()
            };
            let expected = place(&|row, column| {
                c_value(row, column) + (0..k).map(|i| a_at(row, i).1 * b_at(i, column).1).sum::<f64>()
            });
            for arithmetic in
                [Arithmetic::Fast, Arithmetic::Exact(Generation::Hopper), Arithmetic::Exact(Generation::Ampere)]
            {
                if mma.check(arithmetic).is_err() {
                    continue;
                }
                let mut d = vec![[0; LANES]; mma.c_registers()];
                mma.execute(arithmetic, &a, &b, &place(&c_value), &mut d);
                assert_eq!(d, expected, "{mma:?} {arithmetic:?} {n}");
            }
        }
    }

    #[test]
    fn doubles() {
        for (m, k) in [(8, 4), (16, 4), (16, 8), (16, 16)] {
            let shape = Shape { m, n: 8, k };
            let mma = Mma::new(shape, Operand::F64, Operand::F64, Accumulator::F64, false).unwrap();
            let value = |row: usize, column: usize| (row * 31 + column * 17 % 13) as f64 * 0.25 - 3.0;
            let a: Vec<_> = (0..mma.a_registers())
                .map(|r| {
                    std::array::from_fn(|lane| {
                        let at = a_element(m, 1, lane, r, 0);
                        value(at.row, at.column).to_bits()
                    })
                })
                .collect();
            let b: Vec<_> = (0..mma.b_registers())
                .map(|r| {
                    std::array::from_fn(|lane| {
                        let at = b_element(1, lane, r, 0);
                        value(at.column, at.row).to_bits()
                    })
                })
                .collect();
            let c = vec![[1f64.to_bits(); LANES]; mma.c_registers()];
            let mut d = vec![[0; LANES]; mma.c_registers()];
            mma.execute_f64(&a, &b, &c, &mut d);
            for (register, lanes) in d.iter().enumerate() {
                for (lane, bits) in lanes.iter().enumerate() {
                    let at = c_element(lane, register);
                    let expected = 1.0 + (0..k).map(|i| value(at.row, i) * value(at.column, i)).sum::<f64>();
                    assert_eq!(f64::from_bits(*bits), expected);
                }
            }
        }
    }

    #[test]
    fn integer_sums_saturate_when_asked() {
        let shape = Shape { m: 16, n: 8, k: 32 };
        for (saturate, expected) in [(true, i32::MAX), (false, i32::MIN + 32 * 255 * 255 - 1)] {
            let mma = Mma::new(shape, Operand::U8, Operand::U8, Accumulator::S32, saturate).unwrap();
            let mut d = [[0; LANES]; 4];
            mma.execute(
                Arithmetic::Fast,
                &[[u32::MAX; 32]; 4],
                &[[u32::MAX; 32]; 2],
                &[[i32::MAX as u32; 32]; 4],
                &mut d,
            );
            assert_eq!(d, [[expected as u32; 32]; 4]);
        }
    }

    #[test]
    fn refusals_name_the_instruction() {
        let shape = Shape { m: 16, n: 8, k: 64 };
        let error = Mma::new(shape, Operand::S8, Operand::S8, Accumulator::S32, false).unwrap_err();
        assert!(error.to_string().starts_with("mma.sync m16n8k64 with S8 times S8 into S32 is not supported"));
        assert!(Mma::new(Shape { k: 16, ..shape }, Operand::Bf16, Operand::Bf16, Accumulator::F16, false).is_err());
        assert!(Mma::new(Shape { k: 16, ..shape }, Operand::F16, Operand::F16, Accumulator::F32, true).is_err());
    }
}
