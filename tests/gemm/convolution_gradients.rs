//! Gradients of convolutions made by hand, beside plain loops.

use epilogue::evt::reference::decode;
use epilogue::gemm::{
    Builder, Left, SplitK, Tile, Window, filter, gradient_filter, gradient_filter_in_groups, gradient_patches, patches,
    transposed_patches,
};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;

use crate::convolution::{Shape, hard_cases, integers, tensor};

/// The gradient of what was before an activation, and statistics of every kind.
#[epilogue]
pub(crate) fn backward(
    accum: Accum,
    slope: Tensor<f32>,
    scale: RowVector<f32>,
    weight: ColumnVector<f32>,
) -> (Tensor<f32>, RowVector<f32>, ColumnVector<f32>) {
    let d = accum * slope * scale + weight;
    let sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, Row, Max);
    (d, sums, largest)
}

#[epilogue]
pub(crate) fn plain(accum: Accum) -> Tensor<f32> {
    let y = accum;
    y
}

impl Shape {
    /// The window and, of three axes or fewer, the operands.
    fn with_window<R>(
        &self,
        one: impl Fn(Window<1>) -> R,
        two: impl Fn(Window<2>) -> R,
        three: impl Fn(Window<3>) -> R,
    ) -> R {
        match self.size.len() {
            1 => one(self.window::<1>()),
            2 => two(self.window::<2>()),
            _ => three(self.window::<3>()),
        }
    }

    pub(crate) fn of_gradient<'a>(&self, dy: &'a DeviceTensor) -> Left<'a> {
        fn of<const AXES: usize>(shape: &Shape) -> [usize; AXES] {
            shape.inputs[..].try_into().expect("as many axes")
        }
        self.with_window(
            |window| gradient_patches(dy, window, of(self)),
            |window| gradient_patches(dy, window, of(self)),
            |window| gradient_patches(dy, window, of(self)),
        )
    }

    pub(crate) fn transposed<'a>(&self, x: &'a DeviceTensor) -> Left<'a> {
        self.with_window(
            |window| transposed_patches(x, window),
            |window| transposed_patches(x, window),
            |window| transposed_patches(x, window),
        )
    }

    /// The shape of a tensor with a value for each element of a filter.
    pub(crate) fn of_patch(&self) -> Vec<usize> {
        [&self.size[..], &[self.channels / self.groups]].concat()
    }

    /// Calls `each` with the places of an element of the images, of an output's, and of the filters' that it is multiplied by.
    fn each_product(&self, mut each: impl FnMut(usize, usize, usize)) {
        let outputs = self.outputs();
        let (of_image, taps): (usize, usize) = (outputs.iter().product(), self.size.iter().product());
        let digits = |mut number: usize, extents: &[usize]| {
            let mut digits: Vec<usize> = extents.iter().rev().map(|e| (number % e, number /= e).0).collect();
            digits.reverse();
            digits
        };
        for image in 0..self.images {
            for output in 0..of_image {
                let p = digits(output, &outputs);
                for tap in 0..taps {
                    let r = digits(tap, &self.size);
                    let at =
                        |i: usize| (p[i] * self.stride[i] + r[i] * self.dilation[i]).checked_sub(self.padding[i].0);
                    let at: Option<Vec<usize>> = (0..r.len()).map(at).collect();
                    let Some(at) = at.filter(|at| at.iter().zip(&self.inputs).all(|(at, extent)| at < extent)) else {
                        continue;
                    };
                    let pixel = at.iter().zip(&self.inputs).fold(image, |pixel, (at, extent)| pixel * extent + at);
                    let (channels, filters) = (self.channels / self.groups, self.filters / self.groups);
                    for c in 0..channels {
                        for k in 0..self.filters {
                            let y = (image * of_image + output) * self.filters + k;
                            let x = pixel * self.channels + k / filters * channels + c;
                            each(x, y, (k * taps + tap) * channels + c);
                        }
                    }
                }
            }
        }
    }
}

/// Which gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Images,
    Filters,
}

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// A gradient with the epilogue, whose results are those of loops, bit for bit.
pub(crate) fn check(
    device: &Device,
    of: Of,
    element: ElementType,
    shape: &Shape,
    request: impl Fn(Builder<Backward>) -> Builder<Backward>,
) -> Result<(), Error> {
    let least = if element == ElementType::U8 { 0.0 } else { -2.0 };
    let (x, w) = (integers(count(&shape.of_x()), 1, least, 5), integers(count(&shape.of_w()), 2, least, 4));
    let dy = integers(count(&shape.of_y()), 5, least, 5);
    let gradient = tensor(device, element, &shape.of_y(), &dy)?;
    let (images, filters) = (tensor(device, element, &shape.of_x(), &x)?, tensor(device, element, &shape.of_w(), &w)?);
    let mirrored = match shape.groups {
        1 => gradient_filter(&filters)?,
        groups => gradient_filter_in_groups(&filters, groups)?,
    };
    let (of_rows, of_d, n) = match of {
        Of::Images => (shape.of_x()[..shape.of_x().len() - 1].to_vec(), shape.of_x(), shape.channels),
        Of::Filters => (shape.of_patch(), shape.of_w(), shape.filters),
    };
    let m = count(&of_rows);
    // D's element of a row and a column.
    let place = |row: usize, column: usize| if of == Of::Images { row * n + column } else { column * m + row };

    let slopes: Vec<f64> = (0..m * n).map(|i| [1.0, 0.0, -2.0][i % 3]).collect();
    let (scales, weights) = (integers(n, 3, -2.0, 5), integers(m, 4, -5.0, 11));
    let slope = tensor(device, ElementType::F32, &of_d, &slopes)?;
    let scale = tensor(device, ElementType::F32, &[n], &scales)?;
    let weight = tensor(device, ElementType::F32, &of_rows, &weights)?;
    let mut d = device.full::<f32>(&of_d, f32::NAN)?;
    let mut sums = device.full::<f32>([n], f32::NAN)?;
    let of_largest = match of {
        _ if shape.groups == 1 => of_rows.clone(),
        Of::Images => [&of_rows[..], &[shape.groups]].concat(),
        Of::Filters => [&[shape.groups], &of_rows[..]].concat(),
    };
    let mut largest = device.full::<f32>(&of_largest, f32::NAN)?;
    let (slope, scale, weight) = (&slope, &scale, &weight);

    let gemm = match of {
        Of::Images => Gemm::builder::<Backward>(device).operands(shape.of_gradient(&gradient), &mirrored)?,
        Of::Filters => Gemm::builder::<Backward>(device).operands(shape.transposed(&images), &gradient)?,
    };
    let gemm = request(gemm).plan()?;
    let arguments = Backward { slope, scale, weight, d: &mut d, sums: &mut sums, largest: &mut largest };
    let reference = match of {
        Of::Images => gemm.reference(shape.of_gradient(&gradient), &mirrored, arguments)?,
        Of::Filters => gemm.reference(shape.transposed(&images), &gradient, arguments)?,
    };
    let arguments = Backward { slope, scale, weight, d: &mut d, sums: &mut sums, largest: &mut largest };
    match of {
        Of::Images => gemm.run(shape.of_gradient(&gradient), &mirrored, arguments)?,
        Of::Filters => gemm.run(shape.transposed(&images), &gradient, arguments)?,
    }

    let mut expected = vec![0.0; m * n];
    shape.each_product(|in_x, in_y, in_w| match of {
        Of::Images => expected[in_x] += dy[in_y] * w[in_w],
        Of::Filters => expected[in_w] += dy[in_y] * x[in_x],
    });
    for (row, weight) in weights.iter().enumerate() {
        for (column, scale) in scales.iter().enumerate() {
            let at = place(row, column);
            expected[at] = expected[at] * slopes[at] * scale + weight;
        }
    }
    let got = |of: &DeviceTensor| Ok::<_, Error>(decode(ElementType::F32, &of.to_bytes()?));
    let said = format!("{of:?} of {shape:?} of {element} on {device}: {}", gemm.choice());
    assert_eq!(got(&d)?, expected, "{said}");
    let column = |column: usize| (0..m).map(|row| expected[place(row, column)]).sum::<f64>();
    assert_eq!(got(&sums)?, (0..n).map(column).collect::<Vec<_>>(), "{said}");
    let of_group = n / shape.groups;
    let row = |row: usize, group: usize| {
        let columns = group * of_group..(group + 1) * of_group;
        columns.map(|column| expected[place(row, column)]).fold(f64::NEG_INFINITY, f64::max)
    };
    let rows: Vec<f64> = match of {
        Of::Images => (0..m).flat_map(|r| (0..shape.groups).map(move |g| row(r, g))).collect(),
        Of::Filters => (0..shape.groups).flat_map(|g| (0..m).map(move |r| row(r, g))).collect(),
    };
    assert_eq!(got(&largest)?, rows, "{said}");
    for (name, of) in [("d", &d), ("sums", &sums), ("largest", &largest)] {
        reference.compare(name, of)?.check()?;
    }
    Ok(())
}

/// The cases of convolutions, and cases that are easily done wrong in gradients only.
pub(crate) fn cases() -> Vec<Shape> {
    let mut cases = hard_cases();
    cases.extend([
        // Strides beyond the filter: elements that no output has. And as the outputs end before the image does.
        Shape { stride: vec![3, 4], ..Shape::of([8, 9], 8, 8, [2, 2]) },
        Shape { stride: vec![5, 2], padding: vec![(1, 0), (2, 3)], ..Shape::of([7, 10], 3, 16, [3, 3]) },
        // Strides and dilations with common divisors, and without.
        Shape {
            stride: vec![4, 6],
            dilation: vec![6, 4],
            padding: vec![(7, 5), (6, 9)],
            ..Shape::of([13, 11], 4, 5, [3, 3])
        },
        Shape { stride: vec![2], dilation: vec![3], padding: vec![(4, 4)], ..Shape::of([21], 8, 24, [5]) },
        // More padding than the filter's reach, with stride: the window never has the first outputs' elements.
        Shape { stride: vec![2, 2], padding: vec![(5, 6), (3, 4)], ..Shape::of([4, 5], 8, 8, [1, 2]) },
        Shape { stride: vec![9, 1], ..Shape::of([3, 4], 8, 8, [2, 2]) },
    ]);
    cases
}

#[test]
fn cases_on_the_cpu() -> Result<(), Error> {
    use ElementType::{BF16, F16, F32, F64, I8, U8};
    let device = Device::cpu();
    for shape in cases() {
        for element in testing::some_of([F32, BF16, F16, U8, I8, F64]) {
            for of in [Of::Images, Of::Filters] {
                check(&device, of, element, &shape, |builder| builder)?;
            }
        }
    }
    // Several tiles and parts of K, and more rows than the CPU gathers at once.
    let large = Shape { images: 1, padding: vec![(1, 1); 2], ..Shape::of([13, 12], 64, 70, [3, 3]) };
    for element in [F32, BF16, I8] {
        for stride in [1, 2] {
            for of in [Of::Images, Of::Filters] {
                check(&device, of, element, &Shape { stride: vec![stride; 2], ..large.clone() }, |builder| builder)?;
            }
        }
    }
    let long = Shape { images: 9, padding: vec![(1, 1); 2], ..Shape::of([13, 12], 5, 6, [3, 3]) };
    check(&device, Of::Filters, F32, &long, |builder| builder)
}

#[test]
fn cases_on_emulated_devices() -> Result<(), Error> {
    use ElementType::{BF16, F16, F32, F64, I8};
    if testing::compiler("convolution_gradients::cases_on_emulated_devices").is_none() {
        return Ok(());
    }
    let options = Options::default().detector(Detector::On).completion(Completion::Lazy);
    let device = Device::emulated_with(Arch::SM_80, options.clone())?;
    for shape in testing::some_of(cases()) {
        for of in [Of::Images, Of::Filters] {
            check(&device, of, F16, &shape, |builder| builder)?;
        }
    }
    // Every width of copies, of other elements.
    for (element, channels) in [(F32, [3, 2, 4]), (BF16, [5, 6, 4]), (I8, [3, 12, 24]), (F64, [1, 2, 3])] {
        for (channels, of) in channels.into_iter().zip([Of::Images, Of::Filters, Of::Images]) {
            let shape =
                Shape { padding: vec![(1, 1); 2], stride: vec![2, 1], ..Shape::of([5, 4], channels, channels, [3, 2]) };
            check(&device, of, element, &shape, |builder| builder)?;
        }
    }
    // The kernels' family serves Hopper, too.
    let hopper = Device::emulated_with(Arch::SM_90A, options)?;
    for (of, shape) in [(Of::Images, 0), (Of::Images, 2), (Of::Filters, 2)] {
        check(&hopper, of, F16, &cases()[shape], |builder| builder)?;
    }
    Ok(())
}

/// Splits of K, which is long in gradients of filters, stages, the largest tile, and several tiles by one block.
#[test]
fn on_every_way_of_sharing_k() -> Result<(), Error> {
    use ElementType::F16;
    if testing::compiler("convolution_gradients::on_every_way_of_sharing_k").is_none() {
        return Ok(());
    }
    let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(5);
    let device = Device::emulated_with(Arch::SM_80, options)?;
    let tiles = Tile::all(epilogue::gemm::Instruction::MmaF16);
    let small = *tiles.last().expect("a tile");
    let shape = Shape { images: 5, padding: vec![(1, 1); 2], stride: vec![1, 2], ..Shape::of([6, 7], 16, 40, [3, 3]) };
    for of in [Of::Images, Of::Filters] {
        for split_k in testing::some_of([SplitK::Serial(3), SplitK::Parallel(2), SplitK::Stream]) {
            check(&device, of, F16, &shape, |builder| builder.tile(small).split_k(split_k))?;
        }
        check(&device, of, F16, &shape, |builder| builder.tile(tiles[0]))?;
        let in_groups = Shape { groups: 4, ..shape.clone() };
        for split_k in [SplitK::Serial(2), SplitK::Stream] {
            check(&device, of, F16, &in_groups, |builder| builder.tile(small).split_k(split_k))?;
        }
        check(&device, of, F16, &Shape { channels: 3, filters: 5, ..shape.clone() }, |builder| builder.tile(tiles[4]))?;
    }
    Ok(())
}

/// One plan computes a convolution and both of its gradients, whatever the window.
#[test]
fn one_plan_runs_them_all() -> Result<(), Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler("convolution_gradients::one_plan_runs_them_all").is_some() {
        devices.extend([Device::emulated(Arch::SM_80)?, Device::emulated(Arch::SM_90A)?]);
    }
    for device in devices {
        let of =
            |shape: &[usize], seed| tensor(&device, ElementType::F16, shape, &integers(count(shape), seed, -2.0, 5));
        let (x, w, dy) = (of(&[2, 6, 5, 8], 1)?, of(&[8, 3, 3, 8], 2)?, of(&[2, 3, 3, 8], 3)?);
        let window = Window::of([3, 3]).padding([1, 1]).stride([2, 2]);
        let gemm = Gemm::plan::<Plain>(&device, patches(&x, window), &filter(&w)?)?;
        let (mut y, mut dx, mut dw) = (
            device.zeros::<f32>([2, 3, 3, 8])?,
            device.zeros::<f32>([2, 6, 5, 8])?,
            device.zeros::<f32>([8, 3, 3, 8])?,
        );
        let (a, b) = (gradient_patches(&dy, window, [6, 5]), gradient_filter(&w)?);
        gemm.run(patches(&x, window), &filter(&w)?, Plain { y: &mut y })?;
        gemm.run(a, &b, Plain { y: &mut dx })?;
        gemm.run(transposed_patches(&x, window), &dy, Plain { y: &mut dw })?;
        let values = |of: &DeviceTensor| Ok::<_, Error>(decode(of.element_type(), &of.to_bytes()?));
        let product = |one: Vec<f64>, two: Vec<f64>| one.iter().zip(&two).map(|(x, y)| x * y).sum::<f64>();
        // All of small integers, so exact: <dy, y> is linear in x and in w.
        let expected = product(values(&dy)?, values(&y)?);
        assert!(expected != 0.0);
        assert_eq!(product(values(&x)?, values(&dx)?), expected, "{device}");
        assert_eq!(product(values(&w)?, values(&dw)?), expected, "{device}");
        gemm.reference(a, &b, Plain { y: &mut dx })?.compare("y", &dx)?.check()?;
    }
    Ok(())
}

/// The gradients of a loss are its slopes.
#[test]
fn gradients_are_directional_differences() -> Result<(), Error> {
    let device = Device::cpu();
    let shapes = cases().into_iter().filter(|shape| shape.images > 0);
    for (number, shape) in shapes.enumerate() {
        let rough = |shape: &[usize], seed: usize| -> Vec<f64> {
            (0..count(shape)).map(|i| ((i + 31 * seed + number) as f64 * 0.618_034).fract() - 0.5).collect()
        };
        let (x, w) = (rough(&shape.of_x(), 1), rough(&shape.of_w(), 2));
        let (to_x, to_w) = (rough(&shape.of_x(), 3), rough(&shape.of_w(), 4));
        let moved = |of: &[f64], to: &[f64], by: f64| of.iter().zip(to).map(|(x, d)| x + by * d).collect::<Vec<_>>();
        let of = |shape: &[usize], values: &[f64]| tensor(&device, ElementType::F64, shape, values);
        let outputs = |by: [f64; 2]| -> Result<Vec<f64>, Error> {
            let (x, w) = (of(&shape.of_x(), &moved(&x, &to_x, by[0]))?, of(&shape.of_w(), &moved(&w, &to_w, by[1]))?);
            let filter = filter(&w)?;
            let mut y = device.zeros::<f64>(shape.of_y())?;
            let gemm = Gemm::plan::<PlainF64>(&device, shape.left(&x), &filter)?;
            gemm.run(shape.left(&x), &filter, PlainF64 { y: &mut y })?;
            Ok(y.to_vec::<f64>()?)
        };
        let loss = |by| Ok::<f64, Error>(outputs(by)?.iter().map(|y| y * y / 2.0).sum());
        // The gradient of y²/2 is y.
        let dy = of(&shape.of_y(), &outputs([0.0, 0.0])?)?;
        let (images, weights) = (of(&shape.of_x(), &x)?, of(&shape.of_w(), &w)?);
        let mirrored = gradient_filter_in_groups(&weights, shape.groups)?;
        let (mut dx, mut dw) = (device.zeros::<f64>(shape.of_x())?, device.zeros::<f64>(shape.of_w())?);
        Gemm::plan::<PlainF64>(&device, shape.of_gradient(&dy), &mirrored)?.run(
            shape.of_gradient(&dy),
            &mirrored,
            PlainF64 { y: &mut dx },
        )?;
        Gemm::plan::<PlainF64>(&device, shape.transposed(&images), &dy)?.run(
            shape.transposed(&images),
            &dy,
            PlainF64 { y: &mut dw },
        )?;
        for (gradient, to, by) in [(&dx, &to_x, [1.0, 0.0]), (&dw, &to_w, [0.0, 1.0])] {
            // The loss is a square along either, so differences over both sides have no error but rounding.
            let h = 0.125;
            let slope = (loss(by.map(|by| by * h))? - loss(by.map(|by| -by * h))?) / (2.0 * h);
            let given: f64 = gradient.to_vec::<f64>()?.iter().zip(to).map(|(d, to)| d * to).sum();
            assert!((given - slope).abs() <= 1e-10 * (1.0 + slope.abs()), "{shape:?}: {given} {slope}");
        }
    }
    Ok(())
}

#[epilogue(name = PlainF64)]
fn plain_f64(accum: Accum) -> Tensor<f64> {
    let y = accum;
    y
}

/// If a gradient is a product of matrices it is that product: the plan, kernel and bits.
#[test]
fn windows_of_one_element_are_plain_products() -> Result<(), Error> {
    let device = Device::cpu();
    let rough = |shape: &[usize]| {
        let values: Vec<f64> = (0..count(shape)).map(|i| (i as f64 * 0.618_034).fract() - 0.5).collect();
        tensor(&device, ElementType::F32, shape, &values)
    };
    let (x, w, dy) = (rough(&[2, 7, 9, 40])?, rough(&[24, 1, 1, 40])?, rough(&[2, 7, 9, 24])?);
    let window = Window::of([1, 1]);
    let (a, b) = (gradient_patches(&dy, window, [7, 9]), gradient_filter(&w)?);
    let (mut dx, mut dense) = (device.zeros::<f32>([2, 7, 9, 40])?, device.zeros::<f32>([126, 40])?);
    let gemm = Gemm::plan::<Plain>(&device, a, &b)?;
    gemm.run(a, &b, Plain { y: &mut dx })?;
    gemm.run(&dy.reshape([126, 24])?, &w.reshape([24, 40])?, Plain { y: &mut dense })?;
    assert_eq!(dx.to_bytes()?, dense.to_bytes()?);

    let (mut dw, dense) = (device.zeros::<f32>([24, 1, 1, 40])?, device.zeros::<f32>([24, 40])?);
    let a = transposed_patches(&x, window);
    let gemm = Gemm::plan::<Plain>(&device, a, &dy)?;
    gemm.run(a, &dy, Plain { y: &mut dw })?;
    let (x, dy) = (x.reshape([126, 40])?.transpose()?, dy.reshape([126, 24])?);
    gemm.run(&x, &dy, Plain { y: &mut dense.transpose()? })?;
    assert_eq!(dw.to_bytes()?, dense.to_bytes()?);
    assert!(dw.to_vec::<f32>()?.iter().any(|x| *x != 0.0));
    Ok(())
}

/// Infinite elements spread to what they met, and to nothing else; what lies beside a view is never read.
#[test]
fn infinite_elements_stay_where_they_belong() -> Result<(), Error> {
    let emulated = testing::compiler("convolution_gradients::infinite_elements_stay_where_they_belong").is_some();
    let options = Options::default().detector(Detector::On);
    let emulated = emulated.then(|| Device::emulated_with(Arch::SM_80, options)).transpose()?;
    for device in [Device::cpu()].into_iter().chain(emulated) {
        let inside = |shape: [usize; 4]| -> Result<DeviceTensor, Error> {
            let [n, h, w, c] = shape;
            let wide = device.full::<f16>([n + 1, h + 3, w + 2, c + 8], f16::INFINITY)?;
            let mut view = wide.slice(0, 1..n + 1)?.slice(1, 1..h + 1)?.slice(2, 1..w + 1)?.slice(3, 8..c + 8)?;
            view.copy_from(&vec![f16::ONE; n * h * w * c])?;
            Ok(view)
        };
        let window = Window::of([3, 2]).stride([2, 3]).padding([1, 2]);
        let (x, mut dy) = (inside([2, 6, 7, 8])?, inside([2, 3, 4, 8])?);
        let filter = gradient_filter(&device.full::<f16>([8, 3, 2, 8], f16::ONE)?)?;
        let (mut dx, mut dw) = (device.zeros::<f32>([2, 6, 7, 8])?, device.zeros::<f32>([4, 3, 2, 8])?);
        let matrix = device.full::<f16>([2, 3, 4, 4], f16::ONE)?;
        Gemm::plan::<Plain>(&device, transposed_patches(&x, window), &matrix)?.run(
            transposed_patches(&x, window),
            &matrix,
            Plain { y: &mut dw },
        )?;
        assert!(dw.to_vec::<f32>()?.iter().all(|x| x.is_finite() && *x > 0.0));
        let gemm = Gemm::plan::<Plain>(&device, gradient_patches(&dy, window, [6, 7]), &filter)?;
        gemm.run(gradient_patches(&dy, window, [6, 7]), &filter, Plain { y: &mut dx })?;
        assert!(dx.to_vec::<f32>()?.iter().all(|x| x.is_finite()));
        // One output: the elements that its window had.
        let (p, q) = (1, 2);
        dy.slice(0, 0..1)?.slice(1, p..p + 1)?.slice(2, q..q + 1)?.copy_from(&[f16::INFINITY; 8])?;
        gemm.run(gradient_patches(&dy, window, [6, 7]), &filter, Plain { y: &mut dx })?;
        for (i, dx) in dx.to_vec::<f32>()?.chunks(8).enumerate() {
            let (image, h, w) = (i / 42, i / 7 % 6, i % 7);
            let near = image == 0 && (p * 2..p * 2 + 3).contains(&(h + 1)) && (q * 3..q * 3 + 2).contains(&(w + 2));
            assert!(
                dx.iter().all(|x| *x == f32::INFINITY) == near && (near || dx.iter().all(|x| x.is_finite())),
                "{i}: {dx:?}"
            );
        }
        // Filters, too, may be views of any strides.
        dy = inside([2, 3, 4, 8])?;
        let first = device.full::<f16>([8, 3, 2, 8], f16::ONE)?.permute(&[3, 1, 2, 0])?;
        gemm.run(gradient_patches(&dy, window, [6, 7]), &gradient_filter(&first)?, Plain { y: &mut dx })?;
        assert!(dx.to_vec::<f32>()?.iter().all(|x| x.is_finite()));
    }
    Ok(())
}
