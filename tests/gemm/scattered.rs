//! Rows that an index places, made by hand.

use epilogue::gemm::launch::{FieldValue, Memory};
use epilogue::gemm::{Builder, Instruction, KernelKey, Left, ScatterError, SplitK, Tile, rows, sm90};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DataError, DeviceTensor, Error, runtime};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;
use half::f16;

use crate::groups::rough;

/// Two products, two results of M×N of other types, and a statistic of every kind.
#[epilogue]
fn gated(
    gate: Accum,
    up: Accum,
    weight: ColumnVector<f32>,
    residual: Tensor,
) -> (Tensor, Tensor<f32>, ColumnVector, RowVector, DeviceScalar) {
    let d = relu(gate) * up * weight + residual;
    let wide = d * 2.0;
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, All, AbsMax);
    (d, wide, row_sums, column_sums, largest)
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

/// Computed from its own reductions; its first result is also what later parts read.
#[epilogue]
fn softmax(accum: Accum) -> (Tensor, Tensor) {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    (e, d)
}

/// Places for `count` rows among `limit`: in their order, reversed, apart.
fn places(count: usize, limit: usize) -> [Vec<i32>; 3] {
    let of = |row: &dyn Fn(usize) -> usize| (0..count).map(|m| row(m) as i32).collect();
    let step = (limit / 2..)
        .find(|step| (2..=*step).all(|x| !(limit.is_multiple_of(x) && step.is_multiple_of(x))))
        .unwrap_or(1);
    [of(&|m| m), of(&|m| limit - 1 - m), of(&|m| (m * step + 1) % limit)]
}

/// Bytes of rows in their order, placed over rows of `before`.
fn placed(rows: &[u8], index: &[i32], before: &[u8], row_bytes: usize) -> Vec<u8> {
    let mut all = before.to_vec();
    for (row, place) in rows.chunks(row_bytes).zip(index) {
        if let Ok(place) = usize::try_from(*place)
            && let Some(to) = all.get_mut(place * row_bytes..(place + 1) * row_bytes)
        {
            to.copy_from_slice(row);
        }
    }
    all
}

struct Outputs([DeviceTensor; 5]);

impl Outputs {
    fn new(device: &Device, [m, rows, n]: [usize; 3]) -> Result<Self, Error> {
        Ok(Self([
            device.full::<f16>([rows, n], f16::ONE)?,
            // Its rows begin anywhere.
            device.full::<f32>([rows + 3, n + 1], 1.0)?.slice(1, 0..n)?,
            device.full::<f32>([m], 1.0)?,
            device.full::<f32>([n], 1.0)?,
            device.full::<f32>([], 1.0)?,
        ]))
    }

    fn bytes(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.0.iter().map(|tensor| Ok(tensor.to_bytes()?)).collect()
    }
}

/// The bits of a product with rows in their order, by the same kernel, at the places of the index.
fn rows_are_placed(
    device: &Device,
    [m, rows_of_d, n, k]: [usize; 4],
    index: &[i32],
    knobs: impl Fn(Builder<Gated>) -> Builder<Gated>,
) -> Result<(), Error> {
    let a = rough(device, &[m, k], 1)?;
    let (gate, up) = (rough(device, &[k, n], 2)?, rough(device, &[k, n], 3)?);
    let (weight, residual) = (device.full::<f32>([m], 0.7)?, rough(device, &[m, n], 4)?);
    let twice: Vec<i32> = index.iter().flat_map(|place| [*place, 0]).collect();
    let apart = device.tensor(&twice, [m, 2])?.slice(1, 0..1)?.reshape([m])?;
    let mut results = Vec::new();
    for (left, rows) in [(Left::from(&a), m), (rows(&a).scattered(&apart).into(), rows_of_d)] {
        let builder = knobs(Gemm::builder::<Gated>(device).operands(left, [&gate, &up])?);
        let (gemm, mut outputs) =
            (builder.multiprocessors(4).ignore_unsupported_knobs().plan()?, Outputs::new(device, [m, rows, n])?);
        if rows == m {
            // One more row than there are is no row of the product.
            outputs.0[1] = outputs.0[1].slice(0, 0..m)?;
        }
        let before = outputs.bytes()?;
        let Outputs([d, wide, row_sums, column_sums, largest]) = &mut outputs;
        let (weight, residual) = (&weight, &residual);
        let arguments = Gated { weight, residual, d, wide, row_sums, column_sums, largest };
        gemm.run(left, [&gate, &up], arguments)?;
        let Outputs([d, wide, row_sums, column_sums, largest]) = &mut outputs;
        let arguments = Gated { weight, residual, d, wide, row_sums, column_sums, largest };
        let reference = gemm.reference(left, [&gate, &up], arguments)?;
        reference.compare("d", &outputs.0[0])?.check()?;
        reference.compare("wide", &outputs.0[1])?.check()?;
        reference.compare("row_sums", &outputs.0[2])?.check()?;
        results.push((before, outputs.bytes()?));
    }
    let [(_, in_order), (before, scattered)] = &results[..] else { unreachable!("two runs") };
    for i in 0..5 {
        let expected = match [2 * n, 4 * n].get(i) {
            Some(row_bytes) => placed(&in_order[i], index, &before[i], *row_bytes),
            None => in_order[i].clone(),
        };
        assert!(scattered[i] == expected, "output {i} of {m}x{n}x{k} on {device}");
    }
    Ok(())
}

#[test]
fn the_bits_are_those_of_rows_in_their_order() -> Result<(), Error> {
    let device = Device::cpu();
    for [m, rows, n, k] in [[50, 61, 24, 40], [3, 3, 24, 17], [400, 1009, 150, 64], [1, 2, 8, 1], [0, 4, 8, 8]] {
        for index in places(m, rows) {
            rows_are_placed(&device, [m, rows, n, k], &index, |builder| builder)?;
        }
    }
    Ok(())
}

/// With the race detector: more rows than a tile has, split K, kernels of both families, swapped operands.
#[test]
fn on_emulated_devices() -> Result<(), Error> {
    if testing::compiler("scattered::on_emulated_devices").is_none() {
        return Ok(());
    }
    let all = Tile::all(Instruction::MmaF16);
    let smallest = all.iter().min_by_key(|tile| (tile.m, tile.n)).copied().unwrap_or(all[0]);
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    let extents = [[33, 40, 24, 40], [3, 5, 24, 136], [90, 97, 16, 72], [129, 131, 17, 64]];
    for (i, extents) in extents.into_iter().enumerate() {
        let options = Options::default().detector(Detector::On).completion(Completion::Lazy);
        let device = Device::emulated_with(Arch::SM_80, options)?;
        let index = &places(extents[0], extents[1])[i % 3];
        rows_are_placed(&device, extents, index, |builder| builder.tile(smallest).split_k(splits[i]))?;
        let options = Options::default().detector(Detector::On).completion(Completion::Random);
        let device = Device::emulated_with(Arch::SM_90A, options)?;
        // TMA can't load rows of 17 elements.
        if extents[2] == 17 {
            continue;
        }
        for swap_ab in [false, true] {
            let request = sm90::Request { swap_ab: Some(swap_ab), ..sm90::Request::default() };
            rows_are_placed(&device, extents, index, |builder| builder.sm90(request).split_k(SplitK::None))?;
        }
    }
    Ok(())
}

/// Picked rows in groups, placed back; rows of no group have numbers that are none.
fn groups(device: &Device) -> Result<(), Error> {
    let (a, b) = (rough(device, &[9, 24], 1)?, rough(device, &[3, 24, 40], 2)?);
    let within = |m: &usize| (2..48).contains(m);
    let taken: Vec<i32> = (0..50).map(|m| if within(&m) { m as i32 * 5 % 9 } else { 0 }).collect();
    let index: Vec<i32> = (0..50).map(|m| if within(&m) { m as i32 * 7 % 53 } else { -7 }).collect();
    let (tokens, slots) = (device.tensor(&taken, [50])?, device.tensor(&index, [50])?);
    let offsets = device.tensor(&[2i32, 37, 37, 48], [4])?;
    let in_order = rows(&a).picked(&tokens);
    let mut results = Vec::new();
    for (left, rows) in [(in_order, 50), (in_order.scattered(&slots), 53)] {
        let left = left.in_groups(&offsets);
        let mut d = device.full::<f16>([rows, 40], f16::ONE)?;
        let gemm = Gemm::plan::<Plain>(device, left, &b)?;
        gemm.run(left, &b, Plain { d: &mut d })?;
        gemm.reference(left, &b, Plain { d: &mut d })?.compare("d", &d)?.check()?;
        results.push(d.to_bytes()?);
    }
    device.check()?;
    let before = device.full::<f16>([53, 40], f16::ONE)?.to_bytes()?;
    assert!(results[1] == placed(&results[0], &index, &before, 80), "{device}");
    Ok(())
}

#[test]
fn in_groups() -> Result<(), Error> {
    groups(&Device::cpu())?;
    if testing::compiler("scattered::in_groups").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        groups(&Device::emulated_with(arch, Options::default().detector(Detector::On))?)?;
    }
    Ok(())
}

/// Groups by the kernels for sm_90a, whose other outputs go by boxes.
#[test]
fn in_groups_on_sm90a() -> Result<(), Error> {
    if testing::compiler("scattered::in_groups_on_sm90a").is_none() {
        return Ok(());
    }
    let device = Device::emulated_with(Arch::SM_90A, Options::default().detector(Detector::On))?;
    let (a, b) = (rough(&device, &[70, 64], 1)?, rough(&device, &[3, 64, 64], 2)?);
    let index: Vec<i32> = (0..70).map(|m| m * 3 % 71).collect();
    let (slots, offsets) = (device.tensor(&index, [70])?, device.tensor(&[0i32, 5, 5, 70], [4])?);
    let left = rows(&a).scattered(&slots).in_groups(&offsets);
    let builder = Gemm::builder::<Plain>(&device).operands(left, &b)?.sm90(sm90::Request::default());
    let gemm = builder.plan()?;
    let mut d = device.full::<f16>([71, 64], f16::ONE)?;
    gemm.run(left, &b, Plain { d: &mut d })?;
    gemm.reference(left, &b, Plain { d: &mut d })?.compare("d", &d)?.check()?;
    Ok(())
}

/// Whole rows are values of the epilogue; what parts leave for each other stays in order.
fn phases(device: &Device) -> Result<(), Error> {
    let (a, b) = (rough(device, &[140, 24], 1)?, rough(device, &[24, 150], 2)?);
    for index in places(140, 149) {
        let slots = device.tensor(&index, [140])?;
        let left = rows(&a).scattered(&slots);
        let (mut e, mut d) = (device.zeros::<f16>([149, 150])?, device.zeros::<f16>([150, 150])?);
        let gemm = Gemm::plan::<Softmax>(device, left, &b)?;
        gemm.run(left, &b, Softmax { e: &mut e, d: &mut d })?;
        let reference = gemm.reference(left, &b, Softmax { e: &mut e, d: &mut d })?;
        reference.compare("e", &e)?.check()?;
        reference.compare("d", &d)?.check()?;
        let (mut first, mut second) = (device.zeros::<f16>([140, 150])?, device.zeros::<f16>([140, 150])?);
        Gemm::plan::<Softmax>(device, &a, &b)?.run(&a, &b, Softmax { e: &mut first, d: &mut second })?;
        for (scattered, in_order) in [(e, first), (d, second)] {
            let before = vec![0; scattered.len() * 2];
            assert!(scattered.to_bytes()? == placed(&in_order.to_bytes()?, &index, &before, 300), "{device}");
        }
    }
    Ok(())
}

#[test]
fn with_phases() -> Result<(), Error> {
    phases(&Device::cpu())?;
    if testing::compiler("scattered::with_phases").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        phases(&Device::emulated_with(arch, Options::default().detector(Detector::On))?)?;
    }
    Ok(())
}

/// A row whose number is none is not written on a GPU, and is reported with the output's name.
#[test]
fn wrong_numbers_are_not_written_and_reported() -> Result<(), Error> {
    if testing::compiler("scattered::wrong_numbers_are_not_written_and_reported").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated_with(arch, Options::default().detector(Detector::On))?;
        for wrong in [-1, 7, i32::MIN, i32::MAX] {
            let (a, b) = (rough(&device, &[5, 40], 1)?, rough(&device, &[40, 24], 2)?);
            let mut in_order = device.zeros::<f16>([5, 24])?;
            Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { d: &mut in_order })?;
            let in_order = in_order.to_bytes()?;
            let numbers = [3, wrong, 0, 6, 5];
            let index = device.tensor(&numbers, [5])?;
            let mut d = device.full::<f16>([7, 24], f16::ONE)?;
            let before = d.to_bytes()?;
            let left = rows(&a).scattered(&index);
            Gemm::plan::<Plain>(&device, left, &b)?.run(left, &b, Plain { d: &mut d })?;
            match device.check() {
                Err(runtime::Error::Data(DataError::Index { tensor, dimension: 0, index, extent: 7 })) => {
                    assert_eq!((tensor.as_str(), index), ("d", i64::from(wrong)));
                }
                checked => panic!("{wrong}: {checked:?}"),
            }
            let _ = d.to_bytes(); // has its report, too
            assert!(d.to_bytes()? == placed(&in_order, &numbers, &before, 48), "{wrong}");
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[3, 8], 1)?, rough(&device, &[8, 4], 2)?);
    let index = device.tensor(&[0i32, 5, 2], [3])?;
    let refused = |left: Left<'_>| Gemm::plan::<Plain>(&device, left, &b).expect_err("it does not fit").to_string();
    let wide = device.tensor(&[0i64, 5, 2], [3])?;
    assert_eq!(refused(rows(&a).scattered(&wide).into()), "the index that places rows holds i64; needed is i32");
    let short = device.tensor(&[0i32; 2], [2])?;
    assert_eq!(
        refused(rows(&a).scattered(&short).into()),
        "the index that places rows has shape [2]; needed is [3], a place for each of the product's rows"
    );
    let batch = rough(&device, &[2, 3, 8], 1)?;
    let counts = device.tensor(&[3i32, 3], [2])?;
    for (left, what) in [
        (rows(&batch).scattered(&index).into(), "a batch of matrices"),
        (rows(&batch).scattered(&index).in_groups_of(&counts), "groups of a matrix each"),
    ] {
        let expected = format!(
            "rows are scattered from one matrix, and the product has {what}: give one A, and offsets or ends where there are \
             groups"
        );
        assert_eq!(refused(left), expected);
    }
    let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(8, 8, 8);
    for builder in [builder.clone().depth_groups(2), builder.clone().batch(2), builder.patches(64)] {
        let refused = builder.scattered_rows().choose().expect_err("not one matrix");
        assert!(matches!(refused, Error::Scatter(ScatterError::Product { .. })), "{refused}");
    }

    // A run refuses before it writes.
    let left = Left::from(rows(&a).scattered(&index));
    let gemm = Gemm::plan::<Plain>(&device, left, &b)?;
    let mut d = device.full::<f16>([6, 4], f16::ONE)?;
    for wrong in [-1, 6] {
        let index = device.tensor(&[0i32, 5, wrong], [3])?;
        let left = rows(&a).scattered(&index);
        let error = gemm.run(left, &b, Plain { d: &mut d }).expect_err("no such row").to_string();
        assert_eq!(error, format!("places[2] is {wrong}, and `d` has 6 rows: give one from 0 to 5"));
        assert!(gemm.reference(left, &b, Plain { d: &mut d }).is_err());
    }
    let twice = device.tensor(&[4i32, 1, 4], [3])?;
    let error = gemm.run(rows(&a).scattered(&twice), &b, Plain { d: &mut d }).expect_err("twice").to_string();
    assert_eq!(error, "places[0] and places[2] are both 4: give each row of the product a row of its own");
    let error = gemm.run(&a, &b, Plain { d: &mut d }).expect_err("other rows").to_string();
    assert_eq!(
        error,
        "the result has rows in their order, and this GEMM was planned for scattered rows: plan it for such a result"
    );
    let error = Gemm::plan::<Plain>(&device, &a, &b)?.run(left, &b, Plain { d: &mut d }).expect_err("other rows");
    assert!(matches!(error, Error::Scatter(ScatterError::Other { given: true })));
    let mut narrow = device.zeros::<f16>([6, 3])?;
    let error = gemm.run(left, &b, Plain { d: &mut narrow }).expect_err("N columns").to_string();
    assert_eq!(error, "argument `d` has shape [6, 3]; needed is [S, 4], with any number S of rows");
    let apart = device.zeros::<f16>([2, 2, 3, 2])?;
    let mut apart = apart.as_matrix(&[0, 2], &[1, 3])?;
    let error = gemm.run(left, &b, Plain { d: &mut apart }).expect_err("one axis").to_string();
    assert_eq!(error, "output `d` is a view of several axes, whose rows can't be scattered: give a matrix");
    let foreign = Device::emulated(Arch::SM_80)?.tensor(&[0i32, 5, 2], [3])?;
    let error =
        gemm.run(rows(&a).scattered(&foreign), &b, Plain { d: &mut d }).expect_err("another device").to_string();
    assert!(error.contains("places") && error.contains("emulated"), "{error}");
    assert!(d.to_vec::<f16>()?.iter().all(|x| *x == f16::ONE));
    Ok(())
}

/// Epilogues whose results can't be placed.
#[test]
fn epilogues_without_such_rows_are_refused() -> Result<(), Error> {
    #[epilogue]
    fn added(accum: Accum, total: TensorMut) -> Tensor {
        total += accum;
        total
    }
    #[epilogue]
    fn mask(accum: Accum) -> Bits {
        let keep = accum > 0.0;
        keep
    }
    #[epilogue]
    fn sums(accum: Accum) -> ColumnVector {
        let sums = reduction_op(accum, Row, Add);
        sums
    }
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[3, 8], 1)?, rough(&device, &[8, 4], 2)?);
    let index = device.tensor(&[0i32, 5, 2], [3])?;
    let left = rows(&a).scattered(&index);
    assert_eq!(
        Gemm::plan::<Added>(&device, left, &b).expect_err("in place").to_string(),
        "output `total` is a `TensorMut`, whose rows can't be scattered: what is read has rows in the product's order; return \
         another `Tensor`"
    );
    assert_eq!(
        Gemm::plan::<Mask>(&device, left, &b).expect_err("bits").to_string(),
        "output `keep` is `Bits`, whose rows can't be scattered: return a `Tensor<bool>`"
    );
    assert_eq!(
        Gemm::plan::<Sums>(&device, left, &b).expect_err("no matrix").to_string(),
        "`sums` returns no `Tensor` whose rows the index could place; leave `.scattered(…)` out"
    );
    Ok(())
}

/// An output may not be the index.
#[test]
fn the_index_is_read_only() -> Result<(), Error> {
    #[epilogue]
    fn placed(accum: Accum) -> (Tensor, ColumnVector<i32>) {
        let d = accum;
        let place = reduction_op(accum, Row, ArgMax);
        (d, place)
    }
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[3, 8], 1)?, rough(&device, &[8, 4], 2)?);
    let index = device.tensor(&[0i32, 5, 2], [3])?;
    let (mut d, mut place) = (device.zeros::<f16>([6, 4])?, index.slice(0, 0..3)?);
    let gemm = Gemm::plan::<Placed>(&device, rows(&a).scattered(&index), &b)?;
    let refused = gemm.run(rows(&a).scattered(&index), &b, Placed { d: &mut d, place: &mut place });
    let refused = refused.expect_err("it is read");
    assert!(matches!(refused, Error::OutputAliasesInput { input: "places", .. }), "{refused}");
    Ok(())
}

/// Both families have kernels for it; on sm_90a lanes store scattered outputs.
#[test]
fn the_planner_takes_every_family() -> Result<(), Error> {
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16);
        let choice = builder.problem(8192, 4096, 4096).scattered_rows().choose()?;
        match choice.kernel().map(|kernel| kernel.key) {
            Some(KernelKey::Sm90(key)) => assert!(arch == Arch::SM_90A && key.direct == 1, "{choice}"),
            Some(KernelKey::Sm80(_)) => assert_eq!(arch, Arch::SM_80, "{choice}"),
            None => panic!("{choice}"),
        }
    }
    Ok(())
}

#[test]
fn launches_are_described() -> Result<(), Error> {
    if testing::compiler("scattered::launches_are_described").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let (a, b) = (rough(&device, &[6, 8], 1)?, rough(&device, &[2, 8, 4], 2)?);
    let (tokens, ends) = (device.tensor(&[5i32, 0, 5], [3])?, device.tensor(&[1i32, 3], [2])?);
    let slots = device.tensor(&[5i32, 0, 0, 0, 3, 0], [3, 2])?.slice(1, 0..1)?.reshape([3])?;
    let left = rows(&a).picked(&tokens).scattered(&slots).in_groups_to(&ends);
    let mut d = device.zeros::<f16>([7, 4])?;
    let gemm = Gemm::plan::<Plain>(&device, left, &b)?;
    let launch = gemm.describe_launch(left, &b, &[Argument::Output(&mut d)])?;
    let value = |name: &str| launch.fields.iter().find(|field| field.name == name).map(|field| field.value);
    assert_eq!(value("arguments.d.places.rows"), Some(FieldValue::Address(Memory::Places, 0)));
    let numbers = ["arguments.d.places.stride", "arguments.d.places.limit", "arguments.d.places.site"].map(value);
    assert_eq!(numbers, [2, 7, 2].map(|number| Some(FieldValue::Integer(number))));
    Ok(())
}
