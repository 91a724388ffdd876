//! Expressions: integers for shapes and indices, numbers for values.

use std::sync::Arc;

use super::axis::Axis;
pub use super::binary::Binary;
use super::buffer::Buffer;
use super::node::Node;
use super::reduce::Reduce;
use super::tensor::Tensor;
use super::unsigned;
use super::var::Var;
use crate::expr::identifier::shortened;
use crate::expr::{Body, Function, Op};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};

/// An expression: an immutable graph. A value that is used several times is one node, and is computed once.
///
/// Operations nest up to 640 deep. An expression that nests deeper is refused where it is used
/// ([`ExpressionError::Nested`]).
///
/// | operations | of |
/// |---|---|
/// | `+`, `-`, `*`, `min`, `max`, `sign` | all numbers |
/// | `/` | floating-point numbers; of integers it is `floor_div` |
/// | `floor_div`, `floor_mod` (`%`), `trunc_div`, `trunc_mod` | integers |
/// | `&`, `\|`, `^`, `!`, `<<`, `>>` (`bit_and`, …, `shift_right`) | integers; without shifts, also truth values |
/// | `less`, `less_equal`, `greater`, `greater_equal`, `equal`, `not_equal` | all; the result is a truth value |
/// | `and`, `or`, `!`, `select` | truth values |
/// | `trunc`, `is_nan`, `is_infinite`, `is_finite` | all numbers |
/// | `tan`, `atan2`, and the functions of [`ops`](crate::ops) | floating-point numbers |
/// | `cast` | all |
///
/// [`DType`] says how each type overflows.
#[derive(Clone)]
pub struct Expr(pub(crate) Arc<Node>);

/// The operation or value of an expression's outermost node.
#[derive(Clone, Debug)]
pub enum Kind {
    /// An integer, or a truth value (0 or 1).
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A variable.
    Var(Var),
    /// An operation of two operands.
    Binary(Binary, Expr, Expr),
    /// A negated truth value.
    Not(Expr),
    /// `if condition { then } else { otherwise }`; only the chosen side is evaluated.
    Select(Expr, Expr, Expr),
    /// A conversion to the expression's type.
    Cast(Expr),
    /// A primitive operation that has no [`Binary`] form: `exp`, `tanh`, …
    Apply(Op, Vec<Expr>),
    /// A call of an elementwise function.
    Call(&'static Function, Vec<Expr>),
    /// An element of a tensor.
    Read(Tensor, Vec<Expr>),
    /// An element of a buffer: what a read becomes when it is lowered.
    Load(Buffer, Vec<Expr>),
    /// One value of a reduction. It may only be the whole body of a computation.
    Reduce(Arc<Reduce>, usize),
    /// A condition that nearly always holds. Loop partition looks for it.
    Likely(Expr),
    /// A mistake. It is reported where the expression is used.
    Invalid(TeError),
}

impl Expr {
    pub(crate) fn new(dtype: DType, kind: Kind) -> Self {
        Self(Arc::new(Node::new(dtype, kind)))
    }

    /// An integer constant: of 32 bits if the value fits, otherwise of 64.
    #[must_use]
    pub fn int(value: i64) -> Self {
        let dtype = if DType::I32.holds(value) { DType::I32 } else { DType::I64 };
        Self::new(dtype, Kind::Int(value))
    }

    /// An integer constant of an integer type; a value outside of its range wraps.
    pub(crate) fn wrapped(value: i64, dtype: DType) -> Self {
        Self::new(dtype, Kind::Int(dtype.wrap(value)))
    }

    /// A truth value.
    #[must_use]
    pub fn truth(value: bool) -> Self {
        Self::new(DType::Bool, Kind::Int(i64::from(value)))
    }

    /// A constant of a type. A value that an integer type doesn't hold is a mistake
    /// ([`ExpressionError::Unrepresentable`]), which is reported where the expression is used. [`DType::least`] and
    /// [`DType::greatest`] are valid for every type.
    #[must_use]
    pub fn constant(value: f64, dtype: DType) -> Self {
        if dtype.is_float() {
            return Self::new(dtype, Kind::Float(value));
        }
        // The greatest i64 is 2^63 as an f64: a cast saturates, so both extremes round trip.
        if value.fract() == 0.0 && (dtype.least()..=dtype.greatest()).contains(&value) {
            let value = if dtype == DType::U64 { (value as u64).cast_signed() } else { value as i64 };
            Self::new(dtype, Kind::Int(value))
        } else {
            Self::invalid(ExpressionError::Unrepresentable { value: value.to_string(), dtype }.into())
        }
    }

    pub(crate) fn invalid(error: TeError) -> Self {
        Self::new(DType::I32, Kind::Invalid(error))
    }

    /// The operation or value of the outermost node.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Its type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Its value, if it is an integer constant.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self.kind() {
            Kind::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The variable, if it is one.
    #[must_use]
    pub fn as_var(&self) -> Option<Var> {
        match self.kind() {
            Kind::Var(var) => Some(*var),
            _ => None,
        }
    }

    /// An operation of two operands. If one is a constant, it is converted to the other's type.
    #[must_use]
    pub fn binary(op: Binary, a: Self, b: Self) -> Self {
        if let Some(error) = a.error().or_else(|| b.error()) {
            return Self::invalid(error);
        }
        let (a, b) = match unify(a, b) {
            Ok(pair) => pair,
            Err(error) => return Self::invalid(error),
        };
        if let Some(number) = fold(op, &a, &b) {
            return number;
        }
        let dtype = if op.is_truth() { DType::Bool } else { a.dtype() };
        let allowed = match op {
            Binary::And | Binary::Or => a.dtype() == DType::Bool,
            Binary::FloorDiv | Binary::FloorMod => a.dtype().is_integer(),
            Binary::Div => a.dtype().is_float(),
            _ if op.is_bitwise() => a.dtype().is_integer(),
            _ => op.is_truth() || a.dtype() != DType::Bool,
        };
        if !allowed {
            return Self::invalid(
                ExpressionError::OperandType { operation: format!("{op:?}"), given: a.dtype() }.into(),
            );
        }
        let by_signed = if a.dtype() == DType::U64 { unsigned::binary(op, &a, &b) } else { None };
        by_signed.unwrap_or_else(|| Self::new(dtype, Kind::Binary(op, a, b)))
    }

    pub(crate) fn error(&self) -> Option<TeError> {
        match self.kind() {
            Kind::Invalid(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// `floor(self / by)` of integers.
    #[must_use]
    pub fn floor_div(&self, by: impl Into<Self>) -> Self {
        Self::binary(Binary::FloorDiv, self.clone(), by.into())
    }

    /// `self - by * floor(self / by)` of integers.
    #[must_use]
    pub fn floor_mod(&self, by: impl Into<Self>) -> Self {
        Self::binary(Binary::FloorMod, self.clone(), by.into())
    }

    /// The smaller of two; NaN if either is NaN.
    #[must_use]
    pub fn min(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Min, self.clone(), other.into())
    }

    /// The larger of two; NaN if either is NaN.
    #[must_use]
    pub fn max(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Max, self.clone(), other.into())
    }

    /// `self < other`
    #[must_use]
    pub fn less(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Lt, self.clone(), other.into())
    }

    /// `self <= other`
    #[must_use]
    pub fn less_equal(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Le, self.clone(), other.into())
    }

    /// `self > other`
    #[must_use]
    pub fn greater(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Gt, self.clone(), other.into())
    }

    /// `self >= other`
    #[must_use]
    pub fn greater_equal(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Ge, self.clone(), other.into())
    }

    /// `self == other`
    #[must_use]
    pub fn equal(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Eq, self.clone(), other.into())
    }

    /// `self != other`
    #[must_use]
    pub fn not_equal(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Ne, self.clone(), other.into())
    }

    /// Both conditions.
    #[must_use]
    pub fn and(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::And, self.clone(), other.into())
    }

    /// Either condition.
    #[must_use]
    pub fn or(&self, other: impl Into<Self>) -> Self {
        Self::binary(Binary::Or, self.clone(), other.into())
    }

    /// `if self { then } else { otherwise }`
    #[must_use]
    pub fn select(&self, then: impl Into<Self>, otherwise: impl Into<Self>) -> Self {
        if let Some(error) = self.error() {
            return Self::invalid(error);
        }
        if self.dtype() != DType::Bool {
            return Self::invalid(
                ExpressionError::OperandType { operation: "select".to_owned(), given: self.dtype() }.into(),
            );
        }
        let (then, otherwise) = (then.into(), otherwise.into());
        if let Some(error) = then.error().or_else(|| otherwise.error()) {
            return Self::invalid(error);
        }
        match unify(then, otherwise) {
            Ok((then, otherwise)) => Self::new(then.dtype(), Kind::Select(self.clone(), then, otherwise)),
            Err(error) => Self::invalid(error),
        }
    }

    /// The value converted to another type. Floating-point results are rounded to nearest even. A conversion of an
    /// integer to a narrower one, or to one without a sign, wraps: it keeps the low bits. A floating-point number that is
    /// converted to an integer is cut toward zero; what is out of range becomes the nearest integer of the type, NaN 0.
    #[must_use]
    pub fn cast(&self, to: impl Into<DType>) -> Self {
        let to = DType::of(to);
        match self.kind() {
            Kind::Invalid(_) => self.clone(),
            _ if self.dtype() == to => self.clone(),
            _ if self.dtype() == DType::U64 && to.is_float() => unsigned::to_float(self, to),
            _ if self.dtype().is_float() && to == DType::U64 => unsigned::from_float(self),
            _ => Self::new(to, Kind::Cast(self.clone())),
        }
    }

    /// A primitive operation. For an `op` that has an operator, and for `min`, `max` and `select`, this is the same as
    /// calling that. All other operations take floating-point numbers. All operands must have one type; a literal
    /// number takes the type of the others.
    ///
    /// ```
    /// use epilogue::ElementType;
    /// use epilogue::expr::Op;
    /// use epilogue::te::{self, Expr};
    ///
    /// let (x, y) = (te::placeholder_of(ElementType::F16, [8], "x"), te::placeholder([8], "y"));
    /// let fma = |y: Expr| te::compute([8], "fma", |[i]| Expr::apply(Op::Fma, vec![x.at([i]), 2.0.into(), y.clone()]));
    /// assert!(fma(1.0.into()).is_ok());
    /// assert!(fma(y.at([0])).is_err_and(|error| error.to_string().contains("cast(ElementType::F16)")));
    /// assert!(fma(y.at([0]).cast(ElementType::F16)).is_ok());
    /// ```
    #[must_use]
    pub fn apply(op: Op, mut operands: Vec<Self>) -> Self {
        if let Some(error) = mistake(op.symbol(), op.arity(), &operands) {
            return Self::invalid(error);
        }
        match (op, operands.as_slice()) {
            (Op::Select, [condition, then, otherwise]) => return condition.select(then, otherwise),
            (Op::Neg, [x]) if x.dtype().is_integer() => return Self::binary(Binary::Sub, Self::int(0), x.clone()),
            (_, [x, y]) => {
                if let Some(binary) = Binary::of(op) {
                    return Self::binary(binary, x.clone(), y.clone());
                }
            }
            _ => {}
        }
        match floats(op.symbol(), &mut operands) {
            Ok(dtype) => Self::new(dtype, Kind::Apply(op, operands)),
            Err(error) => Self::invalid(error),
        }
    }

    /// A call of an elementwise function, as `f(x, y)` makes it; for when the function is known only at run time, by
    /// its definition. A primitive operation becomes that operation ([`Expr::apply`]). The operands are floating-point
    /// numbers of one type; a literal number takes the type of the others.
    ///
    /// ```
    /// use epilogue::ops;
    /// use epilogue::te::{self, Expr};
    ///
    /// let x = te::placeholder([8], "x");
    /// let at = x.at([3]);
    /// assert!(Expr::call(ops::gelu::function(), vec![at.clone()]) == ops::gelu(at));
    /// ```
    #[must_use]
    pub fn call(function: &'static Function, mut operands: Vec<Self>) -> Self {
        if let (Body::Primitive(op), None) = (function.body(), function.cuda()) {
            return Self::apply(*op, operands);
        }
        let long = || {
            let reason = function.excess()?;
            Some(ExpressionError::LongFunction { function: shortened(function.name()), reason }.into())
        };
        let mistake = mistake(function.name(), function.parameters().len(), &operands).or_else(long);
        match mistake.map_or_else(|| floats(function.name(), &mut operands), Err) {
            Ok(dtype) => Self::new(dtype, Kind::Call(function, operands)),
            Err(error) => Self::invalid(error),
        }
    }

    pub(crate) fn likely(self) -> Self {
        Self::new(DType::Bool, Kind::Likely(self))
    }
}

/// A literal number in another type; `None` if the expression is not a literal, or has no meaning in that type.
///
/// # Errors
/// [`ExpressionError::Unrepresentable`] for an integer that the type doesn't hold.
pub(crate) fn retyped(x: &Expr, to: DType) -> Result<Option<Expr>, TeError> {
    Ok(match x.kind() {
        // No other type holds it.
        Kind::Int(value) if x.dtype() == DType::U64 && *value < 0 => {
            let value = value.cast_unsigned();
            if !to.is_float() {
                return Err(ExpressionError::Unrepresentable { value: value.to_string(), dtype: to }.into());
            }
            Some(Expr::constant(value as f64, to))
        }
        Kind::Int(value) if to.is_float() => Some(Expr::constant(*value as f64, to)),
        Kind::Int(value) if to.is_integer() => {
            if !to.holds(*value) {
                return Err(ExpressionError::Unrepresentable { value: value.to_string(), dtype: to }.into());
            }
            Some(Expr::new(to, Kind::Int(*value)))
        }
        Kind::Float(value) if to.is_float() => Some(Expr::constant(*value, to)),
        _ => None,
    })
}

/// Gives both operands one type: a constant takes the type of the other.
fn unify(a: Expr, b: Expr) -> Result<(Expr, Expr), TeError> {
    if a.dtype() == b.dtype() {
        return Ok((a, b));
    }
    let second = retyped(&b, a.dtype());
    if let Ok(Some(b)) = second {
        return Ok((a, b));
    }
    if let Some(a) = retyped(&a, b.dtype())? {
        return Ok((a, b));
    }
    second.and(Err(ExpressionError::MixedTypes { left: a.dtype(), right: b.dtype() }.into()))
}

/// A mistake in the operands themselves, which is reported before their types are compared.
fn mistake(function: &str, needed: usize, operands: &[Expr]) -> Option<TeError> {
    let arity = || {
        let given = operands.len();
        (given != needed).then(|| ExpressionError::Arity { function: function.to_owned(), needed, given }.into())
    };
    operands.iter().find_map(Expr::error).or_else(arity)
}

/// Gives the operands of a function of floating-point numbers one type, as operators do: a constant takes the type of
/// the others.
fn floats(function: &str, operands: &mut [Expr]) -> Result<DType, TeError> {
    let is_written = |x: &&Expr| matches!(x.kind(), Kind::Int(_) | Kind::Float(_));
    let known = operands.iter().find(|x| !is_written(x));
    let known = known.or_else(|| operands.iter().find(|x| x.dtype().is_float())).or(operands.first());
    let dtype = known.map_or(DType::F32, Expr::dtype);
    if !dtype.is_float() {
        return Err(ExpressionError::OperandType { operation: function.to_owned(), given: dtype }.into());
    }
    for x in operands {
        if x.dtype() == dtype {
            continue;
        }
        let mixed = || ExpressionError::MixedOperands { function: function.to_owned(), first: dtype, other: x.dtype() };
        *x = retyped(x, dtype)?.ok_or_else(mixed)?;
    }
    Ok(dtype)
}

/// A sum, difference, product or bit operation of two literal numbers. Integers that are narrower than what holds them
/// wrap, as at run time, and so does u64. Overflow of i32 and i64 is not folded, and is refused where the expression is
/// used ([`overflowing`]).
fn fold(op: Binary, a: &Expr, b: &Expr) -> Option<Expr> {
    let (Kind::Int(x), Kind::Int(y), DType::Number(_)) = (a.kind(), b.kind(), a.dtype()) else { return None };
    if op.is_bitwise() {
        return op.of_bits(*x, *y, a.dtype()).map(|value| Expr::wrapped(value, a.dtype()));
    }
    let wraps = !matches!(a.dtype(), DType::I32 | DType::I64);
    let value = match op {
        Binary::Add if wraps => Some(x.wrapping_add(*y)),
        Binary::Sub if wraps => Some(x.wrapping_sub(*y)),
        Binary::Mul if wraps => Some(x.wrapping_mul(*y)),
        Binary::Add => x.checked_add(*y),
        Binary::Sub => x.checked_sub(*y),
        Binary::Mul => x.checked_mul(*y),
        _ => None,
    }?;
    (wraps || a.dtype().holds(value)).then(|| Expr::wrapped(value, a.dtype()))
}

/// Whether it is arithmetic of two literal numbers whose result is outside of the range of their type.
pub(crate) fn overflowing(x: &Expr) -> bool {
    let Kind::Binary(Binary::Add | Binary::Sub | Binary::Mul, a, b) = x.kind() else { return false };
    a.as_int().is_some() && b.as_int().is_some()
}

impl From<Var> for Expr {
    fn from(var: Var) -> Self {
        Self::new(var.dtype(), Kind::Var(var))
    }
}

impl From<Axis> for Expr {
    fn from(axis: Axis) -> Self {
        axis.var().into()
    }
}

impl From<&Var> for Expr {
    fn from(var: &Var) -> Self {
        (*var).into()
    }
}

impl From<&Axis> for Expr {
    fn from(axis: &Axis) -> Self {
        (*axis).into()
    }
}

impl From<&Self> for Expr {
    fn from(x: &Self) -> Self {
        x.clone()
    }
}

macro_rules! from_integers {
    ($($integer:ty: |$value:ident| $expression:expr,)*) => {$(
        impl From<$integer> for Expr {
            /// As i64; a number beyond the range of i64 is a u64.
            fn from($value: $integer) -> Self {
                $expression
            }
        }

        impl From<&$integer> for Expr {
            fn from(value: &$integer) -> Self {
                Self::from(*value)
            }
        }
    )*};
}

from_integers! {
    i8: |value| Self::int(value.into()),
    u8: |value| Self::int(value.into()),
    i16: |value| Self::int(value.into()),
    u16: |value| Self::int(value.into()),
    i32: |value| Self::int(value.into()),
    u32: |value| Self::int(value.into()),
    i64: |value| Self::int(value),
    u64: |value| i64::try_from(value).map_or_else(|_| Self::wrapped(value.cast_signed(), DType::U64), Self::int),
    isize: |value| Self::int(value as i64),
    usize: |value| Self::from(value as u64),
}

impl From<bool> for Expr {
    fn from(value: bool) -> Self {
        Self::truth(value)
    }
}

impl From<f32> for Expr {
    fn from(value: f32) -> Self {
        Self::constant(f64::from(value), DType::F32)
    }
}

impl From<f64> for Expr {
    fn from(value: f64) -> Self {
        Self::constant(value, DType::F32)
    }
}
