//! Rows that an index picks, made by hand.

use epilogue::gemm::launch::{FieldValue, Memory};
use epilogue::gemm::{
    Builder, Instruction, KernelKey, Left, Major, OperandLayout, RowsError, SplitK, Tile, depth, rows, sm90,
};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DataError, DeviceTensor, Error, runtime};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;
use half::f16;

use crate::groups::rough;

/// Two products of the same rows, with a column vector and a statistic of every kind.
#[epilogue]
fn gated(
    gate: Accum,
    up: Accum,
    weight: ColumnVector<f32>,
    residual: Tensor,
) -> (Tensor, ColumnVector, RowVector, DeviceScalar) {
    let d = relu(gate) * up * weight + residual;
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, All, AbsMax);
    (d, row_sums, column_sums, largest)
}

#[epilogue]
pub(crate) fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

/// Computed from its own reductions.
#[epilogue]
pub(crate) fn softmax(accum: Accum) -> Tensor {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    d
}

/// The rows of A that an index picks, and zeros for numbers that are no rows; copied on the host.
pub(crate) fn copied(a: &DeviceTensor, numbers: &[i32]) -> Result<DeviceTensor, Error> {
    let (values, [limit, k]) = (a.to_vec::<f16>()?, [a.shape()[0], a.shape()[1]]);
    let row = |row: &i32| match usize::try_from(*row) {
        Ok(row) if row < limit => values[row * k..][..k].to_vec(),
        _ => vec![f16::ZERO; k],
    };
    Ok(a.device().tensor(&numbers.iter().flat_map(row).collect::<Vec<_>>(), [numbers.len(), k])?)
}

/// Indices of `count` rows of `limit`: in their order, reversed, all equal, with repetitions.
pub(crate) fn indices(count: usize, limit: usize) -> [Vec<i32>; 4] {
    let of = |row: &dyn Fn(usize) -> usize| (0..count).map(|m| (row(m) % limit) as i32).collect();
    [of(&|m| m), of(&|m| count - 1 - m), of(&|_| limit / 2), of(&|m| m * m / 3 + m)]
}

/// The index as every second element of a tensor.
fn apart(device: &Device, index: &[i32]) -> Result<DeviceTensor, Error> {
    let twice: Vec<i32> = index.iter().flat_map(|row| [*row, -1]).collect();
    Ok(device.tensor(&twice, [index.len(), 2])?.slice(1, 0..1)?.reshape([index.len()])?)
}

struct Outputs([DeviceTensor; 4]);

impl Outputs {
    fn new(device: &Device, [m, n]: [usize; 2]) -> Result<Self, Error> {
        Ok(Self([
            device.full::<f16>([m, n], f16::ONE)?,
            device.full::<f32>([m], 1.0)?,
            device.full::<f32>([n], 1.0)?,
            device.full::<f32>([], 1.0)?,
        ]))
    }

    fn bytes(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.0.iter().map(|tensor| Ok(tensor.to_bytes()?)).collect()
    }
}

/// Two products of picked rows: the bits of a product of a copy of the rows, with the same kernel.
fn rows_are_those_of_a_copy(
    device: &Device,
    extents: [usize; 3],
    index: &[i32],
    tile: Tile,
    split_k: SplitK,
) -> Result<(), Error> {
    rows_are_those_of_a_copy_by(device, extents, index, |builder| builder.tile(tile).split_k(split_k))
}

/// Compares picked rows with a copy, with these knobs.
fn rows_are_those_of_a_copy_by(
    device: &Device,
    [limit, n, k]: [usize; 3],
    index: &[i32],
    knobs: impl Fn(Builder<Gated>) -> Builder<Gated>,
) -> Result<(), Error> {
    let m = index.len();
    let a = rough(device, &[limit, k], 1)?;
    let (gate, up) = (rough(device, &[k, n], 2)?, rough(device, &[k, n], 3)?);
    let (weight, residual) = (device.full::<f32>([m], 0.7)?, rough(device, &[m, n], 4)?);
    let (copy, index) = (copied(&a, index)?, apart(device, index)?);
    let left = Left::from(rows(&a).picked(&index));
    let builder = |left: Left<'_>| -> Result<_, Error> {
        let builder = Gemm::builder::<Gated>(device).operands(left, [&gate, &up])?;
        knobs(builder).multiprocessors(4).ignore_unsupported_knobs().plan()
    };
    let mut results = Vec::new();
    for left in [Left::from(&copy), left] {
        let (gemm, mut outputs) = (builder(left)?, Outputs::new(device, [m, n])?);
        let Outputs([d, row_sums, column_sums, largest]) = &mut outputs;
        let (weight, residual) = (&weight, &residual);
        gemm.run(left, [&gate, &up], Gated { weight, residual, d, row_sums, column_sums, largest })?;
        results.push(outputs.bytes()?);
    }
    assert!(results[0] == results[1], "{limit}x{n}x{k} {index:?} on {device}: {}", builder(left)?.choice());
    Ok(())
}

/// The tiles with the fewest rows, and one with more rows for each thread.
fn tiles() -> [Tile; 2] {
    let all = Tile::all(Instruction::MmaF16);
    let smallest = all.iter().min_by_key(|tile| (tile.m, tile.n)).copied().unwrap_or(all[0]);
    let of = |tile: &&Tile| (tile.m, tile.n, tile.k) == (128, 64, 64);
    [smallest, all.iter().find(of).copied().unwrap_or(all[0])]
}

#[test]
fn the_bits_are_those_of_a_copy() -> Result<(), Error> {
    let (device, [tile, _]) = (Device::cpu(), tiles());
    for extents in [[50, 24, 40], [3, 24, 17], [700, 300, 64], [1, 8, 1]] {
        for count in [0, 1, 50, 130] {
            for index in indices(count, extents[0]) {
                rows_are_those_of_a_copy(&device, extents, &index, tile, SplitK::None)?;
            }
        }
    }
    Ok(())
}

/// With the race detector: more rows than a tile has, copies of every width (by K), split K.
#[test]
fn on_emulated_devices() -> Result<(), Error> {
    if testing::compiler("picked::on_emulated_devices").is_none() {
        return Ok(());
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (arch, completion) in [(Arch::SM_80, Completion::Lazy), (Arch::SM_90A, Completion::Random)] {
        let options = Options::default().detector(Detector::On).completion(completion);
        let device = Device::emulated_with(arch, options)?;
        for (i, extents) in [[50, 24, 40], [3, 24, 132], [90, 16, 70], [7, 16, 65]].into_iter().enumerate() {
            let counts = [[33, 129], [1, 64], [40, 5], [32, 0]][i];
            for (j, count) in counts.into_iter().enumerate() {
                let index = &indices(count, extents[0])[(i + j) % 4];
                rows_are_those_of_a_copy(&device, extents, index, tiles()[(i + j) % 2], splits[i])?;
            }
        }
    }
    Ok(())
}

/// A kernel for sm_90a, before which rows are copied that an index picks.
fn copied_first() -> sm90::Request {
    sm90::Request { picked: Some(false), ..sm90::Request::default() }
}

/// Kernels for sm_90a take rows that are copied before, wherever they begin.
#[test]
fn kernels_for_sm90a_take_a_copy() -> Result<(), Error> {
    if testing::compiler("picked::kernels_for_sm90a_take_a_copy").is_none() {
        return Ok(());
    }
    let device = Device::emulated_with(Arch::SM_90A, Options::default().detector(Detector::On))?;
    for (i, extents) in [[50, 24, 40], [3, 32, 132], [90, 16, 70], [1, 16, 65]].into_iter().enumerate() {
        for swap_ab in [false, true] {
            let request = sm90::Request { swap_ab: Some(swap_ab), ..copied_first() };
            let index = &indices([33, 129, 5, 40][i], extents[0])[i];
            rows_are_those_of_a_copy_by(&device, extents, index, |builder| builder.sm90(request))?;
        }
    }
    // In groups: rows of none have numbers that are none.
    let (a, b) = (rough(&device, &[9, 72], 1)?, rough(&device, &[3, 72, 64], 2)?);
    let numbers: Vec<i32> = (0..150).map(|m| if (2..148).contains(&m) { m * 5 % 9 } else { -7 }).collect();
    let index = device.tensor(&numbers, [150])?;
    let (offsets, ends) = (device.tensor(&[2i32, 37, 37, 148], [4])?, device.tensor(&[37i32, 37, 148], [3])?);
    let numbers = device.tensor(&numbers.iter().map(|row| (*row).max(0)).collect::<Vec<_>>(), [150])?;
    for left in [rows(&a).picked(&index).in_groups(&offsets), rows(&a).picked(&numbers).in_groups_to(&ends)] {
        let gemm = Gemm::builder::<Plain>(&device).operands(left, &b)?.sm90(copied_first()).plan()?;
        assert!(matches!(gemm.choice().kernel().map(|kernel| kernel.key), Some(KernelKey::Sm90(_))));
        let mut d = device.full::<f16>([150, 64], f16::ONE)?;
        gemm.run(left, &b, Plain { d: &mut d })?;
        gemm.reference(left, &b, Plain { d: &mut d })?.compare("d", &d)?.check()?;
        device.check()?;
        // A description has one launch.
        let described = gemm.describe_launch(left, &b, &[Argument::Output(&mut d)]).expect_err("two launches");
        assert!(described.to_string().contains("copies an operand first"), "{described}");
    }
    // Rows of groups are those by the nearest right bounds.
    let mut results = Vec::new();
    for bounds in [[0i32, 100, 100, 150], [-3, 100, 37, 151]] {
        let bounds = device.tensor(&bounds, [4])?;
        let left = rows(&a).picked(&numbers).in_groups(&bounds);
        let gemm = Gemm::builder::<Plain>(&device).operands(left, &b)?.sm90(copied_first()).plan()?;
        let mut d = device.full::<f16>([150, 64], f16::ONE)?;
        gemm.run(left, &b, Plain { d: &mut d })?;
        let wrong = results.len() == 1;
        let reported = matches!(device.check(), Err(runtime::Error::Data(DataError::Bound { .. })));
        assert_eq!(reported, wrong, "{bounds:?}");
        let _ = d.to_bytes(); // has its report, too
        results.push(d.to_bytes()?);
    }
    assert!(results[0] == results[1]);
    Ok(())
}

/// Picked rows in groups, each with its own B, and rows of no group whose numbers are none.
fn groups(device: &Device, tile: Tile) -> Result<(), Error> {
    let (a, b) = (rough(device, &[9, 24], 1)?, rough(device, &[3, 24, 40], 2)?);
    let numbers: Vec<i32> = (0..50).map(|m| if (2..48).contains(&m) { m * 5 % 9 } else { -7 }).collect();
    let (index, copy) = (device.tensor(&numbers, [50])?, copied(&a, &numbers)?);
    let offsets = device.tensor(&[2i32, 37, 37, 48], [4])?;
    let left = rows(&a).picked(&index).in_groups(&offsets);
    let of_copy = rows(&copy).in_groups(&offsets);
    let mut results = Vec::new();
    for left in [left, of_copy] {
        let mut d = device.full::<f16>([50, 40], f16::ONE)?;
        let gemm = Gemm::builder::<Plain>(device).operands(left, &b)?.tile(tile).plan()?;
        gemm.run(left, &b, Plain { d: &mut d })?;
        gemm.reference(left, &b, Plain { d: &mut d })?;
        results.push(d.to_bytes()?);
    }
    device.check()?;
    assert!(results[0] == results[1]);
    Ok(())
}

#[test]
fn in_groups() -> Result<(), Error> {
    let [tile, _] = tiles();
    groups(&Device::cpu(), tile)?;
    if testing::compiler("picked::in_groups").is_none() {
        return Ok(());
    }
    groups(&Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On))?, tile)
}

/// Whole rows are values of the epilogue.
fn phases(device: &Device) -> Result<(), Error> {
    let (a, b) = (rough(device, &[20, 24], 1)?, rough(device, &[24, 150], 2)?);
    for index in indices(140, 20) {
        let (index, copy) = (device.tensor(&index, [140])?, copied(&a, &index)?);
        let (mut d, mut expected) = (device.zeros::<f16>([140, 150])?, device.zeros::<f16>([140, 150])?);
        let left = rows(&a).picked(&index);
        let gemm = Gemm::plan::<Softmax>(device, left, &b)?;
        gemm.run(left, &b, Softmax { d: &mut d })?;
        gemm.reference(left, &b, Softmax { d: &mut d })?.compare("d", &d)?.check()?;
        Gemm::plan::<Softmax>(device, &copy, &b)?.run(&copy, &b, Softmax { d: &mut expected })?;
        assert!(device.arch() == Some(Arch::SM_90A) || d.to_bytes()? == expected.to_bytes()?);
    }
    Ok(())
}

#[test]
fn with_phases() -> Result<(), Error> {
    phases(&Device::cpu())?;
    if testing::compiler("picked::with_phases").is_none() {
        return Ok(());
    }
    phases(&Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On))?)
}

/// A number that is not a row's is a row of zeros on a GPU, and is reported.
#[test]
fn wrong_numbers_are_zeros_and_reported() -> Result<(), Error> {
    if testing::compiler("picked::wrong_numbers_are_zeros_and_reported").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        wrong_numbers(arch)?;
    }
    Ok(())
}

fn wrong_numbers(arch: Arch) -> Result<(), Error> {
    let device = Device::emulated_with(arch, Options::default().detector(Detector::On))?;
    let plan = |left: Left<'_>, b: &DeviceTensor| {
        let builder = Gemm::builder::<Plain>(&device).operands(left, b)?;
        let builder = if arch == Arch::SM_90A { builder.sm90(copied_first()) } else { builder };
        builder.plan()
    };
    for wrong in [-1, 6, i32::MIN, i32::MAX] {
        // Each tensor reports what failed while it was there.
        let (a, b) = (rough(&device, &[6, 40], 1)?, rough(&device, &[40, 24], 2)?);
        let numbers = [3, wrong, 0, 5, 5];
        let index = device.tensor(&numbers, [5])?;
        let taken: Vec<i32> = numbers.map(|row| if (0..6).contains(&row) { row } else { -1 }).to_vec();
        let copy = copied(&a, &taken)?;
        let (mut d, mut expected) = (device.zeros::<f16>([5, 24])?, device.full::<f16>([5, 24], f16::ONE)?);
        let left = rows(&a).picked(&index);
        plan((&copy).into(), &b)?.run(&copy, &b, Plain { d: &mut expected })?;
        let expected = expected.to_bytes()?;
        device.check()?;
        plan(left.into(), &b)?.run(left, &b, Plain { d: &mut d })?;
        match device.check() {
            Err(runtime::Error::Data(DataError::Index { tensor, dimension: 0, index, extent: 6 })) => {
                assert_eq!((tensor.as_str(), index), ("A", i64::from(wrong)));
            }
            checked => panic!("{wrong}: {checked:?}"),
        }
        let _ = d.to_bytes(); // has its report, too
        assert!(d.to_bytes()? == expected, "{wrong}");
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[8, 4], 2)?);
    let index = device.tensor(&[0i32, 5, 2], [3])?;
    let refused = |left: Left<'_>| Gemm::plan::<Plain>(&device, left, &b).expect_err("it does not fit").to_string();
    let wide = device.tensor(&[0i64, 5], [2])?;
    assert_eq!(refused(rows(&a).picked(&wide).into()), "the index that picks rows holds i64; needed is i32");
    let square = device.tensor(&[0i32; 4], [2, 2])?;
    assert_eq!(
        refused(rows(&a).picked(&square).into()),
        "the index that picks rows has shape [2, 2]; needed is [T], a row's number for each of the product's T rows"
    );
    let batch = rough(&device, &[2, 3, 8], 1)?;
    let counts = device.tensor(&[3i32, 3], [2])?;
    for left in [rows(&batch).picked(&index).into(), rows(&batch).picked(&index).in_groups_of(&counts)] {
        assert_eq!(
            refused(left),
            "rows are picked from an A of shape [2, 3, 8]: give one matrix, [S, K], and offsets or ends where there are groups"
        );
    }
    let along_m = rough(&device, &[8, 6], 1)?.transpose()?;
    let by_columns =
        "rows are picked from an A that is contiguous along M: give one whose rows are, along K, such as a copy of it";
    assert_eq!(refused(rows(&along_m).picked(&index).into()), by_columns);
    let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(8, 8, 8);
    let layout = OperandLayout::packed(Major::Mn);
    let choice = builder.clone().layouts(layout, layout).picked_rows().choose();
    assert_eq!(choice.expect_err("rows are not contiguous").to_string(), by_columns);
    assert_eq!(
        builder.padded_groups(3).picked_rows().choose().expect_err("groups of their own").to_string(),
        "rows are picked from one matrix, and the product has groups of a matrix each: give offsets or ends of groups of rows"
    );

    // A run refuses before it writes.
    let left = Left::from(rows(&a).picked(&index));
    let gemm = Gemm::plan::<Plain>(&device, left, &b)?;
    let mut d = device.full::<f16>([3, 4], f16::ONE)?;
    for wrong in [-1, 6] {
        let index = device.tensor(&[0i32, 5, wrong], [3])?;
        let error = gemm.run(rows(&a).picked(&index), &b, Plain { d: &mut d }).expect_err("no such row");
        assert!(matches!(error, Error::Rows(RowsError::Row { place: 2, given, rows: 6 }) if given == wrong));
        assert!(gemm.reference(rows(&a).picked(&index), &b, Plain { d: &mut d }).is_err());
    }
    let error = gemm.run(&a, &b, Plain { d: &mut d }).expect_err("other rows").to_string();
    assert_eq!(error, "A has rows in their order, and this GEMM was planned for picked rows: plan it for such an A");
    let error = Gemm::plan::<Plain>(&device, &a, &b)?.run(left, &b, Plain { d: &mut d }).expect_err("other rows");
    assert!(matches!(error, Error::Rows(RowsError::Other { given: true })));
    let mut six = device.zeros::<f16>([6, 4])?;
    let error = gemm.run(left, &b, Plain { d: &mut six }).expect_err("D has the product's rows").to_string();
    assert_eq!(error, "argument `d` has shape [6, 4]; needed is [3, 4]");
    let foreign = Device::emulated(Arch::SM_80)?.tensor(&[0i32, 5, 2], [3])?;
    let error = gemm.run(rows(&a).picked(&foreign), &b, Plain { d: &mut d }).expect_err("another device").to_string();
    assert!(error.contains("index") && error.contains("emulated"), "{error}");
    assert!(d.to_vec::<f16>()?.iter().all(|x| *x == f16::ONE));
    let _ = depth(&a); // K is divided, and not picked: it has no such method
    Ok(())
}

/// An output may not be the index.
#[test]
fn the_index_is_read_only() -> Result<(), Error> {
    #[epilogue]
    fn largest(accum: Accum) -> ColumnVector<i32> {
        let place = reduction_op(accum, Row, ArgMax);
        place
    }
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[8, 4], 2)?);
    let index = device.tensor(&[0i32, 5, 2], [3])?;
    let mut place = index.slice(0, 0..3)?;
    let gemm = Gemm::plan::<Largest>(&device, rows(&a).picked(&index), &b)?;
    let refused = gemm.run(rows(&a).picked(&index), &b, Largest { place: &mut place }).expect_err("it is read");
    assert!(matches!(refused, Error::OutputAliasesInput { input: "index", .. }), "{refused}");
    Ok(())
}

/// If kernels for sm_90a don't gather rows themselves, the model weighs two ways: a copy of the rows before the
/// product, and a kernel for sm_80 that gathers them.
#[test]
fn the_model_weighs_a_copy() -> Result<(), Error> {
    let narrow = OperandLayout { major: Major::K, copy_bytes: 8 };
    let chosen = |arch: Arch, [m, n, k]: [usize; 3]| -> Result<_, Error> {
        let builder = Gemm::builder::<Plain>(&Device::emulated(arch)?).elements(ElementType::F16, ElementType::F16);
        builder.problem(m, n, k).picked_rows().layouts(narrow, OperandLayout::packed(Major::Mn)).choose()
    };
    for choice in [chosen(Arch::SM_80, [8192, 4096, 4096])?, chosen(Arch::SM_90A, [64, 64, 64])?] {
        assert!(
            choice.kernel().is_some_and(|kernel| matches!(kernel.key, KernelKey::Sm80(key) if key.reading.is_picked())),
            "{choice}"
        );
        assert!(choice.to_string().contains(", picked rows"), "{choice}");
    }
    let choice = chosen(Arch::SM_90A, [8192, 4096, 4096])?;
    assert!(choice.kernel().is_some_and(|kernel| matches!(kernel.key, KernelKey::Sm90(_))), "{choice}");
    assert!(choice.to_string().contains("A is copied first (an index picks its rows)"), "{choice}");
    Ok(())
}

#[test]
fn launches_are_described() -> Result<(), Error> {
    if testing::compiler("picked::launches_are_described").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
    let (index, ends) = (apart(&device, &[5, 0, 5])?, device.tensor(&[1i32, 3], [2])?);
    let left = rows(&a).picked(&index).in_groups_to(&ends);
    let mut d = device.zeros::<f16>([3, 4])?;
    let gemm = Gemm::plan::<Plain>(&device, left, &b)?;
    let launch = gemm.describe_launch(left, &b, &[Argument::Output(&mut d)])?;
    let value = |name: &str| launch.fields.iter().find(|field| field.name == name).map(|field| field.value);
    assert_eq!(value("picked.rows"), Some(FieldValue::Address(Memory::Index, 0)));
    let numbers = ["picked.stride", "picked.limit", "picked.site", "groups.count"].map(value);
    assert_eq!(numbers, [2, 6, 1, 2].map(|number| Some(FieldValue::Integer(number))));
    Ok(())
}
