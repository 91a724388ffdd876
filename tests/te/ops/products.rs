//! Products, `einsum` and convolutions: numpy's and JAX's values, loops in f64 for random ones.

#![allow(clippy::unwrap_used, reason = "tests")]

use epilogue::te::auto::Order;
use epilogue::te::ops::Convolution;
use epilogue::te::{self, DType, ExpressionError, TeError, Tensor, ops, var};
use epilogue::{Argument, Device, DeviceTensor, ElementType};
use expect_test::expect;
use proptest::prelude::*;

use super::products_refused::refused;
use super::{close, devices, download, normal, rounded, upload};
use crate::native::both::{agree, input, output};

/// Made by `products.py` beside it.
const VALUES: &str = include_str!("../../golden/operations/products.txt");

/// A tensor and its values.
#[derive(Clone, Debug)]
struct Given {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Given {
    /// The operand that `products.py` makes.
    fn of(place: usize, shape: Vec<usize>) -> Self {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|t| ((7 * t + 3 * place) % 11) as f64 - 5.0).collect();
        Self { shape, values }
    }

    fn placeholder(&self, name: &str) -> Tensor {
        te::placeholder(self.shape.clone(), name)
    }

    /// An element, and 0 outside.
    fn at(&self, index: &[i64]) -> f64 {
        let mut place = 0;
        for (i, extent) in index.iter().zip(&self.shape) {
            match usize::try_from(*i) {
                Ok(i) if i < *extent => place = place * extent + i,
                _ => return 0.0,
            }
        }
        self.values[place]
    }
}

fn shape_of(text: &str) -> Vec<usize> {
    if text == "scalar" { Vec::new() } else { text.split('x').map(|extent| extent.parse().unwrap()).collect() }
}

fn numbers<const N: usize>(text: &str) -> [usize; N] {
    let all: Vec<usize> = text.split(',').map(|number| number.parse().unwrap()).collect();
    all.try_into().unwrap()
}

fn convolution<const N: usize>(options: &str) -> Convolution<N> {
    let mut parts = options.split(' ');
    let mut next = || parts.next().unwrap();
    let stride = numbers(next());
    let padding: Vec<(usize, usize)> =
        next().split(',').map(|pair| numbers::<2>(&pair.replace('-', ",")).into()).collect();
    let made = Convolution::new().stride(stride).padding_around(padding.try_into().unwrap()).dilation(numbers(next()));
    let made = made.groups(next().parse().unwrap());
    if next() == "last" { made.channels_last() } else { made }
}

fn named(operation: &str, options: &str, x: &[&Tensor]) -> Result<Tensor, TeError> {
    match operation {
        "matmul" => ops::matmul(x[0], x[1]),
        "linear" => ops::linear(x[0], x[1], x.get(2).copied()),
        "einsum" => ops::einsum(options, x),
        "conv1d" => ops::conv1d(x[0], x[1], convolution(options)),
        "conv2d" => ops::conv2d(x[0], x[1], convolution(options)),
        _ => ops::conv3d(x[0], x[1], convolution(options)),
    }
}

/// The result of an automatic kernel.
fn automatic(
    device: &Device,
    order: Order,
    result: &Tensor,
    inputs: &[(&Tensor, &DeviceTensor)],
    shape: &[usize],
) -> Result<Vec<f64>, TeError> {
    let kernel = te::auto::build(&[result])?.order(order).build(device)?;
    let mut made = device.zeros_of(result.dtype().in_memory(), shape)?;
    let mut arguments: Vec<(&Tensor, Argument<'_>)> =
        inputs.iter().map(|(tensor, given)| (*tensor, Argument::from(*given))).collect();
    arguments.push((result, (&mut made).into()));
    kernel.run_bound(&arguments)?;
    drop(arguments);
    download(&made)
}

/// Results of f32 on the CPU in every order, in the interpreter and as native code; if asked, on the emulated GPU. All
/// must be the wanted ones.
fn check(what: &str, result: &Tensor, x: &[&Tensor], given: &[Given], shape: &[usize], wanted: &[f64], gpu: bool) {
    let [cpu, emulated] = &devices();
    for (device, orders) in [(cpu, 3), (emulated, usize::from(gpu))] {
        for order in [Order::Device, Order::Shape, Order::Exact].into_iter().take(orders) {
            let tensors: Vec<DeviceTensor> =
                given.iter().map(|x| upload(device, ElementType::F32, &x.values, &x.shape).unwrap()).collect();
            let inputs: Vec<(&Tensor, &DeviceTensor)> = x.iter().copied().zip(&tensors).collect();
            let got =
                automatic(device, order, result, &inputs, shape).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(got, wanted, "{what} in {order:?} on {device}");
        }
    }
    let mut arguments: Vec<&Tensor> = x.to_vec();
    arguments.push(result);
    let program = te::lower(&te::create_schedule(&[result]), &arguments, "main").unwrap();
    let mut both: Vec<_> = given.iter().map(|x| input(ElementType::F32, &x.shape, &x.values)).collect();
    both.push(output(ElementType::F32, shape));
    assert_eq!(agree(&program, &both)[x.len()], wanted, "{what}, scheduled");
}

#[test]
fn values_are_numpys() {
    let has_compiler = epilogue_runtime::testing::compiler("values_are_numpys").is_some();
    for (number, line) in VALUES.lines().enumerate() {
        let [operation, options, shapes, shape, values]: [&str; 5] =
            line.split("; ").collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line}"));
        let given: Vec<Given> =
            shapes.split(' ').enumerate().map(|(place, shape)| Given::of(place, shape_of(shape))).collect();
        let x: Vec<Tensor> = given.iter().enumerate().map(|(p, x)| x.placeholder(&format!("x{p}"))).collect();
        let x: Vec<&Tensor> = x.iter().collect();
        let wanted: Vec<f64> = values.split_whitespace().map(|x| x.parse().unwrap()).collect();
        let result = named(operation, options, &x).unwrap_or_else(|error| panic!("{line}: {error}"));
        let constant: Option<Vec<usize>> = result.shape().iter().map(|x| usize::try_from(x.as_int()?).ok()).collect();
        assert_eq!(constant.as_deref(), Some(shape_of(shape).as_slice()), "{line}");
        check(line, &result, &x, &given, &shape_of(shape), &wanted, has_compiler && number % 9 == 0);
    }
}

/// An equation, and the extents of its letters.
#[derive(Clone, Debug)]
struct Equation {
    operands: Vec<Vec<usize>>,
    output: Option<Vec<usize>>,
    extents: Vec<usize>,
}

const LETTERS: [char; 5] = ['b', 'i', 'j', 'K', 'z'];

impl Equation {
    fn text(&self) -> String {
        let term = |term: &Vec<usize>| term.iter().map(|letter| LETTERS[*letter]).collect::<String>();
        let operands = self.operands.iter().map(term).collect::<Vec<_>>().join(",");
        self.output.as_ref().map_or(operands.clone(), |output| format!("{operands}->{}", term(output)))
    }

    /// The letters of the result.
    fn result(&self) -> Vec<usize> {
        let count = |letter| self.operands.iter().flatten().filter(|other| **other == letter).count();
        self.output.clone().unwrap_or_else(|| {
            let mut once: Vec<usize> = (0..LETTERS.len()).filter(|letter| count(*letter) == 1).collect();
            once.sort_by_key(|letter| LETTERS[*letter]);
            once
        })
    }

    /// Adds every product to its element.
    fn evaluate(&self, given: &[Given]) -> Vec<f64> {
        let used: Vec<usize> =
            (0..LETTERS.len()).filter(|letter| self.operands.iter().flatten().any(|other| other == letter)).collect();
        let result = self.result();
        let mut sums = vec![0.0; result.iter().map(|letter| self.extents[*letter]).product()];
        let points: usize = used.iter().map(|letter| self.extents[*letter]).product();
        for mut point in 0..points {
            let mut index = [0; LETTERS.len()];
            for letter in &used {
                (index[*letter], point) = (point % self.extents[*letter], point / self.extents[*letter]);
            }
            let at = |term: &[usize]| term.iter().map(|letter| index[*letter] as i64).collect::<Vec<i64>>();
            let product: f64 = self.operands.iter().zip(given).map(|(term, x)| x.at(&at(term))).product();
            sums[result.iter().fold(0, |place, letter| place * self.extents[*letter] + index[*letter])] += product;
        }
        sums
    }
}

fn equations() -> impl Strategy<Value = Equation> {
    let operand = || prop::collection::vec(0..LETTERS.len(), 0..4);
    let extents = prop::collection::vec(prop_oneof![1 => Just(0usize), 12 => 1usize..5], LETTERS.len());
    (prop::collection::vec(operand(), 1..4), any::<bool>(), any::<prop::sample::Index>(), extents).prop_map(
        |(operands, is_explicit, choice, extents)| {
            let mut all: Vec<usize> =
                (0..LETTERS.len()).filter(|x| operands.iter().flatten().any(|y| x == y)).collect();
            let mut pick = choice.index(1 << 16);
            let mut output = Vec::new();
            while is_explicit && !all.is_empty() {
                let place = pick % all.len();
                let letter = all.swap_remove(place);
                if pick / 7 % 3 > 0 {
                    output.push(letter);
                }
                pick = pick * 31 % 65_521;
            }
            Equation { operands, output: is_explicit.then_some(output), extents }
        },
    )
}

/// A random convolution along two axes.
#[derive(Clone, Copy, Debug)]
struct Sliding {
    batch: usize,
    /// Channels of a group, features of a group, groups.
    channels: [usize; 3],
    image: [usize; 2],
    taps: [usize; 2],
    stride: [usize; 2],
    padding: [(usize, usize); 2],
    dilation: [usize; 2],
    last: bool,
}

impl Sliding {
    fn arranged<T: Copy>(self, first: T, channel: T, axes: [T; 2]) -> Vec<T> {
        if self.last { vec![first, axes[0], axes[1], channel] } else { vec![first, channel, axes[0], axes[1]] }
    }

    fn evaluate(self, given: &[Given]) -> Option<(Vec<usize>, Vec<f64>)> {
        let [c, f, groups] = self.channels;
        let out = |axis: usize| {
            let (before, after) = self.padding[axis];
            let left =
                (self.image[axis] + before + after).checked_sub(self.dilation[axis] * (self.taps[axis] - 1) + 1)?;
            Some(left / self.stride[axis] + 1)
        };
        let shape = self.arranged(self.batch, f * groups, [out(0)?, out(1)?]);
        let mut sums = Vec::new();
        for place in 0..shape.iter().product::<usize>() {
            let mut rest = place;
            let mut index = [0; 4];
            for d in (0..4).rev() {
                (index[d], rest) = (rest % shape[d], rest / shape[d]);
            }
            let [n, feature, y, x] = if self.last {
                [index[0], index[3], index[1], index[2]]
            } else {
                [index[0], index[1], index[2], index[3]]
            };
            let mut sum = 0.0;
            for tap in 0..c * self.taps[0] * self.taps[1] {
                let taps = [tap / self.taps[1] % self.taps[0], tap % self.taps[1]];
                let channel = tap / self.taps[1] / self.taps[0];
                let position = |axis: usize, i: usize| {
                    (i * self.stride[axis] + taps[axis] * self.dilation[axis]) as i64 - self.padding[axis].0 as i64
                };
                let from =
                    self.arranged(n as i64, (feature / f * c + channel) as i64, [position(0, y), position(1, x)]);
                let own = self.arranged(feature as i64, channel as i64, taps.map(|tap| tap as i64));
                sum += given[0].at(&from) * given[1].at(&own);
            }
            sums.push(sum);
        }
        Some((shape, sums))
    }
}

fn slidings() -> impl Strategy<Value = Sliding> {
    let pair = |least: usize, most: usize| [least..most, least..most];
    let padding = [(0usize..3, 0usize..3), (0usize..3, 0usize..3)];
    let outer = (1usize..3, [1usize..4, 1usize..4, 1usize..4], any::<bool>());
    (outer, pair(1, 7), pair(1, 4), pair(1, 4), padding, pair(1, 4)).prop_map(
        |((batch, channels, last), image, taps, stride, padding, dilation)| Sliding {
            batch,
            channels,
            image,
            taps,
            stride,
            padding,
            dilation,
            last,
        },
    )
}

proptest! {
    #[test]
    fn random_equations_are_sums_of_products(equation in equations()) {
        let shape = |term: &[usize]| term.iter().map(|letter| equation.extents[*letter]).collect::<Vec<_>>();
        let given: Vec<Given> =
            equation.operands.iter().enumerate().map(|(place, term)| Given::of(place, shape(term))).collect();
        let x: Vec<Tensor> = given.iter().enumerate().map(|(p, x)| x.placeholder(&format!("x{p}"))).collect();
        let x: Vec<&Tensor> = x.iter().collect();
        let text = equation.text();
        let result = ops::einsum(&text, &x).unwrap();
        check(&text, &result, &x, &given, &shape(&equation.result()), &equation.evaluate(&given), false);
    }

    #[test]
    fn random_convolutions_are_loops(sliding in slidings()) {
        let [c, f, groups] = sliding.channels;
        let given = [
            Given::of(0, sliding.arranged(sliding.batch, c * groups, sliding.image)),
            Given::of(1, sliding.arranged(f * groups, c, sliding.taps)),
        ];
        let (image, filter) = (given[0].placeholder("image"), given[1].placeholder("filter"));
        let options = Convolution::new().stride(sliding.stride).padding_around(sliding.padding);
        let options = options.dilation(sliding.dilation).groups(groups);
        let options = if sliding.last { options.channels_last() } else { options };
        match (ops::conv2d(&image, &filter, options), sliding.evaluate(&given)) {
            (Ok(result), Some((shape, wanted))) => {
                check(&format!("{sliding:?}"), &result, &[&image, &filter], &given, &shape, &wanted, false);
            }
            (Err(TeError::Expression(ExpressionError::Shape { .. })), None) => {}
            (made, wanted) => prop_assert!(false, "{made:?}, wanted {wanted:?}"),
        }
    }
}

/// Every extent is known only when it runs, on the CPU and on the emulated GPU.
#[test]
fn sizes_are_known_when_it_runs() -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler("sizes_are_known_when_it_runs").is_some();
    let [b, n, m, k] = ["b", "n", "m", "k"].map(var);
    let (x, y, v) = (te::placeholder([b, n, k], "x"), te::placeholder([b, k, m], "y"), te::placeholder([m, k], "v"));
    let (bias, t) = (te::placeholder([m], "bias"), te::placeholder([m, k, n], "t"));
    let channels = te::placeholder([b, n, k, m], "channels");
    let products = [
        (ops::matmul(&x, &y)?, vec![&x, &y], vec![2usize, 5, 4]),
        (ops::linear(&x, &v, Some(&bias))?, vec![&x, &v, &bias], vec![2, 5, 4]),
        (ops::einsum("bik,jki->jb", &[&x, &t])?, vec![&x, &t], vec![4, 2]),
        (
            ops::conv2d(&channels, &channels, Convolution::new().padding([1, 0]).channels_last())?,
            vec![&channels],
            vec![2, 3, 1, 2],
        ),
    ];
    let size = |tensor: &Tensor| match tensor.name().as_str() {
        "x" => vec![2, 5, 3],
        "y" => vec![2, 3, 4],
        "v" => vec![4, 3],
        "bias" => vec![4],
        "t" => vec![4, 3, 5],
        _ => vec![2, 5, 3, 4],
    };
    for (result, inputs, shape) in &products {
        let given: Vec<Given> = inputs.iter().enumerate().map(|(place, x)| Given::of(place, size(x))).collect();
        let fixed: Vec<Tensor> = given.iter().map(|x| x.placeholder("fixed")).collect();
        let fixed: Vec<&Tensor> = fixed.iter().collect();
        let constant = match result.name().as_str() {
            "matmul" => ops::matmul(fixed[0], fixed[1])?,
            "linear" => ops::linear(fixed[0], fixed[1], Some(fixed[2]))?,
            "einsum" => ops::einsum("bik,jki->jb", &fixed)?,
            _ => ops::conv2d(fixed[0], fixed[0], Convolution::new().padding([1, 0]).channels_last())?,
        };
        let device = Device::cpu();
        let tensors: Vec<DeviceTensor> =
            given.iter().map(|x| upload(&device, ElementType::F32, &x.values, &x.shape)).collect::<Result<_, _>>()?;
        let of_fixed: Vec<(&Tensor, &DeviceTensor)> = fixed.iter().copied().zip(&tensors).collect();
        let wanted = automatic(&device, Order::Exact, &constant, &of_fixed, shape)?;
        check(&result.name(), result, inputs, &given, shape, &wanted, has_compiler);
    }
    Ok(())
}

/// 16-bit floats are summed in f32 and rounded once; 8-bit integers are summed in i32.
#[test]
fn types_of_sums() -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler("types_of_sums").is_some();
    let (n, k) = (3, 70);
    for device in devices().into_iter().take(if has_compiler { 2 } else { 1 }) {
        for element in super::FLOATS {
            let (x, y) = (te::placeholder_of(element, [n, k], "x"), te::placeholder_of(element, [n, k], "y"));
            let bias = te::placeholder_of(element, [n], "bias");
            let result = ops::linear(&x, &y, Some(&bias))?;
            assert_eq!(result.dtype(), DType::from(element));
            let values = [(n * k, 1), (n * k, 2), (n, 3)].map(|(len, seed)| rounded(element, &normal(len, seed)));
            let shapes = [vec![n, k], vec![n, k], vec![n]];
            let tensors: Vec<DeviceTensor> = values
                .iter()
                .zip(&shapes)
                .map(|(values, shape)| upload(&device, element, values, shape))
                .collect::<Result<_, _>>()?;
            let inputs = [(&x, &tensors[0]), (&y, &tensors[1]), (&bias, &tensors[2])];
            let got = automatic(&device, Order::Device, &result, &inputs, &[n, n])?;
            let dot = |i: usize, j: usize| (0..k).map(|q| values[0][i * k + q] * values[1][j * k + q]).sum::<f64>();
            let wanted: Vec<f64> = (0..n * n).map(|at| dot(at / n, at % n) + values[2][at % n]).collect();
            close(element, &got, &wanted, 80.0, 70.0, &format!("{element} on {device}"));
        }
        // −128 · 255 · 70 needs 22 bits.
        let (x, y) =
            (te::placeholder_of(ElementType::I8, [1, k], "x"), te::placeholder_of(ElementType::U8, [k, 1], "y"));
        let result = ops::matmul(&x, &y)?;
        assert_eq!(result.dtype(), DType::I32);
        let (left, right) = (device.tensor(&[-128i8; 70], [1, k])?, device.tensor(&[255u8; 70], [k, 1])?);
        let got = automatic(&device, Order::Device, &result, &[(&x, &left), (&y, &right)], &[1, 1])?;
        assert_eq!(got, [-128.0 * 255.0 * 70.0]);
    }
    let (half, single) = (te::placeholder_of(ElementType::F16, [2, 2], "half"), te::placeholder([2, 2], "single"));
    assert_eq!(ops::matmul(&half, &single)?.dtype(), DType::F32);
    let double = te::placeholder_of(ElementType::F64, [2, 2], "double");
    refused(
        ops::matmul(&single, &double),
        &expect!["operands of types f32 and f64 don't mix; convert one with `.cast(…)`"],
    );
    Ok(())
}
