//! A launch by its description does what a run does: what exported headers are made of.

use epilogue::gemm::launch::{LaunchDescription, MapDescription, Memory};
use epilogue::gemm::{Builder, Finish, SplitK, sm90};
use epilogue::prelude::*;
use epilogue::{Argument, DeviceTensor};
use epilogue_runtime::{KernelArgument, L2Promotion, TensorMap, TiledMap, testing};

/// Every kind of argument.
#[epilogue]
fn everything(
    first: Accum,
    second: Accum,
    bias: RowVector<f32>,
    unread: Tensor,
    scale: DeviceScalar<f32>,
    alpha: Scalar,
    mut state: TensorMut,
) -> (TensorMut, Tensor<f32>, ColumnVector, DeviceScalar) {
    let _unread = unread;
    state = state + alpha * first;
    let d = state * second + scale * bias;
    let sums = reduction_op(d, Row, Add);
    let largest = reduction_op(d, All, AbsMax);
    (state, d, sums, largest)
}

const M: usize = 72;
const N: usize = 80;
const K: usize = 96;

fn values(count: usize) -> Vec<f16> {
    (0..count).map(|i| f16::from_f32((i * 7 % 13) as f32 * 0.037 - 0.2)).collect()
}

struct Data {
    a: DeviceTensor,
    b: [DeviceTensor; 2],
    bias: DeviceTensor,
    unread: DeviceTensor,
    scale: DeviceTensor,
    outputs: [DeviceTensor; 4],
}

impl Data {
    fn new(device: &Device) -> Result<Self, epilogue_runtime::Error> {
        let matrix = |rows, columns| device.tensor(&values(rows * columns), [rows, columns]);
        Ok(Self {
            a: matrix(M, K)?,
            b: [matrix(K, N)?, matrix(N, K)?.transpose()?.contiguous()?],
            bias: device.full::<f32>([N], 0.25)?,
            unread: matrix(M, N)?,
            scale: device.full::<f32>([], 0.5)?,
            outputs: [matrix(M, N)?, device.zeros::<f32>([M, N])?, device.zeros::<f32>([M])?, device.zeros::<f32>([])?],
        })
    }

    fn arguments(&mut self) -> Vec<Argument<'_>> {
        let [state, d, sums, largest] = &mut self.outputs;
        vec![
            Argument::Input(&self.bias),
            Argument::Input(&self.unread),
            Argument::Input(&self.scale),
            Argument::Scalar(0.375),
            Argument::Output(state),
            Argument::Output(d),
            Argument::Output(sums),
            Argument::Output(largest),
        ]
    }

    /// The tensor of an argument's index.
    fn argument(&self, i: usize) -> &DeviceTensor {
        match i {
            0 => &self.bias,
            1 => &self.unread,
            2 => &self.scale,
            _ => &self.outputs[i - 4],
        }
    }

    fn results(&self) -> Vec<Vec<u8>> {
        self.outputs.iter().map(|output| output.to_bytes().expect("bytes")).collect()
    }
}

/// Launches a plan's kernel by nothing but its description.
fn launched(gemm: &Gemm, launch: &LaunchDescription, data: &Data) -> Result<(), epilogue_runtime::Error> {
    let device = gemm.device();
    let counters = device.zeros_of(ElementType::U8, [launch.counter_bytes])?;
    let scratch = device.zeros_of(ElementType::U8, [launch.scratch_bytes])?;
    let tensor = |of: Memory| match of {
        Memory::A => &data.a,
        Memory::B(i) => &data.b[i],
        Memory::Argument(i) => data.argument(i),
        Memory::Counters => &counters,
        // These products have no groups, and their rows are in order.
        Memory::Scratch
        | Memory::Bounds
        | Memory::Index
        | Memory::Places
        | Memory::ScalesOfA
        | Memory::ScalesOfB(_) => &scratch,
    };
    let encoded = |map: &MapDescription| {
        let MapDescription { of, extents, strides, box_extents, swizzle, .. } = map;
        let (tensor, swizzle, l2_promotion) = (tensor(*of), *swizzle, L2Promotion::Bytes256);
        TensorMap::new(&TiledMap { tensor, extents, strides, box_extents, swizzle, l2_promotion })
            .map(|map| *map.as_bytes())
    };
    let bytes = launch.parameter(|of| tensor(of).device_address(), |_| 0.375, encoded)?;
    let memory = [&data.a, &data.bias, &data.unread, &data.scale].into_iter().chain(&data.b);
    let mut arguments = vec![KernelArgument::Value(&bytes)];
    arguments.extend(memory.map(KernelArgument::Reads));
    arguments.extend(data.outputs.iter().chain([&counters, &scratch]).map(KernelArgument::Writes));
    gemm.kernel().expect("a kernel").launch(&launch.launch, &arguments, &device.default_stream())?;
    // Ready for the next launch.
    assert!(counters.to_bytes()?.iter().all(|byte| *byte == 0));
    Ok(())
}

fn a_described_launch_computes_what_a_run_does(arch: Arch, split_k: SplitK) -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::emulated(arch)?;
    let (mut run, mut described) = (Data::new(&device)?, Data::new(&device)?);
    let plan = |data: &Data| {
        let builder = Builder::<()>::new(&device, Everything::tree()).operands(&data.a, [&data.b[0], &data.b[1]])?;
        // Or else the model might take a kernel for sm_80.
        let request = sm90::Request { split_k: Some(split_k), ..sm90::Request::default() };
        if arch == Arch::SM_90A { builder.sm90(request).plan() } else { builder.split_k(split_k).plan() }
    };
    let gemm = plan(&run)?;
    let b = run.b.clone();
    let a = run.a.clone();
    gemm.run_arguments(&device.default_stream(), &a, [&b[0], &b[1]], &run.arguments())?;

    let (a, b) = (described.a.clone(), described.b.clone());
    let launch = gemm.describe_launch(&a, [&b[0], &b[1]], &described.arguments())?;
    assert_eq!(launch.maps.is_empty(), arch == Arch::SM_80);
    let names: Vec<&str> = launch.fields.iter().map(|field| field.name.as_str()).collect();
    for name in ["problem.m", "arguments.bias.pointer", "arguments.alpha", "arguments.state.out.pointer"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for pair in launch.fields.windows(2) {
        assert!(pair[0].offset + pair[0].bytes <= pair[1].offset, "{pair:?}");
    }
    launched(&gemm, &launch, &described)?;
    assert_eq!(described.results(), run.results());
    Ok(())
}

#[test]
fn on_sm_80() -> Result<(), Box<dyn std::error::Error>> {
    let test = "a described launch on sm_80";
    if testing::compiler(test).is_none() {
        return Ok(());
    }
    a_described_launch_computes_what_a_run_does(Arch::SM_80, SplitK::Parallel(2))
}

#[test]
fn on_sm_90a() -> Result<(), Box<dyn std::error::Error>> {
    let test = "a described launch on sm_90a";
    if testing::compiler(test).is_none() {
        return Ok(());
    }
    a_described_launch_computes_what_a_run_does(Arch::SM_90A, SplitK::Stream)
}

#[epilogue]
fn normalised(accum: Accum) -> Tensor<f32> {
    let d = accum / reduction_op(accum, Row, AbsMax);
    d
}

/// The plan has memory between its launches, and a description of one launch has no place for it.
#[test]
fn an_epilogue_of_its_own_reductions_is_more_than_a_launch() -> Result<(), Box<dyn std::error::Error>> {
    if testing::compiler("a described launch of several").is_none() {
        return Ok(());
    }
    for gpu in [GpuModel::A100, GpuModel::H200] {
        let device = epilogue::bundle::Builder::new().target(gpu);
        let matrix = |shape| device.without_memory(ElementType::F16, shape);
        let (a, b, mut d) = (matrix([M, K])?, matrix([K, N])?, device.without_memory(ElementType::F32, [M, N])?);
        // Where rows lie in a tile it is one.
        let in_tile = Gemm::plan::<Normalised>(&device, &a, &b)?;
        assert!(in_tile.describe_launch(&a, &b, &[Argument::Output(&mut d)])?.entry.contains("normalised"));
        let builder = Gemm::builder::<Normalised>(&device).operands(&a, &b)?;
        let gemm = builder.finish(Finish::SecondLaunch).plan()?;
        let refused = gemm.describe_launch(&a, &b, &[Argument::Output(&mut d)]).unwrap_err();
        assert!(refused.to_string().contains("computed from its own reductions"), "{refused}");
        // The kernels are in the bundle all the same, and this run compiles no other.
        gemm.run_on(&device.dry_stream(), &a, &b, Normalised { d: &mut d })?;
    }
    Ok(())
}

#[test]
fn the_cpu_has_no_launch() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let mut data = Data::new(&device)?;
    let (a, b) = (data.a.clone(), data.b.clone());
    let gemm = Builder::<()>::new(&device, Everything::tree()).operands(&a, [&b[0], &b[1]])?.plan()?;
    let refused = gemm.describe_launch(&a, [&b[0], &b[1]], &data.arguments()).unwrap_err();
    assert!(refused.to_string().contains("it runs no kernels"), "{refused}");
    Ok(())
}
