//! Arithmetic in twice f64's precision, as unevaluated sums of two f64 (Dekker 1971; Hida, Li and Bailey 2001).
//!
//! Sums, products, quotients and roots have relative errors around 2^-103, the functions around 2^-90. (Sine and cosine
//! of angles beyond 2^30 have f64's precision.)

use super::wide::Wide;
use crate::expr::Op;

/// `high + low`, where `high` is the f64 nearest to the sum. Infinities and NaN have a `low` of 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DoubleDouble {
    high: f64,
    low: f64,
}

const LN_2: DoubleDouble = DoubleDouble { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
const TWO_OVER_SQRT_PI: DoubleDouble =
    DoubleDouble { high: std::f64::consts::FRAC_2_SQRT_PI, low: 1.533_545_961_316_588e-17 };
/// π/2 in three parts.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

/// The sum and its error (Knuth).
fn two_sum(a: f64, b: f64) -> DoubleDouble {
    let sum = a + b;
    if !sum.is_finite() {
        return DoubleDouble { high: sum, low: 0.0 };
    }
    let virtual_b = sum - a;
    DoubleDouble { high: sum, low: (a - (sum - virtual_b)) + (b - virtual_b) }
}

/// The product and its error.
fn two_product(a: f64, b: f64) -> DoubleDouble {
    let product = a * b;
    let low = if product.is_finite() { libm::fma(a, b, -product) } else { 0.0 };
    DoubleDouble { high: product, low }
}

impl DoubleDouble {
    const ZERO: Self = Self::new(0.0);
    const ONE: Self = Self::new(1.0);

    const fn new(high: f64) -> Self {
        Self { high, low: 0.0 }
    }

    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }

    fn add(self, other: Self) -> Self {
        let high = two_sum(self.high, other.high);
        if !high.high.is_finite() {
            return high;
        }
        let low = two_sum(self.low, other.low);
        let sum = two_sum(high.high, high.low + low.high);
        // `+ 0.0` would lose the sign of a zero sum.
        if sum.low + low.low == 0.0 { sum } else { two_sum(sum.high, sum.low + low.low) }
    }

    fn sub(self, other: Self) -> Self {
        self.add(other.neg())
    }

    fn mul(self, other: Self) -> Self {
        let product = two_product(self.high, other.high);
        if !product.high.is_finite() || product.high == 0.0 {
            return Self::new(product.high);
        }
        two_sum(product.high, product.low + (self.high * other.low + self.low * other.high))
    }

    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        if !first.is_finite() || first == 0.0 || !other.high.is_finite() {
            return Self::new(first);
        }
        let rest = self.sub(other.mul(Self::new(first)));
        let second = rest.high / other.high;
        let rest = rest.sub(other.mul(Self::new(second)));
        two_sum(first, second).add(Self::new(rest.high / other.high))
    }

    fn sqrt(self) -> Self {
        let root = self.high.sqrt();
        if root == 0.0 || !root.is_finite() {
            return Self::new(root);
        }
        let rest = self.sub(two_product(root, root));
        two_sum(root, rest.high / (2.0 * root))
    }

    fn scaled(self, exponent: i32) -> Self {
        Self { high: libm::ldexp(self.high, exponent), low: libm::ldexp(self.low, exponent) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "callers keep it within some thousands")]
    fn exponent(x: f64) -> i32 {
        x as i32
    }

    /// `e^x - 1` for |x| up to ln(2) / 2: a Taylor series of x / 512, squared nine times.
    fn exp_minus_one_small(self) -> Self {
        let x = self.scaled(-9);
        let mut term = x;
        let mut sum = x;
        for n in 2..=9 {
            term = term.mul(x).div(Self::new(f64::from(n)));
            sum = sum.add(term);
        }
        for _ in 0..9 {
            sum = sum.add(sum).add(sum.mul(sum));
        }
        sum
    }

    fn exp_minus_one(self) -> Self {
        if self.high.is_nan() || self.high > 710.0 {
            return Self::new(self.high.exp());
        }
        if self.high < -80.0 {
            return Self::new(-1.0);
        }
        let turns = (self.high / LN_2.high).round();
        let small = self.sub(LN_2.mul(Self::new(turns))).exp_minus_one_small();
        if turns == 0.0 {
            return small;
        }
        small.add(Self::ONE).scaled(Self::exponent(turns)).sub(Self::ONE)
    }

    fn exp(self) -> Self {
        if self.high.is_nan() || self.high > 710.0 || self.high < -746.0 {
            return Self::new(libm::exp(self.high));
        }
        let turns = (self.high / LN_2.high).round();
        let small = self.sub(LN_2.mul(Self::new(turns))).exp_minus_one_small();
        small.add(Self::ONE).scaled(Self::exponent(turns))
    }

    fn exp2(self) -> Self {
        if self.high.is_nan() || self.high.abs() > 1100.0 {
            return Self::new(libm::exp2(self.high));
        }
        let turns = self.high.round();
        let small = self.sub(Self::new(turns)).mul(LN_2).exp_minus_one_small();
        small.add(Self::ONE).scaled(Self::exponent(turns))
    }

    /// The logarithm of the significand in [0.7, 1.4], and the exponent.
    fn log_parts(self) -> (Self, f64) {
        let mut exponent = libm::ilogb(self.high);
        let mut significand = self.scaled(-exponent);
        if significand.high > std::f64::consts::SQRT_2 {
            exponent += 1;
            significand = significand.scaled(-1);
        }
        let guess = Self::new(libm::log(significand.high));
        // One step of Newton's method doubles the digits: log(m) = y + log(m e^-y), and m e^-y is near 1.
        let rest = significand.mul(guess.neg().exp()).sub(Self::ONE);
        let correction = rest.sub(rest.mul(rest).scaled(-1));
        (guess.add(correction), f64::from(exponent))
    }

    fn log(self) -> Self {
        if !(self.high > 0.0 && self.high.is_finite()) {
            return Self::new(libm::log(self.high));
        }
        let (log, exponent) = self.log_parts();
        LN_2.mul(Self::new(exponent)).add(log)
    }

    fn log2(self) -> Self {
        if !(self.high > 0.0 && self.high.is_finite()) {
            return Self::new(libm::log2(self.high));
        }
        let (log, exponent) = self.log_parts();
        Self::new(exponent).add(log.div(LN_2))
    }

    fn log1p(self) -> Self {
        if !(self.high > -1.0 && self.high.is_finite()) || self.high.abs() < 1e-40 {
            return if self.high.abs() < 1e-40 { self } else { Self::new(libm::log1p(self.high)) };
        }
        if self.high.abs() > 0.5 {
            return Self::ONE.add(self).log();
        }
        let guess = Self::new(libm::log1p(self.high));
        // As in `log_parts`: log(1 + x) = y + log((1 + x) e^-y), and (1 + x) e^-y is near 1.
        let rest = self.mul(guess.neg().exp()).add(guess.neg().exp_minus_one());
        guess.add(rest.sub(rest.mul(rest).scaled(-1)))
    }

    fn tanh(self) -> Self {
        if self.high.is_nan() || self.high == 0.0 {
            return self;
        }
        if self.high.abs() > 40.0 {
            return Self::new(1.0f64.copysign(self.high));
        }
        let twice = self.scaled(1).exp_minus_one();
        twice.div(twice.add(Self::new(2.0)))
    }

    /// `2 / sqrt(π) e^(-x²) Σ 2^n x^(2n+1) / (2n+1)!!`: every term has the same sign.
    fn erf(self) -> Self {
        if self.high.is_nan() || self.high == 0.0 {
            return self;
        }
        if self.high.abs() > 9.0 {
            return Self::new(1.0f64.copysign(self.high));
        }
        let square = self.mul(self);
        let (mut term, mut sum, mut odd) = (self, self, 1.0);
        while term.high.abs() > sum.high.abs() * 1e-33 && odd < 2000.0 {
            odd += 2.0;
            term = term.mul(square).scaled(1).div(Self::new(odd));
            sum = sum.add(term);
        }
        TWO_OVER_SQRT_PI.mul(square.neg().exp()).mul(sum)
    }

    /// The sine, shifted by `shift` quarter turns, of the remainder after whole quarter turns.
    fn sine_shifted(self, shift: i64, fallback: fn(f64) -> f64) -> Self {
        if !self.high.is_finite() || self.high.abs() > 1_073_741_824.0 {
            return Self::new(fallback(self.high));
        }
        let quarters = (self.high / HALF_PI[0]).round();
        let mut rest = self;
        for part in HALF_PI {
            rest = rest.sub(two_product(quarters, part));
        }
        let quadrant = (Self::exponent(quarters) as i64 + shift).rem_euclid(4);
        let square = rest.mul(rest);
        let odd = quadrant % 2 == 0;
        let (mut term, mut n) = if odd { (rest, 1.0) } else { (Self::ONE, 0.0) };
        let mut sum = term;
        while term.high.abs() > 1e-34 * sum.high.abs() && n < 60.0 {
            term = term.mul(square).div(Self::new((n + 1.0) * (n + 2.0))).neg();
            sum = sum.add(term);
            n += 2.0;
        }
        if quadrant >= 2 { sum.neg() } else { sum }
    }

    fn pow(self, other: Self) -> Self {
        let rough = libm::pow(self.high, other.high);
        let finite = rough.is_finite() && self.high.is_finite() && other.high.is_finite();
        if !finite || rough == 0.0 || self.high == 0.0 {
            return Self::new(rough);
        }
        let magnitude = if self.high < 0.0 { self.neg() } else { self };
        let power = magnitude.log().mul(other).exp();
        if rough < 0.0 { power.neg() } else { power }
    }

    fn floor(self) -> Self {
        let high = self.high.floor();
        if high == self.high && high.is_finite() { two_sum(high, self.low.floor()) } else { Self::new(high) }
    }

    fn round(self) -> Self {
        let half = Self::new(0.5);
        let rounded = if self.high < 0.0 { self.neg().add(half).floor().neg() } else { self.add(half).floor() };
        Self { high: rounded.high.copysign(self.high), ..rounded }
    }

    fn is_nan(self) -> bool {
        self.high.is_nan()
    }

    fn below(self, other: Self) -> bool {
        self.high < other.high || (self.high == other.high && self.low < other.low)
    }
}

impl Wide for DoubleDouble {
    fn from_f64(x: f64) -> Self {
        Self::new(x)
    }

    fn to_f64(self) -> f64 {
        if self.low == 0.0 { self.high } else { self.high + self.low }
    }

    fn compare(op: Op, x: Self, y: Self) -> bool {
        let (below, above) = (x.below(y), y.below(x));
        let ordered = !x.is_nan() && !y.is_nan();
        match op {
            Op::Lt => below,
            Op::Le => ordered && !above,
            Op::Gt => above,
            Op::Ge => ordered && !below,
            Op::Eq => ordered && !below && !above,
            // `Ne`; other operations are not comparisons.
            _ => !ordered || below || above,
        }
    }

    fn apply(op: Op, operands: &[Self]) -> Self {
        match (op, operands) {
            (Op::Neg, [x]) => x.neg(),
            (Op::Abs, [x]) => {
                if x.high.is_sign_negative() {
                    x.neg()
                } else {
                    *x
                }
            }
            (Op::Exp, [x]) => x.exp(),
            (Op::Exp2, [x]) => x.exp2(),
            (Op::Log, [x]) => x.log(),
            (Op::Log2, [x]) => x.log2(),
            (Op::Log1p, [x]) => x.log1p(),
            (Op::Sqrt, [x]) => x.sqrt(),
            (Op::Rsqrt, [x]) => Self::ONE.div(x.sqrt()),
            (Op::Recip, [x]) => Self::ONE.div(*x),
            (Op::Tanh, [x]) => x.tanh(),
            (Op::Erf, [x]) => x.erf(),
            (Op::Sin, [x]) if x.high == 0.0 => *x,
            (Op::Sin, [x]) => x.sine_shifted(0, libm::sin),
            (Op::Cos, [x]) => x.sine_shifted(1, libm::cos),
            (Op::Floor, [x]) => x.floor(),
            (Op::Ceil, [x]) => x.neg().floor().neg(),
            (Op::Round, [x]) => x.round(),
            (Op::Add, [x, y]) => x.add(*y),
            (Op::Sub, [x, y]) => x.sub(*y),
            (Op::Mul, [x, y]) => x.mul(*y),
            (Op::Div, [x, y]) => x.div(*y),
            (Op::Min | Op::Max, [x, y]) if x.is_nan() || y.is_nan() => Self::new(f64::NAN).add(Self::ZERO),
            (Op::Min, [x, y]) => {
                if y.below(*x) {
                    *y
                } else {
                    *x
                }
            }
            (Op::Max, [x, y]) => {
                if x.below(*y) {
                    *y
                } else {
                    *x
                }
            }
            (Op::Pow, [x, y]) => x.pow(*y),
            (Op::Fma, [x, y, z]) => x.mul(*y).add(*z),
            _ => Self::new(f64::NAN),
        }
    }
}

#[cfg(test)]
#[expect(clippy::excessive_precision, reason = "the digits are those that mpmath printed")]
mod tests {
    use super::*;

    /// Values from 300-bit arithmetic (mpmath), as a sum of two f64; arguments are the f64 nearest to the literals.
    #[test]
    fn functions_have_twice_the_precision() {
        for (op, operands, high, low) in [
            (Op::Exp, &[1.1][..], 3.004_166_023_946_433_4, -1.591_589_914_909_835_3e-17),
            (Op::Log, &[1.1], 0.095_310_179_804_324_93, 5.927_240_202_146_761e-18),
            (Op::Tanh, &[0.3], 0.291_312_612_451_590_9, -6.460_265_658_646_958_6e-18),
            (Op::Tanh, &[1e-9], 1e-9, -3.333_333_333_333_333_8e-28),
            (Op::Erf, &[1.1], 0.880_205_069_574_081_7, -3.550_744_643_146_631e-18),
            (Op::Erf, &[3.7], 0.999_999_832_848_942_1, -2.536_060_513_418_204e-17),
            (Op::Sin, &[1000.1], 0.878_892_811_649_321_6, -1.343_872_420_845_644_5e-17),
            (Op::Cos, &[1000.1], 0.477_019_313_687_768_9, -1.932_702_812_003_044_2e-17),
            (Op::Exp2, &[1.1], 2.143_546_925_072_586_3, 1.981_734_301_141_869_7e-16),
            (Op::Log2, &[1.1], 0.137_503_523_749_935_02, 5.457_100_197_664_755e-18),
            (Op::Log1p, &[1.1], 0.741_937_344_729_377_3, 1.984_811_760_413_813_3e-17),
            (Op::Log1p, &[1e-9], 9.999_999_995e-10, 7.493_897_403_823_754e-26),
            (Op::Log1p, &[0.3], 0.262_364_264_467_491_06, -1.606_725_720_902_845_4e-17),
            (Op::Log1p, &[-0.7], -1.203_972_804_325_936, 5.234_778_167_986_586_4e-17),
            (Op::Pow, &[1.1, 7.3], 2.005_241_119_382_375_4, -2.014_207_868_043_770_1e-16),
            (Op::Sqrt, &[1.1], 1.048_808_848_170_151_6, -4.146_275_559_933_756e-17),
        ] {
            let operands: Vec<_> = operands.iter().map(|&x| DoubleDouble::new(x)).collect();
            let result = DoubleDouble::apply(op, &operands);
            let error = result.sub(DoubleDouble { high, low }).high.abs() / high.abs();
            assert!(error < 1e-27, "{op:?}: {result:?}, relative error {error:e}");
        }
    }

    #[test]
    fn special_values_are_f64s() {
        let special = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let unary = [
            Op::Neg,
            Op::Abs,
            Op::Exp,
            Op::Exp2,
            Op::Log,
            Op::Log2,
            Op::Log1p,
            Op::Sqrt,
            Op::Rsqrt,
            Op::Recip,
            Op::Tanh,
            Op::Erf,
            Op::Floor,
            Op::Ceil,
            Op::Round,
        ];
        let close = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-15 * y.abs();
        for x in special {
            for op in unary {
                let (wide, narrow) = (DoubleDouble::apply(op, &[DoubleDouble::new(x)]).to_f64(), f64::apply(op, &[x]));
                assert!(close(wide, narrow), "{op:?}({x}): {wide} or {narrow}");
            }
            for y in special {
                for op in [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max, Op::Pow] {
                    let wide = DoubleDouble::apply(op, &[DoubleDouble::new(x), DoubleDouble::new(y)]).to_f64();
                    let narrow = f64::apply(op, &[x, y]);
                    assert!(close(wide, narrow), "{op:?}({x}, {y}): {wide} or {narrow}");
                }
                for op in [Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne] {
                    let wide = DoubleDouble::compare(op, DoubleDouble::new(x), DoubleDouble::new(y));
                    assert_eq!(wide, <f64 as Wide>::compare(op, x, y), "{op:?}({x}, {y})");
                }
            }
        }
    }
}
