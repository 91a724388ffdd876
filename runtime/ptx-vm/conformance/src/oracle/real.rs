//! Real numbers: the values of small formats by definition, and rounding by search.

use std::cmp::Ordering;
use std::sync::LazyLock;

/// A rounding mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To nearest, ties to even.
    Rn,
    /// To nearest, ties away from zero.
    Rna,
    /// Toward zero.
    Rz,
    /// Down.
    Rm,
    /// Up.
    Rp,
}

/// A real number as the unevaluated sum of two `f64`, the second at most half a unit of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair(pub f64, pub f64);

impl Pair {
    /// One number.
    pub const fn of(x: f64) -> Self {
        Pair(x, 0.0)
    }

    /// The exact sum (Knuth).
    pub fn sum(a: f64, b: f64) -> Self {
        let s = a + b;
        if !s.is_finite() {
            return Pair(s, 0.0);
        }
        let t = s - a;
        Pair(s, (a - (s - t)) + (b - t))
    }

    fn magnitude(self) -> Self {
        if self.0.is_sign_negative() { Pair(-self.0, -self.1) } else { self }
    }

    /// Compares with a number.
    pub fn compare(self, x: f64) -> Ordering {
        match self.0.partial_cmp(&x) {
            Some(Ordering::Equal) => self.1.partial_cmp(&0.0).unwrap_or(Ordering::Equal),
            Some(order) => order,
            None => Ordering::Equal,
        }
    }
}

/// All numbers of a format of at most 19 bits, from its definition.
#[derive(Debug)]
pub struct Table {
    /// The magnitudes of all finite codes, in order: code `i` has value `values[i]`.
    values: Vec<f64>,
    /// The code after the largest finite one.
    overflow: u64,
    sign: u64,
    nan: u64,
    infinity: bool,
}

impl Table {
    /// The codes of `exponent` and `mantissa` bits. `infinity` tells whether the top exponent is reserved; otherwise
    /// only the last code is (for NaN).
    fn new(exponent: u32, mantissa: u32, infinity: bool) -> Self {
        let bias = (1 << (exponent - 1)) - 1;
        let codes = if infinity { ((1u64 << exponent) - 1) << mantissa } else { (1 << (exponent + mantissa)) - 1 };
        let value = |code: u64| {
            let (field, fraction) = ((code >> mantissa) as i32, (code & ((1 << mantissa) - 1)) as f64);
            let scale = 2f64.powi(-(mantissa as i32));
            if field == 0 {
                fraction * scale * 2f64.powi(1 - bias)
            } else {
                (1.0 + fraction * scale) * 2f64.powi(field - bias)
            }
        };
        Table {
            values: (0..codes).map(value).collect(),
            overflow: codes,
            sign: 1 << (exponent + mantissa),
            nan: (1 << (exponent + mantissa)) - 1,
            infinity,
        }
    }

    /// All codes of `exponent` and `mantissa` bits as finite numbers. The one that [`new`](Self::new) gives to NaN is the
    /// largest.
    fn finite(exponent: u32, mantissa: u32) -> Self {
        let mut table = Self::new(exponent, mantissa, false);
        let largest = (2.0 - 2f64.powi(-(mantissa as i32))) * 2f64.powi(1 << (exponent - 1));
        table.values.push(largest);
        table.overflow += 1;
        table
    }

    /// The value of a code.
    pub fn value(&self, code: u64) -> f64 {
        let magnitude = code & (self.sign - 1);
        let value = match self.values.get(magnitude as usize) {
            Some(value) => *value,
            None if self.infinity && magnitude == self.overflow => f64::INFINITY,
            None => f64::NAN,
        };
        if code & self.sign != 0 { -value } else { value }
    }

    /// The code of the largest finite number.
    pub fn largest(&self) -> u64 {
        self.overflow - 1
    }

    /// The code of the NaN that instructions produce.
    pub fn nan(&self) -> u64 {
        self.nan
    }

    /// The sign bit.
    pub fn sign(&self) -> u64 {
        self.sign
    }

    /// The code to which a real number is rounded. Beyond the largest number this is infinity, or NaN if the format has
    /// none.
    pub fn round(&self, number: Pair, mode: Mode) -> u64 {
        if number.0.is_nan() {
            return self.nan;
        }
        let negative = number.0.is_sign_negative();
        let sign = if negative { self.sign } else { 0 };
        let x = number.magnitude();
        if x.0.is_infinite() {
            return if self.infinity { sign | self.overflow } else { self.nan };
        }
        // The last code whose value is not above x.
        let below = self.values.partition_point(|v| x.compare(*v) != Ordering::Less) - 1;
        let low = self.values[below];
        if x.compare(low) == Ordering::Equal {
            return sign | below as u64;
        }
        let high = self.values.get(below + 1).copied().unwrap_or_else(|| 2.0 * low - self.values[below - 1]);
        let nearer = x.compare((low + high) / 2.0);
        let up = match mode {
            Mode::Rn => nearer == Ordering::Greater || (nearer == Ordering::Equal && below % 2 == 1),
            Mode::Rna => nearer != Ordering::Less,
            Mode::Rz => false,
            Mode::Rm => negative,
            Mode::Rp => !negative,
        };
        let code = below as u64 + u64::from(up);
        if code == self.overflow && !self.infinity { self.nan } else { sign | code }
    }

    /// [`round`](Self::round), but infinities and results beyond the largest number are replaced by the largest number.
    pub fn round_finite(&self, number: Pair, mode: Mode) -> u64 {
        let code = self.round(number, mode);
        let too_large = code & (self.sign - 1) >= self.overflow && !number.0.is_nan();
        if too_large { self.largest() | if number.0 < 0.0 { self.sign } else { 0 } } else { code }
    }

    /// Whether a code is a subnormal number.
    pub fn is_subnormal(&self, code: u64) -> bool {
        let magnitude = code & (self.sign - 1);
        let value = self.values.get(magnitude as usize).copied().unwrap_or(f64::NAN);
        // Subnormals and the first normal numbers have the same step; the first normal number is 2^mantissa steps.
        magnitude != 0 && value < self.values[1] * self.first_normal() as f64
    }

    fn first_normal(&self) -> u64 {
        // Codes of one exponent: up to where the step doubles for the second time.
        let step = self.values[1];
        let doubled = self.values.windows(2).position(|w| w[1] - w[0] > step).unwrap_or(2);
        doubled as u64 / 2
    }
}

/// `.f16`.
pub static F16: LazyLock<Table> = LazyLock::new(|| Table::new(5, 10, true));
/// `.bf16`.
pub static BF16: LazyLock<Table> = LazyLock::new(|| Table::new(8, 7, true));
/// `.tf32`, 19 bits.
pub static TF32: LazyLock<Table> = LazyLock::new(|| Table::new(8, 10, true));
/// `.e4m3`.
pub static E4M3: LazyLock<Table> = LazyLock::new(|| Table::new(4, 3, false));
/// `.e5m2`.
pub static E5M2: LazyLock<Table> = LazyLock::new(|| Table::new(5, 2, true));
/// `.e3m2`.
pub static E3M2: LazyLock<Table> = LazyLock::new(|| Table::finite(3, 2));
/// `.e2m3`.
pub static E2M3: LazyLock<Table> = LazyLock::new(|| Table::finite(2, 3));
/// `.e2m1`.
pub static E2M1: LazyLock<Table> = LazyLock::new(|| Table::finite(2, 1));

/// Replaces a subnormal `f32` by a zero of the same sign.
pub fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

/// `.sat`.
pub fn saturate(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) + 0.0 }
}

/// The `f32` that a rounding mode gives, from the nearest `f32` and the comparison of the exact number with it.
pub fn direct(nearest: f32, exact_to_nearest: Ordering, mode: Mode) -> f32 {
    if nearest.is_nan() {
        return nearest;
    }
    let toward_zero_up = nearest.is_sign_negative();
    match (exact_to_nearest, mode) {
        (Ordering::Greater, Mode::Rp) => nearest.next_up(),
        (Ordering::Less, Mode::Rm) => nearest.next_down(),
        (Ordering::Less, Mode::Rz) if !toward_zero_up => nearest.next_down(),
        (Ordering::Greater, Mode::Rz) if toward_zero_up => nearest.next_up(),
        _ => nearest,
    }
}

/// A real number rounded to `f32`.
pub fn to_f32(number: Pair, mode: Mode) -> f32 {
    if !number.0.is_finite() {
        return number.0 as f32;
    }
    // The conversion of the first part may be wrong because of the second. The search among neighbours corrects this.
    let start = number.0 as f32;
    let candidates = [start.next_down(), start, start.next_up()];
    let low = candidates.iter().rev().copied().find(|c| number.compare(f64::from(*c)) != Ordering::Less);
    let low = low.unwrap_or(f32::NEG_INFINITY);
    if f64::from(low) == number.0 && number.1 == 0.0 {
        return if low == 0.0 { 0f32.copysign(number.0 as f32) } else { low };
    }
    let high = low.next_up();
    // Beyond the largest numbers, the next number in steps stands for infinity.
    let widen = |x: f32| if x.is_infinite() { f64::from(x.signum()) * 2f64.powi(128) } else { f64::from(x) };
    let middle = (widen(low) + widen(high)) / 2.0;
    let negative = number.0 < 0.0;
    let nearest = match number.compare(middle) {
        Ordering::Less => low,
        Ordering::Greater => high,
        Ordering::Equal if low.to_bits() % 2 == 0 => low,
        Ordering::Equal => high,
    };
    let result = match mode {
        Mode::Rn | Mode::Rna => nearest,
        Mode::Rz => {
            if negative {
                high
            } else {
                low
            }
        }
        Mode::Rm => low,
        Mode::Rp => high,
    };
    if result == 0.0 { 0f32.copysign(if negative { -1.0 } else { 1.0 }) } else { result }
}

/// `a + b` in `f32` in any mode.
pub fn add(a: f32, b: f32, mode: Mode) -> f32 {
    fma(a, 1.0, b, mode)
}

/// `a · b` in `f32` in any mode: the product is exact in `f64`.
pub fn mul(a: f32, b: f32, mode: Mode) -> f32 {
    to_f32(Pair::of(f64::from(a) * f64::from(b)), mode)
}

/// `a · b + c` in `f32` in any mode.
pub fn fma(a: f32, b: f32, c: f32, mode: Mode) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let sum = Pair::sum(product, c.into());
    if sum.0 == 0.0 && product.is_sign_negative() != c.is_sign_negative() {
        return if mode == Mode::Rm { -0.0 } else { 0.0 };
    }
    to_f32(sum, mode)
}

/// `a / b` in `f32` in any mode.
pub fn div(a: f32, b: f32, mode: Mode) -> f32 {
    let nearest = a / b;
    if !a.is_finite() || !b.is_finite() || a == 0.0 || b == 0.0 {
        return nearest;
    }
    let order = if nearest.is_infinite() {
        if nearest > 0.0 { Ordering::Less } else { Ordering::Greater }
    } else {
        let back = f64::from(nearest) * f64::from(b);
        let order = f64::from(a).total_cmp(&back);
        let equal = f64::from(a) == back;
        if equal {
            Ordering::Equal
        } else if b < 0.0 {
            order.reverse()
        } else {
            order
        }
    };
    direct(nearest, order, mode)
}

/// `√a` in `f32` in any mode.
pub fn sqrt(a: f32, mode: Mode) -> f32 {
    let nearest = a.sqrt();
    if !(a > 0.0 && a.is_finite()) {
        return nearest;
    }
    direct(nearest, f64::from(a).total_cmp(&(f64::from(nearest) * f64::from(nearest))), mode)
}

/// A number rounded to an integer.
pub fn integral(x: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Rn => x.round_ties_even(),
        Mode::Rna => x.round(),
        Mode::Rz => x.trunc(),
        Mode::Rm => x.floor(),
        Mode::Rp => x.ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_the_formats() {
        assert_eq!(F16.value(0x3c00), 1.0);
        assert_eq!(F16.value(0xfbff), -65504.0);
        assert_eq!(BF16.value(0x3f80), 1.0);
        assert_eq!(E4M3.value(0x7e), 448.0);
        assert_eq!(E5M2.value(0x7b), 57344.0);
        assert!(E4M3.value(0x7f).is_nan() && E5M2.value(0x7c).is_infinite());
        assert_eq!(F16.value(1), 2f64.powi(-24));
        assert!(F16.is_subnormal(0x3ff) && !F16.is_subnormal(0x400) && !F16.is_subnormal(0x8000));
        assert!(BF16.is_subnormal(0x807f) && !BF16.is_subnormal(0x80));
        assert_eq!(F16.round(Pair::of(65519.0), Mode::Rn), 0x7bff);
        assert_eq!(F16.round(Pair::of(65520.0), Mode::Rn), 0x7c00);
        assert_eq!(F16.round(Pair(1.0 + 2f64.powi(-11), 1e-30), Mode::Rn), 0x3c01);
        assert_eq!(F16.round(Pair::of(1.0 + 2f64.powi(-11)), Mode::Rn), 0x3c00);
        assert_eq!(E4M3.round_finite(Pair::of(-1e9), Mode::Rn), 0xfe);
    }

    #[test]
    fn nearest_is_native() {
        let mut random = crate::values::Random::new(3);
        for _ in 0..200_000 {
            let mut next = || f32::from_bits(crate::values::Kind::F32.value(&mut random) as u32);
            let (a, b, c) = (next(), next(), next());
            let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
            assert!(same(add(a, b, Mode::Rn), a + b), "{a:e} + {b:e}");
            assert!(same(mul(a, b, Mode::Rn), a * b), "{a:e} * {b:e}");
            assert!(same(fma(a, b, c, Mode::Rn), a.mul_add(b, c)), "{a:e} * {b:e} + {c:e}");
        }
    }
}
