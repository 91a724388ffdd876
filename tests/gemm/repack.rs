//! Operands that a kernel for sm_90a can't load as they are: the chosen kernels, and their results.

use epilogue::evt::{BroadcastClass, Tree, TreeBuilder};
use epilogue::gemm::{Arithmetic, Builder, KernelKey, Major, OperandLayout};
use epilogue::{Argument, Device, DeviceTensor, ElementType, Gemm};
use epilogue_runtime::ptx_vm::{Detector, Options};
use epilogue_runtime::{Arch, testing};

fn product(output: ElementType) -> Tree {
    let mut b = TreeBuilder::new("product", file!());
    let accum = b.accum("accum");
    b.output("d", accum, BroadcastClass::Tensor, Some(output));
    b.finish()
}

fn hopper() -> Device {
    Device::emulated_with(Arch::SM_90A, Options::default().detector(Detector::On)).expect("an emulated device")
}

fn builder(device: &Device, element: ElementType, [m, n, k]: [usize; 3]) -> Builder {
    let output = if element == ElementType::I8 { ElementType::I32 } else { ElementType::F32 };
    Builder::new(device, product(output)).elements(element, element).problem(m, n, k)
}

const fn layout(major: Major, copy_bytes: usize) -> OperandLayout {
    OperandLayout { major, copy_bytes }
}

/// The family that is chosen, and the printed reason for copies.
fn choice(element: ElementType, extents: [usize; 3], a: OperandLayout, b: OperandLayout) -> (Arch, String) {
    let choice = builder(&hopper(), element, extents).layouts(a, b).choose().expect("a kernel");
    let text = choice.to_string();
    let copies = text.split("; ").find(|part| part.contains("copied first")).unwrap_or_default();
    let copies = copies.split(", about").next().unwrap_or_default().to_owned();
    (choice.kernel().expect("a GPU").key.family(), copies)
}

#[test]
fn the_model_says_what_is_copied_and_why() {
    let (k, mn) = (layout(Major::K, 16), layout(Major::Mn, 16));
    let odd = layout(Major::K, 2);
    let large = [4096, 4096, 4096];
    // Nothing needs to be copied.
    assert_eq!(choice(ElementType::BF16, large, k, mn), (Arch::SM_90A, String::new()));
    // For a large product, copies of its operands pay; for a small one they don't.
    let (family, why) = choice(ElementType::BF16, large, odd, mn);
    assert_eq!(
        (family, why.as_str()),
        (Arch::SM_90A, "A is copied first (its rows don't begin at multiples of 16 bytes)")
    );
    let (family, why) = choice(ElementType::BF16, [64, 64, 64], odd, odd);
    assert_eq!((family, why.as_str()), (Arch::SM_80, ""));
    // 8-bit operands are transposed by kernels for sm_80 while they are loaded, or copied first.
    let (family, why) = choice(ElementType::F8E4M3, [64, 64, 64], k, mn);
    assert_eq!((family, why.as_str()), (Arch::SM_80, ""));
    let (family, why) = choice(ElementType::F8E4M3, large, k, mn);
    assert_eq!(
        (family, why.as_str()),
        (Arch::SM_90A, "B is copied first (the instruction takes it contiguous along K only)")
    );
    let (_, why) = choice(ElementType::I8, large, mn, mn);
    assert_eq!(why, "A and B are copied first (the instruction takes them contiguous along K only)");
    let (_, why) = choice(ElementType::I8, large, layout(Major::K, 1), mn);
    assert_eq!(
        why,
        "A is copied first (its rows don't begin at multiples of 16 bytes) and B (the instruction takes it contiguous \
         along K only)"
    );
}

#[test]
fn whether_copies_pay_is_measured() {
    let (odd, mn) = (layout(Major::K, 2), layout(Major::Mn, 16));
    let choice = builder(&hopper(), ElementType::BF16, [4096; 3]).layouts(odd, mn).choose().expect("a kernel");
    let list = choice.shortlist();
    assert!((2..=8).contains(&list.len()));
    assert!(!list[0].repacking.is_none() && list.iter().any(|candidate| candidate.repacking.is_none()));
    let bytes = builder(&hopper(), ElementType::F8E4M3, [8192; 3]).choose().expect("a kernel").shortlist();
    assert!(!bytes[0].repacking.is_none() && bytes.iter().any(|candidate| candidate.repacking.is_none()));
}

#[test]
fn a_kernel_for_sm_90a_that_was_asked_for_is_what_runs() {
    let request = epilogue::gemm::sm90::Request::default();
    let asked = sm90_request(request);
    assert!(matches!(asked, KernelKey::Sm90(_)));
}

fn sm90_request(request: epilogue::gemm::sm90::Request) -> KernelKey {
    let narrow = layout(Major::Mn, 4);
    let builder = builder(&hopper(), ElementType::F16, [40, 48, 24]).layouts(narrow, narrow).sm90(request);
    builder.choose().expect("a kernel").kernel().expect("a GPU").key
}

/// `[rows, columns]` of small integers, different in each batch.
fn matrix(device: &Device, element: ElementType, shape: &[usize], seed: usize) -> (DeviceTensor, Vec<i64>) {
    let count: usize = shape.iter().product();
    let values: Vec<i64> = (0..count).map(|i| ((i * 7 + seed * 13 + i / 5) % 5) as i64 - 2).collect();
    let real: Vec<f64> = values.iter().map(|x| *x as f64).collect();
    let bytes = epilogue::evt::reference::encode(element, &real);
    (device.tensor_from_bytes(element, &bytes, shape).expect("memory"), values)
}

/// A·B of integers: exact in every type here.
fn expected(a: &[i64], b: &[i64], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let entry = |i: usize, j: usize| (0..k).map(|x| a[i * k + x] * b[x * n + j]).sum::<i64>() as f64;
    (0..m * n).map(|at| entry(at / n, at % n)).collect()
}

fn run(gemm: &Gemm, a: &DeviceTensor, b: &DeviceTensor, shape: &[usize], element: ElementType) -> Vec<f64> {
    let device = gemm.device();
    let output = if element == ElementType::I8 { ElementType::I32 } else { ElementType::F32 };
    let mut d = device.zeros_of(output, shape).expect("memory");
    gemm.run_arguments(&device.default_stream(), a, b, &[Argument::Output(&mut d)]).expect("a run");
    epilogue::evt::reference::decode(output, &d.to_bytes().expect("bytes"))
}

/// One plan for packed operands takes operands with any other layouts and extents, one after another, in the same
/// memory.
#[test]
fn a_plan_for_packed_operands_takes_any() {
    if testing::compiler("a_plan_for_packed_operands_takes_any").is_none() {
        return;
    }
    let device = hopper();
    for (element, arithmetic) in [
        (ElementType::F8E5M2, Arithmetic::Exact),
        (ElementType::I8, Arithmetic::Exact),
        (ElementType::F32, Arithmetic::Tf32),
        (ElementType::F16, Arithmetic::Exact),
    ] {
        let packed = layout(Major::K, 16);
        let request = epilogue::gemm::sm90::Request::default();
        let gemm = builder(&device, element, [64, 64, 64]).arithmetic(arithmetic).layouts(packed, packed).sm90(request);
        let gemm = gemm.plan().expect("a plan");
        for (m, n, k) in [(5, 9, 33), (70, 17, 131), (1, 1, 1), (33, 130, 7)] {
            let (a, a_values) = matrix(&device, element, &[m, k], 1);
            let (b, b_values) = matrix(&device, element, &[k, n], 2);
            let d = run(&gemm, &a, &b, &[m, n], element);
            assert_eq!(d, expected(&a_values, &b_values, [m, n, k]), "{element} {m}x{n}x{k}");
        }
        // All batches of A have the same memory; B is different in every batch, and contiguous along neither axis.
        let (m, n, k, batch) = (19, 21, 37, 3);
        let (a, a_values) = matrix(&device, element, &[m, k], 3);
        let a = a.broadcast_to([batch, m, k]).expect("a view");
        let (wide, _) = matrix(&device, element, &[batch, k, n, 2], 4);
        let b = wide.slice(3, 1..2).and_then(|b| b.reshape([batch, k, n])).expect("a view");
        let b_values: Vec<i64> = epilogue::evt::reference::decode(element, &b.to_bytes().expect("bytes"))
            .iter()
            .map(|x| *x as i64)
            .collect();
        let d = run(&gemm, &a, &b, &[batch, m, n], element);
        let each = b_values.chunks(k * n).flat_map(|b| expected(&a_values, b, [m, n, k]));
        assert_eq!(d, each.collect::<Vec<_>>(), "{element}, batched");
    }
}

#[test]
fn nothing_to_multiply_is_nothing_to_copy() {
    if testing::compiler("nothing_to_multiply_is_nothing_to_copy").is_none() {
        return;
    }
    let device = hopper();
    let gemm = builder(&device, ElementType::F8E4M3, [64, 64, 64]).plan().expect("a plan");
    for (m, n, k) in [(3, 5, 0), (0, 5, 3), (3, 0, 5)] {
        let (a, _) = matrix(&device, ElementType::F8E4M3, &[m, k], 1);
        let (b, _) = matrix(&device, ElementType::F8E4M3, &[k, n], 2);
        assert_eq!(run(&gemm, &a, &b, &[m, n], ElementType::F8E4M3), vec![0.0; m * n]);
    }
}
