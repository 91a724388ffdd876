//! The two arithmetic types.

use super::{exp, log, trig, wide};

/// An arithmetic type: f32 or f64, with every primitive operation.
pub(crate) trait Float:
    bytemuck::Pod
    + PartialOrd
    + Send
    + Sync
    + std::fmt::Debug
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
{
    /// 1.
    const ONE: Self;
    /// 0.
    const ZERO: Self;
    /// Rounds an f64 to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens to f64, exactly.
    fn to_f64(self) -> f64;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round(self) -> Self;
    fn exp<const FMA: bool>(self) -> Self;
    fn exp2<const FMA: bool>(self) -> Self;
    fn log<const FMA: bool>(self) -> Self;
    fn log2(self) -> Self;
    fn log1p<const FMA: bool>(self) -> Self;
    fn tanh<const FMA: bool>(self) -> Self;
    fn erf<const FMA: bool>(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn pow(self, y: Self) -> Self;
    /// Whether the vector code for sine and cosine works for this argument.
    fn sine_reducible(self) -> bool;
    /// `self · y + z`, rounded once.
    fn fma(self, y: Self, z: Self) -> Self;
    /// The smaller; NaN if either is NaN; -0 is below +0.
    fn minimum(self, y: Self) -> Self;
    /// The larger; NaN if either is NaN; +0 is above -0.
    fn maximum(self, y: Self) -> Self;
}

macro_rules! float {
    ($real:ty, $self:ident, half below: $half_below:literal, from: |$wide:ident| $from:expr, to: $to:expr,
        pow: $pow:path, reducible up to: $reducible:expr;
        $($name:ident $(<$fma:ident>)? = $value:expr;)*) => {
        impl Float for $real {
            const ONE: Self = 1.0;
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn from_f64($wide: f64) -> Self {
                $from
            }
            #[inline(always)]
            fn to_f64($self) -> f64 {
                $to
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                self.ceil()
            }
            #[inline(always)]
            fn round(self) -> Self {
                // Ties go away from zero. The addend is the largest number below one half, so that numbers just below a tie
                // don't reach it.
                let half: Self = $half_below;
                (self + half.copysign(self)).trunc()
            }
            #[inline(always)]
            fn fma(self, y: Self, z: Self) -> Self {
                self.mul_add(y, z)
            }
            #[inline(always)]
            fn minimum(self, y: Self) -> Self {
                let least = if self < y || self != self { self } else { y };
                if self == y { Self::from_bits(self.to_bits() | y.to_bits()) } else { least }
            }
            #[inline(always)]
            fn maximum(self, y: Self) -> Self {
                let most = if self > y || self != self { self } else { y };
                if self == y { Self::from_bits(self.to_bits() & y.to_bits()) } else { most }
            }
            #[inline(always)]
            fn pow(self, y: Self) -> Self {
                $pow(self, y)
            }
            #[inline(always)]
            fn sine_reducible(self) -> bool {
                self.abs() <= $reducible
            }
            $(#[inline(always)]
            fn $name$(<const $fma: bool>)?($self) -> Self {
                $value
            })*
        }
    };
}

float! {
    f32, self, half below: 0.499_999_97, from: |x| x as Self, to: f64::from(self),
    pow: log::pow, reducible up to: trig::REDUCIBLE;
    exp<FMA> = exp::exp::<FMA>(self);
    exp2<FMA> = exp::exp2::<FMA>(self);
    log<FMA> = log::log::<FMA>(self);
    log2 = log::log2(self);
    log1p<FMA> = log::log1p::<FMA>(self);
    tanh<FMA> = exp::tanh::<FMA>(self);
    erf<FMA> = exp::erf::<FMA>(self);
    sin = trig::sin(self);
    cos = trig::cos(self);
}

float! {
    f64, self, half below: 0.499_999_999_999_999_94, from: |x| x, to: self,
    pow: libm::pow, reducible up to: Self::from(trig::REDUCIBLE);
    exp<FMA> = wide::exp(self);
    exp2<FMA> = wide::exp2(self);
    log<FMA> = wide::log(self);
    log2 = wide::log2(self);
    log1p<FMA> = libm::log1p(self);
    tanh<FMA> = wide::tanh(self);
    erf<FMA> = libm::erf(self);
    sin = wide::sin(self);
    cos = wide::cos(self);
}
