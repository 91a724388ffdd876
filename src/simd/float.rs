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

macro_rules! common {
    ($half_below:expr) => {
        const ONE: Self = 1.0;
        const ZERO: Self = 0.0;

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
    };
}

impl Float for f32 {
    common!(0.499_999_97);

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as Self
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn exp<const FMA: bool>(self) -> Self {
        exp::exp::<FMA>(self)
    }
    #[inline(always)]
    fn exp2<const FMA: bool>(self) -> Self {
        exp::exp2::<FMA>(self)
    }
    #[inline(always)]
    fn log<const FMA: bool>(self) -> Self {
        log::log::<FMA>(self)
    }
    #[inline(always)]
    fn log2(self) -> Self {
        log::log2(self)
    }
    #[inline(always)]
    fn log1p<const FMA: bool>(self) -> Self {
        log::log1p::<FMA>(self)
    }
    #[inline(always)]
    fn tanh<const FMA: bool>(self) -> Self {
        exp::tanh::<FMA>(self)
    }
    #[inline(always)]
    fn erf<const FMA: bool>(self) -> Self {
        exp::erf::<FMA>(self)
    }
    #[inline(always)]
    fn sin(self) -> Self {
        trig::sin(self)
    }
    #[inline(always)]
    fn cos(self) -> Self {
        trig::cos(self)
    }
    #[inline(always)]
    fn pow(self, y: Self) -> Self {
        log::pow(self, y)
    }
    #[inline(always)]
    fn sine_reducible(self) -> bool {
        self.abs() <= trig::REDUCIBLE
    }
}

impl Float for f64 {
    common!(0.499_999_999_999_999_94);

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn exp<const FMA: bool>(self) -> Self {
        wide::exp(self)
    }
    #[inline(always)]
    fn exp2<const FMA: bool>(self) -> Self {
        wide::exp2(self)
    }
    #[inline(always)]
    fn log<const FMA: bool>(self) -> Self {
        wide::log(self)
    }
    #[inline(always)]
    fn log2(self) -> Self {
        wide::log2(self)
    }
    #[inline(always)]
    fn log1p<const FMA: bool>(self) -> Self {
        libm::log1p(self)
    }
    #[inline(always)]
    fn tanh<const FMA: bool>(self) -> Self {
        wide::tanh(self)
    }
    #[inline(always)]
    fn erf<const FMA: bool>(self) -> Self {
        libm::erf(self)
    }
    #[inline(always)]
    fn sin(self) -> Self {
        wide::sin(self)
    }
    #[inline(always)]
    fn cos(self) -> Self {
        wide::cos(self)
    }
    #[inline(always)]
    fn pow(self, y: Self) -> Self {
        libm::pow(self, y)
    }
    #[inline(always)]
    fn sine_reducible(self) -> bool {
        self.abs() <= f64::from(trig::REDUCIBLE)
    }
}
