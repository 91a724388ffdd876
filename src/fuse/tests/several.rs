//! Several products in a program: those of one left factor, and attention written out.

use epilogue_runtime::testing;

use super::{build, checked, checked_on, linear, run, values};
use crate::te::{self, DType, Expr, TeError, Tensor, placeholder_of};
use crate::{Arch, Device, ElementType, ops};

#[test]
fn products_of_one_left_factor_are_accumulators_of_one() -> Result<(), TeError> {
    let x = te::placeholder([9, 12], "x");
    let [q, k, v] = ["q", "k", "v"].map(|name| linear(&x, &te::placeholder([20, 12], "w"), name));
    let (q, k, v) = (q?, k?, v?);
    assert_eq!(checked(&[&q, &k, &v]), "q and k and v: 3 products of 9×20×12, f32 × f32");
    // A gated layer: their product is the epilogue.
    let gated = te::compute([9, 20], "gated", |[i, j]| ops::relu(q.at([i, j])) * v.at([i, j]))?;
    assert_eq!(checked(&[&gated]), "q and v with gated: 2 products of 9×20×12, f32 × f32");
    // Five are one too many, and other columns are a product of their own.
    let all: Vec<Tensor> = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|name| linear(&x, &te::placeholder([8, 12], "w"), name))
        .collect::<Result<_, _>>()?;
    let choice = checked(&all.iter().collect::<Vec<_>>());
    assert!(
        choice.starts_with("2 kernels: a and b and c and d: 4 products of 9×8×12, f32 × f32; then e: "),
        "{choice}"
    );
    assert!(
        choice.ends_with("\ne is computed after a and not with it: a product has at most 4 right factors"),
        "{choice}"
    );
    let choice = checked(&[&q, &all[0]]);
    assert!(choice.contains("\na is computed after q and not with it: its right factor has other columns"), "{choice}");
    Ok(())
}

/// A product that needs the other's result is no accumulator beside it.
#[test]
fn a_product_of_a_product_is_another() -> Result<(), TeError> {
    let (x, w) = (te::placeholder([12, 12], "x"), te::placeholder([12, 12], "w"));
    let z = linear(&x, &w, "z")?;
    let y = linear(&x, &z, "y")?;
    let choice = checked(&[&y, &z]);
    let products = "2 kernels: z: a product of 12×12×12, f32 × f32; then y: a product of 12×12×12, f32 × f32";
    assert_eq!(choice, products);
    Ok(())
}

/// `softmax(q·kᵀ)·v` of some heads: two products, with the softmax in the first one's epilogue.
fn attention(element: ElementType, heads: i32, tokens: i32, width: i32) -> Result<Tensor, TeError> {
    let [q, k, v] = ["q", "k", "v"].map(|name| placeholder_of(element, [heads, tokens, width], name));
    let (d, t) = (te::reduce_axis((0, width), "d"), te::reduce_axis((0, tokens), "t"));
    let scores = te::compute([heads, tokens, tokens], "scores", |[h, i, j]| {
        te::sum(q.at([h, i, d]).cast(DType::F32) * k.at([h, j, d]).cast(DType::F32), [d])
    })?;
    let weights = te::ops::softmax(&scores, 2)?;
    let weights = te::compute([heads, tokens, tokens], "weights", |[h, i, j]| weights.at([h, i, j]).cast(element))?;
    te::compute([heads, tokens, width], "mixed", |[h, i, e]| {
        te::sum(
            weights.at([Expr::from(h), i.into(), t.into()]).cast(DType::F32) * v.at([h, t, e]).cast(DType::F32),
            [t],
        )
    })
}

#[test]
fn attention_is_two_products_and_a_softmax_between() -> Result<(), TeError> {
    let mut devices = vec![(Device::cpu(), ElementType::F32)];
    if testing::compiler("attention_is_two_products_and_a_softmax_between").is_some() {
        devices.push((Device::emulated(Arch::SM_80)?, ElementType::F16));
    }
    for (device, element) in devices {
        let mixed = attention(element, 2, 6, 8)?;
        let [fused, own] = [build(&[&mixed])?.build(&device)?, te::auto::build(&[&mixed])?.build(&device)?]
            .map(|kernel| run(&kernel, &device, &[]));
        let choice = &fused.1;
        assert!(choice.starts_with("2 kernels: scores with "), "{choice}");
        let types = format!("{element} × {element}");
        assert!(choice.contains(&format!("weights: a product of 2 × 6×6×8, {types}; then mixed: ")), "{choice}");
        assert!(choice.ends_with(&format!("mixed: a product of 2 × 6×8×6, {types}")), "{choice}");
        let [fused, own] = [fused.0, own.0].map(|outputs| {
            outputs[0].chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect::<Vec<_>>()
        });
        // Weights are at most 1 and values at most 3: both round a weight of f16 to 2⁻¹¹ at most.
        let most = if element == ElementType::F32 { 1e-4 } else { 0.02 };
        assert!(fused.iter().zip(&own).all(|(a, b)| (a - b).abs() <= most), "{fused:?} {own:?}");
    }
    Ok(())
}

#[test]
fn an_emulated_gpu_has_gated_layers() -> Result<(), TeError> {
    if testing::compiler("an_emulated_gpu_has_gated_layers").is_none() {
        return Ok(());
    }
    let f16 = ElementType::F16;
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        let x = placeholder_of(f16, [9, 16], "x");
        let gate = |name: &str| {
            let (w, k) = (placeholder_of(f16, [24, 16], "w"), te::reduce_axis((0, 16), "k"));
            te::compute([9, 24], name, |[i, j]| {
                te::sum(x.at([i, k]).cast(DType::F32) * w.at([j, k]).cast(DType::F32), [k])
            })
        };
        let (a, b) = (gate("a")?, gate("b")?);
        let d = te::compute([9, 24], "d", |[i, j]| (ops::relu(a.at([i, j])) * b.at([i, j])).cast(DType::F32))?;
        let choice = checked_on(&device, &[&d], &[]);
        assert_eq!(choice, "a and b with d: 2 products of 9×24×16, f16 × f16");
    }
    Ok(())
}

#[test]
fn what_is_required_is_a_product_or_an_error() -> Result<(), TeError> {
    let device = Device::cpu();
    let (x, w) = (te::placeholder([3, 5, 12], "x"), te::placeholder([12, 8], "w"));
    let k = te::reduce_axis((0, 12), "k");
    let z = te::compute([3, 5, 8], "z", |[b, t, j]| te::sum(x.at([b, t, k]) * w.at([k, j]), [k]))?;
    let y = te::compute([3, 5, 8], "y", |[b, t, j]| z.at([b, t, j]) + 1.0)?;
    let refused = |error: TeError| match error {
        TeError::Product { tensor, reason } => (tensor, reason),
        other => panic!("{other}"),
    };
    let (of, reason) = refused(build(&[&y])?.require(&y).build(&device).unwrap_err());
    assert_eq!(
        (of.as_str(), reason.as_str()),
        ("y", "no output needs it as a sum of its own; name the tensor that is the sum")
    );
    let (_, reason) = refused(build(&[&y])?.order(te::auto::Order::Exact).require(&z).build(&device).unwrap_err());
    assert!(reason.starts_with("the order is `Exact`"), "{reason}");
    let rows = te::compute([3, 5], "rows", |[b, t]| te::sum(x.at([b, t, k]), [k]))?;
    let (_, reason) = refused(build(&[&rows])?.require(&rows).build(&device).unwrap_err());
    assert_eq!(reason, "it sums no products of two factors with different axes");
    // A run whose tensors no product takes.
    let kernel = build(&[&y])?.require(&z).build(&device)?;
    let apart = values(&device, ElementType::F32, &[5, 3, 12], 1).permute(&[1, 0, 2])?;
    let (ws, mut ys) = (values(&device, ElementType::F32, &[12, 8], 2), device.full::<f32>([3, 5, 8], 7.0)?);
    let run = kernel.run_bound(&[(&x, (&apart).into()), (&w, (&ws).into()), (&y, (&mut ys).into())]);
    let (of, reason) = refused(run.unwrap_err());
    assert!(of == "z with y" && reason.starts_with("x has axes that don't lie one after another"), "{of}: {reason}");
    assert_eq!(ys.to_vec::<f32>()?, [7.0; 120]);
    Ok(())
}
