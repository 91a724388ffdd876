//! How compile time grows with a program's text: chains of automatic maps, and virtual threads.
//!
//! `cargo bench --bench compile`. Needs no NVRTC and no GPU.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark is a program")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use epilogue::Device;
use epilogue::te::{self, Program, Tensor};

/// Stages that each read the one before twice.
fn chain(stages: usize) -> Tensor {
    let x = te::placeholder([64], "x");
    (0..stages).fold(x, |u, _| te::compute([64], "u", |[i]| u.at([i]) * 0.5 + u.at([i]) * 0.5).unwrap())
}

/// A map of a size by this many virtual threads, each with an inner split.
fn virtual_threads(parts: i32) -> Program {
    let n = te::var("n");
    let x = te::placeholder([n, n], "x");
    let y = te::compute([n, n], "y", |[i, j]| x.at([i, j]) * 2.0).unwrap();
    let mut s = te::create_schedule(&[&y]);
    let stage = s.stage(&y).unwrap();
    let (outer, inner) = stage.split_parts(y.axis(1).unwrap(), parts).unwrap();
    stage.bind(outer, te::thread_axis("vthread")).unwrap();
    stage.split(inner, 4).unwrap();
    te::lower(&s, &[&x, &y], "main").unwrap()
}

fn compile(criterion: &mut Criterion) {
    let cpu = Device::cpu();
    for stages in [25, 50, 100, 200] {
        let y = chain(stages);
        criterion.bench_function(&format!("an automatic map of {stages} stages"), |b| {
            b.iter(|| black_box(te::auto::map(&y).unwrap().build(&cpu)).is_ok());
        });
    }
    for parts in [2, 4, 8, 16] {
        criterion.bench_function(&format!("{parts} virtual threads, lowered"), |b| {
            b.iter(|| black_box(virtual_threads(parts)));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(500));
    targets = compile
}
criterion_main!(benches);
