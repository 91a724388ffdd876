//! Maps over rows that indices choose: machine code has the bits and the errors of steps.

use epilogue_runtime::{Device, testing};

use super::{COMPILED, Expressions, by_code, check, extent, has_vectors, inputs};
use crate::ElementType::{BF16, F16, F32, I32};
use crate::te::auto;
use crate::te::dtype::DType;
use crate::te::expr::axis::Axis;
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::ops;

/// A map of two axes, with one to three reads at computed rows.
struct RandomMap {
    output: Tensor,
    shape: [usize; 2],
    given: Vec<(Tensor, Vec<usize>)>,
}

fn map(random: &mut fastrand::Rng) -> RandomMap {
    let (shape, height) = ([random.usize(1..60), random.usize(4..150)], random.usize(1..50));
    let width = 2 * shape[1] + 3;
    let mut given = inputs(random, &shape);
    let of_rows = random.usize(..given.len());
    let table = placeholder_of([F32, F16, BF16][random.usize(..3)], [extent(height), extent(width)], "table");
    let (places, next) =
        (placeholder_of(I32, [extent(shape[0])], "places"), placeholder_of(I32, [extent(height)], "next"));
    let output = compute_over(shape.map(extent).as_slice(), "C", |axes: &[Axis]| {
        let [i, j] = [Expr::from(axes[0]), Expr::from(axes[1])];
        let mut all = Expressions { random, floats: vec![], integers: vec![i.clone(), j.clone()] };
        for _ in 0..all.random.usize(1..4) {
            let within = |index: Expr| index.floor_mod(height);
            let place = places.at([i.clone()]);
            let row = match all.random.u8(..4) {
                0 => within(place),
                1 => within(next.at([within(place)])),
                2 => within(place + &i),
                _ => within(i.floor_div(3)),
            };
            let column = match all.random.u8(..12) {
                0 => &j * 2 + 1,
                1 => Expr::int(shape[1] as i64 - 1) - &j,
                2 => Expr::int(3),
                _ => &j + 2,
            };
            all.floats.push(table.at([row, column]).cast(DType::F32));
        }
        let (tensor, own) = &given[of_rows];
        let at = [i.clone(), j.clone()];
        if own.as_slice() == &shape[2 - own.len()..] {
            all.floats.push(tensor.at(&at[2 - own.len()..]).cast(DType::F32));
        }
        for _ in 0..all.random.usize(0..6) {
            all.grow();
        }
        let last = all.floats.len() - 1;
        vec![&all.floats[last] + &all.floats[0]]
    });
    given.extend([(table, vec![height, width]), (places, vec![shape[0]]), (next, vec![height])]);
    RandomMap { output: output.expect("it is well formed").remove(0), shape, given }
}

#[test]
fn random_maps_have_the_same_bits() {
    let (count, mut compiled) = (u64::from(testing::cases(120)), 0);
    for seed in 0..count {
        let mut random = fastrand::Rng::with_seed(seed);
        let RandomMap { output, shape, given } = map(&mut random);
        let given: Vec<(&Tensor, Vec<usize>)> = given.iter().map(|(tensor, shape)| (tensor, shape.clone())).collect();
        let loops = check(&format!("map {seed} of {shape:?}"), &[&output], &given, &[shape.to_vec()], seed);
        compiled += u64::from(loops > 0);
    }
    assert!(!has_vectors() || compiled * 3 > count, "{compiled} of {count} maps are compiled");
}

/// Indices outside of the table are named, whichever row of a strip they choose.
#[test]
fn wrong_rows_are_named_by_code_as_by_steps() {
    let (rows, columns, height) = (700, 24, 50);
    let table = placeholder_of(F32, [extent(height), extent(columns)], "table");
    let places = placeholder_of(I32, [extent(rows)], "places");
    let picked = ops::gather(&table, &places, 0).expect("it is well formed");
    let device = Device::cpu();
    let values: Vec<f32> = (0..height * columns).map(|x| x as f32).collect();
    let values = device.tensor(&values, [height, columns]).expect("there is memory");
    for (wrong, to) in [(0, -1), (0, 50), (1, 50), (340, i32::MIN), (341, i32::MAX), (699, 77)] {
        let mut indices: Vec<i32> = (0..rows).map(|row| (row * 7 % height) as i32).collect();
        let right = indices.clone();
        indices[wrong] = to;
        let [indices, right] = [indices, right].map(|all| device.tensor(&all, [rows]).expect("there is memory"));
        let mut messages = Vec::new();
        for code in [false, true] {
            let before = COMPILED.get();
            let made = auto::build(&[&picked]).expect("it has a schedule").tuning(by_code(code, false));
            let kernel = made.build(&device).expect("it builds");
            let mut result = device.zeros::<f32>([rows, columns]).expect("there is memory");
            let mut run = |indices| {
                let arguments = [(&table, (&values).into()), (&places, indices), (&picked, (&mut result).into())];
                kernel.run_bound(&arguments)
            };
            messages.push(run((&indices).into()).expect_err("an index is outside").to_string());
            run((&right).into()).expect("all indices are inside");
            let row = |row: usize| (row * 7 % height * columns..).take(columns).map(|x| x as f32);
            assert_eq!(result.to_vec::<f32>().expect("it is read"), (0..rows).flat_map(row).collect::<Vec<f32>>());
            assert_eq!(COMPILED.get() > before, code && has_vectors());
        }
        assert_eq!(messages[0], messages[1]);
        assert!(messages[0].contains(&to.to_string()), "{}", messages[0]);
    }
}

/// Statistics of a group are the same for each of its channels, and what is computed of them, for a row.
#[test]
fn group_norms_have_the_same_bits() {
    for (seed, shape) in [[2, 6, 5, 40], [3, 4, 1, 100], [1, 8, 7, 9]].into_iter().enumerate() {
        let a = placeholder_of([F32, BF16, F16][seed], shape.map(extent), "A");
        let weight = placeholder_of(F32, [extent(shape[1])], "W");
        let output = ops::group_norm(&a, 2, Some(&weight), None, 1e-5).expect("it is well formed");
        let given = [(&a, shape.to_vec()), (&weight, vec![shape[1]])];
        let compiled = check(&format!("a norm of {shape:?}"), &[&output], &given, &[shape.to_vec()], seed as u64);
        assert!(!has_vectors() || compiled > 0, "{shape:?}");
    }
}
