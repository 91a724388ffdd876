//! Elementwise expressions of every type: the same bits as from the interpreter.

use epilogue::expr::Op;
use epilogue::te::{self, DType, Expr, TeError, Tensor};
use epilogue::{ElementType, ops};
use epilogue_runtime::testing::cases;
use fastrand::Rng;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};

const ELEMENTS: [ElementType; 12] = [
    ElementType::F64,
    ElementType::F32,
    ElementType::F16,
    ElementType::BF16,
    ElementType::I64,
    ElementType::I32,
    ElementType::I16,
    ElementType::I8,
    ElementType::U64,
    ElementType::U32,
    ElementType::U16,
    ElementType::U8,
];

/// Makes random expressions of one element of each input.
struct Generator<'a> {
    rng: Rng,
    inputs: &'a [Tensor],
    i: te::Axis,
}

impl Generator<'_> {
    fn value(&mut self, dtype: DType, depth: usize) -> Expr {
        if depth == 0 || self.rng.u8(..8) == 0 {
            return self.leaf(dtype);
        }
        match self.rng.u8(..10) {
            0 => {
                let (condition, a, b) =
                    (self.truth(depth - 1), self.value(dtype, depth - 1), self.value(dtype, depth - 1));
                condition.select(a, b)
            }
            1 | 2 => {
                let from = *self.rng.choice(ELEMENTS.iter()).expect("not empty");
                self.value(from.into(), depth - 1).cast(dtype)
            }
            _ if dtype.is_float() => self.float(dtype, depth - 1),
            _ => self.integer(dtype, depth - 1),
        }
    }

    fn float(&mut self, dtype: DType, depth: usize) -> Expr {
        let a = self.value(dtype, depth);
        match self.rng.u8(..15) {
            13 => a.trunc(),
            14 => a.is_finite().select(a.sign(), a),
            0 | 1 => a + self.value(dtype, depth),
            2 => a - self.value(dtype, depth),
            3 | 4 => a * self.value(dtype, depth),
            5 => a / self.value(dtype, depth),
            6 => a.min(self.value(dtype, depth)),
            7 => a.max(self.value(dtype, depth)),
            8 => -a,
            9 => Expr::apply(Op::Fma, vec![a, self.value(dtype, depth), self.value(dtype, depth)]),
            10 => Expr::apply(Op::Sqrt, vec![a]),
            11 => Expr::call(ops::relu::function(), vec![a]),
            _ => {
                let op = *self.rng.choice([Op::Abs, Op::Floor, Op::Ceil, Op::Round, Op::Recip].iter()).expect("some");
                Expr::apply(op, vec![a])
            }
        }
    }

    fn integer(&mut self, dtype: DType, depth: usize) -> Expr {
        let a = self.value(dtype, depth);
        let divisor = *self.rng.choice([1, 2, 3, 7, 8, 64, -1, -2, -5].iter()).expect("some");
        let divisor = if dtype.is_unsigned() { i64::abs(divisor) } else { divisor };
        match self.rng.u8(..15) {
            0 => a + self.value(dtype, depth),
            1 => a - self.value(dtype, depth),
            2 => a * self.value(dtype, depth),
            3 => a.min(self.value(dtype, depth)),
            4 => a.max(self.value(dtype, depth)),
            5 => a.floor_div(divisor),
            6 => a.trunc_div(divisor),
            7 => a.trunc_mod(divisor),
            8 => a & self.value(dtype, depth),
            9 => a | self.value(dtype, depth),
            10 => a ^ self.value(dtype, depth),
            11 => a << self.value(dtype, depth),
            12 => a >> self.value(dtype, depth),
            13 => !a.sign(),
            _ => a.floor_mod(divisor),
        }
    }

    fn truth(&mut self, depth: usize) -> Expr {
        let dtype = DType::from(*self.rng.choice(ELEMENTS.iter()).expect("not empty"));
        let a = self.value(dtype, depth);
        // Compilers turn comparisons with zero into other operations.
        let b = if self.rng.bool() { Expr::constant(0.0, dtype) } else { self.value(dtype, depth) };
        match self.rng.u8(..8) {
            0 => a.less(b),
            1 => a.less_equal(b),
            2 => a.greater(b),
            3 => a.greater_equal(b),
            4 => a.equal(b),
            5 => a.not_equal(b),
            6 if depth > 0 => self.truth(depth - 1).and(!a.less(b)),
            _ => a.less(b).or(Expr::from(self.i).greater(3)),
        }
    }

    fn leaf(&mut self, dtype: DType) -> Expr {
        match self.rng.u8(..4) {
            0 => {
                let x = self.rng.i32(-9..10);
                let x = if dtype.is_unsigned() { x.abs() } else { x };
                Expr::constant(if dtype.is_float() { f64::from(x) / 4.0 } else { f64::from(x) }, dtype)
            }
            1 => Expr::from(self.i).cast(dtype),
            _ => self.rng.choice(self.inputs.iter()).expect("inputs").at([self.i]).cast(dtype),
        }
    }
}

/// Numbers of a type that show rounding, wrapping and special values.
fn special(element: ElementType, len: usize, rng: &mut Rng) -> Vec<f64> {
    let number = |rng: &mut Rng| match element {
        ElementType::I64 => *rng.choice([0.0, -1.0, 9e15, -9e15, 3.0, 12_345_678_901.0].iter()).expect("some"),
        ElementType::I32 => f64::from(*rng.choice([i32::MIN, i32::MAX, 0, -1, 77, -1_000_000].iter()).expect("some")),
        ElementType::I16 => f64::from(rng.i16(..)),
        // What an f64 holds.
        ElementType::U64 => (rng.u64(..) >> rng.u32(..60) >> 11 << 11) as f64,
        ElementType::U32 => f64::from(rng.u32(..) >> rng.u32(..32)),
        ElementType::U16 => f64::from(rng.u16(..)),
        ElementType::I8 => f64::from(rng.i8(..)),
        ElementType::U8 => f64::from(rng.u8(..)),
        _ => match rng.u8(..16) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => f64::NAN,
            3 | 4 => -0.0,
            5 => 0.0,
            6 => 6e4,
            7 => 1e-7,
            8 => -1e-40,
            9 => 2.5,
            _ => (rng.f64() - 0.5) * 200.0,
        },
    };
    let rounded = |x: f64| match element {
        ElementType::F32 => f64::from(x as f32),
        ElementType::F16 => half::f16::from_f64(x).to_f64(),
        ElementType::BF16 => half::bf16::from_f64(x).to_f64(),
        _ => x,
    };
    (0..len).map(|_| rounded(number(rng))).collect()
}

fn check(seed: u64, n: usize) -> Result<(), TeError> {
    let mut rng = Rng::with_seed(seed);
    let elements: Vec<ElementType> = (0..3).map(|_| ELEMENTS[rng.usize(..ELEMENTS.len())]).collect();
    let made: Vec<ElementType> = (0..4).map(|_| ELEMENTS[rng.usize(..ELEMENTS.len())]).collect();
    let size = te::var("n");
    let named = elements.iter().zip(["A", "B", "C"]);
    let inputs: Vec<Tensor> = named.map(|(element, name)| te::placeholder_of(*element, [size], name)).collect();
    let results = te::compute_all([size], "D", |[i]| {
        let mut generator = Generator { rng: rng.fork(), inputs: &inputs, i };
        made.iter().map(|element| generator.value((*element).into(), 4)).collect()
    })?;
    let mut s = te::create_schedule(&[&results[0]]);
    let stage = s.stage(&results[0])?;
    let (block, thread) = stage.split(results[0].axis(0)?, 32)?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    // An input that no expression reads is not part of the schedule.
    let used: Vec<usize> = (0..inputs.len()).filter(|place| s.operation(&inputs[*place]).is_ok()).collect();
    let arguments: Vec<&Tensor> = used.iter().map(|place| &inputs[*place]).chain(&results).collect();
    let program = te::lower(&s, &arguments, "main")?;
    let numbers: Vec<Numbers> =
        used.iter().map(|place| Numbers::new(elements[*place], &[n], special(elements[*place], n, &mut rng))).collect();
    let outputs: Vec<(ElementType, Vec<usize>)> = made.into_iter().map(|element| (element, vec![n])).collect();
    run(&program, &numbers, &outputs).assert_equal();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(16)) })]

    #[test]
    fn of_every_type(seed: u64, n in 1usize..70) {
        if lacks_nvrtc("expressions::of_every_type") {
            return Ok(());
        }
        check(seed, n).unwrap();
    }
}

/// Functions of the device's library: within the errors that `epilogue::ops` documents for each.
#[test]
fn functions() -> Result<(), TeError> {
    if lacks_nvrtc("expressions::functions") {
        return Ok(());
    }
    let functions = [
        (Op::Exp, 2.0),
        (Op::Log, 1.0),
        (Op::Log1p, 2.0),
        (Op::Tanh, 2.0),
        (Op::Sin, 2.0),
        (Op::Cos, 2.0),
        (Op::Erf, 2.0),
    ];
    for element in [ElementType::F32, ElementType::F64] {
        let n = te::var("n");
        let a = te::placeholder_of(element, [n], "A");
        let b = te::compute_all([n], "B", |[i]| {
            functions.iter().map(|(op, _)| Expr::apply(*op, vec![a.at([i])])).collect()
        })?;
        let s = te::create_schedule(&[&b[0]]);
        let arguments: Vec<&Tensor> = std::iter::once(&a).chain(&b).collect();
        let program = te::lower(&s, &arguments, "main")?;
        let numbers = Numbers::new(element, &[40], (0..40).map(|i| 0.05 + f64::from(i) / 8.0).collect());
        let outputs = vec![(element, vec![40]); functions.len()];
        let results = run(&program, &[numbers], &outputs);
        for (place, (op, ulps)) in functions.iter().enumerate() {
            for (x, y) in results.interpreted[place].iter().zip(&results.emulated[place]) {
                let ulp = if element == ElementType::F32 { 2f64.powi(-23) } else { 2f64.powi(-52) };
                assert!((x - y).abs() <= (ulps + 0.5) * ulp * x.abs(), "{op:?}: {x} and {y}");
            }
        }
    }
    Ok(())
}
