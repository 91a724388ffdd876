//! Gathers, one-hot vectors and padding: numpy's values, and what is refused.

#![allow(clippy::unwrap_used, reason = "tests")]

use epilogue::te::auto::Order;
use epilogue::te::ops::Padding;
use epilogue::te::{self, TeError, Tensor, ops, var};
use epilogue::{Argument, Device, DeviceTensor, ElementType};
use expect_test::{Expect, expect};

use super::{FLOATS, close, devices, download, normal, rounded, upload};
use crate::native::both::{agree, input, output};

/// Made by `indexing.py` beside it.
const VALUES: &str = include_str!("../../golden/operations/indexing.txt");

fn shape_of(text: &str) -> Vec<usize> {
    if text == "scalar" { Vec::new() } else { text.split('x').map(|extent| extent.parse().unwrap()).collect() }
}

/// Runs an automatic kernel of one or two inputs.
fn automatic(
    device: &Device,
    order: Order,
    result: &Tensor,
    inputs: &[(&Tensor, &DeviceTensor)],
    shape: &[usize],
) -> Result<Vec<f64>, TeError> {
    let kernel = te::auto::build(&[result])?.order(order).build(device)?;
    let mut made = device.zeros_of(result.dtype().in_memory(), shape)?;
    let mut arguments: Vec<(&Tensor, Argument<'_>)> =
        inputs.iter().map(|(tensor, given)| (*tensor, Argument::from(*given))).collect();
    arguments.push((result, (&mut made).into()));
    kernel.run_bound(&arguments)?;
    drop(arguments);
    download(&made)
}

/// Sizes that are numbers and sizes that a run brings, in every order and as a program.
#[test]
fn elements_by_index_are_numpys() -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler("elements_by_index_are_numpys").is_some();
    let [cpu, emulated] = &devices();
    for (number, line) in VALUES.lines().enumerate() {
        let [operation, options, shape, places, result, values]: [&str; 6] =
            line.split("; ").collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line}"));
        let (shape, places, result_shape) = (shape_of(shape), shape_of(places), shape_of(result));
        let wanted: Vec<f64> = values.split_whitespace().map(|x| x.parse().unwrap()).collect();
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        let elements: Vec<f64> = (0..count(&shape)).map(|t| ((7 * t) % 11) as f64 - 5.0).collect();
        let pointed = |extent: usize| (0..count(&places)).map(|t| ((t * t + 1) % extent) as f64).collect::<Vec<_>>();
        for is_sized in [false, true] {
            let (edges, count_of_edges);
            let (x, i32) = (te::placeholder(shape.clone(), "x"), ElementType::I32);
            let sized = te::placeholder(shape.iter().map(|_| var("n")).collect::<Vec<_>>(), "x");
            let x = if is_sized { sized } else { x };
            let (result, given) = match operation {
                "gather" => {
                    let dimension: isize = options.parse().unwrap();
                    let indices = te::placeholder_of(i32, places.clone(), "indices");
                    let extent = shape[dimension.rem_euclid(shape.len() as isize) as usize];
                    let given =
                        vec![(x.clone(), elements.clone(), &shape), (indices.clone(), pointed(extent), &places)];
                    (ops::gather(&x, &indices, dimension)?, given)
                }
                "histogram" => {
                    edges = options.split(',').map(|edge| edge.parse().unwrap()).collect::<Vec<f64>>();
                    count_of_edges = vec![edges.len()];
                    let of = te::placeholder(
                        [if is_sized { var("edges").into() } else { te::Expr::from(edges.len()) }],
                        "edges",
                    );
                    let given =
                        vec![(x.clone(), elements.clone(), &shape), (of.clone(), edges.clone(), &count_of_edges)];
                    (ops::histogram(&x, &of)?, given)
                }
                "bincount" => {
                    let whole = te::placeholder_of(i32, x.shape(), "x");
                    let length: usize = options.parse().unwrap();
                    (ops::bincount(&whole, length)?, vec![(whole, elements.clone(), &shape)])
                }
                "take_along" => {
                    let dimension: usize = options.parse().unwrap();
                    let mut extents = x.shape();
                    extents[dimension] = places[dimension].into();
                    let indices = te::placeholder_of(i32, extents, "indices");
                    let at = pointed(shape[dimension]);
                    let given = vec![(x.clone(), elements.clone(), &shape), (indices.clone(), at, &places)];
                    (ops::take_along(&x, &indices, dimension)?, given)
                }
                "one_hot" => {
                    let indices = te::placeholder_of(i32, places.clone(), "indices");
                    let classes: usize = options.parse().unwrap();
                    let given = vec![(indices.clone(), pointed(classes), &places)];
                    (ops::one_hot(&indices, classes, ElementType::F32)?, given)
                }
                mode => {
                    let pair = |pair: &str| pair.split_once('-').map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()));
                    let widths: Vec<(usize, usize)> = options.split(',').map(|x| pair(x).unwrap()).collect();
                    let padding = match mode {
                        "constant" => Padding::Constant(9.0),
                        "edge" => Padding::Edge,
                        _ => Padding::Reflect,
                    };
                    (ops::pad(&x, &widths, padding)?, vec![(x.clone(), elements.clone(), &shape)])
                }
            };
            for (device, orders) in [(cpu, 3), (emulated, usize::from(has_compiler && number % 5 == 0))] {
                for order in [Order::Device, Order::Shape, Order::Exact].into_iter().take(orders) {
                    let tensors: Vec<DeviceTensor> = given
                        .iter()
                        .map(|(x, values, shape)| upload(device, x.dtype().in_memory(), values, shape))
                        .collect::<Result<_, _>>()?;
                    let inputs: Vec<(&Tensor, &DeviceTensor)> = given.iter().map(|(x, ..)| x).zip(&tensors).collect();
                    let got = automatic(device, order, &result, &inputs, &result_shape)
                        .unwrap_or_else(|error| panic!("{line}: {error}"));
                    assert_eq!(got, wanted, "{line} on {device}");
                }
            }
            let mut arguments: Vec<&Tensor> = given.iter().map(|(x, ..)| x).collect();
            arguments.push(&result);
            let program = te::lower(&te::create_schedule(&[&result]), &arguments, "main")?;
            let mut both: Vec<_> = given.iter().map(|(x, values, shape)| input(x.dtype(), shape, values)).collect();
            both.push(output(result.dtype(), &result_shape));
            assert_eq!(agree(&program, &both)[given.len()], wanted, "{line}, scheduled");
        }
    }
    Ok(())
}

#[test]
fn cross_entropy_of_rows() -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler("cross_entropy_of_rows").is_some();
    let (rows, classes) = (6, 9);
    for element in FLOATS {
        let x = te::placeholder_of(element, [var("a"), var("b"), var("c")], "x");
        let targets = te::placeholder_of(ElementType::I32, &x.shape()[..2], "targets");
        let losses = ops::cross_entropy(&x, &targets)?;
        let values = rounded(element, &normal(rows * classes, 3));
        let chosen: Vec<f64> = (0..rows).map(|row| (row * row % classes) as f64).collect();
        let wanted: Vec<f64> = (0..rows)
            .map(|row| {
                let line = &values[row * classes..][..classes];
                line.iter().map(|x| x.exp()).sum::<f64>().ln() - line[row * row % classes]
            })
            .collect();
        for device in devices().iter().take(if has_compiler { 2 } else { 1 }) {
            let given = upload(device, element, &values, &[2, 3, classes])?;
            let at = upload(device, ElementType::I32, &chosen, &[2, 3])?;
            let got = automatic(device, Order::Device, &losses, &[(&x, &given), (&targets, &at)], &[2, 3])?;
            close(element, &got, &wanted, 32.0, 4.0, &format!("{element} on {device}"));
        }
        let beyond = upload(&Device::cpu(), ElementType::I32, &[0.0, 0.0, 0.0, 0.0, 9.0, 0.0], &[2, 3])?;
        let given = upload(&Device::cpu(), element, &values, &[2, 3, classes])?;
        let inputs = [(&x, &given), (&targets, &beyond)];
        assert!(automatic(&Device::cpu(), Order::Device, &losses, &inputs, &[2, 3]).is_err());
    }
    Ok(())
}

pub(super) fn refused<T>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.err().expect("what doesn't fit was accepted").to_string());
}

#[test]
fn indices_and_widths_that_do_not_fit() -> Result<(), TeError> {
    let of = |shape: &[usize]| te::placeholder(shape.to_vec(), "x");
    let places = |shape: &[usize]| te::placeholder_of(ElementType::I32, shape.to_vec(), "p");
    refused(
        ops::take_along(&of(&[3, 4]), &places(&[3, 2]), 2),
        &expect!["x has 2 data axes, number 2 was asked for; numbers go from -2 to 1"],
    );
    refused(
        ops::take_along(&of(&[3, 4]), &places(&[2, 2]), 1),
        &expect!["take_along: the indices p is [2, 2]; it must be [3, 2], as the tensor but along the dimension"],
    );
    refused(
        ops::take_along(&of(&[3, 4]), &places(&[3]), 1),
        &expect!["take_along: the indices p is [3]; it must be [3, 4], as the tensor but along the dimension"],
    );
    refused(
        ops::take_along(&of(&[3, 4]), &of(&[3, 2]), 1),
        &expect!["an index of x has type f32; indices are integers: convert it with `.cast(ElementType::I32)`"],
    );
    refused(
        ops::gather(&of(&[3, 4]), &places(&[2]), -3),
        &expect!["x has 2 data axes, number -3 was asked for; numbers go from -2 to 1"],
    );
    refused(
        ops::gather(&of(&[3, 4]), &of(&[2]), 0),
        &expect!["an index of x has type f32; indices are integers: convert it with `.cast(ElementType::I32)`"],
    );
    refused(
        ops::histogram(&of(&[3, 4]), &of(&[1])),
        &expect!["histogram: the edges x is [1]; it must be [bins + 1] with 1 bin or more"],
    );
    refused(
        ops::bincount(&of(&[3]), 4),
        &expect!["`bincount` takes no operand of type f32; convert it with `.cast(…)`"],
    );
    refused(
        ops::one_hot(&of(&[3]), 4, ElementType::F32),
        &expect!["`one_hot` takes no operand of type f32; convert it with `.cast(…)`"],
    );
    refused(
        ops::one_hot(&places(&[3]), -1, ElementType::F32),
        &expect!["dimension 1 of one_hot has the extent -1; an extent is an i32 from 0 to 2147483647"],
    );
    refused(
        ops::pad(&of(&[3, 4]), &[(1, 1)], Padding::Edge),
        &expect!["pad: the tensor x is [3, 4]; it must be of as many dimensions as widths are given, 1"],
    );
    refused(
        ops::pad(&of(&[0]), &[(1, 1)], Padding::Edge),
        &expect!["pad: the tensor x is [0]; it must be of 1 or more elements where 1 are added before and 1 after"],
    );
    refused(
        ops::pad(&places(&[3]), &[(1, 1)], Padding::Constant(0.5)),
        &expect![
            "0.5 is not a value of type i32, which holds whole numbers from -2147483648 to 2147483647; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    assert!(ops::pad(&of(&[3]), &[(usize::MAX, 1)], Padding::Constant(0.0)).is_err());
    assert!(ops::pad(&of(&[3]), &[(1 << 31, 1 << 31)], Padding::Edge).is_err());
    refused(
        ops::cross_entropy(&of(&[3, 4]), &places(&[4])),
        &expect!["cross_entropy: the targets p is [4]; it must be [3], as the logits without their last dimension"],
    );
    refused(
        ops::cross_entropy(&of(&[]), &places(&[])),
        &expect!["cross_entropy: the logits x is []; it must be […, classes]"],
    );
    refused(
        ops::cross_entropy(&of(&[3, 4]), &of(&[3])),
        &expect!["an index of x has type f32; indices are integers: convert it with `.cast(ElementType::I32)`"],
    );
    // Known when it runs: no element to repeat, an index outside.
    let device = Device::cpu();
    let x = te::placeholder([var("n")], "x");
    let empty = device.zeros::<f32>([0])?;
    for padding in [Padding::Edge, Padding::Reflect] {
        let padded = ops::pad(&x, &[(1, 1)], padding)?;
        assert!(automatic(&device, Order::Device, &padded, &[(&x, &empty)], &[2]).is_err());
    }
    let indices = te::placeholder_of(ElementType::I32, [2], "indices");
    let taken = ops::take_along(&x, &indices, 0)?;
    let three = device.zeros::<f32>([3])?;
    for outside in [[0, 3], [-1, 0]] {
        let at = device.tensor(&outside, [2])?;
        assert!(automatic(&device, Order::Device, &taken, &[(&x, &three), (&indices, &at)], &[2]).is_err());
        let hot = ops::one_hot(&indices, 3, ElementType::F32)?;
        let got = automatic(&device, Order::Device, &hot, &[(&indices, &at)], &[2, 3])?;
        assert_eq!(got.iter().sum::<f64>(), 1.0);
    }
    Ok(())
}
