//! Functions of lanes. The approximations are those of [`crate::simd`], operation by operation, so that they give the same
//! bits.

use super::body::{Binary, Body, JitNode, JitValue, Unary};

/// Added to an f32 of small magnitude, it rounds that to an integer n, and the low bits hold n + 127: shifted left by 23, they
/// are `2^n`.
const SHIFT: f32 = 12_582_912.0 + 127.0;
const SIGN: u32 = 1 << 31;
/// The least exponent by which exponentials are scaled. Intel's CPUs give 0 at once for it. For exponents from -511 to
/// -127, a vector takes 15 ns in place of 0.1 (a Xeon with AMX). Masking these lanes would take as long.
const FAR_BELOW: i32 = -520;
/// A power of two that rounds every number that it scales to 0.
const TO_ZERO: f32 = -152.0;

/// Arithmetic.
impl Body {
    pub(crate) fn add(&mut self, a: JitValue, b: JitValue) -> JitValue {
        self.binary(Binary::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: JitValue, b: JitValue) -> JitValue {
        self.binary(Binary::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: JitValue, b: JitValue) -> JitValue {
        self.binary(Binary::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: JitValue, b: JitValue) -> JitValue {
        self.binary(Binary::Div, a, b)
    }

    /// The smaller; NaN if either is NaN; -0 is below +0.
    pub(crate) fn minimum(&mut self, a: JitValue, b: JitValue) -> JitValue {
        // Where the operands are not in order, each of the two instructions gives its second operand: of zeros the
        // negative one stays in the union of their bits, and of anything and NaN, NaN.
        let (first, second) = (self.binary(Binary::FirstLess, a, b), self.binary(Binary::FirstLess, b, a));
        self.binary(Binary::Or, first, second)
    }

    /// The larger; NaN if either is NaN; +0 is above -0.
    pub(crate) fn maximum(&mut self, a: JitValue, b: JitValue) -> JitValue {
        let (first, second) = (self.binary(Binary::FirstGreater, a, b), self.binary(Binary::FirstGreater, b, a));
        let common = self.binary(Binary::And, first, second);
        let nan = self.binary(Binary::Unordered, a, b);
        self.binary(Binary::Or, common, nan)
    }

    pub(crate) fn neg(&mut self, x: JitValue) -> JitValue {
        let sign = self.bits(SIGN);
        self.binary(Binary::Xor, x, sign)
    }

    pub(crate) fn abs(&mut self, x: JitValue) -> JitValue {
        let rest = self.bits(!SIGN);
        self.binary(Binary::And, x, rest)
    }

    fn copy_sign(&mut self, magnitude: JitValue, of: JitValue) -> JitValue {
        let (magnitude, sign) = (self.abs(magnitude), self.bits(SIGN));
        let sign = self.binary(Binary::And, of, sign);
        self.binary(Binary::Or, magnitude, sign)
    }

    /// Rounds to an integer, ties away from zero.
    pub(crate) fn round(&mut self, x: JitValue) -> JitValue {
        let half = self.float(0.499_999_97);
        let half = self.copy_sign(half, x);
        let sum = self.add(x, half);
        self.unary(Unary::Round(3), sum)
    }

    pub(crate) fn reciprocal(&mut self, x: JitValue) -> JitValue {
        let one = self.float(1.0);
        self.div(one, x)
    }

    /// Down a list of coefficients, the highest power's first.
    fn polynomial(&mut self, x: JitValue, coefficients: &[f32]) -> JitValue {
        let mut sum = self.float(coefficients[0]);
        for c in &coefficients[1..] {
            let c = self.float(*c);
            sum = self.fma(x, sum, c);
        }
        sum
    }

    /// Applies a function of f64s to all lanes.
    fn by_halves(&mut self, x: &[JitValue], f: impl Fn(&mut Self, &[JitValue]) -> JitValue) -> JitValue {
        let half = |body: &mut Self, widen: Unary| {
            let wide: Vec<JitValue> = x.iter().map(|x| body.unary(widen, *x)).collect();
            let y = f(body, &wide);
            body.unary(Unary::Narrow, y)
        };
        let (low, high) = (half(self, Unary::WidenLow), half(self, Unary::WidenHigh));
        self.binary(Binary::Join, low, high)
    }

    /// `1 / √x`, in f64, so that it is rounded only once.
    pub(crate) fn inverse_root(&mut self, x: JitValue) -> JitValue {
        self.by_halves(&[x], |body, x| {
            let (root, one) = (body.unary(Unary::SqrtF64, x[0]), body.double(1.0));
            body.binary(Binary::DivF64, one, root)
        })
    }
}

/// Exponentials.
impl Body {
    /// Between bounds; NaN stays.
    fn hold(&mut self, x: JitValue, low: f32, high: f32) -> JitValue {
        let (low, high) = (self.float(low), self.float(high));
        let x = self.binary(Binary::FirstGreater, low, x);
        self.binary(Binary::FirstLess, high, x)
    }

    fn not_above(&mut self, x: JitValue, high: f32) -> JitValue {
        let high = self.float(high);
        self.binary(Binary::FirstLess, high, x)
    }

    /// Splits a number: the rest without the nearest multiple of ln 2, the multiple as an f32, and the multiple with
    /// [`SHIFT`] added.
    fn reduce(&mut self, x: JitValue) -> (JitValue, JitValue, JitValue) {
        let (log2_e, shift) = (self.float(std::f32::consts::LOG2_E), self.float(SHIFT));
        let shifted = self.fma(x, log2_e, shift);
        let n = self.sub(shifted, shift);
        let (high, low) = (self.float(-355.0 / 512.0), self.float(2.121_944_4e-4));
        let r = self.fma(n, high, x);
        (self.fma(n, low, r), n, shifted)
    }

    /// `e^r` for |r| ≤ 0.35.
    fn exp_reduced(&mut self, r: JitValue) -> JitValue {
        self.polynomial(r, &[0.001_388_239_6, 0.008_367_181, 0.041_667_223, 0.166_665_39, 0.499_999_97, 1.0, 1.0])
    }

    /// `2^n` of `n + SHIFT`, for -127 ≤ n < 128; 0 for -127.
    fn power_of_two(&mut self, shifted: JitValue) -> JitValue {
        self.unary(Unary::ShiftLeft(23), shifted)
    }

    /// `p · 2^n`, rounded once, by instructions that every CPU has.
    fn scale(&mut self, p: JitValue, n: JitValue) -> JitValue {
        let (least, shift) = (self.float(TO_ZERO), self.float(SHIFT + 127.0));
        let n = self.binary(Binary::FirstGreater, n, least);
        // Twice the bias and n, in two halves. Bits above the lowest 9 are shifted out.
        let both = self.add(n, shift);
        let half = self.unary(Unary::ShiftRight(1), both);
        let rest = self.binary(Binary::SubI32, both, half);
        let (half, rest) = (self.power_of_two(half), self.power_of_two(rest));
        let p = self.mul(p, half);
        self.mul(p, rest)
    }

    /// This body by instructions that every CPU has, with the values unchanged.
    pub(super) fn by_common_instructions(&self) -> Self {
        let mut body = if self.is_wide { Self::wide() } else { Self::default() };
        body.arguments.clone_from(&self.arguments);
        body.period = self.period;
        let mut values: Vec<JitValue> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            values.push(match node.with_operands(|value| values[value.index()]) {
                JitNode::Binary(Binary::Scale, p, n) => body.scale(p, n),
                JitNode::Binary(Binary::MulI64, a, b) => body.product_of_halves(a, b),
                JitNode::Binary(Binary::LeastI64, a, b) => {
                    let greater = body.binary(Binary::GreaterI64, a, b);
                    body.select(greater, b, a)
                }
                JitNode::Binary(Binary::GreatestI64, a, b) => {
                    let greater = body.binary(Binary::GreaterI64, a, b);
                    body.select(greater, a, b)
                }
                node => body.node(node),
            });
        }
        (body.states, body.state_lanes) = (self.states.clone(), self.state_lanes);
        body.stores = self.stores.iter().map(|(target, value)| (*target, values[value.index()])).collect();
        body
    }

    pub(crate) fn exp(&mut self, x: JitValue) -> JitValue {
        let x = self.hold(x, FAR_BELOW as f32 * std::f32::consts::LN_2, 89.0);
        let (r, n, _) = self.reduce(x);
        let p = self.exp_reduced(r);
        self.binary(Binary::Scale, p, n)
    }

    pub(crate) fn exp2(&mut self, x: JitValue) -> JitValue {
        let x = self.hold(x, FAR_BELOW as f32, 129.0);
        let shift = self.float(SHIFT);
        let shifted = self.add(x, shift);
        let n = self.sub(shifted, shift);
        let (rest, ln_2) = (self.sub(x, n), self.float(std::f32::consts::LN_2));
        let r = self.mul(rest, ln_2);
        let p = self.exp_reduced(r);
        self.binary(Binary::Scale, p, n)
    }

    pub(crate) fn tanh(&mut self, x: JitValue) -> JitValue {
        let s = self.mul(x, x);
        let p = [-0.005_895_158_3, 0.020_795_971, -0.053_783_83, 0.133_319_24, -0.333_333];
        let (p, cube) = (self.polynomial(s, &p), self.mul(x, s));
        let small = self.fma(cube, p, x);

        let (magnitude, two) = (self.abs(x), self.float(2.0));
        let twice = self.mul(two, magnitude);
        let held = self.not_above(twice, 20.0);
        let (r, _, shifted) = self.reduce(held);
        let (p, power) = (self.exp_reduced(r), self.power_of_two(shifted));
        let (e, one) = (self.mul(p, power), self.float(1.0));
        let below = self.add(e, one);
        let quotient = self.div(two, below);
        let large = self.sub(one, quotient);
        let bound = self.float(1.2);
        let is_small = self.binary(Binary::Less, twice, bound);
        let y = self.select(is_small, small, large);
        self.copy_sign(y, x)
    }

    pub(crate) fn erf(&mut self, x: JitValue) -> JitValue {
        let s = self.mul(x, x);
        let p = [
            7.853_861_5e-5,
            -8.010_193_7e-4,
            0.005_188_327_7,
            -0.026_853_813,
            0.112_835_854,
            -0.376_126_26,
            0.128_379_17,
        ];
        let p = self.polynomial(s, &p);
        let small = self.fma(x, p, x);

        let magnitude = self.abs(x);
        let y = self.not_above(magnitude, 4.0);
        let q =
            [1.365_906_8e-5, -3.474_547e-4, 0.003_744_263_2, -0.023_981_042, 0.106_495_775, 0.634_991_7, 1.128_688_6];
        let q = self.polynomial(y, &q);
        let product = self.mul(y, q);
        let exponent = self.neg(product);
        let (r, _, shifted) = self.reduce(exponent);
        let (p, power) = (self.exp_reduced(r), self.power_of_two(shifted));
        let (rest, one) = (self.mul(p, power), self.float(1.0));
        let large = self.sub(one, rest);
        let large = self.copy_sign(large, x);
        let is_small = self.binary(Binary::Less, y, one);
        self.select(is_small, small, large)
    }
}

/// Logarithms.
impl Body {
    /// Splits a positive finite number into `m · 2^k`, with m between √½ and √2.
    fn split(&mut self, x: JitValue) -> (JitValue, JitValue) {
        const SQRT_HALF: i32 = 0x3f35_04f3;
        let (least, up) = (self.float(f32::MIN_POSITIVE), self.float(33_554_432.0));
        let subnormal = self.binary(Binary::Less, x, least);
        let scaled = self.mul(x, up);
        let (scaled, root) = (self.select(subnormal, scaled, x), self.integer(SQRT_HALF));
        let bits = self.binary(Binary::SubI32, scaled, root);
        let k = self.unary(Unary::ShiftSigned(23), bits);
        let fraction = self.bits(0x007f_ffff);
        let fraction = self.binary(Binary::And, bits, fraction);
        let m = self.binary(Binary::AddI32, fraction, root);
        let (k, down) = (self.unary(Unary::Float, k), self.float(25.0));
        let down = self.binary(Binary::And, subnormal, down);
        (m, self.sub(k, down))
    }

    /// Puts in the logarithm at 0, below 0, at infinity and NaN.
    fn with_limits(&mut self, x: JitValue, y: JitValue) -> JitValue {
        let (infinity, zero) = (self.float(f32::INFINITY), self.float(0.0));
        let finite = self.binary(Binary::Less, x, infinity);
        let y = self.select(finite, y, x);
        let (is_zero, least) = (self.binary(Binary::Equal, x, zero), self.float(f32::NEG_INFINITY));
        let y = self.select(is_zero, least, y);
        let (negative, nan) = (self.binary(Binary::Less, x, zero), self.float(f32::NAN));
        self.select(negative, nan, y)
    }

    pub(crate) fn log(&mut self, x: JitValue) -> JitValue {
        let y = self.log_corrected(x, None);
        self.with_limits(x, y)
    }

    pub(crate) fn log1p(&mut self, x: JitValue) -> JitValue {
        let (one, zero) = (self.float(1.0), self.float(0.0));
        let sum = self.add(one, x);
        let rest = self.sub(sum, one);
        let larger = self.sub(sum, rest);
        let (of_one, of_x) = (self.sub(one, larger), self.sub(x, rest));
        let lost = self.add(of_one, of_x);
        let correction = self.div(lost, sum);
        let y = self.log_corrected(sum, Some(correction));
        let y = self.with_limits(sum, y);
        let is_zero = self.binary(Binary::Equal, x, zero);
        self.select(is_zero, x, y)
    }

    fn log_corrected(&mut self, x: JitValue, correction: Option<JitValue>) -> JitValue {
        let (m, k) = self.split(x);
        let (one, two, half) = (self.float(1.0), self.float(2.0), self.float(0.5));
        let f = self.sub(m, one);
        let below = self.add(two, f);
        let s = self.div(f, below);
        let z = self.mul(s, s);
        let p = self.polynomial(z, &[0.235_963_31, 0.285_366_03, 0.400_003_46, 0.666_666_6]);
        let half_square = self.mul(half, f);
        let half_square = self.mul(half_square, f);
        let product = self.mul(z, p);
        let sum = self.add(half_square, product);
        let rest = self.mul(s, sum);
        let rest = correction.map_or(rest, |correction| self.add(rest, correction));
        let (low, high) = (self.bits(0x3717_f7d1), self.bits(0x3f31_7180));
        let tail = self.fma(k, low, rest);
        let difference = self.sub(half_square, tail);
        let difference = self.sub(f, difference);
        self.fma(k, high, difference)
    }

    pub(crate) fn log2(&mut self, x: JitValue) -> JitValue {
        let (m, k) = self.split(x);
        let one = self.float(1.0);
        let f = self.sub(m, one);
        let y = self.by_halves(&[f, k], |body, values| {
            let (f, k, two) = (values[0], values[1], body.double(2.0));
            let below = body.binary(Binary::AddF64, two, f);
            let s = body.binary(Binary::DivF64, f, below);
            let z = body.binary(Binary::MulF64, s, s);
            let coefficients = [
                0.242_952_682_491_877_01,
                0.261_439_880_216_679_4,
                0.320_616_580_834_116_76,
                0.412_198_398_179_435_93,
                0.577_078_017_282_6,
                0.961_796_693_924_220_3,
                2.885_390_081_777_926_8,
            ];
            let mut p = body.double(coefficients[0]);
            for c in &coefficients[1..] {
                let (product, c) = (body.binary(Binary::MulF64, z, p), body.double(*c));
                p = body.binary(Binary::AddF64, product, c);
            }
            let product = body.binary(Binary::MulF64, s, p);
            body.binary(Binary::AddF64, product, k)
        });
        self.with_limits(x, y)
    }
}

/// Conversions.
impl Body {
    /// The i32 of an f32, towards 0; the nearest i32 beyond the range, 0 for NaN.
    pub(crate) fn truncated(&mut self, x: JitValue) -> JitValue {
        let (near, limit) = (self.unary(Unary::Truncate, x), self.float(2_147_483_648.0));
        // Numbers without an i32 give the least; with all bits changed, the largest.
        let large = self.binary(Binary::LessEqual, limit, x);
        let held = self.binary(Binary::Xor, near, large);
        let nan = self.binary(Binary::Unordered, x, x);
        self.binary(Binary::Without, nan, held)
    }

    pub(crate) fn hold_i32(&mut self, x: JitValue, low: i32, high: i32) -> JitValue {
        let (low, high) = (self.integer(low), self.integer(high));
        let x = self.binary(Binary::GreatestI32, x, low);
        self.binary(Binary::LeastI32, x, high)
    }

    /// f16s in half a vector.
    pub(crate) fn as_f16(&mut self, x: JitValue) -> JitValue {
        // Any NaN becomes the one that has its sign.
        let (sign, quiet) = (self.bits(SIGN), self.bits(0x7fc0_0000));
        let sign = self.binary(Binary::And, x, sign);
        let signed = self.binary(Binary::Or, sign, quiet);
        let nan = self.binary(Binary::Unordered, x, x);
        let x = self.select(nan, signed, x);
        self.unary(Unary::ToF16, x)
    }

    /// The bits of a bf16, in the low half of each lane.
    fn bf16_bits(&mut self, x: JitValue) -> JitValue {
        let (high, one, most) = (self.unary(Unary::ShiftRight(16), x), self.integer(1), self.integer(0x7fff));
        let odd = self.binary(Binary::And, high, one);
        let up = self.binary(Binary::AddI32, odd, most);
        let rounded = self.binary(Binary::AddI32, x, up);
        let rounded = self.unary(Unary::ShiftRight(16), rounded);
        let quiet = self.integer(0x40);
        let quiet = self.binary(Binary::Or, high, quiet);
        let nan = self.binary(Binary::Unordered, x, x);
        self.select(nan, quiet, rounded)
    }

    /// bf16s in half a vector.
    pub(crate) fn as_bf16(&mut self, x: JitValue) -> JitValue {
        let bits = self.bf16_bits(x);
        self.unary(Unary::Pack16, bits)
    }

    /// Rounds to f16, and back.
    pub(crate) fn round_to_f16(&mut self, x: JitValue) -> JitValue {
        let rounded = self.as_f16(x);
        self.unary(Unary::FromF16, rounded)
    }

    /// Rounds to bf16, and back.
    pub(crate) fn round_to_bf16(&mut self, x: JitValue) -> JitValue {
        let bits = self.bf16_bits(x);
        self.unary(Unary::ShiftLeft(16), bits)
    }

    /// The low 8 bits of i32s, in a quarter of a vector.
    pub(crate) fn as_bytes(&mut self, x: JitValue) -> JitValue {
        let byte = self.integer(0xff);
        let low = self.binary(Binary::And, x, byte);
        self.unary(Unary::Pack8, low)
    }
}
