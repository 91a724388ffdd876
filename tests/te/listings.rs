//! The complete listings of TVM's reduction and scan tutorials: the same text, except for comments and imports.

use epilogue::te::{self, TeError, Tensor};

fn check(schedule: &te::Schedule, arguments: &[&Tensor], golden: &str) -> Result<(), TeError> {
    let script = te::lower(schedule, arguments, "main")?.script();
    let lines = script.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let ours: String = lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(ours, golden, "ours:\n{ours}\ngolden:\n{golden}");
    Ok(())
}

/// Row sums of an n×m matrix: `(A, B)`.
fn row_sums() -> Result<(Tensor, Tensor), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    Ok((a, b))
}

#[test]
fn default_reduction() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let s = te::create_schedule(&[&b]);
    check(&s, &[&a, &b], include_str!("../golden/te/reduction_default.txt"))
}

#[test]
fn split_reduction() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    s.stage(&b)?.split(b.axis(0)?, 32)?;
    check(&s, &[&a, &b], include_str!("../golden/te/reduction_split.txt"))
}

#[test]
fn rows_bound_to_threads() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    let (xo, xi) = s.stage(&b)?.split(b.axis(0)?, 32)?;
    s.stage(&b)?.bind(xo, te::thread_axis("blockIdx.x"))?;
    s.stage(&b)?.bind(xi, te::thread_axis("threadIdx.x"))?;
    check(&s, &[&a, &b], include_str!("../golden/te/reduction_bind.txt"))
}

#[test]
fn factored_reduction() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    let (_ko, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    s.rfactor(&b, ki)?;
    check(&s, &[&a, &b], include_str!("../golden/te/reduction_rfactor.txt"))?;
    assert_eq!(
        s.operation(&b)?.body_text(),
        "[T.reduce(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), source=[B.rf[k_inner_v, ax0]], init=[], \
         axis=[T.iter_var(k_inner_v, T.Range(0, 16), \"CommReduce\", \"\")], condition=T.bool(True), value_index=0)]"
    );
    Ok(())
}

#[test]
fn convolution() -> Result<(), TeError> {
    let n = te::var("n");
    let input = te::placeholder([n, n], "Input");
    let filter = te::placeholder([3, 3], "Filter");
    let (di, dj) = (te::reduce_axis((0, 3), "di"), te::reduce_axis((0, 3), "dj"));
    let output = te::compute([n - 2, n - 2], "Output", |[i, j]| {
        te::sum(input.at([i + di, j + dj]) * filter.at([di, dj]), [di, dj])
    })?;
    let s = te::create_schedule(&[&output]);
    check(&s, &[&input, &filter, &output], include_str!("../golden/te/convolution.txt"))
}

/// A computation over time and one more axis, named as the tutorial names them.
fn recurrent(
    shape: impl te::Indices,
    name: &str,
    body: impl FnOnce([te::Axis; 2]) -> te::Expr,
) -> Result<Tensor, TeError> {
    Ok(te::compute_named(shape, name, ["t", "i"], |axes| vec![body(axes)])?.swap_remove(0))
}

#[test]
fn scan_bound_to_threads() -> Result<(), TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "placeholder");
    let init = recurrent((1, n), "compute", |[_, i]| x.at((0, i)))?;
    let update = recurrent([m, n], "compute", |[t, i]| state.at((t - 1, i)) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
    let mut s = te::create_schedule(&[&scan]);
    let (block, thread) = (te::thread_axis("blockIdx.x"), te::thread_axis("threadIdx.x"));
    for part in [&init, &update] {
        let (xo, xi) = s.stage(part)?.split(part.axis(1)?, 256)?;
        s.stage(part)?.bind(xo, block)?;
        s.stage(part)?.bind(xi, thread)?;
    }
    check(&s, &[&x, &scan], include_str!("../golden/te/scan_threads.txt"))
}

#[test]
fn scan_of_several_stages() -> Result<(), TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "placeholder");
    let init = recurrent((1, n), "compute", |[_, i]| x.at((0, i)))?;
    let s1 = recurrent([m, n], "s1", |[t, i]| state.at((t - 1, i)) * 2)?;
    let s2 = recurrent([m, n], "s2", |[t, i]| s1.at([t, i]) + x.at([t, i]))?;
    let scan = te::scan(&init, &s2, &state, std::slice::from_ref(&x))?;
    let mut s = te::create_schedule(&[&scan]);
    let (xo, _xi) = s.stage(&s2)?.split(s2.axis(1)?, 32)?;
    s.compute_at(&s1, &s2, xo)?;
    check(&s, &[&x, &scan], include_str!("../golden/te/scan_stages.txt"))
}

#[test]
fn scan_of_several_states() -> Result<(), TeError> {
    let (m, n, l) = (te::var("m"), te::var("n"), te::var("l"));
    let x = te::placeholder([m, n], "X");
    let state1 = te::placeholder([m, n], "placeholder");
    let state2 = te::placeholder([m, l], "placeholder");
    let init1 = recurrent((1, n), "compute", |[_, i]| x.at((0, i)))?;
    let init2 = recurrent((1, l), "compute", |_| 0.0.into())?;
    let update1 = recurrent([m, n], "compute", |[t, i]| state1.at((t - 1, i)) + x.at([t, i]))?;
    let update2 = recurrent([m, l], "compute", |[t, i]| state2.at((t - 1, i)) + state1.at((t - 1, 0)))?;
    let scans = te::scan_all(&[init1, init2], &[update1, update2], &[state1, state2], std::slice::from_ref(&x))?;
    let s = te::create_schedule(&[&scans[0]]);
    check(&s, &[&x, &scans[0], &scans[1]], include_str!("../golden/te/scan_states.txt"))
}
