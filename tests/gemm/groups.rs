//! Groups of rows: how the random cases divide theirs, and what groups are by hand.

use std::ops::Range;

use epilogue::evt::random::Choices;
use epilogue::evt::reference;
use epilogue::evt::{Axis, Form, OutputKind, Reduction, ShapeClass, ValidTree};
use epilogue::gemm::{Left, Problem, Tile, rows};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::testing;
use half::f16;

/// What the bounds of groups are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    Offsets,
    Ends,
    Counts,
}

/// The groups of a random case.
#[derive(Debug)]
pub(crate) struct Groups {
    what: Bounds,
    tensor: DeviceTensor,
    rows: Vec<Range<usize>>,
}

impl Groups {
    /// Divides the rows of a product at random: some groups are empty, and some rows in none.
    pub(crate) fn random(device: &Device, problem: Problem, choices: &mut Choices<'_>) -> Result<Self, Error> {
        let what = choices.pick(&[Bounds::Offsets, Bounds::Ends, Bounds::Counts, Bounds::Offsets]);
        let groups = choices.pick(&[3, 1, 2, 5, 9, 0]);
        let mut cuts: Vec<usize> = (0..=groups).map(|_| choices.below(problem.m + 1)).collect();
        let rows: Vec<Range<usize>> = if what == Bounds::Counts {
            cuts[..groups].iter().map(|count| 0..*count).collect()
        } else {
            if what == Bounds::Ends || choices.once_in(2) {
                cuts[0] = 0;
            }
            if choices.once_in(2) {
                cuts[groups] = problem.m;
            }
            cuts.sort_unstable();
            if what == Bounds::Ends {
                cuts[0] = 0;
            }
            cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
        };
        let mut bounds: Vec<i32> = rows.iter().map(|rows| i32::try_from(rows.end).unwrap_or(0)).collect();
        if what == Bounds::Offsets {
            bounds.insert(0, i32::try_from(cuts[0]).unwrap_or(0));
        }
        let tensor = if choices.once_in(3) {
            // Every second element.
            let apart: Vec<i32> = bounds.iter().flat_map(|bound| [*bound, -7]).collect();
            device.tensor(&apart, [bounds.len(), 2])?.slice(1, 0..1)?.reshape([bounds.len()])?
        } else {
            device.tensor(&bounds, [bounds.len()])?
        };
        Ok(Self { what, tensor, rows })
    }

    /// The product whose rows are divided so.
    pub(crate) fn of(&self, problem: Problem) -> Problem {
        match self.what {
            Bounds::Offsets | Bounds::Ends => problem.in_groups(self.rows.len()),
            Bounds::Counts => problem.in_padded_groups(self.rows.len()),
        }
    }

    /// A with its rows divided.
    pub(crate) fn left<'a>(&'a self, a: &'a DeviceTensor) -> Left<'a> {
        match self.what {
            Bounds::Offsets => rows(a).in_groups(&self.tensor),
            Bounds::Ends => rows(a).in_groups_to(&self.tensor),
            Bounds::Counts => rows(a).in_groups_of(&self.tensor),
        }
    }

    /// Whether every group has a matrix of its own.
    pub(crate) fn has_matrices(&self) -> bool {
        self.what == Bounds::Counts
    }

    /// The same for the reference.
    pub(crate) fn of_reference(&self) -> reference::Groups<'_> {
        reference::Groups { rows: &self.rows, of_one_matrix: !self.has_matrices() }
    }

    /// Whether the outputs of a tree are those of products with groups.
    pub(crate) fn take(tree: &ValidTree) -> bool {
        tree.outputs().iter().all(|output| match output.kind {
            OutputKind::Store => true,
            OutputKind::Reduce(Reduction { axis, batch, form, .. }) => {
                (axis, batch) != (Axis::Row, true) && (axis, form) != (Axis::Column, Form::Partial)
            }
        })
    }

    /// The elements of an output, of this class and shape, that are of rows which no group has.
    pub(crate) fn untouched(&self, class: ShapeClass, shape: &[usize], is_partial: bool) -> Vec<usize> {
        // In whose shape the row is the last axis, or the one before it.
        let columns = match class {
            ShapeClass::ColumnVector => 1,
            ShapeClass::Tensor => shape[shape.len() - 1],
            ShapeClass::RowVector | ShapeClass::Scalar => return Vec::new(),
        };
        let m = shape[shape.len() - if class == ShapeClass::Tensor { 2 } else { 1 }];
        let matrices = if is_partial { shape[shape.len() - 2] } else { 1 };
        let has = |place: &usize| {
            let (row, batch) = (place / columns % m, place / columns / m / matrices);
            let of =
                |(group, rows): (usize, &Range<usize>)| (!self.has_matrices() || group == batch) && rows.contains(&row);
            self.rows.iter().enumerate().any(of)
        };
        (0..shape.iter().product()).filter(|place| !has(place)).collect()
    }
}

/// What an expert does, with a statistic of every kind.
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
fn rough(device: &Device, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
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
    /// Of one product, or of that many groups.
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
fn groups_are_separate_runs(device: &Device, counts: &[usize], tile: Tile) -> Result<(), Error> {
    let (n, k, before, after, groups) = (40, 24, 3, 2, counts.len());
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
    let gemm = Gemm::builder::<Expert>(device).operands(left, &b)?.tile(tile).plan()?;
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
        let alone = Gemm::builder::<Expert>(device).operands(&a, &b)?.tile(tile).plan()?;
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
fn tile() -> Tile {
    let all = Tile::all(epilogue::gemm::Instruction::MmaF16);
    all.iter().min_by_key(|tile| (tile.m, tile.n)).copied().unwrap_or(all[0])
}

fn bits_on(device: &Device) -> Result<(), Error> {
    let tile = tile();
    for counts in [&[1][..], &[0], &[0, 0, 0], &[7, 0, 1, tile.m, 0], &[0, tile.m + 1, 1, 1, 2 * tile.m - 1]] {
        groups_are_separate_runs(device, counts, tile)?;
    }
    let many: Vec<usize> = (0..384).map(|g| [0, 1, 3, 0][g % 4]).collect();
    groups_are_separate_runs(device, &many, tile)
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
#[test]
fn reductions_over_all_groups() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[70, 24], 1)?, rough(&device, &[3, 24, 10], 2)?);
    let ends = device.tensor(&[5i32, 5, 68], [3])?;
    let left = rows(&a).in_groups_to(&ends);
    let gemm = Gemm::plan::<OfAll>(&device, left, &b)?;
    let (mut columns, mut one) = (device.zeros::<f32>([10])?, device.zeros::<f32>([])?);
    let expected = gemm.reference(left, &b, OfAll { columns: &mut columns, one: &mut one })?;
    gemm.run(left, &b, OfAll { columns: &mut columns, one: &mut one })?;
    expected.compare("columns", &columns)?.check()?;
    expected.compare("one", &one)?.check()?;
    Ok(())
}

/// On devices whose kernels have no groups yet, plans and runs say so.
#[test]
fn devices_without_groups_refuse_them() -> Result<(), Error> {
    if testing::compiler("devices_without_groups_refuse_them").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        if epilogue::gemm::supports(&device, epilogue::gemm::Feature::Groups).is_ok() {
            continue;
        }
        let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
        let offsets = device.tensor(&[0i32, 3, 6], [3])?;
        let left = rows(&a).in_groups(&offsets);
        let refused = Gemm::plan::<Plain>(&device, left, &b).expect_err("no kernel");
        assert!(matches!(refused, Error::NoGroups { .. }), "{refused}");
        let mut d = device.zeros::<f16>([6, 4])?;
        let gemm = Gemm::plan::<Plain>(&device, &a, &b.slice(0, 0..1)?.reshape([8, 4])?)?;
        let refused = gemm.run(left, &b, Plain { d: &mut d }).expect_err("no kernel");
        assert_eq!(
            refused.to_string(),
            format!(
                "products with groups of rows don't run on {device} yet: use the CPU device, or one run for each group"
            )
        );
    }
    Ok(())
}
