//! Tensor expressions on the CPU. Sums over the rows and columns of matrices, with an automatic schedule and with one
//! by hand: compared with ndarray, and with only reading the memory. Also softmax and layer norm, and the time to
//! compile a kernel.

#![allow(missing_docs, reason = "criterion's macros")]

mod ndarray_rows;

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use epilogue::te::native::{self, HostTensor};
use epilogue::te::{self, Axis, DType, Program, Schedule, ScheduleError, TeError, Tensor};
use epilogue::{Device, Element, ElementType};
use half::f16;
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

/// A matrix that is a placeholder, and its extents.
fn matrix(element: ElementType) -> (te::Var, te::Var, Tensor) {
    let (n, m) = (te::var("n"), te::var("m"));
    (n, m, te::placeholder_of(element, [n, m], "A"))
}

/// The type that sums of a type are computed in.
fn wide(element: ElementType) -> DType {
    if element == ElementType::F64 { DType::from(ElementType::F64) } else { DType::F32 }
}

/// Sums of the rows (`by` 1) or of the columns (0).
fn sums(element: ElementType, by: usize) -> Result<(Tensor, Tensor), TeError> {
    let (n, m, a) = matrix(element);
    let (kept, reduced) = if by == 1 { (n, m) } else { (m, n) };
    let k = te::reduce_axis((0, reduced), "k");
    let b = te::compute([kept], "B", |[i]: [Axis; 1]| {
        let x = if by == 1 { a.at((i, k)) } else { a.at((k, i)) };
        te::sum(x.cast(wide(element)), [k])
    })?;
    Ok((a, b))
}

/// The axes of a stage that rfactor made, and those it reduces.
fn axes(s: &Schedule, tensor: &Tensor) -> Result<(Vec<Axis>, Vec<Axis>), TeError> {
    let missing = ScheduleError::NotScheduled { tensor: tensor.name() };
    let compute = s.operation(tensor)?.as_compute().ok_or(missing)?;
    Ok((compute.axes.clone(), compute.reduce_axes.clone()))
}

/// Rows in parallel; each adds `lanes` interleaved partial sums, which are vectors, and these at the end.
fn row_sums(element: ElementType, lanes: i32) -> Result<Program, TeError> {
    let (a, b) = sums(element, 1)?;
    let mut s = te::create_schedule(&[&b]);
    let (_, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, lanes)?;
    let bf = s.rfactor(&b, ki)?;
    let (rows, partials) = axes(&s, &b)?;
    let (lane, ko) = axes(&s, &bf)?;
    s.compute_at(&bf, &b, rows[0])?;
    s.stage(&bf)?.reorder(&[ko[0], lane[0]])?;
    s.stage(&bf)?.vectorize(lane[0])?;
    s.stage(&b)?.unroll(partials[0])?;
    s.stage(&b)?.parallel(rows[0])?;
    te::lower(&s, &[&a, &b], "row_sums")
}

/// Short rows, a thousand per task.
fn short_row_sums(element: ElementType) -> Result<Program, TeError> {
    let (a, b) = sums(element, 1)?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, inner) = stage.split(b.axis(0)?, 1024)?;
    let k = b.reduce_axis(0)?;
    stage.reorder(&[outer, inner, k])?;
    stage.parallel(outer)?;
    te::lower(&s, &[&a, &b], "short_row_sums")
}

/// Few rows or columns: `parts` of each in parallel.
fn part_sums(element: ElementType, by: usize, parts: i32, lanes: i32) -> Result<Program, TeError> {
    let (a, b) = sums(element, by)?;
    let mut s = te::create_schedule(&[&b]);
    let (ko, _) = s.stage(&b)?.split_parts(b.reduce_axis(0)?, parts)?;
    let bf = s.rfactor(&b, ko)?;
    let (own, ki) = axes(&s, &bf)?;
    let (part, output) = (own[0], own[1]);
    let stage = s.stage(&bf)?;
    if by == 1 {
        let (_, inner) = stage.split(ki[0], lanes)?;
        let bff = s.rfactor(&bf, inner)?;
        let (own, k) = axes(&s, &bff)?;
        let (rows, _) = axes(&s, &bf)?;
        s.compute_at(&bff, &bf, rows[1])?;
        s.stage(&bff)?.reorder(&[own[1], own[2], k[0], own[0]])?;
        s.stage(&bff)?.vectorize(own[0])?;
        s.stage(&bf)?.parallel(rows[0])?;
    } else {
        // A few rows at a time are added up in registers.
        let (outer, inner) = stage.split(ki[0], lanes)?;
        stage.reorder(&[part, outer, output, inner])?;
        stage.vectorize(output)?;
        stage.parallel(part)?;
    }
    te::lower(&s, &[&a, &b], "part_sums")
}

/// Strips of `width` columns in parallel, 4 rows at a time: these are added up in registers.
fn strip_sums(element: ElementType, width: i32) -> Result<Program, TeError> {
    let (a, b) = sums(element, 0)?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, inner) = stage.split(b.axis(0)?, width)?;
    let (ko, ki) = stage.split(b.reduce_axis(0)?, 4)?;
    stage.reorder(&[outer, ko, inner, ki])?;
    stage.vectorize(inner)?;
    stage.parallel(outer)?;
    te::lower(&s, &[&a, &b], "strip_sums")
}

/// Reads everything, on all threads: the exclusive or of the bits, so that no read can be left out.
fn read<T: Element>(values: &[T]) -> u32 {
    let words: &[u32] = bytemuck::cast_slice(T::bytes(values));
    let part = |part: &[u32]| -> u32 {
        let mut bits = [0u32; 64];
        for chunk in part.chunks_exact(64) {
            for (bits, word) in bits.iter_mut().zip(chunk) {
                *bits ^= word;
            }
        }
        bits.iter().fold(0, |all, bits| all ^ bits)
    };
    words.par_chunks(1 << 16).map(part).reduce(|| 0, |a, b| a ^ b)
}

/// A matrix's extents, and the hand-written schedules of its column and row sums.
struct Case {
    rows: usize,
    columns: usize,
    schedules: fn(ElementType) -> [Result<Program, TeError>; 2],
}

fn group<'a>(c: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = c.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1500));
    group
}

/// Sums along an axis by ndarray.
type Peer<T> = fn(&ArrayView2<'_, T>, ndarray::Axis);

fn bench_sums<T: Element>(c: &mut Criterion, case: &Case, of: fn(f32) -> T, peer: Option<Peer<T>>) {
    let (rows, columns) = (case.rows, case.columns);
    let mut random = fastrand::Rng::with_seed(1);
    let values: Vec<T> = (0..rows * columns).map(|_| of(random.f32() - 0.5)).collect();
    let mut group = group(c, &format!("{} {rows} x {columns}", T::TYPE));
    group.throughput(Throughput::Bytes(size_of_val(values.as_slice()) as u64));
    let device = Device::cpu();
    let a = device.tensor(&values, [rows, columns]).expect("there is memory");
    drop(values);
    // All contestants read the same memory, since its speed depends on its pages.
    // SAFETY: the tensor lives on, is as long and is never written.
    let values = unsafe { std::slice::from_raw_parts(a.device_address() as *const T, rows * columns) };
    group.bench_function("memory read", |bench| bench.iter(|| read(black_box(values))));
    let wide = if T::TYPE == ElementType::F64 { ElementType::F64 } else { ElementType::F32 };
    for (by, schedule) in (case.schedules)(T::TYPE).into_iter().enumerate() {
        let (name, len) = if by == 1 { ("row sums", rows) } else { ("column sums", columns) };
        let (_, b) = sums(T::TYPE, by).expect("it is well formed");
        let auto = te::auto::reduce(&b).expect("it is a reduction").build(&device).expect("it builds");
        let mut result = device.zeros_of(wide, [len]).expect("there is memory");
        group.bench_function(format!("{name}, auto"), |bench| {
            bench.iter(|| auto.run(&[(&a).into(), (&mut result).into()]).expect("it runs"));
        });
        let kernel = native::compile(&schedule.expect("it lowers")).expect("it compiles");
        let mut bytes = vec![0u8; len * wide.size()];
        group.bench_function(format!("{name}, native"), |bench| {
            bench.iter(|| {
                let mut arguments = [
                    HostTensor::read(values, &[rows, columns]).expect("the shape holds the values"),
                    HostTensor::write_bytes(wide, &mut bytes, &[len]).expect("the shape holds the values"),
                ];
                kernel.run(&mut arguments).expect("the kernel runs");
            });
        });
    }
    let matrix = ArrayView2::from_shape((rows, columns), values).expect("the shape holds the values");
    for (name, by) in [("column sums, ndarray", 0), ("row sums, ndarray", 1)] {
        if let Some(peer) = peer {
            group.bench_function(name, |bench| bench.iter(|| peer(black_box(&matrix), ndarray::Axis(by))));
        }
    }
    group.finish();
}

const CASES: [Case; 5] = [
    Case { rows: 4096, columns: 4096, schedules: |t| [part_sums(t, 0, 32, 4), row_sums(t, 32)] },
    Case { rows: 8192, columns: 1000, schedules: |t| [part_sums(t, 0, 32, 4), row_sums(t, 32)] },
    Case { rows: 1000, columns: 8192, schedules: |t| [part_sums(t, 0, 20, 4), row_sums(t, 32)] },
    Case { rows: 10_000_000, columns: 3, schedules: |t| [part_sums(t, 0, 64, 4), short_row_sums(t)] },
    Case { rows: 3, columns: 10_000_000, schedules: |t| [strip_sums(t, 4096), part_sums(t, 1, 64, 32)] },
];

fn all_sums(c: &mut Criterion) {
    for case in &CASES {
        bench_sums::<f32>(c, case, |x| x, Some(|matrix, axis| drop(black_box(matrix.sum_axis(axis)))));
    }
    bench_sums::<f64>(c, &CASES[0], f64::from, Some(|matrix, axis| drop(black_box(matrix.sum_axis(axis)))));
    bench_sums::<f16>(c, &CASES[0], f16::from_f32, None);
}

fn normalisations(c: &mut Criterion) {
    type Case = (&'static str, Result<Tensor, TeError>, fn(&Array2<f32>) -> Array2<f32>);
    let (rows, columns) = (4096, 1024);
    let mut random = fastrand::Rng::with_seed(1);
    let values: Vec<f32> = (0..rows * columns).map(|_| random.f32() * 8.0 - 4.0).collect();
    let device = Device::cpu();
    let x = device.tensor(&values, [rows, columns]).expect("there is memory");
    let mut y = device.zeros::<f32>([rows, columns]).expect("there is memory");
    let array = Array2::from_shape_vec((rows, columns), values).expect("the shape holds the values");
    let (_, _, a) = matrix(ElementType::F32);
    let cases: [Case; 2] = [
        ("softmax", te::ops::softmax(&a, 1), ndarray_rows::softmax),
        ("layer norm", te::ops::layer_norm(&a, [1], None, None, 1e-5), ndarray_rows::layer_norm),
    ];
    for (name, output, peer) in cases {
        let mut group = group(c, &format!("{name} of {rows} x {columns} f32"));
        group.throughput(Throughput::Bytes((2 * rows * columns * 4) as u64));
        let output = output.expect("it is well formed");
        let kernel = te::auto::reduce(&output).expect("it is a reduction").build(&device).expect("it builds");
        group.bench_function("auto", |bench| {
            bench.iter(|| kernel.run(&[(&x).into(), (&mut y).into()]).expect("it runs"));
        });
        group.bench_function("ndarray", |bench| bench.iter(|| peer(black_box(&array))));
        group.finish();
    }
}

fn compile(c: &mut Criterion) {
    let f32s = ElementType::F32;
    for program in [row_sums(f32s, 32), part_sums(f32s, 0, 32, 4), strip_sums(f32s, 2048), part_sums(f32s, 1, 64, 32)] {
        let program = program.expect("it lowers");
        c.bench_function(&format!("compile {}", program.name), |bench| {
            bench.iter(|| native::compile(black_box(&program)).expect("it compiles"));
        });
    }
}

criterion_group!(benches, all_sums, normalisations, compile);
criterion_main!(benches);
