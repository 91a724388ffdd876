//! Tensor expressions on the CPU: row and column sums of a matrix against ndarray and against reading the same memory, and
//! how long a kernel takes to compile.

#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use epilogue::te::native::{self, HostTensor, NativeKernel};
use epilogue::te::{self, Program, TeError, Tensor};
use rayon::prelude::*;

const SIDE: usize = 4096;

/// Rows in parallel; each adds `lanes` interleaved partial sums, which are vectors, and these at the end.
fn row_sums(lanes: i32) -> Result<Program, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let (_, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, lanes)?;
    let bf = s.rfactor(&b, ki)?;
    let parts = |s: &te::Schedule, tensor: &Tensor| -> Result<(te::Axis, te::Axis), TeError> {
        let missing = TeError::NotScheduled { tensor: tensor.name() };
        let compute = s.operation(tensor)?.as_compute().ok_or(missing)?;
        Ok((compute.axes[0], compute.reduce_axes[0]))
    };
    let (row, partial) = parts(&s, &b)?;
    let (lane, ko) = parts(&s, &bf)?;
    s.compute_at(&bf, &b, row)?;
    s.stage(&bf)?.reorder(&[ko, lane])?;
    s.stage(&bf)?.vectorize(lane)?;
    s.stage(&b)?.unroll(partial)?;
    s.stage(&b)?.parallel(row)?;
    te::lower(&s, &[&a, &b], "row_sums")
}

/// Strips of `width` columns in parallel, 8 rows at a time: these are added up in registers.
fn column_sums(width: i32) -> Result<Program, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, n), "k");
    let b = te::compute([m], "B", |[j]| te::sum(a.at((k, j)), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, inner) = stage.split(b.axis(0)?, width)?;
    let (ko, ki) = stage.split(k, 8)?;
    stage.reorder(&[outer, ko, inner, ki])?;
    stage.vectorize(inner)?;
    stage.parallel(outer)?;
    te::lower(&s, &[&a, &b], "column_sums")
}

/// Reads all of it, on all threads: the sum of the bits, so that nothing is left out.
fn read(values: &[f32]) -> u64 {
    let part = |part: &[f32]| -> u64 {
        let mut sums = [0u32; 64];
        for chunk in part.chunks_exact(64) {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum ^= value.to_bits();
            }
        }
        sums.iter().map(|sum| u64::from(*sum)).sum()
    };
    values.par_chunks(1 << 18).map(part).sum()
}

fn run(kernel: &NativeKernel, a: &[f32], b: &mut [f32]) {
    let mut arguments = [
        HostTensor::read(a, &[SIDE, SIDE]).expect("the shape holds the values"),
        HostTensor::write(b, &[SIDE]).expect("the shape holds the values"),
    ];
    kernel.run(&mut arguments).expect("the kernel runs");
}

fn sums(c: &mut Criterion) {
    let mut random = fastrand::Rng::with_seed(1);
    let values: Vec<f32> = (0..SIDE * SIDE).map(|_| random.f32() - 0.5).collect();
    let matrix = ndarray::ArrayView2::from_shape((SIDE, SIDE), &values).expect("the shape holds the values");
    let mut result = vec![0.0f32; SIDE];
    let mut group = c.benchmark_group("sums of 4096 x 4096 f32");
    group.throughput(Throughput::Bytes((values.len() * 4) as u64));
    group.bench_function("memory read", |bench| bench.iter(|| read(black_box(&values))));
    let rows = native::compile(&row_sums(32).expect("it lowers")).expect("it compiles");
    group.bench_function("rows, native", |bench| bench.iter(|| run(&rows, black_box(&values), &mut result)));
    let columns = native::compile(&column_sums(2048).expect("it lowers")).expect("it compiles");
    group.bench_function("columns, native", |bench| bench.iter(|| run(&columns, black_box(&values), &mut result)));
    group.bench_function("rows, ndarray", |bench| bench.iter(|| black_box(&matrix).sum_axis(ndarray::Axis(1))));
    group.bench_function("columns, ndarray", |bench| bench.iter(|| black_box(&matrix).sum_axis(ndarray::Axis(0))));
    group.finish();
}

fn compile(c: &mut Criterion) {
    let programs = [row_sums(32), column_sums(2048)].map(|program| program.expect("it lowers"));
    for program in &programs {
        c.bench_function(&format!("compile {}", program.name), |bench| {
            bench.iter(|| native::compile(black_box(program)).expect("it compiles"));
        });
    }
}

criterion_group!(benches, sums, compile);
criterion_main!(benches);
