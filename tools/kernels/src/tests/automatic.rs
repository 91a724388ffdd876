//! Automatic kernels as machine code: no spills, enough loads in flight to keep a GPU's memory busy, and no more
//! instructions than it can issue in that time. None of this shows in a kernel's results.

use epilogue::te::{self, TeError, Tensor, auto, ops};
use epilogue::{Device, DeviceTensor, Element};
use epilogue_runtime::{Arch, Output, Source, testing};
use half::{bf16, f16};

use crate::sass::Sass;

/// Instructions that a Hopper GPU issues in the time in which its memory brings 16 bytes: 132 multiprocessors of 4
/// warps' instructions a cycle at 1.7 GHz, for 4.8 TB/s (H200 data sheet).
const ISSUED: usize = 95;

/// Runs on zeros, because the choice needs sizes; then checks the machine code of what ran.
fn machine_code(kernel: &auto::Kernel, input: &DeviceTensor, mut output: DeviceTensor) -> Option<Sass> {
    let (compiler, nvdisasm) = (testing::compiler("automatic_kernels")?, testing::nvdisasm("automatic_kernels")?);
    kernel.run(&[input.into(), (&mut output).into()]).expect("it runs");
    let code = kernel.source();
    let (_, after) = code.rsplit_once("__launch_bounds__").expect("a kernel");
    let entry = after.split_once(") ").and_then(|(_, name)| name.split('(').next()).expect("its name");
    let source = Source::new("kernel.cu", entry, code.clone());
    let compiled = compiler.compile(&source, Arch::SM_90A, Output::Cubin).expect("it compiles");
    let resources = compiled.log.kernel(entry).expect("its resources");
    assert_eq!((resources.stack_bytes, resources.spill_store_bytes), (0, 0), "{resources:?}");
    Some(Sass::of(&nvdisasm, &compiled.cubin).expect("it is disassembled"))
}

/// The requirements for a kernel's machine code.
#[derive(Clone, Copy)]
struct Wanted {
    /// Loads of 16 bytes that are in flight together.
    loads: usize,
    /// Two thirds of what the GPU can issue while memory transfers what the kernel reads and writes; `None` for scans,
    /// whose loops have branches that are hardly ever taken.
    instructions: Option<usize>,
}

impl Wanted {
    /// For a kernel that reads, and writes almost nothing.
    const fn reading(loads: usize) -> Self {
        Self { loads, instructions: Some(ISSUED * 2 / 3) }
    }

    /// For a kernel that writes as much as it reads.
    const fn writing(loads: usize) -> Self {
        Self { loads, instructions: Some(2 * ISSUED * 2 / 3) }
    }

    const fn scanning(loads: usize) -> Self {
        Self { loads, instructions: None }
    }
}

fn check<T: Element>(
    shape: &[usize],
    result: &[usize],
    wanted: Wanted,
    make: impl Fn(&Tensor) -> Result<auto::Automatic, TeError>,
) -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::emulated(Arch::SM_90A)?;
    let kernel = make(&te::placeholder_of(T::TYPE, shape.to_vec(), "A"))?.build(&device)?;
    let (input, output) = (device.zeros::<T>(shape)?, device.zeros::<T>(result)?);
    if let Some(code) = machine_code(&kernel, &input, output) {
        let (loads, instructions) = (code.loads_in_flight(), code.instructions_for_a_load());
        let (choice, source) = (kernel.choice(), kernel.source());
        assert!(loads >= wanted.loads, "{loads} of at least {} loads: {choice}\n{source}", wanted.loads);
        if let Some(most) = wanted.instructions {
            let fits = instructions.is_some_and(|instructions| instructions <= most);
            assert!(fits, "{instructions:?} of at most {most} instructions: {choice}\n{source}");
        }
    }
    Ok(())
}

/// A profiler shows which kernel ran, for any name of a tensor: also names of C++, of CUDA and of the library.
#[test]
fn kernels_are_called_after_their_first_output() -> Result<(), Box<dyn std::error::Error>> {
    if testing::compiler("kernels_are_called_after_their_first_output").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let input = device.tensor(&[1_f32, 2.0, 3.0, 4.0], [2, 2])?;
    let a = te::placeholder([2, 2], "A");
    let called = |kernel: &auto::Kernel, result: &[usize]| -> Result<String, Box<dyn std::error::Error>> {
        let mut output = device.zeros::<f32>(result)?;
        kernel.run(&[(&input).into(), (&mut output).into()])?;
        let code = kernel.source();
        let (_, after) = code.rsplit_once("__launch_bounds__").ok_or("a kernel")?;
        let (_, after) = after.split_once(") ").ok_or("a name")?;
        Ok(after.split('(').next().unwrap_or_default().to_owned())
    };
    for (name, expected) in [
        ("sums", "sums_reduction"),
        ("sin", "sin_reduction"),
        ("double", "double_reduction"),
        ("epilogue", "epilogue_reduction"),
        ("Pass", "Pass_reduction"),
        ("größe", "gruf6udfe_reduction"),
        ("a.b c", "a_b_c_reduction"),
    ] {
        let k = te::reduce_axis((0, 2), "k");
        let sums = te::compute([2], name, |[i]| te::sum(a.at([i, k]), [k]))?;
        assert_eq!(called(&auto::build(&[&sums])?.build(&device)?, &[2])?, expected);
    }
    let doubled = te::compute([2, 2], "doubled", |[i, j]| a.at([i, j]) * 2.0)?;
    assert_eq!(called(&auto::build(&[&doubled])?.build(&device)?, &[2, 2])?, "doubled_map");
    // A scan has its state's name.
    let state = te::placeholder([2, 2], "running");
    let init = te::compute([1, 2], "init", |[t, i]| a.at([t, i]))?;
    let update = te::compute([2, 2], "update", |[t, i]| state.at([t - 1, i.into()]) + a.at([t, i]))?;
    let running = te::scan(&init, &update, &state, std::slice::from_ref(&a))?;
    assert_eq!(called(&auto::scan(&running)?.build(&device)?, &[2, 2])?, "running_scan");
    Ok(())
}

#[test]
fn reductions_and_scans_keep_loads_in_flight_and_are_short() -> Result<(), Box<dyn std::error::Error>> {
    let sum = |dimension: usize| move |a: &Tensor| auto::reduce(&ops::sum(a, [dimension])?);
    check::<f32>(&[1 << 23], &[], Wanted::reading(8), sum(0))?;
    check::<f16>(&[1 << 23], &[], Wanted::reading(4), sum(0))?;
    check::<f64>(&[1 << 23], &[], Wanted::reading(8), sum(0))?;
    check::<f16>(&[256, 8192], &[256], Wanted::reading(4), sum(1))?;
    check::<f32>(&[8192, 1024], &[1024], Wanted::reading(4), sum(0))?;
    check::<f16>(&[8192, 1024], &[1024], Wanted::reading(4), sum(0))?;
    let var = |a: &Tensor| auto::reduce(&ops::var(a, [1], 1.0)?);
    check::<f32>(&[8, 8192], &[8], Wanted::reading(4), var)?;
    let softmax = |a: &Tensor| auto::reduce(&ops::softmax(a, 1)?);
    check::<f16>(&[8, 8192], &[8, 8192], Wanted::writing(4), softmax)?;
    check::<bf16>(&[8, 8192], &[8, 8192], Wanted::writing(4), softmax)?;
    check::<f32>(&[8, 8192], &[8, 8192], Wanted::writing(4), softmax)?;
    let layer_norm = |a: &Tensor| auto::reduce(&ops::layer_norm(a, [1], None, None, 1e-5)?);
    check::<bf16>(&[8, 8192], &[8, 8192], Wanted::writing(4), layer_norm)?;
    check::<f32>(&[8, 8192], &[8, 8192], Wanted::writing(4), layer_norm)?;
    let cumsum = |dimension: usize| move |a: &Tensor| auto::scan(&ops::cumsum(a, dimension)?);
    check::<f32>(&[1 << 20], &[1 << 20], Wanted::scanning(6), cumsum(0))?;
    check::<f16>(&[1 << 20], &[1 << 20], Wanted::scanning(4), cumsum(0))?;
    check::<f64>(&[1 << 20], &[1 << 20], Wanted::scanning(4), cumsum(0))?;
    check::<f32>(&[300, 4096], &[300, 4096], Wanted::scanning(4), cumsum(1))?;
    Ok(())
}
