//! Plans and kernels of tensor expressions in graphs.

use std::error::Error;

use epilogue::gemm::{Finish, SplitK};
use epilogue::prelude::*;
use epilogue::{Argument, te};
use epilogue_runtime::testing;

/// A sum of every row, for which tiles must wait for each other.
#[epilogue]
fn with_sums(accum: Accum, bias: RowVector<f32>) -> (Tensor<f32>, ColumnVector) {
    let d = accum + bias;
    let rows = reduction_op(d, Row, Add);
    (d, rows)
}

fn values(device: &Device, shape: [usize; 2], seed: usize) -> DeviceTensor {
    let value = |i: usize| f16::from_f32(((i * 37 + seed * 11) % 23) as f32 / 8.0 - 1.0);
    device.tensor(&(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>(), shape).expect("memory")
}

const M: usize = 40;
const N: usize = 72;
const K: usize = 320;

/// Possible steps of a model: a product in every way of sharing K, with one operand that TMA can't load; then a softmax
/// and a scan over its result. A graph gives the bits that the same runs give, with other runs on the same stream
/// between its launches.
#[test]
fn every_plan_can_be_captured() {
    if testing::compiler("every_plan_can_be_captured").is_none() {
        return;
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch).expect("an emulated device");
        let step = Step::new(&device).expect("a step");
        for split_k in [SplitK::None, SplitK::Serial(3), SplitK::Parallel(3), SplitK::Stream] {
            check(&step, split_k).unwrap_or_else(|error| panic!("{arch}, {split_k}: {error}"));
        }
    }
}

/// One that is computed from its own reductions: a launch of the product, and others over memory that the plan keeps.
#[epilogue]
fn centred(accum: Accum, bias: RowVector<f32>) -> (Tensor<f32>, ColumnVector) {
    let x = accum + bias;
    let e = exp(x - reduction_op(x, Row, Max));
    let rows = reduction_op(e, Row, Add);
    let d = e / rows;
    (d, rows)
}

/// The graph has memory of its own for what phases leave each other: other runs of the plan between its launches, on the
/// same stream and with other data, change nothing.
#[test]
fn plans_of_several_launches_can_be_captured() -> Result<(), Box<dyn Error>> {
    if testing::compiler("plans_of_several_launches_can_be_captured").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        let (mut a, b, other) = (values(&device, [M, K], 1), values(&device, [K, N], 2), values(&device, [M, K], 5));
        let bias = device.full::<f32>([N], 0.5)?;
        let builder = Gemm::builder::<Centred>(&device).operands(&a, &b)?;
        let gemm = builder.finish(Finish::SecondLaunch).plan()?;
        let stream = device.new_stream()?;
        let outputs = || Ok::<_, epilogue::runtime::Error>((device.zeros::<f32>([M, N])?, device.zeros::<f32>([M])?));
        let ((mut d, mut rows), (mut expected, mut sums)) = (outputs()?, outputs()?);
        let graph = device
            .capture(|stream| gemm.run_on(stream, &a, &b, Centred { bias: &bias, d: &mut d, rows: &mut rows }))?;
        assert_eq!(graph.len(), 1 + gemm.later_sources().count());
        assert!(graph.len() > 1);
        for seed in [3, 4] {
            a.copy_from_bytes(&values(&device, [M, K], seed).to_bytes()?)?;
            gemm.run_on(&stream, &other, &b, Centred { bias: &bias, d: &mut expected, rows: &mut sums })?;
            graph.launch(&stream)?;
            gemm.run_on(&stream, &a, &b, Centred { bias: &bias, d: &mut expected, rows: &mut sums })?;
            assert_eq!(d.to_bytes()?, expected.to_bytes()?, "{arch}");
            assert_eq!(rows.to_bytes()?, sums.to_bytes()?, "{arch}");
            assert!(rows.to_vec::<f32>()?.iter().all(|sum| *sum >= 1.0));
        }
    }
    Ok(())
}

struct Step {
    a: DeviceTensor,
    b: DeviceTensor,
    bias: DeviceTensor,
    x: te::Tensor,
    softmax: te::Tensor,
    sums: te::Tensor,
    after: te::auto::Kernel,
}

/// The results of the step.
struct Results {
    d: DeviceTensor,
    rows: DeviceTensor,
    softmax: DeviceTensor,
    sums: DeviceTensor,
}

impl Results {
    fn new(device: &Device) -> Result<Self, epilogue::runtime::Error> {
        let matrix = || device.zeros::<f32>([M, N]);
        Ok(Self { d: matrix()?, rows: device.zeros::<f32>([M])?, softmax: matrix()?, sums: matrix()? })
    }

    fn bytes(&self) -> Result<Vec<Vec<u8>>, epilogue::runtime::Error> {
        [&self.d, &self.rows, &self.softmax, &self.sums].into_iter().map(DeviceTensor::to_bytes).collect()
    }
}

impl Step {
    fn new(device: &Device) -> Result<Self, Box<dyn Error>> {
        let x = te::placeholder([te::var("rows"), te::var("columns")], "x");
        let softmax = te::ops::softmax(&x, 1)?;
        let sums = te::ops::cumsum(&softmax, 1)?;
        Ok(Self {
            a: values(device, [M, K], 1),
            // Rows of an odd length.
            b: values(device, [K, N + 1], 2).slice(1, 0..N)?,
            bias: device.tensor(&(0..N).map(|i| i as f32 / 4.0).collect::<Vec<_>>(), [N])?,
            after: te::auto::build(&[&softmax, &sums])?.build(device)?,
            x,
            softmax,
            sums,
        })
    }

    fn run(&self, gemm: &Gemm<WithSums>, stream: &epilogue::Stream, to: &mut Results) -> Result<(), Box<dyn Error>> {
        let arguments = WithSums { bias: &self.bias, d: &mut to.d, rows: &mut to.rows };
        gemm.run_on(stream, &self.a, &self.b, arguments)?;
        let arguments: [(&te::Tensor, Argument<'_>); 3] =
            [(&self.x, (&to.d).into()), (&self.softmax, (&mut to.softmax).into()), (&self.sums, (&mut to.sums).into())];
        self.after.run_bound_on(stream, &arguments)?;
        Ok(())
    }
}

fn check(step: &Step, split_k: SplitK) -> Result<(), Box<dyn Error>> {
    let device = step.a.device();
    let builder = Gemm::builder::<WithSums>(device).operands(&step.a, &step.b)?;
    let gemm = builder.split_k(split_k).plan()?;
    let stream = device.new_stream()?;
    let (mut direct, mut replayed) = (Results::new(device)?, Results::new(device)?);
    let graph = device.capture(|stream| step.run(&gemm, stream, &mut replayed))?;
    assert!(graph.len() > 1);
    let mut a = step.a.clone();
    for seed in [3, 4] {
        a.copy_from_bytes(&values(device, [M, K], seed).to_bytes()?)?;
        graph.launch(&stream)?;
        step.run(&gemm, &stream, &mut direct)?;
        graph.launch(&stream)?;
        assert_eq!(replayed.bytes()?, direct.bytes()?);
        // It has been computed, and from these values.
        assert!(replayed.rows.to_vec::<f32>()?.iter().all(|sum| *sum != 0.0));
    }
    Ok(())
}
