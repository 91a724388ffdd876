//! Products of 8-bit integers whose sums exceed what an f32 holds exactly: as `i32` or `i64` they are stored exactly,
//! on every device and with every split of K.

use epilogue::evt::random::Choices;
use epilogue::evt::reference::{Array, Extent, Multiplication, Options, Product, decode, encode, evaluate};
use epilogue::evt::{BroadcastClass, Tree, TreeBuilder, Types};
use epilogue::gemm::{Builder, SplitK, sm90};
use epilogue::{Argument, Device, ElementType};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::placement::{Placed, Placement};

const OUTPUTS: [(&str, ElementType); 4] =
    [("narrow", ElementType::I32), ("wide", ElementType::I64), ("rounded", ElementType::F32), ("cut", ElementType::I8)];

/// The accumulator, stored in several types.
fn tree() -> Tree {
    let mut b = TreeBuilder::new("integers", file!());
    let accum = b.accum("accum");
    for (name, element) in OUTPUTS {
        b.output(name, accum, BroadcastClass::Tensor, Some(element));
    }
    b.finish()
}

/// Large integers of one sign, so that their sums of products grow with K.
fn operand(choices: &mut Choices<'_>, element: ElementType, count: usize, negative: bool) -> Vec<i64> {
    let seed = choices.below(1 << 20) as u64;
    let (least, count_of) = if element == ElementType::U8 { (180, 76) } else { (90, 38) };
    let sign = if negative && element == ElementType::I8 { -1 } else { 1 };
    let next = |i: usize| (seed + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..count).map(|i| sign * (least + (next(i) % count_of) as i64)).collect()
}

/// One product, compared with sums of integers.
fn product(builder: Builder, [a, b]: [ElementType; 2], device: &Device, choices: &mut Choices<'_>) {
    let gemm = builder.elements(a, b).plan().expect("a plan");
    let [m, n] = [1 + choices.below(70), 1 + choices.below(70)];
    let k = 2300 + choices.below(900);
    let negative = choices.once_in(2);
    let (a_values, b_values) = (operand(choices, a, m * k, negative), operand(choices, b, k * n, false));
    let mut place = |element, shape: [usize; 2], values: &[i64]| {
        let values: Vec<f64> = values.iter().map(|x| *x as f64).collect();
        Placed::new(device, element, &shape, &values, Placement::any(choices)).expect("memory")
    };
    let (a_placed, b_placed) = (place(a, [m, k], &a_values), place(b, [k, n], &b_values));
    let mut outputs = OUTPUTS.map(|(_, element)| place(element, [m, n], &vec![77; m * n]));
    let arguments: Vec<Argument<'_>> = outputs.iter_mut().map(|placed| Argument::Output(&mut placed.view)).collect();
    gemm.run_arguments(&device.default_stream(), &a_placed.view, &b_placed.view, &arguments).expect("a run");
    drop(arguments);

    let entry = |i: usize, j: usize| (0..k).map(|x| a_values[i * k + x] * b_values[x * n + j]).sum::<i64>() as f64;
    let sums: Vec<f64> = (0..m * n).map(|at| entry(at / n, at % n)).collect();
    assert!(sums.iter().all(|sum| sum.abs() > f64::from(1 << 24)), "the test is of sums beyond f32's integers");
    for ((name, element), placed) in OUTPUTS.iter().zip(&mut outputs) {
        let rounded: Vec<f64> = sums.iter().map(|sum| f64::from(*sum as f32)).collect();
        let kept = matches!(element, ElementType::I32 | ElementType::I64);
        // Rounded to the element's type, by way of f32 if there is arithmetic.
        let expected = decode(*element, &encode(*element, if kept { &sums } else { &rounded }));
        let what = format!("{name} of {m}x{n}x{k} {a} by {b}: {}", gemm.choice());
        assert_eq!(placed.values().expect("values"), expected, "{what}");
        assert!(placed.is_guarded().expect("memory"), "{what}: something was written around it");
    }
}

const PAIRS: [[ElementType; 2]; 4] = [
    [ElementType::I8, ElementType::I8],
    [ElementType::U8, ElementType::U8],
    [ElementType::U8, ElementType::I8],
    [ElementType::I8, ElementType::U8],
];

fn builder(device: &Device) -> Builder {
    Builder::new(device, tree()).problem(64, 64, 2560)
}

#[test]
fn on_the_cpu() {
    let device = Device::cpu();
    for seed in 0..24 {
        product(builder(&device), PAIRS[seed as usize % 4], &device, &mut Choices::new(&[seed, 3, seed * 7, 5, seed]));
    }
}

#[test]
fn emulated() {
    if testing::compiler("integers::emulated").is_none() {
        return;
    }
    let sm80 = Device::emulated(Arch::SM_80).expect("an emulated device");
    let splits = [SplitK::None, SplitK::Serial(3), SplitK::Parallel(3)];
    for seed in 0..6 {
        let builder = builder(&sm80).split_k(splits[seed as usize % 3]);
        product(builder, PAIRS[seed as usize % 4], &sm80, &mut Choices::new(&[seed * 11, seed, 7, seed + 1, 2, seed]));
    }
    let sm90a = Device::emulated(Arch::SM_90A).expect("an emulated device");
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for seed in 0..8 {
        let request = sm90::Request {
            swap_ab: Some(seed % 2 == 1),
            split_k: Some(splits[seed as usize / 2]),
            ..sm90::Request::default()
        };
        let builder = builder(&sm90a).sm90(request).multiprocessors(3);
        product(builder, PAIRS[seed as usize % 4], &sm90a, &mut Choices::new(&[seed * 5, 9 * seed, 1, seed, 4, seed]));
    }
}

/// The reference agrees: exactly one value for every element.
#[test]
fn in_the_reference() {
    let tree = tree().validate(Types::new(ElementType::U8, ElementType::U8)).expect("a valid tree");
    let values = vec![255.0; 4001];
    let (a, b) = (
        Array { values: &values, offset: 0, strides: [0, 0, 1] },
        Array { values: &values, offset: 0, strides: [0, 1, 0] },
    );
    let extent = Extent { m: 1, n: 1, l: 1 };
    let product = Product::new(tree.types(), Multiplication::Exact, extent, 4001, &a, &b).expect("a product");
    let outputs = evaluate(&tree, std::slice::from_ref(&product), &[], Options::default()).expect("outputs");
    let sum = 4001.0 * 65025.0;
    for (output, expected) in outputs.iter().zip([sum, sum, f64::from(sum as f32), 127.0]) {
        assert_eq!(output.values, [expected], "{}", output.name);
        assert!(output.bounds[0].admit(expected) && !output.bounds[0].admit(expected + 1.0), "{}", output.name);
    }
}
