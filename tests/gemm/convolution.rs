//! Convolutions made by hand, beside plain loops.

use epilogue::evt::reference::{decode, encode};
use epilogue::gemm::{Builder, Left, SplitK, Tile, Window, filter, patches};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;

/// A layer, with statistics of every kind.
#[epilogue]
pub(crate) fn layer(
    accum: Accum,
    bias: RowVector<f32>,
    weight: ColumnVector<f32>,
    residual: Tensor<f32>,
) -> (Tensor<f32>, RowVector<f32>, ColumnVector<f32>) {
    let y = relu(accum + bias) * weight + residual;
    let sums = reduction_op(y, Column, Add);
    let largest = reduction_op(y, Row, Max);
    (y, sums, largest)
}

#[epilogue]
pub(crate) fn plain(accum: Accum) -> Tensor<f32> {
    let y = accum;
    y
}

/// A convolution of one to three axes.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) images: usize,
    pub(crate) inputs: Vec<usize>,
    pub(crate) channels: usize,
    pub(crate) filters: usize,
    pub(crate) groups: usize,
    pub(crate) size: Vec<usize>,
    pub(crate) stride: Vec<usize>,
    pub(crate) padding: Vec<(usize, usize)>,
    pub(crate) dilation: Vec<usize>,
}

impl Shape {
    /// One that moves by 1, without padding and groups.
    pub(crate) fn of<const AXES: usize>(
        inputs: [usize; AXES],
        channels: usize,
        filters: usize,
        size: [usize; AXES],
    ) -> Self {
        let (ones, inputs, size) = (vec![1; AXES], inputs.to_vec(), size.to_vec());
        let (stride, dilation, padding) = (ones.clone(), ones, vec![(0, 0); AXES]);
        Self { images: 2, inputs, channels, filters, groups: 1, size, stride, padding, dilation }
    }

    pub(crate) fn outputs(&self) -> Vec<usize> {
        let along = |i: usize| {
            let (before, after) = self.padding[i];
            (self.inputs[i] + before + after - (self.size[i] - 1) * self.dilation[i] - 1) / self.stride[i] + 1
        };
        (0..self.size.len()).map(along).collect()
    }

    pub(crate) fn of_x(&self) -> Vec<usize> {
        [&[self.images][..], &self.inputs, &[self.channels]].concat()
    }

    pub(crate) fn of_w(&self) -> Vec<usize> {
        [&[self.filters][..], &self.size, &[self.channels / self.groups]].concat()
    }

    /// The shape of a tensor with a value for each row.
    pub(crate) fn of_rows(&self) -> Vec<usize> {
        [&[self.images][..], &self.outputs()].concat()
    }

    /// The shape of a reduction's results: one for each row, and for each group if there are several.
    pub(crate) fn of_row_results(&self) -> Vec<usize> {
        if self.groups == 1 { self.of_rows() } else { [&self.of_rows()[..], &[self.groups]].concat() }
    }

    pub(crate) fn of_y(&self) -> Vec<usize> {
        [&self.of_rows()[..], &[self.filters]].concat()
    }

    pub(crate) fn window<const AXES: usize>(&self) -> Window<AXES> {
        let of = |numbers: &[usize]| -> [usize; AXES] { numbers.try_into().expect("as many axes") };
        let window = Window::of(of(&self.size)).stride(of(&self.stride)).dilation(of(&self.dilation));
        window.padding_around(self.padding.clone().try_into().expect("as many axes")).groups(self.groups)
    }

    pub(crate) fn left<'a>(&self, x: &'a DeviceTensor) -> Left<'a> {
        match self.size.len() {
            1 => patches(x, self.window::<1>()),
            2 => patches(x, self.window::<2>()),
            _ => patches(x, self.window::<3>()),
        }
    }

    /// The convolution of integers, by loops.
    fn direct(&self, x: &[f64], w: &[f64]) -> Vec<f64> {
        let places = |extents: &[usize]| {
            let extents = extents.to_vec();
            (0..extents.iter().product::<usize>()).map(move |i| {
                let mut rest = i;
                let mut place: Vec<usize> = extents.iter().rev().map(|e| (rest % e, rest /= e).0).collect();
                place.reverse();
                place
            })
        };
        let mut y = Vec::new();
        for image in 0..self.images {
            for output in places(&self.outputs()) {
                for k in 0..self.filters {
                    let mut sum = 0.0;
                    for (tap, of) in places(&self.size).enumerate() {
                        let at = |i: usize| {
                            (output[i] * self.stride[i] + of[i] * self.dilation[i]) as isize
                                - self.padding[i].0 as isize
                        };
                        let at: Vec<isize> = (0..of.len()).map(at).collect();
                        if at.iter().zip(&self.inputs).any(|(at, extent)| *at < 0 || *at >= *extent as isize) {
                            continue;
                        }
                        let pixel =
                            at.iter().zip(&self.inputs).fold(image, |i, (at, extent)| i * extent + *at as usize);
                        let taps = self.size.iter().product::<usize>();
                        let of_group = self.channels / self.groups;
                        let first = k / (self.filters / self.groups) * of_group;
                        for c in 0..of_group {
                            sum += x[pixel * self.channels + first + c] * w[(k * taps + tap) * of_group + c];
                        }
                    }
                    y.push(sum);
                }
            }
        }
        y
    }
}

/// Small integers, so that sums are exact.
pub(crate) fn integers(count: usize, seed: usize, least: f64, values: usize) -> Vec<f64> {
    (0..count).map(|i| ((i + seed * 977).wrapping_mul(2_654_435_761) >> 7) % values).map(|x| x as f64 + least).collect()
}

pub(crate) fn tensor(
    device: &Device,
    element: ElementType,
    shape: &[usize],
    values: &[f64],
) -> Result<DeviceTensor, Error> {
    Ok(device.tensor_from_bytes(element, &encode(element, values), shape)?)
}

/// A convolution with the epilogue, whose results are those of loops, bit for bit.
pub(crate) fn check(
    device: &Device,
    (a, b): (ElementType, ElementType),
    shape: &Shape,
    request: impl Fn(Builder<Layer>) -> Builder<Layer>,
) -> Result<(), Error> {
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let least = if a == ElementType::U8 { 0.0 } else { -3.0 };
    let (x, w) = (integers(count(&shape.of_x()), 1, least, 7), integers(count(&shape.of_w()), 2, -2.0, 5));
    let weights: Vec<f64> = (0..count(&shape.of_rows())).map(|i| [1.0, 0.5, -2.0][i % 3]).collect();
    let (biases, residuals) = (integers(shape.filters, 3, -9.0, 19), integers(count(&shape.of_y()), 4, -5.0, 11));
    let images = tensor(device, a, &shape.of_x(), &x)?;
    let filters = tensor(device, b, &shape.of_w(), &w)?;
    let bias = tensor(device, ElementType::F32, &[shape.filters], &biases)?;
    let weight = tensor(device, ElementType::F32, &shape.of_rows(), &weights)?;
    let residual = tensor(device, ElementType::F32, &shape.of_y(), &residuals)?;
    let mut y = device.full::<f32>(shape.of_y(), f32::NAN)?;
    let mut sums = device.full::<f32>([shape.filters], f32::NAN)?;
    let mut largest = device.full::<f32>(shape.of_row_results(), f32::NAN)?;

    let (left, filter) = (shape.left(&images), filter(&filters)?);
    let gemm = request(Gemm::builder::<Layer>(device).operands(left, &filter)?).plan()?;
    let (bias, weight, residual) = (&bias, &weight, &residual);
    let arguments = Layer { bias, weight, residual, y: &mut y, sums: &mut sums, largest: &mut largest };
    let reference = gemm.reference(left, &filter, arguments)?;
    let arguments = Layer { bias, weight, residual, y: &mut y, sums: &mut sums, largest: &mut largest };
    gemm.run(left, &filter, arguments)?;

    let n = shape.filters;
    let of = |(i, x): (usize, f64)| (x + biases[i % n]).max(0.0) * weights[i / n] + residuals[i];
    let expected: Vec<f64> = shape.direct(&x, &w).into_iter().enumerate().map(of).collect();
    let got = |of: &DeviceTensor| Ok::<_, Error>(decode(ElementType::F32, &of.to_bytes()?));
    let said = format!("{shape:?} of {a} on {device}: {}", gemm.choice());
    assert_eq!(got(&y)?, expected, "{said}");
    let column = |k: usize| expected.iter().skip(k).step_by(n).sum::<f64>();
    assert_eq!(got(&sums)?, (0..n).map(column).collect::<Vec<_>>(), "{said}");
    let row = |row: &[f64]| row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(got(&largest)?, expected.chunks(n / shape.groups).map(row).collect::<Vec<_>>(), "{said}");
    for (name, of) in [("y", &y), ("sums", &sums), ("largest", &largest)] {
        reference.compare(name, of)?.check()?;
    }
    Ok(())
}

/// The shape with padding.
pub(crate) fn padded(shape: Shape, padding: &[(usize, usize)]) -> Shape {
    Shape { padding: padding.to_vec(), ..shape }
}

/// Cases that are easily done wrong.
pub(crate) fn hard_cases() -> Vec<Shape> {
    let vgg = |inputs, channels, filters| padded(Shape::of(inputs, channels, filters, [3, 3]), &[(1, 1); 2]);
    vec![
        // The usual layer; a first layer, whose channels are no whole copies; with stride; channels of every alignment.
        vgg([6, 7], 8, 16),
        Shape { stride: vec![2, 2], ..padded(Shape::of([11, 9], 3, 8, [7, 7]), &[(3, 3); 2]) },
        Shape { stride: vec![2, 3], ..vgg([8, 9], 24, 5) },
        vgg([5, 4], 1, 7),
        vgg([4, 5], 12, 33),
        // Padding that differs, and is larger than the filter's reach: whole patches of zeros.
        padded(Shape::of([4, 3], 8, 9, [3, 2]), &[(5, 0), (0, 4)]),
        padded(Shape::of([1, 1], 16, 8, [1, 1]), &[(2, 1), (0, 3)]),
        // Dilation with stride.
        Shape {
            dilation: vec![2, 3],
            stride: vec![3, 2],
            ..padded(Shape::of([9, 11], 8, 12, [3, 3]), &[(2, 3), (3, 1)])
        },
        // One output along an axis, or along both.
        Shape::of([3, 8], 8, 4, [3, 3]),
        Shape::of([3, 5], 4, 6, [3, 5]),
        // One element, which moves by 2; one, which is a plain product.
        Shape { stride: vec![2, 2], ..Shape::of([5, 6], 16, 10, [1, 1]) },
        Shape::of([5, 6], 16, 10, [1, 1]),
        // Filters of one line, or column.
        padded(Shape::of([7, 9], 8, 8, [1, 7]), &[(0, 0), (3, 3)]),
        padded(Shape::of([9, 5], 8, 8, [7, 1]), &[(3, 3), (0, 0)]),
        // Images smaller than a tile, so that it spans several.
        Shape { images: 9, ..vgg([2, 3], 8, 8) },
        // One image, many channels.
        Shape { images: 1, ..vgg([3, 3], 65 * 8, 3) },
        Shape { images: 0, ..vgg([3, 3], 8, 3) },
        // One axis, and three.
        Shape { stride: vec![2], ..padded(Shape::of([19], 8, 6, [4]), &[(2, 1)]) },
        padded(Shape::of([33], 5, 4, [3]), &[(0, 2)]),
        padded(Shape::of([4, 5, 3], 8, 7, [3, 3, 3]), &[(1, 1); 3]),
        Shape {
            stride: vec![2, 1, 2],
            dilation: vec![2, 1, 1],
            ..padded(Shape::of([6, 4, 5], 3, 5, [2, 3, 2]), &[(1, 0), (0, 2), (1, 1)])
        },
        // Groups of channels: two, of whole copies; many, of few channels, with stride; more filters than channels.
        Shape { groups: 2, ..vgg([6, 7], 16, 24) },
        Shape { groups: 8, stride: vec![2, 1], ..vgg([5, 6], 32, 16) },
        Shape { groups: 3, dilation: vec![2, 1], ..padded(Shape::of([6, 5], 9, 51, [2, 3]), &[(1, 2), (0, 1)]) },
        // Each channel by itself, with one filter and with two.
        Shape { groups: 6, ..vgg([4, 5], 6, 6) },
        Shape { groups: 5, stride: vec![2, 2], ..vgg([5, 7], 5, 10) },
        // One element: a batch of plain products, and one that is none.
        Shape { groups: 2, ..Shape::of([5, 6], 16, 10, [1, 1]) },
        Shape { groups: 4, stride: vec![2, 3], ..Shape::of([5, 6], 32, 12, [1, 1]) },
        Shape { groups: 2, images: 0, ..vgg([3, 3], 8, 4) },
        // One axis, and three.
        Shape { groups: 2, stride: vec![2], ..padded(Shape::of([19], 10, 6, [4]), &[(2, 1)]) },
        Shape { groups: 2, ..padded(Shape::of([3, 4, 3], 8, 6, [2, 3, 2]), &[(1, 0), (1, 1), (0, 1)]) },
    ]
}

#[test]
fn cases_on_the_cpu() -> Result<(), Error> {
    use ElementType::{BF16, F8E4M3, F16, F32, F64, I8, U8};
    let device = Device::cpu();
    for shape in hard_cases() {
        for elements in [(F32, F32), (BF16, BF16), (F16, F16), (U8, I8), (I8, I8), (F64, F64), (F8E4M3, F16)] {
            check(&device, elements, &shape, |builder| builder)?;
        }
    }
    // As many rows and terms as the CPU multiplies from panels, in several tiles and parts of K.
    let large = Shape { images: 1, padding: vec![(1, 1); 2], ..Shape::of([13, 12], 64, 70, [3, 3]) };
    for elements in [(F32, F32), (BF16, BF16), (U8, I8), (F16, F16)] {
        check(&device, elements, &large, |builder| builder)?;
    }
    for groups in [2, 32] {
        for elements in [(F32, F32), (BF16, BF16), (U8, I8), (F16, F16)] {
            check(&device, elements, &Shape { groups, filters: 64, ..large.clone() }, |builder| builder)?;
        }
    }
    check(&device, (F32, F32), &Shape { dilation: vec![2, 2], channels: 70, ..large }, |builder| builder)
}

#[test]
fn cases_on_emulated_devices() -> Result<(), Error> {
    use ElementType::{BF16, F16, F32, F64, I8};
    if testing::compiler("convolution::cases_on_emulated_devices").is_none() {
        return Ok(());
    }
    let options = Options::default().detector(Detector::On).completion(Completion::Lazy);
    let device = Device::emulated_with(Arch::SM_80, options)?;
    for shape in testing::some_of(hard_cases()) {
        check(&device, (F16, F16), &shape, |builder| builder)?;
    }
    // Every width of copies, of other elements.
    for (elements, channels) in
        [((F32, F32), [3, 2, 4]), ((BF16, BF16), [5, 6, 4]), ((I8, I8), [3, 12, 24]), ((F64, F64), [1, 2, 3])]
    {
        for channels in channels {
            let shape = Shape { padding: vec![(1, 1); 2], ..Shape::of([5, 4], channels, 6, [3, 2]) };
            check(&device, elements, &shape, |builder| builder)?;
        }
    }
    Ok(())
}

/// Splits of K, stages, the largest tile, and several tiles by one block.
#[test]
fn on_every_way_of_sharing_k() -> Result<(), Error> {
    use ElementType::F16;
    if testing::compiler("convolution::on_every_way_of_sharing_k").is_none() {
        return Ok(());
    }
    let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(5);
    let device = Device::emulated_with(Arch::SM_80, options)?;
    let tiles = Tile::all(epilogue::gemm::Instruction::MmaF16);
    let small = *tiles.last().expect("a tile");
    let shape = Shape { padding: vec![(1, 1); 2], ..Shape::of([6, 7], 40, 40, [3, 3]) };
    for split_k in [SplitK::Serial(3), SplitK::Parallel(2), SplitK::Stream] {
        check(&device, (F16, F16), &shape, |builder| builder.tile(small).split_k(split_k))?;
    }
    check(&device, (F16, F16), &shape, |builder| builder.tile(tiles[0]))?;
    let in_groups = Shape { groups: 4, ..shape.clone() };
    for split_k in [SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream] {
        check(&device, (F16, F16), &in_groups, |builder| builder.tile(small).split_k(split_k))?;
    }
    check(&device, (F16, F16), &Shape { channels: 3, ..shape }, |builder| builder.tile(tiles[4]))
}

/// Images of any strides, cropped and with channels first, and what is beside them: infinite, and never read.
#[test]
fn images_are_views_and_their_neighbours_do_not_leak() -> Result<(), Error> {
    let emulated = testing::compiler("convolution::images_are_views").is_some();
    let options = Options::default().detector(Detector::On);
    let emulated = emulated.then(|| Device::emulated_with(Arch::SM_80, options)).transpose()?;
    for device in [Device::cpu()].into_iter().chain(emulated) {
        let w = tensor(&device, ElementType::F32, &[4, 3, 3, 8], &integers(4 * 72, 2, -2.0, 5))?;
        let filter = filter(&w)?;
        let values = integers(2 * 5 * 4 * 8, 1, -3.0, 7);
        let packed = tensor(&device, ElementType::F32, &[2, 5, 4, 8], &values)?;
        // These images in the middle of infinite elements.
        let wide = device.full::<f32>([4, 9, 8, 12], f32::INFINITY)?;
        let mut cropped = wide.slice(0, 1..3)?.slice(1, 2..7)?.slice(2, 3..7)?.slice(3, 4..12)?;
        cropped.copy_from_bytes(&packed.to_bytes()?)?;
        // Channels first.
        let first = device.full::<f32>([2, 8, 5, 4], f32::NAN)?;
        let mut first = first.permute(&[0, 2, 3, 1])?;
        first.copy_from_bytes(&packed.to_bytes()?)?;
        let window = Window::of([3, 3]).padding([1, 2]).stride([1, 2]);
        let gemm = Gemm::plan::<Plain>(&device, patches(&packed, window), &filter)?;
        let run = |x: &DeviceTensor| -> Result<Vec<f32>, Error> {
            // The outputs are a view, too, whose rows are two axes.
            let whole = device.full::<f32>([2, 5, 7, 4], 7.0)?;
            let mut y = whole.slice(2, 1..4)?;
            gemm.run(patches(x, window), &filter, Plain { y: &mut y })?;
            assert!(whole.slice(2, 0..1)?.to_vec::<f32>()?.iter().all(|x| *x == 7.0));
            Ok(y.to_vec()?)
        };
        let expected = run(&packed)?;
        assert!(expected.iter().all(|x| x.is_finite()));
        assert_eq!(run(&cropped)?, expected, "{device}");
        assert_eq!(run(&first)?, expected, "{device}");
    }
    Ok(())
}

/// An infinite element spreads to the outputs whose window it is in, and to no others.
#[test]
fn infinite_elements_stay_in_their_windows() -> Result<(), Error> {
    let emulated = testing::compiler("convolution::infinite_elements_stay_in_their_windows").is_some();
    let emulated = emulated.then(|| Device::emulated(Arch::SM_80)).transpose()?;
    for device in [Device::cpu()].into_iter().chain(emulated) {
        for corner in [0, 3, 12, 15] {
            let mut values = vec![1.0; 4 * 4 * 8];
            values[corner * 8 + 5] = f64::INFINITY;
            let x = tensor(&device, ElementType::F16, &[1, 4, 4, 8], &values)?;
            let filter = filter(&device.full::<f16>([2, 3, 3, 8], f16::ONE)?)?;
            let window = Window::of([3, 3]).padding([1, 1]);
            let mut y = device.zeros::<f32>([1, 4, 4, 2])?;
            Gemm::plan::<Plain>(&device, patches(&x, window), &filter)?.run(
                patches(&x, window),
                &filter,
                Plain { y: &mut y },
            )?;
            for (i, y) in y.to_vec::<f32>()?.chunks(2).enumerate() {
                let near = (i / 4).abs_diff(corner / 4) <= 1 && (i % 4).abs_diff(corner % 4) <= 1;
                assert!(
                    y.iter().all(|y| if near { *y == f32::INFINITY } else { y.is_finite() }),
                    "{corner} {i}: {y:?}"
                );
            }
        }
    }
    Ok(())
}

/// Outside of images are zeros, so a weight that is infinite makes NaN there. Its neighbours have the same bits as without it, also
/// where a negative product is less than all numbers just before the zeros.
#[test]
fn infinite_weights_are_multiplied_by_the_zeros_around_images() -> Result<(), Error> {
    let device = Device::cpu();
    let (channels, filters, window) = (32, 3, Window::of([3, 3]).padding([1, 1]));
    for (element, value) in [(ElementType::F32, 1e-30), (ElementType::BF16, 1.0)] {
        let x = tensor(&device, element, &[2, 8, 8, channels], &vec![value; 128 * channels])?;
        let run = |first: f64| -> Result<Vec<f32>, Error> {
            let mut weights = vec![value; filters * 9 * channels];
            weights[4 * channels..5 * channels].fill(-value);
            weights[2 * 9 * channels] = first;
            let filter = filter(&tensor(&device, element, &[filters, 3, 3, channels], &weights)?)?;
            let mut y = device.zeros::<f32>([2, 8, 8, filters])?;
            let gemm = Gemm::plan::<Plain>(&device, patches(&x, window), &filter)?;
            gemm.run(patches(&x, window), &filter, Plain { y: &mut y })?;
            Ok(y.to_vec()?)
        };
        let (finite, infinite) = (run(value)?, run(f64::INFINITY)?);
        for (i, (finite, infinite)) in finite.chunks(filters).zip(infinite.chunks(filters)).enumerate() {
            let is_inside = i % 64 >= 8 && i % 8 > 0;
            assert!(finite.iter().all(|y| y.is_finite()));
            assert_eq!([finite[0], finite[1]].map(f32::to_bits), [infinite[0], infinite[1]].map(f32::to_bits), "{i}");
            assert!(
                if is_inside { infinite[2] == f32::INFINITY } else { infinite[2].is_nan() },
                "{i}: {}",
                infinite[2]
            );
        }
    }
    Ok(())
}

/// Patches of one element are a matrix: the plain product's plan, kernel and bits, also with packed filters.
#[test]
fn single_elements_are_a_plain_product() -> Result<(), Error> {
    let device = Device::cpu();
    let value = |i: usize| (i as f64 * 0.618_034).fract() - 0.5;
    let rough = |shape: &[usize]| {
        let values: Vec<f64> = (0..shape.iter().product()).map(value).collect();
        tensor(&device, ElementType::F32, shape, &values)
    };
    let (x, w) = (rough(&[2, 7, 9, 40])?, rough(&[24, 1, 1, 40])?);
    let window = Window::of([1, 1]);
    let (filter, matrix) = (filter(&w)?, x.reshape([126, 40])?);
    let gemm = Gemm::plan::<Plain>(&device, patches(&x, window), &filter)?;
    let (mut y, mut d) = (device.zeros::<f32>([2, 7, 9, 24])?, device.zeros::<f32>([126, 24])?);
    gemm.run(patches(&x, window), &filter, Plain { y: &mut y })?;
    gemm.run(&matrix, filter.matrix(), Plain { y: &mut d })?;
    assert_eq!(y.to_bytes()?, d.to_bytes()?);

    let (w, window) = (rough(&[24, 3, 3, 40])?, Window::of([3, 3]).padding([1, 1]));
    let filter = epilogue::gemm::filter(&w)?;
    let gemm = Gemm::plan::<Plain>(&device, patches(&x, window), &filter)?;
    gemm.run(patches(&x, window), &filter, Plain { y: &mut y })?;
    let packed = gemm.pack(filter.matrix())?;
    let mut again = device.zeros::<f32>([2, 7, 9, 24])?;
    gemm.run(patches(&x, window), &packed, Plain { y: &mut again })?;
    assert_eq!(y.to_bytes()?, again.to_bytes()?);
    Ok(())
}

/// A softmax of a gate: several accumulators and phases.
#[epilogue]
pub(crate) fn gated(gate: Accum, up: Accum) -> Tensor<f32> {
    let h = silu(gate) * up;
    let share = exp(h - reduction_op(h, Row, Max));
    let y = share / reduction_op(share, Row, Add);
    y
}

/// Several filters for one image, and an epilogue of two launches.
#[test]
fn several_accumulators_and_phases() -> Result<(), Error> {
    let emulated = testing::compiler("convolution::several_accumulators_and_phases").is_some();
    let options = Options::default().detector(Detector::On);
    let emulated = emulated.then(|| Device::emulated_with(Arch::SM_80, options)).transpose()?;
    for device in [Device::cpu()].into_iter().chain(emulated) {
        let of = |shape: &[usize], seed: usize| {
            let values: Vec<f64> = integers(shape.iter().product(), seed, -3.0, 7).iter().map(|x| x / 8.0).collect();
            tensor(&device, ElementType::F16, shape, &values)
        };
        let (x, one, two) = (of(&[2, 4, 5, 16], 1)?, of(&[6, 3, 3, 16], 2)?, of(&[6, 3, 3, 16], 3)?);
        let (one, two, window) = (filter(&one)?, filter(&two)?, Window::of([3, 3]).padding([1, 1]));
        let gemm = Gemm::plan::<Gated>(&device, patches(&x, window), [&one, &two])?;
        let mut y = device.zeros::<f32>([2, 4, 5, 6])?;
        let expected = gemm.reference(patches(&x, window), [&one, &two], Gated { y: &mut y })?;
        gemm.run(patches(&x, window), [&one, &two], Gated { y: &mut y })?;
        expected.compare("y", &y)?.check()?;
    }
    Ok(())
}
