//! Operations of TVM's topi, written as expressions: each runs by an automatic kernel as its default schedule does, in the
//! interpreter. `te::ops` says what topi has by sorting, and te hasn't.

use epilogue::te::ops::{self, Pooling};
use epilogue::te::{self, DType, Expr, TeError, Tensor, placeholder_of, var};
use epilogue::{Argument, Device, DeviceTensor, ElementType};

use super::native::both::{agree, input, output};

const I32: ElementType = ElementType::I32;

/// An operation with its inputs, and their extents and that of the result.
struct Operation {
    result: Tensor,
    inputs: Vec<(Tensor, Vec<usize>)>,
    shape: Vec<usize>,
}

/// Integers from 0 to before 11, or to before `below` for indices.
fn elements(tensor: &Tensor, shape: &[usize], below: usize) -> Vec<f64> {
    let below = if tensor.dtype() == DType::F32 { 11 } else { below };
    (0..shape.iter().product()).map(|t: usize| ((7 * t + 2) % below) as f64).collect()
}

fn run(name: &str, operation: &Operation, below: usize) -> Result<(), TeError> {
    let Operation { result, inputs, shape } = operation;
    let device = Device::cpu();
    let mut both = Vec::new();
    let mut read: Vec<DeviceTensor> = Vec::new();
    for (tensor, shape) in inputs {
        let values = elements(tensor, shape, below);
        both.push(input(tensor.dtype(), shape, &values));
        read.push(match tensor.dtype() {
            DType::F32 => device.tensor(&values.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape.as_slice())?,
            _ => device.tensor(&values.iter().map(|x| *x as i32).collect::<Vec<_>>(), shape.as_slice())?,
        });
    }
    both.push(output(result.dtype(), shape));
    let arguments: Vec<&Tensor> = inputs.iter().map(|(tensor, _)| tensor).chain([result]).collect();
    let program = te::lower(&te::create_schedule(&[result]), &arguments, "main")?;
    let wanted = agree(&program, &both).swap_remove(inputs.len());
    let mut made = device.zeros_of(result.dtype().in_memory(), shape.as_slice())?;
    let mut given: Vec<(&Tensor, Argument<'_>)> = Vec::new();
    given.extend(inputs.iter().zip(&read).map(|((tensor, _), read)| (tensor, read.into())));
    given.push((result, (&mut made).into()));
    te::auto::build(&[result])?.build(&device)?.run_bound(&given)?;
    drop(given);
    let got = crate::auto::shared::numbers(&made)?;
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0) || a == b;
    assert!(got.len() == wanted.len() && got.iter().zip(&wanted).all(close), "{name}: {got:?}, not {wanted:?}");
    Ok(())
}

/// The extents in numbers; and one as a size, by its name.
fn image() -> (Tensor, Vec<usize>) {
    (te::placeholder((2, 3, var("h"), 6), "x"), vec![2, 3, 4, 6])
}

#[test]
fn operations_of_topi() -> Result<(), TeError> {
    type Make = fn() -> Result<Operation, TeError>;
    let all: [(&str, Make); 17] = [
        ("adaptive_pool", || {
            // The window of each of 4 outputs, of 6 elements.
            let (x, shape) = image();
            let from = |o: te::Axis| o * 6 / 4;
            let result = te::compute((2, 3, x.shape()[2].clone(), 4), "pool", |[n, c, h, o]| {
                let k = te::reduce_axis((from(o), ((o + 1) * 6 + 3) / 4), "k");
                te::max(x.at((n, c, h, k)), [k])
            })?;
            Ok(Operation { result, inputs: vec![(x, shape)], shape: vec![2, 3, 4, 4] })
        }),
        ("pool2d", || {
            let (x, shape) = image();
            let result = ops::average_pool(&x, Pooling::new([3, 2]).padding([1, 1]).stride([2, 1]).ceil())?;
            Ok(Operation { result, inputs: vec![(x, shape)], shape: vec![2, 3, 3, 7] })
        }),
        ("strided_slice", || {
            let (x, shape) = image();
            let h = x.shape()[2].clone();
            let result =
                te::compute((2, 3, h.clone() / 2, 2), "slice", |[n, c, i, j]| x.at((n, c, &h - 1 - i * 2, j * 3 + 1)))?;
            Ok(Operation { result, inputs: vec![(x, shape)], shape: vec![2, 3, 2, 2] })
        }),
        ("concatenate", || {
            let [x, y] = ["x", "y"].map(|name| te::placeholder([var(name)], name));
            let [n, m] = [&x, &y].map(|tensor| tensor.shape()[0].clone());
            let both = &n + m;
            let result = te::compute((both,), "both", |[i]| i.less(&n).select(x.at([i]), y.at((i - &n,))))?;
            Ok(Operation { result, inputs: vec![(x, vec![3]), (y, vec![4])], shape: vec![7] })
        }),
        ("conv2d_transpose", || {
            let (x, w) = (te::placeholder((1, 2, 3, 4), "x"), te::placeholder((2, 2, 3, 3), "w"));
            let [c, r, s] = [(2, "c"), (3, "r"), (3, "s")].map(|(extent, name)| te::reduce_axis((0, extent), name));
            let result = te::compute((1, 2, 7, 9), "image", |[n, f, y, x_at]| {
                let (i, j) = (y - r, x_at - s);
                let inside = i.greater_equal(0).and(i.less(6)).and(j.greater_equal(0)).and(j.less(8));
                let inside = inside.and((&i % 2).equal(0)).and((&j % 2).equal(0));
                te::sum(inside.select(x.at((n, c, i / 2, j / 2)), 0.0) * w.at([c, f, r, s]), [c, r, s])
            })?;
            Ok(Operation {
                result,
                inputs: vec![(x, vec![1, 2, 3, 4]), (w, vec![2, 2, 3, 3])],
                shape: vec![1, 2, 7, 9],
            })
        }),
        ("csrmm", || {
            let (values, columns) = (te::placeholder([var("p")], "v"), placeholder_of(I32, [var("q")], "columns"));
            let (ends, x) = (placeholder_of(I32, (5,), "ends"), te::placeholder((var("n"), 3), "x"));
            let result = te::compute((4, 3), "product", |[i, j]| {
                let k = te::reduce_axis((ends.at([i]), ends.at((i + 1,))), "k");
                te::sum(values.at([k]) * x.at((columns.at([k]), j)), [k])
            })?;
            let inputs = vec![(values, vec![9]), (columns, vec![9]), (ends, vec![5]), (x, vec![8, 3])];
            Ok(Operation { result, inputs, shape: vec![4, 3] })
        }),
        ("gather_nd", || {
            let (x, places) = (te::placeholder((5, 5), "x"), placeholder_of(I32, (2, 6), "places"));
            let result = te::compute((6,), "picked", |[i]| x.at((places.at((0, i)), places.at((1, i)))))?;
            Ok(Operation { result, inputs: vec![(x, vec![5, 5]), (places, vec![2, 6])], shape: vec![6] })
        }),
        ("take, clipped", || {
            let (x, places) = (te::placeholder((var("n"), 2), "x"), placeholder_of(I32, (4,), "places"));
            let last = x.shape()[0].clone() - 1;
            let result =
                te::compute((4, 2), "taken", |[i, j]| x.at((te::clamp(places.at([i]) - 2, 0, &last), Expr::from(j))))?;
            Ok(Operation { result, inputs: vec![(x, vec![2, 2]), (places, vec![4])], shape: vec![4, 2] })
        }),
        ("resize, bilinear", || {
            let (x, shape) = image();
            let result = te::compute((2, 3, x.shape()[2].clone(), 11), "wide", |[n, c, h, j]| {
                let (left, rest) = (j / 2, (j % 2).cast(DType::F32) * 0.5);
                let right = te::minimum(&left + 1, 5);
                x.at((n, c, h, left)) * (1.0 - &rest) + x.at((n, c, h, right)) * rest
            })?;
            Ok(Operation { result, inputs: vec![(x, shape)], shape: vec![2, 3, 4, 11] })
        }),
        ("lrn", || {
            let (x, shape) = image();
            let k = te::reduce_axis((-1, 2), "k");
            let squares = te::compute(x.shape(), "squares", |[n, c, h, w]| {
                let inside = (c + k).greater_equal(0).and((c + k).less(3));
                te::sum(inside.select(x.at((n, c + k, h, w)) * x.at((n, c + k, h, w)), 0.0), [k])
            })?;
            let result = te::compute(x.shape(), "lrn", |[n, c, h, w]| {
                x.at([n, c, h, w]) / te::pow(squares.at([n, c, h, w]) * 1e-2 + 2.0, 0.75)
            })?;
            Ok(Operation { result, inputs: vec![(x, shape.clone())], shape })
        }),
        ("dilate", || {
            let x = te::placeholder([var("n")], "x");
            let extent = (x.shape()[0].clone() - 1) * 3 + 1;
            let result = te::compute((extent,), "wide", |[i]| (i % 3).equal(0).select(x.at((i / 3,)), -1.0))?;
            Ok(Operation { result, inputs: vec![(x, vec![4])], shape: vec![10] })
        }),
        ("space_to_depth", || {
            let (x, shape) = image();
            let result = te::compute((2, 12, x.shape()[2].clone() / 2, 3), "deep", |[n, c, h, w]| {
                x.at((n, c % 3, h * 2 + c / 6, w * 2 + c / 3 % 2))
            })?;
            Ok(Operation { result, inputs: vec![(x, shape)], shape: vec![2, 12, 2, 3] })
        }),
        ("reverse_sequence", || {
            let (x, lengths) = (te::placeholder((3, 5), "x"), placeholder_of(I32, (3,), "lengths"));
            let result = te::compute((3, 5), "turned", |[i, j]| {
                let length = lengths.at([i]);
                x.at((i, j.less(&length).select(&length - 1 - j, j)))
            })?;
            Ok(Operation { result, inputs: vec![(x, vec![3, 5]), (lengths, vec![3])], shape: vec![3, 5] })
        }),
        ("matrix_set_diag", || {
            let (x, d) = (te::placeholder((4, 5), "x"), te::placeholder((4,), "d"));
            let result = te::compute((4, 5), "set", |[i, j]| i.equal(j).select(d.at([i]), x.at([i, j])))?;
            Ok(Operation { result, inputs: vec![(x, vec![4, 5]), (d, vec![4])], shape: vec![4, 5] })
        }),
        ("searchsorted, by comparison", || {
            let (edges, x) = (te::placeholder([var("m")], "edges"), te::placeholder([var("n")], "x"));
            let k = te::reduce_axis((0, edges.shape()[0].clone()), "k");
            let result = te::compute(x.shape(), "places", |[i]| te::sum(edges.at([k]).less(x.at([i])).cast(I32), [k]))?;
            Ok(Operation { result, inputs: vec![(edges, vec![5]), (x, vec![4])], shape: vec![4] })
        }),
        ("batch_matmul, of broadcast batches", || {
            let (x, y) = (te::placeholder((1, 3, 4), "x"), te::placeholder((2, 5, 4), "y"));
            let result = ops::einsum("zij,bkj->bik", &[&x, &y])?;
            Ok(Operation { result, inputs: vec![(x, vec![1, 3, 4]), (y, vec![2, 5, 4])], shape: vec![2, 3, 5] })
        }),
        ("argmax, of the last among equals", || {
            let x = te::placeholder((3, var("n")), "x");
            let turned = te::compute(x.shape(), "turned", |[i, j]| x.at((i, x.shape()[1].clone() - 1 - j)))?;
            let at = ops::argmax(&turned, -1)?;
            let result = te::compute((3,), "last", |[i]| x.shape()[1].clone() - 1 - at.at([i]))?;
            Ok(Operation { result, inputs: vec![(x, vec![3, 14])], shape: vec![3] })
        }),
    ];
    let mut refused = Vec::new();
    for (name, make) in all {
        if let Err(error) = make().and_then(|operation| run(name, &operation, 5)) {
            refused.push(format!("{name}: {error}"));
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    Ok(())
}
