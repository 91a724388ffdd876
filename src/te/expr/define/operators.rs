//! The operators on expressions, variables, axes and numbers.

use std::ops;

use crate::expr::{Condition, Function, Number, Op, Operand};
use crate::te::dtype::DType;
use crate::te::error::ExpressionError;
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        operators!(@ $trait $method $op: Expr, &Expr, Var, Axis);
        operators!(number $trait $method $op: i32, u32, i64, u64, isize, usize, f32, f64);
    )*};
    (@ $trait:ident $method:ident $op:ident: $($left:ty),*) => {$(
        impl<R: Into<Expr>> ops::$trait<R> for $left {
            type Output = Expr;
            fn $method(self, right: R) -> Expr {
                Expr::arithmetic(Binary::$op, self.into(), right.into())
            }
        }
    )*};
    (number $trait:ident $method:ident $op:ident: $($left:ty),*) => {$(
        operators!(pair $trait $method $op: $left, Expr);
        operators!(pair $trait $method $op: $left, &Expr);
        operators!(pair $trait $method $op: $left, Var);
        operators!(pair $trait $method $op: $left, Axis);
    )*};
    (pair $trait:ident $method:ident $op:ident: $left:ty, $right:ty) => {
        impl ops::$trait<$right> for $left {
            type Output = Expr;
            fn $method(self, right: $right) -> Expr {
                Expr::arithmetic(Binary::$op, self.into(), right.into())
            }
        }
    };
}

operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem FloorMod);

macro_rules! of_bits {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        of_bits!(@ $trait $method $op: Expr, &Expr, Var, Axis);
    )*};
    (@ $trait:ident $method:ident $op:ident: $($left:ty),*) => {$(
        impl<R: Into<Expr>> ops::$trait<R> for $left {
            type Output = Expr;
            fn $method(self, right: R) -> Expr {
                Expr::of_bits(Binary::$op, self.into(), right.into())
            }
        }
    )*};
}

of_bits!(BitAnd bitand BitAnd, BitOr bitor BitOr, BitXor bitxor BitXor, Shl shl Shl, Shr shr Shr);

/// The methods of expressions, for variables and axes.
macro_rules! methods {
    ($left:ty: $($(#[$doc:meta])* $method:ident),*) => {
        impl $left {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(self, other: impl Into<Expr>) -> Expr {
                    Expr::from(self).$method(other)
                }
            )*

            /// The value in another type.
            #[must_use]
            pub fn cast(self, to: impl Into<DType>) -> Expr {
                Expr::from(self).cast(to)
            }
        }
    };
    ($($left:ty),*) => {$(
        methods!($left:
            /// `floor(self / other)`
            floor_div,
            /// `self - other * floor(self / other)`
            floor_mod,
            /// The smaller of two.
            min,
            /// `self / other`, cut toward zero.
            trunc_div,
            /// `self - other * trunc_div(self, other)`
            trunc_mod,
            /// The larger of two.
            max,
            /// `self < other`
            less,
            /// `self <= other`
            less_equal,
            /// `self > other`
            greater,
            /// `self >= other`
            greater_equal,
            /// `self == other`
            equal,
            /// `self != other`
            not_equal
        );
    )*};
}

methods!(Var, Axis);

impl Expr {
    /// The operators on bits, which of truth values are those of logic.
    fn of_bits(op: Binary, a: Self, b: Self) -> Self {
        let truths = a.dtype() == DType::Bool && b.dtype() == DType::Bool;
        let op = match op {
            Binary::BitAnd if truths => Binary::And,
            Binary::BitOr if truths => Binary::Or,
            Binary::BitXor if truths => Binary::Ne,
            op => op,
        };
        Self::binary(op, a, b)
    }

    /// The operators. Division of integers rounds down.
    fn arithmetic(op: Binary, a: Self, b: Self) -> Self {
        let integers = a.dtype().is_integer() && b.dtype().is_integer();
        Self::binary(if op == Binary::Div && integers { Binary::FloorDiv } else { op }, a, b)
    }
}

macro_rules! numbers {
    ($($expr:ty),*) => {$(
        impl Number for $expr {
            type Value = Expr;

            fn call<const REST: usize>(
                self,
                rest: [Expr; REST],
                function: fn() -> &'static Function,
                _host: impl FnOnce(f32, [f32; REST]) -> f32,
            ) -> Expr {
                Expr::call(function(), std::iter::once(self.into()).chain(rest).collect())
            }
        }

        impl Condition for $expr {
            type Value = Expr;

            fn choose(self, then: Expr, otherwise: Expr) -> Expr {
                self.select(then, otherwise)
            }
        }
    )*};
}

numbers!(Expr, &Expr);

impl<T: Into<Expr>> Operand<Expr> for T {
    fn operand(self) -> Expr {
        self.into()
    }
}

impl ops::Neg for Expr {
    type Output = Self;
    fn neg(self) -> Self {
        if self.dtype().is_float() { Self::apply(Op::Neg, vec![self]) } else { Self::int(0) - self }
    }
}

impl ops::Not for Expr {
    type Output = Self;
    fn not(self) -> Self {
        match (self.error(), self.dtype()) {
            (Some(error), _) => Self::invalid(error),
            (None, DType::Bool) => Self::new(DType::Bool, Kind::Not(self)),
            (None, dtype) if dtype.is_integer() => Self::binary(Binary::BitXor, self, Self::wrapped(-1, dtype)),
            (None, given) => Self::invalid(ExpressionError::OperandType { operation: "not".to_owned(), given }.into()),
        }
    }
}
