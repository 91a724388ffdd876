//! Random bodies against an interpreter that knows nothing of registers and vectors.

use super::super::body::{Argument, JitNode, JitTarget};
use super::{numbers, of_widths, same};
use crate::jit::{Binary, Body, JitValue, Lane, Unary};
use crate::tuning::Vectors;

/// The value of every node in one lane, computed one node after the other.
fn evaluate(body: &Body, load: impl Fn(usize) -> u32) -> Vec<u32> {
    let mut values: Vec<u32> = Vec::new();
    for node in &body.nodes {
        let bits = |value: &JitValue| values[value.index()];
        let float = |value: &JitValue| f32::from_bits(bits(value));
        let mask = |holds: bool| if holds { u32::MAX } else { 0 };
        values.push(match node {
            JitNode::Constant(constant) => *constant as u32,
            JitNode::Load(argument) => load(*argument),
            JitNode::Held(_) => panic!("only row programs have these"),
            JitNode::Select(c, a, b) => {
                if bits(c) != 0 {
                    bits(a)
                } else {
                    bits(b)
                }
            }
            // All lanes are there.
            JitNode::Within(a, _) => bits(a),
            JitNode::FmaF64(..) => panic!("only wide bodies have these"),
            JitNode::Fma(a, b, c) => float(a).mul_add(float(b), float(c)).to_bits(),
            JitNode::Unary(op, a) => match op {
                Unary::Sqrt => float(a).sqrt().to_bits(),
                Unary::Round(0) => float(a).round_ties_even().to_bits(),
                Unary::Round(1) => float(a).floor().to_bits(),
                Unary::Round(2) => float(a).ceil().to_bits(),
                Unary::Round(_) => float(a).trunc().to_bits(),
                Unary::Float => (bits(a).cast_signed() as f32).to_bits(),
                Unary::ShiftLeft(by) => bits(a) << by,
                Unary::ShiftRight(by) => bits(a) >> by,
                Unary::ShiftSigned(by) => (bits(a).cast_signed() >> by).cast_unsigned(),
                _ => panic!("{op:?} is not among those chosen"),
            },
            JitNode::Binary(op, a, b) => match op {
                Binary::Add => (float(a) + float(b)).to_bits(),
                Binary::Sub => (float(a) - float(b)).to_bits(),
                Binary::Mul => (float(a) * float(b)).to_bits(),
                Binary::Div => (float(a) / float(b)).to_bits(),
                Binary::FirstLess => {
                    if float(a) < float(b) {
                        bits(a)
                    } else {
                        bits(b)
                    }
                }
                Binary::FirstGreater => {
                    if float(a) > float(b) {
                        bits(a)
                    } else {
                        bits(b)
                    }
                }
                Binary::And => bits(a) & bits(b),
                Binary::Without => !bits(a) & bits(b),
                Binary::Or => bits(a) | bits(b),
                Binary::Xor => bits(a) ^ bits(b),
                Binary::Less => mask(float(a) < float(b)),
                Binary::LessEqual => mask(float(a) <= float(b)),
                Binary::Equal => mask(float(a) == float(b)),
                Binary::NotEqual => mask(float(a) != float(b)),
                Binary::Unordered => mask(float(a).is_nan() || float(b).is_nan()),
                Binary::AddI32 => bits(a).wrapping_add(bits(b)),
                Binary::SubI32 => bits(a).wrapping_sub(bits(b)),
                Binary::MulI32 => bits(a).wrapping_mul(bits(b)),
                Binary::LeastI32 => bits(a).cast_signed().min(bits(b).cast_signed()).cast_unsigned(),
                Binary::GreatestI32 => bits(a).cast_signed().max(bits(b).cast_signed()).cast_unsigned(),
                Binary::EqualI32 => mask(bits(a) == bits(b)),
                Binary::GreaterI32 => mask(bits(a).cast_signed() > bits(b).cast_signed()),
                _ => panic!("{op:?} is not among those chosen"),
            },
        });
    }
    values
}

const FLOATS: [Binary; 6] =
    [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::FirstLess, Binary::FirstGreater];
const COMPARISONS: [Binary; 5] = [Binary::Less, Binary::LessEqual, Binary::Equal, Binary::NotEqual, Binary::Unordered];
const INTEGERS: [Binary; 8] = [
    Binary::AddI32,
    Binary::SubI32,
    Binary::MulI32,
    Binary::LeastI32,
    Binary::GreatestI32,
    Binary::Xor,
    Binary::Without,
    Binary::And,
];

/// Values of each type so far.
struct Pools {
    floats: Vec<JitValue>,
    integers: Vec<JitValue>,
    masks: Vec<JitValue>,
}

impl Pools {
    /// One more value. NaNs' bits differ, so no integer is made of a float's.
    fn grow(&mut self, body: &mut Body, random: &mut fastrand::Rng) {
        fn one<T: Copy>(random: &mut fastrand::Rng, all: &[T]) -> T {
            all[random.usize(..all.len())]
        }
        let [a, b, c] = [(); 3].map(|()| one(random, &self.floats));
        let [i, j] = [(); 2].map(|()| one(random, &self.integers));
        let [m, n] = [(); 2].map(|()| one(random, &self.masks));
        match random.u8(..12) {
            0..=3 => self.floats.push(body.binary(one(random, &FLOATS), a, b)),
            4 => {
                let op = [Unary::Sqrt, Unary::Round(random.u8(..4))][random.usize(..2)];
                self.floats.push(body.unary(op, a));
            }
            5 => self.floats.push(body.fma(a, b, c)),
            6 => self.floats.push(body.select(m, a, b)),
            7 => self.masks.push(body.binary(one(random, &COMPARISONS), a, b)),
            8 => self.masks.push(match random.u8(..4) {
                0 => body.binary(Binary::Or, m, n),
                1 => body.binary(Binary::EqualI32, i, j),
                2 => body.binary(Binary::GreaterI32, i, j),
                _ => body.binary(Binary::Xor, m, n),
            }),
            9 => self.integers.push(body.binary(one(random, &INTEGERS), i, j)),
            10 => {
                let by = random.u8(1..31);
                let shift = [Unary::ShiftLeft(by), Unary::ShiftRight(by), Unary::ShiftSigned(by)][random.usize(..3)];
                self.integers.push(body.unary(shift, i));
            }
            _ => self.floats.push(body.unary(Unary::Float, i)),
        }
    }
}

/// A body of some values; and its period, if lanes are combined. The last values and some others are stored.
fn body(random: &mut fastrand::Rng) -> Body {
    let mut body = Body::default();
    let mut pools = Pools { floats: Vec::new(), integers: Vec::new(), masks: Vec::new() };
    for _ in 0..random.usize(1..4) {
        pools.floats.push(body.load(Lane::F32));
    }
    pools.floats.push(body.uniform());
    let constant = numbers(random, 1)[0];
    pools.floats.push(body.float(constant));
    pools.integers.extend([body.load(Lane::I32), body.counter(), body.integer(random.i32(..))]);
    pools.masks.push(body.binary(Binary::Less, pools.floats[0], pools.floats[1]));
    let period = 8 << random.u32(..5);
    let state = random.bool().then(|| if random.bool() { body.cyclic(period) } else { body.updated() });
    pools.floats.extend(state.map(|(_, value)| value));
    for _ in 0..random.usize(1..120) {
        pools.grow(&mut body, random);
    }
    for _ in 0..random.usize(1..4) {
        body.store(Lane::F32, pools.floats[random.usize(..pools.floats.len())]);
    }
    body.store(Lane::I32, pools.integers[random.usize(..pools.integers.len())]);
    if let Some((argument, _)) = state {
        body.set(argument, pools.floats[pools.floats.len() - 1]);
    }
    body
}

/// The number of lanes of a round that are combined with a cyclic stream's lanes at once.
const MOST: usize = 200;

#[test]
fn random_bodies_give_what_their_nodes_say() {
    let mut random = fastrand::Rng::with_seed(4);
    for case in 0..600 {
        let body = body(&mut random);
        let kernels = of_widths(&body);
        let lanes = if random.bool() { random.usize(..71) } else { random.usize(..MOST) };
        let memory: Vec<Vec<u32>> = body
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Stream { lane: Lane::I32, .. } | Argument::Counter => {
                    (0..MOST).map(|_| random.u32(..)).collect()
                }
                _ => numbers(&mut random, MOST).into_iter().map(f32::to_bits).collect(),
            })
            .collect();
        let mut want = memory.clone();
        let period = body.period.map_or(usize::MAX, |period| period as usize);
        for lane in 0..lanes {
            let values = evaluate(&body, |argument| match body.arguments[argument] {
                Argument::Stream { .. } => want[argument][lane],
                Argument::Cyclic => want[argument][lane % period],
                Argument::Uniform => want[argument][0],
                Argument::Counter => want[argument][0].wrapping_add(lane as u32),
                Argument::WideUniform => panic!("only row programs have these"),
                Argument::Tile(_) => panic!("only tiles have these"),
            });
            for (target, value) in &body.stores {
                let JitTarget::Argument(argument) = *target else { panic!("only row programs have these") };
                let place = if body.arguments[argument] == Argument::Cyclic { lane % period } else { lane };
                want[argument][place] = values[value.index()];
            }
        }
        for kernel in kernels {
            let mut got = memory.clone();
            let addresses: Vec<*mut u8> = got.iter_mut().map(|own| own.as_mut_ptr().cast()).collect();
            // SAFETY: all arguments have more lanes.
            unsafe { kernel.run(&addresses, lanes) };
            for (argument, (got, want)) in got.iter().zip(&want).enumerate() {
                for (lane, (got, want)) in got.iter().zip(want).enumerate() {
                    let (got, want) = (f32::from_bits(*got), f32::from_bits(*want));
                    assert!(
                        same(got, want),
                        "case {case}, argument {argument}, {lane} of {lanes}: {got:e}, not {want:e}, by {kernel:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let mut many = Body::default();
    for _ in 0..12 {
        let x = many.load(Lane::F32);
        many.store(Lane::F32, x);
    }
    assert!(
        crate::jit::Kernel::compile(&many, Vectors::Longest).is_none(),
        "more streams than registers for their addresses"
    );
    let mut wide = Body::default();
    let x = wide.load(Lane::F32);
    let mut values = vec![x];
    for i in 0..300u16 {
        let c = wide.float(f32::from(i));
        values.push(wide.add(x, c));
    }
    // Every value is needed until the end.
    let mut sum = values[300];
    for value in values.into_iter().rev() {
        sum = wide.mul(sum, value);
    }
    wide.store(Lane::F32, sum);
    assert!(crate::jit::Kernel::compile(&wide, Vectors::Longest).is_none(), "more values than the stack has room for");
}
