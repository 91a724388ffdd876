//! Results of functions for infinities, zeros, NaN, the largest and the least numbers: on every device the same, as the
//! guide says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use epilogue::evt::reference::{self, Argument as Of, Array, Extent, Options, Product, round};
use epilogue::evt::{BroadcastClass, ParameterClass, TreeBuilder, Types, ValidTree};
use epilogue::expr::Function;
use epilogue::gemm::Builder;
use epilogue::te::{self, Expr};
use epilogue::{Arch, Argument, Device, ElementType, ops};
use epilogue_runtime::testing;
use expect_test::expect_file;

use crate::expressions::run;

macro_rules! functions {
    ($($name:ident),*) => {
        vec![$((stringify!($name), ops::$name::function(), ops::$name as fn(f32) -> f32)),*]
    };
}

type Named = (&'static str, &'static Function, fn(f32) -> f32);

fn functions() -> Vec<Named> {
    functions![
        abs,
        abs_grad,
        ceil,
        cos,
        cos_grad,
        erf,
        erf_grad,
        exp,
        exp2,
        exp_grad,
        floor,
        gelu,
        gelu_grad,
        gelu_tanh,
        gelu_tanh_grad,
        hardswish,
        hardswish_grad,
        log,
        log1p,
        log2,
        neg,
        recip,
        relu,
        relu_grad,
        round,
        rsqrt,
        sigmoid,
        sigmoid_grad,
        silu,
        silu_grad,
        sin,
        sin_grad,
        softplus,
        softplus_grad,
        sqrt,
        square,
        tan,
        tanh,
        tanh_grad
    ]
}

/// With the guide's name for each.
const NUMBERS: [(&str, f32); 10] = [
    ("−∞", f32::NEG_INFINITY),
    ("−largest", f32::MIN),
    ("−1", -1.0),
    ("−least", -f32::from_bits(1)),
    ("−0", -0.0),
    ("0", 0.0),
    ("least", f32::from_bits(1)),
    ("largest", f32::MAX),
    ("∞", f32::INFINITY),
    ("NaN", f32::NAN),
];

/// As the guide writes it: a name, or a number with three digits.
fn words(x: f64) -> String {
    let named = NUMBERS.iter().find(|(name, number)| {
        *name != "−1" && (f64::from(*number).to_bits() == x.to_bits() || number.is_nan() && x.is_nan())
    });
    let digits = || match format!("{x:.2e}").split_once('e') {
        Some((digits, exponent)) if exponent.len() > 1 && !["-1", "-2"].contains(&exponent) => {
            format!("{digits} · 10^{exponent}")
        }
        _ => format!("{}", (x * 1000.0).round() / 1000.0),
    };
    let text = match named {
        Some((name, _)) => (*name).to_owned(),
        None => digits(),
    };
    text.replace('-', "−")
}

/// `d_i = f_i(c)`: nothing is made of the accumulator but an output of its own.
fn tree(functions: &[Named], element: ElementType) -> ValidTree {
    builder(functions, element).finish().validate(Types::new(ElementType::F32, ElementType::F32)).unwrap()
}

fn builder(functions: &[Named], element: ElementType) -> TreeBuilder {
    let mut b = TreeBuilder::new("special", "special.rs");
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    b.output("accum_out", accum, BroadcastClass::Tensor, None);
    for (name, function, _) in functions {
        let d = b.call(function, &[c]);
        b.output(name, d, BroadcastClass::Tensor, Some(element));
    }
    b
}

fn numbers() -> Vec<f64> {
    NUMBERS.iter().map(|(_, x)| f64::from(*x)).collect()
}

/// The results of the CPU's products, and of its automatic tensor expressions.
fn on_the_cpu(functions: &[Named], element: ElementType) -> [Vec<Vec<f64>>; 2] {
    let (device, count) = (Device::cpu(), NUMBERS.len());
    let given: Vec<f32> = NUMBERS.iter().map(|(_, x)| *x).collect();
    let c = device.tensor(&given, [1, count]).unwrap();
    let (a, b) = (device.zeros::<f32>([1, 1]).unwrap(), device.zeros::<f32>([1, count]).unwrap());
    let plan =
        Builder::<()>::new(&device, builder(functions, element).finish()).elements(ElementType::F32, ElementType::F32);
    let gemm = plan.problem(1, count, 1).plan().unwrap();
    let mut accum = device.zeros::<f32>([1, count]).unwrap();
    let mut results: Vec<_> = functions.iter().map(|_| device.zeros_of(element, [1, count]).unwrap()).collect();
    let mut arguments = vec![("c", (&c).into()), ("accum_out", (&mut accum).into())];
    arguments.extend(functions.iter().zip(&mut results).map(|((name, ..), d)| (*name, Argument::Output(d))));
    gemm.run_bound(&device.default_stream(), &a, &b, arguments).unwrap();
    let decoded = |tensor: &epilogue::DeviceTensor| reference::decode(element, &tensor.to_bytes().unwrap());
    let of_products = results.iter().map(decoded).collect();
    let of_expressions = functions.iter().map(|(_, function, _)| {
        let x = te::placeholder([count], "x");
        let y = te::compute([count], "y", |[i]| Expr::call(function, vec![x.at([i])]).cast(element)).unwrap();
        let kernel = te::auto::build(&[&y]).unwrap().build(&device).unwrap();
        let given = device.tensor(&given, [count]).unwrap();
        let mut result = device.zeros_of(element, [count]).unwrap();
        kernel.run_bound(&[(&x, (&given).into()), (&y, (&mut result).into())]).unwrap();
        decoded(&result)
    });
    [of_products, of_expressions.collect()]
}

/// Checks results against the host's functions, rounded to their type, and against the reference.
fn check(functions: &[Named], element: ElementType, on: &str, results: &[Vec<f64>]) {
    let (tree, numbers) = (tree(functions, element), numbers());
    let extent = Extent { m: 1, n: numbers.len(), l: 1 };
    let c = Of::Array(Array::packed(&numbers, BroadcastClass::Tensor, extent, false));
    let product = Product::exact(extent, vec![0.0; numbers.len()]);
    let expected = reference::evaluate(&tree, &[product], &[c], Options::default()).unwrap();
    for (((name, _, host), results), expected) in functions.iter().zip(results).zip(&expected[1..]) {
        for ((x, result), bounds) in numbers.iter().zip(results).zip(&expected.bounds) {
            let text = || format!("{name}({}) as {element} on {on}", words(*x));
            assert!(bounds.admit(*result), "{}: {result:e}, which the reference doesn't allow: {bounds:?}", text());
            #[expect(clippy::cast_possible_truncation, reason = "it is an f32")]
            let right = round(element, host(*x as f32).into());
            // Where the result is neither a name nor exact, it is near.
            let near = (result - right).abs() <= right.abs() / 64.0 && right != 0.0 && right.is_finite();
            assert!(near || words(*result) == words(right), "{}: {}, not {}", text(), words(*result), words(right));
        }
    }
}

#[test]
fn special_numbers_give_the_same_everywhere() {
    let functions = functions();
    for element in [ElementType::F32, ElementType::F16, ElementType::BF16] {
        for functions in functions.chunks(8) {
            let [of_products, of_expressions] = on_the_cpu(functions, element);
            check(functions, element, "the CPU", &of_products);
            check(functions, element, "the CPU by an expression", &of_expressions);
        }
        if testing::compiler("special_numbers_give_the_same_everywhere").is_none() {
            continue;
        }
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let device = Device::emulated(arch).unwrap();
            let leaves = [vec![0.0; NUMBERS.len()], numbers()];
            let results = run(&device, &tree(&functions, element), &leaves, NUMBERS.len(), false);
            check(&functions, element, &arch.to_string(), &results[1..]);
        }
    }
}

/// The reference allows no other number than x, where a product with x would overflow.
#[test]
fn the_reference_knows_that_hardswish_does_not_overflow() {
    let hardswish: Named = ("hardswish", ops::hardswish::function(), ops::hardswish);
    let (tree, extent) = (tree(&[hardswish], ElementType::F32), Extent { m: 1, n: 1, l: 1 });
    for x in [5.8e37f32, f32::MAX] {
        let c = [f64::from(x)];
        let c = Of::Array(Array::packed(&c, BroadcastClass::Tensor, extent, false));
        let product = Product::exact(extent, vec![0.0]);
        let bounds = reference::evaluate(&tree, &[product], &[c], Options::default()).unwrap()[1].bounds[0];
        assert!(bounds.admit(x.into()) && !bounds.admit(f64::INFINITY), "{bounds:?}");
    }
}

#[test]
fn the_guide_says_what_special_numbers_give() {
    let mut text = String::from("| `x` |");
    NUMBERS.iter().for_each(|(name, _)| text.push_str(&format!(" {name} |")));
    text.push_str(&format!("\n{}\n", "|---".repeat(NUMBERS.len() + 1) + "|"));
    for (name, _, host) in functions() {
        text.push_str(&format!("| `{name}(x)` |"));
        NUMBERS.iter().for_each(|(_, x)| text.push_str(&format!(" {} |", words(host(*x).into()))));
        text.push('\n');
    }
    expect_file!["../../src/guide/special_numbers.md"].assert_eq(&text);
}
