//! Arguments whose rows and columns are several axes of a tensor: heads apart, masks for all heads. A run with these
//! views gives the bits of a run with matrices in order, on every device, tile and split of K.

use epilogue::evt::{BroadcastClass, ParameterClass, Tree, ValidTree, reference};
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Arithmetic, Builder, Error, Instruction, SplitK, Tile, rows};
use epilogue::prelude::*;
use epilogue::{Argument, DeviceTensor};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::placement::{Digits, Placed, Placement};

use crate::hopper::{device, small_tiles};

/// Matrices of every kind that is read or written: numbers, integers, truth values, bits, in place, with BLAS's beta; and
/// vectors, which are read, stored, or results of reductions.
#[epilogue]
fn layer(
    accum: Accum,
    bias: RowVector<f32>,
    c: Tensor<f32>,
    mask: Tensor<bool>,
    index: Tensor<i32>,
    names: ColumnVector<i32>,
    keep: Bits,
    mut state: TensorMut<f32>,
    beta: Scalar,
) -> (
    Tensor,
    TensorMut<f32>,
    Tensor<i64>,
    Tensor<bool>,
    Bits,
    ColumnVector<f32>,
    RowVector<f32>,
    RowVector<f32>,
    ColumnVector<i64>,
) {
    let x = accum + bias + beta * c;
    let y = if mask { x } else { state };
    let place = integer(index) + column() + integer(names);
    let above = y > 0.25;
    let kept = keep && above;
    state = y;
    let sums = reduction_op(y, Row, Add);
    let most = reduction_op(y, Column, Max);
    let twice = bias + bias;
    let next = integer(names) + row();
    (y, state, place, above, kept, sums, most, twice, next)
}

/// Values that follow from sums of rows are computed by the block that completes the sums.
#[epilogue]
fn centred(accum: Accum, offset: ColumnVector<f32>) -> (Tensor<f32>, ColumnVector<f32>, ColumnVector<f32>) {
    let sums = reduction_op(accum, Row, Add);
    let shifted = 0.5 * sums + offset;
    (accum, sums, shifted)
}

/// Heads' softmax, in the second and third phase, of scores that are masked.
#[epilogue]
fn softmax(accum: Accum, mask: Tensor, scale: Scalar) -> (Tensor, ColumnVector) {
    let x = scale * accum + mask;
    let e = exp(x - reduction_op(x, Row, Max));
    let sum = reduction_op(e, Row, Add);
    let d = e / sum;
    (d, sum)
}

/// Rows, columns, the extents of their faster axes, and batches; 0 for none. Whole vectors, ragged ones, axes of one
/// element, nothing.
const SHAPES: [(usize, usize, [usize; 2], usize); 7] = [
    (74, 60, [37, 20], 0),
    (66, 96, [33, 32], 2),
    (40, 64, [40, 16], 0),
    (36, 33, [12, 33], 1),
    (6, 8, [1, 1], 3),
    (0, 12, [2, 4], 0),
    (12, 0, [4, 2], 2),
];

pub(crate) const K: usize = 40;

fn numbers(count: usize, step: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * step) % 23) as f64 / 8.0 - 1.3).collect()
}

fn operands(
    device: &Device,
    (m, n, batch): (usize, usize, usize),
) -> Result<[DeviceTensor; 2], epilogue_runtime::Error> {
    let operand = |shape: [usize; 2], step: usize| {
        let shape = if batch == 0 { shape.to_vec() } else { vec![batch, shape[0], shape[1]] };
        let values = numbers(shape.iter().product(), step);
        device.tensor_from_bytes(ElementType::F16, &reference::encode(ElementType::F16, &values), &shape)
    };
    // B lies `[N, K]`, as kernels for sm_90a take it without a copy.
    let b = operand([n, K], 11)?;
    let rank = b.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 1, rank - 2);
    Ok([operand([m, K], 7)?, b.permute(&order)?])
}

/// The arguments of a tree, matrices in this placement: of each its memory, and whether it is written.
fn arguments(
    device: &Device,
    tree: &ValidTree,
    (m, n, batch): (usize, usize, usize),
    placement: Placement,
) -> Result<Vec<(Option<Placed>, bool)>, epilogue_runtime::Error> {
    let placed = |i: usize, element: ElementType, class: BroadcastClass, written: bool, packed: bool| {
        let n = if packed { n.div_ceil(8) } else { n };
        let mut shape = match class {
            BroadcastClass::Scalar => vec![],
            BroadcastClass::RowVector => vec![n],
            BroadcastClass::ColumnVector => vec![m],
            BroadcastClass::Tensor => vec![m, n],
        };
        if batch > 0 && (written || i.is_multiple_of(2)) {
            shape.insert(0, batch);
        }
        let scale = if packed {
            100.0
        } else if element.is_float() {
            1.0
        } else {
            20.0
        };
        let values: Vec<f64> = numbers(shape.iter().product(), 5 + i).into_iter().map(|x| x * scale).collect();
        let digits = placement.digits.map(|Digits { lower: [r, c], order }| {
            let lower = match class {
                BroadcastClass::RowVector => [c, 1],
                // A row's bytes: one in each of the slower axis, or all.
                BroadcastClass::Tensor if packed => [r, if i.is_multiple_of(2) { 1 } else { n }],
                _ => [r, c],
            };
            Digits { lower, order: order + i }
        });
        let is_vector = matches!(class, BroadcastClass::RowVector | BroadcastClass::ColumnVector);
        Placed::new(device, element, &shape, &values, Placement { digits, is_vector, ..placement })
    };
    let mut all = Vec::new();
    for (i, parameter) in tree.parameters().iter().enumerate() {
        let written = parameter.class == ParameterClass::TensorMut;
        all.push(match parameter.class {
            ParameterClass::Scalar => (None, false),
            class => {
                let packed = class == ParameterClass::Bits;
                (Some(placed(i, parameter.element, class.broadcast_class(), written, packed)?), written)
            }
        });
    }
    for output in tree.outputs().iter().filter(|output| output.parameter.is_none()) {
        all.push((Some(placed(all.len(), output.element, output.class, true, output.packed)?), true));
    }
    Ok(all)
}

/// Gives a plan's arguments in this placement to a function, with A and B; and those that are written.
fn with_arguments<T>(
    gemm: &Gemm,
    shape: (usize, usize, usize),
    placement: Placement,
    of: impl FnOnce([&DeviceTensor; 2], &[Argument<'_>]) -> Result<T, Error>,
) -> Result<(T, Vec<Placed>), Error> {
    let (device, tree) = (gemm.device(), gemm.tree());
    let [a, b] = operands(device, shape)?;
    let mut held = arguments(device, tree, shape, placement)?;
    let list = held.iter_mut().map(|argument| match argument {
        (None, _) => Argument::Scalar(0.5),
        (Some(placed), true) => Argument::Output(&mut placed.view),
        (Some(placed), false) => Argument::Input(&placed.view),
    });
    let result = of([&a, &b], &list.collect::<Vec<_>>())?;
    let written = held.into_iter().filter(|(_, written)| *written);
    Ok((result, written.filter_map(|(placed, _)| placed).collect()))
}

/// Runs a plan; gives what every written argument holds then.
fn run(gemm: &Gemm, shape: (usize, usize, usize), placement: Placement) -> Result<Vec<Vec<u8>>, Error> {
    let run = |[a, b]: [&DeviceTensor; 2], list: &[Argument<'_>]| {
        gemm.run_arguments(&gemm.device().default_stream(), a, b, list)
    };
    let ((), mut written) = with_arguments(gemm, shape, placement, run)?;
    let mut results = Vec::new();
    for placed in &mut written {
        results.push(placed.view.to_bytes()?);
        assert!(placed.is_guarded()?, "wrote beside the view");
    }
    Ok(results)
}

/// The dimensions of the tensor maps of a plan's launch.
pub(crate) fn ranks_of_maps(
    gemm: &Gemm,
    shape: (usize, usize, usize),
    placement: Placement,
) -> Result<Vec<usize>, Error> {
    let describe = |[a, b]: [&DeviceTensor; 2], list: &[Argument<'_>]| gemm.describe_launch(a, b, list);
    let (launch, _) = with_arguments(gemm, shape, placement, describe)?;
    Ok(launch.maps.iter().map(|map| map.extents.len()).collect())
}

/// Whether views give what matrices in order give.
#[track_caller]
fn check(gemm: &Gemm, shapes: &[(usize, usize, [usize; 2], usize)], aligned: bool) {
    for (order, shape) in shapes.iter().enumerate() {
        check_order(gemm, *shape, order, aligned);
    }
}

/// Checks one shape, with its axes in this order in memory.
#[track_caller]
pub(crate) fn check_order(
    gemm: &Gemm,
    (m, n, lower, batch): (usize, usize, [usize; 2], usize),
    order: usize,
    aligned: bool,
) {
    let (plain, shape) = (Placement::PLAIN, (m, n, batch));
    let expected = run(gemm, shape, plain).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
    // Rows that begin at whole vectors, and rows that begin anywhere.
    let (multiple, padding) = if aligned { (16, 16) } else { (1, 3) };
    let digits = Some(Digits { lower, order });
    let given = run(gemm, shape, Placement { multiple, padding, offset: 0, digits, ..plain });
    let given = given.unwrap_or_else(|error| panic!("{shape:?} {lower:?}: {error}"));
    assert_eq!(expected.len(), given.len());
    for (i, (expected, given)) in expected.iter().zip(&given).enumerate() {
        let first = expected.iter().zip(given).position(|(x, y)| x != y);
        assert!(first.is_none() && expected.len() == given.len(), "{shape:?} {lower:?}: output {i}, byte {first:?}");
    }
}

fn trees() -> [Tree; 3] {
    [Layer::tree(), Softmax::tree(), Centred::tree()]
}

fn builder(device: &Device, tree: Tree) -> Builder {
    Builder::new(device, tree).elements(ElementType::F16, ElementType::F16).problem(64, 64, K)
}

#[test]
fn on_the_cpu() {
    for tree in trees() {
        for tile in [None, Some((32, 24))] {
            let tile = tile.map(|(m, n)| Tile { m, n, k: 1, warp_m: 1, warp_n: 1, stages: 1 });
            let gemm = tile.into_iter().fold(builder(&Device::cpu(), tree.clone()), Builder::tile);
            let gemm = gemm.plan().expect("a plan");
            // Machine code comes with the second run.
            for aligned in [true, false, true] {
                check(&gemm, &SHAPES, aligned);
            }
        }
    }
}

#[test]
fn on_sm_80() {
    if testing::compiler("layouts::on_sm_80").is_none() {
        return;
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On)).expect("a device");
    let instruction = Instruction::of(ElementType::F16, ElementType::F16, Arithmetic::Exact).expect("an instruction");
    let smallest = *Tile::all(instruction).last().expect("a tile");
    let splits = [SplitK::None, SplitK::Parallel(2), SplitK::Serial(2), SplitK::Stream];
    for (i, tree) in trees().into_iter().enumerate() {
        for half in [0, 1] {
            let builder = builder(&device, tree.clone()).tile(smallest).split_k(splits[(i + 2 * half) % splits.len()]);
            check(&builder.plan().expect("a plan"), &SHAPES[half * 3..][..4], half == 0);
        }
    }
}

#[test]
fn on_sm_90a() {
    if testing::compiler("layouts::on_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(2), SplitK::Stream];
    for (i, request) in small_tiles().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let tree = trees()[[0, 2, 1, 0][i]].clone();
        let request = Request { split_k: Some(splits[i]), ..request };
        let gemm = builder(&device, tree).multiprocessors(4).sm90(request).plan().expect("a plan");
        check(&gemm, &SHAPES[i..][..3], i % 2 == 0);
    }
}

#[epilogue]
fn heads(accum: Accum, mask: Tensor<f32>) -> Tensor<f32> {
    let d = accum + mask;
    d
}

/// Heads `[B, H, S, D]` of a product `[B·S, H·D]`, and a mask `[S, D]` for all of them.
#[test]
fn heads_are_written_apart() -> Result<(), Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler("layouts::heads_are_written_apart").is_some() {
        devices.extend([Device::emulated(Arch::SM_80)?, Device::emulated(Arch::SM_90A)?]);
    }
    let [b, h, s, d] = [2, 3, 5, 4];
    for device in devices {
        // Each row of A has one 1, so the product is B's rows in this order.
        let rows = b * s;
        let a: Vec<f32> = (0..rows * rows).map(|i| f32::from(i % (rows + 1) == 0)).collect();
        let (a, values) = (device.tensor(&a, [rows, rows])?, (0..rows * h * d).map(|i| i as f32).collect::<Vec<_>>());
        let right = device.tensor(&values, [rows, h * d])?;
        let mask = device.tensor(&(0..s * d).map(|i| 1000.0 * i as f32).collect::<Vec<_>>(), [s, d])?;
        let mask = mask.broadcast_to([b, h, s, d])?.as_matrix(&[0, 2], &[1, 3])?;
        let out = device.zeros::<f32>([b, h, s, d])?;
        let gemm = Gemm::plan::<Heads>(&device, &a, &right)?;
        let mut view = out.as_matrix(&[0, 2], &[1, 3])?;
        let expected = gemm.reference(&a, &right, Heads { mask: &mask, d: &mut view })?;
        gemm.run(&a, &right, Heads { mask: &mask, d: &mut view })?;
        expected.compare("d", &view)?.check()?;
        let at = |i: usize| [i / (h * s * d), i / (s * d) % h, i / d % s, i % d];
        let wanted =
            |[ib, ih, is, id]: [usize; 4]| ((ib * s + is) * h * d + ih * d + id) as f32 + 1000.0 * (is * d + id) as f32;
        let wanted: Vec<f32> = (0..b * h * s * d).map(|i| wanted(at(i))).collect();
        assert_eq!(out.to_vec::<f32>()?, wanted, "{device}");
    }
    Ok(())
}

#[epilogue]
fn two(accum: Accum, c: Tensor<f32>) -> (Tensor<f32>, Tensor<f32>) {
    let first = accum + c;
    let second = accum - c;
    (first, second)
}

/// Two parts of one tensor may be written by one run, and one read while the other is written; what overlaps is refused.
#[test]
fn parts_of_a_tensor_are_told_apart() -> Result<(), Error> {
    let device = Device::cpu();
    let [b, h, s, d] = [2, 3, 5, 4];
    let (a, right) = (device.full::<f32>([b * s, 2], 1.0)?, device.full::<f32>([2, h * d], 1.0)?);
    let packed = device.full::<f32>([b, s, 3, h, d], 0.5)?;
    let part = |i: usize| packed.slice(2, i..i + 1)?.reshape([b, s, h, d])?.as_matrix(&[0, 1], &[2, 3]);
    let (mut first, mut second, c) = (part(0)?, part(1)?, part(2)?);
    let gemm = Gemm::plan::<Two>(&device, &a, &right)?;
    gemm.run(&a, &right, Two { c: &c, first: &mut first, second: &mut second })?;
    let wanted: Vec<f32> = [2.5, 1.5, 0.5].iter().flat_map(|x| [*x; 12]).collect();
    assert_eq!(packed.to_vec::<f32>()?, wanted.repeat(b * s));
    // By heads, these are matrices of other rows.
    let halves = packed.slice(2, 0..2)?.reshape([b, s, 2 * h, d])?;
    let heads = |range| halves.slice(2, range)?.as_matrix(&[2, 0, 1], &[3]);
    let (mut low, mut high) = (heads(0..3)?, heads(3..6)?);
    let of_heads = device.full::<f32>([h * b * s, 2], 1.0)?;
    let narrow = device.full::<f32>([2, d], 1.0)?;
    let c = device.zeros::<f32>([h * b * s, d])?;
    gemm.run(&of_heads, &narrow, Two { c: &c, first: &mut low, second: &mut high })?;
    let mut wide = heads(2..5)?;
    let refused = gemm.run(&of_heads, &narrow, Two { c: &c, first: &mut low, second: &mut wide });
    assert!(matches!(refused, Err(Error::OutputsOverlap { first: "first", second: "second" })));
    let mut own = device.zeros::<f32>([h * b * s, d])?;
    let refused = gemm.run(&of_heads, &narrow, Two { c: &wide, first: &mut low, second: &mut own });
    assert!(matches!(refused, Err(Error::OutputAliasesInput { output: "first", input: "c", .. })));
    let mut repeated = device.zeros::<f32>([s, d])?.broadcast_to([b, h, s, d])?.as_matrix(&[1, 0, 2], &[3])?;
    let refused = gemm.run(&of_heads, &narrow, Two { c: &c, first: &mut repeated, second: &mut own });
    assert!(matches!(refused, Err(Error::OutputRepeats { name: "first" })));
    Ok(())
}

#[epilogue]
fn masked(accum: Accum, keep: Bits, bias: RowVector<f32>) -> (Tensor<f32>, RowVector<f32>) {
    let d = if keep { accum + bias } else { 0.0 };
    let sums = reduction_op(d, Column, Add);
    (d, sums)
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let message = |result: Result<(), Error>| result.expect_err("it is refused").to_string();
    let [b, h, s, d] = [2, 3, 1024, 4];
    let heads_of = |device: &Device| device.zeros::<f32>([b, h, s, d]);
    let (a, right) = (device.zeros::<f32>([4096, 2])?, device.zeros::<f32>([2, h * d])?);
    let gemm = Gemm::plan::<Heads>(&device, &a, &right)?;
    let (mask, mut out) = (heads_of(&device)?.as_matrix(&[0, 2], &[1, 3])?, device.zeros::<f32>([4096, h * d])?);
    assert_eq!(
        message(gemm.run(&a, &right, Heads { mask: &mask, d: &mut out })),
        "argument `mask`: rows are 4096, but axes [0, 2] have 2·1024 elements"
    );
    let mut view = heads_of(&device)?.as_batched_matrix(&[0], &[2], &[1, 3])?;
    let batched = (device.zeros::<f32>([b, s, 2])?, device.zeros::<f32>([2, d])?);
    let mask = device.zeros::<f32>([s, d])?;
    assert_eq!(
        message(gemm.run(&batched.0, &batched.1, Heads { mask: &mask, d: &mut view })),
        "argument `d`: columns are 4, but axes [1, 3] have 3·4 elements"
    );
    // A tensor of four axes that was not told what they are.
    let mask = heads_of(&device)?;
    assert!(message(gemm.run(&a, &right, Heads { mask: &mask, d: &mut out })).contains("has shape [2, 3, 1024, 4]"));
    // A and B have one stride along each axis.
    let operand = device.zeros::<f32>([2, 2, 4, 3])?.as_matrix(&[0, 2], &[1, 3])?;
    assert!(message(gemm.run(&operand, &right, Heads { mask: &out.clone(), d: &mut out })).contains("[2, 4, 2, 3]"));

    let (a, right) = (device.zeros::<f32>([6, 2])?, device.zeros::<f32>([2, 16])?);
    let gemm = Gemm::plan::<Masked>(&device, &a, &right)?;
    let (mut out, mut sums) = (device.zeros::<f32>([6, 16])?, device.zeros::<f32>([16])?);
    let bits = device.zeros::<u8>([6, 2])?;
    // A vector of each batch is no matrix, though its extents may be the same.
    let bias = device.zeros::<f32>([4, 1, 2, 2])?.as_matrix(&[1], &[3, 0, 2])?;
    assert_eq!(
        message(gemm.run(&a, &right, Masked { keep: &bits, bias: &bias, d: &mut out, sums: &mut sums })),
        "argument `bias` has rows, columns or batches of two axes that don't merge (shape [1, 1, 2, 8], strides \
         [0, 0, 1, 2]), which a vector viewed as a matrix can't have: view it by `as_row_vector`, or by \
         `as_batched_row_vector` where it has values for each batch"
    );
    let bias = device.zeros::<f32>([16])?;
    let mut wide = device.zeros::<f32>([16, 7])?.slice(1, 0..6)?.as_batched_row_vector(&[], &[0, 1])?;
    let refused = message(gemm.run(&a, &right, Masked { keep: &bits, bias: &bias, d: &mut wide, sums: &mut sums }));
    assert!(refused.contains("`d`") && refused.contains("a matrix viewed as a vector can't"), "{refused}");
    let wide = device.zeros::<f32>([3, 7])?.slice(1, 0..5)?.as_row_vector(&[0, 1])?;
    let refused = message(gemm.run(&a, &right, Masked { keep: &bits, bias: &wide, d: &mut out, sums: &mut sums }));
    assert_eq!(refused, "argument `bias`: columns are 16, but axes [0, 1] have 3·5 elements");
    let mut partials = device.zeros::<f32>([1, 4, 2, 2])?.as_matrix(&[2, 0], &[3, 1])?;
    let gemm = Gemm::plan::<InParts>(&device, &a, &right)?;
    let refused = message(gemm.run(&a, &right, InParts { d: &mut out, sums: &mut partials }));
    assert!(
        refused.contains("`sums`") && refused.contains("partial results of tiles can't have: give it"),
        "{refused}"
    );
    Ok(())
}

#[epilogue]
fn in_parts(accum: Accum) -> (Tensor<f32>, ColumnPartials) {
    let sums = reduction_op(accum, Column, Add, threadblock_shape.m);
    let d = 2.0 * accum;
    (d, sums)
}

/// Vectors that are windows of larger tensors, a mask of bits for all heads, and results beside others of their kind: what the
/// reference says.
#[test]
fn vectors_and_bits_are_windows_of_larger_tensors() -> Result<(), Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler("layouts::vectors_and_bits_are_windows_of_larger_tensors").is_some() {
        devices.extend([Device::emulated(Arch::SM_80)?, Device::emulated(Arch::SM_90A)?]);
    }
    let [b, h, s, d] = [2, 3, 5, 8];
    for device in devices {
        let values = |count: usize, step: usize| numbers(count, step).iter().map(|x| *x as f32).collect::<Vec<_>>();
        let (a, right) =
            (device.tensor(&values(b * s * 8, 7), [b * s, 8])?, device.tensor(&values(8 * h * d, 11), [8, h * d])?);
        let all = values(h * (d + 4), 5);
        let bias = device.tensor(&all, [h, d + 4])?.slice(1, 2..2 + d)?.as_row_vector(&[0, 1])?;
        // A byte for the columns of each head, the same in all batches.
        let bytes: Vec<u8> = (0..h * s).map(|i| (i * 73 + 5) as u8).collect();
        let keep = device.tensor(&bytes, [h, s])?.unsqueeze(0)?.broadcast_to([b, h, s])?.as_matrix(&[0, 2], &[1])?;
        let out = device.zeros::<f32>([b, h, s, d])?;
        let results = device.full::<f32>([h, 2, d], 9.0)?;
        let gemm = Gemm::plan::<Masked>(&device, &a, &right)?;
        let mut view = out.as_matrix(&[0, 2], &[1, 3])?;
        let mut sums = results.slice(1, 1..2)?.as_row_vector(&[0, 1, 2])?;
        assert_eq!(sums.shape(), [h, d]);
        let expected =
            gemm.reference(&a, &right, Masked { keep: &keep, bias: &bias, d: &mut view, sums: &mut sums })?;
        gemm.run(&a, &right, Masked { keep: &keep, bias: &bias, d: &mut view, sums: &mut sums })?;
        expected.compare("d", &view)?.check()?;
        expected.compare("sums", &sums)?.check()?;
        let kept = out.to_vec::<f32>()?;
        for (i, x) in kept.iter().enumerate() {
            let [ih, is, id] = [i / (s * d) % h, i / d % s, i % d];
            assert_eq!(*x == 0.0, bytes[ih * s + is] >> id & 1 == 0, "{device}: {i}");
        }
        assert!(results.slice(1, 0..1)?.to_vec::<f32>()?.iter().all(|x| *x == 9.0));
    }
    Ok(())
}

/// The launch of a run with views can be described, word by word, for programs in other languages.
/// The sums of rows, which the last phase divides by.
#[epilogue]
fn shares(accum: Accum) -> (Tensor<f32>, ColumnVector<f32>) {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let sum = reduction_op(e, Row, Add);
    let d = e * recip(sum);
    (d, sum)
}

/// A phase's sums of rows, in memory with gaps. Few rows are computed panel by panel, long ones as wholes.
#[test]
fn sums_of_a_phase_are_stored_apart() -> Result<(), Error> {
    let device = Device::cpu();
    for columns in [5, 2100] {
        let a: Vec<f32> = numbers(6 * 4, 5).iter().map(|x| *x as f32).collect();
        let b: Vec<f32> = numbers(4 * columns, 7).iter().map(|x| *x as f32).collect();
        let (a, b) = (device.tensor(&a, [6, 4])?, device.tensor(&b, [4, columns])?);
        let (mut d, mut sum) = (device.zeros::<f32>([6, columns])?, device.zeros::<f32>([6])?);
        let all = device.full::<f32>([2, 8], -1.0)?;
        let mut apart = all.slice(1, 0..3)?.as_column_vector(&[0, 1])?;
        let gemm = Gemm::plan::<Shares>(&device, &a, &b)?;
        gemm.run(&a, &b, Shares { d: &mut d, sum: &mut sum })?;
        gemm.run(&a, &b, Shares { d: &mut d, sum: &mut apart })?;
        assert_eq!(apart.to_vec::<f32>()?, sum.to_vec::<f32>()?, "{columns} columns");
        let rest = all.slice(1, 3..8)?;
        assert!(rest.to_vec::<f32>()?.iter().all(|x| *x == -1.0), "nothing between");
    }
    Ok(())
}

#[test]
fn a_launch_with_views_is_described() -> Result<(), Error> {
    use epilogue::gemm::launch::FieldValue::Integer;
    if testing::compiler("layouts::a_launch_with_views_is_described").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let (a, right) = (device.zeros::<f32>([10, 8])?, device.zeros::<f32>([8, 24])?);
    let gemm = Gemm::plan::<Heads>(&device, &a, &right)?;
    let mask = device.zeros::<f32>([10, 24])?;
    for (d, vectorised) in [(8, 1), (6, 0)] {
        let h = 24 / d;
        let mut out = device.zeros::<f32>([2, h, 5, d])?.as_matrix(&[0, 2], &[1, 3])?;
        let launch = gemm.describe_launch(&a, &right, &[Argument::Input(&mask), Argument::Output(&mut out)])?;
        let word = |name: &str| {
            let field = launch.fields.iter().find(|field| field.name == format!("arguments.d.{name}"));
            match field.unwrap_or_else(|| panic!("{name}: {:?}", launch.fields)).value {
                Integer(word) => word as usize,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([word("row_stride"), word("row_upper_stride"), word("row_extent")], [d, h * 5 * d, 5]);
        assert_eq!([word("column_stride"), word("column_upper_stride"), word("column_extent")], [1, 5 * d, d]);
        assert_eq!((9 * word("row_magic")) >> word("row_shift"), 1);
        assert_eq!((word("batch_stride"), word("vectorised")), (0, vectorised));
    }
    Ok(())
}

#[epilogue]
fn of_experts(accum: Accum, c: Tensor, bias: RowVector<f32>, mut sums: TensorMut<f32>) -> (Tensor, TensorMut<f32>) {
    let d = accum + bias + c;
    sums = sums + d;
    (d, sums)
}

/// Rows in groups, with heads apart: matrices of several axes have the rows of all groups.
#[test]
fn groups_of_rows_give_the_same_bits() -> Result<(), Error> {
    const NAME: &str = "layouts::groups_of_rows_give_the_same_bits";
    let (b, s, h, d, k) = (3, 25, 2, 24, 40);
    let mut devices = vec![Device::cpu()];
    if testing::compiler(NAME).is_some() {
        devices.push(Device::emulated(Arch::SM_80)?);
        devices.push(device(Completion::Random, 5));
    }
    for device in devices {
        let half = |shape: &[usize], step: usize| {
            let values = numbers(shape.iter().product(), step);
            device.tensor_from_bytes(ElementType::F16, &reference::encode(ElementType::F16, &values), shape)
        };
        let (left, right) = (half(&[b * s, k], 7)?, half(&[4, k, h * d], 11)?);
        let bounds = device.tensor(&[0i32, 31, 31, 70, 74], [5])?;
        let left = rows(&left).in_groups(&bounds);
        let bias = device.tensor(&numbers(4 * h * d, 3).iter().map(|x| *x as f32).collect::<Vec<_>>(), [4, h * d])?;
        let mut builder = Gemm::builder::<OfExperts>(&device)
            .elements(ElementType::F16, ElementType::F16)
            .problem(b * s, h * d, k)
            .groups(4);
        if device.arch() == Some(Arch::SM_90A) {
            builder = builder.sm90(small_tiles()[0]);
        }
        let gemm = builder.plan()?;
        // Once with matrices as they lie in order, once with views of tensors [B, H, S, D].
        let given = numbers(b * s * h * d, 13);
        let mut made = Vec::new();
        for apart in [false, true] {
            let view = |tensor: DeviceTensor| if apart { tensor.as_matrix(&[0, 2], &[1, 3]) } else { Ok(tensor) };
            let shape = if apart { vec![b, h, s, d] } else { vec![b * s, h * d] };
            let mut c = view(device.zeros::<f16>(shape.as_slice())?)?;
            let mut out = view(device.zeros::<f16>(shape.as_slice())?)?;
            let mut sums = view(device.zeros::<f32>(shape.as_slice())?)?;
            c.copy_from(&given.iter().map(|x| f16::from_f64(*x)).collect::<Vec<_>>())?;
            sums.copy_from(&given.iter().map(|x| *x as f32).collect::<Vec<_>>())?;
            gemm.run(left, &right, OfExperts { c: &c, bias: &bias, sums: &mut sums, d: &mut out })?;
            made.push((out.to_bytes()?, sums.to_bytes()?));
        }
        assert!(made[0] == made[1], "{device:?}");
        assert!(made[0].0.iter().any(|byte| *byte != 0));
    }
    Ok(())
}
