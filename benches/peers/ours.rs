//! This library's contestants.

use epilogue::expr::Op;
use epilogue::gemm::{Window, filter, patches};
use epilogue::prelude::*;
use epilogue::te::{self, Tensor};
use epilogue::{Argument, Device, DeviceTensor, Element};
use half::{bf16, f16};

use crate::contestant::{Contestant, sample, values};
use crate::minilm;
use crate::work::{After, Pairs, Type, Weights, Work};

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Computes into a tensor.
type Run = Box<dyn FnMut(&mut DeviceTensor) -> Outcome<()>>;

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

#[epilogue]
fn bias_gelu_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
    let d = gelu_tanh(accum + bias) + residual;
    d
}

#[epilogue]
fn layer(accum: Accum, bias: RowVector) -> Tensor {
    let d = relu(accum + bias);
    d
}

#[epilogue]
fn row_sums(accum: Accum) -> (Tensor, ColumnVector) {
    let d = accum;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

/// A number of some type as f32, and back.
trait Number: Element {
    fn of(x: f32) -> Self;
    fn number(self) -> f32;
}

macro_rules! number {
    ($($t:ty: $of:expr, $number:expr;)*) => { $(
        impl Number for $t {
            fn of(x: f32) -> Self { $of(x) }
            fn number(self) -> f32 { $number(self) }
        }
    )* };
}
number! {
    f32: |x| x, |x| x;
    f16: f16::from_f32, f16::to_f32;
    bf16: bf16::from_f32, bf16::to_f32;
    i32: |x| x as i32, |x| x as f32;
}

fn tensor<T: Number>(device: &Device, values: &[f32], shape: [usize; 2]) -> Outcome<DeviceTensor> {
    Ok(device.tensor(&values.iter().map(|x| T::of(*x)).collect::<Vec<T>>(), shape)?)
}

pub(crate) fn contestant(device: &Device, work: Work) -> Outcome<Contestant<'static>> {
    match work {
        Work::Product { element: Type::F32, .. } => product::<f32>(device, work),
        Work::Product { element: Type::F16, .. } => product::<f16>(device, work),
        Work::Product { element: Type::Bf16, .. } => product::<bf16>(device, work),
        Work::Convolution { images, extent, channels, layer } => convolution(device, images, extent, channels, layer),
        Work::MiniLm { sentences, tokens } => minilm::contestant(device, sentences, tokens),
        Work::Pairs { of, shape } => pairs(device, of, shape),
        Work::Pool { images, channels, extent, mean } => pool(device, [images, channels, extent], mean),
        Work::Gather { shape, count } => gather(device, shape, count),
        Work::GroupNorm { images, channels, extent } => group_norm(device, [images, channels, extent]),
        Work::CrossEntropy { shape } => cross_entropy(device, shape),
        _ => expression(device, work),
    }
}

/// The work as one program of tensor expressions that `fuse` cuts into products, where there is one.
pub(crate) fn fused(device: &Device, work: Work) -> Outcome<Option<Contestant<'static>>> {
    match work {
        Work::MiniLm { sentences, tokens } => minilm::fused(device, sentences, tokens).map(Some),
        _ => Ok(None),
    }
}

/// Images `[images, channels, extent, extent]`.
fn images(device: &Device, [images, channels, extent]: [usize; 3]) -> Outcome<(Tensor, DeviceTensor)> {
    let (pixels, shape) = (channels * extent * extent, [images, channels, extent, extent]);
    let given = tensor::<f32>(device, &values(images * pixels, 0.02), [images, pixels])?.reshape(shape)?;
    Ok((te::placeholder(shape.map(|extent| te::Expr::int(extent as i64)), "x"), given))
}

fn pool(device: &Device, shape: [usize; 3], mean: bool) -> Outcome<Contestant<'static>> {
    let ((x, given), window) = (images(device, shape)?, te::ops::Pooling::new([2, 2]));
    let output = if mean { te::ops::average_pool(&x, window)? } else { te::ops::max_pool(&x, window)? };
    let [images, channels, extent] = shape;
    run::<f32>(device, &output, vec![(x, given)], vec![images, channels, extent / 2, extent / 2])
}

fn group_norm(device: &Device, shape: [usize; 3]) -> Outcome<Contestant<'static>> {
    let (x, given) = images(device, shape)?;
    let output = te::ops::group_norm(&x, 8, None, None, 1e-5)?;
    let [images, channels, extent] = shape;
    run::<f32>(device, &output, vec![(x, given)], vec![images, channels, extent, extent])
}

/// Classes, and rows of a table, in no order: see `inputs.py`.
fn places(device: &Device, count: usize, below: usize) -> Outcome<DeviceTensor> {
    let places: Vec<i32> = (0..count).map(|i| (i * 7919 % below) as i32).collect();
    Ok(device.tensor(&places, [count])?)
}

fn gather(device: &Device, [n, m]: [usize; 2], count: usize) -> Outcome<Contestant<'static>> {
    let [rows, columns, picked] = [n, m, count].map(|extent| te::Expr::int(extent as i64));
    let x = te::placeholder([rows, columns], "x");
    let index = te::placeholder_of(ElementType::I32, [picked], "index");
    let inputs = vec![
        (x.clone(), tensor::<f32>(device, &values(n * m, 0.02), [n, m])?),
        (index.clone(), places(device, count, n)?),
    ];
    run::<f32>(device, &te::ops::gather(&x, &index, 0)?, inputs, vec![count, m])
}

fn cross_entropy(device: &Device, [n, m]: [usize; 2]) -> Outcome<Contestant<'static>> {
    let x = te::placeholder([te::var("n"), te::var("m")], "x");
    let classes = te::placeholder_of(ElementType::I32, [x.shape()[0].clone()], "classes");
    let output = te::ops::cross_entropy(&x, &classes)?;
    let inputs = vec![(x, tensor::<f32>(device, &values(n * m, 0.02), [n, m])?), (classes, places(device, n, m)?)];
    run::<f32>(device, &output, inputs, vec![n])
}

fn convolution(
    device: &Device,
    images: usize,
    extent: usize,
    channels: usize,
    layer: bool,
) -> Outcome<Contestant<'static>> {
    let pixels = images * extent * extent;
    let shape = [images, extent, extent, channels];
    let x = tensor::<f32>(device, &values(pixels * channels, 0.01), [pixels, channels])?.reshape(shape)?;
    let w = tensor::<f32>(device, &values(9 * channels * channels, 0.01), [channels, 9 * channels])?;
    let w = filter(&w.reshape([channels, 3, 3, channels])?)?;
    let bias = tensor::<f32>(device, &values(channels, 0.02), [1, channels])?.reshape([channels])?;
    let window = Window::of([3, 3]).padding([1, 1]);
    let mut y = device.zeros::<f32>(shape)?;
    let mut run: Run = if layer {
        let gemm = Gemm::plan::<Layer>(device, patches(&x, window), &w)?;
        Box::new(move |d| Ok(gemm.run(patches(&x, window), &w, Layer { bias: &bias, d })?))
    } else {
        let gemm = Gemm::plan::<Plain>(device, patches(&x, window), &w)?;
        Box::new(move |d| Ok(gemm.run(patches(&x, window), &w, Plain { d })?))
    };
    run(&mut y)?;
    let sample = sample(&y.to_vec::<f32>()?, Number::number);
    Ok(Contestant::here("epilogue", sample, move || run(&mut y).expect("it ran before")))
}

fn product<T: Number>(device: &Device, work: Work) -> Outcome<Contestant<'static>> {
    let Work::Product { shape: [m, n, k], weights, after, .. } = work else { unreachable!("it is a product") };
    let a = tensor::<T>(device, &values(m * k, 0.01), [m, k])?;
    let b = match weights {
        Weights::Kn => tensor::<T>(device, &values(k * n, 0.01), [k, n])?,
        Weights::Nk => tensor::<T>(device, &values(k * n, 0.01), [n, k])?.transpose()?,
    };
    let bias = tensor::<T>(device, &values(n, 0.02), [1, n])?.reshape([n])?;
    let residual = tensor::<T>(device, &values(m * n, 0.02), [m, n])?;
    let mut d = device.zeros::<T>([m, n])?;
    let mut sums = device.zeros::<T>([m])?;
    let mut run: Run = match after {
        After::Nothing => {
            let gemm = Gemm::plan::<Plain>(device, &a, &b)?;
            Box::new(move |d| Ok(gemm.run(&a, &b, Plain { d })?))
        }
        After::BiasGeluResidual => {
            let gemm = Gemm::plan::<BiasGeluResidual>(device, &a, &b)?;
            Box::new(move |d| Ok(gemm.run(&a, &b, BiasGeluResidual { bias: &bias, residual: &residual, d })?))
        }
        After::RowSums => {
            let gemm = Gemm::plan::<RowSums>(device, &a, &b)?;
            Box::new(move |d| Ok(gemm.run(&a, &b, RowSums { d, sums: &mut sums })?))
        }
    };
    run(&mut d)?;
    let sample = sample(&d.to_vec::<T>()?, Number::number);
    Ok(Contestant::here("epilogue", sample, move || run(&mut d).expect("it ran before")))
}

fn expression(device: &Device, work: Work) -> Outcome<Contestant<'static>> {
    let x = te::placeholder([te::var("n"), te::var("m")], "x");
    let (output, [n, m]) = match work {
        Work::ArgMax { shape } => (te::ops::argmax(&x, [1])?, shape),
        Work::Softmax { shape, axis } => (te::ops::softmax(&x, axis)?, shape),
        Work::LayerNorm { shape } => (te::ops::layer_norm(&x, [1], None, None, 1e-5)?, shape),
        Work::Cumsum { shape, axis } => (te::ops::cumsum(&x, axis)?, shape),
        Work::CumMax { shape, axis } => (te::ops::cummax(&x, axis)?, shape),
        Work::Recurrence { shape } => {
            let [n, m] = shape.map(|extent| te::Expr::int(extent as i64));
            let (a, x) = (te::placeholder([n.clone(), m.clone()], "a"), te::placeholder([n, m], "x"));
            return recurrence(device, &a, &x, shape);
        }
        Work::Sum { shape, axis } => (te::ops::sum(&x, [axis])?, shape),
        Work::Variance { shape, axis } => (te::ops::var(&x, [axis], 0.0)?, shape),
        _ => unreachable!("it is an expression of one matrix"),
    };
    let kept: Vec<usize> = match work {
        Work::ArgMax { .. } | Work::Sum { axis: 1, .. } | Work::Variance { axis: 1, .. } => vec![n],
        Work::Sum { .. } | Work::Variance { .. } => vec![m],
        _ => vec![n, m],
    };
    let given = tensor::<f32>(device, &values(n * m, 0.02), [n, m])?;
    match work {
        Work::ArgMax { .. } => run::<i32>(device, &output, vec![(x, given)], kept),
        _ => run::<f32>(device, &output, vec![(x, given)], kept),
    }
}

fn pairs(device: &Device, of: Pairs, [m, n, k]: [usize; 3]) -> Outcome<Contestant<'static>> {
    let extent = |x: usize| te::Expr::int(x as i64);
    let (x, y) = (te::placeholder([extent(m), extent(k)], "x"), te::placeholder([extent(n), extent(k)], "y"));
    let along = te::reduce_axis((0, k as i64), "k");
    let made = te::compute([extent(m), extent(n)], "pairs", |[i, j]| {
        let (a, b) = (x.at([i, along]), y.at([j, along]));
        match of {
            Pairs::MinPlus => te::min(a + b, [along]),
            Pairs::Manhattan => te::sum(te::Expr::apply(Op::Abs, vec![a - b]), [along]),
            Pairs::Squared | Pairs::Gaussian | Pairs::Nearest => {
                let distance = a - b;
                te::sum(&distance * &distance, [along])
            }
        }
    })?;
    let inputs = vec![
        (x, tensor::<f32>(device, &values(m * k, 0.02), [m, k])?),
        (y, tensor::<f32>(device, &values(n * k, 0.01), [n, k])?),
    ];
    match of {
        Pairs::Manhattan | Pairs::MinPlus | Pairs::Squared => run::<f32>(device, &made, inputs, vec![m, n]),
        Pairs::Nearest => run::<i32>(device, &te::ops::argmin(&made, [1])?, inputs, vec![m]),
        Pairs::Gaussian => {
            let of_row = te::reduce_axis((0, n as i64), "j");
            let sums = te::compute([extent(m)], "sums", |[i]| {
                te::sum(te::Expr::apply(Op::Exp, vec![-made.at([i, of_row])]), [of_row])
            })?;
            run::<f32>(device, &sums, inputs, vec![m])
        }
    }
}

fn recurrence(device: &Device, a: &Tensor, x: &Tensor, [n, m]: [usize; 2]) -> Outcome<Contestant<'static>> {
    let output = te::ops::linear_recurrence(a, x)?;
    let factors: Vec<f32> = values(n * m, 0.02).iter().map(|x| x.abs() * 0.9).collect();
    let inputs = vec![
        (a.clone(), tensor::<f32>(device, &factors, [n, m])?),
        (x.clone(), tensor::<f32>(device, &values(n * m, 0.02), [n, m])?),
    ];
    run::<f32>(device, &output, inputs, vec![n, m])
}

fn run<T: Number>(
    device: &Device,
    output: &Tensor,
    inputs: Vec<(Tensor, DeviceTensor)>,
    shape: Vec<usize>,
) -> Outcome<Contestant<'static>> {
    let kernel = te::auto::build(&[output])?.build(device)?;
    let mut result = device.zeros::<T>(shape)?;
    let call = {
        let output = output.clone();
        move |result: &mut DeviceTensor| -> Outcome<()> {
            let mut arguments: Vec<(&Tensor, Argument<'_>)> = inputs.iter().map(|(t, x)| (t, x.into())).collect();
            arguments.push((&output, result.into()));
            Ok(kernel.run_bound(&arguments)?)
        }
    };
    call(&mut result)?;
    let sample = sample(&result.to_vec::<T>()?, Number::number);
    Ok(Contestant::here("epilogue", sample, move || call(&mut result).expect("it ran before")))
}
