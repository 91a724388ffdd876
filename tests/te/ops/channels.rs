//! Normalisations by channels, and softmax over several dimensions, compared with loops in f64.

use epilogue::te::auto::Order;
use epilogue::te::{self, TeError, Tensor, ops, var};
use epilogue::{Argument, ElementType};
use expect_test::{Expect, expect};

use super::{close, devices, download, normal, rounded, upload};

const SHAPE: [usize; 4] = [2, 6, 3, 5];

/// Runs on the CPU in every order, and on the emulated GPU.
fn everywhere(
    name: &'static str,
    element: ElementType,
    result: &Tensor,
    inputs: &[(&Tensor, Vec<f64>, Vec<usize>)],
    wanted: &[f64],
) -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler(name).is_some();
    for (place, device) in devices().iter().enumerate().take(if has_compiler { 2 } else { 1 }) {
        for order in [Order::Device, Order::Shape, Order::Exact].into_iter().take(3 - 2 * place) {
            let kernel = te::auto::build(&[result])?.order(order).build(device)?;
            let tensors = inputs.iter().map(|(_, values, shape)| upload(device, element, values, shape));
            let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
            let mut made = device.zeros_of(element, SHAPE)?;
            let mut arguments: Vec<(&Tensor, Argument<'_>)> =
                inputs.iter().zip(&tensors).map(|((tensor, ..), given)| (*tensor, Argument::from(given))).collect();
            arguments.push((result, (&mut made).into()));
            kernel.run_bound(&arguments)?;
            drop(arguments);
            close(element, &download(&made)?, wanted, 64.0, 4.0, &format!("{name}, {order:?} on {device}"));
        }
    }
    Ok(())
}

/// Each element, less the mean of those with the same key, by their deviation.
fn by_key(x: &[f64], key: impl Fn(usize) -> usize, affine: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    let of =
        |at: usize| (0..x.len()).filter(|other| key(*other) == key(at)).map(|other| x[other]).collect::<Vec<f64>>();
    let one = |at: usize| {
        let group = of(at);
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        let var = group.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / group.len() as f64;
        affine(at / 15 % 6, (x[at] - mean) / (var + 1e-5).sqrt())
    };
    (0..x.len()).map(one).collect()
}

#[test]
fn groups_of_channels_are_normalised() -> Result<(), TeError> {
    for element in [ElementType::F32, ElementType::F16] {
        let x =
            te::placeholder_of(element, [var("n").into(), te::Expr::from(6), var("h").into(), var("w").into()], "x");
        let [weight, bias] = ["weight", "bias"].map(|name| te::placeholder_of(element, [6], name));
        let values = [180, 6, 6].map(|len| rounded(element, &normal(len, len as u64 + 1)));
        let [xs, weights, biases] = &values;
        for groups in [1, 2, 3, 6] {
            let result = ops::group_norm(&x, groups, Some(&weight), Some(&bias), 1e-5)?;
            let inputs = [
                (&x, xs.clone(), SHAPE.to_vec()),
                (&weight, weights.clone(), vec![6]),
                (&bias, biases.clone(), vec![6]),
            ];
            let each = 6 / groups;
            let wanted = by_key(xs, |at| at / 15 / each, |channel, x| x * weights[channel] + biases[channel]);
            everywhere("groups_of_channels_are_normalised", element, &result, &inputs, &wanted)?;
        }
        let result = ops::instance_norm(&x, None, None, 1e-5)?;
        let wanted = by_key(xs, |at| at / 15, |_, x| x);
        everywhere(
            "groups_of_channels_are_normalised",
            element,
            &result,
            &[(&x, xs.clone(), SHAPE.to_vec())],
            &wanted,
        )?;
    }
    Ok(())
}

#[test]
fn softmax_over_several_dimensions() -> Result<(), TeError> {
    let (element, xs) = (ElementType::F32, rounded(ElementType::F32, &normal(180, 5)));
    for dimensions in [&[2usize, 3][..], &[1, 3], &[0, 1], &[3]] {
        let x = te::placeholder([var("n"), var("c"), var("h"), var("w")], "x");
        let index = |at: usize| [at / 90, at / 15 % 6, at / 5 % 3, at % 5];
        let is_near = |a: usize, b: usize| (0..4).all(|d| dimensions.contains(&d) || index(a)[d] == index(b)[d]);
        let sum = |at: usize| (0..180).filter(|other| is_near(at, *other)).map(|other| xs[other].exp()).sum::<f64>();
        let softmax: Vec<f64> = (0..180).map(|at| xs[at].exp() / sum(at)).collect();
        let logarithms: Vec<f64> = (0..180).map(|at| xs[at] - sum(at).ln()).collect();
        let inputs = [(&x, xs.clone(), SHAPE.to_vec())];
        let name = "softmax_over_several_dimensions";
        everywhere(name, element, &ops::softmax(&x, dimensions)?, &inputs, &softmax)?;
        everywhere(
            name,
            element,
            &ops::log_softmax(&x, ops::Dimensions::from(dimensions).kept())?,
            &inputs,
            &logarithms,
        )?;
    }
    Ok(())
}

fn refused<T>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.err().expect("what doesn't fit was accepted").to_string());
}

#[test]
fn channels_that_do_not_fit() {
    let of = |shape: &[usize]| te::placeholder(shape.to_vec(), "x");
    refused(
        ops::group_norm(&of(&[2, 6, 3]), 4, None, None, 1e-5),
        &expect![
            "group_norm: the tensor x is [2, 6, 3]; it must be with a number of channels that is a multiple of the 4 groups"
        ],
    );
    refused(
        ops::group_norm(&of(&[2, 6, 3]), 0, None, None, 1e-5),
        &expect![
            "group_norm: the tensor x is [2, 6, 3]; it must be with a number of channels that is a multiple of the 0 groups"
        ],
    );
    refused(
        ops::group_norm(&of(&[2]), 1, None, None, 1e-5),
        &expect!["group_norm: the tensor x is [2]; it must be [batch, channels, …]"],
    );
    refused(
        ops::group_norm(&of(&[2, 6, 3]), 2, Some(&of(&[3])), None, 1e-5),
        &expect!["group_norm: the weight x is [3]; it must be [6], as the channels"],
    );
    refused(
        ops::instance_norm(&of(&[2, 6, 3]), None, Some(&of(&[2])), 1e-5),
        &expect!["instance_norm: the bias x is [2]; it must be [6], as the channels"],
    );
    let integers = te::placeholder_of(ElementType::I32, [2, 6, 3], "x");
    refused(
        ops::instance_norm(&integers, None, None, 1e-5),
        &expect!["`instance_norm` takes no operand of type i32; convert it with `.cast(…)`"],
    );
    let sized = te::placeholder([var("n"), var("c"), var("h")], "x");
    refused(
        ops::group_norm(&sized, 2, None, None, 1e-5),
        &expect![
            "group_norm: the tensor x is [n, c, h]; it must be with a number of channels that is a multiple of the 2 groups"
        ],
    );
}
