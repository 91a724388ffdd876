//! Panel by panel and part after part, an epilogue with phases gives the same bits.

use epilogue_runtime::Device;

use super::super::slots::SlotMemory;
use super::super::tile::Extents;
use super::super::{Operands, Order, Programs, TileShape, execute_in};
use super::{tensor, values};
use crate::evt::{
    Axis, BroadcastClass, Form, NodeId, ParameterClass, Phases, Prices, ReduceOp, Reduction, TreeBuilder, Types,
};
use crate::expr::Op;
use crate::tuning::{MachineCode, Tuning};
use crate::{Argument, ElementType};

/// A softmax of rows, whose last phase also gives sums of columns, of everything, and of tiles of the accumulator.
fn softmax() -> Phases {
    let mut b = TreeBuilder::new("softmax", file!());
    let accum = b.accum("accum");
    let reduce =
        |b: &mut TreeBuilder, x: NodeId, axis, op, form| b.reduce(Reduction { axis, batch: false, op, form }, x);
    let largest = reduce(&mut b, accum, Axis::Row, ReduceOp::Max, Form::Complete);
    let shifted = b.apply(Op::Sub, &[accum, largest]);
    let e = b.apply(Op::Exp, &[shifted]);
    let sum = reduce(&mut b, e, Axis::Row, ReduceOp::Add, Form::Complete);
    let d = b.apply(Op::Div, &[e, sum]);
    let columns = reduce(&mut b, d, Axis::Column, ReduceOp::Add, Form::Complete);
    let all = reduce(&mut b, d, Axis::All, ReduceOp::SumSquares, Form::Complete);
    let partials = reduce(&mut b, accum, Axis::Row, ReduceOp::Add, Form::Partial);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("sum", sum, BroadcastClass::ColumnVector, None);
    b.output("columns", columns, BroadcastClass::RowVector, None);
    b.output("all", all, BroadcastClass::Scalar, None);
    b.output("partials", partials, BroadcastClass::ColumnVector, None);
    Phases::of(b.finish().validate(Types::new(ElementType::F32, ElementType::F32)).expect("a valid tree"), Prices::CPU)
}

/// RMSNorm, whose last phase also stores what the columns share.
fn rms_norm() -> Phases {
    let mut b = TreeBuilder::new("rms_norm", file!());
    let accum = b.accum("accum");
    let weight = b.parameter("weight", ParameterClass::RowVector, Some(ElementType::F32));
    let squares =
        b.reduce(Reduction { axis: Axis::Row, batch: false, op: ReduceOp::SumSquares, form: Form::Complete }, accum);
    let scale = b.apply(Op::Rsqrt, &[squares]);
    let scaled = b.apply(Op::Mul, &[accum, scale]);
    let d = b.apply(Op::Mul, &[scaled, weight]);
    let twice = b.apply(Op::Add, &[weight, weight]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("twice", twice, BroadcastClass::RowVector, None);
    Phases::of(b.finish().validate(Types::new(ElementType::F32, ElementType::F32)).expect("a valid tree"), Prices::CPU)
}

/// By whole rows and by tiles, as code and step by step.
#[test]
fn long_rows_have_the_same_bits_in_every_way() {
    let (device, phases) = (Device::cpu(), rms_norm());
    for ([batch, m, n, k], wide) in [([1, 7, 2100, 3], 128), ([3, 40, 2048, 5], 512), ([2, 33, 4000, 2], 256)] {
        let a = tensor(&values(batch * m * k, 1), &[batch, m, k], |x| x);
        let b = tensor(&values(k * n, 2), &[k, n], |x| x * 0.3);
        let weight = tensor(&values(batch * n, 3), &[batch, n], |x| x);
        let tile = TileShape { m: 32, n: wide };
        let run = |order: Order, machine: bool| {
            let mut outputs =
                [vec![batch, m, n], vec![batch, n]].map(|shape| device.full::<f32>(shape, f32::NAN).expect("memory"));
            let arguments: Vec<Argument<'_>> =
                [Argument::Input(&weight)].into_iter().chain(outputs.iter_mut().map(Argument::Output)).collect();
            let code = if machine { MachineCode::Always } else { MachineCode::Never };
            let (programs, right) = (Programs::new(Tuning::new().machine_code(code)), [&b]);
            let operands = Operands::of(&a, &right);
            execute_in(&programs, &phases, operands, None, &arguments, tile, Some(order)).expect("a run");
            drop(arguments);
            outputs.map(|output| output.to_bytes().expect("bytes"))
        };
        let all = [(Order::Parts, true), (Order::Parts, false), (Order::Panels, true), (Order::Panels, false)];
        let [first, others @ ..] = all.map(|(order, machine)| run(order, machine));
        assert!(others.iter().all(|other| *other == first), "{batch} of {m}x{n}x{k}");
    }
}

#[test]
fn both_orders_give_the_same_bits() {
    let (device, phases) = (Device::cpu(), softmax());
    for [batch, m, n, k] in
        [[1, 300, 700, 20], [3, 70, 130, 5], [2, 20, 2050, 3], [2, 1, 9, 4], [1, 0, 5, 3], [2, 4, 0, 3]]
    {
        let a = tensor(&values(batch * m * k, 1), &[batch, m, k], |x| x);
        let b = tensor(&values(k * n, 2), &[k, n], |x| x * 0.3);
        let tile = TileShape { m: 64, n: 128 };
        let run = |order: Order| {
            let shapes: [Vec<usize>; 5] =
                [vec![batch, m, n], vec![batch, m], vec![batch, n], vec![batch], vec![batch, n.div_ceil(tile.n), m]];
            let mut outputs = shapes.map(|shape| device.full::<f32>(shape, f32::NAN).expect("memory"));
            let arguments: Vec<Argument<'_>> = outputs.iter_mut().map(Argument::Output).collect();
            let programs = Programs::default();
            execute_in(&programs, &phases, Operands::of(&a, &[&b]), None, &arguments, tile, Some(order))
                .expect("a run");
            // Once more, in memory that was used.
            execute_in(&programs, &phases, Operands::of(&a, &[&b]), None, &arguments, tile, Some(order))
                .expect("a run");
            drop(arguments);
            outputs.map(|output| output.to_bytes().expect("bytes"))
        };
        assert_eq!(run(Order::Panels), run(Order::Parts), "{batch} of {m}x{n}x{k}");
    }
}

/// The exponentials of a softmax lie where the accumulators were, which no later part reads.
#[test]
fn a_matrix_has_the_memory_of_one_that_is_read_no_more() {
    let (phases, extents) = (softmax(), Extents { batch: 1, m: 3, n: 5, k: 2 });
    let memory = SlotMemory::new(&phases);
    let mut slots = memory.take(&phases.slots, extents).expect("memory");
    let views = memory.views(&mut slots, &phases.slots, extents);
    let of = |class| {
        let all = phases.slots.iter().zip(&views).filter(move |(slot, _)| slot.class == class);
        all.map(|(_, view)| view.pointer).collect::<Vec<_>>()
    };
    let (matrices, columns) = (of(BroadcastClass::Tensor), of(BroadcastClass::ColumnVector));
    assert_eq!((matrices.len(), columns.len()), (2, 2));
    assert_eq!(matrices[0], matrices[1]);
    assert!(columns[0] != columns[1] && !columns.contains(&matrices[0]));
}
