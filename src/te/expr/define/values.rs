//! Methods of expressions that are made of other expressions.

use crate::expr::Op;
use crate::ops;
use crate::te::dtype::DType;
use crate::te::expr::expression::Expr;

impl Expr {
    /// `self / by` of integers, cut toward zero. The remainder, [`trunc_mod`](Self::trunc_mod), has the sign of `self`,
    /// as in C and Rust. A divisor of 0 is an error of the run, as of [`floor_div`](Self::floor_div); the least integer
    /// divided by -1 wraps to itself.
    ///
    /// ```
    /// use epilogue::{Device, ElementType, te};
    ///
    /// let x = te::placeholder_of(ElementType::I32, [4], "x");
    /// let y = te::compute([4], "y", |[i]| x.at([i]).trunc_div(2))?;
    /// let device = Device::cpu();
    /// let kernel = te::auto::build(&[&y])?.build(&device)?;
    /// let given = device.tensor(&[-3i32, -2, 2, 3], [4])?;
    /// let mut made = device.zeros::<i32>([4])?;
    /// kernel.run_bound(&[(&x, (&given).into()), (&y, (&mut made).into())])?;
    /// assert_eq!(made.to_vec::<i32>()?, [-1, -1, 1, 1]); // `floor_div` gives -2, -1, 1, 1
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn trunc_div(&self, by: impl Into<Self>) -> Self {
        let (down, rest, differ) = self.divided(by);
        // What was rounded down is 1 more where the exact quotient is negative.
        let one = Self::wrapped(1, down.dtype());
        let zero = Self::wrapped(0, down.dtype());
        down + rest.not_equal(0).and(differ).select(one, zero)
    }

    /// `self - by * self.trunc_div(by)` of integers: the remainder that has the sign of `self`.
    #[must_use]
    pub fn trunc_mod(&self, by: impl Into<Self>) -> Self {
        let by = by.into();
        let (_, rest, differ) = self.divided(&by);
        rest.not_equal(0).and(differ).select(&rest - by, &rest)
    }

    /// The quotient rounded down, its remainder, and whether the operands' signs differ.
    fn divided(&self, by: impl Into<Self>) -> (Self, Self, Self) {
        let by = by.into();
        let (down, rest) = (self.floor_div(&by), self.floor_mod(&by));
        if let Some(error) = down.error() {
            return (down, rest, Self::invalid(error));
        }
        let dtype = down.dtype();
        let differ = if dtype.is_unsigned() { Self::truth(false) } else { self.less(0).not_equal(by.less(0)) };
        (down, rest, differ)
    }

    /// A number with a fraction cut toward zero. Infinities, NaN and -0 stay as they are. For an integer, the integer.
    #[must_use]
    pub fn trunc(&self) -> Self {
        if self.dtype().is_integer() {
            return self.clone();
        }
        let [down, up] = [Op::Floor, Op::Ceil].map(|op| Self::apply(op, vec![self.clone()]));
        self.less(0).select(up, down)
    }

    /// 1 of a positive number, -1 of a negative one, 0 of either zero; of NaN, NaN.
    #[must_use]
    pub fn sign(&self) -> Self {
        let dtype = self.dtype();
        let positive = self.greater(0);
        if dtype.is_unsigned() {
            return positive.select(Self::wrapped(1, dtype), Self::wrapped(0, dtype));
        }
        let not_positive = self.less(0).select(Self::constant(-1.0, dtype), Self::constant(0.0, dtype));
        let number = positive.select(Self::constant(1.0, dtype), not_positive);
        if dtype.is_float() { self.is_nan().select(self, number) } else { number }
    }

    /// Whether it is NaN; of an integer, false.
    #[must_use]
    pub fn is_nan(&self) -> Self {
        if self.dtype().is_integer() { Self::truth(false) } else { self.not_equal(self) }
    }

    /// Whether it is an infinity of either sign; of an integer, false.
    #[must_use]
    pub fn is_infinite(&self) -> Self {
        self.below_infinity().map_or_else(|| Self::truth(false), |(size, infinity)| size.equal(infinity))
    }

    /// Whether it is neither an infinity nor NaN; of an integer, true.
    #[must_use]
    pub fn is_finite(&self) -> Self {
        self.below_infinity().map_or_else(|| Self::truth(true), |(size, infinity)| size.less(infinity))
    }

    /// The absolute value, and infinity; `None` of an integer.
    fn below_infinity(&self) -> Option<(Self, Self)> {
        if self.dtype().is_integer() {
            return None;
        }
        // A narrow type may have no infinity as a constant.
        let wide = if self.dtype() == DType::Number(crate::ElementType::F64) { self.dtype() } else { DType::F32 };
        let size = Self::apply(Op::Abs, vec![self.cast(wide)]);
        Some((size, Self::constant(f64::INFINITY, wide)))
    }

    /// The tangent of radians: [`ops::tan`].
    #[must_use]
    pub fn tan(&self) -> Self {
        ops::tan(self.clone())
    }

    /// The angle of the point `(x, self)`, in radians from -π to π: [`ops::atan2`].
    #[must_use]
    pub fn atan2(&self, x: impl Into<Self>) -> Self {
        ops::atan2(self.clone(), x.into())
    }

    /// The bits that both integers have, as `self & other`. For truth values, that both hold.
    #[must_use]
    pub fn bit_and(&self, other: impl Into<Self>) -> Self {
        self & other.into()
    }

    /// The bits that either integer has, as `self | other`.
    #[must_use]
    pub fn bit_or(&self, other: impl Into<Self>) -> Self {
        self | other.into()
    }

    /// The bits that one integer has and the other hasn't, as `self ^ other`.
    #[must_use]
    pub fn bit_xor(&self, other: impl Into<Self>) -> Self {
        self ^ other.into()
    }

    /// The bits that an integer hasn't, as `!self`.
    #[must_use]
    pub fn bit_not(&self) -> Self {
        !self.clone()
    }

    /// `self * 2^by` of integers, which wraps, as `self << by`. It is 0 if `by` is negative, or no less than the number
    /// of bits.
    #[must_use]
    pub fn shift_left(&self, by: impl Into<Self>) -> Self {
        self << by.into()
    }

    /// `self / 2^by` of integers, rounded down, as `self >> by`. If `by` is negative, or no less than the number of
    /// bits, it is 0, or -1 of a negative integer.
    #[must_use]
    pub fn shift_right(&self, by: impl Into<Self>) -> Self {
        self >> by.into()
    }
}
