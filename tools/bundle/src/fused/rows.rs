//! Epilogues that see whole rows: in the tile, in the tiles of a cluster, and in launches of their own; and the plain product
//! with what follows as a kernel of its own.

use epilogue::gemm::Finish;
use epilogue::prelude::*;
use epilogue::te::{self, auto, ops};
use epilogue::{Argument, DeviceTensor};

use super::{Subject, Way, operands, product, way};
use crate::Outcome;
use crate::gemm::normal;

#[epilogue]
fn softmax(accum: Accum) -> Tensor {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    d
}

#[epilogue]
fn layer_norm(accum: Accum) -> Tensor {
    let centred = accum - reduction_op(accum, Row, Mean);
    let d = centred * rsqrt(reduction_op(centred, Row, SumSquares) / real(columns()) + 1e-5);
    d
}

/// A residual branch, normalised as Llama's are.
#[epilogue]
fn rms_norm(accum: Accum, residual: Tensor, weight: RowVector) -> (Tensor, Tensor) {
    let y = accum + residual;
    let d = y * rsqrt(reduction_op(y, Row, SumSquares) / real(columns()) + 1e-5) * weight;
    (y, d)
}

/// Rows with a scale each.
#[epilogue]
fn quantised(accum: Accum) -> (Tensor<f8e4m3>, ColumnVector<f32>) {
    let scale = max(reduction_op(accum, Row, AbsMax) / 448.0, 1e-12);
    let q = accum / scale;
    (q, scale)
}

/// The loss over a vocabulary, whose logits are stored nowhere.
#[epilogue]
fn cross_entropy(accum: Accum, labels: ColumnVector<i64>) -> (ColumnVector<f32>, ColumnVector<f32>) {
    let log_sum_exp = reduction_op(accum, Row, LogSumExp);
    let loss = log_sum_exp - reduction_op(if column() == integer(labels) { accum } else { 0.0 }, Row, Add);
    (loss, log_sum_exp)
}

/// Rows of one tile, of clusters of 4, 8 and 16 blocks, and longer ones.
const ROWS: &[[usize; 3]] =
    &[[8192, 256, 4096], [8192, 1024, 4096], [8192, 2048, 2048], [8192, 4096, 4096], [8192, 8192, 4096]];

pub(super) fn subjects() -> Vec<Subject> {
    let of = |name, small, timed, ways| Subject { name, element: ElementType::BF16, small, timed, ways };
    vec![
        of("softmax", [70, 600, 72], ROWS, ways_of_softmax),
        of("softmax_in_16_blocks", [5, 4096, 24], &[], ways_of_softmax),
        of("layer_norm", [70, 600, 72], ROWS, ways_of_layer_norm),
        of("rms_norm", [70, 600, 72], ROWS, ways_of_rms_norm),
        of("quantised", [70, 600, 72], ROWS, ways_of_quantised),
        of("cross_entropy", [70, 600, 72], &[[8192, 32_000, 4096], [4096, 128_256, 4096]], ways_of_cross_entropy),
    ]
}

/// Where phases are computed; what has no kernel there is left out.
const FINISHES: [(&str, Option<Finish>); 4] = [
    ("epilogue", None),
    ("in the tile", Some(Finish::Tile)),
    ("in a cluster's tiles", Some(Finish::Cluster)),
    ("in launches of their own", Some(Finish::SecondLaunch)),
];

/// Plans of an epilogue for each place of its phases.
fn plans<E: Epilogue>(device: &Device, a: &DeviceTensor, b: &DeviceTensor) -> Outcome<Vec<(&'static str, Gemm<E>)>> {
    let mut plans = Vec::new();
    for (name, finish) in FINISHES {
        let builder = Gemm::builder::<E>(device).operands(a, b)?;
        let plan = finish.map_or(builder.clone(), |finish| builder.finish(finish)).plan();
        match (plan, finish) {
            (Ok(plan), _) => plans.push((name, plan)),
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error.into()),
        }
    }
    Ok(plans)
}

/// The product alone, with the same operands.
fn alone(device: &Device, a: &DeviceTensor, b: &DeviceTensor, d: &DeviceTensor) -> Outcome<Way> {
    product("the product alone", device, (a, b), d)
}

/// The product, and then a kernel of the tensor expression over its rows.
fn then(
    device: &Device,
    (a, b): (&DeviceTensor, &DeviceTensor),
    of: impl Fn(&te::Tensor) -> Result<te::Tensor, te::TeError>,
) -> Outcome<Way> {
    let shape = [a.shape()[0], b.shape()[1]];
    let (x, mut d) = (device.zeros_of(ElementType::BF16, shape)?, device.zeros_of(ElementType::BF16, shape)?);
    let mut product = alone(device, a, b, &x)?;
    let given = te::placeholder_of(ElementType::BF16, [te::var("n"), te::var("m")], "X");
    let result = of(&given)?;
    let kernel = auto::build(&[&result])?.build(device)?;
    let choice = format!("{}; {}", product.choice, kernel.choice());
    let run = move || -> Outcome<()> {
        (product.run)()?;
        Ok(kernel.run_bound(&[(&given, Argument::from(&x)), (&result, (&mut d).into())])?)
    };
    Ok(Way { name: "the product, then a te kernel".into(), choice, run: Box::new(run), check: None })
}

fn ways_of_softmax(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let (a, b) = operands(device, shape)?;
    let d = device.zeros_of(ElementType::BF16, [shape[0], shape[1]])?;
    let mut ways = Vec::new();
    for (name, plan) in plans::<Softmax>(device, &a, &b)? {
        ways.push(way!(name, plan, (&a, &b), [a, b], Softmax { ;; d }));
    }
    ways.push(then(device, (&a, &b), |x| ops::softmax(x, 1))?);
    ways.push(alone(device, &a, &b, &d)?);
    Ok(ways)
}

fn ways_of_layer_norm(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let (a, b) = operands(device, shape)?;
    let d = device.zeros_of(ElementType::BF16, [shape[0], shape[1]])?;
    let mut ways = Vec::new();
    for (name, plan) in plans::<LayerNorm>(device, &a, &b)? {
        ways.push(way!(name, plan, (&a, &b), [a, b], LayerNorm { ;; d }));
    }
    ways.push(then(device, (&a, &b), |x| ops::layer_norm(x, [1], None, None, 1e-5))?);
    ways.push(alone(device, &a, &b, &d)?);
    Ok(ways)
}

fn ways_of_rms_norm(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, b), [m, n, _]) = (operands(device, shape)?, shape);
    let (residual, weight) =
        (normal(device, ElementType::BF16, &[m, n], 3)?, normal(device, ElementType::BF16, &[n], 4)?);
    let (y, d) = (device.zeros_of(ElementType::BF16, [m, n])?, device.zeros_of(ElementType::BF16, [m, n])?);
    let mut ways = Vec::new();
    for (name, plan) in plans::<RmsNorm>(device, &a, &b)? {
        ways.push(way!(name, plan, (&a, &b), [a, b], RmsNorm { residual, weight;; y, d }));
    }
    ways.push(alone(device, &a, &b, &d)?);
    Ok(ways)
}

fn ways_of_quantised(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, b), [m, n, _]) = (operands(device, shape)?, shape);
    let (q, scale) = (device.zeros_of(ElementType::F8E4M3, [m, n])?, device.zeros_of(ElementType::F32, [m])?);
    let mut ways = Vec::new();
    for (name, plan) in plans::<Quantised>(device, &a, &b)? {
        ways.push(way!(name, plan, (&a, &b), [a, b], Quantised { ;; q, scale }));
    }
    ways.push(alone(device, &a, &b, &device.zeros_of(ElementType::BF16, [m, n])?)?);
    Ok(ways)
}

fn ways_of_cross_entropy(device: &Device, shape: [usize; 3]) -> Outcome<Vec<Way>> {
    let ((a, b), [m, n, _]) = (operands(device, shape)?, shape);
    let labels: Vec<i64> = (0..m).map(|row| (row * 7919 % n) as i64).collect();
    let labels = device.tensor(&labels, [m])?;
    let (loss, log_sum_exp) = (device.zeros_of(ElementType::F32, [m])?, device.zeros_of(ElementType::F32, [m])?);
    let plan = Gemm::plan::<CrossEntropy>(device, &a, &b)?;
    let own = way!("epilogue", plan, (&a, &b), [a, b], CrossEntropy { labels;; loss, log_sum_exp });
    Ok(vec![own, alone(device, &a, &b, &device.zeros_of(ElementType::BF16, [m, n])?)?])
}
