//! Lowers a checked tree to a list of primitive operations: inlines calls, inserts host scalars, folds constants, and
//! removes unused operations.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::element::Arithmetic;
use crate::ElementType;
use crate::evt::{BroadcastClass, ParameterId, Position, ValidTree, ValueKind, ValueType};
use crate::expr::{Function, Logic, Op};
use crate::lane::Operation;
use crate::lane::function::Inline;
use crate::lane::scalar::Lanes;
use crate::lane::strip::compute;

/// A value's index in [`Lowered::values`].
pub(super) type Id = usize;

/// How a value is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LoweredKind<T> {
    /// An accumulator.
    Accum(usize),
    /// A parameter read from memory.
    Parameter(ParameterId),
    /// A number.
    Constant(T),
    /// An integer.
    Integer(i64),
    /// A position or an extent.
    Position(Position),
    /// The random number of a seed's stream.
    Random(ParameterId, u32),
    /// An operation on other values; it has as many of these as it has operands.
    Compute(Operation, [Id; 3]),
}

impl<T: Copy> LoweredKind<T> {
    fn compute(operation: Operation, operands: &[Id]) -> Self {
        let operand = |i: usize| operands.get(i).copied().unwrap_or(operands[0]);
        Self::Compute(operation, [operand(0), operand(1), operand(2)])
    }

    /// The values that this one reads.
    pub(super) fn operands(&self) -> &[Id] {
        match self {
            Self::Compute(operation, operands) => &operands[..operation.arity()],
            Self::Accum(_)
            | Self::Parameter(_)
            | Self::Constant(_)
            | Self::Integer(_)
            | Self::Position(_)
            | Self::Random(..) => &[],
        }
    }

    fn map(self, f: impl Fn(Id) -> Id) -> Self {
        self.with(f, |x| x)
    }

    /// This kind with other values, and with constants of another type.
    pub(super) fn with<U>(self, f: impl Fn(Id) -> Id, constant: impl Fn(T) -> U) -> LoweredKind<U> {
        match self {
            Self::Accum(i) => LoweredKind::Accum(i),
            Self::Parameter(parameter) => LoweredKind::Parameter(parameter),
            Self::Constant(x) => LoweredKind::Constant(constant(x)),
            Self::Integer(x) => LoweredKind::Integer(x),
            Self::Position(position) => LoweredKind::Position(position),
            Self::Random(seed, stream) => LoweredKind::Random(seed, stream),
            Self::Compute(operation, operands) => LoweredKind::Compute(operation, operands.map(f)),
        }
    }
}

/// A value, and the class of its extent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value<T> {
    pub(super) kind: LoweredKind<T>,
    pub(super) class: BroadcastClass,
    /// Whether it is an integer; truth values are the numbers 0 and 1.
    pub(super) integer: bool,
}

/// The whole epilogue, operands before users; every value is used.
#[derive(Clone, Debug)]
pub(super) struct Lowered<T> {
    pub(super) values: Vec<Value<T>>,
    /// The value of each of the tree's outputs.
    pub(super) outputs: Vec<Id>,
}

/// Lowers a tree for one run. `scalars` holds the host scalars by parameter index; the entries of other parameters are
/// ignored.
pub(super) fn lower<T: Arithmetic>(tree: &ValidTree, scalars: &[f64]) -> Lowered<T> {
    let mut builder = Builder { values: Vec::new(), known: HashMap::new() };
    let mut became: Vec<Id> = Vec::with_capacity(tree.values().len());
    for value in tree.values() {
        let at = |id: &crate::evt::ValueId| became[id.index()];
        let id = match &value.kind {
            ValueKind::Accum(i) => builder.push(LoweredKind::Accum(*i), BroadcastClass::Tensor),
            ValueKind::Literal(x) => builder.constant(T::from_f64(*x)),
            ValueKind::Integer(x) => builder.push_integer(LoweredKind::Integer(*x), BroadcastClass::Scalar),
            ValueKind::Position(position) => builder.push_integer(LoweredKind::Position(*position), value.class),
            ValueKind::Random(seed, stream) => match tree.value(*seed).kind {
                ValueKind::Broadcast(parameter) => {
                    builder.push(LoweredKind::Random(parameter, *stream), BroadcastClass::Tensor)
                }
                _ => {
                    debug_assert!(false, "a seed is a parameter");
                    builder.constant(T::from_f64(f64::NAN))
                }
            },
            ValueKind::ToReal(x) => builder.push(LoweredKind::compute(Operation::Cast(T::OWN), &[at(x)]), value.class),
            ValueKind::Logic(logic, operands) => {
                let operands: Vec<Id> = operands.iter().map(at).collect();
                builder.logic(*logic, &operands)
            }
            ValueKind::Load(p) | ValueKind::Broadcast(p) if matches!(value.ty, ValueType::Integer(_)) => {
                builder.push_integer(LoweredKind::Parameter(*p), value.class)
            }
            ValueKind::Load(p) => builder.push(LoweredKind::Parameter(*p), BroadcastClass::Tensor),
            ValueKind::Broadcast(p) if tree.parameter(*p).class == crate::evt::ParameterClass::Scalar => {
                builder.constant(T::from_f64(scalars[p.index()]))
            }
            ValueKind::Broadcast(p) => builder.push(LoweredKind::Parameter(*p), value.class),
            ValueKind::Apply(op, operands) => {
                let operands: Vec<Id> = operands.iter().map(at).collect();
                builder.apply(*op, &operands)
            }
            ValueKind::Scaled { scalar, x } => builder.scaled(at(scalar), at(x)),
            ValueKind::Call(function, operands) => {
                let operands: Vec<Id> = operands.iter().map(at).collect();
                builder.call(function, &operands)
            }
            ValueKind::Cast(element, x) => builder.round(*element, at(x)),
            ValueKind::Reduce(..) => {
                debug_assert!(false, "the reductions of a part are outputs");
                builder.constant(T::from_f64(f64::NAN))
            }
        };
        became.push(id);
    }
    let outputs = tree.outputs().iter().map(|output| became[output.value.index()]).collect();
    Lowered { values: builder.values, outputs }.without_unused()
}

/// Lowers functions of the same parameters. The parameters become accumulators of the lowered tree, and the functions'
/// results its outputs.
pub(super) fn lower_functions<T: Arithmetic>(functions: &[Function], parameters: usize) -> Lowered<T> {
    let mut builder = Builder { values: Vec::new(), known: HashMap::new() };
    let operands: Vec<Id> =
        (0..parameters).map(|parameter| builder.push(LoweredKind::Accum(parameter), BroadcastClass::Tensor)).collect();
    let outputs = functions.iter().map(|function| builder.call(function, &operands)).collect();
    Lowered { values: builder.values, outputs }.without_unused()
}

struct Builder<T> {
    values: Vec<Value<T>>,
    /// Constants, by the bits of their f64 form.
    known: HashMap<u64, Id>,
}

impl<T: Arithmetic> Builder<T> {
    fn push(&mut self, kind: LoweredKind<T>, class: BroadcastClass) -> Id {
        self.values.push(Value { kind, class, integer: false });
        self.values.len() - 1
    }

    fn push_integer(&mut self, kind: LoweredKind<T>, class: BroadcastClass) -> Id {
        self.values.push(Value { kind, class, integer: true });
        self.values.len() - 1
    }

    fn constant(&mut self, x: T) -> Id {
        let bits = x.to_f64().to_bits();
        if let Some(&id) = self.known.get(&bits) {
            return id;
        }
        let id = self.push(LoweredKind::Constant(x), BroadcastClass::Scalar);
        self.known.insert(bits, id);
        id
    }

    fn value_of(&self, id: Id) -> Option<T> {
        match self.values[id].kind {
            LoweredKind::Constant(x) => Some(x),
            _ => None,
        }
    }

    /// An operation of the language of expressions.
    fn of(&mut self, op: Op, operands: &[Id]) -> Id {
        self.operation(Operation::Apply(op), operands)
    }

    fn operation(&mut self, operation: Operation, operands: &[Id]) -> Id {
        if let (Operation::Apply(Op::Add), &[half, y]) = (operation, operands)
            && let Some(x) = self.half_of_sigmoid(half, y).or_else(|| self.half_of_sigmoid(y, half))
        {
            return x;
        }
        let constants: Option<Vec<T>> = operands.iter().map(|&id| self.value_of(id)).collect();
        if let Some(constants) = constants {
            return self.constant(evaluate(operation, &constants));
        }
        let class = operands.iter().fold(BroadcastClass::Scalar, |class, &id| class.join(self.values[id].class));
        let of_integers = operands.last().is_some_and(|&id| self.values[id].integer);
        let is_comparison = matches!(operation, Operation::Apply(op) if op.is_comparison());
        let kind = LoweredKind::compute(operation, operands);
        if of_integers && !is_comparison { self.push_integer(kind, class) } else { self.push(kind, class) }
    }

    /// `h + h · tanh(u)`, as at the end of GELU's approximation, as `h · (2 / (1 + exp(-2u)))`: half as many
    /// instructions, and no cancellation. `None` for another sum, and if an infinite `h` could give another result.
    fn half_of_sigmoid(&mut self, half: Id, rest: Id) -> Option<Id> {
        let LoweredKind::Compute(Operation::Apply(Op::Mul), [x, y, _]) = self.values[rest].kind else { return None };
        let of_tanh = |factor: Id, tanh: Id| match self.values[tanh].kind {
            LoweredKind::Compute(Operation::Apply(Op::Tanh), [u, ..]) if factor == half => Some(u),
            _ => None,
        };
        let u = of_tanh(x, y).or_else(|| of_tanh(y, x)).filter(|u| self.is_same_at_infinity(half, *u))?;
        let [one, two, minus_two] = [1.0, 2.0, -2.0].map(|x| self.constant(T::from_f64(x)));
        let exponent = self.of(Op::Mul, &[u, minus_two]);
        let exponential = self.of(Op::Exp, &[exponent]);
        let below = self.of(Op::Add, &[one, exponential]);
        let factor = self.of(Op::Div, &[two, below]);
        Some(self.of(Op::Mul, &[half, factor]))
    }

    /// Whether a half is infinite only together with what it is a part of, and both ways to compute the sum agree there.
    fn is_same_at_infinity(&self, half: Id, u: Id) -> bool {
        let is_small = |id: Id| self.value_of(id).is_some_and(|part| part.to_f64().abs() <= 1.0);
        let whole = match self.values[half].kind {
            LoweredKind::Compute(Operation::Apply(Op::Mul), [part, x, _]) if is_small(part) => x,
            LoweredKind::Compute(Operation::Apply(Op::Mul), [x, part, _]) if is_small(part) => x,
            _ => half,
        };
        [f64::INFINITY, f64::NEG_INFINITY].into_iter().all(|limit| {
            let at = self.values_at(whole, T::from_f64(limit), half.max(u));
            let (Some(half), Some(u)) = (at[half], at[u]) else { return false };
            let (half, u) = (half.to_f64(), u.to_f64());
            let (sum, product) = (half + half * u.tanh(), half * (2.0 / (1.0 + (-2.0 * u).exp())));
            sum == product || sum.is_nan() && product.is_nan()
        })
    }

    /// Every value up to a last one, if `whole` is this number: those that depend on nothing else.
    fn values_at(&self, whole: Id, number: T, last: Id) -> Vec<Option<T>> {
        let mut at: Vec<Option<T>> = Vec::with_capacity(last + 1);
        for id in 0..=last {
            let kind = self.values[id].kind;
            let operands: Option<Vec<T>> = kind.operands().iter().map(|&operand| at[operand]).collect();
            at.push(match (kind, operands) {
                _ if id == whole => Some(number),
                (LoweredKind::Compute(operation, _), Some(operands)) => Some(evaluate(operation, &operands)),
                _ => self.value_of(id),
            });
        }
        at
    }

    /// Truth values are 0 and 1.
    fn logic(&mut self, logic: Logic, operands: &[Id]) -> Id {
        match (logic, operands) {
            (Logic::And, operands) => self.of(Op::Mul, operands),
            (Logic::Or, operands) => self.of(Op::Max, operands),
            (Logic::Not, operands) => {
                let zero = self.constant(T::ZERO);
                self.of(Op::Eq, &[operands[0], zero])
            }
        }
    }

    /// BLAS's beta = 0: a product with a zero scalar is 0 for any other factor, which is then unused.
    fn scaled(&mut self, scalar: Id, x: Id) -> Id {
        match self.value_of(scalar) {
            Some(zero) if zero == T::ZERO => self.constant(T::ZERO),
            _ => self.of(Op::Mul, &[scalar, x]),
        }
    }
}

impl<T: Arithmetic> Inline for Builder<T> {
    type Value = Id;

    fn literal(&mut self, x: f64) -> Id {
        self.constant(T::from_f64(x))
    }

    fn apply(&mut self, op: Op, operands: &[Id]) -> Id {
        match (op, operands) {
            // The reciprocal of a rounded root.
            (Op::Rsqrt, operands) => {
                let root = self.of(Op::Sqrt, operands);
                self.of(Op::Recip, &[root])
            }
            (Op::Select, &[c, x, y]) if let Some(truth) = self.value_of(c) => {
                if truth == T::ZERO {
                    y
                } else {
                    x
                }
            }
            _ => self.of(op, operands),
        }
    }

    fn round(&mut self, element: ElementType, x: Id) -> Id {
        self.operation(Operation::Round(element), &[x])
    }
}

/// Computes an operation on constants, with the same code that computes rows.
fn evaluate<T: Arithmetic>(operation: Operation, x: &[T]) -> T {
    let mut to = [T::ZERO];
    let operands: SmallVec<[Lanes<'_>; 3]> = x.chunks(1).map(T::lanes).collect();
    let done = compute(operation, T::lanes_mut(&mut to), &operands);
    debug_assert!(done.is_ok(), "no division of integers");
    to[0]
}

impl<T: Copy> Lowered<T> {
    /// The accumulators that it reads, in order.
    pub(super) fn accumulators(&self) -> Vec<usize> {
        let read = self.values.iter().filter_map(|value| match value.kind {
            LoweredKind::Accum(i) => Some(i),
            _ => None,
        });
        let mut read: Vec<usize> = read.collect();
        read.sort_unstable();
        read
    }

    fn without_unused(self) -> Self {
        let mut used = vec![false; self.values.len()];
        self.outputs.iter().for_each(|&id| used[id] = true);
        for id in (0..self.values.len()).rev() {
            if used[id] {
                self.values[id].kind.operands().iter().for_each(|&operand| used[operand] = true);
            }
        }
        let mut place = vec![0; used.len()];
        let mut values = Vec::new();
        for (id, value) in self.values.into_iter().enumerate() {
            if used[id] {
                place[id] = values.len();
                values.push(Value { kind: value.kind.map(|operand| place[operand]), ..value });
            }
        }
        Self { values, outputs: self.outputs.iter().map(|&id| place[id]).collect() }
    }
}

#[cfg(test)]
mod tests {
    use epilogue_macros::elementwise;

    use super::*;
    use crate::ops::{self, tanh};

    #[test]
    fn gelu_by_tanh_is_computed_by_an_exponential() {
        /// As users write it.
        #[elementwise]
        fn own(x: f32) -> f32 {
            let half = 0.5 * x;
            half + half * tanh(0.797_884_6 * (x + 0.044715 * x * x * x))
        }
        for (gelu, exponential) in [(own::function(), Op::Exp), (ops::gelu_tanh::function(), Op::Exp2)] {
            let lowered = lower_functions::<f32>(std::slice::from_ref(gelu), 1);
            let has = |op| {
                lowered
                    .values
                    .iter()
                    .any(|value| matches!(value.kind, LoweredKind::Compute(Operation::Apply(of), _) if of == op))
            };
            assert!(has(exponential) && !has(Op::Tanh), "{lowered:?}");
        }
    }

    /// With an infinite `x`, the sum is NaN if the tangent is negative.
    #[test]
    fn a_tangent_of_something_else_stays_one() {
        #[elementwise]
        fn scaled(x: f32, y: f32) -> f32 {
            x + x * tanh(y)
        }
        let lowered = lower_functions::<f32>(std::slice::from_ref(scaled::function()), 2);
        assert!(
            lowered
                .values
                .iter()
                .any(|value| matches!(value.kind, LoweredKind::Compute(Operation::Apply(Op::Tanh), _))),
            "{lowered:?}"
        );
    }
}
