//! The examples of the epilogue-visitor-tree document, under their names there.
//!
//! `cargo run --release -p epilogue-examples --bin seed`

#![allow(clippy::print_stdout)]

use epilogue::prelude::*;

/// `Z = alpha * leaky_relu(accum, 0.2) + beta * c`
#[epilogue]
fn unary_epilogue(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> Tensor {
    let t = leaky_relu(accum, 0.2);
    let z = alpha * t + beta * c;
    z
}

/// Returns both `Z` and the intermediate `T`.
#[epilogue]
fn column_broadcast(accum: Accum, c: Tensor, vector: ColumnVector, alpha: Scalar, beta: Scalar) -> (Tensor, Tensor) {
    let t = accum + vector;
    let scale_t = leaky_relu(alpha * t, 0.2);
    let z = scale_t + beta * c;
    (z, t)
}

/// The sum of every row, with one partial per tile: the host adds the partials.
#[epilogue]
fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, RowPartials) {
    let d = alpha * accum + tanh(beta * c);
    let reduction = reduction_op(d, Row, Add, threadblock_shape.n);
    (d, reduction)
}

/// A new unary operation, as the document adds `tanh`: here it takes one function.
#[elementwise]
fn soft_sign(x: f32) -> f32 {
    x / (1.0 + x.abs())
}

/// The new operation in use.
#[epilogue]
fn new_operation(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> Tensor {
    let d = alpha * accum + soft_sign(beta * c);
    d
}

const M: usize = 512;
const N: usize = 256;
const K: usize = 128;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::best()?;
    println!("device: {device}, {M} x {N} x {K}");
    let mut random = fastrand::Rng::with_seed(7);
    let mut small_integers =
        |len: usize| -> Vec<f16> { (0..len).map(|_| f16::from_f64(f64::from(random.i32(-4..=3)))).collect() };
    let a = device.tensor(&small_integers(M * K), [M, K])?;
    let b = device.tensor(&small_integers(K * N), [K, N])?;
    let c = device.tensor(&small_integers(M * N), [M, N])?;
    let vector = device.tensor(&small_integers(M), [M])?;
    let (alpha, beta) = (1.0, 0.5);

    {
        let gemm = Gemm::plan::<UnaryEpilogue>(&device, &a, &b)?;
        let mut z = device.zeros::<f16>([M, N])?;
        gemm.run(&a, &b, UnaryEpilogue { c: &c, alpha, beta, z: &mut z })?;
        let expected = gemm.reference(&a, &b, UnaryEpilogue { c: &c, alpha, beta, z: &mut z })?;
        println!("UnaryEpilogue    {}", expected.compare("z", &z)?.check()?);
    }
    {
        let gemm = Gemm::plan::<ColumnBroadcast>(&device, &a, &b)?;
        let mut z = device.zeros::<f16>([M, N])?;
        let mut t = device.zeros::<f16>([M, N])?;
        gemm.run(&a, &b, ColumnBroadcast { c: &c, vector: &vector, alpha, beta, z: &mut z, t: &mut t })?;
        let expected =
            gemm.reference(&a, &b, ColumnBroadcast { c: &c, vector: &vector, alpha, beta, z: &mut z, t: &mut t })?;
        println!("ColumnBroadcast  {}", expected.compare("z", &z)?.check()?);
        println!("                 {}", expected.compare("t", &t)?.check()?);
    }
    {
        let gemm = Gemm::plan::<RowReduction>(&device, &a, &b)?;
        let shape = gemm.partials_shape("reduction")?;
        let mut d = device.zeros::<f16>([M, N])?;
        let mut reduction = device.zeros::<f32>(&shape)?;
        gemm.run(&a, &b, RowReduction { c: &c, alpha, beta, d: &mut d, reduction: &mut reduction })?;
        let expected =
            gemm.reference(&a, &b, RowReduction { c: &c, alpha, beta, d: &mut d, reduction: &mut reduction })?;
        println!("RowReduction     {}", expected.compare("d", &d)?.check()?);
        println!("                 {} (partials {shape:?})", expected.compare("reduction", &reduction)?.check()?);
        let partials = reduction.to_vec::<f32>()?;
        // The last step on the host, as in the document: partials are [ceil(N / tile_n), M].
        let sums = (0..M).map(|row| partials.iter().skip(row).step_by(M).sum::<f32>());
        let rounded = d.to_vec::<f16>()?;
        let direct = rounded.chunks(N).map(|row| row.iter().map(|x| x.to_f32()).sum::<f32>());
        // D was rounded to f16 after the kernel had summed it: each element may differ by half an ULP.
        let worst = sums.zip(direct).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        println!("                 on the host, the sums of the rounded D differ by at most {worst:.3}");
    }
    {
        let gemm = Gemm::plan::<NewOperation>(&device, &a, &b)?;
        let mut d = device.zeros::<f16>([M, N])?;
        gemm.run(&a, &b, NewOperation { c: &c, alpha, beta, d: &mut d })?;
        let expected = gemm.reference(&a, &b, NewOperation { c: &c, alpha, beta, d: &mut d })?;
        println!(
            "NewOperation     {} (soft_sign(3) = {} on the host)",
            expected.compare("d", &d)?.check()?,
            soft_sign(3.0)
        );
    }
    Ok(())
}
