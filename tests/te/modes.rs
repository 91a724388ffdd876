//! The floating-point mode of the thread that calls changes no result of a tensor expression.

use epilogue::te::{self, Array, DType, TeError, Tensor};
use epilogue::{Arch, Device, DeviceTensor, ElementType};
use epilogue_float_mode::testing::{Strange, in_strange_mode};
use epilogue_runtime::testing;

const SHAPE: [usize; 2] = [64, 600];

/// `x / 3 + exp(x) * x * 0.1` in f32 and bf16, and the sums of its rows.
fn computed() -> Result<(Tensor, [Tensor; 3]), TeError> {
    let x = te::placeholder(SHAPE, "x");
    let y = te::compute(SHAPE, "y", |[i, j]| {
        let x = x.at([i, j]);
        &x / 3.0 + epilogue::ops::exp(&x) * &x * 0.1
    })?;
    let narrow = te::compute(SHAPE, "narrow", |[i, j]| y.at([i, j]).cast(ElementType::BF16))?;
    let k = te::reduce_axis((0, SHAPE[1]), "k");
    let sums = te::compute([SHAPE[0]], "sums", |[i]| te::sum(y.at([i, k]), [k]))?;
    Ok((x, [y, narrow, sums]))
}

/// Most of them are subnormal.
fn numbers() -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(5);
    (0..SHAPE[0] * SHAPE[1]).map(|_| (random.f32() - 0.5) * 2f32.powi(-126 + random.i32(-12..4))).collect()
}

fn zeros(device: &Device) -> [DeviceTensor; 3] {
    let of = |element, shape: &[usize]| device.zeros_of(element, shape).expect("memory");
    [of(ElementType::F32, &SHAPE), of(ElementType::BF16, &SHAPE), of(ElementType::F32, &SHAPE[..1])]
}

fn bytes(tensors: &[DeviceTensor]) -> Vec<u8> {
    tensors.iter().flat_map(|tensor| tensor.to_bytes().expect("bytes")).collect()
}

fn automatic(device: &Device, numbers: &[f32]) -> Result<Vec<u8>, TeError> {
    let (x, made) = computed()?;
    let given = device.tensor(numbers, SHAPE)?;
    let mut results = zeros(device);
    for (tensor, result) in made.iter().zip(&mut results) {
        let kernel = te::auto::build(&[tensor])?.build(device)?;
        kernel.run_bound(&[(&x, (&given).into()), (tensor, result.into())])?;
    }
    Ok(bytes(&results))
}

fn scheduled(device: &Device, numbers: &[f32]) -> Result<Vec<u8>, TeError> {
    let (x, [y, narrow, sums]) = computed()?;
    let program = te::lower(&te::create_schedule(&[&y, &narrow, &sums]), &[&x, &y, &narrow, &sums], "main")?;
    let given = device.tensor(numbers, SHAPE)?;
    let [mut a, mut b, mut c] = zeros(device);
    let arguments =
        [(&x, (&given).into()), (&y, (&mut a).into()), (&narrow, (&mut b).into()), (&sums, (&mut c).into())];
    program.build(device)?.run_bound(&arguments)?;
    Ok(bytes(&[a, b, c]))
}

/// The library rounds the numbers to f32.
fn interpreted(numbers: &[f64]) -> Result<Vec<u8>, TeError> {
    let (x, [y, _, sums]) = computed()?;
    let program = te::lower(&te::create_schedule(&[&y, &sums]), &[&x, &y, &sums], "main")?;
    let mut arrays = [
        Array::new(DType::F32, &SHAPE, numbers)?,
        Array::unwritten(DType::F32, &SHAPE),
        Array::unwritten(DType::F32, &SHAPE[..1]),
    ];
    program.interpret(&mut arrays)?;
    Ok(arrays.iter().flat_map(Array::values).flat_map(f64::to_ne_bytes).collect())
}

fn check(name: &str, run: impl Fn() -> Result<Vec<u8>, TeError>) -> Result<(), TeError> {
    let right = run()?;
    for strange in Strange::ALL {
        let results = in_strange_mode(*strange, &run)?;
        let wrong = right.iter().zip(&results).filter(|(x, y)| x != y).count();
        assert_eq!((wrong, results.len()), (0, right.len()), "{name} in {strange:?}");
    }
    Ok(())
}

#[test]
fn the_callers_floating_point_mode_changes_no_tensor_expression() -> Result<(), TeError> {
    let (cpu, numbers) = (Device::cpu(), numbers());
    check("automatic", || automatic(&cpu, &numbers))?;
    check("native", || scheduled(&cpu, &numbers))?;
    let between: Vec<f64> = numbers.iter().map(|x| f64::from(*x) * 1.000_000_1).collect();
    check("interpreted", || interpreted(&between))?;
    if testing::compiler("the_callers_floating_point_mode_changes_no_tensor_expression").is_some() {
        let gpu = Device::emulated(Arch::SM_80)?;
        check("automatic, emulated", || automatic(&gpu, &numbers))?;
    }
    Ok(())
}
