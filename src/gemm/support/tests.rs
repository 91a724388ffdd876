//! The tables in the documentation agree with plans: every cell is checked by one or more plans on a device.

use std::fmt::Write as _;

use epilogue_runtime::{Arch, GpuModel};
use expect_test::expect_file;

use super::*;
use crate::ElementType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, U8};
use crate::evt::reference::Multiplication;
use crate::evt::{Axis, BroadcastClass, Form, ReduceOp, Reduction, Tree, TreeBuilder};
use crate::gemm::kernel::{Finish, SplitK};
use crate::gemm::problem::{CodeType, Major, OperandLayout, PatchBoxes, Property, Quantization, ZeroPoints};
use crate::gemm::{Builder, Candidate, Instruction, Tile, Window, gradient_patches, sm90};
use crate::tuning::{MachineCode, Tuning};

/// Element types that are supported alike.
const GROUPS: [(&str, &[ElementType]); 8] = [
    ("f64", &[F64]),
    ("f32", &[F32]),
    ("bf16", &[BF16]),
    ("f16", &[F16]),
    ("FP8", &[F8E4M3, F8E5M2]),
    ("8-bit integer", &[I8, U8]),
    ("i32", &[I32]),
    ("i64", &[I64]),
];

/// Patches whose K is 2048.
const BOXES: PatchBoxes = PatchBoxes { axes: 2, taps: 8, channels: 256 };

fn devices() -> [Device; 4] {
    let emulated = |arch| Device::emulated(arch).expect("an emulated device");
    [emulated(Arch::SM_80), emulated(Arch::SM_90A), emulated(Arch::SM_100A), Device::cpu()]
}

/// The accumulator, divided by the sums of its rows: of two phases.
fn normalised() -> Tree {
    let mut builder = TreeBuilder::new("normalised", file!());
    let accum = builder.accum("accum");
    let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
    let sums = builder.reduce(sum, accum);
    let d = builder.apply(crate::expr::Op::Div, &[accum, sums]);
    builder.output("d", d, BroadcastClass::Tensor, None);
    builder.finish()
}

/// The accumulator, stored as `output`.
fn tree(output: Option<ElementType>) -> Tree {
    let mut builder = TreeBuilder::new("plain", file!());
    let accum = builder.accum("accum");
    builder.output("d", accum, BroadcastClass::Tensor, output);
    builder.finish()
}

fn builder(device: &Device, a: ElementType, b: ElementType) -> Builder {
    Builder::new(device, tree(None)).elements(a, b).problem(256, 256, 256)
}

/// A row of a table.
fn row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::from("|");
    for cell in cells {
        let _ = write!(text, " {cell} |");
    }
    text + "\n"
}

const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "–" }
}

/// Whether a device multiplies two types; checks that [`supports`] and a plan agree.
fn is_multiplied(device: &Device, a: ElementType, b: ElementType) -> bool {
    let said = supports(device, (a, b)).is_ok();
    let planned = builder(device, a, b).choose();
    assert_eq!(said, planned.is_ok(), "{a} by {b} on {device}: {planned:?}");
    said
}

/// The table of products by device.
fn products() -> String {
    let mut rows: Vec<(ElementType, [bool; 4], Vec<String>)> = Vec::new();
    let mut add = |accumulator, taken, label| match rows.iter_mut().find(|row| (row.0, row.1) == (accumulator, taken)) {
        Some((_, _, labels)) => labels.push(label),
        None if taken != [false; 4] => rows.push((accumulator, taken, vec![label])),
        None => {}
    };
    let devices = devices();
    let taken = |(first, of_a): (&str, &[ElementType]), (second, of_b): (&str, &[ElementType])| {
        let by_device = devices.each_ref().map(|device| {
            let pairs = of_a.iter().flat_map(|a| of_b.iter().map(move |b| (*a, *b)));
            let taken: Vec<bool> = pairs.map(|(a, b)| is_multiplied(device, a, b)).collect();
            assert!(taken.iter().all(|it| *it == taken[0]), "{first} and {second} on {device}: {taken:?}");
            taken[0]
        });
        (Types::new(of_a[0], of_b[0]).accumulator, by_device)
    };
    for (i, first) in GROUPS.into_iter().enumerate() {
        for second in GROUPS.into_iter().skip(i) {
            let (one, other) = (taken(first, second), taken(second, first));
            if one == other {
                add(one.0, one.1, format!("{} × {}", first.0, second.0));
            } else {
                add(one.0, one.1, format!("A {} × B {}", first.0, second.0));
                add(other.0, other.1, format!("A {} × B {}", second.0, first.0));
            }
        }
    }
    let mut text =
        row(["A × B, or B × A", "accumulator", "sm_80 and up", "sm_90a", "sm_100a", "CPU"]) + &row(["---"; 6]);
    for (accumulator, taken, labels) in rows {
        let (labels, accumulator) = (labels.join(", "), accumulator.to_string());
        text += &row([labels.as_str(), accumulator.as_str()].into_iter().chain(taken.map(yes)));
    }
    text
}

/// The table of arithmetics by device.
fn arithmetics() -> String {
    let mut text = row(["arithmetic", "sm_80 and up", "sm_90a", "sm_100a", "CPU"]) + &row(["---"; 5]);
    let on_sm_89 = Device::emulated(Arch::SM_89).expect("an emulated device");
    for (name, arithmetic, element) in [
        ("`Arithmetic::Tf32`, of f32 × f32", Arithmetic::Tf32, F32),
        ("`Arithmetic::FastBf16`, of f32 × f32", Arithmetic::FastBf16, F32),
        ("`Arithmetic::FastFp8`, of FP8 × FP8", Arithmetic::FastFp8, F8E4M3),
    ] {
        let cell = |device: &Device| {
            assert!(supports(device, (element, element, arithmetic)).is_ok());
            let other = if element == F32 { F8E4M3 } else { F32 };
            let refused = supports(device, (other, other, arithmetic));
            assert!(matches!(refused, Err(Error::Arithmetic { .. })), "{refused:?}");
            // With layouts that tensor copies can load, and large enough that the kernel is of the device's own family.
            let (k_major, planned) = (OperandLayout::packed(Major::K), builder(device, element, element));
            let planned = planned.problem(4096, 4096, 4096).layouts(k_major, k_major).arithmetic(arithmetic);
            let choice = planned.choose().expect("a plan");
            let Some(kernel) = choice.kernel() else {
                return if arithmetic == Arithmetic::FastBf16 {
                    "yes"
                } else {
                    "as `Exact`, which is within its bounds"
                };
            };
            let of_the_device = device.arch() == Some(kernel.key.family());
            match kernel.key.multiplication() {
                Multiplication::Exact => "as `Exact`, which is within its bounds",
                _ if !of_the_device => "yes, by kernels for sm_80",
                Multiplication::Tf32
                | Multiplication::FastBf16
                | Multiplication::FastFp8
                | Multiplication::NativeFp8(_) => "yes",
            }
        };
        let [oldest, hopper, blackwell, cpu] = devices().map(|device| cell(&device));
        // All its kernels are those for sm_80.
        let later = cell(&on_sm_89).trim_end_matches(", by kernels for sm_80");
        let of_sm80 = if later == oldest { oldest.to_owned() } else { format!("{oldest}; sm_89: {later}") };
        text += &row([name, &of_sm80, hopper, blackwell, cpu]);
    }
    text
}

/// The outputs and layouts that every device supports.
fn everywhere() -> String {
    for device in devices() {
        // Truth values are stored from comparisons, not from numbers.
        for element in crate::expr::Real::ELEMENTS.into_iter().filter(|element| *element != ElementType::Bool) {
            let planned = Builder::<()>::new(&device, tree(Some(element))).elements(F16, F16).problem(256, 256, 256);
            assert!(planned.choose().is_ok(), "an output of {element} on {device}");
        }
        for (a, b) in [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
            for element in [F64, F32, BF16, F8E5M2, I8] {
                for copy_bytes in [16, 8, 4, element.size()].into_iter().filter(|bytes| *bytes >= element.size()) {
                    let layout = |major| OperandLayout { major, copy_bytes };
                    let planned = builder(&device, element, element).layouts(layout(a), layout(b)).choose();
                    assert!(planned.is_ok(), "{element} as {a:?} and {b:?} by {copy_bytes} on {device}: {planned:?}");
                }
            }
        }
    }
    "A and B may lie in any way, with any strides and alignment, on every device; outputs, and what the epilogue reads, may \
     have every element type.\n"
        .to_owned()
}

/// A plan with one knob set. `candidate` is one of the device's own, or of a GPU's.
fn turned(builder: Builder, knob: Knob, candidate: &Candidate) -> Builder {
    match knob {
        Knob::Tile => builder.tile(Tile::all(Instruction::MmaF16)[2]),
        Knob::Stages => builder.stages(3),
        Knob::SplitK => builder.split_k(SplitK::Serial(2)),
        Knob::StreamK => builder.split_k(SplitK::Stream),
        Knob::Sm90 => builder.sm90(sm90::Request::default()),
        Knob::Sm100 => builder.sm100(sm90::Request::default()),
        Knob::Candidate => builder.candidate(candidate),
        Knob::Multiprocessors => builder.multiprocessors(4),
        Knob::FastMath => builder.fast_math(true),
        Knob::DependentLaunch => builder.dependent_launch(true),
        Knob::Finish => builder.finish(Finish::Tile),
        Knob::Tuning => builder.tuning(Tuning::new().machine_code(MachineCode::Never)),
    }
}

/// The table of knobs by device; checks that [`supports`] and a plan agree.
fn knobs() -> String {
    let mut text = row(["knob", "sm_80 and up", "sm_90a", "sm_100a", "CPU"]) + &row(["---"; 5]);
    let on_a_gpu = builder(&devices()[0], F16, F16).choose().expect("a plan").candidates()[0].clone();
    for knob in Knob::ALL {
        let taken = devices().map(|device| {
            let plain = match knob {
                Knob::Finish => Builder::new(&device, normalised()).elements(F16, F16).problem(256, 64, 256),
                _ => builder(&device, F16, F16),
            };
            let own = plain.choose().expect("a plan").candidates().first().cloned();
            let turned = turned(plain, knob, own.as_ref().unwrap_or(&on_a_gpu));
            assert!(turned.clone().ignore_unsupported_knobs().choose().is_ok(), "{knob} ignored on {device}");
            match (supports(&device, knob), turned.choose()) {
                (Ok(()), Ok(_)) => true,
                (Err(said), Err(planned)) => {
                    assert_eq!(said.to_string(), planned.to_string());
                    assert!(matches!(planned, Error::NoKnob { knob: named, .. } if named == knob), "{planned}");
                    false
                }
                differing => panic!("{knob} on {device}: {differing:?}"),
            }
        });
        let name = match knob {
            Knob::Tile => "`.tile(…)`, on the CPU the tile of per-tile partials".to_owned(),
            _ => format!("`{knob}`"),
        };
        text += &row(std::iter::once(name.as_str()).chain(taken.map(yes)));
    }
    text
}

/// The table of products by what A is and what is divided into groups; checks that [`supports`] and a plan agree.
fn divided() -> String {
    let large = |device: &Device, a, b| {
        let along_k = OperandLayout::packed(Major::K);
        builder(device, a, b).problem(65536, 1536, 2048).layouts(along_k, along_k)
    };
    let taken = |feature: Feature, planned: fn(Builder, usize) -> Builder| {
        devices().map(|device| {
            let said = supports(&device, feature);
            let mut own = device.arch().is_none();
            for (a, b, groups) in [(F16, F16, 4), (F32, F32, 7), (I8, U8, 400), (BF16, BF16, 64)] {
                let choice = planned(large(&device, a, b), groups).choose();
                assert_eq!(said.is_ok(), choice.is_ok(), "{device}: {choice:?}");
                let family = choice.ok().and_then(|choice| choice.kernel().map(|kernel| kernel.key.family()));
                own |= family.is_some() && family == device.arch();
            }
            if own { yes(said.is_ok()) } else { "yes, by kernels for sm_80" }
        })
    };
    let of_rows = taken(Feature::Groups, Builder::groups);
    assert_eq!(of_rows, taken(Feature::Groups, |builder, groups| builder.padded_groups(groups.min(7))));
    // As x and dy lie.
    let of_k = taken(Feature::Groups, |builder, groups| {
        let across = OperandLayout::packed(Major::Mn);
        builder.layouts(across, across).depth_groups(groups)
    });
    let picked = taken(Feature::Groups, |builder, groups| builder.groups(groups).picked_rows());
    assert_eq!(picked, taken(Feature::Groups, |builder, _| builder.picked_rows()));
    let scattered = taken(Feature::Groups, |builder, groups| builder.groups(groups).scattered_rows());
    let scaled = devices().map(|device| {
        let choice = large(&device, F8E4M3, F8E5M2).block_scales().choose();
        assert!(supports(&device, Feature::BlockScales).is_ok() && choice.is_ok(), "{device}: {choice:?}");
        let family = choice.ok().and_then(|choice| choice.kernel().map(|kernel| kernel.key.family()));
        if family == device.arch() { "yes" } else { "yes, by kernels for sm_80" }
    });
    let of_patches = taken(Feature::Patches, |builder, images| builder.patches(images << 16).patch_boxes(BOXES));
    let in_groups =
        taken(Feature::Patches, |builder, groups| builder.batch(groups).patches(1 << 16).patch_boxes(BOXES));
    let of_filters = taken(Feature::Patches, |builder, images| {
        let across = OperandLayout::packed(Major::Mn);
        builder.layouts(across, across).patches(images << 16).patch_boxes(BOXES)
    });
    let with_strides = devices().map(|device| {
        let image = |of: &[usize]| device.without_memory(F16, of).expect("a tensor");
        let window = Window::of([3, 3]).stride([2, 2]).padding([1, 1]);
        let (dy, filters) = (image(&[64, 32, 32, 256]), image(&[9 * 256, 256]));
        let left = gradient_patches(&dy, window, [64, 64]);
        let choice =
            Builder::<()>::new(&device, tree(None)).operands(left, &filters).and_then(|builder| builder.choose());
        let family = choice.expect("a plan").kernel().map(|kernel| kernel.key.family());
        if family == device.arch() { "yes" } else { "yes, by kernels for sm_80" }
    });
    let head = row(["product", "sm_80 and up", "sm_90a", "sm_100a", "CPU"]) + &row(["---"; 5]);
    head + &row(std::iter::once("with groups of rows (`gemm::rows`)").chain(of_rows))
        + &row(std::iter::once("with groups of K (`gemm::depth`)").chain(of_k))
        + &row(std::iter::once("of patches of images (`gemm::patches`): convolutions").chain(of_patches))
        + &row(std::iter::once("of patches with groups of channels (`gemm::Window::groups`)").chain(in_groups))
        + &row(std::iter::once("of patches as columns (`gemm::transposed_patches`): gradients of filters")
            .chain(of_filters))
        + &row(std::iter::once("of a gradient with strides (`gemm::gradient_patches`): gradients of images")
            .chain(with_strides))
        + &row(std::iter::once("with rows that an index picks (`gemm::Rows::picked`)").chain(picked))
        + &row(std::iter::once("with rows that an index places (`gemm::Rows::scattered`)").chain(scattered))
        + &row(std::iter::once("of FP8 with block scales (`gemm::scaled`)").chain(scaled))
        + &row(std::iter::once("of weights of 4 or 8 bits with scales of groups (`gemm::quantized`)")
            .chain(quantised(Arithmetic::Exact)))
        + &row(std::iter::once("of these weights with `Arithmetic::Int8Activations`")
            .chain(quantised(Arithmetic::Int8Activations)))
}

/// Whether devices multiply quantised weights, all formats alike; checks that [`supports`] and plans agree.
fn quantised(arithmetic: Arithmetic) -> [&'static str; 4] {
    devices().map(|device| {
        let taken = [F32, BF16, F16].into_iter().flat_map(|a| {
            let formats = [(CodeType::Int4, ZeroPoints::None, Some(32)), (CodeType::Uint8, ZeroPoints::Each, None)];
            formats.map(|(codes, zero_points, group)| (a, Quantization { codes, scales: F16, zero_points, group }))
        });
        let taken: Vec<bool> = taken
            .map(|(a, format)| {
                let said = supports(&device, Feature::Weights { a, format, arithmetic });
                let planned = builder(&device, a, a).weights(format).arithmetic(arithmetic).choose();
                assert_eq!(said.is_ok(), planned.is_ok(), "{format} on {device}: {planned:?}");
                said.is_ok()
            })
            .collect();
        assert!(taken.iter().all(|it| *it == taken[0]), "{device}: {taken:?}");
        yes(taken[0])
    })
}

/// A builder that is asked for a property.
fn asked(builder: Builder, property: Property) -> Builder {
    match property {
        Property::Phases => builder,
        Property::Patches => builder.patches(1 << 16),
        Property::Groups => builder.groups(2),
        Property::PaddedGroups => builder.padded_groups(2),
        Property::DepthGroups => builder.depth_groups(2),
        Property::PickedRows => builder.picked_rows(),
        Property::Batch => builder.batch(2),
        Property::ScatteredRows => builder.scattered_rows(),
        Property::BlockScales => builder.block_scales(),
    }
}

/// The table of properties that exclude each other; checks that [`supports`] and plans agree, in any order.
fn together() -> String {
    let names = Property::ALL.map(|property| property.to_string());
    let names = || std::iter::once("").chain(names.iter().map(String::as_str));
    let mut text = row(names()) + &row(names().map(|_| "---"));
    // The batch is the group.
    let batch = |x| matches!(x, Property::Groups | Property::PaddedGroups | Property::DepthGroups | Property::Batch);
    for x in Property::ALL {
        let cell = |y| {
            if x == y || batch(x) && batch(y) {
                return "";
            }
            let has = |property| x == property || y == property;
            let tree = if has(Property::Phases) { normalised() } else { tree(None) };
            let element = if has(Property::BlockScales) { F8E4M3 } else { F16 };
            let taken = devices().map(|device| {
                let said = supports(&device, (x, y));
                let builder = Builder::new(&device, tree.clone()).elements(element, element).problem(256, 256, 256);
                let planned = asked(asked(builder, x), y).choose();
                assert_eq!(said.is_ok(), planned.is_ok(), "{x} with {y} on {device}: {said:?}, {planned:?}");
                said.is_ok()
            });
            yes(taken == [true; 4])
        };
        text += &row(std::iter::once(x.to_string().as_str()).chain(Property::ALL.map(cell)));
    }
    text
}

#[test]
fn the_documentation_says_what_plans_do() {
    let text = format!(
        "{}\nOther pairs no device multiplies.\n\n{}\n{}\n{}\n\
         A product has two of these properties together if their field says \"yes\", on every device:\n\n{}\n{}",
        products(),
        arithmetics(),
        everywhere(),
        divided(),
        together(),
        knobs()
    );
    expect_file!["../support.md"].assert_eq(&text);
}

/// GPUs without a family of their own have the knobs of sm_80.
#[test]
fn other_gpus_are_as_sm_80() {
    let lacks = |gpu: GpuModel, knob| {
        let target = epilogue_runtime::bundle::Builder::new().target(gpu);
        devices::list::of(&target).lacks(knob)
    };
    for gpu in GpuModel::all().filter(|gpu| sm90::TensorCores::of(gpu.arch()).is_none()) {
        for knob in Knob::ALL {
            assert_eq!(lacks(gpu, knob), lacks(GpuModel::A100, knob), "{knob} on {gpu}");
        }
    }
}

#[test]
fn refusals_say_why_and_what_to_do() {
    let [sm80, hopper, blackwell, cpu] = devices();
    let text = |result: Result<(), Error>| result.expect_err("it is not supported").to_string();
    assert_eq!(
        text(supports(&cpu, Knob::SplitK)),
        "`.split_k(…)` has no effect on the CPU, which runs no kernels: leave it out, or call \
         `.ignore_unsupported_knobs()`, for plans that are described once for several devices"
    );
    assert!(
        text(supports(&sm80, Knob::Multiprocessors)).starts_with(
            "`.multiprocessors(…)` has no effect on an emulated sm_80, because only kernels for sm_90a and sm_100a have it: "
        ),
        "{}",
        text(supports(&sm80, Knob::Multiprocessors))
    );
    assert_eq!(
        text(supports(&sm80, (F32, F16))),
        "A of f32 and B of f16 can't be multiplied on an emulated sm_80: give both the same type, both FP8 or both 8-bit \
         integers, or an f16 or bf16 A and a B of 8 bits, or use the CPU device"
    );
    assert_eq!(
        text(supports(&cpu, (F64, F16))),
        "A of f64 and B of f16 can't be multiplied on the CPU: both operands are f64 or neither is"
    );
    assert_eq!(
        text(supports(&cpu, (F16, F16, Arithmetic::Tf32))),
        "TF32 is an arithmetic of f32 operands, and A holds f16"
    );
    let asked = builder(&hopper, F32, F32).arithmetic(Arithmetic::FastBf16).sm90(sm90::Request::default());
    let refused = asked.choose().expect_err("no such kernel").to_string();
    assert!(
        refused.ends_with("leave the request for one out for a kernel for sm_80, or take Arithmetic::Tf32"),
        "{refused}"
    );
    for (device, knob, other) in [(&hopper, Knob::Sm100, "`.sm90(…)`"), (&blackwell, Knob::Sm90, "`.sm100(…)`")] {
        let refused = text(supports(device, knob));
        assert!(refused.contains(&format!("have it: take {other}")), "{refused}");
    }
    let columns = sm90::Request { swap_ab: Some(false), ..sm90::Request::default() };
    let refused = builder(&hopper, BF16, I8).sm90(columns).choose().expect_err("no such kernel").to_string();
    assert!(refused.ends_with("ask for `swap_ab: Some(true)`, or leave it open"), "{refused}");
}
