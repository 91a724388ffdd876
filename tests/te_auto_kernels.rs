//! Automatic kernels as machine code: no registers in memory, and enough loads in flight to keep a GPU's memory busy.
//! Neither shows in what a kernel computes.

#[path = "../examples/kernels/sass.rs"]
#[allow(dead_code, reason = "the static gate of GEMM kernels reads the rest of it")]
mod sass;

use epilogue::te::{self, TeError, Tensor, auto, ops};
use epilogue::{Device, DeviceTensor, Element};
use epilogue_runtime::{Arch, Output, Source, testing};
use half::f16;

use self::sass::Sass;

/// Runs on zeros, because the choice needs sizes; then looks at what ran. The most loads in flight.
fn loads_in_flight(
    kernel: &auto::Kernel,
    input: &DeviceTensor,
    mut output: DeviceTensor,
    number: usize,
) -> Option<usize> {
    let (compiler, nvdisasm) = (testing::compiler("te_auto_kernels")?, testing::nvdisasm("te_auto_kernels")?);
    kernel.run(&[input.into(), (&mut output).into()]).expect("it runs");
    let code = kernel.source();
    let (_, after) = code.rsplit_once("__launch_bounds__").expect("a kernel");
    let entry = after.split_once(") ").and_then(|(_, name)| name.split('(').next()).expect("its name");
    let source = Source::new("kernel.cu", entry, code.clone());
    let compiled = compiler.compile(&source, Arch::SM_90A, Output::Cubin).expect("it compiles");
    let resources = compiled.log.kernel(entry).expect("its resources");
    assert_eq!((resources.stack_bytes, resources.spill_store_bytes), (0, 0), "{resources:?}");
    Some(Sass::of(&nvdisasm, &compiled.cubin, number).expect("it is disassembled").loads_in_flight())
}

fn check<T: Element>(
    shape: &[usize],
    result: &[usize],
    (number, least): (usize, usize),
    make: impl Fn(&Tensor) -> Result<auto::Automatic, TeError>,
) -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::emulated(Arch::SM_90A)?;
    let kernel = make(&te::placeholder_of(T::TYPE, shape.to_vec(), "A"))?.build(&device)?;
    let (input, output) = (device.zeros::<T>(shape)?, device.zeros::<T>(result)?);
    if let Some(loads) = loads_in_flight(&kernel, &input, output, number) {
        assert!(loads >= least, "{loads} of at least {least}: {}\n{}", kernel.choice(), kernel.source());
    }
    Ok(())
}

#[test]
fn reductions_and_scans_keep_loads_in_flight() -> Result<(), Box<dyn std::error::Error>> {
    let sum = |dimension: usize| move |a: &Tensor| auto::reduce(&ops::sum(a, &[dimension])?);
    check::<f32>(&[1 << 23], &[], (0, 8), sum(0))?;
    check::<f16>(&[1 << 23], &[], (1, 4), sum(0))?;
    check::<f64>(&[1 << 23], &[], (2, 8), sum(0))?;
    check::<f16>(&[256, 8192], &[256], (3, 4), sum(1))?;
    check::<f32>(&[8192, 1024], &[1024], (4, 4), sum(0))?;
    check::<f16>(&[8192, 1024], &[1024], (5, 4), sum(0))?;
    check::<f16>(&[64, 8192], &[64, 8192], (6, 4), |a| auto::reduce(&ops::softmax(a, 1)?))?;
    let cumsum = |dimension: usize| move |a: &Tensor| auto::scan(&ops::cumsum(a, dimension)?);
    check::<f32>(&[1 << 20], &[1 << 20], (7, 6), cumsum(0))?;
    check::<f16>(&[1 << 20], &[1 << 20], (8, 4), cumsum(0))?;
    check::<f64>(&[1 << 20], &[1 << 20], (9, 4), cumsum(0))?;
    check::<f32>(&[300, 4096], &[4096, 300], (10, 4), cumsum(1))?;
    Ok(())
}
