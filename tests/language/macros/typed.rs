//! Positions, integers and truth values: masks, triangles, one-hot rows, compared with plain loops on the host.

use epilogue::Error;
use epilogue::evt::{Node, Position};
use epilogue::expr::{Logic, Op};
use epilogue::prelude::*;

const M: usize = 5;
const N: usize = 7;
const L: usize = 2;

/// `L` products that are all `row + 10 * column`, of rank 2.
fn operands(device: &Device) -> Result<(DeviceTensor, DeviceTensor), Error> {
    let a: Vec<f32> = (0..M).flat_map(|row| [row as f32, 1.0]).collect();
    let b: Vec<f32> = (0..2).flat_map(|k| (0..N).map(move |n| if k == 0 { 1.0 } else { 10.0 * n as f32 })).collect();
    Ok((device.tensor(&a.repeat(L), [L, M, 2])?, device.tensor(&b.repeat(L), [L, 2, N])?))
}

/// The values of a function for every element of every batch.
fn all<T>(f: impl Fn(usize, usize, usize) -> T) -> Vec<T> {
    (0..L * M * N).map(|i| f(i / (M * N), i / N % M, i % N)).collect()
}

fn product(row: usize, column: usize) -> f32 {
    row as f32 + 10.0 * column as f32
}

#[epilogue]
fn causal(accum: Accum, past: DeviceScalar<i32>, slope: DeviceScalar<f32>) -> Tensor {
    let biased = accum + slope * real(column() - row());
    let scores = if column() > row() + integer(past) { f32::NEG_INFINITY } else { biased };
    scores
}

#[test]
fn a_causal_mask_with_positions_of_each_head() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = operands(&device)?;
    let past = device.tensor(&[2_i32], [])?;
    let slope = device.tensor(&[0.5_f32, 0.25], [L])?;
    let mut scores = device.zeros::<f32>([L, M, N])?;
    let gemm = Gemm::plan::<Causal>(&device, &a, &b)?;
    gemm.run(&a, &b, Causal { past: &past, slope: &slope, scores: &mut scores })?;
    let expected = all(|l, m, n| match n > m + 2 {
        true => f32::NEG_INFINITY,
        false => product(m, n) + [0.5, 0.25][l] * (n as f32 - m as f32),
    });
    assert_eq!(scores.to_vec::<f32>()?, expected);
    Ok(())
}

/// Integers beyond 2^24 are told apart, which as numbers they are not.
#[epilogue]
fn one_hot(accum: Accum, target: ColumnVector<i64>, names: RowVector<i64>) -> (Tensor, Tensor, ColumnVector) {
    let hot = if column() == integer(target) { accum } else { 0.0 };
    let named = if integer(names) == integer(target) + 16_777_217 && batch() == 1 { 1.0 } else { 0.0 };
    let picked = reduction_op(hot, Row, Add);
    (hot, named, picked)
}

#[test]
fn one_hot_rows_pick_an_element_of_each_row() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = operands(&device)?;
    let targets = [3_i64, 0, -100, 6, 1];
    let names: Vec<i64> = (0..N as i64).map(|n| n + 16_777_217).collect();
    let (target, names) = (device.tensor(&targets, [M])?, device.tensor(&names, [N])?);
    let (mut hot, mut named) = (device.zeros::<f32>([L, M, N])?, device.zeros::<f32>([L, M, N])?);
    let mut picked = device.zeros::<f32>([L, M])?;
    let gemm = Gemm::plan::<OneHot>(&device, &a, &b)?;
    let (outputs, names) = ((&mut hot, &mut named, &mut picked), &names);
    gemm.run(&a, &b, OneHot { target: &target, names, hot: outputs.0, named: outputs.1, picked: outputs.2 })?;
    let is = |m: usize, n: usize| targets[m] == n as i64;
    assert_eq!(hot.to_vec::<f32>()?, all(|_, m, n| if is(m, n) { product(m, n) } else { 0.0 }));
    assert_eq!(named.to_vec::<f32>()?, all(|l, m, n| f32::from(u8::from(is(m, n) && l == 1))));
    let row = |m: usize| if targets[m] < 0 { 0.0 } else { product(m, targets[m] as usize) };
    assert_eq!(picked.to_vec::<f32>()?, (0..L * M).map(|i| row(i % M)).collect::<Vec<_>>());
    Ok(())
}

#[epilogue]
fn triangle(accum: Accum, c: TensorMut) -> Tensor {
    c = if column() <= row() { accum } else { c };
    c
}

#[test]
fn a_triangle_is_stored_and_the_rest_stays() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = operands(&device)?;
    let mut c = device.full::<f32>([L, M, N], -1.0)?;
    Gemm::plan::<Triangle>(&device, &a, &b)?.run(&a, &b, Triangle { c: &mut c })?;
    assert_eq!(c.to_vec::<f32>()?, all(|_, m, n| if n <= m { product(m, n) } else { -1.0 }));
    Ok(())
}

#[epilogue]
fn masked(accum: Accum, mask: Tensor<bool>, padding: RowVector<bool>) -> (Tensor, Tensor<bool>, Tensor<i8>) {
    let keep = mask && !padding || row() == 0;
    let d = if keep { accum } else { 0.0 };
    let kept = integer(mask) * 2 - 1;
    (d, keep, kept)
}

#[test]
fn truth_values_are_bytes_in_memory() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = operands(&device)?;
    let odd = |m: usize, n: usize| (m * 3 + n * 5) % 4 < 2;
    let mask: Vec<bool> = all(|_, m, n| odd(m, n))[..M * N].to_vec();
    // Any byte but 0 is true.
    let bytes: Vec<u8> = mask.iter().enumerate().map(|(i, holds)| if *holds { 1 + i as u8 } else { 0 }).collect();
    let mask = device.tensor_from_bytes(ElementType::Bool, &bytes, [M, N])?;
    let padding = device.tensor(&[false, false, true, false, false, true, true], [N])?;
    let (mut d, mut keep) = (device.zeros::<f32>([L, M, N])?, device.zeros::<bool>([L, M, N])?);
    let mut kept = device.zeros::<i8>([L, M, N])?;
    let gemm = Gemm::plan::<Masked>(&device, &a, &b)?;
    let (mask, padding) = (&mask, &padding);
    gemm.run(&a, &b, Masked { mask, padding, d: &mut d, keep: &mut keep, kept: &mut kept })?;
    let kept_at = |m: usize, n: usize| odd(m, n) && ![2, 5, 6].contains(&n) || m == 0;
    assert_eq!(keep.to_vec::<bool>()?, all(|_, m, n| kept_at(m, n)));
    assert!(keep.to_bytes()?.iter().all(|byte| *byte <= 1));
    assert_eq!(d.to_vec::<f32>()?, all(|_, m, n| if kept_at(m, n) { product(m, n) } else { 0.0 }));
    assert_eq!(kept.to_vec::<i8>()?, all(|_, m, n| if odd(m, n) { 1 } else { -1 }));
    assert_eq!(padding.to_vec::<bool>()?.len(), N);
    Ok(())
}

/// Every word, operator and place where an integer or a truth value may stand.
#[epilogue]
fn everything(
    accum: Accum,
    small: RowVector<u8>,
    flags: ColumnVector<bool>,
    total: TensorMut<bool>,
) -> (Tensor<i32>, Tensor<bool>, RowVector<i64>, ColumnVector, DeviceScalar, Tensor<bool>) {
    let mut place = row() * columns() + column();
    place -= 3;
    let nearest = place.max(-integer(small)).min(row() + column());
    let either = if flags { nearest } else { -(1 + place) };
    let positive = accum > 25.0;
    let chosen = if positive { flags } else { !flags };
    total = total && chosen || batch() == 1 && column() != 0;
    let last = columns() - 1 - column();
    let below = flags || rows() > 2 * row();
    let count = rows() * columns();
    (either, chosen, last, below, count, total)
}

#[test]
fn every_word_means_what_it_means_in_rust() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = operands(&device)?;
    let (small, flags) = ([0_u8, 1, 2, 200, 4, 5, 6], [true, false, true, true, false]);
    let before = |l: usize, m: usize, n: usize| !(l + m + n).is_multiple_of(3);
    let (on_small, on_flags) = (device.tensor(&small, [N])?, device.tensor(&flags, [M])?);
    let mut total = device.tensor(&all(before), [L, M, N])?;
    let (mut either, mut chosen) = (device.zeros::<i32>([L, M, N])?, device.zeros::<bool>([L, M, N])?);
    let (mut last, mut below) = (device.zeros::<i64>([L, N])?, device.zeros::<bool>([L, M])?);
    let mut count = device.zeros::<i64>([L])?;
    let gemm = Gemm::plan::<Everything>(&device, &a, &b)?;
    let arguments = Everything {
        small: &on_small,
        flags: &on_flags,
        total: &mut total,
        either: &mut either,
        chosen: &mut chosen,
        last: &mut last,
        below: &mut below,
        count: &mut count,
    };
    gemm.run(&a, &b, arguments)?;
    let chosen_at = |m: usize, n: usize| flags[m] == (product(m, n) > 25.0);
    let either_at = |m: usize, n: usize| {
        let place = (m * N + n) as i32 - 3;
        let nearest = place.max(-i32::from(small[n])).min((m + n) as i32);
        if flags[m] { nearest } else { -(1 + place) }
    };
    assert_eq!(either.to_vec::<i32>()?, all(|_, m, n| either_at(m, n)));
    assert_eq!(chosen.to_vec::<bool>()?, all(|_, m, n| chosen_at(m, n)));
    assert_eq!(total.to_vec::<bool>()?, all(|l, m, n| before(l, m, n) && chosen_at(m, n) || l == 1 && n != 0));
    assert_eq!(last.to_vec::<i64>()?, (0..N as i64).rev().collect::<Vec<_>>().repeat(L));
    assert_eq!(below.to_vec::<bool>()?, (0..M).map(|m| flags[m] || M > 2 * m).collect::<Vec<_>>().repeat(L));
    assert_eq!(count.to_vec::<i64>()?, [(M * N) as i64; L]);
    Ok(())
}

#[test]
fn the_tree_has_a_node_for_every_word() {
    let nodes: Vec<Node> = Everything::tree().nodes().iter().map(|data| data.node.clone()).collect();
    for position in [Position::Row, Position::Column, Position::Batch, Position::Rows, Position::Columns] {
        assert!(nodes.contains(&Node::Position(position)), "{position:?}");
    }
    for logic in [Logic::And, Logic::Or, Logic::Not] {
        assert!(nodes.iter().any(|node| matches!(node, Node::Logic(it, _) if *it == logic)), "{logic:?}");
    }
    for op in [Op::Max, Op::Min, Op::Neg, Op::Select] {
        assert!(nodes.iter().any(|node| matches!(node, Node::Apply(it, _) if *it == op)), "{op:?}");
    }
    assert!(nodes.contains(&Node::Integer(3)));
}

/// The closure form, where results' types follow from the body.
#[test]
fn closures_have_them_too() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = operands(&device)?;
    let (mut above, mut place) = (device.zeros::<bool>([L, M, N])?, device.zeros::<u8>([L, M, N])?);
    let closure = epilogue::closure!(|accum, limit: Scalar| {
        let above = accum > limit;
        let place: Tensor<u8> = row() * 100 + column();
        (above, place)
    });
    let gemm = Gemm::plan_for(&device, &a, &b, &closure)?;
    gemm.run(&a, &b, closure.limit(30.0).above(&mut above).place(&mut place))?;
    assert_eq!(above.to_vec::<bool>()?, all(|_, m, n| product(m, n) > 30.0));
    assert_eq!(place.to_vec::<u8>()?, all(|_, m, n| (m * 100 + n).min(255) as u8));
    Ok(())
}
