//! Random epilogues, layouts and shapes, run on a device and compared with the reference.

mod backward;
mod batches;
mod bits;
mod bundle;
mod chance;
mod concurrent;
mod convolution;
mod convolution_boxes;
mod convolution_gradient_boxes;
mod convolution_gradients;
mod convolution_gradients_refused;
mod convolution_groups;
mod convolution_groups_refused;
mod convolution_random;
mod convolution_refused;
mod convolution_windows;
mod depth;
mod described;
mod exponentials;
mod gated;
mod graph;
mod groups;
mod groups_sm90;
mod hopper;
mod in_cluster;
mod in_tile;
mod integers;
mod layout_boxes;
mod layouts;
mod levels;
mod masked;
mod modes;
mod other_gpus;
mod packed;
mod phases;
mod picked;
mod picked_sm90;
mod quantized;
mod quantized_refused;
mod reducers;
mod repack;
mod scaled;
mod scaled_refused;
mod scattered;
mod stream_k;
mod tensor_memory;
mod traced;
mod typed;
mod weights;

use epilogue::evt::random::Choices;
use epilogue::gemm::Arithmetic;
use epilogue::{Device, ElementType};
use epilogue_runtime::testing;
use epilogue_testing::case::{Family, Kernel};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// Kernels of a family, and products run on each.
struct Amount {
    kernels: u32,
    cases: usize,
    largest: usize,
}

/// Runs random products of one family: operands of `element`, multiplied by `arithmetic`.
fn family(device: &Device, element: ElementType, arithmetic: Arithmetic, amount: &Amount) {
    run(device, &Family { elements: (element, element), arithmetic, hopper: false, repacked: false }, amount);
}

fn run(device: &Device, family: &Family, amount: &Amount) {
    let kernels = testing::cases(amount.kernels);
    let config = Config { failure_persistence: None, max_shrink_iters: 60, ..Config::with_cases(kernels) };
    let number = std::cell::Cell::new(0);
    let strategy = (vec(any::<u32>(), 0..120), vec(vec(any::<u32>(), 60), amount.cases));
    TestRunner::new(config)
        .run(&strategy, |(tree, cases)| {
            let this = number.get();
            number.set(this + 1);
            let kernel = Kernel::random(device, family, this, amount.largest, &mut Choices::new(&tree))
                .map_err(TestCaseError::fail)?;
            for case in &cases {
                kernel.case(&mut Choices::new(case)).map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
        .unwrap_or_else(|error| match error {
            proptest::test_runner::TestError::Fail(reason, (tree, cases)) => {
                panic!("{reason}\ntree of {} choices, {} cases, kernel {}", tree.len(), cases.len(), number.get())
            }
            proptest::test_runner::TestError::Abort(reason) => panic!("{reason}"),
        });
}

mod on_the_cpu {
    use super::*;

    const AMOUNT: Amount = Amount { kernels: 25, cases: 40, largest: 65 };

    #[test]
    fn f16() {
        family(&Device::cpu(), ElementType::F16, Arithmetic::Exact, &AMOUNT);
    }

    #[test]
    fn f32() {
        family(&Device::cpu(), ElementType::F32, Arithmetic::Exact, &AMOUNT);
    }

    #[test]
    fn fast_bf16() {
        family(&Device::cpu(), ElementType::F32, Arithmetic::FastBf16, &AMOUNT);
    }

    #[test]
    fn f64() {
        family(&Device::cpu(), ElementType::F64, Arithmetic::Exact, &AMOUNT);
    }

    /// Operands of two types, which are widened on their way, and of 8 bits.
    #[test]
    fn of_other_types() {
        use ElementType::{BF16, F8E4M3, F8E5M2, F16, F32, I8, U8};
        let pairs =
            [(BF16, BF16), (F16, F32), (F32, BF16), (F8E4M3, F16), (F8E5M2, F8E4M3), (I8, I8), (U8, I8), (U8, U8)]
                .into_iter()
                .chain([(F32, I8), (BF16, I8), (F16, U8), (F8E4M3, U8)]);
        for elements in pairs {
            let family = Family { elements, arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
            run(&Device::cpu(), &family, &Amount { kernels: 6, cases: 20, largest: 65 });
        }
    }
}

/// The emitted kernels, compiled to PTX and executed by ptx-vm, with every way of completing asynchronous copies: a
/// kernel that waits too little is right if they complete at once.
mod emulated {
    use epilogue_runtime::Arch;
    use epilogue_runtime::ptx_vm::{Arithmetic as Sums, Completion, Detector, Generation, Options};

    use super::*;

    const AMOUNT: Amount = Amount { kernels: 8, cases: 40, largest: 97 };

    fn emulated(test: &str, element: ElementType, arithmetic: Arithmetic, options: Options) {
        on_arch(test, Arch::SM_80, element, arithmetic, options, &AMOUNT);
    }

    fn on_arch(
        test: &str,
        arch: Arch,
        element: ElementType,
        arithmetic: Arithmetic,
        options: Options,
        amount: &Amount,
    ) {
        if testing::compiler(test).is_none() {
            return;
        }
        let device = Device::emulated_with(arch, options).expect("an emulated device");
        family(&device, element, arithmetic, amount);
    }

    #[test]
    fn f16() {
        let options = Options::default().completion(Completion::Lazy);
        emulated("emulated::f16", ElementType::F16, Arithmetic::Exact, options);
    }

    #[test]
    fn bf16() {
        let options = Options::default().completion(Completion::Random).arithmetic(Sums::Exact(Generation::Ampere));
        emulated("emulated::bf16", ElementType::BF16, Arithmetic::Exact, options);
    }

    #[test]
    fn tf32() {
        let options = Options::default().completion(Completion::Random).seed(7);
        emulated("emulated::tf32", ElementType::F32, Arithmetic::Tf32, options);
    }

    /// f32 operands rounded to bf16, on sm_80 and on sm_90a. The family of sm_90a has no kernels for them.
    #[test]
    fn fast_bf16() {
        let options = Options::default().completion(Completion::Random).arithmetic(Sums::Exact(Generation::Ampere));
        emulated("emulated::fast_bf16", ElementType::F32, Arithmetic::FastBf16, options);
        let (amount, options) =
            (Amount { kernels: 4, cases: 6, largest: 65 }, Options::default().detector(Detector::On));
        let name = "emulated::fast_bf16";
        on_arch(name, Arch::SM_90A, ElementType::F32, Arithmetic::FastBf16, options, &amount);
    }

    #[test]
    fn f32() {
        emulated("emulated::f32", ElementType::F32, Arithmetic::Exact, Options::default());
    }

    #[test]
    fn f64() {
        let options = Options::default().completion(Completion::Lazy);
        emulated("emulated::f64", ElementType::F64, Arithmetic::Exact, options);
    }

    /// 8-bit operands, of one type and of two, on kernels for sm_80: compiled for it, where FP8 is converted by integer
    /// operations, and for sm_90a, which has instructions for the conversion.
    #[test]
    fn of_8_bits() {
        use ElementType::{F8E4M3, F8E5M2, I8, U8};
        const NAME: &str = "emulated::of_8_bits";
        if testing::compiler(NAME).is_none() {
            return;
        }
        let options = [
            Options::default().completion(Completion::Random).seed(2),
            Options::default().completion(Completion::Lazy).arithmetic(Sums::Exact(Generation::Ampere)),
            Options::default().detector(Detector::On),
        ];
        for (i, (a, b, kernels)) in [
            (I8, I8, 7),
            (U8, I8, 3),
            (I8, U8, 3),
            (U8, U8, 3),
            (F8E4M3, F8E4M3, 6),
            (F8E5M2, F8E4M3, 4),
            (F8E4M3, F8E5M2, 3),
        ]
        .into_iter()
        .enumerate()
        {
            let arch = if i % 3 == 2 { Arch::SM_90A } else { Arch::SM_80 };
            let device = Device::emulated_with(arch, options[i % 3].clone()).expect("an emulated device");
            let family = Family { elements: (a, b), arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
            run(&device, &family, &Amount { kernels, cases: 12, largest: 97 });
        }
    }

    /// Weights of 8 bits, converted to the activations' 16: on kernels for sm_80, which sm_90a has too.
    #[test]
    fn of_8_bit_weights() {
        use ElementType::{BF16, F8E4M3, F8E5M2, F16, I8, U8};
        if testing::compiler("emulated::of_8_bit_weights").is_none() {
            return;
        }
        let options = [
            Options::default().completion(Completion::Random).seed(3),
            Options::default().completion(Completion::Lazy).arithmetic(Sums::Exact(Generation::Ampere)),
            Options::default().detector(Detector::On),
        ];
        let pairs = [(F16, I8), (BF16, I8), (F16, U8), (BF16, U8), (F16, F8E4M3), (BF16, F8E4M3), (BF16, F8E5M2)];
        for (i, elements) in pairs.into_iter().enumerate() {
            let arch = if i % 3 == 2 { Arch::SM_90A } else { Arch::SM_80 };
            let device = Device::emulated_with(arch, options[i % 3].clone()).expect("an emulated device");
            let family = Family { elements, arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
            run(&device, &family, &Amount { kernels: 4, cases: 12, largest: 97 });
        }
    }

    #[test]
    fn on_sm_90a() {
        let amount = Amount { kernels: 6, cases: 20, largest: 65 };
        let options = Options::default().arithmetic(Sums::Exact(Generation::Hopper));
        on_arch("emulated::on_sm_90a", Arch::SM_90A, ElementType::F16, Arithmetic::Exact, options, &amount);
    }

    /// The kernels for sm_90a: every tile, cluster, raster, split and layout of the family.
    fn hopper(test: &str, element: ElementType, arithmetic: Arithmetic, options: Options, amount: &Amount) {
        if testing::compiler(test).is_none() {
            return;
        }
        let device = Device::emulated_with(Arch::SM_90A, options).expect("an emulated device");
        run(&device, &Family { elements: (element, element), arithmetic, hopper: true, repacked: false }, amount);
    }

    #[test]
    fn wgmma_f16() {
        let amount = Amount { kernels: 7, cases: 12, largest: 130 };
        let options = Options::default().completion(Completion::Random).seed(11);
        hopper("emulated::wgmma_f16", ElementType::F16, Arithmetic::Exact, options, &amount);
    }

    #[test]
    fn wgmma_bf16() {
        let amount = Amount { kernels: 7, cases: 12, largest: 130 };
        let options = Options::default().completion(Completion::Lazy).arithmetic(Sums::Exact(Generation::Hopper));
        hopper("emulated::wgmma_bf16", ElementType::BF16, Arithmetic::Exact, options, &amount);
    }

    #[test]
    fn wgmma_of_8_bits_and_tf32() {
        let amount = Amount { kernels: 3, cases: 10, largest: 97 };
        let options = Options::default().completion(Completion::Random).seed(3);
        let exact = options.clone().arithmetic(Sums::Exact(Generation::Hopper));
        for (element, options) in [
            (ElementType::F8E4M3, &exact),
            (ElementType::F8E5M2, &options),
            (ElementType::I8, &options),
            (ElementType::U8, &options),
        ] {
            hopper("emulated::wgmma_of_8_bits_and_tf32", element, Arithmetic::Exact, options.clone(), &amount);
        }
        let name = "emulated::wgmma_of_8_bits_and_tf32";
        hopper(name, ElementType::F32, Arithmetic::Tf32, exact.clone(), &amount);
        hopper(name, ElementType::F8E4M3, Arithmetic::FastFp8, exact, &amount);
        hopper(name, ElementType::F8E5M2, Arithmetic::FastFp8, options.clone(), &amount);
        // A and B of different types, rows being M and N.
        let device = Device::emulated_with(Arch::SM_90A, options).expect("an emulated device");
        for (elements, arithmetic) in [
            ((ElementType::F8E5M2, ElementType::F8E4M3), Arithmetic::Exact),
            ((ElementType::F8E4M3, ElementType::F8E5M2), Arithmetic::FastFp8),
            ((ElementType::U8, ElementType::I8), Arithmetic::Exact),
        ] {
            run(&device, &Family { elements, arithmetic, hopper: true, repacked: false }, &amount);
        }
    }

    /// The kernels for sm_100a, likewise.
    #[test]
    fn tcgen05_of_every_type() {
        const NAME: &str = "emulated::tcgen05_of_every_type";
        if testing::compiler(NAME).is_none() {
            return;
        }
        let amount = Amount { kernels: 3, cases: 10, largest: 130 };
        let options = Options::default().completion(Completion::Random).seed(13);
        let exact = Options::default().completion(Completion::Lazy).arithmetic(Sums::Exact(Generation::Blackwell));
        let raced = options.clone().detector(Detector::On);
        let same = |element| (element, element);
        for (elements, arithmetic, options) in [
            (same(ElementType::F16), Arithmetic::Exact, &raced),
            (same(ElementType::BF16), Arithmetic::Exact, &exact),
            (same(ElementType::F32), Arithmetic::Tf32, &exact),
            (same(ElementType::F8E4M3), Arithmetic::Exact, &exact),
            ((ElementType::F8E5M2, ElementType::F8E4M3), Arithmetic::FastFp8, &exact),
            (same(ElementType::I8), Arithmetic::Exact, &raced),
            ((ElementType::U8, ElementType::I8), Arithmetic::Exact, &options),
        ] {
            let device = Device::emulated_with(Arch::SM_100A, options.clone()).expect("an emulated device");
            run(&device, &Family { elements, arithmetic, hopper: true, repacked: false }, &amount);
        }
    }

    /// Weights of 8 bits, converted to the activations' 16 on their way to the instruction; also of copies, without which the
    /// kernels take them along K only.
    #[test]
    fn wgmma_of_8_bit_weights() {
        use ElementType::{BF16, F8E4M3, F8E5M2, F16, I8, U8};
        if testing::compiler("emulated::wgmma_of_8_bit_weights").is_none() {
            return;
        }
        let options = [
            Options::default().completion(Completion::Random).seed(8),
            Options::default().completion(Completion::Lazy).arithmetic(Sums::Exact(Generation::Hopper)),
            Options::default().detector(Detector::On).completion(Completion::Random),
        ];
        let pairs = [
            (F16, I8),
            (BF16, I8),
            (F16, F8E5M2),
            (F16, U8),
            (BF16, U8),
            (BF16, F8E4M3),
            (F16, F8E4M3),
            (BF16, F8E5M2),
        ];
        for (i, elements) in pairs.into_iter().enumerate() {
            let device = Device::emulated_with(Arch::SM_90A, options[i % 3].clone()).expect("an emulated device");
            let amount = Amount { kernels: 6, cases: if i % 3 == 2 { 4 } else { 10 }, largest: 130 };
            run(&device, &Family { elements, arithmetic: Arithmetic::Exact, hopper: true, repacked: i > 5 }, &amount);
        }
    }

    /// Operands that tensor copies can't reach: rows that begin anywhere, any major, any strides, with every size of
    /// element.
    #[test]
    fn wgmma_of_copies() {
        if testing::compiler("emulated::wgmma_of_copies").is_none() {
            return;
        }
        let options = Options::default().completion(Completion::Random).seed(5);
        let checked = Options::default().detector(Detector::On);
        for (element, arithmetic, options, kernels) in [
            (ElementType::F16, Arithmetic::Exact, &options, 4),
            (ElementType::BF16, Arithmetic::Exact, &checked, 3),
            (ElementType::F32, Arithmetic::Tf32, &options, 4),
            (ElementType::F8E4M3, Arithmetic::Exact, &options, 4),
            (ElementType::I8, Arithmetic::Exact, &options, 4),
            (ElementType::U8, Arithmetic::Exact, &checked, 3),
        ] {
            let device = Device::emulated_with(Arch::SM_90A, options.clone()).expect("an emulated device");
            let amount = Amount { kernels, cases: 10, largest: 130 };
            run(&device, &Family { elements: (element, element), arithmetic, hopper: true, repacked: true }, &amount);
        }
    }

    #[test]
    fn wgmma_without_races() {
        let amount = Amount { kernels: 6, cases: 3, largest: 97 };
        let options = Options::default().detector(Detector::On);
        hopper("emulated::wgmma_without_races", ElementType::F16, Arithmetic::Exact, options, &amount);
    }

    /// With the race detector on: its findings fail the launch.
    #[test]
    fn without_races() {
        let amount = Amount { kernels: 6, cases: 8, largest: 65 };
        let options = Options::default().detector(Detector::On);
        for (element, arithmetic) in [(ElementType::F16, Arithmetic::Exact), (ElementType::F32, Arithmetic::Tf32)] {
            on_arch("emulated::without_races", Arch::SM_80, element, arithmetic, options.clone(), &amount);
        }
    }
}
