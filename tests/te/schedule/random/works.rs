//! Computations whose stages a random schedule may move, with all kinds of loops, reads and reductions.

use epilogue::ElementType;
use epilogue::te::ops::{self, Pooling, Running};
use epilogue::te::{self, Axis, DType, Expr, TeError, Tensor};

const I32: ElementType = ElementType::I32;

/// A computation: the stages that a schedule may change, consumers last; among them the outputs with their extents.
pub(crate) struct Work {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) stages: Vec<Tensor>,
    pub(crate) outputs: Vec<(Tensor, Vec<usize>)>,
}

/// The inputs of a computation: two matrices of small integers, by their extents.
pub(crate) struct Given {
    pub(crate) extents: [Expr; 2],
    pub(crate) sizes: [usize; 2],
}

/// A computation's name, the least number of rows that it takes, and the function that builds it.
pub(crate) type Kind = (&'static str, usize, fn(&Given) -> Result<Work, TeError>);

pub(crate) const KINDS: [Kind; 22] = [
    ("a map, a row's sum of it, and both", 0, map_and_sum),
    ("a tuple that keeps its order, where a condition holds", 0, ordered_tuple),
    ("a scan of several stages, and what is made of it", 1, scan_of_stages),
    ("reductions over different axes", 0, different_axes),
    ("a filter over padding, then the largest of windows that overlap", 0, windows),
    ("the place of the largest, where another is positive", 0, largest_place),
    ("two states, of which two steps are given, read in reverse", 2, two_states),
    ("a product of three dimensions, its total, and all less the total", 0, product_and_total),
    ("numbers of many types", 0, types),
    ("one dimension of two, read from both ends", 0, flattened),
    ("two tensors computed together", 0, together),
    ("how many there are of each", 0, histogram),
    ("neighbours of neighbours of neighbours", 0, neighbours),
    ("rows that other values choose", 1, gathered),
    ("a network's step by step, over all of the state before", 1, recurrent),
    ("a scan of one dimension, of sums", 1, running_total),
    ("a sum from the end, without the element itself", 0, from_the_end),
    ("truth values", 0, truths),
    ("a sum from a given value on, over part of an axis", 0, from_a_value),
    ("the largest of windows over padding, of which some are read", 0, pooled),
    ("the largest before each, from the end, and where it is", 1, running_largest),
    ("one value of two that are reduced together", 0, one_of_two),
];

impl Given {
    fn shape(&self) -> [Expr; 2] {
        self.extents.clone()
    }

    fn inputs(&self) -> [Tensor; 2] {
        ["A", "W"].map(|name| te::placeholder_of(I32, self.shape(), name))
    }

    fn columns(&self, name: &str) -> Axis {
        te::reduce_axis((0, self.extents[1].clone()), name)
    }

    fn rows(&self, name: &str) -> Axis {
        te::reduce_axis((0, self.extents[0].clone()), name)
    }
}

fn constants(values: [f64; 2]) -> impl Fn(&[DType]) -> Vec<Expr> + Send + Sync {
    move |types| values.iter().zip(types).map(|(value, dtype)| Expr::constant(*value, *dtype)).collect()
}

fn map_and_sum(given: &Given) -> Result<Work, TeError> {
    let [n, _] = given.shape();
    let ([a, w], k) = (given.inputs(), given.columns("k"));
    let b = te::compute(given.shape(), "B", |[i, j]| a.at([i, j]) * 2 + w.at([i, j]))?;
    let s = te::compute([n], "S", |[i]| te::sum(b.at([i, k]), [k]))?;
    let d = te::compute(given.shape(), "D", |[i, j]| b.at([i, j]) - s.at([i]))?;
    Ok(Work { inputs: vec![a, w], stages: vec![b, s, d.clone()], outputs: vec![(d, given.sizes.to_vec())] })
}

fn ordered_tuple(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let affine = te::tuple_reducer(|x, y| vec![&x[0] * &y[0], &x[1] * &y[0] + &y[1]], constants([1.0, 0.0]), "affine");
    let condition = Some(Expr::from(k).not_equal(2));
    let t = te::compute_all([n], "T", |[i]| {
        affine.clone().associative_only().build(&[a.at([i, k]), w.at([i, k])], &[k], condition, Vec::new())
    })?;
    let outputs = t.iter().map(|t| (t.clone(), vec![given.sizes[0]])).collect();
    Ok(Work { inputs: vec![a, w], stages: t, outputs })
}

fn scan_of_stages(given: &Given) -> Result<Work, TeError> {
    let ([_, m], [a, w]) = (given.shape(), given.inputs());
    let state = te::placeholder_of(I32, given.shape(), "state");
    let init = te::compute((1, m), "init", |[t, i]| a.at([t, i]))?;
    let s1 = te::compute(given.shape(), "s1", |[t, i]| state.at((t - 1, i)) * 2)?;
    let s2 = te::compute(given.shape(), "s2", |[t, i]| s1.at([t, i]) + a.at([t, i]))?;
    let update = te::compute(given.shape(), "update", |[t, i]| s2.at([t, i]) - w.at([t, i]))?;
    let inputs = vec![a, w];
    let scan = te::scan(&init, &update, &state, &inputs)?;
    let d = te::compute(given.shape(), "D", |[t, i]| scan.at([t, i]) + 1)?;
    let stages = vec![init, s1, s2, update, scan, d.clone()];
    Ok(Work { inputs, stages, outputs: vec![(d, given.sizes.to_vec())] })
}

fn different_axes(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let (k, c, r) = (given.columns("k"), given.columns("c"), given.rows("r"));
    let largest = te::compute([n.clone()], "largest", |[i]| te::max(a.at([i, k]), [k]))?;
    let sum = te::compute([n], "sum", |[i]| te::sum(a.at([i, c]) - largest.at([i]), [c]))?;
    let d = te::compute([m], "D", |[j]| te::sum(w.at([r, j]) * sum.at([r]), [r]))?;
    Ok(Work { inputs: vec![a, w], stages: vec![largest, sum, d.clone()], outputs: vec![(d, vec![given.sizes[1]])] })
}

fn windows(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let (di, dj) = (te::reduce_axis((0, 3), "di"), te::reduce_axis((0, 3), "dj"));
    let (pi, pj) = (te::reduce_axis((0, 3), "pi"), te::reduce_axis((-1, 2), "pj"));
    let padded = te::compute([n.clone() + 2, m.clone() + 2], "padded", |[i, j]| {
        let rows = i.greater_equal(1).and(i.less_equal(&n));
        rows.and(j.greater_equal(1)).and(j.less_equal(&m)).select(a.at([i - 1, j - 1]), 0)
    })?;
    let filtered = te::compute(given.shape(), "filtered", |[i, j]| {
        te::sum(padded.at([i + di, j + dj]) * (di * 3 + dj - 4), [di, dj])
    })?;
    let half = (&n + 1).floor_div(2);
    let pooled = te::compute([half, m.clone()], "pooled", |[i, j]| {
        let (row, column) = (i * 2 + pi, j + pj);
        let inside = row.less(&n).and(column.greater_equal(0)).and(column.less(&m));
        te::max_reducer().over_where(filtered.at([row, column]), [pi, pj], inside)
    })?;
    let d = te::compute(given.shape(), "D", |[i, j]| pooled.at([i / 2, j.into()]) - w.at([i, j]))?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![padded, filtered, pooled, d], outputs })
}

fn largest_place(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let argmax = te::tuple_reducer(
        |x, y| {
            let first = x[1].greater(&y[1]).or(x[1].equal(&y[1]).and(x[0].less(&y[0])));
            vec![first.select(&x[0], &y[0]), first.select(&x[1], &y[1])]
        },
        |types| vec![Expr::constant(f64::from(i32::MAX), types[0]), Expr::constant(types[1].least(), types[1])],
        "argmax",
    );
    let b = te::compute(given.shape(), "B", |[i, j]| a.at([i, j]).cast(DType::F32) * 0.5)?;
    let places = te::compute_all([n.clone()], "P", |[i]| {
        argmax.build(&[k.into(), b.at([i, k])], &[k], Some(w.at([i, k]).greater(0)), Vec::new())
    })?;
    let d = te::compute([n], "D", |[i]| {
        (places[0].at([i])).equal(i32::MAX).select(-1.0, places[1].at([i])) + places[0].at([i]).cast(DType::F32)
    })?;
    let outputs = vec![(d.clone(), vec![given.sizes[0]])];
    Ok(Work { inputs: vec![a, w], stages: [vec![b], places, vec![d]].concat(), outputs })
}

fn two_states(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let states = ["sums", "best"].map(|name| te::placeholder_of(I32, given.shape(), name));
    let init = [
        te::compute((2, m.clone()), "init.sums", |[t, i]| a.at([t, i]))?,
        te::compute((2, m), "init.best", |[t, i]| w.at([t, i]))?,
    ];
    let update = [
        te::compute(given.shape(), "update.sums", |[t, i]| {
            states[0].at((t - 2, i)) + a.at([t, i]) - states[0].at((t - 1, i))
        })?,
        te::compute(given.shape(), "update.best", |[t, i]| {
            states[1].at((t - 1, i)).max(states[0].at((t - 1, i)) + w.at([t, i]))
        })?,
    ];
    let inputs = vec![a, w];
    let scan = te::scan_all(&init, &update, &states, &inputs)?;
    let d = te::compute(given.shape(), "D", |[t, i]| scan[0].at((n.clone() - 1 - t, i)) - scan[1].at([t, i]))?;
    let mut stages = [init, update].concat();
    stages.extend(scan);
    stages.push(d.clone());
    Ok(Work { inputs, stages, outputs: vec![(d, given.sizes.to_vec())] })
}

fn product_and_total(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let c = te::compute((3, n.clone(), 4), "C", |[b, i, j]| te::sum(a.at([i, k]) * (k + b * j), [k]))?;
    let axes = [te::reduce_axis((0, 3), "x"), given.rows("y"), te::reduce_axis((0, 4), "z")];
    let total = te::compute((), "total", |[]| te::sum(c.at(axes), axes))?;
    let d = te::compute((4, n, 3), "D", |[j, i, b]| c.at([b, i, j]) - total.at(()))?;
    let outputs = vec![(d.clone(), vec![4, given.sizes[0], 3]), (total.clone(), Vec::new())];
    Ok(Work { inputs: vec![a, w], stages: vec![c, total, d], outputs })
}

fn types(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let half = te::compute(given.shape(), "half", |[i, j]| {
        let x = a.at([i, j]).cast(ElementType::F16);
        x.greater(0.0).select(&x * 0.5, &x * -2.0)
    })?;
    let bytes = te::compute(given.shape(), "bytes", |[i, j]| (w.at([i, j]) * 40 + j).cast(ElementType::U8))?;
    let small = te::compute(given.shape(), "small", |[i, j]| {
        bytes.at([i, j]).cast(ElementType::I8) - half.at([i, j]).cast(ElementType::I8)
    })?;
    let words = te::compute(given.shape(), "words", |[i, j]| {
        let x = w.at([i, j]).cast(ElementType::I16).cast(ElementType::U32);
        (&x * 40503) ^ (x >> (j % 40).cast(ElementType::U32))
    })?;
    let far = te::compute(given.shape(), "far", |[i, j]| {
        let x = words.at([i, j]).cast(ElementType::U64) << (i % 70).cast(ElementType::U64);
        (&x / 7).max(!x % 1000)
    })?;
    let long = te::compute([n], "long", |[i]| {
        te::sum(small.at([i, k]).cast(ElementType::I64) * half.at([i, k]).cast(ElementType::I64), [k])
    })?;
    let d = te::compute(given.shape(), "D", |[i, j]| {
        (long.at([i]).cast(ElementType::F64) + half.at([i, j]).cast(ElementType::F64)).cast(ElementType::F32)
            + small.at([i, j]).cast(ElementType::BF16).cast(ElementType::F32)
            + (far.at([i, j]) & 255).cast(ElementType::U16).cast(ElementType::F32)
    })?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![half, bytes, small, words, far, long, d], outputs })
}

fn flattened(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let row = te::compute([&n * &m], "row", |[x]| a.at([x / &m, x % &m]) * 3)?;
    let turned = te::compute([m.clone(), n.clone()], "turned", |[j, i]| row.at([i * &m + j]) + j)?;
    let d =
        te::compute(given.shape(), "D", |[i, j]| turned.at([j, i]) - row.at([(&n - 1 - i) * &m + j]) + w.at([i, j]))?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![row, turned, d], outputs })
}

fn together(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let both = te::compute_all(given.shape(), "both", |[i, j]| {
        vec![a.at([i, j]) + w.at([i, j]), (a.at([i, j]) - w.at([i, j])).cast(DType::F32)]
    })?;
    let range = te::tuple_reducer(
        |x, y| vec![x[0].min(&y[0]), x[1].max(&y[1])],
        |types| vec![Expr::constant(types[0].greatest(), types[0]), Expr::constant(types[1].least(), types[1])],
        "range",
    );
    let ranges = te::compute_all([n], "ranges", |[i]| {
        range.build(&[both[0].at([i, k]), both[0].at([i, k])], &[k], None, Vec::new())
    })?;
    let d = te::compute(given.shape(), "D", |[i, j]| {
        (ranges[1].at([i]) - ranges[0].at([i])).cast(DType::F32) + both[1].at([i, j])
    })?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: [both, ranges, vec![d]].concat(), outputs })
}

fn histogram(given: &Given) -> Result<Work, TeError> {
    let ([a, w], r, c) = (given.inputs(), given.rows("r"), given.columns("c"));
    let class = te::compute(given.shape(), "class", |[i, j]| (a.at([i, j]) + w.at([i, j])) % 5)?;
    let counts = te::compute((5,), "counts", |[b]| te::sum_reducer().over_where(1, [r, c], class.at([r, c]).equal(b)))?;
    let d = te::compute(given.shape(), "D", |[i, j]| counts.at([class.at([i, j])]))?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![class, counts, d], outputs })
}

fn neighbours(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let b = te::compute(given.shape(), "B", |[i, j]| a.at([i.into(), (j - 1).max(0)]) + a.at([i, j]) * 2)?;
    let c = te::compute(given.shape(), "C", |[i, j]| b.at([i, j]) + b.at([(i + 1).min(&n - 1), j.into()]) * 3)?;
    let d = te::compute(given.shape(), "D", |[i, j]| {
        c.at([(i - 2).max(0), j.into()]) - c.at([i.into(), (j + 2).min(&m - 1)]) + w.at([i, j])
    })?;
    let e =
        te::compute((2, n.clone(), 2, m.clone()), "E", |[x, i, y, j]| c.at([i, j]) * (x + 1) - d.at([i, j]) * (y + 1))?;
    let outputs = vec![(e.clone(), vec![2, given.sizes[0], 2, given.sizes[1]])];
    Ok(Work { inputs: vec![a, w], stages: vec![b, c, d, e], outputs })
}

fn gathered(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w]) = (given.shape(), given.inputs());
    let rows = te::compute(given.shape(), "rows", |[i, j]| w.at([i, j]) % &n)?;
    let b = te::compute(given.shape(), "B", |[i, j]| a.at([i, j]) * 5 + i)?;
    let d = te::compute(given.shape(), "D", |[i, j]| b.at([rows.at([i, j]), j.into()]) - b.at([i, j]))?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![rows, b, d], outputs })
}

fn recurrent(given: &Given) -> Result<Work, TeError> {
    let ([_, m], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let state = te::placeholder_of(I32, given.shape(), "state");
    let init = te::compute((1, m), "init", |[_, i]| a.at((0, i)))?;
    let product =
        te::compute(given.shape(), "product", |[t, i]| te::sum(state.at((t - 1, k)) * ((k + i * 2) % 3 - 1), [k]))?;
    let update = te::compute(given.shape(), "update", |[t, i]| (product.at([t, i]) + w.at([t, i])) % 17)?;
    let inputs = vec![a, w];
    let scan = te::scan(&init, &update, &state, &inputs)?;
    let stages = vec![init, product, update, scan.clone()];
    Ok(Work { inputs, stages, outputs: vec![(scan, given.sizes.to_vec())] })
}

fn running_total(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let sums = te::compute([n.clone()], "sums", |[t]| te::sum(a.at([t, k]) - w.at([t, k]), [k]))?;
    let state = te::placeholder_of(I32, [n], "state");
    let init = te::compute((1,), "init", |[t]| sums.at([t]))?;
    let update = te::compute(state.shape(), "update", |[t]| state.at([t - 1]) + sums.at([t]))?;
    let inputs = vec![a, w];
    let scan = te::scan(&init, &update, &state, std::slice::from_ref(&sums))?;
    let d = te::compute(given.shape(), "D", |[i, j]| scan.at([i]) + j)?;
    let stages = vec![sums, init, update, scan, d.clone()];
    Ok(Work { inputs, stages, outputs: vec![(d, given.sizes.to_vec())] })
}

fn from_the_end(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let longer = [&n + 1, m.clone()];
    let state = te::placeholder_of(I32, longer.clone(), "state");
    let init = te::compute((1, m), "init", |[_, _]| 0.into())?;
    let update = te::compute(longer, "update", |[t, i]| state.at((t - 1, i)) + a.at([&n - t, i.into()]))?;
    let inputs = vec![a, w.clone()];
    let scan = te::scan(&init, &update, &state, &inputs)?;
    let d = te::compute(given.shape(), "D", |[t, i]| scan.at([&n - 1 - t, i.into()]) * w.at([t, i]))?;
    let stages = vec![init, update, scan, d.clone()];
    Ok(Work { inputs, stages, outputs: vec![(d, given.sizes.to_vec())] })
}

fn truths(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let less = te::compute(given.shape(), "less", |[i, j]| a.at([i, j]).less(w.at([i, j])))?;
    let any = te::comm_reducer(|x, y| x.or(y), |_| Expr::truth(false), "any");
    let all = te::comm_reducer(|x, y| x.and(y), |_| Expr::truth(true), "all");
    let some = te::compute([n.clone()], "some", |[i]| any.over(less.at([i, k]), [k]))?;
    let every = te::compute([n], "every", |[i]| all.over_where(less.at([i, k]), [k], k.not_equal(1)))?;
    let d = te::compute(given.shape(), "D", |[i, j]| {
        let odd = some.at([i]).and(!every.at([i])).or(less.at([i, j]));
        odd.select(a.at([i, j]), 100) + less.at([i, j]).cast(I32)
    })?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![less, some, every, d], outputs })
}

fn from_a_value(given: &Given) -> Result<Work, TeError> {
    let ([n, m], [a, w]) = (given.shape(), given.inputs());
    let k = te::reduce_axis((2, m.max(2)), "k");
    let first = te::compute([n.clone()], "first", |[i]| i * 3)?;
    let b = te::compute([n.clone()], "B", |[i]| te::sum_reducer().over_from(a.at([i, k]), [k], first.at([i])))?;
    let c = te::compute([n], "C", |[i]| te::max_reducer().over_from(w.at([i, k]), [k], 2))?;
    let d = te::compute(given.shape(), "D", |[i, j]| b.at([i]) * c.at([i]) + j)?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![first, b, c, d], outputs })
}

fn pooled(given: &Given) -> Result<Work, TeError> {
    let [a, w] = given.inputs();
    let pool = ops::max_pool(&a, Pooling::new([2]).padding([1]).ceil())?;
    // Of the windows, each that has an element; never one of padding alone.
    let d = te::compute(given.shape(), "D", |[i, j]| pool.at((i, (j + 1) / 2)) - w.at([i, j]))?;
    let outputs = vec![(d.clone(), given.sizes.to_vec())];
    Ok(Work { inputs: vec![a, w], stages: vec![pool, d], outputs })
}

fn running_largest(given: &Given) -> Result<Work, TeError> {
    let [a, w] = given.inputs();
    let [values, indices] = ops::cummax_with_indices(&a, Running::along(0).reversed().exclusive())?;
    let d = te::compute(given.shape(), "D", |[i, j]| indices.at([i, j]) * 3 + w.at([i, j]))?;
    let outputs = [&values, &d].map(|output| (output.clone(), given.sizes.to_vec()));
    Ok(Work { inputs: vec![a, w], stages: vec![values, indices, d], outputs: outputs.into() })
}

fn one_of_two(given: &Given) -> Result<Work, TeError> {
    let ([n, _], [a, w], k) = (given.shape(), given.inputs(), given.columns("k"));
    let range = te::tuple_reducer(
        |x, y| vec![x[0].min(&y[0]), x[1].max(&y[1])],
        |types| vec![Expr::constant(types[0].greatest(), types[0]), Expr::constant(types[1].least(), types[1])],
        "range",
    );
    let both = te::compute_all([n], "both", |[i]| range.over_all(&[a.at([i, k]), w.at([i, k])], [k]))?;
    Ok(Work { inputs: vec![a, w], stages: both.clone(), outputs: vec![(both[1].clone(), vec![given.sizes[0]])] })
}
