//! Random valid trees and element values for property tests, from a sequence of choices.
//!
//! It takes a sequence rather than a generator of random numbers, so that any property-testing library can make and
//! shrink it: shorter sequences and smaller numbers give simpler trees. After its end every choice is 0.

mod reducers;

use super::{
    Axis, BroadcastClass, Composed, ComposedOp, Form, MAX_CHAIN, NodeId, ParameterClass, Position, ReduceOp, Reduction,
    Tree, TreeBuilder,
};
use crate::ElementType;
use crate::expr::{Function, Logic, Op, Real};
use crate::ops;

/// A sequence of choices.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    rest: &'a [u32],
}

impl<'a> Choices<'a> {
    /// Choices from any numbers.
    #[must_use]
    pub const fn new(choices: &'a [u32]) -> Self {
        Self { rest: choices }
    }

    /// A number below `count`; 0 after the end of the sequence.
    pub fn below(&mut self, count: usize) -> usize {
        match self.rest.split_first() {
            Some((first, rest)) if count > 0 => {
                self.rest = rest;
                usize::try_from(*first).unwrap_or(0) % count
            }
            _ => 0,
        }
    }

    /// One of some things; the first after the end of the sequence.
    pub fn pick<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len())]
    }

    /// True once in `times`; never after the end of the sequence.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }
}

/// The limits of random trees.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Most operations.
    pub operations: usize,
    /// Whether there may be complete reductions.
    pub reductions: bool,
    /// Whether there may be per-tile partials.
    pub partials: bool,
    /// Whether there may be reductions along the batch.
    pub batch: bool,
    /// Values that are computed from complete reductions.
    pub phases: bool,
    /// Whether there may be integers, positions and truth values.
    pub typed: bool,
    /// Whether there may be random numbers.
    pub chance: bool,
    /// Whether there may be truth values with eight columns in a byte.
    pub bits: bool,
    /// Most accumulators.
    pub accumulators: usize,
    /// Element types that parameters, outputs and casts may be declared with.
    pub elements: &'static [ElementType],
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            operations: 12,
            reductions: true,
            partials: true,
            batch: true,
            phases: false,
            typed: true,
            chance: false,
            bits: false,
            accumulators: 3,
            elements: &Real::ELEMENTS,
        }
    }
}

/// Names that are difficult somewhere: C++ keywords, CUDA's variables, functions, shadowing.
const PARAMETERS: [&str; 6] = ["c", "double", "bias", "alpha", "threadIdx", "tanh"];
const ACCUMULATORS: [&str; 4] = ["accum", "gate", "switch", "expf"];
const VALUES: [&str; 6] = ["x", "d", "exp", "x", "register", "accum"];
const OUTPUTS: [&str; 4] = ["out", "z", "float", "reduction"];

fn unary() -> [&'static Function; 29] {
    [
        ops::relu::function(),
        ops::tanh::function(),
        ops::sigmoid::function(),
        ops::gelu::function(),
        ops::neg::function(),
        ops::abs::function(),
        ops::square::function(),
        ops::silu::function(),
        ops::hardswish::function(),
        ops::gelu_tanh::function(),
        ops::exp::function(),
        ops::exp2::function(),
        ops::log::function(),
        ops::log2::function(),
        ops::sqrt::function(),
        ops::rsqrt::function(),
        ops::recip::function(),
        ops::erf::function(),
        ops::sin::function(),
        ops::cos::function(),
        ops::tan::function(),
        ops::floor::function(),
        ops::ceil::function(),
        ops::round::function(),
        ops::gelu_grad::function(),
        ops::silu_grad::function(),
        ops::relu_grad::function(),
        ops::log1p::function(),
        ops::softplus::function(),
    ]
}

struct Growing {
    builder: TreeBuilder,
    /// Numbers so far, with their classes.
    numbers: Vec<(NodeId, BroadcastClass)>,
    integers: Vec<(NodeId, BroadcastClass)>,
    truths: Vec<(NodeId, BroadcastClass)>,
    /// Parameters that were declared with a type of integers.
    of_integers: Vec<(NodeId, BroadcastClass)>,
    seed: Option<NodeId>,
}

const REDUCTIONS: [ReduceOp; 6] =
    [ReduceOp::Add, ReduceOp::Max, ReduceOp::Min, ReduceOp::AbsMax, ReduceOp::SumSquares, ReduceOp::Mul];

const INDICES: [ReduceOp; 2] = [ReduceOp::ArgMax, ReduceOp::ArgMin];

const COMPARISONS: [Op; 6] = [Op::Gt, Op::Lt, Op::Ge, Op::Le, Op::Eq, Op::Ne];

/// An element type of numbers.
fn number(choices: &mut Choices<'_>, profile: Profile) -> ElementType {
    match choices.pick(profile.elements) {
        ElementType::Bool => ElementType::U8,
        number => number,
    }
}

impl Growing {
    fn operand(&self, choices: &mut Choices<'_>) -> (NodeId, BroadcastClass) {
        // Recent values more often, so that trees grow deep as well as wide.
        let count = self.numbers.len();
        if choices.below(3) == 2 { self.numbers[count - 1] } else { self.numbers[choices.below(count)] }
    }

    fn literal(&mut self, choices: &mut Choices<'_>) -> (NodeId, BroadcastClass) {
        let value = choices.pick(&[1.0, 0.0, -1.0, 0.5, 2.0, -0.0, 0.1, -3.25, 6.0, 1e-3]);
        (self.builder.literal(value), BroadcastClass::Scalar)
    }

    fn operand_or_literal(&mut self, choices: &mut Choices<'_>) -> (NodeId, BroadcastClass) {
        if choices.once_in(4) { self.literal(choices) } else { self.operand(choices) }
    }

    /// A position, the integer of a parameter, or a constant.
    fn new_integer(&mut self, choices: &mut Choices<'_>) -> (NodeId, BroadcastClass) {
        match choices.below(4) {
            0 if !self.of_integers.is_empty() => {
                let (x, class) = choices.pick(&self.of_integers);
                (self.builder.integer(x), class)
            }
            1 => {
                let value = choices.pick(&[1, 0, -3, 7, 64, 100_000, i64::MAX]);
                (self.builder.integer_literal(value), BroadcastClass::Scalar)
            }
            _ => {
                let position = choices.pick(&[
                    Position::Row,
                    Position::Column,
                    Position::Batch,
                    Position::Rows,
                    Position::Columns,
                ]);
                (self.builder.position(position), position.class())
            }
        }
    }

    fn integer(&mut self, choices: &mut Choices<'_>) -> (NodeId, BroadcastClass) {
        if self.integers.is_empty() || choices.once_in(2) {
            let new = self.new_integer(choices);
            self.integers.push(new);
        }
        choices.pick(&self.integers)
    }

    fn truth(&mut self, choices: &mut Choices<'_>) -> (NodeId, BroadcastClass) {
        if self.truths.is_empty() || choices.once_in(2) {
            let (x, y) = if choices.once_in(2) {
                (self.operand(choices), self.operand_or_literal(choices))
            } else {
                (self.integer(choices), self.integer(choices))
            };
            let op = choices.pick(&COMPARISONS);
            self.truths.push((self.builder.apply(op, &[x.0, y.0]), x.1.join(y.1)));
        }
        choices.pick(&self.truths)
    }

    /// An operation that takes or gives integers or truth values.
    fn typed_operation(&mut self, choices: &mut Choices<'_>) {
        match choices.below(7) {
            0 => {
                let (x, y) = (self.integer(choices), self.integer(choices));
                let op = choices.pick(&[Op::Add, Op::Sub, Op::Mul, Op::Min, Op::Max]);
                self.integers.push((self.builder.apply(op, &[x.0, y.0]), x.1.join(y.1)));
            }
            1 => {
                let x = self.integer(choices);
                self.integers.push((self.builder.apply(Op::Neg, &[x.0]), x.1));
            }
            2 => {
                let (x, y) = (self.truth(choices), self.truth(choices));
                let node = match choices.below(3) {
                    0 => self.builder.logic(Logic::And, &[x.0, y.0]),
                    1 => self.builder.logic(Logic::Or, &[x.0, y.0]),
                    _ => {
                        let not = self.builder.logic(Logic::Not, &[x.0]);
                        self.builder.logic(Logic::And, &[not, y.0])
                    }
                };
                self.truths.push((node, x.1.join(y.1)));
            }
            3 => {
                let (c, x, y) = (self.truth(choices), self.integer(choices), self.integer(choices));
                let node = self.builder.apply(Op::Select, &[c.0, x.0, y.0]);
                self.integers.push((node, c.1.join(x.1).join(y.1)));
            }
            4 => {
                let (c, x, y) = (self.truth(choices), self.truth(choices), self.truth(choices));
                let node = self.builder.apply(Op::Select, &[c.0, x.0, y.0]);
                self.truths.push((node, c.1.join(x.1).join(y.1)));
            }
            5 => {
                let x = self.integer(choices);
                self.numbers.push((self.builder.real(x.0), x.1));
            }
            _ => {
                let (c, x, y) = (self.truth(choices), self.operand(choices), self.operand_or_literal(choices));
                let node = self.builder.apply(Op::Select, &[c.0, x.0, y.0]);
                self.numbers.push((node, c.1.join(x.1).join(y.1)));
            }
        }
    }

    /// Whether a value may be reduced, if it is of this phase.
    fn is_reducible((x, class): (NodeId, BroadcastClass), phases: &[usize]) -> bool {
        phases[x.index()] == 0 || class == BroadcastClass::Tensor && phases[x.index()] < MAX_CHAIN
    }

    /// An operation of numbers, also one of a user's own.
    fn combination(choices: &mut Choices<'_>) -> ReduceOp {
        if choices.once_in(4) { ReduceOp::User(choices.pick(&reducers::all())) } else { choices.pick(&REDUCTIONS) }
    }

    /// A reduction whose result is a value like any other.
    fn reduction(&mut self, choices: &mut Choices<'_>, profile: Profile) {
        let axis = choices.pick(&[Axis::Row, Axis::Row, Axis::Column, Axis::All]);
        let batch = profile.batch && choices.once_in(4);
        if choices.once_in(3) {
            return self.composed(choices, profile, axis, batch);
        }
        let phases = self.builder.phases();
        let x = self.operand(choices);
        let (x, _) = if Self::is_reducible(x, &phases) { x } else { self.numbers[0] };
        let index = profile.typed && !batch && choices.once_in(5);
        let op = if index { choices.pick(&INDICES) } else { Self::combination(choices) };
        let node = self.builder.reduce(Reduction { axis, batch, op, form: Form::Complete }, x);
        if choices.once_in(2) {
            self.builder.name(node, choices.pick(&VALUES));
        }
        let results = if index { &mut self.integers } else { &mut self.numbers };
        results.push((node, axis.result_class()));
    }

    /// A reduction that is made of others.
    fn composed(&mut self, choices: &mut Choices<'_>, profile: Profile, axis: Axis, batch: bool) {
        let op = choices.pick(&[ComposedOp::Mean, ComposedOp::LogSumExp, ComposedOp::Variance]);
        let op =
            if profile.typed && choices.once_in(3) { choices.pick(&[ComposedOp::Any, ComposedOp::All]) } else { op };
        let given = if op.of_truths() { self.truth(choices) } else { self.operand(choices) };
        let phases = self.builder.phases();
        let fits = Self::is_reducible(given, &phases) && phases[given.0.index()] + op.length() <= MAX_CHAIN;
        let two = op.length() == 1 || given.1.join(axis.result_class()) == BroadcastClass::Tensor;
        let x = match (fits && two, op.of_truths()) {
            (true, _) => given.0,
            (false, false) => self.numbers[0].0,
            (false, true) => {
                let zero = self.builder.literal(0.0);
                self.builder.apply(Op::Gt, &[self.numbers[0].0, zero])
            }
        };
        let node = self.builder.compose(Composed { axis, batch, op }, x);
        if choices.once_in(2) {
            self.builder.name(node, choices.pick(&VALUES));
        }
        let results = if op.of_truths() { &mut self.truths } else { &mut self.numbers };
        results.push((node, axis.result_class()));
    }

    fn operation(&mut self, choices: &mut Choices<'_>, profile: Profile) {
        if let Some(seed) = self.seed.filter(|_| choices.once_in(6)) {
            let stream = choices.pick(&[0, 1, 2, u32::MAX]);
            return self.numbers.push((self.builder.random(seed, stream), BroadcastClass::Tensor));
        }
        if profile.phases && choices.once_in(4) {
            return self.reduction(choices, profile);
        }
        if profile.typed && choices.once_in(3) {
            return self.typed_operation(choices);
        }
        let x = self.operand(choices);
        let (node, class) = match choices.below(10) {
            0..=3 => {
                let op = choices.pick(&[Op::Add, Op::Mul, Op::Sub, Op::Max, Op::Min, Op::Div]);
                let y = self.operand_or_literal(choices);
                let operands = if choices.once_in(2) { [y.0, x.0] } else { [x.0, y.0] };
                (self.builder.apply(op, &operands), x.1.join(y.1))
            }
            4 | 5 => (self.builder.call(choices.pick(&unary()), &[x.0]), x.1),
            6 => {
                let (y, z) = (self.operand_or_literal(choices), self.operand_or_literal(choices));
                let op = choices.pick(&COMPARISONS);
                let condition = self.builder.apply(op, &[x.0, y.0]);
                (self.builder.apply(Op::Select, &[condition, z.0, x.0]), x.1.join(y.1).join(z.1))
            }
            7 => (self.builder.cast(number(choices, profile), x.0), x.1),
            8 => {
                let (y, z) = (self.operand_or_literal(choices), self.operand_or_literal(choices));
                let node = match choices.below(3) {
                    0 => self.builder.apply(Op::Fma, &[x.0, y.0, z.0]),
                    1 => self.builder.call(ops::clamp::function(), &[x.0, y.0, z.0]),
                    _ => {
                        let leaky = self.builder.call(ops::leaky_relu::function(), &[x.0, y.0]);
                        self.builder.apply(Op::Sub, &[leaky, z.0])
                    }
                };
                (node, x.1.join(y.1).join(z.1))
            }
            _ => {
                let y = self.literal(choices);
                (self.builder.apply(choices.pick(&[Op::Mul, Op::Add, Op::Pow, Op::Div]), &[x.0, y.0]), x.1)
            }
        };
        if choices.once_in(3) {
            self.builder.name(node, choices.pick(&VALUES));
        }
        self.numbers.push((node, class));
    }

    fn output(&mut self, name: &'static str, choices: &mut Choices<'_>, profile: Profile) {
        if profile.typed && choices.once_in(4) {
            if choices.once_in(2) {
                let (node, class) = self.integer(choices);
                let element = choices.pick(&[ElementType::I64, ElementType::I32, ElementType::I8, ElementType::U8]);
                return self.builder.output(name, node, class, choices.once_in(2).then_some(element));
            }
            let (node, class) = self.truth(choices);
            if profile.bits && class == BroadcastClass::Tensor && choices.once_in(2) {
                return self.builder.output_bits(name, node);
            }
            return self.builder.output(name, node, class, choices.once_in(2).then_some(ElementType::Bool));
        }
        let element = choices.once_in(3).then(|| number(choices, profile));
        let (node, class) = self.operand(choices);
        if !(profile.reductions && choices.once_in(3)) {
            return self.builder.output(name, node, class, element);
        }
        let op = choices.pick(&REDUCTIONS);
        let phases = self.builder.phases();
        if !Self::is_reducible((node, class), &phases) {
            return self.builder.output(name, node, class, element);
        }
        let partial = profile.partials && choices.once_in(3) && phases[node.index()] == 0;
        let axes: &[Axis] = if partial { &[Axis::Row, Axis::Column] } else { &[Axis::Row, Axis::Column, Axis::All] };
        let axis = choices.pick(axes);
        let batch = profile.batch && !partial && choices.once_in(3);
        let form = if partial { Form::Partial } else { Form::Complete };
        if profile.typed && !partial && !batch && choices.once_in(4) {
            let op = choices.pick(&INDICES);
            let node = self.builder.reduce(Reduction { axis, batch, op, form }, node);
            let element = choices.once_in(2).then_some(ElementType::I32);
            return self.builder.output(name, node, axis.result_class(), element);
        }
        let op = if partial { op } else { Self::combination(choices) };
        let node = self.builder.reduce(Reduction { axis, batch, op, form }, node);
        let element = element.filter(|_| !partial);
        self.builder.output(name, node, axis.result_class(), element);
    }
}

/// A valid tree. Its outputs have other names than its parameters, except those of `TensorMut`.
#[must_use]
pub fn tree(choices: &mut Choices<'_>, profile: Profile) -> Tree {
    let mut growing = Growing {
        builder: TreeBuilder::new("random", "random.rs"),
        numbers: Vec::new(),
        integers: Vec::new(),
        truths: Vec::new(),
        of_integers: Vec::new(),
        seed: None,
    };
    // One accumulator in more than half of the cases; every other number is equally likely.
    let most = profile.accumulators.max(1);
    let accumulators = (choices.below(2 * most - 1) + 2).saturating_sub(most).max(1);
    let mut accum = growing.builder.at(1, 1).accum(ACCUMULATORS[0]);
    growing.numbers.push((accum, BroadcastClass::Tensor));
    for name in ACCUMULATORS.iter().take(accumulators).skip(1) {
        accum = growing.builder.accum(name);
        growing.numbers.push((accum, BroadcastClass::Tensor));
    }
    let mut written = Vec::new();
    for name in &PARAMETERS[..choices.below(PARAMETERS.len() + 1)] {
        let class = choices.pick(&[
            ParameterClass::Tensor,
            ParameterClass::RowVector,
            ParameterClass::Scalar,
            ParameterClass::ColumnVector,
            ParameterClass::TensorMut,
            ParameterClass::DeviceScalar,
        ]);
        let typed = class != ParameterClass::Scalar && choices.once_in(2);
        let any = |choices: &mut Choices<'_>| match profile.typed {
            true => choices.pick(profile.elements),
            false => number(choices, profile),
        };
        let element = typed.then(|| any(choices));
        let node = growing.builder.parameter(name, class, element);
        if element.is_some_and(ElementType::is_integer) {
            growing.of_integers.push((node, class.broadcast_class()));
        }
        let values = if element == Some(ElementType::Bool) { &mut growing.truths } else { &mut growing.numbers };
        values.push((node, class.broadcast_class()));
        if class == ParameterClass::TensorMut {
            written.push((*name, element));
        }
    }
    if profile.chance && choices.once_in(3) {
        let seed = growing.builder.parameter("seed", ParameterClass::Seed, None);
        growing.seed = Some(seed);
        growing.numbers.push((growing.builder.random(seed, 0), BroadcastClass::Tensor));
    }
    if profile.bits && choices.once_in(3) {
        let mask = growing.builder.parameter("mask", ParameterClass::Bits, None);
        growing.truths.push((mask, BroadcastClass::Tensor));
    }
    for line in 0..choices.below(profile.operations + 1) {
        growing.builder.at(u32::try_from(line).unwrap_or(0) + 2, 5);
        growing.operation(choices, profile);
    }
    for name in &OUTPUTS[..=choices.below(OUTPUTS.len())] {
        growing.output(name, choices, profile);
    }
    for (name, element) in written {
        if element == Some(ElementType::Bool) {
            let (truth, zero) = (growing.truth(choices).0, growing.builder.literal(0.0));
            let positive = growing.builder.apply(Op::Gt, &[accum, zero]);
            let node = growing.builder.logic(Logic::Or, &[truth, positive]);
            growing.builder.output(name, node, BroadcastClass::Tensor, element);
            continue;
        }
        let (x, class) = growing.operand(choices);
        // With the accumulator added, a value of any class becomes a tensor.
        let node = if class == BroadcastClass::Tensor { x } else { growing.builder.apply(Op::Add, &[x, accum]) };
        growing.builder.output(name, node, BroadcastClass::Tensor, element);
    }
    growing.builder.finish()
}

/// Values that an element type represents exactly: mostly small, now and then zeros, huge values, NaN and infinities.
#[must_use]
pub fn values(choices: &mut Choices<'_>, element: ElementType, count: usize) -> Vec<f64> {
    // A long array would use up the choices: only its seed is chosen, the rest follows from it.
    let mut state = choices.below(1 << 20) as u64 * 2 + 1;
    let special = choices.once_in(4);
    let mut next = || {
        // Knuth's multiplier (The Art of Computer Programming 3.3.4, table 1); the high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let value = |_| {
        #[expect(clippy::cast_precision_loss)]
        let small = (next() % 4096) as f64 / 512.0 - 4.0;
        let x = match next() % 64 {
            0 if special => f64::NAN,
            1 if special => f64::INFINITY,
            2 if special => f64::NEG_INFINITY,
            3 if special => 3e38,
            4 => 0.0,
            5 => -0.0,
            6 => small * 100.0,
            7 => small * 1e-4,
            _ => small,
        };
        super::reference::round(element, x)
    };
    (0..count).map(value).collect()
}
