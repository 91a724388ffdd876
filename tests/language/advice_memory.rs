//! Every refusal of memory and of ranks that says what to do, beside that: who follows the advice has what runs.

use epilogue::distributed::{self, ColumnParallel, Combine, Place, RowParallel, RowSettings};
use epilogue::prelude::*;
use epilogue::runtime::{self, Communicator};
use epilogue_testing::advice::advised;

#[test]
fn borrowed_memory() -> Result<(), runtime::Error> {
    let device = Device::cpu();
    let (values, mut other) = ([1f32, 2.0, 3.0, 4.0], [0f32; 4]);
    device.scope(|scope| {
        let write = |mut tensor: DeviceTensor| tensor.copy_from(&[5f32; 4]);
        let read_only = scope.borrow(&values, [4])?;
        let copy = read_only.copy_to(&device)?;
        advised(
            write(read_only.clone()),
            "borrow that for writing (`borrow_mut`)",
            write(scope.borrow_mut(&mut other, [4])?),
        );
        advised(write(read_only), "or write to a copy (`copy_to`)", write(copy));
        Ok::<_, runtime::Error>(())
    })?;
    assert_eq!(other, [5.0; 4]);
    let (ended, copied) = device.scope(|scope| {
        let lent = scope.borrow(&values, [4])?;
        let copy = lent.copy_to(&device)?;
        Ok::<_, runtime::Error>((lent, copy))
    })?;
    let read = |tensor: &DeviceTensor| tensor.to_vec::<f32>();
    let advice = "copy what must live longer (`copy_to`) inside of the scope";
    assert_eq!(advised(read(&ended), advice, read(&copied)), values);
    Ok(())
}

#[test]
fn memory_that_ranks_exchange() -> Result<(), runtime::Error> {
    let device = Device::cpu();
    let [ranks] = <[Communicator; 1]>::try_from(Communicator::in_process(1)).unwrap_or_else(|_| panic!("one"));
    let stream = ranks.stream(&device);
    let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    let in_place = |tensor: &DeviceTensor| ranks.all_reduce_in_place(&mut tensor.clone(), &stream);
    let into = |into: &DeviceTensor| ranks.all_reduce(&x, &mut into.clone(), &stream);
    advised(into(&x), "give two tensors", into(&device.zeros::<f32>([2, 3])?));
    advised(into(&x), "or use `all_reduce_in_place`", in_place(&x));
    let across = x.transpose()?;
    advised(in_place(&across), "call `contiguous()`", in_place(&across.contiguous()?));
    let bytes = device.zeros::<u8>([4])?;
    advised(in_place(&bytes), "use f64, f32, bf16, f16, i64 or i32", in_place(&device.zeros::<i32>([4])?));
    Ok(())
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
fn products_of_several_ranks() -> Result<(), distributed::Error> {
    let device = Device::cpu();
    let [ranks, _other] = <[Communicator; 2]>::try_from(Communicator::in_process(2)).unwrap_or_else(|_| panic!("two"));
    let (a, b) = (device.full::<f32>([12, 8], 1.0)?, device.full::<f32>([8, 6], 1.0)?);
    let sums = |settings: RowSettings, a: &DeviceTensor| {
        RowParallel::plan_with::<ColumnSums>(&device, &ranks, a, &b, settings).map(drop)
    };
    let usual = RowSettings::default;
    advised(
        sums(usual().combine(Combine::ReduceScatter), &a),
        "use `Combine::AllReduce`",
        sums(usual().combine(Combine::AllReduce), &a),
    );
    advised(sums(usual().chunks(2), &a), "use `.chunks(1)`", sums(usual().chunks(1), &a));
    advised(
        sums(usual().place(Place::Before), &a),
        "apply it after (`Place::After`)",
        sums(usual().place(Place::After), &a),
    );
    let odd = a.slice(0, 0..11)?;
    advised(
        sums(usual().combine(Combine::ReduceScatter), &odd),
        "pad them, or use `Combine::AllReduce`",
        sums(usual(), &odd),
    );
    let batch = a.reshape([2, 6, 8])?;
    let first = |a: &DeviceTensor| ColumnParallel::plan::<Plain>(&device, &ranks, a, &b).map(drop);
    advised(first(&batch), "flatten A's batch into its rows", first(&batch.reshape([12, 8])?));
    let (bytes, weights) = (device.zeros::<i8>([12, 8])?, device.zeros::<i8>([8, 6])?);
    let second = |a: &DeviceTensor, b: &DeviceTensor| RowParallel::plan::<Causal>(&device, &ranks, a, b).map(drop);
    advised(second(&bytes, &weights), "convert A and B first", second(&a, &b));
    Ok(())
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}
