//! The CPU with fewer vector instructions than it has: products within the reference's bounds, and epilogues with the
//! same bits.

use epilogue::gemm::Builder;
use epilogue::prelude::*;
use epilogue::tuning::{MachineCode, Tuning};
use epilogue::{CpuLevel, Error};

use super::*;

/// Products of every pair of types that some CPU multiplies by instructions of its own.
#[test]
fn products_at_every_level_are_within_the_bounds_on_the_cpu() {
    use ElementType::{BF16, F8E4M3, F16, F32, F64, I8, U8};
    // Other tests are at the highest.
    for level in CpuLevel::available().iter().rev().skip(1) {
        let device = Device::cpu_with(*level).expect("it is available");
        for elements in [(F32, F32), (F64, F64), (BF16, BF16), (F16, F16), (F8E4M3, BF16), (I8, I8), (U8, I8)] {
            let family = Family { elements, arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
            run(&device, &family, &Amount { kernels: 3, cases: 8, largest: 97 });
        }
        family(&device, F32, Arithmetic::FastBf16, &Amount { kernels: 2, cases: 6, largest: 65 });
    }
}

#[epilogue]
fn everything(accum: Accum, bias: RowVector) -> (Tensor, Tensor<f16>, ColumnVector) {
    let x = accum * 0.03 + bias;
    let d = tanh(x) + exp(-x * x) * erf(x);
    let narrow = sin(x) - rsqrt(x * x + 1.0);
    let total = reduction_op(d, Row, Add);
    (d, narrow, total)
}

/// Products of small integers are exact, so all that differs would be the epilogue. It is computed by steps and by
/// machine code.
#[test]
fn epilogues_have_the_same_bits_at_every_level_on_the_cpu() -> Result<(), Error> {
    let (m, n, k) = (37, 203, 19);
    let small = |seed: usize| move |i: usize| ((i * 7 + i / 5 + seed) % 9) as f32 - 4.0;
    let (a, b): (Vec<f32>, Vec<f32>) = ((0..m * k).map(small(1)).collect(), (0..k * n).map(small(2)).collect());
    let bias: Vec<f32> = (0..n).map(|i| i as f32 * 0.01 - 1.0).collect();
    let mut all = Vec::new();
    for level in CpuLevel::available() {
        let device = Device::cpu_with(*level)?;
        let (a, b, bias) = (device.tensor(&a, [m, k])?, device.tensor(&b, [k, n])?, device.tensor(&bias, [n])?);
        for code in [MachineCode::Always, MachineCode::Never] {
            let tuning = Tuning::new().machine_code(code);
            let gemm =
                Builder::<Everything>::new(&device, Everything::tree()).tuning(tuning).operands(&a, &b)?.plan()?;
            let mut d = device.zeros::<f32>([m, n])?;
            let (mut narrow, mut total) = (device.zeros::<f16>([m, n])?, device.zeros::<f32>([m])?);
            let outputs = Everything { bias: &bias, d: &mut d, narrow: &mut narrow, total: &mut total };
            gemm.run(&a, &b, outputs)?;
            all.push([d.to_bytes()?, narrow.to_bytes()?, total.to_bytes()?]);
        }
    }
    assert!(all.iter().all(|bytes| *bytes == all[0]));
    Ok(())
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

/// A level is a device of its own.
#[test]
fn tensors_of_another_level_are_refused_on_the_cpu() -> Result<(), Error> {
    let lowest = Device::cpu_with(CpuLevel::available()[0])?;
    if lowest == Device::cpu() {
        return Ok(());
    }
    let (a, b) = (lowest.full::<f32>([2, 3], 1.0)?, Device::cpu().full::<f32>([3, 2], 1.0)?);
    let gemm = Gemm::plan::<Plain>(&lowest, &a, &b)?;
    let mut d = lowest.zeros::<f32>([2, 2])?;
    let refused = gemm.run(&a, &b, Plain { d: &mut d }).expect_err("B is on another device").to_string();
    assert!(refused.contains('B') && refused.contains(&lowest.to_string()), "{refused}");
    gemm.run(&a, &b.copy_to(&lowest)?, Plain { d: &mut d })?;
    assert_eq!(d.to_vec::<f32>()?, [3.0; 4]);
    Ok(())
}
