//! Programs whose weights are known when they are built.

use epilogue_runtime::testing;

use super::{build, linear, values};
use crate::te::ops::Convolution;
use crate::te::{self, Expr, RunError, TeError, placeholder_of};
use crate::{Arch, Argument, Device, ElementType};

/// The runs of a program with its weights as arguments, and with known ones that are overwritten afterwards.
#[test]
fn known_weights_are_copied_and_packed_once() -> Result<(), TeError> {
    let mut devices = vec![(Device::cpu(), ElementType::F32, ", packed")];
    if testing::compiler("known_weights_are_copied_and_packed_once").is_some() {
        devices.push((Device::emulated(Arch::SM_80)?, ElementType::F16, ""));
    }
    for (device, element, packed) in devices {
        // The number of rows is the run's, and that of columns only the weights know.
        let (m, n, sixteen) = (te::var("m"), te::var("n"), Expr::from(16));
        let x = placeholder_of(element, [m.into(), sixteen.clone()], "x");
        let [v, w] = ["v", "w"].map(|name| placeholder_of(element, [n.into(), sixteen.clone()], name));
        let bias = te::placeholder([n], "bias");
        let product = |of: &te::Tensor, name: &str| {
            let k = te::reduce_axis((0, 16), "k");
            let f32 = ElementType::F32;
            te::compute([m, n], name, |[i, j]| te::sum(x.at([i, k]).cast(f32) * of.at([j, k]).cast(f32), [k]))
        };
        let (p, q) = (product(&v, "p")?, product(&w, "q")?);
        let y = te::compute([m, n], "y", |[i, j]| p.at([i, j]) * q.at([i, j]) + bias.at([j]))?;
        let [xs, mut vs, mut ws] =
            [(9, 1), (20, 2), (20, 3)].map(|(rows, seed)| values(&device, element, &[rows, 16], seed));
        let mut biases = values(&device, ElementType::F32, &[20], 4);
        let mut expected = device.zeros::<f32>([9, 20])?;
        let given = build(&[&y])?.build(&device)?;
        given.run_bound(&[
            (&x, (&xs).into()),
            (&v, (&vs).into()),
            (&w, (&ws).into()),
            (&bias, (&biases).into()),
            (&y, (&mut expected).into()),
        ])?;
        let known = build(&[&y])?.weights([(&v, &vs), (&w, &ws), (&bias, &biases)]).build(&device)?;
        assert_eq!(known.inputs(), std::slice::from_ref(&x));
        for tensor in [&mut vs, &mut ws, &mut biases] {
            tensor.copy_from_bytes(&vec![0; tensor.len() * tensor.element_type().size()])?;
        }
        for _ in 0..2 {
            let mut ys = device.zeros::<f32>([9, 20])?;
            known.run_bound(&[(&x, (&xs).into()), (&y, (&mut ys).into())])?;
            assert_eq!(ys.to_vec::<f32>()?, expected.to_vec::<f32>()?);
        }
        assert_eq!(known.choice(), format!("p and q with y: 2 products of 9×20×16, {element} × {element}{packed}"));
    }
    Ok(())
}

/// A filter whose channels come first is put into the order of a product once, not by each run; so is what is computed from
/// weights.
#[test]
fn what_weights_alone_give_is_computed_once() -> Result<(), TeError> {
    let mut devices = vec![(Device::cpu(), ElementType::F32)];
    if testing::compiler("what_weights_alone_give_is_computed_once").is_some() {
        devices.push((Device::emulated(Arch::SM_80)?, ElementType::F16));
    }
    for (device, element) in devices {
        let images =
            placeholder_of(element, [te::var("n").into(), Expr::from(8), Expr::from(6), Expr::from(5)], "images");
        let [filter, scale] = [("filter", vec![4, 8, 3, 3]), ("scale", vec![4])]
            .map(|(name, shape)| placeholder_of(element, shape, name));
        let scaled = te::compute([4, 8, 3, 3], "scaled", |[f, c, r, s]| filter.at([f, c, r, s]) * scale.at([f]))?;
        let z = te::ops::conv2d(&images, &scaled, Convolution::new().padding([1, 1]))?;
        let [xs, fs] =
            [([2, 8, 6, 5], 1), ([4, 8, 3, 3], 2)].map(|(shape, seed)| values(&device, element, &shape, seed));
        let scales = values(&device, element, &[4], 3);
        let run = |weights: &[(&te::Tensor, &crate::DeviceTensor)]| -> Result<(Vec<u8>, String), TeError> {
            let kernel = build(&[&z])?.weights(weights.iter().copied()).build(&device)?;
            let mut zs = device.zeros_of(element, [2, 4, 6, 5])?;
            let all: [(&te::Tensor, &crate::DeviceTensor); 3] = [(&images, &xs), (&filter, &fs), (&scale, &scales)];
            let given = all.iter().filter(|(of, _)| kernel.inputs().contains(of));
            let mut arguments: Vec<_> = given.map(|(of, tensor)| (*of, Argument::from(*tensor))).collect();
            arguments.push((&z, Argument::from(&mut zs)));
            kernel.run_bound(&arguments)?;
            drop(arguments);
            Ok((zs.to_bytes()?, kernel.choice()))
        };
        let (expected, each_time) = run(&[])?;
        let (made, once) = run(&[(&filter, &fs), (&scale, &scales)])?;
        assert_eq!(made, expected, "{once}");
        assert!(each_time.contains("conv2d_right"), "{each_time}");
        assert!(!once.contains("conv2d_right"), "{once}");
        // With one of them known, it is the run's.
        let (made, some) = run(&[(&filter, &fs)])?;
        assert_eq!((made, some.contains("conv2d_right")), (expected, true), "{some}");
    }
    Ok(())
}

#[test]
fn weights_that_do_not_fit_are_refused() -> Result<(), TeError> {
    let device = Device::cpu();
    let (x, w, other) = (te::placeholder([9, 12], "x"), te::placeholder([20, 12], "w"), te::placeholder([20], "other"));
    let z = linear(&x, &w, "z")?;
    let (ws, long) = (values(&device, ElementType::F32, &[20, 12], 1), values(&device, ElementType::F32, &[20], 1));
    let half = values(&device, ElementType::F16, &[20, 12], 1);
    let refused = |weights: &[(&te::Tensor, &crate::DeviceTensor)]| {
        let program = build(&[&z]).and_then(|fused| fused.weights(weights.iter().copied()).build(&device));
        match program.expect_err("refused") {
            TeError::Run(RunError::Argument { tensor, reason }) => format!("{tensor}: {reason}"),
            error => panic!("{error}"),
        }
    };
    assert_eq!(refused(&[(&w, &ws), (&w, &ws)]), "w: it has values already; give it once");
    assert_eq!(refused(&[(&w, &half)]), "w: it has elements of f16; give a tensor of f32");
    assert_eq!(refused(&[(&w, &long)]), "w: its shape is [20]; give one of [20, 12]");
    let no_input = "it is no input of the program; give values of placeholders that it reads";
    assert_eq!(refused(&[(&other, &long)]), format!("other: {no_input}"));
    // An output shares no memory with weights, since they are copied.
    let program = build(&[&z])?.weights([(&w, &ws)]).build(&device)?;
    let (xs, short) = (values(&device, ElementType::F32, &[9, 12], 2), values(&device, ElementType::F32, &[9, 11], 2));
    let mut zs = device.zeros::<f32>([9, 20])?;
    assert!(program.run_bound(&[(&x, (&short).into()), (&z, (&mut zs).into())]).is_err());
    program.run_bound(&[(&x, (&xs).into()), (&z, (&mut zs).into())])?;
    Ok(())
}
