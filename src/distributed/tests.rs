//! Ranks in one process, held against one product of the whole on this computer's CPU. Values are small integers, so that
//! sums are exact in every order.

use std::thread;

use super::*;
use crate::prelude::*;
use epilogue_runtime::Communicator;

#[epilogue]
fn dense(accum: Accum, bias: RowVector, scale: ColumnVector, c: Tensor, alpha: Scalar) -> Tensor {
    let d = alpha * (accum + bias) * scale + c;
    d
}

#[epilogue]
fn scaled(accum: Accum, alpha: Scalar, scale: RowVector) -> Tensor {
    let d = alpha * accum * scale;
    d
}

/// Two accumulators, a reduction along each axis, and a phase after one of them.
#[epilogue]
fn gated(gate: Accum, up: Accum) -> (Tensor, ColumnVector, RowVector) {
    let x = relu(gate) * up;
    let largest = reduction_op(x, Row, Max);
    let d = x - largest;
    let sums = reduction_op(x, Column, Add);
    (d, largest, sums)
}

const M: usize = 12;
const N: usize = 16;
const K: usize = 24;

/// A matrix of small integers.
fn matrix_of(device: &Device, rows: usize, columns: usize, seed: usize) -> DeviceTensor {
    let value = |i: usize| ((i * 7 + i / 5 + seed) % 5) as f32 - 2.0;
    let values: Vec<f32> = (0..rows * columns).map(value).collect();
    device.tensor(&values, [rows, columns]).expect("a tensor")
}

fn vector_of(device: &Device, length: usize, seed: usize) -> DeviceTensor {
    matrix_of(device, 1, length, seed).reshape([length]).expect("a view")
}

fn floats(tensor: &DeviceTensor) -> Vec<f32> {
    tensor.to_vec().expect("values")
}

/// The results of the ranks' `work`, by rank.
fn on_ranks<R: Send>(ranks: usize, work: impl Fn(&Communicator) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let ends = Communicator::in_process(ranks).into_iter();
        let all: Vec<_> = ends.map(|end| scope.spawn(move || work(&end))).collect();
        all.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

/// The devices to test on; only the CPU where kernels can't be compiled.
fn devices(test: &str) -> Vec<fn() -> Device> {
    let mut devices: Vec<fn() -> Device> = vec![Device::cpu];
    if cfg!(feature = "emulated") && epilogue_runtime::testing::compiler(test).is_some() {
        #[cfg(feature = "emulated")]
        devices.extend([(|| Device::emulated(Arch::SM_80).expect("a device")) as fn() -> Device, || {
            Device::emulated(Arch::SM_90A).expect("a device")
        }]);
    }
    devices
}

/// The part of an axis that a rank has.
fn part(tensor: &DeviceTensor, axis: usize, ranks: &Communicator) -> DeviceTensor {
    let extent = tensor.shape()[axis] / ranks.ranks();
    tensor.slice(axis, ranks.rank() * extent..(ranks.rank() + 1) * extent).expect("a view")
}

#[test]
fn row_parallel_products_are_those_of_one_device() {
    let cpu = Device::cpu();
    let whole = |device: &Device| (matrix_of(device, M, K, 0), matrix_of(device, K, N, 1), matrix_of(device, M, N, 2));
    let vectors = |device: &Device| (vector_of(device, N, 3), vector_of(device, M, 4));
    let ((a, b, c), (bias, scale)) = (whole(&cpu), vectors(&cpu));
    let mut d = cpu.zeros::<f32>([M, N]).expect("memory");
    let one = Gemm::plan::<Dense>(&cpu, &a, &b).expect("a plan");
    one.run(&a, &b, Dense { bias: &bias, scale: &scale, c: &c, alpha: 3.0, d: &mut d }).expect("a run");
    let expected = floats(&d);

    for (device, chunks) in devices("row_parallel_products_are_those_of_one_device").into_iter().zip([4, 3, 2]) {
        for combine in [Combine::AllReduce, Combine::ReduceScatter] {
            let settings = RowSettings::default().combine(combine).chunks(chunks);
            let all = on_ranks(2, |ranks| -> Result<_, Error> {
                let device = device();
                let ((a, b, c), (bias, scale)) = (whole(&device), vectors(&device));
                let (a, b) = (part(&a, 1, ranks), part(&b, 0, ranks));
                let mut d = device.zeros::<f32>([M, N])?;
                let layer = RowParallel::plan_with::<Dense>(&device, ranks, &a, &b, settings)?;
                assert_eq!(layer.chunks(), chunks);
                for _ in 0..2 {
                    let (mut d, c, scale) = match combine {
                        Combine::AllReduce => (d.clone(), c.clone(), scale.clone()),
                        Combine::ReduceScatter => (part(&d, 0, ranks), part(&c, 0, ranks), part(&scale, 0, ranks)),
                    };
                    layer.run(&a, &b, Dense { bias: &bias, scale: &scale, c: &c, alpha: 3.0, d: &mut d })?;
                }
                if combine == Combine::ReduceScatter {
                    d = part(&d, 0, ranks);
                }
                Ok(floats(&d))
            });
            for (rank, got) in all.into_iter().enumerate() {
                let length = if combine == Combine::AllReduce { M * N } else { M * N / 2 };
                let from = if combine == Combine::AllReduce { 0 } else { rank * length };
                assert_eq!(got.expect("a run"), expected[from..from + length], "{combine:?}, {}", device());
            }
        }
    }
}

/// An epilogue that is linear, before the sum; one of the three ranks has more of K.
#[test]
fn an_epilogue_before_the_sum_is_computed_by_every_rank() {
    let cpu = Device::cpu();
    let (a, b, scale) = (matrix_of(&cpu, M, K, 0), matrix_of(&cpu, K, N, 1), vector_of(&cpu, N, 3));
    let mut d = cpu.zeros::<f32>([M, N]).expect("memory");
    let one = Gemm::plan::<Scaled>(&cpu, &a, &b).expect("a plan");
    one.run(&a, &b, Scaled { alpha: 2.0, scale: &scale, d: &mut d }).expect("a run");
    let expected = floats(&d);
    for combine in [Combine::AllReduce, Combine::ReduceScatter] {
        for chunks in [1, 3] {
            let settings = RowSettings::default().combine(combine).place(Place::Before).chunks(chunks);
            let all = on_ranks(3, |ranks| -> Result<_, Error> {
                let range = [0..4, 4..10, 10..K][ranks.rank()].clone();
                let (a, b) = (a.slice(1, range.clone())?, b.slice(0, range)?);
                let rows = if combine == Combine::AllReduce { M } else { M / 3 };
                let mut d = cpu.zeros::<f32>([rows, N])?;
                let layer = RowParallel::plan_with::<Scaled>(&cpu, ranks, &a, &b, settings)?;
                layer.run(&a, &b, Scaled { alpha: 2.0, scale: &scale, d: &mut d })?;
                Ok(floats(&d))
            });
            let all: Vec<Vec<f32>> = all.into_iter().map(|got| got.expect("a run")).collect();
            match combine {
                Combine::AllReduce => assert!(all.iter().all(|got| *got == expected), "{chunks} chunks"),
                Combine::ReduceScatter => assert_eq!(all.concat(), expected, "{chunks} chunks"),
            }
        }
    }
}

/// Every epilogue goes after the sum: several accumulators, reductions along both axes, phases.
#[test]
fn reductions_and_phases_are_of_the_sum() {
    let cpu = Device::cpu();
    let right = |device: &Device| [1, 5].map(|seed| matrix_of(device, K, N, seed));
    let outputs = |device: &Device| -> Result<_, Error> {
        Ok((device.zeros::<f32>([M, N])?, device.zeros::<f32>([M])?, device.zeros::<f32>([N])?))
    };
    let (a, [gate, up]) = (matrix_of(&cpu, M, K, 0), right(&cpu));
    let (mut d, mut largest, mut sums) = outputs(&cpu).expect("memory");
    let one = Gemm::plan::<Gated>(&cpu, &a, [&gate, &up]).expect("a plan");
    one.run(&a, [&gate, &up], Gated { d: &mut d, largest: &mut largest, sums: &mut sums }).expect("a run");
    let expected = [&d, &largest, &sums].map(floats);
    for device in devices("reductions_and_phases_are_of_the_sum").into_iter().take(2) {
        let all = on_ranks(2, |ranks| -> Result<_, Error> {
            let device = device();
            let a = part(&matrix_of(&device, M, K, 0), 1, ranks);
            let [gate, up] = right(&device).map(|b| part(&b, 0, ranks));
            let (mut d, mut largest, mut sums) = outputs(&device)?;
            let layer = RowParallel::plan::<Gated>(&device, ranks, &a, [&gate, &up])?;
            layer.run(&a, [&gate, &up], Gated { d: &mut d, largest: &mut largest, sums: &mut sums })?;
            Ok([&d, &largest, &sums].map(floats))
        });
        for got in all {
            assert_eq!(got.expect("a run"), expected, "{}", device());
        }
    }
}

#[test]
fn column_parallel_products_gather_rows() {
    let cpu = Device::cpu();
    let (a, b) = (matrix_of(&cpu, M, K, 0), matrix_of(&cpu, K, N, 1));
    let mut d = cpu.zeros::<f32>([M, N]).expect("memory");
    let scale = vector_of(&cpu, N, 3);
    let one = Gemm::plan::<Scaled>(&cpu, &a, &b).expect("a plan");
    one.run(&a, &b, Scaled { alpha: 2.0, scale: &scale, d: &mut d }).expect("a run");
    for (gather, chunks) in [(false, None), (true, None), (true, Some(3))] {
        for device in devices("column_parallel_products_gather_rows").into_iter().take(2) {
            let mut settings = ColumnSettings::default().gather_rows(gather);
            if let Some(chunks) = chunks {
                settings = settings.chunks(chunks);
            }
            let all = on_ranks(2, |ranks| -> Result<_, Error> {
                let device = device();
                let (a, b) = (matrix_of(&device, M, K, 0), matrix_of(&device, K, N, 1));
                let (b, scale) = (part(&b, 1, ranks), part(&vector_of(&device, N, 3), 0, ranks));
                let a = if gather { part(&a, 0, ranks) } else { a };
                let mut d = device.zeros::<f32>([M, N / 2])?;
                let layer = ColumnParallel::plan_with::<Scaled>(&device, ranks, &a, &b, settings)?;
                layer.run(&a, &b, Scaled { alpha: 2.0, scale: &scale, d: &mut d })?;
                Ok(floats(&d))
            });
            for (rank, got) in all.into_iter().enumerate() {
                let columns = d.slice(1, rank * N / 2..(rank + 1) * N / 2).expect("a view");
                assert_eq!(got.expect("a run"), floats(&columns), "{gather}, {chunks:?}, {}", device());
            }
        }
    }
}

/// Other rows, other epilogues, a bad argument of one: all ranks fail, nothing is written, and the next run works.
#[test]
fn ranks_that_disagree_all_fail_and_nothing_is_written() {
    let cpu = Device::cpu();
    let all = on_ranks(2, |ranks| -> Result<_, Error> {
        let odd = ranks.rank() == 1;
        let (a, b) = (matrix_of(&cpu, M, K / 2, 0), matrix_of(&cpu, K / 2, N, 1));
        let (bias, scale, c) = (vector_of(&cpu, N, 3), vector_of(&cpu, M, 4), matrix_of(&cpu, M, N, 2));
        let mut d = cpu.full::<f32>([M, N], 99.0)?;
        let layer = RowParallel::plan::<Dense>(&cpu, ranks, &a, &b)?;
        let other = RowParallel::plan::<Scaled>(&cpu, ranks, &a, &b)?;

        let m = if odd { M - 1 } else { M };
        let (few, mut some) = (a.slice(0, 0..m)?, d.slice(0, 0..m)?);
        let (scale_of, c_of) = (scale.slice(0, 0..m)?, c.slice(0, 0..m)?);
        let rows = layer.run(&few, &b, Dense { bias: &bias, scale: &scale_of, c: &c_of, alpha: 1.0, d: &mut some });
        let epilogues = if odd {
            other.run(&a, &b, Scaled { alpha: 1.0, scale: &bias, d: &mut d })
        } else {
            layer.run(&a, &b, Dense { bias: &bias, scale: &scale, c: &c, alpha: 1.0, d: &mut d })
        };
        // A bias of the wrong length, on one rank.
        let bias_of = if odd { &scale } else { &bias };
        let own = layer.run(&a, &b, Dense { bias: bias_of, scale: &scale, c: &c, alpha: 1.0, d: &mut d });
        let said = [rows, epilogues, own].map(|result| result.expect_err("refused").to_string());
        let untouched = floats(&d).iter().all(|value| *value == 99.0);
        layer.run(&a, &b, Dense { bias: &bias, scale: &scale, c: &c, alpha: 1.0, d: &mut d })?;
        Ok((said, untouched))
    });
    for (rank, got) in all.into_iter().enumerate() {
        let ([rows, epilogues, own], untouched) = got.expect("the rest works");
        assert!(rows.starts_with("the ranks disagree on the rows: rank 0 has 12, rank 1 has 11"), "{rows}");
        assert!(epilogues.starts_with("the ranks disagree on the epilogue: rank 0 has dense ("), "{epilogues}");
        assert_eq!(own.starts_with("rank 1 refused its part, so nothing was done: "), rank == 0, "{own}");
        assert!(own.contains("`bias`"), "{own}");
        assert!(untouched);
    }
}

#[epilogue]
fn softmax_like(accum: Accum) -> (Tensor, ColumnVector) {
    let d = accum;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

#[epilogue]
fn column_sums(accum: Accum) -> RowVector {
    let sums = reduction_op(accum, Column, Add);
    sums
}

#[epilogue]
fn causal(accum: Accum) -> Tensor {
    let d = if column() > row() { 0.0 } else { accum };
    d
}

#[test]
fn what_means_something_else_of_a_part_is_refused() {
    let Ok([ranks, _other]) = <[Communicator; 2]>::try_from(Communicator::in_process(2)) else { panic!("two") };
    let cpu = Device::cpu();
    let (a, b) = (matrix_of(&cpu, M, K, 0), matrix_of(&cpu, K, N, 1));
    let said = ColumnParallel::plan::<SoftmaxLike>(&cpu, &ranks, &a, &b).expect_err("refused").to_string();
    assert!(
        said.starts_with("`softmax_like` uses a reduction along Row, which here would be of one rank's columns"),
        "{said}"
    );
    let said = ColumnParallel::plan::<Causal>(&cpu, &ranks, &a, &b).expect_err("refused").to_string();
    assert!(said.starts_with("`causal` uses `column()`"), "{said}");

    let row = |settings: RowSettings, a: &DeviceTensor| {
        [
            RowParallel::plan_with::<ColumnSums>(&cpu, &ranks, a, &b, settings).map(drop),
            RowParallel::plan_with::<Causal>(&cpu, &ranks, a, &b, settings).map(drop),
        ]
        .map(|result| result.map_or_else(|error| error.to_string(), |()| String::new()))
    };
    let [sums, positions] = row(RowSettings::default().combine(Combine::ReduceScatter), &a);
    assert!(sums.contains("a reduction along Column") && sums.ends_with("use `Combine::AllReduce`"), "{sums}");
    assert!(positions.starts_with("`causal` uses `row()`, which here would be of one rank's rows"), "{positions}");
    let [sums, positions] = row(RowSettings::default().chunks(2), &a);
    assert!(sums.starts_with("`column_sums` can't be computed in 2 chunks of rows"), "{sums}");
    assert!(positions.ends_with("since it uses `row()`: use `.chunks(1)`"), "{positions}");
    let [sums, positions] = row(RowSettings::default().place(Place::Before), &a);
    assert!(sums.starts_with("`column_sums` can't be applied before the sum over ranks: it has a reduction"), "{sums}");
    assert_eq!(positions, "", "positions are those of the whole");
    assert_eq!(row(RowSettings::default(), &a), ["", ""]);
    let odd = a.slice(0, 0..M - 1).expect("a view");
    let [uneven, _] = row(RowSettings::default().combine(Combine::ReduceScatter), &odd);
    assert!(uneven.starts_with("11 rows can't be divided equally among 2 ranks"), "{uneven}");

    let batch = a.reshape([2, M / 2, K]).expect("a view");
    let [matrices, _] = row(RowSettings::default(), &batch);
    assert!(matrices.starts_with("A has shape [2, 6, 24]; products of several ranks take matrices"), "{matrices}");
    let (bytes, weights) = (cpu.zeros::<i8>([M, K]).expect("memory"), cpu.zeros::<i8>([K, N]).expect("memory"));
    let integers = RowParallel::plan::<Causal>(&cpu, &ranks, &bytes, &weights).expect_err("refused").to_string();
    assert!(integers.starts_with("partial sums of i8 products are integers"), "{integers}");
}
