//! Sums and normalisations on the CPU, compared with ndarray and with only reading the same memory. They take turns: on
//! a machine that also does other work, ratios of consecutive runs are more reliable than separate times.
//!
//! `cargo bench --bench te_cpu_turns -- [part of a case's name]` prints the least time of each, and its ratio to the
//! read's.

#![allow(clippy::print_stdout, reason = "it prints its results")]

mod ndarray_rows;

use std::hint::black_box;
use std::time::{Duration, Instant};

use epilogue::te::{self, DType, TeError, Tensor};
use epilogue::{Argument, Device, DeviceTensor, Element, ElementType};
use half::{bf16, f16};
use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

/// The time for which the contestants of a case take turns.
const LONG: Duration = Duration::from_millis(1500);

/// A contestant.
type Turn<'a> = (String, Box<dyn FnMut() + 'a>);

/// Reads everything, on all threads: the exclusive or of the bits, so that no read can be left out.
fn read(bytes: &[u64]) -> u64 {
    let part = |part: &[u64]| -> u64 {
        let mut bits = [0u64; 32];
        for chunk in part.chunks_exact(32) {
            for (bits, word) in bits.iter_mut().zip(chunk) {
                *bits ^= word;
            }
        }
        bits.iter().fold(0, |all, bits| all ^ bits)
    };
    bytes.par_chunks(1 << 15).map(part).reduce(|| 0, |a, b| a ^ b)
}

/// Whether a case is asked for: all words of the command line are in its name, or there are none.
fn is_asked_for(case: &str) -> bool {
    std::env::args().skip(1).filter(|word| !word.starts_with('-')).all(|word| case.contains(&word))
}

/// Lets them take turns and prints the least time of each, and its ratio to the first one's.
fn compare(case: &str, bytes: usize, mut turns: Vec<Turn<'_>>) {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); turns.len()];
    let start = Instant::now();
    while start.elapsed() < LONG || times[0].len() < 10 {
        for ((_, run), times) in turns.iter_mut().zip(&mut times) {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let least: Vec<f64> = times.iter().map(|times| times.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    print!("{case:34}");
    for ((name, _), time) in turns.iter().zip(&least) {
        print!(" | {name} {:.3} ms ({:.2})", time * 1e3, time / least[0]);
    }
    println!(" | {:.1} GB/s read", bytes as f64 / least[0] / 1e9);
}

/// Sums over one dimension of a tensor.
fn sum(element: ElementType, rank: usize, reduced: usize) -> Result<Tensor, TeError> {
    let shape: Vec<te::Expr> = (0..rank).map(|d| te::var(["n", "m", "l"][d]).into()).collect();
    let a = te::placeholder_of(element, shape.clone(), "A");
    let wide = match element {
        ElementType::F64 | ElementType::I64 => DType::from(element),
        ElementType::I32 | ElementType::I8 | ElementType::U8 => DType::from(ElementType::I32),
        _ => DType::F32,
    };
    let k = te::reduce_axis((0, shape[reduced].clone()), "k");
    let kept: Vec<te::Expr> = (0..rank).filter(|d| *d != reduced).map(|d| shape[d].clone()).collect();
    let body = |at: Vec<te::Expr>| te::sum(a.at(at).cast(wide), [k]);
    match kept.as_slice() {
        [n] => te::compute([n.clone()], "B", |[i]: [te::Axis; 1]| {
            body(if reduced == 0 { vec![k.into(), i.into()] } else { vec![i.into(), k.into()] })
        }),
        _ => te::compute([kept[0].clone(), kept[1].clone()], "B", |[i, j]: [te::Axis; 2]| {
            let mut at: Vec<te::Expr> = vec![i.into(), j.into()];
            at.insert(reduced, k.into());
            body(at)
        }),
    }
}

fn wide_of(element: ElementType) -> ElementType {
    match element {
        ElementType::F64 | ElementType::I64 => element,
        ElementType::I32 | ElementType::I8 | ElementType::U8 => ElementType::I32,
        _ => ElementType::F32,
    }
}

fn random<T: Element>(count: usize, of: fn(f32) -> T) -> Vec<T> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..count).map(|_| of(random.f32() * 100.0 - 50.0)).collect()
}

/// The memory of a tensor, as words.
fn words(a: &DeviceTensor, bytes: usize) -> &[u64] {
    // SAFETY: the tensor lives on, is as long, aligned to a cache line, and never written.
    unsafe { std::slice::from_raw_parts(a.device_address() as *const u64, bytes / 8) }
}

type Peer<T> = fn(&ArrayView2<'_, T>, Axis);

fn sums<T: Element>(shape: &[usize], of: fn(f32) -> T, peer: Option<Peer<T>>) {
    let name = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
    let which =
        |reduced: usize| if shape.len() == 3 { ["first", "middle", "last"] } else { ["columns", "rows", ""] }[reduced];
    let case = |reduced: usize| format!("{} {name} {}", T::TYPE, which(reduced));
    if !(0..shape.len()).any(|reduced| is_asked_for(&case(reduced))) {
        return;
    }
    let device = Device::cpu();
    let values = random(shape.iter().product(), of);
    let a = device.tensor(&values, shape).expect("there is memory");
    let bytes = size_of_val(values.as_slice());
    drop(values);
    for reduced in (0..shape.len()).filter(|reduced| is_asked_for(&case(*reduced))) {
        let b = sum(T::TYPE, shape.len(), reduced).expect("it is well formed");
        let kernel = te::auto::reduce(&b).expect("it is a reduction").build(&device).expect("it builds");
        let mut kept = shape.to_vec();
        kept.remove(reduced);
        let mut result = device.zeros_of(wide_of(T::TYPE), kept).expect("there is memory");
        let mut turns: Vec<Turn<'_>> = vec![("read".to_owned(), Box::new(|| _ = black_box(read(words(&a, bytes)))))];
        turns.push((
            "auto".to_owned(),
            Box::new(|| kernel.run(&[Argument::from(&a), (&mut result).into()]).expect("it runs")),
        ));
        if let (Some(peer), [rows, columns]) = (peer, shape) {
            // SAFETY: as in `words`.
            let values = unsafe { std::slice::from_raw_parts(a.device_address() as *const T, rows * columns) };
            let matrix = ArrayView2::from_shape((*rows, *columns), values).expect("the shape holds the values");
            turns.push(("ndarray".to_owned(), Box::new(move || peer(black_box(&matrix), Axis(reduced)))));
        }
        compare(&case(reduced), bytes, turns);
    }
}

/// Row by row, as one writes it with ndarray.
fn rms_norm(x: &Array2<f32>) -> Array2<f32> {
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        let square = row.fold(0.0, |sum, x| sum + x * x) / row.len() as f32;
        let scale = (square + 1e-5).sqrt().recip();
        row.mapv_inplace(|x| x * scale);
    }
    y
}

fn normalisations(rows: usize, columns: usize) {
    type Case = (&'static str, Result<Tensor, TeError>, fn(&Array2<f32>) -> Array2<f32>);
    if !["softmax", "layer_norm", "rms_norm"].iter().any(|name| is_asked_for(&format!("{name} {rows} x {columns}"))) {
        return;
    }
    let device = Device::cpu();
    let values = random(rows * columns, |x| x * 0.08);
    let bytes = size_of_val(values.as_slice());
    let x = device.tensor(&values, [rows, columns]).expect("there is memory");
    let array = Array2::from_shape_vec((rows, columns), values).expect("the shape holds the values");
    let a = te::placeholder([te::var("n"), te::var("m")], "A");
    let cases: [Case; 3] = [
        ("softmax", te::ops::softmax(&a, 1), ndarray_rows::softmax),
        ("layer_norm", te::ops::layer_norm(&a, [1], None, None, 1e-5), ndarray_rows::layer_norm),
        ("rms_norm", te::ops::rms_norm(&a, [1], None, 1e-5), rms_norm),
    ];
    for (name, output, peer) in cases {
        if !is_asked_for(&format!("{name} {rows} x {columns}")) {
            continue;
        }
        let output = output.expect("it is well formed");
        let kernel = te::auto::reduce(&output).expect("it is a reduction").build(&device).expect("it builds");
        let mut y = device.zeros::<f32>([rows, columns]).expect("there is memory");
        compare(
            &format!("{name} {rows} x {columns}"),
            bytes,
            vec![
                ("read".to_owned(), Box::new(|| _ = black_box(read(words(&x, bytes))))),
                ("auto".to_owned(), Box::new(|| kernel.run(&[(&x).into(), (&mut y).into()]).expect("it runs"))),
                ("ndarray".to_owned(), Box::new(|| drop(black_box(peer(black_box(&array)))))),
            ],
        );
    }
}

fn main() {
    println!("{} threads", rayon::current_num_threads());
    let peer: Peer<f32> = |matrix, axis| drop(black_box(matrix.sum_axis(axis)));
    let shapes = [
        [4096, 4096],
        [8192, 1000],
        [1000, 8192],
        [10_000_000, 3],
        [3, 10_000_000],
        [100, 100_000],
        [100_000, 100],
        [1_000_000, 16],
        [16, 1_000_000],
    ];
    for shape in &shapes {
        sums::<f32>(shape, |x| x, Some(peer));
    }
    sums::<f32>(&[64, 512, 512], |x| x, None);
    sums::<f64>(&shapes[0], f64::from, Some(|matrix, axis| drop(black_box(matrix.sum_axis(axis)))));
    sums::<f16>(&shapes[0], f16::from_f32, None);
    sums::<bf16>(&shapes[0], bf16::from_f32, None);
    sums::<i32>(&shapes[0], |x| x as i32, Some(|matrix, axis| drop(black_box(matrix.sum_axis(axis)))));
    sums::<i8>(&[8192, 8192], |x| x as i8, None);
    normalisations(4096, 1024);
    normalisations(16_384, 384);
}
