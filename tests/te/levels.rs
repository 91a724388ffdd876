//! The CPU with fewer vector instructions than it has: tensor expressions have the same bits.

use epilogue::te::{self, TeError, Tensor, auto};
use epilogue::tuning::{MachineCode, Tuning};
use epilogue::{CpuLevel, Device};

fn values() -> Vec<f32> {
    (0..7 * 300).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.11).collect()
}

/// Functions of each element, with fused multiply-adds in them.
fn functions(x: &Tensor) -> Result<Tensor, TeError> {
    te::compute([7, 300], "y", |[i, j]| {
        let x = x.at([i, j]);
        te::exp(x.clone()) * te::tanh(x.clone())
            + te::sqrt(te::abs(x.clone()))
            + te::sin(x.clone()) / (x.clone() * x + 1.0)
    })
}

/// A result's bytes at every level, by steps and by machine code. The shape is 7 × 300.
fn same_at_every_level(x: &Tensor, output: &Tensor, what: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for level in CpuLevel::available() {
        let device = Device::cpu_with(*level)?;
        let given = device.tensor(&values(), [7, 300])?;
        for code in [MachineCode::Always, MachineCode::Never] {
            let kernel = auto::build(&[output])?.tuning(Tuning::new().machine_code(code)).build(&device)?;
            let shape: &[usize] = if output.shape().len() == 1 { &[7] } else { &[7, 300] };
            let mut result = device.zeros::<f32>(shape)?;
            kernel.run_bound(&[(x, (&given).into()), (output, (&mut result).into())])?;
            all.push(result.to_bytes()?);
        }
    }
    assert!(all.iter().all(|bytes| *bytes == all[0]), "{what}");
    Ok(())
}

#[test]
fn automatic_kernels_have_the_same_bits_on_the_cpu() -> Result<(), Box<dyn std::error::Error>> {
    let x = te::placeholder([7, 300], "x");
    for (what, output) in [
        ("softmax", te::ops::softmax(&x, 1)?),
        ("softmax of columns", te::ops::softmax(&x, 0)?),
        ("layer_norm", te::ops::layer_norm(&x, [1], None, None, 1e-5)?),
        ("logsumexp", te::ops::logsumexp(&x, 1)?),
        ("cumsum", te::ops::cumsum(&x, 1)?),
        ("functions", functions(&x)?),
    ] {
        same_at_every_level(&x, &output, what)?;
    }
    Ok(())
}

/// Programs as native code: a loop over vectors of functions, and one with fused multiply-adds.
#[cfg(feature = "native")]
#[test]
fn native_code_has_the_same_bits_on_the_cpu() -> Result<(), Box<dyn std::error::Error>> {
    let x = te::placeholder([7, 300], "x");
    let y = functions(&x)?;
    let mut schedule = te::create_schedule(&[&y]);
    schedule.stage(&y)?.vectorize(y.axis(1)?)?;
    let program = te::lower(&schedule, &[&x, &y], "y")?;
    let mut all = Vec::new();
    for level in CpuLevel::available() {
        let device = Device::cpu_with(*level)?;
        let (given, mut result) = (device.tensor(&values(), [7, 300])?, device.zeros::<f32>([7, 300])?);
        program.build(&device)?.run(&[(&given).into(), (&mut result).into()])?;
        all.push(result.to_bytes()?);
    }
    assert!(all.iter().all(|bytes| *bytes == all[0]));
    Ok(())
}
