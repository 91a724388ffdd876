//! The primitive operations.

/// A primitive scalar operation, which the printer, the evaluators and the CPU's vector code implement directly.
///
/// Everything else is a [`Function`](super::Function) made of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// `-x`
    Neg,
    /// `|x|`
    Abs,
    /// `e^x`
    Exp,
    /// `2^x`
    Exp2,
    /// Natural logarithm.
    Log,
    /// Base-2 logarithm.
    Log2,
    /// `log(1 + x)`, also where `x` is small.
    Log1p,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `1 / x`
    Recip,
    /// Hyperbolic tangent.
    Tanh,
    /// Error function.
    Erf,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Largest integer not above `x`.
    Floor,
    /// Smallest integer not below `x`.
    Ceil,
    /// Nearest integer, ties away from zero (Rust's `f32::round`).
    Round,
    /// `x + y`
    Add,
    /// `x - y`
    Sub,
    /// `x * y`
    Mul,
    /// `x / y`
    Div,
    /// The smaller; NaN if either is NaN.
    Min,
    /// The larger; NaN if either is NaN.
    Max,
    /// `x^y`, as C's `pow`.
    Pow,
    /// `x < y`, a truth value.
    Lt,
    /// `x <= y`, a truth value.
    Le,
    /// `x > y`, a truth value.
    Gt,
    /// `x >= y`, a truth value.
    Ge,
    /// `x == y`, a truth value.
    Eq,
    /// `x != y`, a truth value.
    Ne,
    /// `x * y + z`, rounded once.
    Fma,
    /// `if c { x } else { y }`; `c` is a truth value.
    Select,
}

impl Op {
    /// All operations: those of one operand, of two, comparisons, those of three.
    pub const ALL: [Self; 32] = [
        Self::Neg,
        Self::Abs,
        Self::Exp,
        Self::Exp2,
        Self::Log,
        Self::Log2,
        Self::Log1p,
        Self::Sqrt,
        Self::Rsqrt,
        Self::Recip,
        Self::Tanh,
        Self::Erf,
        Self::Sin,
        Self::Cos,
        Self::Floor,
        Self::Ceil,
        Self::Round,
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Min,
        Self::Max,
        Self::Pow,
        Self::Lt,
        Self::Le,
        Self::Gt,
        Self::Ge,
        Self::Eq,
        Self::Ne,
        Self::Fma,
        Self::Select,
    ];

    /// Number of operands.
    #[must_use]
    pub const fn arity(self) -> usize {
        use Op::{
            Abs, Add, Ceil, Cos, Div, Eq, Erf, Exp, Exp2, Floor, Fma, Ge, Gt, Le, Log, Log1p, Log2, Lt, Max, Min, Mul,
            Ne, Neg, Pow, Recip, Round, Rsqrt, Select, Sin, Sqrt, Sub, Tanh,
        };
        match self {
            Neg | Abs | Exp | Exp2 | Log | Log2 | Log1p | Sqrt | Rsqrt | Recip | Tanh | Erf | Sin | Cos | Floor
            | Ceil | Round => 1,
            Add | Sub | Mul | Div | Min | Max | Pow | Lt | Le | Gt | Ge | Eq | Ne => 2,
            Fma | Select => 3,
        }
    }

    /// Whether the result is a truth value.
    #[must_use]
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::Lt | Self::Le | Self::Gt | Self::Ge | Self::Eq | Self::Ne)
    }

    /// Whether it also applies to integers.
    #[must_use]
    pub const fn takes_integers(self) -> bool {
        self.is_comparison()
            || matches!(self, Self::Neg | Self::Add | Self::Sub | Self::Mul | Self::Min | Self::Max | Self::Select)
    }

    /// Whether it takes many instructions on every device.
    #[must_use]
    pub const fn is_costly(self) -> bool {
        matches!(
            self,
            Self::Exp
                | Self::Exp2
                | Self::Log
                | Self::Log2
                | Self::Log1p
                | Self::Sqrt
                | Self::Rsqrt
                | Self::Recip
                | Self::Tanh
                | Self::Erf
                | Self::Sin
                | Self::Cos
                | Self::Div
                | Self::Pow
        )
    }

    /// How the user writes it: the operator, or the function's name.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Exp => "exp",
            Self::Exp2 => "exp2",
            Self::Log => "log",
            Self::Log2 => "log2",
            Self::Log1p => "log1p",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Recip => "recip",
            Self::Tanh => "tanh",
            Self::Erf => "erf",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round => "round",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Min => "min",
            Self::Max => "max",
            Self::Pow => "pow",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Fma => "fma",
            Self::Select => "select",
        }
    }
}

/// An operation on truth values. Both sides are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Logic {
    /// `x && y`
    And,
    /// `x || y`
    Or,
    /// `!x`
    Not,
}

impl Logic {
    /// Number of operands.
    #[must_use]
    pub const fn arity(self) -> usize {
        match self {
            Self::And | Self::Or => 2,
            Self::Not => 1,
        }
    }

    /// How the user writes it.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Not => "!",
        }
    }
}
