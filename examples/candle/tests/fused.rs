//! Epilogues on candle's tensors, held against candle's own operations.

#![allow(clippy::unwrap_used, reason = "tests")]

use candle_core::{DType, Device, Tensor};
use epilogue_candle::Fused;

mod epilogues {
    use epilogue::prelude::*;

    #[epilogue]
    pub fn bias_gelu(accum: Accum, bias: RowVector, alpha: Scalar) -> Tensor {
        let d = gelu(alpha * accum + bias);
        d
    }

    #[epilogue]
    pub fn residual_sums(accum: Accum, residual: Tensor) -> (Tensor, ColumnVector, RowVector) {
        let d = accum + residual;
        let rows = reduction_op(d, Row, Add);
        let columns = reduction_op(d, Column, Max);
        (d, rows, columns)
    }

    #[epilogue]
    pub fn accumulate(accum: Accum, c: TensorMut) -> Tensor {
        c = c + accum;
        c
    }
}

use epilogues::{Accumulate, BiasGelu, ResidualSums};

fn random(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

fn close(a: &Tensor, b: &Tensor, allowed: f64) {
    assert_eq!((a.dims(), a.dtype()), (b.dims(), b.dtype()));
    let difference = (a.to_dtype(DType::F64).unwrap() - b.to_dtype(DType::F64).unwrap()).unwrap();
    let largest = difference.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar::<f64>().unwrap();
    assert!(largest <= allowed, "{largest}");
}

#[test]
fn results_are_candles() {
    for (dtype, allowed) in [(DType::F64, 1e-12), (DType::F32, 2e-5), (DType::F16, 3e-2), (DType::BF16, 3e-1)] {
        let (x, weight, bias) = (random(&[7, 24], dtype), random(&[10, 24], dtype), random(&[10], dtype));
        let layer = Fused::<BiasGelu>::new().input("bias", &bias).scalar("alpha", 0.5);
        let b = weight.t().unwrap();
        let fused = layer.apply(&x, &b).unwrap();
        let candles = (x.matmul(&b).unwrap() * 0.5).unwrap().broadcast_add(&bias).unwrap().gelu_erf().unwrap();
        close(&fused, &candles, allowed);
        // The layer as an operation of candle's.
        close(&x.apply_op2_no_bwd(&b, &layer).unwrap(), &fused, 0.0);
    }
}

/// Views are read where they lie: parts, transposed and broadcast ones, and batches.
#[test]
fn views_and_batches_are_read_where_they_lie() {
    let wide = random(&[3, 12, 40], DType::F32);
    let x = wide.narrow(2, 5, 24).unwrap().narrow(1, 2, 6).unwrap();
    let b = random(&[24, 9], DType::F32);
    let residual = random(&[1, 6, 1], DType::F32).broadcast_as((3, 6, 9)).unwrap();
    let results = Fused::<ResidualSums>::new().input("residual", &residual).run(&x, &b).unwrap();
    let d = (x.contiguous().unwrap().broadcast_matmul(&b).unwrap() + &residual).unwrap();
    close(&results[0], &d, 1e-5);
    close(&results[1], &d.sum(2).unwrap(), 1e-4);
    close(&results[2], &d.max(1).unwrap(), 1e-5);
    let batched = random(&[3, 24, 9], DType::F32);
    let results = Fused::<ResidualSums>::new().input("residual", &residual).run(&x, &batched).unwrap();
    close(&results[0], &(x.contiguous().unwrap().matmul(&batched).unwrap() + &residual).unwrap(), 1e-5);
}

#[test]
fn mistakes_are_candles_errors() {
    let (x, b) = (random(&[4, 8], DType::F32), random(&[8, 6], DType::F32));
    let bias = random(&[6], DType::F32);
    let said = |result: candle_core::Result<Vec<Tensor>>| result.unwrap_err().to_string();
    let none = Fused::<BiasGelu>::new();
    let missing = said(none.run(&x, &b));
    assert!(missing.contains("nothing is given for") && missing.contains("`alpha`"), "{missing}");
    let unknown = none.clone().input("bias", &bias).scalar("alpha", 1.0).scalar("beta", 1.0);
    assert!(said(unknown.run(&x, &b)).contains("beta"));
    let short = none.clone().input("bias", &random(&[5], DType::F32)).scalar("alpha", 1.0);
    assert!(said(short.run(&x, &b)).contains("bias"));
    assert!(said(none.run(&x.to_dtype(DType::U32).unwrap(), &b)).contains("no tensors of U32"));
    assert!(said(none.run(&x, &x)).contains('8'), "extents that don't fit");
    let c = random(&[4, 6], DType::F32);
    assert!(said(Fused::<Accumulate>::new().input("c", &c).run(&x, &b)).contains("updated in place"));
    let several = Fused::<ResidualSums>::new().input("residual", &c).apply(&x, &b).unwrap_err().to_string();
    assert!(several.contains("returns 3 results"), "{several}");
}

/// A tensor may be given several times, and threads share a description.
#[test]
fn threads_share_operands() {
    let x = random(&[8, 8], DType::F32);
    let layer = Fused::<ResidualSums>::new().input("residual", &x);
    let expected = (x.matmul(&x).unwrap() + &x).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| close(&layer.run(&x, &x).unwrap()[0], &expected, 1e-4)));
        }
    });
}
