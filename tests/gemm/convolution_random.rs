//! Random convolutions and gradients of convolutions, with random epilogues, compared with the reference.

use epilogue::evt::random::{self, Choices, Profile};
use epilogue::evt::{BroadcastClass, OutputKind, ParameterClass};
use epilogue::gemm::{Arithmetic, Builder, Problem, Right, filter, gradient_filter_in_groups};
use epilogue::{Arch, Argument, Device, ElementType};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;
use epilogue_testing::placement::{Placed, Placement};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::convolution::Shape;
use crate::convolution_boxes::small;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A random convolution of few outputs, whose channels are one of these.
fn shape(choices: &mut Choices<'_>, channels: &[usize]) -> Shape {
    let axes = choices.pick(&[2, 1, 3]);
    let mut along = |of: &[usize]| (0..axes).map(|_| choices.pick(of)).collect::<Vec<_>>();
    let size = along(if axes == 3 { &[1, 2, 3] } else { &[3, 1, 2, 5] });
    let (stride, dilation) = (along(&[1, 2, 1, 3]), along(&[1, 1, 2, 3]));
    let padding: Vec<(usize, usize)> = along(&[0, 1, 2, 4]).into_iter().zip(along(&[0, 1, 2, 5])).collect();
    let extents = along(if axes == 3 { &[1, 2, 3, 4] } else { &[4, 1, 7, 12] });
    let least = |i: usize| ((size[i] - 1) * dilation[i] + 1).saturating_sub(padding[i].0 + padding[i].1);
    let inputs = (0..axes).map(|i| extents[i].max(least(i))).collect();
    let single = choices.once_in(4);
    let (images, filters) = (choices.pick(&[1, 2, 3, 0]), choices.pick(&[1, 5, 8, 17, 33, 64]));
    let (groups, channels) = (choices.pick(&[1, 1, 2, 3]), choices.pick(channels));
    let filters = if groups == 1 { filters } else { groups * usize::div_ceil(filters, groups) };
    let shape = Shape { images, inputs, channels: channels * groups, filters, groups, size, stride, padding, dilation };
    // Patches that are a plain matrix.
    let ones = vec![1; axes];
    let single_window = Shape { size: ones.clone(), stride: ones, padding: vec![(0, 0); axes], ..shape.clone() };
    if single { single_window } else { shape }
}

/// The arguments of a run that have memory: parameters that are tensors, and outputs.
type Memory = Vec<Option<Placed>>;

/// The computed tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Outputs,
    Images,
    Filters,
}

struct Plan<'a> {
    device: &'a Device,
    of: Of,
    elements: (ElementType, ElementType),
    channels: &'a [usize],
    gemm: Option<epilogue::Gemm>,
    builder: Builder,
}

impl Plan<'_> {
    fn case(&mut self, choices: &mut Choices<'_>) -> Result<(), String> {
        let (device, on_gpu) = (self.device, self.device.arch().is_some());
        let mut shape = shape(choices, self.channels);
        if self.of == Of::Images {
            // The channels that are read are those of the outputs.
            (shape.channels, shape.filters) = (shape.filters, shape.channels);
        }
        let (a, b) = self.elements;
        let mut placed = |element, shape: &[usize], placement: Placement| {
            let values = random::values(choices, element, shape.iter().product());
            Placed::new(device, element, shape, &values, placement).map_err(text)
        };
        let whole = Placement::PLAIN;
        let width = 16 / a.size();
        let beside = Placement { multiple: width, padding: width, offset: width, ..whole };
        let of_x = if self.channels[0].is_multiple_of(width) { beside } else { whole };
        let x = placed(a, &if self.of == Of::Images { shape.of_y() } else { shape.of_x() }, of_x)?;
        let y = placed(b, &if self.of == Of::Filters { shape.of_y() } else { shape.of_w() }, whole)?;
        let filter = match self.of {
            Of::Outputs => Some(filter(&y.view).map_err(text)?),
            Of::Images => Some(gradient_filter_in_groups(&y.view, shape.groups).map_err(text)?),
            Of::Filters => None,
        };
        let left = match self.of {
            Of::Outputs => shape.left(&x.view),
            Of::Images => shape.of_gradient(&x.view),
            Of::Filters => shape.transposed(&x.view),
        };
        let right = filter.as_ref().map_or(Right::from(&y.view), Right::from);
        let problem = Problem::of(left, right.clone()).map_err(text)?;
        if self.gemm.is_none() {
            let builder = self.builder.clone().operands(left, right.clone()).map_err(text)?;
            // On Hopper by boxes if those reach, whatever the model says of products so small.
            let by_boxes = builder.clone().sm90(small());
            let builder = if by_boxes.choose().is_ok() { by_boxes } else { builder };
            self.gemm = Some(builder.plan().map_err(text)?);
        }
        let Some(gemm) = &self.gemm else { return Err("no plan".to_owned()) };
        let tree = gemm.tree();
        // Rows are images, or those of a matrix; columns may be strided.
        let rows = match self.of {
            _ if choices.once_in(3) => vec![problem.m],
            Of::Outputs => shape.of_rows(),
            Of::Images => shape.of_x()[..=shape.size.len()].to_vec(),
            Of::Filters => shape.of_patch(),
        };
        let place = |choices: &mut Choices<'_>, class: BroadcastClass| match class {
            // Rows that are several axes of a vector must be one stride apart.
            BroadcastClass::ColumnVector => whole,
            _ if on_gpu => whole,
            _ => Placement { transposed: false, ..Placement::any(choices) },
        };
        let (m, n, groups) = (problem.m, problem.n, shape.groups);
        // A value that there is for each group, or one for all; of columns, those of all groups, or of all that are one.
        let of_class = |class, packed: bool, each_group: bool| {
            use BroadcastClass::{ColumnVector, RowVector, Scalar, Tensor};
            let of_groups = if each_group { groups } else { 1 };
            let columns = if packed { n.div_ceil(8) } else { n * of_groups };
            match class {
                Scalar if each_group && groups > 1 => vec![groups],
                Scalar => vec![],
                RowVector => vec![columns],
                ColumnVector if each_group && groups > 1 => match self.of {
                    _ if rows.len() == 1 => vec![groups, m],
                    Of::Filters => [&[groups], &rows[..]].concat(),
                    _ => [&rows[..], &[groups]].concat(),
                },
                ColumnVector => rows.clone(),
                // A byte of bits is of one group.
                Tensor if packed && groups > 1 && n % 8 != 0 => vec![groups, m, columns],
                Tensor if packed && groups > 1 && self.of == Of::Filters => vec![m, columns * groups],
                Tensor if packed && groups > 1 => [&rows[..], &[columns * groups]].concat(),
                // Columns of bits are neighbours.
                Tensor if packed && self.of == Of::Filters => vec![problem.m, columns],
                Tensor if rows.len() > 1 && self.of == Of::Filters => [&[columns], &rows[..]].concat(),
                Tensor => [&rows[..], &[columns]].concat(),
            }
        };
        let (mut memory, mut scalars): (Memory, Vec<f64>) = (Vec::new(), Vec::new());
        for parameter in tree.parameters() {
            let scalar = choices.pick(&[1.0, 0.0, -0.5, 2.0]);
            scalars.push(scalar);
            memory.push(match parameter.class {
                ParameterClass::Scalar | ParameterClass::Seed => None,
                class => {
                    // Only what is written must differ from group to group.
                    let each = matches!(class, ParameterClass::TensorMut | ParameterClass::Bits) || !choices.once_in(3);
                    let shape = of_class(class.broadcast_class(), class == ParameterClass::Bits, each);
                    let values = random::values(choices, parameter.element, shape.iter().product());
                    let placement = place(choices, class.broadcast_class());
                    Some(Placed::new(device, parameter.element, &shape, &values, placement).map_err(text)?)
                }
            });
        }
        for output in tree.outputs().iter().filter(|output| output.parameter.is_none()) {
            let shape = match output.kind {
                OutputKind::Reduce(_) if output.is_partial() => {
                    gemm.partials_shape_of(output.name, &problem).map_err(text)?
                }
                OutputKind::Reduce(reduction) => of_class(output.class, output.packed, !reduction.batch),
                OutputKind::Store => of_class(output.class, output.packed, true),
            };
            let values = vec![1.0; shape.iter().product()];
            let placement = place(choices, output.class);
            memory.push(Some(Placed::new(device, output.element, &shape, &values, placement).map_err(text)?));
        }
        let mut arguments = Vec::new();
        for (i, placed) in memory.iter_mut().enumerate() {
            let parameter = tree.parameters().get(i).map(|parameter| parameter.class);
            arguments.push(match (parameter, placed) {
                (Some(ParameterClass::Seed), _) => Argument::Seed(7, 1),
                (_, None) => Argument::Scalar(scalars[i]),
                (Some(ParameterClass::TensorMut) | None, Some(placed)) => Argument::Output(&mut placed.view),
                (Some(_), Some(placed)) => Argument::Input(&placed.view),
            });
        }
        let said = |error: String| format!("{:?} of {shape:?}: {error}\n{}", self.of, gemm.choice());
        let expected = gemm.reference_arguments(left, right.clone(), &arguments).map_err(text).map_err(said)?;
        let stream = device.default_stream();
        gemm.run_arguments(&stream, left, right, &arguments).map_err(text).map_err(said)?;
        drop(arguments);
        for (i, output) in tree.outputs().iter().enumerate() {
            let of = tree.output_argument(i);
            let Some(placed) = memory[of].as_mut() else { continue };
            let comparison = expected.compare(output.name, &placed.view).map_err(text)?;
            comparison.check().map_err(text).map_err(said)?;
            if !placed.is_guarded().map_err(text)? {
                return Err(said(format!("{} wrote outside of its view", output.name)));
            }
        }
        Ok(())
    }
}

/// Random epilogues, each with random windows and images.
fn run(
    device: &Device,
    of: Of,
    elements: (ElementType, ElementType),
    arithmetic: Arithmetic,
    (kernels, cases): (u32, usize),
) {
    let config =
        Config { failure_persistence: None, max_shrink_iters: 40, ..Config::with_cases(testing::cases(kernels)) };
    let number = std::cell::Cell::new(0usize);
    let strategy = (vec(any::<u32>(), 0..120), vec(vec(any::<u32>(), 80), cases));
    TestRunner::new(config)
        .run(&strategy, |(tree, cases)| {
            let this = number.replace(number.get() + 1);
            let profile =
                Profile { phases: this % 4 == 3, chance: true, bits: true, accumulators: 1, ..Profile::default() };
            let tree = random::tree(&mut Choices::new(&tree), profile);
            let builder = Builder::<()>::new(device, tree).arithmetic(arithmetic).ignore_unsupported_knobs();
            let (width, on_sm90) = (16 / elements.0.size(), device.arch() == Some(Arch::SM_90A));
            // Transposed boxes have 64.
            let aligned = if of == Of::Filters && on_sm90 { [64, 64, 128] } else { [width, 3 * width, 5 * width] };
            let channels: &[usize] = [&aligned[..], &[3, 1, 7], &[4, 12]][this % 3];
            let mut plan = Plan { device, of, elements, channels, gemm: None, builder };
            for case in &cases {
                plan.case(&mut Choices::new(case)).map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}\nkernel {}", number.get()));
}

fn all_on_the_cpu(of: Of) {
    use ElementType::{BF16, F8E5M2, F16, F32, F64, I8, U8};
    for elements in [(F32, F32), (BF16, BF16), (F16, F32), (F64, F64), (I8, I8), (U8, I8), (F8E5M2, F16)] {
        run(&Device::cpu(), of, elements, Arithmetic::Exact, (6, 12));
    }
    run(&Device::cpu(), of, (F32, F32), Arithmetic::FastBf16, (4, 8));
}

#[test]
fn on_the_cpu() {
    all_on_the_cpu(Of::Outputs);
}

#[test]
fn input_gradients_on_the_cpu() {
    all_on_the_cpu(Of::Images);
}

#[test]
fn filter_gradients_on_the_cpu() {
    all_on_the_cpu(Of::Filters);
}

fn all_on_emulated_devices(of: Of, test: &str) {
    use ElementType::{BF16, F16, F32, I8};
    if testing::compiler(test).is_none() {
        return;
    }
    let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(3);
    let device = Device::emulated_with(Arch::SM_80, options).expect("an emulated device");
    for elements in [(F16, F16), (F32, F32), (I8, I8), (BF16, BF16)] {
        let arithmetic = if elements.0 == F32 { Arithmetic::Tf32 } else { Arithmetic::Exact };
        run(&device, of, elements, arithmetic, (3, 5));
    }
    // By boxes where those reach, and by the same kernels where not.
    let options = Options::default().detector(Detector::On).completion(Completion::Lazy);
    let hopper = Device::emulated_with(Arch::SM_90A, options).expect("an emulated device");
    for elements in [(F16, F16), (I8, I8)] {
        run(&hopper, of, elements, Arithmetic::Exact, (4, 5));
    }
}

#[test]
fn on_emulated_devices() {
    all_on_emulated_devices(Of::Outputs, "convolution_random::on_emulated_devices");
}

#[test]
fn input_gradients_on_emulated_devices() {
    all_on_emulated_devices(Of::Images, "convolution_random::input_gradients_on_emulated_devices");
}

#[test]
fn filter_gradients_on_emulated_devices() {
    all_on_emulated_devices(Of::Filters, "convolution_random::filter_gradients_on_emulated_devices");
}
