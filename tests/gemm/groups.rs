//! Groups of rows, made by hand.

use epilogue::gemm::launch::{FieldValue, Memory};
use epilogue::gemm::{Builder, Choice, Left, SplitK, Tile, rows, sm90};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DataError, DeviceTensor, Error, runtime};
use epilogue_runtime::ptx_vm::{Detector, Options};
use epilogue_runtime::testing;
use half::f16;

/// The kernel that a test is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pin {
    /// One for sm_80, or the CPU's tile.
    Tile(Tile),
    /// One for sm_90a.
    Sm90(sm90::Request),
}

impl Pin {
    pub(crate) fn on<E>(self, builder: Builder<E>) -> Builder<E> {
        match self {
            Self::Tile(tile) => builder.tile(tile),
            // Few blocks at once, so that each computes several tiles.
            Self::Sm90(request) => builder.multiprocessors(4).sm90(request),
        }
    }
}

/// An expert, with a statistic of every kind.
#[epilogue]
fn expert(
    accum: Accum,
    bias: RowVector,
    weight: ColumnVector<f32>,
    scale: DeviceScalar<f32>,
) -> (Tensor, ColumnVector, RowVector, DeviceScalar) {
    let d = relu(accum + bias) * weight * scale;
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, All, AbsMax);
    (d, row_sums, column_sums, largest)
}

/// Rough numbers, so that sums depend on their order.
pub(crate) fn rough(device: &Device, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
    let value = |i: usize| f16::from_f32(((i + seed * 977) as f32 * 0.618_034).fract() - 0.5);
    Ok(device.tensor(&(0..shape.iter().product()).map(value).collect::<Vec<_>>(), shape)?)
}

/// The outputs of [`expert`], as bits.
struct Outputs {
    d: DeviceTensor,
    row_sums: DeviceTensor,
    column_sums: DeviceTensor,
    largest: DeviceTensor,
}

impl Outputs {
    /// Outputs for one product, or for that many groups.
    fn new(device: &Device, [m, n]: [usize; 2], groups: Option<usize>) -> Result<Self, Error> {
        let per_group = |shape: &[usize]| groups.into_iter().chain(shape.iter().copied()).collect::<Vec<_>>();
        Ok(Self {
            d: device.full::<f16>([m, n], f16::from_f32(77.0))?,
            row_sums: device.full::<f32>([m], 77.0)?,
            column_sums: device.full::<f32>(per_group(&[n]), 77.0)?,
            largest: device.full::<f32>(per_group(&[]), 77.0)?,
        })
    }

    fn all(&self) -> [&DeviceTensor; 4] {
        [&self.d, &self.row_sums, &self.column_sums, &self.largest]
    }
}

/// Experts with these numbers of rows: the bits are those of a run for each, with the same tile, and what is of no group
/// is left as it was.
pub(crate) fn groups_are_separate_runs(device: &Device, counts: &[usize], k: usize, pin: Pin) -> Result<(), Error> {
    let (n, before, after, groups) = (40, 3, 2, counts.len());
    let m = before + counts.iter().sum::<usize>() + after;
    let mut offsets = vec![before];
    counts.iter().for_each(|count| offsets.push(offsets[offsets.len() - 1] + count));
    let (a, b) = (rough(device, &[m, k], 1)?, rough(device, &[groups, k, n], 2)?);
    let (bias, scale) = (rough(device, &[groups, n], 3)?, vec![0.5f32; groups]);
    let (weight, scale) = (device.full::<f32>([m], 0.7)?, device.tensor(&scale, [groups])?);
    let bounds: Vec<i32> = offsets.iter().map(|offset| *offset as i32).collect();
    let bounds = device.tensor(&bounds, [bounds.len()])?;

    let mut all = Outputs::new(device, [m, n], Some(groups))?;
    let left = rows(&a).in_groups(&bounds);
    let gemm = pin.on(Gemm::builder::<Expert>(device).operands(left, &b)?).plan()?;
    let Outputs { d, row_sums, column_sums, largest } = &mut all;
    gemm.run(left, &b, Expert { bias: &bias, weight: &weight, scale: &scale, d, row_sums, column_sums, largest })?;

    let mut expected: [Vec<u8>; 4] = Outputs::new(device, [m, n], Some(groups))?
        .all()
        .map(DeviceTensor::to_bytes)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .try_into()
        .unwrap_or_default();
    for (g, own) in offsets.windows(2).enumerate() {
        let (own, count) = (own[0]..own[1], own[1] - own[0]);
        let (a, b) = (a.slice(0, own.clone())?, b.slice(0, g..g + 1)?.reshape([k, n])?);
        let (bias, weight) = (bias.slice(0, g..g + 1)?.reshape([n])?, weight.slice(0, own.clone())?);
        let scale = scale.slice(0, g..g + 1)?;
        let mut one = Outputs::new(device, [count, n], None)?;
        let alone = pin.on(Gemm::builder::<Expert>(device).operands(&a, &b)?).plan()?;
        let Outputs { d, row_sums, column_sums, largest } = &mut one;
        alone.run(&a, &b, Expert { bias: &bias, weight: &weight, scale: &scale, d, row_sums, column_sums, largest })?;
        let places = [own.start * n * 2, own.start * 4, g * n * 4, g * 4];
        for ((expected, of), place) in expected.iter_mut().zip(one.all()).zip(places) {
            let bytes = of.to_bytes()?;
            expected[place..place + bytes.len()].copy_from_slice(&bytes);
        }
    }
    for (got, expected) in all.all().into_iter().zip(&expected) {
        assert!(got.to_bytes()? == *expected, "{counts:?} on {device}: {}", gemm.choice());
    }
    Ok(())
}

/// The tile with the fewest rows.
pub(crate) fn tile() -> Tile {
    let all = Tile::all(epilogue::gemm::Instruction::MmaF16);
    all.iter().min_by_key(|tile| (tile.m, tile.n)).copied().unwrap_or(all[0])
}

fn bits_on(device: &Device) -> Result<(), Error> {
    let (tile, k) = (tile(), 24);
    for counts in [&[1][..], &[0], &[0, 0, 0], &[7, 0, 1, tile.m, 0], &[0, tile.m + 1, 1, 1, 2 * tile.m - 1]] {
        groups_are_separate_runs(device, counts, k, Pin::Tile(tile))?;
    }
    let many: Vec<usize> = (0..384).map(|g| [0, 1, 3, 0][g % 4]).collect();
    groups_are_separate_runs(device, &many, k, Pin::Tile(tile))
}

#[test]
fn the_bits_are_those_of_separate_runs() -> Result<(), Error> {
    bits_on(&Device::cpu())
}

/// Nothing is written by a run with bounds that decrease or lie outside.
#[test]
fn wrong_bounds_are_refused_on_the_cpu() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
    let good = device.tensor(&[0i32, 3, 6], [3])?;
    let mut d = device.full::<f16>([6, 4], f16::ONE)?;
    let gemm = Gemm::plan::<Plain>(&device, rows(&a).in_groups(&good), &b)?;
    for (bounds, message) in [
        ([-1, 3, 6], "offsets[0] is -1, and the groups before it take 0 of the 6 rows: give one from 0 to 6"),
        ([0, 4, 3], "offsets[2] is 3, and the groups before it take 4 of the 6 rows: give one from 4 to 6"),
        ([0, 3, 7], "offsets[2] is 7, and the groups before it take 3 of the 6 rows: give one from 3 to 6"),
    ] {
        let bounds = device.tensor(&bounds, [3])?;
        let left = rows(&a).in_groups(&bounds);
        let refused = gemm.run(left, &b, Plain { d: &mut d }).expect_err("wrong bounds");
        assert_eq!(refused.to_string(), message);
        assert!(gemm.reference(left, &b, Plain { d: &mut d }).is_err());
    }
    let a = a.reshape([2, 3, 8])?;
    let counts = device.tensor(&[3i32, 4], [2])?;
    let mut padded = device.full::<f16>([2, 3, 4], f16::ONE)?;
    let refused = gemm.run(rows(&a).in_groups_of(&counts), &b, Plain { d: &mut padded }).expect_err("wrong counts");
    assert_eq!(refused.to_string(), "counts[1] is 4, and a group has 3 rows at most: give one from 0 to 3");
    assert!(d.to_vec::<f16>()?.iter().chain(&padded.to_vec::<f16>()?).all(|x| *x == f16::ONE));
    Ok(())
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

#[epilogue]
fn of_rows_of_all(accum: Accum) -> ColumnVector {
    let sums = reduction_op(accum, (Row, Batch), Add);
    sums
}

#[epilogue]
fn of_all(accum: Accum) -> (RowVector, DeviceScalar) {
    let columns = reduction_op(accum, (Column, Batch), Add);
    let one = reduction_op(accum, (All, Batch), Add);
    (columns, one)
}

#[epilogue]
fn of_tiles(accum: Accum) -> ColumnPartials {
    let sums = reduction_op(accum, Column, Add, threadblock_shape.m);
    sums
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
    let offsets = device.tensor(&[0i32, 3, 6], [3])?;
    let (left, padded) = (rows(&a).in_groups(&offsets), rough(&device, &[2, 3, 8], 1)?);
    let refused = |result: Result<Gemm<Plain>, Error>| result.expect_err("it does not fit").to_string();
    let plan = |left: Left<'_>, b: &DeviceTensor| refused(Gemm::plan::<Plain>(&device, left, b));
    let wide = device.tensor(&[0i64, 3, 6], [3])?;
    assert_eq!(plan(rows(&a).in_groups(&wide), &b), "offsets of groups hold i64; needed is i32");
    let square = device.tensor(&[0i32; 4], [2, 2])?;
    assert_eq!(
        plan(rows(&a).in_groups_to(&square), &b),
        "ends of groups have shape [2, 2]; needed is [G], for G groups"
    );
    let four = device.tensor(&[0i32; 5], [5])?;
    assert_eq!(
        plan(rows(&a).in_groups(&four), &b),
        "B number 1 has 2 matrices, and there are 4 groups: give one for each, or one that all share"
    );
    assert_eq!(
        plan(rows(&padded).in_groups(&offsets), &b),
        "A has shape [2, 3, 8], and offsets are given for 2 groups: give one matrix, [T, K], whose rows they share, or counts"
    );
    assert_eq!(
        plan(rows(&a).in_groups_of(&offsets), &b),
        "A has shape [6, 8], and counts are given for 3 groups: give one matrix for each, [G, M, K], or one matrix and offsets"
    );

    let mut six = device.zeros::<f32>([6])?;
    let gemm = Gemm::plan::<OfRowsOfAll>(&device, left, &b)?;
    assert_eq!(
        gemm.run(left, &b, OfRowsOfAll { sums: &mut six }).expect_err("rows are of one group").to_string(),
        "output `sums` reduces rows of all batches together, and the product has groups: a row is of one group; leave \
         `Batch` out, or reduce along `Column` or `All`"
    );
    let mut partials = device.zeros::<f32>([2, 1, 4])?;
    let gemm = Gemm::plan::<OfTiles>(&device, left, &b)?;
    assert_eq!(
        gemm.run(left, &b, OfTiles { sums: &mut partials }).expect_err("tiles are not known").to_string(),
        "output `sums` is one partial for each tile of rows, and the product has groups: how many tiles groups have is \
         known on the device only; take the complete reduction"
    );
    let mut d = device.zeros::<f16>([2, 6, 4])?;
    let gemm = Gemm::plan::<Plain>(&device, left, &b)?;
    assert_eq!(
        gemm.run(left, &b, Plain { d: &mut d }).expect_err("one matrix").to_string(),
        "argument `d` has shape [2, 6, 4]; needed is [6, 4]"
    );
    Ok(())
}

/// Reductions over all groups, and what the rows of no group leave out of them.
pub(crate) fn all_groups(device: &Device, pin: Option<Pin>) -> Result<(), Error> {
    let (a, b) = (rough(device, &[70, 24], 1)?, rough(device, &[3, 24, 16], 2)?);
    for ends in [[5i32, 5, 68], [0, 0, 0], [0, 70, 70]] {
        let ends = device.tensor(&ends, [3])?;
        let left = rows(&a).in_groups_to(&ends);
        let builder = Gemm::builder::<OfAll>(device).operands(left, &b)?;
        let gemm = pin.map_or(builder.clone(), |pin| pin.on(builder)).plan()?;
        let (mut columns, mut one) = (device.zeros::<f32>([16])?, device.zeros::<f32>([])?);
        let expected = gemm.reference(left, &b, OfAll { columns: &mut columns, one: &mut one })?;
        gemm.run(left, &b, OfAll { columns: &mut columns, one: &mut one })?;
        expected.compare("columns", &columns)?.check()?;
        expected.compare("one", &one)?.check()?;
    }
    Ok(())
}

#[test]
fn reductions_over_all_groups() -> Result<(), Error> {
    all_groups(&Device::cpu(), None)?;
    if testing::compiler("groups::reductions_over_all_groups").is_none() {
        return Ok(());
    }
    all_groups(&Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On))?, None)
}

/// On emulated devices, with the race detector: several rows of tiles, neighbours in one tile, more groups than a warp has
/// lanes.
#[test]
fn on_emulated_devices() -> Result<(), Error> {
    if testing::compiler("groups::on_emulated_devices").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated_with(arch, Options::default().detector(Detector::On))?;
        let (tile, k) = (tile(), 24);
        for counts in [&[0, 0][..], &[7, 0, 1, tile.m, 0], &[0, tile.m + 1, 1, 2 * tile.m - 1]] {
            groups_are_separate_runs(&device, counts, k, Pin::Tile(tile))?;
        }
        let many: Vec<usize> = (0..70).map(|g| [0, 1, 0, 3, 0][g % 5]).collect();
        groups_are_separate_runs(&device, &many, k, Pin::Tile(tile))?;
    }
    Ok(())
}

/// D += accum, in place: a tile's rows past its group are another block's.
#[epilogue]
fn accumulate(accum: Accum, d: TensorMut<f32>) -> TensorMut<f32> {
    d += accum;
    d
}

/// Runs one plan with some offsets; gives D.
fn accumulated(device: &Device, gemm: &Gemm<Accumulate>, offsets: &[i32]) -> Result<Vec<f32>, Error> {
    let groups = offsets.len() - 1;
    let (a, b) = (rough(device, &[40, 16], 1)?, rough(device, &[groups, 16, 24], 2)?);
    let offsets = device.tensor(offsets, [offsets.len()])?;
    let mut d = device.full::<f32>([40, 24], 1.0)?;
    gemm.run(rows(&a).in_groups(&offsets), &b, Accumulate { d: &mut d })?;
    Ok(d.to_vec()?)
}

/// Bounds that decrease or lie outside are replaced by the nearest that don't, and reported; one plan takes any bounds.
#[test]
fn wrong_bounds_are_reported_and_harmless() -> Result<(), Error> {
    if testing::compiler("groups::wrong_bounds_are_reported_and_harmless").is_none() {
        return Ok(());
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On))?;
    wrong_bounds(&device, None)
}

pub(crate) fn wrong_bounds(device: &Device, pin: Option<Pin>) -> Result<(), Error> {
    let builder = Gemm::builder::<Accumulate>(device).elements(ElementType::F16, ElementType::F16);
    let builder = builder.problem(40, 24, 16).groups(3);
    let gemm = pin.map_or(builder.clone(), |pin| pin.on(builder)).plan()?;
    for (given, taken, reported) in [
        ([0, 5, 20, 40], [0, 5, 20, 40], None),
        ([3, 3, 20, 31], [3, 3, 20, 31], None),
        ([0, 20, 10, 30], [0, 20, 20, 30], Some(40)),
        ([-5, 20, 30, 1000], [0, 20, 30, 40], Some(40)),
        ([0, 20, i32::MIN, i32::MAX], [0, 20, 20, 40], Some(40)),
    ] {
        let expected = accumulated(device, &gemm, &taken)?;
        device.check()?;
        let (a, b) = (rough(device, &[40, 16], 1)?, rough(device, &[3, 16, 24], 2)?);
        let bounds = device.tensor(&given, [4])?;
        let mut d = device.full::<f32>([40, 24], 1.0)?;
        gemm.run(rows(&a).in_groups(&bounds), &b, Accumulate { d: &mut d })?;
        match (device.check(), reported) {
            (Ok(()), None) => {}
            (Err(runtime::Error::Data(DataError::Bound { bound, extent })), Some(limit)) => {
                assert_eq!(extent, limit);
                assert!(given.iter().any(|given| i64::from(*given) == bound), "{bound}");
            }
            (checked, _) => panic!("{given:?}: {checked:?}"),
        }
        let _ = d.to_vec::<f32>(); // has its report, too
        assert_eq!(d.to_vec::<f32>()?, expected, "{given:?}");
    }
    Ok(())
}

/// Groups that no kernel takes are refused by name, on every GPU.
#[test]
fn what_kernels_do_not_have() -> Result<(), Error> {
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        let of = |builder: Builder<Plain>| {
            builder.elements(ElementType::F16, ElementType::F16).problem(64, 64, 64).groups(4).choose()
        };
        let plain = || Gemm::builder::<Plain>(&device);
        let refused = |choice: Result<Choice, Error>| choice.expect_err("there is no such kernel").to_string();
        assert!(of(plain()).is_ok_and(|choice| choice.to_string().contains("groups of rows")));
        let split = refused(of(plain().split_k(SplitK::Serial(2))));
        assert!(split.contains("products with groups don't split K"), "{split}");
    }
    refuses_other_groups(&Device::cpu())
}

/// A plan for groups runs no product without, nor the other way round.
fn refuses_other_groups(device: &Device) -> Result<(), Error> {
    let (a, b) = (rough(device, &[6, 8], 1)?, rough(device, &[2, 8, 4], 2)?);
    let offsets = device.tensor(&[0i32, 3, 6], [3])?;
    let (left, one) = (rows(&a).in_groups(&offsets), b.slice(0, 0..1)?.reshape([8, 4])?);
    let mut d = device.zeros::<f16>([6, 4])?;
    let refused = Gemm::plan::<Plain>(device, &a, &one)?.run(left, &b, Plain { d: &mut d }).expect_err("groups");
    assert_eq!(
        refused.to_string(),
        "A has groups of rows, and this GEMM was planned for no groups: plan it for such an A"
    );
    let refused = Gemm::plan::<Plain>(device, left, &b)?.run(&a, &one, Plain { d: &mut d }).expect_err("no groups");
    assert_eq!(
        refused.to_string(),
        "A has no groups, and this GEMM was planned for groups of rows: plan it for such an A"
    );
    Ok(())
}

/// A launch with groups can be described: what bounds them is memory as any other.
#[test]
fn launches_are_described() -> Result<(), Error> {
    if testing::compiler("groups::launches_are_described").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
    let ends = device.tensor(&[3i32, 6], [2])?;
    let left = rows(&a).in_groups_to(&ends);
    let mut d = device.zeros::<f16>([6, 4])?;
    let gemm = Gemm::plan::<Plain>(&device, left, &b)?;
    let launch = gemm.describe_launch(left, &b, &[Argument::Output(&mut d)])?;
    let value = |name: &str| launch.fields.iter().find(|field| field.name == name).map(|field| field.value);
    assert_eq!(value("groups.bounds"), Some(FieldValue::Address(Memory::Bounds, 0)));
    let numbers = ["groups.stride", "groups.count", "groups.form"].map(value);
    assert_eq!(numbers, [1, 2, 1].map(|number| Some(FieldValue::Integer(number))));
    Ok(())
}

/// Computed from its own reduction.
#[epilogue]
fn normalised(accum: Accum) -> Tensor {
    let d = accum * rsqrt(reduction_op(accum, Row, SumSquares));
    d
}

#[test]
fn epilogues_with_phases_have_no_groups() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
    let offsets = device.tensor(&[0i32, 3, 6], [3])?;
    let refused = Gemm::plan::<Normalised>(&device, rows(&a).in_groups(&offsets), &b).expect_err("phases");
    assert_eq!(
        refused.to_string(),
        "`normalised` is computed from its own reductions, and the product has groups of rows: return the reductions (`Any`, `All`, \
         `Mean`, `Variance` and `LogSumExp` are made of others), and go on in another epilogue"
    );
    Ok(())
}
