//! The example of the design, on the CPU device: from a Rust function to checked numbers.

#![allow(missing_docs)]

use epilogue::prelude::*;

/// D = alpha * A·B + tanh(beta * C), and the sum of every row of D.
#[epilogue]
fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, ColumnVector) {
    let d = alpha * accum + tanh(beta * c);
    let reduction = reduction_op(d, Row, Add);
    (d, reduction)
}

fn run(device: &Device) {
    let (m, n, k) = (37, 29, 21);
    let a_host: Vec<f16> = (0..m * k).map(|i| f16::from_f32(((i * 7) % 11) as f32 - 5.0)).collect();
    let b_host: Vec<f16> = (0..k * n).map(|i| f16::from_f32(((i * 5) % 13) as f32 - 6.0)).collect();
    let c_host: Vec<f16> = (0..m * n).map(|i| f16::from_f32(((i * 3) % 7) as f32 * 0.25)).collect();
    let a = device.tensor(&a_host, [m, k]).unwrap();
    let b = device.tensor(&b_host, [k, n]).unwrap();
    let c = device.tensor(&c_host, [m, n]).unwrap();
    let mut d = device.zeros::<f16>([m, n]).unwrap();
    let mut reduction = device.zeros::<f32>([m]).unwrap();
    let gemm = Gemm::plan::<RowReduction>(device, &a, &b).unwrap();
    gemm.run(&a, &b, RowReduction { alpha: 0.125, beta: 0.5, c: &c, d: &mut d, reduction: &mut reduction }).unwrap();
    let (d, reduction) = (d.to_vec::<f16>().unwrap(), reduction.to_vec::<f32>().unwrap());
    for i in 0..m {
        let mut sum = 0.0;
        for j in 0..n {
            let product: f64 = (0..k).map(|p| a_host[i * k + p].to_f64() * b_host[p * n + j].to_f64()).sum();
            let expected = 0.125 * product + (0.5 * c_host[i * n + j].to_f64()).tanh();
            let given = d[i * n + j].to_f64();
            assert!((given - expected).abs() <= 1e-3 * expected.abs().max(1.0), "{i} {j}: {given} {expected}");
            sum += expected;
        }
        assert!((f64::from(reduction[i]) - sum).abs() < 1e-3 * sum.abs().max(1.0), "{i}: {} {sum}", reduction[i]);
    }
}

#[test]
fn on_the_cpu() {
    run(&Device::cpu());
}
