//! The syntax tree of the epilogue language: the part of Rust that is not refused.
//!
//! Every node keeps the user's own tokens, so that what is expanded from it has the user's spans.
#![allow(missing_docs, reason = "most parts of a node are what their names say")]

use proc_macro2::{Ident, Span};
use syn::punctuated::Punctuated;
use syn::{Attribute, BinOp, ExprPath, Lit, LitInt, Path, Token, Type, Visibility, token};

/// The user's attributes, visibility and name, around the parameters and the body.
pub struct Header {
    /// Documentation, conditions and lint levels.
    pub attributes: Vec<Attribute>,
    pub visibility: Visibility,
    pub name: Ident,
    /// Whether it takes `self`: then it is in an `impl`, which can't have other items.
    pub receiver: bool,
}

/// A function under `#[epilogue]`, or the closure given to `closure!`.
pub struct Epilogue {
    /// The accumulators: at least one, except after a mistake.
    pub accums: Vec<Binding>,
    /// The words `Accum`, as far as they are written.
    pub accum_classes: Vec<Ident>,
    /// The parameters that are not accumulators.
    pub parameters: Vec<Parameter>,
    /// The declared results; `None` in the closure form, and after a mistake.
    pub returns: Option<Vec<Return>>,
    /// The statements; the block itself has no value.
    pub body: Block,
    /// The returned names.
    pub results: Vec<Returned>,
}

/// One returned name; `None` after a mistake.
pub struct Returned(pub Option<Ident>);

/// A function under `#[elementwise]`.
pub struct Elementwise {
    pub parameters: Vec<Binding>,
    pub body: Block,
}

/// A name that a parameter or a `let` introduces.
pub struct Binding {
    pub mutability: Option<Token![mut]>,
    pub name: Ident,
}

/// A parameter other than an accumulator.
pub struct Parameter {
    /// Its documentation.
    pub attributes: Vec<Attribute>,
    pub binding: Binding,
    /// `None` after a mistake.
    pub class: Option<Class>,
}

/// A class as it was written: `Tensor<bf16>`.
pub struct Class {
    pub kind: ClassKind,
    pub name: Ident,
    pub element: Option<Type>,
}

/// The language's parameter and result classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassKind {
    Accum,
    Tensor,
    TensorMut,
    RowVector,
    ColumnVector,
    Scalar,
    DeviceScalar,
    Seed,
    Bits,
    RowPartials,
    ColumnPartials,
}

/// One declared result; its `class` is `None` after a mistake.
pub struct Return {
    pub class: Option<Class>,
    pub span: Span,
}

/// A block whose value is its last expression.
pub struct Block {
    pub brace: token::Brace,
    pub statements: Vec<Statement>,
    pub value: Option<Box<Expr>>,
}

/// A statement.
pub enum Statement {
    Let(Box<Let>),
    Assign(Box<Assign>),
    /// A mistake that was reported, with the names that it may have introduced.
    Invalid(Vec<Ident>),
}

/// `let mut name: annotation = value;`
pub struct Let {
    pub attributes: Vec<Attribute>,
    pub let_token: Token![let],
    pub binding: Binding,
    pub annotation: Option<(Token![:], Type)>,
    pub eq_token: Token![=],
    pub value: Expr,
    pub semi_token: Token![;],
}

/// `name = value;` or `name += value;`
pub struct Assign {
    pub name: Ident,
    pub operator: AssignOperator,
    pub value: Expr,
    pub semi_token: Token![;],
}

/// An assignment's operator.
pub enum AssignOperator {
    Plain(Token![=]),
    Compound(Operator, BinOp),
}

/// The binary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

impl Operator {
    /// The name of the operation in the tree.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Sub => "Sub",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Lt => "Lt",
            Self::Le => "Le",
            Self::Gt => "Gt",
            Self::Ge => "Ge",
            Self::Eq => "Eq",
            Self::Ne => "Ne",
        }
    }

    pub fn is_comparison(self) -> bool {
        !matches!(self, Self::Add | Self::Sub | Self::Mul | Self::Div)
    }
}

/// `&&` or `||`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connective {
    And,
    Or,
}

/// A value.
pub enum Expr {
    /// A path that is not called. The check decides whether it is a [`Local`](Self::Local) or a
    /// [`Constant`](Self::Constant).
    Path(Box<ExprPath>),
    /// A parameter or a `let`.
    Local(Ident),
    /// A constant, by its index in the list that the check returns.
    Constant(usize, Span),
    Literal(Lit, f64),
    /// An integer literal, which is a number only if it is compared with an integer tensor.
    Integer(LitInt, f64),
    /// An integer literal beside an integer.
    IntegerLiteral(LitInt, i64),
    /// `row()` or another of [`POSITIONS`].
    Position(Ident, token::Paren),
    /// `random(seed, stream)`
    Random(Box<Random>),
    /// `integer(parameter)`
    ToInteger(Ident, token::Paren, Box<Expr>),
    /// `real(integer)`
    ToReal(Ident, token::Paren, Box<Expr>),
    /// `max` or `min` of two integers, and the word that was used.
    Extreme(Ident, Box<(Expr, Expr)>),
    /// `!condition`
    Not(Token![!], Box<Expr>),
    /// `condition && condition`
    Connected(Box<Expr>, Connective, BinOp, Box<Expr>),
    Negate(Token![-], Box<Expr>),
    Binary(Box<Expr>, Operator, BinOp, Box<Expr>),
    /// `x % y`, which the check refuses: what to write instead depends on what they are.
    Remainder(BinOp, Box<(Expr, Expr)>),
    /// `path::f(a, b)`
    Call(Box<Path>, token::Paren, Punctuated<Expr, Token![,]>),
    /// `x.f(a)`, which means `f(x, a)` with the library's function `f`.
    Method(Box<Expr>, Ident, token::Paren, Punctuated<Expr, Token![,]>),
    /// `x.cast::<T>()`
    Cast(Box<Expr>, Ident, Box<Type>),
    Reduction(Box<Reduction>),
    If(Box<If>),
    Block(Block),
    Paren(token::Paren, Box<Expr>),
    /// The operands of a mistake that was reported; mistakes inside them are reported, too.
    Refused(Vec<Expr>),
    /// A mistake that was reported.
    Invalid,
}

/// `random(seed)`, or `random(seed, stream)` with an integer literal.
pub struct Random {
    pub word: Ident,
    pub paren: token::Paren,
    /// The seed's name, after the check.
    pub seed: Expr,
    /// The stream; 0 if none is written.
    pub stream: u32,
}

/// `if condition { then } else otherwise`
pub struct If {
    pub if_token: Token![if],
    pub condition: Box<Expr>,
    pub then: Block,
    pub else_token: Token![else],
    /// A block, or another `if`.
    pub otherwise: Box<Expr>,
}

/// `reduction_op(input, axis, op, length)`; a part with a mistake is `None`.
pub struct Reduction {
    /// The word `reduction_op`.
    pub word: Ident,
    pub input: Box<Expr>,
    /// The axis, its word, and whether the batch is reduced, too.
    pub axis: Option<(Axis, Ident, bool)>,
    /// The operation, one of [`REDUCE_OPS`], [`INDEX_OPS`] or [`COMPOSED_OPS`]; the last part of the path of an
    /// [`own`](Self::own) one.
    pub op: Option<Ident>,
    /// The module of a reducer of the user's own.
    pub own: Option<Path>,
    /// Whether a fourth argument asks for per-tile partials.
    pub partial: bool,
}

/// The axis of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    Row,
    Column,
    All,
}

/// The operations of a reduction.
pub const REDUCE_OPS: [&str; 6] = ["Add", "Mul", "Max", "Min", "AbsMax", "SumSquares"];

/// The operations that give an element's index.
pub const INDEX_OPS: [&str; 2] = ["ArgMax", "ArgMin"];

/// The operations that are made of others.
pub const COMPOSED_OPS: [&str; 5] = ["Any", "All", "Mean", "Variance", "LogSumExp"];

impl Reduction {
    /// Whether the operation gives an element's index, an integer.
    pub fn gives_index(&self) -> bool {
        self.own.is_none() && self.op.as_ref().is_some_and(|op| INDEX_OPS.iter().any(|word| op == word))
    }

    /// The operation, if it is made of others.
    pub fn composed(&self) -> Option<Composed> {
        let op = self.op.as_ref().filter(|_| self.own.is_none())?.to_string();
        COMPOSED_OPS.contains(&op.as_str()).then(|| Composed {
            of_truths: op == "Any" || op == "All",
            length: if op == "Variance" || op == "LogSumExp" { 2 } else { 1 },
        })
    }
}

/// The checks' knowledge of an operation that is made of others; the library's tree has the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Composed {
    /// Whether it takes truth values and gives one.
    pub of_truths: bool,
    /// How many reductions it is, one after another.
    pub length: usize,
}

/// The words for an element's position and for the extents.
pub const POSITIONS: [&str; 5] = ["row", "column", "batch", "rows", "columns"];

/// The words that convert between integers and numbers.
pub const INTEGER: &str = "integer";
pub const REAL: &str = "real";

/// The word that gives random numbers.
pub const RANDOM: &str = "random";

/// The word that reduces.
pub const REDUCTION_OP: &str = "reduction_op";

impl ClassKind {
    /// The classes of parameters.
    pub const PARAMETERS: [Self; 8] = [
        Self::Tensor,
        Self::TensorMut,
        Self::RowVector,
        Self::ColumnVector,
        Self::Scalar,
        Self::DeviceScalar,
        Self::Seed,
        Self::Bits,
    ];
    /// The classes of results.
    pub const RESULTS: [Self; 8] = [
        Self::Tensor,
        Self::TensorMut,
        Self::RowVector,
        Self::ColumnVector,
        Self::DeviceScalar,
        Self::Bits,
        Self::RowPartials,
        Self::ColumnPartials,
    ];
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Accum,
        Self::Tensor,
        Self::TensorMut,
        Self::RowVector,
        Self::ColumnVector,
        Self::Scalar,
        Self::DeviceScalar,
        Self::Seed,
        Self::Bits,
        Self::RowPartials,
        Self::ColumnPartials,
    ];

    /// The word that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accum => "Accum",
            Self::Tensor => "Tensor",
            Self::TensorMut => "TensorMut",
            Self::RowVector => "RowVector",
            Self::ColumnVector => "ColumnVector",
            Self::Scalar => "Scalar",
            Self::DeviceScalar => "DeviceScalar",
            Self::Seed => "Seed",
            Self::Bits => "Bits",
            Self::RowPartials => "RowPartials",
            Self::ColumnPartials => "ColumnPartials",
        }
    }

    /// Its extent, for documentation and messages.
    pub fn extent(self) -> &'static str {
        match self {
            Self::Accum | Self::Tensor | Self::TensorMut => "M×N values",
            Self::RowVector => "N values, the same in every row",
            Self::ColumnVector => "M values, the same in every column",
            Self::Scalar => "one value, given by the host",
            Self::DeviceScalar => "one value in device memory",
            Self::Seed => "what random numbers follow from",
            Self::Bits => "M×N truth values, eight columns in a byte: u8 of shape `[M, ceil(N / 8)]`",
            Self::RowPartials => "`[ceil(N / tile_n), M]` values of f32, one for each row of each tile",
            Self::ColumnPartials => "`[ceil(M / tile_m), N]` values of f32, one for each column of each tile",
        }
    }
}
