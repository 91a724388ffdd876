//! The nodes of the visitor tree, and the tree as the macros build it, before any check.

use smallvec::SmallVec;

use super::declared::DeclaredElement;
use super::reducer::Reducer;
use crate::ElementType;
use crate::expr::{Function, Logic, Op};

/// How a value extends over the product's M×N elements. (Any class may also have a leading batch axis.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BroadcastClass {
    /// One value.
    Scalar,
    /// N values, the same in every row.
    RowVector,
    /// M values, the same in every column.
    ColumnVector,
    /// M×N values.
    Tensor,
}

impl BroadcastClass {
    /// The class of a parameter that reads values of this class from memory, where an earlier launch has written them.
    pub(in crate::evt) const fn in_memory(self) -> ParameterClass {
        match self {
            Self::Tensor => ParameterClass::Tensor,
            Self::RowVector => ParameterClass::RowVector,
            Self::ColumnVector => ParameterClass::ColumnVector,
            Self::Scalar => ParameterClass::DeviceScalar,
        }
    }

    /// The class of an elementwise result of operands of the two classes.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Scalar, x) | (x, Self::Scalar) => x,
            _ => Self::Tensor,
        }
    }

    /// The language's word for the class in memory.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "DeviceScalar",
            Self::RowVector => "RowVector",
            Self::ColumnVector => "ColumnVector",
            Self::Tensor => "Tensor",
        }
    }
}

/// Where in the user's source a node was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Site {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
}

/// A node's index in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// That of the node with this index; trees are refused long before there are 2^32 nodes.
    pub(in crate::evt) fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The index in [`Tree::nodes`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A parameter's index in [`Tree::parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParameterId(pub(crate) u32);

impl ParameterId {
    /// That of the parameter with this index.
    pub(in crate::evt) fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The index in [`Tree::parameters`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An output's index in [`Tree::outputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub(crate) u32);

impl OutputId {
    /// The index in [`Tree::outputs`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The class with which the user declared a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterClass {
    /// M×N values in memory.
    Tensor,
    /// M×N values in memory, read and then overwritten by the output of the same name.
    TensorMut,
    /// N values in memory.
    RowVector,
    /// M values in memory.
    ColumnVector,
    /// One value given by the host at each run.
    Scalar,
    /// One value in device memory.
    DeviceScalar,
    /// The source of random numbers: a seed and an offset, of 64 bits each, from the host or in device memory.
    Seed,
    /// M×N truth values in memory, eight columns in a byte: bit n % 8 of byte n / 8 of a row. Bits beyond the last column
    /// are not read.
    Bits,
}

impl ParameterClass {
    /// The class of the parameter's extent.
    #[must_use]
    pub const fn broadcast_class(self) -> BroadcastClass {
        match self {
            Self::Tensor | Self::TensorMut | Self::Bits => BroadcastClass::Tensor,
            Self::RowVector => BroadcastClass::RowVector,
            Self::ColumnVector => BroadcastClass::ColumnVector,
            Self::Scalar | Self::DeviceScalar | Self::Seed => BroadcastClass::Scalar,
        }
    }

    /// The language's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "Tensor",
            Self::TensorMut => "TensorMut",
            Self::RowVector => "RowVector",
            Self::ColumnVector => "ColumnVector",
            Self::Scalar => "Scalar",
            Self::DeviceScalar => "DeviceScalar",
            Self::Seed => "Seed",
            Self::Bits => "Bits",
        }
    }
}

/// A parameter of the epilogue that is not an accumulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The user's name.
    pub name: &'static str,
    /// Its class.
    pub class: ParameterClass,
    /// The element type in memory.
    pub element: DeclaredElement,
    /// Where it was declared.
    pub site: Site,
}

/// The axis of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Every row vector is reduced: M results.
    Row,
    /// Every column vector is reduced: N results.
    Column,
    /// Everything is reduced: one result.
    All,
}

impl Axis {
    /// The class of the result's extent.
    #[must_use]
    pub const fn result_class(self) -> BroadcastClass {
        match self {
            Self::Row => BroadcastClass::ColumnVector,
            Self::Column => BroadcastClass::RowVector,
            Self::All => BroadcastClass::Scalar,
        }
    }
}

/// How a reduction combines values. Every one is commutative and has an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Largest value; NaN if any is NaN; −∞ without elements.
    Max,
    /// Smallest value; NaN if any is NaN; +∞ without elements.
    Min,
    /// Largest magnitude; NaN if any is NaN; 0 without elements.
    AbsMax,
    /// Sum of squares.
    SumSquares,
    /// Where the largest value is: an integer, from 0; the first of equal ones; the first NaN if any is NaN; −1 without
    /// elements. Along rows it is the column, along columns the row, of everything `row · N + column`.
    ArgMax,
    /// Where the smallest value is, likewise.
    ArgMin,
    /// The user's own functions.
    User(&'static Reducer),
}

impl ReduceOp {
    /// Whether its result is where an element is: an integer.
    #[must_use]
    pub const fn gives_index(self) -> bool {
        matches!(self, Self::ArgMax | Self::ArgMin)
    }

    /// The user's own reducer, if it is one.
    #[must_use]
    pub const fn user(self) -> Option<&'static Reducer> {
        match self {
            Self::User(reducer) => Some(reducer),
            _ => None,
        }
    }

    /// The language's word for it, or the user's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Mul => "Mul",
            Self::Max => "Max",
            Self::Min => "Min",
            Self::AbsMax => "AbsMax",
            Self::SumSquares => "SumSquares",
            Self::ArgMax => "ArgMax",
            Self::ArgMin => "ArgMin",
            Self::User(reducer) => reducer.name(),
        }
    }
}

/// Whether the kernel completes a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One result for the whole row, column or matrix.
    Complete,
    /// One f32 partial per tile: `[ceil(N / tile_n), M]` for rows, `[ceil(M / tile_m), N]` for columns.
    Partial,
}

/// A reduction's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    /// The axis.
    pub axis: Axis,
    /// Whether the batch axis is reduced too.
    pub batch: bool,
    /// How values combine.
    pub op: ReduceOp,
    /// Complete, or per-tile partials.
    pub form: Form,
}

impl Reduction {
    /// An upper bound on the size of its running result, in values of the arithmetic type. An index has a value and an integer,
    /// which has 64 bits if everything is reduced.
    pub(crate) const fn running_values(&self) -> usize {
        match (self.op, self.axis) {
            (ReduceOp::User(reducer), _) => reducer.words(),
            (ReduceOp::ArgMax | ReduceOp::ArgMin, Axis::Row | Axis::Column) => 2,
            (ReduceOp::ArgMax | ReduceOp::ArgMin, Axis::All) => 4,
            _ => 1,
        }
    }
}

/// A reduction that is made of others: validation puts these in its place.
///
/// Two of the operations are two reductions, one after the other: [`length`](Self::length) says how many a chain counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComposedOp {
    /// Whether any truth value holds; false without elements.
    Any,
    /// Whether all truth values hold; true without elements.
    All,
    /// The sum, divided by the number of elements; NaN without elements.
    Mean,
    /// The mean of the squares of the differences to the mean: the biased variance; NaN without elements.
    Variance,
    /// The logarithm of the sum of exponentials, which overflows only if the result does; NaN if any value is NaN; −∞
    /// without elements.
    LogSumExp,
}

impl ComposedOp {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Any, Self::All, Self::Mean, Self::Variance, Self::LogSumExp];

    /// The language's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "Any",
            Self::All => "All",
            Self::Mean => "Mean",
            Self::Variance => "Variance",
            Self::LogSumExp => "LogSumExp",
        }
    }

    /// How many reductions it is, one after another.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Any | Self::All | Self::Mean => 1,
            Self::Variance | Self::LogSumExp => 2,
        }
    }

    /// Whether it takes truth values, and gives one.
    #[must_use]
    pub const fn of_truths(self) -> bool {
        matches!(self, Self::Any | Self::All)
    }
}

/// A composed reduction's description. It is complete: there are no per-tile partials of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composed {
    /// The axis.
    pub axis: Axis,
    /// Whether the batch axis is reduced too.
    pub batch: bool,
    /// Its operation.
    pub op: ComposedOp,
}

/// An integer that depends only on an element's position or on the extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The element's row, from 0.
    Row,
    /// The element's column, from 0.
    Column,
    /// The element's batch, from 0.
    Batch,
    /// M.
    Rows,
    /// N.
    Columns,
}

impl Position {
    /// The class of its extent.
    #[must_use]
    pub const fn class(self) -> BroadcastClass {
        match self {
            Self::Row => BroadcastClass::ColumnVector,
            Self::Column => BroadcastClass::RowVector,
            Self::Batch | Self::Rows | Self::Columns => BroadcastClass::Scalar,
        }
    }

    /// The language's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Column => "column",
            Self::Batch => "batch",
            Self::Rows => "rows",
            Self::Columns => "columns",
        }
    }
}

/// The most complete reductions in a chain, each of values that are computed from the one before.
pub const MAX_CHAIN: usize = 4;

/// The most accumulators of an epilogue.
pub const MAX_ACCUMULATORS: usize = 4;

/// A node of the visitor tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// An accumulator, by its index in [`Tree::accumulators`].
    Accum(usize),
    /// A `Tensor`, `TensorMut` or `Bits` parameter, read from memory.
    Load(ParameterId),
    /// A `RowVector`, `ColumnVector`, `Scalar`, `DeviceScalar` or `Seed` parameter.
    Broadcast(ParameterId),
    /// A number.
    Literal(f64),
    /// An integer.
    Integer(i64),
    /// A position or an extent: an integer.
    Position(Position),
    /// A random number of the element, from 0 to 1, of a `Seed` parameter: that of a stream. Equal streams of a seed are
    /// equal numbers, others have nothing to do with each other.
    Random(NodeId, u32),
    /// A primitive operation: unary, binary, fused multiply-add or select.
    Apply(Op, SmallVec<[NodeId; 3]>),
    /// An operation on truth values.
    Logic(Logic, SmallVec<[NodeId; 3]>),
    /// The integer that a parameter has in memory.
    ToInteger(NodeId),
    /// An integer as a number, rounded to nearest even.
    ToReal(NodeId),
    /// A call of an elementwise function.
    Call(&'static Function, SmallVec<[NodeId; 3]>),
    /// Rounding to an element type and back to the arithmetic type.
    Cast(ElementType, NodeId),
    /// A reduction. A complete one's result is a value like any other, of the next phase; partials are only returned.
    Reduce(Reduction, NodeId),
    /// A reduction that is made of others.
    Composed(Composed, NodeId),
}

impl Node {
    /// The nodes this one reads.
    #[must_use]
    pub fn operands(&self) -> &[NodeId] {
        match self {
            Self::Accum(_)
            | Self::Load(_)
            | Self::Broadcast(_)
            | Self::Literal(_)
            | Self::Integer(_)
            | Self::Position(_) => &[],
            Self::Apply(_, operands) | Self::Logic(_, operands) | Self::Call(_, operands) => operands,
            Self::Random(x, _)
            | Self::Cast(_, x)
            | Self::ToInteger(x)
            | Self::ToReal(x)
            | Self::Reduce(_, x)
            | Self::Composed(_, x) => std::slice::from_ref(x),
        }
    }
}

/// A node with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeData {
    /// The node.
    pub node: Node,
    /// The user's name: the last `let` that bound it.
    pub name: Option<&'static str>,
    /// Where it was written.
    pub site: Site,
}

/// A returned value.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The user's name.
    pub name: &'static str,
    /// The value that is stored.
    pub node: NodeId,
    /// The class that the user declared; it must be the value's.
    pub class: BroadcastClass,
    /// The element type in memory.
    pub element: DeclaredElement,
    /// Whether it is truth values, eight columns in a byte; see [`ParameterClass::Bits`].
    pub packed: bool,
    /// The `TensorMut` parameter whose memory it overwrites, if any.
    pub parameter: Option<ParameterId>,
    /// Where it was returned.
    pub site: Site,
}

/// An epilogue as it was written: operands come before users; nothing has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) accumulators: Vec<&'static str>,
    pub(crate) nodes: Vec<NodeData>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) outputs: Vec<Output>,
    /// Values are at least as accurate as outputs of this many significant bits need.
    pub(crate) significand: u32,
    /// The reason why there is no tree, and the place of the derivative that doesn't exist.
    pub(crate) refused: Option<(String, Site)>,
}

impl Tree {
    /// The epilogue's name, as the user wrote it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The user's source file.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// The accumulators' names, in the order of the B's that they are products of. There is one even if the epilogue
    /// names none.
    #[must_use]
    pub fn accumulators(&self) -> &[&'static str] {
        &self.accumulators
    }

    /// The nodes, operands before users.
    #[must_use]
    pub fn nodes(&self) -> &[NodeData] {
        &self.nodes
    }

    /// The parameters that are not accumulators, in the order of declaration.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The returned values, in order.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }
}
