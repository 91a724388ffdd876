//! Programs as users of tensor expressions write them, each compared with a plain loop on every target.

use epilogue::ElementType;
use epilogue::te::{self, Expr, TeError};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

const F32: ElementType = ElementType::F32;

fn numbers(shape: &[usize], seed: u64) -> Numbers {
    Numbers::new(F32, shape, integers(shape.iter().product(), seed))
}

fn check(program: &te::Program, inputs: &[Numbers], expected: &[(&[usize], Vec<f64>)]) {
    let outputs: Vec<_> = expected.iter().map(|(shape, _)| (F32, shape.to_vec())).collect();
    let results = run(program, inputs, &outputs);
    results.assert_equal();
    for ((_, expected), result) in expected.iter().zip(&results.interpreted) {
        assert_eq!(expected, result, "{}", program.script());
    }
}

#[test]
fn tensors_without_dimensions() -> Result<(), TeError> {
    if lacks_nvrtc("tensors_without_dimensions") {
        return Ok(());
    }
    let n = te::var("n");
    let (a, scale) = (te::placeholder([n], "A"), te::placeholder((), "scale"));
    let k = te::reduce_axis((0, n), "k");
    let total = te::compute((), "total", |[]| te::sum(a.at([k]) * scale.at(()), [k]))?;
    let b = te::compute([n], "B", |[i]| a.at([i]) - total.at(()))?;
    let one = te::compute((), "one", |[]| total.at(()) + 1.0)?;
    let s = te::create_schedule(&[&b, &one]);
    let program = te::lower(&s, &[&a, &scale, &b, &one], "main")?;
    for n in [0, 1, 7] {
        let x = numbers(&[n], 3);
        let sum: f64 = x.values.iter().map(|x| 2.0 * x).sum();
        let expected = x.values.iter().map(|x| x - sum).collect();
        check(&program, &[x, Numbers::new(F32, &[], vec![2.0])], &[(&[n], expected), (&[], vec![sum + 1.0])]);
    }
    Ok(())
}

#[test]
fn a_row_sum_over_threads_with_a_consumer() -> Result<(), TeError> {
    if lacks_nvrtc("a_row_sum_over_threads_with_a_consumer") {
        return Ok(());
    }
    let (m, n) = (te::var("m"), te::var("n"));
    let a = te::placeholder([m, n], "A");
    let k = te::reduce_axis((0, n), "k");
    let bb = te::compute([m], "BB", |[i]| te::sum(a.at([i, k]), [k]))?;
    let c = te::compute([m], "C", |[i]| bb.at([i]) + 1.0)?;
    let mut s = te::create_schedule(&[&c]);
    let (_, ki) = s.stage(&bb)?.split(bb.reduce_axis(0)?, 16)?;
    let bf = s.rfactor(&bb, ki)?;
    let tx = te::thread_axis("threadIdx.x");
    let i = c.axis(0)?;
    s.stage(&c)?.bind(i, te::thread_axis("blockIdx.x"))?;
    s.compute_at(&bb, &c, i)?;
    let r = s.operation(&bb)?.reduce_axis(0)?;
    s.stage(&bb)?.bind(r, tx)?;
    s.compute_at(&bf, &bb, r)?;
    s.stage(&c)?.set_store_predicate(tx.equal(0))?;
    let program = te::lower(&s, &[&a, &c], "main")?;
    for (m, n) in [(10, 1025), (1, 1), (3, 15), (4, 16)] {
        let x = numbers(&[m, n], 5);
        let expected = (0..m).map(|i| x.values[i * n..][..n].iter().sum::<f64>() + 1.0).collect();
        check(&program, &[x], &[(&[m], expected)]);
    }
    Ok(())
}

/// A 2-D convolution with padding and stride; the padded image is never stored.
#[test]
fn a_padded_convolution() -> Result<(), TeError> {
    if lacks_nvrtc("a_padded_convolution") {
        return Ok(());
    }
    let (h, w, channels) = (te::var("h"), te::var("w"), te::var("channels"));
    let image = te::placeholder((channels, h, w), "image");
    let weights = te::placeholder((5, channels, 3, 3), "weights");
    let padded = te::compute((channels, h + 2, w + 2), "padded", |[c, y, x]| {
        let inside = y.greater_equal(1).and(y.less(h + 1)).and(x.greater_equal(1)).and(x.less(w + 1));
        inside.select(image.at((c, y - 1, x - 1)), 0.0)
    })?;
    let rc = te::reduce_axis((0, channels), "rc");
    let (ry, rx) = (te::reduce_axis((0, 3), "ry"), te::reduce_axis((0, 3), "rx"));
    let out = te::compute((5, (h + 1).floor_div(2), (w + 1).floor_div(2)), "out", |[f, y, x]| {
        te::sum(padded.at((rc, y * 2 + ry, x * 2 + rx)) * weights.at((f, rc, ry, rx)), [rc, ry, rx])
    })?;
    let mut s = te::create_schedule(&[&out]);
    s.compute_inline(&padded)?;
    let stage = s.stage(&out)?;
    let pixel = stage.fuse(out.axis(1)?, out.axis(2)?)?;
    let (block, thread) = stage.split(pixel, 8)?;
    stage.bind(out.axis(0)?, te::thread_axis("blockIdx.y"))?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&image, &weights, &out], "main")?;
    for (h, w, channels) in [(5, 6, 3), (1, 1, 1), (2, 7, 0)] {
        let (x, f) = (numbers(&[channels, h, w], 1), numbers(&[5, channels, 3, 3], 2));
        let (oh, ow) = (h.div_ceil(2), w.div_ceil(2));
        let mut expected = vec![0.0; 5 * oh * ow];
        for (at, value) in expected.iter_mut().enumerate() {
            let (o, y, x0) = (at / (oh * ow), at / ow % oh, at % ow);
            for tap in 0..channels * 9 {
                let (c, ry, rx) = (tap / 9, tap / 3 % 3, tap % 3);
                let (iy, ix) = (y * 2 + ry, x0 * 2 + rx);
                if (1..=h).contains(&iy) && (1..=w).contains(&ix) {
                    *value += x.values[(c * h + iy - 1) * w + ix - 1] * f.values[(o * channels + c) * 9 + ry * 3 + rx];
                }
            }
        }
        check(&program, &[x, f], &[(&[5, oh, ow], expected)]);
    }
    Ok(())
}

#[test]
fn an_index_that_is_data() -> Result<(), TeError> {
    if lacks_nvrtc("an_index_that_is_data") {
        return Ok(());
    }
    let (n, rows, d) = (te::var("n"), te::var("rows"), te::var("d"));
    let table = te::placeholder([rows, d], "table");
    let index = te::placeholder_of(ElementType::I32, [n], "index");
    let out = te::compute([n, d], "out", |[i, j]| table.at((index.at([i]), j)))?;
    let mut s = te::create_schedule(&[&out]);
    let stage = s.stage(&out)?;
    stage.bind(out.axis(0)?, te::thread_axis("blockIdx.x"))?;
    stage.bind(out.axis(1)?, te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&table, &index, &out], "main")?;
    let x = numbers(&[9, 5], 4);
    let picks = vec![8.0, 0.0, 3.0, 3.0];
    let expected = picks.iter().flat_map(|p| x.values[*p as usize * 5..][..5].to_vec()).collect();
    check(&program, &[x, Numbers::new(ElementType::I32, &[4], picks)], &[(&[4, 5], expected)]);
    Ok(())
}

/// The loops of a reduction outside those of the result, with tails everywhere.
#[test]
fn reduction_loops_outside() -> Result<(), TeError> {
    if lacks_nvrtc("reduction_loops_outside") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, n), "k");
    let b = te::compute([m], "B", |[j]| te::sum(a.at([k, j]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (jo, ji) = stage.split(b.axis(0)?, 12)?;
    let (jm, ji) = stage.split(ji, 5)?;
    let (ko, ki) = stage.split(k, 7)?;
    stage.reorder(&[jo, ko, jm, ki, ji])?;
    stage.bind(jo, te::thread_axis("blockIdx.x"))?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    for (n, m) in [(20, 30), (7, 12), (1, 1), (0, 5), (9, 0)] {
        let x = numbers(&[n, m], 6);
        let expected = (0..m).map(|j| (0..n).map(|k| x.values[k * m + j]).sum()).collect();
        check(&program, &[x], &[(&[m], expected)]);
    }
    Ok(())
}

/// Softmax in stages, each at its own place in one launch.
#[test]
fn a_chain_of_reductions_in_one_launch() -> Result<(), TeError> {
    if lacks_nvrtc("a_chain_of_reductions_in_one_launch") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let (k, k2) = (te::reduce_axis((0, m), "k"), te::reduce_axis((0, m), "k2"));
    let top = te::compute([n], "top", |[i]| te::max(a.at([i, k]), [k]))?;
    let below = te::compute([n, m], "below", |[i, j]| a.at([i, j]) - top.at([i]))?;
    let total = te::compute([n], "total", |[i]| te::sum(below.at([i, k2]), [k2]))?;
    let out = te::compute([n, m], "out", |[i, j]| below.at([i, j]) + total.at([i]))?;
    let mut s = te::create_schedule(&[&out]);
    let tx = te::thread_axis("threadIdx.x");
    let i = out.axis(0)?;
    let stage = s.stage(&out)?;
    stage.bind(i, te::thread_axis("blockIdx.x"))?;
    let (_, ji) = stage.split(out.axis(1)?, 32)?;
    stage.bind(ji, tx)?;
    for (sum, k) in [(&top, k), (&total, k2)] {
        let (_, ki) = s.stage(sum)?.split(k, 32)?;
        let part = s.rfactor(sum, ki)?;
        s.compute_at(sum, &out, i)?;
        let r = s.operation(sum)?.reduce_axis(0)?;
        s.stage(sum)?.bind(r, tx)?;
        s.compute_at(&part, sum, r)?;
        s.set_scope(sum, "shared")?;
    }
    s.compute_inline(&below)?;
    let program = te::lower(&s, &[&a, &out], "main")?;
    for (n, m) in [(3, 100), (1, 1), (2, 32), (2, 31)] {
        let x = numbers(&[n, m], 9);
        let row = |i: usize| &x.values[i * m..][..m];
        let expected = (0..n)
            .flat_map(|i| {
                let top = row(i).iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = row(i).iter().map(|x| x - top).sum();
                row(i).iter().map(|x| x - top + total).collect::<Vec<_>>()
            })
            .collect();
        check(&program, std::slice::from_ref(&x), &[(&[n, m], expected)]);
    }
    Ok(())
}

/// The compiler may merge the two reads into one load, but not into a load of read-only memory.
#[test]
fn a_choice_between_an_input_and_what_the_kernel_wrote() -> Result<(), TeError> {
    if lacks_nvrtc("a_choice_between_an_input_and_what_the_kernel_wrote") {
        return Ok(());
    }
    let (n, m) = (5, 7);
    let a = te::placeholder([n, m], "A");
    let last = te::comm_reducer(|x, y| y.greater(0.0).select(y, x), |_| 0.0.into(), "last_positive");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| last.over(a.at([i, k]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.bind(b.axis(0)?, te::thread_axis("blockIdx.x"))?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    let [n, m] = [n, m].map(|extent| usize::try_from(extent).expect("a size"));
    let x = numbers(&[n, m], 13);
    let last = |row: &[f64]| row.iter().copied().rfind(|x| *x > 0.0).unwrap_or(0.0);
    let expected = x.values.chunks(m).map(last).collect();
    check(&program, &[x], &[(&[n], expected)]);
    Ok(())
}

/// Tensors and programs may have any names, including those that mean something in C++ or can't be written there.
#[test]
fn any_name() -> Result<(), TeError> {
    if lacks_nvrtc("any_name") {
        return Ok(());
    }
    let names =
        ["int", "A B", "", "é", "main_kernel", "n", "blockIdx", "1x", "A.b", "float4", "__shared__", "A_v", "NULL"];
    for name in names {
        let n = te::var("n");
        let (a, other) = (te::placeholder([n], name), te::placeholder([n], name));
        let b = te::compute([n], name, |[i]| a.at([i]) + other.at([i]) * 2.0)?;
        let c = te::compute([n], name, |[i]| b.at([i]) + 1.0)?;
        let mut s = te::create_schedule(&[&c]);
        let stage = s.stage(&c)?;
        let (outer, inner) = stage.split(c.axis(0)?, 4)?;
        stage.bind(outer, te::thread_axis("blockIdx.x"))?;
        stage.bind(inner, te::thread_axis("threadIdx.x"))?;
        s.compute_at(&b, &c, outer)?;
        let program = te::lower(&s, &[&a, &other, &c], name)?;
        let (x, y) = (numbers(&[7], 1), numbers(&[7], 2));
        let expected = x.values.iter().zip(&y.values).map(|(x, y)| x + 2.0 * y + 1.0).collect();
        check(&program, &[x, y], &[(&[7], expected)]);
    }
    Ok(())
}

/// A sum of all elements: over blocks, and over threads in each block.
#[test]
fn a_reduction_factored_twice() -> Result<(), TeError> {
    if lacks_nvrtc("a_reduction_factored_twice") {
        return Ok(());
    }
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let k = te::reduce_axis((0, n), "k");
    let b = te::compute((), "B", |[]| te::sum(a.at([k]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let (ko, _) = s.stage(&b)?.split(k, 64)?;
    let (bo, _) = s.stage(&b)?.split_parts(ko, 4)?;
    let f = s.rfactor(&b, bo)?;
    let inner = s.operation(&f)?.reduce_axis(1)?;
    let (_, t) = s.stage(&f)?.split(inner, 16)?;
    let g = s.rfactor(&f, t)?;
    let tx = te::thread_axis("threadIdx.x");
    let fa = s.operation(&f)?.axis(0)?;
    s.stage(&f)?.bind(fa, te::thread_axis("blockIdx.x"))?;
    let r = s.operation(&f)?.reduce_axis(0)?;
    s.stage(&f)?.bind(r, tx)?;
    s.compute_at(&g, &f, r)?;
    let r = s.operation(&b)?.reduce_axis(0)?;
    s.stage(&b)?.bind(r, te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    for n in [0, 1, 5, 64, 1000] {
        let x = numbers(&[n], 1);
        let sum = x.values.iter().sum::<f64>();
        check(&program, &[x], &[(&[], vec![sum])]);
    }
    Ok(())
}

/// f16 in and out, sums in f32, vectors with a tail.
#[test]
fn a_product_of_halves() -> Result<(), TeError> {
    if lacks_nvrtc("a_product_of_halves") {
        return Ok(());
    }
    let (n, m, l) = (te::var("n"), te::var("m"), te::var("l"));
    let (a, b) = (te::placeholder_of(ElementType::F16, [n, l], "A"), te::placeholder_of(ElementType::F16, [m, l], "B"));
    let k = te::reduce_axis((0, l), "k");
    let c = te::compute([n, m], "C", |[i, j]| te::sum(a.at([i, k]).cast(F32) * b.at([j, k]).cast(F32), [k]))?;
    let d = te::compute([n, m], "D", |[i, j]| c.at([i, j]).max(0.0).cast(ElementType::F16))?;
    let mut s = te::create_schedule(&[&d]);
    let (i, j) = (d.axis(0)?, d.axis(1)?);
    let stage = s.stage(&d)?;
    let (jo, ji) = stage.split(j, 8)?;
    stage.bind(i, te::thread_axis("blockIdx.x"))?;
    stage.bind(jo, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&c, &d, jo)?;
    s.stage(&d)?.vectorize(ji)?;
    let (_, ki) = s.stage(&c)?.split(k, 4)?;
    s.stage(&c)?.unroll(ki)?;
    let cj = c.axis(1)?;
    s.stage(&c)?.vectorize(cj)?;
    let program = te::lower(&s, &[&a, &b, &d], "main")?;
    for (n, m, l) in [(3, 16, 8), (2, 13, 7), (1, 1, 1)] {
        let h = |len: usize, seed| Numbers::new(ElementType::F16, &[len / l, l], integers(len, seed));
        let (x, y) = (h(n * l, 1), h(m * l, 2));
        let expected: Vec<f64> = (0..n * m)
            .map(|at| (0..l).map(|k| x.values[at / m * l + k] * y.values[at % m * l + k]).sum::<f64>().max(0.0))
            .collect();
        let results = run(&program, &[x, y], &[(ElementType::F16, vec![n, m])]);
        results.assert_equal();
        assert_eq!(results.interpreted[0], expected);
    }
    Ok(())
}

/// The index and length with which the consumer reads the producer.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Shifted(i32),
    Strided(i32, i32),
    Reversed,
    Repeated(i32),
    Wrapped(i32),
    Clamped(i32),
}

impl Reading {
    /// The producer's index.
    fn index(self, i: te::Axis, n: te::Var) -> Expr {
        match self {
            Self::Shifted(by) => i + by,
            Self::Strided(step, by) => i * step + by,
            Self::Reversed => n - 1 - i,
            Self::Repeated(times) => i.floor_div(times),
            Self::Wrapped(period) => i.floor_mod(period),
            Self::Clamped(by) => (i + by).min(n - 1),
        }
    }

    /// The producer's length.
    fn length(self, n: Expr) -> Expr {
        match self {
            Self::Shifted(by) => n + by,
            Self::Strided(step, by) => n * step + by,
            Self::Wrapped(period) => n + period,
            _ => n,
        }
    }

    /// The producer's index as a number.
    fn at(self, i: i64, n: i64) -> i64 {
        match self {
            Self::Shifted(by) => i + i64::from(by),
            Self::Strided(step, by) => i * i64::from(step) + i64::from(by),
            Self::Reversed => n - 1 - i,
            Self::Repeated(times) => i / i64::from(times),
            Self::Wrapped(period) => i % i64::from(period),
            Self::Clamped(by) => (i + i64::from(by)).min(n - 1),
        }
    }
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        (0..5).prop_map(Reading::Shifted),
        (1..4, 0..3).prop_map(|(step, by)| Reading::Strided(step, by)),
        Just(Reading::Reversed),
        (1..5).prop_map(Reading::Repeated),
        (1..5).prop_map(Reading::Wrapped),
        (0..4).prop_map(Reading::Clamped),
    ]
}

/// The producer inside a loop of its consumer: it computes only what that loop's iteration reads.
fn producer_inside(
    reading: Reading,
    (outer, inner): (i32, i32),
    place: usize,
    scope: &str,
    threads: bool,
    n: usize,
) -> Result<(), TeError> {
    let length = te::var("n");
    let a = te::placeholder([reading.length(length.into())], "A");
    let b = te::compute([reading.length(length.into())], "B", |[i]| a.at([i]) * 2.0 + 1.0)?;
    let c = te::compute([length], "C", |[i]| b.at([reading.index(i, length)]))?;
    let mut s = te::create_schedule(&[&c]);
    let stage = s.stage(&c)?;
    let (io, ii) = stage.split(c.axis(0)?, outer)?;
    let (im, ii) = stage.split(ii, inner)?;
    stage.bind(io, te::thread_axis("blockIdx.x"))?;
    let tx = te::thread_axis("threadIdx.x");
    if threads {
        stage.bind(im, tx)?;
    }
    s.compute_at(&b, &c, [io, im, ii][place])?;
    s.set_scope(&b, scope)?;
    if threads && place == 0 {
        let (_, lane) = s.stage(&b)?.split(b.axis(0)?, (outer + inner - 1) / inner)?;
        s.stage(&b)?.bind(lane, tx)?;
    }
    let program = te::lower(&s, &[&a, &c], "main")?;
    let len = |n: usize| match reading {
        Reading::Shifted(by) => n + by as usize,
        Reading::Strided(step, by) => n * step as usize + by as usize,
        Reading::Wrapped(period) => n + period as usize,
        _ => n,
    };
    let x = numbers(&[len(n)], 11);
    let value = |i: i64| x.values[i as usize] * 2.0 + 1.0;
    let expected = (0..n as i64).map(|i| value(reading.at(i, n as i64))).collect();
    check(&program, std::slice::from_ref(&x), &[(&[n], expected)]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    #[test]
    fn a_producer_inside_its_consumer(
        reading in reading(),
        split in (1..20, 1..8),
        place in 0_usize..3,
        shared: bool,
        threads: bool,
        n in 0_usize..50,
    ) {
        if !lacks_nvrtc("a_producer_inside_its_consumer") {
            // Outside the threads' loop, all threads share it; inside, each has its own.
            let scope = if (threads && place == 0) || (shared && !threads) { "shared" } else { "local" };
            if let Err(error) = producer_inside(reading, split, place, scope, threads, n) {
                return Err(TestCaseError::fail(error.to_string()));
            }
        }
    }
}
