//! Automatic reductions and scans of integers, whose results are exact in every order.

use epilogue::te::{self, Axis, Expr, TeError, auto, placeholder_of, var};
use epilogue::{Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::Source;

use crate::trial::{Kill, Subject, Text, stopped};

/// A kernel, its input and the correct results.
struct Work {
    name: String,
    /// The kernel's symbol.
    symbol: &'static str,
    expressions: Box<dyn Fn() -> Result<auto::Automatic, TeError> + Sync>,
    /// By name.
    inputs: Vec<(&'static str, Array)>,
    outputs: Vec<Array>,
}

/// A packed tensor.
struct Array {
    shape: Vec<usize>,
    values: Vec<i32>,
}

/// Kernels of every kind:
/// - reductions that fit in a block, and that need several blocks;
/// - chains of reductions in one launch, with a row's elements in registers and read again;
/// - scans of blocks that own their columns;
/// - scans of blocks that share columns, with look-back over one tile at a time, over several and by maps of batches;
/// - scans with column reductions, for each mapping of lanes to columns;
/// - cells of recurrent networks, with a thread and with a warp per column.
pub(crate) fn all() -> Vec<Box<dyn Subject>> {
    let mut all = Vec::new();
    for (rows, columns, of_rows) in
        [(3, 3000, true), (2, 60_000, true), (70, 90, false), (3000, 3, false), (60_000, 2, false)]
    {
        all.push(sums(rows, columns, of_rows));
    }
    for (results, elements, of_rows) in [(3, 3000, true), (2, 40_000, true), (40, 6, false), (64, 700, false)] {
        all.push(chain(results, elements, of_rows));
    }
    for (steps, columns) in [(130, 7000), (700, 40), (6000, 12), (20_000, 2)] {
        all.push(running_sums(steps, columns));
    }
    for (shape, of_time) in [([40, 3, 50], false), ([100, 4, 5], true), ([4000, 2, 16], false)] {
        all.push(folded(shape, of_time));
    }
    all.extend([false, true].map(cell));
    all.into_iter().map(|work| Box::new(work) as Box<dyn Subject>).collect()
}

fn integers(shape: &[usize], most: i32) -> Array {
    let count = shape.iter().product();
    let mut random = fastrand::Rng::with_seed(count as u64);
    Array { shape: shape.to_vec(), values: (0..count).map(|_| random.i32(-most..=most)).collect() }
}

/// `rows` or columns, as in a kernel's name.
const fn lines(of_rows: bool) -> &'static str {
    if of_rows { "rows" } else { "columns" }
}

/// Sums of a matrix's rows or columns.
fn sums(rows: usize, columns: usize, of_rows: bool) -> Work {
    let input = integers(&[rows, columns], 99);
    let mut expected = vec![0; if of_rows { rows } else { columns }];
    for (place, x) in input.values.iter().enumerate() {
        expected[if of_rows { place / columns } else { place % columns }] += x;
    }
    let expressions = move || {
        let (n, m) = (var("n"), var("m"));
        let a = placeholder_of(ElementType::I32, [n, m], "A");
        let (kept, summed) = if of_rows { (n, m) } else { (m, n) };
        let k = te::reduce_axis((0, summed), "k");
        let of = |i: Axis| if of_rows { a.at([i, k]) } else { a.at([k, i]) };
        auto::reduce(&te::compute([kept], "B", |[i]| te::sum(of(i), [k]))?)
    };
    Work {
        name: format!("te::auto::reduce, {} of {rows} x {columns}", lines(of_rows)),
        symbol: "B_reduction",
        expressions: Box::new(expressions),
        inputs: vec![("A", input)],
        outputs: vec![Array { shape: vec![expected.len()], values: expected }],
    }
}

/// The largest difference of an element's double from a sum.
const CLAMP: i32 = 5;

/// Three passes over each row or column: the sum s; the largest of 2·a - clamp(s); every element plus that. For a
/// matrix whose columns are reduced, the results' axis is last.
fn chain(results: usize, elements: usize, of_rows: bool) -> Work {
    let shape = if of_rows { [results, elements] } else { [elements, results] };
    let input = integers(&shape, 99);
    let at = |i: usize, k: usize| if of_rows { i * elements + k } else { k * results + i };
    let (mut sums, mut all) = (vec![0; results], vec![0; results * elements]);
    for i in 0..results {
        let of_line = || (0..elements).map(|k| input.values[at(i, k)]);
        sums[i] = of_line().sum();
        let top = of_line().map(|x| 2 * x - sums[i].clamp(-CLAMP, CLAMP)).max().unwrap_or(i32::MIN);
        (0..elements).for_each(|k| all[at(i, k)] = input.values[at(i, k)] + top);
    }
    let expressions = move || {
        let (n, m) = (var("n"), var("m"));
        let a = placeholder_of(ElementType::I32, if of_rows { [n, m] } else { [m, n] }, "A");
        let of = |i: Expr, k: Expr| if of_rows { a.at([i, k]) } else { a.at([k, i]) };
        let (k, l) = (te::reduce_axis((0, m), "k"), te::reduce_axis((0, m), "l"));
        let sum = te::compute([n], "sum", |[i]| te::sum(of(i.into(), k.into()), [k]))?;
        let apart = |i: Axis| of(i.into(), l.into()) * 2 - sum.at([i]).min(CLAMP).max(-CLAMP);
        let top = te::compute([n], "top", |[i]| te::max(apart(i), [l]))?;
        let all = te::compute(a.shape(), "all", |[y, x]| a.at([y, x]) + top.at([if of_rows { y } else { x }]))?;
        auto::reduce_all(&[&sum, &all])
    };
    Work {
        name: format!("te::auto chain, {results} {} of {elements}", lines(of_rows)),
        symbol: "sum_reduction",
        expressions: Box::new(expressions),
        inputs: vec![("A", input)],
        outputs: vec![Array { shape: vec![results], values: sums }, Array { shape: shape.to_vec(), values: all }],
    }
}

/// Running sums along the first axis.
fn running_sums(steps: usize, columns: usize) -> Work {
    let input = integers(&[steps, columns], 99);
    let mut expected = input.values.clone();
    for place in columns..expected.len() {
        expected[place] += expected[place - columns];
    }
    let expressions = || {
        let (m, n) = (var("m"), var("n"));
        let x = placeholder_of(ElementType::I32, [m, n], "X");
        let state = placeholder_of(ElementType::I32, [m, n], "y");
        let init = te::compute([Expr::from(1), n.into()], "init", |[t, i]| x.at([t, i]))?;
        let update = te::compute([m, n], "update", |[t, i]| state.at([t - 1, i.into()]) + x.at([t, i]))?;
        auto::scan(&te::scan(&init, &update, &state, &[x])?)
    };
    Work {
        name: format!("te::auto::scan of {steps} x {columns}"),
        symbol: "y_scan",
        expressions: Box::new(expressions),
        inputs: vec![("X", input)],
        outputs: vec![Array { shape: vec![steps, columns], values: expected }],
    }
}

/// y[t] = 3·y[t-1] + x[t] for `[steps, kept, reduced]` states. States along the last axis are combined, as maps one
/// after the other: z ↦ (2·y + 1)·z + x. If anything is left out, used twice or used in another order, the results
/// change. Time is the first axis in memory, or the last.
fn folded([steps, kept, reduced]: [usize; 3], of_time: bool) -> Work {
    let shape = if of_time { [kept, reduced, steps] } else { [steps, kept, reduced] };
    let input = integers(&shape, 9);
    let at = |t: usize, i: usize, n: usize| {
        if of_time { (i * reduced + n) * steps + t } else { (t * kept + i) * reduced + n }
    };
    let mut outputs = [vec![0; steps * kept], vec![0; steps * kept]];
    let mut states = vec![0_i32; kept * reduced];
    for t in 0..steps {
        for i in 0..kept {
            let (mut p, mut q) = (1_i32, 0_i32);
            for n in 0..reduced {
                let x = input.values[at(t, i, n)];
                let y = &mut states[i * reduced + n];
                *y = if t == 0 { x } else { y.wrapping_mul(3).wrapping_add(x) };
                let odd = y.wrapping_mul(2).wrapping_add(1);
                (p, q) = (p.wrapping_mul(odd), q.wrapping_mul(odd).wrapping_add(x));
            }
            outputs[0][t * kept + i] = p;
            outputs[1][t * kept + i] = q;
        }
    }
    Work {
        name: format!("te::auto fold of {steps} x {kept} x {reduced}"),
        symbol: "folded_scan",
        expressions: Box::new(move || fold_expressions(of_time)),
        inputs: vec![("X", input)],
        outputs: outputs.map(|values| Array { shape: vec![steps, kept], values }).into(),
    }
}

fn fold_expressions(of_time: bool) -> Result<auto::Automatic, TeError> {
    let (steps, kept, reduced) = (var("steps"), var("kept"), var("reduced"));
    let shape = [steps, kept, reduced];
    let memory = if of_time { [kept, reduced, steps] } else { shape };
    let x = placeholder_of(ElementType::I32, memory, "X");
    let of = |t: Axis, i: Axis, n: Axis| if of_time { x.at([i, n, t]) } else { x.at([t, i, n]) };
    let state = placeholder_of(ElementType::I32, shape, "y");
    let init = te::compute([Expr::from(1), kept.into(), reduced.into()], "init", |[t, i, n]| of(t, i, n))?;
    let update = te::compute(shape, "update", |[t, i, n]| state.at([t - 1, i.into(), n.into()]) * 3 + of(t, i, n))?;
    let states = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
    let n = te::reduce_axis((0, reduced), "n");
    let maps = te::tuple_reducer(
        |x, y| vec![&x[0] * &y[0], &x[1] * &y[0] + &y[1]],
        |types| vec![Expr::constant(1.0, types[0]), Expr::constant(0.0, types[1])],
        "maps",
    )
    .associative_only();
    let outputs = te::compute_all([steps, kept], "folded", |[t, i]| {
        maps.over_all(&[states.at([t, i, n]) * 2 + 1, of(t, i, n)], [n])
    })?;
    auto::scan_all(&outputs.iter().collect::<Vec<_>>())
}

/// y[t] = g·W + x[t], where g is computed from two columns of y[t-1]: three levels of stages. Neighbouring threads have
/// neighbouring columns of W, or warps have rows of it.
fn cell(turned: bool) -> Work {
    let [steps, batch, n] = [4usize, 2, 40];
    let (x, w) = (integers(&[steps, batch, n], 9), integers(&[n, n], 5));
    let mut y = x.values.clone();
    for t in 1..steps {
        for b in 0..batch {
            let at = |t: usize, i: usize| (t * batch + b) * n + i;
            let old: Vec<i32> = (0..n).map(|i| y[at(t - 1, i)]).collect();
            for i in 0..n {
                let of = |k: usize| {
                    let gate = old[k].wrapping_mul(3).wrapping_add(old[n - 1 - k]);
                    gate.wrapping_mul(w.values[if turned { i * n + k } else { k * n + i }])
                };
                y[at(t, i)] = (0..n).map(of).fold(x.values[at(t, i)], i32::wrapping_add);
            }
        }
    }
    let expressions = move || {
        let (steps, batch, n) = (var("steps"), var("batch"), var("n"));
        let shape = [steps, batch, n];
        let x = placeholder_of(ElementType::I32, shape, "X");
        let w = placeholder_of(ElementType::I32, [n, n], "W");
        let state = placeholder_of(ElementType::I32, shape, "y");
        let init = te::compute([Expr::from(1), batch.into(), n.into()], "init", |[t, b, i]| x.at([t, b, i]))?;
        let old = |t: Axis, b: Axis, i: Expr| state.at([t - 1, b.into(), i]);
        let gate = te::compute(shape, "gate", |[t, b, i]| old(t, b, i.into()) * 3 + old(t, b, n - 1 - i))?;
        let k = te::reduce_axis((0, n), "k");
        let of = |i: Axis| if turned { w.at([i, k]) } else { w.at([k, i]) };
        let product = te::compute(shape, "product", |[t, b, i]| te::sum(gate.at([t, b, k]) * of(i), [k]))?;
        let update = te::compute(shape, "update", |[t, b, i]| product.at([t, b, i]) + x.at([t, b, i]))?;
        auto::scan(&te::scan(&init, &update, &state, &[x])?)
    };
    let shared = if turned { "warps" } else { "threads" };
    Work {
        name: format!("te::auto cell, {shared} for {n} columns"),
        symbol: "y_cell",
        expressions: Box::new(expressions),
        inputs: vec![("X", x), ("W", w)],
        outputs: vec![Array { shape: vec![steps, batch, n], values: y }],
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The text of the last of several kernels.
fn last_kernel(source: &str) -> String {
    let first_lines = source.match_indices("\n// The ").map(|(place, _)| place + 1);
    let first = first_lines.filter(|place| {
        source[*place..].lines().next().is_some_and(|line| line.ends_with(", scheduled automatically."))
    });
    source[first.last().unwrap_or(0)..].to_owned()
}

impl Work {
    fn kernel(&self, device: &Device) -> Result<auto::Kernel, TeError> {
        (self.expressions)()?.build(device)
    }

    /// Runs twice and compares.
    fn try_on(&self, device: &Device, kernel: &auto::Kernel) -> Result<(), (Kill, String)> {
        let tensor = |array: &Array| device.tensor(&array.values, array.shape.as_slice()).map_err(stopped);
        let names = kernel.parameters().iter().map(te::Tensor::name);
        let inputs = names
            .filter_map(|name| self.inputs.iter().find(|(input, _)| *input == name))
            .map(|(_, array)| tensor(array))
            .collect::<Result<Vec<_>, _>>()?;
        for _ in 0..2 {
            let unwritten =
                |array: &Array| device.tensor(&vec![-77; array.values.len()], array.shape.as_slice()).map_err(stopped);
            let mut outputs: Vec<DeviceTensor> = self.outputs.iter().map(unwritten).collect::<Result<_, _>>()?;
            let mut arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Input).collect();
            arguments.extend(outputs.iter_mut().map(Argument::Output));
            kernel.run(&arguments).map_err(stopped)?;
            for (number, (output, expected)) in outputs.iter().zip(&self.outputs).enumerate() {
                let found = output.to_vec::<i32>().map_err(stopped)?;
                if let Some(place) = found.iter().zip(&expected.values).position(|(a, b)| a != b) {
                    let (found, right) = (found[place], expected.values[place]);
                    return Err((Kill::Wrong, format!("element {place} of output {number} is {found}, not {right}")));
                }
            }
        }
        Ok(())
    }
}

impl Subject for Work {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// The kernel that a run chooses.
    fn text(&self, device: &Device) -> Result<Text, String> {
        const FILE: &str = "kernel.cu";
        let kernel = self.kernel(device).map_err(text)?;
        self.try_on(device, &kernel).map_err(|(_, error)| error)?;
        let source = last_kernel(&kernel.source());
        let compiled = device.compile(&Source::new(FILE, self.symbol, source.as_str())).map_err(text)?;
        Ok(Text { kernel: self.symbol.into(), ptx: compiled.ptx().to_owned(), source, file: FILE.into() })
    }

    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        self.try_on(device, &self.kernel(device).map_err(stopped)?)
    }
}
