//! GPUs that run the kernels for sm_80 and are no A100: their instructions for FP8, their arithmetic, their shared memory.

use epilogue::bundle::{Builder as Bundler, Bundle};
use epilogue::evt::reference::{Fp8Adder, Multiplication};
use epilogue::gemm::{
    self, Arithmetic, Comparison, Instruction, KernelKey, Major, NativeFp8, OperandLayout, sm90, supports,
};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, ElementType, Error};
use epilogue_runtime::ptx_vm::{self, Arithmetic as Sums, Completion, Detector, Generation, Options};
use epilogue_runtime::testing;
use epilogue_testing::case::Family;

use crate::scaled::Plain;
use crate::{Amount, run};

/// The arithmetic of an architecture's tensor cores.
fn exact(arch: Arch) -> Options {
    let known: ptx_vm::Arch = arch.to_string().parse().expect("an architecture");
    Options::default().arithmetic(Sums::Exact(known.generation()))
}

fn instruction(choice: &gemm::Choice) -> Instruction {
    match &choice.kernel().expect("a kernel").key {
        KernelKey::Sm80(key) => key.instruction,
        KernelKey::Sm90(_) => panic!("of another family: {choice}"),
    }
}

/// FP8 numbers of one kind: of all magnitudes; few large ones among the smallest; of similar size and one sign.
fn numbers(device: &Device, [rows, depth]: [usize; 2], kind: usize, seed: u64) -> Result<DeviceTensor, Error> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut number = || {
        let (sign, mantissa) = ([1.0, -1.0][chance.usize(..2)], 1.0 + f32::from(chance.u8(..8)) / 8.0);
        match kind {
            0 => sign * mantissa * 2f32.powi(chance.i32(-6..8)),
            1 if chance.usize(..16) == 0 => sign * 448.0,
            1 => sign * f32::from(chance.u8(..8)) / 512.0,
            _ => mantissa,
        }
    };
    let values: Vec<f8e4m3> = (0..rows * depth).map(|_| f8e4m3::from_f32(number())).collect();
    Ok(device.tensor(&values, [rows, depth])?)
}

const EXTENTS: [usize; 3] = [40, 33, 1300];

/// The product of FP8 numbers of one kind, compared with the bounds of the chosen kernel's instruction. Operands are
/// contiguous along K, or else along M and N.
fn compared(device: &Device, arithmetic: Arithmetic, kind: usize, along_k: bool) -> Result<Comparison, Error> {
    let [m, n, k] = EXTENTS;
    let transposed = |rows| Ok::<_, Error>(numbers(device, [k, rows], kind, rows as u64)?.transpose()?);
    let (a, b) = if along_k {
        (numbers(device, [m, k], kind, 1)?, numbers(device, [n, k], kind, 2)?.transpose()?)
    } else {
        (transposed(m)?, numbers(device, [k, n], kind, 3)?)
    };
    let builder = Gemm::builder::<Plain>(device).operands(&a, &b)?.arithmetic(arithmetic);
    // A product so small may take a kernel for sm_80.
    let own = device.arch() == Some(Arch::SM_100A);
    let gemm = if own { builder.sm100(sm90::Request::default()) } else { builder }.plan()?;
    let mut d = device.zeros::<f32>([m, n])?;
    let expected = gemm.reference(&a, &b, Plain { accum: &mut d })?;
    gemm.run(&a, &b, Plain { accum: &mut d })?;
    expected.compare("accum", &d)
}

#[test]
fn fp8_is_multiplied_by_what_the_gpu_has() {
    use Arithmetic::{Exact, FastFp8};
    let through_f16 = |arch| (arch, [None, None]);
    let native = |exact, fast| [Some(exact), Some(fast)];
    for (arch, expected) in [
        through_f16(Arch::SM_80),
        through_f16(Arch::SM_86),
        through_f16(Arch::SM_87),
        (Arch::SM_89, native(Fp8Adder::PromotedAda, Fp8Adder::Ada)),
        (Arch::SM_120A, native(Fp8Adder::Blackwell, Fp8Adder::Blackwell)),
        (Arch::SM_121A, native(Fp8Adder::Blackwell, Fp8Adder::Blackwell)),
    ] {
        let device = Device::emulated(arch).expect("a device");
        for (arithmetic, expected) in [Exact, FastFp8].into_iter().zip(expected) {
            for (a, b) in [(ElementType::F8E4M3, ElementType::F8E4M3), (ElementType::F8E5M2, ElementType::F8E4M3)] {
                supports(&device, (a, b, arithmetic)).expect("it multiplies them");
                let builder = Gemm::builder::<Plain>(&device).elements(a, b).arithmetic(arithmetic);
                let choice = builder.problem(2048, 2048, 2048).choose().expect("a choice");
                let adder = match instruction(&choice) {
                    Instruction::MmaNativeFp8(NativeFp8 { adder, .. }) => Some(adder),
                    Instruction::MmaFp8(_) => None,
                    other => panic!("{other}"),
                };
                assert_eq!(adder, expected, "{arch}: {choice}");
                // Bundles for sm_80 have kernels for these.
                let all = choice.candidates().iter().filter_map(|candidate| match candidate.key {
                    KernelKey::Sm80(key) => Some(key.instruction),
                    KernelKey::Sm90(_) => None,
                });
                assert!(all.into_iter().any(|own| matches!(own, Instruction::MmaFp8(_))), "{arch}");
            }
        }
    }
}

#[test]
fn no_kernel_needs_more_shared_memory_than_the_gpu_has() {
    for (arch, kilobytes) in [(Arch::SM_80, 163), (Arch::SM_87, 163)]
        .into_iter()
        .chain([Arch::SM_86, Arch::SM_89, Arch::SM_120A, Arch::SM_121A].map(|arch| (arch, 99)))
    {
        let device = Device::emulated(arch).expect("a device");
        assert_eq!(device.properties().shared_bytes_per_block, kilobytes << 10, "{arch}");
        for element in [ElementType::F16, ElementType::F8E4M3, ElementType::I8, ElementType::F64] {
            let builder = Gemm::builder::<Plain>(&device).elements(element, element);
            let choice = builder.problem(4096, 4096, 4096).choose().expect("a choice");
            for candidate in choice.candidates() {
                let KernelKey::Sm80(key) = candidate.key else { panic!("of another family: {choice}") };
                let needed = key.tile.shared_bytes(key.instruction);
                assert!(needed <= (kilobytes << 10) as usize, "{arch}: {candidate}");
            }
        }
    }
    // The largest 16-bit tiles, which an A100 has room for.
    let deep = gemm::Tile::all(Instruction::MmaF16)[1];
    let of = |arch| {
        let device = Device::emulated(arch).expect("a device");
        let elements = (ElementType::F16, ElementType::F16);
        let builder = Gemm::builder::<Plain>(&device).elements(elements.0, elements.1).tile(deep);
        builder.problem(4096, 4096, 4096).choose().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!((of(Arch::SM_80), of(Arch::SM_87)), (Ok(()), Ok(())));
    let refused = of(Arch::SM_120A).expect_err("it has no room");
    assert!(refused.contains("101376"), "{refused}");
}

/// With the bits that the tensor cores give, whatever the magnitudes. The bounds notice tensor cores that keep fewer bits
/// than those of the kernel's GPU, and sums that should have been promoted.
#[test]
fn fp8_sums_lie_in_the_bounds_of_their_gpu() -> Result<(), Error> {
    if testing::compiler("other_gpus::fp8_sums_lie_in_the_bounds_of_their_gpu").is_none() {
        return Ok(());
    }
    use Arithmetic::{Exact, FastFp8};
    for (arch, arithmetic) in
        [(Arch::SM_89, Exact), (Arch::SM_89, FastFp8), (Arch::SM_100A, Exact), (Arch::SM_120A, Exact)]
    {
        let options = exact(arch).detector(Detector::On).completion(Completion::Random);
        let device = Device::emulated_with(arch, options)?;
        for kind in 0..3 {
            for along_k in [true, false] {
                if let Err(error) = compared(&device, arithmetic, kind, along_k)?.check() {
                    panic!("{arch}, {arithmetic}, kind {kind}: {error}");
                }
            }
        }
    }
    let of_ada = Options::default().arithmetic(Sums::Exact(Generation::Ada));
    let device = Device::emulated_with(Arch::SM_120A, of_ada.clone())?;
    assert!(compared(&device, Exact, 2, true)?.check().is_err(), "14 bits are too few there");
    // The kernel that doesn't promote, with the bounds of the one that does.
    let device = Device::emulated_with(Arch::SM_89, of_ada)?;
    let worst = |arithmetic| Ok::<_, Error>(compared(&device, arithmetic, 2, true)?.largest_error());
    assert!(worst(FastFp8)? > 4.0 * worst(Exact)?);
    Ok(())
}

/// Random epilogues on every tile, layout and split, with every way of completing copies, and with the race detector.
#[test]
fn random_kernels() {
    if testing::compiler("other_gpus::random_kernels").is_none() {
        return;
    }
    use ElementType::{BF16, F8E4M3, F8E5M2, F16, I8};
    let cases = [
        (Arch::SM_89, (F8E4M3, F8E4M3), Arithmetic::Exact, 5),
        (Arch::SM_120A, (F8E4M3, F8E4M3), Arithmetic::Exact, 5),
        (Arch::SM_89, (F8E5M2, F8E4M3), Arithmetic::FastFp8, 3),
        (Arch::SM_121A, (F8E4M3, F8E5M2), Arithmetic::Exact, 3),
        (Arch::SM_89, (F8E5M2, F8E5M2), Arithmetic::Exact, 2),
        (Arch::SM_120A, (BF16, BF16), Arithmetic::Exact, 3),
        (Arch::SM_86, (F16, F16), Arithmetic::Exact, 2),
        (Arch::SM_89, (F16, F16), Arithmetic::Exact, 2),
        (Arch::SM_87, (I8, I8), Arithmetic::Exact, 2),
    ];
    for (i, (arch, elements, arithmetic, kernels)) in cases.into_iter().enumerate() {
        let completion = [Completion::Random, Completion::Lazy, Completion::Eager][i % 3];
        let options = exact(arch).detector(Detector::On).completion(completion).seed(i as u64);
        let device = Device::emulated_with(arch, options).expect("an emulated device");
        let family = Family { elements, arithmetic, hopper: false, repacked: false };
        run(&device, &family, &Amount { kernels, cases: 4, largest: 97 });
    }
}

/// A device with a bundle takes FP8 kernels for an older GPU, if the bundle has no others. Its results lie in the bounds of
/// those.
#[test]
fn a_bundle_for_sm_80_serves_sm_89() -> Result<(), Error> {
    if testing::compiler("other_gpus::a_bundle_for_sm_80_serves_sm_89").is_none() {
        return Ok(());
    }
    let [m, n, k] = EXTENTS;
    let bundler = Bundler::new();
    let plan = |device: &Device| {
        let (a, b) = (numbers(device, [m, k], 0, 1)?, numbers(device, [n, k], 0, 2)?.transpose()?);
        Gemm::builder::<Plain>(device).operands(&a, &b)?.plan()
    };
    // Rows of 1300 bytes.
    let layout = OperandLayout { major: Major::K, copy_bytes: 4 };
    let on_target = Gemm::builder::<Plain>(&bundler.emulated_target(Arch::SM_80)?)
        .elements(ElementType::F8E4M3, ElementType::F8E4M3)
        .layouts(layout, layout)
        .problem(m, n, k)
        .plan()?;
    let device = Device::emulated(Arch::SM_89)?;
    assert!(matches!(instruction(plan(&device)?.choice()), Instruction::MmaNativeFp8(_)));
    Bundle::from_bytes(bundler.to_bytes()).expect("a bundle").install(&device).expect("it is for sm_89, too");
    let gemm = plan(&device)?;
    assert_eq!(gemm.choice().kernel().map(|kernel| kernel.key), on_target.choice().kernel().map(|kernel| kernel.key));
    assert_eq!(gemm.choice().kernel().map(|kernel| kernel.key.multiplication()), Some(Multiplication::Exact));
    assert!(gemm.choice().to_string().contains("the best that the bundle holds"), "{}", gemm.choice());
    compared(&device, Arithmetic::Exact, 0, true)?.check().unwrap_or_else(|error| panic!("{error}"));
    Ok(())
}
