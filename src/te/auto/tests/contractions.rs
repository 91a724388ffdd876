//! Contractions by tiles have the bits that they have by strips, and those of plain loops where the order is exact.

use epilogue_runtime::{Device, DeviceTensor, testing};

use super::{by_code, extent, has_vectors, stored, tensor};
use crate::expr::Op;
use crate::te::auto;
use crate::te::auto::Order;
use crate::te::dtype::DType;
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::define::reducer::{max, min, sum};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::ops;
use crate::{Argument, ElementType};

/// Runs outputs by strips or by tiles, on random inputs. Gives what is stored, and the choice in words.
fn run(
    outputs: &[&Tensor],
    shapes: &[(Tensor, Vec<usize>)],
    result: &[usize],
    order: Order,
    (by_tiles, only_narrow, seed): (bool, bool, u64),
) -> (Vec<Vec<u64>>, String) {
    let device = Device::cpu();
    let kernel = auto::build(outputs)
        .expect("it has a schedule")
        .order(order)
        .tuning(by_code(by_tiles, only_narrow))
        .build(&device)
        .expect("it builds");
    let mut random = fastrand::Rng::with_seed(seed);
    let number = |tensor: &Tensor| match tensor.dtype() {
        DType::Number(element) => element,
        DType::Bool => ElementType::Bool,
    };
    let inputs: Vec<DeviceTensor> =
        shapes.iter().map(|(of, shape)| tensor(&device, &mut random, number(of), shape)).collect();
    let mut written: Vec<DeviceTensor> =
        outputs.iter().map(|output| device.zeros_of(number(output), result).expect("there is memory")).collect();
    let given = shapes.iter().zip(&inputs).filter(|((tensor, _), _)| kernel.inputs().contains(tensor));
    let mut arguments: Vec<(&Tensor, Argument<'_>)> =
        given.map(|((tensor, _), input)| (tensor, input.into())).collect();
    arguments.extend(outputs.iter().zip(&mut written).map(|(output, written)| (*output, written.into())));
    kernel.run_bound(&arguments).expect("it runs");
    (written.iter().map(stored).collect(), kernel.choice())
}

/// Compares tiles of both widths with strips, in an order. Whether there were tiles.
fn check(
    what: &str,
    outputs: &[&Tensor],
    shapes: &[(Tensor, Vec<usize>)],
    result: &[usize],
    (order, seed): (Order, u64),
) -> bool {
    let (want, _) = run(outputs, shapes, result, order, (false, false, seed));
    let mut are_tiles = false;
    for only_narrow in [true, false] {
        let (got, choice) = run(outputs, shapes, result, order, (true, only_narrow, seed));
        assert_eq!(got, want, "{what} in {order:?} by {choice}");
        are_tiles = choice.contains("tiles of");
    }
    are_tiles
}

/// An operand: a tensor whose dimensions are some of the axes, in any order.
fn operand(
    random: &mut fastrand::Rng,
    name: &str,
    axes: &[(Expr, usize)],
    (element, as_type): (ElementType, ElementType),
    shapes: &mut Vec<(Tensor, Vec<usize>)>,
) -> Expr {
    let mut axes = axes.to_vec();
    random.shuffle(&mut axes);
    let shape: Vec<usize> = axes.iter().map(|(_, extent)| *extent).collect();
    let made = placeholder_of(element, shape.iter().map(|x| extent(*x)).collect::<Vec<Expr>>(), name);
    let at: Vec<Expr> = axes.into_iter().map(|(axis, _)| axis).collect();
    let value = made.at(at.as_slice()).cast(DType::from(as_type));
    shapes.push((made, shape));
    value
}

const TYPES: [ElementType; 6] =
    [ElementType::F32, ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I8, ElementType::I32];

/// A function in a type, of elements of some types.
fn types_of(computed: ElementType) -> &'static [ElementType] {
    match computed {
        ElementType::F64 => &[ElementType::F64, ElementType::F64, ElementType::F32, ElementType::BF16],
        ElementType::I64 => &[ElementType::I64, ElementType::I64, ElementType::I32, ElementType::I8],
        ElementType::I32 => &[ElementType::I32, ElementType::I8],
        _ => &TYPES,
    }
}

/// A random contraction over one axis or two, perhaps of batches, computed in a type. Gives whether it was computed by
/// tiles, in each order.
fn random_contraction(seed: u64, computed: ElementType) -> [bool; 3] {
    let (types, is_float) = (types_of(computed), computed.is_float());
    let mut random = fastrand::Rng::with_seed(seed);
    let (n, k) = ([33, 64, 97][random.usize(..3)], [1, 2, 7, 40, 60, 1100][random.usize(..6)]);
    let (m, b, l) = ([32, 37, 41][random.usize(..3)], [1, 1, 1, 2][random.usize(..4)], [1, 1, 3][random.usize(..3)]);
    // A long axis alone is cut into parts.
    let (n, b, l) = if k > 1000 { (33, 1, 1) } else { (n, b, l) };
    let (over, second) = (reduce_axis((Expr::int(0), extent(k)), "k"), reduce_axis((Expr::int(0), extent(l)), "l"));
    let mut shapes = Vec::new();
    let made = compute_over([extent(b), extent(m), extent(n)].as_slice(), "C", |axes: &[Axis]| {
        let [batch, i, j] = [0, 1, 2].map(|d| Expr::from(axes[d]));
        let (own, other) = ((Expr::from(over), k), (Expr::from(second), l));
        let mut of = |name: &str, outer: (Expr, usize), random: &mut fastrand::Rng| {
            let mut all = vec![outer, own.clone()];
            if l > 1 {
                all.push(other.clone());
            }
            if random.bool() {
                all.push((batch.clone(), b));
            }
            let element = types[random.usize(..types.len())];
            operand(random, name, &all, (element, computed), &mut shapes)
        };
        let (x, y) = (of("A", (i.clone(), m), &mut random), of("B", (j.clone(), n), &mut random));
        let w = operand(&mut random, "W", std::slice::from_ref(&own), (computed, computed), &mut shapes);
        let v = operand(&mut random, "V", &[(j.clone(), n)], (computed, computed), &mut shapes);
        let d = &x - &y;
        let value = match random.u8(..if is_float { 8 } else { 5 }) {
            0 | 1 => x * y,
            2 if !is_float => x * y * w - v,
            2 => Expr::apply(Op::Abs, vec![d]),
            3 => x + y,
            4 => &d * &d,
            5 => Expr::apply(Op::Exp, vec![-(&d * &d)]) * w,
            6 => x * y * w + v,
            _ => i.less(own.0.clone()).select(x * 0.5, y).max(v),
        };
        let along = if l > 1 { vec![over, second] } else { vec![over] };
        vec![match random.u8(..4) {
            0 => min(value, along),
            1 => max(value, along),
            _ => sum(value, along),
        }]
    })
    .expect("it is well formed");
    let mut output = made[0].clone();
    if computed == ElementType::F32 && random.bool() {
        // What is computed of the totals.
        let bias = placeholder_of(ElementType::BF16, [extent(n)], "bias");
        shapes.push((bias.clone(), vec![n]));
        let after = compute_over([extent(b), extent(m), extent(n)].as_slice(), "D", |axes: &[Axis]| {
            let at = [0, 1, 2].map(|d| Expr::from(axes[d]));
            let value = made[0].at(at.clone()) * 0.5 + bias.at([at[2].clone()]).cast(DType::F32);
            vec![value.cast(DType::from([ElementType::F32, ElementType::F16][random.usize(..2)]))]
        });
        output = after.expect("it is well formed")[0].clone();
    }
    [Order::Device, Order::Exact, Order::Shape].map(|order| {
        let what = format!("contraction {seed} of {b} x {m} x {n} x {k} x {l}");
        check(&what, &[&output], &shapes, &[b, m, n], (order, seed))
    })
}

#[test]
fn random_contractions_have_the_same_bits() {
    let mut tiles = [0; 3];
    let count = u64::from(testing::cases(24));
    for seed in 0..count {
        let own = random_contraction(seed, ElementType::F32);
        (0..3).for_each(|order| tiles[order] += usize::from(own[order]));
    }
    if has_vectors() {
        assert!(tiles[0] >= count as usize / 2 && tiles[1] >= count as usize / 2, "{tiles:?} are tiles");
    }
    assert_eq!(tiles[2], 0, "the tree of a shape has none");
}

#[test]
fn random_contractions_of_other_types_have_the_same_bits() {
    for computed in [ElementType::F64, ElementType::I64, ElementType::I32] {
        let count = u64::from(testing::cases(10));
        let tiles = (0..count).filter(|seed| random_contraction(1000 + seed, computed)[1]).count();
        assert!(!has_vectors() || tiles >= count as usize / 3, "{tiles} of {computed:?} are tiles");
    }
}

fn product(shape: [usize; 3]) -> (Tensor, Vec<(Tensor, Vec<usize>)>) {
    let [m, n, depth] = shape;
    let a = placeholder_of(ElementType::F32, [extent(m), extent(depth)], "A");
    let b = placeholder_of(ElementType::F32, [extent(depth), extent(n)], "B");
    let k = reduce_axis((Expr::int(0), extent(depth)), "k");
    let made = compute_over([extent(m), extent(n)].as_slice(), "C", |axes: &[Axis]| {
        vec![sum(a.at([Expr::from(axes[0]), k.into()]) * b.at([Expr::from(k), axes[1].into()]), [k])]
    });
    (made.expect("it is well formed")[0].clone(), vec![(a, vec![m, depth]), (b, vec![depth, n])])
}

#[test]
fn exact_products_are_those_of_a_loop() {
    for (number, shape) in [[67, 131, 53], [4, 300, 7], [1, 2048, 3], [40, 40, 0], [32, 32, 1]].into_iter().enumerate()
    {
        let ([m, n, depth], seed) = (shape, number as u64);
        let (output, shapes) = product(shape);
        let (got, choice) = run(&[&output], &shapes, &[m, n], Order::Exact, (true, false, seed));
        assert_eq!(got[0].len(), m * n);
        let (device, mut random) = (Device::cpu(), fastrand::Rng::with_seed(seed));
        let mut input = |at: usize| tensor(&device, &mut random, ElementType::F32, &shapes[at].1).to_vec::<f32>();
        let (a, b) = (input(0).expect("it is read"), input(1).expect("it is read"));
        for (output, got) in got[0].iter().enumerate() {
            let (i, j) = (output / n, output % n);
            let want = (0..depth).fold(0.0, |total, k| total + a[i * depth + k] * b[k * n + j]);
            let want = if want.is_nan() { u64::MAX } else { u64::from(want.to_bits()) };
            assert_eq!(*got, want, "{shape:?} at {i}, {j} by {choice}");
        }
    }
}

#[test]
fn the_choice_says_how_to_get_a_product() {
    let (output, shapes) = product([64, 64, 64]);
    let (_, choice) = run(&[&output], &shapes, &[64, 64], Order::Device, (true, false, 1));
    assert!(choice.contains("epilogue::fuse"), "{choice}");
    assert!(!has_vectors() || choice.contains("tiles of"), "{choice}");
}

#[test]
fn the_places_of_least_sums_are_found_by_tiles() {
    for (seed, (m, n, depth)) in [(40, 70, 33), (32, 65, 1)].into_iter().enumerate() {
        let a = placeholder_of(ElementType::F32, [extent(m), extent(depth)], "A");
        let b = placeholder_of(ElementType::F32, [extent(depth), extent(n)], "B");
        let sums = compute_over([extent(m), extent(n), extent(depth)].as_slice(), "S", |axes: &[Axis]| {
            let [i, j, k] = [0, 1, 2].map(|d| Expr::from(axes[d]));
            vec![a.at([i, k.clone()]) + b.at([k, j])]
        });
        let place = ops::argmin(&sums.expect("it is well formed")[0], [2]).expect("it is well formed");
        let shapes = [(a, vec![m, depth]), (b, vec![depth, n])];
        for order in [Order::Device, Order::Exact] {
            let are_tiles = check("argmin", &[&place], &shapes, &[m, n], (order, seed as u64));
            assert!(are_tiles || !has_vectors() || depth == 1, "argmin in {order:?}");
        }
    }
}

#[test]
fn windows_of_images_are_packed() {
    let (images, channels, filters, size, window) = (2, 5, 9, 14, 3);
    let x = placeholder_of(ElementType::F32, [images, channels, size, size].map(extent), "x");
    let w = placeholder_of(ElementType::F32, [filters, channels, window, window].map(extent), "w");
    let y = ops::conv2d(&x, &w, ops::Convolution::new()).expect("it is well formed");
    let shapes = [(x, vec![images, channels, size, size]), (w, vec![filters, channels, window, window])];
    let result = [images, filters, size - window + 1, size - window + 1];
    for order in [Order::Device, Order::Exact] {
        let are_tiles = check("convolution", &[&y], &shapes, &result, (order, 5));
        assert!(are_tiles || !has_vectors(), "a convolution in {order:?}");
    }
}
