//! Batches of two axes that don't merge: masks that heads share, grouped queries, results by sentence and head.

use epilogue::evt::reference::{decode, encode};
use epilogue::prelude::*;
use epilogue::{Arch, Arguments, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;

/// Arguments and results of every class.
#[epilogue]
fn attended(
    accum: Accum,
    mask: Tensor,
    bias: RowVector,
    weight: ColumnVector<f32>,
    scale: DeviceScalar<f32>,
) -> (Tensor, RowVector<f32>, ColumnVector<f32>, DeviceScalar<f32>) {
    let d = accum * scale + mask * weight + bias;
    let sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, Row, Max);
    let all = reduction_op(d, All, Add);
    (d, sums, largest, all)
}

/// Sentences, heads, rows, columns and depth.
const EXTENTS: [usize; 5] = [2, 3, 5, 8, 16];

/// A tensor of small integers, and what it holds at an index of its axes.
struct Numbers {
    tensor: DeviceTensor,
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Numbers {
    fn new(device: &Device, element: ElementType, shape: &[usize], seed: usize) -> Result<Self, Error> {
        let count = shape.iter().product::<usize>();
        let values: Vec<f64> =
            (0..count).map(|i| (((i + seed * 977).wrapping_mul(2_654_435_761) >> 9) % 5) as f64 - 2.0).collect();
        let tensor = device.tensor_from_bytes(element, &encode(element, &values), shape)?;
        Ok(Self { tensor, shape: shape.to_vec(), values })
    }

    /// The element at an index; an axis of one element gives that one.
    fn at(&self, index: &[usize]) -> f64 {
        let place = index.iter().zip(&self.shape).fold(0, |place, (i, extent)| place * extent + i.min(&(extent - 1)));
        self.values[place]
    }
}

fn devices(test: &str) -> Result<Vec<Device>, Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler(test).is_some() {
        for (arch, completion) in [(Arch::SM_80, Completion::Random), (Arch::SM_90A, Completion::Lazy)] {
            let options = Options::default().detector(Detector::On).completion(completion).seed(3);
            devices.push(Device::emulated_with(arch, options)?);
        }
    }
    Ok(devices)
}

/// A row vector of two sentences, which three heads share: refused once, since its batch has two strides.
#[test]
fn heads_share_what_is_of_a_sentence() -> Result<(), Error> {
    #[epilogue]
    fn biased(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
        let d = accum + bias;
        d
    }
    for device in devices("batches::heads_share_what_is_of_a_sentence")? {
        let one = f16::from_f32(1.0);
        let (a, b) = (device.full::<f16>([6, 2, 1], one)?, device.full::<f16>([1, 4], one)?);
        let bias = device.tensor(&[0f32, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0], [2, 1, 4])?.broadcast_to([2, 3, 4])?;
        let bias = bias.as_batched_row_vector(&[0, 1], &[2])?;
        let mut d = device.full::<f32>([6, 2, 4], f32::NAN)?;
        let gemm = Gemm::plan::<Biased>(&device, &a, &b)?;
        gemm.run(&a, &b, Biased { bias: &bias, d: &mut d })?;
        let of = |batch: usize| (0..2).flat_map(move |_| (0..4).map(move |n| (1 + n + 10 * (batch / 3)) as f32));
        assert_eq!(d.to_vec::<f32>()?, (0..6).flat_map(of).collect::<Vec<_>>(), "{device}");
    }
    Ok(())
}

/// Everything that a product has in batches of two strides, with axes exchanged or shared, beside plain loops.
#[test]
fn every_class_and_both_operands() -> Result<(), Error> {
    let [l, h, m, n, k] = EXTENTS;
    let (half, single) = (ElementType::F16, ElementType::F32);
    for device in devices("batches::every_class_and_both_operands")? {
        // Queries by head, then sentence; keys and values that all heads share, as those of grouped queries do.
        let queries = Numbers::new(&device, half, &[h, l, m, k], 1)?;
        let keys = Numbers::new(&device, half, &[l, 1, n, k], 2)?;
        let mask = Numbers::new(&device, half, &[l, 1, m, n], 3)?;
        let bias = Numbers::new(&device, half, &[1, h, n], 4)?;
        let weight = Numbers::new(&device, single, &[l, 1, m], 5)?;
        let scale = Numbers::new(&device, single, &[l, 1], 6)?;
        let a = queries.tensor.as_batched_matrix(&[1, 0], &[2], &[3])?;
        let b = keys.tensor.broadcast_to([l, h, n, k])?.as_batched_matrix(&[0, 1], &[3], &[2])?;
        let of_mask = mask.tensor.broadcast_to([l, h, m, n])?.as_batched_matrix(&[0, 1], &[2], &[3])?;
        let of_bias = bias.tensor.broadcast_to([l, h, n])?.as_batched_row_vector(&[0, 1], &[2])?;
        let of_weight = weight.tensor.broadcast_to([l, h, m])?.as_batched_column_vector(&[0, 1], &[2])?;
        let of_scale = scale.tensor.broadcast_to([l, h])?.as_batched_scalar(&[0, 1])?;
        for view in [&a, &b, &of_mask, &of_bias, &of_weight, &of_scale] {
            // (A mask's upper digit of one head is no digit.)
            assert_eq!(view.axes().map(|axes| axes.shape()[0]), Some(l * h));
        }
        let poison = |shape: &[usize], element: ElementType| {
            let values = vec![f64::NAN; shape.iter().product()];
            device.tensor_from_bytes(element, &encode(element, &values), shape)
        };
        let (results, of_columns) = (poison(&[m, h, l, n], half)?, poison(&[n, h, l], single)?);
        let (of_rows, of_all) = (poison(&[h, l, m], single)?, poison(&[h, l], single)?);
        let mut d = results.as_batched_matrix(&[2, 1], &[0], &[3])?;
        let mut sums = of_columns.as_batched_row_vector(&[2, 1], &[0])?;
        let mut largest = of_rows.as_batched_column_vector(&[1, 0], &[2])?;
        let mut all = of_all.as_batched_scalar(&[1, 0])?;

        let gemm = Gemm::plan::<Attended>(&device, &a, &b)?;
        let (mask_, bias_, weight_, scale_) = (&of_mask, &of_bias, &of_weight, &of_scale);
        let mut arguments = Attended {
            mask: mask_,
            bias: bias_,
            weight: weight_,
            scale: scale_,
            d: &mut d,
            sums: &mut sums,
            largest: &mut largest,
            all: &mut all,
        };
        gemm.run(&a, &b, arguments)?;

        let element = |[s, head, row, column]: [usize; 4]| {
            let product = (0..k).map(|k| queries.at(&[head, s, row, k]) * keys.at(&[s, 0, column, k])).sum::<f64>();
            product * scale.at(&[s, 0])
                + mask.at(&[s, 0, row, column]) * weight.at(&[s, 0, row])
                + bias.at(&[0, head, column])
        };
        let got = |tensor: &DeviceTensor| Ok::<_, Error>(decode(tensor.element_type(), &tensor.to_bytes()?));
        let (got_d, got_sums, got_largest, got_all) = (got(&d)?, got(&sums)?, got(&largest)?, got(&all)?);
        for batch in 0..l * h {
            let (s, head) = (batch / h, batch % h);
            let at = |row: usize, column: usize| element([s, head, row, column]);
            for row in 0..m {
                for column in 0..n {
                    assert_eq!(
                        got_d[(batch * m + row) * n + column],
                        at(row, column),
                        "{device}: {batch} {row} {column}"
                    );
                }
                let greatest = (0..n).map(|column| at(row, column)).fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(got_largest[batch * m + row], greatest, "{device}");
            }
            for column in 0..n {
                assert_eq!(got_sums[batch * n + column], (0..m).map(|row| at(row, column)).sum::<f64>(), "{device}");
            }
            let sum = (0..m * n).map(|i| at(i / n, i % n)).sum::<f64>();
            assert_eq!(got_all[batch], sum, "{device}");
        }
        // A packed B has a matrix for each batch.
        if device.arch().is_none() {
            let packed = gemm.pack(&b)?;
            let before = got(&d)?;
            let mut again =
                device.tensor_from_bytes(half, &encode(half, &vec![f64::NAN; l * h * m * n]), [l * h, m, n])?;
            arguments = Attended {
                mask: mask_,
                bias: bias_,
                weight: weight_,
                scale: scale_,
                d: &mut again,
                sums: &mut sums,
                largest: &mut largest,
                all: &mut all,
            };
            gemm.run(&a, &packed, arguments)?;
            assert_eq!(got(&again)?, before);
        }
    }
    Ok(())
}

#[epilogue]
fn plain(accum: Accum) -> Tensor<f32> {
    let d = accum;
    d
}

/// A graph copies the operand anew at each launch.
#[test]
fn a_graph_has_the_copy() -> Result<(), Error> {
    if testing::compiler("batches::a_graph_has_the_copy").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_90A)?;
    let (l, h, m, n, k) = (2, 2, 3, 4, 8);
    let mut of_a = device.full::<f16>([l, 1, m, k], f16::from_f32(1.0))?;
    let a = of_a.broadcast_to([l, h, m, k])?.as_batched_matrix(&[0, 1], &[2], &[3])?;
    let b = device.full::<f16>([k, n], f16::from_f32(1.0))?;
    let mut d = device.zeros::<f32>([l * h, m, n])?;
    let gemm = Gemm::plan::<Plain>(&device, &a, &b)?;
    let graph = device.capture(|stream| gemm.run_on(stream, &a, &b, Plain { d: &mut d }))?;
    graph.launch(&device.default_stream())?;
    assert_eq!(d.to_vec::<f32>()?, vec![8.0; l * h * m * n]);
    of_a.copy_from(&vec![f16::from_f32(3.0); l * m * k])?;
    graph.launch(&device.default_stream())?;
    assert_eq!(d.to_vec::<f32>()?, vec![24.0; l * h * m * n]);
    let described =
        gemm.describe_launch(&a, &b, &Plain { d: &mut d }.arguments()).expect_err("it is two launches").to_string();
    assert!(described.contains("give a contiguous copy"), "{described}");
    Ok(())
}

/// Written memory must not be shared, and counts must be right.
#[test]
fn what_is_refused() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (device.full::<f32>([6, 2, 4], 1.0)?, device.full::<f32>([4, 3], 1.0)?);
    let gemm = Gemm::plan::<Plain>(&device, &a, &b)?;
    let refused = |d: &mut DeviceTensor| gemm.run(&a, &b, Plain { d }).expect_err("it is refused").to_string();
    let mut shared =
        device.zeros::<f32>([2, 1, 2, 3])?.broadcast_to([2, 3, 2, 3])?.as_batched_matrix(&[0, 1], &[2], &[3])?;
    assert!(refused(&mut shared).contains("reaches some element by two indices"));
    let mut few = device.zeros::<f32>([2, 2, 2, 3])?.permute(&[1, 0, 2, 3])?.as_batched_matrix(&[0, 1], &[2], &[3])?;
    assert_eq!(refused(&mut few), "argument `d`: batches are 6, but axes [0, 1] have 2·2 elements");
    let mut vector = device.zeros::<f32>([2, 3, 6])?.permute(&[1, 0, 2])?.as_batched_row_vector(&[0, 1], &[2])?;
    let said = refused(&mut vector);
    assert!(said.contains("a matrix viewed as a vector can't have: view it by `as_matrix`"), "{said}");
    let three = device.zeros::<f32>([2, 3, 4, 6])?.permute(&[2, 1, 0, 3])?.as_batched_row_vector(&[0, 1, 2], &[3]);
    assert!(three.expect_err("three digits").to_string().contains("at most 2 may be left"));
    Ok(())
}
