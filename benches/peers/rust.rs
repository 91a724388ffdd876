//! The Rust that one writes without this library: with ndarray, and as plain loops on one thread.

use std::hint::black_box;

use ndarray::{Array1, Array2, Axis, Zip};

use crate::contestant::{Contestant, sample, values};
use crate::ndarray_rows;
use crate::work::{After, Type, Weights, Work};

fn matrix([n, m]: [usize; 2], scale: f32) -> Array2<f32> {
    Array2::from_shape_vec((n, m), values(n * m, scale)).expect("the shape holds the values")
}

fn first(x: &Array2<f32>) -> Vec<f32> {
    sample(x.as_slice().expect("it is contiguous"), |x| x)
}

/// Every contestant that can do a work.
pub(crate) fn contestants(work: Work) -> Vec<Contestant<'static>> {
    match work {
        Work::Product { shape: [m, n, k], element: Type::F32, weights, after: After::Nothing } => {
            let a = matrix([m, k], 0.01);
            let b = match weights {
                Weights::Kn => matrix([k, n], 0.01),
                Weights::Nk => matrix([n, k], 0.01).reversed_axes(),
            };
            let sample = first(&a.dot(&b).as_standard_layout().into_owned());
            vec![Contestant::here("ndarray", sample, move || _ = black_box(a.dot(&b)))]
        }
        Work::Product { .. }
        | Work::Convolution { .. }
        | Work::MiniLm { .. }
        | Work::Pairs { .. }
        | Work::Pool { .. }
        | Work::Gather { .. }
        | Work::GroupNorm { .. }
        | Work::CumMax { .. }
        | Work::CrossEntropy { .. } => Vec::new(),
        Work::ArgMax { shape } => {
            let x = matrix(shape, 0.02);
            let run =
                move || x.rows().into_iter().map(|row| place(row.as_slice().unwrap_or(&[]))).collect::<Vec<i32>>();
            let sample = sample(&run(), |i| i as f32);
            vec![Contestant::here("loop", sample, move || _ = black_box(run()))]
        }
        Work::Softmax { shape, axis } => {
            let x = matrix(shape, 0.02);
            let run = move || match axis {
                1 => ndarray_rows::softmax(&x),
                _ => softmax_down(&x),
            };
            vec![Contestant::here("ndarray", first(&run()), move || _ = black_box(run()))]
        }
        Work::LayerNorm { shape } => {
            let x = matrix(shape, 0.02);
            let run = move || ndarray_rows::layer_norm(&x);
            vec![Contestant::here("ndarray", first(&run()), move || _ = black_box(run()))]
        }
        Work::Cumsum { shape, axis } => {
            let (x, mut y) = (matrix(shape, 0.02), matrix(shape, 0.0));
            let mut run = move || {
                match axis {
                    1 => along(&x, &mut y),
                    _ => down(&x, &mut y, |before, x, _| before + x, None),
                }
                first(&y)
            };
            vec![Contestant::here("loop", run(), move || _ = black_box(run()))]
        }
        Work::Recurrence { shape } => {
            let (a, x, mut y) = (matrix(shape, 0.02).mapv(|x| x.abs() * 0.9), matrix(shape, 0.02), matrix(shape, 0.0));
            let mut run = move || {
                down(&x, &mut y, |before, x, a| a * before + x, Some(&a));
                first(&y)
            };
            vec![Contestant::here("loop", run(), move || _ = black_box(run()))]
        }
        Work::Sum { shape, axis } => {
            let x = matrix(shape, 0.02);
            let run = move || -> Array1<f32> { x.sum_axis(Axis(axis)) };
            let sample = sample(run().as_slice().unwrap_or(&[0.0]), |x| x);
            vec![Contestant::here("ndarray", sample, move || _ = black_box(run()))]
        }
        Work::Variance { shape, axis } => {
            let x = matrix(shape, 0.02);
            let run = move || -> Array1<f32> { x.var_axis(Axis(axis), 0.0) };
            let sample = sample(run().as_slice().unwrap_or(&[0.0]), |x| x);
            vec![Contestant::here("ndarray", sample, move || _ = black_box(run()))]
        }
    }
}

fn place(row: &[f32]) -> i32 {
    let (mut best, mut place) = (f32::NEG_INFINITY, 0);
    for (i, x) in row.iter().enumerate() {
        if *x > best {
            (best, place) = (*x, i as i32);
        }
    }
    place
}

fn softmax_down(x: &Array2<f32>) -> Array2<f32> {
    let most = x.fold_axis(Axis(0), f32::NEG_INFINITY, |a, b| a.max(*b));
    let mut y = x - &most;
    y.mapv_inplace(f32::exp);
    let sums = y.sum_axis(Axis(0));
    y /= &sums;
    y
}

fn along(x: &Array2<f32>, y: &mut Array2<f32>) {
    Zip::from(x.rows()).and(y.rows_mut()).for_each(|x, mut y| {
        let mut sum = 0.0;
        for (x, y) in x.iter().zip(y.iter_mut()) {
            sum += x;
            *y = sum;
        }
    });
}

fn down(x: &Array2<f32>, y: &mut Array2<f32>, next: impl Fn(f32, f32, f32) -> f32, a: Option<&Array2<f32>>) {
    let columns = x.ncols();
    let (x, y) = (x.as_slice().unwrap_or(&[]), y.as_slice_mut().unwrap_or(&mut []));
    let a = a.map_or(x, |a| a.as_slice().unwrap_or(&[]));
    for t in 0..x.len() / columns {
        let (before, now) = y.split_at_mut(t * columns);
        let before = &before[before.len().saturating_sub(columns)..];
        let (x, a) = (&x[t * columns..][..columns], &a[t * columns..][..columns]);
        let zero = vec![0.0; if t == 0 { columns } else { 0 }];
        let before = if t == 0 { &zero } else { before };
        for (((now, before), x), a) in now[..columns].iter_mut().zip(before).zip(x).zip(a) {
            *now = next(*before, *x, *a);
        }
    }
}
