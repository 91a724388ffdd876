//! Bit models of the tensor cores' dot products, per generation.
//!
//! The model (Xie et al., "MMA-Sim", arXiv 2511.10909, which reports equality with the hardware; not checked against
//! hardware here): the accumulator and the exact products of a group are aligned to the largest exponent among them.
//! They are truncated to a fixed number of fractional bits, and added exactly. The sum is truncated to `f32` (for `f16`
//! it is rounded to nearest even). An operand's exponent is that of its format's normalised form. Subnormals and
//! products are not normalised, and a zero has the exponent −126.
//! - Ampere and Ada: 24 fractional bits, groups of 16 bytes of A (8 halves, 4 `.tf32`), one after the other. Ada's FP8:
//!   13 bits, groups of 16 elements, each group's `f32` result cut to 13 mantissa bits.
//! - Hopper and both Blackwells, `mma.sync` and `wgmma`: 25 bits, all of `k` in one group, FP8 of sm_120 too. `wgmma` of
//!   FP8: 13 bits, results cut to 13 mantissa bits.
//! - Blackwell `tcgen05.mma`: 25 bits, all of `k` in one group, for FP8, too.
//!
//! A NaN, or infinities of both signs, give the canonical NaN. A sum of zero is +0.

use super::format::{Exact, F16, F32, Format, Rounding, Value};
use super::operand::{Accumulator, Operand};
use std::ops::Range;

/// A generation of tensor cores with a bit model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generation {
    /// Third generation: sm_80, sm_86, sm_87 (A100, RTX 30).
    Ampere,
    /// Fourth generation: sm_89 (L4, L40S, RTX 40).
    Ada,
    /// Fourth generation: sm_90 (H100, H200).
    Hopper,
    /// Fifth generation: sm_100 (B200).
    Blackwell,
    /// Fifth generation: sm_120, sm_121 (RTX 50, RTX PRO 6000, DGX Spark).
    BlackwellRtx,
}

/// How a generation multiplies FP8 by `mma.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fp8Products {
    /// It does not.
    None,
    /// Its compiler widens the elements to `.f16`.
    ThroughHalves,
    /// By instructions of the machine.
    Native,
}

impl Generation {
    pub(super) const fn fp8_products(self) -> Fp8Products {
        match self {
            Generation::Ampere => Fp8Products::None,
            Generation::Hopper | Generation::Blackwell => Fp8Products::ThroughHalves,
            Generation::Ada | Generation::BlackwellRtx => Fp8Products::Native,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    F32,
    /// `f32` with its mantissa truncated to 13 bits.
    F32Short,
    F16,
}

/// The adder of one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    group: usize,
    fraction_bits: i32,
    output: Output,
}

impl Unit {
    /// The adder of `mma.sync` with `k` products of a floating-point type of at most 32 bits.
    pub const fn mma_sync(generation: Generation, operand: Operand, accumulator: Accumulator, k: usize) -> Self {
        let output = if matches!(accumulator, Accumulator::F16) { Output::F16 } else { Output::F32 };
        match generation {
            Generation::Ada if operand.is_fp8() => {
                let output = if matches!(accumulator, Accumulator::F16) { Output::F16 } else { Output::F32Short };
                Unit { group: 16, fraction_bits: 13, output }
            }
            Generation::Ampere | Generation::Ada => Unit { group: 128 / operand.bits(), fraction_bits: 24, output },
            Generation::Hopper | Generation::Blackwell | Generation::BlackwellRtx => {
                Unit { group: k, fraction_bits: 25, output }
            }
        }
    }

    /// The adder of `wgmma` with `k` products.
    pub const fn wgmma(operand: Operand, accumulator: Accumulator, k: usize) -> Self {
        let output = match (accumulator, operand.is_fp8()) {
            (Accumulator::F16, _) => Output::F16,
            (_, true) => Output::F32Short,
            (_, false) => Output::F32,
        };
        Unit { group: k, fraction_bits: if operand.is_fp8() { 13 } else { 25 }, output }
    }

    /// The adder of `tcgen05.mma` with `k` products: that of Hopper's `mma.sync`, for FP8, too.
    pub const fn tcgen05(accumulator: Accumulator, k: usize) -> Self {
        let output = if matches!(accumulator, Accumulator::F16) { Output::F16 } else { Output::F32 };
        Unit { group: k, fraction_bits: 25, output }
    }

    const fn accumulator_format(&self) -> Format {
        match self.output {
            Output::F16 => F16,
            Output::F32 | Output::F32Short => F32,
        }
    }
}

/// The exponent to which a zero is aligned.
pub(super) const ZERO_EXPONENT: i32 = -126;

/// The largest number of products that an instruction sums.
pub const LONGEST: usize = 32;

/// A row of A or a column of B, decoded once for all products that use it.
#[derive(Debug, Clone)]
pub struct Vector {
    length: usize,
    /// Signed integers; the value is `significand · 2^(exponent − fraction)`.
    significands: [i32; LONGEST],
    exponents: [i32; LONGEST],
    fraction: i32,
    /// The elements themselves, if one of them is infinite or NaN.
    specials: Option<Box<[Value; LONGEST]>>,
}

impl Vector {
    /// Decodes elements. Only the first [`LONGEST`] count. Types without a floating-point format count as zero.
    pub fn new(operand: Operand, elements: &[u32]) -> Self {
        let format = operand.format().unwrap_or(F32);
        let fraction = format.mantissa_bits as i32;
        let length = elements.len().min(LONGEST);
        let mut vector = Vector {
            length,
            significands: [0; LONGEST],
            exponents: [ZERO_EXPONENT; LONGEST],
            fraction,
            specials: None,
        };
        let mut values = [Value::Finite(Exact::zero(false)); LONGEST];
        let mut special = false;
        if operand.format().is_some() {
            for (i, bits) in elements.iter().take(length).enumerate() {
                values[i] = format.decode(operand.payload(*bits).into());
                match values[i] {
                    Value::Finite(number) => {
                        let magnitude = number.mantissa as i32;
                        vector.significands[i] = if number.negative { -magnitude } else { magnitude };
                        vector.exponents[i] = aligned_exponent(number, format);
                    }
                    Value::Infinite(_) | Value::Nan => special = true,
                }
            }
        }
        vector.specials = special.then(|| Box::new(values));
        vector
    }

    /// The vector times a power of two. A zero is scaled, too: its exponent counts.
    pub fn scaled(mut self, exponent: i32) -> Self {
        self.exponents.iter_mut().for_each(|own| *own += exponent);
        self
    }

    fn value(&self, index: usize) -> Value {
        match &self.specials {
            Some(values) => values[index],
            None => Value::Finite(Exact {
                negative: self.significands[index] < 0,
                mantissa: self.significands[index].unsigned_abs().into(),
                exponent: 0,
            }),
        }
    }
}

fn aligned_exponent(number: Exact, format: Format) -> i32 {
    if number.is_zero() { ZERO_EXPONENT } else { number.exponent + format.mantissa_bits as i32 }
}

/// [`multiply_add`] of every row with every column. `sums` holds the accumulators and gets the results.
pub fn multiply_matrices(unit: &Unit, rows: &[Vector], columns: &[Vector], sums: &mut [[u32; 8]]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the processor has the features.
        unsafe { multiply_matrices_avx2(unit, rows, columns, sums) };
        return;
    }
    multiply_matrices_portable(unit, rows, columns, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,lzcnt,bmi1,bmi2")]
fn multiply_matrices_avx2(unit: &Unit, rows: &[Vector], columns: &[Vector], sums: &mut [[u32; 8]]) {
    multiply_matrices_portable(unit, rows, columns, sums);
}

#[inline(always)]
fn multiply_matrices_portable(unit: &Unit, rows: &[Vector], columns: &[Vector], sums: &mut [[u32; 8]]) {
    for (row, sums) in rows.iter().zip(sums) {
        for (column, sum) in columns.iter().zip(sums) {
            *sum = multiply_add(unit, row, column, *sum);
        }
    }
}

/// `Σ a[i]·b[i] + c` as the unit computes it. `c` and the result are bits of the accumulator's type.
#[inline(always)]
pub fn multiply_add(unit: &Unit, a: &Vector, b: &Vector, c: u32) -> u32 {
    let length = a.length.min(b.length);
    let group = unit.group.max(1);
    let mut sum = c;
    let mut first = 0;
    while first < length {
        let last = (first + group).min(length);
        sum = add_group(unit, a, b, first..last, sum);
        first = last;
    }
    sum
}

/// The sum of products of blocks and `c`, which is bits of `f32`, as sm_120 adds products with block scales of 64 elements.
/// A block is an integer with `fraction` fractional bits, and an exponent.
pub fn add_blocks(blocks: &[(i64, i32)], fraction: i32, c: u32) -> u32 {
    let unit = Unit { group: blocks.len(), fraction_bits: 35, output: Output::F32 };
    let addend = match F32.decode(c.into()) {
        Value::Finite(addend) => addend,
        Value::Infinite(_) => return c,
        Value::Nan => return F32.canonical_nan() as u32,
    };
    let addend_exponent = aligned_exponent(addend, F32);
    let greatest = blocks.iter().fold(addend_exponent, |greatest, (_, exponent)| greatest.max(*exponent));
    let cut = |magnitude: u64, fraction: i32, exponent: i32| {
        let shift = unit.fraction_bits - fraction + (exponent - greatest);
        if shift >= 0 { magnitude << shift } else { magnitude >> (-shift).min(63) }
    };
    let signed = |negative: bool, magnitude: u64| if negative { -(magnitude as i64) } else { magnitude as i64 };
    let of_blocks = blocks.iter().map(|&(sum, exponent)| signed(sum < 0, cut(sum.unsigned_abs(), fraction, exponent)));
    let of_addend = cut(addend.mantissa as u64, F32.mantissa_bits as i32, addend_exponent);
    normalise(&unit, of_blocks.sum::<i64>() + signed(addend.negative, of_addend), greatest - unit.fraction_bits)
}

/// The effect of infinities and NaN among the summands.
#[derive(Debug, Clone, Copy, Default)]
struct Specials {
    nan: bool,
    positive: bool,
    negative: bool,
}

impl Specials {
    fn infinity(&mut self, negative: bool) {
        if negative {
            self.negative = true;
        } else {
            self.positive = true;
        }
    }

    fn product(&mut self, x: Value, y: Value) {
        match (x, y) {
            (Value::Infinite(p), Value::Infinite(q)) => self.infinity(p != q),
            (Value::Infinite(p), Value::Finite(number)) | (Value::Finite(number), Value::Infinite(p)) => {
                if number.is_zero() {
                    self.nan = true;
                } else {
                    self.infinity(p != number.negative);
                }
            }
            (Value::Nan, _) | (_, Value::Nan) => self.nan = true,
            (Value::Finite(_), Value::Finite(_)) => {}
        }
    }

    fn result(self, format: Format) -> Option<u64> {
        match self {
            Specials { nan: true, .. } | Specials { positive: true, negative: true, .. } => {
                Some(format.canonical_nan())
            }
            Specials { positive: true, .. } => format.infinity(),
            Specials { negative: true, .. } => format.infinity().map(|bits| bits | format.sign_bit()),
            Specials { .. } => None,
        }
    }
}

#[inline(always)]
fn add_group(unit: &Unit, a: &Vector, b: &Vector, range: Range<usize>, c: u32) -> u32 {
    let format = unit.accumulator_format();
    let addend = format.decode(c.into());
    let Value::Finite(addend) = addend else {
        return add_specials(unit, a, b, range, addend);
    };
    if a.specials.is_some() || b.specials.is_some() {
        let specials = add_specials_of(a, b, range.clone(), Value::Finite(addend));
        if let Some(bits) = specials.result(format) {
            return bits as u32;
        }
    }
    let addend_exponent = aligned_exponent(addend, format);
    let exponents = a.exponents[range.clone()].iter().zip(&b.exponents[range.clone()]);
    let greatest = exponents.clone().fold(addend_exponent, |greatest, (x, y)| greatest.max(x + y));
    let significands = a.significands[range.clone()].iter().zip(&b.significands[range]);
    // The products of every type have fewer fractional bits than the unit.
    let unit_shift = (unit.fraction_bits - a.fraction - b.fraction).max(0);
    let mut sum = 0i64;
    for ((x, y), (e, f)) in significands.zip(exponents) {
        let product = i64::from(x * y);
        let cut = (product.unsigned_abs() << unit_shift) >> (greatest - (e + f)).min(63);
        sum += if product < 0 { -(cut as i64) } else { cut as i64 };
    }
    let shift = unit.fraction_bits - format.mantissa_bits as i32 + (addend_exponent - greatest);
    let magnitude = addend.mantissa as u64;
    let cut = if shift >= 0 { magnitude << shift } else { magnitude >> (-shift).min(63) };
    sum += if addend.negative { -(cut as i64) } else { cut as i64 };
    normalise(unit, sum, greatest - unit.fraction_bits)
}

#[cold]
fn add_specials_of(a: &Vector, b: &Vector, range: Range<usize>, addend: Value) -> Specials {
    let mut specials = Specials::default();
    for i in range {
        specials.product(a.value(i), b.value(i));
    }
    match addend {
        Value::Infinite(negative) => specials.infinity(negative),
        Value::Nan => specials.nan = true,
        Value::Finite(_) => {}
    }
    specials
}

/// The sum if the accumulator is infinite or NaN; the result then is, too.
fn add_specials(unit: &Unit, a: &Vector, b: &Vector, range: Range<usize>, addend: Value) -> u32 {
    let format = unit.accumulator_format();
    let specials = add_specials_of(a, b, range, addend);
    specials.result(format).unwrap_or(format.canonical_nan()) as u32
}

/// `sum · 2^exponent` as the unit's output type.
#[inline(always)]
fn normalise(unit: &Unit, sum: i64, exponent: i32) -> u32 {
    // A sum of zeros, and a sum that is truncated to zero, have no sign.
    if sum == 0 {
        return 0;
    }
    let magnitude = sum.unsigned_abs();
    let top = 63 - magnitude.leading_zeros() as i32;
    let field = exponent + top + 127;
    let sign = if sum < 0 { 0x8000_0000 } else { 0 };
    if unit.output != Output::F16 && (1..255).contains(&field) {
        // A normal f32: cut below the leading one, which the field's sum with it makes implicit.
        let mantissa = if top > 23 { magnitude >> (top - 23) } else { magnitude << (23 - top) } as u32;
        let kept = if unit.output == Output::F32Short { mantissa & !0x3ff } else { mantissa };
        return sign | (((field as u32 - 1) << 23) + kept);
    }
    let number = Exact { negative: sum < 0, mantissa: magnitude.into(), exponent };
    let bits = match unit.output {
        Output::F16 => F16.encode(number, Rounding::NearestEven) as u32,
        Output::F32 => toward_zero(F32, number),
        // f32's exponents with 13 mantissa bits, in the upper bits of an f32.
        Output::F32Short => toward_zero(Format { mantissa_bits: 13, ..F32 }, number) << 10,
    };
    let minus_zero = if unit.output == Output::F16 { 0x8000 } else { 0x8000_0000 };
    if bits == minus_zero { 0 } else { bits }
}

/// Truncates; numbers beyond the format's range become infinite.
fn toward_zero(format: Format, number: Exact) -> u32 {
    let bits = format.encode(number, Rounding::TowardZero);
    let largest = bits & (format.sign_bit() - 1) == format.largest();
    let beyond = largest && number.normalised(100).exponent + 100 > format.bias();
    (if beyond { bits + 1 } else { bits }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The model once more, in floating point: significands are `f64` numbers and cutting is `trunc`. Every quantity is
    /// exact in `f64` (at most 48 bits), so this shares nothing but the definition.
    fn by_floats(
        fraction_bits: i32,
        half_output: bool,
        short: bool,
        products: &[(f64, i32, f64, i32)],
        c: (f64, i32),
    ) -> u32 {
        fn split(x: f64, minimum: i32) -> (f64, i32) {
            if x == 0.0 {
                return (0.0, -126);
            }
            let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(minimum);
            (x / 2f64.powi(exponent), exponent)
        }
        let all: f64 = products.iter().map(|p| p.0 * p.2).sum::<f64>() + c.0;
        if all.is_nan() {
            return if half_output { 0x7fff } else { 0x7fff_ffff };
        }
        if all.is_infinite() {
            let sign = u32::from(all < 0.0);
            return if half_output { sign << 15 | 0x7c00 } else { (all as f32).to_bits() };
        }
        let mut terms: Vec<(f64, i32)> = products
            .iter()
            .map(|&(x, x_minimum, y, y_minimum)| {
                let ((sx, ex), (sy, ey)) = (split(x, x_minimum), split(y, y_minimum));
                (sx * sy, ex + ey)
            })
            .collect();
        terms.push(split(c.0, c.1));
        let top = terms.iter().map(|t| t.1).max().unwrap();
        let unit = 2f64.powi(fraction_bits);
        let sum: f64 = terms.iter().map(|(s, e)| (s * unit * 2f64.powi((e - top).max(-400))).trunc() / unit).sum();
        if sum == 0.0 {
            return 0;
        }
        let minimum = if half_output { -14 } else { -126 };
        // Split the significand and the power separately: sum · 2^top may lie outside f64's normal range.
        let (s, e) = split(sum, -1000);
        let e = e + top;
        let (s, e) = if e < minimum { (s * 2f64.powi((e - minimum).max(-300)), minimum) } else { (s, e) };
        let mantissa = if half_output {
            10
        } else if short {
            13
        } else {
            23
        };
        let scaled = s * 2f64.powi(mantissa);
        let kept = if half_output { scaled.round_ties_even() } else { scaled.trunc() } / 2f64.powi(mantissa);
        if kept == 0.0 {
            return 0;
        }
        if half_output {
            let x = kept * 2f64.powi(e);
            if x.abs() >= 65536.0 {
                return if x < 0.0 { 0xfc00 } else { 0x7c00 };
            }
            return u32::from(super::super::convert::f32_to_f16(x as f32));
        }
        let x = if e > 127 { kept * f64::INFINITY } else { kept * 2f64.powi(e) };
        (x as f32).to_bits()
    }

    const OPERANDS: [Operand; 5] = [Operand::F16, Operand::Bf16, Operand::Tf32, Operand::E4M3, Operand::E5M2];

    /// Bits of an operand: anything, or numbers of similar size so that cancellation and alignment happen.
    fn operand_bits(operand: Operand, raw: u32, mode: u32) -> u32 {
        let format = operand.format().unwrap();
        let mask = ((1u64 << format.bits()) - 1) as u32;
        let exponent_mask = ((1u32 << format.exponent_bits) - 1) << format.mantissa_bits;
        let bits = match mode {
            0 => raw & mask,
            1 => (raw & mask & !exponent_mask) | ((format.bias() as u32 + (raw >> 28) % 4 - 2) << format.mantissa_bits),
            2 => raw & mask & !(exponent_mask & !(1 << format.mantissa_bits)),
            _ => {
                if raw & 0x70 == 0 {
                    0
                } else {
                    raw & mask & !(1 << (format.bits() - 2))
                }
            }
        };
        if operand == Operand::Tf32 { bits << 13 | (raw & 0x1fff) } else { bits }
    }

    fn value(operand: Operand, bits: u32) -> (f64, i32) {
        let format = operand.format().unwrap();
        (operand.to_f32(bits).into(), format.minimum_exponent())
    }

    fn check(
        unit: &Unit,
        groups: usize,
        a: Operand,
        b: Operand,
        xs: &[u32],
        ys: &[u32],
        c: u32,
    ) -> Result<(), TestCaseError> {
        let found = multiply_add(unit, &Vector::new(a, xs), &Vector::new(b, ys), c);
        let half_output = unit.output == Output::F16;
        let mut sum = c;
        let length = xs.len() / groups;
        for (x, y) in xs.chunks(length).zip(ys.chunks(length)) {
            let products: Vec<_> = x
                .iter()
                .zip(y)
                .map(|(&x, &y)| {
                    let ((x, xm), (y, ym)) = (value(a, x), value(b, y));
                    (x, xm, y, ym)
                })
                .collect();
            let start = if half_output {
                (f64::from(super::super::convert::f16_to_f32(sum as u16)), -14)
            } else {
                (f64::from(f32::from_bits(sum)), -126)
            };
            sum = by_floats(unit.fraction_bits, half_output, unit.output == Output::F32Short, &products, start);
        }
        prop_assert_eq!(found, sum, "{:?} {:?}: {:#x} against {:#x}", unit, a, found, sum);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn integers_agree_with_floats(
            raw in proptest::collection::vec(any::<u32>(), 64),
            c in any::<u32>(), mode in 0u32..4, c_mode in 0u32..3, which in 0usize..5, other in any::<bool>(),
        ) {
            let a = OPERANDS[which];
            let b = if a.is_fp8() && other { OPERANDS[7 - which] } else { a };
            let k = 256 / a.bits();
            let xs: Vec<_> = raw[..k].iter().map(|&r| operand_bits(a, r, mode)).collect();
            let ys: Vec<_> = raw[32..32 + k].iter().map(|&r| operand_bits(b, r.rotate_left(9), mode)).collect();
            let c32 = match c_mode { 0 => c, 1 => (c & 0x807f_ffff) | (124 + (c >> 28 & 7)) << 23, _ => 0 };
            let c16 = match c_mode { 0 => c & 0xffff, 1 => (c & 0x83ff) | (13 + (c >> 28 & 3)) << 10, _ => 0 };
            for (accumulator, c) in [(Accumulator::F32, c32), (Accumulator::F16, c16)] {
                check(&Unit::mma_sync(Generation::Hopper, a, accumulator, k), 1, a, b, &xs, &ys, c)?;
                check(&Unit::mma_sync(Generation::Ampere, a, accumulator, k), 2, a, b, &xs, &ys, c)?;
                check(&Unit::wgmma(a, accumulator, k), 1, a, b, &xs, &ys, c)?;
            }
        }
    }

    #[test]
    fn known_cuts() {
        let half = |x: f32| u32::from(super::super::convert::f32_to_f16(x));
        let hopper = Unit::mma_sync(Generation::Hopper, Operand::F16, Accumulator::F32, 16);
        let ampere = Unit::mma_sync(Generation::Ampere, Operand::F16, Accumulator::F32, 16);
        let sum = |unit: &Unit, x: &[f32], c: f32| {
            let xs: Vec<_> = x.iter().map(|&x| half(x)).collect();
            let ones = vec![half(1.0); xs.len()];
            let vector = |bits: &[u32]| Vector::new(Operand::F16, bits);
            f32::from_bits(multiply_add(unit, &vector(&xs), &vector(&ones), c.to_bits()))
        };
        let eps = 2f32.powi(-24);
        // 2^-24 under 1 is cut to zero by neither adder's alignment (24 and 25 bits) but by the result's 23.
        assert_eq!(sum(&hopper, &[1.0, eps], 0.0), 1.0);
        // Two of them survive the alignment of both and make 2^-23.
        assert_eq!(sum(&hopper, &[1.0, eps, eps], 0.0), 1.0 + 2.0 * eps);
        assert_eq!(sum(&ampere, &[1.0, eps, eps], 0.0), 1.0 + 2.0 * eps);
        // With 2 in the sum they need 25 bits: Hopper keeps them, Ampere does not.
        assert_eq!(sum(&hopper, &[2.0, eps, eps, eps, eps], 0.0), 2.0 + 4.0 * eps);
        assert_eq!(sum(&ampere, &[2.0, eps, eps, eps, eps], 0.0), 2.0);
        // On Ampere the second half of k is added to the rounded first half.
        let mut split = [0.0; 16];
        (split[0], split[8], split[9]) = (1.0, eps, -1.0);
        assert_eq!(sum(&ampere, &split, 0.0), eps);
        assert_eq!(sum(&hopper, &[-1.0, 1.0], -0.0).to_bits(), 0);
        assert_eq!(sum(&hopper, &[f32::INFINITY], 0.0), f32::INFINITY);
        assert!(sum(&hopper, &[f32::INFINITY], f32::NEG_INFINITY).is_nan());
        assert_eq!(sum(&hopper, &[65504.0], f32::MAX), f32::MAX);
    }
}
