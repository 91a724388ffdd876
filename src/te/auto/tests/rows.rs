//! Chains of reductions along rows as one loop over rows, and down columns row by row.

use epilogue_runtime::{Device, testing};

use super::super::cpu::IN_ROWS;
use super::{Expressions, by_code, check, extent, has_vectors, matrix};
use crate::ElementType;
use crate::expr::Op;
use crate::simd::Float;
use crate::te::auto;
use crate::te::dtype::DType;
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::define::reducer::{max, min, sum, tuple_reducer};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::ops;

/// The dimensions of an element: those of outputs, and the one that is reduced.
type Dimensions = [usize; 2];
const ALONG: Dimensions = [0, 1];
const DOWN: Dimensions = [1, 0];

/// A random expression of an element's inputs, of its place in its row, and of totals of the row. (Rows may be columns.)
fn element(
    random: &mut fastrand::Rng,
    inputs: &[Tensor],
    totals: &[Tensor],
    dimensions: Dimensions,
    at: &[Expr; 2],
) -> Expr {
    let [row, place] = dimensions.map(|dimension| at[dimension].clone());
    let of = |input: &Tensor| match input.shape().len() {
        2 => input.at(at.as_slice()).cast(DType::F32),
        _ => input.at([at[1].clone()]).cast(DType::F32),
    };
    let mut floats: Vec<Expr> = inputs.iter().map(of).collect();
    floats.extend(totals.iter().map(|total| total.at([row.clone()])));
    floats.push(Expr::constant(0.75, DType::F32));
    let integers = if dimensions == DOWN { vec![Expr::int(3), place, row] } else { vec![Expr::int(3), place] };
    let mut all = Expressions { random, floats, integers };
    for _ in 0..all.random.usize(0..12) {
        all.grow();
    }
    let last = all.floats.len() - 1;
    // The last value, of the first element; and often of the last total.
    let value = &all.floats[last] + &all.floats[0];
    match totals.len() {
        0 => value,
        totals if all.random.bool() => value - &all.floats[inputs.len() + totals - 1],
        _ => Expr::apply(Op::Exp, vec![value * 0.25]),
    }
}

/// Up to three reductions of a row, and a computation of their results and every element. Each reduction may use the
/// earlier ones.
fn chain(
    random: &mut fastrand::Rng,
    inputs: &[Tensor],
    shape: [usize; 2],
    dimensions: Dimensions,
    to: ElementType,
) -> Vec<Tensor> {
    let [n, m] = dimensions.map(|dimension| shape[dimension]);
    let mut totals: Vec<Tensor> = Vec::new();
    for number in 0..random.usize(1..4) {
        let k = reduce_axis((Expr::int(0), extent(m)), "k");
        let made = compute_over([extent(n)].as_slice(), &format!("total{number}"), |axes: &[Axis]| {
            let place = [Expr::from(axes[0]), Expr::from(k)];
            let x = element(random, inputs, &totals, dimensions, &dimensions.map(|dimension| place[dimension].clone()));
            vec![match random.u8(..4) {
                0 => max(x, [k]),
                1 => min(x, [k]),
                _ => sum(x, [k]),
            }]
        });
        totals.extend(made.expect("it is well formed"));
    }
    let output = compute_over(shape.map(extent).as_slice(), "C", |axes: &[Axis]| {
        let at = [Expr::from(axes[0]), Expr::from(axes[1])];
        let x = element(random, inputs, &totals, dimensions, &at);
        let x = x + totals[totals.len() - 1].at([at[dimensions[0]].clone()]);
        vec![x.cast(DType::from(to))]
    });
    let mut outputs = output.expect("it is well formed");
    if random.bool() {
        outputs.extend(totals.pop());
    }
    outputs
}

/// The number of random chains.
fn chains() -> u64 {
    testing::cases(80).into()
}

/// Random chains. Gives how many of them are loops over rows, and how many have any code.
fn random_chains(first: u64, dimensions: Dimensions, shape: impl Fn(&mut fastrand::Rng) -> [usize; 2]) -> [usize; 2] {
    const TYPES: [ElementType; 5] =
        [ElementType::F32, ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I8];
    let (mut in_rows, mut compiled) = (0, 0);
    for seed in 0..chains() {
        let mut random = fastrand::Rng::with_seed(first + seed);
        let shape = shape(&mut random);
        let kinds = [TYPES[random.usize(..4)], TYPES[random.usize(..5)], ElementType::F32];
        let (whole, of_columns) = (shape.map(extent), [extent(shape[1])]);
        let mut given = vec![(placeholder_of(kinds[0], whole.as_slice(), "A0"), shape.to_vec())];
        if random.bool() {
            given.push((placeholder_of(kinds[1], whole.as_slice(), "A1"), shape.to_vec()));
        }
        given.push((placeholder_of(kinds[2], of_columns.as_slice(), "A2"), vec![shape[1]]));
        let inputs: Vec<Tensor> = given.iter().map(|(tensor, _)| tensor.clone()).collect();
        let to = TYPES[random.usize(..4)];
        let outputs = chain(&mut random, &inputs, shape, dimensions, to);
        let of_output = |output: &Tensor| match output.shape().len() {
            1 => vec![shape[dimensions[0]]],
            _ => shape.to_vec(),
        };
        let results: Vec<Vec<usize>> = outputs.iter().map(of_output).collect();
        let outputs: Vec<&Tensor> = outputs.iter().collect();
        let given: Vec<(&Tensor, Vec<usize>)> = given.iter().map(|(tensor, shape)| (tensor, shape.clone())).collect();
        let before = IN_ROWS.get();
        let what = format!("chain {seed} of {shape:?}, {kinds:?} to {to}");
        compiled += usize::from(check(&what, &outputs, &given, &results, seed) > 0);
        in_rows += usize::from(IN_ROWS.get() > before);
    }
    [in_rows, compiled]
}

#[test]
fn random_chains_have_the_same_bits() {
    let [in_rows, _] = random_chains(2000, ALONG, |random| {
        let columns = [random.usize(1..20), random.usize(1..90), random.usize(1..300), 8 * random.usize(1..40)];
        [random.usize(1..40), columns[random.usize(..4)]]
    });
    assert!(!has_vectors() || in_rows >= chains() as usize / 2, "{in_rows} of {} chains are loops over rows", chains());
}

/// Few rows stay near from one reduction to the next; some columns are so long that they are cut into parts.
#[test]
fn random_chains_down_columns_have_the_same_bits() {
    let [_, compiled] = random_chains(3000, DOWN, |random| {
        let rows = [random.usize(1..20), random.usize(1..90), random.usize(600..900), 4200];
        let rows = rows[random.usize(..4)];
        let columns = [random.usize(64..100), random.usize(64..700), 8 * random.usize(9..80)];
        [rows, columns[random.usize(..3)].min(400_000 / rows)]
    });
    assert!(!has_vectors() || compiled >= chains() as usize / 2, "{compiled} of {} chains have code", chains());
}

#[test]
fn normalisations_are_loops_over_rows() {
    for (rows, columns) in [(5, 1), (3, 7), (4, 64), (1, 384), (9, 384), (8, 1000), (2, 4100), (1, 70_001)] {
        let a = matrix(ElementType::F32, rows, columns);
        let shape = vec![rows, columns];
        let weight = placeholder_of(ElementType::F32, [extent(columns)], "W");
        let given = [(&a, shape.clone()), (&weight, vec![columns])];
        for (name, output) in [
            ("softmax", ops::softmax(&a, 1)),
            ("log_softmax", ops::log_softmax(&a, 1)),
            ("layer_norm", ops::layer_norm(&a, [1], Some(&weight), None, 1e-5)),
            ("rms_norm", ops::rms_norm(&a, [1], Some(&weight), 1e-5)),
        ] {
            let (output, before) = (output.expect("it is well formed"), IN_ROWS.get());
            let what = format!("{name} of {rows} x {columns}");
            check(&what, &[&output], &given, std::slice::from_ref(&shape), 3);
            // Shorter rows than a vector's are no loops.
            assert!(!has_vectors() || columns < 64 || IN_ROWS.get() > before, "{what} is a loop over rows");
        }
    }
    for shape in [[0, 5], [3, 0]] {
        let a = matrix(ElementType::F32, shape[0], shape[1]);
        let output = ops::softmax(&a, 1).expect("it is well formed");
        check("softmax of nothing", &[&output], &[(&a, shape.to_vec())], &[shape.to_vec()], 1);
    }
}

/// Rows of a transposed tensor are numbered by two loops.
#[test]
fn rows_that_lie_in_no_order_have_the_same_bits() {
    let (shape, turned) = ([7, 5, 40], [5, 7, 40]);
    let a = placeholder_of(ElementType::F32, turned.map(extent).as_slice(), "A");
    let k = reduce_axis((Expr::int(0), extent(40)), "k");
    let at = |axes: &[Axis], place: Expr| a.at([Expr::from(axes[1]), Expr::from(axes[0]), place]);
    let largest = compute_over([extent(7), extent(5)].as_slice(), "largest", |axes: &[Axis]| {
        vec![max(at(axes, Expr::from(k)), [k])]
    });
    let largest = largest.expect("it is well formed").swap_remove(0);
    let output = compute_over(shape.map(extent).as_slice(), "C", |axes: &[Axis]| {
        let row = [Expr::from(axes[0]), Expr::from(axes[1])];
        vec![at(axes, Expr::from(axes[2])) - largest.at(row)]
    });
    let output = output.expect("it is well formed").swap_remove(0);
    let before = IN_ROWS.get();
    check("rows of a transposed tensor", &[&output], &[(&a, turned.to_vec())], &[shape.to_vec()], 5);
    assert!(!has_vectors() || IN_ROWS.get() > before);
}

/// Comparisons of vectors lose NaN and take either zero, so the largest and the least are made of three results.
#[test]
fn extremes_of_rows_pass_nan_on_and_order_zeros() {
    const COLUMNS: usize = 37;
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let ends: [&[f32]; 14] = [
        &[0.0, -0.0],
        &[-0.0, 0.0],
        &[-0.0],
        &[0.0],
        &[-0.0, -1.0],
        &[0.0, 1.0],
        &[nan],
        &[-nan],
        &[1.0, nan, -1.0],
        &[-1.0, -nan, -2.0],
        &[3.0, -nan, infinity],
        &[-infinity],
        &[infinity, -infinity],
        &[1e-45, -1e-45, f32::MAX],
    ];
    let rows = ends.len();
    let values: Vec<f32> =
        ends.iter().flat_map(|row| (0..COLUMNS).map(|i| row[if i < 5 { 0 } else { i % row.len() }])).collect();
    let a = matrix(ElementType::F32, rows, COLUMNS);
    let k = reduce_axis((Expr::int(0), extent(COLUMNS)), "k");
    let device = Device::cpu();
    let given = device.tensor(&values, [rows, COLUMNS]).expect("there is memory");
    for largest in [true, false] {
        let total = compute_over([extent(rows)].as_slice(), "extreme", |axes: &[Axis]| {
            let x = a.at([Expr::from(axes[0]), Expr::from(k)]);
            vec![if largest { max(x, [k]) } else { min(x, [k]) }]
        });
        let total = total.expect("it is well formed").swap_remove(0);
        let output = compute_over([extent(rows), extent(COLUMNS)].as_slice(), "C", |axes: &[Axis]| {
            let [i, j] = [Expr::from(axes[0]), Expr::from(axes[1])];
            vec![a.at([i.clone(), j]) * total.at([i])]
        });
        let output = output.expect("it is well formed").swap_remove(0);
        for only_narrow in [false, true] {
            let made = auto::build(&[&output, &total]).expect("it has a schedule").tuning(by_code(true, only_narrow));
            let kernel = made.build(&device).expect("it builds");
            let mut made = device.zeros::<f32>([rows]).expect("there is memory");
            let mut all = device.zeros::<f32>([rows, COLUMNS]).expect("there is memory");
            let arguments = [(&a, (&given).into()), (&output, (&mut all).into()), (&total, (&mut made).into())];
            let before = IN_ROWS.get();
            kernel.run_bound(&arguments).expect("it runs");
            assert!(!has_vectors() || IN_ROWS.get() > before, "it is a loop over rows");
            let combine = if largest { Float::maximum } else { Float::minimum };
            let made = made.to_vec::<f32>().expect("it is read");
            for (row, got) in made.iter().enumerate() {
                let own = &values[row * COLUMNS..][..COLUMNS];
                let want = own[1..].iter().fold(own[0], |held: f32, x| combine(held, *x));
                let is_same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(is_same, "the extreme of {:?} is {got:e}, not {want:e}", ends[row]);
            }
        }
    }
}

/// An element, by its row and column.
type At<'a> = &'a dyn Fn(Expr, Expr) -> Expr;

/// The tables have 100 rows and columns to spare, because random integers are from -50 to 49.
#[test]
fn rows_that_indices_choose_have_the_same_bits() {
    const WORDS: usize = 100;
    for (rows, columns) in [(1, 64), (7, 100), (8, 384), (9, 1100), (40, 20)] {
        let of = |element, shape: &[usize], name| {
            let extents: Vec<Expr> = shape.iter().map(|n| extent(*n)).collect();
            (placeholder_of(element, extents.as_slice(), name), shape.to_vec())
        };
        let given = [
            of(ElementType::F32, &[WORDS, 2 * columns + WORDS], "words"),
            of(ElementType::BF16, &[WORDS], "factors"),
            of(ElementType::F32, &[columns], "places"),
            of(ElementType::I32, &[rows], "ids"),
            of(ElementType::I32, &[columns], "others"),
        ];
        let [words, factors, places, ids, others] = given.clone().map(|(tensor, _)| tensor);
        let shape = [rows, columns];
        let chosen = |i: &Expr| ids.at([i.clone()]) + 50;
        let factor = |i: &Expr| factors.at([chosen(i)]).cast(DType::F32);
        let all: [(&str, bool, At<'_>); 5] = [
            ("words", true, &|i, j| words.at([chosen(&i), j.clone()]) + places.at([j])),
            ("words beside others", true, &|i, j| words.at([chosen(&i), &j + chosen(&i)]) - words.at([i, j])),
            ("rows and their words", false, &|i, j| words.at([chosen(&i), j * 2]) * factor(&i)),
            ("words from the end", false, &|i, j| words.at([chosen(&i), Expr::int(columns as i64) - j])),
            ("columns of any order", false, &|i, j| words.at([chosen(&i), others.at([j]) + 50])),
        ];
        for (what, is_row, of) in all {
            let x = compute_over(shape.map(extent).as_slice(), "x", |axes: &[Axis]| {
                vec![of(axes[0].into(), axes[1].into())]
            });
            let output =
                ops::layer_norm(&x.expect("it is well formed")[0], [1], None, None, 1e-5).expect("it is well formed");
            let given: Vec<(&Tensor, Vec<usize>)> =
                given.iter().map(|(tensor, shape)| (tensor, shape.clone())).collect();
            let (before, what) = (IN_ROWS.get(), format!("{what}, {rows} x {columns}"));
            check(&what, &[&output], &given, &[shape.to_vec()], 11);
            assert!(!has_vectors() || !is_row || columns < 64 || IN_ROWS.get() > before, "{what} is a loop over rows");
        }
    }
}

/// The first point whose index is wrong is named, as by steps.
#[test]
fn rows_outside_of_a_table_are_refused() {
    const SHAPE: [usize; 2] = [20, 100];
    let device = Device::cpu();
    let words = placeholder_of(ElementType::F32, [30, 120].map(extent).as_slice(), "words");
    let (ids, shifts) = ["ids", "shifts"].map(|name| placeholder_of(ElementType::I32, [extent(20)], name)).into();
    let x = compute_over(SHAPE.map(extent).as_slice(), "x", |axes: &[Axis]| {
        vec![words.at([ids.at([axes[0]]), axes[1] + shifts.at([axes[0]])])]
    });
    let output = ops::softmax(&x.expect("it is well formed")[0], 1).expect("it is well formed");
    let given = device.tensor(&vec![1.0f32; 30 * 120], [30, 120]).expect("there is memory");
    let outside = |dimension: usize, value: i64| {
        let extent = [30, 120][dimension];
        Some(format!("an index of dimension {dimension} is {value}, outside of words's extent there, {extent}"))
    };
    for (id, shift, message) in [
        (29, 20, None),
        (30, 20, outside(0, 30)),
        (-1, 0, outside(0, -1)),
        (0, 21, outside(1, 120)),
        (0, 120, outside(1, 120)),
        (0, -1, outside(1, -1)),
        (30, 21, outside(0, 30)),
    ] {
        for forced in [false, true] {
            let made = auto::build(&[&output]).expect("it has a schedule").tuning(by_code(forced, false));
            let kernel = made.build(&device).expect("it builds");
            let wrong = |value: i32| {
                let all: Vec<i32> = (0..20).map(|row| if row == 17 { value } else { 0 }).collect();
                device.tensor(&all, [20]).expect("there is memory")
            };
            let (of_ids, of_shifts) = (wrong(id), wrong(shift));
            let mut made = device.zeros::<f32>(SHAPE).expect("there is memory");
            let arguments = [
                (&words, (&given).into()),
                (&ids, (&of_ids).into()),
                (&shifts, (&of_shifts).into()),
                (&output, (&mut made).into()),
            ];
            let done = kernel.run_bound(&arguments).map_err(|error| error.to_string());
            assert_eq!(done.err(), message, "{id}, {shift}");
        }
    }
}

/// Variances and other sums of f32s as f64s: rows of all lengths have the bits of strips.
#[test]
fn sums_of_doubles_along_rows_are_one_loop() {
    let (mut random, double) = (fastrand::Rng::with_seed(36), DType::from(ElementType::F64));
    for (case, m) in [1, 3, 8, 16, 40, 64, 100, 256, 300, 1024, 2500].into_iter().enumerate() {
        let n = [70, 33, 200][case % 3];
        for element in [ElementType::F32, ElementType::F64] {
            let x = placeholder_of(element, [extent(n), extent(m)].as_slice(), "x");
            let k = reduce_axis((Expr::int(0), extent(m)), "k");
            let squares = compute_over([extent(n)].as_slice(), "squares", |axes: &[Axis]| {
                let x = x.at([Expr::from(axes[0]), k.into()]).cast(double);
                let is_small = Expr::apply(Op::Abs, vec![x.clone()]).less(1e20);
                vec![sum(is_small.select(&x * &x * 0.5, Expr::constant(1.0, double)), [k])]
            });
            let outputs = match random.u8(..3) {
                0 => ops::var(&x, 1, 1.0).map(|var| vec![var]),
                1 => ops::std(&x, 1, 0.0).map(|std| vec![std]),
                _ => squares,
            };
            let outputs = outputs.expect("it is well formed");
            let before = IN_ROWS.get();
            let what = format!("row sums {case}, {element:?}");
            check(&what, &[&outputs[0]], &[(&x, vec![n, m])], &[vec![n]], case as u64);
            // With vectors of 256 bits, only if no lanes are left over.
            let is_row = !has_vectors() || IN_ROWS.get() > before;
            assert!(m < 16 || m % 4 > 0 || is_row, "rows of {m} {element:?}");
        }
    }
}

/// Chains down columns: neighbouring outputs are lanes of 64 bits.
#[test]
fn sums_of_doubles_down_columns_are_walks() {
    let double = DType::from(ElementType::F64);
    for (case, [n, m]) in [[3, 70], [40, 64], [300, 132], [1100, 200], [70, 1030]].into_iter().enumerate() {
        for element in [ElementType::F32, ElementType::F64] {
            let x = placeholder_of(element, [extent(n), extent(m)].as_slice(), "x");
            let k = reduce_axis((Expr::int(0), extent(n)), "k");
            let squares = compute_over([extent(m)].as_slice(), "squares", |axes: &[Axis]| {
                let x = x.at([k.into(), Expr::from(axes[0])]).cast(double);
                let is_small = Expr::apply(Op::Abs, vec![x.clone()]).less(1e20);
                vec![sum(is_small.select(&x * &x * 0.5, Expr::constant(1.0, double)), [k])]
            });
            let var = ops::var(&x, 0, 1.0).expect("it is well formed");
            for (what, output) in [("squares", &squares.expect("it is well formed")[0]), ("var", &var)] {
                let what = format!("{what} down {n} x {m}, {element:?}");
                let compiled = check(&what, &[output], &[(&x, vec![n, m])], &[vec![m]], case as u64);
                assert!(m % 4 > 0 || !has_vectors() || compiled > 0, "{what}");
            }
        }
    }
}

/// Values of an output that all of its elements share, in sums of 64 bits.
#[test]
fn shared_values_of_64_bits_are_strips() {
    for (case, [n, m]) in [[70, 64], [300, 132], [90, 1000]].into_iter().enumerate() {
        for element in [ElementType::I64, ElementType::F64] {
            let (y, k) =
                (placeholder_of(element, [extent(m)].as_slice(), "y"), reduce_axis((Expr::int(0), extent(n)), "k"));
            let made = compute_over([extent(m)].as_slice(), "shared", |axes: &[Axis]| {
                let y = y.at([Expr::from(axes[0])]);
                vec![sum(&y * &y - &y, [k])]
            });
            let output = &made.expect("it is well formed")[0];
            check(&format!("shared {n} x {m}, {element:?}"), &[output], &[(&y, vec![m])], &[vec![m]], case as u64);
        }
    }
}

/// Sums of f32s beside sums of f64s, of the same elements.
#[test]
fn sums_of_two_types_have_the_bits_of_strips() {
    let double = DType::from(ElementType::F64);
    for (case, [n, m]) in [[70, 64], [40, 300], [200, 1000]].into_iter().enumerate() {
        for dimensions in [ALONG, DOWN] {
            let shape = dimensions.map(|dimension| [n, m][dimension]);
            let x = placeholder_of(ElementType::F32, shape.map(extent).as_slice(), "x");
            let k = reduce_axis((Expr::int(0), extent(m)), "k");
            let made = compute_over([extent(n)].as_slice(), "sums", |axes: &[Axis]| {
                let place = [Expr::from(axes[0]), Expr::from(k)];
                let x = x.at(dimensions.map(|dimension| place[dimension].clone()));
                let zeros = |types: &[DType]| types.iter().map(|of| Expr::constant(0.0, *of)).collect();
                let both = tuple_reducer(|x, y| vec![&x[0] + &y[0], &x[1] + &y[1]], zeros, "both");
                both.over_all(&[x.clone(), x.cast(double)], [k])
            });
            let made = made.expect("it is well formed");
            let outputs: Vec<&Tensor> = made.iter().collect();
            let what = format!("sums of two types, {n} x {m}, {dimensions:?}");
            check(&what, &outputs, &[(&x, shape.to_vec())], &[vec![n], vec![n]], case as u64);
        }
    }
}
