//! The checked tree: emitters, evaluators and drawings take no other.

use smallvec::SmallVec;

use super::declared::DeclaredElement;
use super::{Axis, BroadcastClass, Cost, Form, Parameter, ParameterClass, ParameterId, Position, Reduction, Site};
use crate::ElementType;
use crate::expr::{Function, Logic, Op, Real};

/// The element types of the product that an epilogue is validated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    /// Element type of A: the default of tensors and vectors.
    pub a: ElementType,
    /// Element type of B.
    pub b: ElementType,
    /// Type of the accumulator: `f64`, `f32` or `i32`; it is converted to the arithmetic type.
    pub accumulator: ElementType,
}

impl Types {
    /// The types of a product with the usual accumulator: `f64` for `f64`, `i32` for integers, `f32` for the others.
    #[must_use]
    pub const fn new(a: ElementType, b: ElementType) -> Self {
        let accumulator = match a {
            ElementType::F64 => ElementType::F64,
            ElementType::I64 | ElementType::I32 | ElementType::I8 | ElementType::U8 => ElementType::I32,
            _ => ElementType::F32,
        };
        Self { a, b, accumulator }
    }

    /// Whether the types go together, on any device; if not, the allowed ones.
    pub(crate) fn check(self) -> Result<(), &'static str> {
        let Self { a, b, .. } = self;
        if !Real::takes(a) || !Real::takes(b) {
            Err(
                "operands of products are f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8 or u8; convert others first, as a tensor expression",
            )
        } else if a == ElementType::Bool || b == ElementType::Bool {
            Err("operands are numbers")
        } else if (a == ElementType::F64) != (b == ElementType::F64) {
            Err("both operands are f64 or neither is")
        } else if a.is_float() && matches!(b, ElementType::I8 | ElementType::U8) && a != ElementType::F64 {
            // Weights, which are as exact in f32.
            self.check_accumulator()
        } else if a.is_float() != b.is_float() {
            Err("both operands are floats, or both are integers, or A is a float and B is i8 or u8")
        } else {
            self.check_accumulator()
        }
    }

    fn check_accumulator(self) -> Result<(), &'static str> {
        let Self { a, accumulator, .. } = self;
        if !matches!(accumulator, ElementType::F64 | ElementType::F32 | ElementType::I32) {
            Err("an accumulator is f64, f32 or i32")
        } else if (accumulator == ElementType::F64) != (a == ElementType::F64) {
            Err("the accumulator is f64 exactly when the operands are")
        } else if accumulator == ElementType::I32 && a.is_float() {
            Err("an i32 accumulator needs integer operands")
        } else {
            Ok(())
        }
    }

    /// The type that the epilogue computes in: `f64` when A is `f64`, else `f32`.
    #[must_use]
    pub const fn real(self) -> Real {
        match self.a {
            ElementType::F64 => Real::F64,
            _ => Real::F32,
        }
    }
}

/// The element type of a parameter: as declared; otherwise A's for tensors and vectors, the arithmetic type for scalars.
pub(super) fn resolve(declared: DeclaredElement, class: ParameterClass, types: Types) -> ElementType {
    let declared = declared.resolved(types.real());
    match class {
        ParameterClass::Scalar => types.real().element(),
        ParameterClass::Seed => ElementType::I64,
        // That of its memory.
        ParameterClass::Bits => ElementType::U8,
        ParameterClass::DeviceScalar => declared.unwrap_or(types.real().element()),
        ParameterClass::Tensor
        | ParameterClass::TensorMut
        | ParameterClass::RowVector
        | ParameterClass::ColumnVector => declared.unwrap_or(types.a),
    }
}

/// A value's index in its [`ValidTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The index in [`ValidTree::values`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Operands of a value.
pub type Operands = SmallVec<[ValueId; 3]>;

/// How a value is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// An accumulator, by its index in [`ValidTree::accumulators`], converted to the arithmetic type.
    Accum(usize),
    /// An element of a `Tensor`, `TensorMut` or `Bits` parameter, converted to the value's type; see [`Value::ty`].
    Load(ParameterId),
    /// An element of a `RowVector` or `ColumnVector`, a `Scalar`, a `DeviceScalar` or a `Seed`, in the value's type.
    Broadcast(ParameterId),
    /// A number, representable in the arithmetic type.
    Literal(f64),
    /// An integer.
    Integer(i64),
    /// A position or an extent.
    Position(Position),
    /// A random number of the element, of a seed's stream: one of the 2^24 multiples of 2^-24 from 0 on, below 1.
    Random(ValueId, u32),
    /// An operation on truth values.
    Logic(Logic, Operands),
    /// An integer converted to a number, rounded to nearest even.
    ToReal(ValueId),
    /// A primitive operation; on integers it wraps at 64 bits.
    Apply(Op, Operands),
    /// `scalar * x`, but `0` if `scalar == 0`, for any `x`: BLAS's beta = 0. `scalar` is a product of host scalars; `x`
    /// depends on memory and not on an accumulator. See [`ValidTree::guard`].
    Scaled {
        /// The factor from the host.
        scalar: ValueId,
        /// The other factor.
        x: ValueId,
    },
    /// A call of an elementwise function.
    Call(&'static Function, Operands),
    /// Rounding to an element type and back to the arithmetic type.
    Cast(ElementType, ValueId),
    /// The result of a complete reduction, in the arithmetic type, where other values are computed from it.
    Reduce(Reduction, ValueId),
}

impl ValueKind {
    /// The values this one reads, in order.
    #[must_use]
    pub fn operands(&self) -> Operands {
        match self {
            Self::Accum(_)
            | Self::Load(_)
            | Self::Broadcast(_)
            | Self::Literal(_)
            | Self::Integer(_)
            | Self::Position(_) => Operands::new(),
            Self::Apply(_, operands) | Self::Logic(_, operands) | Self::Call(_, operands) => operands.clone(),
            Self::Scaled { scalar, x } => Operands::from_slice(&[*scalar, *x]),
            Self::Random(x, _) | Self::Cast(_, x) | Self::ToReal(x) | Self::Reduce(_, x) => Operands::from_slice(&[*x]),
        }
    }

    /// The values this one reads, to be changed.
    pub(super) fn operands_mut(&mut self) -> SmallVec<[&mut ValueId; 3]> {
        match self {
            Self::Accum(_)
            | Self::Load(_)
            | Self::Broadcast(_)
            | Self::Literal(_)
            | Self::Integer(_)
            | Self::Position(_) => SmallVec::new(),
            Self::Apply(_, operands) | Self::Logic(_, operands) | Self::Call(_, operands) => {
                operands.iter_mut().collect()
            }
            Self::Scaled { scalar, x } => SmallVec::from_iter([scalar, x]),
            Self::Random(x, _) | Self::Cast(_, x) | Self::ToReal(x) | Self::Reduce(_, x) => SmallVec::from_iter([x]),
        }
    }
}

/// The type of a value in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A number of the arithmetic type.
    Real(Real),
    /// An integer. All integers of a tree have one width.
    Integer(Width),
    /// A truth value.
    Bool,
    /// The seed and offset of random numbers.
    Seed,
}

/// The number of bits that a tree's integers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// All are within the range of an `i32`.
    Bits32,
    /// They wrap like an `i64`.
    Bits64,
}

impl Width {
    /// The element type of that width.
    #[must_use]
    pub const fn element(self) -> ElementType {
        match self {
            Self::Bits32 => ElementType::I32,
            Self::Bits64 => ElementType::I64,
        }
    }
}

/// A value of a [`ValidTree`].
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// How it is computed.
    pub kind: ValueKind,
    /// Its type.
    pub ty: ValueType,
    /// The class of its extent.
    pub class: BroadcastClass,
    /// An identifier that is unique among the tree's values and parameters and valid in C++: the user's name if
    /// possible. It neither begins with an underscore nor has two in a row, so names of an emitter may.
    pub name: String,
    /// The name that the user gave it, if any.
    pub user_name: Option<&'static str>,
    /// Where it was written.
    pub site: Site,
    /// Number of uses by values and outputs.
    pub uses: usize,
    /// How many reductions must be complete before it is known, one after another: 0 if it depends on none.
    pub phase: usize,
    /// The largest number of significant bits of any output that it reaches. Approximate instructions are allowed for
    /// 11 or fewer.
    pub significand: u32,
}

/// A parameter with its element type resolved. Its index is that of [`Tree::parameters`](super::Tree::parameters).
#[derive(Clone, Debug, PartialEq)]
pub struct ValidParameter {
    /// The user's name.
    pub name: &'static str,
    /// Its class.
    pub class: ParameterClass,
    /// Type of its elements in memory; the arithmetic type for a host scalar, that of the bytes for `Bits`.
    pub element: ElementType,
    /// The value that reads it; `None` if no returned value depends on it.
    pub value: Option<ValueId>,
    /// Where it was declared.
    pub site: Site,
}

/// How an output follows from its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// The value itself.
    Store,
    /// A reduction of the value, over the whole product for a value of any class.
    Reduce(Reduction),
}

/// A returned value with its element type resolved. Its index is that of [`Tree::outputs`](super::Tree::outputs).
#[derive(Clone, Debug, PartialEq)]
pub struct ValidOutput {
    /// The user's name.
    pub name: &'static str,
    /// The value that is stored or reduced.
    pub value: ValueId,
    /// Whether it is stored or reduced.
    pub kind: OutputKind,
    /// The class of its extent in memory; for partials, that of the finished reduction.
    pub class: BroadcastClass,
    /// Type of its elements in memory; that of the bytes if it is packed.
    pub element: ElementType,
    /// Whether it is truth values, eight columns in a byte; see [`ParameterClass::Bits`](super::ParameterClass::Bits).
    pub packed: bool,
    /// The `TensorMut` parameter whose memory it overwrites, if any.
    pub parameter: Option<ParameterId>,
    /// Where it was returned.
    pub site: Site,
}

impl ValidOutput {
    /// The reduction, if it is one.
    #[must_use]
    pub const fn reduction(&self) -> Option<Reduction> {
        match self.kind {
            OutputKind::Store => None,
            OutputKind::Reduce(reduction) => Some(reduction),
        }
    }

    /// Whether it holds per-tile partials.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.reduction().is_some_and(|r| r.form == Form::Partial)
    }
}

/// A checked, typed, simplified tree. Only [`Tree::validate`](super::Tree::validate) makes one.
///
/// Every value is used; equal values are one value; operands come before users.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidTree {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) types: Types,
    pub(crate) accumulators: Vec<&'static str>,
    pub(crate) values: Vec<Value>,
    pub(crate) parameters: Vec<ValidParameter>,
    pub(crate) outputs: Vec<ValidOutput>,
    pub(crate) guards: Vec<Option<SmallVec<[ValueId; 2]>>>,
    pub(crate) cost: Cost,
}

impl ValidTree {
    /// The epilogue's name, as the user wrote it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The user's source file.
    #[must_use]
    pub const fn file(&self) -> &'static str {
        self.file
    }

    /// The types that it was validated for.
    #[must_use]
    pub const fn types(&self) -> Types {
        self.types
    }

    /// Whether a returned value depends on random numbers.
    #[must_use]
    pub fn has_chance(&self) -> bool {
        self.values.iter().any(|value| matches!(value.kind, ValueKind::Random(..)))
    }

    /// Whether a returned value is, or depends on, truth values with eight columns in a byte.
    #[must_use]
    pub fn has_bits(&self) -> bool {
        let read = self.parameters.iter().any(|p| p.class == ParameterClass::Bits && p.value.is_some());
        read || self.outputs.iter().any(|output| output.packed)
    }

    /// The type that it computes in.
    #[must_use]
    pub const fn real(&self) -> Real {
        self.types.real()
    }

    /// The values, operands before users.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The values with their ids, operands before users.
    pub fn enumerate(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(i, value)| (ValueId::new(i), value))
    }

    /// One value.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The parameters, in the order of declaration, including those that no returned value depends on.
    #[must_use]
    pub fn parameters(&self) -> &[ValidParameter] {
        &self.parameters
    }

    /// One parameter.
    #[must_use]
    pub fn parameter(&self, id: ParameterId) -> &ValidParameter {
        &self.parameters[id.index()]
    }

    /// The outputs, in the order in which they are returned.
    #[must_use]
    pub fn outputs(&self) -> &[ValidOutput] {
        &self.outputs
    }

    /// The output with a name.
    #[must_use]
    pub fn output(&self, name: &str) -> Option<&ValidOutput> {
        self.outputs.iter().find(|output| output.name == name)
    }

    /// The names of a run's arguments, in order: every parameter, then the outputs that are not a parameter's.
    pub fn argument_names(&self) -> impl Iterator<Item = &'static str> {
        let outputs = self.outputs.iter().filter(|output| output.parameter.is_none()).map(|output| output.name);
        self.parameters.iter().map(|parameter| parameter.name).chain(outputs)
    }

    /// The index of an output among the arguments of a run.
    #[must_use]
    pub fn output_argument(&self, output: usize) -> usize {
        match self.outputs[output].parameter {
            Some(parameter) => parameter.index(),
            None => self.parameters.len() + self.outputs[..output].iter().filter(|o| o.parameter.is_none()).count(),
        }
    }

    /// The accumulators' names: one for each B of the product and at least one, whether or not they are read.
    #[must_use]
    pub fn accumulators(&self) -> &[&'static str] {
        &self.accumulators
    }

    /// The accumulators that a returned value depends on. The others need not be computed.
    pub fn live_accumulators(&self) -> impl Iterator<Item = usize> {
        (0..self.accumulators.len()).filter(|i| self.values.iter().any(|value| value.kind == ValueKind::Accum(*i)))
    }

    /// Whether a returned value depends on an accumulator.
    #[must_use]
    pub fn multiplies(&self) -> bool {
        self.live_accumulators().next().is_some()
    }

    fn read_of_class(&self, wanted: impl Fn(ParameterClass) -> bool) -> impl Iterator<Item = (ParameterId, ValueId)> {
        self.parameters.iter().enumerate().filter_map(move |(i, parameter)| {
            let id = ParameterId::new(i);
            parameter.value.filter(|_| wanted(parameter.class)).map(|value| (id, value))
        })
    }

    /// The M×N parameters that are read, with the values that read them.
    pub fn loads(&self) -> impl Iterator<Item = (ParameterId, ValueId)> {
        self.read_of_class(|class| class.broadcast_class() == BroadcastClass::Tensor)
    }

    /// The vectors and scalars that are read, with the values that read them.
    pub fn broadcasts(&self) -> impl Iterator<Item = (ParameterId, ValueId)> {
        self.read_of_class(|class| class.broadcast_class() != BroadcastClass::Tensor)
    }

    /// The outputs that store a value, with their indices.
    pub fn stores(&self) -> impl Iterator<Item = (usize, &ValidOutput)> {
        self.outputs.iter().enumerate().filter(|(_, output)| output.kind == OutputKind::Store)
    }

    /// The outputs that store a reduction, with their indices.
    pub fn reductions(&self) -> impl Iterator<Item = (usize, &ValidOutput, Reduction)> {
        self.outputs.iter().enumerate().filter_map(|(i, output)| output.reduction().map(|r| (i, output, r)))
    }

    /// The reductions that other values are computed from.
    pub(crate) fn used_reductions(&self) -> impl Iterator<Item = Reduction> {
        self.used_reductions_by_phase().map(|(_, reduction)| reduction)
    }

    /// The reductions that other values are computed from, each with the first phase that can use it.
    pub(crate) fn used_reductions_by_phase(&self) -> impl Iterator<Item = (usize, Reduction)> {
        self.values.iter().filter_map(|value| match value.kind {
            ValueKind::Reduce(reduction, _) => Some((value.phase, reduction)),
            _ => None,
        })
    }

    /// Whether an output is the accumulator itself of a product of integers, in an integer type that holds it. Then it
    /// is stored exactly, without conversion to the arithmetic type, which rounds integers beyond 2^24.
    #[must_use]
    pub fn keeps_integers(&self, output: &ValidOutput) -> bool {
        self.kept_integers(output).is_some()
    }

    /// The accumulator that an output [stores exactly](Self::keeps_integers).
    #[must_use]
    pub fn kept_integers(&self, output: &ValidOutput) -> Option<usize> {
        let exact = output.kind == OutputKind::Store
            && self.types.accumulator == ElementType::I32
            && matches!(output.element, ElementType::I32 | ElementType::I64);
        match self.value(output.value).kind {
            ValueKind::Accum(i) if exact => Some(i),
            _ => None,
        }
    }

    /// Whether any reduction runs along the axis.
    #[must_use]
    pub fn reduces(&self, axis: Axis) -> bool {
        self.reductions().any(|(_, _, reduction)| reduction.axis == axis)
    }

    /// Whether reading a parameter's memory may be skipped: `Some(factors)` if it is needed only if at least one of the
    /// factors is not 0, `None` if it is always needed.
    ///
    /// Every factor is of class scalar and computed only from host scalars. Skipping is an optimisation: it doesn't
    /// change the values of [`ValueKind::Scaled`].
    #[must_use]
    pub fn guard(&self, parameter: ParameterId) -> Option<&[ValueId]> {
        self.guards[parameter.index()].as_deref()
    }

    /// How many phases it has: one more than the longest chain of reductions that a value is computed from.
    #[must_use]
    pub fn phases(&self) -> usize {
        1 + self.values.iter().map(|value| value.phase).max().unwrap_or(0)
    }

    /// The cost of the epilogue, for the choice of a kernel.
    #[must_use]
    pub const fn cost(&self) -> &Cost {
        &self.cost
    }
}

impl ValidParameter {
    pub(crate) fn new(parameter: &Parameter, element: ElementType) -> Self {
        Self { name: parameter.name, class: parameter.class, element, value: None, site: parameter.site }
    }
}
