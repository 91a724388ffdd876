//! Windows of images and picked rows, which a product reads where they lie.

use super::{checked, checked_on, values};
use crate::te::ops::{self as te_ops, Convolution};
use crate::te::{self, DType, Expr, TeError, Tensor, placeholder_of};
use crate::{Arch, Argument, Device, DeviceTensor, ElementType, ops};
use epilogue_runtime::testing;

fn last(image: [i32; 4], filter: [i32; 4]) -> (Tensor, Tensor) {
    (te::placeholder(image, "image"), te::placeholder(filter, "filter"))
}

#[test]
fn convolutions_read_images_where_they_lie() -> Result<(), TeError> {
    let (image, filter) = last([2, 6, 7, 3], [4, 2, 3, 3]);
    let plain = Convolution::new().channels_last();
    for (convolution, rows) in [
        (plain, 50),
        (plain.padding([1, 2]), 2 * 7 * 9),
        (plain.stride([2, 1]).padding([1, 0]), 2 * 4 * 5),
        (plain.dilation([3, 2]).padding_around([(0, 1), (2, 0)]), 2 * 4 * 5),
        (plain.stride([4, 5]), 2 * 2),
    ] {
        let y = te_ops::conv2d(&image, &filter, convolution)?;
        assert_eq!(checked(&[&y]), format!("conv2d: a convolution, as a product of {rows}×4×18, f32 × f32"));
    }
    // One axis and three, with what is computed with them.
    let (image, filter) = (te::placeholder([2, 9, 5], "image"), te::placeholder([6, 3, 5], "filter"));
    let z = te_ops::conv1d(&image, &filter, Convolution::new().channels_last().padding([1]).stride([2]))?;
    let bias = te::placeholder([6], "bias");
    let y = te::compute([2, 5, 6], "y", |[n, i, f]| ops::relu(z.at([n, i, f]) + bias.at([f])))?;
    assert_eq!(checked(&[&y]), "conv1d with y: a convolution, as a product of 10×6×15, f32 × f32");
    let (image, filter) = (te::placeholder([1, 4, 5, 3, 2], "image"), te::placeholder([3, 2, 2, 2, 2], "filter"));
    let y = te_ops::conv3d(&image, &filter, Convolution::new().channels_last().padding([1, 0, 1]))?;
    assert_eq!(checked(&[&y]), "conv3d: a convolution, as a product of 80×3×16, f32 × f32");
    Ok(())
}

#[test]
fn images_with_channels_first_are_copied() -> Result<(), TeError> {
    let (image, filter) = last([2, 3, 6, 7], [4, 3, 2, 3]);
    let choice = checked(&[&te_ops::conv2d(&image, &filter, Convolution::new().padding([1, 1]))?]);
    assert!(choice.starts_with("2 kernels: conv2d_image, conv2d_right: "), "{choice}");
    assert!(choice.ends_with("; then conv2d: a convolution, as a product of 98×4×18, f32 × f32"), "{choice}");
    Ok(())
}

#[test]
fn layers_of_convolutions_are_one_product_each() -> Result<(), TeError> {
    let (image, first) = last([2, 6, 7, 3], [5, 3, 3, 3]);
    let second = te::placeholder([4, 3, 3, 5], "second");
    let same = Convolution::new().channels_last().padding([1, 1]);
    let z = te_ops::conv2d(&image, &first, same)?;
    let h = te::compute([2, 6, 7, 5], "h", |[n, i, j, f]| ops::relu(z.at([n, i, j, f])))?;
    let y = te_ops::conv2d(&h, &second, same)?;
    let choice = checked(&[&y]);
    assert_eq!(
        choice,
        "2 kernels: conv2d with h: a convolution, as a product of 84×5×27, f32 × f32; \
         then conv2d: a convolution, as a product of 84×4×45, f32 × f32"
    );
    Ok(())
}

/// A condition that is no image's edge is part of the numbers: these windows are computed first.
#[test]
fn other_conditions_than_edges_are_kept() -> Result<(), TeError> {
    let (image, filter) = (te::placeholder([1, 9, 2], "image"), te::placeholder([3, 3, 2], "filter"));
    for (first, past) in [(0, 8), (1, 9), (-1, 9), (0, 10)] {
        let (r, c) = (te::reduce_axis((0, 3), "r"), te::reduce_axis((0, 2), "c"));
        let y = te::compute([1, 7, 3], "y", |[n, i, f]| {
            let at = i + r;
            let inside = at.greater_equal(first).and(at.less(past));
            let element = inside.select(image.at([n.into(), at, c.into()]), 0.0);
            te::sum(element * filter.at([f.into(), Expr::from(r), c.into()]), [r, c])
        })?;
        let choice = checked(&[&y]);
        assert!(choice.ends_with("; then y: a product of 7×3×6, f32 × f32"), "{choice}");
    }
    Ok(())
}

#[test]
fn picked_rows_are_not_copied() -> Result<(), TeError> {
    let (a, b) = (te::placeholder([9, 12], "a"), te::placeholder([12, 20], "b"));
    let index = placeholder_of(ElementType::I32, [2, 3], "index");
    let device = Device::cpu();
    let rows = device.tensor(&[8i32, 0, 3, 3, 1, 7], [2, 3])?;
    let k = te::reduce_axis((0, 12), "k");
    let z = te::compute([2, 3, 20], "z", |[s, t, j]| te::sum(a.at([index.at([s, t]), k.into()]) * b.at([k, j]), [k]))?;
    let y = te::compute([2, 3, 20], "y", |[s, t, j]| z.at([s, t, j]) + 1.0)?;
    let choice = checked_on(&device, &[&y], &[(&index, &rows)]);
    assert_eq!(choice, "z with y: a product of picked rows of 6×20×12, f32 × f32");
    // An index that is computed is stored first.
    let z = te::compute([2, 3, 20], "z", |[s, t, j]| {
        te::sum(a.at([index.at([s, t]).max(2).min(7), k.into()]) * b.at([k, j]), [k])
    })?;
    let choice = checked_on(&device, &[&z], &[(&index, &rows)]);
    assert!(choice.ends_with("; then z: a product of picked rows of 6×20×12, f32 × f32"), "{choice}");
    // A matrix whose columns are picked is copied.
    let a = te::placeholder([12, 9], "a");
    let z = te::compute([2, 3, 20], "z", |[s, t, j]| te::sum(a.at([k.into(), index.at([s, t])]) * b.at([k, j]), [k]))?;
    let choice = checked_on(&device, &[&z], &[(&index, &rows)]);
    assert!(choice.ends_with("; then z: a product of 6×20×12, f32 × f32"), "{choice}");
    Ok(())
}

/// An index that is no row's is reported as te's own kernels report it, and the next run is right.
#[test]
fn a_wrong_index_is_reported() -> Result<(), TeError> {
    let (a, b) = (te::placeholder([4, 3], "a"), te::placeholder([3, 2], "b"));
    let (index, k) = (placeholder_of(ElementType::I32, [2], "index"), te::reduce_axis((0, 3), "k"));
    let z = te::compute([2, 2], "z", |[i, j]| te::sum(a.at([index.at([i]), k.into()]) * b.at([k, j]), [k]))?;
    let device = Device::cpu();
    let (fused, own) = (super::build(&[&z])?.build(&device)?, te::auto::build(&[&z])?.build(&device)?);
    let (at, bt) = (values(&device, ElementType::F32, &[4, 3], 1), values(&device, ElementType::F32, &[3, 2], 2));
    let mut rows = device.tensor(&[1i32, 4], [2])?;
    let mut results = Vec::new();
    for kernel in [&fused, &own] {
        let mut zs = device.zeros::<f32>([2, 2])?;
        let run = |rows: &DeviceTensor, zs: &mut DeviceTensor| {
            kernel.run_bound(&[(&a, (&at).into()), (&b, (&bt).into()), (&index, Argument::from(rows)), (&z, zs.into())])
        };
        rows.copy_from(&[1i32, 4])?;
        let error = run(&rows, &mut zs).map(|()| zs.to_vec::<f32>()).map_err(|error| error.to_string());
        let error = error.and_then(|values| values.map_err(|error| error.to_string()).map(|_| ()));
        rows.copy_from(&[1i32, 3])?;
        run(&rows, &mut zs)?;
        results.push((error.unwrap_err(), zs.to_vec::<f32>()?));
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(fused.choice(), "z: a product of picked rows of 2×2×3, f32 × f32");
    Ok(())
}

/// Windows and picked rows of tensors that lie as no product reads them: te's own kernels read them in the same way.
#[test]
fn windows_and_picked_rows_have_te_s_kernels() -> Result<(), TeError> {
    let device = Device::cpu();
    // Two axes of channels that don't lie one after another.
    let (image, filter) = (te::placeholder([2, 6, 3, 4], "image"), te::placeholder([5, 3, 3, 4], "filter"));
    let [r, c, d] = [("r", 3), ("c", 3), ("d", 4)].map(|(name, extent)| te::reduce_axis((0, extent), name));
    let z = te::compute([2, 6, 5], "z", |[n, i, f]| {
        let at = i + r - 1;
        let inside = at.greater_equal(0).and(at.less(6));
        let element = inside.select(image.at([n.into(), at, c.into(), d.into()]), 0.0);
        te::sum(element * filter.at([f.into(), Expr::from(r), c.into(), d.into()]), [r, c, d])
    })?;
    let y = te::compute([2, 6, 5], "y", |[n, i, f]| z.at([n, i, f]) + 1.0)?;
    assert_eq!(checked(&[&y]), "z with y: a convolution, as a product of 12×5×36, f32 × f32");
    let apart = values(&device, ElementType::F32, &[2, 6, 4, 3], 1).permute(&[0, 1, 3, 2])?;
    let choice = checked_on(&device, &[&y], &[(&image, &apart)]);
    assert!(choice.starts_with("z with y: no product, because "), "{choice}");

    // Rows of two axes, and an index whose axes are exchanged.
    let (a, b) = (te::placeholder([9, 3, 4], "a"), te::placeholder([3, 4, 5], "b"));
    let index = placeholder_of(ElementType::I32, [2, 3], "index");
    let z = te::compute([2, 3, 5], "z", |[s, t, j]| {
        te::sum(a.at([index.at([s, t]), c.into(), d.into()]) * b.at([c, d, j]), [c, d])
    })?;
    let exchanged = device.tensor(&[8i32, 0, 3, 3, 1, 7], [3, 2])?.permute(&[1, 0])?;
    let choice = checked_on(&device, &[&z], &[(&index, &exchanged)]);
    assert!(choice.starts_with("z: no product, because "), "{choice}");
    let rows = device.tensor(&[8i32, 0, 3, 3, 1, 7], [2, 3])?;
    let choice = checked_on(&device, &[&z], &[(&index, &rows)]);
    assert_eq!(choice, "z: a product of picked rows of 6×5×12, f32 × f32");
    let apart = values(&device, ElementType::F32, &[9, 4, 3], 1).permute(&[0, 2, 1])?;
    let choice = checked_on(&device, &[&z], &[(&index, &rows), (&a, &apart)]);
    assert!(choice.starts_with("z: no product, because "), "{choice}");
    // An index that is no row's is an error there, too.
    let kernel = super::build(&[&z])?.build(&device)?;
    let (rows, bs) = (device.tensor(&[9i32; 6], [2, 3])?, values(&device, ElementType::F32, &[3, 4, 5], 2));
    let mut zs = device.zeros::<f32>([2, 3, 5])?;
    let run = kernel.run_bound(&[
        (&a, (&apart).into()),
        (&b, (&bs).into()),
        (&index, Argument::from(&rows)),
        (&z, (&mut zs).into()),
    ]);
    assert!(run.is_err() || zs.to_vec::<f32>().is_err());

    // An image without elements under the window: only zeros.
    let (width, two) = (te::var("width"), Expr::from(2));
    let (image, filter) = (te::placeholder([two.clone(), width.into(), two], "image"), te::placeholder([3, 3, 2], "w"));
    let z = te_ops::conv1d(&image, &filter, Convolution::new().channels_last().padding([2]))?;
    let kernel = super::build(&[&z])?.build(&device)?;
    let (none, weights) = (device.zeros::<f32>([2, 0, 2])?, values(&device, ElementType::F32, &[3, 3, 2], 3));
    let mut zs = device.full::<f32>([2, 2, 3], 7.0)?;
    kernel.run_bound(&[(&image, (&none).into()), (&filter, (&weights).into()), (&z, (&mut zs).into())])?;
    assert_eq!(zs.to_vec::<f32>()?, [0.0; 12]);
    let choice = kernel.choice();
    assert!(
        choice.starts_with("conv1d: no product, because image has no element under some of the window"),
        "{choice}"
    );
    Ok(())
}

#[test]
fn an_emulated_gpu_reads_windows_and_picked_rows() -> Result<(), TeError> {
    if testing::compiler("an_emulated_gpu_reads_windows_and_picked_rows").is_none() {
        return Ok(());
    }
    let f16 = ElementType::F16;
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        let (image, filter) =
            (placeholder_of(f16, [1, 5, 6, 16], "image"), placeholder_of(f16, [8, 3, 3, 16], "filter"));
        let y = te_ops::conv2d(&image, &filter, Convolution::new().channels_last().padding([1, 1]))?;
        let choice = checked_on(&device, &[&y], &[]);
        assert!(choice.starts_with("conv2d: a convolution, as a product of 30×8×144, f16 × f16"), "{choice}");
        let (a, b) = (placeholder_of(f16, [9, 16], "a"), placeholder_of(f16, [16, 8], "b"));
        let (index, k) = (placeholder_of(ElementType::I32, [6], "index"), te::reduce_axis((0, 16), "k"));
        let rows = device.tensor(&[8i32, 0, 3, 3, 1, 7], [6])?;
        let z = te::compute([6, 8], "z", |[i, j]| {
            let [x, y] = [a.at([index.at([i]), k.into()]), b.at([k, j])].map(|x| x.cast(DType::F32));
            te::sum(x * y, [k])
        })?;
        let choice = checked_on(&device, &[&z], &[(&index, &rows)]);
        assert_eq!(choice, "z: a product of picked rows of 6×8×16, f16 × f16");
    }
    Ok(())
}

/// Images whose extents a run gives, and one that the window only reaches with its zeros.
#[test]
fn images_of_any_extent_are_read() -> Result<(), TeError> {
    let (batch, height, width) = (te::var("batch"), te::var("height"), te::var("width"));
    let image = te::placeholder([batch.into(), height.into(), width.into(), Expr::from(2)], "image");
    let filter = te::placeholder([3, 3, 3, 2], "filter");
    let y = te_ops::conv2d(&image, &filter, Convolution::new().channels_last().padding([1, 1]).stride([2, 2]))?;
    let device = Device::cpu();
    let (fused, own) = (super::build(&[&y])?.build(&device)?, te::auto::build(&[&y])?.build(&device)?);
    let weights = values(&device, ElementType::F32, &[3, 3, 3, 2], 3);
    for [batch, height, width] in [[2, 5, 6], [1, 1, 1], [2, 12, 3], [0, 5, 6]] {
        let pixels = values(&device, ElementType::F32, &[batch, height, width, 2], 4);
        let shape = [batch, height.div_ceil(2), width.div_ceil(2), 3];
        let results = [&fused, &own].map(|kernel| {
            let mut ys = device.zeros::<f32>(shape).expect("memory");
            let arguments = [(&image, (&pixels).into()), (&filter, (&weights).into()), (&y, (&mut ys).into())];
            kernel.run_bound(&arguments).expect("a run");
            ys.to_vec::<f32>().expect("values")
        });
        assert_eq!(results[0], results[1]);
        let rows = shape[..3].iter().product::<usize>();
        assert_eq!(fused.choice(), format!("conv2d: a convolution, as a product of {rows}×3×18, f32 × f32"));
    }
    Ok(())
}
