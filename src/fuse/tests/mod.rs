//! Fused programs against te's own kernels. Data are small integers and functions exact, so that every order of sums
//! gives the same: then fused and unfused must give equal bits.

mod drawing;
mod operands;
mod random;
mod several;
mod weights;

use epilogue_runtime::testing;

use super::build;
use crate::te::auto::{self, Order};
use crate::te::{self, DType, Expr, TeError, Tensor, placeholder_of};
use crate::{Arch, Argument, Device, DeviceTensor, ElementType, ops};

/// A tensor of small integers.
fn values(device: &Device, element: ElementType, shape: &[usize], seed: usize) -> DeviceTensor {
    let count: usize = shape.iter().product();
    let all: Vec<f32> = (0..count).map(|i| ((i * 7 + seed * 5 + i / 3) % 7) as f32 - 3.0).collect();
    match element {
        ElementType::F32 => device.tensor(&all, shape),
        ElementType::F64 => device.tensor(&all.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), shape),
        ElementType::F16 => device.tensor(&all.iter().map(|x| half::f16::from_f32(*x)).collect::<Vec<_>>(), shape),
        ElementType::BF16 => device.tensor(&all.iter().map(|x| half::bf16::from_f32(*x)).collect::<Vec<_>>(), shape),
        ElementType::I8 => device.tensor(&all.iter().map(|x| *x as i8).collect::<Vec<_>>(), shape),
        _ => device.tensor(&all.iter().map(|x| *x as i32).collect::<Vec<_>>(), shape),
    }
    .expect("memory")
}

fn number(x: &Expr) -> usize {
    usize::try_from(te::arith::simplify(x).as_int().expect("a constant extent")).expect("an extent")
}

/// The bytes of all outputs and the choice, of a fused program or of te's own kernels.
fn run(kernel: &auto::Kernel, device: &Device, views: &[(&Tensor, &DeviceTensor)]) -> (Vec<Vec<u8>>, String) {
    let shape = |tensor: &Tensor| tensor.shape().iter().map(number).collect::<Vec<_>>();
    let inputs: Vec<DeviceTensor> = kernel
        .inputs()
        .iter()
        .map(|tensor| match views.iter().find(|(of, _)| of == &tensor) {
            Some((_, view)) => (*view).clone(),
            None => {
                let seed = tensor.name().bytes().map(usize::from).sum();
                values(device, tensor.dtype().in_memory(), &shape(tensor), seed)
            }
        })
        .collect();
    let mut outputs: Vec<DeviceTensor> = kernel
        .outputs()
        .iter()
        .map(|tensor| device.zeros_of(tensor.dtype().in_memory(), shape(tensor)).expect("memory"))
        .collect();
    for _ in 0..2 {
        let given = kernel.inputs().iter().zip(&inputs).map(|(of, tensor)| (of, Argument::from(tensor)));
        let written = kernel.outputs().iter().zip(&mut outputs).map(|(of, tensor)| (of, Argument::from(tensor)));
        let arguments: Vec<(&Tensor, Argument<'_>)> = given.chain(written).collect();
        kernel.run_bound(&arguments).expect("a run");
    }
    (outputs.iter().map(|tensor| tensor.to_bytes().expect("bytes")).collect(), kernel.choice())
}

/// The choice of the fused program, whose results must be te's.
#[track_caller]
fn checked_on(device: &Device, outputs: &[&Tensor], views: &[(&Tensor, &DeviceTensor)]) -> String {
    let fused = build(outputs).expect("a program").build(device).expect("a program");
    let own = auto::build(outputs).expect("kernels").build(device).expect("kernels");
    let (made, choice) = run(&fused, device, views);
    let (expected, _) = run(&own, device, views);
    assert_eq!(made, expected, "{choice}");
    choice
}

#[track_caller]
fn checked(outputs: &[&Tensor]) -> String {
    checked_on(&Device::cpu(), outputs, &[])
}

fn product_of(a: &Tensor, b: &Tensor, name: &str, to: DType) -> Result<Tensor, TeError> {
    let k = te::reduce_axis((0, a.shape()[1].clone()), "k");
    te::compute([a.shape()[0].clone(), b.shape()[1].clone()], name, |[i, j]| {
        te::sum(a.at([i, k]).cast(to) * b.at([k, j]).cast(to), [k])
    })
}

/// `a[9, 12] · w[20, 12]ᵀ`, as a linear layer is.
fn linear(a: &Tensor, w: &Tensor, name: &str) -> Result<Tensor, TeError> {
    let k = te::reduce_axis((0, a.shape()[1].clone()), "k");
    te::compute([a.shape()[0].clone(), w.shape()[0].clone()], name, |[i, j]| te::sum(a.at([i, k]) * w.at([j, k]), [k]))
}

fn two(m: i32, n: i32, k: i32) -> (Tensor, Tensor) {
    (te::placeholder([m, k], "a"), te::placeholder([k, n], "b"))
}

#[test]
fn a_product_alone_is_found() -> Result<(), TeError> {
    let (a, b) = two(9, 20, 12);
    assert_eq!(checked(&[&product_of(&a, &b, "z", DType::F32)?]), "z: a product of 9×20×12, f32 × f32");
    let w = te::placeholder([20, 12], "w");
    assert_eq!(checked(&[&linear(&a, &w, "z")?]), "z: a product of 9×20×12, f32 × f32");
    // A transposed, and the result too.
    let (at, k) = (te::placeholder([12, 9], "at"), te::reduce_axis((0, 12), "k"));
    let z = te::compute([20, 9], "z", |[j, i]| te::sum(at.at([k, i]) * b.at([k, j]), [k]))?;
    assert_eq!(checked(&[&z]), "z: a product of 20×9×12, f32 × f32");
    // One tensor as both.
    let k = te::reduce_axis((0, 12), "k");
    let z = te::compute([9, 9], "z", |[i, j]| te::sum(a.at([i, k]) * a.at([j, k]), [k]))?;
    assert_eq!(checked(&[&z]), "z: a product of 9×9×12, f32 × f32");
    Ok(())
}

#[test]
fn batches_and_merged_axes_are_found() -> Result<(), TeError> {
    let (x, w) = (te::placeholder([3, 5, 12], "x"), te::placeholder([12, 8], "w"));
    let k = te::reduce_axis((0, 12), "k");
    let z = te::compute([3, 5, 8], "z", |[b, t, j]| te::sum(x.at([b, t, k]) * w.at([k, j]), [k]))?;
    assert_eq!(checked(&[&z]), "z: a product of 15×8×12, f32 × f32");
    let y = te::placeholder([3, 12, 7], "y");
    let z = te::compute([3, 5, 7], "z", |[b, t, j]| te::sum(x.at([b, t, k]) * y.at([b, k, j]), [k]))?;
    assert_eq!(checked(&[&z]), "z: a product of 3 × 5×7×12, f32 × f32");
    // Queries times keys of some heads, which lie between the tokens' features.
    let (q, p) = (te::placeholder([2, 5, 3, 4], "q"), te::placeholder([2, 6, 3, 4], "p"));
    let d = te::reduce_axis((0, 4), "d");
    let s = te::compute([2, 3, 5, 6], "s", |[b, h, i, j]| te::sum(q.at([b, i, h, d]) * p.at([b, j, h, d]), [d]))?;
    assert_eq!(checked(&[&s]), "s: a product of 6 × 5×6×4, f32 × f32");
    // Two axes are summed over, and lie one after another.
    let (v, u) = (te::placeholder([5, 3, 4], "v"), te::placeholder([3, 4, 6], "u"));
    let (c, d) = (te::reduce_axis((0, 3), "c"), te::reduce_axis((0, 4), "d"));
    let z = te::compute([5, 6], "z", |[i, j]| {
        te::sum(v.at([i.into(), Expr::from(c), d.into()]) * u.at([c, d, j]), [c, d])
    })?;
    assert_eq!(checked(&[&z]), "z: a product of 5×6×12, f32 × f32");
    Ok(())
}

#[test]
fn types_are_those_that_products_have() -> Result<(), TeError> {
    for (element, to) in [
        (ElementType::F16, ElementType::F32),
        (ElementType::BF16, ElementType::F32),
        (ElementType::F16, ElementType::F16),
        (ElementType::F64, ElementType::F64),
        (ElementType::I8, ElementType::I32),
    ] {
        let (a, b) = (placeholder_of(element, [6, 16], "a"), placeholder_of(element, [16, 5], "b"));
        let choice = checked(&[&product_of(&a, &b, "z", to.into())?]);
        assert_eq!(choice, format!("z: a product of 6×5×16, {element} × {element}"));
    }
    let (a, b) = (placeholder_of(ElementType::I32, [6, 16], "a"), placeholder_of(ElementType::I32, [16, 5], "b"));
    let choice = checked(&[&product_of(&a, &b, "z", DType::I32)?]);
    assert!(choice.contains("\nz is no product: no product sums i32 × i32 in i32 here"), "{choice}");
    Ok(())
}

#[test]
fn elementwise_consumers_join() -> Result<(), TeError> {
    let (a, w) = (te::placeholder([9, 12], "a"), te::placeholder([20, 12], "w"));
    let (bias, row) = (te::placeholder([20], "bias"), te::placeholder([9], "row"));
    let (other, scale) = (te::placeholder([9, 20], "other"), te::placeholder((), "scale"));
    let z = linear(&a, &w, "z")?;
    let y = te::compute([9, 20], "y", |[i, j]| ops::relu(z.at([i, j]) + bias.at([j])))?;
    assert_eq!(checked(&[&y]), "z with y: a product of 9×20×12, f32 × f32");
    // Several outputs, a residual, a vector of rows, a scalar, a choice by position.
    let u = te::compute([9, 20], "u", |[i, j]| {
        Expr::from(i).less_equal(j).select(y.at([i, j]) * scale.at(()) + other.at([i, j]), row.at([i]))
    })?;
    assert_eq!(checked(&[&u, &z, &y]), "z with u, y: a product of 9×20×12, f32 × f32");
    // Transposed, and rounded.
    let t = te::compute([20, 9], "t", |[j, i]| (y.at([i, j]) * 0.5).cast(ElementType::F16))?;
    assert_eq!(checked(&[&t]), "z with t: a product of 9×20×12, f32 × f32");
    Ok(())
}

#[test]
fn what_cannot_join_is_computed_after_it() -> Result<(), TeError> {
    let (a, b) = two(9, 9, 12);
    let z = product_of(&a, &b, "z", DType::F32)?;
    let shifted = te::compute([8, 9], "shifted", |[i, j]| z.at((i + 1, j)) - z.at((i, j)))?;
    let choice = checked(&[&shifted]);
    assert!(choice.starts_with("2 kernels: z: a product of 9×9×12, f32 × f32; then "), "{choice}");
    assert!(choice.contains("\nshifted is computed after z and not with it: it reads z at other places"), "{choice}");
    // Out and back in: a sum along another diagonal, then a value that needs it and the product.
    let k = te::reduce_axis((0, 9), "k");
    let sums = te::compute([9], "sums", |[i]| te::sum(z.at([Expr::from(i), (i + k) % 9]), [k]))?;
    let back = te::compute([9, 9], "back", |[i, j]| z.at([i, j]) - sums.at([i]))?;
    let choice = checked(&[&back]);
    assert!(choice.contains("\nback is computed after z and not with it: it needs sums, which needs"), "{choice}");
    Ok(())
}

#[test]
fn reductions_of_rows_and_columns_join() -> Result<(), TeError> {
    let (a, b) = two(9, 20, 12);
    let z = product_of(&a, &b, "z", DType::F32)?;
    let (k, r) = (te::reduce_axis((0, 20), "k"), te::reduce_axis((0, 9), "r"));
    let sums = te::compute([9], "sums", |[i]| te::sum(z.at([i, k]), [k]))?;
    let most = te::compute([20], "most", |[j]| te::max(z.at([r, j]), [r]))?;
    let choice = checked(&[&sums, &most]);
    assert_eq!(choice, "z with sums, most: a product of 9×20×12, f32 × f32");
    let apart = te::compute([9, 20], "apart", |[i, j]| z.at([i, j]) * 2.0 - sums.at([i]) + most.at([j]))?;
    assert_eq!(checked(&[&apart]), "z with sums, most, apart: a product of 9×20×12, f32 × f32");
    Ok(())
}

#[test]
fn products_of_products_are_two() -> Result<(), TeError> {
    let (a, w, v) = (te::placeholder([9, 12], "a"), te::placeholder([20, 12], "w"), te::placeholder([6, 20], "v"));
    let z = linear(&a, &w, "z")?;
    let h = te::compute([9, 20], "h", |[i, j]| z.at([i, j]).max(0.0).min(3.0))?;
    let y = linear(&h, &v, "y")?;
    let out = te::compute([9, 6], "out", |[i, j]| y.at([i, j]) + 1.0)?;
    let choice = checked(&[&out]);
    let expected =
        "2 kernels: z with h: a product of 9×20×12, f32 × f32; then y with out: a product of 9×6×20, f32 × f32";
    assert_eq!(choice, expected);
    Ok(())
}

/// A residual reads what is in memory: it doesn't write out the layers below.
#[test]
fn what_is_kept_is_read_from_memory() -> Result<(), TeError> {
    let mut x = te::placeholder([9, 12], "x");
    for layer in 0..3 {
        let z = linear(&x, &te::placeholder([12, 12], "w"), &format!("z{layer}"))?;
        let below = x.clone();
        x = te::compute([9, 12], &format!("x{layer}"), |[i, j]| {
            (z.at([i, j]) + below.at([i, j]) * 2.0).max(-8.0).min(7.0)
        })?;
    }
    let product = |layer| format!("z{layer} with x{layer}: a product of 9×12×12, f32 × f32");
    assert_eq!(checked(&[&x]), format!("3 kernels: {}; then {}; then {}", product(0), product(1), product(2)));
    // Halves that a cast has rounded are kept too; a reduction reads them, and one of another product joins.
    let f16 = ElementType::F16;
    let (a, w) = (placeholder_of(f16, [9, 12], "a"), placeholder_of(f16, [12, 12], "w"));
    let z = product_of(&a, &w, "z", DType::F32)?;
    let h = te::compute([9, 12], "h", |[i, j]| (z.at([i, j]) * 0.25).cast(f16))?;
    let y = product_of(&h, &w, "y", DType::F32)?;
    let k = te::reduce_axis((0, 12), "k");
    let most = te::compute([9], "most", |[i]| te::max(h.at([i, k]).cast(DType::F32), [k]))?;
    let out = te::compute([9, 12], "out", |[i, j]| y.at([i, j]) + h.at([i, j]).cast(DType::F32) - most.at([i]))?;
    assert_eq!(
        checked(&[&out]),
        "2 kernels: z with most, h: a product of 9×12×12, f16 × f16; then y with out: a product of 9×12×12, f16 × f16"
    );
    Ok(())
}

#[test]
fn factors_that_are_computed_are_stored_first() -> Result<(), TeError> {
    let (a, b) = two(9, 20, 12);
    let k = te::reduce_axis((0, 12), "k");
    let z = te::compute([9, 20], "z", |[i, j]| te::sum(a.at([i, k]).max(0.0) * b.at([k, j]), [k]))?;
    let choice = checked(&[&z]);
    assert!(choice.ends_with("; then z: a product of 9×20×12, f32 × f32"), "{choice}");
    Ok(())
}

#[test]
fn contractions_that_are_no_products_say_why() -> Result<(), TeError> {
    let (a, b) = two(6, 5, 12);
    let k = te::reduce_axis((0, 12), "k");
    let far = te::compute([6, 5], "far", |[i, j]| {
        let apart = a.at([i, k]) - b.at([k, j]);
        te::sum(&apart * &apart, [k])
    })?;
    let least = te::compute([6, 5], "least", |[i, j]| te::min(a.at([i, k]) + b.at([k, j]), [k]))?;
    let choice = checked(&[&far, &least]);
    assert!(choice.contains("\nfar is no product: a factor has no axis of the result to itself"), "{choice}");
    assert!(choice.contains("\nleast is no product: it is no sum that starts from 0"), "{choice}");
    let z = product_of(&a, &b, "z", DType::F32)?;
    let device = Device::cpu();
    let exact = build(&[&z])?.order(Order::Exact).build(&device)?;
    let (_, choice) = run(&exact, &device, &[]);
    assert!(choice.contains("\nz is no product: the order is `Exact`"), "{choice}");
    Ok(())
}

/// A scan computes its steps itself: a product of its state stays in it, and says so. One that needs no state is outside.
#[test]
fn products_inside_of_scans_say_why() -> Result<(), TeError> {
    let (x, w, v) = (te::placeholder([4, 3, 5], "x"), te::placeholder([6, 5], "w"), te::placeholder([6, 6], "v"));
    let (k, c) = (te::reduce_axis((0, 5), "k"), te::reduce_axis((0, 6), "c"));
    let given = te::compute([4, 3, 6], "given", |[t, i, j]| te::sum(x.at([t, i, k]) * w.at([j, k]), [k]))?;
    let state = te::placeholder([4, 3, 6], "state");
    let init = te::compute([1, 3, 6], "init", |[t, i, j]| given.at([t, i, j]).max(-1.0).min(1.0))?;
    let mixed = te::compute([4, 3, 6], "mixed", |[t, i, j]| {
        te::sum(state.at([t - 1, i.into(), c.into()]) * v.at([j, c]), [c])
    })?;
    let update =
        te::compute([4, 3, 6], "update", |[t, i, j]| (mixed.at([t, i, j]) + given.at([t, i, j])).max(-1.0).min(1.0))?;
    let states = te::scan(&init, &update, &state, &[x.clone(), w.clone(), v.clone()])?;
    let choice = checked(&[&states]);
    let reason = "is no product: it is part of a scan, whose steps are kernels of their own";
    assert!(choice.contains(&format!("\nmixed {reason}")), "{choice}");
    assert!(choice.contains(&format!("\ngiven {reason}")), "{choice}");
    // What no step needs is a tensor that the scan is given.
    let z = te::compute([4, 3, 6], "z", |[t, i, j]| te::sum(x.at([t, i, k]) * w.at([j, k]), [k]))?;
    assert_eq!(checked(&[&z]), "z: a product of 12×6×5, f32 × f32");
    let refused = build(&[&states])?.require(&mixed).build(&Device::cpu()).unwrap_err().to_string();
    assert!(refused.starts_with("mixed must be a product: it is part of a scan"), "{refused}");
    Ok(())
}

#[test]
fn a_sum_over_nothing_is_its_start() -> Result<(), TeError> {
    let (a, b) = two(6, 5, 0);
    let (k, bias) = (te::reduce_axis((0, 0), "k"), te::placeholder([5], "bias"));
    let z =
        te::compute([6, 5], "z", |[i, j]| te::sum_reducer().over_from(a.at([i, k]) * b.at([k, j]), [k], bias.at([j])))?;
    assert_eq!(checked(&[&z]), "z: a product of 6×5×0, f32 × f32");
    let (a, b) = two(0, 5, 3);
    assert_eq!(checked(&[&product_of(&a, &b, "z", DType::F32)?]), "z: a product of 0×5×3, f32 × f32");
    Ok(())
}

#[test]
fn a_run_whose_tensors_no_product_takes_has_te_s_kernels() -> Result<(), TeError> {
    let (x, w) = (te::placeholder([3, 5, 12], "x"), te::placeholder([12, 8], "w"));
    let k = te::reduce_axis((0, 12), "k");
    let z = te::compute([3, 5, 8], "z", |[b, t, j]| te::sum(x.at([b, t, k]) * w.at([k, j]), [k]))?;
    let y = te::compute([3, 5, 8], "y", |[b, t, j]| z.at([b, t, j]) + 1.0)?;
    let device = Device::cpu();
    let apart = values(&device, ElementType::F32, &[5, 3, 12], 1).permute(&[1, 0, 2])?;
    let choice = checked_on(&device, &[&y], &[(&x, &apart)]);
    assert!(
        choice.starts_with("z with y: no product, because x has axes that don't lie one after another"),
        "{choice}"
    );
    Ok(())
}

#[test]
fn an_emulated_gpu_has_the_same_products() -> Result<(), TeError> {
    if testing::compiler("an_emulated_gpu_has_the_same_products").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let (a, w) = (placeholder_of(ElementType::F16, [9, 16], "a"), placeholder_of(ElementType::F16, [20, 16], "w"));
    let (bias, k) = (te::placeholder([20], "bias"), te::reduce_axis((0, 16), "k"));
    let f32 = ElementType::F32;
    let z = te::compute([9, 20], "z", |[i, j]| te::sum(a.at([i, k]).cast(f32) * w.at([j, k]).cast(f32), [k]))?;
    let y = te::compute([9, 20], "y", |[i, j]| ops::relu(z.at([i, j]) + bias.at([j])).cast(ElementType::F16))?;
    let c = te::reduce_axis((0, 20), "c");
    let sums = te::compute([9], "sums", |[i]| te::sum(z.at([i, c]), [c]))?;
    let less = te::compute([9, 20], "less", |[i, j]| z.at([i, j]) - sums.at([i]))?;
    let choice = checked_on(&device, &[&y, &less], &[]);
    assert_eq!(choice, "z with sums, y, less: a product of 9×20×16, f16 × f16");
    Ok(())
}

/// Sizes of a run: the mean of rows, a softmax, and a plan for each class of extents.
#[test]
fn sizes_may_be_known_at_the_run() -> Result<(), TeError> {
    let (m, n, k) = (te::var("m"), te::var("n"), te::var("k"));
    let (a, b, c) = (te::placeholder([m, k], "a"), te::placeholder([k, n], "b"), te::reduce_axis((0, n), "c"));
    let z = product_of(&a, &b, "z", DType::F32)?;
    let sums = te::compute([m], "sums", |[i]| te::sum(z.at([i, c]), [c]))?;
    let apart =
        te::compute([m, n], "apart", |[i, j]| z.at([i, j]) - sums.at([i]) / Expr::from(n).cast(ElementType::F32))?;
    let softmax = te::ops::softmax(&z, 1)?;
    let device = Device::cpu();
    let fused = build(&[&apart, &softmax])?.build(&device)?;
    let own = auto::build(&[&apart, &softmax])?.build(&device)?;
    for [rows, columns, depth] in [[3, 8, 5], [40, 16, 70], [1, 1, 1]] {
        let at = values(&device, ElementType::F32, &[rows, depth], 1);
        let bt = values(&device, ElementType::F32, &[depth, columns], 2);
        let results = [&fused, &own].map(|kernel| {
            let [mut x, mut y] = [0, 1].map(|_| device.zeros::<f32>([rows, columns]).expect("memory"));
            let arguments: [(&Tensor, Argument<'_>); 4] =
                [(&a, (&at).into()), (&b, (&bt).into()), (&apart, (&mut x).into()), (&softmax, (&mut y).into())];
            kernel.run_bound(&arguments).expect("a run");
            [x, y].map(|tensor| tensor.to_vec::<f32>().expect("values"))
        });
        let [[x, y], [own_x, own_y]] = &results;
        assert_eq!(x, own_x, "{}", fused.choice());
        assert!(y.iter().zip(own_y).all(|(y, own)| (y - own).abs() <= 1e-5), "{y:?} {own_y:?}");
        let (choice, shape) = (fused.choice(), format!("a product of {rows}×{columns}×{depth}, f32 × f32"));
        assert!(choice.starts_with("z with sums, ") && choice.ends_with(&shape), "{choice}");
    }
    Ok(())
}
