//! The floating-point mode of the thread that calls changes no result: not of plans and runs on the CPU, on emulated GPUs,
//! nor of the reference.

use epilogue::evt::{BroadcastClass, ParameterClass, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::Builder;
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType, ops};
use epilogue_float_mode::testing::{Strange, in_strange_mode};
use epilogue_runtime::testing;

/// `gelu(alpha * accum) + 0.3 * c / 7`, as f32 and bf16, and the sums of its rows.
fn tree() -> Tree {
    let mut b = TreeBuilder::new("scaled", file!());
    let accum = b.accum("accum");
    let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
    let c = b.parameter("c", ParameterClass::Tensor, Some(ElementType::F32));
    let scaled = b.apply(Op::Mul, &[alpha, accum]);
    let active = b.call(ops::gelu::function(), &[scaled]);
    let (three_tenths, seven) = (b.literal(0.3), b.literal(7.0));
    // It is folded.
    let factor = b.apply(Op::Div, &[three_tenths, seven]);
    let rest = b.apply(Op::Mul, &[c, factor]);
    let d = b.apply(Op::Add, &[active, rest]);
    b.output("d", d, BroadcastClass::Tensor, Some(ElementType::F32));
    b.output("narrow", d, BroadcastClass::Tensor, Some(ElementType::BF16));
    b.finish()
}

/// Numbers whose products with each other are subnormal, or numbers that are.
fn numbers(count: usize, least: i32, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut number = || (random.f32() - 0.5) * 2f32.powi(least / 2 + random.i32(0..8)) * 2f32.powi(least / 2);
    (0..count).map(|_| number()).collect()
}

struct Operands {
    a: DeviceTensor,
    b: DeviceTensor,
    c: DeviceTensor,
}

impl Operands {
    fn new(device: &Device, [m, n, k]: [usize; 3]) -> Self {
        let of = |shape: [usize; 2], least, seed| {
            device.tensor(&numbers(shape[0] * shape[1], least, seed), shape).expect("a tensor")
        };
        Self { a: of([m, k], -70, 1), b: of([k, n], -64, 2), c: of([m, n], -140, 3) }
    }

    /// Plans, runs, and asks the reference if wanted; gives the bits of everything.
    fn results(&self, reference: bool) -> Vec<u64> {
        let device = self.a.device();
        let (m, k, n) = (self.a.shape()[0], self.a.shape()[1], self.b.shape()[1]);
        let builder = Builder::<()>::new(device, tree()).elements(ElementType::F32, ElementType::F32).problem(m, n, k);
        let gemm = builder.plan().expect("a plan");
        let mut d = device.zeros::<f32>([m, n]).expect("memory");
        let mut narrow = device.zeros_of(ElementType::BF16, [m, n]).expect("memory");
        let given = [
            ("alpha", Argument::Scalar(0.1)),
            ("c", (&self.c).into()),
            ("d", (&mut d).into()),
            ("narrow", (&mut narrow).into()),
        ];
        let arguments = gemm.bind(given).expect("the arguments");
        let mut bits = Vec::new();
        if reference {
            let reference = gemm.reference_arguments(&self.a, &self.b, &arguments).expect("the reference");
            for output in reference.outputs() {
                let bounds = output.bounds.iter().flat_map(|bounds| [bounds.low, bounds.high]);
                bits.extend(output.values.iter().copied().chain(bounds).map(f64::to_bits));
            }
        }
        gemm.run_arguments(&device.default_stream(), &self.a, &self.b, &arguments).expect("a run");
        drop(arguments);
        for tensor in [&d, &narrow] {
            bits.extend(tensor.to_bytes().expect("bytes").chunks(2).map(|x| u64::from(x[0]) | u64::from(x[1]) << 8));
        }
        bits
    }

    fn check(&self, reference: bool) {
        let right = self.results(reference);
        for strange in Strange::ALL {
            // Which thread computes what is another at each run.
            for _ in 0..3 {
                let results = in_strange_mode(*strange, || self.results(reference));
                let wrong = right.iter().zip(&results).filter(|(x, y)| x != y).count();
                assert_eq!((wrong, results.len()), (0, right.len()), "{strange:?} on {}", self.a.device());
            }
        }
    }
}

#[test]
fn the_callers_floating_point_mode_changes_nothing_on_the_cpu() {
    Operands::new(&Device::cpu(), [300, 200, 64]).check(false);
    Operands::new(&Device::cpu(), [9, 7, 20]).check(true);
}

#[test]
fn the_callers_floating_point_mode_changes_nothing_on_emulated_gpus() {
    if testing::compiler("the_callers_floating_point_mode_changes_nothing_on_emulated_gpus").is_none() {
        return;
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        Operands::new(&Device::emulated(arch).expect("a device"), [70, 40, 36]).check(true);
    }
}
