//! The mistakes that a tree can have.

use std::fmt;

use super::{BroadcastClass, MAX_ACCUMULATORS, MAX_CHAIN, ParameterClass, Site};
use crate::ElementType;
use crate::expr::identifier::shortened;
use crate::expr::{MOST_OPERATIONS, Real};

/// An epilogue that can't be validated: which epilogue, where, and what is wrong.
#[derive(Clone, PartialEq, thiserror::Error)]
pub struct TreeError {
    /// The epilogue's name.
    pub epilogue: &'static str,
    /// The user's source file.
    pub file: &'static str,
    /// The place in that file; line 0 if unknown.
    pub site: Site,
    /// The mistake.
    #[source]
    pub mistake: Mistake,
}

epilogue_runtime::message::debug!(TreeError);

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.site.line > 0 {
            write!(f, "{}:{}:{}: ", shortened(self.file), self.site.line, self.site.column)?;
        }
        write!(f, "in the epilogue `{}`: {}", shortened(self.epilogue), self.mistake)
    }
}

/// The most operations that the functions of an epilogue have together.
pub(super) const MOST_CALLED: usize = 4 * MOST_OPERATIONS;

/// One mistake in a tree.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// The epilogue returns nothing.
    #[error("nothing is returned; return at least one value")]
    NothingReturned,
    /// More accumulators than an epilogue can have.
    #[error("{given} accumulators; an epilogue has at most {MAX_ACCUMULATORS}, each of another B: use two products")]
    Accumulators {
        /// How many there are.
        given: usize,
    },
    /// A backward pass that `#[epilogue(backward)]` was to make has no derivative somewhere.
    #[error("{reason}")]
    Derivative {
        /// The message of the [`DeriveError`](super::derive::DeriveError).
        reason: String,
    },
    /// An operand is not an earlier node of the same tree.
    #[error("{what} reads a value that is not defined before it; build operands before their users, in one tree")]
    UndefinedOperand {
        /// The node that reads it.
        what: String,
    },
    /// A node names a parameter that the tree doesn't have, or of another class.
    #[error("a value reads parameter number {index}, which is not a parameter of this class; declare it first")]
    UndefinedParameter {
        /// The index that was given.
        index: usize,
    },
    /// Wrong number of operands.
    #[error("`{function}` takes {needed} argument{}, {given} {} given", if *.needed == 1 { "" } else { "s" }, if *.given == 1 { "is" } else { "are" })]
    Arity {
        /// The function or operation.
        function: String,
        /// Operands it takes.
        needed: usize,
        /// Operands it was given.
        given: usize,
    },
    /// A truth value where a number is needed.
    #[error(
        "{what} is a truth value where a number is needed; write `if … {{ 1.0 }} else {{ 0.0 }}` with it as the condition"
    )]
    TruthValue {
        /// The value.
        what: String,
    },
    /// A number where a truth value is needed.
    #[error("the condition of {what} is a number; compare it with something, as in `x > 0.0`")]
    NumericCondition {
        /// The select.
        what: String,
    },
    /// A number or an integer where a truth value is needed.
    #[error("`{operator}` combines truth values, and {what} is none; compare it with something, as in `x > 0.0`")]
    NoTruthValue {
        /// The operator.
        operator: &'static str,
        /// The value.
        what: String,
    },
    /// An integer and a number in one operation.
    #[error(
        "{integer} is an integer and {number} a number; write `real(…)` of the integer, or `integer(…)` of a parameter that holds integers"
    )]
    MixedTypes {
        /// The integer.
        integer: String,
        /// The number.
        number: String,
    },
    /// An integer given to an operation of numbers.
    #[error("`{function}` takes numbers, and {what} is an integer; write `real(…)` of it")]
    IntegerGiven {
        /// The function or operation.
        function: String,
        /// The integer.
        what: String,
    },
    /// `integer` of a value that is not in memory.
    #[error(
        "`integer` reads a parameter that holds integers, and {what} is computed; `floor`, `ceil` and `round` give whole numbers"
    )]
    IntegerOfValue {
        /// The value that was given.
        what: String,
    },
    /// `integer` of a parameter that doesn't hold integers.
    #[error("`integer` reads exact integers, but `{name}` is {}{element} here; declare {} of i64, i32, i8, u8 or bool", if *.class == ParameterClass::Scalar { "a `Scalar`, " } else { "" }, if *.class == ParameterClass::Scalar { "a `DeviceScalar`" } else { "it" })]
    NoIntegers {
        /// The parameter.
        name: &'static str,
        /// The parameter's element type.
        element: ElementType,
        /// Its class.
        class: ParameterClass,
    },
    /// A seed where a value is needed.
    #[error("{name} is a seed and no value; `random` of it gives each element a number from 0 to 1")]
    SeedAsValue {
        /// The seed.
        name: String,
    },
    /// `random` of a value.
    #[error("`random` takes a parameter of the class `Seed`, and {what} is a value; declare a `Seed`")]
    NoSeed {
        /// The value that was given.
        what: String,
    },
    /// A seed of another element type.
    #[error("`{name}` is a seed, two 64-bit integers, and is declared with {element}; write `Seed`")]
    SeedElement {
        /// The parameter.
        name: &'static str,
        /// The element type that was written.
        element: ElementType,
    },
    /// Bits with an element type.
    #[error(
        "`{name}` are bits, eight truth values in a byte, and are declared with {element}; write `Bits`, or `Tensor<bool>` for a byte each"
    )]
    BitsElement {
        /// The parameter.
        name: &'static str,
        /// The element type that was written.
        element: ElementType,
    },
    /// A number or an integer returned as bits.
    #[error("`{name}` is not a truth value and is returned as `Bits`; return a comparison such as `{name} > 0.0`")]
    NoTruthPacked {
        /// The output.
        name: &'static str,
    },
    /// `real` of a number.
    #[error("`real` makes a number of an integer, and {what} is a number already; leave `real` out")]
    RealOfNumber {
        /// The value that was given.
        what: String,
    },
    /// A cast to truth values.
    #[error(
        "`cast` rounds numbers, and bool is not a type of numbers; of {what}, a comparison such as `x != 0.0` is the truth value"
    )]
    CastToBool {
        /// The value that is cast.
        what: String,
    },
    /// A truth value returned as numbers.
    #[error(
        "`{name}` is a truth value and is returned as {element}; declare it bool, or return `if {name} {{ 1.0 }} else {{ 0.0 }}`"
    )]
    TruthReturned {
        /// The output.
        name: &'static str,
        /// As declared.
        element: ElementType,
    },
    /// An integer returned as something else.
    #[error(
        "`{name}` is an integer and is returned as {element}; declare it i64, i32, i8 or u8, or return `real({name})`"
    )]
    IntegerReturned {
        /// The output.
        name: &'static str,
        /// As declared.
        element: ElementType,
    },
    /// A number returned as truth values.
    #[error("`{name}` is a number and is returned as bool; return a comparison such as `{name} != 0.0`")]
    NumberReturned {
        /// The output.
        name: &'static str,
    },
    /// An elementwise function whose body is not well formed.
    #[error("the elementwise function `{function}` is not well formed: {reason}")]
    MalformedFunction {
        /// The function.
        function: &'static str,
        /// Why.
        reason: String,
    },
    /// More operations than a kernel can be compiled of.
    #[error(
        "the functions that the epilogue calls have {operations} operations together, each as often as it is called, and at \
         most {} are allowed: call them less often, on values that are computed once",
        MOST_CALLED
    )]
    TooManyOperations {
        /// How many there are.
        operations: usize,
    },
    /// A name that compilers need not take.
    #[error("the name of {what}, `{}`, has {} bytes, and at most {most} are allowed: give it a shorter one", shortened(name), name.len())]
    LongName {
        /// The thing with the name.
        what: &'static str,
        /// The name.
        name: &'static str,
        /// The most bytes that are allowed.
        most: usize,
    },
    /// A finite literal that overflows the arithmetic type.
    #[error("the number {value:e} is too large for {real}, in which this epilogue computes; the largest is {:e}", if *.real == Real::F32 { f64::from(f32::MAX) } else { f64::MAX })]
    LiteralOverflow {
        /// The number.
        value: f64,
        /// The arithmetic type.
        real: Real,
    },
    /// Per-tile partials that something else than an output reads.
    #[error(
        "the partials {what} are one per tile and cannot be used in the body; leave out `threadblock_shape.{side}` for the complete reduction"
    )]
    PartialsUsed {
        /// The reduction.
        what: String,
        /// The side of the tile that was asked for.
        side: &'static str,
    },
    /// Per-tile partials of what is computed from a reduction.
    #[error(
        "the partials {what} are of a value that is computed from the complete reduction {of}, after the product's tiles are done; leave out `threadblock_shape.{side}` for the complete reduction"
    )]
    LatePartials {
        /// The partial reduction.
        what: String,
        /// A reduction that it depends on.
        of: String,
        /// The side of the tile that was asked for.
        side: &'static str,
    },
    /// A reducer of the user's own whose parts don't fit each other.
    #[error("the reducer `{name}` can't be used: {reason}")]
    Reducer {
        /// Its name.
        name: &'static str,
        /// The parts that don't fit.
        reason: String,
    },
    /// A chain of too many reductions.
    #[error(
        "the reduction {what} is the fifth in a chain, after {before}, and a chain has at most {MAX_CHAIN}; return {before}, and go on in another epilogue"
    )]
    ReductionChain {
        /// The reduction.
        what: String,
        /// The one before it.
        before: String,
    },
    /// A chain of too many reductions, if the last one is two.
    #[error(
        "the reduction {what} is a `{op}`, which is two reductions, one after the other: with it the chain has {length}, and a chain has at most {MAX_CHAIN}; return {before}, and go on in another epilogue"
    )]
    ComposedChain {
        /// The reduction.
        what: String,
        /// Its operation.
        op: &'static str,
        /// How many reductions the chain would have.
        length: usize,
        /// The one before it.
        before: String,
    },
    /// A reduction of values that are the same along an axis, and are computed from a reduction.
    #[error("{what} {}; return it and reduce it with `te`", counted(*.class))]
    ReducedAgain {
        /// The value that is reduced.
        what: String,
        /// How it extends.
        class: BroadcastClass,
    },
    /// An index along the batch.
    #[error(
        "the reduction {what} gives the index of an element in its matrix, and runs along the batch too; leave out `Batch`"
    )]
    IndexOfBatch {
        /// The reduction.
        what: String,
    },
    /// Per-tile partials in a form that does not exist.
    #[error("the partial reduction {what} {reason}")]
    Partial {
        /// The reduction.
        what: String,
        /// Why there are none.
        reason: &'static str,
    },
    /// The declared class of an output is not its value's.
    #[error("`{name}` is returned as a {}, but it is a {}; {}", class_name(*.declared), class_name(*.actual), class_advice(*.declared, *.actual))]
    OutputClass {
        /// The output.
        name: &'static str,
        /// As declared.
        declared: BroadcastClass,
        /// As computed.
        actual: BroadcastClass,
    },
    /// Two parameters or outputs of one name.
    #[error("the name `{name}` is given twice; every parameter and every returned value needs its own")]
    DuplicateName {
        /// The name.
        name: &'static str,
    },
    /// An output named like a parameter that can't be written.
    #[error("`{name}` is a {} parameter and is returned; {}", parameter_name(*.class), returned_advice(name, *.class))]
    ParameterReturned {
        /// The name.
        name: &'static str,
        /// The parameter's class.
        class: ParameterClass,
    },
    /// A `TensorMut` parameter that is not an output.
    #[error("`{name}` is a `TensorMut` and is never returned; return it, or declare it `Tensor`")]
    TensorMutNotReturned {
        /// The parameter.
        name: &'static str,
    },
    /// An output's element type differs from that of the parameter whose memory it overwrites.
    #[error("`{name}` is read as {read} and returned as {written}; a `TensorMut` has one element type")]
    TensorMutElement {
        /// The parameter.
        name: &'static str,
        /// As a parameter.
        read: ElementType,
        /// As an output.
        written: ElementType,
    },
    /// A host scalar with an element type other than the arithmetic type.
    #[error("the host scalar `{name}` is declared {element}, but host scalars are {real} here; leave the type out")]
    ScalarElement {
        /// The parameter.
        name: &'static str,
        /// As declared.
        element: ElementType,
        /// The arithmetic type.
        real: Real,
    },
    /// Per-tile partials of an element type other than the arithmetic type.
    #[error("the partials `{name}` are declared {element}, but per-tile partials are {real} here; leave the type out")]
    PartialElement {
        /// The output.
        name: &'static str,
        /// As declared.
        element: ElementType,
        /// The arithmetic type.
        real: Real,
    },
    /// An element type that only tensor expressions have.
    #[error(
        "{what} is {element}, and epilogues take f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i8, u8 and bool; convert \
         it before or after the product, as a tensor expression"
    )]
    Element {
        /// The parameter or value that has it.
        what: String,
        /// The element type.
        element: ElementType,
    },
    /// Element types of A, B and the accumulator that don't go together.
    #[error("A is {a}, B is {b} and the accumulator {accumulator}; {reason}")]
    OperandTypes {
        /// The type of A.
        a: ElementType,
        /// The type of B.
        b: ElementType,
        /// The type of the accumulator.
        accumulator: ElementType,
        /// Why not.
        reason: &'static str,
    },
}

epilogue_runtime::message::debug!(Mistake);

/// Why a reduction of it is refused.
const fn counted(class: BroadcastClass) -> &'static str {
    match class {
        BroadcastClass::ColumnVector => "has one value a row: a reduction of it would count each N times",
        BroadcastClass::RowVector => "has one value a column: a reduction of it would count each M times",
        BroadcastClass::Scalar | BroadcastClass::Tensor => "is one value: a reduction of it would count it M·N times",
    }
}

/// The language's word for a class of value.
pub(crate) const fn class_name(class: BroadcastClass) -> &'static str {
    match class {
        BroadcastClass::Scalar => "scalar (one value)",
        BroadcastClass::RowVector => "`RowVector` (N values)",
        BroadcastClass::ColumnVector => "`ColumnVector` (M values)",
        BroadcastClass::Tensor => "`Tensor` (M×N values)",
    }
}

const fn parameter_name(class: ParameterClass) -> &'static str {
    match class {
        ParameterClass::Tensor => "`Tensor`",
        ParameterClass::TensorMut => "`TensorMut`",
        ParameterClass::RowVector => "`RowVector`",
        ParameterClass::ColumnVector => "`ColumnVector`",
        ParameterClass::Scalar => "`Scalar`",
        ParameterClass::DeviceScalar => "`DeviceScalar`",
        ParameterClass::Seed => "`Seed`",
        ParameterClass::Bits => "`Bits`",
    }
}

/// Advice about a parameter that is returned: only a `Tensor` is updated in place.
fn returned_advice(name: &str, class: ParameterClass) -> String {
    match class {
        ParameterClass::Tensor => format!("declare it `TensorMut`, or return a copy: `let copy = {name};`"),
        _ => format!("return a copy: `let copy = {name};`"),
    }
}

const fn class_advice(declared: BroadcastClass, actual: BroadcastClass) -> &'static str {
    match (declared, actual) {
        (BroadcastClass::Tensor, _) => "combine it with a tensor, or declare what it is",
        (_, BroadcastClass::Tensor) => "reduce it, or return a `Tensor`",
        _ => "declare what it is",
    }
}
