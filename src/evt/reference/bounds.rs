//! Intervals that contain every result a correct device may give.
//!
//! A device rounds after every operation, may fuse a product with a sum, and may be wrong by a few ULP in functions.
//! The bounds of a result are the exact function's over the bounds of its operands, widened by the error that the
//! operation may have. They hold through cancellation, selects, casts and overflow, where a fixed tolerance fails.

use crate::expr::{Op, Real};

/// The values that a result may have: any number from `low` to `high`, and NaN if `nan`. If `low > high`, only NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Whether it may be NaN.
    pub nan: bool,
}

/// How large the errors of operations may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack {
    pub(super) real: Real,
    /// Significant bits of the outputs that the value reaches; see
    /// [`Value::significand`](crate::evt::Value::significand).
    pub(super) significand: u32,
}

impl Bounds {
    /// Exactly one value, which may be NaN.
    #[must_use]
    pub const fn exact(x: f64) -> Self {
        if x.is_nan() { Self::NAN } else { Self { low: x, high: x, nan: false } }
    }

    /// All numbers within an error of a number.
    #[must_use]
    pub fn around(x: f64, error: f64) -> Self {
        if x.is_nan() || error.is_nan() {
            return Self::NAN;
        }
        if error == f64::INFINITY {
            return Self::ANYTHING;
        }
        if x.is_infinite() {
            return Self::exact(x);
        }
        Self { low: x - error, high: x + error, nan: false }
    }

    pub(super) const NAN: Self = Self { low: f64::INFINITY, high: f64::NEG_INFINITY, nan: true };
    const NOTHING: Self = Self { low: f64::INFINITY, high: f64::NEG_INFINITY, nan: false };
    pub(super) const ANYTHING: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true };

    /// Whether it is one number, a power of 2 or its negative.
    fn is_power_of_two(self) -> bool {
        self.low == self.high && !self.nan && self.low.is_normal() && self.low.to_bits() << 12 == 0
    }

    /// Whether a result is within the bounds.
    #[must_use]
    pub fn admit(&self, x: f64) -> bool {
        if x.is_nan() { self.nan } else { self.low <= x && x <= self.high }
    }

    fn never_number(self) -> bool {
        self.low > self.high
    }

    fn has(self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    fn has_infinity(self) -> bool {
        !self.never_number() && (self.low == f64::NEG_INFINITY || self.high == f64::INFINITY)
    }

    /// Everything that either contains.
    pub(super) fn union(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high), nan: self.nan || other.nan }
    }

    /// Applies a function that doesn't decrease.
    pub(super) fn monotone(self, f: impl Fn(f64) -> f64) -> Self {
        let of_nan = if self.nan { Self::exact(f(f64::NAN)) } else { Self::NOTHING };
        if self.never_number() {
            return of_nan;
        }
        Self { low: f(self.low), high: f(self.high), nan: false }.union(of_nan)
    }

    /// Widens by a relative and an absolute error; what then overflows the type may be infinite.
    pub(super) fn widened(self, relative: f64, absolute: f64, real: Real) -> Self {
        if self.never_number() {
            return self;
        }
        let largest = match real {
            Real::F32 => f64::from(f32::MAX),
            Real::F64 => f64::MAX,
        };
        let error = |x: f64| if x.is_infinite() { 0.0 } else { x.abs() * relative + absolute };
        let mut low = self.low - error(self.low);
        let mut high = self.high + error(self.high);
        if high > largest {
            high = f64::INFINITY;
        }
        if low < -largest {
            low = f64::NEG_INFINITY;
        }
        // A result beyond the range is infinite unless the operation was fused with the next: both are allowed.
        Self { low, high, nan: self.nan }
    }

    fn negated(self) -> Self {
        Self { low: -self.high, high: -self.low, nan: self.nan }
    }

    fn sum(self, other: Self) -> Self {
        if self.never_number() || other.never_number() {
            return Self::NAN;
        }
        let clash = (self.high == f64::INFINITY && other.low == f64::NEG_INFINITY)
            || (self.low == f64::NEG_INFINITY && other.high == f64::INFINITY);
        let (low, high) = (self.low + other.low, self.high + other.high);
        let nan = self.nan || other.nan || clash;
        match (low.is_nan(), high.is_nan()) {
            // Infinity minus infinity and nothing else.
            (true, true) if self.low == self.high && other.low == other.high => Self::NAN,
            _ => Self {
                low: if low.is_nan() { f64::NEG_INFINITY } else { low },
                high: if high.is_nan() { f64::INFINITY } else { high },
                nan,
            },
        }
    }

    fn product(self, other: Self) -> Self {
        if self.never_number() || other.never_number() {
            return Self::NAN;
        }
        let clash = (self.has(0.0) && other.has_infinity()) || (other.has(0.0) && self.has_infinity());
        let is_zero = |b: Self| b.low == 0.0 && b.high == 0.0;
        let is_infinite = |b: Self| b.low == b.high && b.low.is_infinite();
        if (is_zero(self) && is_infinite(other)) || (is_zero(other) && is_infinite(self)) {
            return Self::NAN;
        }
        // 0 times an unbounded range: every finite member gives 0.
        let times = |x: f64, y: f64| if x == 0.0 || y == 0.0 { 0.0 } else { x * y };
        let corners = self.corners(other).map(|(x, y)| times(x, y));
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { low, high, nan: self.nan || other.nan || clash }
    }

    /// The pairs of ends, between whose products all products lie.
    const fn corners(self, other: Self) -> [(f64, f64); 4] {
        [(self.low, other.low), (self.low, other.high), (self.high, other.low), (self.high, other.high)]
    }

    /// `self · y + z`, whose ends are rounded once: that of a product alone may be all that a sum leaves.
    fn product_and_sum(self, y: Self, z: Self) -> Self {
        let rounded_twice = self.product(y).sum(z);
        let ends = [self.low, self.high, y.low, y.high, rounded_twice.low, rounded_twice.high];
        if ends.iter().any(|end| !end.is_finite()) || rounded_twice.never_number() {
            return rounded_twice;
        }
        let corners = self.corners(y);
        let least = |least: f64, (x, y): (f64, f64)| least.min(libm::fma(x, y, z.low));
        let greatest = |greatest: f64, (x, y): (f64, f64)| greatest.max(libm::fma(x, y, z.high));
        Self {
            low: corners.into_iter().fold(f64::INFINITY, least),
            high: corners.into_iter().fold(f64::NEG_INFINITY, greatest),
            ..rounded_twice
        }
    }

    fn reciprocal(self) -> Self {
        if self.never_number() {
            return Self::NAN;
        }
        if self.has(0.0) {
            // The sign of a zero is not tracked.
            return Self { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: self.nan };
        }
        Self { low: 1.0 / self.high, high: 1.0 / self.low, nan: self.nan }
    }

    fn quotient(self, other: Self) -> Self {
        if self.never_number() || other.never_number() {
            return Self::NAN;
        }
        let exact = |b: Self| b.low == b.high;
        if exact(self) && exact(other) && other.low != 0.0 {
            let x = self.low / other.low;
            return Self { nan: self.nan || other.nan || x.is_nan(), ..Self::exact(x) };
        }
        let clash = (self.has(0.0) && other.has(0.0)) || (self.has_infinity() && other.has_infinity());
        let mut result = self.product(other.reciprocal());
        result.nan = self.nan || other.nan || clash;
        if result.never_number() {
            return result;
        }
        if clash && (self.has_infinity() || other.has(0.0)) {
            return Self::ANYTHING;
        }
        result
    }

    /// The greatest magnitude.
    pub(super) fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    pub(super) fn absolute(self) -> Self {
        if self.never_number() {
            return self;
        }
        let low = if self.has(0.0) { 0.0 } else { self.low.abs().min(self.high.abs()) };
        Self { low, high: self.magnitude(), nan: self.nan }
    }

    /// The larger value; NaN if either is NaN.
    pub(super) fn larger(self, other: Self) -> Self {
        if self.never_number() || other.never_number() {
            return Self::NAN;
        }
        Self { low: self.low.max(other.low), high: self.high.max(other.high), nan: self.nan || other.nan }
    }

    pub(super) fn smaller(self, other: Self) -> Self {
        self.negated().larger(other.negated()).negated()
    }

    /// A non-decreasing function on `[domain, ∞)`; NaN below it.
    fn on_domain(self, domain: f64, f: impl Fn(f64) -> f64) -> Self {
        if self.high < domain || self.never_number() {
            return Self::NAN;
        }
        let outside = self.low < domain;
        let result = Self { low: f(self.low.max(domain)), high: f(self.high), nan: false };
        Self { nan: self.nan || outside, ..result }
    }

    fn sine(self, shift: f64, f: impl Fn(f64) -> f64) -> Self {
        use std::f64::consts::{PI, TAU};
        if self.never_number() {
            return Self::NAN;
        }
        let everything = Self { low: -1.0, high: 1.0, nan: self.nan || self.has_infinity() };
        if self.low == self.high && self.low.is_infinite() {
            return Self::NAN;
        }
        if self.has_infinity() || self.high - self.low >= PI {
            return everything;
        }
        let (x, y) = (f(self.low), f(self.high));
        // Whether the range holds a point `peak + k * TAU`; on the safe side near its ends.
        let holds = |peak: f64| {
            let turns = (self.low - peak) / TAU;
            let next = turns.ceil() * TAU + peak;
            let margin = 1e-9 * (1.0 + self.magnitude() * 1e-6);
            next <= self.high + margin || (turns - turns.floor()) * TAU < margin
        };
        let high = if self.low != self.high && holds(shift) { 1.0 } else { x.max(y) };
        let low = if self.low != self.high && holds(shift + PI) { -1.0 } else { x.min(y) };
        Self { low, high, nan: self.nan }
    }

    fn power(self, other: Self) -> Self {
        // The sign of a zero is not tracked, but it decides the sign of infinity in a negative power of zero.
        if self.low == self.high && other.low == other.high && !self.nan && !other.nan && self.low != 0.0 {
            return Self::exact(libm::pow(self.low, other.low));
        }
        if self.low == 0.0 && self.high == 0.0 && other.low > 0.0 && !self.nan && !other.nan {
            return Self::exact(0.0);
        }
        if self.nan || other.nan || self.low <= 0.0 || self.never_number() || other.never_number() {
            return Self::ANYTHING;
        }
        // For positive bases y * log(x) is bilinear: the extremes are at corners.
        let corners = [
            libm::pow(self.low, other.low),
            libm::pow(self.low, other.high),
            libm::pow(self.high, other.low),
            libm::pow(self.high, other.high),
        ];
        if corners.iter().any(|c| c.is_nan()) {
            return Self::ANYTHING;
        }
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { low, high, nan: false }
    }

    /// Whether a comparison may be true, and whether it may be false.
    pub(super) fn compare(op: Op, x: Self, y: Self) -> (bool, bool) {
        let numbers = !x.never_number() && !y.never_number();
        let nan = x.nan || y.nan;
        let equal = numbers && x.low <= y.high && y.low <= x.high;
        let always_equal = x.low == x.high && y.low == y.high && x.low == y.low;
        match op {
            Op::Lt => (numbers && x.low < y.high, nan || !numbers || x.high >= y.low),
            Op::Le => (numbers && x.low <= y.high, nan || !numbers || x.high > y.low),
            Op::Gt => Self::compare(Op::Lt, y, x),
            Op::Ge => Self::compare(Op::Le, y, x),
            Op::Eq => (equal, nan || !always_equal),
            // `Ne`; other operations are not comparisons.
            _ => (nan || !always_equal, equal),
        }
    }

    /// A product that overflows f64 may still be finite if it is fused with a sum.
    fn unless_fused(self, x: Self, y: Self) -> Self {
        if self.never_number() || x.has_infinity() || y.has_infinity() {
            return self;
        }
        Self { low: self.low.min(f64::MAX), high: self.high.max(-f64::MAX), nan: self.nan }
    }

    /// Bounds of `tanh` or `erf`: from -1 to 1, and exactly 1 far out, where the function differs from 1 by less than
    /// half a unit. Any other error may be multiplied by a number as large as the operand, as in GELU.
    fn saturated(self, operand: Self, op: Op, real: Real) -> Self {
        let far = match (op, real) {
            (Op::Erf, Real::F32) => 4.0,
            (Op::Erf, Real::F64) => 6.0,
            (_, Real::F32) => 10.0,
            (_, Real::F64) => 20.0,
        };
        let low = if operand.low >= far { 1.0 } else { self.low.max(-1.0) };
        let high = if operand.high <= -far { -1.0 } else { self.high.min(1.0) };
        Self { low, high, nan: self.nan }
    }

    /// A step of a reduction, without its rounding.
    pub(super) fn unrounded(op: Op, x: Self, y: Self) -> Self {
        match op {
            Op::Add => x.sum(y),
            Op::Mul => x.product(y),
            Op::Min => x.smaller(y),
            Op::Max => x.larger(y),
            _ => Self::ANYTHING,
        }
    }

    /// The bounds of an operation that gives a number. The evaluator handles `Select`.
    pub(super) fn apply(op: Op, operands: &[Self], slack: Slack) -> Self {
        let exact = match (op, operands) {
            (Op::Neg, [x]) => return x.negated(),
            (Op::Abs, [x]) => return x.absolute(),
            (Op::Floor, [x]) => return x.monotone(f64::floor),
            (Op::Ceil, [x]) => return x.monotone(f64::ceil),
            (Op::Round, [x]) => return x.monotone(f64::round),
            (Op::Min, [x, y]) => return x.smaller(*y),
            (Op::Max, [x, y]) => return x.larger(*y),
            (Op::Exp, [x]) => x.monotone(libm::exp),
            (Op::Exp2, [x]) => x.monotone(libm::exp2),
            (Op::Log, [x]) => x.on_domain(0.0, libm::log),
            (Op::Log2, [x]) => x.on_domain(0.0, libm::log2),
            (Op::Log1p, [x]) => x.on_domain(-1.0, libm::log1p),
            (Op::Sqrt, [x]) => x.on_domain(0.0, f64::sqrt),
            (Op::Rsqrt, [x]) => x.on_domain(0.0, f64::sqrt).reciprocal(),
            (Op::Recip, [x]) => x.reciprocal(),
            (Op::Tanh, [x]) => x.monotone(libm::tanh),
            (Op::Erf, [x]) => x.monotone(libm::erf),
            (Op::Sin, [x]) => x.sine(std::f64::consts::FRAC_PI_2, libm::sin),
            (Op::Cos, [x]) => x.sine(0.0, libm::cos),
            (Op::Add, [x, y]) => x.sum(*y),
            (Op::Sub, [x, y]) => x.sum(y.negated()),
            (Op::Mul, [x, y]) => x.product(*y).unless_fused(*x, *y),
            (Op::Div, [x, y]) => x.quotient(*y),
            (Op::Pow, [x, y]) => x.power(*y),
            (Op::Fma, [x, y, z]) => x.product_and_sum(*y, *z),
            _ => return Self::ANYTHING,
        };
        let (relative, absolute) = slack.of(op);
        // Half of a number loses no bit unless it is subnormal. So what is subtracted from its like leaves 0.
        let relative = if op == Op::Mul && operands.iter().any(|x| x.is_power_of_two()) { 0.0 } else { relative };
        let result = exact.widened(relative, absolute, slack.real);
        // Limits that rounding can't exceed: every device keeps within the functions' own ranges.
        match op {
            Op::Exp | Op::Exp2 | Op::Sqrt | Op::Rsqrt if !result.never_number() => {
                Self { low: result.low.max(exact.low.min(0.0)), ..result }
            }
            Op::Tanh | Op::Erf if !operands[0].never_number() => result.saturated(operands[0], op, slack.real),
            _ => result,
        }
    }
}

impl Slack {
    /// The largest relative and absolute error of an operation.
    fn of(self, op: Op) -> (f64, f64) {
        let (unit, smallest, normal) = match self.real {
            Real::F32 => (f64::from(f32::EPSILON), libm::ldexp(1.0, -149), f64::from(f32::MIN_POSITIVE)),
            Real::F64 => (f64::EPSILON, f64::from_bits(1), f64::MIN_POSITIVE),
        };
        // These bounds are computed in f64, with an error of an ULP, which counts if f64 arithmetic is bounded.
        let own = if self.real == Real::F64 { unit } else { 0.0 };
        let approximate = |bits: f64| if self.real == Real::F32 { libm::exp2(-bits) } else { 0.0 };
        match op {
            Op::Exp if self.significand <= 11 => (approximate(16.5).max(5.0 * unit), normal),
            Op::Exp2 | Op::Recip | Op::Div | Op::Sqrt if self.significand <= 11 => {
                (approximate(20.0).max(5.0 * unit), normal)
            }
            Op::Tanh if self.significand <= 8 => (approximate(10.5).max(5.0 * unit), normal),
            // `cargo xtask approximations` tries every f32.
            Op::Tanh | Op::Erf if self.significand <= 11 => {
                (approximate(15.5).max(5.0 * unit), approximate(21.0).max(normal))
            }
            Op::Log | Op::Log2 if self.significand <= 11 => {
                (approximate(16.0).max(5.0 * unit), approximate(21.0).max(normal))
            }
            Op::Log1p if self.significand <= 11 => (approximate(16.0).max(5.0 * unit), normal),
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Sqrt | Op::Fma | Op::Recip => (0.501 * unit + own, smallest),
            Op::Pow => (8.0 * unit + own, normal),
            _ => (4.0 * unit + own, normal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of 2^-24 in `erf` is one of 2^102 in GELU of the largest number.
    #[test]
    fn far_out_tanh_and_erf_are_exact() {
        for (real, significand) in [(Real::F32, 8), (Real::F32, 11), (Real::F32, 24), (Real::F64, 53)] {
            let slack = Slack { real, significand };
            for op in [Op::Tanh, Op::Erf] {
                let of = |x: f64| Bounds::apply(op, &[Bounds::exact(x)], slack);
                assert_eq!((of(-21.0), of(21.0)), (Bounds::exact(-1.0), Bounds::exact(1.0)), "{op:?} {slack:?}");
                assert_eq!(of(f64::NEG_INFINITY), Bounds::exact(-1.0));
                assert!(of(-3.5).admit(of(-3.5).low) && of(-3.5).low < of(-3.5).high && of(3.8).high <= 1.0);
                assert!(of(f64::NAN).admit(f64::NAN) && !of(f64::NAN).admit(1.0));
            }
        }
    }

    /// The sum here is exactly the rounding error of the product.
    #[test]
    fn a_fused_product_and_sum_is_rounded_once() {
        let slack = Slack { real: Real::F64, significand: 53 };
        let (x, y) = (1.0 + 2f64.powi(-40), 1.0 - 2f64.powi(-40));
        let bounds = Bounds::apply(Op::Fma, &[Bounds::exact(x), Bounds::exact(y), Bounds::exact(-1.0)], slack);
        assert!(bounds.admit(-2f64.powi(-80)), "{bounds:?}");
        assert!(!bounds.admit(x * y - 1.0), "{bounds:?}");
        let of_ranges = [
            Bounds { low: -x, high: y, nan: false },
            Bounds { low: -2.0, high: y, nan: true },
            Bounds { low: -1.0, high: 3.0, nan: false },
        ];
        let bounds = Bounds::apply(Op::Fma, &of_ranges, slack);
        assert!(bounds.nan && bounds.admit(-1.0 - 2.0 * y) && bounds.admit(3.0 + 2.0 * x), "{bounds:?}");
        assert!(!bounds.admit(-3.1) && !bounds.admit(5.1), "{bounds:?}");
        let infinite = [Bounds::exact(f64::INFINITY), Bounds::exact(1.0), Bounds::exact(1.0)];
        assert!(Bounds::apply(Op::Fma, &infinite, slack).admit(f64::INFINITY));
    }
}
