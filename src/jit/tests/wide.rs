//! Bodies with lanes of 64 bits against plain loops: tiles, and stages of rows.

use super::super::x86_64::Width;
use crate::expr::Op;
use crate::jit::{Binary, Body, JitValue, Lane, RowKernel, RowProgram, TileKernel};

const WIDTHS: [Width; 2] = [Width::Bits256, Width::Bits512];

fn doubles(random: &mut fastrand::Rng, count: usize) -> Vec<f64> {
    const SPECIAL: [f64; 8] = [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 5e-324];
    let number = |random: &mut fastrand::Rng| match random.u8(..4) {
        0 => SPECIAL[random.usize(..SPECIAL.len())],
        1 => f64::from_bits(random.u64(..)),
        _ => (random.f64() - 0.5) * 4.0,
    };
    (0..count).map(|_| number(random)).collect()
}

fn integers(random: &mut fastrand::Rng, count: usize) -> Vec<i64> {
    let number = |random: &mut fastrand::Rng| match random.u8(..4) {
        0 => [0, -1, 1, i64::MIN, i64::MAX, 1 << 32, -(1 << 32)][random.usize(..7)],
        1 => random.i64(-9..9),
        _ => random.i64(..),
    };
    (0..count).map(|_| number(random)).collect()
}

/// A function of the operands of a row and of a column, and of the total.
type Make = fn(&mut Body, JitValue, JitValue, JitValue) -> Option<JitValue>;

/// That function in plain code.
type Scalar<T> = fn(T, T, T) -> T;

fn body(make: Make) -> Body {
    let mut body = Body::wide();
    let (a, b, (argument, total)) = (body.of_row(), body.of_column(), body.total());
    let value = make(&mut body, a, b, total).expect("there is code");
    body.set(argument, value);
    body
}

/// Runs tiles of all widths on random bits, and compares them with a function of bits.
fn check(
    body: &Body,
    random: impl Fn(&mut fastrand::Rng, usize) -> Vec<u64>,
    scalar: impl Fn(u64, u64, u64) -> u64,
    same: fn(u64, u64) -> bool,
) {
    let mut source = fastrand::Rng::with_seed(64);
    for (width, extents) in WIDTHS.into_iter().flat_map(|width| [[1, 1], [7, 20], [512, 512]].map(|all| (width, all))) {
        let Some(kernel) = TileKernel::at_level(body, extents, width) else {
            assert!(!is_x86_feature_detected!("avx2") || width == Width::Bits512, "{width:?} has code");
            continue;
        };
        let [rows, columns] = kernel.shape();
        for elements in [0, 1, 2, 9] {
            let [a, b, old] =
                [elements * rows, elements * columns, rows * columns].map(|count| random(&mut source, count));
            let mut got = old.clone();
            // SAFETY: there are operands of so many elements, and a tile's totals.
            unsafe { kernel.run(a.as_ptr().cast(), b.as_ptr().cast(), got.as_mut_ptr().cast(), elements) };
            for output in 0..rows * columns {
                let (row, column) = (output / columns, output % columns);
                let want = (0..elements).fold(old[output], |total, element| {
                    scalar(a[element * rows + row], b[element * columns + column], total)
                });
                assert!(same(got[output], want), "{width:?}, output {output}: {:x}, not {want:x}", got[output]);
            }
        }
    }
}

#[test]
fn tiles_of_doubles_combine_every_output() {
    let cases: [(Make, Scalar<f64>); 6] = [
        (|body, a, b, t| body.apply_f64(Op::Fma, [a, b, t]), |a, b, t| a.mul_add(b, t)),
        (
            |body, a, b, t| {
                let d = body.apply_f64(Op::Sub, [a, b, b])?;
                let d = body.apply_f64(Op::Abs, [d; 3])?;
                body.apply_f64(Op::Add, [t, d, d])
            },
            |a, b, t| t + (a - b).abs(),
        ),
        (
            |body, a, b, t| {
                let x = body.apply_f64(Op::Mul, [a, b, b])?;
                body.apply_f64(Op::Min, [t, x, x])
            },
            |a, b, t| crate::simd::Float::minimum(t, a * b),
        ),
        (
            |body, a, b, t| {
                let x = body.apply_f64(Op::Div, [a, b, b])?;
                body.apply_f64(Op::Max, [t, x, x])
            },
            |a, b, t| crate::simd::Float::maximum(t, a / b),
        ),
        (
            |body, a, b, t| {
                let less = body.compare_f64(Op::Lt, a, b)?;
                let negative = body.apply_f64(Op::Neg, [t; 3])?;
                Some(body.select(less, negative, a))
            },
            |a, b, t| if a < b { -t } else { a },
        ),
        (
            |body, a, b, t| {
                let root = body.apply_f64(Op::Sqrt, [a; 3])?;
                let (root, half) = (body.apply_f64(Op::Rsqrt, [root; 3])?, body.double(0.5));
                let b = body.apply_f64(Op::Recip, [b; 3])?;
                let x = body.apply_f64(Op::Fma, [root, half, b])?;
                body.apply_f64(Op::Add, [t, x, x])
            },
            |a, b, t| t + (1.0 / a.sqrt().sqrt()).mul_add(0.5, 1.0 / b),
        ),
    ];
    for (make, scalar) in cases {
        check(
            &body(make),
            |random, count| doubles(random, count).into_iter().map(f64::to_bits).collect(),
            |a, b, t| scalar(f64::from_bits(a), f64::from_bits(b), f64::from_bits(t)).to_bits(),
            |a, b| a == b || (f64::from_bits(a).is_nan() && f64::from_bits(b).is_nan()),
        );
    }
}

#[test]
fn tiles_of_long_integers_combine_every_output() {
    let cases: [(Make, Scalar<i64>); 5] = [
        (
            |body, a, b, t| {
                let x = body.apply_i64(Op::Mul, a, b)?;
                body.apply_i64(Op::Add, t, x)
            },
            |a, b, t| t.wrapping_add(a.wrapping_mul(b)),
        ),
        (
            |body, a, b, t| {
                let x = body.apply_i64(Op::Sub, a, b)?;
                body.apply_i64(Op::Min, t, x)
            },
            |a, b, t| t.min(a.wrapping_sub(b)),
        ),
        (
            |body, a, b, t| {
                let x = body.apply_i64(Op::Neg, a, a)?;
                let x = body.apply_i64(Op::Max, x, b)?;
                body.apply_i64(Op::Max, t, x)
            },
            |a, b, t| t.max(a.wrapping_neg().max(b)),
        ),
        (
            |body, a, b, t| {
                let (greater, _) = body.compare_i64(Op::Gt, a, b)?;
                Some(body.select(greater, t, b))
            },
            |a, b, t| if a > b { t } else { b },
        ),
        (
            |body, a, b, t| {
                let (differs, is_not) = body.compare_i64(Op::Ne, a, b)?;
                assert!(is_not, "equality is the instruction");
                Some(body.select(differs, a, t))
            },
            |a, b, t| if a == b { a } else { t },
        ),
    ];
    for (make, scalar) in cases {
        check(
            &body(make),
            |random, count| integers(random, count).into_iter().map(i64::cast_unsigned).collect(),
            |a, b, t| scalar(a.cast_signed(), b.cast_signed(), t.cast_signed()).cast_unsigned(),
            |a, b| a == b,
        );
    }
}

/// Values that are `lanes` apart in their order, and then neighbours.
fn tree(values: &[f64], lanes: usize, identity: f64) -> f64 {
    let mut all = vec![identity; lanes];
    values.iter().enumerate().for_each(|(i, x)| all[i % lanes] += x);
    while all.len() > 1 {
        all = all.chunks(2).map(|pair| pair[0] + pair[1]).collect();
    }
    all[0]
}

#[test]
fn rows_of_floats_are_summed_in_wide_stages() {
    const ROWS: usize = 3;
    let mut random = fastrand::Rng::with_seed(7);
    for count in (1..70).chain([127, 128, 255, 300, 512]) {
        let lanes = if count >= 256 { 32 } else { 8 };
        let mut program = RowProgram::new(count);
        let [sum, squares] = [(); 2].map(|()| program.place());
        // The sum of all as f64s, beside the largest of the f32s.
        let mut first = Body::wide();
        let x = first.load(Lane::F32);
        first.combine_wide(Binary::AddF64, 0f64.to_bits(), x, sum, Some(lanes));
        program.each(first);
        let mut narrow = Body::default();
        let x = narrow.load(Lane::F32);
        let largest = narrow.extreme(&mut program, true, f32::NEG_INFINITY.to_bits(), x);
        program.each(narrow);
        // Squares of distances from a value in memory, with f64s.
        let mut second = Body::wide();
        let (x, y, from) = (second.load(Lane::F32), second.load(Lane::F64), second.wide_uniform());
        let distance = second.apply_f64(Op::Sub, [x, from, from]).expect("there is code");
        let square = second.apply_f64(Op::Fma, [distance, distance, y]).expect("there is code");
        second.store(Lane::F64, square);
        second.combine_wide(Binary::AddF64, 0f64.to_bits(), square, squares, Some(lanes));
        program.each(second);
        let mut once = Body::default();
        let (sum, squares, largest) = (once.held(sum), once.held(squares), largest.value(&mut once));
        let root = once.apply_f64(Op::Sqrt, [squares; 3]).expect("there is code");
        once.store(Lane::F64, sum);
        once.store(Lane::F64, root);
        once.store(Lane::F32, largest);
        program.once(once);
        let x: Vec<f32> = (0..ROWS * count).map(|_| random.f32() - 0.5).collect();
        let y = doubles(&mut random, ROWS * count);
        let from = doubles(&mut random, ROWS);
        for width in WIDTHS {
            let has_tails = width == Width::Bits512 || count.is_multiple_of(4);
            let Some(kernel) = RowKernel::at_level(&program, width) else {
                let is_there = is_x86_feature_detected!("avx2") && width == Width::Bits256;
                assert!(!(is_there && has_tails), "{width:?}, {count}");
                continue;
            };
            assert!(has_tails, "AVX2 leaves out no lanes of 64 bits");
            let mut squares = vec![7f64; ROWS * count];
            let (mut sums, mut roots, mut most) = ([0f64; ROWS], [0f64; ROWS], [0f32; ROWS]);
            let at = |x: *const u8| x.cast_mut();
            let row = count as isize;
            let arguments = [
                (at(x.as_ptr().cast()), 4 * row),
                (at(x.as_ptr().cast()), 4 * row),
                (at(x.as_ptr().cast()), 4 * row),
                (at(y.as_ptr().cast()), 8 * row),
                (at(from.as_ptr().cast()), 8),
                (squares.as_mut_ptr().cast(), 8 * row),
                (sums.as_mut_ptr().cast(), 8),
                (roots.as_mut_ptr().cast(), 8),
                (most.as_mut_ptr().cast(), 4),
            ];
            let (mut addresses, apart): (Vec<*mut u8>, Vec<isize>) = arguments.into_iter().unzip();
            // SAFETY: every row has its elements, and a place for each result.
            unsafe { kernel.run(&mut addresses, &apart, ROWS) };
            for r in 0..ROWS {
                let own = r * count..(r + 1) * count;
                let wide: Vec<f64> = x[own.clone()].iter().map(|x| f64::from(*x)).collect();
                let all: Vec<f64> = wide
                    .iter()
                    .zip(&y[own.clone()])
                    .map(|(x, y)| {
                        let distance = x - from[r];
                        distance.mul_add(distance, *y)
                    })
                    .collect();
                let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                let text = || format!("{width:?}, {count} lanes, row {r}");
                assert!(same(sums[r], tree(&wide, lanes as usize, 0.0)), "{}", text());
                assert!(same(roots[r], tree(&all, lanes as usize, 0.0).sqrt()), "{}", text());
                assert!(squares[own.clone()].iter().zip(&all).all(|(a, b)| same(*a, *b)), "{}", text());
                assert_eq!(most[r], x[own].iter().copied().fold(f32::NEG_INFINITY, f32::max), "{}", text());
            }
        }
    }
}
