//! Tiles against plain loops.

use super::super::x86_64::Width;
use super::{numbers, same};
use crate::jit::{Binary, Body, JitValue, TileKernel};
use crate::tuning::Vectors;

/// A function in a tile of a row's operands, a column's and the totals.
type Scalar = fn([f32; 2], [f32; 2], [f32; 2]) -> [f32; 2];

/// A body, the numbers of operands of rows, of columns and of totals, and the same in plain code.
struct Case {
    body: Body,
    counts: [usize; 3],
    scalar: Scalar,
}

fn case(
    counts: [usize; 3],
    scalar: Scalar,
    make: impl Fn(&mut Body, &[JitValue], &[JitValue], &[JitValue]) -> Vec<JitValue>,
) -> Case {
    let mut body = Body::default();
    let rows: Vec<JitValue> = (0..counts[0]).map(|_| body.of_row()).collect();
    let columns: Vec<JitValue> = (0..counts[1]).map(|_| body.of_column()).collect();
    let totals: Vec<(usize, JitValue)> = (0..counts[2]).map(|_| body.total()).collect();
    let old: Vec<JitValue> = totals.iter().map(|(_, value)| *value).collect();
    let new = make(&mut body, &rows, &columns, &old);
    totals.iter().zip(new).for_each(|((argument, _), value)| body.set(*argument, value));
    Case { body, counts, scalar }
}

fn cases() -> Vec<Case> {
    vec![
        case(
            [1, 1, 1],
            |[a, _], [b, _], [t, _]| [a.mul_add(b, t), 0.0],
            |body, a, b, t| vec![body.fma(a[0], b[0], t[0])],
        ),
        case(
            [1, 1, 1],
            |[a, _], [b, _], [t, _]| [t + (a - b).abs(), 0.0],
            |body, a, b, t| {
                let d = body.sub(a[0], b[0]);
                let d = body.abs(d);
                vec![body.add(t[0], d)]
            },
        ),
        // The product with itself: the total is a factor, too.
        case(
            [1, 1, 1],
            |[a, _], [b, _], [t, _]| [t.mul_add(t, a * b), 0.0],
            |body, a, b, t| {
                let ab = body.mul(a[0], b[0]);
                vec![body.fma(t[0], t[0], ab)]
            },
        ),
        // The least, and an operand of where it is.
        case(
            [2, 1, 2],
            |[a, i], [b, _], [t, at]| if a + b < t { [a + b, i] } else { [t, at] },
            |body, a, b, t| {
                let x = body.add(a[0], b[0]);
                let less = body.binary(Binary::Less, x, t[0]);
                vec![body.select(less, x, t[0]), body.select(less, a[1], t[1])]
            },
        ),
        case(
            [2, 2, 1],
            |[a, c], [b, d], [t, _]| [t + ((a - b) * 0.25 + c) / d, 0.0],
            |body, a, b, t| {
                let quarter = body.float(0.25);
                let x = body.sub(a[0], b[0]);
                let x = body.mul(x, quarter);
                let x = body.add(x, a[1]);
                let x = body.div(x, b[1]);
                vec![body.add(t[0], x)]
            },
        ),
        // A total that is not combined, and one that is set to an operand.
        case(
            [1, 1, 2],
            |[a, _], [b, _], [t, _]| [t, if a > b { a } else { b }],
            |body, a, b, t| {
                let x = body.binary(Binary::FirstGreater, a[0], b[0]);
                vec![t[0], x]
            },
        ),
    ]
}

#[test]
fn tiles_combine_every_output_with_every_element() {
    let mut random = fastrand::Rng::with_seed(51);
    for (number, Case { body, counts: [of_row, of_column, totals], scalar }) in cases().into_iter().enumerate() {
        for (width, extents) in [Width::Bits256, Width::Bits512]
            .into_iter()
            .flat_map(|width| [[1, 1], [7, 40], [512, 512]].map(|all| (width, all)))
        {
            let Some(kernel) = TileKernel::at_level(&body, extents, width) else { continue };
            let [rows, columns] = kernel.shape();
            assert!(extents != [512, 512] || rows * columns >= 32, "{rows} x {columns} outputs in registers");
            for elements in [0, 1, 2, 9] {
                let a = numbers(&mut random, elements * of_row * rows);
                let b = numbers(&mut random, elements * of_column * columns);
                let old = numbers(&mut random, totals * rows * columns);
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
                let mut got = bits(&old);
                // SAFETY: there are operands of so many elements, and a tile's totals.
                unsafe { kernel.run(a.as_ptr().cast(), b.as_ptr().cast(), got.as_mut_ptr().cast(), elements) };
                for output in 0..rows * columns {
                    let (row, column) = (output / columns, output % columns);
                    let mut want = [0.0; 2];
                    (0..totals).for_each(|total| want[total] = old[total * rows * columns + output]);
                    for element in 0..elements {
                        let operands = |x: &[f32], count: usize, extent: usize, at: usize| {
                            let mut own = [0.0; 2];
                            (0..count).for_each(|n| own[n] = x[(element * count + n) * extent + at]);
                            own
                        };
                        want = scalar(operands(&a, of_row, rows, row), operands(&b, of_column, columns, column), want);
                    }
                    for total in 0..totals {
                        let got = f32::from_bits(got[total * rows * columns + output]);
                        assert!(
                            same(got, want[total]),
                            "case {number}, {width:?}, output {output}: {got}, not {}",
                            want[total]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_total_that_becomes_another_is_no_tile() {
    let mut body = Body::default();
    let ((first, x), (second, y)) = (body.total(), body.total());
    body.set(first, y);
    body.set(second, x);
    assert!(TileKernel::compile(&body, [8, 8], Vectors::Longest).is_none());
}
